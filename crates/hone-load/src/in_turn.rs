//! Requests of a workload, one after the other: a fixed piece of work for exact counts. The schedule, the number of connections and the
//! client of the workload play no role, so that two runs do the same in the same order.

use std::time::Duration;

use hone_record::{Engine, Workload};

use crate::admin::Admin;
use crate::connection::Connection;
use crate::error::LoadError;
use crate::frames::{self, Pool};
use crate::run::{self, OwnTopics};
use crate::security::Access;
use crate::settings::Settings;

/// A connected client with the requests of a workload. Its own topic is deleted when it is dropped.
#[derive(Debug)]
pub struct InTurn {
    /// A connection to each leader, with the requests for its partitions.
    lanes: Vec<(Connection, Pool)>,
    sent: u64,
    timeout_s: f64,
    _topic: OwnTopics,
}

impl InTurn {
    /// Creates the topic, encodes the requests and connects. The requests are those of the wire engine: a client's batches depend on time.
    /// They have no producer id, and ask for an acknowledgement in any case.
    ///
    /// # Errors
    /// Returns an error when a setting is invalid, or the broker can't be reached or refuses.
    pub fn prepare(settings: &Settings, workload: &Workload) -> Result<Self, LoadError> {
        let acks = if workload.acks == 0 { 1 } else { workload.acks };
        let workload = Workload { engine: Engine::Wire, idempotent: false, acks, ..workload.clone() };
        let access = Access::new(&settings.security)?;
        let mut admin = Admin::enter(&settings.address, access.clone(), Admin::LIMIT)?;
        let mut topic = OwnTopics::at(&settings.address, &access);
        let layout = run::layout_of(&settings.topic, &workload, &mut admin, &mut topic)?;
        let pools = frames::pools(&workload, &layout, None)?;
        let limit = Duration::from_secs_f64(workload.timeout_s);
        let lanes = layout.leaders.iter().zip(pools).map(|((address, _), pool)| {
            Ok((Connection::open(&access, address, &layout.topics, limit)?, pool))
        });
        let lanes = lanes.collect::<Result<_, LoadError>>()?;
        Ok(Self { lanes, sent: 0, timeout_s: workload.timeout_s, _topic: topic })
    }

    /// Sends the next requests, each after the answer to the one before it.
    ///
    /// # Errors
    /// Returns an error when a request fails or has no answer in time.
    pub fn send(&mut self, requests: u64) -> Result<(), LoadError> {
        let lanes = self.lanes.len() as u64;
        for _ in 0..requests {
            let (turn, lane) = (self.sent / lanes.max(1), self.sent % lanes.max(1));
            self.sent += 1;
            let Some((connection, pool)) = self.lanes.get_mut(lane as usize) else { return Ok(()) };
            let index = turn.checked_rem(pool.requests.len() as u64).unwrap_or(0) as usize;
            let Some(request) = pool.requests.get(index) else { continue };
            connection.send_and_wait(request, self.timeout_s)?;
        }
        Ok(())
    }
}
