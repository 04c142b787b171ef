//! Random transactions with a crash between any two steps. A transaction must always end in the same way on every
//! partition, and in the way that its client has learned.
//!
//! The journal is a real one, cut after the durable entries. The logs are simulated and lose unflushed records.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, OpenOptions};
use std::path::PathBuf;
use std::sync::mpsc;
use std::sync::{Arc, Mutex};

use proptest::prelude::*;

use super::*;

const PARTITIONS: usize = 3;
const CLIENTS: usize = 2;
const GROUP: &str = "g";
/// Beyond every timeout.
const LATER_MS: i64 = 60 * 60_000;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Item {
    /// Records of a transaction, by its number in the test.
    Data(Producer, usize),
    Marker(Producer, Decision),
}

impl Item {
    fn producer(self) -> Producer {
        match self {
            Self::Data(producer, _) | Self::Marker(producer, _) => producer,
        }
    }
}

/// A partition that checks epochs, as a real one does.
#[derive(Debug, Default)]
struct Log {
    items: Vec<Item>,
    flushed: usize,
}

impl Log {
    fn append(&mut self, item: Item) -> bool {
        let producer = item.producer();
        let newer = |old: &Item| old.producer().id == producer.id && old.producer().epoch > producer.epoch;
        let admitted = !self.items.iter().any(newer);
        if admitted {
            self.items.push(item);
        }
        admitted
    }

    /// Producers whose last item is no marker.
    fn open(&self) -> Vec<Producer> {
        let mut last = BTreeMap::new();
        for item in &self.items {
            last.insert(item.producer().id, *item);
        }
        let data = last.into_values().filter(|item| matches!(item, Item::Data(..)));
        data.map(Item::producer).collect()
    }

    /// How each transaction has ended here.
    fn ends(&self) -> impl Iterator<Item = (usize, Option<Decision>)> {
        self.items.iter().enumerate().filter_map(|(at, item)| {
            let Item::Data(producer, number) = *item else { return None };
            let end = self.items[at..].iter().find_map(|later| match *later {
                Item::Marker(by, decision) if by.id == producer.id => Some(decision),
                _ => None,
            });
            Some((number, end))
        })
    }
}

/// Everything but the journal.
#[derive(Debug, Default)]
struct Disk {
    logs: [Log; PARTITIONS],
    staged: BTreeMap<i64, BTreeSet<usize>>,
    committed: BTreeSet<usize>,
    /// Steps until death.
    steps_left: Option<usize>,
}

impl Disk {
    /// Whether the process lives to do one more step.
    fn lives(&mut self) -> bool {
        match &mut self.steps_left {
            Some(0) => false,
            Some(left) => {
                *left -= 1;
                true
            }
            None => true,
        }
    }

    fn finish(&mut self, ending: &Ending) -> Result<(), String> {
        let dead = || Err("died".to_owned());
        let partitions: Vec<usize> =
            ending.places.partitions.values().flatten().map(|partition| *partition as usize).collect();
        for partition in &partitions {
            if !self.lives() {
                return dead();
            }
            let marked = self.logs[*partition].append(Item::Marker(ending.producer, ending.decision));
            assert!(marked, "a marker is never fenced");
        }
        for partition in partitions {
            if !self.lives() {
                return dead();
            }
            self.logs[partition].flushed = self.logs[partition].items.len();
        }
        if !self.lives() {
            return dead();
        }
        if !ending.places.groups.is_empty() {
            let staged = self.staged.remove(&ending.producer.id).unwrap_or_default();
            if ending.decision == Decision::Commit {
                self.committed.extend(staged);
            }
        }
        if self.lives() { Ok(()) } else { dead() }
    }
}

struct TestEnds {
    disk: Arc<Mutex<Disk>>,
    path: PathBuf,
    durable_bytes: Arc<Mutex<u64>>,
}

impl Ends for TestEnds {
    fn carry_out(&self, endings: &[Ending]) -> Vec<Result<(), String>> {
        // The decisions are durable before anything is carried out.
        *self.durable_bytes.lock().unwrap() = fs::metadata(&self.path).unwrap().len();
        let mut disk = self.disk.lock().unwrap();
        endings.iter().map(|ending| disk.finish(ending)).collect()
    }
}

#[derive(Debug)]
struct Client {
    name: String,
    protocol: Protocol,
    producer: Option<Producer>,
    /// The number of its transaction.
    number: Option<usize>,
    /// Where it has written, and whether that was acknowledged.
    written: BTreeMap<usize, bool>,
    staged: bool,
    ending: Option<Decision>,
}

impl Client {
    fn give_up(&mut self) {
        self.producer = None;
        self.number = None;
        self.written.clear();
        self.staged = false;
        self.ending = None;
    }
}

/// The outcome of a transaction that a client has learned.
#[derive(Debug)]
struct Told {
    decision: Decision,
    written: Vec<usize>,
    staged: bool,
}

