//! A gate for CI: it compares figures of a layout with learned ones. The figures come from an exact trace, so a machine without counters
//! and with noisy neighbours gives the same ones. Pure.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

use hone_diagnose::cache::{LINE_BITS, MODELS};
use hone_diagnose::model::{LARGE_PAGE_BITS, PAGE_BITS};
use hone_format::FileError;
use hone_record::{CodeLayout, Evidence};
use serde::{Deserialize, Serialize};

use hone_document::diagnosis::unit;

/// The tolerance of a figure if all repeats with a fixed input were the same. Another version of a library moves it a little.
const LEAST_TOLERANCE: f64 = 0.01;
/// The same for a load. Its rate depends on the machine, and with fewer requests, code that ran once weighs more. On a busy machine, a
/// broker did a quarter fewer requests, and 6 % more lines held 99 % of its execution, although the repeats had differed by less than 3 %.
const LEAST_TOLERANCE_OF_A_LOAD: f64 = 0.1;
/// The tolerance if the repeats differed: this many times their spread, because a few repeats do not show all of it.
const TIMES_THE_SPREAD: f64 = 2.0;
/// Shares of fewer misses or pages say too little.
const SLACK_PER_1000: f64 = 0.05;
const SLACK_UNITS: f64 = 1.0;
/// Structures whose misses have a budget. A layout changes them, but a longer run does not (code never fills an L2).
const HELD_STRUCTURES: [&str; 2] = ["L1i", "iTLB"];
const TAKEN: &str = "branches taken in 1,000 instructions";
const INSTRUCTIONS: &str = "instructions";
const OF_AN_OPERATION: &str = "instructions of an operation";

/// The traced program. Hone never compares figures of different programs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Subject {
    /// The file name of a command's program, or the name of an experiment.
    pub program: String,
    /// The load of an experiment; a command has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workload: Option<String>,
    /// The source of the figures.
    pub evidence: Evidence,
}

/// A budget.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Budget {
    /// The program that the budget was learned from.
    pub program: String,
    /// The load that it was learned under.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workload: Option<String>,
    /// The source of its figures.
    pub evidence: Evidence,
    /// The trace, in words for the reader.
    #[serde(default)]
    pub of: String,
    /// The figures by name.
    pub figures: BTreeMap<String, Allowed>,
}

/// The limit of a figure.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Allowed {
    /// The learned value.
    pub value: f64,
    /// The share that it may exceed the value by.
    pub tolerance: f64,
}

/// One present figure.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Held {
    /// The figure.
    pub name: String,
    /// The learned value.
    #[serde(flatten)]
    pub allowed: Allowed,
    /// The limit.
    pub most: f64,
    /// `None` if this run does not have it.
    pub now: Option<f64>,
    /// The comparison.
    pub outcome: Outcome,
}

/// A run compared with a budget.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Gate {
    /// The budget's file.
    pub budget: String,
    /// What was diagnosed.
    #[serde(flatten)]
    pub subject: Subject,
    /// The trace, in words.
    pub source: String,
    /// Whether any figure exceeds its budget.
    pub is_worse: bool,
    /// Each figure with its budget.
    pub figures: Vec<Held>,
    /// Notes for the user.
    pub notes: Vec<String>,
    /// What to do if a figure is worse.
    pub next: Vec<String>,
}

/// The result of a comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// Within the limit.
    Within,
    /// Lower by more than the tolerance: worth a new budget.
    Better,
    /// Above the limit.
    Worse,
    /// The figure is missing.
    Missing,
}

impl Outcome {
    /// A missing figure can hide anything.
    pub fn fails(self) -> bool {
        matches!(self, Self::Worse | Self::Missing)
    }
}

fn misses_of(structure: &str) -> String {
    format!("{structure}, misses in 1,000 instructions")
}

fn units_of(bytes: u64) -> String {
    format!("{} that hold 99 % of the execution", unit(bytes))
}

fn is_held(structure: &str) -> bool {
    HELD_STRUCTURES.iter().any(|held| structure.starts_with(held))
}

