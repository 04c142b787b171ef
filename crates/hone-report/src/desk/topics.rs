//! Topics by the batches that they do not need, and what another linger or batch size would change.

use hone_record::{BatchFinding, BatchVerdict, BatchXray, TopicXray};

use super::frame::{Around, Tab, ago, copyable, document, link, link_to};
use super::list::{encoded, optional};
use crate::quantity::{self, NONE};
use crate::section::story::csv_line;
use crate::section::{absent, paragraph, section};
use crate::table::{Cell, Column, Table};
use crate::tree::{Element, Markup, el};

/// Batch sizes of the form, in bytes.
const SIZES: [u64; 7] = [16_384, 32_768, 65_536, 131_072, 262_144, 524_288, 1_048_576];
/// The longest linger of the form, in milliseconds.
pub const MOST_LINGER_MS: u32 = 200;

/// An X-ray record.
#[derive(Debug, Clone, PartialEq)]
pub struct XrayRecord {
    /// Identifier in addresses.
    pub id: String,
    /// Path below the folder that is served.
    pub path: String,
    /// Time of the file, milliseconds since 1970.
    pub at_unix_ms: u64,
    /// The record.
    pub xray: BatchXray,
}

/// A topic that no X-ray covers, as another record describes it.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct TopicRecord {
    /// Identifier of the record in addresses.
    pub record: String,
    /// What measured it, in words: `metrics of redpanda-25.1`.
    pub source: String,
    /// Time of the file, milliseconds since 1970.
    pub at_unix_ms: u64,
    /// The topic.
    pub topic: String,
    /// Batches per second.
    pub batches_per_s: Option<f64>,
    /// Mean bytes per batch.
    pub mean_bytes: Option<f64>,
    /// The advised settings, in words; empty if the record has none.
    pub action: String,
}

impl TopicRecord {
    /// The least number of batches per second that 16 KiB batches would avoid. The record has only the mean size, and larger batches
    /// hide smaller ones.
    pub fn needless_batches_per_s(&self) -> Option<f64> {
        let (rate, mean) = (self.batches_per_s?, self.mean_bytes?);
        Some((rate * (1.0 - mean / 16_384.0)).max(0.0))
    }
}

/// What a change of the producers' settings is expected to do to one topic.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct TopicForecast {
    /// Settings of today, as the batches show them: linger in milliseconds, and batch size.
    pub today: (f64, u64),
    /// Batches per second, today and with the change.
    pub batches_per_s: [f64; 2],
    /// Bytes per second, headers included.
    pub bytes_per_s: [f64; 2],
    /// Mean bytes per batch.
    pub batch_bytes: [f64; 2],
    /// Additional wait of the median record, in milliseconds.
    pub added_p50_ms: f64,
    /// Change of the cluster's CPU in cores, if a cost record is known.
    pub cores: Option<f64>,
    /// Limits of the forecast, as sentences.
    pub notes: Vec<String>,
}

/// A topic of the table.
enum ListedTopic<'a> {
    Xrayed(&'a XrayRecord, &'a TopicXray),
    Other(&'a TopicRecord),
}

impl ListedTopic<'_> {
    fn needless(&self) -> Option<f64> {
        match self {
            Self::Xrayed(_, topic) => topic.needless_batches_per_s(),
            Self::Other(topic) => topic.needless_batches_per_s(),
        }
    }
}

/// All topics, those with the most needless batches first. `others` are the topics that no X-ray covers.
pub fn topics(records: &[XrayRecord], others: &[TopicRecord], around: &Around) -> String {
    let all = sorted(records, others);
    if all.is_empty() {
        let content = [
            absent("There is no X-ray of topics in these folders yet. Read a cluster's topics with:"),
            copyable("hone batch xray 127.0.0.1:9092"),
        ];
        return document("Topics", Tab::Topics, around, content);
    }
    let columns = vec![
        Column::words("verdict"),
        Column::words("topic"),
        Column::numbers(Markup::text("batches/s")),
        Column::numbers(Markup::text("needless batches/s")),
        Column::numbers(Markup::text("mean batch")),
        Column::words("cheapest fix"),
        Column::words("measured"),
    ];
    let mut table = Table::new("Topics", columns).class("scroll cards").under_its_heading();
    let order =
        "A batch is needless if batches of 16 KiB would avoid it. The topics with most of them come first.";
    for found in &all {
        match found {
            ListedTopic::Xrayed(record, topic) => xrayed(&mut table, record, topic, around),
            ListedTopic::Other(topic) => other(&mut table, topic, around),
        }
    }
    document("Topics", Tab::Topics, around, [paragraph(order), table.finish()])
}

