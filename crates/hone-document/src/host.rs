//! The settings of a host, planned changes and applied changes, as text.

use std::fmt::Write as _;

use hone_host::block_latency::BlockLatencies;
use hone_host::change::{Fate, Outcome};
use hone_host::commit::{Applied, Confirmed, Recovered, TakenBack};
use hone_host::disks::{DataPath, Disk, Layer};
use hone_host::knob::{Advice, Effect, Risk};
use hone_host::latency::{DiskTimes, Latency, Times};
use hone_host::origin::Origin;
use hone_host::plan::{Action, Plan, Row};
use hone_host::relevance::Facts;
use serde::Serialize;

/// A plan and its result.
#[derive(Debug, Serialize)]
pub struct Made {
    /// The plan.
    pub plan: Plan,
    /// `None` when there was nothing to write.
    pub applied: Option<Applied>,
}

/// The complete state of a host.
#[derive(Debug, Serialize)]
pub struct Status {
    /// The folder whose disks are relevant.
    pub data: DataPath,
    /// The facts that decide which knobs matter.
    pub facts: Facts,
    /// The settings.
    pub knobs: Vec<KnobSeen>,
    /// Latency of the scheduler and the disks, if it was measured.
    pub latency: Option<Latency>,
    /// Disk latency per request.
    pub blocks: Option<BlockLatencies>,
    /// The reason why it is not available.
    pub no_blocks: Option<String>,
    /// The precision of timers.
    pub timers: Option<Times>,
    /// The latency of fsync.
    pub fsync: Option<Times>,
    /// Changes that are still active.
    pub changes: Vec<Change>,
    /// Journals that can't be read.
    pub unreadable: Vec<Unreadable>,
}

/// A knob of this host.
#[derive(Debug, Serialize)]
pub struct KnobSeen {
    /// Its name, with the disk if it has one.
    pub title: String,
    /// Its path below the root.
    pub path: String,
    /// The active value.
    pub value: Option<String>,
    /// The kernel's default, if it is known.
    pub default: Option<String>,
    /// The file that sets it.
    pub set_by: Option<Origin>,
    /// The moment from which a new value applies.
    pub effect: Effect,
    /// Its effect.
    pub about: &'static str,
    /// Recommendations in guides.
    pub advice: &'static [Advice],
    /// The reason why it has no effect here.
    pub idle: Option<String>,
    /// Other facts to know.
    pub remark: Option<String>,
}

/// A change that can't be read here.
#[derive(Debug, Serialize)]
pub struct Unreadable {
    /// The change. Empty for the folder of all journals.
    pub id: String,
    /// The reason why it can't be read.
    pub why: String,
}

/// A change by Hone that is still active.
#[derive(Debug, Serialize)]
pub struct Change {
    /// Its number.
    pub id: String,
    /// The profile that it came from.
    pub profile: String,
    /// Whether it was confirmed.
    pub confirmed: bool,
    /// Whether it was made in an earlier boot.
    pub earlier_boot: bool,
    /// Whether that boot reset all of it.
    pub gone: bool,
    /// Seconds until its rollback watchdog acts.
    pub seconds_left: Option<u64>,
    /// For a change that a rollback watchdog will roll back: whether the watchdog runs.
    pub guarded: Option<bool>,
    /// Values that differ from what Hone set.
    pub drifted: Vec<String>,
}

/// The result of a rollback.
#[derive(Debug, Serialize)]
pub struct Found {
    /// The changes with their outcomes.
    pub changes: Vec<Recovered>,
    /// Whether nothing of Hone is left here.
    pub uninstalled: bool,
}

const fn effect(effect: Effect) -> &'static str {
    match effect {
        Effect::Now => "at once",
        Effect::NewFiles => "for files opened from then on",
        Effect::NewMemory => "for memory touched from then on: restart the broker",
        Effect::NewSockets => "for sockets opened from then on",
    }
}

