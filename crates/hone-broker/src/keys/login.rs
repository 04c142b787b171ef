//! A client's login, token by token, from wherever a token comes: a request, or a frame of its own.

use std::time::{Duration, Instant};

use crate::keys::park::{Attempt, Park};
use crate::node::Node;
use crate::reply::Reply;
use crate::security::random::nonce;
use crate::security::session::{Session, Step};
use crate::ticket::Ticket;

/// Delay of the answer to a failed login. It makes guessing over one connection slow, and costs the broker nothing.
const REFUSAL_DELAY: Duration = Duration::from_millis(100);

/// What comes of a token.
pub(crate) enum Progress {
    /// Send this.
    Answer(Vec<u8>),
    /// It is served again, later.
    Park(Park),
    /// Say that the login failed, and end the connection.
    Refused,
    /// Say that no token was to come now, and end the connection.
    NotNow,
    /// End the connection without a word; a client tries again after that, as it would not after a refusal.
    Busy,
}

/// Takes one step.
pub(crate) fn advance(
    node: &Node,
    session: &mut Session,
    ticket: Ticket,
    attempt: &Attempt,
    token: &[u8],
    now: Instant,
) -> Progress {
    match attempt {
        Attempt::First => first(node, session, ticket, token, now),
        Attempt::Answered(Reply::Checked { user, user_is_right: true }) => {
            session.open(user);
            Progress::Answer(Vec::new())
        }
        Attempt::Answered(_) => refuse(session, now),
        Attempt::Again { .. } | Attempt::Further(_) => Progress::Refused,
    }
}

fn first(node: &Node, session: &mut Session, ticket: Ticket, token: &[u8], now: Instant) -> Progress {
    let nonce = match nonce() {
        Ok(nonce) => nonce,
        Err(error) => {
            node.settings.notices.say(&format!("can't let a client log in: {error}"));
            return Progress::Busy;
        }
    };
    match session.token(token, &node.security.users, &nonce) {
        Step::Answer(answer) => Progress::Answer(answer),
        Step::Check { user, password } => {
            if node.security.hasher.check(ticket, user, password) {
                Progress::Park(Park::Reply)
            } else {
                Progress::Busy
            }
        }
        Step::Refuse => refuse(session, now),
        Step::NotNow => Progress::NotNow,
    }
}

/// The client hears of it later: a wait for records of no partition is a wait for its end.
fn refuse(session: &mut Session, now: Instant) -> Progress {
    session.refuse();
    Progress::Park(Park::Records { until: now + REFUSAL_DELAY, watched: Vec::new() })
}
