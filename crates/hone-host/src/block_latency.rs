//! Latency of a disk per request, from the kernel's trace events of issue and completion (block_rq_issue and block_rq_complete in tracefs).
//! This gives the distribution that /proc/diskstats lacks. It needs root but no package.
//!
//! The events go to a separate instance of tracefs, so that other traces are not disturbed. Where tracefs is not mounted, it is mounted in
//! a mount namespace of one thread, and disappears with it.

use std::collections::{BTreeMap, HashMap};
use std::ffi::CString;
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Read as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde::Serialize;

use crate::latency::{Times, times};

/// Latencies of a disk's requests of one kind.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct BlockTimes {
    /// Name of the disk.
    pub device: String,
    /// `read`, `write`, `flush` or `other`.
    pub operation: String,
    /// Time from issue to completion.
    pub times: Times,
}

/// Result of the trace.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct BlockLatencies {
    /// Latencies by disk and kind.
    pub blocks: Vec<BlockTimes>,
    /// Number of events that were overwritten before they were read, or that exceed the read limit. If it is not zero, the latencies are
    /// incomplete.
    pub lost: u64,
}

/// A disk by its name and its device number, `254:0`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Device {
    /// Name of the disk.
    pub name: String,
    /// Device number as in `/sys/block/NAME/dev`.
    pub number: String,
}

/// Usual places of tracefs (Documentation/trace/ftrace.rst).
const PLACES: [&str; 2] = ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"];
const EVENTS: [&str; 2] = ["block_rq_issue", "block_rq_complete"];
const NAME: &str = "hone-";
/// Buffer for each core: 4 MiB hold some 40,000 requests.
const BUFFER_KIB: &str = "4096";
const LONGEST_TRACE_BYTES: u64 = 64 << 20;
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// Traces disks for some time, or until `stop` returns true.
///
/// # Errors
/// Returns an error if tracefs is not available, with everything that was tried.
pub fn watch(devices: &[Device], over: Duration, stop: &dyn Fn() -> bool) -> io::Result<BlockLatencies> {
    let place = match PLACES.iter().map(Path::new).find(|place| place.join("instances").is_dir()) {
        Some(place) => place.to_owned(),
        None => mounted_for_this_thread()?,
    };
    let instance = Instance::new(&place, devices)?;
    let until = Instant::now() + over;
    while Instant::now() < until && !stop() {
        std::thread::sleep(LOOK_EVERY);
    }
    instance.finish(devices)
}

fn failure(what: &str, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{what}: {error}"))
}

/// Mounts tracefs for this thread only. The mount disappears when the thread ends, for any reason.
fn mounted_for_this_thread() -> io::Result<PathBuf> {
    let place = Path::new("/sys/kernel/tracing");
    let check = |answer: libc::c_int| if answer == 0 { Ok(()) } else { Err(io::Error::last_os_error()) };
    let text = |text: &str| CString::new(text).map_err(io::Error::from);
    let (root, target, kind) = (text("/")?, text("/sys/kernel/tracing")?, text("tracefs")?);
    // SAFETY: the calls change only what this thread sees, and the strings live until the calls return.
    let done = unsafe {
        check(libc::unshare(libc::CLONE_FS | libc::CLONE_NEWNS))
            .and_then(|()| {
                let private = libc::MS_REC | libc::MS_PRIVATE;
                check(libc::mount(
                    std::ptr::null(),
                    root.as_ptr(),
                    std::ptr::null(),
                    private,
                    std::ptr::null(),
                ))
            })
            .and_then(|()| {
                check(libc::mount(kind.as_ptr(), target.as_ptr(), kind.as_ptr(), 0, std::ptr::null()))
            })
    };
    done.map(|()| place.to_owned())
        .map_err(|error| failure("tracefs is not mounted and can't be mounted", &error))
}

/// An instance of tracefs, removed when this is dropped.
struct Instance {
    path: PathBuf,
}

