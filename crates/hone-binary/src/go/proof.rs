//! Whether a profile may be used, and how much of it a program can use. Pure, by the profile's contents and the names in the program.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::path::Path;

use hone_record::HotFunction;
use serde::{Deserialize, Serialize};

use super::pprof::Profile;
use super::refusal::GoRefusal;
use super::symbols::shortened;
use super::tables::{Names, is_standard, package_of, percent, table};

/// Above this lost share of the weight, the rest of the profile has next to no effect: the same choice as for other compilers.
const MOST_LOST_PERCENT: f64 = 90.0;

/// The compiler matches calls by lines counted from the function's first one; a profile must have those for most of its
/// weight.
const MOST_WITHOUT_START_PERCENT: f64 = 50.0;

/// The number of lost functions that a message names.
const NAMED: usize = 5;

/// A function is hot if functions at least as heavy make up this share of the weight: the compiler's own
/// `inlineCDFHotCallSiteThresholdPercent`.
const HOT_CUTOFF_PERCENT: f64 = 99.0;

/// The share of a profile's weight that a program can use.
///
/// Weight is that of calls, from one function to another, because the compiler uses those. It counts only calls with at least one side that
/// is neither in Go's own library nor `main.main`, because every program has those. Hone compares names, not lines: the compiler also loses
/// a call that moved inside its function, but that is not counted here.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Coverage {
    /// Weight of the calls, in the unit of the profile's first value.
    pub weight: i64,
    /// Weight of calls with a side that is not in the program.
    pub lost: i64,
    /// `lost` in per cent of `weight`.
    pub lost_percent: f64,
    /// Functions that are not in the program, the heaviest first, with the weight of their calls.
    pub lost_functions: Vec<(String, i64)>,
}

/// The evidence of a profile alone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Sound {
    /// Index of the value that the compiler uses.
    pub(super) index: usize,
    /// Sum of it.
    pub(super) total: i64,
    /// Functions with a share of the flat weight.
    pub(super) hot: Vec<HotFunction>,
    /// Hot functions of the target's own packages.
    pub(super) hot_own: usize,
}

/// Checks that need no program: samples, of CPU, with the functions' first lines.
pub(super) fn sound(profile: &Profile, file: &Path, own: &BTreeSet<String>) -> Result<Sound, GoRefusal> {
    let file = file.to_path_buf();
    let wanted = [("samples", "count"), ("cpu", "nanoseconds")];
    let index = profile.sample_types.iter().position(|found| wanted.contains(&(&found.kind, &found.unit)));
    let Some(index) = index else {
        let kinds: Vec<&str> = profile.sample_types.iter().map(|found| found.kind.as_str()).collect();
        return Err(GoRefusal::NotCpu { file, kinds: kinds.join(", ") });
    };
    let total = profile.total(index);
    if total <= 0 {
        return Err(GoRefusal::Hollow { file });
    }
    let without = percent(without_start(profile, index), total);
    if without > MOST_WITHOUT_START_PERCENT {
        return Err(GoRefusal::NoStartLines { file, percent: without });
    }
    let hot = hot(profile, index);
    let hot_own = hot.iter().filter(|function| own.contains(package_of(&function.name))).count();
    Ok(Sound { index, total, hot, hot_own })
}

/// Weight of samples whose innermost function has no first line.
fn without_start(profile: &Profile, index: usize) -> i64 {
    let lacks = |line: super::pprof::Line| profile.functions[line.function].start_line == 0;
    let samples = profile.samples.iter();
    let lacking = samples.filter(|sample| profile.frames(sample).next().is_none_or(lacks));
    lacking.fold(0, |sum: i64, sample| sum.saturating_add(sample.values[index]))
}

fn hot(profile: &Profile, index: usize) -> Vec<HotFunction> {
    let Ok(table) = table(profile, &profile.sample_types[index].kind) else { return Vec::new() };
    let mut reached = 0.0;
    let mut hot = Vec::new();
    for row in table.rows.iter().filter(|row| row.flat > 0) {
        if reached >= HOT_CUTOFF_PERCENT {
            break;
        }
        reached += row.flat_percent;
        hot.push(HotFunction { name: row.name.clone(), max_count: row.flat.cast_unsigned() });
    }
    hot
}

