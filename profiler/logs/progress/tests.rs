use std::path::Path;

use proptest::prelude::*;

use crate::logs::Logs;
use crate::logs::progress::ProgressLog;
use crate::logs::progress::number::{leading, named};
use crate::logs::progress::series::Trainer;
use crate::logs::progress::server::Server;
use crate::logs::progress::statistics::{Times, median};
use crate::note::Notes;

fn read(text: &str) -> ProgressLog {
    let mut logs = Logs::default();
    crate::logs::read(
        Path::new("run.log"),
        text.as_bytes(),
        &mut logs,
        &mut Notes::default(),
    );
    logs.progress
}

#[test]
fn numbers_stand_beside_their_names() {
    assert_eq!(named("tps: 8,123  tflops: 45.2", "tps"), Some(8123.0));
    assert_eq!(named("https: 4, tps: 5", "tps"), Some(5.0));
    assert_eq!(named("{'loss': 1.5e-3, 'x': 1}", "loss"), Some(0.0015));
    assert!(named("loss: nan", "loss").is_some_and(f64::is_nan));
    assert_eq!(named("seconds: 17.182, next", "seconds"), Some(17.182));
    assert_eq!(leading("1,2"), Some((1.0, ",2")));
    assert_eq!(named("steps 3", "step"), None);
}

#[test]
fn step_lines_of_each_trainer_are_read() {
    let log = read(
        "I0101 10:00:00.1 completed step: 3, seconds: 2.500, TFLOP/s/device: 410.250, Tokens/s/device: 7100.500, total_weights: 196608, loss: 2.136\n\
         [rank0]:[titan] 2025-01-01 10:00:00,123 - root - INFO - step: 10  loss:  8.1234  grad_norm:  1.5  memory: 10.50GiB(33.10%)  tps: 8,123  tflops: 145.20  mfu: 14.50%\n\
         {'train_runtime': 100.5, 'train_samples_per_second': 12.3, 'train_steps_per_second': 0.5, 'train_loss': 1.25, 'epoch': 1.0}\n\
         train:  45%|####      | 9/20 [00:10<00:12,  1.25s/it, loss=3.5]\n\
         step 7 | loss 3.25 | dt: 120.5ms | tok/sec: 5000\n\
         global_step=12 step_time=0.25 loss=nan\n\
         INFO:global step 665: loss = 1.4688 (646.632 sec/step)\n\
         | Training Device=xla:0/3 Epoch=1 Step=280 Loss=0.01022 Rate=1760.91 GlobalRate=257.10 Time=07:29:39\n\
         step: 3 of the recipe, nothing measured\n",
    );
    let of = |trainer: Trainer| {
        let series = log.series.iter().find(|series| series.trainer == trainer);
        series.expect("read").points[0]
    };
    let maxtext = of(Trainer::MaxText);
    assert_eq!((maxtext.step, maxtext.seconds), (Some(3), Some(2.5)));
    assert_eq!(
        (maxtext.tflops, maxtext.tokens_per_s),
        (Some(410.25), Some(7100.5))
    );
    assert_eq!(maxtext.loss, Some(2.136));
    let titan = of(Trainer::TorchTitan);
    assert_eq!(
        (titan.step, titan.tokens_per_s, titan.tflops),
        (Some(10), Some(8123.0), Some(145.2))
    );
    assert_eq!(titan.mfu, Some(0.145));
    assert_eq!(of(Trainer::HuggingFace).seconds, Some(2.0));
    let bar = of(Trainer::Bar);
    assert_eq!(
        (bar.step, bar.seconds, bar.loss),
        (Some(9), Some(1.25), Some(3.5))
    );
    let others: Vec<_> = (log.series.iter())
        .filter(|series| series.trainer == Trainer::Other)
        .flat_map(|series| &series.points)
        .collect();
    assert_eq!(others.len(), 4);
    assert_eq!(
        (others[3].step, others[3].samples_per_s),
        (Some(280), Some(1760.91))
    );
    assert_eq!(others[2].seconds, Some(646.632));
    assert_eq!(others[0].seconds, Some(0.1205));
    assert!(others[1].loss.is_some_and(f64::is_nan));
}

