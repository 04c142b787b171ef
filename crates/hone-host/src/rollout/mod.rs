//! A change brought to many hosts: which hosts there are ([`inventory`]), who comes next ([`order`]), and what was done to whom
//! ([`log`]). Who talks to hosts and clusters is not this room's business.

pub mod inventory;
pub mod log;
pub mod order;
