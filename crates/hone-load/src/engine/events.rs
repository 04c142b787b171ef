//! Incidents of the target while the window was open, in order and limited in number. The code is pure.

use hone_record::{Event, EventKind};

/// After this many events, a connection that breaks again and again adds nothing new.
const MOST: usize = 500;

/// The events of a window.
#[derive(Debug, Default)]
pub(crate) struct Events {
    kept: Vec<Event>,
    left_out: u64,
    last_ns: u64,
}

impl Events {
    pub(crate) fn add(&mut self, at_ns: u64, kind: EventKind, what: String) {
        self.last_ns = self.last_ns.max(at_ns);
        if self.kept.len() < MOST || kind == EventKind::Interrupted {
            self.kept.push(Event { at_s: at_ns as f64 / 1e9, kind, what });
        } else {
            self.left_out += 1;
        }
    }

    /// All events, with the number of further ones.
    pub(crate) fn take(&mut self) -> Vec<Event> {
        let mut events = std::mem::take(&mut self.kept);
        // An event that needs confirmation began earlier.
        events.sort_by(|left, right| left.at_s.total_cmp(&right.at_s));
        let left_out = std::mem::take(&mut self.left_out);
        if left_out > 0 {
            events.push(Event {
                at_s: self.last_ns as f64 / 1e9,
                kind: EventKind::ConnectionLost,
                what: format!("{left_out} more events up to here are left out"),
            });
        }
        events
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flapping_connection_does_not_fill_the_record() {
        let mut events = Events::default();
        for at in 0..2_000 {
            events.add(at, EventKind::ConnectionLost, "again".to_owned());
        }
        let told = events.take();
        assert_eq!(told.len(), MOST + 1);
        assert!(told[MOST].what.starts_with("1500 more"));
    }
}