impl Instance {
    fn new(tracefs: &Path, devices: &[Device]) -> io::Result<Self> {
        let instances = tracefs.join("instances");
        remove_left(&instances);
        let path = instances.join(format!("{NAME}{}", std::process::id()));
        fs::create_dir(&path).map_err(|error| failure("no instance of tracefs can be created", &error))?;
        let instance = Self { path };
        instance.write("trace_clock", "mono")?;
        instance.write("buffer_size_kb", BUFFER_KIB)?;
        for event in EVENTS {
            instance.write(&format!("events/block/{event}/filter"), &filter(devices))?;
            instance.write(&format!("events/block/{event}/enable"), "1")?;
        }
        Ok(instance)
    }

    fn write(&self, file: &str, value: &str) -> io::Result<()> {
        fs::write(self.path.join(file), value).map_err(|error| failure(&format!("{file} of tracefs"), &error))
    }

    fn finish(self, devices: &[Device]) -> io::Result<BlockLatencies> {
        self.write("tracing_on", "0")?;
        let trace = BufReader::new(File::open(self.path.join("trace"))?);
        let (text, behind) = head_of(trace, LONGEST_TRACE_BYTES)?;
        Ok(BlockLatencies { blocks: paired(&text, devices), lost: self.lost() + behind })
    }

