//! Go's own benchmarks, without and with the profile, and their verdicts.

use std::collections::BTreeMap;

use anyhow::Result;
use hone_binary::go::{BenchPlan, BenchResult, Pairs};
use hone_compare::Plan;
use hone_record::{
    Design, GoBenchmark, GoBenchmarks, Judgement, Metric, Mode, PairKind, PairOutcome, Verdict,
};
use hone_tool::interrupt;

use crate::job::Job;
use crate::or_noted;
use crate::outcome::{Left, Taken, in_a_line};
use crate::steps::{Steps, Told};
use hone_experiment::phase::Phase;
use hone_experiment::spec::Compare;

/// The one metric that every benchmark has and a build can change. The report shows the others unjudged.
const TIME: &str = "ns/op";

/// The rule works on ratios of a metric where less is better. Time is such a metric.
const STANDS_FOR_TIME: Metric = Metric::CpuPerRecord;

impl Job<'_> {
    /// Runs and judges the benchmarks. The inner error says why there are none. That does not affect the variants.
    pub(super) fn go_benchmarks(
        &self,
        steps: &mut Steps<'_>,
        plan: &BenchPlan,
        taken: Option<&Taken>,
    ) -> Result<Result<GoBenchmarks, String>> {
        let Some(taken) = taken else { return Ok(Err("there is no profile".to_owned())) };
        let done = or_noted(self.folder, "go-bench", false, || {
            steps.run(Phase::Judge, "go-bench", || {
                let result =
                    self.go_shop().and_then(|shop| shop.bench(plan, &taken.merged)).map_err(|error| {
                        if interrupt::requested() { error } else { Left(in_a_line(&error)).into() }
                    })?;
                let commands = result.commands.first().cloned();
                let found = judged(plan, result, &self.experiment.compare);
                Ok(Told { note: note(&found), command: commands, result: found })
            })
        })?;
        if let Err(why) = &done {
            self.progress.line(&format!("no benchmarks: {why}"));
        }
        Ok(done)
    }
}

fn note(found: &GoBenchmarks) -> String {
    let timed: Vec<&GoBenchmark> = found.rows.iter().filter(|row| row.verdict.is_some()).collect();
    let of = |verdict| timed.iter().filter(|row| row.verdict == Some(verdict)).count();
    let all = match found.geomean.as_ref().and_then(|all| Some((all.ratio?, all.verdict?))) {
        Some(([ratio, low, high], verdict)) => {
            format!("; all together {} {}", hone_format::interval([ratio, low, high]), verdict.label())
        }
        None => String::new(),
    };
    format!(
        "{} benchmarks in {} rounds: {} better, {} worse, {} equivalent{all}",
        timed.len(),
        found.rounds,
        of(Verdict::Better),
        of(Verdict::Worse),
        of(Verdict::Equivalent)
    )
}

/// The result of a series: times judged, the rest shown. Pure.
fn judged(plan: &BenchPlan, result: BenchResult, compare: &Compare) -> GoBenchmarks {
    let timed: Vec<&Pairs> = result.pairs.iter().filter(|pairs| pairs.metric == TIME).collect();
    let number = timed.len().max(1);
    let geomean = (timed.len() > 1).then(|| {
        let all = mean_of(&timed);
        row(&all, of_rounds(compare, plan.rounds, compare.alpha))
    });
    let of_each = compare.alpha / number as f64;
    let rows = result.pairs.iter().map(|pairs| match pairs.metric.as_str() {
        TIME => row(pairs, of_rounds(compare, plan.rounds, of_each)),
        _ => told(pairs),
    });
    GoBenchmarks {
        rounds: plan.rounds,
        benchtime: plan.benchtime.clone(),
        cpus: plan.cpus,
        rule: rule(compare, number),
        geomean,
        rows: rows.collect(),
        unchanged: result.unchanged,
        incomplete: result.incomplete,
        commands: result.commands,
    }
}

fn rule(compare: &Compare, number: usize) -> String {
    let percent = |alpha: f64| {
        let text = format!("{:.2}", (1.0 - alpha) * 100.0);
        text.trim_end_matches('0').trim_end_matches('.').to_owned()
    };
    format!(
        "{TIME} with the profile divided by that without, round by round; the control is a copy of the \
         program without it. All together: the geometric mean, with a confidence interval of {} %. Each \
         alone: {} %, because there are {number}. Equivalent is within {} %. Other metrics are shown, not \
         judged.",
        percent(compare.alpha),
        percent(compare.alpha / number as f64),
        compare.equivalence * 100.0
    )
}

/// All benchmarks of each round as one: the geometric means of their times.
fn mean_of(timed: &[&Pairs]) -> Pairs {
    let mean = |side: fn(&Pairs) -> &Vec<f64>| -> Vec<f64> {
        let rounds = timed.iter().map(|pairs| side(pairs).len()).min().unwrap_or(0);
        let of = |round: usize| {
            (timed.iter().map(|pairs| side(pairs)[round].ln()).sum::<f64>() / timed.len() as f64).exp()
        };
        (0..rounds).map(of).collect()
    };
    Pairs {
        package: String::new(),
        benchmark: "all together".to_owned(),
        metric: TIME.to_owned(),
        off: mean(|pairs| &pairs.off),
        on: mean(|pairs| &pairs.on),
        control: mean(|pairs| &pairs.control),
    }
}

/// Needs as many pairs and controls as there are rounds. An error's words are a reason, too.
fn of_rounds(compare: &Compare, rounds: u32, alpha: f64) -> Result<Design, String> {
    let plan = Plan {
        alpha,
        equivalence: compare.equivalence,
        seed: compare.seed,
        ..Plan::new(Mode::Solo, STANDS_FOR_TIME, [rounds, rounds])
    };
    hone_compare::plan(&plan).map_err(|error| error.to_string())
}

