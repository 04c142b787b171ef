//! A broker for tests: it takes frames, and answers them by a function.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;

/// The answer, after the correlation id, to a frame without its length (the API key is in the second byte). The function also gets the
/// stand-in's port.
type Answer = dyn Fn(u16, Vec<u8>) -> Vec<u8> + Send + Sync;

/// Serves any number of connections on loopback for the rest of the process. Returns the port.
pub(crate) fn serve(answer: impl Fn(u16, Vec<u8>) -> Vec<u8> + Send + Sync + 'static) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let answer: Arc<Answer> = Arc::new(answer);
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let answer = Arc::clone(&answer);
            std::thread::spawn(move || speak(stream, port, &*answer));
        }
    });
    port
}

fn speak(mut stream: TcpStream, port: u16, answer: &Answer) {
    let mut length = [0; 4];
    while stream.read_exact(&mut length).is_ok() {
        let mut body = vec![0; u32::from_be_bytes(length) as usize];
        stream.read_exact(&mut body).unwrap();
        let correlation_id = body[4..8].to_vec();
        let all = [correlation_id, answer(port, body)].concat();
        // Uses one write, since two would wait for each other's acknowledgement.
        stream.write_all(&[&(all.len() as u32).to_be_bytes()[..], &all].concat()).unwrap();
    }
}
