//! What a version of TorchTPU has: operators, counterparts of `torch.cuda`, and what to write in
//! place of what is missing.
//!
//! ```text
//! data/torch_tpu/0.2.0.ops ────────> version(..).support(op)  made by torch_tpu/list_ops.py
//! data/torch_tpu/calls.toml ───────> operators(call)          Python calls to operators
//! data/torch_tpu/substitutes.toml ─> substitute(op)           what to write instead
//! data/torch_tpu/cuda.toml ────────> cuda_call(name)          torch.cuda to torch.accelerator
//! data/torch_tpu/packages.toml ────> package(import)          packages that need a GPU
//! data/torch_tpu/xla.toml ─────────> xla_idiom(name)          PyTorch/XLA to TorchTPU
//! ```

use std::collections::BTreeMap;
use std::sync::LazyLock;

use serde::Deserialize;

/// How TorchTPU runs an ATen operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Support {
    /// It has a kernel.
    Kernel,
    /// `PyTorch` writes it with other operators, which have kernels of their own or not.
    Decomposed,
    /// Compiled code runs, eager code raises.
    CompiledOnly,
    /// CUDA has a kernel and the TPU none: it raises `operator ... is not implemented for TPU`.
    Unsupported,
    /// The table has no such operator.
    Unknown,
}

impl Support {
    /// All answers, the best first.
    pub const ALL: [Self; 5] = [
        Self::Kernel,
        Self::Decomposed,
        Self::CompiledOnly,
        Self::Unsupported,
        Self::Unknown,
    ];

    /// The name for people.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Kernel => "kernel",
            Self::Decomposed => "decomposed",
            Self::CompiledOnly => "compiled only",
            Self::Unsupported => "unsupported",
            Self::Unknown => "unknown",
        }
    }

    /// Whether a call of it in eager mode raises.
    #[must_use]
    pub fn is_missing(self) -> bool {
        matches!(self, Self::CompiledOnly | Self::Unsupported)
    }
}

/// The operators of one version of `torch_tpu`.
#[derive(Debug)]
pub struct Version {
    /// The version, as `0.2.0`.
    pub torch_tpu: &'static str,
    /// The version of torch that it was listed with.
    pub torch: &'static str,
    /// Overloads and their class, by operator.
    operators: BTreeMap<&'static str, Vec<(&'static str, Support)>>,
}

const TABLES: &[&str] = &[include_str!("data/torch_tpu/0.2.0.ops")];

/// The versions whose operators are known, oldest first.
pub fn versions() -> &'static [Version] {
    static VERSIONS: LazyLock<Vec<Version>> =
        LazyLock::new(|| TABLES.iter().map(|text| Version::parse(text)).collect());
    &VERSIONS
}

/// The version of that name.
///
/// ```
/// use knowledge::torch_tpu::{Support, version};
///
/// let known = version("0.2.0").expect("its table is built in");
/// assert_eq!(known.support("aten.relu.default"), Support::Kernel);
/// assert_eq!(known.support("aten::median"), Support::Unsupported);
/// assert_eq!(known.support("softshrink"), Support::CompiledOnly);
/// ```
#[must_use]
pub fn version(name: &str) -> Option<&'static Version> {
    versions().iter().find(|known| known.torch_tpu == name)
}

/// The version of that name, or else the newest that is known.
///
/// # Panics
/// Never: a table is built in.
#[must_use]
pub fn version_or_newest(name: Option<&str>) -> &'static Version {
    name.and_then(version)
        .or_else(|| versions().last())
        .expect("a table is built in")
}

