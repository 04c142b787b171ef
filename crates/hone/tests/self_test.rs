//! The self-test finds what it plants.

mod stage;
use stage::hone;

#[test]
fn every_planted_fault_is_seen_at_its_true_size() {
    let ran = hone(&["load", "--self-test", "--json", "--quiet"]).expect_code(0);
    let record = ran.json();
    assert_eq!(record["kind"], "self-test");
    let checks = record["body"]["checks"].as_array().unwrap().clone();
    for engine in ["wire", "librdkafka"] {
        let of_engine = checks.iter().filter(|check| check["engine"] == engine);
        assert!(of_engine.count() >= 3, "{engine}: {checks:#?}");
    }
    for check in &checks {
        let number = |name: &str| check[name].as_f64().unwrap();
        assert!(number("least") <= number("seen") && number("seen") <= number("most"), "{check:#}");
        // Bounds that hold anything would make this a check that can't fail.
        assert!(
            number("most") < 1.5 * number("truth") && number("least") > 0.5 * number("truth"),
            "{check:#}"
        );
    }
    hone(&["load", "--self-test", "127.0.0.1:1"]).expect_code(2).expect_error("--self-test");
}
