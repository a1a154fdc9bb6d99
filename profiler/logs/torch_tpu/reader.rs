//! Lines become messages.

use super::{Message, Recompiled, Saying, attention};
use crate::logs::torch_trace::SourceLine;
use crate::logs::{At, Line, LineReader, Logs, More};
use crate::note::Notes;

const NOT_IMPLEMENTED: &str = "is not implemented for TPU";
const FALLS_BACK: &str = "Falling back to CPU";
const FLASH: &str = "TorchTPU only supports FLASH_ATTENTION SDPBackend";
const TCMALLOC: &str = "<TorchTpu/Performance/TcMalloc/>";
const UNOPTIMIZED: &str = "<TorchTpu/Performance/UnoptimizedBuild/>";
const VARIABLE: &str = " environment variable is an experimental feature";
const LAUNCH_BLOCKING: &str = "TORCH_TPU_LAUNCH_BLOCKING";
const DEBUG_CHECKS: &str = "TORCH_TPU_ENABLE_DEBUG_CHECKS";
const LIMIT: &str = "hit config.recompile_limit";
const OLD_LIMIT: &str = "hit config.cache_size_limit";
const RECOMPILING: &str = "Recompiling function ";
const BREAK: &str = "in user code at ";
const REASON: &str = "Graph Break Reason: ";
const FLEX_ABORT: &str = "compiled_mode.cc";
const CONTEXT: &str = "Failed to create default compilation context";
const FLEX_IMPORT: &str = "PyTorch Flex Attention requirements in Transformers are not met";
const DYNAMIC: &str = "TPU backend does not support torch.compile(..., dynamic=True";
const INDUCTOR: &str = "backend='inductor') on TPU is experimental";
const DROPPED: &str = "torch_tpu tracing dropped ";

/// Subjects of messages, functions and guards that are kept.
const MAX_MESSAGES: usize = 1 << 12;
const MAX_GUARDS: usize = 32;
/// Lines that a message may go on for.
const MAX_LINES: usize = 64;
const MAX_TEXT: usize = 240;

/// What the next lines may add to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
enum Open {
    #[default]
    Nothing,
    /// Conditions of the attention warning.
    Attention(At, String, Vec<String>),
    /// Guards of the function at this index, and whether any came.
    Guards(usize, bool),
    /// Function and last reason of a limit: the message at this index.
    Limit(usize),
    /// The reason of a graph break: the message at this index.
    Break(usize),
}

/// Reads TorchTPU's and Dynamo's messages.
#[derive(Debug, Default)]
pub(crate) struct Reader {
    messages: Vec<Message>,
    recompiled: Vec<Recompiled>,
    open: Open,
    lines: usize,
}

impl LineReader for Reader {
    fn triggers(&self) -> &'static [&'static str] {
        &[
            NOT_IMPLEMENTED,
            FLASH,
            TCMALLOC,
            UNOPTIMIZED,
            VARIABLE,
            "TPU_LAUNCH_BLOCKING=1",
            "TORCH_TPU_ENABLE_DEBUG_CHECKS=1",
            LIMIT,
            OLD_LIMIT,
            RECOMPILING,
            BREAK,
            FLEX_ABORT,
            CONTEXT,
            FLEX_IMPORT,
            DYNAMIC,
            INDUCTOR,
            DROPPED,
        ]
    }

    fn line(&mut self, line: Line<'_>) -> More {
        // Payloads of TORCH_TRACE logs repeat these texts; their reader counts them.
        if line.text.starts_with('\t') {
            return More::Triggers;
        }
        if self.lines < MAX_LINES && self.goes_on(line.text) {
            self.lines += 1;
            return More::NextLine;
        }
        self.close();
        self.begins(line);
        self.lines = 0;
        if self.open == Open::Nothing {
            More::Triggers
        } else {
            More::NextLine
        }
    }

    fn finish(mut self: Box<Self>, logs: &mut Logs, _notes: &mut Notes) -> bool {
        self.close();
        if self.messages.is_empty() && self.recompiled.is_empty() {
            return false;
        }
        logs.torch_tpu.messages.append(&mut self.messages);
        logs.torch_tpu.recompiled.append(&mut self.recompiled);
        true
    }
}

