//! Launch commands and configurations of MaxText, MaxDiffusion, TorchTitan, vLLM and SGLang.
//!
//! A file is one launch. Of its lines only settings with known names are read, whatever the
//! dialect: `key=value`, `--key value`, `key: value`, `key = value`, `export KEY=value`.

mod accelerator;
mod keys;

pub use accelerator::Accelerator;

use std::collections::BTreeMap;

use crate::logs::{At, Line, LineReader, Logs, More};
use crate::note::Notes;

/// What is launched.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Tool {
    /// MaxText, JAX training of language models.
    MaxText,
    /// MaxDiffusion, JAX training of diffusion models.
    MaxDiffusion,
    /// TorchTitan.
    TorchTitan,
    /// vLLM.
    Vllm,
    /// SGLang.
    Sglang,
}

impl Tool {
    const WORDS: [(&'static str, Self); 9] = [
        ("MaxText", Self::MaxText),
        ("maxtext", Self::MaxText),
        ("benchmark_runner", Self::MaxText),
        ("axdiffusion", Self::MaxDiffusion),
        ("MAXDIFFUSION", Self::MaxDiffusion),
        ("torchtitan", Self::TorchTitan),
        ("vllm serve", Self::Vllm),
        ("vllm.entrypoints", Self::Vllm),
        ("sglang.launch_server", Self::Sglang),
    ];

    /// The name for people.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::MaxText => "MaxText",
            Self::MaxDiffusion => "MaxDiffusion",
            Self::TorchTitan => "TorchTitan",
            Self::Vllm => "vLLM",
            Self::Sglang => "SGLang",
        }
    }
}

/// A value and where it stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setting {
    /// Where.
    pub at: At,
    /// The value as written, without quotes.
    pub value: String,
    /// The line.
    pub text: String,
}

impl Setting {
    /// The value as a whole number.
    #[must_use]
    pub fn number(&self) -> Option<u64> {
        self.value.replace('_', "").parse().ok()
    }

    /// The value as a number.
    #[must_use]
    pub fn float(&self) -> Option<f64> {
        let value: f64 = self.value.parse().ok()?;
        value.is_finite().then_some(value)
    }

    /// Whether it is switched on: `1`, `true`, `yes`, `on`.
    #[must_use]
    pub fn is_on(&self) -> bool {
        let on = ["1", "true", "yes", "on"];
        on.iter().any(|on| self.value.eq_ignore_ascii_case(on))
    }
}

/// A measured rate that a text names: `native top-k: 0.24 req/s`.
#[derive(Clone, Debug, PartialEq)]
pub struct Rate {
    /// Where.
    pub at: At,
    /// What was measured.
    pub what: String,
    /// Requests a second.
    pub requests_per_s: f64,
}

/// A launch: one file.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Launch {
    /// Its first line that says something.
    pub at: At,
    /// The program that is launched, and where that stands.
    pub tool: Option<(Tool, At)>,
    /// Settings by name, `-` written as `_` and leading dashes left out; the last one counts.
    pub settings: BTreeMap<String, Setting>,
    /// Rates that it names.
    pub rates: Vec<Rate>,
}

impl Launch {
    /// A setting by its name or one of its names.
    #[must_use]
    pub fn get(&self, names: &[&str]) -> Option<&Setting> {
        names.iter().find_map(|name| self.settings.get(*name))
    }

    /// The chips that it asks for.
    #[must_use]
    pub fn accelerator(&self) -> Option<(Accelerator, &Setting)> {
        let names = ["device_type", "tpu_type", "accelerator_type", "device"];
        names.iter().find_map(|name| {
            let setting = self.settings.get(*name)?;
            Some((Accelerator::parse(&setting.value)?, setting))
        })
    }

    /// The model's name.
    #[must_use]
    pub fn model(&self) -> Option<&Setting> {
        self.get(&["model_name", "model", "model_path"])
    }
}

/// All launches, in the order of the files.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Launches {
    /// The launches.
    pub launches: Vec<Launch>,
}

/// Launches that are kept.
const MAX_LAUNCHES: usize = 256;
/// Settings that are kept of a launch.
const MAX_SETTINGS: usize = 512;
/// Rates that are kept of a launch.
const MAX_RATES: usize = 64;
/// Longer lines are data, not settings.
const MAX_LINE_BYTES: usize = 16 << 10;
/// Characters of a value that are kept.
const MAX_VALUE: usize = 160;
/// Characters of a line that are kept to be shown.
const MAX_SHOWN: usize = 200;

/// Reads a launch.
#[derive(Debug, Default)]
pub(super) struct Reader {
    launch: Launch,
    any: bool,
}

impl LineReader for Reader {
    fn triggers(&self) -> &'static [&'static str] {
        &keys::TRIGGERS
    }

    fn line(&mut self, line: Line<'_>) -> More {
        let text = line.text;
        let comment = text.trim_start().starts_with('#') || text.trim_start().starts_with("//");
        // Messages of compilers propose flags; nobody has set those.
        let proposal = text.contains("file a bug") || text.contains("envvar");
        if text.len() > MAX_LINE_BYTES || comment || proposal {
            return More::Triggers;
        }
        for (words, tool) in Tool::WORDS {
            if text.contains(words) && self.launch.tool.is_none() {
                self.met(line.at);
                self.launch.tool = Some((tool, line.at));
            }
        }
        self.settings(line);
        self.rate(line);
        More::Triggers
    }

    fn finish(self: Box<Self>, logs: &mut Logs, _notes: &mut Notes) -> bool {
        let found = self.any && logs.launch.launches.len() < MAX_LAUNCHES;
        if found {
            logs.launch.launches.push(self.launch);
        }
        found
    }
}

