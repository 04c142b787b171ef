//! Notable findings in a profile. Pure: source text comes through a function. The thresholds are choices, not constants of nature;
//! docs/go.md states them.

use std::collections::{BTreeSet, HashMap};
use std::fmt;

use serde::{Deserialize, Serialize};

use super::pprof::{Line, Profile};
use super::source::loop_around;
use super::tables::{Names, Row, Table, is_standard, package_of, percent, table};

/// A function does little itself if its flat part is at most this part of its cumulative share ...
pub const WALKER_MOST_FLAT_OF_CUMULATIVE: f64 = 0.25;
/// ... and is notable from this cumulative share on. (The published case: a few per cent flat, 40 % cumulative.)
pub const WALKER_LEAST_CUMULATIVE_PERCENT: f64 = 20.0;
/// The largest number of calls between the loop and the function.
pub const WALKER_MOST_FRAMES_UP: usize = 2;
/// A function below its caller by this factor is a side branch of it, not its main path.
pub const SIDE_BRANCH_MOST_OF_CALLER: f64 = 0.8;
/// From this share of the CPU on, allocation and garbage collection are worth a look.
pub const GARBAGE_LEAST_PERCENT: f64 = 15.0;
/// From this share of the allocations on, the report names a place.
pub const ALLOCATOR_LEAST_PERCENT: f64 = 10.0;

/// A line of a source file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SourceLine {
    /// The file, as the profile names it.
    pub file: String,
    /// Line, counted from 1.
    pub line: i64,
}

/// A finding.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "finding")]
pub enum Finding {
    /// A function does little itself and costs much by its calls, and it is called in a loop: often it walks a growing collection, or
    /// recomputes something unchanged.
    Walker {
        /// The function.
        function: String,
        /// Its flat share of the CPU.
        flat_percent: f64,
        /// Its cumulative share.
        cumulative_percent: f64,
        /// The call that leads to it from inside the loop.
        called_at: SourceLine,
        /// The loop.
        loop_at: SourceLine,
        /// Calls between the loop and the function.
        frames_up: usize,
        /// Its own loop with most of its time: then the work is the product of both.
        own_loop: Option<SourceLine>,
    },
    /// Much CPU goes into allocating and collecting.
    Garbage {
        /// Share of the CPU in stacks that allocate or collect.
        percent: f64,
        /// Those of them in the collector's own threads.
        background_percent: f64,
        /// The function outside Go's own library that allocates most of it, and its share of the CPU by that.
        most_by: Option<(String, f64)>,
    },
    /// A function allocates much.
    Allocator {
        /// `alloc_space` or `alloc_objects`.
        kind: String,
        /// The function.
        function: String,
        /// Its flat share.
        percent: f64,
        /// Its allocations, in the unit of the profile.
        value: i64,
        /// The most frequent path to it, outermost first, the function itself last; without Go's own library.
        path: Vec<String>,
        /// The line that allocates most.
        at: SourceLine,
    },
}

impl fmt::Display for SourceLine {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}:{}", self.file, self.line)
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Walker {
                function,
                flat_percent,
                cumulative_percent,
                called_at,
                loop_at,
                frames_up,
                own_loop,
            } => {
                write!(
                    to,
                    "{function}: {flat_percent:.1} % flat, {cumulative_percent:.1} % cumulative, called in the loop of \
                     {loop_at} (by {called_at}"
                )?;
                match frames_up {
                    0 => write!(to, ")")?,
                    1 => write!(to, ", one call above)")?,
                    more => write!(to, ", {more} calls above)")?,
                }
                match own_loop {
                    Some(own) => {
                        write!(
                            to,
                            ", and spends it in its own loop at {own}: does the loop walk a growing \
                             collection?"
                        )
                    }
                    None => write!(to, ": does every iteration need it?"),
                }
            }
            Self::Garbage { percent, background_percent, most_by } => {
                write!(
                    to,
                    "{percent:.1} % of the CPU allocates or collects ({background_percent:.1} % in the background)"
                )?;
                match most_by {
                    Some((function, share)) => write!(to, "; most of it by {function} ({share:.1} %)"),
                    None => Ok(()),
                }
            }
            Self::Allocator { kind, function, percent, path, at, .. } => {
                write!(
                    to,
                    "{function}: {percent:.1} % of {kind}, most at {at}, by way of {}",
                    path.join(" > ")
                )
            }
        }
    }
}

