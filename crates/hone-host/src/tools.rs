//! The programs that Hone can use: what each is for, how it tells its version, which version fits, how it is installed.
//! Pure: whoever starts programs brings what was found.

use hone_record::ToolReceipt;
use serde::Serialize;

/// How badly a program is wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Need {
    /// A verb can't do its main job without it.
    Required,
    /// Some targets or some evidence need it.
    Optional,
}

/// Where to look for a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum ToolFolders {
    /// In the folders of `PATH`.
    Path,
    /// In the folder `bin` beside the one that `rustc --print target-libdir` names, and in `PATH` only after that:
    /// the first one in `PATH` is often too old to read what rustc wrote.
    BesideRustc,
}

/// Which version of a program fits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Constraint {
    /// Every version.
    Any,
    /// The major version of the LLVM inside rustc: raw profiles and indexed profiles change with it.
    LlvmOfRustc,
    /// This major and minor version or a later one.
    AtLeast(u32, u32),
}

/// Packages of the distributions, blank-separated. `{llvm}` stands for `-22` or the like, or for nothing when rustc's
/// LLVM is not known. `None` where the distribution is not known to have one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Packages {
    /// Debian.
    pub debian: Option<&'static str>,
    /// Ubuntu.
    pub ubuntu: Option<&'static str>,
    /// Fedora, RHEL and their kin.
    pub dnf: Option<&'static str>,
    /// Arch and its kin.
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

/// How a program gets onto the machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Install {
    /// By the distribution's package manager; `otherwise` says what to do where it has no package.
    Packages {
        /// The packages.
        packages: Packages,
        /// For every other system.
        otherwise: &'static str,
    },
    /// By one command, the same everywhere.
    Command(&'static str),
    /// A part of the Rust toolchain: by a command of rustup where rustc came from it, else by packages.
    Component {
        /// The command of rustup.
        command: &'static str,
        /// Where rustc is the distribution's.
        packages: Packages,
        /// For every other system.
        otherwise: &'static str,
    },
}

/// A program that Hone can use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KnownTool {
    /// Its plain name, as it stands in receipts.
    pub name: &'static str,
    /// Its file name. Tools of LLVM are also looked for with the major version behind it, see [`KnownTool::programs`].
    pub program: &'static str,
    /// What makes it print its version and exit.
    pub version_args: &'static [&'static str],
    /// Where to look for it.
    pub place: ToolFolders,
    /// Which verbs want it, and for what.
    pub wanted_for: &'static str,
    /// How badly.
    pub need: Need,
    /// Which version fits.
    pub constraint: Constraint,
    /// How it is installed.
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

/// What most of them have in common.
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

/// Every program that Hone can use, in the order in which a report shows them.
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
        wanted_for: "optimize: merging and proving of profiles",
        need: Need::Required,
        constraint: Constraint::LlvmOfRustc,
        install: Install::Component {
            command: "rustup component add llvm-tools",
            packages: Packages::new("llvm{llvm}", Some("llvm"), Some("llvm")),
            otherwise: "install the tools of the same LLVM as rustc's",
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
            otherwise: "install clang, lld and compiler-rt of the same LLVM as rustc's (https://apt.llvm.org for Debian and Ubuntu)",
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
        wanted_for: "optimize and diagnose: sampled profiles, and counters where the machine has them",
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
        wanted_for: "diagnose and heatmap: they read what its callgrind writes",
        install: Install::Packages {
            packages: Packages::same("valgrind"),
            otherwise: "install valgrind (https://valgrind.org)",
        },
        ..USUAL
    },
    KnownTool {
        name: "qemu-user",
        program: EMULATOR,
        wanted_for: "diagnose and optimize: an exact trace, where there are no counters",
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
        // Profile-guided optimisation left its preview with Go 1.21 (release notes of Go 1.21).
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
        wanted_for: "a second client to look into a topic with; no verb needs it",
        install: Install::Packages {
            packages: Packages::new("kcat", None, None),
            otherwise: "build it (https://github.com/edenhill/kcat)",
        },
        ..USUAL
    },
];

