//! The part of the PJRT C API's binary layout that compiling and running programs needs.
//!
//! Written by hand from the published layout: every argument struct begins with its own size and
//! an extension pointer, and a plugin fills only the fields that it knows by offset. libtpu accepts
//! any struct that is at least as large as its own and rejects smaller ones, so structs that grew
//! over the versions carry zeroed slack at their end and run with the newest plugins.

#![allow(
    missing_docs,
    reason = "fields are named as in the C API, where they are documented"
)]
#![allow(non_snake_case, reason = "functions are named as in the C API")]

use std::ffi::{c_char, c_int, c_void};

/// A pointer to an object of the plugin, or to a struct that is never used here.
pub(crate) type Opaque = *mut c_void;
/// Every function takes a pointer to its argument struct and returns an error or null.
pub(crate) type Function = Option<unsafe extern "C" fn(*mut c_void) -> Opaque>;

#[repr(C)]
pub(crate) struct ApiVersion {
    pub(crate) struct_size: usize,
    pub(crate) extension: Opaque,
    pub(crate) major: c_int,
    pub(crate) minor: c_int,
}

macro_rules! api_table {
    ($($name:ident),* $(,)?) => {
        /// The table of functions that `GetPjrtApi` returns.
        #[repr(C)]
        pub(crate) struct Api {
            pub(crate) struct_size: usize,
            pub(crate) extension: Opaque,
            pub(crate) version: ApiVersion,
            $(pub(crate) $name: Function,)*
        }
    };
}

api_table! {
    Error_Destroy, Error_Message, Error_GetCode,
    Plugin_Initialize, Plugin_Attributes,
    Event_Destroy, Event_IsReady, Event_Error, Event_Await, Event_OnReady,
    Client_Create, Client_Destroy, Client_PlatformName, Client_ProcessIndex,
    Client_PlatformVersion, Client_Devices, Client_AddressableDevices, Client_LookupDevice,
    Client_LookupAddressableDevice, Client_AddressableMemories, Client_Compile,
    Client_DefaultDeviceAssignment, Client_BufferFromHostBuffer,
    DeviceDescription_Id, DeviceDescription_ProcessIndex, DeviceDescription_Attributes,
    DeviceDescription_Kind, DeviceDescription_DebugString, DeviceDescription_ToString,
    Device_GetDescription, Device_IsAddressable, Device_LocalHardwareId,
    Device_AddressableMemories, Device_DefaultMemory, Device_MemoryStats,
    Memory_Id, Memory_Kind, Memory_DebugString, Memory_ToString, Memory_AddressableByDevices,
    Executable_Destroy, Executable_Name, Executable_NumReplicas, Executable_NumPartitions,
    Executable_NumOutputs, Executable_SizeOfGeneratedCodeInBytes, Executable_GetCostAnalysis,
    Executable_OutputMemoryKinds, Executable_OptimizedProgram, Executable_Serialize,
    LoadedExecutable_Destroy, LoadedExecutable_GetExecutable,
    LoadedExecutable_AddressableDevices, LoadedExecutable_Delete, LoadedExecutable_IsDeleted,
    LoadedExecutable_Execute, Executable_DeserializeAndLoad, LoadedExecutable_Fingerprint,
    Buffer_Destroy, Buffer_ElementType, Buffer_Dimensions, Buffer_UnpaddedDimensions,
    Buffer_DynamicDimensionIndices, Buffer_GetMemoryLayout, Buffer_OnDeviceSizeInBytes,
    Buffer_Device, Buffer_Memory, Buffer_Delete, Buffer_IsDeleted, Buffer_CopyToDevice,
    Buffer_ToHostBuffer, Buffer_IsOnCpu, Buffer_ReadyEvent, Buffer_UnsafePointer,
    Buffer_IncreaseExternalReferenceCount, Buffer_DecreaseExternalReferenceCount,
    Buffer_OpaqueDeviceMemoryDataPointer,
    CopyToDeviceStream_Destroy, CopyToDeviceStream_AddChunk, CopyToDeviceStream_TotalBytes,
    CopyToDeviceStream_GranuleSize, CopyToDeviceStream_CurrentBytes,
    TopologyDescription_Create, TopologyDescription_Destroy, TopologyDescription_PlatformName,
    TopologyDescription_PlatformVersion, TopologyDescription_GetDeviceDescriptions,
    TopologyDescription_Serialize, TopologyDescription_Attributes,
    Compile,
    Executable_OutputElementTypes, Executable_OutputDimensions, Buffer_CopyToMemory,
    Client_CreateViewOfDeviceBuffer, Executable_Fingerprint, Client_TopologyDescription,
    Executable_GetCompiledMemoryStats,
}

