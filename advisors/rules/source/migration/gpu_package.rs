//! Packages that need a GPU.

use std::collections::BTreeMap;

use crate::python::ast::AnyNodeRef;
use knowledge::torch_tpu::{Package, package};

use super::Places;
use super::guard::is_optional;
use crate::finding::{Exhibit, Remark, Severity};
use crate::python::SourceContext;
use crate::rule::Rule;
use crate::rules::source::counted;

/// The rule.
#[derive(Debug)]
pub struct GpuPackage;

impl Rule for GpuPackage {
    fn code(&self) -> &'static str {
        "TS509"
    }

    fn name(&self) -> &'static str {
        "gpu-package"
    }

    fn card(&self) -> &'static str {
        include_str!("gpu_package.md")
    }

    fn check_source(&self, context: &SourceContext<'_>) -> Vec<Remark> {
        let mut found: BTreeMap<&'static str, (&'static Package, Places)> = BTreeMap::new();
        for (id, node) in context.index.nodes() {
            let imported = match node.node {
                AnyNodeRef::StmtImport(import) => {
                    import.names.iter().find_map(|alias| package(&alias.name))
                }
                AnyNodeRef::StmtImportFrom(import) if import.level == 0 => {
                    let module = import.module.as_ref().map_or("", |module| module.as_str());
                    let names = import.names.iter();
                    package(module).or_else(|| {
                        let mut full = names.map(|alias| format!("{module}.{}", alias.name));
                        full.find_map(|full| package(&full))
                    })
                }
                _ => None,
            };
            // What is imported in a function, a branch or a `try` can be done without.
            let Some(package) = imported.filter(|_| !is_optional(context, id)) else {
                continue;
            };
            let places = &mut found
                .entry(package.import.as_str())
                .or_insert_with(|| (package, Places::default()))
                .1;
            places.add(
                context.place(
                    crate::python::Ranged::range(&node.node),
                    package.why.clone(),
                ),
                [],
            );
        }
        found
            .into_values()
            .map(|(package, places)| {
                let title = format!(
                    "{} is imported in {}, and {}",
                    package.name,
                    counted(places.len(), "place"),
                    package.why
                );
                let mut remark = places.remark(Severity::High, title);
                remark.advice = vec![format!("use {}", package.instead)];
                remark.evidence = vec![Exhibit::text(
                    "what it needs",
                    package.why.clone(),
                    package.source.clone(),
                )];
                remark
            })
            .collect()
    }
}
