//! Texts about the program itself, which no other crate can show.

pub(crate) mod version;
