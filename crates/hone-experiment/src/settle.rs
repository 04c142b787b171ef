//! The last line of an inconclusive run: the command that most probably gives a verdict, and how long it takes.

use std::collections::BTreeSet;
use std::path::Path;

use hone_compare::{Further, pairs_to_settle};
use hone_record::{
    CommitGate, Comparison, Design, Estimate, GateOutcome, HostTrial, Judgement, Mode, Optimization, Proof,
    Schedule, Tuning, Verdict,
};

use crate::command_line::CommandLine;
use crate::continuation;
use crate::folder::RunFolder;

/// The line for `hone compare`, with its line break; empty if the comparison has a verdict. `folder` is that of the run. A run that can be
/// continued is.
pub fn comparison(found: &Comparison, folder: &Path) -> String {
    continuing(found, folder).unwrap_or_else(|| Rerun::new(Source::Options, vec![found], folder).line())
}

/// Pairs may take longer than those before.
const SLOWER: f64 = 1.1;

/// The line that continues this very run; `None` if it can't be continued, or if more pairs are not what it needs.
fn continuing(found: &Comparison, folder: &Path) -> Option<String> {
    let primary = found.primary().filter(|primary| primary.verdict == Verdict::NotShown)?;
    if found.verdict() != Verdict::NotShown || !matches!(advice(found), Advice::Pairs { .. }) {
        return None;
    }
    let Further { pairs, chance } = hone_compare::further(&found.design, primary, &found.pairs)?;
    let used_s: f64 = found.pairs.iter().map(|pair| pair.took_s).sum();
    let more_s = used_s / found.pairs.len().max(1) as f64 * f64::from(pairs[0] + pairs[1]);
    let before_s = continuation::total_s(
        &RunFolder::open(folder).ok()?,
        found.design.budget.as_ref().map(|budget| budget.total_s),
    );
    let before_s = before_s.ok().flatten().unwrap_or_default();
    let minutes = ((used_s + more_s * SLOWER) / 60.0).ceil().max((before_s / 60.0).floor() + 1.0);
    if minutes * 60.0 > LONGEST_S {
        return None;
    }
    let (run, budget) = (folder.display().to_string(), format!("{minutes}m"));
    let command = shlex::try_join(["hone", "compare", "--resume", &run, "--budget", &budget]).ok()?;
    let chance = match (chance * 100.0).round() {
        0.0 => "less than 1 %".to_owned(),
        whole => hone_format::exact_percent(whole / 100.0),
    };
    let time = hone_format::duration(more_s);
    Some(format!("  next: {command} (about {time} more, chance of a verdict {chance})\n"))
}

/// The line for `hone batch prove`; empty if every step has a verdict.
pub fn proof(found: &Proof, folder: &Path) -> String {
    let all = found.steps.iter().filter_map(|step| step.comparison.as_ref()).collect();
    Rerun::new(Source::Options, all, folder).line()
}

/// The line for `hone host try`; empty if every setting has a verdict.
pub fn host_trial(found: &HostTrial, folder: &Path) -> String {
    let all = found.tried.iter().chain(&found.together).map(|knob| &knob.comparison).collect();
    Rerun::new(Source::Rounds, all, folder).line()
}

/// The line for `hone optimize`; empty if every comparison has a verdict.
pub fn optimization(found: &Optimization, folder: &Path) -> String {
    let keys = Keys { path: found.experiment.clone(), pairs: OPTIMIZE, builds: "optimize" };
    let all = found.comparisons.iter().chain(&found.on_baseline).collect();
    Rerun::new(Source::File(keys), all, folder).line()
}

/// The line for `hone tune`; empty if every change is decided.
pub fn tuning(found: &Tuning, folder: &Path) -> String {
    let retests = found.together.iter().flat_map(|together| {
        let back = together.put_back.iter().map(|gone| &gone.step);
        together.all.iter().chain(&together.without).chain(back)
    });
    let steps = found.steps.iter().map(|step| &step.step).chain(retests);
    let all: Vec<&Comparison> = steps.filter_map(|step| step.comparison.as_ref()).collect();
    let path = CommandLine::that_began(folder).file().unwrap_or("the experiment file").to_owned();
    let keys = Keys { path, pairs: TUNE, builds: TUNE };
    let rest_s = (found.took_s - pairs_s(&all, |one| one.pairs.len() as f64)).max(0.0);
    let run = Rerun::new(Source::File(keys), all, folder);
    Rerun { rest_s, has_budget: found.budget_s.is_some(), ..run }.line()
}

