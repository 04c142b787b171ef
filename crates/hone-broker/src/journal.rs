//! One append-only file for what must survive a power cut and is no log of a partition: offsets of groups, groups
//! themselves, transactions.
//!
//! Entries are opaque here. Many threads append; one thread, the committer, writes and flushes whatever has gathered
//! since its last turn and only then lets the answers go that wait for it. So the cost of a flush is shared by all who
//! came meanwhile, and no thread that serves clients ever waits for a disk.
//!
//! The file begins with [`MAGIC`]. An entry is its length and a CRC-32C over the length and the bytes (both 32 bits,
//! little endian), then the bytes.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Seek, SeekFrom, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::{self, JoinHandle};

use crate::notices::Notices;
use crate::reply::Reply;
use crate::ticket::Ticket;
use crate::{code, durable};

/// First bytes of the file: what it is, and the version of its format.
const MAGIC: &[u8; 8] = b"HONEJRN1";
/// Length and CRC in front of an entry.
const HEAD_BYTES: usize = 8;
/// An entry that is larger is an error, long before its length would not fit.
const MOST_ENTRY_BYTES: usize = 1 << 30;
/// Behind the name of the file that [`Journal::rewrite`] prepares.
const NEW_SUFFIX: &str = "new";
/// Behind the name of the copy of a file that had damage in its middle.
const DAMAGED_SUFFIX: &str = "damaged";
/// Growth below which the broker does not rewrite the file, however little of it is needed.
const FEW_BYTES: u64 = 8 << 20;
/// How much is read at most in search of whole entries behind a damaged one.
const SEARCHED_BYTES: usize = 1 << 30;

/// What to do about a damaged entry with whole ones behind it. A torn tail, which a power cut leaves, is none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Damage {
    /// Each entry says something of its own: a copy of the file is kept, and the others count.
    Skip,
    /// What an entry says depends on those before it: nothing is opened.
    Refuse,
}

/// Brings an answer to the thread of a connection.
pub(crate) type Post = Arc<dyn Fn(Ticket, Reply) + Send + Sync>;
/// Makes what was written to a file durable.
type Flush = Box<dyn FnMut(&File) -> io::Result<()> + Send>;

/// An entry did not become durable, and none will until the broker is started again.
#[derive(Debug, Clone, thiserror::Error)]
#[error(
    "can't write {path}: {reason}; the broker acknowledges nothing until you repair the disk and restart it"
)]
pub(crate) struct JournalError {
    path: String,
    reason: String,
}

/// An append-only file of entries with group commit.
pub(crate) struct Journal {
    shared: Arc<Shared>,
    /// `None` once closed, and for a journal in memory.
    committer: Mutex<Option<JoinHandle<()>>>,
}

struct Shared {
    queue: Mutex<Queue>,
    /// Rings when there is work for the committer, and when it has done some.
    bell: Condvar,
    post: OnceLock<Post>,
    in_memory: bool,
}

#[derive(Default)]
struct Queue {
    waiting: Vec<Work>,
    /// Entries taken in, and those that are durable, counted from the start of the process.
    taken: u64,
    durable: u64,
    /// Bytes appended since the file was last rewritten; all that it had when it was opened count.
    grown_bytes: u64,
    /// Bytes of the file when it was last rewritten.
    rewritten_bytes: u64,
    failed: Option<JournalError>,
    closing: bool,
}

enum Work {
    Append {
        entry: Vec<u8>,
        then: Vec<(Ticket, Reply)>,
    },
    /// Nothing to write: the answer goes out when all before it is durable.
    Barrier {
        then: (Ticket, Reply),
    },
    /// What the next rewrite says begins to be gathered: it keeps all entries behind this.
    Mark,
    Rewrite {
        entries: Vec<Vec<u8>>,
    },
}

impl Journal {
    /// Opens or makes the file, gives every whole entry to `replay`, cuts a torn tail and starts the committer.
    pub(crate) fn open(
        path: &Path,
        damage: Damage,
        notices: &Notices,
        replay: impl FnMut(&[u8]),
    ) -> io::Result<Self> {
        Self::open_with(path, damage, notices, replay, Box::new(durable::sync_file))
    }

