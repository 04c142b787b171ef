//! Ledgers of several hosts meet in a folder or a bucket, and become one.

use std::fs;
use std::path::{Path, PathBuf};

use hone_binary::sha256_hex;
use hone_ledger::Ledger;
use hone_record::{Envelope, LedgerEntry, RecordRef, RecordRole};
use serde_json::Value;

#[path = "../../hone-report/tests/sample/mod.rs"]
mod sample;
#[path = "../../hone-store/tests/server/mod.rs"]
mod server;
mod stage;
#[path = "stage/tuning_run.rs"]
mod tuning_run;
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

    fn hone(&self, args: &[&str]) -> Ran {
        let mut command = hone_command();
        command.current_dir(self.folder.path()).envs(self.settings.iter().cloned());
        Ran::of(command.args(args).output().unwrap())
    }

    fn ledger(&self, args: &[&str]) -> Ran {
        self.hone(&[&["ledger"], args].concat())
    }

    fn push(&self, name: &str, host: &str) -> Ran {
        self.ledger(&["push", name, "--store", &self.place, "--host", host, "--json"])
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
    refused.expect_error("a.jsonl in").expect_error("has 2 entries that a.jsonl lacks");
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
    refused.expect_error("is not intact: line 1, this line was changed after it was written");
    assert!(!hosts.path("all.jsonl").exists(), "not even of the others");
    hosts.push("b.jsonl", "b").expect_code(1).expect_error("b.jsonl in");
    let own = fs::read_to_string(hosts.path("a.jsonl")).unwrap();
    fs::write(hosts.path("a.jsonl"), own.replace("change 1", "change 7")).unwrap();
    hosts.push("a.jsonl", "a").expect_code(1).expect_error("hone ledger verify");
    hosts.push("b.jsonl", "b/c").expect_code(2).expect_error("invalid host name");
    hosts.push("none.jsonl", "b").expect_code(1).expect_error("there is no ledger none.jsonl");
}

/// Runs as commands leave them, with a ledger that rests on them.
impl Hosts {
    fn runs(&self) -> PathBuf {
        self.path("machine/runs")
    }

    fn own_ledger(&self) -> Ledger {
        fs::create_dir_all(self.runs()).unwrap();
        Ledger::at(self.runs().join("ledger.jsonl"))
    }

    /// Decides on a change by these files of a run.
    fn enter(&self, run: &Path, change: &str, files: &[(&str, RecordRole)]) {
        let record = |(path, role): &(&str, RecordRole)| RecordRef {
            path: (*path).to_owned(),
            sha256: sha256_hex(&fs::read(run.join(path)).unwrap()),
            role: *role,
        };
        let entry = LedgerEntry {
            who: "ada@builder-3".to_owned(),
            change: change.to_owned(),
            workload: "orders".to_owned(),
            decision: "accepted".to_owned(),
            run: run.display().to_string(),
            records: files.iter().map(record).collect(),
            ..LedgerEntry::default()
        };
        self.own_ledger().append(&entry).unwrap();
    }

    /// The changes of the sample, each in a run of its own, and an optimisation and a tuning of which the entries name a window.
    fn have_run(&self) {
        for place in 0..sample::CHAPTERS {
            let run = self.runs().join(format!("broker-{place:03}"));
            for (path, _, window) in sample::chapter_windows(place) {
                write(&run.join(path), Envelope::new(window).to_text().unwrap());
            }
            let sha256 = |path: &str| sha256_hex(&fs::read(run.join(path)).unwrap());
            let entry =
                LedgerEntry { run: run.display().to_string(), ..sample::chapter_entry(place, sha256) };
            self.own_ledger().append(&entry).unwrap();
        }
        let run = self.runs().join("pgo-001");
        let (optimization, windows) = sample::optimization();
        for (path, window) in windows {
            write(&run.join(path), Envelope::new(window).to_text().unwrap());
        }
        write(&run.join("optimization.json"), Envelope::new(optimization).to_text().unwrap());
        self.enter(&run, "binary: pgo", &[("windows/validate-00-a.json", RecordRole::Before)]);
        let run = self.runs().join("orders-001");
        tuning_run::lay(&run);
        self.enter(&run, "client: linger=100ms", &[("windows/step-0-00-b.json", RecordRole::After)]);
    }

