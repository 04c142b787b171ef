//! What faults did to a load, in words.

use hone_format::exact;
use hone_record::{Fault, Gap, Outage, Recovery, STALL_FROM_MS, Workload};

use crate::quantity::{self, NBSP, NONE};
use crate::table::{Cell, Column, Table};
use crate::tree::{Element, Markup};

/// The longest gap, the recovery and the losses, in sentences. The worst comes first.
pub(crate) fn sentences(outage: &Outage, load: &Workload) -> String {
    let mut said = Vec::new();
    match outage.lost_records {
        Some(0) => {}
        Some(lost) => said.push(format!(
            "At least {} lost.",
            quantity::counted(lost, "acknowledged record was", "acknowledged records were")
        )),
        None => said.push("Whether acknowledged records were lost is not known.".to_owned()),
    }
    let worst = outage.faults.iter().filter(|fault| fault.at_s.is_some()).max_by(|left, right| {
        let length_s = |fault: &Fault| fault.acks.map_or(0.0, |gap| gap.length_s);
        length_s(left).total_cmp(&length_s(right))
    });
    match worst {
        None => said.push("No fault was carried out.".to_owned()),
        Some(fault) => {
            let gap = fault.acks.map_or_else(
                || "no partition was without an acknowledgement for 100 ms".to_owned(),
                |gap| format!("no acknowledgement {}", for_so_long(gap, load)),
            );
            said.push(format!("After {}: {gap}. {}", fault.what, recovery_sentence(fault.recovery)));
        }
    }
    if outage.lost_records == Some(0) {
        said.push(format!(
            "All {} are there.",
            quantity::counted(outage.acked_records, "acknowledged record", "acknowledged records")
        ));
    }
    said.join(" ")
}

fn for_so_long(gap: Gap, load: &Workload) -> String {
    format!("for {} ({})", quantity::duration(gap.length_s), load.partition_name(gap.partition))
}

fn recovery_sentence(recovery: Recovery) -> String {
    match recovery {
        Recovery::Undisturbed => format!("No request waited {STALL_FROM_MS}{NBSP}ms or longer."),
        Recovery::AfterS(after_s) => {
            format!("{} after the fault, requests were answered as before.", quantity::duration(after_s))
        }
        Recovery::NotYet => "Requests still waited when the window ended.".to_owned(),
    }
}

/// Each fault with its effect.
pub(crate) fn table(outage: &Outage) -> Element {
    let columns = vec![
        Column::words("fault"),
        Column::numbers(Markup::text("at")),
        Column::numbers(Markup::text("longest gap")),
        Column::numbers(Markup::text("recovery")),
        Column::words("note"),
    ];
    let mut table = Table::new("Faults", columns);
    for fault in &outage.faults {
        let recovery = match fault.recovery {
            _ if fault.at_s.is_none() => NONE.to_owned(),
            Recovery::Undisturbed => "undisturbed".to_owned(),
            Recovery::AfterS(after_s) => quantity::duration(after_s),
            Recovery::NotYet => "not yet".to_owned(),
        };
        let note = match (&fault.problem, fault.at_s) {
            (Some(problem), Some(_)) => problem.clone(),
            (Some(problem), None) => format!("not carried out: {problem}"),
            (None, None) => "not carried out: the window ended first".to_owned(),
            (None, Some(_)) => String::new(),
        };
        let gap = fault.acks.map_or(NONE.to_owned(), |gap| quantity::duration(gap.length_s));
        let at = format!("{} s", exact((fault.at_s.unwrap_or(fault.due_s) * 1e3).round() / 1e3));
        table.row(
            Markup::text(&fault.what),
            vec![Cell::number(&at), Cell::number(&gap), Cell::number(&recovery), Cell::text(&note)],
        );
    }
    table.finish()
}

/// What became of the records, for a row of facts.
pub(crate) fn records(outage: &Outage, load: &Workload) -> String {
    let lost = outage.lost_records.map_or_else(
        || "losses not known".to_owned(),
        |lost| format!("{} of them lost", quantity::count(lost)),
    );
    let unacked = outage.unacked_records.map_or_else(String::new, |records| {
        format!("; {} stored without an acknowledgement", quantity::count(records))
    });
    let reads = outage
        .reads
        .map_or_else(String::new, |gap| format!("; no record at a consumer {}", for_so_long(gap, load)));
    format!("{} acknowledged, {lost}{unacked}{reads}", quantity::count(outage.acked_records))
}
