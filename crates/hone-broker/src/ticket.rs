//! Names a connection that waits for something.

/// A connection that waits for something, and the reactor it belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Ticket {
    pub(crate) reactor: usize,
    /// Never used twice by one reactor.
    pub(crate) connection: usize,
}
