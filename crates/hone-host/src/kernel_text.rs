//! Parsers of the kernel's texts. The code is pure. No parser fails on foreign input: unreadable parts are `None`, or left out.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use hone_record::Throttling;

/// The value of the first line `key : value` (or `key=value`) of a text.
fn value_of<'a>(text: &'a str, separator: char, key: &str) -> Option<&'a str> {
    text.lines()
        .filter_map(|line| line.split_once(separator))
        .find(|(found, _)| found.trim() == key)
        .map(|(_, value)| value.trim())
        .filter(|value| !value.is_empty())
}

/// The CPU's name from `/proc/cpuinfo`. x86 has `model name`, POWER has `cpu`, RISC-V has `uarch`. 64-bit Arm has only numbers, and
/// well-known ones are translated.
pub(crate) fn cpu_model(cpuinfo: &str) -> Option<String> {
    let plain = ["model name", "cpu", "cpu model", "uarch"]
        .iter()
        .find_map(|key| value_of(cpuinfo, ':', key))
        .map(|name| name.split_whitespace().collect::<Vec<_>>().join(" "));
    plain.or_else(|| arm_model(cpuinfo))
}

/// Implementer and part numbers of 64-bit Arm cores that servers have. They are the fields of the register MIDR_EL1,
/// as listed in the kernel's arch/arm64/include/asm/cputype.h.
const ARM_CORES: [(&str, &str, &str); 12] = [
    ("0x41", "0xd03", "Arm Cortex-A53"),
    ("0x41", "0xd08", "Arm Cortex-A72"),
    ("0x41", "0xd0b", "Arm Cortex-A76"),
    ("0x41", "0xd0c", "Arm Neoverse-N1"),
    ("0x41", "0xd40", "Arm Neoverse-V1"),
    ("0x41", "0xd49", "Arm Neoverse-N2"),
    ("0x41", "0xd4f", "Arm Neoverse-V2"),
    ("0x41", "0xd84", "Arm Neoverse-V3"),
    ("0x41", "0xd8e", "Arm Neoverse-N3"),
    ("0x48", "0xd01", "HiSilicon TSV110"),
    ("0xc0", "0xac3", "Ampere-1"),
    ("0xc0", "0xac4", "Ampere-1A"),
];

fn arm_model(cpuinfo: &str) -> Option<String> {
    let implementer = value_of(cpuinfo, ':', "CPU implementer")?;
    let part = value_of(cpuinfo, ':', "CPU part")?;
    let known = ARM_CORES
        .iter()
        .find(|(by, number, _)| *by == implementer && *number == part)
        .map(|(_, _, name)| (*name).to_owned());
    Some(known.unwrap_or_else(|| format!("64-bit Arm, implementer {implementer}, part {part}")))
}

/// Logical cores in `/proc/cpuinfo`, which has one `processor` line for each.
pub(crate) fn cores_in_cpuinfo(cpuinfo: &str) -> u32 {
    let is_core = |line: &&str| {
        line.strip_prefix("processor").is_some_and(|rest| {
            rest.trim_start_matches(|c: char| c.is_whitespace() || c.is_ascii_digit()).starts_with(':')
        })
    };
    u32::try_from(cpuinfo.lines().filter(is_core).count()).unwrap_or(u32::MAX)
}

/// Whether an x86 CPU reports a hypervisor.
pub(crate) fn has_hypervisor_flag(cpuinfo: &str) -> bool {
    value_of(cpuinfo, ':', "flags").is_some_and(|flags| flags.split_whitespace().any(|f| f == "hypervisor"))
}

/// Cores in a list such as `0-3,8`, the form of `/sys/devices/system/cpu/online`.
pub(crate) fn cores_in_list(list: &str) -> Option<u32> {
    let mut cores = 0_u32;
    for range in list.trim().split(',') {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let (first, last): (u32, u32) = (first.trim().parse().ok()?, last.trim().parse().ok()?);
        cores = cores.checked_add(last.checked_sub(first)?.checked_add(1)?)?;
    }
    Some(cores)
}

