//! Counters of misses, for a PMU without slots: virtual machines often pass on only a few events. Reads `perf stat -e
//! instructions,L1-icache-load-misses,iTLB-load-misses` as text, JSON or CSV.

use std::collections::BTreeMap;

use hone_record::{CounterMisses, Missed};
use serde_json::{Deserializer, Map, Value};

use super::json::{scope_in, without_last_commas};
use super::number::decimal;

/// Vendors' event names for the same quantity, without PMU and modifiers, in lower case.
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

/// Names in records.
pub const L1I: &str = "L1i";
/// See [`L1I`].
pub const ITLB: &str = "iTLB";

/// Below the first share of the time a counter is rejected; below the second it gets a note.
const LEAST_RUNNING_PERCENT: f64 = 30.0;
const GOOD_RUNNING_PERCENT: f64 = 90.0;

/// Counts of one scope, or the reason why they are rejected.
pub type Scoped = (Option<String>, Result<CounterMisses, String>);

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Of {
    Instructions,
    Lines,
    Pages,
}

/// A counter by its requested event. Counters of several PMUs form one, since each counts on its own cores.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Event {
    of: Of,
    /// Modes (user, kernel and so on) as sorted letters; empty means all modes.
    modes: String,
    /// Its index among the names for the same quantity.
    name: usize,
}

/// A printed counter.
struct Line {
    scope: Option<String>,
    event: Event,
    count: f64,
    running_percent: Option<f64>,
}

/// All counters, by core or thread if perf separated them. `None` without a counter of misses.
pub fn read(text: &str) -> Option<Vec<Scoped>> {
    let mut sums: BTreeMap<Option<String>, Sums> = BTreeMap::new();
    for line in lines(&super::clean::clean(text)) {
        let sums = sums.entry(line.scope).or_default();
        let sum = sums.counts.entry(line.event).or_default();
        sum.count += line.count;
        sum.running_percent = least(sum.running_percent, line.running_percent);
    }
    let has_misses = |sums: &Sums| sums.counts.keys().any(|event| event.of != Of::Instructions);
    sums.retain(|_, sums| has_misses(sums));
    (!sums.is_empty()).then(|| sums.into_iter().map(|(scope, sums)| (scope, sums.judged())).collect())
}

fn least(one: Option<f64>, other: Option<f64>) -> Option<f64> {
    match (one, other) {
        (Some(one), Some(other)) => Some(f64::min(one, other)),
        (one, other) => one.or(other),
    }
}

/// A counter over all of its lines.
#[derive(Debug, Clone, Copy, Default)]
struct Sum {
    count: f64,
    running_percent: Option<f64>,
}

#[derive(Default)]
struct Sums {
    counts: BTreeMap<Event, Sum>,
}

impl Sums {
    /// The first name with a count, in these modes. Several names of one quantity are not added.
    fn sum(&self, of: Of, modes: &str) -> Option<Sum> {
        self.counts.iter().find(|(event, _)| event.of == of && event.modes == modes).map(|(_, sum)| *sum)
    }

    /// The modes in which instructions were counted together with the most kinds of misses.
    fn modes(&self) -> Result<&str, String> {
        let counted =
            self.counts.iter().filter(|(event, sum)| event.of == Of::Instructions && sum.count > 0.0);
        let with_misses = counted.map(|(event, _)| {
            let modes = event.modes.as_str();
            ([Of::Lines, Of::Pages].iter().filter(|of| self.sum(**of, modes).is_some()).count(), modes)
        });
        match with_misses.min_by_key(|(misses, _)| std::cmp::Reverse(*misses)) {
            None => Err("instructions were not counted together with the misses: -e \
                instructions,L1-icache-load-misses"
                .to_owned()),
            Some((0, _)) => Err("instructions and misses were counted in different modes (:u, :k): -e \
                                 instructions:u,L1-icache-load-misses:u"
                .to_owned()),
            Some((_, modes)) => Ok(modes),
        }
    }

