//! The builds in columns: time, size, tools, and the proofs about the profile.

use hone_record::{Artifact, Optimization, ProfileApplied, ProfileProof, StepReceipt};

use super::{absent, command, paragraph, section};
use crate::quantity::{self, NONE};
use crate::table::{Cell, Column, Table, lines};
use crate::tree::{Element, Markup, el};

/// The section.
pub(crate) fn of(optimization: &Optimization) -> Element {
    let Optimization { artifacts, steps, .. } = optimization;
    let section = section("builds", "The builds").detail();
    let Some((baseline, _)) = artifacts.split_first() else {
        return section.child(absent("The record holds no build."));
    };
    section
        .child(table(artifacts, baseline, steps).finish())
        .children(optimization.making_of_profiles().map(|told| paragraph(&told)))
        .children(optimization.ageing().map(|told| paragraph(&told)))
        .child(el("h3").text("Commands"))
        .children(commands(artifacts))
}

fn table(artifacts: &[Artifact], baseline: &Artifact, steps: &[StepReceipt]) -> Table {
    let heads = artifacts.iter().map(|artifact| Column::words(&artifact.variant));
    let mut table =
        Table::new("Builds, baseline first", std::iter::once(Column::words("fact")).chain(heads).collect());
    sizes(&mut table, artifacts, baseline);
    profiles(&mut table, artifacts);
    let mut words = |title: &str, read: &dyn Fn(&Artifact) -> Markup| {
        table
            .row(Markup::text(title), artifacts.iter().map(|artifact| Cell::words(read(artifact))).collect());
    };
    words("foreign code", &|artifact| foreign_code(artifact));
    words("smoke test", &|artifact| lines([smoke(artifact, steps)]));
    words("tools", &|artifact| tools(artifact));
    words("file", &|artifact| lines([&artifact.path]));
    words("file SHA-256", &|artifact| hash(&artifact.sha256));
    table
}

fn sizes(table: &mut Table, artifacts: &[Artifact], baseline: &Artifact) {
    let mut row = |title: &str, read: fn(&Artifact) -> f64, write: fn(f64) -> String| {
        let cell = |artifact: &Artifact| {
            let value = read(artifact);
            let change = (!std::ptr::eq(artifact, baseline)).then(|| relative(value, read(baseline)));
            let small = change.flatten().map(|change| el("span").class("small").text(&change));
            Cell::words(small.into_iter().fold(Markup::text(&write(value)), Markup::with))
        };
        table.row(Markup::text(title), artifacts.iter().map(cell).collect());
    };
    row("build time", |artifact| artifact.build_s, quantity::duration);
    row("file size", |artifact| artifact.file_bytes as f64, |bytes| quantity::bytes(bytes as u64));
    row(".text size", |artifact| artifact.text_bytes as f64, |bytes| quantity::bytes(bytes as u64));
}

fn relative(value: f64, baseline: f64) -> Option<String> {
    let ratio = value / baseline;
    (ratio.is_finite() && ratio > 0.0).then(|| quantity::change(ratio))
}

fn profiles(table: &mut Table, artifacts: &[Artifact]) {
    if artifacts.iter().all(|artifact| artifact.profile.is_none() && artifact.applied.is_none()) {
        table.row(
            Markup::text("profile"),
            vec![Cell::text("No build used a profile.").across(artifacts.len())],
        );
        return;
    }
    let mut profile = |title: &str, read: fn(&ProfileProof) -> Markup| {
        let cell =
            |artifact: &Artifact| Cell::words(artifact.profile.as_ref().map_or(Markup::text(NONE), read));
        table.row(Markup::text(title), artifacts.iter().map(cell).collect());
    };
    profile("profile", origin);
    profile("profile SHA-256", |proof| hash(&proof.sha256));
    profile("functions in it", |proof| lines([quantity::count(proof.functions)]));
    profile("hottest functions", hot_functions);
    let mut applied = |title: &str, read: fn(&ProfileApplied) -> Markup| {
        let cell =
            |artifact: &Artifact| Cell::words(artifact.applied.as_ref().map_or(Markup::text(NONE), read));
        table.row(Markup::text(title), artifacts.iter().map(cell).collect());
    };
    applied("weight discarded", discarded);
    applied("without a profile", |applied| {
        lines([quantity::counted(applied.missing_functions, "function", "functions")])
    });
    applied("compiler remarks", |applied| {
        if applied.messages.is_empty() { Markup::text("none") } else { lines(&applied.messages) }
    });
}

