//! The doctor's findings as text.

use hone_host::doctor::{Finding, Level};
use hone_host::tools::{Fit, ToolFinding};
use hone_record::Machine;
use serde::Serialize;

/// All findings.
#[derive(Debug, Serialize)]
pub struct Examination {
    /// The machine.
    pub machine: Machine,
    /// The programs that Hone looked for.
    pub tools: Vec<ToolFinding>,
    /// The consequences for measurements.
    pub findings: Vec<Finding>,
}

/// The machine, the tools, and the consequences.
pub fn text(found: &Examination) -> String {
    let mut out = "+ fine   - optional or worth knowing   ! blocks measurements\n\nTools\n".to_owned();
    for tool in &found.tools {
        out.push_str(&tool_line(tool));
    }
    out.push_str("\nFindings\n");
    for finding in &found.findings {
        out.push_str(&finding_lines(finding));
    }
    out
}

fn tool_line(tool: &ToolFinding) -> String {
    let mark = match tool.fits {
        Fit::Fits => "+",
        Fit::Mismatch { .. } | Fit::Missing => "!",
        Fit::NotNeeded => "-",
    };
    let what = match (&tool.found, &tool.fits) {
        (Some(receipt), Fit::Mismatch { why }) => {
            format!("{}  {}\n      {why}\n      install: {}", receipt.path, receipt.version, tool.install)
        }
        (Some(receipt), _) => format!("{}  {}", receipt.path, receipt.version),
        (None, Fit::Missing) => {
            format!("missing, needed for {}\n      install: {}", tool.wanted_for, tool.install)
        }
        (None, _) => format!("missing, optional: {}\n      install: {}", tool.wanted_for, tool.install),
    };
    format!("  {mark} {:<14} {what}\n", tool.name)
}

fn finding_lines(finding: &Finding) -> String {
    let mark = match finding.level {
        Level::Ok => "+",
        Level::Note => "-",
        Level::Warn => "!",
    };
    let next = finding.next.as_ref().map(|next| format!("\n      do: {next}")).unwrap_or_default();
    format!("  {mark} {}\n      {}{next}\n", finding.what, finding.so_what)
}
