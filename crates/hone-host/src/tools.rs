//! The programs that Hone can use: purpose, version check, accepted versions, and installation. The code is pure: the caller starts
//! programs and passes their output.

use hone_record::ToolReceipt;
use serde::Serialize;

/// Importance of a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Need {
    /// A verb can't do its main work without it.
    Required,
    /// Only some targets or some evidence need it.
    Optional,
}

/// Search path of a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum ToolFolders {
    /// In the folders of `PATH`.
    Path,
    /// In the folder `bin` next to the one that `rustc --print target-libdir` prints, and in `PATH` only after that. The first one in
    /// `PATH` is often too old to read rustc's files.
    BesideRustc,
}

/// Accepted versions of a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Constraint {
    /// Every version.
    Any,
    /// The major version of the LLVM inside rustc: raw profiles and indexed profiles change with it.
    LlvmOfRustc,
    /// This major and minor version or a later one.
    AtLeast(u32, u32),
}

/// Packages of the distributions, separated by spaces. `{llvm}` stands for `-22` or the like, or for nothing if rustc's LLVM is unknown.
/// `None` if the distribution is not known to have one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Packages {
    /// Debian.
    pub debian: Option<&'static str>,
    /// Ubuntu.
    pub ubuntu: Option<&'static str>,
    /// Fedora, RHEL and related distributions.
    pub dnf: Option<&'static str>,
    /// Arch and related distributions.
    pub pacman: Option<&'static str>,
}

impl Packages {
    const fn same(name: &'static str) -> Self {
        Self { debian: Some(name), ubuntu: Some(name), dnf: Some(name), pacman: Some(name) }
    }

    const fn new(apt: &'static str, dnf: Option<&'static str>, pacman: Option<&'static str>) -> Self {
        Self { debian: Some(apt), ubuntu: Some(apt), dnf, pacman }
    }
}

/// Installation of a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Install {
    /// By the distribution's package manager; `otherwise` is the advice for distributions without a package.
    Packages {
        /// The packages.
        packages: Packages,
        /// Advice for every other system.
        otherwise: &'static str,
    },
    /// By one command, the same on every system.
    Command(&'static str),
    /// As part of the Rust toolchain: by a rustup command if rustc came from rustup, otherwise by packages.
    Component {
        /// The command of rustup.
        command: &'static str,
        /// Packages if rustc is the distribution's.
        packages: Packages,
        /// Advice for every other system.
        otherwise: &'static str,
    },
}

/// A program that Hone can use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KnownTool {
    /// Its plain name, as in receipts.
    pub name: &'static str,
    /// Its file name. LLVM's tools are also searched with the major version appended, see [`KnownTool::programs`].
    pub program: &'static str,
    /// Arguments that make it print its version and exit.
    pub version_args: &'static [&'static str],
    /// Its search path.
    pub place: ToolFolders,
    /// The verbs that use it, and the purpose.
    pub wanted_for: &'static str,
    /// Its importance.
    pub need: Need,
    /// Accepted versions.
    pub constraint: Constraint,
    /// Its installation.
    pub install: Install,
}

const RUSTUP: Install = Install::Command(
    "curl --proto '=https' --tlsv1.2 -sSf https://sh.rustup.rs | sh -s -- -y --profile minimal",
);

/// The name of the user-mode emulator of this machine's architecture.
#[cfg(target_arch = "aarch64")]
const EMULATOR: &str = "qemu-aarch64";
/// The name of the user-mode emulator of this machine's architecture.
#[cfg(not(target_arch = "aarch64"))]
const EMULATOR: &str = "qemu-x86_64";

/// Common values of most of them.
const USUAL: KnownTool = KnownTool {
    name: "",
    program: "",
    version_args: &["--version"],
    place: ToolFolders::Path,
    wanted_for: "",
    need: Need::Optional,
    constraint: Constraint::Any,
    install: RUSTUP,
};

