//! A page of metrics for Prometheus: in a file for a collector, or at an address.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use hone_tool::interrupt;

use hone_experiment::progress::Progress;

/// Writes the page to a file. A collector that reads at that moment gets the old page or the new one.
pub fn write_whole(path: &Path, text: &str) -> Result<()> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let write = || -> std::io::Result<()> {
        let mut file = tempfile::Builder::new().prefix(".hone-").tempfile_in(folder)?;
        file.write_all(text.as_bytes())?;
        // The collector runs as another user.
        file.as_file().set_permissions(std::os::unix::fs::PermissionsExt::from_mode(0o644))?;
        file.persist(path).map(|_| ()).map_err(|error| error.error)
    };
    write()
        .with_context(|| format!("can't write {}; name a file in a folder of the collector", path.display()))
}

/// Interval of the checks for an interrupt while there is no request.
const LOOK_EVERY: Duration = Duration::from_millis(200);
/// Time limit of a request. The server handles one at a time, so a slow client must not block it.
const PATIENCE: Duration = Duration::from_secs(2);
const LONGEST_REQUEST_BYTES: usize = 8 << 10;

/// Serves a page at /metrics until an interrupt.
pub fn serve(address: SocketAddr, page: &dyn Fn() -> Result<String>, progress: &Progress) -> Result<()> {
    let listener = TcpListener::bind(address)
        .with_context(|| format!("can't listen at {address}: another program may use the port"))?;
    listener.set_nonblocking(true)?;
    progress.doing(&format!("serving http://{}/metrics", listener.local_addr()?));
    while !interrupt::requested() {
        match listener.accept() {
            // A client that disconnects loses only its own answer.
            Ok((stream, _)) => drop(answer(stream, page)),
            Err(_) => std::thread::sleep(LOOK_EVERY),
        }
    }
    Ok(())
}

fn answer(mut stream: TcpStream, page: &dyn Fn() -> Result<String>) -> Result<()> {
    stream.set_nonblocking(false)?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let asked = request(&mut stream)?;
    let path = asked.split(' ').nth(1).unwrap_or_default();
    let is_page = asked.starts_with("GET ") && (path == "/metrics" || path == "/");
    let (status, body) =
        if is_page { ("200 OK", page()?) } else { ("404 Not Found", "GET /metrics\n".to_owned()) };
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes())?;
    Ok(stream.write_all(body.as_bytes())?)
}

/// The first line of the request, once its head is complete.
fn request(stream: &mut TcpStream) -> Result<String> {
    let until = Instant::now() + PATIENCE;
    let (mut head, mut piece) = (Vec::new(), [0_u8; 512]);
    while !head.ends_with(b"\r\n\r\n") && head.len() < LONGEST_REQUEST_BYTES {
        let left = until.saturating_duration_since(Instant::now());
        anyhow::ensure!(!left.is_zero(), "the request did not arrive in time");
        stream.set_read_timeout(Some(left))?;
        match stream.read(&mut piece)? {
            0 => break,
            bytes => head.extend_from_slice(piece.get(..bytes).unwrap_or_default()),
        }
    }
    Ok(String::from_utf8_lossy(&head).lines().next().unwrap_or_default().to_owned())
}
