//! Ledgers of several hosts meet in a folder or a bucket, and become one.

use std::fs;
use std::path::{Path, PathBuf};

use hone_ledger::Ledger;
use hone_record::LedgerEntry;

#[path = "../../hone-store/tests/server/mod.rs"]
mod server;
mod stage;
use stage::{Ran, hone_command};

struct Hosts {
    folder: tempfile::TempDir,
    place: String,
    settings: Vec<(String, String)>,
}

impl Hosts {
    fn in_a_folder() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let place = folder.path().join("place").display().to_string();
        Self { folder, place, settings: Vec::new() }
    }

    fn in_a_bucket() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let settings = server::bucket(folder.path(), "fleet");
        Self { folder, place: "s3://fleet/ledgers".to_owned(), settings }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn decide(&self, name: &str, at: u64) {
        let entry = LedgerEntry {
            at_unix_ms: at,
            verb: "compare".to_owned(),
            change: format!("change {at}"),
            ..LedgerEntry::default()
        };
        Ledger::at(self.path(name)).append(&entry).unwrap();
    }

    fn ledger(&self, args: &[&str]) -> Ran {
        let mut command = hone_command();
        command.current_dir(self.folder.path()).envs(self.settings.iter().cloned());
        Ran::of(command.arg("ledger").args(args).output().unwrap())
    }

    fn push(&self, name: &str, host: &str) -> Ran {
        self.ledger(&["push", name, "--to", &self.place, "--host", host, "--json"])
    }

    fn pull(&self, output: &str) -> Ran {
        self.ledger(&["pull", &self.place, "--output", output, "--json"])
    }
}

fn new_entries(ran: Ran) -> u64 {
    ran.expect_code(0).json()["body"]["new_entries"].as_u64().unwrap()
}

fn ledgers_become_one(hosts: &Hosts) {
    hosts.pull("all.jsonl").expect_code(1).expect_error("has no ledger").expect_error("hone ledger push");
    hosts.decide("a.jsonl", 1);
    hosts.decide("b.jsonl", 2);
    hosts.decide("b.jsonl", 3);
    assert_eq!(new_entries(hosts.push("a.jsonl", "a")), 1);
    assert_eq!(new_entries(hosts.push("b.jsonl", "b")), 2);
    hosts.pull("deep/er/all.jsonl").expect_code(0);
    hosts.decide("a.jsonl", 4);
    assert_eq!(new_entries(hosts.push("a.jsonl", "a")), 1);
    assert_eq!(new_entries(hosts.push("a.jsonl", "a")), 0);
    let pulled = hosts.pull("deep/er/all.jsonl").expect_code(0).json()["body"].clone();
    assert_eq!(pulled["entries"], 4);
    assert_eq!(pulled["hosts"], serde_json::json!([["a", 2, 1], ["b", 2, 0]]));
    let verified = hosts.ledger(&["verify", "deep/er/all.jsonl", "--json"]).expect_code(0).json();
    assert_eq!(verified["body"]["heads"].as_array().unwrap().len(), 2);

    // A ledger that was cut, or is another host's, takes nothing away there.
    fs::remove_file(hosts.path("a.jsonl")).unwrap();
    hosts.decide("a.jsonl", 9);
    let refused = hosts.push("a.jsonl", "a").expect_code(1);
    refused.expect_error("a.jsonl in").expect_error("has 2 entries that a.jsonl has not");
    assert_eq!(hosts.pull("again.jsonl").expect_code(0).json()["body"]["entries"], 4);
}

#[test]
fn ledgers_of_hosts_become_one_in_a_folder() {
    ledgers_become_one(&Hosts::in_a_folder());
}

#[test]
fn ledgers_of_hosts_become_one_in_a_bucket() {
    ledgers_become_one(&Hosts::in_a_bucket());
}

#[test]
fn a_copy_that_was_edited_is_refused_by_its_host() {
    let hosts = Hosts::in_a_folder();
    for (name, at) in [("a.jsonl", 1), ("b.jsonl", 2)] {
        hosts.decide(name, at);
        new_entries(hosts.push(name, &name[..1]));
    }
    let copy = Path::new(&hosts.place).join("b.jsonl");
    let text = fs::read_to_string(&copy).unwrap();
    fs::write(&copy, text.replace("change 2", "change 3")).unwrap();
    let refused = hosts.pull("all.jsonl").expect_code(1).expect_error("b.jsonl in");
    refused.expect_error("is not as it was written: line 1, this line was changed after it was written");
    assert!(!hosts.path("all.jsonl").exists(), "not even of the others");
    hosts.push("b.jsonl", "b").expect_code(1).expect_error("b.jsonl in");
    let own = fs::read_to_string(hosts.path("a.jsonl")).unwrap();
    fs::write(hosts.path("a.jsonl"), own.replace("change 1", "change 7")).unwrap();
    hosts.push("a.jsonl", "a").expect_code(1).expect_error("hone ledger verify");
    hosts.push("b.jsonl", "b/c").expect_code(2).expect_error("can't be a host's name");
    hosts.push("none.jsonl", "b").expect_code(1).expect_error("there is no ledger none.jsonl");
}
