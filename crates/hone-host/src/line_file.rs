//! Files of one JSON value a line that say what is about to be done: a line is whole and on the disk, or it is not there.

use std::fs::File;
use std::io::{self, Read as _, Write as _};

use serde::Serialize;

/// A file that is open for appending.
#[derive(Debug)]
pub(crate) struct LineFile {
    file: File,
    /// How long it was before a line that could not be written, and of which a part may be there.
    torn_at: Option<u64>,
}

impl LineFile {
    /// Over a file that is new, or whose last line is whole.
    pub(crate) fn over(file: File) -> Self {
        Self { file, torn_at: None }
    }

    /// Over one that may have been cut off by a crash: its last line announced a step that was not made, and goes. The file is open for
    /// reading as well.
    ///
    /// # Errors
    /// When it can't be read or made shorter.
    pub(crate) fn resumed(mut file: File) -> io::Result<Self> {
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes)?;
        let whole = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |last| last + 1);
        if whole < bytes.len() {
            file.set_len(whole as u64)?;
        }
        Ok(Self::over(file))
    }

    /// Keeps a value; it is safe when this returns.
    ///
    /// # Errors
    /// When it can't be kept: what it announces must not be done.
    pub(crate) fn append(&mut self, value: &impl Serialize) -> io::Result<()> {
        let kept = self.try_append(value);
        if kept.is_err() {
            // A full disk takes a part of a line; the next one must not be glued to that.
            let _ = self.cut();
        }
        kept
    }

    fn try_append(&mut self, value: &impl Serialize) -> io::Result<()> {
        let line = serde_json::to_string(value)? + "\n";
        self.cut()?;
        self.torn_at = Some(self.file.metadata()?.len());
        // One write: a line of another process never comes in between.
        self.file.write_all(line.as_bytes()).and_then(|()| self.file.sync_data())?;
        self.torn_at = None;
        Ok(())
    }

    /// Takes away what there is of a line that could not be written.
    fn cut(&mut self) -> io::Result<()> {
        if let Some(whole) = self.torn_at {
            self.file.set_len(whole)?;
            self.torn_at = None;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{self, OpenOptions};

    fn open(path: &std::path::Path) -> File {
        OpenOptions::new().read(true).append(true).create(true).open(path).unwrap()
    }

    #[test]
    fn a_line_that_a_crash_cut_off_goes() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lines");
        for (there, whole) in [("1\n2\n\"thr", "1\n2\n"), ("1\n", "1\n"), ("\"on", ""), ("", "")] {
            fs::write(&path, there).unwrap();
            LineFile::resumed(open(&path)).unwrap().append(&9).unwrap();
            assert_eq!(fs::read_to_string(&path).unwrap(), format!("{whole}9\n"));
        }
    }

    /// As after a write that a full disk took a part of, and when the part could not be taken away at once.
    #[test]
    fn nothing_is_glued_to_a_part_of_a_line() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lines");
        let mut lines = LineFile::over(open(&path));
        lines.append(&1).unwrap();
        lines.torn_at = Some(2);
        lines.file.write_all(b"\"tw").unwrap();
        lines.append(&3).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "1\n3\n");
    }
}
