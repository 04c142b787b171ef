//! One child with its process group. It can't outlive Hone, and ending it leaves nothing behind.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{OnceLock, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use crate::call::Call;
use crate::orphans;
use crate::peer::handle_of;

/// Upper limit of the growing wait between two checks of a child.
pub const LOOK_EVERY: Duration = Duration::from_millis(20);

/// Time for a killed group to vanish; SIGKILL only waits for the kernel.
pub(crate) const VANISH_LIMIT: Duration = Duration::from_secs(5);

/// A program can't start for a moment while another thread's fork still has its file open for writing.
const BUSY_RETRIES: u32 = 50;

/// The resources that a child and its reaped descendants used: the kernel's `rusage`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Usage {
    /// CPU time in user mode. The sum with `system` has microsecond precision; its split depends on ticks.
    pub user: Duration,
    /// CPU time in the kernel.
    pub system: Duration,
    /// The peak of resident memory of any one of them.
    pub max_rss_bytes: u64,
}

impl Usage {
    /// User and system together.
    pub fn total(self) -> Duration {
        self.user + self.system
    }
}

/// How a leader ended, its resources, and the number of killed processes of its group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct End {
    pub(crate) status: ExitStatus,
    pub(crate) usage: Usage,
    pub(crate) killed: usize,
}

/// A started child that leads its own process group.
#[derive(Debug)]
pub(crate) struct Group {
    pid: i32,
    /// Readable when the child has ended; `None` if the kernel lacks this feature.
    ends: Option<OwnedFd>,
    ended: Option<(ExitStatus, Usage)>,
    /// The note by which the next run finds the rest of the group if Hone is killed.
    note: Option<PathBuf>,
}

impl Group {
    /// Starts the call with its outputs going straight into the two files. A grandchild that keeps them open can then never make Hone wait
    /// for an end of file.
    pub(crate) fn start(call: &Call, stdout: File, stderr: File) -> io::Result<Self> {
        Self::spawn(command_of(call)?, call.step(), stdout, stderr)
    }

    /// Like [`Group::start`], with an input instead of the call's own.
    pub(crate) fn start_reading(call: &Call, stdin: File, stdout: File, stderr: File) -> io::Result<Self> {
        let mut command = command_of(call)?;
        command.stdin(stdin);
        Self::spawn(command, call.step(), stdout, stderr)
    }

    fn spawn(mut command: Command, step: &str, stdout: File, stderr: File) -> io::Result<Self> {
        command.stdout(stdout).stderr(stderr);
        let note = orphans::note(step).map(|note| {
            let path = note.path.clone();
            // SAFETY: the closure runs between fork and exec, and calls only async-signal-safe functions.
            unsafe {
                command.pre_exec(move || {
                    note.sign();
                    Ok(())
                });
            }
            path
        });
        let started = spawn_on_lasting_thread(command);
        if let (Err(_), Some(note)) = (&started, &note) {
            let _ = fs::remove_file(note);
        }
        let pid = i32::try_from(started?.id()).map_err(io::Error::other)?;
        Ok(Self { pid, ends: handle_of(pid).ok(), ended: None, note })
    }

    /// Sleeps a little, and at most until the leader's end.
    pub(crate) fn wait_a_little(&self, pause: &mut Pause) {
        let length = pause.next();
        let Some(ends) = &self.ends else { return thread::sleep(length) };
        let mut wanted = libc::pollfd { fd: ends.as_raw_fd(), events: libc::POLLIN, revents: 0 };
        let limit_ms = i32::try_from(length.as_millis()).unwrap_or(i32::MAX).max(1);
        // SAFETY: the one entry is valid for the whole call. A signal that interrupts it only makes the sleep shorter.
        unsafe { libc::poll(&raw mut wanted, 1, limit_ms) };
    }

    /// The leader's resources, once it has ended and was reaped.
    pub(crate) fn usage(&self) -> Option<Usage> {
        self.ended.map(|(_, usage)| usage)
    }

    /// The leader's process id, which is also the group's.
    pub(crate) fn pid(&self) -> i32 {
        self.pid
    }

