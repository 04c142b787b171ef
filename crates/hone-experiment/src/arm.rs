//! What stands behind an arm of a comparison: a broker that runs already, or a command that is started for each window.

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

/// How a started program is asked for what a signal can't say. Commands are carried out in `folder`, and hold placeholders.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Ways {
    /// Where commands are carried out, and from where programs with a `/` in their names are meant.
    pub folder: PathBuf,
    /// What must be true before it is loaded.
    pub ready: Ready,
    /// Its own way to stop; SIGTERM without one, and behind one that did not help.
    pub stop: Option<Vec<String>>,
    /// Makes it write its profile.
    pub dump: Option<Vec<String>>,
    /// Makes it write its profile, as a signal that it knows.
    pub dump_signal: Option<i32>,
    /// Sets its counters to 0.
    pub reset: Option<Vec<String>>,
}

/// A program and how it is started.
#[derive(Debug, Clone, PartialEq)]
pub struct Program {
    /// The program.
    pub path: PathBuf,
    /// With placeholders.
    pub args: Vec<String>,
    /// Set in its environment, over what this process has.
    pub env: BTreeMap<String, OsString>,
    /// With placeholders.
    pub address: String,
    /// It failed to start when it is not ready after this.
    pub ready_timeout: Duration,
    /// It is killed when it has not ended after this.
    pub stop_timeout: Duration,
    /// How it is checked, stopped and made to write its counters.
    pub ways: Box<Ways>,
}

/// Where an arm's load goes.
#[derive(Debug, Clone, PartialEq)]
pub enum Place {
    /// A broker that runs already.
    Address(String),
    /// A program that Hone starts and stops.
    Program(Program),
}

/// Metrics by which two loads of targets can't be compared, with the reason: what the loads don't have in common, and what a target that
/// lives on between its windows keeps.
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
    /// As comparisons and files call it.
    pub name: String,
    /// Where it runs, and who starts it.
    pub place: Place,
    /// TLS and login.
    pub security: Security,
    /// Where its own counters are.
    pub metrics: Metrics,
}

/// How the counters of an instrumented program are set to 0.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Reset {
    /// They are not.
    #[default]
    Not,
    /// By the target's own command.
    Own,
    /// By the signal of the dump object that it was linked with.
    Signal,
}

/// An arm that is up and answers.
#[derive(Debug)]
pub struct Running {
    /// `host:port` of a target that somebody else started.
    pub address: String,
    /// Where its own counters are, with its ports.
    metrics: Metrics,
    started: Option<Started>,
}

/// A program that Hone started. What is declared first is dropped first: the process goes before its data.
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

/// Whose the port of a started program is.
#[derive(Debug)]
enum Whose {
    /// Of the program, or of a process below it.
    Program,
    /// Of a process that the program put into the background.
    Daemon(Daemon),
    /// It can't be known, or it is somebody else's: why.
    Unknown(String),
}

