//! What is in a profile.

use std::path::{Path, PathBuf};

use anyhow::Result;
use serde::Serialize;

use super::keeper::Keeper;
use super::opened::{Contents, Opened, share, weights};
use crate::go::{self, Finding};
use crate::lock::{Lock, LockedProfile};
use crate::profile::symbol_of;
use hone_record::without_hash;

/// What stands beside the weight of a function.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Beside {
    /// Its largest counter.
    LargestCounter,
    /// How often it was entered by a taken branch.
    Entered,
    /// What was counted in it and in all that it called.
    Cumulative,
}

/// A row of a hot table.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct HotRow {
    /// The function, as people read it.
    pub name: String,
    /// What was counted in it, in the unit of the table.
    pub weight: u64,
    /// The weight as a share of the whole, 0 to 1.
    pub share: f64,
    /// See [`HotTable::beside`].
    pub beside: u64,
}

/// Functions by weight.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct HotTable {
    /// What is counted, for example `counts` or `cpu`.
    pub what: String,
    /// The unit.
    pub unit: String,
    /// Sum of the weights.
    pub total: u64,
    /// What the second figure of a row is.
    pub beside: Beside,
    /// Functions with a weight.
    pub functions: u64,
    /// The hottest, hottest first.
    pub rows: Vec<HotRow>,
}

/// A profile, shown.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Shown {
    /// The file.
    pub file: PathBuf,
    /// Kind, level, counts and hash.
    pub profile: LockedProfile,
    /// Functions that count as hot, and the counter from which on; only of LLVM's.
    pub hot: Option<(u64, u64)>,
    /// One, or one for each type of value.
    pub tables: Vec<HotTable>,
    /// What stands out; only of Go's.
    pub findings: Vec<Finding>,
    /// The lock beside it, held against it.
    pub lock: Option<Lock>,
}

impl Keeper<'_> {
    /// What is in a profile, the `top` hottest functions of each table.
    ///
    /// # Errors
    /// When it can't be read, or is not the one that its lock describes.
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
