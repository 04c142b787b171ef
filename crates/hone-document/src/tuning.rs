//! A run of `hone tune`: what was seen, tried and kept, and what it is worth together.

use hone_format::measured;
use hone_record::{Hope, Tuning, TuningStep};

use crate::{proof, wrapped};

/// All of it, for a terminal.
pub fn text(tuning: &Tuning) -> String {
    let mut out = format!("{}\n\n{}\n", wrapped(&headline(tuning)), proof::states_text(&tuning.as_proof()));
    for (index, step) in tuning.steps.iter().enumerate() {
        out.push_str(&format!("{}\n", wrapped(&step_line(index, step))));
        out.push_str(&proof::details_text(&step.step));
    }
    for line in together(tuning) {
        out.push_str(&format!("\n{}\n", wrapped(&line)));
    }
    for line in notes(tuning) {
        out.push_str(&format!("\n{}\n", wrapped(&line)));
    }
    out
}

/// The same as Markdown.
pub fn markdown(tuning: &Tuning) -> String {
    let mut out = format!("{}\n\n{}\n", headline(tuning), proof::states_markdown(&tuning.as_proof()));
    for (index, step) in tuning.steps.iter().enumerate() {
        out.push_str(&format!("{}\n", step_line(index, step)));
        out.push_str(&proof::details_markdown(&step.step));
    }
    for line in together(tuning).into_iter().chain(notes(tuning)) {
        out.push_str(&format!("\n{line}\n"));
    }
    out
}

/// What the run came to, in a few sentences.
pub fn headline(tuning: &Tuning) -> String {
    format!(
        "{}: {}, {}. {} It ended because {}.",
        tuning.name,
        tuning.target,
        tuning.load,
        tuning.sentence(),
        tuning.stopped
    )
}

fn step_line(index: usize, step: &TuningStep) -> String {
    let next = match &step.passed_over[..] {
        [] => String::new(),
        names => format!(" Next would have been {}.", names.join("; ")),
    };
    format!(
        "{}. {} ({}): {}. {} Tried because {}; {}.{next}",
        index + 1,
        step.step.change,
        step.altitude.label(),
        step.step.outcome(),
        step.step.why,
        step.hope.why,
        hoped(&step.hope)
    )
}

/// What a change is hoped to save, in words.
pub fn hoped(hope: &Hope) -> String {
    let share = measured(hope.share * 100.0);
    match hope.is_unsaid {
        true => format!("ranked by {share} %, since nobody has said what it may save"),
        false => format!("hoped to save {share} %"),
    }
}

fn together(tuning: &Tuning) -> Vec<String> {
    let Some(together) = &tuning.together else { return Vec::new() };
    let among = together.in_the_end().into_iter().map(|(change, step, fate, why)| {
        let worth = step.worth_in_words().map_or(String::new(), |worth| format!(" {worth}"));
        format!("{change} among the others:{worth} ({fate}). {why}")
    });
    together.sentence().into_iter().chain(among).collect()
}

fn notes(tuning: &Tuning) -> Vec<String> {
    let mut notes = Vec::new();
    if !tuning.to_keep.is_empty() {
        notes.push("Everything is as it was before the run. To make it last:".to_owned());
        notes.extend(tuning.to_keep.iter().map(|line| format!("- {line}")));
    }
    notes.extend(proof::notes(&tuning.as_proof()));
    notes
}

#[cfg(test)]
mod tests {
    use hone_record::{Altitude, Decision, Metric, ProofStep, PutBack, Together};

    use super::*;
    use hone_experiment::climb::Wanted;
    use hone_experiment::fixture::proof as a_proof;

    /// Two changes that were accepted, one that was not.
    fn tuning() -> Tuning {
        let proof = a_proof();
        let mut single = proof.steps[0].clone();
        let mut step = |change: &str, decision: Decision| {
            (single.change, single.decision) = (change.to_owned(), decision);
            TuningStep {
                altitude: Altitude::Client,
                hope: Hope::new(0.25, "batches are small"),
                passed_over: vec!["codec=lz4".to_owned()],
                step: single.clone(),
            }
        };
        let steps = vec![
            step("linger=20ms", Decision::Accepted),
            step("env.X=1", Decision::Rejected),
            step("codec=zstd", Decision::Accepted),
        ];
        let together = Together {
            all: Some(steps[2].step.clone()),
            product: Some(0.5),
            without: vec![ProofStep { decision: Decision::Rejected, ..steps[2].step.clone() }],
            put_back: vec![PutBack {
                change: "linger=20ms".to_owned(),
                why: "it breaks p99<1ms".to_owned(),
                step: steps[0].step.clone(),
            }],
        };
        Tuning {
            name: "orders".to_owned(),
            target: proof.target,
            load: proof.load,
            workload: proof.workload.clone(),
            workload_kept: proof.workload,
            objective: Metric::CpuPerRecord,
            durability: proof.durability,
            rule: proof.rule,
            allowed: vec![Altitude::Client],
            budget_s: None,
            took_s: 10.0,
            first: steps[0].step.before.clone(),
            steps,
            kept: vec!["codec=zstd".to_owned()],
            together: Some(together),
            stopped: "nothing is left that is hoped to help".to_owned(),
            to_keep: vec!["codec=zstd: set it".to_owned()],
            limits: proof.limits,
            machine: proof.machine,
            software: proof.software,
        }
    }

