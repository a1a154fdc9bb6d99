use serde_json::json;

use super::*;
use crate::program::parse_module;

/// A chip whose links carry 100 GB/s in each direction.
fn chip(generation: &str, dimensions: u32, devices: u32) -> ChipFacts {
    let fact = |value: f64| json!({ "value": value, "source": "test" });
    let count = |value: u32| json!({ "value": value, "source": "test" });
    let facts = json!({
        "generation": generation,
        "product_name": "test",
        "tensor_cores_per_chip": count(devices),
        "devices_per_chip": count(devices),
        "peak_tflops_per_chip": {},
        "hbm_gib_per_chip": fact(32.0),
        "hbm_gb_per_s_per_chip": fact(1600.0),
        "ici_gb_per_s_per_chip": fact(400.0 * f64::from(dimensions)),
        "ici_links_per_chip": count(2 * dimensions),
        "ici_dimensions": count(dimensions),
        "mxu_size": count(256),
        "lanes": count(128),
        "sublanes": count(8),
    });
    serde_json::from_value(facts).expect("all that is needed")
}

fn reached(low: f64, typical: f64, high: f64) -> Reached {
    Reached {
        low,
        typical,
        high,
        source: "test".to_owned(),
    }
}

fn calibration() -> IciCalibration {
    IciCalibration {
        start_us: 5.0,
        hop_us: 1.0,
        any: reached(0.25, 0.5, 1.0),
        by_kind: [("all-reduce".to_owned(), reached(0.2, 0.25, 0.5))].into(),
        on_chip_gb_per_s: Some(reached(200.0, 400.0, 800.0)),
    }
}

fn ici(facts: &ChipFacts, axes: &[u64]) -> Ici {
    Ici::new(facts, calibration(), Topology::new(facts, axes)).expect("links are known")
}

fn transfer(kind: CollectiveKind, megabytes: f64, group: &[i64]) -> Transfer {
    Transfer {
        kind,
        payload_bytes: megabytes * 1e6,
        group: group.to_vec(),
        pairs: Vec::new(),
        is_dcn: false,
    }
}

fn microseconds(price: Price) -> (f64, f64, f64) {
    let us = |ps: u64| (ps as f64 / 1e6 * 1e3).round() / 1e3;
    (us(price.low_ps), us(price.time_ps), us(price.high_ps))
}

const ALL4: [i64; 4] = [0, 1, 2, 3];

#[test]
fn an_all_gather_receives_over_a_link_of_each_open_axis() {
    let v6e = ici(&chip("v6e", 2, 1), &[2, 2]);
    // 300 MB received over 2 x 100 GB/s: 1500 us, at half of it 3000; a start and two hops: 7.
    let price = v6e.price(&transfer(CollectiveKind::AllGather, 400.0, &ALL4));
    assert_eq!(microseconds(price), (1503.5, 3007.0, 6014.0));
    assert_eq!(price.basis, PriceBasis::Collective);
    // Along one axis of 2: 200 MB over one link.
    let price = v6e.price(&transfer(CollectiveKind::AllGather, 400.0, &[0, 2]));
    assert_eq!(microseconds(price).1, 4006.0);
    let backwards = v6e.price(&transfer(CollectiveKind::ReduceScatter, 400.0, &[0, 2]));
    assert_eq!(backwards, price);
}

#[test]
fn an_all_reduce_is_both_and_has_its_own_share() {
    let v6e = ici(&chip("v6e", 2, 1), &[2, 2]);
    // 150 MB over 200 GB/s: 750 us, at a quarter 3000; two starts of 5 and two times two hops.
    let price = v6e.price(&transfer(CollectiveKind::AllReduce, 100.0, &ALL4));
    assert_eq!(microseconds(price), (1507.0, 3014.0, 3778.0));
}

#[test]
fn an_axis_that_closes_to_a_ring_brings_two_links() {
    let facts = chip("v5e", 2, 1);
    let pod = ici(&facts, &[16, 16]);
    assert_eq!(pod.topology().wraps, [true, true]);
    let group: Vec<i64> = (0..16).collect();
    // 15/16 of 160 MB over 200 GB/s: 750 us, at half 1500; 8 hops to the far side.
    let price = pod.price(&transfer(CollectiveKind::AllGather, 160.0, &group));
    assert_eq!(microseconds(price).1, 1513.0);
    assert_eq!(ici(&facts, &[8, 8]).topology().wraps, [false, false]);
    let cube = chip("v5p", 3, 1);
    assert_eq!(Topology::new(&cube, &[4, 4, 2]).wraps, [true, true, false]);
}

#[test]
fn groups_between_each_other_share_the_links() {
    // On 2x4, 0 and 4 are at (0,0) and (0,2): another group lies between them.
    let v6e = ici(&chip("v6e", 2, 1), &[2, 4]);
    let placement = v6e.topology().place(&[0, 4]).expect("they are there");
    assert_eq!(placement.axes[0].stride, 2);
    let price = v6e.price(&transfer(CollectiveKind::AllGather, 100.0, &[0, 4]));
    // 50 MB over half a link: 1000 us, at half 2000; two hops.
    assert_eq!(microseconds(price).1, 2007.0);
}

#[test]
fn an_all_to_all_is_bound_by_the_middle_of_its_axis() {
    let v6e = ici(&chip("v6e", 2, 1), &[1, 4]);
    // Two chips send half of their 100 MB across: 100 MB over one link, 1000 us, at half 2000.
    let price = v6e.price(&transfer(CollectiveKind::AllToAll, 100.0, &ALL4));
    assert_eq!(microseconds(price).1, 2008.0);
}

