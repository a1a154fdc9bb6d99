//! Makes `data/calibration/v6e.toml` and the tables of `calibration/README.md` anew.
//!
//! ```text
//! calibrate 0.0.50.1=FOLDER [0.0.17.1=FOLDER ...]
//! ```
//!
//! A folder holds `<workload>.pb`: the optimized HLO modules (`xla.HloModuleProto`) that the named
//! build of libtpu makes of `calibration/programs` for one v6e chip. The first build's accuracy is
//! the one that stands in the data file.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use knowledge::calibration::{Compiled, refit};
use profiler::chip::Generation;
use profiler::program::read_hlo_proto;

/// The tables of the documentation stand between these lines.
const MARKS: (&str, &str) = (
    "<!-- made by calibrate -->\n",
    "<!-- end of what calibrate made -->\n",
);

fn main() -> ExitCode {
    match calibrate() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            use io::Write as _;
            let _ = writeln!(io::stderr(), "calibrate: {error}");
            ExitCode::from(2)
        }
    }
}

fn calibrate() -> Result<(), Box<dyn std::error::Error>> {
    let mut compiled = Vec::new();
    for argument in std::env::args().skip(1) {
        let (build, folder) = argument
            .split_once('=')
            .ok_or_else(|| format!("{argument}: expected BUILD=FOLDER, as 0.0.50.1=dumps"))?;
        read_folder(build, Path::new(folder), &mut compiled)?;
    }
    let refit = refit(Generation::V6e, &compiled)?;
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    fs::write(root.join("data/calibration/v6e.toml"), refit.toml())?;
    let page = root.join("calibration/README.md");
    let text = fs::read_to_string(&page)?;
    let (before, rest) = text
        .split_once(MARKS.0)
        .ok_or("README.md: no place marked")?;
    let (_, after) = rest.split_once(MARKS.1).ok_or("README.md: no end marked")?;
    let tables = refit.markdown();
    fs::write(
        &page,
        format!("{before}{}{tables}{}{after}", MARKS.0, MARKS.1),
    )?;
    Ok(())
}

fn read_folder(build: &str, folder: &Path, into: &mut Vec<Compiled>) -> io::Result<()> {
    let mut paths: Vec<PathBuf> = fs::read_dir(folder)?
        .map(|entry| entry.map(|entry| entry.path()))
        .collect::<Result<_, _>>()?;
    paths.sort();
    for path in paths {
        if path.extension().is_none_or(|extension| extension != "pb") {
            continue;
        }
        let name = path.file_stem().unwrap_or_default().to_string_lossy();
        let (program, _) = read_hlo_proto(&fs::read(&path)?);
        into.push(Compiled {
            workload: name.into_owned(),
            build: build.to_owned(),
            program,
        });
    }
    Ok(())
}