fn row(pairs: &Pairs, design: Result<Design, String>) -> GoBenchmark {
    let found = design.and_then(|design| judge(pairs, &design));
    let span = |estimate: &hone_record::Estimate| [estimate.ratio, estimate.low, estimate.high];
    match found {
        Ok(found) => GoBenchmark {
            ratio: Some(span(&found.estimate)),
            control_ratio: found.control.as_ref().map(span),
            verdict: Some(found.verdict),
            why: found.why,
            ..told(pairs)
        },
        Err(why) => GoBenchmark { verdict: Some(Verdict::NotShown), why, ..told(pairs) },
    }
}

fn judge(pairs: &Pairs, design: &Design) -> Result<Judgement, String> {
    let outcome = |kind, index: usize, a: f64, b: f64| PairOutcome {
        index: u32::try_from(index).unwrap_or(u32::MAX),
        kind,
        values_a: BTreeMap::from([(STANDS_FOR_TIME, a)]),
        values_b: BTreeMap::from([(STANDS_FOR_TIME, b)]),
        ..PairOutcome::default()
    };
    let rounds = pairs.off.iter().zip(&pairs.on).zip(&pairs.control).enumerate();
    let outcomes: Vec<PairOutcome> = rounds
        .flat_map(|(round, ((&off, &on), &control))| {
            [outcome(PairKind::Test, round, off, on), outcome(PairKind::Control, round, off, control)]
        })
        .collect();
    let mut judged = hone_compare::judge(design, &outcomes);
    match judged.judgements.pop() {
        Some(found) => Ok(found),
        None => Err(judged.not_estimated.remove(&STANDS_FOR_TIME).unwrap_or_default()),
    }
}

fn told(pairs: &Pairs) -> GoBenchmark {
    GoBenchmark {
        package: pairs.package.clone(),
        benchmark: pairs.benchmark.clone(),
        metric: pairs.metric.clone(),
        off: pairs.off.clone(),
        on: pairs.on.clone(),
        control: pairs.control.clone(),
        ratio: None,
        control_ratio: None,
        verdict: None,
        why: String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pairs(benchmark: &str, metric: &str, on: f64, control: f64) -> Pairs {
        let noise = |round: usize, phase: usize| 1.0 + 0.004 * (((round * 7 + phase * 3) % 5) as f64 - 2.0);
        let of = |factor: f64, phase| (0..8).map(|round| 100.0 * factor * noise(round, phase)).collect();
        Pairs {
            package: "p".to_owned(),
            benchmark: benchmark.to_owned(),
            metric: metric.to_owned(),
            off: of(1.0, 0),
            on: of(on, 1),
            control: of(control, 2),
        }
    }

    fn found(list: Vec<Pairs>) -> GoBenchmarks {
        let plan = BenchPlan {
            packages: vec!["./...".to_owned()],
            pattern: ".".to_owned(),
            rounds: 8,
            benchtime: "1s".to_owned(),
            cpus: None,
        };
        let result =
            BenchResult { pairs: list, incomplete: Vec::new(), unchanged: Vec::new(), commands: Vec::new() };
        judged(&plan, result, &Compare::default())
    }

    #[test]
    fn what_is_faster_slower_equal_and_noise_is_told_apart() {
        let all = found(vec![
            pairs("BenchmarkFast", TIME, 0.87, 1.0),
            pairs("BenchmarkFast", "B/op", 1.0, 1.0),
            pairs("BenchmarkSlow", TIME, 1.2, 1.0),
            pairs("BenchmarkSame", TIME, 1.0, 1.0),
            pairs("BenchmarkNoise", TIME, 0.87, 0.88),
        ]);
        let verdicts: Vec<Option<Verdict>> = all.rows.iter().map(|row| row.verdict).collect();
        use Verdict::{Better, Equivalent, NotShown, Worse};
        assert_eq!(
            verdicts,
            [Some(Better), None, Some(Worse), Some(Equivalent), Some(NotShown)],
            "{:?}",
            all.rows
        );
        let [ratio, low, high] = all.rows[0].ratio.unwrap();
        assert!(
            (ratio - 0.87).abs() < 0.01 && low < ratio && ratio < high && high < 0.9,
            "{ratio} {low} {high}"
        );
        assert!(all.rows[4].why.contains("the A/A control itself differs"), "{}", all.rows[4].why);
        let geomean = all.geomean.as_ref().unwrap();
        let expected = (0.87_f64 * 1.2 * 0.87).powf(0.25);
        assert!((geomean.ratio.unwrap()[0] - expected).abs() < 0.01, "{geomean:?}");
        assert!(
            all.rule.contains("95 %") && all.rule.contains("98.75 %, because there are 4"),
            "{}",
            all.rule
        );
        assert!(
            note(&all).starts_with("4 benchmarks in 8 rounds: 1 better, 1 worse, 1 equivalent"),
            "{}",
            note(&all)
        );
    }

    #[test]
    fn a_benchmark_alone_has_no_mean_and_one_without_times_no_verdict() {
        let one = found(vec![pairs("BenchmarkA", TIME, 0.5, 1.0)]);
        assert_eq!(one.geomean, None);
        let mut broken = pairs("BenchmarkB", TIME, 0.5, 1.0);
        broken.on[3] = 0.0;
        let row = &found(vec![broken]).rows[0];
        assert_eq!((row.verdict, row.ratio), (Some(Verdict::NotShown), None));
        assert!(row.why.contains("zero, negative"), "{}", row.why);
    }
}
