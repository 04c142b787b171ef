//! A broker without threads: one reactor that is stepped by hand, and whatever else has work is given its turn in
//! between. Clients are socket pairs.

use std::collections::BTreeMap;
use std::io::{ErrorKind, Read, Write};
use std::net::SocketAddr;
use std::os::fd::{FromRawFd, IntoRawFd};
use std::os::unix::net::UnixStream;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc::Receiver;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use mio::{Poll, Waker};

use crate::clerk::{self, Jobs};
use crate::coordinator::Coordinator;
use crate::groups::{Groups, Now, Timing};
use crate::journal::Journal;
use crate::mailbox::{Letter, Mailbox};
use crate::node::{Node, Stores};
use crate::notices::Notices;
use crate::offsets::{Offsets, Store};
use crate::partition::Storage;
use crate::properties::broker::BrokerProperties;
use crate::quotas::Quotas;
use crate::reactor::{BELL, Reactor};
use crate::security::Security;
use crate::security::acl::Acls;
use crate::security::hashing::Job;
use crate::settings::{NewUser, Settings};
use crate::shard_counters::load;
use crate::ticket::Ticket;
use crate::topics::{NewTopic, Topics};
use crate::transaction_ends::NodeEnds;
use crate::transactions::Transactions;
use crate::wall_clock::unix_ms;
use crate::workers;

/// Member ids are the same in every run, so that inputs can name them.
pub(super) const SALT: u64 = 7;
/// The topics that are there from the start: plain, with a schema, compacted.
pub(super) const TOPICS: [&str; 3] = ["t", "v", "c"];
/// Who can log in.
pub(super) const USER: &str = "user";
pub(super) const PASSWORD: &str = "pencil";
/// Rounds in which nothing comes until nothing is taken to come.
const QUIET_ROUNDS: usize = 4;
/// Rounds for a frame that many pieces of work hang on.
const MOST_ROUNDS: usize = 2_000;

/// What kind of broker an input asks for.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Mode {
    pub(super) authorize: bool,
    pub(super) sasl: bool,
}

impl Mode {
    pub(super) fn of(byte: u8) -> Self {
        Self { authorize: byte & 1 != 0, sasl: byte & 2 != 0 }
    }
}

/// A broker without threads.
pub(super) struct World {
    pub(super) node: Arc<Node>,
    reactor: Reactor,
    jobs: Jobs,
    logins: Receiver<Job>,
    ends: NodeEnds,
    /// The acceptor's poll, which the fuzz targets do not use.
    _poll: Poll,
    _folder: Option<tempfile::TempDir>,
}

/// One client of it.
pub(super) struct Client {
    stream: UnixStream,
    pub(super) received: Vec<u8>,
    pub(super) ended: bool,
}

impl World {
    pub(super) fn new(mode: Mode) -> Self {
        let mut settings = Settings::in_memory();
        settings.threads = 1;
        settings.group_initial_delay_ms = 0;
        settings.authorize = mode.authorize;
        settings.super_users = vec!["User:ANONYMOUS".to_owned(), format!("User:{USER}")];
        settings.sasl = mode.sasl;
        settings.insecure = true;
        let folder = mode.sasl.then(folder_with_users);
        let (security, logins) =
            Security::open(&settings, folder.as_ref().map(tempfile::TempDir::path)).expect("users");
        let address = SocketAddr::from(([127, 0, 0, 1], 9092));
        let storage = Storage { memory: true, ..Storage::on_disk(Notices::nowhere()) };
        let started_with = BrokerProperties::fixed(&settings, &address.into()).expect("properties");
        let stores = Stores {
            security,
            topics: Topics::open(None, &started_with, storage).expect("topics"),
            coordinator: coordinator(),
            acls: Acls::open(None, settings.authorize, &settings.super_users).expect("rules"),
            quotas: Quotas::open(None).expect("quotas"),
            transactions: Transactions::open(None, &Notices::nowhere()).expect("transactions"),
        };
        let (poll, bell) = poll_with_bell();
        let (acceptor_poll, acceptor_bell) = poll_with_bell();
        let (desk, jobs) = clerk::desk();
        let mailboxes = vec![Mailbox::new(bell)];
        let node = Arc::new(Node::new(settings, address.into(), stores, desk, mailboxes, acceptor_bell));
        node.start_answering();
        let weak = Arc::downgrade(&node);
        node.transactions.post_to(Arc::new(move |ticket, reply| {
            if let Some(node) = weak.upgrade() {
                node.post(ticket, Letter::Reply(ticket.connection, reply));
            }
        }));
        // From here on a run of the flusher ends with its queue.
        node.flusher.end();
        let reactor = Reactor::new(0, Arc::clone(&node), poll);
        let ends = NodeEnds::new(Arc::clone(&node));
        let world = Self { node, reactor, jobs, logins, ends, _poll: acceptor_poll, _folder: folder };
        world.make_topics();
        world
    }

