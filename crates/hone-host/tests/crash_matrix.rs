//! A change that is stopped anywhere, with another process's writes in between, and rolled back: every attribute has its earlier value, or
//! is reported.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;

use hone_host::change::{ChangeError, Fate, Outcome, Step, apply, revert, snapshot, touched};
use hone_host::disks::look;
use hone_host::journal::{self, Begun, Entry, FORMAT, JournalError, Log, State, Willing};
use hone_host::kernel::{Kernel, plain_value};
use hone_host::knob::{DeviceKnob, by_name, rank, rival};
use hone_host::later_boot;

mod model;
use model::Model;

/// The process ends when the count is used up.
#[derive(Clone)]
struct Fuse(Rc<Cell<u32>>);

struct Killed;

impl Fuse {
    fn burn(&self) {
        let left = self.0.get();
        if left == 0 {
            std::panic::panic_any(Killed);
        }
        self.0.set(left - 1);
    }
}

/// A journal's text that survives the process. Its last line may be cut off.
struct Paper<'a> {
    text: &'a RefCell<String>,
    fuse: Fuse,
}

impl Log for Paper<'_> {
    fn append(&mut self, entry: &Entry) -> Result<(), JournalError> {
        let line = serde_json::to_string(entry).unwrap() + "\n";
        self.fuse.burn();
        self.text.borrow_mut().push_str(&line[..line.len() / 2]);
        self.fuse.burn();
        self.text.borrow_mut().push_str(&line[line.len() / 2..]);
        self.fuse.burn();
        Ok(())
    }
}

/// A kernel whose caller may be killed before and after each write.
struct Deadly<'a> {
    model: &'a Model,
    fuse: Fuse,
}

impl Kernel for Deadly<'_> {
    fn read(&self, path: &str) -> std::io::Result<String> {
        self.model.read(path)
    }

    fn write(&self, path: &str, value: &str) -> std::io::Result<()> {
        self.fuse.burn();
        let answer = self.model.write(path, value);
        self.fuse.burn();
        answer
    }

    fn list(&self, folder: &str) -> Vec<String> {
        self.model.list(folder)
    }
}

/// Numbers from a seed (SplitMix64).
struct Dice(u64);

impl Dice {
    fn below(&mut self, sides: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) % sides as u64) as usize
    }

    fn one<'a, T>(&mut self, of: &'a [T]) -> &'a T {
        &of[self.below(of.len())]
    }
}

/// Values that a knob may be given, by us and by others.
fn values(path: &str) -> &'static [&'static str] {
    match path.rsplit('/').next().unwrap() {
        "scheduler" => &["none", "mq-deadline", "kyber", "bfq"],
        "nr_requests" => &["32", "64", "100", "128"],
        "read_ahead_kb" => &["0", "256", "4096"],
        "wbt_lat_usec" => &["0", "2000", "75000"],
        "nomerges" => &["0", "1", "2"],
        "swappiness" => &["1", "10", "60"],
        "dirty_ratio" | "dirty_background_ratio" => &["0", "5", "40", "80"],
        "dirty_bytes" | "dirty_background_bytes" => &["1073741824", "268435456"],
        "dirty_expire_centisecs" => &["500", "12000"],
        "enabled" | "defrag" => &["always", "madvise", "never"],
        _ => &["7", "400", "9000"],
    }
}

const WANTED: [(&str, Option<&str>); 12] = [
    ("queue.scheduler", Some("vda")),
    ("queue.nr_requests", Some("vda")),
    ("queue.read_ahead_kb", Some("vda")),
    ("queue.scheduler", Some("vdb")),
    ("queue.nr_requests", Some("vdb")),
    ("vm.swappiness", None),
    ("vm.dirty_ratio", None),
    ("vm.dirty_bytes", None),
    ("vm.dirty_background_bytes", None),
    ("vm.dirty_expire_centisecs", None),
    ("transparent_hugepage.enabled", None),
    ("transparent_hugepage.defrag", None),
];