impl Reader {
    fn begins(&mut self, line: Line<'_>) {
        let text = line.text;
        if text.contains(NOT_IMPLEMENTED) {
            let falls_back = text.contains(FALLS_BACK);
            // Functions of allocators are not operations.
            if let Some(operation) = quoted_before(text, NOT_IMPLEMENTED) {
                let saying = if falls_back {
                    Saying::CpuFallback
                } else {
                    Saying::NotImplemented
                };
                self.say(saying, &operation, line);
            }
        } else if text.contains(FLASH) {
            self.open = Open::Attention(line.at, text.to_owned(), Vec::new());
        } else if text.contains(TCMALLOC) {
            self.say(Saying::NoTcmalloc, "", line);
        } else if text.contains(UNOPTIMIZED) {
            self.say(Saying::UnoptimizedBuild, "", line);
        } else if let Some(name) = debug_variable(text) {
            self.say(Saying::DebugSetting, name, line);
        } else if text.contains(LIMIT) || text.contains(OLD_LIMIT) {
            let limit = text
                .rsplit_once('(')
                .map(|(_, limit)| limit.trim_end_matches(')'));
            let index = self.messages.len();
            self.add(Saying::RecompileLimit, "", limit.unwrap_or_default(), line);
            if self.messages.len() > index {
                self.open = Open::Limit(index);
            }
        } else if let Some((_, function)) = text.split_once(RECOMPILING) {
            self.recompiling(line.at, function);
        } else if text.contains("Graph break") && text.contains(BREAK) {
            let place = text.split_once(BREAK).map_or("", |(_, place)| place.trim());
            let index = self.say(Saying::GraphBreak, place, line);
            self.open = index.map_or(Open::Nothing, Open::Break);
        } else if text.contains(FLEX_ABORT) && text.contains("Check failed") {
            self.say(Saying::FlexAbort, "", line);
        } else if text.contains(CONTEXT) {
            self.say(Saying::NoCompilationContext, "", line);
        } else if text.contains(FLEX_IMPORT) {
            self.say(Saying::FlexUnavailable, "", line);
        } else if text.contains(DYNAMIC) {
            self.say(Saying::DynamicCompile, "", line);
        } else if text.contains(INDUCTOR) {
            self.say(Saying::InductorBackend, "", line);
        } else if let Some((_, after)) = text.split_once(DROPPED) {
            let count = after.split(' ').next().unwrap_or_default();
            self.add(Saying::DroppedTrace, "", count, line);
        }
    }

    /// Takes a line that belongs to what is open.
    fn goes_on(&mut self, text: &str) -> bool {
        match &mut self.open {
            Open::Nothing => false,
            Open::Attention(_, _, conditions) => {
                let condition = text.starts_with("- ") || text.starts_with("(query shape");
                if condition {
                    conditions.push(text.to_owned());
                }
                condition && !text.contains("(Triggered internally")
            }
            Open::Guards(index, any) => {
                if text.contains("triggered by the following guard failure") {
                    return true;
                }
                let Some((_, guard)) = text.split_once(" - ").filter(|(_, g)| g.contains('/'))
                else {
                    return false;
                };
                *any = true;
                if let Some(recompiled) = self.recompiled.get_mut(*index) {
                    let guard = guard.split_once(": ").map_or(guard, |(_, guard)| guard);
                    let guard = guard.trim().to_owned();
                    if recompiled.guards.len() < MAX_GUARDS && !recompiled.guards.contains(&guard) {
                        recompiled.guards.push(guard);
                    }
                }
                true
            }
            Open::Limit(index) => {
                let Some(message) = self.messages.get_mut(*index) else {
                    return false;
                };
                if let Some((_, function)) = text.split_once("function: ") {
                    message.subject = function.trim().to_owned();
                    true
                } else if let Some((_, reason)) = text.split_once("last reason: ") {
                    message.detail = format!("{}: {}", message.detail, reason.trim());
                    true
                } else {
                    false
                }
            }
            Open::Break(index) => {
                let Some(message) = self.messages.get_mut(*index) else {
                    return false;
                };
                if let Some((_, reason)) = text.split_once(REASON) {
                    message.detail = reason.trim().to_owned();
                    return true;
                }
                let explained = text.split_once("Explanation: ");
                if let Some((_, explanation)) = explained
                    && message.detail.starts_with("Encountered graph break")
                {
                    message.detail = explanation.trim().to_owned();
                    return false;
                }
                message.detail.starts_with("Encountered graph break")
            }
        }
    }

