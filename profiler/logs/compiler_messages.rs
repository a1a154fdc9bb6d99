//! Other messages of the compiler and its frontends that cost time.
//!
//! Slow compiles and constant folding (XLA's `slow_operation_alarm.cc`), donated buffers that were
//! not used (JAX), kernels without a tuned entry, compute that was moved to the host.

use crate::logs::{At, Line, LineReader, Logs, More};
use crate::note::Notes;

/// What a message is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum MessageKind {
    /// A compile that takes long.
    SlowCompile,
    /// An instruction that the compiler computes itself, and that takes long.
    ConstantFolding,
    /// Donated buffers that no result could take over.
    DonationUnused,
    /// A kernel runs with default block sizes, for want of a tuned entry.
    Untuned,
    /// An instruction was moved to the host.
    HostCompute,
}

/// Messages of one kind about one thing.
#[derive(Clone, Debug, PartialEq)]
pub struct Message {
    /// Where it stands first.
    pub at: At,
    /// Where it stands again; the first ones.
    pub again: Vec<At>,
    /// How often it stands in the texts.
    pub count: u64,
    /// What it is of.
    pub kind: MessageKind,
    /// The line.
    pub text: String,
    /// What it is about: a module, an instruction, buffers, a kernel; may be empty.
    pub about: String,
    /// The time that the text names, in seconds.
    pub seconds: Option<f64>,
}

/// All messages, in the order of the texts.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CompilerMessages {
    /// The messages.
    pub messages: Vec<Message>,
    /// Those that were left out because there are too many different ones.
    pub left_out: u64,
}

/// Different messages that are kept.
const MAX_MESSAGES: usize = 512;
/// Repetitions of a message whose places are kept.
const MAX_AGAIN: usize = 8;
/// Characters of a text that are kept.
const MAX_SHOWN: usize = 400;
/// Lines after a constant folding alarm in which its instruction is looked for.
const LOOK_AHEAD: u32 = 3;

const SLOW_COMPILE: &str = "Very slow compile?";
const FOLDING: &str = "Constant folding an instruction is taking";
const TOOK: &str = "The operation took ";
const DONATION: &str = "Some donated buffers were not usable";
const HOST_COMPUTE: &str = "which does device compute in host memory space";
/// Words of libraries of kernels that look block sizes up.
const UNTUNED: [&str; 6] = [
    "Autotuning cache miss",
    "autotuning cache miss",
    "No tuned block",
    "no tuned block",
    "Using default block size",
    "using default block size",
];

/// Reads messages.
#[derive(Debug, Default)]
pub(super) struct Reader {
    found: CompilerMessages,
    /// An alarm whose instruction follows, and the lines left to look for it.
    folding: Option<(Message, u32)>,
    /// A time that stands before what took it.
    took: Option<(At, f64)>,
}

impl LineReader for Reader {
    fn triggers(&self) -> &'static [&'static str] {
        &[
            SLOW_COMPILE,
            FOLDING,
            TOOK,
            DONATION,
            HOST_COMPUTE,
            UNTUNED[0],
            UNTUNED[1],
            UNTUNED[2],
            UNTUNED[3],
            UNTUNED[4],
            UNTUNED[5],
        ]
    }

    fn line(&mut self, line: Line<'_>) -> More {
        if let Some((mut message, left)) = self.folding.take() {
            let instruction = line.text.trim();
            if instruction.starts_with('%') {
                message.about = clip(instruction);
                self.found.add(message);
                return More::Triggers;
            }
            if left > 1 && !line.text.contains(FOLDING) {
                self.folding = Some((message, left - 1));
                return More::NextLine;
            }
            self.found.add(message);
        }
        self.message(line)
    }

    fn finish(mut self: Box<Self>, logs: &mut Logs, _notes: &mut Notes) -> bool {
        if let Some((message, _)) = self.folding.take() {
            self.found.add(message);
        }
        let found = !self.found.messages.is_empty();
        logs.compiler_messages.left_out += self.found.left_out;
        for message in self.found.messages {
            logs.compiler_messages.add(message);
        }
        found
    }
}

