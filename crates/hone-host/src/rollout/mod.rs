//! A change on many hosts: the hosts ([`inventory`]), their order ([`order`]), and the journal ([`log`]). Other rooms communicate with
//! hosts and clusters.

pub mod inventory;
pub mod log;
pub mod order;
