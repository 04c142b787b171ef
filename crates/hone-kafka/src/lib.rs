//! Kafka frames and record batches: read without decoding, patched in place, or built from scratch.
//!
//! The `kafka-protocol` crate knows every message. This crate adds what a load generator and a broker need on every request: headers of v2
//! record batches read in place ([`batch`]), records walked without allocation ([`mod@records`]), the four codecs with a limit on the
//! decompressed size ([`mod@codec`]), frames split off a stream ([`frame`]) and Produce requests that are encoded once and sent a million
//! times ([`produce`]).
//!
//! The crate is pure: it uses no socket, no file and no clock. Every parser takes bytes and trusts no length in them.

pub mod batch;
pub mod codec;
pub mod error_code;
pub mod frame;
mod gzip;
mod lz4_frame;
pub mod partitioner;
pub mod produce;
pub mod records;
mod sequence;
pub mod wire;

pub use batch::{Batch, BatchError, BatchHeader, batches};
pub use codec::{Codec, CodecError};
pub use error_code::error_name;
pub use frame::{Frame, RequestHead};
pub use partitioner::partition_of_key;
pub use produce::{PartitionAck, ProduceFrame, ProduceResponse, parse_produce_response_v7};
pub use records::{BatchBuilder, Record, RecordError, records};
pub use sequence::SequencePatch;
pub use wire::{Reader, WireError};
