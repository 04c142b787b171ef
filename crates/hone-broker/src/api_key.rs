//! The numbers of the APIs that are treated in a way of their own.

/// The number of APIs that the broker serves.
pub(crate) const COUNT: usize = 49;
/// May be served behind answers that wait, and quotas count the bytes of its requests.
pub(crate) const PRODUCE: i16 = 0;
/// Quotas count the bytes of its answers.
pub(crate) const FETCH: i16 = 1;
/// Its response header never carries tags, so that a client that is wrong about the version can read it.
pub(crate) const API_VERSIONS: i16 = 18;
/// What a client that has not logged in may ask for, besides ApiVersions.
pub(crate) const SASL_HANDSHAKE: i16 = 17;
pub(crate) const SASL_AUTHENTICATE: i16 = 36;
