//! The write caching report.

use hone_format::{measured, time_us};

use crate::batch::caching::Card;
use hone_document::table::table;
use hone_document::wrapped;

/// All of it.
pub fn text(card: &Card) -> String {
    let about = card
        .topic
        .as_ref()
        .map_or_else(|| card.target.clone(), |topic| format!("{topic} at {}", card.target));
    let [without, with] = &card.classes;
    let mut out = format!("Write caching report for {about}\n\n");
    if !card.in_force.is_empty() {
        out.push_str("  Current settings, not changed:\n");
        card.in_force.iter().for_each(|(name, value)| out.push_str(&format!("    {name}={value}\n")));
        out.push('\n');
    }
    out.push_str(&format!("  Tested on test topics: {}\n\n", card.change));
    out.push_str(&table(&rows(card)));
    out.push('\n');
    for line in [
        format!("The durability class differs. Without: {without}. With: {with}."),
        format!("Risk: {}", card.risk),
        verdict(card),
    ] {
        out.push_str(&format!("{}\n", wrapped(&line)));
    }
    for note in card.notes.iter().chain(&card.proof.limits) {
        out.push_str(&format!("\n{}\n", wrapped(note)));
    }
    out
}

/// The comparison's sentence. It only judges speed. The decision about the durability class is the user's.
fn verdict(card: &Card) -> String {
    let step = card.proof.steps.first();
    let told = step.map_or("nothing was measured", |step| step.why.as_str());
    format!("Speed alone: {told} You decide whether the durability class may change.")
}

fn rows(card: &Card) -> Vec<Vec<String>> {
    let head = vec![String::new(), "without".to_owned(), "with".to_owned()];
    let Some(step) = card.proof.steps.first() else { return vec![head] };
    let states = [&step.before, &step.after];
    let latency = |(name, quantile): (&str, f64)| {
        let told = |at: usize| states[at].latency_us(quantile).map_or("too few samples".to_owned(), time_us);
        vec![name.to_owned(), told(0), told(1)]
    };
    let mut rows = vec![head];
    rows.extend([("p50", 0.5), ("p95", 0.95), ("p99", 0.99), ("p99.9", 0.999)].map(latency));
    let fsyncs =
        |at: usize| card.fsyncs_per_batch.map_or("not counted".to_owned(), |both| measured(both[at]));
    rows.push(vec!["fsyncs per batch".to_owned(), fsyncs(0), fsyncs(1)]);
    for (name, told) in [
        ("bytes per batch", states.map(hone_record::BatchState::bytes_per_batch)),
        ("CPU, cores", states.map(hone_record::BatchState::cores)),
    ] {
        let cell = |value: Option<f64>| value.map_or("not known".to_owned(), measured);
        rows.push(vec![name.to_owned(), cell(told[0]), cell(told[1])]);
    }
    rows
}
