//! Maintains the connections to the cluster while the engine sends: it finds leaders, connects and encodes requests.
//!
//! The engine's thread never waits for a name, a connection or an encoder. It gives an order and continues. A separate thread carries the
//! order out once and returns the result. The engine decides whether to try again.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use std::time::{Duration, Instant};

use hone_record::Workload;
use kafka_protocol::messages::{ApiKey, InitProducerIdRequest, InitProducerIdResponse};

use crate::admin::{Admin, TopicLayout, TopicNow, remember};
use crate::connection::Connection;
use crate::error::LoadError;
use crate::frames::{Pool, Producer, pools};
use crate::security::Access;
use crate::topic_set::TopicSet;

/// Time limit for each step of reaching a broker. A live broker answers in milliseconds.
const STEP_LIMIT: Duration = Duration::from_secs(2);
/// The same before the window, when there is more time.
const FIRST_LIMIT: Duration = Duration::from_secs(30);
/// A cluster that has just started may not have a coordinator for producers yet.
const PRODUCER_LIMIT: Duration = Duration::from_secs(10);
const INIT_PRODUCER_ID_VERSION: i16 = 1;

/// A connection of the engine: its address, and the requests that it sends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Post {
    /// `host:port`.
    pub address: String,
    pub partitions: Vec<i32>,
    /// Whether it has a working connection.
    pub alive: bool,
}

/// The engine's order.
#[derive(Debug)]
pub(crate) struct ReconnectRequest {
    pub posts: Vec<Post>,
    /// The old producer can't continue, so another id is needed.
    pub new_producer: bool,
}

/// A connection as it is now. `None` marks an unchanged part.
#[derive(Debug)]
pub(crate) struct Outfit {
    pub address: String,
    pub pool: Option<Arc<Pool>>,
    pub connection: Option<Connection>,
}

/// Result of an order.
#[derive(Debug)]
pub(crate) enum News {
    /// One for each connection of the order, in order, and perhaps more.
    Outfits {
        outfits: Vec<Outfit>,
        layout: TopicLayout,
        /// Partitions without a leader.
        leaderless: Vec<i32>,
        new_producer: bool,
        /// Connections that could not be opened.
        trouble: Option<String>,
    },
    /// No broker that answered knows the topic.
    NoTopic {
        error: String,
        /// Whether some brokers did not answer.
        silent: bool,
    },
    /// No broker answered.
    Away(String),
}

/// Carries orders out.
#[derive(Debug)]
pub(crate) struct Reconnector {
    access: Access,
    /// Addresses to ask, the last one that answered first.
    addresses: Vec<String>,
    topics: TopicSet,
    workload: Workload,
    producer: Option<Producer>,
    /// The latest connections.
    pools: Vec<Arc<Pool>>,
}

impl Reconnector {
    pub(crate) fn new(workload: &Workload, address: &str, topics: &TopicSet, access: Access) -> Self {
        Self {
            access,
            addresses: vec![address.to_owned()],
            topics: topics.clone(),
            workload: workload.clone(),
            producer: None,
            pools: Vec::new(),
        }
    }

    /// Everything that the first stretch needs. Here an unreachable broker is an error.
    pub(crate) fn first(&mut self, layout: &TopicLayout) -> Result<Vec<Outfit>, LoadError> {
        remember(&mut self.addresses, layout.leaders.iter().map(|(address, _)| address.clone()));
        if self.workload.idempotent {
            self.producer = Some(self.new_producer()?);
        }
        let lanes = (self.workload.connections as usize).max(layout.leaders.len());
        let posts = assign(&[], lanes, layout, self.workload.idempotent);
        let pools = self.pools(&posts)?;
        let outfit = |(post, pool): (Post, Arc<Pool>)| {
            // With more connections than ordered partitions, some connections have no work.
            let connection = match post.partitions.as_slice() {
                [] => None,
                _ => Some(Connection::open(&self.access, &post.address, &self.topics, FIRST_LIMIT)?),
            };
            Ok(Outfit { address: post.address, pool: Some(pool), connection })
        };
        posts.into_iter().zip(pools).map(outfit).collect()
    }

