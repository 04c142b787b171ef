//! The effects of tuning files on a host, as text.

use std::fmt::Write as _;

use hone_host::lint::{Defect, Finding, Lint, Setting};

const fn word(defect: Defect) -> &'static str {
    match defect {
        Defect::Harmful => "harmful",
        Defect::AgainstTheVendor => "against vendor advice",
        Defect::Refused => "refused",
        Defect::EndsHalfWay => "stops half-way",
        Defect::NotRestored => "not restored",
        Defect::AtNextBoot => "set again at boot",
        Defect::UnitOrder => "unit order",
        Defect::NotKept => "not kept",
        Defect::TakenOtherwise => "changed by the kernel",
        Defect::NextBoot => "next boot",
        Defect::Repeats => "appended again",
        Defect::NoEffect => "no effect",
        Defect::DeviceOrder => "disk order",
        Defect::Durability => "durability",
        Defect::Mixed => "mixed",
        Defect::NeverMeasured => "never measured",
    }
}

fn finding(finding: &Finding, out: &mut String) {
    let mark = if finding.defect.is_serious() { "!" } else { "-" };
    let place = if finding.place.is_empty() { String::new() } else { format!(" ({})", finding.place) };
    let _ = writeln!(out, "    {mark} {}: {}{place}", word(finding.defect), finding.told);
}

fn setting(setting: &Setting, out: &mut String) {
    let devices = if setting.devices.is_empty() {
        String::new()
    } else {
        format!(" of {}", setting.devices.join(", "))
    };
    let _ = writeln!(
        out,
        "  {}{devices}: {} -> {}   {}",
        setting.name,
        if setting.now.is_empty() { "(no disk)".to_owned() } else { setting.now.join("/") },
        setting.wanted,
        setting.places.join(", ")
    );
    for found in &setting.findings {
        finding(found, out);
    }
}

/// Each setting with its findings, then the findings about the files, and the remaining changes.
pub fn lint(lint: &Lint) -> String {
    let total = lint.settings.len();
    let plural = if total == 1 { "setting" } else { "settings" };
    let mut out = format!("{}: {total} {plural}\n\n", lint.files.join(", "));
    for found in &lint.settings {
        setting(found, &mut out);
    }
    if !lint.findings.is_empty() {
        out.push_str("\n  The files\n");
        for found in &lint.findings {
            finding(found, &mut out);
        }
    }
    if lint.has_rollback {
        left(lint, total, &mut out);
    }
    if !lint.not_understood.is_empty() {
        out.push_str("\n  Not understood\n");
        for one in &lint.not_understood {
            let name = one.name.as_ref().map(|name| format!("{name}: ")).unwrap_or_default();
            let _ = writeln!(out, "    ? {name}{} ({})", one.told, one.place);
        }
    }
    let _ = writeln!(out, "\n{} Nothing was run.", verdict(lint));
    out
}

/// The summary, worst first.
fn verdict(lint: &Lint) -> String {
    let mut told = Vec::new();
    if lint.is_harmful() {
        told.push("Lines with ! harm, or leave something behind.".to_owned());
    }
    match lint.not_understood.len() {
        0 => {}
        1 => told.push("Hone did not understand 1 setting and cannot judge it.".to_owned()),
        many => told.push(format!("Hone did not understand {many} settings and cannot judge them.")),
    }
    if told.is_empty() && lint.settings.is_empty() && lint.findings.is_empty() {
        told.push("Hone found no kernel settings in these files.".to_owned());
    } else if told.is_empty() {
        told.push("Hone found nothing that harms or stays behind.".to_owned());
    }
    told.join(" ")
}

fn left(lint: &Lint, total: usize, out: &mut String) {
    let names =
        |names: &[String]| if names.is_empty() { String::new() } else { format!(": {}", names.join(", ")) };
    let _ = writeln!(
        out,
        "\nAfter the files' own rollback, {} of {total} settings differ from before{}.",
        lint.wrong_after_rollback.len(),
        names(&lint.wrong_after_rollback)
    );
    let _ =
        writeln!(out, "At the next boot {} return{}.", lint.at_next_boot.len(), names(&lint.at_next_boot));
}
