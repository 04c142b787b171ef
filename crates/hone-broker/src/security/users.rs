//! Who may log in: names, and for each mechanism what is kept of the password. One JSON file, replaced as a whole; the
//! passwords themselves are never in it.

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroU32;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::{fs, io};

use anyhow::{Context, anyhow, bail};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use ring::hmac;
use serde_json::{Map, Value, json};

use crate::durable;

use super::random::random_bytes;
use super::scram::{Credential, Hash};

const USERS_FILE: &str = "users.json";
const FORMAT: u64 = 1;
/// What Kafka demands, too.
const LEAST_ITERATIONS: u32 = 4096;
const MOST_ITERATIONS: u32 = 16_384;
/// Of passwords that the broker itself is given. What Kafka's tools choose, so that users look alike.
const OWN_ITERATIONS: NonZeroU32 = NonZeroU32::new(LEAST_ITERATIONS).unwrap();
const OWN_SALT_BYTES: usize = 25;
const MOST_SALT_BYTES: usize = 256;
const MOST_NAME_BYTES: usize = 256;
/// Every change writes the whole file, and every listing sends it.
const MOST_USERS: usize = 10_000;

type Book = BTreeMap<String, BTreeMap<Hash, Credential>>;
/// Salt bytes and iterations: what a client sees of a credential before it has proved anything.
type Shape = (usize, NonZeroU32);

/// A change to one user, as an admin client asks for it.
#[derive(Clone)]
pub(crate) enum Change {
    Delete { user: String, mechanism: i8 },
    Upsert { user: String, mechanism: i8, iterations: i32, salt: Vec<u8>, salted_password: Vec<u8> },
}

impl Change {
    /// Whom it is about.
    pub(crate) fn user(&self) -> &str {
        self.target().0
    }

    fn target(&self) -> (&str, i8) {
        match self {
            Self::Delete { user, mechanism } | Self::Upsert { user, mechanism, .. } => (user, *mechanism),
        }
    }
}

/// Why a user was not changed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum AlterError {
    #[error("unknown mechanism: use 1 for SCRAM-SHA-256 or 2 for SCRAM-SHA-512")]
    Mechanism,
    #[error("the same user and mechanism twice in one request")]
    Twice,
    #[error("this user has no password for this mechanism")]
    Missing,
    #[error("{0}")]
    Unacceptable(&'static str),
    #[error("can't write the users: {0}")]
    Storage(String),
}

/// All users.
pub(crate) struct Users {
    /// `None`: kept in memory only.
    path: Option<PathBuf>,
    /// What made-up salts are made from, so that a name has the same one for ever.
    secret: [u8; 32],
    state: RwLock<Arc<State>>,
    /// Held while the file is written.
    writing: Mutex<()>,
}

#[derive(Default)]
struct State {
    book: Book,
    /// What real credentials look like, for the made-up ones.
    shapes: BTreeSet<Shape>,
}

impl State {
    fn of(book: Book) -> Arc<Self> {
        let credentials = book.values().flat_map(BTreeMap::values);
        let shapes = credentials.map(|credential| (credential.salt.len(), credential.iterations)).collect();
        Arc::new(Self { book, shapes })
    }
}

impl Users {
    /// Reads the users of a data folder; there need not be any yet.
    pub(crate) fn open(data_dir: Option<&Path>) -> anyhow::Result<Self> {
        let Some(data_dir) = data_dir else { return Ok(Self::new(None, random_bytes()?, Book::new())) };
        let path = data_dir.join(USERS_FILE);
        let (secret, book) = match fs::read(&path) {
            Ok(bytes) => parse(&bytes).with_context(|| {
                format!("{} is damaged (restore it, or remove it and add the users again)", path.display())
            })?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => (random_bytes()?, Book::new()),
            Err(error) => {
                return Err(error).with_context(|| {
                    format!("can't read the users in {} (check the file's permissions)", path.display())
                });
            }
        };
        Ok(Self::new(Some(path), secret, book))
    }

    fn new(path: Option<PathBuf>, secret: [u8; 32], book: Book) -> Self {
        Self { path, secret, state: RwLock::new(State::of(book)), writing: Mutex::new(()) }
    }

