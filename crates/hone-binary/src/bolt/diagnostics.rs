//! Parses BOLT's messages. BOLT exits with 0 even if it did nothing, so its messages decide; a missing line stays `None`.

use serde::{Deserialize, Serialize};

/// A part and its whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Part {
    /// The part.
    pub of_them: u64,
    /// All.
    pub all: u64,
}

impl Part {
    /// The share, 0 to 1; 0 of nothing is 0.
    pub fn share(self) -> f64 {
        if self.all == 0 { 0.0 } else { (self.of_them as f64 / self.all as f64).min(1.0) }
    }
}

/// Bytes of the functions that were split.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Split {
    /// The executed bytes.
    pub hot_bytes: u64,
    /// The other bytes.
    pub cold_bytes: u64,
}

/// The consistency of the counts, in percent: 0 is best. BOLT 22 reports it for the worst 5 % of the hottest functions.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Quality {
    /// Functions looked at.
    pub functions: u64,
    /// Blocks that ran without a counted edge to them.
    pub cfg_discontinuity: f64,
    /// Calls made against calls received.
    pub call_graph_gap: f64,
    /// Inflow of blocks against outflow, weighted by counts.
    pub cfg_gap_weighted: f64,
    /// The same, of the worst block.
    pub cfg_gap_worst: f64,
}

/// A row of BOLT's own counts, computed from the profile for the layout before and after.
///
/// They count only what BOLT could read of the program, without functions that it gave up. So they may be compared within one run of BOLT,
/// and never between two builds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DynoRow {
    /// Such as `taken branches`.
    pub name: String,
    /// With the layout of the input.
    pub before: u64,
    /// With the new layout.
    pub after: u64,
}

/// The report of a run of `llvm-bolt` or `perf2bolt`.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Said {
    /// Functions with a profile, of all in the program.
    pub profiled_functions: Option<Part>,
    /// Functions with a profile whose code has changed since. BOLT never reports 0 functions; `None` means none.
    pub stale_functions: Option<u64>,
    /// Samples in such functions, of all.
    pub stale_samples: Option<Part>,
    /// The line of the profile from which BOLT ignored everything.
    pub profile_ends_at_line: Option<u64>,
    /// Functions with a profile that could not be optimised.
    pub not_optimized: u64,
    /// Names in the profile that the program does not have.
    pub ignored_objects: u64,
    /// Functions whose blocks have a new layout.
    pub layout_modified: Option<u64>,
    /// The effect of splitting.
    pub split: Option<Split>,
    /// Functions whose code was folded into that of another.
    pub folded: u64,
    /// Of BOLT 22.
    pub quality: Option<Quality>,
    /// How many times more samples would help, if BOLT reported it.
    pub wants_more_samples: Option<f64>,
    /// The table of dyno-stats.
    pub dyno_stats: Vec<DynoRow>,
    /// Functions that the compiler had split.
    pub split_on_input: Vec<String>,
    /// Functions that BOLT itself proposes to skip.
    pub skip_proposed: Vec<String>,
    /// Whether the samples had no branch records, so that the profile is empty.
    pub no_branch_records: bool,
    /// Samples that perf2bolt read.
    pub samples: Option<u64>,
    /// The address where a debugger can dump the instrumentation's profile. It is not the "entry point" in the messages: that is the dump
    /// in BOLT 19 and the start in BOLT 22.
    pub dump_address: Option<u64>,
    /// The address that resets its counters.
    pub reset_address: Option<u64>,
    /// Warnings, without those that are parsed above.
    pub warnings: Vec<String>,
    /// Lines of errors.
    pub errors: Vec<String>,
}

/// The most lines of each kind that are kept.
const LINES: usize = 50;

