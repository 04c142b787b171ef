//! Faults of known size between a load and a broker, which the self-test plants and must measure.
//!
//! A relay forwards frames. On the way back it can delay each answer by a fixed time, or drop all answers of one connection from a moment
//! on. The broker must advertise the relay's address; otherwise clients bypass it.

use std::io::{self, ErrorKind, Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::time::{Duration, Instant};

/// No frame of a load is longer.
const FRAME_LIMIT_BYTES: usize = 64 << 20;

/// The fault for answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// No fault, to measure the cost of the relay itself.
    None,
    /// Each answer is delayed by this time.
    Slow(Duration),
    /// From the moment that [`Relay::begin`] sets, the next connection with an answer receives no more answers.
    Silent,
}

/// A relay in front of a broker, on a free port of the loopback interface.
#[derive(Debug)]
pub struct Relay {
    listener: TcpListener,
    address: SocketAddr,
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    fault: Fault,
    begins: Mutex<Option<Instant>>,
    silenced: AtomicBool,
    swallowed: AtomicU64,
    ended: AtomicBool,
}

impl Relay {
    /// Opens a port. Connections wait until [`Relay::serve`].
    ///
    /// # Errors
    /// Returns an error when the system has no free port.
    pub fn bind(fault: Fault) -> io::Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", 0))?;
        let address = listener.local_addr()?;
        let shared = Shared {
            fault,
            begins: Mutex::new(None),
            silenced: AtomicBool::new(false),
            swallowed: AtomicU64::new(0),
            ended: AtomicBool::new(false),
        };
        Ok(Self { listener, address, shared: Arc::new(shared) })
    }

    /// Address that clients connect to.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Forwards connections to a broker until the relay is dropped.
    ///
    /// # Errors
    /// Returns an error when the listening socket can't be shared with the thread that accepts.
    pub fn serve(&self, broker: SocketAddr) -> io::Result<()> {
        let listener = self.listener.try_clone()?;
        let shared = Arc::clone(&self.shared);
        std::thread::spawn(move || {
            while let Ok((client, _)) = listener.accept() {
                if shared.ended.load(Ordering::Acquire) {
                    return;
                }
                let shared = Arc::clone(&shared);
                // A broker that refuses connections shows as a connection that ends at once, as it would without the relay.
                if let Ok(upstream) = TcpStream::connect(broker) {
                    let _ = pass(client, upstream, shared);
                }
            }
        });
        Ok(())
    }

    /// Time at which a fault with a start begins.
    pub fn begin(&self, at: Instant) {
        *self.shared.begins.lock().unwrap_or_else(PoisonError::into_inner) = Some(at);
    }

    /// Answers dropped so far.
    pub fn swallowed(&self) -> u64 {
        self.shared.swallowed.load(Ordering::Acquire)
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.shared.ended.store(true, Ordering::Release);
        // Wakes the thread that accepts, so that it sees the end of the relay.
        let _ = TcpStream::connect(self.address);
    }
}

/// Starts the threads of one connection: one for requests, one for answers by frames, and one that delays answers.
fn pass(client: TcpStream, upstream: TcpStream, shared: Arc<Shared>) -> io::Result<()> {
    for stream in [&client, &upstream] {
        stream.set_nodelay(true)?;
    }
    let (mut requests_in, mut requests_out) = (client.try_clone()?, upstream.try_clone()?);
    std::thread::spawn(move || {
        let _ = io::copy(&mut requests_in, &mut requests_out);
        let _ = requests_out.shutdown(Shutdown::Write);
    });
    let (hold, held) = mpsc::channel::<(Instant, Vec<u8>)>();
    std::thread::spawn(move || {
        let mut client = client;
        for (due, frame) in held {
            std::thread::sleep(due.saturating_duration_since(Instant::now()));
            if client.write_all(&frame).is_err() {
                break;
            }
        }
        let _ = client.shutdown(Shutdown::Both);
    });
    std::thread::spawn(move || {
        let mut upstream = upstream;
        let mut silent = false;
        while let Ok(frame) = read_frame(&mut upstream) {
            silent = silent || shared.takes_silence();
            if silent {
                shared.swallowed.fetch_add(1, Ordering::AcqRel);
            } else if hold.send((Instant::now() + shared.delay(), frame)).is_err() {
                break;
            }
        }
    });
    Ok(())
}