    /// Requests for each connection; connections with the same partitions share them.
    fn pools(&mut self, posts: &[Post]) -> Result<Vec<Arc<Pool>>, LoadError> {
        let mut wanted: Vec<(String, Vec<i32>)> = Vec::new();
        for post in posts.iter().filter(|post| !post.partitions.is_empty()) {
            if !wanted.iter().any(|(_, partitions)| *partitions == post.partitions) {
                wanted.push((post.address.clone(), post.partitions.clone()));
            }
        }
        let is_made = |(_, partitions): &(String, Vec<i32>)| {
            self.pools.iter().any(|pool| pool.partitions == *partitions)
        };
        if !wanted.iter().all(is_made) {
            let layout = TopicLayout { topics: self.topics.clone(), leaders: wanted };
            self.pools = pools(&self.workload, &layout, self.producer)?.into_iter().map(Arc::new).collect();
        }
        let pool_of = |post: &Post| {
            let made = self.pools.iter().find(|pool| pool.partitions == post.partitions);
            made.map_or_else(|| Arc::new(Pool::empty()), Arc::clone)
        };
        Ok(posts.iter().map(pool_of).collect())
    }

    /// Serves until the engine is gone.
    fn serve(mut self, orders: &Receiver<ReconnectRequest>, news: &Sender<News>) {
        while let Ok(order) = orders.recv() {
            let told = self.carry_out(&order).unwrap_or_else(|error| News::Away(in_words(&error)));
            if news.send(told).is_err() {
                return;
            }
        }
    }

    fn carry_out(&mut self, order: &ReconnectRequest) -> Result<News, LoadError> {
        let (layout, leaderless) = match self.ask()? {
            (TopicNow::Led { layout, leaderless }, _) => (layout, leaderless),
            (TopicNow::Unknown(error), silent) if is_missing(error) => {
                return Ok(News::NoTopic { error: error.to_owned(), silent });
            }
            (TopicNow::Unknown(error), _) => return Ok(News::Away(format!("the topic's leaders: {error}"))),
        };
        if order.new_producer {
            self.producer = Some(self.new_producer()?);
            self.pools.clear();
        }
        let mut trouble = None;
        let posts = assign(&order.posts, order.posts.len(), &layout, self.workload.idempotent);
        let pools = self.pools(&posts)?;
        let mut outfits = Vec::with_capacity(posts.len());
        for (index, (post, pool)) in posts.into_iter().zip(pools).enumerate() {
            let before = order.posts.get(index);
            let stays = before.is_some_and(|before| before.alive && before.address == post.address);
            let connection = if stays || post.partitions.is_empty() {
                None
            } else {
                let opened = Connection::open(&self.access, &post.address, &self.topics, STEP_LIMIT);
                opened.map_err(|error| trouble = Some(in_words(&error))).ok()
            };
            let same = before.is_some_and(|before| before.partitions == post.partitions);
            let pool = (!same || order.new_producer).then_some(pool);
            outfits.push(Outfit { address: post.address, pool, connection });
        }
        Ok(News::Outfits { outfits, layout, leaderless, new_producer: order.new_producer, trouble })
    }

