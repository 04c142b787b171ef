//! The only way to other programs.
//!
//! A crate builds a [`Call`] (pure data), passes it to a [`Runner`], and gets a [`Finished`] or a [`Session`]. Only [`System`] starts
//! anything. It guarantees:
//!
//! - every child has a working directory, log files for both of its outputs, and its own process group;
//! - when a call ends, by itself, by its time limit, by an interrupt or by a dropped [`Session`], no process of that group is left;
//! - a call with required files has written them, now, and they are not empty: an exit code of 0 alone proves nothing;
//! - [`pass_through`] is an exception: a program that replaces another one, inside a build with its own logs, shares streams and process
//!   group with its caller;
//! - [`detach_self`] is the other exception: a rollback watchdog must survive the rest of Hone;
//! - a [`Peer`] is a process that somebody else started: Hone only sends it signals, and lets it go on when Hone itself is killed;
//! - [`open`] leaves its program behind: a browser belongs to the person who reads in it;
//! - when Hone itself is killed, notes name its process groups ([`orphans`]), and the next run ends what is left of them;
//! - every [`ToolError`] shows the command as a shell line, and what to do next.

mod call;
mod child;
mod daemon;
mod detach;
mod dry;
mod error;
pub mod interrupt;
mod logs;
mod open;
pub mod orphans;
mod pass;
mod peer;
mod replay;
mod runner;
mod session;
mod signals;
mod system;
mod tail;
mod tool;

pub use call::{Call, DEFAULT_LIMIT, Promise};
pub use child::{LOOK_EVERY, Usage};
pub use daemon::{Daemon, adopt_orphans};
pub use detach::detach_self;
pub use dry::Dry;
pub use error::{Lack, Scene, ToolError};
pub use open::open;
pub use pass::{pass_through, pass_through_heard};
pub use peer::{Halt, Peer, PeerSignal};
pub use replay::Replay;
pub use runner::{Conversation, Finished, Runner};
pub use session::{Ended, Readiness, Session, SignalReceipt, StopSignal, Stopped};
pub use signals::SERVES_SIGNALS;
pub use system::{Progress, System};
pub use tool::{Install, LocatedTool, Origin, Tool, Version};
