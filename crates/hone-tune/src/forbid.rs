//! Settings that a tuning run leaves alone, as names or as patterns that end in `*`. Pure, except that it reads the kernel's
//! settings.

use std::collections::BTreeSet;
use std::path::Path;

use anyhow::{Result, bail};

use hone_format::{did_you_mean, nearest};
use hone_host::kernel::Kernel;
use hone_host::knob::{self, KNOBS};
use hone_host::setting::Setting;
use hone_record::Engine;

use super::candidate::Candidate;
use hone_experiment::change;
use hone_experiment::ending::Usage;

/// The words of a candidate with their synonyms. If you forbid one of them, all are forbidden.
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

/// Folder of the settings of disks.
const DISKS: &str = "sys/block/";

/// Checks that each entry is the name of a setting, or the beginning of one.
///
/// # Errors
/// With the first invalid entry, and a suggestion.
pub(crate) fn check(forbid: &[String], kernel: &dyn Kernel) -> Result<()> {
    forbid.iter().try_for_each(|one| {
        let wrong = match one.split_once('=') {
            Some((name, _)) => Some(format!("`forbid` names settings, not values: write `{}`", name.trim())),
            None => wrong(one, kernel),
        };
        match wrong {
            Some(why) => bail!(Usage(format!("[tune]: invalid entry `{one}` in forbid: {why}"))),
            None => Ok(()),
        }
    })
}

fn wrong(one: &str, kernel: &dyn Kernel) -> Option<String> {
    let (stem, begins) = one.strip_suffix('*').map_or((one, false), |stem| (stem, true));
    if stem.is_empty() || stem.contains('*') {
        return Some(
            "write a name, or the beginning of a name with one `*` at its end, for example topic.*"
                .to_owned(),
        );
    }
    let begins_some = || begins && words().chain(change::kinds()).any(|known| known.starts_with(stem));
    match stem.split_once('.') {
        Some(("host", name)) => (!is_of_host(name, begins, kernel)).then(|| no_host(name)),
        Some(("load", name)) if change::LOAD.into_iter().any(|known| is_meant(known, name, begins)) => None,
        Some((kind, name)) if kind != "load" && change::is_kind(kind) && (begins || !name.is_empty()) => None,
        // A word has no parts, so `linger.*` would forbid nothing.
        _ if begins_some() => None,
        _ if words().any(|word| word == one) => None,
        _ => Some(no_name(stem, begins)),
    }
}

fn words() -> impl Iterator<Item = &'static str> {
    SAME.iter().map(|(word, _)| *word)
}

fn is_meant(known: &str, name: &str, begins: bool) -> bool {
    if begins { known.starts_with(name) } else { known == name }
}

fn no_name(stem: &str, begins: bool) -> String {
    let of_kind = stem.split_once('.').and_then(|(kind, name)| {
        let kind = nearest(kind, change::kinds()).filter(|near| *near != "load")?;
        let star = if begins { "*" } else { "" };
        Some(format!("{kind}.{name}{star}"))
    });
    let near = nearest(stem, words()).map(str::to_owned).or(of_kind);
    format!(
        "unknown setting{}; the names are {}, and {}",
        did_you_mean(near.as_deref()),
        words().collect::<Vec<_>>().join(", "),
        change::kinds().map(|kind| format!("{kind}.NAME")).collect::<Vec<_>>().join(", ")
    )
}

/// Whether the machine can have a setting with this name or prefix: one that `hone host` knows, on any disk, or one that exists.
fn is_of_host(name: &str, begins: bool, kernel: &dyn Kernel) -> bool {
    let path = path_of(name);
    if KNOBS.iter().any(|knob| is_meant(knob.name, name, begins)) || knob::of_path(&path).is_some() {
        return true;
    }
    if !begins {
        let is_setting = Setting::parse(Path::new("/"), name).is_ok();
        return is_setting && kernel.exists(&path) && kernel.list(&path).is_empty();
    }
    // Disks come and go, and one file may be used on several machines.
    path.starts_with(DISKS)
        || DISKS.starts_with(&path)
        || path.rsplit_once('/').is_some_and(|(folder, beginning)| {
            path.starts_with("proc/sys/")
                && kernel.list(folder).iter().any(|file| file.starts_with(beginning))
        })
}

fn no_host(name: &str) -> String {
    let near = nearest(name, KNOBS.iter().map(|knob| knob.name));
    format!(
        "this kernel has no such setting{}; write a sysctl (host.vm.swappiness), a file \
         (host.sys/block/vda/queue/scheduler), or a knob of hone host (host.queue.scheduler)",
        did_you_mean(near.map(|near| format!("host.{near}")).as_deref())
    )
}

/// The entry of `forbid` that matches a candidate: by a name that it sets, or by a setting that its writes change too.
pub(crate) fn by<'a>(
    forbid: &'a [String],
    candidate: &Candidate,
    engine: &Engine,
    kernel: &dyn Kernel,
) -> Option<&'a str> {
    let names = names(candidate, engine, kernel);
    let meant = |one: &&String| match one.strip_suffix('*') {
        Some(stem) => names.iter().any(|name| name.starts_with(stem)),
        None => names.contains(*one),
    };
    forbid.iter().find(meant).map(String::as_str)
}

