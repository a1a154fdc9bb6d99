//! JAX's CPU client as the runner: a small script in the user's own Python.

use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use profiler::compiler::program_file::ProgramKind;
use profiler::parity::check::Runner;
use profiler::parity::tensor::{Tensor, TensorType, element_bytes};
use serde::{Deserialize, Serialize};
use tempfile::TempDir;

use super::error::RunError;
use super::{EXCESS_PRECISION, memory_limit_bytes};

const SCRIPT: &str = include_str!("jax_runner.py");
const RUNNER: &str = "JAX's CPU client";
/// Importing JAX takes a second, on a loaded machine with a cold disk many.
const START_TIMEOUT: Duration = Duration::from_secs(120);
/// Bytes of what the process printed that are kept: the end says why it died.
const LOG_BYTES: usize = 16 << 10;

/// JAX in a process of its own.
pub(super) struct JaxRunner {
    child: Child,
    input: Option<ChildStdin>,
    answers: Receiver<String>,
    log: Arc<Mutex<Vec<u8>>>,
    folder: TempDir,
    files: u64,
    timeout: Duration,
    /// `jax 0.6.2, jaxlib 0.6.2`.
    pub(super) version: String,
}

#[derive(Serialize)]
#[serde(tag = "ask", rename_all = "kebab-case")]
enum Ask<'a> {
    Translate {
        path: &'a str,
        kind: ProgramKind,
        to: &'a str,
    },
    Load {
        path: &'a str,
    },
    Run {
        program: usize,
        arguments: Vec<File>,
        folder: &'a str,
    },
}

#[derive(Deserialize)]
#[serde(tag = "answer", rename_all = "kebab-case")]
enum Answer {
    Ready { version: String },
    Translated,
    Loaded { program: usize },
    Ran { results: Vec<File> },
    Failed { message: String },
}

/// An array in a file.
#[derive(Serialize, Deserialize)]
struct File {
    path: String,
    dtype: String,
    dims: Vec<u64>,
}

impl JaxRunner {
    /// Starts it in a Python.
    pub(super) fn start(python: &Path, timeout: Duration) -> Result<Self, RunError> {
        let broken = |what: &str, error: std::io::Error| {
            RunError::Start(format!("{what} for JAX's process: {error}"))
        };
        let folder = tempfile::Builder::new()
            .prefix("tpu-tune-")
            .tempdir()
            .map_err(|error| broken("there is no temporary folder", error))?;
        // Python looks for modules beside the script: it stands alone.
        let own = folder.path().join("script");
        let script = own.join("runner.py");
        std::fs::create_dir(&own)
            .and_then(|()| std::fs::write(&script, SCRIPT))
            .map_err(|error| broken("the temporary folder cannot be written", error))?;
        let (name, value) = EXCESS_PRECISION;
        let mut child = Command::new(python)
            .arg(&script)
            .arg(memory_limit_bytes().to_string())
            .env("JAX_PLATFORMS", "cpu")
            .env("XLA_FLAGS", format!("--{name}={value}"))
            .env_remove("PYTHONSTARTUP")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(|error| RunError::Start(format!("{}: {error}", python.display())))?;
        let input = child.stdin.take();
        let (send, answers) = mpsc::channel();
        if let Some(output) = child.stdout.take() {
            thread::spawn(move || {
                for line in BufReader::new(output).lines().map_while(Result::ok) {
                    if send.send(line).is_err() {
                        break;
                    }
                }
            });
        }
        let log = Arc::new(Mutex::new(Vec::new()));
        if let Some(mut stderr) = child.stderr.take() {
            let log = Arc::clone(&log);
            thread::spawn(move || {
                let mut chunk = [0u8; 4096];
                while let Ok(read @ 1..) = stderr.read(&mut chunk) {
                    let mut log = log.lock().unwrap_or_else(PoisonError::into_inner);
                    log.extend_from_slice(chunk.get(..read).unwrap_or_default());
                    let excess = log.len().saturating_sub(LOG_BYTES);
                    log.drain(..excess);
                }
            });
        }
        let mut runner = Self {
            child,
            input,
            answers,
            log,
            folder,
            files: 0,
            timeout,
            version: String::new(),
        };
        let reason = match runner.answer(START_TIMEOUT) {
            Ok(Answer::Ready { version }) => {
                runner.version = version;
                return Ok(runner);
            }
            Ok(Answer::Failed { message }) => message,
            Ok(_) => "it answers out of turn".to_owned(),
            Err(error) => error.to_string(),
        };
        Err(RunError::NoRunner {
            python: python.display().to_string(),
            reason,
        })
    }

    /// A program in any form as StableHLO text.
    pub(super) fn translate(&mut self, kind: ProgramKind, code: &[u8]) -> Result<String, RunError> {
        let from = self.write(code)?;
        let to = self.path();
        let ask = Ask::Translate {
            path: &from,
            kind,
            to: &to,
        };
        let answer = self.ask(&ask)?;
        let Answer::Translated = answer else {
            return Err(refused(answer));
        };
        let text = self.read(&to)?;
        String::from_utf8(text).map_err(|_| out_of_turn())
    }

