//! The server: HTTP/1.1 with hyper, one connection per answer, and limits for time and number of everything.

use std::convert::Infallible;
use std::net::TcpListener;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::{Bytes, Incoming};
use hyper::header::{self, HeaderName, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::TcpStream;
use tokio::sync::Semaphore;

use super::answer::{Answer, Server, answer, stop_answer};
use super::door::{Door, Refused, run_to_stop};
use super::shelf::Shelf;
use super::stop::Stopper;

/// Interval of the checks for an interrupt while there is no request.
const LOOK_EVERY: Duration = Duration::from_millis(200);
/// Time limit from the first byte of a request to the last byte of its answer.
const PATIENCE: Duration = Duration::from_secs(60);
/// Time limit for the head of a request.
const HEAD_PATIENCE: Duration = Duration::from_secs(10);
/// Size limit of a head.
const MOST_HEAD_BYTES: usize = 16 << 10;
/// Size limit of a form.
const MOST_FORM_BYTES: usize = 4 << 10;
/// Maximum open connections. Others wait.
const MOST_CONNECTIONS: usize = 64;
/// Maximum pages under construction, because each may hold the windows of a whole run.
const MOST_PAGES: usize = 2;
/// Time to finish open answers at the end.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// What a server answers.
pub(super) trait Site: std::fmt::Debug + Send + Sync + 'static {
    /// The answer for a path with its query.
    fn page(&self, path: &str, query: &str) -> Answer;

    /// Stops the run with this id, if the form has the right token.
    fn stop(&self, id: &str, form: &[u8]) -> Answer;
}

impl Site for Server {
    fn page(&self, path: &str, query: &str) -> Answer {
        answer(self, path, query)
    }

    fn stop(&self, id: &str, form: &[u8]) -> Answer {
        stop_answer(self, id, form)
    }
}

/// The shared parts of every answer.
#[derive(Debug)]
struct House {
    site: Arc<dyn Site>,
    door: Door,
    policy: HeaderValue,
    pages: Arc<Semaphore>,
}

/// Lowers the priority of this thread and of those that it starts, so that it does not disturb a measurement on the same machine.
pub fn give_way() {
    // SAFETY: the call changes the priority of this thread alone, from which those that it starts have theirs, and touches no memory.
    unsafe { libc::nice(19) };
}

/// Serves the files of a shelf until `stop` returns true.
///
/// # Errors
/// The system provides no event loop, or no random numbers.
pub fn serve(listener: TcpListener, shelf: Arc<Shelf>, door: Door, stop: impl Fn() -> bool) -> Result<()> {
    let stopper = Stopper::new(door.needs_token()).context("can't read random numbers")?;
    serve_site(listener, Arc::new(Server { shelf, stopper }), door, stop)
}

/// Serves a site until `stop` returns true.
pub(super) fn serve_site(
    listener: TcpListener,
    site: Arc<dyn Site>,
    door: Door,
    stop: impl Fn() -> bool,
) -> Result<()> {
    let policy =
        HeaderValue::from_str(&hone_report::desk::policy()).context("the policy is not a valid header")?;
    let pages = Arc::new(Semaphore::new(MOST_PAGES));
    let house = Arc::new(House { site, door, policy, pages });
    listener.set_nonblocking(true)?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .max_blocking_threads(MOST_PAGES)
        .build()
        .context("can't create an event loop")?;
    runtime.block_on(accept(listener, &house, stop))?;
    runtime.shutdown_timeout(LAST_WORDS);
    Ok(())
}

async fn accept(listener: TcpListener, house: &Arc<House>, stop: impl Fn() -> bool) -> Result<()> {
    let listener = tokio::net::TcpListener::from_std(listener)?;
    let places = Arc::new(Semaphore::new(MOST_CONNECTIONS));
    while !stop() {
        let accepted = tokio::time::timeout(LOOK_EVERY, async {
            let place = Arc::clone(&places).acquire_owned().await;
            (place, listener.accept().await)
        });
        match accepted.await {
            Ok((Ok(place), Ok((stream, _)))) => {
                let house = Arc::clone(house);
                tokio::spawn(async move {
                    // A client that disconnects or is too slow loses only its own answer.
                    let _ = tokio::time::timeout(PATIENCE, connection(stream, house)).await;
                    drop(place);
                });
            }
            // For the moment, no file descriptor is left.
            Ok(_) => tokio::time::sleep(LOOK_EVERY).await,
            Err(_) => {}
        }
    }
    let _ = tokio::time::timeout(LAST_WORDS, places.acquire_many(MOST_CONNECTIONS as u32)).await;
    Ok(())
}

async fn connection(stream: TcpStream, house: Arc<House>) -> Result<(), hyper::Error> {
    let service = service_fn(move |request| respond(request, Arc::clone(&house)));
    http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_PATIENCE)
        .max_buf_size(MOST_HEAD_BYTES)
        .keep_alive(false)
        .serve_connection(TokioIo::new(stream), service)
        .await
}

