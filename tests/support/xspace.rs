//! Writes a [`TpuProfile`] as libtpu and the profiler server do: an `XSpace`.
//!
//! Shaped after a real v6e capture: plane ids 2, 10, 18, …; line ids 1 to 7;
//! event metadata numbered from 1 on device planes and by signed hashes on
//! `/host:metadata`; names of stats in the order a device plane has them.

use std::collections::BTreeMap;

use prost::Message;

use super::profile::{
    Device, HostEvent, HostThread, Mark, ModuleRun, Op, OpRef, OpRun, Step, TpuProfile, us,
};
use super::proto::{
    CoreDetails, EventData, MemoryAccessBreakdown, StatValue, XEvent, XEventMetadata, XLine,
    XPlane, XSpace, XStat, XStatMetadata,
};

/// The file's bytes: `NAME.xplane.pb`.
pub fn to_bytes(profile: &TpuProfile) -> Vec<u8> {
    to_xspace(profile).encode_to_vec()
}

/// The profile as a message.
pub fn to_xspace(profile: &TpuProfile) -> XSpace {
    let mut planes = Vec::new();
    for device in &profile.devices {
        planes.push(device_plane(profile, device));
        planes.extend(sparse_planes(profile, device));
    }
    planes.push(metadata_plane(profile));
    planes.push(host_plane(profile));
    planes.push(environment_plane(profile));
    XSpace {
        planes,
        hostnames: vec![profile.hostname.clone()],
        ..XSpace::default()
    }
}

/// Collects the metadata of a plane while its events are written.
struct PlaneWriter<'a> {
    profile: &'a TpuProfile,
    plane: XPlane,
    stat_ids: BTreeMap<String, i64>,
    event_ids: BTreeMap<String, i64>,
    op_ids: BTreeMap<OpRef, i64>,
}

impl<'a> PlaneWriter<'a> {
    fn new(profile: &'a TpuProfile, id: i64, name: &str) -> Self {
        Self {
            profile,
            plane: XPlane {
                id,
                name: name.to_owned(),
                ..XPlane::default()
            },
            stat_ids: BTreeMap::new(),
            event_ids: BTreeMap::new(),
            op_ids: BTreeMap::new(),
        }
    }

    fn stat(&mut self, name: &str, value: StatValue) -> XStat {
        let next = i64::try_from(self.stat_ids.len()).expect("few stats") + 1;
        let id = *self.stat_ids.entry(name.to_owned()).or_insert(next);
        self.plane
            .stat_metadata
            .entry(id)
            .or_insert_with(|| XStatMetadata {
                id,
                name: name.to_owned(),
                description: String::new(),
            });
        XStat {
            metadata_id: id,
            value: Some(value),
        }
    }

    fn plane_stat(&mut self, name: &str, value: StatValue) {
        let stat = self.stat(name, value);
        self.plane.stats.push(stat);
    }

    fn next_event_id(&self) -> i64 {
        i64::try_from(self.plane.event_metadata.len()).expect("few events") + 1
    }

    /// The metadata of an event known by its name alone.
    fn named(&mut self, name: &str) -> i64 {
        if let Some(id) = self.event_ids.get(name) {
            return *id;
        }
        let id = self.next_event_id();
        self.event_ids.insert(name.to_owned(), id);
        let metadata = XEventMetadata {
            id,
            name: name.to_owned(),
            ..XEventMetadata::default()
        };
        self.plane.event_metadata.insert(id, metadata);
        id
    }

    /// The metadata of an operation.
    fn op(&mut self, at: OpRef) -> i64 {
        if let Some(id) = self.op_ids.get(&at) {
            return *id;
        }
        let profile = self.profile;
        let stats = self.op_stats(profile.op(at), profile.programs[at.program].id);
        let op = profile.op(at);
        let id = self.next_event_id();
        self.op_ids.insert(at, id);
        self.plane.event_metadata.insert(
            id,
            XEventMetadata {
                id,
                name: op.hlo.clone(),
                display_name: op.name.clone(),
                stats,
                ..XEventMetadata::default()
            },
        );
        id
    }

