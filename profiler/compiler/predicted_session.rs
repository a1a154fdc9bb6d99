//! The run of a compiled program, predicted: its schedule played with the prices of a cost model.
//!
//! ```text
//! programs ──> Player (schedule order: loops, calls, branches, transfers in flight) ──> Session
//!                 ^ prices: roofline, calibrated model, …                                 + Prediction
//! ```
//!
//! One device runs each program once; all devices of a sharded program run alike. Asynchronous
//! operations run beside the others: transfers of one kind follow each other, and copies from and
//! to HBM only have the bandwidth that the operations beside them leave. Host, contention between
//! chips and waiting for slower chips are not in it.

mod op;
mod player;
mod queue;

use crate::chip::ChipFacts;
use crate::compiler::pricer::Prices;
use crate::evidence::peaks::Peaks;
use crate::prediction::{Prediction, Provenance, RunPrediction};
use crate::program::shape::MemorySpace;
use crate::session::{
    CoreKind, Device, Host, Module, Origin, Session, SessionProgram, StatedPeaks,
};
use crate::timeline::settle;

use player::{MAX_DEPTH, MAX_EVENTS, MAX_LOOKS, Player, Said};

/// The name of the host that a predicted session has.
pub const PREDICTED_HOST: &str = "predicted";

/// Which branch of a conditional is taken to run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Branch {
    /// The one that takes least: for lower bounds.
    Least,
    /// The one that takes most.
    #[default]
    Most,
}

/// How a session is predicted.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    /// What was compiled and how it is priced, to be shown with every time.
    pub provenance: Provenance,
    /// Which branch of a conditional is taken to run.
    pub branch: Branch,
    /// HBM bandwidth of a device that operations reach, in GB/s (10⁹), for what they leave to
    /// transfers beside them; the chip's peak where absent.
    pub hbm_gb_per_s: Option<f64>,
}

/// Gives a session that holds programs but no events one device that runs each program once, and
/// says how sure its times are.
pub fn predict(session: &mut Session, facts: &ChipFacts, prices: &dyn Prices, settings: &Settings) {
    let peaks = Peaks::of_facts(facts);
    let mut device = Device::new(0, "/device:TPU:0".to_owned(), CoreKind::TensorCore, 0);
    device.peaks = StatedPeaks {
        device_type: Some(facts.generation.device_type().to_owned()),
        peak_tflops: peaks.bf16_tflops.as_ref().map(|peak| peak.value),
        peak_hbm_gb_per_s: peaks.hbm_gb_per_s.as_ref().map(|peak| peak.value),
        ..StatedPeaks::default()
    };
    let hbm_gb_per_s = settings
        .hbm_gb_per_s
        .or(peaks.hbm_gb_per_s.as_ref().map(|peak| peak.value))
        .filter(|rate| *rate > 0.0);
    let mut prediction = Prediction {
        provenance: settings.provenance.clone(),
        ..Prediction::default()
    };
    let mut said = Said::default();
    let mut now = 0;
    let mut looks = MAX_LOOKS;
    let first = session.modules.len() as u32;
    let programs = std::mem::take(&mut session.programs);
    for (module, program) in (first..).zip(&programs) {
        session.modules.push(Module {
            name: program.program.name.clone(),
            program_id: Some(program.program.fingerprint()),
        });
        let mut player = Player::new(
            &program.program,
            prices.pricer(&program.program),
            module,
            settings.branch,
            hbm_gb_per_s,
            looks,
        );
        player.run(now, &mut device, &mut session.ops, &mut prediction.ops);
        let time = player.band();
        looks = player.looks_left();
        said.merge(player.said());
        device.modules.push(now, time.time_ps, module);
        device.run_ids.push(0);
        now = now.saturating_add(time.time_ps);
        prediction.runs.push(RunPrediction {
            module,
            time,
            memory: program.program.memory_estimate(MemorySpace::Hbm),
        });
    }
    session.programs = programs
        .into_iter()
        .zip(first..)
        .map(|(program, module)| SessionProgram {
            module: Some(module),
            ..program
        })
        .collect();
    if session.hosts.is_empty() {
        session.hosts.push(Host {
            name: PREDICTED_HOST.to_owned(),
            capture_ns: None,
            mxu_utilization_percent: None,
            hbm_utilization_percent: None,
        });
    }
    settle(&mut device);
    session.devices.push(device);
    session.origin = Origin::Predicted;
    note(session, &said, settings);
    session.prediction = Some(prediction);
}

fn note(session: &mut Session, said: &Said, settings: &Settings) {
    if !settings.provenance.is_lower_bound {
        session.notes.info(
            "predicted-times",
            "nothing was measured: every time is predicted and has an error band; the host, other programs and slower chips are not in it",
        );
    }
    if said.is_cut {
        session.notes.warn(
            "long-loop",
            format!(
                "the run was cut short: {MAX_EVENTS} operations, {MAX_DEPTH} calls within each other and {MAX_LOOKS} instructions looked at are the most"
            ),
        );
    }
    if said.is_folded {
        session.notes.info(
            "folded-loop",
            "long loops are told by their first iterations; all later ones are one event for each operation, as long as all of its executions together",
        );
    }
    if said.has_branches {
        let (code, which) = match settings.branch {
            Branch::Least => ("cheapest-branch", "least"),
            Branch::Most => ("dearest-branch", "most"),
        };
        session.notes.info(
            code,
            format!(
                "of each conditional only the branch that takes {which} is counted: which one runs is not known"
            ),
        );
    }
    if said.has_unknown_trips {
        session.notes.warn(
            "unknown-trip-count",
            "a loop's trip count is not known: it counts once",
        );
    }
    if said.has_unknown_prices {
        session.notes.warn(
            "unknown-price",
            "nothing tells what some operations take: they count as the least that an operation takes",
        );
    }
}

#[cfg(test)]
#[path = "predicted_session/tests.rs"]
mod tests;
