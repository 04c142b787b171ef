//! The predicted effect of a setting on a topic's batches, as text.

use std::fmt::Write as _;

use hone_format::{bytes, count, exact, exact_bytes, measured};
use hone_record::{BatchFigures, CheapestSetting, ClientSettings, Foreseen, ReplayedProducer, WhatIf};

use crate::table::table;
use crate::wrapped;

/// Number of producers in the list.
const MOST_LISTED: usize = 8;

/// The current state, its replay and the prediction in columns. Then the explanation of the current state, and the advice.
pub fn text(found: &WhatIf) -> String {
    let mut out = format!(
        "{}: {} records in {} partitions over {} s\n\n",
        found.topic,
        count(found.records),
        found.partitions,
        measured(found.window_s)
    );
    out.push_str(&table(&figures(found)));
    out.push_str(&producers(found));
    if let Some(refused) = &found.refused {
        let _ = write!(out, "\n{}\n", wrapped(&format!("there is no prediction: {refused}")));
    }
    out.push_str(&cheapest(&found.cheapest));
    if let Some(advice) = &found.advice {
        let _ = write!(out, "\n{}\n", wrapped(&format!("do: {}", crate::advice::words(advice, false))));
    }
    for note in &found.notes {
        let _ = write!(out, "\n{}", wrapped(&format!("note: {note}")));
    }
    out.push('\n');
    out
}

/// The name of a figure, and its source.
type Row<'a> = (&'a str, &'a dyn Fn(&BatchFigures) -> String, Option<Foreseen>, fn(f64) -> String);

fn figures(found: &WhatIf) -> Vec<Vec<String>> {
    let foreseen = found.predicted.as_ref();
    let change = if found.change.is_empty() { "as it is" } else { &found.change };
    let mut head = vec![String::new(), "today".to_owned(), "replayed".to_owned()];
    if foreseen.is_some() {
        head.extend([change.to_owned(), "range".to_owned()]);
    }
    let optional = |value: Option<f64>| value.map_or("-".to_owned(), measured);
    let rows: [Row<'_>; 12] = [
        (
            "batches/s",
            &|each| measured(each.batches_per_s),
            foreseen.map(|each| each.batches_per_s),
            measured,
        ),
        (
            "requests/s",
            &|each| optional(each.requests_per_s),
            foreseen.map(|each| each.requests_per_s),
            measured,
        ),
        ("bytes/s", &|each| bytes(each.bytes_per_s as u64), foreseen.map(|each| each.bytes_per_s), of_bytes),
        (
            "bytes/batch",
            &|each| measured(each.batch_bytes_mean),
            foreseen.map(|each| each.batch_bytes_mean),
            measured,
        ),
        ("  p50", &|each| count(each.batch_bytes_p50), None, measured),
        ("  p90", &|each| count(each.batch_bytes_p90), None, measured),
        ("records/batch", &|each| measured(each.records_per_batch), None, measured),
        (
            "wait of a record, ms",
            &|each| optional(each.wait_ms_mean),
            foreseen.map(|each| each.wait_ms_mean),
            measured,
        ),
        ("  p50", &|each| optional(each.wait_ms_p50), foreseen.map(|each| each.wait_ms_p50), measured),
        ("  p99", &|each| optional(each.wait_ms_p99), foreseen.map(|each| each.wait_ms_p99), measured),
        ("headers, %", &|each| measured(100.0 * each.header_share), None, measured),
        ("bytes on disk per byte, at most", &|each| measured(each.write_amplification_most), None, measured),
    ];
    let mut all = vec![head];
    for (name, of, range, shown) in rows {
        let mut row =
            vec![name.to_owned(), of(&found.today), found.replayed.as_ref().map_or("-".to_owned(), of)];
        if let Some(foreseen) = foreseen {
            row.push(range.map_or_else(|| of(&foreseen.figures), |range| shown(range.value)));
            row.push(
                range.map_or(String::new(), |range| format!("{} to {}", shown(range.low), shown(range.high))),
            );
        }
        all.push(row);
    }
    all.push(sent_by(found));
    all.push(memory(found));
    all
}

fn of_bytes(value: f64) -> String {
    bytes(value as u64)
}

