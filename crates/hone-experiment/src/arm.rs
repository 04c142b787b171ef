//! The target of an arm: a running broker, or a command that Hone starts for each window.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use hone_binary::capture::{self, Dump, ProfileFiles, Stop, StopPlan};
use hone_load::{Admin, Security};
use hone_record::{Metric, Workload};
use hone_tool::{Call, Daemon, Runner, Session, Stopped, ToolError};

use crate::ending::{NotItsOwn, Usage};
use crate::meter::{Meter, Metrics};
use crate::ready::{Ready, ReadyCheck};
use crate::targets::{self, Targets};

/// The target's own commands and signals. Commands run in `folder` and have placeholders.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Ways {
    /// The working directory of commands. Program paths with a `/` are relative to it.
    pub folder: PathBuf,
    /// The sign that it is ready.
    pub ready: Ready,
    /// Command that runs before each start.
    pub prepare: Option<Vec<String>>,
    /// Its own way to stop. SIGTERM follows if it has none, or if that fails.
    pub stop: Option<Vec<String>>,
    /// Command by which it writes its profile.
    pub dump: Option<Vec<String>>,
    /// Signal by which it writes its profile.
    pub dump_signal: Option<i32>,
    /// Command that resets its counters.
    pub reset: Option<Vec<String>>,
}

/// A program, and how to start it.
#[derive(Debug, Clone, PartialEq)]
pub struct Program {
    /// The program.
    pub path: PathBuf,
    /// With placeholders.
    pub args: Vec<String>,
    /// Environment variables on top of this process' environment.
    pub env: BTreeMap<String, OsString>,
    /// With placeholders.
    pub address: String,
    /// Time limit for its start, until it is ready.
    pub ready_timeout: Duration,
    /// Time limit for its stop; then it is killed.
    pub stop_timeout: Duration,
    /// Its commands for checks, for stopping and for its counters.
    pub ways: Box<Ways>,
}

/// The target of an arm's load.
#[derive(Debug, Clone, PartialEq)]
pub enum Place {
    /// A running broker.
    Address(String),
    /// A program that Hone starts and stops.
    Program(Program),
}

/// Metrics for which two loads can't be compared, with the reason: the loads do not share them, or a target that stays alive
/// between its windows distorts them.
pub fn refused(workloads: &[Workload; 2], are_started: bool) -> BTreeMap<Metric, String> {
    let mut refused = hone_record::refused_for_loads(workloads);
    if !are_started {
        refused.extend(hone_compare::refused_of_what_lives_on());
    }
    refused
}

/// One side of a comparison.
#[derive(Debug, Clone, PartialEq)]
pub struct Arm {
    /// Its name in comparisons and files.
    pub name: String,
    /// Its address or its program.
    pub place: Place,
    /// TLS and login.
    pub security: Security,
    /// Its own metrics pages.
    pub metrics: Metrics,
}

/// How to reset the counters of an instrumented program.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Reset {
    /// It can't reset them.
    #[default]
    Not,
    /// By the target's own command.
    Own,
    /// By the signal of the linked dump object.
    Signal,
}

/// A running arm that answers.
#[derive(Debug)]
pub struct Running {
    /// `host:port` of a target that Hone did not start.
    pub address: String,
    /// Its own metrics pages, with its ports.
    metrics: Metrics,
    started: Option<Started>,
}

/// A program that Hone started. Fields are dropped in their order, so the process ends before its data is deleted.
#[derive(Debug)]
struct Started {
    session: Session,
    grace: Duration,
    ways: Box<Ways>,
    filling: Filling,
    start_up: Duration,
    whose: Whose,
    _data: DataFolder,
}

/// The owner of a started program's port.
#[derive(Debug)]
enum Whose {
    /// The program, or a process below it.
    Program,
    /// A process that the program put into the background.
    Daemon(Daemon),
    /// The owner is unknown or a foreign process, with the reason.
    Unknown(String),
}

impl Whose {
    /// Finds the process that listens on the address of a ready program.
    fn listens_on(address: &str, session: &Session, step: &str) -> Self {
        // Without a visible owner, the server uses another port, or dropped its privileges. The process tree
        // is still the started one.
        let Some((pid, program)) = targets::listens_on(address) else { return Self::Program };
        if is_of(session, pid) {
            return Self::Program;
        }
        let stranger =
            || format!("{address} belongs to {program} (process {pid}), which the command did not start");
        // Hone adopts the orphans of its children.
        let daemon = is_below(std::process::id(), pid).then(|| Daemon::adopt(pid, step)).flatten();
        daemon.map_or_else(|| Self::Unknown(stranger()), Self::Daemon)
    }
}

