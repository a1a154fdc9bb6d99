//! One compiler in a process of its own: started, asked, and killed when it does not answer.

use std::collections::VecDeque;
use std::io::{BufReader, BufWriter, Read};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use profiler::compiler::protocol::{Request, Response, read_frame, write_frame};
use profiler::compiler::worker::ENVIRONMENT;

use super::error::CompileError;

/// Bytes of a compiler's log that are kept: its end says why it died.
const LOG_BYTES: usize = 64 << 10;
/// Loading the library and saying so takes a fraction of a second.
const START_TIMEOUT: Duration = Duration::from_secs(60);
/// A process that was asked to end gets that long.
const END_TIMEOUT: Duration = Duration::from_millis(500);

/// A process is replaced after that many programs: each leaves a megabyte or more behind.
const MAX_PROGRAMS: u32 = 100;
/// Or when it holds that much, in bytes.
const MAX_RESIDENT_BYTES: u64 = 1 << 30;

/// How a compiler process is started.
#[derive(Clone, Debug)]
pub struct Spawn {
    /// Our own binary.
    pub program: PathBuf,
    /// The compiler's library.
    pub library: PathBuf,
    /// Memory that the process may map, in bytes.
    pub memory_limit_bytes: u64,
    /// Flags that libtpu reads once, as it starts.
    pub init_args: Vec<String>,
}

/// What came over the pipe: an answer with its body, the end, or an error.
type Frame = std::io::Result<Option<(Response, Vec<u8>)>>;

/// A running compiler.
pub struct Worker {
    child: Child,
    input: Option<BufWriter<ChildStdin>>,
    answers: Receiver<Frame>,
    log: Arc<Mutex<VecDeque<u8>>>,
    /// What the plugin said of itself as it started.
    pub pjrt: String,
    /// Programs that it was asked to compile.
    pub asked: u32,
    /// Memory that it held after the last one, in bytes.
    pub resident_bytes: u64,
}

impl Worker {
    /// Starts a compiler and waits until it is ready.
    ///
    /// # Errors
    /// When it cannot be started or its library refuses.
    pub fn start(spawn: &Spawn) -> Result<Self, CompileError> {
        let mut command = Command::new(&spawn.program);
        command
            .arg("compile-worker")
            .arg("--library")
            .arg(&spawn.library)
            .arg("--memory-limit-bytes")
            .arg(spawn.memory_limit_bytes.to_string())
            .envs(ENVIRONMENT.iter().copied())
            .env_remove("LIBTPU_INIT_ARGS")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        if !spawn.init_args.is_empty() {
            command.env("LIBTPU_INIT_ARGS", spawn.init_args.join(" "));
        }
        let mut child = command.spawn().map_err(|error| CompileError::Start {
            message: format!("{} cannot be run: {error}", spawn.program.display()),
        })?;
        let input = child.stdin.take().map(BufWriter::new);
        let (send, answers) = mpsc::channel();
        if let Some(output) = child.stdout.take() {
            thread::spawn(move || {
                let mut output = BufReader::new(output);
                loop {
                    let frame = read_frame(&mut output);
                    let ended = !matches!(frame, Ok(Some(_)));
                    if send.send(frame).is_err() || ended {
                        break;
                    }
                }
            });
        }
        let log = Arc::new(Mutex::new(VecDeque::new()));
        if let Some(mut stderr) = child.stderr.take() {
            let log = Arc::clone(&log);
            thread::spawn(move || {
                let mut chunk = [0u8; 4096];
                while let Ok(read @ 1..) = stderr.read(&mut chunk) {
                    let mut log = log.lock().unwrap_or_else(PoisonError::into_inner);
                    log.extend(&chunk[..read]);
                    let excess = log.len().saturating_sub(LOG_BYTES);
                    log.drain(..excess);
                }
            });
        }
        let mut worker = Self {
            child,
            input,
            answers,
            log,
            pjrt: String::new(),
            asked: 0,
            resident_bytes: 0,
        };
        match worker.answer(START_TIMEOUT)? {
            (Response::Ready { pjrt, .. }, _) => {
                worker.pjrt = pjrt;
                Ok(worker)
            }
            (Response::Failed { message, .. }, _) => Err(CompileError::Start {
                message: format!("{} cannot be used: {message}", spawn.library.display()),
            }),
            _ => Err(CompileError::Start {
                message: "the compiler's process answers out of turn".to_owned(),
            }),
        }
    }

