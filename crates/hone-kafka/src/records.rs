//! The records inside a batch: walked without allocation, and built.
//!
//! A record is a varint length, attributes (1 byte, unused), timestamp delta (varlong), offset delta (varint), key
//! and value (varint length, -1 for null, bytes), and headers (varint count; each a key and a value). All varints
//! are zigzag.

use crate::batch::{self, BatchError, HEADER_BYTES};
use crate::codec::{self, Codec};
use crate::wire::{Reader, WireError, put_varint, put_varlong};

/// Reasons why bytes are not the records that the header states.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RecordError {
    /// A field does not fit into what is left.
    #[error("record {index}: {source}")]
    Wire {
        /// Number of the record in the batch, from 0.
        index: i32,
        /// What does not fit.
        source: WireError,
    },
    /// The fields of a record end before or after the end that its length states.
    #[error("record {index}: its fields take {taken} bytes, but its length is {stated}")]
    Length {
        /// Number of the record in the batch, from 0.
        index: i32,
        /// Bytes that the fields take.
        taken: usize,
        /// Bytes that the length states.
        stated: usize,
    },
    /// Bytes after the last record.
    #[error("{left} bytes after the last of {count} records")]
    Trailing {
        /// Records that the header states.
        count: i32,
        /// Bytes that are left.
        left: usize,
    },
}

/// One record, borrowed from the decompressed records of its batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Record<'a> {
    /// Milliseconds after the batch's base timestamp.
    pub timestamp_delta: i64,
    /// Offset minus the batch's base offset.
    pub offset_delta: i32,
    /// `None` for null.
    pub key: Option<&'a [u8]>,
    /// `None` for null (a tombstone in a compacted topic).
    pub value: Option<&'a [u8]>,
    /// Number of headers; they are checked and skipped.
    pub header_count: i32,
}

/// Walks `count` records in `payload`, which must be uncompressed. It stops after the first error. Bytes after the last record are an
/// error.
pub fn records(payload: &[u8], count: i32) -> Records<'_> {
    Records { reader: Reader::new(payload), count, index: 0, done: false }
}

/// Iterator of [`records`].
#[derive(Debug, Clone)]
pub struct Records<'a> {
    reader: Reader<'a>,
    count: i32,
    index: i32,
    done: bool,
}

impl<'a> Iterator for Records<'a> {
    type Item = Result<Record<'a>, RecordError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.done {
            return None;
        }
        if self.index >= self.count {
            self.done = true;
            return match self.reader.rest().len() {
                0 => None,
                left => Some(Err(RecordError::Trailing { count: self.count, left })),
            };
        }
        let record = self.read();
        self.index += 1;
        self.done = record.is_err();
        Some(record)
    }
}

impl<'a> Records<'a> {
    fn read(&mut self) -> Result<Record<'a>, RecordError> {
        let index = self.index;
        let wire = |source| RecordError::Wire { index, source };
        let length = self.reader.varint("record length").map_err(wire)?;
        let stated = usize::try_from(length)
            .map_err(|_| wire(WireError::Length { field: "record length", length: i64::from(length) }))?;
        let body = self.reader.take(stated, "record").map_err(wire)?;
        let (record, left) = read_fields(body).map_err(wire)?;
        match left {
            0 => Ok(record),
            left => Err(RecordError::Length { index, taken: stated - left, stated }),
        }
    }
}

fn read_fields(body: &[u8]) -> Result<(Record<'_>, usize), WireError> {
    let mut reader = Reader::new(body);
    reader.i8("record attributes")?;
    let timestamp_delta = reader.varlong("timestamp delta")?;
    let offset_delta = reader.varint("offset delta")?;
    let key = nullable(&mut reader, "key")?;
    let value = nullable(&mut reader, "value")?;
    let header_count = reader.varint("header count")?;
    if header_count < 0 {
        return Err(WireError::Length { field: "header count", length: i64::from(header_count) });
    }
    for _ in 0..header_count {
        if nullable(&mut reader, "header key")?.is_none() {
            return Err(WireError::Length { field: "header key", length: -1 });
        }
        nullable(&mut reader, "header value")?;
    }
    let record = Record { timestamp_delta, offset_delta, key, value, header_count };
    Ok((record, reader.rest().len()))
}

fn nullable<'a>(reader: &mut Reader<'a>, field: &'static str) -> Result<Option<&'a [u8]>, WireError> {
    let length = reader.varint(field)?;
    match usize::try_from(length) {
        Ok(length) => reader.take(length, field).map(Some),
        Err(_) if length == -1 => Ok(None),
        Err(_) => Err(WireError::Length { field, length: i64::from(length) }),
    }
}

/// Builds one v2 batch, offsets from 0, without idempotence (producer id, epoch and sequence -1).
#[derive(Debug, Clone)]
pub struct BatchBuilder {
    codec: Codec,
    plain: Vec<u8>,
    body: Vec<u8>,
    count: i32,
    base_timestamp: i64,
    max_timestamp: i64,
}

