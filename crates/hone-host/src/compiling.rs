//! Threads that compile their own process's program while it runs, recognized by name.

use std::path::Path;

use crate::threads::{self, Threads};

/// Beginnings of such threads' names, as the kernel keeps them (15 bytes): HotSpot's compilers (`compileBroker.cpp`), those of JVMCI and
/// OpenJ9, .NET's tiered compilation, and V8's workers, which compile and collect garbage.
const NAMES: [&str; 8] = [
    "C1 CompilerThre",
    "C2 CompilerThre",
    "JVMCI",
    "Graal Compiler",
    "JIT Compilation",
    ".NET Tiered Com",
    "V8 DefaultWorke",
    "V8Worker",
];

/// Whether a thread compiles.
pub fn compiles(name: &str) -> bool {
    NAMES.iter().any(|begin| name.starts_with(begin))
}

/// CPU time of compiler threads, summed from check to check, since HotSpot ends idle ones and their CPU time disappears with them.
#[derive(Debug, Default)]
pub struct Compiling {
    pids: Vec<u32>,
    last: Vec<Option<Threads>>,
    sum_s: f64,
    is_seen: bool,
}

impl Compiling {
    /// For these processes, without their children.
    pub fn new(pids: Vec<u32>) -> Self {
        let last = pids.iter().map(|_| None).collect();
        Self { pids, last, sum_s: 0.0, is_seen: false }
    }

    /// CPU time of their compiler threads since the first check; `None` if there were none so far.
    pub fn look(&mut self) -> Option<f64> {
        for (pid, last) in self.pids.iter().zip(&mut self.last) {
            let Ok(now) = threads::sample(Path::new("/"), *pid) else { continue };
            self.is_seen |= now.names().any(compiles);
            if let Some(before) = last.take() {
                let used = threads::between(&before, &now);
                let compiling = used.threads.iter().filter(|thread| compiles(&thread.name));
                self.sum_s += compiling.map(|thread| thread.cpu_s).sum::<f64>();
            }
            *last = Some(now);
        }
        self.is_seen.then_some(self.sum_s)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_that_compile_are_known_by_their_names() {
        let compiling = ["C2 CompilerThre", "C1 CompilerThre", ".NET Tiered Com", "JVMCI CompilerT"];
        assert!(compiling.into_iter().all(compiles));
        assert!(!["java", "kafka-request-h", "G1 Conc#0", "C2", "VM Thread"].into_iter().any(compiles));
    }

    #[test]
    fn the_work_of_a_compiling_thread_is_counted_and_no_others() {
        let own = std::process::id();
        let mut compiling = Compiling::new(vec![own]);
        compiling.look();
        let burn = || {
            let begun = std::time::Instant::now();
            while begun.elapsed().as_millis() < 300 {
                std::hint::black_box(begun);
            }
        };
        let (told, heard) = std::sync::mpsc::channel::<()>();
        let thread = std::thread::Builder::new().name("C2 CompilerThread0".to_owned()).spawn(move || {
            burn();
            // It lives until it was seen.
            let _ = heard.recv();
        });
        burn();
        std::thread::sleep(std::time::Duration::from_millis(400));
        let seen_s = compiling.look().unwrap();
        drop(told);
        thread.unwrap().join().unwrap();
        assert!(seen_s > 0.05, "{seen_s}");
        let mut others = Compiling::new(vec![u32::MAX / 2]);
        assert_eq!(others.look(), None);
    }
}