    /// The same paths, on a machine that never ran anything.
    fn on_another_machine(&self) {
        fs::rename(self.path("machine"), self.path("first")).unwrap();
    }

    fn push_records(&self, host: &str) -> Ran {
        self.ledger(&[
            "push",
            "machine/runs",
            "--store",
            &self.place,
            "--host",
            host,
            "--with-records",
            "--json",
        ])
    }

    fn pull_records(&self) -> Ran {
        self.ledger(&[
            "pull",
            &self.place,
            "--output",
            "machine/runs/ledger.jsonl",
            "--with-records",
            "--json",
        ])
    }

    /// What the ledger tells, in each form, and whether its records are what they were.
    fn told(&self) -> [String; 3] {
        let story =
            |form: &str| self.hone(&["report", "machine/runs/ledger.jsonl", form]).expect_code(0).stdout;
        let verified =
            self.ledger(&["verify", "machine/runs", "--with-records", "--json"]).expect_code(0).json();
        [story("--json"), story("--markdown"), verified["body"]["records"].to_string()]
    }

    /// What the page of a run tells, but for where it lies.
    fn told_of(&self, run: &Path) -> Value {
        let ran = self.hone(&["report", "--json", run.to_str().unwrap()]).expect_code(0);
        let mut story = ran.json()["body"].clone();
        story["source"] = Value::Null;
        for chapter in story["chapters"].as_array_mut().unwrap() {
            chapter["entry"]["run"] = Value::Null;
        }
        story
    }

    fn objects(&self, folder: &str) -> Vec<PathBuf> {
        let place = self.place.strip_prefix("s3://").map(|bucket| self.path("buckets").join(bucket));
        let folder = place.unwrap_or_else(|| PathBuf::from(&self.place)).join(folder);
        let mut found: Vec<PathBuf> =
            fs::read_dir(folder).into_iter().flatten().map(|entry| entry.unwrap().path()).collect();
        found.sort();
        found
    }

    fn object_of(&self, path: &Path) -> PathBuf {
        let sha256 = sha256_hex(&fs::read(path).unwrap());
        self.objects("records").into_iter().find(|one| one.ends_with(format!("{sha256}.json"))).unwrap()
    }

    /// The folder in which a run lies that was pulled.
    fn pulled(&self, name: &str) -> PathBuf {
        self.pulled_into("machine/runs", name)
    }

    fn pulled_into(&self, home: &str, name: &str) -> PathBuf {
        let found = fs::read_dir(self.path(home).join("records")).unwrap().map(|entry| entry.unwrap().path());
        let mut found = found.filter(|path| path.file_name().unwrap().to_str().unwrap().starts_with(name));
        found.next().unwrap()
    }
}

fn write(path: &Path, text: String) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

#[track_caller]
fn records(ran: &Ran) -> Value {
    ran.json()["body"]["records"].clone()
}