/// Analyses a CPU profile. `own` are packages of the target; `source` returns the text of a source file that the profile names, or nothing.
///
/// # Errors
/// Fails when the profile has no values of the type `cpu`.
pub fn of_cpu(
    profile: &Profile,
    own: &BTreeSet<String>,
    source: &dyn Fn(&str) -> Option<String>,
) -> Result<Vec<Finding>, String> {
    let table = table(profile, "cpu")?;
    let index = profile.value_index("cpu").unwrap_or_default();
    let look = Look { profile, index, names: Names::from_profile(profile), total: table.total, own };
    let mut found = look.walkers(&table, source);
    found.extend(look.garbage());
    Ok(found)
}

/// Analyses an allocation profile: `alloc_space`, then `alloc_objects`.
///
/// # Errors
/// Fails when the profile has no values of these types.
pub fn of_allocations(profile: &Profile, own: &BTreeSet<String>) -> Result<Vec<Finding>, String> {
    let mut found = Vec::new();
    for kind in ["alloc_space", "alloc_objects"] {
        let table = table(profile, kind)?;
        let index = profile.value_index(kind).unwrap_or_default();
        let look = Look { profile, index, names: Names::from_profile(profile), total: table.total, own };
        let heavy = table.rows.iter().filter(|row| row.flat_percent >= ALLOCATOR_LEAST_PERCENT);
        found.extend(heavy.filter_map(|row| look.allocator(kind, row)));
    }
    Ok(found)
}

struct Look<'a> {
    profile: &'a Profile,
    index: usize,
    names: Names,
    total: i64,
    own: &'a BTreeSet<String>,
}

/// Weights by place.
type Weights<K> = HashMap<K, i64>;

