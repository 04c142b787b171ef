//! Advised settings for a topic, in words.

use hone_batch::verdict::{FEWER, FEWER_FOR_KEYS, LESS_OFTEN, UNTUNABLE, of_a_waiting_sender};
use hone_format::{bytes, measured, percent};
use hone_record::{AdvisedEffect, BatchAdvice};

/// One sentence or two. If records have keys, the advice for cases where linger does not help is about the keys.
pub fn words(advice: &BatchAdvice, is_keyed: bool) -> String {
    match advice {
        BatchAdvice::Set { linger_ms, batch_bytes, batch_records, target_bytes, effect } => {
            let linger = linger_ms.map(|ms| format!("linger to {ms} ms"));
            let size = batch_bytes.map(|bytes| format!("batch size to {bytes} bytes"));
            let records = batch_records.map(|records| format!("batch.num.messages to {records}"));
            let settings: Vec<String> = [linger, size, records].into_iter().flatten().collect();
            let bound = match (target_bytes, linger_ms) {
                (None, Some(_)) => {
                    ", which brings as much as any linger that you tolerate (--tolerable-linger)"
                }
                _ => "",
            };
            format!("set {}{bound}: {}", settings.join(" and "), effect_words(effect))
        }
        BatchAdvice::Starved { tolerable_ms, effect } => {
            let fewer = if is_keyed { FEWER_FOR_KEYS } else { FEWER };
            format!(
                "no linger that you tolerate helps much ({tolerable_ms} ms: {}); {fewer}{UNTUNABLE}",
                effect_words(effect)
            )
        }
        BatchAdvice::Commits { share, tolerable_ms, effect } => format!(
            "{LESS_OFTEN}; {} of the batches end with their transaction, so no linger that you tolerate helps much \
             ({tolerable_ms} ms: {}){UNTUNABLE}",
            percent(*share),
            effect_words(effect)
        ),
        BatchAdvice::Keep => {
            "keep linger and batch size: no change that you tolerate saves 5 % of the batches".to_owned()
        }
        BatchAdvice::Waits { linger_ms } => of_a_waiting_sender(*linger_ms),
        BatchAdvice::Unknown { why } => {
            format!("Hone advises no setting, because a replay can't predict its effect: {why}")
        }
    }
}

/// The batches first, then their size, and the cost.
fn effect_words(effect: &AdvisedEffect) -> String {
    let share = percent(effect.batches_change.abs());
    let batches = match effect.batches_change <= 0.0 {
        true => format!("{share} fewer batches"),
        false => format!("{share} more batches"),
    };
    let longer = if effect.wait_ms_p50_change < 0.0 { "shorter" } else { "longer" };
    format!(
        "{batches}, of {} each; the median record waits {} ms {longer}",
        bytes(effect.batch_bytes_mean as u64),
        measured(effect.wait_ms_p50_change.abs())
    )
}