/// The line for `hone gate`; empty if the gate failed, or if the pairs would have found a loss at the limit.
pub fn gate(found: &CommitGate) -> String {
    // A gate has to find a loss at its limit, and not at the margin of equivalence.
    let at_limit = |one: &Comparison| {
        let mut one = one.clone();
        let rule = &mut one.design.rule;
        rule.equivalence =
            found.worse_by.get(&rule.primary).copied().unwrap_or_default().max(rule.equivalence);
        one
    };
    let all: Vec<Comparison> = found.comparisons.iter().map(at_limit).collect();
    let weak = found.findings.iter().filter(|finding| finding.primary && !finding.has_power());
    let weak: BTreeSet<&str> = weak.map(|finding| finding.workload.as_str()).collect();
    let is_open =
        |one: &&Comparison| found.outcome != GateOutcome::Worse && weak.contains(one.workload.name.as_str());
    let open = all.iter().filter(is_open).collect();
    let keys = Keys { path: found.file.clone(), pairs: GATE, builds: GATE };
    let run = Rerun::new(Source::File(keys), all.iter().collect(), Path::new(&found.run));
    Rerun { open, ..run }.line()
}

/// The table of an optimization's numbers.
const OPTIMIZE: &str = "compare";
/// The table of a gate's numbers.
const GATE: &str = "gate";
/// The table of a tuning's numbers.
const TUNE: &str = "tune";
/// The longest run that a line proposes, in seconds: a week, the limit of `--budget`.
const LONGEST_S: f64 = 604_800.0;
/// The most pairs of a design.
const MOST_PAIRS: u32 = 10_000;
/// The most builds of an experiment.
const MOST_BUILDS: u32 = 100;

/// Where a verb takes its numbers from.
#[derive(Debug, Clone, PartialEq)]
enum Source {
    /// Options for pairs.
    Options,
    /// An option for rounds.
    Rounds,
    /// An experiment file.
    File(Keys),
}

/// The tables of an experiment file.
#[derive(Debug, Clone, PartialEq)]
struct Keys {
    /// The file, for people.
    path: String,
    /// The table of pairs and rounds.
    pairs: &'static str,
    /// The table of builds.
    builds: &'static str,
}

/// The change that most probably gives a verdict.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Advice {
    /// A/B and A/A pairs (or rounds, twice), and the builds of each arm if they decide.
    Pairs { pairs: [u32; 2], builds: Option<u32> },
    /// Windows twice as long.
    LongerWindows,
    /// A search up to this rate.
    HigherRate(f64),
    /// Half the rate.
    LowerRate,
    /// The same, and pairs that other work disturbs are valid.
    KeepDisturbed,
    /// The same again.
    Again,
}

/// A setting with its new value.
#[derive(Debug, Clone, PartialEq)]
struct Setting {
    /// The option.
    option: &'static str,
    /// The options that it replaces.
    replaces: &'static [&'static str],
    /// The table of an experiment file.
    table: String,
    /// The key in that table.
    key: &'static str,
    value: String,
}

impl Setting {
    /// A setting that is only an option.
    fn option(option: &'static str, replaces: &'static [&'static str], value: impl Into<String>) -> Self {
        Self { option, replaces, table: String::new(), key: "", value: value.into() }
    }

    fn is_key(&self) -> bool {
        !self.key.is_empty()
    }

    fn arguments(&self) -> impl Iterator<Item = String> {
        [self.option.to_owned(), self.value.clone()].into_iter().filter(|word| !word.is_empty())
    }

    /// The same as a key of an experiment file.
    fn or_key(self, table: &str, key: &'static str) -> Self {
        Self { table: table.to_owned(), key, ..self }
    }
}

/// A run, and what decides how to repeat it.
struct Rerun<'a> {
    command: CommandLine,
    source: Source,
    /// All comparisons. The next run takes the time of their pairs.
    all: Vec<&'a Comparison>,
    /// The comparisons to settle.
    open: Vec<&'a Comparison>,
    /// Seconds that the run takes besides its pairs.
    rest_s: f64,
    /// Whether a time budget limits the run.
    has_budget: bool,
}

impl<'a> Rerun<'a> {
    fn new(source: Source, all: Vec<&'a Comparison>, folder: &Path) -> Self {
        let open = all.iter().copied().filter(|one| one.verdict() == Verdict::NotShown).collect();
        let has_budget = all.iter().any(|one| one.design.budget.is_some());
        Self { command: CommandLine::that_began(folder), source, all, open, rest_s: 0.0, has_budget }
    }

    fn line(&self) -> String {
        self.text().map_or(String::new(), |text| format!("  next: {text}\n"))
    }

