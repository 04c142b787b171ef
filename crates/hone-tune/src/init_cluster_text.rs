//! What `hone init HOST:PORT` saw and wrote, as text.

use std::path::PathBuf;

use hone_format::{count, measured};
use serde::Serialize;

use crate::init_text::{ToFillIn, lines_to_fill_in};
use hone_document::table::table;
use hone_document::wrapped;

/// What was seen and written.
#[derive(Debug, Serialize)]
pub struct WrittenOfCluster {
    /// The address that was asked.
    pub cluster: String,
    /// Topics by the records that they got, the busiest first.
    pub topics: Vec<SeenTopic>,
    /// The topic that the file is for, and why.
    pub topic: String,
    /// Why this topic.
    pub why: String,
    /// The file's path.
    pub file: PathBuf,
    /// The records beside it; `None` where the load is of finished batches.
    pub recording: Option<PathBuf>,
    /// How many producers wrote to it, where that can be told.
    pub producers: Option<u32>,
    /// What is left to the user.
    pub fill_in: Vec<ToFillIn>,
    /// What a reader has to know of it, in sentences.
    pub notes: Vec<String>,
}

/// A topic of the cluster.
#[derive(Debug, Clone, Serialize)]
pub struct SeenTopic {
    /// The topic's name.
    pub topic: String,
    /// Partitions of it.
    pub partitions: usize,
    /// Records a second of the X-ray; where there is none, offsets a second while Hone watched.
    pub records_per_s: f64,
    /// What the X-ray found; `None` for topics that it did not look into.
    pub batches_per_s: Option<f64>,
    /// Mean bytes of a batch.
    pub bytes_per_batch: Option<f64>,
    /// The X-ray's verdict.
    pub verdict: Option<&'static str>,
}

/// Topics that are listed.
const MOST_LISTED: usize = 20;

/// The topics, which one was chosen and why, and what is left to the user.
pub fn text(found: &WrittenOfCluster) -> String {
    let head = ["topic", "partitions", "records/s", "batches/s", "bytes/batch", "verdict"];
    let mut rows = vec![head.map(str::to_owned).to_vec()];
    rows.extend(found.topics.iter().take(MOST_LISTED).map(|topic| row(topic, &found.topic)));
    let mut out = format!(
        "Topics of {}. Hone X-rayed those with a verdict; of the others, records/s are offsets per second:\n{}",
        found.cluster,
        table(&rows)
    );
    let more = found.topics.len().saturating_sub(MOST_LISTED);
    if more > 0 {
        out.push_str(&format!("  and {} more\n", count(more as u64)));
    }
    out.push_str(&format!("\n{}\n", wrapped(&format!("Topic {}: {}.", found.topic, found.why))));
    if let Some(producers) = found.producers {
        out.push_str(&format!("Producers that the load replicates: {producers}\n"));
    }
    found.notes.iter().for_each(|note| out.push_str(&format!("note: {}\n", wrapped(note))));
    out.push_str(&format!("\nWritten: {}\n", found.file.display()));
    if let Some(recording) = &found.recording {
        out.push_str(&format!("Written: {} (the topic's records, without contents)\n", recording.display()));
    }
    out.push_str(&lines_to_fill_in(&found.fill_in));
    out.push_str(&format!("Then: hone tune {} --dry-run\n", found.file.display()));
    if found.topics.len() > 1 {
        out.push_str("For another topic: --topic NAME --output FILE\n");
    }
    out
}

fn row(topic: &SeenTopic, chosen: &str) -> Vec<String> {
    let or_dash = |value: Option<f64>| value.map_or("-".to_owned(), measured);
    let mark = if topic.topic == chosen { " *" } else { "" };
    vec![
        format!("{}{mark}", topic.topic),
        topic.partitions.to_string(),
        measured(topic.records_per_s),
        or_dash(topic.batches_per_s),
        or_dash(topic.bytes_per_batch),
        topic.verdict.unwrap_or("-").to_owned(),
    ]
}
