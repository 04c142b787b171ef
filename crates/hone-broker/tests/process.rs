//! The program: how it ends, what it refuses, and what survives `kill -9`.

mod support;

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use hone_kafka::Codec;
use kafka_protocol::messages::ProduceRequest;
use support::*;

/// Runs the program until it ends by itself: exit code and stderr.
fn refused(arguments: &[&str]) -> (i32, String) {
    let output = program(env!("CARGO_BIN_EXE_hone-broker")).args(arguments).output().unwrap();
    let errors = String::from_utf8(output.stderr).unwrap();
    assert!(output.stdout.is_empty(), "nothing is ready: {}", String::from_utf8_lossy(&output.stdout));
    (output.status.code().unwrap(), errors)
}

fn check_refused(arguments: &[&str], code: i32, wanted: &str) {
    let (found, errors) = refused(arguments);
    assert_eq!(found, code, "{errors}");
    assert!(errors.contains(wanted), "{errors}");
    let next: Vec<&str> = errors.lines().skip(1).collect();
    let is_clear = next.is_empty() || next.len() == 1 && next[0].starts_with("  next: ");
    assert!(!errors.is_empty() && is_clear, "one clear line, and the next step: {errors}");
}

#[test]
fn wrong_usage_is_code_2() {
    check_refused(&[], 2, "--data FOLDER is missing");
    check_refused(&["--data"], 2, "--data");
    check_refused(&["--data", "/tmp/x", "--bogus"], 2, "--bogus");
    check_refused(&["--data", "/tmp/x", "--listen", "localhost"], 2, "localhost");
    check_refused(
        &["--data", "/tmp/x", "--threads", "0"],
        2,
        "invalid --threads `0`: use a whole number from 1",
    );
}

#[test]
fn what_can_not_be_done_is_code_1() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let running = Process::start(&data, &[]);
    let path = data.to_str().unwrap();
    let holder = format!("in use by another broker (pid {})\n  next: stop that broker", running.id());
    check_refused(&["--data", path, "--listen", "127.0.0.1:0"], 1, &holder);
    let other = folder.path().join("other");
    let other = other.to_str().unwrap();
    let taken = running.kafka.to_string();
    check_refused(&["--data", other, "--listen", &taken], 1, &format!("can't listen on {taken}"));
    let file = folder.path().join("file");
    fs::write(&file, "").unwrap();
    check_refused(&["--data", file.join("below").to_str().unwrap()], 1, "can't create the data folder");
}

#[test]
fn an_unwritable_folder_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o500)).unwrap();
    // Root may write everywhere; then there is nothing to refuse.
    if fs::write(folder.path().join("probe"), "").is_err() {
        check_refused(&["--data", folder.path().to_str().unwrap()], 1, "can't write to the data folder");
    }
    // A folder that not even root may write into.
    check_refused(&["--data", "/proc/self/hone"], 1, "can't create the data folder /proc/self/hone");
}

#[test]
fn sigterm_ends_it_normally_with_its_topics_kept() {
    let folder = tempfile::tempdir().unwrap();
    let broker = Process::start(folder.path(), &[]);
    let mut client = Client::connect(broker.kafka);
    assert_eq!(create(&mut client, "kept", &[("compression.type", "zstd")]).0, 0);
    assert_eq!(produce(&mut client, "kept", batch(Codec::None, &["a", "b"])).error_code, 0);
    assert_eq!(broker.terminate().code(), Some(0));
    let broker = Process::start(folder.path(), &[]);
    let mut client = Client::connect(broker.kafka);
    assert_eq!(create(&mut client, "kept", &[]).0, 36);
    assert_eq!(read_all(&mut client, "kept"), ["a", "b"]);
    let stored = fetch(&mut client, "kept", 0);
    assert_eq!(hone_kafka::BatchHeader::parse(&stored).unwrap().codec(), Codec::Zstd);
}

