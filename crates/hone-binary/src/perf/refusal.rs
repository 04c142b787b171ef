//! Reasons for which this machine gives no samples, or none that may be used.

use std::path::PathBuf;

/// Fewer samples than this say nothing of which code is hot.
pub const FEWEST_SAMPLES: u64 = 100;

/// A wish that this machine does not grant. It is inside of [`crate::Refusal::Perf`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PerfRefusal {
    /// No branch records.
    #[error(
        "this machine gives no branch records: {said}\n  next: take the profile on a machine whose PMU has them (Intel's LBR, AMD \
         from Zen 4 on; most virtual machines pass none of them on; where perf speaks of rights, set kernel.perf_event_paranoid to \
         2 or less), or say profile = \"instrumented\" (exact, while the training \
         is slow) or profile = \"samples\" (plain ones, for BOLT alone)"
    )]
    NoBranches {
        /// perf's words, or what was missing in its data.
        said: String,
    },
    /// Not even the clock.
    #[error(
        "perf can't sample here: {said}\n  next: set kernel.perf_event_paranoid to 2 or less (a container needs CAP_PERFMON, and a \
         seccomp profile that lets perf_event_open through), or say profile = \"instrumented\""
    )]
    NoSamples {
        /// perf's words, or what was missing in its data.
        said: String,
    },
    /// The machine can, and perf did not go through with it.
    #[error(
        "perf did not hold out: {said}\n  next: look for room where {} is written and at the limit of open files (`ulimit -n`: perf \
         opens one for each thread and CPU), and train again", data.display()
    )]
    Broke {
        /// Where it writes.
        data: PathBuf,
        /// perf's words, or what it did.
        said: String,
    },
    /// The load hardly ran in the program.
    #[error(
        "{} holds {samples} samples of the program: fewer than {FEWEST_SAMPLES} say nothing of what is hot\n  next: train longer \
         (duration_s, operations), or look whether the load reaches the program", data.display()
    )]
    Thin {
        /// What perf wrote.
        data: PathBuf,
        /// Samples in it.
        samples: u64,
    },
}
