//! Interning while a session is read: the only way in for readers.
//!
//! Several files of one run go into one builder; equal programs and operations of different
//! devices and hosts become one entry each.

use rayon::prelude::*;
use rustc_hash::FxHashMap;

use crate::note::Notes;
use crate::session::{
    CoreKind, Device, Host, HostThread, Input, Module, ModuleId, NameId, Op, OpId, Session,
    SessionProgram,
};

/// How operations are told apart.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum OpKey {
    /// XLA's ids: the same on all devices of a run.
    Symbol {
        /// The program.
        program_id: u64,
        /// The instruction in it.
        symbol_id: u64,
    },
    /// For traces without ids: the module that ran at that time, and the op's name.
    Name {
        /// The module, if one is known.
        module: Option<ModuleId>,
        /// The op's short name.
        name: String,
    },
}

/// Builds a [`Session`].
#[derive(Debug, Default)]
pub struct SessionBuilder {
    /// What is built so far; readers push devices, threads and programs directly.
    pub session: Session,
    ops: FxHashMap<OpKey, OpId>,
    modules: FxHashMap<(String, Option<u64>), ModuleId>,
    names: FxHashMap<String, NameId>,
    devices: FxHashMap<(u32, String), usize>,
    programs: FxHashMap<u64, ModuleId>,
    conflict: Option<(u32, String)>,
}

impl SessionBuilder {
    /// The host of that name, new or known.
    pub fn host(&mut self, name: &str) -> u32 {
        let hosts = &mut self.session.hosts;
        let index = hosts
            .iter()
            .position(|host| host.name == name)
            .unwrap_or_else(|| {
                hosts.push(Host {
                    name: name.to_owned(),
                    capture_ns: None,
                    mxu_utilization_percent: None,
                    hbm_utilization_percent: None,
                });
                hosts.len() - 1
            });
        index as u32
    }

    /// The module of that name and program id, new or known.
    pub fn module(&mut self, name: &str, program_id: Option<u64>) -> ModuleId {
        if let Some(id) = self.modules.get(&(name.to_owned(), program_id)) {
            return *id;
        }
        let id = self.session.modules.len() as ModuleId;
        self.session.modules.push(Module {
            name: name.to_owned(),
            program_id,
        });
        self.modules.insert((name.to_owned(), program_id), id);
        if let Some(program_id) = program_id {
            self.programs.entry(program_id).or_insert(id);
        }
        id
    }

    /// The first module of that program id, if any.
    #[must_use]
    pub fn find_program(&self, program_id: u64) -> Option<ModuleId> {
        self.programs.get(&program_id).copied()
    }

    /// The module of a name as traces write it: `jit_f(12190760917235803885)`.
    pub fn module_from_label(&mut self, label: &str) -> ModuleId {
        let (name, program_id) = split_module_label(label);
        self.module(name, program_id)
    }

    /// The handle of a name, new or known.
    pub fn name(&mut self, name: &str) -> NameId {
        if let Some(id) = self.names.get(name) {
            return *id;
        }
        let id = self.session.names.len() as NameId;
        self.session.names.push(name.to_owned());
        self.names.insert(name.to_owned(), id);
        id
    }

    /// The operation of that key; `make` fills it when it is new.
    pub fn op(&mut self, key: OpKey, make: impl FnOnce() -> Op) -> OpId {
        if let Some(id) = self.ops.get(&key) {
            return *id;
        }
        let id = self.session.ops.len() as OpId;
        self.session.ops.push(make());
        self.ops.insert(key, id);
        id
    }

    /// The operation of that key, if known.
    #[must_use]
    pub fn find_op(&self, key: &OpKey) -> Option<OpId> {
        self.ops.get(key).copied()
    }

    /// Adds a device, unless the same events of the same plane and host are there already.
    ///
    /// The same plane with other events is a second run: [`Self::conflict`] remembers it.
    pub fn add_device(&mut self, device: Device) {
        let next = self.session.devices.len();
        let position = *self
            .devices
            .entry((device.host, device.plane.clone()))
            .or_insert(next);
        let Some(known) = self.session.devices.get_mut(position) else {
            self.session.devices.push(device);
            return;
        };
        // An XSpace and the trace JSON made from it differ in what they keep, not in their ops.
        let equal =
            known.ops.len() == device.ops.len() && known.modules.len() == device.modules.len();
        if known.ops.is_empty() {
            *known = device;
        } else if equal || device.ops.is_empty() {
            let message = format!("{} is in two inputs; the first was used", device.plane);
            self.session.notes.info("duplicate-device", message);
        } else if self.conflict.is_none() {
            self.conflict = Some((device.host, device.plane));
        }
    }

    /// Host and plane of which two different captures were given, if any.
    #[must_use]
    pub fn conflict(&self) -> Option<(String, String)> {
        let (host, plane) = self.conflict.clone()?;
        let host = self.session.hosts.get(host as usize)?;
        Some((host.name.clone(), plane))
    }

    /// Adds a host thread.
    pub fn add_thread(&mut self, thread: HostThread) {
        if !thread.spans.is_empty() {
            self.session.threads.push(thread);
        }
    }

    /// Adds an input file.
    pub fn add_input(&mut self, input: Input) {
        self.session.inputs.push(input);
    }

    /// Adds a program; the same program of several hosts is kept once.
    pub fn add_program(&mut self, program: SessionProgram) {
        let same = |known: &SessionProgram| {
            known.module == program.module && known.program.name == program.program.name
        };
        if program.module.is_none() || !self.session.programs.iter().any(same) {
            self.session.programs.push(program);
        }
    }

    /// The notes so far.
    pub fn notes(&mut self) -> &mut Notes {
        &mut self.session.notes
    }

    /// Sorts tracks, computes self times and hands over the session.
    #[must_use]
    pub fn finish(mut self) -> Session {
        self.session
            .devices
            .par_iter_mut()
            .for_each(crate::timeline::settle);
        self.session.threads.par_iter_mut().for_each(|thread| {
            thread.spans.sort_with(&mut []);
        });
        let key = |device: &Device| {
            (
                device.host,
                device.ordinal,
                device.kind,
                device.plane.clone(),
            )
        };
        self.session.devices.sort_by_key(key);
        self.session
    }
}

/// `jit_f(123)` is the module `jit_f` with program id 123.
#[must_use]
pub fn split_module_label(label: &str) -> (&str, Option<u64>) {
    let parts = label
        .strip_suffix(')')
        .and_then(|rest| rest.rsplit_once('('));
    match parts {
        Some((name, digits)) => match digits.parse::<u64>() {
            Ok(id) => (name, Some(id)),
            // A negative id is the same bits written signed.
            Err(_) => match digits.parse::<i64>() {
                Ok(id) => (name, Some(id.cast_unsigned())),
                Err(_) => (label, None),
            },
        },
        None => (label, None),
    }
}

/// Reads `/device:TPU:3` and `/device:TPU:3 SparseCore 1`: the kind of core and its ordinal.
#[must_use]
pub fn parse_tpu_plane(name: &str) -> Option<(CoreKind, u32)> {
    let rest = name.strip_prefix("/device:TPU:")?;
    let digits = rest
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(rest.len());
    let ordinal = rest[..digits].parse().ok()?;
    match rest[digits..].trim() {
        "" => Some((CoreKind::TensorCore, ordinal)),
        other if other.starts_with("SparseCore") => Some((CoreKind::SparseCore, ordinal)),
        _ => None,
    }
}