fn records_follow_their_ledger(hosts: &Hosts) {
    hosts.have_run();
    let told = hosts.told();
    let told_of_run = hosts.told_of(&hosts.runs().join("orders-001"));
    let count = |what: &str| told_of_run[what].as_array().unwrap().len();
    assert_eq!(["ceilings", "heatmaps", "capacities"].map(count), [2, 1, 1]);
    assert_eq!(told_of_run["chapters"][0]["entry"]["who"], "ada@builder-3", "as its ledger has it");
    assert!(told[0].contains("\"ceilings\": [\n") && !told[0].contains("no longer"), "{}", told[0]);
    let pushed = records(&hosts.push_records("first").expect_code(0));
    assert!(
        pushed["pushed"].as_u64().unwrap() > 20 && pushed["left_out"] == serde_json::json!([]),
        "{pushed}"
    );
    let objects = [hosts.objects("records"), hosts.objects("runs")];
    let again = records(&hosts.push_records("first").expect_code(0));
    assert_eq!((&again["pushed"], &again["were_there"]), (&0.into(), &pushed["pushed"]));
    assert_eq!([hosts.objects("records"), hosts.objects("runs")], objects, "nothing is written twice");

    hosts.on_another_machine();
    hosts.ledger(&["pull", &hosts.place, "--output", "machine/runs/ledger.jsonl"]).expect_code(0);
    let without = hosts.ledger(&["verify", "machine/runs", "--with-records", "--json"]).expect_code(0);
    assert_eq!(records(&without)["as_they_were"], 0, "only the ledger was asked for");
    let pulled = records(&hosts.pull_records().expect_code(0));
    assert_eq!((&pulled["gone"], &pulled["left_out"]), (&0.into(), &serde_json::json!([])));
    assert_eq!(hosts.told(), told, "the same story");
    let again = records(&hosts.pull_records().expect_code(0));
    assert_eq!((&again["taken"], &again["were_there"]), (&0.into(), &pulled["taken"]));
    // The run's own page, with the windows that no entry names.
    let run = hosts.pulled("pgo-001");
    hosts.hone(&["report", run.to_str().unwrap()]).expect_code(0);
    assert_eq!(hosts.told_of(&hosts.pulled("orders-001")), told_of_run);
    // Also where the ledger has another name.
    let elsewhere = ["pull", &hosts.place, "--output", "elsewhere/all.jsonl", "--with-records"];
    hosts.ledger(&elsewhere).expect_code(0);
    assert_eq!(hosts.told_of(&hosts.pulled_into("elsewhere", "orders-001")), told_of_run);

    // One that is lost here is taken again, also where the pull is of another place.
    let lost = hosts.pulled("broker-003").join("windows/000-b.json");
    fs::remove_file(&lost).unwrap();
    assert_eq!(records(&hosts.pull_records().expect_code(0))["taken"], 1);
    // What a run has concluded since takes the place of what it had, and what somebody has put there stays.
    let result = hosts.path("first/runs/pgo-001/optimization.json");
    let text = fs::read_to_string(&result).unwrap();
    fs::write(&result, text.replace("small validated batches", "small batches")).unwrap();
    fs::rename(hosts.path("machine"), hosts.path("second")).unwrap();
    fs::rename(hosts.path("first"), hosts.path("machine")).unwrap();
    assert_eq!(records(&hosts.push_records("first").expect_code(0))["pushed"], 1);
    hosts.on_another_machine();
    fs::rename(hosts.path("second"), hosts.path("machine")).unwrap();
    assert_eq!(records(&hosts.pull_records().expect_code(0))["taken"], 1);
    assert_eq!(fs::read(run.join("optimization.json")).unwrap(), fs::read(&result).unwrap());
    fs::write(run.join("optimization.json"), "{}").unwrap();
    let kept = records(&hosts.pull_records().expect_code(1));
    assert_eq!((&kept["taken"], kept["left_out"].as_array().unwrap().len()), (&0.into(), 1));
    fs::write(run.join("optimization.json"), text).unwrap();
    hosts.pull_records().expect_code(0);
    // And from here to a third place.
    let relayed = hosts.path("relayed").display().to_string();
    let args = ["push", "machine/runs", "--store", &relayed, "--host", "second", "--with-records", "--json"];
    let relayed = records(&hosts.ledger(&args).expect_code(0));
    assert_eq!((&relayed["pushed"], &relayed["gone"]), (&pushed["pushed"], &0.into()));
}

#[test]
fn records_follow_their_ledger_through_a_folder() {
    records_follow_their_ledger(&Hosts::in_a_folder());
}

