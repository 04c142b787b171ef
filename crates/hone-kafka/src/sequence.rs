//! Writes another base sequence into a batch without computing the CRC of its records again.

use crate::batch::{self, BatchError, HEADER_BYTES};

const CRC_AT: usize = 17;
const SEQUENCE_AT: usize = 53;
/// Sequences are not negative.
const BITS: usize = 31;

/// Everything that is needed to write a sequence into one batch again and again.
///
/// A CRC is linear: over bytes of the same length, each set bit of the sequence flips the same bits of the CRC, whatever the rest of the
/// batch holds. So the CRC for a sequence is the CRC for 0, combined with at most 31 words. The records of a batch may be megabytes.
#[derive(Debug, Clone)]
pub struct SequencePatch {
    crc_of_zero: u32,
    by_bit: Box<[u32; BITS]>,
}

impl SequencePatch {
    /// Prepares one whole batch whose other fields stay unchanged.
    ///
    /// # Errors
    /// Returns an error when the bytes are not exactly one batch.
    pub fn new(bytes: &[u8]) -> Result<Self, BatchError> {
        let header = batch::single(bytes)?.header;
        let mut copy = bytes.to_vec();
        let mut crc_of = |sequence: i32| {
            batch::set_producer(&mut copy, header.producer_id, header.producer_epoch, sequence)?;
            Ok::<_, BatchError>(batch::single(&copy)?.header.crc)
        };
        let crc_of_zero = crc_of(0)?;
        let mut by_bit = Box::new([0; BITS]);
        for (bit, turned) in by_bit.iter_mut().enumerate() {
            *turned = crc_of(1 << bit)? ^ crc_of_zero;
        }
        Ok(Self { crc_of_zero, by_bit })
    }

    /// Writes the sequence of the first record and the CRC into a copy of the batch; shorter bytes stay unchanged. Sequences wrap around: a
    /// negative sequence counts from the end, as in brokers.
    #[inline]
    pub fn apply(&self, batch: &mut [u8], sequence: i32) {
        let sequence = sequence & i32::MAX;
        let Some(head) = batch.first_chunk_mut::<HEADER_BYTES>() else { return };
        let mut crc = self.crc_of_zero;
        let mut bits = sequence;
        while bits != 0 {
            crc ^= self.by_bit[bits.trailing_zeros() as usize];
            bits &= bits - 1;
        }
        head[CRC_AT..CRC_AT + 4].copy_from_slice(&crc.to_be_bytes());
        head[SEQUENCE_AT..SEQUENCE_AT + 4].copy_from_slice(&sequence.to_be_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{BatchBuilder, Codec};

    #[test]
    fn every_sequence_has_the_crc_that_the_whole_batch_has() {
        for records in [1, 7, 300] {
            let mut builder = BatchBuilder::new(Codec::None);
            (0..records).for_each(|at| builder.push(None, Some(&[at as u8; 100]), 1_000));
            let mut bytes = builder.build().unwrap();
            batch::set_producer(&mut bytes, 77, 3, 0).unwrap();
            let patch = SequencePatch::new(&bytes).unwrap();
            for sequence in [0, 1, 2, 3, 1_000_000, i32::MAX - 1, i32::MAX, 0x5555_5555, 0x2aaa_aaaa] {
                patch.apply(&mut bytes, sequence);
                batch::verify_crc(&bytes).unwrap();
                let header = batch::single(&bytes).unwrap().header;
                assert_eq!(
                    (header.base_sequence, header.producer_id, header.producer_epoch),
                    (sequence, 77, 3)
                );
            }
        }
    }
}
