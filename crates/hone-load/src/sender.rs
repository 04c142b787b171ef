//! What every engine is to a window: it sends what is due and tells the recorder what became of it.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Instant;

use hone_record::{AnswerTimes, BatchSource, ClientFacts, Event, LatencySplit, SocketBytes, TopicBatches};

use crate::admin::TopicLayout;
use crate::cpu::CpuTime;
use crate::engine::{End, Engine, Look};
use crate::error::LoadError;
use crate::recorder::Recorder;

/// When the requests of a stretch are due, in nanoseconds since its start and in order.
pub(crate) type Due<'a> = &'a mut dyn Iterator<Item = u64>;

/// What an engine knows of a window beside the latencies. Everything that it can't know stays empty.
#[derive(Debug, Default)]
pub(crate) struct Account {
    /// The effective batches, as far as the engine made them itself.
    pub batches: Vec<TopicBatches>,
    /// Where the time went.
    pub split: Option<LatencySplit>,
    /// Produce requests on the wire.
    pub produce_requests: Option<u64>,
    /// How the times of the answers are known.
    pub answer_times: Option<AnswerTimes>,
    /// What went through the producers' sockets.
    pub socket_bytes: Option<SocketBytes>,
    /// Errors after which a request was sent again, by name.
    pub retries: BTreeMap<String, u64>,
    /// What happened on the way, in order.
    pub events: Vec<Event>,
    /// The client, where there is one.
    pub client: Option<ClientFacts>,
}

/// Who works for a load beside the thread that runs it: the threads of a client and of the consumers, a client program.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Helpers {
    /// Kernel ids of threads of this process.
    pub threads: Vec<i32>,
    /// Processes, which may have children.
    pub processes: Vec<u32>,
}

/// An engine: wire, librdkafka, or a command. Schedule, recorder, outcome and record are the same for all of them.
pub(crate) trait Sender: fmt::Debug + Send {
    /// Sends a request at each of `arrivals` and waits for the answers. With `give_up`, what is not answered a time-out
    /// after the last arrival is given up, and the engine is of no further use.
    fn run(
        &mut self,
        start: Instant,
        arrivals: Due<'_>,
        give_up: bool,
        recorder: &mut Recorder,
        look: Look<'_>,
    ) -> Result<End, LoadError>;

    /// A backlog of no more than this is no sign of a target that can't keep up: the requests that can be unanswered at
    /// once.
    fn in_flight_limit(&self) -> u64;

    /// CPU of everything that sends, up to now. Called by the thread that calls [`Sender::run`].
    fn cpu(&self) -> CpuTime {
        CpuTime::of_this_thread()
    }

    /// Threads and processes that send beside the calling thread.
    fn helpers(&self) -> Helpers {
        Helpers::default()
    }

    /// Whether [`Account::batches`] tells the effective batches. If not, they are read back from the topic.
    fn knows_batches(&self) -> bool;

    /// What the engine knows of the window that it has just run.
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
            topic: layout.topic.clone(),
            source: BatchSource::OwnFrames,
            batches: recorder.acked_cargo.records / u64::from(self.records_per_batch()),
            records: recorder.acked_cargo.records,
            bytes: recorder.acked_cargo.bytes,
            seen_share: 1.0,
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
