//! Opens a log at a start. It trusts the manifest (it compares sizes, and validates indexes at their first use). It
//! checks everything after the manifest batch by batch, and cuts the log at the first bad batch. It keeps a copy of the
//! cut bytes next to the log, unless they are the remains of an interrupted write.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::time::UNIX_EPOCH;

use crate::log_config::LogConfig;

use super::disk::{BESIDE_SUFFIX, Disk};
use super::manifest::{Entry, Manifest};
use super::marker;
use super::producers::Producers;
use super::segment::{self, LOG, Segment, Stage, file_name};
use super::walk::{self, Behind, Checked, Expected};
use super::{Log, snapshot};

/// Behind the name of a segment that can't be part of its log any more.
const ASIDE_SUFFIX: &str = ".aside";

/// Opens the log of a partition. Returns it with the manifest that is true of it.
pub(crate) fn recover(disk: &Disk, config: LogConfig) -> io::Result<(Log, Manifest)> {
    let mut log = Log::new(config);
    let mut bases = if disk.in_memory() { Vec::new() } else { files(disk)? };
    let known = Manifest::read(disk);
    if let Some(manifest) = &known {
        remove_stale(disk, manifest, &mut bases)?;
    }
    let Some(&first) = bases.first() else {
        let manifest = known.unwrap_or_default();
        tell_of_lost_all(disk, &manifest);
        (log.log_start, log.next, log.flushed) = (manifest.log_start, manifest.log_start, manifest.log_start);
        let left = Manifest { log_start: manifest.log_start, ..Manifest::default() };
        if left != manifest {
            // Segments of these names may come again, and nothing that is said of the lost ones will be true of them.
            left.write(disk)?;
        }
        return Ok((log, left));
    };
    let damaged = known.is_none() && disk.path(super::manifest::FILE).exists();
    if damaged {
        disk.say("the manifest is damaged; checking the whole log");
    }
    // What compaction has touched is named by a manifest. Only without it can holes be anything but damage.
    let holes = damaged && log.config.compact;
    let manifest = known.unwrap_or_default();
    let mut recovery =
        Recovery { disk, log, manifest, amended: false, holes, bases, before: Vec::new(), vouched: None };
    recovery.log.next = first;
    recovery.believe()?;
    recovery.producers()?;
    recovery.check_rest()?;
    recovery.finish()
}

/// What is known of the bytes of a segment before they are checked.
#[derive(Debug, Clone, Copy)]
struct Before {
    /// Number of bytes that were on the disk before.
    bytes: u64,
    /// There are segments behind it.
    segments: bool,
}

/// Why what is behind the good part of a segment is a loss; `None` when it is a write that was cut short.
fn lost(file: &File, checked: &Checked, known: Before) -> io::Result<Option<&'static str>> {
    if checked.good_bytes < known.bytes {
        return Ok(Some("it was on the disk before"));
    }
    if known.segments {
        return Ok(Some("other segments follow it"));
    }
    Ok(match walk::behind(file, checked.good_bytes, checked.next_offset)? {
        Behind::Nothing => None,
        Behind::Batches => Some("whole batches follow it"),
        Behind::Unknown => Some("whole batches may follow it"),
    })
}

/// A name that no file has: what was put aside before is not written over.
fn free_name(disk: &Disk, name: &str) -> String {
    let numbered = (2_u64..).map(|number| format!("{name}-{number}"));
    let mut names = std::iter::once(name.to_owned()).chain(numbered);
    names.find(|name| !disk.path(name).exists()).unwrap_or_else(|| name.to_owned())
}

/// Reports a log that has lost all its files, but not the manifest that names them.
fn tell_of_lost_all(disk: &Disk, manifest: &Manifest) {
    let mut named = manifest.sealed.iter().chain(&manifest.active).filter(|entry| entry.bytes > 0);
    let Some(first) = named.next() else { return };
    let end = named.next_back().unwrap_or(first).next_offset;
    disk.say(&format!(
        "all segments in {} are missing, and with them the offsets {}..{end}: the log is empty and \
         continues at {}; if you have a copy, stop the broker before clients write, and restore the \
         segments",
        disk.folder().display(),
        first.base_offset,
        manifest.log_start
    ));
}

