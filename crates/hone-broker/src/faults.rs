//! Faults that a test asks for: writes that are late, stall, fail or tear, and fsyncs that fail or are late.
//!
//! This is the one door: every write and fsync of a log passes through it. Unset it costs one atomic load.

use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Kind of a fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum FaultKind {
    /// A write begins later by this time.
    WriteDelay(Duration),
    /// A write waits until [`Faults::release`], or until the broker stops.
    WriteStall,
    /// A write fails with this error number and writes nothing.
    WriteError(i32),
    /// A write stores half of its bytes and then fails with EIO.
    TornWrite,
    /// An fsync fails with EIO.
    FsyncError,
    /// An fsync begins later by this time.
    FsyncDelay(Duration),
}

impl FaultKind {
    fn is_of_writes(self) -> bool {
        !matches!(self, Self::FsyncError | Self::FsyncDelay(_))
    }

    fn is_wait(self) -> bool {
        matches!(self, Self::WriteDelay(_) | Self::WriteStall | Self::FsyncDelay(_))
    }
}

/// One fault: kind, place and time. It is parsed from one line: a kind and `key=value` pairs, separated by commas.
///
/// ```
/// let fault: hone_broker::Fault = "fsync-error,topic=orders,after=100,times=1".parse().unwrap();
/// assert_eq!(fault.after, 100);
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// Kind of the fault.
    pub kind: FaultKind,
    /// Topic whose logs fail; `None` for all topics.
    pub topic: Option<String>,
    /// Partition that fails; `None` for all.
    pub partition: Option<i32>,
    /// Number of writes (or fsyncs) that succeed first.
    pub after: u64,
    /// Number of times that it happens; `None` for no limit.
    pub times: Option<u64>,
}

impl Fault {
    /// A fault that hits every write (or fsync) of every log.
    pub fn new(kind: FaultKind) -> Self {
        Self { kind, topic: None, partition: None, after: 0, times: None }
    }
}

const KINDS: &str = "write-delay, write-stall, write-error, torn-write, fsync-error or fsync-delay";

impl std::str::FromStr for Fault {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut parts = text.split(',').map(str::trim);
        let name = parts.next().unwrap_or_default();
        let mut fault = Self::new(FaultKind::WriteStall);
        let (mut delay, mut errno) = (Duration::from_millis(100), libc::EIO);
        for part in parts {
            let (key, value) =
                part.split_once('=').ok_or_else(|| format!("fault `{text}`: `{part}` is not `key=value`"))?;
            match key {
                "topic" => fault.topic = Some(value.to_owned()),
                "partition" => fault.partition = Some(number(text, key, value)?),
                "after" => fault.after = number(text, key, value)?,
                "times" => fault.times = Some(number(text, key, value)?),
                "ms" => delay = Duration::from_millis(number(text, key, value)?),
                "errno" => errno = error_number(text, value)?,
                _ => {
                    return Err(format!(
                        "fault `{text}`: unknown key `{key}`; use topic, partition, after, times, ms or \
                         errno"
                    ));
                }
            }
        }
        fault.kind = match name {
            "write-delay" => FaultKind::WriteDelay(delay),
            "write-stall" => FaultKind::WriteStall,
            "write-error" => FaultKind::WriteError(errno),
            "torn-write" => FaultKind::TornWrite,
            "fsync-error" => FaultKind::FsyncError,
            "fsync-delay" => FaultKind::FsyncDelay(delay),
            _ => return Err(format!("fault `{text}`: unknown kind `{name}`; use {KINDS}")),
        };
        Ok(fault)
    }
}

fn number<T: std::str::FromStr>(text: &str, key: &str, value: &str) -> Result<T, String> {
    value.parse().map_err(|_| format!("fault `{text}`: invalid {key} `{value}`; use a number"))
}

fn error_number(text: &str, value: &str) -> Result<i32, String> {
    match value {
        "enospc" => Ok(libc::ENOSPC),
        "eio" => Ok(libc::EIO),
        _ => Err(format!("fault `{text}`: invalid errno `{value}`; use enospc or eio")),
    }
}

/// The faults of a broker; clones share them.
#[derive(Clone, Default)]
pub struct Faults(Arc<Shared>);

#[derive(Default)]
struct Shared {
    armed: AtomicBool,
    rules: Mutex<Rules>,
    released: Condvar,
}

#[derive(Default)]
struct Rules {
    faults: VecDeque<Fault>,
    /// How often stalled writes were let go.
    releases: u64,
}

impl fmt::Debug for Faults {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_list().entries(&self.rules().faults).finish()
    }
}

impl Faults {
    /// No faults.
    pub fn none() -> Self {
        Self::default()
    }

    /// Adds a fault. If several match, all delays apply, and the first error wins.
    pub fn add(&self, fault: Fault) {
        self.rules().faults.push_back(fault);
        self.0.armed.store(true, Ordering::Release);
    }

    /// Lets every stalled write continue. Later writes stall again while the fault exists.
    pub fn release(&self) {
        self.rules().releases += 1;
        self.0.released.notify_all();
    }

    /// Removes all faults and lets stalled writes continue.
    pub fn clear(&self) {
        self.rules().faults.clear();
        self.0.armed.store(false, Ordering::Release);
        self.release();
    }

    /// Takes the stalls back and lets stalled writes go on: a broker that stops waits for its writes.
    pub(crate) fn end_stalls(&self) {
        self.rules().faults.retain(|fault| fault.kind != FaultKind::WriteStall);
        self.release();
    }