    /// The leader's end, if it has ended. Kills the rest of its group first, while the leader's unreaped id still reserves the group's id.
    pub(crate) fn try_exit(&mut self) -> io::Result<Option<ExitStatus>> {
        if self.ended.is_none() && has_ended(self.pid)? {
            self.kill()?;
        }
        Ok(self.ended.map(|(status, _)| status))
    }

    /// Waits for the leader's end, at most until the deadline.
    pub(crate) fn wait_until(&mut self, deadline: Instant) -> io::Result<Option<ExitStatus>> {
        let mut pause = Pause::default();
        loop {
            let status = self.try_exit()?;
            if status.is_some() || Instant::now() >= deadline {
                return Ok(status);
            }
            self.wait_a_little(&mut pause);
        }
    }

    /// Sends a signal to the leader alone, and wakes a stopped leader so that it can obey.
    pub(crate) fn signal_leader(&self, signal: i32) {
        if self.ended.is_none() {
            send(self.pid, signal);
            send(self.pid, libc::SIGCONT);
        }
    }

    /// Waits for the leader's end until the deadline, and then for the rest of its group instead of killing it at once. The rest runs on
    /// for half of `rest`, then gets TERM, and then KILL if necessary. `halt` ends the wait for the leader early.
    pub(crate) fn wait_for_all(
        &mut self,
        deadline: Instant,
        rest: Duration,
        halt: impl Fn() -> bool,
    ) -> io::Result<Option<End>> {
        let mut pause = Pause::default();
        while self.ended.is_none() && !has_ended(self.pid)? {
            if Instant::now() >= deadline || halt() {
                return Ok(None);
            }
            self.wait_a_little(&mut pause);
        }
        if let Some((status, usage)) = self.ended {
            return Ok(Some(End { status, usage, killed: 0 }));
        }
        // The leader is not reaped yet, so the group's id is still valid.
        if !vanished(self.pid, rest / 2) {
            send(-self.pid, libc::SIGTERM);
            send(-self.pid, libc::SIGCONT);
            vanished(self.pid, rest / 2);
        }
        let killed = members(self.pid).len();
        self.kill()?;
        Ok(self.ended.map(|(status, usage)| End { status, usage, killed }))
    }

    /// Sends TERM to the whole group, waits, then sends KILL; returns how the leader ended.
    pub(crate) fn end(&mut self, grace: Duration) -> io::Result<ExitStatus> {
        if self.ended.is_none() {
            send(-self.pid, libc::SIGTERM);
            send(-self.pid, libc::SIGCONT);
        }
        match self.wait_until(Instant::now() + grace)? {
            Some(status) => Ok(status),
            None => self.kill(),
        }
    }

    /// Sends KILL to the whole group; reaps the leader and waits until the rest is gone.
    pub(crate) fn kill(&mut self) -> io::Result<ExitStatus> {
        if let Some((status, _)) = self.ended {
            return Ok(status);
        }
        send(-self.pid, libc::SIGKILL);
        let (status, usage) = reap(self.pid)?;
        self.ended = Some((status, usage));
        // The note of a group that did not vanish stays, so the next run can try again.
        if wait_for_rest(self.pid)
            && let Some(note) = self.note.take()
        {
            let _ = fs::remove_file(note);
        }
        Ok(status)
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // A destructor can't report an error.
        let _ = self.kill();
    }
}

/// Sleeps that start short and grow, so that a short child costs little time and a long one little CPU.
pub(crate) struct Pause(Duration);

impl Default for Pause {
    fn default() -> Self {
        Self(Duration::from_millis(1))
    }
}

impl Pause {
    pub(crate) fn sleep(&mut self) {
        thread::sleep(self.next());
    }

    fn next(&mut self) -> Duration {
        let length = self.0;
        self.0 = (self.0 * 2).min(LOOK_EVERY);
        length
    }
}

fn command_of(call: &Call) -> io::Result<Command> {
    let mut command = bare_command_of(call);
    command.process_group(0).stdin(match call.stdin_file() {
        Some(path) => Stdio::from(File::open(path)?),
        None => Stdio::null(),
    });
    Ok(command)
}

