//! Judges the effects of texts. The code is pure, except that it reads the host's settings.

use std::collections::{BTreeMap, BTreeSet};

use super::course::{Course, next_boot, one_blank, value_of};
use super::finding::{Defect, Finding, Lint, NotUnderstood, Role, Setting};
use super::imagined::Taken;
use super::piece::{Piece, PieceKind};
use super::run::{Event, What};
use super::stated::{ANY, UNKNOWN, name_of, unit_values};
use super::sweep;
use crate::disks::{DataPath, look};
use crate::glob::is_meant;
use crate::kernel::Kernel;
use crate::origin::{self, Origin, reads_sysctl_conf};
use crate::profile::{self, OWN, Profile};
use crate::relevance::{Facts, cannot_matter};
use crate::sysctl_text::is_pattern;

/// A setting of the texts with all of its attributes, or with those that end with the same value from the same line.
#[derive(Default)]
struct Group<'a> {
    name: String,
    paths: BTreeSet<&'a str>,
    wanted: String,
    events: Vec<&'a Event>,
}

pub(super) fn judge(
    kernel: &dyn Kernel,
    texts: &[(String, String)],
    course: &Course<'_>,
    data: &DataPath,
    facts: &Facts,
) -> Lint {
    let groups = groups(&course.events);
    let vendor = vendor(texts, facts);
    let (booted, from) = next_boot(kernel, course);
    let boot = Boot { new: course.host.new_origins(), all: origin::origins(&course.host, false) };
    let (mut wrong, mut again) = (Vec::new(), Vec::new());
    let mut settings = Vec::new();
    for group in &groups {
        let mut findings = taken(group);
        let parts = group.parts();
        for part in &parts {
            let Some(event) = part.counting() else { continue };
            let mut own = worth(kernel, part, &place(event), facts, vendor.as_ref());
            own.extend(overruled(course, part));
            own.extend(ruled_at_boot(&boot, part));
            own.extend(in_force_later(part));
            findings.extend(own.into_iter().map(|one| if parts.len() > 1 { part.named(one) } else { one }));
        }
        if course.has_rollback {
            let left = not_restored(kernel, course, group);
            if !left.is_empty() {
                wrong.push(group.name.clone());
            }
            findings.extend(left);
            let back = at_next_boot(kernel, &booted, &from, group);
            if !back.is_empty() {
                again.push(group.name.clone());
            }
            findings.extend(back);
        }
        settings.push(setting(kernel, group, &parts, findings));
    }
    let mut findings = of_events(kernel, course, data, facts);
    findings.extend(of_units(kernel, course));
    findings.extend(of_texts(kernel, texts, course, &settings, facts));
    findings.sort();
    findings.dedup();
    let not_understood = not_understood(texts, course);
    Lint {
        files: texts.iter().map(|(name, _)| name.clone()).collect(),
        settings,
        findings,
        not_understood,
        has_rollback: course.has_rollback,
        wrong_after_rollback: wrong,
        at_next_boot: again,
    }
}

fn place(event: &Event) -> String {
    format!("{}:{}", event.file, event.line)
}

fn finding(defect: Defect, place: impl Into<String>, told: impl Into<String>) -> Finding {
    Finding { defect, place: place.into(), told: told.into().replace(UNKNOWN, "...") }
}

/// Settings of the texts in the change, in the order of their first occurrence.
fn groups(events: &[Event]) -> Vec<Group<'_>> {
    let mut groups: Vec<Group<'_>> = Vec::new();
    for event in events.iter().filter(|event| event.role == Role::Change) {
        let Some((path, ..)) = said(event) else { continue };
        let (name, _) = name_of(path);
        let at = groups.iter().position(|group| group.name == name).unwrap_or_else(|| {
            groups.push(Group { name, ..Group::default() });
            groups.len() - 1
        });
        if let Some(group) = groups.get_mut(at) {
            if !path.contains(&format!("/{ANY}/")) {
                group.paths.insert(path);
            }
            group.events.push(event);
        }
    }
    for group in &mut groups {
        group.wanted = group.last_value();
    }
    groups
}

/// Path, value, and the kernel's result.
fn said(event: &Event) -> Option<(&str, &str, &Taken)> {
    match &event.what {
        What::Set { path, value, taken, .. } | What::Kept { path, value, taken, .. } => {
            Some((path, value, taken))
        }
        _ => None,
    }
}