async fn respond(request: Request<Incoming>, house: Arc<House>) -> Result<Response<Full<Bytes>>, Infallible> {
    let (head, body) = request.into_parts();
    if let Err(refused) = house.door.check(&head.method, &head.uri, &head.headers) {
        return Ok(house.refusal(&refused));
    }
    let path = head.uri.path().to_owned();
    let query = head.uri.query().unwrap_or_default().to_owned();
    let site = Arc::clone(&house.site);
    let made = if head.method == Method::POST {
        // The check has let only this action in.
        let form = Limited::new(body, MOST_FORM_BYTES).collect().await;
        let form = form.map(|form| form.to_bytes().to_vec()).unwrap_or_default();
        let id = run_to_stop(&path).unwrap_or_default().to_owned();
        in_turn(&house.pages, move || site.stop(&id, &form)).await
    } else {
        in_turn(&house.pages, move || site.page(&path, &query)).await
    };
    let answer = made.unwrap_or_else(|| {
        Answer::problem(
            500,
            "Internal error",
            "Hone could not create the page. This is a defect of Hone.",
            false,
        )
    });
    Ok(house.response(answer))
}

/// Does the requested work when a permit is free. `None` when the work panics.
///
/// The permit stays with the work, because the work can't be stopped. A client that disconnects leaves running work behind, and
/// further requests must not pile up behind it. A client that disconnects before the work starts leaves nothing behind.
async fn in_turn<T: Send + 'static>(
    turns: &Arc<Semaphore>,
    work: impl FnOnce() -> T + Send + 'static,
) -> Option<T> {
    let turn = Arc::clone(turns).acquire_owned().await;
    let made = tokio::task::spawn_blocking(move || {
        let made = work();
        drop(turn);
        made
    });
    made.await.ok()
}

impl House {
    fn response(&self, answer: Answer) -> Response<Full<Bytes>> {
        let mut response = Response::new(Full::new(Bytes::from(answer.body)));
        *response.status_mut() =
            StatusCode::from_u16(answer.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(answer.kind));
        headers.insert(header::CONTENT_SECURITY_POLICY, self.policy.clone());
        for (name, value) in [
            // The content changes during a visit, and may be confidential.
            (header::CACHE_CONTROL, "no-store"),
            (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
            (header::REFERRER_POLICY, "no-referrer"),
            (header::X_FRAME_OPTIONS, "DENY"),
            (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
            (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
        ] {
            headers.insert(name, HeaderValue::from_static(value));
        }
        let more = [
            (header::LOCATION, answer.location),
            (
                header::CONTENT_DISPOSITION,
                answer.save_as.map(|name| format!("attachment; filename=\"{name}\"")),
            ),
        ];
        for (name, value) in more {
            if let Some(value) = value.and_then(|value| HeaderValue::from_str(&value).ok()) {
                headers.insert(name, value);
            }
        }
        response
    }

    fn refusal(&self, refused: &Refused) -> Response<Full<Bytes>> {
        let body = format!("{}\n", refused.why).into_bytes();
        let status = refused.status.as_u16();
        let mut response = self.response(Answer { status, ..Answer::new("text/plain; charset=utf-8", body) });
        let more = match refused.status {
            StatusCode::METHOD_NOT_ALLOWED => Some((header::ALLOW, "GET, HEAD")),
            // Browsers then ask for the password.
            StatusCode::UNAUTHORIZED => Some((
                header::WWW_AUTHENTICATE,
                "Basic realm=\"hone: any name, the token as password\", charset=\"UTF-8\"",
            )),
            _ => None,
        };
        if let Some((name, value)) = more {
            response.headers_mut().insert(name, HeaderValue::from_static(value));
        }
        response
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::mpsc;

    use super::*;

    #[test]
    fn work_that_nobody_waits_for_keeps_its_turn_and_nothing_piles_up_behind_it() {
        const SHORT: Duration = Duration::from_millis(50);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let turns = Arc::new(Semaphore::new(1));
        let begun = Arc::new(AtomicUsize::new(0));
        let (end, ended) = mpsc::channel::<()>();
        runtime.block_on(async {
            let slow = in_turn(&turns, move || ended.recv().is_ok());
            tokio::time::timeout(SHORT, slow).await.unwrap_err();
            for _ in 0..5 {
                let begun = Arc::clone(&begun);
                let next = in_turn(&turns, move || begun.fetch_add(1, Ordering::SeqCst));
                tokio::time::timeout(SHORT, next).await.unwrap_err();
            }
            end.send(()).unwrap();
            assert_eq!(in_turn(&turns, || 7).await, Some(7));
            assert_eq!(begun.load(Ordering::SeqCst), 0, "nobody waits for these");
            assert_eq!(in_turn(&turns, || -> u8 { panic!("as a defect would") }).await, None);
            assert_eq!(in_turn(&turns, || 8).await, Some(8), "its turn is free again");
        });
    }
}
