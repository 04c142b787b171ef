//! Files with one JSON value per line that announce a step: a line is complete and on the disk, or it does not exist.

use std::fs::File;
use std::io::{self, Read as _, Write as _};

use serde::Serialize;

/// A file that is open for appending.
#[derive(Debug)]
pub(crate) struct LineFile {
    file: File,
    /// Length before a line that could not be written completely.
    torn_at: Option<u64>,
}

impl LineFile {
    /// Wraps a file that is new, or whose last line is complete.
    pub(crate) fn over(file: File) -> Self {
        Self { file, torn_at: None }
    }

    /// Wraps a file that a crash may have truncated: an incomplete last line announced a step that was not done, and is removed. The file
    /// is open for reading as well.
    ///
    /// # Errors
    /// Returns an error when it can't be read or shortened.
    pub(crate) fn resumed(mut file: File) -> io::Result<Self> {
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes)?;
        let whole = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |last| last + 1);
        if whole < bytes.len() {
            file.set_len(whole as u64)?;
        }
        Ok(Self::over(file))
    }

    /// Writes a value; it is on disk when this returns.
    ///
    /// # Errors
    /// Returns an error when it can't be written: the announced step must then not be done.
    pub(crate) fn append(&mut self, value: &impl Serialize) -> io::Result<()> {
        let kept = self.try_append(value);
        if kept.is_err() {
            // A full disk takes a part of a line, and the next line must not be appended to it.
            let _ = self.cut();
        }
        kept
    }

    fn try_append(&mut self, value: &impl Serialize) -> io::Result<()> {
        let line = serde_json::to_string(value)? + "\n";
        self.cut()?;
        self.torn_at = Some(self.file.metadata()?.len());
        // One write, so that a line of another process never comes in between.
        self.file.write_all(line.as_bytes()).and_then(|()| self.file.sync_data())?;
        self.torn_at = None;
        Ok(())
    }

    /// Removes the part of a line that could not be written completely.
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
