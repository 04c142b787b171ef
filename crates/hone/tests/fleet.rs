//! Profiles of many hosts meet in a folder or a bucket, and one is made of them.

use std::fs;
use std::path::{Path, PathBuf};

use hone_binary::go::{Function, Line, Location, Mapping, Profile, Sample, ValueType};
use hone_binary::lock::{Lock, LockedProgram, LockedTraining};
use hone_binary::profile_store::Keeper;
use hone_tool::{Call, Runner, System};

#[path = "../../hone-store/tests/server/mod.rs"]
mod server;
mod stage;
use stage::{Ran, hone_command};

const BUILD: &str = "c0ffee00c0ffee00c0ffee00c0ffee00c0ffee00";

/// A folder with profiles, and a place, with what is needed to get in.
struct Fleet {
    folder: tempfile::TempDir,
    place: String,
    settings: Vec<(String, String)>,
}

impl Fleet {
    fn in_a_folder() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let place = folder.path().join("place").display().to_string();
        Self { folder, place, settings: Vec::new() }
    }

    fn in_a_bucket() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let settings = server::bucket(folder.path(), "fleet");
        Self { folder, place: "s3://fleet/profiles".to_owned(), settings }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn profile(&self, args: &[&str]) -> Ran {
        let mut command = hone_command();
        command.current_dir(self.folder.path()).envs(self.settings.iter().cloned());
        Ran::of(command.arg("profile").args(args).output().unwrap())
    }

    /// A profile of BOLT with its lock, as a training leaves it.
    fn trained(&self, name: &str, text: &str, build: &str) -> PathBuf {
        let file = self.path(name);
        fs::write(&file, text).unwrap();
        let system = System::new(self.path("log")).unwrap();
        let program = LockedProgram {
            name: "service".to_owned(),
            sha256: "ab".repeat(32),
            build_id: Some(build.to_owned()),
            ..LockedProgram::default()
        };
        let training = LockedTraining { workload: Some(name.to_owned()), ..LockedTraining::default() };
        Keeper::new(&system, self.folder.path()).lock(&file, vec![program], vec![training]).unwrap();
        file
    }

    fn push(&self, file: &str, host: &str) -> Ran {
        self.profile(&["push", file, "--store", &self.place, "--host", host, "--json"]).expect_code(0)
    }

    /// Three hosts, one of them twice.
    fn filled(self) -> Self {
        for (name, count, host) in
            [("a1", 10, "a"), ("a2", 20, "a"), ("b", 300, "b"), ("c", 4_000, "c.example")]
        {
            let file = format!("{name}.fdata");
            self.trained(&file, &format!("1 main 0 1 work 0 0 {count}\n"), BUILD);
            self.push(&file, host);
            // Which one is newer is told by milliseconds.
            std::thread::sleep(std::time::Duration::from_millis(3));
        }
        self
    }

    fn merge(&self, more: &[&str]) -> Ran {
        let args = ["merge", "--store", &self.place, "--build-id", "c0ffee00", "-o", "sum.fdata", "--json"];
        self.profile(&[&args[..], more].concat())
    }

    fn merged(&self, more: &[&str]) -> serde_json::Value {
        self.merge(more).expect_code(0).json()["body"].clone()
    }
}

fn sum(of: &serde_json::Value) -> u64 {
    of["profile"]["total_count"].as_u64().unwrap()
}

