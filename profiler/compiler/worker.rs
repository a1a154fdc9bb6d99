//! The life of a compiler process: load the plugin, answer requests until the input ends.
//!
//! The plugin may abort the process at any time; who started it must expect that. The environment
//! must be set before the process starts, see [`ENVIRONMENT`].

use std::io::{self, Read, Write};
use std::path::Path;

use super::compiled::CompiledMemory;
use super::pjrt::{Attribute, PjrtError, PjrtResult, Plugin, Topology};
use super::protocol::{Request, Response, read_frame, write_frame};
use super::run::{Runs, malformed, pack, unpack};

/// What libtpu needs in its environment to compile where there is no TPU.
///
/// Without the first it asks the cloud's metadata server for minutes; without the second it
/// refuses to start beside another process that uses it; the next two keep it from warning about
/// their absence, and the last from writing log files.
pub const ENVIRONMENT: &[(&str, &str)] = &[
    ("TPU_SKIP_MDS_QUERY", "1"),
    ("ALLOW_MULTIPLE_LIBTPU_LOAD", "1"),
    ("TPU_WORKER_HOSTNAMES", "localhost"),
    ("TPU_ACCELERATOR_TYPE", "v5litepod-1"),
    ("TPU_LOG_DIR", "disabled"),
];

/// Serves requests until the input ends.
///
/// # Errors
/// When the other side is gone or does not speak the protocol. That the plugin cannot be loaded is
/// an answer.
pub fn serve(library: &Path, input: &mut impl Read, output: &mut impl Write) -> io::Result<()> {
    let plugin = match Plugin::load(library) {
        Ok(plugin) => plugin,
        Err(error) => return write_frame(output, &failed(error), &[]),
    };
    let (major, minor) = plugin.version();
    let attributes = plugin.attributes().unwrap_or_default();
    let ready = Response::Ready {
        pjrt: format!("{major}.{minor}"),
        attributes: attributes
            .into_iter()
            .map(|(name, value)| (name, shown(&value)))
            .collect(),
    };
    write_frame(output, &ready, &[])?;
    let mut topologies = Topologies::default();
    let mut runs = Runs::default();
    while let Some((request, body)) = read_frame::<Request>(input)? {
        match answer(plugin, &mut topologies, &mut runs, &request, &body) {
            Ok((response, body)) => write_frame(output, &response, &body)?,
            Err(error) => write_frame(output, &failed(error), &[])?,
        }
    }
    Ok(())
}

fn failed(error: PjrtError) -> Response {
    Response::Failed {
        code: error.code,
        message: error.message,
    }
}

fn answer(
    plugin: Plugin,
    topologies: &mut Topologies,
    runs: &mut Runs,
    request: &Request,
    body: &[u8],
) -> PjrtResult<(Response, Vec<u8>)> {
    match request {
        Request::Compile {
            topology,
            megacore,
            format,
            options,
        } => {
            let topology = topologies.get(plugin, topology, *megacore)?;
            let executable = plugin.compile(topology, format, body, &options.to_proto())?;
            let (_, program) = executable.optimized_program()?;
            let stats = executable.memory_stats().unwrap_or_default();
            let mut memory = CompiledMemory::of_stats(&stats);
            if memory.code_bytes == 0 {
                memory.code_bytes = executable.code_bytes().unwrap_or(0);
            }
            let cost = executable.cost_analysis().unwrap_or_default();
            let property = |name: &str| {
                cost.iter().find(|(property, _)| property == name).and_then(
                    |(_, value)| match value {
                        Attribute::Float(value) if *value >= 0.0 => Some(f64::from(*value)),
                        _ => None,
                    },
                )
            };
            let response = Response::Compiled {
                memory,
                flops: property("flops"),
                bytes_accessed: property("bytes accessed"),
                resident_bytes: resident_bytes(),
            };
            Ok((response, program))
        }
        Request::Topology { topology, megacore } => {
            let topology = topologies.get(plugin, topology, *megacore)?;
            let devices = topology.devices()?;
            let (name, version) = topology.platform()?;
            let hbm_bytes = devices
                .attributes
                .iter()
                .find_map(|(name, value)| match value {
                    Attribute::Integer(bytes) if name == "device_memory_bytes_limit" => {
                        u64::try_from(*bytes).ok()
                    }
                    _ => None,
                });
            let response = Response::Topology {
                devices: devices.count as u64,
                kind: devices.kind,
                platform: format!("{name} {version}"),
                hbm_bytes,
            };
            Ok((response, Vec::new()))
        }
        Request::Run {
            format,
            options,
            code_bytes,
            arguments,
        } => {
            let code_bytes = usize::try_from(*code_bytes).map_err(|_| malformed())?;
            let (code, arrays) = body.split_at_checked(code_bytes).ok_or_else(malformed)?;
            let arguments = unpack(arguments, arrays).ok_or_else(malformed)?;
            let results = runs.run(plugin, format, options, code, &arguments)?;
            let mut body = Vec::new();
            let response = Response::Ran {
                results: pack(&results, &mut body),
                resident_bytes: resident_bytes(),
            };
            Ok((response, body))
        }
    }
}

/// The topology that was used last: most requests are for the same one.
#[derive(Default)]
struct Topologies {
    last: Option<(String, bool, Topology)>,
}

impl Topologies {
    fn get(&mut self, plugin: Plugin, name: &str, megacore: bool) -> PjrtResult<&Topology> {
        let known = self
            .last
            .take()
            .filter(|(last, joined, _)| last == name && *joined == megacore);
        let topology = match known {
            Some((_, _, topology)) => topology,
            None => {
                let joined = [("chip_config_name", Attribute::Text("megacore".to_owned()))];
                plugin.topology(name, if megacore { &joined } else { &[] })?
            }
        };
        let (_, _, topology) = self.last.insert((name.to_owned(), megacore, topology));
        Ok(topology)
    }
}

fn shown(value: &Attribute) -> String {
    match value {
        Attribute::Text(text) => text.clone(),
        Attribute::Integer(value) => value.to_string(),
        Attribute::Integers(values) => values
            .iter()
            .map(i64::to_string)
            .collect::<Vec<_>>()
            .join("."),
        Attribute::Float(value) => value.to_string(),
        Attribute::Flag(value) => value.to_string(),
    }
}

/// Memory that this process holds, in bytes; 0 where the system does not say.
fn resident_bytes() -> u64 {
    const PAGE_BYTES: u64 = 4096;
    let pages = std::fs::read_to_string("/proc/self/statm")
        .ok()
        .and_then(|line| line.split_whitespace().nth(1)?.parse::<u64>().ok());
    pages.unwrap_or(0) * PAGE_BYTES
}
