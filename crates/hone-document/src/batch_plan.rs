//! One cluster or two, as text.

use std::fmt::Write as _;

use hone_format::{measured, percent, throughput};
use hone_record::{
    BatchPlan, CostInterval, Foreseen, PlanAnswer, PlanAssumption, PlannedClusters, PlannedResource,
    PlannedTopic,
};

use crate::table::table;
use crate::wrapped;

/// Number of topics in the list.
const MOST_TOPICS: usize = 20;

/// The answer first, then its parts, its basis, and what to do.
pub fn text(plan: &BatchPlan) -> String {
    let mut out = format!("{}\n\n", wrapped(&answer(plan)));
    out.push_str(&table(&rows(plan)));
    if let Some(clusters) = &plan.clusters {
        let _ = write!(out, "\n{}\n", wrapped(&alternative(clusters, plan.grow)));
    }
    let mut assumptions = plan.assumptions.iter();
    if let Some(first) = assumptions.next() {
        let _ = write!(out, "\n{}\n", wrapped(&format!("Moves the answer most: {}", ends(first))));
    }
    for other in assumptions {
        let _ = writeln!(out, "{}", wrapped(&format!("Moves it less: {}", ends(other))));
    }
    out.push('\n');
    out.push_str(&topics(plan));
    for topic in &plan.topics {
        if let Some(why) = &topic.refused {
            let text = format!(
                "{}: Hone can't replay its records, so it counts the batches as if the topic had new \
                 producers: {why}",
                topic.topic
            );
            let _ = writeln!(out, "{}", wrapped(&text));
        }
    }
    if let Some(next) = &plan.next {
        let _ = write!(out, "\n{}\n", wrapped(&format!("next: {next}")));
    }
    for note in &plan.notes {
        let _ = write!(out, "\n{}", wrapped(&format!("note: {note}")));
    }
    out.push('\n');
    out
}

fn answer(plan: &BatchPlan) -> String {
    let times = times(plan.grow);
    let start = match plan.answer {
        PlanAnswer::Holds => format!("One cluster holds {times}"),
        PlanAnswer::DoesNotHold => format!("One cluster does not hold {times}"),
        PlanAnswer::Inconclusive => format!("Inconclusive: one cluster may hold {times}"),
    };
    let cpu = cpu(plan).unwrap_or_else(|| "CPU unknown".to_owned());
    let parts: Vec<String> = [Some(cpu), network(plan), of(plan, "disk").map(|disk| share("disk", disk))]
        .into_iter()
        .flatten()
        .collect();
    let why = match plan.answer {
        PlanAnswer::Inconclusive if has_span(plan) => " (a confidence interval spans its ceiling)",
        _ => "",
    };
    format!("{start}{why}: {}", parts.join(", "))
}

fn has_span(plan: &BatchPlan) -> bool {
    plan.resources.iter().any(|resource| resource.answer == Some(PlanAnswer::Inconclusive))
}

fn of<'a>(plan: &'a BatchPlan, name: &str) -> Option<&'a PlannedResource> {
    plan.resources.iter().find(|resource| resource.resource == name)
}

fn cpu(plan: &BatchPlan) -> Option<String> {
    let cpu = of(plan, "cpu")?;
    Some(match cpu.ceiling {
        Some(cores) => {
            let used = |cores_then: f64| measured(100.0 * cores_then / cores);
            let is_above = cpu.then.high > cpu.most_share * cores;
            let most = match is_above {
                true => format!(", {} allowed", percent(cpu.most_share)),
                false => String::new(),
            };
            format!(
                "CPU {} % [{}, {}] of {} cores{most}{}",
                used(cpu.then.value),
                used(cpu.then.low),
                used(cpu.then.high),
                measured(cores),
                peak(cpu, cores)
            )
        }
        None => format!("CPU {} cores (no ceiling given)", interval(cpu.then)),
    })
}

/// The direction with the higher load.
fn network(plan: &BatchPlan) -> Option<String> {
    let (receives, sends) = (of(plan, "network-in")?, of(plan, "network-out")?);
    let fuller = if receives.then.value > sends.then.value { receives } else { sends };
    Some(share("network", fuller))
}

fn share(name: &str, of: &PlannedResource) -> String {
    match of.ceiling {
        Some(ceiling) => {
            format!("{name} {}{}", percent(of.then.value / ceiling), peak(of, ceiling))
        }
        None => format!("{name} {} per broker (no ceiling given)", throughput(of.then.value)),
    }
}