impl Whose {
    /// Who listens on the address of a program that is ready.
    fn listens_on(address: &str, session: &Session, step: &str) -> Self {
        // Where nobody is seen, the server has another port, or has given up its rights: the tree is still what was started.
        let Some((pid, program)) = targets::listens_on(address) else { return Self::Program };
        if is_of(session, pid) {
            return Self::Program;
        }
        let stranger = || {
            format!(
                "{address} is served by {program} (process {pid}), which is none of the processes that the command has started"
            )
        };
        // Hone is the parent of what its children leave behind.
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

/// A folder that goes when nobody needs it any more.
#[derive(Debug)]
pub struct DataFolder(PathBuf);

impl Drop for DataFolder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Time that a broker which is said to run already has to answer.
const ANSWER_LIMIT: Duration = Duration::from_secs(10);

/// Whether a text names a command, and no broker that runs.
pub fn is_command(text: &str) -> bool {
    !is_address(text)
}

impl Place {
    /// `host:port` is an address, anything else a command line, split as a shell would and never given to one.
    pub fn parse(text: &str, ready_timeout: Duration, stop_timeout: Duration) -> Result<Self> {
        if is_address(text) {
            return Ok(Self::Address(text.to_owned()));
        }
        let words = shlex::split(text).ok_or_else(|| Usage(format!("`{text}` has an unclosed quote")))?;
        let Some((path, args)) = words.split_first() else {
            bail!(Usage(
                "an arm is empty: name host:port of a running broker, or a command that starts one"
                    .to_owned()
            ));
        };
        if let Some(word) = args.iter().find_map(|arg| unknown_placeholder(arg)) {
            let known = PLACEHOLDERS.map(|word| format!("{{{word}}}")).join(", ");
            bail!(Usage(format!("unknown placeholder {{{word}}} in `{text}`; there are {known}")));
        }
        if args.is_empty() && path.ends_with(".json") {
            bail!(Usage(format!(
                "there is no record {path}; two records are compared by their files, and brokers by host:port or by commands"
            )));
        }
        if !args.iter().any(|arg| arg.contains("{port}")) {
            bail!(Usage(format!(
                "`{text}` is no host:port of a running broker, and as a command it has no {{port}}: Hone picks a free port \
                 for each start; write for example `{path} --listen 127.0.0.1:{{port}}` ({{data}} is a fresh folder, \
                 {{port2}} a second port)"
            )));
        }
        Ok(Self::Program(Program {
            path: find_program(path)?,
            args: args.to_vec(),
            env: BTreeMap::new(),
            address: "127.0.0.1:{port}".to_owned(),
            ready_timeout,
            stop_timeout,
            ways: Box::default(),
        }))
    }
}

/// Whether it is `host:port`, and no command.
pub fn is_address(text: &str) -> bool {
    let port = text.rsplit_once(':').and_then(|(host, port)| (!host.is_empty()).then_some(port));
    !text.contains(char::is_whitespace)
        && !text.contains('/')
        && port.is_some_and(|port| port.parse::<u16>().is_ok())
}

/// A program by path or by name in PATH, found before anything is measured.
pub fn find_program(name: &str) -> Result<PathBuf> {
    let path = Path::new(name);
    if name.contains('/') {
        return path.canonicalize().with_context(|| format!("there is no program {name}"));
    }
    let folders = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&folders)
        .map(|folder| folder.join(name))
        .find(|candidate| candidate.is_file())
        .with_context(|| format!("there is no program `{name}` in PATH, and `{name}` is no host:port either"))
}

/// The command of this program's own broker, with a fresh data folder for every window.
pub fn embedded() -> Result<String> {
    let own = std::env::current_exe().context("the path of this program is not known")?;
    let own = own
        .to_str()
        .context("the path of this program is no text; name the broker's command as the target")?;
    let own = shlex::try_quote(own).context("the path of this program can't be quoted")?;
    Ok(format!("{own} broker --listen 127.0.0.1:{{port}} --metrics off --data {{data}}"))
}

impl Arm {
    /// Starts the arm if it is a program, and waits until it is ready. `scratch` is where a data folder may be made.
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

    /// Ports are free until somebody else takes them. A program that lost its own to another one is no worse for it, and is started once
    /// more with others.
    fn start_program(&self, program: &Program, runner: &dyn Runner, scratch: &Path) -> Result<Running> {
        match self.start_once(program, runner, scratch) {
            Err(error) if lost_its_port(&error) => self.start_once(program, runner, scratch),
            started => started,
        }
    }

