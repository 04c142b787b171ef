//! The guarantees of a partition, one by one.

use std::collections::HashSet;
use std::fs;
use std::path::Path;
use std::sync::Arc;

use hone_kafka::{BatchBuilder, Codec, batches, codec, records};

use super::tests::config;
use super::*;
use crate::faults::Faults;
use crate::log::{LOG, file_name};
use crate::notices::Notices;

#[derive(Clone, Default)]
struct Said(Arc<Mutex<Vec<String>>>);

impl Said {
    fn all(&self) -> Vec<String> {
        self.0.lock().unwrap().clone()
    }
}

struct Place {
    folder: tempfile::TempDir,
    config: LogConfig,
    faults: Faults,
    said: Said,
    memory: bool,
}

impl Place {
    fn new(config: LogConfig) -> Self {
        let folder = tempfile::tempdir().unwrap();
        Self { folder, config, faults: Faults::none(), said: Said::default(), memory: false }
    }

    fn open(&self) -> Partition {
        self.try_open().unwrap()
    }

    fn try_open(&self) -> io::Result<Partition> {
        let said = self.said.clone();
        let notices = Notices::to(move |notice| said.0.lock().unwrap().push(notice.to_owned()));
        let opening =
            Opening { topic: "t".to_owned(), index: 0, folder: self.log(), config: self.config.clone() };
        let storage = Storage { notices, faults: self.faults.clone(), memory: self.memory, reserve: None };
        Partition::open(opening, &storage)
    }

    /// Files that hold what was cut off, and what they hold.
    fn kept(&self) -> Vec<(String, Vec<u8>)> {
        let mut kept: Vec<_> = fs::read_dir(self.log())
            .unwrap()
            .map(|entry| entry.unwrap())
            .map(|entry| (entry.file_name().into_string().unwrap(), fs::read(entry.path()).unwrap()))
            .filter(|(name, _)| name.contains(".cut-"))
            .collect();
        kept.sort();
        kept
    }

    fn log(&self) -> std::path::PathBuf {
        self.folder.path().join("t-0")
    }

    fn files(&self, kind: &str) -> Vec<std::path::PathBuf> {
        let all = fs::read_dir(self.log()).unwrap().map(|entry| entry.unwrap().path());
        let mut files: Vec<_> = all.filter(|path| path.extension().is_some_and(|one| one == kind)).collect();
        files.sort();
        files
    }
}

fn batch(pairs: &[(&str, Option<&str>)], timestamp: i64) -> Vec<u8> {
    let mut builder = BatchBuilder::new(Codec::Lz4);
    for (key, value) in pairs {
        builder.push(Some(key.as_bytes()), value.map(str::as_bytes), timestamp);
    }
    builder.build().unwrap()
}

fn of_producer(mut bytes: Vec<u8>, id: i64, epoch: i16, sequence: i32, transactional: bool) -> Vec<u8> {
    if transactional {
        batch::set_transactional(&mut bytes, false).unwrap();
    }
    batch::set_producer(&mut bytes, id, epoch, sequence).unwrap();
    bytes
}

fn append(partition: &Partition, bytes: &[u8], ack: Ack, now_ms: i64) -> Result<Appended, AppendError> {
    partition.append(&mut bytes.to_vec(), ack, now_ms, &mut Vec::new())
}

/// Keys of the records that readers get, with their offsets.
fn read(partition: &Partition, read_committed: bool) -> Vec<(i64, String)> {
    let (mut all, mut at) = (Vec::new(), partition.bounds().log_start);
    loop {
        let mut out = Vec::new();
        partition.read(at, 1 << 20, true, read_committed, &mut out).unwrap();
        for batch in batches(&out).map(Result::unwrap) {
            at = batch.header.last_offset() + 1;
            let plain = codec::decompress(batch.header.codec(), batch.payload(), 1 << 20).unwrap();
            for record in records(&plain, batch.header.record_count).map(Result::unwrap) {
                let offset = batch.header.base_offset + i64::from(record.offset_delta);
                let key = record.key.unwrap_or_default();
                if !batch.header.is_control() && offset >= partition.bounds().log_start {
                    all.push((offset, String::from_utf8(key.to_vec()).unwrap()));
                }
            }
        }
        if out.is_empty() {
            return all;
        }
    }
}

/// Waits for this number of further bytes.
fn wait(partition: &Partition, ticket: Ticket, bytes: u64) -> Standing {
    let lack = Lack { committed: false, seen: partition.bounds().high_watermark, bytes };
    let mut wake = Vec::new();
    let standing = partition.wait(&Waiter::new(ticket), lack, &mut wake);
    assert!(wake.is_empty());
    standing.unwrap()
}

fn offsets(partition: &Partition) -> Vec<i64> {
    read(partition, false).into_iter().map(|(offset, _)| offset).collect()
}

#[test]
fn strict_batches_are_seen_when_they_are_flushed_and_relaxed_ones_at_once() {
    let place = Place::new(config());
    let partition = place.open();
    let ticket = Ticket { reactor: 1, connection: 2 };
    let mut wake = Vec::new();
    wait(&partition, ticket, 1);
    let one = batch(&[("a", Some("1"))], 5);
    let appended = partition.append(&mut one.clone(), Ack::Strict, 77, &mut wake).unwrap();
    assert_eq!((appended.base_offset, appended.end_offset, appended.append_time_ms), (0, 1, -1));
    assert!(wake.is_empty());
    let bounds = partition.bounds();
    assert_eq!((bounds.high_watermark, bounds.flushed, bounds.next), (0, 0, 1));
    assert_eq!(partition.unflushed_bytes(), one.len() as u64);
    assert_eq!(offsets(&partition), [0_i64; 0]);
    assert_eq!(partition.offset_for_timestamp(0).unwrap(), None);
    // A reader may know the offset that is not visible yet, but none behind it.
    let mut out = Vec::new();
    assert!(partition.read(1, 9, true, false, &mut out).is_ok());
    assert!(matches!(partition.read(2, 9, true, false, &mut out), Err(ReadError::OutOfRange)));
    assert_eq!(partition.flush().unwrap(), 1);
    partition.take_waiting(&mut wake);
    assert_eq!(wake, [ticket]);
    assert_eq!(partition.unflushed_bytes(), 0);
    assert_eq!(offsets(&partition), [0]);
    wait(&partition, ticket, 1);
    wake.clear();
    partition.append(&mut one.clone(), Ack::Relaxed, 78, &mut wake).unwrap();
    assert_eq!(wake, [ticket]);
    let bounds = partition.bounds();
    assert_eq!((bounds.high_watermark, bounds.flushed), (2, 1));
    let fsyncs = partition.counters.fsyncs.load(Ordering::Relaxed);
    partition.flush().unwrap();
    partition.flush().unwrap();
    assert_eq!(partition.counters.fsyncs.load(Ordering::Relaxed), fsyncs + 1);
    assert_eq!(partition.counters.flushed_bytes.load(Ordering::Relaxed), 2 * one.len() as u64);
}

