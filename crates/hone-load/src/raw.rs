//! Writes every request of a window with its times to a file besides the measurement.
//!
//! The sending thread passes whole blocks to a writing thread and never waits for it. A slow or full disk costs lines of this file, but no
//! request of the window.

use std::fs::File;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::thread::JoinHandle;
use std::time::Instant;

use hone_record::{Event, EventKind};

use crate::connection::InFlight;
use crate::error::LoadError;

/// The first line.
const HEAD: &str = "intended_ns,sent_ns,ended_ns,outcome\n";
/// Requests in a block.
const BLOCK: usize = 4_096;
/// Number of blocks that the writer may be behind: a second or two at the highest rates.
const BLOCKS: usize = 128;

/// A writable file for the times of every request.
#[derive(Debug)]
pub struct RawFile {
    path: PathBuf,
    file: File,
}

impl RawFile {
    /// Creates the file, or empties it.
    ///
    /// # Errors
    /// Returns an error when it can't be written.
    pub fn create(path: &Path) -> Result<Self, LoadError> {
        let file = File::create(path).map_err(|error| LoadError::File {
            what: "raw times",
            path: path.to_owned(),
            problem: error.to_string(),
        })?;
        Ok(Self { path: path.to_owned(), file })
    }
}

/// A request that has ended. Times count from the window's start.
#[derive(Debug)]
struct Sample {
    intended_ns: u64,
    /// `None` if it was never sent.
    sent_ns: Option<u64>,
    ended_ns: u64,
    /// `None` when it was acknowledged.
    error: Option<String>,
}

/// The recorder passes requests here.
#[derive(Debug)]
pub(crate) struct Raw {
    path: PathBuf,
    block: Vec<Sample>,
    blocks: Option<SyncSender<Vec<Sample>>>,
    emptied: Receiver<Vec<Sample>>,
    writer: JoinHandle<Option<Failure>>,
    /// Number of requests that the writer had no room for.
    left_out: u64,
    left_out_at_ns: u64,
}

/// Why the writer stopped.
#[derive(Debug)]
struct Failure {
    at: Instant,
    error: io::Error,
}

impl Raw {
    /// Starts the thread that writes.
    pub(crate) fn start(raw: RawFile) -> Result<Self, LoadError> {
        let (blocks, to_write) = sync_channel(BLOCKS);
        let (give_back, emptied) = sync_channel(BLOCKS);
        let file = raw.file;
        let writer = std::thread::Builder::new()
            .name("raw".to_owned())
            .spawn(move || write(file, &to_write, &give_back))
            .map_err(|source| LoadError::System {
                what: "starting the thread that writes raw times",
                source,
            })?;
        let block = Vec::with_capacity(BLOCK);
        Ok(Self {
            path: raw.path,
            block,
            blocks: Some(blocks),
            emptied,
            writer,
            left_out: 0,
            left_out_at_ns: 0,
        })
    }

    /// Adds a finished request; `went` says whether it was ever sent.
    #[inline]
    pub(crate) fn ended(&mut self, request: InFlight, went: bool, ended_ns: u64, error: Option<&str>) {
        let sent_ns = went.then_some(request.sent_ns);
        let error = error.map(str::to_owned);
        self.block.push(Sample { intended_ns: request.intended_ns, sent_ns, ended_ns, error });
        if self.block.len() >= BLOCK {
            self.hand_over(ended_ns);
        }
    }

    fn hand_over(&mut self, now_ns: u64) {
        let fresh = self.emptied.try_recv().unwrap_or_else(|_| Vec::with_capacity(BLOCK));
        let full = std::mem::replace(&mut self.block, fresh);
        let Some(blocks) = &self.blocks else { return };
        if let Err(TrySendError::Full(mut block) | TrySendError::Disconnected(mut block)) =
            blocks.try_send(full)
        {
            self.left_out += block.len() as u64;
            self.left_out_at_ns = now_ns;
            block.clear();
            self.block = block;
        }
    }

    /// Writes the rest. Returns an event if lines are missing.
    pub(crate) fn finish(mut self, start: Instant, end_ns: u64) -> Option<Event> {
        // The measurement has ended, so there is time to wait for the writer.
        if let Some(blocks) = self.blocks.take() {
            let _ = blocks.send(std::mem::take(&mut self.block));
        }
        let path = self.path.display();
        let (at_ns, what) = match self.writer.join() {
            Ok(None) if self.left_out == 0 => return None,
            Ok(None) => (
                self.left_out_at_ns,
                format!("{path} lacks {} requests: the disk was too slow", self.left_out),
            ),
            Ok(Some(failure)) => (
                failure.at.saturating_duration_since(start).as_nanos() as u64,
                format!("{path} ends early: {}", failure.error),
            ),
            Err(_) => (end_ns, format!("{path} is incomplete: its writing thread crashed")),
        };
        Some(Event { at_s: at_ns.min(end_ns) as f64 / 1e9, kind: EventKind::RecordingFailed, what })
    }
}

/// Writes blocks as they come, in whole lines. After an error it drops the block and everything that follows.
fn write(
    mut file: File,
    blocks: &Receiver<Vec<Sample>>,
    give_back: &SyncSender<Vec<Sample>>,
) -> Option<Failure> {
    let mut text = HEAD.as_bytes().to_vec();
    let mut failure = None;
    while let Ok(mut block) = blocks.recv() {
        if failure.is_none() {
            block.iter().for_each(|sample| sample.put(&mut text));
            failure = file.write_all(&text).err().map(|error| Failure { at: Instant::now(), error });
            text.clear();
        }
        block.clear();
        // Does not wait for the writer after the window.
        let _ = give_back.try_send(block);
    }
    failure
}

impl Sample {
    fn put(&self, out: &mut Vec<u8>) {
        let sent = self.sent_ns.map(|ns| ns.to_string()).unwrap_or_default();
        // A client names its errors itself, and such a name must not become two columns.
        let outcome = self.error.as_deref().unwrap_or("ok").replace([',', '"'], "_");
        // Writing to memory can't fail.
        let _ = writeln!(out, "{},{sent},{},{outcome}", self.intended_ns, self.ended_ns);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::connection::Cargo;

    fn fill(path: &str, requests: u64) -> Option<Event> {
        let mut raw = Raw::start(RawFile::create(Path::new(path)).unwrap()).unwrap();
        for at in 0..requests {
            let request = InFlight { intended_ns: at, sent_ns: at + 1, cargo: Cargo::default() };
            raw.ended(request, at % 2 == 0, at + 2, (at == 3).then_some("timeout"));
            if at % BLOCK as u64 == 0 {
                std::thread::sleep(std::time::Duration::from_millis(1));
            }
        }
        raw.finish(Instant::now(), 77)
    }

    #[test]
    fn every_request_has_a_line() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("raw.csv");
        assert_eq!(fill(path.to_str().unwrap(), 20_000), None);
        let text = std::fs::read_to_string(&path).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 20_001);
        assert_eq!(lines[..3], [HEAD.trim_end(), "0,1,2,ok", "1,,3,ok"]);
        assert_eq!(lines[4], "3,,5,timeout");
    }

    #[test]
    fn a_full_disk_is_told_and_stops_nobody() {
        let event = fill("/dev/full", 20_000).unwrap();
        assert_eq!(event.kind, EventKind::RecordingFailed);
        assert!(event.what.starts_with("/dev/full ends early: No space left"), "{}", event.what);
        assert!(RawFile::create(Path::new("/no/such/folder/x")).is_err());
    }
}
