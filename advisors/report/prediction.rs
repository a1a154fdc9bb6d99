//! That and how the times of a report were predicted, where they were.

use profiler::evidence::Evidence;
use profiler::prediction::Prediction;
use profiler::program::buffers::BufferClass;
use profiler::program::liveness::MemoryEstimate;
use profiler::session::Session;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Buffers that are listed as live at the peak.
const MAX_LIVE: usize = 20;

/// How the times were predicted.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PredictionSummary {
    /// The compiler's build; empty where the program came compiled.
    pub compiler: String,
    /// What it was compiled for, or the chip alone.
    pub target: String,
    /// What the prices are from: a calibration and its version, or `roofline`.
    pub prices: String,
    /// Whether the times are the least that the chip allows, and no estimates.
    pub is_lower_bound: bool,
    /// The time of the longest program's run, ms; absent where none ran.
    pub step: Option<TimeBand>,
    /// Device memory of the program that needs most.
    pub memory: Option<PredictedMemory>,
}

/// A predicted time with its error band.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TimeBand {
    /// The lower end, ms.
    pub low_ms: f64,
    /// What is expected, ms.
    pub time_ms: f64,
    /// The upper end, ms.
    pub high_ms: f64,
    /// The band in words: `±12 %`.
    pub words: String,
}

/// Device memory of one run of a program, from its schedule; tile padding is in all figures.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PredictedMemory {
    /// The program.
    pub module: String,
    /// Arguments, bytes.
    pub argument_bytes: u64,
    /// Results, bytes.
    pub output_bytes: u64,
    /// Results that are written over an argument, bytes.
    pub aliased_bytes: u64,
    /// Constants, bytes.
    pub constant_bytes: u64,
    /// The most that values between operations take at once, bytes.
    pub temporary_bytes: u64,
    /// All of it at its fullest, bytes; the program's code comes on top.
    pub peak_bytes: u64,
    /// What of it is tile padding, bytes.
    pub padding_bytes: u64,
    /// Memory of a device that programs may use, bytes; 0 where the chip is not known.
    pub capacity_bytes: u64,
    /// The operation at which it is fullest; empty where only arguments and results count.
    pub at: String,
    /// The largest buffers that are live then.
    pub live: Vec<PredictedBuffer>,
}

/// A buffer that is live where memory is fullest.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PredictedBuffer {
    /// The operation that makes it.
    pub name: String,
    /// Its type.
    pub shape: String,
    /// Bytes, tile padding included.
    pub bytes: u64,
    /// Of those, padding.
    pub padding_bytes: u64,
    /// `argument`, `output`, `constant` or `temporary`.
    pub class: String,
}

/// The prediction of a session, if it is one.
pub(super) fn prediction_summary(evidence: &Evidence<'_>) -> Option<PredictionSummary> {
    let session = evidence.session;
    let prediction = session.prediction.as_ref()?;
    let provenance = &prediction.provenance;
    let ms = |ps: u64| ps as f64 / 1e9;
    Some(PredictionSummary {
        compiler: provenance.compiler.clone(),
        target: provenance.target.clone(),
        prices: provenance.prices.clone(),
        is_lower_bound: provenance.is_lower_bound,
        step: prediction.step().map(|band| TimeBand {
            low_ms: ms(band.low_ps),
            time_ms: ms(band.time_ps),
            high_ms: ms(band.high_ps),
            words: band.words(),
        }),
        memory: fullest(session, prediction, evidence.memory_capacity()),
    })
}

fn fullest(
    session: &Session,
    prediction: &Prediction,
    capacity: Option<u64>,
) -> Option<PredictedMemory> {
    let (run, memory) = prediction
        .runs
        .iter()
        .filter_map(|run| Some((run, run.memory.as_ref()?)))
        .reduce(|best, next| {
            if next.1.peak() > best.1.peak() {
                next
            } else {
                best
            }
        })?;
    let program = session
        .programs
        .iter()
        .find(|program| program.module == Some(run.module));
    let name = |op| {
        let found = program.and_then(|program| program.program.get(op));
        found.map_or_else(String::new, |instruction| instruction.name.clone())
    };
    let module = session.modules.get(run.module as usize);
    Some(PredictedMemory {
        module: module.map_or_else(String::new, |module| module.name.clone()),
        capacity_bytes: capacity.unwrap_or(0),
        at: memory.at.map(name).unwrap_or_default(),
        live: live(memory, name),
        argument_bytes: memory.arguments.0,
        output_bytes: memory.outputs.0,
        aliased_bytes: memory.aliased.0,
        constant_bytes: memory.constants.0,
        temporary_bytes: memory.temporaries.0,
        peak_bytes: memory.peak().0,
        padding_bytes: memory.padding.0,
    })
}

fn live(
    memory: &MemoryEstimate,
    name: impl Fn(profiler::program::OpId) -> String,
) -> Vec<PredictedBuffer> {
    memory
        .live
        .iter()
        .take(MAX_LIVE)
        .map(|buffer| PredictedBuffer {
            name: buffer.op.map(&name).unwrap_or_default(),
            shape: buffer
                .shape
                .as_ref()
                .map_or_else(String::new, ToString::to_string),
            bytes: buffer.size.0,
            padding_bytes: buffer.size.0.saturating_sub(buffer.unpadded.0),
            class: match buffer.class {
                BufferClass::Parameter => "argument",
                BufferClass::Output => "output",
                BufferClass::Constant => "constant",
                BufferClass::ThreadLocal | BufferClass::Temporary => "temporary",
            }
            .to_owned(),
        })
        .collect()
}
