//! Maps an address to a page, or to the same content as JSON. An address contains fixed words and ids. No part of it becomes a
//! path.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use hone_record::{
    Body, Chapter, Comparison, Diagnosis, Envelope, FORMAT_VERSION, Fate, LedgerEntry, Metric, RunState,
    ShelfFilter, ShelfPage, ShelfRecord, ShelfRun, Story, Verdict,
};
use hone_report::desk::{self, Around, Both, Chosen, LedgerFault, LedgerSheet, Pager, RunExtras};
use hone_report::verdict::decision_label;
use serde::Serialize;
use serde_json::json;
use url::form_urlencoded;

use super::beside::{self, Held};
use super::shelf::{Content, Item, Run, Shelf, is_id, read};
use super::shown::Shown;
use super::stop::Stopper;
use super::{history, live, progress, run_list, topics};
use crate::page;
use crate::story;
use hone_experiment::reader::Reader as _;

/// Records per page.
const ON_A_PAGE: usize = 50;
/// Runs per page.
const RUNS_ON_A_PAGE: usize = 100;
/// Ledger entries per page.
const ENTRIES: usize = 200;
/// The size limit of a ledger. `hone ledger` handles larger ones.
const MOST_LEDGER_BYTES: u64 = 64 << 20;
/// The number of query pairs that are read.
const MOST_PAIRS: usize = 32;

const HTML: &str = "text/html; charset=utf-8";
const JSON: &str = "application/json";
const CSV: &str = "text/csv; charset=utf-8";
const SVG: &str = "image/svg+xml";

/// What answers rest on.
#[derive(Debug)]
pub(crate) struct Server {
    pub(crate) shelf: Arc<Shelf>,
    pub(super) stopper: Stopper,
}

/// An answer.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Answer {
    pub status: u16,
    pub kind: &'static str,
    pub body: Vec<u8>,
    /// Name of the file in which a browser saves it, of letters, digits and hyphens.
    pub save_as: Option<String>,
    /// The page to show in its place.
    pub location: Option<String>,
}

impl Answer {
    /// A successful answer.
    pub(crate) fn new(kind: &'static str, body: Vec<u8>) -> Self {
        Self { status: 200, kind, body, save_as: None, location: None }
    }

    pub(super) fn page(html: String) -> Self {
        Self::new(HTML, html.into_bytes())
    }

    fn csv(name: &str, text: String) -> Self {
        Self { save_as: Some(format!("{name}.csv")), ..Self::new(CSV, text.into_bytes()) }
    }

    fn json(kind: &str, body: &impl Serialize) -> Self {
        let record = json!({"hone_record": FORMAT_VERSION, "kind": kind, "body": body});
        Self::new(JSON, format!("{record:#}\n").into_bytes())
    }

    /// Reports a problem in the requested format.
    pub(crate) fn problem(status: u16, title: &str, why: &str, is_json: bool) -> Self {
        if is_json {
            let body = format!("{:#}\n", json!({"error": title, "why": why}));
            return Self { status, ..Self::new(JSON, body.into_bytes()) };
        }
        Self { status, ..Self::new(HTML, desk::problem(title, why).into_bytes()) }
    }
}

/// The parts of an address.
struct PageRequest<'a> {
    /// The address without the suffix that requests JSON.
    path: &'a str,
    query: BTreeMap<String, String>,
    is_json: bool,
}

impl<'a> PageRequest<'a> {
    fn parse(path: &'a str, query: &str) -> Self {
        let pairs = form_urlencoded::parse(query.as_bytes()).take(MOST_PAIRS);
        let query: BTreeMap<String, String> =
            pairs.map(|(name, value)| (name.into_owned(), value.into_owned())).collect();
        let bare = path.strip_suffix(".json");
        Self { path: bare.unwrap_or(path), is_json: bare.is_some() || query.contains_key("json"), query }
    }

    fn word(&self, name: &str) -> Option<&str> {
        self.query.get(name).map(String::as_str).filter(|word| !word.is_empty())
    }

    fn metric(&self, name: &str) -> Option<Metric> {
        Metric::from_name(self.word(name)?)
    }

