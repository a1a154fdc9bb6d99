//! A long capture for measuring speed, in pieces of a few steps each: four chips that train, and
//! the threads of their host, which have most of the events as in real captures.
//!
//! Its durations are modelled: it is no measurement and fit for no advice.
#![allow(dead_code, reason = "each of the programs that include it uses a part")]

use crate::support::profile::{Device, HostEvent, HostThread, TpuProfile, us};
use crate::support::scenarios::long_run;
use crate::support::xspace::mix;

/// Steps in one piece.
const STEPS: u64 = 10;

/// The first piece.
pub(crate) fn first() -> TpuProfile {
    let mut profile = long_run(STEPS);
    profile.host_threads = THREADS
        .iter()
        .map(|thread| host_thread(thread, &profile.devices[0]))
        .collect();
    profile
}

/// The `n`-th piece after the first.
pub(crate) fn later(first: &TpuProfile, n: u64) -> TpuProfile {
    let mut piece = first.clone();
    let by = n * (first.duration() + us(500));
    for device in &mut piece.devices {
        let modules = device.modules.iter_mut().map(|run| &mut run.start);
        let ops = device.ops.iter_mut().map(|run| &mut run.start);
        let transfers = device.transfers.iter_mut().map(|run| &mut run.start);
        let marks = device.trace_me.iter_mut().map(|mark| &mut mark.start);
        let steps = device.steps.iter_mut().map(|step| &mut step.start);
        for start in modules
            .chain(ops)
            .chain(transfers)
            .chain(marks)
            .chain(steps)
        {
            *start += by;
        }
        for run in &mut device.modules {
            run.run_id += n * STEPS;
        }
        for step in &mut device.steps {
            step.number += n * STEPS;
        }
    }
    for event in piece
        .host_threads
        .iter_mut()
        .flat_map(|thread| &mut thread.events)
    {
        event.start += by;
    }
    piece
}

/// What a thread of the host does in each step.
struct Thread {
    name: &'static str,
    spans_per_step: u64,
    /// How many different things it does.
    names: u64,
    does: Doing,
}

enum Doing {
    /// Lines of Python around the call of the program.
    Python,
    /// The runtime's work, without statistics.
    Work,
    /// The runtime's work, with the statistics that link it to other threads.
    LinkedWork,
    /// Reports of allocations.
    Memory,
}

const fn thread(name: &'static str, spans_per_step: u64, names: u64, does: Doing) -> Thread {
    Thread {
        name,
        spans_per_step,
        names,
        does,
    }
}

/// In the proportions of a real capture of four chips.
const THREADS: [Thread; 12] = [
    thread("main", 1_400, 60, Doing::Python),
    thread("py_xla_execute", 900, 40, Doing::LinkedWork),
    thread("py_xla_execute", 900, 40, Doing::LinkedWork),
    thread("py_xla_execute", 900, 40, Doing::LinkedWork),
    thread("py_xla_execute", 900, 40, Doing::LinkedWork),
    thread("switchto-default-SDomainT", 2_200, 20, Doing::Work),
    thread("switchto-default-SDomainT", 700, 20, Doing::Work),
    thread("switchto-default-SDomainT", 280, 1, Doing::Memory),
    thread("switchto-default-SDomainT", 280, 1, Doing::Memory),
    thread("switchto-default-SDomainT", 280, 1, Doing::Memory),
    thread("switchto-default-SDomainT", 280, 1, Doing::Memory),
    thread("tfrt-non-blocking-queue", 700, 12, Doing::LinkedWork),
];

fn host_thread(thread: &Thread, device: &Device) -> HostThread {
    let mut events = Vec::new();
    for step in &device.steps {
        let start = step.start + device.clock_skew;
        let slot = step.duration / thread.spans_per_step;
        for n in 0..thread.spans_per_step {
            let seed = mix(step.number << 32 | n);
            events.push(HostEvent {
                name: span_name(thread, n, seed),
                start: start + n * slot,
                // Every eighth span holds the next one.
                duration: if n % 8 == 0 { slot * 2 } else { slot / 2 } - seed % (slot / 4).max(1),
                stats: stats(&thread.does, seed),
            });
        }
    }
    HostThread {
        name: thread.name.to_owned(),
        events,
    }
}

fn span_name(thread: &Thread, n: u64, seed: u64) -> String {
    let which = seed % thread.names;
    match thread.does {
        Doing::Python if n == 0 => "PjitFunction(train_step)".to_owned(),
        Doing::Python => format!("$layers.py:{} call_{}", 100 + 7 * which, which % 9),
        Doing::Work | Doing::LinkedWork => format!("tpu::System::Task{which}=>IssueEvent"),
        Doing::Memory => "MemoryAllocation".to_owned(),
    }
}

fn stats(does: &Doing, seed: u64) -> Vec<(&'static str, i64)> {
    let number = |of: u64| i64::try_from(of).expect("small");
    match does {
        Doing::Python | Doing::Work => Vec::new(),
        Doing::LinkedWork => vec![("_pt", 12), ("_p", number(seed >> 34))],
        Doing::Memory => vec![
            ("index_on_host", number(seed % 4)),
            ("bytes_allocated", number((4 << 30) + (seed & 0xffff_f000))),
            ("bytes_reserved", 0),
            ("bytes_available", number((20 << 30) - (seed & 0xffff_f000))),
            ("peak_bytes_in_use", 9 << 30),
        ],
    }
}