/// Compares a profile with the names in a program, with shortened type parameters: profiles have them in both forms.
pub(super) fn coverage(
    profile: &Profile,
    index: usize,
    in_program: &HashSet<String>,
    own: &BTreeSet<String>,
) -> Coverage {
    let names = Names::from_profile(profile);
    let text = |name: usize| names.list[name].0.as_str();
    let foreign = |name: usize| text(name) == "main.main" || is_standard(package_of(text(name)), own);
    let (mut weight, mut lost) = (0_i64, 0_i64);
    let mut by_function: HashMap<&str, i64> = HashMap::new();
    for sample in &profile.samples {
        let value = sample.values[index];
        let stack: Vec<usize> = profile.frames(sample).map(|line| names.of_function[line.function]).collect();
        let calls: BTreeSet<(usize, usize)> = stack.windows(2).map(|pair| (pair[1], pair[0])).collect();
        for (caller, callee) in calls.into_iter().filter(|&(a, b)| !(foreign(a) && foreign(b))) {
            weight = weight.saturating_add(value);
            let missing: BTreeSet<&str> = [caller, callee]
                .into_iter()
                .map(text)
                .filter(|name| !in_program.contains(&*shortened(name)))
                .collect();
            if !missing.is_empty() {
                lost = lost.saturating_add(value);
            }
            for name in missing {
                let sum = by_function.entry(name).or_default();
                *sum = sum.saturating_add(value);
            }
        }
    }
    let mut lost_functions: Vec<(String, i64)> =
        by_function.into_iter().map(|(name, weight)| (name.to_owned(), weight)).collect();
    lost_functions.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
    Coverage { weight, lost, lost_percent: percent(lost, weight), lost_functions }
}

/// Refuses a profile of which a program can use next to nothing.
pub(super) fn fits(coverage: &Coverage, file: &Path, binary: &Path) -> Result<(), GoRefusal> {
    let file = file.to_path_buf();
    if coverage.weight <= 0 {
        return Err(GoRefusal::NothingOwn { file });
    }
    if coverage.lost_percent > MOST_LOST_PERCENT {
        return Err(GoRefusal::OtherProgram {
            file,
            binary: binary.to_path_buf(),
            lost_percent: coverage.lost_percent,
            lost: coverage.lost_functions.iter().take(NAMED).map(|(name, _)| name.clone()).collect(),
        });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::pprof::tests::{cpu, of_kind};
    use super::*;

    fn own() -> BTreeSet<String> {
        BTreeSet::from(["main".to_owned()])
    }

    #[test]
    fn weight_is_lost_with_the_functions_that_are_gone() {
        let profile = cpu(&[
            ("runtime.main:1>main.main:3>main.old:7>runtime.memmove:2", 60),
            ("runtime.main:1>main.main:3>main.new[go.shape.int]:7", 40),
            ("runtime.mcall:1>runtime.park_m:3", 500),
        ]);
        let program = ["runtime.main", "main.main", "main.new[...]", "runtime.memmove"].map(str::to_owned);
        let coverage = coverage(&profile, 0, &HashSet::from(program), &own());
        // Calls: main.main > old 60, old > memmove 60, main.main > new 40; not runtime.main > main.main.
        assert_eq!((coverage.weight, coverage.lost), (160, 120));
        assert_eq!(coverage.lost_functions, [("main.old".to_owned(), 120)]);
        assert_eq!(coverage.lost_percent, 75.0);
        assert_eq!(fits(&coverage, Path::new("/p"), Path::new("/b")), Ok(()));
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        let check = |stacks: &[(&str, i64)], reason: &str| {
            let coverage = coverage(&cpu(stacks), 0, &HashSet::from(["main.main".to_owned()]), &own());
            let error = fits(&coverage, Path::new("/p"), Path::new("/b")).unwrap_err().to_string();
            assert!(error.starts_with(reason), "{error}");
        };
        check(&[("runtime.main:1>runtime.f:3", 9)], "the profile /p contains only calls of Go's own library");
        check(
            &[("main.main:1>x.org/a.F:3", 9), ("main.main:1>x.org/a.G:3", 1)],
            "the profile /p does not fit /b: 100.0 % of the weight of its calls is in functions that the program does \
             not have (x.org/a.F, x.org/a.G)",
        );
    }

    #[test]
    fn an_unsound_profile_is_refused() {
        let check = |profile: &Profile, reason: &str| {
            let error = sound(profile, Path::new("/p"), &own()).unwrap_err().to_string();
            assert!(error.starts_with(reason), "{error}");
        };
        check(&cpu(&[]), "the profile /p has no samples");
        check(&cpu(&[("main.main:1", 0)]), "the profile /p has no samples");
        check(&of_kind("alloc_space", "bytes", &[("main.main:1", 1)]), "the profile /p counts alloc_space");
        let mut bare = cpu(&[("main.main:1", 1), ("main.main:2>main.f:3", 2)]);
        bare.functions[1].start_line = 0;
        check(&bare, "the profile /p lacks the start lines of functions (67 % of its weight)");
        bare.samples[0].values[0] = 3;
        let sound = sound(&bare, Path::new("/p"), &own()).unwrap();
        assert_eq!((sound.total, sound.hot.len(), sound.hot_own), (5, 2, 2));
        assert_eq!(sound.hot[0].name, "main.main");
    }
}
