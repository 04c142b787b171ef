//! From a workload to a window: prepare, warm up, measure.

mod catch_up;
mod faults;
mod own_topics;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use hone_record::{
    BatchSource, CpuSeconds, Durability, Engine, Environment, Event, EventKind, Fault, Latencies, Outcome,
    Payload, Sizes, TargetBusy, TargetMemory, Throttling, WarmUp, WarmUpEnd, Window, WindowFacts, Workload,
};

use crate::admin::{Admin, TopicLayout};
use crate::client::command::{Command, Launcher};
use crate::consumer::Consumers;
use crate::cpu::CpuTime;
use crate::engine::{End, Engine as Wire};
use crate::error::LoadError;
use crate::live::{Live, Progress};
use crate::payload::{self, Values};
use crate::ramp_search::Stairs;
use crate::raw::{Raw, RawFile};
use crate::recorder::Recorder;
use crate::schedule::Arrivals;
use crate::security::Access;
use crate::sender::{Account, Helpers, Sender};
use crate::settings::Settings;
use crate::steadiness::{WindowLoad, outcome};
use crate::warm::{self, Effort, Target};
use crate::{client, frames, keys, readback, recording, replay, schedule, sizes};

use catch_up::{add_consumed, check_consumers, check_processing, check_rate, readers, unix_ms};
pub use faults::Faults;
pub(crate) use own_topics::{OwnTopics, layout_of, output_of};

/// Measures the target and the machine at the start and the end of a window.
pub trait Probe {
    /// The window opens.
    fn start(&mut self);
    /// The window has closed, and every request has its answer.
    fn stop(&mut self) -> ProbeFacts;
}

/// Measurements of a [`Probe`].
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ProbeFacts {
    /// CPU of the target.
    pub target_cpu: Option<CpuSeconds>,
    /// Stolen CPU, share of all cores.
    pub steal_share: f64,
    /// CPU of all other processes, share of all cores.
    pub others_share: f64,
    /// Memory of the target.
    pub target_memory: Option<TargetMemory>,
    /// Throttling of the target by a CPU limit.
    pub throttling: Option<Throttling>,
    /// Busy time of the target by its own counters.
    pub target_busy: Option<TargetBusy>,
}

/// A load that is connected and warm.
#[derive(Debug)]
pub struct Prepared {
    settings: Settings,
    access: Access,
    workload: Workload,
    layout: TopicLayout,
    /// Arrival times of a replay.
    recorded: Option<Arc<[u64]>>,
    environment: Environment,
    engine: Box<dyn Sender>,
    consumers: Option<Consumers>,
    topic: OwnTopics,
    raw: Option<RawFile>,
    /// Everything that must be known before the window opens, collected before an agreed start.
    stands_by: Option<Beginning>,
    /// Result of the warm-up.
    warmed: Option<WarmUp>,
    /// Where the consumers begin, if that is before the window.
    begins: Option<BTreeMap<i32, i64>>,
    /// What will disturb the window, and what has.
    faults: Option<Box<dyn Faults>>,
    disturbed: Vec<Fault>,
}

/// Position of the window's start in the topic, for consumers and the reading of batches.
type Beginning = Option<BTreeMap<i32, i64>>;

/// No window is longer than a day, in seconds.
pub const LONGEST_WINDOW_S: f64 = 86_400.0;
/// The probe measures at most this long before a start that is far ahead, since the target's idle time until then is not part of the
/// window.
const PROBE_AHEAD: Duration = Duration::from_millis(200);
/// Delay of a start without an event: sleeping and waking takes a part of it.
const SLIP_TOLD_MS: f64 = 1.0;

/// Number of a producer's batches that brokers remember.
const MOST_NUMBERED: u32 = 5;

