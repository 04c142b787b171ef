//! What a setting would make of a topic's batches: the records that were there, at their own times, through the client's own rules.
//!
//! [`stream`] takes records of decoded batches apart by producer and time, and refuses what can't be replayed; [`client`] has the rules of
//! the clients; [`simulate`] replays; [`shrink`] packs real records anew, so that bytes are no guess; [`infer`] reads today's settings off
//! the batches; [`calibrate`] replays today, and refuses to go on where that does not come out; [`predict`] replays the change, and `advice`
//! says what to set.
//!
//! Open loop: records keep their times whatever the broker does. That is wrong for a sender who waits for every answer, so those are
//! recognised and not replayed; `waiting` has what is known of them.

mod advice;
pub mod calibrate;
pub mod client;
mod denser;
pub mod infer;
pub(crate) mod moves;
pub mod predict;
pub mod shrink;
pub mod simulate;
pub mod stream;
mod waiting;

pub use hone_kafka::codec::Codec;

/// Chance that can be had again: SplitMix64 (Steele, Lea and Flood, 2014).
#[derive(Debug, Clone)]
pub(crate) struct Dice(u64);

impl Dice {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }

    /// Below a bound; 0 where the bound is 0.
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(bound)) >> 64) as u64
    }

    /// From 0 up to, but without, 1.
    pub(crate) fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }
}