fn profiles_meet_and_become_one(fleet: &Fleet) {
    let listed = fleet.profile(&["list", &fleet.place, "--json"]).expect_code(0).json()["body"].clone();
    assert_eq!(listed.as_array().unwrap().len(), 1, "{listed}");
    assert_eq!(
        (&listed[0]["build_id"], &listed[0]["profiles"], &listed[0]["hosts"], &listed[0]["kinds"]),
        (&BUILD.into(), &4.into(), &3.into(), &serde_json::json!(["fdata"]))
    );
    let again = fleet.push("b.fdata", "b").json();
    assert_eq!(again["body"][0]["was_there"], true);

    let by_hand =
        fleet.profile(&["merge", "a1.fdata", "a2.fdata", "b.fdata", "c.fdata", "-o", "hand.fdata", "--json"]);
    let by_hand = by_hand.expect_code(0).json()["body"].clone();
    let all = fleet.merged(&[]);
    assert_eq!(sum(&all), 4_330);
    assert_eq!(all["profile"], by_hand["profile"], "as of files");
    assert_eq!(fs::read(fleet.path("sum.fdata")).unwrap(), fs::read(fleet.path("hand.fdata")).unwrap());
    let lock = Lock::read(&fleet.path("sum.fdata")).unwrap().unwrap();
    let workloads: Vec<&str> =
        lock.trainings.iter().filter_map(|training| training.workload.as_deref()).collect();
    assert_eq!(workloads, ["a1.fdata", "a2.fdata", "b.fdata", "c.fdata"], "every training is told");
    assert_eq!(sum(&fleet.merged(&["--newest", "1"])), 4_320, "of host a the newer one");

    let same = fleet.merged(&["--same-for-hosts"]);
    let part = |at: usize| {
        let input = &same["inputs"][at];
        input["weight"].as_f64().unwrap() * input["total_count"].as_f64().unwrap()
    };
    let [a, b, c] = [part(0) + part(1), part(2), part(3)];
    assert!((a / b - 1.0).abs() < 1e-9 && (b / c - 1.0).abs() < 1e-9, "{same}");
    assert!((part(1) / part(0) - 2.0).abs() < 1e-9, "within a host by counts: {same}");

    let pull = |output: &str| {
        let args = ["pull", &fleet.place, "--build-id", BUILD, "-o", output, "--json"];
        fleet.profile(&args).expect_code(0).json()["body"].clone()
    };
    let pulled = pull("pulled");
    let files: Vec<&Path> = pulled["profiles"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| Path::new(one["file"].as_str().unwrap()))
        .collect();
    assert_eq!(files.len(), 4);
    assert_eq!(fs::read(fleet.path("").join(files[0])).unwrap(), fs::read(fleet.path("a1.fdata")).unwrap());
    assert_eq!(
        Lock::read(&fleet.path("").join(files[0])).unwrap(),
        Lock::read(&fleet.path("a1.fdata")).unwrap()
    );
    fs::remove_file(fleet.path("").join(files[0])).unwrap();
    let there: Vec<bool> = pull("pulled")["profiles"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| one["was_there"].as_bool().unwrap())
        .collect();
    assert_eq!(there, [false, true, true, true], "it goes on");
}

#[test]
fn profiles_of_hosts_meet_in_a_folder() {
    profiles_meet_and_become_one(&Fleet::in_a_folder().filled());
}

#[test]
fn profiles_of_hosts_meet_in_a_bucket() {
    let fleet = Fleet::in_a_bucket().filled();
    profiles_meet_and_become_one(&fleet);
    // Nobody is said to ask, and the machine has no identity: nobody listens there.
    let gone = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let settings = vec![("AWS_METADATA_ENDPOINT".to_owned(), format!("http://{gone}"))];
    let wrong = Fleet { settings, folder: tempfile::tempdir().unwrap(), place: fleet.place.clone() };
    let refused = wrong.profile(&["list", "s3://fleet/profiles", "--json"]);
    refused.expect_code(1).expect_error("s3://fleet/profiles").expect_error("next: set AWS_ACCESS_KEY_ID");
    let list = |place: &str| fleet.profile(&["list", place]);
    list("s3://fleets/profiles").expect_code(1).expect_error("next: check the spelling of the bucket");
}

