//! Reads texts of tuning - scripts, guides, units, files of sysctl - without running anything, and says what each setting would
//! do to this host, what of it their own way back leaves behind, and what comes again with the next boot.

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
mod yaml;

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
