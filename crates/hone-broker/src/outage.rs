//! Whether the machine went down under a broker: then what was acknowledged from memory may be gone, which a killed
//! process alone does not cause.
//!
//! While a broker runs its data folder names the boot of the kernel that it runs under. A stop takes that away.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use anyhow::Context;

use crate::durable::replace_file;

const MARK_FILE: &str = "running";
const BOOT_ID_FILE: &str = "/proc/sys/kernel/random/boot_id";

/// The mark of a running broker in its data folder.
pub(crate) struct Mark {
    path: PathBuf,
    boot: String,
}

impl Mark {
    /// Of this boot; without `/proc` all boots look alike, and no outage is seen.
    pub(crate) fn of(data_dir: &Path) -> Self {
        let boot = fs::read_to_string(BOOT_ID_FILE).unwrap_or_default();
        Self { path: data_dir.join(MARK_FILE), boot: boot.trim().to_owned() }
    }

    /// Whether a broker ran here until its machine went down, or its folder was copied while it ran.
    pub(crate) fn tells_of_an_outage(&self) -> anyhow::Result<bool> {
        match fs::read_to_string(&self.path) {
            Ok(left) => Ok(left.trim() != self.boot),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error).with_context(|| format!("can't read {}", self.path.display())),
        }
    }

    /// Writes the mark. It is durable when the function returns. Call it after the repair of the last outage and before
    /// the broker serves clients.
    pub(crate) fn set(&self) -> anyhow::Result<()> {
        let said = format!("{}\n", self.boot);
        replace_file(&self.path, said.as_bytes())
            .with_context(|| format!("can't write {}", self.path.display()))
    }

    /// After a stop that left everything durable. A power cut may bring it back, which only costs a look at the offsets.
    pub(crate) fn take_away(&self) -> anyhow::Result<()> {
        fs::remove_file(&self.path).with_context(|| format!("can't remove {}", self.path.display()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_another_boot_under_a_broker_that_did_not_stop_is_an_outage() {
        let folder = tempfile::tempdir().unwrap();
        let boot = |id: &str| Mark { boot: id.to_owned(), ..Mark::of(folder.path()) };
        assert!(!boot("1").tells_of_an_outage().unwrap(), "a new folder");
        boot("1").set().unwrap();
        assert!(!boot("1").tells_of_an_outage().unwrap(), "a kill");
        assert!(boot("2").tells_of_an_outage().unwrap());
        assert!(boot("2").tells_of_an_outage().unwrap(), "as long as nobody has seen to it");
        boot("2").set().unwrap();
        boot("2").take_away().unwrap();
        assert!(!boot("3").tells_of_an_outage().unwrap(), "a clean stop");
    }
}
