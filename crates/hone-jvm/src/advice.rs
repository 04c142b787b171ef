//! Settings that a command line lacks or has wrong, as changes worth a trial. Pure: nothing here knows what they bring.

use crate::command::{JavaCommand, Key, flag_value, size_of};
use crate::setting::{Gc, with_setting};

/// A setting to try.
#[derive(Debug, Clone, PartialEq)]
pub struct Advice {
    /// As in [`with_setting`].
    pub name: &'static str,
    /// Its value.
    pub value: String,
    /// A rank, as the share of the CPU that it might save.
    pub share: f64,
    /// What was seen, and why it calls for this.
    pub why: String,
}

/// A virtual machine takes the serial collector by itself on a machine with less (`src/hotspot/share/runtime/os.cpp`,
/// `is_server_class_machine`).
const SERVER_CPUS: u32 = 2;
/// The code cache of tiered compilation is 240 MiB. Below this, compiled methods are thrown out again.
const SMALL_CODE_CACHE: u64 = 64 << 20;
const USUAL_CODE_CACHE: &str = "240m";
/// A server whose heap is smaller collects all the time.
const SMALL_HEAP: u64 = 512 << 20;
/// Part of the machine's memory that a heap may take: the virtual machine's own default.
const HEAP_PART: u64 = 4;
/// From this heap on, its pages are more than a TLB holds.
const LARGE_HEAP: u64 = 4 << 30;
/// The release in which compact object headers are a product flag (JEP 519).
const COMPACT_HEADERS: u32 = 25;

/// The settings worth a trial on a machine with these CPUs and this memory, the most promising first. `feature` is the release of the JDK.
pub fn advice(command: &JavaCommand, feature: Option<u32>, cpus: u32, memory_bytes: u64) -> Vec<Advice> {
    let mut found = Vec::new();
    let mut add = |name: &'static str, value: String, share: f64, why: String| {
        let changed = with_setting(command, name, &value, feature);
        if changed.is_ok_and(|changed| changed != *command) {
            found.push(Advice { name, value, share, why });
        }
    };
    let flag = |name: &str| {
        let option = command.option(&Key::Flag(name.to_owned()))?;
        flag_value(option).map(|(_, value)| value)
    };
    let size = |key: &Key| {
        let option = command.option(key)?;
        size_of(option.split_once('=').map_or_else(|| option.get(4..), |(_, value)| Some(value))?)
    };
    let collector = command.options.iter().rev().find_map(|option| Gc::of_option(option));
    if collector == Some(Gc::Serial) && cpus >= SERVER_CPUS {
        let why = format!("one thread collects while {cpus} cores wait (UseSerialGC)");
        add("gc", "g1".to_owned(), 0.08, why.clone());
        add("gc", "parallel".to_owned(), 0.07, why);
    }
    if let Some(level) = flag("TieredStopAtLevel").filter(|level| *level != "4") {
        let why = format!("the optimizing compiler is off (TieredStopAtLevel={level})");
        add("TieredStopAtLevel", "4".to_owned(), 0.30, why);
    }
    let code_cache = flag("ReservedCodeCacheSize").and_then(size_of);
    if let Some(bytes) = code_cache.filter(|bytes| *bytes < SMALL_CODE_CACHE) {
        let why = format!("a code cache of {} MiB is soon full, and then nothing is compiled", bytes >> 20);
        add("code-cache", USUAL_CODE_CACHE.to_owned(), 0.20, why);
    }
    if let Some(heap) = size(&Key::MaxHeap).filter(|heap| *heap < SMALL_HEAP) {
        let wanted = (SMALL_HEAP * 2).min(memory_bytes / HEAP_PART);
        if wanted > heap {
            let why = format!("a heap of {} MiB is collected often", heap >> 20);
            add("heap", format!("{}m", wanted >> 20), 0.10, why);
        }
    }
    if let Some(few) = flag("ActiveProcessorCount").and_then(|count| count.parse::<u32>().ok())
        && few < cpus
    {
        let why = format!("it uses {few} of {cpus} cores (ActiveProcessorCount)");
        add("cpus", cpus.to_string(), 0.05, why);
    }
    if feature.is_some_and(|feature| feature >= COMPACT_HEADERS) && flag("UseCompactObjectHeaders").is_none()
    {
        let why = "objects have headers of 12 bytes, where JDK 25 can have 8".to_owned();
        add("compact-headers", "true".to_owned(), 0.03, why);
    }
    if size(&Key::MaxHeap).is_some_and(|heap| heap >= LARGE_HEAP) && flag("UseTransparentHugePages").is_none()
    {
        let why = "a large heap is in pages of 4 KiB".to_owned();
        add("huge-pages", "true".to_owned(), 0.03, why);
    }
    found.sort_by(|one, other| other.share.total_cmp(&one.share));
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    const MEMORY: u64 = 24 << 30;

    fn names(options: &str, feature: u32) -> Vec<String> {
        let line = format!("java {options} -jar x");
        let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        let command = JavaCommand::parse(&words).unwrap();
        advice(&command, Some(feature), 2, MEMORY)
            .iter()
            .map(|one| format!("{}={}", one.name, one.value))
            .collect()
    }

    #[test]
    fn what_is_badly_set_is_found_and_the_worst_comes_first() {
        let bad = "-Xmx128m -XX:+UseSerialGC -XX:ReservedCodeCacheSize=32m";
        assert_eq!(names(bad, 17), ["code-cache=240m", "heap=1024m", "gc=g1", "gc=parallel"]);
        assert_eq!(names("-XX:TieredStopAtLevel=1", 17), ["TieredStopAtLevel=4"]);
        assert_eq!(names("-XX:ActiveProcessorCount=1", 17), ["cpus=2"]);
    }

    #[test]
    fn what_is_well_set_is_left_alone() {
        let well = "-Xms1g -Xmx1g -XX:+UseG1GC -XX:MaxGCPauseMillis=20";
        assert_eq!(names(well, 17), Vec::<String>::new());
        assert_eq!(names(&format!("{well} -XX:+UseCompactObjectHeaders"), 25), Vec::<String>::new());
        assert_eq!(names(well, 25), ["compact-headers=true"]);
        assert_eq!(names("-Xmx8g", 17), ["huge-pages=true"]);
    }

    #[test]
    fn a_small_machine_gets_no_heap_that_it_does_not_have() {
        let words: Vec<String> = ["java", "-Xmx128m", "-jar", "x"].map(str::to_owned).to_vec();
        let command = JavaCommand::parse(&words).unwrap();
        let found = |memory| advice(&command, Some(17), 2, memory);
        assert_eq!(found(1 << 30)[0].value, "256m");
        assert!(found(512 << 20).is_empty(), "a quarter of it is what it has");
    }
}
