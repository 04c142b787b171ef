//! Reasons for which Hone does not go on with a Go profile or build, although `go` would.

use std::path::PathBuf;

/// A profile or a build that must not be used.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum GoRefusal {
    /// The file is not there.
    #[error("there is no profile {}\n  next: take one from the service's /debug/pprof/profile?seconds=30", file.display())]
    Missing {
        /// Where it should be.
        file: PathBuf,
    },
    /// The file is empty, or no whole profile. Of an empty one `go build` says nothing.
    #[error(
        "{} is no pprof profile: {reason}\n  next: look into the file (a server's error page?), and take the profile again",
        file.display()
    )]
    NotAProfile {
        /// The file.
        file: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// There are no samples in it, or only such of value 0. `go build` takes it and says nothing.
    #[error(
        "the profile {} has no samples: nothing ran while it was taken\n  next: load the service during the whole of \
         the window", file.display()
    )]
    Hollow {
        /// The file.
        file: PathBuf,
    },
    /// It is a profile of something else than CPU.
    #[error(
        "the profile {} counts {kinds}, and the compiler needs samples or cpu\n  next: take /debug/pprof/profile, not \
         heap or allocs", file.display()
    )]
    NotCpu {
        /// The file.
        file: PathBuf,
        /// What it counts.
        kinds: String,
    },
    /// The functions' first lines are missing, and with them the places of all calls.
    #[error(
        "the profile {} does not say where functions begin ({percent:.0} % of its weight): the compiler can't tell \
         which call is hot\n  next: take it with runtime/pprof of Go 1.20 or newer, or with a converter that keeps \
         Function.start_line", file.display()
    )]
    NoStartLines {
        /// The file.
        file: PathBuf,
        /// Weight of functions without a first line, in per cent of all.
        percent: f64,
    },
    /// Next to nothing of the profile is in the program: it is of another program, or of a much older state of it.
    #[error(
        "the profile {} does not fit {}: {lost_percent:.1} % of the weight of its calls is of functions that the \
         program does not have ({})\n  next: take the profile from this program; `go build` would use the rest in silence",
        file.display(), binary.display(), lost.join(", ")
    )]
    OtherProgram {
        /// The profile.
        file: PathBuf,
        /// The program.
        binary: PathBuf,
        /// Lost weight in per cent.
        lost_percent: f64,
        /// The heaviest functions that are not there.
        lost: Vec<String>,
    },
    /// The profile holds nothing of the program's own packages and their dependencies.
    #[error(
        "the profile {} holds calls of Go's own library only: the load did not reach the program's code\n  next: check \
         address and success of the training load", file.display()
    )]
    NothingOwn {
        /// The profile.
        file: PathBuf,
    },
    /// The program's build settings name no profile, or another one.
    #[error(
        "{} was not built with the profile {}: its build settings have {}\n  next: look at `go version -m`, and for -pgo \
         in GOFLAGS and in the target's own flags", binary.display(), wanted.display(),
         found.as_deref().unwrap_or("no -pgo")
    )]
    NotInBuild {
        /// The program.
        binary: PathBuf,
        /// The profile that it should have.
        wanted: PathBuf,
        /// What its settings say.
        found: Option<String>,
    },
    /// A build that should have no profile has one.
    #[error(
        "{} was built with the profile {found}, and should have none\n  next: look for -pgo in GOFLAGS", binary.display()
    )]
    ProfileInBaseline {
        /// The program.
        binary: PathBuf,
        /// The profile.
        found: String,
    },
    /// A `default.pgo` lies where Go does not look for it.
    #[error(
        "{} is never used: Go takes default.pgo from the main package's folder only, and says nothing about others\n  \
         next: move it to {}", list(found), wanted.display()
    )]
    Misplaced {
        /// Where they lie.
        found: Vec<PathBuf>,
        /// Where one should lie.
        wanted: PathBuf,
    },
}

fn list(paths: &[PathBuf]) -> String {
    paths.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(", ")
}
