//! What it takes to make the programs of an experiment, as far as that is known before. Pure.

use crate::spec::{Experiment, ProfileWish};

use crate::phase::Phase;
use crate::variants::{self, BoltBy, Made, Mix, Profile, Variant};

/// Seconds of load that the ceiling is measured under, at least.
pub const CEILING_PROBE_S: f64 = 3.0;

/// Phases that make programs, in their order.
pub const MAKING: [Phase; 3] = [Phase::Baseline, Phase::Train, Phase::Build];

/// What is known of the builds of an experiment.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Takes {
    /// Programs that a compiler makes in each phase, those that count among them.
    pub compiled: [u32; 3],
    /// Seconds of loads in each phase, as long as they are asked for.
    pub loads_s: [f64; 3],
    /// The variants that are worth a comparison.
    pub tried: Vec<String>,
    /// The loads that train.
    pub trained_by: Vec<String>,
}

impl Takes {
    /// Seconds of what is left after so many phases, when a compiler takes so long for each program. BOLT's own time, checks and starts are not
    /// among them: it takes at least as long. `made_s` is what an earlier attempt has done of each phase.
    pub fn rest_s(&self, phases: usize, compile_s: f64, made_s: [f64; 3]) -> f64 {
        let all = self.loads_s.iter().zip(self.compiled).zip(made_s);
        // What one phase took beyond its least makes no other one shorter.
        let left = all.map(|((loads_s, compiled), made_s)| {
            (loads_s + f64::from(compiled) * compile_s - made_s).max(0.0)
        });
        left.skip(phases).sum()
    }

    /// All programs that a compiler makes.
    pub fn programs(&self) -> u32 {
        self.compiled.iter().sum()
    }
}

/// Whether a comparison can show something of it: what is only there to be built upon, or has no profile, is expected to change nothing.
pub fn is_worth_trying(variant: &Variant) -> bool {
    variant.judged && !matches!(variant.made, Made::Plain { .. })
}

/// What an experiment asks for.
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

/// BOLT has a training of its own, and what it makes is checked for long.
fn rewritten_s(variant: &Variant, training_s: f64, soak_s: f64) -> Option<f64> {
    match variant.made {
        Made::Rewritten { by: BoltBy::Wanted | BoltBy::Samples, .. } => Some(training_s + soak_s),
        Made::Rewritten { by: BoltBy::Emulator, .. } => Some(soak_s),
        Made::Plain { .. } | Made::Shaped { .. } => None,
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
        // Broken off, and gone on with.
        assert_eq!(rest_s(1, [80.0, 20.0, 0.0]), 50.0 + 60.0);
        assert_eq!(
            rest_s(1, [80.0, 200.0, 55.0]),
            5.0,
            "the training took longer, and the other build does not"
        );
        assert_eq!(rest_s(1, [80.0, 200.0, 65.0]), 0.0);
        assert_eq!(plain.trained_by, ["t"]);
    }

    /// Its ground has no profile, and whoever tries it learns nothing.
    #[test]
    fn what_bolt_only_builds_on_is_not_tried() {
        let all = of("\"baseline\", \"pgo\", \"bolt\", \"pgo+bolt\"");
        assert_eq!(all.tried, ["pgo", "bolt", "pgo+bolt"]);
        assert_eq!((all.compiled, all.loads_s[2]), ([1, 1, 2], 80.0), "relocs and pgo; two of BOLT's");
        assert_eq!(of("\"baseline\", \"relocs\", \"bolt\"").tried, ["bolt"]);
    }
}
