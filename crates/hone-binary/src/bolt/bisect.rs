//! Finds the functions that BOLT must skip, by a search with an oracle: a build that skips some functions either works or not.
//!
//! Pure: the oracle builds, starts and checks, and may be a service with a load as well as a program that exits.

/// The result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// It works without skipping anything: the failure is intermittent, or BOLT is not the cause.
    NothingWrong,
    /// It fails although all were skipped: no function of the list is the cause. Try a lower level, or none.
    NotByFunctions,
    /// It works if exactly these are skipped, and fails if any one of them is not.
    Culprits(Vec<String>),
    /// The builds were used up. It works if these are skipped; some of them may be innocent.
    Enough(Vec<String>),
}

/// The search's end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bisection {
    /// The result.
    pub verdict: Verdict,
    /// Number of builds.
    pub builds: u32,
}

/// The most builds that a search for this many culprits among this many functions needs: 2 at the beginning, for each culprit the halvings
/// and one to confirm, and one for each at the end.
pub fn most_builds(functions: usize, culprits: u32) -> u32 {
    let halvings = usize::BITS - functions.saturating_sub(1).leading_zeros();
    2 + culprits * (halvings + 2)
}

/// An oracle with a limit, which only counts its calls.
struct LimitedOracle<'o, E> {
    oracle: &'o mut dyn FnMut(&[String]) -> Result<bool, E>,
    builds: u32,
    limit: u32,
}

impl<E> LimitedOracle<'_, E> {
    /// `None` when the builds are used up.
    fn works(&mut self, skip: &[String]) -> Result<Option<bool>, E> {
        if self.builds >= self.limit {
            return Ok(None);
        }
        self.builds += 1;
        (self.oracle)(skip).map(Some)
    }
}

/// Finds the functions to skip. `candidates` are in the order in which they may be given up: the coldest first, so that a search that runs
/// out of builds skips the cheapest ones. `works` gets the functions to skip.
///
/// For each culprit, a bisection finds the shortest prefix of the list that works together with the culprits so far; its last function is
/// the next culprit. So the search finds several culprits one after the other, in at most [`most_builds`] builds if skipping more never
/// does harm. If it does, the last step, which tries to restore each culprit once, still makes the answer one that works.
///
/// # Errors
/// Those of the oracle: a build or a check that could not be carried out is neither a success nor a failure.
pub fn find_culprits<E>(
    candidates: &[String],
    limit: u32,
    mut works: impl FnMut(&[String]) -> Result<bool, E>,
) -> Result<Bisection, E> {
    let mut asked = LimitedOracle { oracle: &mut works, builds: 0, limit };
    let verdict = search(candidates, &mut asked)?;
    Ok(Bisection { verdict, builds: asked.builds })
}

fn search<E>(candidates: &[String], asked: &mut LimitedOracle<'_, E>) -> Result<Verdict, E> {
    let all = || Verdict::Enough(candidates.to_vec());
    match asked.works(&[])? {
        Some(true) => return Ok(Verdict::NothingWrong),
        Some(false) => {}
        None => return Ok(all()),
    }
    match asked.works(candidates)? {
        Some(true) => {}
        Some(false) => return Ok(Verdict::NotByFunctions),
        None => return Ok(all()),
    }
    let mut culprits: Vec<String> = Vec::new();
    // It is known to work with this many skipped candidates, in addition to the culprits.
    let mut enough = candidates.len();
    loop {
        // It is known to fail with this many.
        let mut too_few = 0;
        while enough - too_few > 1 {
            let middle = too_few + (enough - too_few) / 2;
            match asked.works(&together(&candidates[..middle], &culprits))? {
                Some(true) => enough = middle,
                Some(false) => too_few = middle,
                None => return Ok(Verdict::Enough(together(&candidates[..enough], &culprits))),
            }
        }
        culprits.push(candidates[enough - 1].clone());
        enough -= 1;
        match asked.works(&culprits)? {
            Some(true) => return give_back(culprits, asked),
            Some(false) if enough > 0 => {}
            // Skipping more did harm elsewhere; only the whole list is known to work.
            Some(false) => return Ok(all()),
            None => return Ok(Verdict::Enough(together(&candidates[..enough], &culprits))),
        }
    }
}

