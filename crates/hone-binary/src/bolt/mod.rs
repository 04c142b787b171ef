//! BOLT: rewriting a linked program by a profile of its branches.

pub mod fdata;
