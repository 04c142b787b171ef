//! Samples, added up by thread and place.

use std::collections::{BTreeMap, HashMap};

/// Samples, added up.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Samples {
    /// What was sampled, in perf's words.
    pub event: String,
    /// Whether the clock was, or a counter of cycles: only then are samples shares of the time.
    pub is_time: bool,
    /// Whether the kernel's own code was sampled. Where it was not, its share is not known, and not nothing.
    pub sees_kernel: bool,
    /// All of them.
    pub samples: u64,
    /// Samples of other events, which are left out.
    pub others: u64,
    /// Records that perf itself says were lost.
    pub lost: u64,
    /// From the first to the last one.
    pub span_ns: u64,
    /// What was mapped where samples lie, as the kernel calls it.
    pub paths: Vec<String>,
    /// Build ids in hex, by path, as they were when perf recorded; empty where several builds were mapped from one path.
    pub build_ids: HashMap<String, String>,
    /// By samples, most first.
    pub threads: Vec<Thread>,
    /// What is to be known of them.
    pub notes: Vec<String>,
}

/// Where a sample lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Lying {
    /// At an offset in a file or in something else that was mapped: the index of its path.
    Mapped(u32, u64),
    /// In user mode, and nothing was known to be mapped at this address.
    Nowhere(u64),
    /// In the kernel.
    Kernel,
    /// In a hypervisor, in a guest, or not told.
    Elsewhere,
}

/// A thread that has samples.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Thread {
    /// Its process.
    pub pid: u32,
    /// The kernel's number of it.
    pub tid: u32,
    /// Its last name.
    pub name: String,
    /// Index of the path of its process's program.
    pub program: Option<u32>,
    /// By place.
    pub places: BTreeMap<Lying, u64>,
    /// Samples of places beyond what is told apart, by index of their path.
    pub crowded: BTreeMap<u32, u64>,
}

/// Samples of a thread by whose code they lie in.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Split {
    /// The program's own.
    pub program: u64,
    /// Other files'.
    pub libraries: u64,
    /// The kernel's.
    pub kernel: u64,
    /// Of no file (just-in-time compilers), or not known.
    pub unknown: u64,
}

impl Split {
    /// All of them.
    pub fn all(self) -> u64 {
        self.program + self.libraries + self.kernel + self.unknown
    }

    /// Both together.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self {
            program: self.program + other.program,
            libraries: self.libraries + other.libraries,
            kernel: self.kernel + other.kernel,
            unknown: self.unknown + other.unknown,
        }
    }
}

impl Thread {
    /// All of its samples.
    pub fn samples(&self) -> u64 {
        self.places.values().chain(self.crowded.values()).sum()
    }

    /// By index of what was mapped; `None` is what is not in any.
    pub fn by_path(&self) -> BTreeMap<Option<u32>, u64> {
        let mut sums = BTreeMap::new();
        for (place, count) in &self.places {
            let path = match place {
                Lying::Mapped(path, _) => Some(*path),
                _ => None,
            };
            *sums.entry(path).or_insert(0) += count;
        }
        for (path, count) in &self.crowded {
            *sums.entry(Some(*path)).or_insert(0) += count;
        }
        sums
    }
}

impl Samples {
    /// Whose code a thread's samples lie in. `program` is the path of the program, where it is known better than from the mappings.
    pub fn split(&self, thread: &Thread, program: Option<&str>) -> Split {
        let mut split = Split::default();
        let known = program.map(|wanted| self.paths.iter().position(|path| path == wanted));
        let own = known.map_or(thread.program, |at| at.map(|at| at as u32));
        for (path, count) in thread.by_path() {
            match path {
                Some(path) if Some(path) == own => split.program += count,
                Some(path) if self.paths.get(path as usize).is_some_and(|path| is_file(path)) => {
                    split.libraries += count;
                }
                _ => split.unknown += count,
            }
        }
        split.kernel = thread.places.get(&Lying::Kernel).copied().unwrap_or(0);
        split.unknown -= split.kernel;
        split
    }

    /// Of all threads.
    pub fn whole(&self, program: Option<&str>) -> Split {
        let splits = self.threads.iter().map(|thread| self.split(thread, program));
        splits.fold(Split::default(), Split::and)
    }
}

/// Whether a mapping's name is a file's. Memory that programs write code into has names, too.
pub(super) fn is_file(path: &str) -> bool {
    let made = ["//anon", "/memfd:", "/dev/zero", "/SYSV", "/anon_hugepage"];
    path.starts_with('/') && !made.iter().any(|name| path.starts_with(name))
}