impl Said {
    /// Parses BOLT's messages, both of its outputs one after the other.
    pub fn parse(text: &str) -> Self {
        let mut said = Self::default();
        for line in text.lines() {
            let known = said.number_line(line).is_some() || said.name_line(line);
            let keep = |lines: &mut Vec<String>| {
                if lines.len() < LINES {
                    lines.push(line.trim().to_owned());
                }
            };
            if line.contains("ERROR") || line.starts_with("Error ") {
                keep(&mut said.errors);
            } else if !known && line.contains("WARNING") {
                keep(&mut said.warnings);
            }
        }
        said.dyno_stats = dyno_stats(text);
        said
    }

    /// A line with numbers; `None` for another one.
    fn number_line(&mut self, line: &str) -> Option<()> {
        if line.contains("have non-empty execution profile") {
            self.profiled_functions = Some(part(line, " out of ", " functions in the binary")?);
        } else if line.contains("samples in the binary") && line.contains("possibly stale") {
            self.stale_samples = Some(part(line, " out of ", " samples in the binary")?);
        } else if line.contains("have invalid (possibly stale) profile") {
            self.stale_functions = Some(number_before(line, " (")?);
        } else if line.contains("with profile could not be optimized") {
            self.not_optimized = number_before(line, " function")?;
        } else if line.contains("invalid profile data detected at line ") {
            self.profile_ends_at_line = Some(number_behind(line, "detected at line ")?);
        } else if line.contains("objects was ignored") {
            self.ignored_objects = number_before(line, " objects was ignored")?;
        } else if line.contains("basic block reordering modified layout of ") {
            self.layout_modified = Some(number_behind(line, "modified layout of ")?);
        } else if line.contains("splitting separates ") {
            let hot_bytes = number_behind(line, "splitting separates ")?;
            self.split = Some(Split { hot_bytes, cold_bytes: number_behind(line, " hot bytes from ")? });
        } else if line.contains("ICF folded ") {
            self.folded = number_behind(line, "ICF folded ")?;
        } else if line.contains("profile quality metrics for the hottest ") {
            self.quality = Some(quality(line)?);
        } else if line.contains("estimated to optimize better with ") {
            self.wants_more_samples = Some(decimal_behind(line, "optimize better with ")?);
        } else if line.contains("PERF2BOLT: read ") {
            self.samples = Some(number_behind(line, "PERF2BOLT: read ")?);
        } else if line.contains("setting __bolt_runtime_fini to 0x") {
            self.dump_address = Some(hex_behind(line, "__bolt_runtime_fini to 0x")?);
        } else if line.contains("clear procedure is 0x") {
            self.reset_address = Some(hex_behind(line, "clear procedure is 0x")?);
        } else {
            return None;
        }
        Some(())
    }

    /// A line with a name, or the line itself.
    fn name_line(&mut self, line: &str) -> bool {
        if let Some((_, rest)) = line.split_once("split function detected on input : ") {
            let name = rest.split(". The support").next().unwrap_or(rest);
            if self.split_on_input.len() < LINES {
                self.split_on_input.push(name.to_owned());
            }
        } else if line.contains("Consider adding this function to --skip-funcs") {
            let name = line.split_once("function ").map(|(_, rest)| rest);
            let name = name.and_then(|rest| rest.split([' ', '.', ',', '(']).next());
            let quotes: &[char] = &['\'', '"', ':'];
            self.skip_proposed.extend(name.map(|name| name.trim_matches(quotes).to_owned()));
        } else if line.contains("all recorded samples for this binary lack ") {
            // 19 calls them LBR, 22 brstack.
            self.no_branch_records = true;
        } else {
            return false;
        }
        true
    }

    /// Share of samples in functions whose code has changed, 0 to 1.
    pub fn stale_share(&self) -> f64 {
        self.stale_samples.map_or(0.0, Part::share)
    }
}

fn part(line: &str, between: &str, behind: &str) -> Option<Part> {
    let of_them = number_before(line, between)?;
    let all = number_before(line, behind)?;
    Some(Part { of_them, all })
}