    fn close(&mut self) {
        if let Open::Attention(at, text, conditions) = std::mem::take(&mut self.open) {
            let unmet = attention::unmet(&conditions).join("; ");
            let shape = conditions
                .iter()
                .find(|line| line.starts_with("(query shape"));
            let detail = shape.map(|shape| shape.trim_matches(['(', ')']).to_owned());
            let line = Line { at, text: &text };
            let python = text.split(": UserWarning").next().unwrap_or_default();
            let place = if python.len() < text.len() {
                python
            } else {
                ""
            };
            let detail = [place, &detail.unwrap_or_default()].join(" ");
            self.add(Saying::SlowAttention, &unmet, detail.trim(), line);
        }
    }

    fn recompiling(&mut self, at: At, text: &str) {
        let Some((name, place)) = text.split_once(" in ") else {
            return;
        };
        let Some(mut function) = SourceLine::parse(place) else {
            return;
        };
        function.function = name.trim().to_owned();
        let known = self
            .recompiled
            .iter()
            .position(|known| known.function == function);
        let index = known.unwrap_or(self.recompiled.len());
        if let Some(known) = self.recompiled.get_mut(index) {
            known.count += 1;
        } else if index < MAX_MESSAGES {
            self.recompiled.push(Recompiled {
                function,
                at,
                count: 1,
                guards: Vec::new(),
            });
        }
        self.open = Open::Guards(index, false);
    }

    fn say(&mut self, saying: Saying, subject: &str, line: Line<'_>) -> Option<usize> {
        self.add(saying, subject, "", line)
    }

    /// Counts a message; the index of the one of its subject.
    fn add(
        &mut self,
        saying: Saying,
        subject: &str,
        detail: &str,
        line: Line<'_>,
    ) -> Option<usize> {
        let same = |known: &Message| known.saying == saying && known.subject == subject;
        // A limit's subject comes in the next line.
        let known = match saying {
            Saying::RecompileLimit => None,
            _ => self.messages.iter().position(same),
        };
        if let Some(index) = known {
            let known = self.messages.get_mut(index)?;
            known.count += 1;
            return Some(index);
        }
        if self.messages.len() >= MAX_MESSAGES {
            return None;
        }
        self.messages.push(Message {
            saying,
            subject: subject.to_owned(),
            detail: detail.to_owned(),
            text: line.text.trim().chars().take(MAX_TEXT).collect(),
            at: line.at,
            count: 1,
        });
        Some(self.messages.len() - 1)
    }
}

/// What stands in quotes right before a text: `operator 'aten::median' is not implemented …`.
fn quoted_before(text: &str, what: &str) -> Option<String> {
    let (before, _) = text.split_once(what)?;
    let (_, name) = before.trim_end().strip_suffix('\'')?.rsplit_once('\'')?;
    Some(name.to_owned())
}

