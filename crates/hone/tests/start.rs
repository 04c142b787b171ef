//! A start that was agreed with others and missed is told: whoever is late is not in step with the others any more.

use std::collections::BTreeMap;
use std::thread;
use std::time::{Duration, Instant};

use hone_load::{
    Launched, Launcher, Prepared, Probe, ProbeFacts, Progress, Security, Settings, Topic, Unseen,
};
use hone_record::{Engine, EventKind, Keys, Payload, Schedule, Shard, Sizes, Window, Workload};

mod stage;
use stage::Broker;

struct Nobody;

impl Launcher for Nobody {
    fn launch(&self, _: &[String]) -> Result<Launched, String> {
        Err("no program is wanted".to_owned())
    }
}

impl Progress for Nobody {
    fn at(&mut self, _: &'static str, _: f64) -> bool {
        true
    }
}

/// A probe that takes its time.
struct Slow(Duration);

impl Probe for Slow {
    fn start(&mut self) {
        thread::sleep(self.0);
    }

    fn stop(&mut self) -> ProbeFacts {
        ProbeFacts::default()
    }
}

fn prepared(broker: &Broker, shard: Option<Shard>) -> Prepared {
    let workload = Workload {
        name: "start".to_owned(),
        engine: Engine::Wire,
        seed: 1,
        schedule: Schedule::Uniform,
        requests_per_s: 100.0,
        records_per_batch: 1,
        record_bytes: 100,
        sizes: Sizes::Fixed,
        payload: Payload::Bytes { compressible_share: 0.5 },
        keys: Keys::None,
        compression: "none".to_owned(),
        connections: 1,
        in_flight: 10,
        topics: hone_record::TopicShares::default(),
        partitions: 1,
        partitions_per_request: 1,
        acks: 1,
        idempotent: false,
        consumers: 1,
        consumer_group: false,
        consumer_groups: 1,
        group_protocol: hone_record::GroupProtocol::Assigned,
        rebalance_every_s: 0.0,
        processing: hone_record::Processing::default(),
        fetch: hone_record::FetchLimits::default(),
        read_from: hone_record::ReadFrom::End,
        backlog_bytes: 0,
        warmup_requests: 1,
        warmup_limit_s: 0.0,
        duration_s: 0.5,
        timeout_s: 20.0,
        topic_config: BTreeMap::new(),
        replication_factor: None,
        recording: None,
    };
    let settings = Settings {
        address: broker.address.clone(),
        variant: "target".to_owned(),
        storage: "unstated".to_owned(),
        topic: Topic::Fresh,
        lateness_limit_us: 60e6,
        shard,
        security: Security::default(),
    };
    let mut prepared = hone_load::prepare(settings, workload, &Nobody, &mut Nobody).unwrap();
    prepared.warm_up(&mut Unseen, &mut Nobody).unwrap();
    prepared
}

fn slips(window: &Window) -> Vec<&str> {
    let slipped = window.events.iter().filter(|event| event.kind == EventKind::StartSlipped);
    slipped.map(|event| event.what.as_str()).collect()
}

#[test]
fn a_start_that_was_agreed_and_missed_is_told() {
    let broker = Broker::start();
    let ahead = Duration::from_millis(100);
    let mut slow = Slow(Duration::from_millis(400));

    let mut duet = prepared(&broker, None);
    duet.stand_by().unwrap();
    let window = duet.run(Instant::now() + ahead, &mut slow, &mut Nobody).unwrap();
    let slip_ms = window.facts.start_slip_ms;
    assert!((290.0..10_000.0).contains(&slip_ms), "{slip_ms} ms");
    let [told] = slips(&window)[..] else { panic!("{:?}", window.events) };
    assert!(told.starts_with(&format!("the window opened {slip_ms:.0} ms after the agreed start")), "{told}");
    // The schedule begins with the window, so nothing of the slip is a latency.
    assert_eq!(window.facts.acked_requests, window.facts.requests);
    assert_eq!(window.end_to_end.as_ref().map(|seen| seen.missing), Some(0));

    let shard = prepared(&broker, Some(Shard { index: 0, of: 1, start_unix_ms: 0 }));
    let window = shard.run(Instant::now() + ahead, &mut slow, &mut Nobody).unwrap();
    assert_eq!(slips(&window).len(), 1, "a shard is silent: {:?}", window.events);
}

#[test]
fn a_start_that_was_kept_or_that_nobody_waits_for_is_none() {
    let broker = Broker::start();
    let alone = prepared(&broker, None);
    let window = alone.run(Instant::now(), &mut Slow(Duration::from_millis(50)), &mut Nobody).unwrap();
    assert_eq!((slips(&window).len(), window.facts.start_slip_ms), (0, 0.0));

    let mut duet = prepared(&broker, None);
    duet.stand_by().unwrap();
    // Far ahead: a neighbour must not make it late.
    let start = Instant::now() + Duration::from_secs(5);
    let before = Instant::now();
    let window = duet.run(start, &mut Slow(Duration::ZERO), &mut Nobody).unwrap();
    assert!(before.elapsed() >= Duration::from_secs(5), "it did not wait for its start");
    // A fifth of a second lies between the probe and the start; a neighbour may take more than that.
    let slip_ms = window.facts.start_slip_ms;
    assert!(
        slip_ms < 1_000.0 && slips(&window).is_empty() == (slip_ms <= 1.0),
        "{slip_ms}: {:?}",
        window.events
    );
}
