//! A long-lived child, for example a server.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::time::{Duration, Instant};

use crate::call::Call;
use crate::child::{Group, Pause, Usage, members, send};
use crate::error::{Scene, ToolError, unwaitable};
use crate::interrupt;
use crate::logs::Logs;
use crate::signals::{SignalState, is_pending};

/// The most output of a session that a search for a line reads.
const SEARCH_BYTES: usize = 16 * 1024 * 1024;

/// The state of a session that should become ready.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Readiness {
    /// It is ready.
    Ready,
    /// Not yet, and what is missing. The error after a time-out shows the last such text.
    NotYet(String),
}

/// The signal that ended a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StopSignal {
    /// SIGTERM was enough.
    Term,
    /// It ignored SIGTERM for the whole grace time and was killed: it lost its final output.
    Kill,
    /// It had already ended.
    AlreadyExited,
}

/// How a session ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stopped {
    /// The signal that ended it.
    pub signal: StopSignal,
    /// Its exit status.
    pub status: ExitStatus,
    /// From the request to the end.
    pub took: Duration,
    /// Everything it wrote to standard output.
    pub stdout_path: PathBuf,
    /// Everything it wrote to standard error.
    pub stderr_path: PathBuf,
}

impl Stopped {
    /// Whether the program ended by its own return or `exit`, not by a signal: only then do exit handlers run (profile writers among them).
    pub fn ended_by_itself(&self) -> bool {
        self.status.signal().is_none()
    }
}

/// How a child ended, after a wait for it and its group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ended {
    /// Its exit status.
    pub status: ExitStatus,
    /// Its resources.
    pub usage: Usage,
    /// Processes of its group that outlived it and were killed: they lost their final output.
    pub killed: usize,
}

/// The recipients of a signal that asks for something.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SignalReceipt {
    /// Processes that received it.
    pub took: Vec<u32>,
    /// Processes that block it and did not receive it in time.
    pub left: Vec<u32>,
}

/// A long-lived child with its process group. Dropping it kills the group and reaps it.
#[derive(Debug)]
pub struct Session {
    call: Call,
    group: Group,
    stdout_path: PathBuf,
    stderr_path: PathBuf,
}

impl Session {
    pub(crate) fn new(call: Call, group: Group, logs: Logs) -> Self {
        Self { call, group, stdout_path: logs.stdout_path, stderr_path: logs.stderr_path }
    }

    /// The child's process id.
    pub fn pid(&self) -> u32 {
        self.group.pid().unsigned_abs()
    }

    /// The id of its process group, for signals to all of it.
    pub fn process_group(&self) -> i32 {
        self.group.pid()
    }

    /// Its running processes: itself, and those that it has started and that stayed in its group.
    pub fn processes(&self) -> Vec<u32> {
        members(self.group.pid()).into_iter().map(i32::unsigned_abs).collect()
    }

    /// The call that started it.
    pub fn call(&self) -> &Call {
        &self.call
    }

    /// The log of its standard output.
    pub fn stdout_path(&self) -> &Path {
        &self.stdout_path
    }

    /// The log of its standard error.
    pub fn stderr_path(&self) -> &Path {
        &self.stderr_path
    }

    /// How it ended, if it has ended. The rest of its group is then gone too.
    ///
    /// # Errors
    /// Fails when the system can't report it.
    pub fn try_exit(&mut self) -> Result<Option<ExitStatus>, ToolError> {
        self.group.try_exit().map_err(|error| unwaitable(&self.call, &error))
    }

    /// Fails if it has ended. Callers check this whenever they still need its work.
    ///
    /// # Errors
    /// [`ToolError::Died`] with its status and last words; `wanted` says what it should have been doing.
    pub fn check_alive(&mut self, wanted: &str) -> Result<(), ToolError> {
        match self.try_exit()? {
            None => Ok(()),
            Some(status) => {
                Err(ToolError::Died { scene: self.scene(), status, waited_for: wanted.to_owned() })
            }
        }
    }

