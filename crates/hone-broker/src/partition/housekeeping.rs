//! What keeps a log in order, away from those who write and read: rolls by age, seals, retention, the clean stop.

use std::io;
use std::sync::{Arc, MutexGuard, PoisonError};

use crate::log::{Disk, Entry, LOG, Log, Manifest, Stage, file_name, remove_index, snapshot, write_index};

use super::Partition;

impl Partition {
    /// One round: rolls a segment that is old enough, flushes and seals full ones, drops what retention drops, compacts. To
    /// be called every second or so, by one thread that may wait for the disk: what is not sealed has to be
    /// checked by a start after a crash.
    pub(crate) fn housekeep(&self, now_ms: i64) -> io::Result<()> {
        let _one = self.housekeeping.lock().unwrap_or_else(PoisonError::into_inner);
        if self.rests() {
            return Ok(());
        }
        let done = self.keep_in_order(now_ms);
        // The topic may have been deleted in the middle of it.
        if self.is_removed() { Ok(()) } else { done }
    }

    fn rests(&self) -> bool {
        let log = self.log();
        log.removed || log.failed.is_some() || log.segments.is_empty()
    }

    fn keep_in_order(&self, now_ms: i64) -> io::Result<()> {
        let sealed = self.roll_and_seal(now_ms);
        // Whatever has come of that: on a full disk, what retention drops is what helps.
        self.retain(now_ms)?;
        sealed?;
        self.mend_indexes()?;
        self.compact(now_ms)?;
        self.drop_idle_indexes();
        Ok(())
    }

    fn roll_and_seal(&self, now_ms: i64) -> io::Result<()> {
        self.roll_aged(now_ms)?;
        if self.has_closed() {
            self.flush()?;
            self.seal()?;
        }
        Ok(())
    }

    fn roll_aged(&self, now_ms: i64) -> io::Result<()> {
        let mut log = self.log();
        if !log.removed && (log.is_aged(now_ms) || is_expired_whole(&log, now_ms)) {
            log.roll(&self.disk)?;
        }
        Ok(())
    }

    fn has_closed(&self) -> bool {
        self.log().segments.iter().any(|segment| matches!(segment.stage, Stage::Closed { .. }))
    }

    pub(super) fn manifest(&self) -> MutexGuard<'_, Manifest> {
        self.manifest.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes indexes and snapshot of full, durable segments, then names them in the manifest.
    pub(super) fn seal(&self) -> io::Result<()> {
        let mut manifest = self.manifest();
        let mut coming = manifest.clone();
        while let Some((mut entry, index, producers)) = self.closed_behind(coming.sealed.last()) {
            self.still_there()?;
            entry.index_crc = write_index(&self.disk, entry.base_offset, &index)?;
            snapshot::write(&self.disk, entry.next_offset, &producers)?;
            coming.sealed.push(entry);
            coming.producers_at = entry.next_offset;
            coming.active = None;
        }
        if coming == *manifest {
            return Ok(());
        }
        let amended = self.amend(&mut manifest, coming);
        // Only what the manifest names is sealed: a round that failed begins again where the last good one ended.
        let mut log = self.log();
        for entry in &manifest.sealed {
            if let Some(segment) = log.segment_at(entry.base_offset)
                && segment.stage != Stage::Sealed
            {
                segment.stage = Stage::Sealed;
                segment.index_crc = entry.index_crc;
            }
        }
        amended
    }

    /// The first full and durable segment behind one that is sealed, or about to be.
    fn closed_behind(&self, sealed: Option<&Entry>) -> Option<(Entry, Arc<crate::log::Index>, Vec<u8>)> {
        let log = self.log();
        let behind = |segment: &&crate::log::Segment| {
            segment.stage != Stage::Sealed && sealed.is_none_or(|last| segment.base_offset > last.base_offset)
        };
        let segment = log.segments.iter().find(behind)?;
        let Stage::Closed { producers } = &segment.stage else { return None };
        let index = segment.index.clone().filter(|_| segment.flushed_bytes == segment.bytes)?;
        Some((segment.entry(), index, producers.clone()))
    }

    /// Puts another manifest in the place of the one on disk. What has happened to sealed segments meanwhile goes along.
    pub(super) fn amend(&self, manifest: &mut Manifest, coming: Manifest) -> io::Result<()> {
        self.amend_by(manifest, coming, Manifest::write)
    }

    fn amend_by(
        &self,
        manifest: &mut Manifest,
        mut coming: Manifest,
        write: fn(&Manifest, &Disk) -> io::Result<()>,
    ) -> io::Result<()> {
        self.still_there()?;
        for entry in &mut coming.sealed {
            let mut log = self.log();
            if let Some(sealed) = log.segment_at(entry.base_offset).filter(|one| one.stage == Stage::Sealed) {
                *entry = sealed.entry();
            }
        }
        // Whatever it names must be there before it is.
        self.disk.sync_folder(false)?;
        write(&coming, &self.disk)?;
        let producers_before = std::mem::replace(manifest, coming).producers_at;
        if producers_before != manifest.producers_at {
            snapshot::remove_others(&self.disk, manifest.producers_at)?;
        }
        Ok(())
    }

