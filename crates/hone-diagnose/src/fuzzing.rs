//! Entry points of the fuzz targets in `fuzz/`: each takes any bytes as if a tool had left them, and panics when a reader breaks a
//! promise. They are compiled for the feature `fuzzing` and for the unit tests.

use crate::{topdown, verdict};

/// What perf stat or toplev printed. What passes the rules are shares, and has a verdict.
pub fn topdown(data: &[u8]) {
    let Ok(readings) = topdown::read(&String::from_utf8_lossy(data)) else { return };
    assert!(!readings.is_empty());
    for (_, judged) in topdown::judge(&readings) {
        let Ok(slots) = judged else { continue };
        assert!(slots.percent.values().all(|share| (0.0..=100.0).contains(share)));
        let verdict = verdict::of_slots(&slots, Some(1.0));
        assert!(verdict.ceiling_percent.is_some_and(|ceiling| ceiling <= 100.0));
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use proptest::prelude::*;

    use super::*;

    /// The recorded shapes, and what a fuzzer has found once.
    fn corpus() -> Vec<Vec<u8>> {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/corpus/topdown");
        let mut files: Vec<_> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
        files.sort();
        assert!(files.len() > 20, "{files:?}");
        files.into_iter().map(|file| fs::read(file).unwrap()).collect()
    }

    proptest! {
        /// A shape with bytes changed, and cut off.
        #[test]
        fn no_broken_shape_panics(
            which in any::<prop::sample::Index>(),
            changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..8),
            end in any::<prop::sample::Index>(),
        ) {
            let shapes = corpus();
            let mut text = shapes[which.index(shapes.len())].clone();
            for (at, byte) in changes {
                let at = at.index(text.len());
                text[at] = byte;
            }
            text.truncate(end.index(text.len()) + 1);
            topdown(&text);
        }
    }

    #[test]
    fn the_corpus_is_survived() {
        corpus().iter().for_each(|text| topdown(text));
    }
}
