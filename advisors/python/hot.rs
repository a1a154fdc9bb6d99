//! Which code runs in every step, or is traced: there a host read or a new shape costs each time.
//!
//! Hot are functions that a transformation traces, `forward` of modules, the bodies of loops that
//! run a step each turn, and functions of the file that are called from those. What is there only
//! for errors, every N steps, or once, is not: `raise`, `except`, `if step % 100 == 0:`.

use std::collections::{BTreeMap, BTreeSet};

use ruff_python_ast::{AnyNodeRef, Expr, ExprCall, Stmt};
use ruff_text_size::{Ranged as _, TextRange};

use crate::python::index::{Index, NodeId};
use crate::python::names::Names;
use crate::python::scopes::Scopes;
use crate::python::tensors::Tensors;
use crate::python::transforms::Transforms;
use crate::python::value::{Framework, Value};

/// How code is hot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum HeatKind {
    /// It is traced: its Python runs once for each compilation, on tensors without values.
    Traced,
    /// It is the forward pass of a module: it runs in every step, and is traced if the module
    /// is compiled.
    Forward,
    /// It is in a loop that runs a step each turn.
    Step,
}

/// Why a piece of code is hot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Heat {
    /// How.
    pub kind: HeatKind,
    /// Whose tensors it handles.
    pub framework: Framework,
    /// The function, lambda or loop that is hot.
    pub region: NodeId,
    /// Why, as a clause: ``the loop in line 12 runs a step each turn``.
    pub why: String,
}

/// The hot functions and loops of a file.
#[derive(Debug)]
pub struct Hot<'a> {
    index: &'a Index<'a>,
    regions: BTreeMap<NodeId, Heat>,
}

/// Rounds in which functions that run a step are found from those they call.
const ROUNDS: usize = 4;
/// Regions of a file, more than any real one has.
const MAX_REGIONS: usize = 20_000;

impl<'a> Hot<'a> {
    pub(super) fn new(
        path: &str,
        index: &'a Index<'a>,
        names: &'a Names<'a>,
        scopes: &'a Scopes<'a>,
        transforms: &'a Transforms<'a>,
        tensors: &Tensors<'a>,
        line_of: &dyn Fn(NodeId) -> u64,
    ) -> Self {
        let mut hot = Self {
            index,
            regions: BTreeMap::new(),
        };
        let framework = if names.imports("torch") || names.imports("torch_xla") {
            Framework::Torch
        } else if names.imports("jax") || names.imports("flax") || names.imports("optax") {
            Framework::Jax
        } else {
            return hot;
        };
        if runs_once(path) {
            return hot;
        }
        for (function, trace) in transforms.all() {
            let name = function_name(index, function);
            let heat = Heat {
                kind: HeatKind::Traced,
                framework: trace.framework,
                region: function,
                why: format!("{name} is traced by `{}`", trace.by),
            };
            hot.regions.insert(function, heat);
        }
        for function in scopes.functions() {
            let Some(framework) = tensors.forward_of(*function) else {
                continue;
            };
            let name = function_name(index, *function);
            let class = index
                .class_of(*function)
                .map_or("", |class| class.name.as_str());
            let why = format!("{name} of `{class}` runs in every step");
            hot.insert(HeatKind::Forward, framework, *function, why);
        }
        let loops = step_loops(index, scopes, tensors, &hot);
        for id in loops {
            let why = format!("the loop in line {} runs a step each turn", line_of(id));
            hot.insert(HeatKind::Step, framework, id, why);
        }
        for function in scopes.functions() {
            if let Some(AnyNodeRef::StmtFunctionDef(def)) = index.get(*function).map(|n| n.node)
                && is_step_name(def.name.as_str())
                && !def.name.as_str().starts_with("make")
            {
                let why = format!("`{}` is a step by its name", def.name);
                hot.insert(HeatKind::Step, framework, *function, why);
            }
        }
        hot.spread(scopes);
        hot
    }

    fn insert(&mut self, kind: HeatKind, framework: Framework, region: NodeId, why: String) {
        if self.regions.len() < MAX_REGIONS {
            self.regions.entry(region).or_insert(Heat {
                kind,
                framework,
                region,
                why,
            });
        }
    }

