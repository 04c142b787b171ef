//! The memory of goroutine stacks under load: inlining makes frames larger, and a service has one stack per goroutine.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use hone_binary::go::StackGauge;

use crate::beside::beside;

/// Time between two requests. Each stops the program for some microseconds, so Hone makes none during a comparison.
const EVERY: Duration = Duration::from_millis(100);

/// Runs the work, and returns the peak of the stacks meanwhile; nothing if the service does not report it.
pub(crate) fn most_while<T>(pprof: Option<&str>, work: impl FnOnce() -> T) -> (T, Option<u64>) {
    let Some(url) = pprof else { return (work(), None) };
    let (done, most) = beside(|over| watched(url, over), work);
    (done, most.unwrap_or_default())
}

/// Hone stops asking a service that has not answered for this long.
const FIRST_ANSWER: Duration = Duration::from_secs(1);

/// A service that never answers is not asked forever. One that is busy once is asked again.
fn watched(url: &str, over: &AtomicBool) -> Option<u64> {
    let gauge = StackGauge::open(url).ok()?;
    let mut most = None;
    let begun = Instant::now();
    loop {
        match gauge.bytes() {
            Ok(now) => most = most.max(Some(now)),
            Err(_) if most.is_some() || begun.elapsed() < FIRST_ANSWER => {}
            Err(_) => return None,
        }
        if over.load(Ordering::Relaxed) {
            return most;
        }
        std::thread::sleep(EVERY);
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::net::TcpListener;

    use super::*;

    /// A server whose stacks take this much, one answer after the other.
    fn serving(answers: Vec<String>) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        std::thread::spawn(move || {
            for answer in answers {
                let (mut stream, _) = listener.accept().unwrap();
                let mut question = [0; 1024];
                let read = stream.read(&mut question).unwrap();
                assert!(question[..read].starts_with(b"GET /debug/pprof/heap?debug=1 "));
                stream.write_all(answer.as_bytes()).unwrap();
            }
        });
        url
    }

    fn page(bytes: u64) -> String {
        format!("HTTP/1.0 200 OK\r\n\r\nheap profile\n# Stack = {bytes} / 999\n")
    }

    #[test]
    fn the_most_is_told_and_one_that_does_not_tell_holds_nothing_up() {
        let url = serving(vec![page(5), page(9), page(7)]);
        let wait = || {
            std::thread::sleep(Duration::from_millis(350));
            "done"
        };
        assert_eq!(most_while(Some(&url), wait), ("done", Some(9)));
        let none = "HTTP/1.0 404 Not Found\r\n\r\n".to_owned();
        let url = serving(vec![none.clone(), page(6)]);
        assert_eq!(most_while(Some(&url), wait), ("done", Some(6)), "it was busy once");
        let url = serving(vec![none]);
        assert_eq!(most_while(Some(&url), wait), ("done", None));
        assert_eq!(most_while(None, || 3), (3, None));
    }
}
