//! Several runs of `perf stat` in one text: a comparison that somebody put into one file, or printed in a page.

/// Where a run begins, and how it is called.
const BEGIN: &str = "Performance counter stats for ";

/// A part of a text.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Run<'a> {
    pub(super) text: &'a str,
    /// How many lines of the text stand in front of it.
    pub(super) lines_before: usize,
    /// Counted from 1.
    number: usize,
    /// What perf counted, in its words.
    of: &'a str,
}

impl Run<'_> {
    /// The name of what a value is of.
    pub(super) fn named(&self, scope: Option<&str>) -> String {
        let scope = scope.map(|scope| format!(", {scope}")).unwrap_or_default();
        format!("run {} ({}){scope}", self.number, self.of)
    }
}

/// The runs of a text, in their order; what stands in front of the first is of none.
pub(super) fn split(text: &str) -> Vec<Run<'_>> {
    let begins: Vec<usize> = text.match_indices(BEGIN).map(|(at, _)| at).collect();
    let ends = begins.iter().skip(1).copied().chain([text.len()]);
    let (mut lines, mut counted) = (0, 0);
    let run = |(index, (&from, to)): (usize, (&usize, usize))| {
        lines += text[counted..from].matches('\n').count();
        counted = from;
        let text = &text[from..to];
        let of = text.lines().next().unwrap_or_default();
        let of = of.strip_prefix(BEGIN).unwrap_or(of).trim().trim_end_matches(':');
        Run { text, lines_before: lines, number: index + 1, of }
    };
    begins.iter().zip(ends).enumerate().map(run).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_run_has_its_part_and_its_name() {
        let text = "before\n Performance counter stats for 'system wide':\n1\n\nPerformance counter stats for process id '7':\n2\n";
        let runs = split(text);
        assert_eq!(runs.len(), 2);
        assert_eq!(runs[0].named(None), "run 1 ('system wide')");
        assert_eq!(runs[1].named(Some("S0-D0-C1")), "run 2 (process id '7'), S0-D0-C1");
        assert_eq!(runs.iter().map(|run| run.lines_before).collect::<Vec<_>>(), [1, 4]);
        assert!(runs[0].text.contains("1\n") && !runs[0].text.contains('2'));
        assert!(split("no run").is_empty());
    }
}
