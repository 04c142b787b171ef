//! A diagnosis as text: evidence first.

use hone_record::{Category, Diagnosed, Diagnosis, LayoutVerdict, Slots};

use super::table::table;

/// Each category of level 1 with its parts.
const ROWS: [(Category, &[Category]); 5] = [
    (Category::FrontendBound, &[Category::FetchLatency, Category::FetchBandwidth]),
    (Category::BadSpeculation, &[Category::BranchMispredicts, Category::MachineClears]),
    (Category::BackendBound, &[Category::MemoryBound, Category::CoreBound]),
    (Category::Retiring, &[Category::LightOperations, Category::HeavyOperations]),
    (Category::SmtContention, &[]),
];

/// Everything, part by part.
pub(crate) fn text(diagnosis: &Diagnosis) -> String {
    let mut out = format!("Evidence: {}\nFrom {}\n", diagnosis.evidence.words(), diagnosis.source);
    for part in &diagnosis.parts {
        out.push('\n');
        out.push_str(&of_part(part, diagnosis.user_share));
    }
    out
}

fn of_part(part: &Diagnosed, user_share: Option<f64>) -> String {
    let mut out = part.scope.as_ref().map(|scope| format!("{scope}\n")).unwrap_or_default();
    if let Some(slots) = &part.slots {
        out.push_str(&shares(slots));
    }
    if let Some(verdict) = &part.verdict {
        out.push_str(&of_verdict(verdict, user_share));
    }
    if let Some(refused) = &part.refused {
        out.push_str(&format!("  refused: {refused}\n"));
    }
    out
}

fn shares(slots: &Slots) -> String {
    let mut rows = Vec::new();
    for (category, parts) in ROWS {
        let row = |category: &Category, indent: &str| {
            let share = slots.share(*category)?;
            Some(vec![format!("{indent}{category}"), format!("{share:.1} %")])
        };
        rows.extend(row(&category, ""));
        rows.extend(parts.iter().filter_map(|part| row(part, "  ")));
    }
    let notes = slots.notes.iter().map(|note| format!("  note: {note}\n"));
    table(&rows) + &notes.collect::<String>()
}

fn of_verdict(verdict: &LayoutVerdict, user_share: Option<f64>) -> String {
    let ceiling = match (verdict.ceiling_percent, user_share) {
        (Some(ceiling), Some(user)) => format!(
            "at most {ceiling:.0} % of the CPU: the frontend's share times the {:.0} % that are user code of the program",
            100.0 * user
        ),
        _ => "not known without the share of the CPU that is user code of the program (--user-share)"
            .to_owned(),
    };
    format!(
        "\n  Will a better layout help?  {}\n  rule     {}\n  source   {}\n  ceiling  {ceiling}\n  next     {}\n",
        verdict.likelihood,
        verdict.rule,
        verdict.source,
        verdict.next.words()
    )
}
