//! The process of this machine that listens on an address, so that its CPU can be measured without a given pid.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;

use crate::error::HostError;
use crate::kernel_text::{self, Socket};

/// Listener on an address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Listener {
    /// A process of this machine.
    Process {
        /// If several processes share the socket, the one that created the others.
        pid: u32,
        /// Its program's name, at most 15 bytes.
        program: String,
    },
    /// A process that only forwards the bytes, into a container or to another machine. Its CPU is not the service's.
    Forwarder {
        /// The process.
        pid: u32,
        /// Its program's name.
        program: String,
    },
    /// A socket listens, but its owner is invisible: another user's process, or one outside this container.
    Hidden,
    /// The address belongs to this machine, and no process listens on it.
    Nobody,
    /// The address does not belong to this machine.
    Elsewhere,
}

impl Listener {
    /// The process with the service's CPU.
    pub fn pid(&self) -> Option<u32> {
        match self {
            Self::Process { pid, .. } => Some(*pid),
            _ => None,
        }
    }
}

/// Programs that listen in place of a service: published container ports, and tunnels.
const FORWARDERS: [&str; 10] = [
    "docker-proxy",
    "rootlessport",
    "slirp4netns",
    "pasta",
    "pasta.avx2",
    "passt",
    "kubectl",
    "ssh",
    "sshd",
    "socat",
];

/// The listener on an address.
///
/// # Errors
/// Returns an error when the socket tables in `/proc/net` can't be read.
pub fn listener(address: SocketAddr) -> Result<Listener, HostError> {
    listener_under(Path::new("/"), address)
}

pub(crate) fn listener_under(root: &Path, address: SocketAddr) -> Result<Listener, HostError> {
    if !is_local(root, address.ip()) {
        return Ok(Listener::Elsewhere);
    }
    let inodes = inodes_for(root, address)?;
    if inodes.is_empty() {
        return Ok(Listener::Nobody);
    }
    Ok(match oldest_holder(root, &inodes) {
        Some((pid, program)) if FORWARDERS.contains(&program.as_str()) => {
            Listener::Forwarder { pid, program }
        }
        Some((pid, program)) => Listener::Process { pid, program },
        None => Listener::Hidden,
    })
}

/// The name of a process's program, at most 15 bytes; `None` where there is no such process.
pub fn program_of(pid: u32) -> Option<String> {
    let text = fs::read(format!("/proc/{pid}/stat")).ok()?;
    kernel_text::process_stat(&String::from_utf8_lossy(&text)).map(|stat| stat.program)
}

/// The programs in a process's tree that listen on a TCP port, by name, each once.
pub fn listeners_below(pid: u32) -> Vec<String> {
    let root = Path::new("/");
    let inodes: Vec<u64> =
        sockets(root).into_iter().filter(Socket::listens).map(|socket| socket.inode).collect();
    let tree = crate::cpu::tree(pid).unwrap_or_default();
    let listening = tree.into_iter().filter(|pid| holds(&root.join(format!("proc/{pid}/fd")), &inodes));
    let mut names: Vec<String> = listening.filter_map(program_of).collect();
    names.sort();
    names.dedup();
    names
}

/// The TCP addresses on which a process's tree listens, each once.
pub fn listening_below(pid: u32) -> BTreeSet<SocketAddr> {
    let root = Path::new("/");
    let tree = crate::cpu::tree(pid).unwrap_or_default();
    let is_theirs =
        |socket: &Socket| tree.iter().any(|pid| holds(&root.join(format!("proc/{pid}/fd")), &[socket.inode]));
    sockets(root).into_iter().filter(Socket::listens).filter(is_theirs).map(|socket| socket.local).collect()
}

/// The TCP sockets of this network namespace, as far as they can be read.
pub(crate) fn sockets(root: &Path) -> Vec<Socket> {
    // A kernel without IPv6 has no second table.
    let tables = ["tcp", "tcp6"].map(|name| fs::read_to_string(root.join("proc/net").join(name)));
    tables.into_iter().flatten().flat_map(|table| kernel_text::sockets(&table)).collect()
}