/// Whether the kernel accepts it at all.
fn is_taken(event: &Event) -> bool {
    said(event).is_some_and(|(_, _, taken)| matches!(taken, Taken::Whole | Taken::Otherwise(_)))
}

impl<'a> Group<'a> {
    fn last_value(&self) -> String {
        let last = self.counting().or_else(|| self.events.last().copied());
        last.and_then(said).map(|(_, value, _)| bare(value)).unwrap_or_default()
    }

    /// The attributes by their final value and the line that sets it, each with its own events.
    fn parts(&self) -> Vec<Self> {
        let mut parts: Vec<Self> = Vec::new();
        for path in &self.paths {
            let is_its = |event: &&Event| said(event).is_some_and(|(other, ..)| other == *path);
            let mut part = Self {
                name: self.name.clone(),
                paths: BTreeSet::from([*path]),
                events: self.events.iter().copied().filter(is_its).collect(),
                wanted: String::new(),
            };
            part.wanted = part.last_value();
            let line = |part: &Self| part.counting().map(place);
            match parts.iter_mut().find(|other| other.wanted == part.wanted && line(other) == line(&part)) {
                Some(other) => {
                    other.paths.extend(part.paths);
                    other.events.extend(part.events);
                }
                None => parts.push(part),
            }
        }
        parts
    }

    fn devices(&self) -> Vec<String> {
        self.paths.iter().filter_map(|path| name_of(path).1).collect()
    }

    /// A finding with its devices.
    fn named(&self, finding: Finding) -> Finding {
        let devices = self.devices();
        if devices.iter().any(|device| finding.told.contains(device.as_str())) {
            return finding;
        }
        Finding { told: format!("{}: {}", devices.join(", "), finding.told), ..finding }
    }

    /// Whether only files contain it, and nothing sets it now.
    fn is_kept_only(&self) -> bool {
        !self.events.iter().any(|event| matches!(event.what, What::Set { .. }))
    }

    /// The event that decides in the end: the last one that the kernel accepts. A setting that takes effect now has priority over one in a
    /// file.
    fn counting(&self) -> Option<&Event> {
        let is_now = |event: &&&Event| matches!(event.what, What::Set { .. });
        let mut taken = self.events.iter().filter(|event| is_taken(event));
        taken.clone().rev().find(is_now).or_else(|| taken.next_back()).copied()
    }

    /// The changed attributes, each with its last value.
    fn values(&self) -> BTreeMap<&str, String> {
        let taken = self.events.iter().filter(|event| is_taken(event)).filter_map(|event| said(event));
        taken.map(|(path, value, _)| (path, bare(value))).collect()
    }
}

/// Settings of a boot from files.
struct Boot {
    /// Lines of the texts.
    new: Vec<Origin>,
    all: Vec<Origin>,
}

/// A line of another file that is read after those of the texts.
fn ruled_at_boot(boot: &Boot, group: &Group<'_>) -> Option<Finding> {
    let of = |path: &&str| {
        let new = origin::ruling(&boot.new, path)?;
        let ruling = origin::ruling(&boot.all, path)?;
        let is_other = ruling.file != new.file && one_blank(&ruling.value) != one_blank(&new.value);
        is_other.then(|| {
            format!("/{} sets {} at boot: it is read after /{}", ruling.file, ruling.value, new.file)
        })
    };
    let told = group.paths.iter().find_map(of)?;
    Some(finding(Defect::NotKept, group.events.first().map(|event| place(event)).unwrap_or_default(), told))
}

/// A setting that is lost at the end, because the other one of its pair has reset it.
fn overruled(course: &Course<'_>, group: &Group<'_>) -> Option<Finding> {
    let last = group.events.iter().rev().find_map(|event| match &event.what {
        What::Set { path, value, taken: Taken::Whole, .. } => Some((event, path, bare(value))),
        _ => None,
    });
    let (event, path, wanted) = last?;
    let now = course.changed.get(path).filter(|now| **now != wanted)?;
    let told = format!("another setting in these files resets it: the final value is {now}");
    Some(finding(Defect::NoEffect, place(event), told))
}

