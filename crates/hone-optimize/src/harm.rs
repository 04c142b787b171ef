//! What a variant costs: size, memory, start-up time. Limits apply to these figures, compared with the baseline.

use std::collections::BTreeMap;

use anyhow::Result;
use hone_binary::{Built, code_bytes, loaded_bytes};
use hone_record::{Harm, median};

use super::check::trouble_of;
use super::go::most_while;
use super::steps::Told;
use crate::job::Job;
use hone_experiment::progress::Progress;
use hone_experiment::spec::Limits;
use hone_experiment::variants::BASELINE;

/// Starts of each variant. Two disturbed starts do not move the median of five.
pub(super) const STARTS: usize = 5;

/// After this many failed checks in a row, Hone leaves the variant out. The same limit applies in rounds and pairs.
const FAILURES_IN_A_ROW: u32 = 3;

/// Smaller growth is noise of pages and of the allocator, whatever its ratio.
const RSS_FLOOR_BYTES: f64 = 4e6;

/// Smaller growth comes from a few more goroutines at the moment of the check.
const STACK_FLOOR_BYTES: f64 = 1e6;

/// Smaller growth is not noticeable.
const START_UP_FLOOR_S: f64 = 0.02;

/// BOLT and linkers align segments to multiples of 2 MB. A few of those are no growth.
const LOADED_FLOOR_BYTES: f64 = 8e6;

/// Harm by the names of the variants, or how a variant failed during the check.
pub(super) type Watched = BTreeMap<String, Result<Harm, String>>;

/// The figures of one variant.
#[derive(Debug, Default)]
struct Seen {
    start_up_s: Vec<f64>,
    rss_bytes: Option<f64>,
    stack_bytes: Option<f64>,
}

impl Job<'_> {
    /// Checks all variants in turns, so that drift affects all of them alike.
    pub(super) fn watch(&self, variants: &[&Built]) -> Result<Told<Watched>> {
        let mut seen: Vec<Result<Seen, String>> = variants.iter().map(|_| Ok(Seen::default())).collect();
        if self.serves() {
            for _ in 0..STARTS {
                for (built, seen) in variants.iter().zip(&mut seen) {
                    look(&built.variant, seen, self.progress, |seen| {
                        seen.start_up_s.extend(self.one_start(built)?);
                        Ok(())
                    })?;
                }
            }
        }
        for (built, seen) in variants.iter().zip(&mut seen) {
            look(&built.variant, seen, self.progress, |seen| {
                (seen.rss_bytes, seen.stack_bytes) = self.peak_under_load(built)?;
                Ok(())
            })?;
        }
        let step_s = self.ready().step().as_secs_f64();
        let mut harms: Vec<Result<Harm, String>> = Vec::new();
        for (built, seen) in variants.iter().zip(seen) {
            harms.push(match seen {
                Ok(seen) => Ok(of(built, &seen, step_s, self.is_go())?),
                Err(why) => Err(why),
            });
        }
        if let Some(Ok(baseline)) = harms.first().cloned() {
            for harm in harms.iter_mut().skip(1).flatten() {
                harm.broken = broken(&self.experiment.limits, &baseline, harm);
                // Without a baseline figure, there is no limit.
                let more = baseline.not_measured.iter().filter(|what| !harm.not_measured.contains(what));
                harm.not_measured.extend(more.cloned().collect::<Vec<_>>());
            }
        }
        let lines = variants.iter().zip(&harms).flat_map(|(built, harm)| {
            let words = harm.as_ref().map_or_else(|why| vec![why.clone()], |harm| harm.broken.clone());
            words.into_iter().map(|broken| format!("{}: {broken}", built.variant)).collect::<Vec<_>>()
        });
        let broken = lines.collect::<Vec<_>>().join("; ");
        let note = if broken.is_empty() {
            "no variant exceeds a limit on size, memory or start-up".to_owned()
        } else {
            broken
        };
        // By name, because a place in a list does not identify a variant.
        let names = variants.iter().map(|built| built.variant.clone());
        Ok(Told { note, command: None, result: names.zip(harms).collect() })
    }

    /// Seconds from the start until the program is ready.
    fn one_start(&self, built: &Built) -> Result<Option<f64>> {
        let arm = self.arm(&built.variant, &built.executable, BTreeMap::new());
        let running = arm.start(self.runner, &self.folder.scratch())?;
        let start_up = running.start_up();
        running.stop(self.runner)?;
        Ok(start_up.map(|took| took.as_secs_f64()))
    }

    /// The peak of resident memory under the first judging workload, and the peak of Go's stacks.
    fn peak_under_load(&self, built: &Built) -> Result<(Option<f64>, Option<f64>)> {
        let Some(workload) = self.experiment.judging.first() else { return Ok((None, None)) };
        let arm = self.arm(&built.variant, &built.executable, BTreeMap::new());
        let bench = self.bench();
        let workload = crate::outcome::short(workload);
        let mut subject = bench.subject(&arm, &workload)?;
        let pprof = self.pprof_of(&subject);
        let (loaded, stack) =
            most_while(pprof.as_deref(), || bench.window_with_memory(&mut subject, &workload));
        let (_, peak) = loaded?;
        bench.end(subject)?;
        Ok((peak.map(|bytes| bytes as f64), stack.map(|bytes| bytes as f64)))
    }
}

