//! A disk that fails: nobody is told a lie, other partitions go on, and the next start has what was durable.

mod support;

use std::io::{ErrorKind, Write};
use std::path::Path;
use std::process::Stdio;
use std::sync::{Arc, Mutex};

use hone_broker::{Broker, Fault, Faults, Notices};
use hone_kafka::Codec;
use kafka_protocol::messages::delete_records_request::{DeleteRecordsPartition, DeleteRecordsTopic};
use kafka_protocol::messages::*;
use support::*;

const STORAGE_ERROR: i16 = 56;

fn faulty(folder: &Path, faults: &[&str], said: &Arc<Mutex<Vec<String>>>) -> Broker {
    let said = Arc::clone(said);
    broker_with(folder, |settings| {
        settings.notices = Notices::to(move |line| said.lock().unwrap().push(line.to_owned()));
        for fault in faults {
            settings.faults.add(fault.parse::<Fault>().unwrap());
        }
    })
}

/// The error for one record, and its offset.
fn write(client: &mut Client, name: &str, acks: i16, value: &str) -> (i16, i64) {
    let request = produce_request(name, 0, batch(Codec::None, &[value])).with_acks(acks);
    let answer = client.call(9, &request);
    let row = &answer.responses[0].partition_responses[0];
    (row.error_code, row.base_offset)
}

#[test]
fn a_failed_fsync_is_told_to_all_who_wait_and_to_all_who_come() {
    let folder = tempfile::tempdir().unwrap();
    let said = Arc::default();
    let broker = faulty(folder.path(), &["fsync-delay,topic=t,ms=50", "fsync-error,topic=t,after=3"], &said);
    let mut client = Client::connect(broker.kafka_addr());
    for name in ["t", "other"] {
        assert_eq!(create(&mut client, name, &[]).0, 0);
    }
    // Many wait for each flush; the fourth fails.
    let mut acknowledged = Vec::new();
    let mut failed = 0;
    for round in 0..6 {
        for number in 0..10 {
            let value = format!("{round}-{number}");
            client.send(9, &produce_request("t", 0, batch(Codec::None, &[&value])));
        }
        for number in 0..10 {
            let (_, answer) = client.receive_as::<ProduceRequest>(9);
            let row = &answer.responses[0].partition_responses[0];
            match row.error_code {
                0 => {
                    assert_eq!((failed, row.base_offset), (0, acknowledged.len() as i64));
                    acknowledged.push(format!("{round}-{number}"));
                }
                error => {
                    assert_eq!(error, STORAGE_ERROR);
                    failed += 1;
                }
            }
        }
    }
    assert!(failed > 0 && !acknowledged.is_empty());
    assert_eq!(failed + acknowledged.len(), 60);
    for acks in [-1, 1] {
        assert_eq!(write(&mut client, "t", acks, "later").0, STORAGE_ERROR);
    }
    assert_eq!(read_all(&mut client, "t"), acknowledged, "what is not durable is not shown");
    for offset in 0..20 {
        assert_eq!(write(&mut client, "other", -1, "x"), (0, offset));
    }
    let closed = |line: &String| {
        line.starts_with("can't flush t-0") && line.contains("accepts no writes until the broker restarts")
    };
    assert!(said.lock().unwrap().iter().any(closed), "{said:?}");
    // Its log can't be left in order.
    assert!(broker.stop().is_err());

    let broker = faulty(folder.path(), &[], &said);
    let mut client = Client::connect(broker.kafka_addr());
    let found = read_all(&mut client, "t");
    assert_eq!(found[..acknowledged.len()], acknowledged);
    assert_eq!(write(&mut client, "t", -1, "again"), (0, found.len() as i64));
    assert_eq!(read_all(&mut client, "other").len(), 20);
    broker.stop().unwrap();
}

#[test]
fn a_failed_fsync_of_what_nobody_waits_for_stops_the_partition_too() {
    for flush_ms in ["5", "0"] {
        fails_by_age(flush_ms);
    }
}

