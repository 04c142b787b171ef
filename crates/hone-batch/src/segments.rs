//! Segments as brokers store them. Kafka's and the embedded broker's are record batches as on the wire. Redpanda's have their own header of
//! the same length, in another order and little-endian (its `model/record.h` and `storage/parser.cc`).

use hone_kafka::BatchHeader;
use hone_kafka::batch::HEADER_BYTES;

use crate::scan::{Passed, Seen, scan, size_of};

/// The type of batches with records of producers; the others belong to the cluster.
const DATA: i8 = 1;

/// The layout of a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Layout {
    /// Batches as on the wire.
    Wire,
    /// With Redpanda's header.
    Redpanda,
}

/// By the first header: its checksum, or the byte with the format. `None` if it is neither.
pub fn layout_of(bytes: &[u8]) -> Option<Layout> {
    let head = bytes.get(..HEADER_BYTES)?;
    if redpanda_header(head).is_some() {
        return Some(Layout::Redpanda);
    }
    // A broken batch at the beginning does not change the layout.
    let is_wire = head.get(16).is_some_and(|magic| (0..=2).contains(magic)) && size_of(bytes).is_some();
    is_wire.then_some(Layout::Wire)
}

/// Passes on every complete batch of producers, in the order of a segment, with its bytes as on the wire if it is of that kind, and the
/// bytes after its header otherwise. Returns the skipped parts and the number of walked bytes: the rest is not a complete batch.
pub fn walk<'a>(bytes: &'a [u8], layout: Layout, mut each: impl FnMut(&Seen, &'a [u8])) -> (Passed, usize) {
    match layout {
        Layout::Wire => {
            let (passed, _) = scan(bytes, i64::MIN, each);
            let walked =
                bytes.len() - usize::try_from(passed.torn_bytes).unwrap_or(bytes.len()).min(bytes.len());
            (Passed { torn_bytes: 0, ..passed }, walked)
        }
        Layout::Redpanda => {
            let mut at = 0;
            while let Some((header, kind)) = bytes.get(at..).and_then(redpanda_header) {
                let size = header.total_bytes();
                let Some(batch) = bytes.get(at..at + size) else { break };
                if kind == DATA {
                    each(&Seen { header, bytes: size as u64 }, batch);
                }
                at += size;
            }
            (Passed::default(), at)
        }
    }
}

/// A Redpanda header with a valid checksum, and its type.
fn redpanda_header(bytes: &[u8]) -> Option<(BatchHeader, i8)> {
    let head = bytes.get(..HEADER_BYTES)?;
    let (checksum, rest) = head.split_first_chunk::<4>()?;
    if crc32c::crc32c(rest) != u32::from_le_bytes(*checksum) {
        return None;
    }
    let mut fields = Fields(rest);
    let size = i32::from_le_bytes(fields.take()?);
    let base_offset = i64::from_le_bytes(fields.take()?);
    let kind = i8::from_le_bytes(fields.take()?);
    let crc = i32::from_le_bytes(fields.take()?).cast_unsigned();
    let attributes = i16::from_le_bytes(fields.take()?);
    let last_offset_delta = i32::from_le_bytes(fields.take()?);
    let base_timestamp = i64::from_le_bytes(fields.take()?);
    let max_timestamp = i64::from_le_bytes(fields.take()?);
    let producer_id = i64::from_le_bytes(fields.take()?);
    let producer_epoch = i16::from_le_bytes(fields.take()?);
    let base_sequence = i32::from_le_bytes(fields.take()?);
    let record_count = i32::from_le_bytes(fields.take()?);
    // The wire format counts these from the end of the length field.
    const LENGTH_OVERHEAD: i32 = 12;
    let header = BatchHeader {
        base_offset,
        batch_length: size.checked_sub(LENGTH_OVERHEAD)?,
        leader_epoch: 0,
        magic: 2,
        crc,
        attributes,
        last_offset_delta,
        base_timestamp,
        max_timestamp,
        producer_id,
        producer_epoch,
        base_sequence,
        record_count,
    };
    (size >= HEADER_BYTES as i32).then_some((header, kind))
}

struct Fields<'a>(&'a [u8]);