#[test]
fn what_is_behind_a_strict_batch_is_seen_with_it() {
    let place = Place::new(config());
    let partition = Arc::new(place.open());
    let (one, ticket) = (batch(&[("a", None)], 5), Ticket { reactor: 0, connection: 1 });
    let visible = || partition.bounds().high_watermark;
    append(&partition, &one, Ack::Relaxed, 0).unwrap();
    append(&partition, &one, Ack::Strict, 0).unwrap();
    // The relaxed batch alone would do, were it visible.
    wait(&partition, ticket, 1);
    let mut wake = Vec::new();
    partition.append(&mut one.clone(), Ack::Relaxed, 0, &mut wake).unwrap();
    assert_eq!((visible(), wake.len()), (1, 0));
    assert_eq!(offsets(&partition), [0]);
    // What comes while a flush is under way is not covered by it.
    let dirty = partition.log().take_dirty();
    append(&partition, &one, Ack::Relaxed, 0).unwrap();
    // Until it has ended, its bytes are on the disk as little as those behind it.
    assert_eq!(
        (partition.unflushed_bytes(), partition.volatile_bytes()),
        (one.len() as u64, 4 * one.len() as u64)
    );
    append(&partition, &one, Ack::Strict, 0).unwrap();
    append(&partition, &one, Ack::Relaxed, 0).unwrap();
    assert_eq!(visible(), 1);
    partition.log().flushed(&dirty);
    let bounds = partition.log().bounds();
    assert_eq!((bounds.high_watermark, bounds.flushed), (4, 3));
    partition.flush().unwrap();
    assert_eq!(partition.volatile_bytes(), 0);
    assert_eq!(visible(), 6);
    partition.take_waiting(&mut wake);
    assert_eq!(wake, [ticket]);
}

#[test]
fn who_waits_is_woken_once_and_not_when_it_has_left() {
    let partition = Place::new(config()).open();
    let tickets: Vec<_> = (0..3).map(|connection| Ticket { reactor: 0, connection }).collect();
    let standings: Vec<_> = tickets.iter().map(|ticket| wait(&partition, *ticket, 1)).collect();
    partition.forget(&standings[1]);
    let mut wake = Vec::new();
    partition.append(&mut batch(&[("a", None)], 5), Ack::Relaxed, 0, &mut wake).unwrap();
    assert_eq!(wake, [tickets[0], tickets[2]]);
    partition.take_waiting(&mut wake);
    assert_eq!(wake.len(), 2);
}

#[test]
fn nobody_is_woken_before_what_it_lacks_is_visible() {
    let partition = Place::new(config()).open();
    let one = batch(&[("a", None)], 5);
    let tickets: Vec<_> = (0..6_000).map(|connection| Ticket { reactor: 0, connection }).collect();
    // One lacks two batches, one a byte more, the others much more.
    let bytes = one.len() as u64;
    for (number, ticket) in tickets.iter().enumerate() {
        wait(&partition, *ticket, [2 * bytes, 2 * bytes + 1].get(number).copied().unwrap_or(1 << 20));
    }
    let mut woken = Vec::new();
    for strict in [false, true, false] {
        let ack = if strict { Ack::Strict } else { Ack::Relaxed };
        let mut wake = Vec::new();
        partition.append(&mut one.clone(), ack, 0, &mut wake).unwrap();
        woken.push(wake.len());
    }
    // The second batch waits for its flush, and the third behind it.
    assert_eq!(woken, [0, 0, 0]);
    partition.flush().unwrap();
    let mut wake = Vec::new();
    partition.take_waiting(&mut wake);
    assert_eq!(wake, tickets[..2]);
}

#[test]
fn a_failed_fsync_stops_a_partition_for_good() {
    let place = Place::new(config());
    place.faults.add("fsync-error,topic=t,after=1,times=1".parse().unwrap());
    let partition = place.open();
    let one = batch(&[("a", Some("1"))], 5);
    append(&partition, &one, Ack::Strict, 0).unwrap();
    assert_eq!(partition.flush().unwrap(), 1);
    append(&partition, &one, Ack::Strict, 0).unwrap();
    assert!(partition.flush().is_err());
    assert!(partition.has_failed());
    assert_eq!(partition.bounds().high_watermark, 1);
    assert!(matches!(append(&partition, &one, Ack::Relaxed, 0), Err(AppendError::Storage(_))));
    // The disk would answer well now, but what it has lost it has lost.
    assert!(partition.flush().is_err());
    assert!(partition.close().is_err());
    assert_eq!(offsets(&partition), [0]);
}

#[test]
fn failed_and_torn_writes_leave_nothing_behind() {
    let place = Place::new(config());
    let partition = place.open();
    let one = batch(&[("a", Some("1"))], 5);
    place.faults.add("write-error,errno=enospc,times=1".parse().unwrap());
    place.faults.add("torn-write,after=1,times=1".parse().unwrap());
    for _ in 0..2 {
        assert!(matches!(append(&partition, &one, Ack::Relaxed, 0), Err(AppendError::Storage(_))));
        append(&partition, &one, Ack::Relaxed, 0).unwrap();
    }
    assert_eq!(offsets(&partition), [0, 1]);
    drop(partition);
    assert_eq!(offsets(&place.open()), [0, 1]);
    assert!(place.said.all().is_empty());
}

