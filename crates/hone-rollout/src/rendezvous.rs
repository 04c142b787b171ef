//! Coordinates the shards of a load through a store that all of them reach, a folder or an object store.
//!
//! Each shard reports that it is ready. Shard 0 waits for all of them and then sets the time of the window. Each one stores its
//! record there. There is no other communication, and no shard listens for another one.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use hone_record::{Envelope, Shard, Window};
use hone_store::Store;
use hone_tool::interrupt;

use hone_experiment::moment::now_unix_ms;

/// Time from the decision to the window, long enough for every shard to read it.
const START_AHEAD_MS: u64 = 5_000;
/// Tolerance for a slow clock. A shard with a slower clock would open its window too late.
const SLACK_MS: u64 = 1_000;
/// Time between two reads of the store.
const LOOK_EVERY: Duration = Duration::from_millis(250);
const START: &str = "start";
const TOPIC: &str = "topic";

/// A shard in the store.
#[derive(Debug)]
pub struct Rendezvous {
    store: Store,
    index: u32,
    of: u32,
    patience: Duration,
}

impl Rendezvous {
    /// Enters a store that no other run has used.
    pub fn open(address: &str, index: u32, of: u32, patience: Duration) -> Result<Self> {
        let store = Store::open(address)?;
        let names = store.names()?;
        let own = [ready_name(index), record_name(index)];
        // Only shard 0 can recognise an old topic name, since the others may arrive later. It would choose
        // another name after some of them have read the old one.
        let is_trace = |name: &String| own.contains(name) || name == START || (index == 0 && name == TOPIC);
        if let Some(trace) = names.into_iter().find(is_trace) {
            bail!(
                "{address} has `{trace}` of an earlier run, or shard {index} runs already\n  next: name a \
                 new store with --store"
            );
        }
        Ok(Self { store, index, of, patience })
    }

    /// This shard's number. The time of the window is not known before [`Rendezvous::meet`].
    pub fn shard(&self) -> Shard {
        Shard { index: self.index, of: self.of, start_unix_ms: 0 }
    }

    /// The topic that all shards load. Shard 0 chooses its name.
    pub fn topic(&self, mut waiting: impl FnMut(&str)) -> Result<String> {
        if self.index == 0 {
            let name = format!("hone-load-{:x}", now_unix_ms());
            self.store.put(TOPIC, name.clone().into_bytes())?;
            return Ok(name);
        }
        let name = self.word_of_shard_0(TOPIC, &mut waiting)?;
        String::from_utf8(name).with_context(|| format!("`{TOPIC}` in {} is not text", self.store.address()))
    }

    fn word_of_shard_0(&self, name: &str, waiting: &mut impl FnMut(&str)) -> Result<Vec<u8>> {
        let deadline = Instant::now() + self.patience;
        loop {
            if let Some(word) = self.store.get(name)? {
                return Ok(word);
            }
            waiting("waiting for shard 0");
            pause(deadline)
                .with_context(|| format!("shard 0 did not write its `{name}` to {}", self.store.address()))?;
        }
    }

    /// Reports that this shard is ready, waits for the others, and returns the time of the window (milliseconds since 1970).
    pub fn meet(&self, mut waiting: impl FnMut(&str)) -> Result<u64> {
        self.store.put(&ready_name(self.index), Vec::new())?;
        if self.index == 0 {
            self.wait_for_all(ready_name, &mut waiting)?;
            let start_unix_ms = now_unix_ms() + START_AHEAD_MS;
            self.store.put(START, start_unix_ms.to_string().into_bytes())?;
            return Ok(start_unix_ms);
        }
        let word = self.word_of_shard_0(START, &mut waiting)?;
        self.start_of(&word)
    }

    /// Waits until every shard has stored its record, so that no shard loads the topic any more.
    pub fn wait_for_records(&self, mut waiting: impl FnMut(&str)) -> Result<()> {
        self.wait_for_all(record_name, &mut waiting)
    }

    fn wait_for_all(&self, name: fn(u32) -> String, waiting: &mut impl FnMut(&str)) -> Result<()> {
        all_there(&self.store, self.of, name, Instant::now() + self.patience, waiting)
    }

    fn start_of(&self, word: &[u8]) -> Result<u64> {
        let start_unix_ms: Option<u64> =
            std::str::from_utf8(word).ok().and_then(|text| text.trim().parse().ok());
        let Some(start_unix_ms) = start_unix_ms else {
            bail!("`{START}` in {} has no time", self.store.address());
        };
        let now_unix_ms = now_unix_ms();
        if start_unix_ms < now_unix_ms {
            bail!(
                "the common start is {} ms in the past: shard {} read it too late, or the machines' clocks \
                 differ",
                now_unix_ms - start_unix_ms,
                self.index
            );
        }
        if start_unix_ms - now_unix_ms > START_AHEAD_MS + SLACK_MS {
            bail!(
                "the common start is {} ms ahead here, but shard 0 set it {START_AHEAD_MS} ms ahead: the \
                 clock of shard {} is slow; synchronise the clocks",
                start_unix_ms - now_unix_ms,
                self.index
            );
        }
        Ok(start_unix_ms)
    }

    /// Stores this shard's record for the merge.
    pub fn keep(&self, window: &Window) -> Result<()> {
        let text = Envelope::new(window.clone()).to_text()?;
        Ok(self.store.put(&record_name(self.index), text.into_bytes())?)
    }
}