fn xrayed(table: &mut Table, record: &XrayRecord, topic: &TopicXray, around: &Around) {
    let finding = topic.findings.first();
    let verdict = finding.map_or(NONE, |finding| finding.verdict.name());
    let address = format!("/whatif?record={}&topic={}", record.id, encoded(&topic.topic));
    let mut cells = vec![Cell::words(link_to(&address, &topic.topic, "with other settings"))];
    cells.extend(figures(topic.batches_per_s, topic.needless_batches_per_s(), mean_bytes(topic)));
    cells.push(fix(record, topic));
    cells.push(measured(&record.id, &record.xray.source, record.at_unix_ms, around));
    table.row(el("code").text(verdict), cells);
}

fn other(table: &mut Table, topic: &TopicRecord, around: &Around) {
    let mut cells = vec![Cell::text(&topic.topic)];
    cells.extend(figures(topic.batches_per_s, topic.needless_batches_per_s(), topic.mean_bytes));
    cells.push(optional(&topic.action));
    cells.push(measured(&topic.record, &topic.source, topic.at_unix_ms, around));
    table.row(Markup::text("no X-ray"), cells);
}

/// The first advice of a topic. The advice on small batches as such points to the findings after it, and the first of these names the fix.
fn fix(record: &XrayRecord, topic: &TopicXray) -> Cell {
    let is_small = |finding: &&BatchFinding| finding.verdict == BatchVerdict::Small;
    let reasons = topic.findings.iter().skip_while(is_small);
    let mut actions = reasons.map(|finding| finding.action.as_str()).filter(|action| !action.is_empty());
    match (actions.next(), topic.findings.first()) {
        (Some(action), _) => Cell::text(action).class("words prose"),
        (None, Some(_)) => Cell::words(link(&format!("/record/{}", record.id), "see its report")),
        (None, None) => optional(NONE),
    }
}

fn figures(batches_per_s: Option<f64>, needless: Option<f64>, mean_bytes: Option<f64>) -> [Cell; 3] {
    let mean = mean_bytes.map_or_else(|| NONE.to_owned(), |bytes| quantity::bytes(bytes as u64));
    let figure = |text: &str, name: &'static str| match text {
        NONE => Cell::number(NONE).class("number none"),
        text => Cell::number(text).named(name),
    };
    [
        figure(&rate(batches_per_s), "batches/s"),
        figure(&rate(needless), "needless batches/s"),
        figure(&mean, "mean batch"),
    ]
}

/// The record behind a row, with its age.
fn measured(record: &str, source: &str, at_unix_ms: u64, around: &Around) -> Cell {
    let link = Markup::from(link(&format!("/record/{record}"), source));
    Cell::words(link.with(el("div").child(ago(at_unix_ms, around.now_unix_ms))))
}

/// Topics of the newest X-ray of each source, and the other topics.
fn sorted<'a>(records: &'a [XrayRecord], others: &'a [TopicRecord]) -> Vec<ListedTopic<'a>> {
    let is_newest = |record: &&XrayRecord| {
        let of_source = records.iter().filter(|other| other.xray.source == record.xray.source);
        of_source.max_by_key(|other| other.at_unix_ms).is_some_and(|newest| newest.id == record.id)
    };
    let of_record = |record: &'a XrayRecord| {
        record.xray.topics.iter().map(move |topic| ListedTopic::Xrayed(record, topic))
    };
    let xrayed = records.iter().filter(is_newest).flat_map(of_record);
    let mut topics: Vec<ListedTopic<'a>> = xrayed.chain(others.iter().map(ListedTopic::Other)).collect();
    let needless = |found: &ListedTopic<'_>| found.needless().unwrap_or(0.0);
    topics.sort_by(|one, other| needless(other).total_cmp(&needless(one)));
    topics
}

