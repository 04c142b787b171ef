//! What is brought to the hosts: one of Hone's own profiles, a file, or a saved plan.

use std::path::Path;

use anyhow::{Context as _, Result};
use hone_host::profile::{self, OWN};

use super::Source;
use hone_experiment::ending::Usage;
use hone_experiment::host_plan::profile_file;

/// The profile's name and, if it is none of Hone's own, its text: checked here, before any host is asked.
pub fn profile_text(profile: &str) -> Result<(String, Option<String>)> {
    if OWN.iter().any(|(name, _)| *name == profile) {
        return Ok((profile.to_owned(), None));
    }
    let text = profile_file(profile)?;
    let text = match serde_json::from_str::<serde_json::Value>(&text) {
        Ok(plan) => profile::of_plan(&plan).map_err(|error| Usage(format!("{profile}: {error}")))?,
        Err(_) => text,
    };
    profile::parse(profile, &text).map_err(|error| Usage(error.to_string()))?;
    Ok((profile.to_owned(), Some(text)))
}

/// The profile as it is brought to the hosts: its text lies in this folder, where it is none of Hone's own.
///
/// # Errors
/// When the folder can't be written.
pub fn source(folder: &Path, name: String, text: Option<&str>) -> Result<Source> {
    let file = folder.join("profile.toml");
    let file = match text {
        Some(text) => {
            std::fs::write(&file, text).with_context(|| format!("{} can't be written", file.display()))?;
            Some(file)
        }
        None => None,
    };
    Ok(Source { name, file })
}
