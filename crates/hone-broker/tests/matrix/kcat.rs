//! kcat as a player of cells: a process for each thing it does, its arguments never a shell's line.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::SocketAddr;
use std::process::{Child, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::program::Play;
use super::stored::{number, value};
use super::support::{PATIENCE, program};

const MEMBERS: usize = 3;

pub(crate) struct Kcat {
    broker: String,
}

type Steps = Result<Vec<Value>, String>;

impl Kcat {
    pub(crate) fn new(broker: SocketAddr) -> Self {
        Self { broker: broker.to_string() }
    }

    fn spawn(&self, arguments: &[&str]) -> Result<Child, String> {
        let mut command = program("kcat");
        command.args(["-b", &self.broker]).args(arguments);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command.spawn().map_err(|error| format!("{command:?}: {error}"))
    }

    /// Runs it to its end; what it said. An exit code that tells of a failure is believed, one that does not is not.
    fn run(&self, arguments: &[&str], input: &str) -> Result<String, String> {
        let mut child = self.spawn(arguments)?;
        let mut stdin = child.stdin.take().unwrap();
        let input = input.to_owned();
        let writer = std::thread::spawn(move || stdin.write_all(input.as_bytes()));
        let output = child.wait_with_output().map_err(|error| error.to_string())?;
        let _ = writer.join();
        let errors = String::from_utf8_lossy(&output.stderr);
        if !output.status.success() {
            return Err(format!("kcat {arguments:?}: {errors}"));
        }
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }

    /// Records of one topic as `partition value`, in the order in which they came.
    fn records(&self, arguments: &[&str]) -> Result<Vec<(i32, String)>, String> {
        let said = self.run(&[arguments, &["-f", "%p %s\n", "-q"]].concat(), "")?;
        said.lines().map(|line| record(line).ok_or_else(|| format!("kcat said `{line}`"))).collect()
    }

    fn produce(&self, given: &Given) -> Steps {
        let records: usize = given.number("records")?;
        let lines: String = (0..records).map(|number| format!("key {number}:{}\n", value(number))).collect();
        let (acks, idempotent) =
            (given.setting("acks", "acks"), given.setting("enable.idempotence", "idempotent"));
        let arguments =
            ["-P", "-t", given.text("topic"), "-K", ":", "-z", given.text("codec"), "-X", "linger.ms=50"];
        self.run(&[&arguments[..], &["-X", &acks, "-X", &idempotent]].concat(), &lines)?;
        Ok(vec![json!({ "step": "produce", "records": records })])
    }

    fn round_trip(&self, given: &Given) -> Steps {
        let topic = given.text("topic");
        let headers = ["-H", "a=1", "-H", "b=", "-H", "a=2"];
        let sent: [(&[&str], &str); 4] = [
            (&[], "null key\n"),
            (&["-K", ":", "-Z"], "tombstone:\n"),
            (&["-K", ":"], ":\n"),
            (&["-K", ":"], "headers:v\n"),
        ];
        for (index, (arguments, line)) in sent.into_iter().enumerate() {
            let headers = if index == 3 { &headers[..] } else { &[] };
            self.run(&[&["-P", "-t", topic], arguments, headers].concat(), line)?;
        }
        let said = self.run(&["-C", "-t", topic, "-e", "-q", "-J"], "")?;
        let mut records = Vec::new();
        for line in said.lines() {
            let read: Value = serde_json::from_str(line).map_err(|error| format!("`{line}`: {error}"))?;
            let empty = Vec::new();
            let headers = read["headers"].as_array().unwrap_or(&empty);
            let pairs: Vec<Value> = headers.chunks(2).map(|pair| json!(pair)).collect();
            records.push(json!({ "key": read["key"], "value": read["payload"], "headers": pairs }));
        }
        Ok(vec![json!({ "step": "round-trip", "records": records })])
    }

    fn consume(&self, given: &Given) -> Steps {
        let isolation = given.setting("isolation.level", "isolation");
        let isolation =
            if given.text("isolation").is_empty() { "isolation.level=read_uncommitted" } else { &isolation };
        let records =
            self.records(&["-C", "-t", given.text("topic"), "-o", "beginning", "-e", "-X", isolation])?;
        let mut sums: BTreeMap<i32, (usize, flate2::Crc)> = BTreeMap::new();
        for (partition, content) in records {
            let (count, crc) = sums.entry(partition).or_insert_with(|| (0, flate2::Crc::new()));
            *count += 1;
            crc.update(content.as_bytes());
            crc.update(b"\n");
        }
        let partitions: BTreeMap<String, Value> = sums
            .into_iter()
            .map(|(name, (records, crc))| (name.to_string(), json!({ "records": records, "crc": crc.sum() })))
            .collect();
        Ok(vec![json!({ "step": "consume", "partitions": partitions })])
    }

    /// The first ones by their count, the rest to the end.
    fn resume(&self, given: &Given) -> Steps {
        let (topic, group, count) = (given.text("topic"), given.text("group"), given.text("first"));
        let from_start = ["-X", "auto.offset.reset=earliest"];
        let early = self.records(&[&["-G", group, topic, "-c", count], &from_start[..]].concat())?;
        let late = self.records(&[&["-G", group, topic, "-e"], &from_start[..]].concat())?;
        let distinct: BTreeSet<&String> = early.iter().chain(&late).map(|(_, content)| content).collect();
        Ok(vec![
            json!({ "step": "resume", "first": early.len(), "second": late.len(), "distinct": distinct.len() }),
        ])
    }

    fn join(&self, given: &Given, instance: Option<usize>) -> Result<Member, String> {
        let instance = instance.map(|instance| format!("group.instance.id=instance-{instance}"));
        let mut arguments = vec!["-u", "-G", given.text("group"), given.text("topic"), "-f", "%p %s\n"];
        for setting in ["auto.offset.reset=earliest", "heartbeat.interval.ms=200", "session.timeout.ms=10000"]
        {
            arguments.extend(["-X", setting]);
        }
        if let Some(instance) = &instance {
            arguments.extend(["-X", instance]);
        }
        Ok(Member::watch(self.spawn(&arguments)?))
    }

    fn group(&self, given: &Given) -> Steps {
        let (partitions, records): (usize, usize) = (given.number("partitions")?, given.number("records")?);
        let mut members = Vec::new();
        for _ in 0..MEMBERS {
            members.push(self.join(given, None)?);
        }
        let mut gone: Vec<Member> = Vec::new();
        let mut steps = Vec::new();
        for (index, phase) in ["three", "left", "joined"].into_iter().enumerate() {
            match phase {
                "left" => {
                    let mut last = members.pop().expect("three members");
                    last.leave()?;
                    gone.push(last);
                }
                "joined" => members.push(self.join(given, None)?),
                _ => (),
            }
            self.wave(given.text("topic"), index * records, records, partitions)?;
            let owned = settle(phase, &members, partitions)?;
            let wanted = (index + 1) * records;
            let distinct = || distinct(gone.iter().chain(&members));
            wait_for(
                || (distinct() >= wanted).then_some(()),
                || format!("{phase}: {} of {wanted} records", distinct()),
            )?;
            steps.push(json!({ "step": phase, "owned": owned, "distinct": distinct() }));
        }
        for member in &mut members {
            member.leave()?;
        }
        gone.append(&mut members);
        let read: usize = gone.iter().map(|member| member.seen().numbers.len()).sum();
        steps.push(json!({ "step": "group", "records": read, "distinct": distinct(gone.iter()) }));
        Ok(steps)
    }

    fn wave(&self, topic: &str, first: usize, count: usize, partitions: usize) -> Result<(), String> {
        for partition in 0..partitions {
            let numbers = (first..first + count).filter(|number| number % partitions == partition);
            let lines: String = numbers.map(|number| value(number) + "\n").collect();
            self.run(&["-P", "-t", topic, "-p", &partition.to_string()], &lines)?;
        }
        Ok(())
    }

    fn static_members(&self, given: &Given) -> Steps {
        let partitions: usize = given.number("partitions")?;
        let mut members = Vec::new();
        for instance in 0..MEMBERS {
            members.push(self.join(given, Some(instance))?);
        }
        let calm = |members: &[Member]| -> usize {
            members[..MEMBERS - 1].iter().map(|one| one.seen().revocations).sum()
        };
        let before = settle("three static members", &members, partitions)?;
        let revocations = calm(&members);
        members[MEMBERS - 1].leave()?;
        members[MEMBERS - 1] = self.join(given, Some(MEMBERS - 1))?;
        let after = settle("three static members again", &members, partitions)?;
        let revoked = calm(&members) != revocations;
        for member in &mut members {
            member.leave()?;
        }
        Ok(vec![json!({ "step": "static", "before": before, "after": after, "revoked": revoked })])
    }

    fn metadata(&self, arguments: &[&str]) -> Result<Value, String> {
        let said = self.run(&[&["-L", "-J"], arguments].concat(), "")?;
        serde_json::from_str(&said).map_err(|error| format!("`{said}`: {error}"))
    }

    fn describe_topic(&self, given: &Given) -> Steps {
        let said = self.metadata(&["-t", given.text("topic")])?;
        let partitions = said["topics"][0]["partitions"].as_array().map_or(0, Vec::len);
        Ok(vec![json!({ "step": "describe-topic", "partitions": partitions })])
    }

    fn describe_cluster(&self) -> Steps {
        let brokers = self.metadata(&[])?["brokers"].as_array().map_or(0, Vec::len);
        Ok(vec![json!({ "step": "describe-cluster", "brokers": brokers })])
    }

    fn list_offsets(&self, given: &Given) -> Steps {
        let offset = |at: &str| -> Result<i64, String> {
            let said = self.run(&["-Q", "-t", &format!("{}:0:{at}", given.text("topic"))], "")?;
            let last = said.split_whitespace().next_back().and_then(|word| word.parse().ok());
            last.ok_or_else(|| format!("kcat -Q said `{said}`"))
        };
        let (earliest, latest, at) = (offset("-2")?, offset("-1")?, offset(given.text("at"))?);
        Ok(vec![json!({ "step": "list-offsets", "earliest": earliest, "latest": latest, "at": at })])
    }

    /// All of its input is one transaction.
    fn transaction(&self, given: &Given) -> Steps {
        let (first, records): (usize, usize) = (given.number("first")?, given.number("records")?);
        let lines: String = (first..first + records).map(|number| value(number) + "\n").collect();
        self.run(&["-P", "-t", given.text("topic"), "-X", &given.setting("transactional.id", "id")], &lines)?;
        Ok(vec![json!({ "step": "txn", "records": records })])
    }
}

impl Play for Kcat {
    fn play(&mut self, cell: &str, parameters: &[(&str, &str)]) -> Steps {
        let given = Given(parameters);
        match cell {
            "produce" => self.produce(&given),
            "round-trip" => self.round_trip(&given),
            "consume" => self.consume(&given),
            "resume" => self.resume(&given),
            "group" => self.group(&given),
            "static" => self.static_members(&given),
            "admin-topic" => self.describe_topic(&given),
            "admin-delete" => self.describe_cluster(),
            "admin-log" => self.list_offsets(&given),
            "txn" => self.transaction(&given),
            other => Err(format!("kcat can not play {other}")),
        }
    }
}

/// Parameters of a cell.
struct Given<'a>(&'a [(&'a str, &'a str)]);