/// All names of what it sets: as written, as the client and the kernel name them, and their synonyms.
fn names(candidate: &Candidate, engine: &Engine, kernel: &dyn Kernel) -> BTreeSet<String> {
    let mut found: BTreeSet<String> = candidate.steps.iter().flat_map(|step| step.names()).collect();
    let changes = candidate.changes(engine).unwrap_or_else(|_| candidate.outside.clone());
    for change in &changes {
        found.insert(format!("{}.{}", change.kind, change.name));
        if change.kind == "host" {
            found.extend(written(&path_of(&change.name), kernel).iter().flat_map(|path| of_host(path)));
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

/// The path of a kernel setting, given by its path or as a sysctl.
fn path_of(name: &str) -> String {
    match name.contains('/') {
        true => name.trim_start_matches('/').to_owned(),
        false => format!("proc/sys/{}", name.replace('.', "/")),
    }
}

/// All settings that the kernel changes with this one. Settings that only have to be rewritten when it is rolled back do not
/// count.
fn written(path: &str, kernel: &dyn Kernel) -> Vec<String> {
    let all = knob::closure(path, kernel).into_iter();
    all.filter(|other| knob::rank(other) >= knob::rank(path)).collect()
}

/// A kernel setting by its path, as a sysctl, and by its name in `hone host`.
fn of_host(path: &str) -> Vec<String> {
    let sysctl = path.strip_prefix("proc/sys/").map(|name| name.replace('/', "."));
    let knob = knob::of_path(path).map(|place| place.knob.name.to_owned());
    let names = [Some(path.to_owned()), Some(format!("/{path}")), sysctl, knob];
    names.into_iter().flatten().map(|name| format!("host.{name}")).collect()
}

#[cfg(test)]
mod tests {
    use hone_host::kernel::Files;
    use hone_record::Hope;

    use super::*;

    /// One disk, whose scheduler has a setting of its own.
    fn machine() -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        for path in [
            "proc/sys/vm/swappiness",
            "proc/sys/vm/no_knob",
            "sys/block/vda/queue/scheduler",
            "sys/block/vda/queue/iosched/read_expire",
        ] {
            let path = root.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, "1\n").unwrap();
        }
        root
    }

    fn forbids(forbid: &str, setting: &str) -> bool {
        let candidate = Candidate::of_settings(&[setting.to_owned()], Hope::default()).unwrap();
        let engine = Engine::Librdkafka { settings: Default::default() };
        let (root, forbid) = (machine(), [forbid.to_owned()]);
        let kernel = Files::new(root.path());
        check(&forbid, &kernel).unwrap();
        by(&forbid, &candidate, &engine, &kernel).is_some()
    }

    /// Forbidding a setting also forbids the writes that change it together with another one.
    #[test]
    fn what_a_write_takes_along_is_forbidden_too() {
        let scheduler = "host.sys/block/vda/queue/scheduler=none";
        for (forbid, setting) in [
            ("host.queue.nr_requests", scheduler),
            ("host.queue.wbt_lat_usec", scheduler),
            ("host.sys/block/vda/queue/iosched/read_expire", scheduler),
            ("host.sys/block/vda/queue/iosched/*", "host.sys/block/vda/queue/nr_requests=64"),
            ("host.vm.dirty_ratio", "host.vm.dirty_bytes=100000000"),
            ("host.vm.dirty_background_bytes", "host.vm.dirty_background_ratio=3"),
            ("host.vm.no_knob", "host.vm.no_knob=2"),
        ] {
            assert!(forbids(forbid, setting), "{forbid} {setting}");
        }
        for (forbid, setting) in [
            ("host.queue.scheduler", "host.sys/block/vda/queue/nr_requests=64"),
            ("host.queue.read_ahead_kb", scheduler),
            ("host.vm.dirty_bytes", "host.vm.dirty_background_bytes=1000000"),
        ] {
            assert!(!forbids(forbid, setting), "{forbid} {setting}");
        }
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
        let root = machine();
        let kernel = Files::new(root.path());
        for fine in [
            "host.*",
            "host.q*",
            "host.vm.sw*",
            "host.sys/block/nvme0n1/*",
            "host./sys/block/nvme0n1/queue/scheduler",
            "host.queue.scheduler",
            "host.vm.no_knob",
            "load.*",
            "lin*",
            "top*",
        ] {
            check(&[fine.to_owned()], &kernel).unwrap_or_else(|error| panic!("{fine}: {error}"));
        }
        for (forbid, expected) in [
            ("lingr", "did you mean `linger`?"),
            ("topics.retention.ms", "did you mean `topic.retention.ms`?"),
            ("topics.*", "did you mean `topic.*`?"),
            ("linger=5ms", "write `linger`"),
            ("to*pic", "one `*` at its end"),
            ("*", "one `*` at its end"),
            ("", "one `*` at its end"),
            ("load.rate", "unknown setting"),
            ("env.", "unknown setting"),
            ("zzz*", "unknown setting"),
            // It would forbid nothing.
            ("linger.*", "unknown setting (did you mean `linger`?)"),
            ("load.acknowledge*", "unknown setting"),
            ("host.vm.swapiness", "did you mean `host.vm.swappiness`?"),
            ("host.vm.swapi*", "this kernel has no such setting"),
            ("host.vm", "this kernel has no such setting"),
            ("host.", "this kernel has no such setting"),
            ("host./etc/passwd", "this kernel has no such setting"),
        ] {
            let error = check(&[forbid.to_owned()], &kernel).expect_err(forbid);
            assert!(hone_experiment::usage::is_usage(&error), "{forbid}");
            assert!(error.to_string().contains(expected), "{forbid}: {error}");
        }
    }
}
