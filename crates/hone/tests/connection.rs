//! `hone connection`: what is kept is used by the verbs that talk to a cluster, and a password stays with its owner.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

mod stage;
use stage::{Broker, Ran, hone_command};

/// Runs `hone` with its connections in a folder.
fn hone(folder: &Path, args: &[&str]) -> Ran {
    let mut command = hone_command();
    command.args(args).current_dir(folder).env("XDG_CONFIG_HOME", folder);
    command.env_remove("HONE_CONNECTION").env_remove("HONE_BOOTSTRAP");
    Ran::of(command.output().unwrap())
}

#[test]
fn a_kept_connection_is_tested_used_and_removed() {
    let folder = tempfile::tempdir().unwrap();
    let broker = Broker::start();
    let properties = format!("bootstrap.servers={}\nlinger.ms=5\n", broker.address);
    fs::write(folder.path().join("client.properties"), properties).unwrap();
    let hone = |args: &[&str]| hone(folder.path(), args);
    assert!(hone(&["connection", "list"]).expect_code(0).stdout.contains("No connection is kept"));
    let added = hone(&["connection", "add", "lab", "client.properties"]).expect_code(0);
    assert!(added.stderr.contains("not used: linger.ms"), "{}", added.stderr);
    hone(&["connection", "add", "lab", "client.properties"]).expect_code(2).expect_error("--force");
    let metrics = ["--metrics", "http://127.0.0.1:1/metrics"];
    hone(&[&["connection", "add", "lab", "client.properties", "--force"][..], &metrics].concat())
        .expect_code(0);
    let tested = hone(&["connection", "test", "lab"]).expect_code(1).stdout;
    assert!(tested.contains("ok: 1 broker(s)") && tested.contains("failed: "), "{tested}");
    hone(&["connection", "add", "lab", "client.properties", "--force"]).expect_code(0);
    hone(&["connection", "test", "lab"]).expect_code(0);

    let load =
        ["--duration", "0.3", "--warmup", "10", "--warmup-limit", "0s", "--max-lateness", "5s", "--quiet"];
    hone(&[&["load", "--connection", "lab", "--topic", "orders", "--make-topic"][..], &load].concat())
        .expect_code(0);
    // The words behind the verb are topics, since the connection names the broker.
    let xrayed =
        hone(&["batch", "xray", "--connection", "lab", "orders", "--quiet", "--json"]).expect_code(0);
    assert_eq!(xrayed.json()["body"]["topics"][0]["topic"], "orders");
    // So it does for what is measured.
    let live = ["--observe", "--topic", "orders", "--duration", "5m", "--step", "linger=20ms", "--quiet"];
    hone(&[&["batch", "prove", "--connection", "lab"][..], &live].concat()).expect_code(0);
    hone(&[&["batch", "prove", "--bootstrap", "127.0.0.1:1"][..], &live].concat())
        .expect_code(1)
        .expect_error("no connection to 127.0.0.1:1");
    hone(&[&["batch", "prove"][..], &live].concat()).expect_code(2).expect_error("--observe needs a topic");
    hone(&["batch", "prove", "--bootstrap", "here", "--step", "linger=20ms"])
        .expect_code(2)
        .expect_error("invalid broker address `here`");
    // What the command line names wins.
    hone(&[&["load", "127.0.0.1:1", "--connection", "lab"][..], &load].concat())
        .expect_code(1)
        .expect_error("no connection to 127.0.0.1:1");
    hone(&["connection", "remove", "lab"]).expect_code(0);
    hone(&["load", "--connection", "lab"]).expect_code(2).expect_error("unknown connection `lab`");
}

#[test]
fn an_imported_password_is_for_its_owner_alone() {
    let folder = tempfile::tempdir().unwrap();
    let text = "bootstrap.servers=b:1\nsecurity.protocol=SASL_SSL\nsasl.mechanisms=SCRAM-SHA-512\nsasl.username=ada\nsasl.password=s3cret\n";
    fs::write(folder.path().join("kcat.conf"), text).unwrap();
    hone(folder.path(), &["connection", "add", "prod", "kcat.conf"]).expect_code(0);
    let kept = folder.path().join("hone/connections");
    for (file, holds) in [("prod.toml", false), ("prod.password", true)] {
        let path = kept.join(file);
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600, "{file}");
        assert_eq!(fs::read_to_string(&path).unwrap().contains("s3cret"), holds, "{file}");
    }
    let listed = hone(folder.path(), &["connection", "list", "--json"]).expect_code(0).stdout;
    assert!(listed.contains("ada") && !listed.contains("s3cret"), "{listed}");
    hone(folder.path(), &["connection", "remove", "prod"]).expect_code(0);
    assert_eq!(fs::read_dir(&kept).unwrap().count(), 0, "the password goes with its connection");
}
