//! From a workload to a window: prepare, warm up, measure.

use std::collections::BTreeMap;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use hone_record::{CpuSeconds, Durability, Engine, Outcome, Window, WindowFacts, Workload};

use crate::admin::{Admin, TopicLayout};
use crate::engine::{End, Engine as Wire};
use crate::payload::Values;
use crate::recorder::Recorder;
use crate::schedule::Arrivals;
use crate::security::{Door, Security};
use crate::sender::{Account, Sender};
use crate::steadiness::{Seen, outcome};
use crate::{LoadError, frames};

/// Which topic the load goes to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Topic {
    /// A new one with the workload's partitions and properties, deleted after the window.
    Fresh,
    /// One that is there; it stays.
    Existing(String),
}

/// What a load needs beside the workload.
#[derive(Debug, Clone, PartialEq)]
pub struct Settings {
    /// `host:port` of any broker of the cluster.
    pub address: String,
    /// Name of the variant, for the record.
    pub variant: String,
    /// What the target does before it acknowledges, for the record.
    pub storage: String,
    /// The topic.
    pub topic: Topic,
    /// 99th percentile of the generator's own lateness above which the run counts as failed, in microseconds.
    pub lateness_limit_us: f64,
    /// TLS and login.
    pub security: Security,
}

/// Looks at the target and the machine at the edges of a window.
pub trait Probe {
    /// The window opens.
    fn start(&mut self);
    /// The window has closed and everything is answered.
    fn stop(&mut self) -> ProbeFacts;
}

/// What a [`Probe`] saw.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct ProbeFacts {
    /// CPU of the target.
    pub target_cpu: Option<CpuSeconds>,
    /// Stolen CPU, share of all cores.
    pub steal_share: f64,
    /// CPU of everybody else, share of all cores.
    pub others_share: f64,
}

/// Hears how far a load is; asked many times a second.
pub trait Progress: Send {
    /// `done` runs from 0 to 1 in each phase. Answers `false` to break the load off.
    fn at(&mut self, phase: &'static str, done: f64) -> bool;

    /// Hears of something that went wrong beside the measurement.
    fn note(&mut self, _text: &str) {}
}

/// A load that is connected and warm.
#[derive(Debug)]
pub struct Prepared {
    settings: Settings,
    workload: Workload,
    layout: TopicLayout,
    engine: Box<dyn Sender>,
    topic: OwnTopic,
}

/// A broker that hangs keeps nobody waiting for a topic that only the load wanted.
const REMOVAL_LIMIT: Duration = Duration::from_secs(5);

/// A topic that was made for a load goes again, however the load ends.
#[derive(Debug)]
struct OwnTopic {
    address: String,
    door: Door,
    name: Option<String>,
}

impl OwnTopic {
    fn remove(&mut self) -> Result<(), LoadError> {
        match self.name.take() {
            Some(name) => {
                let mut admin = Admin::enter(&self.address, self.door.clone(), REMOVAL_LIMIT)?;
                admin.delete_topic(&name)
            }
            None => Ok(()),
        }
    }
}

impl Drop for OwnTopic {
    fn drop(&mut self) {
        // Only on the way out of another error, which is the one to be told.
        let _ = self.remove();
    }
}

/// Checks the workload, makes the topic, encodes the requests, connects and warms up.
///
/// # Errors
/// When a setting makes no sense, the broker can't be reached or refuses, or the user interrupts.
pub fn prepare(
    settings: Settings,
    workload: Workload,
    progress: &mut dyn Progress,
) -> Result<Prepared, LoadError> {
    check(&workload)?;
    if !(settings.lateness_limit_us.is_finite() && settings.lateness_limit_us > 0.0) {
        let problem = format!("must be a positive number, got {} µs", settings.lateness_limit_us);
        return Err(LoadError::Setting { name: "lateness limit", problem });
    }
    let door = Door::new(&settings.security)?;
    let mut admin = Admin::enter(&settings.address, door.clone(), Admin::LIMIT)?;
    let mut topic = OwnTopic { address: settings.address.clone(), door: door.clone(), name: None };
    let layout = match &settings.topic {
        Topic::Existing(topic) => admin.layout(topic, None)?,
        Topic::Fresh => {
            let name = fresh_name();
            admin.create_topic(&name, workload.partitions, &workload.topic_config)?;
            topic.name = Some(name.clone());
            admin.layout(&name, Some(workload.partitions))?
        }
    };
    let partitions = layout.leaders.iter().map(|(_, led)| led.len() as u32).sum();
    let workload = Workload { partitions, ..workload };
    let engine = engine(&workload, &layout, &settings.address, &door)?;
    let mut prepared = Prepared { settings, workload, layout, engine, topic };
    prepared.warm_up(progress)?;
    Ok(prepared)
}

/// What sends the workload.
fn engine(
    workload: &Workload,
    layout: &TopicLayout,
    address: &str,
    door: &Door,
) -> Result<Box<dyn Sender>, LoadError> {
    match &workload.engine {
        Engine::Wire => Ok(Box::new(Wire::new(workload, layout, address, door)?)),
        Engine::Librdkafka { .. } | Engine::Command { .. } => Err(LoadError::Setting {
            name: "engine",
            problem: "only `wire` is built into this version".to_owned(),
        }),
    }
}

fn fresh_name() -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos());
    format!("hone-load-{now:x}")
}

