//! Pauses of all threads, from the unified log (`-Xlog:gc*,safepoint`, JDK 9 to 25).
//!
//! A safepoint's line is written as the threads go on, so its time is the end of the pause. Its total begins when the virtual machine asks the
//! threads to stop. Lines of collections tell the kind of the pause, which the safepoint's name hides.

use serde::{Deserialize, Serialize};

/// A pause of all threads.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Pause {
    /// When the threads went on, by the decoration that the log has.
    pub end: LogTime,
    /// From the request to stop until the threads went on, in milliseconds.
    pub total_ms: f64,
    /// The part until the last thread had stopped, in milliseconds.
    pub reaching_ms: f64,
    /// Who asked: `G1CollectForAllocation`, `Cleanup`, `ThreadDump`.
    pub operation: String,
    /// What was collected, for example `Pause Young (Mixed) (G1 Evacuation Pause)`; empty if nothing was.
    pub collection: String,
}

impl Pause {
    /// What to call it: the collection, or the operation.
    pub fn name(&self) -> &str {
        if self.collection.is_empty() { &self.operation } else { &self.collection }
    }

    /// Whether it is a pause of a collector.
    pub fn is_collection(&self) -> bool {
        !self.collection.is_empty()
    }
}

/// The time of a line.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LogTime {
    /// Milliseconds since 1970, in UTC.
    Unix(f64),
    /// Seconds since the virtual machine started.
    Uptime(f64),
}

/// What was read of a log.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct PauseLog {
    /// In the order of the log.
    pub pauses: Vec<Pause>,
    /// Lines of safepoints or pauses that were not understood, such as a line that the end of the file cuts.
    pub not_understood: u64,
    /// Whether the log has lines of safepoints at all. Without them, pauses are those of collections only.
    pub has_safepoints: bool,
}

/// A collection's pause that waits for the line of its safepoint.
#[derive(Debug)]
struct Collected {
    name: String,
    took_ms: f64,
    end: LogTime,
}

impl PauseLog {
    /// Reads a log. Other lines are skipped.
    pub fn parse(text: &str) -> Self {
        let mut found = Self::default();
        let mut waiting: Vec<Collected> = Vec::new();
        for line in text.lines() {
            let Some(line) = Line::parse(line) else { continue };
            if line.has_tag("safepoint") {
                if line.said.starts_with("Safepoint \"") || line.said.starts_with("Total time for which") {
                    found.has_safepoints = true;
                    match safepoint(&line, &mut waiting) {
                        Some(pause) => found.pauses.push(pause),
                        None => found.not_understood += 1,
                    }
                }
            } else if line.has_tag("gc") && !line.has_tag("start") && !line.has_tag("stats") {
                waiting.extend(collected(&line));
            }
        }
        if !found.has_safepoints {
            found.pauses = waiting.into_iter().map(Pause::from).collect();
        }
        found
    }

    /// The time of all pauses in milliseconds.
    pub fn total_ms(&self) -> f64 {
        self.pauses.iter().map(|pause| pause.total_ms).sum()
    }
}

impl From<Collected> for Pause {
    fn from(collected: Collected) -> Self {
        Self {
            end: collected.end,
            total_ms: collected.took_ms,
            reaching_ms: 0.0,
            operation: String::new(),
            collection: collected.name,
        }
    }
}

/// A line of the log: its decorations, and its text.
struct Line<'a> {
    time: LogTime,
    tags: &'a str,
    said: &'a str,
}

impl<'a> Line<'a> {
    /// `None` without a time or tags.
    fn parse(line: &'a str) -> Option<Self> {
        let (mut rest, mut unix, mut uptime, mut tags) = (line, None, None, None);
        while let Some((mark, after)) = rest.strip_prefix('[').and_then(|inner| inner.split_once(']')) {
            let mark = mark.trim();
            unix = unix.or_else(|| unix_ms(mark));
            uptime = uptime.or_else(|| uptime_s(mark));
            let is_tags = mark
                .split(',')
                .all(|tag| !tag.is_empty() && tag.bytes().all(|byte| byte.is_ascii_lowercase()));
            if is_tags && !LEVELS.contains(&mark) {
                tags = Some(mark);
            }
            rest = after;
        }
        let time = unix.map(LogTime::Unix).or(uptime.map(LogTime::Uptime))?;
        Some(Self { time, tags: tags?, said: rest.trim() })
    }

