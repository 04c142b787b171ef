//! The settings that all comparisons of two states share, in every verb.

use std::time::Duration;

use anyhow::{Result, bail};
use clap::Args;
use hone_compare::{LookPlan, Plan};
use hone_format::{read_seconds, read_share};
use hone_record::{Durability, Metric, Mode, Workload};
use serde::{Deserialize, Serialize};

use crate::arm::{self, Place};
use crate::ending::Usage;
use crate::places::Places;

/// The longest time that Hone waits for a process to start or to end, in seconds.
pub const LONGEST_WAIT_S: f64 = 3_600.0;

/// The rule for the verdict, the exclusion of pairs, and the time limits of starts. They are options of verbs, and a run stores them.
#[derive(Debug, Clone, PartialEq, Args, Serialize, Deserialize)]
pub struct ComparisonSettings {
    /// Metrics that must not get worse.
    #[arg(skip)]
    pub guards: Vec<Metric>,
    /// Two-sided error rate of the primary confidence interval. 0.05 means a 95 % confidence interval. `hone host try` divides it among its
    /// settings.
    #[arg(help_heading = "Verdict", long, default_value = "5%", value_parser = read_share, value_name = "SHARE")]
    pub alpha: f64,
    /// Margin within which two states count as equivalent.
    #[arg(help_heading = "Verdict", long, default_value = "2%", value_parser = read_share, value_name = "SHARE")]
    pub equivalence: f64,
    /// Keep windows that other work on the machine disturbed. Without this option, Hone excludes them.
    #[arg(help_heading = "Verdict", long)]
    pub keep_disturbed: bool,
    /// Time that a started command has until it answers as a broker. A number without a unit means seconds.
    #[arg(help_heading = "Verdict", long = "ready-timeout", default_value = "30s", value_parser = read_seconds, value_name = "TIME")]
    pub ready_timeout_s: f64,
    /// Time that a started command has to end after SIGTERM. Hone then kills it. A number without a unit means seconds.
    #[arg(help_heading = "Verdict", long = "stop-timeout", default_value = "30s", value_parser = read_seconds, value_name = "TIME")]
    pub stop_timeout_s: f64,
    /// Command that runs before each start of a command, for example to fill its data folder. It may have {data}, {port} and {port2}.
    #[arg(help_heading = "Verdict", long, value_name = "COMMAND")]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prepare: Option<String>,
    /// The durability guarantee of an acknowledgement, in words.
    #[arg(skip)]
    pub storage: String,
    /// Highest lateness of the generator. Hone excludes a window in which it fell further behind.
    #[arg(skip)]
    pub lateness_limit_us: f64,
}

impl ComparisonSettings {
    /// Parses an arm, which gets these timeouts and this preparation.
    ///
    /// # Errors
    /// If the text is neither an address nor a valid command, if a timeout is out of range, or if there is nothing to prepare.
    pub fn place(&self, text: &str) -> Result<Place> {
        self.check_timeouts()?;
        let [ready, stop] = [self.ready_timeout_s, self.stop_timeout_s].map(Duration::from_secs_f64);
        let prepare =
            self.prepare.as_deref().map(arm::words_of).transpose().map_err(Usage)?.unwrap_or_default();
        Place::parse(text, &prepare, ready, stop)
    }

    /// Checks the timeouts.
    ///
    /// # Errors
    /// If a timeout is out of range.
    pub fn check_timeouts(&self) -> Result<()> {
        let is_fine = |seconds: f64| (0.0..=LONGEST_WAIT_S).contains(&seconds);
        if !is_fine(self.ready_timeout_s) || !is_fine(self.stop_timeout_s) {
            bail!(Usage(format!(
                "--ready-timeout and --stop-timeout must be between 0 and {LONGEST_WAIT_S} seconds"
            )));
        }
        Ok(())
    }

    /// The durability guarantee of this load.
    pub fn durability(&self, load: &Workload) -> Durability {
        Durability { acks: load.acks, storage: self.storage.clone() }
    }

    /// A plan with one build per arm that can detect the usual effect and ends early if a look decides. Callers change the fields that they need.
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
            looks: LookPlan::of_pairs(pairs[0], [1, 1]),
            reads: load.consumers > 0 && !load.is_read_only(),
            ..Plan::new(mode, primary, pairs)
        }
    }
}