    fn open_with(
        path: &Path,
        damage: Damage,
        notices: &Notices,
        mut replay: impl FnMut(&[u8]),
        flush: Flush,
    ) -> io::Result<Self> {
        let mut found_bytes = 0;
        let file = open_file(path, damage, notices, |entry| {
            found_bytes += (HEAD_BYTES + entry.len()) as u64;
            replay(entry);
        })?;
        let shared = Arc::new(Shared::new(false));
        shared.lock().grown_bytes = found_bytes;
        let committer = Committer {
            shared: Arc::clone(&shared),
            path: path.to_owned(),
            file,
            mark: None,
            flush,
            notices: notices.clone(),
        };
        let thread = thread::Builder::new().name("journal".to_owned()).spawn(move || committer.run())?;
        Ok(Self { shared, committer: Mutex::new(Some(thread)) })
    }

    /// A journal without a file: an entry is as durable at once as it will ever be.
    pub(crate) fn in_memory() -> Self {
        Self { shared: Arc::new(Shared::new(true)), committer: Mutex::new(None) }
    }

    /// Says where answers go; the first call counts.
    pub(crate) fn post_to(&self, post: Post) {
        let _ = self.shared.post.set(post);
    }

    /// Takes an entry in. Once it is durable `then` is posted, in the order of the calls; when it can't be made
    /// durable, the ticket gets [`Reply::Code`] with KAFKA_STORAGE_ERROR instead.
    pub(crate) fn append(&self, entry: Vec<u8>, then: Option<(Ticket, Reply)>) {
        self.append_for_all(entry, then.into_iter().collect());
    }

    /// [`Journal::append`] where several connections wait for one entry.
    pub(crate) fn append_for_all(&self, entry: Vec<u8>, then: Vec<(Ticket, Reply)>) {
        self.shared.take_in(Work::Append { entry, then });
    }

    /// Takes an entry in and waits until it is durable: for threads that serve no clients.
    pub(crate) fn append_and_wait(&self, entry: Vec<u8>) -> Result<(), JournalError> {
        let number = self.shared.take_in(Work::Append { entry, then: Vec::new() });
        self.shared.wait_for(number)
    }

    /// Has an answer posted when all that was taken in so far is durable, or KAFKA_STORAGE_ERROR when that fails.
    /// `false` when it is durable already; then nothing is posted.
    pub(crate) fn answer_when_durable(&self, ticket: Ticket, reply: impl FnOnce() -> Reply) -> bool {
        if self.shared.lock().is_durable() {
            return false;
        }
        self.shared.take_in(Work::Barrier { then: (ticket, reply()) });
        true
    }

    /// Says that entries for [`Journal::rewrite`] are about to be gathered: those that are appended meanwhile are kept,
    /// and come behind them.
    pub(crate) fn mark(&self) {
        self.shared.take_in(Work::Mark);
    }

    /// Replaces all in the file that was before [`Journal::mark`] by `entries`, which must say the same; they may say
    /// more, as long as what was appended since may be repeated behind them. Does not wait.
    pub(crate) fn rewrite(&self, entries: Vec<Vec<u8>>) {
        self.shared.take_in(Work::Rewrite { entries });
    }

    /// Whether so much was appended since the file was last rewritten that it is time to do it again: a rewrite costs
    /// as much as what it writes, so a large file has to have grown by more than a small one.
    pub(crate) fn wants_rewrite(&self) -> bool {
        let queue = self.shared.lock();
        queue.grown_bytes > FEW_BYTES.max(2 * queue.rewritten_bytes)
    }

    /// Lets the committer finish what was taken in, and ends it. Later entries are refused.
    pub(crate) fn close(&self) {
        self.shared.lock().closing = true;
        self.shared.bell.notify_all();
        let committer = self.committer.lock().unwrap_or_else(PoisonError::into_inner).take();
        // The last owner of the journal may be an answer on the committer's own way; it can't wait for itself.
        if let Some(thread) = committer.filter(|thread| thread.thread().id() != thread::current().id()) {
            // It does not panic by itself, and if it did, every answer that matters was an error by then.
            let _ = thread.join();
        }
    }
}

impl Drop for Journal {
    fn drop(&mut self) {
        self.close();
    }
}

impl Queue {
    /// Whether there is nothing that could get lost.
    fn is_durable(&self) -> bool {
        self.failed.is_none() && self.durable == self.taken
    }
}