fn is_below(parent: u32, pid: u32) -> bool {
    hone_host::cpu::tree(parent).unwrap_or_default().contains(&pid)
}

fn is_of(session: &Session, pid: u32) -> bool {
    is_below(session.pid(), pid) || session.processes().contains(&pid)
}

/// A folder that is deleted after use.
#[derive(Debug)]
pub struct DataFolder(PathBuf);

impl Drop for DataFolder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Time limit for the answer of a running broker.
const ANSWER_LIMIT: Duration = Duration::from_secs(10);

/// Whether a text is a command, and not a running broker.
pub fn is_command(text: &str) -> bool {
    !is_address(text)
}

impl Place {
    /// `host:port` is an address. Anything else is a command line, which is split like a shell, but no shell runs it. `prepare` has the words of a
    /// command that runs before each start; it is empty without one.
    pub fn parse(
        text: &str,
        prepare: &[String],
        ready_timeout: Duration,
        stop_timeout: Duration,
    ) -> Result<Self> {
        if is_address(text) {
            if !prepare.is_empty() {
                bail!(Usage(format!(
                    "{text} runs already, so there is nothing to prepare\n  next: remove `prepare`, or name a command that starts the broker"
                )));
            }
            return Ok(Self::Address(text.to_owned()));
        }
        let words = words_of(text).map_err(Usage)?;
        let Some((path, args)) = words.split_first() else {
            bail!(Usage(
                "an arm is empty; name host:port of a running broker, or a command that starts one"
                    .to_owned()
            ));
        };
        if let Some(word) = args.iter().chain(prepare).find_map(|arg| unknown_placeholder(arg)) {
            let known = PLACEHOLDERS.map(|word| format!("{{{word}}}")).join(", ");
            let both = args.iter().chain(prepare).map(String::as_str).collect::<Vec<_>>().join(" ");
            bail!(Usage(format!("unknown placeholder {{{word}}} in `{both}`; use one of: {known}")));
        }
        if args.is_empty() && path.ends_with(".json") {
            bail!(
                "there is no record {path}\n  next: name two record files, or brokers by HOST:PORT or by commands"
            );
        }
        if !args.iter().chain(prepare).any(|arg| arg.contains("{port}")) {
            bail!(Usage(format!(
                "`{text}` is not host:port of a running broker, and as a command it needs {{port}}: Hone \
                 picks a free port for each start; write for example `{path} --listen 127.0.0.1:{{port}}` \
                 ({{data}} is a fresh folder, {{port2}} a second port)"
            )));
        }
        Ok(Self::Program(Program {
            path: find_program(path)?,
            args: args.to_vec(),
            env: BTreeMap::new(),
            address: "127.0.0.1:{port}".to_owned(),
            ready_timeout,
            stop_timeout,
            ways: Box::new(Ways {
                prepare: Some(prepare.to_vec()).filter(|words| !words.is_empty()),
                ..Ways::default()
            }),
        }))
    }
}

/// The words of a command line, split like a shell does.
///
/// # Errors
/// With an unclosed quote.
pub fn words_of(text: &str) -> Result<Vec<String>, String> {
    shlex::split(text).ok_or_else(|| format!("`{text}` has an unclosed quote"))
}

/// Whether it is `host:port`, and not a command.
pub fn is_address(text: &str) -> bool {
    let port = text.rsplit_once(':').and_then(|(host, port)| (!host.is_empty()).then_some(port));
    !text.contains(char::is_whitespace)
        && !text.contains('/')
        && port.is_some_and(|port| port.parse::<u16>().is_ok())
}

/// Finds a program by path or by name in PATH, before anything is measured.
pub fn find_program(name: &str) -> Result<PathBuf> {
    let path = Path::new(name);
    if name.contains('/') {
        return path.canonicalize().with_context(|| format!("the program {name} does not exist"));
    }
    let folders = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&folders)
        .map(|folder| folder.join(name))
        .find(|candidate| candidate.is_file())
        .with_context(|| format!("there is no program `{name}` in PATH, and `{name}` is not host:port"))
}

/// The command of this program's own broker, with a fresh data folder for every window.
pub fn embedded() -> Result<String> {
    let own = std::env::current_exe().context("the path of this program is not known")?;
    let own = own
        .to_str()
        .context("the path of this program is not valid UTF-8; name the broker's command as the target")?;
    let own = shlex::try_quote(own).context("the path of this program can't be quoted")?;
    Ok(format!("{own} broker --listen 127.0.0.1:{{port}} --metrics-listen off --data {{data}}"))
}