    fn has_tag(&self, tag: &str) -> bool {
        self.tags.split(',').any(|one| one == tag)
    }
}

const LEVELS: [&str; 5] = ["trace", "debug", "info", "warning", "error"];

/// `2026-11-30T09:17:40.739+0000`.
fn unix_ms(mark: &str) -> Option<f64> {
    let part = |from: usize, to: usize| mark.get(from..to)?.parse::<i64>().ok();
    let is_at = |at: usize, byte: u8| mark.as_bytes().get(at) == Some(&byte);
    if !(is_at(4, b'-') && is_at(7, b'-') && is_at(10, b'T') && is_at(13, b':') && is_at(16, b':')) {
        return None;
    }
    let (year, month, day) = (part(0, 4)?, part(5, 7)?, part(8, 10)?);
    let (hour, minute, second) = (part(11, 13)?, part(14, 16)?, part(17, 19)?);
    let rest = mark.get(19..)?;
    let zone_at = rest.find(['+', '-', 'Z'])?;
    let (fraction, zone) = rest.split_at(zone_at);
    let fraction: f64 =
        if fraction.is_empty() { 0.0 } else { format!("0{fraction}").replace(',', ".").parse().ok()? };
    let offset_s = match zone.trim_start_matches(['+', '-']).replace(':', "") {
        digits if digits.len() == 4 => {
            let minutes =
                digits.get(..2)?.parse::<i64>().ok()? * 60 + digits.get(2..)?.parse::<i64>().ok()?;
            if zone.starts_with('-') { -minutes * 60 } else { minutes * 60 }
        }
        _ => 0,
    };
    let days = days_from_civil(year, month, day)?;
    let seconds = days * 86_400 + hour * 3_600 + minute * 60 + second - offset_s;
    Some((seconds as f64 + fraction) * 1e3)
}

/// Days since 1970 of a date of the Gregorian calendar (Howard Hinnant, *chrono-compatible low-level date algorithms*, 2013).
fn days_from_civil(year: i64, month: i64, day: i64) -> Option<i64> {
    if !(1..=12).contains(&month) || !(1..=31).contains(&day) {
        return None;
    }
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let of_era = year - era * 400;
    let of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    Some(era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468)
}

/// `0.039s`, or `39ms`.
fn uptime_s(mark: &str) -> Option<f64> {
    if let Some(ms) = mark.strip_suffix("ms") {
        return ms.parse::<u64>().ok().map(|ms| ms as f64 / 1e3);
    }
    let seconds = mark.strip_suffix('s')?;
    let is_number = seconds.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.' || byte == b',');
    is_number.then(|| seconds.replace(',', ".").parse().ok()).flatten()
}

fn safepoint(line: &Line<'_>, waiting: &mut Vec<Collected>) -> Option<Pause> {
    let (operation, total_ms, reaching_ms) = if let Some(rest) = line.said.strip_prefix("Safepoint \"") {
        let (operation, parts) = rest.split_once('"')?;
        let nanoseconds = |name: &str| {
            let (_, behind) = parts.split_once(name)?;
            behind.split_whitespace().next()?.parse::<u64>().ok().map(|ns| ns as f64 / 1e6)
        };
        // Every release has these two; a line that is cut has no unit behind the total.
        let total = parts.split_once("Total:").filter(|(_, behind)| behind.contains(" ns"))?;
        let total = total.1.split_whitespace().next()?.parse::<u64>().ok()? as f64 / 1e6;
        (operation.to_owned(), total, nanoseconds("Reaching safepoint:").unwrap_or(0.0))
    } else {
        // JDK 9 to 12: `Total time for which application threads were stopped: 0.0013 seconds, Stopping threads took: 0.0001 seconds`.
        let mut seconds = line
            .said
            .split("seconds")
            .filter_map(|part| part.rsplit_once(": ")?.1.trim().parse::<f64>().ok());
        let total = seconds.next().filter(|_| line.said.contains(" seconds"))?;
        (String::new(), total * 1e3, seconds.next().unwrap_or(0.0) * 1e3)
    };
    let collection = waiting.drain(..).max_by(|one, other| one.took_ms.total_cmp(&other.took_ms));
    Some(Pause {
        end: line.time,
        total_ms,
        reaching_ms,
        operation,
        collection: collection.map(|collected| collected.name).unwrap_or_default(),
    })
}

