//! ApiVersions: what the broker serves. A version that it does not know is answered in the layout of version 0, the
//! one that every client can read.

use hone_kafka::WireError;

use super::APIS;
use super::call::{Call, Outcome};
use crate::code;
use crate::protocol::Answer;

/// Features by name, with the level in force. `transaction.version` 2 is KIP-890: producers let Produce announce their
/// partitions and get a new epoch with each end of a transaction.
const FEATURES: [(&str, i16); 1] = [("transaction.version", 2)];
/// Version 3 of the answer leaves out features that begin at 0, and the clients of that version take a missing one for
/// not supported.
const LOWEST_LEVEL: i16 = 1;
/// The features never change.
const FEATURES_EPOCH: i64 = 1;

pub(crate) fn serve(call: &mut Call<'_>, answer: &mut Answer<'_>) -> Result<Outcome, WireError> {
    if call.version_known && call.version >= 3 {
        let mut fields = call.fields();
        fields.string("client software name")?;
        fields.string("client software version")?;
        fields.tags()?;
    }
    answer.i16(if call.version_known { code::NONE } else { code::UNSUPPORTED_VERSION });
    answer.array(APIS.len());
    for api in APIS {
        answer.i16(api.key);
        answer.i16(api.min);
        answer.i16(api.max);
        answer.tags();
    }
    if call.version >= 1 {
        answer.i32(0);
    }
    if call.flexible {
        write_features(answer)
    } else {
        answer.tags()
    }
    Ok(Outcome::Reply)
}

/// The features as Kafka announces them: those that could be switched on, since which epoch, and those that are.
fn write_features(answer: &mut Answer<'_>) {
    let (mut supported, mut finalized) = (Vec::new(), Vec::new());
    write_levels(&mut Answer::new(&mut supported, true), |(name, level)| (name, LOWEST_LEVEL, level));
    // Here the larger one comes first; both are the level that is in force.
    write_levels(&mut Answer::new(&mut finalized, true), |(name, level)| (name, level, level));
    answer.tagged(&[(0, &supported), (1, &FEATURES_EPOCH.to_be_bytes()), (2, &finalized)]);
}

fn write_levels(out: &mut Answer<'_>, levels: impl Fn((&'static str, i16)) -> (&'static str, i16, i16)) {
    out.array(FEATURES.len());
    for feature in FEATURES {
        let (name, first, second) = levels(feature);
        out.string(name);
        out.i16(first);
        out.i16(second);
        out.tags();
    }
}
