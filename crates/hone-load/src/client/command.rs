//! Any other producer on the schedule: a program that speaks the line protocol of docs/client-protocol.md.
//!
//! The program keeps the schedule itself. A line through a pipe for each record at its time would add the pipe to every latency. Hone
//! announces the due times half a second ahead and checks the reports: no record is sent before it is due, each delay is known, and every
//! record has one end. Both processes read the same CLOCK_MONOTONIC.

use std::cell::Cell;
use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::fs::File;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use hone_record::{ClientFacts, CpuSeconds, Workload};

use super::protocol::{self, Ended, LINE_LIMIT_BYTES, Ledger, Said};
use super::{Pulse, material, turns, usual_backlog};
use crate::admin::TopicLayout;
use crate::clock::Clock;
use crate::connection::{Ack, Cargo, InFlight};
use crate::cpu::CpuTime;
use crate::engine::{End, Look, MOST_QUEUED, too_many_wait};
use crate::error::LoadError;
use crate::join::Placed;
use crate::live::Progress;
use crate::recorder::Recorder;
use crate::sender::{Account, Due, Helpers, Sender};
use crate::settings::Settings;

/// Starts programs for a load, since this room does not handle processes.
pub trait Launcher: Sync {
    /// Starts a program with pipes.
    ///
    /// # Errors
    /// Returns an error when the program can't be started, with everything that a user needs to know.
    fn launch(&self, command: &[String]) -> Result<Launched, String>;
}

/// A started program.
#[derive(Debug)]
pub struct Launched {
    /// Its standard input.
    pub to_program: File,
    /// Its standard output.
    pub from_program: File,
    /// Its watcher. Dropping it ends the program.
    pub watch: Box<dyn Watch>,
}

/// Watches a program.
pub trait Watch: fmt::Debug + Send {
    /// Its process.
    fn pid(&self) -> u32;
    /// CPU of the program and all processes that it started, since its start.
    fn cpu(&self) -> Option<CpuSeconds>;
    /// Its exit status and last output, when it has ended.
    fn ended(&mut self) -> Option<String>;
    /// A folder for files that the program reads. It is deleted with the program.
    fn folder(&self) -> &Path;
}

/// Time for the program to start, read its settings and become ready. A JVM under load needs some seconds.
const READY_LIMIT: Duration = Duration::from_secs(60);
/// Due times are announced this long ahead.
const AHEAD_NS: u64 = 500_000_000;
/// Pause between two checks of the output.
const LOOK_EVERY_NS: u64 = 20_000_000;
/// Time beyond the timeout, for a program that still sends its last reports.
const REPORT_GRACE_NS: u64 = 5_000_000_000;
/// Length of an invalid line that the error quotes.
const MOST_SHOWN: usize = 200;

/// The engine.
#[derive(Debug)]
pub(crate) struct Command {
    name: String,
    /// Ends first, so that a writer and a reader that wait for the program end, too.
    watch: Box<dyn Watch>,
    /// CPU of the program as it was last read.
    last_cpu: Cell<CpuTime>,
    to_program: mpsc::Sender<Vec<u8>>,
    said: mpsc::Receiver<Heard>,
    facts: ClientFacts,
    /// Bytes of the records, in turn.
    record_bytes: Vec<u32>,
    timeout_ns: u64,
    usual_backlog: u64,
}

/// Messages of the reading thread.
#[derive(Debug)]
enum Heard {
    Said(Said),
    Garbage(String),
    /// Its output has ended.
    Nothing,
}

