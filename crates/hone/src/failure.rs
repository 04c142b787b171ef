//! What a user reads of an error.

use std::io::Write as _;

use hone_experiment::ending::WayOn;
use hone_experiment::usage;

/// An error as a user reads it: what failed, why, and what to do next. The remedy comes before the way to go on.
fn told(error: &anyhow::Error) -> String {
    let way_on = error.downcast_ref::<WayOn>().map(|way_on| way_on.0.clone());
    let words: Vec<String> =
        error.chain().map(ToString::to_string).filter(|words| way_on.as_ref() != Some(words)).collect();
    let words = words.join(": ");
    let of_load = || error.chain().find_map(|cause| cause.downcast_ref::<hone_load::LoadError>()?.next());
    let has_remedy = words.contains(NEXT);
    let remedy = if has_remedy { None } else { of_load() };
    // What was asked for is refused again by the same run.
    let way_on = way_on.filter(|_| !(has_remedy && is_usage(error)));
    [remedy, way_on].into_iter().flatten().fold(words, |text, next| text + NEXT + &next)
}

/// What stands before the step that an error advises.
const NEXT: &str = "\n  next: ";

/// Whether an error is about what was asked for, and not about what happened.
pub(crate) fn is_usage(error: &anyhow::Error) -> bool {
    usage::is_usage(error) || error.chain().any(|cause| cause.is::<hone_broker::SettingsError>())
}

/// Prints an error. A closed stderr is no second error.
pub(crate) fn report(error: &anyhow::Error) {
    let is_full = std::env::var_os("RUST_BACKTRACE").is_some_and(|value| value == "full");
    let text = if is_full { format!("{error:?}") } else { told(error) };
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
        assert_eq!(told(&failed()), "pair 1: a is no b");
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

    /// Of two ways on one would measure the same again.
    #[test]
    fn nobody_is_sent_back_into_a_run_that_can_not_get_further() {
        let parent = tempfile::tempdir().unwrap();
        let folder = RunFolder::create(parent.path(), "run").unwrap();
        let told_of = |may_go_on| {
            let beyond = BeyondReach { why: "held at every rate".to_owned(), may_go_on };
            let error = anyhow::Error::from(beyond).context("pair 1");
            told(&WayOn::behind(Err::<(), _>(error), "tune", &folder).unwrap_err())
        };
        assert_eq!(told_of(false), "pair 1: held at every rate");
        assert!(told_of(true).contains("next: to go on after the last pair: hone tune --resume"));
    }
}
