//! Several runs of a tool in one text: a comparison in one file, or printed on a page.

use super::number::decimal;
use super::pattern::{Pattern, pattern};

/// Start of a `perf stat` run, with its name.
const BEGIN: &str = "Performance counter stats for ";

/// A command after a prompt, `$ perf stat --topdown -a sleep 1`.
static COMMAND: Pattern = Pattern::new(|| {
    pattern(
        r"^[^|>]{0,60}?[$#%]\s*(?P<of>(?:\S+\s+){0,6}?\S*(?:perf\s+stat|toplev(?:\.py)?|topdown-tool)(?:\s.*)?)$",
    )
});

/// `Before:`, `## After BOLT`, and the line that `tail` prints before each of several files, `==> after.txt <==`.
static TITLE: Pattern = Pattern::new(|| {
    let name = r"(?:before|after|baseline)\b.{0,40}";
    pattern(&format!(r"(?i)^\s*(?:#+\s*({name})|\W*({name}):\W*|==> (\S.*) <==)$"))
});

/// The PMU that perf was asked to count on, and the one that it chose itself.
static PMU: Pattern = Pattern::new(|| {
    pattern(r"--cputype[ =](?:cpu_)?(?P<given>\w+)|default to use cpu_(?P<taken>\w+) topdown events")
});

/// `0,127164454 seconds time elapsed`, `60.114 +- 0.112 seconds time elapsed`.
static ELAPSED: Pattern =
    Pattern::new(|| pattern(r"([0-9][0-9.,]*)(?:\s*\+-\s*[0-9.,]+)?\s+seconds time elapsed"));

/// Kind of a line that starts a part.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Start<'a> {
    /// A part of a page titled before, or after.
    Title(&'a str),
    /// A code block of a page, or the text after one.
    Fence,
    Command(&'a str),
    /// perf's own line.
    Run(&'a str),
}

impl<'a> Start<'a> {
    fn parse(line: &'a str) -> Option<Self> {
        if let Some((_, of)) = line.split_once(BEGIN) {
            return Some(Self::Run(of.trim().trim_end_matches(':')));
        }
        if line.trim_start().starts_with("```") {
            return Some(Self::Fence);
        }
        if let Some(found) = TITLE.captures(line) {
            let title = found.iter().skip(1).flatten().next()?;
            return Some(Self::Title(title.as_str().trim()));
        }
        COMMAND.captures(line).and_then(|found| found.name("of")).map(|of| Self::Command(of.as_str().trim()))
    }

    /// Whether this part continues the previous one, which had no values yet: a title has a block, and a block has a command.
    fn goes_on(self, before: Self) -> bool {
        let rank = |start: Self| match start {
            Self::Title(_) => 0,
            Self::Fence => 1,
            Self::Command(_) => 2,
            Self::Run(_) => 3,
        };
        rank(self) > rank(before)
    }
}

/// A part of a text.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Run<'a> {
    pub(super) text: &'a str,
    /// Number of lines before it.
    pub(super) lines_before: usize,
    /// Title from the first of its starts.
    of: Option<&'a str>,
    /// The command after a prompt.
    command: Option<&'a str>,
    /// Whether a tool ran there, as opposed to plain prose.
    pub(super) is_of_a_tool: bool,
}

impl Run<'_> {
    /// The name of the n-th run, counted from 1.
    pub(super) fn name(&self, number: usize) -> String {
        self.of.map_or_else(|| format!("run {number}"), |of| format!("run {number} ({of})"))
    }
}

/// Options with a value of their own that select the counted events.
const WITH_VALUES: [&str; 5] = ["-M", "-e", "--td-level", "--cputype", "-l"];

impl<'a> Run<'a> {
    /// Options of the command before the program. Runs with other options count other events.
    pub(super) fn options(&self) -> Vec<&'a str> {
        let words: Vec<&str> =
            self.command.unwrap_or_default().split_whitespace().take_while(|word| *word != "--").collect();
        let before = std::iter::once("").chain(words.iter().copied());
        let pairs = before.zip(words.iter().copied());
        let is_option = |(before, word): &(&str, &str)| word.starts_with('-') || WITH_VALUES.contains(before);
        pairs.filter(is_option).map(|(_, word)| word).collect()
    }
}

/// The parts of a text in order, and the text before the first start.
pub(super) fn split(text: &str) -> Vec<Run<'_>> {
    let mut runs = vec![Open { from: 0, lines_before: 0, starts: Vec::new() }];
    let mut at = 0;
    for (index, line) in text.split_inclusive('\n').enumerate() {
        if let Some(start) = Start::parse(line.trim_end()) {
            match runs.last_mut() {
                Some(Open { starts, .. }) if starts.last().is_some_and(|before| start.goes_on(*before)) => {
                    starts.push(start);
                }
                _ => runs.push(Open { from: at, lines_before: index, starts: vec![start] }),
            }
        }
        at += line.len();
    }
    let ends = runs.iter().skip(1).map(|open| open.from).chain([text.len()]);
    runs.iter().zip(ends).map(|(open, end)| open.run(&text[open.from..end])).collect()
}

