//! The folder of a run's tracers: each process has a file there and reads its orders there.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use super::{Trace, TraceFault};

/// Size of a note that a process leaves when it ends or is left out.
const NOTE: usize = 16;
/// Tracers check every 50 ms, and write up to hundreds of megabytes.
const ANSWERS: Duration = Duration::from_secs(60);
/// Pause between two checks.
const LOOKS: Duration = Duration::from_millis(20);

/// The folder that tracers write to.
#[derive(Debug, Clone)]
pub struct TraceFolder {
    path: PathBuf,
}

/// Result of a run.
#[derive(Debug, Default)]
pub struct Left {
    /// One trace for each process.
    pub traces: Vec<Trace>,
    /// Unreadable files, with the reason.
    pub broken: Vec<(PathBuf, TraceFault)>,
    /// Processes without a file, since there were too many.
    pub left_out: u64,
}

impl TraceFolder {
    /// An empty folder that replaces any earlier contents.
    ///
    /// # Errors
    /// Returns an error when it can't be created, or its path has a comma, which would end an argument of qemu.
    pub fn create(path: &Path) -> io::Result<Self> {
        let path = std::path::absolute(path)?;
        if path.as_os_str().as_encoded_bytes().contains(&b',') {
            let told = format!("{} has a comma, which qemu takes for the end of the path", path.display());
            return Err(io::Error::new(io::ErrorKind::InvalidInput, told));
        }
        if path.exists() {
            fs::remove_dir_all(&path)?;
        }
        fs::create_dir_all(&path)?;
        Ok(Self { path })
    }

    /// An existing folder.
    pub fn open(path: &Path) -> Self {
        Self { path: path.to_owned() }
    }

    /// Path of the folder.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Resets the counts of all traced processes. Returns the number of processes that did.
    ///
    /// # Errors
    /// Returns an error when the order can't be written.
    pub fn forget(&self, processes: &[u32]) -> io::Result<usize> {
        self.wish("forget", processes)
    }

    /// Makes all processes write their counts.
    ///
    /// # Errors
    /// Returns an error when the order can't be written.
    pub fn save(&self, processes: &[u32]) -> io::Result<usize> {
        self.wish("save", processes)
    }

    fn wish(&self, what: &str, processes: &[u32]) -> io::Result<usize> {
        let file = self.path.join("wish");
        let last = fs::read_to_string(&file).unwrap_or_default();
        let number = last.split(' ').next().and_then(|number| number.parse().ok()).unwrap_or(0_u64) + 1;
        let part = self.path.join("wish.part");
        fs::write(&part, format!("{number} {what}"))?;
        fs::rename(&part, &file)?;
        let begun = Instant::now();
        loop {
            let answers = self.answers();
            let traced: Vec<u64> = processes
                .iter()
                .filter_map(|process| Some(answers.iter().find(|(of, _)| of == process)?.1))
                .collect();
            let done = traced.iter().filter(|&&answer| answer >= number).count();
            if done == traced.len() || begun.elapsed() > ANSWERS {
                return Ok(done);
            }
            thread::sleep(LOOKS);
        }
    }

    /// The last order that each process has read.
    fn answers(&self) -> Vec<(u32, u64)> {
        let answer = |path: PathBuf| {
            let process = path.file_name()?.to_str()?.split('-').next()?.parse().ok()?;
            Some((process, fs::read_to_string(path).ok()?.parse().ok()?))
        };
        self.files("answer").into_iter().filter_map(answer).collect()
    }

    fn files(&self, ending: &str) -> Vec<PathBuf> {
        let entries = fs::read_dir(&self.path).into_iter().flatten().flatten();
        let mut files: Vec<PathBuf> = entries
            .map(|entry| entry.path())
            .filter(|path| path.extension().is_some_and(|found| found == ending))
            .collect();
        files.sort();
        files
    }

    /// Reads all files.
    ///
    /// # Errors
    /// Returns an error when a file can't be opened. A file with invalid contents is reported in the result.
    pub fn left(&self) -> io::Result<Left> {
        let mut left = Left::default();
        for path in self.files("trace") {
            match Trace::parse(&fs::read(&path)?) {
                Ok(trace) => left.traces.push(trace),
                Err(fault) => left.broken.push((path, fault)),
            }
        }
        let notes = fs::read(self.path.join("ended")).unwrap_or_default();
        let is_left_out = |note: &&[u8; NOTE]| note[8..] == [0; 8];
        left.left_out = notes.as_chunks::<NOTE>().0.iter().filter(is_left_out).count() as u64;
        Ok(left)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_is_waited_for_who_is_not_traced() {
        let dir = tempfile::tempdir().unwrap();
        let folder = TraceFolder::create(&dir.path().join("t")).unwrap();
        assert_eq!(folder.forget(&[1, 2]).unwrap(), 0);
        fs::write(folder.path().join("2-77.answer"), "2").unwrap();
        assert_eq!(folder.save(&[1, 2]).unwrap(), 1);
        assert_eq!(fs::read_to_string(folder.path().join("wish")).unwrap(), "2 save");
    }

    #[test]
    fn what_was_left_out_is_counted_and_what_is_broken_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let folder = TraceFolder::create(dir.path()).unwrap();
        let note = |process: u64, bytes: u64| [process.to_le_bytes(), bytes.to_le_bytes()].concat();
        fs::write(dir.path().join("ended"), [note(7, 100), note(8, 0), note(9, 0)].concat()).unwrap();
        fs::write(dir.path().join("7-1.trace"), "HONE").unwrap();
        let left = folder.left().unwrap();
        assert_eq!((left.left_out, left.traces.len(), left.broken.len()), (2, 0, 1));
        assert_eq!(left.broken[0].1, TraceFault::Foreign);
    }

    #[test]
    fn a_path_that_qemu_would_cut_off_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let error = TraceFolder::create(&dir.path().join("a,b")).unwrap_err().to_string();
        assert!(error.contains("has a comma"), "{error}");
    }
}
