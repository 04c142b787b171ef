//! A change that may be tried: one setting, or several that belong together, with its layer and its expected gain.

use std::path::PathBuf;

use anyhow::{Result, bail};
use hone_record::{Altitude, Change, Engine, Hope};
use serde::{Deserialize, Serialize};

use crate::batch::step::{Step, promise};
use hone_experiment::change;
use hone_experiment::ending::Usage;

/// Kinds of changes that do not change the load.
const OUTSIDE: [&str; 5] = ["arg", "broker", "env", "host", "jvm"];

/// A change, and the reason to try it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Candidate {
    /// Its name, for people and as its identity: the settings, separated by `; `.
    pub name: String,
    pub(crate) altitude: Altitude,
    /// Changes of the load, in the form of `hone batch prove`.
    pub steps: Vec<Step>,
    /// All other changes.
    pub outside: Vec<Change>,
    /// Another build of the target's program.
    pub program: Option<PathBuf>,
    pub(crate) hope: Hope,
    /// Whether Hone proposed it. `false`: the file names it.
    #[serde(default)]
    pub(crate) is_found: bool,
}

impl Candidate {
    /// Reads settings: `linger=20ms`, `client.linger.ms=20`, `topic.compression.type=zstd`, `broker.num.io.threads=2`,
    /// `host.vm.swappiness=1`, `env.MALLOC_ARENA_MAX=1`, `arg.--threads=1`.
    ///
    /// # Errors
    /// When one is invalid, or they belong to several layers.
    pub fn of_settings(settings: &[String], hope: Hope) -> Result<Self> {
        let (mut steps, mut outside) = (Vec::new(), Vec::new());
        for text in settings {
            let kind = text.split_once('.').map(|(kind, _)| kind);
            if kind.is_some_and(|kind| OUTSIDE.contains(&kind)) {
                let change = change::parse(text)?;
                if change.from.is_some() {
                    bail!(Usage(format!(
                        "candidate `{text}` has two values; write one, since hone tune compares it with the \
                         current state"
                    )));
                }
                outside.push(change);
            } else {
                steps.push(Step::new(text.clone(), None)?);
            }
        }
        let name = settings.join("; ");
        let Some(altitude) = altitude(&steps, &outside) else {
            bail!(Usage(match settings {
                [] => "a candidate without `set` changes nothing; write for example set = [\"linger=20ms\"]"
                    .to_owned(),
                _ => format!(
                    "candidate `{name}` has settings of several layers; write one candidate per \
                     layer"
                ),
            }));
        };
        Ok(Self { name, altitude, steps, outside, program: None, hope, is_found: false })
    }

    /// Another build of the target.
    pub fn of_program(name: String, program: PathBuf, hope: Hope) -> Self {
        let (steps, outside) = (Vec::new(), Vec::new());
        Self {
            name,
            altitude: Altitude::Binary,
            steps,
            outside,
            program: Some(program),
            hope,
            is_found: false,
        }
    }

    /// Another build of the target that Hone proposed.
    pub(crate) fn by_hone(self) -> Self {
        Self { is_found: true, ..self }
    }

    /// The name of its setting, without the value.
    pub fn family(&self) -> &str {
        family(&self.name)
    }

    /// The settings that it changes, by their names as written.
    pub fn names(&self) -> Vec<String> {
        let outside = self.outside.iter().map(|change| format!("{}.{}", change.kind, change.name));
        self.steps.iter().flat_map(Step::names).chain(outside).collect()
    }

    /// The setting whose value another candidate can replace, if there is only one. With several settings a replacement would
    /// lose the others.
    pub fn place(&self) -> &str {
        if self.names().len() == 1 { self.family() } else { &self.name }
    }

    /// Whether this candidate overrides every setting of the other one.
    pub(crate) fn takes_the_place_of(&self, other: &Self) -> bool {
        let is_build = |candidate: &Self| candidate.program.is_some();
        match (is_build(self), is_build(other)) {
            (true, true) => true,
            (false, false) => self.place() == other.place(),
            _ => false,
        }
    }

    /// All its changes except for the program, in the form of `hone compare`.
    ///
    /// # Errors
    /// When the load's engine has no such setting.
    pub fn changes(&self, engine: &Engine) -> Result<Vec<Change>> {
        let of_load: Vec<Vec<Change>> =
            self.steps.iter().map(|step| step.changes(engine)).collect::<Result<_>>()?;
        Ok(of_load.into_iter().flatten().chain(self.outside.iter().cloned()).collect())
    }