/// `VmHWM` of `/proc/PID/status`, in bytes.
pub(crate) fn peak_rss_bytes(status: &str) -> Option<u64> {
    let value = value_of(status, ':', "VmHWM")?;
    value.strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

/// Resident pages: the second column of `/proc/PID/statm`.
pub(crate) fn resident_pages(statm: &str) -> Option<u64> {
    statm.split_whitespace().nth(1)?.parse().ok()
}

/// `Pss` of `/proc/PID/smaps_rollup`, in bytes.
pub(crate) fn proportional_bytes(rollup: &str) -> Option<u64> {
    let value = value_of(rollup, ':', "Pss")?;
    value.strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

/// A control group hierarchy that limits CPU, with its mount point.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct GroupMount {
    pub(crate) is_unified: bool,
    /// The group that appears as the root; inside a container this is not the real one.
    pub(crate) shown: String,
    pub(crate) at: String,
}

/// The hierarchies in `/proc/PID/mountinfo`: `ID PARENT MAJOR:MINOR ROOT MOUNTPOINT OPTIONS... - TYPE SOURCE SUPEROPTIONS`.
pub(crate) fn cpu_group_mounts(mountinfo: &str) -> Vec<GroupMount> {
    let read = |line: &str| {
        let (place, kind) = line.split_once(" - ")?;
        let mut place = place.split(' ').skip(3);
        let (shown, at) = (place.next()?.to_owned(), place.next()?.to_owned());
        let mut kind = kind.split(' ');
        let (name, options) = (kind.next()?, kind.nth(1)?);
        let is_unified = match name {
            "cgroup2" => true,
            "cgroup" if options.split(',').any(|option| option == "cpu") => false,
            _ => return None,
        };
        Some(GroupMount { is_unified, shown, at })
    };
    mountinfo.lines().filter_map(read).collect()
}

/// The group that limits a process's CPU, in one hierarchy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct GroupMembership {
    pub(crate) is_unified: bool,
    pub(crate) path: String,
}

/// The groups in `/proc/PID/cgroup`: `ID:CONTROLLERS:PATH`, without controllers for cgroup v2.
pub(crate) fn cpu_groups(cgroup: &str) -> Vec<GroupMembership> {
    let read = |line: &str| {
        let mut columns = line.splitn(3, ':').skip(1);
        let (controllers, path) = (columns.next()?, columns.next()?);
        let is_unified = controllers.is_empty();
        let is_cpu = is_unified || controllers.split(',').any(|controller| controller == "cpu");
        is_cpu.then(|| GroupMembership { is_unified, path: path.to_owned() })
    };
    cgroup.lines().filter_map(read).collect()
}

/// `cpu.max` in cores: `QUOTA PERIOD`, both in microseconds, or `max PERIOD` without a limit.
pub(crate) fn unified_limit_cores(cpu_max: &str) -> Option<f64> {
    let mut words = cpu_max.split_whitespace();
    let (quota, period): (f64, f64) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
    (quota > 0.0 && period > 0.0).then_some(quota / period)
}

/// The counters in a group's `cpu.stat`, by the names of cgroup v2 (`throttled_usec`) or v1 (`throttled_time`, nanoseconds).
pub(crate) fn throttling(cpu_stat: &str) -> Option<Throttling> {
    let count = |name: &str| -> Option<u64> {
        let line = cpu_stat.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '))?;
        line.trim().parse().ok()
    };
    let throttled_s = match (count("throttled_usec"), count("throttled_time")) {
        (Some(usec), _) => usec as f64 / 1e6,
        (None, nsec) => nsec? as f64 / 1e9,
    };
    Some(Throttling {
        limit_cores: None,
        periods: count("nr_periods")?,
        throttled_periods: count("nr_throttled")?,
        throttled_s,
    })
}

/// `MemTotal` of `/proc/meminfo`, in bytes.
pub(crate) fn memory_bytes(meminfo: &str) -> Option<u64> {
    let value = value_of(meminfo, ':', "MemTotal")?;
    let kib: u64 = value.strip_suffix("kB")?.trim().parse().ok()?;
    kib.checked_mul(1024)
}

/// A cache's size such as `32K`, in bytes.
pub(crate) fn cache_bytes(size: &str) -> Option<u64> {
    let size = size.trim();
    let (digits, unit) = match size.char_indices().last()? {
        (at, 'K') => (&size[..at], 1024),
        (at, 'M') => (&size[..at], 1024 * 1024),
        _ => (size, 1),
    };
    digits.parse::<u64>().ok()?.checked_mul(unit)
}

