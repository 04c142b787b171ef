//! Exact counts of a fixed piece of work of two variants, from an emulator.

use serde::{Deserialize, Serialize};

/// Counts of A and of B for the same work. They repeat within a fraction of a per cent, where time scatters by several per cent. They don't
/// contain the kernel, waits for data or for locks, or the speed of the machine.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Counted {
    /// Name of A.
    pub a: String,
    /// Name of B.
    pub b: String,
    /// The load's name.
    pub workload: String,
    /// The work, in words.
    pub work: String,
    /// The emulator and its version.
    pub emulator: String,
    /// The counts of A and of B.
    pub counts: [Counts; 2],
    /// B's CPU in user code as a ratio to A's, predicted from the counts: the value, and the limits of its 95 % prediction interval. `None` without
    /// models of all caches.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub predicted: Option<[f64; 3]>,
    /// Code with another number of instructions, the largest change first. Empty if the programs name no code.
    pub code: Vec<CodeChange>,
    /// Remarks for the reader.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

/// Counts of one variant, per operation.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Counts {
    /// Operations of one repetition.
    pub operations: u64,
    /// Instructions per operation in each repetition.
    pub instructions: Vec<f64>,
    /// Taken branches per operation.
    pub branches_taken: f64,
    /// Misses of each modelled structure per operation. Empty if they were not modelled.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub misses: Vec<CountedMisses>,
}

/// Misses of a modelled structure.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CountedMisses {
    /// The structure.
    pub structure: String,
    /// Misses per operation.
    pub per_operation: f64,
}

/// Code with another number of instructions in B.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CodeChange {
    /// The function with its inlined functions, the outermost first.
    pub frames: Vec<CodeFrame>,
    /// File name of its object; `None` for code without a file.
    pub object: Option<String>,
    /// Instructions per operation of A and of B in the innermost frame itself.
    pub instructions: [f64; 2],
}

/// A function in the call stack of a piece of code.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CodeFrame {
    /// Its name, demangled.
    pub name: String,
    /// File and line of its beginning, or of its call if it is inlined; `None` without debug information.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
}

impl Counts {
    /// Mean over the repetitions.
    pub fn mean(&self) -> f64 {
        self.instructions.iter().sum::<f64>() / self.instructions.len().max(1) as f64
    }

    /// Difference of the largest and the smallest repetition, as a share of their mean. 0 with one repetition.
    pub fn scatter(&self) -> f64 {
        let most = self.instructions.iter().copied().fold(f64::MIN, f64::max);
        let least = self.instructions.iter().copied().fold(f64::MAX, f64::min);
        if self.instructions.len() > 1 { (most - least) / self.mean() } else { 0.0 }
    }
}

impl Counted {
    /// Ratio of B's instructions per operation to A's, with its limits: the mean, and both scatters away from it.
    pub fn ratio(&self) -> [f64; 3] {
        let [a, b] = &self.counts;
        let ratio = b.mean() / a.mean();
        let scatter = self.scatter();
        [ratio, ratio * (1.0 - scatter), ratio * (1.0 + scatter)]
    }

    /// Sum of both scatters.
    pub fn scatter(&self) -> f64 {
        self.counts.iter().map(Counts::scatter).sum()
    }

    /// Instructions per operation of A and of B.
    pub fn instructions(&self) -> [f64; 2] {
        self.counts.each_ref().map(Counts::mean)
    }

    /// Misses per operation of A and of B in the first modelled structure whose name begins like this.
    pub fn misses(&self, structure: &str) -> Option<[f64; 2]> {
        let of = |counts: &Counts| {
            let found = counts.misses.iter().find(|found| found.structure.starts_with(structure));
            found.map(|found| found.per_operation)
        };
        Some([of(&self.counts[0])?, of(&self.counts[1])?])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ratio_is_as_exact_as_its_repetitions() {
        let counts = |instructions: &[f64]| Counts {
            operations: 1_000,
            instructions: instructions.to_vec(),
            ..Counts::default()
        };
        let mut found = Counted {
            a: "base".to_owned(),
            b: "head".to_owned(),
            workload: "w".to_owned(),
            work: String::new(),
            emulator: String::new(),
            predicted: None,
            counts: [counts(&[100.0, 100.0]), counts(&[101.0, 103.0])],
            code: Vec::new(),
            notes: Vec::new(),
        };
        let scatter = 2.0 / 102.0;
        assert!((found.scatter() - scatter).abs() < 1e-12);
        let [ratio, low, high] = found.ratio();
        assert!((ratio - 1.02).abs() < 1e-12 && (low - 1.02 * (1.0 - scatter)).abs() < 1e-12 && high > 1.03);
        found.counts[1].instructions.truncate(1);
        assert_eq!(found.ratio(), [1.01, 1.01, 1.01]);
        assert_eq!((found.counts[0].mean(), found.misses("L1i")), (100.0, None));
    }
}