/// Every figure that a budget can hold.
fn known() -> impl Iterator<Item = String> {
    let structures = MODELS.iter().map(|model| model.name).filter(|name| is_held(name)).map(misses_of);
    let units = [LINE_BITS, PAGE_BITS, LARGE_PAGE_BITS].map(|bits| units_of(1 << bits));
    structures.chain(units).chain([TAKEN, INSTRUCTIONS, OF_AN_OPERATION].map(str::to_owned))
}

/// The figures of a layout by name. `operations` are those of its load, if there is one. Instructions are among them, because figures in
/// 1,000 instructions also fall when more instructions run.
pub fn figures(layout: &CodeLayout, operations: Option<u64>) -> BTreeMap<String, f64> {
    let held = layout.misses.iter().filter(|missed| is_held(&missed.structure));
    let mut figures: BTreeMap<String, f64> =
        held.map(|missed| (misses_of(&missed.structure), missed.per_1000)).collect();
    if let Some(taken) = layout.taken_per_1000 {
        figures.insert(TAKEN.to_owned(), taken);
    }
    for footprint in &layout.footprints {
        figures.insert(units_of(footprint.unit_bytes), footprint.units[2] as f64);
    }
    let instructions = layout.instructions as f64;
    match operations.filter(|operations| *operations > 0) {
        Some(operations) => figures.insert(OF_AN_OPERATION.to_owned(), instructions / operations as f64),
        None => figures.insert(INSTRUCTIONS.to_owned(), instructions),
    };
    figures
}

/// A budget from repeats of the same run.
pub fn learn(subject: Subject, of: String, repeats: &[BTreeMap<String, f64>]) -> Budget {
    let least = if subject.workload.is_some() { LEAST_TOLERANCE_OF_A_LOAD } else { LEAST_TOLERANCE };
    let names = repeats.first().into_iter().flat_map(BTreeMap::keys);
    let figures = names.filter_map(|name| {
        let values: Vec<f64> =
            repeats.iter().map(|repeat| repeat.get(name).copied()).collect::<Option<_>>()?;
        Some((name.clone(), allowed(&values, least)))
    });
    let Subject { program, workload, evidence } = subject;
    Budget { program, workload, evidence, of, figures: figures.collect() }
}

fn allowed(values: &[f64], least_tolerance: f64) -> Allowed {
    let (least, most) = values
        .iter()
        .fold((f64::MAX, f64::MIN), |(least, most), value| (least.min(*value), most.max(*value)));
    let middle = (least + most) / 2.0;
    let spread = if middle > 0.0 { (most - least) / middle } else { 0.0 };
    Allowed { value: round(middle), tolerance: round((TIMES_THE_SPREAD * spread).max(least_tolerance)) }
}

/// Six digits are enough, and contain no floating-point noise.
fn round(value: f64) -> f64 {
    format!("{value:.5e}").parse().unwrap_or(value)
}

impl Budget {
    /// Reads a budget's text. `file` is its path, for the errors.
    ///
    /// # Errors
    /// Returns the fault, in words.
    pub fn parse(text: &str, file: &Path) -> Result<Self, String> {
        let budget: Self =
            toml::from_str(text).map_err(|error| FileError::of_toml(&error, text, file).to_string())?;
        let name = file.display();
        if budget.figures.is_empty() {
            return Err(format!("{name} holds no figures, so it could never fail"));
        }
        for (figure, allowed) in &budget.figures {
            if !known().any(|known| known == *figure) {
                let known: Vec<String> = known().map(|known| format!("\n    {known}")).collect();
                let known = known.concat();
                return Err(format!("{name} has the unknown figure `{figure}`; the known ones are{known}"));
            }
            // A value that is not a number compares with nothing, and would let everything pass.
            let is_a_size = |value: f64| value.is_finite() && value >= 0.0;
            if !is_a_size(allowed.value) || !is_a_size(allowed.tolerance) {
                return Err(format!(
                    "{name} allows `{figure}` a value of {} with a tolerance of {}; both must be numbers of \
                     0 or more",
                    allowed.value, allowed.tolerance
                ));
            }
        }
        Ok(budget)
    }

