//! The interface of every engine for a window: it sends due requests and reports their end to the recorder.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Instant;

use hone_record::{
    AnswerTimes, BatchSource, ClientFacts, Event, LatencySplit, Outage, SocketBytes, TopicBatches,
};

use crate::admin::TopicLayout;
use crate::cpu::CpuTime;
use crate::engine::{End, Engine, Look};
use crate::error::LoadError;
use crate::recorder::Recorder;

/// Due times of the requests of a stretch, in nanoseconds since its start and in order.
pub(crate) type Due<'a> = &'a mut dyn Iterator<Item = u64>;

/// An engine's data about a window besides the latencies. Unknown parts stay empty.
#[derive(Debug, Default)]
pub(crate) struct Account {
    /// The effective batches, if the engine made them itself.
    pub batches: Vec<TopicBatches>,
    /// Parts of a request's time.
    pub split: Option<LatencySplit>,
    /// Produce requests on the wire.
    pub produce_requests: Option<u64>,
    /// Source of the answers' times.
    pub answer_times: Option<AnswerTimes>,
    /// Bytes through the producers' sockets.
    pub socket_bytes: Option<SocketBytes>,
    /// Errors after which a request was sent again, by name.
    pub retries: BTreeMap<String, u64>,
    /// Incidents in order of time.
    pub events: Vec<Event>,
    /// The client, where there is one.
    pub client: Option<ClientFacts>,
    /// What faults did, if there were any.
    pub outage: Option<Outage>,
}

/// Workers of a load besides the thread that runs it: the threads of a client and of the consumers, a client program.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Helpers {
    /// Kernel ids of threads of this process.
    pub threads: Vec<i32>,
    /// Processes, which may have children.
    pub processes: Vec<u32>,
}

/// An engine: wire, librdkafka, or a command. All of them share schedule, recorder, outcome and record.
pub(crate) trait Sender: fmt::Debug + Send {
    /// Sends a request at each of `arrivals` and waits for the answers. With `give_up`, it gives up requests that are unanswered one
    /// timeout after the last arrival, and the engine can't be used afterwards.
    fn run(
        &mut self,
        start: Instant,
        arrivals: Due<'_>,
        give_up: bool,
        recorder: &mut Recorder,
        look: Look<'_>,
    ) -> Result<End, LoadError>;

    /// A backlog up to this size does not mean that the target can't keep up: the largest number of unanswered requests.
    fn in_flight_limit(&self) -> u64;

    /// CPU of all senders up to now. The thread that calls [`Sender::run`] calls this, too.
    fn cpu(&self) -> CpuTime {
        CpuTime::of_this_thread()
    }

    /// Threads and processes that send besides the calling thread.
    fn helpers(&self) -> Helpers {
        Helpers::default()
    }

    /// Whether [`Account::batches`] holds the effective batches. If not, they are read from the topic.
    fn knows_batches(&self) -> bool;

    /// The engine's data about the window that it has just run.
    fn account(&mut self, recorder: &Recorder, layout: &TopicLayout) -> Account;
}

impl Sender for Engine {
    fn run(
        &mut self,
        start: Instant,
        arrivals: Due<'_>,
        give_up: bool,
        recorder: &mut Recorder,
        look: Look<'_>,
    ) -> Result<End, LoadError> {
        Engine::run(self, start, arrivals, give_up, recorder, look)
    }

    fn in_flight_limit(&self) -> u64 {
        Engine::in_flight_limit(self)
    }

    fn knows_batches(&self) -> bool {
        true
    }

    fn account(&mut self, recorder: &Recorder, layout: &TopicLayout) -> Account {
        let own = TopicBatches {
            topic: layout.topics.label(),
            source: BatchSource::OwnFrames,
            batches: recorder.acked_cargo.records / u64::from(self.records_per_batch()),
            records: recorder.acked_cargo.records,
            bytes: recorder.acked_cargo.bytes,
            seen_share: 1.0,
            sizes: Default::default(),
        };
        Account {
            batches: vec![own],
            produce_requests: Some(self.written),
            answer_times: Some(self.answer_times).filter(|times| times.answers > 0),
            retries: std::mem::take(&mut self.retries),
            events: self.take_events(),
            ..Account::default()
        }
    }
}
