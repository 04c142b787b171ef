//! Recording rules, alerts and the dashboard: rendered as their sources say, right by promtool, and the same as the queries in the program.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::time::Duration;

use hone_batch::metrics::queries::QUERIES;
use hone_tool::{Call, Runner as _, System};
use serde_json::Value;

mod stage;
use stage::hone;
use stage::tools::{find, of_checkout};

const RENDERED: [&str; 6] = [
    "alerts/hone-batches.yaml",
    "dashboards/hone-batches.json",
    "rules/kafka-jmx.yaml",
    "rules/redpanda-25.1.yaml",
    "rules/redpanda-older.yaml",
    "rules/redpanda-public.yaml",
];

fn rendered(path: &str) -> String {
    fs::read_to_string(of_checkout("mixin/rendered").join(path)).unwrap()
}

/// Runs a program of PATH in mixin/, and gives what it prints.
#[track_caller]
fn run(name: &str, args: &[&str]) -> String {
    let logs = tempfile::tempdir().unwrap();
    let system = System::new(logs.path().to_path_buf()).unwrap();
    let call = Call::new(name, find(name).unwrap(), of_checkout("mixin"));
    let call = call.args(args.iter().copied()).limit(Duration::from_secs(300));
    system.run(&call).and_then(|outcome| outcome.stdout_text()).unwrap_or_else(|error| panic!("{error}"))
}

#[test]
fn what_is_committed_is_what_the_sources_say() {
    if find("jsonnet").is_none() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    for part in ["rules", "alerts", "dashboards"] {
        fs::create_dir(folder.path().join(part)).unwrap();
    }
    run("jsonnet", &["-S", "-m", folder.path().to_str().unwrap(), "render.jsonnet"]);
    for path in RENDERED {
        let fresh = fs::read_to_string(folder.path().join(path)).unwrap();
        assert!(
            is_same(path, &fresh, &rendered(path)),
            "mixin/rendered/{path} is not what its sources say: run script/mixin"
        );
    }
    assert_eq!(files(folder.path()), files(&of_checkout("mixin/rendered")));
}

/// Of JSON the values count: jsonnet in C++ writes 0.9 with seventeen digits.
fn is_same(path: &str, one: &str, other: &str) -> bool {
    let read =
        |text: &str| serde_json::from_str::<Value>(text).unwrap_or_else(|error| panic!("{path}: {error}"));
    if path.ends_with(".json") { read(one) == read(other) } else { one == other }
}

fn files(folder: &Path) -> BTreeSet<String> {
    let parts = fs::read_dir(folder).unwrap().flatten().map(|entry| entry.path());
    parts
        .flat_map(|part| fs::read_dir(part).unwrap().flatten().map(|entry| entry.path()).collect::<Vec<_>>())
        .map(|file| file.strip_prefix(folder).unwrap().display().to_string())
        .collect()
}

#[test]
fn promtool_finds_rules_and_alerts_right() {
    if find("promtool").is_none() {
        return;
    }
    for path in RENDERED.iter().filter(|path| path.ends_with(".yaml")) {
        run("promtool", &["check", "rules", &format!("rendered/{path}")]);
    }
    run("promtool", &["test", "rules", "tests/rules.yaml", "tests/alerts.yaml"]);
}

/// The expressions of a rendered file: they are all on lines of their own, as JSON strings.
fn expressions(text: &str) -> BTreeSet<String> {
    let quoted = text.lines().filter_map(|line| line.trim().trim_start_matches("- ").strip_prefix("expr: "));
    quoted.map(|text| serde_json::from_str(text).unwrap_or_else(|error| panic!("{text}: {error}"))).collect()
}

/// What people paste and what is recorded is one thing.
#[test]
fn recording_rules_are_the_queries_of_the_program() {
    for (file, ids) in [
        (
            "rules/redpanda-25.1.yaml",
            &[
                "R1", "R2", "R4", "R6a", "R6b", "R7", "R8a", "R8b", "R9", "R10", "R12a", "R12b", "R12c",
                "R12d", "R12e", "R13a", "R13b", "R14",
            ][..],
        ),
        ("rules/redpanda-older.yaml", &["R3", "R4", "R5", "R6a", "R6b", "R8a", "R8b", "R12d", "R13a", "R14"]),
        ("rules/redpanda-public.yaml", &["R6b", "P1", "P2a", "P2b", "P2c", "P2d", "P2e", "P3a", "P3b"]),
    ] {
        let expressions = expressions(&rendered(file));
        for id in ids {
            let query = QUERIES.iter().find(|query| query.id == *id).unwrap().promql.replace("$window", "5m");
            assert!(expressions.contains(&query), "{file} has no {id}:\n{query}\nin {expressions:#?}");
        }
    }
    let kafka = |bean: &str| {
        format!("rate(kafka_server_brokertopicmetrics_{bean}_total{{topic!=\"\",topic!~\"__.*\"}}[5m])")
    };
    let expressions = expressions(&rendered("rules/kafka-jmx.yaml"));
    for id in ["K1", "K2"] {
        let query = QUERIES.iter().find(|query| query.id == id).unwrap().promql;
        let query = query
            .replace("$bytes_in", &kafka("bytesin"))
            .replace("$records_in", &kafka("messagesin"))
            .replace("$batches", &kafka("totalproducerequests"));
        assert!(expressions.contains(&query), "no {id}:\n{query}\nin {expressions:#?}");
    }
}

/// Names of recorded series in a text.
fn recorded(text: &str) -> BTreeSet<String> {
    let belongs = |character: char| character.is_ascii_alphanumeric() || "_:".contains(character);
    text.split(|character| !belongs(character))
        .filter(|word| word.starts_with("hone:"))
        .map(str::to_owned)
        .collect()
}

