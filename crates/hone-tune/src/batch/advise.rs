//! The advice of the X-ray. It replays the topic's own records like `hone batch whatif`, so that both always agree.

use anyhow::Result;
use hone_batch::whatif::calibrate::Told;
use hone_batch::whatif::predict::Change;
use hone_load::Topics;
use hone_record::{BatchAdvice, BatchFinding, BatchVerdict, TopicXray, WhatIf};

use super::replaying::{self, LAST_S, Question, Window, Wish};
use super::segments::Files;
use hone_experiment::moment::now_ms;

/// Topics that are replayed if you name none.
pub const MOST_REPLAYED: usize = 8;
/// The rule behind a replay's advice.
const RULE: &str =
    "the topic's own records, replayed by the rules of the client that wrote them (hone batch whatif)";

/// How to replay.
#[derive(Debug, Clone, Copy)]
pub struct Replaying {
    /// Mebibytes to read of a topic at most.
    pub budget_bytes: u64,
    /// Time limits for reading and for the replay, in seconds.
    pub limit_s: f64,
    /// Whether records may be decompressed.
    pub reads_records: bool,
    /// The longest linger to propose, in milliseconds.
    pub tolerable_ms: f64,
}

/// Source of a topic's records.
pub enum Records<'a> {
    /// A cluster that runs.
    Cluster(&'a mut Topics),
    /// A broker's segments on this disk.
    Files(&'a Files),
}

/// Whether a replay can add to what a topic's headers show.
pub fn is_open(topic: &TopicXray) -> bool {
    topic.findings.iter().any(|finding| Reason::for_verdict(finding.verdict).is_some())
}

/// Replays a topic, and adds its advice to the findings. A topic that can't be replayed gets the reason.
pub fn advise(topic: &mut TopicXray, records: Records<'_>, replaying: &Replaying) {
    let advice = match replay(topic, records, replaying) {
        Ok(advice) => advice,
        Err(error) => BatchAdvice::Unknown { why: format!("{error:#}") },
    };
    topic.findings.iter_mut().for_each(|finding| take_over(finding, &advice));
    topic.advice = Some(advice);
}

fn replay(topic: &TopicXray, records: Records<'_>, replaying: &Replaying) -> Result<BatchAdvice> {
    let wish = |last_s| {
        let Replaying { budget_bytes, limit_s, reads_records, .. } = *replaying;
        Wish::usual(last_s, budget_bytes, limit_s, reads_records)
    };
    let window: Window = match records {
        Records::Cluster(topics) => {
            let since_ms = now_ms() - (1e3 * LAST_S) as i64;
            // If nobody wrote to a topic recently, the X-ray reads all of it.
            let is_recent = topic.read.times_ms.is_some_and(|(_, last)| last >= since_ms);
            replaying::of_cluster(topics, &topic.topic, &wish(is_recent.then_some(LAST_S)))?
        }
        Records::Files(topics) => {
            let files = topics.get(&topic.topic).cloned().unwrap_or_default();
            replaying::of_files(topic.topic.clone(), files, &wish(None))?
        }
    };
    let question = Question {
        told: Told::default(),
        change: Change::default(),
        seed: 1,
        tolerable_ms: replaying.tolerable_ms,
        limit_s: replaying.limit_s,
    };
    let WhatIf { advice, refused, .. } = replaying::replayed(window, &question)?;
    let why = refused.unwrap_or_else(|| "the replay did not finish".to_owned());
    Ok(advice.unwrap_or(BatchAdvice::Unknown { why }))
}

/// Reasons for small batches that a linger or a batch size can fix.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reason {
    /// Time, or too few records.
    Time,
    /// The batch size.
    Size,
}

impl Reason {
    fn for_verdict(verdict: BatchVerdict) -> Option<Self> {
        match verdict {
            BatchVerdict::LingerBound | BatchVerdict::RateStarved | BatchVerdict::KeySpread => {
                Some(Self::Time)
            }
            BatchVerdict::SizeCapped | BatchVerdict::CoDrained => Some(Self::Size),
            _ => None,
        }
    }
}

