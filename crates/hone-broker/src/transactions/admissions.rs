//! Batches between the coordinator's check and their log. A transaction must not end in between: a batch after the
//! marker of its own transaction would open another one, which no client ever ends.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// How many batches of each producer are on their way.
type Counts = Arc<Mutex<HashMap<i64, usize>>>;

/// The batches that are on their way.
#[derive(Debug, Default)]
pub(super) struct Admissions(Counts);

/// Goes with a batch until that is appended, or is lost.
#[derive(Debug)]
pub(crate) struct Admission {
    counts: Counts,
    producer_id: i64,
}

fn lock(counts: &Counts) -> MutexGuard<'_, HashMap<i64, usize>> {
    counts.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Admissions {
    /// To be had before the coordinator is asked: an end that is decided later waits, one before is known by then.
    pub(super) fn begin(&self, producer_id: i64) -> Admission {
        *lock(&self.0).entry(producer_id).or_default() += 1;
        Admission { counts: Arc::clone(&self.0), producer_id }
    }

    pub(super) fn has(&self, producer_id: i64) -> bool {
        lock(&self.0).contains_key(&producer_id)
    }
}

impl Drop for Admission {
    fn drop(&mut self) {
        let mut counts = lock(&self.counts);
        if let Some(count) = counts.get_mut(&self.producer_id) {
            *count -= 1;
            if *count == 0 {
                counts.remove(&self.producer_id);
            }
        }
    }
}