    /// Functions that hot code calls are hot.
    fn spread(&mut self, scopes: &Scopes<'a>) {
        let mut todo: Vec<NodeId> = self.regions.keys().copied().collect();
        let mut done = BTreeSet::new();
        while let Some(region) = todo.pop() {
            let Some(heat) = self.regions.get(&region).cloned() else {
                continue;
            };
            if !done.insert(region) {
                continue;
            }
            let mut called = Vec::new();
            for (id, node) in self.index.descendants(region) {
                let AnyNodeRef::ExprCall(call) = node.node else {
                    continue;
                };
                if let Some(callee) = scopes.callee(self.index, id, &call.func)
                    && !self.regions.contains_key(&callee)
                    && self.heat(id).is_some()
                {
                    called.push(callee);
                }
            }
            for callee in called {
                let name = function_name(self.index, callee);
                if heat.kind == HeatKind::Step && is_seldom(&name) {
                    continue;
                }
                let from = self.region_name(region);
                let why = format!("{name} is called from {from}, and {}", root(&heat.why));
                self.insert(heat.kind, heat.framework, callee, why);
                todo.push(callee);
            }
        }
    }

    fn region_name(&self, region: NodeId) -> String {
        match self.index.get(region).map(|node| node.node) {
            Some(AnyNodeRef::StmtFor(_) | AnyNodeRef::StmtWhile(_)) => "a loop".to_owned(),
            _ => function_name(self.index, region),
        }
    }

    /// Why a node is hot, if it is.
    #[must_use]
    pub fn heat(&self, id: NodeId) -> Option<&Heat> {
        if self.regions.is_empty() {
            return None;
        }
        let mut child = self.index.get(id)?.node;
        let mut leaves = false;
        // Decorators and defaults run where the function is defined.
        let mut outside = false;
        let mut lambda = TextRange::default();
        for (above, node) in self.index.ancestors(id) {
            match node.node {
                AnyNodeRef::StmtRaise(_) | AnyNodeRef::ExceptHandlerExceptHandler(_) => {
                    return None;
                }
                AnyNodeRef::StmtAssert(assert) => {
                    let message = assert.msg.as_deref().map(|message| message.range());
                    if message == Some(child.range()) {
                        return None;
                    }
                }
                AnyNodeRef::StmtIf(choice) if child.is_statement() => {
                    if is_rare(&choice.test) {
                        return None;
                    }
                    match choice.body.last() {
                        Some(Stmt::Break(_) | Stmt::Raise(_)) => return None,
                        Some(Stmt::Return(_)) => leaves = true,
                        _ => {}
                    }
                }
                AnyNodeRef::ElifElseClause(clause) if child.is_statement() => {
                    if clause.test.as_ref().is_some_and(is_rare) {
                        return None;
                    }
                    match clause.body.last() {
                        Some(Stmt::Break(_) | Stmt::Raise(_)) => return None,
                        Some(Stmt::Return(_)) => leaves = true,
                        _ => {}
                    }
                }
                AnyNodeRef::Decorator(_) | AnyNodeRef::Parameters(_) => outside = true,
                // The message of a check is made when it fails.
                AnyNodeRef::ExprCall(call)
                    if last_word(&call.func).contains("check")
                        && call.arguments.args.iter().any(|argument| {
                            argument.is_lambda_expr() && argument.range() == lambda
                        }) =>
                {
                    return None;
                }
                AnyNodeRef::StmtFunctionDef(_) | AnyNodeRef::ExprLambda(_) => {
                    if node.node.is_expr_lambda() {
                        lambda = node.node.range();
                    }
                    if !outside && let Some(heat) = self.regions.get(&above) {
                        return Some(heat);
                    }
                    (outside, leaves) = (false, false);
                }
                AnyNodeRef::StmtFor(each) => {
                    let repeated = each.body.iter().any(|stmt| stmt.range() == child.range());
                    if repeated
                        && !leaves
                        && let Some(heat) = self.regions.get(&above)
                    {
                        return Some(heat);
                    }
                }
                AnyNodeRef::StmtWhile(each) => {
                    let repeated = each.test.range() == child.range()
                        || each.body.iter().any(|stmt| stmt.range() == child.range());
                    if repeated
                        && !leaves
                        && let Some(heat) = self.regions.get(&above)
                    {
                        return Some(heat);
                    }
                }
                _ => {}
            }
            child = node.node;
        }
        None
    }