#[test]
fn a_clean_start_reads_no_records() {
    let place = Place::new(config());
    let partition = place.open();
    for sequence in 0..200 {
        let one = of_producer(batch(&[("key", Some("value"))], 5), 7, 0, sequence, false);
        append(&partition, &one, Ack::Relaxed, 0).unwrap();
    }
    partition.close().unwrap();
    drop(partition);
    // A checked segment would be cut here. The last byte of a batch lies under its checksum.
    let last = place.files(LOG).pop().unwrap();
    let mut bytes = fs::read(&last).unwrap();
    *bytes.last_mut().unwrap() ^= 1;
    fs::write(&last, &bytes).unwrap();
    let partition = place.open();
    assert_eq!(partition.bounds().next, 200);
    assert_eq!(partition.producers()[0].last_sequence, 199);
    assert!(place.said.all().is_empty());
    // Behind what the stop vouched for, a crash is a crash.
    let next = of_producer(batch(&[("key", Some("value"))], 5), 7, 0, 200, false);
    append(&partition, &next, Ack::Relaxed, 0).unwrap();
    drop(partition);
    let mut bytes = fs::read(&last).unwrap();
    bytes.pop();
    fs::write(&last, &bytes).unwrap();
    let partition = place.open();
    assert_eq!(partition.bounds().next, 200);
    assert!(place.said.all()[0].contains("cut the torn tail"), "{:?}", place.said.all());
    assert_eq!(append(&partition, &next, Ack::Relaxed, 0).unwrap().base_offset, 200);
}

#[test]
fn a_start_after_a_crash_believes_sealed_segments() {
    let place = Place::new(config());
    let partition = place.open();
    for sequence in 0..200 {
        let one = of_producer(batch(&[("key", Some("value"))], 5), 7, 0, sequence, false);
        append(&partition, &one, Ack::Relaxed, 0).unwrap();
    }
    partition.housekeep(1).unwrap();
    drop(partition);
    let (logs, indexes) = (place.files(LOG), place.files("index"));
    assert_eq!(logs.len(), indexes.len() + 1);
    assert_eq!((place.files("timeindex").len(), place.files("snapshot").len()), (indexes.len(), 1));
    let mut bytes = fs::read(&logs[0]).unwrap();
    *bytes.last_mut().unwrap() ^= 1;
    fs::write(&logs[0], &bytes).unwrap();
    let partition = place.open();
    assert_eq!((partition.bounds().next, offsets_by_headers(&partition)), (200, 200));
    assert!(place.said.all().is_empty(), "{:?}", place.said.all());
    assert_eq!(partition.producers()[0].last_sequence, 199);
}

/// Records in all batches, by their headers.
fn offsets_by_headers(partition: &Partition) -> i32 {
    let (mut count, mut at) = (0, 0);
    while let Some(range) = partition.locate(at, 1 << 20, true, false).unwrap().1 {
        let mut bytes = vec![0; range.bytes];
        range.file.read_exact_at(&mut bytes, range.position).unwrap();
        for batch in batches(&bytes).map(Result::unwrap) {
            count += batch.header.record_count;
            at = batch.header.last_offset() + 1;
        }
    }
    count
}

#[test]
fn a_sealed_segment_that_was_cut_is_checked_again_and_the_rest_stays() {
    let place = Place::new(config());
    let partition = place.open();
    for _ in 0..200 {
        append(&partition, &batch(&[("key", Some("value"))], 5), Ack::Relaxed, 0).unwrap();
    }
    partition.housekeep(1).unwrap();
    drop(partition);
    let first = fs::File::options().write(true).open(&place.files(LOG)[0]).unwrap();
    first.set_len(first.metadata().unwrap().len() - 1).unwrap();
    let partition = place.open();
    let left = offsets(&partition);
    assert_eq!((left.len(), partition.bounds().next, left.last()), (199, 200, Some(&199)));
    assert!(place.said.all()[0].contains("it was on the disk before"), "{:?}", place.said.all());
    let [(name, bytes)] = &place.kept()[..] else { panic!("{:?}", place.kept()) };
    assert_eq!(*name, format!("{}.cut-1", file_name(0, LOG)));
    assert_eq!(bytes.len(), batch(&[("key", Some("value"))], 5).len() - 1);
    drop(partition);
    assert_eq!(offsets(&place.open()), left);
    assert_eq!(place.said.all().len(), 1);
}

/// A log of one segment without a manifest, and the bytes of one batch.
fn twenty_batches() -> (Place, std::path::PathBuf, usize) {
    let place = Place::new(config());
    let partition = place.open();
    let one = batch(&[("key", Some("value"))], 5);
    for _ in 0..20 {
        append(&partition, &one, Ack::Relaxed, 0).unwrap();
    }
    let file = place.log().join(file_name(0, LOG));
    (place, file, one.len())
}

#[test]
fn what_is_cut_with_batches_behind_it_is_kept_once() {
    let (place, file, one) = twenty_batches();
    let good = fs::read(&file).unwrap();
    let mut bad = good.clone();
    bad[6 * one - 1] ^= 1;
    fs::write(&file, &bad).unwrap();
    assert_eq!(offsets(&place.open()), (0..5).collect::<Vec<_>>());
    let kept = |number: u32, bytes: &[u8]| {
        (format!("{}.cut-{number}", file_name(0, LOG)), bytes[5 * one..].to_vec())
    };
    assert_eq!(place.kept(), [kept(1, &bad)]);
    let said = place.said.all();
    let [notice] = &said[..] else { panic!("{said:?}") };
    let path = place.log().join(format!("{}.cut-1", file_name(0, LOG)));
    for wanted in [
        format!("cut {} at byte {}, before offset 5", file.display(), 5 * one),
        format!("{} bytes", 15 * one),
        "whole batches follow it".to_owned(),
        path.display().to_string(),
    ] {
        assert!(notice.contains(&wanted), "{wanted} is not in {notice}");
    }
    // The log is whole now.
    assert_eq!(offsets(&place.open()).len(), 5);
    assert_eq!((place.said.all().len(), place.kept().len()), (1, 1));
    // Killed between the copy and the cut, with another copy half written: it is not made twice.
    fs::write(&file, &bad).unwrap();
    fs::write(place.log().join(format!("{}.cut-2.new", file_name(0, LOG))), "half").unwrap();
    assert_eq!(offsets(&place.open()).len(), 5);
    assert_eq!(place.kept(), [kept(1, &bad)]);
    // Other damage does not take its place.
    let mut other = good.clone();
    other[7 * one - 1] ^= 1;
    other[6 * one - 1] ^= 2;
    fs::write(&file, &other).unwrap();
    assert_eq!(offsets(&place.open()).len(), 5);
    assert_eq!(place.kept(), [kept(1, &bad), kept(2, &other)]);
}

