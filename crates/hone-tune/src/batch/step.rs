//! A step of a proof: `linger=20ms`, `acks=1`, `producers=4`, `topic.flush.messages=1`, or several that belong together.

use anyhow::{Context as _, Result, anyhow, bail};
use hone_batch::settings::{self, Client};
use hone_format::{FileError, in_plain_words, read_bytes, read_duration_s};
use hone_record::{BatchForetold, Body as _, Change, Engine, Envelope, WhatIf, Workload};
use serde::{Deserialize, Serialize};

use crate::producer;
use hone_experiment::change;
use hone_experiment::ending::Usage;

/// Kinds of changes of `hone compare` that change a load.
const KINDS: [&str; 3] = ["client", "load", "topic"];
/// Properties of a load that have a short name here: the name, the property, and how its value is read.
const OF_THE_LOAD: [(&str, &str, Value); 7] = [
    ("producers", "connections", Value::Count),
    ("partitions", "partitions", Value::Count),
    ("consumers", "consumers", Value::Count),
    ("fetch-min-bytes", "fetch_min_bytes", Value::Bytes),
    ("fetch-max-wait", "fetch_max_wait_ms", Value::Time),
    ("fetch-max-bytes", "fetch_max_bytes", Value::Bytes),
    ("max-partition-fetch-bytes", "max_partition_fetch_bytes", Value::Bytes),
];

/// The kind of a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Value {
    Count,
    Bytes,
    /// In milliseconds.
    Time,
}

impl Value {
    /// The value as the load writes it.
    fn read(self, text: &str) -> std::result::Result<u64, String> {
        let whole = || text.parse::<u64>().ok().filter(|count| *count > 0);
        match self {
            Self::Count => whole().ok_or_else(|| "use a whole number".to_owned()),
            Self::Bytes => read_bytes(text),
            Self::Time => read_duration_s(text).map(|seconds| (1e3 * seconds).round() as u64),
        }
    }
}

/// One step as given.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Step {
    /// As written.
    pub text: String,
    /// Its prediction from an earlier run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub foretold: Option<BatchForetold>,
}

/// A step's file: `[[step]]` tables with `set`, and optionally a prediction.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct StepsFile {
    step: Vec<StepTable>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct StepTable {
    set: String,
    #[serde(default, rename = "predicted", alias = "foretold")]
    foretold: Option<BatchForetold>,
}

/// The steps of a file's text.
///
/// # Errors
/// With the line.
pub fn of_file(text: &str, path: &std::path::Path) -> Result<Vec<Step>> {
    let file: StepsFile = toml::from_str(text).map_err(|error| FileError::of_toml(&error, text, path))?;
    file.step.into_iter().map(|table| Step::new(table.set, table.foretold)).collect()
}

impl Step {
    /// Reads all that is known without the load.
    ///
    /// # Errors
    /// When a part is not a setting, or its value is invalid.
    pub fn new(text: String, foretold: Option<BatchForetold>) -> Result<Self> {
        let step = Self { text, foretold };
        step.parsed()?;
        Ok(step)
    }

    /// The changes of the load, in the form of `hone compare`, with librdkafka's or Kafka's own names, depending on the engine.
    ///
    /// # Errors
    /// When the load's engine has no such setting.
    pub fn changes(&self, engine: &Engine) -> Result<Vec<Change>> {
        let Parsed { producer, others } = self.parsed()?;
        let mut changes = Vec::new();
        let of = |kind: &str, name: &str, to: String| Change {
            kind: kind.to_owned(),
            name: name.to_owned(),
            from: None,
            to,
            was: None,
        };
        if let Some(producer) = producer {
            // Settings of the topic alone are possible with every engine.
            let client = self.client(engine)?;
            let properties = settings::properties(client, &producer).unwrap_or_default();
            changes.extend(properties.into_iter().map(|(name, value)| of("client", name, value)));
            changes.extend(producer.codec.map(|codec| of("load", "compression", codec.name().to_owned())));
            changes.extend(producer.acks.map(|acks| of("load", "acks", acks.to_string())));
            changes.extend(
                producer.idempotent.map(|idempotent| of("load", "idempotent", idempotent.to_string())),
            );
        }
        changes.extend(others);
        Ok(changes)
    }

    /// The settings as written, without the values.
    pub fn names(&self) -> Vec<String> {
        let parts = parts(&self.text);
        parts.iter().filter_map(|part| Some(part.split_once('=')?.0.trim().to_owned())).collect()
    }

