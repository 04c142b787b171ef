//! Room not yet open.
