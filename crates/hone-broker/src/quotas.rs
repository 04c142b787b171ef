//! Client quotas: bytes per second that a user or a client id may produce and consume, and the share of one reactor's
//! CPU time that its requests may use.
//!
//! As in Kafka, an idle client may use ten seconds' worth at once, and the broker does not reject a client above its
//! rate. It sends the answer at once with the delay that restores the rate, and does not read the connection for that
//! time. Unlike Kafka's samples of a second, which can delay a client that keeps to its rate, the broker uses a bucket
//! that drains at the rate.
//!
//! `request_percentage` counts the CPU time of the thread that serves the requests, in percent of one thread. It does
//! not include the work of the kernel and of other threads, for example flushes.

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU8, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError, RwLock};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use serde_json::{Value, json};

use crate::durable::replace_file;

const QUOTA_FILE: &str = "quotas.json";
/// Version of `quotas.json`.
const FORMAT_VERSION: u64 = 1;
/// What may be used at once: Kafka's `quota.window.num` is 11 samples of one second, the one being filled among them.
const BURST: Duration = Duration::from_secs(10);
/// CPU time comes back by itself, so a client waits one of Kafka's samples at most for it.
const MOST_REQUEST_DELAY_MS: f64 = 1000.0;
/// Locks that the rates are spread over.
const SHARDS: usize = 16;
/// Rates kept under one lock; a client can make up any number of client ids.
const SHARD_ENTRIES: usize = 1024;
/// Rows that may be configured.
const MOST_ROWS: usize = 10_000;
/// Integers above this are not exact in the protocol's floating point.
const MOST_BYTE_RATE: f64 = (1_u64 << 53) as f64;

/// What is limited.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Quota {
    Produce,
    Consume,
    Request,
}

impl Quota {
    const ALL: [Self; 3] = [Self::Produce, Self::Consume, Self::Request];

    /// The name of its key.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Produce => "producer_byte_rate",
            Self::Consume => "consumer_byte_rate",
            Self::Request => "request_percentage",
        }
    }

    /// The quota of a key, or what keys there are.
    pub(crate) fn from_name(name: &str) -> Result<Self, String> {
        Self::ALL.into_iter().find(|quota| quota.name() == name).ok_or_else(|| {
            format!(
                "unknown quota `{name}`: use producer_byte_rate, consumer_byte_rate or request_percentage"
            )
        })
    }

    /// Why a value can't be enforced.
    fn check(self, value: f64) -> Result<(), String> {
        let name = self.name();
        match self {
            Self::Request if value.is_finite() && value > 0.0 => Ok(()),
            Self::Request => Err(format!("invalid {name} {value}: use a percentage of one thread above 0")),
            _ if (1.0..=MOST_BYTE_RATE).contains(&value) && value.fract() == 0.0 => Ok(()),
            _ => Err(format!("invalid {name} {value}: use a whole number of bytes per second, at least 1")),
        }
    }

    /// What a value allows in a second: bytes, or nanoseconds of CPU time.
    fn per_second(self, value: f64) -> f64 {
        match self {
            Self::Request => value / 100.0 * 1e9,
            _ => value,
        }
    }
}

/// Whom a quota is for: one, or everyone who has none of its own.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Whom {
    Default,
    Named(String),
}

impl Whom {
    /// The name; `None` for the default.
    pub(crate) fn name(&self) -> Option<&str> {
        match self {
            Self::Default => None,
            Self::Named(name) => Some(name),
        }
    }

    pub(crate) fn from_name(name: Option<&str>) -> Self {
        name.map_or(Self::Default, |name| Self::Named(name.to_owned()))
    }
}

/// What a row of quotas is for. At least one of the two is given.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Entity {
    pub(crate) user: Option<Whom>,
    pub(crate) client_id: Option<Whom>,
}

/// The quotas of one entity.
pub(crate) type Values = BTreeMap<Quota, f64>;