#[test]
fn hosts_are_weighed_by_their_names() {
    let fleet = Fleet::in_a_folder().filled();
    let by_hand = |name: &str, how: [&str; 2], files: &[&str]| {
        let args = [&["merge", "-o", name], &how[..], files].concat();
        fleet.profile(&args).expect_code(0);
        fs::read(fleet.path(name)).unwrap()
    };
    let placed = || fs::read(fleet.path("sum.fdata")).unwrap();
    let all = ["a1.fdata", "a2.fdata", "b.fdata", "c.fdata"];
    // The first that fits counts.
    let merged = fleet.merged(&["--host-weight", "a=3", "--host-weight", "c.*=0.5", "--host-weight", "*=1"]);
    assert_eq!(sum(&merged), 3 * 30 + 300 + 2_000);
    assert_eq!(placed(), by_hand("hand.fdata", ["--weights", "3,3,1,0.5"], &all));
    let weights: Vec<f64> =
        merged["inputs"].as_array().unwrap().iter().map(|input| input["weight"].as_f64().unwrap()).collect();
    assert_eq!(weights, [3.0, 3.0, 1.0, 0.5]);
    let lock = Lock::read(&fleet.path("sum.fdata")).unwrap().unwrap();
    assert_eq!(
        lock.trainings.iter().map(|one| one.weight).collect::<Vec<_>>(),
        weights,
        "and its lock says so"
    );

    let last = ["--host-weight", "*=7", "--newest", "1"];
    fleet.merged(&last);
    assert_eq!(placed(), by_hand("hand.fdata", ["--weights", "7,7,7"], &all[1..]));
    // Of the sum a host has what it counts for, whatever it counted.
    let shared = ["--same-for-hosts", "--newest", "1", "--host-weight", "a=2", "--host-weight", "*=1"];
    fleet.merged(&shared);
    assert_eq!(placed(), by_hand("hand.fdata", ["--shares", "2,1,1"], &all[1..]));

    let idle = fleet.merged(&["--host-weight", "*=1", "--host-weight", "ue-*=3"]);
    assert_eq!(idle["notes"][0], "no host matches --host-weight ue-*=3");
    let unnamed = fleet.merge(&["--host-weight", "a=3"]).expect_code(1);
    unnamed
        .expect_error("no --host-weight matches 2 of 3 hosts, for example b")
        .expect_error("--host-weight '*=1'");
    fleet.merge(&["--host-weight", "a"]).expect_code(2).expect_error("use PATTERN=WEIGHT");
    fleet.merge(&["--host-weight", "a=0"]).expect_code(2).expect_error("from 0.001 to 1000");
    fleet.profile(&["merge", "a1.fdata", "--host-weight", "a=1", "-o", "x"]).expect_code(2);

    // What is left out counts for nothing.
    let inside = Path::new(&fleet.place).join(BUILD);
    let mut found = fs::read_dir(&inside).unwrap().map(|entry| entry.unwrap().path());
    let of_b = found.find(|path| {
        path.to_string_lossy().contains("_b_") && path.extension().is_some_and(|ending| ending == "fdata")
    });
    fs::write(of_b.unwrap(), "1 x 0 1 y 0 0 1\n").unwrap();
    fleet.merge(&["--host-weight", "*=2"]).expect_code(1).expect_error("was changed after the push");
    fleet.merged(&["--host-weight", "a=3", "--host-weight", "*=2", "--skip-broken"]);
    assert_eq!(placed(), by_hand("hand.fdata", ["--weights", "3,3,2"], &[all[0], all[1], all[3]]));
}

/// A host that was watched for a month, and one that was for a second.
#[test]
fn hosts_whose_counts_are_far_apart_have_the_same_share() {
    let fleet = Fleet::in_a_folder();
    let push = |name: &str, callee: &str, count: u64, host: &str| {
        let file = format!("{name}.fdata");
        fleet.trained(&file, &format!("1 main 0 1 {callee} 0 0 {count}\n"), BUILD);
        fleet.push(&file, host);
    };
    push("a", "busy", 5_000_000_000, "a");
    push("b", "idle", 4_000, "b");
    fleet.merged(&["--same-for-hosts"]);
    let expected = "1 main 0 1 busy 0 0 4000\n1 main 0 1 idle 0 0 4000\n";
    assert_eq!(fs::read_to_string(fleet.path("sum.fdata")).unwrap(), expected);
    push("c", "busy", 9_000_000_000_000_000_000, "c");
    let refused = fleet.merge(&["--same-for-hosts"]).expect_code(1);
    refused
        .expect_error("of host b can't get its share: it has 4000 counts")
        .expect_error("--host-weight")
        .expect_error("--newest");
}