/// Checks a workload in itself, without a broker.
///
/// # Errors
/// With the setting that makes no sense and what would.
pub fn check(workload: &Workload) -> Result<(), LoadError> {
    for (name, value, most) in [
        ("requests_per_s", workload.requests_per_s, 1e7),
        ("duration_s", workload.duration_s, 86_400.0),
        ("timeout_s", workload.timeout_s, 3_600.0),
    ] {
        if !(value > 0.0 && value <= most) {
            return Err(LoadError::Setting {
                name,
                problem: format!("must be above 0 and at most {most}, got {value}"),
            });
        }
    }
    for (name, value, most) in [
        ("records_per_batch", workload.records_per_batch.into(), 1_000_000),
        ("record_bytes", workload.record_bytes.into(), 64 << 20),
        ("connections", workload.connections.into(), 10_000),
        ("in_flight", workload.in_flight.into(), 1_000_000),
        ("partitions", workload.partitions.into(), 100_000),
        ("partitions_per_request", workload.partitions_per_request.into(), workload.partitions.into()),
        ("warmup_requests + 1", workload.warmup_requests.saturating_add(1), 100_000_000),
    ] {
        if value == 0 || value > most {
            return Err(LoadError::Setting {
                name,
                problem: format!("must lie between 1 and {most}, got {value}"),
            });
        }
    }
    // At least one request for each partition is encoded before the window opens.
    let batch_bytes = u64::from(workload.records_per_batch) * u64::from(workload.record_bytes);
    let request_bytes = batch_bytes * u64::from(workload.partitions_per_request);
    for (what, bytes, most) in [
        ("one request", request_bytes, 256 << 20),
        ("a request for each partition", request_bytes * u64::from(workload.partitions), 2 << 30),
    ] {
        if bytes > most {
            let problem =
                format!("times record_bytes makes {bytes} bytes for {what}; at most {most} will do");
            return Err(LoadError::Setting { name: "records_per_batch", problem });
        }
    }
    if !matches!(workload.acks, -1..=1) {
        return Err(LoadError::Setting { name: "acks", problem: "must be 0, 1 or -1 (all)".to_owned() });
    }
    Values::new(&workload.payload, workload.record_bytes, workload.seed)?;
    frames::codec_of(workload).map(|_| ())
}

