//! HLO operation codes and what kind of work each is.

use std::fmt;

/// An HLO opcode: one of XLA's own, shared, or a name that this version does not know.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Opcode(Repr);

#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Repr {
    Known(&'static str),
    Other(Box<str>),
}

/// XLA's opcodes, sorted.
const KNOWN: &[&str] = &[
    "abs",
    "acos",
    "acosh",
    "add",
    "add-dependency",
    "after-all",
    "all-gather",
    "all-gather-done",
    "all-gather-start",
    "all-reduce",
    "all-reduce-done",
    "all-reduce-start",
    "all-to-all",
    "and",
    "asin",
    "asinh",
    "async-done",
    "async-start",
    "async-update",
    "atan2",
    "atanh",
    "batch-norm-grad",
    "batch-norm-inference",
    "batch-norm-training",
    "bitcast",
    "bitcast-convert",
    "broadcast",
    "call",
    "call-done",
    "call-start",
    "call-update",
    "cbrt",
    "ceil",
    "cholesky",
    "clamp",
    "collective-broadcast",
    "collective-permute",
    "collective-permute-done",
    "collective-permute-start",
    "compare",
    "complex",
    "concatenate",
    "conditional",
    "constant",
    "convert",
    "convolution",
    "copy",
    "copy-done",
    "copy-start",
    "cosh",
    "cosine",
    "count-leading-zeros",
    "custom-call",
    "divide",
    "domain",
    "dot",
    "dynamic-reshape",
    "dynamic-slice",
    "dynamic-update-slice",
    "erf",
    "exponential",
    "exponential-minus-one",
    "fft",
    "floor",
    "fusion",
    "gather",
    "get-dimension-size",
    "get-tuple-element",
    "imag",
    "infeed",
    "iota",
    "is-finite",
    "log",
    "log-plus-one",
    "logistic",
    "map",
    "maximum",
    "minimum",
    "multiply",
    "negate",
    "not",
    "opt-barrier",
    "or",
    "outfeed",
    "pad",
    "parameter",
    "partition-id",
    "popcnt",
    "power",
    "ragged-all-to-all",
    "ragged-dot",
    "real",
    "recv",
    "recv-done",
    "reduce",
    "reduce-precision",
    "reduce-scatter",
    "reduce-window",
    "remainder",
    "replica-id",
    "reshape",
    "reverse",
    "rng",
    "rng-bit-generator",
    "rng-get-and-update-state",
    "round-nearest-afz",
    "round-nearest-even",
    "rsqrt",
    "scan",
    "scatter",
    "select",
    "select-and-scatter",
    "send",
    "send-done",
    "set-dimension-size",
    "shift-left",
    "shift-right-arithmetic",
    "shift-right-logical",
    "sign",
    "sine",
    "sinh",
    "slice",
    "slice-done",
    "slice-start",
    "sort",
    "sqrt",
    "stochastic-convert",
    "subtract",
    "tan",
    "tanh",
    "topk",
    "transpose",
    "triangular-solve",
    "tuple",
    "while",
    "xor",
];

/// Which half of an asynchronous operation an opcode is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum AsyncPart {
    /// Starts it and goes on.
    Start,
    /// Stands between start and done.
    Update,
    /// Waits for its end.
    Done,
}

impl Opcode {
    /// The opcode of that name.
    #[must_use]
    pub fn new(name: &str) -> Self {
        match KNOWN.binary_search(&name) {
            Ok(index) => Self(Repr::Known(KNOWN[index])),
            Err(_) => Self(Repr::Other(name.into())),
        }
    }

    /// Its name, as HLO text writes it.
    #[must_use]
    pub fn as_str(&self) -> &str {
        match &self.0 {
            Repr::Known(name) => name,
            Repr::Other(name) => name,
        }
    }

    /// Whether XLA has it; asynchronous short forms such as `gather-start` count as unknown.
    #[must_use]
    pub fn is_known(&self) -> bool {
        matches!(self.0, Repr::Known(_))
    }