/// Every program that Hone can use, in the order of the report.
pub const KNOWN_TOOLS: [KnownTool; 12] = [
    KnownTool {
        name: "cargo",
        program: "cargo",
        wanted_for: "optimize: builds of Cargo targets",
        need: Need::Required,
        install: RUSTUP,
        ..USUAL
    },
    KnownTool {
        name: "rustc",
        program: "rustc",
        wanted_for: "optimize: builds of Cargo targets",
        need: Need::Required,
        install: RUSTUP,
        ..USUAL
    },
    KnownTool {
        name: "cc",
        program: "cc",
        wanted_for: "optimize: linking of Cargo targets",
        need: Need::Required,
        install: Install::Packages {
            packages: Packages::new("gcc libc6-dev", Some("gcc glibc-devel"), Some("gcc")),
            otherwise: "install a C compiler under the name `cc`",
        },
        ..USUAL
    },
    KnownTool {
        name: "llvm-profdata",
        program: "llvm-profdata",
        version_args: &["--version"],
        place: ToolFolders::BesideRustc,
        wanted_for: "optimize: merging and checking of profiles",
        need: Need::Required,
        constraint: Constraint::LlvmOfRustc,
        install: Install::Component {
            command: "rustup component add llvm-tools",
            packages: Packages::new("llvm{llvm}", Some("llvm"), Some("llvm")),
            otherwise: "install the tools of the same LLVM version as rustc's",
        },
    },
    KnownTool {
        name: "clang",
        program: "clang",
        wanted_for: "optimize: C and C++ inside a Cargo target, with the same profile",
        constraint: Constraint::LlvmOfRustc,
        install: Install::Packages {
            packages: Packages::new(
                "clang{llvm} lld{llvm} libclang-rt{llvm}-dev",
                Some("clang lld compiler-rt"),
                Some("clang lld compiler-rt"),
            ),
            otherwise: "install clang, lld and compiler-rt of the same LLVM version as rustc's \
                (https://apt.llvm.org for Debian and Ubuntu)",
        },
        ..USUAL
    },
    KnownTool {
        name: "llvm-bolt",
        program: "llvm-bolt",
        wanted_for: "optimize: rewriting a linked binary by its profile (BOLT)",
        install: Install::Packages {
            packages: Packages::new("bolt{llvm}", Some("llvm-bolt"), None),
            otherwise: "build LLVM with `-DLLVM_ENABLE_PROJECTS='clang;lld;bolt'`",
        },
        ..USUAL
    },
    KnownTool {
        name: "perf",
        program: "perf",
        wanted_for: "optimize and diagnose: sampled profiles, and counters if the machine has them",
        install: Install::Packages {
            packages: Packages {
                debian: Some("linux-perf"),
                ubuntu: Some("linux-tools-common linux-tools-$(uname -r)"),
                dnf: Some("perf"),
                pacman: Some("perf"),
            },
            otherwise: "install the `perf` that belongs to the running kernel",
        },
        ..USUAL
    },
    KnownTool {
        name: "valgrind",
        program: "valgrind",
        wanted_for: "diagnose and heatmap: they read the output of its callgrind",
        install: Install::Packages {
            packages: Packages::same("valgrind"),
            otherwise: "install valgrind (https://valgrind.org)",
        },
        ..USUAL
    },
    KnownTool {
        name: "qemu-user",
        program: EMULATOR,
        wanted_for: "diagnose and optimize: an exact trace, if there are no counters",
        install: Install::Packages {
            packages: Packages::same("qemu-user"),
            otherwise: "install QEMU's user-mode emulators (https://www.qemu.org)",
        },
        ..USUAL
    },
    KnownTool {
        name: "go",
        program: "go",
        version_args: &["version"],
        wanted_for: "optimize and profile: Go targets",
        // Profile-guided optimization left its preview with Go 1.21 (release notes of Go 1.21).
        constraint: Constraint::AtLeast(1, 21),
        install: Install::Packages {
            packages: Packages {
                // Debian 12 has 1.19.
                debian: None,
                ubuntu: Some("golang-go"),
                dnf: Some("golang"),
                pacman: Some("go"),
            },
            otherwise: "install Go 1.21 or later (https://go.dev/dl)",
        },
        ..USUAL
    },
    KnownTool {
        name: "java",
        program: "java",
        wanted_for: "load and compare against Apache Kafka on this machine",
        // Brokers of Kafka 4.0 and later need Java 17 (its release notes).
        constraint: Constraint::AtLeast(17, 0),
        install: Install::Packages {
            packages: Packages::new(
                "default-jre-headless",
                Some("java-latest-openjdk-headless"),
                Some("jre-openjdk-headless"),
            ),
            otherwise: "install a Java runtime, version 17 or later",
        },
        ..USUAL
    },
    KnownTool {
        name: "kcat",
        program: "kcat",
        version_args: &["-V"],
        wanted_for: "a second client to inspect a topic; no verb needs it",
        install: Install::Packages {
            packages: Packages::new("kcat", None, None),
            otherwise: "build it (https://github.com/edenhill/kcat)",
        },
        ..USUAL
    },
];

