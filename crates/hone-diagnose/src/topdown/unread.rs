//! Reasons why a text gives no top-down value.

use hone_record::Category;

/// Output without a top-down value.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Unread {
    /// There is no PMU.
    #[error(
        "this was measured without counters: {said}\n  next: measure on a machine whose PMU perf can use \
         (`hone doctor` shows whether this machine has one)"
    )]
    NoCounters {
        /// The message that shows it.
        said: String,
    },
    /// perf knows no such metric.
    #[error("perf knows no top-down metric for this CPU: {said}\n  next: use a newer perf")]
    NoMetric {
        /// perf's message.
        said: String,
    },
    /// perf has no permission.
    #[error(
        "perf has no permission to count: {said}\n  next: set kernel.perf_event_paranoid to 2 or less, or \
         run perf as root (a container needs CAP_PERFMON)"
    )]
    NoRights {
        /// perf's message.
        said: String,
    },
    /// Older CPUs can count slots of whole cores only.
    #[error(
        "on this CPU perf can count slots of whole cores only: {said}\n  next: run `perf stat --topdown -a` \
         as root while little else runs, or `perf stat -M TopdownL1`"
    )]
    Wide {
        /// perf's message.
        said: String,
    },
    /// The program was idle.
    #[error(
        "the program was idle while perf counted: {said}\n  next: load the program during the measurement"
    )]
    NotCounted {
        /// perf's message.
        said: String,
    },
    /// The locale, or something else, broke the format.
    #[error("line {line} can't be read: {said}\n  next: run perf with LC_ALL=C")]
    Broken {
        /// Line number from 1.
        line: usize,
        /// The problem in the line.
        said: String,
    },
    /// The text has names without matching values.
    #[error(
        "line {line} has names of top-down metrics, but no values in known columns: {said}\n  next: use \
         `perf stat -j`, whose values carry their names"
    )]
    NoValues {
        /// Line number from 1.
        line: usize,
        /// The line.
        said: String,
    },
    /// The text has a value with its name in an unknown form.
    #[error(
        "line {line} has {of} with {percent} %, in an unknown form: {said}\n  next: use the unchanged \
         output of `perf stat -j`, toplev or topdown-tool; or write a line of the names (frontend bound, bad \
         speculation, retiring, backend bound), and their values below them"
    )]
    UnknownForm {
        /// Line number from 1.
        line: usize,
        /// The category in the line.
        of: Category,
        /// The value as printed.
        percent: String,
        /// The line.
        said: String,
    },
    /// The text has counts of slots, without shares.
    #[error(
        "this has counts of slots, but no shares: {said}\n  next: use `perf stat -M TopdownL1` or `perf stat \
         --topdown`, which print shares"
    )]
    Counts {
        /// The first line of them.
        said: String,
    },
    /// Arm's topdown-tool printed other metrics than the slots.
    #[error(
        "this is stage 2 of topdown-tool, which has no slots: {said}\n  next: run `topdown-tool -m \
         Topdown_L1` with the same command"
    )]
    StageTwo {
        /// The line that shows it.
        said: String,
    },
    /// There is another reason.
    #[error(
        "it has no top-down value\n  next: use `perf stat --topdown`, `perf stat -M TopdownL1` (Intel, Arm) \
         or `perf stat -M PipelineL1` (AMD), each also with -j or -x';', or toplev; on a machine without \
         slots, use `perf stat -e instructions,L1-icache-load-misses,iTLB-load-misses`"
    )]
    Nothing,
}

impl Unread {
    /// The problem without the advice.
    pub(super) fn what(&self) -> String {
        self.to_string().lines().next().unwrap_or_default().to_owned()
    }
}
