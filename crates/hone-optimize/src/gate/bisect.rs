//! Finds the commit that made a program slower among those between a good and a bad one, by exact counts. The search is pure; building and
//! counting a commit is one step that a resumed run does not repeat.

use anyhow::{Context as _, Result, bail};
use hone_experiment::counted::{Counting, Tally};
use hone_record::{Bisection, TriedCommit, TriedState, Workload};
use hone_tool::interrupt;
use serde::{Deserialize, Serialize};

use super::{Checkout, Named, Session, short};
use crate::commits::Side;
use crate::job::Job;
use crate::outcome::in_a_line;
use crate::steps::Steps;

/// The next step of the search.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Next {
    /// This commit decides most.
    Try(usize),
    /// The first bad commit.
    Found(usize),
    /// The first bad commit is one of these. Those before the last one can't be judged.
    Among(Vec<usize>),
}

/// The next step, from the states of the commits after the good one, the oldest first. The last one is bad.
fn next(states: &[Option<TriedState>]) -> Next {
    let is = |index: usize, state| states.get(index).copied().flatten() == Some(state);
    let last = states.len().saturating_sub(1);
    let bad = (0..states.len()).find(|index| is(*index, TriedState::Bad)).unwrap_or(last);
    // The number of commits up to the last good one.
    let good = (0..bad).rfind(|index| is(*index, TriedState::Good)).map_or(0, |index| index + 1);
    let middle = good + (bad - good) / 2;
    let open = (good..bad).filter(|index| states.get(*index) == Some(&None));
    match open.min_by_key(|index| index.abs_diff(middle)) {
        Some(index) => Next::Try(index),
        None if good == bad => Next::Found(bad),
        None => Next::Among((good..=bad).collect()),
    }
}

/// The judgement of a commit, on the disk.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Judged {
    state: TriedState,
    ratio: Option<f64>,
    why: Option<String>,
}

/// The result of a search: two commits whose difference contains the growth.
pub(super) struct Narrowed {
    pub(super) base: Named,
    pub(super) head: Named,
    pub(super) bisection: Bisection,
}

/// A search with the counts of its ends.
struct Search<'a> {
    checkout: &'a Checkout<'a>,
    building: &'a Job<'a>,
    job: &'a Job<'a>,
    counting: Counting<'a>,
    load: &'a Workload,
    good: Tally,
    /// Instructions per operation from which a commit is bad.
    limit: f64,
}