fn is_local(root: &Path, ip: IpAddr) -> bool {
    let table = |name: &str| fs::read_to_string(root.join("proc/net").join(name)).unwrap_or_default();
    match ip.to_canonical() {
        ip if ip.is_loopback() || ip.is_unspecified() => true,
        IpAddr::V4(ip) => kernel_text::local_ipv4(&table("fib_trie")).contains(&ip),
        IpAddr::V6(ip) => kernel_text::local_ipv6(&table("if_inet6")).contains(&ip),
    }
}

/// The sockets that a connection to the address can reach: those bound to it, otherwise those bound to every address.
fn inodes_for(root: &Path, address: SocketAddr) -> Result<Vec<u64>, HostError> {
    let first = root.join("proc/net/tcp");
    fs::metadata(&first).map_err(|source| HostError::Read { path: first, source })?;
    let sockets = sockets(root);

    let wanted = address.ip().to_canonical();
    let with_port = sockets.iter().filter(|socket| socket.listens() && socket.local.port() == address.port());
    let bound_to = |socket: &Socket| socket.local.ip().to_canonical();
    let (mut exact, mut general) = (Vec::new(), Vec::new());
    for socket in with_port {
        let bound = bound_to(socket);
        // A socket on `::` accepts IPv4 as well, unless that is disabled, which the table does not show.
        if bound == wanted || wanted.is_unspecified() {
            exact.push(socket.inode);
        } else if bound.is_unspecified() && (bound.is_ipv6() || wanted.is_ipv4()) {
            general.push(socket.inode);
        }
    }
    Ok(if exact.is_empty() { general } else { exact })
}

/// Of the processes with one of the sockets, one whose parent does not have it: workers inherit it.
fn oldest_holder(root: &Path, inodes: &[u64]) -> Option<(u32, String)> {
    let mut holders = BTreeMap::new();
    for pid in pids(root) {
        if holds(&root.join(format!("proc/{pid}/fd")), inodes)
            && let Ok(text) = fs::read(root.join(format!("proc/{pid}/stat")))
            && let Some(stat) = kernel_text::process_stat(&String::from_utf8_lossy(&text))
        {
            holders.insert(pid, stat);
        }
    }
    let firsts = holders.iter().filter(|(_, stat)| !holders.contains_key(&stat.parent));
    firsts.min_by_key(|(_, stat)| stat.started).map(|(pid, stat)| (*pid, stat.program.clone()))
}

fn pids(root: &Path) -> Vec<u32> {
    let Ok(entries) = fs::read_dir(root.join("proc")) else { return Vec::new() };
    entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok()).collect()
}

