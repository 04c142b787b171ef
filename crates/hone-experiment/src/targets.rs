//! Finds the processes whose CPU is the target's: those of all brokers of a cluster, leaders and followers.

use std::collections::{BTreeMap, BTreeSet};
use std::net::ToSocketAddrs as _;

use anyhow::{Result, bail};
use hone_host::ports::{self, Listener};
use hone_load::{Admin, Security};
use hone_record::Metric;

use crate::ending::Usage;

/// The processes whose CPU counts.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Targets {
    /// Without duplicates. It is empty if one of them is unknown, because a part of a cluster's CPU would be misleading.
    pub pids: Vec<u32>,
    /// The reason why they are unknown, in words.
    pub missing: Option<String>,
    /// The listening process, if it is not in the process tree of a command and had to be followed.
    pub followed: Option<u32>,
}

impl Targets {
    /// All processes of the brokers of a cluster, `id: host:port`. Followers work for acks=all, too.
    pub fn behind(brokers: &BTreeMap<i32, String>) -> Self {
        let asked = brokers.iter().map(|(id, address)| {
            process_behind(address).map_err(|why| format!("broker {id} at {address} ({why})"))
        });
        let (found, missing): (Vec<_>, Vec<_>) = asked.partition(Result::is_ok);
        let missing: Vec<String> = missing.into_iter().filter_map(Result::err).collect();
        if brokers.is_empty() {
            return Self::unknown("the cluster did not return its brokers".to_owned());
        }
        if !missing.is_empty() {
            return Self::unknown(format!("{}: not visible from here", missing.join(", ")));
        }
        let pids: BTreeSet<u32> = found.into_iter().flatten().collect();
        Self { pids: pids.into_iter().collect(), missing: None, followed: None }
    }

    /// All processes of the cluster that answers at an address.
    ///
    /// # Errors
    /// When there is no answer.
    pub fn of_cluster(address: &str, security: &Security) -> Result<Self> {
        Ok(Self::behind(&Admin::connect_with(address, security)?.brokers()?))
    }

    /// The process that the user named.
    pub fn named(pid: u32, brokers: &BTreeMap<i32, String>) -> Self {
        let missing = (brokers.len() > 1).then(|| {
            format!(
                "only process {pid} and its children count, because of --pid, but the cluster has {} brokers",
                brokers.len()
            )
        });
        Self { pids: vec![pid], missing, followed: None }
    }

    /// A program that Hone started, with its process tree.
    pub fn started(pid: u32) -> Self {
        Self { pids: vec![pid], missing: None, followed: None }
    }

    /// A program that Hone started, and the server that it put into the background.
    pub fn followed(started: u32, daemon: u32) -> Self {
        Self { pids: vec![started, daemon], missing: None, followed: Some(daemon) }
    }

    /// The processes by their program names, with their ids and how they were found.
    pub fn names(&self) -> Vec<String> {
        let name = |pid: &u32| {
            let program = ports::program_of(*pid).unwrap_or_else(|| "a process that has ended".to_owned());
            let how = if self.followed == Some(*pid) { ", in the background" } else { "" };
            let below: Vec<String> =
                ports::listeners_below(*pid).into_iter().filter(|one| *one != program).collect();
            let below = if below.is_empty() { String::new() } else { format!(" with {}", below.join(", ")) };
            format!("{program}{below} (process {pid}{how})")
        };
        self.pids.iter().map(name).collect()
    }

    /// A target with unknown processes.
    pub fn unknown(why: String) -> Self {
        Self { pids: Vec::new(), missing: Some(why), followed: None }
    }
}

/// Checks before the first window that the deciding CPU can be read from here. `instead` is the alternative for the error.
///
/// # Errors
/// When it can't be read, or the cluster does not answer.
pub fn check_cpu(address: &str, security: &Security, decides: Metric, instead: &str) -> Result<()> {
    if !decides.is_cpu() {
        return Ok(());
    }
    let Some(missing) = Targets::of_cluster(address, security)?.missing else { return Ok(()) };
    bail!(Usage(format!(
        "the CPU of {address} can't be read: {missing}; so {} can't decide\n  next: {instead}, or run Hone on \
         the brokers' machine",
        decides.label()
    )))
}

/// The process of this machine that listens on an address, or the reason why it is unknown.
pub(crate) fn process_behind(address: &str) -> std::result::Result<u32, String> {
    let places = address.to_socket_addrs().map_err(|error| error.to_string())?;
    let mut last = "the host name has no address".to_owned();
    for place in places {
        last = match ports::listener(place) {
            Ok(Listener::Process { pid, .. }) => return Ok(pid),
            Ok(Listener::Forwarder { program, .. }) => format!("forwarded by {program}"),
            Ok(Listener::Hidden) => "another user's process, or one of another container".to_owned(),
            Ok(Listener::Nobody) => "no process listens there".to_owned(),
            Ok(Listener::Elsewhere) => "another machine".to_owned(),
            Err(error) => error.to_string(),
        };
    }
    Err(last)
}

/// The process of this machine that listens on an address, even if it only forwards; `None` if none is visible.
pub fn listens_on(address: &str) -> Option<(u32, String)> {
    address.to_socket_addrs().ok()?.find_map(|place| match ports::listener(place).ok()? {
        Listener::Process { pid, program } | Listener::Forwarder { pid, program } => Some((pid, program)),
        Listener::Hidden | Listener::Nobody | Listener::Elsewhere => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    fn cluster(addresses: &[&str]) -> BTreeMap<i32, String> {
        (1..).zip(addresses.iter().map(|address| (*address).to_owned())).collect()
    }

    #[test]
    fn every_broker_counts_once_and_a_part_of_them_is_no_answer() {
        let own = [(); 2].map(|()| TcpListener::bind("127.0.0.1:0").unwrap());
        let [first, second] = own.each_ref().map(|socket| socket.local_addr().unwrap().to_string());
        let both = Targets::behind(&cluster(&[&first, &second]));
        assert_eq!(both, Targets::started(std::process::id()));

        // An address that is reserved for documentation, which no machine has.
        let part = Targets::behind(&cluster(&[&first, "192.0.2.1:9092", &second]));
        assert_eq!(part.pids, [0_u32; 0]);
        assert_eq!(
            part.missing.unwrap(),
            "broker 2 at 192.0.2.1:9092 (another machine): not visible from here"
        );
        assert!(Targets::behind(&BTreeMap::new()).missing.is_some());
    }

    #[test]
    fn one_named_process_of_a_cluster_is_said_to_be_a_part() {
        assert_eq!(Targets::named(7, &cluster(&["a:1"])).missing, None);
        let part = Targets::named(7, &cluster(&["a:1", "b:1", "c:1"])).missing.unwrap();
        assert!(part.contains("only process 7") && part.contains("3 brokers"), "{part}");
    }
}