impl KnownTool {
    /// File names to search for, best first. LLVM's tools have their major version in the name on Debian and related distributions.
    pub fn programs(&self, rustc_llvm: Option<u32>) -> Vec<String> {
        let plain = self.program.to_owned();
        let is_llvm = self.constraint == Constraint::LlvmOfRustc || self.name.starts_with("llvm-");
        match rustc_llvm.filter(|_| is_llvm) {
            Some(major) => vec![format!("{plain}-{major}"), plain],
            None => vec![plain],
        }
    }

    /// The report about this program.
    pub fn finding(&self, found: Option<ToolReceipt>, around: &Surroundings) -> ToolFinding {
        let fits = match &found {
            Some(receipt) => self.fit(&receipt.version, around.rustc_llvm),
            None if self.need == Need::Required => Fit::Missing,
            None => Fit::NotNeeded,
        };
        ToolFinding {
            name: self.name,
            wanted_for: self.wanted_for,
            need: self.need,
            found,
            fits,
            install: self.install_command(around),
        }
    }

    fn fit(&self, version: &str, rustc_llvm: Option<u32>) -> Fit {
        let number = version_number(version);
        let unreadable = || Fit::Mismatch { why: format!("its version can't be read from `{version}`") };
        match (self.constraint, number, rustc_llvm) {
            (Constraint::Any, _, _) => Fit::Fits,
            (_, None, _) => unreadable(),
            (Constraint::LlvmOfRustc, _, None) => Fit::Mismatch {
                why: "the LLVM inside rustc is not known, so the version can't be checked".to_owned(),
            },
            (Constraint::LlvmOfRustc, Some((major, _)), Some(wanted)) if major != wanted => {
                Fit::Mismatch { why: self.why_same_llvm(major, wanted) }
            }
            (Constraint::AtLeast(major, minor), Some(found), _) if found < (major, minor) => Fit::Mismatch {
                why: format!("version {}.{} is older than {major}.{minor}", found.0, found.1),
            },
            _ => Fit::Fits,
        }
    }

    /// Version 14 rejects the raw profiles of 19 and 22, and clang 19 can't read the merged profile of 22.
    fn why_same_llvm(&self, found: u32, wanted: u32) -> String {
        if self.name == "clang" {
            format!(
                "it is LLVM {found}, but rustc is LLVM {wanted}: C and C++ inside a Cargo target can't \
                 share rustc's profile and are reported as left out"
            )
        } else {
            format!(
                "it is LLVM {found}, but rustc is LLVM {wanted}: it may reject rustc's raw profiles, or \
                 write a profile that rustc can't read"
            )
        }
    }

    fn install_command(&self, around: &Surroundings) -> String {
        match self.install {
            Install::Command(command) => command.to_owned(),
            // Without any rustc, the next one will come from rustup.
            Install::Component { command, .. } if around.rustup || around.rustc_llvm.is_none() => {
                command.to_owned()
            }
            Install::Component { packages, otherwise, .. } | Install::Packages { packages, otherwise } => {
                packages_command(packages, otherwise, around)
            }
        }
    }
}

