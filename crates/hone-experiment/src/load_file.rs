//! A load in a file: the workload, and the rules that it has to meet.

use std::path::Path;

use anyhow::{Context as _, Result};
use hone_format::FileError;
use serde::Deserialize;

use crate::require::Rule;
use crate::spec::WorkloadFile;

/// The contents of `hone load --file`.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LoadFile {
    /// The workload's name in the record.
    pub name: String,
    /// The target of the load, unless the command line names one.
    #[serde(default)]
    pub broker: Option<String>,
    /// The target's durability before an acknowledgement.
    #[serde(default)]
    pub storage: Option<String>,
    /// Rules that a window has to meet.
    #[serde(default)]
    pub require: Vec<Rule>,
    /// The load.
    #[serde(default)]
    pub workload: WorkloadFile,
}

impl LoadFile {
    /// # Errors
    /// With the line of the file that is invalid.
    pub fn read(path: &Path) -> Result<Self> {
        let text =
            std::fs::read_to_string(path).with_context(|| format!("{} can't be read", path.display()))?;
        let mut file: Self =
            toml::from_str(&text).map_err(|error| FileError::of_toml(&error, &text, path))?;
        file.workload.beside(path.parent().unwrap_or(Path::new("")));
        Ok(file)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<LoadFile> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("load.toml");
        std::fs::write(&path, text).unwrap();
        LoadFile::read(&path)
    }

    #[test]
    fn a_load_is_read_with_its_rules() {
        let text =
            "name = \"n\"\nrequire = [\"p99<3ms\"]\n[workload]\nschedule = \"bursts:2ms\"\nconsumers = 2\n";
        let file = read(text).unwrap();
        assert_eq!((file.require.len(), file.workload.consumers, file.broker), (1, 2, None));
        assert_eq!(read("name = \"n\"\n").unwrap().workload, WorkloadFile::default());
    }

    #[test]
    fn a_recording_lies_beside_the_file_and_has_times_of_its_own() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("load.toml");
        let of = |more: &str| {
            std::fs::write(&path, format!("name = \"n\"\n[workload]\nrecording = \"r\"\n{more}")).unwrap();
            LoadFile::read(&path).unwrap().workload.named("n")
        };
        let load = of("client = \"librdkafka\"\n").unwrap();
        let at = folder.path().join("r").display().to_string();
        assert_eq!(load.recording.unwrap().path, at);
        assert!(matches!(load.schedule, hone_record::Schedule::Replay { source, .. } if source == at));
        assert!(of("schedule = \"uniform\"\n").unwrap_err().contains("its own times"));
    }

    #[test]
    fn mistakes_are_named_with_their_line() {
        for (text, expected) in [
            ("name = \"n\"\nrequire = [\"p99<3\"]\n", "load.toml:2: invalid duration `3`"),
            ("name = \"n\"\n[workload]\nkeys = \"zip:3\"\n", "load.toml:3: unknown word `zip`"),
            ("name = \"n\"\n[workload]\nrate = 3\n", "load.toml:3: unknown key `rate`"),
            ("nme = \"n\"\n", "did you mean `name`?"),
        ] {
            let error = format!("{:#}", read(text).unwrap_err());
            assert!(error.contains(expected), "{text}: {error}");
        }
    }
}