impl BatchBuilder {
    /// An empty batch whose records will be compressed by `codec`.
    pub fn new(codec: Codec) -> Self {
        Self { codec, plain: Vec::new(), body: Vec::new(), count: 0, base_timestamp: -1, max_timestamp: -1 }
    }

    /// Number of records added so far.
    pub fn record_count(&self) -> i32 {
        self.count
    }

    /// Bytes of the records added so far, before compression.
    pub fn plain_bytes(&self) -> usize {
        self.plain.len()
    }

    /// Appends a record. `timestamp_ms` counts from 1970; the first one is the batch's base.
    pub fn push(&mut self, key: Option<&[u8]>, value: Option<&[u8]>, timestamp_ms: i64) {
        if self.count == 0 {
            self.base_timestamp = timestamp_ms;
            self.max_timestamp = timestamp_ms;
        }
        self.max_timestamp = self.max_timestamp.max(timestamp_ms);
        self.body.clear();
        self.body.push(0);
        put_varlong(&mut self.body, timestamp_ms.wrapping_sub(self.base_timestamp));
        put_varint(&mut self.body, self.count);
        put_nullable(&mut self.body, key);
        put_nullable(&mut self.body, value);
        put_varint(&mut self.body, 0);
        put_length(&mut self.plain, self.body.len());
        self.plain.extend_from_slice(&self.body);
        self.count += 1;
    }

    /// Builds the batch.
    ///
    /// # Errors
    /// Returns an error when the records can't be compressed, or the batch would be larger than its length field can hold.
    pub fn build(&self) -> Result<Vec<u8>, BatchError> {
        let mut out = Vec::with_capacity(HEADER_BYTES + self.plain.len());
        out.extend_from_slice(&0_i64.to_be_bytes()); // base offset
        out.extend_from_slice(&0_i32.to_be_bytes()); // length, by `seal`
        out.extend_from_slice(&(-1_i32).to_be_bytes()); // leader epoch
        out.push(2); // magic
        out.extend_from_slice(&0_u32.to_be_bytes()); // CRC, by `seal`
        out.extend_from_slice(&0_i16.to_be_bytes()); // attributes, by `seal`
        out.extend_from_slice(&(self.count - 1).max(0).to_be_bytes()); // last offset delta
        out.extend_from_slice(&self.base_timestamp.to_be_bytes());
        out.extend_from_slice(&self.max_timestamp.to_be_bytes());
        out.extend_from_slice(&(-1_i64).to_be_bytes()); // producer id
        out.extend_from_slice(&(-1_i16).to_be_bytes()); // producer epoch
        out.extend_from_slice(&(-1_i32).to_be_bytes()); // base sequence
        out.extend_from_slice(&self.count.to_be_bytes());
        codec::compress_into(self.codec, &self.plain, &mut out)?;
        batch::seal(&mut out, self.codec)?;
        Ok(out)
    }
}

fn put_nullable(out: &mut Vec<u8>, bytes: Option<&[u8]>) {
    match bytes {
        None => put_varint(out, -1),
        Some(bytes) => {
            put_length(out, bytes.len());
            out.extend_from_slice(bytes);
        }
    }
}

fn put_length(out: &mut Vec<u8>, length: usize) {
    // A length above 2^31 makes the batch too large for its own length field, and `build` rejects such a batch.
    put_varint(out, i32::try_from(length).unwrap_or(i32::MAX));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plain(values: &[&str]) -> Vec<u8> {
        let mut builder = BatchBuilder::new(Codec::None);
        for (index, value) in values.iter().enumerate() {
            builder.push(Some(b"k"), Some(value.as_bytes()), 100 + index as i64);
        }
        builder.build().unwrap()[HEADER_BYTES..].to_vec()
    }

    #[test]
    fn records_come_back_in_order() {
        let payload = plain(&["a", "bb", ""]);
        let walked: Vec<_> = records(&payload, 3).map(Result::unwrap).collect();
        let values: Vec<_> = walked.iter().map(|record| record.value.unwrap()).collect();
        assert_eq!(values, [b"a".as_slice(), b"bb", b""]);
        assert_eq!(walked[2].offset_delta, 2);
        assert_eq!(walked[2].timestamp_delta, 2);
    }

    #[test]
    fn fewer_or_more_records_than_promised_are_errors() {
        let payload = plain(&["a", "b"]);
        assert!(matches!(records(&payload, 1).last(), Some(Err(RecordError::Trailing { left: 9, .. }))));
        assert!(matches!(records(&payload, 3).last(), Some(Err(RecordError::Wire { index: 2, .. }))));
    }

    #[test]
    fn a_record_length_that_disagrees_with_its_fields_is_an_error() {
        let mut payload = plain(&["a"]);
        payload[0] += 2; // one byte longer
        payload.push(0);
        assert_eq!(
            records(&payload, 1).next(),
            Some(Err(RecordError::Length { index: 0, taken: 8, stated: 9 }))
        );
    }
}