struct Recovery<'a> {
    disk: &'a Disk,
    log: Log,
    manifest: Manifest,
    /// Whether the manifest on disk is not true any more.
    amended: bool,
    /// Whether what the manifest does not name may have been compacted.
    holes: bool,
    /// Of the log files that are still to be looked at.
    bases: Vec<i64>,
    /// The producers before the segment that is being checked.
    before: Vec<u8>,
    /// What a clean stop said of the last segment, when that is not so any more.
    vouched: Option<Entry>,
}

impl Recovery<'_> {
    /// Takes what the manifest names, and what lies between.
    fn believe(&mut self) -> io::Result<()> {
        let sealed = std::mem::take(&mut self.manifest.sealed);
        let active = self.manifest.active.take();
        for entry in &sealed {
            if !self.bases.contains(&entry.base_offset) {
                // Retention names what it removes before it does; the rest is a loss.
                self.tell_of_missing(entry, "readers continue after them");
                self.amended = true;
                continue;
            }
            self.take_unnamed(entry.base_offset)?;
            let segment = self.believe_sealed(entry)?;
            self.push(segment, entry.next_offset);
        }
        if let Some(entry) = &active
            && self.bases.contains(&entry.base_offset)
            && let Some(segment) = self.believe_active(entry)?
        {
            self.take_unnamed(entry.base_offset)?;
            self.push(segment, entry.next_offset);
            self.manifest.active = active;
        } else {
            // When the file grows again, the manifest's entry for it is no longer valid.
            self.amended |= active.is_some();
            self.vouched = active;
            if let Some(entry) = active.filter(|entry| !self.bases.contains(&entry.base_offset)) {
                self.tell_of_missing(&entry, "the log ends before them and assigns them again");
            }
        }
        let end = if self.log.segments.is_empty() { i64::MIN } else { self.log.next };
        self.put_aside(end, "it begins inside an earlier segment")
    }

    /// Takes segments in front of a named one that no manifest names. There should be none: segments are named in their
    /// order, and nothing unnamed is left in front of the log's first offset.
    fn take_unnamed(&mut self, before: i64) -> io::Result<()> {
        while let Some(base) = self.bases.first().copied().filter(|base| *base < before) {
            if base != self.log.next {
                return self.put_aside(before, &format!("it does not begin at {}", self.log.next));
            }
            self.amended = true;
            let mut segment = Segment::open(self.disk, base)?;
            segment.began_ms = modified_ms(&segment);
            self.check(&mut segment, Before { bytes: 0, segments: true }, false, |_, _| ())?;
            if segment.next_offset > before {
                return self.put_aside(
                    before,
                    &format!("it reaches beyond {before}, where the next segment begins"),
                );
            }
            self.seal(&mut segment)?;
            // A cut leaves a gap, and readers continue after it.
            let behind = self.bases.get(1).copied().unwrap_or(before).min(before);
            if segment.next_offset < behind {
                self.disk.say(&format!("no record remains of the offsets {}..{behind}", segment.next_offset));
            }
            segment.next_offset = segment.next_offset.max(behind);
            let next = segment.next_offset;
            self.disk.say(&format!("added {}, which no manifest names", file_name(base, LOG)));
            self.push(segment, next);
        }
        Ok(())
    }

    /// Reports a segment that has lost its file.
    fn tell_of_missing(&self, entry: &Entry, so: &str) {
        let path = self.disk.path(&file_name(entry.base_offset, LOG));
        self.disk.say(&format!(
            "{} is missing, and with it the offsets {}..{}: {so}; if you have a copy, stop the broker \
             before clients write, and restore it",
            path.display(),
            entry.base_offset,
            entry.next_offset
        ));
    }

    /// Reports a segment that is too short although every batch in it is valid.
    fn tell_of_short(&self, segment: &Segment, entry: &Entry) {
        if segment.next_offset >= entry.next_offset {
            return;
        }
        self.disk.say(&format!(
            "{} has {} bytes of the {} that were on the disk: the offsets {}..{} are lost",
            self.disk.path(&file_name(entry.base_offset, LOG)).display(),
            segment.bytes,
            entry.bytes,
            segment.next_offset,
            entry.next_offset
        ));
    }

    fn push(&mut self, segment: Segment, next_offset: i64) {
        self.bases.retain(|base| *base != segment.base_offset);
        if segment.stage == Stage::Sealed {
            self.manifest.sealed.push(segment.entry());
        }
        self.log.segments.push(segment);
        self.log.next = next_offset;
    }

    fn believe_sealed(&mut self, entry: &Entry) -> io::Result<Segment> {
        let believed = Segment::believed(self.disk, entry, Stage::Sealed)?;
        if believed.file.metadata()?.len() == entry.bytes {
            return Ok(believed);
        }
        // Compaction may have put a smaller file in its place just before the end; anything else is damage.
        self.amended = true;
        let mut segment = Segment::open(self.disk, entry.base_offset)?;
        let compacted = self.log.config.compact || entry.cleaned_ms.is_some();
        let torn =
            self.check(&mut segment, Before { bytes: entry.bytes, segments: true }, compacted, |_, _| ())?;
        if !torn && !compacted {
            self.tell_of_short(&segment, entry);
        }
        self.seal(&mut segment)?;
        segment.began_ms = entry.began_ms;
        segment.cleaned_ms = entry.cleaned_ms.or_else(|| modified_ms(&segment).filter(|_| compacted));
        segment.next_offset = entry.next_offset;
        Ok(segment)
    }

    /// Makes a segment that was checked durable with its indexes, as the manifest will say of it.
    fn seal(&self, segment: &mut Segment) -> io::Result<()> {
        if let Some(index) = &segment.index {
            segment.index_crc = segment::write_index(self.disk, segment.base_offset, index)?;
        }
        self.disk.sync(&segment.file)?;
        segment.flushed_bytes = segment.bytes;
        segment.stage = Stage::Sealed;
        Ok(())
    }

    /// The good part of the segment that was written to when the log was closed.
    fn believe_active(&mut self, entry: &Entry) -> io::Result<Option<Segment>> {
        if !self.bases.contains(&entry.base_offset) {
            return Ok(None);
        }
        let mut segment = Segment::believed(self.disk, entry, Stage::Active)?;
        if segment.file.metadata()?.len() < entry.bytes {
            return Ok(None);
        }
        let unindexed = segment.unindexed();
        let index = unindexed.stored(self.disk).map_or_else(|| unindexed.rebuilt(), Ok)?;
        segment.index = Some(Arc::new(index));
        Ok(Some(segment))
    }

    /// The state of the producers after the trusted part.
    fn producers(&mut self) -> io::Result<()> {
        let at = self.log.next;
        if self.manifest.producers_at == at
            && let Some(producers) = snapshot::read(self.disk, at)
        {
            self.log.producers = producers;
            return Ok(());
        }
        if self.log.segments.is_empty() {
            self.manifest.producers_at = at;
            return Ok(());
        }
        self.disk.say("the state of the producers is missing; reading it from the log");
        self.log.producers = replayed(&self.log.segments, self.manifest.cleaned_to)?;
        snapshot::write(self.disk, at, &self.log.producers.encode())?;
        self.manifest.producers_at = at;
        self.amended = true;
        Ok(())
    }

    /// Checks what the manifest does not name. The first bad batch ends the log: its segment is cut there, and
    /// segments behind it, which would leave a hole, are put aside under another name.
    fn check_rest(&mut self) -> io::Result<()> {
        if let Some(mut segment) = self.log.segments.pop_if(|last| last.stage == Stage::Active) {
            let torn = self.check_unsealed(&mut segment, false)?;
            self.keep(segment);
            if torn {
                return self.put_rest_aside("an earlier segment is damaged");
            }
        }
        while !self.bases.is_empty() {
            let base = self.bases.remove(0);
            let follows = base == self.log.next || (self.holes && base > self.log.next);
            if !follows {
                self.bases.insert(0, base);
                let wanted = self.log.next;
                return self.put_rest_aside(&format!("it does not begin at {wanted}, where the log ends"));
            }
            if let Some(last) = self.log.segments.last_mut() {
                last.next_offset = base;
            }
            let mut segment = Segment::open(self.disk, base)?;
            segment.began_ms = modified_ms(&segment);
            // In the last one, too: it may have become that when a start before put others aside.
            let torn = self.check_unsealed(&mut segment, self.holes)?;
            self.keep(segment);
            if torn {
                return self.put_rest_aside("an earlier segment is damaged");
            }
        }
        Ok(())
    }

    fn keep(&mut self, segment: Segment) {
        self.log.next = segment.next_offset;
        if let Some(last) = self.log.segments.last_mut()
            && last.stage == Stage::Active
        {
            // The manifest covers only its beginning, so it is sealed again.
            last.stage = Stage::Closed { producers: std::mem::take(&mut self.before) };
        }
        self.log.segments.push(segment);
    }

    /// Returns whether the segment was cut.
    fn check_unsealed(&mut self, segment: &mut Segment, holes: bool) -> io::Result<bool> {
        self.before = self.log.producers.encode();
        let mut producers = std::mem::take(&mut self.log.producers);
        let vouched = self.vouched.filter(|entry| entry.base_offset == segment.base_offset);
        let known = Before {
            bytes: vouched.map_or(0, |entry| entry.bytes),
            // Those that begin inside of this one are no sign of anything.
            segments: self.bases.iter().any(|base| *base > segment.base_offset),
        };
        let torn = self.check(segment, known, holes, |header, bytes| {
            producers.note(header, marker::parse(header, bytes));
        });
        self.log.producers = producers;
        if let Some(entry) = vouched.filter(|_| matches!(torn, Ok(false))) {
            self.tell_of_short(segment, &entry);
        }
        torn
    }

    /// Checks a segment from where its good part ends. Returns whether it was cut.
    fn check(
        &self,
        segment: &mut Segment,
        known: Before,
        holes: bool,
        mut seen: impl FnMut(&hone_kafka::BatchHeader, &[u8]),
    ) -> io::Result<bool> {
        let file = Arc::clone(&segment.file);
        let expected = Expected { offset: segment.next_offset, holes };
        let checked = walk::check(&file, segment.bytes, expected, |header, bytes, _| {
            seen(header, bytes);
            segment.note(header);
        })?;
        let Some((bad_bytes, reason)) = &checked.tail else { return Ok(false) };
        let name = file_name(segment.base_offset, LOG);
        let path = self.disk.path(&name);
        let (path, at, next) = (path.display(), checked.good_bytes, checked.next_offset);
        let notice = match lost(&file, &checked, known)? {
            None => format!("cut the torn tail of {path} at byte {at}, {bad_bytes} bytes dropped: {reason}"),
            Some(why) => {
                let kept = self.disk.keep_end(&name, &file, at).map_err(|error| {
                    io::Error::new(
                        error.kind(),
                        format!(
                            "{path} is damaged at byte {at}, and the broker can't copy the rest: {error}; \
                             free disk space or repair the disk, then restart"
                        ),
                    )
                })?;
                format!(
                    "cut {path} at byte {at}, before offset {next}: {reason}. This is not a torn tail: \
                     {why}. The broker keeps the {bad_bytes} bytes from there on in {}; remove that file \
                     when you no longer need its records",
                    kept.display()
                )
            }
        };
        file.set_len(checked.good_bytes)?;
        self.disk.say(&notice);
        Ok(true)
    }

    fn put_rest_aside(&mut self, reason: &str) -> io::Result<()> {
        self.put_aside(i64::MAX, reason)
    }

    /// Gives those that begin before an offset another name.
    fn put_aside(&mut self, before: i64, reason: &str) -> io::Result<()> {
        for base in self.bases.extract_if(.., |base| *base < before) {
            let name = file_name(base, LOG);
            let aside = free_name(self.disk, &format!("{name}{ASIDE_SUFFIX}"));
            fs::rename(self.disk.path(&name), self.disk.path(&aside))?;
            segment::remove_index(self.disk, base)?;
            self.disk.say(&format!("put {} aside: {reason}", self.disk.path(&aside).display()));
        }
        Ok(())
    }

    /// Makes what was found durable: it may have been in the page cache only when the process died.
    fn finish(mut self) -> io::Result<(Log, Manifest)> {
        let dirty = self.log.take_dirty();
        for dirty in &dirty.files {
            self.disk.sync(&dirty.file)?;
        }
        self.log.flushed(&dirty);
        self.log.flushed = self.log.next;
        let first = self.log.segments.first().map_or(self.log.next, |first| first.base_offset);
        self.log.log_start = self.manifest.log_start.clamp(first, self.log.next);
        if self.log.log_start < self.manifest.log_start {
            // The log has lost its end; what is written there again must not be hidden by the next start.
            self.manifest.log_start = self.log.log_start;
            self.amended = true;
        }
        self.log.producers.forget_aborted(self.log.log_start);
        if !dirty.files.is_empty() {
            self.disk.sync_folder(true)?;
        }
        if self.amended {
            self.manifest.write(self.disk)?;
        }
        Ok((self.log, self.manifest))
    }
}

