//! The server: HTTP/1.1 by hyper, one connection for one answer, and an end to time and number of everything.

use std::convert::Infallible;
use std::net::TcpListener;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result};
use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::header::{self, HeaderName, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::TcpStream;
use tokio::sync::Semaphore;

use super::answer::{Answer, answer};
use super::door::{Door, Refused};
use super::shelf::Shelf;

/// How often an interrupt is looked for while nobody asks.
const LOOK_EVERY: Duration = Duration::from_millis(200);
/// From the first byte of a request to the last of its answer.
const PATIENCE: Duration = Duration::from_secs(60);
/// For the head of a request.
const HEAD_PATIENCE: Duration = Duration::from_secs(10);
/// Bytes of a head.
const MOST_HEAD_BYTES: usize = 16 << 10;
/// Connections that are open at a time; others wait.
const MOST_CONNECTIONS: usize = 64;
/// Pages that are made at a time: each may hold the windows of a whole run.
const MOST_PAGES: usize = 2;
/// What is being answered when the end comes may be finished so long.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// What every answer is made of.
#[derive(Debug)]
struct House {
    shelf: Arc<Shelf>,
    door: Door,
    policy: HeaderValue,
    pages: Semaphore,
}

/// Serves until `stop` says so.
///
/// # Errors
/// When the system gives no event loop.
pub(crate) fn serve(
    listener: TcpListener,
    shelf: Arc<Shelf>,
    door: Door,
    stop: impl Fn() -> bool,
) -> Result<()> {
    let policy = HeaderValue::from_str(&hone_report::desk::policy()).context("the policy is no header")?;
    let house = Arc::new(House { shelf, door, policy, pages: Semaphore::new(MOST_PAGES) });
    listener.set_nonblocking(true)?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .max_blocking_threads(MOST_PAGES)
        .build()
        .context("there is no event loop")?;
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
                    // Whoever goes away, or takes too long, has lost an answer of their own.
                    let _ = tokio::time::timeout(PATIENCE, connection(stream, house)).await;
                    drop(place);
                });
            }
            // No descriptor is left, for a moment.
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
    let (head, _) = request.into_parts();
    if let Err(refused) = house.door.check(&head.method, &head.uri, &head.headers) {
        return Ok(house.refusal(&refused));
    }
    let path = head.uri.path().to_owned();
    let query = head.uri.query().unwrap_or_default().to_owned();
    let made = {
        let _turn = house.pages.acquire().await;
        let house = Arc::clone(&house);
        tokio::task::spawn_blocking(move || answer(&house.shelf, &path, &query)).await
    };
    let answer = made.unwrap_or_else(|_| {
        Answer::problem(
            500,
            "Something is wrong here",
            "The page could not be made: this is a defect of Hone.",
            false,
        )
    });
    Ok(house.response(answer))
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
            // What is shown changes while it is looked at, and may be nobody else's business.
            (header::CACHE_CONTROL, "no-store"),
            (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
            (header::REFERRER_POLICY, "no-referrer"),
            (header::X_FRAME_OPTIONS, "DENY"),
            (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
            (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
        ] {
            headers.insert(name, HeaderValue::from_static(value));
        }
        response
    }

    fn refusal(&self, refused: &Refused) -> Response<Full<Bytes>> {
        let body = format!("{}\n", refused.why).into_bytes();
        let status = refused.status.as_u16();
        let mut response = self.response(Answer { status, kind: "text/plain; charset=utf-8", body });
        let more = match refused.status {
            StatusCode::METHOD_NOT_ALLOWED => Some((header::ALLOW, "GET, HEAD")),
            // Browsers ask for the password by themselves.
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