fn fails_by_age(flush_ms: &str) {
    let folder = tempfile::tempdir().unwrap();
    let said = Arc::default();
    let broker = faulty(folder.path(), &["fsync-error,topic=t"], &said);
    let mut client = Client::connect(broker.kafka_addr());
    assert_eq!(create(&mut client, "t", &[("write.caching", "true"), ("flush.ms", flush_ms)]).0, 0);
    let begun = std::time::Instant::now();
    let mut acknowledged = 0;
    let refused = loop {
        match write(&mut client, "t", -1, "x") {
            (0, offset) => assert_eq!(offset, acknowledged),
            (error, _) => break error,
        }
        acknowledged += 1;
        assert!(begun.elapsed() < PATIENCE, "the flush by age never came");
    };
    assert_eq!(refused, STORAGE_ERROR);
    assert!(acknowledged > 0, "an acknowledgement did not wait for the disk");
    // With write caching they were shown before they were durable, and stay.
    assert_eq!(read_all(&mut client, "t").len() as i64, acknowledged);
    assert!(said.lock().unwrap().iter().any(|line| line.contains("can't flush")), "{said:?}");
}

#[test]
fn a_full_disk_refuses_batches_until_there_is_room() {
    let folder = tempfile::tempdir().unwrap();
    for fault in ["write-error,topic=t,after=2,times=3,errno=enospc", "torn-write,topic=t,after=2,times=3"] {
        let folder = folder.path().join(fault.split(',').next().unwrap());
        let said = Arc::default();
        let broker = faulty(&folder, &[fault], &said);
        let mut client = Client::connect(broker.kafka_addr());
        for name in ["t", "other"] {
            assert_eq!(create(&mut client, name, &[]).0, 0);
        }
        let answers: Vec<_> = (0..7).map(|number| write(&mut client, "t", -1, &number.to_string())).collect();
        let refused = (STORAGE_ERROR, -1);
        assert_eq!(answers, [(0, 0), (0, 1), refused, refused, refused, (0, 2), (0, 3)], "{fault}");
        assert_eq!(read_all(&mut client, "t"), ["0", "1", "5", "6"], "{fault}");
        assert_eq!(write(&mut client, "other", -1, "x"), (0, 0));
        let log = folder.join("log/t-0").display().to_string();
        let refused = |line: &String| {
            line.starts_with("t-0: can't write the log")
                && line.contains("tries the next ones")
                && line.contains(&log)
        };
        assert!(said.lock().unwrap().iter().any(refused), "{said:?}");
        broker.stop().unwrap();
        let broker = faulty(&folder, &[], &said);
        let mut client = Client::connect(broker.kafka_addr());
        assert_eq!(read_all(&mut client, "t"), ["0", "1", "5", "6"], "{fault}");
        broker.stop().unwrap();
    }
}

#[test]
fn a_stop_ends_a_stall() {
    for times in ["", ",times=1"] {
        let folder = tempfile::tempdir().unwrap();
        let faults = Faults::none();
        let broker = broker_with(folder.path(), |settings| settings.faults = faults.clone());
        let mut client = Client::connect(broker.kafka_addr());
        assert_eq!(create(&mut client, "t", &[]).0, 0);
        // The second one is used up behind the first: once it is, a write has come to the stall.
        faults.add(format!("write-stall,topic=t{times}").parse().unwrap());
        faults.add("write-delay,topic=t,times=1,ms=0".parse().unwrap());
        client.send(9, &produce_request("t", 0, batch(Codec::None, &["stalled"])));
        let begun = std::time::Instant::now();
        while !format!("{faults:?}").contains("times: Some(0)") {
            assert!(begun.elapsed() < PATIENCE, "no write has come");
            std::thread::yield_now();
        }
        let (told, tell) = std::sync::mpsc::channel();
        std::thread::spawn(move || told.send(broker.stop().is_ok()).unwrap());
        assert!(tell.recv_timeout(PATIENCE).expect("the stop waits for the stalled write"));
        // The batch that was stalled is there, or was never written; nothing else is.
        let broker = faulty(folder.path(), &[], &Arc::default());
        let mut client = Client::connect(broker.kafka_addr());
        let found = read_all(&mut client, "t");
        assert!(found.is_empty() || found == ["stalled"], "{found:?}");
        broker.stop().unwrap();
    }
}

