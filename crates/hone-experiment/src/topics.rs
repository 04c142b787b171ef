//! Topics that a run creates on a running cluster. Their names are on the disk before the first is created, so that those of a
//! killed run are found and deleted.

use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Result, bail};
use hone_load::{Admin, Security};
use serde::{Deserialize, Serialize};

use crate::folder::RunFolder;
use crate::progress::Progress;

/// Topics that may exist, as long as the note does.
const NOTE: &str = "topics.json";
/// Prefix of all their names. Hone never deletes another topic, whatever a note says.
const OWN: &str = "hone-";

/// A unique name prefix for a run's topics.
pub fn prefix(verb: &str) -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis());
    format!("{OWN}{verb}-{now:x}-{:x}-", std::process::id())
}

/// Topics of a run on a cluster.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Topics {
    /// A broker of the cluster.
    pub address: String,
    /// Prefix of their names.
    pub prefix: String,
}

/// The note of a run: about one cluster, or several.
#[derive(Deserialize)]
#[serde(untagged)]
enum Noted {
    One(Topics),
    Several(Vec<Topics>),
}

fn noted(folder: &RunFolder) -> Result<Vec<Topics>> {
    Ok(match folder.read_note(NOTE)? {
        None => Vec::new(),
        Some(Noted::One(topics)) => vec![topics],
        Some(Noted::Several(topics)) => topics,
    })
}

/// As [`all_looked_after`], on one cluster or none.
///
/// # Errors
/// As there.
pub fn looked_after<T>(
    folder: &RunFolder,
    topics: Option<&Topics>,
    security: &Security,
    progress: &Progress,
    work: impl FnOnce() -> Result<T>,
) -> Result<T> {
    all_looked_after(folder, topics.map_or(&[][..], std::slice::from_ref), security, progress, work)
}

/// Does the work of a run. It first deletes topics of an earlier attempt, and afterwards the run's own, whatever the outcome.
/// Topics of a killed run are deleted by the next one. `topics` is empty if they disappear with their broker or shall stay.
///
/// # Errors
/// Those of the work. Also when topics of an earlier attempt can't be deleted.
pub fn all_looked_after<T>(
    folder: &RunFolder,
    topics: &[Topics],
    security: &Security,
    progress: &Progress,
    work: impl FnOnce() -> Result<T>,
) -> Result<T> {
    sweep(folder, security, progress)?;
    if !topics.is_empty() {
        folder.write_note(NOTE, &topics)?;
    }
    let found = work();
    // If a broker does not answer now, the next run asks it.
    if let Err(error) = sweep(folder, security, progress) {
        progress.line(&format!("can't delete the run's topics now: {error:#}"));
    }
    found
}

/// Deletes topics of killed runs under this folder. A cluster that does not answer is reported and left for later. So is a
/// cluster of another run if there is a login, because the login belongs to this run's cluster.
pub fn sweep_left_overs(runs: &Path, places: &[&str], security: &Security, progress: &Progress) {
    for run in std::fs::read_dir(runs).into_iter().flatten().flatten() {
        if !run.path().join(NOTE).is_file() {
            continue;
        }
        let Ok(folder) = RunFolder::open(&run.path()) else { continue };
        // An active run deletes its own.
        let Ok(_held) = folder.held() else { continue };
        if let Some(address) = elsewhere(&folder, places, security) {
            progress.line(&format!(
                "{} left topics on {address}, but this run's login is for another cluster; resume that run, \
                 or delete the topics by hand",
                folder.path().display()
            ));
            continue;
        }
        if let Err(error) = sweep(&folder, security, progress) {
            progress.line(&format!(
                "{} left topics that can't be deleted now: {error:#}; the next run tries again, unless you \
                 remove {}",
                folder.path().display(),
                folder.join(NOTE).display()
            ));
        }
    }
}

