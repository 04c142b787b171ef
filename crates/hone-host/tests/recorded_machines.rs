//! Machines recorded as trees of files: what is observed on them, and what the doctor says of them.
//!
//! The expected texts lie in `snapshots/`. `UPDATE_SNAPSHOTS=1 cargo test -p hone-host` writes them again; read the difference before you
//! keep it.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use hone_host::doctor::{Finding, Level, examine};
use hone_host::observe;
use hone_host::tools::{KNOWN_TOOLS, Surroundings, ToolFinding};
use hone_record::{Machine, PmuState, ToolReceipt};

fn tests_folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests")
}

/// Name, path and version of a tool on a recorded machine.
type Seen = (&'static str, &'static str, &'static str);

fn tools(seen: &[Seen], around: &Surroundings) -> Vec<ToolFinding> {
    let receipt = |name: &str| {
        let (_, path, version) = seen.iter().find(|(found, _, _)| *found == name)?;
        Some(ToolReceipt { name: name.into(), path: (*path).into(), version: (*version).into() })
    };
    KNOWN_TOOLS.iter().map(|known| known.finding(receipt(known.name), around)).collect()
}

fn render(machine: &Machine, findings: &[Finding]) -> String {
    let mut text = serde_json::to_string_pretty(machine).unwrap();
    text.push_str("\n\n");
    for finding in findings {
        let level = match finding.level {
            Level::Ok => "ok",
            Level::Note => "note",
            Level::Warn => "WARN",
        };
        writeln!(text, "{level:<4} {}", finding.what).unwrap();
        writeln!(text, "     {}", finding.so_what).unwrap();
        if let Some(next) = &finding.next {
            writeln!(text, "  -> {next}").unwrap();
        }
    }
    text
}

#[track_caller]
fn check(name: &str, pmu: PmuState, rustc_llvm: Option<u32>, as_root: bool, seen: &[Seen]) {
    let root = tests_folder().join("machines").join(name);
    let machine = observe::machine_with(&root, || pmu);
    let around = Surroundings { rustc_llvm, manager: observe::package_manager(&root), rustup: true, as_root };
    let text = render(&machine, &examine(&machine, &tools(seen, &around)));
    let path = tests_folder().join("snapshots").join(format!("{name}.txt"));
    if std::env::var_os("UPDATE_SNAPSHOTS").is_some() {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, &text).unwrap();
    }
    let expected = fs::read_to_string(&path).unwrap_or_default();
    assert!(text == expected, "{} differs, got:\n{text}", path.display());
}

#[test]
fn a_guest_without_dmi_and_with_everything_installed() {
    let seen = [
        ("cargo", "/usr/local/bin/cargo", "cargo 1.95.0 (f2d3ce0bd 2026-03-21)"),
        ("rustc", "/usr/local/bin/rustc", "rustc 1.95.0 (59807616e 2026-04-14)"),
        ("cc", "/usr/bin/cc", "cc (Debian 12.2.0-14+deb12u1) 12.2.0"),
        ("llvm-profdata", "/usr/bin/llvm-profdata", "Debian LLVM version 14.0.6"),
        ("clang", "/usr/bin/clang-22", "Debian clang version 22.1.8 (1~deb12u1)"),
        ("llvm-bolt", "/usr/bin/llvm-bolt-22", "LLVM version 22.1.8"),
        ("perf", "/usr/bin/perf", "perf version 6.1.187"),
        ("valgrind", "/usr/bin/valgrind", "valgrind-3.19.0"),
        ("qemu-user", "/usr/bin/qemu-x86_64", "qemu-x86_64 version 7.2.19"),
        ("go", "/usr/local/go/bin/go", "go version go1.26.8 linux/amd64"),
        ("java", "/usr/bin/java", "openjdk 17.0.15 2025-04-15"),
        ("kcat", "/usr/bin/kcat", "Version 1.7.1 (JSON, Transactions)"),
    ];
    check("guest-without-dmi", PmuState::None, Some(22), true, &seen);
}

#[test]
fn a_busy_bare_machine_of_ubuntu_with_forbidden_counters() {
    let seen = [
        ("cargo", "/home/u/.cargo/bin/cargo", "cargo 1.95.0 (f2d3ce0bd 2026-03-21)"),
        ("rustc", "/home/u/.cargo/bin/rustc", "rustc 1.95.0 (59807616e 2026-04-14)"),
        ("cc", "/usr/bin/cc", "cc (Ubuntu 13.3.0-6ubuntu2~24.04) 13.3.0"),
        ("clang", "/usr/bin/clang", "Ubuntu clang version 18.1.3 (1ubuntu1)"),
        ("go", "/usr/bin/go", "go version go1.20.4 linux/amd64"),
    ];
    check("bare-metal", PmuState::Forbidden, Some(22), false, &seen);
}

#[test]
fn a_container_of_fedora_with_nothing_installed() {
    check("docker", PmuState::Forbidden, None, true, &[]);
}

#[test]
fn an_arm_guest_with_counters() {
    check("arm64-cloud", PmuState::Counters, Some(22), false, &[]);
}

#[test]
fn an_empty_root_is_a_machine_of_which_nothing_is_known() {
    let root = tempfile::tempdir().unwrap();
    let machine = observe::machine(root.path());
    assert_eq!(machine, Machine::default());
    // The doctor stays useful.
    assert!(examine(&machine, &[]).iter().any(|finding| finding.what.contains("unknown")));
}

#[test]
fn files_that_are_garbage_or_folders_are_as_good_as_missing() {
    let root = tempfile::tempdir().unwrap();
    for name in ["proc/cpuinfo", "proc/stat", "proc/meminfo", "etc/os-release", "proc/loadavg"] {
        let path = root.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, b"\xff\xfe\0cpu \n: = :\ncpu  x\nMemTotal: kB\nNaN").unwrap();
    }
    fs::create_dir_all(root.path().join("proc/sys/kernel/osrelease")).unwrap();
    let machine = observe::machine(root.path());
    assert_eq!((machine.cores, machine.memory_bytes, machine.kernel.as_str()), (0, 0, ""));
    assert_eq!((machine.load_average_1m, machine.steal_share), (0.0, 0.0));
}

#[test]
fn the_running_machine_is_observed() {
    let machine = observe::machine(Path::new("/"));
    assert!(machine.cores > 0 && machine.memory_bytes > 0, "{machine:?}");
    assert!(!machine.cpu_model.is_empty() && !machine.kernel.is_empty(), "{machine:?}");
    assert_eq!(machine.cores as usize, available_cores());
    assert!((0.0..=1.0).contains(&machine.steal_share));
}

/// Cores that are online, as the C library counts them.
fn available_cores() -> usize {
    // SAFETY: a question without side effects.
    usize::try_from(unsafe { libc::sysconf(libc::_SC_NPROCESSORS_ONLN) }).unwrap()
}