/// Writes numbered records on one connection until the broker dies. Returns how many were acknowledged.
fn write_until_death(address: std::net::SocketAddr, name: &str, partition: i32, stop: &AtomicBool) -> i64 {
    let mut client = Client::connect(address);
    let mut acknowledged = 0;
    // Five in flight: some are written and not acknowledged when the end comes.
    let mut sent = 0;
    loop {
        while sent < acknowledged + 5 {
            let value = format!("{partition}-{sent}");
            let bytes = frame(7, 0, &produce_request(name, partition, batch(Codec::None, &[&value])));
            if client.stream.write_all(&bytes).is_err() {
                return acknowledged;
            }
            sent += 1;
        }
        let Some(body) = client.receive() else { return acknowledged };
        let (_, response) = decode::<ProduceRequest>(7, body);
        let partition = &response.responses[0].partition_responses[0];
        assert_eq!((partition.error_code, partition.base_offset), (0, acknowledged));
        acknowledged += 1;
        if acknowledged == 500 {
            stop.store(true, Ordering::Release);
        }
    }
}

#[test]
fn every_acknowledged_record_survives_kill_9_under_load() {
    const WRITERS: i32 = 4;
    let folder = tempfile::tempdir().unwrap();
    // `script/test --long` kills it often enough to meet rare moments.
    let rounds = if std::env::var_os("HONE_LONG").is_some() { 200 } else { 3 };
    for round in 0..rounds {
        let name = format!("t{round}");
        let broker = Process::start(folder.path(), &[]);
        let address = broker.kafka;
        let mut client = Client::connect(address);
        assert_eq!(
            client.call(5, &create_request(&name, WRITERS, &[("segment.bytes", "16384")])).topics[0]
                .error_code,
            0
        );
        let stop = AtomicBool::new(false);
        let acknowledged: Vec<i64> = std::thread::scope(|scope| {
            let writers: Vec<_> = (0..WRITERS)
                .map(|partition| {
                    scope.spawn({
                        let (name, stop) = (&name, &stop);
                        move || write_until_death(address, name, partition, stop)
                    })
                })
                .collect();
            while !stop.load(Ordering::Acquire) {
                std::thread::sleep(Duration::from_millis(1));
            }
            broker.kill_9();
            writers.into_iter().map(|writer| writer.join().unwrap()).collect()
        });
        let broker = Process::start(folder.path(), &[]);
        let mut client = Client::connect(broker.kafka);
        for (partition, acknowledged) in (0..WRITERS).zip(acknowledged) {
            let values = values_of(&mut client, &name, partition);
            assert!(
                values.len() as i64 >= acknowledged,
                "{} stored, {acknowledged} acknowledged",
                values.len()
            );
            for (index, value) in values.iter().enumerate() {
                assert_eq!(*value, format!("{partition}-{index}"));
            }
        }
    }
}

#[test]
fn a_torn_tail_is_cut_and_said_so() {
    let folder = tempfile::tempdir().unwrap();
    let broker = Process::start(folder.path(), &[]);
    let mut client = Client::connect(broker.kafka);
    create(&mut client, "t", &[]);
    for value in ["a", "b", "c"] {
        produce(&mut client, "t", batch(Codec::None, &[value]));
    }
    broker.kill_9();
    let log = folder.path().join("log/t-0/00000000000000000000.log");
    let mut bytes = fs::read(&log).unwrap();
    bytes.truncate(bytes.len() - 3);
    fs::write(&log, &bytes).unwrap();
    let errors = folder.path().join("stderr");
    let broker = start_with_stderr(folder.path(), &errors);
    let mut client = Client::connect(broker.kafka);
    assert_eq!(read_all(&mut client, "t"), ["a", "b"]);
    assert_eq!(produce(&mut client, "t", batch(Codec::None, &["d"])).base_offset, 2);
    let said = fs::read_to_string(&errors).unwrap();
    assert_eq!(said.lines().count(), 1, "{said}");
    assert!(
        said.contains("t-0: cut the torn tail of") && said.contains("t-0/00000000000000000000.log"),
        "{said}"
    );
}