    /// Whether the budget applies to a traced program.
    ///
    /// # Errors
    /// Returns the reason, in words.
    pub fn fits(&self, subject: &Subject) -> Result<(), String> {
        if self.evidence != subject.evidence {
            return Err(format!(
                "was learned from figures that are {}, and these are {}: Hone can't compare them",
                self.evidence.label(),
                subject.evidence.label()
            ));
        }
        if self.program != subject.program {
            return Err(format!("was learned from `{}`, but this is `{}`", self.program, subject.program));
        }
        if self.workload != subject.workload {
            let load = |workload: &Option<String>| match workload {
                Some(name) => format!("under workload `{name}`"),
                None => "as a command".to_owned(),
            };
            return Err(format!(
                "was learned {}, but this runs {}",
                load(&self.workload),
                load(&subject.workload)
            ));
        }
        Ok(())
    }

    /// Compares figures with the budget.
    pub fn hold(&self, now: &BTreeMap<String, f64>) -> Vec<Held> {
        self.figures.iter().map(|(name, allowed)| allowed.hold(name, now.get(name).copied())).collect()
    }

    /// The budget's file, with a comment.
    pub fn text(&self) -> String {
        let quoted = |text: &str| toml::Value::from(text);
        let mut text = String::from(
            "# Written by hone diagnose --learn; hone diagnose --gate compares a run with it.\n# A figure \
             may exceed its value by `tolerance` (a share). Hone ignores a figure that you remove. Commit \
             this file with the sources.\n",
        );
        let _ = writeln!(text, "program = {}", quoted(&self.program));
        if let Some(workload) = &self.workload {
            let _ = writeln!(text, "workload = {}", quoted(workload));
        }
        if let Ok(evidence) = toml::Value::try_from(self.evidence) {
            let _ = writeln!(text, "evidence = {evidence}");
        }
        let _ = writeln!(text, "of = {}", quoted(&self.of));
        for (name, Allowed { value, tolerance }) in &self.figures {
            let name = quoted(name);
            let _ = write!(text, "\n[figures.{name}]\nvalue = {value:?}\ntolerance = {tolerance:?}\n");
        }
        text
    }
}

