//! Protobuf messages of profiles and HLO, written by hand with `prost`.
//!
//! The suite's oracle: it shares no code with the product's own wire cursor,
//! so that a mistake in one shows against the other. Only the fields that the
//! tests write or check are here; the numbers are facts of the wire formats
//! `tsl/profiler/protobuf/xplane.proto` and `xla/service/hlo.proto`.

use std::collections::BTreeMap;

/// A whole capture of one host.
#[derive(Clone, PartialEq, prost::Message)]
pub struct XSpace {
    #[prost(message, repeated, tag = "1")]
    pub planes: Vec<XPlane>,
    #[prost(string, repeated, tag = "2")]
    pub errors: Vec<String>,
    #[prost(string, repeated, tag = "3")]
    pub warnings: Vec<String>,
    #[prost(string, repeated, tag = "4")]
    pub hostnames: Vec<String>,
}

/// One device, or one kind of host activity.
#[derive(Clone, PartialEq, prost::Message)]
pub struct XPlane {
    #[prost(int64, tag = "1")]
    pub id: i64,
    #[prost(string, tag = "2")]
    pub name: String,
    #[prost(message, repeated, tag = "3")]
    pub lines: Vec<XLine>,
    #[prost(btree_map = "int64, message", tag = "4")]
    pub event_metadata: BTreeMap<i64, XEventMetadata>,
    #[prost(btree_map = "int64, message", tag = "5")]
    pub stat_metadata: BTreeMap<i64, XStatMetadata>,
    #[prost(message, repeated, tag = "6")]
    pub stats: Vec<XStat>,
}

/// One row of events: a thread, a queue or a kind of device activity.
#[derive(Clone, PartialEq, prost::Message)]
pub struct XLine {
    #[prost(int64, tag = "1")]
    pub id: i64,
    #[prost(int64, tag = "10")]
    pub display_id: i64,
    #[prost(string, tag = "2")]
    pub name: String,
    #[prost(string, tag = "11")]
    pub display_name: String,
    #[prost(int64, tag = "3")]
    pub timestamp_ns: i64,
    #[prost(int64, tag = "9")]
    pub duration_ps: i64,
    #[prost(message, repeated, tag = "4")]
    pub events: Vec<XEvent>,
}

/// Something that happened, told by its metadata and its own stats.
#[derive(Clone, PartialEq, prost::Message)]
pub struct XEvent {
    #[prost(int64, tag = "1")]
    pub metadata_id: i64,
    #[prost(oneof = "EventData", tags = "2, 5")]
    pub data: Option<EventData>,
    #[prost(int64, tag = "3")]
    pub duration_ps: i64,
    #[prost(message, repeated, tag = "4")]
    pub stats: Vec<XStat>,
}

/// When an event happened, or how often if it is an aggregate.
#[derive(Clone, Copy, PartialEq, prost::Oneof)]
pub enum EventData {
    #[prost(int64, tag = "2")]
    OffsetPs(i64),
    #[prost(int64, tag = "5")]
    NumOccurrences(i64),
}

/// A named value of an event, a plane or an event's metadata.
#[derive(Clone, PartialEq, prost::Message)]
pub struct XStat {
    #[prost(int64, tag = "1")]
    pub metadata_id: i64,
    #[prost(oneof = "StatValue", tags = "2, 3, 4, 5, 6, 7")]
    pub value: Option<StatValue>,
}

/// The value of a stat. A `Ref` names a stat metadata whose name is the text.
#[derive(Clone, PartialEq, prost::Oneof)]
pub enum StatValue {
    #[prost(double, tag = "2")]
    Double(f64),
    #[prost(uint64, tag = "3")]
    Uint64(u64),
    #[prost(int64, tag = "4")]
    Int64(i64),
    #[prost(string, tag = "5")]
    Str(String),
    #[prost(bytes, tag = "6")]
    Bytes(Vec<u8>),
    #[prost(uint64, tag = "7")]
    Ref(u64),
}

/// What all events of one kind share.
#[derive(Clone, PartialEq, prost::Message)]
pub struct XEventMetadata {
    #[prost(int64, tag = "1")]
    pub id: i64,
    #[prost(string, tag = "2")]
    pub name: String,
    #[prost(string, tag = "4")]
    pub display_name: String,
    #[prost(bytes, tag = "3")]
    pub metadata: Vec<u8>,
    #[prost(message, repeated, tag = "5")]
    pub stats: Vec<XStat>,
    #[prost(int64, repeated, tag = "6")]
    pub child_id: Vec<i64>,
}

/// The name of a stat.
#[derive(Clone, PartialEq, prost::Message)]
pub struct XStatMetadata {
    #[prost(int64, tag = "1")]
    pub id: i64,
    #[prost(string, tag = "2")]
    pub name: String,
    #[prost(string, tag = "3")]
    pub description: String,
}

