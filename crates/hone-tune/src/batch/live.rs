//! A topic of a running cluster, before and after a change that you make. Two times are not two arms: this shows the batches at
//! both times, but not that the change is the cause.

use std::path::Path;
use std::time::Duration;

use anyhow::{Result, bail};
use hone_batch::xray::Depth;
use hone_load::{Security, Topics};
use hone_record::{BatchXray, TopicXray};
use serde::{Deserialize, Serialize};

use super::reading::{self, Wish};
use super::step::Step;
use hone_experiment::ending::Usage;
use hone_experiment::folder::{RunFolder, read_record};
use hone_experiment::moment::now_unix_ms;
use hone_experiment::progress::Progress;

/// Bytes to read of the topic at most.
const BUDGET_BYTES: u64 = 256 << 20;
/// Time limit for reading.
const LIMIT: Duration = Duration::from_secs(120);
/// Rates that differ by more are different loads.
const SAME_LOAD: f64 = 0.1;

/// The settings, stored for the second look.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct LiveSettings {
    /// A broker of the cluster.
    pub broker: String,
    /// The topic's name.
    pub topic: String,
    /// How far back each look goes, in seconds.
    pub last_s: f64,
    /// The planned change, as given.
    pub changes: Vec<String>,
    /// The end of the first look, in milliseconds since 1970.
    #[serde(default)]
    pub looked_unix_ms: u64,
}

impl LiveSettings {
    /// Seconds until a second look no longer overlaps the first one; `None` when that is so.
    pub fn too_early_s(&self, now_unix_ms: u64) -> Option<f64> {
        let since_s = now_unix_ms.saturating_sub(self.looked_unix_ms) as f64 / 1e3;
        (since_s < self.last_s).then_some(self.last_s - since_s)
    }
}

/// The file in the run's folder that keeps the settings.
pub const ASKED_LIVE: &str = "asked-live.json";

/// Both looks.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct BeforeAfter {
    pub(crate) changes: Vec<String>,
    pub(crate) before: TopicXray,
    pub(crate) after: TopicXray,
    /// Limits of a comparison of two times, in words.
    pub limits: Vec<String>,
}

/// A running cluster before the change: the look, and the run's folder.
pub fn first_look(
    mut asked: LiveSettings,
    runs: &Path,
    security: &Security,
    progress: &Progress,
) -> Result<(BatchXray, RunFolder)> {
    for step in &asked.changes {
        Step::new(step.clone(), None)?;
    }
    progress.doing(&format!("reading the last {} s of {}", asked.last_s, asked.topic));
    let found = look(&asked, security)?;
    asked.looked_unix_ms = now_unix_ms();
    let folder = RunFolder::create(runs, "batch-live")?;
    folder.write_note(ASKED_LIVE, &asked)?;
    folder.write_record("before.json", found.clone())?;
    Ok((found, folder))
}

/// The same after it.
pub fn second_look(
    asked: &LiveSettings,
    folder: &RunFolder,
    security: &Security,
    progress: &Progress,
) -> Result<BeforeAfter> {
    let before: BatchXray = read_record(&folder.join("before.json"))?;
    if let Some(left_s) = asked.too_early_s(now_unix_ms()) {
        bail!(Usage(format!(
            "too early: the last {} s still overlap the first look\n  next: run it again in {:.0} s",
            asked.last_s,
            left_s.ceil()
        )));
    }
    progress.doing(&format!("reading the last {} s of {}", asked.last_s, asked.topic));
    let after = look(asked, security)?;
    folder.write_record("after.json", after.clone())?;
    let (Some(before), Some(after)) = (before.topics.into_iter().next(), after.topics.into_iter().next())
    else {
        bail!("{} has no look at a topic\n  next: begin a new run", folder.path().display());
    };
    Ok(beside(asked, before, after))
}

/// One look. It reads only headers and decompresses no records.
///
/// # Errors
/// When the topic does not exist, or can't be read.
fn look(asked: &LiveSettings, security: &Security) -> Result<BatchXray> {
    let mut topics = Topics::enter(&asked.broker, security)?;
    let wish = Wish {
        last_s: Some(asked.last_s),
        budget_bytes: BUDGET_BYTES,
        limit: LIMIT,
        depth: Depth { decode_bytes: 0, tolerable_linger_ms: 100.0 },
    };
    let topic = reading::look(&mut topics, &asked.topic, &wish)?;
    Ok(BatchXray { source: asked.broker.clone(), topics: vec![topic], notes: Vec::new() })
}

/// Both looks side by side, with their limits.
fn beside(asked: &LiveSettings, before: TopicXray, after: TopicXray) -> BeforeAfter {
    let mut limits = vec![
        "Before and after are two times of a running cluster, not two arms. Other producers, the load's \
         daily course, retries and elections may differ, so drift can't be excluded and there is no verdict. \
         To prove the change, test it on test topics: hone batch prove without --observe."
            .to_owned(),
        "A topic does not show CPU, latency and errors. Find them in the cluster's metrics (hone batch \
         watch) and in the producers' own."
            .to_owned(),
    ];
    match before.records_per_s.zip(after.records_per_s) {
        Some((then, now)) if then > 0.0 && (now / then - 1.0).abs() > SAME_LOAD => limits.push(format!(
            "The load itself differs: {then:.0} records/s before and {now:.0} after. More records make \
             batches larger by themselves."
        )),
        Some(_) => {}
        None => limits.push("One of the two times has too few records for a rate.".to_owned()),
    }
    BeforeAfter { changes: asked.changes.clone(), before, after, limits }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_look_holds_nothing_of_the_first() {
        let asked = LiveSettings {
            broker: "b:1".into(),
            topic: "t".into(),
            last_s: 60.0,
            changes: Vec::new(),
            looked_unix_ms: 1_000_000,
        };
        assert_eq!(asked.too_early_s(1_015_000), Some(45.0));
        assert_eq!(asked.too_early_s(1_060_000), None);
    }

    #[test]
    fn another_load_is_said_and_drift_always() {
        let asked = LiveSettings {
            broker: "b:1".into(),
            topic: "t".into(),
            last_s: 60.0,
            changes: vec!["linger=5ms".into()],
            looked_unix_ms: 0,
        };
        let at = |records_per_s| TopicXray { records_per_s, ..TopicXray::default() };
        let limits = |before, after| beside(&asked, at(before), at(after)).limits;
        assert_eq!(limits(Some(1_000.0), Some(1_050.0)).len(), 2);
        assert!(limits(Some(1_000.0), Some(1_050.0))[0].contains("drift can't be excluded"));
        assert!(
            limits(Some(1_000.0), Some(2_000.0))[2]
                .contains("The load itself differs: 1000 records/s before and 2000 after")
        );
        assert!(limits(None, Some(2_000.0))[2].contains("too few records"));
    }
}
