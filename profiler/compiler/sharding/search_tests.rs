//! The search over spaces of which all outcomes are known: every candidate of a real program was
//! compiled once, for four chips and for eight, and what was found is replayed.

use std::collections::BTreeMap;

use super::*;
use crate::compiler::sharding::mesh::shapes;
use crate::compiler::sharding::spec::Sharding;
use crate::units::Bytes;

const BLOCK: &str = include_str!("../../../tests/fixtures/programs/sharding/block_train.mlir");
const ON_4: &str = include_str!("../../../tests/fixtures/programs/sharding/v6e-4.outcomes.tsv");
const ON_8: &str = include_str!("../../../tests/fixtures/programs/sharding/v6e-8.outcomes.tsv");

/// What a v6e device can do: 918 TFLOP/s, 400 GB/s in one direction over its links, 31.25 GiB.
const V6E: Rates = Rates {
    flops_per_s: 918e12,
    ici_bytes_per_s: 400e9,
    hbm_bytes: Bytes(125 << 28),
};

/// Answers from a table, and counts.
struct Replay {
    outcomes: BTreeMap<String, Outcome>,
    asked: usize,
    /// Fails when it was asked that often.
    breaks_at: usize,
}

impl Replay {
    fn new(table: &str) -> Self {
        let number = |cell: Option<&str>| cell.and_then(|c| c.parse().ok()).expect("a number");
        let outcomes = table.lines().skip(1).map(|line| {
            let mut cells = line.split('\t');
            let key = cells.next().expect("a key").to_owned();
            let outcome = Outcome {
                time: Picos(number(cells.next())),
                collective_time: Picos(number(cells.next())),
                peak_memory: Bytes(number(cells.next())),
                ..Outcome::default()
            };
            (key, outcome)
        });
        Self {
            outcomes: outcomes.collect(),
            asked: 0,
            breaks_at: usize::MAX,
        }
    }

    fn best(&self) -> Picos {
        let fits = |outcome: &&Outcome| outcome.peak_memory <= V6E.hbm_bytes;
        let times = self.outcomes.values().filter(fits).map(|o| o.time);
        times.min().expect("one fits")
    }
}

impl Evaluate for (&Problem, &mut Replay) {
    type Error = &'static str;

    fn evaluate(&mut self, candidate: &Candidate, _: &Sharding) -> Result<Verdict, &'static str> {
        let (problem, replay) = self;
        if replay.asked >= replay.breaks_at {
            return Err("it broke");
        }
        replay.asked += 1;
        let outcome = replay.outcomes.get(&candidate.key(problem));
        outcome
            .cloned()
            .map(Verdict::Priced)
            .ok_or("no such candidate")
    }
}

fn searched(table: &str, devices: u64) -> (Problem, Search, Replay) {
    let problem = Problem::read(BLOCK).expect("a problem");
    let space = Space::enumerate(&problem, &shapes(devices));
    let settings = SearchSettings {
        budget: space.candidates.len() / 4,
        rates: V6E,
    };
    let search = Search::new(&problem, &space, settings);
    let replay = Replay::new(table);
    assert_eq!(replay.outcomes.len(), search.entries().len());
    (problem, search, replay)
}

/// The best that a search finds, how often it asked, and the candidates.
fn found(table: &str, devices: u64) -> (f64, usize, usize) {
    let (problem, search, mut replay) = searched(table, devices);
    let mut history = History::default();
    let stop = search.run(&problem, &mut history, &mut (&problem, &mut replay));
    assert!(stop.is_ok());
    let (_, best) = search.ranking(&history)[0];
    let ratio = best.time.0 as f64 / replay.best().0 as f64;
    (ratio, replay.asked, search.entries().len())
}

#[test]
fn a_quarter_of_the_compiles_finds_the_best_within_5_percent() {
    for (table, devices) in [(ON_4, 4), (ON_8, 8)] {
        let (ratio, asked, all) = found(table, devices);
        assert!(ratio <= 1.05, "{devices} chips: {ratio}");
        assert!(4 * asked <= all, "{devices} chips: {asked} of {all}");
    }
}

#[test]
fn a_search_that_broke_goes_on_where_it_was() {
    let (problem, search, mut replay) = searched(ON_4, 4);
    let mut whole = History::default();
    let stop = search.run(&problem, &mut whole, &mut (&problem, &mut replay));
    let (_, _, mut replay) = searched(ON_4, 4);
    replay.breaks_at = 5;
    let mut history = History::default();
    let broke = search.run(&problem, &mut history, &mut (&problem, &mut replay));
    assert_eq!(broke, Err("it broke"));
    assert_eq!(history.records.len(), 5);
    let kept = serde_json::to_string(&history).expect("it can be kept");
    let mut history: History = serde_json::from_str(&kept).expect("it can be read");
    replay.breaks_at = usize::MAX;
    let again = search.run(&problem, &mut history, &mut (&problem, &mut replay));
    assert_eq!((again, history), (stop, whole));
}

#[test]
fn candidates_that_cannot_fit_are_never_compiled() {
    let (problem, _, mut replay) = searched(ON_4, 4);
    let space = Space::enumerate(&problem, &shapes(4));
    // Arguments take 7.0 GB whole and 1.7 GB in four parts.
    let settings = SearchSettings {
        budget: space.candidates.len(),
        rates: Rates {
            hbm_bytes: Bytes(3 << 30),
            ..V6E
        },
    };
    let search = Search::new(&problem, &space, settings).exhaustive();
    let mut history = History::default();
    let stop = search.run(&problem, &mut history, &mut (&problem, &mut replay));
    assert_eq!(stop, Ok(Stop::Exhausted));
    let pruned = search.pruned(&history);
    assert!(pruned.by_memory > 0 && replay.asked > 0);
    assert_eq!(replay.asked + pruned.by_memory, search.entries().len());
    let too_large = |record: &Record| {
        let mut entries = search.entries().iter();
        entries.any(|e| e.key == record.candidate && e.bounds.memory > Bytes(3 << 30))
    };
    assert!(!history.records.iter().any(too_large));
}

#[test]
fn bounds_are_below_what_was_found() {
    for (table, devices) in [(ON_4, 4), (ON_8, 8)] {
        let (_, search, replay) = searched(table, devices);
        for entry in search.entries() {
            let outcome = &replay.outcomes[&entry.key];
            assert!(entry.bounds.time() <= outcome.time, "{}", entry.key);
            assert!(entry.bounds.memory <= outcome.peak_memory, "{}", entry.key);
        }
    }
}