/// One change of one entity: a value to set, or `None` to take it away.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Change {
    pub(crate) entity: Entity,
    pub(crate) steps: Vec<(Quota, Option<f64>)>,
}

impl Change {
    /// Why the change can't be made.
    pub(crate) fn check(&self) -> Result<(), String> {
        self.steps.iter().try_for_each(|(quota, value)| value.map_or(Ok(()), |value| quota.check(value)))
    }
}

/// Values by exact name, and for all others.
#[derive(Debug)]
struct Level<T> {
    named: HashMap<String, T>,
    default: T,
}

impl<T: Default> Default for Level<T> {
    fn default() -> Self {
        Self { named: HashMap::new(), default: T::default() }
    }
}

impl<T: Default> Level<T> {
    fn slot(&mut self, whom: &Whom) -> &mut T {
        match whom {
            Whom::Default => &mut self.default,
            Whom::Named(name) => self.named.entry(name.clone()).or_default(),
        }
    }
}

#[derive(Debug, Default)]
struct OfUser {
    own: Values,
    clients: Level<Values>,
}

/// The configured quotas, and the same by who asks.
#[derive(Debug, Default)]
struct Rows {
    all: BTreeMap<Entity, Values>,
    users: Level<OfUser>,
    clients: Level<Values>,
}

/// Whose bytes are counted together.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Account {
    quota: Quota,
    user: Option<String>,
    client_id: Option<String>,
}

impl Rows {
    fn from_all(all: BTreeMap<Entity, Values>) -> Self {
        let mut rows = Self::default();
        for (entity, values) in &all {
            let slot = match (&entity.user, &entity.client_id) {
                (Some(user), Some(client)) => rows.users.slot(user).clients.slot(client),
                (Some(user), None) => &mut rows.users.slot(user).own,
                (None, Some(client)) => rows.clients.slot(client),
                (None, None) => continue,
            };
            slot.clone_from(values);
        }
        rows.all = all;
        rows
    }

    /// The value for a client and whether its user and its client id have an account of their own: the nearest row wins,
    /// in Kafka's order.
    fn resolve(&self, quota: Quota, user: &str, client: &str) -> Option<(f64, bool, bool)> {
        let of = |values: &Values, by_user, by_client| {
            values.get(&quota).map(|value| (*value, by_user, by_client))
        };
        let in_level = |level: &Level<Values>, by_user| {
            let named = level.named.get(client).and_then(|values| of(values, by_user, true));
            named.or_else(|| of(&level.default, by_user, true))
        };
        let of_user = |rows: &OfUser| in_level(&rows.clients, true).or_else(|| of(&rows.own, true, false));
        let named = self.users.named.get(user).and_then(of_user);
        named.or_else(|| of_user(&self.users.default)).or_else(|| in_level(&self.clients, false))
    }
}

/// What a client has used beyond its rate: it drains at the rate, and waits only when it holds more than a burst.
#[derive(Debug, Clone, Copy, Default)]
struct Bucket {
    level: f64,
    at_ms: u64,
    per_second: f64,
}

impl Bucket {
    fn drained(&self, now_ms: u64) -> f64 {
        let passed_s = now_ms.saturating_sub(self.at_ms) as f64 / 1000.0;
        (self.level - passed_s * self.per_second).max(0.0)
    }

    /// Adds what was used, and returns how long to wait until the bucket holds no more than a burst.
    fn add(&mut self, now_ms: u64, amount: f64, per_second: f64) -> f64 {
        self.level = self.drained(now_ms) + amount;
        self.at_ms = now_ms.max(self.at_ms);
        self.per_second = per_second;
        ((self.level / per_second - BURST.as_secs_f64()) * 1000.0).max(0.0)
    }
}

type Shard = HashMap<Account, Bucket>;

/// What quotas there are, cheap to look at for every request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Metering {
    /// There are none.
    Off,
    /// Bytes only.
    Bytes,
    /// CPU time, too.
    Cpu,
}