impl Reader {
    fn met(&mut self, at: At) {
        if !self.any {
            self.launch.at = at;
        }
        self.any = true;
    }

    fn settings(&mut self, line: Line<'_>) {
        let blank = |c: char| if "\"'`,;\\(){}".contains(c) { ' ' } else { c };
        // A quote that opens a value is no part of it: `--model_name="x"`. Flags that are the value
        // of a variable are words of their own.
        let plain = line.text.replace("=\"", "=").replace("='", "=");
        let plain = plain.replace("=--", "= --");
        let plain: String = plain.chars().map(blank).collect();
        let words: Vec<&str> = plain.split_whitespace().collect();
        for (at, word) in words.iter().enumerate() {
            let next = words.get(at + 1).copied();
            let (key, value) = if let Some((key, value)) = word.split_once('=')
                && !key.is_empty()
            {
                (key, Some(value))
            } else if let Some(key) = word.strip_suffix(':') {
                (key, next)
            } else if matches!(next, Some("=" | ":")) {
                (*word, words.get(at + 2).copied())
            } else if word.starts_with("--") {
                (
                    *word,
                    next.filter(|next| !next.starts_with('-')).or(Some("true")),
                )
            } else {
                continue;
            };
            let flag = key.starts_with("--");
            let name = key.trim_start_matches('-').replace('-', "_");
            let Some(value) = value.filter(|value| !value.is_empty() && !value.contains('$'))
            else {
                continue;
            };
            // XLA's flags are many; they are known by their dashes.
            let known = keys::is_known(&name) || (flag && name.starts_with("xla_"));
            if !known
                || (self.launch.settings.len() >= MAX_SETTINGS
                    && !self.launch.settings.contains_key(&name))
            {
                continue;
            }
            self.met(line.at);
            let setting = Setting {
                at: line.at,
                value: value.chars().take(MAX_VALUE).collect(),
                text: line.text.trim().chars().take(MAX_SHOWN).collect(),
            };
            self.launch.settings.insert(name, setting);
        }
    }

    fn rate(&mut self, line: Line<'_>) {
        let Some((before, _)) = line.text.split_once(" req/s") else {
            return;
        };
        let Some((what, number)) = before.rsplit_once(": ") else {
            return;
        };
        if let Ok(requests_per_s) = number.trim().parse::<f64>()
            && requests_per_s.is_finite()
            && requests_per_s > 0.0
            && self.launch.rates.len() < MAX_RATES
        {
            self.met(line.at);
            self.launch.rates.push(Rate {
                at: line.at,
                what: what.trim().chars().take(MAX_VALUE).collect(),
                requests_per_s,
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::{Launch, Tool};
    use crate::chip::Generation;
    use crate::logs::{Logs, read};
    use crate::note::Notes;

    fn launch(text: &str) -> Launch {
        let mut logs = Logs::default();
        read(
            Path::new("run.sh"),
            text.as_bytes(),
            &mut logs,
            &mut Notes::default(),
        );
        logs.launch.launches.into_iter().next().unwrap_or_default()
    }

    #[test]
    fn settings_of_all_dialects() {
        let found = launch(
            "export TPU_LAUNCH_BLOCKING=1\npython -m MaxText.train cfg.yml ici_fsdp_parallelism=4 \\\n  --device-type=\"tpu7x-4x4x4\" --num-slices 2\nnum_experts: 8 # yml\ntensor_parallel_degree = 4\n\"num_attention_heads\": 32,\nLIBTPU_INIT_ARGS='--xla_tpu_rwb_fusion=false --xla_foo'\n# ici_tensor_parallelism=2\nper_device_batch_size=${B}\n",
        );
        let value = |name: &str| {
            found
                .settings
                .get(name)
                .map(|setting| setting.value.as_str())
        };
        assert_eq!(
            found.tool.map(|(tool, at)| (tool, at.line)),
            Some((Tool::MaxText, 2))
        );
        assert_eq!(value("TPU_LAUNCH_BLOCKING"), Some("1"));
        assert_eq!(value("ici_fsdp_parallelism"), Some("4"));
        assert_eq!(value("num_slices"), Some("2"));
        assert_eq!(value("num_experts"), Some("8"));
        assert_eq!(value("tensor_parallel_degree"), Some("4"));
        assert_eq!(value("num_attention_heads"), Some("32"));
        assert_eq!(value("xla_tpu_rwb_fusion"), Some("false"));
        assert_eq!(value("xla_foo"), Some("true"));
        assert_eq!(value("ici_tensor_parallelism"), None);
        assert_eq!(value("per_device_batch_size"), None);
        let (accelerator, setting) = found.accelerator().expect("one");
        assert_eq!(accelerator.generation, Generation::Tpu7x);
        assert_eq!((accelerator.chips, setting.at.line), (Some(64), 3));
    }

    #[test]
    fn flags_that_a_compiler_proposes_are_not_set() {
        let found = launch(
            "If you'd like to file a bug, run with envvar XLA_FLAGS=--xla_dump_to=/tmp/foo\n",
        );
        assert_eq!(found, Launch::default());
    }
}
