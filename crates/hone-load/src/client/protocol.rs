//! The line protocol between Hone and a client program: docs/client-protocol.md. The code is pure.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use hone_record::Workload;

use super::Material;
use crate::security::Security;
use crate::settings::Settings;

/// The version of the protocol.
pub(super) const GREETING: &str = "hone-client 1";
/// A longer line is not valid.
pub(super) const LINE_LIMIT_BYTES: usize = 64 << 10;
/// Largest number of due times per line.
pub(super) const DUES_A_LINE: usize = 1_000;

/// Files that the program reads.
#[derive(Debug, Clone, Copy)]
pub(super) struct Files<'a> {
    /// Keys and values, in turn.
    pub records: &'a std::path::Path,
    /// The producer of each record, in turn, where they have one.
    pub turns: Option<&'a std::path::Path>,
}

/// The settings that the program gets before the load.
pub(super) fn introduction(
    to: &Settings,
    topic: &str,
    workload: &Workload,
    settings: &BTreeMap<String, String>,
    files: Files<'_>,
) -> Result<String, String> {
    let acks = if workload.acks == -1 { "all".to_owned() } else { workload.acks.to_string() };
    let mut text = format!(
        "{GREETING}\nbootstrap {}\ntopic {topic}\nacks {acks}\ncompression {}\nidempotent {}\n\
         timeout_ms {}\nproducers {}\nrecords {}\n",
        to.address,
        workload.compression,
        workload.idempotent,
        (workload.timeout_s * 1e3).ceil() as u64,
        workload.connections,
        files.records.display(),
    );
    if let Some(turns) = files.turns {
        let _ = writeln!(text, "turns {}", turns.display());
    }
    let own = settings.iter().map(|(key, value)| (format!("set {key}"), value.clone()));
    for (name, value) in security_lines(&to.security).into_iter().chain(own) {
        if name.split(' ').count() > 2 || [&name, &value].iter().any(|text| text.contains(['\n', '\r'])) {
            return Err(format!(
                "`{name}` can't be a line: a key must not contain a space, a value must not contain a line \
                 end"
            ));
        }
        let _ = writeln!(text, "{name} {value}");
    }
    text.push_str("prepare\n");
    Ok(text)
}

/// TLS and the login, so that the program's connections are as private as Hone's own.
fn security_lines(security: &Security) -> Vec<(String, String)> {
    let mut lines = Vec::new();
    let mut line = |name: &str, value: String| lines.push((name.to_owned(), value));
    if let Some(tls) = &security.tls {
        line("tls", if tls.believe_anyone { "believe-anyone" } else { "verify" }.to_owned());
        let file = |file: &std::path::Path| {
            std::path::absolute(file).unwrap_or(file.to_owned()).display().to_string()
        };
        for (name, path) in
            [("tls_ca", &tls.authorities), ("tls_cert", &tls.certificate), ("tls_key", &tls.key)]
        {
            if let Some(path) = path {
                line(name, file(path));
            }
        }
        if let Some(name) = &tls.server_name {
            line("tls_server_name", name.clone());
        }
    }
    if let Some(sasl) = &security.sasl {
        line("sasl_mechanism", sasl.mechanism.name().to_owned());
        line("sasl_user", sasl.user.clone());
        line("sasl_password", sasl.password.reveal().to_owned());
    }
    lines
}

/// Keys and values for the program, which uses them in turn: 32-bit big-endian lengths (-1 for no key) and bytes.
pub(super) fn records_file(material: &[Material]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for record in material {
        match &record.key {
            Some(key) => {
                bytes.extend_from_slice(&(key.len() as i32).to_be_bytes());
                bytes.extend_from_slice(key);
            }
            None => bytes.extend_from_slice(&(-1_i32).to_be_bytes()),
        }
        bytes.extend_from_slice(&(record.value.len() as i32).to_be_bytes());
        bytes.extend_from_slice(&record.value);
    }
    bytes
}

/// Due times as lines, nanoseconds since the stretch's start.
pub(super) fn due_lines(dues: &[u64]) -> String {
    let mut text = String::with_capacity(dues.len() * 12 + 8);
    for line in dues.chunks(DUES_A_LINE) {
        text.push_str("due");
        for due_ns in line {
            let _ = write!(text, " {due_ns}");
        }
        text.push('\n');
    }
    text
}

