//! Who a client is, and how far it has come in saying so: a state machine for each connection, without I/O.

use super::plain::Login;
use super::scram::{Exchange, Hash};
use super::users::Users;
use crate::api_key::{API_VERSIONS, SASL_AUTHENTICATE, SASL_HANDSHAKE};

/// The principal of a client without a login, on a broker that requires none.
pub(crate) const ANONYMOUS: &str = "User:ANONYMOUS";
/// Largest token; those of real clients have some hundred bytes.
const TOKEN_BYTES: usize = 16 << 10;
/// Largest request of a client that has not logged in. Its longest one is a token behind a header with the client's name.
const STRANGER_BYTES: usize = TOKEN_BYTES + (4 << 10);

/// How a client says who it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mechanism {
    Scram(Hash),
    Plain,
}

impl Mechanism {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Scram(hash) => hash.mechanism(),
            Self::Plain => "PLAIN",
        }
    }
}

/// Why a handshake comes to nothing.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum HandshakeError {
    /// The client has logged in, no login is required, or it has chosen a mechanism before.
    NotNow,
    /// A mechanism that is not offered.
    Unsupported,
}

/// What comes of a token.
#[derive(PartialEq, Eq)]
pub(crate) enum Step {
    /// Send this; the client has logged in if [`Session::is_open`] says so.
    Answer(Vec<u8>),
    /// Whether this is the user's password is for a thread to find out that may take its time.
    Check { user: String, password: String },
    /// The client is not who it says it is, or talks gibberish.
    Refuse,
    /// No token was to come now.
    NotNow,
}

enum Stage {
    /// Everything is served.
    Open,
    /// A mechanism has to be agreed on.
    Stranger,
    /// The mechanism's tokens go to and fro.
    Tokens { mechanism: Mechanism, begun: Option<Box<Exchange>> },
    /// It sent something wrong. It gets an error, and the connection ends.
    Refused,
}

/// Who a client is.
pub(crate) struct Session {
    stage: Stage,
    /// Tokens come as frames of their own, not in requests: what the oldest handshake leads to.
    bare_tokens: bool,
    principal: String,
}

impl Session {
    /// A new client, who has to log in or not.
    pub(crate) fn new(must_log_in: bool) -> Self {
        let stage = if must_log_in { Stage::Stranger } else { Stage::Open };
        Self { stage, bare_tokens: false, principal: ANONYMOUS.to_owned() }
    }

    /// Who the client is: `User:NAME`.
    pub(crate) fn principal(&self) -> &str {
        &self.principal
    }

    /// Takes the name from the client's certificate. A login that follows says it better.
    pub(crate) fn identify(&mut self, distinguished_name: &str) {
        self.principal = format!("User:{distinguished_name}");
    }

    /// Whether the client is done with saying who it is.
    pub(crate) fn is_open(&self) -> bool {
        matches!(self.stage, Stage::Open)
    }

    /// Whether a request with this key is served at this stage.
    pub(crate) fn admits(&self, key: i16) -> bool {
        self.is_open() || [API_VERSIONS, SASL_HANDSHAKE, SASL_AUTHENTICATE].contains(&key)
    }

    /// Largest request at this stage; `most_bytes` once everything is served.
    pub(crate) fn frame_limit(&self, most_bytes: usize) -> usize {
        if self.is_open() { most_bytes } else { most_bytes.min(STRANGER_BYTES) }
    }

    /// Whether the next frame is a token and not a request.
    pub(crate) fn takes_bare_tokens(&self) -> bool {
        self.bare_tokens && !self.is_open()
    }

    /// Agrees on a mechanism.
    pub(crate) fn handshake(
        &mut self,
        name: &str,
        offered: &[Mechanism],
        bare_tokens: bool,
    ) -> Result<(), HandshakeError> {
        if !matches!(self.stage, Stage::Stranger) {
            return Err(HandshakeError::NotNow);
        }
        let mechanism = offered.iter().find(|mechanism| mechanism.name() == name);
        let mechanism = *mechanism.ok_or(HandshakeError::Unsupported)?;
        self.bare_tokens = bare_tokens;
        self.stage = Stage::Tokens { mechanism, begun: None };
        Ok(())
    }

    /// Reads a token. `nonce` is the broker's part of a new exchange's nonce and must be random.
    pub(crate) fn token(&mut self, token: &[u8], users: &Users, nonce: &str) -> Step {
        let (mechanism, begun) = match std::mem::replace(&mut self.stage, Stage::Refused) {
            Stage::Tokens { mechanism, begun } => (mechanism, begun),
            before => {
                self.stage = before;
                return Step::NotNow;
            }
        };
        if token.len() > TOKEN_BYTES {
            return Step::Refuse;
        }
        match (mechanism, begun) {
            (Mechanism::Plain, _) => self.plain(token),
            (Mechanism::Scram(hash), None) => self.scram_first(hash, token, users, nonce),
            (Mechanism::Scram(_), Some(exchange)) => match exchange.finish(token) {
                Ok((answer, user)) => {
                    self.open(&user);
                    Step::Answer(answer)
                }
                Err(_) => Step::Refuse,
            },
        }
    }

