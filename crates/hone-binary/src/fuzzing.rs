//! Entry points of the fuzz targets in `fuzz/`: each takes any bytes as if a tool or a disk had left them, and panics when a
//! reader breaks a promise. They are compiled for the feature `fuzzing` and for the unit tests.

use crate::bolt::{Said, fdata, preflight};

/// A target: bytes in, a panic when something is wrong.
pub type Target = fn(&[u8]);

/// Every target by its name, which is also that of its corpus.
pub const TARGETS: [(&str, Target); 3] = [("fdata", fdata), ("bolt_said", bolt_said), ("anatomy", anatomy)];

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

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::{Path, PathBuf};

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
