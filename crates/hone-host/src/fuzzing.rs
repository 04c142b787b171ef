//! Entry point of the fuzz target in `fuzz/`. It takes any bytes as a tuning text, and panics when a reader violates its contract. It is
//! compiled for the feature `fuzzing` and for the unit tests.

use std::collections::BTreeSet;
use std::io;

use crate::disks::{DataPath, Disk, Layer};
use crate::kernel::Kernel;
use crate::lint;
use crate::relevance::Facts;

/// A host with one disk.
struct Host;

const ATTRIBUTES: [(&str, &str); 13] = [
    ("/proc/sys/vm/swappiness", "60\n"),
    ("/proc/sys/vm/dirty_ratio", "20\n"),
    ("/proc/sys/vm/dirty_bytes", "0\n"),
    ("/proc/sys/vm/dirty_background_ratio", "10\n"),
    ("/proc/sys/vm/dirty_background_bytes", "0\n"),
    ("/proc/sys/net/ipv4/tcp_rmem", "4096\t131072\t6291456\n"),
    ("/proc/sys/net/core/somaxconn", "4096\n"),
    ("/sys/kernel/mm/transparent_hugepage/enabled", "always [madvise] never\n"),
    ("/sys/block/sda/queue/scheduler", "[mq-deadline] none\n"),
    ("/sys/block/sda/queue/read_ahead_kb", "128\n"),
    ("/sys/block/sda/queue/nr_requests", "256\n"),
    ("/sys/block/sda/queue/rotational", "1\n"),
    ("/etc/sysctl.d/50-own.conf", "vm.swappiness = 10\n"),
];

impl Kernel for Host {
    fn read(&self, path: &str) -> io::Result<String> {
        let found = ATTRIBUTES.iter().find(|(name, _)| *name == path);
        found.map(|(_, text)| (*text).to_owned()).ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn write(&self, path: &str, _: &str) -> io::Result<()> {
        panic!("{path} was written by a read-only check");
    }

    fn list(&self, folder: &str) -> Vec<String> {
        let folder = format!("{}/", folder.trim_end_matches('/'));
        let below = ATTRIBUTES.iter().filter_map(|(path, _)| path.strip_prefix(&folder));
        let names: BTreeSet<&str> = below.filter_map(|rest| rest.split('/').next()).collect();
        names.into_iter().map(str::to_owned).collect()
    }
}

/// A tuning text, with its file name on the first line. Every finding has a line of the text.
pub fn lint(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let (name, text) = text.split_once('\n').unwrap_or((&text, ""));
    // A colon in the name could be confused with the one before the line number.
    let name = name.trim().replace(':', "-");
    let disk = Disk { name: "sda".to_owned(), ..Disk::default() };
    let data = DataPath {
        folder: "/srv/data".to_owned(),
        mount_point: "/srv".to_owned(),
        file_system: "xfs".to_owned(),
        top: Some("sda".to_owned()),
        layers: vec![Layer { name: "sda".to_owned(), ..Layer::default() }],
        disks: vec![disk],
        problem: None,
    };
    let found = lint::lint(&Host, &[(name.clone(), text.to_owned())], &data, &Facts::default());
    let lines = text.lines().count().max(1);
    let expect = |place: &str| {
        let Some(line) = place.strip_prefix(&format!("{name}:")) else { return };
        let line: usize = line.parse().unwrap_or_else(|_| panic!("{place} names no line"));
        assert!((1..=lines).contains(&line), "{place} of {lines} lines");
    };
    for setting in &found.settings {
        setting.places.iter().for_each(|place| expect(place));
        setting.findings.iter().for_each(|finding| expect(&finding.place));
    }
    found.findings.iter().for_each(|finding| expect(&finding.place));
    found.not_understood.iter().for_each(|one| expect(&one.place));
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use proptest::prelude::*;

    use super::lint;

    /// Texts of every kind, and what a fuzzer has found once.
    fn corpus() -> Vec<Vec<u8>> {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/corpus/lint");
        let mut files: Vec<_> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
        files.sort();
        assert!(files.len() >= 12);
        files.into_iter().map(|file| fs::read(file).unwrap()).collect()
    }

    proptest! {
        /// A text with bytes changed, lines of another text in the middle, and cut off.
        #[test]
        fn no_broken_text_panics(
            which in any::<prop::sample::Index>(),
            other in any::<prop::sample::Index>(),
            changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..8),
            cut in any::<prop::sample::Index>(),
        ) {
            let files = corpus();
            let mut bytes = files[which.index(files.len())].clone();
            for (at, byte) in changes {
                let at = at.index(bytes.len());
                bytes[at] = byte;
            }
            lint(&bytes);
            let cut = cut.index(bytes.len());
            let mixed = [&bytes[..cut], b"\n", &files[other.index(files.len())][..], &bytes[cut..]].concat();
            lint(&mixed);
            lint(&bytes[..cut]);
        }
    }

    #[test]
    fn the_corpus_is_survived() {
        corpus().iter().for_each(|bytes| lint(bytes));
    }
}