    fn client(&self, engine: &Engine) -> Result<Client> {
        match engine {
            Engine::Librdkafka { .. } => Ok(Client::Librdkafka),
            // Kafka's own names, which a program may accept or reject.
            Engine::Command { .. } => Ok(Client::Java),
            Engine::Wire | Engine::Tool { .. } | Engine::Exits { .. } => bail!(Usage(format!(
                "step `{}`: the engine `{}` makes its own batches; send by --client librdkafka or a command",
                self.text,
                engine.name()
            ))),
        }
    }

    /// Settings of the client that the step deletes, with their value: the step asks for the client's default.
    ///
    /// # Errors
    /// When the load's engine has no settings.
    pub fn removed(&self, engine: &Engine) -> Result<Vec<(&'static str, String)>> {
        let Some(producer) = self.parsed()?.producer else { return Ok(Vec::new()) };
        let client = self.client(engine)?;
        let (Engine::Librdkafka { settings } | Engine::Command { settings, .. }) = engine else {
            return Ok(Vec::new());
        };
        let names = settings::removed(client, &producer).iter();
        Ok(names.filter_map(|name| Some((*name, settings.get(*name)?.clone()))).collect())
    }

    /// Its settings for people, one by one.
    ///
    /// # Errors
    /// When the load's engine has no such setting.
    pub fn words(&self, engine: &Engine) -> Result<Vec<String>> {
        let changes = self.changes(engine)?;
        let removed = self.removed(engine)?;
        let removed = removed.iter().map(|(name, was)| format!("client.{name}: {was} -> not set"));
        Ok(changes.iter().map(Change::label).chain(removed).collect())
    }

    /// The load with this step.
    ///
    /// # Errors
    /// When that load is not possible.
    pub fn applied(&self, base: &Workload) -> Result<Workload> {
        let mut load = base.clone();
        let removed = self.removed(&base.engine)?;
        if let Engine::Librdkafka { settings } | Engine::Command { settings, .. } = &mut load.engine {
            removed.iter().for_each(|(name, _)| drop(settings.remove(*name)));
        }
        for change in self.changes(&base.engine)? {
            // A setting that has its value already is not part of the step. The caller checks whether
            // anything is left.
            if !is_so_already(&change, &load) {
                let both = change::workloads(&change, &load);
                let [_, changed] = both.with_context(|| format!("step `{}`", self.text))?;
                load = changed;
            }
        }
        Ok(load)
    }

    /// The options of `hone batch settings` for the parts that it knows, and the other parts as written.
    pub(crate) fn as_options(&self) -> (Vec<String>, Vec<String>) {
        let (mut options, mut others) = (Vec::new(), Vec::new());
        for part in parts(&self.text) {
            match part.split_once('=').map(|(word, value)| (word.trim(), value.trim())) {
                Some((word, value)) if producer::WORDS.contains(&word) => {
                    // The step's word is that of the client's own setting; the option has the name that all verbs have.
                    let option = if word == "codec" { "compression" } else { word };
                    options.extend([format!("--{option}"), value.to_owned()]);
                }
                _ => others.push(part),
            }
        }
        (options, others)
    }

    fn parsed(&self) -> Result<Parsed> {
        let mut producer = settings::Change::default();
        let mut others = Vec::new();
        let wrong = |problem: String| Usage(format!("step `{}`: {problem}", self.text));
        for part in parts(&self.text) {
            let (word, value) = part
                .split_once('=')
                .ok_or_else(|| wrong(format!("`{part}` has no `=`; write for example linger=20ms")))?;
            let (word, value) = (word.trim(), value.trim());
            if let Some((_, name, kind)) = OF_THE_LOAD.iter().find(|(own, ..)| *own == word) {
                let problem =
                    |problem: String| wrong(format!("invalid value of {word} `{value}`: {problem}"));
                let number = kind.read(value).map_err(problem)?;
                others.push(change::parse(&format!("load.{name}={number}"))?);
            } else if word.split_once('.').is_some_and(|(kind, _)| KINDS.contains(&kind)) {
                others.push(change::parse(&part)?);
            } else {
                producer::set(&mut producer, word, value).map_err(|problem| {
                    let names = OF_THE_LOAD.map(|(word, ..)| word).join(", ");
                    wrong(if problem.starts_with("unknown setting") {
                        format!("{problem}, {names}, and client.KEY, load.KEY, topic.KEY")
                    } else {
                        problem
                    })
                })?;
            }
        }
        let producer = (producer != settings::Change::default()).then_some(producer);
        if let Some(producer) = &producer {
            producer.check().map_err(|conflict| wrong(conflict.to_string()))?;
        }
        if producer.is_none() && others.is_empty() {
            bail!(wrong("it changes nothing; write for example linger=20ms".to_owned()));
        }
        Ok(Parsed { producer, others })
    }
}

