//! Faults of a load at stated times: a broker is killed or stopped, or a command runs.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, anyhow, bail};
use hone_format::{did_you_mean, duration, nearest, read_duration_s};
use hone_host::ports;
use hone_load::Faults;
use hone_record::{Fault, Recovery};
use hone_tool::{Call, Halt, Peer, PeerSignal, Runner as _, Session, System};

use crate::ending::Usage;
use crate::targets::process_behind;

/// Names of the actions, with their signals.
const ACTIONS: [&str; 4] = ["kill", "term", "stop", "run"];
/// A command that runs longer than this is ended.
const COMMAND_LIMIT: Duration = Duration::from_secs(3_600);

/// A fault as the user wrote it: `10s=kill:leader`, `10s=stop:4711:3s`, `10s=run:COMMAND`.
#[derive(Debug, Clone, PartialEq)]
pub struct FaultPlan {
    due_s: f64,
    action: Action,
}

#[derive(Debug, Clone, PartialEq)]
enum Action {
    Kill(Whom),
    Terminate(Whom),
    /// For this many seconds, or until the window ends.
    Stop(Whom, Option<f64>),
    Run(Vec<String>),
}

/// The process of a fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Whom {
    Process(u32),
    /// The leader of partition 0 when the window opens.
    Leader,
    Broker(i32),
}

impl FromStr for Whom {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let broker = text.strip_prefix("broker-").and_then(|id| id.parse().ok()).map(Self::Broker);
        let known = match text {
            "leader" => Some(Self::Leader),
            _ => broker.or_else(|| text.parse().ok().map(Self::Process)),
        };
        known.ok_or_else(|| format!("invalid process `{text}`: use a process id, leader, or broker-ID"))
    }
}

impl FromStr for FaultPlan {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let shape =
            || format!("invalid fault `{text}`; write for example 10s=kill:leader or 10s=stop:leader:3s");
        let (due, action) = text.split_once('=').ok_or_else(shape)?;
        let due_s = read_duration_s(due.trim())?;
        let (name, rest) = action.split_once(':').ok_or_else(shape)?;
        let action =
            match name {
                "kill" => Action::Kill(rest.parse()?),
                "term" => Action::Terminate(rest.parse()?),
                "stop" => match rest.split_once(':') {
                    Some((whom, length)) => Action::Stop(whom.parse()?, Some(read_duration_s(length)?)),
                    None => Action::Stop(rest.parse()?, None),
                },
                "run" => {
                    let words = shlex::split(rest).filter(|words| !words.is_empty());
                    Action::Run(words.ok_or_else(|| {
                        format!("invalid command `{rest}`: it is empty, or a quote is open")
                    })?)
                }
                _ => {
                    let near = did_you_mean(nearest(name, ACTIONS.into_iter()));
                    return Err(format!("unknown fault `{name}`{near}; use kill, term, stop or run"));
                }
            };
        Ok(Self { due_s, action })
    }
}

impl FaultPlan {
    fn whom(&self) -> Option<Whom> {
        match &self.action {
            Action::Kill(whom) | Action::Terminate(whom) | Action::Stop(whom, _) => Some(*whom),
            Action::Run(_) => None,
        }
    }
}

/// Refuses faults that would come after the window.
///
/// # Errors
/// With the fault that is too late.
pub fn check(plans: &[FaultPlan], duration_s: f64) -> Result<(), Usage> {
    match plans.iter().find(|plan| plan.due_s >= duration_s) {
        Some(late) => Err(Usage(format!(
            "the fault at {} comes after the window of {}\n  next: use a longer --duration, or an earlier time",
            duration(late.due_s),
            duration(duration_s)
        ))),
        None => Ok(()),
    }
}

/// The brokers of a load.
#[derive(Debug, Clone, Copy)]
pub struct Brokers<'a> {
    /// Address by id.
    pub by_id: &'a BTreeMap<i32, String>,
    /// Address of the leader of partition 0.
    pub leader: Option<&'a str>,
}

/// Faults whose processes are known.
#[derive(Debug)]
pub struct ReadyFaults {
    steps: Vec<Step>,
    faults: Vec<Fault>,
    running: Option<(Sender<()>, JoinHandle<Work>)>,
    /// Commands that still run.
    commands: Vec<RunningCommand>,
}