/// Removes each culprit that is innocent.
fn give_back<E>(mut culprits: Vec<String>, asked: &mut LimitedOracle<'_, E>) -> Result<Verdict, E> {
    let mut at = 0;
    while culprits.len() > 1 && at < culprits.len() {
        let mut fewer = culprits.clone();
        fewer.remove(at);
        match asked.works(&fewer)? {
            Some(true) => culprits = fewer,
            Some(false) => at += 1,
            None => return Ok(Verdict::Enough(culprits)),
        }
    }
    Ok(Verdict::Culprits(culprits))
}

fn together(some: &[String], more: &[String]) -> Vec<String> {
    some.iter().chain(more.iter().filter(|name| !some.contains(name))).cloned().collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::convert::Infallible;

    use proptest::prelude::*;

    use super::*;

    fn names(count: usize) -> Vec<String> {
        (0..count).map(|at| format!("f{at}")).collect()
    }

    fn find(count: usize, culprits: &[usize], limit: u32) -> Bisection {
        let candidates = names(count);
        let wanted: Vec<String> = culprits.iter().map(|at| format!("f{at}")).collect();
        let works = |skip: &[String]| Ok::<_, Infallible>(wanted.iter().all(|name| skip.contains(name)));
        find_culprits(&candidates, limit, works).unwrap()
    }

    #[test]
    fn one_among_thousands_takes_a_dozen_builds() {
        let found = find(4096, &[1234], 100);
        assert_eq!(found.verdict, Verdict::Culprits(vec!["f1234".into()]));
        assert!(found.builds <= most_builds(4096, 1) && most_builds(4096, 1) == 16, "{}", found.builds);
    }

    #[test]
    fn no_culprit_is_invented() {
        assert_eq!(find(10, &[], 100), Bisection { verdict: Verdict::NothingWrong, builds: 1 });
        let candidates = names(10);
        let hopeless = find_culprits(&candidates, 100, |_| Ok::<_, Infallible>(false)).unwrap();
        assert_eq!(hopeless, Bisection { verdict: Verdict::NotByFunctions, builds: 2 });
        let nobody = find_culprits(&[], 100, |_| Ok::<_, Infallible>(false)).unwrap();
        assert_eq!(nobody.verdict, Verdict::NotByFunctions);
    }

    #[test]
    fn an_oracle_that_breaks_ends_the_search() {
        let candidates = names(10);
        assert_eq!(find_culprits(&candidates, 100, |_| Err("no space left")), Err("no space left"));
    }

    #[test]
    fn where_skipping_does_harm_the_answer_still_works() {
        // Works with f3 skipped, unless f1 is skipped without f2.
        let works = |skip: &[String]| {
            let has = |name: &str| skip.iter().any(|skipped| skipped == name);
            has("f3") && (!has("f1") || has("f2"))
        };
        let candidates = names(8);
        let found = find_culprits(&candidates, 100, |skip| Ok::<_, Infallible>(works(skip))).unwrap();
        let (Verdict::Culprits(skip) | Verdict::Enough(skip)) = found.verdict else { panic!("{found:?}") };
        assert!(works(&skip), "{skip:?}");
    }

    proptest! {
        #[test]
        fn all_culprits_are_found_and_no_other(
            count in 1..300_usize,
            culprits in proptest::collection::vec(any::<prop::sample::Index>(), 1..6),
        ) {
            let culprits: BTreeSet<usize> = culprits.into_iter().map(|at| at.index(count)).collect();
            let culprits: Vec<usize> = culprits.into_iter().collect();
            let found = find(count, &culprits, 10_000);
            let Verdict::Culprits(names) = &found.verdict else { panic!("{found:?}") };
            let names: BTreeSet<&str> = names.iter().map(String::as_str).collect();
            let wanted: Vec<String> = culprits.iter().map(|at| format!("f{at}")).collect();
            prop_assert_eq!(names, wanted.iter().map(String::as_str).collect::<BTreeSet<_>>());
            prop_assert!(found.builds <= most_builds(count, culprits.len() as u32));
        }

        #[test]
        fn a_limit_is_kept_and_what_is_told_works(
            count in 1..300_usize,
            culprits in proptest::collection::vec(any::<prop::sample::Index>(), 1..6),
            limit in 2..40_u32,
        ) {
            let culprits: Vec<usize> = culprits.into_iter().map(|at| at.index(count)).collect();
            let found = find(count, &culprits, limit);
            prop_assert!(found.builds <= limit);
            let (Verdict::Culprits(skip) | Verdict::Enough(skip)) = found.verdict else { panic!("{found:?}") };
            let wanted: Vec<String> = culprits.iter().map(|at| format!("f{at}")).collect();
            prop_assert!(wanted.iter().all(|name| skip.contains(name)));
        }
    }
}
