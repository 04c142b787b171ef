//! `KIND.NAME=VALUE`: the single difference between A and B when both use the same target.

use std::collections::BTreeMap;

use anyhow::{Result, bail};
use hone_record::{Change, ClientFacts, Engine, Payload, Workload};
use serde_json::Value;

use crate::arm::Place;
use crate::ending::Usage;
use crate::jvm;
use crate::spec::{Acks, DEFAULT_IN_FLIGHT, IN_FLIGHT_IS_THE_WIRES, LINES_HAVE_THEIR_SIZES};

/// Kinds of changes, with an example each.
const KINDS: [(&str, &str); 8] = [
    ("client", "client.linger.ms=5"),
    ("load", "load.acks=1"),
    ("topic", "topic.compression.type=zstd"),
    ("broker", "broker.log.flush.interval.messages=1"),
    ("host", "host.vm.swappiness=1"),
    ("env", "env.MALLOC_ARENA_MAX=1"),
    ("arg", "arg.--threads=1"),
    ("jvm", "jvm.gc=zgc"),
];

/// Properties of the load that may differ. The ones that determine the arrivals (rate, schedule, length, seed, warm-up) are not
/// included: both arms replay the same arrivals.
pub const LOAD: [&str; 14] = [
    "acks",
    "compression",
    "connections",
    "consumers",
    "fetch_max_bytes",
    "fetch_max_wait_ms",
    "fetch_min_bytes",
    "idempotent",
    "in_flight",
    "max_partition_fetch_bytes",
    "partitions",
    "partitions_per_request",
    "record_bytes",
    "records_per_batch",
];

/// Reads a change. `NAME=OLD,NEW` sets both sides; a comma inside a value is written `\,`.
///
/// # Errors
/// When Hone does not know such a change.
pub fn parse(text: &str) -> Result<Change> {
    let examples = || KINDS.map(|(_, example)| example).join(", ");
    let Some((place, value)) = text.split_once('=') else {
        bail!(Usage(format!(
            "--change `{text}` has no `=`; write KIND.NAME=VALUE, for example {}",
            examples()
        )));
    };
    let kind_and_name = place.split_once('.').filter(|(kind, name)| !name.is_empty() && is_kind(kind));
    let Some((kind, name)) = kind_and_name else {
        bail!(Usage(format!(
            "--change `{text}` has no known kind and name; write for example {}",
            examples()
        )));
    };
    let (from, to) = match &split(value)[..] {
        [to] => (None, to.clone()),
        [from, to] => (Some(from.clone()), to.clone()),
        _ => bail!(Usage(format!(
            "--change `{text}` has more than one comma: NAME=OLD,NEW sets both sides; write `\\,` for a \
             comma inside a value"
        ))),
    };
    if from.as_ref() == Some(&to) {
        bail!(Usage(format!("--change `{text}` sets both sides to `{to}`: there would be no difference")));
    }
    Ok(Change { kind: kind.to_owned(), name: name.to_owned(), from, to, was: None })
}

/// Parts between commas. A comma after a backslash belongs to its part.
fn split(value: &str) -> Vec<String> {
    let mut parts = vec![String::new()];
    let mut letters = value.chars().peekable();
    while let Some(letter) = letters.next() {
        match letter {
            '\\' if letters.peek() == Some(&',') => {
                parts.last_mut().into_iter().for_each(|part| part.push(','));
                letters.next();
            }
            ',' => parts.push(String::new()),
            letter => parts.last_mut().into_iter().for_each(|part| part.push(letter)),
        }
    }
    parts
}

/// The kinds of changes.
pub fn kinds() -> impl Iterator<Item = &'static str> {
    KINDS.iter().map(|(kind, _)| *kind)
}

/// Whether a kind of change has this name.
pub fn is_kind(kind: &str) -> bool {
    kinds().any(|known| known == kind)
}

/// The loads of both arms.
///
/// # Errors
/// When the load has no such property, or the value is invalid.
pub fn workloads(change: &Change, workload: &Workload) -> Result<[Workload; 2]> {
    let with = |value: &str| {
        let mut changed = workload.clone();
        match change.kind.as_str() {
            "topic" => {
                changed.topic_config.insert(change.name.clone(), value.to_owned());
            }
            "client" => {
                client_settings(&mut changed, &change.name)?.insert(change.name.clone(), value.to_owned());
            }
            "load" => changed = with_property(workload, &change.name, value)?,
            _ => {}
        }
        anyhow::Ok(changed)
    };
    let mut a = change.from.as_deref().map_or_else(|| Ok(workload.clone()), with)?;
    let b = with(&change.to)?;
    if change.kind == "client" {
        // The question is about a client, so the other side also uses it, with the default of this setting.
        client_settings(&mut a, &change.name)?;
    }
    if matches!(change.kind.as_str(), "topic" | "client" | "load") && a == b {
        bail!(Usage(format!(
            "--change: {}.{} is `{}` without the change, too: there would be no difference",
            change.kind, change.name, change.to
        )));
    }
    Ok([a, b])
}