fn in_force_later(group: &Group<'_>) -> Option<Finding> {
    let first = group.counting().filter(|_| group.is_kept_only())?;
    let What::Kept { file, .. } = &first.what else { return None };
    let told = if file.ends_with("/grub") {
        "takes effect after update-grub and a reboot".to_owned()
    } else {
        format!("takes effect at the next boot: nothing loads {file} before")
    };
    Some(finding(Defect::NextBoot, place(first), told))
}

/// Whether a text for people names a script, and also shows its settings.
fn shows_its_settings(course: &Course<'_>, file: &str) -> bool {
    let sets = |event: &Event| event.file == file && matches!(event.what, What::Set { .. });
    course.prose.contains(file) && course.events.iter().any(sets)
}

/// Settings that were seen and not followed, each once, at its first place.
fn not_understood(texts: &[(String, String)], course: &Course<'_>) -> Vec<NotUnderstood> {
    let mut found = Vec::new();
    let mut known: BTreeMap<String, BTreeSet<(&str, usize)>> = BTreeMap::new();
    // Lines that already have a reason why they are not followed.
    let mut unclear = BTreeSet::new();
    for event in &course.events {
        let at = (event.file.as_str(), event.line);
        if let Some((path, ..)) = said(event) {
            known.entry(name_of(path).0).or_default().insert(at);
        }
        if let What::Script(path) = &event.what
            && !shows_its_settings(course, &event.file)
        {
            let told = format!("this text runs the script {path}: pass that file, too");
            found.push(NotUnderstood { name: None, place: place(event), told });
        }
        if let What::Unclear { name, why } = &event.what {
            unclear.insert(at);
            if let Some(name) = name {
                known.entry(name.clone()).or_default().insert(at);
            }
            let told = why.replace(UNKNOWN, "...");
            let name = name.clone().filter(|name| !name.contains(UNKNOWN));
            found.push(NotUnderstood { name, place: place(event), told });
        }
    }
    let unread = course.unread.iter();
    found.extend(unread.map(|(place, why)| NotUnderstood {
        name: None,
        place: place.clone(),
        told: why.clone(),
    }));
    for (file, text) in texts {
        let mut reported = BTreeSet::new();
        let begins = beginnings(text);
        let all: Vec<&str> = text.lines().collect();
        for mention in sweep::mentions(text, course.prose.contains(file)) {
            let lines = [mention.line, begins.get(mention.line - 1).copied().unwrap_or(mention.line)];
            let meant = is_pattern(&mention.name);
            let is_it = |name: &String| {
                if meant { is_meant(&mention.name, name) } else { *name == mention.name }
            };
            let places = known.iter().filter(|(name, _)| is_it(name)).map(|(_, places)| places);
            let mut places = places.peekable();
            let is_known = places.peek().is_some()
                && course.gives_words(file, all.get(mention.line - 1).unwrap_or(&""), lines)
                || places.any(|places| places.iter().any(|place| course.is_at(*place, file, lines)));
            let is_followed = lines.iter().any(|line| {
                let at = (file.as_str(), *line);
                unclear.contains(&at) || course.lines.followed.contains(&(file.clone(), *line))
            });
            if !is_known && !is_followed && reported.insert(mention.name.clone()) {
                let place = format!("{file}:{}", mention.line);
                let told = "Hone found this name, but could not follow what sets it".to_owned();
                found.push(NotUnderstood { name: Some(mention.name), place, told });
            }
        }
    }
    found.dedup();
    found
}

/// For each line, the first one of the lines that backslashes join.
fn beginnings(text: &str) -> Vec<usize> {
    let (mut begins, mut first) = (Vec::new(), None);
    for (at, line) in text.lines().enumerate() {
        let own = first.unwrap_or(at + 1);
        begins.push(own);
        first = line.ends_with('\\').then_some(own);
    }
    begins
}

/// Lines of YAML after a value's first line within which a name can belong to it.
const LINES_OF_A_VALUE: usize = 8;
/// YAML keys whose text is for people.
const TITLES: [&str; 8] =
    ["name:", "msg:", "when:", "that:", "description:", "comment:", "regexp:", "changed_when:"];

