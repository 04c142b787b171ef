//! Reasons why this machine gives no samples, or no usable ones.

use std::path::PathBuf;

/// Fewer samples do not show which code is hot.
pub const FEWEST_SAMPLES: u64 = 100;

/// A request that this machine can't fulfil. It is inside of [`crate::Refusal::Perf`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PerfRefusal {
    /// No branch records.
    #[error(
        "this machine has no branch records: {said}\n  next: take the profile on a machine whose PMU has \
         them (Intel's LBR, AMD from Zen 4 on; most virtual machines hide them; if perf reports missing \
         permissions, set kernel.perf_event_paranoid to 2 or less), or set profile = \"instrumented\" \
         (exact, but the training is slow) or profile = \"samples\" (plain samples, only for BOLT)"
    )]
    NoBranches {
        /// perf's message, or the missing part of its data.
        said: String,
    },
    /// Not even the clock.
    #[error(
        "perf can't sample here: {said}\n  next: set kernel.perf_event_paranoid to 2 or less (a container \
         needs CAP_PERFMON, and a seccomp profile that allows perf_event_open), or set profile = \
         \"instrumented\""
    )]
    NoSamples {
        /// perf's message, or the missing part of its data.
        said: String,
    },
    /// The machine supports it, but perf failed.
    #[error(
        "perf ended too early: {said}\n  next: check the free space for {} and the limit of open files \
         (`ulimit -n`: perf opens one for each thread and CPU), and train again", data.display()
    )]
    Broke {
        /// perf's output.
        data: PathBuf,
        /// perf's message, or its failure.
        said: String,
    },
    /// The load hardly ran in the program.
    #[error(
        "{} contains {samples} samples of the program: fewer than {FEWEST_SAMPLES} do not show which code \
         is hot\n  next: train longer (duration_s, operations), or check that the load reaches the program", data.display()
    )]
    Thin {
        /// perf's output.
        data: PathBuf,
        /// Samples in it.
        samples: u64,
    },
}
