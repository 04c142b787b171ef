//! Profiles: wanted values of knobs, with the reason and the source of each. Hone embeds its own profiles; users write theirs in the same
//! form.

use std::path::Path;

use hone_format::{FileError, did_you_mean, nearest};
use serde::{Deserialize, Serialize};

use crate::knob::{Form, KNOBS, by_name};

/// Hone's own profiles: name and text.
pub const OWN: [(&str, &str); 5] = [
    ("field-guide", include_str!("../profiles/field-guide.toml")),
    ("redpanda", include_str!("../profiles/redpanda.toml")),
    ("kafka-page-cache", include_str!("../profiles/kafka-page-cache.toml")),
    ("latency", include_str!("../profiles/latency.toml")),
    ("throughput", include_str!("../profiles/throughput.toml")),
];

/// A set of recommended values.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Profile {
    /// Purpose of the profile.
    pub about: String,
    /// The values.
    pub knobs: Vec<Wish>,
}

/// A wanted value of a knob.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Wish {
    /// Name of the knob.
    pub name: String,
    /// The value.
    pub value: String,
    /// The reason.
    pub reason: String,
    /// Source of the recommendation.
    pub source: String,
    /// Whether a larger number is accepted, too.
    #[serde(default)]
    pub at_least: bool,
    /// The disks that it applies to.
    #[serde(default)]
    pub only: Only,
}

/// The disks that a wish applies to.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Only {
    /// All disks.
    #[default]
    All,
    /// Disks with several hardware queues, which order requests themselves.
    SeveralQueues,
}

impl Only {
    /// Whether it applies to every disk.
    pub fn is_all(&self) -> bool {
        *self == Self::All
    }
}

/// Reasons why a text is not a profile.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ProfileError {
    /// The text has another form.
    #[error("{0}\n  next: correct the profile; docs/host.md shows a complete one")]
    Form(FileError),
    /// Hone does not know a knob.
    #[error(
        "the profile {name} names the unknown knob {knob}{}\n  next: `hone host status` lists all knobs",
        similar(knob)
    )]
    Unknown {
        /// The profile.
        name: String,
        /// The knob.
        knob: String,
    },
    /// A knob occurs twice, or both of a pair occur, of which one disables the other.
    #[error("the profile {name} sets {knob} twice, or together with another knob that disables it")]
    Twice {
        /// The profile.
        name: String,
        /// The knob.
        knob: String,
    },
    /// A minimum for a knob that is not a number.
    #[error("the profile {name} wants at least `{value}` of {knob}, but only a number can have a minimum")]
    Floor {
        /// The profile.
        name: String,
        /// The knob.
        knob: String,
        /// The value.
        value: String,
    },
}

/// The most similar knob, as the end of an error.
fn similar(name: &str) -> String {
    did_you_mean(nearest(name, KNOBS.iter().map(|knob| knob.name)))
}

/// Reads a profile. `name` is its file's path, or one of Hone's own names.
///
/// # Errors
/// Returns an error when its form, a knob or a value is invalid.
pub fn parse(name: &str, text: &str) -> Result<Profile, ProfileError> {
    let form = |error: toml::de::Error| ProfileError::Form(FileError::of_toml(&error, text, Path::new(name)));
    checked(name, toml::from_str(text).map_err(form)?)
}

/// Checks a profile by itself, from any source.
///
/// # Errors
/// Returns an error when a knob or a value is invalid.
pub fn checked(name: &str, profile: Profile) -> Result<Profile, ProfileError> {
    let mut paths = std::collections::BTreeSet::new();
    for wish in &profile.knobs {
        let (name, knob_name) = (name.to_owned(), wish.name.clone());
        let Some(knob) = by_name(&wish.name) else {
            return Err(ProfileError::Unknown { name, knob: knob_name });
        };
        let place = crate::knob::DeviceKnob::new(knob, None);
        let switched_off = place.rival().is_some_and(|rival| paths.contains(&rival));
        if !paths.insert(place.path()) || switched_off {
            return Err(ProfileError::Twice { name, knob: knob_name });
        }
        let is_number = matches!(knob.form, Form::Number { .. }) && wish.value.parse::<u64>().is_ok();
        if wish.at_least && !is_number {
            return Err(ProfileError::Floor { name, knob: knob_name, value: wish.value.clone() });
        }
    }
    Ok(profile)
}

