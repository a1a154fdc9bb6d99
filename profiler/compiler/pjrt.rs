//! A safe face of a PJRT plugin: load it, describe a topology, compile, read the result; and for
//! plugins with devices of their own (the CPU's), run.
//!
//! Used inside worker processes only: a plugin may abort its process on a program that it does not
//! like, and libtpu does.

use std::ffi::{c_int, c_void};
use std::mem::{offset_of, size_of, zeroed};
use std::path::Path;
use std::ptr::null_mut;
use std::slice;

use super::ffi::{self, Api, Function, NamedValue, Opaque};

/// What a plugin answered instead of a result.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct PjrtError {
    /// The code, as in `absl::StatusCode`: 3 invalid argument, 8 resource exhausted, 12
    /// unimplemented, 13 internal.
    pub code: i32,
    /// The plugin's own words.
    pub message: String,
}

/// A value of an attribute or an option.
#[derive(Clone, Debug, PartialEq)]
pub enum Attribute {
    /// A string.
    Text(String),
    /// An integer.
    Integer(i64),
    /// A list of integers.
    Integers(Vec<i64>),
    /// A number.
    Float(f32),
    /// A flag.
    Flag(bool),
}

/// The result of a call into a plugin.
pub type PjrtResult<T> = Result<T, PjrtError>;

/// A loaded plugin. It is never unloaded: libtpu keeps threads of its own.
#[derive(Clone, Copy)]
pub struct Plugin {
    api: &'static Api,
}

/// Makes an argument struct of zeroes that states its own size.
fn args<T>() -> T {
    // SAFETY: all argument structs are plain C structs of integers and pointers, for which zero
    // is a value, and all begin with their size.
    unsafe {
        let mut value: T = zeroed();
        (&raw mut value).cast::<usize>().write(size_of::<T>());
        value
    }
}

/// Copies a string of the plugin.
///
/// # Safety
/// `start` is null or points to `size` bytes.
unsafe fn text(start: *const std::ffi::c_char, size: usize) -> String {
    if start.is_null() {
        return String::new();
    }
    // SAFETY: by this function's contract.
    let bytes = unsafe { slice::from_raw_parts(start.cast::<u8>(), size) };
    String::from_utf8_lossy(bytes).into_owned()
}

/// Copies a list of handles or numbers of the plugin.
///
/// # Safety
/// `start` is null or points to `count` values.
unsafe fn list<T: Copy>(start: *const T, count: usize) -> Vec<T> {
    if start.is_null() || count == 0 {
        return Vec::new();
    }
    // SAFETY: by this function's contract.
    unsafe { slice::from_raw_parts(start, count) }.to_vec()
}

/// Copies named values of the plugin, whose struct may be larger than ours.
///
/// # Safety
/// `start` is null or points to `count` structs of the size that the first one states.
unsafe fn named(start: *const NamedValue, count: usize) -> Vec<(String, Attribute)> {
    if start.is_null() || count == 0 {
        return Vec::new();
    }
    // SAFETY: there is at least one struct.
    let stated = unsafe { (*start).struct_size };
    let stride = stated
        .next_multiple_of(align_of::<NamedValue>())
        .max(size_of::<NamedValue>());
    (0..count)
        .map(|index| {
            // SAFETY: struct `index` lies `index` strides after the first; its union holds what
            // its kind says.
            unsafe {
                let value = &*start.byte_add(index * stride);
                let attribute = match value.kind {
                    0 => Attribute::Text(text(value.value.string, value.value_size)),
                    1 => Attribute::Integer(value.value.integer),
                    2 => Attribute::Integers(list(value.value.integers, value.value_size)),
                    3 => Attribute::Float(value.value.float),
                    _ => Attribute::Flag(value.value.boolean),
                };
                (text(value.name, value.name_size), attribute)
            }
        })
        .collect()
}