impl Command {
    pub(crate) fn new(
        launcher: &dyn Launcher,
        to: &Settings,
        workload: &Workload,
        command: &[String],
        settings: &BTreeMap<String, String>,
        topic: &str,
        progress: &mut dyn Progress,
    ) -> Result<Self, LoadError> {
        let name = command.first().cloned().unwrap_or_default();
        let failed = |problem: String| LoadError::Client { command: name.clone(), problem };
        let material = material(workload)?;
        let Launched { to_program, from_program, watch } = launcher.launch(command).map_err(failed)?;
        let records = watch.folder().join("records");
        std::fs::write(&records, protocol::records_file(&material)).map_err(|error| {
            failed(format!("its records can't be written to {}: {error}", records.display()))
        })?;
        let turns = match &workload.recording {
            Some(_) => Some(turns_file(watch.folder(), &turns(workload)?).map_err(failed)?),
            None => None,
        };
        let files = protocol::Files { records: &records, turns: turns.as_deref() };
        let introduction = protocol::introduction(to, topic, workload, settings, files).map_err(failed)?;
        let mut engine = Self {
            name: name.clone(),
            watch,
            last_cpu: Cell::default(),
            to_program: writer(to_program),
            said: reader(from_program),
            facts: ClientFacts::default(),
            record_bytes: material.iter().map(|record| record.bytes() as u32).collect(),
            timeout_ns: (workload.timeout_s * 1e9) as u64,
            usual_backlog: usual_backlog(workload),
        };
        engine.tell(introduction);
        if engine.await_ready(progress).map_err(failed)? { Ok(engine) } else { Err(LoadError::Interrupted) }
    }

    fn tell(&self, text: String) {
        // If a program stops reading, its missing answers show it.
        let _ = self.to_program.send(text.into_bytes());
    }

    /// `false` means that the user interrupted the wait.
    fn await_ready(&mut self, progress: &mut dyn Progress) -> Result<bool, String> {
        let limit = Instant::now() + READY_LIMIT;
        while progress.at("client", 0.0) {
            if Instant::now() > limit {
                return Err(format!(
                    "it was not ready within {} s: it must answer `prepare` with `ready`",
                    READY_LIMIT.as_secs()
                ));
            }
            match self.said.recv_timeout(Duration::from_nanos(LOOK_EVERY_NS)) {
                Ok(Heard::Said(Said::Using { key, value })) => {
                    self.facts.settings.insert(key, value);
                }
                Ok(Heard::Said(Said::Ready { software })) => {
                    self.facts.software = if software.is_empty() { self.name.clone() } else { software };
                    return Ok(true);
                }
                Ok(Heard::Said(Said::Failed { why })) => return Err(format!("it reported an error: {why}")),
                Ok(Heard::Said(_)) => return Err("it reported records before any was due".to_owned()),
                Ok(Heard::Garbage(problem)) => return Err(problem),
                Ok(Heard::Nothing) => return Err(self.how_it_ended("before it was ready")),
                Err(_) => {}
            }
        }
        Ok(false)
    }

