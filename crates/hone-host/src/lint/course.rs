//! Effects of tuning texts on a host, step by step: the change, its rollback, and the next boot.

use std::collections::{BTreeMap, BTreeSet};

use super::finding::Role;
use super::imagined::{Imagined, Taken};
use super::paths::normal;
use super::piece::{Parts, Piece, PieceKind};
use super::run::{self, Event, Lines, Ran, What};
use super::stated::{Form, Saying, Stated, is_boot_script, name_of, stated, unit_commands, unit_values};
use super::texts;
use crate::kernel::Kernel;
use crate::relevance::Facts;

/// Effects of the texts, step by step.
pub(super) struct Course<'k> {
    pub(super) events: Vec<Event>,
    /// The host after the change and the rollback.
    pub(super) host: Imagined<'k>,
    /// Systemd units that start with the next boot.
    pub(super) enabled: BTreeSet<String>,
    pub(super) pieces: Vec<Piece>,
    pub(super) has_rollback: bool,
    /// Whether all texts are named as rollbacks, so that they are judged as the change that they are.
    pub(super) is_lone_rollback: bool,
    /// Values of the changed attributes, after the last change and before the rollback.
    pub(super) changed: BTreeMap<String, String>,
    pub(super) lines: Lines,
    /// Places and reasons of unreadable parts.
    pub(super) unread: Vec<(String, String)>,
    /// Files that are texts for people.
    pub(super) prose: BTreeSet<String>,
    /// Files in which one value may extend over several lines.
    pub(super) yaml: BTreeSet<String>,
}

pub(super) fn course<'k>(kernel: &'k dyn Kernel, texts: &'k [(String, String)], facts: &Facts) -> Course<'k> {
    let mut course = Course {
        events: Vec::new(),
        host: Imagined::new(kernel, facts.page_kib.unwrap_or(4), texts),
        enabled: BTreeSet::new(),
        pieces: Vec::new(),
        has_rollback: false,
        is_lone_rollback: false,
        changed: BTreeMap::new(),
        lines: Lines::default(),
        unread: Vec::new(),
        prose: BTreeSet::new(),
        yaml: BTreeSet::new(),
    };
    course.read(texts);
    for role in [Role::Change, Role::Rollback] {
        for piece in course.pieces.iter().filter(|piece| piece.role == role) {
            let ran = of_piece(&course.host, piece);
            course.lines.extend(ran.lines);
            let (events, lines) = with_kept(&course.host, piece, ran.events);
            course.lines.extend(lines);
            course.events.extend(events);
        }
        if role == Role::Change {
            course.changed = course.values();
        }
    }
    if course.takes_back_alone() {
        course.judge_as_change();
    }
    // A script may contain both: the change and, in a function, its rollback.
    course.has_rollback = course.events.iter().any(|event| event.role == Role::Rollback);
    for event in &course.events {
        if let What::Unit { verb, name } = &event.what {
            match verb.as_str() {
                "enable" | "reenable" => course.enabled.insert(name.clone()),
                "disable" | "mask" => course.enabled.remove(name),
                _ => false,
            };
        }
    }
    course
}

