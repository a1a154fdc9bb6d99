use serde_json::json;

use super::*;
use crate::compiler::pricer::{OpKind, Price, PriceBasis, Pricer};
use crate::evidence::Evidence;
use crate::program::{OpId, Program, parse_module};

/// Prices by the beginning of an operation's name, in nanoseconds: expected, low and high.
struct Named(Vec<(&'static str, [u64; 3], OpKind)>);

struct NamedPricer<'p>(&'p Named, &'p Program);

impl Prices for Named {
    fn pricer<'p>(&'p self, program: &'p Program) -> Box<dyn Pricer + 'p> {
        Box::new(NamedPricer(self, program))
    }
}

impl Pricer for NamedPricer<'_> {
    fn price(&mut self, op: OpId) -> Price {
        let name = self.1.get(op).map_or("", |i| i.name.as_str());
        let found = self.0.0.iter().find(|(begin, ..)| name.starts_with(begin));
        let Some((_, [low, time, high], kind)) = found else {
            return Price::default();
        };
        Price {
            time_ps: time * 1_000,
            low_ps: low * 1_000,
            high_ps: high * 1_000,
            basis: PriceBasis::Cycles,
            kind: *kind,
        }
    }
}

/// A chip that reads 1 byte of HBM a nanosecond.
fn chip() -> ChipFacts {
    let fact = |value: f64| json!({ "value": value, "source": "test" });
    let count = |value: u32| json!({ "value": value, "source": "test" });
    let facts = json!({
        "generation": "v6e",
        "product_name": "TPU v6e",
        "tensor_cores_per_chip": count(1),
        "devices_per_chip": count(1),
        "peak_tflops_per_chip": { "bf16": fact(918.0) },
        "hbm_gib_per_chip": fact(32.0),
        "hbm_gb_per_s_per_chip": fact(1.0),
        "mxu_size": count(256),
        "lanes": count(128),
        "sublanes": count(8),
    });
    serde_json::from_value(facts).expect("all that is needed")
}

fn session_of(text: &str) -> Session {
    let (program, notes) = parse_module(text);
    assert!(notes.is_empty(), "{notes:?}");
    Session {
        programs: vec![SessionProgram {
            module: None,
            program,
        }],
        ..Session::default()
    }
}

fn played(text: &str, prices: &Named, settings: &Settings) -> Session {
    let mut session = session_of(text);
    predict(&mut session, &chip(), prices, settings);
    session
}

/// `(name, start, duration)` of each event, nanoseconds.
fn events(session: &Session) -> Vec<(&str, u64, u64)> {
    session.devices[0]
        .ops
        .iter()
        .map(|(start, duration, op)| {
            (
                session.op(op).name.as_str(),
                start / 1_000,
                duration / 1_000,
            )
        })
        .collect()
}

fn run(session: &Session) -> crate::prediction::Band {
    let prediction = session.prediction.as_ref().expect("it is predicted");
    prediction.step().expect("one program ran")
}

fn nanos(band: crate::prediction::Band) -> (u64, u64, u64) {
    (
        band.low_ps / 1_000,
        band.time_ps / 1_000,
        band.high_ps / 1_000,
    )
}

/// A copy to VMEM beside work that lies in VMEM.
const COPY: &str = "HloModule m, is_scheduled=true\n\nENTRY %main {\n  \
    %a = s8[100]{0} parameter(0)\n  \
    %v = s8[100]{0:S(1)} parameter(1)\n  \
    %copy-start = (s8[100]{0:S(1)}, s8[100]{0}, u32[]{:S(2)}) copy-start(%a)\n  \
    %work = s8[100]{0:S(1)} negate(%v)\n  \
    %copy-done = s8[100]{0:S(1)} copy-done(%copy-start)\n  \
    ROOT %sum = s8[100]{0:S(1)} add(%work, %copy-done)\n}\n";

#[test]
fn a_copy_runs_beside_the_work_and_its_done_waits_for_the_rest() {
    let prices = Named(vec![
        ("copy-start", [80, 100, 150], OpKind::Copy),
        ("work", [40, 40, 40], OpKind::Loop),
        ("sum", [10, 10, 10], OpKind::Loop),
    ]);
    let session = played(COPY, &prices, &Settings::default());
    assert_eq!(
        events(&session),
        [
            ("copy-start", 0, 1),
            ("work", 1, 40),
            // 100, of which 1 passed during the start and 40 during the work.
            ("copy-done", 41, 59),
            ("sum", 100, 10),
        ]
    );
    let device = &session.devices[0];
    assert_eq!(
        device.async_ops.iter().collect::<Vec<_>>(),
        [(0, 100_000, 0)],
        "in flight from the start to the end of the done"
    );
    // A copy of 80 or 150 makes the wait 39 or 109.
    assert_eq!(nanos(run(&session)), (90, 110, 160));
    let quick = Named(vec![
        ("copy-start", [20, 30, 35], OpKind::Copy),
        ("work", [40, 40, 40], OpKind::Loop),
        ("sum", [10, 10, 10], OpKind::Loop),
    ]);
    let session = played(COPY, &quick, &Settings::default());
    assert_eq!(nanos(run(&session)), (52, 52, 52), "hidden, band and all");
}

#[test]
fn work_that_reads_hbm_leaves_the_copy_what_it_does_not_use() {
    // The work reads and writes 100 bytes of HBM each in 250 ns: 50 ns are left to the copy.
    let text = COPY
        .replace("%v = s8[100]{0:S(1)}", "%v = s8[100]{0}")
        .replace("%work = s8[100]{0:S(1)}", "%work = s8[100]{0}");
    let prices = Named(vec![
        ("copy-start", [100, 100, 100], OpKind::Copy),
        ("work", [250, 250, 250], OpKind::Loop),
        ("sum", [10, 10, 10], OpKind::Loop),
    ]);
    let session = played(&text, &prices, &Settings::default());
    assert_eq!(events(&session)[2], ("copy-done", 251, 49));
}

fn looped(trips: u64) -> String {
    format!(
        "HloModule m, is_scheduled=true\n\n\
         %body {{\n  %p = (f32[8]{{0}}) parameter(0)\n  \
         %x = f32[8]{{0}} get-tuple-element(%p), index=0\n  \
         %one = f32[8]{{0}} negate(%x)\n  %two = f32[8]{{0}} negate(%one)\n  \
         ROOT %r = (f32[8]{{0}}) tuple(%two)\n}}\n\n\
         %condition {{\n  %q = (f32[8]{{0}}) parameter(0)\n  ROOT %t = pred[] constant(true)\n}}\n\n\
         ENTRY %main {{\n  %a = f32[8]{{0}} parameter(0)\n  %t0 = (f32[8]{{0}}) tuple(%a)\n  \
         %w = (f32[8]{{0}}) while(%t0), condition=%condition, body=%body, \
         backend_config={{\"known_trip_count\":{{\"n\":\"{trips}\"}}}}\n  \
         %y = f32[8]{{0}} get-tuple-element(%w), index=0\n  \
         ROOT %last = f32[8]{{0}} negate(%y)\n}}\n"
    )
}

#[test]
fn a_loop_takes_its_iterations_however_many() {
    let prices = Named(vec![
        ("one", [2, 2, 2], OpKind::Loop),
        ("two", [3, 3, 3], OpKind::Loop),
        ("last", [7, 7, 7], OpKind::Loop),
    ]);
    for trips in [1, 2, 30, 1_000_000, 40_000_000_000] {
        let session = played(&looped(trips), &prices, &Settings::default());
        let wanted = trips * 5 + 7;
        assert_eq!(run(&session).time_ps, wanted * 1_000, "{trips}");
        assert!(session.devices[0].ops.len() <= MAX_EVENTS);
        let is_folded = session.notes.iter().any(|note| note.code == "folded-loop");
        assert_eq!(is_folded, trips > 30, "{trips}");
        assert!(!session.notes.has_warnings());
        let evidence = Evidence::gather(&session, None, &[]);
        assert_eq!(evidence.step_time().0, wanted * 1_000);
        for (name, each) in [("one", 2), ("two", 3)] {
            let op = evidence.find_op(Some(0), name).expect(name);
            assert_eq!(op.occurrences, trips, "{name}");
            assert_eq!(op.self_ps.0, trips * each * 1_000, "{name}");
            let predicted = session.prediction.as_ref().and_then(|p| p.op(op.id));
            let predicted = predicted.expect("all are predicted");
            assert_eq!(predicted.executions, trips);
            assert_eq!(predicted.run.time_ps, trips * each * 1_000);
        }
    }
}

#[test]
fn a_branch_that_may_not_run_widens_the_band() {
    let text = "HloModule m, is_scheduled=true\n\n\
        %quick {\n  %p = f32[8]{0} parameter(0)\n  ROOT %short = f32[8]{0} negate(%p)\n}\n\n\
        %slow {\n  %q = f32[8]{0} parameter(0)\n  ROOT %long = f32[8]{0} negate(%q)\n}\n\n\
        ENTRY %main {\n  %i = s32[] parameter(0)\n  %a = f32[8]{0} parameter(1)\n  \
        ROOT %c = f32[8]{0} conditional(%i, %a, %a), branch_computations={%quick, %slow}\n}\n";
    let prices = Named(vec![
        ("short", [5, 5, 5], OpKind::Loop),
        ("long", [50, 50, 50], OpKind::Loop),
    ]);
    let most = played(text, &prices, &Settings::default());
    assert_eq!(nanos(run(&most)), (5, 50, 50));
    let settings = Settings {
        branch: Branch::Least,
        ..Settings::default()
    };
    let least = played(text, &prices, &settings);
    assert_eq!(nanos(run(&least)), (5, 5, 50));
}

#[test]
fn errors_of_one_kind_add_up_and_those_of_different_kinds_partly_cancel() {
    let text = "HloModule m, is_scheduled=true\n\nENTRY %main {\n  \
        %a = f32[8]{0} parameter(0)\n  %one = f32[8]{0} negate(%a)\n  \
        %two = f32[8]{0} negate(%one)\n  ROOT %dot = f32[8]{0} negate(%two)\n}\n";
    let prices = Named(vec![
        ("one", [90, 100, 110], OpKind::Loop),
        ("two", [80, 100, 120], OpKind::Loop),
        ("dot", [60, 100, 140], OpKind::Matmul),
    ]);
    let session = played(text, &prices, &Settings::default());
    // 10 + 20 of loops and 40 of the product: the root of 900 + 1600.
    assert_eq!(nanos(run(&session)), (250, 300, 350));
    assert_eq!(run(&session).words(), "±17 %");
}

#[test]
fn an_operation_without_a_price_is_told() {
    struct Nothing;
    impl Pricer for Nothing {
        fn price(&mut self, _: OpId) -> Price {
            Price::exact(0, PriceBasis::Unknown, OpKind::Other)
        }
    }
    impl Prices for Nothing {
        fn pricer<'p>(&'p self, _: &'p Program) -> Box<dyn Pricer + 'p> {
            Box::new(Self)
        }
    }
    let mut session = session_of(&looped(2));
    predict(&mut session, &chip(), &Nothing, &Settings::default());
    let codes: Vec<&str> = session.notes.iter().map(|note| note.code).collect();
    assert_eq!(codes, ["unknown-price", "predicted-times"]);
}

#[test]
fn a_collective_in_a_chain_of_fusions_is_transferred_once() {
    let part = |name: &str, root: &str| {
        format!(
            "%{name} {{\n  %p.{name} = f32[8]{{0}} parameter(0)\n  \
             %g.{name} = f32[32]{{0}} all-gather(%p.{name}), channel_id=7, replica_groups={{{{0,1,2,3}}}}, dimensions={{0}}\n  \
             ROOT %r.{name} = {root}\n}}\n\n"
        )
    };
    let call = |name: &str, target: &str| {
        format!("f32[32]{{0}} custom-call(%g.{name}), custom_call_target=\"{target}\"")
    };
    let text = format!(
        "HloModule m, is_scheduled=true\n\n{}{}{}ENTRY %main {{\n  %a = f32[8]{{0}} parameter(0)\n  \
         %start = f32[32]{{0}} fusion(%a), kind=kCustom, calls=%begin\n  \
         %product = f32[32]{{0}} fusion(%a), kind=kOutput, calls=%async_collective_fusion.1\n  \
         ROOT %done = f32[32]{{0}} fusion(%start), kind=kCustom, calls=%end\n}}\n",
        part("begin", &call("begin", "AsyncCollectiveStart")),
        part(
            "async_collective_fusion.1",
            "f32[32]{0} negate(%g.async_collective_fusion.1)"
        ),
        part("end", &call("end", "AsyncCollectiveDone")),
    );
    let prices = Named(vec![
        ("start", [90, 100, 110], OpKind::Collective),
        ("product", [60, 60, 60], OpKind::Matmul),
    ]);
    let session = played(&text, &prices, &Settings::default());
    assert_eq!(
        events(&session),
        [("start", 0, 1), ("product", 1, 60), ("done", 61, 39)]
    );
    assert_eq!(session.devices[0].async_ops.len(), 1);
}