    fn judged(self) -> Result<CounterMisses, String> {
        let modes = self.modes()?;
        let [instructions, lines, pages] =
            [Of::Instructions, Of::Lines, Of::Pages].map(|of| self.sum(of, modes));
        let taken = [instructions, lines, pages];
        let running_percent =
            taken.iter().flatten().fold(None, |so_far, sum| least(so_far, sum.running_percent));
        let instructions = instructions.map_or(0.0, |sum| sum.count);
        if let Some(share) = running_percent.filter(|share| *share < LEAST_RUNNING_PERCENT) {
            return Err(format!(
                "it was counted for only {share:.0} % of the time, and Hone rejects counters below \
                 {LEAST_RUNNING_PERCENT:.0} %: count fewer events"
            ));
        }
        let (mut misses, mut notes) = (Vec::new(), Vec::new());
        for (of, sum, structure) in [(Of::Lines, lines, L1I), (Of::Pages, pages, ITLB)] {
            let Some(Sum { count, .. }) = sum else {
                if self.counts.keys().any(|event| event.of == of) {
                    notes.push(format!(
                        "misses of the {structure} are left out: they were counted in other modes (:u, :k) \
                         than the instructions"
                    ));
                }
                continue;
            };
            if count > instructions {
                return Err(format!(
                    "{count:.0} misses of the {structure} in {instructions:.0} instructions are impossible"
                ));
            }
            misses.push(Missed { structure: structure.to_owned(), per_1000: 1_000.0 * count / instructions });
        }
        let some = running_percent.filter(|share| *share < GOOD_RUNNING_PERCENT);
        notes.extend(some.map(|share| format!("counted for {share:.0} % of the time: counters took turns")));
        Ok(CounterMisses { instructions: instructions as u64, misses, notes })
    }
}

fn lines(text: &str) -> Vec<Line> {
    if text.lines().any(|line| line.trim_start().starts_with('{')) {
        return text.lines().flat_map(of_json).collect();
    }
    for separator in [';', '\t', '|', ','] {
        let lines: Vec<Line> = text.lines().filter_map(|line| of_fields(line, separator)).collect();
        if !lines.is_empty() {
            return lines;
        }
    }
    text.lines().filter_map(of_text).collect()
}

/// Quantity of an event: `cpu_core/L1-icache-load-misses/u`, `instructions:u`.
fn of_event(event: &str) -> Option<Event> {
    let (inner, behind) = match event.split_once('/') {
        Some((_, inner)) => inner.rsplit_once('/')?,
        None => (event, ""),
    };
    let (name, modifier) = inner.split_once(':').unwrap_or((inner, behind));
    let name = name.to_ascii_lowercase();
    let known: [(&[&str], Of); 3] =
        [(&INSTRUCTIONS, Of::Instructions), (&LINES, Of::Lines), (&PAGES, Of::Pages)];
    known.into_iter().find_map(|(names, of)| {
        let name = names.iter().position(|known| *known == name)?;
        Some(Event { of, modes: modes(modifier), name })
    })
}

/// The part of a modifier that names the counted modes. The other letters request precision, or a place on the PMU.
fn modes(modifier: &str) -> String {
    let modes: String =
        ['G', 'H', 'h', 'k', 'u'].into_iter().filter(|mode| modifier.contains(*mode)).collect();
    // Without these letters, both are counted.
    if modes == "ku" || modes == "hku" { String::new() } else { modes }
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
            scope: scope_in(&object),
            event: of_event(object.get("event")?.as_str()?)?,
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
        event: of_event(fields[at])?,
        count: whole(fields[at - 2])?,
        running_percent: fields.get(at + 2).and_then(|field| decimal(field)),
    })
}

/// `    5,472,824      L1-icache-load-misses:u     #  3.4 ...   (49.98%)`, after a time or a thread.
fn of_text(line: &str) -> Option<Line> {
    let left = line.rsplit_once(" # ").map_or(line, |(left, _)| left);
    let words: Vec<&str> = left.split_whitespace().collect();
    let at = words.iter().position(|word| of_event(word).is_some())?;
    // A locale may group digits by spaces.
    let is_digits = |word: &&&str| word.bytes().all(|byte| byte.is_ascii_digit() || b",.".contains(&byte));
    let digits = words[..at].iter().rev().take_while(is_digits).count();
    let is_time = |word: &str| word.split_once(['.', ',']).is_some_and(|(_, places)| places.len() >= 6);
    let has_cpus = at.checked_sub(digits + 1).is_some_and(|scope| is_of_several_cpus(words[scope]));
    let first = at - digits + usize::from(digits > 1 && (has_cpus || is_time(words[at - digits])));
    let scope =
        words[..at - digits].iter().filter(|word| !is_time(word)).copied().collect::<Vec<_>>().join(" ");
    let running = line.rsplit_once('(').and_then(|(_, share)| decimal(share.trim_end().strip_suffix("%)")?));
    Some(Line {
        scope: Some(scope).filter(|scope| !scope.is_empty()),
        event: of_event(words[at])?,
        count: whole(&words[first..at].concat())?,
        running_percent: running,
    })
}

/// `S0`, `S0-D0-C1`, `N1`, `S0-D0-L3-ID0`: sockets, dies, cores, nodes and caches. perf prints their number of CPUs after them.
fn is_of_several_cpus(scope: &str) -> bool {
    const KINDS: [&str; 7] = ["S", "D", "CLS", "L", "ID", "C", "N"];
    scope.split('-').all(|part| {
        let (kind, number) =
            part.split_at(part.find(|sign: char| sign.is_ascii_digit()).unwrap_or(part.len()));
        KINDS.contains(&kind) && !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit())
    })
}