/// Removes segments that retention had taken out of the manifest when the process died: those that were sealed once,
/// are not named any more and end before the log begins. Nothing else goes, whatever it is.
fn remove_stale(disk: &Disk, manifest: &Manifest, bases: &mut Vec<i64>) -> io::Result<()> {
    let named =
        |base: i64| manifest.sealed.iter().chain(&manifest.active).any(|entry| entry.base_offset == base);
    // Segments are sealed in their order, so a sealed one ends before the producers' state that went with the last.
    let ends_before = |number: usize, base: i64| {
        let end =
            bases.get(number + 1).map_or(manifest.producers_at, |next| manifest.producers_at.min(*next));
        base < end && end <= manifest.log_start
    };
    let numbered = bases.iter().copied().enumerate();
    let stale: Vec<i64> = numbered
        .filter(|(number, base)| ends_before(*number, *base) && !named(*base))
        .map(|(_, base)| base)
        .collect();
    if stale.is_empty() {
        return Ok(());
    }
    for base in &stale {
        segment::remove_index(disk, *base)?;
        disk.remove(&file_name(*base, LOG))?;
    }
    bases.retain(|base| !stale.contains(base));
    disk.sync_folder(false)
}

/// Learns the producers from the segments alone. Compaction takes decided transactions only, and leaves nothing of the
/// aborted ones; but it drops old commit markers, without which what they have committed would seem to be open.
fn replayed(segments: &[Segment], cleaned_to: i64) -> io::Result<Producers> {
    let mut producers = Producers::default();
    for segment in segments {
        let mut failed = None;
        walk::headers(&segment.file, 0, segment.bytes, |header, position| {
            let mut bytes = Vec::new();
            if header.is_control() {
                // A marker has less than a hundred bytes.
                bytes.resize(header.total_bytes().min(1 << 10), 0);
                failed = segment.file.read_exact_at(&mut bytes, position).err();
            }
            let committed = !header.is_control() && header.base_offset < cleaned_to;
            let header = if committed { header.outside_transaction() } else { *header };
            producers.note(&header, marker::parse(&header, &bytes));
            failed.is_some()
        })?;
        if let Some(error) = failed {
            return Err(error);
        }
    }
    Ok(producers)
}

/// Base offsets of the log files; files that were only being written are removed.
fn files(disk: &Disk) -> io::Result<Vec<i64>> {
    let entries = match fs::read_dir(disk.folder()) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let mut bases = Vec::new();
    for entry in entries {
        let name = entry?.file_name();
        let Some(name) = name.to_str() else { continue };
        if name.ends_with(BESIDE_SUFFIX) {
            disk.remove(name)?;
        }
        let base: Option<i64> = name.strip_suffix(".log").and_then(|base| base.parse().ok());
        bases.extend(base.filter(|base| *base >= 0));
    }
    bases.sort_unstable();
    Ok(bases)
}

fn modified_ms(segment: &Segment) -> Option<i64> {
    let modified = segment.file.metadata().ok()?.modified().ok()?;
    i64::try_from(modified.duration_since(UNIX_EPOCH).ok()?.as_millis()).ok()
}
