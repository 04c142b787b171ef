//! The client's side of SCRAM (RFC 5802 and 7677): proves that it knows the password, and checks that the broker knows it, too. The code is
//! pure except for the nonce, which the caller supplies.

use std::num::NonZeroU32;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use ring::{digest, hmac, pbkdf2};

/// Kafka uses 4096, and clients reject less. A much larger number would only keep the client busy.
const MOST_ITERATIONS: u32 = 10_000_000;

/// The hash of a mechanism.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Hash {
    Sha256,
    Sha512,
}

impl Hash {
    fn sign(self, key: &[u8], message: &[u8]) -> hmac::Tag {
        let algorithm = match self {
            Self::Sha256 => hmac::HMAC_SHA256,
            Self::Sha512 => hmac::HMAC_SHA512,
        };
        hmac::sign(&hmac::Key::new(algorithm, key), message)
    }

    fn digest(self, message: &[u8]) -> digest::Digest {
        let algorithm = match self {
            Self::Sha256 => &digest::SHA256,
            Self::Sha512 => &digest::SHA512,
        };
        digest::digest(algorithm, message)
    }

    fn salt_password(self, password: &str, salt: &[u8], iterations: NonZeroU32) -> Vec<u8> {
        let (algorithm, bytes) = match self {
            Self::Sha256 => (pbkdf2::PBKDF2_HMAC_SHA256, digest::SHA256_OUTPUT_LEN),
            Self::Sha512 => (pbkdf2::PBKDF2_HMAC_SHA512, digest::SHA512_OUTPUT_LEN),
        };
        let mut salted = vec![0; bytes];
        pbkdf2::derive(algorithm, iterations, salt, password.as_bytes(), &mut salted);
        salted
    }
}

/// An exchange after its first message.
#[derive(Debug)]
pub(crate) struct Exchange {
    hash: Hash,
    nonce: String,
    first_bare: String,
}

impl Exchange {
    /// The client's first message. The nonce is printable and has no comma.
    pub(crate) fn begin(hash: Hash, user: &str, nonce: &str) -> (Vec<u8>, Self) {
        let user = user.replace('=', "=3D").replace(',', "=2C");
        let first_bare = format!("n={user},r={nonce}");
        let message = format!("n,,{first_bare}").into_bytes();
        (message, Self { hash, nonce: nonce.to_owned(), first_bare })
    }

    /// Reads the broker's first message. Returns the client's second message, and the expected answer of the broker.
    pub(crate) fn prove(self, password: &str, challenge: &[u8]) -> Result<(Vec<u8>, Expected), String> {
        let text =
            std::str::from_utf8(challenge).map_err(|_| "its SCRAM challenge is not text".to_owned())?;
        let mut fields = text.split(',');
        let mut field = |name: &str| {
            fields
                .next()
                .and_then(|field| field.strip_prefix(name))
                .ok_or_else(|| format!("its SCRAM challenge has no `{name}` where it belongs"))
        };
        let (nonce, salt, iterations) = (field("r=")?, field("s=")?, field("i=")?);
        if !nonce.starts_with(&self.nonce) || nonce.len() == self.nonce.len() {
            return Err("its SCRAM challenge is for another client (nonce)".to_owned());
        }
        let salt = BASE64.decode(salt).map_err(|_| "its SCRAM salt is not base64".to_owned())?;
        let iterations = iterations
            .parse::<NonZeroU32>()
            .ok()
            .filter(|count| count.get() <= MOST_ITERATIONS)
            .ok_or_else(|| format!("its number of SCRAM iterations, `{iterations}`, is out of range"))?;
        let salted = self.hash.salt_password(password, &salt, iterations);
        let without_proof = format!("c=biws,r={nonce}");
        let signed = format!("{},{text},{without_proof}", self.first_bare);
        let client_key = self.hash.sign(&salted, b"Client Key");
        let stored_key = self.hash.digest(client_key.as_ref());
        let signature = self.hash.sign(stored_key.as_ref(), signed.as_bytes());
        let proof: Vec<u8> =
            client_key.as_ref().iter().zip(signature.as_ref()).map(|(key, sign)| key ^ sign).collect();
        let server_key = self.hash.sign(&salted, b"Server Key");
        let server = self.hash.sign(server_key.as_ref(), signed.as_bytes());
        let message = format!("{without_proof},p={}", BASE64.encode(proof));
        Ok((message.into_bytes(), Expected(server.as_ref().to_vec())))
    }
}

/// The signature that only a broker with the password can make.
#[derive(Debug)]
pub(crate) struct Expected(Vec<u8>);

impl Expected {
    /// Checks the broker's last message.
    pub(crate) fn check(&self, last: &[u8]) -> Result<(), String> {
        let text = std::str::from_utf8(last).unwrap_or_default();
        let signature = text.strip_prefix("v=").and_then(|text| text.split(',').next());
        match signature.and_then(|text| BASE64.decode(text).ok()) {
            Some(found) if found == self.0 => Ok(()),
            _ => Err("it could not prove that it knows the password; it may be an impostor".to_owned()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The example of RFC 7677, section 3.
    #[test]
    fn the_exchange_of_the_rfc_comes_out() {
        let (first, exchange) = Exchange::begin(Hash::Sha256, "user", "rOprNGfwEbeRWgbNEkqO");
        assert_eq!(first, b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO");
        let challenge =
            b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096";
        let (proof, expected) = exchange.prove("pencil", challenge).unwrap();
        assert_eq!(
            String::from_utf8(proof).unwrap(),
            "c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,\
             p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
        );
        expected.check(b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=").unwrap();
        assert!(expected.check(b"v=AAAA").unwrap_err().contains("impostor"));
    }

    #[test]
    fn a_name_is_escaped() {
        let (first, _) = Exchange::begin(Hash::Sha512, "a,b=c", "x");
        assert_eq!(first, b"n,,n=a=2Cb=3Dc,r=x");
    }

    #[test]
    fn a_broker_that_wants_to_keep_us_busy_is_refused() {
        let prove = |challenge: &str| {
            Exchange::begin(Hash::Sha256, "u", "abc").1.prove("p", challenge.as_bytes()).map(|_| ())
        };
        for iterations in ["0", "4294967295", "-1", "99999999999", "x"] {
            let message = prove(&format!("r=abcd,s=AAAA,i={iterations}")).unwrap_err();
            assert!(message.contains("iterations"), "{message}");
        }
        assert!(prove("r=abd,s=AAAA,i=4096").unwrap_err().contains("nonce"));
        assert!(prove("r=abc,s=AAAA,i=4096").unwrap_err().contains("nonce"));
    }

    proptest! {
        #[test]
        fn no_challenge_breaks_it(noise in proptest::collection::vec(any::<u8>(), 0..80), from in 0_usize..20, flip: u8) {
            let good = b"r=abcdef,s=AAAA,i=1".to_vec();
            let mut damaged = good.clone();
            let at = from % damaged.len();
            damaged[at] ^= flip;
            // Whatever a damaged count says, it is not worked off here.
            if !damaged.ends_with(b",i=1") { damaged.truncate(good.len() - 4); }
            for challenge in [noise, damaged] {
                let counts = String::from_utf8_lossy(&challenge).contains(",i=");
                if counts && !challenge.ends_with(b",i=1") { continue; }
                if let Ok((_, expected)) = Exchange::begin(Hash::Sha256, "u", "abc").1.prove("p", &challenge) {
                    prop_assert!(expected.check(&challenge).is_err());
                }
            }
        }
    }
}
