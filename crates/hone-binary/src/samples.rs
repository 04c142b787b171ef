//! A profile of samples in the text form of `llvm-profdata merge --sample --text`.
//!
//! A function begins in the first column with `NAME:TOTAL:HEAD`. Indented lines are its lines, and functions that were inlined into it, in
//! the same form. A name in brackets is a calling context, of which the last part counts: `[main:3 @ work:1 @ hash]`.

use std::collections::{HashMap, HashSet};
use std::path::Path;

use hone_record::HotFunction;

use crate::refusal::Refusal;

/// A function is hot if functions at least as heavy make up this share of the samples: the limit of profiles of counts.
const HOT_CUTOFF_PERCENT: u128 = 99;

/// A profile of this program has most of its weight in functions of the program; inlined ones have none of their own.
const LEAST_KNOWN_PERCENT: u128 = 50;

/// Summary of a profile.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Samples {
    /// Samples of each function, including those inlined into it.
    pub(crate) functions: Vec<(String, u64)>,
}

impl Samples {
    /// Reads the text form.
    ///
    /// # Errors
    /// In words, with the line, when a line in the first column names no function.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let mut functions: HashMap<String, u64> = HashMap::new();
        for (at, line) in text.lines().enumerate() {
            if line.trim().is_empty() || line.starts_with([' ', '\t', '#']) {
                continue;
            }
            let (name, total) = function(line).ok_or_else(|| {
                let shown: String = line.chars().take(60).collect();
                format!("line {}: `{shown}` has no function name with a number of samples", at + 1)
            })?;
            let sum = functions.entry(name.to_owned()).or_default();
            *sum = sum.saturating_add(total);
        }
        let mut functions: Vec<(String, u64)> = functions.into_iter().collect();
        functions.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
        Ok(Self { functions })
    }

    /// Samples of all functions.
    pub(crate) fn total(&self) -> u64 {
        self.functions.iter().fold(0, |sum: u64, (_, total)| sum.saturating_add(*total))
    }

    /// The hot functions, hottest first.
    pub(crate) fn hot(&self) -> Vec<HotFunction> {
        let wanted = u128::from(self.total()) * HOT_CUTOFF_PERCENT / 100;
        let mut reached = 0;
        let ran = self.functions.iter().filter(|(_, total)| *total > 0);
        let hot = ran.take_while(|(_, total)| {
            let is_hot = reached < wanted || reached == 0;
            reached += u128::from(*total);
            is_hot
        });
        hot.map(|(name, total)| HotFunction { name: hone_record::without_hash(name), max_count: *total })
            .collect()
    }

    /// Whether there are samples, in functions of this program.
    pub(crate) fn prove(
        &self,
        file: &Path,
        in_binary: &HashSet<String>,
        binary: &Path,
    ) -> Result<(), Refusal> {
        let file = file.to_path_buf();
        if self.functions.is_empty() {
            return Err(Refusal::Hollow { file, what: "functions" });
        }
        let total = u128::from(self.total());
        if total == 0 {
            return Err(Refusal::Hollow { file, what: "sample" });
        }
        let known = self.functions.iter().filter(|(name, _)| in_binary.contains(name));
        let (known, weight) =
            known.fold((0, 0_u128), |(number, sum), (_, total)| (number + 1, sum + u128::from(*total)));
        if weight * 100 < total * LEAST_KNOWN_PERCENT {
            let functions = self.functions.len() as u64;
            return Err(Refusal::OtherBinary { file, binary: binary.to_path_buf(), known, functions });
        }
        Ok(())
    }
}

/// Name and samples of a function's first line.
fn function(line: &str) -> Option<(&str, u64)> {
    let mut parts = line.trim_end().rsplitn(3, ':');
    let (_head, total, name) = (parts.next()?.trim(), parts.next()?.trim(), parts.next()?.trim());
    let context = name.strip_prefix('[').and_then(|name| name.strip_suffix(']'));
    let name = context.map_or(name, |context| context.rsplit(" @ ").next().unwrap_or(context));
    (!name.is_empty()).then_some((name, total.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const TEXT: &str = "work:9000:90\n 1: 100\n 2.1: 50 rare:3\n 3: inner:400:2\n  1: 400\n !CFGChecksum: 5\n\
                        main:900:0\n 1: 9\n[main:3 @ work:1 @ hash]:90:1\n 1: 90\n";

    fn names(list: &[&str]) -> HashSet<String> {
        list.iter().map(|&name| name.to_owned()).collect()
    }

    #[test]
    fn functions_are_read_with_their_samples() {
        let samples = Samples::parse(TEXT).unwrap();
        let expected = [("work", 9000), ("main", 900), ("hash", 90)];
        assert_eq!(samples.functions, expected.map(|(name, total)| (name.to_owned(), total)));
        assert_eq!(samples.total(), 9990);
        let hot: Vec<String> = samples.hot().into_iter().map(|function| function.name).collect();
        assert_eq!(hot, ["work", "main"]);
        let wrong = Samples::parse("work:9:1\nwhat is this\n").unwrap_err();
        assert_eq!(wrong, "line 2: `what is this` has no function name with a number of samples");
    }

    #[test]
    fn a_profile_of_another_program_is_refused() {
        let check = |text: &str, known: &[&str]| {
            let samples = Samples::parse(text).unwrap();
            samples.prove(Path::new("/p"), &names(known), Path::new("/b")).map_err(|error| error.to_string())
        };
        assert_eq!(check(TEXT, &["work", "main"]), Ok(()));
        assert!(check(TEXT, &["main", "hash"]).unwrap_err().contains("2 of its 3 functions are in /b"));
        assert!(check("", &[]).unwrap_err().starts_with("the profile /p has no functions"));
        assert!(check("f:0:0\n", &["f"]).unwrap_err().starts_with("the profile /p has no sample"));
    }

    proptest! {
        #[test]
        fn no_text_makes_it_panic(text in "([:@\\[\\] a\n]|[0-9]{1,20}|é){0,60}") {
            if let Ok(samples) = Samples::parse(&text) {
                let _ = (samples.hot(), samples.prove(Path::new("/p"), &names(&["a"]), Path::new("/b")));
            }
        }
    }
}
