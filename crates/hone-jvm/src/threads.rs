//! The threads of a HotSpot virtual machine by their names in the kernel, which cuts them after 15 characters.

/// What a thread is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Purpose {
    /// The service itself.
    Application,
    /// The optimizing compiler.
    SecondCompiler,
    /// The quick compiler.
    FirstCompiler,
    /// Collection of garbage.
    Collector,
    /// Safepoints, timers, signals.
    VirtualMachine,
}

/// Beginnings of names, from `jcmd PID Thread.print` of JDK 17 and 25 with each of their collectors.
const NAMES: [(&str, Purpose); 20] = [
    ("C2 CompilerThre", Purpose::SecondCompiler),
    ("C1 CompilerThre", Purpose::FirstCompiler),
    ("GC Thread#", Purpose::Collector),
    ("G1 ", Purpose::Collector),
    ("ParGC ", Purpose::Collector),
    ("ZDirector", Purpose::Collector),
    ("ZDriver", Purpose::Collector),
    ("ZWorker", Purpose::Collector),
    ("ZStat", Purpose::Collector),
    ("ZUn", Purpose::Collector),
    ("RuntimeWorker#", Purpose::Collector),
    ("Shenandoah", Purpose::Collector),
    ("VM Thread", Purpose::VirtualMachine),
    ("VM Periodic Tas", Purpose::VirtualMachine),
    ("Monitor Deflati", Purpose::VirtualMachine),
    ("Service Thread", Purpose::VirtualMachine),
    ("Signal Dispatch", Purpose::VirtualMachine),
    ("Sweeper thread", Purpose::VirtualMachine),
    ("Attach Listener", Purpose::VirtualMachine),
    ("Reference Handl", Purpose::VirtualMachine),
];

impl Purpose {
    /// The purpose of a thread with this name.
    pub fn from_name(name: &str) -> Self {
        NAMES
            .iter()
            .find(|(begin, _)| name.starts_with(begin))
            .map_or(Self::Application, |(_, purpose)| *purpose)
    }

    /// Name of the group.
    pub fn label(self) -> &'static str {
        match self {
            Self::Application => "application",
            Self::SecondCompiler => "C2 compiler",
            Self::FirstCompiler => "C1 compiler",
            Self::Collector => "collector",
            Self::VirtualMachine => "virtual machine",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_of_both_releases_are_known() {
        let purpose = |name: &str| Purpose::from_name(name).label();
        assert_eq!(purpose("C2 CompilerThre"), "C2 compiler");
        assert_eq!(purpose("G1 Main Marker"), "collector");
        assert_eq!(purpose("GC Thread#1"), "collector");
        assert_eq!(purpose("VM Thread"), "virtual machine");
        assert_eq!(purpose("data-plane-kafk"), "application");
        assert_eq!(purpose("GC"), "application");
    }
}
