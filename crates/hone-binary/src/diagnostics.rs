//! The compilers' messages about a profile.

use std::collections::BTreeSet;

use hone_record::ProfileApplied;

use crate::refusal::Refusal;

/// Warnings after which no part of the profile was used.
const NOT_USED: [&str; 6] = [
    "invalid instrumentation profile data",
    "Not an IR level instrumentation profile",
    "unsupported instrumentation profile format version",
    "malformed instrumentation profile data",
    "truncated profile data",
    "Could not read profile",
];

/// Without the first option, LLVM silently drops counts of templates and inline functions whose code has changed; without the second, those
/// of functions that it does not find in the profile.
pub(crate) const HEARD_FROM_LLVM: [&str; 2] =
    ["-no-pgo-warn-mismatch-comdat-weak=false", "-pgo-warn-missing-function"];

const MISMATCH: &str = "function control flow change detected (hash mismatch) ";
const MISSING: &str = "no profile data available for function ";

/// The most other messages that are kept.
const MESSAGES: usize = 5;

/// Above this lost share of the counts, 0 to 1, a profile has next to no effect: a choice, not a constant of nature.
pub const MOST_DISCARDED: f64 = 0.9;

/// Adds up the compilers' messages about the profile. `logs` are the standard error of cargo and of the build scripts; a message in several
/// of them counts once.
///
/// # Errors
/// [`Refusal::NotUsed`] and [`Refusal::DoesNotFit`]: the compilers exit with 0 in both cases.
pub(crate) fn applied(logs: &[String], total_count: u64, functions: u64) -> Result<ProfileApplied, Refusal> {
    let applied = weighed(logs, total_count)?;
    fits(&applied, functions)?;
    Ok(applied)
}

/// Like [`applied`], whatever the lost share.
pub(crate) fn weighed(logs: &[String], total_count: u64) -> Result<ProfileApplied, Refusal> {
    // A template is compiled in many files, each of which precedes the same message.
    let mut mismatches = BTreeSet::new();
    let mut missing = BTreeSet::new();
    let mut messages = BTreeSet::new();
    for line in logs.iter().flat_map(|log| log.lines()).map(without_prefix) {
        if NOT_USED.iter().any(|text| line.contains(text)) {
            return Err(Refusal::NotUsed { message: line.to_owned() });
        }
        if let Some(at) = line.find(MISMATCH) {
            mismatches.insert(&line[at..]);
        } else if line.contains(MISSING) {
            missing.insert(line);
        } else if line.contains("-Wprofile-instr") || line.contains("-Wbackend-plugin") {
            messages.insert(line);
        }
    }
    let discarded_count = mismatches.iter().filter_map(|line| discarded(line)).fold(0, u64::saturating_add);
    Ok(ProfileApplied {
        discarded_functions: mismatches.len() as u64,
        discarded_count,
        discarded_weight: share(discarded_count, total_count),
        missing_functions: missing.len() as u64,
        messages: messages.into_iter().take(MESSAGES).map(str::to_owned).collect(),
    })
}

/// Functions of the code that the profile lacks: the source as the compiler got it, and the symbol.
pub(crate) fn not_found(logs: &[String]) -> BTreeSet<(&str, &str)> {
    let told = |line| {
        let (source, rest) = without_prefix(line).split_once(MISSING)?;
        Some((source.trim_end().strip_suffix(':')?, rest.split_once(" Hash = ")?.0))
    };
    logs.iter().flat_map(|log| log.lines()).filter_map(told).collect()
}

/// Refuses a profile that was hardly used.
pub(crate) fn fits(applied: &ProfileApplied, functions: u64) -> Result<(), Refusal> {
    if applied.discarded_weight > MOST_DISCARDED {
        let percent = applied.discarded_weight * 100.0;
        let what = format!("the compiler discarded {percent:.0} % of its counts");
        return Err(Refusal::DoesNotFit { what });
    }
    if applied.missing_functions >= functions.max(1) {
        let what =
            format!("it lacks {} functions of the code, and has only {functions}", applied.missing_functions);
        return Err(Refusal::DoesNotFit { what });
    }
    Ok(())
}

fn without_prefix(line: &str) -> &str {
    let line = line.trim();
    ["warning: ", "cargo:warning=", "cargo::warning="]
        .into_iter()
        .fold(line, |line, prefix| line.strip_prefix(prefix).unwrap_or(line))
}