#[test]
fn a_torn_write_is_cut_without_a_copy_but_not_a_batch_with_another_offset() {
    let (place, file, one) = twenty_batches();
    let good = fs::read(&file).unwrap();
    for torn in [good.len() - 1, good.len() - one + 1, good.len() - one + 61] {
        fs::write(&file, &good[..torn]).unwrap();
        assert_eq!(offsets(&place.open()).len(), 19);
    }
    let zeros = [&good[..], &[0; 10_000]].concat();
    fs::write(&file, &zeros).unwrap();
    assert_eq!(offsets(&place.open()).len(), 20);
    assert!(place.kept().is_empty());
    assert!(place.said.all().iter().all(|notice| notice.contains("cut the torn tail")));
    let mut moved = good.clone();
    moved[19 * one + 7] = 77;
    fs::write(&file, &moved).unwrap();
    assert_eq!(offsets(&place.open()).len(), 19);
    assert_eq!(place.kept().len(), 1, "{:?}", place.said.all());
}

#[test]
fn nothing_is_cut_that_can_not_be_kept() {
    let (place, file, one) = twenty_batches();
    let mut bad = fs::read(&file).unwrap();
    bad[6 * one - 1] ^= 1;
    fs::write(&file, &bad).unwrap();
    place.faults.add("fsync-error,times=1".parse().unwrap());
    let error = place.try_open().unwrap_err().to_string();
    assert!(error.contains("can't copy the rest") && error.contains("free disk space"), "{error}");
    assert_eq!(fs::read(&file).unwrap(), bad);
    assert_eq!(offsets(&place.open()).len(), 5);
    assert_eq!(place.kept().len(), 1);
}

#[test]
fn the_cut_end_of_a_segment_in_front_of_others_is_kept() {
    let place = Place::new(config());
    let partition = place.open();
    fill(&partition, 300);
    drop(partition);
    let first = &place.files(LOG)[0];
    let bytes = fs::read(first).unwrap();
    fs::write(first, &bytes[..bytes.len() - 1]).unwrap();
    let aside = place.log().join(format!("{}.aside", place.files(LOG)[1].file_name().unwrap().display()));
    fs::write(&aside, "put aside before").unwrap();
    place.open();
    assert!(place.said.all()[0].contains("other segments follow it"), "{:?}", place.said.all());
    assert_eq!(place.kept().len(), 1);
    // What was put aside before is not written over.
    assert_eq!(fs::read(&aside).unwrap(), b"put aside before");
    assert!(aside.with_extension("aside-2").exists());
}

#[test]
fn a_segment_missing_in_the_middle_is_told_of_and_taken_back() {
    let place = Place::new(config());
    let partition = place.open();
    fill(&partition, 300);
    partition.close().unwrap();
    let sealed = partition.manifest().sealed.clone();
    let all = offsets(&partition);
    drop(partition);
    let lost = sealed[1];
    let path = place.log().join(file_name(lost.base_offset, LOG));
    let bytes = fs::read(&path).unwrap();
    fs::remove_file(&path).unwrap();
    let found = offsets(&place.open());
    assert!(found.iter().all(|offset| !(lost.base_offset..lost.next_offset).contains(offset)));
    assert_eq!(found.len() as i64, 300 - (lost.next_offset - lost.base_offset));
    let said = place.said.all();
    let gone = format!(
        "{} is missing, and with it the offsets {}..{}",
        path.display(),
        lost.base_offset,
        lost.next_offset
    );
    assert!(said[0].contains(&gone) && said[0].contains("stop the broker"), "{said:?}");
    // What the notice says helps.
    fs::write(&path, bytes).unwrap();
    assert_eq!(offsets(&place.open()), all);
}

#[test]
fn what_a_clean_stop_has_vouched_for_is_not_lost_silently() {
    // The last segment cut between two batches, gone, and every segment gone.
    for damage in 0..3 {
        let place = Place::new(config());
        let partition = place.open();
        fill(&partition, 300);
        partition.close().unwrap();
        let manifest = partition.manifest().clone();
        drop(partition);
        let active = manifest.active.unwrap();
        let last = place.files(LOG).pop().unwrap();
        let bytes = fs::read(&last).unwrap();
        let first = BatchHeader::parse(&bytes).unwrap();
        match damage {
            0 => fs::write(&last, &bytes[..first.total_bytes()]).unwrap(),
            1 => fs::remove_file(&last).unwrap(),
            _ => place.files(LOG).iter().for_each(|path| fs::remove_file(path).unwrap()),
        }
        let next = place.open().bounds().next;
        let wanted = [
            (active.base_offset + 1, format!("the offsets {}..300 are lost", active.base_offset + 1)),
            (active.base_offset, format!("the offsets {}..300", active.base_offset)),
            (0, "with them the offsets 0..300".to_owned()),
        ];
        let said = place.said.all();
        assert_eq!(next, wanted[damage].0);
        assert!(said.iter().any(|notice| notice.contains(&wanted[damage].1)), "{said:?}");
        let before = said.len();
        place.open();
        assert_eq!(place.said.all().len(), before, "reported once: {:?}", place.said.all());
    }
}

/// Readers of what is committed would ask for an offset in front of the log, again and again.
#[test]
fn what_is_deleted_in_front_of_an_open_transaction_is_not_waited_for() {
    let place = Place::new(config());
    let partition = place.open();
    let open = of_producer(batch(&[("t", Some("x"))], 5), 7, 0, 0, true);
    append(&partition, &open, Ack::Strict, 0).unwrap();
    append(&partition, &batch(&[("after", None)], 5), Ack::Strict, 0).unwrap();
    partition.flush().unwrap();
    assert_eq!(partition.bounds().last_stable, 0);
    partition.delete_records(2).unwrap();
    assert_eq!((partition.bounds().log_start, partition.bounds().last_stable), (2, 2));
}

