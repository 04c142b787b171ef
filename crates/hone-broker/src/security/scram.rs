//! The server's side of SCRAM (RFC 5802 and 7677): the client proves that it knows the password, the broker that it knows
//! the client, and neither the wire nor the file of users holds what would be enough to log in.
//!
//! Names and passwords are taken as the UTF-8 they are. The RFC wants them normalised, but no client of Kafka does that,
//! and a broker that did would refuse them.

use std::fmt;
use std::num::NonZeroU32;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use ring::{digest, hmac, pbkdf2};
use subtle::ConstantTimeEq;

/// What a mechanism hashes with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Hash {
    Sha256,
    Sha512,
}

impl Hash {
    pub(crate) const ALL: [Self; 2] = [Self::Sha256, Self::Sha512];

    /// The mechanism's name, in handshakes and in the file of users.
    pub(crate) fn mechanism(self) -> &'static str {
        match self {
            Self::Sha256 => "SCRAM-SHA-256",
            Self::Sha512 => "SCRAM-SHA-512",
        }
    }

    /// The mechanism's number, in requests about users.
    pub(crate) fn number(self) -> i8 {
        match self {
            Self::Sha256 => 1,
            Self::Sha512 => 2,
        }
    }

    pub(crate) fn from_mechanism(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|hash| hash.mechanism() == name)
    }

    pub(crate) fn from_number(number: i8) -> Option<Self> {
        Self::ALL.into_iter().find(|hash| hash.number() == number)
    }

    /// Length of a hash, and of every key.
    pub(crate) fn bytes(self) -> usize {
        self.digest().output_len()
    }

    fn digest(self) -> &'static digest::Algorithm {
        match self {
            Self::Sha256 => &digest::SHA256,
            Self::Sha512 => &digest::SHA512,
        }
    }

    fn sign(self, key: &[u8], message: &[u8]) -> hmac::Tag {
        let algorithm = match self {
            Self::Sha256 => hmac::HMAC_SHA256,
            Self::Sha512 => hmac::HMAC_SHA512,
        };
        hmac::sign(&hmac::Key::new(algorithm, key), message)
    }

    /// What is left of a password after all its iterations. Slow by design: not for a thread that serves others.
    fn salt_password(self, password: &str, salt: &[u8], iterations: NonZeroU32) -> Vec<u8> {
        let algorithm = match self {
            Self::Sha256 => pbkdf2::PBKDF2_HMAC_SHA256,
            Self::Sha512 => pbkdf2::PBKDF2_HMAC_SHA512,
        };
        let mut salted = vec![0; self.bytes()];
        pbkdf2::derive(algorithm, iterations, salt, password.as_bytes(), &mut salted);
        salted
    }
}

/// What the broker keeps of a password for one mechanism.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Credential {
    pub(crate) salt: Vec<u8>,
    pub(crate) iterations: NonZeroU32,
    pub(crate) stored_key: Vec<u8>,
    pub(crate) server_key: Vec<u8>,
}

/// Without the keys, because the server's key is enough to pose as the broker.
impl fmt::Debug for Credential {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Credential({} iterations)", self.iterations)
    }
}

impl Credential {
    /// Slow by design: not for a thread that serves others.
    pub(crate) fn from_password(hash: Hash, password: &str, salt: Vec<u8>, iterations: NonZeroU32) -> Self {
        let salted = hash.salt_password(password, &salt, iterations);
        Self::from_salted_password(hash, &salted, salt, iterations)
    }

    /// From what an admin client sends instead of a password.
    pub(crate) fn from_salted_password(
        hash: Hash,
        salted: &[u8],
        salt: Vec<u8>,
        iterations: NonZeroU32,
    ) -> Self {
        let client_key = hash.sign(salted, b"Client Key");
        Self {
            salt,
            iterations,
            stored_key: digest::digest(hash.digest(), client_key.as_ref()).as_ref().to_vec(),
            server_key: hash.sign(salted, b"Server Key").as_ref().to_vec(),
        }
    }

    /// Whether it was made from this password. Slow by design: not for a thread that serves others.
    pub(crate) fn is_of(&self, hash: Hash, password: &str) -> bool {
        let tried = Self::from_password(hash, password, self.salt.clone(), self.iterations);
        bool::from(tried.stored_key.ct_eq(&self.stored_key))
    }
}