    /// The hot functions, lambdas and loops, in source order.
    pub fn regions(&self) -> impl Iterator<Item = &Heat> {
        self.regions.values()
    }
}

/// The clause on the root of a chain of calls.
fn root(why: &str) -> &str {
    why.rsplit(", and ").next().unwrap_or(why)
}

fn function_name(index: &Index<'_>, function: NodeId) -> String {
    match index.get(function).map(|node| node.node) {
        Some(AnyNodeRef::StmtFunctionDef(function)) => format!("`{}`", function.name),
        _ => "a lambda".to_owned(),
    }
}

/// Loops that run a step each turn: the innermost loop around each call that runs one.
fn step_loops(
    index: &Index<'_>,
    scopes: &Scopes<'_>,
    tensors: &Tensors<'_>,
    hot: &Hot<'_>,
) -> BTreeSet<NodeId> {
    let mut loops = BTreeSet::new();
    let mut steps: BTreeSet<NodeId> = BTreeSet::new();
    let mut markers = Vec::new();
    for (id, node) in index.nodes() {
        match node.node {
            AnyNodeRef::ExprCall(call)
                if hot.heat(id).is_none() && runs_step(index, tensors, id, call) =>
            {
                markers.push(id);
            }
            AnyNodeRef::StmtFor(each)
                if hot.heat(id).is_none() && over_loader(tensors, &each.iter) =>
            {
                loops.insert(id);
            }
            _ => {}
        }
    }
    for _ in 0..ROUNDS {
        let mut next = Vec::new();
        for id in std::mem::take(&mut markers) {
            let around = index
                .ancestors(id)
                .take_while(|(_, node)| {
                    !matches!(
                        node.node,
                        AnyNodeRef::StmtFunctionDef(_) | AnyNodeRef::ExprLambda(_)
                    )
                })
                .find(|(_, node)| {
                    matches!(node.node, AnyNodeRef::StmtFor(_) | AnyNodeRef::StmtWhile(_))
                });
            if let Some((around, _)) = around {
                loops.insert(around);
                continue;
            }
            let function = index.ancestors(id).find(|(_, node)| {
                matches!(
                    node.node,
                    AnyNodeRef::StmtFunctionDef(_) | AnyNodeRef::ExprLambda(_)
                )
            });
            if let Some((function, _)) = function
                && steps.insert(function)
            {
                for call in scopes.calls_of(function) {
                    next.extend(index.id_of(*call));
                }
            }
        }
        if next.is_empty() {
            break;
        }
        markers = next;
    }
    loops
}

fn over_loader<'a>(tensors: &Tensors<'a>, iter: &'a Expr) -> bool {
    let mut inner = iter;
    for _ in 0..4 {
        if matches!(tensors.value(inner), Value::Loader { .. }) {
            return true;
        }
        match inner {
            Expr::Call(call) => match call.arguments.args.first() {
                Some(first) => inner = first,
                None => return false,
            },
            _ => return false,
        }
    }
    false
}

/// Whether a call runs a step of training or inference.
fn runs_step<'a>(index: &Index<'a>, tensors: &Tensors<'a>, id: NodeId, call: &'a ExprCall) -> bool {
    match &*call.func {
        Expr::Attribute(attribute) => {
            let owner = last_word(&attribute.value);
            match attribute.attr.as_str() {
                "backward" => owner != "ctx",
                "step" => owner.contains("optim") || owner == "opt" || owner == "scaler",
                "mark_step" | "optimizer_step" => true,
                "sync" => owner == "torch_xla",
                "apply_gradients" => true,
                name if is_step_name(name) => true,
                _ => is_model(index, tensors, id, &call.func),
            }
        }
        Expr::Name(name) => {
            is_step_name(name.id.as_str()) || is_model(index, tensors, id, &call.func)
        }
        _ => false,
    }
}