    fn plain(&mut self, token: &[u8]) -> Step {
        let Some(login) = Login::parse(token) else { return Step::Refuse };
        self.stage = Stage::Tokens { mechanism: Mechanism::Plain, begun: None };
        Step::Check { user: login.user.to_owned(), password: login.password.to_owned() }
    }

    fn scram_first(&mut self, hash: Hash, token: &[u8], users: &Users, nonce: &str) -> Step {
        match Exchange::begin(hash, token, nonce, |user| users.credential_or_decoy(user, hash)) {
            Ok((answer, exchange)) => {
                let begun = Some(Box::new(exchange));
                self.stage = Stage::Tokens { mechanism: Mechanism::Scram(hash), begun };
                Step::Answer(answer)
            }
            Err(_) => Step::Refuse,
        }
    }

    /// The client is who it says it is.
    pub(crate) fn open(&mut self, user: &str) {
        self.stage = Stage::Open;
        self.principal = format!("User:{user}");
    }

    /// The client is not who it says it is.
    pub(crate) fn refuse(&mut self) {
        self.stage = Stage::Refused;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OFFERED: [Mechanism; 2] = [Mechanism::Scram(Hash::Sha256), Mechanism::Plain];

    fn users() -> (tempfile::TempDir, Users) {
        let folder = tempfile::tempdir().unwrap();
        let users = Users::open(Some(folder.path())).unwrap();
        users.set_password("alice", "secret").unwrap();
        (folder, users)
    }

    #[test]
    fn where_nobody_is_asked_everything_is_served_and_a_login_is_out_of_place() {
        let (_folder, users) = users();
        let mut session = Session::new(false);
        assert!(session.admits(0) && session.frame_limit(1 << 20) == 1 << 20);
        assert_eq!(session.principal(), "User:ANONYMOUS");
        assert_eq!(session.handshake("PLAIN", &OFFERED, false), Err(HandshakeError::NotNow));
        assert!(session.token(b"\0alice\0secret", &users, "n") == Step::NotNow);
        assert!(session.is_open());
        session.identify("CN=alice,O=Hone");
        assert_eq!(session.principal(), "User:CN=alice,O=Hone");
    }

    #[test]
    fn a_stranger_may_only_log_in() {
        let (_folder, users) = users();
        let mut session = Session::new(true);
        let served: Vec<i16> = (-1..100).filter(|key| session.admits(*key)).collect();
        assert_eq!(served, [17, 18, 36]);
        assert_eq!(session.frame_limit(1 << 30), STRANGER_BYTES);
        assert!(session.token(b"n,,n=alice,r=x", &users, "y") == Step::NotNow, "no handshake yet");
        assert_eq!(session.handshake("GSSAPI", &OFFERED, false), Err(HandshakeError::Unsupported));
        assert_eq!(session.handshake("PLAIN", &OFFERED, true), Ok(()));
        assert!(session.takes_bare_tokens());
        assert_eq!(session.handshake("PLAIN", &OFFERED, false), Err(HandshakeError::NotNow));
        let check = session.token(b"\0alice\0secret", &users, "n");
        assert!(check == Step::Check { user: "alice".to_owned(), password: "secret".to_owned() });
        assert!(!session.is_open());
        session.open("alice");
        assert!(session.is_open() && session.admits(0) && !session.takes_bare_tokens());
        assert_eq!(session.principal(), "User:alice");
    }

    #[test]
    fn what_was_refused_stays_refused() {
        let (_folder, users) = users();
        for token in [&b"gibberish"[..], &[0; TOKEN_BYTES + 1], b""] {
            let mut session = Session::new(true);
            session.handshake("SCRAM-SHA-256", &OFFERED, false).unwrap();
            assert!(session.token(token, &users, "y") == Step::Refuse);
            assert!(session.token(b"n,,n=alice,r=x", &users, "y") == Step::NotNow);
            assert_eq!(session.handshake("PLAIN", &OFFERED, false), Err(HandshakeError::NotNow));
            assert!(!session.is_open() && !session.admits(3));
        }
    }

    #[test]
    fn an_unknown_user_is_told_what_a_known_one_with_a_wrong_password_is_told() {
        let (_folder, users) = users();
        let mut shapes = Vec::new();
        for user in ["alice", "nobody"] {
            let mut session = Session::new(true);
            session.handshake("SCRAM-SHA-256", &OFFERED, false).unwrap();
            let first = session.token(format!("n,,n={user},r=x").as_bytes(), &users, "y");
            let Step::Answer(answer) = first else { panic!("{user} was refused at once") };
            shapes.push(answer.len());
            let last = format!("c=biws,r=xy,p={}=", "A".repeat(43));
            assert!(session.token(last.as_bytes(), &users, "y") == Step::Refuse);
        }
        assert_eq!(shapes[0], shapes[1]);
    }
}
