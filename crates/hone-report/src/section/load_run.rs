//! One load run: its facts, its three latencies, its seconds.

use hone_record::{CpuSeconds, Metric, Outcome, Window};

use super::{absent, figure, no_figure, results, section};
use crate::escape::Element;
use crate::plot::spectrum::{Line, SAMPLES_BEYOND};
use crate::plot::{Stroke, legend, series, spectrum};
use crate::quantity::{self, NBSP};
use crate::table::Table;

/// The section.
pub(crate) fn of(window: &Window) -> Element {
    section("run", "What was measured").child(facts(window)).child(latencies(window)).child(seconds(window))
}

fn facts(window: &Window) -> Element {
    let facts = &window.facts;
    let mut table = Table::facts("Counts, rates and CPU");
    let rate = |value: f64| format!("{}{NBSP}requests/s", quantity::significant(value));
    table.fact("asked for", &rate(facts.asked_requests_per_s));
    table.fact("reached", &rate(facts.reached_requests_per_s));
    table.fact("requests due", &quantity::count(facts.requests));
    table.fact("requests acknowledged", &quantity::count(facts.acked_requests));
    table.fact("records acknowledged", &quantity::count(facts.acked_records));
    table.fact("batch bytes acknowledged", &quantity::bytes(facts.acked_bytes));
    table.fact("errors", &errors(window));
    for metric in [Metric::CpuPerRecord, Metric::UserCpuPerRecord, Metric::CpuPerRequest] {
        let value = window.value(metric).map_or_else(|| no_cpu(window).to_owned(), quantity::time_us);
        table.fact(metric.label(), &value);
    }
    table.fact("target's CPU", &facts.target_cpu.map_or("not known".to_owned(), cpu));
    table.fact("generator's CPU", &cpu(facts.generator_cpu));
    table.fact("stolen by the hypervisor", &format!("{} of all cores", quantity::share(facts.steal_share)));
    table.fact("used by everybody else", &format!("{} of all cores", quantity::share(facts.others_share)));
    table.finish()
}

fn no_cpu(window: &Window) -> &'static str {
    match (&window.outcome, window.facts.target_cpu) {
        (Outcome::Steady, None) => "not known: the target's process is not on this machine or not named",
        (Outcome::Steady, Some(_)) => "not known: too little CPU time to tell",
        _ => "not told: the window is not steady",
    }
}

fn errors(window: &Window) -> String {
    let each = |(name, count): (&String, &u64)| format!("{name}: {}", quantity::count(*count));
    let all: Vec<String> = window.facts.errors.iter().map(each).collect();
    if all.is_empty() { "none".to_owned() } else { all.join(", ") }
}

fn cpu(cpu: CpuSeconds) -> String {
    let total = quantity::wall_s(cpu.total_s);
    cpu.user_share
        .map_or(total.clone(), |share| format!("{total}, {} of it user code", quantity::share(share)))
}

fn latencies(window: &Window) -> Element {
    let title = "Latency by percentile";
    if !matches!(window.outcome, Outcome::Steady) {
        return no_figure(
            title,
            "The window is not steady: its percentiles would measure the length of the window and not the target.",
        );
    }
    let line = |stroke, label: &str, histogram: &hone_record::Hdr| Line {
        stroke,
        label: label.to_owned(),
        histogram: histogram.clone(),
    };
    let lines = [
        line(Stroke::B, "intended to ack: what a client waits", &window.latencies.intended_to_ack),
        line(Stroke::A, "sent to ack: what the service takes", &window.latencies.sent_to_ack),
        line(Stroke::C, "intended to sent: how late the generator was", &window.latencies.intended_to_sent),
    ];
    let Some(plot) = spectrum::plot("run-spectrum", title, &lines) else {
        return no_figure(title, "Nothing was acknowledged, so there is no latency to draw.");
    };
    let caption = format!(
        "Latency counts from the time the schedule asked for, so a stall is seen by every request it held up. \
         The line is faint where fewer than {SAMPLES_BEYOND} samples lie beyond."
    );
    figure(title, Some(results::key(&lines)), plot, &caption, Some(results::spectrum_numbers(title, &lines)))
}

fn seconds(window: &Window) -> Element {
    let title = "Second by second";
    let track = [series::Track { stroke: Stroke::B, label: window.variant.clone(), points: &window.series }];
    let Some(plot) = series::plot("run-series", title, &track) else {
        return no_figure(title, "The window holds no time series.");
    };
    let entries = [(Stroke::B, window.variant.clone())];
    let caption = "A second in which nothing was acknowledged leaves a gap.";
    figure(title, Some(legend(&entries)), plot, caption, Some(results::series_numbers(title, &track)))
}

/// A sentence for a window that broke off before it measured anything.
pub(crate) fn remark(window: &Window) -> Option<Element> {
    (window.facts.requests == 0).then(|| absent("No request was due in this window."))
}
