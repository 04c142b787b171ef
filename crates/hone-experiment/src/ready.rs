//! Detects when a started program is ready for its load.

use std::fs::File;
use std::io::{self, BufRead as _, BufReader, Read as _, Seek as _, SeekFrom, Write as _};
use std::net::{SocketAddr, TcpStream, ToSocketAddrs as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use hone_host::ports;
use hone_load::{Admin, Security};
use hone_tool::{Call, LOOK_EVERY, Readiness, Runner as _, Session, System};

/// The sign of a ready program.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Ready {
    /// It answers as a Kafka-API broker.
    #[default]
    Kafka,
    /// A process listens at its address.
    Port,
    /// It has written this text, to standard output or to standard error.
    Line(String),
    /// A GET of this path at its address is answered with a status from 200 to 399.
    Http(String),
    /// This command exits with 0. It has placeholders.
    Command(Vec<String>),
}

/// Time limit of one answer. A program that is still starting answers a later attempt.
const ANSWER_LIMIT: Duration = Duration::from_secs(2);

/// Time limit of one command. It is longer, since a client program has to start, too.
const COMMAND_LIMIT: Duration = Duration::from_secs(10);

/// Time between two attempts of a command, which costs more than a look at a socket.
const COMMAND_EVERY: Duration = Duration::from_millis(50);

/// Time between two looks at the program's listening ports.
const ELSEWHERE_EVERY: Duration = Duration::from_millis(200);

/// Limit of the program output that is searched for a line.
const SEARCH_BYTES: u64 = 16 * 1024 * 1024;

/// Limit of a line of an HTTP answer.
const STATUS_LINE_BYTES: u64 = 1_024;

/// Other inputs of the check.
pub struct ReadyCheck<'a> {
    /// `host:port`.
    pub address: &'a str,
    /// TLS and login of the connection.
    pub security: &'a Security,
    /// The call of [`Ready::Command`].
    pub command: Option<Call>,
    /// Folder for the logs of the attempts, of which there may be hundreds. It is deleted when the program is ready.
    pub logs: PathBuf,
}

impl Ready {
    /// Waits until the program is ready. Returns how long that took.
    ///
    /// # Errors
    /// With the missing sign when the time is over, or with the program's last output when it exits.
    pub fn wait(&self, session: &mut Session, asked: &ReadyCheck<'_>, limit: Duration) -> Result<Duration> {
        let start = Instant::now();
        let mut elsewhere = Elsewhere::new(session.pid(), asked.address);
        match self {
            Self::Kafka => session.wait_until(limit, || of_error(elsewhere.told(kafka(asked))))?,
            Self::Port => {
                session.wait_until(limit, || of_error(elsewhere.told(connect(asked.address).map(|_| ()))))?;
            }
            Self::Http(path) => {
                session.wait_until(limit, || of_error(elsewhere.told(http(asked.address, path))))?;
            }
            Self::Line(text) => {
                let mut sought = [session.stdout_path(), session.stderr_path()].map(Sought::new);
                session.wait_until(limit, || of_error(line(&mut sought, text)))?;
            }
            Self::Command(_) => {
                let call = asked.command.as_ref().context("a ready command has no call")?;
                let logs = Tries(asked.logs.clone());
                let system = System::new(&logs.0)?;
                session.wait_until(limit, || {
                    let tried = system.run(call);
                    if tried.is_err() {
                        std::thread::sleep(COMMAND_EVERY);
                    }
                    of_error(tried.map(|_| ()).map_err(|error| error.to_string()))
                })?;
            }
        }
        Ok(start.elapsed())
    }

    /// Longest time between two attempts, without their own duration. The start-up time is not known more precisely.
    pub fn step(&self) -> Duration {
        match self {
            Self::Command(_) => LOOK_EVERY + COMMAND_EVERY,
            Self::Kafka | Self::Port | Self::Line(_) | Self::Http(_) => LOOK_EVERY,
        }
    }

    /// Time limit of the command in one attempt.
    pub fn command_limit(limit: Duration) -> Duration {
        limit.min(COMMAND_LIMIT)
    }
}

/// A folder of logs that is deleted at the end.
struct Tries(PathBuf);

impl Drop for Tries {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// The address of a program that listens elsewhere, most likely because its own settings fix it.
struct Elsewhere<'a> {
    pid: u32,
    asked: &'a str,
    looked: Instant,
    words: String,
}

impl<'a> Elsewhere<'a> {
    fn new(pid: u32, asked: &'a str) -> Self {
        Self { pid, asked, looked: Instant::now(), words: String::new() }
    }

    /// An error with the actual address, if it is known.
    fn told(&mut self, answer: Result<(), String>) -> Result<(), String> {
        let error = answer.err();
        if error.is_some() && self.looked.elapsed() >= ELSEWHERE_EVERY {
            self.looked = Instant::now();
            let is_right = |place: &SocketAddr| self.asked.ends_with(&format!(":{}", place.port()));
            let found = ports::listening_below(self.pid).into_iter().filter(|place| !is_right(place));
            let found: Vec<String> = found.map(|place| place.to_string()).collect();
            self.words = match &found[..] {
                [] => String::new(),
                found => format!("; the program listens at {}", found.join(", ")),
            };
        }
        error.map_or(Ok(()), |error| Err(format!("{error}{}", self.words)))
    }
}

fn of_error(answer: Result<(), String>) -> Readiness {
    answer.map_or_else(Readiness::NotYet, |()| Readiness::Ready)
}

fn kafka(asked: &ReadyCheck<'_>) -> Result<(), String> {
    Admin::ready_with(asked.address, asked.security, ANSWER_LIMIT)
        .map_err(|error| format!("{:#}", anyhow::Error::from(error)))
}

