//! What all commands that read a profile have in common.

use std::path::PathBuf;

use anyhow::{Result, bail};
use clap::Args;
use profiler::chip::Generation;
use profiler::evidence::Evidence;
use profiler::note::NoteLevel;
use profiler::session::{CoreKind, Session};
use profiler::source::{LoadOptions, load};

use crate::progress::while_reading;

/// Which profile, and how strictly it is read.
#[derive(Clone, Debug, Args)]
pub struct InputArgs {
    /// What is known of one run: profiles (*.xplane.pb, *.trace.json[.gz], Kineto JSON, HLO), logs,
    /// metrics and memory reports, launch commands, or a log directory, of which the newest run is
    /// read.
    #[arg(required = true, value_name = "PATH")]
    pub paths: Vec<PathBuf>,

    /// Run under plugins/profile/ to read instead of the newest.
    #[arg(long, value_name = "NAME")]
    pub run: Option<String>,

    /// Chip, where the profile does not say: v2, v3, v4, v5e, v5p, v6e, tpu7x.
    #[arg(long, value_parser = parse_chip, value_name = "CHIP")]
    pub chip: Option<Generation>,

    /// Fail when any part of the input could not be read.
    #[arg(long, alias = "deny-notes")]
    pub strict: bool,
}

pub(crate) fn parse_chip(name: &str) -> Result<Generation, String> {
    Generation::parse(name).ok_or_else(|| {
        let known: Vec<_> = Generation::ALL.iter().map(|chip| chip.name()).collect();
        format!("unknown chip; known are {}", known.join(", "))
    })
}

/// Reads the files of one run, and says in the log what they hold.
///
/// # Errors
/// When one of them cannot be used at all.
pub(crate) fn read(paths: &[PathBuf], run: Option<String>) -> Result<Session> {
    let session = while_reading(paths, || load(paths, &LoadOptions { run }))?;
    for input in &session.inputs {
        let path = input.path.display();
        tracing::debug!(%path, format = input.format.name(), bytes = input.stored_bytes, "read");
    }
    tracing::debug!(
        hosts = session.hosts.len(),
        devices = session.devices.len(),
        operations = session.ops.len(),
        events = session
            .devices
            .iter()
            .map(|device| device.ops.len())
            .sum::<usize>(),
        programs = session.programs.len(),
        "session"
    );
    Ok(session)
}

impl InputArgs {
    /// Reads the profile.
    ///
    /// # Errors
    /// When it cannot be read, or with `--strict` when part of it could not be.
    pub fn load(&self) -> Result<Session> {
        let session = read(&self.paths, self.run.clone())?;
        if self.strict && session.notes.has_warnings() {
            let warnings: Vec<String> = session
                .notes
                .iter()
                .filter(|note| note.level == NoteLevel::Warning)
                .map(|note| note.message)
                .collect();
            bail!("--strict: {}", warnings.join("; "));
        }
        Ok(session)
    }

    /// Prints what could not be read, for commands whose result does not tell.
    pub fn warn(&self, session: &Session) {
        use std::io::Write as _;
        let style = anstyle::AnsiColor::Yellow.on_default().bold();
        let warnings = session
            .notes
            .iter()
            .filter(|note| note.level == NoteLevel::Warning);
        for note in warnings {
            let message = crate::render::safe::clean(&note.message);
            let _ = writeln!(anstream::stderr(), "{style}warning{style:#}: {message}");
        }
    }

    /// Fails for a profile of another accelerator: what its host lines show is not what ran.
    ///
    /// # Errors
    /// When there is a device plane of another kind and none of a TPU.
    pub fn refuse_foreign(&self, session: &Session) -> Result<()> {
        let has_tpu = session.tensor_cores().next().is_some();
        match session.foreign_planes.first() {
            Some(plane) if !has_tpu => bail!(
                "{} is not a TPU profile: it has {plane} and no /device:TPU plane; tpu-tune analyzes TPU runs only",
                self.shown()
            ),
            _ => Ok(()),
        }
    }

    /// Gathers the evidence of a session.
    #[must_use]
    pub fn evidence<'s>(&self, session: &'s Session) -> Evidence<'s> {
        Evidence::gather(session, self.chip, knowledge::chips::chips())
    }

    /// Prices programs by the roofline where there is HLO but no trace.
    ///
    /// # Errors
    /// When the chip to price them for is not named.
    pub fn price_if_hlo_alone(&self, session: &mut Session) -> Result<()> {
        if session.programs.is_empty() || !session.devices.is_empty() || !session.threads.is_empty()
        {
            return Ok(());
        }
        let Some(chip) = self.chip else {
            bail!(
                "{} is a program without a trace: name the chip to price it for, as in --chip v6e",
                self.shown()
            );
        };
        profiler::roofline_session::price(session, knowledge::chips::chip(chip));
        Ok(())
    }

    /// Fails unless a TPU core ran something.
    ///
    /// # Errors
    /// When there is none, saying what there is instead.
    pub fn require_tpu(&self, session: &Session) -> Result<()> {
        self.refuse_foreign(session)?;
        let kinds = || session.devices.iter().map(|device| device.kind);
        if kinds().any(|kind| kind == CoreKind::TensorCore) {
            return Ok(());
        }
        let path = self.shown();
        if kinds().any(|kind| kind == CoreKind::Cpu) {
            bail!(
                "{path} has no TPU plane: it is a profile of XLA on a CPU, which says nothing of a TPU; `tpu-tune ops`, `steps` and `diff` read it"
            );
        }
        bail!(
            "{path} has no TPU plane: only host threads were recorded; capture again while the TPU program runs (in the same process, for at least one step)"
        );
    }

    /// The paths for messages.
    #[must_use]
    pub fn shown(&self) -> String {
        let paths: Vec<String> = self
            .paths
            .iter()
            .map(|path| path.display().to_string())
            .collect();
        paths.join(", ")
    }
}
