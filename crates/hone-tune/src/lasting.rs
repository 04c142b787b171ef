//! Makes kept changes permanent: a run itself restores all settings when it ends.

use anyhow::Result;
use hone_record::{Altitude, Engine};
use serde::Serialize;

use super::candidate::Candidate;
use hone_experiment::folder::RunFolder;

/// A profile for `hone host apply` with the kept settings of the host.
const PROFILE: &str = "keep-host.toml";

/// One line per kept change. Those of the host share one line, and a profile in the run's folder.
///
/// # Errors
/// When the load's engine has no such setting, or the profile can't be written.
pub fn to_keep(kept: &[Candidate], engine: &Engine, folder: &RunFolder) -> Result<Vec<String>> {
    let of_host = |candidate: &&Candidate| candidate.altitude == Altitude::Host;
    let mut lines: Vec<String> = kept
        .iter()
        .enumerate()
        .filter(|(_, candidate)| !of_host(candidate))
        .map(|(at, candidate)| line(&label(candidate, &kept[at + 1..]), candidate, engine))
        .collect::<Result<_>>()?;
    let host: Vec<&Candidate> = kept.iter().filter(of_host).collect();
    let OfHost { knobs, names, others } = knobs(&host);
    lines.extend(others);
    if !knobs.is_empty() {
        let profile = Profile { about: "Settings that a run of hone tune has kept", knobs };
        let path = folder.write_text(PROFILE, &toml::to_string(&profile)?)?.display().to_string();
        let command = shlex::try_join(["hone", "host", "apply", &path])?;
        lines.push(format!(
            "{}: {command} (then hone host confirm, to keep it after a reboot)",
            names.join("; ")
        ));
    }
    Ok(lines)
}

/// A change with the later ones that override part of it. Applied in this order, the lines give the measured state.
fn label(candidate: &Candidate, later: &[Candidate]) -> String {
    let own = candidate.names();
    let again = later.iter().filter(|other| other.names().iter().any(|name| own.contains(name)));
    let again: Vec<&str> = again.map(|other| &*other.name).collect();
    match &again[..] {
        [] => candidate.name.clone(),
        names => format!("{}, of which {} overrides a part", candidate.name, names.join(" and ")),
    }
}

fn line(name: &str, candidate: &Candidate, engine: &Engine) -> Result<String> {
    let words = candidate.words(engine)?.join(", ");
    Ok(match candidate.altitude {
        Altitude::Client => of_client(name, candidate, engine)?,
        Altitude::Broker | Altitude::Host => {
            format!("{name}: set it in the configuration of the broker or topic ({words})")
        }
        Altitude::Binary => format!("{name}: deploy that build ({words})"),
    })
}

/// The command for what `hone batch settings` knows, and the client's own names for the rest.
fn of_client(name: &str, candidate: &Candidate, engine: &Engine) -> Result<String> {
    let (mut options, mut others) = (Vec::new(), Vec::new());
    for step in &candidate.steps {
        let (known, rest) = step.as_options();
        options.extend(known);
        others.extend(rest);
    }
    let mut told: Vec<String> = Vec::new();
    if !options.is_empty() {
        let client = matches!(engine, Engine::Librdkafka { .. }).then_some(["--client", "librdkafka"]);
        let words = ["hone", "batch", "settings"].into_iter().chain(client.into_iter().flatten());
        let command = shlex::try_join(words.chain(options.iter().map(String::as_str)))?;
        told.push(format!("lines for your client: {command}"));
    }
    if !others.is_empty() {
        told.push(format!("set it in the client itself ({})", others.join(", ")));
    }
    Ok(format!("{name}: {}", told.join("; and ")))
}

/// In the form of a host profile.
#[derive(Debug, Serialize)]
struct Profile {
    about: &'static str,
    knobs: Vec<Knob>,
}

#[derive(Debug, Clone, Serialize)]
struct Knob {
    name: String,
    value: String,
    reason: String,
    source: &'static str,
}

/// How to make settings of the host permanent.
#[derive(Debug, Default)]
struct OfHost<'a> {
    /// Settings that a profile can hold.
    knobs: Vec<Knob>,
    /// The changes that set them.
    names: Vec<&'a str>,
    /// One line for each of the others.
    others: Vec<String>,
}

fn knobs<'a>(host: &[&'a Candidate]) -> OfHost<'a> {
    let OfHost { mut knobs, mut names, mut others } = OfHost::default();
    for candidate in host {
        for change in &candidate.outside {
            let path = change.name.trim_start_matches('/');
            let name = path.strip_prefix("proc/sys/").map_or(path.to_owned(), |name| name.replace('/', "."));
            let value = change.to.clone();
            let reason = "it helped under the load of the run".to_owned();
            let knob = Knob { name, value, reason, source: "hone tune" };
            let alone = Profile { about: "one", knobs: vec![knob.clone()] };
            let is_known =
                toml::to_string(&alone).is_ok_and(|text| hone_host::profile::parse(PROFILE, &text).is_ok());
            if is_known {
                // The last kept value of a knob is the measured one.
                knobs.retain(|known: &Knob| known.name != knob.name);
                knobs.push(knob);
                names.push(&*candidate.name);
            } else {
                others.push(format!(
                    "{}: write `{}` to {} at every boot, with a udev rule or a systemd unit",
                    candidate.name, change.to, change.name
                ));
            }
        }
    }
    names.dedup();
    OfHost { knobs, names, others }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use hone_record::Hope;

    use super::*;

    fn kept(settings: &[&str]) -> Vec<Candidate> {
        let of = |setting: &&str| Candidate::of_settings(&[(*setting).to_owned()], Hope::default()).unwrap();
        settings.iter().map(of).collect()
    }

    fn lines(settings: &[&str]) -> (Vec<String>, tempfile::TempDir) {
        let parent = tempfile::tempdir().unwrap();
        let folder = RunFolder::create(parent.path(), "run").unwrap();
        let engine = Engine::Librdkafka { settings: BTreeMap::new() };
        (to_keep(&kept(settings), &engine, &folder).unwrap(), parent)
    }

    #[test]
    fn what_a_later_change_sets_anew_is_told() {
        let (lines, _parent) = lines(&["linger=20ms,batch-size=64KiB", "linger=100ms", "codec=lz4"]);
        assert!(
            lines[0].starts_with("linger=20ms,batch-size=64KiB, of which linger=100ms overrides a part: "),
            "{lines:?}"
        );
        assert!(lines[1].starts_with("linger=100ms: ") && lines[2].starts_with("codec=lz4: "), "{lines:?}");
    }

    #[test]
    fn the_profile_of_the_host_can_be_read() {
        let (lines, parent) =
            lines(&["host.proc/sys/vm/swappiness=1", "host.sys/block/vda/queue/nomerges=2"]);
        let text = std::fs::read_to_string(parent.path().join("run-001").join(PROFILE)).unwrap();
        let profile = hone_host::profile::parse("own", &text).unwrap();
        assert_eq!((profile.knobs[0].name.as_str(), profile.knobs[0].value.as_str()), ("vm.swappiness", "1"));
        assert!(lines[0].contains("write `2` to sys/block/vda"), "{lines:?}");
        assert!(
            lines[1].starts_with("host.proc/sys/vm/swappiness=1: "),
            "what is in it, and nothing else: {lines:?}"
        );
    }
}
