//! The subset of protocol buffers that a pprof profile needs: fields in, fields out. The bytes are untrusted: a length is limited by the
//! available bytes, and no memory is reserved from it.

/// A field's contents.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Value<'a> {
    Varint(u64),
    Bytes(&'a [u8]),
    /// Of a type that pprof does not use; skipped.
    Other,
}

/// The fields of one message, in the order of the bytes.
#[derive(Debug, Clone, Copy)]
pub(super) struct Fields<'a>(pub(super) &'a [u8]);

impl<'a> Fields<'a> {
    /// The next field with its number; `None` at the end.
    pub(super) fn next(&mut self) -> Result<Option<(u64, Value<'a>)>, String> {
        if self.0.is_empty() {
            return Ok(None);
        }
        let key = self.varint()?;
        let value = match key & 7 {
            0 => Value::Varint(self.varint()?),
            1 => self.skip(8)?,
            2 => {
                let length = self.varint()?;
                Value::Bytes(self.take(length)?)
            }
            5 => self.skip(4)?,
            other => return Err(format!("a field has the wire type {other}, which pprof does not use")),
        };
        match key >> 3 {
            0 => Err("a field has the number 0".to_owned()),
            number => Ok(Some((number, value))),
        }
    }

    fn skip(&mut self, bytes: u64) -> Result<Value<'a>, String> {
        self.take(bytes).map(|_| Value::Other)
    }

    fn take(&mut self, length: u64) -> Result<&'a [u8], String> {
        let cut = || format!("it is cut off: a field of {length} bytes has only {} bytes", self.0.len());
        let length_in_memory = usize::try_from(length).map_err(|_| cut())?;
        let (taken, rest) = self.0.split_at_checked(length_in_memory).ok_or_else(cut)?;
        self.0 = rest;
        Ok(taken)
    }

    fn varint(&mut self) -> Result<u64, String> {
        let mut value = 0_u64;
        for shift in (0..70).step_by(7) {
            let (&byte, rest) = self.0.split_first().ok_or("it is cut off inside a number")?;
            self.0 = rest;
            let bits = u64::from(byte & 0x7f);
            if shift == 63 && bits > 1 {
                break;
            }
            value |= bits << shift;
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err("a number is longer than 64 bits".to_owned())
    }
}

impl<'a> Value<'a> {
    pub(super) fn number(self) -> Result<u64, String> {
        match self {
            Self::Varint(value) => Ok(value),
            _ => Err("a field that must be a number is not a number".to_owned()),
        }
    }

    pub(super) fn signed(self) -> Result<i64, String> {
        self.number().map(u64::cast_signed)
    }

    pub(super) fn bytes(self) -> Result<&'a [u8], String> {
        match self {
            Self::Bytes(bytes) => Ok(bytes),
            _ => Err("a field that must be a message or a string is neither".to_owned()),
        }
    }

    /// A repeated number: one alone, or many in one field.
    pub(super) fn numbers(self, into: &mut Vec<u64>) -> Result<(), String> {
        match self {
            Self::Varint(value) => into.push(value),
            Self::Bytes(bytes) => {
                let mut packed = Fields(bytes);
                while !packed.0.is_empty() {
                    into.push(packed.varint()?);
                }
            }
            Self::Other => return Err("a field that must contain numbers does not contain any".to_owned()),
        }
        Ok(())
    }
}

/// A message during writing. Fields of value 0 are left out, as the format requires.
#[derive(Debug, Default)]
pub(super) struct Message(pub(super) Vec<u8>);

impl Message {
    pub(super) fn number(&mut self, field: u64, value: u64) {
        if value != 0 {
            self.varint(field << 3);
            self.varint(value);
        }
    }

    pub(super) fn signed(&mut self, field: u64, value: i64) {
        self.number(field, value.cast_unsigned());
    }

    pub(super) fn flag(&mut self, field: u64, value: bool) {
        self.number(field, u64::from(value));
    }

    /// Written even if empty: a text's index in the table counts.
    pub(super) fn bytes(&mut self, field: u64, bytes: &[u8]) {
        self.varint(field << 3 | 2);
        self.varint(bytes.len() as u64);
        self.0.extend_from_slice(bytes);
    }

    pub(super) fn numbers(&mut self, field: u64, values: impl IntoIterator<Item = u64>) {
        let mut packed = Self::default();
        for value in values {
            packed.varint(value);
        }
        if !packed.0.is_empty() {
            self.bytes(field, &packed.0);
        }
    }

    fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.0.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.0.push(value as u8);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn lengths_and_numbers_are_not_believed() {
        let check = |bytes: &[u8], reason: &str| {
            let error = Fields(bytes).next().unwrap_err();
            assert!(error.contains(reason), "{error}");
        };
        check(&[0x0a, 0xff, 0xff, 0xff, 0xff, 0x0f], "cut off: a field of 4294967295 bytes has only 0");
        check(&[0x0a, 5, 1], "a field of 5 bytes has only 1");
        check(&[0x08, 0x80], "cut off inside a number");
        check(&[0x08, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2], "longer than 64 bits");
        check(&[0x03, 1], "wire type 3");
        check(&[0x00, 1], "number 0");
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(field in 1..1000_u64, number in 1_u64.., signed in i64::MIN..0, many: Vec<u64>) {
            let mut message = Message::default();
            message.number(field, number);
            message.signed(field, signed);
            message.numbers(field, many.iter().copied());
            let mut fields = Fields(&message.0);
            prop_assert_eq!(fields.next(), Ok(Some((field, Value::Varint(number)))));
            prop_assert_eq!(fields.next().unwrap().unwrap().1.signed(), Ok(signed));
            let mut read = Vec::new();
            if let Some((_, value)) = fields.next().unwrap() {
                value.numbers(&mut read).unwrap();
            }
            prop_assert_eq!(read, many);
        }

        #[test]
        fn no_bytes_make_it_panic(bytes: Vec<u8>) {
            let mut fields = Fields(&bytes);
            while let Ok(Some((_, value))) = fields.next() {
                let _ = value.numbers(&mut Vec::new());
            }
        }
    }
}
