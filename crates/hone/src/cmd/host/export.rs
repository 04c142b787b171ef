//! `hone host export`: counters and settings for Prometheus.

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

/// Write what delays a broker on this host, and its settings, in Prometheus' text format.
///
/// Once to stdout, or with --textfile into a file for node_exporter's textfile collector (whole or not at all; call it from a
/// timer), or with --listen at http://ADDRESS/metrics until it is interrupted. What the kernel does not show has no sample.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    on: On,
    /// Write a file, as /var/lib/node_exporter/hone.prom.
    #[arg(long, value_name = "FILE", conflicts_with = "listen")]
    textfile: Option<PathBuf>,
    /// Serve it, as 127.0.0.1:9191. It has no login: anyone who reaches the address can read it.
    #[arg(long, value_name = "ADDRESS")]
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
