//! The output of `hone init HOST:PORT`: its findings and the files that it wrote.

use std::path::PathBuf;

use hone_format::{count, measured};
use serde::Serialize;

use crate::init_text::{ToFillIn, lines_to_fill_in};
use hone_document::table::table;
use hone_document::wrapped;

/// The findings and the written files.
#[derive(Debug, Serialize)]
pub struct WrittenOfCluster {
    /// The address of the broker.
    pub cluster: String,
    /// Topics by the records that they received, the busiest first.
    pub topics: Vec<SeenTopic>,
    /// The topic of the file.
    pub topic: String,
    /// The reason for choosing this topic.
    pub why: String,
    /// The file's path.
    pub file: PathBuf,
    /// The recording; `None` if the load sends finished batches.
    pub recording: Option<PathBuf>,
    /// Number of its producers, where it is known.
    pub producers: Option<u32>,
    /// The values that you have to fill in.
    pub fill_in: Vec<ToFillIn>,
    /// Notes for the reader, in sentences.
    pub notes: Vec<String>,
}

/// A topic of the cluster.
#[derive(Debug, Clone, Serialize)]
pub struct SeenTopic {
    /// The topic's name.
    pub topic: String,
    /// Number of its partitions.
    pub partitions: usize,
    /// Records per second from the X-ray, or else new offsets per second.
    pub records_per_s: f64,
    /// The result of the X-ray; `None` for topics without one.
    pub batches_per_s: Option<f64>,
    /// Mean bytes per batch.
    pub bytes_per_batch: Option<f64>,
    /// The X-ray's verdict.
    pub verdict: Option<&'static str>,
}

/// Number of topics in the list.
const MOST_LISTED: usize = 20;

/// The topics, the choice with its reason, and the values that you have to fill in.
pub fn text(found: &WrittenOfCluster) -> String {
    let head = ["topic", "partitions", "records/s", "batches/s", "bytes/batch", "verdict"];
    let mut rows = vec![head.map(str::to_owned).to_vec()];
    rows.extend(found.topics.iter().take(MOST_LISTED).map(|topic| row(topic, &found.topic)));
    let mut out = format!(
        "Topics of {}. Those with a verdict were X-rayed. For the others, records/s are offsets per \
         second:\n{}",
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
    out.push_str(&format!("Next: hone tune {} --dry-run\n", found.file.display()));
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
