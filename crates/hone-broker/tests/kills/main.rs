//! Random stories with real kills: clients of every kind write, read and administer until `kill -9` ends the broker, and
//! then everything that it had promised is looked for in the next one.
//!
//! A kill keeps the page cache, so whatever was acknowledged must be there. A power cut is played from a record of the
//! broker's fsyncs ([`cut`]); then only what was acknowledged as durable must be.
//!
//! HONE_SEED plays one story again, HONE_LONG=1 many more. A story that fails prints its seed and leaves its data folder.

#[path = "../support/mod.rs"]
mod support;

mod cut;
mod dice;
mod line;
mod model;
mod others;
mod writers;

use std::collections::{HashMap, HashSet};
use std::fs;
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use kafka_protocol::messages::list_offsets_request::{ListOffsetsPartition, ListOffsetsTopic};
use kafka_protocol::messages::*;

use dice::Dice;
use line::Line;
use model::{Found, Model, PLANS, Place, Sight};
use others::{Admin, Committer, LIVES, Reader, committed, fetch_of, life, records_in};
use support::*;
use writers::{Kind, Scene, Teller, Writer};

/// Kills of one story: the data folder stays small, and each story has another beginning.
const KILLS: usize = 10;

#[test]
fn what_was_acknowledged_survives_every_kill() {
    tell(if long() { 1_000 } else { 50 }, Ending::Kills);
}

#[test]
fn what_was_acknowledged_as_durable_survives_every_power_cut() {
    tell(if long() { 200 } else { 10 }, Ending::PowerCuts);
}

fn long() -> bool {
    std::env::var_os("HONE_LONG").is_some()
}

/// Tells stories until there were so many kills (or power cuts).
fn tell(wanted: usize, ending: Ending) {
    let seed = std::env::var("HONE_SEED").ok().map(|seed| seed.parse().expect("HONE_SEED is a number"));
    let random =
        std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_nanos() as u64;
    if let Some(seed) = seed {
        Story::new(seed, ending).tell();
        return;
    }
    let mut kills = 0;
    let mut stories = 0;
    while kills < wanted {
        kills += Story::new(random.wrapping_add(stories), ending).tell();
        stories += 1;
    }
}

/// What ends a broker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ending {
    Kills,
    PowerCuts,
}

/// One data folder and all that happens to it.
struct Story {
    seed: u64,
    dice: Dice,
    ending: Ending,
    folder: Option<tempfile::TempDir>,
    /// Every power cut moves the data to another folder.
    round: usize,
    kills: usize,
    writers: Vec<Writer>,
    tellers: Vec<Teller>,
    committers: Vec<Committer>,
    admin: Admin,
    readers: Vec<Reader>,
    model: Model,
}

impl Drop for Story {
    #[expect(clippy::print_stderr, reason = "whoever looks for the cause needs both")]
    fn drop(&mut self) {
        if std::thread::panicking() {
            let folder = self.folder.take().map(tempfile::TempDir::keep).unwrap_or_default();
            eprintln!(
                "HONE_SEED={} ({:?}) failed in round {}; see {}",
                self.seed,
                self.ending,
                self.round,
                folder.display()
            );
        }
    }
}