#[test]
fn what_is_broken_in_a_place_is_named_and_left_out_only_when_told() {
    let fleet = Fleet::in_a_folder().filled();
    let inside = Path::new(&fleet.place).join(BUILD);
    let of = |part: &str| {
        let mut found = fs::read_dir(&inside).unwrap().map(|entry| entry.unwrap().path());
        found
            .find(|path| path.to_string_lossy().contains(part) && path.extension().unwrap() == "fdata")
            .unwrap()
    };
    // A bit that flipped; a lock that is gone; a lock of another profile.
    let whole = fs::read(of("_b_")).unwrap();
    fs::write(of("_b_"), [&whole[..], b"1 x 0 1 y 0 0 1\n"].concat()).unwrap();
    let name = of("_b_").file_name().unwrap().to_str().unwrap().to_owned();
    let refused = fleet.merge(&[]).expect_code(1);
    let refused =
        refused.expect_error(&name).expect_error("was changed after the push").expect_error("--skip-broken");
    assert!(!fleet.path("sum.fdata").exists(), "{}", refused.stderr);
    let merged = fleet.merged(&["--skip-broken"]);
    assert_eq!(sum(&merged), 4_030);
    assert!(merged["notes"][0].as_str().unwrap().contains(&format!("skipped: {name}")), "{merged}");
    let args = ["pull", &fleet.place, "--build-id", BUILD, "-o", "pulled"];
    fleet.profile(&args).expect_code(1).expect_error(&name);
    assert!(
        fs::read_dir(fleet.path("pulled")).unwrap().all(|entry| {
            let name = entry.unwrap().file_name().into_string().unwrap();
            name.starts_with("a-") && !name.ends_with(".part")
        }),
        "what came before stays, and nothing of the broken one"
    );
    fs::write(of("_b_"), &whole).unwrap();
    let lock = Lock::path(&of("c.example"));
    let text = fs::read(&lock).unwrap();
    fs::copy(Lock::path(&of("_b_")), &lock).unwrap();
    fleet.merge(&[]).expect_code(1).expect_error("has the lock of another profile");
    fs::remove_file(&lock).unwrap();
    fleet.merge(&[]).expect_code(1).expect_error(".lock is no longer in");
    fs::write(&lock, text).unwrap();
    assert_eq!(sum(&fleet.merged(&[])), 4_330);
    // What lies under a build that is not its own.
    let other = Path::new(&fleet.place).join("dead00dead00dead00dead00dead00dead00dead");
    fs::create_dir(&other).unwrap();
    for file in [of("_b_"), Lock::path(&of("_b_"))] {
        fs::copy(&file, other.join(file.file_name().unwrap())).unwrap();
    }
    let strayed = ["merge", "--store", &fleet.place, "--build-id", "dead00", "-o", "x.fdata"];
    fleet.profile(&strayed).expect_code(1).expect_error(&format!("its lock names {BUILD}"));
}

#[test]
fn what_makes_no_sense_is_refused_with_the_way_out() {
    let fleet = Fleet::in_a_folder().filled();
    let push =
        |file: &str, more: &[&str]| fleet.profile(&[&["push", file, "--store", &fleet.place], more].concat());
    fs::write(fleet.path("bare.fdata"), "1 main 0 1 work 0 0 7\n").unwrap();
    push("bare.fdata", &[])
        .expect_code(1)
        .expect_error("the build of bare.fdata is not known")
        .expect_error("--program FILE");
    push("a1.fdata", &["--build-id", "dead00"]).expect_code(1).expect_error("not to dead00");
    push("a1.fdata", &["--host", "a_b"]).expect_code(2).expect_error("invalid host name `a_b`");
    push("missing.fdata", &[]).expect_code(1).expect_error("missing.fdata");
    push("a1.fdata", &["--program", "a1.fdata"]).expect_code(1).expect_error("has no build-id");
    fs::write(fleet.path("zero.fdata"), "1 main 0 1 work 0 0 0\n").unwrap();
    push("zero.fdata", &["--build-id", BUILD]).expect_code(1).expect_error("no counter above 0");
    let merge =
        |id: &str| fleet.profile(&["merge", "--store", &fleet.place, "--build-id", id, "-o", "x.fdata"]);
    merge("dead00")
        .expect_code(1)
        .expect_error("has no profile of build dead00")
        .expect_error("hone profile list");
    merge("..").expect_code(1).expect_error("invalid build-id `..`");
    fleet.profile(&["merge", "--store", &fleet.place, "-o", "x.fdata"]).expect_code(2);
    fleet.profile(&["merge", "-o", "x.fdata"]).expect_code(2);
    fleet
        .profile(&["merge", "a1.fdata", "--store", &fleet.place, "--build-id", "c0ffee00", "-o", "x"])
        .expect_code(2);
    fleet
        .profile(&["pull", &fleet.place, "-o", "x"])
        .expect_code(2)
        .expect_error("--build-id ID or --program FILE");
    merge("c0f").expect_code(1).expect_error("has no profile of build c0f");
    fs::create_dir(Path::new(&fleet.place).join("c0ffee00dead")).unwrap();
    fs::write(Path::new(&fleet.place).join("c0ffee00dead/note.txt"), "x").unwrap();
    merge("c0ffee00").expect_code(1).expect_error("2 builds in");
    merge(BUILD).expect_code(0);
    let listed = fleet.profile(&["list", &fleet.place]).expect_code(0);
    assert!(listed.stdout.contains("note: 1 objects there are not profiles"), "{}", listed.stdout);
    assert!(!fleet.path("x").exists());

    // A profile that says nothing of its build gets a lock that does.
    push("bare.fdata", &["--build-id", "beef00beef", "--host", "bare"]).expect_code(0);
    push("bare.fdata", &["--build-id", "beef00", "--host", "bare"])
        .expect_code(2)
        .expect_error("beef00beef starts with it");
    let bare =
        fleet.profile(&["merge", "--store", &fleet.place, "--build-id", "beef", "-o", "bare-sum.fdata"]);
    bare.expect_code(0);
    let lock = Lock::read(&fleet.path("bare-sum.fdata")).unwrap().unwrap();
    assert_eq!(lock.programs[0].build_id.as_deref(), Some("beef00beef"));
    assert_eq!(lock.trainings[0].load.as_deref(), Some("the production load of bare"));
    assert!(!Lock::path(&fleet.path("bare.fdata")).exists(), "the user's folder is as it was");
    let empty = fleet.profile(&["list", "nowhere"]).expect_code(0);
    assert!(empty.stdout.contains("nowhere has no profiles"), "{}", empty.stdout);
    assert!(!fleet.path("nowhere").exists(), "a look makes no folder");
    fleet.profile(&["list", "a1.fdata"]).expect_code(1).expect_error("it is not a folder");
    let args = ["merge", "--store", &fleet.place, "--build-id", BUILD, "-o", "none/x.fdata"];
    fleet.profile(&args).expect_code(1).expect_error("the folder none does not exist");
    let args = ["pull", &fleet.place, "--build-id", BUILD, "-o", "a1.fdata"];
    fleet.profile(&args).expect_code(1).expect_error("name another one with --output");
}