/// The number in `up to N count discarded`.
fn discarded(line: &str) -> Option<u64> {
    line.rsplit_once(" up to ")?.1.split_once(" count discarded")?.0.parse().ok()
}

/// 0 to 1.
pub(crate) fn share(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { (part as f64 / whole as f64).min(1.0) }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn applied_by(log: &str) -> Result<ProfileApplied, Refusal> {
        applied(&[log.to_owned()], 3_340_569_523, 10)
    }

    #[test]
    fn a_stale_profile_is_weighed() {
        let stale = applied_by(include_str!("../tests/fixtures/rustc-stale.stderr")).unwrap();
        assert_eq!((stale.discarded_functions, stale.discarded_count), (1, 2_760_284_295));
        assert!((stale.discarded_weight - 0.8263).abs() < 0.0001, "{stale:?}");
        assert_eq!(stale.missing_functions, 0);
    }

    #[test]
    fn a_message_in_two_logs_counts_once() {
        let line = "mix.c: function control flow change detected (hash mismatch) turn Hash = 5 up to 7 count discarded [-Wbackend-plugin]";
        let logs = [format!("warning: {line}\n"), format!("cargo:warning={line}\n")];
        let stale = applied(&logs, 70, 10).unwrap();
        assert_eq!((stale.discarded_functions, stale.discarded_count), (1, 7));
    }

    #[test]
    fn a_template_in_two_files_counts_once() {
        let line = |file: &str| {
            format!(
                "warning: {file}: {MISMATCH}_Z3hotILi1EEjj Hash = 5 up to 7 count discarded [-Wbackend-plugin]\n"
            )
        };
        let stale = applied(&[line("a.cc") + &line("b.cc")], 70, 10).unwrap();
        assert_eq!((stale.discarded_functions, stale.discarded_count), (1, 7));
    }

    #[test]
    fn a_good_build_says_nothing() {
        let applied = applied_by(include_str!("../tests/fixtures/rustc-good.stderr")).unwrap();
        assert_eq!((applied.discarded_functions, applied.missing_functions), (0, 0));
        assert_eq!(applied.messages, [] as [&str; 0]);
    }

    #[test]
    fn a_foreign_profile_shows_as_missing_functions() {
        let foreign = applied_by(include_str!("../tests/fixtures/rustc-foreign.stderr")).unwrap();
        assert_eq!((foreign.missing_functions, foreign.discarded_functions), (8, 0));
        let few = applied(&[include_str!("../tests/fixtures/rustc-foreign.stderr").to_owned()], 9, 8);
        assert!(matches!(few, Err(Refusal::DoesNotFit { .. })), "{few:?}");
    }

    #[test]
    fn functions_without_counts_are_known_with_their_source() {
        let log = format!(
            "warning: /w/a b.c: {MISSING}_ZL3locj Hash = 14 up to 0 count discarded [-Wbackend-plugin]"
        );
        assert_eq!(not_found(&[log, "x".to_owned()]), BTreeSet::from([("/w/a b.c", "_ZL3locj")]));
    }

    #[test]
    fn silent_failures_are_refused() {
        let message = |log: &str| match applied_by(log) {
            Err(Refusal::NotUsed { message }) => message,
            other => panic!("{other:?}"),
        };
        assert_eq!(
            message(include_str!("../tests/fixtures/rustc-empty.stderr")),
            "/src/tiny/zero.profdata: Not an IR level instrumentation profile"
        );
        assert_eq!(
            message(include_str!("../tests/fixtures/rustc-garbage.stderr")),
            "/src/tiny/garbage.profdata: invalid instrumentation profile data (bad magic)"
        );
    }

    #[test]
    fn nearly_everything_thrown_away_is_refused() {
        let log = "warning: x: function control flow change detected (hash mismatch) f Hash = 1 up to 95 count discarded";
        assert!(matches!(applied(&[log.to_owned()], 100, 10), Err(Refusal::DoesNotFit { .. })));
    }

    proptest! {
        #[test]
        fn no_text_makes_it_panic(text: String, total: u64) {
            not_found(&[format!("{text}: {MISSING}{text}"), format!("{MISSING}x Hash = ")]);
            let _ = applied(&[text.clone(), format!("{MISMATCH}{text} up to {text} count discarded")], total, 1);
        }
    }
}