fn packages_command(packages: Packages, otherwise: &str, around: &Surroundings) -> String {
    let (start, names) = match around.manager {
        PackageManager::AptDebian => (APT_INSTALL, packages.debian),
        PackageManager::AptUbuntu => (APT_INSTALL, packages.ubuntu),
        PackageManager::Dnf => ("dnf install -y", packages.dnf),
        PackageManager::Pacman => ("pacman -S --needed --noconfirm", packages.pacman),
        PackageManager::Unknown => ("", None),
    };
    let Some(names) = names else { return otherwise.to_owned() };
    let llvm = around.rustc_llvm.map(|major| format!("-{major}")).unwrap_or_default();
    let sudo = if around.as_root { "" } else { "sudo " };
    // A distribution has a few major versions of LLVM, and rustc's is often newer than all of them.
    let elsewhere = if start == APT_INSTALL && names.contains("{llvm}") && !llvm.is_empty() {
        "  # if the distribution lacks them: https://apt.llvm.org"
    } else {
        ""
    };
    format!("{sudo}{start} {}{elsewhere}", names.replace("{llvm}", &llvm))
}

const APT_INSTALL: &str = "apt-get install -y --no-install-recommends";

/// Facts besides the program itself that decide about version and installation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Surroundings {
    /// Major version of the LLVM inside rustc, see [`rustc_llvm_major`]; `None` without a rustc.
    pub rustc_llvm: Option<u32>,
    /// Installation of packages here, see [`crate::observe::package_manager`].
    pub manager: PackageManager,
    /// Whether rustc came from rustup, which then installs its parts.
    pub rustup: bool,
    /// Whether the user is root, so that commands need no `sudo`.
    pub as_root: bool,
}

/// Package manager of a distribution.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum PackageManager {
    /// apt with Debian's package names.
    AptDebian,
    /// apt with Ubuntu's package names.
    AptUbuntu,
    /// Fedora, RHEL and related distributions.
    Dnf,
    /// Arch and related distributions.
    Pacman,
    /// Any other.
    Unknown,
}

impl PackageManager {
    /// Chosen by the fields `ID` and `ID_LIKE` of `/etc/os-release`. The distribution's own name has priority over related names.
    pub fn of_distribution(id: &str, id_like: &str) -> Self {
        std::iter::once(id).chain(id_like.split_whitespace()).find_map(Self::of_word).unwrap_or(Self::Unknown)
    }

    fn of_word(word: &str) -> Option<Self> {
        match word {
            "debian" | "raspbian" => Some(Self::AptDebian),
            "ubuntu" => Some(Self::AptUbuntu),
            "fedora" | "rhel" | "centos" | "rocky" | "almalinux" | "amzn" => Some(Self::Dnf),
            "arch" | "archlinux" | "manjaro" => Some(Self::Pacman),
            _ => None,
        }
    }
}

/// Whether a program can be used.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Fit {
    /// The program exists, in an accepted version.
    Fits,
    /// The program exists, but its version does not work, or may not.
    Mismatch {
        /// The reason, in words.
        why: String,
    },
    /// The program is missing, and a verb can't do its main work without it.
    Missing,
    /// The program is missing, but only some targets or some evidence need it.
    NotNeeded,
}

/// Result of the search for a program.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ToolFinding {
    /// Its plain name.
    pub name: &'static str,
    /// The verbs that use it, and the purpose.
    pub wanted_for: &'static str,
    /// Its importance.
    pub need: Need,
    /// Path and version, if it exists.
    pub found: Option<ToolReceipt>,
    /// Whether it can be used.
    pub fits: Fit,
    /// The command that installs it, or advice if no command is known.
    pub install: String,
}

/// The line of a version output with the version, trimmed: the first one with a number such as `22.1`, otherwise the first non-empty line.
/// The first lines of LLVM's tools and kcat describe the programs.
pub fn version_line(output: &str) -> &str {
    let mut lines = output.lines().map(str::trim).filter(|line| !line.is_empty());
    let first = lines.clone().next().unwrap_or("");
    lines.find(|line| version_number(line).is_some()).unwrap_or(first)
}

/// The first number of the form `major.minor` in a text.
pub fn version_number(text: &str) -> Option<(u32, u32)> {
    text.split(|c: char| !c.is_ascii_digit() && c != '.').find_map(|word| {
        let mut parts = word.split('.');
        Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
    })
}

