//! Readers for the files of a page. A command reads all files that the user names. A server for other users only reads files in
//! the folders that it shows.

use std::fs::File;
use std::io::Read as _;
use std::path::Path;

use anyhow::{Context as _, Result, bail};
use hone_ledger::{Checked, Ledger};
use hone_record::{Body, Envelope};

/// A record can't be larger.
const MOST_BYTES: u64 = 1 << 30;

/// Opens files of runs. Their paths come from records and ledgers, which other people may have written.
pub trait Reader {
    /// Whether this path may be read.
    fn may_see(&self, path: &Path) -> bool;

    /// Opens a file.
    ///
    /// # Errors
    /// When it can't be opened, or the reader does not allow it.
    fn open(&self, path: &Path) -> Result<File>;

    /// All lines of a ledger.
    ///
    /// # Errors
    /// When it can't be read, or the reader does not allow it.
    fn ledger(&self, path: &Path) -> Result<Checked>;
}

/// The user of a command, who may read everything.
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

/// The contents of a file.
///
/// # Errors
/// When it can't be read, or is larger than a record can be.
pub fn bytes(reader: &dyn Reader, path: &Path) -> Result<Vec<u8>> {
    let cannot = || format!("{} can't be read", path.display());
    let mut bytes = Vec::new();
    let file = reader.open(path).with_context(cannot)?;
    file.take(MOST_BYTES + 1).read_to_end(&mut bytes).with_context(cannot)?;
    if bytes.len() as u64 > MOST_BYTES {
        bail!("{} has more than {MOST_BYTES} bytes, which is too large for a record", path.display());
    }
    Ok(bytes)
}

/// The same as text.
///
/// # Errors
/// As for [`bytes`], and when it is not text.
pub fn text(reader: &dyn Reader, path: &Path) -> Result<String> {
    String::from_utf8(bytes(reader, path)?).with_context(|| format!("{} is not a text file", path.display()))
}

/// The same as a record.
///
/// # Errors
/// As for [`text`], and when it is not a record of this kind.
pub fn record<T: Body>(reader: &dyn Reader, path: &Path) -> Result<T> {
    Envelope::parse(&text(reader, path)?).with_context(|| path.display().to_string())
}