    /// The end of the output comes a moment before the end of the program is visible.
    fn how_it_ended(&mut self, when: &str) -> String {
        // The program's CPU clocks disappear with its end.
        self.program_cpu();
        for _ in 0..100 {
            if let Some(words) = self.watch.ended() {
                return format!("it ended {when}: {words}");
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        format!("it closed its output {when}")
    }

    /// CPU of the program up to now; for an ended program the last value.
    fn program_cpu(&self) -> CpuTime {
        if let Some(cpu) = self.watch.cpu() {
            self.last_cpu.set(CpuTime::from(cpu));
        }
        self.last_cpu.get()
    }

    /// Passes one end of a record to the recorder.
    fn record(&self, ended: &Ended, due_ns: u64, recorder: &mut Recorder, pulse: &mut Pulse) {
        let bytes = self.record_bytes[(ended.index % self.record_bytes.len() as u64) as usize];
        let request = InFlight {
            intended_ns: due_ns,
            sent_ns: ended.handed_over_ns.max(due_ns),
            cargo: Cargo { records: 1, bytes: bytes.into() },
        };
        let ended_ns = ended.ended_ns.max(request.sent_ns);
        if !ended.waited {
            recorder.own_late(due_ns, request.sent_ns - due_ns);
        }
        recorder.sent(request);
        match &ended.stored {
            Ok((partition, first)) => {
                pulse.acked(ended_ns);
                recorder.acked(Ack { request, error_code: 0 }, ended_ns);
                if *first >= 0 {
                    let (partition, first) = (*partition, *first);
                    recorder.placed(Placed { partition, first, records: 1, intended_ns: due_ns }, ended_ns);
                }
            }
            Err(name) => {
                pulse.failed(name);
                recorder.gave_up(request, ended_ns, name);
            }
        }
    }

    /// Processes the output so far, or waits a moment for it. The inner `true` is the end of the stretch.
    fn listen(
        &mut self,
        limit: Duration,
        clock: &Clock,
        stretch: &mut Stretch,
        recorder: &mut Recorder,
    ) -> Result<bool, String> {
        let mut next = self.said.recv_timeout(limit).ok();
        while let Some(heard) = next {
            match heard {
                Heard::Said(Said::Ended(ended)) => {
                    let now_ns = clock.now_ns();
                    let due_ns = stretch.ledger.end(&ended, now_ns)?;
                    stretch.heard_ns = now_ns;
                    // A record that ends now was due, even if the next check of the schedule comes later.
                    stretch.pass(due_ns, recorder);
                    self.record(&ended, due_ns, recorder, &mut stretch.pulse);
                }
                Heard::Said(Said::Done) if stretch.is_announced => return Ok(true),
                Heard::Said(Said::Done) => {
                    return Err("it said `done` before the schedule's `end`".to_owned());
                }
                Heard::Said(Said::Failed { why }) => return Err(format!("it stopped: {why}")),
                Heard::Said(_) => return Err("it reported settings while a load ran".to_owned()),
                Heard::Garbage(problem) => return Err(problem),
                Heard::Nothing => return Err(self.how_it_ended("while the load ran")),
            }
            next = self.said.try_recv().ok();
        }
        Ok(false)
    }
}

/// State of one stretch.
#[derive(Debug, Default)]
struct Stretch {
    ledger: Ledger,
    /// Announced records that are not due yet.
    ahead: VecDeque<u64>,
    /// Whether the program knows that nothing more comes.
    is_announced: bool,
    last_due_ns: u64,
    heard_ns: u64,
    pulse: Pulse,
}

impl Stretch {
    /// All records that are due until then.
    fn pass(&mut self, now_ns: u64, recorder: &mut Recorder) {
        while let Some(due_ns) = self.ahead.pop_front_if(|due_ns| *due_ns <= now_ns) {
            recorder.due_at(due_ns);
        }
    }

    fn give_up_all(&mut self, now_ns: u64, recorder: &mut Recorder, error: &str) {
        self.pass(u64::MAX, recorder);
        for due_ns in self.ledger.forgotten() {
            recorder.never_sent(due_ns, now_ns.max(due_ns), error);
        }
    }
}

impl Sender for Command {
    fn run(
        &mut self,
        start: Instant,
        arrivals: Due<'_>,
        give_up: bool,
        recorder: &mut Recorder,
        look: Look<'_>,
    ) -> Result<End, LoadError> {
        let clock = Clock::new(start);
        let mut stretch = Stretch::default();
        let mut arrivals = recorder.dues(arrivals);
        self.tell(format!("go {}\n", monotonic_ns(start)));
        loop {
            let now_ns = clock.now_ns();
            let mut dues = Vec::new();
            while let Some(due_ns) = arrivals.next_if(|due_ns| *due_ns <= now_ns + AHEAD_NS) {
                dues.push(due_ns);
                stretch.ledger.announce(due_ns);
                stretch.last_due_ns = due_ns;
            }
            if !dues.is_empty() {
                self.tell(protocol::due_lines(&dues));
                stretch.ahead.extend(dues);
            }
            if arrivals.peek().is_none() && !stretch.is_announced {
                self.tell("end\n".to_owned());
                stretch.is_announced = true;
            }
            stretch.pass(now_ns, recorder);
            recorder.tick(now_ns);
            if !look(now_ns, recorder) {
                return Err(LoadError::Interrupted);
            }
            if give_up && stretch.ledger.unended as usize >= MOST_QUEUED {
                let reason = too_many_wait(stretch.ledger.unended as usize, now_ns);
                stretch.give_up_all(now_ns, recorder, "broken off");
                recorder.cut(now_ns);
                return Ok(End::Broken(reason));
            }
            recorder.keep_until(stretch.last_due_ns);
            match self.listen(Duration::from_nanos(LOOK_EVERY_NS), &clock, &mut stretch, recorder) {
                Ok(false) => {}
                Ok(true) => {
                    stretch.give_up_all(clock.now_ns(), recorder, "not reported by the client");
                    return Ok(stretch.pulse.end(stretch.last_due_ns));
                }
                Err(problem) => {
                    let now_ns = clock.now_ns();
                    stretch.give_up_all(now_ns, recorder, "client failed");
                    recorder.cut(now_ns);
                    return Ok(End::Broken(format!("the client {}: {problem}", self.name)));
                }
            }
            let patience_ns = self.timeout_ns + REPORT_GRACE_NS;
            let silent_since_ns = stretch.last_due_ns.max(stretch.heard_ns);
            if stretch.is_announced && now_ns > silent_since_ns.saturating_add(patience_ns) {
                let left = stretch.ledger.unended;
                stretch.give_up_all(clock.now_ns(), recorder, "not reported by the client");
                let limit_s = patience_ns / 1_000_000_000;
                let phase = if give_up { "the window" } else { "the warm-up" };
                return Ok(End::Broken(format!(
                    "the client {} sent no output for {limit_s} s after the end of {phase}, with {left} \
                     records open and no `done`",
                    self.name
                )));
            }
        }
    }

    fn in_flight_limit(&self) -> u64 {
        self.usual_backlog
    }

    fn cpu(&self) -> CpuTime {
        CpuTime::of_this_thread().and(self.program_cpu())
    }

    fn helpers(&self) -> Helpers {
        Helpers { threads: Vec::new(), processes: vec![self.watch.pid()] }
    }

    fn knows_batches(&self) -> bool {
        false
    }

    fn account(&mut self, _: &Recorder, _: &TopicLayout) -> Account {
        Account { client: Some(self.facts.clone()), ..Account::default() }
    }
}

/// Writes the producer of each record for the program, and returns the path.
fn turns_file(folder: &Path, turns: &[u32]) -> Result<PathBuf, String> {
    let path = folder.join("turns");
    let bytes: Vec<u8> = turns.iter().flat_map(|producer| producer.to_be_bytes()).collect();
    std::fs::write(&path, bytes)
        .map_err(|error| format!("its producers can't be written to {}: {error}", path.display()))?;
    Ok(path)
}

/// The current time on the clock that all processes of this machine share.
fn monotonic_ns(at: Instant) -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    let before = Instant::now();
    // SAFETY: the structure is valid for writing, and every Linux has this clock.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut time) };
    let now_ns = time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64;
    match at.checked_duration_since(before) {
        Some(ahead) => now_ns + ahead.as_nanos() as u64,
        None => now_ns - (before - at).as_nanos() as u64,
    }
}

/// A thread that writes, so that a program that does not read blocks no other thread. It ends with the sender or the pipe.
fn writer(mut to_program: File) -> mpsc::Sender<Vec<u8>> {
    let (sender, receiver) = mpsc::channel::<Vec<u8>>();
    std::thread::spawn(move || {
        for text in receiver {
            if to_program.write_all(&text).is_err() {
                return;
            }
        }
    });
    sender
}

/// A thread that reads lines. It ends with the program's output or at the first invalid line.
fn reader(from_program: File) -> mpsc::Receiver<Heard> {
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || {
        let mut lines = BufReader::with_capacity(LINE_LIMIT_BYTES, from_program);
        loop {
            let heard = read_line(&mut lines);
            let last = !matches!(heard, Heard::Said(_));
            if sender.send(heard).is_err() || last {
                return;
            }
        }
    });
    receiver
}