    fn make_topics(&self) {
        let properties: [&[(&str, &str)]; 3] = [
            &[],
            &[("hone.value.schema", "{}"), ("compression.type", "lz4")],
            &[("cleanup.policy", "compact"), ("message.timestamp.type", "LogAppendTime")],
        ];
        for (name, properties) in TOPICS.into_iter().zip(properties) {
            let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
            let properties: BTreeMap<_, _> = properties.iter().map(owned).collect();
            let new = NewTopic { name: name.to_owned(), partitions: 2, properties };
            self.node.topics.create(&new).expect("a topic");
        }
    }

    pub(super) fn connect(&mut self) -> Client {
        let (ours, theirs) = UnixStream::pair().expect("a pair of sockets");
        ours.set_nonblocking(true).expect("our end");
        theirs.set_nonblocking(true).expect("their end");
        // SAFETY: the descriptor is that of a connected stream socket, and nothing else owns it from here on.
        let theirs = unsafe { mio::net::TcpStream::from_raw_fd(theirs.into_raw_fd()) };
        self.node.connections.fetch_add(1, Relaxed);
        self.node.post(Ticket { reactor: 0, connection: 0 }, Letter::Connected(theirs));
        Client { stream: ours, received: Vec::new(), ended: false }
    }

    /// Everybody has a turn.
    fn round(&mut self) {
        self.reactor.step().expect("a turn of the reactor");
        self.node.desk.close();
        clerk::run(&self.node, &self.jobs).expect("the clerk");
        self.node.security.hasher.stop();
        workers::check_passwords(&self.node, &self.logins).expect("the hasher");
        workers::flush(&self.node);
        self.node.transactions.turn_once(&self.ends);
        self.node.with_groups(|groups, effects| groups.tick(Now::read(), effects));
    }

    /// Sends bytes and goes on until nothing happens any more.
    pub(super) fn send(&mut self, client: &mut Client, mut bytes: &[u8]) {
        for _ in 0..MOST_ROUNDS {
            bytes = bytes.get(client.write(bytes)..).unwrap_or_default();
            self.round();
            client.read();
            if bytes.is_empty() || client.ended {
                return;
            }
        }
    }

    /// Goes on until `done` says so, or nothing comes any more.
    pub(super) fn settle(&mut self, client: &mut Client, done: impl Fn(&Client) -> bool) {
        let mut quiet = 0;
        while quiet < QUIET_ROUNDS && !client.ended && !done(client) {
            self.round();
            quiet = if client.read() == 0 { quiet + 1 } else { 0 };
        }
    }

    /// As [`World::settle`], where a thread of its own does the work.
    pub(super) fn settle_aside(&mut self, client: &mut Client, done: impl Fn(&Client) -> bool) {
        for _ in 0..1_000 {
            self.settle(client, &done);
            if client.ended || done(client) {
                return;
            }
            std::thread::sleep(Duration::from_micros(50));
        }
    }

    /// Looks after the logs as the housekeeper does, later.
    pub(super) fn housekeep(&self) {
        for topic in self.node.topics.all() {
            for partition in &topic.partitions {
                let later_ms = unix_ms().saturating_add(1 << 41);
                partition.housekeep(later_ms).expect("a log that can be kept in order");
            }
        }
    }

