//! The ratchet: numbers that may fall and may not rise.

use std::collections::BTreeMap;

use super::measures::{Counts, Figures};

/// The workspace may exceed its number by this many lines, because new features need them.
const NEW_FEATURES: usize = 500;
/// A number is lowered only after a larger fall. Otherwise every commit would edit the record.
const LINES_SLACK: usize = 500;
const FILE_SLACK: usize = 50;
const FUNCTION_SLACK: usize = 10;

/// A number that differs from the record.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Finding {
    Grown(String),
    Fallen(String),
}

impl Finding {
    /// The sentence, with the next step.
    pub(crate) fn text(&self) -> String {
        match self {
            Self::Grown(text) => text.clone(),
            Self::Fallen(text) => format!(
                "{text}\n  next: lower the number in tidy.toml: `HONE_TIDY=write cargo test -p hone --test tidy`"
            ),
        }
    }
}

/// A rule's findings, and the numbers that it allows from now on.
pub(crate) struct Outcome<T> {
    pub(crate) findings: Vec<Finding>,
    pub(crate) lowered: T,
}

/// The record with every fallen number lowered. A number that has grown stays, so its test keeps failing.
pub(crate) fn lowered(recorded: &Figures, found: &Figures) -> Figures {
    Figures {
        program_lines: recorded.program_lines.min(found.program_lines),
        production_lines: recorded.production_lines.min(found.production_lines),
        circles: circles(&recorded.circles, &found.circles).lowered,
        long_files: long_files(recorded, found).lowered,
        long_functions: long_functions(recorded, found).lowered,
        names: names(&recorded.names, &found.names).lowered,
    }
}

pub(crate) fn lines(recorded: &Figures, found: &Figures) -> Vec<Finding> {
    let program = line_count("crates/hone/src", recorded.program_lines, 0, found.program_lines);
    let workspace =
        line_count("production code", recorded.production_lines, NEW_FEATURES, found.production_lines);
    program.into_iter().chain(workspace).collect()
}

fn line_count(what: &str, recorded: usize, growth: usize, found: usize) -> Option<Finding> {
    let allowed = recorded + growth;
    if found > allowed {
        return Some(Finding::Grown(format!(
            "{what}: {found} lines, {allowed} are allowed\n  next: remove {} lines",
            found - allowed
        )));
    }
    (found + LINES_SLACK < recorded)
        .then(|| Finding::Fallen(format!("{what}: {found} lines, {recorded} are recorded")))
}

pub(crate) fn long_files(recorded: &Figures, found: &Figures) -> Outcome<Counts> {
    let next = "split the file by subject";
    let list = List { next, slack: FILE_SLACK };
    list.compared(&recorded.long_files, &found.long_files)
}

pub(crate) fn long_functions(recorded: &Figures, found: &Figures) -> Outcome<Counts> {
    let next = "move each step of the function into a function";
    let list = List { next, slack: FUNCTION_SLACK };
    list.compared(&recorded.long_functions, &found.long_functions)
}

/// A list of long items, each with its lines.
struct List {
    next: &'static str,
    slack: usize,
}

impl List {
    fn compared(&self, recorded: &Counts, found: &Counts) -> Outcome<Counts> {
        let (mut findings, mut lowered) = (Vec::new(), Counts::new());
        for (name, &lines) in found {
            let Some(&allowed) = recorded.get(name) else { continue };
            if lines > allowed {
                findings.push(self.grown(name, lines, &format!("{allowed} are allowed")));
            } else if lines + self.slack < allowed {
                findings.push(Finding::Fallen(format!("{name}: {lines} lines, {allowed} are recorded")));
            }
            lowered.insert(name.clone(), lines.min(allowed));
        }
        self.compare_new(recorded, found, &mut findings, &mut lowered);
        Outcome { findings, lowered }
    }

    /// A new name may replace a missing one that was at least as long, because files and functions are renamed.
    fn compare_new(
        &self,
        recorded: &Counts,
        found: &Counts,
        findings: &mut Vec<Finding>,
        lowered: &mut Counts,
    ) {
        let mut gone = missing(recorded, found).into_iter();
        for (name, lines) in missing(found, recorded) {
            match gone.as_slice().first() {
                Some(&(old, allowed)) if allowed >= lines => {
                    gone.next();
                    findings.push(Finding::Fallen(format!("{name}: {lines} lines, replaces {old}")));
                    lowered.insert(name.to_owned(), lines);
                }
                _ => findings.push(self.grown(name, lines, "and not in tidy.toml")),
            }
        }
        let rest = gone.map(|(name, _)| Finding::Fallen(format!("{name}: no longer too long")));
        findings.extend(rest);
    }