    fn filter(&self) -> ShelfFilter {
        let verdict = |word: &str| serde_json::from_value::<Verdict>(json!(word)).ok();
        ShelfFilter {
            text: self.word("q").unwrap_or_default().trim().to_owned(),
            kind: self.word("kind").map(str::to_owned),
            verdict: self.word("verdict").and_then(verdict),
            state: self
                .word("state")
                .and_then(|word| RunState::ALL.into_iter().find(|state| state.label() == word)),
            a: self.word("a").map(str::to_owned),
            target: self.word("target").map(str::to_owned),
            layer: self.word("layer").map(str::to_owned),
            hours: self.word("hours").and_then(|hours| hours.parse().ok()),
        }
    }

    /// Whether the numbers of the page are requested.
    fn wants_csv(&self) -> bool {
        self.word("csv").is_some()
    }

    /// The same address with these words replaced. A word without a value is removed.
    fn address(&self, changes: &[(&str, Option<String>)]) -> String {
        let mut query = self.query.clone();
        ["json", "csv", "svg"].iter().for_each(|form| drop(query.remove(*form)));
        for (name, value) in changes {
            match value {
                Some(value) => drop(query.insert((*name).to_owned(), value.clone())),
                None => drop(query.remove(*name)),
            }
        }
        query.retain(|name, value| !value.is_empty() || name == "json");
        let text = form_urlencoded::Serializer::new(String::new()).extend_pairs(query).finish();
        if text.is_empty() { self.path.to_owned() } else { format!("{}?{text}", self.path) }
    }

    fn around(&self, content: &Content) -> Around {
        let chosen = self.word("a").filter(|_| self.path != "/compare").map(|a| Chosen {
            name: beside::side(content, a).map(|side| side.name().to_owned()),
            forget: self.address(&[("a", None)]),
        });
        Around {
            notes: content.notes(),
            json: self.address(&[("json", Some("1".to_owned()))]),
            here: self.address(&[]),
            has_csv: false,
            now_unix_ms: now_unix_ms(),
            chosen,
        }
    }

    /// The first side of a comparison, if the address names a valid one. Any other value would make every comparison fail.
    fn known_a(&self, content: &Content) -> Option<String> {
        self.word("a").filter(|a| beside::side(content, a).is_ok()).map(str::to_owned)
    }
}

fn now_unix_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

/// Stops a run, if its form has the right token, and leads back to its page.
pub(super) fn stop_answer(server: &Server, id: &str, form: &[u8]) -> Answer {
    let content = server.shelf.content();
    let Some(run) = content.runs.get(id) else {
        let (status, title, why) = NOT_HERE;
        return Answer::problem(status, title, why, false);
    };
    let token = form_urlencoded::parse(form).find(|(name, _)| name == "token");
    let token = token.map(|(_, token)| token.into_owned()).unwrap_or_default();
    match server.stopper.stop(run, &token) {
        Ok(()) => {
            let location = Some(format!("/run/{id}"));
            Answer { status: 303, location, ..Answer::new(HTML, Vec::new()) }
        }
        Err(why) => Answer::problem(409, "The run was not stopped", &why, false),
    }
}

/// Answers an address.
pub(crate) fn answer(server: &Server, path: &str, query: &str) -> Answer {
    let shelf = &server.shelf;
    let asked = PageRequest::parse(path, query);
    let content = shelf.content();
    let reader = shelf.reader();
    let words: Vec<&str> = asked.path.split('/').skip(1).collect();
    let found = match words[..] {
        [""] => Ok(runs(&asked, &content)),
        ["records"] => Ok(records(&asked, &content)),
        ["compare"] => compared(&asked, &content),
        ["topics"] => Ok(all_topics(&asked, &content)),
        ["whatif"] => what_if(&asked, &content),
        ["history"] => Ok(lines(&asked, &content, &reader)),
        ["run", id] if is_id(id) => run(&asked, &content, &server.stopper, id),
        ["run", id, "stop"] if is_id(id) => confirm_stop(&asked, &content, &server.stopper, id),
        ["record", id] if is_id(id) => record(&asked, &content, &reader, id),
        ["history", id] if is_id(id) => history(&asked, &content, &reader, id),
        ["ledger", id] if is_id(id) => ledger(&asked, &content, &reader, id),
        ["ledger", id, "story"] if is_id(id) => whole_story(&asked, &content, &reader, id),
        _ => Err(NOT_HERE),
    };
    let page = found.unwrap_or_else(|(status, title, why)| {
        // A file that is read for the first time may appear in a moment.
        let is_missing = status == 404 && !content.is_whole();
        let more = if is_missing { " Some files are not read yet: refresh the page." } else { "" };
        Answer::problem(status, title, &format!("{why}{more}"), asked.is_json)
    });
    match asked.word("svg") {
        Some(id) if page.status == 200 && page.kind == HTML => picture(&page, id),
        _ => page,
    }
}