impl Given<'_> {
    fn text(&self, name: &str) -> &str {
        self.0.iter().find(|(known, _)| *known == name).map_or("", |(_, value)| value)
    }

    fn number(&self, name: &str) -> Result<usize, String> {
        self.text(name).parse().map_err(|error| format!("{name}: {error}"))
    }

    /// A parameter as one of librdkafka's settings.
    fn setting(&self, setting: &str, name: &str) -> String {
        format!("{setting}={}", self.text(name))
    }
}

fn record(line: &str) -> Option<(i32, String)> {
    let (partition, content) = line.split_once(' ')?;
    Some((partition.parse().ok()?, content.to_owned()))
}

/// What a member of a group has told so far.
#[derive(Default)]
struct Seen {
    owned: Vec<i32>,
    revocations: usize,
    numbers: Vec<usize>,
    errors: Vec<String>,
}

/// A kcat that consumes as a member of a group; killed when dropped.
struct Member {
    child: Child,
    seen: Arc<Mutex<Seen>>,
    readers: Vec<std::thread::JoinHandle<()>>,
}

impl Member {
    fn watch(mut child: Child) -> Self {
        let seen = Arc::new(Mutex::new(Seen::default()));
        let (output, errors) = (child.stdout.take().unwrap(), child.stderr.take().unwrap());
        let readers = vec![
            follow(output, &seen, |seen, line| {
                seen.numbers.extend(record(line).and_then(|(_, content)| number(content.as_bytes())));
            }),
            follow(errors, &seen, rebalance),
        ];
        Self { child, seen, readers }
    }