    /// Polls until the answer is [`Readiness::Ready`].
    ///
    /// # Errors
    /// [`ToolError::Died`] as soon as the child ends, [`ToolError::TimedOut`] with the last answer, and [`ToolError::Interrupted`]. In the
    /// last two cases the child stays with its owner, whose drop ends it.
    pub fn wait_until(
        &mut self,
        timeout: Duration,
        mut ask: impl FnMut() -> Readiness,
    ) -> Result<(), ToolError> {
        let deadline = Instant::now() + timeout;
        let mut pause = Pause::default();
        loop {
            let missing = match ask() {
                Readiness::Ready => return self.check_alive("it had just become ready"),
                Readiness::NotYet(missing) => missing,
            };
            self.check_alive(&missing)?;
            if interrupt::requested() {
                return Err(ToolError::Interrupted { scene: self.scene() });
            }
            if Instant::now() >= deadline {
                return Err(ToolError::TimedOut { scene: self.scene(), limit: timeout, waited_for: missing });
            }
            pause.sleep();
        }
    }

    /// Waits for the first whole line of standard output that starts with `prefix`, and returns it without its end.
    ///
    /// # Errors
    /// As [`Session::wait_until`]; [`ToolError::Unreadable`] when 16 MiB of output hold no such line.
    pub fn stdout_line_matching(&mut self, prefix: &str, timeout: Duration) -> Result<String, ToolError> {
        let mut search = LineSearch::new(&self.stdout_path, prefix)?;
        let mut outcome = Ok(None);
        self.wait_until(timeout, || {
            outcome = search.advance();
            match &outcome {
                Ok(None) => Readiness::NotYet(format!("no line of its output starts with \"{prefix}\"")),
                Ok(Some(_)) | Err(_) => Readiness::Ready,
            }
        })
        .or_else(|error| self.forgive_if_found(&mut search, &mut outcome, error))?;
        outcome?.ok_or_else(|| search.unreadable("the line is gone".to_owned()))
    }

    /// A child that printed its line and ended at the same moment has still given its line.
    fn forgive_if_found(
        &self,
        search: &mut LineSearch,
        outcome: &mut Result<Option<String>, ToolError>,
        error: ToolError,
    ) -> Result<(), ToolError> {
        if matches!((&error, &*outcome), (ToolError::Died { .. }, Ok(None))) {
            *outcome = search.advance();
        }
        match outcome {
            Ok(Some(_)) => Ok(()),
            _ => Err(error),
        }
    }

    /// Sends a signal to the process itself, whatever its effect. A process that has ended gets none.
    pub fn signal(&self, signal: i32) {
        self.group.signal_leader(signal);
    }

    /// Sends a signal that asks for something to the processes of the group that it can't hurt and that receive it. They handle it, or
    /// block it in all of their threads and fetch it by `sigwait` or `signalfd`. Processes that only block it are skipped, because blocked
    /// signals are inherited. Waits up to `limit` until they have received it.
    pub fn tell(&self, signal: i32, limit: Duration) -> SignalReceipt {
        let group = self.group.pid();
        let takers = members(group)
            .into_iter()
            .filter(|&id| SignalState::read(id).is_some_and(|state| state.takes(signal)));
        let told: Vec<i32> = takers.inspect(|&id| send(id, signal)).collect();
        let waiting = |id: &i32| is_pending(*id, signal);
        let deadline = Instant::now() + limit;
        let mut pause = Pause::default();
        while told.iter().any(waiting) && Instant::now() < deadline {
            pause.sleep();
        }
        let (left, took): (Vec<i32>, Vec<i32>) = told.into_iter().partition(waiting);
        let ids = |list: Vec<i32>| list.into_iter().map(i32::unsigned_abs).collect();
        SignalReceipt { took: ids(took), left: ids(left) }
    }

    /// Whether a process of the group itself handles one of these signals, or fetches it. A thread named [`crate::SERVES_SIGNALS`] belongs
    /// to Hone.
    pub fn handles(&self, signals: &[i32]) -> bool {
        let handles = |state: SignalState| signals.iter().any(|&signal| state.uses(signal));
        members(self.group.pid()).into_iter().filter_map(SignalState::read).any(handles)
    }