/// One picture of a page as a file.
fn picture(page: &Answer, id: &str) -> Answer {
    match desk::picture(&String::from_utf8_lossy(&page.body), id) {
        Some(svg) => Answer { save_as: Some(format!("{id}.svg")), ..Answer::new(SVG, svg.into_bytes()) },
        None => Answer::problem(404, "Not found", "The page has no picture of this name.", false),
    }
}

type Found = Result<Answer, (u16, &'static str, &'static str)>;

const NOT_HERE: (u16, &str, &str) = (
    404,
    "Not found",
    "There is nothing at this address. It was moved or removed, or it is not in the served folders.",
);
const TOO_LARGE: (u16, &str, &str) =
    (413, "Too large", "The ledger is too large for a page. Use hone ledger show or hone report.");
const TOO_MUCH: (u16, &str, &str) =
    (413, "Too large", "The run summary has too many windows for a page here. Use hone report.");

fn runs(asked: &PageRequest<'_>, content: &Content) -> Answer {
    let filter = ShelfFilter { a: asked.known_a(content), ..asked.filter() };
    let all = content.runs_now();
    let oldest_ms = filter.hours.map(|hours| now_unix_ms().saturating_sub(hours.saturating_mul(3_600_000)));
    let wants = |run: &&ShelfRun| {
        let outcome = run.outcome.as_ref();
        let of = |text: fn(&hone_record::ShelfOutcome) -> &str| outcome.map_or("", text);
        let places: [&str; 8] = [
            &run.path,
            &run.kind,
            &run.title,
            run.state.label(),
            of(|outcome| &outcome.subject),
            of(|outcome| &outcome.target),
            of(|outcome| &outcome.word),
            of(|outcome| &outcome.machine),
        ];
        (filter.text.is_empty() || has_words(&filter.text, &places))
            && filter.state.is_none_or(|state| run.state == state)
            && filter.verdict.is_none_or(|verdict| run.verdict == Some(verdict))
            && filter.kind.as_ref().is_none_or(|kind| run.kind == *kind)
            && filter.target.as_ref().is_none_or(|target| of(|outcome| &outcome.target) == target)
            && filter.layer.as_ref().is_none_or(|layer| of(|outcome| &outcome.layer) == layer)
            && oldest_ms.is_none_or(|oldest| run.at_unix_ms >= oldest)
    };
    let outcomes = || all.iter().filter_map(|run| run.outcome.as_ref());
    let choices = [
        counted(all.iter().map(|run| run.kind.as_str()).filter(|kind| !kind.is_empty())),
        run_list::choices(outcomes().map(|outcome| outcome.target.as_str())),
        run_list::choices(outcomes().map(|outcome| outcome.layer.as_str())),
    ];
    if asked.wants_csv() {
        let wanted: Vec<ShelfRun> = all.iter().filter(wants).cloned().collect();
        return Answer::csv("runs", desk::runs_csv(&wanted));
    }
    let (page, pager) = page_of(asked, filter.clone(), all.iter().collect(), wants, RUNS_ON_A_PAGE, choices);
    let mut page = owned(page);
    run_list::add_histories(&all, &mut page.items);
    live::add_to_rows(&mut page.items, |id| content.runs.get(id).map(Arc::as_ref));
    let ledgers: Vec<_> = content.ledgers.values().map(|(ledger, _)| ledger.clone()).collect();
    if asked.is_json {
        let body = json!({"runs": page, "ledgers": ledgers, "notes": content.notes()});
        return Answer::json("shelf-runs", &body);
    }
    let around = Around { has_csv: true, ..asked.around(content) };
    Answer::page(desk::runs(&page, &ledgers, &pager, &around))
}

/// A page that owns its rows.
fn owned<T: Clone>(page: ShelfPage<&T>) -> ShelfPage<T> {
    ShelfPage {
        items: page.items.into_iter().cloned().collect(),
        filter: page.filter,
        matching: page.matching,
        in_all: page.in_all,
        page: page.page,
        pages: page.pages,
        kinds: page.kinds,
        targets: page.targets,
        layers: page.layers,
    }
}