/// The address of a run's topics to which this run's login must not be sent.
fn elsewhere(folder: &RunFolder, places: &[&str], security: &Security) -> Option<String> {
    let addresses = noted(folder).ok()?.into_iter().map(|topics| topics.address);
    addresses.filter(|_| !security.is_open()).find(|address| !places.contains(&address.as_str()))
}

/// Deletes this run's remaining topics, and the note about them. Returns whether there was a note.
///
/// # Errors
/// When a cluster does not answer, or rejects the request.
pub fn sweep(folder: &RunFolder, security: &Security, progress: &Progress) -> Result<bool> {
    let noted = noted(folder)?;
    if noted.is_empty() {
        return Ok(false);
    }
    noted.iter().try_for_each(|topics| sweep_one(folder, topics, security, progress))?;
    folder.remove(NOTE)?;
    Ok(true)
}

fn sweep_one(folder: &RunFolder, note: &Topics, security: &Security, progress: &Progress) -> Result<()> {
    if !note.prefix.starts_with(OWN) || note.prefix.len() == OWN.len() {
        bail!(
            "{} has the topic prefix `{}`, which no run uses; Hone deleted nothing\n  next: check which \
             topics are left at {}, and remove the file",
            folder.join(NOTE).display(),
            note.prefix,
            note.address
        );
    }
    let mut admin = Admin::connect_with(&note.address, security)?;
    let left = admin
        .topics()?
        .into_iter()
        .map(|listed| listed.topic)
        .filter(|topic| topic.starts_with(&note.prefix));
    for topic in left.collect::<Vec<_>>() {
        admin.delete_topic(&topic)?;
        progress.line(&format!("deleted {topic} at {}, which a killed run had left", note.address));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn left(runs: &Path, prefix: &str) -> RunFolder {
        let folder = RunFolder::create(runs, "batch-prove").unwrap();
        // The format of earlier versions.
        let note = Topics { address: "127.0.0.1:1".to_owned(), prefix: prefix.to_owned() };
        folder.write_note(NOTE, &note).unwrap();
        folder
    }

    #[test]
    fn a_login_is_shown_to_no_other_cluster() {
        let runs = tempfile::tempdir().unwrap();
        let folder = left(runs.path(), "hone-prove-1-");
        let login = hone_load::security::Sasl {
            mechanism: hone_load::security::Mechanism::Plain,
            user: "me".to_owned(),
            password: hone_load::security::Password::new("secret".to_owned()),
        };
        let secured = Security { sasl: Some(login), ..Security::default() };
        assert_eq!(elsewhere(&folder, &["this:9092"], &secured).as_deref(), Some("127.0.0.1:1"));
        assert_eq!(elsewhere(&folder, &["127.0.0.1:1"], &secured), None);
        assert_eq!(elsewhere(&folder, &["this:9092"], &Security::default()), None);
        // Each of the two clusters is checked.
        let two = ["127.0.0.1:1", "127.0.0.1:2"]
            .map(|address| Topics { address: address.to_owned(), prefix: "hone-compare-1-".to_owned() });
        folder.write_note(NOTE, &two).unwrap();
        assert_eq!(elsewhere(&folder, &["127.0.0.1:1"], &secured).as_deref(), Some("127.0.0.1:2"));
        assert_eq!(elsewhere(&folder, &["127.0.0.1:1", "127.0.0.1:2"], &secured), None);
    }

    #[test]
    fn prefixes_name_the_run() {
        let prefix = prefix("prove");
        assert!(prefix.starts_with("hone-prove-") && prefix.ends_with('-'));
        assert!(prefix.len() < 60, "a topic's name has 249 letters at most");
    }

    /// Every topic of the cluster starts with an empty prefix.
    #[test]
    fn a_note_that_names_foreign_topics_deletes_none() {
        let runs = tempfile::tempdir().unwrap();
        for prefix in ["", "orders", "hone-"] {
            let folder = left(runs.path(), prefix);
            let refused = sweep(&folder, &Security::default(), &Progress::new(true)).unwrap_err();
            assert!(refused.to_string().contains("Hone deleted nothing"), "{refused:#}");
        }
    }
}
