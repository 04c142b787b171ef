//! What a comparison of two brokers is asked for, and what then stands on its sides.

use std::collections::BTreeSet;
use std::path::PathBuf;

use anyhow::{Context as _, Result, bail};
use hone_compare::Plan;
use hone_load::Security;
use hone_record::{Change, Metric, Mode, Workload};
use serde::{Deserialize, Serialize};

use crate::arm::{self, Arm, Place};
use crate::ending::Usage;
use crate::lever::{Lever, Set};
use crate::meter::Metrics;
use crate::places::Places;
use crate::settings::ComparisonSettings;
use crate::standing::Standing;
use crate::topics::{self, Topics};
use crate::{budget, change};

/// All that was asked for, as it is kept for the next attempt.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct CompareSettings {
    /// The builds of A.
    pub a: Vec<String>,
    /// Those of B; none when a change makes B.
    pub b: Vec<String>,
    /// What makes B of A.
    pub change: Option<Change>,
    /// Where the machine's files are.
    pub host_root: PathBuf,
    /// Where commands and their relative paths were meant.
    pub working_folder: PathBuf,
    /// Both arms at once or one after the other, where that is said.
    pub mode: Option<Mode>,
    /// Leave the arms of a duet where the scheduler puts them.
    pub free: bool,
    /// A/B pairs.
    pub pairs: u32,
    /// A/A pairs.
    pub control_pairs: u32,
    /// Most excluded pairs of each kind to measure again.
    pub reserve: Option<u32>,
    /// What the verdict hangs on.
    pub primary: Metric,
    /// The load.
    pub workload: Workload,
    /// All the time that the run may take.
    pub budget_s: Option<f64>,
    /// As a ratio above 1.
    pub effect: Option<f64>,
    /// End behind the pilot.
    pub plan_only: bool,
    /// Where metrics are read; of A alone where B has its own.
    #[serde(default)]
    pub metrics: Metrics,
    /// Of B, where they are not those of A.
    #[serde(default)]
    pub b_metrics: Vec<String>,
    /// What the run stands on; filled before the first window.
    #[serde(default)]
    pub standing: Option<Standing>,
    /// How pairs are judged, which of them count, and how long starts may take.
    #[serde(flatten)]
    pub comparison: ComparisonSettings,
}

impl CompareSettings {
    /// What a budget has to show.
    pub fn wanted(&self) -> Option<budget::Wanted> {
        Some(budget::Wanted { total_s: self.budget_s?, effect: self.effect })
    }

    /// What the windows of a pair take by themselves at least: a climb ends where the promise breaks.
    pub fn least_windows_s(&self, mode: Mode) -> f64 {
        self.workload.least_s() * if mode == Mode::Solo { 2.0 } else { 1.0 }
    }

    /// What stands on the two sides.
    ///
    /// # Errors
    /// When a side can't be started, or both are the same broker.
    pub fn sides(&self, security: &Security) -> Result<Sides> {
        let place = |text: &String| self.comparison.place(text);
        let mut of_b = self.metrics.clone();
        if !self.b_metrics.is_empty() {
            of_b.urls.clone_from(&self.b_metrics);
        }
        self.metrics.check()?;
        of_b.check()?;
        let arms = |name: &str, places: Vec<Place>| {
            let metrics = if name == "A" { &self.metrics } else { &of_b };
            let several = places.len() > 1;
            let name =
                |number: usize| if several { format!("{name}{}", number + 1) } else { name.to_owned() };
            let arm = |(number, place)| Arm {
                name: name(number),
                place,
                security: security.clone(),
                metrics: metrics.clone(),
            };
            places.into_iter().enumerate().map(arm).collect::<Vec<Arm>>()
        };
        let a = self.a.iter().map(place).collect::<Result<Vec<_>>>()?;
        let Some(change) = &self.change else {
            let b = self.b.iter().map(place).collect::<Result<Vec<_>>>()?;
            if a.iter().any(|place| matches!(place, Place::Address(_)) && b.contains(place)) {
                bail!(Usage(format!(
                    "A and B are the same broker, {}; for an A/A test start two, for a change of it see --change",
                    self.a[0]
                )));
            }
            let workloads = [self.workload.clone(), self.workload.clone()];
            return Ok(Sides { builds: [arms("A", a), arms("B", b)], workloads, lever: None });
        };
        let place = a.first().context("A is missing")?;
        let [a, b] = change::places(change, place)?;
        Ok(Sides {
            builds: [arms("A", vec![a]), arms("B", vec![b])],
            workloads: change::workloads(change, &self.workload)?,
            lever: Lever::of(change, &self.host_root, security),
        })
    }

