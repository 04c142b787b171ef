//! Counters of misses, where a PMU has no slots: virtual machines often pass a few events on and not the rest. `perf stat -e
//! instructions,L1-icache-load-misses,iTLB-load-misses`, as text, JSON or CSV.

use std::collections::BTreeMap;

use hone_record::{Counted, Missed};
use serde_json::{Deserializer, Map, Value};

use super::json::{scope_in, without_last_commas};
use super::number::decimal;

/// Names of vendors' events for the same thing, without PMU and modifiers, in lower case.
const INSTRUCTIONS: [&str; 4] = ["instructions", "inst_retired", "inst_retired.any", "ex_ret_instr"];
const LINES: [&str; 5] = [
    "l1-icache-load-misses",
    "l1i_cache_refill",
    "icache_64b.iftag_miss",
    "frontend_retired.l1i_miss",
    "ic_tag_hit_miss.instruction_cache_miss",
];
const PAGES: [&str; 5] = [
    "itlb-load-misses",
    "itlb_misses.walk_completed",
    "itlb_walk",
    "l1i_tlb_refill",
    "bp_l1_tlb_miss_l2_tlb_miss.all",
];

/// How records name them.
pub const L1I: &str = "L1i";
/// See [`L1I`].
pub const ITLB: &str = "iTLB";

/// Counted for less of the time, nothing is believed; for less than the second, a note says so.
const LEAST_RUNNING_PERCENT: f64 = 30.0;
const GOOD_RUNNING_PERCENT: f64 = 90.0;

/// What was counted of a scope, or why it is not believed.
pub type Scoped = (Option<String>, Result<Counted, String>);

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Of {
    Instructions,
    Lines,
    Pages,
}

/// A printed counter.
struct Line {
    scope: Option<String>,
    of: Of,
    count: f64,
    running_percent: Option<f64>,
}

/// Everything that was counted, by core or thread where perf told them apart. `None` where there is no counter of misses.
pub fn read(text: &str) -> Option<Vec<Scoped>> {
    let mut sums: BTreeMap<Option<String>, Sums> = BTreeMap::new();
    for line in lines(text) {
        let sum = sums.entry(line.scope.clone()).or_default();
        *sum.counts.entry(line.of).or_insert(0.0) += line.count;
        sum.running_percent = match (sum.running_percent, line.running_percent) {
            (Some(one), Some(other)) => Some(f64::min(one, other)),
            (one, other) => one.or(other),
        };
    }
    let has_misses = |sums: &Sums| sums.counts.keys().any(|of| *of != Of::Instructions);
    sums.retain(|_, sums| has_misses(sums));
    (!sums.is_empty()).then(|| sums.into_iter().map(|(scope, sums)| (scope, sums.judged())).collect())
}

#[derive(Default)]
struct Sums {
    counts: BTreeMap<Of, f64>,
    running_percent: Option<f64>,
}

impl Sums {
    fn judged(self) -> Result<Counted, String> {
        let instructions = self.counts.get(&Of::Instructions).copied().filter(|count| *count > 0.0);
        let instructions = instructions
            .ok_or("no instructions were counted beside the misses: -e instructions,L1-icache-load-misses")?;
        if let Some(share) = self.running_percent.filter(|share| *share < LEAST_RUNNING_PERCENT) {
            return Err(format!(
                "it was counted for {share:.0} % of the time only; below {LEAST_RUNNING_PERCENT:.0} % nothing is believed: count fewer events"
            ));
        }
        let mut misses = Vec::new();
        for (of, structure) in [(Of::Lines, L1I), (Of::Pages, ITLB)] {
            let Some(&count) = self.counts.get(&of) else { continue };
            if count > instructions {
                return Err(format!(
                    "{count:.0} misses of the {structure} of {instructions:.0} instructions can't be"
                ));
            }
            misses.push(Missed { structure: structure.to_owned(), per_1000: 1_000.0 * count / instructions });
        }
        let some = self.running_percent.filter(|share| *share < GOOD_RUNNING_PERCENT);
        let note = some.map(|share| format!("counted for {share:.0} % of the time: counters took turns"));
        Ok(Counted { instructions: instructions as u64, misses, notes: note.into_iter().collect() })
    }
}

