//! Small programs written by hand, for what no compiled fixture shows.

use advisors::Report;
use profiler::evidence::Evidence;
use profiler::program::parse_module;
use profiler::session::{Session, SessionProgram};

use crate::rules::session;
use crate::support::chip::Chip;
use crate::support::profile::{Op, TpuProfile};

/// An operation of a program written by hand: its instruction, category, framework op and time.
pub(crate) struct Line {
    pub(crate) hlo: &'static str,
    pub(crate) category: &'static str,
    pub(crate) tf_op: &'static str,
    pub(crate) ps: u64,
}

impl Line {
    fn name(&self) -> &'static str {
        let (name, _) = self.hlo.split_once(" = ").expect("a named instruction");
        name.trim_start_matches('%')
    }

    fn op(&self, symbol: u64) -> Op {
        let (_, rest) = self.hlo.split_once(" = ").expect("a named instruction");
        Op {
            name: self.name().to_owned(),
            hlo: self.hlo.to_owned(),
            category: self.category.to_owned(),
            symbol,
            shape: rest.split(' ').next().unwrap_or_default().to_owned(),
            tf_op: Some(format!("{}:", self.tf_op)),
            ..Op::default()
        }
    }
}

/// Ten runs of the lines, one after the other, on a v6e.
pub(crate) fn straight(lines: &[Line]) -> TpuProfile {
    let (mut profile, program) = profile(lines);
    for run in 0..10 {
        let ops: Vec<_> = lines
            .iter()
            .map(|l| (profile.find(program, l.name()), l.ps))
            .collect();
        profile.devices[0].run(program, run + 1, |device| {
            for (op, ps) in ops {
                device.op(op, ps);
            }
        });
    }
    profile
}

/// Ten runs of a loop, the first line, whose body, the others, runs `trips` times.
pub(crate) fn looped(lines: &[Line], trips: u64) -> TpuProfile {
    let (mut profile, program) = profile(lines);
    for run in 0..10 {
        let ops: Vec<_> = lines
            .iter()
            .map(|l| (profile.find(program, l.name()), l.ps))
            .collect();
        profile.devices[0].run(program, run + 1, |device| {
            let (outer, body) = ops.split_first().expect("a loop");
            device.nest(outer.0, |device| {
                for _ in 0..trips {
                    for (op, ps) in body {
                        device.op(*op, *ps);
                    }
                }
            });
        });
    }
    profile
}

fn profile(lines: &[Line]) -> (TpuProfile, usize) {
    let mut profile = TpuProfile::new(Chip::V6e, 1);
    let ops = (1..)
        .zip(lines)
        .map(|(symbol, line)| line.op(symbol))
        .collect();
    let program = profile.program("jit_f", 77, ops);
    (profile, program)
}

/// The session of a profile with the HLO of its first program beside it.
pub(crate) fn session_with_hlo(profile: TpuProfile, hlo: &str) -> Session {
    let mut session = session(&[profile]);
    let (program, _) = parse_module(hlo);
    session.programs.push(SessionProgram {
        module: Some(0),
        program,
    });
    session
}

/// The report of a session.
pub(crate) fn report_of(session: &Session) -> Report {
    let evidence = Evidence::gather(session, None, knowledge::chips::chips());
    Report::new(&evidence, advisors::registry::RULES)
}
