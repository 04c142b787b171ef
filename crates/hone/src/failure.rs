//! The text of an error on the terminal.

use std::io::Write as _;

use hone_experiment::ending::WayOn;
use hone_experiment::usage;
use hone_format::FileError;

/// The text of an error: what failed, why, and what to do next. A remedy comes before the command that continues the run.
fn told(error: &anyhow::Error) -> String {
    let way_on = error.downcast_ref::<WayOn>().map(|way_on| way_on.0.clone());
    let causes = error.chain().map(ToString::to_string).filter(|cause| way_on.as_ref() != Some(cause));
    let (mut failed, mut remedies) = (Vec::new(), Vec::new());
    for cause in causes {
        let mut parts = cause.split(NEXT).map(str::to_owned);
        failed.extend(parts.next().map(|text| in_words(&text)));
        remedies.extend(parts);
    }
    // A cause that the text before it quotes already says nothing new.
    failed.dedup_by(|cause, before| before.ends_with(cause.as_str()));
    let of_load = || error.chain().find_map(|cause| cause.downcast_ref::<hone_load::LoadError>()?.next());
    let has_remedy = !remedies.is_empty();
    if !has_remedy {
        remedies.extend(of_load());
    }
    // The same run would refuse its settings again, so do not offer to continue it.
    remedies.extend(way_on.filter(|_| !(has_remedy && is_usage(error))));
    if remedies.is_empty() {
        remedies.push(usual(error));
    }
    remedies.dedup();
    remedies.into_iter().fold(failed.join(": "), |text, next| text + NEXT + &next)
}

/// The words before the step that an error recommends.
const NEXT: &str = "\n  next: ";

/// An error of the system without its number.
fn in_words(text: &str) -> String {
    let Some((before, rest)) = text.split_once(" (os error ") else { return text.to_owned() };
    let Some((_, after)) = rest.split_once(')') else { return text.to_owned() };
    format!("{before}{after}")
}

/// The step where no cause knows a better one.
fn usual(error: &anyhow::Error) -> String {
    use std::io::ErrorKind;
    let kind = error.chain().find_map(|cause| Some(cause.downcast_ref::<std::io::Error>()?.kind()));
    match kind {
        Some(ErrorKind::NotFound) => "check the path".to_owned(),
        Some(ErrorKind::PermissionDenied) => {
            "check the rights of this user on the path, or run the command as root".to_owned()
        }
        Some(ErrorKind::StorageFull) => "free space on this disk, and run the command again".to_owned(),
        _ if error.chain().any(|cause| cause.is::<FileError>()) => {
            "correct the file; docs/formats.md lists its keys".to_owned()
        }
        _ if is_usage(error) => "see the options with --help".to_owned(),
        _ => "`hone doctor` checks this machine; docs/troubleshooting.md lists messages and remedies"
            .to_owned(),
    }
}

/// Whether an error is about the usage (exit code 2) and not about the run.
pub(crate) fn is_usage(error: &anyhow::Error) -> bool {
    let is_missing = |cause: &std::io::Error| cause.kind() == std::io::ErrorKind::NotFound;
    // A file that is not there may be there the next time: all verbs fail with exit code 1.
    if error.chain().any(|cause| cause.downcast_ref::<std::io::Error>().is_some_and(is_missing)) {
        return false;
    }
    usage::is_usage(error) || error.chain().any(|cause| cause.is::<hone_broker::SettingsError>())
}

/// Prints an error.
pub(crate) fn report(error: &anyhow::Error) {
    let is_full = std::env::var_os("RUST_BACKTRACE").is_some_and(|value| value == "full");
    print(&if is_full { format!("{error:?}") } else { told(error) });
}

/// Prints the text of an error. A closed stderr is no second error.
pub(crate) fn print(text: &str) {
    let _ = writeln!(std::io::stderr(), "hone: {text}");
}

#[cfg(test)]
mod tests {
    use anyhow::Context as _;

    use hone_experiment::ending::{BeyondReach, Usage};

    use super::*;
    use hone_experiment::folder::RunFolder;

    #[test]
    fn the_way_on_is_told_last_and_the_kind_of_the_error_is_kept() {
        let failed = || anyhow::Error::from(Usage("a is no b".to_owned())).context("pair 1");
        assert_eq!(told(&failed()), "pair 1: a is no b\n  next: see the options with --help");
        let way_on = || WayOn("to go on: hone tune".to_owned());
        let error = Err::<(), _>(failed()).with_context(way_on).unwrap_err();
        assert_eq!(told(&error), "pair 1: a is no b\n  next: to go on: hone tune");
        assert!(is_usage(&error));
        let refused =
            Err::<(), _>(anyhow::Error::from(Usage("another rule\n  next: begin a new run".to_owned())));
        assert_eq!(told(&refused.with_context(way_on).unwrap_err()), "another rule\n  next: begin a new run");
    }

    #[test]
    fn an_error_of_the_load_brings_its_next_step_unless_another_is_there() {
        let refused = || hone_load::LoadError::SpeaksTls { address: "b:1".to_owned() };
        let error = anyhow::Error::from(refused()).context("topic t");
        assert!(told(&error).contains("connected without it\n  next: add --tls"), "{}", told(&error));
        let other = anyhow::Error::from(refused()).context("topic t\n  next: read");
        assert_eq!(told(&other).matches("next:").count(), 1);
        let resumed = anyhow::Error::from(refused()).context(WayOn("to go on: hone compare".to_owned()));
        assert!(told(&resumed).contains("next: add --tls"), "{}", told(&resumed));
        assert!(told(&resumed).ends_with("\n  next: to go on: hone compare"), "{}", told(&resumed));
    }

    /// To continue such a run would only measure the same again.
    #[test]
    fn nobody_is_sent_back_into_a_run_that_can_not_get_further() {
        let parent = tempfile::tempdir().unwrap();
        let folder = RunFolder::create(parent.path(), "run").unwrap();
        let told_of = |may_go_on| {
            let beyond = BeyondReach { why: "held at every rate".to_owned(), may_go_on };
            let error = anyhow::Error::from(beyond).context("pair 1");
            told(&WayOn::behind(Err::<(), _>(error), "tune", &folder).unwrap_err())
        };
        assert!(
            told_of(false).starts_with("pair 1: held at every rate\n  next: `hone doctor`"),
            "{}",
            told_of(false)
        );
        assert!(told_of(true).contains("next: `hone tune --resume"));
    }

    /// Wherever in the chain a remedy stands, it comes last, and each of them once.
    #[test]
    fn every_error_ends_with_what_to_do() {
        let missing = || std::io::Error::from_raw_os_error(libc::ENOENT);
        let plain = anyhow::Error::from(missing()).context("cannot read a.toml");
        assert_eq!(told(&plain), "cannot read a.toml: No such file or directory\n  next: check the path");
        let inner = anyhow::Error::from(missing()).context("there is no run x\n  next: name another");
        assert_eq!(told(&inner), "there is no run x: No such file or directory\n  next: name another");
        assert!(!is_usage(&anyhow::Error::from(missing()).context(Usage("a".to_owned()))));
        assert!(told(&anyhow::anyhow!("it broke")).ends_with(
            "\n  next: `hone doctor` checks this machine; docs/troubleshooting.md lists messages and remedies"
        ));
    }
}