/// A file of the user that has the name of a profile that is to come.
#[test]
fn what_lies_in_the_folder_already_is_never_replaced() {
    let fleet = Fleet::in_a_folder().filled();
    let pull = || fleet.profile(&["pull", &fleet.place, "--build-id", BUILD, "-o", "pulled", "--json"]);
    let first = pull().expect_code(0).json()["body"]["profiles"][2]["file"].as_str().unwrap().to_owned();
    fs::write(fleet.path(&first), "1 mine 0 1 own 0 0 5\n").unwrap();
    pull().expect_code(1).expect_error("has other contents than the profile of that name");
    assert_eq!(fs::read_to_string(fleet.path(&first)).unwrap(), "1 mine 0 1 own 0 0 5\n");
}

/// As a push of each would lay them, one by one: their contents, of which the first has its lock from a training.
fn laid(fleet: &Fleet, place: &str, sample: &Path, profiles: u32, contents: impl Fn(u32) -> Vec<u8>) {
    let inside = fleet.path(place).join(BUILD);
    fs::create_dir_all(&inside).unwrap();
    let locked = Lock::read(sample).unwrap().unwrap();
    let kind = sample.extension().unwrap().to_str().unwrap();
    for host in 0..profiles {
        let contents = contents(host);
        let sha256 = hone_binary::sha256_hex(&contents);
        let at = 1_700_000_000_000_u64 + u64::from(host);
        let name = format!("{at:013}_node-{host}_{}.{kind}", &sha256[..16]);
        let mut lock = locked.clone();
        lock.profile.sha256 = sha256;
        lock.profile.bytes = contents.len() as u64;
        fs::write(inside.join(&name), &contents).unwrap();
        fs::write(inside.join(format!("{name}.lock")), lock.to_text()).unwrap();
    }
}

/// The sum of all profiles of a place, and the most memory that the merge has taken.
fn merged_in(fleet: &Fleet, place: &str) -> (u64, u64) {
    let system = System::new(fleet.path("log")).unwrap();
    let call = Call::new(place, Path::new(env!("CARGO_BIN_EXE_hone")), fleet.folder.path());
    let call = call.args(["profile", "merge", "--json", "--build-id", BUILD, "-o", "sum", "--store"]);
    let done = system.run(&call.arg(fleet.path(place))).unwrap();
    let body: serde_json::Value = serde_json::from_str(&done.stdout_text().unwrap()).unwrap();
    (sum(&body["body"]), done.usage.max_rss_bytes)
}

const FEW: u32 = 50;
const MANY: u32 = 1_000;