#[test]
fn transactions_survive_kills_and_stops() {
    let place = Place::new(config());
    let partition = place.open();
    let in_transaction = |id, sequence| of_producer(batch(&[("t", Some("x"))], 5), id, 0, sequence, true);
    append(&partition, &batch(&[("before", None)], 5), Ack::Strict, 0).unwrap();
    append(&partition, &in_transaction(7, 0), Ack::Strict, 0).unwrap();
    append(&partition, &in_transaction(8, 0), Ack::Strict, 0).unwrap();
    partition.flush().unwrap();
    let outside = of_producer(batch(&[("t", None)], 5), 7, 0, 1, false);
    let refused = append(&partition, &outside, Ack::Strict, 0);
    assert!(matches!(refused, Err(AppendError::Sequence(Sequence::OutsideTransaction))));
    assert_eq!((partition.bounds().last_stable, partition.bounds().high_watermark), (1, 3));
    assert_eq!(read(&partition, true), [(0, "before".to_owned())]);
    let marker = |partition: &Partition, id, marker, epoch| {
        partition.append_marker(id, 0, marker, epoch, 9, &mut Vec::new())
    };
    let aborted = marker(&partition, 7, Marker::Abort, 4).unwrap();
    assert_eq!((aborted.base_offset, aborted.end_offset), (3, 4));
    assert_eq!(partition.bounds().high_watermark, 3);
    partition.flush().unwrap();
    assert_eq!(partition.bounds().last_stable, 2);
    assert!(matches!(marker(&partition, 7, Marker::Abort, 3), Err(AppendError::CoordinatorFenced)));
    let wanted = [AbortedTransaction { producer_id: 7, first_offset: 1 }];
    assert_eq!(partition.aborted(0, 4), wanted);
    let states = partition.producers();
    assert_eq!((states[0].txn_start, states[0].coordinator_epoch), (None, 4));
    assert_eq!((states[1].txn_start, states[1].last_sequence), (Some(2), 0));
    drop(partition);
    let partition = place.open();
    assert_eq!((partition.producers(), partition.aborted(0, 4)), (states.clone(), wanted.to_vec()));
    assert_eq!(partition.bounds().last_stable, 2);
    partition.close().unwrap();
    drop(partition);
    let partition = place.open();
    assert_eq!((partition.producers(), partition.aborted(0, 4)), (states, wanted.to_vec()));
    marker(&partition, 8, Marker::Commit, 4).unwrap();
    partition.flush().unwrap();
    assert_eq!(partition.bounds().last_stable, 5);
    let newer = of_producer(batch(&[("t", None)], 5), 8, 1, 0, true);
    append(&partition, &newer, Ack::Strict, 0).unwrap();
    let old = append(&partition, &in_transaction(8, 1), Ack::Strict, 0);
    assert!(matches!(old, Err(AppendError::Sequence(Sequence::Fenced))));
    let late = marker(&partition, 8, Marker::Abort, 4);
    assert!(matches!(late, Err(AppendError::Sequence(Sequence::Fenced))));
}

#[test]
fn a_duplicate_says_how_far_a_flush_must_go() {
    let place = Place::new(config());
    let partition = place.open();
    let one = of_producer(batch(&[("a", None), ("b", None)], 5), 7, 0, 0, false);
    append(&partition, &one, Ack::Strict, 0).unwrap();
    let again = append(&partition, &one, Ack::Strict, 0).unwrap();
    assert_eq!((again.base_offset, again.end_offset, again.duplicate), (0, 2, true));
    assert!(again.end_offset > partition.bounds().flushed);
}

#[test]
fn a_log_in_memory_does_the_same_and_leaves_no_file() {
    let mut place = Place::new(LogConfig { retention_bytes: Some(8_000), ..config() });
    place.memory = true;
    let partition = place.open();
    for _ in 0..300 {
        append(&partition, &batch(&[("key", Some("value"))], 5), Ack::Strict, 0).unwrap();
    }
    assert_eq!(partition.flush().unwrap(), 300);
    partition.housekeep(1).unwrap();
    let bounds = partition.bounds();
    assert!(bounds.log_start > 0);
    assert_eq!(offsets(&partition), (bounds.log_start..300).collect::<Vec<_>>());
    partition.delete_records(299).unwrap();
    partition.close().unwrap();
    assert_eq!(offsets(&partition), [299]);
    partition.remove().unwrap();
    assert!(!place.log().exists());
}

#[test]
fn retention_drops_whole_segments_by_size_and_by_time() {
    for by_size in [true, false] {
        let limits = if by_size { (Some(10_000), None) } else { (None, Some(1_000)) };
        let place = Place::new(LogConfig { retention_bytes: limits.0, retention_ms: limits.1, ..config() });
        let partition = place.open();
        for step in 0..400 {
            append(&partition, &batch(&[("key", Some("value"))], step * 10), Ack::Relaxed, 0).unwrap();
        }
        partition.housekeep(4_000).unwrap();
        let start = partition.bounds().log_start;
        let bytes: u64 = place.files(LOG).iter().map(|path| fs::metadata(path).unwrap().len()).sum();
        if by_size {
            assert!((10_000..14_200).contains(&bytes), "{bytes}");
        } else {
            // A segment goes when its youngest record is too old.
            assert!((250..=300).contains(&start), "{start}");
        }
        assert_eq!(place.files("index").len() + 1, place.files(LOG).len());
        let mut out = Vec::new();
        let refused = partition.read(start - 1, 100, true, false, &mut out);
        assert!(matches!(refused, Err(ReadError::OutOfRange)));
        drop(partition);
        let partition = place.open();
        assert_eq!((partition.bounds().log_start, partition.bounds().next), (start, 400));
        if !by_size {
            // At last even the segment that was written to is old.
            partition.housekeep(1_000_000).unwrap();
            assert_eq!((partition.bounds().log_start, place.files(LOG).len()), (400, 1));
            drop(partition);
            assert_eq!(
                append(&place.open(), &batch(&[("k", None)], 0), Ack::Relaxed, 0).unwrap().base_offset,
                400
            );
        }
    }
}

