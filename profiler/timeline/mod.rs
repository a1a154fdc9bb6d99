//! Events in time: readers for each format, and what follows from the order of events alone.

mod kineto;
pub mod trace_json;
pub mod xplane;

use crate::session::{Device, Track};

/// Sorts a device's tracks and computes the self time of each operation.
pub(crate) fn settle(device: &mut Device) {
    // The order of the device's own clock decides nesting; on the trace's clock the order is the
    // same but for rounding.
    let mut by_device = Track {
        start_ps: std::mem::take(&mut device.op_device_start_ps),
        duration_ps: std::mem::take(&mut device.op_device_duration_ps),
        id: std::mem::take(&mut device.ops.id),
    };
    by_device.sort_with(&mut [&mut device.ops.start_ps, &mut device.ops.duration_ps]);
    device.op_self_ps = self_times(&by_device.start_ps, &by_device.duration_ps);
    for extent in [by_device.extent(), device.device_extent_ps]
        .into_iter()
        .flatten()
    {
        let (start, end) = device.device_extent_ps.unwrap_or(extent);
        device.device_extent_ps = Some((start.min(extent.0), end.max(extent.1)));
    }
    device.op_device_duration_ps = by_device.duration_ps;
    device.ops.id = by_device.id;
    device.modules.sort_with(&mut [&mut device.run_ids]);
    for track in [&mut device.async_ops, &mut device.steps, &mut device.marks] {
        track.sort_with(&mut []);
    }
}

/// Self time of each span: its duration less the durations of the spans directly inside it.
///
/// Spans are sorted by start, longer first. *Inside* means fully contained: neighbours on real
/// TPU lines overlap by a picosecond of rounding, and those are not nested.
#[must_use]
pub fn self_times(start_ps: &[u64], duration_ps: &[u64]) -> Vec<u64> {
    let mut own = duration_ps.to_vec();
    let mut open: Vec<usize> = Vec::new();
    for (i, (start, duration)) in start_ps.iter().zip(duration_ps).enumerate() {
        let end = start.saturating_add(*duration);
        while let Some(top) = open.last() {
            if end <= start_ps[*top].saturating_add(duration_ps[*top]) {
                break;
            }
            open.pop();
        }
        if let Some(parent) = open.last() {
            own[*parent] = own[*parent].saturating_sub(*duration);
        }
        open.push(i);
    }
    own
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn children_are_taken_off_their_direct_parent_only() {
        // [0,100) holds [10,60), which holds [20,30); [60,70) is a second child.
        let own = self_times(&[0, 10, 20, 60], &[100, 50, 10, 10]);
        assert_eq!(own, [40, 40, 10, 10]);
    }

    #[test]
    fn a_picosecond_of_overlap_is_not_nesting() {
        let own = self_times(&[0, 99], &[100, 50]);
        assert_eq!(own, [100, 50]);
    }
}