/// Hardly more memory for a thousand than for fifty: each profile's lock and name are kept, some kilobytes.
#[track_caller]
fn of_a_few(few_bytes: u64, many_bytes: u64) {
    assert!(
        many_bytes < few_bytes + u64::from(MANY) * (16 << 10),
        "{few_bytes} bytes for {FEW}, {many_bytes} for {MANY}"
    );
}

/// One at a time is in memory, beside the sum.
#[test]
fn a_thousand_profiles_of_bolt_are_merged_in_the_memory_of_a_few() {
    let fleet = Fleet::in_a_folder();
    // 120 kB each, of the same functions.
    let text = |host: u32| -> String {
        (0..3_000)
            .map(|at| format!("1 function_{at} 0 1 other_{at} 0 0 {}\n", at % 7 + host % 3 + 1))
            .collect()
    };
    let sample = fleet.trained("sample.fdata", &text(0), BUILD);
    laid(&fleet, "few", &sample, FEW, |host| text(host).into_bytes());
    laid(&fleet, "many", &sample, MANY, |host| text(host).into_bytes());
    let expected = |hosts: u32| -> u64 {
        (0..hosts).map(|host| (0..3_000).map(|at| u64::from(at % 7 + host % 3 + 1)).sum::<u64>()).sum()
    };
    let ((few, few_bytes), (many, many_bytes)) = (merged_in(&fleet, "few"), merged_in(&fleet, "many"));
    assert_eq!((few, many), (expected(FEW), expected(MANY)));
    of_a_few(few_bytes, many_bytes);
}

/// A profile of Go with the stacks of one service, and what one host has counted in each. It was loaded where this host's linker has put it.
fn of_go(host: u32) -> Vec<u8> {
    const FUNCTIONS: usize = 400;
    const STACKS: usize = 2_000;
    let kind = |kind: &str, unit: &str| ValueType { kind: kind.to_owned(), unit: unit.to_owned() };
    let start = 0x40_0000 + u64::from(host % 5) * 0x1000;
    let mapping = Mapping {
        start,
        limit: start + 0x10_0000,
        file: "/srv/service".to_owned(),
        build_id: BUILD.to_owned(),
        ..Mapping::default()
    };
    let function = |at: usize| Function {
        name: format!("example.test/service/package{}.(*Server).handle{at}", at % 20),
        file: format!("/src/service/package{}/server.go", at % 20),
        start_line: at as i64 + 1,
        ..Function::default()
    };
    let location = |at: usize| Location {
        mapping: Some(0),
        address: start + 16 * at as u64,
        lines: vec![Line { function: at, line: at as i64 + 3, column: 0 }],
        folded: false,
    };
    let sample = |at: usize| Sample {
        stack: (0..12).map(|depth| (at * (depth + 1) + depth) % FUNCTIONS).collect(),
        values: vec![1, i64::from(host % 3) + 1],
        labels: Vec::new(),
    };
    let profile = Profile {
        sample_types: vec![kind("samples", "count"), kind("cpu", "nanoseconds")],
        samples: (0..STACKS).map(sample).collect(),
        mappings: vec![mapping],
        locations: (0..FUNCTIONS).map(location).collect(),
        functions: (0..FUNCTIONS).map(function).collect(),
        time_ns: 1_700_000_000_000_000_000 + i64::from(host),
        duration_ns: 45_000_000_000,
        period_type: kind("cpu", "nanoseconds"),
        period: 10_000_000,
        ..Profile::default()
    };
    profile.to_bytes()
}

#[test]
fn a_thousand_profiles_of_go_are_merged_in_the_memory_of_a_few() {
    let fleet = Fleet::in_a_folder();
    let sample = fleet.path("sample.pprof");
    fs::write(&sample, of_go(0)).unwrap();
    let system = System::new(fleet.path("log")).unwrap();
    let program = LockedProgram { build_id: Some(BUILD.to_owned()), ..LockedProgram::default() };
    let training = LockedTraining::default();
    Keeper::new(&system, fleet.folder.path()).lock(&sample, vec![program], vec![training]).unwrap();
    laid(&fleet, "few", &sample, FEW, of_go);
    laid(&fleet, "many", &sample, MANY, of_go);
    let expected = |hosts: u32| (0..hosts).map(|host| 2_000 * u64::from(host % 3 + 1)).sum::<u64>();
    let ((few, few_bytes), (many, many_bytes)) = (merged_in(&fleet, "few"), merged_in(&fleet, "many"));
    assert_eq!((few, many), (expected(FEW), expected(MANY)));
    of_a_few(few_bytes, many_bytes);
}
