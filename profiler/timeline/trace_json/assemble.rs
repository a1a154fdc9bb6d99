//! From columns by line to cores and threads of a session.

use std::borrow::Cow;

use rustc_hash::FxHashMap;

use super::cursor::Cursor;
use super::event::Details;
use super::places::{Place, places};
use super::table::{ABSENT, DeviceColumns, Key, Line, NameIndex, Names, Table};
use crate::session::{CoreKind, Device, HostThread, ModuleId, NameId, Op, OpId, Track};
use crate::session_builder::{OpKey, SessionBuilder, split_module_label};

/// How far before its module an operation may seem to begin: both are aligned with the host's
/// clock on their own, which moves them by some hundred picoseconds.
const MODULE_TOLERANCE_PS: u64 = 1_000;

/// What a line of a core holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    Modules,
    Ops,
    AsyncOps,
    Steps,
    Marks,
}

/// The role of a line by its name. Other lines are counters, or what XProf derives from these.
fn role(name: &str) -> Option<Role> {
    match name {
        "XLA Modules" | "Sparse Core Modules" => Some(Role::Modules),
        "XLA Ops" | "Sparse Core Ops" => Some(Role::Ops),
        "Async XLA Ops" => Some(Role::AsyncOps),
        "Steps" | "Sparse Core Steps" => Some(Role::Steps),
        "XLA TraceMe" => Some(Role::Marks),
        _ => None,
    }
}

/// Adds everything in `table` to the builder; returns the number of cores.
pub(super) fn assemble(
    bytes: &[u8],
    mut table: Table<'_>,
    is_kineto: bool,
    host: &str,
    builder: &mut SessionBuilder,
) -> usize {
    let places = places(&table, is_kineto, host);
    let lines = std::mem::take(&mut table.lines);
    let mut by_process: FxHashMap<Key, Vec<Line>> = FxHashMap::default();
    for line in lines {
        by_process.entry(line.pid).or_default().push(line);
    }
    let mut assembly = Assembly::new(bytes, &table.names, builder);
    let mut cores = 0;
    for (pid, place) in places {
        let lines = by_process.remove(&pid).unwrap_or_default();
        match place {
            Place::Core {
                host,
                plane,
                kind,
                ordinal,
            } => {
                if lines.iter().any(|line| !line.spans.is_empty()) {
                    assembly.add_core(&host, plane, kind, ordinal, lines);
                    cores += 1;
                }
            }
            Place::Host(host) => assembly.add_threads(&host, lines),
            Place::Foreign(plane) => {
                let planes = &mut assembly.builder.session.foreign_planes;
                if !planes.contains(&plane) {
                    planes.push(plane);
                }
            }
            Place::Nowhere => {}
        }
    }
    cores
}

/// Runs of modules, to look up which one an operation belongs to.
struct Runs {
    /// Sorted by start: start, end, module.
    runs: Vec<(u64, u64, ModuleId)>,
    /// Where the previous search ended.
    hint: usize,
}

impl Runs {
    fn new(modules: &Track) -> Self {
        let mut runs: Vec<_> = modules
            .iter()
            .map(|(start, duration, id)| (start, start.saturating_add(duration), id))
            .collect();
        runs.sort_unstable();
        Self { runs, hint: 0 }
    }

    /// The module that ran at `time`: the latest to begin, where runs overlap.
    fn at(&mut self, time: u64) -> Option<ModuleId> {
        let begun = |run: &&(u64, u64, ModuleId)| run.0 <= time.saturating_add(MODULE_TOLERANCE_PS);
        let is_hint = |i: usize| {
            self.runs.get(i).as_ref().is_none_or(begun)
                && !self.runs.get(i + 1).as_ref().is_some_and(begun)
        };
        if !is_hint(self.hint) {
            let begun = self.runs.partition_point(|run| begun(&run));
            self.hint = begun.saturating_sub(1);
        }
        let (start, end, module) = *self.runs.get(self.hint)?;
        let inside = start <= time.saturating_add(MODULE_TOLERANCE_PS) && time <= end;
        inside.then_some(module)
    }
}