    fn state(&self) -> Arc<State> {
        Arc::clone(&self.state.read().unwrap_or_else(PoisonError::into_inner))
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.state().book.is_empty()
    }

    pub(crate) fn names(&self) -> Vec<String> {
        self.state().book.keys().cloned().collect()
    }

    /// Mechanisms and iterations of a user; `None` when there is no such user.
    pub(crate) fn describe(&self, user: &str) -> Option<Vec<(Hash, NonZeroU32)>> {
        let state = self.state();
        let credentials = state.book.get(user)?;
        Some(credentials.iter().map(|(hash, credential)| (*hash, credential.iterations)).collect())
    }

    /// The stored credential of a user. An unknown name gets a constant, made-up credential that no password matches,
    /// so that a client can't find out which names exist.
    pub(crate) fn credential_or_decoy(&self, user: &str, hash: Hash) -> Credential {
        let state = self.state();
        let known = state.book.get(user).and_then(|credentials| credentials.get(&hash));
        known.cloned().unwrap_or_else(|| self.decoy(&state.shapes, user, hash))
    }

    fn decoy(&self, shapes: &BTreeSet<Shape>, user: &str, hash: Hash) -> Credential {
        let bytes = |purpose: &str, length| self.derive(&[purpose, hash.mechanism(), user], length);
        // A name keeps its shape when other shapes come and go, unless it is its own that goes.
        let rank = |shape: &&Shape| bytes(&format!("{shape:?}"), 8);
        let (salt_bytes, iterations) =
            shapes.iter().max_by_key(rank).copied().unwrap_or((OWN_SALT_BYTES, OWN_ITERATIONS));
        Credential {
            salt: bytes("salt", salt_bytes),
            iterations,
            stored_key: bytes("stored key", hash.bytes()),
            server_key: bytes("server key", hash.bytes()),
        }
    }

    /// Derives bytes that can't be guessed without the secret.
    fn derive(&self, from: &[&str], length: usize) -> Vec<u8> {
        let key = hmac::Key::new(hmac::HMAC_SHA512, &self.secret);
        let mut derived = Vec::new();
        for block in 0_u32.. {
            if derived.len() >= length {
                break;
            }
            let message = format!("{block}\0{}", from.join("\0"));
            derived.extend_from_slice(hmac::sign(&key, message.as_bytes()).as_ref());
        }
        derived.truncate(length);
        derived
    }

    /// Whether this is the user's password. Slow by design, and just as slow for a name that is not there.
    pub(crate) fn password_is(&self, user: &str, password: &str) -> bool {
        let known = self.describe(user).and_then(|mechanisms| mechanisms.first().map(|(hash, _)| *hash));
        let hash = known.unwrap_or(Hash::Sha256);
        self.credential_or_decoy(user, hash).is_of(hash, password) && known.is_some()
    }

    /// Gives a user a password for all mechanisms, unless it is that one already. Slow by design.
    pub(crate) fn set_password(&self, user: &str, password: &str) -> anyhow::Result<()> {
        if let Some(fault) = fault_of_name(user) {
            bail!("{fault}");
        }
        let _writing = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
        let state = self.state();
        let mut book = state.book.clone();
        let credentials = book.entry(user.to_owned()).or_default();
        let mut changed = false;
        for hash in Hash::ALL {
            if credentials.get(&hash).is_some_and(|credential| credential.is_of(hash, password)) {
                continue;
            }
            let salt = random_bytes::<OWN_SALT_BYTES>()?.to_vec();
            credentials.insert(hash, Credential::from_password(hash, password, salt, OWN_ITERATIONS));
            changed = true;
        }
        if changed {
            self.replace(book).context("can't write the users")?;
        }
        Ok(())
    }

