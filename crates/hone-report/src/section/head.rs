//! The head of a page: what was compared, what came out, how sure it is. It fits on the first screen of a laptop and of a phone.

use hone_record::{Comparison, Judgement, Machine, Metric, PairKind, Verdict};

use super::{raised, results};
use crate::outcome::{Outcome, capital};
use crate::plot::interval_bar::{self, Reach};
use crate::plot::mark;
use crate::quantity;
use crate::sentence;
use crate::table::{Cell, Column, Table};
use crate::tree::{Element, Markup, el};

/// Tiles in a head. More of them would push the forest plot off the first screen.
const TILES: usize = 5;

/// A head under construction.
#[derive(Debug)]
pub(crate) struct Head(Element);

impl Head {
    /// The kind of the page, and what it is about in a few words.
    pub(crate) fn new(kind: &str, title: &str) -> Self {
        let kicker = el("p").class("kicker").text(kind);
        Self(el("header").child(kicker).child(el("h1").text(title)))
    }

    /// Adds the two sides or what they are made of, a line for each.
    pub(crate) fn sides(self, sides: &[(&str, String)]) -> Self {
        let side = |(name, what): &(&str, String)| {
            el("li").child(el("b").text(&format!("{name}: "))).child(el("span").class("what").text(what))
        };
        if sides.is_empty() {
            return self;
        }
        self.with(el("ul").class("sides").children(sides.iter().map(side)))
    }

    /// Adds the verdict: one word, the sentence that a terminal prints first, and more lines of the same block.
    pub(crate) fn verdict(self, outcome: Outcome, sentence: &str, more: Vec<Element>) -> Self {
        // The page shows the outcome as a large word above.
        let said = format!("{}: ", outcome.word);
        let sentence = match sentence.strip_prefix(&said) {
            Some(rest) => {
                el("p").class("sentence").child(el("span").class("said-word").text(&said)).text(rest)
            }
            None => el("p").class("sentence").text(sentence),
        };
        self.verdict_of(outcome, sentence, more)
    }

    /// The same with a finished sentence.
    pub(crate) fn verdict_of(self, outcome: Outcome, sentence: Element, more: Vec<Element>) -> Self {
        let (basis, more): (Vec<Element>, Vec<Element>) = more.into_iter().partition(Element::is_detail);
        let word = el("p").class("verdict-word");
        let word =
            outcome.verdict.into_iter().fold(word, |word, found| word.child(mark::inline_verdict(found)));
        let block = el("div")
            .class(block_class(outcome.verdict))
            .child(word.child(el("span").text(&outcome.word)))
            .child(sentence)
            .children(more)
            .children(folded(basis));
        self.with(block)
    }

    /// Adds any element.
    pub(crate) fn with(self, element: impl Into<Markup>) -> Self {
        Self(self.0.child(element))
    }

    /// Adds elements.
    pub(crate) fn with_all<T: Into<Markup>>(self, elements: impl IntoIterator<Item = T>) -> Self {
        Self(self.0.children(elements))
    }

    /// Adds the tiles and the forest plot of a comparison.
    pub(crate) fn figures_of(self, comparison: &Comparison) -> Self {
        self.with_all(tiles_of(comparison, None)).picture(Some(results::forest("head", comparison)))
    }

    /// Adds a figure. Its heading follows the title of the page.
    pub(crate) fn picture(self, figure: Option<Element>) -> Self {
        self.with_all(figure.map(raised))
    }

    /// Ends the head with a line of circumstances: date, machine, duration. Empty parts are omitted.
    pub(crate) fn meta(self, parts: &[String]) -> Element {
        let parts: Vec<&str> = parts.iter().map(String::as_str).filter(|part| !part.is_empty()).collect();
        match &parts[..] {
            [] => self.0,
            parts => self.0.child(el("p").class("meta").text(&parts.join(" · "))),
        }
    }
}

/// The class of the block with an outcome.
pub(crate) fn block_class(verdict: Option<Verdict>) -> &'static str {
    match verdict {
        Some(Verdict::Better) => "verdict better",
        Some(Verdict::Worse) => "verdict worse",
        Some(Verdict::Equivalent) => "verdict equivalent",
        Some(Verdict::NotShown) => "verdict not-shown",
        None => "verdict",
    }
}

/// What a verdict rests on, folded.
fn folded(basis: Vec<Element>) -> Option<Element> {
    let summary = el("summary").text("Why this verdict");
    (!basis.is_empty()).then(|| el("details").child(summary).children(basis).detail())
}

