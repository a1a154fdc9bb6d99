//! A training script compiles everything anew at each start.

use knowledge::advice::AdviceKind;

use crate::finding::{Remark, Severity};
use crate::python::ast::AnyNodeRef;
use crate::python::{HeatKind, Ranged as _, SourceContext};
use crate::rule::Rule;

/// See the card.
#[derive(Debug)]
pub struct NoCompilationCache;

impl Rule for NoCompilationCache {
    fn code(&self) -> &'static str {
        "TS114"
    }

    fn name(&self) -> &'static str {
        "no-persistent-compilation-cache"
    }

    fn card(&self) -> &'static str {
        include_str!("no_compilation_cache.md")
    }

    fn check_source(&self, context: &SourceContext<'_>) -> Vec<Remark> {
        let jax = context.names.imports("jax");
        let xla = context.names.imports("torch_xla");
        if context.runs_once() || !(jax || xla) {
            return Vec::new();
        }
        let cached = [
            "compilation_cache",
            "COMPILATION_CACHE",
            "initialize_cache",
            "persistent_cache",
        ]
        .iter()
        .any(|word| context.file.text.contains(word));
        let main = context.index.nodes().find_map(|(_, node)| match node.node {
            AnyNodeRef::StmtIf(choice) if context.text(&*choice.test).starts_with("__name__") => {
                Some(choice.test.range())
            }
            _ => None,
        });
        let steps = context
            .hot
            .regions()
            .any(|heat| heat.kind == HeatKind::Step);
        let Some(main) = main.filter(|_| !cached && steps) else {
            return Vec::new();
        };
        let mut remark = Remark::new(
            AdviceKind::Recompilation,
            Severity::Info,
            "this script sets no persistent compilation cache: each start compiles everything again, unless its environment sets one",
        );
        remark.places.push(context.place(main, "starts here"));
        remark.advice.push(if jax {
            "`jax.config.update(\"jax_compilation_cache_dir\", \"gs://…\")`, or JAX_COMPILATION_CACHE_DIR in the environment".to_owned()
        } else {
            "`torch_xla.runtime.initialize_cache(\"/path\")` before the first computation".to_owned()
        });
        vec![remark]
    }
}

#[cfg(test)]
mod tests {
    use super::NoCompilationCache;
    use crate::rules::source::recompilation::found;

    #[test]
    fn a_script_without_a_cache_is_told() {
        let text = "import jax\nf = jax.jit(g)\ndef main():\n    for b in data:\n        s = f(s, b)\nif __name__ == '__main__':\n    main()\n";
        assert_eq!(found(&NoCompilationCache, text).len(), 1);
        let cached = text.replace(
            "import jax\n",
            "import jax\njax.config.update('jax_compilation_cache_dir', 'x')\n",
        );
        assert!(found(&NoCompilationCache, &cached).is_empty());
    }
}