    /// Carries out changes, in one write. Says for each user what came of it; a user with one bad change keeps
    /// all as it was.
    pub(crate) fn alter(&self, changes: &[Change]) -> Vec<(String, Result<(), AlterError>)> {
        let _writing = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
        let mut book = self.state().book.clone();
        let mut by_user: BTreeMap<&str, Vec<&Change>> = BTreeMap::new();
        for change in changes {
            by_user.entry(change.user()).or_default().push(change);
        }
        let mut results: Vec<(String, Result<(), AlterError>)> = Vec::new();
        for (user, changes) in by_user {
            let before = book.get(user).cloned();
            let result = alter_user(&mut book, &changes);
            if result.is_err() {
                book.remove(user);
                book.extend(before.map(|before| (user.to_owned(), before)));
            }
            results.push((user.to_owned(), result));
        }
        if results.iter().any(|(_, result)| result.is_ok())
            && let Err(error) = self.replace(book)
        {
            let failed = AlterError::Storage(error.to_string());
            results.iter_mut().filter(|(_, result)| result.is_ok()).for_each(|(_, result)| {
                *result = Err(failed.clone());
            });
        }
        results
    }

    /// Makes a book the one in force, once it is on disk.
    fn replace(&self, book: Book) -> io::Result<()> {
        if let Some(path) = &self.path {
            durable::replace_private_file(path, to_text(&self.secret, &book).as_bytes())?;
        }
        *self.state.write().unwrap_or_else(PoisonError::into_inner) = State::of(book);
        Ok(())
    }
}

fn alter_user(book: &mut Book, changes: &[&Change]) -> Result<(), AlterError> {
    let mut seen = BTreeSet::new();
    for change in changes {
        let (user, number) = change.target();
        let hash = Hash::from_number(number).ok_or(AlterError::Mechanism)?;
        if !seen.insert(hash) {
            return Err(AlterError::Twice);
        }
        match change {
            Change::Delete { .. } => {
                let credentials = book.get_mut(user).ok_or(AlterError::Missing)?;
                credentials.remove(&hash).ok_or(AlterError::Missing)?;
                if credentials.is_empty() {
                    book.remove(user);
                }
            }
            Change::Upsert { iterations, salt, salted_password, .. } => {
                let credential = acceptable(user, hash, *iterations, salt, salted_password)?;
                if book.len() >= MOST_USERS && !book.contains_key(user) {
                    return Err(AlterError::Unacceptable(
                        "the broker already has the maximum number of users",
                    ));
                }
                book.entry(user.to_owned()).or_default().insert(hash, credential);
            }
        }
    }
    Ok(())
}

fn acceptable(
    user: &str,
    hash: Hash,
    iterations: i32,
    salt: &[u8],
    salted: &[u8],
) -> Result<Credential, AlterError> {
    if let Some(fault) = fault_of_name(user) {
        return Err(AlterError::Unacceptable(fault));
    }
    let iterations = u32::try_from(iterations).ok().and_then(NonZeroU32::new).filter(may_iterate);
    let iterations = iterations.ok_or(AlterError::Unacceptable("iterations must be from 4096 to 16384"))?;
    if salt.is_empty() || salt.len() > MOST_SALT_BYTES {
        return Err(AlterError::Unacceptable("a salt must have from 1 to 256 bytes"));
    }
    if salted.len() != hash.bytes() {
        return Err(AlterError::Unacceptable("a salted password must be as long as the mechanism's hash"));
    }
    Ok(Credential::from_salted_password(hash, salted, salt.to_vec(), iterations))
}

fn may_iterate(iterations: &NonZeroU32) -> bool {
    (LEAST_ITERATIONS..=MOST_ITERATIONS).contains(&iterations.get())
}

fn fault_of_name(user: &str) -> Option<&'static str> {
    if user.is_empty() {
        return Some("a user needs a name");
    }
    let too_long = user.len() > MOST_NAME_BYTES;
    (too_long || user.chars().any(char::is_control))
        .then_some("a user name has at most 256 bytes and no control characters")
}

fn to_text(secret: &[u8], book: &Book) -> String {
    let users: Map<String, Value> = book
        .iter()
        .map(|(user, credentials)| {
            let credentials: Map<String, Value> = credentials
                .iter()
                .map(|(hash, credential)| (hash.mechanism().to_owned(), credential_to_json(credential)))
                .collect();
            (user.clone(), Value::Object(credentials))
        })
        .collect();
    format!("{:#}\n", json!({ "format": FORMAT, "secret": BASE64.encode(secret), "users": users }))
}

fn credential_to_json(credential: &Credential) -> Value {
    json!({
        "salt": BASE64.encode(&credential.salt),
        "iterations": credential.iterations.get(),
        "stored_key": BASE64.encode(&credential.stored_key),
        "server_key": BASE64.encode(&credential.server_key),
    })
}