    fn start_once(&self, program: &Program, runner: &dyn Runner, scratch: &Path) -> Result<Running> {
        let (call, filling, data) = program.made_ready(&self.name, &[], scratch)?;
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
    /// The call that starts it in a fresh data folder, with `more` arguments behind its own.
    pub fn made_ready(
        &self,
        name: &str,
        more: &[String],
        scratch: &Path,
    ) -> Result<(Call, Filling, DataFolder)> {
        let data = DataFolder(fresh_folder(scratch, name)?);
        let filling = Filling::new(&data.0)?;
        let mut call = Call::new(format!("start-{name}"), &self.path, &data.0)
            .args(self.args.iter().chain(more).map(|arg| filling.fill(arg)));
        for (name, value) in &self.env {
            // A port may stand there, too. What is no text has no placeholders.
            let value = value.to_str().map_or_else(|| value.clone(), |value| filling.fill(value).into());
            call = call.env(name, value);
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
        let here = std::env::current_dir().context("there is no current folder")?;
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
    /// When they can't be asked for at all.
    pub fn meter(&self) -> Result<Option<Meter>> {
        self.metrics.begin()
    }

    /// The process that was started for this arm.
    pub fn child(&self) -> Option<u32> {
        self.started.as_ref().map(|started| started.session.pid())
    }

    /// It and those that it has started.
    pub fn processes(&self) -> Vec<u32> {
        self.started.as_ref().map(|started| started.session.processes()).unwrap_or_default()
    }

    /// From the start until it was ready; `None` where it ran before.
    pub fn start_up(&self) -> Option<Duration> {
        self.started.as_ref().map(|started| started.start_up)
    }

    /// The processes whose CPU counts when the load goes to a cluster of these brokers.
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

    /// Fails when the program behind the arm has ended.
    pub fn check_alive(&mut self) -> Result<()> {
        match &mut self.started {
            Some(Started { whose: Whose::Daemon(daemon), .. }) if !daemon.is_alive() => {
                bail!(
                    "the server that the command put into the background (process {}) has ended",
                    daemon.pid()
                )
            }
            Some(started) => Ok(started.session.check_alive("being loaded")?),
            None => Ok(()),
        }
    }

    /// A command about this arm, with its placeholders and those of `more` filled in.
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

    /// Sets the counters of an instrumented program to 0.
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

    /// Whether it has a handler of its own for one of these signals.
    pub fn handles(&self, signals: &[i32]) -> bool {
        self.started.as_ref().is_some_and(|started| started.session.handles(signals))
    }

    /// Stops what was started and removes its data. What ran before goes on running.
    pub fn stop(self, runner: &dyn Runner) -> Result<Option<Stopped>> {
        let Some(mut started) = self.started else { return Ok(None) };
        if let Some(call) = started.stop_call()? {
            match runner.run(&call) {
                // A server that ends at once may well cut off the connection by which it was told to.
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

    /// Stops an instrumented program so that its profile gets onto disk. `dump` is how it is had from a program that still
    /// runs, unless the target has a way of its own.
    ///
    /// # Errors
    /// When no profile was written, with the remedy.
    pub fn stop_with_profile(self, runner: &dyn Runner, files: ProfileFiles, dump: Dump) -> Result<Stop> {
        let started =
            self.started.context("a broker that ran before is not instrumented, and not stopped")?;
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
    /// A command may answer on its port with the addresses of brokers that it has not started: the load goes there, and passes it by.
    fn sends_elsewhere(&self, brokers: &BTreeMap<i32, String>) -> Option<String> {
        let is_own = |pid: u32| {
            let of_daemon = matches!(&self.whose, Whose::Daemon(daemon) if is_below(daemon.pid(), pid));
            of_daemon || is_of(&self.session, pid)
        };
        brokers.iter().find_map(|(id, address)| {
            let (pid, program) = targets::listens_on(address).filter(|(pid, _)| !is_own(*pid))?;
            Some(format!(
                "the load goes to broker {id} at {address}, which is {program} (process {pid}), none of the processes that the command has \
                 started"
            ))
        })
    }

    fn stop_call(&self) -> Result<Option<Call>> {
        let call = |words: &Vec<String>| self.ways.call("stop", words, &self.filling);
        Ok(self.ways.stop.as_ref().map(call).transpose()?.map(|call| call.limit(self.grace)))
    }
}

/// Whether a program ended before it was ready, and says that all is well.
fn ended_well(error: &anyhow::Error) -> bool {
    matches!(error.downcast_ref(), Some(ToolError::Died { status, .. }) if status.success())
}

/// What a program that has ended means if it left a server behind, which is ended: Hone could neither measure nor stop it safely.
fn in_the_background(address: &str, session: &Session, error: anyhow::Error) -> anyhow::Error {
    /// What a daemon may take until it listens.
    const LISTENS_WITHIN: Duration = Duration::from_secs(10);
    let deadline = std::time::Instant::now() + LISTENS_WITHIN;
    while std::time::Instant::now() < deadline {
        if let Whose::Daemon(daemon) = Whose::listens_on(address, session, session.call().step()) {
            let program = hone_host::ports::program_of(daemon.pid()).unwrap_or_default();
            daemon.stop(LISTENS_WITHIN);
            return Usage(format!(
                "{}: the command has ended, and left {program} listening on {address} in the background; Hone has ended that\n  \
                 next: start the server in the foreground, for example without --daemon or with daemonize off",
                session.call().step()
            ))
            .into();
        }
        std::thread::sleep(hone_tool::LOOK_EVERY);
    }
    error
}

/// Whether a program ended before it was ready, saying that somebody else has its port.
fn lost_its_port(error: &anyhow::Error) -> bool {
    /// As the system's libraries, Java's, Rust's and Go's say it.
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
                    .with_context(|| format!("the data folder {} can't be made", folder.display()));
            }
        }
    }
    bail!(NotItsOwn(format!("{} is full of data folders of earlier runs; remove it", scratch.display())))
}

/// The placeholders of a program's arguments.
const PLACEHOLDERS: [&str; 3] = ["port", "port2", "data"];

/// Those of a load's commands beside them.
pub const OF_A_LOAD: [&str; 2] = ["operations", "seed"];

/// A `{word}` that nobody will fill.
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

/// What stands for placeholders.
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

/// Two ports that were free a moment ago. Both are held at once, so that they differ.
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
        Place::parse(text, Duration::from_secs(1), Duration::from_secs(1))
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
            ("sh -c true", "has no {port}"),
            ("sh {prt} {port}", "unknown placeholder {prt}"),
            ("sh 'x", "unclosed quote"),
            ("", "an arm is empty"),
            ("./no/such {port}", "there is no program ./no/such"),
        ] {
            let message = format!("{:#}", parse(text).unwrap_err());
            assert!(message.contains(expected), "{text}: {message}");
        }
    }
}