/// In Hone's own process group and with its own streams.
fn bare_command_of(call: &Call) -> Command {
    #[expect(clippy::disallowed_methods, reason = "the only place that starts programs")]
    let mut command = Command::new(call.program());
    command.args(call.arguments()).current_dir(call.cwd());
    for (name, value) in call.environment() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    let hone = std::process::id();
    // SAFETY: the closure runs between fork and exec and calls only prctl, getppid and signal, which are async-signal-safe,
    // and builds an error without allocating.
    unsafe {
        command.pre_exec(move || die_with_parent(hone).and_then(|()| hear_interrupts()));
    }
    command
}

/// Runs the call in Hone's place. The asking thread itself forks and waits.
pub(crate) fn run_in_our_place(call: &Call) -> io::Result<ExitStatus> {
    spawn(&mut bare_command_of(call))?.wait()
}

/// Like [`run_in_our_place`], but forwards standard error, and keeps this much of it.
pub(crate) fn run_in_our_place_heard(call: &Call, most: usize) -> io::Result<(ExitStatus, Vec<u8>)> {
    let mut command = bare_command_of(call);
    let mut child = spawn(command.stderr(Stdio::piped()))?;
    let mut heard = Vec::new();
    if let Some(mut said) = child.stderr.take() {
        let mut piece = [0; 16 * 1024];
        loop {
            let bytes = match said.read(&mut piece) {
                Ok(0) => break,
                Ok(length) => &piece[..length],
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(_) => break,
            };
            // The caller may have closed its stream; Hone keeps the text all the same.
            let _ = io::stderr().write_all(bytes);
            let room = most.saturating_sub(heard.len());
            heard.extend_from_slice(&bytes[..bytes.len().min(room)]);
        }
    }
    Ok((child.wait()?, heard))
}

/// Asks the kernel to kill this child when its parent ends, however the parent ends.
fn die_with_parent(hone: u32) -> io::Result<()> {
    // SAFETY: both calls take plain integers and touch no memory of ours.
    let (set, parent) = unsafe { (libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL), libc::getppid()) };
    // The parent may have ended before the request was in place.
    if set != 0 || u32::try_from(parent) != Ok(hone) {
        return Err(io::Error::from_raw_os_error(libc::ECANCELED));
    }
    Ok(())
}

/// A shell that starts Hone in the background ignores SIGINT, and children inherit that: a child would ignore the interrupt that should
/// stop it.
fn hear_interrupts() -> io::Result<()> {
    // SAFETY: sets a disposition that runs none of Hone's code.
    let before = unsafe { libc::signal(libc::SIGINT, libc::SIG_DFL) };
    if before == libc::SIG_ERR { Err(io::Error::last_os_error()) } else { Ok(()) }
}

type StartRequest = (Command, mpsc::SyncSender<io::Result<Child>>);

/// The kernel ties the end of the parent to the *thread* that forked, so one thread that lasts as long as the process starts all children.
fn spawn_on_lasting_thread(command: Command) -> io::Result<Child> {
    static ORDERS: OnceLock<mpsc::Sender<StartRequest>> = OnceLock::new();
    let orders = ORDERS.get_or_init(|| {
        let (sender, receiver) = mpsc::channel::<StartRequest>();
        let serve = move || {
            for (mut command, answer) in receiver {
                // If the requester no longer waits for the answer, the child is dropped unreaped and dies with Hone.
                let _ = answer.send(spawn(&mut command));
            }
        };
        // Without the thread its receiver is gone, and every request below fails with its own error.
        let _ = thread::Builder::new().name("spawner".to_owned()).spawn(serve);
        sender
    });
    let (answer, child) = mpsc::sync_channel(1);
    orders.send((command, answer)).map_err(io::Error::other)?;
    child.recv().map_err(io::Error::other)?
}

fn spawn(command: &mut Command) -> io::Result<Child> {
    for _ in 0..BUSY_RETRIES {
        match command.spawn() {
            Err(error) if error.raw_os_error() == Some(libc::ETXTBSY) => thread::sleep(LOOK_EVERY),
            other => return other,
        }
    }
    command.spawn()
}