    /// Asks every known broker in turn until one knows the topic. Some may have just started, or may not know it yet. Also returns whether
    /// some did not answer.
    fn ask(&mut self) -> Result<(TopicNow, bool), LoadError> {
        let (mut unknown, mut failed) = (None::<&'static str>, None);
        let mut index = 0;
        // A broker that answers may name more brokers.
        while index < self.addresses.len() {
            match self.admin(index).and_then(|mut admin| admin.topics_now(&self.topics)) {
                Ok((TopicNow::Unknown(error), brokers)) => {
                    remember(&mut self.addresses, brokers);
                    // Any other error implies that the topic exists.
                    unknown = unknown.filter(|told| !is_missing(told)).or(Some(error));
                }
                Ok((led, brokers)) => {
                    remember(&mut self.addresses, brokers);
                    self.addresses.swap(0, index);
                    return Ok((led, failed.is_some()));
                }
                Err(error) => failed = Some(error),
            }
            index += 1;
        }
        match unknown {
            Some(error) => Ok((TopicNow::Unknown(error), failed.is_some())),
            None => Err(failed.unwrap_or(LoadError::Interrupted)),
        }
    }

    fn admin(&self, index: usize) -> Result<Admin, LoadError> {
        let mut admin = Admin::enter(&self.addresses[index], self.access.clone(), STEP_LIMIT)?;
        admin.limit_answers(STEP_LIMIT)?;
        Ok(admin)
    }

    fn new_producer(&self) -> Result<Producer, LoadError> {
        let deadline = Instant::now() + PRODUCER_LIMIT;
        let mut index = 0;
        loop {
            let asked = self.admin(index % self.addresses.len()).and_then(|mut admin| producer(&mut admin));
            match asked {
                Err(_) if Instant::now() < deadline => std::thread::sleep(Duration::from_millis(100)),
                asked => return asked,
            }
            index += 1;
        }
    }
}

/// Whether an error means that the topic does not exist.
fn is_missing(error: &str) -> bool {
    error.starts_with("UNKNOWN_TOPIC")
}

fn producer(admin: &mut Admin) -> Result<Producer, LoadError> {
    let request =
        InitProducerIdRequest::default().with_transactional_id(None).with_transaction_timeout_ms(60_000);
    let answer: InitProducerIdResponse =
        admin.ask(ApiKey::InitProducerId, INIT_PRODUCER_ID_VERSION, &request)?;
    admin.accepted("a producer id", answer.error_code, String::new())?;
    Ok(Producer { id: answer.producer_id.0, epoch: answer.producer_epoch })
}

/// An error with its causes.
fn in_words(error: &LoadError) -> String {
    let causes = std::iter::successors(std::error::Error::source(error), |cause| cause.source());
    causes.fold(error.to_string(), |words, cause| format!("{words}: {cause}"))
}

/// Assigns connections to leaders. A connection to a current leader stays. Every leader gets at least one, and the rest are spread evenly.
/// With `apart` the connections to one leader divide its partitions, so that each partition is written by one connection only, in order.
fn assign(before: &[Post], lanes: usize, layout: &TopicLayout, apart: bool) -> Vec<Post> {
    let leaders = &layout.leaders;
    if leaders.is_empty() {
        let nothing = |post: &Post| Post { partitions: Vec::new(), ..post.clone() };
        return before.iter().map(nothing).collect();
    }
    let lanes = lanes.max(leaders.len());
    let mut goes_to: Vec<Option<usize>> = (0..lanes)
        .map(|lane| {
            leaders
                .iter()
                .position(|(address, _)| Some(address) == before.get(lane).map(|post| &post.address))
        })
        .collect();
    let count =
        |goes_to: &[Option<usize>], leader: usize| goes_to.iter().filter(|to| **to == Some(leader)).count();
    for lane in 0..lanes {
        if goes_to[lane].is_none() {
            goes_to[lane] = (0..leaders.len()).min_by_key(|leader| count(&goes_to, *leader));
        }
    }
    for leader in 0..leaders.len() {
        if count(&goes_to, leader) == 0 {
            // There are at least as many connections as leaders, so some leader has two.
            let rich = (0..leaders.len()).max_by_key(|other| count(&goes_to, *other));
            if let Some(lane) = (0..lanes).rev().find(|lane| goes_to[*lane] == rich) {
                goes_to[lane] = Some(leader);
            }
        }
    }
    (0..lanes)
        .filter_map(|lane| {
            let leader = goes_to[lane]?;
            let (address, led) = &leaders[leader];
            let place = goes_to[..lane].iter().filter(|to| **to == Some(leader)).count();
            let sharers = count(&goes_to, leader);
            let mine = led.iter().enumerate().filter(|(at, _)| !apart || at % sharers == place);
            let alive = before.get(lane).is_some_and(|post| post.alive);
            let partitions = mine.map(|(_, partition)| *partition).collect();
            Some(Post { address: address.clone(), partitions, alive })
        })
        .collect()
}

/// The engine's end of a reconnector. The first order starts its thread.
#[derive(Debug)]
pub(crate) struct ReconnectThread {
    resting: Option<Box<Reconnector>>,
    line: Option<(Sender<ReconnectRequest>, Receiver<News>)>,
    /// Whether an order is in progress.
    pub busy: bool,
}

impl ReconnectThread {
    pub(crate) fn new(reconnector: Reconnector) -> Self {
        Self { resting: Some(Box::new(reconnector)), line: None, busy: false }
    }