/// Borrows options for the time of a call.
fn options(values: &[(&str, Attribute)]) -> Vec<NamedValue> {
    let convert = |(name, value): &(&str, Attribute)| {
        let mut option: NamedValue = args();
        option.name = name.as_ptr().cast();
        option.name_size = name.len();
        option.value_size = 1;
        match value {
            Attribute::Text(text) => {
                option.kind = 0;
                option.value.string = text.as_ptr().cast();
                option.value_size = text.len();
            }
            Attribute::Integer(integer) => {
                option.kind = 1;
                option.value.integer = *integer;
            }
            Attribute::Integers(integers) => {
                option.kind = 2;
                option.value.integers = integers.as_ptr();
                option.value_size = integers.len();
            }
            Attribute::Float(float) => {
                option.kind = 3;
                option.value.float = *float;
            }
            Attribute::Flag(flag) => {
                option.kind = 4;
                option.value.boolean = *flag;
            }
        }
        option
    };
    values.iter().map(convert).collect()
}

fn program(format: &str, code: &[u8]) -> ffi::Program {
    let mut program: ffi::Program = args();
    program.code = code.as_ptr().cast_mut().cast();
    program.code_size = code.len();
    program.format = format.as_ptr().cast();
    program.format_size = format.len();
    program
}

impl Plugin {
    /// Loads a shared library and initialises it.
    ///
    /// # Errors
    /// When it cannot be loaded, is no PJRT plugin, or refuses to start.
    pub fn load(path: &Path) -> PjrtResult<Self> {
        let failed = |message: String| PjrtError { code: 5, message };
        // SAFETY: loading a library runs its initialisers; the user named this one or installed
        // it as their compiler, and this process exists to run it.
        let library =
            unsafe { libloading::Library::new(path) }.map_err(|error| failed(error.to_string()))?;
        // The plugin keeps threads and static state: it stays for as long as the process does.
        let library: &'static _ = Box::leak(Box::new(library));
        // SAFETY: the symbol is the C API's one entry point and has this type in all versions.
        let entry: libloading::Symbol<'_, unsafe extern "C" fn() -> *const Api> = unsafe {
            library.get(b"GetPjrtApi").map_err(|_| {
                failed(format!(
                    "{} has no GetPjrtApi: it is no PJRT plugin",
                    path.display()
                ))
            })?
        };
        // SAFETY: the table that it returns lives as long as the library, which is leaked.
        let api = unsafe { entry().as_ref() }
            .ok_or_else(|| failed("GetPjrtApi returned nothing".to_owned()))?;
        let needed = offset_of!(Api, Executable_OutputElementTypes);
        if api.struct_size < needed {
            return Err(failed(format!(
                "its PJRT API {}.{} is too old: its table has {} bytes, {needed} are needed",
                api.version.major, api.version.minor, api.struct_size
            )));
        }
        let plugin = Self { api };
        let mut nothing: ffi::Nothing = args();
        plugin.call(api.Plugin_Initialize, &mut nothing)?;
        Ok(plugin)
    }

    /// Version of the PJRT C API: major, minor.
    #[must_use]
    pub fn version(&self) -> (i32, i32) {
        (self.api.version.major, self.api.version.minor)
    }

    /// An entry that older tables do not have.
    fn late(&self, offset: usize, function: impl Fn(&Api) -> Function) -> Function {
        let end = offset + size_of::<Function>();
        (self.api.struct_size >= end)
            .then(|| function(self.api))
            .flatten()
    }

    fn call<T>(&self, function: Function, arguments: &mut T) -> PjrtResult<()> {
        let function = function.ok_or_else(|| PjrtError {
            code: 12,
            message: "the plugin lacks a function that this needs".to_owned(),
        })?;
        // SAFETY: the struct is the one of this function, states its size and is alive.
        let error = unsafe { function((&raw mut *arguments).cast()) };
        if error.is_null() {
            return Ok(());
        }
        let mut code: ffi::ErrorCode = args();
        code.error = error;
        let mut message: ffi::ErrorMessage = args();
        message.error = error;
        let mut done: ffi::Object = args();
        done.object = error;
        // SAFETY: as above; the message is read before its error is destroyed.
        let message = unsafe {
            if let Some(get) = self.api.Error_GetCode {
                get((&raw mut code).cast());
            }
            if let Some(get) = self.api.Error_Message {
                get((&raw mut message).cast());
            }
            let text = text(message.message, message.message_size);
            if let Some(destroy) = self.api.Error_Destroy {
                destroy((&raw mut done).cast());
            }
            text
        };
        Err(PjrtError {
            code: code.code,
            message,
        })
    }

    fn destroy(&self, function: Function, object: Opaque) {
        let mut arguments: ffi::Object = args();
        arguments.object = object;
        // What cannot be destroyed is lost with the process.
        let _ = self.call(function, &mut arguments);
    }

    fn name(&self, function: Function, object: Opaque) -> PjrtResult<String> {
        let mut arguments: ffi::ObjectName = args();
        arguments.object = object;
        self.call(function, &mut arguments)?;
        // SAFETY: the plugin filled both fields.
        Ok(unsafe { text(arguments.name, arguments.name_size) })
    }

    fn objects(&self, function: Function, object: Opaque) -> PjrtResult<Vec<Opaque>> {
        let mut arguments: ffi::ObjectList = args();
        arguments.object = object;
        self.call(function, &mut arguments)?;
        // SAFETY: the plugin filled both fields.
        Ok(unsafe { list(arguments.objects, arguments.count) })
    }

    fn wait(&self, event: Opaque) -> PjrtResult<()> {
        if event.is_null() {
            return Ok(());
        }
        let mut arguments: ffi::Object = args();
        arguments.object = event;
        let outcome = self.call(self.api.Event_Await, &mut arguments);
        self.destroy(self.api.Event_Destroy, event);
        outcome
    }

    /// What the plugin says of itself, as `stablehlo_current_version`.
    ///
    /// # Errors
    /// When it says nothing.
    pub fn attributes(&self) -> PjrtResult<Vec<(String, Attribute)>> {
        let mut arguments: ffi::Attributes = args();
        self.call(self.api.Plugin_Attributes, &mut arguments)?;
        // SAFETY: the plugin filled both fields.
        Ok(unsafe { named(arguments.values, arguments.count) })
    }

    /// Describes devices that need not be here, as `v6e:2x2`.
    ///
    /// # Errors
    /// When the plugin knows no such topology.
    pub fn topology(&self, name: &str, with: &[(&str, Attribute)]) -> PjrtResult<Topology> {
        let with = options(with);
        let mut arguments: ffi::TopologyCreate = args();
        arguments.name = name.as_ptr().cast();
        arguments.name_size = name.len();
        arguments.options = with.as_ptr();
        arguments.option_count = with.len();
        self.call(self.api.TopologyDescription_Create, &mut arguments)?;
        Ok(Topology {
            plugin: *self,
            handle: arguments.topology,
        })
    }

    /// Compiles for a topology. `format` is `mlir` or `hlo`; `options` is a serialised
    /// `CompileOptionsProto`.
    ///
    /// # Errors
    /// The compiler's own.
    pub fn compile(
        &self,
        topology: &Topology,
        format: &str,
        code: &[u8],
        options: &[u8],
    ) -> PjrtResult<Executable> {
        let program = program(format, code);
        let mut arguments: ffi::CompileArgs = args();
        arguments.topology = topology.handle;
        arguments.program = &raw const program;
        arguments.options = options.as_ptr().cast();
        arguments.options_size = options.len();
        self.call(self.api.Compile, &mut arguments)?;
        Ok(Executable {
            plugin: *self,
            handle: arguments.executable,
        })
    }

    /// Opens the plugin's own devices.
    ///
    /// # Errors
    /// When there are none.
    pub fn client(&self) -> PjrtResult<Client> {
        let mut arguments: ffi::ClientCreate = args();
        self.call(self.api.Client_Create, &mut arguments)?;
        Ok(Client {
            plugin: *self,
            handle: arguments.client,
        })
    }
}