    fn rules(&self) -> MutexGuard<'_, Rules> {
        self.0.rules.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits as long as the faults want before a write. No lock of a log may be held.
    pub(crate) fn before_write(&self, topic: &str, partition: i32) {
        if self.0.armed.load(Ordering::Acquire) {
            self.wait(topic, partition, true);
        }
    }

    /// What is to go wrong with this write.
    pub(crate) fn of_write(&self, topic: &str, partition: i32) -> Option<FaultKind> {
        if !self.0.armed.load(Ordering::Acquire) {
            return None;
        }
        let mut rules = self.rules();
        let due = |fault: &&mut Fault| fault.kind.is_of_writes() && !fault.kind.is_wait();
        rules.faults.iter_mut().filter(due).find_map(|fault| fault.strike(topic, partition))
    }

    /// Waits, then fails, as the faults want it for an fsync.
    pub(crate) fn fsync(&self, topic: &str, partition: i32) -> io::Result<()> {
        if !self.0.armed.load(Ordering::Acquire) {
            return Ok(());
        }
        self.wait(topic, partition, false);
        let mut rules = self.rules();
        let due = |fault: &&mut Fault| fault.kind == FaultKind::FsyncError;
        match rules.faults.iter_mut().filter(due).find_map(|fault| fault.strike(topic, partition)) {
            Some(_) => Err(io::Error::from_raw_os_error(libc::EIO)),
            None => Ok(()),
        }
    }

    fn wait(&self, topic: &str, partition: i32, writes: bool) {
        let mut rules = self.rules();
        let releases = rules.releases;
        let due = |fault: &&mut Fault| fault.kind.is_wait() && fault.kind.is_of_writes() == writes;
        let struck: Vec<FaultKind> =
            rules.faults.iter_mut().filter(due).filter_map(|fault| fault.strike(topic, partition)).collect();
        let mut delay = Duration::ZERO;
        for kind in struck {
            match kind {
                FaultKind::WriteDelay(more) | FaultKind::FsyncDelay(more) => delay += more,
                _ => {
                    let stalled = |rules: &mut Rules| rules.releases == releases;
                    let waited = self.0.released.wait_while(rules, stalled);
                    rules = waited.unwrap_or_else(PoisonError::into_inner);
                }
            }
        }
        drop(rules);
        if !delay.is_zero() {
            std::thread::sleep(delay);
        }
    }
}

impl Fault {
    /// Counts one write (or fsync); says whether it is hit.
    fn strike(&mut self, topic: &str, partition: i32) -> Option<FaultKind> {
        if self.topic.as_deref().is_some_and(|wanted| wanted != topic)
            || self.partition.is_some_and(|wanted| wanted != partition)
        {
            return None;
        }
        if self.after > 0 {
            self.after -= 1;
            return None;
        }
        match &mut self.times {
            Some(0) => return None,
            Some(times) => *times -= 1,
            None => (),
        }
        Some(self.kind)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn specifications_are_parsed_or_refused_with_the_reason() {
        let fault: Fault =
            "write-error,topic=orders,partition=3,after=2,times=1,errno=enospc".parse().unwrap();
        let wanted = Fault {
            kind: FaultKind::WriteError(libc::ENOSPC),
            topic: Some("orders".to_owned()),
            partition: Some(3),
            after: 2,
            times: Some(1),
        };
        assert_eq!(fault, wanted);
        let delay = "fsync-delay, ms=7".parse::<Fault>().unwrap().kind;
        assert_eq!(delay, FaultKind::FsyncDelay(Duration::from_millis(7)));
        for (text, reason) in [
            ("", "unknown kind ``"),
            ("fsync", "use write-delay"),
            ("fsync-error,orders", "is not `key=value`"),
            ("fsync-error,after=x", "invalid after `x`"),
            ("write-error,errno=eperm", "use enospc or eio"),
            ("torn-write,offset=1", "unknown key `offset`"),
        ] {
            let error = text.parse::<Fault>().unwrap_err();
            assert!(error.contains(reason), "{text}: {error}");
        }
    }

    #[test]
    fn a_fault_hits_after_so_many_and_so_often_and_only_where_it_should() {
        let faults = Faults::none();
        assert_eq!(faults.of_write("t", 0), None);
        faults.add("torn-write,topic=t,partition=0,after=1,times=2".parse().unwrap());
        let hits: Vec<_> = (0..5).map(|_| faults.of_write("t", 0).is_some()).collect();
        assert_eq!(hits, [false, true, true, false, false]);
        faults.add("fsync-error,topic=u".parse().unwrap());
        assert!(faults.fsync("t", 0).is_ok());
        assert!(faults.fsync("u", 5).is_err());
        faults.clear();
        assert!(faults.fsync("u", 5).is_ok());
    }

    #[test]
    fn a_stalled_write_goes_on_when_it_is_released() {
        let faults = Faults::none();
        faults.add("write-stall,times=1".parse().unwrap());
        let (told, tell) = std::sync::mpsc::channel();
        let writer = std::thread::spawn({
            let faults = faults.clone();
            move || {
                faults.before_write("t", 0);
                told.send(()).unwrap();
            }
        });
        // It is stalled once the fault has been used up.
        while faults.rules().faults[0].times != Some(0) {
            std::thread::yield_now();
        }
        assert!(tell.try_recv().is_err());
        faults.release();
        writer.join().unwrap();
        tell.recv().unwrap();
        faults.before_write("t", 0);
    }
}