/// One thing to do at one time.
#[derive(Debug)]
struct Step {
    due_s: f64,
    /// Index of its fault.
    fault: usize,
    deed: Deed,
}

#[derive(Debug)]
enum Deed {
    Signal(Peer, PeerSignal),
    Stop(Peer),
    GoOn,
    Run(Vec<String>),
}

impl ReadyFaults {
    /// Looks up the processes, before anything happens.
    ///
    /// # Errors
    /// When a process can't be found, or may not be ended by this user.
    pub fn new(plans: &[FaultPlan], brokers: Brokers<'_>) -> Result<Self> {
        let mut plans = plans.to_vec();
        plans.sort_by(|left, right| left.due_s.total_cmp(&right.due_s));
        let (mut steps, mut faults) = (Vec::new(), Vec::new());
        for (fault, plan) in plans.into_iter().enumerate() {
            let peer = plan.whom().map(|whom| find(whom, brokers)).transpose()?;
            let (what, due_s) = (described(&plan.action, peer.as_ref()), plan.due_s);
            let mut step = |due_s, deed| steps.push(Step { due_s, fault, deed });
            match (plan.action, peer) {
                (Action::Run(command), _) => step(due_s, Deed::Run(command)),
                (Action::Kill(_), Some(peer)) => step(due_s, Deed::Signal(peer, PeerSignal::Kill)),
                (Action::Terminate(_), Some(peer)) => step(due_s, Deed::Signal(peer, PeerSignal::Terminate)),
                (Action::Stop(_, length_s), Some(peer)) => {
                    step(due_s, Deed::Stop(peer));
                    length_s.into_iter().for_each(|length_s| step(due_s + length_s, Deed::GoOn));
                }
                (_, None) => {}
            }
            faults.push(Fault {
                due_s,
                at_s: None,
                what,
                problem: None,
                acks: None,
                recovery: Recovery::Undisturbed,
            });
        }
        steps.sort_by(|left, right| left.due_s.total_cmp(&right.due_s));
        Ok(Self { steps, faults, running: None, commands: Vec::new() })
    }

    /// The plan, in words, a line for each fault.
    pub fn plan(&self) -> impl Iterator<Item = String> {
        self.faults.iter().map(|fault| format!("fault after {}: {}", duration(fault.due_s), fault.what))
    }
}

fn find(whom: Whom, brokers: Brokers<'_>) -> Result<Peer> {
    let pid = match whom {
        Whom::Process(pid) => pid,
        Whom::Leader => {
            let address = brokers.leader.context("the topic has no leader, so no fault can meet it")?;
            listening_at(address)?
        }
        Whom::Broker(id) => match brokers.by_id.get(&id) {
            Some(address) => listening_at(address)?,
            None => {
                let known: Vec<String> = brokers.by_id.keys().map(|id| format!("broker-{id}")).collect();
                bail!(Usage(format!(
                    "the cluster has no broker {id}\n  next: use one of {}",
                    known.join(", ")
                )));
            }
        },
    };
    Peer::open(pid).map_err(|error| {
        anyhow!(
            "process {pid} can't be disturbed: {error}\n  next: name a process of your own, or use run:COMMAND with a \
             command that has the right"
        )
    })
}

fn listening_at(address: &str) -> Result<u32> {
    process_behind(address).map_err(|why| {
        anyhow!(
            "the process of {address} is not known: {why}\n  next: run Hone on the broker's machine, or use run:COMMAND, \
             for example 10s=run:'ssh HOST systemctl kill -s KILL redpanda'"
        )
    })
}

fn described(action: &Action, peer: Option<&Peer>) -> String {
    let process = peer.map_or_else(String::new, |peer| {
        let program = ports::program_of(peer.pid()).unwrap_or_else(|| "a program".to_owned());
        format!("{program} (process {})", peer.pid())
    });
    match action {
        Action::Kill(_) => format!("SIGKILL to {process}"),
        Action::Terminate(_) => format!("SIGTERM to {process}"),
        Action::Stop(_, Some(length_s)) => format!("SIGSTOP to {process}, for {}", duration(*length_s)),
        Action::Stop(_, None) => format!("SIGSTOP to {process}, until the window ends"),
        Action::Run(command) => {
            let line = shlex::try_join(command.iter().map(String::as_str)).unwrap_or_default();
            format!("run {line}")
        }
    }
}

