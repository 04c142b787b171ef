//! `hone serve`: shows runs, records and ledgers as local pages.

use std::net::{SocketAddr, TcpListener};
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Context as _, Result};
use clap::Args;
use hone_cli::values::listen_address;
use hone_tool::interrupt;
use serde::Serialize;

use crate::cmd::context::{CliContext, default_runs};
use hone_experiment::ending::Ending;
use hone_serve::serve::door::{Door, read_token};
use hone_serve::serve::listen;
use hone_serve::serve::shelf::Shelf;

/// Show runs, records and ledgers in a browser.
///
/// The pages show the progress of live runs, a report for every record, comparisons, and metrics over commits. Add .json or ?json to a page's
/// URL for JSON. Hone only reads the files. Without a token, only this machine has access.
#[derive(Debug, Args)]
#[command(after_long_help = "Examples:
  hone serve
  hone serve runs nightly/records
  # Any free port; Hone prints the address
  hone serve --listen 127.0.0.1:0 --quiet
  (umask 077; head -c 32 /dev/urandom | base64 > hone.token)
  hone serve --listen 0.0.0.0:8377 --token-file hone.token \\
    --allowed-host desk.example
  curl -s http://127.0.0.1:8377/records?kind=broken\\&json

A browser asks for the token as the password; the name can be any text. The token travels without encryption.
Between machines, use a TLS proxy or ssh -L 8377:127.0.0.1:8377.")]
pub(crate) struct Arguments {
    /// Folders of runs and records, record files, or ledgers. [default: runs]
    #[arg(value_name = "FOLDER")]
    places: Vec<PathBuf>,
    /// Address to listen on. An address that other machines can reach requires --token-file.
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:8377", value_parser = listen_address)]
    listen: SocketAddr,
    /// File with the access token (mode 0600).
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// Host name that requests can use, besides localhost and addresses; repeat it for several.
    #[arg(long = "allowed-host", alias = "host", value_name = "NAME")]
    host: Vec<String>,
}

/// Where the pages are.
#[derive(Debug, Serialize)]
struct Serving {
    url: String,
}

pub(crate) fn run(arguments: &Arguments, cli: &CliContext) -> Result<Ending> {
    let token = arguments.token_file.as_deref().map(read_token).transpose()?;
    let door = Door::new(arguments.listen, &arguments.host, token.as_deref())?;
    let places = if arguments.places.is_empty() { vec![default_runs()] } else { arguments.places.clone() };
    let shelf = Arc::new(Shelf::new(&places)?);
    let listener = TcpListener::bind(arguments.listen).with_context(|| {
        format!("can't listen on {} (try --listen 127.0.0.1:0 for any free port)", arguments.listen)
    })?;
    let serving = Serving { url: format!("http://{}/", listener.local_addr()?) };
    cli.show_found("serving", &serving, |serving| format!("{}\n", serving.url))?;
    cli.progress.line("Press Ctrl-C to stop.");
    listen::give_way();
    let keeper = Arc::clone(&shelf);
    let looking = std::thread::Builder::new().name("shelf".to_owned()).spawn(move || keeper.keep())?;
    listen::serve(listener, shelf, door, interrupt::requested)?;
    // The thread checks for an interrupt between two files.
    let _ = looking.join();
    Ok(Ending::Done)
}
