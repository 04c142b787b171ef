//! Requests read and answers written, each in the plain or the flexible form of its version.
//!
//! The broker decodes requests itself: a generated decoder that reserves memory for an array length before it has
//! checked it lets four foreign bytes end the process. Tests hold these hands-on codecs against such a generated one.

use hone_kafka::wire::{Reader, WireError, put_unsigned_varint};

use crate::log::file_range::FileRange;

/// Reads the fields of a request.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Fields<'a> {
    reader: Reader<'a>,
    flexible: bool,
}

impl<'a> Fields<'a> {
    pub(crate) fn new(bytes: &'a [u8], flexible: bool) -> Self {
        Self { reader: Reader::new(bytes), flexible }
    }

    /// Bytes not read yet.
    pub(crate) fn left(&self) -> usize {
        self.reader.rest().len()
    }

    pub(crate) fn i8(&mut self, field: &'static str) -> Result<i8, WireError> {
        self.reader.i8(field)
    }

    pub(crate) fn bool(&mut self, field: &'static str) -> Result<bool, WireError> {
        Ok(self.reader.i8(field)? != 0)
    }

    pub(crate) fn i16(&mut self, field: &'static str) -> Result<i16, WireError> {
        self.reader.i16(field)
    }

    pub(crate) fn i32(&mut self, field: &'static str) -> Result<i32, WireError> {
        self.reader.i32(field)
    }

    pub(crate) fn i64(&mut self, field: &'static str) -> Result<i64, WireError> {
        self.reader.i64(field)
    }

    pub(crate) fn f64(&mut self, field: &'static str) -> Result<f64, WireError> {
        Ok(f64::from_bits(self.reader.i64(field)?.cast_unsigned()))
    }

    pub(crate) fn uuid(&mut self, field: &'static str) -> Result<u128, WireError> {
        self.reader.uuid(field)
    }

