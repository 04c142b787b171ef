//! Options of the page that shows a load while it runs.

use std::net::SocketAddr;
use std::path::PathBuf;

use anyhow::Result;
use clap::Args;
use hone_experiment::progress::Progress;
use hone_record::Workload;
use hone_serve::serve::door::{Door, read_token};
use hone_serve::serve::load_live::LoadServer;

use crate::values::listen_address;

/// Options of a live page.
#[derive(Debug, Args)]
pub struct LiveOptions {
    /// Show the load on a local web page while it runs. Hone first prints the address of the page. The page has latency percentiles, rates,
    /// errors, backlog and CPU of each second, and the result at the end.
    #[arg(long, conflicts_with_all = ["self_test", "shard", "emit", "find_capacity", "sweep_rate", "sweep_records"])]
    live: bool,
    /// Address of the live page. An address that other machines can reach requires --token-file. [default: any free port of 127.0.0.1]
    #[arg(long, value_name = "HOST:PORT", value_parser = listen_address, requires = "live", help_heading = "Live page")]
    live_listen: Option<SocketAddr>,
    /// File with the access token (mode 0600).
    #[arg(long, value_name = "FILE", requires = "live", help_heading = "Live page")]
    token_file: Option<PathBuf>,
    /// Host name that requests can use, besides localhost and addresses; repeat it for several.
    #[arg(long = "allowed-host", value_name = "NAME", requires = "live", help_heading = "Live page")]
    allowed_host: Vec<String>,
}

impl LiveOptions {
    /// Starts the page of a load against `address` and prints where it is. `None` without --live.
    ///
    /// # Errors
    /// The token can't be read, other machines could read the page without one, or the address can't be listened on.
    pub fn start(
        &self,
        address: &str,
        workload: &Workload,
        progress: &Progress,
    ) -> Result<Option<LoadServer>> {
        if !self.live {
            return Ok(None);
        }
        let listen = self.live_listen.unwrap_or_else(|| SocketAddr::from(([127, 0, 0, 1], 0)));
        let token = self.token_file.as_deref().map(read_token).transpose()?;
        let door = Door::new(listen, &self.allowed_host, token.as_deref())?;
        let server = LoadServer::start(listen, door, address, workload)?;
        progress.always(&format!("live page: {}", server.url()));
        Ok(Some(server))
    }
}