impl Shared {
    fn new(in_memory: bool) -> Self {
        Self { queue: Mutex::default(), bell: Condvar::new(), post: OnceLock::new(), in_memory }
    }

    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn post(&self, ticket: Ticket, reply: Reply) {
        if let Some(post) = self.post.get() {
            post(ticket, reply);
        }
    }

    /// Returns the number of the work, to wait for.
    fn take_in(&self, work: Work) -> u64 {
        let mut queue = self.lock();
        queue.taken += 1;
        let number = queue.taken;
        match &work {
            Work::Append { entry, .. } => queue.grown_bytes += (HEAD_BYTES + entry.len()) as u64,
            Work::Barrier { .. } | Work::Mark => (),
            Work::Rewrite { entries } => {
                queue.rewritten_bytes = entries.iter().map(|entry| (HEAD_BYTES + entry.len()) as u64).sum();
                queue.grown_bytes = 0;
            }
        }
        if queue.closing && queue.failed.is_none() {
            queue.failed = Some(closed());
        }
        let refused = queue.failed.is_some();
        if refused || self.in_memory {
            if !refused {
                queue.durable = number;
            }
            drop(queue);
            self.answer(work, !refused);
            return number;
        }
        queue.waiting.push(work);
        if queue.waiting.len() == 1 {
            self.bell.notify_all();
        }
        number
    }

    fn wait_for(&self, number: u64) -> Result<(), JournalError> {
        let mut queue = self.lock();
        loop {
            if queue.durable >= number {
                return Ok(());
            }
            if let Some(error) = &queue.failed {
                return Err(error.clone());
            }
            queue = self.bell.wait(queue).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn answer(&self, work: Work, durable: bool) {
        let then = match work {
            Work::Append { then, .. } => then,
            Work::Barrier { then } => vec![then],
            Work::Mark | Work::Rewrite { .. } => return,
        };
        for (ticket, reply) in then {
            self.post(ticket, if durable { reply } else { Reply::Code(code::KAFKA_STORAGE_ERROR) });
        }
    }
}

fn closed() -> JournalError {
    JournalError { path: "the journal".to_owned(), reason: "it is closed".to_owned() }
}

/// The thread that owns the file.
struct Committer {
    shared: Arc<Shared>,
    path: PathBuf,
    file: File,
    /// Where in the file the last mark was set.
    mark: Option<u64>,
    flush: Flush,
    notices: Notices,
}

impl Committer {
    fn run(mut self) {
        while let Some(gathered) = self.gather() {
            let committed = self.commit(&gathered);
            let durable = committed.is_ok();
            if let Err(error) = &committed {
                self.notices.say(&error.to_string());
            }
            self.settle(gathered, committed);
            if !durable {
                return;
            }
        }
    }

    /// Waits for work; `None` when there will be none any more.
    fn gather(&self) -> Option<Vec<Work>> {
        let mut queue = self.shared.lock();
        while queue.waiting.is_empty() {
            if queue.closing {
                return None;
            }
            queue = self.shared.bell.wait(queue).unwrap_or_else(PoisonError::into_inner);
        }
        Some(std::mem::take(&mut queue.waiting))
    }

    fn commit(&mut self, gathered: &[Work]) -> Result<(), JournalError> {
        let written = self.write(gathered);
        written.map_err(|error| JournalError {
            path: self.path.display().to_string(),
            reason: error.to_string(),
        })
    }

    /// Writes all entries. A requested rewrite then replaces the file and copies the entries after the mark.
    fn write(&mut self, gathered: &[Work]) -> io::Result<()> {
        let mut at = self.file.stream_position()?;
        let mut bytes = Vec::new();
        let mut rewrites = None;
        let mut changed = false;
        for work in gathered {
            match work {
                Work::Append { entry, .. } => {
                    put_entry(&mut bytes, entry)?;
                    changed = true;
                }
                Work::Barrier { .. } => (),
                Work::Mark => self.mark = Some(at + bytes.len() as u64),
                Work::Rewrite { entries } => {
                    let mark = self.mark.take().unwrap_or(at + bytes.len() as u64);
                    rewrites = Some((entries, mark));
                }
            }
        }
        self.file.write_all(&bytes)?;
        at += bytes.len() as u64;
        if let Some((entries, mark)) = rewrites {
            return self.write_anew(entries, mark, at);
        }
        if changed { (self.flush)(&self.file) } else { Ok(()) }
    }

    fn write_anew(&mut self, entries: &[Vec<u8>], mark: u64, end: u64) -> io::Result<()> {
        let mut bytes = MAGIC.to_vec();
        entries.iter().try_for_each(|entry| put_entry(&mut bytes, entry))?;
        let kept_from = bytes.len();
        bytes.resize(kept_from + end.saturating_sub(mark) as usize, 0);
        self.file.read_exact_at(bytes.get_mut(kept_from..).unwrap_or_default(), mark)?;
        // A mark that was set behind the one of this rewrite moves with what is behind it.
        self.mark = self.mark.map(|later| kept_from as u64 + later.saturating_sub(mark));
        self.file = replace(&self.path, &bytes, &mut self.flush)?;
        Ok(())
    }

    /// Says what became of the work: to threads that wait, then to connections.
    fn settle(&self, gathered: Vec<Work>, committed: Result<(), JournalError>) {
        let durable = committed.is_ok();
        let mut queue = self.shared.lock();
        let mut stranded = Vec::new();
        match committed {
            Ok(()) => queue.durable += gathered.len() as u64,
            Err(error) => {
                queue.failed = Some(error);
                stranded = std::mem::take(&mut queue.waiting);
            }
        }
        drop(queue);
        self.shared.bell.notify_all();
        for work in gathered {
            self.shared.answer(work, durable);
        }
        for work in stranded {
            self.shared.answer(work, false);
        }
    }
}

/// Puts a file with other contents in the place of a journal, and returns it, to be appended to.
fn replace(path: &Path, contents: &[u8], flush: &mut Flush) -> io::Result<File> {
    let new = path.with_extension(NEW_SUFFIX);
    let mut file = OpenOptions::new().read(true).write(true).create(true).truncate(true).open(&new)?;
    file.write_all(contents)?;
    flush(&file)?;
    fs::rename(&new, path)?;
    flush_folder_of(path)?;
    Ok(file)
}

fn put_entry(bytes: &mut Vec<u8>, entry: &[u8]) -> io::Result<()> {
    if entry.len() > MOST_ENTRY_BYTES {
        let reason =
            format!("an entry of {} bytes exceeds the maximum of {MOST_ENTRY_BYTES} bytes", entry.len());
        return Err(io::Error::new(io::ErrorKind::InvalidInput, reason));
    }
    let length = (entry.len() as u32).to_le_bytes();
    bytes.extend_from_slice(&length);
    bytes.extend_from_slice(&checksum(length, entry).to_le_bytes());
    bytes.extend_from_slice(entry);
    Ok(())
}

/// The length is covered, too: zeros, as a file system may leave them behind a crash, are no entry.
fn checksum(length: [u8; 4], entry: &[u8]) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c(&length), entry)
}