impl Course<'_> {
    /// Splits texts into pieces. A template that another text fills in is read there.
    fn read(&mut self, texts: &[(String, String)]) {
        let all: Vec<Parts> = texts.iter().map(|(name, text)| texts::parts(name, text, texts)).collect();
        let used: BTreeSet<String> = all.iter().flat_map(|parts| parts.used.clone()).collect();
        for ((name, _), parts) in texts.iter().zip(all) {
            if parts.is_prose {
                self.prose.insert(name.clone());
            }
            if parts.is_prose || parts.is_yaml {
                self.yaml.insert(name.clone());
            }
            if used.contains(name) {
                continue;
            }
            self.pieces.extend(parts.pieces);
            self.unread.extend(parts.unread.into_iter().map(|(line, why)| (format!("{name}:{line}"), why)));
            self.lines.followed.extend(parts.followed.into_iter().map(|line| (name.clone(), line)));
        }
    }

    /// Whether settings are rolled back without any change to them.
    fn takes_back_alone(&self) -> bool {
        let has = |role: Role| {
            let is_setting =
                |event: &Event| matches!(event.what, What::Set { .. } | What::Kept { .. } | What::Put { .. });
            self.events.iter().any(|event| event.role == role && is_setting(event))
        };
        has(Role::Rollback) && !has(Role::Change)
    }

    fn judge_as_change(&mut self) {
        self.is_lone_rollback = true;
        self.pieces.iter_mut().for_each(|piece| piece.role = Role::Change);
        self.events.iter_mut().for_each(|event| event.role = Role::Change);
        self.changed = self.values();
    }

    /// Current values of the changed attributes.
    fn values(&self) -> BTreeMap<String, String> {
        let of = |event: &Event| match &event.what {
            What::Set { path, .. } => Some((path.clone(), value_of(&self.host, path)?)),
            _ => None,
        };
        // If one text has the change and its rollback, the values after the change are lost.
        if self.events.iter().any(|event| event.role == Role::Rollback) {
            return BTreeMap::new();
        }
        self.events.iter().filter_map(of).collect()
    }
}

/// A value for comparisons: several numbers with one space between them.
pub(super) fn value_of(kernel: &dyn Kernel, path: &str) -> Option<String> {
    let text = kernel.read(path).ok()?;
    Some(one_blank(&crate::kernel::plain_value(&text)))
}

pub(super) fn one_blank(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn of_piece(host: &Imagined<'_>, piece: &Piece) -> Ran {
    let name = piece.file.rsplit('/').next().unwrap_or(&piece.file);
    let event = |what: What| Event { file: piece.file.clone(), line: piece.line, role: piece.role, what };
    let put = |path, begins| What::Put { path, text: piece.text.clone(), append: false, begins };
    let only = |events: Vec<Event>| Ran { events, lines: Lines::default() };
    match &piece.kind {
        PieceKind::Script => run::script(host, piece),
        PieceKind::Settings(Form::Unit, _) => {
            let name = if name.contains(".service") || name.contains(".timer") {
                name.to_owned()
            } else {
                format!("{}-{}.service", name.trim_end_matches(".md"), piece.line)
            };
            let path = Form::Unit.usual_place(&name);
            host.put(&path, &piece.text, false);
            only(vec![
                event(put(path, Some(piece.line))),
                event(What::Unit { verb: "enable".to_owned(), name }),
            ])
        }
        PieceKind::Settings(Form::Grub, _) => {
            host.put(&Form::Grub.usual_place(name), &piece.text, false);
            only(vec![event(put(Form::Grub.usual_place(name), None))])
        }
        PieceKind::Settings(form, path) => {
            let path = path.clone().unwrap_or_else(|| form.usual_place(name));
            host.put(&path, &(piece.text.trim_end().to_owned() + "\n"), true);
            run::settings(host, piece, *form)
        }
        PieceKind::File { path, append } => {
            host.put(path, &piece.text, *append);
            only(vec![event(put(path.clone(), None))])
        }
        PieceKind::Container => only(of_container(host, piece)),
    }
}

/// Sysctls that a container may set for itself (Docker's reference of `docker run --sysctl`).
const OF_CONTAINERS: [&str; 10] = [
    "net.",
    "fs.mqueue.",
    "kernel.msgmax",
    "kernel.msgmnb",
    "kernel.msgmni",
    "kernel.sem",
    "kernel.shmall",
    "kernel.shmmax",
    "kernel.shmmni",
    "kernel.shm_rmid_forced",
];

fn of_container(host: &Imagined<'_>, piece: &Piece) -> Vec<Event> {
    let of = |said: Stated| {
        let line = piece.line + said.line - 1;
        let what = match said.what {
            Saying::Set { path, value, .. } => {
                let name = name_of(&path).0;
                let taken = if OF_CONTAINERS.iter().any(|own| name.starts_with(own)) {
                    Taken::Elsewhere(
                        "set in the container's own namespace: the host keeps its value".to_owned(),
                    )
                } else {
                    let why = "not a per-container setting: Docker and the kubelet refuse to start the container; set it on the host";
                    Taken::Refused(why.to_owned())
                };
                What::Set { path, value, before: None, taken }
            }
            Saying::Unclear { name, why } => What::Unclear { name, why },
            Saying::Command(_) => return None,
        };
        Some(Event { file: piece.file.clone(), line, role: piece.role, what })
    };
    stated(host, Form::Sysctl, &piece.text).into_iter().filter_map(of).collect()
}

/// Events, with the settings of each written file at the next boot, and the lines that are accounted for.
fn with_kept(host: &Imagined<'_>, piece: &Piece, events: Vec<Event>) -> (Vec<Event>, Lines) {
    let booted = host.booted();
    let (mut all, mut lines) = (Vec::new(), Lines::default());
    for event in events {
        let kept = match &event.what {
            What::Put { path, text, begins, .. } => {
                let written = Written { piece, put: &event, path, text, begins: *begins };
                lines.followed.extend(written.settings().map(|line| (piece.file.clone(), line)));
                written.kept(&booted, &mut lines)
            }
            _ => Vec::new(),
        };
        all.push(event);
        all.extend(kept);
    }
    (all, lines)
}

/// A text that is written into a file.
struct Written<'a> {
    piece: &'a Piece,
    put: &'a Event,
    path: &'a str,
    text: &'a str,
    begins: Option<usize>,
}