fn parse(bytes: &[u8]) -> anyhow::Result<([u8; 32], Book)> {
    let value: Value = serde_json::from_slice(bytes)?;
    let format = value.get("format").and_then(Value::as_u64).context("no number `format`")?;
    if format != FORMAT {
        bail!("it has format {format}, but this broker reads format {FORMAT}");
    }
    let secret = bytes_at(&value, "secret")?;
    let secret = secret.try_into().map_err(|_| anyhow!("`secret` does not have 32 bytes"))?;
    let mut book = Book::new();
    for (user, credentials) in value.get("users").and_then(Value::as_object).context("no object `users`")? {
        let credentials =
            credentials.as_object().with_context(|| format!("user {user:?} is not an object"))?;
        for (mechanism, credential) in credentials {
            let hash = Hash::from_mechanism(mechanism)
                .with_context(|| format!("user {user:?} has the unknown mechanism {mechanism:?}"))?;
            let credential = credential_from_json(hash, credential)
                .with_context(|| format!("user {user:?}, {mechanism}"))?;
            book.entry(user.clone()).or_default().insert(hash, credential);
        }
    }
    Ok((secret, book))
}

fn credential_from_json(hash: Hash, value: &Value) -> anyhow::Result<Credential> {
    let iterations = value.get("iterations").and_then(Value::as_u64).context("no number `iterations`")?;
    let iterations = u32::try_from(iterations).ok().and_then(NonZeroU32::new).filter(may_iterate);
    let credential = Credential {
        salt: bytes_at(value, "salt")?,
        iterations: iterations.context("`iterations` is out of bounds")?,
        stored_key: bytes_at(value, "stored_key")?,
        server_key: bytes_at(value, "server_key")?,
    };
    let keys_fit =
        [&credential.stored_key, &credential.server_key].iter().all(|key| key.len() == hash.bytes());
    if !keys_fit || credential.salt.is_empty() {
        bail!("a key or the salt has a wrong length");
    }
    Ok(credential)
}