    #[test]
    fn the_story_says_what_was_seen_tried_and_kept() {
        for told in [text(&tuning()), markdown(&tuning())] {
            let told = told.split_whitespace().collect::<Vec<_>>().join(" ");
            for expected in [
                "Kept, of 3 that were tried: codec=zstd.",
                "nothing is left that is hoped to help",
                "Tried because batches are small; hoped to save 25.0 %. Next would have been codec=lz4.",
                "Not shown again beside the others: codec=zstd. Put back in the end: linger=20ms.",
                "The product of what each is worth beside the others is 0.500",
                "linger=20ms among the others:",
                "(put back). it breaks p99<1ms",
                "(kept, not shown again)",
                "To make it last: - codec=zstd: set it",
            ] {
                assert!(told.contains(expected), "`{expected}` is not told: {told}");
            }
        }
    }

    /// The same steps, as if a load that climbs had been tuned for.
    fn climbing() -> Tuning {
        let of_capacity = |step: &mut ProofStep| {
            let judged = step.comparison.iter_mut().flat_map(|found| &mut found.judgements);
            judged
                .filter(|judged| judged.primary)
                .for_each(|judged| judged.estimate.metric = Metric::Capacity);
        };
        let mut found = tuning();
        let wanted = Wanted { slo: Some("p99=10ms".to_owned()), ..Wanted::default() };
        found.workload = wanted.of(found.workload, Metric::Capacity).unwrap();
        found.objective = Metric::Capacity;
        found.steps.iter_mut().for_each(|step| of_capacity(&mut step.step));
        found.together.iter_mut().filter_map(|together| together.all.as_mut()).for_each(of_capacity);
        found
    }

    /// No two of its windows had the same load.
    #[test]
    fn of_a_load_that_climbs_the_capacity_is_told_and_nothing_else() {
        let told = text(&tuning());
        assert!(told.contains("CPU a record") && told.contains("p99.9"), "{told}");
        assert!(tuning().saving().is_some() && headline(&tuning()).contains("Saved at this load"));
        let found = climbing();
        assert_eq!(found.saving(), None);
        for told in [text(&found), markdown(&found)] {
            assert!(told.contains("capacity, requests/s") && told.contains("windows"), "{told}");
            for other in
                ["CPU a record", "CPU, cores", "p99.9", "batches/s", "Saved at this load", "Latency runs"]
            {
                assert!(!told.contains(other), "{other}: {told}");
            }
        }
    }

    /// What saves makes ratios below 1, and what raises a capacity above.
    #[test]
    fn what_the_product_means_hangs_on_which_way_the_objective_counts() {
        let said = |found: Tuning| found.together.unwrap().sentence().unwrap();
        let cost = said(tuning());
        assert!(cost.contains("larger where changes share a gain, smaller where they help"), "{cost}");
        let capacity = said(climbing());
        assert!(
            capacity.contains("smaller where changes share a gain, larger where they help"),
            "{capacity}"
        );
    }

    #[test]
    fn a_run_that_kept_nothing_says_so() {
        let mut found = Tuning { kept: Vec::new(), together: None, to_keep: Vec::new(), ..tuning() };
        assert!(headline(&found).contains("Nothing is kept, of 3"), "{}", headline(&found));
        found.steps.iter_mut().for_each(|step| step.step.decision = Decision::Rejected);
        assert!(headline(&found).contains("none was shown to help"), "{}", headline(&found));
    }

    /// One by one they helped; the comparison of all of them is what is told, and where there is none, no other one.
    #[test]
    fn the_headline_has_no_other_figure_than_that_of_all_together() {
        let mut found = tuning();
        found.together = found.together.map(|together| Together { all: None, ..together });
        let told = headline(&found);
        assert!(
            told.contains("was not measured: the budget did not reach") && !told.contains("of what it was"),
            "{told}"
        );
        found.together = None;
        assert!(headline(&found).contains("of what it was"), "{}", headline(&found));
    }
}