const fn risk(risk: Risk) -> &'static str {
    match risk {
        Risk::Low => "low",
        Risk::Medium => "medium",
        Risk::High => "high",
    }
}

/// A plan: `~` marks a change, `=` a value that is already set, `-` a change without effect, `!` an impossible change.
pub fn plan(plan: &Plan) -> String {
    let mut out = format!("{}: {}\n", plan.profile, plan.about);
    let disks: Vec<&str> = plan.disks.iter().map(|disk| disk.name.as_str()).collect();
    if disks.is_empty() {
        out.push_str("Disks: none named; for settings of a queue use --data FOLDER or --disk NAME\n");
    } else {
        let _ = writeln!(out, "Disks: {}", disks.join(", "));
    }
    for obstacle in &plan.obstacles {
        let _ = writeln!(out, "! {obstacle}");
    }
    out.push('\n');
    for row in &plan.rows {
        out.push_str(&plan_row(row));
    }
    let count = |is: fn(&Action) -> bool| plan.rows.iter().filter(|row| is(&row.action)).count();
    let _ = writeln!(
        out,
        "\n{} to change, {} already set, {} without effect here, {} impossible. Nothing was written.",
        count(|action| *action == Action::Change),
        count(|action| *action == Action::Keep),
        count(|action| matches!(action, Action::Idle { .. })),
        count(|action| matches!(action, Action::Cannot { .. })),
    );
    out
}

fn plan_row(row: &Row) -> String {
    let text = plan_row_itself(row);
    match &row.remark {
        Some(remark) if matches!(row.action, Action::Change | Action::Cannot { .. }) => {
            format!("{text}      here: {remark}\n")
        }
        _ => text,
    }
}

fn plan_row_itself(row: &Row) -> String {
    let now = row.now.as_deref().unwrap_or("(not there)");
    let title = &row.title;
    match &row.action {
        Action::Keep => format!("  = {title}: {now}\n"),
        Action::Idle { why } => {
            format!("  - {title}: {now} -> {}\n      no effect here: {why}\n", row.wanted)
        }
        Action::Cannot { why } => format!("  ! {title}: {now} -> {}\n      impossible: {why}\n", row.wanted),
        Action::Change => {
            let freezes =
                if row.freezes { "; the write stops the disk's queue for about 20 to 40 ms" } else { "" };
            let along = if row.takes_along.is_empty() {
                String::new()
            } else {
                let files: Vec<&str> =
                    row.takes_along.iter().filter_map(|path| path.rsplit('/').next()).collect();
                format!("\n      also saved for the rollback: {}", files.join(", "))
            };
            format!(
                "  ~ {title}: {now} -> {}\n      {} ({})\n      risk {}; takes effect {}{freezes}{along}\n",
                row.wanted,
                row.reason,
                row.source,
                risk(row.risk),
                effect(row.effect)
            )
        }
    }
}

/// The applied change, and what to do next.
pub fn applied(made: &Made) -> String {
    let Some(applied) = &made.applied else {
        return format!("{}\nThere is nothing to change.\n", plan(&made.plan).trim_end());
    };
    let text = plan(&made.plan).replace(" Nothing was written.", "");
    let next = match applied.confirm_within_s {
        Some(seconds) => format!(
            "Hone rolls it back in {seconds} s unless you run `hone host confirm`. The rollback watchdog is \
             process {}.",
            applied.guard.unwrap_or_default()
        ),
        None => {
            "`hone host confirm` keeps it after the next boot. `hone host rollback` rolls it back.".to_owned()
        }
    };
    format!(
        "{text}\nApplied as change {} in {} ms, for this boot. {next}\nJournal: {}\n",
        applied.id,
        applied.writing_ms,
        applied.journal.display()
    )
}

