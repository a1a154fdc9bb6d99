//! Headers and payloads of a log become launches, graphs, programs and compiles.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::graph::SourceLine;
use super::{DynamoCompile, GraphBreak, Launch, Process, TorchTrace};
use crate::logs::{At, Line, LineReader, Logs, More};
use crate::note::Notes;

const LAUNCH: &str = "\"chromium_event\"";
const EAGER_GRAPH: &str = "\"torchtpu_eager_aten_graph\"";
const EAGER_PROGRAM: &str = "\"torchtpu_eager_stablehlo\"";
const COMPILED_PROGRAM: &str = "\"torchtpu_stablehlo_graph\"";
const GRAPH_BREAK: &str = "\"dynamo_graph_break_reason\"";
const GUARDS: &str = "\"recompile_reasons\"";
const METRICS: &str = "{\"compilation_metrics\"";

/// What eager launches' names begin with; other trace events are Dynamo's.
const EAGER: &str = "torchtpu_eager/";
/// Longer payloads are cut: no program that a person runs eagerly is near it.
const MAX_PAYLOAD_BYTES: usize = 8 << 20;
/// Launches, compiles and breaks of one file that are kept.
const MAX_LAUNCHES: usize = 4 << 20;
const MAX_COMPILES: usize = 1 << 16;
const MAX_GUARDS: usize = 8;

/// What the payload being read is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Payload {
    Launch,
    EagerGraph,
    EagerProgram,
    CompiledProgram,
    GraphBreak,
    Guards,
}

/// Reads a `TORCH_TRACE` log.
#[derive(Debug, Default)]
pub(crate) struct Reader {
    /// The payload being read, and where its header stands.
    open: Option<(Payload, At)>,
    payload: String,
    /// Launches whose event could not be read: the log was cut in them.
    cut: u64,
    dropped: u64,
    rank: Option<u32>,
    pid: Option<u64>,
    launches: Vec<Launch>,
    /// `frame/compile` of the last header that has one.
    compile_id: String,
    /// Guards that failed, until the compile that they forced is logged.
    guards: BTreeMap<String, (At, Vec<String>)>,
    /// What this file tells, but for the launches.
    trace: TorchTrace,
}

#[derive(Deserialize)]
struct Event {
    name: String,
    ts: u64,
    dur: u64,
    #[serde(default)]
    pid: u64,
    #[serde(default)]
    args: EventArgs,
}

#[derive(Default, Deserialize)]
struct EventArgs {
    #[serde(default)]
    cache_hit: bool,
    #[serde(default)]
    compile_failed: bool,
    #[serde(default)]
    reason: String,
}

#[derive(Deserialize)]
struct MetricsHeader {
    compilation_metrics: Metrics,
}

#[derive(Deserialize)]
struct Metrics {
    compile_id: Option<String>,
    co_name: Option<String>,
    co_filename: Option<String>,
    co_firstlineno: Option<u64>,
    entire_frame_compile_time_s: Option<f64>,
    fail_reason: Option<String>,
}

impl LineReader for Reader {
    fn triggers(&self) -> &'static [&'static str] {
        &[
            LAUNCH,
            EAGER_GRAPH,
            EAGER_PROGRAM,
            COMPILED_PROGRAM,
            GRAPH_BREAK,
            GUARDS,
            METRICS,
        ]
    }

    fn line(&mut self, line: Line<'_>) -> More {
        if let Some(body) = line.text.strip_prefix('\t') {
            let Some((kind, at)) = self.open else {
                return More::Triggers;
            };
            if self.payload.len() + body.len() < MAX_PAYLOAD_BYTES {
                self.payload.push_str(body);
                self.payload.push('\n');
            }
            if kind == Payload::Launch {
                // One line; those of Dynamo are longer and not wanted.
                self.open = None;
                self.launch(at);
                return More::Triggers;
            }
            return More::NextLine;
        }
        self.close();
        self.header(line)
    }

    fn finish(mut self: Box<Self>, logs: &mut Logs, notes: &mut Notes) -> bool {
        self.close();
        self.report(notes);
        for (id, (at, guards)) in std::mem::take(&mut self.guards) {
            let function = self.function_of(&id);
            self.trace.dynamo.push(DynamoCompile {
                at,
                id,
                guards,
                function,
                failure: Some("the log ends before it does".to_owned()),
                ..DynamoCompile::default()
            });
        }
        if !self.launches.is_empty() {
            self.trace.processes.push(Process {
                rank: self.rank,
                pid: self.pid.unwrap_or_default(),
                launches: self.launches,
            });
        }
        if self.trace.is_empty() {
            return false;
        }
        logs.torch_trace.absorb(self.trace);
        true
    }
}

