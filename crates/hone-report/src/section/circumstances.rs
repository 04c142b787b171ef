//! Durability class and machine.

use hone_record::{Durability, Machine, PmuState};

use super::{paragraph, section};
use crate::escape::Element;
use crate::quantity;
use crate::sentence;
use crate::table::Table;

/// What an acknowledgement promised.
pub(crate) fn durability(class: &Durability) -> Element {
    section("durability", "Durability class")
        .child(paragraph(&sentence::durability(class)))
        .child(paragraph("Figures of another class are another question: they are not compared with these."))
}

/// Where it ran.
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
    table.fact("frequency governor", machine.governor.as_deref().unwrap_or("the kernel shows none"));
    table.fact("hardware counters", pmu(machine.pmu));
    let paranoid = machine.perf_event_paranoid.map_or("unknown".to_owned(), |level| level.to_string());
    table.fact("perf_event_paranoid", &paranoid);
    table.fact("load average, 1 min", &quantity::significant(machine.load_average_1m));
    table.fact("stolen CPU time since boot", &quantity::share(machine.steal_share));
    section("machine", "The machine").child(table.finish())
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