#[test]
fn the_dashboard_is_whole() {
    let board: Value = serde_json::from_str(&rendered("dashboards/hone-batches.json")).unwrap();
    assert!(board["schemaVersion"].as_u64() >= Some(37) && board["uid"] == "hone-batches");
    let panels = board["panels"].as_array().unwrap();
    let rows: Vec<&str> = panels
        .iter()
        .filter(|panel| panel["type"] == "row")
        .map(|row| row["title"].as_str().unwrap())
        .collect();
    assert_eq!(rows, ["Topics", "Impact", "Effect of a change"]);
    let ids: BTreeSet<u64> = panels.iter().map(|panel| panel["id"].as_u64().unwrap()).collect();
    assert_eq!(ids.len(), panels.len(), "ids are not unique");
    let rules: BTreeSet<String> = RENDERED
        .iter()
        .filter(|path| path.starts_with("rules/"))
        .flat_map(|path| recorded(&rendered(path)))
        .collect();
    let mut used = BTreeSet::new();
    for panel in panels.iter().filter(|panel| panel["type"] != "row") {
        let title = &panel["title"];
        assert_eq!(panel["datasource"]["uid"], "${datasource}", "{title}");
        assert_eq!(panel["fieldConfig"]["defaults"]["noValue"], "not exported", "{title}");
        assert!(!panel["description"].as_str().unwrap().is_empty(), "{title}");
        for target in panel["targets"].as_array().unwrap() {
            assert_eq!(target["datasource"]["uid"], "${datasource}", "{title}");
            let names = recorded(target["expr"].as_str().unwrap());
            assert!(!names.is_empty(), "{title}: {target}");
            used.extend(names);
        }
    }
    let unknown: Vec<_> = used.difference(&rules).collect();
    assert!(unknown.is_empty(), "no rule records {unknown:?}");
    assert!(board.to_string().contains("$__rate_interval"));
    no_overlap(panels);
    let variables: Vec<&str> = board["templating"]["list"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| one["name"].as_str().unwrap())
        .collect();
    assert_eq!(variables, ["datasource", "source", "topic", "compare"]);
}

fn no_overlap(panels: &[Value]) {
    let mut taken = BTreeSet::new();
    for panel in panels {
        let at = |name: &str| panel["gridPos"][name].as_u64().unwrap();
        assert!(at("x") + at("w") <= 24, "{}", panel["title"]);
        for x in at("x")..at("x") + at("w") {
            for y in at("y")..at("y") + at("h") {
                assert!(taken.insert((x, y)), "{} lies over another panel", panel["title"]);
            }
        }
    }
}

/// Alerts are about recorded series only, on size and rate, and each has its place in the docs.
#[test]
fn alerts_lead_to_the_docs() {
    let text = rendered("alerts/hone-batches.yaml");
    let docs = fs::read_to_string(of_checkout("docs/batch/watch.md")).unwrap();
    let names: Vec<&str> = text
        .lines()
        .filter_map(|line| line.trim().trim_start_matches("- ").strip_prefix("alert: "))
        .collect();
    assert_eq!(names.len(), 6, "{names:?}");
    for name in names {
        let name = name.trim_matches('"');
        assert!(docs.contains(&format!("# {name}\n")), "the docs have no heading {name}");
        let anchor = format!("#{}\"", name.to_lowercase());
        assert!(text.contains(&anchor), "no runbook_url ends with {anchor}");
    }
}

#[test]
fn files_are_written_once_and_never_over_others() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("monitoring");
    let to = out.to_str().unwrap();
    let ran = hone(&["batch", "dashboards", "--output", to]).expect_code(0);
    assert_eq!(ran.stdout.lines().count(), RENDERED.len(), "{}", ran.stdout);
    for path in RENDERED {
        assert_eq!(fs::read_to_string(out.join(path)).unwrap(), rendered(path), "{path}");
    }
    // The same once more is no harm.
    hone(&["batch", "dashboards", "--output", to]).expect_code(0);
    let own = out.join("alerts/hone-batches.yaml");
    fs::write(&own, "my own\n").unwrap();
    fs::remove_file(out.join("rules/kafka-jmx.yaml")).unwrap();
    hone(&["batch", "dashboards", "--output", to]).expect_code(2).expect_error("Hone wrote nothing");
    assert_eq!(fs::read_to_string(&own).unwrap(), "my own\n");
    assert!(!out.join("rules/kafka-jmx.yaml").exists());
    hone(&["batch", "dashboards", "--output", to, "--force"]).expect_code(0);
    assert_eq!(fs::read_to_string(&own).unwrap(), rendered("alerts/hone-batches.yaml"));
    let other = folder.path().join("kafka");
    let ran = hone(&["batch", "dashboards", "--output", other.to_str().unwrap(), "--source", "kafka-jmx"])
        .expect_code(0);
    assert_eq!(ran.stdout.lines().count(), 3, "{}", ran.stdout);
    let ours = folder.path().join("ours");
    let wiki = "https://wiki.example.org/hone/watch";
    hone(&["batch", "dashboards", "--output", ours.to_str().unwrap(), "--runbook-url", wiki]).expect_code(0);
    let alerts = fs::read_to_string(ours.join("alerts/hone-batches.yaml")).unwrap();
    let lead_to_ours = alerts.matches(&format!("runbook_url: \"{wiki}#")).count();
    assert_eq!(lead_to_ours, alerts.matches("runbook_url:").count(), "{alerts}");
    assert!(lead_to_ours >= 6 && !alerts.contains("hone.example"), "{alerts}");
}
