//! Holds many connections open that do nothing: each has asked for ApiVersions once, so that the broker has served it, and
//! is silent from then on.
//!
//!     idle ADDR CONNECTIONS
//!
//! It prints `ready N` when all are open, and closes them when its standard input ends.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use anyhow::{Context as _, Result, bail};

/// ApiVersions, version 0, correlation id 1, client id `idle`.
const REQUEST: [u8; 18] = [0, 0, 0, 14, 0, 18, 0, 0, 0, 0, 0, 1, 0, 4, b'i', b'd', b'l', b'e'];
const ANSWER_LIMIT: Duration = Duration::from_secs(10);
const ANSWER_LIMIT_BYTES: usize = 64 << 10;
/// One source address has some 28,000 free ports by default, and other programs want some.
const MOST: usize = 25_000;

fn main() -> Result<()> {
    let mut arguments = std::env::args().skip(1);
    let mut next = || arguments.next().context("usage: idle ADDR CONNECTIONS");
    let address: SocketAddr = next()?.parse().context("wanted IP:PORT")?;
    let wanted: usize = next()?.parse().context("wanted a number of connections")?;
    if wanted > MOST {
        bail!("{wanted} connections need more ports than one address has to give; at most {MOST} will do");
    }
    let mut held = Vec::new();
    for index in 0..wanted {
        held.push(open(address).with_context(|| format!("connection {index} of {wanted} to {address}"))?);
    }
    writeln!(std::io::stdout(), "ready {}", held.len())?;
    std::io::stdin().read_to_end(&mut Vec::new())?;
    Ok(())
}

fn open(address: SocketAddr) -> Result<TcpStream> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(ANSWER_LIMIT))?;
    stream.write_all(&REQUEST)?;
    let mut length = [0; 4];
    stream.read_exact(&mut length).context("no answer to ApiVersions")?;
    let length = u32::from_be_bytes(length) as usize;
    if length > ANSWER_LIMIT_BYTES {
        bail!("an answer of {length} bytes to ApiVersions");
    }
    stream.read_exact(&mut vec![0; length]).context("half an answer to ApiVersions")?;
    Ok(stream)
}
