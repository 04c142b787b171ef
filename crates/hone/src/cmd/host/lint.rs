//! `hone host lint`: shows what tuning guides and scripts would do on this host, and leave behind.

use std::io::Read as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use clap::Args;
use hone_host::lint;

use super::plan::On;
use crate::cmd::context::CliContext;
use hone_experiment::ending::Ending;
use hone_experiment::host_plan::HostView;

/// Show what a tuning guide or script would do here.
///
/// Hone runs nothing. It applies the files to a copy of this host's values, or to a recorded host (--root). It reads guides (Markdown,
/// AsciiDoc, plain text), scripts, configuration files and YAML of deployment tools. A file, section or function is the rollback if its name
/// contains `rollback`, `revert`, `restore`, `reset` or `undo`.
///
/// Exit code 1: a setting harms, stays behind after the rollback, or was not understood.
#[derive(Debug, Args)]
#[command(after_long_help = "Examples:
  hone host lint tune.sh rollback.sh --data /var/lib/redpanda
  hone host lint playbook.yml templates/sysctl.conf.j2 --root /srv/recorded
  hone host lint guide.md --json")]
pub(crate) struct Arguments {
    /// Guides, scripts, playbooks and settings files, the rollback included.
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    #[command(flatten)]
    on: On,
}

/// The largest file that Hone reads, in bytes. Guides are shorter.
const LONGEST_BYTES: u64 = 1 << 20;

fn text(path: &Path) -> Result<(String, String)> {
    let mut bytes = Vec::new();
    let file = std::fs::File::open(path).with_context(|| format!("cannot read {}", path.display()))?;
    file.take(LONGEST_BYTES + 1)
        .read_to_end(&mut bytes)
        .with_context(|| format!("cannot read {}", path.display()))?;
    anyhow::ensure!(
        bytes.len() as u64 <= LONGEST_BYTES,
        "{} is larger than 1 MiB\n  next: pass only the part that contains settings",
        path.display()
    );
    Ok((path.display().to_string(), String::from_utf8_lossy(&bytes).into_owned()))
}

pub(crate) fn run(arguments: &Arguments, root: &Path, cli: &CliContext) -> Result<Ending> {
    let texts = arguments.files.iter().map(|path| text(path)).collect::<Result<Vec<_>>>()?;
    let HostView { files, data, facts } = arguments.on.choice().look(root)?;
    let found = lint::lint(&files, &texts, &data, &facts);
    let ending = if found.is_clean() { Ending::Done } else { Ending::CouldNot };
    cli.show_found("host-lint", &found, hone_document::host_lint::lint)?;
    Ok(ending)
}