/// A message of the program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Said {
    /// A setting in force.
    Using { key: String, value: String },
    /// The program is ready for a stretch; the text names its software.
    Ready { software: String },
    /// The program can't continue, and the reason.
    Failed { why: String },
    /// A record came to its end.
    Ended(Ended),
    /// All ends of the stretch are reported.
    Done,
}

/// The end of a record; times are nanoseconds since the stretch's start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Ended {
    /// Number within the stretch, from 0.
    pub index: u64,
    pub handed_over_ns: u64,
    pub ended_ns: u64,
    /// Partition and offset (-1 if unknown), or the error's name.
    pub stored: Result<(i32, i64), String>,
    /// Whether the client had no room for it when it was due.
    pub waited: bool,
}

/// Reads one line; the error states the problem with it.
pub(super) fn parse(line: &str) -> Result<Said, String> {
    let (verb, rest) = line.split_once(' ').unwrap_or((line, ""));
    match verb {
        "ack" | "fail" => ended(verb, rest).map(Said::Ended),
        "done" if rest.is_empty() => Ok(Said::Done),
        "ready" => Ok(Said::Ready { software: rest.trim().to_owned() }),
        "error" => Ok(Said::Failed { why: rest.to_owned() }),
        "using" => {
            let (key, value) = rest.split_once(' ').unwrap_or((rest, ""));
            Ok(Said::Using { key: key.to_owned(), value: value.to_owned() })
        }
        _ => Err("the line begins with none of `ready`, `using`, `ack`, `fail`, `done`, `error`".to_owned()),
    }
}

fn ended(verb: &str, rest: &str) -> Result<Ended, String> {
    let mut words = rest.split(' ');
    let mut next =
        |what: &str| words.next().filter(|word| !word.is_empty()).ok_or(format!("{what} is missing"));
    let index = number(next("the number of the record")?)?;
    let handed_over_ns = number(next("the time of the hand-over")?)?;
    let ended_ns = number(next("the time of the end")?)?;
    let stored = if verb == "ack" {
        Ok((number(next("the partition")?)?, number(next("the offset")?)?))
    } else {
        Err(next("the error's name")?.to_owned())
    };
    let waited = match words.next() {
        None => false,
        Some("waited") => true,
        Some(word) => return Err(format!("`{word}` is not valid here, only `waited` is")),
    };
    if let Some(word) = words.next() {
        return Err(format!("`{word}` follows the end"));
    }
    Ok(Ended { index, handed_over_ns, ended_ns, stored, waited })
}

fn number<T: std::str::FromStr>(word: &str) -> Result<T, String> {
    word.parse().map_err(|_| format!("`{word}` is not a number in range"))
}

/// Tolerance for a record sent before it is due, and for a time ahead of now, since the clocks are read one after the other.
const EARLY_NS: u64 = 1_000_000;

/// The records of a stretch with and without an end, to check the reports.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    /// Due time of each record; `None` once its end is reported.
    open: std::collections::VecDeque<Option<u64>>,
    /// Number of the first record in `open`.
    first: u64,
    /// Records without an end.
    pub unended: u64,
}

impl Ledger {
    /// The next record is due at this time.
    pub(super) fn announce(&mut self, due_ns: u64) {
        self.open.push_back(Some(due_ns));
        self.unended += 1;
    }