/// A field of `/etc/os-release`, without its quotes.
pub(crate) fn os_release_field(os_release: &str, key: &str) -> Option<String> {
    let value = value_of(os_release, '=', key)?;
    Some(value.trim_matches(|c| c == '"' || c == '\'').to_owned())
}

/// The distribution's name and version for people.
pub(crate) fn os_name(os_release: &str) -> Option<String> {
    os_release_field(os_release, "PRETTY_NAME").or_else(|| {
        let name = os_release_field(os_release, "NAME")?;
        Some(match os_release_field(os_release, "VERSION_ID") {
            Some(version) => format!("{name} {version}"),
            None => name,
        })
    })
}

/// The one-minute load average of `/proc/loadavg`.
pub(crate) fn load_average_1m(loadavg: &str) -> Option<f64> {
    loadavg.split_whitespace().next()?.parse().ok().filter(|load: &f64| load.is_finite() && *load >= 0.0)
}

/// The first line of `/proc/stat`: CPU time of all cores since boot, in clock ticks.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct CpuTicks {
    /// User, nice, system and both kinds of interrupts. Guests are part of user.
    pub(crate) busy: u64,
    /// Idle, and idle while waiting for a disk.
    pub(crate) idle: u64,
    /// A task wanted to run, but the hypervisor ran another guest.
    pub(crate) steal: u64,
}

impl CpuTicks {
    pub(crate) fn total(self) -> u64 {
        self.busy.saturating_add(self.idle).saturating_add(self.steal)
    }
}

/// The sum of all cores of `/proc/stat`; see proc_stat(5) for the columns.
pub(crate) fn cpu_ticks(stat: &str) -> Option<CpuTicks> {
    ticks_of(stat.lines().find_map(|line| line.strip_prefix("cpu "))?)
}

/// The same for each core, by its number.
pub(crate) fn core_ticks(stat: &str) -> BTreeMap<u32, CpuTicks> {
    let core = |line: &str| {
        let (number, columns) = line.strip_prefix("cpu")?.split_once(' ')?;
        Some((number.parse::<u32>().ok()?, ticks_of(columns)?))
    };
    stat.lines().filter_map(core).collect()
}

fn ticks_of(columns: &str) -> Option<CpuTicks> {
    let columns: Vec<u64> = columns.split_whitespace().map_while(|column| column.parse().ok()).collect();
    let [user, nice, system, idle, rest @ ..] = columns.as_slice() else { return None };
    let column = |at: usize| rest.get(at).copied().unwrap_or(0);
    let (io_wait, irq, soft_irq, steal) = (column(0), column(1), column(2), column(3));
    let sum = |parts: &[u64]| parts.iter().fold(0_u64, |sum, part| sum.saturating_add(*part));
    Some(CpuTicks { busy: sum(&[*user, *nice, *system, irq, soft_irq]), idle: sum(&[*idle, io_wait]), steal })
}

/// CPU time of a process from `/proc/PID/stat`, in clock ticks.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct ProcessStat {
    /// Name of the program, at most 15 bytes.
    pub(crate) program: String,
    pub(crate) parent: u32,
    /// CPU of the process and its ended threads.
    pub(crate) user: u64,
    pub(crate) system: u64,
    /// CPU of children that ended and were waited for, and of their children.
    pub(crate) reaped_user: u64,
    pub(crate) reaped_system: u64,
    /// Start time since boot; together with the pid it identifies a process.
    pub(crate) started: u64,
}

/// Reads `/proc/PID/stat`; see proc_pid_stat(5). The program's name may contain spaces and parentheses, so the columns begin after the last
/// `)`.
pub(crate) fn process_stat(stat: &str) -> Option<ProcessStat> {
    let (head, tail) = stat.rsplit_once(')')?;
    let program = head.split_once('(')?.1.to_owned();
    let columns: Vec<&str> = tail.split_whitespace().collect();
    // The first column after the name is field 3 of the manual page.
    let field = |number: usize| columns.get(number.checked_sub(3)?);
    let ticks = |number: usize| field(number)?.parse::<u64>().ok();
    // The kernel keeps the times of children as signed numbers.
    let child_ticks = |number: usize| Some(field(number)?.parse::<i64>().ok()?.max(0).unsigned_abs());
    Some(ProcessStat {
        program,
        parent: field(4)?.parse().ok()?,
        user: ticks(14)?,
        system: ticks(15)?,
        reaped_user: child_ticks(16)?,
        reaped_system: child_ticks(17)?,
        started: ticks(22)?,
    })
}