impl Arm {
    /// The program that Hone starts; `None` for a running broker.
    pub fn program(&self) -> Option<&Program> {
        match &self.place {
            Place::Program(program) => Some(program),
            Place::Address(_) => None,
        }
    }

    /// Starts the arm if it is a program, and waits until it is ready. Its data folder is made in `scratch`.
    pub fn start(&self, runner: &dyn Runner, scratch: &Path) -> Result<Running> {
        match &self.place {
            Place::Address(address) => {
                Admin::ready_with(address, &self.security, ANSWER_LIMIT)
                    .with_context(|| format!("{} is not ready", self.name))?;
                let metrics = self.metrics.filled(str::to_owned);
                Ok(Running { address: address.clone(), metrics, started: None })
            }
            Place::Program(program) => self.start_program(program, runner, scratch),
        }
    }

    /// Another process may take a free port before the program does. Such a program is started once more with other ports.
    fn start_program(&self, program: &Program, runner: &dyn Runner, scratch: &Path) -> Result<Running> {
        match self.start_once(program, runner, scratch) {
            Err(error) if lost_its_port(&error) => self.start_once(program, runner, scratch),
            started => started,
        }
    }

    fn start_once(&self, program: &Program, runner: &dyn Runner, scratch: &Path) -> Result<Running> {
        let (call, filling, data) = program.made_ready(&self.name, &[], runner, scratch)?;
        let address = filling.fill(&program.address);
        let ways = &program.ways;
        let command = match &ways.ready {
            Ready::Command(words) => {
                let call = ways.call("ready", words, &filling)?;
                Some(call.limit(Ready::command_limit(program.ready_timeout)))
            }
            _ => None,
        };
        let mut logs = data.0.clone().into_os_string();
        logs.push(".ready");
        let asked = ReadyCheck { address: &address, security: &self.security, command, logs: logs.into() };
        hone_tool::adopt_orphans();
        let mut session = runner.start(&call)?;
        let start_up = match ways.ready.wait(&mut session, &asked, program.ready_timeout) {
            Err(error) if ended_well(&error) => return Err(in_the_background(&address, &session, error)),
            started => started?,
        };
        let whose = Whose::listens_on(&address, &session, call.step());
        let (grace, ways) = (program.stop_timeout, ways.clone());
        Ok(Running {
            address,
            metrics: self.metrics.filled(|url| filling.fill(url)),
            started: Some(Started { session, grace, ways, filling, start_up, whose, _data: data }),
        })
    }
}

impl Program {
    /// The call that starts it in a fresh data folder, with `more` arguments after its own. Its command `prepare` has filled the folder.
    ///
    /// # Errors
    /// Fails when there is no folder or no port, or the command fails.
    pub fn made_ready(
        &self,
        name: &str,
        more: &[String],
        runner: &dyn Runner,
        scratch: &Path,
    ) -> Result<(Call, Filling, DataFolder)> {
        let data = DataFolder(fresh_folder(scratch, name)?);
        let filling = Filling::new(&data.0)?;
        let mut call = Call::new(format!("start-{name}"), &self.path, &data.0)
            .args(self.args.iter().chain(more).map(|arg| filling.fill(arg)));
        for (name, value) in &self.env {
            // A value may contain a port, too. A value that is not UTF-8 has no placeholders.
            let value = value.to_str().map_or_else(|| value.clone(), |value| filling.fill(value).into());
            call = call.env(name, value);
        }
        if let Some(words) = &self.ways.prepare {
            runner.run(&self.ways.call("prepare", words, &filling)?.limit(self.ready_timeout))?;
        }
        Ok((call, filling, data))
    }
}

impl Ways {
    /// A command as a call.
    pub fn call(&self, step: &str, words: &[String], filling: &Filling) -> Result<Call> {
        let Some((program, arguments)) = words.split_first() else {
            bail!(Usage(format!("the command `{step}` is empty")));
        };
        let here = std::env::current_dir().context("the working directory does not exist any more")?;
        let folder = here.join(&self.folder);
        let program = filling.fill(program);
        let program = if program.contains('/') { folder.join(program) } else { PathBuf::from(program) };
        Ok(Call::new(step, program, folder).args(arguments.iter().map(|word| filling.fill(word))))
    }
}