/// Whether the child has ended, without reaping it.
fn has_ended(pid: i32) -> io::Result<bool> {
    let id = libc::id_t::try_from(pid).map_err(io::Error::other)?;
    // SAFETY: `siginfo_t` is plain data for which all zeroes is a valid value.
    let mut info: libc::siginfo_t = unsafe { std::mem::zeroed() };
    // SAFETY: `info` is a valid, writable `siginfo_t` for the whole call.
    let done = unsafe {
        libc::waitid(libc::P_PID, id, &raw mut info, libc::WEXITED | libc::WNOHANG | libc::WNOWAIT)
    };
    if done != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: after a successful `waitid` the field is set; it is 0 when no child has changed state.
    Ok(unsafe { info.si_pid() } != 0)
}

/// Waits for a child's end, and returns its resources.
fn reap(pid: i32) -> io::Result<(ExitStatus, Usage)> {
    let mut status = 0;
    // SAFETY: `rusage` is plain data for which all zeroes is a valid value.
    let mut used: libc::rusage = unsafe { std::mem::zeroed() };
    loop {
        // SAFETY: both places are valid and writable for the whole call.
        if unsafe { libc::wait4(pid, &raw mut status, 0, &raw mut used) } == pid {
            break;
        }
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
    let time = |time: libc::timeval| {
        Duration::from_secs(time.tv_sec.max(0).unsigned_abs())
            + Duration::from_micros(time.tv_usec.max(0).unsigned_abs())
    };
    let usage = Usage {
        user: time(used.ru_utime),
        system: time(used.ru_stime),
        // The kernel counts in KiB here.
        max_rss_bytes: used.ru_maxrss.max(0).unsigned_abs() * 1024,
    };
    Ok((ExitStatus::from_raw(status), usage))
}

/// Sends a signal. A target that is already gone is a success.
pub(crate) fn send(target: i32, signal: i32) {
    // SAFETY: plain integers; the caller holds the unreaped child, so the id still belongs to it.
    unsafe { libc::kill(target, signal) };
}

/// Waits until no process of the group runs any more, and returns whether that happened. Zombies that another parent has yet to reap are
/// ignored.
fn wait_for_rest(group: i32) -> bool {
    !group_exists(group) || vanished(group, VANISH_LIMIT)
}

/// Whether no process of the group runs any more within this time.
pub(crate) fn vanished(group: i32, limit: Duration) -> bool {
    let deadline = Instant::now() + limit;
    let mut pause = Pause::default();
    loop {
        if members(group).is_empty() {
            return true;
        }
        if Instant::now() >= deadline {
            return false;
        }
        pause.sleep();
    }
}

fn group_exists(group: i32) -> bool {
    // SAFETY: signal 0 only asks whether the group exists.
    unsafe { libc::kill(-group, 0) == 0 }
}

/// The running processes of a group; none without `/proc`.
pub(crate) fn members(group: i32) -> Vec<i32> {
    let Ok(processes) = fs::read_dir("/proc") else {
        return Vec::new();
    };
    let ids = processes.flatten().filter_map(|process| process.file_name().to_str()?.parse().ok());
    ids.filter(|&id| is_running_member(id, group)).collect()
}

/// The contents of a kernel file. The kernel truncates names of processes after 15 bytes, also inside a character.
pub(crate) fn text_of(file: &str) -> Option<String> {
    fs::read(file).ok().map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
}

fn is_running_member(id: i32, group: i32) -> bool {
    let Some(stat) = text_of(&format!("/proc/{id}/stat")) else { return false };
    // `pid (name) state ppid pgrp ...`; the name may contain spaces and parentheses.
    let mut fields = stat.rsplit(") ").next().unwrap_or_default().split_ascii_whitespace();
    let state = fields.next().unwrap_or_default();
    let member = fields.nth(1).and_then(|field| field.parse::<i32>().ok()) == Some(group);
    member && !matches!(state, "Z" | "X")
}
