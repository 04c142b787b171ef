//! Servers of this machine to which processes pass their work on by connections. A proxy's CPU is not that of the service behind it.

use std::collections::{BTreeSet, HashSet};
use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use crate::cpu;
use crate::kernel_text::{Socket, socket_inode};
use crate::ports::{self, Listener};
use crate::repeated::Repeated;

/// A server of this machine that has processes as its clients.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Upstream {
    /// The process, among the given ones, whose tree has the connection.
    pub of: u32,
    /// Listening address of the server.
    pub address: SocketAddr,
    /// Its process id and its program's name; `None` if its owner is invisible.
    pub server: Option<(u32, String)>,
}

impl Upstream {
    /// The server's program, process and address, for people.
    pub fn description(&self) -> String {
        let server = match &self.server {
            Some((pid, program)) => format!("{program} (process {pid})"),
            None => "an invisible process".to_owned(),
        };
        format!("{server} at {}", self.address)
    }
}

/// The servers that process trees are connected to now, without servers in the trees themselves.
pub fn upstreams(pids: &[u32]) -> BTreeSet<Upstream> {
    upstreams_under(Path::new("/"), pids)
}

fn upstreams_under(root: &Path, pids: &[u32]) -> BTreeSet<Upstream> {
    let sockets = ports::sockets(root);
    let trees: Vec<(u32, Vec<u32>)> =
        pids.iter().map(|pid| (*pid, cpu::tree_of(root, *pid).unwrap_or_default())).collect();
    let measured: HashSet<u32> = trees.iter().flat_map(|(_, tree)| tree).copied().collect();
    let mut found = BTreeSet::new();
    for (of, tree) in &trees {
        let held: HashSet<u64> = tree.iter().flat_map(|pid| held_sockets(root, *pid)).collect();
        for address in clients_of(&sockets, &held) {
            let server = match ports::listener_under(root, address) {
                Ok(Listener::Process { pid, program } | Listener::Forwarder { pid, program }) => {
                    Some((pid, program))
                }
                Ok(Listener::Hidden) => None,
                Ok(Listener::Nobody | Listener::Elsewhere) | Err(_) => continue,
            };
            if !server.as_ref().is_some_and(|(pid, _)| measured.contains(pid)) {
                found.insert(Upstream { of: *of, address, server });
            }
        }
    }
    found
}

/// Remote ends of outgoing connections. An accepted connection has the port of one of the tree's own listeners.
fn clients_of(sockets: &[Socket], held: &HashSet<u64>) -> BTreeSet<SocketAddr> {
    let is_held = |socket: &&Socket| held.contains(&socket.inode);
    let own: HashSet<u16> = sockets
        .iter()
        .filter(|socket| socket.listens())
        .filter(is_held)
        .map(|one| one.local.port())
        .collect();
    let served: HashSet<u16> =
        sockets.iter().filter(|socket| socket.listens()).map(|one| one.local.port()).collect();
    let connected = sockets.iter().filter(|socket| socket.is_connected()).filter(is_held);
    connected
        .filter(|socket| !own.contains(&socket.local.port()) && served.contains(&socket.remote.port()))
        .map(|socket| SocketAddr::new(socket.remote.ip().to_canonical(), socket.remote.port()))
        .collect()
}

fn held_sockets(root: &Path, pid: u32) -> Vec<u64> {
    let entries = fs::read_dir(root.join(format!("proc/{pid}/fd"))).into_iter().flatten().flatten();
    let links = entries.filter_map(|entry| fs::read_link(entry.path()).ok());
    links.filter_map(|link| socket_inode(link.to_str()?)).collect()
}

/// Searches the servers behind process trees under load: at the start, at the end, and occasionally in between.
#[derive(Debug)]
pub struct UpstreamWatch(Repeated<BTreeSet<Upstream>>);

/// The socket tables are long on a busy machine.
const EVERY: Duration = Duration::from_secs(5);

impl UpstreamWatch {
    /// `None` without processes, or if no thread can be started.
    pub fn start(pids: &[u32]) -> Option<Self> {
        if pids.is_empty() {
            return None;
        }
        let pids = pids.to_vec();
        Repeated::start("upstreams", EVERY, BTreeSet::new(), move |found| found.append(&mut upstreams(&pids)))
            .map(Self)
    }

    /// All servers found.
    pub fn stop(self) -> BTreeSet<Upstream> {
        self.0.stop().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;
    use std::process::Command;

    #[test]
    #[expect(clippy::disallowed_methods, reason = "this crate knows no runner")]
    fn a_server_that_a_process_is_connected_to_is_found_and_its_clients_are_not() {
        let server = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = server.local_addr().unwrap();
        let script = format!("exec 3<>/dev/tcp/127.0.0.1/{}; exec sleep 60", address.port());
        let mut client = Command::new("bash").args(["-c", &script]).spawn().unwrap();
        let _connection = server.accept().unwrap();
        let own = std::process::id();
        let found = upstreams(&[client.id()]);
        let behind =
            Upstream { of: client.id(), address, server: Some((own, ports::program_of(own).unwrap())) };
        assert_eq!(found, BTreeSet::from([behind.clone()]));
        assert!(
            behind.description().ends_with(&format!("(process {own}) at {address}")),
            "{}",
            behind.description()
        );
        // The client is a child of this process. Of our tree it is a part, and taking it in is no calling.
        assert!(!upstreams(&[own]).iter().any(|one| one.address == address));
        client.kill().unwrap();
        client.wait().unwrap();
    }

    #[test]
    fn only_connections_that_were_made_from_here_count() {
        let sockets = [
            Socket::parsed("127.0.0.1:80", "0.0.0.0:0", 0x0A, 1),
            Socket::parsed("127.0.0.1:9092", "0.0.0.0:0", 0x0A, 2),
            // A client of ours, who happens to have the number of a server's port.
            Socket::parsed("127.0.0.1:80", "10.0.0.9:9092", 0x01, 3),
            Socket::parsed("127.0.0.1:5000", "127.0.0.1:9092", 0x01, 4),
            // A closed connection; one of another process; one to an unused port.
            Socket::parsed("127.0.0.1:5001", "127.0.0.1:9092", 0x06, 5),
            Socket::parsed("127.0.0.1:5002", "127.0.0.1:9092", 0x01, 6),
            Socket::parsed("127.0.0.1:5003", "127.0.0.1:7", 0x01, 7),
        ];
        let held = HashSet::from([1, 3, 4, 5, 7]);
        assert_eq!(clients_of(&sockets, &held), BTreeSet::from(["127.0.0.1:9092".parse().unwrap()]));
    }
}