/// Checks the workload, creates the topic, encodes the requests and connects. For a client engine that is a command, the launcher starts
/// its program. The next step is [`Prepared::warm_up`].
///
/// # Errors
/// Returns an error when a setting is invalid, the broker can't be reached or refuses, or the user interrupts.
pub fn prepare(
    settings: Settings,
    mut workload: Workload,
    launcher: &dyn Launcher,
    progress: &mut dyn Progress,
) -> Result<Prepared, LoadError> {
    check(&workload)?;
    if !(settings.lateness_limit_us.is_finite() && settings.lateness_limit_us > 0.0) {
        let problem = format!("must be a positive number, got {} µs", settings.lateness_limit_us);
        return Err(LoadError::Setting { name: "lateness limit", problem });
    }
    payload::pin(&mut workload)?;
    recording::pin(&mut workload)?;
    let access = Access::new(&settings.security)?;
    let mut admin = Admin::enter(&settings.address, access.clone(), Admin::LIMIT)?;
    let recorded = replay::load(&mut workload, &mut admin)?;
    let mut topic = OwnTopics::at(&settings.address, &access);
    let layout = layout_of(&settings.topic, &workload, &mut admin, &mut topic)?;
    topic.remember(layout.leaders.iter().map(|(address, _)| address.clone()));
    let workload = fitted(workload, &layout, progress)?;
    let engine = engine(launcher, &settings, &access, &workload, &layout, progress)?;
    // Those that read a backlog start when it is stored.
    let output = output_of(&settings, &workload, &layout, &mut admin, &mut topic)?;
    let consumers = readers(&settings.address, &access, &workload, (&layout, output.as_ref()))?;
    let environment =
        Environment { security: settings.security.name(), ..admin.surroundings(layout.topics.first()) };
    topic.remember(environment.brokers.values().cloned());
    Ok(Prepared {
        settings,
        access,
        workload,
        layout,
        recorded,
        environment,
        engine,
        consumers,
        topic,
        raw: None,
        stands_by: None,
        warmed: None,
        begins: None,
        faults: None,
        disturbed: Vec::new(),
    })
}

/// The workload adapted to a topic with this layout: all of its partitions, and at most as many per request as a leader has.
fn fitted(
    workload: Workload,
    layout: &TopicLayout,
    progress: &mut dyn Progress,
) -> Result<Workload, LoadError> {
    let led = || layout.leaders.iter().map(|(_, led)| led.len() as u32);
    let (asked, partitions) = (workload.partitions_per_request, led().sum::<u32>());
    if asked > partitions {
        let problem = format!(
            "is {asked}, but topic `{}` has only {partitions}, and a request can contain each only once; \
             use at most {partitions}, or another topic",
            layout.topics.label()
        );
        return Err(LoadError::Setting { name: "partitions_per_request", problem });
    }
    let (least, most) = (led().min().unwrap_or(asked), led().max().unwrap_or(asked));
    if asked > least {
        let each = if least == most { least.to_string() } else { format!("{least} to {most}") };
        progress.note(&format!(
            "a request writes to partitions of one leader, but the leaders of topic `{}` have {each} each: \
             leaders with fewer than {asked} (partitions_per_request) get requests to all of their \
             partitions",
            layout.topics.label()
        ));
    }
    let partitions = partitions / workload.topics.count().max(1);
    let workload = Workload { partitions, partitions_per_request: asked.min(most), ..workload };
    check_memory(&workload, workload.record_bytes)?;
    Ok(workload)
}

/// The engine that sends the workload.
fn engine(
    launcher: &dyn Launcher,
    to: &Settings,
    access: &Access,
    workload: &Workload,
    layout: &TopicLayout,
    progress: &mut dyn Progress,
) -> Result<Box<dyn Sender>, LoadError> {
    match &workload.engine {
        Engine::Wire => Ok(Box::new(Wire::new(workload, layout, &to.address, access)?)),
        Engine::Librdkafka { settings } => client::librdkafka::sender(to, workload, settings, &layout.topics),
        Engine::Command { command, settings } => Ok(Box::new(Command::new(
            launcher,
            to,
            workload,
            command,
            settings,
            layout.topics.first(),
            progress,
        )?)),
        Engine::Tool { .. } | Engine::Exits { .. } => Err(no_schedule()),
    }
}