impl Prepared {
    /// Sends the warm-up requests as fast as the in-flight limit allows, and waits for their answers.
    fn warm_up(&mut self, progress: &mut dyn Progress) -> Result<(), LoadError> {
        let requests = self.workload.warmup_requests;
        let mut recorder = Recorder::new(u64::MAX / 64);
        let mut look = |_now, recorder: &Recorder| {
            progress.at("warm-up", recorder.ended as f64 / requests.max(1) as f64)
        };
        let mut arrivals = std::iter::repeat_n(0, requests as usize);
        let end = self.engine.run(Instant::now(), &mut arrivals, false, &mut recorder, &mut look)?;
        let refused = |error: &'static str, message: String| LoadError::Refused {
            address: self.settings.address.clone(),
            what: "the warm-up's Produce requests".to_owned(),
            error,
            message,
        };
        if let End::Broken(reason) = end {
            return Err(refused("connection lost", format!(": {reason}")));
        }
        if requests > 0 && recorder.acked == 0 {
            return Err(refused("none was acknowledged", format!(": {}", names_of(&recorder.errors))));
        }
        Ok(())
    }

    /// Measures one window that opens at `start`, which may lie a little ahead.
    ///
    /// A target that breaks off gives a window whose outcome says so; it is a result.
    ///
    /// # Errors
    /// When this machine refuses a socket or a wait.
    pub fn run(
        mut self,
        start: Instant,
        probe: &mut dyn Probe,
        progress: &mut dyn Progress,
    ) -> Result<Window, LoadError> {
        let duration_ns = (self.workload.duration_s * 1e9) as u64;
        let mut arrivals = Arrivals::new(&self.workload, None).take_while(|due| *due < duration_ns);
        let mut recorder = Recorder::new(duration_ns);
        let mut look = |now_ns: u64, _: &Recorder| progress.at("window", now_ns as f64 / duration_ns as f64);
        // The probe takes its time, more of it the more processes there are; no request may be due meanwhile.
        probe.start();
        let start = start.max(Instant::now());
        std::thread::sleep(start.saturating_duration_since(Instant::now()));
        let started_unix_ms =
            SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64);
        let cpu_before = self.engine.cpu();
        let end = self.engine.run(start, &mut arrivals, true, &mut recorder, &mut look);
        let generator_cpu = cpu_before.until(self.engine.cpu());
        let seen = probe.stop();
        if let Err(error) = self.topic.remove() {
            progress.note(&format!("the load's topic {} could not be deleted: {error}", self.layout.topic));
        }
        let end = end?;
        recorder.finish();
        let account = self.engine.account(&recorder);
        Ok(self.window(end, recorder, account, started_unix_ms, generator_cpu, seen))
    }

    fn window(
        self,
        end: End,
        recorder: Recorder,
        account: Account,
        started_unix_ms: u64,
        generator_cpu: CpuSeconds,
        seen: ProbeFacts,
    ) -> Window {
        let outcome = self.outcome(end, &recorder);
        let duration_s = recorder.duration_s().max(1e-9);
        let facts = WindowFacts {
            requests: recorder.due,
            acked_requests: recorder.acked,
            acked_records: recorder.acked_cargo.records,
            acked_bytes: recorder.acked_cargo.bytes,
            asked_requests_per_s: recorder.due as f64 / duration_s,
            reached_requests_per_s: recorder.acked_in_window as f64 / duration_s,
            errors: recorder.errors,
            target_cpu: seen.target_cpu,
            generator_cpu,
            steal_share: seen.steal_share,
            others_share: seen.others_share,
            retries: account.retries,
            produce_requests: account.produce_requests,
        };
        Window {
            variant: self.settings.variant,
            address: self.settings.address,
            durability: Durability { acks: self.workload.acks, storage: self.settings.storage },
            workload: self.workload,
            started_unix_ms,
            duration_s,
            outcome,
            facts,
            latencies: recorder.latencies,
            series: recorder.series,
            end_to_end: None,
            batches: account.batches,
            split: account.split,
            events: account.events,
            environment: None,
            shard: None,
        }
    }

    fn outcome(&self, end: End, recorder: &Recorder) -> Outcome {
        if let End::Broken(reason) = end {
            return Outcome::Failed { reason };
        }
        if recorder.due == 0 {
            return Outcome::Failed {
                reason: "no request was due: the rate is too low for this length".to_owned(),
            };
        }
        if recorder.acked == 0 {
            return Outcome::Failed {
                reason: format!("no request was acknowledged: {}", names_of(&recorder.errors)),
            };
        }
        outcome(&Seen {
            backlog: recorder.backlog.clone(),
            due: recorder.due,
            in_flight_limit: self.engine.in_flight_limit(),
            own_lateness_us_p99: recorder.own_lateness.quantile_us(0.99).unwrap_or(0.0),
            lateness_limit_us: self.settings.lateness_limit_us,
        })
    }

    /// `host:port` of every broker that gets some of the load.
    pub fn leaders(&self) -> impl Iterator<Item = &str> {
        self.layout.leaders.iter().map(|(address, _)| address.as_str())
    }
}

/// `INVALID_RECORD (100 times)`, and so on.
fn names_of(errors: &BTreeMap<String, u64>) -> String {
    let names: Vec<String> = errors.iter().map(|(name, times)| format!("{name} ({times} times)")).collect();
    names.join(", ")
}