#[test]
fn records_follow_their_ledger_through_a_bucket() {
    records_follow_their_ledger(&Hosts::in_a_bucket());
}

#[test]
fn records_that_are_gone_or_changed_are_told_and_nothing_wrong_is_pushed() {
    let hosts = Hosts::in_a_folder();
    hosts.have_run();
    let window =
        |place: usize, name: &str| hosts.runs().join(format!("broker-{place:03}/windows/{name}.json"));
    fs::remove_file(window(3, "000-b")).unwrap();
    let text = fs::read_to_string(window(4, "000-b")).unwrap();
    fs::write(window(4, "000-b"), format!("{text} ")).unwrap();
    let ran = hosts.push_records("first").expect_code(1);
    let pushed = records(&ran);
    assert_eq!(pushed["gone"], 1);
    let left_out = pushed["left_out"].as_array().unwrap();
    assert!(
        left_out.len() == 1 && left_out[0][0].as_str().unwrap().ends_with("broker-004/windows/000-b.json")
    );
    assert_eq!(left_out[0][1], "line 5 is based on it, and its content was changed");
    for object in hosts.objects("records") {
        let name = object.file_stem().unwrap().to_str().unwrap().to_owned();
        assert_eq!(sha256_hex(&fs::read(&object).unwrap()), name, "each is what its name says");
    }
    // Put back, it goes there, too.
    fs::write(window(4, "000-b"), text).unwrap();
    assert_eq!(records(&hosts.push_records("first").expect_code(0))["pushed"], 1);

    // A copy there that is broken is named and left out, and the others come.
    let broken = hosts.object_of(&window(0, "000-a"));
    fs::write(&broken, "{}").unwrap();
    hosts.on_another_machine();
    let ran = hosts.pull_records().expect_code(1);
    let pulled = records(&ran);
    let name = broken.file_name().unwrap().to_str().unwrap();
    let why = pulled["left_out"][0][1].as_str().unwrap();
    assert!(
        why.contains(name) && why.contains("was changed after the push") && why.contains("delete it"),
        "{why}"
    );
    assert_eq!((pulled["left_out"].as_array().unwrap().len(), &pulled["gone"]), (1, &1.into()));
    assert!(!hosts.pulled("broker-000").join("windows/000-a.json").exists());
    assert!(hosts.pulled("broker-000").join("windows/000-b.json").exists());
    let args = ["pull", &hosts.place, "--output", "machine/runs/ledger.jsonl", "--with-records"];
    let shown = hosts.ledger(&args).expect_code(1).stdout;
    assert!(shown.contains("Records: 0 pulled to") && shown.contains("skipped: "), "{shown}");
    // A file of the user's in its place stays.
    let own = hosts.pulled("broker-001").join("windows/000-a.json");
    fs::write(&own, "mine").unwrap();
    let pulled = records(&hosts.pull_records().expect_code(1));
    assert!(pulled.to_string().contains("another file is in its place and stays"), "{pulled}");
    assert_eq!(fs::read_to_string(own).unwrap(), "mine");
}