    /// What to run next; `None` if nothing is to settle.
    fn text(&self) -> Option<String> {
        let (one, advice) = self.hardest()?;
        let takes_s = self.takes_s(one, advice);
        let settings = self.settings(one, advice, takes_s);
        let remarks = self.remarks(advice, settings.is_empty());
        let what = match &self.source {
            Source::File(keys) if settings.iter().any(Setting::is_key) => {
                self.after_the_file(keys, &settings)
            }
            _ => self.plain(&settings),
        };
        Some(format!("{what} (about {}{remarks})", hone_format::duration(takes_s)))
    }

    /// The open comparison that needs the most pairs, with its advice. Where more pairs help none, it is the first one.
    fn hardest(&self) -> Option<(&'a Comparison, Advice)> {
        let advised = self.open.iter().map(|one| (*one, self.possible(one, advice(one))));
        let needs = |(_, advice): &(&Comparison, Advice)| match advice {
            Advice::Pairs { pairs: [tests, _], .. } => *tests,
            _ => 0,
        };
        advised.rev().max_by_key(needs)
    }

    /// The advice, or another one where it would take too long or where the verb has no such option.
    fn possible(&self, one: &Comparison, advice: Advice) -> Advice {
        let takes_too_long = self.takes_s(one, advice) > LONGEST_S;
        let advice = match advice {
            Advice::Pairs { .. } if takes_too_long => longer(one),
            advice => advice,
        };
        // The load of `hone host try` can be that of an experiment file.
        let is_of_operations = one.workload.engine.operations().is_some();
        let has_own_load =
            self.source == Source::Rounds && (is_of_operations || self.command.file().is_some());
        match advice {
            Advice::LongerWindows if has_own_load => twice(&one.design),
            Advice::LowerRate if has_own_load => Advice::Again,
            advice => advice,
        }
    }

    /// Seconds of the whole run after the change that `one` needs.
    fn takes_s(&self, one: &Comparison, advice: Advice) -> f64 {
        self.rest_s + self.pairs_take_s(&self.all, one, advice)
    }

    /// Seconds of the pairs of these comparisons after that change.
    fn pairs_take_s(&self, all: &[&Comparison], one: &Comparison, advice: Advice) -> f64 {
        let pairs = |other: &Comparison| {
            let now = other.pairs.len() as f64;
            match advice {
                Advice::Pairs { pairs: [tests, controls], .. }
                    if self.is_in_rounds(other) == self.is_in_rounds(one) =>
                {
                    f64::from(tests) + f64::from(controls)
                }
                Advice::LongerWindows if other.workload.name == one.workload.name => now * longer_by(other),
                _ => now,
            }
        };
        pairs_s(all, pairs)
    }

    fn is_in_rounds(&self, one: &Comparison) -> bool {
        self.source == Source::Rounds || one.workload.engine.operations().is_some()
    }

    fn settings(&self, one: &Comparison, advice: Advice, takes_s: f64) -> Vec<Setting> {
        let (load, workload) = (self.table_of_load(one), &one.workload);
        let tables = match &self.source {
            Source::File(keys) => [keys.pairs, keys.builds],
            Source::Options | Source::Rounds => [""; 2],
        };
        let mut settings = match advice {
            Advice::Pairs { pairs, builds } => self.numbers(one, pairs, builds, tables),
            Advice::LongerWindows => vec![match workload.engine.operations() {
                Some(operations) => Setting::option("", &[], operations.saturating_mul(2).to_string())
                    .or_key(&load, "operations"),
                None => {
                    let twice = (workload.duration_s * 2.0).to_string();
                    Setting::option("--duration", &["--duration", "-d"], twice).or_key(&load, "duration_s")
                }
            }],
            Advice::HigherRate(rate) => {
                let setting = Setting::option("--max-rate", &["--max-rate", "--to"], rate.to_string());
                vec![setting.or_key(tables[0], "climb_to")]
            }
            Advice::LowerRate => {
                let half = (workload.requests_per_s / 2.0).to_string();
                let setting = Setting::option("--rate", &["--rate", "-r"], half);
                vec![setting.or_key(&load, "requests_per_s")]
            }
            Advice::KeepDisturbed if ["", TUNE].contains(&tables[0]) => {
                let setting = Setting::option("--keep-disturbed", &[], "");
                let value = if tables[0].is_empty() { "" } else { "true" };
                vec![Setting { value: value.to_owned(), ..setting.or_key(tables[0], "keep_disturbed") }]
            }
            Advice::KeepDisturbed | Advice::Again => Vec::new(),
        };
        let takes_budget = match advice {
            Advice::Pairs { .. } => self.has_budget || tables[0] == OPTIMIZE,
            Advice::LongerWindows => self.has_budget,
            _ => false,
        };
        if takes_budget {
            // The budget of an optimization is that of each comparison.
            let takes_s =
                if tables[0] == OPTIMIZE { self.pairs_take_s(&[one], one, advice) } else { takes_s };
            let minutes = (takes_s / 60.0).ceil();
            let is_option = ["", OPTIMIZE].contains(&tables[0]);
            let value = if is_option { format!("{minutes}m") } else { format!("\"{minutes}m\"") };
            // With an effect, Hone stops at the pairs that this effect needs.
            let setting = Setting::option("--budget", &["--budget", "--effect"], value);
            settings.push(if is_option { setting } else { setting.or_key(tables[0], "budget") });
        }
        settings
    }

