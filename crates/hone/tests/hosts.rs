//! The output of `hone host` on recorded hosts, compared with texts that a person has read. `fixtures/hosts/README.md` shows how
//! to write them again.

use std::fs;
use std::path::{Path, PathBuf};

mod host_cli;
mod tree;
use host_cli::{hone, said};

fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/hosts").canonicalize().unwrap()
}

#[track_caller]
fn holds(name: &str, text: &str) {
    let path = fixtures().join(format!("{name}.golden"));
    if std::env::var_os("HONE_GOLDEN").is_some_and(|value| value == "write") {
        fs::write(&path, text).unwrap();
    }
    let expected = fs::read_to_string(&path).unwrap_or_default();
    assert!(text == expected, "{} differs, got:\n{text}", path.display());
}

const PROFILES: [&str; 5] = ["field-guide", "redpanda", "kafka-page-cache", "latency", "throughput"];

#[track_caller]
fn is_as_recorded(name: &str) {
    let text = fs::read_to_string(fixtures().join(format!("{name}.tree"))).unwrap();
    let data = tree::data(&text).unwrap();
    let root = tree::planted(&text);
    let shown = |arguments: &[&str]| {
        let output = hone(root.path(), &[arguments, &["--data", data]].concat());
        assert!(output.status.success(), "{}", said(&output));
        String::from_utf8(output.stdout).unwrap()
    };
    holds(&format!("{name}.status"), &shown(&["status"]));
    for profile in PROFILES {
        holds(&format!("{name}.{profile}"), &shown(&["plan", profile]));
    }
}

#[test]
fn ubuntu_on_nvme() {
    is_as_recorded("ubuntu-nvme");
}

#[test]
fn rhel_with_tuned() {
    is_as_recorded("rhel-tuned");
}

#[test]
fn volumes_of_ec2_that_look_like_nvme() {
    is_as_recorded("ec2-ebs");
}

#[test]
fn stripes_of_md_over_nvme() {
    is_as_recorded("md-nvme");
}

#[test]
fn lvm_over_dm_crypt() {
    is_as_recorded("dm-crypt");
}

#[test]
fn virtio_with_one_queue() {
    is_as_recorded("virtio");
}

#[test]
fn a_read_only_container() {
    is_as_recorded("container");
}

#[test]
fn swap_in_compressed_memory() {
    is_as_recorded("zram");
}

#[test]
fn arm_with_large_pages() {
    is_as_recorded("arm");
}

/// Every golden text belongs to a test above.
#[test]
fn no_text_is_left_over() {
    let names = |suffix: &str| -> Vec<String> {
        let entries = fs::read_dir(fixtures()).unwrap().map(|entry| entry.unwrap().file_name());
        entries.filter_map(|name| Some(name.to_str()?.strip_suffix(suffix)?.to_owned())).collect()
    };
    let trees = names(".tree");
    assert_eq!(trees.len(), 9);
    for name in names(".golden") {
        let (tree, of) = name.split_once('.').unwrap();
        assert!(trees.iter().any(|known| known == tree), "{name}");
        assert!(of == "status" || PROFILES.contains(&of), "{name}");
    }
}