/// The devices of a topology, all alike.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Devices {
    /// How many.
    pub count: usize,
    /// What the plugin calls one, as `TPU v6 lite`.
    pub kind: String,
    /// What it says of the first one.
    pub attributes: Vec<(String, Attribute)>,
}

/// Devices to compile for.
pub struct Topology {
    plugin: Plugin,
    handle: Opaque,
}

impl Topology {
    /// Name and version of the platform; libtpu's version holds its build.
    ///
    /// # Errors
    /// When the plugin does not say.
    pub fn platform(&self) -> PjrtResult<(String, String)> {
        let api = self.plugin.api;
        let name = api.TopologyDescription_PlatformName;
        let version = api.TopologyDescription_PlatformVersion;
        Ok((
            self.plugin.name(name, self.handle)?,
            self.plugin.name(version, self.handle)?,
        ))
    }

    /// Its devices.
    ///
    /// # Errors
    /// When the plugin does not say.
    pub fn devices(&self) -> PjrtResult<Devices> {
        let plugin = self.plugin;
        let api = plugin.api;
        let devices = plugin.objects(api.TopologyDescription_GetDeviceDescriptions, self.handle)?;
        let Some(first) = devices.first() else {
            return Ok(Devices::default());
        };
        let kind = plugin.name(api.DeviceDescription_Kind, *first)?;
        let mut arguments: ffi::ObjectProperties = args();
        arguments.object = *first;
        plugin.call(api.DeviceDescription_Attributes, &mut arguments)?;
        Ok(Devices {
            count: devices.len(),
            kind,
            // SAFETY: the plugin filled both fields.
            attributes: unsafe { named(arguments.values, arguments.count) },
        })
    }
}