fn records(asked: &PageRequest<'_>, content: &Content) -> Answer {
    let filter = ShelfFilter { a: asked.known_a(content), ..asked.filter() };
    let mut all: Vec<&ShelfRecord> = content.records.values().map(|item| &item.record).collect();
    all.sort_by(|one, other| other.at_unix_ms.cmp(&one.at_unix_ms).then_with(|| one.path.cmp(&other.path)));
    let wants = |record: &&ShelfRecord| {
        let commit = record.window.as_ref().and_then(|window| window.commit.as_deref()).unwrap_or_default();
        has_words(&filter.text, &[&record.path, &record.kind, &record.title, &record.said, commit])
            && filter.verdict.is_none_or(|verdict| record.verdict == Some(verdict))
            && filter.kind.as_ref().is_none_or(|kind| record.kind == *kind)
    };
    let kinds = counted(all.iter().map(|record| record.kind.as_str()));
    let choices = [kinds, BTreeMap::new(), BTreeMap::new()];
    let hidden = if shows_windows(asked, content) { 0 } else { run_list::hide_windows(&mut all, wants) };
    let (page, pager) = page_of(asked, filter.clone(), all, wants, ON_A_PAGE, choices);
    let page = owned(page);
    if asked.is_json {
        return Answer::json("shelf-records", &json!({"records": page, "notes": content.notes()}));
    }
    let address = asked.address(&[("windows", Some("1".to_owned())), ("page", None)]);
    let windows = (hidden > 0).then_some((hidden, &*address));
    Answer::page(desk::records(&page, &pager, windows, &asked.around(content)))
}

/// Whether the list has the windows of runs. They would bury the results, so a page has them on request, or beside a chosen window. JSON
/// has all records.
fn shows_windows(asked: &PageRequest<'_>, content: &Content) -> bool {
    let is_window = |id: &str| content.records.get(id).is_some_and(|item| run_list::is_of_run(&item.record));
    let is_asked = asked.word("windows").is_some() || asked.word("kind").is_some();
    asked.is_json || is_asked || asked.word("a").is_some_and(is_window)
}

/// Whether each word of a text occurs in one of the places, in any case.
fn has_words(text: &str, places: &[&str]) -> bool {
    let places: Vec<String> = places.iter().map(|place| place.to_lowercase()).collect();
    text.to_lowercase().split_whitespace().all(|word| places.iter().any(|place| place.contains(word)))
}

fn counted<'a>(kinds: impl Iterator<Item = &'a str>) -> BTreeMap<String, usize> {
    let mut counted = BTreeMap::new();
    kinds.for_each(|kind| *counted.entry(kind.to_owned()).or_default() += 1);
    counted
}

fn page_of<T>(
    asked: &PageRequest<'_>,
    filter: ShelfFilter,
    all: Vec<T>,
    wants: impl Fn(&T) -> bool,
    on_a_page: usize,
    [kinds, targets, layers]: [BTreeMap<String, usize>; 3],
) -> (ShelfPage<T>, Pager) {
    let in_all = all.len();
    let matching: Vec<T> = all.into_iter().filter(wants).collect();
    let count = matching.len();
    let (page, pages, pager) = pages_of(asked, count, on_a_page, None);
    let items = matching.into_iter().skip((page - 1) * on_a_page).take(on_a_page).collect();
    (ShelfPage { filter, items, matching: count, in_all, page, pages, kinds, targets, layers }, pager)
}

/// The requested page, the number of pages, and links to its neighbours. `place` is the index of an item that must be on the
/// page.
fn pages_of(
    asked: &PageRequest<'_>,
    count: usize,
    on_a_page: usize,
    place: Option<usize>,
) -> (usize, usize, Pager) {
    let pages = count.div_ceil(on_a_page).max(1);
    let named = asked.word("page").and_then(|page| page.parse::<usize>().ok());
    let page = place.map(|place| place / on_a_page + 1).or(named).unwrap_or(1).clamp(1, pages);
    let beside = |page: usize| Some(asked.address(&[("page", Some(page.to_string())), ("line", None)]));
    let pager = Pager {
        previous: beside(page - 1).filter(|_| page > 1),
        next: beside(page + 1).filter(|_| page < pages),
    };
    (page, pages, pager)
}