struct Assembly<'a, 'b> {
    bytes: &'a [u8],
    names: &'b Names<'a>,
    builder: &'b mut SessionBuilder,
    /// The builder's handles of names, once asked for.
    name_ids: Vec<Option<NameId>>,
    /// Operations by module and name, and whether they have details.
    ops: FxHashMap<(Option<ModuleId>, NameIndex), (OpId, bool)>,
}

impl<'a, 'b> Assembly<'a, 'b> {
    fn new(bytes: &'a [u8], names: &'b Names<'a>, builder: &'b mut SessionBuilder) -> Self {
        Self {
            bytes,
            names,
            builder,
            name_ids: vec![None; names.len()],
            ops: FxHashMap::default(),
        }
    }

    fn name_id(&mut self, index: NameIndex) -> NameId {
        if let Some(Some(known)) = self.name_ids.get(index as usize) {
            return *known;
        }
        let id = self.builder.name(&self.names.get(index));
        if let Some(slot) = self.name_ids.get_mut(index as usize) {
            *slot = Some(id);
        }
        id
    }

    fn line_name(&self, line: &Line) -> Cow<'a, str> {
        line.name
            .map_or(Cow::Borrowed(""), |name| self.names.get(name))
    }

    fn details(&self, event_at: u64) -> Option<Details<'a>> {
        let at = usize::try_from(event_at)
            .ok()
            .filter(|_| event_at != ABSENT)?;
        Details::read(&mut Cursor::new(self.bytes, at)).ok()
    }

    fn add_core(
        &mut self,
        host: &str,
        plane: String,
        kind: CoreKind,
        ordinal: u32,
        lines: Vec<Line>,
    ) {
        let host = self.builder.host(host);
        let mut device = Device::new(host, plane, kind, ordinal);
        for line in &lines {
            let name = self.line_name(line).into_owned();
            self.builder.session.device_lines.insert(name);
        }
        let mut lines: Vec<(Role, Line)> = lines
            .into_iter()
            .filter_map(|line| Some((role(&self.line_name(&line))?, line)))
            .collect();
        // Modules come first: operations are looked up in them.
        lines.sort_by_key(|(role, _)| *role != Role::Modules);
        let mut runs = Runs::new(&Track::default());
        for (role, mut line) in lines {
            match role {
                Role::Modules => {
                    self.add_modules(line, &mut device);
                    runs = Runs::new(&device.modules);
                }
                Role::Ops => {
                    self.name_ops(&mut line, &mut runs, Some(&mut device));
                    let (mut start_ps, mut duration_ps) = device_clock(&line.spans, line.device);
                    append(&mut device.ops, line.spans);
                    append_column(&mut device.op_device_start_ps, &mut start_ps);
                    append_column(&mut device.op_device_duration_ps, &mut duration_ps);
                }
                Role::AsyncOps => {
                    self.name_ops(&mut line, &mut runs, None);
                    append(&mut device.async_ops, line.spans);
                }
                Role::Steps => {
                    let (start_ps, duration_ps) = device_clock(&line.spans, line.device);
                    let id = vec![0; start_ps.len()];
                    device.device_extent_ps = Track {
                        start_ps,
                        duration_ps,
                        id,
                    }
                    .extent();
                    self.name_spans(&mut line.spans);
                    append(&mut device.steps, line.spans);
                }
                Role::Marks => {
                    self.name_spans(&mut line.spans);
                    append(&mut device.marks, line.spans);
                }
            }
        }
        self.builder.add_device(device);
    }

    fn add_modules(&mut self, mut line: Line, device: &mut Device) {
        for (i, id) in line.spans.id.iter_mut().enumerate() {
            let event_at = line.device.event_at.get(i).copied().unwrap_or(ABSENT);
            let run_id = self.details(event_at).and_then(|details| details.run_id);
            device.run_ids.push(run_id.unwrap_or(0));
            *id = self.builder.module_from_label(&self.names.get(*id));
        }
        append(&mut device.modules, line.spans);
    }

    /// Turns the names of a line into operations. Costs that a custom call gives for each
    /// execution are added to `costs_of`.
    fn name_ops(&mut self, line: &mut Line, runs: &mut Runs, mut costs_of: Option<&mut Device>) {
        let spans = &mut line.spans;
        for (i, (id, start)) in spans.id.iter_mut().zip(&spans.start_ps).enumerate() {
            let event_at = line.device.event_at.get(i).copied().unwrap_or(ABSENT);
            let op = self.op(runs.at(*start), *id, event_at);
            *id = op;
            if let Some(device) = costs_of.as_deref_mut()
                && self.builder.session.op(op).category == "custom-call"
                && let Some(details) = self.details(event_at)
            {
                add_costs(device, op, &details);
            }
        }
    }

    fn name_spans(&mut self, spans: &mut Track) {
        for id in &mut spans.id {
            *id = self.name_id(*id);
        }
    }

    /// The operation of a name in a module. The first event of it that has details describes it.
    fn op(&mut self, module: Option<ModuleId>, name: NameIndex, event_at: u64) -> OpId {
        let known = self.ops.get(&(module, name)).copied();
        if let Some((id, has_details)) = known
            && (has_details || event_at == ABSENT)
        {
            return id;
        }
        let details = self.details(event_at);
        let has_details = details.is_some();
        let op = self.describe(module, &self.names.get(name), details.unwrap_or_default());
        let program_id = op
            .module
            .and_then(|id| self.builder.session.modules.get(id as usize)?.program_id);
        let key = match (program_id, op.symbol_id) {
            (Some(program_id), Some(symbol_id)) if symbol_id != 0 => OpKey::Symbol {
                program_id,
                symbol_id,
            },
            _ => OpKey::Name {
                module: op.module,
                name: op.name.clone(),
            },
        };
        let id = match known {
            Some((id, _)) => {
                if let Some(undescribed) = self.builder.session.ops.get_mut(id as usize) {
                    *undescribed = op;
                }
                id
            }
            None => self.builder.op(key, || op),
        };
        self.ops.insert((module, name), (id, has_details));
        id
    }

    fn describe(&mut self, module: Option<ModuleId>, label: &str, details: Details<'_>) -> Op {
        let (name, text) = if details.long_name.is_empty() {
            (short_name(label), label)
        } else {
            (label, &*details.long_name)
        };
        let module = match details.program_id {
            Some(program_id) => Some(self.module_of_program(program_id, module)),
            None => module,
        };
        Op {
            module,
            symbol_id: details.symbol_id,
            name: name.to_owned(),
            hlo_text: if text.contains(" = ") {
                text.to_owned()
            } else {
                String::new()
            },
            category: details.category.into_owned(),
            framework_op: details.framework_op.into_owned(),
            source: details.source.into_owned(),
            source_stack: details.source_stack.into_owned(),
            deduplicated_name: details.deduplicated_name.into_owned(),
            shape: details.shape.into_owned(),
            flops: details.flops,
            model_flops: details.model_flops,
            bytes_accessed: details.bytes_accessed,
            accesses: Vec::new(),
        }
    }

    /// The module of a program id; `running`, the one that ran at that time, if it is that one.
    fn module_of_program(&mut self, program_id: u64, running: Option<ModuleId>) -> ModuleId {
        let modules = &self.builder.session.modules;
        let is_it = |id: &ModuleId| {
            modules
                .get(*id as usize)
                .is_some_and(|module| module.program_id == Some(program_id))
        };
        if let Some(running) = running.filter(is_it) {
            return running;
        }
        match modules
            .iter()
            .position(|module| module.program_id == Some(program_id))
        {
            Some(known) => known as ModuleId,
            None => self.builder.module("", Some(program_id)),
        }
    }

    fn add_threads(&mut self, host: &str, lines: Vec<Line>) {
        let host = self.builder.host(host);
        for mut line in lines {
            let name = match &*self.line_name(&line) {
                "" => match line.tid {
                    Key::Number(tid) => format!("thread {tid}"),
                    Key::Word(_) | Key::Absent => "thread".to_owned(),
                },
                name => name.to_owned(),
            };
            if !line.device.event_at.is_empty() {
                self.take_cpu_ops(&mut line, host, &name);
            }
            self.name_spans(&mut line.spans);
            self.builder.add_thread(HostThread {
                host,
                name,
                spans: line.spans,
            });
        }
    }

    /// XLA:CPU runs operations on threads of the host: each such thread becomes a core.
    fn take_cpu_ops(&mut self, line: &mut Line, host: u32, thread: &str) {
        let ordinal = self.builder.session.devices.len() as u32;
        let mut device = Device::new(host, format!("/host:CPU {thread}"), CoreKind::Cpu, ordinal);
        let mut rest = Track::default();
        for ((start, duration, name), event_at) in line.spans.iter().zip(&line.device.event_at) {
            let details = self
                .details(*event_at)
                .filter(|details| !details.host_op.is_empty());
            let Some(details) = details else {
                rest.push(start, duration, name);
                continue;
            };
            let (module, program_id) = split_module_label(&details.host_module);
            let program_id = details.program_id.or(program_id);
            let module = self.builder.module(module, program_id);
            let name = details.host_op.into_owned();
            let key = OpKey::Name {
                module: Some(module),
                name: name.clone(),
            };
            let op = self.builder.op(key, || {
                let opcode = name.split('.').next().unwrap_or_default();
                let category = opcode
                    .trim_end_matches(|c: char| c.is_ascii_digit())
                    .to_owned();
                Op {
                    module: Some(module),
                    name: name.clone(),
                    category,
                    ..Op::default()
                }
            });
            device.push_op(op, start, duration, None);
        }
        if !device.ops.is_empty() {
            line.spans = rest;
            self.builder.add_device(device);
        }
    }
}

