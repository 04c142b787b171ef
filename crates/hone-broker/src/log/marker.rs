//! Control batches: the one record that ends a transaction.
//!
//! Its key is a version (i16) and the kind (i16: 0 abort, 1 commit); its value a version (i16) and the epoch of the
//! transaction coordinator (i32).

use hone_kafka::batch::{self, BatchError, HEADER_BYTES};
use hone_kafka::{BatchBuilder, BatchHeader, Codec, Reader, WireError, records};

use super::producers::Marker;

/// The control batch of a marker, offsets from 0.
pub(crate) fn build(
    producer_id: i64,
    epoch: i16,
    marker: Marker,
    coordinator_epoch: i32,
    now_ms: i64,
) -> Result<Vec<u8>, BatchError> {
    let kind: i16 = match marker {
        Marker::Abort => 0,
        Marker::Commit => 1,
    };
    let mut key = 0_i16.to_be_bytes().to_vec();
    key.extend_from_slice(&kind.to_be_bytes());
    let mut value = 0_i16.to_be_bytes().to_vec();
    value.extend_from_slice(&coordinator_epoch.to_be_bytes());
    let mut builder = BatchBuilder::new(Codec::None);
    builder.push(Some(&key), Some(&value), now_ms);
    let mut bytes = builder.build()?;
    batch::set_transactional(&mut bytes, true)?;
    batch::set_producer(&mut bytes, producer_id, epoch, -1)?;
    Ok(bytes)
}

/// What a control batch says: the marker and the coordinator's epoch. `None` for other batches and kinds.
pub(crate) fn parse(header: &BatchHeader, bytes: &[u8]) -> Option<(Marker, i32)> {
    if !header.is_control() {
        return None;
    }
    let record = records(bytes.get(HEADER_BYTES..)?, header.record_count).next()?.ok()?;
    let marker = match kind(record.key?).ok()? {
        0 => Marker::Abort,
        1 => Marker::Commit,
        _ => return None,
    };
    Some((marker, coordinator_epoch(record.value?).ok()?))
}

fn kind(key: &[u8]) -> Result<i16, WireError> {
    let mut reader = Reader::new(key);
    reader.i16("control record version")?;
    reader.i16("control record kind")
}

fn coordinator_epoch(value: &[u8]) -> Result<i32, WireError> {
    let mut reader = Reader::new(value);
    reader.i16("marker version")?;
    reader.i32("coordinator epoch")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_marker_is_read_as_it_was_built() {
        let bytes = build(9, 2, Marker::Commit, 5, 1_000).unwrap();
        batch::verify_crc(&bytes).unwrap();
        let header = BatchHeader::parse(&bytes).unwrap();
        assert!(header.is_control() && header.is_transactional());
        assert_eq!((header.producer_id, header.producer_epoch, header.base_sequence), (9, 2, -1));
        assert_eq!(parse(&header, &bytes), Some((Marker::Commit, 5)));
        let plain = BatchHeader { attributes: 0, ..header };
        assert_eq!(parse(&plain, &bytes), None);
        assert_eq!(parse(&header, &bytes[..70]), None);
    }
}