/// The settings of the load's client. A load without one gets librdkafka, unless that would drop settings of the wire engine.
/// `name` is the setting's name, for the error.
fn client_settings<'a>(workload: &'a mut Workload, name: &str) -> Result<&'a mut BTreeMap<String, String>> {
    if workload.engine == Engine::Wire {
        if workload.in_flight != DEFAULT_IN_FLIGHT {
            bail!(Usage(format!("--change client.{name}: {IN_FLIGHT_IS_THE_WIRES}")));
        }
        workload.engine = Engine::Librdkafka { settings: BTreeMap::new() };
    }
    match &mut workload.engine {
        Engine::Librdkafka { settings } | Engine::Command { settings, .. } => Ok(settings),
        Engine::Wire => bail!("the wire engine has no client settings"),
        Engine::Tool { .. } | Engine::Exits { .. } => {
            bail!(Usage(
                "--change client.*: a load of counted operations has no client settings; change its command"
                    .to_owned()
            ))
        }
    }
}

/// The workload with one property set, through its file format: names and types are those of a record.
fn with_property(workload: &Workload, name: &str, value: &str) -> Result<Workload> {
    if !LOAD.contains(&name) {
        bail!(Usage(format!(
            "--change load.{name}: unknown property; the properties are {}; both arms replay the same \
             arrivals",
            LOAD.join(", ")
        )));
    }
    if name == "in_flight" && workload.engine != Engine::Wire {
        bail!(Usage(format!("--change load.in_flight: {IN_FLIGHT_IS_THE_WIRES}")));
    }
    if name == "record_bytes" && matches!(workload.payload, Payload::File { .. }) {
        bail!(Usage(format!("--change load.record_bytes: {LINES_HAVE_THEIR_SIZES}")));
    }
    if name == "record_bytes" && workload.recording.is_some() {
        bail!(Usage("--change load.record_bytes: a recording sets the sizes of its records".to_owned()));
    }
    let mut fields = serde_json::to_value(workload)?;
    let value = match name {
        "acks" => value.parse::<Acks>().map(|acks| Value::from(acks.0)).map_err(Usage)?,
        "compression" => Value::from(value),
        _ => serde_json::from_str(value).unwrap_or_else(|_| Value::from(value)),
    };
    fields[name] = value.clone();
    serde_json::from_value(fields).map_err(|error| {
        let why = hone_format::in_plain_words(&error.to_string());
        Usage(format!("--change load.{name}={value}: {why}")).into()
    })
}

/// The places of both arms. An environment variable, an argument or a setting of the virtual machine differs in B, or on both sides.
///
/// # Errors
/// When the arms are not commands, or the command has the value already.
pub fn places(change: &Change, place: &Place) -> Result<[Place; 2]> {
    let with = |value: &str| placed(change, value, place);
    let a = change.from.as_deref().map_or_else(|| Ok(place.clone()), with)?;
    let b = with(&change.to)?;
    if matches!(change.kind.as_str(), "env" | "arg" | "jvm") && a == b {
        bail!(Usage(format!(
            "--change: {}.{} is `{}` without the change, too: there would be no difference",
            change.kind, change.name, change.to
        )));
    }
    Ok([a, b])
}

/// Rejects a change to the value that is in force already.
///
/// # Errors
/// With that value.
pub fn differs_from_what_was(change: &Change) -> Result<()> {
    match &change.was {
        Some(was) if change.from.is_none() && *was == change.to => bail!(Usage(format!(
            "--change: {}.{} is `{was}` already: there would be no difference\n  next: {}",
            change.kind,
            change.name,
            another_value(change)
        ))),
        _ => Ok(()),
    }
}

/// Rejects a change of a topic's property to the value that A's topic has by default. `in_force` comes from A's broker.
///
/// # Errors
/// With that value.
pub fn differs_from_default(change: &Change, in_force: Option<&str>) -> Result<()> {
    if change.from.is_some() || in_force != Some(change.to.as_str()) {
        return Ok(());
    }
    bail!(Usage(format!(
        "--change: topic.{} is `{}` in A's topic without the change, too: there would be no \
         difference\n  next: {}",
        change.name,
        change.to,
        another_value(change)
    )))
}