/// Checks a workload by itself, without a broker.
///
/// # Errors
/// Returns the invalid setting and its valid values.
pub fn check(workload: &Workload) -> Result<(), LoadError> {
    if workload.engine.operations().is_some() {
        return Err(no_schedule());
    }
    for (name, value, most) in
        [("duration_s", workload.duration_s, LONGEST_WINDOW_S), ("timeout_s", workload.timeout_s, 3_600.0)]
    {
        if !(value > 0.0 && value <= most) {
            return Err(LoadError::Setting {
                name,
                problem: format!("must be above 0 and at most {most}, got {value}"),
            });
        }
    }
    check_rate(workload)?;
    for (name, value, most) in [
        ("records_per_batch", workload.records_per_batch.into(), 1_000_000),
        ("record_bytes", workload.record_bytes.into(), 64 << 20),
        ("connections", workload.connections.into(), 10_000),
        ("in_flight", workload.in_flight.into(), 1_000_000),
        ("partitions", workload.partitions.into(), 100_000),
        ("topics", workload.topics.count().into(), 10_000),
        ("partitions_per_request", workload.partitions_per_request.into(), workload.all_partitions().into()),
        ("warmup_requests + 1", workload.warmup_requests.saturating_add(1), 100_000_000),
    ] {
        if value == 0 || value > most {
            return Err(LoadError::Setting {
                name,
                problem: format!("must lie between 1 and {most}, got {value}"),
            });
        }
    }
    // The lines of a file have their own size.
    let record_bytes = Values::from_workload(workload)?.mean_line_bytes().unwrap_or(workload.record_bytes);
    check_memory(workload, record_bytes)?;
    if !matches!(workload.acks, -1..=1) {
        return Err(LoadError::Setting { name: "acks", problem: "must be 0, 1 or -1 (all)".to_owned() });
    }
    check_topics(workload)?;
    check_consumers(workload)?;
    check_processing(workload)?;
    check_engine(workload)?;
    check_idempotence(workload)?;
    schedule::check(workload)?;
    keys::check(&workload.keys)?;
    recording::check(workload)?;
    check_sizes(workload)?;
    frames::codec_of(workload).map(|_| ())
}

/// At least one request for each partition is encoded before the window opens. A client encodes its own requests.
fn check_memory(workload: &Workload, record_bytes: u32) -> Result<(), LoadError> {
    let batch_bytes = u64::from(workload.records_per_batch) * u64::from(record_bytes);
    let request_bytes = batch_bytes.saturating_mul(workload.partitions_per_request.into());
    let encoded = if workload.engine == Engine::Wire { workload.all_partitions() } else { 1 };
    for (what, bytes, most) in [
        ("one request".to_owned(), request_bytes, 256 << 20),
        (
            format!("a request for each of {encoded} partitions"),
            request_bytes.saturating_mul(encoded.into()),
            2 << 30,
        ),
    ] {
        if bytes > most {
            let problem = format!(
                "times record_bytes ({record_bytes}) makes {bytes} bytes for {what}, but at most {most} are \
                 allowed"
            );
            return Err(LoadError::Setting { name: "records_per_batch", problem });
        }
    }
    Ok(())
}

fn check_topics(workload: &Workload) -> Result<(), LoadError> {
    let wrong = |problem: String| Err(LoadError::Setting { name: "topics", problem });
    let weights = workload.topics.weights();
    if let Some(weight) = weights.iter().find(|weight| !(weight.is_finite() && **weight > 0.0)) {
        return wrong(format!("need weights above 0, got {weight}"));
    }
    if workload.topics.count() == 1 {
        return Ok(());
    }
    if matches!(workload.engine, Engine::Command { .. }) {
        return wrong("must be 1 for a client command, since its line protocol names one topic".to_owned());
    }
    if workload.recording.is_some() {
        return wrong("must be 1 for the records of a topic".to_owned());
    }
    if !workload.topics.is_equal() && workload.partitions_per_request > 1 {
        return wrong("have weights, and then partitions_per_request must be 1".to_owned());
    }
    Ok(())
}

fn check_sizes(workload: &Workload) -> Result<(), LoadError> {
    if workload.sizes != Sizes::Fixed && matches!(workload.payload, Payload::File { .. }) {
        let problem = "must be fixed for the lines of a file, which have their own sizes: leave out --sizes";
        return Err(LoadError::Setting { name: "sizes", problem: problem.to_owned() });
    }
    sizes::check(workload.sizes, workload.record_bytes)
}

/// Loads of counted operations do not use Kafka.
fn no_schedule() -> LoadError {
    LoadError::Setting {
        name: "engine",
        problem: "counts the operations of a command, which only hone optimize can run; hone load sends \
            scheduled requests to a Kafka-API broker"
            .to_owned(),
    }
}