    /// Passes an order on. `false` means that this machine has no thread for it.
    pub(crate) fn give(&mut self, order: ReconnectRequest) -> bool {
        if let Some(reconnector) = self.resting.take() {
            let (to, orders) = channel();
            let (news, from) = channel();
            let started = std::thread::Builder::new()
                .name("steward".to_owned())
                .spawn(move || reconnector.serve(&orders, &news));
            if started.is_err() {
                return false;
            }
            self.line = Some((to, from));
        }
        self.busy = self.line.as_ref().is_some_and(|(to, _)| to.send(order).is_ok());
        self.busy
    }

    /// Result of the last order, returned once.
    pub(crate) fn news(&mut self) -> Option<News> {
        let (_, from) = self.line.as_ref().filter(|_| self.busy)?;
        match from.try_recv() {
            Ok(news) => {
                self.busy = false;
                Some(news)
            }
            Err(TryRecvError::Empty) => None,
            Err(TryRecvError::Disconnected) => {
                self.busy = false;
                Some(News::Away("the thread that reconnects has ended".to_owned()))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn layout(leaders: &[(&str, &[i32])]) -> TopicLayout {
        let leaders = leaders.iter().map(|(address, led)| ((*address).to_owned(), led.to_vec())).collect();
        TopicLayout { topics: "t".into(), leaders }
    }

    fn addresses(posts: &[Post]) -> Vec<&str> {
        posts.iter().map(|post| post.address.as_str()).collect()
    }

    #[test]
    fn connections_are_spread_and_those_that_can_stay_do() {
        let both = layout(&[("a:1", &[0, 2]), ("b:1", &[1, 3])]);
        let first = assign(&[], 4, &both, false);
        assert_eq!(addresses(&first), ["a:1", "b:1", "a:1", "b:1"]);
        assert!(first.iter().all(|post| post.partitions.len() == 2));
        // One leader is gone.
        let one = assign(&first, 4, &layout(&[("a:1", &[0, 1, 2, 3])]), false);
        assert_eq!(addresses(&one), ["a:1"; 4]);
        // It comes back, and gets one of the rich one's connections.
        let again = assign(&one, 4, &both, false);
        assert_eq!(addresses(&again), ["a:1", "a:1", "a:1", "b:1"]);
        // More leaders than connections: one each.
        let three = assign(&first[..1], 1, &layout(&[("a:1", &[0]), ("b:1", &[1]), ("c:1", &[2])]), false);
        assert_eq!(addresses(&three), ["a:1", "b:1", "c:1"]);
    }

    #[test]
    fn in_order_means_that_each_partition_has_one_connection() {
        for lanes in 1..6 {
            let posts = assign(&[], lanes, &layout(&[("a:1", &[0, 2, 4]), ("b:1", &[1, 3])]), true);
            let mut all: Vec<i32> = posts.iter().flat_map(|post| post.partitions.clone()).collect();
            all.sort_unstable();
            assert_eq!(all, [0, 1, 2, 3, 4], "{lanes} connections");
        }
    }

    #[test]
    fn without_any_leader_everybody_waits() {
        let first = assign(&[], 2, &layout(&[("a:1", &[0])]), false);
        let nobody = assign(&first, 2, &layout(&[]), false);
        assert!(nobody.iter().all(|post| post.partitions.is_empty()));
        assert_eq!(addresses(&nobody), ["a:1"; 2]);
    }
}
