//! Reads texts of tuning - scripts, guides, units, files of sysctl - without running anything, and says what each setting would
//! do to this host, what of it their own way back leaves behind, and what comes again with the next boot.

mod imagined;
mod judge;
mod lexer;
mod run;
mod shell;
mod texts;

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use crate::disks::DataPath;
use crate::kernel::{Kernel, plain_value};
use crate::knob::of_path;
use crate::origin;
use crate::relevance::Facts;
use imagined::{Imagined, is_attribute};
use run::{Event, What};
use texts::{Kind, Piece};

/// What a text is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Role {
    /// To change a host.
    Change,
    /// To take the change back.
    Rollback,
}

/// What is wrong, or worth knowing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Defect {
    /// It makes something worse here.
    Harmful,
    /// The broker's maker says otherwise.
    AgainstTheVendor,
    /// The kernel refuses it.
    Refused,
    /// The script ends half-way.
    EndsHalfWay,
    /// Its own way back leaves another value than there was.
    NotRestored,
    /// It comes back with the next boot, though it was taken back.
    AtNextBoot,
    /// A unit comes too late, or can't write.
    UnitOrder,
    /// It is meant to stay, and does not, or not always.
    NotKept,
    /// The kernel makes something else of it, without a word.
    TakenOtherwise,
    /// It changes nothing here.
    NoEffect,
    /// It means disks by names that are given in the order of their coming.
    DeviceOrder,
    /// It changes what an acknowledgement promises.
    Durability,
    /// It hides what a change did.
    Mixed,
    /// Nobody has measured it.
    NeverMeasured,
    /// It could not be worked out.
    Unclear,
}

impl Defect {
    /// Whether it harms, or leaves something behind.
    pub fn is_serious(self) -> bool {
        self <= Self::NotKept
    }
}

/// Something that was found.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Finding {
    /// What kind.
    pub defect: Defect,
    /// File and line; empty of what no single line says.
    pub place: String,
    /// In words.
    pub told: String,
}

/// A setting that the texts change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Setting {
    /// Its name: a knob of Hone's, a sysctl, or an attribute.
    pub name: String,
    /// The devices, for settings of a queue.
    pub devices: Vec<String>,
    /// Its values now: one, or those of the devices where they differ.
    pub now: Vec<String>,
    /// The value that the texts want.
    pub wanted: String,
    /// Where they say so.
    pub places: Vec<String>,
    /// What was found of it.
    pub findings: Vec<Finding>,
}

/// All that was found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Lint {
    /// The files.
    pub files: Vec<String>,
    /// What they change.
    pub settings: Vec<Setting>,
    /// What was found of no single setting.
    pub findings: Vec<Finding>,
    /// Whether they bring a way back.
    pub has_rollback: bool,
    /// Settings that are not as before when their way back is through.
    pub wrong_after_rollback: Vec<String>,
    /// Settings that come back with the next boot, though they were taken back.
    pub at_next_boot: Vec<String>,
}

impl Lint {
    /// Whether something would harm, or be left behind.
    pub fn is_clean(&self) -> bool {
        let own = self.settings.iter().flat_map(|setting| &setting.findings);
        !own.chain(&self.findings).any(|finding| finding.defect.is_serious())
    }
}

/// What the texts would do, step by step.
struct Course<'k> {
    events: Vec<Event>,
    /// The host with all of it done and taken back.
    host: Imagined<'k>,
    /// Units of systemd that start with the next boot.
    enabled: BTreeSet<String>,
    pieces: Vec<Piece>,
    has_rollback: bool,
}

/// Reads texts (name and content) for a host.
pub fn lint(kernel: &dyn Kernel, texts: &[(String, String)], data: &DataPath, facts: &Facts) -> Lint {
    let course = course(kernel, texts, facts);
    judge::judge(kernel, texts, &course, data, facts)
}

fn course<'k>(kernel: &'k dyn Kernel, texts: &[(String, String)], facts: &Facts) -> Course<'k> {
    let host = Imagined::new(kernel, facts.page_kib.unwrap_or(4));
    let pieces: Vec<Piece> = texts.iter().flat_map(|(name, text)| texts::pieces(name, text)).collect();
    let mut events = Vec::new();
    for role in [Role::Change, Role::Rollback] {
        for piece in pieces.iter().filter(|piece| piece.role == role) {
            events.extend(of_piece(&host, piece));
        }
    }
    // A script may hold both: what it does and, in a function, how that is taken back.
    let has_rollback = events.iter().any(|event| event.role == Role::Rollback);
    let mut enabled = BTreeSet::new();
    for event in &events {
        if let What::Unit { verb, name } = &event.what {
            match verb.as_str() {
                "enable" | "reenable" => enabled.insert(name.clone()),
                "disable" | "mask" => enabled.remove(name),
                _ => false,
            };
        }
    }
    Course { events, host, enabled, pieces, has_rollback }
}