impl Look<'_> {
    fn name(&self, line: Line) -> &str {
        &self.names.list[self.names.of_function[line.function]].0
    }

    fn foreign(&self, name: &str) -> bool {
        is_standard(package_of(name), self.own)
    }

    fn place(&self, line: Line) -> SourceLine {
        SourceLine { file: self.profile.functions[line.function].file.clone(), line: line.line }
    }

    /// The loop that contains a line, inside its own function.
    fn loop_of(&self, line: Line, source: &dyn Fn(&str) -> Option<String>) -> Option<SourceLine> {
        let function = &self.profile.functions[line.function];
        let at = loop_around(&source(&function.file)?, function.start_line, line.line)?;
        Some(SourceLine { file: function.file.clone(), line: at })
    }

    fn walkers(&self, table: &Table, source: &dyn Fn(&str) -> Option<String>) -> Vec<Finding> {
        let mut found: Vec<Finding> = table
            .rows
            .iter()
            .filter(|row| {
                row.flat as f64 <= row.cumulative as f64 * WALKER_MOST_FLAT_OF_CUMULATIVE
                    && row.cumulative_percent >= WALKER_LEAST_CUMULATIVE_PERCENT
                    && !self.foreign(&row.name)
            })
            .filter_map(|row| self.walker(row, table, source))
            .collect();
        let share = |finding: &Finding| match finding {
            Finding::Walker { cumulative_percent, .. } => *cumulative_percent,
            _ => 0.0,
        };
        found.sort_by(|a, b| share(b).total_cmp(&share(a)));
        found
    }

    fn walker(&self, row: &Row, table: &Table, source: &dyn Fn(&str) -> Option<String>) -> Option<Finding> {
        let ways = self.ways_to(&row.name);
        let (frames_up, called_at, loop_at) = (0..=WALKER_MOST_FRAMES_UP).find_map(|up| {
            let call = heaviest(&ways.callers[up])?;
            Some((up, self.place(call), self.loop_of(call, source)?))
        })?;
        let own_loop = heaviest(&ways.inside).and_then(|inside| self.loop_of(inside, source));
        let caller = heaviest(&ways.callers[0]).and_then(|call| table.row(self.name(call)));
        let side_branch = caller.is_none_or(|caller| {
            row.cumulative as f64 <= caller.cumulative as f64 * SIDE_BRANCH_MOST_OF_CALLER
        });
        (own_loop.is_some() || side_branch).then(|| Finding::Walker {
            function: row.name.clone(),
            flat_percent: row.flat_percent,
            cumulative_percent: row.cumulative_percent,
            called_at,
            loop_at,
            frames_up,
            own_loop,
        })
    }

    /// The callers of a function, and the lines with its calls, by weight.
    fn ways_to(&self, name: &str) -> Ways {
        let mut ways = Ways::default();
        for sample in &self.profile.samples {
            let value = sample.values[self.index];
            let frames: Vec<Line> = self.profile.frames(sample).collect();
            let Some(at) = frames.iter().rposition(|&frame| self.name(frame) == name) else { continue };
            if at > 0 {
                *ways.inside.entry(frames[at]).or_default() += value;
            }
            for (up, callers) in ways.callers.iter_mut().enumerate() {
                if let Some(&caller) = frames.get(at + 1 + up) {
                    *callers.entry(caller).or_default() += value;
                }
            }
        }
        ways
    }

    fn garbage(&self) -> Option<Finding> {
        let (mut all, mut background) = (0_i64, 0_i64);
        let mut by: Weights<&str> = HashMap::new();
        for sample in &self.profile.samples {
            let value = sample.values[self.index];
            let names: Vec<&str> = self.profile.frames(sample).map(|frame| self.name(frame)).collect();
            if names.contains(&"runtime.gcBgMarkWorker") || names.contains(&"runtime.bgsweep") {
                background = background.saturating_add(value);
            } else if !names
                .iter()
                .any(|name| name.starts_with("runtime.mallocgc") || *name == "runtime.gcAssistAlloc")
            {
                continue;
            } else if let Some(&name) = names.iter().find(|name| !self.foreign(name)) {
                *by.entry(name).or_default() += value;
            }
            all = all.saturating_add(value);
        }
        let share = percent(all, self.total);
        let most_by = by.into_iter().max_by(|a, b| a.1.cmp(&b.1).then_with(|| b.0.cmp(a.0)));
        (share >= GARBAGE_LEAST_PERCENT).then(|| Finding::Garbage {
            percent: share,
            background_percent: percent(background, self.total),
            most_by: most_by.map(|(name, value)| (name.to_owned(), percent(value, self.total))),
        })
    }

    fn allocator(&self, kind: &str, row: &Row) -> Option<Finding> {
        let mut paths: Weights<Vec<&str>> = HashMap::new();
        let mut lines: Weights<Line> = HashMap::new();
        for sample in &self.profile.samples {
            let frames: Vec<Line> = self.profile.frames(sample).collect();
            let Some(&leaf) = frames.first().filter(|&&leaf| self.name(leaf) == row.name) else { continue };
            let value = sample.values[self.index];
            *lines.entry(leaf).or_default() += value;
            let callers =
                frames[1..].iter().map(|&frame| self.name(frame)).filter(|name| !self.foreign(name));
            let mut path: Vec<&str> = callers.collect();
            path.reverse();
            path.push(self.name(leaf));
            *paths.entry(path).or_default() += value;
        }
        let path = paths.into_iter().max_by(|a, b| a.1.cmp(&b.1).then_with(|| b.0.cmp(&a.0)))?.0;
        Some(Finding::Allocator {
            kind: kind.to_owned(),
            function: row.name.clone(),
            percent: row.flat_percent,
            value: row.flat,
            path: path.into_iter().map(str::to_owned).collect(),
            at: self.place(heaviest(&lines)?),
        })
    }
}

#[derive(Default)]
struct Ways {
    /// Lines of the function with a call.
    inside: Weights<Line>,
    /// The call that leads to it, and those above.
    callers: [Weights<Line>; WALKER_MOST_FRAMES_UP + 1],
}

/// The heaviest line; the first one among equals.
fn heaviest(weights: &Weights<Line>) -> Option<Line> {
    let order = |line: &Line| (line.function, line.line, line.column);
    weights
        .iter()
        .max_by(|a, b| a.1.cmp(b.1).then_with(|| order(b.0).cmp(&order(a.0))))
        .map(|(line, _)| *line)
}

#[cfg(test)]
mod tests {
    use super::super::pprof::tests::{cpu, of_kind};
    use super::*;

    const COLLECT: &str = "func collect() {\n\tfor {\n\t\tappend1()\n\t}\n}\n";
    const APPEND: &str = "func append1() {\n\tput()\n\tif n%64 == 0 {\n\t\tsize()\n\t}\n}\n";
    const SIZE: &str = "func size() {\n\tfor _, r := range batch {\n\t\tn += one(r)\n\t}\n}\n";