fn random_steps(model: &Model, dice: &mut Dice) -> Vec<Step> {
    let mut steps: Vec<Step> = Vec::new();
    for (name, device) in WANTED {
        let place = DeviceKnob::new(by_name(name).unwrap(), device);
        let rivals = steps.iter().any(|step| Some(&step.path) == place.rival().as_ref());
        if dice.below(2) == 0 || rivals {
            continue;
        }
        let (path, closure) = (place.path(), place.closure(model));
        let value = (*dice.one(values(&path))).to_owned();
        steps.push(Step { path, value, closure });
    }
    steps
}

/// Another process's writes; returns the attributes that they were meant for.
fn foreign_writes(model: &Model, dice: &mut Dice) -> BTreeSet<String> {
    let paths: Vec<String> = model.all().into_keys().collect();
    let mut touched = BTreeSet::new();
    for _ in 0..dice.below(4) {
        let path = dice.one::<String>(&paths).clone();
        if model.write(&path, dice.one::<&str>(values(&path))).is_ok() {
            touched.extend(rival(&path));
            touched.insert(path);
        }
    }
    touched
}

struct Case {
    model: Model,
    text: RefCell<String>,
    begun: Begun,
    steps: Vec<Step>,
}

fn case(dice: &mut Dice) -> Case {
    let model = Model::new(&[("vda", "mq-deadline"), ("vdb", "none")]);
    // Not everybody starts with the kernel's own values.
    for _ in 0..dice.below(6) {
        foreign_writes(&model, dice);
    }
    let steps = random_steps(&model, dice);
    let begun = Begun {
        journal: FORMAT,
        id: "case".to_owned(),
        before: snapshot(&model, &touched(&steps)),
        wanted: steps.iter().map(|step| (step.path.clone(), step.value.clone())).collect(),
        disks: ["vda", "vdb"].map(|disk| look(&model, disk)).into(),
        ..Begun::default()
    };
    Case { model, text: RefCell::default(), begun, steps }
}

/// Runs something that may be killed after some steps; answers whether it was.
fn killed_within(steps: u32, run: impl FnOnce(&Fuse)) -> bool {
    let fuse = Fuse(Rc::new(Cell::new(steps)));
    match catch_unwind(AssertUnwindSafe(|| run(&fuse))) {
        Ok(()) => false,
        Err(cause) if cause.is::<Killed>() => true,
        Err(cause) => std::panic::resume_unwind(cause),
    }
}

/// As a process that begins on the journal of another.
fn reopened(text: &RefCell<String>) -> State {
    let whole = text.borrow().rfind('\n').map_or(0, |last| last + 1);
    text.borrow_mut().truncate(whole);
    journal::parse(&text.borrow()).unwrap()
}

fn recovered(case: &Case, fuse: &Fuse, force: bool) -> Vec<Outcome> {
    let state = reopened(&case.text);
    if state.closed {
        return Vec::new();
    }
    let kernel = Deadly { model: &case.model, fuse: fuse.clone() };
    let mut paper = Paper { text: &case.text, fuse: fuse.clone() };
    revert(&kernel, &mut paper, &state, force).unwrap()
}

const FOR_EVER: u32 = u32::MAX;

fn silence_kills() {
    let usual = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        if !info.payload().is::<Killed>() {
            usual(info);
        }
    }));
}

fn attempt(case: &Case, fuse: &Fuse) {
    let mut paper = Paper { text: &case.text, fuse: fuse.clone() };
    paper.append(&Entry::Begun(Box::new(case.begun.clone()))).unwrap();
    let kernel = Deadly { model: &case.model, fuse: fuse.clone() };
    // What the kernel refuses ends the change as a kill does; the way back is the same.
    let _ = apply(&kernel, &mut paper, &case.begun.before, &case.steps, &|| false);
}

fn check(case: &Case, outcomes: &[Outcome], foreign: &BTreeSet<String>, told: &str) {
    let all = case.model.all();
    for (path, before) in &case.begun.before {
        let (now, before) = (all.get(path), before.as_deref().map(plain_value));
        let named = outcomes.iter().find(|outcome| outcome.path == *path);
        match named.map(|outcome| outcome.fate) {
            None => assert!(
                now == before.as_ref() || foreign.contains(path) || outcomes.is_empty(),
                "{told}: {path} is not named"
            ),
            Some(Fate::Drifted | Fate::Failed) => {
                assert!(!foreign.is_empty(), "{told}: {:?} without another process", named.unwrap());
                assert_ne!(now, before.as_ref(), "{told}: {path} is restored, but reported as not restored");
            }
            Some(_) => {
                assert_eq!(now, before.as_ref(), "{told}: {path} is not restored, but reported as restored")
            }
        }
    }
}

