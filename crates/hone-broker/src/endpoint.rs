//! Where clients reach the broker, and what they call it.

use std::fmt;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::str::FromStr;

/// The only broker of its cluster.
pub(crate) const NODE_ID: i32 = 1;

/// An address that clients connect to: a name or an IP address, and a port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Endpoint {
    /// Name, or address without brackets.
    pub host: String,
    /// Port.
    pub port: u16,
}

impl From<SocketAddr> for Endpoint {
    fn from(address: SocketAddr) -> Self {
        Self { host: address.ip().to_string(), port: address.port() }
    }
}

impl FromStr for Endpoint {
    type Err = String;

    /// Reads `host:port`, an IPv6 address in brackets.
    fn from_str(text: &str) -> Result<Self, String> {
        if let Ok(address) = text.parse::<SocketAddr>() {
            return Ok(address.into());
        }
        let wanted = || format!("use HOST:PORT (an IPv6 address in brackets), not `{text}`");
        let (host, port) = text.rsplit_once(':').ok_or_else(wanted)?;
        let is_name = |sign: char| sign.is_ascii_alphanumeric() || "-._".contains(sign);
        match port.parse() {
            Ok(port) if !host.is_empty() && host.chars().all(is_name) => {
                Ok(Self { host: host.to_owned(), port })
            }
            _ => Err(wanted()),
        }
    }
}

impl fmt::Display for Endpoint {
    /// As it is read: an IPv6 address in brackets.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.host.contains(':') {
            write!(formatter, "[{}]:{}", self.host, self.port)
        } else {
            write!(formatter, "{}:{}", self.host, self.port)
        }
    }
}

impl Endpoint {
    /// Whether it is the address for all addresses of a machine. No client can connect to it.
    pub(crate) fn is_unspecified(&self) -> bool {
        self.host.parse::<IpAddr>().is_ok_and(|ip| ip.is_unspecified())
    }
}

/// The address to listen on: one, or a name, which is looked up now and not again. An error when nothing is known by it.
pub(crate) fn resolve(text: &str) -> Result<SocketAddr, String> {
    let endpoint: Endpoint = text.parse()?;
    let mut found = (endpoint.host.as_str(), endpoint.port)
        .to_socket_addrs()
        .map_err(|error| format!("can't look up `{}`: {error}", endpoint.host))?;
    found.next().ok_or_else(|| format!("`{}` has no address", endpoint.host))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endpoints_are_names_or_addresses_with_a_port() {
        let read = |text: &str| text.parse::<Endpoint>().map(|endpoint| (endpoint.host, endpoint.port)).ok();
        assert_eq!(read("127.0.0.1:9092"), Some(("127.0.0.1".to_owned(), 9092)));
        assert_eq!(read("[::1]:9092"), Some(("::1".to_owned(), 9092)));
        assert_eq!(read("broker-1.example.org:1"), Some(("broker-1.example.org".to_owned(), 1)));
        for bad in ["", "host", ":9092", "host:", "host:65536", "::1:9092", "ho st:1", "host:-1"] {
            assert_eq!(read(bad), None, "{bad}");
        }
    }

    #[test]
    fn a_name_to_listen_on_is_looked_up() {
        assert_eq!(resolve("127.0.0.1:0"), Ok("127.0.0.1:0".parse().unwrap()));
        let found = resolve("localhost:7").unwrap();
        assert!(found.ip().is_loopback() && found.port() == 7);
        assert!(resolve("no port").is_err());
    }
}
