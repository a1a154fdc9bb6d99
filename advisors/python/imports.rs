//! Imports of a rewrite: found, added, shortened, removed.

use ruff_python_ast::{Alias, AnyNodeRef, StmtImportFrom};
use ruff_text_size::{Ranged, TextRange, TextSize};

use crate::python::bindings::Bound;
use crate::python::index::NodeId;
use crate::python::rewrite::Rewrite;

impl Rewrite<'_, '_> {
    /// How a function of `torch.nn.functional` is called in this file; the import is added where
    /// there is none.
    pub fn functional(&mut self, name: &str) -> String {
        let context = self.context;
        let mut best: Option<(usize, String)> = None;
        for (local, full) in context.names.imported() {
            let only = self.bindings.of(local);
            let clear = only
                .iter()
                .all(|b| matches!(b.what, Bound::Import) && b.scope.is_none());
            if !clear {
                continue;
            }
            let path = match full {
                "torch.nn.functional" => (0, format!("{local}.{name}")),
                "torch.nn" => (1, format!("{local}.functional.{name}")),
                _ if full == format!("torch.nn.functional.{name}") => (2, local.to_owned()),
                _ => continue,
            };
            if best.as_ref().is_none_or(|known| path.0 < known.0) {
                best = Some(path);
            }
        }
        if let Some((0 | 2, path)) = best {
            return path;
        }
        if !self.bindings.is_bound("F") {
            self.imports
                .insert("import torch.nn.functional as F".to_owned());
            return format!("F.{name}");
        }
        best.map_or_else(
            || self.torch(&format!("nn.functional.{name}")),
            |(_, path)| path,
        )
    }

    /// How something of `torch` is called in this file; the import is added where there is none.
    pub fn torch(&mut self, path: &str) -> String {
        let local = self
            .context
            .names
            .imported()
            .find(|(_, full)| *full == "torch")
            .map(|(local, _)| local.to_owned());
        let local = local.unwrap_or_else(|| {
            self.imports.insert("import torch".to_owned());
            "torch".to_owned()
        });
        format!("{local}.{path}")
    }

    /// Removes one name of an import.
    pub(super) fn remove_import(&mut self, alias: NodeId) {
        let index = self.context.index;
        let Some(statement) = index.get(alias).and_then(|node| node.parent) else {
            return;
        };
        let Some(AnyNodeRef::StmtImportFrom(import)) = index.get(statement).map(|n| n.node) else {
            return;
        };
        let Some(AnyNodeRef::Alias(own)) = index.get(alias).map(|node| node.node) else {
            return;
        };
        self.gone.push(own.range());
        let left = import.names.iter().any(|name| !self.is_gone(name.range()));
        if left {
            self.shorten_import(import, own);
        } else {
            self.delete(statement);
        }
    }

    fn shorten_import(&mut self, import: &StmtImportFrom, own: &Alias) {
        let at = import.names.iter().position(|name| name == own);
        let Some(at) = at else { return };
        if let Some(line) = self.own_line(own.range()) {
            self.delete_range(line, String::new());
            return;
        }
        let next = import.names.get(at + 1..).unwrap_or_default();
        let stays = |name: &&Alias| !self.is_gone(name.range());
        let range = if next.iter().any(|name| stays(&name)) {
            let end = next.first().map_or(own.end(), Ranged::start);
            TextRange::new(own.start(), end)
        } else {
            let before = import.names.get(..at).unwrap_or_default();
            let start = before.iter().rfind(stays).map_or(own.start(), Ranged::end);
            TextRange::new(start, own.end())
        };
        self.delete_range(range, String::new());
    }

    /// Adds the imports: in the place of one that went, else after the last of the leading ones.
    pub(super) fn add_imports(&mut self) {
        if self.imports.is_empty() {
            return;
        }
        let text: Vec<String> = std::mem::take(&mut self.imports).into_iter().collect();
        let text = text.join("\n");
        let module = self.context.file.module();
        let is_import = |range: TextRange| {
            module.body.iter().any(|statement| {
                (statement.is_import_from_stmt() || statement.is_import_stmt())
                    && statement.range() == range
            })
        };
        let free = self.deleted.iter().position(|(lines, words)| {
            words.is_empty()
                && self
                    .gone
                    .iter()
                    .any(|gone| lines.contains_range(*gone) && is_import(*gone))
        });
        if let Some(at) = free
            && let Some((lines, words)) = self.deleted.get_mut(at)
        {
            let source = &self.context.file.text;
            let old = source
                .get(std::ops::Range::<usize>::from(*lines))
                .unwrap_or_default();
            // The statement alone is replaced: the end of its line and blank lines stand.
            let kept = old.trim_end().len();
            let size = TextSize::try_from(kept).unwrap_or_else(|_| lines.len());
            *lines = TextRange::at(lines.start(), size);
            *words = text;
            return;
        }
        let last = module
            .body
            .iter()
            .enumerate()
            .take_while(|(at, statement)| {
                statement.is_import_from_stmt()
                    || statement.is_import_stmt()
                    || (*at == 0 && statement.is_expr_stmt())
            })
            .last();
        match last {
            Some((_, statement)) => self.insert(statement.end(), format!("\n{text}")),
            None => {
                let start = module.body.first().map_or(TextSize::new(0), Ranged::start);
                self.insert(start, format!("{text}\n"));
            }
        }
    }
}