#[test]
fn deleted_records_stay_deleted() {
    let place = Place::new(config());
    let partition = place.open();
    for step in 0..200 {
        append(&partition, &batch(&[("a", None), ("b", None)], step), Ack::Relaxed, 0).unwrap();
    }
    assert_eq!(partition.delete_records(301).unwrap(), 301);
    assert_eq!(partition.delete_records(10).unwrap(), 301);
    assert!(matches!(partition.delete_records(401), Err(ReadError::OutOfRange)));
    drop(partition);
    let partition = place.open();
    assert_eq!(offsets(&partition), (301..400).collect::<Vec<_>>());
    assert_eq!(partition.offset_for_timestamp(0).unwrap(), Some((150, 301)));
    let before = place.files(LOG).len();
    partition.housekeep(0).unwrap();
    assert!(place.files(LOG).len() < before);
    assert_eq!(partition.delete_records(-1).unwrap(), 400);
    assert_eq!(offsets(&partition), [0_i64; 0]);
    drop(partition);
    assert_eq!(place.open().bounds().log_start, 400);
}

#[test]
fn segments_roll_by_age() {
    let place = Place::new(LogConfig { segment_ms: 1_000, ..config() });
    let partition = place.open();
    append(&partition, &batch(&[("a", None)], 0), Ack::Relaxed, 5_000).unwrap();
    partition.housekeep(5_999).unwrap();
    assert_eq!(place.files(LOG).len(), 1);
    partition.housekeep(6_000).unwrap();
    assert_eq!(place.files(LOG).len(), 2);
    partition.housekeep(60_000).unwrap();
    assert_eq!(place.files(LOG).len(), 2);
    append(&partition, &batch(&[("a", None)], 0), Ack::Relaxed, 60_000).unwrap();
    append(&partition, &batch(&[("a", None)], 0), Ack::Relaxed, 61_000).unwrap();
    assert_eq!(place.files(LOG).len(), 3);
}

#[test]
fn the_time_of_the_append_replaces_the_producers() {
    let place = Place::new(LogConfig { log_append_time: true, ..config() });
    let partition = place.open();
    let appended = append(&partition, &batch(&[("a", None), ("b", None)], 5), Ack::Relaxed, 9_000).unwrap();
    assert_eq!(appended.append_time_ms, 9_000);
    drop(partition);
    let partition = place.open();
    assert!(place.said.all().is_empty());
    assert_eq!(partition.max_timestamp().unwrap(), Some((9_000, 0)));
    assert_eq!(partition.offset_for_timestamp(9_001).unwrap(), None);
}

#[test]
fn the_largest_timestamp_is_that_of_a_record_that_can_be_read() {
    let place = Place::new(config());
    let partition = place.open();
    assert_eq!(partition.max_timestamp().unwrap(), None);
    append(&partition, &batch(&[("a", None)], 700), Ack::Relaxed, 1).unwrap();
    append(&partition, &batch(&[("a", None)], 50), Ack::Relaxed, 1).unwrap();
    append(&partition, &batch(&[("a", None)], 20), Ack::Relaxed, 1).unwrap();
    assert_eq!(partition.max_timestamp().unwrap(), Some((700, 0)));
    partition.delete_records(1).unwrap();
    assert_eq!(partition.max_timestamp().unwrap(), Some((50, 1)), "the first one is gone");
    append(&partition, &batch(&[("a", None)], 999), Ack::Strict, 1).unwrap();
    assert_eq!(partition.max_timestamp().unwrap(), Some((50, 1)), "the last one is not durable yet");
    partition.flush().unwrap();
    assert_eq!(partition.max_timestamp().unwrap(), Some((999, 3)));
    partition.delete_records(-1).unwrap();
    assert_eq!(partition.max_timestamp().unwrap(), None);
}

fn compacted() -> LogConfig {
    LogConfig {
        segment_bytes: 600,
        compact: true,
        delete: false,
        min_cleanable_dirty_ratio: 0.01,
        delete_retention_ms: 1_000,
        ..config()
    }
}

#[test]
fn compaction_keeps_the_last_of_each_key_and_every_offset() {
    let place = Place::new(compacted());
    let partition = place.open();
    for step in 0..100 {
        let key = format!("key-{}", step % 7);
        append(&partition, &batch(&[(&key, Some("v")), ("gone", None)], 5), Ack::Relaxed, 0).unwrap();
    }
    let before: u64 = place.files(LOG).iter().map(|path| fs::metadata(path).unwrap().len()).sum();
    partition.housekeep(10).unwrap();
    let after: u64 = place.files(LOG).iter().map(|path| fs::metadata(path).unwrap().len()).sum();
    assert!(after * 4 < before, "{before} to {after}");
    let left = read(&partition, false);
    let keys: HashSet<_> = left.iter().map(|(_, key)| key.as_str()).collect();
    assert_eq!(keys.len(), 8);
    assert!(left.contains(&(198, "key-1".to_owned())) && left.contains(&(199, "gone".to_owned())));
    assert!(left.is_sorted());
    drop(partition);
    let partition = place.open();
    assert_eq!(read(&partition, false), left);
    assert!(place.said.all().is_empty(), "{:?}", place.said.all());
    // Reads from inside of a hole go on behind it.
    let mut out = Vec::new();
    partition.read(1, 1, true, false, &mut out).unwrap();
    assert!(batches(&out).next().unwrap().unwrap().header.last_offset() > 1);
    // Marks of deleted keys go when they are old enough; the newest one is in the active segment.
    partition.housekeep(2_000).unwrap();
    let gone = read(&partition, false).iter().filter(|(_, key)| key == "gone").count();
    let active = partition.log().segments.last().unwrap().base_offset;
    assert_eq!(
        gone,
        read(&partition, false).iter().filter(|(at, key)| key == "gone" && *at >= active).count()
    );
    assert_eq!(partition.bounds().next, 200);
}

#[test]
fn compaction_stops_before_an_open_transaction_and_drops_aborted_records() {
    let place = Place::new(compacted());
    let partition = place.open();
    append(&partition, &batch(&[("key", Some("good"))], 5), Ack::Strict, 0).unwrap();
    append(&partition, &of_producer(batch(&[("key", Some("bad"))], 5), 7, 0, 0, true), Ack::Strict, 0)
        .unwrap();
    let fill = |partition: &Partition| {
        for step in 0..30 {
            append(partition, &batch(&[(&format!("fill-{step}"), Some("x"))], 5), Ack::Strict, 0).unwrap();
        }
        partition.flush().unwrap();
        partition.housekeep(10).unwrap();
    };
    fill(&partition);
    assert_eq!(read(&partition, false).len(), 32);
    partition.append_marker(7, 0, Marker::Abort, 1, 5, &mut Vec::new()).unwrap();
    fill(&partition);
    let left = read(&partition, false);
    assert!(left.contains(&(0, "key".to_owned())), "{left:?}");
    assert!(!left.contains(&(1, "key".to_owned())), "{left:?}");
    assert_eq!(partition.aborted(0, 100).len(), 1);
    drop(partition);
    let partition = place.open();
    assert_eq!(read(&partition, false), left);
    assert_eq!(partition.producers()[0].last_sequence, 0);
}

