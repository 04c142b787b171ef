//! A group of either kind.

use super::classic::Classic;
use super::consumer::Consumer;

#[derive(Debug)]
pub(super) enum Group {
    Classic(Classic),
    Consumer(Consumer),
}

impl Group {
    pub(super) fn is_empty(&self) -> bool {
        match self {
            Self::Classic(group) => group.is_empty(),
            Self::Consumer(group) => group.members.is_empty(),
        }
    }

    pub(super) fn is_idle(&self) -> bool {
        match self {
            Self::Classic(group) => group.is_idle(),
            Self::Consumer(group) => group.members.is_empty(),
        }
    }
}
