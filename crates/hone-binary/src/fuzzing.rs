//! Entry points of the fuzz targets in `fuzz/`: each takes any bytes as if a tool, a disk or a service had left them, and panics when a
//! reader breaks an invariant. They are compiled for the feature `fuzzing` and for the unit tests.

use std::collections::HashSet;
use std::path::Path;

use crate::bolt::{Said, fdata, preflight};
use crate::go::{self, Merger, Profile, table};
use crate::lock::Lock;
use crate::samples::Samples;
use crate::{gcov, linkmap, profile_store};

/// A target: bytes in, a panic when something is wrong.
pub type Target = fn(&[u8]);

/// Every target by its name, which is also that of its corpus.
pub const TARGETS: [(&str, Target); 9] = [
    ("fdata", fdata),
    ("bolt_said", bolt_said),
    ("anatomy", anatomy),
    ("pprof", pprof),
    ("pclntab", pclntab),
    ("linkmap", linkmap),
    ("gcov", gcov),
    ("samples", samples),
    ("kept", kept),
];

/// A profile of BOLT: read, written back, and summed twice.
pub fn fdata(data: &[u8]) {
    fdata::fuzz(data);
}

/// The words of BOLT.
pub fn bolt_said(data: &[u8]) {
    let said = Said::parse(&String::from_utf8_lossy(data));
    assert!((0.0..=1.0).contains(&said.stale_share()));
}

/// A program.
pub fn anatomy(data: &[u8]) {
    let _ = preflight::anatomy_of(data);
}

/// A profile. One that is taken stays the same through writing and reading, and can be merged and added up.
pub fn pprof(data: &[u8]) {
    let Ok(profile) = Profile::parse(data) else { return };
    assert_eq!(Profile::parse(&profile.to_bytes()).as_ref(), Ok(&profile));
    for kind in &profile.sample_types {
        assert!(table(&profile, &kind.kind).is_ok());
    }
    let mut merger = Merger::new();
    merger.add(&profile, 1.0).expect("a profile can be merged with nothing");
    merger.add(&profile, 0.5).expect("and with itself");
    let merged = merger.finish().expect("two were added");
    assert!(merged.samples.len() <= profile.samples.len());
}

/// The table of function names in a Go program.
pub fn pclntab(data: &[u8]) {
    if let Some(names) = go::names_in_pclntab(data) {
        assert!(names.iter().map(String::len).sum::<usize>() <= data.len() * 3);
    }
}

/// A link map, or an archive that one names.
pub fn linkmap(data: &[u8]) {
    linkmap::fuzz(data);
}

/// A lock, a program's table of counters, and the facts of a Go program's build. A lock that is taken stays the same.
pub fn kept(data: &[u8]) {
    if let Ok(lock) = Lock::parse(&String::from_utf8_lossy(data), Path::new("lock")) {
        assert_eq!(Lock::parse(&lock.to_text(), Path::new("lock")), Ok(lock));
    }
    let names = HashSet::from(["main", "mix.c;turn"].map(str::to_owned));
    for little_endian in [true, false] {
        if let Some(hashes) = profile_store::counting_table(&names, data, little_endian) {
            assert!(hashes.keys().all(|name| names.contains(name)));
        }
    }
    go::module_in(data);
    let _ = crate::format_detect::ProfileForm::of_head(data);
}

/// What gcov prints, and the messages of gcov and gcc.
pub fn gcov(data: &[u8]) {
    if let Ok(functions) = gcov::parse(data) {
        assert!(functions.len() <= data.len());
    }
    let text = String::from_utf8_lossy(data).into_owned();
    assert!(gcov::not_taken(&text).len() <= text.lines().count());
    gcov::reported(&[text]);
}

/// A profile of samples as text.
pub fn samples(data: &[u8]) {
    if let Ok(samples) = Samples::parse(&String::from_utf8_lossy(data)) {
        assert!(samples.hot().len() <= samples.functions.len());
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::PathBuf;

    use super::*;

    fn corpus(name: &str) -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/corpus").join(name)
    }

    /// What a fuzzer has found once is tried for ever.
    #[test]
    fn corpora_are_survived() {
        for (name, target) in TARGETS {
            let inputs: Vec<_> = fs::read_dir(corpus(name)).unwrap().collect();
            assert!(!inputs.is_empty(), "{name}");
            inputs.into_iter().for_each(|input| target(&fs::read(input.unwrap().path()).unwrap()));
        }
    }
}
