//! What a parked request waits for.

use crate::groups::answers::{BeatAnswer, JoinAnswer, SyncAnswer};
use crate::transactions::producer::Producer;

/// What a parked request waits for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Reply {
    /// The coordinator lets a member in, or not.
    Join(JoinAnswer),
    /// The coordinator hands out an assignment, or refuses it.
    Sync(SyncAnswer),
    /// It is done, with this error code.
    Code(i16),
    /// It is done, and this is whom a producer is from now on.
    Producer(Producer),
    /// What the request lacked is there; it is to be served as if for the first time.
    Resume,
    /// The clerk has written the answer.
    Body(Vec<u8>),
    /// The clerk's work failed, which is a defect.
    Failed,
    /// Whether a password is the user's.
    Checked { user: String, user_is_right: bool },
    /// The coordinator has noted a heartbeat of a consumer group, and says where the member is.
    Beat(BeatAnswer),
    /// It is done, with an error code for each part.
    Codes(Vec<i16>),
}
