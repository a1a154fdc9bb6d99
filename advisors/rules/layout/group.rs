//! Operations that are one matter to a reader: the same code, once for each layer.

use std::collections::BTreeMap;

use profiler::evidence::OpProfile;

use crate::rule::Context;

/// Findings that one rule makes at most: the largest.
pub(crate) const MAX_FINDINGS: usize = 3;
/// Below this share of the step a group is not worth a line.
pub(crate) const MIN_SHARE: f64 = 0.005;

/// Operations with one key.
#[derive(Clone, Debug)]
pub(crate) struct Group<K, T> {
    /// What they have in common.
    pub(crate) key: K,
    /// The members, in the order given: longest self time first where they come from the
    /// evidence.
    pub(crate) members: Vec<T>,
    /// The sum over the members of what they are ranked by: self time a step in milliseconds
    /// where nothing else is said.
    pub(crate) sum: f64,
}

/// Members by key, the group with the largest sum first.
pub(crate) fn groups<K: Ord + Clone, T>(
    members: impl IntoIterator<Item = (K, T)>,
    value: impl Fn(&T) -> f64,
) -> Vec<Group<K, T>> {
    let mut by_key: BTreeMap<K, Group<K, T>> = BTreeMap::new();
    for (key, member) in members {
        let group = by_key.entry(key.clone()).or_insert_with(|| Group {
            key,
            members: Vec::new(),
            sum: 0.0,
        });
        group.sum += value(&member);
        group.members.push(member);
    }
    let mut groups: Vec<_> = by_key.into_values().collect();
    groups.sort_by(|a, b| b.sum.total_cmp(&a.sum).then_with(|| a.key.cmp(&b.key)));
    groups
}

/// The groups that are worth a finding.
pub(crate) fn worthwhile<K, T>(
    context: &Context<'_>,
    groups: Vec<Group<K, T>>,
) -> impl Iterator<Item = Group<K, T>> {
    let step = context.step_ms();
    groups
        .into_iter()
        .filter(move |group| step > 0.0 && group.sum / step >= MIN_SHARE)
        .take(MAX_FINDINGS)
}

/// Where an operation comes from, in few words: its source line (`layers/attention.py:197`), else
/// its framework op, else its own name without its number.
pub(crate) fn origin(context: &Context<'_>, op: &OpProfile) -> String {
    if let Some(source) = context.evidence.source_near(op) {
        return short_path(source);
    }
    let of = context.op(op);
    let framework = of.framework_op.trim_end_matches(':');
    if framework.is_empty() {
        return base_name(&of.name).to_owned();
    }
    framework
        .split_once('/')
        .map_or(framework, |(_, inner)| inner)
        .to_owned()
}

/// The last two parts of a path: enough to find the file.
pub(crate) fn short_path(source: &str) -> String {
    let parts: Vec<&str> = source.split('/').filter(|part| !part.is_empty()).collect();
    parts
        .get(parts.len().saturating_sub(2)..)
        .unwrap_or(&parts)
        .join("/")
}

/// An instruction's name without the `.12` that makes it unique.
pub(crate) fn base_name(name: &str) -> &str {
    let mut base = name;
    while let Some((rest, number)) = base.rsplit_once('.')
        && !rest.is_empty()
        && number.bytes().all(|byte| byte.is_ascii_digit())
    {
        base = rest;
    }
    base
}

/// `once` or `64 times`, for executions a step.
pub(crate) fn times(count: f64) -> String {
    let count = count.round();
    if count <= 1.0 {
        "once".to_owned()
    } else {
        format!("{count:.0} times")
    }
}
