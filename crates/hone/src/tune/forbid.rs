//! Settings that a tuning run leaves alone: names, or patterns that end in `*`. Pure.

use std::collections::BTreeSet;

use anyhow::{Result, bail};
use hone_host::knob;
use hone_record::Engine;

use super::candidate::Candidate;
use crate::Usage;
use crate::change;
use crate::experiment::{did_you_mean, nearest};

/// Words of a candidate, with what else says the same: whoever forbids one of them means all.
const SAME: [(&str, &[&str]); 10] = [
    ("linger", &["client.linger.ms", "client.queue.buffering.max.ms"]),
    ("batch-size", &["client.batch.size"]),
    ("codec", &["load.compression", "client.compression.type", "client.compression.codec"]),
    ("partitioner", &["client.partitioner", "client.partitioner.class"]),
    ("acks", &["load.acks", "client.acks", "client.request.required.acks"]),
    (
        "in-flight",
        &["load.in_flight", "client.max.in.flight", "client.max.in.flight.requests.per.connection"],
    ),
    ("idempotence", &["load.idempotent", "client.enable.idempotence"]),
    ("buffer-memory", &["client.buffer.memory", "client.queue.buffering.max.kbytes"]),
    ("producers", &["load.connections"]),
    ("partitions", &["load.partitions"]),
];

/// Whether each is a name that a setting can have, or the beginning of some.
///
/// # Errors
/// With the first that is none, and what may have been meant.
pub(crate) fn check(forbid: &[String]) -> Result<()> {
    forbid.iter().try_for_each(|one| {
        let wrong = match one.split_once('=') {
            Some((name, _)) => {
                Some(format!("a setting is forbidden with all its values: write `{}`", name.trim()))
            }
            None => wrong(one),
        };
        match wrong {
            Some(why) => bail!(Usage(format!("[tune]: forbid `{one}`: {why}"))),
            None => Ok(()),
        }
    })
}

fn wrong(one: &str) -> Option<String> {
    let stem = one.strip_suffix('*').unwrap_or(one);
    if stem.is_empty() || stem.contains('*') {
        return Some(
            "write a name, or the beginning of some with one `*` at its end, as in topic.*".to_owned(),
        );
    }
    let words = || SAME.iter().map(|(word, _)| *word);
    let of_kind = stem.split_once('.').is_some_and(|(kind, name)| match kind {
        "load" if !one.ends_with('*') => change::LOAD.contains(&name),
        _ => change::is_kind(kind) && (one.ends_with('*') || !name.is_empty()),
    });
    let begins = one.ends_with('*')
        && words().chain(change::kinds()).any(|known| known.starts_with(stem.trim_end_matches('.')));
    if of_kind || begins || words().any(|word| word == one) {
        return None;
    }
    let of_kind = stem.split_once('.').and_then(|(kind, name)| {
        let kind = nearest(kind, change::kinds()).filter(|near| *near != "load")?;
        let star = if one.ends_with('*') { "*" } else { "" };
        Some(format!("{kind}.{name}{star}"))
    });
    let near = nearest(stem, words()).map(str::to_owned).or(of_kind);
    Some(format!(
        "no setting has this name{}; there are {}, and {}",
        did_you_mean(near.as_deref()),
        words().collect::<Vec<_>>().join(", "),
        change::kinds().map(|kind| format!("{kind}.NAME")).collect::<Vec<_>>().join(", ")
    ))
}

/// What forbids a candidate, if something does.
pub(crate) fn by<'a>(forbid: &'a [String], candidate: &Candidate, engine: &Engine) -> Option<&'a str> {
    let names = names(candidate, engine);
    let meant = |one: &&String| match one.strip_suffix('*') {
        Some(stem) => names.iter().any(|name| name.starts_with(stem)),
        None => names.contains(*one),
    };
    forbid.iter().find(meant).map(String::as_str)
}