fn run(asked: &PageRequest<'_>, content: &Content, stopper: &Stopper, id: &str) -> Found {
    let run: &Run = content.runs.get(id).ok_or(NOT_HERE)?;
    let found = progress::of_run(content, run);
    if asked.is_json {
        return Ok(Answer::json("run-progress", &found));
    }
    let extras = RunExtras {
        log: if found.run.state == RunState::Finished { None } else { live::log_of(run) },
        stop: stopper.offer(run),
    };
    let a = asked.known_a(content);
    Ok(Answer::page(desk::run(&found, a.as_deref(), &extras, &asked.around(content))))
}

/// Asks before a run is stopped.
fn confirm_stop(asked: &PageRequest<'_>, content: &Content, stopper: &Stopper, id: &str) -> Found {
    const NOT_RUNNING: (u16, &str, &str) =
        (409, "The run can't be stopped here", "It is not in progress, or its own page says how to stop it.");
    let run: &Run = content.runs.get(id).ok_or(NOT_HERE)?;
    let token = stopper.token(run).ok_or(NOT_RUNNING)?;
    let around = Around { json: String::new(), ..asked.around(content) };
    Ok(Answer::page(desk::confirm_stop(&content.run_now(run), &token, &around)))
}

fn record(asked: &PageRequest<'_>, content: &Content, reader: &Shown, id: &str) -> Found {
    let item: &Item = content.records.get(id).ok_or(NOT_HERE)?;
    let text = read(&item.path);
    if asked.is_json {
        // The raw file.
        return Ok(match text {
            Ok(text) => Answer::new(JSON, text.into_bytes()),
            Err(why) => Answer::problem(500, "Can't be read", &why, true),
        });
    }
    let why = match &text {
        Err(why) => why.clone(),
        Ok(_) if item.record.is_broken() => {
            format!("This is no readable record: {}.", item.record.said)
        }
        Ok(_) => match page::page(&item.path, reader) {
            // A page without some of its windows would be wrong.
            _ if reader.was_too_much() => {
                "It has too many windows for a page here. Use hone report.".to_owned()
            }
            Ok(html) => return Ok(Answer::page(desk::in_desk(&html, &item.record))),
            Err(error) => without_paths(&format!("There is no report for it: {error:#}"), &item.path),
        },
    };
    let around = Around { json: format!("/record/{id}.json"), ..asked.around(content) };
    Ok(Answer::page(desk::record(&item.record, &text.unwrap_or_default(), &why, &around)))
}

/// A reader of the page does not need the absolute paths of the folders.
fn without_paths(text: &str, path: &Path) -> String {
    let folder = path.parent().unwrap_or(path).display().to_string();
    text.replace(&format!("{folder}/"), "").replace(&folder, "its folder")
}

fn compared(asked: &PageRequest<'_>, content: &Content) -> Found {
    const CHOOSE: (u16, &str, &str) = (
        400,
        "Choose two records",
        "Use an address like /compare?a=ID&b=ID. The list of records has links for it.",
    );
    let (Some(a), Some(b)) = (asked.word("a"), asked.word("b")) else { return Err(CHOOSE) };
    let primary = asked.metric("primary").unwrap_or(Metric::CpuPerRecord);
    let refused = |why: String| Ok(Answer::problem(400, "These can’t be compared", &why, asked.is_json));
    if a == b {
        return refused("Both sides are the same.".to_owned());
    }
    let sides = beside::side(content, a).and_then(|a| Ok((a, beside::side(content, b)?)));
    let (side_a, side_b) = match sides {
        Ok(sides) => sides,
        Err(why) => return refused(why),
    };
    let around = Around { has_csv: true, ..asked.around(content) };
    Ok(match beside::held(&side_a, &side_b, primary) {
        Err(why) => return refused(why),
        Ok(Held::Saved(found, _)) if asked.is_json => Answer::json("saved-comparison", &found),
        Ok(Held::Saved(found, _)) if asked.wants_csv() => Answer::csv("compare", desk::saved_csv(&found)),
        Ok(Held::Saved(found, latencies)) => {
            let sides = [(a, &*side_a.address()), (b, &*side_b.address())];
            Answer::page(desk::saved(&found, primary, &beside::metrics(), sides, &latencies, &around))
        }
        Ok(Held::Fields(found, _)) if asked.is_json => Answer::json("side-by-side", &found),
        Ok(Held::Fields(found, texts)) => {
            let both = both(&texts);
            if asked.wants_csv() {
                return Ok(Answer::csv("compare", desk::side_by_side_csv(&found, &both)));
            }
            Answer::page(desk::side_by_side(&found, &both, &around))
        }
    })
}