/// A row of `/proc/net/tcp` or `tcp6`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Socket {
    pub(crate) local: SocketAddr,
    pub(crate) remote: SocketAddr,
    /// Values as in the kernel's `net/tcp_states.h`.
    pub(crate) state: u8,
    pub(crate) inode: u64,
}

const TCP_ESTABLISHED: u8 = 0x01;
const TCP_LISTEN: u8 = 0x0A;

impl Socket {
    pub(crate) fn listens(&self) -> bool {
        self.state == TCP_LISTEN
    }

    pub(crate) fn is_connected(&self) -> bool {
        self.state == TCP_ESTABLISHED
    }

    #[cfg(test)]
    pub(crate) fn parsed(local: &str, remote: &str, state: u8, inode: u64) -> Self {
        Self { local: local.parse().unwrap(), remote: remote.parse().unwrap(), state, inode }
    }
}

/// The sockets of `/proc/net/tcp` or `/proc/net/tcp6`.
pub(crate) fn sockets(table: &str) -> Vec<Socket> {
    table.lines().filter_map(socket_line).collect()
}

fn socket_line(line: &str) -> Option<Socket> {
    let columns: Vec<&str> = line.split_whitespace().collect();
    let place = |at: usize| {
        let (address, port) = columns.get(at)?.split_once(':')?;
        Some(SocketAddr::new(ip_of_hex(address)?, u16::from_str_radix(port, 16).ok()?))
    };
    Some(Socket {
        local: place(1)?,
        remote: place(2)?,
        state: u8::from_str_radix(columns.get(3)?, 16).ok()?,
        inode: columns.get(9)?.parse().ok()?,
    })
}

/// The kernel prints an address as 32-bit words in the byte order of the machine.
fn ip_of_hex(hex: &str) -> Option<IpAddr> {
    if !hex.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return None;
    }
    let word = |at: usize| u32::from_str_radix(hex.get(at..at + 8)?, 16).ok().map(u32::to_ne_bytes);
    match hex.len() {
        8 => Some(IpAddr::V4(Ipv4Addr::from(word(0)?))),
        32 => {
            let mut octets = [0_u8; 16];
            for (index, target) in octets.chunks_exact_mut(4).enumerate() {
                target.copy_from_slice(&word(index * 8)?);
            }
            Some(IpAddr::V6(Ipv6Addr::from(octets)))
        }
        _ => None,
    }
}

/// The IPv4 addresses of this machine in `/proc/net/fib_trie`: a line `|-- ADDRESS`, and below it `/32 host LOCAL`.
pub(crate) fn local_ipv4(fib_trie: &str) -> Vec<Ipv4Addr> {
    let mut above = None;
    let mut found = Vec::new();
    for line in fib_trie.lines() {
        let line = line.trim();
        if let Some(address) = line.strip_prefix("|-- ") {
            above = address.parse::<Ipv4Addr>().ok();
        } else if line == "/32 host LOCAL"
            && let Some(address) = above.filter(|address| !found.contains(address))
        {
            found.push(address);
        }
    }
    found
}

/// The IPv6 addresses of this machine: the first column of `/proc/net/if_inet6`.
pub(crate) fn local_ipv6(if_inet6: &str) -> Vec<Ipv6Addr> {
    let address = |line: &str| u128::from_str_radix(line.split_whitespace().next()?, 16).ok();
    if_inet6.lines().filter_map(address).map(Ipv6Addr::from_bits).collect()
}

