//! Who reads the files that a page is made of: whoever calls a command reads what they name; a server for others reads only what lies in the
//! folders that it shows.

use std::fs::File;
use std::io::Read as _;
use std::path::Path;

use anyhow::{Context as _, Result, bail};
use hone_ledger::{Checked, Ledger};
use hone_record::{Body, Envelope};

/// More than this is no record.
const MOST_BYTES: u64 = 1 << 30;

/// Opens files of runs. Where they lie is what records and ledgers say, which is somebody else's text.
pub trait Reader {
    /// Whether it may be looked what lies at a path.
    fn may_see(&self, path: &Path) -> bool;

    /// Opens a file.
    ///
    /// # Errors
    /// When it can't be opened, or may not be.
    fn open(&self, path: &Path) -> Result<File>;

    /// All lines of a ledger.
    ///
    /// # Errors
    /// When it can't be read, or may not be.
    fn ledger(&self, path: &Path) -> Result<Checked>;
}

/// Whoever calls a command.
#[derive(Debug, Clone, Copy)]
pub struct Caller;

impl Reader for Caller {
    fn may_see(&self, _: &Path) -> bool {
        true
    }

    fn open(&self, path: &Path) -> Result<File> {
        Ok(File::open(path)?)
    }

    fn ledger(&self, path: &Path) -> Result<Checked> {
        Ok(Ledger::at(path).check()?)
    }
}

/// What a file holds.
///
/// # Errors
/// When it can't be read, or is larger than any record.
pub fn bytes(reader: &dyn Reader, path: &Path) -> Result<Vec<u8>> {
    let cannot = || format!("{} can't be read", path.display());
    let mut bytes = Vec::new();
    let file = reader.open(path).with_context(cannot)?;
    file.take(MOST_BYTES + 1).read_to_end(&mut bytes).with_context(cannot)?;
    if bytes.len() as u64 > MOST_BYTES {
        bail!("{} has more than {MOST_BYTES} bytes, which no record has", path.display());
    }
    Ok(bytes)
}

/// The same as text.
///
/// # Errors
/// As for [`bytes`], and when it is no text.
pub fn text(reader: &dyn Reader, path: &Path) -> Result<String> {
    String::from_utf8(bytes(reader, path)?)
        .with_context(|| format!("{} can't be read as text", path.display()))
}

/// The same as a record.
///
/// # Errors
/// As for [`text`], and when it is no record of this kind.
pub fn record<T: Body>(reader: &dyn Reader, path: &Path) -> Result<T> {
    Envelope::parse(&text(reader, path)?).with_context(|| path.display().to_string())
}