/// The variable that a line says is set, where it is one for debugging.
fn debug_variable(text: &str) -> Option<&'static str> {
    let said = text.contains(VARIABLE);
    let set = |name: &str| text.contains(&format!("{name}=1"));
    if (said && text.contains(LAUNCH_BLOCKING)) || set("TPU_LAUNCH_BLOCKING") {
        Some(LAUNCH_BLOCKING)
    } else if (said && text.contains(DEBUG_CHECKS)) || set(DEBUG_CHECKS) {
        Some(DEBUG_CHECKS)
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::super::{Saying, TorchTpuLog};
    use crate::logs::{self, Logs};
    use crate::note::Notes;

    fn read(text: &str) -> TorchTpuLog {
        let mut logs = Logs::default();
        logs::read(
            Path::new("run.log"),
            text.as_bytes(),
            &mut logs,
            &mut Notes::default(),
        );
        logs.torch_tpu
    }

    fn found(log: &TorchTpuLog) -> Vec<(&Saying, &str, u64)> {
        let messages = log.messages.iter();
        messages
            .map(|m| (&m.saying, m.subject.as_str(), m.count))
            .collect()
    }

    #[test]
    fn what_torch_tpu_refuses_or_does_slowly() {
        let log = read(include_str!(
            "../../../tests/fixtures/logs/torch_tpu/refusals.log"
        ));
        let width = "the head dimension is 160: above 128 it must be a multiple of 128";
        let expected = [
            (&Saying::NoTcmalloc, "", 1),
            (&Saying::DebugSetting, "TORCH_TPU_LAUNCH_BLOCKING", 1),
            (&Saying::NotImplemented, "aten::median", 1),
            (&Saying::NotImplemented, "aten::kthvalue.values", 1),
            (&Saying::SlowAttention, width, 1),
            (&Saying::DynamicCompile, "", 1),
            (&Saying::InductorBackend, "", 1),
            (&Saying::DebugSetting, "TORCH_TPU_ENABLE_DEBUG_CHECKS", 1),
            (&Saying::CpuFallback, "aten::kthvalue.values", 3),
        ];
        assert_eq!(found(&log), expected);
    }

    #[test]
    fn the_limit_names_its_function_and_the_last_reason() {
        let log = read(include_str!(
            "../../../tests/fixtures/logs/torch_tpu/limit.log"
        ));
        let limit = log.saying(&Saying::RecompileLimit).next().expect("a limit");
        assert_eq!(limit.subject, "'forward' (/home/user/compiled.py:13)");
        let reason = "8: 0/7: tensor 'features' size mismatch at index 0. expected 44, actual 45";
        assert_eq!(limit.detail, reason);
    }

    #[test]
    fn recompiles_with_their_guards_and_breaks_with_their_reasons() {
        let log = read(include_str!(
            "../../../tests/fixtures/logs/torch_tpu/recompiles.log"
        ));
        let forward = &log.recompiled[0];
        assert_eq!(
            forward.function.to_string(),
            "/home/user/compiled.py:13 in forward"
        );
        assert_eq!(forward.count, 8);
        assert!(forward.guards.contains(
            &"tensor 'features' size mismatch at index 0. expected 32, actual 20".to_owned()
        ));
        let breaks: Vec<_> = log.saying(&Saying::GraphBreak).collect();
        assert_eq!(breaks[0].subject, "/home/user/compiled.py:15");
        assert_eq!(breaks[0].detail, "Data-dependent branching");
        assert!(
            breaks[1].detail.contains("builtin operator `print`"),
            "{}",
            breaks[1].detail
        );
    }

    #[test]
    fn a_score_mod_aborts() {
        let log = read(include_str!(
            "../../../tests/fixtures/logs/torch_tpu/score_mod.log"
        ));
        assert_eq!(log.saying(&Saying::FlexAbort).count(), 1);
    }

    #[test]
    fn payloads_of_a_trace_are_not_counted_twice() {
        let log =
            read("\tGraph break in user code at /a.py:1\n\tRecompiling function f in /a.py:2\n");
        assert!(found(&log).is_empty() && log.recompiled.is_empty());
    }
}
