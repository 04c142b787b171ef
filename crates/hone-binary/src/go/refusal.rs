//! Reasons why Hone stops with a Go profile or build, although `go` would continue.

use std::path::PathBuf;

/// A profile or a build that must not be used.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum GoRefusal {
    /// The file is not there.
    #[error("the profile {} does not exist\n  next: take one from the service's \
        /debug/pprof/profile?seconds=30", file.display())]
    Missing {
        /// Where it should be.
        file: PathBuf,
    },
    /// The file is empty, or not a complete profile. `go build` does not report an empty one.
    #[error(
        "{} is not a pprof profile: {reason}\n  next: look into the file (it may be a server's error page), \
         and take the profile again",
        file.display()
    )]
    NotAProfile {
        /// The file.
        file: PathBuf,
        /// The fault.
        reason: String,
    },
    /// It has no samples, or only samples of value 0. `go build` accepts it silently.
    #[error(
        "the profile {} has no samples: nothing ran while it was taken\n  next: load the service during the whole of \
         the window", file.display()
    )]
    Hollow {
        /// The file.
        file: PathBuf,
    },
    /// It is a profile of something other than CPU.
    #[error(
        "the profile {} counts {kinds}, but the compiler needs samples or cpu\n  next: take \
         /debug/pprof/profile, not heap or allocs", file.display()
    )]
    NotCpu {
        /// The file.
        file: PathBuf,
        /// Its quantities.
        kinds: String,
    },
    /// The functions' first lines are missing, and with them the places of all calls.
    #[error(
        "the profile {} lacks the start lines of functions ({percent:.0} % of its weight), so the compiler \
         can't find the hot calls\n  next: take it with runtime/pprof of Go 1.20 or newer, or with a \
         converter that keeps Function.start_line", file.display()
    )]
    NoStartLines {
        /// The file.
        file: PathBuf,
        /// Weight of functions without a first line, in per cent of all.
        percent: f64,
    },
    /// Next to nothing of the profile is in the program: it belongs to another program, or to a much older state of it.
    #[error(
        "the profile {} does not fit {}: {lost_percent:.1} % of the weight of its calls is in functions \
         that the program does not have ({})\n  next: take the profile from this program; `go build` would \
         use the rest without a warning",
        file.display(), binary.display(), lost.join(", ")
    )]
    OtherProgram {
        /// The profile.
        file: PathBuf,
        /// The program.
        binary: PathBuf,
        /// Lost weight in per cent.
        lost_percent: f64,
        /// The heaviest missing functions.
        lost: Vec<String>,
    },
    /// The profile contains nothing of the program's own packages and their dependencies.
    #[error(
        "the profile {} contains only calls of Go's own library: the load did not reach the program's \
         code\n  next: check address and success of the training load", file.display()
    )]
    NothingOwn {
        /// The profile.
        file: PathBuf,
    },
    /// The program's build settings name no profile, or another one.
    #[error(
        "{} was not built with the profile {}: its build settings have {}\n  next: check `go version -m`, \
         and look for -pgo in GOFLAGS and in the target's own flags", binary.display(), wanted.display(),
         found.as_deref().unwrap_or("no -pgo")
    )]
    NotInBuild {
        /// The program.
        binary: PathBuf,
        /// The profile that it should have.
        wanted: PathBuf,
        /// Its settings.
        found: Option<String>,
    },
    /// A build that should have no profile has one.
    #[error(
        "{} was built with the profile {found}, but should have none\n  next: look for -pgo in GOFLAGS", binary.display()
    )]
    ProfileInBaseline {
        /// The program.
        binary: PathBuf,
        /// The profile.
        found: String,
    },
    /// A `default.pgo` is at a place where Go ignores it.
    #[error(
        "Go never uses {}: it takes default.pgo only from the main package's folder, and ignores others \
         without a warning\n  next: move it to {}", list(found), wanted.display()
    )]
    Misplaced {
        /// Their paths.
        found: Vec<PathBuf>,
        /// The right path.
        wanted: PathBuf,
    },
}

fn list(paths: &[PathBuf]) -> String {
    paths.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(", ")
}