/// The next step for a change without effect.
fn another_value(change: &Change) -> String {
    match change.from {
        Some(_) => "name two different values".to_owned(),
        None => format!("name another value, or both sides as {}.{}=OLD,NEW", change.kind, change.name),
    }
}

/// Rejects a change of the client's settings that leaves its effective settings the same: the value is its default, or another
/// setting overrides it. `a` and `b` are the client's reports from the first A/B pair.
///
/// # Errors
/// With the value that is in force in both arms.
pub fn differs_in_force(change: &Change, a: &ClientFacts, b: &ClientFacts) -> Result<()> {
    if change.kind != "client" || a.settings.is_empty() || a.settings != b.settings {
        return Ok(());
    }
    let name = &change.name;
    let value = a.settings.get(name).map_or_else(
        || {
            format!(
                "{} reports the same effective settings with and without {name}={}",
                a.software, change.to
            )
        },
        |value| format!("{name} is `{value}` in {} without the change, too", a.software),
    );
    bail!(Usage(format!("--change: {value}: there is no difference\n  next: {}", another_value(change))))
}

/// A place with this value of the change.
///
/// # Errors
/// When it is not a command.
pub fn placed(change: &Change, value: &str, place: &Place) -> Result<Place> {
    let mut changed = place.clone();
    match (&mut changed, change.kind.as_str()) {
        (Place::Program(program), "env") => {
            program.env.insert(change.name.clone(), value.into());
        }
        (Place::Program(program), "arg") => {
            program.args = with_argument(&program.args, &change.name, value);
        }
        (Place::Program(program), "jvm") => {
            *program = jvm::program_with(program, &change.name, value)?;
        }
        (Place::Address(address), kind @ ("env" | "arg" | "jvm")) => bail!(Usage(format!(
            "--change {kind}.{}: {address} runs already, so its {} can't change; name the command that \
             starts it",
            change.name,
            if kind == "env" { "environment" } else { "command line" }
        ))),
        _ => {}
    }
    Ok(changed)
}

/// Replaces the value of a flag (`--flag VALUE` or `--flag=VALUE`), or adds it. A new flag goes to the end with its value. A flag
/// without a value is added alone.
fn with_argument(args: &[String], flag: &str, value: &str) -> Vec<String> {
    let mut args = args.to_vec();
    let joined = format!("{flag}=");
    if let Some(found) = args.iter_mut().find(|arg| arg.starts_with(&joined)) {
        *found = format!("{joined}{value}");
        return args;
    }
    match args.iter().position(|arg| arg == flag) {
        Some(_) if value.is_empty() => {}
        Some(index) => match args.get_mut(index + 1).filter(|next| is_value(next)) {
            Some(next) => value.clone_into(next),
            None => args.insert(index + 1, value.to_owned()),
        },
        None => args.extend([flag, value].into_iter().filter(|word| !word.is_empty()).map(str::to_owned)),
    }
    args
}