fn bytes_at(value: &Value, name: &str) -> anyhow::Result<Vec<u8>> {
    let text = value.get(name).and_then(Value::as_str).with_context(|| format!("no text `{name}`"))?;
    // The decoder's own error would show a piece of what should stay hidden.
    BASE64.decode(text).map_err(|_| anyhow!("`{name}` is not Base64"))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn upsert(user: &str, mechanism: i8, iterations: i32, salted_bytes: usize) -> Change {
        let (user, salted_password) = (user.to_owned(), vec![9; salted_bytes]);
        Change::Upsert { user, mechanism, iterations, salt: b"salt".to_vec(), salted_password }
    }

    fn delete(user: &str, mechanism: i8) -> Change {
        Change::Delete { user: user.to_owned(), mechanism }
    }

    fn in_memory() -> Users {
        Users::new(None, [1; 32], Book::new())
    }

    #[test]
    fn users_survive_and_their_passwords_are_nowhere() {
        let folder = tempfile::tempdir().unwrap();
        let users = Users::open(Some(folder.path())).unwrap();
        assert!(users.is_empty());
        users.set_password("alice", "correct horse").unwrap();
        let decoy = users.credential_or_decoy("mallory", Hash::Sha256);
        let file = folder.path().join(USERS_FILE);
        assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
        let text = fs::read_to_string(&file).unwrap();
        assert!(!text.contains("horse") && !text.contains(&BASE64.encode("correct horse")), "{text}");
        let users = Users::open(Some(folder.path())).unwrap();
        assert!(users.password_is("alice", "correct horse"));
        assert!(!users.password_is("alice", "wrong horse"));
        assert!(!users.password_is("mallory", "correct horse"));
        assert_eq!(users.credential_or_decoy("mallory", Hash::Sha256), decoy, "the same after a restart");
        users.set_password("alice", "correct horse").unwrap();
        assert_eq!(fs::read_to_string(&file).unwrap(), text, "nothing to change, nothing changed");
        users.set_password("alice", "other").unwrap();
        assert!(users.password_is("alice", "other") && !users.password_is("alice", "correct horse"));
    }

    #[test]
    fn made_up_credentials_look_like_real_ones() {
        let users = in_memory();
        users.alter(&[upsert("real", 1, 8192, 32)]);
        let real = users.credential_or_decoy("real", Hash::Sha256);
        let decoy = users.credential_or_decoy("nobody", Hash::Sha256);
        assert_eq!((decoy.salt.len(), decoy.iterations), (real.salt.len(), real.iterations));
        assert_ne!(decoy.salt, users.credential_or_decoy("noone", Hash::Sha256).salt);
        assert_ne!(decoy.salt, users.credential_or_decoy("nobody", Hash::Sha512).salt);
        let other_broker = Users::new(None, [2; 32], Book::new());
        assert_ne!(other_broker.credential_or_decoy("nobody", Hash::Sha256), decoy);
        // A user without this mechanism is nobody to it.
        assert_eq!(users.credential_or_decoy("real", Hash::Sha512).stored_key.len(), 64);
    }

    #[test]
    fn a_user_with_one_bad_change_keeps_all_as_it_was() {
        let users = in_memory();
        let unacceptable = |results: &[(String, Result<(), AlterError>)]| {
            matches!(results, [(_, Err(AlterError::Unacceptable(_)))])
        };
        for bad in [
            upsert("", 1, 4096, 32),
            upsert("a\nb", 1, 4096, 32),
            upsert("a", 1, 4095, 32),
            upsert("a", 1, 16_385, 32),
            upsert("a", 1, -1, 32),
            upsert("a", 2, 4096, 32),
        ] {
            assert!(unacceptable(&users.alter(&[bad])));
        }
        assert!(users.is_empty());
        assert_eq!(users.alter(&[upsert("a", 3, 4096, 32)])[0].1, Err(AlterError::Mechanism));
        assert_eq!(users.alter(&[delete("a", 1)])[0].1, Err(AlterError::Missing));
        let results = users.alter(&[upsert("a", 1, 4096, 32), upsert("b", 2, 4096, 64), delete("a", 2)]);
        assert_eq!(results, [("a".to_owned(), Err(AlterError::Missing)), ("b".to_owned(), Ok(()))]);
        assert_eq!(users.names(), ["b"]);
        assert_eq!(users.alter(&[upsert("b", 2, 4096, 64), delete("b", 2)])[0].1, Err(AlterError::Twice));
        assert_eq!(users.describe("b"), Some(vec![(Hash::Sha512, OWN_ITERATIONS)]));
        assert_eq!(users.alter(&[delete("b", 2)])[0].1, Ok(()));
        assert_eq!(users.describe("b"), None);
    }

    #[test]
    fn damaged_files_are_refused_by_name_and_without_their_secrets() {
        let folder = tempfile::tempdir().unwrap();
        let users = Users::open(Some(folder.path())).unwrap();
        users.set_password("alice", "correct horse").unwrap();
        let file = folder.path().join(USERS_FILE);
        let text = fs::read_to_string(&file).unwrap();
        for length in 0..text.len() - 2 {
            assert!(parse(&text.as_bytes()[..length]).is_err(), "{length}");
        }
        for (from, to) in [
            ("\"format\": 1", "\"format\": 2"),
            ("4096", "1"),
            ("4096", "99999999999"),
            ("SCRAM-SHA-256", "MD5"),
            ("\"stored_key\": \"", "\"stored_key\": \"!"),
            ("\"salt\"", "\"pepper\""),
        ] {
            let damaged = text.replace(from, to);
            assert_ne!(damaged, text);
            fs::write(&file, damaged).unwrap();
            let error = format!("{:#}", Users::open(Some(folder.path())).err().unwrap());
            assert!(error.contains("users.json is damaged"), "{error}");
        }
    }

    #[test]
    fn a_file_that_can_t_be_written_changes_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let users = Users::open(Some(folder.path())).unwrap();
        fs::create_dir(folder.path().join("users.new")).unwrap();
        assert!(matches!(users.alter(&[upsert("a", 1, 4096, 32)])[..], [(_, Err(AlterError::Storage(_)))]));
        assert!(users.set_password("a", "b").is_err());
        assert!(users.is_empty());
    }
}
