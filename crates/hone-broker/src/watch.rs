//! Links a parked Fetch to a partition that it reads.

use std::sync::Arc;

use crate::partition::Partition;
use crate::waiters::{Standing, Waiter};

/// A partition that a parked Fetch waits for.
#[derive(Debug)]
pub(crate) struct Watch {
    pub(crate) partition: Arc<Partition>,
    pub(crate) waiter: Arc<Waiter>,
    pub(crate) standing: Option<Standing>,
}

impl Watch {
    /// Takes the waiter out of the partition's list.
    pub(crate) fn end(&self) {
        if let Some(standing) = &self.standing {
            self.partition.forget(standing);
        }
    }
}