#[test]
fn a_permute_is_bound_by_its_busiest_link() {
    let v6e = ici(&chip("v6e", 2, 1), &[1, 4]);
    let permute = |pairs: &[(i64, i64)]| Transfer {
        pairs: pairs.to_vec(),
        ..transfer(CollectiveKind::CollectivePermute, 100.0, &ALL4)
    };
    // Each to its neighbour, the last all the way back: each link once in each direction.
    let ring = v6e.price(&permute(&[(0, 1), (1, 2), (2, 3), (3, 0)]));
    assert_eq!(microseconds(ring).1, 2006.0);
    // By two: the middle link carries both.
    let far = v6e.price(&permute(&[(0, 2), (1, 3)]));
    assert_eq!(microseconds(far).1, 4006.0);
}

#[test]
fn devices_of_a_chip_talk_on_the_chip_and_share_its_links() {
    let facts = chip("tpu7x", 3, 2);
    let slice = ici(&facts, &[2, 2, 1]);
    // 400 MB on the wire at 400 GB/s: 1000 us; two starts and hops of 1.
    let pair = slice.price(&transfer(CollectiveKind::AllReduce, 400.0, &[0, 1]));
    assert_eq!(microseconds(pair).1, 1012.0);
    // Eight devices on four chips: each chip receives 3/4 of 400 MB over two links.
    let all: Vec<i64> = (0..8).collect();
    let price = slice.price(&transfer(CollectiveKind::AllGather, 400.0, &all));
    assert_eq!(microseconds(price).1, 3007.0);
    // One device of each chip: the other devices' group uses the same links.
    let half = slice.price(&transfer(CollectiveKind::AllGather, 400.0, &[0, 2, 4, 6]));
    assert_eq!(microseconds(half).1, 6007.0);
}

#[test]
fn a_group_of_one_is_free_and_one_that_is_not_there_is_a_ring_with_a_wider_band() {
    let v6e = ici(&chip("v6e", 2, 1), &[2, 2]);
    let alone = v6e.price(&transfer(CollectiveKind::AllReduce, 100.0, &[3]));
    assert_eq!((alone.time_ps, alone.basis), (0, PriceBasis::Free));
    let price = v6e.price(&transfer(CollectiveKind::AllGather, 200.0, &[8, 9]));
    // 100 MB over one link.
    assert_eq!(microseconds(price).1, 2007.0);
    assert!(price.high_ps > 3 * price.time_ps - price.time_ps / 10);
}

#[test]
fn slices_of_so_many_devices_are_compact() {
    let axes = |facts: &ChipFacts, devices| Topology::of_devices(facts, devices).axes;
    let (flat, cube, pairs) = (chip("v6e", 2, 1), chip("v5p", 3, 1), chip("tpu7x", 3, 2));
    assert_eq!(axes(&flat, 1), [1, 1]);
    assert_eq!(axes(&flat, 4), [2, 2]);
    assert_eq!(axes(&flat, 8), [2, 4]);
    assert_eq!(axes(&flat, 256), [16, 16]);
    assert_eq!(axes(&cube, 4), [2, 2, 1]);
    assert_eq!(axes(&cube, 8), [2, 2, 2]);
    assert_eq!(axes(&cube, 16), [2, 2, 4]);
    assert_eq!(axes(&pairs, 8), [2, 2, 1]);
}

#[test]
fn transfers_are_read_from_programs_also_out_of_fusions() {
    let text = "HloModule m, is_scheduled=true, num_partitions=4\n\n\
        %add (a: f32[], b: f32[]) -> f32[] {\n  %a = f32[] parameter(0)\n  %b = f32[] parameter(1)\n  ROOT %s = f32[] add(%a, %b)\n}\n\n\
        %all-reduce-scatter.1 (p: f32[1024,128]) -> f32[256,128] {\n  \
        %p = f32[1024,128]{1,0} parameter(0)\n  %zero = s32[] constant(0)\n  \
        %r = f32[1024,128]{1,0} all-reduce(%p), replica_groups={{0,1,2,3}}, to_apply=%add\n  \
        ROOT %d = f32[256,128]{1,0} dynamic-slice(%r, %zero, %zero), dynamic_slice_sizes={256,128}\n}\n\n\
        ENTRY %main (x: f32[1024,128]) -> f32[4096,128] {\n  \
        %x = f32[1024,128]{1,0} parameter(0)\n  \
        %f = f32[256,128]{1,0} fusion(%x), kind=kCustom, calls=%all-reduce-scatter.1\n  \
        ROOT %g = f32[4096,128]{1,0} all-gather(%x), replica_groups={}, dimensions={0}\n}\n";
    let (program, notes) = parse_module(text);
    assert!(notes.is_empty(), "{notes:?}");
    let of = |name: &str| Transfer::of(&program, program.find(name).expect(name));
    let fused = of("f").expect("a reduce-scatter");
    assert_eq!(fused.kind, CollectiveKind::ReduceScatter);
    assert_eq!(fused.payload_bytes, 1024.0 * 128.0 * 4.0);
    assert_eq!(fused.group, ALL4);
    let gather = of("g").expect("an all-gather");
    assert_eq!(gather.payload_bytes, 4096.0 * 128.0 * 4.0);
    assert_eq!(gather.group, ALL4, "an empty list means all");
    assert_eq!(of("x"), None);
}
