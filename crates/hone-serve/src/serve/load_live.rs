//! The page of one load while it runs. The server ends with the load.

use std::net::{SocketAddr, TcpListener};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use hone_experiment::live::LiveLoad;
use hone_record::Workload;
use hone_report::desk;

use super::answer::Answer;
use super::door::Door;
use super::listen::{Site, give_way, serve_site};

/// A page that asked this recently is still open.
const IS_OPEN: Duration = Duration::from_secs(3);
/// Time for open pages to get the result. They ask every second.
const LAST_LOOK: Duration = Duration::from_millis(1_500);

/// The site of a load.
#[derive(Debug)]
struct LoadSite {
    load: LiveLoad,
    address: String,
    workload: Workload,
    /// Time of the last request.
    asked: Mutex<Option<Instant>>,
}

impl Site for LoadSite {
    fn page(&self, path: &str, _query: &str) -> Answer {
        if path != "/" {
            let answer =
                Answer::new("text/plain; charset=utf-8", b"The page of the load is at /.\n".to_vec());
            return Answer { status: 404, ..answer };
        }
        *self.asked.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
        Answer::page(desk::load_live(&self.address, &self.workload, &self.load.state()))
    }

    fn stop(&self, _id: &str, _form: &[u8]) -> Answer {
        self.page("", "")
    }
}

impl LoadSite {
    fn is_open(&self) -> bool {
        let asked = *self.asked.lock().unwrap_or_else(PoisonError::into_inner);
        asked.is_some_and(|asked| asked.elapsed() < IS_OPEN)
    }
}

/// Serves the page of a load. When it is dropped, open pages get the result first.
#[derive(Debug)]
pub struct LoadServer {
    site: Arc<LoadSite>,
    url: String,
    over: Arc<AtomicBool>,
    serving: Option<JoinHandle<Result<()>>>,
}

impl LoadServer {
    /// Starts the server of a load against `address`. `door` must be that of `listen`.
    ///
    /// # Errors
    /// The address can't be listened on.
    pub fn start(listen: SocketAddr, door: Door, address: &str, workload: &Workload) -> Result<Self> {
        let listener = TcpListener::bind(listen).with_context(|| {
            format!("can't listen on {listen}\n  next: leave out --live-listen for any free port")
        })?;
        let url = format!("http://{}/", listener.local_addr()?);
        let site = Arc::new(LoadSite {
            load: LiveLoad::default(),
            address: address.to_owned(),
            workload: workload.clone(),
            asked: Mutex::default(),
        });
        let over = Arc::new(AtomicBool::new(false));
        let (served, end) = (Arc::clone(&site), Arc::clone(&over));
        let serving = std::thread::Builder::new().name("live page".to_owned()).spawn(move || {
            give_way();
            serve_site(listener, served, door, || end.load(Ordering::Relaxed))
        })?;
        Ok(Self { site, url, over, serving: Some(serving) })
    }

    /// Where the page is.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// What the page shows.
    pub fn load(&self) -> &LiveLoad {
        &self.site.load
    }
}

impl Drop for LoadServer {
    fn drop(&mut self) {
        if self.site.load.has_ended() && self.site.is_open() {
            std::thread::sleep(LAST_LOOK);
        }
        self.over.store(true, Ordering::Relaxed);
        if let Some(serving) = self.serving.take() {
            let _ = serving.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::net::TcpStream;

    use super::*;

    fn server() -> LoadServer {
        let listen: SocketAddr = "127.0.0.1:0".parse().unwrap();
        let door = Door::new(listen, &[], None).unwrap();
        LoadServer::start(listen, door, "broker:9092", &hone_experiment::fixture::window().workload).unwrap()
    }

    fn asked(server: &LoadServer, request: &str) -> String {
        let address = server.url().trim_start_matches("http://").trim_end_matches('/');
        let mut stream = TcpStream::connect(address).unwrap();
        write!(stream, "{request} HTTP/1.1\r\nHost: {address}\r\n\r\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }

    #[test]
    fn there_is_one_page_and_an_open_one_gets_the_end() {
        let server = server();
        let answer = asked(&server, "GET /");
        assert!(answer.starts_with("HTTP/1.1 200") && answer.contains("Load of broker:9092"), "{answer}");
        assert!(asked(&server, "GET /records").starts_with("HTTP/1.1 404"));
        let of_a_run = "POST /run/0123456789abcdef/stop";
        assert!(asked(&server, of_a_run).starts_with("HTTP/1.1 403"));
        server.load().end(Err("lost".to_owned()), "");
        let begun = Instant::now();
        let address = server.url().to_owned();
        drop(server);
        assert!(begun.elapsed() >= LAST_LOOK, "the page was open");
        let address = address.trim_start_matches("http://").trim_end_matches('/');
        assert!(TcpListener::bind(address).is_ok(), "the port is free");
    }

    #[test]
    fn nobody_waits_for_a_page_that_is_not_open() {
        let server = server();
        server.load().end(Err("lost".to_owned()), "");
        let begun = Instant::now();
        drop(server);
        assert!(begun.elapsed() < LAST_LOOK);
    }
}