impl Version {
    /// Reads a table: lines of a class, an operator and its overloads; the first line is a comment
    /// that names the versions.
    fn parse(text: &'static str) -> Self {
        let word = |name: &str| {
            let head = text.lines().next().unwrap_or_default();
            let mut words = head.split([' ', ',']).skip_while(move |word| *word != name);
            words.nth(1).unwrap_or_default()
        };
        let mut operators: BTreeMap<&'static str, Vec<(&'static str, Support)>> = BTreeMap::new();
        for line in text.lines() {
            let mut fields = line.split(' ');
            let class = match fields.next() {
                Some("K") => Support::Kernel,
                Some("D") => Support::Decomposed,
                Some("C") => Support::CompiledOnly,
                Some("U") => Support::Unsupported,
                _ => continue,
            };
            let (Some(name), Some(overloads)) = (fields.next(), fields.next()) else {
                continue;
            };
            let overloads = overloads.split(',').map(|overload| (overload, class));
            operators.entry(name).or_default().extend(overloads);
        }
        Self {
            torch_tpu: word("torch_tpu"),
            torch: word("torch"),
            operators,
        }
    }

    /// How an operator runs. It may be named as `aten::relu`, `torch.ops.aten.relu.default`,
    /// `aten.relu` or `relu`; without an overload one that has a kernel counts, or else one that is
    /// missing.
    #[must_use]
    pub fn support(&self, operator: &str) -> Support {
        let (name, overload) = split(operator);
        let Some(overloads) = self.operators.get(name) else {
            return Support::Unknown;
        };
        let any = |wanted: Support| overloads.iter().any(|(_, class)| *class == wanted);
        let class = match overload {
            Some(overload) => {
                let wanted = if overload == "default" { "-" } else { overload };
                let found = overloads.iter().find(|(overload, _)| *overload == wanted);
                found.map_or(Support::Unknown, |(_, class)| *class)
            }
            None => [Support::Kernel, Support::Unsupported, Support::CompiledOnly]
                .into_iter()
                .find(|class| any(*class))
                .unwrap_or(Support::Decomposed),
        };
        // An overload that is written with one of its siblings.
        if class == Support::Decomposed && any(Support::Kernel) {
            Support::Kernel
        } else {
            class
        }
    }

    /// How many operators have an overload of each class, in the order of [`Support::ALL`] without
    /// the unknown.
    #[must_use]
    pub fn counts(&self) -> [usize; 4] {
        let mut counts = [0; 4];
        for name in self.operators.keys() {
            if let Some(count) = counts.get_mut(self.support(name) as usize) {
                *count += 1;
            }
        }
        counts
    }

    /// Overloads with kernels, and the operators that they are of.
    #[must_use]
    pub fn kernels(&self) -> (usize, usize) {
        let kernels = self.operators.values().map(|overloads| {
            let kernels = overloads
                .iter()
                .filter(|(_, class)| *class == Support::Kernel);
            kernels.count()
        });
        kernels.fold((0, 0), |(overloads, operators), count| {
            (overloads + count, operators + usize::from(count > 0))
        })
    }

    /// Whether the gradient of an operator is missing although the operator itself is not: its
    /// backward operator, which raises.
    #[must_use]
    pub fn missing_gradient(&self, operator: &str) -> Option<String> {
        let (name, _) = split(operator);
        let name = match name {
            "_weight_norm" => "_weight_norm_interface",
            name => name,
        };
        let backward = format!("{name}_backward");
        (self.support(name) == Support::Kernel && self.support(&backward).is_missing())
            .then_some(backward)
    }
}

/// An operator's name and overload, whatever stands around them.
fn split(operator: &str) -> (&str, Option<&str>) {
    let mut rest = operator;
    for prefix in ["torch.ops.", "aten::", "aten."] {
        rest = rest.strip_prefix(prefix).unwrap_or(rest);
    }
    match rest.split_once('.') {
        Some((name, overload)) => (name, Some(overload)),
        None => (rest, None),
    }
}

/// The numerics class of a substitute.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Exactness {
    /// The same bits.
    BitExact,
    /// The same up to rounding.
    WithinTolerance,
    /// Other numbers.
    Changes,
}

/// What to write instead of an operator.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Substitute {
    /// The operator.
    pub op: String,
    /// What to write, for people.
    pub write: String,
    /// The call in new words: `{0}`, `{1}` are its arguments. Only for calls that give just these.
    #[serde(default)]
    pub template: Option<String>,
    /// What it does to the numbers.
    pub numerics: Exactness,
}

/// What to write instead of a missing operator, where that is known.
#[must_use]
pub fn substitute(operator: &str) -> Option<&'static Substitute> {
    #[derive(Deserialize)]
    struct File {
        substitute: Vec<Substitute>,
    }
    static TABLE: LazyLock<BTreeMap<String, Substitute>> = LazyLock::new(|| {
        let file: File = crate::parse(
            "torch_tpu/substitutes.toml",
            include_str!("data/torch_tpu/substitutes.toml"),
        )
        .expect("the tests parse this built-in file");
        let by_name = file.substitute.into_iter();
        by_name.map(|entry| (entry.op.clone(), entry)).collect()
    });
    TABLE.get(split(operator).0)
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Calls {
    call: BTreeMap<String, Vec<String>>,
    methods: Vec<String>,
}

