//! What stays of an operation when its program is compiled again: numbers in names do not.

use crate::evidence::{Evidence, OpProfile};

/// What an operation is recognised by.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Traits<'s> {
    /// The short name, numbers and all.
    pub name: &'s str,
    /// The program's name.
    pub module: &'s str,
    /// The deduplicated name, else the short name, without numbers.
    pub stem: String,
    /// The result's shape with layout.
    pub shape: &'s str,
    /// The framework's op.
    pub framework_op: &'s str,
    /// `file:line`.
    pub source: &'s str,
    /// Our class.
    pub class: &'static str,
    /// When it first ran: (core, time on the trace's clock).
    pub first: (usize, u64),
    /// Self time a step, ms.
    pub ms: f64,
}

/// The traits of every operation that ran, by position in [`Evidence::ops`].
pub(super) fn traits<'s>(evidence: &Evidence<'s>) -> Vec<Traits<'s>> {
    let session = evidence.session;
    let mut first = vec![(usize::MAX, u64::MAX); session.ops.len()];
    for (core, (_, device)) in session.analysed_cores().enumerate() {
        for (start, _, id) in device.ops.iter() {
            if let Some(slot) = first.get_mut(id as usize) {
                *slot = (*slot).min((core, start));
            }
        }
    }
    let of = |profile: &OpProfile| {
        let op = session.op(profile.id);
        let name = if op.deduplicated_name.is_empty() {
            &op.name
        } else {
            &op.deduplicated_name
        };
        Traits {
            name: &op.name,
            module: module_name(evidence, profile),
            stem: stem(name),
            shape: &op.shape,
            framework_op: op.framework_op.trim_end_matches(':'),
            source: &op.source,
            class: profile.class.name(),
            first: first
                .get(profile.id as usize)
                .copied()
                .unwrap_or((usize::MAX, u64::MAX)),
            ms: profile.step_self_ms(),
        }
    };
    evidence.ops.iter().map(of).collect()
}

/// The name of an operation's program, empty where it has none.
pub(super) fn module_name<'s>(evidence: &Evidence<'s>, profile: &OpProfile) -> &'s str {
    let module = profile.module.map(|module| module as usize);
    let module = module.and_then(|module| evidence.session.modules.get(module));
    module.map_or("", |module| module.name.as_str())
}

/// A name without the numbers that the compiler gives out: `fusion.12.remat.3` is
/// `fusion.remat`.
pub(super) fn stem(name: &str) -> String {
    let is_number = |part: &&str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
    let parts: Vec<&str> = name.split('.').filter(|part| !is_number(part)).collect();
    parts.join(".")
}

/// A shape without layouts: `f32[8,128]{1,0:T(8,128)}` is `f32[8,128]`.
#[must_use]
pub fn without_layout(shape: &str) -> String {
    let mut depth = 0usize;
    let mut bare = String::with_capacity(shape.len());
    for c in shape.chars() {
        match c {
            '{' => depth += 1,
            '}' => depth = depth.saturating_sub(1),
            _ if depth == 0 => bare.push(c),
            _ => {}
        }
    }
    bare
}

/// A framework op without the name of the function that was compiled: `jit(step)/a/b` is `a/b`.
pub(super) fn without_function(framework_op: &str) -> &str {
    framework_op
        .split_once('/')
        .filter(|(head, _)| head.ends_with(')'))
        .map_or(framework_op, |(_, rest)| rest)
}