    /// The settings for this many pairs and builds. On the command line, a budget replaces the pairs.
    fn numbers(
        &self,
        one: &Comparison,
        [tests, controls]: [u32; 2],
        builds: Option<u32>,
        [pairs, of_builds]: [&str; 2],
    ) -> Vec<Setting> {
        let is_file = matches!(self.source, Source::File(_));
        let set = |option: &'static str, replaces: &'static [&'static str], key: &'static str, value: u32| {
            Setting::option(option, replaces, value.to_string()).or_key(pairs, key)
        };
        let is_budget = pairs == OPTIMIZE || self.has_budget && !is_file;
        let mut settings = match (is_budget, self.is_in_rounds(one)) {
            (true, _) => Vec::new(),
            (false, true) => vec![set("--rounds", &["--rounds"], "rounds", tests)],
            (false, false) => vec![
                set("--pairs", &["--pairs"], "pairs", tests),
                set("--control-pairs", &["--control-pairs"], "control_pairs", controls),
            ],
        };
        match builds {
            Some(builds) if is_file => {
                settings.push(Setting::option("", &[], builds.to_string()).or_key(of_builds, "builds"));
            }
            Some(_) => {
                let options = ["--a-build", "--b-build"].into_iter().zip(one.design.builds);
                let several = options.filter(|(_, builds)| *builds > 1);
                settings.extend(several.map(|(option, _)| Setting::option(option, &[], "COMMAND")));
            }
            None => {}
        }
        settings
    }

    /// The table of a load. A raised load, `NAME-x1.2`, is that of NAME.
    fn table_of_load(&self, one: &Comparison) -> String {
        let name = one.workload.name.as_str();
        let base = name.rsplit_once("-x").map(|(base, _)| base);
        let is_raised = |base: &&str| self.all.iter().any(|other| other.workload.name == **base);
        format!("workload.{}", base.filter(is_raised).unwrap_or(name))
    }

    fn remarks(&self, advice: Advice, is_same: bool) -> String {
        let more = match (&self.source, advice) {
            (Source::File(keys), _) if keys.pairs != TUNE => ", plus builds".to_owned(),
            (Source::Options, Advice::Pairs { builds: Some(builds), .. }) => {
                format!(", with {builds} builds per arm")
            }
            _ => String::new(),
        };
        more + if is_same { ", on a quieter machine" } else { "" }
    }

    /// The command with these options.
    fn plain(&self, settings: &[Setting]) -> String {
        let replaced: Vec<&str> = settings.iter().flat_map(|one| one.replaces).copied().collect();
        let more: Vec<String> = settings.iter().flat_map(Setting::arguments).collect();
        self.command.with(&replaced, &more).unwrap_or_else(|| match &more[..] {
            [] => "begin the run again".to_owned(),
            more => format!("begin the run again with {}", more.join(" ")),
        })
    }

    /// The keys to set, and the command that then repeats the run.
    fn after_the_file(&self, keys: &Keys, settings: &[Setting]) -> String {
        let (mut replaced, mut more, mut from) = (Vec::new(), Vec::new(), String::new());
        if keys.pairs == GATE {
            // A gate takes the base's file, and a commit only as it is.
            replaced = vec!["--experiment-from", "--file-of", "--head"];
            let head = self.command.value("--head").unwrap_or("worktree");
            if !["worktree", "HEAD"].contains(&head) {
                from = format!(" in {head}");
            }
            let head = if from.is_empty() { "worktree" } else { head };
            more = ["--head", head, "--experiment-from", "head"].map(str::to_owned).to_vec();
        }
        let (keyed, options): (Vec<_>, Vec<_>) = settings.iter().cloned().partition(Setting::is_key);
        replaced.extend(options.iter().flat_map(|one| one.replaces).copied());
        more.extend(options.iter().flat_map(Setting::arguments));
        let set = format!("set {} of {}{from}, then", in_tables(&keyed), keys.path);
        match self.command.with(&replaced, &more) {
            Some(command) => format!("{set}: {command}"),
            None => format!("{set} begin the run again"),
        }
    }
}

/// The settings of each table: `pairs = 40, control_pairs = 18 in [tune]`.
fn in_tables(settings: &[Setting]) -> String {
    let table = |settings: &[Setting]| {
        let keys: Vec<String> = settings.iter().map(|one| format!("{} = {}", one.key, one.value)).collect();
        format!("{} in [{}]", keys.join(", "), settings.first().map_or("", |one| one.table.as_str()))
    };
    settings.chunk_by(|one, other| one.table == other.table).map(table).collect::<Vec<_>>().join(", and ")
}

/// Seconds of all comparisons with these numbers of pairs. Comparisons of the same rounds share windows, which count once.
fn pairs_s(all: &[&Comparison], pairs: impl Fn(&Comparison) -> f64) -> f64 {
    let mut seen = BTreeSet::new();
    let mut total_s = 0.0;
    for one in all {
        let share = pairs(one) / one.pairs.len().max(1) as f64;
        for pair in &one.pairs {
            let windows = [&pair.window_a, &pair.window_b];
            let count =
                windows.into_iter().filter(|name| name.is_empty() || seen.insert(name.as_str())).count();
            total_s += share * pair.took_s * count as f64 / 2.0;
        }
    }
    total_s
}

/// How many times as long a pair takes with windows twice as long. Nearly all of a load of operations is its window.
fn longer_by(one: &Comparison) -> f64 {
    let took_s: f64 = one.pairs.iter().map(|pair| pair.took_s).sum();
    let windows = if one.design.mode == Mode::Duet { 1.0 } else { 2.0 };
    let added_s = windows * one.workload.duration_s * one.pairs.len() as f64;
    match one.workload.engine.operations() {
        None if took_s > 0.0 => 1.0 + (added_s / took_s).min(1.0),
        _ => 2.0,
    }
}

/// What most probably gives an open comparison a verdict.
fn advice(one: &Comparison) -> Advice {
    if let Some(climb) = one.workload.climb().filter(|_| one.at_least() != [false, false]) {
        return Advice::HigherRate(climb.to_requests_per_s * 2.0);
    }
    let settled = |judgement: &Judgement| more_pairs(&one.design, judgement).unwrap_or_else(|| longer(one));
    match one.primary() {
        None => without_estimate(one),
        Some(primary) if primary.verdict == Verdict::NotShown => settled(primary),
        Some(_) if one.why_troubles_decide().is_some() => twice(&one.design),
        Some(_) => {
            let unseen: Vec<_> = one.unseen_guards().collect();
            let guard = one.judgements.iter().find(|found| unseen.contains(&found.estimate.metric));
            guard.map_or_else(|| without_estimate(one), settled)
        }
    }
}

/// The pairs that settle a judgement. Where builds or starts decide, each of them counts as one pair. `None` if more pairs do not help.
fn more_pairs(design: &Design, judgement: &Judgement) -> Option<Advice> {
    let Some(spread) = judgement.estimate.builds else {
        let pairs = pairs_to_settle(design, judgement)?;
        let is_more = pairs[0] > design.pairs || pairs[1] > design.control_pairs;
        return Some(if is_more { Advice::Pairs { pairs, builds: None } } else { twice(design) });
    };
    let blocks = spread.blocks.max(1);
    let control = judgement.control.as_ref().map(by_block);
    let judgement = Judgement { estimate: by_block(&judgement.estimate), control, ..judgement.clone() };
    let of_blocks =
        Design { pairs: blocks, control_pairs: design.control_pairs.min(blocks), ..design.clone() };
    let [needed, _] = pairs_to_settle(&of_blocks, &judgement)?;
    let needed = if needed > blocks { needed } else { blocks.saturating_mul(2) };
    let pairs = [design.pairs, design.control_pairs].map(|now| now.div_ceil(blocks).saturating_mul(needed));
    let builds = design.has_several_builds().then_some(needed);
    let fits = pairs[0] <= MOST_PAIRS && builds.is_none_or(|builds| builds <= MOST_BUILDS);
    fits.then_some(Advice::Pairs { pairs, builds })
}

/// An estimate as if each block were one pair.
fn by_block(estimate: &Estimate) -> Estimate {
    let Some(spread) = estimate.builds else { return estimate.clone() };
    let pairs_per_block = f64::from(estimate.pairs) / f64::from(spread.blocks.max(1));
    let within = spread.within_log_sd.powi(2) / pairs_per_block.max(1.0);
    let log_ratio_sd = (spread.between_log_sd.powi(2) + within).sqrt();
    Estimate { pairs: spread.blocks, log_ratio_sd, builds: None, ..estimate.clone() }
}

/// The advice where a metric has no estimate. The excluded pairs show the reason.
fn without_estimate(one: &Comparison) -> Advice {
    let excluded: Vec<_> = one.pairs.iter().filter(|pair| pair.dropped.is_some()).collect();
    if excluded.len() * 2 <= one.pairs.len() {
        return if one.unmeasured_pairs > 0 { twice(&one.design) } else { longer(one) };
    }
    let is_overloaded = excluded
        .iter()
        .filter(|pair| pair.late != [false, false] || pair.troubles.iter().any(|arm| !arm.is_empty()));
    match is_overloaded.count() * 2 >= excluded.len() {
        true if has_rate(one) => Advice::LowerRate,
        false if one.design.disturbance.is_some() => Advice::KeepDisturbed,
        _ => Advice::Again,
    }
}

/// Whether the load's rate is a setting of its own.
fn has_rate(one: &Comparison) -> bool {
    let is_even =
        matches!(one.workload.schedule, Schedule::Poisson | Schedule::Uniform | Schedule::Bursts { .. });
    is_even && one.workload.engine.operations().is_none()
}

/// Longer windows, or twice the pairs where the load itself ends a window.
fn longer(one: &Comparison) -> Advice {
    if one.workload.climb().is_some() { twice(&one.design) } else { Advice::LongerWindows }
}

fn twice(design: &Design) -> Advice {
    let pairs = [design.pairs, design.control_pairs].map(|now| now.saturating_mul(2).min(MOST_PAIRS));
    Advice::Pairs { pairs, builds: None }
}

#[cfg(test)]
mod tests {
    use hone_record::{
        Budget, BuildSpread, Climb, Continuation, Engine, GateState, Look, PairOutcome, Slo, Workload,
    };