impl Reader {
    /// Begins what a header announces.
    fn header(&mut self, line: Line<'_>) -> More {
        let Some((_, json)) = line.text.split_once("] {") else {
            return More::Triggers;
        };
        let kind = if json.starts_with(LAUNCH) {
            Payload::Launch
        } else if line.text.contains(METRICS) {
            self.metrics(line);
            return More::Triggers;
        } else if !json.starts_with("\"artifact\"") {
            return More::Triggers;
        } else if json.contains(EAGER_GRAPH) {
            Payload::EagerGraph
        } else if json.contains(EAGER_PROGRAM) {
            Payload::EagerProgram
        } else if json.contains(COMPILED_PROGRAM) {
            Payload::CompiledProgram
        } else if json.contains(GRAPH_BREAK) {
            Payload::GraphBreak
        } else if json.contains(GUARDS) {
            Payload::Guards
        } else {
            return More::Triggers;
        };
        if self.rank.is_none() {
            self.rank = number(json, "\"rank\": ");
        }
        if kind == Payload::Guards {
            let frame: u32 = number(json, "\"frame_id\": ").unwrap_or_default();
            let compile: u32 = number(json, "\"frame_compile_id\": ").unwrap_or_default();
            self.compile_id = format!("{frame}/{compile}");
        }
        self.open = Some((kind, line.at));
        self.payload.clear();
        More::NextLine
    }

    /// Ends the payload being read.
    fn close(&mut self) {
        let Some((kind, at)) = self.open.take() else {
            return;
        };
        let text = std::mem::take(&mut self.payload);
        match kind {
            // Its line never came.
            Payload::Launch => self.cut += 1,
            Payload::EagerGraph => {
                let graph = self.trace.intern_graph(&text);
                if let Some(launch) = self.launches.last_mut() {
                    launch.graph = launch.graph.or(graph);
                }
            }
            Payload::EagerProgram => {
                let program = self.program(text, false);
                if let Some(launch) = self.launches.last_mut() {
                    launch.program = launch.program.or(program);
                }
            }
            Payload::CompiledProgram => {
                self.program(text, true);
            }
            Payload::GraphBreak => self.graph_break(at, &text),
            Payload::Guards => {
                if self.guards.len() < MAX_COMPILES {
                    let id = self.compile_id.clone();
                    self.guards.insert(id, (at, guards(&text)));
                }
            }
        }
    }

    fn program(&mut self, text: String, compiled_mode: bool) -> Option<u32> {
        // Without its end it is of no use to a compiler.
        if !text.trim_end().ends_with('}') && !text.contains("\n#loc") {
            return None;
        }
        self.trace.intern_program(text, compiled_mode)
    }

    fn launch(&mut self, at: At) {
        let text = self.payload.trim();
        if !text.contains(EAGER) {
            return;
        }
        let Ok(event) = serde_json::from_str::<Event>(text) else {
            self.cut += 1;
            return;
        };
        if self.launches.len() >= MAX_LAUNCHES {
            self.dropped += 1;
            return;
        }
        let name = event.name.strip_prefix(EAGER).unwrap_or(&event.name);
        self.pid = self.pid.or(Some(event.pid));
        self.launches.push(Launch {
            at,
            start_us: event.ts,
            duration_us: event.dur,
            op: self.trace.intern_name(name),
            reason: self.trace.intern_reason(&event.args.reason),
            compiled: !event.args.cache_hit,
            failed: event.args.compile_failed,
            graph: None,
            program: None,
        });
    }

