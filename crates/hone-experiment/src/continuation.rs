//! Continues a run whose time budget ended without a verdict. Its design fixed the further pairs and their looks before the first window.

use anyhow::{Result, bail};
use hone_format::duration;
use hone_record::{Comparison, Design, Verdict};

use crate::ending::Usage;
use crate::folder::{RunFolder, read_record};
use crate::looks::{self, End};

/// The total budgets of a continued run in seconds, one for each continuation.
const NOTE: &str = "continued.json";

/// The total budget of each continuation, in seconds. Empty if the run was not continued.
///
/// # Errors
/// When the note can't be read.
pub(crate) fn budgets(folder: &RunFolder) -> Result<Vec<f64>> {
    Ok(folder.read_note(NOTE)?.unwrap_or_default())
}

/// The time limit of the run in seconds, with its continuations; `asked_s` is the one that it began with.
///
/// # Errors
/// As for [`budgets`].
pub(crate) fn total_s(folder: &RunFolder, asked_s: Option<f64>) -> Result<Option<f64>> {
    Ok(budgets(folder)?.last().copied().or(asked_s))
}

/// Adds the ends of the earlier budgets to a design: the looks behind them depend on these.
///
/// # Errors
/// When a note can't be read.
pub(crate) fn add_ends(design: &mut Design, folder: &RunFolder) -> Result<()> {
    let (budgets, ends) = (budgets(folder)?, looks::ends(folder, "")?);
    if let Some(continuation) = &mut design.continuation {
        continuation.ends = ends.iter().take(budgets.len()).map(|end| end.pairs).collect();
    }
    Ok(())
}

/// Begins a continuation with this total budget of a run that began with `asked_s` and whose pairs took `used_s`, all in seconds.
///
/// # Errors
/// When the run has not ended, has a verdict or can't be continued, and when the budget is not larger than the one before.
pub(crate) fn begin(folder: &RunFolder, asked_s: Option<f64>, used_s: f64, total_s: f64) -> Result<()> {
    let path = folder.path().display();
    let (mut budgets, ends) = (budgets(folder)?, looks::ends(folder, "")?);
    let design: Option<Design> = folder.read_note("design.json")?;
    if let Some(why) = design.and_then(|design| why_not(&design, &ends)) {
        bail!(Usage(format!(
            "{path} can't be continued: {why}\n  next: begin a new run with a larger --budget"
        )));
    }
    let record = folder.join("comparison.json");
    if ends.len() <= budgets.len() || !record.is_file() {
        bail!(Usage(format!(
            "{path} has not ended, so it needs no larger budget\n  next: hone compare --resume {path}"
        )));
    }
    let verdict = read_record::<Comparison>(&record)?.verdict();
    if verdict != Verdict::NotShown {
        bail!(Usage(format!(
            "{path} has a verdict ({}) and takes no more pairs: nobody may measure until a verdict suits\n  \
             next: begin a new run to repeat the comparison",
            verdict.label()
        )));
    }
    let before_s = budgets.last().copied().or(asked_s).unwrap_or_default().max(used_s);
    if total_s <= before_s {
        bail!(Usage(format!(
            "--budget is the total time of the run, and {} of it are over\n  next: hone compare --resume \
             {path} --budget {}m",
            duration(before_s),
            (before_s / 60.0).floor() * 2.0 + 1.0
        )));
    }
    budgets.push(total_s);
    folder.write_note(NOTE, &budgets)
}

