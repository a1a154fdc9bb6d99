//! A CPU PJRT plugin as the runner, in a process of its own.

use std::env;
use std::path::{Path, PathBuf};
use std::time::Duration;

use profiler::compiler::options::CompileOptions;
use profiler::compiler::pjrt::HostArray;
use profiler::compiler::protocol::{Request, Response};
use profiler::compiler::run::{buffer_type, element_type, pack, unpack};
use profiler::parity::check::Runner;
use profiler::parity::tensor::{Tensor, TensorType};

use super::error::RunError;
use super::{EXCESS_PRECISION, memory_limit_bytes};
use crate::compiler::pool::Pool;
use crate::compiler::process::Spawn;

/// The variable that names a plugin.
const VARIABLE: &str = "TPU_TUNE_CPU_PLUGIN";

/// The plugin that the user named: by `--cpu-plugin`, else in the environment. None is looked for
/// elsewhere: the wheels that carry one are builds for single other programs.
pub(super) fn find(named: Option<&Path>) -> Result<Option<PathBuf>, RunError> {
    let variable = env::var_os(VARIABLE).filter(|path| !path.is_empty());
    let (path, named) = match (named, variable) {
        (Some(path), _) => (path.to_owned(), "--cpu-plugin"),
        (None, Some(path)) => (PathBuf::from(path), VARIABLE),
        (None, None) => return Ok(None),
    };
    if path.is_file() {
        return Ok(Some(path));
    }
    Err(RunError::NoPlugin {
        path: path.display().to_string(),
        named,
    })
}

/// Programs on a plugin's first device.
pub(super) struct PluginRunner {
    pool: Pool,
    programs: Vec<String>,
}

impl PluginRunner {
    pub(super) fn new(library: PathBuf, timeout: Duration) -> Result<Self, RunError> {
        let program = env::current_exe()
            .map_err(|error| RunError::Start(format!("our own binary cannot be found: {error}")))?;
        let spawn = Spawn {
            program,
            library,
            memory_limit_bytes: memory_limit_bytes(),
            init_args: Vec::new(),
        };
        Ok(Self {
            pool: Pool::new(spawn, 1, timeout),
            programs: Vec::new(),
        })
    }

    fn ask(&self, code: &str, arguments: &[Tensor]) -> Result<Vec<Tensor>, RunError> {
        let arrays = arguments
            .iter()
            .map(to_host)
            .collect::<Result<Vec<_>, _>>()?;
        let (name, value) = EXCESS_PRECISION;
        let mut body = code.as_bytes().to_vec();
        let request = Request::Run {
            format: "mlir".to_owned(),
            options: CompileOptions {
                overrides: vec![(name.to_owned(), value.to_owned())],
                ..CompileOptions::default()
            },
            code_bytes: code.len() as u64,
            arguments: pack(&arrays, &mut body),
        };
        let answer = self.pool.ask(&request, &body);
        let (response, body, _) = answer.map_err(RunError::of_plugin)?;
        let Response::Ran { results, .. } = response else {
            return Err(malformed("it answers out of turn"));
        };
        let arrays = unpack(&results, &body).ok_or_else(|| malformed("its answer is cut"))?;
        arrays.into_iter().map(of_host).collect()
    }
}

impl Runner for PluginRunner {
    type Error = RunError;

    /// The program is compiled when it runs first: its process may be another one by then.
    fn load(&mut self, program: &str) -> Result<usize, RunError> {
        self.programs.push(program.to_owned());
        Ok(self.programs.len() - 1)
    }

    fn run(&mut self, program: usize, arguments: &[Tensor]) -> Result<Vec<Tensor>, RunError> {
        let code = self.programs.get(program);
        self.ask(code.map_or("", String::as_str), arguments)
    }
}

fn to_host(tensor: &Tensor) -> Result<HostArray, RunError> {
    let dims = tensor.ty.dims.iter();
    Ok(HostArray {
        kind: buffer_type(tensor.ty.dtype)
            .ok_or_else(|| malformed(&format!("it takes no arrays of {}", tensor.ty.dtype)))?,
        dimensions: dims
            .map(|&dim| i64::try_from(dim).unwrap_or(i64::MAX))
            .collect(),
        bytes: tensor.bytes.clone(),
    })
}

fn of_host(array: HostArray) -> Result<Tensor, RunError> {
    let dtype = element_type(array.kind)
        .ok_or_else(|| malformed(&format!("it gives an array of unknown type {}", array.kind)))?;
    let dims = array.dimensions.iter();
    Ok(Tensor {
        ty: TensorType {
            dtype,
            dims: dims.map(|&dim| u64::try_from(dim).unwrap_or(0)).collect(),
        },
        bytes: array.bytes,
    })
}

fn malformed(what: &str) -> RunError {
    RunError::Refused {
        runner: "the CPU plugin",
        message: what.to_owned(),
    }
}
