//! The result of the self-test, as text.

use hone_record::{SelfCheck, SelfTest};

use crate::table::table;

/// A line for each check, and the sum.
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
        0 => "Hone measured every planted effect at its true size.".to_owned(),
        _ => format!(
            "Hone missed the true size of {missed} of {} effects. Do not trust a load from this machine \
             before you know the cause. Usually the machine is busy: run the test again.",
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