fn origin(proof: &ProfileProof) -> Markup {
    let raw = format!(
        "from {} ({})",
        quantity::counted(u64::from(proof.raw_files), "raw file", "raw files"),
        quantity::bytes(proof.raw_bytes)
    );
    lines([format!("{} level, {}", proof.level, quantity::bytes(proof.bytes)), raw])
}

fn hot_functions(proof: &ProfileProof) -> Markup {
    const SHOWN: usize = 5;
    let own =
        format!("{} of {} are the target's own", proof.hot_functions_of_target, proof.hot_functions.len());
    let function = |hot: &hone_record::HotFunction| {
        el("div")
            .child(el("code").text(&hone_record::demangled(&hot.name)))
            .text(&format!(" {}×", quantity::count(hot.max_count)))
    };
    lines([own]).with(proof.hot_functions.iter().take(SHOWN).map(function).collect::<Markup>())
}

/// The percentage of a tiny share is still shown, because none discarded and little discarded differ.
fn discarded(applied: &ProfileApplied) -> Markup {
    let percent = applied.discarded_weight * 100.0;
    let weight = if applied.discarded_count > 0 && percent < 0.05 {
        format!("below 0.1{}%", quantity::NBSP)
    } else {
        quantity::percent(applied.discarded_weight)
    };
    let functions = quantity::counted(applied.discarded_functions, "function", "functions");
    lines([weight, format!("{functions} with changed code")])
}

fn foreign_code(artifact: &Artifact) -> Markup {
    if artifact.code_inside.is_empty() {
        return Markup::text("none named");
    }
    let line = |code: &hone_record::CodeInside| {
        let state = if code.profiled { "profiled" } else { "excluded" };
        format!("{}: {state} ({})", code.name, code.how)
    };
    lines(artifact.code_inside.iter().map(line))
}

fn smoke(artifact: &Artifact, steps: &[StepReceipt]) -> String {
    let Some(smoke) = &artifact.smoke else {
        // The baseline is checked in a step of its own. That step has a receipt only if it passed.
        let step = format!("check-{}", artifact.variant);
        let check = steps.iter().find(|done| done.step == step);
        return check.map_or("not done".to_owned(), |check| format!("passed: {}", check.note));
    };
    // Only a broker with the Kafka API receives records.
    let records = match smoke.records {
        0 => String::new(),
        records => format!(", {}", quantity::counted(records, "record", "records")),
    };
    match (&smoke.difference, smoke.passed) {
        (_, true) => format!("passed: {}{records}", smoke.what),
        (Some(difference), false) => format!("FAILED: {}{records}; {difference}", smoke.what),
        (None, false) => format!("FAILED: {}{records}", smoke.what),
    }
}

fn tools(artifact: &Artifact) -> Markup {
    let tool = |tool: &hone_record::ToolReceipt| {
        el("div")
            .text(&format!("{}: {}", tool.name, tool.version))
            .child(el("span").class("small path").text(&tool.path))
    };
    artifact.tools.iter().map(tool).collect()
}

fn hash(sha256: &str) -> Markup {
    el("code").class("hash").text(if sha256.is_empty() { NONE } else { sha256 }).into()
}

fn commands(artifacts: &[Artifact]) -> Vec<Element> {
    let block = |artifact: &Artifact| {
        el("div").child(el("p").class("under").text(&artifact.variant)).child(command(&artifact.command))
    };
    artifacts.iter().filter(|artifact| !artifact.command.is_empty()).map(block).collect()
}
