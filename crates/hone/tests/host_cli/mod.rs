//! The program under test, on a root of its own.
#![allow(dead_code, reason = "each test file uses its part")]

use std::path::Path;
use std::process::{Command, Output};

#[expect(clippy::disallowed_methods, reason = "the program under test")]
pub(crate) fn command(root: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_hone"));
    command.arg("host").args(arguments).arg("--root").arg(root);
    command
}

pub(crate) fn hone(root: &Path, arguments: &[&str]) -> Output {
    command(root, arguments).output().unwrap()
}

pub(crate) fn said(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}
