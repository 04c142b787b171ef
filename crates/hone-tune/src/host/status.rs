//! The current state of a host: every knob, and existing delays of a broker.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, Result};
use hone_host::block_latency::{self, BlockLatencies, Device};
use hone_host::commit;
use hone_host::disks::{DataPath, Disk};
use hone_host::held::{OpenChange, held};
use hone_host::kernel::{Files, Kernel as _, plain_value};
use hone_host::knob::{DeviceKnob, Family, KNOBS, Knob};
use hone_host::latency::{self, Latency, Times};
use hone_host::origin::{self, Origin};
use hone_host::relevance::{self, Facts};
use hone_tool::interrupt;

use hone_document::host::{Change, KnobSeen, Status, Unreadable};
use hone_experiment::host_plan::{DiskChoice, HostView};

const FSYNC_WRITES: usize = 100;

/// Reads every knob of a host and measures existing delays of a broker: for `watch_s` seconds, and with an fsync probe in a
/// folder.
pub fn status(disks: &DiskChoice, root: &Path, watch_s: u64, fsync: Option<&Path>) -> Result<Status> {
    let HostView { files, data, facts } = disks.look(root)?;
    let origins = origin::origins(&files, facts.container.is_some());
    let places = KNOBS.iter().flat_map(|knob| places(knob, &data));
    let knobs = places.map(|place| seen(&files, &place, &origins, &facts)).collect();
    // A recorded machine has no moving counters.
    let is_live = root == Path::new("/") && watch_s > 0;
    let watched = if is_live { watched(&files, root, watch_s, &data, &facts) } else { Watched::default() };
    let fsync = match fsync {
        Some(folder) => latency::fsync_probe(folder, FSYNC_WRITES)
            .with_context(|| format!("can't probe fsync in {}", folder.display()))?,
        None => None,
    };
    let Watched { latency, timers, blocks, no_blocks } = watched;
    let known = commit::known(root);
    Ok(Status {
        data,
        facts,
        knobs,
        latency,
        blocks,
        no_blocks,
        timers,
        fsync,
        changes: held(root, &known).iter().map(change).collect(),
        unreadable: known
            .unreadable
            .into_iter()
            .map(|one| Unreadable { id: one.id, why: one.why.to_string() })
            .collect(),
    })
}

fn places(knob: &'static Knob, data: &DataPath) -> Vec<DeviceKnob> {
    match knob.family {
        Family::Sysctl | Family::HugePages => vec![DeviceKnob::new(knob, None)],
        Family::Queue => data.disks.iter().map(|disk| DeviceKnob::new(knob, Some(&disk.name))).collect(),
        Family::TopQueue => data.top.iter().map(|top| DeviceKnob::new(knob, Some(top))).collect(),
    }
}

fn seen(files: &Files, place: &DeviceKnob, origins: &[Origin], facts: &Facts) -> KnobSeen {
    let path = place.path();
    KnobSeen {
        title: place.title(),
        value: files.read(&path).ok().map(|text| plain_value(&text)),
        default: place.usual(files),
        set_by: origin::ruling(origins, &path).cloned(),
        effect: place.knob.effect,
        about: place.knob.about,
        advice: place.knob.advice,
        idle: relevance::cannot_matter(place.knob.name, facts),
        remark: relevance::remark(place.knob.name, facts),
        path,
    }
}

#[derive(Default)]
struct Watched {
    latency: Option<Latency>,
    timers: Option<Times>,
    blocks: Option<BlockLatencies>,
    no_blocks: Option<String>,
}

fn watched(files: &Files, root: &Path, seconds: u64, data: &DataPath, facts: &Facts) -> Watched {
    let pids: Vec<u32> = facts.brokers.iter().map(|broker| broker.pid).collect();
    let over = Duration::from_secs(seconds);
    let blocks = watching_blocks(data, over);
    let before = latency::sample(files, root, &pids);
    let timers = latency::timer_delays(over, &interrupt::requested);
    let after = latency::sample(files, root, &pids);
    let disks: Vec<String> = data.disks.iter().map(|disk| disk.name.clone()).collect();
    let latency = Some(latency::between(&before, &after, &disks));
    let (blocks, no_blocks) = match blocks.map(|thread| thread.join()) {
        None => (None, None),
        Some(Ok(Ok(seen))) => (Some(seen), None),
        Some(Ok(Err(error))) => (None, Some(error.to_string())),
        Some(Err(_)) => (None, Some("the thread that watches the disks has died".to_owned())),
    };
    Watched { latency, timers, blocks, no_blocks }
}

/// It runs in its own thread, since it may enter another mount namespace. It checks for interruptions itself, and always deletes
/// its files.
fn watching_blocks(
    data: &DataPath,
    over: Duration,
) -> Option<std::thread::JoinHandle<std::io::Result<BlockLatencies>>> {
    let device =
        |disk: &Disk| Some(Device { name: disk.name.clone(), number: disk.identity.number.clone()? });
    let devices: Vec<Device> = data.disks.iter().filter_map(device).collect();
    let is_asked = !devices.is_empty();
    is_asked.then(|| std::thread::spawn(move || block_latency::watch(&devices, over, &interrupt::requested)))
}

fn change(held: &OpenChange) -> Change {
    let drifted = held.attributes.iter().filter(|attribute| attribute.has_drifted());
    Change {
        id: held.id.clone(),
        profile: held.profile.clone(),
        confirmed: held.confirmed,
        earlier_boot: held.earlier_boot,
        gone: held.gone,
        seconds_left: held.guard.map(|guard| guard.seconds_left),
        guarded: held.guard.map(|guard| guard.lives),
        drifted: drifted.map(|attribute| attribute.path.clone()).collect(),
    }
}
