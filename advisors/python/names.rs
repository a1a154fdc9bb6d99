//! What names stand for, through imports.

use std::collections::{BTreeMap, BTreeSet};

use ruff_python_ast::{AnyNodeRef, Expr};

use crate::python::index::{Index, NodeId};

/// What imported names stand for. Names that a function binds itself hide those of the module.
#[derive(Debug, Default)]
pub struct Names<'a> {
    imports: BTreeMap<&'a str, String>,
    /// What names of an excerpt without imports stand for by custom.
    customary: BTreeMap<&'static str, &'static str>,
    /// Names that a function binds: parameters, assignments, loop variables.
    bound: BTreeMap<NodeId, BTreeSet<&'a str>>,
}

impl<'a> Names<'a> {
    /// Collects imports and bindings.
    #[must_use]
    pub fn new(index: &Index<'a>) -> Self {
        let mut names = Self::default();
        let (mut used, mut local) = (BTreeSet::new(), BTreeSet::new());
        for (_, node) in index.nodes() {
            match node.node {
                AnyNodeRef::StmtImport(import) => {
                    for alias in &import.names {
                        let full = alias.name.as_str();
                        match &alias.asname {
                            Some(name) => names.import(name.as_str(), full.to_owned()),
                            None => {
                                let first = full.split('.').next().unwrap_or(full);
                                names.import(first, first.to_owned());
                            }
                        }
                    }
                }
                AnyNodeRef::StmtImportFrom(import) => {
                    let module = import.module.as_ref().map_or("", |module| module.as_str());
                    let dots = ".".repeat(import.level as usize);
                    for alias in &import.names {
                        let name = alias.asname.as_ref().unwrap_or(&alias.name).as_str();
                        let dot = if module.is_empty() { "" } else { "." };
                        names.import(name, format!("{dots}{module}{dot}{}", alias.name));
                    }
                }
                AnyNodeRef::Parameter(parameter) => {
                    names.bind(node.function, parameter.name.as_str());
                }
                AnyNodeRef::ExprName(name) if name.ctx.is_store() => {
                    local.insert(name.id.as_str());
                    names.bind(node.function, name.id.as_str());
                }
                AnyNodeRef::ExprName(name) => {
                    used.insert(name.id.as_str());
                }
                AnyNodeRef::StmtFunctionDef(function) => {
                    local.insert(function.name.as_str());
                }
                AnyNodeRef::StmtClassDef(class) => {
                    local.insert(class.name.as_str());
                }
                _ => {}
            }
        }
        if names.imports.is_empty() {
            // An excerpt, whose imports are left out.
            names.customary = CUSTOMARY
                .iter()
                .filter(|(name, _)| used.contains(name) && !local.contains(name))
                .copied()
                .collect();
        }
        names
    }

    fn import(&mut self, name: &'a str, full: String) {
        self.imports.entry(name).or_insert(full);
    }

    fn bind(&mut self, function: Option<NodeId>, name: &'a str) {
        if let Some(function) = function {
            self.bound.entry(function).or_default().insert(name);
        }
    }

    /// Whether a module, or something of it, is imported: `torch` covers `torch.nn`.
    #[must_use]
    pub fn imports(&self, module: &str) -> bool {
        let imported = self.imports.values().any(|full| is_within(full, module));
        imported || self.customary.values().any(|full| is_within(full, module))
    }

    /// What is imported: the local name and what it stands for, by name.
    pub fn imported(&self) -> impl Iterator<Item = (&'a str, &str)> {
        self.imports
            .iter()
            .map(|(name, full)| (*name, full.as_str()))
    }

    /// What a name or an attribute of one stands for; none for what is not imported.
    #[must_use]
    pub fn qualified(&self, expression: &Expr, index: &Index<'a>) -> Option<String> {
        let mut parts = Vec::new();
        let mut inner = expression;
        loop {
            match inner {
                Expr::Attribute(attribute) => {
                    parts.push(attribute.attr.as_str());
                    inner = &attribute.value;
                }
                Expr::Name(name) => {
                    let word = name.id.as_str();
                    let imported = self.imports.get(word).map(String::as_str);
                    let full = imported.or_else(|| self.customary.get(word).copied())?;
                    if self.is_hidden(name, index) {
                        return None;
                    }
                    let mut out = full.to_owned();
                    for part in parts.iter().rev() {
                        out.push('.');
                        out.push_str(part);
                    }
                    return Some(out);
                }
                _ => return None,
            }
        }
    }

    /// Whether a function around it binds the name.
    fn is_hidden(&self, name: &ruff_python_ast::ExprName, index: &Index<'a>) -> bool {
        if self.bound.is_empty() {
            return false;
        }
        let id = index.id_of(name);
        let mut function = id
            .and_then(|id| index.get(id))
            .and_then(|node| node.function);
        while let Some(id) = function {
            if self
                .bound
                .get(&id)
                .is_some_and(|bound| bound.contains(name.id.as_str()))
            {
                return true;
            }
            function = index.get(id).and_then(|node| node.function);
        }
        false
    }
}

/// What a name stands for by custom, where a snippet uses it without importing it.
const CUSTOMARY: &[(&str, &str)] = &[
    ("F", "torch.nn.functional"),
    ("jax", "jax"),
    ("jnp", "jax.numpy"),
    ("lax", "jax.lax"),
    ("nn", "torch.nn"),
    ("np", "numpy"),
    ("torch", "torch"),
    ("torch_xla", "torch_xla"),
    ("xm", "torch_xla.core.xla_model"),
];

/// Whether a dotted name is a module or something in it.
fn is_within(full: &str, module: &str) -> bool {
    full.strip_prefix(module)
        .is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}