#[test]
fn without_acks_a_batch_that_is_not_stored_closes_the_connection() {
    let folder = tempfile::tempdir().unwrap();
    let broker = faulty(folder.path(), &["write-error,topic=t,errno=enospc,times=1"], &Arc::default());
    let mut client = Client::connect(broker.kafka_addr());
    assert_eq!(create(&mut client, "t", &[]).0, 0);
    client.send(9, &produce_request("t", 0, batch(Codec::None, &["lost"])).with_acks(0));
    assert!(client.receive().is_none());
    let mut client = Client::connect(broker.kafka_addr());
    assert_eq!(write(&mut client, "t", -1, "stored"), (0, 0));
    broker.stop().unwrap();
}

#[test]
fn a_kill_behind_a_torn_write_leaves_what_was_acknowledged() {
    let folder = tempfile::tempdir().unwrap();
    for (round, fault) in ["torn-write,topic=t,after=5", "fsync-error,topic=t,after=5"].iter().enumerate() {
        let data = folder.path().join(round.to_string());
        let broker = Process::start_with(&data, &["--storage-fault", fault], Stdio::null());
        let mut client = Client::connect(broker.kafka);
        assert_eq!(create(&mut client, "t", &[]).0, 0);
        for number in 0..5 {
            assert_eq!(write(&mut client, "t", -1, &number.to_string()), (0, number));
        }
        for _ in 0..3 {
            assert_eq!(write(&mut client, "t", -1, "torn").0, STORAGE_ERROR, "{fault}");
        }
        broker.kill_9();
        let broker = Process::start(&data, &[]);
        let mut client = Client::connect(broker.kafka);
        let found = read_all(&mut client, "t");
        assert_eq!(found[..5], ["0", "1", "2", "3", "4"]);
        // What was written and could not be flushed may be there, once.
        assert!(found.len() <= if fault.starts_with("torn") { 5 } else { 6 }, "{fault}: {found:?}");
        assert_eq!(write(&mut client, "t", -1, "next"), (0, found.len() as i64));
    }
}

/// A small file system of its own; unmounted when dropped.
struct SmallDisk {
    folder: tempfile::TempDir,
}

impl SmallDisk {
    /// `None` where this user may not mount: that is a right and no tool, so nobody is required to have it.
    #[expect(clippy::print_stderr, reason = "a skip must be seen")]
    fn mount(bytes: usize) -> Option<Self> {
        let folder = tempfile::tempdir().unwrap();
        let size = format!("size={bytes}");
        let mut mount = program("mount");
        mount.args(["-t", "tmpfs", "-o", &size, "tmpfs"]).arg(folder.path());
        let mounted = mount.output().is_ok_and(|done| done.status.success());
        if !mounted {
            eprintln!("skipped: a full disk needs the right to mount one (root)");
        }
        mounted.then_some(Self { folder })
    }

    fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Takes all the room that is left, to the last block.
    fn fill(&self) {
        let filler = self.path().join("filler");
        let mut filler = std::fs::File::options().create(true).append(true).open(filler).unwrap();
        let mut bytes = 1 << 20;
        while bytes > 0 {
            match filler.write(&vec![1; bytes]) {
                Ok(_) => (),
                Err(error) if error.kind() == ErrorKind::StorageFull => bytes /= 2,
                Err(error) => panic!("{error}"),
            }
        }
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        // A refusal leaves a mount and no wrong result.
        let _ = program("umount").arg("--lazy").arg(self.path()).status();
    }
}