    fn source(file: &str) -> Option<String> {
        let text = match file {
            "/src/main.collect.go" => COLLECT,
            "/src/main.append1.go" => APPEND,
            "/src/main.size.go" => SIZE,
            _ => return None,
        };
        Some(text.to_owned())
    }

    const PUBLISHED: [(&str, i64); 4] = [
        ("main.main:9>main.collect:3>main.append1:4>main.size:3>main.one:1", 38),
        ("main.main:9>main.collect:3>main.append1:4>main.size:2", 3),
        ("main.main:9>main.collect:3>main.append1:2>main.put:1", 29),
        ("main.main:9>main.collect:3>main.write:7", 30),
    ];

    #[test]
    fn the_published_case_stands_out() {
        let found = of_cpu(&cpu(&PUBLISHED), &BTreeSet::new(), &source).unwrap();
        let size = found
            .iter()
            .find(|finding| matches!(finding, Finding::Walker { function, .. } if function == "main.size"));
        let text = size.unwrap().to_string();
        assert_eq!(
            text,
            "main.size: 3.0 % flat, 41.0 % cumulative, called in the loop of /src/main.collect.go:2 (by \
             /src/main.collect.go:3, one call above), and spends it in its own loop at /src/main.size.go:2: does the \
             loop walk a growing collection?"
        );
        let stem = |name: &str| {
            found
                .iter()
                .any(|finding| matches!(finding, Finding::Walker { function, .. } if function == name))
        };
        assert!(
            !stem("main.main") && !stem("main.collect") && !stem("main.one") && !stem("main.put"),
            "{found:?}"
        );
    }

    #[test]
    fn without_a_loop_or_below_a_threshold_nothing_is_said() {
        let nothing = of_cpu(&cpu(&PUBLISHED), &BTreeSet::new(), &|_| None).unwrap();
        assert!(nothing.is_empty(), "{nothing:?}");
        let mut few = PUBLISHED;
        few[0].1 = 10;
        let found = of_cpu(&cpu(&few), &BTreeSet::new(), &source).unwrap();
        assert!(!found.iter().any(|finding| finding.to_string().starts_with("main.size")), "{found:?}");
        let mut flat = PUBLISHED;
        flat[1].1 = 30;
        let found = of_cpu(&cpu(&flat), &BTreeSet::new(), &source).unwrap();
        assert!(!found.iter().any(|finding| finding.to_string().starts_with("main.size")), "{found:?}");
    }

    #[test]
    fn garbage_is_added_up_with_who_makes_it() {
        let profile = cpu(&[
            ("main.main:1>main.encode:2>encoding/json.Marshal:3>runtime.mallocgc:4", 12),
            ("main.main:1>main.other:2>runtime.mallocgc:4>runtime.gcAssistAlloc:1", 3),
            ("runtime.gcBgMarkWorker:1>runtime.scanobject:2", 5),
            ("main.main:1>main.encode:9", 80),
        ]);
        let found = of_cpu(&profile, &BTreeSet::new(), &|_| None).unwrap();
        let expected = "20.0 % of the CPU allocates or collects (5.0 % in the background); most of it by main.encode (12.0 %)";
        assert_eq!(found.iter().map(ToString::to_string).collect::<Vec<_>>(), [expected]);
    }

    #[test]
    fn those_who_allocate_are_named_with_their_way() {
        let mut profile = of_kind(
            "alloc_space",
            "bytes",
            &[
                ("main.main:1>net/http.serve:2>main.encode:3>bytes.grow:7", 600),
                ("main.main:1>main.encode:3>bytes.grow:8", 320),
                ("main.main:1>main.small:3", 80),
            ],
        );
        profile
            .sample_types
            .push(super::super::pprof::ValueType { kind: "alloc_objects".into(), unit: "count".into() });
        for (sample, objects) in profile.samples.iter_mut().zip([1, 1, 98]) {
            sample.values.push(objects);
        }
        let found = of_allocations(&profile, &BTreeSet::new()).unwrap();
        let texts: Vec<String> = found.iter().map(ToString::to_string).collect();
        assert_eq!(
            texts,
            [
                "bytes.grow: 92.0 % of alloc_space, most at /src/bytes.grow.go:7, by way of main.main > main.encode > bytes.grow",
                "main.small: 98.0 % of alloc_objects, most at /src/main.small.go:3, by way of main.main > main.small",
            ]
        );
        assert!(of_allocations(&cpu(&[]), &BTreeSet::new()).is_err());
    }
}
