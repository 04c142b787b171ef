//! The plan of a `hone gate` run, as text.

use std::fmt::Write as _;

use hone_document::wrapped;
use hone_experiment::spec::Experiment;
use hone_record::{GateEvidence, Mode};

use super::GateSettings;

/// The plan of a run.
pub fn plan(asked: &GateSettings, experiment: &Experiment, rule: &str) -> String {
    let mut out = format!("Gate {}, by {} ({})\n", asked.name, asked.path, asked.file_of);
    for (name, named) in [("base", &asked.base), ("head", &asked.head)] {
        let short = named.commit.get(..10).unwrap_or(&named.commit);
        let _ = writeln!(out, "  {name}  {short}  {}: {}", named.asked, named.subject);
    }
    let builds = experiment.builds;
    let each = if builds > 1 { format!(", {builds} layouts each") } else { String::new() };
    let _ = writeln!(out, "\nBuilds: base and head{each}, in {}", asked.cache.display());
    if let Some(commits) = &asked.between {
        let most = (commits.len() as f64).log2().ceil() + 2.0;
        let _ = writeln!(out, "Search: {} commits, about {most} builds", commits.len());
    }
    for workload in &experiment.judging {
        let compare = &experiment.compare;
        let words = if asked.evidence == GateEvidence::Counted {
            "the same work twice for each program, in an emulator".to_owned()
        } else if let Some(budget) = compare.budget {
            format!("at most {}, starts and warm-ups included", hone_format::duration(budget.0))
        } else if workload.engine.operations().is_some() {
            format!(
                "{} rounds of base, a copy of base, and head: {} windows",
                compare.rounds,
                3 * compare.rounds
            )
        } else {
            let at_once = if compare.mode == Mode::Duet { 1.0 } else { 2.0 };
            let pairs = compare.pairs + compare.control_pairs;
            format!(
                "{} pairs of base and head and {} of base and base: {:.0} s of windows, plus their starts \
                 and warm-ups",
                compare.pairs,
                compare.control_pairs,
                f64::from(pairs) * at_once * workload.duration_s
            )
        };
        let _ = writeln!(out, "Load {}: {words}", workload.name);
    }
    for note in &asked.notes {
        let _ = writeln!(out, "{}", wrapped(&format!("note: {note}")));
    }
    let _ = write!(out, "\n{}\n", wrapped(rule));
    out
}
