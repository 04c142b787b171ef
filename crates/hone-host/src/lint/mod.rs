//! Reads tuning texts (scripts, guides, units, sysctl files) without running anything. Reports the effect of each setting on this host, the
//! values that their own rollback leaves behind, and the settings that return with the next boot.

mod course;
mod finding;
mod imagined;
mod judge;
mod lexer;
mod of_yaml;
mod paths;
mod piece;
mod run;
mod shell;
mod stated;
mod sweep;
mod texts;

use crate::disks::DataPath;
use crate::kernel::Kernel;
use crate::relevance::Facts;
use course::course;

pub use finding::{Defect, Finding, Lint, NotUnderstood, Role, Setting};

/// Reads texts (name and content) for a host.
pub fn lint(kernel: &dyn Kernel, texts: &[(String, String)], data: &DataPath, facts: &Facts) -> Lint {
    let course = course(kernel, texts, facts);
    judge::judge(kernel, texts, &course, data, facts)
}