impl Faults for ReadyFaults {
    fn begin(&mut self, start: Instant) {
        let (end, ends) = channel();
        let (steps, faults) = (std::mem::take(&mut self.steps), std::mem::take(&mut self.faults));
        let work = Work { start, faults, halts: BTreeMap::new(), commands: Vec::new() };
        let thread =
            std::thread::Builder::new().name("faults".to_owned()).spawn(move || work.serve(steps, &ends));
        self.running = thread.ok().map(|thread| (end, thread));
    }

    fn end(&mut self) -> Vec<Fault> {
        let Some((end, thread)) = self.running.take() else { return std::mem::take(&mut self.faults) };
        drop(end);
        let Ok(work) = thread.join() else { return Vec::new() };
        self.commands = work.commands;
        work.faults
    }
}

impl Drop for ReadyFaults {
    /// What is stopped goes on before the load ends, for whatever reason it ends.
    fn drop(&mut self) {
        self.end();
    }
}

/// State of the thread.
struct Work {
    start: Instant,
    faults: Vec<Fault>,
    /// Stopped processes, by fault.
    halts: BTreeMap<usize, Halt>,
    commands: Vec<RunningCommand>,
}

/// A command of a fault. Its session ends it before its folder is deleted.
#[derive(Debug)]
struct RunningCommand {
    fault: usize,
    session: Session,
    _folder: tempfile::TempDir,
}

impl Work {
    fn serve(mut self, steps: Vec<Step>, ends: &Receiver<()>) -> Self {
        for step in steps {
            let at = self.start + Duration::from_secs_f64(step.due_s);
            let left = at.saturating_duration_since(Instant::now());
            if ends.recv_timeout(left) == Err(RecvTimeoutError::Disconnected) {
                return self.finish();
            }
            self.carry_out(step);
        }
        // Commands run, and processes stay stopped, until the window ends.
        let _ = ends.recv();
        self.finish()
    }

    fn carry_out(&mut self, Step { fault, deed, .. }: Step) {
        let at_s = self.start.elapsed().as_secs_f64();
        let done = match deed {
            Deed::GoOn => {
                self.halts.remove(&fault);
                return;
            }
            Deed::Signal(peer, signal) => peer.signal(signal).map_err(|error| error.to_string()),
            Deed::Stop(peer) => {
                let halted = peer.halt().map_err(|error| error.to_string());
                halted.map(|halt| drop(self.halts.insert(fault, halt)))
            }
            Deed::Run(command) => {
                let started = start(&command).map_err(|error| format!("{error:#}"));
                started.map(|(session, folder)| {
                    self.commands.push(RunningCommand { fault, session, _folder: folder })
                })
            }
        };
        match done {
            Ok(()) => self.faults[fault].at_s = Some(at_s),
            Err(problem) => self.faults[fault].problem = Some(problem),
        }
    }

    /// Lets stopped processes go on, and notes how the commands ended.
    fn finish(mut self) -> Self {
        self.halts.clear();
        for command in &mut self.commands {
            let problem = match command.session.try_exit() {
                Ok(Some(status)) if status.success() => None,
                Ok(Some(status)) => {
                    Some(format!("the command ended with {status}{}", last_line(&command.session)))
                }
                Ok(None) => {
                    Some("the command still ran at the end of the window, and Hone ended it".to_owned())
                }
                Err(error) => Some(error.to_string()),
            };
            self.faults[command.fault].problem = problem;
        }
        self
    }
}

/// Starts a command in the user's directory, with logs in a folder of its own.
fn start(command: &[String]) -> Result<(Session, tempfile::TempDir)> {
    let (program, arguments) = command.split_first().context("it is empty")?;
    let here = std::env::current_dir().context("the working directory does not exist any more")?;
    let program = if program.contains('/') { here.join(program) } else { PathBuf::from(program) };
    let folder = tempfile::tempdir().context("its folder can't be created")?;
    let call = Call::new("fault", program, here).args(arguments).limit(COMMAND_LIMIT);
    let session = System::new(folder.path().join("logs"))?.start(&call)?;
    Ok((session, folder))
}

