//! Coordinators: the brokers that keep a group's offsets, or a producer's transactions.

use std::time::{Duration, Instant};

use hone_kafka::error_name;
use kafka_protocol::messages::{ApiKey, FindCoordinatorRequest, FindCoordinatorResponse};
use kafka_protocol::protocol::StrBytes;

use crate::admin::Admin;
use crate::error::LoadError;

const FIND_COORDINATOR_VERSION: i16 = 2;
/// A coordinator that is asked for the first time may have to create its log, or still ends the transaction before.
const PATIENCE: Duration = Duration::from_secs(15);
const LOOK_AGAIN_AFTER: Duration = Duration::from_millis(100);
/// Errors that pass while a coordinator is looked for: COORDINATOR_LOAD_IN_PROGRESS, COORDINATOR_NOT_AVAILABLE, NOT_COORDINATOR,
/// CONCURRENT_TRANSACTIONS.
const PASSING_AT_FIRST: [i16; 4] = [14, 15, 16, 51];

/// What a coordinator is for.
#[derive(Debug, Clone, Copy)]
pub(crate) enum CoordinatorOf<'a> {
    /// A consumer group.
    Group(&'a str),
    /// A transactional producer, by its id.
    Transactions(&'a str),
}

/// The connection to the broker that holds a group's offsets.
pub(crate) fn coordinator(mut asked: Admin, of: CoordinatorOf<'_>) -> Result<Admin, LoadError> {
    let (key_type, what, key) = match of {
        CoordinatorOf::Group(group) => (0, "group", group),
        CoordinatorOf::Transactions(id) => (1, "transactional id", id),
    };
    let request = FindCoordinatorRequest::default()
        .with_key(StrBytes::from_string(key.to_owned()))
        .with_key_type(key_type);
    let found: FindCoordinatorResponse =
        asked.ask(ApiKey::FindCoordinator, FIND_COORDINATOR_VERSION, &request)?;
    asked.accepted(&format!("to name the coordinator of {what} `{key}`"), found.error_code, String::new())?;
    asked.another(&format!("{}:{}", &*found.host, found.port))
}

/// Does something at a coordinator that each attempt has to look up, since the one that was named may not be it any more, or not yet.
pub(crate) fn looked_up_anew<T>(mut attempt: impl FnMut() -> Result<T, LoadError>) -> Result<T, LoadError> {
    passing(&PASSING_AT_FIRST, LOOK_AGAIN_AFTER, || Ok(attempt()))
}

/// Repeats a request while the inner error is one of those that pass.
pub(crate) fn passing<T>(
    codes: &[i16],
    pause: Duration,
    mut ask: impl FnMut() -> Result<Result<T, LoadError>, LoadError>,
) -> Result<T, LoadError> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        match ask()? {
            Err(LoadError::Refused { error, .. })
                if codes.iter().any(|code| error_name(*code) == error) && Instant::now() < deadline =>
            {
                std::thread::sleep(pause);
            }
            taken => return taken,
        }
    }
}
