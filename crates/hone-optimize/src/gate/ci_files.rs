//! Writes the files of a gate that a CI system reads, also for a gate that failed to run.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};

use super::begin::begun_in;
use super::papers::{self, Came};
use hone_experiment::spec;

/// The requested files.
#[derive(Debug)]
pub struct CiFiles {
    /// JUnit XML.
    pub junit: Option<PathBuf>,
    /// SARIF 2.1.0.
    pub sarif: Option<PathBuf>,
    /// A comment in Markdown.
    pub comment: Option<PathBuf>,
}

/// The subject of a run, as far as it is known after a failure: the experiment's name, and its file by the path in the repository.
pub fn about(resumed: Option<&Path>, file: &Path) -> (String, String) {
    match resumed {
        Some(run) => match begun_in(run) {
            Some(asked) => (asked.name, asked.path),
            None => ("gate".to_owned(), run.display().to_string()),
        },
        None => (name_in(file), in_repository(file).unwrap_or_else(|| file.display().to_string())),
    }
}

/// Works without git, because git may be what failed.
fn in_repository(file: &Path) -> Option<String> {
    let file = std::path::absolute(file).ok()?;
    let folder = file.parent()?.canonicalize().ok()?;
    let top = folder.ancestors().find(|above| above.join(".git").exists())?;
    Some(folder.strip_prefix(top).ok()?.join(file.file_name()?).to_str()?.to_owned())
}

/// The experiment's name, if it is valid. After a failure nothing else has checked it, and it goes into the CI files.
fn name_in(file: &Path) -> String {
    let text = fs::read_to_string(file).unwrap_or_default();
    let name = spec::name_in(&text).filter(|name| spec::check_name(name).is_ok());
    name.unwrap_or_else(|| "gate".to_owned())
}

/// Writes the named files, and as many of them as possible. The comment also goes to the file where GitHub shows the summary of a step.
///
/// # Errors
/// Returns the first failure.
pub fn write_ci_files(files: &CiFiles, came: Came<'_>) -> Result<()> {
    let mut done = Ok(());
    let mut keep = |written: Result<()>| {
        if done.is_ok() {
            done = written;
        }
    };
    let write = |path: &Path, text: &str| {
        if let Some(parent) = path.parent().filter(|parent| !parent.as_os_str().is_empty()) {
            fs::create_dir_all(parent).with_context(|| format!("{} can't be made", parent.display()))?;
        }
        fs::write(path, text).with_context(|| format!("{} can't be written", path.display()))
    };
    if let Some(path) = &files.junit {
        keep(papers::junit(came).map_err(Into::into).and_then(|text| write(path, &text)));
    }
    if let Some(path) = &files.sarif {
        keep(write(path, &format!("{:#}\n", papers::sarif(came))));
    }
    let comment = comment_of(came);
    if let Some(path) = &files.comment {
        keep(write(path, &comment));
    }
    if let Some(path) = std::env::var_os("GITHUB_STEP_SUMMARY").filter(|path| !path.is_empty()) {
        let path = PathBuf::from(path);
        let added = fs::OpenOptions::new().create(true).append(true).open(&path);
        let added = added.and_then(|mut file| file.write_all(format!("{comment}\n").as_bytes()));
        keep(added.with_context(|| format!("{} can't be written", path.display())));
    }
    done
}

fn comment_of(came: Came<'_>) -> String {
    match came {
        Came::Found(found) => hone_report::documents::gate_comment(found).markdown(),
        Came::Failed { name, error, .. } => {
            let (name, error) = (hone_report::in_a_cell(name), error.replace("```", "'''"));
            format!("**hone gate, {name}**: inconclusive.\n\n```\n{error}\n```\n")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_can_be_a_name_is_taken_for_one() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("hone.toml");
        for (text, expected) in [
            ("name = \"orders\"", "orders"),
            ("name = \"x** @org/everyone\\n\\n# Approved\"", "gate"),
            ("name = \"\"", "gate"),
            ("name = ", "gate"),
        ] {
            fs::write(&file, text).unwrap();
            assert_eq!(name_in(&file), expected, "{text}");
        }
        assert_eq!(name_in(&folder.path().join("none")), "gate");
    }

    #[test]
    fn a_comment_of_a_failed_run_says_nothing_for_somebody_else() {
        let name = "x @org/everyone ![p](https://e.example/p.png)\n\n# Approved";
        let told = comment_of(Came::Failed { name, file: "hone.toml", error: "no ```\n# way" });
        let lines: Vec<&str> = told.lines().collect();
        assert!(lines[0].starts_with("**hone gate, x "), "{told}");
        assert!(lines[0].ends_with("**: inconclusive."), "{told}");
        assert!(!told.contains("@org") && !told.contains("![p]") && !told.contains("\n# Approved"), "{told}");
        assert_eq!(lines[1..], ["", "```", "no '''", "# way", "```"], "{told}");
    }
}
