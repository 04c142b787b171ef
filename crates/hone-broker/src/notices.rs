//! Notices of the broker for its operator.

use std::fmt;
use std::sync::Arc;

/// Receiver of one-line notices, for example about a torn tail. The broker itself prints nothing.
#[derive(Clone)]
pub struct Notices(Arc<dyn Fn(&str) + Send + Sync>);

impl Notices {
    /// Sends every notice to `sink`.
    pub fn to(sink: impl Fn(&str) + Send + Sync + 'static) -> Self {
        Self(Arc::new(sink))
    }

    /// Drops every notice.
    pub fn nowhere() -> Self {
        Self::to(|_| ())
    }

    pub(crate) fn say(&self, notice: &str) {
        (self.0)(notice);
    }
}

impl fmt::Debug for Notices {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Notices")
    }
}
