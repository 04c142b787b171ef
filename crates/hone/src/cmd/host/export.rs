//! `hone host export`: exports counters and settings for Prometheus.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use anyhow::Result;
use clap::Args;
use hone_host::export::{kept_here, page};

use super::plan::On;
use crate::cmd::context::{CliContext, print};
use hone_experiment::ending::Ending;
use hone_experiment::host_plan::HostView;
use hone_serve::metrics_page::{serve, write_whole};

/// Export kernel counters and settings of this host for Prometheus.
///
/// Hone prints them once. --textfile writes a file for node_exporter's textfile collector; call it from a timer. --listen serves them at
/// http://HOST:PORT/metrics until you press Ctrl-C.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    on: On,
    /// File for node_exporter's textfile collector. Example: `/var/lib/node_exporter/hone.prom`. Hone writes it whole or not at all.
    #[arg(long, value_name = "FILE", conflicts_with = "listen")]
    textfile: Option<PathBuf>,
    /// Address to listen on. Example: `127.0.0.1:9191`. There is no login, so anyone who reaches the address can read the page.
    #[arg(long, value_name = "HOST:PORT")]
    listen: Option<SocketAddr>,
}

pub(crate) fn run(arguments: &Arguments, root: &Path, cli: &CliContext) -> Result<Ending> {
    let text = || -> Result<String> {
        let HostView { files, data, facts } = arguments.on.choice().look(root)?;
        Ok(page(&files, &data, &facts, kept_here(root).as_ref()))
    };
    match (&arguments.textfile, arguments.listen) {
        (Some(path), _) => write_whole(path, &text()?)?,
        (None, Some(address)) => serve(address, &text, &cli.progress)?,
        (None, None) => print(&text()?)?,
    }
    Ok(Ending::Done)
}