    fn op_stats(&mut self, op: &Op, program_id: u64) -> Vec<XStat> {
        use StatValue::{Bytes, Int64, Str, Uint64};
        let signed = |n: u64| Int64(i64::try_from(n).expect("fits"));
        let breakdown = MemoryAccessBreakdown {
            accesses: op.breakdown.clone(),
        };
        let mut stats = vec![
            self.stat("hlo_category", Str(op.category.clone())),
            self.stat("program_id", Uint64(program_id)),
            self.stat("symbol_id", Uint64(op.symbol)),
            self.stat("flops", signed(op.flops)),
            self.stat("model_flops", signed(op.model_flops)),
            self.stat("bytes_accessed", signed(op.bytes)),
            self.stat("memory_access_breakdown", Bytes(breakdown.encode_to_vec())),
        ];
        if let Some(source) = &op.source {
            stats.push(self.stat("source", Str(source.clone())));
        }
        if let Some(stack) = &op.source_stack {
            stats.push(self.stat("source_stack", Str(stack.clone())));
        }
        stats.push(self.stat("raw_bytes_accessed", signed(op.bytes)));
        stats.push(self.stat("shape_with_layout", Str(op.shape.clone())));
        if let Some(tf_op) = &op.tf_op {
            stats.push(self.stat("tf_op", Str(tf_op.clone())));
        }
        if let Some(name) = &op.deduplicated_name {
            stats.push(self.stat("deduplicated_name", Str(name.clone())));
        }
        stats
    }

    fn device_times(&mut self, start: u64, duration: u64) -> Vec<XStat> {
        vec![
            self.stat("device_offset_ps", StatValue::Uint64(start)),
            self.stat("device_duration_ps", StatValue::Uint64(duration)),
        ]
    }

    fn line(&mut self, id: i64, name: &str, events: Vec<XEvent>) {
        self.plane.lines.push(XLine {
            id,
            name: name.to_owned(),
            events,
            ..XLine::default()
        });
    }

    fn modules(&mut self, runs: &[ModuleRun], device: &Device) -> Vec<XEvent> {
        let mut events = Vec::new();
        let skew = device.clock_skew;
        for run in runs {
            let program = &self.profile.programs[run.program];
            let metadata_id = self.named(&format!("{}({})", program.name, program.id));
            let flow = launch_flow(program.id, run, device);
            let stats = vec![
                self.stat("run_id", StatValue::Uint64(run.run_id)),
                self.stat("replica_id", StatValue::Int64(0)),
                self.stat("queue_id", StatValue::Uint64(0)),
                self.stat("core_type", StatValue::Uint64(0)),
                self.stat("_ct", StatValue::Int64(LAUNCH)),
                self.stat("_c", StatValue::Int64(flow)),
            ];
            events.push(event(metadata_id, run.start + skew, run.duration, stats));
        }
        events
    }

    fn ops(&mut self, runs: &[OpRun], skew: u64) -> Vec<XEvent> {
        let mut events = Vec::new();
        let mut collectives = 0;
        // What clock jumps added so far to the distance between the clocks.
        let mut jumped = 0;
        for run in runs {
            let metadata_id = self.op(run.op);
            let mut stats = self.device_times(run.start, run.duration);
            if is_collective(&self.profile.op(run.op).category) {
                collectives += 1;
                let id = StatValue::Uint64((collectives << 16) | 1);
                stats.push(self.stat("all_reduce_unique_id", id));
            }
            events.push(event(
                metadata_id,
                run.start + skew + jumped,
                run.host_duration,
                stats,
            ));
            jumped += run.host_duration.saturating_sub(run.duration);
        }
        events
    }

    fn steps(&mut self, steps: &[Step], skew: u64) -> Vec<XEvent> {
        let mut events = Vec::new();
        for step in steps {
            let metadata_id = self.named(&step.number.to_string());
            let group = i64::try_from(step.number).expect("few steps");
            let mut stats = self.device_times(step.start, step.duration);
            stats.push(self.stat("group_id", StatValue::Int64(group)));
            events.push(event(metadata_id, step.start + skew, step.duration, stats));
        }
        events
    }

    fn marks(&mut self, marks: &[Mark], skew: u64) -> Vec<XEvent> {
        let mut events = Vec::new();
        for mark in marks {
            let metadata_id = self.named(&mark.name);
            events.push(event(
                metadata_id,
                mark.start + skew,
                mark.duration,
                Vec::new(),
            ));
        }
        events
    }
}

/// The type of the flow from the host's launch of a program to its run.
const LAUNCH: i64 = 12;

/// The id of the flow that links a launch with the run it causes.
fn launch_flow(program_id: u64, run: &ModuleRun, device: &Device) -> i64 {
    let which = run.run_id << 16 | u64::from(device.global_id);
    mix(program_id ^ which).cast_signed()
}

fn event(metadata_id: i64, offset: u64, duration: u64, stats: Vec<XStat>) -> XEvent {
    XEvent {
        metadata_id,
        data: Some(EventData::OffsetPs(i64::try_from(offset).expect("fits"))),
        duration_ps: i64::try_from(duration).expect("fits"),
        stats,
    }
}

