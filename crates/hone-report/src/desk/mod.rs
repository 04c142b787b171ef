//! The pages of `hone serve`: lists of runs and records, the progress of a run, a comparison of two records, a metric over
//! commits, a ledger. They share one style with the report. One small script refreshes a run's page.

mod compare;
mod frame;
mod history;
mod ledger;
mod list;
mod record;
mod run;

pub use compare::{saved, side_by_side};
pub use frame::{Around, Chosen, policy, problem};
pub use history::{history, history_lines};
pub use ledger::{LedgerFault, LedgerSheet, ledger};
pub use list::{Pager, records, runs};
pub use record::{in_desk, record};
pub use run::run;