    fn metrics(&mut self, line: Line<'_>) {
        if self.trace.dynamo.len() >= MAX_COMPILES {
            return;
        }
        let json = line.text.find(METRICS).and_then(|at| line.text.get(at..));
        let header: Option<MetricsHeader> = json.and_then(|json| serde_json::from_str(json).ok());
        let Some(metrics) = header.map(|header| header.compilation_metrics) else {
            self.cut += 1;
            return;
        };
        let id = metrics.compile_id.unwrap_or_default();
        let (_, guards) = self.guards.remove(&id).unwrap_or_default();
        let seconds = metrics.entire_frame_compile_time_s.unwrap_or_default();
        let function = match metrics.co_name {
            Some(name) => SourceLine {
                file: metrics.co_filename.unwrap_or_default(),
                line: metrics.co_firstlineno.unwrap_or_default(),
                function: name,
            },
            None => self.function_of(&id),
        };
        let failure = metrics.fail_reason.map(|reason| {
            let first = reason.lines().next().unwrap_or_default();
            first.chars().take(200).collect()
        });
        self.trace.dynamo.push(DynamoCompile {
            at: line.at,
            id,
            function,
            seconds: if seconds.is_finite() { seconds } else { 0.0 },
            failure,
            guards,
        });
    }

    /// The function of another compile of the same frame.
    fn function_of(&self, id: &str) -> SourceLine {
        let frame = |id: &str| id.split('/').next().unwrap_or_default().to_owned();
        let wanted = frame(id);
        let mut known = self.trace.dynamo.iter().rev();
        known
            .find(|known| frame(&known.id) == wanted)
            .map(|known| known.function.clone())
            .unwrap_or_default()
    }

    fn graph_break(&mut self, at: At, text: &str) {
        let place = text.lines().find_map(|line| {
            let (_, place) = line.split_once("user code at ")?;
            SourceLine::parse(place)
        });
        let reason = text
            .lines()
            .find_map(|line| line.trim().strip_prefix("Graph Break Reason: "))
            .unwrap_or_default();
        let explanation = text
            .lines()
            .find_map(|line| line.trim().strip_prefix("Explanation: "));
        // The reason of a call that cannot be traced says less than its explanation.
        let reason = match explanation {
            Some(explanation) if reason.starts_with("Encountered graph break") => explanation,
            _ => reason,
        };
        let one = GraphBreak {
            at,
            place: place.unwrap_or_default(),
            reason: reason.trim().chars().take(400).collect(),
            count: 1,
        };
        self.trace.add_break(one);
    }

    fn report(&self, notes: &mut Notes) {
        if self.cut > 0 {
            notes.add(
                crate::note::NoteLevel::Info,
                "cut-torch-trace",
                "an entry of a TORCH_TRACE log is cut: it was left out".to_owned(),
                self.cut,
            );
        }
        if self.dropped > 0 {
            notes.warn(
                "torch-trace-too-long",
                format!(
                    "a TORCH_TRACE log has more than {MAX_LAUNCHES} launches: the last {} were not read; trace fewer steps",
                    self.dropped
                ),
            );
        }
        if self.trace.dropped_program_bytes > 0 {
            notes.info(
                "dropped-stablehlo",
                format!(
                    "{:.1} MiB of StableHLO of a TORCH_TRACE log were not kept: `predict` cannot take those programs",
                    self.trace.dropped_program_bytes as f64 / (1 << 20) as f64
                ),
            );
        }
    }
}

/// The number behind a key.
fn number(json: &str, key: &str) -> Option<u32> {
    let (_, after) = json.split_once(key)?;
    let end = after.find(|c: char| !c.is_ascii_digit())?;
    after.get(..end)?.parse().ok()
}

/// Guards that failed: one as plain text, several as a list in JSON, each behind its compile.
fn guards(text: &str) -> Vec<String> {
    let text = text.trim();
    let all: Vec<String> = match serde_json::from_str::<Vec<String>>(text) {
        Ok(several) => several,
        Err(_) => text.lines().map(str::to_owned).collect(),
    };
    // `0/1: tensor 'x' …`: which of the earlier compiles it is a guard of.
    let without_id = |guard: &String| match guard.trim().split_once(": ") {
        Some((id, guard)) if id.contains('/') => guard.trim().to_owned(),
        _ => guard.trim().to_owned(),
    };
    all.iter().map(without_id).take(MAX_GUARDS).collect()
}