/// Quotas and how far each is used up.
#[derive(Debug)]
pub(crate) struct Quotas {
    metering: AtomicU8,
    rows: RwLock<Rows>,
    shards: [Mutex<Shard>; SHARDS],
    hasher: RandomState,
    started: Instant,
    /// Held while file and rows change together.
    changing: Mutex<()>,
    /// `None` keeps them in memory.
    file: Option<PathBuf>,
}

impl Quotas {
    /// The quotas of a data folder; in memory without one.
    pub(crate) fn open(data_dir: Option<&Path>) -> anyhow::Result<Self> {
        let file = data_dir.map(|folder| folder.join(QUOTA_FILE));
        let all = match &file {
            Some(file) => read(file).with_context(|| {
                format!("can't read {} (restore it, or remove it to begin without quotas)", file.display())
            })?,
            None => BTreeMap::new(),
        };
        let quotas = Self {
            metering: AtomicU8::new(0),
            rows: RwLock::default(),
            shards: Default::default(),
            hasher: RandomState::new(),
            started: Instant::now(),
            changing: Mutex::new(()),
            file,
        };
        quotas.install(all);
        Ok(quotas)
    }

    fn install(&self, all: BTreeMap<Entity, Values>) {
        let cpu = all.values().any(|values| values.contains_key(&Quota::Request));
        let metering = if cpu { 2 } else { u8::from(!all.is_empty()) };
        *self.rows.write().unwrap_or_else(PoisonError::into_inner) = Rows::from_all(all);
        self.metering.store(metering, Relaxed);
    }

    /// What must be counted.
    pub(crate) fn metering(&self) -> Metering {
        match self.metering.load(Relaxed) {
            0 => Metering::Off,
            1 => Metering::Bytes,
            _ => Metering::Cpu,
        }
    }

    /// Counts what a client has used. Returns how long it must wait, in milliseconds.
    pub(crate) fn charge(
        &self,
        quota: Quota,
        principal: &str,
        client_id: &str,
        amount: f64,
        now: Instant,
    ) -> u32 {
        let user = user_of(principal);
        let resolved =
            self.rows.read().unwrap_or_else(PoisonError::into_inner).resolve(quota, user, client_id);
        let Some((value, by_user, by_client)) = resolved else { return 0 };
        let account = Account {
            quota,
            user: by_user.then(|| user.to_owned()),
            client_id: by_client.then(|| client_id.to_owned()),
        };
        let now_ms = now.saturating_duration_since(self.started).as_millis() as u64;
        let mut shard = self.shard(&account);
        if shard.len() >= SHARD_ENTRIES && !shard.contains_key(&account) {
            make_room(&mut shard, now_ms);
        }
        let delay_ms = shard.entry(account).or_default().add(now_ms, amount, quota.per_second(value));
        let most = if quota == Quota::Request { MOST_REQUEST_DELAY_MS } else { f64::from(i32::MAX) };
        delay_ms.min(most).ceil() as u32
    }

    /// Most bytes that one Fetch may bring: a burst, so that one answer can't use up many of them.
    pub(crate) fn fetch_limit_bytes(&self, principal: &str, client_id: &str) -> Option<usize> {
        let rows = self.rows.read().unwrap_or_else(PoisonError::into_inner);
        let (value, ..) = rows.resolve(Quota::Consume, user_of(principal), client_id)?;
        Some((value * BURST.as_secs_f64()) as usize)
    }

    fn shard(&self, account: &Account) -> MutexGuard<'_, Shard> {
        let place = self.hasher.hash_one(account) as usize % SHARDS;
        self.shards[place].lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Every entity with its quotas.
    pub(crate) fn all(&self) -> Vec<(Entity, Values)> {
        let rows = self.rows.read().unwrap_or_else(PoisonError::into_inner);
        rows.all.iter().map(|(entity, values)| (entity.clone(), values.clone())).collect()
    }