impl KnownTool {
    /// File names to look for, best first. Tools of LLVM carry their major version on Debian and its kin.
    pub fn programs(&self, rustc_llvm: Option<u32>) -> Vec<String> {
        let plain = self.program.to_owned();
        let is_llvm = self.constraint == Constraint::LlvmOfRustc || self.name.starts_with("llvm-");
        match rustc_llvm.filter(|_| is_llvm) {
            Some(major) => vec![format!("{plain}-{major}"), plain],
            None => vec![plain],
        }
    }

    /// What is to be said about this program.
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
            (Constraint::LlvmOfRustc, _, None) => {
                Fit::Mismatch { why: "the LLVM inside rustc is not known, so nothing can be said".to_owned() }
            }
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
                "it is LLVM {found}, rustc is LLVM {wanted}: C and C++ inside a Cargo target can't share \
                 rustc's profile and are named as left out"
            )
        } else {
            format!(
                "it is LLVM {found}, rustc is LLVM {wanted}: it may reject rustc's raw profiles, or write a \
                 profile that rustc can't read"
            )
        }
    }

    fn install_command(&self, around: &Surroundings) -> String {
        match self.install {
            Install::Command(command) => command.to_owned(),
            // Without any rustc the next one will come from rustup.
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
    // A distribution holds a few majors of LLVM, and rustc's is often newer than all of them.
    let elsewhere = if start == APT_INSTALL && names.contains("{llvm}") && !llvm.is_empty() {
        "  # where the distribution lacks them: https://apt.llvm.org"
    } else {
        ""
    };
    format!("{sudo}{start} {}{elsewhere}", names.replace("{llvm}", &llvm))
}

const APT_INSTALL: &str = "apt-get install -y --no-install-recommends";

/// What decides about fit and installation beside the program itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Surroundings {
    /// Major version of the LLVM inside rustc, see [`rustc_llvm_major`]; `None` without a rustc.
    pub rustc_llvm: Option<u32>,
    /// How packages are installed here, see [`crate::observe::package_manager`].
    pub manager: PackageManager,
    /// Whether rustc came from rustup, which then installs its parts.
    pub rustup: bool,
    /// Whether the user is root, so that commands need no `sudo`.
    pub as_root: bool,
}

/// How a distribution installs packages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum PackageManager {
    /// apt with Debian's package names.
    AptDebian,
    /// apt with Ubuntu's package names.
    AptUbuntu,
    /// Fedora, RHEL and their kin.
    Dnf,
    /// Arch and its kin.
    Pacman,
    /// Any other.
    Unknown,
}

impl PackageManager {
    /// By the fields `ID` and `ID_LIKE` of `/etc/os-release`. The distribution's own name goes before its relatives'.
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
    /// There, and of a version that works.
    Fits,
    /// There, and of a version that does not work, or may not.
    Mismatch {
        /// In words.
        why: String,
    },
    /// Not there, and a verb can't do its main job without it.
    Missing,
    /// Not there, and only some targets or some evidence would need it.
    NotNeeded,
}

/// A program that was looked for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ToolFinding {
    /// Its plain name.
    pub name: &'static str,
    /// Which verbs want it, and for what.
    pub wanted_for: &'static str,
    /// How badly.
    pub need: Need,
    /// Path and version, when it is there.
    pub found: Option<ToolReceipt>,
    /// Whether it can be used.
    pub fits: Fit,
    /// The command that installs it, or what to do where none is known.
    pub install: String,
}

/// The line of a version output that holds the version, without blanks around it: the first one with a number such as
/// `22.1`, else the first line that is not empty. LLVM's tools and kcat begin with lines about themselves.
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
            why("llvm-profdata", "Debian LLVM version 14.0.6").starts_with("it is LLVM 14, rustc is LLVM 22")
        );
        assert!(why("clang", "Debian clang version 19.1.7").contains("named as left out"));
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
        let elsewhere = "  # where the distribution lacks them: https://apt.llvm.org";
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