fn start_with_stderr(data: &Path, errors: &Path) -> Process {
    Process::start_with(data, &[], fs::File::create(errors).unwrap().into())
}

/// CPU time of a process's reactors so far, in ticks of the kernel: the metrics tell how long they were busy by the wall
/// clock, which neighbours stretch.
#[cfg(feature = "planted-slowdown")]
fn reactor_ticks(id: u32) -> f64 {
    let threads = fs::read_dir(format!("/proc/{id}/task")).unwrap();
    let stats = threads.map(|thread| fs::read_to_string(thread.unwrap().path().join("stat")).unwrap());
    let ticks = stats.filter(|stat| stat.contains("(reactor-")).map(|stat| {
        let fields: Vec<_> = stat.rsplit_once(')').unwrap().1.split_whitespace().collect();
        // User and system time, fields 14 and 15 of proc_pid_stat(5).
        fields[11].parse::<f64>().unwrap() + fields[12].parse::<f64>().unwrap()
    });
    ticks.sum()
}

/// CPU time of the reactors for a number of Produce requests.
#[cfg(feature = "planted-slowdown")]
fn cpu_of_produce(environment: &[(&str, &str)]) -> f64 {
    let folder = tempfile::tempdir().unwrap();
    let broker =
        Process::start_in(folder.path(), &["--threads", "1"], std::process::Stdio::inherit(), environment);
    let mut client = Client::connect(broker.kafka);
    create(&mut client, "t", &[("compression.type", "gzip")]);
    let before = reactor_ticks(broker.id());
    let value = "some value ".repeat(200);
    for _ in 0..3_000 {
        assert_eq!(produce(&mut client, "t", batch(Codec::None, &[&value])).error_code, 0);
    }
    reactor_ticks(broker.id()) - before
}

#[cfg(feature = "planted-slowdown")]
#[test]
fn a_planted_slow_down_costs_what_it_says() {
    let plain = cpu_of_produce(&[]);
    let slowed = cpu_of_produce(&[("HONE_PLANTED_SLOWDOWN", "3.0")]);
    // Caches and clocks of a shared machine leave room.
    assert!(plain >= 10.0, "{plain} ticks are too few to compare");
    assert!((2.0..4.5).contains(&(slowed / plain)), "{plain} ticks became {slowed}");
}

#[cfg(not(feature = "planted-slowdown"))]
#[test]
fn a_normal_build_knows_no_slow_down() {
    let program_bytes = fs::read(env!("CARGO_BIN_EXE_hone-broker")).unwrap();
    let name = b"HONE_PLANTED_SLOWDOWN";
    assert!(!program_bytes.windows(name.len()).any(|window| window == name));
}

/// Emulators of user programs trace instructions where there are no counters, and know no io_uring.
#[test]
fn it_serves_under_an_emulator() {
    if !have("qemu-x86_64", program("qemu-x86_64").arg("--version")) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let mut child = program("qemu-x86_64")
        .arg(env!("CARGO_BIN_EXE_hone-broker"))
        .args(["--listen", "127.0.0.1:0", "--metrics-listen", "off", "--data"])
        .arg(folder.path())
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let kafka = line.split_whitespace().find_map(|word| word.strip_prefix("kafka=")).expect("a ready line");
    let mut client = Client::connect(kafka.parse().unwrap());
    assert_eq!(create(&mut client, "t", &[("compression.type", "zstd")]).0, 0);
    let values: Vec<String> = (0..100).map(|number| number.to_string()).collect();
    for values in values.chunks(10) {
        let values: Vec<&str> = values.iter().map(String::as_str).collect();
        assert_eq!(produce(&mut client, "t", batch(Codec::Lz4, &values)).error_code, 0);
    }
    assert_eq!(read_all(&mut client, "t"), values);
    child.kill().unwrap();
    child.wait().unwrap();
}