struct Parsed {
    producer: Option<settings::Change>,
    others: Vec<Change>,
}

/// Parts between commas that start with a word and `=`. Any other comma belongs to the value before it.
fn parts(text: &str) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    for piece in text.split(',') {
        let begins = piece.split_once('=').is_some_and(|(word, _)| !word.trim().is_empty());
        match found.last_mut() {
            Some(last) if !begins => {
                last.push_str("\\,");
                last.push_str(piece);
            }
            _ => found.push(piece.trim().to_owned()),
        }
    }
    found.retain(|part| !part.is_empty());
    found
}

/// Whether a load has this value already.
fn is_so_already(change: &Change, load: &Workload) -> bool {
    let told = |value: Option<&String>| value == Some(&change.to);
    match (change.kind.as_str(), &load.engine) {
        ("topic", _) => told(load.topic_config.get(&change.name)),
        ("client", Engine::Librdkafka { settings } | Engine::Command { settings, .. }) => {
            told(settings.get(&change.name))
        }
        ("load", _) => {
            let fields = serde_json::to_value(load).unwrap_or_default();
            let now = fields.get(&change.name).map(|value| value.to_string().trim_matches('"').to_owned());
            now.is_some_and(|now| now == change.to || (now == "-1" && change.to == "all"))
        }
        _ => false,
    }
}

/// The change of the durability guarantee, where a step changes the meaning of an acknowledgement.
pub fn promise(changes: &[Change]) -> Option<String> {
    let told = changes.iter().find_map(|change| Some((change, change.promise()?)))?;
    let (change, promise) = told;
    Some(format!(
        "{} changes {promise}: before and after are two durability classes, so the difference includes the \
         cost of durability",
        change.label()
    ))
}

