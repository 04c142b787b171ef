//! A change that may be tried: one thing, or a few that belong together, with the altitude at which it is made and what it is hoped to bring.

use std::path::PathBuf;

use anyhow::{Result, bail};
use hone_record::{Altitude, Change, Engine, Hope};
use serde::{Deserialize, Serialize};

use crate::batch::step::{Step, promise};
use hone_experiment::change;
use hone_experiment::ending::Usage;

/// Kinds of changes that are no changes of the load.
const OUTSIDE: [&str; 4] = ["arg", "broker", "env", "host"];

/// A change, and why it is one to try.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Candidate {
    /// For people, and the one by which it is known: what is set, separated by `; `.
    pub name: String,
    pub(crate) altitude: Altitude,
    /// Changes of the load, as `hone batch prove` takes them.
    pub steps: Vec<Step>,
    /// All others.
    pub outside: Vec<Change>,
    /// Another build of the target's program.
    pub program: Option<PathBuf>,
    pub(crate) hope: Hope,
    /// Whether Hone found it, and the file does not name it.
    #[serde(default)]
    pub(crate) is_found: bool,
}

impl Candidate {
    /// Reads settings: `linger=20ms`, `client.linger.ms=20`, `topic.compression.type=zstd`, `broker.num.io.threads=2`,
    /// `host.vm.swappiness=1`, `env.MALLOC_ARENA_MAX=1`, `arg.--threads=1`.
    ///
    /// # Errors
    /// When one is none, or they belong to several altitudes.
    pub fn of_settings(settings: &[String], hope: Hope) -> Result<Self> {
        let (mut steps, mut outside) = (Vec::new(), Vec::new());
        for text in settings {
            let kind = text.split_once('.').map(|(kind, _)| kind);
            if kind.is_some_and(|kind| OUTSIDE.contains(&kind)) {
                let change = change::parse(text)?;
                if change.from.is_some() {
                    bail!(Usage(format!(
                        "candidate `{text}` sets both sides; a run of hone tune holds it against what is kept: write one value"
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
                _ => format!("candidate `{name}` is of several altitudes; try them one after the other"),
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

    /// The same, as one that Hone found.
    pub(crate) fn by_hone(self) -> Self {
        Self { is_found: true, ..self }
    }

    /// What is set, without its value.
    pub fn family(&self) -> &str {
        family(&self.name)
    }

    /// The settings that it sets, each by its name as it is written.
    pub fn names(&self) -> Vec<String> {
        let outside = self.outside.iter().map(|change| format!("{}.{}", change.kind, change.name));
        self.steps.iter().flat_map(Step::names).chain(outside).collect()
    }

    /// What another value can take the place of: the setting, where it is only one. Of several that belong together something would be lost.
    pub fn place(&self) -> &str {
        if self.names().len() == 1 { self.family() } else { &self.name }
    }

    /// Whether nothing of another one is left where this is made after it.
    pub(crate) fn takes_the_place_of(&self, other: &Self) -> bool {
        let is_build = |candidate: &Self| candidate.program.is_some();
        match (is_build(self), is_build(other)) {
            (true, true) => true,
            (false, false) => self.place() == other.place(),
            _ => false,
        }
    }

    /// All its changes but that of the program, in words of `hone compare`.
    ///
    /// # Errors
    /// When the load's engine has no such setting.
    pub fn changes(&self, engine: &Engine) -> Result<Vec<Change>> {
        let of_load: Vec<Vec<Change>> =
            self.steps.iter().map(|step| step.changes(engine)).collect::<Result<_>>()?;
        Ok(of_load.into_iter().flatten().chain(self.outside.iter().cloned()).collect())
    }

    /// What is promised otherwise, where the durability class changes.
    ///
    /// # Errors
    /// When the load's engine has no such setting.
    pub fn promise(&self, engine: &Engine) -> Result<Option<String>> {
        Ok(promise(&self.changes(engine)?))
    }

    /// Setting by setting, for people.
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

/// What a name sets, without the value.
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
        // The batch size was measured with it, and would be gone.
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
            (&["linger=20ms", "host.vm.swappiness=1"], "several altitudes"),
            (&["topic.compression.type=zstd,client.linger.ms=5"], "several altitudes"),
            (&["linger=5ms,topic.compression.type=zstd"], "several altitudes"),
            (&["env.X=1,2"], "sets both sides"),
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