#[test]
fn what_was_committed_stays_so_without_its_marker_and_without_the_state_of_the_producers() {
    let place = Place::new(compacted());
    let partition = place.open();
    let write = |key: &str, sequence: i32, marker: Marker| {
        let data = of_producer(batch(&[(key, Some("v"))], 5), 7, 0, sequence, true);
        append(&partition, &data, Ack::Strict, 0).unwrap();
        partition.append_marker(7, 0, marker, 1, 5, &mut Vec::new()).unwrap();
    };
    let clean = |now_ms: i64| {
        for step in 0..30 {
            append(&partition, &batch(&[(&format!("fill-{step}"), Some("x"))], 5), Ack::Strict, 0).unwrap();
        }
        partition.flush().unwrap();
        partition.housekeep(now_ms).unwrap();
    };
    write("committed", 0, Marker::Commit);
    clean(10);
    write("aborted", 1, Marker::Abort);
    clean(20);
    clean(20_000);
    let (mut left, mut at) = (Vec::new(), 0);
    while at < partition.bounds().high_watermark {
        let mut bytes = Vec::new();
        partition.read(at, 1 << 20, true, false, &mut bytes).unwrap();
        left.extend(batches(&bytes).map(|batch| batch.unwrap().header));
        at = left.last().unwrap().last_offset() + 1;
    }
    assert_eq!((left[0].base_offset, left[0].record_count), (0, 1));
    assert!(!left.iter().any(|header| header.base_offset == 1), "its marker is purged");
    assert!(left.iter().any(|header| header.is_control()), "that of the abort is not");
    drop(partition);
    for file in place.files("snapshot") {
        fs::write(file, "damaged").unwrap();
    }
    let partition = place.open();
    assert!(place.said.all()[0].contains("state of the producers"), "{:?}", place.said.all());
    assert_eq!(partition.aborted(0, 1), []);
    let bounds = partition.bounds();
    assert_eq!(bounds.last_stable, bounds.high_watermark);
}

/// Appends this number of batches with one record each.
fn fill(partition: &Partition, count: usize) {
    for _ in 0..count {
        append(partition, &batch(&[("key", Some("value"))], 5), Ack::Relaxed, 0).unwrap();
    }
}

#[test]
fn a_round_that_could_not_write_its_manifest_is_made_up_for() {
    let place = Place::new(config());
    let partition = place.open();
    fill(&partition, 200);
    partition.housekeep(1).unwrap();
    let named = partition.manifest().sealed.len();
    // A folder in its place stops the file that becomes the manifest.
    fs::create_dir(place.log().join("manifest.new")).unwrap();
    fill(&partition, 200);
    assert!(partition.housekeep(2).is_err());
    fs::remove_dir(place.log().join("manifest.new")).unwrap();
    fill(&partition, 200);
    partition.housekeep(3).unwrap();
    let known = partition.manifest().clone();
    assert!(known.sealed.len() > named + 2 && known.sealed.len() + 1 == place.files(LOG).len());
    assert!(known.sealed.is_sorted_by(|a, b| a.next_offset == b.base_offset));
    drop(partition);
    assert_eq!(offsets(&place.open()), (0..600).collect::<Vec<_>>());
    assert!(place.said.all().is_empty(), "{:?}", place.said.all());
}

#[test]
fn segments_that_a_manifest_has_left_out_are_taken_or_put_aside_but_never_removed() {
    let place = Place::new(config());
    let partition = place.open();
    fill(&partition, 400);
    partition.housekeep(1).unwrap();
    let mut manifest = partition.manifest().clone();
    let left_out = [manifest.sealed.remove(1), manifest.sealed.remove(1)];
    manifest.write(&partition.disk).unwrap();
    drop(partition);
    let files = copy(&place.log());
    let partition = place.open();
    assert_eq!(offsets(&partition), (0..400).collect::<Vec<_>>());
    assert_eq!(place.said.all().len(), 2, "{:?}", place.said.all());
    drop(partition);
    assert_eq!(offsets(&place.open()), (0..400).collect::<Vec<_>>());
    assert_eq!(place.said.all().len(), 2);
    // After a gap, its place in the log is unknown.
    restore(&place.log(), &files);
    fs::remove_file(place.log().join(file_name(left_out[0].base_offset, LOG))).unwrap();
    let partition = place.open();
    let rest = (0..left_out[0].base_offset).chain(left_out[1].next_offset..400);
    assert_eq!(offsets(&partition), rest.collect::<Vec<_>>());
    assert!(place.said.all()[2].contains("aside"), "{:?}", place.said.all());
    assert!(place.log().join(format!("{}.aside", file_name(left_out[1].base_offset, LOG))).exists());
}

/// A death between the manifest that names a segment no more and the end of its file.
#[test]
fn a_dropped_segment_that_came_back_is_dropped_again() {
    for step in [40, 41] {
        let place = Place::new(compacted());
        let partition = place.open();
        for number in 0..step {
            let key = format!("key-{}", number % 2);
            append(&partition, &batch(&[(&key, Some("v"))], 5), Ack::Relaxed, 0).unwrap();
        }
        partition.housekeep(10).unwrap();
        let files = copy(&place.log());
        let active = partition.log().segments.last().unwrap().base_offset;
        append(&partition, &batch(&[("last", Some("v"))], 5), Ack::Relaxed, 0).unwrap();
        let end = partition.bounds().next;
        if step == 40 {
            partition.delete_records(active).unwrap();
        } else {
            // Nothing but what retention drops.
            partition.log().roll(&partition.disk).unwrap();
            partition.housekeep(11).unwrap();
            partition.delete_records(end).unwrap();
        }
        partition.housekeep(12).unwrap();
        assert_eq!(place.files(LOG).len(), 1);
        let (start, left) = (partition.bounds().log_start, offsets(&partition));
        drop(partition);
        if step == 41 {
            fs::remove_file(place.files(LOG).pop().unwrap()).unwrap();
        }
        for (path, bytes) in files.iter().filter(|(path, _)| *path < place.log().join(file_name(active, "")))
        {
            fs::write(path, bytes).unwrap();
        }
        let partition = place.open();
        assert_eq!((partition.bounds().log_start, partition.bounds().next), (start, end));
        assert_eq!(offsets(&partition), left);
        assert!(place.said.all().is_empty(), "{:?}", place.said.all());
        assert_eq!(place.files(LOG).len(), usize::from(step == 40));
    }
}

