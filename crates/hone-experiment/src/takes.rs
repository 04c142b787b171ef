//! The time to build the programs of an experiment, as far as it is known in advance. Pure.

use crate::spec::{Experiment, ProfileWish};

use crate::phase::Phase;
use crate::variants::{self, BoltBy, Made, Mix, Profile, Variant};

/// The least seconds of load for the measurement of the ceiling.
pub const CEILING_PROBE_S: f64 = 3.0;

/// Phases that build programs, in their order.
pub const MAKING: [Phase; 3] = [Phase::Baseline, Phase::Train, Phase::Build];

/// The known figures about the builds of an experiment.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Takes {
    /// Programs that a compiler builds in each phase, instrumented ones included.
    pub compiled: [u32; 3],
    /// Seconds of loads in each phase, with their requested lengths.
    pub loads_s: [f64; 3],
    /// The variants that are worth a comparison.
    pub tried: Vec<String>,
    /// The loads that train.
    pub trained_by: Vec<String>,
}

impl Takes {
    /// Seconds of the remaining phases, if a compiler takes this time per program. It excludes BOLT's own time, checks and
    /// starts, so it is a lower bound. `made_s` is the time that an earlier attempt spent in each phase.
    pub fn rest_s(&self, phases: usize, compile_s: f64, made_s: [f64; 3]) -> f64 {
        let all = self.loads_s.iter().zip(self.compiled).zip(made_s);
        // A phase that took longer than its minimum makes no other phase shorter.
        let left = all.map(|((loads_s, compiled), made_s)| {
            (loads_s + f64::from(compiled) * compile_s - made_s).max(0.0)
        });
        left.skip(phases).sum()
    }

    /// All programs that a compiler builds.
    pub fn programs(&self) -> u32 {
        self.compiled.iter().sum()
    }
}

/// Whether a comparison can show an effect of it. A variant that is only a basis for others, or has no profile, is not expected
/// to change anything.
pub fn is_worth_trying(variant: &Variant) -> bool {
    variant.judged && !matches!(variant.made, Made::Plain { .. })
}

/// The requirements of an experiment.
pub fn takes(experiment: &Experiment) -> Takes {
    let training_s: f64 = experiment.training.iter().map(|training| training.workload.duration_s).sum();
    let is_trained = !matches!(experiment.profile, ProfileWish::File(_));
    let training_s = if is_trained { training_s } else { 0.0 };
    let profiles = variants::profiles(&experiment.variants);
    let trainings = profiles
        .iter()
        .filter(|profile| matches!(profile, Profile::First(Mix::All) | Profile::Second))
        .count() as u32;
    let counting = match experiment.profile {
        ProfileWish::Auto | ProfileWish::Instrumented => trainings,
        _ => 0,
    };
    let later = || experiment.variants.iter().skip(1);
    let compiled = later().filter(|variant| !matches!(variant.made, Made::Rewritten { .. })).count() as u32;
    let rewritten_s: f64 =
        later().filter_map(|variant| rewritten_s(variant, training_s, experiment.soak_s)).sum();
    Takes {
        compiled: [experiment.builds, counting, compiled * experiment.builds],
        loads_s: [
            CEILING_PROBE_S
                * experiment.judging.iter().filter(|load| load.engine.operations().is_none()).count() as f64,
            training_s * f64::from(trainings),
            rewritten_s,
        ],
        tried: later()
            .filter(|variant| is_worth_trying(variant))
            .map(|variant| variant.name.clone())
            .collect(),
        trained_by: experiment.training.iter().map(|training| training.workload.name.clone()).collect(),
    }
}

/// BOLT has its own training, and its programs are checked for long.
fn rewritten_s(variant: &Variant, training_s: f64, soak_s: f64) -> Option<f64> {
    match variant.made {
        Made::Rewritten { by: BoltBy::Wanted | BoltBy::Samples, .. } => Some(training_s + soak_s),
        Made::Rewritten { by: BoltBy::Emulator, .. } => Some(soak_s),
        Made::Plain { .. } | Made::Shaped { .. } | Made::Configured => None,
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::spec;

    fn of(variants: &str) -> Takes {
        let text = format!(
            "name = \"x\"\n[target]\nmanifest = \"Cargo.toml\"\npackage = \"p\"\nbin = \"b\"\nargs = [\"{{port}}\"]\n\
             [workload.t]\nseed = 1001\nrecord_bytes = 300\npayload = \"telemetry\"\nduration_s = 10\n[workload.j]\nduration_s = 5\npayload = \"orders\"\n\
             [optimize]\ntrain = \"t\"\njudge = [\"j\"]\nvariants = [{variants}]\nsoak_s = 30\n"
        );
        takes(&spec::parse(&text, Path::new("hone.toml")).unwrap())
    }

    #[test]
    fn builds_take_what_their_loads_and_their_compiler_take() {
        let plain = of("\"baseline\", \"pgo\"");
        assert_eq!((plain.compiled, plain.loads_s), ([1, 1, 1], [CEILING_PROBE_S, 10.0, 0.0]));
        let rest_s = |phases, made_s| plain.rest_s(phases, 60.0, made_s);
        assert_eq!(rest_s(1, [0.0; 3]), 10.0 + 120.0);
        assert_eq!(rest_s(3, [0.0; 3]), 0.0);
        // Interrupted and resumed.
        assert_eq!(rest_s(1, [80.0, 20.0, 0.0]), 50.0 + 60.0);
        assert_eq!(
            rest_s(1, [80.0, 200.0, 55.0]),
            5.0,
            "the training took longer, and the other build does not"
        );
        assert_eq!(rest_s(1, [80.0, 200.0, 65.0]), 0.0);
        assert_eq!(plain.trained_by, ["t"]);
    }

    /// Its basis has no profile, so a test of it shows nothing.
    #[test]
    fn what_bolt_only_builds_on_is_not_tried() {
        let all = of("\"baseline\", \"pgo\", \"bolt\", \"pgo+bolt\"");
        assert_eq!(all.tried, ["pgo", "bolt", "pgo+bolt"]);
        assert_eq!((all.compiled, all.loads_s[2]), ([1, 1, 2], 80.0), "relocs and pgo; two of BOLT's");
        assert_eq!(of("\"baseline\", \"relocs\", \"bolt\"").tried, ["bolt"]);
    }
}