/// Values that others have set stay, unless they are the old value or the change's. Queues, and attributes that huge pages change, are
/// excluded. A pair whose members disable each other is one setting.
fn not_written_over(
    case: &Case,
    set: &BTreeMap<String, String>,
    foreign: &BTreeSet<String>,
    told: &str,
) -> usize {
    let all = case.model.all();
    let mut kept = 0;
    for path in foreign.iter().filter(|path| case.begun.before.contains_key(*path)) {
        let is_reset = ["/scheduler", "/nr_requests", "/iosched/", "/wbt_lat_usec", "/min_free_kbytes"];
        if is_reset.iter().any(|part| path.contains(part)) {
            continue;
        }
        let unit = |values: &BTreeMap<String, String>| {
            (values.get(path).cloned(), rival(path).and_then(|rival| values.get(&rival).cloned()))
        };
        let before: BTreeMap<String, String> = case
            .begun
            .before
            .iter()
            .filter_map(|(path, text)| Some((path.clone(), plain_value(text.as_deref()?))))
            .collect();
        let mut ours = before.clone();
        for step in case.steps.iter().filter(|step| step.closure.contains(path)) {
            ours.extend(rival(&step.path).map(|rival| (rival, "0".to_owned())));
            ours.insert(step.path.clone(), step.value.clone());
        }
        if unit(set) != unit(&before) && unit(set) != unit(&ours) {
            assert_eq!(unit(&all), unit(set), "{told}: {path} was overwritten");
            kept += 1;
        }
    }
    kept
}

#[test]
fn killed_after_every_step_everything_comes_back() {
    silence_kills();
    let (mut cases, mut kills) = (0, 0);
    for seed in 0..20 {
        for steps in 0.. {
            let case = case(&mut Dice(seed));
            let before = case.model.all();
            let killed = killed_within(steps, |fuse| attempt(&case, fuse));
            // The way back is killed, too, a little later each time.
            for again in (3..).step_by(5) {
                if !killed_within(again, |fuse| drop(recovered(&case, fuse, false))) {
                    break;
                }
                kills += 1;
            }
            assert_eq!(case.model.all(), before, "seed {seed}, killed after {steps} steps");
            cases += 1;
            if !killed {
                break;
            }
        }
    }
    assert!(cases >= 500 && kills >= 500, "{cases} cases, {kills} kills of the way back");
}

#[test]
fn what_others_set_meanwhile_is_named_and_left() {
    silence_kills();
    let (mut cases, mut drifts, mut kept) = (0, 0, 0);
    for seed in 0..60 {
        for steps in (0..).step_by(3) {
            let mut dice = Dice(seed + 1_000);
            let case = case(&mut dice);
            let killed = killed_within(steps, |fuse| attempt(&case, fuse));
            let foreign = foreign_writes(&case.model, &mut dice);
            let set = case.model.all();
            let mut outcomes = Vec::new();
            killed_within(FOR_EVER, |fuse| outcomes = recovered(&case, fuse, false));
            let told = format!("seed {seed}, killed after {steps} steps, foreign {foreign:?}");
            check(&case, &outcomes, &foreign, &told);
            for outcome in outcomes.iter().filter(|outcome| outcome.fate == Fate::Drifted) {
                drifts += 1;
                if outcome.why.as_deref() == Some("someone else has set it since") {
                    assert_eq!(case.model.all().get(&outcome.path), set.get(&outcome.path), "{told}");
                }
            }
            kept += not_written_over(&case, &set, &foreign, &told);
            // What the journal does not know was never touched.
            for (path, value) in &set {
                if !case.begun.before.contains_key(path) && !path.contains("/iosched/") {
                    assert_eq!(case.model.all().get(path), Some(value), "{told}: {path}");
                }
            }
            cases += 1;
            if !killed {
                break;
            }
        }
    }
    assert!(cases >= 500 && drifts >= 100 && kept >= 100, "{cases} cases, {drifts} drifts, {kept} kept");
}