/// Writes until the disk is full to the last block; returns the end of the log.
fn fill_topic(client: &mut Client, disk: &SmallDisk, name: &str) -> i64 {
    let value = "x".repeat(200_000);
    let mut end = 0;
    while let (0, offset) = write(client, name, -1, &value) {
        end = offset + 1;
    }
    assert!(end > 10, "only {end} batches found room");
    assert_eq!(write(client, name, -1, &value), (STORAGE_ERROR, -1));
    disk.fill();
    end
}

fn wait_until_stored(client: &mut Client, name: &str) {
    let begun = std::time::Instant::now();
    while write(client, name, -1, &"y".repeat(100_000)).0 != 0 {
        assert!(begun.elapsed() < PATIENCE, "{name} takes nothing any more");
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
}

/// Makes room, given the end of the large log.
type Deletion = fn(&mut Client, i64);

#[test]
fn on_a_full_disk_topics_and_records_can_be_deleted_and_then_there_is_room_again() {
    // With what goes first into the reserve: what `cluster.json` said before is dropped, which is room for what it says now.
    let deletions: [(bool, Deletion); 2] = [
        (false, |client, _| {
            let request = DeleteTopicsRequest::default().with_topic_names(vec![topic("large")]);
            assert_eq!(client.call(5, &request).responses[0].error_code, 0);
        }),
        (true, |client, before| {
            let partition = DeleteRecordsPartition::default().with_offset(before);
            let asked =
                DeleteRecordsTopic::default().with_name(topic("large")).with_partitions(vec![partition]);
            let answer = client.call(1, &DeleteRecordsRequest::default().with_topics(vec![asked]));
            assert_eq!(answer.topics[0].partitions[0].error_code, 0);
        }),
    ];
    for (takes_reserve, delete) in deletions {
        let Some(disk) = SmallDisk::mount(16 << 20) else { return };
        let data = disk.path().join("data");
        let said: Arc<Mutex<Vec<String>>> = Arc::default();
        let broker = faulty(&data, &[], &said);
        let mut client = Client::connect(broker.kafka_addr());
        for name in ["large", "other"] {
            assert_eq!(create(&mut client, name, &[("segment.bytes", "1048576")]).0, 0);
        }
        assert_eq!(write(&mut client, "other", -1, "before"), (0, 0));
        // What is not sealed can't go, and sealing takes room: a disk is rarely filled within a second.
        let value = "x".repeat(200_000);
        while !std::fs::read_to_string(data.join("log/large-0/manifest"))
            .is_ok_and(|text| text.contains("max_timestamp"))
        {
            assert_eq!(write(&mut client, "large", -1, &value).0, 0, "full, and no segment is sealed");
            std::thread::sleep(std::time::Duration::from_millis(100));
        }
        let end = fill_topic(&mut client, &disk, "large");
        assert_eq!(write(&mut client, "other", -1, &"y".repeat(100_000)), (STORAGE_ERROR, -1));
        let has_said = |piece: &str| said.lock().unwrap().iter().any(|line| line.contains(piece));
        // A round of housekeeping that had some room when it began gives it back.
        let begun = std::time::Instant::now();
        while !has_said("can't clean the log") {
            assert!(begun.elapsed() < PATIENCE, "{said:?}");
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        disk.fill();
        assert!(!has_said("reserve"), "{said:?}");
        delete(&mut client, end);
        wait_until_stored(&mut client, "other");
        let given_up = "into the reserve in";
        assert!(has_said(given_up) || !takes_reserve, "{said:?}");
        let begun = std::time::Instant::now();
        while has_said(given_up) && !has_said("the disk has free space again") {
            assert!(begun.elapsed() < PATIENCE, "{said:?}");
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        broker.stop().unwrap();
        let broker = faulty(&data, &[], &said);
        let mut client = Client::connect(broker.kafka_addr());
        assert_eq!(read_all(&mut client, "other")[0], "before");
        broker.stop().unwrap();
    }
}