/// The peak, if it may exceed the capacity.
fn peak(of: &PlannedResource, ceiling: f64) -> String {
    match of.busiest.filter(|busiest| busiest.high > ceiling) {
        Some(busiest) => format!(" ({} at the peak)", percent(busiest.value / ceiling)),
        None => String::new(),
    }
}

/// `2x`, `1.5x`.
fn times(grow: f64) -> String {
    format!("{grow}x")
}

fn interval(of: CostInterval) -> String {
    format!("{} [{}, {}]", measured(of.value), measured(of.low), measured(of.high))
}

fn rows(plan: &BatchPlan) -> Vec<Vec<String>> {
    let then = times(plan.grow);
    let mut rows =
        vec![[String::new(), "today".to_owned(), then, "range".to_owned(), "ceiling".to_owned()].to_vec()];
    for work in &plan.work {
        let shown: fn(f64) -> String = if work.unit == "bytes" { throughput } else { measured };
        let name = if work.unit == "bytes" { "bytes".to_owned() } else { format!("{}/s", work.unit) };
        let Foreseen { value, low, high } = work.then;
        rows.push(vec![name, shown(work.now), shown(value), range(low, high, shown), String::new()]);
    }
    for resource in &plan.resources {
        let shown: fn(f64) -> String = if resource.resource == "cpu" { measured } else { throughput };
        let ceiling = |share: f64| {
            let limit = |ceiling: f64| shown(share * ceiling);
            resource.ceiling.map_or_else(|| "no ceiling given".to_owned(), limit)
        };
        let row = |name: String, now: String, then: CostInterval, ceiling: String| {
            vec![name, now, shown(then.value), range(then.low, then.high, shown), ceiling]
        };
        let name = name_of(&resource.resource);
        rows.push(row(name.to_owned(), shown(resource.now), resource.then, ceiling(resource.most_share)));
        if let Some(busiest) = resource.busiest {
            rows.push(row("  at the peak".to_owned(), String::new(), busiest, ceiling(1.0)));
        }
    }
    rows
}

fn range(low: f64, high: f64, shown: fn(f64) -> String) -> String {
    match (shown(low), shown(high)) {
        (low, high) if low == high => String::new(),
        (low, high) => format!("{low} to {high}"),
    }
}

fn name_of(resource: &str) -> &str {
    match resource {
        "cpu" => "CPU, cores",
        "network-in" => "a broker receives",
        "network-out" => "a broker sends",
        _ => "a broker writes to disk",
    }
}

fn alternative(clusters: &PlannedClusters, grow: f64) -> String {
    let each = if (clusters.clusters - grow).abs() < 1e-9 { "today's flow" } else { "a part of it" };
    let PlannedClusters { saved, .. } = clusters;
    let saves = match saved.value >= 0.0 {
        true => format!(
            "one cluster saves {} cores [{}, {}]",
            measured(saved.value),
            measured(saved.low),
            measured(saved.high)
        ),
        false => format!("one cluster needs {} more cores", measured(-saved.value)),
    };
    format!(
        "{} clusters with {each} each: {} cores, because batches do not grow there; {saves}",
        clusters.clusters,
        interval(clusters.cores)
    )
}

fn ends(assumption: &PlanAssumption) -> String {
    let [one, other] = assumption.ends.map(measured);
    format!("{} ({one} to {other} {})", assumption.assumption, assumption.unit)
}

fn topics(plan: &BatchPlan) -> String {
    let head = ["topic", "batches/s", "same producers", "range", "new producers", "records/batch", "then"];
    let mut rows = vec![head.map(str::to_owned).to_vec()];
    rows.extend(plan.topics.iter().take(MOST_TOPICS).map(topic));
    let mut out = table(&rows);
    if plan.topics.len() > MOST_TOPICS {
        let _ = writeln!(out, "  and {} more (--json lists all)", plan.topics.len() - MOST_TOPICS);
    }
    out
}

fn topic(topic: &PlannedTopic) -> Vec<String> {
    let same = topic.batches_same_producers;
    vec![
        topic.topic.clone(),
        measured(topic.batches_now),
        measured(same.value),
        range(same.low, same.high, measured),
        measured(topic.batches_new_producers),
        measured(topic.records_per_batch_now),
        measured(topic.records_per_batch_then),
    ]
}

#[cfg(test)]
mod tests {
    use hone_record::PlannedWork;

