//! A disk of this machine that no other process uses, and a root over its kernel whose journals belong to the test.

#![allow(dead_code, unreachable_pub, reason = "each test uses its part")]

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::os::fd::AsRawFd as _;
use std::path::Path;
use std::time::Duration;

use hone_host::kernel::{Files, Kernel as _, plain_value};

pub fn is_root() -> bool {
    // SAFETY: a question without side effects.
    unsafe { libc::geteuid() == 0 }
}

/// Whether a test can run: one that can't is a printed skip, and where HONE_REQUIRE_ROOT says so, a failure.
#[expect(clippy::print_stderr, reason = "a test that does not run must say so")]
pub fn can_run(what: bool, why: &str) -> bool {
    assert!(what || std::env::var_os("HONE_REQUIRE_ROOT").is_none(), "{why}");
    if !what {
        eprintln!("skipped: {why}");
    }
    what
}

/// A loop device that was made for us, over a file of ours. It goes as a whole: its queue remembers more than it shows, such as
/// that a latency of writeback was once set by hand, so no other device may be borrowed.
pub struct Loop {
    number: i32,
    pub name: String,
    device: Option<File>,
    pub before: BTreeMap<String, String>,
    _folder: tempfile::TempDir,
}

const LOOP_SET_FD: libc::Ioctl = 0x4c00;
const LOOP_CLR_FD: libc::Ioctl = 0x4c01;
const LOOP_CTL_ADD: libc::Ioctl = 0x4c80;
const LOOP_CTL_REMOVE: libc::Ioctl = 0x4c81;

fn control(request: libc::Ioctl, number: i32) -> Option<i32> {
    let control = OpenOptions::new().read(true).write(true).open("/dev/loop-control").ok()?;
    // SAFETY: no pointer is handed over.
    let answer = unsafe { libc::ioctl(control.as_raw_fd(), request, number) };
    (answer >= 0).then_some(answer)
}

impl Loop {
    /// One of ours, where that is possible.
    pub fn attach() -> Option<Self> {
        if !can_run(is_root(), "this is not root") {
            return None;
        }
        let disk = Self::attached();
        can_run(disk.is_some(), "no loop device can be had");
        disk
    }

    fn attached() -> Option<Self> {
        let folder = tempfile::tempdir().ok()?;
        let path = folder.path().join("disk");
        let backing = OpenOptions::new().read(true).write(true).create_new(true).open(path).ok()?;
        backing.set_len(16 << 20).ok()?;
        let number = control(LOOP_CTL_ADD, -1)?;
        let name = format!("loop{number}");
        let mut disk = Self { number, name, device: None, before: BTreeMap::new(), _folder: folder };
        let device = OpenOptions::new().read(true).write(true).open(format!("/dev/{}", disk.name)).ok()?;
        // SAFETY: a descriptor is handed over that is open.
        let set = unsafe { libc::ioctl(device.as_raw_fd(), LOOP_SET_FD, backing.as_raw_fd()) };
        disk.device = (set == 0).then_some(device);
        disk.device.as_ref()?;
        disk.before = queue(&disk.name);
        Some(disk)
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        if let Some(device) = self.device.take() {
            // SAFETY: no pointer is handed over.
            unsafe { libc::ioctl(device.as_raw_fd(), LOOP_CLR_FD) };
        }
        // The last one to close it may still be on its way.
        for _ in 0..100 {
            if control(LOOP_CTL_REMOVE, self.number).is_some() {
                return;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

/// The attributes of a queue that can be changed, as they stand there.
pub fn queue(name: &str) -> BTreeMap<String, String> {
    let files = Files::new(Path::new("/"));
    let folder = format!("sys/block/{name}/queue");
    let fixed = ["scheduler", "nr_requests", "read_ahead_kb", "wbt_lat_usec", "nomerges", "rq_affinity"];
    let own = files.list(&format!("{folder}/iosched")).into_iter().map(|file| format!("iosched/{file}"));
    let all = fixed.map(str::to_owned).into_iter().chain(own);
    all.filter_map(|file| Some((file.clone(), plain_value(&files.read(&format!("{folder}/{file}")).ok()?))))
        .collect()
}

/// A root whose journals are ours and whose kernel is the real one.
pub fn root_over_this_kernel() -> tempfile::TempDir {
    let root = tempfile::tempdir().unwrap();
    for folder in ["proc", "sys"] {
        std::os::unix::fs::symlink(Path::new("/").join(folder), root.path().join(folder)).unwrap();
    }
    root
}
