//! The recommended settings for a topic: the least linger and batch size that bring its batches to a better size, within the user's
//! tolerance.

use hone_record::{AdvisedEffect, BatchAdvice, CheapestSetting};

use super::calibrate::Unexplained;
use super::predict::{Change, LADDER_MS};
use super::simulate::{Replay, Trigger};
use super::stream::Producer;
use crate::arrivals::floor_ms;

/// A setting that saves less than this share of the batches is not recommended. Hone's own limit.
const LEAST_SAVED: f64 = 0.05;
/// The saving that the longest linger must bring if it reaches neither size. Hone's own limit.
const WORTH_ITS_WAIT: f64 = 0.2;
/// From this share of batches that end with their transaction on, the transactions are the reason and not the linger. Hone's own limit.
const BY_COMMITS: f64 = 0.5;
/// A shorter linger with this share of the saving of the longest one is as good. Hone's own limit.
const AS_MUCH: f64 = 0.98;

/// A topic that was replayed with today's settings.
#[derive(Debug, Clone, Copy)]
pub(super) struct Replayed<'a> {
    /// With today's settings.
    pub today: &'a Replay,
    /// Today's linger.
    pub linger_us: u64,
    /// The client's default limit on records, if batches end at a smaller one.
    pub usual_records: Option<u32>,
    /// The longest linger that the user tolerates.
    pub tolerable_us: u64,
    /// The least settings that reach each size, smallest size first.
    pub cheapest: &'a [CheapestSetting],
}

impl Replayed<'_> {
    /// The larger size if a tolerable linger reaches it, otherwise the smaller, otherwise the effect of the longest linger.
    pub(super) fn advice(&self, with: &dyn Fn(&Change) -> Replay) -> BatchAdvice {
        let today_bytes = self.today.total.mean_bytes();
        let wanted = || self.cheapest.iter().rev().filter(|found| today_bytes < found.target_bytes as f64);
        if wanted().next().is_none() {
            return BatchAdvice::Keep;
        }
        if let Some(raised) = self.usual_records.and_then(|records| self.raised(records, with)) {
            return raised;
        }
        let longest_ms = self.tolerable_us.max(self.linger_us) as f64 / 1e3;
        let is_tolerable = |found: &&CheapestSetting| {
            !found.would_wait && found.linger_ms.is_some_and(|linger_ms| linger_ms <= longest_ms)
        };
        match wanted().find(is_tolerable) {
            Some(found) => self.set(found, with),
            None => self.longest(longest_ms, with),
        }
    }

    /// Batches that end at a number of records are full before any linger is over.
    fn raised(&self, records: u32, with: &dyn Fn(&Change) -> Replay) -> Option<BatchAdvice> {
        let effect = self.effect(&with(&Change { batch_records: Some(records), ..Change::default() }));
        (effect.batches_change <= -LEAST_SAVED).then_some(BatchAdvice::Set {
            linger_ms: None,
            batch_bytes: None,
            batch_records: Some(u64::from(records)),
            target_bytes: None,
            effect,
        })
    }

    fn set(&self, found: &CheapestSetting, with: &dyn Fn(&Change) -> Replay) -> BatchAdvice {
        let linger_us = found.linger_ms.map(|ms| (ms * 1e3) as u64).filter(|us| *us != self.linger_us);
        let change = Change {
            linger_us,
            batch_bytes: found.batch_bytes.and_then(|bytes| u32::try_from(bytes).ok()),
            ..Change::default()
        };
        let effect = self.effect(&with(&change));
        if effect.batches_change > -LEAST_SAVED {
            return BatchAdvice::Keep;
        }
        BatchAdvice::Set {
            linger_ms: linger_us.map(|us| us as f64 / 1e3),
            batch_bytes: found.batch_bytes,
            batch_records: None,
            target_bytes: Some(found.target_bytes),
            effect,
        }
    }

    /// The effect of the longest tolerable linger; of a shorter one if that is as good.
    fn longest(&self, tolerable_ms: f64, with: &dyn Fn(&Change) -> Replay) -> BatchAdvice {
        let replayed = |linger_us: u64| with(&Change { linger_us: Some(linger_us), ..Change::default() });
        let effect_of = |linger_us: u64| self.effect(&replayed(linger_us));
        let longest_us = (tolerable_ms * 1e3) as u64;
        let then = replayed(longest_us);
        let (most, share) = (self.effect(&then), then.share_of(Trigger::Commit));
        match (most.batches_change > -WORTH_ITS_WAIT, share >= BY_COMMITS) {
            (true, true) => return BatchAdvice::Commits { share, tolerable_ms, effect: most },
            (true, false) => return BatchAdvice::Starved { tolerable_ms, effect: most },
            (false, _) => {}
        }
        let shorter = LADDER_MS.iter().map(|ms| ms * 1_000);
        let shorter = shorter.filter(|us| (self.linger_us + 1..longest_us).contains(us));
        let enough = most.batches_change * AS_MUCH;
        let found = shorter.map(|us| (us, effect_of(us))).find(|(_, effect)| effect.batches_change <= enough);
        let (linger_us, effect) = found.unwrap_or((longest_us, most));
        BatchAdvice::Set {
            linger_ms: Some(linger_us as f64 / 1e3),
            batch_bytes: None,
            batch_records: None,
            target_bytes: None,
            effect,
        }
    }

    fn effect(&self, then: &Replay) -> AdvisedEffect {
        let wait_ms = |done: &Replay| done.waits_us.quantile(0.5).unwrap_or(0) as f64 / 1e3;
        AdvisedEffect {
            batches_change: then.total.batches as f64 / self.today.total.batches.max(1) as f64 - 1.0,
            batch_bytes_mean: then.total.mean_bytes(),
            wait_ms_p50_change: wait_ms(then) - wait_ms(self.today),
        }
    }
}

/// The remedy if the replay was refused: producers with the unexplained reason, those of most batches first.
pub(super) fn unexplained(producers: &[(&Producer, Option<&Unexplained>)], why: &str) -> BatchAdvice {
    let (mut all, mut waiting, mut largest) = (0, 0, None);
    for (producer, refused) in producers {
        all += producer.written.len();
        if matches!(refused, Some(Unexplained::ClosedLoop { .. })) {
            waiting += producer.written.len();
            largest = largest.or(Some(*producer));
        }
    }
    match largest.filter(|_| waiting * 2 > all) {
        Some(producer) => BatchAdvice::Waits { linger_ms: waited_out_ms(producer) },
        None => BatchAdvice::Unknown { why: why.to_owned() },
    }
}

/// The linger that each single record of a producer waits for.
pub(super) fn waited_out_ms(producer: &Producer) -> Option<f64> {
    let single = producer.written.iter().filter(|batch| batch.records == 1);
    let begins: Vec<i64> = single.map(|batch| (batch.begin_us / 1_000) as i64).collect();
    floor_ms(&begins).map(|ms| ms as f64)
}