    /// Drops whole sealed segments from the front: those before the first offset, and those that are too old or too
    /// many for the topic.
    fn retain(&self, now_ms: i64) -> io::Result<()> {
        let mut manifest = self.manifest();
        let (doomed, log_start) = {
            let log = self.log();
            let count = doomed(&log, now_ms);
            let doomed: Vec<i64> =
                log.segments.iter().take(count).map(|segment| segment.base_offset).collect();
            let first = log.segments.get(count).map_or(log.next, |segment| segment.base_offset);
            (doomed, log.log_start.max(first))
        };
        if doomed.is_empty() {
            return Ok(());
        }
        let mut coming = Manifest { log_start, ..manifest.clone() };
        coming.sealed.retain(|entry| !doomed.contains(&entry.base_offset));
        self.amend_by(&mut manifest, coming, Manifest::write_to_free)?;
        {
            let mut log = self.log();
            log.segments.retain(|segment| !doomed.contains(&segment.base_offset));
            log.log_start = log.log_start.max(log_start);
            log.producers.forget_aborted(log_start);
            self.publish(&mut log);
        }
        for base_offset in doomed {
            remove_index(&self.disk, base_offset)?;
            self.disk.remove(&file_name(base_offset, LOG))?;
        }
        self.disk.sync_folder(false)
    }

    /// Writes indexes that readers have found damaged.
    fn mend_indexes(&self) -> io::Result<()> {
        let mut manifest = self.manifest();
        let damaged: Vec<_> = {
            let log = self.log();
            let damaged = log.segments.iter().filter(|one| one.index_damaged && one.stage == Stage::Sealed);
            damaged.filter_map(|one| Some((one.base_offset, one.index.clone()?))).collect()
        };
        if damaged.is_empty() {
            return Ok(());
        }
        for (base_offset, index) in damaged {
            self.still_there()?;
            let index_crc = write_index(&self.disk, base_offset, &index)?;
            if let Some(segment) = self.log().segment_at(base_offset) {
                segment.index_crc = index_crc;
                segment.index_damaged = false;
            }
        }
        let coming = manifest.clone();
        self.amend(&mut manifest, coming)
    }

    /// Drops indexes of sealed segments that no reader used since the last round.
    fn drop_idle_indexes(&self) {
        if self.disk.in_memory() {
            return;
        }
        for segment in &mut self.log().segments {
            if segment.stage == Stage::Sealed && !std::mem::take(&mut segment.index_used) {
                segment.index = None;
            }
        }
    }

    /// Makes everything durable, and writes the files that let the next start trust all of it.
    pub(crate) fn close(&self) -> io::Result<()> {
        let _one = self.housekeeping.lock().unwrap_or_else(PoisonError::into_inner);
        self.flush()?;
        if self.disk.in_memory() || self.rests() {
            return Ok(());
        }
        let done = self.seal().and_then(|()| self.vouch());
        if self.is_removed() { Ok(()) } else { done }
    }

    /// Says in the manifest how much of the active segment is good.
    fn vouch(&self) -> io::Result<()> {
        let mut manifest = self.manifest();
        let Some((mut entry, index, producers)) = self.active_state() else { return Ok(()) };
        if manifest
            .active
            .is_some_and(|known| (known.base_offset, known.bytes) == (entry.base_offset, entry.bytes))
        {
            return Ok(());
        }
        entry.index_crc = write_index(&self.disk, entry.base_offset, &index)?;
        snapshot::write(&self.disk, entry.next_offset, &producers)?;
        let coming = Manifest { active: Some(entry), producers_at: entry.next_offset, ..manifest.clone() };
        self.amend(&mut manifest, coming)
    }

    fn active_state(&self) -> Option<(Entry, Arc<crate::log::Index>, Vec<u8>)> {
        let log = self.log();
        let active = log.segments.last().filter(|last| last.stage == Stage::Active)?;
        Some((active.entry(), active.index.clone()?, log.producers.encode()))
    }
}

/// Whether retention by time would drop the active segment, were it full.
fn is_expired_whole(log: &Log, now_ms: i64) -> bool {
    log.config.delete
        && log.segments.last().is_some_and(|last| {
            last.stage == Stage::Active && last.bytes > 0 && is_expired(last.max_timestamp, log, now_ms)
        })
}

fn is_expired(max_timestamp: Option<i64>, log: &Log, now_ms: i64) -> bool {
    let Some(retention_ms) = log.config.retention_ms else { return false };
    // Records without a time never get old.
    let Some(timestamp) = max_timestamp.filter(|timestamp| *timestamp >= 0) else { return false };
    u64::try_from(now_ms.saturating_sub(timestamp)).is_ok_and(|age_ms| age_ms > retention_ms)
}

/// How many segments from the front go.
fn doomed(log: &Log, now_ms: i64) -> usize {
    let mut total: u64 = log.segments.iter().map(|segment| segment.bytes).sum();
    let visible = log.visible();
    let goes = |segment: &&crate::log::Segment| {
        let by_size = log.config.retention_bytes.is_some_and(|most| total - segment.bytes >= most);
        let expired = is_expired(segment.max_timestamp, log, now_ms);
        let by_topic = log.config.delete && (by_size || expired) && segment.next_offset <= visible;
        total -= segment.bytes;
        segment.stage == Stage::Sealed && (by_topic || segment.next_offset <= log.log_start)
    };
    log.segments.iter().take_while(goes).count()
}
