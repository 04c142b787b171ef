//! Looks that were kept, as a history for the model of costs.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use hone_batch::cost::Point;
use hone_record::{BatchWatch, Envelope};

/// The looks that `hone batch watch --keep` wrote, one on each line, in the order of time.
pub(crate) fn kept(files: &[PathBuf]) -> Result<Vec<BatchWatch>> {
    let mut all = Vec::new();
    for file in files {
        all.extend(read(file)?);
    }
    all.sort_by_key(|watch| watch.at_unix_ms);
    Ok(all)
}

fn read(file: &Path) -> Result<Vec<BatchWatch>> {
    let text = fs::read_to_string(file).with_context(|| format!("{} can't be read", file.display()))?;
    let lines = text.lines().zip(1_u64..).filter(|(line, _)| !line.trim().is_empty());
    lines
        .map(|(line, number)| {
            Envelope::parse(line).with_context(|| {
                format!("line {number} of {} is nothing that `hone batch watch --keep` wrote", file.display())
            })
        })
        .collect()
}

/// Those that have all that a model of costs needs.
pub(crate) fn points(looks: &[BatchWatch]) -> Vec<Point> {
    looks.iter().filter_map(Point::of).collect()
}