    fn seen(&self) -> std::sync::MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Asks it to go, and waits until it has: it commits and, unless static, leaves its group.
    fn leave(&mut self) -> Result<(), String> {
        let asked = program("kill").arg(self.child.id().to_string()).status();
        asked.map_err(|error| format!("kill: {error}"))?;
        self.child.wait().map_err(|error| error.to_string())?;
        for reader in self.readers.drain(..) {
            let _ = reader.join();
        }
        Ok(())
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn follow(
    stream: impl Read + Send + 'static,
    seen: &Arc<Mutex<Seen>>,
    note: impl Fn(&mut Seen, &str) + Send + 'static,
) -> std::thread::JoinHandle<()> {
    let seen = Arc::clone(seen);
    std::thread::spawn(move || {
        for line in BufReader::new(stream).lines().map_while(Result::ok) {
            note(&mut seen.lock().unwrap_or_else(|poisoned| poisoned.into_inner()), &line);
        }
    })
}

/// `% Group g rebalanced (memberid m): assigned: t [0], t [1]`
fn rebalance(seen: &mut Seen, line: &str) {
    let partitions = |list: &str| -> Vec<i32> {
        let number = |part: &str| part.rsplit_once('[')?.1.strip_suffix(']')?.parse().ok();
        list.split(", ").filter_map(number).collect()
    };
    if let Some((_, list)) = line.split_once("): assigned: ") {
        seen.owned = partitions(list);
    } else if line.contains("): revoked: ") {
        seen.owned.clear();
        seen.revocations += 1;
    } else if !line.starts_with("% Reached end") {
        seen.errors.push(line.to_owned());
    }
}

fn distinct<'a>(members: impl Iterator<Item = &'a Member>) -> usize {
    members.flat_map(|member| member.seen().numbers.clone()).collect::<BTreeSet<_>>().len()
}

fn wait_for<T>(mut condition: impl FnMut() -> Option<T>, what: impl Fn() -> String) -> Result<T, String> {
    let begun = Instant::now();
    loop {
        if let Some(found) = condition() {
            return Ok(found);
        }
        if begun.elapsed() > PATIENCE {
            return Err(format!("{} after {PATIENCE:?}", what()));
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// The members' partitions, once each has one owner and the numbers differ by one at most.
fn settle(step: &str, members: &[Member], partitions: usize) -> Result<Vec<Vec<i32>>, String> {
    let owned = || -> Vec<Vec<i32>> { members.iter().map(|member| member.seen().owned.clone()).collect() };
    let balanced = || {
        let owned = owned();
        let mut all = owned.concat();
        all.sort_unstable();
        let sizes = || owned.iter().map(Vec::len);
        let even = sizes().max().unwrap_or(0) - sizes().min().unwrap_or(0) <= 1;
        (even && all.into_iter().eq(0..partitions as i32)).then_some(owned)
    };
    let errors = || members.iter().flat_map(|member| member.seen().errors.clone()).collect::<Vec<_>>();
    wait_for(balanced, || format!("{step}: owned {:?}, {:?}", owned(), errors()))
}