impl Allowed {
    fn hold(self, name: &str, now: Option<f64>) -> Held {
        let slack = if name.contains("1,000") { SLACK_PER_1000 } else { SLACK_UNITS };
        let room = (self.value * self.tolerance).max(slack);
        let most = self.value + room;
        let outcome = match now {
            None => Outcome::Missing,
            Some(now) if now > most => Outcome::Worse,
            Some(now) if now < self.value - room => Outcome::Better,
            Some(_) => Outcome::Within,
        };
        Held { name: name.to_owned(), allowed: self, most, now, outcome }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(values: &[(&str, f64)]) -> BTreeMap<String, f64> {
        values.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect()
    }

    fn subject() -> Subject {
        Subject { program: "x".to_owned(), workload: None, evidence: Evidence::Simulated }
    }

    fn learned(repeats: &[BTreeMap<String, f64>]) -> Budget {
        learn(subject(), "x --fast \"y\", under qemu".to_owned(), repeats)
    }

    const MISSES: &str = "L1i 32 KiB 8-way, misses in 1,000 instructions";
    const FILE: &str = "layout.toml";
    const PAGES: &str = "pages of 4 KiB that hold 99 % of the execution";

    #[test]
    fn what_repeats_tell_is_the_tolerance() {
        let repeats = [of(&[(MISSES, 10.0), (PAGES, 7.0)]), of(&[(MISSES, 11.0), (PAGES, 7.0)])];
        let budget = learned(&repeats);
        let misses = budget.figures[MISSES];
        assert!(
            (misses.value - 10.5).abs() < 1e-9 && (misses.tolerance - 2.0 / 10.5).abs() < 1e-4,
            "{misses:?}"
        );
        assert_eq!(budget.figures[PAGES], Allowed { value: 7.0, tolerance: 0.01 });
        assert_eq!(Budget::parse(&budget.text(), Path::new(FILE)).unwrap(), budget);

        let load = Subject { workload: Some("w".to_owned()), ..subject() };
        let budget = learn(load, String::new(), &repeats);
        assert_eq!(budget.figures[PAGES].tolerance, 0.1);
        assert_eq!(Budget::parse(&budget.text(), Path::new(FILE)).unwrap(), budget);
    }

    #[test]
    fn growth_beyond_the_tolerance_is_worse_and_what_is_not_there_is_told() {
        let budget = learned(&[of(&[(MISSES, 10.0), (PAGES, 100.0), (INSTRUCTIONS, 9.0)])]);
        let outcomes = |misses: f64, pages: f64| -> Vec<Outcome> {
            let held = budget.hold(&of(&[(MISSES, misses), (PAGES, pages)]));
            held.iter().map(|held| held.outcome).collect()
        };
        assert_eq!(outcomes(10.05, 101.0), [Outcome::Within, Outcome::Missing, Outcome::Within]);
        assert_eq!(outcomes(10.2, 90.0), [Outcome::Worse, Outcome::Missing, Outcome::Better]);
    }

    #[test]
    fn a_hundredth_of_a_miss_is_no_regression() {
        let budget = learned(&[of(&[(MISSES, 0.01)])]);
        assert_eq!(budget.hold(&of(&[(MISSES, 0.05)]))[0].outcome, Outcome::Within);
        assert_eq!(budget.hold(&of(&[(MISSES, 0.5)]))[0].outcome, Outcome::Worse);
    }

    #[test]
    fn what_would_let_everything_pass_is_no_budget() {
        let text = learned(&[of(&[(MISSES, 10.0)])]).text();
        let wrong = |from: &str, to: &str| {
            assert!(text.contains(from), "{text}");
            Budget::parse(&text.replace(from, to), Path::new(FILE)).unwrap_err()
        };
        assert!(wrong("value = 10.0", "value = nan").contains("numbers of 0 or more"));
        assert!(wrong("tolerance = 0.01", "tolerance = -1.0").contains("numbers of 0 or more"));
        let told = wrong("tolerance", "tolerence");
        assert!(told.contains("unknown key `tolerence` (did you mean `tolerance`?)"), "{told}");
        assert!(told.starts_with("layout.toml:"), "{told}");
        assert!(wrong("L1i 32 KiB", "L1i 33 KiB").contains("unknown figure `L1i 33 KiB"));
        assert!(wrong("evidence = \"simulated\"", "evidence = \"felt\"").contains("unknown word `felt`"));
        assert!(
            Budget::parse("program = \"x\"\nevidence = \"simulated\"\n[figures]\n", Path::new(FILE))
                .unwrap_err()
                .contains("no figures")
        );
    }

    #[test]
    fn a_budget_is_of_one_program_load_and_level_of_evidence() {
        let budget = learned(&[of(&[(MISSES, 10.0)])]);
        assert_eq!(budget.fits(&subject()), Ok(()));
        let refused = |subject: Subject| budget.fits(&subject).unwrap_err();
        assert!(
            refused(Subject { evidence: Evidence::Modelled, ..subject() }).contains("can't compare them")
        );
        assert!(
            refused(Subject { program: "y".to_owned(), ..subject() })
                .contains("learned from `x`, but this is `y`")
        );
        let load = refused(Subject { workload: Some("w".to_owned()), ..subject() });
        assert!(load.contains("learned as a command, but this runs under workload `w`"), "{load}");
    }

    #[test]
    fn every_figure_of_a_layout_can_be_held() {
        let footprint = |bytes: u64| serde_json::json!({"unit_bytes": bytes, "units": [1, 2, 3, 4]});
        let missed = |name: &str| serde_json::json!({"structure": name, "per_1000": 1.0});
        let mut layout = serde_json::json!({
            "instructions": 1000, "bytes_used_of_a_line": 40.0, "crowded_sets": 0, "repeated_share": 0.0, "objects": [],
            "taken_per_1000": 90.0,
        });
        layout["footprints"] = [64, 4096, 2 << 20].map(footprint).into_iter().collect();
        layout["misses"] = MODELS.iter().map(|model| missed(model.name)).collect();
        let layout: CodeLayout = serde_json::from_value(layout).unwrap();
        let (alone, loaded) = (figures(&layout, None), figures(&layout, Some(10)));
        let mut names: Vec<&String> = alone.keys().chain(loaded.keys()).collect();
        names.sort();
        names.dedup();
        let mut all: Vec<String> = known().collect();
        all.sort();
        assert_eq!(names, all.iter().collect::<Vec<_>>());
        assert_eq!((loaded[OF_AN_OPERATION], loaded[PAGES]), (100.0, 3.0));
    }
}