fn sent_by(found: &WhatIf) -> Vec<String> {
    let shares = |each: &BatchFigures| {
        each.sent_by.map_or("-".to_owned(), |by| {
            [by.size, by.time, by.with_others, by.memory, by.commit]
                .map(|share| format!("{:.0}", 100.0 * share))
                .join("/")
        })
    };
    row("full/linger/with others/memory/commit, %", found, &shares)
}

fn memory(found: &WhatIf) -> Vec<String> {
    let most = |each: &BatchFigures| match (each.memory_bytes, each.would_wait) {
        (_, Some(waiting)) if waiting > 0 => format!("{} records have to wait", count(waiting)),
        (Some(most), _) if most > 0 => bytes(most),
        _ => "-".to_owned(),
    };
    row("memory per producer", found, &most)
}

fn row(name: &str, found: &WhatIf, of: &dyn Fn(&BatchFigures) -> String) -> Vec<String> {
    let mut row = vec![name.to_owned(), of(&found.today), found.replayed.as_ref().map_or("-".to_owned(), of)];
    if let Some(foreseen) = &found.predicted {
        row.extend([of(&foreseen.figures), String::new()]);
    }
    row
}

fn producers(found: &WhatIf) -> String {
    let mut out = String::new();
    for producer in found.producers.iter().take(MOST_LISTED) {
        let _ = write!(out, "\n{}", wrapped(&told(producer)));
    }
    let more = found.more_producers + found.producers.len().saturating_sub(MOST_LISTED) as u64;
    if more > 0 {
        let _ = write!(out, "\nand {} more", count(more));
    }
    out.push('\n');
    out
}

fn told(producer: &ReplayedProducer) -> String {
    let wrote = format!("{}: {} batches", producer.name, count(producer.batches));
    if let Some(settings) = producer.settings.as_ref().filter(|_| producer.lent && producer.misfit.is_none())
    {
        let settings = settings_of(settings);
        return format!(
            "{wrote}, too few to infer the settings; replayed with the settings of a larger producer: \
             {settings}"
        );
    }
    let Some(settings) = &producer.settings else {
        let why = producer.refused.as_deref().unwrap_or("not explained");
        return format!("{wrote}; {why}");
    };
    let off = producer.misfit.map_or(String::new(), |misfit| {
        format!(
            "; replayed: batches {:+.1} %, sizes {:.1} % off, {:.0} % begin at the same record",
            100.0 * misfit.batches,
            100.0 * misfit.sizes,
            100.0 * misfit.same_begin
        )
    });
    let others = match producer.others_as_good.as_slice() {
        [] => String::new(),
        others => {
            format!(
                "; equally well by {}",
                others.iter().map(settings_of).collect::<Vec<_>>().join(" or by ")
            )
        }
    };
    let whose =
        if producer.lent { "explained by the settings of a larger producer: " } else { "explained by " };
    format!("{wrote}, {whose}{}{off}{others}", settings_of(settings))
}

fn settings_of(settings: &ClientSettings) -> String {
    let late = if settings.late_ms > 0.0 {
        format!(" (and timers {} ms late)", measured(settings.late_ms))
    } else {
        String::new()
    };
    let records =
        settings.batch_records.map_or(String::new(), |records| format!(", {records} records per batch"));
    format!(
        "{} with linger {} ms{late}, batch size {}{records}, codec {}",
        settings.client,
        exact(settings.linger_ms),
        settings.batch_bytes,
        settings.codec
    )
}

fn cheapest(all: &[CheapestSetting]) -> String {
    let mut out = String::new();
    for setting in all {
        let size = exact_bytes(setting.target_bytes);
        let text = match setting.linger_ms {
            Some(linger_ms) => {
                let cap =
                    setting.batch_bytes.map_or(String::new(), |bytes| format!(" and batch size {bytes}"));
                let memory = if setting.would_wait { "; memory is too small for it" } else { "" };
                format!(
                    "{size} per batch: linger {} ms{cap} gives {} bytes, and records wait {} ms on \
                     average{memory}",
                    exact(linger_ms),
                    measured(setting.batch_bytes_mean),
                    measured(setting.wait_ms_mean)
                )
            }
            None => format!(
                "{size} per batch: no linger up to a second reaches it; the maximum is {} bytes. Fewer \
                 producers or partitions would help more",
                measured(setting.batch_bytes_mean)
            ),
        };
        let _ = write!(out, "\n{}", wrapped(&text));
    }
    if !out.is_empty() {
        out.push('\n');
    }
    out
}