    /// Checks the end of a record and returns its due time.
    pub(super) fn end(&mut self, ended: &Ended, now_ns: u64) -> Result<u64, String> {
        let index = ended.index;
        let slot =
            index.checked_sub(self.first).and_then(|offset| self.open.get_mut(usize::try_from(offset).ok()?));
        let Some(slot) = slot else {
            let last = self.first + self.open.len() as u64;
            return Err(if index < last {
                format!("the end of record {index} was already reported")
            } else {
                format!("record {index} was never due, only {last} were")
            });
        };
        let due_ns = slot.ok_or_else(|| format!("the end of record {index} was already reported"))?;
        if ended.handed_over_ns.saturating_add(EARLY_NS) < due_ns {
            return Err(format!(
                "record {index} was sent {} µs before it was due: the client does not keep the schedule",
                (due_ns - ended.handed_over_ns) / 1_000
            ));
        }
        if ended.ended_ns > now_ns.saturating_add(EARLY_NS) || ended.ended_ns < ended.handed_over_ns {
            return Err(format!(
                "record {index} was sent at {} µs and ended at {} µs, but it is {} µs now: times must come \
                 from CLOCK_MONOTONIC, minus the start",
                ended.handed_over_ns / 1_000,
                ended.ended_ns / 1_000,
                now_ns / 1_000
            ));
        }
        *slot = None;
        self.unended -= 1;
        while self.open.front().is_some_and(Option::is_none) {
            self.open.pop_front();
            self.first += 1;
        }
        Ok(due_ns)
    }

