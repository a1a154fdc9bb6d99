//! The files of a project, checked.

use rayon::prelude::*;
use ruff_text_size::Ranged as _;

use crate::finding::Finding;
use crate::model_config::ModelConfig;
use crate::python::SourceContext;
use crate::python::bindings::Bindings;
use crate::python::file::{SourceFile, SourceNote};
use crate::python::hot::Hot;
use crate::python::index::Index;
use crate::python::names::Names;
use crate::python::scopes::Scopes;
use crate::python::tensors::Tensors;
use crate::python::transforms::Transforms;
use crate::rank;
use crate::rule::Rule;

/// Stack of a thread that checks files: virtual memory, used only as far as a file nests.
const STACK_BYTES: usize = 256 << 20;

/// What all files of a project have in common.
#[derive(Clone, Debug, Default)]
pub struct Project {
    /// The version of `torch_tpu` that the code is meant for, as `0.2.0`; none takes the newest whose
    /// facts are known.
    pub torch_tpu: Option<String>,
}

/// What a check found.
#[derive(Debug, Default)]
pub struct Checked {
    /// Findings, the most severe first, then by place.
    pub findings: Vec<Finding>,
    /// Files that were left out.
    pub notes: Vec<SourceNote>,
    /// Files that were read.
    pub files: usize,
    /// Lines in them.
    pub lines: u64,
}

/// Checks files (path and bytes) on all cores.
#[must_use]
pub fn check(project: &Project, files: Vec<(String, Vec<u8>)>, rules: &[&dyn Rule]) -> Checked {
    let check_all = || -> Vec<Result<(Vec<Finding>, u64), SourceNote>> {
        files
            .into_par_iter()
            .map(|(path, bytes)| {
                if path.ends_with(".json") {
                    return check_config(&path, bytes, rules);
                }
                let file = SourceFile::parse(&path, bytes)?;
                Ok((
                    check_file(project, &file, rules),
                    file.text.lines().count() as u64,
                ))
            })
            .collect()
    };
    // Parser and visitors recurse as deeply as the code nests.
    let pool = rayon::ThreadPoolBuilder::new()
        .stack_size(STACK_BYTES)
        .build();
    let outcomes = match pool {
        Ok(pool) => pool.install(check_all),
        Err(_) => check_all(),
    };
    let mut checked = Checked::default();
    for outcome in outcomes {
        match outcome {
            Ok((findings, lines)) => {
                checked.files += 1;
                checked.lines += lines;
                checked.findings.extend(findings);
            }
            Err(note) => checked.notes.push(note),
        }
    }
    rank::sort(&mut checked.findings);
    checked
}

/// The configuration of a model, which stands beside the code.
fn check_config(
    path: &str,
    bytes: Vec<u8>,
    rules: &[&dyn Rule],
) -> Result<(Vec<Finding>, u64), SourceNote> {
    let config = ModelConfig::parse(path, bytes).map_err(|error| SourceNote::Configuration {
        path: path.to_owned(),
        error: error.to_string(),
    })?;
    let findings = rules.iter().flat_map(|rule| {
        let remarks = rule.check_config(&config).into_iter();
        remarks.map(|remark| rank::remarked(*rule, remark))
    });
    Ok((findings.collect(), config.text.lines().count() as u64))
}

/// Calls `see` with all that is known of a file.
pub fn with_context<T>(
    project: &Project,
    file: &SourceFile,
    see: impl FnOnce(&SourceContext<'_>) -> T,
) -> T {
    let index = Index::new(file.module());
    let names = Names::new(&index);
    let bindings = Bindings::new(&index);
    let scopes = Scopes::new(&index);
    let transforms = Transforms::new(&index, &names, &scopes);
    let tensors = Tensors::new(&index, &names, &scopes, &transforms);
    let line_of = |id| {
        let start = index.get(id).map(|node| node.node.start());
        file.line_of(start.unwrap_or_default())
    };
    let hot = Hot::new(
        &file.path,
        &index,
        &names,
        &scopes,
        &transforms,
        &tensors,
        &line_of,
    );
    see(&SourceContext {
        project,
        file,
        index: &index,
        names: &names,
        bindings: &bindings,
        transforms: &transforms,
        tensors: &tensors,
        hot: &hot,
        scopes: &scopes,
    })
}

fn check_file(project: &Project, file: &SourceFile, rules: &[&dyn Rule]) -> Vec<Finding> {
    with_context(project, file, |context| {
        let findings = rules.iter().flat_map(|rule| {
            let remarks = rule.check_source(context).into_iter();
            remarks.map(|remark| rank::remarked(*rule, remark))
        });
        findings.collect()
    })
}