/// CPU model and number of cores.
pub(crate) fn machine_in_short(machine: &Machine) -> String {
    let cores = quantity::counted(u64::from(machine.cores), "core", "cores");
    match (machine.cpu_model.as_str(), machine.cores) {
        ("", 0) => "unknown machine".to_owned(),
        ("", _) => format!("CPU model unknown, {cores}"),
        (model, 0) => model.to_owned(),
        (model, _) => format!("{model}, {cores}"),
    }
}

/// When a comparison started and how long its pairs took.
pub(crate) fn when(comparison: &Comparison) -> [String; 2] {
    let took_s: f64 = comparison.pairs.iter().map(|pair| pair.took_s).sum();
    let of = |kind| comparison.pairs.iter().filter(|pair| pair.kind == kind).count() as u64;
    let tests = quantity::counted(of(PairKind::Test), "A/B pair", "A/B pairs");
    let pairs = match of(PairKind::Control) {
        0 => tests,
        controls => format!("{tests} and {controls} A/A"),
    };
    let took = match took_s > 0.0 {
        true => format!("{pairs} in {}", quantity::duration(took_s)),
        false => pairs,
    };
    [date(comparison.started_unix_ms), took]
}

/// A date, or nothing if the record does not know it.
pub(crate) fn date(unix_ms: u64) -> String {
    if unix_ms == 0 { String::new() } else { quantity::date_utc(unix_ms) }
}

/// The metrics of the tiles: the primary, regressions, guard metrics, then those that people look for first.
fn chosen(comparison: &Comparison) -> Vec<&Judgement> {
    const WANTED: [Metric; 7] = [
        Metric::CpuPerRecord,
        Metric::CpuPerRequest,
        Metric::BusyPerRecord,
        Metric::LatencyP50,
        Metric::LatencyP99,
        Metric::Throughput,
        Metric::Capacity,
    ];
    let rule = &comparison.design.rule;
    let has_records = comparison.judgements.iter().any(|one| one.estimate.metric == Metric::CpuPerRecord);
    let rank = |judged: &&Judgement| {
        let metric = judged.estimate.metric;
        // Both say the same, but for the size of a request.
        if metric == Metric::CpuPerRequest && has_records && !judged.primary {
            return (judged.verdict == Verdict::Worse).then_some(1);
        }
        let wanted = WANTED.iter().position(|wanted| *wanted == metric);
        match judged {
            judged if judged.primary => Some(0),
            judged if judged.verdict == Verdict::Worse => Some(1),
            _ if rule.guards.contains(&metric) => Some(2),
            _ => wanted.map(|place| place + 3),
        }
    };
    let mut ranked: Vec<(usize, &Judgement)> = comparison
        .judgements
        .iter()
        .filter(|judged| sentence::is_sound(&judged.estimate))
        .filter_map(|judged| Some((rank(&judged)?, judged)))
        .collect();
    ranked.sort_by_key(|(rank, judged)| (*rank, judged.estimate.metric));
    ranked.into_iter().take(TILES).map(|(_, judged)| judged).collect()
}

/// The tiles of a comparison. `subject` names the change if the page has several. `None` when nothing was estimated.
pub(crate) fn tiles_of(comparison: &Comparison, subject: Option<&str>) -> Option<Element> {
    let chosen = chosen(comparison);
    let reach = Reach::over(chosen.iter().map(|judged| &judged.estimate));
    if reach.is_none() && missing(comparison).next().is_none() {
        return None;
    }
    let columns = vec![
        Column::words("metric"),
        Column::numbers(Markup::text(&comparison.a)),
        Column::numbers(Markup::text(&comparison.b)),
        Column::numbers(Markup::text("change")),
        Column::numbers(Markup::text("interval")),
        Column::words("verdict"),
    ];
    let mut table = Table::new("The result in figures", columns);
    for judged in chosen {
        let metric = judged.estimate.metric;
        table.row_of_class(
            class_of(judged.verdict),
            results::metric_title(comparison, metric),
            cells(judged, reach),
        );
    }
    for metric in missing(comparison) {
        let why = results::why_not_estimated(comparison, metric).unwrap_or_default();
        let cell = Cell::text(&why).across(5).class("words tile-missing");
        table.row_of_class("tile", results::metric_title(comparison, metric), vec![cell]);
    }
    Some(table.tiles().child(key_of_tiles(comparison, subject)))
}