/// The confirmed change.
pub fn confirmed(confirmed: &Confirmed) -> String {
    let mut out = format!("Change {} stays.\n", confirmed.id);
    for file in &confirmed.files {
        let _ = writeln!(out, "  + /{file}");
    }
    for why in &confirmed.left_out {
        let _ = writeln!(out, "  ! {why}");
    }
    out
}

/// The rolled back changes, and what is left.
pub fn taken_back(found: &Found) -> String {
    let mut out = String::new();
    for change in &found.changes {
        match change {
            Recovered::TakenBack(back) => out.push_str(&one_back(back)),
            Recovered::Waiting { id } => {
                let _ = writeln!(
                    out,
                    "Change {id} is complete and waits: run `hone host confirm` or `hone host rollback`."
                );
            }
            Recovered::InForce { id } => {
                let _ = writeln!(out, "Change {id} is in force and confirmed.");
            }
            Recovered::Unreadable { id, why } => {
                let _ = writeln!(out, "! change {id}: {why}");
            }
        }
    }
    if found.changes.is_empty() {
        out.push_str("There is nothing to roll back.\n");
    }
    if found.uninstalled {
        out.push_str("Nothing of `hone host` is left on this machine.\n");
    }
    out
}

fn one_back(back: &TakenBack) -> String {
    let mut out = String::new();
    let whole = back.outcomes.iter().filter(|outcome| outcome.is_back()).count();
    let (id, all) = (&back.id, back.outcomes.len());
    let _ = match (back.other_boot, all) {
        (true, 0) => {
            writeln!(out, "Change {id}: the machine was rebooted, which reset the values of this change.")
        }
        (true, _) => writeln!(
            out,
            "Change {id}: the machine was rebooted, and files of this change had set its values again. \
             {whole} of {all} attributes are as before."
        ),
        (false, _) => writeln!(out, "Change {id}: {whole} of {all} attributes are as before."),
    };
    for outcome in back.outcomes.iter().filter(|outcome| outcome.fate != Fate::Already) {
        out.push_str(&outcome_line(outcome));
    }
    if let Some(why) = &back.unkept {
        let _ = writeln!(out, "  ! {why}; `hone host rollback --interrupted` handles this change again");
    }
    for file in &back.files_left {
        let _ = writeln!(out, "  ! /{}: {}", file.path, file.why);
    }
    out
}

fn outcome_line(outcome: &Outcome) -> String {
    let text = |value: &Option<String>| {
        value.as_deref().map_or_else(|| "(not there)".to_owned(), hone_host::kernel::plain_value)
    };
    let why = outcome.why.as_ref().map(|why| format!(" ({why})")).unwrap_or_default();
    let path = &outcome.path;
    if outcome.is_back() {
        return format!("  + /{path}: {} -> {}{why}\n", text(&outcome.found), text(&outcome.now));
    }
    let word = if outcome.fate == Fate::Drifted { "unchanged" } else { "could not be rolled back" };
    format!("  ! /{path}: {word}: {}, before {}{why}\n", text(&outcome.now), text(&outcome.before))
}