fn is_model<'a>(index: &Index<'a>, tensors: &Tensors<'a>, id: NodeId, func: &'a Expr) -> bool {
    match func {
        Expr::Name(name) if name.id.as_str() == "self" => index.class_of(id).is_some_and(|class| {
            index
                .id_of(class)
                .is_some_and(|class| tensors.module_class(class).is_some())
        }),
        _ => matches!(tensors.value(func), Value::Module(_) | Value::Compiled(_)),
    }
}

/// The last part of a name or an attribute.
fn last_word(expression: &Expr) -> &str {
    match expression {
        Expr::Name(name) => name.id.as_str(),
        Expr::Attribute(attribute) => attribute.attr.as_str(),
        _ => "",
    }
}

/// Names of functions that are a step.
fn is_step_name(name: &str) -> bool {
    let name = name.trim_start_matches('_');
    [
        "train_step",
        "training_step",
        "train_one_step",
        "eval_step",
        "decode_step",
        "prefill_step",
        "update_step",
        "step_fn",
        "optimizer_step",
        "denoise_step",
        "denoising_step",
    ]
    .iter()
    .any(|step| {
        name == *step
            || name
                .strip_suffix(step)
                .is_some_and(|rest| rest.ends_with('_'))
    })
}

/// Functions that a loop calls, but not in every turn, by their names.
fn is_seldom(name: &str) -> bool {
    [
        "save",
        "checkpoint",
        "eval",
        "valid",
        "log",
        "report",
        "init",
        "setup",
        "build",
        "load",
    ]
    .iter()
    .any(|word| name.contains(word))
}

/// Whether a condition holds seldom: every N steps, when debugging, at the first step.
fn is_rare(test: &Expr) -> bool {
    let mut todo = vec![test];
    let mut seen = 0;
    while let Some(expression) = todo.pop() {
        seen += 1;
        if seen > 64 {
            break;
        }
        match expression {
            Expr::BinOp(op) if matches!(op.op, ruff_python_ast::Operator::Mod) => return true,
            Expr::BinOp(op) => todo.extend([&*op.left, &*op.right]),
            Expr::BoolOp(op) => todo.extend(op.values.iter()),
            Expr::UnaryOp(op) => todo.push(&op.operand),
            Expr::Compare(compare) => {
                if compare
                    .ops
                    .iter()
                    .all(|op| matches!(op, ruff_python_ast::CmpOp::Eq))
                    && is_counter(last_word(&compare.left))
                {
                    return true;
                }
                todo.push(&compare.left);
                todo.extend(compare.comparators.iter());
            }
            Expr::Call(call) => {
                todo.push(&call.func);
                todo.extend(call.arguments.args.iter());
            }
            Expr::Name(name) if says_rare(name.id.as_str()) => return true,
            Expr::Attribute(attribute) => {
                if says_rare(attribute.attr.as_str()) {
                    return true;
                }
                todo.push(&attribute.value);
            }
            _ => {}
        }
    }
    false
}

fn is_counter(name: &str) -> bool {
    matches!(
        name,
        "i" | "idx" | "it" | "iteration" | "iter_num" | "n" | "count" | "counter"
    ) || name.ends_with("step")
        || name.ends_with("_idx")
        || name.contains("epoch")
}

fn says_rare(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    if name.contains("logit") || name.contains("login") {
        return false;
    }
    [
        "log",
        "verbose",
        "debug",
        "print",
        "profil",
        "save",
        "eval",
        "checkpoint",
        "tracing",
        "compiling",
        "scripting",
        "should_",
        "every",
        "interval",
        "exporting",
    ]
    .iter()
    .any(|word| name.contains(word))
}