impl Course<'_> {
    /// Whether a line mentions settings that other lines set: arguments of other commands, titles, and the text around a guide's blocks.
    fn gives_words(&self, file: &str, line: &str, lines: [usize; 2]) -> bool {
        let is_inside = |piece: &Piece| {
            let end = piece.line + piece.text.lines().count();
            piece.file == file && (piece.line..end).contains(&lines[0])
        };
        let line = line.trim_start_matches([' ', '-']);
        lines.iter().any(|line| self.lines.words.contains(&(file.to_owned(), *line)))
            || (self.prose.contains(file) && !self.pieces.iter().any(is_inside))
            || (self.yaml.contains(file) && TITLES.iter().any(|key| line.starts_with(key)))
    }

    /// Whether a setting at a place may extend over this line.
    fn is_at(&self, (of, at): (&str, usize), file: &str, lines: [usize; 2]) -> bool {
        let reach = if self.yaml.contains(file) { LINES_OF_A_VALUE } else { 0 };
        of == file && lines.iter().any(|line| *line + 2 * usize::from(reach > 0) >= at && *line <= at + reach)
    }
}

/// A value without a remark after it.
fn bare(value: &str) -> String {
    one_blank(value.split(" #").next().unwrap_or_default())
}

fn now(kernel: &dyn Kernel, path: &str) -> String {
    value_of(kernel, path).unwrap_or_else(|| "(missing)".to_owned())
}

/// One value, or each with its devices if they differ.
fn per_device(values: &[(String, String)]) -> Vec<String> {
    let mut devices: Vec<(&str, Vec<&str>)> = Vec::new();
    for (device, value) in values {
        match devices.iter_mut().find(|(other, _)| other == value) {
            Some((_, all)) => all.push(device),
            None => devices.push((value, vec![device])),
        }
    }
    let is_one = devices.len() <= 1;
    let told = |(value, devices): (&str, Vec<&str>)| {
        if is_one { value.to_owned() } else { format!("{value} ({})", devices.join(", ")) }
    };
    devices.into_iter().map(told).collect()
}