/// The first entry of `bytes` and what follows it; `None` for a torn one.
fn split_entry(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (length, rest) = bytes.split_first_chunk::<4>()?;
    let (crc, rest) = rest.split_first_chunk::<4>()?;
    let (entry, rest) = rest.split_at_checked(usize::try_from(u32::from_le_bytes(*length)).ok()?)?;
    (u32::from_le_bytes(*crc) == checksum(*length, entry)).then_some((entry, rest))
}

fn open_file(
    path: &Path,
    damage: Damage,
    notices: &Notices,
    mut replay: impl FnMut(&[u8]),
) -> io::Result<File> {
    durable::remove_if_there(&path.with_extension(NEW_SUFFIX))?;
    let mut file = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path)?;
    let bytes = fs::read(path)?;
    let Some(entries) = bytes.strip_prefix(MAGIC) else {
        return begin(file, path, &bytes);
    };
    let found = Found::of(entries);
    if found.is_damaged() {
        file = set_aside(path, damage, notices, &bytes, &found)?;
    } else if found.torn > 0 {
        let (torn, kept) = (found.torn, bytes.len() - found.torn);
        notices.say(&format!("cut {torn} bytes of a torn entry off {}; {kept} bytes remain", path.display()));
        file.set_len(kept as u64)?;
        durable::sync_file(&file)?;
    }
    found.entries.into_iter().for_each(&mut replay);
    file.seek(SeekFrom::End(0))?;
    Ok(file)
}

/// What is in a file.
struct Found<'a> {
    entries: Vec<&'a [u8]>,
    /// Bytes of damage with whole entries behind them, and where in the file it begins.
    damaged: usize,
    damaged_at: usize,
    /// Entries behind the first damage.
    behind: usize,
    /// Bytes at the end with nothing whole behind them.
    torn: usize,
}