impl Shared {
    fn delay(&self) -> Duration {
        match self.fault {
            Fault::Slow(delay) => delay,
            Fault::None | Fault::Silent => Duration::ZERO,
        }
    }

    /// Whether this connection is the one that loses its answers.
    fn takes_silence(&self) -> bool {
        let begun = || {
            let begins = *self.begins.lock().unwrap_or_else(PoisonError::into_inner);
            begins.is_some_and(|begins| Instant::now() >= begins)
        };
        self.fault == Fault::Silent && begun() && !self.silenced.swap(true, Ordering::AcqRel)
    }
}

/// One frame with its length. The memory grows with the bytes that arrive, not with the stated length.
fn read_frame(stream: &mut TcpStream) -> io::Result<Vec<u8>> {
    let mut frame = vec![0; 4];
    stream.read_exact(&mut frame)?;
    let length = u32::from_be_bytes([frame[0], frame[1], frame[2], frame[3]]) as usize;
    if length > FRAME_LIMIT_BYTES {
        return Err(ErrorKind::InvalidData.into());
    }
    let read = stream.take(length as u64).read_to_end(&mut frame)?;
    if read == length { Ok(frame) } else { Err(ErrorKind::UnexpectedEof.into()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A peer that answers every frame with itself.
    fn echo() -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                std::thread::spawn(move || {
                    let mut stream = stream;
                    while let Ok(frame) = read_frame(&mut stream) {
                        stream.write_all(&frame).unwrap();
                    }
                });
            }
        });
        address
    }

    fn relay(fault: Fault) -> (Relay, TcpStream) {
        let relay = Relay::bind(fault).unwrap();
        relay.serve(echo()).unwrap();
        let client = TcpStream::connect(relay.address()).unwrap();
        client.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        (relay, client)
    }

    fn ask(client: &mut TcpStream, text: &[u8]) -> io::Result<(Vec<u8>, Duration)> {
        let mut frame = (text.len() as u32).to_be_bytes().to_vec();
        frame.extend_from_slice(text);
        let asked = Instant::now();
        client.write_all(&frame)?;
        Ok((read_frame(client)?, asked.elapsed()))
    }

    #[test]
    fn without_a_fault_everything_passes() {
        let (_relay, mut client) = relay(Fault::None);
        for text in [b"one".as_slice(), b"", &[7; 100_000]] {
            assert_eq!(&ask(&mut client, text).unwrap().0[4..], text);
        }
    }

    #[test]
    fn a_slow_relay_holds_each_answer_but_not_the_next_request() {
        let (_relay, mut client) = relay(Fault::Slow(Duration::from_millis(200)));
        let asked = Instant::now();
        for _ in 0..5 {
            client.write_all(&[0, 0, 0, 1, 9]).unwrap();
        }
        for _ in 0..5 {
            read_frame(&mut client).unwrap();
            assert!(asked.elapsed() >= Duration::from_millis(200));
        }
        assert!(asked.elapsed() < Duration::from_millis(1_000), "answers wait behind each other");
    }

    #[test]
    fn one_connection_falls_silent_and_its_answers_are_counted() {
        let (relay, mut first) = relay(Fault::Silent);
        ask(&mut first, b"before").unwrap();
        relay.begin(Instant::now());
        first.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
        assert!(ask(&mut first, b"after").is_err());
        let mut second = TcpStream::connect(relay.address()).unwrap();
        ask(&mut second, b"another connection").unwrap();
        assert_eq!(relay.swallowed(), 1);
    }
}