/// Checks a variant unless Hone has given it up. A failed check is repeated, because a busy machine may be the reason.
///
/// # Errors
/// Returns errors that say nothing about the variant, and every lasting failure of the baseline, because every comparison
/// needs the baseline.
fn look(
    name: &str,
    seen: &mut Result<Seen, String>,
    progress: &Progress,
    mut how: impl FnMut(&mut Seen) -> Result<()>,
) -> Result<()> {
    let Ok(so_far) = seen else { return Ok(()) };
    for failed in 1.. {
        let error = match how(so_far) {
            Ok(()) => break,
            Err(error) => error,
        };
        let is_given_up = failed == FAILURES_IN_A_ROW;
        if is_given_up && name == BASELINE {
            return Err(error);
        }
        let why = trouble_of(error)?;
        if is_given_up {
            *seen = Err(format!("{why} (the last of {FAILURES_IN_A_ROW} failed checks in a row)"));
            break;
        }
        progress.line(&format!("  checking {name} again: {why}"));
    }
    Ok(())
}

fn of(built: &Built, seen: &Seen, start_up_step_s: f64, is_go: bool) -> Result<Harm> {
    let code = code_bytes(&built.executable)?;
    let start_up_s = median(seen.start_up_s.iter().copied());
    Ok(Harm {
        file_bytes: built.facts.file_bytes,
        loaded_bytes: Some(loaded_bytes(&built.executable)?),
        text_bytes: code.all,
        old_text_bytes: code.old,
        start_up_s,
        rss_bytes: seen.rss_bytes,
        stack_bytes: seen.stack_bytes,
        starts: u32::try_from(seen.start_up_s.len()).unwrap_or(u32::MAX),
        start_up_step_s,
        broken: Vec::new(),
        not_measured: not_measured(seen, is_go),
    })
}

fn not_measured(seen: &Seen, is_go: bool) -> Vec<String> {
    let missing = [
        ("start-up", seen.start_up_s.is_empty()),
        ("resident memory", seen.rss_bytes.is_none()),
        ("goroutine stack", is_go && seen.stack_bytes.is_none()),
    ];
    missing.iter().filter(|(_, is)| *is).map(|(what, _)| (*what).to_owned()).collect()
}

/// The limits that a variant exceeds, in words.
fn broken(limits: &Limits, baseline: &Harm, variant: &Harm) -> Vec<String> {
    let mut broken = Vec::new();
    let mut hold =
        |what: &str, before: f64, after: f64, limit: f64, floor: f64, words: &dyn Fn(f64) -> String| {
            let ratio = after / before;
            if ratio > limit && after - before > floor {
                broken.push(format!(
                "{what} grows to {ratio:.2} times the baseline's ({} from {}); at most {limit} is allowed",
                words(after),
                words(before)
            ));
            }
        };
    let bytes = |value: f64| hone_format::bytes(value as u64);
    // BOLT keeps the old code next to the new one, alike in every program. The loaded segments show it.
    let text = |harm: &Harm| harm.text_bytes.saturating_sub(harm.old_text_bytes) as f64;
    hold("code", text(baseline), text(variant), limits.text_growth, 0.0, &bytes);
    // The relocations and debug sections that Hone's own flags leave in a file are not loaded, so they cost nothing at
    // run time.
    if let (Some(before), Some(after)) = (baseline.loaded_bytes, variant.loaded_bytes) {
        let what = "loaded file size";
        hold(what, before as f64, after as f64, limits.file_growth, LOADED_FLOOR_BYTES, &bytes);
    }
    if let (Some(before), Some(after)) = (baseline.rss_bytes, variant.rss_bytes) {
        hold("resident memory", before, after, limits.rss_growth, RSS_FLOOR_BYTES, &bytes);
    }
    if let (Some(before), Some(after)) = (baseline.stack_bytes, variant.stack_bytes) {
        hold("goroutine stack memory", before, after, limits.stack_growth, STACK_FLOOR_BYTES, &bytes);
    }
    if let (Some(before), Some(after)) = (baseline.start_up_s, variant.start_up_s) {
        let seconds = |value: f64| hone_format::time_us(value * 1e6);
        // A page of rounding applies to both figures, so a difference of two such steps may be none.
        let floor_s = START_UP_FLOOR_S.max(2.0 * variant.start_up_step_s);
        hold("start-up", before, after, limits.start_up_growth, floor_s, &seconds);
    }
    broken
}

#[cfg(test)]
mod tests {
    use super::*;

    fn harm(text_bytes: u64, rss_bytes: f64, start_up_s: f64) -> Harm {
        let (rss_bytes, start_up_s) = (Some(rss_bytes), Some(start_up_s));
        Harm { text_bytes, rss_bytes, start_up_s, ..Harm::default() }
    }

