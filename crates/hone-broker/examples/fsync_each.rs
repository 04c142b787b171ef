//! What one fsync a request costs on a disk: a thread that appends a few bytes and syncs them, again and again.
//!
//!     fsync_each DIR [BYTES] [SECONDS]
//!
//! It prints one line of JSON. The file it writes is removed.

use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};

fn main() -> Result<()> {
    let mut arguments = std::env::args_os().skip(1);
    let dir = PathBuf::from(arguments.next().context("usage: fsync_each DIR [BYTES] [SECONDS]")?);
    let mut number = |default: f64| {
        arguments
            .next()
            .map_or(Ok(default), |text| text.to_string_lossy().parse::<f64>().context("wanted a number"))
    };
    let (bytes, limit) = (number(170.0)? as usize, Duration::from_secs_f64(number(5.0)?));
    let path = dir.join("fsync_each");
    let appended = append(&path, bytes, limit);
    fs::remove_file(&path).with_context(|| format!("can't remove {}", path.display()))?;
    let (fsyncs, seconds) = appended.with_context(|| format!("can't append to {}", path.display()))?;
    writeln!(std::io::stdout(), r#"{{"fsyncs":{fsyncs},"seconds":{seconds},"bytes":{bytes}}}"#)?;
    Ok(())
}

fn append(path: &PathBuf, bytes: usize, limit: Duration) -> std::io::Result<(u64, f64)> {
    let mut file = OpenOptions::new().create(true).truncate(true).write(true).open(path)?;
    let record = vec![0x5a; bytes];
    let start = Instant::now();
    let mut fsyncs = 0;
    while start.elapsed() < limit {
        file.write_all(&record)?;
        file.sync_data()?;
        fsyncs += 1;
    }
    Ok((fsyncs, start.elapsed().as_secs_f64()))
}
