//! `/metrics`, `/public_metrics` and `/ready`.
//!
//! Names and labels are those of Redpanda's internal and public endpoints, for what this broker really counts, so that one
//! dashboard serves both. What it has no equal for is called `hone_broker_...`.

mod internal;
mod page;
mod public;
mod server;

pub(crate) use server::run;
