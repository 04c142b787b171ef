//! The pages that `hone serve` answers with: lists of runs and records, a run as far as it is, two records beside each other, a metric over
//! commits, a ledger. One style with the report; one small script, which looks whether a run has gone on.

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