/// All shards' records in a store, when they are complete.
pub fn collect(
    address: &str,
    of: u32,
    patience: Duration,
    mut waiting: impl FnMut(&str),
) -> Result<Vec<Window>> {
    let store = Store::open(address)?;
    all_there(&store, of, record_name, Instant::now() + patience, &mut waiting)?;
    (0..of).map(|index| read(&store, &record_name(index))).collect()
}

/// Waits for an object of each shard.
fn all_there(
    store: &Store,
    of: u32,
    name: fn(u32) -> String,
    deadline: Instant,
    waiting: &mut impl FnMut(&str),
) -> Result<()> {
    loop {
        let names = store.names()?;
        let missing: Vec<String> =
            (0..of).filter(|index| !names.contains(&name(*index))).map(|index| index.to_string()).collect();
        if missing.is_empty() {
            return Ok(());
        }
        waiting(&format!("waiting for {} of {of} shards", missing.len()));
        let what = name(0).replace('0', "N");
        pause(deadline).with_context(|| {
            format!("{} has no `{what}` of these shards: {}", store.address(), missing.join(", "))
        })?;
    }
}

/// Stores the merged record next to the shards'.
pub fn keep_merged(address: &str, window: &Window) -> Result<()> {
    let text = Envelope::new(window.clone()).to_text()?;
    Ok(Store::open(address)?.put("merged.json", text.into_bytes())?)
}

fn read(store: &Store, name: &str) -> Result<Window> {
    let bytes = store.get(name)?.with_context(|| format!("{name} disappeared from {}", store.address()))?;
    let text =
        String::from_utf8(bytes).with_context(|| format!("{name} in {} is not text", store.address()))?;
    Envelope::parse(&text).with_context(|| format!("{name} in {}", store.address()))
}

fn ready_name(index: u32) -> String {
    format!("ready-{index}")
}

fn record_name(index: u32) -> String {
    format!("shard-{index}.json")
}

/// Waits a moment. Fails when the time is over or the user interrupts.
fn pause(deadline: Instant) -> Result<()> {
    if interrupt::requested() {
        bail!("interrupted");
    }
    if Instant::now() >= deadline {
        bail!("the time limit of --wait was reached");
    }
    std::thread::sleep(LOOK_EVERY);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place() -> (tempfile::TempDir, String) {
        let folder = tempfile::tempdir().unwrap();
        let address = folder.path().join("run").display().to_string();
        (folder, address)
    }

    fn shard(address: &str, index: u32, of: u32, patience_ms: u64) -> Result<Rendezvous> {
        Rendezvous::open(address, index, of, Duration::from_millis(patience_ms))
    }

    #[test]
    fn all_shards_hear_the_same_start() {
        let (_folder, address) = place();
        let starts: Vec<u64> = std::thread::scope(|scope| {
            let shards: Vec<_> = (0..3)
                .map(|index| {
                    let address = &address;
                    scope.spawn(move || shard(address, index, 3, 20_000).unwrap().meet(|_| {}).unwrap())
                })
                .collect();
            shards.into_iter().map(|shard| shard.join().unwrap()).collect()
        });
        assert!(starts.iter().all(|start| *start == starts[0] && *start > now_unix_ms()), "{starts:?}");
    }

    #[test]
    fn a_shard_that_does_not_come_is_named() {
        let (_folder, address) = place();
        let error = shard(&address, 0, 3, 300).unwrap().meet(|_| {}).unwrap_err();
        assert!(format!("{error:#}").contains("has no `ready-N` of these shards"), "{error:#}");
        assert!(format!("{error:#}").contains("1, 2"), "{error:#}");
    }

    #[test]
    fn a_place_of_an_earlier_run_is_refused() {
        let (_folder, address) = place();
        let _ = shard(&address, 1, 2, 1).unwrap().meet(|_| {});
        let error = shard(&address, 1, 2, 1).unwrap_err().to_string();
        assert!(error.contains("has `ready-1` of an earlier run"), "{error}");
        shard(&address, 0, 2, 1).unwrap();
    }

    #[test]
    fn shard_0_gives_no_second_name_to_the_topic() {
        let (_folder, address) = place();
        let topic = shard(&address, 0, 2, 1_000).unwrap().topic(|_| {}).unwrap();
        let error = shard(&address, 0, 2, 1_000).unwrap_err().to_string();
        assert!(error.contains("has `topic` of an earlier run"), "{error}");
        let other = shard(&address, 1, 2, 1_000).unwrap();
        assert_eq!(other.topic(|_| {}).unwrap(), topic, "the others come after it");
    }

    #[test]
    fn a_start_that_is_over_is_refused() {
        let (_folder, address) = place();
        let late = shard(&address, 1, 2, 1_000).unwrap();
        late.store.put(START, b"1000".to_vec()).unwrap();
        assert!(late.meet(|_| {}).unwrap_err().to_string().contains("ms in the past"));
    }

    #[test]
    fn a_start_that_is_too_far_ahead_is_refused() {
        let (_folder, address) = place();
        let behind = shard(&address, 1, 2, 1_000).unwrap();
        let start_in = |ahead_ms: u64| {
            let word = (now_unix_ms() + ahead_ms).to_string();
            behind.start_of(word.as_bytes())
        };
        start_in(START_AHEAD_MS).unwrap();
        for ahead_ms in [START_AHEAD_MS + SLACK_MS + 1_000, 60_000] {
            let error = start_in(ahead_ms).unwrap_err().to_string();
            assert!(error.contains("ms ahead here") && error.contains("synchronise the clocks"), "{error}");
        }
        let error = behind.start_of(u64::MAX.to_string().as_bytes()).unwrap_err().to_string();
        assert!(error.contains("the clock of shard 1 is slow"), "{error}");
    }
}
