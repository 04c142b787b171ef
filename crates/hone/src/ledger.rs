//! What all entries of the ledger have in common, whoever decides, and what is said when one can't be written.

use std::fs::{self, File};
use std::io::Read as _;
use std::path::Path;
use std::sync::OnceLock;

use anyhow::{Context as _, Result};
use hone_binary::sha256_hex;
use hone_ledger::{Appended, Ledger, LedgerError};
use hone_record::{Comparison, LedgerEntry, RecordRef, RecordRole};

use crate::folder::RunFolder;
use crate::moment::now_unix_ms;
use crate::progress::Progress;

/// The ledger's name, in the folder of the runs.
pub(crate) const NAME: &str = "ledger.jsonl";

/// Who is said to have decided, where it shall not be the user's and the machine's name.
const WHO: &str = "HONE_WHO";

/// Digits of a program's hash that tell builds apart.
const SHORT: usize = 12;

/// An entry of a command, with what does not depend on what was decided.
pub(crate) fn entry(verb: &str) -> LedgerEntry {
    LedgerEntry {
        at_unix_ms: now_unix_ms(),
        who: who(),
        hone: build().to_owned(),
        verb: verb.to_owned(),
        ..LedgerEntry::default()
    }
}

/// `user@host`.
fn who() -> String {
    let said = |name: &str| std::env::var(name).ok().filter(|text| !text.is_empty());
    let user = || said("USER").or_else(|| said("LOGNAME")).unwrap_or_else(own_name);
    let host = fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    said(WHO).unwrap_or_else(|| format!("{}@{}", user(), host.trim()))
}

/// As the machine's own list has it: services and containers have no USER in their environment.
fn own_name() -> String {
    // SAFETY: takes nothing and can't fail.
    let uid = unsafe { libc::getuid() }.to_string();
    let known = fs::read_to_string("/etc/passwd").unwrap_or_default();
    let is_own = |line: &&str| line.split(':').nth(2) == Some(&*uid);
    let name = known.lines().find(is_own).and_then(|line| line.split(':').next());
    name.map_or_else(|| format!("uid {uid}"), str::to_owned)
}

/// The version, and the beginning of the SHA-256 of the program that runs: two builds may have one version.
fn build() -> &'static str {
    static BUILD: OnceLock<String> = OnceLock::new();
    BUILD.get_or_init(|| {
        let version = env!("CARGO_PKG_VERSION");
        // The file that runs, also where another one has its name by now.
        let program = fs::read("/proc/self/exe").map(|bytes| sha256_hex(&bytes));
        let short = program.ok().and_then(|hash| hash.get(..SHORT).map(str::to_owned));
        short.map_or_else(|| version.to_owned(), |short| format!("{version} ({short})"))
    })
}

/// Puts an entry into a ledger.
///
/// # Errors
/// When it can't be written; the error shows the entry, so that it is not lost.
pub(crate) fn enter(path: &Path, entry: &LedgerEntry, progress: &Progress) -> Result<()> {
    let appended = append(path, entry).with_context(|| not_written(entry))?;
    for line in remarks(&appended, path) {
        progress.line(&line);
    }
    Ok(())
}

fn append(path: &Path, entry: &LedgerEntry) -> Result<Appended, LedgerError> {
    if let Some(folder) = path.parent() {
        // Where it can't be made, opening the file tells why.
        let _ = fs::create_dir_all(folder);
    }
    Ledger::at(path).append(entry)
}

fn not_written(entry: &LedgerEntry) -> String {
    let line = hone_ledger::line_of(entry).unwrap_or_default();
    format!("the ledger's entry was not written; this is it: {}\n  why", line.trim_end())
}

/// What was found where the entry went.
fn remarks(appended: &Appended, path: &Path) -> Vec<String> {
    let path = path.display();
    let torn = appended.behind.as_ref().map(|torn| {
        format!(
            "{path}: line {} is a piece of an entry, whose writer was killed; it stays there, and the new entry has a line of its own",
            torn.line
        )
    });
    let fault = appended.fault.as_ref().map(|fault| {
        format!(
            "{path}: line {} is not as it was written ({}); see: hone ledger verify {path}",
            fault.line,
            fault.meaning.label()
        )
    });
    torn.into_iter().chain(fault).collect()
}

/// The same once for a run, however often it is resumed, and also where it was killed between the entry and its note.
///
/// # Errors
/// As for [`enter`], and when the note can't be written.
pub(crate) fn enter_once(
    folder: &RunFolder,
    note: &str,
    path: &Path,
    entry: impl FnOnce() -> Result<LedgerEntry>,
    progress: &Progress,
) -> Result<()> {
    if folder.read_note::<bool>(note)?.is_some() {
        return Ok(());
    }
    let entry = entry()?;
    let same = |other: &LedgerEntry| {
        (&other.run, &other.verb, &other.change, &other.workload, &other.records)
            == (&entry.run, &entry.verb, &entry.change, &entry.workload, &entry.records)
    };
    let known = Ledger::at(path).check().unwrap_or_default();
    if !known.lines.iter().any(|line| same(&line.entry)) {
        enter(path, &entry, progress)?;
    }
    folder.write_note(note, &true)
}

/// The files that a comparison rests on, with their hashes: its design with the rule, and the windows that count. What was concluded of
/// them can be concluded again, and is written anew by a run that is resumed.
///
/// # Errors
/// When a window can't be read.
pub(crate) fn records(folder: &RunFolder, comparison: &Comparison) -> Result<Vec<RecordRef>> {
    let windows = comparison.counted_windows();
    // The design lies beside the windows' folder; that of variants in rounds has the variant's name.
    let place = comparison.pairs.iter().find_map(|pair| Some(pair.window_a.split_once("windows/")?.0));
    let designs =
        place.map(|place| [format!("{place}design.json"), format!("{place}design-{}.json", comparison.b)]);
    let design = designs.into_iter().flatten().find(|name| folder.join(name).is_file());
    let design = design.as_deref().map(|name| (name, RecordRole::Design));
    design
        .into_iter()
        .chain(windows)
        .map(|(name, role)| {
            Ok(RecordRef { path: name.to_owned(), sha256: hash_of(&folder.join(name))?, role })
        })
        .collect()
}

/// SHA-256 of a file, hex.
///
/// # Errors
/// When it can't be read.
pub(crate) fn hash_of(path: &Path) -> Result<String> {
    /// More than this is no record.
    const MOST_BYTES: u64 = 1 << 30;
    let mut bytes = Vec::new();
    File::open(path)
        .and_then(|file| file.take(MOST_BYTES).read_to_end(&mut bytes))
        .with_context(|| format!("{} can't be read", path.display()))?;
    Ok(sha256_hex(&bytes))
}