#[test]
fn by_force_everything_comes_back() {
    silence_kills();
    for seed in 0..120 {
        let mut dice = Dice(seed + 5_000);
        let case = case(&mut dice);
        let before = case.model.all();
        killed_within(FOR_EVER, |fuse| attempt(&case, fuse));
        foreign_writes(&case.model, &mut dice);
        killed_within(FOR_EVER, |fuse| drop(recovered(&case, fuse, true)));
        for path in case.begun.before.keys() {
            assert_eq!(case.model.all().get(path), before.get(path), "seed {seed}: {path}");
        }
    }
}

/// A change that was confirmed, and a boot in which its files have set what was asked for.
fn booted(seed: u64) -> Case {
    let mut case = case(&mut Dice(seed));
    killed_within(FOR_EVER, |fuse| attempt(&case, fuse));
    let fuse = Fuse(Rc::new(Cell::new(FOR_EVER)));
    let mut paper = Paper { text: &case.text, fuse };
    paper.append(&Entry::Persisting { files: vec!["etc/sysctl.d/99-zz-hone.conf".to_owned()] }).unwrap();
    paper.append(&Entry::Confirmed).unwrap();
    // Each boot begins with the kernel's own values.
    case.model = Model::new(&[("vda", "mq-deadline"), ("vdb", "none")]);
    set_by_files(&case);
    case
}

fn set_by_files(case: &Case) {
    let mut wanted = case.begun.wanted.clone();
    wanted.sort_by_key(|(path, _)| rank(path));
    for (path, value) in wanted {
        // What the kernel does not take at a boot is not in force there.
        let _ = case.model.write(&path, &value);
    }
}

/// Like a process that rolls back, in a later boot, what its files have set.
fn recovered_later(case: &Case, fuse: &Fuse) {
    let state = reopened(&case.text);
    if state.closed {
        return;
    }
    let here = later_boot::here(&case.model, &state, "later").unwrap().state;
    let kernel = Deadly { model: &case.model, fuse: fuse.clone() };
    let mut paper = Paper { text: &case.text, fuse: fuse.clone() };
    if state.begun.boot_id != "later" {
        let Begun { boot_id, disks, before, .. } = here.begun.clone();
        paper.append(&Entry::Again { boot_id, disks, before, left: here.left.clone() }).unwrap();
    }
    revert(&kernel, &mut paper, &here, false).unwrap();
}

#[test]
fn over_a_boot_and_killed_after_every_step_what_the_files_set_comes_back() {
    silence_kills();
    let (mut cases, mut restored) = (0, 0);
    for seed in 0..12 {
        for steps in (0..).step_by(2) {
            let case = booted(seed + 11_000);
            let state = reopened(&case.text);
            let here = later_boot::here(&case.model, &state, "later").unwrap();
            let before = here.state.begun.before.clone();
            let others = case.model.all();
            let killed = killed_within(steps, |fuse| recovered_later(&case, fuse));
            killed_within(FOR_EVER, |fuse| recovered_later(&case, fuse));
            assert!(reopened(&case.text).closed);
            let all = case.model.all();
            for (path, text) in &before {
                let text = text.as_deref().map(plain_value);
                assert_eq!(all.get(path), text.as_ref(), "seed {seed}, killed after {steps} steps: {path}");
                restored += u32::from(others.get(path) != all.get(path));
            }
            // What was asked for and is in force is all of ours; what the boot has of its own stays.
            for (path, value) in &case.begun.wanted {
                assert!(before.contains_key(path) || others.get(path) != Some(value), "seed {seed}: {path}");
            }
            let is_own = |path: &&String| !before.contains_key(*path) && !path.contains("/iosched/");
            for path in others.keys().filter(is_own) {
                assert_eq!(all.get(path), others.get(path), "seed {seed}: {path} is of this boot");
            }
            cases += 1;
            if !killed {
                break;
            }
        }
    }
    assert!(cases >= 200 && restored >= 200, "{cases} cases, {restored} values");
}

/// A disk on which nothing more fits.
struct Full;

