//! The primitive types of the Kafka protocol, read from a slice.
//!
//! Integers are big-endian. Strings and arrays have a length in front of them. The "compact" forms of flexible versions have an unsigned
//! varint that is one larger than the length, with 0 for null.

/// Reasons why bytes are not the expected message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum WireError {
    /// The bytes end before the field does.
    #[error("{field} needs {needed} bytes, but only {left} are left")]
    Short {
        /// The field that was being read.
        field: &'static str,
        /// Bytes that the field needs.
        needed: usize,
        /// Bytes that are left.
        left: usize,
    },
    /// A length that no encoder writes.
    #[error("{field} has the invalid length {length}")]
    Length {
        /// The field that was being read.
        field: &'static str,
        /// The length as written.
        length: i64,
    },
    /// A varint that does not end within its type.
    #[error("{field} is a varint that does not end")]
    Varint {
        /// The field that was being read.
        field: &'static str,
    },
    /// Text that is not UTF-8.
    #[error("{field} is not UTF-8")]
    Text {
        /// The field that was being read.
        field: &'static str,
    },
    /// More bytes than the message has fields for.
    #[error("{left} bytes are left after the message")]
    Trailing {
        /// Bytes that are left.
        left: usize,
    },
}

/// Reads protocol types from the front of a slice. It copies nothing. After a failed read the reader is unusable for this message, and the
/// caller drops it.
#[derive(Debug, Clone, Copy)]
pub struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    /// A reader over all of `bytes`.
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    /// The bytes that are still unread.
    pub fn rest(&self) -> &'a [u8] {
        self.rest
    }

    /// Takes `length` bytes.
    ///
    /// # Errors
    /// Returns [`WireError::Short`].
    #[inline]
    pub fn take(&mut self, length: usize, field: &'static str) -> Result<&'a [u8], WireError> {
        let Some((head, rest)) = self.rest.split_at_checked(length) else {
            return Err(WireError::Short { field, needed: length, left: self.rest.len() });
        };
        self.rest = rest;
        Ok(head)
    }

    #[inline]
    fn array<const N: usize>(&mut self, field: &'static str) -> Result<[u8; N], WireError> {
        let Some((head, rest)) = self.rest.split_first_chunk::<N>() else {
            return Err(WireError::Short { field, needed: N, left: self.rest.len() });
        };
        self.rest = rest;
        Ok(*head)
    }

    /// One byte.
    ///
    /// # Errors
    /// Returns [`WireError::Short`].
    #[inline]
    pub fn i8(&mut self, field: &'static str) -> Result<i8, WireError> {
        Ok(i8::from_be_bytes(self.array(field)?))
    }

    /// Two bytes.
    ///
    /// # Errors
    /// Returns [`WireError::Short`].
    #[inline]
    pub fn i16(&mut self, field: &'static str) -> Result<i16, WireError> {
        Ok(i16::from_be_bytes(self.array(field)?))
    }

    /// Four bytes.
    ///
    /// # Errors
    /// Returns [`WireError::Short`].
    #[inline]
    pub fn i32(&mut self, field: &'static str) -> Result<i32, WireError> {
        Ok(i32::from_be_bytes(self.array(field)?))
    }

    /// Eight bytes.
    ///
    /// # Errors
    /// Returns [`WireError::Short`].
    #[inline]
    pub fn i64(&mut self, field: &'static str) -> Result<i64, WireError> {
        Ok(i64::from_be_bytes(self.array(field)?))
    }

    /// Sixteen bytes, big-endian.
    ///
    /// # Errors
    /// Returns [`WireError::Short`].
    #[inline]
    pub fn uuid(&mut self, field: &'static str) -> Result<u128, WireError> {
        Ok(u128::from_be_bytes(self.array(field)?))
    }

    /// An unsigned varint of at most 32 bits.
    ///
    /// # Errors
    /// Returns [`WireError::Short`] or [`WireError::Varint`].
    #[inline]
    pub fn unsigned_varint(&mut self, field: &'static str) -> Result<u32, WireError> {
        let value = self.varint_within(5, field)?;
        u32::try_from(value).map_err(|_| WireError::Varint { field })
    }

    /// An unsigned varint of at most 64 bits.
    ///
    /// # Errors
    /// Returns [`WireError::Short`] or [`WireError::Varint`].
    #[inline]
    pub fn unsigned_varlong(&mut self, field: &'static str) -> Result<u64, WireError> {
        self.varint_within(10, field)
    }

    /// An unsigned varint of at most this many bytes. Decoders stop after the last byte that a number of its width can have. A number with
    /// more bytes is therefore invalid: two readers would go on at different places.
    #[inline]
    fn varint_within(&mut self, most_bytes: u32, field: &'static str) -> Result<u64, WireError> {
        let mut value = 0_u64;
        for shift in (0..7 * most_bytes).step_by(7) {
            let [byte] = self.array::<1>(field)?;
            let bits = u64::from(byte & 0x7f);
            // The tenth byte has room for one bit only.
            if shift == 63 && bits > 1 {
                break;
            }
            value |= bits << shift;
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err(WireError::Varint { field })
    }

    /// A zigzag varint of at most 32 bits, as records use it.
    ///
    /// # Errors
    /// Returns [`WireError::Short`] or [`WireError::Varint`].
    #[inline]
    pub fn varint(&mut self, field: &'static str) -> Result<i32, WireError> {
        let raw = self.unsigned_varint(field)?;
        Ok((raw >> 1).cast_signed() ^ -(raw & 1).cast_signed())
    }

    /// A zigzag varint of at most 64 bits.
    ///
    /// # Errors
    /// Returns [`WireError::Short`] or [`WireError::Varint`].
    #[inline]
    pub fn varlong(&mut self, field: &'static str) -> Result<i64, WireError> {
        let raw = self.unsigned_varlong(field)?;
        Ok((raw >> 1).cast_signed() ^ -(raw & 1).cast_signed())
    }

    /// Bytes after a 32-bit length; -1 is null.
    ///
    /// # Errors
    /// Returns [`WireError::Short`], or [`WireError::Length`] below -1.
    #[inline]
    pub fn nullable_bytes(&mut self, field: &'static str) -> Result<Option<&'a [u8]>, WireError> {
        let length = self.i32(field)?;
        self.nullable(i64::from(length), field)
    }

    /// Bytes after an unsigned varint of length + 1; 0 is null.
    ///
    /// # Errors
    /// Returns [`WireError::Short`] or [`WireError::Varint`].
    #[inline]
    pub fn compact_nullable_bytes(&mut self, field: &'static str) -> Result<Option<&'a [u8]>, WireError> {
        let length = i64::from(self.unsigned_varint(field)?) - 1;
        self.nullable(length, field)
    }

    /// Text after a 16-bit length; -1 is null.
    ///
    /// # Errors
    /// Returns [`WireError::Short`], [`WireError::Text`], or [`WireError::Length`] below -1.
    #[inline]
    pub fn nullable_string(&mut self, field: &'static str) -> Result<Option<&'a str>, WireError> {
        let length = self.i16(field)?;
        self.nullable(i64::from(length), field)?.map(|bytes| text(bytes, field)).transpose()
    }

    /// Text after an unsigned varint of length + 1; 0 is null.
    ///
    /// # Errors
    /// Returns [`WireError::Short`], [`WireError::Varint`] or [`WireError::Text`].
    #[inline]
    pub fn compact_nullable_string(&mut self, field: &'static str) -> Result<Option<&'a str>, WireError> {
        self.compact_nullable_bytes(field)?.map(|bytes| text(bytes, field)).transpose()
    }

    /// Text after a 16-bit length, never null.
    ///
    /// # Errors
    /// Returns the errors of [`Reader::nullable_string`], and [`WireError::Length`] for null.
    #[inline]
    pub fn string(&mut self, field: &'static str) -> Result<&'a str, WireError> {
        self.nullable_string(field)?.ok_or(WireError::Length { field, length: -1 })
    }

    /// Text after an unsigned varint of length + 1, never null.
    ///
    /// # Errors
    /// Returns the errors of [`Reader::compact_nullable_string`], and [`WireError::Length`] for null.
    #[inline]
    pub fn compact_string(&mut self, field: &'static str) -> Result<&'a str, WireError> {
        self.compact_nullable_string(field)?.ok_or(WireError::Length { field, length: -1 })
    }

    /// The number of elements of an array after a 32-bit length; `None` for null (-1). It rejects a number whose elements, of `least_bytes`
    /// each, would not fit into the remaining bytes. So a loop over the elements always ends soon.
    ///
    /// # Errors
    /// Returns [`WireError::Short`] or [`WireError::Length`].
    #[inline]
    pub fn nullable_array_length(
        &mut self,
        least_bytes: usize,
        field: &'static str,
    ) -> Result<Option<usize>, WireError> {
        let length = i64::from(self.i32(field)?);
        self.elements(length, least_bytes, field)
    }

    /// Does the same as [`Reader::nullable_array_length`], for the compact form.
    ///
    /// # Errors
    /// Returns [`WireError::Short`], [`WireError::Varint`] or [`WireError::Length`].
    #[inline]
    pub fn compact_nullable_array_length(
        &mut self,
        least_bytes: usize,
        field: &'static str,
    ) -> Result<Option<usize>, WireError> {
        let length = i64::from(self.unsigned_varint(field)?) - 1;
        self.elements(length, least_bytes, field)
    }

    /// Does the same as [`Reader::nullable_array_length`]; null counts as empty.
    ///
    /// # Errors
    /// Returns [`WireError::Short`] or [`WireError::Length`].
    #[inline]
    pub fn array_length(&mut self, least_bytes: usize, field: &'static str) -> Result<usize, WireError> {
        Ok(self.nullable_array_length(least_bytes, field)?.unwrap_or(0))
    }

    /// Skips the tagged fields that end every structure of a flexible version.
    ///
    /// # Errors
    /// Returns [`WireError::Short`] or [`WireError::Varint`].
    #[inline]
    pub fn skip_tags(&mut self, field: &'static str) -> Result<(), WireError> {
        let count = self.unsigned_varint(field)?;
        for _ in 0..count {
            self.unsigned_varint(field)?;
            let length = self.unsigned_varint(field)?;
            self.take(length as usize, field)?;
        }
        Ok(())
    }

    /// Returns an error when bytes are left after the message.
    ///
    /// # Errors
    /// Returns [`WireError::Trailing`].
    #[inline]
    pub fn finish(&self) -> Result<(), WireError> {
        match self.rest.len() {
            0 => Ok(()),
            left => Err(WireError::Trailing { left }),
        }
    }

    #[inline]
    fn nullable(&mut self, length: i64, field: &'static str) -> Result<Option<&'a [u8]>, WireError> {
        match usize::try_from(length) {
            Ok(length) => self.take(length, field).map(Some),
            Err(_) if length == -1 => Ok(None),
            Err(_) => Err(WireError::Length { field, length }),
        }
    }

    #[inline]
    fn elements(
        &self,
        length: i64,
        least_bytes: usize,
        field: &'static str,
    ) -> Result<Option<usize>, WireError> {
        if length == -1 {
            return Ok(None);
        }
        let count = usize::try_from(length).map_err(|_| WireError::Length { field, length })?;
        if count.saturating_mul(least_bytes) > self.rest.len() {
            return Err(WireError::Length { field, length });
        }
        Ok(Some(count))
    }
}

#[inline]
fn text<'a>(bytes: &'a [u8], field: &'static str) -> Result<&'a str, WireError> {
    std::str::from_utf8(bytes).map_err(|_| WireError::Text { field })
}

/// Appends an unsigned varint.
pub fn put_unsigned_varint(out: &mut Vec<u8>, value: u32) {
    put_unsigned_varlong(out, u64::from(value));
}

/// Appends an unsigned varint of up to 64 bits.
pub fn put_unsigned_varlong(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Appends a zigzag varint.
pub fn put_varint(out: &mut Vec<u8>, value: i32) {
    put_unsigned_varint(out, ((value << 1) ^ (value >> 31)).cast_unsigned());
}

/// Appends a zigzag varint of up to 64 bits.
pub fn put_varlong(out: &mut Vec<u8>, value: i64) {
    put_unsigned_varlong(out, ((value << 1) ^ (value >> 63)).cast_unsigned());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn varints_survive_the_round_trip_at_their_ends() {
        for value in
            [0, 1, -1, 63, 64, -64, -65, i64::from(i32::MAX), i64::from(i32::MIN), i64::MAX, i64::MIN]
        {
            let mut bytes = Vec::new();
            put_varlong(&mut bytes, value);
            assert_eq!(Reader::new(&bytes).varlong("x"), Ok(value));
            if let Ok(small) = i32::try_from(value) {
                assert_eq!(Reader::new(&bytes).varint("x"), Ok(small));
            }
        }
    }

    #[test]
    fn a_varint_without_an_end_is_refused() {
        assert_eq!(Reader::new(&[0xff; 11]).varlong("x"), Err(WireError::Varint { field: "x" }));
        assert_eq!(
            Reader::new(&[0xff; 4]).varint("x"),
            Err(WireError::Short { field: "x", needed: 1, left: 0 })
        );
        let too_long_for_32_bits = [0xff, 0xff, 0xff, 0xff, 0x7f];
        assert_eq!(Reader::new(&too_long_for_32_bits).varint("x"), Err(WireError::Varint { field: "x" }));
        assert_eq!(Reader::new(&[0xff; 6]).varint("x"), Err(WireError::Varint { field: "x" }));
        // A small number in six bytes: others stop behind the fifth.
        let padded = [0x83, 0x80, 0x80, 0x80, 0x80, 0];
        assert_eq!(Reader::new(&padded).unsigned_varint("x"), Err(WireError::Varint { field: "x" }));
        assert_eq!(Reader::new(&padded).unsigned_varlong("x"), Ok(3));
    }

    #[test]
    fn an_array_longer_than_the_message_is_refused_before_the_loop() {
        let mut reader = Reader::new(&[0x7f, 0xff, 0xff, 0xff, 0, 0, 0, 0]);
        assert!(matches!(reader.array_length(4, "topics"), Err(WireError::Length { .. })));
        assert_eq!(Reader::new(&[0xff, 0xff, 0xff, 0xff]).array_length(4, "topics"), Ok(0));
    }
}