/// Adds the advice to a finding of small batches by time or by size. Other findings keep the result from the headers.
fn take_over(finding: &mut BatchFinding, advice: &BatchAdvice) {
    let Some(reason) = Reason::for_verdict(finding.verdict) else { return };
    let verdict = match (reason, advice) {
        (Reason::Size, BatchAdvice::Set { .. }) => finding.verdict,
        // The headers show the limit, and the replay has no better value.
        (Reason::Size, _) => return,
        (Reason::Time, BatchAdvice::Set { linger_ms: None, .. }) => BatchVerdict::SizeCapped,
        (Reason::Time, BatchAdvice::Set { .. }) => BatchVerdict::LingerBound,
        (Reason::Time, BatchAdvice::Waits { .. }) => BatchVerdict::SyncSender,
        (Reason::Time, BatchAdvice::Commits { .. }) => BatchVerdict::Flusher,
        (Reason::Time, BatchAdvice::Starved { .. }) if finding.verdict == BatchVerdict::LingerBound => {
            BatchVerdict::RateStarved
        }
        (Reason::Time, _) => finding.verdict,
    };
    let is_keyed = verdict == BatchVerdict::KeySpread;
    (finding.verdict, finding.rule) = (verdict, RULE.to_owned());
    finding.action = hone_document::advice::words(advice, is_keyed);
}

#[cfg(test)]
mod tests {
    use hone_record::AdvisedEffect;

    use super::*;

    fn taken_over(verdict: BatchVerdict, advice: &BatchAdvice) -> (BatchVerdict, String) {
        let mut finding = BatchFinding {
            verdict,
            share: 1.0,
            producer: None,
            evidence: "seen".to_owned(),
            action: "by the headers".to_owned(),
            rule: String::new(),
        };
        take_over(&mut finding, advice);
        (finding.verdict, finding.action)
    }

    #[test]
    fn the_replay_has_the_last_word_on_lingers() {
        let effect =
            AdvisedEffect { batches_change: -0.74, batch_bytes_mean: 4_500.0, wait_ms_p50_change: 28.0 };
        let set = BatchAdvice::Set {
            linger_ms: Some(50.0),
            batch_bytes: None,
            batch_records: None,
            target_bytes: Some(4_096),
            effect,
        };
        let (verdict, action) = taken_over(BatchVerdict::RateStarved, &set);
        assert_eq!(verdict, BatchVerdict::LingerBound);
        assert!(action.starts_with("set linger to 50 ms"), "{action}");
        assert!(action.contains("74.0 % fewer batches") && action.contains("28.0 ms"), "{action}");
        let starved = BatchAdvice::Starved { tolerable_ms: 100.0, effect };
        assert_eq!(taken_over(BatchVerdict::LingerBound, &starved).0, BatchVerdict::RateStarved);
        assert_eq!(taken_over(BatchVerdict::KeySpread, &starved).0, BatchVerdict::KeySpread);
        let waits = BatchAdvice::Waits { linger_ms: Some(5.0) };
        let (verdict, action) = taken_over(BatchVerdict::LingerBound, &waits);
        assert!(verdict == BatchVerdict::SyncSender && action.starts_with("set linger to 0"), "{action}");
        let commits = BatchAdvice::Commits { share: 0.97, tolerable_ms: 100.0, effect };
        let (verdict, action) = taken_over(BatchVerdict::LingerBound, &commits);
        assert!(verdict == BatchVerdict::Flusher && action.contains("97.0 % of the batches end"), "{action}");
        // The headers' result for other reasons stays.
        assert_eq!(taken_over(BatchVerdict::Flusher, &set).1, "by the headers");
        assert_eq!(taken_over(BatchVerdict::SizeCapped, &starved).1, "by the headers");
        let unknown = BatchAdvice::Unknown { why: "two senders".to_owned() };
        let (verdict, action) = taken_over(BatchVerdict::LingerBound, &unknown);
        assert!(verdict == BatchVerdict::LingerBound && action.contains("two senders"), "{action}");
    }
}
