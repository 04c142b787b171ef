//! The pages of `hone serve`: lists of runs and records, the progress of a run, a comparison of two records, a metric over
//! commits, topics, a ledger. And the page of `hone load --live`. They share one style with the report. One small script
//! refreshes pages, filters lists, copies commands and saves pictures. All pages work without it.

mod compare;
mod frame;
mod history;
mod home;
mod ledger;
mod list;
mod load_live;
mod picture;
mod record;
mod run;
mod topics;

pub use compare::{Both, saved, saved_csv, side_by_side, side_by_side_csv};
pub use frame::{Around, Chosen, policy, problem};
pub use history::{history, history_csv, history_lines};
pub use home::{runs, runs_csv};
pub use ledger::{LedgerFault, LedgerSheet, ledger};
pub use list::{Pager, records};
pub use load_live::{LivePoint, LoadEnd, LoadPhase, LoadState, load_live};
pub use picture::picture;
pub use record::{in_desk, record};
pub use run::{LogTail, RunExtras, StopOffer, confirm_stop, run};
pub use topics::{MOST_LINGER_MS, TopicForecast, TopicRecord, XrayRecord, topics, topics_csv, what_if};