    /// Waits up to `limit` for its end, and then up to `rest` for that of its group. The group gets TERM after half of that time, and KILL
    /// at the end. `None` if it still runs.
    ///
    /// # Errors
    /// [`ToolError::Interrupted`], and a failure of the system to report it.
    pub fn wait_end(&mut self, limit: Duration, rest: Duration) -> Result<Option<Ended>, ToolError> {
        let deadline = Instant::now() + limit;
        let end = self.group.wait_for_all(deadline, rest, interrupt::requested);
        let end = end.map_err(|error| unwaitable(&self.call, &error))?;
        if end.is_none() && interrupt::requested() {
            return Err(ToolError::Interrupted { scene: self.scene() });
        }
        Ok(end.map(|end| Ended { status: end.status, usage: end.usage, killed: end.killed }))
    }

    /// Kills it and its group.
    ///
    /// # Errors
    /// Fails when the system can't report how it ended.
    pub fn kill(&mut self) -> Result<ExitStatus, ToolError> {
        self.group.kill().map_err(|error| unwaitable(&self.call, &error))
    }

    /// Ends it: TERM to the process itself, up to `grace` to obey, then KILL to the group. Reaps it.
    ///
    /// # Errors
    /// Fails when the system can't report how it ended.
    pub fn stop(mut self, grace: Duration) -> Result<Stopped, ToolError> {
        let start = Instant::now();
        let (signal, status) =
            stop_group(&mut self.group, grace).map_err(|error| unwaitable(&self.call, &error))?;
        Ok(Stopped {
            signal,
            status,
            took: start.elapsed(),
            stdout_path: self.stdout_path.clone(),
            stderr_path: self.stderr_path.clone(),
        })
    }

    /// The present log and call, for a caller's own error about this child.
    pub fn scene(&self) -> Box<Scene> {
        Scene::new(&self.call, Some(&self.stderr_path))
    }
}

fn stop_group(group: &mut Group, grace: Duration) -> io::Result<(StopSignal, ExitStatus)> {
    if let Some(status) = group.try_exit()? {
        return Ok((StopSignal::AlreadyExited, status));
    }
    group.signal_leader(libc::SIGTERM);
    match group.wait_until(Instant::now() + grace)? {
        Some(status) => Ok((StopSignal::Term, status)),
        None => Ok((StopSignal::Kill, group.kill()?)),
    }
}

/// Reads a growing file line by line.
struct LineSearch {
    path: PathBuf,
    file: File,
    prefix: Vec<u8>,
    seen: u64,
    partial: Vec<u8>,
}

impl LineSearch {
    fn new(path: &Path, prefix: &str) -> Result<Self, ToolError> {
        let file = File::open(path).map_err(|error| unreadable(path, error.to_string()))?;
        let prefix = prefix.as_bytes().to_vec();
        Ok(Self { path: path.to_path_buf(), file, prefix, seen: 0, partial: Vec::new() })
    }

    /// The wanted line, if the output already contains it.
    fn advance(&mut self) -> Result<Option<String>, ToolError> {
        let mut fresh = Vec::new();
        self.file
            .seek(SeekFrom::Start(self.seen))
            .and_then(|_| (&self.file).take(SEARCH_BYTES as u64).read_to_end(&mut fresh))
            .map_err(|error| self.unreadable(error.to_string()))?;
        self.seen += fresh.len() as u64;
        self.partial.extend(fresh);
        while let Some(end) = self.partial.iter().position(|&byte| byte == b'\n') {
            let rest = self.partial.split_off(end + 1);
            let line = std::mem::replace(&mut self.partial, rest);
            if line.starts_with(&self.prefix) {
                return Ok(Some(String::from_utf8_lossy(&line).trim_end().to_owned()));
            }
        }
        if self.seen > SEARCH_BYTES as u64 {
            return Err(self.unreadable(format!("no wanted line in {} bytes", self.seen)));
        }
        Ok(None)
    }

    fn unreadable(&self, reason: String) -> ToolError {
        unreadable(&self.path, reason)
    }
}

fn unreadable(path: &Path, reason: String) -> ToolError {
    let next = "read the log".to_owned();
    ToolError::Unreadable { what: path.display().to_string(), reason, next }
}