/// What the tiles are about, and how to read their bars.
fn key_of_tiles(comparison: &Comparison, subject: Option<&str>) -> Element {
    let load = results::under(comparison);
    let about = match (subject, load) {
        (Some(subject), Some(load)) => format!("{subject}, {load}. "),
        (Some(subject), None) => format!("{subject}. "),
        (None, load) => load.map_or(String::new(), |load| format!("{}. ", capital(&load))),
    };
    let text = format!("{about}Bars: {}; the line marks no change.", sentence::intervals(comparison));
    el("p").class("key only-page").text(&text)
}

/// The pairs of several comparisons and the confidence of their primary metric: `95 % CI, 8 pairs each`. Empty without an estimate.
pub(crate) fn basis_of<'a>(comparisons: impl Iterator<Item = &'a Comparison>) -> String {
    let all: Vec<_> = comparisons.filter_map(|one| Some(&one.primary()?.estimate)).collect();
    let pairs = || all.iter().map(|estimate| estimate.pairs);
    let (Some(first), Some(least), Some(most)) = (all.first(), pairs().min(), pairs().max()) else {
        return String::new();
    };
    let range = if least == most { most.to_string() } else { format!("{least} to {most}") };
    format!("{} CI, {range} pairs each", sentence::confidence(first))
}

/// Metrics that the verdict rests on and that have no estimate, with a known reason.
fn missing(comparison: &Comparison) -> impl Iterator<Item = Metric> {
    let rule = &comparison.design.rule;
    let named = std::iter::once(rule.primary).chain(rule.guards.iter().copied());
    let is_judged = |metric: &Metric| comparison.judgements.iter().any(|one| one.estimate.metric == *metric);
    named.filter(move |metric| !is_judged(metric) && comparison.not_estimated.contains_key(metric))
}

fn class_of(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Better => "tile better",
        Verdict::Worse => "tile worse",
        Verdict::Equivalent => "tile equivalent",
        Verdict::NotShown => "tile not-shown",
    }
}

fn cells(judged: &Judgement, reach: Option<Reach>) -> Vec<Cell> {
    let estimate = &judged.estimate;
    let [a, b] = results::values(estimate.metric, estimate.value_a, estimate.value_b);
    let interval = quantity::change_interval([estimate.low, estimate.high]);
    let bar = reach.map(|reach| interval_bar::bar(estimate, judged.verdict, reach));
    let interval = bar.into_iter().fold(Markup::text(&interval), Markup::with);
    vec![
        Cell::number(&a).class("number before"),
        Cell::number(&b).class("number after"),
        Cell::number(&quantity::change(estimate.ratio)).class("number change"),
        Cell::numbers(interval).class("number interval-text"),
        Cell::words(mark::verdict_words(judged.verdict)).class("words tile-verdict"),
    ]
}

/// Tiles of single values: a name, a value and a remark, often empty.
pub(crate) fn tiles_of_values(name: &str, values: &[(&str, String, String)]) -> Option<Element> {
    if values.is_empty() {
        return None;
    }
    let mut table = Table::new(name, vec![Column::words("figure"), Column::numbers(Markup::text("value"))]);
    for (title, value, remark) in values {
        let remark = (!remark.is_empty()).then(|| el("span").class("small").text(remark));
        let value = remark.into_iter().fold(Markup::text(value), Markup::with);
        table.row_of_class("tile", Markup::text(title), vec![Cell::numbers(value).class("number change")]);
    }
    Some(table.tiles())
}

/// A figure before and after a change.
#[derive(Debug)]
pub(crate) struct BeforeAfter {
    /// Its name.
    pub(crate) title: &'static str,
    /// Its values as text.
    pub(crate) values: [String; 2],
    /// Ratio of after to before. It is positive and finite.
    pub(crate) ratio: f64,
    /// Whether a smaller value is the better one.
    pub(crate) lower_is_better: bool,
    /// A remark, often empty.
    pub(crate) remark: String,
}

/// Tiles of figures before and after a change. `None` without figures.
pub(crate) fn tiles_of_change(name: &str, figures: Vec<BeforeAfter>) -> Option<Element> {
    if figures.is_empty() {
        return None;
    }
    let numbers = ["before", "after", "change"].map(|title| Column::numbers(Markup::text(title)));
    let mut table = Table::new(name, std::iter::once(Column::words("figure")).chain(numbers).collect());
    for figure in figures {
        let class = match figure.ratio {
            1.0 => "tile equivalent",
            ratio if (ratio < 1.0) == figure.lower_is_better => "tile better",
            _ => "tile worse",
        };
        let remark = (!figure.remark.is_empty()).then(|| el("span").class("small path").text(&figure.remark));
        let change = remark.into_iter().fold(Markup::text(&quantity::change(figure.ratio)), Markup::with);
        let [before, after] = figure.values;
        let cells = vec![
            Cell::number(&before).class("number before"),
            Cell::number(&after).class("number after"),
            Cell::numbers(change).class("number change"),
        ];
        table.row_of_class(class, Markup::text(figure.title), cells);
    }
    Some(table.tiles())
}

