//! `hone compare a.json b.json`: compares saved windows.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};
use hone_compare::{SavedRule, check_saved, compare_saved};
use hone_record::Window;

use crate::cmd::context::CliContext;
use hone_experiment::ending::{Ending, Usage};
use hone_experiment::folder::read_record;

/// The path in an argument that names saved windows: a `.json` file, or a folder of them.
pub(super) fn place(argument: &str) -> Option<PathBuf> {
    let path = Path::new(argument);
    let is_record =
        path.is_dir() || (path.is_file() && path.extension().is_some_and(|ending| ending == "json"));
    is_record.then(|| path.to_owned())
}

pub(super) fn run(places: [PathBuf; 2], rule: SavedRule, cli: &CliContext) -> Result<Ending> {
    check_saved(rule)?;
    let [a, b] = &places;
    if a.canonicalize()? == b.canonicalize()? {
        bail!(Usage(format!("A and B name the same record: {}", a.display())));
    }
    let (windows_a, windows_b) = (windows(a)?, windows(b)?);
    let (name_a, name_b) = (a.display().to_string(), b.display().to_string());
    let found = compare_saved((&name_a, &windows_a), (&name_b, &windows_b), rule);
    cli.show(found, hone_document::saved::text)
}

/// The windows of a file, or of all window records in a folder.
fn windows(path: &Path) -> Result<Vec<Window>> {
    if !path.is_dir() {
        return Ok(vec![read_record(path)?]);
    }
    let mut files: Vec<PathBuf> = fs::read_dir(path)
        .with_context(|| format!("cannot read {}", path.display()))?
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|file| file.extension().is_some_and(|ending| ending == "json"))
        .collect();
    files.sort();
    let windows = files.iter().map(|file| read_record(file)).collect::<Result<Vec<Window>>>()?;
    if windows.is_empty() {
        bail!("{} has no record of a window\n  next: hone load BROKER --output FILE.json", path.display());
    }
    let variants: BTreeSet<&str> = windows.iter().map(|window| window.variant.as_str()).collect();
    if variants.len() > 1 {
        let variants = Vec::from_iter(variants).join(", ");
        bail!(Usage(format!(
            "{} has windows of several variants: {variants}\n  next: put each variant into its own folder",
            path.display()
        )));
    }
    Ok(windows)
}
