//! Run folders of the fixtures.

use std::process::Command;

use super::tools::of_checkout;

/// What version 0.1 wrote, unpacked.
pub fn version_0_1() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let archive = of_checkout("fixtures/version-0.1/runs.tar.gz");
    let status = Command::new("tar").arg("xzf").arg(archive).arg("-C").arg(folder.path()).status().unwrap();
    assert!(status.success());
    folder
}