    fn grown(&self, name: &str, lines: usize, why: &str) -> Finding {
        Finding::Grown(format!("{name}: {lines} lines, {why}\n  next: {}", self.next))
    }
}

/// The entries of one list that the other has not, the longest first.
fn missing<'a>(counts: &'a Counts, other: &Counts) -> Vec<(&'a str, usize)> {
    let entries = counts.iter().filter(|(name, _)| !other.contains_key(*name));
    let mut entries: Vec<(&str, usize)> = entries.map(|(name, lines)| (name.as_str(), *lines)).collect();
    entries.sort_by_key(|(_, lines)| usize::MAX - lines);
    entries
}

type ByCrate<T> = BTreeMap<String, T>;

pub(crate) fn circles(
    recorded: &ByCrate<Vec<usize>>,
    found: &ByCrate<Vec<usize>>,
) -> Outcome<ByCrate<Vec<usize>>> {
    // A crate split off another brings circles along.
    let is_moved = fits(&all_sizes(found), &all_sizes(recorded));
    let (mut findings, mut lowered) = (Vec::new(), ByCrate::new());
    for (name, sizes) in found {
        let known = recorded.get(name);
        let allowed = known.cloned().unwrap_or_default();
        let may_be = fits(sizes, &allowed) || (known.is_none() && is_moved);
        let text = format!("{name}: circles of {sizes:?} files, {allowed:?} are recorded");
        if !may_be {
            let next = "next: move the shared item into a file that both can use, or pass it as an argument";
            findings.push(Finding::Grown(format!("{text}\n  {next}")));
        } else if known != Some(sizes) {
            findings.push(Finding::Fallen(text));
        }
        lowered.insert(name.clone(), if may_be { sizes.clone() } else { allowed });
    }
    let gone = recorded.keys().filter(|name| !found.contains_key(*name));
    findings.extend(gone.map(|name| Finding::Fallen(format!("{name}: no such crate"))));
    Outcome { findings, lowered }
}

fn all_sizes(by_crate: &ByCrate<Vec<usize>>) -> Vec<usize> {
    let mut sizes: Vec<usize> = by_crate.values().flatten().copied().collect();
    sizes.sort_by_key(|size| usize::MAX - size);
    sizes
}

/// True when the circles can be remains of the allowed ones. A circle that falls apart may leave several.
fn fits(sizes: &[usize], allowed: &[usize]) -> bool {
    let mut spare = 0_usize;
    sizes.iter().enumerate().all(|(index, size)| {
        let room = spare + allowed.get(index).copied().unwrap_or_default();
        spare = room.saturating_sub(*size);
        *size <= room
    })
}

pub(crate) fn names(recorded: &ByCrate<Counts>, found: &ByCrate<Counts>) -> Outcome<ByCrate<Counts>> {
    let (mut findings, mut lowered) = (Vec::new(), ByCrate::new());
    let count = |by_crate: &ByCrate<Counts>, in_crate: &str, name: &str| -> usize {
        by_crate.get(in_crate).and_then(|counts| counts.get(name)).copied().unwrap_or_default()
    };
    let total = |by_crate: &ByCrate<Counts>, name: &str| -> usize {
        by_crate.values().filter_map(|counts| counts.get(name)).sum()
    };
    for (in_crate, name) in pairs(recorded, found) {
        let (allowed, times) = (count(recorded, in_crate, name), count(found, in_crate, name));
        // A definition that moves to another crate is no new one.
        let may_be = times <= allowed || total(found, name) <= total(recorded, name);
        let text = format!("{in_crate}: `{name}` {times} times, {allowed} recorded");
        if !may_be {
            let next = "next: choose a name that says what it holds or does";
            findings.push(Finding::Grown(format!("{text}\n  {next}")));
        } else if times != allowed {
            findings.push(Finding::Fallen(text));
        }
        let now = if may_be { times } else { allowed };
        if now > 0 {
            lowered.entry(in_crate.to_owned()).or_insert_with(Counts::new).insert(name.to_owned(), now);
        }
    }
    Outcome { findings, lowered }
}

/// Every crate with every name in it, recorded or found.
fn pairs<'a>(recorded: &'a ByCrate<Counts>, found: &'a ByCrate<Counts>) -> Vec<(&'a str, &'a str)> {
    let all = recorded.iter().chain(found);
    let mut pairs: Vec<(&str, &str)> = all
        .flat_map(|(in_crate, counts)| counts.keys().map(|name| (in_crate.as_str(), name.as_str())))
        .collect();
    pairs.sort_unstable();
    pairs.dedup();
    pairs
}
