//! Prints the command that most probably gives a verdict, after an inconclusive comparison.

use std::ffi::OsString;

use hone_record::Comparison;

/// The command that most probably gives a verdict, from this command's words, and its duration, in multiples of this
/// comparison's. `None` if there is a verdict, if more pairs would not help, or if this run was resumed.
pub fn to_settle(comparison: &Comparison, comparisons: usize, words: &[OsString]) -> Option<String> {
    if comparison.at_least() != [false, false] {
        // A longer climb gives one, and the verdict's sentence says so.
        return None;
    }
    let design = &comparison.design;
    let [pairs, controls] = hone_compare::pairs_to_settle(design, comparison.primary()?)?;
    let took_s: f64 = comparison.pairs.iter().map(|pair| pair.took_s).sum();
    let takes_s = took_s / comparison.pairs.len() as f64 * f64::from(pairs + controls) * comparisons as f64;
    let counts = match &design.budget {
        Some(_) => vec![("--budget", format!("{}m", (takes_s / 60.0).ceil()))],
        None => vec![("--pairs", pairs.to_string()), ("--control-pairs", controls.to_string())],
    };
    let words: Option<Vec<&str>> = words.iter().map(|word| word.to_str()).collect();
    let mut line: Vec<String> = vec!["hone".to_owned()];
    let mut words = words.filter(|words| !words.iter().any(|word| word.starts_with("--resume")))?.into_iter();
    while let Some(word) = words.next() {
        let of = |(name, _): &&(&str, String)| word.split('=').next() == Some(*name);
        match counts.iter().find(of) {
            Some((name, _)) if word == *name => drop(words.next()),
            Some(_) => {}
            None => line.push(word.to_owned()),
        }
    }
    line.extend(counts.into_iter().flat_map(|(name, value)| [name.to_owned(), value]));
    let line = shlex::try_join(line.iter().map(String::as_str)).ok()?;
    Some(format!("{line} (about {})", hone_format::duration(takes_s)))
}

#[cfg(test)]
mod tests {
    use hone_record::{PairOutcome, Verdict};

    use super::*;

    #[test]
    fn a_comparison_that_shows_nothing_comes_with_the_command_that_settles_it() {
        let mut comparison = crate::fixture::comparison(None);
        let words = ["compare", "a:1", "b b:2", "--pairs=8", "--control-pairs", "5", "--rate", "50"];
        let words: Vec<OsString> = words.iter().map(OsString::from).collect();
        assert_eq!(to_settle(&comparison, 1, &words), None, "it is better");
        comparison.judgements[0].verdict = Verdict::NotShown;
        comparison.judgements[0].estimate.ratio = 0.98;
        comparison.design.control_pairs = 4;
        comparison.pairs =
            vec![PairOutcome { took_s: 10.0, ..PairOutcome::default() }, PairOutcome::default()];
        let next = to_settle(&comparison, 1, &words).unwrap();
        assert!(next.starts_with("hone compare a:1 'b b:2' --rate 50 --pairs 1"), "{next}");
        assert!(next.contains(" --control-pairs ") && next.contains(" (about "), "{next}");
        for resumed in [&["--resume", "runs/x"][..], &["--resume=runs/x"]] {
            let words: Vec<OsString> = resumed.iter().map(OsString::from).collect();
            assert_eq!(to_settle(&comparison, 1, &words), None);
        }
        comparison.pairs[0].at_least = [true, false];
        assert_eq!(to_settle(&comparison, 1, &words), None, "raise --max-rate");
    }
}
