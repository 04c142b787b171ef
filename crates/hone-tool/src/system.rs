//! The runner that really starts programs.

use std::fs::{self, File, Metadata};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use crate::call::{Call, Promise};
use crate::child::{Group, Pause};
use crate::error::{Lack, Scene, ToolError, unwaitable};
use crate::interrupt;
use crate::logs::{Logs, file_name_of};
use crate::replay::Recorder;
use crate::runner::{Conversation, Finished, Runner};
use crate::session::Session;
use crate::tail::last_line;

/// Time between TERM and KILL, for a call that Hone ends.
const GRACE: Duration = Duration::from_secs(2);

/// Interval of the search for a line to show in the log.
const PROGRESS_EVERY: Duration = Duration::from_millis(250);

/// The state of a running call, reported a few times per second.
#[derive(Debug, Clone, Copy)]
pub struct Progress<'a> {
    /// The call.
    pub call: &'a Call,
    /// Time since its start.
    pub elapsed: Duration,
    /// The last line of its standard error, or of its standard output if the former is empty.
    pub last_line: Option<&'a str>,
}

type ProgressHook = Box<dyn Fn(Progress<'_>) + Send + Sync>;

/// Starts programs. Every child's outputs go to `<n>-<step>.stdout` and `.stderr` in one folder.
pub struct System {
    log_dir: PathBuf,
    next: AtomicU32,
    progress: Option<ProgressHook>,
    recorder: Option<Recorder>,
}

impl System {
    /// A runner that logs to this folder. It makes the folder, and continues the numbers of an earlier run.
    ///
    /// # Errors
    /// [`ToolError::Unreadable`] if the folder can't be made, listed or written.
    pub fn new(log_dir: impl Into<PathBuf>) -> Result<Self, ToolError> {
        let given = log_dir.into();
        let log_dir = std::path::absolute(&given).unwrap_or(given);
        let first = prepare(&log_dir).map_err(|error| ToolError::Unreadable {
            what: format!("log folder {}", log_dir.display()),
            reason: error.to_string(),
            next: "name a writable folder".to_owned(),
        })?;
        Ok(Self { log_dir, next: AtomicU32::new(first), progress: None, recorder: None })
    }

    /// Calls this a few times per second while a call runs, so that the user sees its progress.
    #[must_use]
    pub fn on_progress(mut self, hook: impl Fn(Progress<'_>) + Send + Sync + 'static) -> Self {
        self.progress = Some(Box::new(hook));
        self
    }

    /// Keeps a transcript of every successful call in this folder, for [`crate::Replay`].
    #[must_use]
    pub fn recording_to(mut self, folder: impl Into<PathBuf>) -> Self {
        self.recorder = Some(Recorder::new(folder.into()));
        self
    }

    /// The folder with the logs.
    pub fn log_dir(&self) -> &Path {
        &self.log_dir
    }

    fn spawn(&self, call: &Call) -> Result<(Group, Logs), ToolError> {
        let (logs, stdout, stderr) = self.logs(call)?;
        match Group::start(call, stdout, stderr) {
            Ok(group) => Ok((group, logs)),
            Err(error) => Err(refusal(call, &error)),
        }
    }

    /// The log files of the next child, open.
    fn logs(&self, call: &Call) -> Result<(Logs, File, File), ToolError> {
        if call.minds_interrupts() && interrupt::requested() {
            return Err(ToolError::Interrupted { scene: Scene::new(call, None) });
        }
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let stem = format!("{number:03}-{}", file_name_of(call.step()));
        let logs = Logs {
            stdout_path: self.log_dir.join(format!("{stem}.stdout")),
            stderr_path: self.log_dir.join(format!("{stem}.stderr")),
        };
        let (stdout, stderr) = (create(&logs.stdout_path)?, create(&logs.stderr_path)?);
        Ok((logs, stdout, stderr))
    }

    /// Waits for the end; ends the group on an interrupt or at the limit.
    fn wait(
        &self,
        call: &Call,
        group: &mut Group,
        logs: &Logs,
        start: Instant,
    ) -> Result<ExitStatus, ToolError> {
        let scene = || Scene::new(call, Some(&logs.stderr_path));
        let mut pause = Pause::default();
        let mut told = start;
        loop {
            if let Some(status) = group.try_exit().map_err(|error| unwaitable(call, &error))? {
                return Ok(status);
            }
            let out_of_time = start.elapsed() >= call.time_limit();
            if out_of_time || call.minds_interrupts() && interrupt::requested() {
                group.end(GRACE).map_err(|error| unwaitable(call, &error))?;
                return Err(if out_of_time {
                    ToolError::TimedOut {
                        scene: scene(),
                        limit: call.time_limit(),
                        waited_for: "it did not end".into(),
                    }
                } else {
                    ToolError::Interrupted { scene: scene() }
                });
            }
            if told.elapsed() >= PROGRESS_EVERY {
                told = Instant::now();
                self.tell(call, logs, start);
            }
            group.wait_a_little(&mut pause);
        }
    }

    fn tell(&self, call: &Call, logs: &Logs, start: Instant) {
        if let Some(hook) = &self.progress {
            let line = last_line(&logs.stderr_path).or_else(|| last_line(&logs.stdout_path));
            hook(Progress { call, elapsed: start.elapsed(), last_line: line.as_deref() });
        }
    }
}

impl Runner for System {
    fn run(&self, call: &Call) -> Result<Finished, ToolError> {
        let before: Vec<Option<Stamp>> =
            call.promises().iter().map(|promise| Stamp::read(&promise.path)).collect();
        let start = Instant::now();
        let (mut group, logs) = self.spawn(call)?;
        let status = self.wait(call, &mut group, &logs, start)?;
        let took = start.elapsed();
        let Some(code) = status.code().filter(|&code| call.accepts(code)) else {
            return Err(ToolError::Failed { scene: Scene::new(call, Some(&logs.stderr_path)), status });
        };
        for (promise, before) in call.promises().iter().zip(before) {
            if let Some(lack) = lack_of(promise, before) {
                let scene = Scene::new(call, Some(&logs.stderr_path));
                return Err(ToolError::NothingProduced { scene, file: promise.path.clone(), lack });
            }
        }
        let usage = group.usage().unwrap_or_default();
        let finished =
            Finished { code, stdout_path: logs.stdout_path, stderr_path: logs.stderr_path, took, usage };
        if let Some(recorder) = &self.recorder {
            recorder.keep(call, &finished)?;
        }
        Ok(finished)
    }

    fn start(&self, call: &Call) -> Result<Session, ToolError> {
        let (group, logs) = self.spawn(call)?;
        Ok(Session::new(call.clone(), group, logs))
    }

    fn converse(&self, call: &Call) -> Result<Conversation, ToolError> {
        let (logs, _, stderr) = self.logs(call)?;
        let pipes = io::pipe().and_then(|to| Ok((to, io::pipe()?)));
        let ((its_input, to_child), (from_child, its_output)) =
            pipes.map_err(|error| refusal(call, &error))?;
        let file = |end: OwnedFd| File::from(end);
        // Closes Hone's copies of the child's ends; otherwise Hone would never see their end.
        let group = Group::start_reading(call, file(its_input.into()), file(its_output.into()), stderr);
        match group {
            Ok(group) => Ok(Conversation {
                session: Session::new(call.clone(), group, logs),
                to_child: file(to_child.into()),
                from_child: file(from_child.into()),
            }),
            Err(error) => Err(refusal(call, &error)),
        }
    }
}

/// Shows whether a file was written again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Stamp {
    inode: (u64, u64),
    modified_ns: (i64, i64),
    changed_ns: (i64, i64),
}

impl Stamp {
    fn read(path: &Path) -> Option<Self> {
        fs::metadata(path).ok().map(|metadata| Self::from(&metadata))
    }
}

impl From<&Metadata> for Stamp {
    fn from(metadata: &Metadata) -> Self {
        Self {
            inode: (metadata.dev(), metadata.ino()),
            modified_ns: (metadata.mtime(), metadata.mtime_nsec()),
            changed_ns: (metadata.ctime(), metadata.ctime_nsec()),
        }
    }
}

fn lack_of(promise: &Promise, before: Option<Stamp>) -> Option<Lack> {
    let Ok(metadata) = fs::metadata(&promise.path) else {
        return Some(Lack::Missing);
    };
    if metadata.len() == 0 {
        return Some(Lack::Empty);
    }
    (promise.fresh && before == Some(Stamp::from(&metadata))).then_some(Lack::Stale)
}

/// Makes the folder, checks that it is writable, and finds the first free number.
fn prepare(folder: &Path) -> io::Result<u32> {
    fs::create_dir_all(folder)?;
    tempfile::tempfile_in(folder)?;
    let mut highest = 0_u32;
    for entry in fs::read_dir(folder)? {
        let name = entry?.file_name();
        let digits: String = name.to_string_lossy().chars().take_while(char::is_ascii_digit).collect();
        highest = highest.max(digits.parse().unwrap_or(0));
    }
    Ok(highest.saturating_add(1))
}

fn create(path: &Path) -> Result<File, ToolError> {
    File::create_new(path).map_err(|error| ToolError::Unreadable {
        what: format!("log {}", path.display()),
        reason: error.to_string(),
        next: "free some space on the disk, or name another log folder".to_owned(),
    })
}

pub(crate) fn refusal(call: &Call, error: &io::Error) -> ToolError {
    let (reason, next) = if !call.cwd().is_dir() {
        (
            format!("the working directory {} does not exist", call.cwd().display()),
            "create it, or name another one",
        )
    } else if call.stdin_file().is_some_and(|file| !file.is_file()) {
        ("the file for its standard input does not exist".to_owned(), "check the file's name")
    } else if error.kind() == io::ErrorKind::NotFound {
        (
            format!("{} (or the interpreter it names) does not exist", call.program().display()),
            "install it, or name another one",
        )
    } else if error.kind() == io::ErrorKind::PermissionDenied {
        (
            format!("{} is not executable: {error}", call.program().display()),
            "check its mode, its owner, and whether its file system is mounted noexec",
        )
    } else {
        (error.to_string(), "check the program's file, the free memory and the limits of processes")
    };
    ToolError::Refused { scene: Scene::new(call, None), reason, next: next.to_owned() }
}