/// `GC(2) Pause Young (Normal) (G1 Evacuation Pause) 22M->1M(96M) 1.327ms`, also as a phase of ZGC: `GC(0) Y: Pause Mark End 0.016ms`.
fn collected(line: &Line<'_>) -> Option<Collected> {
    let (_, rest) = line.said.strip_prefix("GC(")?.split_once(") ")?;
    let rest = rest.strip_prefix("Y: ").or_else(|| rest.strip_prefix("O: ")).unwrap_or(rest);
    if !rest.starts_with("Pause ") {
        return None;
    }
    let (name, took) = rest.rsplit_once(' ')?;
    let took_ms = took.strip_suffix("ms")?.parse::<f64>().ok()?;
    // The sizes of the heap are no part of the name.
    let name = match name.rsplit_once(' ') {
        Some((name, sizes)) if sizes.contains("->") => name,
        _ => name,
    };
    Some(Collected { name: name.to_owned(), took_ms, end: line.time })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_of_all_zones_are_read() {
        assert_eq!(unix_ms("1970-01-01T00:00:00.000+0000"), Some(0.0));
        assert_eq!(unix_ms("2026-11-30T09:17:40.739+0000"), Some(1_796_030_260_739.0));
        assert_eq!(unix_ms("2026-11-30T10:17:40.739+0100"), Some(1_796_030_260_739.0));
        assert_eq!(unix_ms("2026-11-30T04:17:40.739-05:00"), Some(1_796_030_260_739.0));
        for no_date in ["info", "0.039s", "2026-13-01T00:00:00.000+0000", "2026-11-30", ""] {
            assert_eq!(unix_ms(no_date), None, "{no_date}");
        }
        assert_eq!(
            ["0.039s", "39ms", "1,5s", "gcs", "s"].map(uptime_s),
            [Some(0.039), Some(0.039), Some(1.5), None, None]
        );
    }

    #[test]
    fn an_older_release_and_a_log_of_collections_alone_are_read() {
        let old = "[1.000s][info][safepoint] Total time for which application threads were stopped: 0.0123 seconds, Stopping threads took: 0.0100 seconds\n";
        let found = PauseLog::parse(old);
        assert_eq!((found.pauses[0].total_ms, found.pauses[0].reaching_ms), (12.3, 10.0));
        let alone = "[0.050s][info][gc,start    ] GC(1) Pause Young (Normal) (G1 Evacuation Pause)\n\
                     [0.051s][info][gc          ] GC(1) Pause Young (Normal) (G1 Evacuation Pause) 22M->1M(96M) 1.327ms\n";
        let found = PauseLog::parse(alone);
        assert!(!found.has_safepoints);
        assert_eq!(found.pauses.len(), 1);
        assert_eq!(found.pauses[0].name(), "Pause Young (Normal) (G1 Evacuation Pause)");
        assert_eq!((found.pauses[0].total_ms, found.pauses[0].end), (1.327, LogTime::Uptime(0.051)));
    }

    #[test]
    fn a_line_that_is_cut_is_counted_and_not_guessed() {
        let cut = "[0.050s][info][safepoint] Safepoint \"G1CollectForAllocation\", Time since last: 1 ns, Reaching safepoint: 3 ns, Total: 13";
        let found = PauseLog::parse(cut);
        assert_eq!((found.pauses.len(), found.not_understood), (0, 1));
        assert_eq!(PauseLog::parse("").pauses.len(), 0);
    }

    proptest::proptest! {
        #[test]
        fn no_log_panics(text in "[\\[\\]a-zSP\"0-9., :()\n+-]{0,160}") {
            PauseLog::parse(&text);
        }
    }
}