/// A part whose end is still unknown.
struct Open<'a> {
    from: usize,
    lines_before: usize,
    starts: Vec<Start<'a>>,
}

impl<'a> Open<'a> {
    fn run(&self, text: &'a str) -> Run<'a> {
        let word = |start: &Start<'a>| match *start {
            Start::Title(of) | Start::Command(of) | Start::Run(of) => Some(of),
            Start::Fence => None,
        };
        let is_of_a_tool = self.starts.iter().any(|start| matches!(start, Start::Command(_) | Start::Run(_)));
        let of = self.starts.iter().find_map(word);
        let command = self.starts.iter().find_map(|start| match *start {
            Start::Command(command) => Some(command),
            _ => None,
        });
        Run { text, lines_before: self.lines_before, of, command, is_of_a_tool }
    }
}

/// The PMU of all values of a run without their own, if the command or perf's warning names it.
pub(super) fn pmu(text: &str) -> Option<String> {
    let found = PMU.captures(text)?;
    let pmu = found.name("given").or_else(|| found.name("taken"))?;
    Some(format!("cpu_{}", pmu.as_str()))
}

/// Below this many seconds a program has hardly started.
const SHORT_S: f64 = 1.0;

/// A note if a run was too short.
pub(super) fn short(text: &str) -> Option<String> {
    let seconds = decimal(&ELAPSED.captures(text)?[1]).filter(|seconds| *seconds < SHORT_S)?;
    let ms = 1_000.0 * seconds;
    let places = if ms < 9.995 { 2 } else { usize::from(ms < 99.95) };
    Some(format!(
        "it ran for {ms:.places$} ms: below {SHORT_S:.0} s the start of the program has a large share, and \
         shares differ from run to run"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(text: &str) -> Vec<String> {
        split(text).iter().enumerate().map(|(index, run)| run.name(index)).collect()
    }

    #[test]
    fn each_run_has_its_part_and_its_name() {
        let text = "before\n Performance counter stats for 'system wide':\n1\n\nPerformance counter stats for process id '7':\n2\n";
        let runs = split(text);
        assert_eq!(names(text), ["run 0", "run 1 ('system wide')", "run 2 (process id '7')"]);
        assert_eq!(runs.iter().map(|run| run.lines_before).collect::<Vec<_>>(), [0, 1, 4]);
        assert!(runs[1].text.contains("1\n") && !runs[1].text.contains('2'));
        assert_eq!(names("no run"), ["run 0"]);
    }

    #[test]
    fn a_command_begins_a_run_and_so_does_a_title() {
        let text = "  # ./perf stat --topdown -a sleep 1\n\n Performance counter stats for 'system wide':\n1\n$ sudo toplev.py -l2 ./a\n2\n";
        assert_eq!(
            names(text),
            ["run 0", "run 1 (./perf stat --topdown -a sleep 1)", "run 2 (sudo toplev.py -l2 ./a)"]
        );
        let text = "Before:\n```\n$ perf stat ./a\n1\n```\n## After BOLT\n```\n2\n```\n";
        assert_eq!(names(text), ["run 0", "run 1 (Before)", "run 2", "run 3 (After BOLT)", "run 4"]);
        assert_eq!(
            names("==> old.txt <==\n1\n==> new.txt <==\n2\n"),
            ["run 0", "run 1 (old.txt)", "run 2 (new.txt)"]
        );
        // Values, and sentences, begin nothing.
        for line in [
            "# 17.4 % tma_retiring",
            "Before it ran, perf stat was there.",
            "#  time  %  tma_retiring",
            "S0 # perf",
        ] {
            assert_eq!(Start::parse(line), None, "{line}");
        }
    }

    #[test]
    fn options_are_what_a_command_counts() {
        let options = |text| split(text).pop().unwrap().options();
        assert_eq!(options("$ sudo perf stat -M TopdownL1 -p 7 -- ./a -x\n"), ["-M", "TopdownL1", "-p"]);
        assert_eq!(options("$ perf stat --topdown --td-level 1 ./new\n"), ["--topdown", "--td-level", "1"]);
        assert_eq!(options("Performance counter stats for './a':\n"), Vec::<&str>::new());
    }

    #[test]
    fn commands_and_warnings_name_the_pmu() {
        assert_eq!(pmu("# perf stat --topdown --cputype atom").as_deref(), Some("cpu_atom"));
        assert_eq!(pmu("WARNING: default to use cpu_core topdown events").as_deref(), Some("cpu_core"));
        assert_eq!(pmu("perf stat"), None);
    }

    #[test]
    fn short_runs_are_noted() {
        assert!(short("  0,127 seconds time elapsed").unwrap().starts_with("it ran for 127 ms"));
        assert!(short("  0.001568765 seconds time elapsed").unwrap().starts_with("it ran for 1.57 ms"));
        assert_eq!(short("  60.114 +- 0.112 seconds time elapsed  ( +-  0.19% )"), None);
        assert_eq!(short("no time"), None);
    }
}