/// `: LINE`, the last line that a command wrote.
fn last_line(session: &Session) -> String {
    let text = std::fs::read_to_string(session.stderr_path()).unwrap_or_default();
    text.lines()
        .rev()
        .find(|line| !line.trim().is_empty())
        .map_or_else(String::new, |line| format!(": {line}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(text: &str) -> FaultPlan {
        text.parse().unwrap()
    }

    fn nobody() -> BTreeMap<i32, String> {
        BTreeMap::new()
    }

    #[test]
    fn faults_are_read_as_they_are_written() {
        assert_eq!(plan("10s=kill:leader"), FaultPlan { due_s: 10.0, action: Action::Kill(Whom::Leader) });
        assert_eq!(plan("500ms=term:4711").action, Action::Terminate(Whom::Process(4711)));
        assert_eq!(plan("1m=stop:broker-2:3s").action, Action::Stop(Whom::Broker(2), Some(3.0)));
        assert_eq!(plan("1s=stop:leader").action, Action::Stop(Whom::Leader, None));
        let command = ["sh", "-c", "a=1; b"].map(str::to_owned).to_vec();
        assert_eq!(plan("1s=run:sh -c 'a=1; b'").action, Action::Run(command));
        for (text, wanted) in [
            ("kill:leader", "write for example"),
            ("10s=kill", "write for example"),
            ("10s=kil:leader", "did you mean `kill`"),
            ("10=kill:leader", "use a number with ms"),
            ("10s=kill:somebody", "use a process id, leader, or broker-ID"),
            ("10s=kill:-1", "use a process id"),
            ("10s=stop:leader:x", "x"),
            ("10s=run:", "it is empty"),
            ("10s=run:'a", "a quote is open"),
        ] {
            let problem = text.parse::<FaultPlan>().unwrap_err();
            assert!(problem.contains(wanted), "{text}: {problem}");
        }
    }

    #[test]
    fn a_fault_behind_the_window_is_refused() {
        assert!(check(&[plan("1s=kill:leader")], 2.0).is_ok());
        let error = check(&[plan("1s=kill:leader"), plan("2s=kill:leader")], 2.0).unwrap_err();
        assert!(error.to_string().contains("next: use a longer --duration"), "{error}");
    }

    #[test]
    fn processes_are_looked_up_before_anything_happens() {
        let none = Brokers { by_id: &nobody(), leader: None };
        let error = |text: &str| format!("{:#}", ReadyFaults::new(&[plan(text)], none).unwrap_err());
        assert!(error("1s=kill:leader").contains("no leader"));
        assert!(error("1s=kill:broker-3").contains("no broker 3"));
        assert!(error("1s=kill:1").contains("next: name a process of your own"));
        let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
        let closed = Brokers { by_id: &nobody(), leader: Some(&free) };
        let error = ReadyFaults::new(&[plan("1s=kill:leader")], closed).unwrap_err();
        assert!(error.to_string().contains("next: run Hone on the broker"), "{error}");
    }

    #[test]
    fn commands_run_at_their_times_and_their_ends_are_told() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("done");
        let plans = [
            plan(&format!("50ms=run:touch {}", file.display())),
            plan("20ms=run:sh -c 'echo no such broker >&2; exit 3'"),
            plan("30ms=run:sleep 60"),
            plan("40ms=run:/no/such/program"),
            plan("1h=run:true"),
        ];
        let mut faults = ReadyFaults::new(&plans, Brokers { by_id: &nobody(), leader: None }).unwrap();
        assert_eq!(faults.plan().count(), 5);
        let begun = Instant::now();
        faults.begin(begun);
        while !file.exists() {
            assert!(begun.elapsed() < Duration::from_secs(20));
            std::thread::sleep(Duration::from_millis(5));
        }
        // The last of them may just have been started.
        std::thread::sleep(Duration::from_millis(200));
        let told = faults.end();
        let problem = |index: usize| told[index].problem.clone().unwrap_or_default();
        assert!(problem(0).contains("exit status: 3: no such broker"), "{}", problem(0));
        assert!(problem(1).contains("still ran"), "{}", problem(1));
        assert!(problem(2).contains("/no/such/program"), "{}", problem(2));
        assert_eq!((told[3].problem.as_deref(), told[4].problem.as_deref()), (None, None));
        let times: Vec<Option<f64>> = told.iter().map(|fault| fault.at_s).collect();
        assert!(times[0].unwrap() >= 0.02 && times[3].unwrap() >= 0.05, "{times:?}");
        assert_eq!((times[2], times[4]), (None, None));
    }
}