#[derive(Debug, Clone)]
enum Command {
    Claim(usize),
    Renew(usize),
    Write {
        client: usize,
        partition: usize,
        flush: bool,
    },
    Stage(usize),
    End(usize, bool),
    /// A turn of the carrying thread; it may die after some steps.
    Turn(Option<usize>),
    TimeOut,
    /// A share, in 1/255, of what was not durable survives.
    Die(u8),
}

struct World {
    folder: tempfile::TempDir,
    transactions: Option<Transactions>,
    turns: Turns,
    answers: mpsc::Receiver<(Ticket, Reply)>,
    disk: Arc<Mutex<Disk>>,
    durable_bytes: Arc<Mutex<u64>>,
    clients: Vec<Client>,
    told: BTreeMap<usize, Told>,
    numbers: usize,
    ids: i64,
}

fn ticket(client: usize) -> Ticket {
    Ticket { reactor: 0, connection: client }
}

fn open_transactions(folder: &Path) -> (Transactions, mpsc::Receiver<(Ticket, Reply)>) {
    let transactions = Transactions::open(Some(folder), &Notices::nowhere()).unwrap();
    let (sender, receiver) = mpsc::channel();
    let sender = Mutex::new(sender);
    transactions.post_to(Arc::new(move |ticket, reply| {
        // After a crash, the receiver is gone.
        let _ = sender.lock().unwrap().send((ticket, reply));
    }));
    (transactions, receiver)
}

impl World {
    fn new(protocols: [Protocol; CLIENTS]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let (transactions, answers) = open_transactions(folder.path());
        let client = |(index, protocol)| Client {
            name: format!("t{index}"),
            protocol,
            producer: None,
            number: None,
            written: BTreeMap::new(),
            staged: false,
            ending: None,
        };
        Self {
            folder,
            transactions: Some(transactions),
            turns: Turns::new(unix_ms()),
            answers,
            disk: Arc::default(),
            durable_bytes: Arc::default(),
            clients: protocols.into_iter().enumerate().map(client).collect(),
            told: BTreeMap::new(),
            numbers: 0,
            ids: 1000,
        }
    }

    fn journal_path(&self) -> PathBuf {
        self.folder.path().join(JOURNAL_FILE)
    }

    fn note_durable(&self) {
        *self.durable_bytes.lock().unwrap() = fs::metadata(self.journal_path()).unwrap().len();
    }

    /// Waits for the one answer that is due.
    fn answer(&self) -> Reply {
        let (_, reply) = self.answers.recv_timeout(Duration::from_secs(30)).unwrap();
        self.note_durable();
        reply
    }

    fn claim(&mut self, index: usize, claimed: Option<Producer>) {
        let transactions = self.transactions.as_ref().unwrap();
        let ids = &mut self.ids;
        let mut fresh_id = || {
            *ids += 1;
            Ok(*ids)
        };
        let name = self.clients[index].name.clone();
        let result = transactions.claim(ticket(index), &name, 60_000, claimed, &mut fresh_id);
        self.clients[index].give_up();
        match result {
            Ok(()) => match self.answer() {
                Reply::Producer(producer) => self.clients[index].producer = Some(producer),
                other => panic!("{other:?}"),
            },
            Err(error) => assert!([code::CONCURRENT_TRANSACTIONS, code::PRODUCER_FENCED].contains(&error)),
        }
    }

    fn number(&mut self, index: usize) -> usize {
        if self.clients[index].number.is_none() {
            self.numbers += 1;
            self.clients[index].number = Some(self.numbers);
        }
        self.clients[index].number.unwrap()
    }

    fn write(&mut self, index: usize, partition: usize, flush: bool) {
        let Some(producer) = self.clients[index].producer else { return };
        if self.clients[index].ending.is_some() {
            return;
        }
        let number = self.number(index);
        let place = i32::try_from(partition).unwrap();
        if !self.announce(index, producer, place) {
            self.clients[index].give_up();
            return;
        }
        let mut disk = self.disk.lock().unwrap();
        let log = &mut disk.logs[partition];
        if !log.append(Item::Data(producer, number)) {
            drop(disk);
            self.clients[index].give_up();
            return;
        }
        if flush {
            log.flushed = log.items.len();
        }
        drop(disk);
        *self.clients[index].written.entry(partition).or_insert(flush) |= flush;
    }

    fn announce(&mut self, index: usize, producer: Producer, partition: i32) -> bool {
        let transactions = self.transactions.as_ref().unwrap();
        let name = &self.clients[index].name;
        if self.clients[index].protocol == Protocol::Second {
            return transactions.implicitly_add(name, producer.id, producer.epoch, "a", partition).is_ok();
        }
        let asked = [(name.as_str(), producer, Places::partition("a", partition))];
        let (results, waits) = transactions.add(ticket(index), asked);
        if waits {
            assert_eq!(self.answer(), Reply::Code(code::NONE));
        }
        let name = &self.clients[index].name;
        let transactions = self.transactions.as_ref().unwrap();
        results[0].is_ok()
            && transactions.check_produce(name, producer.id, producer.epoch, "a", partition).is_ok()
    }

