//! The contents of a profile.

use std::path::{Path, PathBuf};

use anyhow::Result;
use serde::Serialize;

use super::keeper::Keeper;
use super::opened::{Contents, Opened, share, weights};
use crate::go::{self, Finding};
use crate::lock::{Lock, LockedProfile};
use crate::profile::symbol_of;
use hone_record::without_hash;

/// The second figure of a function in a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Beside {
    /// Its largest counter.
    LargestCounter,
    /// How often it was entered by a taken branch.
    Entered,
    /// The value in it and in everything that it called.
    Cumulative,
}

/// A row of a hot table.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct HotRow {
    /// The demangled function.
    pub name: String,
    /// The value in it, in the unit of the table.
    pub weight: u64,
    /// The weight as a share of the whole, 0 to 1.
    pub share: f64,
    /// See [`HotTable::beside`].
    pub beside: u64,
}

/// Functions by weight.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct HotTable {
    /// The quantity, for example `counts` or `cpu`.
    pub what: String,
    /// The unit.
    pub unit: String,
    /// Sum of the weights.
    pub total: u64,
    /// The meaning of a row's second figure.
    pub beside: Beside,
    /// Functions with a weight.
    pub functions: u64,
    /// The hottest, hottest first.
    pub rows: Vec<HotRow>,
}

/// The summary of a profile.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Shown {
    /// The file.
    pub file: PathBuf,
    /// Kind, level, counts and hash.
    pub profile: LockedProfile,
    /// The number of hot functions, and their least counter; only for LLVM.
    pub hot: Option<(u64, u64)>,
    /// One, or one for each type of value.
    pub tables: Vec<HotTable>,
    /// Findings; only for Go.
    pub findings: Vec<Finding>,
    /// The lock next to it, which Hone has compared with it.
    pub lock: Option<Lock>,
}

impl Keeper<'_> {
    /// The summary of a profile, with the `top` hottest functions of each table.
    ///
    /// # Errors
    /// Fails when it can't be read, or differs from its lock.
    pub fn show(&self, file: &Path, top: usize) -> Result<Shown> {
        let opened = self.open(file)?;
        let lock = opened.lock()?;
        let (hot, findings) = match &opened.contents {
            Contents::Profdata(profile) => {
                (Some((profile.hot().len() as u64, profile.hot_count)), Vec::new())
            }
            Contents::Fdata(_) => (None, Vec::new()),
            Contents::Pprof(profile) => (None, go::findings_of(profile)),
        };
        let tables = opened.tables(top);
        Ok(Shown { file: file.to_path_buf(), profile: opened.facts(), hot, tables, findings, lock })
    }
}

impl Opened {
    fn tables(&self, top: usize) -> Vec<HotTable> {
        match &self.contents {
            Contents::Profdata(profile) => {
                let largest = sums(
                    profile
                        .functions
                        .iter()
                        .map(|function| (without_hash(symbol_of(&function.name)), function.max_count)),
                    u64::max,
                );
                vec![self.table("counts", "executions of a block", Beside::LargestCounter, &largest, top)]
            }
            Contents::Fdata(counts) => {
                let entered = counts.functions.iter().map(|(name, sum)| (without_hash(name), sum.entered));
                let entered = sums(entered, u64::saturating_add);
                let unit = if counts.head.samples.is_some() { "samples" } else { "branches and entries" };
                vec![self.table("counts", unit, Beside::Entered, &entered, top)]
            }
            Contents::Pprof(profile) => {
                let tables =
                    profile.sample_types.iter().filter_map(|kind| go::table(profile, &kind.kind).ok());
                tables.map(|table| of_go(table, top)).collect()
            }
        }
    }

    fn table(&self, what: &str, unit: &str, beside: Beside, figures: &Sums, top: usize) -> HotTable {
        let weights = weights(&self.contents);
        let total = weights.values().copied().fold(0, u64::saturating_add);
        let functions = weights.len() as u64;
        let mut rows: Vec<HotRow> = weights
            .into_iter()
            .map(|(name, weight)| HotRow {
                beside: figures.get(&name).copied().unwrap_or(0),
                share: share(weight, total),
                name,
                weight,
            })
            .collect();
        rows.sort_by(|a, b| b.weight.cmp(&a.weight).then_with(|| a.name.cmp(&b.name)));
        rows.truncate(top);
        HotTable { what: what.to_owned(), unit: unit.to_owned(), total, beside, functions, rows }
    }
}

type Sums = std::collections::HashMap<String, u64>;

fn sums(figures: impl Iterator<Item = (String, u64)>, add: fn(u64, u64) -> u64) -> Sums {
    let mut sums = Sums::new();
    for (name, figure) in figures {
        let sum = sums.entry(name).or_default();
        *sum = add(*sum, figure);
    }
    sums
}

fn of_go(table: go::Table, top: usize) -> HotTable {
    let count = |value: i64| value.max(0).cast_unsigned();
    let functions = table.rows.iter().filter(|row| row.flat > 0).count() as u64;
    let rows = table.rows.into_iter().take(top).map(|row| HotRow {
        name: row.name,
        weight: count(row.flat),
        share: row.flat_percent / 100.0,
        beside: count(row.cumulative),
    });
    HotTable {
        rows: rows.collect(),
        what: table.kind,
        unit: table.unit,
        total: count(table.total),
        beside: Beside::Cumulative,
        functions,
    }
}