impl Log for Full {
    fn append(&mut self, _entry: &Entry) -> Result<(), JournalError> {
        Err(JournalError::Locked { path: "full".into() })
    }
}

#[test]
fn without_room_for_the_journal_nothing_is_changed_and_everything_comes_back() {
    let case = case(&mut Dice(42));
    let before = case.model.all();
    assert!(!case.steps.is_empty());
    assert!(apply(&case.model, &mut Full, &case.begun.before, &case.steps, &|| false).is_err());
    assert_eq!(case.model.all(), before);
    killed_within(FOR_EVER, |fuse| attempt(&case, fuse));
    assert_ne!(case.model.all(), before);
    let mut willing = Willing::over(Ok(Full));
    revert(&case.model, &mut willing, &reopened(&case.text), false).unwrap();
    assert_eq!(case.model.all(), before);
    assert!(willing.unkept.is_some());
}

/// A process that is stopped between its last check of the clock and its last write continues after the watchdog's rollback. Its writes
/// then do not count as a change, and are rolled back once more.
#[test]
fn a_last_write_behind_the_guard_is_taken_back() {
    let mut behind = 0;
    for seed in 0..60 {
        let case = case(&mut Dice(seed + 9_000));
        let before = case.model.all();
        let fuse = Fuse(Rc::new(Cell::new(FOR_EVER)));
        let mut paper = Paper { text: &case.text, fuse: fuse.clone() };
        paper.append(&Entry::Begun(Box::new(case.begun.clone()))).unwrap();
        let looks = Cell::new(0_usize);
        let late = || {
            looks.set(looks.get() + 1);
            if looks.get() > case.steps.len() {
                return true;
            }
            if looks.get() == case.steps.len() {
                // In time by the clock; the guard comes between this answer and the write.
                drop(recovered(&case, &fuse, false));
            }
            false
        };
        let ended = apply(&case.model, &mut paper, &case.begun.before, &case.steps, &late);
        // The watchdog may have reset the value that the last write would have changed, which ends the change, too.
        let changed = matches!(ended, Err(ChangeError::Changed { .. }));
        assert!(
            changed || looks.get() == case.steps.len() + 1,
            "seed {seed}: no check came after the last write"
        );
        assert!(ended.is_err(), "seed {seed}: a rolled back change is reported as a change");
        behind += u32::from(case.model.all() != before);
        let state = reopened(&case.text);
        revert(&case.model, &mut paper, &state, false).unwrap();
        assert_eq!(case.model.all(), before, "seed {seed}");
    }
    assert!(behind > 10, "only {behind} writes came behind the guard");
}

/// If another process sets an attribute between the check and the write, its value stays. Otherwise the rollback would restore an outdated
/// value.
#[test]
fn what_others_set_before_our_write_ends_the_change_and_is_left() {
    let mut ended = 0;
    for seed in 0..60 {
        let case = case(&mut Dice(seed + 12_000));
        let Some(step) = case.steps.iter().find(|step| !step.path.contains("/queue/")) else { continue };
        let before = case.model.all();
        let wanted = values(&step.path);
        let foreign = wanted
            .iter()
            .find(|value| **value != step.value && **value != before[&step.path] && **value != "0");
        let Some(foreign) = foreign else { continue };
        let fuse = Fuse(Rc::new(Cell::new(FOR_EVER)));
        let mut paper = Paper { text: &case.text, fuse };
        paper.append(&Entry::Begun(Box::new(case.begun.clone()))).unwrap();
        case.model.write(&step.path, foreign).unwrap();
        let set = case.model.all();
        let answer = apply(&case.model, &mut paper, &case.begun.before, &case.steps, &|| false);
        let Err(ChangeError::Changed { path, before: was, found }) = answer else {
            panic!("seed {seed}: {} was `{foreign}`, and the change ended with {answer:?}", step.path);
        };
        assert!(path == step.path || rival(&path).as_ref() == Some(&step.path), "seed {seed}: {path}");
        assert_eq!((&was, &found), (&before[&path], &set[&path]), "seed {seed}");
        revert(&case.model, &mut paper, &reopened(&case.text), false).unwrap();
        assert_eq!(case.model.all(), set, "seed {seed}: what others set is left, and all else is back");
        ended += 1;
    }
    assert!(ended > 30, "only {ended} cases");
}