    /// Asks, and waits for the answer. After an error other than [`CompileError::Rejected`] the
    /// process is gone.
    ///
    /// # Errors
    /// When the compiler refuses, dies or takes too long.
    pub fn ask(
        &mut self,
        request: &Request,
        body: &[u8],
        timeout: Duration,
    ) -> Result<(Response, Vec<u8>), CompileError> {
        self.send(request, body)?;
        unless_failed(self.answer(timeout)?)
    }

    /// Asks, and gives up the process as soon as `enough` has what it wants of its work. None then,
    /// else the answer.
    ///
    /// # Errors
    /// As [`Self::ask`].
    pub fn ask_until(
        mut self,
        request: &Request,
        body: &[u8],
        timeout: Duration,
        mut enough: impl FnMut() -> bool,
    ) -> Result<Option<(Response, Vec<u8>)>, CompileError> {
        const LOOK_EVERY: Duration = Duration::from_millis(20);
        self.send(request, body)?;
        let mut waited = Duration::ZERO;
        while waited < timeout {
            match self.answers.recv_timeout(LOOK_EVERY) {
                Ok(Ok(Some(answer))) => return unless_failed(answer).map(Some),
                Err(RecvTimeoutError::Timeout) => {}
                Ok(Ok(None) | Err(_)) | Err(RecvTimeoutError::Disconnected) => {
                    return Err(self.died());
                }
            }
            if enough() {
                return Ok(None);
            }
            waited += LOOK_EVERY;
        }
        Err(CompileError::TimedOut {
            seconds: timeout.as_secs(),
        })
    }

    fn send(&mut self, request: &Request, body: &[u8]) -> Result<(), CompileError> {
        self.asked += 1;
        self.log
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clear();
        let sent = match &mut self.input {
            Some(input) => write_frame(input, request, body).is_ok(),
            None => false,
        };
        if sent { Ok(()) } else { Err(self.died()) }
    }

    /// Whether it should be replaced before it is asked again.
    #[must_use]
    pub fn is_worn(&self) -> bool {
        self.asked >= MAX_PROGRAMS || self.resident_bytes > MAX_RESIDENT_BYTES
    }

    fn answer(&mut self, timeout: Duration) -> Result<(Response, Vec<u8>), CompileError> {
        match self.answers.recv_timeout(timeout) {
            Ok(Ok(Some(answer))) => Ok(answer),
            Err(RecvTimeoutError::Timeout) => {
                self.kill();
                Err(CompileError::TimedOut {
                    seconds: timeout.as_secs(),
                })
            }
            Ok(Ok(None) | Err(_)) | Err(RecvTimeoutError::Disconnected) => Err(self.died()),
        }
    }