/// The inode in the target of a link such as `socket:[1153]`.
pub(crate) fn socket_inode(link: &str) -> Option<u64> {
    link.strip_prefix("socket:[")?.strip_suffix(']')?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn names_of_cpus_of_several_kinds() {
        let check = |cpuinfo: &str, expected: Option<&str>| {
            assert_eq!(cpu_model(cpuinfo).as_deref(), expected, "{cpuinfo}");
        };
        check("processor\t: 0\nmodel name\t: AMD EPYC 9R14  96-Core\n", Some("AMD EPYC 9R14 96-Core"));
        check("CPU implementer\t: 0x41\nCPU part\t: 0xd40\n", Some("Arm Neoverse-V1"));
        check("CPU implementer\t: 0x99\nCPU part\t: 0x1\n", Some("64-bit Arm, implementer 0x99, part 0x1"));
        check("processor\t: 0\ncpu\t\t: POWER9, altivec supported\n", Some("POWER9, altivec supported"));
        check("hart\t: 0\nuarch\t: sifive,u74-mc\n", Some("sifive,u74-mc"));
        check("model name\t:\n", None);
        check("", None);
    }

    #[test]
    fn cores_are_counted_in_both_forms() {
        assert_eq!(cores_in_cpuinfo("processor\t: 0\n\nprocessor\t: 1\nmodel\t: processor\n"), 2);
        assert_eq!(cores_in_cpuinfo("processor 0: version = FF\nprocessor 1: version = FF\n"), 2);
        assert_eq!(cores_in_list("0-3,8\n"), Some(5));
        assert_eq!(cores_in_list("0"), Some(1));
        for bad in ["", "\n", "3-0", "a-b", "0-4294967295", "0,,1"] {
            assert_eq!(cores_in_list(bad), None, "{bad:?}");
        }
    }

    #[test]
    fn sizes_carry_their_unit() {
        assert_eq!(cache_bytes("64K\n"), Some(65536));
        assert_eq!(cache_bytes("1M"), Some(1 << 20));
        assert_eq!(cache_bytes("512"), Some(512));
        for bad in ["", "K", "-1K", "64Kµ", "18446744073709551615K"] {
            assert_eq!(cache_bytes(bad), None, "{bad:?}");
        }
        assert_eq!(memory_bytes("MemTotal:       24684084 kB\n"), Some(24_684_084 * 1024));
        assert_eq!(memory_bytes("MemTotal: 1\n"), None);
    }

    #[test]
    fn distributions_by_their_own_words() {
        assert_eq!(os_name("NAME=\"Arch Linux\"\nID=arch\n").as_deref(), Some("Arch Linux"));
        assert_eq!(os_name("NAME=Fedora\nVERSION_ID=42\n").as_deref(), Some("Fedora 42"));
        assert_eq!(os_name("NAME=x\nPRETTY_NAME='y z'\n").as_deref(), Some("y z"));
        assert_eq!(os_name(""), None);
    }

    #[test]
    fn the_line_of_all_cores_is_read_with_and_without_the_later_columns() {
        let ticks = cpu_ticks("cpu  100 1 50 1000 20 3 4 30 7 0\ncpu0 1 1 1 1\n").unwrap();
        assert_eq!(ticks, CpuTicks { busy: 158, idle: 1020, steal: 30 });
        assert_eq!(ticks.total(), 1208);
        assert_eq!(cpu_ticks("cpu 1 2 3 4\n").unwrap(), CpuTicks { busy: 6, idle: 4, steal: 0 });
        assert_eq!(cpu_ticks("cpu0 1 2 3 4\nintr 5\n"), None);
        assert_eq!(cpu_ticks("cpu 1 x 3 4\n"), None);
        let cores =
            core_ticks("cpu  9 9 9 9\ncpu0 1 2 3 4\ncpu12 5 0 0 1 1 0 0 2\ncpux 1 2 3 4\ncpu3 1\nintr 5\n");
        let expected =
            [(0, CpuTicks { busy: 6, idle: 4, steal: 0 }), (12, CpuTicks { busy: 5, idle: 2, steal: 2 })];
        assert_eq!(cores, BTreeMap::from(expected));
    }

    #[test]
    fn a_program_may_be_called_anything() {
        let tail = "S 7 1 1 0 -1 4194304 1 2 3 4 11 12 -1 14 20 0 1 0 99 5 6 7";
        let stat = process_stat(&format!("42 (a) b (c)) {tail}")).unwrap();
        assert_eq!(
            stat,
            ProcessStat {
                program: "a) b (c)".into(),
                parent: 7,
                user: 11,
                system: 12,
                reaped_user: 0,
                reaped_system: 14,
                started: 99,
            }
        );
        assert_eq!(process_stat("42 (sh) S 7"), None);
        assert_eq!(process_stat(") ("), None);
    }

    /// A line as the kernel of a little-endian machine prints it.
    #[test]
    #[cfg(target_endian = "little")]
    fn sockets_of_both_families() {
        let v4 = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n   \
             0: 0100007F:2384 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 1153 1 0 100 0\n   \
             1: 0100007F:2384 0100007F:C350 01 00000000:00000000 00:00000000 00000000     0        0 1154 1 0 20 4\n";
        let listens = Socket::parsed("127.0.0.1:9092", "0.0.0.0:0", 0x0A, 1153);
        let connected = Socket::parsed("127.0.0.1:9092", "127.0.0.1:50000", 0x01, 1154);
        assert_eq!(sockets(v4), [listens, connected]);
        assert!(listens.listens() && !listens.is_connected());
        assert!(connected.is_connected() && !connected.listens());
        let v6 = "   0: 00000000000000000000000001000000:0050 00000000000000000000000000000000:0000 0A \
             00000000:00000000 00:00000000 00000000     0        0 77 1 0 100 0 0 10 0\n";
        assert_eq!(sockets(v6), [Socket::parsed("[::1]:80", "[::]:0", 0x0A, 77)]);
        assert_eq!(sockets("0: 0100007F:2384 0 0A\n0: xyz:1 0 0A a b c d e 1\n"), []);
    }

    #[test]
    fn addresses_of_this_machine() {
        let trie = "Main:\n  |-- 192.0.2.0\n     /24 link UNICAST\n  |-- 192.0.2.2\n     /32 host LOCAL\n\
             Local:\n  |-- 192.0.2.2\n     /32 host LOCAL\n  |-- 192.0.2.255\n     /32 link BROADCAST\n";
        assert_eq!(local_ipv4(trie), [Ipv4Addr::new(192, 0, 2, 2)]);
        let six = "00000000000000000000000000000001 01 80 10 80       lo\n";
        assert_eq!(local_ipv6(six), [Ipv6Addr::LOCALHOST]);
    }

    proptest! {
        #[test]
        fn no_text_makes_a_parser_panic(text in "\\PC*|[ -~\n\t]*|[0-9A-Fa-f:() ,\\-\nKM]*") {
            let _ = (cpu_model(&text), cores_in_cpuinfo(&text), has_hypervisor_flag(&text), cores_in_list(&text));
            let _ = (memory_bytes(&text), cache_bytes(&text), os_name(&text), load_average_1m(&text));
            let _ = (cpu_ticks(&text), process_stat(&text), sockets(&text), local_ipv4(&text));
            let _ = (local_ipv6(&text), socket_inode(&text), ip_of_hex(&text));
        }

        #[test]
        fn a_damaged_line_does_not_panic(at in 0_usize..200, with in any::<char>()) {
            let lines = [
                "42 (sh) S 7 1 1 0 -1 4194304 1 2 3 4 11 12 13 14 20 0 1 0 99 5 6 7",
                "cpu  100 1 50 1000 20 3 4 30 7 0",
                "   0: 0100007F:2384 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 1153 1",
            ];
            for line in lines {
                let damaged: String =
                    line.chars().enumerate().map(|(i, c)| if i == at { with } else { c }).collect();
                let _ = (process_stat(&damaged), cpu_ticks(&damaged), sockets(&damaged));
            }
        }

        #[test]
        fn every_address_is_found_again(ip: u32, port: u16, inode: u64) {
            let hex = u32::from_ne_bytes(Ipv4Addr::from_bits(ip).octets());
            let line = format!("0: {hex:08X}:{port:04X} 00000000:0000 0A 0:0 00:0 0 0 0 {inode} 1");
            let address = SocketAddr::new(Ipv4Addr::from_bits(ip).into(), port);
            let found: Vec<_> = sockets(&line).into_iter().map(|one| (one.local, one.listens(), one.inode)).collect();
            prop_assert_eq!(found, vec![(address, true, inode)]);
        }
    }
}
