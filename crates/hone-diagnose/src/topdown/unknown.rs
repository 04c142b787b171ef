//! Top-down values in a form that no reader knows: Hone names their place, and does not claim that there are none.

use hone_record::Category;

use super::category::category;
use super::pattern::{Pattern, pattern};
use super::unread::Unread;

/// A share: `48.27%`, `0,4 %`.
static SHARE: Pattern = Pattern::new(|| pattern(r"(-?[0-9][0-9.,]*)[ \u{a0}\u{202f}]*%"));

/// A word of a name, with any text after it.
static WORD: Pattern = Pattern::new(|| pattern(r"[A-Za-z][A-Za-z0-9_-]*"));

/// A line that names a category of level 1 with a share, the front end before the others. Otherwise a line of names above a line of shares.
fn value(text: &str, lines_before: usize) -> Option<Unread> {
    let line = |index: usize| lines_before + index + 1;
    let with_share = text.lines().enumerate().filter_map(|(index, said)| {
        Some((index, said, *named(said).first()?, SHARE.captures(said)?[1].to_owned()))
    });
    let nearest = with_share.min_by_key(|(_, _, of, _)| *of != Category::FrontendBound);
    if let Some((index, said, of, percent)) = nearest {
        return Some(Unread::UnknownForm { line: line(index), of, percent, said: said.trim().to_owned() });
    }
    let pairs = text.lines().zip(text.lines().skip(1)).enumerate();
    let mut heads = pairs.filter(|(_, (head, below))| named(head).len() > 1 && SHARE.is_match(below));
    heads
        .next()
        .map(|(index, (head, _))| Unread::NoValues { line: line(index), said: head.trim().to_owned() })
}

/// The categories of level 1 in a line, named by one word each or by two.
fn named(line: &str) -> Vec<Category> {
    let words: Vec<&str> = WORD.find_iter(line).map(|word| word.as_str()).collect();
    let pairs = words.windows(2).filter_map(|pair| category(&pair.join(" ")));
    pairs.chain(words.iter().filter_map(|word| category(word))).filter(|of| !of.is_level_2()).collect()
}

/// Counts of the events behind the shares, as newer perfs print them for `-e slots,topdown-retiring`.
fn counts(text: &str) -> Option<Unread> {
    let is_count =
        |line: &&str| line.contains("topdown-retiring") && !line.contains('<') && !line.contains("-e ");
    let said = text.lines().find(is_count)?.trim().to_owned();
    Some(Unread::Counts { said })
}

/// Arm's topdown-tool printed the metrics of a core's parts instead of the slots.
fn stage_two(text: &str) -> Option<Unread> {
    let said = text.lines().find(|line| line.contains("Stage 2 (uarch metrics)"))?;
    let said = said.trim_matches(|sign: char| !sign.is_ascii_alphanumeric() && sign != ')').to_owned();
    Some(Unread::StageTwo { said })
}

/// Why a text without readable values has none; it may still have a line of names.
pub(super) fn without_values(text: &str, unread: Option<(usize, String)>, lines_before: usize) -> Unread {
    let unread = unread.map(|(line, said)| Unread::NoValues { line: lines_before + line, said });
    match why_nothing(text) {
        Unread::Nothing | Unread::NotCounted { .. } if unread.is_some() => unread.unwrap_or(Unread::Nothing),
        // An event that did not run has no value, but other events may have one.
        why @ (Unread::Nothing | Unread::NotCounted { .. }) => {
            let others = || counts(text).or_else(|| stage_two(text));
            value(text, lines_before).or_else(others).unwrap_or(why)
        }
        why => why,
    }
}

/// Converts perf's message into a reason.
type Reason = fn(String) -> Unread;

/// perf's messages instead of values.
fn why_nothing(text: &str) -> Unread {
    let line = |words: &[&str]| {
        text.lines()
            .find(|line| words.iter().any(|word| line.contains(word)))
            .map(|line| line.trim().to_owned())
    };
    let without = [
        "<not supported>",
        "System does not support topdown",
        "didn't export Perfmon",
        "Nothing measured",
        "PMU Hardware or event type doesn't support",
    ];
    let reasons: [(&[&str], Reason); 5] = [
        (&without, |said| Unread::NoCounters { said }),
        (&["perf_event_paranoid", "No permission", "Access to performance monitoring"], |said| {
            Unread::NoRights { said }
        }),
        (&["requires system-wide mode"], |said| Unread::Wide { said }),
        (&["Cannot find metric", "cannot find metric", "Cannot resolve"], |said| Unread::NoMetric { said }),
        (&["<not counted>"], |said| Unread::NotCounted { said }),
    ];
    if let Some(reason) = reasons.iter().find_map(|(words, reason)| line(words).map(reason)) {
        return reason;
    }
    // The output of `--metric-only -j` without values.
    if text.contains("{\"metric-value\" : \"\"}") {
        return Unread::NoCounters { said: "perf printed empty values".to_owned() };
    }
    Unread::Nothing
}