/// The complete state of a host.
pub fn status(status: &Status) -> String {
    let mut out = String::new();
    data(status, &mut out);
    out.push_str("\nKnobs (value, origin; - no effect here)\n");
    for knob in &status.knobs {
        let mark = if knob.idle.is_some() { "-" } else { " " };
        let value = knob.value.as_deref().unwrap_or("(not there)");
        let by = match (&knob.set_by, knob.default.as_deref()) {
            (None, default)
                if status.facts.container.is_some()
                    && default != Some(value)
                    && !knob.title.starts_with("net.") =>
            {
                "by the host, whose files are not visible from here".to_owned()
            }
            (Some(origin), _) if origin.value == value => format!("by /{}", origin.file),
            (Some(origin), _) => format!("not by /{}, which says {}", origin.file, origin.value),
            (None, Some(default)) if default == value => "the kernel's default".to_owned(),
            (None, Some(default)) => format!("by no file; the kernel's default is {default}"),
            (None, None) => "by no file: by the kernel itself, or by hand".to_owned(),
        };
        let _ = writeln!(out, "  {mark} {:<38} {value:<12} {by}", knob.title);
        if let Some(remark) = knob.idle.as_ref().or(knob.remark.as_ref()) {
            let _ = writeln!(out, "      {remark}");
        }
    }
    if let Some(latency) = &status.latency {
        delays(latency, &mut out);
    }
    blocks(status, &mut out);
    times("Timers of 1 ms were late by", status.timers.as_ref(), &mut out);
    times("4 KiB with fdatasync took", status.fsync.as_ref(), &mut out);
    for change in &status.changes {
        let state = standing(change);
        let _ = writeln!(out, "\nChange {} ({}): {state}", change.id, change.profile);
        for path in &change.drifted {
            let _ = writeln!(out, "  ! /{path}: someone else has set it since");
        }
    }
    for one in &status.unreadable {
        let _ = writeln!(out, "\n! the list of changes is incomplete: {}", one.why);
    }
    out
}

/// The expected future of a change.
fn standing(change: &Change) -> String {
    match (change.gone, change.confirmed, change.guarded, change.seconds_left) {
        (true, ..) => "from an earlier boot, reset by the reboot; `hone host rollback --interrupted` closes \
                       it"
        .to_owned(),
        (_, true, ..) if change.earlier_boot => "confirmed; its files set it again at each boot".to_owned(),
        (_, true, ..) => "confirmed".to_owned(),
        (_, _, Some(true), Some(left)) => format!("rolled back in {left} s unless confirmed"),
        (_, _, Some(false), _) => {
            "not confirmed, and its rollback watchdog is gone; `hone host rollback --interrupted` rolls it \
             back"
                .to_owned()
        }
        _ => "not confirmed".to_owned(),
    }
}

/// `md0 (raid0) > nvme0n1, nvme1n1`: stacked devices, and the disks below.
fn layers(layers: &[Layer]) -> String {
    let stacked =
        layers.iter().filter_map(|layer| Some(format!("{} ({})", layer.name, layer.kind.as_ref()?)));
    let disks: Vec<&str> =
        layers.iter().filter(|layer| layer.kind.is_none()).map(|layer| layer.name.as_str()).collect();
    let lowest = (!disks.is_empty()).then(|| disks.join(", "));
    let all: Vec<String> = stacked.chain(lowest).collect();
    if all.is_empty() { "none".to_owned() } else { all.join(" > ") }
}

fn disk(disk: &Disk) -> String {
    let who = disk.identity.stable.as_ref().map_or_else(
        || "no wwid or serial: settings can't persist over a boot".to_owned(),
        |(attribute, text)| format!("{attribute} {text}"),
    );
    let model = disk.model.as_ref().map(|model| format!("{model}, ")).unwrap_or_default();
    let tags = disk.tags.map(|tags| format!(" of {tags} requests")).unwrap_or_default();
    let plural = if disk.hardware_queues == 1 { "queue" } else { "queues" };
    let mut out =
        format!("  {}: {model}{} hardware {plural}{tags}, {who}\n", disk.name, disk.hardware_queues);
    if disk.is_volume_of_a_cloud() {
        out.push_str(
            "    a network volume, not a local drive: its latency is the network's, and its limits \
             are the volume's\n",
        );
    }
    out
}