/// The text of a profile with the changes of a plan, from the output of `hone host plan --json`. Values for a disk of the planned host
/// apply to the disks of other hosts, too.
///
/// # Errors
/// Returns the missing part of the record.
pub fn of_plan(record: &serde_json::Value) -> Result<String, String> {
    let rows = record.pointer("/body/rows").and_then(serde_json::Value::as_array);
    let rows = rows.filter(|_| record.get("kind").is_some_and(|kind| kind == "host-plan"));
    let rows = rows.ok_or("it is not a plan\n  next: `hone host plan --json` prints one")?;
    let mut knobs = toml::value::Array::new();
    let mut seen = std::collections::BTreeSet::new();
    for row in rows {
        if row.pointer("/action/do").is_none_or(|does| does != "change") {
            continue;
        }
        let field = |name: &str| row.get(name).and_then(serde_json::Value::as_str);
        let title = field("title").ok_or("a row has no title")?;
        let name = title.split_once(" of ").map_or(title, |(name, _)| name);
        if !seen.insert(name.to_owned()) {
            continue;
        }
        let mut wish = toml::Table::new();
        for (key, value) in [
            ("name", Some(name)),
            ("value", field("wanted")),
            ("reason", field("reason")),
            ("source", field("source")),
        ] {
            let value = value.ok_or_else(|| format!("the row of {title} has no {key}"))?;
            wish.insert(key.to_owned(), value.to_owned().into());
        }
        // Without these, a larger value of another host would be lowered, and disks be set that the plan excludes.
        if row.get("at_least").and_then(serde_json::Value::as_bool) == Some(true) {
            wish.insert("at_least".to_owned(), true.into());
        }
        if let Some(only) = field("only") {
            wish.insert("only".to_owned(), only.to_owned().into());
        }
        knobs.push(wish.into());
    }
    if knobs.is_empty() {
        return Err("the plan has no change".to_owned());
    }
    let about = record.pointer("/body/about").and_then(serde_json::Value::as_str).unwrap_or("a saved plan");
    let profile =
        toml::Table::from_iter([("about".to_owned(), about.into()), ("knobs".to_owned(), knobs.into())]);
    toml::to_string(&profile).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn own_profiles_are_profiles() {
        for (name, text) in OWN {
            let profile = parse(name, text).unwrap();
            assert!(!profile.knobs.is_empty(), "{name}");
        }
        assert_eq!(parse(OWN[0].0, OWN[0].1).unwrap().knobs.len(), 9);
    }

    #[test]
    fn a_plan_that_was_kept_is_a_profile() {
        let row = |title: &str, action: &str| serde_json::json!({"title": title, "wanted": "1", "reason": "r \"q\"", "source": "s", "action": {"do": action}});
        let rows = [
            row("vm.swappiness", "change"),
            row("queue.nomerges of sda", "change"),
            row("queue.nomerges of sdb", "change"),
            row("vm.dirty_ratio", "keep"),
        ];
        let plan = serde_json::json!({"kind": "host-plan", "body": {"about": "a", "rows": rows}});
        let found = parse("p", &of_plan(&plan).unwrap()).unwrap();
        let names: Vec<&str> = found.knobs.iter().map(|wish| wish.name.as_str()).collect();
        assert_eq!(names, ["vm.swappiness", "queue.nomerges"]);
        assert_eq!(found.knobs[0].reason, "r \"q\"");
        // What a plan of this very host says of a wish goes to the others with it.
        let root = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(root.path().join("proc/sys/net/core")).unwrap();
        std::fs::write(root.path().join("proc/sys/net/core/somaxconn"), "128\n").unwrap();
        let text = "about = \"a\"\n[[knobs]]\nname = \"net.core.somaxconn\"\nvalue = \"4096\"\nreason = \"r\"\nsource = \"s\"\nat_least = true\n";
        let profile = parse("p", text).unwrap();
        let (kernel, data, facts) =
            (crate::kernel::Files::new(root.path()), Default::default(), Default::default());
        let planned = crate::plan::plan(&kernel, "p", &profile, &data, &facts);
        let record = serde_json::json!({"kind": "host-plan", "body": planned});
        assert_eq!(parse("p", &of_plan(&record).unwrap()).unwrap().knobs, profile.knobs);
        assert!(of_plan(&serde_json::json!({"kind": "host-status"})).unwrap_err().contains("not a plan"));
        let nothing =
            serde_json::json!({"kind": "host-plan", "body": {"rows": [row("vm.dirty_ratio", "keep")]}});
        assert!(of_plan(&nothing).unwrap_err().contains("has no change"));
    }

    #[test]
    fn what_is_no_profile_says_why() {
        let wish = |name: &str, rest: &str| {
            format!("[[knobs]]\nname = \"{name}\"\nvalue = \"1\"\nreason = \"r\"\nsource = \"s\"\n{rest}")
        };
        let error = |body: &str| parse("mine", &format!("about = \"a\"\n{body}")).unwrap_err().to_string();
        assert!(
            error(&wish("vm.swapiness", ""))
                .contains("the unknown knob vm.swapiness (did you mean `vm.swappiness`?)")
        );
        assert!(error(&(wish("vm.dirty_ratio", "") + &wish("vm.dirty_bytes", ""))).contains("twice"));
        assert!(error(&wish("queue.scheduler", "at_least = true")).contains("only a number"));
        let told = error(&wish("vm.swappiness", "color = 1"));
        assert!(told.starts_with("mine:7: unknown key `color`; use one of: name, value"), "{told}");
        assert!(error("[[knobs]]\nname = 5\n").contains("mine:3: 5 is a whole number; write a text"));
        assert!(error("[[knobs]]\nname = \"a\"\n").contains("the key `value` is missing"));
    }

    proptest! {
        #[test]
        fn foreign_profiles_do_no_harm(text in "\\PC*") {
            let _ = parse("p", &text);
        }
    }
}