    fn stage(&mut self, index: usize) {
        let Some(producer) = self.clients[index].producer else { return };
        if self.clients[index].ending.is_some() {
            return;
        }
        let number = self.number(index);
        let client = &self.clients[index];
        let transactions = self.transactions.as_ref().unwrap();
        let added = match client.protocol {
            Protocol::First => {
                let asked = [(client.name.as_str(), producer, Places::group(GROUP))];
                let (results, waits) = transactions.add(ticket(index), asked);
                results[0].map(|()| waits)
            }
            Protocol::Second => transactions.add_group(ticket(index), &client.name, producer, GROUP),
        };
        if added == Ok(true) {
            self.answer();
        }
        let disk = Arc::clone(&self.disk);
        let stage = || {
            disk.lock().unwrap().staged.entry(producer.id).or_default().insert(number);
        };
        let client = &mut self.clients[index];
        let transactions = self.transactions.as_ref().unwrap();
        let staged = added.and_then(|_| transactions.stage(&client.name, producer, GROUP, stage));
        match staged {
            Ok(()) => client.staged = true,
            Err(_) => client.give_up(),
        }
    }

    fn end(&mut self, index: usize, decision: Decision) {
        // Who has not heard how it ended asks the same again.
        let decision = self.clients[index].ending.unwrap_or(decision);
        if self.clients[index].number.is_none() {
            return;
        }
        if self.clients[index].ending.is_none() && decision == Decision::Commit {
            self.send_again(index);
        }
        let client = &self.clients[index];
        let Some(producer) = client.producer else { return };
        if client.number.is_none() {
            return;
        }
        let transactions = self.transactions.as_ref().unwrap();
        let ids = &mut self.ids;
        let mut fresh_id = || {
            *ids += 1;
            Ok(*ids)
        };
        let ended =
            transactions.end(ticket(index), &client.name, producer, decision, client.protocol, &mut fresh_id);
        match ended {
            Ok(Some(successor)) => {
                self.clients[index].ending = Some(decision);
                self.hear(index, successor);
            }
            Ok(None) | Err(code::CONCURRENT_TRANSACTIONS) => self.clients[index].ending = Some(decision),
            Err(_) => self.clients[index].give_up(),
        }
    }

    /// A client commits only after all acknowledgements.
    fn send_again(&mut self, index: usize) {
        let unacknowledged: Vec<usize> = self.clients[index]
            .written
            .iter()
            .filter(|(_, acknowledged)| !**acknowledged)
            .map(|(partition, _)| *partition)
            .collect();
        for partition in unacknowledged {
            let (producer, number) = (self.clients[index].producer, self.clients[index].number);
            let (Some(producer), Some(number)) = (producer, number) else { return };
            let mut disk = self.disk.lock().unwrap();
            let log = &mut disk.logs[partition];
            if log.items.contains(&Item::Data(producer, number)) {
                log.flushed = log.items.len();
                drop(disk);
                self.clients[index].written.insert(partition, true);
            } else {
                drop(disk);
                self.write(index, partition, true);
            }
        }
    }

    fn hear(&mut self, index: usize, successor: Producer) {
        let client = &mut self.clients[index];
        if let (Some(number), Some(decision)) = (client.number, client.ending) {
            let written = client.written.keys().copied().collect();
            self.told.insert(number, Told { decision, written, staged: client.staged });
        }
        client.give_up();
        client.producer = Some(successor);
    }

    fn turn(&mut self, now_ms: i64, steps: Option<usize>) {
        self.disk.lock().unwrap().steps_left = steps;
        let (disk, durable_bytes) = (Arc::clone(&self.disk), Arc::clone(&self.durable_bytes));
        let before = *durable_bytes.lock().unwrap();
        let ends = TestEnds { disk, path: self.journal_path(), durable_bytes };
        self.transactions.as_ref().unwrap().turn(&mut self.turns, now_ms, &ends);
        let died = self.disk.lock().unwrap().steps_left == Some(0);
        let carried_out = *self.durable_bytes.lock().unwrap() > before;
        if carried_out && !died {
            // A client that has learned of an end relies on the journal's entry.
            self.note_durable();
        }
        self.disk.lock().unwrap().steps_left = None;
        let heard: Vec<_> = self.answers.try_iter().collect();
        // An answer of a process that dies may be lost.
        for (ticket, reply) in heard.into_iter().filter(|_| !died) {
            if let Reply::Producer(successor) = reply
                && self.clients[ticket.connection].ending.is_some()
            {
                self.hear(ticket.connection, successor);
            }
        }
        if died {
            self.die(0);
        }
    }