impl Running {
    /// Reads its own counters, right before a window.
    ///
    /// # Errors
    /// When they can't be read.
    pub fn meter(&self) -> Result<Option<Meter>> {
        self.metrics.begin()
    }

    /// The process that Hone started for this arm.
    pub fn child(&self) -> Option<u32> {
        self.started.as_ref().map(|started| started.session.pid())
    }

    /// This process and those that it started.
    pub fn processes(&self) -> Vec<u32> {
        self.started.as_ref().map(|started| started.session.processes()).unwrap_or_default()
    }

    /// Time from the start until it was ready; `None` for a running broker.
    pub fn start_up(&self) -> Option<Duration> {
        self.started.as_ref().map(|started| started.start_up)
    }

    /// The processes whose CPU counts if the load goes to a cluster of these brokers.
    pub fn targets(&self, brokers: &BTreeMap<i32, String>) -> Targets {
        let Some(started) = &self.started else { return Targets::behind(brokers) };
        let pid = started.session.pid();
        if let Some(why) = started.sends_elsewhere(brokers) {
            return Targets::unknown(why);
        }
        match &started.whose {
            Whose::Program => Targets::started(pid),
            Whose::Daemon(daemon) => Targets::followed(pid, daemon.pid()),
            Whose::Unknown(why) => Targets::unknown(why.clone()),
        }
    }

    /// Fails if the program of the arm has exited.
    pub fn check_alive(&mut self) -> Result<()> {
        match &mut self.started {
            Some(Started { whose: Whose::Daemon(daemon), .. }) if !daemon.is_alive() => {
                bail!(
                    "the server that the command put into the background (process {}) has exited",
                    daemon.pid()
                )
            }
            Some(started) => Ok(started.session.check_alive("being loaded")?),
            None => Ok(()),
        }
    }

