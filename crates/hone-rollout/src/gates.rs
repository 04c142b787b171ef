//! Checks the gates of a roll-out once, without a roll-out.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use hone_load::Security;
use hone_load::health::Health;
use serde::{Deserialize, Serialize};

use crate::rollout::CANARY_TOPIC;
use crate::rollout::gate::{Closed, Finding, Gate, Rules, Stretch, Watched, by_broker, judge, well};
use crate::rollout::placing::broker_of;
use crate::rollout::text::Gates;
use hone_experiment::moment::now_unix_ms;
use hone_experiment::progress::Progress;

/// The contents of the file of --save-baseline.
#[derive(Debug, Serialize, Deserialize)]
struct KeptLook {
    hone_gate: u32,
    stretch: Stretch,
}

const KEPT_FORMAT: u32 = 1;

/// Checks the gates, and compares with a baseline from before a change. Returns whether anything is worse. `keep` is the file for
/// the new baseline.
pub fn looked_through(
    (bootstrap, security): (&[String], &Security),
    rules: &Rules,
    (with_canary, baseline): (bool, Duration),
    (against, changed): (Option<&Path>, Option<&str>),
    keep: Option<&Path>,
    progress: &Progress,
) -> Result<(Gates, bool)> {
    let (mut gate, health) = Gate::at(bootstrap, security, rules.clone())?;
    let before: Option<KeptLook> = against.map(kept_look).transpose()?;
    let changed = changed.map(|word| broker(word, &health)).transpose()?;
    if with_canary {
        let topic = format!("{CANARY_TOPIC}-{}-{}", now_unix_ms(), std::process::id());
        gate.with_canary(&topic, &health, security)?;
    }
    let seen = look(&mut gate, rules, baseline, progress);
    let remarks = gate.close().err().into_iter().collect();
    let (health, stretch, mut findings) = seen?;
    let latencies = by_broker(&stretch);
    let mut worse = false;
    if let Some(before) = &before {
        let judged = judge(&before.stretch, &stretch, changed, rules.tolerance);
        worse = judged.iter().any(|finding| finding.bad);
        findings.extend(judged);
    }
    if let Some(path) = keep {
        let text = serde_json::to_string(&KeptLook { hone_gate: KEPT_FORMAT, stretch })?;
        std::fs::write(path, text).with_context(|| format!("{} can't be written", path.display()))?;
    }
    Ok((Gates { health, findings, latencies, remarks }, worse))
}

fn look(
    gate: &mut Gate,
    rules: &Rules,
    baseline: Duration,
    progress: &Progress,
) -> Result<(Option<Health>, Stretch, Vec<Finding>)> {
    progress.doing("checking the cluster");
    let health = match gate.until_well(&mut || ()) {
        Ok(health) => health,
        Err(Closed::Interrupted) => bail!("interrupted"),
        Err(Closed::Sick(why)) => {
            return Ok((gate.look().ok(), Stretch::default(), vec![Finding { bad: true, text: why }]));
        }
    };
    let mut findings = vec![well(&health, rules)];
    progress.doing("sampling latencies");
    let mut stretch = match gate.watch(baseline, &mut || (), &|_| None) {
        Watched::Whole(stretch) => stretch,
        Watched::Early(stretch, why) => {
            findings.push(Finding { bad: true, text: why });
            stretch
        }
        Watched::Interrupted => bail!("interrupted"),
    };
    stretch.lags = gate.lags()?;
    Ok((Some(health), stretch, findings))
}

fn kept_look(path: &Path) -> Result<KeptLook> {
    let text = std::fs::read_to_string(path).with_context(|| format!("{} can't be read", path.display()))?;
    let kept: KeptLook = serde_json::from_str(&text)
        .with_context(|| format!("{} is not a file of --gate-only --save-baseline", path.display()))?;
    if kept.hone_gate != KEPT_FORMAT {
        bail!("{} has format {}, but this version needs {KEPT_FORMAT}", path.display(), kept.hone_gate);
    }
    Ok(kept)
}

/// A broker by its id, or by the host in its address.
fn broker(word: &str, health: &Health) -> Result<i32> {
    if let Ok(id) = word.parse::<i32>()
        && health.brokers.contains_key(&id)
    {
        return Ok(id);
    }
    broker_of(word, &health.brokers)
}