fn rate(per_s: Option<f64>) -> String {
    per_s.map_or_else(|| NONE.to_owned(), quantity::significant)
}

fn mean_bytes(topic: &TopicXray) -> Option<f64> {
    topic
        .mean_bytes
        .map(|mean| mean.value)
        .or((topic.batches > 0).then(|| topic.bytes as f64 / topic.batches as f64))
}

/// The topics, one line for each.
pub fn topics_csv(records: &[XrayRecord], others: &[TopicRecord]) -> String {
    let titles = ["source", "topic", "verdict", "batches_per_s", "needless_per_s", "mean_bytes", "unix_ms"];
    let number = |value: Option<f64>| value.map_or_else(String::new, |value| value.to_string());
    let line = |found: ListedTopic<'_>| match found {
        ListedTopic::Xrayed(record, topic) => csv_line(&[
            record.xray.source.clone(),
            topic.topic.clone(),
            topic.findings.first().map_or_else(String::new, |finding| finding.verdict.name().to_owned()),
            number(topic.batches_per_s),
            number(topic.needless_batches_per_s()),
            number(mean_bytes(topic)),
            record.at_unix_ms.to_string(),
        ]),
        ListedTopic::Other(topic) => csv_line(&[
            topic.source.clone(),
            topic.topic.clone(),
            String::new(),
            number(topic.batches_per_s),
            number(topic.needless_batches_per_s()),
            number(topic.mean_bytes),
            topic.at_unix_ms.to_string(),
        ]),
    };
    let lines = sorted(records, others).into_iter().map(line);
    csv_line(&titles.map(str::to_owned)) + &lines.collect::<String>()
}

/// One topic with other settings. `chosen` has the linger in milliseconds and the batch size of the form. A forecast that is not possible
/// has its reason.
pub fn what_if(
    record: &XrayRecord,
    topic: &TopicXray,
    chosen: (f64, u64),
    forecast: &Result<TopicForecast, String>,
    around: &Around,
) -> String {
    let (linger_ms, batch_bytes) = chosen;
    let answer = el("div").attr("id", "answer").attr("role", "status");
    let answer = match forecast {
        Ok(forecast) => answer.children(answered(topic, chosen, forecast)),
        Err(why) => answer.child(absent(why)),
    };
    let hidden = |name: &'static str, value: &str| {
        el("input").attr("type", "hidden").attr("name", name).attr("value", value)
    };
    let linger = el("input")
        .attr("type", "range")
        .attr("id", "linger_ms")
        .attr("name", "linger_ms")
        .attr("min", 0)
        .attr("max", MOST_LINGER_MS)
        .attr("value", linger_ms);
    let shown = el("output").attr("for", "linger_ms").text(&quantity::plain(linger_ms));
    let option = |size: u64| {
        let option = el("option").attr("value", size).text(&hone_format::exact_bytes(size));
        if size == batch_bytes { option.attr("selected", "") } else { option }
    };
    let own = (!SIZES.contains(&batch_bytes)).then_some(batch_bytes);
    let size = el("select")
        .attr("id", "batch_bytes")
        .attr("name", "batch_bytes")
        .children(own.into_iter().chain(SIZES).map(option));
    let form = el("form")
        .class("choose")
        .attr("method", "get")
        .attr("action", "/whatif")
        .attr("data-swap", "answer")
        .child(hidden("record", &record.id))
        .child(hidden("topic", &topic.topic))
        .child(
            el("div")
                .child(el("label").attr("for", "linger_ms").text("linger.ms"))
                .child(linger)
                .child(shown),
        )
        .child(el("div").child(el("label").attr("for", "batch_bytes").text("batch.size")).child(size))
        .child(el("button").attr("type", "submit").text("Predict"));
    let from = el("p")
        .class("meta")
        .text("From ")
        .child(link(&format!("/record/{}", record.id), &record.path))
        .text(", ")
        .child(ago(record.at_unix_ms, around.now_unix_ms));
    let content = [form, answer, from, el("p").child(link("/topics", "All topics"))];
    document(&format!("{} with other settings", topic.topic), Tab::Topics, around, content)
}