fn check_engine(workload: &Workload) -> Result<(), LoadError> {
    match &workload.engine {
        Engine::Wire => Ok(()),
        Engine::Librdkafka { settings } => {
            client::check(workload)?;
            client::librdkafka::check(workload, settings)
        }
        Engine::Command { .. } => client::check(workload),
        Engine::Tool { .. } | Engine::Exits { .. } => Err(no_schedule()),
    }
}

/// Requirements of brokers for idempotent producers. Client engines check their own.
fn check_idempotence(workload: &Workload) -> Result<(), LoadError> {
    if !workload.idempotent || workload.engine != Engine::Wire {
        return Ok(());
    }
    let wrong = |name: &'static str, problem: String| Err(LoadError::Setting { name, problem });
    if workload.acks != -1 {
        return wrong(
            "idempotent",
            "needs acks = \"all\", since otherwise it is unknown which records are stored".to_owned(),
        );
    }
    if workload.in_flight > MOST_NUMBERED {
        return wrong(
            "in_flight",
            format!(
                "must be at most {MOST_NUMBERED} with idempotence, got {}: brokers remember only the last \
                 {MOST_NUMBERED} batches of a producer",
                workload.in_flight
            ),
        );
    }
    if workload.partitions_per_request != 1 {
        return wrong(
            "partitions_per_request",
            format!(
                "must be 1 with idempotence, got {}: each partition has its own sequence of batches",
                workload.partitions_per_request
            ),
        );
    }
    Ok(())
}

impl Prepared {
    /// Warms the target up. Sends the workload's warm-up requests as fast as the in-flight limit allows. Then sends more until CPU per
    /// request and latency stop falling and the target's compiler threads are quiet, but not longer than the workload's `warmup_limit_s`.
    ///
    /// # Errors
    /// Returns an error when the broker refuses or fails, or the user interrupts.
    pub fn warm_up(&mut self, target: &mut dyn Target, progress: &mut dyn Progress) -> Result<(), LoadError> {
        // Without a rate, nothing is sent to a topic that is only read.
        if !self.workload.is_read_only() {
            self.warm_up_producers(target, progress)?;
        }
        self.store_backlog(target, progress)
    }

    fn warm_up_producers(
        &mut self,
        target: &mut dyn Target,
        progress: &mut dyn Progress,
    ) -> Result<(), LoadError> {
        let limit = Duration::from_secs_f64(self.workload.warmup_limit_s);
        let asked = self.workload.warmup_requests;
        if asked == 0 {
            return Ok(());
        }
        // A client ends a stretch only after its own timers, and in a warm-up its queue determines the latency.
        let is_wire = self.workload.engine == Engine::Wire;
        let most = if is_wire { warm::PARTS } else { 1 };
        let parts = (asked / warm::FEWEST_REQUESTS).clamp(1, most);
        let mut slices = Vec::new();
        let begun = Instant::now();
        for part in 0..parts {
            let requests = asked / parts + u64::from(part < asked % parts);
            let done = part as f64 / parts as f64;
            slices.push(self.slice(requests, 0, target, &mut |within| {
                progress.at("warm-up", done + within / parts as f64)
            })?);
        }
        let end = self.until_steady(&mut slices, parts, (begun, limit), target, progress)?;
        self.warmed = Some(warm::account(&slices, end));
        Ok(())
    }

    /// Continues until the slices show that the target is warm.
    fn until_steady(
        &mut self,
        slices: &mut Vec<warm::Slice>,
        parts: u64,
        (begun, limit): (Instant, Duration),
        target: &mut dyn Target,
        progress: &mut dyn Progress,
    ) -> Result<WarmUpEnd, LoadError> {
        let compiles = warm::compiles(slices);
        // A user who requests a short warm-up gets it, unless the target compiles itself.
        if parts < warm::PARTS && !compiles {
            return Ok(WarmUpEnd::TooShort);
        }
        let (length_s, most_per_s) = if compiles {
            (warm::SLICE_OF_A_COMPILER_S, warm::MOST_TIMES_THE_RATE * self.workload.requests_per_s)
        } else {
            (warm::SLICE_S, f64::INFINITY)
        };
        let most_per_s = most_per_s.max(1.0);
        while warm::state(slices) != warm::State::Steady {
            if begun.elapsed() >= limit {
                return Ok(WarmUpEnd::Limit);
            }
            let speed = slices.last().map_or(1.0, |slice| slice.requests as f64 / slice.took_s.max(1e-3));
            let requests = ((speed.min(most_per_s) * length_s) as u64).max(warm::FEWEST_REQUESTS);
            let apart_ns = if most_per_s.is_finite() { (1e9 / most_per_s) as u64 } else { 0 };
            let slice = self.slice(requests, apart_ns, target, &mut |_| {
                progress.at("warm-up", begun.elapsed().as_secs_f64() / limit.as_secs_f64().max(1e-3))
            })?;
            slices.push(slice);
        }
        Ok(WarmUpEnd::Steady)
    }

