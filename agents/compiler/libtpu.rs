//! Where the TPU compiler is on this machine: the user's libtpu, never one of ours.

use std::env;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::cache::cache_folder;

/// The compiler's shared library.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Libtpu {
    /// The file.
    pub path: PathBuf,
    /// Version of the wheel that it came in, as `0.0.50.1`.
    pub version: Option<String>,
    /// How it was found, for people.
    pub found: String,
}

/// There is none, or the one that was named is not there.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FindError {
    /// A path was named and has no such file.
    #[error("there is no libtpu at {path} ({named}): name the file libtpu.so or its folder")]
    NotThere {
        /// The path.
        path: String,
        /// Who named it.
        named: &'static str,
    },
    /// None was found.
    #[error(
        "this needs the TPU compiler, libtpu, which was not found: looked at --libtpu, TPU_LIBRARY_PATH, {python} and {cache}; install it with `pip install libtpu` (no TPU is needed) or `tpu-tune doctor --install-libtpu`"
    )]
    NotFound {
        /// The Python that was asked.
        python: String,
        /// The folder of `doctor --install-libtpu`.
        cache: String,
    },
}

/// Prints where the libtpu package lies, without importing it.
const LOCATE: &str = "import importlib.util as u; s = u.find_spec('libtpu'); \
     print(s.submodule_search_locations[0] if s and s.submodule_search_locations else '')";

/// Finds libtpu: the path that the user named, `TPU_LIBRARY_PATH`, the active Python's package,
/// the cache of `doctor --install-libtpu`.
///
/// # Errors
/// When there is none, or what was named does not exist.
pub fn find(named: Option<&Path>) -> Result<Libtpu, FindError> {
    if let Some(path) = named {
        return at(path, "--libtpu").ok_or_else(|| FindError::NotThere {
            path: path.display().to_string(),
            named: "--libtpu",
        });
    }
    if let Some(path) = env::var_os("TPU_LIBRARY_PATH").filter(|path| !path.is_empty()) {
        let path = PathBuf::from(path);
        return at(&path, "TPU_LIBRARY_PATH").ok_or_else(|| FindError::NotThere {
            path: path.display().to_string(),
            named: "TPU_LIBRARY_PATH",
        });
    }
    let python = python();
    if let Some(python) = &python
        && let Some(folder) = ask(python, LOCATE).filter(|folder| !folder.is_empty())
        && let Some(found) = at(
            Path::new(&folder),
            &format!("package of {}", python.display()),
        )
    {
        return Ok(found);
    }
    let own = install_folder();
    if let Some(found) = own
        .as_deref()
        .and_then(|own| at(&own.join("libtpu"), "tpu-tune's own cache"))
    {
        return Ok(found);
    }
    Err(FindError::NotFound {
        python: python.map_or_else(
            || "a Python (there is none on PATH)".to_owned(),
            |python| format!("the package of {}", python.display()),
        ),
        cache: own.map_or_else(
            || "tpu-tune's own cache".to_owned(),
            |own| own.display().to_string(),
        ),
    })
}

/// The library at a path or in a folder.
fn at(path: &Path, found: &str) -> Option<Libtpu> {
    let file = if path.is_dir() {
        path.join("libtpu.so")
    } else {
        path.to_owned()
    };
    if !file.is_file() {
        return None;
    }
    Some(Libtpu {
        version: wheel_version(&file),
        path: file,
        found: found.to_owned(),
    })
}

/// The version in the name of the wheel's `dist-info` folder, which lies beside the package.
fn wheel_version(file: &Path) -> Option<String> {
    let site_packages = file.parent()?.parent()?;
    let mut versions: Vec<String> = site_packages
        .read_dir()
        .ok()?
        .filter_map(|entry| {
            let name = entry.ok()?.file_name().into_string().ok()?;
            let version = name.strip_prefix("libtpu-")?.strip_suffix(".dist-info")?;
            Some(version.to_owned())
        })
        .collect();
    versions.sort();
    versions.pop()
}

/// Where `doctor --install-libtpu` puts the wheel.
#[must_use]
pub fn install_folder() -> Option<PathBuf> {
    Some(cache_folder()?.join("site-packages"))
}

/// The Python that the user has activated, else the first on `PATH`.
#[must_use]
pub fn python() -> Option<PathBuf> {
    let active = env::var_os("VIRTUAL_ENV")
        .map(|venv| PathBuf::from(venv).join("bin/python"))
        .filter(|python| python.is_file());
    active.or_else(|| {
        let path = env::var_os("PATH")?;
        env::split_paths(&path)
            .flat_map(|folder| [folder.join("python3"), folder.join("python")])
            .find(|python| python.is_file())
    })
}

/// What a Python prints for a line of code.
fn ask(python: &Path, code: &str) -> Option<String> {
    let output = Command::new(python)
        // Isolated: nothing in the working directory is imported.
        .args(["-I", "-c", code])
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .output()
        .ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| text.trim().to_owned())
}
