//! Runs and ledgers for people. [`story`] builds the run summary, [`page`] renders it, [`serve`] serves it to a browser, [`history`] follows
//! metrics over commits, and [`archive`] collects the runs of several machines.

pub mod archive;
pub mod history;
pub mod ledger_exchange;
pub mod ledger_view;
pub mod metrics_page;
pub mod page;
pub mod serve;
pub mod story;
