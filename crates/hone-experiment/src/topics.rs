//! Topics that a run makes on a cluster that goes on running: on the disk before the first is made, so that those of a killed run are found and
//! deleted.

use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Result, bail};
use hone_load::{Admin, Security};
use serde::{Deserialize, Serialize};

use crate::folder::RunFolder;
use crate::progress::Progress;

/// Topics that may be there, as long as the note is.
const NOTE: &str = "topics.json";
/// How the names of all of them begin. Nothing else is ever deleted, whatever a note says.
const OWN: &str = "hone-";

/// A name for topics that no other run has.
pub fn prefix(verb: &str) -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis());
    format!("{OWN}{verb}-{now:x}-{:x}-", std::process::id())
}

/// Topics of a run on a cluster.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Topics {
    /// A broker of the cluster.
    pub address: String,
    /// What their names begin with.
    pub prefix: String,
}

/// What a run wrote down: of one cluster, or of several.
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

/// Does the work of a run. Topics that an earlier attempt left are deleted before it, its own after it, however it ends; those of a run that is
/// killed by whoever comes next. There are no `topics` where they go with their broker or shall stay.
///
/// # Errors
/// Those of the work; and when what an earlier attempt left can't be deleted.
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
    // A broker that can't be asked now is asked by the next run.
    if let Err(error) = sweep(folder, security, progress) {
        progress.line(&format!("the run's topics could not be looked after: {error:#}"));
    }
    found
}

/// Deletes topics that runs under this folder left on a cluster when they were killed. One that does not answer any more is told and
/// left for later; so is another than this run's where there is a login, which is this run's alone.
pub fn sweep_left_overs(runs: &Path, places: &[&str], security: &Security, progress: &Progress) {
    for run in std::fs::read_dir(runs).into_iter().flatten().flatten() {
        if !run.path().join(NOTE).is_file() {
            continue;
        }
        let Ok(folder) = RunFolder::open(&run.path()) else { continue };
        // One that goes on looks after its own.
        let Ok(_held) = folder.held() else { continue };
        if let Some(address) = elsewhere(&folder, places, security) {
            progress.line(&format!(
                "{} left topics on {address}, which may not see this run's login; go on with that run, or delete them by hand",
                folder.path().display()
            ));
            continue;
        }
        if let Err(error) = sweep(&folder, security, progress) {
            progress.line(&format!(
                "{} left topics behind that can't be deleted now: {error:#}; whoever comes next tries again, unless you remove {}",
                folder.path().display(),
                folder.join(NOTE).display()
            ));
        }
    }
}

/// The address of a run's topics, where this run's login is none of its business.
fn elsewhere(folder: &RunFolder, places: &[&str], security: &Security) -> Option<String> {
    let addresses = noted(folder).ok()?.into_iter().map(|topics| topics.address);
    addresses.filter(|_| !security.is_open()).find(|address| !places.contains(&address.as_str()))
}

/// Deletes this run's topics that are still there, and the note that says so. Answers whether there was a note.
///
/// # Errors
/// When a cluster does not answer, or refuses.
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
            "{} says that the run's topics begin with `{}`, which no run's do; nothing was deleted: see which topics are left at {}, and \
             remove the file",
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
        progress.line(&format!("Deleted {topic} at {}, which a run that was killed had left", note.address));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn left(runs: &Path, prefix: &str) -> RunFolder {
        let folder = RunFolder::create(runs, "batch-prove").unwrap();
        // As earlier versions wrote it.
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
        // Of two clusters each is asked about.
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

    /// An empty beginning is that of every topic of the cluster.
    #[test]
    fn a_note_that_names_foreign_topics_deletes_none() {
        let runs = tempfile::tempdir().unwrap();
        for prefix in ["", "orders", "hone-"] {
            let folder = left(runs.path(), prefix);
            let refused = sweep(&folder, &Security::default(), &Progress::new(true)).unwrap_err();
            assert!(refused.to_string().contains("nothing was deleted"), "{refused:#}");
        }
    }
}