/// Reads the text of a record file as the prediction for a step.
///
/// # Errors
/// When it is not one.
pub fn foretold_of(text: &str, path: &std::path::Path) -> Result<BatchForetold> {
    let value: serde_json::Value =
        serde_json::from_str(text).with_context(|| format!("{} is not JSON", path.display()))?;
    if value.get("kind").and_then(serde_json::Value::as_str) == Some(WhatIf::KIND) {
        let whatif = Envelope::<WhatIf>::parse(text)
            .with_context(|| format!("{} is not a readable record", path.display()))?;
        return BatchForetold::of_whatif(&whatif)
            .map_err(|why| Usage(format!("{}: {why}", path.display())).into());
    }
    // A record holds its contents in its body, sometimes under a name.
    let body = value.get("body").unwrap_or(&value);
    let found = ["predicted", "foretold"].iter().find_map(|name| body.get(name)).unwrap_or(body);
    let mut foretold: BatchForetold = serde_json::from_value(found.clone()).map_err(|error| {
        let why = in_plain_words(&error.to_string());
        anyhow!("{} has no prediction about batches: {why}", path.display())
    })?;
    if foretold == BatchForetold::default() {
        bail!(Usage(format!(
            "{} has no prediction: batch_bytes, batches_per_s, requests_per_s and added_wait_ms are missing",
            path.display()
        )));
    }
    if foretold.source.is_empty() {
        foretold.source = path.display().to_string();
    }
    Ok(foretold)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use hone_record::{BatchFigures, Foreseen, ForeseenBatches};

    use super::*;
    use hone_experiment::spec::WorkloadFile;

    fn load() -> Workload {
        let engine = Engine::Librdkafka { settings: BTreeMap::new() };
        Workload { engine, ..WorkloadFile::default().named("w").unwrap() }
    }

    fn step(text: &str) -> Result<Step> {
        Step::new(text.to_owned(), None)
    }

    #[test]
    fn words_become_settings_of_the_client_and_properties_of_the_load() {
        let after = step("linger=20ms, batch-size=64KiB,acks=1,codec=lz4,producers=4")
            .unwrap()
            .applied(&load())
            .unwrap();
        let Engine::Librdkafka { settings } = &after.engine else { panic!("{after:?}") };
        let expected = [("batch.size", "65536"), ("linger.ms", "20")];
        assert_eq!(*settings, expected.map(|(name, value)| (name.to_owned(), value.to_owned())).into());
        assert_eq!((after.acks, &*after.compression, after.connections), (1, "lz4", 4));
        let reads = step("fetch-min-bytes=64KiB,fetch-max-wait=200ms").unwrap().applied(&load()).unwrap();
        assert_eq!((reads.fetch.fetch_min_bytes, reads.fetch.fetch_max_wait_ms), (65_536, 200));
        let java = Workload {
            engine: Engine::Command { command: vec!["c".to_owned()], settings: BTreeMap::new() },
            ..load()
        };
        let after = step("client.max.in.flight=3,topic.cleanup.policy=compact,delete")
            .unwrap()
            .applied(&java)
            .unwrap();
        assert_eq!(after.topic_config["cleanup.policy"], "compact,delete");
        let Engine::Command { settings, .. } = after.engine else { panic!("no command") };
        assert_eq!(settings["max.in.flight"], "3");
    }

    #[test]
    fn a_step_on_top_of_another_keeps_what_was_kept() {
        let first = step("linger=20ms").unwrap().applied(&load()).unwrap();
        let second = step("batch-size=64KiB").unwrap().applied(&first).unwrap();
        let Engine::Librdkafka { settings } = &second.engine else { panic!("{second:?}") };
        assert_eq!(settings.len(), 2);
        assert_eq!(step("linger=20ms").unwrap().applied(&second).unwrap(), second, "there is no difference");
        assert_eq!(step("acks=all").unwrap().applied(&second).unwrap(), second);
    }

    /// Java's own partitioner has no class name, so a configured class has to be removed.
    #[test]
    fn a_step_takes_away_what_stands_against_it() {
        let java = Engine::Command { command: vec!["c".to_owned()], settings: BTreeMap::new() };
        for (engine, name) in [(java, "partitioner.class"), (load().engine, "sticky.partitioning.linger.ms")]
        {
            let load = Workload { engine, ..load() };
            let spread = step("partitioner=round-robin").unwrap().applied(&load).unwrap();
            let sticky = step("partitioner=sticky").unwrap();
            let words = sticky.words(&spread.engine).unwrap();
            assert!(words.iter().any(|word| word.starts_with(&format!("client.{name}: "))), "{words:?}");
            assert!(words.iter().any(|word| word.ends_with("-> not set")), "{words:?}");
            let after = sticky.applied(&spread).unwrap();
            assert_ne!(after, spread, "{name}");
            let (Engine::Librdkafka { settings } | Engine::Command { settings, .. }) = &after.engine else {
                panic!("{after:?}")
            };
            assert!(!settings.contains_key(name), "{settings:?}");
        }
    }

    #[test]
    fn what_is_no_step_is_refused_before_anything_is_measured() {
        for (text, expected) in [
            ("", "changes nothing"),
            ("linger", "has no `=`"),
            ("lingr=5ms", "did you mean `linger`"),
            ("linger=5", "invalid duration `5`"),
            ("producers=0", "invalid value of producers"),
            ("acks=1,idempotence=true", "idempotence needs acks=all"),
            ("host.vm.swappiness=1", "unknown setting"),
            ("load.requests_per_s=5", ""),
        ] {
            let refused = step(text).and_then(|step| step.applied(&load()));
            let message = format!("{:#}", refused.unwrap_err());
            assert!(message.contains(expected), "{text}: {message}");
        }
        let wire = WorkloadFile::default().named("w").unwrap();
        let message = format!("{:#}", step("linger=5ms").unwrap().applied(&wire).unwrap_err());
        assert!(message.contains("makes its own batches"), "{message}");
    }

    #[test]
    fn another_durability_class_is_named() {
        let of = |text: &str| promise(&step(text).unwrap().changes(&load().engine).unwrap());
        assert_eq!(of("linger=5ms"), None);
        assert!(of("acks=1").unwrap().contains("two durability classes"));
        assert!(of("topic.write.caching=true").unwrap().contains("safe from a power cut"));
    }

    #[test]
    fn steps_come_from_a_file_too() {
        let path = std::path::Path::new("steps.toml");
        let text = "[[step]]\nset = \"linger=5ms\"\n[step.foretold]\nsource = \"whatif\"\nbatch_bytes = 4000.0\n[[step]]\nset = \"acks=1\"\n";
        let steps = of_file(text, path).unwrap();
        assert_eq!(steps.len(), 2);
        assert_eq!(steps[0].foretold.as_ref().unwrap().batch_bytes.unwrap().value, 4_000.0);
        assert!(
            of_file("[[step]]\nsett = \"linger=5ms\"", path).unwrap_err().to_string().contains("steps.toml")
        );
        for name in ["predicted", "foretold"] {
            let text =
                format!(r#"{{"hone_record":1,"kind":"what-if","body":{{"{name}":{{"batch_bytes":9.5}}}}}}"#);
            let found = foretold_of(&text, path).unwrap();
            assert_eq!((found.batch_bytes.unwrap().value, &*found.source), (9.5, "steps.toml"));
        }
        let error = foretold_of(r#"{"batch_bytes":"many"}"#, path).unwrap_err().to_string();
        assert!(error.ends_with("write a number, or a table with value, low and high"), "{error}");
        assert!(foretold_of("{}", path).is_err() && foretold_of("x", path).is_err());
    }

    /// A complete record, as `hone batch whatif --json` writes it.
    #[test]
    fn what_a_whatif_foresees_is_foretold_with_its_range() {
        let today = figures(1_000.0, 300.0, Some(2.5));
        let foreseen = |value: f64| Foreseen { value, low: 0.9 * value, high: 1.2 * value };
        let whatif = WhatIf {
            topic: "orders".to_owned(),
            partitions: 3,
            window_s: 60.0,
            records: 60_000,
            change: "linger 20 ms".to_owned(),
            producers: Vec::new(),
            more_producers: 0,
            today: figures(1_010.0, 298.0, None),
            replayed: Some(today),
            predicted: Some(ForeseenBatches {
                figures: figures(200.0, 1_400.0, Some(12.5)),
                batches_per_s: foreseen(200.0),
                requests_per_s: foreseen(100.0),
                bytes_per_s: foreseen(280_000.0),
                batch_bytes_mean: foreseen(1_400.0),
                wait_ms_mean: foreseen(12.5),
                wait_ms_p50: foreseen(12.0),
                wait_ms_p99: foreseen(20.0),
                replays: 40,
            }),
            refused: None,
            cheapest: Vec::new(),
            advice: None,
            batches_packed: 10,
            notes: Vec::new(),
        };
        let path = std::path::Path::new("whatif.json");
        let of = |whatif: &WhatIf| {
            foretold_of(&serde_json::to_string(&Envelope::new(whatif.clone())).unwrap(), path)
        };
        let told = of(&whatif).unwrap();
        assert_eq!(told.batches_per_s, Some(foreseen(200.0)));
        assert_eq!(told.batch_bytes, Some(foreseen(1_400.0)));
        assert_eq!(told.requests_per_s, Some(foreseen(100.0)));
        // The wait by the rules, minus the current wait by the same rules.
        let wait = told.added_wait_ms.unwrap();
        assert_eq!((wait.value, wait.low, wait.high), (10.0, 8.75, 12.5));
        assert_eq!(told.before.unwrap().batches_per_s, Some(1_000.0));
        assert!(told.source.contains("orders") && told.source.contains("linger 20 ms"), "{}", told.source);
        let refused = WhatIf { refused: Some("today does not come out".to_owned()), ..whatif.clone() };
        assert!(of(&refused).unwrap_err().to_string().contains("today does not come out"));
        let nothing = WhatIf { predicted: None, ..whatif };
        assert!(of(&nothing).unwrap_err().to_string().contains("--linger 20ms"));
    }

    fn figures(batches_per_s: f64, batch_bytes_mean: f64, wait_ms_mean: Option<f64>) -> BatchFigures {
        BatchFigures {
            batches_per_s,
            requests_per_s: wait_ms_mean.map(|_| batches_per_s / 2.0),
            bytes_per_s: batches_per_s * batch_bytes_mean,
            records_per_batch: 1_000.0 / batches_per_s,
            batch_bytes_mean,
            batch_bytes_p50: batch_bytes_mean as u64,
            batch_bytes_p90: batch_bytes_mean as u64,
            wait_ms_mean,
            wait_ms_p50: wait_ms_mean,
            wait_ms_p99: wait_ms_mean,
            header_share: 0.1,
            write_amplification_most: 4.0,
            sent_by: None,
            memory_bytes: None,
            would_wait: None,
        }
    }
}