    fn die(&mut self, share: u8) {
        drop(self.transactions.take());
        let path = self.journal_path();
        let (length, durable) = (fs::metadata(&path).unwrap().len(), *self.durable_bytes.lock().unwrap());
        let kept = durable + (length - durable) * u64::from(share) / 255;
        OpenOptions::new().write(true).open(&path).unwrap().set_len(kept).unwrap();
        for log in &mut self.disk.lock().unwrap().logs {
            let left = (log.items.len() - log.flushed) * usize::from(255 - share) / 255;
            log.items.truncate(log.flushed + left);
            log.flushed = log.items.len();
        }
        (*self).reopen();
        self.note_durable();
    }

    fn reopen(&mut self) {
        let (transactions, answers) = open_transactions(self.folder.path());
        for (partition, log) in self.disk.lock().unwrap().logs.iter_mut().enumerate() {
            for producer in log.open() {
                if let Some(owner) = transactions.meet(producer, "a", i32::try_from(partition).unwrap()) {
                    assert!(log.append(Item::Marker(owner, Decision::Abort)));
                }
            }
            log.flushed = log.items.len();
        }
        self.transactions = Some(transactions);
        self.answers = answers;
        self.turns = Turns::new(unix_ms());
    }

    fn run(&mut self, command: Command) {
        match command {
            Command::Claim(client) => self.claim(client, None),
            Command::Renew(client) => {
                let claimed = self.clients[client].producer;
                self.claim(client, claimed);
            }
            Command::Write { client, partition, flush } => self.write(client, partition, flush),
            Command::Stage(client) => self.stage(client),
            Command::End(client, commit) => {
                self.end(client, if commit { Decision::Commit } else { Decision::Abort });
            }
            Command::Turn(steps) => self.turn(unix_ms(), steps),
            Command::TimeOut => self.turn(unix_ms() + LATER_MS, None),
            Command::Die(share) => self.die(share),
        }
    }

    fn check(&self) {
        let disk = self.disk.lock().unwrap();
        let mut ends: BTreeMap<usize, BTreeSet<bool>> = BTreeMap::new();
        for log in &disk.logs {
            for (number, end) in log.ends() {
                let end = end.unwrap_or_else(|| panic!("transaction {number} is open: {disk:?}"));
                ends.entry(number).or_default().insert(end == Decision::Commit);
            }
        }
        for number in &disk.committed {
            ends.entry(*number).or_default().insert(true);
        }
        for (number, seen) in &ends {
            assert_eq!(seen.len(), 1, "transaction {number} has ended in two ways: {disk:?}");
        }
        assert!(disk.staged.values().all(BTreeSet::is_empty), "staged for ever: {disk:?}");
        for (number, told) in &self.told {
            let committed = told.decision == Decision::Commit;
            assert!(
                ends.get(number).is_none_or(|seen| seen.contains(&committed)),
                "{number}: {told:?} {disk:?}"
            );
            if committed {
                assert_eq!(disk.committed.contains(number), told.staged, "{number}: {told:?} {disk:?}");
                for partition in &told.written {
                    let found = disk.logs[*partition].ends().any(|(found, _)| found == *number);
                    assert!(found, "{number} lost what it wrote to {partition}: {disk:?}");
                }
            }
        }
    }
}

fn command() -> impl Strategy<Value = Command> {
    let client = 0..CLIENTS;
    prop_oneof![
        2 => client.clone().prop_map(Command::Claim),
        1 => client.clone().prop_map(Command::Renew),
        8 => (client.clone(), 0..PARTITIONS, any::<bool>())
            .prop_map(|(client, partition, flush)| Command::Write { client, partition, flush }),
        2 => client.clone().prop_map(Command::Stage),
        5 => (client, proptest::bool::weighted(0.8)).prop_map(|(client, commit)| Command::End(client, commit)),
        3 => proptest::option::of(0..8_usize).prop_map(Command::Turn),
        1 => Just(Command::TimeOut),
        2 => any::<u8>().prop_map(Command::Die),
    ]
}

fn protocol() -> impl Strategy<Value = Protocol> {
    prop_oneof![Just(Protocol::First), Just(Protocol::Second)]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, ..ProptestConfig::default() })]

    #[test]
    fn no_death_leaves_a_transaction_half_done(
        protocols in [protocol(), protocol()],
        commands in proptest::collection::vec(command(), 1..60),
    ) {
        let mut world = World::new(protocols);
        (0..CLIENTS).for_each(|client| world.claim(client, None));
        for command in commands {
            world.run(command);
        }
        world.die(0);
        world.turn(unix_ms(), None);
        world.turn(unix_ms() + LATER_MS, None);
        world.check();
    }
}
