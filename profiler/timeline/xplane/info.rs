//! What planes say beside their events: peaks, capture times, counters, embedded HLO.

use rayon::prelude::*;

use super::plane::Plane;
use crate::program;
use crate::session::{Device, SessionProgram, StatedPeaks};
use crate::session_builder::{SessionBuilder, split_module_label};
use crate::wire::Message;

pub(super) fn read_plane_stats(plane: &Plane<'_>, device: &mut Device) {
    let mut peaks = StatedPeaks::default();
    for bytes in &plane.stats {
        let (name, stat) = plane.stat(bytes);
        match name {
            "device_type_string" => peaks.device_type = Some(stat.text().to_owned()),
            "peak_teraflops_per_second" => peaks.peak_tflops = positive(stat.double()),
            "peak_hbm_bw_gigabytes_per_second" => peaks.peak_hbm_gb_per_s = positive(stat.double()),
            "peak_vmem_rd_bw_gigabytes_per_second" => {
                peaks.peak_vmem_read_gb_per_s = positive(stat.double());
            }
            "peak_vmem_wr_bw_gigabytes_per_second" => {
                peaks.peak_vmem_write_gb_per_s = positive(stat.double());
            }
            "peak_cmem_rd_bw_gigabytes_per_second" => {
                peaks.peak_cmem_read_gb_per_s = positive(stat.double());
            }
            "peak_cmem_wr_bw_gigabytes_per_second" => {
                peaks.peak_cmem_write_gb_per_s = positive(stat.double());
            }
            "has_merged_vmem" => peaks.has_merged_vmem = Some(stat.uint() != 0),
            "has_megacore" => peaks.has_megacore = Some(stat.uint() != 0),
            "core_details" => {
                // CoreDetails.local_chip_id is field 4, absent (0) on the first chip.
                let chip = Message::new(stat.bytes()).find(|(number, _)| *number == 4);
                device.chip_on_host = Some(chip.map_or(0, |(_, value)| value.uint() as u32));
            }
            _ => {}
        }
    }
    device.peaks = peaks;
}

pub(super) fn positive(value: f64) -> Option<f64> {
    (value.is_finite() && value > 0.0).then_some(value)
}

pub(super) fn read_environment(plane: &Plane<'_>, host: u32, builder: &mut SessionBuilder) {
    let mut start = None;
    let mut stop = None;
    for bytes in &plane.stats {
        match plane.stat(bytes) {
            ("profile_start_time", stat) => start = Some(stat.uint()),
            ("profile_stop_time", stat) => stop = Some(stat.uint()),
            _ => {}
        }
    }
    if let (Some(start), Some(stop), Some(host)) =
        (start, stop, builder.session.hosts.get_mut(host as usize))
    {
        host.capture_ns = Some((start, stop));
    }
}

pub(super) fn read_host_counters(plane: &Plane<'_>, host: u32, builder: &mut SessionBuilder) {
    for bytes in &plane.stats {
        let (name, stat) = plane.stat(bytes);
        let Some(host) = builder.session.hosts.get_mut(host as usize) else {
            return;
        };
        match name {
            "matrix_unit_utilization_percent" => host.mxu_utilization_percent = Some(stat.double()),
            "hbm_utilization_percent" => host.hbm_utilization_percent = Some(stat.double()),
            _ => {}
        }
    }
}

/// Reads the HLO that libtpu embeds, of programs that ran in the capture.
pub(super) fn read_programs(plane: &Plane<'_>, builder: &mut SessionBuilder) {
    let mut protos = Vec::new();
    for (id, bytes) in &plane.event_metadata {
        let mut label = "";
        let mut proto: &[u8] = &[];
        for (number, value) in Message::new(bytes) {
            match number {
                2 => label = value.text(),
                5 => {
                    let (name, stat) = plane.stat(value.bytes());
                    if name == "Hlo Proto" || name == "hlo_proto" {
                        proto = stat.bytes();
                    }
                }
                _ => {}
            }
        }
        if proto.is_empty() {
            continue;
        }
        let (name, program_id) = split_module_label(label);
        let program_id = program_id.unwrap_or(id.cast_unsigned());
        if let Some(module) = builder.find_program(program_id) {
            if builder.session.modules[module as usize].name.is_empty() {
                name.clone_into(&mut builder.session.modules[module as usize].name);
            }
            protos.push((module, proto));
        }
    }
    let known: Vec<u32> = builder
        .session
        .programs
        .iter()
        .filter_map(|p| p.module)
        .collect();
    protos.retain(|(module, _)| !known.contains(module));
    protos.sort_by_key(|(module, _)| *module);
    let programs: Vec<_> = protos
        .par_iter()
        .map(|(module, proto)| (*module, program::read_hlo_proto(proto)))
        .collect();
    for (module, (program, notes)) in programs {
        builder.notes().merge(notes);
        builder.add_program(SessionProgram {
            module: Some(module),
            program,
        });
    }
}