/// Whether the word after a flag is its value and not the next flag. A negative number is a value.
fn is_value(word: &str) -> bool {
    !word.starts_with('-') || word.parse::<f64>().is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::WorkloadFile;

    fn workload() -> Workload {
        WorkloadFile::default().named("w").unwrap()
    }

    #[test]
    fn kinds_names_and_values_are_told_apart() {
        let check = |text: &str, kind: &str, name: &str, from: Option<&str>, to: &str| {
            let from = from.map(str::to_owned);
            let expected = Change { kind: kind.into(), name: name.into(), from, to: to.into(), was: None };
            assert_eq!(parse(text).unwrap(), expected);
        };
        check("client.linger.ms=5", "client", "linger.ms", None, "5");
        check("client.linger.ms=0,5", "client", "linger.ms", Some("0"), "5");
        check("host./proc/sys/vm/swappiness=1", "host", "/proc/sys/vm/swappiness", None, "1");
        check("topic.cleanup.policy=compact", "topic", "cleanup.policy", None, "compact");
        check("env.LIST=a\\,b", "env", "LIST", None, "a,b");
        check("arg.--threads=1,2", "arg", "--threads", Some("1"), "2");
        check("arg.--listen=x=y", "arg", "--listen", None, "x=y");
        for (text, expected) in [
            ("linger.ms=5", "has no known kind and name"),
            ("client.linger.ms", "has no `=`"),
            ("topic.=1", "has no known kind and name"),
            ("load.acks=1,1", "there would be no difference"),
            ("env.LIST=a,b,c", "more than one comma"),
        ] {
            let message = parse(text).unwrap_err().to_string();
            assert!(message.contains(expected), "{text}: {message}");
        }
    }

    #[test]
    fn a_property_of_the_load_differs_in_b_alone_or_in_both() {
        let of = |text: &str| workloads(&parse(text).unwrap(), &workload());
        let [a, b] = of("load.acks=1").unwrap();
        assert_eq!((a.acks, b.acks), (-1, 1));
        let [a, b] = of("load.acks=1,0").unwrap();
        assert_eq!((a.acks, b.acks), (1, 0));
        let [a, b] = of("load.records_per_batch=10").unwrap();
        assert_eq!((a.records_per_batch, b.records_per_batch, a.seed), (1, 10, b.seed));
        let [a, b] = of("topic.flush.messages=1").unwrap();
        assert_eq!((a.topic_config.len(), &*b.topic_config["flush.messages"]), (0, "1"));
        for (text, expected) in [
            ("load.acks=all", "there would be no difference"),
            ("load.acks=2", "0, 1 or all"),
            ("load.requests_per_s=5", "both arms replay the same arrivals"),
            ("load.records_per_batch=many", "\"many\" is a text; write a whole number"),
        ] {
            let message = format!("{:#}", of(text).unwrap_err());
            assert!(message.contains(expected), "{text}: {message}");
        }
    }

    #[test]
    fn what_a_client_does_not_hear_of_is_no_change() {
        let load = Workload { engine: Engine::Librdkafka { settings: BTreeMap::new() }, ..workload() };
        let message = workloads(&parse("load.in_flight=1,16").unwrap(), &load).unwrap_err().to_string();
        assert!(message.contains("max.in.flight.requests.per.connection"), "{message}");
        let [a, b] = workloads(&parse("load.in_flight=1,16").unwrap(), &workload()).unwrap();
        assert_eq!((a.in_flight, b.in_flight), (1, 16));
        let asked = Workload { in_flight: DEFAULT_IN_FLIGHT + 1, ..workload() };
        let message = workloads(&parse("client.linger.ms=5").unwrap(), &asked).unwrap_err().to_string();
        assert!(message.contains("max.in.flight.requests.per.connection"), "{message}");
    }

    #[test]
    fn the_lines_of_a_file_get_no_other_size() {
        let file = WorkloadFile { payload: "file:docs".to_owned(), ..WorkloadFile::default() };
        let load = file.named("w").unwrap();
        let message = workloads(&parse("load.record_bytes=2000").unwrap(), &load).unwrap_err().to_string();
        assert!(message.contains("which have their own sizes"), "{message}");
        let asked = WorkloadFile { record_bytes: Some(2_000), ..file };
        assert_eq!(asked.named("w"), Err(LINES_HAVE_THEIR_SIZES.to_owned()));
    }

    #[test]
    fn a_client_setting_gives_both_arms_the_client() {
        let [a, b] = workloads(&parse("client.linger.ms=5").unwrap(), &workload()).unwrap();
        assert_eq!(a.engine, Engine::Librdkafka { settings: BTreeMap::new() });
        let settings = BTreeMap::from([("linger.ms".to_owned(), "5".to_owned())]);
        assert_eq!(b.engine, Engine::Librdkafka { settings });
    }

    #[test]
    fn an_argument_is_replaced_or_added() {
        let args = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        for (before, flag, value, after) in [
            ("--port 1", "--threads", "2", "--port 1 --threads 2"),
            ("--threads 4 --port 1", "--threads", "2", "--threads 2 --port 1"),
            ("--threads=4", "--threads", "2", "--threads=2"),
            ("--port 1", "--direct", "", "--port 1 --direct"),
            ("--direct --port 1", "--direct", "", "--direct --port 1"),
            ("--port 1 --threads", "--threads", "2", "--port 1 --threads 2"),
            ("--threads --port 1", "--threads", "2", "--threads 2 --port 1"),
            ("--nice -5 --port 1", "--nice", "3", "--nice 3 --port 1"),
            ("-t -- file", "-t", "2", "-t 2 -- file"),
        ] {
            assert_eq!(with_argument(&args(before), flag, value), args(after));
        }
        let limit = std::time::Duration::from_secs(1);
        let program = Place::parse("sh --threads 2 --direct {port}", &[], limit, limit).unwrap();
        for text in ["arg.--threads=2", "arg.--direct=", "arg.--threads=3,3\\,"] {
            let found = places(&parse(text).unwrap(), &program);
            let differs = text.ends_with("\\,");
            assert_eq!(found.is_ok(), differs, "{text}");
            let told = found.err().map(|error| error.to_string()).unwrap_or_default();
            assert!(
                differs || told.contains("without the change, too: there would be no difference"),
                "{told}"
            );
        }
        let running = Place::Address("127.0.0.1:9092".to_owned());
        let message = places(&parse("env.A=1").unwrap(), &running).unwrap_err().to_string();
        assert!(message.contains("name the command that starts it"), "{message}");
    }
}