fn is_collective(category: &str) -> bool {
    [
        "all-reduce",
        "all-gather",
        "reduce-scatter",
        "all-to-all",
        "collective-permute",
    ]
    .iter()
    .any(|c| category.starts_with(c))
}

/// A fixed scramble of bits, for ids that look like hashes.
pub fn mix(n: u64) -> u64 {
    let mut z = n.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

fn core_details(profile: &TpuProfile, device: &Device, sparse: Option<u32>) -> StatValue {
    let per_chip = profile.chip.figures().devices_per_chip;
    let details = CoreDetails {
        hostname: String::new(),
        device_ordinal: if sparse.is_some() { 0 } else { device.ordinal },
        core_num: sparse.unwrap_or(device.ordinal % per_chip),
        local_chip_id: device.ordinal / per_chip,
        global_chip_id: device.global_id / per_chip,
        global_core_id: device.global_id,
        is_sparse_core: sparse.is_some(),
    };
    StatValue::Bytes(details.encode_to_vec())
}

fn device_plane(profile: &TpuProfile, device: &Device) -> XPlane {
    use StatValue::{Double, Int64, Str};
    let id = 2 + 8 * i64::from(device.ordinal);
    let mut writer = PlaneWriter::new(profile, id, &format!("/device:TPU:{}", device.ordinal));
    let chip = profile.chip.figures();
    writer.plane_stat("core_details", core_details(profile, device, None));
    writer.plane_stat("device_type_string", Str(chip.device_type.to_owned()));
    for (name, value) in [
        ("peak_teraflops_per_second", chip.peak_teraflops),
        ("peak_hbm_bw_gigabytes_per_second", chip.hbm_gb),
        ("peak_cmem_rd_bw_gigabytes_per_second", 0.0),
        ("peak_cmem_wr_bw_gigabytes_per_second", 0.0),
        ("peak_vmem_rd_bw_gigabytes_per_second", chip.vmem_read_gb),
        ("peak_vmem_wr_bw_gigabytes_per_second", chip.vmem_write_gb),
        ("peak_sram_rd_bw_gigabytes_per_second", chip.vmem_read_gb),
        ("peak_sram_wr_bw_gigabytes_per_second", chip.vmem_write_gb),
    ] {
        writer.plane_stat(name, Double(value));
    }
    writer.plane_stat("has_megacore", Int64(chip.has_megacore.into()));
    writer.plane_stat("has_merged_vmem", Int64(1));

    let skew = device.clock_skew;
    let events = writer.steps(&device.steps, skew);
    if !events.is_empty() {
        writer.line(1, "Steps", events);
    }
    let events = writer.modules(&device.modules, device);
    writer.line(2, "XLA Modules", events);
    let events = writer.ops(&device.ops, skew);
    writer.line(3, "XLA Ops", events);
    let events = transfers(&mut writer, device);
    writer.line(4, "Async XLA Ops", events);
    writer.line(7, "Overlay", Vec::new());
    let events = writer.marks(&device.trace_me, skew);
    writer.line(6, "XLA TraceMe", events);
    writer.plane
}

/// Events of asynchronous operations: metadata of its own for each start, named
/// by the start's HLO and shown by its kind.
fn transfers(writer: &mut PlaneWriter<'_>, device: &Device) -> Vec<XEvent> {
    let mut ids = BTreeMap::new();
    let mut events = Vec::new();
    for (index, transfer) in device.transfers.iter().enumerate() {
        let profile = writer.profile;
        let op = profile.op(transfer.start_op);
        let metadata_id = match ids.get(&transfer.start_op) {
            Some(id) => *id,
            None => {
                let stats = writer.op_stats(op, profile.programs[transfer.start_op.program].id);
                let id = writer.next_event_id();
                let display_name = op.async_name();
                let name = op.hlo.clone();
                let metadata = XEventMetadata {
                    id,
                    name,
                    display_name,
                    stats,
                    ..XEventMetadata::default()
                };
                writer.plane.event_metadata.insert(id, metadata);
                ids.insert(transfer.start_op, id);
                id
            }
        };
        let number = u64::try_from(index).expect("few transfers");
        let done = profile.op(transfer.done_op).name.clone();
        let id = done
            .rsplit('.')
            .next()
            .and_then(|n| n.parse().ok())
            .unwrap_or(0);
        let stats = vec![
            writer.stat("hlo_op", StatValue::Str(done)),
            writer.stat("_a", StatValue::Int64(1)),
            writer.stat("flow", StatValue::Uint64(616_168_039 + 4 * number)),
            writer.stat("id", StatValue::Uint64(id)),
        ];
        let offset = transfer.start + device.clock_skew;
        events.push(event(metadata_id, offset, transfer.duration, stats));
    }
    events
}

fn sparse_planes(profile: &TpuProfile, device: &Device) -> Vec<XPlane> {
    let mut planes = Vec::new();
    for core in &device.sparse_cores {
        let id = 2 + 8 * i64::from(device.ordinal) + 1 + i64::from(core.index);
        let name = format!("/device:TPU:{} SparseCore {}", device.ordinal, core.index);
        let mut writer = PlaneWriter::new(profile, id, &name);
        writer.plane_stat(
            "core_details",
            core_details(profile, device, Some(core.index)),
        );
        let skew = device.clock_skew;
        let events = writer.steps(&core.steps, skew);
        writer.line(11, "Sparse Core Steps", events);
        let events = writer.modules(&core.modules, device);
        writer.line(12, "Sparse Core Modules", events);
        let mut events = writer.ops(&core.ops, skew);
        for (index, event) in events.iter_mut().enumerate() {
            let start = u64::try_from(index).expect("few ops");
            let core_id = StatValue::Uint64(u64::from(core.index));
            event.stats.push(writer.stat("offload_core_id", core_id));
            event
                .stats
                .push(writer.stat("tc_offload_start_id", StatValue::Uint64(start)));
        }
        writer.line(13, "Sparse Core Ops", events);
        planes.push(writer.plane);
    }
    planes
}

fn metadata_plane(profile: &TpuProfile) -> XPlane {
    let mut writer = PlaneWriter::new(profile, 0, "/host:metadata");
    for program in &profile.programs {
        let Some(proto) = &program.hlo_proto else {
            continue;
        };
        let stat = writer.stat("Hlo Proto", StatValue::Bytes(proto.clone()));
        // The key is the program's id read as a signed number: often negative.
        let id = program.id.cast_signed();
        let metadata = XEventMetadata {
            id,
            name: format!("{}({})", program.name, program.id),
            stats: vec![stat],
            ..XEventMetadata::default()
        };
        writer.plane.event_metadata.insert(id, metadata);
    }
    writer.plane
}

fn host_plane(profile: &TpuProfile) -> XPlane {
    let mut writer = PlaneWriter::new(profile, 0, "/host:CPU");
    for (name, value) in [
        ("matrix_unit_utilization_percent", profile.mxu_percent),
        ("hbm_utilization_percent", profile.hbm_percent),
    ] {
        if let Some(value) = value {
            writer.plane_stat(name, StatValue::Double(value));
        }
    }
    let launches = launches(profile);
    for (index, thread) in profile.host_threads.iter().chain([&launches]).enumerate() {
        let id = 21_000 + i64::try_from(index).expect("few threads");
        let mut events = Vec::new();
        for e in &thread.events {
            let metadata_id = writer.named(&e.name);
            let stats = e
                .stats
                .iter()
                .map(|(n, v)| writer.stat(n, StatValue::Int64(*v)))
                .collect();
            events.push(event(metadata_id, e.start, e.duration, stats));
        }
        let name = format!("{}/{id}", thread.name);
        writer.plane.lines.push(XLine {
            id,
            display_name: name.clone(),
            name,
            events,
            ..XLine::default()
        });
    }
    writer.plane
}

/// The runtime's thread that puts programs on the devices' queues.
fn launches(profile: &TpuProfile) -> HostThread {
    let mut events = Vec::new();
    for device in &profile.devices {
        for run in device.modules.iter().filter(|run| !run.is_cut) {
            let program_id = profile.programs[run.program].id;
            events.push(HostEvent {
                name: "DoEnqueueProgram".to_owned(),
                start: (run.start + device.clock_skew).saturating_sub(us(280)),
                duration: us(19),
                stats: vec![
                    ("continuation", 1),
                    ("run_id", i64::try_from(run.run_id).expect("few runs")),
                    ("queue_id", 0),
                    ("device_ordinal", device.ordinal.into()),
                    ("core_type", 0),
                    ("_pt", LAUNCH),
                    ("_p", launch_flow(program_id, run, device)),
                ],
            });
        }
    }
    events.sort_by_key(|e| e.start);
    HostThread {
        name: "pjrt-tpu-tasks".to_owned(),
        events,
    }
}

fn environment_plane(profile: &TpuProfile) -> XPlane {
    let mut writer = PlaneWriter::new(profile, 0, "Task Environment");
    let start = profile.start_unix_ns;
    writer.plane_stat("profile_start_time", StatValue::Uint64(start));
    let stop = start + profile.duration() / 1_000;
    writer.plane_stat("profile_stop_time", StatValue::Uint64(stop));
    writer.plane
}
