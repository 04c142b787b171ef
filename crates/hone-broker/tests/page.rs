//! docs/broker.md says what the broker does: its tables are held against a running one.

mod support;

use kafka_protocol::messages::{ApiKey, ApiVersionsRequest};
use support::*;

fn page() -> String {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/broker.md");
    std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{path}: {error}"))
}

#[test]
fn the_table_of_apis_is_what_the_broker_advertises() {
    let folder = tempfile::tempdir().unwrap();
    let broker = broker(folder.path());
    let mut client = Client::connect(broker.kafka_addr());
    let served = client.call(3, &ApiVersionsRequest::default()).api_keys;
    let rows: Vec<String> = served
        .iter()
        .map(|api| {
            let name =
                ApiKey::try_from(api.api_key).map_or_else(|_| "?".to_owned(), |key| format!("{key:?}"));
            format!("| {} | {name} | {}-{} |", api.api_key, api.min_version, api.max_version)
        })
        .collect();
    let page = page();
    let told: Vec<&str> =
        page.lines().filter(|line| line.starts_with("| ") && line[2..3].parse::<u8>().is_ok()).collect();
    assert_eq!(told, rows, "wanted in docs/broker.md:\n{}\n", rows.join("\n"));
}

#[test]
fn every_metric_that_the_page_names_is_there_and_the_other_way_round() {
    let folder = tempfile::tempdir().unwrap();
    let broker = broker(folder.path());
    let mut client = Client::connect(broker.kafka_addr());
    create(&mut client, "t", &[]);
    produce(&mut client, "t", batch(hone_kafka::Codec::None, &["a"]));
    let metrics = broker.metrics_addr().unwrap();
    let page = page();
    for path in ["/metrics", "/public_metrics"] {
        let text = http_get(metrics, path);
        for name in text.lines().filter_map(|line| line.strip_prefix("# TYPE ")) {
            let name = name.split(' ').next().unwrap();
            assert!(page.contains(&format!("`{name}`")), "docs/broker.md does not tell of {name} ({path})");
        }
    }
    let all = http_get(metrics, "/metrics") + &http_get(metrics, "/public_metrics");
    let section = page.split("## Metrics").nth(1).expect("a section on metrics");
    for name in section.split('`').filter(|name| {
        ["vectorized_", "redpanda_", "hone_broker_"].iter().any(|prefix| name.starts_with(prefix))
    }) {
        assert!(all.contains(name), "docs/broker.md tells of {name}, which is not there");
    }
}
