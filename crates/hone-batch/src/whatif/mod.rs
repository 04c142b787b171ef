//! The effect of a setting on a topic's batches: the existing records, at their own times, through the client's own rules.
//!
//! [`stream`] splits the records of decoded batches by producer and time, and refuses what can't be replayed; [`client`] has the rules of
//! the clients; [`simulate`] replays; [`shrink`] recompresses real records, so that bytes are no guess; [`infer`] infers today's settings
//! from the batches; [`calibrate`] replays today, and stops if the result is wrong; [`predict`] replays the change, and `advice` recommends
//! settings.
//!
//! Open loop: records keep their times whatever the broker does. That is wrong for a sender that waits for every answer, so Hone recognises
//! such senders and does not replay them; `waiting` has what is known about them.

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

/// Reproducible random numbers: SplitMix64 (Steele, Lea and Flood, 2014).
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

    /// Below a limit; 0 if the limit is 0.
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(bound)) >> 64) as u64
    }

    /// From 0 up to, but without, 1.
    pub(crate) fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }
}