    use super::*;
    use crate::command_line::NOTE;
    use crate::fixture;

    /// An inconclusive comparison whose log ratios scatter this much. Its two pairs took 10 s.
    fn open(spread: f64) -> Comparison {
        let mut found = fixture::comparison(Some(Verdict::Equivalent));
        let primary = &mut found.judgements[0];
        primary.verdict = Verdict::NotShown;
        (primary.estimate.ratio, primary.estimate.log_ratio_sd) = (0.98, spread);
        found.design.control_pairs = 4;
        found.pairs = vec![PairOutcome { took_s: 5.0, ..PairOutcome::default() }; 2];
        found
    }

    /// The same without an estimate. Both pairs are excluded, because this arm had trouble or because of neighbours.
    fn without_pairs(is_trouble: bool) -> Comparison {
        let mut found = open(0.02);
        found.judgements.remove(0);
        found.design.disturbance = Some(hone_compare::disturbance(Mode::Solo));
        for pair in &mut found.pairs {
            pair.dropped = Some("excluded".to_owned());
            pair.late = [is_trouble; 2];
        }
        found
    }

    fn needed(one: &Comparison) -> [u32; 2] {
        pairs_to_settle(&one.design, &one.judgements[0]).unwrap()
    }

    fn run<'a>(source: Source, all: Vec<&'a Comparison>, words: &str) -> Rerun<'a> {
        let words: Vec<String> = words.split_whitespace().map(str::to_owned).collect();
        Rerun { command: CommandLine::new(&words), ..Rerun::new(source, all, Path::new("no folder")) }
    }

    fn file(path: &str, pairs: &'static str, builds: &'static str) -> Source {
        Source::File(Keys { path: path.to_owned(), pairs, builds })
    }

    #[track_caller]
    fn check(run: &Rerun<'_>, expected: &str) {
        assert_eq!(run.text().as_deref(), Some(expected));
    }

    #[test]
    fn the_comparison_that_needs_most_decides_and_all_of_them_take_time() {
        let (near, far) = (open(0.02), open(0.1));
        let [tests, controls] = needed(&far);
        assert!(tests > needed(&near)[0] && controls < tests);
        let time = hone_format::duration(3.0 * 5.0 * f64::from(tests + controls));
        let words = "batch prove --pairs=8 --steps steps.toml --control-pairs 5";
        let numbers = format!("--pairs {tests} --control-pairs {controls}");
        check(
            &run(Source::Options, vec![&near, &far, &near], words),
            &format!("hone batch prove --steps steps.toml {numbers} (about {time})"),
        );
        let rounds = run(Source::Rounds, vec![&far], "host try latency --rounds 10").text().unwrap();
        assert!(rounds.starts_with(&format!("hone host try latency --rounds {tests} (about ")), "{rounds}");
        let decided = fixture::comparison(Some(Verdict::Equivalent));
        assert_eq!(run(Source::Options, vec![&decided], words).line(), "");
        // The command is not known.
        let text = run(Source::Options, vec![&far], "").text().unwrap();
        assert!(text.starts_with(&format!("begin the run again with {numbers} (about ")), "{text}");
    }

    #[test]
    fn a_resumed_run_has_the_command_that_began_it() {
        let folder = tempfile::tempdir().unwrap();
        let words = r#"["compare", "a:1", "b b:2", "--pairs=8", "--control-pairs", "5", "--rate", "50"]"#;
        std::fs::write(folder.path().join(NOTE), words).unwrap();
        let found = open(0.02);
        let [tests, controls] = needed(&found);
        let next = comparison(&found, folder.path());
        let command = format!(
            "  next: hone compare a:1 'b b:2' --rate 50 --pairs {tests} --control-pairs {controls} (about "
        );
        assert!(next.starts_with(&command) && next.ends_with(")\n") && next.lines().count() == 1, "{next}");
    }

    #[test]
    fn a_run_that_can_be_continued_is_and_one_with_a_verdict_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let mut found = open(0.1);
        found.design.budget =
            Some(Budget { total_s: 300.0, pilot_pairs: 5, pair_s: 5.0, words: String::new() });
        let look = |(pairs, spent): (u32, f64)| Look { pairs, level: 0.02, spent };
        found.design.looks = [(2, 0.04), (4, 0.043), (8, 0.05)].map(look).to_vec();
        found.design.pairs = 2;
        assert!(!comparison(&found, folder.path()).contains("--resume"), "its design has no continuation");
        found.design.continuation = Some(Continuation { pairs: 9, ends: Vec::new() });
        let next = comparison(&found, folder.path());
        let run = folder.path().display();
        let command =
            format!("  next: hone compare --resume {run} --budget 6m (about 30 s more, chance of a verdict ");
        assert!(next.starts_with(&command) && next.ends_with(" %)\n"), "{next}");
        // The total is larger than what an earlier continuation had.
        std::fs::write(folder.path().join("continued.json"), "[900.0]").unwrap();
        assert!(comparison(&found, folder.path()).contains(" --budget 16m "));
        found.judgements[0].verdict = Verdict::Better;
        assert!(!comparison(&found, folder.path()).contains("--resume"));
    }

    #[test]
    fn a_budget_grows_instead_of_the_pairs() {
        let mut found = open(0.1);
        found.design.budget =
            Some(Budget { total_s: 300.0, pilot_pairs: 5, pair_s: 5.0, words: String::new() });
        let takes_s = 5.0 * f64::from(needed(&found).iter().sum::<u32>());
        let minutes = (takes_s / 60.0).ceil();
        let words = "compare a:1 b:2 --budget 5m --effect 5% --plan-only";
        let expected =
            format!("hone compare a:1 b:2 --budget {minutes}m (about {})", hone_format::duration(takes_s));
        check(&run(Source::Options, vec![&found], words), &expected);
        let [tests, controls] = needed(&found);
        let tuned = run(file("tune.toml", TUNE, TUNE), vec![&found], "tune tune.toml");
        let keys = format!("pairs = {tests}, control_pairs = {controls}, budget = \"{}m\"", minutes + 1.0);
        let time = hone_format::duration(takes_s + 60.0);
        check(
            &Rerun { rest_s: 60.0, ..tuned },
            &format!("set {keys} in [tune] of tune.toml, then: hone tune tune.toml (about {time})"),
        );
    }

    #[test]
    fn where_more_pairs_do_not_help_the_reason_decides() {
        let words = "compare a:1 b:2 -d 5";
        let of = |found: &Comparison| run(Source::Options, vec![found], words).text().unwrap();
        assert_eq!(of(&without_pairs(false)), "hone compare a:1 b:2 -d 5 --keep-disturbed (about 10 s)");
        assert_eq!(of(&without_pairs(true)), "hone compare a:1 b:2 -d 5 --rate 500 (about 10 s)");
        let mut found = without_pairs(false);
        found.design.disturbance = None;
        assert_eq!(of(&found), "hone compare a:1 b:2 -d 5 (about 10 s, on a quieter machine)");
        // No number of pairs is enough, or the windows have no value.
        let mut empty = open(0.02);
        empty.judgements.remove(0);
        for found in [open(50.0), empty] {
            assert_eq!(of(&found), "hone compare a:1 b:2 --duration 10 (about 20 s)");
        }
        let tuned = |found: &Comparison| run(file("x.toml", TUNE, TUNE), vec![found], "tune x.toml").text();
        assert_eq!(
            tuned(&without_pairs(false)).unwrap(),
            "set keep_disturbed = true in [tune] of x.toml, then: hone tune x.toml (about 10 s)"
        );
        assert_eq!(
            tuned(&open(50.0)).unwrap(),
            "set duration_s = 10 in [workload.w] of x.toml, then: hone tune x.toml (about 20 s)"
        );
        let gated = run(file("x.toml", GATE, GATE), vec![&found], "gate --base main").text().unwrap();
        assert_eq!(gated, "hone gate --base main (about 10 s, plus builds, on a quieter machine)");
    }

    #[test]
    fn a_capacity_beyond_the_search_needs_higher_rates() {
        let slo = Slo { quantile: 0.99, latency_us: 1e4 };
        let climb = Climb { slo, to_requests_per_s: 32_000.0, growth: 1.05, step_s: 1.2, rest_s: 0.1 };
        let mut found = open(0.02);
        found.workload = found.workload.climbing(climb);
        found.pairs[0].at_least = [true, false];
        let expected = "hone compare a:1 b:2 --max-rate 64000 (about 10 s)";
        check(&run(Source::Options, vec![&found], "compare a:1 b:2 --to 32000"), expected);
    }

    /// A gate has no options for its numbers, and takes the file of the base unless it is asked otherwise.
    #[test]
    fn a_gate_names_the_keys_to_raise() {
        let folder = tempfile::tempdir().unwrap();
        let keep = |words: &str| std::fs::write(folder.path().join(NOTE), words).unwrap();
        let mut weak = open(0.05);
        weak.workload.name = "judge".to_owned();
        weak.design.rule.equivalence = 0.03;
        let [tests, controls] = needed(&weak);
        weak.design.rule.equivalence = 0.02;
        let mut found = fixture::gate(GateOutcome::TooLittlePower, GateState::NotShown);
        (found.run, found.comparisons) = (folder.path().display().to_string(), vec![weak]);
        let time = hone_format::duration(5.0 * f64::from(tests + controls));
        let keys = format!("set pairs = {tests}, control_pairs = {controls} in [gate] of load/hone.toml");
        keep(r#"["gate", "--base", "main"]"#);
        let command = "hone gate --base main --head worktree --experiment-from head";
        assert_eq!(gate(&found), format!("  next: {keys}, then: {command} (about {time}, plus builds)\n"));
        keep(r#"["gate", "--head=feature", "--exact"]"#);
        let command = "hone gate --exact --head feature --experiment-from head";
        let expected = format!("  next: {keys} in feature, then: {command} (about {time}, plus builds)\n");
        assert_eq!(gate(&found), expected);
        found.outcome = GateOutcome::Worse;
        assert_eq!(gate(&found), "");
    }

    #[test]
    fn where_starts_or_builds_decide_there_are_more_of_them() {
        let mut found = open(0.02);
        let engine = Engine::Exits { arguments: Vec::new(), operations: 5 };
        found.workload = Workload::of_operations("judge", engine);
        (found.design.pairs, found.design.control_pairs, found.design.starts) = (8, 8, 4);
        let spread = BuildSpread { blocks: 4, between_log_sd: 0.05, within_log_sd: 0.01 };
        found.judgements[0].estimate.builds = Some(spread);
        let number = |text: &str, key: &str| -> u32 {
            let (_, behind) = text.split_once(&format!("{key} = ")).unwrap();
            behind.split(' ').next().unwrap().parse().unwrap()
        };
        let text = |found: &Comparison| {
            let source = file("x.toml", "compare", "optimize");
            run(source, vec![found], "optimize x.toml --phase judge").text().unwrap()
        };
        let starts = text(&found);
        assert_eq!(starts, "hone optimize x.toml --budget 18m (about 17 min 20 s, plus builds)");
        found.design.builds = [4, 4];
        let builds = text(&found);
        assert!(
            builds.contains(" in [optimize] of x.toml, then: hone optimize x.toml --budget "),
            "{builds}"
        );
        assert!(number(&builds, "builds") > 4, "{builds}");
        found.workload = open(0.02).workload;
        let compared = run(Source::Options, vec![&found], "compare a b --a-build c --b-build d");
        let compared = compared.text().unwrap();
        assert!(compared.starts_with("hone compare a b --a-build c --b-build d --pairs "), "{compared}");
        assert!(compared.contains(" --a-build COMMAND --b-build COMMAND (about "), "{compared}");
        assert!(compared.ends_with(" builds per arm)"), "{compared}");
    }

    #[test]
    fn windows_that_comparisons_share_take_their_time_once() {
        let pair = |a: &str, b: &str| PairOutcome {
            window_a: a.to_owned(),
            window_b: b.to_owned(),
            took_s: 4.0,
            ..PairOutcome::default()
        };
        let of = |child: &str| Comparison {
            pairs: vec![pair("base", child), pair("base", "twin")],
            ..fixture::comparison(None)
        };
        let (one, other) = (of("one"), of("other"));
        assert_eq!(pairs_s(&[&one, &other], |found| found.pairs.len() as f64), 8.0);
        assert_eq!(pairs_s(&[&one, &other], |_| 20.0), 80.0);
    }
}