/// A count: groups of digits with any separator, or `18693525.000000`.
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
    type CountedScope = (Option<String>, Vec<(String, f64)>);

    fn per_1000(text: &str) -> Vec<CountedScope> {
        let read = read(text).unwrap();
        let of = |counted: CounterMisses| {
            counted.misses.into_iter().map(|missed| (missed.structure, missed.per_1000)).collect()
        };
        read.into_iter().map(|(scope, counted)| (scope, of(counted.unwrap()))).collect()
    }

    #[test]
    fn misses_are_read_in_every_shape() {
        let wanted = vec![(None, vec![(L1I.to_owned(), 12.5), (ITLB.to_owned(), 0.5)])];
        let text = " Performance counter stats for process id '1':\n\n     2,000,000      instructions:u                     (66.67%)\n        \
                    25,000      L1-icache-load-misses:u   #  12 K/sec   (95.10%)\n         1,000      iTLB-load-misses:u    (99.0%)\n";
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
    fn what_is_counted_twice_is_not_added_up() {
        let lines = |per_1000: f64| vec![(None, vec![(L1I.to_owned(), per_1000)])];
        let twice = "2000 instructions\n 1900 instructions:u\n 50 L1-icache-load-misses\n";
        assert_eq!(per_1000(twice), lines(25.0));
        assert_eq!(
            per_1000(
                "2000;;instructions;1;100.00;;\n2001;;inst_retired.any;1;100.00;;\n50;;l1i_cache_refill;1;100.00;;\n"
            ),
            lines(25.0)
        );
        // A rarely counted event is rejected.
        let user = "2000 instructions:u\n 2500 instructions (9.0%)\n 50 cpu/L1-icache-load-misses/u\n";
        assert_eq!(per_1000(user), lines(25.0));
        // Cores of two kinds count each for themselves, and precision is no mode.
        let hybrid =
            "1000 cpu_core/instructions/\n 1000 cpu_atom/instructions/\n 50 L1-icache-load-misses:ukpp\n";
        assert_eq!(per_1000(hybrid), lines(25.0));
        let apart = read("2000 instructions\n 50 L1-icache-load-misses\n 5 iTLB-load-misses:u\n").unwrap();
        let apart = apart[0].1.as_ref().unwrap();
        assert_eq!(apart.misses.len(), 1);
        assert!(apart.notes[0].contains("misses of the iTLB are left out"), "{:?}", apart.notes);
        let neither =
            read("2000 instructions\n 50 L1-icache-load-misses:u\n").unwrap().remove(0).1.unwrap_err();
        assert!(neither.contains("different modes"), "{neither}");
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
    fn how_many_cpus_a_socket_has_is_no_part_of_its_count() {
        let of = |scope: &str| {
            let text =
                format!("{scope}  4  2,000,000  instructions\n{scope}  4  25 000  L1-icache-load-misses\n");
            per_1000(&text).remove(0)
        };
        for scope in ["S0", "S0-D0-C1", "N1", "S0-D0-L3-ID0"] {
            assert_eq!(of(scope), (Some(scope.to_owned()), vec![(L1I.to_owned(), 12.5)]));
            let timed = of(&format!("     1.000100000 {scope}"));
            assert_eq!(timed, (Some(scope.to_owned()), vec![(L1I.to_owned(), 12.5)]));
        }
        assert!(
            !["CPU0", "reactor-1-77", "S", "0", "s0", "S0x", "", "S0-"].into_iter().any(is_of_several_cpus)
        );
        // One CPU is printed without a number of them.
        let alone = "CPU0  2 000 000  instructions\nCPU0  25 000  L1-icache-load-misses\n";
        assert_eq!(per_1000(alone), vec![(Some("CPU0".to_owned()), vec![(L1I.to_owned(), 12.5)])]);
    }

    #[test]
    fn what_can_not_be_is_refused() {
        let of = |text: &str| read(text).map(|mut read| read.remove(0).1);
        assert_eq!(of("1000 instructions\n"), None, "no misses are counted");
        assert_eq!(of("<not supported> L1-icache-load-misses\n 100 instructions\n"), None);
        let alone = of("5 L1-icache-load-misses\n").unwrap().unwrap_err();
        assert!(alone.contains("instructions were not counted"), "{alone}");
        let many = of("5 L1-icache-load-misses\n 4 instructions\n").unwrap().unwrap_err();
        assert!(many.contains("in 4 instructions are impossible"), "{many}");
        let seldom = of("5 L1-icache-load-misses (12.50%)\n 400 instructions (99.0%)\n");
        assert!(seldom.unwrap().unwrap_err().contains("12 % of the time"));
    }
}