    pub(crate) fn string(&mut self, field: &'static str) -> Result<&'a str, WireError> {
        if self.flexible { self.reader.compact_string(field) } else { self.reader.string(field) }
    }

    pub(crate) fn nullable_string(&mut self, field: &'static str) -> Result<Option<&'a str>, WireError> {
        if self.flexible {
            self.reader.compact_nullable_string(field)
        } else {
            self.reader.nullable_string(field)
        }
    }

    pub(crate) fn nullable_bytes(&mut self, field: &'static str) -> Result<Option<&'a [u8]>, WireError> {
        if self.flexible {
            self.reader.compact_nullable_bytes(field)
        } else {
            self.reader.nullable_bytes(field)
        }
    }

    pub(crate) fn bytes(&mut self, field: &'static str) -> Result<&'a [u8], WireError> {
        self.nullable_bytes(field)?.ok_or(WireError::Length { field, length: -1 })
    }

    /// Number of elements that follow, `None` for null. It is bounded by the bytes that are left, and still no
    /// reason to reserve memory.
    pub(crate) fn nullable_array(&mut self, field: &'static str) -> Result<Option<usize>, WireError> {
        if self.flexible {
            self.reader.compact_nullable_array_length(1, field)
        } else {
            self.reader.nullable_array_length(1, field)
        }
    }

    pub(crate) fn array(&mut self, field: &'static str) -> Result<usize, WireError> {
        Ok(self.nullable_array(field)?.unwrap_or(0))
    }

    /// Ends a structure.
    pub(crate) fn tags(&mut self) -> Result<(), WireError> {
        if self.flexible { self.reader.skip_tags("tagged fields") } else { Ok(()) }
    }
}

/// Writes the fields of an answer. Tagged fields are written only where they say something: each has a default, and at
/// least one client in wide use stumbles over a default that is written out.
pub(crate) struct Answer<'b> {
    out: &'b mut Vec<u8>,
    flexible: bool,
    /// Stretches of files, each with the place in the buffer that it goes to.
    files: Vec<(usize, FileRange)>,
}

impl<'b> Answer<'b> {
    pub(crate) fn new(out: &'b mut Vec<u8>, flexible: bool) -> Self {
        Self { out, flexible, files: Vec::new() }
    }

    /// Puts a stretch of a file here; the kernel will send it.
    pub(crate) fn file(&mut self, range: FileRange) {
        self.files.push((self.out.len(), range));
    }

    /// Removes the bytes after `length`.
    pub(crate) fn truncate(&mut self, length: usize) {
        self.out.truncate(length);
        self.files.retain(|(at, _)| *at < length);
    }

    /// The files that the buffer leaves out.
    pub(crate) fn into_files(self) -> Vec<(usize, FileRange)> {
        self.files
    }

    /// Bytes of files that go behind `at`.
    fn file_bytes_behind(&self, at: usize) -> usize {
        self.files.iter().filter(|(place, _)| *place > at).map(|(_, range)| range.bytes).sum()
    }

    /// The buffer, for records that are read straight into it.
    pub(crate) fn buffer(&mut self) -> &mut Vec<u8> {
        self.out
    }

    pub(crate) fn i8(&mut self, value: i8) {
        self.out.push(value.cast_unsigned());
    }

    pub(crate) fn bool(&mut self, value: bool) {
        self.out.push(u8::from(value));
    }

    pub(crate) fn i16(&mut self, value: i16) {
        self.out.extend_from_slice(&value.to_be_bytes());
    }

    pub(crate) fn i32(&mut self, value: i32) {
        self.out.extend_from_slice(&value.to_be_bytes());
    }

    pub(crate) fn i64(&mut self, value: i64) {
        self.out.extend_from_slice(&value.to_be_bytes());
    }

    pub(crate) fn f64(&mut self, value: f64) {
        self.out.extend_from_slice(&value.to_be_bytes());
    }

    pub(crate) fn uuid(&mut self, value: u128) {
        self.out.extend_from_slice(&value.to_be_bytes());
    }

    /// Texts of the broker and those echoed from requests fit; longer ones are cut at what the protocol can say.
    pub(crate) fn string(&mut self, text: &str) {
        let mut end = text.len().min(i16::MAX as usize);
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        let text = &text[..end];
        if self.flexible {
            put_unsigned_varint(self.out, end as u32 + 1);
        } else {
            self.i16(end as i16);
        }
        self.out.extend_from_slice(text.as_bytes());
    }

    pub(crate) fn nullable_string(&mut self, text: Option<&str>) {
        match text {
            Some(text) => self.string(text),
            None if self.flexible => self.out.push(0),
            None => self.i16(-1),
        }
    }

    pub(crate) fn bytes(&mut self, bytes: &[u8]) {
        self.array(bytes.len());
        self.out.extend_from_slice(bytes);
    }

    /// Begins an array (or bytes: their lengths look alike).
    pub(crate) fn array(&mut self, length: usize) {
        // Whatever is counted here came in, or was read, through 32-bit lengths.
        if self.flexible {
            put_unsigned_varint(self.out, length as u32 + 1);
        } else {
            self.i32(length as i32);
        }
    }

    /// An array that is not there.
    pub(crate) fn null_array(&mut self) {
        if self.flexible {
            self.out.push(0);
        } else {
            self.i32(-1);
        }
    }

    /// Ends a structure.
    pub(crate) fn tags(&mut self) {
        if self.flexible {
            self.out.push(0);
        }
    }

    /// Ends a structure with tagged fields, in ascending order.
    pub(crate) fn tagged(&mut self, fields: &[(u32, &[u8])]) {
        // Neither the number nor the size comes from a client.
        put_unsigned_varint(self.out, fields.len() as u32);
        for (tag, bytes) in fields {
            put_unsigned_varint(self.out, *tag);
            put_unsigned_varint(self.out, bytes.len() as u32);
            self.out.extend_from_slice(bytes);
        }
    }

    /// Leaves room for the length of bytes that are appended next; [`Answer::close_bytes`] fills it in.
    pub(crate) fn open_bytes(&mut self) -> usize {
        let at = self.out.len();
        // Five varint bytes hold every length; a longer form than needed is valid.
        self.out.extend_from_slice(if self.flexible { &[0; 5] } else { &[0; 4] });
        at
    }

    pub(crate) fn close_bytes(&mut self, at: usize) {
        let file_bytes = self.file_bytes_behind(at);
        if self.flexible {
            let length = (self.out.len() - at - 5 + file_bytes) as u32 + 1;
            for (index, byte) in self.out[at..at + 5].iter_mut().enumerate() {
                let more = if index < 4 { 0x80 } else { 0 };
                *byte = (length >> (7 * index)) as u8 & 0x7f | more;
            }
        } else {
            let length = (self.out.len() - at - 4 + file_bytes) as i32;
            self.out[at..at + 4].copy_from_slice(&length.to_be_bytes());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_closed_later_read_back_in_both_forms() {
        for flexible in [false, true] {
            for size in [0, 1, 126, 127, 128, 20_000] {
                let mut out = Vec::new();
                let mut answer = Answer::new(&mut out, flexible);
                let at = answer.open_bytes();
                answer.buffer().extend(std::iter::repeat_n(7, size));
                answer.close_bytes(at);
                answer.i16(-2);
                let mut fields = Fields::new(&out, flexible);
                assert_eq!(fields.bytes("records").unwrap(), vec![7; size]);
                assert_eq!(fields.i16("next"), Ok(-2));
            }
        }
    }

    #[test]
    fn texts_and_nulls_read_back_in_both_forms() {
        for flexible in [false, true] {
            let mut out = Vec::new();
            let mut answer = Answer::new(&mut out, flexible);
            answer.string("orders");
            answer.nullable_string(None);
            answer.array(0);
            answer.tags();
            let mut fields = Fields::new(&out, flexible);
            assert_eq!(fields.string("a"), Ok("orders"));
            assert_eq!(fields.nullable_string("b"), Ok(None));
            assert_eq!(fields.array("c"), Ok(0));
            fields.tags().unwrap();
            assert_eq!(fields.left(), 0);
        }
    }
}