impl Drop for Topology {
    fn drop(&mut self) {
        let destroy = self.plugin.api.TopologyDescription_Destroy;
        self.plugin.destroy(destroy, self.handle);
    }
}

/// A compiled program.
pub struct Executable {
    plugin: Plugin,
    handle: Opaque,
}

impl Executable {
    /// Bytes of code.
    ///
    /// # Errors
    /// When the plugin does not say.
    pub fn code_bytes(&self) -> PjrtResult<u64> {
        let mut arguments: ffi::ObjectSize = args();
        arguments.object = self.handle;
        let function = self.plugin.api.Executable_SizeOfGeneratedCodeInBytes;
        self.plugin.call(function, &mut arguments)?;
        Ok(arguments.size as u64)
    }

    /// How many results it has.
    ///
    /// # Errors
    /// When the plugin does not say.
    pub fn output_count(&self) -> PjrtResult<usize> {
        let mut arguments: ffi::ObjectSize = args();
        arguments.object = self.handle;
        let function = self.plugin.api.Executable_NumOutputs;
        self.plugin.call(function, &mut arguments)?;
        Ok(arguments.size)
    }

    /// XLA's own cost analysis. Never a time: see the cost model.
    ///
    /// # Errors
    /// When the plugin does not say.
    pub fn cost_analysis(&self) -> PjrtResult<Vec<(String, Attribute)>> {
        let mut arguments: ffi::ObjectProperties = args();
        arguments.object = self.handle;
        let function = self.plugin.api.Executable_GetCostAnalysis;
        self.plugin.call(function, &mut arguments)?;
        // SAFETY: the plugin filled both fields.
        Ok(unsafe { named(arguments.values, arguments.count) })
    }