    /// Makes changes that were checked; they are on disk before they count.
    pub(crate) fn change(&self, changes: &[Change]) -> io::Result<()> {
        let _changing = self.changing.lock().unwrap_or_else(PoisonError::into_inner);
        let mut all = self.rows.read().unwrap_or_else(PoisonError::into_inner).all.clone();
        for change in changes {
            let values = all.entry(change.entity.clone()).or_default();
            for (quota, value) in &change.steps {
                match value {
                    Some(value) => drop(values.insert(*quota, *value)),
                    None => drop(values.remove(quota)),
                }
            }
        }
        all.retain(|_, values| !values.is_empty());
        if all.len() > MOST_ROWS {
            return Err(io::Error::other(format!("more than {MOST_ROWS} entities with quotas")));
        }
        if let Some(file) = &self.file {
            replace_file(file, to_text(&all).as_bytes())?;
        }
        self.install(all);
        Ok(())
    }
}

/// Quotas are for users by name, whatever the type of the principal.
fn user_of(principal: &str) -> &str {
    principal.split_once(':').map_or(principal, |(_, name)| name)
}

/// Drained buckets hold nothing and go first; if there are none, the one that was not used for longest goes.
fn make_room(shard: &mut Shard, now_ms: u64) {
    shard.retain(|_, bucket| bucket.drained(now_ms) > 0.0);
    if shard.len() >= SHARD_ENTRIES {
        let stalest = shard.iter().min_by_key(|(_, bucket)| bucket.at_ms).map(|(account, _)| account.clone());
        if let Some(account) = stalest {
            shard.remove(&account);
        }
    }
}

fn to_text(all: &BTreeMap<Entity, Values>) -> String {
    // A missing part is no field, the default is null.
    let whom = |row: &mut serde_json::Map<String, Value>, field: &str, whom: &Option<Whom>| {
        if let Some(whom) = whom {
            row.insert(field.to_owned(), whom.name().map_or(Value::Null, Value::from));
        }
    };
    let row = |(entity, values): (&Entity, &Values)| {
        let mut row = serde_json::Map::new();
        whom(&mut row, "user", &entity.user);
        whom(&mut row, "client_id", &entity.client_id);
        let values = values.iter().map(|(quota, value)| (quota.name().to_owned(), json!(value))).collect();
        row.insert("quotas".to_owned(), Value::Object(values));
        Value::Object(row)
    };
    let rows: Vec<_> = all.iter().map(row).collect();
    format!("{:#}\n", json!({ "hone_broker_quotas": FORMAT_VERSION, "rows": rows }))
}

fn read(file: &Path) -> anyhow::Result<BTreeMap<Entity, Values>> {
    let text = match fs::read_to_string(file) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(BTreeMap::new()),
        Err(error) => return Err(error.into()),
    };
    let value: Value = serde_json::from_str(&text)?;
    let version =
        value.get("hone_broker_quotas").and_then(Value::as_u64).context("`hone_broker_quotas` is missing")?;
    if version > FORMAT_VERSION {
        bail!("it has version {version}, this broker reads up to {FORMAT_VERSION}; use a newer hone-broker");
    }
    let rows = value.get("rows").and_then(Value::as_array).context("`rows` is missing")?;
    rows.iter().map(|row| parse_row(row).with_context(|| format!("a row is damaged: {row}"))).collect()
}