/// Why an exchange ends. The client gets the same answer for both.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Refusal {
    #[error("not a message of SCRAM: {0}")]
    Malformed(&'static str),
    #[error("the user or the password is wrong")]
    Credentials,
}

/// An exchange whose first message was answered.
pub(crate) struct Exchange {
    hash: Hash,
    user: String,
    /// What the client said about channel binding; its second message repeats it.
    gs2_header: String,
    nonce: String,
    /// The beginning of what both sides sign.
    signed: String,
    credential: Credential,
}

impl Exchange {
    /// Reads the client's first message. `credential_of` has one for every name, a made-up one if need be.
    pub(crate) fn begin(
        hash: Hash,
        token: &[u8],
        server_nonce: &str,
        credential_of: impl FnOnce(&str) -> Credential,
    ) -> Result<(Vec<u8>, Self), Refusal> {
        let first = ClientFirst::parse(token)?;
        let credential = credential_of(&first.user);
        let nonce = format!("{}{server_nonce}", first.nonce);
        let salt = BASE64.encode(&credential.salt);
        let answer = format!("r={nonce},s={salt},i={}", credential.iterations);
        let exchange = Self {
            hash,
            user: first.user,
            gs2_header: first.gs2_header.to_owned(),
            nonce,
            signed: format!("{},{answer}", first.bare),
            credential,
        };
        Ok((answer.into_bytes(), exchange))
    }

    /// Reads the client's second message. Returns the broker's proof and who the client is.
    pub(crate) fn finish(self, token: &[u8]) -> Result<(Vec<u8>, String), Refusal> {
        let last = ClientFinal::parse(token)?;
        let binding = BASE64.decode(last.binding).map_err(|_| Refusal::Malformed("channel binding"))?;
        if binding != self.gs2_header.as_bytes() {
            return Err(Refusal::Malformed("another channel binding than before"));
        }
        // librdkafka 2.0.2, which kcat comes with, says its own part twice. Kafka lets that pass, and it costs nothing: the
        // broker's part, the one that makes an exchange new, is at the end.
        if !last.nonce.ends_with(&self.nonce) {
            return Err(Refusal::Malformed("another nonce than before"));
        }
        let proof = BASE64.decode(last.proof).map_err(|_| Refusal::Malformed("proof"))?;
        let signed = format!("{},{}", self.signed, last.without_proof);
        if !self.proves(&proof, signed.as_bytes()) {
            return Err(Refusal::Credentials);
        }
        let signature = self.hash.sign(&self.credential.server_key, signed.as_bytes());
        Ok((format!("v={}", BASE64.encode(signature)).into_bytes(), self.user))
    }

    /// The proof is the client's key, hidden by a signature that the broker can make, too.
    fn proves(&self, proof: &[u8], signed: &[u8]) -> bool {
        let signature = self.hash.sign(&self.credential.stored_key, signed);
        if proof.len() != signature.as_ref().len() {
            return false;
        }
        let client_key: Vec<u8> =
            proof.iter().zip(signature.as_ref()).map(|(proof, signature)| proof ^ signature).collect();
        let stored_key = digest::digest(self.hash.digest(), &client_key);
        bool::from(stored_key.as_ref().ct_eq(&self.credential.stored_key))
    }
}

/// `n,a=other,n=user,r=nonce`
struct ClientFirst<'a> {
    gs2_header: &'a str,
    bare: &'a str,
    user: String,
    nonce: &'a str,
}

impl<'a> ClientFirst<'a> {
    fn parse(token: &'a [u8]) -> Result<Self, Refusal> {
        let text = std::str::from_utf8(token).map_err(|_| Refusal::Malformed("not UTF-8"))?;
        let malformed = || Refusal::Malformed("the client's first message");
        let (flag, rest) = text.split_once(',').ok_or_else(malformed)?;
        if flag.starts_with("p=") {
            return Err(Refusal::Malformed("channel binding, which was not offered"));
        }
        if flag != "n" && flag != "y" {
            return Err(malformed());
        }
        let (other, bare) = rest.split_once(',').ok_or_else(malformed)?;
        let mut fields = bare.split(',');
        let user = fields.next().and_then(|field| field.strip_prefix("n=")).ok_or_else(malformed)?;
        let user = unescape(user)?;
        let nonce = fields.next().and_then(|field| field.strip_prefix("r=")).ok_or_else(malformed)?;
        if nonce.is_empty() || !nonce.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(Refusal::Malformed("nonce"));
        }
        let as_oneself = match other.strip_prefix("a=") {
            Some(other) => unescape(other)? == user,
            None => other.is_empty(),
        };
        if !as_oneself {
            return Err(Refusal::Malformed("a login in the name of another user"));
        }
        // The one extension in use says that the name is that of a delegation token, and there are none.
        if fields.any(|extension| extension.starts_with("m=") || extension == "tokenauth=true") {
            return Err(Refusal::Malformed("an unknown extension"));
        }
        let gs2_header = &text[..text.len() - bare.len()];
        Ok(Self { gs2_header, bare, user, nonce })
    }
}

