//! Entry points of the fuzz targets in `fuzz/`: each takes any bytes as if a tool or a service had sent them, and panics when
//! a parser breaks a promise. They are compiled for the feature `fuzzing` and for the unit tests.

use crate::go::{self, Merger, Profile, table};

/// A target: bytes in, a panic when something is wrong.
pub type Target = fn(&[u8]);

/// Every target by its name, which is also that of its corpus.
pub const TARGETS: [(&str, Target); 2] = [("pprof", pprof), ("pclntab", pclntab)];

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

#[cfg(test)]
mod tests {
    use super::*;

    /// What a fuzzer has found once is tried for ever, and so is where it begins.
    #[test]
    fn corpora_are_survived() {
        for (name, target) in TARGETS {
            let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/corpus").join(name);
            let inputs: Vec<_> = std::fs::read_dir(&folder).unwrap().collect();
            assert!(!inputs.is_empty(), "{}", folder.display());
            for input in inputs {
                target(&std::fs::read(input.unwrap().path()).unwrap());
            }
        }
    }
}
