//! Durability class and machine.

use std::collections::BTreeMap;

use hone_record::{Durability, Environment, Machine, PmuState, Workload};

use super::{paragraph, section};
use crate::table::{Cell, Column, Table};
use crate::tree::{Element, Markup, el};
use crate::{quantity, sentence};

/// What an acknowledgement guarantees under these loads. `None` when the loads have no acknowledgements and the target states
/// nothing.
pub(crate) fn durability(class: &Durability, loads: &[&Workload]) -> Option<Element> {
    let has_acks = loads.iter().any(|load| load.engine.operations().is_none());
    let words = sentence::durability(class, has_acks)?;
    let section = section("durability", "Durability class")
        .detail()
        .child(paragraph(&words))
        .child(paragraph("Do not compare these figures with figures of another durability class."));
    Some(section)
}

/// The machine of the run.
pub(crate) fn machine(machine: &Machine) -> Element {
    let mut table = Table::facts("Hardware and system");
    table.fact("CPU", known(&machine.cpu_model));
    table.fact("logical cores", &counted(u64::from(machine.cores)));
    table.fact("L1 instruction cache", &sized(machine.l1i_bytes));
    table.fact("memory", &sized(machine.memory_bytes));
    table.fact("kernel", known(&machine.kernel));
    table.fact("system", known(&machine.os));
    table.fact("virtual machine", machine.virtualization.as_deref().unwrap_or("none found"));
    table.fact("container", machine.container.as_deref().unwrap_or("none found"));
    table.fact("frequency governor", machine.governor.as_deref().unwrap_or("the kernel reports none"));
    table.fact("hardware counters", pmu(machine.pmu));
    let paranoid = machine.perf_event_paranoid.map_or("unknown".to_owned(), |level| level.to_string());
    table.fact("perf_event_paranoid", &paranoid);
    table.fact("load average, 1 min", &quantity::significant(machine.load_average_1m));
    table.fact("stolen CPU time since boot", &quantity::percent(machine.steal_share));
    section("machine", "The machine").detail().child(table.finish())
}

/// The cluster of a window as it describes itself, and how busy the machine was.
pub(crate) fn environment(found: &Environment) -> Element {
    let mut table = Table::facts("Cluster and connection");
    table.fact("cluster", found.cluster_id.as_deref().unwrap_or("unknown"));
    let brokers: Vec<String> =
        found.brokers.iter().map(|(id, address)| format!("{id} at {address}")).collect();
    table.fact("brokers", known(&brokers.join(", ")));
    table.fact("broker software", found.broker_software.as_deref().unwrap_or("unknown"));
    if let Some(commit) = &found.commit {
        table.fact("commit of the target", commit);
    }
    table.fact("replicas of the topic", &counted(u64::from(found.replicas.unwrap_or(0))));
    table.fact("security", known(&found.security));
    let pressure: Vec<String> =
        found.pressure.iter().map(|(name, share)| format!("{name} {}", quantity::percent(*share))).collect();
    table.fact("share of time in which a task waited for", known(&pressure.join(", ")));
    section("environment", "The environment")
        .detail()
        .child(table.finish())
        .children(settings("Settings of the topic that are not defaults", &found.topic_config))
        .children(settings("Settings of the broker that are not defaults", &found.broker_config))
        .children(unknown(&found.unknown))
}

fn settings(title: &str, settings: &BTreeMap<String, String>) -> Option<Element> {
    if settings.is_empty() {
        return None;
    }
    let mut table = Table::new(title, vec![Column::words("setting"), Column::words("value")]);
    for (name, value) in settings {
        table.row(Markup::text(name), vec![Cell::text(value)]);
    }
    let summary = format!("{title}: {}", quantity::count(settings.len() as u64));
    Some(el("details").child(el("summary").text(&summary)).child(table.finish()))
}

fn unknown(unknown: &[String]) -> Option<Element> {
    if unknown.is_empty() {
        return None;
    }
    let items = unknown.iter().map(|text| el("li").text(text));
    Some(el("div").child(el("h3").text("Unknown facts")).child(el("ul").children(items)))
}

fn known(text: &str) -> &str {
    if text.is_empty() { "unknown" } else { text }
}

fn counted(count: u64) -> String {
    if count == 0 { "unknown".to_owned() } else { quantity::count(count) }
}

fn sized(bytes: u64) -> String {
    if bytes == 0 { "unknown".to_owned() } else { quantity::bytes(bytes) }
}

fn pmu(state: PmuState) -> &'static str {
    match state {
        PmuState::CountersAndBranches => "counters and branch records",
        PmuState::Counters => "counters, no branch records",
        PmuState::Forbidden => "forbidden by perf_event_paranoid",
        PmuState::None => "none",
    }
}