/// Whether a folder of descriptors has a link to one of the sockets. Processes of other users can't be inspected.
fn holds(folder: &Path, inodes: &[u64]) -> bool {
    let Ok(entries) = fs::read_dir(folder) else { return false };
    entries
        .filter_map(|entry| fs::read_link(entry.ok()?.path()).ok())
        .filter_map(|target| kernel_text::socket_inode(target.to_str()?))
        .any(|inode| inodes.contains(&inode))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{Ipv4Addr, TcpListener};

    fn row(ip: &str, port: u16, inode: u64) -> String {
        let ip: Ipv4Addr = ip.parse().unwrap();
        let hex = u32::from_ne_bytes(ip.octets());
        format!("0: {hex:08X}:{port:04X} 00000000:0000 0A 0:0 00:0 0 0 0 {inode} 1\n")
    }

    /// A recorded `/proc`: sockets by (address, port, inode), processes by (pid, parent, program, inode held).
    fn proc_of(sockets: &[(&str, u16, u64)], processes: &[(u32, u32, &str, u64)]) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        let net = root.path().join("proc/net");
        fs::create_dir_all(&net).unwrap();
        let table: String = sockets.iter().map(|(ip, port, inode)| row(ip, *port, *inode)).collect();
        fs::write(net.join("tcp"), table).unwrap();
        fs::write(net.join("fib_trie"), "|-- 192.0.2.2\n /32 host LOCAL\n").unwrap();
        for (pid, parent, program, inode) in processes {
            let folder = root.path().join(format!("proc/{pid}"));
            fs::create_dir_all(folder.join("fd")).unwrap();
            std::os::unix::fs::symlink(format!("socket:[{inode}]"), folder.join("fd/3")).unwrap();
            let stat = format!("{pid} ({program}) S {parent} 1 1 0 -1 0 0 0 0 0 1 1 0 0 20 0 1 0 {pid} 0\n");
            fs::write(folder.join("stat"), stat).unwrap();
        }
        root
    }

    #[track_caller]
    fn check(root: &tempfile::TempDir, address: &str, expected: Listener) {
        assert_eq!(listener_under(root.path(), address.parse().unwrap()).unwrap(), expected, "{address}");
    }

    fn process(pid: u32, program: &str) -> Listener {
        Listener::Process { pid, program: program.into() }
    }

    #[test]
    fn the_exact_address_goes_before_the_general_one() {
        let root = proc_of(
            &[("0.0.0.0", 9092, 1), ("127.0.0.1", 9092, 2), ("0.0.0.0", 9093, 3)],
            &[(20, 1, "general", 1), (21, 1, "exact", 2), (22, 1, "other", 3)],
        );
        check(&root, "127.0.0.1:9092", process(21, "exact"));
        check(&root, "127.0.0.2:9092", process(20, "general"));
        check(&root, "[::ffff:127.0.0.1]:9092", process(21, "exact"));
        check(&root, "192.0.2.2:9093", process(22, "other"));
        check(&root, "127.0.0.1:1", Listener::Nobody);
    }

    #[test]
    fn a_remote_address_is_not_taken_for_a_local_listener_with_the_same_port() {
        let root = proc_of(&[("0.0.0.0", 9092, 1)], &[(20, 1, "local", 1)]);
        check(&root, "203.0.113.5:9092", Listener::Elsewhere);
        check(&root, "[2001:db8::1]:9092", Listener::Elsewhere);
    }

    #[test]
    fn workers_that_inherited_the_socket_are_not_the_service() {
        let root =
            proc_of(&[("0.0.0.0", 80, 1)], &[(20, 30, "worker", 1), (30, 1, "master", 1), (40, 30, "w2", 1)]);
        check(&root, "127.0.0.1:80", process(30, "master"));
    }

    #[test]
    fn a_forwarder_and_an_unseen_owner_give_no_pid() {
        let root = proc_of(&[("0.0.0.0", 9092, 1), ("0.0.0.0", 9093, 2)], &[(20, 1, "docker-proxy", 1)]);
        let forwarder = Listener::Forwarder { pid: 20, program: "docker-proxy".into() };
        assert_eq!(forwarder.pid(), None);
        check(&root, "127.0.0.1:9092", forwarder);
        check(&root, "127.0.0.1:9093", Listener::Hidden);
    }

    #[test]
    fn this_test_finds_itself_on_the_running_machine() {
        let socket = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let address = socket.local_addr().unwrap();
        assert_eq!(listener(address).unwrap().pid(), Some(std::process::id()));
        let everywhere = TcpListener::bind((Ipv4Addr::UNSPECIFIED, 0)).unwrap();
        let port = everywhere.local_addr().unwrap().port();
        assert_eq!(listener((Ipv4Addr::LOCALHOST, port).into()).unwrap().pid(), Some(std::process::id()));
        // Documentation addresses (RFC 5737) belong to no machine.
        assert_eq!(listener((Ipv4Addr::new(203, 0, 113, 1), port).into()).unwrap(), Listener::Elsewhere);
    }
}
