//! Exact counts in words. Progress lines, findings and ledger entries share them.

use hone_format::{exact_change, percent, rate};
use hone_record::Counted;

/// The instructions of A and of B under their load, their ratio and how exact it is.
pub fn sentence(counted: &Counted) -> String {
    format!("Instructions per operation under {}: {}", counted.workload, result(counted))
}

/// The same without the load: `10,234 -> 9,640, −5.8 % (exact)`.
pub(crate) fn result(counted: &Counted) -> String {
    let [a, b] = counted.instructions().map(rate);
    let exactness = exactness(counted);
    if !differs(counted) {
        let both = if a == b { a } else { format!("{a} -> {b}") };
        return format!("{both}, no difference ({exactness})");
    }
    let [ratio, ..] = counted.ratio();
    format!("{a} -> {b}, {} ({exactness})", exact_change(ratio))
}

/// Whether A and B differ by more than their repetitions.
pub(crate) fn differs(counted: &Counted) -> bool {
    let [_, low, high] = counted.ratio();
    low > 1.0 || high < 1.0
}

/// How far two repetitions of the same work are apart.
pub fn exactness(counted: &Counted) -> String {
    match counted.scatter() {
        0.0 => "exact".to_owned(),
        scatter if scatter < 0.000_05 => "exact within 0.01 %".to_owned(),
        scatter => format!("exact within {}", percent(scatter)),
    }
}

/// The code with the largest change for the worse or the better, with its part of the whole change. `None` if no code is known.
pub fn culprit(counted: &Counted) -> Option<String> {
    let first = counted.code.first()?;
    let names: Vec<&str> = first.frames.iter().map(|frame| frame.name.as_str()).collect();
    let [a, b] = first.instructions.map(rate);
    let place = first.frames.last().and_then(|frame| frame.source.as_deref());
    let place = place.map(|place| format!(" ({place})")).unwrap_or_default();
    Some(format!("most of it in {}{place}: {a} -> {b} instructions per operation", names.join(" > ")))
}