impl Written<'_> {
    /// Position of a text's line in the text that writes it.
    fn line(&self, at: usize) -> usize {
        let wanted = self.text.lines().nth(at.saturating_sub(1)).unwrap_or_default().trim();
        let found = || line_of(self.piece, self.put.line, at, wanted);
        self.begins.map_or_else(found, |begins| begins + at - 1)
    }

    /// Lines of a file whose every line is read. A name in them that sets nothing is not a setting.
    fn settings(&self) -> impl Iterator<Item = usize> {
        let is_read = !matches!(Form::of_path(self.path), None | Some(Form::Unit));
        let count = if is_read && self.stands_there() { self.text.lines().count() } else { 0 };
        (1..=count).map(|at| self.line(at)).collect::<Vec<_>>().into_iter()
    }

    /// Whether the text occurs line by line in the text that writes it.
    fn stands_there(&self) -> bool {
        self.begins.is_some() || matches!(self.piece.kind, PieceKind::File { .. })
    }

    fn kept(&self, host: &Imagined<'_>, lines: &mut Lines) -> Vec<Event> {
        let Some(form) = Form::of_path(self.path) else {
            let script = vec![(1, self.text.to_owned())];
            return if is_boot_script(self.path) { self.scripts(host, script, lines) } else { Vec::new() };
        };
        if form == Form::Unit {
            return self.scripts(host, unit_commands(self.text), lines);
        }
        let of = |said: Stated| {
            let what = match said.what {
                Saying::Set { path, taken: None, .. } if !host.is_known(&path) => {
                    let why = format!("Hone can't determine the value of /{path} on this host");
                    What::Unclear { name: Some(name_of(&path).0), why }
                }
                Saying::Set { path, value, taken } => {
                    let taken = taken.unwrap_or_else(|| host.tell(&path, &value));
                    What::Kept { path, value, taken, file: format!("/{}", self.path) }
                }
                Saying::Unclear { name, why } => What::Unclear { name, why },
                // A command of a rule runs when its disk appears.
                Saying::Command(_) => return None,
            };
            Some(Event { line: self.line(said.line), what, ..self.put.clone() })
        };
        stated(host, form, self.text).into_iter().filter_map(of).collect()
    }

    /// Settings of scripts that a boot runs, each with its first line.
    fn scripts(&self, host: &Imagined<'_>, all: Vec<(usize, String)>, lines: &mut Lines) -> Vec<Event> {
        let mut events = Vec::new();
        for (at, text) in all {
            let script = Piece::new(&self.piece.file, at, PieceKind::Script, self.put.role, text);
            let ran = run::script(host, &script);
            let own = |(file, line): (String, usize)| (file, self.line(line));
            if self.stands_there() {
                lines.followed.extend(ran.lines.followed.into_iter().map(own));
                lines.words.extend(ran.lines.words.into_iter().map(own));
            }
            events.extend(ran.events.into_iter().filter_map(|event| {
                let what = match event.what {
                    What::Set { path, value, taken, .. } => {
                        What::Kept { path, value, taken, file: format!("/{}", self.path) }
                    }
                    unclear @ (What::Unclear { .. } | What::Script(_)) => unclear,
                    _ => return None,
                };
                // A given script is in a file of its own.
                let is_own = event.file == self.piece.file;
                let line = if is_own { self.line(event.line) } else { event.line };
                Some(Event { line, what, file: event.file, role: self.put.role })
            }));
        }
        events
    }
}