fn lines(text: &str) -> Vec<Line> {
    if text.lines().any(|line| line.trim_start().starts_with('{')) {
        return text.lines().flat_map(of_json).collect();
    }
    for separator in [';', '\t', ','] {
        let lines: Vec<Line> = text.lines().filter_map(|line| of_fields(line, separator)).collect();
        if !lines.is_empty() {
            return lines;
        }
    }
    text.lines().filter_map(of_text).collect()
}

/// What an event counts: `cpu_core/L1-icache-load-misses/`, `instructions:u`.
fn of_event(event: &str) -> Option<Of> {
    let inner =
        event.split_once('/').map_or(event, |(_, inner)| inner.trim_end_matches(|sign: char| sign != '/'));
    let name = inner.trim_end_matches('/').split(':').next()?.to_ascii_lowercase();
    let known: [(&[&str], Of); 3] =
        [(&INSTRUCTIONS, Of::Instructions), (&LINES, Of::Lines), (&PAGES, Of::Pages)];
    known.into_iter().find(|(names, _)| names.contains(&name.as_str())).map(|(_, of)| of)
}

fn of_json(line: &str) -> Vec<Line> {
    let mended = without_last_commas(line.trim());
    let objects = Deserializer::from_str(&mended).into_iter::<Map<String, Value>>();
    let line = |object: Map<String, Value>| {
        let count = match object.get("counter-value")? {
            Value::Number(number) => number.as_f64(),
            Value::String(text) => decimal(text),
            _ => None,
        };
        Some(Line {
            scope: scope_in(&object).map(str::to_owned),
            of: of_event(object.get("event")?.as_str()?)?,
            count: count?,
            running_percent: object.get("pcnt-running").and_then(Value::as_f64),
        })
    };
    objects.flatten().filter_map(line).collect()
}

/// `[time] [scope] value unit event running share`.
fn of_fields(line: &str, separator: char) -> Option<Line> {
    let fields: Vec<&str> = line.split(separator).map(str::trim).collect();
    let at = fields.iter().position(|field| of_event(field).is_some()).filter(|at| *at >= 2)?;
    let front = &fields[..at - 2];
    let scope = front.iter().rev().find(|field| !field.is_empty() && decimal(field).is_none());
    Some(Line {
        scope: scope.map(|scope| (*scope).to_owned()),
        of: of_event(fields[at])?,
        count: whole(fields[at - 2])?,
        running_percent: fields.get(at + 2).and_then(|field| decimal(field)),
    })
}

/// `    5,472,824      L1-icache-load-misses:u     #  3.4 ...   (49.98%)`, behind a time or a thread.
fn of_text(line: &str) -> Option<Line> {
    let left = line.rsplit_once(" # ").map_or(line, |(left, _)| left);
    let words: Vec<&str> = left.split_whitespace().collect();
    let at = words.iter().position(|word| of_event(word).is_some())?;
    // A locale may group digits by blanks.
    let is_digits = |word: &&&str| word.bytes().all(|byte| byte.is_ascii_digit() || b",.".contains(&byte));
    let digits = words[..at].iter().rev().take_while(is_digits).count();
    let is_time = |word: &str| word.split_once(['.', ',']).is_some_and(|(_, places)| places.len() >= 6);
    let first = at - digits + usize::from(digits > 1 && is_time(words[at - digits]));
    let scope =
        words[..at - digits].iter().filter(|word| !is_time(word)).copied().collect::<Vec<_>>().join(" ");
    let running = line.rsplit_once('(').and_then(|(_, share)| decimal(share.trim_end().strip_suffix("%)")?));
    Some(Line {
        scope: Some(scope).filter(|scope| !scope.is_empty()),
        of: of_event(words[at])?,
        count: whole(&words[first..at].concat())?,
        running_percent: running,
    })
}