fn read_line(lines: &mut BufReader<File>) -> Heard {
    let mut line = Vec::new();
    let limit = LINE_LIMIT_BYTES as u64;
    match lines.take(limit).read_until(b'\n', &mut line) {
        Ok(0) | Err(_) => return Heard::Nothing,
        Ok(_) => {}
    }
    let whole = line.pop() == Some(b'\n');
    let text = String::from_utf8_lossy(&line);
    if !whole && line.len() as u64 + 1 < limit {
        // The program ended within a line, so its exit status matters.
        return Heard::Nothing;
    }
    let said =
        if whole { protocol::parse(text.trim_end_matches('\r')) } else { Err("it has no end".to_owned()) };
    said.map_or_else(
        |problem| {
            let shown: String = text.chars().take(MOST_SHOWN).collect();
            Heard::Garbage(format!(
                "it wrote `{}`, which is not a line of the protocol: {problem} (docs/client-protocol.md)",
                shown.escape_debug()
            ))
        },
        Heard::Said,
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{PipeReader, PipeWriter};
    use std::os::fd::OwnedFd;

    /// Uses CPU for a second between two checks, so the time at which its end was seen is unknown.
    #[derive(Debug)]
    struct Mortal {
        looks: Cell<u32>,
        is_over: bool,
        folder: tempfile::TempDir,
    }

    impl Watch for Mortal {
        fn pid(&self) -> u32 {
            std::process::id()
        }

        fn cpu(&self) -> Option<CpuSeconds> {
            self.looks.set(self.looks.get() + 1);
            let used = CpuSeconds { total_s: f64::from(self.looks.get()), user_share: None };
            (!self.is_over).then_some(used)
        }

        fn ended(&mut self) -> Option<String> {
            self.is_over = true;
            Some("killed".to_owned())
        }

        fn folder(&self) -> &Path {
            self.folder.path()
        }
    }

    struct Mortals;

    impl Launcher for Mortals {
        fn launch(&self, _: &[String]) -> Result<Launched, String> {
            let (hears, to_program) = std::io::pipe().unwrap();
            let (from_program, says) = std::io::pipe().unwrap();
            std::thread::spawn(move || one_record(hears, says));
            let folder = tempfile::tempdir().unwrap();
            Ok(Launched {
                to_program: File::from(OwnedFd::from(to_program)),
                from_program: File::from(OwnedFd::from(from_program)),
                watch: Box::new(Mortal { looks: Cell::new(0), is_over: false, folder }),
            })
        }
    }

    /// Reports the end of the first record, and ends.
    fn one_record(hears: PipeReader, mut says: PipeWriter) {
        let mut lines = BufReader::new(hears).lines().map_while(Result::ok);
        let mut hear = |word: &str| lines.any(|line| line.starts_with(word));
        assert!(hear("prepare"));
        says.write_all(b"ready test\n").unwrap();
        assert!(hear("due"));
        says.write_all(b"ack 0 0 1 0 0\n").unwrap();
    }

    struct Patient;

    impl Progress for Patient {
        fn at(&mut self, _: &'static str, _: f64) -> bool {
            true
        }
    }

    #[test]
    fn a_program_that_dies_ends_the_window_there_and_keeps_its_cpu() {
        let load = crate::schedule::tests::workload(hone_record::Schedule::Uniform, 100.0, 1);
        let to = Settings {
            address: "127.0.0.1:1".to_owned(),
            variant: String::new(),
            storage: String::new(),
            topic: crate::settings::Topic::Fresh,
            lateness_limit_us: 1.0,
            shard: None,
            security: crate::security::Security::default(),
        };
        let command = ["mortal".to_owned()];
        let mut engine =
            Command::new(&Mortals, &to, &load, &command, &BTreeMap::new(), "t", &mut Patient).unwrap();
        let before = engine.cpu();
        let mut recorder = Recorder::new(60_000_000_000);
        let mut arrivals = (0..6_000_u64).map(|number| number * 10_000_000);
        let mut look = |_: u64, _: &Recorder| true;
        let end = engine.run(Instant::now(), &mut arrivals, true, &mut recorder, &mut look).unwrap();
        let End::Broken(reason) = end else { panic!("{end:?}") };
        assert_eq!(reason, "the client mortal: it ended while the load ran: killed");
        assert_eq!((recorder.acked, recorder.ended), (1, recorder.due));
        assert!(recorder.duration_ns() < 30_000_000_000, "not cut: {} ns", recorder.duration_ns());
        recorder.finish();
        assert!(recorder.series.len() < 30, "{} seconds", recorder.series.len());
        // The CPU that it used until its end was seen, and the little CPU of this thread.
        let used_s = before.until(engine.cpu()).total_s;
        assert!((1.0..1.9).contains(&used_s), "{used_s} s");
    }
}