/// Adds what one execution of a custom call costs, where the trace says so.
fn add_costs(device: &mut Device, op: OpId, details: &Details<'_>) {
    let costs = [details.flops, details.model_flops, details.bytes_accessed];
    let [flops, model_flops, bytes_accessed] = costs.map(Option::unwrap_or_default);
    if flops == 0 && model_flops == 0 && bytes_accessed == 0 {
        return;
    }
    let sum = device.event_costs.entry(op).or_default();
    sum.flops = sum.flops.saturating_add(flops);
    sum.model_flops = sum.model_flops.saturating_add(model_flops);
    sum.bytes_accessed = sum.bytes_accessed.saturating_add(bytes_accessed);
}

/// `fusion.3` of `%fusion.3 = f32[8] fusion(...)`.
fn short_name(label: &str) -> &str {
    let text = label.strip_prefix('%').unwrap_or(label);
    text.split(" = ").next().unwrap_or(text)
}

/// Starts and durations on the device's own clock. Where a few events lack them, they are placed
/// by the nearest event before that has them.
fn device_clock(spans: &Track, columns: DeviceColumns) -> (Vec<u64>, Vec<u64>) {
    let DeviceColumns {
        mut start_ps,
        mut duration_ps,
        ..
    } = columns;
    let known = spans
        .start_ps
        .iter()
        .zip(&start_ps)
        .find(|(_, device)| **device != ABSENT);
    let Some((trace, device)) = known else {
        return (spans.start_ps.clone(), spans.duration_ps.clone());
    };
    let mut latest = (*trace, *device);
    let columns = start_ps.iter_mut().zip(&mut duration_ps);
    for ((trace_start, trace_duration, _), (start, duration)) in spans.iter().zip(columns) {
        if *start == ABSENT {
            let (trace, device) = latest;
            *start = trace_start.saturating_add(device).saturating_sub(trace);
        } else {
            latest = (trace_start, *start);
        }
        if *duration == ABSENT {
            *duration = trace_duration;
        }
    }
    (start_ps, duration_ps)
}

fn append(target: &mut Track, mut source: Track) {
    append_column(&mut target.start_ps, &mut source.start_ps);
    append_column(&mut target.duration_ps, &mut source.duration_ps);
    append_column(&mut target.id, &mut source.id);
}

/// Appends without a copy where the target is empty, which it nearly always is.
fn append_column<T>(target: &mut Vec<T>, source: &mut Vec<T>) {
    if target.is_empty() {
        std::mem::swap(target, source);
    } else {
        target.append(source);
    }
}
