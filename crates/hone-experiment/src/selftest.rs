//! `hone load --self-test`: injects stalls, slow-downs and lost answers of known size at the embedded broker. The load must
//! measure each at its true size.

use std::net::SocketAddr;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use hone_load::fault_relay::{Fault, Relay};
use hone_load::{Security, Settings, Topic};
use hone_record::{Engine, Outcome, Schedule, SelfCheck, SelfTest, Window, Workload};
use hone_tool::{Call, Runner, Session, System};

use crate::notation::Written;
use crate::probe::NoProbe;
use crate::progress::Progress;
use crate::spec::{Acks, WorkloadFile};

/// Requests per second: enough for percentiles, and few enough for any machine.
const RATE: f64 = 500.0;
const WINDOW_S: f64 = 4.0;
/// Start of a fault, from the window's start.
const FAULT_AT: Duration = Duration::from_millis(1_500);
const STALL: Duration = Duration::from_millis(1_000);
const HOLD: Duration = Duration::from_millis(20);
/// Time limit of a request to a broker that does not answer.
const TIMEOUT_S: f64 = 1.0;
/// A request that took longer than this was hit by the stall. A healthy request is faster, even on a busy machine.
const HIT_MS: f64 = 250.0;
/// Tolerance for the delays of a busy machine.
const SLACK_MS: f64 = 100.0;
const READY_LIMIT: Duration = Duration::from_secs(30);

/// Injects every fault for every engine of this build.
pub fn run(engines: &[Engine], progress: &Progress) -> Result<SelfTest> {
    let scratch = Scratch::new()?;
    let runner = System::new(scratch.0.join("logs"))?;
    let mut checks = Vec::new();
    for engine in engines {
        let stage = Stage { engine, runner: &runner, folder: &scratch.0, progress };
        let clean = stage.window(Fault::None, WINDOW_S)?.0;
        checks.extend(stage.stall()?);
        checks.push(stage.slow(&clean)?);
        // A real client retries unanswered requests, in batches of its own, so there is no true count.
        if *engine == Engine::Wire {
            checks.extend(stage.silence()?);
        }
    }
    Ok(SelfTest { machine: hone_host::observe::machine(Path::new("/")), checks })
}

/// A folder for logs that is deleted after use.
struct Scratch(std::path::PathBuf);

impl Scratch {
    fn new() -> Result<Self> {
        let folder = std::env::temp_dir().join(format!("hone-self-test-{}", std::process::id()));
        std::fs::create_dir_all(&folder).with_context(|| format!("{} can't be created", folder.display()))?;
        Ok(Self(folder))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

struct Stage<'a> {
    engine: &'a Engine,
    runner: &'a dyn Runner,
    folder: &'a Path,
    progress: &'a Progress,
}

impl Stage<'_> {
    /// One window against its own broker, behind a relay with a fault.
    fn window(&self, fault: Fault, timeout_s: f64) -> Result<(Window, u64)> {
        let relay = Relay::bind(fault).context("the relay has no port")?;
        let (mut session, broker) = self.broker(relay.address())?;
        relay.serve(broker).context("the relay can't accept connections")?;
        let prepared = self.prepare(relay.address(), timeout_s)?;
        let start = Instant::now() + Duration::from_millis(20);
        relay.begin(start + FAULT_AT);
        let window = prepared.run(start, &mut NoProbe, &mut self.progress.load())?;
        session.check_alive("being loaded")?;
        session.stop(READY_LIMIT)?;
        Ok((steady(window)?, relay.swallowed()))
    }

    /// Stops the broker's process for a second.
    fn stall(&self) -> Result<Vec<SelfCheck>> {
        let (session, broker) = self.broker(SocketAddr::from(([127, 0, 0, 1], 0)))?;
        let prepared = self.prepare(broker, 10.0)?;
        let start = Instant::now() + Duration::from_millis(20);
        let pid = session.pid();
        let (window, stopped) = std::thread::scope(|scope| {
            let stopping = scope.spawn(move || {
                std::thread::sleep((start + FAULT_AT).saturating_duration_since(Instant::now()));
                let stopped = Stopped::stop(pid);
                std::thread::sleep(STALL);
                stopped.go_on()
            });
            let window = prepared.run(start, &mut NoProbe, &mut self.progress.load());
            (window, stopping.join())
        });
        let (window, stood_ms) = (steady(window?)?, stopped.map_or(0.0, |stood| stood.as_secs_f64() * 1e3));
        session.stop(READY_LIMIT)?;
        let latency = &window.latencies.intended_to_ack;
        let hit = RATE * (stood_ms - HIT_MS) / 1e3;
        let planted = format!("the broker is stopped for {:.2} s", stood_ms / 1e3);
        Ok(vec![
            self.check(
                &planted,
                "longest latency",
                "ms",
                stood_ms,
                latency.max_us().unwrap_or(0.0) / 1e3,
                [0.99 * stood_ms - 2.0 * 1e3 / RATE, stood_ms + SLACK_MS],
            ),
            self.check(
                &planted,
                "requests that waited for more than 250 ms",
                "requests",
                hit,
                latency.count_above_us(HIT_MS * 1e3) as f64,
                [0.95 * hit, hit + RATE * SLACK_MS / 1e3],
            ),
        ])
    }

