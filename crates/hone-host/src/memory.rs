//! Memory of a process.

use std::fs;
use std::path::Path;

use crate::kernel_text;

/// The most memory that a process held at a time so far (resident, in bytes); `None` when it has gone, or the kernel does not
/// tell. Its children are not in it.
pub fn peak_rss_bytes(pid: u32) -> Option<u64> {
    peak_under(Path::new("/"), pid)
}

fn peak_under(root: &Path, pid: u32) -> Option<u64> {
    let text = fs::read_to_string(root.join(format!("proc/{pid}/status"))).ok()?;
    kernel_text::peak_rss_bytes(&text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_held_once_counts_after_it_is_given_back() {
        let before = peak_rss_bytes(std::process::id()).unwrap();
        let held = vec![1_u8; 256 << 20];
        std::hint::black_box(&held);
        drop(held);
        let after = peak_rss_bytes(std::process::id()).unwrap();
        assert!(after >= before + (200 << 20), "{before} .. {after}");
        assert_eq!(peak_rss_bytes(u32::MAX), None);
    }

    #[test]
    fn a_zombie_holds_nothing_and_says_nothing() {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir_all(root.path().join("proc/7")).unwrap();
        fs::write(root.path().join("proc/7/status"), "Name:\tx\nState:\tZ (zombie)\n").unwrap();
        assert_eq!(peak_under(root.path(), 7), None);
    }
}