    fn kill(&mut self) {
        self.input = None;
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    fn died(&mut self) -> CompileError {
        self.input = None;
        let status = self.ended_within(END_TIMEOUT).or_else(|| {
            let _ = self.child.kill();
            self.child.wait().ok()
        });
        // The rest of the log is in the pipe still.
        thread::sleep(Duration::from_millis(20));
        let log = self.log();
        let memory = [
            "out of memory",
            "bad_alloc",
            "annot allocate memory",
            "mmap",
        ]
        .iter()
        .any(|sign| log.contains(sign));
        let how = status.map_or_else(|| "ended".to_owned(), how_it_ended);
        let reason = reason(&log);
        if memory || status.is_some_and(|status| status.signal() == Some(9)) {
            CompileError::TooMuchMemory { how, reason }
        } else {
            CompileError::Crashed { how, reason }
        }
    }

    fn ended_within(&mut self, limit: Duration) -> Option<ExitStatus> {
        const LOOK_EVERY: Duration = Duration::from_millis(5);
        let mut waited = Duration::ZERO;
        while waited < limit {
            if let Ok(Some(status)) = self.child.try_wait() {
                return Some(status);
            }
            thread::sleep(LOOK_EVERY);
            waited += LOOK_EVERY;
        }
        None
    }

    /// The end of what the compiler wrote to its log since it was asked last.
    #[must_use]
    pub fn log(&self) -> String {
        let log = self.log.lock().unwrap_or_else(PoisonError::into_inner);
        let bytes: Vec<u8> = log.iter().copied().collect();
        String::from_utf8_lossy(&bytes).into_owned()
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        // Without input it ends by itself; it holds nothing that is worth waiting for.
        self.kill();
    }
}

fn unless_failed(answer: (Response, Vec<u8>)) -> Result<(Response, Vec<u8>), CompileError> {
    match answer {
        (Response::Failed { code, message }, _) => Err(CompileError::Rejected { code, message }),
        answer => Ok(answer),
    }
}

fn how_it_ended(status: ExitStatus) -> String {
    match (status.signal(), status.code()) {
        (Some(6), _) => "aborted (SIGABRT)".to_owned(),
        (Some(9), _) => "was killed (SIGKILL)".to_owned(),
        (Some(11), _) => "crashed (SIGSEGV)".to_owned(),
        (Some(signal), _) => format!("was ended by signal {signal}"),
        (None, Some(code)) => format!("exited with code {code}"),
        (None, None) => "ended".to_owned(),
    }
}

/// The line of a log that says why: a fatal one, else the last error, else the last line.
fn reason(log: &str) -> String {
    let lines = || log.lines().filter(|line| !line.trim().is_empty());
    let marked = |mark: &str| {
        lines().find(|line| {
            line.strip_prefix(mark)
                .is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
        })
    };
    let known = [
        "Check failed",
        "terminate called",
        "Unknown command line flag",
    ];
    let line = marked("F")
        .or_else(|| lines().find(|line| known.iter().any(|sign| line.contains(sign))))
        .or_else(|| marked("E"))
        .or_else(|| lines().next_back());
    // "F0000 00:00:… file.cc:1] message": the message is what matters.
    let line = line.unwrap_or("it left no message").trim();
    let said = line.split_once("] ").map_or(line, |(_, said)| said);
    said.chars().take(600).collect()
}

/// The part of our own binary that runs in a process of its own: see
/// [`profiler::compiler::worker::serve`].
///
/// # Errors
/// When its input is not the protocol's.
pub fn serve(library: &Path, memory_limit_bytes: u64) -> anyhow::Result<()> {
    use rustix::process::{Resource, Rlimit, setrlimit};
    end_with_parent();
    let limit = Rlimit {
        current: Some(memory_limit_bytes),
        maximum: Some(memory_limit_bytes),
    };
    setrlimit(Resource::As, limit)?;
    // No core files of many gigabytes.
    let none = Rlimit {
        current: Some(0),
        maximum: Some(0),
    };
    setrlimit(Resource::Core, none)?;
    // What the library prints goes to the log: the protocol has the pipe for itself.
    let protocol = rustix::io::dup(rustix::stdio::stdout())?;
    rustix::stdio::dup2_stdout(rustix::stdio::stderr())?;
    let mut output = BufWriter::new(std::fs::File::from(protocol));
    let mut input = BufReader::new(std::io::stdin().lock());
    Ok(profiler::compiler::worker::serve(
        library,
        &mut input,
        &mut output,
    )?)
}

/// Ends this process when the one that started it is gone, also in the middle of a compilation.
/// (The kernel's own signal for this comes when the starting *thread* ends, which is too early.)
fn end_with_parent() {
    const LOOK_EVERY: Duration = Duration::from_secs(1);
    let parent = rustix::process::getppid();
    thread::spawn(move || {
        while rustix::process::getppid() == parent {
            thread::sleep(LOOK_EVERY);
        }
        #[expect(clippy::exit, reason = "nobody is left to hand an error to")]
        std::process::exit(1);
    });
}