    /// A command for this arm, with its placeholders and those of `more` filled in.
    pub fn call(&self, step: &str, words: &[String], more: &[(&'static str, String)]) -> Result<Call> {
        let started =
            self.started.as_ref().context("only a program that Hone starts has a port to fill in")?;
        let filling = Filling { words: [started.filling.words.as_slice(), more].concat() };
        started.ways.call(step, words, &filling)
    }

    /// Text with this arm's placeholders filled in.
    pub fn fill(&self, text: &str) -> String {
        self.started.as_ref().map_or_else(|| text.to_owned(), |started| started.filling.fill(text))
    }

    /// Resets the counters of an instrumented program.
    pub fn reset(&mut self, runner: &dyn Runner, by: Reset) -> Result<()> {
        let Some(started) = &mut self.started else { return Ok(()) };
        match (by, &started.ways.reset) {
            (Reset::Own, Some(words)) => {
                runner.run(&started.ways.call("reset", words, &started.filling)?.limit(started.grace))?;
            }
            (Reset::Signal, _) => {
                capture::reset(&mut started.session)?;
            }
            (Reset::Not, _) | (Reset::Own, None) => {}
        }
        Ok(())
    }

    /// Whether it handles one of these signals itself.
    pub fn handles(&self, signals: &[i32]) -> bool {
        self.started.as_ref().is_some_and(|started| started.session.handles(signals))
    }

    /// Stops a program that Hone started, and removes its data. A running broker keeps running.
    pub fn stop(self, runner: &dyn Runner) -> Result<Option<Stopped>> {
        let Some(mut started) = self.started else { return Ok(None) };
        if let Some(call) = started.stop_call()? {
            match runner.run(&call) {
                // A server that exits at once may close the connection over which it was stopped.
                Ok(_) | Err(ToolError::Failed { .. } | ToolError::TimedOut { .. }) => {}
                Err(error) => return Err(error.into()),
            }
            started.session.wait_end(started.grace, started.grace)?;
        }
        let stopped = started.session.stop(started.grace)?;
        if let Whose::Daemon(daemon) = started.whose {
            daemon.stop(started.grace);
        }
        Ok(Some(stopped))
    }

    /// Stops an instrumented program so that it writes its profile. `dump` gets the profile of a running program, unless the
    /// target has its own way.
    ///
    /// # Errors
    /// When there is no profile, with the remedy.
    pub fn stop_with_profile(self, runner: &dyn Runner, files: ProfileFiles, dump: Dump) -> Result<Stop> {
        let started = self
            .started
            .context("Hone did not start this broker, so it is not instrumented and not stopped")?;
        let ways = &started.ways;
        let dump = match (&ways.dump, ways.dump_signal) {
            (Some(words), _) => {
                Dump::Command(Box::new(ways.call("dump", words, &started.filling)?.limit(started.grace)))
            }
            (None, Some(signal)) => Dump::Signal(signal),
            (None, None) => dump,
        };
        let plan = StopPlan { dump, command: started.stop_call()?, grace: started.grace, files };
        capture::stop(runner, started.session, &plan)
    }
}

impl Started {
    /// A command may answer on its port with addresses of brokers that it did not start. The load then goes to them.
    fn sends_elsewhere(&self, brokers: &BTreeMap<i32, String>) -> Option<String> {
        let is_own = |pid: u32| {
            let of_daemon = matches!(&self.whose, Whose::Daemon(daemon) if is_below(daemon.pid(), pid));
            of_daemon || is_of(&self.session, pid)
        };
        brokers.iter().find_map(|(id, address)| {
            let (pid, program) = targets::listens_on(address).filter(|(pid, _)| !is_own(*pid))?;
            Some(format!(
                "the load goes to broker {id} at {address}, which is {program} (process {pid}); the command \
                 did not start that process"
            ))
        })
    }

    fn stop_call(&self) -> Result<Option<Call>> {
        let call = |words: &Vec<String>| self.ways.call("stop", words, &self.filling);
        Ok(self.ways.stop.as_ref().map(call).transpose()?.map(|call| call.limit(self.grace)))
    }
}

/// Whether a program exited successfully before it was ready.
fn ended_well(error: &anyhow::Error) -> bool {
    matches!(error.downcast_ref(), Some(ToolError::Died { status, .. }) if status.success())
}

/// The error of a program that exited and left a server behind. Hone ends that server, since it can neither measure nor stop it
/// safely.
fn in_the_background(address: &str, session: &Session, error: anyhow::Error) -> anyhow::Error {
    /// Time that a daemon may take until it listens.
    const LISTENS_WITHIN: Duration = Duration::from_secs(10);
    let deadline = std::time::Instant::now() + LISTENS_WITHIN;
    while std::time::Instant::now() < deadline {
        if let Whose::Daemon(daemon) = Whose::listens_on(address, session, session.call().step()) {
            let program = hone_host::ports::program_of(daemon.pid()).unwrap_or_default();
            daemon.stop(LISTENS_WITHIN);
            return Usage(format!(
                "{}: the command has exited and left {program} listening on {address} in the background; \
                 Hone has ended that process\n  next: start the server in the foreground, for example \
                 without --daemon or with daemonize off",
                session.call().step()
            ))
            .into();
        }
        std::thread::sleep(hone_tool::LOOK_EVERY);
    }
    error
}

/// Whether a program exited before it was ready, because another process has its port.
fn lost_its_port(error: &anyhow::Error) -> bool {
    /// The messages of the C library, Java, Rust and Go.
    const WORDS: [&str; 3] = ["address already in use", "address in use", "eaddrinuse"];
    let Some(ToolError::Died { scene, .. }) = error.downcast_ref() else { return false };
    let said = scene.stderr.join("\n").to_lowercase();
    WORDS.iter().any(|words| said.contains(words))
}

fn fresh_folder(scratch: &Path, name: &str) -> Result<PathBuf> {
    for number in 0..10_000 {
        let folder = scratch.join(format!("{name}-{number}"));
        match std::fs::create_dir_all(scratch).and_then(|()| std::fs::create_dir(&folder)) {
            Ok(()) => return Ok(folder),
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
            Err(error) => {
                return Err(error)
                    .with_context(|| format!("the data folder {} can't be created", folder.display()));
            }
        }
    }
    bail!(NotItsOwn(format!(
        "{} is full of data folders of earlier runs\n  next: remove it",
        scratch.display()
    )))
}

/// The placeholders of a program's arguments.
const PLACEHOLDERS: [&str; 3] = ["port", "port2", "data"];

/// The additional placeholders of a load's commands.
pub const OF_A_LOAD: [&str; 2] = ["operations", "seed"];

/// A `{word}` that is not a placeholder.
pub fn unknown_placeholder(text: &str) -> Option<&str> {
    words_in_braces(text).find(|word| !PLACEHOLDERS.contains(word))
}

/// The same in a command of a load.
pub fn unknown_in_a_load(text: &str) -> Option<&str> {
    words_in_braces(text).find(|word| !PLACEHOLDERS.contains(word) && !OF_A_LOAD.contains(word))
}

fn words_in_braces(text: &str) -> impl Iterator<Item = &str> {
    let words = text.split('{').skip(1).filter_map(|rest| rest.split_once('}')).map(|(word, _)| word);
    words.filter(|word| !word.is_empty() && word.chars().all(|letter| letter.is_ascii_alphanumeric()))
}

/// The values of placeholders.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Filling {
    words: Vec<(&'static str, String)>,
}

impl Filling {
    /// Two free ports and a data folder.
    fn new(data: &Path) -> Result<Self> {
        let [port, port2] = free_ports()?;
        let values = [port.to_string(), port2.to_string(), data.display().to_string()];
        Ok(Self { words: PLACEHOLDERS.into_iter().zip(values).collect() })
    }

    /// The text with its placeholders filled in.
    pub fn fill(&self, text: &str) -> String {
        self.words
            .iter()
            .fold(text.to_owned(), |text, (word, value)| text.replace(&format!("{{{word}}}"), value))
    }
}

/// Two ports that were free a moment ago. Both are bound at the same time, so that they differ.
fn free_ports() -> Result<[u16; 2]> {
    let held: Vec<TcpListener> = (0..2)
        .map(|_| TcpListener::bind(("127.0.0.1", 0)))
        .collect::<Result<_, _>>()
        .map_err(|error| NotItsOwn(format!("there is no free port on 127.0.0.1: {error}")))?;
    Ok([held[0].local_addr()?.port(), held[1].local_addr()?.port()])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Place> {
        Place::parse(text, &[], Duration::from_secs(1), Duration::from_secs(1))
    }

    #[test]
    fn a_program_that_lost_its_port_is_started_once_more_and_one_that_just_ends_is_not() {
        let dir = tempfile::tempdir().unwrap();
        let runner = hone_tool::System::new(dir.path().join("log")).unwrap();
        let started = |script: String| {
            let (dir, count) = (dir.path(), dir.path().join("count"));
            let _ = std::fs::remove_file(&count);
            let script = format!("echo {{port}} >> {}; {script}", count.display());
            let arm = Arm {
                name: "server".to_owned(),
                place: Place::Program(Program {
                    path: "/bin/sh".into(),
                    args: vec!["-c".to_owned(), script],
                    env: BTreeMap::new(),
                    address: "127.0.0.1:{port}".to_owned(),
                    ready_timeout: Duration::from_secs(60),
                    stop_timeout: Duration::from_secs(5),
                    ways: Box::new(Ways { ready: Ready::Line("serving".to_owned()), ..Ways::default() }),
                }),
                security: Security::default(),
                metrics: Metrics::default(),
            };
            let found = arm.start(&runner, &dir.join("scratch")).map(drop);
            (found, std::fs::read_to_string(count).unwrap().lines().count())
        };
        let (lost, again) = ("echo 'bind: Address already in use' >&2; exit 1", "exec sleep 60");
        let first = dir.path().join("first").display().to_string();
        let (found, starts) =
            started(format!("if mkdir {first} 2>&-; then {lost}; fi; echo serving; {again}"));
        assert!(found.is_ok() && starts == 2, "{found:?} {starts}");
        let (found, starts) = started(lost.to_owned());
        assert!(found.is_err() && starts == 2, "it may be its own fault: {found:?} {starts}");
        let (found, starts) = started("echo 'no such option' >&2; exit 1".to_owned());
        assert!(found.is_err() && starts == 1, "{found:?} {starts}");
    }

    #[test]
    fn addresses_and_commands_are_told_apart() {
        for address in ["127.0.0.1:9092", "broker-1.example:9092", "[::1]:9092"] {
            assert_eq!(parse(address).unwrap(), Place::Address(address.to_owned()));
        }
        let Place::Program(program) = parse("sh -c 'a b' --listen 127.0.0.1:{port}").unwrap() else {
            panic!("not a program");
        };
        assert!(program.path.is_absolute());
        assert_eq!(program.args, ["-c", "a b", "--listen", "127.0.0.1:{port}"]);
    }

    #[test]
    fn arms_that_can_be_neither_are_refused() {
        for (text, expected) in [
            ("no-such-program {port}", "no program `no-such-program` in PATH"),
            ("sh -c true", "needs {port}"),
            ("sh {prt} {port}", "unknown placeholder {prt}"),
            ("sh 'x", "unclosed quote"),
            ("", "an arm is empty"),
            ("./no/such {port}", "the program ./no/such does not exist"),
        ] {
            let message = format!("{:#}", parse(text).unwrap_err());
            assert!(message.contains(expected), "{text}: {message}");
        }
    }
}