#[test]
fn servers_are_read() {
    let log = read(
        "INFO 01-01 loggers.py:123] Engine 000: Avg prompt throughput: 10.5 tokens/s, Avg generation throughput: 456.7 tokens/s, Running: 12 reqs, Waiting: 3 reqs, GPU KV cache usage: 45.6%, Prefix cache hit rate: 0.0%\n\
         [2026-01-01 00:00:00 TP0] Decode batch. #running-req: 4, #token: 640, token usage: 0.12, gen throughput (token/s): 567.80, #queue-req: 1, #cache_miss: 2\n\
         AssertionError: Recompilation after warm up is detected during execute_model. num_xla_graphs = 4 curr_cached_graph = 5\n\
         Compilation finished in in 12.34 [secs].\n",
    );
    let [vllm, sglang] = &log.server.points[..] else {
        panic!("two lines");
    };
    assert_eq!((vllm.server, vllm.generated_per_s), (Server::Vllm, 456.7));
    assert_eq!((vllm.running, vllm.waiting), (Some(12.0), Some(3.0)));
    assert!(
        vllm.cache_usage
            .is_some_and(|usage| (usage - 0.456).abs() < 1e-12)
    );
    assert_eq!(
        (sglang.server, sglang.generated_per_s),
        (Server::Sglang, 567.8)
    );
    assert_eq!(sglang.cache_misses, Some(2.0));
    assert_eq!(log.server.late_compiles[0].at.line, 3);
    assert_eq!(log.server.warm_ups[0].1, 12.34);
}

#[test]
fn configurations_and_empty_profiles_are_found() {
    let log = read(
        "device=v6e\nplain: 6.50 req/s\nwith sort: 0.50 req/s\n\n-rw-r--r-- 1 root root   0 Jun 28 03:39 host.xplane.pb\n-rw-r--r-- 1 root root 19M Jun 28 03:39 other.xplane.pb\n",
    );
    let [comparison] = &log.comparisons[..] else {
        panic!("one comparison");
    };
    let rows: Vec<_> = comparison
        .rows
        .iter()
        .map(|row| (row.label.as_str(), row.value))
        .collect();
    assert_eq!(rows, [("plain", 6.5), ("with sort", 0.5)]);
    let [empty] = &log.empty_profiles[..] else {
        panic!("one file");
    };
    assert_eq!((empty.name.as_str(), empty.at.line), ("host.xplane.pb", 5));
}

/// Steps that take what `time` says.
fn times(steps: usize, time: impl Fn(usize) -> f64) -> Times {
    let line = |step| {
        format!(
            "completed step: {step}, seconds: {:.3}, TFLOP/s/device: 1.0\n",
            time(step)
        )
    };
    let text: String = (0..steps).map(line).collect();
    Times::of(&read(&text).series[0].points).expect("times")
}

#[test]
fn spikes_stand_out_and_warm_up_does_not_count() {
    let found = times(100, |step| match step {
        0 => 60.0,
        40 | 77 => 30.0,
        _ => 1.5 + 0.01 * (step % 5) as f64,
    });
    assert_eq!(found.warm_up, [60.0]);
    let spikes: Vec<_> = found
        .spikes()
        .iter()
        .map(|spike| (spike.point.step, spike.value))
        .collect();
    assert_eq!(spikes, [(Some(40), 30.0), (Some(77), 30.0)]);
    assert!(found.drift().is_none());
    assert!(
        times(100, |step| 1.5 + 0.05 * (step % 7) as f64)
            .spikes()
            .is_empty()
    );
}

#[test]
fn a_trend_is_told_from_noise() {
    let (first, last) = times(80, |step| 1.0 + step as f64 / 100.0)
        .drift()
        .expect("rises");
    assert!(last > 1.5 * first);
    assert!(
        times(80, |step| 1.0 + 0.2 * (step * 7919 % 13) as f64)
            .drift()
            .is_none()
    );
    assert!(times(80, |_| 1.0).drift().is_none());
    assert_eq!(median(&[3.0, 1.0, 2.0]), 2.0);
}

proptest! {
    #[test]
    fn no_text_panics(lines in proptest::collection::vec(
        prop_oneof![
            "(completed )?[sS]tep[:= ][0-9.,e-]{0,8},? (seconds|step_time|dt|tps|mfu|loss)[:= ][0-9a-z.,%\u{e9}]{0,12}",
            "[0-9%|# ]{0,12}[0-9/]{0,6} \\[[0-9:<?]{0,12}, {0,2}[0-9.?]{0,6}(it/s|s/it)[, \\]]",
            "(Avg generation throughput|Decode batch\\. gen throughput \\(token/s\\)): [0-9.,a-z]{0,12}",
            "[-rwxl]{0,11} [ 0-9a-zA-Z:.]{0,40}xplane.pb",
            "[ -~\u{e9}]{0,20}[:=] ?[0-9.,e+-]{0,8} ?(req/s|tok/s|tokens/s)",
            "\\PC{0,60}",
        ], 0..40,
    )) {
        let log = read(&lines.join("\n"));
        for series in &log.series {
            for run in series.runs() {
                if let Some(times) = Times::of(run) {
                    times.spikes();
                    times.drift();
                }
            }
        }
    }
}
