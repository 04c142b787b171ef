//! The power prediction of a pilot, as text.

use hone_format::{change_size, duration, exact_percent, percent};
use hone_record::{Pilot, Promise};

use crate::table::table;
use crate::wrapped;

/// An effect of this size is obvious. If a metric only shows larger effects, these pairs can't decide it.
const HARDLY: f64 = 1.25;

/// The plan in one paragraph. If it probably misses the requested effect, a line says what would find it.
pub fn headline(pilot: &Pilot) -> String {
    let too_small = too_small(pilot).map(|words| format!("\n{}", wrapped(&words)));
    wrapped(&sentence(pilot)) + &too_small.unwrap_or_default()
}

/// What a budget that probably misses the requested effect sees, and what that effect needs. `None` if it suffices, and without a request.
fn too_small(pilot: &Pilot) -> Option<String> {
    let (primary, effect) = (pilot.metrics.first()?, exact_percent(pilot.effect_ratio? - 1.0));
    if primary.power_for_effect? >= pilot.power {
        return None;
    }
    let seen = smallest(primary);
    Some(match primary.pairs_needed {
        Some(pairs) => {
            // A/A pairs come in proportion.
            let each_s = pilot.rest_s / f64::from(pilot.planned_pairs.max(1));
            let minutes = ((pilot.took_s + f64::from(pairs) * each_s) / 60.0).ceil();
            format!(
                "This budget is too small for {effect}: it detects {seen}. {effect} needs --budget {minutes}m."
            )
        }
        None => format!(
            "No budget detects {effect} with this noise: this one detects {seen}. Use a quieter machine or longer windows (--duration)."
        ),
    })
}

/// The plan on one line.
pub fn sentence(pilot: &Pilot) -> String {
    let mut text = format!(
        "Plan: {} A/B pairs and {} A/A pairs, the {} of the pilot among them; {} more.",
        pilot.planned_pairs,
        pilot.planned_control_pairs,
        pilot.pairs,
        duration(pilot.rest_s)
    );
    if let Some(why) = &pilot.no_promise {
        text.push_str(&format!(" There is no power prediction: {why}."));
    }
    if let Some(primary) = pilot.metrics.first() {
        text.push_str(&format!(" {} can detect {}.", primary.metric.label(), smallest(primary)));
        if let (Some(effect), Some(power)) = (pilot.effect_ratio, primary.power_for_effect) {
            let needed = match primary.pairs_needed {
                Some(pairs) => format!("{pairs} pairs would find it in four of five runs"),
                None => "no number of pairs would suffice with this control".to_owned(),
            };
            text.push_str(&format!(
                " The run will find an effect of {} with a probability of {:.0} % if the noise stays like \
                 the pilot's{}; {needed}.",
                exact_percent(effect - 1.0),
                power * 100.0,
                with_tail(primary)
            ));
        }
    }
    let limit = pilot.effect_ratio.unwrap_or(HARDLY);
    let beyond = |promise: &&Promise| promise.detectable_ratio.is_none_or(|ratio| ratio > limit);
    let undecided: Vec<String> = pilot
        .metrics
        .iter()
        .skip(1)
        .filter(beyond)
        .map(|promise| format!("{} ({})", promise.metric.label(), smallest(promise)))
        .collect();
    if !undecided.is_empty() {
        let what =
            pilot.effect_ratio.map(|effect| format!(" for an effect of {}", exact_percent(effect - 1.0)));
        text.push_str(&format!(
            " Not decidable with these pairs{}: {}.",
            what.unwrap_or_default(),
            undecided.join(", ")
        ));
    }
    text
}

/// The plan with the predicted power for every metric.
pub fn text(pilot: &Pilot, budget_s: f64) -> String {
    let with_effect = pilot.effect_ratio.is_some();
    let mut head = vec!["metric".to_owned(), "spread".to_owned(), "smallest effect found".to_owned()];
    if let Some(effect) = pilot.effect_ratio {
        head.push(format!("chance to find {}", exact_percent(effect - 1.0)));
        head.push("pairs it needs".to_owned());
    }
    let row = |promise: &Promise| {
        let mut row = vec![
            promise.metric.label().to_owned(),
            percent(promise.log_ratio_sd),
            promise.detectable_ratio.map_or("> 100000 %".to_owned(), change_size),
        ];
        if with_effect {
            row.push(promise.power_for_effect.map_or("-".to_owned(), chance));
            row.push(promise.pairs_needed.map_or("> 10000".to_owned(), |pairs| pairs.to_string()));
        }
        row
    };
    let rows: Vec<Vec<String>> = std::iter::once(head).chain(pilot.metrics.iter().map(row)).collect();
    let table = if pilot.metrics.is_empty() { String::new() } else { table(&rows) };
    let mut out = format!("{}\n\n{table}", headline(pilot));
    for (metric, reason) in &pilot.not_planned {
        out.push_str(&format!("  {}: {reason}\n", metric.label()));
    }
    out.push_str(&format!(
        "\n{}\n",
        wrapped(&format!(
            "From {} A/A pairs in {}, for a budget of {}. Spread: standard deviation of the ratio of the two \
             windows of a pair. Smallest effect found: with a probability of {:.0} %, by the rule in \
             design.json, control included, if the noise stays like the pilot's. A disturbance that the \
             pilot did not meet makes it larger.",
            pilot.pairs,
            duration(pilot.took_s),
            duration(budget_s),
            pilot.power * 100.0
        ))
    ));
    out
}