fn data(status: &Status, out: &mut String) {
    let data = &status.data;
    match (&data.top, &data.problem) {
        (None, None) => {
            out.push_str("No data folder was named: --data FOLDER finds its disks and its broker\n")
        }
        _ => {
            let _ = writeln!(
                out,
                "Data: {} on {} ({}), devices {}",
                data.folder,
                data.mount_point,
                data.file_system,
                layers(&data.layers)
            );
        }
    }
    if let Some(problem) = &data.problem {
        let _ = writeln!(out, "! {problem}");
    }
    for found in &data.disks {
        out.push_str(&disk(found));
    }
    for broker in &status.facts.brokers {
        let _ = writeln!(
            out,
            "  used by {} ({}): {} files, {} with direct I/O",
            broker.program, broker.pid, broker.files, broker.direct_files
        );
    }
    if let Some(container) = &status.facts.container {
        let _ = writeln!(
            out,
            "! This is a container ({container}). Memory, disks and huge pages belong to the host; run `hone \
             host` there"
        );
    }
    if status.facts.sys_is_read_only {
        out.push_str("! /sys or /proc/sys is mounted read-only: nothing can be changed from here\n");
    }
    if let Some(profile) = &status.facts.tuned_profile {
        let _ =
            writeln!(out, "! tuned is active with {profile}, and sets its values again whenever it starts");
    }
    if let Some(unit) = &status.facts.tuner_unit {
        let _ = writeln!(out, "! /{unit} lets Redpanda's tuner set its own values at each boot");
    }
}

fn delays(latency: &Latency, out: &mut String) {
    let _ = writeln!(out, "\nDelays in {:.1} s", latency.window_s);
    for (resource, share) in &latency.pressure {
        let _ = writeln!(out, "  a task waited for {resource}: {:.1} % of the time", share * 100.0);
    }
    if let Some(seconds) = latency.run_queue_s {
        let _ = writeln!(out, "  the broker's threads waited for a core: {seconds:.3} s");
    }
    if let Some(steal) = latency.steal {
        let _ = writeln!(out, "  CPU time stolen by the hypervisor: {:.1} %", steal * 100.0);
    }
    if let (Some(rate), Some(busiest)) = (latency.interrupts_per_s, latency.interrupts_busiest_core) {
        let _ =
            writeln!(out, "  interrupts: {rate:.0} per second, {:.0} % of them on one core", busiest * 100.0);
    }
    let events: Vec<String> =
        latency.memory.iter().filter(|(_, n)| *n > 0).map(|(name, n)| format!("{name} {n}")).collect();
    let events = if events.is_empty() { "no stalls".to_owned() } else { events.join(", ") };
    let _ = writeln!(out, "  memory: {events}");
    for disk in &latency.disks {
        out.push_str(&disk_line(disk));
    }
}

fn blocks(status: &Status, out: &mut String) {
    if let Some(why) = &status.no_blocks {
        let _ = writeln!(
            out,
            "  the times of single requests are not available: {why}; they need root and tracefs"
        );
    }
    let Some(seen) = &status.blocks else { return };
    for found in &seen.blocks {
        let kind = if found.operation == "other" { "request of another kind" } else { &found.operation };
        let what = format!("{}: time from issue to completion of a {kind}", found.device);
        times(&what, Some(&found.times), out);
    }
    if seen.lost > 0 {
        let _ = writeln!(
            out,
            "  {} trace events were lost, so these times are incomplete; measure for a shorter time",
            seen.lost
        );
    }
}

fn disk_line(disk: &DiskTimes) -> String {
    let mean = |count: u64, ms: Option<f64>| {
        ms.map_or_else(|| count.to_string(), |ms| format!("{count} of {ms:.2} ms on average"))
    };
    let flushes = disk.flushes.map(|count| format!(", flushes {}", mean(count, disk.flush_ms_mean)));
    format!(
        "  {}: reads {}, writes {}{}\n",
        disk.name,
        mean(disk.reads, disk.read_ms_mean),
        mean(disk.writes, disk.write_ms_mean),
        flushes.unwrap_or_default()
    )
}

fn times(what: &str, times: Option<&Times>, out: &mut String) {
    if let Some(times) = times {
        let _ = writeln!(
            out,
            "  {what} p50 {} us, p99 {} us, at most {} us ({} times)",
            times.us_p50, times.us_p99, times.us_max, times.count
        );
    }
}