    /// Which part of an asynchronous pair it is, and of what: `slice-start` starts a `slice`,
    /// `async-done` ends whatever its computation holds.
    #[must_use]
    pub fn async_part(&self) -> Option<(AsyncPart, &str)> {
        let name = self.as_str();
        [
            ("-start", AsyncPart::Start),
            ("-update", AsyncPart::Update),
            ("-done", AsyncPart::Done),
        ]
        .into_iter()
        .find_map(|(suffix, part)| Some((part, name.strip_suffix(suffix)?)))
    }

    /// Whether it computes a transcendental function for each element.
    #[must_use]
    pub fn is_transcendental(&self) -> bool {
        matches!(
            self.as_str(),
            "acos"
                | "acosh"
                | "asin"
                | "asinh"
                | "atan2"
                | "atanh"
                | "cbrt"
                | "cosh"
                | "cosine"
                | "erf"
                | "exponential"
                | "exponential-minus-one"
                | "log"
                | "log-plus-one"
                | "logistic"
                | "power"
                | "rsqrt"
                | "sine"
                | "sinh"
                | "sqrt"
                | "tan"
                | "tanh"
        )
    }

    /// Whether it does one cheap operation for each element of its result.
    #[must_use]
    pub fn is_elementwise(&self) -> bool {
        matches!(
            self.as_str(),
            "abs"
                | "add"
                | "and"
                | "ceil"
                | "clamp"
                | "compare"
                | "complex"
                | "convert"
                | "count-leading-zeros"
                | "divide"
                | "floor"
                | "imag"
                | "is-finite"
                | "maximum"
                | "minimum"
                | "multiply"
                | "negate"
                | "not"
                | "or"
                | "popcnt"
                | "real"
                | "reduce-precision"
                | "remainder"
                | "round-nearest-afz"
                | "round-nearest-even"
                | "select"
                | "shift-left"
                | "shift-right-arithmetic"
                | "shift-right-logical"
                | "sign"
                | "stochastic-convert"
                | "subtract"
                | "xor"
        )
    }

    /// Whether it only names or rearranges values, without moving a byte.
    #[must_use]
    pub fn is_free(&self) -> bool {
        matches!(
            self.as_str(),
            "add-dependency"
                | "after-all"
                | "bitcast"
                | "constant"
                | "domain"
                | "get-dimension-size"
                | "get-tuple-element"
                | "opt-barrier"
                | "parameter"
                | "partition-id"
                | "replica-id"
                | "tuple"
        )
    }

    /// Whether chips talk to each other in it (either half, where it is asynchronous).
    #[must_use]
    pub fn is_collective(&self) -> bool {
        let name = self.async_part().map_or(self.as_str(), |(_, base)| base);
        matches!(
            name,
            "all-gather"
                | "all-reduce"
                | "all-to-all"
                | "collective-broadcast"
                | "collective-permute"
                | "ragged-all-to-all"
                | "reduce-scatter"
        )
    }

    /// Whether the work is that of the computations it calls, each op counted there.
    #[must_use]
    pub fn is_control_flow(&self) -> bool {
        matches!(self.as_str(), "while" | "conditional" | "call")
    }
}

impl fmt::Debug for Opcode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Display for Opcode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl AsRef<str> for Opcode {
    fn as_ref(&self) -> &str {
        self.as_str()
    }
}

impl PartialEq<str> for Opcode {
    fn eq(&self, other: &str) -> bool {
        self.as_str() == other
    }
}

impl PartialEq<&str> for Opcode {
    fn eq(&self, other: &&str) -> bool {
        self.as_str() == *other
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_sorted_so_that_every_opcode_is_found() {
        assert!(KNOWN.is_sorted());
        for name in KNOWN {
            let opcode = Opcode::new(name);
            assert!(opcode.is_known(), "{name}");
            assert_eq!(opcode, *name);
        }
        assert!(!Opcode::new("gather-start").is_known());
    }

    #[test]
    fn asynchronous_parts_know_their_base() {
        assert_eq!(
            Opcode::new("slice-start").async_part(),
            Some((AsyncPart::Start, "slice"))
        );
        assert_eq!(
            Opcode::new("call-update").async_part(),
            Some((AsyncPart::Update, "call"))
        );
        assert_eq!(Opcode::new("dynamic-update-slice").async_part(), None);
        assert!(Opcode::new("all-gather-done").is_collective());
        assert!(!Opcode::new("copy-done").is_collective());
    }
}