/// A count: groups of digits, however they are told apart, or `18693525.000000`.
fn whole(text: &str) -> Option<f64> {
    let text = text.strip_suffix(".000000").unwrap_or(text);
    let digits: String = text.chars().filter(char::is_ascii_digit).collect();
    let is_count = !digits.is_empty()
        && text.chars().all(|sign| sign.is_ascii_digit() || ",.\u{a0}\u{202f} ".contains(sign));
    is_count.then(|| digits.parse().ok()).flatten().filter(|count: &f64| count.is_finite())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A scope with its structures.
    type Told = (Option<String>, Vec<(String, f64)>);

    fn per_1000(text: &str) -> Vec<Told> {
        let read = read(text).unwrap();
        let of = |counted: Counted| {
            counted.misses.into_iter().map(|missed| (missed.structure, missed.per_1000)).collect()
        };
        read.into_iter().map(|(scope, counted)| (scope, of(counted.unwrap()))).collect()
    }

    #[test]
    fn misses_are_read_in_every_shape() {
        let wanted = vec![(None, vec![(L1I.to_owned(), 12.5), (ITLB.to_owned(), 0.5)])];
        let text = " Performance counter stats for process id '1':\n\n     2,000,000      instructions:u                     (66.67%)\n        \
                    25,000      L1-icache-load-misses:u   #  12 K/sec   (95.10%)\n         1,000      iTLB-load-misses    (99.0%)\n";
        assert_eq!(per_1000(text), wanted);
        assert!(read(text).unwrap()[0].1.as_ref().unwrap().notes[0].contains("67 %"));
        let json = "{\"counter-value\" : \"2000000.000000\", \"unit\" : \"\", \"event\" : \"cpu_core/instructions/\", \"event-runtime\" : 1, \
                    \"pcnt-running\" : 100.00, }\n{\"counter-value\" : \"25000.000000\", \"event\" : \"L1-icache-load-misses\", \
                    \"pcnt-running\" : 100.00}\n{\"counter-value\" : \"1000.000000\", \"event\" : \"iTLB-load-misses\", \"pcnt-running\" : 100.00}\n";
        assert_eq!(per_1000(json), wanted);
        let csv = "2000000;;inst_retired;100;100.00;;\n25000;;l1i_cache_refill;100;100.00;;\n1000;;l1i_tlb_refill;100;100.00;;\n";
        assert_eq!(per_1000(csv), wanted);
        assert_eq!(per_1000(&csv.replace(';', ",")), wanted);
    }

    #[test]
    fn intervals_add_up_and_threads_stay_apart() {
        let text = "     1.000100000  reactor-1-77        1,000,000      instructions\n     1.000100000  reactor-1-77    30,000   \
                    L1-icache-load-misses\n     2.000200000  reactor-1-77        1,000,000      instructions\n     2.000200000  \
                    reactor-1-77    50,000   L1-icache-load-misses\n     1.000100000  idle-78    1 000   instructions\n  1.000100000  \
                    idle-78  1   L1-icache-load-misses\n";
        let read = per_1000(text);
        assert_eq!(read[1], (Some("reactor-1-77".to_owned()), vec![(L1I.to_owned(), 40.0)]));
        assert_eq!(read[0], (Some("idle-78".to_owned()), vec![(L1I.to_owned(), 1.0)]));
    }

    #[test]
    fn what_can_not_be_is_refused() {
        let of = |text: &str| read(text).map(|mut read| read.remove(0).1);
        assert_eq!(of("1000 instructions\n"), None, "no misses are counted");
        assert_eq!(of("<not supported> L1-icache-load-misses\n 100 instructions\n"), None);
        assert!(of("5 L1-icache-load-misses\n").unwrap().unwrap_err().contains("no instructions"));
        assert!(of("5 L1-icache-load-misses\n 4 instructions\n").unwrap().unwrap_err().contains("can't be"));
        let seldom = of("5 L1-icache-load-misses (12.50%)\n 400 instructions (99.0%)\n");
        assert!(seldom.unwrap().unwrap_err().contains("12 % of the time"));
    }
}