/// The first of an address' IP addresses that answers.
fn connect(address: &str) -> Result<TcpStream, String> {
    let places = address.to_socket_addrs().map_err(|error| format!("{address}: {error}"))?;
    let mut last = format!("{address} has no IP address");
    for place in places {
        match TcpStream::connect_timeout(&place, ANSWER_LIMIT) {
            Ok(stream) => return Ok(stream),
            Err(error) => last = format!("no process listens at {place}: {error}"),
        }
    }
    Err(last)
}

fn http(address: &str, path: &str) -> Result<(), String> {
    let words = |error: io::Error| format!("GET {path} at {address}: {error}");
    let mut stream = connect(address)?;
    stream.set_read_timeout(Some(ANSWER_LIMIT)).map_err(words)?;
    stream.set_write_timeout(Some(ANSWER_LIMIT)).map_err(words)?;
    // The request has no `Connection: close`: after it nghttpx 1.52 leaves the next request unanswered until
    // its time limit.
    let request =
        format!("GET {path} HTTP/1.1\r\nHost: {address}\r\nUser-Agent: hone\r\nAccept: */*\r\n\r\n");
    stream.write_all(request.as_bytes()).map_err(words)?;
    let mut line = Vec::new();
    BufReader::new(stream.take(STATUS_LINE_BYTES)).read_until(b'\n', &mut line).map_err(words)?;
    match status_of(&line) {
        Some(200..=399) => Ok(()),
        Some(status) => Err(format!("GET {path} at {address} returned status {status}")),
        None => Err(format!("GET {path} at {address} returned no HTTP answer")),
    }
}

/// `HTTP/1.1 200 OK`
fn status_of(line: &[u8]) -> Option<u16> {
    let text = std::str::from_utf8(line).ok()?;
    let mut words = text.strip_prefix("HTTP/")?.split_ascii_whitespace();
    let status = words.nth(1).filter(|status| status.len() == 3)?;
    status.parse().ok()
}

fn line(sought: &mut [Sought; 2], text: &str) -> Result<(), String> {
    for output in sought {
        if output.holds(text.as_bytes()).map_err(|error| format!("can't read its output: {error}"))? {
            return Ok(());
        }
    }
    Err(format!(
        "its output has no line with \"{text}\" (a program that writes to a file may buffer its lines; in \
         that case use ready = {{ port = true }})"
    ))
}

/// A growing file that is searched piece by piece.
struct Sought {
    path: PathBuf,
    seen: u64,
    /// The last bytes, in which the text may have begun.
    rest: Vec<u8>,
}

impl Sought {
    fn new(path: &Path) -> Self {
        Self { path: path.to_owned(), seen: 0, rest: Vec::new() }
    }

    fn holds(&mut self, text: &[u8]) -> io::Result<bool> {
        if text.is_empty() {
            return Ok(true);
        }
        let mut file = File::open(&self.path)?;
        file.seek(SeekFrom::Start(self.seen))?;
        let most = SEARCH_BYTES.saturating_sub(self.seen);
        self.seen += file.take(most).read_to_end(&mut self.rest)? as u64;
        let found = self.rest.windows(text.len()).any(|window| window == text);
        let kept = self.rest.len().saturating_sub(text.len() - 1);
        self.rest.drain(..kept);
        Ok(found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    #[test]
    fn a_status_is_read_from_the_first_line_alone() {
        for (line, status) in [
            (&b"HTTP/1.1 200 OK\r\n"[..], Some(200)),
            (b"HTTP/1.0 503 Service Unavailable\r\n", Some(503)),
            (b"HTTP/2 204\n", Some(204)),
            (b"HTTP/1.1 2000\n", None),
            (b"SSH-2.0-OpenSSH 200\n", None),
            (b"\xff\xfe", None),
            (b"", None),
        ] {
            assert_eq!(status_of(line), status, "{line:?}");
        }
    }

    #[test]
    fn a_text_is_found_across_two_looks() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        std::fs::write(&path, "starting\nReady to acc").unwrap();
        let mut sought = Sought::new(&path);
        assert!(!sought.holds(b"Ready to accept").unwrap());
        std::fs::write(&path, "starting\nReady to accept connections\n").unwrap();
        assert!(sought.holds(b"Ready to accept").unwrap());
        assert!(!sought.holds(b"Ready to accept").unwrap(), "what was seen is not seen again");
    }

    /// Answers each connection with the next of these.
    fn server(answers: &'static [&'static str]) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        std::thread::spawn(move || {
            for (stream, answer) in listener.incoming().zip(answers) {
                let mut stream = stream.unwrap();
                let mut asked = String::new();
                BufReader::new(stream.try_clone().unwrap()).read_line(&mut asked).unwrap();
                assert_eq!(asked, "GET /health?deep HTTP/1.1\r\n");
                stream.write_all(answer.as_bytes()).unwrap();
            }
        });
        address
    }

    #[test]
    fn http_is_ready_from_200_to_399() {
        let address = server(&["HTTP/1.1 503 Busy\r\n\r\n", "nonsense\r\n", "HTTP/1.1 302 Found\r\n\r\n"]);
        let ask = || http(&address, "/health?deep");
        assert!(ask().unwrap_err().ends_with("returned status 503"));
        assert!(ask().unwrap_err().ends_with("returned no HTTP answer"));
        assert_eq!(ask(), Ok(()));
    }

    #[test]
    fn a_port_without_a_listener_says_so() {
        let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        assert!(connect(&address.to_string()).unwrap_err().contains("no process listens at"));
    }
}
