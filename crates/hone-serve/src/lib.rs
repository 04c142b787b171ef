//! Runs and ledgers for people: as a [`story`] or a [`page`], served to a browser ([`serve`]), and gathered in one place ([`archive`]).

pub mod archive;
pub mod page;
pub mod serve;
pub mod story;
