//! Several runs in one text, combined, and whether they are comparable.

use std::collections::BTreeSet;

use hone_record::Category;

use super::reading::{Output, Reading};

/// Result of one run, if a text has several.
pub(super) struct Named<'a> {
    pub(super) name: String,
    /// Options of its command.
    pub(super) options: Vec<&'a str>,
    /// Index of its reader.
    pub(super) shape: usize,
    pub(super) output: Output,
}

/// Several runs, in their order.
pub(super) fn together(found: Vec<Named<'_>>) -> Output {
    let mut all = Output { runs: found.len(), ..Output::default() };
    if !are_of_a_kind(&found) {
        all.runs = 1;
        all.notes.push(
            "the runs have different PMUs, options, tools or CPU vendors, so Hone does not compare them"
                .to_owned(),
        );
    }
    found.into_iter().for_each(|run| all.take(run));
    all
}

/// Properties that comparable runs share.
#[derive(PartialEq)]
struct RunKind<'a> {
    shape: usize,
    options: &'a [&'a str],
    pmus: BTreeSet<Option<&'a str>>,
    /// Whether it counts the contention that only AMD's CPUs count.
    is_amd: bool,
}

impl Named<'_> {
    fn kind(&self) -> RunKind<'_> {
        let readings = &self.output.readings;
        RunKind {
            shape: self.shape,
            options: &self.options,
            pmus: readings.iter().map(|reading| reading.pmu.as_deref()).collect(),
            is_amd: readings.iter().any(|reading| reading.category == Category::SmtContention),
        }
    }
}

fn are_of_a_kind(found: &[Named<'_>]) -> bool {
    found.windows(2).all(|pair| pair[0].kind() == pair[1].kind())
}

impl Output {
    fn take(&mut self, Named { name, output, .. }: Named<'_>) {
        let named = |reading: Reading| {
            let scope = reading.scope.map(|scope| format!(", {scope}")).unwrap_or_default();
            Reading { scope: Some(format!("{name}{scope}")), ..reading }
        };
        self.readings.extend(output.readings.into_iter().map(named));
        self.unopened.extend(output.unopened);
        self.notes.extend(output.notes.into_iter().map(|note| format!("{name}: {note}")));
    }
}
