//! The sample profile: a small FSDP training run on four v6e chips.

use super::Stage;
use crate::support::chip::Chip;
use crate::support::profile::{HostEvent, HostThread, TpuProfile, us};

/// The wait for the next batch after each step.
const BATCH_WAIT: u64 = us(2_600);

/// Ten whole steps and two cut ones. Each step ends with [`BATCH_WAIT`] of
/// idleness, during which the host's main thread loads the next batch.
pub fn sample() -> TpuProfile {
    let mut stage = Stage::new("train_sample_v6e", Chip::V6e, 4);
    let proto = crate::support::fixture_bytes("hlo/train_sample_v6e.hlo_proto.pb");
    stage.profile.programs[stage.program].hlo_proto = Some(proto);
    // Layout copies move short rows: a third of the usual rate.
    let script = stage.script(2, |op| {
        (op.category == "data formatting").then(|| 3 * stage.model.duration(op))
    });
    stage.rounds(&script, 12, BATCH_WAIT, 8, true);

    let device = &stage.profile.devices[0];
    let mut events = Vec::new();
    for step in &device.steps {
        let start = step.start + device.clock_skew;
        let number = i64::try_from(step.number).expect("few steps");
        let dispatch = us(700);
        for (name, start, duration, stats) in [
            (
                "train",
                start - us(150),
                step.duration + us(150),
                vec![("step_num", number), ("_r", 1)],
            ),
            (
                "PjitFunction(train_step)",
                start - us(120),
                dispatch,
                Vec::new(),
            ),
            (
                "load_batch",
                start + step.duration,
                BATCH_WAIT - us(200),
                Vec::new(),
            ),
        ] {
            events.push(HostEvent {
                name: name.to_owned(),
                start,
                duration,
                stats,
            });
        }
    }
    stage.profile.host_threads.push(HostThread {
        name: "main".to_owned(),
        events,
    });

    let steps = &stage.profile.devices[0].steps;
    let (from, to) = (
        steps[0].start + steps[0].duration / 2,
        steps[11].start + steps[11].duration / 3,
    );
    stage.profile.crop(from, to);
    stage.profile
}