fn calls() -> &'static Calls {
    static CALLS: LazyLock<Calls> = LazyLock::new(|| {
        crate::parse(
            "torch_tpu/calls.toml",
            include_str!("data/torch_tpu/calls.toml"),
        )
        .expect("the tests parse this built-in file")
    });
    &CALLS
}

/// The operators that a Python call needs, by its full name: `torch.linalg.det`, `torch.nn.Mish`.
/// Empty where that is not certain.
#[must_use]
pub fn operators(call: &str) -> Vec<String> {
    if let Some(operators) = calls().call.get(call) {
        return operators.clone();
    }
    let Some(rest) = call.strip_prefix("torch.") else {
        return Vec::new();
    };
    let known = |name: String| {
        let is_known = versions()
            .iter()
            .any(|version| version.support(&name) != Support::Unknown);
        if is_known { vec![name] } else { Vec::new() }
    };
    match rest.split_once('.') {
        None => known(rest.to_owned()),
        Some(("nn", rest)) => match rest.strip_prefix("functional.") {
            Some(name) if !name.contains('.') => known(name.to_owned()),
            _ => Vec::new(),
        },
        Some((space @ ("linalg" | "special" | "fft"), name)) if !name.contains('.') => {
            known(format!("{space}_{name}"))
        }
        Some(_) => Vec::new(),
    }
}

/// The operator of a method that only tensors have.
#[must_use]
pub fn method_operators(method: &str) -> Vec<String> {
    if !calls().methods.iter().any(|known| known == method) {
        return Vec::new();
    }
    operators(&format!("torch.{method}"))
}

/// What a call of `torch.cuda` does where there is a TPU and no GPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum OnTpu {
    /// It raises.
    Raises,
    /// It does nothing, or gives an answer that is of no GPU: false, zero, an empty list.
    Nothing,
}

/// A call of `torch.cuda` and its counterpart.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct CudaCall {
    /// The name below `torch.cuda`.
    pub name: String,
    /// What it does where there is a TPU.
    pub on_tpu: OnTpu,
    /// What to call instead, with the same arguments; none where there is nothing like it.
    #[serde(default)]
    pub instead: Option<String>,
    /// What to know, in a few words.
    #[serde(default)]
    pub note: String,
}

/// What `torch.cuda.<name>` does on a TPU.
#[must_use]
pub fn cuda_call(name: &str) -> Option<&'static CudaCall> {
    #[derive(Deserialize)]
    struct File {
        call: Vec<CudaCall>,
    }
    static TABLE: LazyLock<BTreeMap<String, CudaCall>> = LazyLock::new(|| {
        let file: File = crate::parse(
            "torch_tpu/cuda.toml",
            include_str!("data/torch_tpu/cuda.toml"),
        )
        .expect("the tests parse this built-in file");
        let by_name = file.call.into_iter();
        by_name.map(|entry| (entry.name.clone(), entry)).collect()
    });
    TABLE.get(name)
}

/// A package that does not work with TorchTPU.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Package {
    /// The name that is imported, dotted where only a part of the package is meant.
    pub import: String,
    /// The package as people call it.
    pub name: String,
    /// Why it does not work.
    pub why: String,
    /// What to use instead.
    pub instead: String,
    /// Where that is said.
    pub source: String,
}

/// The package that a dotted import belongs to, if it needs a GPU.
#[must_use]
pub fn package(import: &str) -> Option<&'static Package> {
    #[derive(Deserialize)]
    struct File {
        package: Vec<Package>,
    }
    static TABLE: LazyLock<Vec<Package>> = LazyLock::new(|| {
        let file: File = crate::parse(
            "torch_tpu/packages.toml",
            include_str!("data/torch_tpu/packages.toml"),
        )
        .expect("the tests parse this built-in file");
        file.package
    });
    TABLE.iter().find(|package| {
        let rest = import.strip_prefix(package.import.as_str());
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
    })
}

/// An idiom of PyTorch/XLA.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct XlaIdiom {
    /// The full name of what is called.
    pub name: String,
    /// What TorchTPU has for it, for people.
    pub write: String,
    /// The call in new words: `{0}` is its first argument.
    #[serde(default)]
    pub template: Option<String>,
}