/// A ledger and a place are other people's texts.
#[test]
fn no_name_in_a_place_leads_out_of_the_folder() {
    let hosts = Hosts::in_a_folder();
    let text = "{}\n";
    let sha256 = sha256_hex(text.as_bytes());
    let names = ["../../evil.json", "/tmp/evil.json", "a/../../../evil.json", "x\n/evil.json", "evil.sh", ""];
    let mut hashes = Vec::new();
    for run in ["/elsewhere/../..", "/elsewhere/..\u{7}", "/"] {
        for name in names {
            let record = RecordRef { path: name.to_owned(), sha256: sha256.clone(), role: RecordRole::After };
            let entry = LedgerEntry { run: run.to_owned(), records: vec![record], ..LedgerEntry::default() };
            hashes.push(hosts.own_ledger().append(&entry).unwrap().hash);
        }
    }
    assert_eq!(new_entries(hosts.push_records("first")), hashes.len() as u64);
    let place = Path::new(&hosts.place);
    write(&place.join(format!("records/{sha256}.json")), text.to_owned());
    let list = serde_json::json!({"run": "x", "files": names.map(|name| (name, &sha256)).into_iter().collect::<std::collections::BTreeMap<_, _>>()}).to_string();
    let listed = format!("runs/{}_1700000000000_{}.json", hashes[0], sha256_hex(list.as_bytes()));
    write(&place.join(listed), list);
    for odd in ["runs/..json", "runs/x.json", "records/x.json"] {
        write(&place.join(odd), "x".to_owned());
    }
    hosts.on_another_machine();
    let pulled = records(&hosts.pull_records().expect_code(1));
    assert_eq!(
        (&pulled["taken"], pulled["left_out"].as_array().unwrap().len() >= names.len()),
        (&0.into(), true)
    );
    let evil = |folder: &Path| folder.join("evil.json").exists();
    assert!(
        ![hosts.path(""), hosts.path("machine"), hosts.runs(), PathBuf::from("/tmp")]
            .iter()
            .any(|at| evil(at))
    );
    assert!(!hosts.runs().join("records").exists(), "not even a folder");
}

/// Every machine numbers its runs from one on, at the same path.
#[test]
fn runs_of_one_name_on_two_hosts_stay_two() {
    let hosts = Hosts::in_a_folder();
    let run = hosts.runs().join("a-001");
    for (host, text) in [("one", "{\"of\": 1}"), ("two", "{\"of\": 2}")] {
        write(&run.join("windows/0.json"), text.to_owned());
        let record = RecordRef {
            path: "windows/0.json".to_owned(),
            sha256: sha256_hex(text.as_bytes()),
            role: RecordRole::After,
        };
        let entry = LedgerEntry {
            run: run.display().to_string(),
            change: host.to_owned(),
            records: vec![record],
            ..LedgerEntry::default()
        };
        hosts.own_ledger().append(&entry).unwrap();
        assert_eq!(records(&hosts.push_records(host).expect_code(0))["pushed"], 1);
        fs::rename(hosts.path("machine"), hosts.path(host)).unwrap();
    }
    assert_eq!(records(&hosts.pull_records().expect_code(0))["taken"], 2);
    let verified = hosts.ledger(&["verify", "machine/runs", "--with-records", "--json"]).expect_code(0);
    let expected = serde_json::json!({"as_they_were": 2, "gone": 0, "changed": []});
    assert_eq!(records(&verified), expected);
    // Also where this machine has a third one at that path.
    write(&run.join("windows/0.json"), "{\"of\": 3}".to_owned());
    let verified = hosts.ledger(&["verify", "machine/runs", "--with-records", "--json"]).expect_code(0);
    assert_eq!(records(&verified), expected);
}

