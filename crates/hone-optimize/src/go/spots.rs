//! The functions that use time and memory, and the findings.

use anyhow::Result;
use hone_binary::Builder;
use hone_binary::profile_store::{HotTable, Keeper};
use hone_record::{HotSpot, HotSpots};

use crate::job::Job;
use crate::outcome::{Taken, in_a_line};
use crate::steps::Told;
use hone_experiment::spec::ProfileWish;

/// Functions of each table in the record.
const ROWS: usize = 25;

/// The types of value in a report, in this order. `samples` repeats `cpu`, and `inuse_*` shows one moment only.
const KINDS: [&str; 3] = ["cpu", "alloc_space", "alloc_objects"];

impl Job<'_> {
    /// Tables and findings of the merged CPU profile, and of the allocations under the same loads.
    pub(super) fn hot_spots(
        &self,
        builder: &dyn Builder,
        taken: &Taken,
    ) -> Result<Told<(Vec<HotSpots>, Vec<String>)>> {
        let scratch = self.folder.scratch();
        let keeper = Keeper::new(self.runner, &scratch);
        let mut profiles = vec![taken.merged.path.clone()];
        let allocations = self.allocation_profiles("first");
        let without = match allocations.is_empty() {
            true => Some(no_allocations(&self.experiment.profile).to_owned()),
            false => match builder.merge(&allocations) {
                Ok(merged) => {
                    profiles.push(merged.path);
                    None
                }
                Err(error) => Some(format!("can't read the allocations: {}", in_a_line(&error))),
            },
        };
        let (mut tables, mut findings) = (Vec::new(), Vec::new());
        for profile in profiles {
            let shown = keeper.show(&profile, ROWS)?;
            tables.extend(
                shown.tables.into_iter().filter(|table| KINDS.contains(&table.what.as_str())).map(spots),
            );
            findings.extend(shown.findings.iter().map(ToString::to_string));
        }
        tables.sort_by_key(|table: &HotSpots| KINDS.iter().position(|kind| *kind == table.kind));
        let mut note = format!("{} tables, notable findings: {}", tables.len(), findings.len());
        if let Some(without) = without {
            note.push_str(&format!("; {without}"));
        }
        Ok(Told { note, command: None, result: (tables, findings) })
    }
}

/// Why the report has no allocations.
fn no_allocations(wish: &ProfileWish) -> &'static str {
    match wish {
        ProfileWish::File(_) => "no allocations: you supplied the profile, so Hone did not ask the service",
        _ => "the service gave no profile of its allocations",
    }
}

fn spots(table: HotTable) -> HotSpots {
    let share = |part: u64| if table.total == 0 { 0.0 } else { part as f64 / table.total as f64 };
    let rows = table.rows.iter().map(|row| HotSpot {
        function: row.name.clone(),
        flat: row.weight,
        cumulative: row.beside,
        flat_share: row.share,
        cumulative_share: share(row.beside),
    });
    HotSpots {
        rows: rows.collect(),
        kind: table.what,
        unit: table.unit,
        total: table.total,
        functions: table.functions,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_service_is_not_blamed_for_what_it_was_not_asked() {
        assert!(no_allocations(&ProfileWish::File("x.pprof".into())).contains("did not ask the service"));
        assert!(no_allocations(&ProfileWish::Pprof).contains("the service gave no"));
    }
}
