//! A disk that accepts only a part of an entry: a file size limit, which applies to the whole process, so this file has only one
//! such test; and a real full file system, if the test may mount one.

use std::ffi::CString;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use hone_ledger::{Ledger, LedgerError};

mod common;
use common::{entry, ledger_of, times};

fn limit_files_to(bytes: libc::rlim_t) {
    let limit = libc::rlimit { rlim_cur: bytes, rlim_max: libc::RLIM_INFINITY };
    // SAFETY: the structure is valid and only read. Without the signal, a write past the limit is an error.
    unsafe {
        libc::signal(libc::SIGXFSZ, libc::SIG_IGN);
        assert_eq!(libc::setrlimit(libc::RLIMIT_FSIZE, &raw const limit), 0);
    }
}

/// A file system of this size in memory; `None` if mounting is not allowed.
struct Small(tempfile::TempDir);

impl Small {
    fn new(bytes: u64) -> Option<Self> {
        let folder = tempfile::tempdir().unwrap();
        let place = CString::new(folder.path().as_os_str().as_bytes()).unwrap();
        let size = CString::new(format!("size={bytes}")).unwrap();
        // SAFETY: all pointers are to texts that end with a zero and live until the call returns.
        let made = unsafe {
            libc::mount(c"none".as_ptr(), place.as_ptr(), c"tmpfs".as_ptr(), 0, size.as_ptr().cast())
        };
        (made == 0).then_some(Self(folder))
    }

    fn path(&self) -> &Path {
        self.0.path()
    }
}

impl Drop for Small {
    fn drop(&mut self) {
        let place = CString::new(self.0.path().as_os_str().as_bytes()).unwrap();
        // SAFETY: the text ends with a zero and lives until the call returns.
        unsafe { libc::umount2(place.as_ptr(), libc::MNT_DETACH) };
    }
}

fn limited() {
    let folder = tempfile::tempdir().unwrap();
    let ledger = ledger_of(folder.path(), [1]);
    let before = fs::read(ledger.path()).unwrap();
    for room in [0, 1, 50] {
        limit_files_to(before.len() as u64 + room);
        let error = ledger.append(&entry(2)).unwrap_err();
        assert!(matches!(error, LedgerError::Io { tried: "append to", .. }), "{error}");
        assert_eq!(fs::read(ledger.path()).unwrap(), before, "with room for {room} bytes");
    }
    // A write that stored nothing leaves no file.
    limit_files_to(50);
    let none = Ledger::at(folder.path().join("none.jsonl"));
    assert!(none.append(&entry(1)).is_err());
    assert!(!none.path().exists());

    limit_files_to(libc::RLIM_INFINITY);
    ledger.append(&entry(3)).unwrap();
    let checked = ledger.read().unwrap();
    assert_eq!(common::entries(&checked), [entry(1), entry(3)]);
    assert!(checked.torn.is_empty() && checked.faults.is_empty());
}

fn full() {
    const PAGE: u64 = 4_096;
    let Some(small) = Small::new(8 * PAGE) else { return };
    let ledger = ledger_of(small.path(), [1]);
    let mut written = 1;
    let error = loop {
        let before = fs::read(ledger.path()).unwrap();
        match ledger.append(&entry(written + 1)) {
            Ok(_) => written += 1,
            Err(error) => {
                assert_eq!(fs::read(ledger.path()).unwrap(), before, "nothing half written remains");
                break error;
            }
        }
        assert!(written < 100, "the disk does not fill up");
    };
    assert!(written > 5 && matches!(error, LedgerError::Io { tried: "append to", .. }), "{error}");
    let checked = ledger.read().unwrap();
    assert!(checked.torn.is_empty() && checked.faults.is_empty());
    // With free space again, it continues. SAFETY: no pointers but to texts of this test.
    let place = CString::new(small.path().as_os_str().as_bytes()).unwrap();
    let more = CString::new(format!("size={}", 64 * PAGE)).unwrap();
    // SAFETY: all pointers are to texts that end with a zero and live until the call returns.
    let grown = unsafe {
        libc::mount(
            c"none".as_ptr(),
            place.as_ptr(),
            c"tmpfs".as_ptr(),
            libc::MS_REMOUNT,
            more.as_ptr().cast(),
        )
    };
    assert_eq!(grown, 0);
    ledger.append(&entry(written + 1)).unwrap();
    assert_eq!(times(&ledger), (1..=written + 1).collect::<Vec<_>>());
    assert!(ledger.read().unwrap().faults.is_empty());
}

#[test]
fn an_entry_that_does_not_fit_leaves_the_ledger_as_it_was() {
    limited();
    full();
}
