//! Explained misses of the tracing cache: which argument of which function changed, and how.

use crate::logs::{At, Line};

/// What stands in the first line of each.
pub(super) const MARK: &str = "TRACING CACHE MISS at ";
/// Misses that are kept, changes of one, and characters of a text.
const MAX_KEPT: usize = 2048;
const MAX_CHANGES: usize = 8;
const MAX_CHARS: usize = 300;

/// What differs in an argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Difference {
    /// Its shape.
    Shape,
    /// Its dtype.
    Dtype,
    /// A Python scalar on one call, an array on the other.
    WeakType,
    /// Something else, as its sharding.
    Other,
}

/// A changed argument.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// Its name or path, as `batch` or `args[0]['x']`.
    pub argument: String,
    /// Its type on this call, as `f32[12,64]`.
    pub now: String,
    /// Its type on the closest call before.
    pub before: String,
}

impl Change {
    /// What differs.
    #[must_use]
    pub fn difference(&self) -> Difference {
        let plain = |kind: &'_ str| kind.split('{').next().unwrap_or_default().to_owned();
        let (now, before) = (plain(&self.now), plain(&self.before));
        let dtype = |kind: &str| kind.split('[').next().unwrap_or_default().to_owned();
        if dtype(&now) != dtype(&before) {
            Difference::Dtype
        } else if now != before {
            Difference::Shape
        } else if self.now.contains("weak_type") || self.before.contains("weak_type") {
            Difference::WeakType
        } else {
            Difference::Other
        }
    }
}

/// Why nothing was found in the cache.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Reason {
    /// The function was never called before.
    #[default]
    NewFunction,
    /// Another function of the same line was: it is made anew.
    Redefined,
    /// Arguments differ.
    Arguments(Vec<Change>),
    /// A static argument differs: now and before.
    Static(String, String),
    /// What the log says, where it is none of these.
    Other(String),
}

/// A miss.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CacheMiss {
    /// Where it is said.
    pub at: At,
    /// The call: `file:line:column (function)`.
    pub call: String,
    /// Time of the trace in seconds.
    pub seconds: Option<f64>,
    /// The function that was called.
    pub function: String,
    /// Where it is defined: `file:line`; may be empty.
    pub defined: String,
    /// Why.
    pub reason: Reason,
}

impl CacheMiss {
    /// Whether the function is the user's own, as far as paths tell.
    #[must_use]
    pub fn is_user_code(&self) -> bool {
        let packages = ["site-packages", "dist-packages", "/jax/_src/"];
        !self.defined.is_empty()
            && !packages
                .iter()
                .any(|package| self.defined.contains(package))
    }
}

/// Reads misses.
#[derive(Debug, Default)]
pub(super) struct MissReader {
    misses: Vec<CacheMiss>,
    count: u64,
    current: Option<CacheMiss>,
    expects_function: bool,
}

impl MissReader {
    /// Reads a line; whether it belongs to a miss, so that the next may as well.
    pub(super) fn line(&mut self, line: Line<'_>) -> bool {
        if let Some((_, rest)) = line.text.split_once(MARK) {
            self.close();
            let (call, cost) = rest.split_once(" costing ").unwrap_or((rest, ""));
            let call = call.trim_end_matches(" because:").trim_end_matches(':');
            let seconds = cost
                .split_once(" ms")
                .and_then(|(ms, _)| ms.parse::<f64>().ok());
            self.current = Some(CacheMiss {
                at: line.at,
                call: short(call),
                seconds: seconds.map(|ms| ms / 1e3),
                ..CacheMiss::default()
            });
            return true;
        }
        let Some(current) = &mut self.current else {
            return false;
        };
        let text = line.text;
        let said = text.trim();
        let goes_on = text.starts_with("  ")
            || [
                "where weak_type",
                "weak_type=",
                "See https",
                "explanation unavailable",
            ]
            .iter()
            .any(|start| said.starts_with(start));
        if !goes_on || said.is_empty() {
            self.close();
            return false;
        }
        if said.starts_with("never seen function") {
            self.expects_function = true;
        } else if std::mem::take(&mut self.expects_function) {
            let (name, defined) = said.split_once(" defined at ").unwrap_or((said, ""));
            current.function = short(name.split(" id=").next().unwrap_or(name));
            current.defined = short(defined);
        } else if said.starts_with("but seen another function") {
            current.reason = Reason::Redefined;
        } else if let Some(named) = said
            .strip_prefix("for ")
            .filter(|_| current.function.is_empty())
        {
            let (name, defined) = named.split_once(" defined at ").unwrap_or((named, ""));
            current.function = short(name);
            current.defined = short(defined);
            current.reason = Reason::Other(String::new());
        } else {
            explain(current, said);
        }
        true
    }

    fn close(&mut self) {
        self.expects_function = false;
        if let Some(miss) = self.current.take() {
            self.count += 1;
            if self.misses.len() < MAX_KEPT {
                self.misses.push(miss);
            }
        }
    }

    /// All misses that were kept, and how many there were.
    pub(super) fn finish(mut self) -> (Vec<CacheMiss>, u64) {
        self.close();
        (self.misses, self.count)
    }
}

/// A line that says what differs.
fn explain(miss: &mut CacheMiss, said: &str) {
    if let Some(change) = said.strip_prefix("* at ").and_then(change) {
        match &mut miss.reason {
            Reason::Arguments(changes) => {
                // Several earlier calls may be as close: the first one is told of.
                let known = changes
                    .iter()
                    .any(|known| known.argument == change.argument);
                if !known && changes.len() < MAX_CHANGES {
                    changes.push(change);
                }
            }
            _ => miss.reason = Reason::Arguments(vec![change]),
        }
    } else if matches!(&miss.reason, Reason::Other(known) if known.is_empty()) {
        if let Some((now, before)) = said
            .strip_prefix("now ")
            .and_then(|said| said.split_once(" and before "))
        {
            miss.reason = Reason::Static(short(now), short(before));
        } else if let Some(difference) = said.strip_prefix("* key with ")
            && !difference.contains("static arg")
            && !difference.contains("input types")
        {
            miss.reason = Reason::Other(short(difference.trim_end_matches(':')));
        } else if said.starts_with("never ") && !said.contains("type signature") {
            miss.reason = Reason::Other(short(said.trim_end_matches(':')));
        }
    }
}

/// `batch, now f32[12] and before f32[16]`, or `batch, seen f32[16], but now given f32[12]`.
fn change(text: &str) -> Option<Change> {
    let new = text.split_once(", now ").and_then(|(argument, rest)| {
        let (now, before) = rest.split_once(" and before ")?;
        Some((argument, now, before))
    });
    let old = || {
        let (argument, rest) = text.split_once(", seen ")?;
        let (before, now) = rest.split_once(", but now given ")?;
        Some((argument, now, before))
    };
    let (argument, now, before) = new.or_else(old)?;
    let clean = |kind: &str| short(kind.split("https://").next().unwrap_or(kind).trim());
    Some(Change {
        argument: short(argument),
        now: clean(now),
        before: clean(before),
    })
}

fn short(text: &str) -> String {
    text.chars().take(MAX_CHARS).collect()
}
