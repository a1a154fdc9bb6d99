//! Warm compiler processes, as many as the machine has cores and memory for.

use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

use profiler::compiler::protocol::{Request, Response};

use super::error::CompileError;
use super::process::{Spawn, Worker};

/// Compiler processes of one kind. Threads ask it side by side; each waits for a free one.
pub struct Pool {
    spawn: Spawn,
    timeout: Duration,
    size: usize,
    state: Mutex<State>,
    freed: Condvar,
}

#[derive(Default)]
struct State {
    idle: Vec<Worker>,
    /// Processes that are at work.
    busy: usize,
    /// Processes that were started so far.
    started: u32,
}

impl Pool {
    /// A pool that starts its processes when they are needed.
    #[must_use]
    pub fn new(spawn: Spawn, size: usize, timeout: Duration) -> Self {
        Self {
            spawn,
            timeout,
            size: size.max(1),
            state: Mutex::default(),
            freed: Condvar::new(),
        }
    }

    /// How many processes work side by side at most.
    #[must_use]
    pub fn size(&self) -> usize {
        self.size
    }

    /// How many processes were started so far.
    #[must_use]
    pub fn started(&self) -> u32 {
        self.state().started
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        // What a panic of another thread leaves behind is whole: counts are changed last.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Asks a free process, and returns the answer with the plugin's API version.
    ///
    /// A process that has compiled other programs before and dies is not taken at its word: the
    /// program gets a second chance in a fresh one.
    ///
    /// # Errors
    /// See [`CompileError`]; the pool stays usable.
    pub fn ask(
        &self,
        request: &Request,
        body: &[u8],
    ) -> Result<(Response, Vec<u8>, String), CompileError> {
        let mut worker = self.take()?;
        let fresh = worker.asked == 0;
        let mut outcome = worker.ask(request, body, self.timeout);
        if matches!(outcome, Err(CompileError::Crashed { .. })) && !fresh {
            drop(worker);
            worker = match self.start() {
                Ok(worker) => worker,
                Err(error) => {
                    self.put(None);
                    return Err(error);
                }
            };
            outcome = worker.ask(request, body, self.timeout);
        }
        let pjrt = worker.pjrt.clone();
        if let Ok((
            Response::Compiled { resident_bytes, .. } | Response::Ran { resident_bytes, .. },
            _,
        )) = &outcome
        {
            worker.resident_bytes = *resident_bytes;
        }
        let alive = outcome
            .as_ref()
            .err()
            .is_none_or(CompileError::leaves_the_worker);
        let worn = worker.is_worn();
        self.put((alive && !worn).then_some(worker));
        let (response, body) = outcome?;
        Ok((response, body, pjrt))
    }

    /// Asks a fresh process, and gives it up as soon as `enough` has what it wants of its work.
    ///
    /// # Errors
    /// See [`CompileError`]; the pool stays usable.
    pub fn ask_until(
        &self,
        request: &Request,
        body: &[u8],
        enough: impl FnMut() -> bool,
    ) -> Result<Option<(Response, Vec<u8>)>, CompileError> {
        let worker = self.take()?;
        let outcome = worker.ask_until(request, body, self.timeout, enough);
        self.put(None);
        outcome
    }

    fn take(&self) -> Result<Worker, CompileError> {
        let mut state = self.state();
        loop {
            if let Some(worker) = state.idle.pop() {
                state.busy += 1;
                return Ok(worker);
            }
            if state.busy < self.size {
                state.busy += 1;
                drop(state);
                return self.start().inspect_err(|_| self.put(None));
            }
            state = self
                .freed
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn start(&self) -> Result<Worker, CompileError> {
        let worker = Worker::start(&self.spawn)?;
        self.state().started += 1;
        Ok(worker)
    }

    fn put(&self, worker: Option<Worker>) {
        let mut state = self.state();
        state.busy = state.busy.saturating_sub(1);
        state.idle.extend(worker);
        drop(state);
        self.freed.notify_one();
    }
}