impl<'a> Found<'a> {
    /// Finds the whole entries of a file without its first bytes.
    fn of(bytes: &'a [u8]) -> Self {
        let mut found = Self { entries: Vec::new(), damaged: 0, damaged_at: 0, behind: 0, torn: 0 };
        let mut rest = bytes;
        let mut budget = SEARCHED_BYTES;
        while !rest.is_empty() {
            if let Some((entry, next)) = split_entry(rest) {
                found.entries.push(entry);
                found.behind += usize::from(found.damaged > 0);
                rest = next;
                continue;
            }
            let Some(skipped) = distance_to_whole(rest, &mut budget) else {
                found.torn = rest.len();
                break;
            };
            if found.damaged == 0 {
                found.damaged_at = MAGIC.len() + bytes.len() - rest.len();
            }
            found.damaged += skipped;
            rest = rest.get(skipped..).unwrap_or_default();
        }
        found
    }

    fn is_damaged(&self) -> bool {
        self.damaged > 0
    }
}

/// How many bytes on the next whole entry begins; `None` when there is none.
fn distance_to_whole(bytes: &[u8], budget: &mut usize) -> Option<usize> {
    // Where only the content is damaged, its length says it. Looking further would find what looks like an entry inside
    // of a text that a client has sent.
    if let Some(length) = bytes.first_chunk::<4>() {
        let next = (u32::from_le_bytes(*length) as usize).saturating_add(HEAD_BYTES);
        if bytes.get(next..).and_then(split_entry).is_some() {
            return Some(next);
        }
    }
    for skipped in 1..bytes.len() {
        let rest = bytes.get(skipped..)?;
        let length = u32::from_le_bytes(*rest.first_chunk::<4>()?) as usize;
        if length.saturating_add(HEAD_BYTES) > rest.len() {
            continue;
        }
        *budget = budget.checked_sub(length)?;
        if split_entry(rest).is_some() {
            return Some(skipped);
        }
    }
    None
}

/// Keeps a copy of a file with damage in its middle, and goes on with one that has the whole entries of it; or says what
/// there is and refuses.
fn set_aside(
    path: &Path,
    damage: Damage,
    notices: &Notices,
    bytes: &[u8],
    found: &Found<'_>,
) -> io::Result<File> {
    let copy = path.with_extension(DAMAGED_SUFFIX);
    let what = format!(
        "{} is damaged: {} bytes from byte {} on are unreadable, and {} whole entries follow them",
        path.display(),
        found.damaged,
        found.damaged_at,
        found.behind
    );
    if damage == Damage::Refuse {
        let reason = format!(
            "{what}\n  next: replace it with a backup, or cut it off at byte {}, which loses the rest, or \
             move it away to begin a new one",
            found.damaged_at
        );
        return Err(io::Error::new(io::ErrorKind::InvalidData, reason));
    }
    let mut aside = File::create(&copy)?;
    aside.write_all(bytes)?;
    durable::sync_file(&aside)?;
    let mut kept = MAGIC.to_vec();
    found.entries.iter().try_for_each(|entry| put_entry(&mut kept, entry))?;
    let mut flush: Flush = Box::new(durable::sync_file);
    // Its fsync of the folder covers the copy's name, too.
    let file = replace(path, &kept, &mut flush)?;
    notices.say(&format!("{what}; the broker continues without them; a copy is in {}", copy.display()));
    Ok(file)
}

/// Begins an empty file, or one whose making was cut short.
fn begin(mut file: File, path: &Path, found: &[u8]) -> io::Result<File> {
    if !MAGIC.starts_with(found) {
        let reason =
            format!("{} is not a journal of this version\n  next: move the file away", path.display());
        return Err(io::Error::new(io::ErrorKind::InvalidData, reason));
    }
    file.set_len(0)?;
    file.write_all(MAGIC)?;
    durable::sync_file(&file)?;
    flush_folder_of(path)?;
    Ok(file)
}