fn setting(
    kernel: &dyn Kernel,
    group: &Group<'_>,
    parts: &[Group<'_>],
    mut findings: Vec<Finding>,
) -> Setting {
    findings.sort();
    findings.dedup();
    let device = |path: &str| name_of(path).1.unwrap_or_default();
    let values: Vec<(String, String)> =
        group.paths.iter().map(|path| (device(path), now(kernel, path))).collect();
    let ends =
        parts.iter().flat_map(|part| part.paths.iter().map(|path| (device(path), part.wanted.clone())));
    let ends: Vec<(String, String)> = ends.collect();
    let places: BTreeSet<(&str, usize)> =
        group.events.iter().map(|event| (event.file.as_str(), event.line)).collect();
    Setting {
        name: group.name.clone(),
        next_boot: group.is_kept_only(),
        devices: group.devices(),
        now: per_device(&values),
        wanted: if ends.is_empty() { group.wanted.clone() } else { per_device(&ends).join(", ") },
        places: places.into_iter().map(|(file, line)| format!("{file}:{line}")).collect(),
        findings,
    }
}

/// The kernel's result.
fn taken(group: &Group<'_>) -> Vec<Finding> {
    let of = |event: &&Event| {
        let (path, value, taken) = said(event)?;
        match taken {
            Taken::Whole => None,
            Taken::Elsewhere(why) => Some(finding(Defect::NoEffect, place(event), why.clone())),
            Taken::Refused(why) => Some(finding(Defect::Refused, place(event), format!("/{path}: {why}"))),
            Taken::Otherwise(what) => Some(finding(
                Defect::TakenOtherwise,
                place(event),
                format!("instead of `{value}` the kernel sets {what}"),
            )),
        }
    };
    group.events.iter().filter_map(of).collect()
}

/// Whether it has an effect here, and whether the effect is good.
fn worth(
    kernel: &dyn Kernel,
    group: &Group<'_>,
    place: &str,
    facts: &Facts,
    vendor: Option<&Profile>,
) -> Vec<Finding> {
    if group.values().iter().all(|(path, wanted)| now(kernel, path) == *wanted) {
        return vec![finding(Defect::NoEffect, place, "already set to this value")];
    }
    if let Some(why) = cannot_matter(&group.name, facts) {
        return vec![finding(Defect::NoEffect, place, format!("it can't matter here: {why}"))];
    }
    let mut findings = Vec::new();
    if let Some(told) = against(group, vendor) {
        findings.push(finding(Defect::AgainstTheVendor, place, told));
    }
    let harm = harm(kernel, group, facts);
    findings.extend(harm.into_iter().map(|told| finding(Defect::Harmful, place, told)));
    findings
}

/// Values of Redpanda's own tuner, if the broker is Redpanda.
fn vendor(texts: &[(String, String)], facts: &Facts) -> Option<Profile> {
    let is_redpanda = if facts.brokers.is_empty() {
        texts.iter().any(|(_, text)| text.to_lowercase().contains("redpanda"))
    } else {
        facts.brokers.iter().any(|broker| broker.program.contains("redpanda"))
    };
    let (name, text) = OWN.iter().find(|(name, _)| *name == "redpanda")?;
    profile::parse(name, text).ok().filter(|_| is_redpanda)
}

fn against(group: &Group<'_>, vendor: Option<&Profile>) -> Option<String> {
    let wish = vendor?.knobs.iter().find(|wish| wish.name == group.name)?;
    let is_enough = || Some(group.wanted.parse::<u64>().ok()? >= wish.value.parse::<u64>().ok()?);
    let agrees = group.wanted == wish.value || (wish.at_least && is_enough() == Some(true));
    (!agrees).then(|| format!("Redpanda's own tuner sets {} ({}: {})", wish.value, wish.source, wish.reason))
}

/// Writers wait from this share on, and wait longer with more dirty memory.
const MUCH_DIRTY_PERCENT: u64 = 50;
/// A minute.
const OLD_CENTISECS: u64 = 6000;

fn harm(kernel: &dyn Kernel, group: &Group<'_>, facts: &Facts) -> Vec<String> {
    let number = group.wanted.parse::<u64>().ok();
    let one = |told: String| vec![told];
    match (group.name.as_str(), number) {
        ("queue.read_ahead_kb", Some(0)) => one(
            "buffered sequential reads, such as those of lagging consumers, wait for each page: a test fell \
             from 1150-1420 MB/s to 39-45 MB/s"
                .to_owned(),
        ),
        ("vm.dirty_ratio", Some(percent)) if percent >= MUCH_DIRTY_PERCENT => one(format!(
            "up to {percent} % of the memory may be dirty: writers then wait long, and a power loss loses \
             all of it; RHEL's latency profile has 10"
        )),
        ("vm.dirty_expire_centisecs", Some(age)) if age >= OLD_CENTISECS => one(format!(
            "written data may wait {} s for the disk: a power loss loses that much, and the next fsync \
             waits for all of it",
            age / 100
        )),
        ("vm.swappiness", Some(0)) => {
            one("with 0 the kernel kills processes where 1 would swap (Scylla)".to_owned())
        }
        ("transparent_hugepage.enabled", _) if group.wanted == "never" => huge_pages_lost(facts),
        ("queue.scheduler", _) => {
            group.values().iter().filter_map(|(path, wanted)| disordered(kernel, path, wanted)).collect()
        }
        ("queue.nr_requests", Some(requests)) => fewer_requests(kernel, group, requests),
        _ => Vec::new(),
    }
}

fn huge_pages_lost(facts: &Facts) -> Vec<String> {
    let bytes = facts.huge_bytes.filter(|bytes| *bytes > 0);
    let told = |bytes: u64| {
        format!(
            "the broker has {:.1} GiB in huge pages; after its next start it gets none",
            bytes as f64 / f64::from(1_u32 << 30)
        )
    };
    bytes.map(told).into_iter().collect()
}

fn disordered(kernel: &dyn Kernel, path: &str, wanted: &str) -> Option<String> {
    let (_, disk) = name_of(path);
    let disk = look(kernel, &disk?);
    if wanted == "none" && (disk.rotational || disk.hardware_queues == 1) && now(kernel, path) != "none" {
        return Some(format!(
            "{} has one queue, or rotates: without a scheduler its requests have no order, and writes may \
             delay reads",
            disk.name
        ));
    }
    (wanted != "none" && disk.hardware_queues > 1).then(|| {
        format!(
            "{} orders its requests itself; RHEL's page on schedulers advises to keep none there",
            disk.name
        )
    })
}

fn fewer_requests(kernel: &dyn Kernel, group: &Group<'_>, requests: u64) -> Vec<String> {
    let values = group.values();
    let least = values.keys().filter_map(|path| now(kernel, path).parse::<u64>().ok()).min();
    let told = |least: u64| {
        format!(
            "{requests} instead of {least}: further requests wait in the broker's threads, invisible to the \
             disk's counters"
        )
    };
    least.filter(|least| requests.saturating_mul(4) <= *least).map(told).into_iter().collect()
}

/// Values that the rollback leaves behind.
fn not_restored(kernel: &dyn Kernel, course: &Course<'_>, group: &Group<'_>) -> Vec<Finding> {
    let back: Vec<&Event> = course.events.iter().filter(|event| event.role == Role::Rollback).collect();
    let of = |path: &&str| {
        let (before, after) = (now(kernel, path), now(&course.host, path));
        if before == after {
            return None;
        }
        let writes =
            |event: &&&Event| matches!(&event.what, What::Set { path: other, .. } if *other == **path);
        let (place, how) = match back.iter().rev().find(writes) {
            Some(event) => (place(event), format!("is set to {after}")),
            None => (String::new(), format!("is left at {after}")),
        };
        let device = name_of(path).1.map_or("it ".to_owned(), |device| format!("{device} "));
        Some(finding(
            Defect::NotRestored,
            place,
            format!("after its rollback {device}{how}; before the change it was {before}"),
        ))
    };
    group.paths.iter().filter_map(of).collect()
}

fn at_next_boot(
    kernel: &dyn Kernel,
    booted: &dyn Kernel,
    from: &BTreeMap<String, String>,
    group: &Group<'_>,
) -> Vec<Finding> {
    let of = |path: &&str| {
        let source = from.get(*path)?;
        let (before, then) = (now(kernel, path), now(booted, path));
        (before != then).then(|| {
            let told = format!("{source} sets {then} again at the next boot, although it was rolled back");
            finding(Defect::AtNextBoot, String::new(), told)
        })
    };
    group.paths.iter().filter_map(of).collect()
}

/// Findings about single steps.
fn of_events(kernel: &dyn Kernel, course: &Course<'_>, data: &DataPath, facts: &Facts) -> Vec<Finding> {
    let mut found: Vec<Finding> =
        course.events.iter().filter_map(|event| of_event(kernel, event, data, facts)).collect();
    found.extend(repeated(course));
    found
}

/// Lines that each run adds again: the first place of each file.
fn repeated(course: &Course<'_>) -> Vec<Finding> {
    let is_guarded = |wanted: &str| {
        course.events.iter().any(|event| matches!(&event.what, What::Guarded { file, .. } if file == wanted))
    };
    let mut files = BTreeSet::new();
    let of = |event: &Event| match &event.what {
        What::Put { path, append: true, .. }
            if event.role == Role::Change && !is_guarded(path) && files.insert(path.clone()) =>
        {
            let told = format!("each run appends the same lines to /{path}");
            Some(finding(Defect::Repeats, place(event), told))
        }
        _ => None,
    };
    course.events.iter().filter_map(of).collect()
}

fn of_event(kernel: &dyn Kernel, event: &Event, data: &DataPath, facts: &Facts) -> Option<Finding> {
    let (defect, told) = match &event.what {
        What::Set { .. } | What::Kept { .. } | What::Put { .. } | What::Unclear { .. } | What::Script(_) => {
            return None;
        }
        What::Pattern { pattern, disks } => (Defect::DeviceOrder, pattern_told(kernel, pattern, disks, data)),
        What::Aborted { why } => {
            (Defect::EndsHalfWay, format!("set -e ends the script here, and the rest is skipped: {why}"))
        }
        // A line that is searched with its value exists, or not.
        What::Guarded { text, .. }
            if text.split_once('=').is_some_and(|(_, value)| !value.trim().is_empty()) =>
        {
            return None;
        }
        What::Guarded { text, file, found } => (Defect::NotKept, guard_told(text, file, *found)),
        What::Unit { verb, name } => unit_told(verb, name)?,
        What::Profile(name) if name.is_empty() => {
            (Defect::Mixed, "tuned is switched off: all settings of its profile end with it".to_owned())
        }
        What::Profile(name) => (Defect::Mixed, profile_told(name, facts)),
        What::SwapOff => (
            Defect::AgainstTheVendor,
            "swap is switched off, but Redpanda's own check wants it on, with swappiness 1".to_owned(),
        ),
    };
    Some(finding(defect, place(event), told))
}

fn pattern_told(kernel: &dyn Kernel, pattern: &str, disks: &[String], data: &DataPath) -> String {
    let mut told =
        format!("{pattern} matches {} here, in the order in which disks were detected", disks.join(", "));
    let is_data = |disk: &&String| data.disks.iter().any(|known| known.name == **disk);
    let others: Vec<&str> = disks.iter().filter(|disk| !is_data(disk)).map(String::as_str).collect();
    if !data.disks.is_empty() && !others.is_empty() {
        told += &format!("; the data is not on {}", others.join(", "));
    }
    let volumes: Vec<&str> =
        disks.iter().filter(|disk| look(kernel, disk).is_volume_of_a_cloud()).map(String::as_str).collect();
    if !volumes.is_empty() {
        told += &format!("; {} are network volumes that look like NVMe drives", volumes.join(", "));
    }
    told
}

fn guard_told(text: &str, file: &str, found: bool) -> String {
    let now = if found { "and one exists now" } else { "and none exists now" };
    format!(
        "the steps that depend on this run only if /{file} has no line with `{text}`, with any value or as \
         a remark, {now}"
    )
}

fn unit_told(verb: &str, name: &str) -> Option<(Defect, String)> {
    let is_broker = ["redpanda", "kafka"].iter().any(|broker| name.starts_with(broker))
        && !name.contains("tun")
        && !name.contains("optimi");
    (is_broker && matches!(verb, "restart" | "start" | "stop")).then(|| {
        let told = format!(
            "{verb} of {name} in the middle of it: a start alone changes latency, so the \
            effect of the settings can't be seen"
        );
        (Defect::Mixed, told)
    })
}

fn profile_told(name: &str, facts: &Facts) -> String {
    match &facts.tuned_profile {
        Some(active) if active != name => format!(
            "tuned changes from {active} to {name}: that sets some values and drops others; `hone host \
             status` shows its values"
        ),
        _ => format!("tuned's profile {name} sets its own values, over those of sysctl.d"),
    }
}

/// Systemd units of the texts.
fn of_units(kernel: &dyn Kernel, course: &Course<'_>) -> Vec<Finding> {
    let folder = "etc/systemd/system";
    let brought = course.host.list(folder).into_iter().filter(|name| name.ends_with(".service"));
    let mut findings = Vec::new();
    for name in brought {
        let path = format!("{folder}/{name}");
        let text = course.host.read(&path).unwrap_or_default();
        if kernel.read(&path).is_ok_and(|old| old == text) {
            continue;
        }
        findings.extend(of_unit(kernel, &name, &text));
    }
    findings
}

fn of_unit(kernel: &dyn Kernel, name: &str, text: &str) -> Vec<Finding> {
    let words = |key: &str| -> Vec<String> {
        unit_values(text, key).iter().flat_map(|line| line.split_whitespace()).map(str::to_owned).collect()
    };
    let (after, before) = (words("After"), words("Before"));
    let mut told = Vec::new();
    let brokers = brokers(kernel);
    let is_broker = |unit: &String| brokers.contains(unit) || is_broker_unit(unit);
    // The broker's own unit runs its commands in order: a command before its ExecStart runs before the broker.
    let starts_it = |line: &String| line.contains("kafka-server-start") || line.contains("/redpanda");
    let is_own = is_broker(&name.to_owned()) || unit_values(text, "ExecStart").iter().any(starts_it);
    let late = after.iter().find(|unit| matches!(unit.as_str(), "multi-user.target" | "graphical.target"));
    if let Some(target) = late {
        let whom = if brokers.is_empty() { "the broker".to_owned() } else { brokers.join(", ") };
        told.push(format!(
            "After={target} starts it after all services of that target, {whom} among them: memory and \
             files that are in use by then keep their old settings"
        ));
    } else if let Some(broker) = after.iter().find(|unit| is_broker(unit)) {
        told.push(format!("After={broker} starts it after the broker that it is for"));
    } else if !is_own && !before.iter().any(is_broker) {
        let whom = brokers.first().map_or("the broker's unit", String::as_str);
        told.push(format!(
            "without Before={whom} it may start at the same time as the broker that it is for"
        ));
    }
    if words("ProtectKernelTunables")
        .iter()
        .any(|value| matches!(value.as_str(), "yes" | "true" | "on" | "1"))
    {
        told.push(
            "ProtectKernelTunables= mounts /proc/sys and /sys read-only for it: every write ends with EROFS"
                .to_owned(),
        );
    }
    told.into_iter().map(|told| finding(Defect::UnitOrder, name, told)).collect()
}

fn is_broker_unit(name: &str) -> bool {
    matches!(
        name,
        "redpanda.service" | "kafka.service" | "confluent-server.service" | "confluent-kafka.service"
    )
}

/// Broker units on this host.
fn brokers(kernel: &dyn Kernel) -> Vec<String> {
    let folders = ["etc/systemd/system", "usr/lib/systemd/system", "lib/systemd/system"];
    let names: BTreeSet<String> = folders.iter().flat_map(|folder| kernel.list(folder)).collect();
    names.into_iter().filter(|name| is_broker_unit(name)).collect()
}

/// Findings about the texts as a whole.
fn of_texts(
    kernel: &dyn Kernel,
    texts: &[(String, String)],
    course: &Course<'_>,
    settings: &[Setting],
    facts: &Facts,
) -> Vec<Finding> {
    let mut findings: Vec<Finding> = texts.iter().flat_map(|(name, text)| of_lines(name, text)).collect();
    findings.extend(unread(kernel, course));
    let is_script = |kind: &PieceKind| matches!(kind, PieceKind::Script | PieceKind::File { .. });
    let has_script = !settings.is_empty()
        && course.pieces.iter().any(|piece| piece.role == Role::Change && is_script(&piece.kind));
    if has_script && !course.has_rollback {
        let told = if course.is_lone_rollback {
            "only a rollback is given, and no change to compare it with: Hone judges it as a change"
        } else {
            "the texts have no rollback and do not save the old values: `hone host apply` does both"
        };
        findings.push(finding(Defect::NotRestored, String::new(), told));
    }
    let changing = settings.iter().filter(|setting| {
        !setting.findings.iter().any(|finding| matches!(finding.defect, Defect::NoEffect | Defect::Refused))
    });
    let changing = changing.count();
    if changing > 0 {
        findings.push(finding(
            Defect::NeverMeasured,
            String::new(),
            format!(
                "{changing} of {} settings change something here, but these texts measure none of them \
                 alone: `hone host try` does",
                settings.len()
            ),
        ));
    }
    if facts.tuned_profile.is_some() && changing > 0 {
        findings.push(finding(
            Defect::NotKept,
            String::new(),
            "tuned is active here and sets its own values again at its next start, except sysctls that a \
             file in /etc/sysctl.d sets",
        ));
    }
    findings
}

/// Lines that are not kernel settings, but change the measurement.
fn of_lines(name: &str, text: &str) -> Vec<Finding> {
    let lines = text.lines().enumerate().filter(|(_, line)| !line.trim_start().starts_with('#'));
    let squeezed = |line: &str| line.replace([' ', '"', '\''], "").replace(':', "=").to_lowercase();
    let is_acks = |line: &str| {
        let line = squeezed(line);
        line.contains("acks=1") || line.contains("acks=0")
    };
    lines
        .filter(|(_, line)| is_acks(line))
        .map(|(at, _)| {
            finding(
                Defect::Durability,
                format!("{name}:{}", at + 1),
                "fewer acknowledgements lower the durability, which is not tuning: a record can be lost, \
                 and its latency is not comparable with acks=all",
            )
        })
        .take(1)
        .collect()
}

/// Lines for the next boot in a file that the boot does not read.
fn unread(kernel: &dyn Kernel, course: &Course<'_>) -> Option<Finding> {
    let file = "etc/sysctl.conf";
    let (old, new) = (kernel.read(file).unwrap_or_default(), course.host.read(file).unwrap_or_default());
    let adds = old != new && !new.trim().is_empty();
    (adds && !reads_sysctl_conf(&course.host)).then(|| {
        finding(
            Defect::NotKept,
            String::new(),
            "lines are added to /etc/sysctl.conf, which nothing reads at boot here: systemd reads /etc/sysctl.d",
        )
    })
}
