//! SASL as a client: SaslHandshake names the mechanism, SaslAuthenticate carries its messages.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD_NO_PAD as BASE64;
use bytes::Bytes;
use hone_kafka::error_name;
use kafka_protocol::messages::{
    ApiKey, SaslAuthenticateRequest, SaslAuthenticateResponse, SaslHandshakeRequest, SaslHandshakeResponse,
};
use kafka_protocol::protocol::StrBytes;
use ring::rand::{SecureRandom as _, SystemRandom};

use super::options::{Mechanism, Sasl};
use super::scram::{Exchange, Hash};
use crate::error::LoadError;
use crate::line::Line;

/// The last non-flexible versions.
const HANDSHAKE_VERSION: i16 = 1;
const AUTHENTICATE_VERSION: i16 = 1;
const NONCE_BYTES: usize = 24;

/// Logs in on a fresh connection.
pub(crate) fn log_in(line: &mut Line, sasl: &Sasl) -> Result<(), LoadError> {
    let name = sasl.mechanism.name();
    let request = SaslHandshakeRequest::default().with_mechanism(StrBytes::from_static_str(name));
    let answer: SaslHandshakeResponse = line.ask(ApiKey::SaslHandshake, HANDSHAKE_VERSION, &request)?;
    if answer.error_code != 0 {
        let offered: Vec<&str> = answer.mechanisms.iter().map(|offered| &**offered).collect();
        let (problem, advice) = match offered.as_slice() {
            [] => (error_name(answer.error_code).to_owned(), "leave out --sasl-mechanism".to_owned()),
            known => (
                format!("it does not support {name} ({})", error_name(answer.error_code)),
                format!("use one of {} (--sasl-mechanism)", known.join(", ")),
            ),
        };
        return Err(refused(line, sasl, problem, advice));
    }
    match sasl.mechanism {
        Mechanism::Plain => {
            let message = format!("\0{}\0{}", sasl.user, sasl.password.reveal());
            authenticate(line, sasl, message.into_bytes()).map(|_| ())
        }
        Mechanism::ScramSha256 => scram(line, sasl, Hash::Sha256),
        Mechanism::ScramSha512 => scram(line, sasl, Hash::Sha512),
    }
}

/// Fills these bytes with the system's random numbers.
pub(crate) fn random(bytes: &mut [u8]) -> Result<(), LoadError> {
    SystemRandom::new().fill(bytes).map_err(|_| LoadError::System {
        what: "drawing a random number",
        source: std::io::Error::last_os_error(),
    })
}

fn scram(line: &mut Line, sasl: &Sasl, hash: Hash) -> Result<(), LoadError> {
    let mut nonce = [0; NONCE_BYTES];
    random(&mut nonce)?;
    let (first, exchange) = Exchange::begin(hash, &sasl.user, &BASE64.encode(nonce));
    let challenge = authenticate(line, sasl, first)?;
    let odd = |line: &Line, problem| refused(line, sasl, problem, "check the broker's log".to_owned());
    let (proof, expected) =
        exchange.prove(sasl.password.reveal(), &challenge).map_err(|problem| odd(line, problem))?;
    let last = authenticate(line, sasl, proof)?;
    expected.check(&last).map_err(|problem| odd(line, problem))
}

fn authenticate(line: &mut Line, sasl: &Sasl, message: Vec<u8>) -> Result<Bytes, LoadError> {
    let request = SaslAuthenticateRequest::default().with_auth_bytes(Bytes::from(message));
    let answer: SaslAuthenticateResponse =
        line.ask(ApiKey::SaslAuthenticate, AUTHENTICATE_VERSION, &request)?;
    if answer.error_code == 0 {
        return Ok(answer.auth_bytes);
    }
    let words = answer.error_message.as_ref().map(|text| format!(": {}", &**text)).unwrap_or_default();
    let problem = format!("{}{words}", error_name(answer.error_code));
    let advice = "check the user (--sasl-user), the password (--sasl-password-file) and that this user has \
        a password for this mechanism";
    Err(refused(line, sasl, problem, advice.to_owned()))
}

fn refused(line: &Line, sasl: &Sasl, problem: String, advice: String) -> LoadError {
    LoadError::Login {
        address: line.address().to_owned(),
        user: sasl.user.clone(),
        mechanism: sasl.mechanism.name(),
        problem,
        advice,
    }
}