/// What TorchTPU has for a name of `torch_xla`.
#[must_use]
pub fn xla_idiom(name: &str) -> Option<&'static XlaIdiom> {
    #[derive(Deserialize)]
    struct File {
        idiom: Vec<XlaIdiom>,
    }
    static TABLE: LazyLock<BTreeMap<String, XlaIdiom>> = LazyLock::new(|| {
        let file: File = crate::parse(
            "torch_tpu/xla.toml",
            include_str!("data/torch_tpu/xla.toml"),
        )
        .expect("the tests parse this built-in file");
        let by_name = file.idiom.into_iter();
        by_name.map(|entry| (entry.name.clone(), entry)).collect()
    });
    TABLE.get(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_of_0_2_0_has_what_the_package_has() {
        let known = version("0.2.0").expect("built in");
        assert_eq!((known.torch_tpu, known.torch), ("0.2.0", "2.15.0"));
        assert_eq!(known.kernels(), (674, 483));
        assert_eq!(known.counts().iter().sum::<usize>(), known.operators.len());
        assert!(version("0.1.0").is_none());
        assert_eq!(version_or_newest(Some("9.9")).torch_tpu, "0.2.0");
    }

    /// What these calls did with tensors on the device, eager and compiled.
    #[test]
    fn classes_are_what_calls_do() {
        let known = version_or_newest(None);
        for operator in [
            "median",
            "kthvalue",
            "mode",
            "erfc",
            "huber_loss",
            "smooth_l1_loss",
            "renorm",
            "mish",
            "nanmedian",
            "nansum",
            "logaddexp",
            "sinc",
            "std_mean",
            "trace",
            "heaviside",
            "linalg_cross",
            "logspace",
            "_int_mm",
            "_linalg_eigh",
            "_linalg_det",
            "linalg_cholesky_ex",
            "_upsample_bilinear2d_aa",
            "rrelu_with_noise",
            "upsample_trilinear3d_backward",
            "_amp_foreach_non_finite_check_and_unscale_",
        ] {
            assert_eq!(known.support(operator), Support::Unsupported, "{operator}");
        }
        for operator in [
            "softshrink",
            "hardshrink",
            "multi_margin_loss",
            "upsample_trilinear3d",
        ] {
            assert_eq!(known.support(operator), Support::CompiledOnly, "{operator}");
        }
        for operator in [
            "bincount",
            "histc",
            "var_mean",
            "searchsorted",
            "grid_sampler_2d",
            "index_select",
            "mse_loss_backward",
            "upsample_bicubic2d",
            "lgamma",
            "digamma",
            "_cdist_forward",
        ] {
            assert!(!known.support(operator).is_missing(), "{operator}");
        }
        assert_eq!(known.support("no_such_operator"), Support::Unknown);
        assert_eq!(known.support("aten.median.dim"), Support::Unsupported);
    }

    #[test]
    fn gradients_can_be_missing_where_the_operator_is_not() {
        let known = version_or_newest(None);
        let missing = known.missing_gradient("aten.adaptive_max_pool2d.default");
        assert_eq!(missing.as_deref(), Some("adaptive_max_pool2d_backward"));
        assert_eq!(known.missing_gradient("relu"), None);
        assert_eq!(known.missing_gradient("batch_norm"), None);
        assert_eq!(known.missing_gradient("upsample_bilinear2d"), None);
    }

    #[test]
    fn calls_lead_to_operators() {
        assert_eq!(operators("torch.linalg.det"), ["_linalg_det"]);
        assert_eq!(operators("torch.median"), ["median"]);
        assert_eq!(operators("torch.nn.functional.huber_loss"), ["huber_loss"]);
        assert_eq!(operators("torch.nn.HuberLoss"), ["huber_loss"]);
        assert!(operators("torch.nn.Module").is_empty());
        assert!(operators("numpy.median").is_empty());
        assert_eq!(method_operators("kthvalue"), ["kthvalue"]);
        assert!(method_operators("median").is_empty(), "pandas has it too");
    }

    #[test]
    fn built_in_files_hold_together() {
        let known = version_or_newest(None);
        for operators in calls().call.values() {
            for operator in operators {
                assert_ne!(known.support(operator), Support::Unknown, "{operator}");
            }
        }
        for method in &calls().methods {
            assert!(!method_operators(method).is_empty(), "{method}");
        }
        for operator in ["median", "mish", "huber_loss", "_linalg_eigh", "trace"] {
            assert!(substitute(operator).is_some(), "{operator}");
        }
        assert!(cuda_call("synchronize").is_some_and(|call| call.instead.is_some()));
        assert!(package("flash_attn.bert_padding").is_some_and(|p| p.source.contains("://")));
        assert!(package("flash_attention").is_none());
        assert!(xla_idiom("torch_xla.sync").is_some_and(|idiom| idiom.template.is_some()));
    }
}
