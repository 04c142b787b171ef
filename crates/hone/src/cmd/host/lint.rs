//! `hone host lint`: what texts of tuning would do here, and leave behind.

use std::io::Read as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use clap::Args;
use hone_host::lint;

use super::plan::On;
use crate::cmd::context::CliContext;
use hone_experiment::ending::Ending;
use hone_experiment::host_plan::HostView;

/// Say of a tuning guide or script what each of its settings would do to this host, and what it leaves behind.
///
/// Hone runs nothing. It reads guides (Markdown, AsciiDoc, plain text), scripts, sysctl.d, udev rules, tmpfiles.d, tuned profiles, grub,
/// systemd units and YAML (Ansible, cloud-init, Compose, Kubernetes). It applies them to a copy of this host's values, or to a
/// recorded host (--root). A file, a section of a guide or a function counts as the rollback if its name has the word
/// rollback, revert, restore, reset or undo. Hone lists settings that it finds but cannot follow. The exit code is 1 if a
/// setting harms, stays behind after the rollback, or was not understood.
///
/// Examples:
///   hone host lint tune.sh rollback.sh --data /var/lib/redpanda
///   hone host lint playbook.yml templates/sysctl.conf.j2 --root /srv/recorded-host
///   hone host lint guide.md --json
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct Arguments {
    /// Guides, scripts, playbooks, files of settings; what takes back among them.
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    #[command(flatten)]
    on: On,
}

/// Longer texts are no guides.
const LONGEST_BYTES: u64 = 1 << 20;

fn text(path: &Path) -> Result<(String, String)> {
    let mut bytes = Vec::new();
    let file = std::fs::File::open(path).with_context(|| format!("{} can't be read", path.display()))?;
    file.take(LONGEST_BYTES + 1)
        .read_to_end(&mut bytes)
        .with_context(|| format!("{} can't be read", path.display()))?;
    anyhow::ensure!(
        bytes.len() as u64 <= LONGEST_BYTES,
        "{} is longer than a mebibyte; give the part that sets something",
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
