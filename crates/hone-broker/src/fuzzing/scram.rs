//! Logins with any tokens. A client gets access if and only if it has proved the password.
//!
//! An input is a byte for the hash and for whether the second message is to be valid, a first message after its 16-bit
//! length, then the second message.

use std::num::NonZeroU32;
use std::sync::OnceLock;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use ring::{digest, hmac, pbkdf2};

use super::cursor::Cursor;
use crate::security::plain::Login;
use crate::security::scram::{Credential, Exchange, Hash};

const PASSWORD: &str = "pencil";
const SALT: &[u8] = b"a salt";
const ITERATIONS: NonZeroU32 = NonZeroU32::new(4096).expect("more than none");
const SERVER_NONCE: &str = "3rfcNHYJY1ZVvWVs7j";

/// Runs an input.
pub fn scram(data: &[u8]) {
    let mut input = Cursor::new(data);
    let choice = input.u8();
    let hash = Hash::ALL[usize::from(choice & 1)];
    let first = input.piece();
    check_plain(first);
    let mut asked_for = None;
    let begun = Exchange::begin(hash, first, SERVER_NONCE, |user| {
        asked_for = Some(user.to_owned());
        credential(hash)
    });
    let Ok((answer, exchange)) = begun else { return };
    let user = asked_for.expect("an exchange of a user");
    let answer = String::from_utf8(answer).expect("an answer in text");
    let proper = proper_last(hash, first, &answer);
    let last = if choice & 2 == 0 { input.rest() } else { proper.as_bytes() };
    match exchange.finish(last) {
        Ok((_, who)) => {
            assert_eq!(who, user);
            assert!(proves(hash, first, &answer, last), "a client without a proof gets access");
        }
        Err(refusal) => assert_ne!(last, proper.as_bytes(), "a right login is refused: {refusal}"),
    }
}

fn check_plain(token: &[u8]) {
    if let Some(login) = Login::parse(token) {
        assert!(!login.user.is_empty() && !login.password.is_empty());
        assert!(!login.user.contains('\0') && !login.password.contains('\0'));
    }
}

fn salted(hash: Hash) -> &'static [u8] {
    static SALTED: [OnceLock<Vec<u8>>; 2] = [OnceLock::new(), OnceLock::new()];
    let (place, algorithm, length) = match hash {
        Hash::Sha256 => (&SALTED[0], pbkdf2::PBKDF2_HMAC_SHA256, 32),
        Hash::Sha512 => (&SALTED[1], pbkdf2::PBKDF2_HMAC_SHA512, 64),
    };
    place.get_or_init(|| {
        let mut salted = vec![0; length];
        pbkdf2::derive(algorithm, ITERATIONS, SALT, PASSWORD.as_bytes(), &mut salted);
        salted
    })
}

fn credential(hash: Hash) -> Credential {
    Credential::from_salted_password(hash, salted(hash), SALT.to_vec(), ITERATIONS)
}

/// The part of the client's first message that is signed: behind the second comma.
fn bare(first: &[u8]) -> &str {
    let text = std::str::from_utf8(first).expect("a first message in text");
    text.splitn(3, ',').nth(2).expect("a first message with a name")
}

fn sign(hash: Hash, key: &[u8], message: &[u8]) -> Vec<u8> {
    let algorithm = match hash {
        Hash::Sha256 => hmac::HMAC_SHA256,
        Hash::Sha512 => hmac::HMAC_SHA512,
    };
    hmac::sign(&hmac::Key::new(algorithm, key), message).as_ref().to_vec()
}

/// The proof over a message without one, computed as a client does.
fn proof(hash: Hash, first: &[u8], answer: &str, without_proof: &str) -> Vec<u8> {
    let client_key = sign(hash, salted(hash), b"Client Key");
    let algorithm = match hash {
        Hash::Sha256 => &digest::SHA256,
        Hash::Sha512 => &digest::SHA512,
    };
    let stored_key = digest::digest(algorithm, &client_key);
    let signed = format!("{},{answer},{without_proof}", bare(first));
    let signature = sign(hash, stored_key.as_ref(), signed.as_bytes());
    client_key.iter().zip(signature).map(|(key, signature)| key ^ signature).collect()
}

fn proper_last(hash: Hash, first: &[u8], answer: &str) -> String {
    let header_bytes = first.len() - bare(first).len();
    let header = first.get(..header_bytes).expect("a header");
    let nonce = answer.strip_prefix("r=").and_then(|rest| rest.split_once(",s=")).expect("a nonce").0;
    let without_proof = format!("c={},r={nonce}", BASE64.encode(header));
    let proof = proof(hash, first, answer, &without_proof);
    format!("{without_proof},p={}", BASE64.encode(proof))
}

fn proves(hash: Hash, first: &[u8], answer: &str, last: &[u8]) -> bool {
    let text = std::str::from_utf8(last).unwrap_or_default();
    let Some((without_proof, stated)) = text.rsplit_once(",p=") else { return false };
    BASE64.decode(stated).is_ok_and(|stated| stated == proof(hash, first, answer, without_proof))
}
