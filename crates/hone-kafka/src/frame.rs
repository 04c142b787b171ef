//! Frames (a 32-bit length and that number of bytes), and the heads of requests and responses.

use crate::wire::{Reader, WireError};

/// Bytes of the length in front of every frame.
pub const LENGTH_BYTES: usize = 4;

/// The front of a stream. An incomplete frame is an expected outcome, not an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Frame<'a> {
    /// The frame is incomplete; more bytes must arrive first.
    Incomplete {
        /// Size of the whole frame with its length, or 4 while the length itself is incomplete.
        needed_bytes: usize,
    },
    /// One frame.
    Complete {
        /// The bytes after the length.
        body: &'a [u8],
        /// Bytes to drop from the front of the stream: the body and its length.
        consumed_bytes: usize,
    },
    /// The length is negative or above the limit: the peer speaks another protocol, or sends too much.
    TooLarge {
        /// The length as stated.
        length: i32,
    },
}

impl<'a> Frame<'a> {
    /// Splits the first frame off `stream`. `limit_bytes` bounds the body.
    pub fn split(stream: &'a [u8], limit_bytes: usize) -> Self {
        let Some((length, rest)) = stream.split_first_chunk::<LENGTH_BYTES>() else {
            return Self::Incomplete { needed_bytes: LENGTH_BYTES };
        };
        let length = i32::from_be_bytes(*length);
        let Some(body_bytes) = usize::try_from(length).ok().filter(|bytes| *bytes <= limit_bytes) else {
            return Self::TooLarge { length };
        };
        let needed_bytes = LENGTH_BYTES + body_bytes;
        match rest.get(..body_bytes) {
            Some(body) => Self::Complete { body, consumed_bytes: needed_bytes },
            None => Self::Incomplete { needed_bytes },
        }
    }
}

/// The head of a request: the fields that all its header versions from 1 on have in common.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RequestHead<'a> {
    /// The number of the API.
    pub api_key: i16,
    /// The version of the API.
    pub api_version: i16,
    /// A number that the response repeats.
    pub correlation_id: i32,
    /// `None` for null.
    pub client_id: Option<&'a str>,
    /// The bytes after the client id. In a flexible version they begin with the header's tagged fields ([`RequestHead::body`]).
    pub rest: &'a [u8],
}

impl<'a> RequestHead<'a> {
    /// Reads the head from a frame's body.
    ///
    /// # Errors
    /// Returns an error when the bytes are too short or the client id is not UTF-8.
    pub fn parse(frame_body: &'a [u8]) -> Result<Self, WireError> {
        let mut reader = Reader::new(frame_body);
        Ok(Self {
            api_key: reader.i16("api key")?,
            api_version: reader.i16("api version")?,
            correlation_id: reader.i32("correlation id")?,
            client_id: reader.nullable_string("client id")?,
            rest: reader.rest(),
        })
    }

    /// The request after its header. `flexible` says whether this API's version has header tags; they are skipped.
    ///
    /// # Errors
    /// Returns an error when the tags are damaged.
    pub fn body(&self, flexible: bool) -> Result<&'a [u8], WireError> {
        let mut reader = Reader::new(self.rest);
        if flexible {
            reader.skip_tags("request header tags")?;
        }
        Ok(reader.rest())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_is_split_frame_by_frame() {
        let stream = [0, 0, 0, 2, 7, 8, 0, 0, 0, 0, 0, 0];
        assert_eq!(Frame::split(&stream, 10), Frame::Complete { body: &[7, 8], consumed_bytes: 6 });
        assert_eq!(Frame::split(&stream[6..], 10), Frame::Complete { body: &[], consumed_bytes: 4 });
        assert_eq!(Frame::split(&stream[10..], 10), Frame::Incomplete { needed_bytes: 4 });
        assert_eq!(Frame::split(&stream[..5], 10), Frame::Incomplete { needed_bytes: 6 });
    }

    #[test]
    fn negative_and_huge_lengths_are_told_before_any_byte_is_awaited() {
        assert_eq!(Frame::split(&[0xff; 4], 10), Frame::TooLarge { length: -1 });
        assert_eq!(Frame::split(&[0, 0, 0, 11], 10), Frame::TooLarge { length: 11 });
        // "GET " taken for a length.
        assert_eq!(Frame::split(b"GET / HTTP/1.1", 1 << 20), Frame::TooLarge { length: 0x4745_5420 });
    }

    #[test]
    fn a_flexible_header_ends_behind_its_tags() {
        let bytes = [0, 18, 0, 3, 0, 0, 0, 9, 0, 1, b'x', 1, 5, 2, 0xaa, 0xbb, 42];
        let head = RequestHead::parse(&bytes).unwrap();
        assert_eq!(
            (head.api_key, head.api_version, head.correlation_id, head.client_id),
            (18, 3, 9, Some("x"))
        );
        assert_eq!(head.body(true).unwrap(), [42]);
        assert_eq!(head.body(false).unwrap().len(), 6);
    }
}