/// Why the design leaves no further pairs.
fn why_not(design: &Design, ends: &[End]) -> Option<String> {
    let most = design.looks.last().map_or(0, |look| look.pairs);
    let measured = ends.last().map_or(0, |end| end.pairs);
    match &design.continuation {
        Some(_) if measured < most => None,
        Some(_) => Some(format!("its design allows {most} A/B pairs, and all are measured")),
        None if design.budget.is_none() => Some("its number of pairs is fixed".to_owned()),
        None if design.has_several_builds() => {
            Some("with several builds, the only look is at the end".to_owned())
        }
        None => Some("the version of Hone that began it planned no looks for that".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use hone_record::{Budget, Continuation, Look};

    use super::*;
    use crate::fixture;
    use crate::looks::PairsEnd;

    const ASKED: Option<f64> = Some(300.0);

    fn design() -> Design {
        let budget = Budget { total_s: 300.0, pilot_pairs: 5, pair_s: 5.0, words: String::new() };
        let look = |pairs: u32| Look { pairs, level: 0.01, spent: 0.01 };
        Design {
            pairs: 8,
            budget: Some(budget),
            looks: [5, 8, 16, 24, 32].map(look).to_vec(),
            continuation: Some(Continuation { pairs: 36, ends: Vec::new() }),
            ..fixture::comparison(None).design
        }
    }

    /// A run whose last budget ended after this many A/B pairs.
    fn run(design: &Design, verdict: Verdict, ends: &[u32]) -> (tempfile::TempDir, RunFolder) {
        let home = tempfile::tempdir().unwrap();
        let folder = RunFolder::create(home.path(), "compare").unwrap();
        let mut found = fixture::comparison(Some(Verdict::Equivalent));
        found.judgements[0].verdict = verdict;
        folder.write_note("design.json", design).unwrap();
        folder.write_record("comparison.json", found).unwrap();
        let end = |pairs: &u32| End { pairs: *pairs, why: PairsEnd::Cut };
        folder.write_note("ended.json", &ends.iter().map(end).collect::<Vec<_>>()).unwrap();
        (home, folder)
    }

    #[test]
    fn a_run_without_a_verdict_is_continued_up_to_its_last_look() {
        let (_home, folder) = run(&design(), Verdict::NotShown, &[7]);
        let mut design = design();
        add_ends(&mut design, &folder).unwrap();
        assert_eq!(design.continuation.as_ref().unwrap().ends, [0_u32; 0], "it was not continued");
        begin(&folder, ASKED, 290.0, 600.0).unwrap();
        assert_eq!(total_s(&folder, ASKED).unwrap(), Some(600.0));
        add_ends(&mut design, &folder).unwrap();
        assert_eq!(design.continuation.as_ref().unwrap().ends, [7]);
        let again = begin(&folder, ASKED, 290.0, 900.0).unwrap_err().to_string();
        assert!(again.contains("has not ended") && again.contains("next: hone compare --resume"), "{again}");
    }

    #[test]
    fn what_must_not_be_continued_is_refused_with_the_reason() {
        let refused = |design: &Design, verdict, ends: &[u32], total_s: f64| {
            let (_home, folder) = run(design, verdict, ends);
            let error = begin(&folder, ASKED, 290.0, total_s).unwrap_err();
            assert!(error.is::<Usage>() && budgets(&folder).unwrap().is_empty());
            error.to_string()
        };
        let told = refused(&design(), Verdict::Better, &[7], 600.0);
        assert!(told.contains("has a verdict (better) and takes no more pairs"), "{told}");
        let told = refused(&design(), Verdict::NotShown, &[32], 600.0);
        assert!(told.contains("allows 32 A/B pairs, and all are measured"), "{told}");
        let told = refused(&design(), Verdict::NotShown, &[7], 300.0);
        assert!(told.contains("5 min of it are over") && told.contains("--budget 11m"), "{told}");
        let older = Design { continuation: None, ..design() };
        let told = refused(&older, Verdict::NotShown, &[7], 600.0);
        assert!(told.contains("the version of Hone that began it"), "{told}");
        let fixed = Design { budget: None, ..older.clone() };
        assert!(refused(&fixed, Verdict::NotShown, &[7], 600.0).contains("its number of pairs is fixed"));
        let builds = Design { builds: [3, 3], ..older };
        assert!(refused(&builds, Verdict::NotShown, &[7], 600.0).contains("with several builds"));
    }

    #[test]
    fn a_run_that_an_older_version_ended_is_read() {
        let (_home, folder) = run(&design(), Verdict::NotShown, &[]);
        folder.write_text("ended.json", "true").unwrap();
        assert_eq!(looks::ends(&folder, "").unwrap(), [End { pairs: 0, why: PairsEnd::Cut }]);
    }
}