    /// Sends some requests with at least this distance, and waits for their answers.
    fn slice(
        &mut self,
        requests: u64,
        apart_ns: u64,
        target: &mut dyn Target,
        goes_on: &mut dyn FnMut(f64) -> bool,
    ) -> Result<warm::Slice, LoadError> {
        let before = target.effort();
        let begun = Instant::now();
        let mut recorder = Recorder::new(u64::MAX / 64);
        let mut look = |_now, recorder: &Recorder| goes_on(recorder.ended as f64 / requests.max(1) as f64);
        let mut arrivals = (0..requests).map(|number| number * apart_ns);
        let end = self.engine.run(Instant::now(), &mut arrivals, false, &mut recorder, &mut look)?;
        let refused = |error: &'static str, message: String| LoadError::Refused {
            address: self.settings.address.clone(),
            what: "the warm-up's Produce requests".to_owned(),
            error,
            message,
        };
        if let End::Broken(reason) = end {
            if self.workload.engine != Engine::Wire {
                return Err(LoadError::WarmUp { reason });
            }
            return Err(refused("connection lost", format!(": {reason}")));
        }
        if requests > 0 && recorder.acked == 0 {
            return Err(refused("no request was acknowledged", format!(": {}", names_of(&recorder.errors))));
        }
        let used = before.zip(target.effort()).map(|(before, after)| Effort {
            cpu_s: (after.cpu_s - before.cpu_s).max(0.0),
            compiling_s: before
                .compiling_s
                .zip(after.compiling_s)
                .map(|(before, after)| (after - before).max(0.0)),
        });
        Ok(warm::Slice {
            requests,
            took_s: begun.elapsed().as_secs_f64(),
            used,
            latency_us_p50: recorder
                .latencies
                .sent_to_ack
                .quantile_us(0.5)
                .filter(|_| self.workload.engine == Engine::Wire),
        })
    }

    /// Writes the times of every request of the window to a file, which is not part of its record.
    pub fn keep_raw(&mut self, raw: RawFile) {
        self.raw = Some(raw);
    }

    /// Does all slow preparations before a window, so that a start can be agreed with others. From here on, a missed start is reported.
    ///
    /// # Errors
    /// Returns an error when the topic's leaders can't be found.
    pub fn stand_by(&mut self) -> Result<(), LoadError> {
        self.stands_by = Some(self.begin(self.drain())?);
        Ok(())
    }

    fn drain(&self) -> Duration {
        Duration::from_secs_f64(self.workload.timeout_s)
    }

    /// Measures one window that opens at `start`, which may lie slightly ahead. It opens later if this generator is not ready in time. For
    /// a start agreed with others ([`Prepared::stand_by`], or a shard's), the record shows the delay.
    ///
    /// If the target fails, the result is a window whose outcome shows the failure.
    ///
    /// # Errors
    /// Returns an error when this machine refuses a socket or a wait.
    pub fn run(
        mut self,
        start: Instant,
        probe: &mut dyn Probe,
        progress: &mut dyn Progress,
    ) -> Result<Window, LoadError> {
        let duration_ns = (self.workload.duration_s * 1e9) as u64;
        let mut arrivals =
            schedule::part_of(Arrivals::new(&self.workload, self.recorded.clone()), self.settings.shard);
        let mut recorder = Recorder::new(duration_ns);
        recorder.raw = self.raw.take().map(Raw::start).transpose()?;
        recorder.stairs = self.workload.climb().map(|climb| Stairs::new(climb, self.workload.requests_per_s));
        let drain = self.drain();
        let is_agreed = self.stands_by.is_some() || self.settings.shard.is_some();
        let from = match self.stands_by.take() {
            Some(from) => from,
            None => self.begin(drain)?,
        };
        let (mut told, mut drawn_in, mut climbed) = (0, false, 0);
        let mut look = |now_ns: u64, recorder: &Recorder| {
            progress.now(&Live::from_recorder(recorder, now_ns));
            recorder.series[told..].iter().for_each(|point| progress.second(point));
            told = recorder.series.len();
            if !drawn_in && now_ns < duration_ns && progress.ends_early() {
                drawn_in = true;
                recorder.cut(now_ns);
            }
            // Asked once after each step. Beyond a missed SLO there would only be a longer queue.
            if let Some(stairs) = recorder.stairs.as_ref().filter(|stairs| stairs.whole(now_ns) > climbed) {
                climbed = stairs.whole(now_ns);
                if now_ns < duration_ns && stairs.is_over(climbed) {
                    recorder.cut(now_ns);
                }
            }
            progress.at("window", now_ns as f64 / duration_ns as f64)
        };
        std::thread::sleep(start.saturating_duration_since(Instant::now() + PROBE_AHEAD));
        // The probe takes time, more with more processes; no request may be due meanwhile.
        probe.start();
        let ready = Instant::now();
        let slip = if is_agreed { ready.saturating_duration_since(start) } else { Duration::ZERO };
        let start = start.max(ready);
        if let Some(consumers) = &self.consumers {
            consumers.open(start, duration_ns, from.clone().unwrap_or_default());
            recorder.placed = consumers.orders();
        }
        std::thread::sleep(start.saturating_duration_since(Instant::now()));
        let started_unix_ms = unix_ms();
        let cpu_before = self.cpu();
        let end = self.sent_or_read(start, &mut arrivals, &mut recorder, &mut look);
        let generator_cpu = cpu_before.until(self.cpu());
        let end = end?;
        recorder.placed = None;
        // Answers that a failed target has not sent by now will not come.
        let drain = if matches!(end, End::Broken(_)) { Duration::ZERO } else { drain };
        let consumed = self.consumers.take().map(|consumers| consumers.finish(drain));
        let seen = probe.stop();
        recorder.finish();
        recorder.series[told.min(recorder.series.len())..].iter().for_each(|point| progress.second(point));
        let mut account = self.account(&mut recorder, from.as_ref(), progress);
        let start_slip_ms = slip.as_secs_f64() * 1e3;
        account.events.splice(0..0, slipped(start_slip_ms));
        let end_of_window_ns = recorder.duration_ns();
        account.events.extend(recorder.raw.take().and_then(|raw| raw.finish(start, end_of_window_ns)));
        if let Err(error) = self.topic.remove() {
            let topic = self.layout.topics.label();
            progress.note(&format!("the load's topic {topic} could not be deleted: {error}"));
        }
        let read_back =
            account.batches.iter().find(|batches| batches.source == BatchSource::Fetched).cloned();
        let mut window =
            self.window(end, recorder, account, started_unix_ms, (generator_cpu, drawn_in), seen);
        // Only the topic shows a client's batches. In a shared topic these are the batches of all shards.
        if let Some(batches) = read_back.filter(|_| window.shard.is_none()) {
            window.facts.acked_bytes =
                (batches.bytes as f64 / batches.seen_share.max(f64::MIN_POSITIVE)) as u64;
        }
        window.facts.start_slip_ms = start_slip_ms;
        if let Some(consumed) = consumed {
            add_consumed(&mut window, consumed);
        }
        Ok(window)
    }

    /// Position of the window's start. Consumers have read everything before it.
    fn begin(&self, limit: Duration) -> Result<Beginning, LoadError> {
        if self.consumers.is_none() && self.engine.knows_batches() && self.faults.is_none() {
            return Ok(None);
        }
        let (_, from) = readback::ends(&self.access, &self.layout, readback::BEFORE)?;
        if let Some(consumers) = &self.consumers {
            consumers.begin(self.begins.clone().unwrap_or_else(|| from.clone()), limit)?;
        }
        Ok(Some(from))
    }

    /// CPU of all threads and processes that send and read, up to now.
    fn cpu(&self) -> CpuTime {
        let consumers = self.consumers.as_ref().map(Consumers::cpu).unwrap_or_default();
        self.engine.cpu().and(consumers)
    }

    /// The engine's data about the window, and the batches read from the topic if the engine does not know them.
    fn account(
        &mut self,
        recorder: &mut Recorder,
        from: Option<&BTreeMap<i32, i64>>,
        progress: &mut dyn Progress,
    ) -> Account {
        let mut account = self.engine.account(recorder, &self.layout);
        // In a shared topic, one generator reads the batches of all generators.
        let reads_back =
            !self.engine.knows_batches() && self.settings.shard.is_none_or(|shard| shard.index == 0);
        if let Some(from) = from.filter(|_| reads_back) {
            let found = readback::ends(&self.access, &self.layout, readback::BEHIND)
                .and_then(|(layout, to)| readback::batches_between(&self.access, &layout, from, &to));
            match found {
                Ok(found) => account.batches.push(found),
                Err(error) => progress.note(&format!("the window's batches could not be read back: {error}")),
            }
        }
        account.outage = self.outage(recorder, from, progress);
        account.events.extend(faults::events(account.outage.as_ref()));
        account
    }

    fn window(
        self,
        end: End,
        recorder: Recorder,
        account: Account,
        started_unix_ms: u64,
        (generator_cpu, drawn_in): (CpuSeconds, bool),
        seen: ProbeFacts,
    ) -> Window {
        let outcome = self.outcome(end, &recorder);
        let (duration_s, end_ns) = (length_s(&recorder), recorder.duration_ns());
        let mut events = account.events;
        if drawn_in {
            let what = format!("the user ended the window of {} s", self.workload.duration_s);
            events.push(Event { at_s: duration_s, kind: EventKind::Interrupted, what });
        }
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
            start_slip_ms: 0.0,
            answer_times: account.answer_times,
            socket_bytes: account.socket_bytes,
            stalls: Some(recorder.stalls),
            steps: recorder.stairs.map(|stairs| stairs.until(end_ns)).unwrap_or_default(),
            // For findings about the target before the window.
            idle_cores: None,
            target_memory: seen.target_memory,
            throttling: seen.throttling,
            target_busy: seen.target_busy,
            warm_up: self.warmed,
            // For findings about the course of the window.
            compiling_share: None,
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
            latencies: Latencies { own_lateness: recorder.own_lateness, ..recorder.latencies },
            series: recorder.series,
            end_to_end: None,
            batches: account.batches,
            split: account.split,
            events,
            environment: Some(self.environment),
            shard: self.settings.shard,
            client: account.client,
            requirements: Vec::new(),
            outage: account.outage,
        }
    }

    fn outcome(&self, end: End, recorder: &Recorder) -> Outcome {
        if let End::Broken(reason) = end {
            return Outcome::Failed { reason };
        }
        // Its consumers decide.
        if self.workload.is_read_only() {
            return Outcome::Steady;
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
        if let Some(stairs) = &recorder.stairs {
            return stairs.outcome(recorder.duration_ns());
        }
        outcome(&WindowLoad {
            backlog: recorder.backlog(),
            due: recorder.due,
            requests_per_s: recorder.due as f64 / length_s(recorder),
            in_flight_limit: self.engine.in_flight_limit(),
            own_lateness_us_p99: recorder.own_lateness.quantile_us(0.99).unwrap_or(0.0),
            lateness_limit_us: self.settings.lateness_limit_us,
        })
    }

    /// Threads and processes that work for this load, besides the thread that will run it.
    pub fn helpers(&self) -> Helpers {
        let mut helpers = self.engine.helpers();
        helpers.threads.extend(self.consumers.iter().flat_map(Consumers::thread_ids));
        helpers
    }

    /// The topic of the load.
    pub fn topic(&self) -> &str {
        self.layout.topics.first()
    }

    /// `host:port` of every broker of the cluster by its id, including brokers without a part of the load; empty if the cluster did not
    /// report it.
    pub fn brokers(&self) -> &BTreeMap<i32, String> {
        &self.environment.brokers
    }
}