/// A new name in a folder is durable only once the folder is.
fn flush_folder_of(path: &Path) -> io::Result<()> {
    match path.parent() {
        Some(folder) => durable::sync_folder(folder),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
    use std::sync::mpsc;

    use super::*;

    fn entries_of(path: &Path) -> Vec<Vec<u8>> {
        let mut found = Vec::new();
        let journal =
            Journal::open(path, Damage::Skip, &Notices::nowhere(), |entry| found.push(entry.to_vec()))
                .unwrap();
        journal.close();
        found
    }

    fn ticket(connection: usize) -> Ticket {
        Ticket { reactor: 0, connection }
    }

    /// Answers as they are posted.
    fn answers(journal: &Journal) -> mpsc::Receiver<(usize, Reply)> {
        let (sender, receiver) = mpsc::channel();
        journal.post_to(Arc::new(move |ticket, reply| sender.send((ticket.connection, reply)).unwrap()));
        receiver
    }

    #[test]
    fn entries_come_back_in_order_after_a_restart() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.journal");
        let journal =
            Journal::open(&path, Damage::Skip, &Notices::nowhere(), |_| panic!("there is nothing yet"))
                .unwrap();
        for entry in [b"a".to_vec(), vec![], vec![0; 70_000]] {
            journal.append_and_wait(entry).unwrap();
        }
        drop(journal);
        assert_eq!(entries_of(&path), [b"a".to_vec(), vec![], vec![0; 70_000]]);
    }

    #[test]
    fn a_tail_torn_at_any_byte_is_cut_and_appended_to() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.journal");
        let mut whole = MAGIC.to_vec();
        let mut ends = vec![whole.len()];
        for entry in [&b"first"[..], b"second one", b"3"] {
            put_entry(&mut whole, entry).unwrap();
            ends.push(whole.len());
        }
        for length in 0..=whole.len() {
            for zeros in [0, 1, 8, 20] {
                let mut torn = whole[..length].to_vec();
                torn.extend(std::iter::repeat_n(0, if length < MAGIC.len() { 0 } else { zeros }));
                fs::write(&path, &torn).unwrap();
                let kept = ends.iter().filter(|end| **end <= length).count().saturating_sub(1);
                let mut found = 0;
                let journal =
                    Journal::open(&path, Damage::Skip, &Notices::nowhere(), |_| found += 1).unwrap();
                assert_eq!(found, kept, "cut at {length}, {zeros} zeros behind");
                journal.append_and_wait(b"later".to_vec()).unwrap();
                drop(journal);
                assert_eq!(entries_of(&path).len(), kept + 1);
                assert_eq!(entries_of(&path).last().unwrap(), b"later");
            }
        }
    }

    #[test]
    fn a_flipped_bit_ends_the_journal_there() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.journal");
        let mut whole = MAGIC.to_vec();
        put_entry(&mut whole, b"good").unwrap();
        let good = whole.len();
        put_entry(&mut whole, b"damaged").unwrap();
        for at in good..whole.len() {
            let mut bytes = whole.clone();
            bytes[at] ^= 4;
            fs::write(&path, &bytes).unwrap();
            assert_eq!(entries_of(&path), [b"good".to_vec()], "byte {at}");
        }
    }

    #[test]
    fn a_rewrite_may_be_gathered_over_several_commits_and_a_second_one_begins_anew() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.journal");
        let journal = Journal::open(&path, Damage::Skip, &Notices::nowhere(), |_| ()).unwrap();
        for (round, sum) in [b"1", b"2"].iter().enumerate() {
            journal.append_and_wait(b"old".to_vec()).unwrap();
            journal.mark();
            for entry in ["a", "b"] {
                journal.append_and_wait(entry.as_bytes().to_vec()).unwrap();
            }
            journal.rewrite(vec![sum.to_vec()]);
            journal.append_and_wait(b"c".to_vec()).unwrap();
            let wanted = [&sum[..], b"a", b"b", b"c"];
            assert_eq!(Found::of(&fs::read(&path).unwrap()[8..]).entries, wanted, "round {round}");
        }
    }

    #[test]
    fn a_large_journal_is_rewritten_when_it_has_doubled() {
        let journal = Journal::in_memory();
        let mut appended = 0;
        let mut grow = |journal: &Journal| {
            let before = appended;
            while !journal.wants_rewrite() {
                journal.append(vec![0; 1 << 20], None);
                appended += 1;
            }
            appended - before
        };
        assert_eq!(grow(&journal), 8);
        journal.rewrite(vec![vec![0; 1 << 20]; 20]);
        assert_eq!(grow(&journal), 41);
        journal.rewrite(vec![vec![0; 100]]);
        assert_eq!(grow(&journal), 8);
    }

    #[test]
    fn an_answer_waits_for_all_that_is_not_durable_yet() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.journal");
        let (release, held) = mpsc::channel::<()>();
        let flush = move |_: &File| held.recv().map_err(io::Error::other);
        let journal =
            Journal::open_with(&path, Damage::Skip, &Notices::nowhere(), |_| (), Box::new(flush)).unwrap();
        let answers = answers(&journal);
        assert!(!journal.answer_when_durable(ticket(1), || panic!("nothing to wait for")));
        journal.append(b"x".to_vec(), None);
        assert!(journal.answer_when_durable(ticket(2), || Reply::Code(0)));
        assert!(answers.try_recv().is_err());
        release.send(()).unwrap();
        assert_eq!(answers.recv().unwrap(), (2, Reply::Code(0)));
        drop(release);
        journal.append(b"lost".to_vec(), None);
        assert!(journal.answer_when_durable(ticket(3), || Reply::Code(0)));
        assert_eq!(answers.recv().unwrap(), (3, Reply::Code(code::KAFKA_STORAGE_ERROR)));
    }

    /// Length, checksum or content: whatever is damaged, the entries behind it are there.
    #[test]
    fn damage_in_the_middle_costs_one_entry_or_the_start() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.journal");
        let mut whole = MAGIC.to_vec();
        let mut ends = Vec::new();
        for entry in ["first", "damaged", "third", "fourth"] {
            put_entry(&mut whole, entry.as_bytes()).unwrap();
            ends.push(whole.len());
        }
        for at in ends[0]..ends[1] {
            let mut bytes = whole.clone();
            bytes[at] ^= 4;
            fs::write(&path, &bytes).unwrap();
            let error = Journal::open(&path, Damage::Refuse, &Notices::nowhere(), |_| panic!("opened"));
            let error = error.err().unwrap().to_string();
            assert!(error.contains("byte 21 on") && error.contains("2 whole entries follow them"), "{error}");
            assert_eq!(fs::read(&path).unwrap(), bytes, "it is left as it was");
            for _ in 0..2 {
                let wanted = ["first", "third", "fourth"].map(|entry| entry.as_bytes().to_vec());
                assert_eq!(entries_of(&path), wanted, "byte {at}");
            }
            assert_eq!(fs::read(path.with_extension(DAMAGED_SUFFIX)).unwrap(), bytes);
        }
    }

    #[test]
    fn a_file_of_another_kind_is_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.journal");
        fs::write(&path, "something else").unwrap();
        let error = Journal::open(&path, Damage::Skip, &Notices::nowhere(), |_| ()).err().unwrap();
        assert!(error.to_string().contains("not a journal"), "{error}");
        assert_eq!(fs::read(&path).unwrap(), b"something else");
    }

    #[test]
    fn many_appends_share_few_flushes_and_are_answered_in_order() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.journal");
        let flushes = Arc::new(AtomicUsize::new(0));
        let (release, held) = mpsc::channel::<()>();
        let counted = Arc::clone(&flushes);
        // The first flush is held until all the others have been appended.
        let flush = move |file: &File| {
            if counted.fetch_add(1, SeqCst) == 0 {
                held.recv().unwrap();
            }
            file.sync_data()
        };
        let journal =
            Journal::open_with(&path, Damage::Skip, &Notices::nowhere(), |_| (), Box::new(flush)).unwrap();
        let answers = answers(&journal);
        for number in 0..500_u16 {
            let then = (ticket(usize::from(number)), Reply::Code(0));
            journal.append(number.to_be_bytes().to_vec(), Some(then));
        }
        assert!(answers.try_recv().is_err(), "nothing is acknowledged before a flush");
        release.send(()).unwrap();
        for number in 0..500 {
            assert_eq!(answers.recv().unwrap(), (number, Reply::Code(0)));
        }
        drop(journal);
        let flushes = flushes.load(SeqCst);
        // One that was held, and one for all who came meanwhile; none came if the committer was late.
        assert!((1..=2).contains(&flushes), "{flushes}");
        let wanted: Vec<_> = (0..500_u16).map(|number| number.to_be_bytes().to_vec()).collect();
        assert_eq!(entries_of(&path), wanted);
    }

    #[test]
    fn an_entry_that_is_too_large_fails_that_and_every_later_append() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.journal");
        let journal = Journal::open(&path, Damage::Skip, &Notices::nowhere(), |_| {}).unwrap();
        journal.append_and_wait(b"before".to_vec()).unwrap();
        let error = journal.append_and_wait(vec![0; MOST_ENTRY_BYTES + 1]).unwrap_err().to_string();
        assert!(error.contains("an entry of 1073741825 bytes"), "{error}");
        assert!(journal.append_and_wait(b"behind".to_vec()).is_err());
        drop(journal);
        assert_eq!(entries_of(&path), [b"before".to_vec()]);
    }

    #[test]
    fn a_failed_flush_fails_that_and_every_later_append() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.journal");
        let broken = Arc::new(AtomicBool::new(false));
        let breaks = Arc::clone(&broken);
        let flush = move |file: &File| {
            if breaks.load(SeqCst) { Err(io::Error::other("planted")) } else { file.sync_data() }
        };
        let journal =
            Journal::open_with(&path, Damage::Skip, &Notices::nowhere(), |_| (), Box::new(flush)).unwrap();
        let answers = answers(&journal);
        journal.append(b"fine".to_vec(), Some((ticket(1), Reply::Code(0))));
        assert_eq!(answers.recv().unwrap(), (1, Reply::Code(0)));
        broken.store(true, SeqCst);
        journal.append(b"lost".to_vec(), Some((ticket(2), Reply::Code(0))));
        assert_eq!(answers.recv().unwrap(), (2, Reply::Code(code::KAFKA_STORAGE_ERROR)));
        // The disk is said to be well again; what it has dropped nobody knows.
        broken.store(false, SeqCst);
        journal.append(b"late".to_vec(), Some((ticket(3), Reply::Code(0))));
        assert_eq!(answers.recv().unwrap(), (3, Reply::Code(code::KAFKA_STORAGE_ERROR)));
        let error = journal.append_and_wait(b"later".to_vec()).unwrap_err().to_string();
        assert!(error.contains("planted") && error.contains("x.journal"), "{error}");
    }

    #[test]
    fn a_rewrite_replaces_what_was_before_and_keeps_what_comes_after() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.journal");
        let journal = Journal::open(&path, Damage::Skip, &Notices::nowhere(), |_| ()).unwrap();
        let answers = answers(&journal);
        for number in 0..100 {
            journal.append(vec![number; 100], Some((ticket(usize::from(number)), Reply::Code(0))));
        }
        journal.mark();
        journal.append(b"meanwhile".to_vec(), None);
        journal.rewrite(vec![b"sum".to_vec()]);
        journal.append_and_wait(b"after".to_vec()).unwrap();
        for number in 0..100 {
            assert_eq!(answers.recv().unwrap().0, number, "entries that the rewrite covers are acknowledged");
        }
        journal.append_and_wait(b"and more".to_vec()).unwrap();
        drop(journal);
        let wanted = ["sum", "meanwhile", "after", "and more"].map(|entry| entry.as_bytes().to_vec());
        assert_eq!(entries_of(&path), wanted);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "no second file is left");
    }

    #[test]
    fn a_rewrite_that_never_finished_is_cleared_away() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.journal");
        Journal::open(&path, Damage::Skip, &Notices::nowhere(), |_| ())
            .unwrap()
            .append_and_wait(b"kept".to_vec())
            .unwrap();
        fs::write(path.with_extension(NEW_SUFFIX), "half").unwrap();
        assert_eq!(entries_of(&path), [b"kept".to_vec()]);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn in_memory_everything_is_acknowledged_at_once() {
        let journal = Journal::in_memory();
        let answers = answers(&journal);
        journal.append(b"x".to_vec(), Some((ticket(4), Reply::Code(0))));
        assert_eq!(answers.try_recv().unwrap(), (4, Reply::Code(0)));
        journal.append_and_wait(b"y".to_vec()).unwrap();
        journal.rewrite(vec![]);
    }

    #[test]
    fn a_closed_journal_has_written_what_it_took_and_refuses_more() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.journal");
        let journal = Journal::open(&path, Damage::Skip, &Notices::nowhere(), |_| ()).unwrap();
        journal.append(b"taken".to_vec(), None);
        journal.close();
        assert!(journal.append_and_wait(b"refused".to_vec()).is_err());
        assert_eq!(entries_of(&path), [b"taken".to_vec()]);
    }
}