    #[test]
    fn what_grows_beyond_its_limit_is_told_and_what_is_small_is_not() {
        let baseline = harm(1_000, 100e6, 0.1);
        let found = |variant: Harm| broken(&Limits::default(), &baseline, &variant);
        assert!(found(harm(1_499, 124e6, 0.149)).is_empty());
        let [text] = &found(harm(1_600, 100e6, 0.1))[..] else { panic!() };
        assert_eq!(
            text,
            "code grows to 1.60 times the baseline's (1.56 KiB from 1,000 B); at most 1.5 is allowed"
        );
        assert!(found(harm(1_000, 130e6, 0.1))[0].starts_with("resident memory grows to 1.30 times"));
        assert!(found(harm(1_000, 100e6, 0.2))[0].contains("(200 ms from 100 ms)"));

        let of_bolt = Harm { old_text_bytes: 1_000, ..harm(2_400, 100e6, 0.1) };
        assert!(found(of_bolt.clone()).is_empty(), "the new code is 1.4 times the old one");
        assert!(
            found(Harm { text_bytes: 2_600, ..of_bolt })[0].starts_with("code grows to 1.60 times"),
            "hot and cold parts together"
        );
        let file = |loaded| Harm { loaded_bytes: Some(loaded), ..harm(1_000, 100e6, 0.1) };
        let large = |loaded| broken(&Limits::default(), &file(10_000_000), &file(loaded));
        assert!(large(30_000_000).is_empty());
        assert!(large(31_000_000)[0].starts_with("loaded file size grows to 3.10 times"));
        assert!(broken(&Limits::default(), &file(40_000), &file(4_200_000)).is_empty(), "two segments");
        // A server that is ready at 50 ms is seen at 56 by a command, and one at 58 at 126.
        let by_command = Harm { start_up_step_s: 0.07, ..harm(1_000, 100e6, 0.126) };
        let early = harm(1_000, 100e6, 0.056);
        assert!(broken(&Limits::default(), &early, &by_command).is_empty());
        assert!(
            !broken(&Limits::default(), &early, &Harm { start_up_step_s: 0.02, ..by_command }).is_empty()
        );

        let stacks = |bytes: f64| Harm { stack_bytes: Some(bytes), ..harm(1_000, 100e6, 0.1) };
        let grown = broken(&Limits::default(), &stacks(20e6), &stacks(31e6));
        assert!(grown[0].starts_with("goroutine stack memory grows to 1.55 times"), "{grown:?}");
        assert!(broken(&Limits::default(), &stacks(20e6), &stacks(29e6)).is_empty());
        assert!(broken(&Limits::default(), &stacks(0.4e6), &stacks(1.2e6)).is_empty(), "a few goroutines");

        let small = harm(1_000, 1e6, 0.002);
        assert!(
            broken(&Limits::default(), &small, &harm(1_000, 4e6, 0.02)).is_empty(),
            "twice nothing is nothing"
        );
    }

    #[test]
    fn what_could_not_be_measured_is_named() {
        let seen = Seen { start_up_s: vec![0.1], rss_bytes: Some(1e6), stack_bytes: None };
        assert!(not_measured(&seen, false).is_empty(), "nothing else has goroutines");
        assert_eq!(not_measured(&seen, true), ["goroutine stack"]);
        assert!(not_measured(&Seen { stack_bytes: Some(1e6), ..seen }, true).is_empty());
        assert_eq!(not_measured(&Seen::default(), true), ["start-up", "resident memory", "goroutine stack"]);
    }

    #[test]
    fn a_look_that_fails_is_taken_again_and_who_fails_again_and_again_is_told_alone() {
        let progress = Progress::new(true);
        let fails = |_: &mut Seen| -> Result<()> { anyhow::bail!("it did not start") };
        let mut left = 2;
        let fails_twice = |seen: &mut Seen| {
            if left > 0 {
                left -= 1;
                return fails(seen);
            }
            seen.start_up_s.push(0.1);
            Ok(())
        };
        let mut seen = Ok(Seen::default());
        look("pgo", &mut seen, &progress, fails_twice).unwrap();
        assert_eq!(seen.as_ref().unwrap().start_up_s, [0.1]);
        look("pgo", &mut seen, &progress, fails).unwrap();
        let why = seen.as_ref().unwrap_err();
        assert_eq!(why, "it did not start (the last of 3 failed checks in a row)");
        look("pgo", &mut seen, &progress, |_| panic!("it was given up")).unwrap();

        let mut looks = 0;
        let baseline = look(BASELINE, &mut Ok(Seen::default()), &progress, |seen| {
            looks += 1;
            fails(seen)
        });
        assert!(baseline.is_err(), "the baseline ends the run");
        assert_eq!(looks, 3);
        // What says nothing of the variant is not tried again.
        let full = |_: &mut Seen| Err(std::io::Error::other("the disk is full").into());
        assert!(look("pgo", &mut Ok(Seen::default()), &progress, full).is_err());
    }
}
