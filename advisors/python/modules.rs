//! Which classes are modules of a network.

use ruff_python_ast::{AnyNodeRef, Expr, StmtClassDef};

use crate::python::index::NodeId;
use crate::python::scopes::bases;
use crate::python::tensors::Tensors;
use crate::python::value::Framework;

impl<'a> Tensors<'a> {
    /// Whether a function is `forward` of a module, and whose.
    pub(super) fn forward_of(&self, function: NodeId) -> Option<Framework> {
        let class = self.scopes.class_of_method(function)?;
        let AnyNodeRef::StmtFunctionDef(def) = self.index.get(function)?.node else {
            return None;
        };
        let framework = self.module_class(class)?;
        let name = def.name.as_str();
        let runs = match framework {
            Framework::Torch => {
                matches!(name, "forward" | "training_step")
            }
            Framework::Jax => name == "__call__",
        };
        (runs && !self.is_replaced(class)).then_some(framework)
    }

    /// Whether a decorator of the class puts another implementation in the place of its `forward`,
    /// as Transformers' `use_experts_implementation` and `use_kernel_forward_from_hub` do: what is
    /// written there is the fallback.
    fn is_replaced(&self, class: NodeId) -> bool {
        let Some(AnyNodeRef::StmtClassDef(def)) = self.index.get(class).map(|node| node.node)
        else {
            return false;
        };
        def.decorator_list.iter().any(|decorator| {
            let named = match &decorator.expression {
                Expr::Call(call) => &*call.func,
                other => other,
            };
            let name = match named {
                Expr::Name(name) => name.id.as_str(),
                Expr::Attribute(attribute) => attribute.attr.as_str(),
                _ => return false,
            };
            name.ends_with("_implementation") || name.contains("kernel_forward")
        })
    }

    /// Whether a class of this file is a module of a network, and whose.
    #[must_use]
    pub fn module_class(&self, class: NodeId) -> Option<Framework> {
        if let Some(known) = self.modules.borrow().get(&class) {
            return *known;
        }
        self.modules.borrow_mut().insert(class, None);
        let line = self.scopes.lineage(self.index, class);
        let found =
            line.into_iter()
                .find_map(|class| match self.index.get(class).map(|node| node.node) {
                    Some(AnyNodeRef::StmtClassDef(class)) => self.module_bases(class),
                    _ => None,
                });
        let found = found.or_else(|| self.by_forward(class));
        self.modules.borrow_mut().insert(class, found);
        found
    }

    fn module_bases(&self, class: &'a StmtClassDef) -> Option<Framework> {
        bases(class).find_map(|base| {
            let name = self.names.qualified(base, self.index)?;
            let last = name.rsplit('.').next().unwrap_or(&name);
            if name.starts_with("flax.")
                || name.starts_with("haiku.")
                || name.starts_with("equinox.")
            {
                return (last == "Module").then_some(Framework::Jax);
            }
            let torch = matches!(last, "Module" | "LightningModule" | "Sequential")
                || (last.ends_with("PreTrainedModel")
                    && !last.starts_with("Flax")
                    && !last.starts_with("TF"))
                || last == "Function" && name.starts_with("torch.");
            torch.then_some(Framework::Torch)
        })
    }

    /// A class with `forward` in a file that uses PyTorch, whose base class is out of sight.
    fn by_forward(&self, class: NodeId) -> Option<Framework> {
        let AnyNodeRef::StmtClassDef(def) = self.index.get(class)?.node else {
            return None;
        };
        let forward = self.scopes.method(self.index, class, "forward")?;
        let based = bases(def).next().is_some();
        (based && self.names.imports("torch") && self.index.get(forward).is_some())
            .then_some(Framework::Torch)
    }
}