#[test]
fn what_the_kernel_refuses_or_rounds_ends_the_change() {
    let model = Model::new(&[("vda", "none")]);
    let before = model.all();
    for (name, device, value) in [
        ("vm.dirty_ratio", None, "101"),
        ("vm.swappiness", None, "low"),
        ("queue.nr_requests", Some("vda"), "256"),
        ("queue.nr_requests", Some("vda"), "3"),
        ("queue.read_ahead_kb", Some("vda"), "5"),
        ("queue.scheduler", Some("vda"), "noop"),
    ] {
        let place = DeviceKnob::new(by_name(name).unwrap(), device);
        let closure = place.closure(&model);
        let steps = [Step { path: place.path(), value: value.to_owned(), closure }];
        let text = RefCell::default();
        let fuse = Fuse(Rc::new(Cell::new(FOR_EVER)));
        let mut paper = Paper { text: &text, fuse };
        let begun = Begun { journal: FORMAT, before: snapshot(&model, &touched(&steps)), ..Begun::default() };
        let known = begun.before.clone();
        paper.append(&Entry::Begun(Box::new(begun))).unwrap();
        assert!(apply(&model, &mut paper, &known, &steps, &|| false).is_err(), "{name} {value}");
        revert(&model, &mut paper, &reopened(&text), false).unwrap();
        assert_eq!(model.all(), before, "{name} {value}");
    }
    model.make_read_only();
    assert_eq!(model.write("proc/sys/vm/swappiness", "1").unwrap_err().raw_os_error(), Some(libc::EROFS));
}

/// An attribute that another process keeps busy for a moment ends a change, but does not prevent its rollback.
#[test]
fn what_is_busy_for_a_moment_comes_back_all_the_same() {
    let mut dice = Dice(77);
    let mut ended = 0;
    for number in 0..150 {
        let case = case(&mut dice);
        let paths: Vec<String> = case.begun.before.keys().cloned().collect();
        if paths.is_empty() {
            continue;
        }
        case.model.make_busy(dice.one::<String>(&paths), 1);
        let text = &case.text;
        killed_within(FOR_EVER, |fuse| attempt(&case, fuse));
        ended += u32::from(!text.borrow().contains("\"applied\""));
        for _ in 0..2 {
            case.model.make_busy(dice.one::<String>(&paths), 2);
        }
        let fuse = Fuse(Rc::new(Cell::new(FOR_EVER)));
        let outcomes = recovered(&case, &fuse, false);
        check(&case, &outcomes, &BTreeSet::new(), &format!("case {number}"));
    }
    assert!(ended > 10, "only {ended} changes met what was busy");
}

#[test]
fn what_stays_busy_is_named_and_the_rest_comes_back() {
    let model = Model::new(&[("vda", "mq-deadline")]);
    let place = |name: &str| DeviceKnob::new(by_name(name).unwrap(), None);
    let step = |name: &str, value: &str| Step {
        path: place(name).path(),
        value: value.to_owned(),
        closure: place(name).closure(&model),
    };
    let steps = [step("vm.swappiness", "1"), step("vm.dirty_expire_centisecs", "12000")];
    let begun = Begun { journal: FORMAT, before: snapshot(&model, &touched(&steps)), ..Begun::default() };
    let case = Case { text: RefCell::default(), begun, steps: steps.to_vec(), model };
    killed_within(FOR_EVER, |fuse| attempt(&case, fuse));
    case.model.make_busy("proc/sys/vm/swappiness", u32::MAX);
    let outcomes = recovered(&case, &Fuse(Rc::new(Cell::new(FOR_EVER))), false);
    let fate = |name: &str| outcomes.iter().find(|outcome| outcome.path.ends_with(name)).unwrap();
    assert_eq!(fate("swappiness").fate, Fate::Failed);
    assert!(fate("swappiness").why.as_ref().unwrap().contains("busy"), "{:?}", fate("swappiness"));
    assert_eq!(fate("dirty_expire_centisecs").fate, Fate::Restored);
}
