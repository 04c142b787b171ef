//! The functions that became hotter or colder between two profiles.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use anyhow::Result;
use serde::Serialize;

use super::format::StoredFormat;
use super::keeper::Keeper;
use super::opened::{share, weights};

/// A function with a changed share of the weight.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Moved {
    /// The demangled name.
    pub name: String,
    /// Its share of the weight before, 0 to 1; 0 if it had none.
    pub before: f64,
    /// Its share after.
    pub after: f64,
}

impl Moved {
    /// The growth of its share; below 0 if it shrank.
    pub fn by(&self) -> f64 {
        self.after - self.before
    }
}

/// Two profiles compared with each other. Hone compares shares, not counts, because trainings differ in length.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Difference {
    /// The form of both.
    pub kind: StoredFormat,
    /// The older one.
    pub before: PathBuf,
    /// The newer one.
    pub after: PathBuf,
    /// Sum of the weights before.
    pub weight_before: u64,
    /// Sum of the weights after.
    pub weight_after: u64,
    /// The overlap, 0 to 1: the sum of the smaller share of each function.
    pub overlap: f64,
    /// Functions with a weight in both, only before, only after.
    pub functions: [u64; 3],
    /// Those that gained, the most first.
    pub hotter: Vec<Moved>,
    /// Those that lost, the most first.
    pub cooler: Vec<Moved>,
}

impl Keeper<'_> {
    /// Compares two profiles of the same kind by function. For Go it uses the flat weight.
    ///
    /// # Errors
    /// Fails when one can't be read, has no counts, or is of another kind.
    pub fn diff(&self, before: &Path, after: &Path) -> Result<Difference> {
        let old = self.open(before)?;
        let new = self.open(after)?;
        new.like(&old)?;
        old.counted()?;
        new.counted()?;
        let (a, b) = (weights(&old.contents), weights(&new.contents));
        let sum = |weights: &std::collections::HashMap<String, u64>| {
            weights.values().copied().fold(0, u64::saturating_add)
        };
        let (weight_before, weight_after) = (sum(&a), sum(&b));
        let names: BTreeSet<&String> = a.keys().chain(b.keys()).collect();
        let moved: Vec<Moved> = names
            .into_iter()
            .map(|name| Moved {
                name: name.clone(),
                before: share(a.get(name).copied().unwrap_or(0), weight_before),
                after: share(b.get(name).copied().unwrap_or(0), weight_after),
            })
            .collect();
        let count =
            |wanted: &dyn Fn(&Moved) -> bool| moved.iter().filter(|moved| wanted(moved)).count() as u64;
        let functions = [
            count(&|moved| moved.before > 0.0 && moved.after > 0.0),
            count(&|moved| moved.after == 0.0),
            count(&|moved| moved.before == 0.0),
        ];
        let overlap = moved.iter().map(|moved| moved.before.min(moved.after)).sum::<f64>().min(1.0);
        let (mut hotter, mut cooler): (Vec<Moved>, Vec<Moved>) =
            moved.into_iter().filter(|moved| moved.by() != 0.0).partition(|moved| moved.by() > 0.0);
        hotter.sort_by(|a, b| b.by().total_cmp(&a.by()).then_with(|| a.name.cmp(&b.name)));
        cooler.sort_by(|a, b| a.by().total_cmp(&b.by()).then_with(|| a.name.cmp(&b.name)));
        Ok(Difference {
            kind: new.kind,
            before: before.to_path_buf(),
            after: after.to_path_buf(),
            weight_before,
            weight_after,
            overlap,
            functions,
            hotter,
            cooler,
        })
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use hone_tool::System;

    use super::super::fault::StoreFault;
    use super::*;

    #[test]
    fn shares_are_compared_and_not_counts() {
        let folder = tempfile::tempdir().unwrap();
        let system = System::new(folder.path().join("log")).unwrap();
        let keeper = Keeper::new(&system, folder.path());
        let write = |name: &str, text: &str| {
            let file = folder.path().join(name);
            fs::write(&file, text).unwrap();
            file
        };
        let old = write("old", "1 a 1 0 x 0 0 50\n1 b 1 0 x 0 0 30\n1 c 1 0 x 0 0 20\n");
        // Ten times as long; `c` is gone, `d` is new, and `a` has what it had.
        let new = write("new", "1 a 1 0 x 0 0 500\n1 b 1 0 x 0 0 50\n1 d 1 0 x 0 0 450\n");
        let found = keeper.diff(&old, &new).unwrap();
        assert_eq!((found.weight_before, found.weight_after), (100, 1000));
        assert!((found.overlap - 0.55).abs() < 1e-9, "{found:?}");
        assert_eq!(found.functions, [2, 1, 1]);
        let names = |moved: &[Moved]| moved.iter().map(|moved| moved.name.clone()).collect::<Vec<_>>();
        assert_eq!(
            (names(&found.hotter), names(&found.cooler)),
            (vec!["d".into()], vec!["b".into(), "c".into()])
        );
        assert_eq!((found.hotter[0].before, found.hotter[0].after), (0.0, 0.45));
        let same = keeper.diff(&old, &old).unwrap();
        assert!((same.overlap - 1.0).abs() < 1e-9 && same.hotter.is_empty() && same.cooler.is_empty());

        let samples = write("samples", "no_lbr x\n1 a 1 50\n");
        let fault = keeper.diff(&old, &samples).unwrap_err();
        assert!(matches!(fault.downcast_ref(), Some(StoreFault::Kinds { .. })), "{fault:#}");
        assert!(fault.to_string().contains("samples is fdata (plain samples), "), "{fault:#}");
        let hollow = write("hollow", "1 a 1 0 x 0 0 0\n");
        let fault = keeper.diff(&old, &hollow).unwrap_err();
        assert!(matches!(fault.downcast_ref(), Some(StoreFault::Hollow { .. })), "{fault:#}");
    }
}