/// The stat `memory_access_breakdown`: who reads and writes how much of which memory.
#[derive(Clone, PartialEq, prost::Message)]
pub struct MemoryAccessBreakdown {
    #[prost(message, repeated, tag = "1")]
    pub accesses: Vec<MemoryAccess>,
}

/// One entry of a [`MemoryAccessBreakdown`].
#[derive(Clone, PartialEq, prost::Message)]
pub struct MemoryAccess {
    /// 1 reads, 2 writes.
    #[prost(uint64, tag = "1")]
    pub operation_type: u64,
    /// 1 HBM, 2 CMEM, 3 VMEM.
    #[prost(uint64, tag = "2")]
    pub memory_space: u64,
    #[prost(uint64, tag = "3")]
    pub bytes_accessed: u64,
}

/// The plane stat `core_details`: where a core sits.
#[derive(Clone, PartialEq, prost::Message)]
pub struct CoreDetails {
    #[prost(string, tag = "1")]
    pub hostname: String,
    /// Unique within the host; TensorCores only.
    #[prost(uint32, tag = "2")]
    pub device_ordinal: u32,
    /// Unique within the chip for each kind of core.
    #[prost(uint32, tag = "3")]
    pub core_num: u32,
    #[prost(uint32, tag = "4")]
    pub local_chip_id: u32,
    #[prost(uint32, tag = "5")]
    pub global_chip_id: u32,
    #[prost(uint32, tag = "6")]
    pub global_core_id: u32,
    #[prost(bool, tag = "7")]
    pub is_sparse_core: bool,
}

/// The stat `Hlo Proto` of `/host:metadata`.
#[derive(Clone, PartialEq, prost::Message)]
pub struct HloProto {
    #[prost(message, optional, tag = "1")]
    pub hlo_module: Option<HloModuleProto>,
    #[prost(message, optional, tag = "3")]
    pub buffer_assignment: Option<BufferAssignmentProto>,
}

/// A compiled module.
#[derive(Clone, PartialEq, prost::Message)]
pub struct HloModuleProto {
    #[prost(string, tag = "1")]
    pub name: String,
    #[prost(string, tag = "2")]
    pub entry_computation_name: String,
    #[prost(int64, tag = "6")]
    pub entry_computation_id: i64,
    #[prost(message, repeated, tag = "3")]
    pub computations: Vec<HloComputationProto>,
    #[prost(int64, tag = "5")]
    pub id: i64,
}

/// A computation: the entry, a loop body, a fused region.
#[derive(Clone, PartialEq, prost::Message)]
pub struct HloComputationProto {
    #[prost(string, tag = "1")]
    pub name: String,
    #[prost(message, repeated, tag = "2")]
    pub instructions: Vec<HloInstructionProto>,
    #[prost(int64, tag = "5")]
    pub id: i64,
    #[prost(int64, tag = "6")]
    pub root_id: i64,
}

/// One instruction.
#[derive(Clone, PartialEq, prost::Message)]
pub struct HloInstructionProto {
    #[prost(string, tag = "1")]
    pub name: String,
    #[prost(string, tag = "2")]
    pub opcode: String,
    #[prost(int64, tag = "35")]
    pub id: i64,
    #[prost(int64, repeated, tag = "36")]
    pub operand_ids: Vec<i64>,
    #[prost(int64, repeated, tag = "38")]
    pub called_computation_ids: Vec<i64>,
    #[prost(string, tag = "28")]
    pub custom_call_target: String,
}

/// Where the compiler put each buffer.
#[derive(Clone, PartialEq, prost::Message)]
pub struct BufferAssignmentProto {
    #[prost(message, repeated, tag = "1")]
    pub logical_buffers: Vec<LogicalBufferProto>,
    #[prost(message, repeated, tag = "3")]
    pub buffer_allocations: Vec<BufferAllocationProto>,
}

/// A value that needs memory.
#[derive(Clone, PartialEq, prost::Message)]
pub struct LogicalBufferProto {
    #[prost(int64, tag = "1")]
    pub id: i64,
    #[prost(int64, tag = "2")]
    pub size: i64,
    /// The memory space: 0 HBM, 1 VMEM, 5 host.
    #[prost(int64, tag = "4")]
    pub color: i64,
}

/// A piece of memory that holds one or more buffers.
#[derive(Clone, PartialEq, prost::Message)]
pub struct BufferAllocationProto {
    #[prost(int64, tag = "1")]
    pub index: i64,
    #[prost(int64, tag = "2")]
    pub size: i64,
    #[prost(bool, tag = "5")]
    pub is_entry_computation_parameter: bool,
    #[prost(int64, tag = "6")]
    pub parameter_number: i64,
    #[prost(bool, tag = "7")]
    pub maybe_live_out: bool,
    #[prost(int64, tag = "8")]
    pub color: i64,
}
