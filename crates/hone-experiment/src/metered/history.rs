//! Stored samples, as a history for the cost model, and the time of the next one.

use std::fs::{self, File, OpenOptions};
use std::io::{Read as _, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use hone_batch::cost::Point;
use hone_record::{BatchWatch, Envelope};
use hone_tool::interrupt;

/// Reads the samples that `hone batch watch --output` wrote, one per line, in the order of their times.
pub fn kept(files: &[PathBuf]) -> Result<Vec<BatchWatch>> {
    let mut all = Vec::new();
    for file in files {
        all.extend(read(file)?);
    }
    all.sort_by_key(|watch| watch.at_unix_ms);
    Ok(all)
}

fn read(file: &Path) -> Result<Vec<BatchWatch>> {
    let text = fs::read_to_string(file).with_context(|| format!("{} can't be read", file.display()))?;
    looks(&text, &file.display().to_string())
}

/// One sample per line. A partial line belongs to a killed writer, and is skipped.
fn looks(text: &str, file: &str) -> Result<Vec<BatchWatch>> {
    let lines = text.lines().zip(1_u64..).filter(|(line, _)| !line.trim().is_empty());
    let mut found = Vec::new();
    for (line, number) in lines {
        match serde_json::from_str::<serde::de::IgnoredAny>(line) {
            Err(error) if error.is_eof() => {}
            _ => found.push(Envelope::parse(line).with_context(|| {
                format!("line {number} of {file} is not a sample of `hone batch watch --output`")
            })?),
        }
    }
    if found.is_empty() && !text.trim().is_empty() {
        bail!(
            "{file} has no sample of `hone batch watch --output`\n  next: name the file that you gave to \
             --output"
        );
    }
    Ok(found)
}

/// The samples that have all the inputs of a cost model.
pub fn points(looks: &[BatchWatch]) -> Vec<Point> {
    looks.iter().filter_map(Point::of).collect()
}

/// Opens a file of samples to append to it. It first ends a partial line of a killed writer.
///
/// # Errors
/// When it can't be written.
pub fn open_kept(path: &Path) -> Result<File> {
    let mut file = OpenOptions::new()
        .create(true)
        .read(true)
        .append(true)
        .open(path)
        .with_context(|| format!("{} can't be written", path.display()))?;
    if ends_torn(&mut file).with_context(|| format!("{} can't be read", path.display()))? {
        writeln!(file).with_context(|| format!("{} can't be written", path.display()))?;
    }
    Ok(file)
}

/// Whether a writer was killed within its last line.
fn ends_torn(file: &mut File) -> std::io::Result<bool> {
    if file.seek(SeekFrom::End(0))? == 0 {
        return Ok(false);
    }
    file.seek(SeekFrom::End(-1))?;
    let mut last = [0];
    file.read_exact(&mut last)?;
    Ok(last != *b"\n")
}

/// One line per sample, so that samples can be appended for days and the file can still be read line by line. It uses one write,
/// so that only the last line can be partial.
///
/// # Errors
/// When it can't be written.
pub fn keep(file: &mut File, watch: &BatchWatch) -> Result<()> {
    let line = format!("{}\n", serde_json::to_string(&Envelope::new(watch.clone()))?);
    file.write_all(line.as_bytes()).context("can't store the sample")
}

/// How often a wait checks for an interruption.
const STEP: Duration = Duration::from_millis(50);

/// The next planned time. If it passed while a broker did not answer, the missed samples are skipped: several at once would give
/// rates over no time.
pub fn next_look(planned: Instant, every: Duration, now: Instant) -> Instant {
    let next = planned + every;
    if next > now { next } else { now + every }
}

/// Waits until the time. Returns whether there was no interruption.
pub fn wait_until(time: Instant) -> bool {
    while !interrupt::requested() {
        let left = time.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return true;
        }
        std::thread::sleep(left.min(STEP));
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_torn_line_is_left_out_and_a_foreign_one_is_told() {
        let line = |at_unix_ms| {
            let watch = BatchWatch { at_unix_ms, ..BatchWatch::default() };
            serde_json::to_string(&Envelope::new(watch)).unwrap()
        };
        let (one, other) = (line(1), line(2));
        let torn = format!("{one}\n{}\n{other}\n", &one[..one.len() / 2]);
        let times: Vec<u64> = looks(&torn, "f").unwrap().iter().map(|look| look.at_unix_ms).collect();
        assert_eq!(times, [1, 2]);
        let told = format!("{:#}", looks(&format!("{one}\n{{}}\n"), "f").unwrap_err());
        assert!(told.contains("line 2 of f"), "{told}");
        let told = looks("{\n", "f").unwrap_err().to_string();
        assert!(told.contains("f has no sample of"), "{told}");
        assert_eq!(looks("\n", "f").unwrap().len(), 0);
    }

    #[test]
    fn a_torn_line_is_ended_before_the_next_one() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("looks.jsonl");
        for expected in ["", "{\"torn", "{\"torn\n{}\n"] {
            drop(open_kept(&path).unwrap());
            let text = std::fs::read_to_string(&path).unwrap();
            assert_eq!(text.trim_end_matches('\n'), expected.trim_end_matches('\n'));
            let mut file = open_kept(&path).unwrap();
            file.write_all(if expected.is_empty() { b"{\"torn" } else { b"{}\n" }).unwrap();
        }
    }

    #[test]
    fn a_stall_is_not_made_up_for_by_looks_at_once() {
        let begun = Instant::now();
        let (every, at) = (Duration::from_secs(5), |seconds| begun + Duration::from_secs(seconds));
        assert_eq!(next_look(begun, every, at(1)), at(5), "the plan does not drift with the time of a look");
        assert_eq!(next_look(at(5), every, at(32)), at(37));
        assert_eq!(next_look(at(5), every, at(10)), at(15), "no two looks with no time between them");
    }
}