/// What was compared, for the title. Names that only say `A` and `B` are replaced by what they stand for.
pub(crate) fn title(comparison: &Comparison) -> String {
    let Comparison { a, b, change, targets: [of_a, of_b], .. } = comparison;
    if let Some(change) = change {
        let label = with_arrows(&change.label());
        return match &**of_a {
            "" => label,
            target => format!("{label} on {}", in_short(target)),
        };
    }
    let named = |name: &str, target: &str| match target {
        "" => name.to_owned(),
        target => in_short(target),
    };
    match (named(a, of_a), named(b, of_b)) {
        // Two commands of one program differ behind what is short.
        (a_short, b_short) if a_short == b_short => format!("{b} against {a}"),
        (a_short, b_short) => format!("{b_short} against {a_short}"),
    }
}

/// A change as a page shows it: a terminal has `->`.
pub(crate) fn with_arrows(change: &str) -> String {
    change.replace(" -> ", "\u{a0}→\u{a0}")
}

/// An address as it is, and a command by its program.
fn in_short(target: &str) -> String {
    let program = target.split_whitespace().next().unwrap_or_default();
    let is_command = target.contains(char::is_whitespace);
    if is_command { program.rsplit('/').next().unwrap_or(program).to_owned() } else { target.to_owned() }
}

/// A and B, and what they stand for. Empty when the names say it.
pub(crate) fn sides_of(comparison: &Comparison) -> Vec<(&str, String)> {
    let Comparison { a, b, change, targets: [of_a, of_b], .. } = comparison;
    let set = |value: &Option<String>| value.clone().unwrap_or_else(|| "existing value".to_owned());
    match change {
        Some(change) => {
            let name = format!("{}.{}", change.kind, change.name);
            let from = change.from.clone().or_else(|| change.was.clone());
            vec![
                (a, format!("{name} = {}", set(&from))),
                (b, format!("{name} = {}, the only change", change.to)),
            ]
        }
        None if of_a.is_empty() && of_b.is_empty() => Vec::new(),
        None => vec![(a, of_a.clone()), (b, of_b.clone())],
    }
}

#[cfg(test)]
mod tests {
    use hone_record::Change;

    use super::*;
    use crate::sample;

    #[test]
    fn a_title_says_what_was_compared() {
        let (optimization, _) = sample::optimization();
        let mut comparison = optimization.comparisons[0].clone();
        assert_eq!(title(&comparison), "pgo against baseline");
        (comparison.a, comparison.b) = ("A".to_owned(), "B".to_owned());
        comparison.targets = ["old:9092", "new:9092"].map(str::to_owned);
        assert_eq!(title(&comparison), "new:9092 against old:9092");
        assert_eq!(sides_of(&comparison)[0], ("A", "old:9092".to_owned()));
        comparison.targets = ["bin/x --a 1", "/opt/y --a 1"].map(str::to_owned);
        assert_eq!(title(&comparison), "y against x");
        comparison.targets = ["x --a 1", "x --a 2"].map(str::to_owned);
        assert_eq!(title(&comparison), "B against A");
        comparison.targets = ["k:9092", "k:9092"].map(str::to_owned);
        comparison.change = Some(Change {
            kind: "client".to_owned(),
            name: "linger.ms".to_owned(),
            from: Some("0".to_owned()),
            to: "5".to_owned(),
            was: None,
        });
        assert_eq!(title(&comparison), "client.linger.ms: 0\u{a0}→\u{a0}5 on k:9092");
        assert_eq!(sides_of(&comparison)[1], ("B", "client.linger.ms = 5, the only change".to_owned()));
    }

    #[test]
    fn the_primary_metric_and_every_regression_have_a_tile() {
        let (optimization, _) = sample::optimization();
        let mut comparison = optimization.comparisons[0].clone();
        for judged in &mut comparison.judgements {
            if judged.estimate.metric == Metric::LatencyMax {
                judged.verdict = Verdict::Worse;
            }
        }
        let metrics: Vec<Metric> = chosen(&comparison).iter().map(|judged| judged.estimate.metric).collect();
        assert_eq!(metrics[..2], [Metric::CpuPerRecord, Metric::LatencyMax]);
        assert!(metrics.contains(&Metric::LatencyP99) && metrics.len() <= TILES, "{metrics:?}");
    }
}