/// Two records of one kind that have more to compare than their fields.
fn both(texts: &[String; 2]) -> Both {
    fn parsed<T: Body>(texts: &[String; 2]) -> Option<Box<[T; 2]>> {
        let [a, b] = texts.each_ref().map(|text| Envelope::<T>::parse(text).ok());
        Some(Box::new([a?, b?]))
    }
    match (parsed::<Comparison>(texts), parsed::<Diagnosis>(texts)) {
        (Some(both), _) => Both::Comparisons(both),
        (None, Some(both)) => Both::Diagnoses(both),
        (None, None) => Both::Others,
    }
}

fn all_topics(asked: &PageRequest<'_>, content: &Content) -> Answer {
    let records = topics::xrays(content);
    let others = topics::others(content, &records);
    if asked.is_json {
        let records = records
            .iter()
            .map(|record| json!({"record": record.id, "path": record.path, "xray": record.xray}));
        let others = others.iter().map(|topic| {
            json!({
                "record": topic.record,
                "source": topic.source,
                "topic": topic.topic,
                "batches_per_s": topic.batches_per_s,
                "needless_batches_per_s": topic.needless_batches_per_s(),
                "batch_bytes_mean": topic.mean_bytes,
            })
        });
        let (records, others): (Vec<_>, Vec<_>) = (records.collect(), others.collect());
        let body = json!({"records": records, "others": others, "notes": content.notes()});
        return Answer::json("shelf-topics", &body);
    }
    if asked.wants_csv() {
        return Answer::csv("topics", desk::topics_csv(&records, &others));
    }
    let around = Around { has_csv: true, ..asked.around(content) };
    Answer::page(desk::topics(&records, &others, &around))
}

/// A topic with other settings.
fn what_if(asked: &PageRequest<'_>, content: &Content) -> Found {
    let item = asked.word("record").and_then(|id| content.records.get(id)).ok_or(NOT_HERE)?;
    let record = topics::xray(item).ok_or(NOT_HERE)?;
    let named = asked.word("topic").unwrap_or_default();
    let topic = record.xray.topics.iter().find(|topic| topic.topic == named).ok_or(NOT_HERE)?;
    let today = topics::today(topic);
    let linger_ms =
        asked.word("linger_ms").and_then(|text| text.parse::<f64>().ok()).filter(|ms| ms.is_finite());
    let linger_ms = linger_ms.unwrap_or(today.0).clamp(0.0, f64::from(desk::MOST_LINGER_MS));
    let batch_bytes = asked.word("batch_bytes").and_then(|text| text.parse::<u64>().ok());
    let chosen = (linger_ms, batch_bytes.unwrap_or(today.1).clamp(1, 1 << 30));
    let forecast = topics::forecast(topic, chosen, topics::us_per_batch(content));
    if asked.is_json {
        let body = match &forecast {
            Ok(found) => json!({
                "topic": topic.topic,
                "linger_ms": chosen.0,
                "batch_bytes": chosen.1,
                "batches_per_s": found.batches_per_s,
                "bytes_per_s": found.bytes_per_s,
                "batch_bytes_mean": found.batch_bytes,
                "added_p50_ms": found.added_p50_ms,
                "cores": found.cores,
                "notes": found.notes,
            }),
            Err(why) => json!({"topic": topic.topic, "refused": why}),
        };
        return Ok(Answer::json("topic-forecast", &body));
    }
    Ok(Answer::page(desk::what_if(&record, topic, chosen, &forecast, &asked.around(content))))
}

fn lines(asked: &PageRequest<'_>, content: &Content, reader: &Shown) -> Answer {
    let lines = history::with_trends(history::lines(content, reader));
    if asked.is_json {
        return Answer::json("history-lines", &json!({"lines": lines, "notes": content.notes()}));
    }
    Answer::page(desk::history_lines(&lines, &asked.around(content)))
}

fn history(asked: &PageRequest<'_>, content: &Content, reader: &Shown, id: &str) -> Found {
    let lines = history::lines(content, reader);
    let mut found = history::history(lines.get(id).ok_or(NOT_HERE)?, asked.metric("metric"));
    found.notes = history::notes(content, reader, &found);
    if asked.is_json {
        return Ok(Answer::json("history", &found));
    }
    if asked.wants_csv() {
        return Ok(Answer::csv("history", desk::history_csv(&found)));
    }
    let around = Around { has_csv: true, ..asked.around(content) };
    Ok(Answer::page(desk::history(&found, &around)))
}

