//! The end of a run of pairs: at a look with a verdict, by its clock, or after its last pair.

use anyhow::Result;
use hone_record::{Design, PairKind, PairOutcome, Verdict};
use serde::{Deserialize, Serialize};

use crate::drive::{Contest, judged};
use crate::folder::RunFolder;
use crate::progress::Progress;

/// The measured pairs.
#[derive(Debug)]
pub struct MeasuredPairs {
    /// All measured pairs, including excluded ones.
    pub pairs: Vec<PairOutcome>,
    /// Why there are no more.
    pub end: PairsEnd,
}

/// Why a run takes no more pairs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PairsEnd {
    /// The design has no more.
    Complete,
    /// The clock ended them before the design did, or a B that does not sustain the load.
    Cut,
    /// A look had a verdict.
    Decided,
    /// A look found that the rest of the plan has almost no chance of one.
    Hopeless,
}

impl MeasuredPairs {
    /// Planned pairs that the clock or B cut.
    pub(crate) fn unmeasured(&self, design: &Design) -> u32 {
        let at_a_look = matches!(self.end, PairsEnd::Decided | PairsEnd::Hopeless);
        let planned = if at_a_look { 0 } else { design.planned() };
        let measured = self.pairs.iter().filter(|pair| (pair.index as usize) < planned).count();
        planned.saturating_sub(measured) as u32
    }
}

/// How a look after these pairs ends the run, if one is due and does. It says so.
pub(crate) fn end_at(contest: &Contest<'_>, pairs: &[PairOutcome], progress: &Progress) -> Option<PairsEnd> {
    if is_decided(contest, pairs, progress) {
        return Some(PairsEnd::Decided);
    }
    let chance = hone_compare::hopeless(&contest.design, pairs)?;
    progress.line(&format!(
        "  {} is inconclusive after {} of {} A/B pairs, and the rest has a chance of {} of a verdict, so Hone ends \
         the run here",
        contest.design.rule.primary.label(),
        tests_of(pairs),
        contest.design.pairs,
        hone_format::percent(chance)
    ));
    Some(PairsEnd::Hopeless)
}

fn is_decided(contest: &Contest<'_>, pairs: &[PairOutcome], progress: &Progress) -> bool {
    let design = &contest.design;
    let Some(verdict) = hone_compare::decided(design, pairs) else { return false };
    // Troubles of one arm can leave the whole comparison without a verdict.
    let all = MeasuredPairs { pairs: pairs.to_vec(), end: PairsEnd::Decided };
    let is_decided = judged(contest, all).verdict() != Verdict::NotShown;
    if is_decided {
        let tests = tests_of(pairs);
        let of_plan = if tests < design.pairs { format!(" of {}", design.pairs) } else { String::new() };
        progress.line(&format!(
            "  {} is {} after {tests}{of_plan} A/B pairs, so Hone ends the run here",
            design.rule.primary.label(),
            verdict.label()
        ));
    }
    is_decided
}

fn tests_of(pairs: &[PairOutcome]) -> u32 {
    pairs.iter().filter(|pair| pair.kind == PairKind::Test).count() as u32
}

/// An end of a run's pairs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct End {
    /// A/B pairs measured by then, with excluded ones.
    pub(crate) pairs: u32,
    pub(crate) why: PairsEnd,
}

/// `ended.json`.
#[derive(Debug, Serialize, Deserialize)]
#[serde(untagged)]
enum Note {
    /// Of an older version: whether the clock or B ended it.
    Cut(bool),
    /// Each end, the last one of a continued run last.
    Ends(Vec<End>),
}

/// The ends of the run with this prefix. An older version did not note the pairs.
pub(crate) fn ends(folder: &RunFolder, prefix: &str) -> Result<Vec<End>> {
    Ok(match folder.read_note(&format!("{prefix}ended.json"))? {
        None => Vec::new(),
        Some(Note::Cut(_)) => vec![End { pairs: 0, why: PairsEnd::Cut }],
        Some(Note::Ends(ends)) => ends,
    })
}

/// The pairs of a run that has ended; `None` if it has not. Such a run takes no more pairs, so that nobody measures until the verdict suits.
pub(crate) fn ended(contest: &Contest<'_>) -> Result<Option<MeasuredPairs>> {
    let ends = ends(contest.folder, &contest.prefix)?;
    let Some(last) = ends.last().filter(|_| ends.len() > earlier_ends(&contest.design).len()) else {
        return Ok(None);
    };
    let notes = (0..contest.design.order.len()).map(|index| contest.folder.read_note(&contest.note(index)));
    let pairs = notes.filter_map(Result::transpose).collect::<Result<_>>()?;
    Ok(Some(MeasuredPairs { pairs, end: last.why }))
}

/// Notes the end of a run that takes no more pairs, although its design has some.
pub(crate) fn note_end(contest: &Contest<'_>, measured: &MeasuredPairs) -> Result<()> {
    if measured.end == PairsEnd::Complete && contest.design.continuation.is_none() {
        return Ok(());
    }
    let mut ends = ends(contest.folder, &contest.prefix)?;
    ends.push(End { pairs: tests_of(&measured.pairs), why: measured.end });
    contest.folder.write_note(&format!("{}ended.json", contest.prefix), &Note::Ends(ends))
}

fn earlier_ends(design: &Design) -> &[u32] {
    design.continuation.as_ref().map_or(&[], |continuation| &continuation.ends)
}

/// The design as it was before the first window: without the ends of earlier budgets.
pub(crate) fn as_begun(design: &Design) -> Design {
    let mut design = design.clone();
    design.continuation.iter_mut().for_each(|continuation| continuation.ends.clear());
    design
}