    /// Every answer is delayed by a known time.
    fn slow(&self, clean: &Window) -> Result<SelfCheck> {
        let (slow, _) = self.window(Fault::Slow(HOLD), 10.0)?;
        let p50_ms = |window: &Window| window.latencies.intended_to_ack.quantile_us(0.5).unwrap_or(0.0) / 1e3;
        let hold_ms = HOLD.as_secs_f64() * 1e3;
        Ok(self.check(
            "every answer is delayed by 20 ms",
            "increase of the median latency",
            "ms",
            hold_ms,
            p50_ms(&slow) - p50_ms(clean),
            [0.95 * hold_ms, 1.25 * hold_ms],
        ))
    }

    /// One connection gets no more answers.
    fn silence(&self) -> Result<Vec<SelfCheck>> {
        let (window, swallowed) = self.window(Fault::Silent, TIMEOUT_S)?;
        let facts = &window.facts;
        let timeouts = facts.errors.values().sum::<u64>() + facts.retries.values().sum::<u64>();
        let planted = format!("{swallowed} answers of one connection are dropped");
        let ended = facts.acked_requests + facts.errors.values().sum::<u64>();
        Ok(vec![
            self.check(
                &planted,
                "requests that timed out or were retried",
                "requests",
                swallowed as f64,
                timeouts as f64,
                [swallowed.max(1) as f64, swallowed.max(1) as f64],
            ),
            self.check(
                &planted,
                "requests with an outcome, of all scheduled ones",
                "requests",
                facts.requests as f64,
                ended as f64,
                [facts.requests as f64, facts.requests as f64],
            ),
        ])
    }

    fn check(
        &self,
        planted: &str,
        looked_at: &str,
        unit: &str,
        truth: f64,
        seen: f64,
        [least, most]: [f64; 2],
    ) -> SelfCheck {
        SelfCheck {
            engine: self.engine.name().to_owned(),
            planted: planted.to_owned(),
            looked_at: looked_at.to_owned(),
            truth,
            seen,
            least,
            most,
            unit: unit.to_owned(),
        }
    }

    /// An embedded broker that advertises another address to its clients (port 0: its own).
    fn broker(&self, advertised: SocketAddr) -> Result<(Session, SocketAddr)> {
        let own = std::env::current_exe().context("can't find the file of this program")?;
        let call = Call::new("self-test-broker", own, self.folder).args([
            "broker".to_owned(),
            "--memory".to_owned(),
            "--listen".to_owned(),
            "127.0.0.1:0".to_owned(),
            "--advertise".to_owned(),
            advertised.to_string(),
            "--metrics-listen".to_owned(),
            "off".to_owned(),
        ]);
        let mut session = self.runner.start(&call)?;
        let line = session.stdout_line_matching("ready ", READY_LIMIT)?;
        let address = line.split_whitespace().find_map(|word| word.strip_prefix("kafka="));
        let address = address.and_then(|address| address.parse().ok());
        let address = address.with_context(|| format!("the broker's ready line has no address: {line}"))?;
        Ok((session, address))
    }

    fn prepare(&self, address: SocketAddr, timeout_s: f64) -> Result<hone_load::Prepared> {
        let file = WorkloadFile {
            requests_per_s: RATE,
            schedule: Written(Schedule::Uniform),
            duration_s: WINDOW_S,
            warmup_requests: 1_000,
            warmup_limit_s: 0.0,
            timeout_s,
            acks: Acks(1),
            ..WorkloadFile::default()
        };
        let workload =
            Workload { engine: self.engine.clone(), ..file.named("self-test").map_err(anyhow::Error::msg)? };
        let settings = Settings {
            address: address.to_string(),
            variant: "self-test".to_owned(),
            storage: "memory".to_owned(),
            topic: Topic::Fresh,
            lateness_limit_us: 1e6,
            shard: None,
            security: Security::default(),
        };
        let clients = crate::clients::Clients::apart();
        let mut prepared = hone_load::prepare(settings, workload, &clients, &mut self.progress.load())?;
        prepared.warm_up(&mut hone_load::Unseen, &mut self.progress.load())?;
        Ok(prepared)
    }
}

/// An incomplete window can't be examined.
fn steady(window: Window) -> Result<Window> {
    match &window.outcome {
        Outcome::Steady => Ok(window),
        other => bail!("a window of the self-test is incomplete: {other:?}"),
    }
}

/// A stopped process that continues when this is dropped.
struct Stopped {
    pid: u32,
    since: Instant,
}

impl Stopped {
    fn stop(pid: u32) -> Self {
        signal(pid, libc::SIGSTOP);
        Self { pid, since: Instant::now() }
    }

    /// How long it was stopped.
    fn go_on(self) -> Duration {
        let stood = self.since.elapsed();
        drop(self);
        stood
    }
}

impl Drop for Stopped {
    fn drop(&mut self) {
        signal(self.pid, libc::SIGCONT);
    }
}

fn signal(pid: u32, signal: libc::c_int) {
    // SAFETY: no memory is passed; the process is a child that has not been waited for, so the pid is still
    // its own.
    unsafe { libc::kill(pid.cast_signed(), signal) };
}