/// The number before the mark.
fn number_before(line: &str, mark: &str) -> Option<u64> {
    let front = &line[..line.find(mark)?];
    let digits = front.len() - front.trim_end_matches(|c: char| c.is_ascii_digit()).len();
    front[front.len() - digits..].parse().ok()
}

fn number_behind(line: &str, mark: &str) -> Option<u64> {
    let rest = line.split_once(mark)?.1;
    rest.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
}

fn hex_behind(line: &str, mark: &str) -> Option<u64> {
    let rest = line.split_once(mark)?.1;
    u64::from_str_radix(rest.split(|c: char| !c.is_ascii_hexdigit()).next()?, 16).ok()
}

/// A decimal number; 22 can print `nan` or `inf`, which are none.
fn decimal_behind(line: &str, mark: &str) -> Option<f64> {
    let rest = line.split_once(mark)?.1;
    let end = rest.find(|c: char| !(c.is_ascii_digit() || c == '.'))?;
    rest[..end].parse().ok().filter(|value: &f64| value.is_finite())
}

fn quality(line: &str) -> Option<Quality> {
    let cfg_gap = line.split_once("; CFG flow conservation gap ")?.1;
    Some(Quality {
        functions: number_behind(line, "metrics for the hottest ")?,
        cfg_discontinuity: decimal_behind(line, "function CFG discontinuity ")?,
        call_graph_gap: decimal_behind(line, "call graph flow conservation gap ")?,
        cfg_gap_weighted: decimal_behind(line, "; CFG flow conservation gap ")?,
        cfg_gap_worst: decimal_behind(cfg_gap, "(weighted) ")?,
    })
}