impl Session<'_> {
    /// Searches the commits after the base, the oldest first; the last one is the head. One job builds, the other one loads.
    ///
    /// # Errors
    /// Fails when an end of the range can't be built or counted, or the head is not worse than the base.
    pub(super) fn narrowed(
        &self,
        checkout: &Checkout<'_>,
        [building, job]: [&Job<'_>; 2],
        steps: &mut Steps<'_>,
        commits: &[Named],
    ) -> Result<Narrowed> {
        let (asked, worse_by) = (self.asked, self.experiment.gate.counted_worse_by);
        let last = commits.last().context("there are no commits to search")?;
        let load = self.experiment.judging.first().context("there is no judging workload")?;
        let good_side = self.build(checkout, building, steps, short(&asked.base.commit), &asked.base)?;
        let counting = Counting::begin(job.bench(), self.folder.scratch().join("counts"))?;
        let good = tally(job, &counting, load, &good_side, None)?;
        let bad_side = self.build(checkout, building, steps, short(&last.commit), last)?;
        let bad = tally(job, &counting, load, &bad_side, Some(good.operations()))?;
        let [first, second] = [good.instructions(), bad.instructions()];
        if second < first * (1.0 + worse_by) {
            bail!(
                "{} is not worse than {}: {} and {} instructions per operation under {}, and the limit is \
                 {}\n  next: name an older good commit or a newer bad one; if time got worse and counts did \
                 not, `git bisect run hone gate --base GOOD --exact --exit-codes git-bisect` decides by pairs",
                short(&last.commit),
                short(&asked.base.commit),
                hone_format::count(first.round() as u64),
                hone_format::count(second.round() as u64),
                load.name,
                hone_format::exact_percent(worse_by)
            );
        }
        let limit = f64::midpoint(first, second);
        let search = Search { checkout, building, job, counting, load, good, limit };
        self.searched(&search, steps, commits, second / first)
    }

    fn searched(
        &self,
        search: &Search<'_>,
        steps: &mut Steps<'_>,
        commits: &[Named],
        ratio: f64,
    ) -> Result<Narrowed> {
        let last = commits.len() - 1;
        let mut judged: Vec<Option<Judged>> = vec![None; commits.len()];
        judged[last] = Some(Judged { state: TriedState::Bad, ratio: Some(ratio), why: None });
        let mut order = vec![last];
        loop {
            let states: Vec<_> = judged.iter().map(|judged| Some(judged.as_ref()?.state)).collect();
            let (index, among) = match next(&states) {
                Next::Try(index) => {
                    judged[index] = Some(self.judged(search, steps, &commits[index])?);
                    order.push(index);
                    continue;
                }
                Next::Found(index) => (index, index..index),
                Next::Among(left) => (left[left.len() - 1], left[0]..left[left.len() - 1]),
            };
            let base = among.start.checked_sub(1).map_or(&self.asked.base, |before| &commits[before]);
            let tried = |index: &usize| {
                let (named, judged) = (&commits[*index], judged[*index].clone()?);
                let Judged { state, ratio, why } = judged;
                Some(TriedCommit {
                    commit: named.commit.clone(),
                    subject: named.subject.clone(),
                    state,
                    ratio,
                    why,
                })
            };
            let bisection = Bisection {
                good: self.asked.base.commit.clone(),
                bad: commits[last].commit.clone(),
                commits: commits.len() as u32,
                tried: order.iter().filter_map(tried).collect(),
                left: among.map(|index| commits[index].commit.clone()).collect(),
            };
            return Ok(Narrowed { base: base.clone(), head: commits[index].clone(), bisection });
        }
    }

    /// Builds and counts one commit. A commit that can't be built or counted is skipped.
    fn judged(&self, search: &Search<'_>, steps: &mut Steps<'_>, named: &Named) -> Result<Judged> {
        let name = short(&named.commit);
        let note = format!("bisect/{name}.json");
        if let Some(known) = self.folder.read_note::<Judged>(&note)? {
            return Ok(known);
        }
        let mut tried = || -> Result<Judged> {
            let side = self.build(search.checkout, search.building, steps, name, named)?;
            let operations = Some(search.good.operations());
            let found = tally(search.job, &search.counting, search.load, &side, operations)?;
            let is_bad = found.instructions() >= search.limit;
            Ok(Judged {
                state: if is_bad { TriedState::Bad } else { TriedState::Good },
                ratio: Some(found.instructions() / search.good.instructions()),
                why: None,
            })
        };
        let judged = match tried() {
            Err(error) if interrupt::requested() => return Err(error),
            Err(error) => Judged { state: TriedState::Skipped, ratio: None, why: Some(in_a_line(&error)) },
            Ok(judged) => judged,
        };
        let ratio = judged.ratio.map(|ratio| format!(", {}", hone_format::change(ratio))).unwrap_or_default();
        self.progress.line(&format!("{name}: {}{ratio}: {}", judged.state.label(), named.subject));
        self.folder.write_note(&note, &judged)?;
        Ok(judged)
    }
}

fn tally(
    job: &Job<'_>,
    counting: &Counting<'_>,
    load: &Workload,
    side: &Side,
    operations: Option<u64>,
) -> Result<Tally> {
    let built = side.builds.first().context("a commit has no build")?;
    let arm = job.arm(&built.variant, &built.executable, std::collections::BTreeMap::new());
    counting.one(&arm, load, operations)
}

#[cfg(test)]
mod tests {
    use super::*;
    use TriedState::{Bad, Good, Skipped};

    /// The result of a search among this many commits, and the number of tries.
    fn search(commits: usize, state: impl Fn(usize) -> TriedState) -> (Next, u32) {
        let mut states = vec![None; commits];
        states[commits - 1] = Some(Bad);
        for tries in 0.. {
            match next(&states) {
                Next::Try(index) => {
                    assert_eq!(states[index], None, "no commit is tried twice");
                    states[index] = Some(state(index));
                }
                end => return (end, tries),
            }
        }
        unreachable!("the search ends");
    }

    #[test]
    fn the_first_bad_commit_is_found_in_as_many_tries_as_halving_takes() {
        for commits in 1..=40 {
            for first_bad in 0..commits {
                let (found, tries) = search(commits, |index| if index < first_bad { Good } else { Bad });
                assert_eq!(found, Next::Found(first_bad), "{first_bad} of {commits}");
                assert!(f64::from(tries) <= (commits as f64).log2().ceil(), "{tries} of {commits}");
            }
        }
    }

    #[test]
    fn commits_that_can_not_be_judged_are_passed_by_and_named_if_they_are_in_the_way() {
        let (found, _) = search(16, |index| match index {
            7 | 8 => Skipped,
            index if index < 5 => Good,
            _ => Bad,
        });
        assert_eq!(found, Next::Found(5));
        let (found, _) = search(16, |index| match index {
            4 | 5 => Skipped,
            index if index < 6 => Good,
            _ => Bad,
        });
        assert_eq!(found, Next::Among(vec![4, 5, 6]));
        let (found, tries) = search(3, |_| Skipped);
        assert_eq!((found, tries), (Next::Among(vec![0, 1, 2]), 2));
    }
}
