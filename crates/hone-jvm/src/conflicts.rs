//! Options that contradict each other, or that a release does not have: the virtual machine would not start, or would ignore one of them.

use crate::command::{JavaCommand, Key, flag_value, size_of};
use crate::setting::Gc;

/// Options that can't stand together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Conflict {
    /// The options as written.
    pub options: Vec<String>,
    /// What happens.
    pub why: String,
}

/// From this heap on, references take 64 bits.
const COMPRESSED_OOPS_BYTES: u64 = 32 << 30;

/// Flags with the release that removed them: it does not start with them.
const REMOVED: [(&str, u32); 4] =
    [("UseConcMarkSweepGC", 14), ("UseParNewGC", 10), ("AggressiveOpts", 13), ("UseBiasedLocking", 21)];

/// The contradictions in a command line. `feature` is the release of its JDK; `None` if unknown.
pub fn conflicts(command: &JavaCommand, feature: Option<u32>) -> Vec<Conflict> {
    let mut found = Vec::new();
    let mut add = |options: Vec<&str>, why: String| {
        found.push(Conflict { options: options.into_iter().map(str::to_owned).collect(), why });
    };
    let collectors: Vec<&str> =
        command.options.iter().map(String::as_str).filter(|option| Gc::of_option(option).is_some()).collect();
    if collectors
        .iter()
        .filter_map(|option| Gc::of_option(option))
        .collect::<std::collections::BTreeSet<_>>()
        .len()
        > 1
    {
        add(collectors, "the virtual machine does not start with two collectors".to_owned());
    }
    let size = |key: &Key| {
        let option = command.option(key)?;
        let value = option.split_once('=').map_or_else(|| option.get(4..), |(_, value)| Some(value));
        Some((option, size_of(value?)?))
    };
    let (most, first) = (size(&Key::MaxHeap), size(&Key::FirstHeap));
    if let (Some((most, most_bytes)), Some((first, first_bytes))) = (most, first)
        && first_bytes > most_bytes
    {
        add(vec![first, most], "the first heap is larger than the largest one".to_owned());
    }
    if let Some((most, _)) = most
        && let Some(share) = command.option(&Key::Flag("MaxRAMPercentage".to_owned()))
    {
        add(vec![most, share], "the size makes the percentage ineffective".to_owned());
    }
    if let Some((most, bytes)) = most
        && bytes >= COMPRESSED_OOPS_BYTES
        && let Some(oops) = command.option(&Key::Flag("UseCompressedOops".to_owned()))
        && oops.contains('+')
    {
        add(vec![most, oops], "a heap of 32 GiB or more has no compressed references".to_owned());
    }
    let off = command.option(&Key::Share).filter(|option| *option == "-Xshare:off");
    for cache in ["AOTCache", "SharedArchiveFile"] {
        if let (Some(off), Some(cache)) = (off, command.option(&Key::Flag(cache.to_owned()))) {
            add(vec![off, cache], "without shared class data the cache is not used".to_owned());
        }
    }
    let aot = command.option(&Key::Flag("AOTCache".to_owned()));
    if let (Some(aot), Some(cds)) = (aot, command.option(&Key::Flag("SharedArchiveFile".to_owned()))) {
        add(vec![aot, cds], "only one of the two caches can be used".to_owned());
    }
    for option in &command.options {
        let Some((name, _)) = flag_value(option) else { continue };
        let removed =
            REMOVED.iter().find(|(flag, since)| *flag == name && feature.is_some_and(|now| now >= *since));
        if let Some((_, since)) = removed {
            add(vec![option], format!("JDK {since} removed this option, and does not start with it"));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(line: &str, feature: u32) -> Vec<String> {
        let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        let command = JavaCommand::parse(&words).unwrap();
        conflicts(&command, Some(feature)).into_iter().map(|one| one.options.join(" ")).collect()
    }

    #[test]
    fn what_contradicts_itself_is_found_and_the_usual_is_silent() {
        assert_eq!(found("java -XX:+UseG1GC -XX:+UseZGC -jar x", 25), ["-XX:+UseG1GC -XX:+UseZGC"]);
        assert_eq!(found("java -Xms2g -Xmx1g -jar x", 25), ["-Xms2g -Xmx1g"]);
        assert_eq!(
            found("java -Xmx1g -XX:MaxRAMPercentage=75 -jar x", 25),
            ["-Xmx1g -XX:MaxRAMPercentage=75"]
        );
        assert_eq!(found("java -Xshare:off -XX:AOTCache=a -jar x", 25), ["-Xshare:off -XX:AOTCache=a"]);
        assert_eq!(found("java -XX:AOTCache=a -XX:SharedArchiveFile=b -jar x", 25).len(), 1);
        assert_eq!(found("java -XX:+UseConcMarkSweepGC -jar x", 17), ["-XX:+UseConcMarkSweepGC"]);
        assert_eq!(found("java -Xmx64g -XX:+UseCompressedOops -jar x", 25).len(), 1);
        let usual = "java -Xms1g -Xmx1g -XX:+UseG1GC -XX:+UseG1GC -XX:MaxGCPauseMillis=20 -XX:-UseZGC -Xlog:gc -jar x";
        assert!(found(usual, 25).is_empty());
        assert!(found("java -XX:+UseConcMarkSweepGC -jar x", 8).is_empty());
    }
}