impl Reader {
    fn message(&mut self, line: Line<'_>) -> More {
        let text = line.text;
        let message = |kind, about: &str, seconds| Message {
            at: line.at,
            again: Vec::new(),
            count: 1,
            kind,
            text: clip(text.trim()),
            about: clip(about),
            seconds,
        };
        if let Some((_, rest)) = text.split_once(TOOK) {
            // `The operation took 2m3.5s`, then the alarm again with the name of what took it.
            self.took = seconds(rest).map(|seconds| (line.at, seconds));
        } else if let Some((before, _)) = text.split_once(SLOW_COMPILE) {
            let module = before.rsplit_once('[').map_or("", |(_, rest)| rest);
            let module = module.split(']').next().unwrap_or_default();
            let module = module.strip_prefix("Compiling module ").unwrap_or(module);
            let took = self.took.take();
            let seconds = took
                .filter(|(at, _)| line.at.line.saturating_sub(at.line) <= 4)
                .map(|(_, seconds)| seconds);
            self.found
                .add(message(MessageKind::SlowCompile, module.trim(), seconds));
        } else if let Some((_, rest)) = text.split_once(FOLDING) {
            let rest = rest.trim_start_matches([' ', '>']);
            let alarm = message(MessageKind::ConstantFolding, "", seconds(rest));
            self.folding = Some((alarm, LOOK_AHEAD));
            return More::NextLine;
        } else if let Some((_, rest)) = text.split_once(DONATION) {
            // The source line of the warning has the words too, with a quote behind them.
            let buffers = rest
                .trim_start_matches([':', ' '])
                .trim_end_matches(['.', ' ']);
            if !buffers.starts_with('"') && !buffers.is_empty() {
                self.found
                    .add(message(MessageKind::DonationUnused, buffers, None));
            }
        } else if text.contains(HOST_COMPUTE) {
            let name = text
                .split_once("instruction (\"")
                .and_then(|(_, rest)| rest.split_once('"'));
            let name = name.map_or("", |(name, _)| name);
            self.found
                .add(message(MessageKind::HostCompute, name, None));
        } else if let Some(at) = UNTUNED.iter().filter_map(|words| text.find(words)).min() {
            let about = text.get(at..).unwrap_or_default();
            self.found.add(message(MessageKind::Untuned, about, None));
        }
        More::Triggers
    }
}

impl CompilerMessages {
    fn add(&mut self, message: Message) {
        let known = self
            .messages
            .iter_mut()
            .find(|known| known.kind == message.kind && known.about == message.about);
        if let Some(known) = known {
            known.count += message.count;
            // The alarm says that it is slow, a later line how long it took.
            known.seconds = match (known.seconds, message.seconds) {
                (Some(a), Some(b)) => Some(a.max(b)),
                (a, b) => a.or(b),
            };
            for at in [message.at].into_iter().chain(message.again) {
                if known.again.len() < MAX_AGAIN {
                    known.again.push(at);
                }
            }
        } else if self.messages.len() < MAX_MESSAGES {
            self.messages.push(message);
        } else {
            self.left_out += message.count;
        }
    }
}

/// `2m3.5s`, `1s`, `350ms`, `1h2m3s`: as absl writes durations.
fn seconds(text: &str) -> Option<f64> {
    let mut sum = 0.0;
    let mut any = false;
    let mut rest = text.trim_start();
    loop {
        let end = rest
            .find(|c: char| !c.is_ascii_digit() && c != '.')
            .unwrap_or(rest.len());
        let Some(Ok(value)) = rest.get(..end).map(str::parse::<f64>) else {
            break;
        };
        let unit = rest.get(end..).unwrap_or_default();
        let (seconds, length) = if unit.starts_with("ms") {
            (value / 1000.0, 2)
        } else if unit.starts_with('h') {
            (value * 3600.0, 1)
        } else if unit.starts_with('m') {
            (value * 60.0, 1)
        } else if unit.starts_with('s') {
            (value, 1)
        } else {
            break;
        };
        sum += seconds;
        any = true;
        rest = unit.get(length..).unwrap_or_default();
    }
    any.then_some(sum)
}

fn clip(text: &str) -> String {
    text.chars().take(MAX_SHOWN).collect()
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::{Message, MessageKind, seconds};
    use crate::logs::{Logs, read};
    use crate::note::Notes;

    fn messages(text: &str) -> Vec<Message> {
        let mut logs = Logs::default();
        read(
            Path::new("x.log"),
            text.as_bytes(),
            &mut logs,
            &mut Notes::default(),
        );
        logs.compiler_messages.messages
    }

    #[test]
    fn real_warnings_of_jax_on_a_cpu() {
        let text =
            include_str!("../../tests/fixtures/logs/memory/constant_folding_and_donation.txt");
        let found = messages(text);
        let [donation, folding] = found.as_slice() else {
            panic!("{found:?}");
        };
        assert_eq!(donation.kind, MessageKind::DonationUnused);
        assert_eq!(donation.about, "float32[1024,1024]");
        assert_eq!(
            (folding.kind, folding.seconds),
            (MessageKind::ConstantFolding, Some(1.0))
        );
        assert!(
            folding
                .about
                .starts_with("%sort.0 = f32[6000,6000]{1,0} sort(")
        );
        assert_eq!((folding.at.line, folding.count), (4, 1));
    }

    #[test]
    fn a_slow_compile_has_its_module_and_its_time() {
        let alarm = "********\n[Compiling module jit_step] Very slow compile? If you want to file a bug\n********\n";
        let found = messages(&format!(
            "{alarm}x slow_operation_alarm.cc:1] The operation took 2m3.5s\n\n{alarm}"
        ));
        assert_eq!(found.len(), 1);
        assert_eq!(
            (found[0].about.as_str(), found[0].seconds),
            ("jit_step", Some(123.5))
        );
        assert_eq!(found[0].count, 2);
    }

    #[test]
    fn durations() {
        for (text, expected) in [
            ("1h2m3s", Some(3723.0)),
            ("350ms", Some(0.35)),
            ("s", None),
            ("", None),
            ("12", None),
        ] {
            assert_eq!(seconds(text), expected);
        }
    }
}
