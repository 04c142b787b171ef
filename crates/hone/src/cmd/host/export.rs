//! `hone host export`: counters and settings for Prometheus.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use clap::Args;
use hone_host::export::{OpenSettings, page};
use hone_host::held::held;
use hone_host::kernel::Files;
use hone_host::{commit, relevance};
use hone_tool::interrupt;

use super::plan::On;
use crate::cmd::context::{CliContext, print};
use hone_experiment::ending::Ending;

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

fn text(on: &On, root: &Path) -> Result<String> {
    let files = Files::new(root);
    let data = on.data_path(&files, root)?;
    let facts = relevance::look(&files, root, on.folder().as_deref());
    Ok(page(&files, &data, &facts, kept(root).as_ref()))
}

/// What Hone has changed here and not taken back; nothing where the journals can't be read. What a change could have touched, and
/// has not, is not held.
fn kept(root: &Path) -> Option<OpenSettings> {
    let known = commit::known(root);
    if !known.unreadable.is_empty() {
        return None;
    }
    let mut kept = OpenSettings::default();
    let changes = held(root, &known);
    let attributes = changes.iter().flat_map(|change| &change.attributes);
    for attribute in attributes.filter(|attribute| attribute.is_changed()) {
        kept.settings += 1;
        kept.drifted += u64::from(attribute.has_drifted());
    }
    Some(kept)
}

pub(crate) fn run(arguments: &Arguments, root: &Path, cli: &CliContext) -> Result<Ending> {
    match (&arguments.textfile, arguments.listen) {
        (Some(path), _) => write_whole(path, &text(&arguments.on, root)?)?,
        (None, Some(address)) => serve(&arguments.on, root, address, cli)?,
        (None, None) => print(&text(&arguments.on, root)?)?,
    }
    Ok(Ending::Done)
}

/// A collector that reads meanwhile sees the old page or the new one.
fn write_whole(path: &Path, text: &str) -> Result<()> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let write = || -> std::io::Result<()> {
        let mut file = tempfile::Builder::new().prefix(".hone-").tempfile_in(folder)?;
        file.write_all(text.as_bytes())?;
        // The collector is another user.
        file.as_file().set_permissions(std::os::unix::fs::PermissionsExt::from_mode(0o644))?;
        file.persist(path).map(|_| ()).map_err(|error| error.error)
    };
    write().with_context(|| {
        format!("{} can't be written; name a file in a folder of the collector", path.display())
    })
}

/// How often an interrupt is looked for while nobody asks.
const LOOK_EVERY: Duration = Duration::from_millis(200);
/// One is served at a time, so nobody may take long.
const PATIENCE: Duration = Duration::from_secs(2);
const LONGEST_REQUEST_BYTES: usize = 8 << 10;

fn serve(on: &On, root: &Path, address: SocketAddr, cli: &CliContext) -> Result<()> {
    let listener = TcpListener::bind(address)
        .with_context(|| format!("nobody can listen at {address}; is the port taken?"))?;
    listener.set_nonblocking(true)?;
    cli.progress.doing(&format!("serving http://{}/metrics", listener.local_addr()?));
    while !interrupt::requested() {
        match listener.accept() {
            // Whoever goes away has lost an answer of their own.
            Ok((stream, _)) => drop(answer(stream, on, root)),
            Err(_) => std::thread::sleep(LOOK_EVERY),
        }
    }
    Ok(())
}

fn answer(mut stream: TcpStream, on: &On, root: &Path) -> Result<()> {
    stream.set_nonblocking(false)?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let asked = request(&mut stream)?;
    let path = asked.split(' ').nth(1).unwrap_or_default();
    let is_page = asked.starts_with("GET ") && (path == "/metrics" || path == "/");
    let (status, body) =
        if is_page { ("200 OK", text(on, root)?) } else { ("404 Not Found", "GET /metrics\n".to_owned()) };
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes())?;
    Ok(stream.write_all(body.as_bytes())?)
}

/// The first line of what is asked, when all of its head is there.
fn request(stream: &mut TcpStream) -> Result<String> {
    let until = Instant::now() + PATIENCE;
    let (mut head, mut piece) = (Vec::new(), [0_u8; 512]);
    while !head.ends_with(b"\r\n\r\n") && head.len() < LONGEST_REQUEST_BYTES {
        let left = until.saturating_duration_since(Instant::now());
        anyhow::ensure!(!left.is_zero(), "nothing was asked in time");
        stream.set_read_timeout(Some(left))?;
        match stream.read(&mut piece)? {
            0 => break,
            bytes => head.extend_from_slice(piece.get(..bytes).unwrap_or_default()),
        }
    }
    Ok(String::from_utf8_lossy(&head).lines().next().unwrap_or_default().to_owned())
}