    /// The design of the pairs, as far as it is known before a pilot.
    ///
    /// # Errors
    /// When the arms can't be loaded at once.
    pub fn plan(&self, sides: &Sides) -> Result<Plan> {
        let programs = sides.builds.iter().flatten().all(|arm| matches!(arm.place, Place::Program(_)));
        let on_host = matches!(sides.lever, Some(Lever::Host { .. }));
        let mode = match self.mode {
            Some(mode) => mode,
            None if programs && !on_host && self.primary != Metric::Capacity => Mode::Duet,
            None => Mode::Solo,
        };
        if mode == Mode::Duet && (on_host || (self.change.is_some() && !programs)) {
            let shared = if on_host { "machine" } else { "broker" };
            bail!(Usage(format!(
                "both arms share one {shared}, which can't be as it is and changed at the same time: use --mode solo"
            )));
        }
        if mode == Mode::Duet && !programs && self.control_pairs > 0 {
            bail!(Usage(
                "in a duet, a broker that runs already has no twin for the A/A control: use --mode solo, give both arms as \
                 commands, or go without a control (--control-pairs 0)"
                    .to_owned()
            ));
        }
        let builds = [0, 1].map(|side: usize| sides.builds[side].len() as u32);
        // A budget's pairs come out of the pilot.
        let pairs =
            if self.budget_s.is_some() { builds.into_iter().fold(self.pairs, u32::max) } else { self.pairs };
        Ok(Plan {
            places: mode == Mode::Duet && programs && !self.free && Places::halves().is_some(),
            builds,
            refused: arm::refused(&sides.workloads, programs),
            both_controls: self.change.is_none() && !programs,
            reserve: self.reserve,
            effect: self.effect_of_pairs(),
            default_guards: true,
            busy: self.metrics.are_read(),
            ..self.comparison.plan(mode, self.primary, [pairs, self.control_pairs], &self.workload)
        })
    }

    /// What a number of pairs has to be able to show. A budget has a plan of its own.
    fn effect_of_pairs(&self) -> Option<f64> {
        self.budget_s.is_none().then(|| self.effect.unwrap_or(hone_compare::USUAL_EFFECT))
    }
}

/// What stands on the two sides.
pub struct Sides {
    pub(crate) builds: [Vec<Arm>; 2],
    pub(crate) workloads: [Workload; 2],
    pub(crate) lever: Option<Lever>,
}

impl Sides {
    /// Whether nothing differs but chance.
    pub(crate) fn are_alike(&self) -> bool {
        let places = |side: usize| self.builds[side].iter().map(|arm| &arm.place);
        self.workloads[0] == self.workloads[1] && self.lever.is_none() && places(0).eq(places(1))
    }

    /// Brokers that run already, each once.
    pub(crate) fn addresses(&self) -> Vec<&str> {
        let places = self.builds.iter().flatten().filter_map(|arm| match &arm.place {
            Place::Address(address) => Some(address.as_str()),
            Place::Program(_) => None,
        });
        places.collect::<BTreeSet<&str>>().into_iter().collect()
    }

    /// Where this run makes topics that no broker takes with it when it ends.
    pub(crate) fn topics(&self) -> Vec<Topics> {
        let prefix = topics::prefix("compare");
        let topics = |address: &str| Topics { address: address.to_owned(), prefix: prefix.clone() };
        self.addresses().into_iter().map(topics).collect()
    }

    /// What the change sets outside of the arms, for each of them.
    pub(crate) fn sets(&self, change: Option<&Change>) -> [Vec<Set>; 2] {
        let Some((lever, change)) = self.lever.as_ref().zip(change) else { return Default::default() };
        [change.from.as_ref(), Some(&change.to)].map(|value| {
            let set =
                |value: &String| Set { lever: lever.clone(), value: value.clone(), was: change.was.clone() };
            value.map(set).into_iter().collect()
        })
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn random_arrivals_promise_fewer_requests_than_even_ones() {
        let mut workload = crate::spec::WorkloadFile::default().named("w").unwrap();
        assert_eq!(workload.requests_per_window(), Some(4_787));
        workload.schedule = hone_record::Schedule::Uniform;
        assert_eq!(workload.requests_per_window(), Some(5_000));
    }
}
