//! Describes a load in words.

use hone_format::{count, exact};
use hone_record::{Engine, Keys, Payload, ReadFrom, Schedule, Sizes, TopicShares, Workload};

/// The load in words.
pub fn load_text(workload: &Workload) -> String {
    load_at(workload, Some(workload.requests_per_s))
}

/// The load of a search or a sweep, whose windows have different rates or batches.
pub(crate) fn load_without_rate(workload: &Workload) -> String {
    load_at(workload, None)
}

/// A load from a command line has no name of its own.
pub const NAMELESS_LOAD: &str = "command-line";

/// A target and its load, for a title.
pub fn under(target: &str, load: &str) -> String {
    match (target, load) {
        ("target", NAMELESS_LOAD) => "Load of the command line".to_owned(),
        _ => format!("{target} under load “{load}”"),
    }
}

fn load_at(workload: &Workload, rate: Option<f64>) -> String {
    let operations = count(workload.engine.operations().unwrap_or_default());
    match &workload.engine {
        Engine::Tool { command, .. } => return format!("{operations} operations of `{}`", command.join(" ")),
        Engine::Exits { arguments, .. } => {
            return format!("{operations} operations of the target with `{}`", arguments.join(" "));
        }
        Engine::Wire | Engine::Librdkafka { .. } | Engine::Command { .. } => {}
    }
    let acks = hone_format::acks(workload.acks);
    let records = match &workload.payload {
        Payload::Bytes { .. } => sizes(workload),
        Payload::Json { shape } => format!("{} ({shape})", sizes(workload)),
        // The length of the lines is known once the file has been read.
        Payload::File { path, sha256 } if sha256.is_empty() => format!("lines of {path}"),
        Payload::File { path, .. } => format!("about {} B (lines of {path})", workload.record_bytes),
    };
    let (what, connections) = if workload.engine == Engine::Wire {
        let count = u64::from(workload.records_per_batch) * u64::from(workload.partitions_per_request);
        (format!("requests/s of {count} ×"), "connections")
    } else {
        ("records/s of".to_owned(), "producers")
    };
    if workload.is_read_only() {
        let consumers = workload.consumers;
        return format!(
            "{consumers} consumers of {}, for at most {} s",
            reading(workload),
            workload.duration_s
        );
    }
    let sent = match rate {
        Some(rate) => format!("{} {what} {records}", exact(rate)),
        None => format!("records of {records}"),
    };
    let through = match workload.processing.processors {
        0 => String::new(),
        1 => ", through a processor".to_owned(),
        many => format!(", through {many} processors"),
    };
    let topics = topics(workload).map_or_else(String::new, |topics| format!(" to {topics}"));
    format!(
        "{sent}{topics}{}, {} for {} s, {} {connections}, acks={acks}{through}",
        keys(workload.keys),
        schedule(&workload.schedule),
        workload.duration_s,
        workload.connections,
    )
}

/// Where consumers begin.
fn reading(workload: &Workload) -> String {
    match (workload.backlog_bytes, workload.read_from) {
        (0, ReadFrom::Earliest) => "all records".to_owned(),
        (0, ReadFrom::AgeS(age_s)) => format!("records of the last {}", hone_format::duration(age_s)),
        (bytes, _) => format!("a backlog of {}", hone_format::bytes(bytes)),
    }
}

/// The records of a load in a few words.
pub fn records_text(workload: &Workload) -> String {
    match &workload.payload {
        Payload::File { path, sha256 } if sha256.is_empty() => format!("the lines of {path}"),
        _ => format!("{} bytes", workload.record_bytes),
    }
}

fn sizes(workload: &Workload) -> String {
    match workload.sizes {
        Sizes::Fixed => format!("{} B", workload.record_bytes),
        Sizes::Uniform { least_bytes, most_bytes } => format!("{least_bytes}-{most_bytes} B"),
        Sizes::LogNormal { sigma } => format!("about {} B (log-normal, σ {sigma})", workload.record_bytes),
    }
}

/// `30 topics (zipf 1.2)`. `None` for a single one.
pub(crate) fn topics(workload: &Workload) -> Option<String> {
    let count = workload.topics.count();
    let shares = match &workload.topics {
        TopicShares::Equal { .. } => String::new(),
        TopicShares::Zipf { exponent, .. } => format!(" (zipf {exponent})"),
        TopicShares::Weights(weights) => {
            let weights: Vec<String> = weights.iter().map(f64::to_string).collect();
            format!(" (weights {})", weights.join(", "))
        }
    };
    (count != 1).then(|| format!("{count} topics{shares}"))
}

fn keys(keys: Keys) -> String {
    match keys {
        Keys::None => String::new(),
        Keys::Uniform { distinct } => format!(", {} keys", count(distinct)),
        Keys::Zipf { distinct, exponent } => format!(", {} keys (zipf {exponent})", count(distinct)),
    }
}

fn schedule(schedule: &Schedule) -> String {
    match schedule {
        Schedule::Uniform => "uniform".to_owned(),
        Schedule::Poisson => "Poisson".to_owned(),
        Schedule::Bursts { every_ms } => format!("in bursts every {} ms", exact(*every_ms)),
        Schedule::Ramp { to_requests_per_s } => format!("ramp to {}/s", exact(*to_requests_per_s)),
        Schedule::Steps { requests_per_s } => {
            let rates: Vec<String> = requests_per_s.iter().map(|rate| exact(*rate)).collect();
            format!("in steps of {}/s", rates.join(", "))
        }
        Schedule::Climb(climb) => {
            format!("climbing to {}/s, until {} breaks", exact(climb.to_requests_per_s), climb.slo.label())
        }
        Schedule::Replay { source, arrivals, .. } => {
            format!("replay of {source} ({} times)", count(*arrivals))
        }
    }
}