/// Files whose code runs once, or on the host: tests, converters, set-up, processors of inputs.
pub(super) fn runs_once(path: &str) -> bool {
    let path = path.replace('\\', "/");
    let (folder, file) = path.rsplit_once('/').unwrap_or(("", &path));
    let parent = folder.rsplit('/').next().unwrap_or(folder);
    let stem = file.strip_suffix(".py").unwrap_or(file);
    stem.starts_with("test_")
        || stem.ends_with("_test")
        || stem.starts_with("convert")
        || stem.contains("conversion")
        || matches!(stem, "conftest" | "setup" | "testing_utils")
        || matches!(parent, "tests" | "test" | "testing")
        || PROCESSORS.iter().any(|start| stem.starts_with(start))
}

/// What files begin with that prepare inputs, as Transformers names them.
const PROCESSORS: &[&str] = &[
    "processing_",
    "image_processing",
    "video_processing",
    "feature_extraction",
    "tokenization",
];

#[cfg(test)]
mod tests {
    use ruff_python_ast::AnyNodeRef;

    use super::HeatKind;
    use crate::python::file::SourceFile;
    use crate::python::project::{Project, with_context};

    /// How hot the call of `here` is.
    fn heat_in(path: &str, text: &str) -> Option<HeatKind> {
        let file = SourceFile::parse(path, text.as_bytes().to_vec()).expect("parses");
        with_context(&Project::default(), &file, |context| {
            let (id, _) = context
                .index
                .nodes()
                .find(|(_, node)| match node.node {
                    AnyNodeRef::ExprCall(call) => context.text(&*call.func) == "here",
                    _ => false,
                })
                .expect("a call of here");
            context.heat(id).map(|heat| heat.kind)
        })
    }

    fn heat(text: &str) -> Option<HeatKind> {
        heat_in("train.py", text)
    }

    #[test]
    fn traced_functions_forward_and_step_loops_are_hot() {
        assert_eq!(
            heat("import jax\n@jax.jit\ndef f(x):\n    here()\n"),
            Some(HeatKind::Traced)
        );
        assert_eq!(
            heat(
                "import jax\nfrom functools import partial\n@partial(jax.jit, static_argnums=0)\ndef f(n, x):\n    here()\n"
            ),
            Some(HeatKind::Traced)
        );
        assert_eq!(
            heat("import jax\ndef body(c, x):\n    here()\njax.lax.scan(body, c, xs)\n"),
            Some(HeatKind::Traced)
        );
        assert_eq!(
            heat(
                "from torch import nn\nclass A(nn.Module):\n    def forward(self, x):\n        self.help()\n    def help(self):\n        here()\n"
            ),
            Some(HeatKind::Forward)
        );
        assert_eq!(
            heat("import torch\nfor batch in loader:\n    loss.backward()\n    here()\n"),
            Some(HeatKind::Step)
        );
        assert_eq!(
            heat(
                "import torch\ndef step(b):\n    here()\n    loss.backward()\ndef main():\n    for b in data:\n        step(b)\n"
            ),
            Some(HeatKind::Step)
        );
    }

    #[test]
    fn what_is_rare_or_runs_once_is_not() {
        for text in [
            "import torch\nfor epoch in range(3):\n    for batch in loader:\n        loss.backward()\n    here()\n",
            "import torch\nfor step, batch in enumerate(loader):\n    loss.backward()\n    if step % 10 == 0:\n        here()\n",
            "import torch\nfor batch in loader:\n    loss.backward()\n    if bad:\n        here()\n        break\n",
            "from torch import nn\nclass A(nn.Module):\n    def __init__(self):\n        here()\n    def forward(self, x):\n        return x\n",
            "from torch import nn\nclass A(nn.Module):\n    def forward(self, x):\n        if x is None:\n            raise ValueError(here())\n",
            "import torch\nfor p in model.parameters():\n    here()\n",
            "for batch in loader:\n    loss.backward()\n    here()\n",
        ] {
            assert_eq!(heat(text), None, "{text}");
        }
        let hot = "import torch\nfor batch in loader:\n    loss.backward()\n    here()\n";
        assert_eq!(heat_in("a/tests/x.py", hot), None);
        assert_eq!(heat_in("convert_a.py", hot), None);
    }
}