    use super::*;

    fn resource(name: &str, value: f64, ceiling: Option<f64>, answer: Option<PlanAnswer>) -> PlannedResource {
        let then = CostInterval { value, low: 0.9 * value, high: 1.1 * value };
        PlannedResource {
            resource: name.to_owned(),
            now: value / 2.0,
            then,
            busiest: None,
            ceiling,
            most_share: if name == "cpu" { 0.7 } else { 1.0 },
            answer,
        }
    }

    fn plan(answer: PlanAnswer, cpu: Option<PlanAnswer>, cores: Option<f64>) -> BatchPlan {
        let network = 1.25e9;
        BatchPlan {
            target: "b:9092".to_owned(),
            grow: 2.0,
            new_producers: false,
            answer,
            work: vec![PlannedWork {
                unit: "batches".to_owned(),
                now: 1_000.0,
                then: Foreseen { value: 1_200.0, low: 1_100.0, high: 1_300.0 },
            }],
            resources: vec![
                resource("cpu", 12.0, cores, cpu),
                resource("network-in", 0.2 * network, Some(network), Some(PlanAnswer::Holds)),
                resource("network-out", 0.4 * network, Some(network), Some(PlanAnswer::Holds)),
                resource("disk", 3.0 * 1_048_576.0, None, None),
            ],
            clusters: Some(PlannedClusters {
                clusters: 2.0,
                cores: CostInterval { value: 16.0, low: 15.0, high: 17.0 },
                saved: CostInterval { value: 4.0, low: 3.0, high: 5.0 },
            }),
            assumptions: vec![PlanAssumption {
                assumption: "what work costs".to_owned(),
                ends: [11.0, 13.0],
                unit: "cores".to_owned(),
            }],
            topics: vec![PlannedTopic {
                topic: "orders".to_owned(),
                batches_now: 1_000.0,
                batches_same_producers: Foreseen { value: 1_200.0, low: 1_100.0, high: 1_300.0 },
                batches_new_producers: 2_000.0,
                records_per_batch_now: 3.0,
                records_per_batch_then: 5.0,
                refused: Some("its sender waits".to_owned()),
            }],
            next: Some("add --cores N".to_owned()),
            notes: Vec::new(),
        }
    }

    #[test]
    fn the_first_line_is_the_answer() {
        let first = |plan: &BatchPlan| text(plan).split("\n\n").next().unwrap().replace("\n  ", " ");
        let holds = PlanAnswer::Holds;
        assert_eq!(
            first(&plan(holds, Some(holds), Some(24.0))),
            "One cluster holds 2x: CPU 50.0 % [45.0, 55.0] of 24.0 cores, network 40.0 %, disk 3.00 MiB/s \
             per broker (no ceiling given)"
        );
        let not = PlanAnswer::DoesNotHold;
        let told = first(&plan(not, Some(not), Some(16.0)));
        assert!(
            told.starts_with("One cluster does not hold 2x: CPU 75.0 %") && told.contains("70.0 % allowed"),
            "{told}"
        );
        let open = PlanAnswer::Inconclusive;
        let told = first(&plan(open, Some(open), Some(17.0)));
        assert!(
            told.starts_with("Inconclusive: one cluster may hold")
                && told.contains("2x (a confidence interval spans its ceiling): CPU 70.6 %"),
            "{told}"
        );
        let told = first(&plan(open, None, None));
        assert!(told.contains("CPU 12.0 [10.8, 13.2] cores (no ceiling given)"), "{told}");
        let mut without = plan(open, None, None);
        without.resources.remove(0);
        assert!(
            first(&without).contains("Inconclusive: one cluster may hold 2x: CPU unknown, network"),
            "{}",
            first(&without)
        );
    }

    #[test]
    fn the_rest_has_the_alternative_and_what_it_rests_on() {
        let holds = PlanAnswer::Holds;
        // However its lines are broken.
        let text = text(&plan(holds, Some(holds), Some(24.0))).replace("\n  ", " ");
        for expected in [
            "2 clusters with today's flow each: 16.0 [15.0, 17.0] cores",
            "one cluster saves 4.00 cores",
            "Moves the answer most: what work costs (11.0 to 13.0 cores)",
            "orders: Hone can't replay its records",
            "1,100 to 1,300",
            "next: add --cores N",
            "16.8",
        ] {
            assert!(text.contains(expected), "no `{expected}` in:\n{text}");
        }
    }
}
