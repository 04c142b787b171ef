//! A roll-out as text: the order, the findings of the gates, the changes of each host, and the command that rolls back.

use std::fmt::Write as _;

use hone_host::rollout::log::Fate;
use hone_load::health::Health;
use serde::Serialize;

use crate::rollout::gate::Finding;
use crate::rollout::{Report, Undone, Visit};

/// The state of the gates, without any change.
#[derive(Debug, Serialize)]
pub struct Gates {
    /// The cluster's own report.
    pub health: Option<Health>,
    /// The findings.
    pub findings: Vec<Finding>,
    /// By broker: records, median and 99th percentile of write and read in microseconds.
    pub latencies: std::collections::BTreeMap<i32, (usize, u64, u64)>,
    /// Remarks for the operator.
    pub remarks: Vec<String>,
}

/// A roll-out, or its plan.
pub fn report(report: &Report) -> String {
    let mut out = format!("{}: {} hosts\n", report.profile, report.hosts.len());
    for (at, visit) in report.hosts.iter().enumerate() {
        out.push_str(&one(at, visit, report.would_take_s.is_some()));
    }
    if !report.strangers.is_empty() {
        let ids: Vec<String> = report.strangers.iter().map(i32::to_string).collect();
        let _ = writeln!(out, "! no host of the inventory has broker {}", ids.join(", "));
    }
    for remark in &report.remarks {
        let _ = writeln!(out, "! {remark}");
    }
    out.push('\n');
    out.push_str(&ending(report));
    out
}

fn one(at: usize, visit: &Visit, is_dry: bool) -> String {
    let broker = visit.broker.map(|id| format!(", broker {id}")).unwrap_or_default();
    let rack = visit.rack.as_ref().map(|rack| format!(", rack {rack}")).unwrap_or_default();
    let fate = if is_dry { String::new() } else { format!(": {}", fate(&visit.fate)) };
    let mut out = format!("{:>3}. {}{broker}{rack}{fate}\n", at + 1, visit.host);
    for change in &visit.changes {
        let _ = writeln!(out, "       ~ {change}");
    }
    if is_dry && visit.changes.is_empty() {
        out.push_str("       = no change needed\n");
    }
    for obstacle in &visit.obstacles {
        let _ = writeln!(out, "       ! {obstacle}");
    }
    out.push_str(&findings(&visit.findings, "       "));
    out
}

fn findings(findings: &[Finding], indent: &str) -> String {
    let line =
        |finding: &Finding| format!("{indent}{} {}\n", if finding.bad { "!" } else { "-" }, finding.text);
    findings.iter().map(line).collect()
}

fn fate(fate: &Fate) -> String {
    match fate {
        Fate::Waiting => "not changed".to_owned(),
        Fate::Open { change } => format!("open{}; its watchdog rolls it back", named(change.as_deref())),
        Fate::Confirmed { change: None } => "no change needed".to_owned(),
        Fate::Confirmed { change } => format!("keeps its change{}", named(change.as_deref())),
        Fate::Reverted { whole: true, why, .. } => format!("rolled back ({why})"),
        Fate::Reverted { whole: false, why, change } => {
            format!(
                "partly rolled back{} ({why}); `hone host status` on that host shows the rest",
                named(change.as_deref())
            )
        }
        Fate::Unknown { why, .. } => format!("unknown: {why}"),
    }
}

fn named(change: Option<&str>) -> String {
    change.map(|change| format!(" {change}")).unwrap_or_default()
}

fn ending(report: &Report) -> String {
    if let Some(seconds) = report.would_take_s {
        let time =
            if seconds >= 120 { format!("{} min", seconds.div_ceil(60)) } else { format!("{seconds} s") };
        return format!("Nothing was changed. The roll-out would take about {time}.\n");
    }
    let changed =
        report.hosts.iter().filter(|visit| matches!(visit.fate, Fate::Confirmed { change: Some(_) })).count();
    let mut out = match &report.halted {
        Some(why) => format!("Halted: {why}\n{changed} hosts keep their change.\n"),
        None => format!("Done: {changed} hosts keep their change.\n"),
    };
    if let Some(run) = &report.run {
        let run = run.display();
        if report.halted.is_some() {
            let _ = writeln!(out, "Continue:  hone host rollout --resume {run}");
        }
        let _ = writeln!(out, "Roll back: hone host rollout --rollback {run}");
    }
    out
}

/// The hosts that were rolled back.
pub fn undone(hosts: &[Undone]) -> String {
    let mut out: String = hosts
        .iter()
        .map(|host| format!("  {} {}: {}\n", if host.whole { "=" } else { "!" }, host.host, host.told))
        .collect();
    if hosts.is_empty() {
        out.push_str("There is nothing to roll back.\n");
    }
    out
}

/// The state of the gates.
pub fn gates(gates: &Gates) -> String {
    let mut out = String::new();
    if let Some(health) = &gates.health {
        for (id, node) in &health.brokers {
            let rack = node.rack.as_ref().map(|rack| format!(", rack {rack}")).unwrap_or_default();
            let controller = if health.controller == Some(*id) { ", controller" } else { "" };
            let latency = gates.latencies.get(id).map_or(String::new(), |(count, p50_us, p99_us)| {
                format!(
                    ": write and read {:.2} ms, p99 {:.2} ms over {count} records",
                    *p50_us as f64 / 1e3,
                    *p99_us as f64 / 1e3
                )
            });
            let _ = writeln!(out, "  broker {id} at {}{rack}{controller}{latency}", node.address);
        }
    }
    out.push_str(&findings(&gates.findings, "  "));
    for remark in &gates.remarks {
        let _ = writeln!(out, "! {remark}");
    }
    let closed = gates.findings.iter().any(|finding| finding.bad);
    out.push_str(if closed { "The gate is closed.\n" } else { "The gate is open.\n" });
    out
}
