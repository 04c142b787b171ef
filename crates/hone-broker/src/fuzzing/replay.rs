//! The corpora, once: what a fuzzer has found before is not broken again, with no fuzzer at hand.

use std::fs;
use std::path::Path;

use super::TARGETS;

#[test]
fn every_input_of_the_corpora_keeps_the_promises() {
    for (name, target) in TARGETS {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/corpus").join(name);
        let mut inputs: Vec<_> = fs::read_dir(&folder)
            .unwrap_or_else(|error| panic!("no corpus {}: {error}", folder.display()))
            .map(|entry| entry.unwrap().path())
            .collect();
        inputs.sort();
        assert!(!inputs.is_empty(), "{name} has no inputs");
        for input in inputs {
            let bytes = fs::read(&input).unwrap();
            let done = std::panic::catch_unwind(|| target(&bytes));
            assert!(done.is_ok(), "{name} fails on {}", input.display());
        }
    }
}

#[test]
fn no_input_and_the_smallest_ones_are_taken() {
    for (_, target) in TARGETS {
        target(&[]);
        for byte in 0..=255 {
            target(&[byte]);
        }
    }
}