    /// The figures of `PJRT_Executable_GetCompiledMemoryStats`, in its order; those that the
    /// plugin does not know are zero.
    ///
    /// # Errors
    /// When the plugin does not say.
    pub fn memory_stats(&self) -> PjrtResult<[i64; 24]> {
        let mut arguments: ffi::MemoryStats = args();
        arguments.executable = self.handle;
        let function = self
            .plugin
            .late(offset_of!(Api, Executable_GetCompiledMemoryStats), |api| {
                api.Executable_GetCompiledMemoryStats
            });
        self.plugin.call(function, &mut arguments)?;
        Ok(arguments.values)
    }

    /// The program as the compiler made it, and its format (`hlo_with_config`).
    ///
    /// # Errors
    /// When the plugin does not keep it.
    pub fn optimized_program(&self) -> PjrtResult<(String, Vec<u8>)> {
        let function = self.plugin.api.Executable_OptimizedProgram;
        let mut program: ffi::Program = args();
        let ask = |program: &mut ffi::Program| {
            let mut arguments: ffi::OptimizedProgram = args();
            arguments.executable = self.handle;
            arguments.program = program;
            self.plugin.call(function, &mut arguments)
        };
        // The first call says how large it is, the second fills the buffer.
        ask(&mut program)?;
        let mut code = vec![0u8; program.code_size];
        program.code = code.as_mut_ptr().cast();
        ask(&mut program)?;
        // SAFETY: the plugin filled both fields.
        let format = unsafe { text(program.format, program.format_size) };
        Ok((format, code))
    }
}

impl Drop for Executable {
    fn drop(&mut self) {
        let destroy = self.plugin.api.Executable_Destroy;
        self.plugin.destroy(destroy, self.handle);
    }
}

/// The plugin's own devices.
pub struct Client {
    plugin: Plugin,
    handle: Opaque,
}

/// An array in host memory: row-major, little-endian.
#[derive(Clone, Debug, PartialEq)]
pub struct HostArray {
    /// `PJRT_Buffer_Type`: 1 pred, 2 s8, 4 s32, 11 f32, 12 f64, 13 bf16 …
    pub kind: i32,
    /// Its dimensions.
    pub dimensions: Vec<i64>,
    /// Its bytes.
    pub bytes: Vec<u8>,
}

impl Client {
    /// Compiles for the first device.
    ///
    /// # Errors
    /// The compiler's own.
    pub fn compile(&self, format: &str, code: &[u8], options: &[u8]) -> PjrtResult<Loaded> {
        let program = program(format, code);
        let mut arguments: ffi::ClientCompile = args();
        arguments.client = self.handle;
        arguments.program = &raw const program;
        arguments.options = options.as_ptr().cast();
        arguments.options_size = options.len();
        self.plugin
            .call(self.plugin.api.Client_Compile, &mut arguments)?;
        Ok(Loaded {
            plugin: self.plugin,
            handle: arguments.executable,
        })
    }

    /// Runs a program on the first device.
    ///
    /// # Errors
    /// When the arguments do not fit the program, or it fails.
    pub fn run(&self, loaded: &Loaded, arguments: &[HostArray]) -> PjrtResult<Vec<HostArray>> {
        let plugin = self.plugin;
        let devices = plugin.objects(plugin.api.Client_AddressableDevices, self.handle)?;
        let Some(device) = devices.first() else {
            return Err(PjrtError {
                code: 5,
                message: "the plugin has no device to run on".to_owned(),
            });
        };
        let buffers = arguments
            .iter()
            .map(|array| self.upload(*device, array))
            .collect::<PjrtResult<Vec<_>>>()?;
        let results = loaded.execute(&buffers)?;
        results.iter().map(Buffer::download).collect()
    }