    fn path(&mut self) -> String {
        self.files += 1;
        let name = format!("file{}", self.files);
        self.folder.path().join(name).to_string_lossy().into_owned()
    }

    fn write(&mut self, bytes: &[u8]) -> Result<String, RunError> {
        let path = self.path();
        std::fs::write(&path, bytes)
            .map_err(|error| RunError::Start(format!("cannot write {path}: {error}")))?;
        Ok(path)
    }

    /// Reads a file of the runner, and removes it.
    fn read(&self, path: &str) -> Result<Vec<u8>, RunError> {
        if Path::new(path).parent() != Some(self.folder.path()) {
            return Err(out_of_turn());
        }
        let bytes = std::fs::read(path)
            .map_err(|error| RunError::Start(format!("cannot read {path}: {error}")))?;
        let _ = std::fs::remove_file(path);
        Ok(bytes)
    }

    fn ask(&mut self, ask: &Ask<'_>) -> Result<Answer, RunError> {
        let mut line = serde_json::to_vec(ask).unwrap_or_default();
        line.push(b'\n');
        let sent = self
            .input
            .as_mut()
            .is_some_and(|input| input.write_all(&line).and_then(|()| input.flush()).is_ok());
        if !sent {
            return Err(self.died());
        }
        self.answer(self.timeout)
    }

    fn answer(&mut self, timeout: Duration) -> Result<Answer, RunError> {
        match self.answers.recv_timeout(timeout) {
            Ok(line) => serde_json::from_str(&line).map_err(|_| out_of_turn()),
            Err(RecvTimeoutError::Timeout) => {
                self.stop();
                Err(RunError::TimedOut {
                    runner: RUNNER,
                    seconds: timeout.as_secs(),
                })
            }
            Err(RecvTimeoutError::Disconnected) => Err(self.died()),
        }
    }

    fn stop(&mut self) {
        self.input = None;
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    fn died(&mut self) -> RunError {
        self.input = None;
        // Its end closed the pipe: it is over or about to be, and the rest of what it printed is in
        // the pipe still.
        thread::sleep(Duration::from_millis(50));
        let status = self.child.try_wait().ok().flatten();
        self.stop();
        let log = self.log.lock().unwrap_or_else(PoisonError::into_inner);
        let log = String::from_utf8_lossy(&log);
        let last = log.lines().rfind(|line| !line.trim().is_empty());
        RunError::Died {
            runner: RUNNER,
            reason: match (last, status) {
                (Some(last), _) => last.chars().take(600).collect(),
                (None, Some(status)) => format!("it ended with {status} and left no message"),
                (None, None) => "it left no message".to_owned(),
            },
        }
    }
}

impl Runner for JaxRunner {
    type Error = RunError;

    fn load(&mut self, program: &str) -> Result<usize, RunError> {
        let path = self.write(program.as_bytes())?;
        let answer = self.ask(&Ask::Load { path: &path })?;
        let _ = std::fs::remove_file(&path);
        match answer {
            Answer::Loaded { program } => Ok(program),
            answer => Err(refused(answer)),
        }
    }

    fn run(&mut self, program: usize, arguments: &[Tensor]) -> Result<Vec<Tensor>, RunError> {
        let mut files = Vec::with_capacity(arguments.len());
        for argument in arguments {
            files.push(File {
                path: self.write(&argument.bytes)?,
                dtype: argument.ty.dtype.name().to_owned(),
                dims: argument.ty.dims.clone(),
            });
        }
        let paths: Vec<String> = files.iter().map(|file| file.path.clone()).collect();
        let folder = self.folder.path().to_string_lossy().into_owned();
        let answer = self.ask(&Ask::Run {
            program,
            arguments: files,
            folder: &folder,
        })?;
        for path in paths {
            let _ = std::fs::remove_file(path);
        }
        let Answer::Ran { results } = answer else {
            return Err(refused(answer));
        };
        results.into_iter().map(|file| self.tensor(file)).collect()
    }
}

impl JaxRunner {
    fn tensor(&self, file: File) -> Result<Tensor, RunError> {
        let dtype = file.dtype.parse().map_err(|()| out_of_turn())?;
        let ty = TensorType {
            dtype,
            dims: file.dims,
        };
        let bytes = self.read(&file.path)?;
        let expected = ty.elements().saturating_mul(element_bytes(dtype) as u64);
        if bytes.len() as u64 != expected {
            return Err(out_of_turn());
        }
        Ok(Tensor { ty, bytes })
    }
}

impl Drop for JaxRunner {
    fn drop(&mut self) {
        // It holds nothing that is worth waiting for.
        self.stop();
    }
}

fn refused(answer: Answer) -> RunError {
    match answer {
        Answer::Failed { message } => RunError::Refused {
            runner: RUNNER,
            message,
        },
        _ => out_of_turn(),
    }
}

fn out_of_turn() -> RunError {
    RunError::Refused {
        runner: RUNNER,
        message: "its process answers out of turn".to_owned(),
    }
}
