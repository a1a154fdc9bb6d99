//! The program as a shell sees it: what it prints where, and what it exits with.

mod diff;
mod inputs;
mod memory;
mod mfu;
mod output;
mod parity;
mod sarif;
mod schema;
mod screens;

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use tempfile::TempDir;

use crate::support::profile::TpuProfile;
use crate::support::{scenarios, xspace};

/// A folder to run the program in, so that paths in its output are the same everywhere.
pub(crate) struct Folder(TempDir);

impl Folder {
    pub(crate) fn new() -> Self {
        Self(tempfile::tempdir().expect("a temporary folder"))
    }

    /// A folder that holds the profile of a scenario as `run.xplane.pb`.
    pub(crate) fn with(profile: &TpuProfile) -> Self {
        let folder = Self::new();
        folder.write("run.xplane.pb", &xspace::to_bytes(profile));
        folder
    }

    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }

    /// Writes a file and the folders above it.
    pub(crate) fn write(&self, name: &str, bytes: &[u8]) -> PathBuf {
        let path = self.path().join(name);
        std::fs::create_dir_all(path.parent().expect("a parent")).expect("disk has room");
        std::fs::write(&path, bytes).expect("disk has room");
        path
    }

    /// The program with the folder as its own, nothing run yet.
    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(assert_cmd::cargo::cargo_bin!("tpu-tune"));
        command.current_dir(self.path()).args(args);
        for name in ["NO_COLOR", "CLICOLOR", "CLICOLOR_FORCE", "FORCE_COLOR"] {
            command.env_remove(name);
        }
        command
    }

    /// Runs the program there.
    pub(crate) fn run(&self, args: &[&str]) -> Ran {
        Ran::from(self.command(args).output().expect("the program starts"))
    }
}

/// What a run of the program left.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) code: i32,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl From<Output> for Ran {
    fn from(output: Output) -> Self {
        Self {
            code: output.status.code().expect("no signal"),
            out: String::from_utf8(output.stdout).expect("UTF-8"),
            err: String::from_utf8(output.stderr).expect("UTF-8"),
        }
    }
}

impl Ran {
    /// The output of a run that went well.
    #[track_caller]
    pub(crate) fn ok(self) -> String {
        assert_eq!((self.code, self.err.as_str()), (0, ""), "{}", self.out);
        self.out
    }

    /// The output as JSON.
    #[track_caller]
    pub(crate) fn json(self) -> serde_json::Value {
        serde_json::from_str(&self.ok()).expect("JSON")
    }

    /// A run that was refused, with all of `words` in its message.
    #[track_caller]
    pub(crate) fn refused(&self, words: &[&str]) {
        assert_eq!(self.code, 2, "{self:?}");
        assert_eq!(self.out, "", "nothing but the message");
        assert!(self.err.starts_with("error: "), "{}", self.err);
        for word in words {
            assert!(self.err.contains(word), "no {word:?} in: {}", self.err);
        }
    }
}

/// A profile whose names try to control a terminal and a Markdown page.
pub(crate) fn hostile() -> TpuProfile {
    let mut profile = scenarios::host_offload();
    let evil = "\u{1b}[31mevil\u{7}\u{9b}2J|`<b>@all\u{202e}";
    for op in &mut profile.programs[0].ops {
        op.name = format!("{evil}{}", op.name);
        op.category = format!("{evil}{}", op.category);
        op.source = Some(format!("model{evil}.py:12"));
    }
    profile.programs[0].name.insert_str(0, evil);
    profile
}
