//! Flat and cumulative values by function. Pure.

use std::collections::{BTreeSet, HashMap};

use serde::{Deserialize, Serialize};

use super::pprof::Profile;

/// One function's part of a profile.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// Its name.
    pub name: String,
    /// Its source file.
    pub file: String,
    /// The value in the function itself, in the unit of the table.
    pub flat: i64,
    /// The value in it and in everything that it called; a stack that contains it twice counts once.
    pub cumulative: i64,
    /// `flat` in per cent of the table's total.
    pub flat_percent: f64,
    /// `cumulative` in per cent of the table's total.
    pub cumulative_percent: f64,
}

/// A profile by function, the largest flat value first, as `go tool pprof -top` shows it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Table {
    /// The quantity, for example `cpu` or `alloc_space`.
    pub kind: String,
    /// The unit of `total`, `flat` and `cumulative`, for example `nanoseconds`.
    pub unit: String,
    /// Sum over all samples.
    pub total: i64,
    /// One for each function name.
    pub rows: Vec<Row>,
}

impl Table {
    /// The row of a function.
    pub fn row(&self, name: &str) -> Option<&Row> {
        self.rows.iter().find(|row| row.name == name)
    }
}

/// Adds up a profile by function name, for one type of value.
///
/// # Errors
/// In words, with the existing types, when the profile has none of this name.
pub fn table(profile: &Profile, kind: &str) -> Result<Table, String> {
    let index = profile.value_index(kind).ok_or_else(|| {
        let there: Vec<&str> = profile.sample_types.iter().map(|found| found.kind.as_str()).collect();
        format!("the profile has no values of the type {kind}; there are: {}", there.join(", "))
    })?;
    let names = Names::from_profile(profile);
    let mut sums = vec![(0_i64, 0_i64); names.list.len()];
    for sample in &profile.samples {
        let value = sample.values[index];
        let mut seen = BTreeSet::new();
        for (depth, line) in profile.frames(sample).enumerate() {
            let name = names.of_function[line.function];
            if depth == 0 {
                sums[name].0 = sums[name].0.saturating_add(value);
            }
            if seen.insert(name) {
                sums[name].1 = sums[name].1.saturating_add(value);
            }
        }
    }
    let total = profile.total(index);
    let mut rows: Vec<Row> = names
        .list
        .iter()
        .zip(sums)
        .filter(|(_, sums)| *sums != (0, 0))
        .map(|((name, file), (flat, cumulative))| Row {
            name: name.clone(),
            file: file.clone(),
            flat,
            cumulative,
            flat_percent: percent(flat, total),
            cumulative_percent: percent(cumulative, total),
        })
        .collect();
    rows.sort_by(|a, b| {
        (b.flat, b.cumulative).cmp(&(a.flat, a.cumulative)).then_with(|| a.name.cmp(&b.name))
    });
    Ok(Table { kind: kind.to_owned(), unit: profile.sample_types[index].unit.clone(), total, rows })
}

/// A part in per cent of a whole; 0 if the whole is 0.
pub(super) fn percent(part: i64, whole: i64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 * 100.0 / whole as f64 }
}

/// Functions by name: after a merge over builds, one name can stand for several of them.
pub(super) struct Names {
    /// Names, with the file of the first function of that name.
    pub(super) list: Vec<(String, String)>,
    /// By index of the function: the index of its name.
    pub(super) of_function: Vec<usize>,
}

impl Names {
    pub(super) fn from_profile(profile: &Profile) -> Self {
        let mut places: HashMap<&str, usize> = HashMap::new();
        let mut list = Vec::new();
        let of_function = profile
            .functions
            .iter()
            .map(|function| {
                *places.entry(&function.name).or_insert_with(|| {
                    list.push((function.name.clone(), function.file.clone()));
                    list.len() - 1
                })
            })
            .collect();
        Self { list, of_function }
    }
}

/// The import path of a function's package: `example.com/a/b` of `example.com/a/b.(*T).f`. The linker writes a dot in the path's last part
/// as `%2e`, and it stays like that.
pub(crate) fn package_of(name: &str) -> &str {
    let head = &name[..name.find(['(', '[']).unwrap_or(name.len())];
    let last = head.rfind('/').map_or(0, |at| at + 1);
    let end = head[last..].find('.').map_or(head.len(), |at| last + at);
    &name[..end]
}

/// Whether a package comes with Go: the first part of its path has no dot, and it is not in `own`.
pub(crate) fn is_standard(package: &str, own: &BTreeSet<String>) -> bool {
    let first = package.split('/').next().unwrap_or(package);
    !first.contains('.') && package != "main" && !own.contains(package)
}

#[cfg(test)]
mod tests {
    use super::super::pprof::tests::cpu;
    use super::*;

    #[test]
    fn flat_and_cumulative_are_told_apart() {
        let profile = cpu(&[
            ("main.main:3>main.walk:7>main.size:2", 40),
            ("main.main:3>main.walk:7", 1),
            ("main.main:3>main.walk:7>main.walk:7>main.size:3", 9),
            ("main.main:4>main.write:9", 50),
        ]);
        let table = table(&profile, "cpu").unwrap();
        assert_eq!((table.total, table.unit.as_str()), (100, "nanoseconds"));
        let rows: Vec<(&str, i64, i64, f64)> = table
            .rows
            .iter()
            .map(|row| (row.name.as_str(), row.flat, row.cumulative, row.cumulative_percent))
            .collect();
        let expected = [
            ("main.write", 50, 50, 50.0),
            ("main.size", 49, 49, 49.0),
            ("main.walk", 1, 50, 50.0),
            ("main.main", 0, 100, 100.0),
        ];
        assert_eq!(rows, expected, "a recursion counts once");
    }

    #[test]
    fn a_wrong_kind_gets_the_right_ones() {
        let error = table(&cpu(&[("main.main:1", 1)]), "alloc_space").unwrap_err();
        assert_eq!(error, "the profile has no values of the type alloc_space; there are: cpu");
        assert!(table(&cpu(&[]), "cpu").unwrap().rows.is_empty());
    }

    #[test]
    fn packages_are_read_from_symbols() {
        let check = |name, package, standard| {
            let own = BTreeSet::from(["lab/codec".to_owned()]);
            assert_eq!(package_of(name), package);
            assert_eq!(is_standard(package, &own), standard, "{name}");
        };
        check("main.main.func1", "main", false);
        check("runtime.mallocgc", "runtime", true);
        check("net/http.(*conn).serve", "net/http", true);
        check(
            "github.com/twmb/franz-go/pkg/kfake.(*Cluster).run",
            "github.com/twmb/franz-go/pkg/kfake",
            false,
        );
        check("gopkg.in/yaml%2ev3.Unmarshal", "gopkg.in/yaml%2ev3", false);
        check("lab/codec.Map[...]", "lab/codec", false);
        check("slices.SortFunc[go.shape.[]example.com/x.T]", "slices", true);
        check("_rt0_amd64", "_rt0_amd64", true);
        check("", "", true);
    }
}
