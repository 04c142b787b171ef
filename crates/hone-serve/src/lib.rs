//! Runs and ledgers for people. [`story`] gathers what was tried, [`page`] renders it, [`serve`] serves it to a browser, and [`archive`] collects runs
//! of several machines.

pub mod archive;
pub mod ledger_exchange;
pub mod ledger_view;
pub mod metrics_page;
pub mod page;
pub mod serve;
pub mod story;
