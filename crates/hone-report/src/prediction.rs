//! Predicted figures of a change in words, each with its measured value.

use hone_format::{change, exact_percent, measured};
use hone_record::{BatchForetold, BatchState, FigureOutcome, Hope};

/// A line for each predicted figure.
pub fn outcomes(predicted: &BatchForetold, before: &BatchState, after: &BatchState) -> Vec<String> {
    predicted.outcomes(before, after).iter().map(outcome).collect()
}

/// The expected gain of a change.
pub fn expected_gain(hope: &Hope) -> String {
    match hope.is_unsaid {
        true => format!("expected gain unknown, ranked as {}", exact_percent(hope.share)),
        false => format!("expected gain {}", exact_percent(hope.share)),
    }
}

fn outcome(outcome: &FigureOutcome) -> String {
    let FigureOutcome { what, said, found, came_true } = outcome;
    let range = if said.low < said.high {
        format!(" ({} to {})", measured(said.low), measured(said.high))
    } else {
        String::new()
    };
    let predicted = format!("{what}: predicted {}{range}", measured(said.value));
    let Some(found) = found else { return format!("{predicted}, not measured") };
    let apart = (said.value > 0.0 && *found > 0.0).then(|| format!(" ({})", change(found / said.value)));
    let came = match came_true {
        Some(true) => ", came true",
        Some(false) => ", did not come true",
        None => "",
    };
    format!("{predicted}, measured {}{}{came}", measured(*found), apart.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use hone_record::Foreseen;

    use super::*;

    #[test]
    fn a_prediction_stands_with_its_range_and_what_came() {
        let said = Foreseen { value: 900.0, low: 800.0, high: 950.0 };
        for (found, came_true, expected) in [
            (None, None, "predicted 900 (800 to 950), not measured"),
            (Some(1_000.0), Some(false), "measured 1,000 (+11.1 %), did not come true"),
            (Some(900.0), None, "measured 900 (0.0 %)"),
            (Some(-3.0), Some(true), "measured −3.00, came true"),
        ] {
            let text = outcome(&FigureOutcome { what: "bytes per batch", said, found, came_true });
            assert!(text.starts_with("bytes per batch: predicted 900") && text.ends_with(expected), "{text}");
        }
    }
}