    /// Due times of the records without an end; this ends them.
    pub(super) fn forgotten(&mut self) -> Vec<u64> {
        self.first += self.open.len() as u64;
        self.unended = 0;
        self.open.drain(..).flatten().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::security::{Mechanism, Password, Sasl, Tls};

    fn ack(index: u64, handed_over_ns: u64, ended_ns: u64) -> Ended {
        Ended { index, handed_over_ns, ended_ns, stored: Ok((1, 7)), waited: false }
    }

    #[test]
    fn lines_are_read() {
        for (line, said) in [
            ("ready kgo v1.2", Said::Ready { software: "kgo v1.2".into() }),
            ("using linger.ms 5 or so", Said::Using { key: "linger.ms".into(), value: "5 or so".into() }),
            ("ack 3 10 20 1 7", Said::Ended(ack(3, 10, 20))),
            ("ack 3 10 20 1 7 waited", Said::Ended(Ended { waited: true, ..ack(3, 10, 20) })),
            ("fail 3 10 20 timeout", Said::Ended(Ended { stored: Err("timeout".into()), ..ack(3, 10, 20) })),
            ("error no broker", Said::Failed { why: "no broker".into() }),
            ("done", Said::Done),
        ] {
            assert_eq!(parse(line).unwrap(), said, "{line}");
        }
    }

    #[test]
    fn other_lines_are_refused_with_a_reason() {
        for (line, reason) in [
            ("", "begins with none"),
            ("ACK 1 2 3 4 5", "begins with none"),
            ("done now", "begins with none"),
            ("ack", "the number of the record is missing"),
            ("ack 1 2 3 4", "the offset is missing"),
            ("ack 1 2 3 4 5 6", "`6` is not valid here, only `waited` is"),
            ("ack 1 2 3 4 5 waited long", "`long` follows the end"),
            ("ack -1 2 3 4 5", "`-1` is not a number in range"),
            ("ack 1 99999999999999999999 3 4 5", "is not a number in range"),
            ("ack 1  3 4 5", "the time of the hand-over is missing"),
            ("fail 1 2 3", "the error's name is missing"),
        ] {
            let error = parse(line).unwrap_err();
            assert!(error.contains(reason), "{line}: {error}");
        }
    }

    #[test]
    fn the_introduction_says_everything_once() {
        let workload: Workload = serde_json::from_value(serde_json::json!({
            "name": "test", "seed": 1, "schedule": "uniform", "requests_per_s": 1.0, "records_per_batch": 1,
            "record_bytes": 1, "payload": {"bytes": {"compressible_share": 0.0}}, "compression": "none",
            "connections": 1, "in_flight": 1, "partitions": 1, "partitions_per_request": 1, "acks": 1,
            "warmup_requests": 0, "duration_s": 1.0, "timeout_s": 1.5, "topic_config": {},
        }))
        .unwrap();
        let to = Settings {
            address: "b:9092".to_owned(),
            security: Security {
                tls: Some(Tls { authorities: Some("/ca.pem".into()), ..Tls::default() }),
                sasl: Some(Sasl {
                    mechanism: Mechanism::Plain,
                    user: "ada".to_owned(),
                    password: Password::new("a b".to_owned()),
                }),
            },
            variant: String::new(),
            storage: String::new(),
            topic: crate::settings::Topic::Fresh,
            lateness_limit_us: 1.0,
            shard: None,
        };
        let settings = BTreeMap::from([("linger.ms".to_owned(), "5".to_owned())]);
        let path = std::path::Path::new;
        let files = Files { records: path("/r"), turns: Some(path("/t")) };
        let text = introduction(&to, "t", &workload, &settings, files).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!((lines[0], lines[lines.len() - 1]), (GREETING, "prepare"));
        for line in [
            "bootstrap b:9092",
            "topic t",
            "acks 1",
            "timeout_ms 1500",
            "records /r",
            "turns /t",
            "tls verify",
            "tls_ca /ca.pem",
            "sasl_mechanism PLAIN",
            "sasl_user ada",
            "sasl_password a b",
            "set linger.ms 5",
        ] {
            assert!(lines.contains(&line), "{line} is missing in {text}");
        }
        for (key, value) in [("a b", "c"), ("a", "b\nerror")] {
            let settings = BTreeMap::from([(key.to_owned(), value.to_owned())]);
            let refused = introduction(&to, "t", &workload, &settings, files);
            assert!(refused.is_err(), "{key}={value}");
        }
    }

    #[test]
    fn each_record_ends_once_and_in_its_time() {
        let mut ledger = Ledger::default();
        [0, 5_000_000, 9_000_000].into_iter().for_each(|due_ns| ledger.announce(due_ns));
        let now_ns = 10_000_000;
        assert_eq!(ledger.end(&ack(1, 5_000_100, 6_000_000), now_ns), Ok(5_000_000));
        for (wrong, reason) in [
            (ack(1, 5_000_100, 6_000_000), "already reported"),
            (ack(3, 9_000_000, 9_500_000), "record 3 was never due, only 3 were"),
            (ack(u64::MAX, 0, 0), "never due"),
            (ack(2, 7_000_000, 9_000_000), "2000 µs before it was due"),
            (ack(2, 9_000_000, 12_000_000), "CLOCK_MONOTONIC"),
            (ack(2, 9_000_000, 8_000_000), "CLOCK_MONOTONIC"),
        ] {
            let error = ledger.end(&wrong, now_ns).unwrap_err();
            assert!(error.contains(reason), "{wrong:?}: {error}");
        }
        assert_eq!(ledger.end(&ack(0, 0, 1), now_ns), Ok(0));
        assert!(ledger.end(&ack(0, 0, 1), now_ns).unwrap_err().contains("already reported"));
        assert_eq!(ledger.unended, 1);
        assert_eq!(ledger.forgotten(), [9_000_000]);
        assert_eq!(ledger.unended, 0);
    }

    #[test]
    fn times_go_in_lines_of_bounded_length() {
        assert_eq!(due_lines(&[1, 22]), "due 1 22\n");
        assert_eq!(due_lines(&vec![7; DUES_A_LINE + 1]).lines().count(), 2);
        assert_eq!(due_lines(&[]), "");
    }

    #[test]
    fn records_are_length_and_bytes() {
        let keyed = Material { key: Some(b"k".to_vec()), value: b"vv".to_vec() };
        let plain = Material { key: None, value: Vec::new() };
        let file = records_file(&[keyed, plain]);
        assert_eq!(file, *b"\0\0\0\x01k\0\0\0\x02vv\xff\xff\xff\xff\0\0\0\0");
    }

    /// Any output of a program gives a reason or a meaning, never a panic.
    #[test]
    fn mutated_lines_do_no_harm() {
        let good = ["ack 3 10 20 1 7 waited", "fail 3 10 20 timeout", "using a b", "ready x", "done"];
        for line in good {
            for at in 0..line.len() {
                for byte in [b' ', b'-', b'9', b'\t', b'a', 0x7f] {
                    let mut bytes = line.as_bytes().to_vec();
                    bytes[at] = byte;
                    let text = String::from_utf8_lossy(&bytes).into_owned();
                    if let Ok(Said::Ended(ended)) = parse(&text) {
                        let mut ledger = Ledger::default();
                        (0..5).for_each(|_| ledger.announce(0));
                        let _ = ledger.end(&ended, 1_000);
                    }
                    let _ = parse(&text[..at]);
                }
            }
        }
    }
}
