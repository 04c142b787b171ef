//! The hosts of a rollout, from a TOML file or a list of names.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use hone_format::FileError;
use serde::{Deserialize, Serialize};

/// No cluster has more brokers.
const MOST_HOSTS: usize = 10_000;

/// A host, and its access.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Host {
    /// The argument of `ssh`: a name, an address, an alias in its configuration, or `user@name`.
    pub name: String,
    /// The id of its broker; without it the broker is found by its address.
    #[serde(default)]
    pub broker: Option<i32>,
    /// Its rack; without it the cluster's information is used.
    #[serde(default)]
    pub rack: Option<String>,
    /// The broker's data folder.
    #[serde(default)]
    pub data: Option<PathBuf>,
    /// Further options for `ssh`, word by word.
    #[serde(default)]
    pub ssh: Vec<String>,
    /// Whether Hone is started there with `sudo -n`.
    #[serde(default)]
    pub sudo: Option<bool>,
    /// Root of the host's files, as in `--root` of the other verbs.
    #[serde(default)]
    pub root: Option<PathBuf>,
}

/// Values for every host without its own.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Defaults {
    /// The same as for a host.
    #[serde(default)]
    pub data: Option<PathBuf>,
    /// These come before a host's own options.
    #[serde(default)]
    pub ssh: Vec<String>,
    /// The same as for a host.
    #[serde(default)]
    pub sudo: Option<bool>,
    /// The same as for a host.
    #[serde(default)]
    pub root: Option<PathBuf>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    defaults: Defaults,
    hosts: Vec<Host>,
}

/// Reasons why an inventory is rejected.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum InventoryError {
    /// It has another form.
    #[error("{0}\n  next: correct the inventory; docs/host/rollout.md shows a complete one")]
    Form(FileError),
    /// It has no host, or too many.
    #[error("{count} hosts are not a valid rollout\n  next: name 1 to {MOST_HOSTS} hosts")]
    Count {
        /// Number of hosts.
        count: usize,
    },
    /// Two hosts have one name, but journal, order and rollback identify a host only by its name.
    #[error(
        "the host {name} occurs twice in the inventory\n  next: name each host once; if hosts share a name \
         and differ in a port or another ssh option, give each a `Host` entry in ssh's configuration \
         (HostName, Port), and use its alias here"
    )]
    TwoHosts {
        /// The name.
        name: String,
    },
    /// A broker occurs twice.
    #[error("the broker of {host} occurs twice in the inventory")]
    TwoBrokers {
        /// Its second host.
        host: String,
    },
    /// `ssh` would misread a name.
    #[error("`{name}` is not a valid host name: it must not be empty, contain spaces, or begin with `-`")]
    Name {
        /// The name.
        name: String,
    },
}

/// Reads an inventory. `name` is its file's path.
///
/// # Errors
/// Returns an error when it has another form, no host, or a host twice.
pub fn parse(name: &str, text: &str) -> Result<Vec<Host>, InventoryError> {
    let file: File = toml::from_str(text)
        .map_err(|error| InventoryError::Form(FileError::of_toml(&error, text, Path::new(name))))?;
    let defaults = file.defaults;
    let with_defaults = |mut host: Host| {
        host.data = host.data.or_else(|| defaults.data.clone());
        host.sudo = host.sudo.or(defaults.sudo);
        host.root = host.root.or_else(|| defaults.root.clone());
        host.ssh = [defaults.ssh.clone(), host.ssh].concat();
        host
    };
    checked(file.hosts.into_iter().map(with_defaults).collect())
}

/// Hosts whose names alone are known.
///
/// # Errors
/// Returns the errors of [`parse`].
pub fn named(names: &[String]) -> Result<Vec<Host>, InventoryError> {
    let host = |name: &String| Host {
        name: name.trim().to_owned(),
        broker: None,
        rack: None,
        data: None,
        ssh: Vec::new(),
        sudo: None,
        root: None,
    };
    checked(names.iter().map(host).collect())
}

/// A name that stands for two hosts.
pub(super) fn twice(hosts: &[Host]) -> Option<&str> {
    let mut names = BTreeSet::new();
    hosts.iter().map(|host| host.name.as_str()).find(|name| !names.insert(*name))
}

fn checked(hosts: Vec<Host>) -> Result<Vec<Host>, InventoryError> {
    if hosts.is_empty() || hosts.len() > MOST_HOSTS {
        return Err(InventoryError::Count { count: hosts.len() });
    }
    let mut brokers = BTreeSet::new();
    for host in &hosts {
        let odd = |c: char| c.is_whitespace() || c.is_control();
        if host.name.is_empty() || host.name.starts_with('-') || host.name.contains(odd) {
            return Err(InventoryError::Name { name: host.name.clone() });
        }
        if host.broker.is_some_and(|broker| !brokers.insert(broker)) {
            return Err(InventoryError::TwoBrokers { host: host.name.clone() });
        }
    }
    match twice(&hosts) {
        Some(name) => Err(InventoryError::TwoHosts { name: name.to_owned() }),
        None => Ok(hosts),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn defaults_hold_where_a_host_says_nothing() {
        let hosts = parse(
            "hosts.toml",
            r#"
            [defaults]
            data = "/var/lib/kafka"
            ssh = ["-p", "2222"]
            sudo = true
            [[hosts]]
            name = "kafka-1"
            [[hosts]]
            name = "root@kafka-2"
            broker = 7
            rack = "b"
            data = "/data"
            ssh = ["-4"]
            sudo = false
            "#,
        )
        .unwrap();
        assert_eq!(hosts[0].data, Some(PathBuf::from("/var/lib/kafka")));
        assert_eq!((hosts[0].ssh.join(" ").as_str(), hosts[0].sudo), ("-p 2222", Some(true)));
        assert_eq!(
            (hosts[1].broker, hosts[1].rack.as_deref(), hosts[1].sudo),
            (Some(7), Some("b"), Some(false))
        );
        assert_eq!(hosts[1].ssh, ["-p", "2222", "-4"]);
    }

    #[test]
    fn what_is_no_inventory_says_why() {
        let why = |text: &str| parse("h", text).unwrap_err().to_string();
        assert!(why("hosts = []").contains("0 hosts"));
        assert!(why("[[hosts]]\nname='a'\n[[hosts]]\nname='a'").contains("the host a occurs twice"));
        let behind_one_name = "[[hosts]]\nname='gateway'\nssh=['-p','2201']\nbroker=1\n\
                               [[hosts]]\nname='gateway'\nssh=['-p','2202']\nbroker=2";
        let refused = why(behind_one_name);
        assert!(
            refused.contains("the host gateway occurs twice") && refused.contains("`Host` entry"),
            "{refused}"
        );
        assert!(
            why("[[hosts]]\nname='a'\nbroker=1\n[[hosts]]\nname='b'\nbroker=1").contains("the broker of b")
        );
        assert!(
            why("[[hosts]]\nname='a'\ncolor='red'").starts_with("h:3: unknown key `color`; use one of: ")
        );
        assert!(why("hosts = 'a'").starts_with("h:1: \"a\" is a text; write a list"));
        for bad in ["-oProxyCommand=x", "a b", "", "a\\u0007"] {
            assert!(why(&format!("[[hosts]]\nname=\"{bad}\"")).contains("not a valid host name"), "{bad}");
        }
        assert!(named(&["a".to_owned(), " b".to_owned()]).is_ok());
    }

    proptest! {
        #[test]
        fn foreign_inventories_do_no_harm(text in "\\PC*") {
            let _ = parse("h", &text);
        }
    }
}