/// Reports a start that was later than agreed.
fn slipped(slip_ms: f64) -> Option<Event> {
    (slip_ms > SLIP_TOLD_MS).then(|| Event {
        at_s: 0.0,
        kind: EventKind::StartSlipped,
        what: format!(
            "the window opened {slip_ms:.0} ms after the agreed start: the generator was not ready"
        ),
    })
}

/// Length of a window. It is never zero, because rates are divided by it.
fn length_s(recorder: &Recorder) -> f64 {
    recorder.duration_ns().max(1) as f64 / 1e9
}

/// `INVALID_RECORD (100 times)`, and so on.
fn names_of(errors: &BTreeMap<String, u64>) -> String {
    let names: Vec<String> = errors.iter().map(|(name, times)| format!("{name} ({times} times)")).collect();
    names.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    use crate::schedule::tests::workload;

    #[derive(Default)]
    struct Listener(Vec<String>);

    impl Progress for Listener {
        fn at(&mut self, _: &'static str, _: f64) -> bool {
            true
        }

        fn note(&mut self, text: &str) {
            self.0.push(text.to_owned());
        }
    }

    fn load(payload: Payload, records_per_batch: u32) -> Workload {
        Workload { payload, records_per_batch, ..workload(hone_record::Schedule::Uniform, 1.0, 1) }
    }

    fn layout(led: &[&[i32]]) -> TopicLayout {
        let leader = |(number, led): (usize, &&[i32])| (format!("b{number}:1"), led.to_vec());
        TopicLayout { topics: "t".into(), leaders: led.iter().enumerate().map(leader).collect() }
    }

    #[test]
    fn the_lines_of_a_file_are_reckoned_with_as_long_as_they_are() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lines").display().to_string();
        std::fs::write(&path, vec![b'v'; 10_000]).unwrap();
        let file = || Payload::File { path: path.clone(), sha256: String::new() };
        check(&load(file(), 1_000)).unwrap();
        let error = check(&load(file(), 100_000)).unwrap_err().to_string();
        assert!(error.contains("record_bytes (10000) makes 1000000000 bytes for one request"), "{error}");
        let spread = Workload { sizes: Sizes::LogNormal { sigma: 0.5 }, ..load(file(), 1) };
        let error = check(&spread).unwrap_err().to_string();
        assert!(error.contains("which have their own sizes"), "{error}");
    }

    #[test]
    fn the_partitions_of_a_topic_that_is_there_are_reckoned_with() {
        let many: Vec<i32> = (0..10_000).collect();
        let plain = load(Payload::Bytes { compressible_share: 0.5 }, 10_000);
        check(&plain).unwrap();
        let topic = layout(&[&many[..]]);
        let error = fitted(plain.clone(), &topic, &mut Listener::default()).unwrap_err().to_string();
        assert!(error.contains("10000000000 bytes for a request for each of 10000 partitions"), "{error}");
        // A client encodes no request ahead.
        let engine = Engine::Librdkafka { settings: BTreeMap::new() };
        let client = Workload { engine, records_per_batch: 1, record_bytes: 1_000_000, ..plain };
        assert_eq!(fitted(client, &topic, &mut Listener::default()).unwrap().partitions, 10_000);
    }

    #[test]
    fn a_request_is_as_wide_as_a_leader_lets_it_be_and_that_is_told() {
        let wide = |asked| Workload {
            partitions_per_request: asked,
            ..load(Payload::Bytes { compressible_share: 0.5 }, 1)
        };
        let three = layout(&[&[0, 3], &[1, 4], &[2, 5]]);
        let uneven = layout(&[&[0, 1, 2], &[3]]);
        for (asked, layout, width, told) in [
            (2, &three, 2, None),
            (6, &three, 2, Some("have 2 each: leaders with fewer than 6 (partitions_per_request)")),
            (2, &uneven, 2, Some("have 1 to 3 each: leaders with fewer than 2 (partitions_per_request)")),
        ] {
            let mut listener = Listener::default();
            let fitted = fitted(wide(asked), layout, &mut listener).unwrap();
            assert_eq!(fitted.partitions_per_request, width);
            assert_eq!(listener.0.len(), usize::from(told.is_some()), "{:?}", listener.0);
            assert!(told.is_none_or(|told| listener.0[0].contains(told)), "{:?}", listener.0);
        }
        let error = fitted(wide(4), &layout(&[&[0]]), &mut Listener::default()).unwrap_err().to_string();
        assert!(error.contains("is 4, but topic `t` has only 1,"), "{error}");
    }
}