impl Fields<'_> {
    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (field, rest) = self.0.split_first_chunk::<N>()?;
        self.0 = rest;
        Some(*field)
    }
}

#[cfg(test)]
mod tests {
    use hone_kafka::batch::set_base_offset;
    use hone_kafka::{BatchBuilder, Codec};
    use proptest::prelude::*;

    use super::*;

    fn on_the_wire(offset: i64) -> Vec<u8> {
        let mut builder = BatchBuilder::new(Codec::None);
        builder.push(None, Some(b"one"), 1_000);
        builder.push(None, Some(b"two"), 1_004);
        let mut bytes = builder.build().unwrap();
        set_base_offset(&mut bytes, offset).unwrap();
        bytes
    }

    /// The same batch with Redpanda's header.
    fn of_redpanda(wire: &[u8], kind: i8) -> Vec<u8> {
        let header = BatchHeader::parse(wire).unwrap();
        let mut rest = Vec::new();
        rest.extend((wire.len() as i32).to_le_bytes());
        rest.extend(header.base_offset.to_le_bytes());
        rest.extend(kind.to_le_bytes());
        rest.extend(header.crc.to_le_bytes());
        rest.extend(header.attributes.to_le_bytes());
        rest.extend(header.last_offset_delta.to_le_bytes());
        rest.extend(header.base_timestamp.to_le_bytes());
        rest.extend(header.max_timestamp.to_le_bytes());
        rest.extend(header.producer_id.to_le_bytes());
        rest.extend(header.producer_epoch.to_le_bytes());
        rest.extend(header.base_sequence.to_le_bytes());
        rest.extend(header.record_count.to_le_bytes());
        let checksum = crc32c::crc32c(&rest).to_le_bytes();
        [&checksum[..], &rest, &wire[HEADER_BYTES..]].concat()
    }

    fn walked(bytes: &[u8]) -> (Vec<Seen>, usize) {
        let mut all = Vec::new();
        let (_, at) = walk(bytes, layout_of(bytes).unwrap(), |seen, _| all.push(*seen));
        (all, at)
    }

    #[test]
    fn both_layouts_tell_the_same() {
        let wire = [on_the_wire(0), on_the_wire(2)].concat();
        let redpanda = [of_redpanda(&on_the_wire(0), DATA), of_redpanda(&on_the_wire(2), DATA)].concat();
        assert_eq!((layout_of(&wire), layout_of(&redpanda)), (Some(Layout::Wire), Some(Layout::Redpanda)));
        let (of_wire, of_redpanda) = (walked(&wire), walked(&redpanda));
        assert_eq!(of_wire.1, of_redpanda.1);
        for (one, other) in of_wire.0.iter().zip(&of_redpanda.0) {
            assert_eq!((one.bytes, one.span_ms()), (other.bytes, other.span_ms()));
            let same = BatchHeader { leader_epoch: 0, ..one.header };
            assert_eq!(BatchHeader { leader_epoch: 0, ..other.header }, same);
        }
    }

    #[test]
    fn what_is_the_clusters_own_is_passed_over_and_what_is_torn_is_left() {
        let own = of_redpanda(&on_the_wire(0), 2);
        let data = of_redpanda(&on_the_wire(2), DATA);
        let bytes = [own, data.clone(), data[..data.len() - 1].to_vec()].concat();
        let (seen, at) = walked(&bytes);
        assert_eq!((seen.len(), at), (1, bytes.len() - (data.len() - 1)));
        assert_eq!(layout_of(b"not a segment"), None);
        assert_eq!(layout_of(&[0; 200]), None);
    }

    proptest! {
        #[test]
        fn changed_bytes_do_no_harm(at: prop::sample::Index, to: u8, is_redpanda: bool) {
            let wire = [on_the_wire(0), on_the_wire(2)].concat();
            let own = [of_redpanda(&on_the_wire(0), DATA), of_redpanda(&on_the_wire(2), DATA)].concat();
            let mut bytes = if is_redpanda { own } else { wire };
            let at = at.index(bytes.len());
            bytes[at] = to;
            for layout in [Layout::Wire, Layout::Redpanda] {
                let (_, walked) = walk(&bytes, layout, |_, _| ());
                prop_assert!(walked <= bytes.len());
            }
        }
    }
}
