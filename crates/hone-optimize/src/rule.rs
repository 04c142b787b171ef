//! The rules by which the workloads of an experiment judge. The rule depends on the load's sender, and is fixed before anything is built.

use anyhow::{Context as _, Result};
use hone_compare::{BASELINE, DesignError, LookPlan, Plan, TWIN};
use hone_record::{Design, Mode, Workload};

use hone_experiment::places::Places;
use hone_experiment::rounds;
use hone_experiment::spec::{Compare, Experiment, usual_effect};

/// The pairs of an edge under a load that Hone sends. With a budget, a pilot determines their numbers.
pub(super) fn of_pairs(settings: &Compare, builds: u32, workload: &Workload) -> Plan {
    let tests = if settings.budget.is_some() { settings.pairs.max(builds) } else { settings.pairs };
    let effect = settings.effect.unwrap_or_else(usual_effect);
    Plan {
        places: settings.mode == Mode::Duet && settings.places && Places::halves().is_some(),
        guards: settings.guards.clone(),
        default_guards: true,
        alpha: settings.alpha,
        equivalence: settings.equivalence,
        seed: settings.seed,
        builds: [builds; 2],
        requests_per_window: workload.requests_per_window(),
        disturbance: Some(hone_compare::disturbance(settings.mode)),
        reserve: settings.reserve,
        // A budget has its own plan.
        effect: settings.budget.is_none().then_some(effect.ratio()),
        busy: settings.busy,
        looks: LookPlan::of_pairs(tests, [builds; 2]),
        ..Plan::new(settings.mode, settings.primary, [tests, settings.control_pairs])
    }
}

/// Checks that every judging workload can judge as requested, before hours of work.
///
/// # Errors
/// Names the workload and the reason.
pub fn check(experiment: &Experiment) -> Result<()> {
    for workload in &experiment.judging {
        of(experiment, workload)
            .with_context(|| format!("workload `{}` can't judge with these settings", workload.name))?;
    }
    Ok(())
}

/// The rule of any edge under a workload.
fn of(experiment: &Experiment, workload: &Workload) -> Result<Design, DesignError> {
    let (settings, builds) = (&experiment.compare, experiment.builds);
    match workload.engine.operations() {
        None => hone_compare::plan(&of_pairs(settings, builds, workload)),
        // The number of variants changes the order of windows, but no rule.
        Some(_) => rounds::plan(settings, builds, workload, TWIN + 2).design([BASELINE, TWIN + 1]),
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use hone_experiment::spec::parse;

    fn checked(load: &str, more: &str) -> Result<(), String> {
        let text = format!(
            "name = \"t\"\n[target]\nmanifest = \"Cargo.toml\"\npackage = \"p\"\nbin = \"b\"\nargs = [\"{{port}}\"]\n\
             [workload.a]\n{load}\n[workload.b]\n{load}\n[optimize]\ntrain = \"a\"\njudge = [\"b\"]\n\
             judge_what_was_trained = true\n{more}\n"
        );
        let experiment = parse(&text, Path::new("x.toml")).map_err(|error| error.to_string())?;
        check(&experiment).map_err(|error| format!("{error:#}"))
    }

    const SENT: &str = "requests_per_s = 1000\nduration_s = 5";
    const COUNTED: &str = "command = \"true {port}\"\noperations = 5";
    const EXITS: &str = "run = [\"{operations}\"]\noperations = 5";

    /// Each kind of workload measures some metrics only.
    #[test]
    fn a_rule_that_a_workload_can_not_judge_by_is_refused_before_anything_is_built() {
        let refused = |load: &str, more: &str, told: &str| {
            let message = checked(load, more).unwrap_err();
            assert!(
                message.starts_with("workload `b` can't judge with these settings") && message.contains(told),
                "{more}\n{message}"
            );
        };
        for load in [SENT, COUNTED, EXITS] {
            checked(load, "").unwrap();
        }
        let guard = |name: &str| format!("[compare]\nguards = [\"{name}\"]");
        refused(SENT, &guard("throughput"), "has the requested rate");
        checked(COUNTED, &guard("throughput")).unwrap();
        checked(SENT, &guard("latency-p50")).unwrap();
        refused(COUNTED, &guard("latency-p50"), "reports no latency for them");
        // 4,787 requests nearly always: enough for a p99, and not for a p99.9.
        checked(SENT, &guard("latency-p99")).unwrap();
        refused(SENT, &guard("latency-p999"), "needs 10000 requests in every window");
        checked("requests_per_s = 3000\nduration_s = 5", &guard("latency-p999")).unwrap();
        // Rounds are asked of rounds, and pairs of pairs.
        refused(
            COUNTED,
            "[compare]\nrounds = 12\nblock_rounds = 6",
            "12 rounds in blocks of 6 make 2 starts",
        );
        checked(EXITS, "[compare]\nrounds = 12\npairs = 3").unwrap();
        checked(SENT, "[compare]\nrounds = 1").unwrap();
        refused(SENT, "[compare]\npairs = 3", "3 A/B pairs are too few");
        checked(COUNTED, "builds = 5").unwrap();
        checked(SENT, "builds = 14").unwrap();
        refused(SENT, "builds = 15", "15 builds need at least 15 A/B pairs, but there are 14");
        refused(COUNTED, "builds = 16", "16 builds need 16 blocks of rounds, but there are 15");
    }

    #[test]
    fn every_example_can_judge() {
        let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples");
        for folder in std::fs::read_dir(examples).unwrap().flatten() {
            let file = folder.path().join("hone.toml");
            let Ok(text) = std::fs::read_to_string(&file) else { continue };
            check(&parse(&text, &file).unwrap())
                .unwrap_or_else(|error| panic!("{}: {error:#}", file.display()));
        }
    }
}
