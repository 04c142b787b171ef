//! Why a text gives no top-down value.

use hone_record::Category;

/// Output that has no top-down value.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Unread {
    /// There is no PMU.
    #[error(
        "this was measured without counters: {said}\n  next: measure on a machine whose PMU perf can use (hone doctor tells whether this \
         one has one)"
    )]
    NoCounters {
        /// The words that say so.
        said: String,
    },
    /// perf knows no such metric.
    #[error("perf knows no top-down metric of this CPU: {said}\n  next: take a newer perf")]
    NoMetric {
        /// perf's words.
        said: String,
    },
    /// perf was not let.
    #[error(
        "perf was not let count: {said}\n  next: set kernel.perf_event_paranoid to 2 or less, or run perf as root (a container needs \
         CAP_PERFMON)"
    )]
    NoRights {
        /// perf's words.
        said: String,
    },
    /// Older CPUs count slots of whole cores only.
    #[error(
        "perf counts slots of whole cores only on this CPU: {said}\n  next: perf stat --topdown -a as root, while little else runs, \
         or perf stat -M TopdownL1"
    )]
    Wide {
        /// perf's words.
        said: String,
    },
    /// The program idled.
    #[error("nothing ran while perf counted: {said}\n  next: load the program meanwhile")]
    NotCounted {
        /// perf's words.
        said: String,
    },
    /// Broken by the locale, or by something else.
    #[error("line {line} can't be read: {said}\n  next: run perf with LC_ALL=C")]
    Broken {
        /// Counted from 1.
        line: usize,
        /// What is wrong there.
        said: String,
    },
    /// Names, and no value that belongs to one of them.
    #[error(
        "line {line} has names of top-down metrics, but no values in the columns that Hone knows: {said}\n  next: perf stat -j, whose values \
         carry their names"
    )]
    NoValues {
        /// Counted from 1.
        line: usize,
        /// What stands there.
        said: String,
    },
    /// A value with its name, in no shape of a tool that Hone knows.
    #[error(
        "line {line} names {of} with {percent} %, in a form that Hone does not know: {said}\n  next: give it the output of perf stat -j, \
         toplev or topdown-tool as it is; or a line of the names (frontend bound, bad speculation, retiring, backend bound), and their \
         values below them"
    )]
    UnknownForm {
        /// Counted from 1.
        line: usize,
        /// What the line names.
        of: Category,
        /// As it stands there.
        percent: String,
        /// The line.
        said: String,
    },
    /// Counts of slots, which perf gave no shares of.
    #[error(
        "this has counts of slots, and no shares of them: {said}\n  next: perf stat -M TopdownL1, or perf stat --topdown, which print shares"
    )]
    Counts {
        /// The first line of them.
        said: String,
    },
    /// Arm's topdown-tool printed other metrics than the slots.
    #[error(
        "this is stage 2 of topdown-tool, which has no slots: {said}\n  next: topdown-tool -m Topdown_L1, and the command as before"
    )]
    StageTwo {
        /// The line that says so.
        said: String,
    },
    /// Something else.
    #[error(
        "there is no top-down value in it\n  next: perf stat --topdown, perf stat -M TopdownL1 (Intel, Arm) or -M PipelineL1 \
         (AMD), each also with -j or -x';', or toplev; where the machine has no slots, perf stat -e \
         instructions,L1-icache-load-misses,iTLB-load-misses"
    )]
    Nothing,
}

impl Unread {
    /// What is wrong, without what to do.
    pub(super) fn what(&self) -> String {
        self.to_string().lines().next().unwrap_or_default().to_owned()
    }
}
