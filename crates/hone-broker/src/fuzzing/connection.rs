//! A stream of bytes in any pieces: framing, pipelines, requests that wait. Answers must be whole, and in the order of
//! their requests.
//!
//! An input is a byte for the kind of broker, seven bytes for the sizes of the pieces, then the stream.

use super::cursor::Cursor;
use super::world::{Mode, World, put_topic_ids};

const SIZES: usize = 7;
const MOST_PIECES: usize = 512;

/// Runs an input.
pub fn connection(data: &[u8]) {
    let mut input = Cursor::new(data);
    let mode = Mode { authorize: input.u8() & 1 != 0, sasl: false };
    let sizes: Vec<usize> = (0..SIZES).map(|_| piece_bytes(input.u8())).collect();
    let mut world = World::new(mode);
    let mut stream = input.rest().to_vec();
    put_topic_ids(&world, &mut stream);
    let mut client = world.connect();
    let mut rest = stream.as_slice();
    for size in sizes.iter().cycle().take(MOST_PIECES) {
        if rest.is_empty() || client.ended {
            break;
        }
        let (piece, behind) = rest.split_at((*size).min(rest.len()));
        world.send(&mut client, piece);
        rest = behind;
    }
    world.send(&mut client, rest);
    world.settle(&mut client, |_| false);
    let mut asked = correlation_ids(&stream).into_iter();
    while let Some(answer) = client.take_answer() {
        let id =
            answer.first_chunk::<4>().map(|id| i32::from_be_bytes(*id)).expect("an answer without an id");
        assert!(asked.any(|asked| asked == id), "an answer to {id}, which no client waits for");
    }
    assert!(client.ended || client.received.is_empty(), "{} bytes of no answer", client.received.len());
    drop(client);
    world.end();
}

/// Small sizes are fine-grained, large ones are there.
fn piece_bytes(size: u8) -> usize {
    let size = usize::from(size);
    if size < 200 { size + 1 } else { (size - 199) * 1_000 }
}

/// Of the frames in a stream, as far as it has any.
fn correlation_ids(mut stream: &[u8]) -> Vec<i32> {
    let mut ids = Vec::new();
    while let Some((length, rest)) = stream.split_first_chunk::<4>()
        && let Ok(length) = usize::try_from(i32::from_be_bytes(*length))
        && let Some((frame, behind)) = rest.split_at_checked(length)
    {
        ids.extend(frame.get(4..).and_then(|rest| rest.first_chunk()).map(|id| i32::from_be_bytes(*id)));
        stream = behind;
    }
    ids
}
