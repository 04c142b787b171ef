//! In private and under whose name: TLS and SASL towards a broker.
//!
//! [`Security`] says what is wanted and can be handed to any engine; a `Access` has read its files and opens
//! connections by it.

mod access;
mod login;
mod options;
mod scram;
pub(crate) mod tls;

#[cfg(feature = "librdkafka")]
pub(crate) use access::round_trip_us;
pub(crate) use access::{Access, connect};
pub use options::{Mechanism, Password, Sasl, Security, Tls};
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) use scram::{Exchange, Hash};
