//! What stands behind an arm of a comparison: a broker that runs already, or a command that is started for each window.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use hone_load::{Admin, Security};
use hone_tool::{Call, Readiness, Runner, Session, Stopped};

use crate::Usage;
use crate::targets::Targets;

/// A program and how it is started.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Program {
    pub(crate) path: PathBuf,
    /// With placeholders.
    pub(crate) args: Vec<String>,
    pub(crate) env: BTreeMap<String, OsString>,
    /// With placeholders.
    pub(crate) address: String,
    pub(crate) ready_timeout: Duration,
    pub(crate) stop_timeout: Duration,
}

/// Where an arm's load goes.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Place {
    /// A broker that runs already.
    Address(String),
    /// A program that Hone starts and stops.
    Program(Program),
}

/// One side of a comparison.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Arm {
    pub(crate) name: String,
    pub(crate) place: Place,
    pub(crate) security: Security,
}

/// An arm that is up and answers.
#[derive(Debug)]
pub(crate) struct Running {
    pub(crate) address: String,
    session: Option<(Session, Duration)>,
    _data: Option<DataFolder>,
}

/// A folder that goes when nobody needs it any more.
#[derive(Debug)]
struct DataFolder(PathBuf);

impl Drop for DataFolder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Time that a broker which is said to run already has to answer.
const ANSWER_LIMIT: Duration = Duration::from_secs(10);

impl Place {
    /// `host:port` is an address, anything else a command line, split as a shell would and never given to one.
    pub(crate) fn parse(text: &str, ready_timeout: Duration, stop_timeout: Duration) -> Result<Self> {
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
        }))
    }
}

pub(crate) fn is_address(text: &str) -> bool {
    let port = text.rsplit_once(':').and_then(|(host, port)| (!host.is_empty()).then_some(port));
    !text.contains(char::is_whitespace)
        && !text.contains('/')
        && port.is_some_and(|port| port.parse::<u16>().is_ok())
}

/// A program by path or by name in PATH, found before anything is measured.
fn find_program(name: &str) -> Result<PathBuf> {
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

impl Arm {
    /// Starts the arm if it is a program, and waits until it answers as a Kafka-API broker. `scratch` is where a data
    /// folder may be made.
    pub(crate) fn start(&self, runner: &dyn Runner, scratch: &Path) -> Result<Running> {
        match &self.place {
            Place::Address(address) => {
                Admin::ready_with(address, &self.security, ANSWER_LIMIT)
                    .with_context(|| format!("{} is not ready", self.name))?;
                Ok(Running { address: address.clone(), session: None, _data: None })
            }
            Place::Program(program) => self.start_program(program, runner, scratch),
        }
    }

    fn start_program(&self, program: &Program, runner: &dyn Runner, scratch: &Path) -> Result<Running> {
        let data = DataFolder(fresh_folder(scratch, &self.name)?);
        let fill = placeholders(&data.0)?;
        let address = fill(&program.address);
        let mut call = Call::new(format!("start-{}", self.name), &program.path, &data.0)
            .args(program.args.iter().map(|arg| fill(arg)));
        for (name, value) in &program.env {
            call = call.env(name, value);
        }
        let mut session = runner.start(&call)?;
        let ready = || match Admin::ready_with(&address, &self.security, Duration::from_secs(2)) {
            Ok(()) => Readiness::Ready,
            Err(error) => Readiness::NotYet(format!("{:#}", anyhow::Error::from(error))),
        };
        session.wait_until(program.ready_timeout, ready)?;
        Ok(Running { address, session: Some((session, program.stop_timeout)), _data: Some(data) })
    }
}

impl Running {
    /// The process that was started for this arm.
    pub(crate) fn child(&self) -> Option<u32> {
        self.session.as_ref().map(|(session, _)| session.pid())
    }

    /// The processes whose CPU counts when the load goes to a cluster of these brokers.
    pub(crate) fn targets(&self, brokers: &BTreeMap<i32, String>) -> Targets {
        self.child().map_or_else(|| Targets::behind(brokers), Targets::started)
    }

    /// Fails when the program behind the arm has ended.
    pub(crate) fn check_alive(&mut self) -> Result<()> {
        match &mut self.session {
            Some((session, _)) => Ok(session.check_alive("being loaded")?),
            None => Ok(()),
        }
    }

    /// Stops what was started and removes its data. What ran before goes on running.
    pub(crate) fn stop(mut self) -> Result<Option<Stopped>> {
        let stopped = match self.session.take() {
            Some((session, grace)) => Some(session.stop(grace)?),
            None => None,
        };
        Ok(stopped)
    }
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
    bail!("{} is full of data folders of earlier runs; remove it", scratch.display())
}

/// The placeholders that [`placeholders`] fills.
const PLACEHOLDERS: [&str; 3] = ["port", "port2", "data"];

/// A `{word}` that nobody will fill.
pub(crate) fn unknown_placeholder(text: &str) -> Option<&str> {
    let words = text.split('{').skip(1).filter_map(|rest| rest.split_once('}')).map(|(word, _)| word);
    words.into_iter().find(|word| {
        let is_word = !word.is_empty() && word.chars().all(|letter| letter.is_ascii_alphanumeric());
        is_word && !PLACEHOLDERS.contains(word)
    })
}

/// Fills `{port}`, `{port2}` and `{data}`.
fn placeholders(data: &Path) -> Result<impl Fn(&str) -> String + use<>> {
    let [port, port2] = free_ports()?;
    let data = data.display().to_string();
    Ok(move |text: &str| {
        text.replace("{port}", &port.to_string())
            .replace("{port2}", &port2.to_string())
            .replace("{data}", &data)
    })
}

/// Two ports that were free a moment ago. Both are held at once, so that they differ.
fn free_ports() -> Result<[u16; 2]> {
    let held: Vec<TcpListener> = (0..2)
        .map(|_| TcpListener::bind(("127.0.0.1", 0)))
        .collect::<Result<_, _>>()
        .context("there is no free port on 127.0.0.1")?;
    Ok([held[0].local_addr()?.port(), held[1].local_addr()?.port()])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Place> {
        Place::parse(text, Duration::from_secs(1), Duration::from_secs(1))
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
