//! How the answer of a sharding search is shown.

use profiler::compiler::sharding::answer::{Answer, Choice};
use profiler::compiler::sharding::evaluate::Verdict;
use profiler::compiler::sharding::print::PrintedGroup;
use profiler::compiler::sharding::problem::Role;
use profiler::compiler::sharding::search::{History, Stop};
use profiler::compiler::target::Target;
use profiler::units::percent;

use crate::render::page::Page;
use crate::render::table::{Align, Table};

/// The answer as a page.
pub(super) fn answer(answer: &Answer, target: &Target) -> Page {
    let mut page = Page::new();
    let Some(choice) = &answer.choice else {
        return page;
    };
    page.heading(format!("Sharding for {target}: {}", choice.mesh));
    page.facts(facts(answer, choice));
    page.heading("Mesh");
    page.item(choice.sharding.jax_mesh.clone());
    page.item(choice.sharding.torch_mesh.clone());
    page.item(format!("sdy.mesh @mesh = {}", choice.sharding.shardy_mesh));
    layouts(&mut page, choice);
    if !choice.why.is_empty() {
        page.heading("Why not the runner-up");
        for why in &choice.why {
            page.item(why.clone());
        }
    }
    if !answer.others.is_empty() {
        page.heading("Next best");
        page.table(others(answer, choice));
    }
    page
}

fn facts(answer: &Answer, choice: &Choice) -> Vec<(String, String)> {
    let outcome = &choice.outcome;
    let mut facts = vec![
        (
            "step".to_owned(),
            format!(
                "{} predicted: {} in collectives, {} in everything else",
                outcome.time,
                outcome.collective_time,
                outcome.compute_time()
            ),
        ),
        (
            "HBM".to_owned(),
            format!(
                "{} at the peak, {} of it arguments",
                outcome.peak_memory, choice.argument_memory
            ),
        ),
    ];
    for (axis, bytes) in &outcome.collective_bytes {
        facts.push((
            format!("sent along {axis}"),
            format!("{bytes} by each device"),
        ));
    }
    let pruned = &answer.pruned;
    let end = match answer.stop {
        Stop::Exhausted => "nothing else can be faster",
        Stop::Budget => "the budget is spent",
        Stop::Settled => "nothing better was found for a while",
    };
    facts.push((
        "searched".to_owned(),
        format!(
            "{} of {} candidates compiled; {} cannot fit, {} cannot be faster, {} not looked at; {end}",
            answer.compiled,
            answer.candidates,
            pruned.by_memory,
            pruned.by_time,
            pruned.not_reached
        ),
    ));
    facts
}

/// Arguments that lie alike, with what each language calls it.
fn layouts(page: &mut Page, choice: &Choice) {
    let mut layouts: Vec<(&PrintedGroup, Vec<String>)> = Vec::new();
    for group in &choice.sharding.arguments {
        let dims: Vec<String> = group.dims.iter().map(u64::to_string).collect();
        let times = match group.count {
            1 => String::new(),
            count => format!("{count} x "),
        };
        let name = format!(
            "{} ({times}[{}], {})",
            group.name,
            dims.join(","),
            role(group.role)
        );
        let same = layouts
            .iter_mut()
            .find(|(first, _)| first.shardy == group.shardy && first.gspmd == group.gspmd);
        match same {
            Some((_, names)) => names.push(name),
            None => layouts.push((group, vec![name])),
        }
    }
    for (group, names) in layouts {
        page.heading(group.partition_spec.clone());
        page.facts(vec![
            ("DTensor".to_owned(), group.placements.clone()),
            ("Shardy".to_owned(), group.shardy.clone()),
            ("GSPMD".to_owned(), group.gspmd.clone()),
        ]);
        for name in names {
            page.item(name);
        }
    }
}

fn others(answer: &Answer, choice: &Choice) -> Table<6> {
    let mut table = Table::new([
        ("mesh", Align::Left),
        ("cuts (data/weights)", Align::Left),
        ("step", Align::Right),
        ("longer by", Align::Right),
        ("collectives", Align::Right),
        ("HBM", Align::Right),
    ]);
    let best = choice.outcome.time.0.max(1) as f64;
    for other in &answer.others {
        let longer = other.outcome.time.0 as f64 / best - 1.0;
        table.row([
            other.mesh.clone(),
            other.candidate.clone(),
            other.outcome.time.to_string(),
            percent(longer),
            other.outcome.collective_time.to_string(),
            other.outcome.peak_memory.to_string(),
        ]);
    }
    table
}

fn role(role: Role) -> &'static str {
    match role {
        Role::Data => "data",
        Role::Parameter => "parameter",
        Role::OptimizerState => "optimizer",
        Role::Other => "other",
    }
}

/// Why there is no choice.
pub(super) fn no_choice(answer: &Answer, history: &History, target: &Target) -> String {
    let refused = history.records.iter().find_map(|r| match &r.verdict {
        Verdict::Refused { message } => Some(message.as_str()),
        _ => None,
    });
    let compiled = answer.compiled;
    let by_memory = answer.pruned.by_memory;
    match refused {
        Some(message) => {
            format!(
                "none of {compiled} candidates compiled for {target}; the first refusal: {message}"
            )
        }
        None => format!(
            "no candidate fits on {target}: the arguments of {by_memory} alone are too large, {compiled} were compiled; take a larger target, or a smaller batch"
        ),
    }
}