/// A round that is under way when the topic is deleted writes nothing into the folder of the next one of its name.
#[test]
fn a_topic_that_comes_again_finds_nothing_of_the_old_one() {
    let place = Place::new(compacted());
    let old = Arc::new(place.open());
    for step in 0..40 {
        // Every key is another, so that no segment gets smaller and the round goes on to its end.
        append(&old, &batch(&[(&format!("key-{step}"), Some("v"))], 5), Ack::Relaxed, 0).unwrap();
    }
    old.configure(LogConfig { compact: false, ..compacted() });
    old.housekeep(10).unwrap();
    old.configure(compacted());
    // Long enough for what follows to come in between.
    place.faults.add("fsync-delay,ms=300".parse().unwrap());
    let round = std::thread::spawn({
        let old = Arc::clone(&old);
        move || old.housekeep(20)
    });
    while place.files("new").is_empty() {
        std::thread::yield_now();
    }
    old.remove().unwrap();
    place.faults.clear();
    assert!(!place.log().exists());
    let new = place.open();
    for _ in 0..3 {
        append(&new, &batch(&[("new", Some("v"))], 5), Ack::Strict, 0).unwrap();
    }
    new.flush().unwrap();
    assert!(round.join().unwrap().is_ok());
    assert!(old.close().is_ok());
    let names: Vec<_> = copy(&place.log()).into_iter().map(|(path, _)| path).collect();
    assert_eq!(names, [place.log().join(file_name(0, LOG))]);
    assert!(matches!(old.delete_records(0), Err(ReadError::Storage(_))));
    drop(new);
    assert_eq!(offsets(&place.open()), [0, 1, 2]);
}

#[test]
fn a_missing_index_is_made_by_a_reader_and_written_by_housekeeping() {
    let place = Place::new(config());
    let partition = place.open();
    fill(&partition, 300);
    partition.housekeep(1).unwrap();
    drop(partition);
    let index = place.log().join(file_name(0, "index"));
    fs::remove_file(&index).unwrap();
    let partition = place.open();
    // It is got without the lock, and reading writes nothing.
    let found = partition.log().place(7, 300, 100, true);
    assert!(matches!(found, crate::log::Place::Unindexed(_)), "{found:?}");
    assert_eq!(partition.offset_for_timestamp(5).unwrap(), Some((5, 0)));
    assert_eq!(offsets(&partition), (0..300).collect::<Vec<_>>());
    assert!(!index.exists());
    assert_eq!(place.said.all().len(), 1);
    partition.housekeep(2).unwrap();
    assert!(index.exists());
    drop(partition);
    assert_eq!(offsets(&place.open()), (0..300).collect::<Vec<_>>());
    assert_eq!(place.said.all().len(), 1, "{:?}", place.said.all());
}

/// Stops in the middle of putting a compacted segment in its place leave one of the two, whole.
#[test]
fn an_interrupted_compaction_is_finished_or_forgotten() {
    let place = Place::new(compacted());
    let partition = place.open();
    for step in 0..40 {
        append(&partition, &batch(&[(&format!("key-{}", step % 3), Some("v"))], 5), Ack::Relaxed, 0).unwrap();
    }
    partition.configure(LogConfig { compact: false, ..compacted() });
    partition.housekeep(10).unwrap();
    drop(partition);
    let old = copy(&place.log());
    let partition = place.open();
    partition.housekeep(10).unwrap();
    let left = read(&partition, false);
    drop(partition);
    let first = file_name(0, LOG);
    let compacted = fs::read(place.log().join(&first)).unwrap();
    // Renamed, but neither indexed nor named in the manifest.
    restore(&place.log(), &old);
    fs::write(place.log().join(&first), &compacted).unwrap();
    fs::remove_file(place.log().join(file_name(0, "index"))).unwrap();
    let partition = place.open();
    assert_eq!((partition.bounds().log_start, partition.bounds().next), (0, 40));
    partition.housekeep(10).unwrap();
    assert_eq!(read(&partition, false), left);
    drop(partition);
    // Only half written.
    restore(&place.log(), &old);
    fs::write(place.log().join(format!("{first}.new")), &compacted[..compacted.len() / 2]).unwrap();
    let partition = place.open();
    assert_eq!(read(&partition, false).len(), 40);
    assert!(place.files("new").is_empty());
    partition.housekeep(10).unwrap();
    assert_eq!(read(&partition, false), left);
    assert!(place.said.all().is_empty(), "{:?}", place.said.all());
}

type Files = Vec<(std::path::PathBuf, Vec<u8>)>;

fn copy(folder: &Path) -> Files {
    let all = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    all.map(|path| (path.clone(), fs::read(path).unwrap())).collect()
}

fn restore(folder: &Path, files: &Files) {
    fs::remove_dir_all(folder).unwrap();
    fs::create_dir_all(folder).unwrap();
    files.iter().for_each(|(path, bytes)| fs::write(path, bytes).unwrap());
}

#[test]
fn many_are_opened_at_a_time_in_their_order() {
    let folder = tempfile::tempdir().unwrap();
    let openings: Vec<_> = (0..20)
        .map(|index| Opening {
            topic: "t".to_owned(),
            index,
            folder: folder.path().join(format!("t-{index}")),
            config: config(),
        })
        .collect();
    let storage = Storage::on_disk(Notices::nowhere());
    for partition in Partition::open_all(openings.clone(), &storage, 3) {
        let partition = partition.unwrap();
        for _ in 0..=partition.index {
            append(&partition, &batch(&[("a", None)], 0), Ack::Relaxed, 0).unwrap();
        }
    }
    let opened = Partition::open_all(openings, &storage, 4);
    let ends: Vec<_> = opened.into_iter().map(|one| one.unwrap().bounds().next).collect();
    assert_eq!(ends, (1..=20).collect::<Vec<_>>());
}