/// A pilot of a few pairs may miss an occasional disturbance.
fn with_tail(promise: &Promise) -> String {
    let said = |power: f64| format!(" ({} if one pair in ten scatters five times as far)", chance(power));
    promise.power_with_tail.map(said).unwrap_or_default()
}

/// A simulated probability, in whole percent.
fn chance(share: f64) -> String {
    exact_percent((share * 100.0).round() / 100.0)
}

fn smallest(promise: &Promise) -> String {
    promise.detectable_ratio.map_or("nothing".to_owned(), |ratio| format!("{} or more", change_size(ratio)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use hone_record::Metric;

    fn pilot(effect: Option<f64>) -> Pilot {
        let promise = |metric, detectable_ratio| Promise {
            metric,
            log_ratio_sd: 0.1,
            detectable_ratio,
            pairs_needed: effect.map(|_| 21),
            power_for_effect: effect.map(|_| 0.62),
            power_with_tail: effect.map(|_| 0.41),
        };
        Pilot {
            pairs: 6,
            took_s: 58.0,
            planned_pairs: 14,
            planned_control_pairs: 8,
            rest_s: 150.0,
            effect_ratio: effect,
            power: 0.8,
            metrics: vec![
                promise(Metric::CpuPerRecord, Some(1.08)),
                promise(Metric::LatencyP50, Some(1.07)),
                promise(Metric::LatencyP99, Some(1.77)),
            ],
            no_promise: None,
            not_planned: [(Metric::LatencyP999, "a p99.9 needs 10000 requests".to_owned())].into(),
        }
    }

    fn unwrapped(text: &str) -> String {
        text.split_whitespace().collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn the_headline_says_pairs_time_and_what_is_beyond_reach() {
        let said = unwrapped(&headline(&pilot(None)));
        for part in [
            "14 A/B pairs",
            "2 min 30 s more",
            "CPU per record can detect 8.0 % or more",
            "Not decidable with these pairs: p99 (77.0 % or more)",
        ] {
            assert!(said.contains(part), "{said}");
        }
        let said = unwrapped(&headline(&pilot(Some(1.05))));
        for part in [
            "The run will find an effect of 5 % with a probability of 62 % if the noise stays like the \
             pilot's",
            "(41 % if one pair in ten scatters five times as far); 21 pairs would",
            "p50 (7.0 % or more), p99 (77.0 % or more)",
        ] {
            assert!(said.contains(part), "{said}");
        }
    }

    #[test]
    fn a_budget_that_misses_the_effect_says_what_would_find_it() {
        let said = |pilot: &Pilot| unwrapped(&headline(pilot));
        // 21 of 14 planned pairs, which take 150 s, after a pilot of 58 s.
        let told = said(&pilot(Some(1.05)));
        assert!(
            told.ends_with("too small for 5 %: it detects 8.0 % or more. 5 % needs --budget 5m."),
            "{told}"
        );
        let mut enough = pilot(Some(1.05));
        enough.metrics[0].power_for_effect = Some(0.81);
        assert!(!said(&enough).contains("--budget"));
        assert!(!said(&pilot(None)).contains("--budget"));
        let mut never = pilot(Some(1.05));
        never.metrics[0].pairs_needed = None;
        assert!(said(&never).contains("No budget detects 5 % with this noise"), "{}", said(&never));
    }

    #[test]
    fn where_nothing_is_promised_the_reason_is_told_and_no_table() {
        let why = Some("the pilot's pairs share a build".to_owned());
        let said = unwrapped(&text(&Pilot { metrics: vec![], no_promise: why, ..pilot(Some(1.05)) }, 300.0));
        assert!(said.contains("There is no power prediction: the pilot's pairs share a build."), "{said}");
        assert!(!said.contains("chance to find") && !said.contains("can detect"), "{said}");
    }

    #[test]
    fn the_table_has_every_metric() {
        let said = unwrapped(&text(&pilot(Some(1.05)), 300.0));
        for part in [
            "chance to find 5 %",
            "62 %",
            "77.0 %",
            "p99.9: a p99.9 needs 10000 requests",
            "budget of 5 min",
            "A disturbance that the pilot did not meet",
        ] {
            assert!(said.contains(part), "{said}");
        }
    }
}
