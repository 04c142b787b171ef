//! One blocking connection for requests that wait for their answers.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

use bytes::{Buf as _, Bytes, BytesMut};
use kafka_protocol::messages::{ApiKey, RequestHeader};
use kafka_protocol::protocol::{Decodable, Encodable, StrBytes};

use crate::error::LoadError;
use crate::shape;
use crate::stream::Stream;

/// No answer to these requests is larger.
const ANSWER_LIMIT_BYTES: usize = 64 << 20;
/// Client id of the load.
pub(crate) const CLIENT_ID: &str = "hone-load";
/// First bytes of a TLS server's answer to data without TLS: an alert, and the first half of the version.
const TLS_ALERT: [u8; 2] = [21, 3];

/// A connection after TLS and login.
#[derive(Debug)]
pub(crate) struct Line {
    address: String,
    stream: Stream,
    inside_tls: bool,
    correlation_id: i32,
    /// Whether the broker ever answered. A broker that requires TLS or a login closes the connection at the first request.
    answered: bool,
    limit: Duration,
}

impl Line {
    pub(crate) fn new(address: &str, stream: Stream, inside_tls: bool) -> Self {
        let address = address.to_owned();
        let limit = stream.socket().read_timeout().ok().flatten().unwrap_or_default();
        Self { address, stream, inside_tls, correlation_id: 0, answered: false, limit }
    }

    pub(crate) fn address(&self) -> &str {
        &self.address
    }

    /// The byte stream itself, for callers that send no more requests here.
    pub(crate) fn into_stream(self) -> Stream {
        self.stream
    }

    /// Time limit of each answer.
    pub(crate) fn limit_answers(&mut self, limit: Duration) -> Result<(), LoadError> {
        for set in [TcpStream::set_read_timeout, TcpStream::set_write_timeout] {
            set(self.stream.socket(), Some(limit))
                .map_err(|source| LoadError::System { what: "setting a socket's time limit", source })?;
        }
        self.limit = limit;
        Ok(())
    }

    /// Sends a request and waits for the answer. [`shape`] must know its shape, so that no length in it is trusted.
    pub(crate) fn ask<Q: Encodable, A: Decodable>(
        &mut self,
        key: ApiKey,
        version: i16,
        request: &Q,
    ) -> Result<A, LoadError> {
        let what = format!("{key:?} v{version}");
        self.correlation_id += 1;
        let frame = encode(key, version, self.correlation_id, request)
            .map_err(|problem| LoadError::Encode { what: what.clone(), problem })?;
        let answer = self.exchange(&frame, &what)?;
        decode(key, version, self.correlation_id, answer).map_err(|problem| self.garbage(&what, &problem))
    }

    pub(crate) fn garbage(&self, what: &str, problem: &str) -> LoadError {
        LoadError::Garbage {
            address: self.address.clone(),
            what: what.to_owned(),
            problem: problem.to_owned(),
        }
    }

    pub(crate) fn exchange(&mut self, frame: &[u8], what: &str) -> Result<Bytes, LoadError> {
        self.stream.write_all(frame).map_err(|source| self.broken(what, source))?;
        let mut length = [0; 4];
        self.stream.read_exact(&mut length).map_err(|source| self.broken(what, source))?;
        self.answered = true;
        if !self.inside_tls && length.starts_with(&TLS_ALERT) {
            return Err(LoadError::SpeaksTls { address: self.address.clone() });
        }
        let length = u32::from_be_bytes(length) as usize;
        if length > ANSWER_LIMIT_BYTES {
            return Err(self.garbage(what, &format!("its length field is {length} bytes")));
        }
        let mut body = Vec::new();
        let read = (&mut self.stream)
            .take(length as u64)
            .read_to_end(&mut body)
            .map_err(|source| self.broken(what, source))?;
        if read < length {
            return Err(self.broken(what, ErrorKind::UnexpectedEof.into()));
        }
        Ok(Bytes::from(body))
    }

    fn broken(&self, what: &str, source: std::io::Error) -> LoadError {
        let (address, what) = (self.address.clone(), what.to_owned());
        let closed = matches!(
            source.kind(),
            ErrorKind::UnexpectedEof | ErrorKind::ConnectionReset | ErrorKind::BrokenPipe
        );
        let alert = source.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>());
        if let Some(error) = alert {
            // With TLS 1.3 the broker checks the client's certificate after the client's handshake has ended.
            let advice = crate::security::tls::advice(error).to_owned();
            return LoadError::Tls { address, problem: error.to_string(), advice };
        }
        match source.kind() {
            ErrorKind::WouldBlock | ErrorKind::TimedOut => {
                LoadError::Slow { address, what, limit_s: self.limit.as_secs_f64() }
            }
            _ if closed && !self.answered => LoadError::Mute { address, what, source },
            _ => LoadError::Broken { address, what, source },
        }
    }
}

/// A request with its length.
pub(crate) fn encode<Q: Encodable>(
    key: ApiKey,
    version: i16,
    correlation_id: i32,
    request: &Q,
) -> Result<BytesMut, String> {
    let mut frame = BytesMut::from(&[0_u8; 4][..]);
    let header = RequestHeader::default()
        .with_request_api_key(key as i16)
        .with_request_api_version(version)
        .with_correlation_id(correlation_id)
        .with_client_id(Some(StrBytes::from_static_str(CLIENT_ID)));
    header.encode(&mut frame, key.request_header_version(version)).map_err(|error| error.to_string())?;
    request.encode(&mut frame, version).map_err(|error| error.to_string())?;
    let length = u32::try_from(frame.len() - 4).map_err(|error| error.to_string())?;
    frame[..4].copy_from_slice(&length.to_be_bytes());
    Ok(frame)
}

/// Decodes an answer from its frame's body.
pub(crate) fn decode<A: Decodable>(
    key: ApiKey,
    version: i16,
    correlation_id: i32,
    mut answer: Bytes,
) -> Result<A, String> {
    if answer.len() < 4 || answer.get_i32() != correlation_id {
        return Err("it answers another request (correlation id)".to_owned());
    }
    let version = shape::check(key, version, &answer)?;
    if key.response_header_version(version) > 0 {
        let skipped = shape::skip_header_tags(&answer).map_err(|problem| problem.to_string())?;
        answer.advance(skipped);
    }
    A::decode(&mut answer, version).map_err(|problem| problem.to_string())
}