/// Major version of the LLVM inside rustc, from the output of `rustc --version --verbose`.
pub fn rustc_llvm_major(verbose_version: &str) -> Option<u32> {
    let version = verbose_version.lines().find_map(|line| line.trim().strip_prefix("LLVM version:"))?;
    version_number(version).map(|(major, _)| major)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn known(name: &str) -> KnownTool {
        KNOWN_TOOLS.into_iter().find(|tool| tool.name == name).unwrap()
    }

    fn around(manager: PackageManager) -> Surroundings {
        Surroundings { rustc_llvm: Some(22), manager, rustup: true, as_root: false }
    }

    fn finding(name: &str, version: &str) -> ToolFinding {
        let receipt = ToolReceipt { name: name.into(), path: "/bin/x".into(), version: version.into() };
        known(name).finding(Some(receipt), &around(PackageManager::AptDebian))
    }

    #[test]
    fn the_line_with_the_version_is_found_in_real_outputs() {
        let check = |output: &str, line: &str, number: Option<(u32, u32)>| {
            assert_eq!(version_line(output), line);
            assert_eq!(version_number(line), number);
        };
        check(
            "LLVM (http://llvm.org/):\n  LLVM version 22.1.2-rust-1.95.0-stable\n  Optimized build.\n",
            "LLVM version 22.1.2-rust-1.95.0-stable",
            Some((22, 1)),
        );
        check(
            "Debian clang version 22.1.8 (1~deb12u1)\nTarget: x86_64-pc-linux-gnu\n",
            "Debian clang version 22.1.8 (1~deb12u1)",
            Some((22, 1)),
        );
        check("go version go1.26.8 linux/amd64\n", "go version go1.26.8 linux/amd64", Some((1, 26)));
        check("valgrind-3.19.0\n", "valgrind-3.19.0", Some((3, 19)));
        check("perf version 6.1.187\n", "perf version 6.1.187", Some((6, 1)));
        check("openjdk 17.0.15 2025-04-15\nOpenJDK R\n", "openjdk 17.0.15 2025-04-15", Some((17, 0)));
        check(
            "kcat - Apache Kafka producer and consumer tool\nhttps://github.com/edenhill/kcat\n\
             Copyright (c) 2014-2021, Magnus Edenhill\nVersion 1.7.1 (JSON, librdkafka 2.0.2)\n",
            "Version 1.7.1 (JSON, librdkafka 2.0.2)",
            Some((1, 7)),
        );
        check("no number\nat all\n", "no number", None);
        check("", "", None);
    }

    #[test]
    fn rustc_names_its_llvm() {
        let verbose =
            "rustc 1.95.0 (59807616e 2026-04-14)\nbinary: rustc\nrelease: 1.95.0\nLLVM version: 22.1.2\n";
        assert_eq!(rustc_llvm_major(verbose), Some(22));
        assert_eq!(rustc_llvm_major("rustc 1.95.0\n"), None);
    }

    #[test]
    fn versions_fit_or_say_why_not() {
        let why = |name: &str, version: &str| match finding(name, version).fits {
            Fit::Fits => String::new(),
            Fit::Mismatch { why } => why,
            other => panic!("{other:?}"),
        };
        assert_eq!(why("llvm-profdata", "LLVM version 22.1.2-rust-1.95.0-stable"), "");
        assert!(
            why("llvm-profdata", "Debian LLVM version 14.0.6")
                .starts_with("it is LLVM 14, but rustc is LLVM 22")
        );
        assert!(why("clang", "Debian clang version 19.1.7").contains("reported as left out"));
        assert_eq!(why("clang", "Debian clang version 22.1.8"), "");
        assert!(why("llvm-profdata", "LLVM (http://llvm.org/):").contains("can't be read"));
        assert_eq!(why("go", "go version go1.26.8 linux/amd64"), "");
        assert_eq!(why("go", "go version go1.19.8 linux/amd64"), "version 1.19 is older than 1.21");
        assert_eq!(why("kcat", "whatever"), "");
        let no_rustc = Surroundings { rustc_llvm: None, ..around(PackageManager::Unknown) };
        let receipt = ToolReceipt { name: "clang".into(), path: "/c".into(), version: "clang 22.1".into() };
        assert!(matches!(known("clang").finding(Some(receipt), &no_rustc).fits, Fit::Mismatch { .. }));
    }

    #[test]
    fn what_is_not_there_is_missing_only_when_required() {
        assert_eq!(known("cargo").finding(None, &around(PackageManager::Dnf)).fits, Fit::Missing);
        assert_eq!(known("perf").finding(None, &around(PackageManager::Dnf)).fits, Fit::NotNeeded);
    }

    #[test]
    fn the_command_is_the_distributions_own() {
        let command = |name: &str, around: Surroundings| known(name).finding(None, &around).install;
        let check = |name: &str, manager: PackageManager, expected: &str| {
            assert_eq!(command(name, around(manager)), expected);
        };
        let elsewhere = "  # if the distribution lacks them: https://apt.llvm.org";
        let apt = "sudo apt-get install -y --no-install-recommends";
        check("perf", PackageManager::AptDebian, &format!("{apt} linux-perf"));
        check(
            "perf",
            PackageManager::AptUbuntu,
            &format!("{apt} linux-tools-common linux-tools-$(uname -r)"),
        );
        check(
            "clang",
            PackageManager::AptDebian,
            &format!("{apt} clang-22 lld-22 libclang-rt-22-dev{elsewhere}"),
        );
        check("llvm-bolt", PackageManager::AptDebian, &format!("{apt} bolt-22{elsewhere}"));
        check("valgrind", PackageManager::Dnf, "sudo dnf install -y valgrind");
        check("go", PackageManager::Pacman, "sudo pacman -S --needed --noconfirm go");
        check("llvm-profdata", PackageManager::AptDebian, "rustup component add llvm-tools");
        check("go", PackageManager::AptDebian, "install Go 1.21 or later (https://go.dev/dl)");
        let packaged = Surroundings { rustup: false, ..around(PackageManager::AptUbuntu) };
        assert_eq!(command("llvm-profdata", packaged), format!("{apt} llvm-22{elsewhere}"));
        check("kcat", PackageManager::Dnf, "build it (https://github.com/edenhill/kcat)");
        check("valgrind", PackageManager::Unknown, "install valgrind (https://valgrind.org)");
        let bare = Surroundings {
            rustc_llvm: None,
            manager: PackageManager::AptDebian,
            rustup: false,
            as_root: true,
        };
        assert_eq!(command("llvm-profdata", bare), "rustup component add llvm-tools");
        assert_eq!(
            command("clang", bare),
            "apt-get install -y --no-install-recommends clang lld libclang-rt-dev"
        );
    }

    #[test]
    fn programs_of_llvm_are_looked_for_with_their_major_version_first() {
        assert_eq!(known("clang").programs(Some(22)), ["clang-22", "clang"]);
        assert_eq!(known("llvm-bolt").programs(Some(22)), ["llvm-bolt-22", "llvm-bolt"]);
        assert_eq!(known("clang").programs(None), ["clang"]);
        assert_eq!(known("go").programs(Some(22)), ["go"]);
    }

    #[test]
    fn distributions_and_their_kin() {
        let check = |id: &str, like: &str, expected: PackageManager| {
            assert_eq!(PackageManager::of_distribution(id, like), expected, "{id} {like}");
        };
        check("debian", "", PackageManager::AptDebian);
        check("ubuntu", "debian", PackageManager::AptUbuntu);
        check("linuxmint", "ubuntu debian", PackageManager::AptUbuntu);
        check("rocky", "rhel centos fedora", PackageManager::Dnf);
        check("endeavouros", "arch", PackageManager::Pacman);
        check("nixos", "", PackageManager::Unknown);
        check("", "", PackageManager::Unknown);
    }

    #[test]
    fn names_are_unique() {
        for (index, tool) in KNOWN_TOOLS.iter().enumerate() {
            assert!(KNOWN_TOOLS.iter().skip(index + 1).all(|other| other.name != tool.name), "{}", tool.name);
        }
    }

    proptest! {
        #[test]
        fn no_output_makes_a_parser_panic(output in "\\PC*|[0-9. a-z\n]*") {
            let _ = (version_number(version_line(&output)), rustc_llvm_major(&output));
        }
    }
}