impl Story {
    fn new(seed: u64, ending: Ending) -> Self {
        let mut dice = Dice::new(seed);
        let kinds = [Kind::Plain, Kind::Plain, Kind::Idempotent, Kind::Idempotent, Kind::Durable];
        let writers = (0..).zip(kinds);
        let writers =
            writers.map(|(number, kind)| Writer::new(format!("w{number}"), kind, dice.child())).collect();
        Self {
            seed,
            ending,
            folder: Some(tempfile::tempdir().unwrap()),
            round: 0,
            kills: 0,
            writers,
            tellers: (0..2).map(|number| Teller::new(number, dice.child())).collect(),
            committers: (0..2).map(|number| Committer::new(format!("group{number}"))).collect(),
            admin: Admin::new(dice.child()),
            readers: (0..2).map(|_| Reader::new(dice.child())).collect(),
            model: Model::default(),
            dice,
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.as_ref().unwrap().path().join(format!("{name}{}", self.round))
    }

    fn data(&self) -> PathBuf {
        match self.ending {
            Ending::Kills => self.folder.as_ref().unwrap().path().join("data"),
            Ending::PowerCuts => self.path("data"),
        }
    }

    /// Returns how often a broker was killed.
    fn tell(mut self) -> usize {
        for round in 0..KILLS {
            let broker = self.start();
            self.settle_and_check(&broker, round);
            self.act(broker);
            self.check_notices();
            let (data, record) = (self.data(), self.path("record"));
            self.round += 1;
            if self.ending == Ending::PowerCuts {
                cut::cut(&data, &record, &self.data(), &mut self.dice);
                cut::begin(&self.data(), &self.path("record"));
                self.writers.iter_mut().for_each(Writer::after_power_cut);
            }
        }
        let broker = self.start();
        self.settle_and_check(&broker, KILLS);
        assert!(self.model.acknowledged > 0, "a story without a promise");
        self.kills
    }

    fn arguments(&self) -> Vec<String> {
        let mut arguments = vec!["--threads", "2", "--housekeeping-ms", "15", "--no-auto-create"];
        let record = self.path("record");
        if self.ending == Ending::PowerCuts {
            arguments.extend(["--record-fsyncs", record.to_str().unwrap()]);
        }
        arguments.into_iter().map(str::to_owned).collect()
    }

    fn stderr(&self) -> Stdio {
        let file = fs::File::options().create(true).append(true).open(self.path("stderr")).unwrap();
        file.into()
    }

    /// Starts the broker; sometimes only after one that was killed before it was ready.
    fn start(&mut self) -> Process {
        let arguments = self.arguments();
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        // A power cut in the midst of a start is a story of its own: its record would end where the next one begins.
        while self.ending == Ending::Kills && self.dice.percent(30) {
            let mut child = Process::command(&self.data(), &arguments)
                .stdout(Stdio::null())
                .stderr(self.stderr())
                .spawn()
                .unwrap();
            std::thread::sleep(Duration::from_micros(self.dice.below(40_000)));
            child.kill().unwrap();
            child.wait().unwrap();
            self.kills += 1;
        }
        Process::start_with(&self.data(), &arguments, self.stderr())
    }

    /// What no death of a process can be the reason of.
    fn check_notices(&self) {
        let said = fs::read_to_string(self.path("stderr")).unwrap();
        assert!(!said.contains("panicked"), "{said}");
        if self.ending == Ending::Kills {
            for never in ["is missing", "damaged", "aside"] {
                assert!(!said.contains(never), "{said}");
            }
        }
    }

    /// Lets the clients work, and ends the broker.
    fn act(&mut self, broker: Process) {
        let scene = Scene {
            address: broker.kafka,
            model: Mutex::new(std::mem::take(&mut self.model)),
            stop: AtomicBool::new(false),
            ending: AtomicBool::new(false),
        };
        let dice = &mut self.dice;
        std::thread::scope(|scope| {
            let scene = &scene;
            self.writers.iter_mut().for_each(|client| drop(scope.spawn(|| client.run(scene))));
            self.tellers.iter_mut().for_each(|client| drop(scope.spawn(|| client.run(scene))));
            self.committers.iter_mut().for_each(|client| drop(scope.spawn(|| client.run(scene))));
            self.readers.iter_mut().for_each(|client| drop(scope.spawn(|| client.run(scene))));
            let admin = &mut self.admin;
            scope.spawn(|| admin.run(scene));
            std::thread::sleep(Duration::from_millis(20 + dice.below(300)));
            self.kills += 1;
            match dice.below(10) {
                // In the midst of a clean stop, or behind it.
                0..2 => {
                    scene.ending.store(true, Ordering::Release);
                    broker.ask_to_stop();
                    std::thread::sleep(Duration::from_micros(dice.below(60_000)));
                    broker.kill_9();
                }
                2 if self.ending == Ending::Kills => {
                    self.kills -= 1;
                    scene.ending.store(true, Ordering::Release);
                    assert_eq!(broker.terminate().code(), Some(0));
                }
                // Everybody has his answers.
                3 => {
                    scene.stop.store(true, Ordering::Release);
                    std::thread::sleep(Duration::from_millis(dice.below(60)));
                    broker.kill_9();
                }
                _ => broker.kill_9(),
            }
        });
        self.model = scene.model.into_inner().unwrap();
    }

    fn settle_and_check(&mut self, broker: &Process, round: usize) {
        let mut client = Client::connect(broker.kafka);
        if round == 0 {
            for plan in PLANS {
                let request = create_request(plan.name, plan.partitions, plan.properties);
                assert_eq!(client.call(5, &request).topics[0].error_code, 0, "{}", plan.name);
            }
        }
        let places = (0..)
            .zip(PLANS)
            .flat_map(|(topic, plan)| (0..plan.partitions).map(move |partition| (topic, partition)));
        let power_cut = self.ending == Ending::PowerCuts && round > 0;
        if power_cut {
            // Before anybody writes again.
            for place in places.clone() {
                let end = offset_of(&mut client, place, -1, 0);
                let markers = markers(&mut client, place, end);
                self.model.lose_tail(place, end, &markers);
            }
        }
        let scene = Scene {
            address: broker.kafka,
            model: Mutex::new(std::mem::take(&mut self.model)),
            stop: AtomicBool::new(false),
            ending: AtomicBool::new(false),
        };
        for teller in &mut self.tellers {
            teller.settle(&scene).expect("a broker that lives");
        }
        self.model = scene.model.into_inner().unwrap();
        let sights = places.map(|place| (place, look(&mut client, place))).collect();
        self.model.check(&sights, power_cut);
        let pending = self.writers.iter().flat_map(Writer::pending);
        let pending: HashSet<&String> =
            pending.chain(self.tellers.iter().flat_map(Teller::pending)).collect();
        self.model.forget_sent(&pending);
        let mut line = Line::open(broker.kafka).expect("a broker that lives");
        for group in self.model.groups() {
            let found = committed(&mut line, &group).expect("a broker that lives");
            self.model.check_group(&group, found);
        }
        for name in LIVES {
            let found = life(&mut client, name);
            let lives = self.model.lives.entry(name.to_owned()).or_default();
            let allowed = found == lives.now || lives.asked.as_ref() == Some(&found);
            assert!(allowed, "{name} is {found:?}, allowed {lives:?}");
            (lives.now, lives.asked) = (found, None);
        }
    }
}

/// One end of a partition: -2 for the first offset, -1 for the last.
fn offset_of(client: &mut Client, place: Place, which: i64, isolation: i8) -> i64 {
    let asked = ListOffsetsPartition::default().with_partition_index(place.1).with_timestamp(which);
    let topics =
        ListOffsetsTopic::default().with_name(topic(PLANS[place.0].name)).with_partitions(vec![asked]);
    let request = ListOffsetsRequest::default().with_isolation_level(isolation).with_topics(vec![topics]);
    let answer = client.call(4, &request);
    assert_eq!(answer.topics[0].partitions[0].error_code, 0);
    answer.topics[0].partitions[0].offset
}

/// A partition from its first to its last record, in both isolations. Retention may work meanwhile.
fn look(client: &mut Client, place: Place) -> Sight {
    loop {
        let start = offset_of(client, place, -2, 0);
        let end = offset_of(client, place, -1, 0);
        let stable = offset_of(client, place, -1, 1);
        if let Some(sight) = look_from(client, place, (start, stable, end)) {
            return sight;
        }
    }
}

/// `None` when the first offset has moved on.
fn look_from(client: &mut Client, place: Place, (start, stable, end): (i64, i64, i64)) -> Option<Sight> {
    let mut batches = Vec::new();
    let mut decided = HashSet::new();
    // By the markers alone, as far as the log goes back.
    let mut open: HashMap<i64, Vec<(i64, String)>> = HashMap::new();
    walk(client, place, start, end, 0, |batch, _| {
        let header = &batch.header;
        let records = if header.is_control() { Vec::new() } else { records_in(batch) };
        let values = records.iter().map(|(offset, _, value)| (*offset, value.clone()));
        let values = values.filter(|(offset, _)| *offset >= start);
        if header.is_control() {
            let key = hone_kafka::records(batch.payload(), 1).next().unwrap().unwrap().key.unwrap();
            let ended = open.remove(&header.producer_id).unwrap_or_default();
            if key == [0, 0, 0, 1] {
                let ended = ended.into_iter().filter(|(offset, _)| *offset < stable);
                decided.extend(ended.map(|(_, value)| value));
            }
        } else if header.is_transactional() {
            open.entry(header.producer_id).or_default().extend(values);
        } else if header.base_offset < stable {
            decided.extend(values.map(|(_, value)| value));
        }
        batches.push(Found {
            base_offset: header.base_offset,
            last_offset: header.last_offset(),
            bytes: header.total_bytes() as u64,
            records,
        });
    })?;
    let committed = look_committed(client, place, start, stable)?;
    let differ: Vec<_> =
        committed.symmetric_difference(&decided).map(|value| value.replace('x', "")).collect();
    // Compaction may work between the two.
    assert!(
        differ.is_empty() || PLANS[place.0].keeping == model::Keeping::LastOfKey,
        "{place:?}: answers and markers differ in what is committed between {start} and {stable}: {differ:?}"
    );
    Some(Sight { start, stable, end, batches, committed })
}

/// What a reader of committed records keeps: as clients do it, by the aborted transactions that answers name.
fn look_committed(client: &mut Client, place: Place, start: i64, stable: i64) -> Option<HashSet<String>> {
    let mut committed = HashSet::new();
    let mut active: HashSet<i64> = HashSet::new();
    walk(client, place, start, stable, 1, |batch, aborted| {
        let header = &batch.header;
        active.extend(aborted.iter().filter(|(_, first)| *first <= header.last_offset()).map(|(id, _)| *id));
        aborted.retain(|(_, first)| *first > header.last_offset());
        if header.is_control() {
            active.remove(&header.producer_id);
        } else if !header.is_transactional() || !active.contains(&header.producer_id) {
            let records = records_in(batch).into_iter().filter(|(offset, ..)| *offset >= start);
            committed.extend(records.map(|(_, _, value)| value));
        }
    })?;
    Some(committed)
}

/// Offsets of the markers in a partition.
fn markers(client: &mut Client, place: Place, end: i64) -> Vec<i64> {
    loop {
        let mut found = Vec::new();
        let start = offset_of(client, place, -2, 0);
        let walked = walk(client, place, start, end, 0, |batch, _| {
            found.extend(batch.header.is_control().then_some(batch.header.base_offset));
        });
        if walked.is_some() {
            return found;
        }
    }
}

/// Calls `each` with all batches up to `end`, and with the aborted transactions of the answer that they came in.
fn walk(
    client: &mut Client,
    place: Place,
    start: i64,
    end: i64,
    isolation: i8,
    mut each: impl FnMut(&hone_kafka::Batch<'_>, &mut Vec<(i64, i64)>),
) -> Option<()> {
    let mut from = start;
    while from < end {
        let answer = client.call(11, &fetch_of(place, from, 0, isolation));
        let row = &answer.responses[0].partitions[0];
        if row.error_code == 1 {
            return None;
        }
        assert_eq!(row.error_code, 0, "{place:?} at {from}");
        let mut aborted: Vec<(i64, i64)> = row
            .aborted_transactions
            .iter()
            .flatten()
            .map(|aborted| (aborted.producer_id.0, aborted.first_offset))
            .collect();
        let set = row.records.clone().unwrap_or_default();
        assert!(
            !set.is_empty() || PLANS[place.0].keeping == model::Keeping::LastOfKey,
            "{place:?}: nothing at {from}, before {end}"
        );
        if set.is_empty() {
            return Some(());
        }
        for batch in hone_kafka::batches(&set) {
            let batch = batch.unwrap();
            // What a teller leaves open may end after the bounds were asked for.
            if batch.header.base_offset < end {
                each(&batch, &mut aborted);
            }
            from = batch.header.last_offset() + 1;
        }
    }
    Some(())
}