    /// The change of the durability guarantee, if the durability class changes.
    ///
    /// # Errors
    /// When the load's engine has no such setting.
    pub fn promise(&self, engine: &Engine) -> Result<Option<String>> {
        Ok(promise(&self.changes(engine)?))
    }

    /// Its settings for people, one by one.
    ///
    /// # Errors
    /// When the load's engine has no such setting.
    pub fn words(&self, engine: &Engine) -> Result<Vec<String>> {
        let of_load: Vec<Vec<String>> =
            self.steps.iter().map(|step| step.words(engine)).collect::<Result<_>>()?;
        let program = self.program.iter().map(|path| format!("program: {}", path.display()));
        let outside = self.outside.iter().map(Change::label);
        Ok(of_load.into_iter().flatten().chain(outside).chain(program).collect())
    }
}

/// The name that a setting sets, without the value.
pub fn family(name: &str) -> &str {
    name.split_once('=').map_or(name, |(family, _)| family)
}

fn altitude(steps: &[Step], outside: &[Change]) -> Option<Altitude> {
    let of_load = steps
        .iter()
        .flat_map(Step::names)
        .map(|name| if name.starts_with("topic.") { Altitude::Broker } else { Altitude::Client });
    let of_world =
        outside.iter().map(|change| if change.kind == "host" { Altitude::Host } else { Altitude::Broker });
    let mut all: Vec<Altitude> = of_load.chain(of_world).collect();
    all.sort_unstable();
    all.dedup();
    match all[..] {
        [one] => Some(one),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn candidate_of(settings: &[&str]) -> Result<Candidate> {
        let settings: Vec<String> = settings.iter().map(|text| (*text).to_owned()).collect();
        Candidate::of_settings(&settings, Hope::default())
    }

    #[test]
    fn settings_know_their_altitude() {
        for (settings, expected) in [
            (&["linger=20ms"][..], Altitude::Client),
            (&["client.linger.ms=20", "codec=lz4"], Altitude::Client),
            (&["topic.compression.type=zstd"], Altitude::Broker),
            (&["broker.num.io.threads=2"], Altitude::Broker),
            (&["arg.--threads=1"], Altitude::Broker),
            (&["env.MALLOC_ARENA_MAX=1"], Altitude::Broker),
            (&["host.vm.swappiness=1"], Altitude::Host),
        ] {
            assert_eq!(candidate_of(settings).unwrap().altitude, expected, "{settings:?}");
        }
    }

    #[test]
    fn the_same_setting_takes_the_place_of_its_earlier_value() {
        let of = |setting: &str| candidate_of(&[setting]).unwrap();
        assert!(of("linger=50ms").takes_the_place_of(&of("linger=20ms")));
        assert!(!of("linger=50ms").takes_the_place_of(&of("codec=lz4")));
        assert!(!of("linger=50ms,batch-size=64KiB").takes_the_place_of(&of("batch-size=64KiB")));
        // The batch size was tested together with it, and would be lost.
        assert!(!of("linger=50ms").takes_the_place_of(&of("linger=20ms,batch-size=64KiB")));
        assert!(!of("linger=50ms,batch-size=64KiB").takes_the_place_of(&of("linger=20ms,codec=lz4")));
        let build = |name: &str| Candidate::of_program(name.to_owned(), PathBuf::from(name), Hope::default());
        assert!(build("pgo+bolt").takes_the_place_of(&build("pgo")));
        assert!(!build("pgo").takes_the_place_of(&of("linger=50ms")));
    }

    #[test]
    fn what_is_no_candidate_says_why() {
        for (settings, expected) in [
            (&[][..], "changes nothing"),
            (&["linger=20ms", "host.vm.swappiness=1"], "several layers"),
            (&["topic.compression.type=zstd,client.linger.ms=5"], "several layers"),
            (&["linger=5ms,topic.compression.type=zstd"], "several layers"),
            (&["env.X=1,2"], "has two values"),
            (&["lingr=3"], "lingr"),
        ] {
            let message = format!("{:#}", candidate_of(settings).unwrap_err());
            assert!(message.contains(expected), "{settings:?}: {message}");
        }
    }

    #[test]
    fn a_promise_is_seen_at_every_altitude() {
        let engine = Engine::Librdkafka { settings: Default::default() };
        for setting in ["acks=1", "topic.write.caching=true", "broker.log.flush.interval.messages=1"] {
            assert!(candidate_of(&[setting]).unwrap().promise(&engine).unwrap().is_some(), "{setting}");
        }
        assert_eq!(candidate_of(&["linger=20ms"]).unwrap().promise(&engine).unwrap(), None);
    }
}