/// All names of what it sets: as they are written, as the client and the kernel have them, and what says the same.
fn names(candidate: &Candidate, engine: &Engine) -> BTreeSet<String> {
    let mut found: BTreeSet<String> = candidate.steps.iter().flat_map(|step| step.names()).collect();
    let changes = candidate.changes(engine).unwrap_or_else(|_| candidate.outside.clone());
    for change in &changes {
        found.insert(format!("{}.{}", change.kind, change.name));
        if change.kind == "host" {
            found.extend(of_host(&change.name));
        }
    }
    for (word, others) in SAME {
        let all = || others.iter().copied().chain([word]);
        if all().any(|name| found.contains(name)) {
            found.extend(all().map(str::to_owned));
        }
    }
    found
}

/// A setting of the kernel by its path, as a sysctl, and by the name that `hone host` has for it.
fn of_host(name: &str) -> Vec<String> {
    let path = match name.contains('/') {
        true => name.trim_start_matches('/').to_owned(),
        false => format!("proc/sys/{}", name.replace('.', "/")),
    };
    let sysctl = path.strip_prefix("proc/sys/").map(|name| name.replace('/', "."));
    let knob = knob::of_path(&path).map(|place| place.knob.name.to_owned());
    let names = [Some(path.clone()), Some(format!("/{path}")), sysctl, knob];
    names.into_iter().flatten().map(|name| format!("host.{name}")).collect()
}

#[cfg(test)]
mod tests {
    use hone_record::Hope;

    use super::*;

    fn forbids(forbid: &str, setting: &str) -> bool {
        let candidate = Candidate::of_settings(&[setting.to_owned()], Hope::default()).unwrap();
        let engine = Engine::Librdkafka { settings: Default::default() };
        check(&[forbid.to_owned()]).unwrap();
        by(&[forbid.to_owned()], &candidate, &engine).is_some()
    }

    #[test]
    fn a_setting_is_forbidden_by_each_of_its_names() {
        for (forbid, setting) in [
            ("codec", "codec=lz4"),
            ("codec", "client.compression.type=lz4"),
            ("linger", "client.queue.buffering.max.ms=5"),
            ("client.linger.ms", "linger=5ms"),
            ("client.linger.ms", "codec=lz4,linger=5ms"),
            ("topic.*", "topic.write.caching=true,topic.flush.ms=5"),
            ("topic.flush.ms", "topic.write.caching=true,topic.flush.ms=5"),
            ("client.*", "batch-size=64KiB"),
            ("load.acks", "acks=1"),
            ("env.X", "env.X=1"),
            ("arg.--fault*", "arg.--faults=1"),
            ("broker.*", "broker.num.io.threads=2"),
            ("host.vm.*", "host./proc/sys/vm/swappiness=1"),
            ("host.queue.scheduler", "host.sys/block/vda/queue/scheduler=none"),
            ("host.*", "host.vm.swappiness=1"),
            ("prod*", "producers=3"),
        ] {
            assert!(forbids(forbid, setting), "{forbid} {setting}");
        }
        for (forbid, setting) in [
            ("codec", "topic.compression.type=lz4"),
            ("linger", "batch-size=1KiB"),
            ("env.X", "env.XY=1"),
            ("topic.flush", "topic.flush.ms=1"),
            ("host.queue.*", "host.vm.swappiness=1"),
        ] {
            assert!(!forbids(forbid, setting), "{forbid} {setting}");
        }
    }

    #[test]
    fn a_name_that_no_setting_can_have_is_refused() {
        for (forbid, expected) in [
            ("lingr", "did you mean `linger`?"),
            ("topics.retention.ms", "did you mean `topic.retention.ms`?"),
            ("topics.*", "did you mean `topic.*`?"),
            ("linger=5ms", "write `linger`"),
            ("to*pic", "one `*` at its end"),
            ("*", "one `*` at its end"),
            ("", "one `*` at its end"),
            ("load.rate", "no setting has this name"),
            ("env.", "no setting has this name"),
            ("zzz*", "no setting has this name"),
        ] {
            let error = check(&[forbid.to_owned()]).expect_err(forbid);
            assert!(crate::is_usage(&error), "{forbid}");
            assert!(error.to_string().contains(expected), "{forbid}: {error}");
        }
    }
}