fn ledger(asked: &PageRequest<'_>, content: &Content, reader: &Shown, id: &str) -> Found {
    let (shown, path) = content.ledgers.get(id).ok_or(NOT_HERE)?;
    if shown.bytes > MOST_LEDGER_BYTES {
        return Err(TOO_LARGE);
    }
    let checked = match reader.ledger(path) {
        Ok(checked) => checked,
        Err(error) => {
            let why = without_paths(&error.to_string(), path);
            return Ok(Answer::problem(500, "The ledger can’t be read", &why, asked.is_json));
        }
    };
    let filter = asked.filter();
    let in_all = checked.lines.len();
    let (changes, kept) = kept(checked.lines.iter().map(|line| &line.entry));
    let unchained = checked.unchained().count();
    let wanted: Vec<_> = checked.lines.into_iter().filter(|line| wants(&filter, &line.entry)).collect();
    // The address of an entry contains its line, because the entry moves from page to page as the ledger
    // grows.
    let of_line = asked.word("line").and_then(|line| {
        let number: usize = line.parse().ok()?;
        wanted.iter().rev().position(|line| line.number == number)
    });
    let (page, pages, pager) = pages_of(asked, wanted.len(), ENTRIES, of_line);
    let entries = wanted.into_iter().rev().skip((page - 1) * ENTRIES).take(ENTRIES).map(|line| {
        let run = history::run_of(content, path, &line.entry);
        (line.number, line.entry, run)
    });
    let sheet = LedgerSheet {
        id: id.to_owned(),
        path: shown.path.clone(),
        filter: filter.clone(),
        entries: entries.collect(),
        in_all,
        changes,
        kept,
        page,
        pages,
        pager,
        faults: checked
            .faults
            .iter()
            .map(|fault| LedgerFault {
                line: fault.line,
                what: format!("{} ({})", fault.meaning.words(), fault.meaning.label()),
            })
            .collect(),
        torn: checked.torn.iter().map(|torn| torn.line).collect(),
        unchained,
        heads: checked.heads.into_iter().map(|head| head.hash).collect(),
    };
    if asked.is_json {
        return Ok(Answer::json("ledger", &ledger_json(&sheet)));
    }
    Ok(Answer::page(desk::ledger(&sheet, &asked.around(content))))
}

/// The number of changes with an entry, and the last entry of each kept one. The entry of all kept changes together comes last. The run
/// summary decides what is kept.
fn kept<'a>(entries: impl Iterator<Item = &'a LedgerEntry>) -> (usize, Vec<LedgerEntry>) {
    let chapter = |entry: &LedgerEntry| Chapter { entry: entry.clone(), ..Chapter::default() };
    let told = Story { chapters: entries.map(chapter).collect(), ..Story::default() };
    let fates = told.fates();
    let all = || told.chapters.iter().map(|chapter| &chapter.entry);
    let changes: BTreeSet<&str> =
        all().filter(|entry| !entry.is_of_all()).map(LedgerEntry::change_alone).collect();
    let is_kept = |entry: &&LedgerEntry| entry.fate() == Fate::Kept && fates.stays(entry);
    let last = |change: &str| {
        all().filter(is_kept).rfind(|entry| !entry.is_of_all() && entry.change_alone() == change)
    };
    let kept = fates.changes_of(Fate::Kept).into_iter().filter_map(last);
    let mut kept: Vec<LedgerEntry> = kept.cloned().collect();
    let together = all().rfind(|entry| entry.is_of_all() && entry.ratio.is_some());
    kept.extend(together.filter(|_| !kept.is_empty()).cloned());
    (changes.len(), kept)
}

fn wants(filter: &ShelfFilter, entry: &LedgerEntry) -> bool {
    let places: [&str; 9] = [
        &entry.change,
        &entry.experiment,
        &entry.verb,
        &entry.workload,
        &entry.why,
        &entry.question,
        &entry.decision,
        decision_label(&entry.decision),
        &entry.who,
    ];
    has_words(&filter.text, &places) && filter.verdict.is_none_or(|verdict| entry.verdict == Some(verdict))
}