    fn upload(&self, device: Opaque, array: &HostArray) -> PjrtResult<Buffer> {
        let mut arguments: ffi::BufferFromHost = args();
        arguments.client = self.handle;
        arguments.data = array.bytes.as_ptr().cast();
        arguments.kind = array.kind as c_int;
        arguments.dimensions = array.dimensions.as_ptr();
        arguments.dimension_count = array.dimensions.len();
        arguments.device = device;
        let function = self.plugin.api.Client_BufferFromHostBuffer;
        self.plugin.call(function, &mut arguments)?;
        let buffer = Buffer {
            plugin: self.plugin,
            handle: arguments.buffer,
        };
        self.plugin.wait(arguments.done)?;
        Ok(buffer)
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        let destroy = self.plugin.api.Client_Destroy;
        self.plugin.destroy(destroy, self.handle);
    }
}

/// A program that is ready to run.
pub struct Loaded {
    plugin: Plugin,
    handle: Opaque,
}

impl Loaded {
    /// What was compiled.
    ///
    /// # Errors
    /// When the plugin does not say.
    pub fn executable(&self) -> PjrtResult<Executable> {
        let mut arguments: ffi::ObjectOf = args();
        arguments.object = self.handle;
        let function = self.plugin.api.LoadedExecutable_GetExecutable;
        self.plugin.call(function, &mut arguments)?;
        Ok(Executable {
            plugin: self.plugin,
            handle: arguments.result,
        })
    }

    fn execute(&self, buffers: &[Buffer]) -> PjrtResult<Vec<Buffer>> {
        let outputs = self.executable()?.output_count()?;
        let handles: Vec<Opaque> = buffers.iter().map(|buffer| buffer.handle).collect();
        let mut results = vec![null_mut(); outputs];
        let mut event: Opaque = null_mut();
        let of_device = [handles.as_ptr()];
        let to_device = [results.as_mut_ptr()];
        let mut options: ffi::ExecuteOptions = args();
        let mut arguments: ffi::Execute = args();
        arguments.options = &raw mut options;
        arguments.executable = self.handle;
        arguments.arguments = of_device.as_ptr();
        arguments.device_count = 1;
        arguments.argument_count = handles.len();
        arguments.outputs = to_device.as_ptr();
        arguments.events = &raw mut event;
        let function = self.plugin.api.LoadedExecutable_Execute;
        self.plugin.call(function, &mut arguments)?;
        let results: Vec<Buffer> = results
            .into_iter()
            .map(|handle| Buffer {
                plugin: self.plugin,
                handle,
            })
            .collect();
        self.plugin.wait(event)?;
        Ok(results)
    }
}

impl Drop for Loaded {
    fn drop(&mut self) {
        let destroy = self.plugin.api.LoadedExecutable_Destroy;
        self.plugin.destroy(destroy, self.handle);
    }
}

/// An array on a device.
struct Buffer {
    plugin: Plugin,
    handle: Opaque,
}

impl Buffer {
    fn download(&self) -> PjrtResult<HostArray> {
        let api = self.plugin.api;
        let mut kind: ffi::BufferType = args();
        kind.buffer = self.handle;
        self.plugin.call(api.Buffer_ElementType, &mut kind)?;
        let mut shape: ffi::BufferDimensions = args();
        shape.buffer = self.handle;
        self.plugin.call(api.Buffer_Dimensions, &mut shape)?;
        // Without a destination the plugin says how many bytes it needs.
        let mut size: ffi::ToHost = args();
        size.source = self.handle;
        self.plugin.call(api.Buffer_ToHostBuffer, &mut size)?;
        let mut bytes = vec![0u8; size.size];
        let mut copy: ffi::ToHost = args();
        copy.source = self.handle;
        copy.destination = bytes.as_mut_ptr().cast::<c_void>();
        copy.size = bytes.len();
        self.plugin.call(api.Buffer_ToHostBuffer, &mut copy)?;
        self.plugin.wait(copy.event)?;
        Ok(HostArray {
            kind: kind.kind,
            // SAFETY: the plugin filled both fields.
            dimensions: unsafe { list(shape.dimensions, shape.count) },
            bytes,
        })
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        self.plugin
            .destroy(self.plugin.api.Buffer_Destroy, self.handle);
    }
}