/// Position of a written text's line in the text that writes it: at or after the command, otherwise the command's own line.
fn line_of(piece: &Piece, from: usize, at: usize, wanted: &str) -> usize {
    if matches!(piece.kind, PieceKind::File { .. } | PieceKind::Settings(..)) {
        return piece.line + at - 1;
    }
    let lines = piece.text.lines().enumerate().skip(from.saturating_sub(piece.line));
    let found = lines.take(LONGEST_HERE).find(|(_, line)| !wanted.is_empty() && line.contains(wanted));
    found.map_or(from, |(line, _)| piece.line + line)
}

/// Lines of the longest text that is searched for in a script that writes it.
const LONGEST_HERE: usize = 500;

/// The host after its next boot: settings of new files, and effects of enabled units. Each setting has its place.
pub(super) fn next_boot<'k>(
    kernel: &dyn Kernel,
    course: &Course<'k>,
) -> (Imagined<'k>, BTreeMap<String, String>) {
    let host = course.host.booted();
    let mut from = BTreeMap::new();
    for new in host.new_origins() {
        if kernel.exists(&new.path) {
            host.tell(&new.path, &new.value);
            from.insert(new.path, format!("/{}", new.file));
        }
    }
    for unit in &course.enabled {
        let Ok(text) = host.read(&format!("etc/systemd/system/{unit}")) else { continue };
        let events =
            unit_values(&text, "ExecStart").into_iter().flat_map(|line| started(&host, course, &line));
        let paths = events.filter_map(|event| match event.what {
            What::Set { path, .. } => Some(path),
            _ => None,
        });
        from.extend(paths.map(|path| (path, unit.clone())));
    }
    (host, from)
}

/// Effect of a unit's command: of an available script, its contents.
fn started(host: &Imagined<'_>, course: &Course<'_>, line: &str) -> Vec<Event> {
    let line = line.trim_start_matches(['-', '+', '!', '@', ':']);
    let program = line.split_whitespace().next().unwrap_or_default();
    let name = program.rsplit('/').next().unwrap_or_default();
    let written = normal(program).and_then(|path| host.read(&path).ok());
    let given = || {
        let is_it = |piece: &&Piece| {
            piece.kind == PieceKind::Script && piece.role == Role::Change && piece.file.ends_with(name)
        };
        course.pieces.iter().find(is_it).map(|piece| piece.text.clone())
    };
    // A script may write files again. They must not mix with the boot's own actions, so only settings count.
    let text = written.or_else(given).unwrap_or_else(|| line.to_owned());
    run::script(host, &Piece::new(program, 1, PieceKind::Script, Role::Change, text)).events
}