fn of_piece(host: &Imagined<'_>, piece: &Piece) -> Vec<Event> {
    let name = piece.file.rsplit('/').next().unwrap_or(&piece.file);
    let event = |what: What| Event { file: piece.file.clone(), line: piece.line, role: piece.role, what };
    match piece.kind {
        Kind::Script => run::script(host, &piece.file, piece.line, &piece.text, piece.role),
        Kind::Unit => {
            let name = if name.contains(".service") || name.contains(".timer") {
                name.to_owned()
            } else {
                format!("{}-{}.service", name.trim_end_matches(".md"), piece.line)
            };
            host.put(&format!("etc/systemd/system/{name}"), &piece.text, false);
            vec![event(What::Unit { verb: "enable".to_owned(), name })]
        }
        Kind::Sysctl => {
            let name = if name.contains(".conf") { name.to_owned() } else { "99-guide.conf".to_owned() };
            host.put(&format!("etc/sysctl.d/{name}"), &piece.text, true);
            run::settings(host, &piece.file, piece.line, &piece.text, piece.role)
        }
        Kind::Rules => {
            host.put(&format!("etc/udev/rules.d/{name}"), &piece.text, true);
            rules(host, piece)
        }
    }
}

/// What rules of udev would set on the disks that are there.
fn rules(host: &Imagined<'_>, piece: &Piece) -> Vec<Event> {
    let mut events = Vec::new();
    for disk in host.list("sys/block") {
        for (attribute, value) in crate::udev::queue_settings(host, &disk, &piece.text) {
            let path = format!("sys/block/{disk}/{attribute}");
            let before = host.read(&path).ok().map(|text| plain_value(&text));
            let taken = host.tell(&path, &value);
            let what = What::Set { path, value, before, taken };
            events.push(Event { file: piece.file.clone(), line: piece.line, role: piece.role, what });
        }
    }
    events
}

/// The host after its next boot: what new files say, and what enabled units do. With the place that each setting is from.
fn next_boot<'k>(kernel: &dyn Kernel, course: &Course<'k>) -> (Imagined<'k>, BTreeMap<String, String>) {
    let host = course.host.booted();
    let known = origin::origins(kernel, false);
    let mut from = BTreeMap::new();
    for new in origin::origins(&host, false).into_iter().filter(|origin| !known.contains(origin)) {
        if kernel.exists(&new.path) {
            host.tell(&new.path, &new.value);
            from.insert(new.path, format!("/{}", new.file));
        }
    }
    for unit in &course.enabled {
        let Ok(text) = host.read(&format!("etc/systemd/system/{unit}")) else { continue };
        let events =
            texts::unit_values(&text, "ExecStart").into_iter().flat_map(|line| started(&host, course, &line));
        let paths = events.filter_map(|event| match event.what {
            What::Set { path, .. } => Some(path),
            _ => None,
        });
        from.extend(paths.map(|path| (path, unit.clone())));
    }
    (host, from)
}

/// What a unit's command would do: of a script that is at hand, what is in it.
fn started(host: &Imagined<'_>, course: &Course<'_>, line: &str) -> Vec<Event> {
    let line = line.trim_start_matches(['-', '+', '!', '@', ':']);
    let program = line.split_whitespace().next().unwrap_or_default();
    let name = program.rsplit('/').next().unwrap_or_default();
    let written = run::normal(program).and_then(|path| host.read(&path).ok());
    let given = || {
        let is_it = |piece: &&Piece| {
            piece.kind == Kind::Script && piece.role == Role::Change && piece.file.ends_with(name)
        };
        course.pieces.iter().find(is_it).map(|piece| piece.text.clone())
    };
    // A script may put files anew; what a boot does must not be mixed with that, and settings alone count.
    let text = written.or_else(given).unwrap_or_else(|| line.to_owned());
    run::script(host, program, 1, &text, Role::Change)
}

/// The name under which a setting is told, and its device.
fn name_of(path: &str) -> (String, Option<String>) {
    if let Some(place) = of_path(path) {
        return (place.knob.name.to_owned(), place.device);
    }
    if let Some((device, file)) = path.strip_prefix("sys/block/").and_then(|path| path.split_once('/')) {
        return (file.replace('/', "."), Some(device.to_owned()));
    }
    match path.strip_prefix("proc/sys/") {
        Some(name) => (name.replace('/', "."), None),
        None => (format!("/{path}"), None),
    }
}
