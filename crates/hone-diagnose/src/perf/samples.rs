//! Samples, summed by thread and address.

use std::collections::{BTreeMap, HashMap};

use super::generated::GeneratedCode;

/// Summed samples.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Samples {
    /// The sampled event, as perf names it.
    pub event: String,
    /// Whether the event is the clock or a cycle counter. Only then are samples shares of the time.
    pub is_time: bool,
    /// Whether the kernel's own code was sampled. If not, its share is unknown, and not zero.
    pub sees_kernel: bool,
    /// Number of samples.
    pub samples: u64,
    /// Samples of other events, which are left out.
    pub others: u64,
    /// Number of lost records, as perf reports it.
    pub lost: u64,
    /// Time from the first to the last sample.
    pub span_ns: u64,
    /// Mapped files and other mappings of the samples, as the kernel names them.
    pub paths: Vec<String>,
    /// Build-ids in hex, by path, at the time of recording; empty if several builds were mapped from one path.
    pub build_ids: HashMap<String, String>,
    /// Names of code that virtual machines made, by process.
    pub generated: BTreeMap<u32, GeneratedCode>,
    /// Threads, sorted by samples.
    pub threads: Vec<Thread>,
    /// Remarks.
    pub notes: Vec<String>,
}

/// Address of a sample.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Lying {
    /// At an offset in a mapped file or other mapping: the index of its path.
    Mapped(u32, u64),
    /// In user mode, at an address that no file is mapped to.
    Nowhere(u64),
    /// In the kernel.
    Kernel,
    /// In a hypervisor, in a guest, or unknown.
    Elsewhere,
}

/// A thread with samples.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Thread {
    /// Id of its process.
    pub pid: u32,
    /// Its kernel id.
    pub tid: u32,
    /// Its last name.
    pub name: String,
    /// Index of the path of its process's program.
    pub program: Option<u32>,
    /// Samples by address.
    pub places: BTreeMap<Lying, u64>,
    /// Samples at addresses beyond the limit, by index of their path.
    pub crowded: BTreeMap<u32, u64>,
}

/// Samples of a thread by the owner of the code.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Split {
    /// Code of the program itself.
    pub program: u64,
    /// Code of other files.
    pub libraries: u64,
    /// Code that a virtual machine made, and named.
    pub generated: u64,
    /// Code of the kernel.
    pub kernel: u64,
    /// Code without a file and a name, or unknown code.
    pub unknown: u64,
}

impl Split {
    /// The sum.
    pub fn all(self) -> u64 {
        self.program + self.libraries + self.generated + self.kernel + self.unknown
    }

    /// The sum of two.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self {
            program: self.program + other.program,
            libraries: self.libraries + other.libraries,
            generated: self.generated + other.generated,
            kernel: self.kernel + other.kernel,
            unknown: self.unknown + other.unknown,
        }
    }
}

impl Thread {
    /// Number of its samples.
    pub fn samples(&self) -> u64 {
        self.places.values().chain(self.crowded.values()).sum()
    }

    /// Samples by index of the mapping; `None` for samples outside all mappings.
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
    /// Owners of the code in a thread's samples. `program` is the path of the program, if it is better known than from the mappings.
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
        split.generated = self.names_of_generated(thread).map(|(_, count)| count).sum();
        split.unknown -= split.kernel + split.generated;
        split
    }

    /// Names of the generated code in a thread's samples, each with its samples.
    pub fn names_of_generated<'a>(&'a self, thread: &'a Thread) -> impl Iterator<Item = (&'a str, u64)> {
        let code = self.generated.get(&thread.pid);
        thread.places.iter().filter_map(move |(place, count)| match place {
            Lying::Nowhere(address) => Some((code?.name_at(*address)?, *count)),
            _ => None,
        })
    }

    /// The same over all threads.
    pub fn whole(&self, program: Option<&str>) -> Split {
        let splits = self.threads.iter().map(|thread| self.split(thread, program));
        splits.fold(Split::default(), Split::and)
    }
}

/// The kernel's library in every process.
const VDSO: &str = "[vdso]";

/// Whether a mapping's name is a file, or the kernel's own library. Memory with generated code has names, too.
pub(super) fn is_file(path: &str) -> bool {
    let made = ["//anon", "/memfd:", "/dev/zero", "/SYSV", "/anon_hugepage"];
    path == VDSO || path.starts_with('/') && !made.iter().any(|name| path.starts_with(name))
}
