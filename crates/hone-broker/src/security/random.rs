//! Random bytes and texts, from the system.

use anyhow::bail;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use ring::rand::{SecureRandom, SystemRandom};

/// Random bytes of the broker's part of a nonce.
const NONCE_BYTES: usize = 24;

pub(super) fn random_bytes<const N: usize>() -> anyhow::Result<[u8; N]> {
    let mut bytes = [0; N];
    match SystemRandom::new().fill(&mut bytes) {
        Ok(()) => Ok(bytes),
        Err(_) => bail!("the system provides no random bytes"),
    }
}

/// The broker's part of a new exchange's nonce.
pub(crate) fn nonce() -> anyhow::Result<String> {
    Ok(BASE64.encode(random_bytes::<NONCE_BYTES>()?))
}
