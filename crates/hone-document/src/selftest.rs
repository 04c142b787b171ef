//! What the self-test found, as text.

use hone_record::{SelfCheck, SelfTest};

use crate::table::table;

/// A line for each thing looked at, and the sum.
pub fn text(found: &SelfTest) -> String {
    let mut rows = vec![["", "truth", "seen", ""].map(str::to_owned).to_vec()];
    let mut planted = "";
    for check in &found.checks {
        if check.planted != planted {
            planted = &check.planted;
            rows.push(vec![format!("{}: {planted}", check.engine)]);
        }
        rows.push(row(check));
    }
    let missed = found.checks.iter().filter(|check| !check.holds()).count();
    let sum = match missed {
        0 => "Everything that was planted is seen at its true size.".to_owned(),
        _ => format!(
            "{missed} of {} are not seen at their true size: do not trust a load from this machine before you know why \
             (a busy machine is the usual reason: run it again).",
            found.checks.len()
        ),
    };
    format!("{}\n{sum}\n", table(&rows))
}

fn row(check: &SelfCheck) -> Vec<String> {
    let value = |value: f64| format!("{value:.1} {}", check.unit);
    let held = if check.holds() {
        "ok".to_owned()
    } else {
        format!("MISSED (wanted {:.1} to {:.1})", check.least, check.most)
    };
    vec![format!("  {}", check.looked_at), value(check.truth), value(check.seen), held]
}
