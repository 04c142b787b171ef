//! The settings that every comparison of two states has, whichever verb makes it.

use std::time::Duration;

use anyhow::{Result, bail};
use clap::Args;
use hone_compare::Plan;
use hone_record::{Durability, Metric, Mode, Workload};
use serde::{Deserialize, Serialize};

use crate::arm::Place;
use crate::ending::Usage;
use crate::places::Places;

/// The longest that Hone waits for a process to start or to end, in seconds.
pub const LONGEST_WAIT_S: f64 = 3_600.0;

/// How pairs are judged, which of them count, and how long starts may take. Verbs take these as options, and runs keep them in their folder.
#[derive(Debug, Clone, PartialEq, Args, Serialize, Deserialize)]
pub struct ComparisonSettings {
    /// Metrics that must not get worse.
    #[arg(skip)]
    pub guards: Vec<Metric>,
    /// Two-sided error of the primary interval. `hone host try` divides it among the settings that it tries.
    #[arg(long, default_value_t = 0.05)]
    pub alpha: f64,
    /// Margin inside which two states count as equivalent.
    #[arg(long, default_value_t = 0.02, value_name = "SHARE")]
    pub equivalence: f64,
    /// Count every window, whatever neighbours did to the machine.
    #[arg(long)]
    pub keep_disturbed: bool,
    /// Seconds that a started command has to answer as a broker.
    #[arg(long = "ready-timeout", default_value_t = 30.0, value_name = "SECONDS")]
    pub ready_timeout_s: f64,
    /// Seconds that it has to end after SIGTERM before it is killed.
    #[arg(long = "stop-timeout", default_value_t = 30.0, value_name = "SECONDS")]
    pub stop_timeout_s: f64,
    /// The durability that an acknowledgement has on the disk, in words.
    #[arg(skip)]
    pub storage: String,
    /// A window in which the median request was sent later than this is refused.
    #[arg(skip)]
    pub lateness_limit_us: f64,
}

impl ComparisonSettings {
    /// Parses a place, which then has these timeouts.
    ///
    /// # Errors
    /// When the text is neither an address nor a command that can be started, and when a timeout is out of range.
    pub fn place(&self, text: &str) -> Result<Place> {
        self.check_timeouts()?;
        let [ready, stop] = [self.ready_timeout_s, self.stop_timeout_s].map(Duration::from_secs_f64);
        Place::parse(text, ready, stop)
    }

    /// # Errors
    /// When a timeout is out of range.
    pub fn check_timeouts(&self) -> Result<()> {
        let is_fine = |seconds: f64| (0.0..=LONGEST_WAIT_S).contains(&seconds);
        if !is_fine(self.ready_timeout_s) || !is_fine(self.stop_timeout_s) {
            bail!(Usage(format!(
                "--ready-timeout and --stop-timeout must lie between 0 and {LONGEST_WAIT_S} seconds"
            )));
        }
        Ok(())
    }

    /// The durability guarantee of this load.
    pub fn durability(&self, load: &Workload) -> Durability {
        Durability { acks: load.acks, storage: self.storage.clone() }
    }

    /// A plan with one build on each side that can show the usual effect. Callers override what they need.
    pub fn plan(&self, mode: Mode, primary: Metric, pairs: [u32; 2], load: &Workload) -> Plan {
        Plan {
            places: mode == Mode::Duet && Places::halves().is_some(),
            guards: self.guards.clone(),
            alpha: self.alpha,
            equivalence: self.equivalence,
            seed: load.seed,
            requests_per_window: load.requests_per_window(),
            disturbance: (!self.keep_disturbed).then(|| hone_compare::disturbance(mode)),
            reserve: None,
            effect: Some(hone_compare::USUAL_EFFECT),
            ..Plan::new(mode, primary, pairs)
        }
    }
}