fn parse_row(row: &Value) -> Option<(Entity, Values)> {
    let whom = |field| match row.get(field) {
        None => Some(None),
        Some(Value::Null) => Some(Some(Whom::Default)),
        Some(name) => Some(Some(Whom::Named(name.as_str()?.to_owned()))),
    };
    let entity = Entity { user: whom("user")?, client_id: whom("client_id")? };
    let values = row.get("quotas")?.as_object()?.iter().map(|(name, value)| {
        let (quota, value) = (Quota::from_name(name).ok()?, value.as_f64()?);
        quota.check(value).ok().map(|()| (quota, value))
    });
    (entity != Entity::default()).then_some((entity, values.collect::<Option<_>>()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entity(user: Option<Option<&str>>, client_id: Option<Option<&str>>) -> Entity {
        Entity { user: user.map(Whom::from_name), client_id: client_id.map(Whom::from_name) }
    }

    fn set(entity: Entity, quota: Quota, value: f64) -> Change {
        Change { entity, steps: vec![(quota, Some(value))] }
    }

    fn quotas(changes: &[Change]) -> Quotas {
        let quotas = Quotas::open(None).unwrap();
        quotas.change(changes).unwrap();
        quotas
    }

    #[test]
    fn the_nearest_row_wins() {
        // Kafka's order of precedence, the last one first; each value is its rank.
        let order = [
            entity(None, Some(None)),
            entity(None, Some(Some("c"))),
            entity(Some(None), None),
            entity(Some(None), Some(None)),
            entity(Some(None), Some(Some("c"))),
            entity(Some(Some("u")), None),
            entity(Some(Some("u")), Some(None)),
            entity(Some(Some("u")), Some(Some("c"))),
        ];
        let quotas = quotas(&[]);
        for (rank, entity) in (1_i32..).zip(order) {
            quotas.change(&[set(entity, Quota::Produce, f64::from(rank))]).unwrap();
            let rows = quotas.rows.read().unwrap();
            assert_eq!(rows.resolve(Quota::Produce, "u", "c").unwrap().0, f64::from(rank));
            assert!(rows.resolve(Quota::Consume, "u", "c").is_none());
        }
        let rows = quotas.rows.read().unwrap();
        assert_eq!(rows.resolve(Quota::Produce, "other", "other").unwrap(), (4.0, true, true));
        assert_eq!(rows.resolve(Quota::Produce, "u", "other").unwrap(), (7.0, true, true));
    }

    /// Sends `bytes` at a time, as fast as the delays allow, for a while; returns bytes a second.
    fn rate(quota: f64, bytes: f64, seconds: u64) -> f64 {
        let quotas = quotas(&[set(entity(None, Some(None)), Quota::Produce, quota)]);
        let (mut now_ms, mut sent) = (0, 0.0);
        while now_ms < seconds * 1000 {
            let now = quotas.started + Duration::from_millis(now_ms);
            sent += bytes;
            now_ms += 1 + u64::from(quotas.charge(Quota::Produce, "User:u", "c", bytes, now));
        }
        sent / seconds as f64
    }

    #[test]
    fn the_rate_is_kept_whatever_the_size_of_a_request() {
        for bytes in [100.0, 5_000.0, 50_000.0, 2_000_000.0] {
            let found = rate(100_000.0, bytes, 300) / 100_000.0;
            assert!((0.8..1.2).contains(&found), "{bytes} at a time: {found} of the quota");
        }
    }

    #[test]
    fn whoever_stays_below_its_quota_never_waits() {
        let quotas = quotas(&[set(entity(None, Some(None)), Quota::Consume, 1000.0)]);
        for second in 0..60 {
            let now = quotas.started + Duration::from_secs(second);
            assert_eq!(quotas.charge(Quota::Consume, "User:u", "c", 990.0, now), 0);
        }
    }

    #[test]
    fn accounts_are_as_wide_as_their_row() {
        let quotas = quotas(&[
            set(entity(Some(Some("u")), None), Quota::Produce, 1000.0),
            set(entity(None, Some(None)), Quota::Produce, 1000.0),
        ]);
        let now = quotas.started;
        // All clients of the user share one; everyone else has one for each client id.
        assert_eq!(quotas.charge(Quota::Produce, "User:u", "a", 10_000.0, now), 0);
        assert_eq!(quotas.charge(Quota::Produce, "User:u", "b", 1_000.0, now), 1_000);
        assert_eq!(quotas.charge(Quota::Produce, "User:v", "a", 10_000.0, now), 0);
        assert_eq!(quotas.charge(Quota::Produce, "User:v", "b", 10_000.0, now), 0);
        assert_eq!(quotas.charge(Quota::Produce, "User:w", "b", 500.0, now), 500);
        assert_eq!(quotas.fetch_limit_bytes("User:u", "a"), None);
    }

    #[test]
    fn cpu_time_is_in_percent_of_a_thread_and_waits_a_second_at_most() {
        let quotas = quotas(&[set(entity(Some(None), None), Quota::Request, 10.0)]);
        assert_eq!(quotas.metering(), Metering::Cpu);
        let now = quotas.started;
        assert_eq!(quotas.charge(Quota::Request, "User:u", "", 1e9, now), 0);
        assert_eq!(quotas.charge(Quota::Request, "User:u", "", 0.02e9, now), 200);
        assert_eq!(quotas.charge(Quota::Request, "User:u", "", 5e9, now), 1_000);
    }

    #[test]
    fn a_flood_of_client_ids_takes_bounded_room() {
        let quotas = quotas(&[set(entity(None, Some(None)), Quota::Produce, 1000.0)]);
        let kept = || quotas.shards.iter().map(|shard| shard.lock().unwrap().len()).sum::<usize>();
        for id in 0..SHARDS * SHARD_ENTRIES + 5_000 {
            quotas.charge(Quota::Produce, "User:u", &id.to_string(), 1.0, quotas.started);
        }
        assert!(kept() <= SHARDS * SHARD_ENTRIES);
        let later = quotas.started + Duration::from_secs(12);
        for id in 0..SHARDS * 1000 {
            quotas.charge(Quota::Produce, "User:u", &format!("later {id}"), 1.0, later);
        }
        assert!(kept() < SHARDS * 1100 + 4_000, "idle ones have gone: {}", kept());
    }

    #[test]
    fn quotas_survive_a_restart_and_leave_no_empty_row() {
        let folder = tempfile::tempdir().unwrap();
        let quotas = Quotas::open(Some(folder.path())).unwrap();
        assert_eq!(quotas.metering(), Metering::Off);
        let rows = [
            set(entity(Some(Some("u")), Some(None)), Quota::Produce, 1024.0),
            set(entity(None, Some(Some("c"))), Quota::Request, 12.5),
        ];
        quotas.change(&rows).unwrap();
        let again = Quotas::open(Some(folder.path())).unwrap();
        assert_eq!(again.all(), quotas.all());
        assert_eq!(again.metering(), Metering::Cpu);
        for row in rows {
            again.change(&[Change { steps: vec![(row.steps[0].0, None)], ..row }]).unwrap();
        }
        assert_eq!((again.all().len(), again.metering()), (0, Metering::Off));
        let file = folder.path().join(QUOTA_FILE);
        for (text, wanted) in [
            ("{}", "missing"),
            (r#"{"hone_broker_quotas": 2}"#, "newer"),
            (r#"{"hone_broker_quotas": 1, "rows": [{"quotas": {}}]}"#, "damaged"),
            (
                r#"{"hone_broker_quotas": 1, "rows": [{"user": null, "quotas": {"producer_byte_rate": 0}}]}"#,
                "damaged",
            ),
        ] {
            fs::write(&file, text).unwrap();
            let error = format!("{:#}", Quotas::open(Some(folder.path())).unwrap_err());
            assert!(error.contains(wanted), "{text}: {error}");
        }
    }

    #[test]
    fn values_that_can_not_be_kept_are_refused() {
        for (quota, value) in [
            (Quota::Produce, 0.0),
            (Quota::Produce, 1.5),
            (Quota::Consume, f64::NAN),
            (Quota::Consume, 1e300),
            (Quota::Request, 0.0),
            (Quota::Request, f64::INFINITY),
        ] {
            assert!(quota.check(value).is_err(), "{quota:?} {value}");
        }
        assert!(Quota::from_name("controller_mutation_rate").is_err());
    }
}