fn answered(topic: &TopicXray, (linger_ms, batch_bytes): (f64, u64), found: &TopicForecast) -> Vec<Element> {
    let tile = |name: &str, value: &str, small: &str| {
        el("div")
            .child(el("dt").text(name))
            .child(el("dd").child(el("b").text(value)).child(el("span").class("small path").text(small)))
    };
    let both = |values: [f64; 2], write: fn(f64) -> String| format!("{} today", write(values[0]));
    let [before, after] = found.batches_per_s;
    let cores = found.cores.map_or_else(
        || tile("CPU of the cluster", NONE, "Keep a record of hone batch cost here to see it"),
        |cores| {
            let sign = if cores > 0.0 { "+" } else { "−" };
            let value = format!("{sign}{} cores", quantity::significant(cores.abs()));
            tile("CPU of the cluster", &value, "by the newest cost record")
        },
    );
    let sign = if found.added_p50_ms < 0.0 { "−" } else { "+" };
    let wait = format!("{sign}{}", quantity::time_us(found.added_p50_ms.abs() * 1e3));
    let tiles = el("dl")
        .class("tiles")
        .child(tile(
            "batches/s",
            &quantity::significant(after),
            &format!(
                "{}, {}",
                both(found.batches_per_s, quantity::significant),
                quantity::change(after / before)
            ),
        ))
        .child(tile(
            "mean batch",
            &quantity::bytes(found.batch_bytes[1] as u64),
            &both(found.batch_bytes, |bytes| quantity::bytes(bytes as u64)),
        ))
        .child(tile(
            "bytes/s",
            &quantity::throughput(found.bytes_per_s[1]),
            &both(found.bytes_per_s, quantity::throughput),
        ))
        .child(cores)
        .child(tile("added p50", &wait, "additional wait of the median record in the producer"));
    let settings = format!("linger.ms={}\nbatch.size={batch_bytes}", quantity::plain(linger_ms));
    let (today_ms, today_bytes) = found.today;
    let today = format!(
        "Today the batches look like linger.ms={} and batch.size={today_bytes}.",
        quantity::plain(today_ms)
    );
    let exact = format!(
        "hone batch whatif BROKER {} --linger {}ms --batch-size {batch_bytes}",
        topic.topic,
        quantity::plain(linger_ms)
    );
    let notes = el("ul").children(found.notes.iter().map(|note| el("li").text(note)));
    vec![
        tiles,
        section("settings", "Settings to paste").child(copyable(&settings)).child(paragraph(&today)),
        section("limits", "How sure is it?")
            .child(notes)
            .child(paragraph("For a replay of the real records, with a range for each figure, run:"))
            .child(copyable(&exact)),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(id: &str, source: &str, at_unix_ms: u64, topics: &[(&str, f64)]) -> XrayRecord {
        let topic = |(name, needless): &(&str, f64)| TopicXray {
            topic: (*name).to_owned(),
            batches: 1_000,
            bytes: 700_000,
            batches_per_s: Some(100.0),
            needless_batches: *needless,
            findings: vec![BatchFinding {
                verdict: BatchVerdict::LingerBound,
                share: 1.0,
                producer: None,
                evidence: "linger".to_owned(),
                action: "set linger.ms".to_owned(),
                rule: "R1".to_owned(),
            }],
            ..TopicXray::default()
        };
        let xray = BatchXray {
            source: source.to_owned(),
            topics: topics.iter().map(topic).collect(),
            notes: Vec::new(),
        };
        XrayRecord { id: id.to_owned(), path: format!("runs/{id}.json"), at_unix_ms, xray }
    }

    #[test]
    fn topics_with_the_most_needless_batches_come_first_and_old_records_do_not_count() {
        let records = [
            record("old", "b:9092", 1, &[("gone", 999.0)]),
            record("new", "b:9092", 2, &[("small", 100.0), ("<large>", 900.0)]),
        ];
        let html = topics(&records, &[], &Around::default());
        let [large, small] = ["&lt;large&gt;", ">small<"].map(|name| html.find(name).unwrap());
        assert!(large < small && !html.contains(">gone<") && html.contains("LINGER_BOUND"), "{html}");
        assert!(html.contains("/whatif?record=new&amp;topic=%3Clarge%3E"), "{html}");
        assert_eq!(topics_csv(&records, &[]).lines().count(), 3);
        assert!(topics(&[], &[], &Around::default()).contains("hone batch xray"));
    }

    #[test]
    fn the_fix_of_small_batches_is_the_one_of_their_first_reason() {
        let mut record = record("0123456789abcdef", "b:9092", 2, &[("orders", 900.0)]);
        let reason = record.xray.topics[0].findings[0].clone();
        let small = BatchFinding {
            verdict: BatchVerdict::Small,
            action: "see the reasons below, in their order".to_owned(),
            ..reason.clone()
        };
        record.xray.topics[0].findings = vec![small.clone(), reason];
        let html = topics(std::slice::from_ref(&record), &[], &Around::default());
        assert!(html.contains(">set linger.ms<") && !html.contains("reasons below"), "{html}");
        record.xray.topics[0].findings = vec![small];
        let html = topics(&[record], &[], &Around::default());
        assert!(html.contains("/record/0123456789abcdef\">see its report<"), "{html}");
    }

    #[test]
    fn a_topic_without_an_xray_has_its_mean_and_leads_to_its_record() {
        let other = TopicRecord {
            record: "0123456789abcdef".to_owned(),
            source: "metrics of <b>".to_owned(),
            topic: "payments".to_owned(),
            batches_per_s: Some(1_000.0),
            mean_bytes: Some(4_096.0),
            ..TopicRecord::default()
        };
        assert_eq!(other.needless_batches_per_s(), Some(750.0));
        let records = [record("new", "b:9092", 2, &[("orders", 100.0)])];
        let html = topics(&records, std::slice::from_ref(&other), &Around::default());
        let [payments, orders] = ["payments", ">orders<"].map(|name| html.find(name).unwrap());
        assert!(payments < orders && html.contains("no X-ray"), "{html}");
        assert!(html.contains("/record/0123456789abcdef") && html.contains("metrics of &lt;b&gt;"), "{html}");
        assert!(!html.contains("topic=payments"), "there is no forecast without an X-ray");
        assert!(topics_csv(&records, &[other]).contains("payments,,1000,750,4096"), "one line for each");
    }

    #[test]
    fn a_forecast_has_the_settings_to_paste_and_its_limits() {
        let record = record("new", "b:9092", 2, &[("orders", 900.0)]);
        let forecast = TopicForecast {
            today: (0.0, 16_384),
            batches_per_s: [100.0, 20.0],
            bytes_per_s: [70_000.0, 65_000.0],
            batch_bytes: [700.0, 3_250.0],
            added_p50_ms: 4.5,
            cores: Some(-0.25),
            notes: vec!["<note>".to_owned()],
        };
        let page = |forecast| {
            let topic = &record.xray.topics[0];
            what_if(&record, topic, (20.0, 65_536), &forecast, &Around::default()).replace('\u{a0}', " ")
        };
        let html = page(Ok(forecast));
        for text in [
            "linger.ms=20\nbatch.size=65536",
            "−80.0 %",
            "−0.250 cores",
            "+4.50 ms",
            "&lt;note&gt;",
            "100 today",
        ] {
            assert!(html.contains(text), "{text}: {html}");
        }
        assert!(html.contains("type=\"range\"") && html.contains("value=\"65536\" selected"), "{html}");
        assert!(page(Err("There is no rate.".to_owned())).contains("There is no rate."));
    }
}