    /// All clients are gone: nothing may be left of them.
    pub(super) fn end(mut self) {
        for _ in 0..100 {
            if self.node.connections.load(Relaxed) == 0 {
                break;
            }
            self.round();
        }
        assert_eq!(self.node.connections.load(Relaxed), 0, "connections are left");
        for strangers in [false, true] {
            let used = self.node.memory.used_bytes(strangers);
            assert_eq!(used, 0, "memory is counted for clients that have gone");
        }
        let failures: u64 = self.node.shards.iter().map(|shard| load(&shard.handler_failures)).sum();
        assert_eq!(failures, 0, "a handler failed");
    }
}

impl Client {
    /// Returns how much the socket took.
    fn write(&mut self, bytes: &[u8]) -> usize {
        match self.stream.write(bytes) {
            Ok(taken) => taken,
            Err(error) if error.kind() == ErrorKind::WouldBlock => 0,
            Err(_) => {
                self.read();
                self.ended = true;
                0
            }
        }
    }

    /// Returns how much came.
    fn read(&mut self) -> usize {
        let before = self.received.len();
        let mut piece = [0; 16 << 10];
        loop {
            match self.stream.read(&mut piece) {
                Ok(0) => {
                    self.ended = true;
                    break;
                }
                Ok(bytes) => self.received.extend_from_slice(&piece[..bytes]),
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(_) => {
                    self.ended = true;
                    break;
                }
            }
        }
        self.received.len() - before
    }

    /// The next answer that is here as a whole, without its length.
    pub(super) fn take_answer(&mut self) -> Option<Vec<u8>> {
        let (length, rest) = self.received.split_first_chunk::<4>()?;
        let length = usize::try_from(i32::from_be_bytes(*length)).expect("an answer's length below zero");
        let answer = rest.get(..length)?.to_vec();
        self.received.drain(..4 + length);
        Some(answer)
    }

    pub(super) fn has_answer(&self) -> bool {
        let length = self.received.first_chunk::<4>().map(|length| u32::from_be_bytes(*length) as usize);
        length.is_some_and(|length| self.received.len() >= 4 + length)
    }
}

fn coordinator() -> Coordinator {
    let timing = Timing {
        initial_delay: Duration::ZERO,
        session: Duration::from_secs(45),
        heartbeat: Duration::from_secs(5),
    };
    let journal = Arc::new(Journal::in_memory());
    Coordinator {
        offsets: Offsets::new(Arc::clone(&journal), Store::default()),
        groups: Groups::new(timing, SALT),
        journal,
    }
}

/// The file of users is made once: its passwords cost milliseconds.
fn folder_with_users() -> tempfile::TempDir {
    static USERS: OnceLock<Vec<u8>> = OnceLock::new();
    const FILE: &str = "users.json";
    let users = USERS.get_or_init(|| {
        let folder = super::folder();
        let mut settings = Settings::in_memory();
        settings.users = vec![NewUser { name: USER.to_owned(), password: PASSWORD.to_owned() }];
        Security::open(&settings, Some(folder.path())).expect("users");
        std::fs::read(folder.path().join(FILE)).expect("the file of users")
    });
    let folder = super::folder();
    std::fs::write(folder.path().join(FILE), users).expect("the file of users");
    folder
}

fn poll_with_bell() -> (Poll, Waker) {
    let poll = Poll::new().expect("an epoll");
    let bell = Waker::new(poll.registry(), BELL).expect("a waker");
    (poll, bell)
}

/// Replaces an input's placeholders by the ids of topics, because every broker has new random ids.
pub(super) fn put_topic_ids(world: &World, bytes: &mut [u8]) {
    for name in TOPICS {
        let stand_in = topic_stand_in(name);
        let Some(topic) = world.node.topics.by_name(name) else { continue };
        let mut at = 0;
        while let Some(window) = bytes.get_mut(at..at + stand_in.len()) {
            if *window == stand_in {
                window.copy_from_slice(&topic.id.to_be_bytes());
            }
            at += 1;
        }
    }
}

/// What inputs have instead of a topic's id.
pub(super) fn topic_stand_in(name: &str) -> [u8; 16] {
    let mut stand_in = *b"ID-OF-THE-TOPIC?";
    stand_in[15] = name.bytes().next().unwrap_or_default();
    stand_in
}
