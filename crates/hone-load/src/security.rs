//! TLS and SASL connections to a broker.
//!
//! [`Security`] holds the options and can be passed to any engine. An `Access` has read its files and opens connections with it.

mod access;
mod login;
mod options;
mod scram;
pub(crate) mod tls;

#[cfg(feature = "librdkafka")]
pub(crate) use access::round_trip_us;
pub(crate) use access::{Access, connect};
pub(crate) use login::random;
pub use options::{Mechanism, Password, Sasl, Security, Tls};
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) use scram::{Exchange, Hash};