/// Containers run the same experiment at the same path: what lies there is one of two runs, and its design is that of both.
#[test]
fn a_push_takes_no_other_hosts_run_for_its_own() {
    let hosts = Hosts::in_a_folder();
    let run = hosts.runs().join("a-001");
    let files = [("design.json", RecordRole::Design), ("windows/0.json", RecordRole::After)];
    let measure = |of: &str| {
        write(&run.join("design.json"), "{\"as\": \"asked\"}".to_owned());
        write(&run.join("windows/0.json"), format!("{{\"window\": \"{of}\"}}"));
        write(&run.join("comparison.json"), format!("{{\"result\": \"{of}\"}}"));
        hosts.enter(&run, of, &files);
    };
    measure("one");
    hosts.push_records("one").expect_code(0);
    fs::rename(hosts.path("machine"), hosts.path("one")).unwrap();

    // The other one has the entries of the first, and not its records.
    hosts.ledger(&["pull", &hosts.place, "--output", "machine/runs/ledger.jsonl"]).expect_code(0);
    measure("two");
    // Nothing that this one rests on is of its own alone.
    write(&hosts.runs().join("b-001/design.json"), "{}".to_owned());
    write(&hosts.runs().join("b-001/comparison.json"), "{}".to_owned());
    hosts.enter(&hosts.runs().join("b-001"), "two", &files[..1]);
    let verified = hosts.ledger(&["verify", "machine/runs", "--with-records", "--json"]).expect_code(0);
    let expected = serde_json::json!({"as_they_were": 3, "gone": 2, "changed": []});
    assert_eq!(records(&verified), expected, "the other host's files are gone, and not changed");
    hosts.push_records("two").expect_code(0);
    assert_eq!(hosts.objects("runs").len(), 2, "a list for each run that is known by a window");

    hosts.on_another_machine();
    hosts.pull_records().expect_code(0);
    for line in hosts.own_ledger().read().unwrap().lines.iter().take(2) {
        let folder = hosts.pulled(&format!("a-001-{}", &line.hash[..16]));
        let [window, result] =
            ["windows/0.json", "comparison.json"].map(|name| fs::read_to_string(folder.join(name)).unwrap());
        let of = &line.entry.change;
        assert!(window.contains(of) && result.contains(of), "{of}: {window} {result}");
    }
}

/// Who has pulled once, and pushes later, has nothing newer.
#[test]
fn an_old_copy_does_not_come_back_in_place_of_what_came_since() {
    let hosts = Hosts::in_a_folder();
    hosts.have_run();
    hosts.push_records("first").expect_code(0);
    hosts.on_another_machine();
    hosts.pull_records().expect_code(0);
    let result = hosts.path("first/runs/pgo-001/optimization.json");
    let text = fs::read_to_string(&result).unwrap().replace("small validated batches", "small batches");
    fs::write(&result, &text).unwrap();
    let take_turns = |leaves: &str, comes: &str| {
        fs::rename(hosts.path("machine"), hosts.path(leaves)).unwrap();
        fs::rename(hosts.path(comes), hosts.path("machine")).unwrap();
    };
    take_turns("second", "first");
    hosts.push_records("first").expect_code(0);
    take_turns("first", "second");
    let lists = hosts.objects("runs");
    hosts.push_records("second").expect_code(0);
    assert_eq!(hosts.objects("runs"), lists, "the old one was there before");
    // Nor does one that has lost something.
    let lost = hosts.pulled("pgo-001").join("windows/plain-00-a.json");
    fs::remove_file(&lost).unwrap();
    hosts.push_records("second").expect_code(0);
    assert_eq!(hosts.objects("runs"), lists, "a part of it is no news");
    hosts.pull_records().expect_code(0);
    assert!(lost.is_file());
    assert_eq!(fs::read_to_string(hosts.pulled("pgo-001").join("optimization.json")).unwrap(), text);
}

#[test]
fn a_result_that_can_not_be_read_keeps_nothing_else_back() {
    let hosts = Hosts::in_a_folder();
    hosts.have_run();
    let result = hosts.runs().join("pgo-001/optimization.json");
    fs::remove_file(&result).unwrap();
    // Opens, and can't be read.
    std::os::unix::fs::symlink("/proc/self/mem", &result).unwrap();
    let ran = hosts.push_records("first").expect_code(1);
    let left_out = records(&ran)["left_out"].clone();
    assert_eq!(left_out.as_array().unwrap().len(), 1, "{left_out}");
    assert!(left_out[0][0].as_str().unwrap().ends_with("pgo-001/optimization.json"), "{left_out}");
    assert!(left_out[0][1].as_str().unwrap().contains("the page of its run needs it"), "{left_out}");
    assert_eq!(ran.json()["body"]["new_entries"], sample::CHAPTERS + 2, "the ledger is there");
    assert_eq!(hosts.objects("runs").len(), 1, "with what the other run has concluded");
}
