//! Who writes: a producer id and its epoch.

pub(super) const NO_EPOCH: i16 = -1;
pub(super) const NO_ID: i64 = -1;

/// A producer id in one of its lives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Producer {
    pub(crate) id: i64,
    pub(crate) epoch: i16,
}

impl Producer {
    /// What stands in an answer that gives none.
    pub(crate) const NONE: Self = Self { id: NO_ID, epoch: NO_EPOCH };
}
