//! A topic's load, read once and sent again.

use std::fmt::Write as _;
use std::time::Duration;

use anyhow::{Result, bail};
use hone_batch::replica::{Placing, Writers};
use hone_batch::whatif::client::Client;
use hone_load::{Security, TopicLoad, Topics, topic_load};
use hone_record::{Engine, Recording, Workload};

use super::prove::ProofSettings;
use super::replica::{self, Today};
use hone_experiment::arm::is_address;
use hone_experiment::ending::Usage;
use hone_experiment::folder::RunFolder;
use hone_experiment::notation::Written;
use hone_experiment::progress::Progress;

/// The options on the command line, which take precedence, and the progress.
pub type Asker<'a> = (&'a dyn Fn(&str) -> bool, &'a Progress);

/// A topic's load, to be sent again.
pub struct Recorded {
    topic: String,
    load: TopicLoad,
    /// Its producers, or the reason why they can't be replicated. In that case the load has the topic's arrivals, and records of
    /// their mean size.
    writers: Result<Writers, String>,
}

/// Options that the recording sets for each record.
const OF_EACH_RECORD: [&str; 4] = ["bytes", "sizes", "keys", "payload"];

/// Reads a topic's last records and detects its producers.
///
/// # Errors
/// When the topic can't be read.
pub fn record(
    topic: &str,
    broker: Option<&str>,
    asked: &ProofSettings,
    security: &Security,
    (is_given, progress): Asker<'_>,
) -> Result<Recorded> {
    if is_given("rate") {
        bail!(Usage(
            "--rate and --topic exclude each other: a recording has the arrivals of its topic\n  next: \
             remove one of them"
                .to_owned()
        ));
    }
    let broker = match broker {
        Some(broker) => broker.to_owned(),
        None if is_address(&asked.place) => asked.place.clone(),
        None => bail!(Usage(format!(
            "the broker of topic {topic} is not known\n  next: name it with \
             --source-broker HOST:PORT"
        ))),
    };
    progress.doing(&format!("reading {topic}"));
    let stretch_s = asked.workload.duration_s;
    let load = topic_load(&broker, security, topic, Duration::from_secs_f64(stretch_s))?;
    let writers = match OF_EACH_RECORD.iter().find(|option| is_given(option)) {
        Some(option) => Err(format!("--{option} sets the shape of the records")),
        None => {
            let newest_ms = load.times_ns.last().map_or(0, |time_ns| (time_ns / 1_000_000) as i64);
            let client = match &asked.workload.engine {
                Engine::Librdkafka { .. } => Client::Librdkafka,
                _ => Client::Java4,
            };
            progress.doing(&format!("reading the producers of {topic}"));
            Topics::enter(&broker, security)
                .map_err(anyhow::Error::from)
                .and_then(|mut topics| replica::describe(&mut topics, topic, newest_ms, stretch_s, client))
                .map_err(|error| format!("{error:#}"))
        }
    };
    Ok(Recorded { topic: topic.to_owned(), load, writers })
}

impl Recorded {
    /// Applies the producers, their settings, partitions and codec. Options on the command line take precedence.
    ///
    /// # Errors
    /// When that load is not possible.
    pub fn shape(&self, asked: &mut ProofSettings, (is_given, progress): Asker<'_>) -> Result<()> {
        let (load, workload) = (&self.load, &mut asked.workload);
        if !is_given("partitions") {
            workload.partitions = load.partitions;
        }
        workload.requests_per_s = load.times_ns.len() as f64 / workload.duration_s;
        // Until the recording is written: the same rate, evenly spread.
        workload.schedule = hone_record::Schedule::Uniform;
        match &self.writers {
            Ok(writers) => {
                replica::shape(writers, workload, |option| is_given(option))?;
                asked.limits.extend(self.limits(writers));
            }
            Err(why) => {
                self.shape_of_means(workload, is_given);
                asked.limits.push(format!(
                    "The producers of {} are not replicated: {why}. The load has the topic's arrivals, and \
                     each record has the mean size of the topic's ({:.0} bytes). Keys are drawn with equal \
                     probability, so this load has no hot partition.",
                    self.topic, load.record_bytes
                ));
            }
        }
        asked.load = format!(
            "the last {} s of topic {}: {} records of {:.0} bytes on average by {} producers to {} \
             partitions, {}",
            workload.duration_s,
            self.topic,
            hone_format::count(load.times_ns.len() as u64),
            load.record_bytes,
            workload.connections,
            workload.partitions,
            if load.keyed_share >= 0.5 { "keyed" } else { "without keys" }
        );
        asked.limits.extend(load.notes.iter().cloned());
        load.notes.iter().for_each(|note| progress.line(note));
        Ok(())
    }

    fn shape_of_means(&self, workload: &mut Workload, is_given: &dyn Fn(&str) -> bool) {
        let load = &self.load;
        if !is_given("bytes") {
            workload.record_bytes = load.record_bytes.round().max(1.0) as u32;
        }
        if !is_given("compression") {
            load.codec.name().clone_into(&mut workload.compression);
        }
        if !is_given("keys") && load.keyed_share >= 0.5 {
            workload.keys = hone_record::Keys::Uniform { distinct: load.distinct_keys.max(1) };
        }
    }

    /// What a replica of these producers can't show.
    fn limits(&self, writers: &Writers) -> Vec<String> {
        let topic = &self.topic;
        let mut limits = vec![format!(
            "The load replicates {topic}'s producers: the arrivals in whole milliseconds, and the sizes and \
             partitions of the records. A producer that waits for answers would send at other times under \
             another setting; a recording can't show that. It has no contents: values compress like the \
             topic's do now, whatever the size of the batch."
        )];
        if let Some(nameless) = writers.doubts.nameless {
            limits.push(format!(
                "At least {nameless} producers of {topic} have no id. There may be more: Hone can only count \
                 them where their batches overlap (--connections sets their number)."
            ));
        }
        if writers.placing == Placing::Forced {
            limits.push(format!(
                "Records of {topic} without a key get one here, which puts them into their original \
                 partition. So a step that changes partitions or the partitioner shows nothing about the \
                 topic."
            ));
        }
        limits
    }

    /// The current topic, for the check of its replica.
    pub fn today(&self) -> Option<Today> {
        let writers = self.writers.as_ref().ok()?;
        Some(Today { topic: self.topic.clone(), figures: writers.figures, doubts: writers.doubts.clone() })
    }

    /// Copies the records into the run's folder, from which every window reads them.
    pub(super) fn write(&self, workload: &mut Workload, folder: &RunFolder) -> Result<()> {
        let path = match &self.writers {
            Ok(writers) => {
                let path = folder.write_text("recording.txt", &replica::recording(writers))?;
                let recording = Recording { path: path.display().to_string(), sha256: String::new() };
                workload.recording = Some(recording);
                path
            }
            Err(_) => folder.write_text("arrivals.txt", &self.arrivals()?)?,
        };
        let schedule = format!("replay:{}", path.display()).parse::<Written<hone_record::Schedule>>();
        workload.schedule = schedule.map_err(Usage)?.0;
        Ok(())
    }

    fn arrivals(&self) -> Result<String> {
        let first = self.load.times_ns.first().copied().unwrap_or_default();
        let mut text = String::with_capacity(self.load.times_ns.len() * 12);
        for time_ns in &self.load.times_ns {
            let since = time_ns - first;
            writeln!(text, "{}.{:09}", since / 1_000_000_000, since % 1_000_000_000)?;
        }
        Ok(text)
    }
}