/// `c=binding,r=nonce,p=proof`
struct ClientFinal<'a> {
    binding: &'a str,
    nonce: &'a str,
    without_proof: &'a str,
    proof: &'a str,
}

impl<'a> ClientFinal<'a> {
    fn parse(token: &'a [u8]) -> Result<Self, Refusal> {
        let text = std::str::from_utf8(token).map_err(|_| Refusal::Malformed("not UTF-8"))?;
        let malformed = || Refusal::Malformed("the client's second message");
        let (without_proof, proof) = text.rsplit_once(",p=").ok_or_else(malformed)?;
        let mut fields = without_proof.split(',');
        let binding = fields.next().and_then(|field| field.strip_prefix("c=")).ok_or_else(malformed)?;
        let nonce = fields.next().and_then(|field| field.strip_prefix("r=")).ok_or_else(malformed)?;
        Ok(Self { binding, nonce, without_proof, proof })
    }
}

/// A name as it is meant: a comma is written `=2C` and an equals sign `=3D`, and nothing else begins with one.
fn unescape(name: &str) -> Result<String, Refusal> {
    let mut pieces = name.split('=');
    let mut plain = pieces.next().unwrap_or_default().to_owned();
    for piece in pieces {
        let (sign, rest) = match (piece.strip_prefix("2C"), piece.strip_prefix("3D")) {
            (Some(rest), _) => (',', rest),
            (_, Some(rest)) => ('=', rest),
            _ => return Err(Refusal::Malformed("name")),
        };
        plain.push(sign);
        plain.push_str(rest);
    }
    if plain.is_empty() { Err(Refusal::Malformed("name")) } else { Ok(plain) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ITERATIONS: NonZeroU32 = NonZeroU32::new(4096).unwrap();
    const CLIENT_FIRST: &str = "n,,n=user,r=rOprNGfwEbeRWgbNEkqO";
    const SERVER_NONCE: &str = "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0";
    const SALT: &str = "W22ZaJ0SNY7soEsUEjb6gQ==";
    const NO_PROOF: &str = "c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0";
    /// Client's proof and broker's proof: the first pair is in RFC 7677, the second was computed with Python's hashlib
    /// from the same password, salt and nonces.
    const PROOFS: [(Hash, &str, &str); 2] = [
        (
            Hash::Sha256,
            "dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=",
            "6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=",
        ),
        (
            Hash::Sha512,
            "gMGXRcevScNtxZ6/8lQYpGtnsNAc3mGcmNomv+xnoOMw+3R2xNJdMNnzMlTN8PPC6wdp6dybEmDYXYTxwnYPJQ==",
            "ZQnYEgWQMFmmsM8aQMF0nDDCy/AgCzkwk8CmMZYcMg0vSVlKDanekLtifDSeVGT4+5ZxXnJq199RVG2rR7N7Zw==",
        ),
    ];

    fn pencil(hash: Hash) -> Credential {
        Credential::from_password(hash, "pencil", BASE64.decode(SALT).unwrap(), ITERATIONS)
    }

    fn begun(hash: Hash, token: &str) -> Result<(Vec<u8>, Exchange), Refusal> {
        Exchange::begin(hash, token.as_bytes(), SERVER_NONCE, |_| pencil(hash))
    }

    fn refused(result: Result<(Vec<u8>, Exchange), Refusal>) -> bool {
        matches!(result, Err(Refusal::Malformed(_)))
    }

    #[test]
    fn known_exchanges() {
        for (hash, client_proof, server_proof) in PROOFS {
            let (answer, exchange) = begun(hash, CLIENT_FIRST).unwrap();
            let expected = format!("r=rOprNGfwEbeRWgbNEkqO{SERVER_NONCE},s={SALT},i=4096");
            assert_eq!(answer, expected.as_bytes());
            let (answer, user) = exchange.finish(format!("{NO_PROOF},p={client_proof}").as_bytes()).unwrap();
            assert_eq!((answer, user), (format!("v={server_proof}").into_bytes(), "user".to_owned()));
        }
    }

    #[test]
    fn every_byte_of_the_last_message_changed_or_cut_is_refused() {
        for (hash, client_proof, _) in PROOFS {
            let credential = pencil(hash);
            let finish = |message: &[u8]| {
                let begun =
                    Exchange::begin(hash, CLIENT_FIRST.as_bytes(), SERVER_NONCE, |_| credential.clone());
                begun.unwrap().1.finish(message)
            };
            let message = format!("{NO_PROOF},p={client_proof}").into_bytes();
            assert!(finish(&message).is_ok());
            for position in 0..message.len() {
                assert!(finish(&message[..position]).is_err(), "{position}");
                for flip in 1..=255 {
                    let mut damaged = message.clone();
                    damaged[position] ^= flip;
                    assert!(finish(&damaged).is_err(), "{position} {flip}");
                }
            }
        }
    }

    #[test]
    fn a_wrong_password_is_wrong_credentials() {
        let other = |_: &str| Credential { stored_key: vec![7; 32], ..pencil(Hash::Sha256) };
        let (_, exchange) =
            Exchange::begin(Hash::Sha256, CLIENT_FIRST.as_bytes(), SERVER_NONCE, other).unwrap();
        let last = format!("{NO_PROOF},p={}", PROOFS[0].1);
        assert_eq!(exchange.finish(last.as_bytes()), Err(Refusal::Credentials));
    }

    #[test]
    fn the_nonce_must_end_as_it_was_given() {
        let proof = PROOFS[0].1;
        for (nonce, expected) in [
            ("rOprNGfwEbeRWgbNEkqOrOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0", Refusal::Credentials),
            (
                "rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k",
                Refusal::Malformed("another nonce than before"),
            ),
            ("%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0", Refusal::Malformed("another nonce than before")),
            ("", Refusal::Malformed("another nonce than before")),
        ] {
            let (_, exchange) = begun(Hash::Sha256, CLIENT_FIRST).unwrap();
            let message = format!("c=biws,r={nonce},p={proof}");
            assert_eq!(exchange.finish(message.as_bytes()), Err(expected), "{nonce}");
        }
    }

    #[test]
    fn first_messages_that_are_none_or_ask_for_what_is_not_there() {
        for token in [
            "",
            ",",
            ",,",
            "n",
            "n,",
            "n,,",
            "n,,n=",
            "n,,n=user",
            "n,,n=user,r=",
            "n,,r=x,n=user",
            "x,,n=user,r=x",
            "n,a=root,n=user,r=x",
            "n,user,n=user,r=x",
            "p=tls-unique,,n=user,r=x",
            "n,,n=a=b,r=x",
            "n,,n=a=2c,r=x",
            "n,,n=user,r=x y",
            "n,,n=user,r=\u{7f}",
            "n,,n=user,r=é",
            "n,,n=user,r=x,m=1",
            "n,,n=user,r=x,tokenauth=true",
        ] {
            assert!(refused(begun(Hash::Sha256, token)), "{token}");
        }
        assert!(refused(Exchange::begin(Hash::Sha256, &[0xff; 8], "x", |_| pencil(Hash::Sha256))));
    }

    #[test]
    fn names_with_commas_and_equals_signs_and_the_own_name_twice() {
        for (token, name) in [
            ("y,,n=a=2Cb=3Dc,r=x", "a,b=c"),
            ("n,a=user,n=user,r=x,ext=1", "user"),
            ("n,,n=günther,r=x", "günther"),
        ] {
            assert_eq!(begun(Hash::Sha512, token).unwrap().1.user, name);
        }
    }

    #[test]
    fn a_password_and_what_an_admin_client_makes_of_it_give_the_same() {
        for hash in Hash::ALL {
            let salt = vec![3; 20];
            let salted = hash.salt_password("secret", &salt, ITERATIONS);
            let made = Credential::from_salted_password(hash, &salted, salt.clone(), ITERATIONS);
            assert_eq!(made, Credential::from_password(hash, "secret", salt, ITERATIONS));
            assert!(made.is_of(hash, "secret") && !made.is_of(hash, "Secret"));
            assert_eq!(format!("{made:?}"), "Credential(4096 iterations)");
        }
    }
}