/// Declares argument structs, each with the size and extension fields that all begin with.
macro_rules! args {
    ($($(#[$doc:meta])* $name:ident { $($field:ident : $type:ty),* $(,)? })*) => {
        $($(#[$doc])*
        #[repr(C)]
        pub(crate) struct $name {
            pub(crate) struct_size: usize,
            pub(crate) extension: Opaque,
            $(pub(crate) $field: $type,)*
        })*
    };
}

args! {
    /// Of functions that take nothing.
    Nothing {}
    ErrorMessage { error: Opaque, message: *const c_char, message_size: usize }
    ErrorCode { error: Opaque, code: c_int }
    /// Of functions that take one object and return nothing: destructors, `Event_Await`.
    Object { object: Opaque }
    /// Of functions that name an object.
    ObjectName { object: Opaque, name: *const c_char, name_size: usize }
    /// Of functions that count something of an object.
    ObjectSize { object: Opaque, size: usize }
    /// Of functions that list the objects that belong to one.
    ObjectList { object: Opaque, objects: *const Opaque, count: usize }
    /// Of functions that return one object that belongs to another.
    ObjectOf { object: Opaque, result: Opaque }
    Attributes { values: *const NamedValue, count: usize }
    /// Cost analysis: the count comes first here.
    ObjectProperties { object: Opaque, count: usize, values: *const NamedValue }
    NamedValue {
        name: *const c_char, name_size: usize, kind: c_int, value: Scalar, value_size: usize,
    }
    TopologyCreate {
        name: *const c_char, name_size: usize, options: *const NamedValue, option_count: usize,
        topology: Opaque,
    }
    Program { code: *mut c_char, code_size: usize, format: *const c_char, format_size: usize }
    CompileArgs {
        topology: Opaque, program: *const Program, options: *const c_char, options_size: usize,
        client: Opaque, executable: Opaque,
    }
    ClientCompile {
        client: Opaque, program: *const Program, options: *const c_char, options_size: usize,
        executable: Opaque,
    }
    OptimizedProgram { executable: Opaque, program: *mut Program }
    /// Fifteen figures at API 0.116, and slack.
    MemoryStats { executable: Opaque, values: [i64; 24] }
    /// No slack counts here: the CPU plugins take the documented size only.
    ClientCreate {
        options: *const NamedValue, option_count: usize, kv_get: Opaque, kv_get_argument: Opaque,
        kv_put: Opaque, kv_put_argument: Opaque, client: Opaque, kv_try_get: Opaque,
        kv_try_get_argument: Opaque,
    }
    BufferFromHost {
        client: Opaque, data: *const c_void, kind: c_int, dimensions: *const i64,
        dimension_count: usize, strides: *const i64, stride_count: usize, semantics: c_int,
        device: Opaque, memory: Opaque, layout: Opaque, done: Opaque, buffer: Opaque,
    }
    ExecuteOptions {
        send_callbacks: Opaque, receive_callbacks: Opaque, send_count: usize,
        receive_count: usize, launch_id: c_int, non_donatable: *const i64,
        non_donatable_count: usize, context: Opaque, slack: [usize; 10],
    }
    Execute {
        executable: Opaque, options: *mut ExecuteOptions, arguments: *const *const Opaque,
        device_count: usize, argument_count: usize, outputs: *const *mut Opaque,
        events: *mut Opaque, device: Opaque,
    }
    ToHost { source: Opaque, layout: Opaque, destination: *mut c_void, size: usize, event: Opaque }
    BufferType { buffer: Opaque, kind: c_int }
    BufferDimensions { buffer: Opaque, dimensions: *const i64, count: usize }
}

#[repr(C)]
pub(crate) union Scalar {
    pub(crate) string: *const c_char,
    pub(crate) integer: i64,
    pub(crate) integers: *const i64,
    pub(crate) float: f32,
    pub(crate) boolean: bool,
}