    fn lost(&self) -> u64 {
        let Ok(cores) = fs::read_dir(self.path.join("per_cpu")) else { return 0 };
        let of_core = |stats: String| -> Option<u64> {
            stats.lines().find_map(|line| line.strip_prefix("overrun: ")?.trim().parse().ok())
        };
        cores.flatten().filter_map(|core| of_core(fs::read_to_string(core.path().join("stats")).ok()?)).sum()
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        let _ = self.write("tracing_on", "0");
        for event in EVENTS {
            let _ = self.write(&format!("events/block/{event}/enable"), "0");
        }
        // The kernel releases files that were read a moment later.
        for _ in 0..50 {
            if fs::remove_dir(&self.path).is_ok() || !self.path.exists() {
                return;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

/// Remains of a killed Hone.
fn remove_left(instances: &Path) {
    for entry in fs::read_dir(instances).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let pid = name.to_str().and_then(|name| name.strip_prefix(NAME)?.parse::<u32>().ok());
        // A process that has ended and was not waited for has no program any more.
        let is_gone = |pid: u32| fs::read_link(format!("/proc/{pid}/exe")).is_err();
        if pid.is_some_and(|pid| pid != std::process::id() && is_gone(pid)) {
            drop(Instance { path: entry.path() });
        }
    }
}

/// The whole lines in the first `limit` bytes, and the number of lines after them.
fn head_of(mut trace: impl BufRead, limit: u64) -> io::Result<(String, u64)> {
    let mut bytes = Vec::new();
    trace.by_ref().take(limit).read_to_end(&mut bytes)?;
    let mut behind = 0;
    loop {
        let more = trace.fill_buf()?;
        if more.is_empty() {
            break;
        }
        behind += more.iter().filter(|&&byte| byte == b'\n').count() as u64;
        let read = more.len();
        trace.consume(read);
    }
    if behind > 0 {
        // The line across the limit counts by its end.
        bytes.truncate(bytes.iter().rposition(|&byte| byte == b'\n').map_or(0, |end| end + 1));
    }
    Ok((String::from_utf8_lossy(&bytes).into_owned(), behind))
}

/// The kernel's number of a device: 12 bits and 20 bits (include/linux/kdev_t.h).
fn filter(devices: &[Device]) -> String {
    let number = |device: &Device| {
        let (major, minor) = device.number.split_once(':')?;
        let (major, minor): (u32, u32) = (major.parse().ok()?, minor.parse().ok()?);
        Some(format!("dev == {}", major.checked_shl(20)? | minor))
    };
    let all: Vec<String> = devices.iter().filter_map(number).collect();
    if all.is_empty() { "0".to_owned() } else { all.join(" || ") }
}

/// A trace event: time (us), whether it is a completion, device, kind and first sector.
#[derive(Debug, PartialEq, Eq)]
struct Mark<'a> {
    at_us: u64,
    is_end: bool,
    number: &'a str,
    kind: &'static str,
    sector: &'a str,
}

/// `dd-29838 [001] ..... 58946.657907: block_rq_issue: 254,0 WS 4096 () 343066664 + 8 be,0,7 [dd]`; the completion has no bytes. A task's
/// name may contain spaces and colons, so a line is read from its event on.
fn mark(line: &str) -> Option<Mark<'_>> {
    let (head, rest, is_end) = EVENTS.iter().zip([false, true]).find_map(|(event, is_end)| {
        let (head, rest) = line.split_once(&format!(": {event}: "))?;
        Some((head, rest, is_end))
    })?;
    let (seconds, fraction) = head.rsplit(' ').next()?.split_once('.')?;
    let at_us = seconds.parse::<u64>().ok()?.checked_mul(1_000_000)?.checked_add(fraction.parse().ok()?)?;
    let (front, behind) = rest.split_once(") ")?;
    let mut words = front.split(' ');
    let (number, flags) = (words.next()?, words.next()?);
    let kind = match flags.chars().next()? {
        'R' => "read",
        'W' => "write",
        'F' if flags == "FF" => "flush",
        'F' => "write",
        _ => "other",
    };
    Some(Mark { at_us, is_end, number, kind, sector: behind.split(' ').next()? })
}

fn paired(trace: &str, devices: &[Device]) -> Vec<BlockTimes> {
    let mut open: HashMap<(&str, &str), u64> = HashMap::new();
    let mut all_us: BTreeMap<(&str, &str), Vec<u64>> = BTreeMap::new();
    for mark in trace.lines().filter(|line| !line.starts_with('#')).filter_map(mark) {
        // A flush has no sector: 0 at its issue, the largest number at its completion.
        let key = (mark.number, if mark.kind == "flush" { "flush" } else { mark.sector });
        if !mark.is_end {
            open.insert(key, mark.at_us);
        } else if let Some(began_us) = open.remove(&key) {
            let took_us = mark.at_us.saturating_sub(began_us);
            all_us.entry((mark.number, mark.kind)).or_default().push(took_us);
        }
    }
    let of = |((number, kind), all_us): ((&str, &str), Vec<u64>)| {
        let device = devices.iter().find(|device| device.number.replace(':', ",") == number)?;
        Some(BlockTimes { device: device.name.clone(), operation: kind.to_owned(), times: times(all_us)? })
    };
    all_us.into_iter().filter_map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn vda() -> Vec<Device> {
        vec![Device { name: "vda".to_owned(), number: "254:0".to_owned() }]
    }

    /// Lines as Linux 6.18 writes them.
    const TRACE: &str = "# tracer: nop\n\
              dd-29838   [001] ..... 58946.657907: block_rq_issue: 254,0 WS 4096 () 343066664 + 8 be,0,7 [dd]\n\
      opt cgu.12-29593   [001] ..s.. 58946.658149: block_rq_complete: 254,0 WS () 343066664 + 8 be,0,7 [0]\n\
    kworker/0:1H-58      [000] ..... 58946.660430: block_rq_issue: 254,0 FF 0 () 0 + 0 none,0,0 [kworker/0:1H]\n\
         kgo:test-28151   [001] ..s.. 58946.660444: block_rq_complete: 254,0 FF () 18446744073709551615 + 0 none,0,0 [0]\n\
         kgo:test-28151   [001] d.s1. 58946.660445: block_rq_complete: 254,0 WS () 0 + 0 be,0,7 [0]\n\
              dd-29838   [001] ..... 58946.668207: block_rq_issue: 254,0 R 8192 () 12545536 + 16 [dd]\n\
              dd-29838   [001] ..... 58947.668207: block_rq_complete: 254,0 R () 12545536 + 16 [0]\n\
              dd-29838   [001] ..... 58947.668208: block_rq_issue: 254,16 R 8192 () 12545536 + 16 [dd]\n";

    #[test]
    fn issue_and_completion_are_joined() {
        let found = paired(TRACE, &vda());
        let of = |operation: &str| found.iter().find(|times| times.operation == operation).unwrap();
        assert_eq!((of("write").times.count, of("write").times.us_max), (1, 242));
        assert_eq!((of("flush").times.count, of("flush").times.us_max), (1, 14));
        assert_eq!(of("read").times.us_max, 1_000_000);
        assert_eq!(found.len(), 3, "what is not finished has no time");
    }

    #[test]
    fn lines_behind_the_longest_trace_are_counted() {
        let head = |limit| head_of(io::Cursor::new("one\ntwo\nthree\n"), limit).unwrap();
        assert_eq!(head(14), ("one\ntwo\nthree\n".to_owned(), 0));
        assert_eq!(head(100), head(14));
        assert_eq!(head(9), ("one\ntwo\n".to_owned(), 1));
        assert_eq!(head(8), ("one\ntwo\n".to_owned(), 1));
        assert_eq!(head(7), ("one\n".to_owned(), 2));
        assert_eq!(head(2), (String::new(), 3));
    }

    #[test]
    fn only_the_disks_that_are_asked_for() {
        assert_eq!(filter(&vda()), "dev == 266338304");
        assert_eq!(filter(&[]), "0");
    }

    /// A printed skip; where HONE_REQUIRE_ROOT says so, a failure.
    #[expect(clippy::print_stderr, reason = "a test that does not run must say so")]
    fn skip(why: &str) {
        assert!(std::env::var_os("HONE_REQUIRE_ROOT").is_none(), "{why}");
        eprintln!("skipped: {why}");
    }

    /// The real kernel, where this is root: requests are seen, and nothing is left.
    #[test]
    fn a_disk_that_writes_is_seen_and_nothing_is_left() {
        // SAFETY: a question without side effects.
        if unsafe { libc::geteuid() } != 0 {
            return skip("this is not root");
        }
        let found = std::thread::spawn(|| {
            let folder = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).unwrap();
            let path = crate::disks::of_folder(
                &crate::kernel::Files::new(Path::new("/")),
                Path::new("/"),
                folder.path(),
            );
            let devices: Vec<Device> = path
                .disks
                .iter()
                .filter_map(|disk| {
                    Some(Device { name: disk.name.clone(), number: disk.identity.number.clone()? })
                })
                .collect();
            let began = Instant::now();
            let writes = std::cell::Cell::new(0);
            let busy = || {
                let file = folder.path().join("x");
                fs::write(&file, [1; 4096]).and_then(|()| File::open(&file)?.sync_all()).unwrap();
                writes.set(writes.get() + 1);
                writes.get() > 20 || began.elapsed() > Duration::from_secs(20)
            };
            let seen = watch(&devices, Duration::from_secs(30), &busy);
            let place = PLACES.iter().map(Path::new).find(|place| place.join("instances").is_dir());
            let left =
                place.map(|place| place.join("instances").join(format!("{NAME}{}", std::process::id())));
            (seen, devices, left)
        });
        let (seen, devices, left) = found.join().unwrap();
        let seen = match seen {
            Ok(seen) => seen,
            Err(error) => return skip(&format!("a kernel without tracefs, or a container: {error}")),
        };
        if devices.is_empty() {
            return skip("the sources are on no disk that is known, as on an overlay");
        }
        assert!(seen.blocks.iter().any(|times| times.times.count > 0), "{seen:?}");
        assert!(left.is_none_or(|path| !path.exists()));
    }

    proptest! {
        #[test]
        fn foreign_texts_do_no_harm(text in "\\PC*") {
            let _ = (mark(&text), paired(&text, &vda()));
            let _ = mark(&format!("{text}: block_rq_issue: {text}"));
        }
    }
}