/// The table appears twice, before and after, each row `NUMBER : NAME`, with `(+1.0%)` or `(=)` at the end in the second. Without the
/// second there is nothing to report.
fn dyno_stats(text: &str) -> Vec<DynoRow> {
    let mut rows: Vec<(String, Vec<u64>)> = Vec::new();
    let table = text.split_once("dynostats after all optimizations").map_or("", |(_, rest)| rest);
    for line in table.lines() {
        let Some((number, name)) = line.split_once(" : ") else { continue };
        let Ok(number) = number.trim().parse::<u64>() else { continue };
        let name = name.rsplit_once(" (").map_or(name, |(name, _)| name).trim();
        match rows.iter().position(|(known, _)| known == name) {
            Some(at) => rows[at].1.push(number),
            None if rows.len() < LINES => rows.push((name.to_owned(), vec![number])),
            None => {}
        }
    }
    let row = |(name, numbers): (String, Vec<u64>)| match numbers[..] {
        [before, after] => Some(DynoRow { name, before, after }),
        _ => None,
    };
    rows.into_iter().filter_map(row).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    macro_rules! of {
        ($name:literal) => {
            [
                Said::parse(include_str!(concat!("../../tests/fixtures/bolt/", $name, "-19.txt"))),
                Said::parse(include_str!(concat!("../../tests/fixtures/bolt/", $name, "-22.txt"))),
            ]
        };
    }

    #[test]
    fn a_good_run_tells_what_it_did() {
        let [old, new] = of!("optimize");
        for said in [&old, &new] {
            assert_eq!(said.profiled_functions, Some(Part { of_them: 14, all: 20 }));
            assert_eq!((said.stale_functions, said.stale_share()), (None, 0.0));
            assert_eq!((said.not_optimized, said.ignored_objects), (2, 1));
            assert_eq!(said.layout_modified, Some(5));
            assert!(said.split.unwrap().hot_bytes > said.split.unwrap().cold_bytes, "{:?}", said.split);
            assert_eq!((&said.errors, &said.warnings), (&vec![], &vec![]));
            let taken = said.dyno_stats.iter().find(|row| row.name == "taken branches").unwrap();
            assert!(taken.after < taken.before, "{taken:?}");
            assert_eq!(said.dyno_stats.len(), 18);
        }
        assert_eq!(new.split, Some(Split { hot_bytes: 1474, cold_bytes: 622 }));
        assert_eq!(new.dyno_stats[8].name, "executed instructions");
        assert_eq!((new.dyno_stats[8].before, new.dyno_stats[8].after), (4_738_479, 4_679_143));
        assert_eq!(old.quality, None);
        let quality = new.quality.unwrap();
        assert_eq!((quality.functions, quality.cfg_discontinuity, quality.call_graph_gap), (14, 0.15, 0.10));
        assert_eq!((quality.cfg_gap_weighted, quality.cfg_gap_worst), (100.0, 0.0));
        assert_eq!(new.folded, 1);
    }

    #[test]
    fn runs_that_did_nothing_say_so() {
        for said in of!("noprofile") {
            assert_eq!(said.profiled_functions, Some(Part { of_them: 0, all: 20 }));
            assert_eq!(said.layout_modified, Some(0));
        }
        for said in of!("foreign") {
            assert_eq!((said.profiled_functions.unwrap().of_them, said.ignored_objects), (0, 2));
        }
        for said in of!("stale") {
            assert_eq!(said.stale_functions, Some(3));
            assert_eq!(said.stale_samples, Some(Part { of_them: 378_676, all: 579_150 }));
            assert!((said.stale_share() - 0.654).abs() < 0.001);
        }
    }

    #[test]
    fn refusals_are_errors() {
        for (said, words) in [
            (of!("twice"), "input file was processed by BOLT"),
            (of!("stripped"), "stripped binaries are not supported"),
            (of!("norelocs"), "instrumentation runtime libraries require relocations"),
            (of!("static"), "requires -instrumentation-sleep-time=N"),
        ] {
            for said in said {
                assert!(said.errors.iter().any(|line| line.contains(words)), "{said:?}");
            }
        }
        for said in of!("gcc") {
            assert_eq!(said.split_on_input, ["_ZL5riskym.cold"]);
            assert_eq!(said.warnings, [] as [&str; 0], "it is reported once");
        }
    }

    #[test]
    fn an_instrumented_program_has_an_address_to_dump_and_to_reset() {
        let [old, new] = of!("instrument");
        assert_eq!((old.dump_address, old.reset_address), (Some(0x60_68f0), Some(0x60_2350)));
        // The words `lib entry point is` would give 0x607950, which is the start.
        assert_eq!((new.dump_address, new.reset_address), (Some(0x60_7990), Some(0x60_3300)));
    }

    #[test]
    fn samples_without_branches_are_known() {
        for said in of!("perf2bolt-wrong") {
            assert!(said.no_branch_records && said.samples.is_some_and(|samples| samples > 100));
            assert_eq!(said.profiled_functions.unwrap().of_them, 0);
        }
        let [old, new] = of!("perf2bolt-nl");
        for said in [&old, &new] {
            assert!(!said.no_branch_records && said.profiled_functions.unwrap().of_them == 6);
        }
        assert_eq!((old.wants_more_samples, new.wants_more_samples), (None, Some(125.5)));
    }

    #[test]
    fn a_function_that_bolt_would_skip_is_named() {
        let line = "BOLT-ERROR: unable to get new address corresponding to input address 0x1 in function run. Consider adding this function to --skip-funcs=...";
        assert_eq!(Said::parse(line).skip_proposed, ["run"]);
    }

    proptest! {
        #[test]
        fn no_words_make_it_panic(
            changes in proptest::collection::vec((0..3600_usize, any::<u8>()), 0..40),
            which in 0..3_usize,
        ) {
            let texts = [
                include_str!("../../tests/fixtures/bolt/optimize-22.txt"),
                include_str!("../../tests/fixtures/bolt/stale-22.txt"),
                include_str!("../../tests/fixtures/bolt/perf2bolt-nl-22.txt"),
            ];
            let mut bytes = texts[which].as_bytes().to_vec();
            let length = bytes.len();
            for (at, byte) in changes {
                bytes[at % length] = byte;
            }
            Said::parse(&String::from_utf8_lossy(&bytes));
        }
    }
}
