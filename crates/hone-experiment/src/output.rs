//! Files that a load writes in addition to its output. A failure is reported after the result and does not replace it.

use std::fs::{self, File};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, Sender};
use std::thread::JoinHandle;

use anyhow::{Context as _, Result, anyhow};
use hone_record::SeriesPoint;

/// A file that is checked for writing before the measurement. It gets its name when it is complete.
#[derive(Debug)]
pub struct Output {
    path: PathBuf,
    /// The final path. `None` for a target that is not a regular file, such as a pipe or `/dev/stdout`, which must not be
    /// replaced.
    temporary: Option<PathBuf>,
}

impl Output {
    /// Checks that a file can be written, before the measurement.
    ///
    /// # Errors
    /// When it can't.
    pub fn claim(path: &Path) -> Result<Self> {
        let cannot = || format!("the output file {} can't be written", path.display());
        let name = path.file_name().filter(|_| !path.is_dir()).with_context(cannot)?;
        if path.metadata().is_ok_and(|about| !about.is_file()) {
            return Ok(Self { path: path.to_owned(), temporary: None });
        }
        // A link stays a link, and its target is written.
        let path = path.canonicalize().unwrap_or_else(|_| path.to_owned());
        let name = path.file_name().unwrap_or(name);
        let temporary =
            path.with_file_name(format!(".{}.{}.part", name.to_string_lossy(), std::process::id()));
        fs::write(&temporary, "").with_context(cannot)?;
        Ok(Self { temporary: Some(temporary), path })
    }

    /// Writes the content completely or not at all. After a failure no partial file stays.
    pub fn keep(self, content: impl AsRef<[u8]>) -> Result<()> {
        let write = || {
            let Some(temporary) = &self.temporary else { return fs::write(&self.path, content.as_ref()) };
            let mut file = File::create(temporary)?;
            file.write_all(content.as_ref())?;
            // Only this call reports a full disk in some file systems.
            file.sync_all()?;
            fs::rename(temporary, &self.path)
        };
        write().with_context(|| format!("the output file {} can't be written", self.path.display()))
    }
}

impl Drop for Output {
    fn drop(&mut self) {
        if let Some(temporary) = &self.temporary {
            let _ = fs::remove_file(temporary);
        }
    }
}

/// A file that gets one line per second while the load runs, from a thread of its own.
#[derive(Debug)]
pub struct SeriesFile {
    writer: JoinHandle<Result<()>>,
    to: Sender<SeriesPoint>,
}

impl SeriesFile {
    /// Creates the file, empty.
    pub fn create(path: &Path) -> Result<Self> {
        let path = path.to_owned();
        let cannot = format!("the series file {} can't be written", path.display());
        let mut file = File::create(&path).with_context(|| cannot.clone())?;
        let (to, points) = mpsc::channel::<SeriesPoint>();
        let writer = std::thread::spawn(move || {
            for point in points {
                // One write per line, so that a reader never sees a partial line, not even at the end of this
                // process.
                let line = serde_json::to_string(&point)? + "\n";
                file.write_all(line.as_bytes()).with_context(|| {
                    format!("{cannot} from second {} on; the record has the complete series", point.at_s)
                })?;
            }
            Ok(())
        });
        Ok(Self { writer, to })
    }

    /// The receiver of complete seconds.
    pub fn sender(&self) -> Sender<SeriesPoint> {
        self.to.clone()
    }

    /// Waits until everything is written. All other senders must be dropped.
    pub fn finish(self) -> Result<()> {
        drop(self.to);
        self.writer.join().map_err(|_| anyhow!("the thread that writes the series panicked"))?
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn point(at_s: f64) -> SeriesPoint {
        SeriesPoint { at_s, ..SeriesPoint::default() }
    }

    #[test]
    fn a_series_is_on_disk_before_the_load_ends() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("series.ndjson");
        let series = SeriesFile::create(&path).unwrap();
        let sender = series.sender();
        for second in [0.0, 1.0] {
            sender.send(point(second)).unwrap();
        }
        let lines = || fs::read_to_string(&path).unwrap().lines().count();
        let deadline = std::time::Instant::now() + std::time::Duration::from_secs(10);
        while lines() < 2 && std::time::Instant::now() < deadline {
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        assert_eq!(lines(), 2);
        drop(sender);
        series.finish().unwrap();
        let read: SeriesPoint =
            serde_json::from_str(fs::read_to_string(&path).unwrap().lines().next().unwrap()).unwrap();
        assert_eq!(read, point(0.0));
    }

    #[test]
    fn a_full_disk_stops_the_series_and_nobody_else() {
        let series = SeriesFile::create(Path::new("/dev/full")).unwrap();
        let sender = series.sender();
        for second in [0.0, 1.0, 2.0] {
            let _ = sender.send(point(second));
        }
        drop(sender);
        let error = format!("{:#}", series.finish().unwrap_err());
        assert!(error.contains("/dev/full can't be written from second 0 on"), "{error}");
    }

    #[test]
    fn an_output_is_whole_or_not_there() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("out");
        drop(Output::claim(&path).unwrap());
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
        Output::claim(&path).unwrap().keep("text").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "text");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
        assert!(Output::claim(folder.path()).is_err());
    }

    #[test]
    fn what_is_no_file_is_written_in_its_place() {
        let folder = tempfile::tempdir().unwrap();
        let [real, link, null] = ["real", "link", "null"].map(|name| folder.path().join(name));
        fs::write(&real, "old").unwrap();
        std::os::unix::fs::symlink(&real, &link).unwrap();
        Output::claim(&link).unwrap().keep("new").unwrap();
        assert_eq!(fs::read_to_string(&real).unwrap(), "new");
        assert!(link.is_symlink());
        std::os::unix::fs::symlink("/dev/null", &null).unwrap();
        Output::claim(&null).unwrap().keep(b"bytes").unwrap();
        assert_eq!(
            fs::read_link(&null).unwrap(),
            Path::new("/dev/null"),
            "a file has taken the place of a device"
        );
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 3);
    }
}
