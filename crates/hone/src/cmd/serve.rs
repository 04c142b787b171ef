//! `hone serve`: runs, records and ledgers as local pages.

use std::net::{SocketAddr, TcpListener};
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Context as _, Result};
use clap::Args;
use hone_tool::interrupt;
use serde::Serialize;

use crate::cmd::context::{CliContext, default_runs};
use hone_experiment::ending::Ending;
use hone_serve::serve::door::{Door, read_token};
use hone_serve::serve::listen;
use hone_serve::serve::shelf::Shelf;

/// Show runs, records and ledgers as pages for a browser on this machine.
///
/// Runs that go on with how far they are, every record with its report, any two records beside each other, a metric over commits with the places where
/// its level changes, and ledgers with the state of their chain. Every page has an address to pass on, and is JSON with .json or ?json behind it. It
/// only reads; nothing is loaded from anywhere else, and nobody but this machine is answered unless there is a token.
#[derive(Debug, Args)]
#[command(after_long_help = "Examples:
  hone serve
  hone serve runs nightly/records
  hone serve --listen 127.0.0.1:0 --quiet            any free port; its address is the line on stdout
  hone serve --listen 0.0.0.0:8377 --token-file hone.token --host desk.example
  curl -s http://127.0.0.1:8377/records?kind=broken\\&json

A token: (umask 077; head -c 32 /dev/urandom | base64 > hone.token)
A browser asks for it as the password, with any name. It travels as it is: between machines put TLS in front, or use ssh -L 8377:127.0.0.1:8377.")]
pub(crate) struct Arguments {
    /// Folders of runs and records, record files, ledgers; runs unless named.
    #[arg(value_name = "FOLDER")]
    places: Vec<PathBuf>,
    /// Where to listen. Another address than this machine's own wants --token-file.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:8377", value_parser = address)]
    listen: SocketAddr,
    /// A file with a token that everybody has to bring who asks; readable for you alone.
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// A name under which it may be asked for, beside localhost and addresses; may be repeated.
    #[arg(long, value_name = "NAME")]
    host: Vec<String>,
}

/// Where the pages are.
#[derive(Debug, Serialize)]
struct Serving {
    url: String,
}

/// What is measured beside it comes first.
fn give_way() {
    // SAFETY: changes the priority of this thread alone, from which those that it starts have theirs, and touches no memory.
    unsafe { libc::nice(19) };
}

fn address(text: &str) -> Result<SocketAddr, String> {
    let wanted = "an IP address and a port, such as 127.0.0.1:8377, 0.0.0.0:8377 or [::1]:8377";
    text.parse().map_err(|_| format!("`{text}` is none; write {wanted}"))
}

pub(crate) fn run(arguments: &Arguments, cli: &CliContext) -> Result<Ending> {
    let token = arguments.token_file.as_deref().map(read_token).transpose()?;
    let door = Door::new(arguments.listen, &arguments.host, token.as_deref())?;
    let places = if arguments.places.is_empty() { vec![default_runs()] } else { arguments.places.clone() };
    let shelf = Arc::new(Shelf::new(&places)?);
    let listener = TcpListener::bind(arguments.listen).with_context(|| {
        format!(
            "nobody can listen at {}; is the port taken? --listen 127.0.0.1:0 takes any",
            arguments.listen
        )
    })?;
    let serving = Serving { url: format!("http://{}/", listener.local_addr()?) };
    cli.show_found("serving", &serving, |serving| format!("{}\n", serving.url))?;
    cli.progress.line("Ctrl-C ends it.");
    give_way();
    let keeper = Arc::clone(&shelf);
    let looking = std::thread::Builder::new().name("shelf".to_owned()).spawn(move || keeper.keep())?;
    listen::serve(listener, shelf, door, interrupt::requested)?;
    // It looks for the interrupt between two files.
    let _ = looking.join();
    Ok(Ending::Done)
}