fn ledger_json(sheet: &LedgerSheet) -> serde_json::Value {
    let entry = |(line, entry, run): &(usize, LedgerEntry, Option<String>)| json!({"line": line, "run": run, "entry": entry});
    json!({
        "path": sheet.path,
        "entries_in_all": sheet.in_all,
        "page": sheet.page,
        "pages": sheet.pages,
        "entries": sheet.entries.iter().map(entry).collect::<Vec<_>>(),
        "faults": sheet.faults.iter().map(|fault| json!({"line": fault.line, "what": fault.what})).collect::<Vec<_>>(),
        "torn_lines": sheet.torn,
        "unchained_lines": sheet.unchained,
        "heads": sheet.heads,
    })
}

fn whole_story(asked: &PageRequest<'_>, content: &Content, reader: &Shown, id: &str) -> Found {
    let (shown, path) = content.ledgers.get(id).ok_or(NOT_HERE)?;
    if shown.bytes > MOST_LEDGER_BYTES {
        return Err(TOO_LARGE);
    }
    match story::of_ledger(path, reader) {
        _ if reader.was_too_much() => Err(TOO_MUCH),
        Ok(told) => {
            let told = Story { source: shown.path.clone(), ..told };
            if asked.is_json {
                return Ok(Answer::json(Story::KIND, &told));
            }
            let record = ShelfRecord { path: shown.path.clone(), ..ShelfRecord::default() };
            Ok(Answer::page(desk::in_desk(&hone_report::documents::story(&told).html(), &record)))
        }
        Err(error) => {
            let why = without_paths(&format!("{error:#}"), path);
            Ok(Answer::problem(500, "The run summary can’t be shown", &why, asked.is_json))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_looked_for_in_any_order_and_case() {
        assert!(
            has_words("", &["x"]) && has_words("  PGO broker ", &["runs/Broker-001", "pgo against baseline"])
        );
        assert!(!has_words("pgo bolt", &["runs/broker-001", "pgo"]));
    }

    #[test]
    fn what_can_not_be_the_first_side_is_told_and_not_offered() {
        let content = Content::default();
        for a in ["0123456789abcdef", "0123456789abcdef~pgo", "x"] {
            let query = format!("a={a}&q=b");
            let asked = PageRequest::parse("/records", &query);
            let Chosen { name, forget } = asked.around(&content).chosen.unwrap();
            assert!(name.as_ref().is_err_and(|why| why.contains("is unknown here")), "{name:?}");
            assert_eq!((forget.as_str(), asked.known_a(&content)), ("/records?q=b", None));
        }
        assert_eq!(PageRequest::parse("/records", "q=b").around(&content).chosen, None);
    }

    #[test]
    fn windows_of_runs_are_listed_on_request() {
        for (query, is_shown) in [("", false), ("windows=1", true), ("kind=window", true), ("json", true)] {
            let asked = PageRequest::parse("/records", query);
            assert_eq!(shows_windows(&asked, &Content::default()), is_shown, "{query}");
        }
    }

    #[test]
    fn a_ledger_counts_its_changes_and_has_the_last_entry_of_each_kept_one() {
        let entry = |change: &str, decision: &str, ratio: f64| LedgerEntry {
            change: change.to_owned(),
            decision: decision.to_owned(),
            ratio: Some([ratio; 3]),
            ..LedgerEntry::default()
        };
        let entries = [
            entry("client: linger=5ms", "accepted", 0.9),
            entry("client: codec=lz4", "accepted", 0.8),
            entry("client: codec=lz4", "put back", 1.2),
            entry("client: linger=5ms", "accepted", 0.85),
            entry(hone_record::ALL_TOGETHER, "accepted", 0.84),
        ];
        let (changes, kept) = kept(entries.iter());
        let ratios: Vec<f64> = kept.iter().filter_map(|entry| Some(entry.ratio?[0])).collect();
        assert_eq!((changes, &ratios[..]), (2, [0.85, 0.84].as_slice()));
    }

    #[test]
    fn an_address_keeps_what_was_asked_for() {
        let asked = PageRequest::parse("/records.json", "q=a+b&kind=&page=3&a=0123456789abcdef~x%2By");
        assert!(asked.is_json && asked.path == "/records");
        assert_eq!(asked.address(&[("page", None)]), "/records?a=0123456789abcdef%7Ex%2By&q=a+b");
        assert_eq!(asked.filter().a.as_deref(), Some("0123456789abcdef~x+y"));
        assert!(PageRequest::parse("/", "json").is_json);
        assert_eq!(PageRequest::parse("/", "json").address(&[("json", Some("1".to_owned()))]), "/?json=1");
    }
}
