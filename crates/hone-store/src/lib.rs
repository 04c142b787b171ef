//! Records and profiles in a folder or an object store, named by one address: a path, `file://`, `s3://`, `gs://` or `az://`.
//!
//! A blocking interface to the `object_store` crate: a handful of records does not need an async runtime. Credentials and endpoints come
//! from the environment, by the names of each vendor's own tools (`AWS_ACCESS_KEY_ID`, `AWS_ENDPOINT_URL`,
//! `GOOGLE_APPLICATION_CREDENTIALS`, `AZURE_STORAGE_ACCOUNT_NAME` ...), never from an address.

mod client;
pub mod web;

use std::fmt;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::future::Future;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use object_store::list::{PaginatedListOptions, PaginatedListStore};
use object_store::local::LocalFileSystem;
use object_store::path::Path as Key;
use object_store::{
    GetResult, ListResult, ObjectStore, ObjectStoreExt as _, PutMode, PutPayload, UpdateVersion,
};
use tokio::runtime::Runtime;
use url::Url;

use client::{Answered, Client, client_of, is_left_out};

/// Time limit of one request to a store, retries included. A longer wait means a store in trouble, and the user waits for a record. The
/// transfer time of an object is excluded, and each page of a listing is a request.
const ANSWER_LIMIT: Duration = Duration::from_secs(60);
/// The minimum transfer rate. An object has the time that it takes at this rate.
const SLOWEST_BYTES_PER_S: u64 = 512 << 10;
/// A larger object uses a separate client. The usual one retries after 30 s, which is right for small objects, but would never finish
/// these.
const SMALL_BYTES: u64 = 8 << 20;
/// Time between two attempts to take a lock.
const LOOK_EVERY: Duration = Duration::from_millis(20);
/// A larger object is not a record or a profile, and Hone does not read it into memory.
pub const LARGEST_OBJECT_BYTES: u64 = 1 << 30;

/// Why a request to a store failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// The address is invalid.
    #[error(
        "invalid store `{address}`: {problem}\n  next: use a folder, file://PATH, s3://BUCKET/PATH, \
         gs://BUCKET/PATH or az://CONTAINER/PATH"
    )]
    Address {
        /// The address without its credentials.
        address: String,
        /// The fault.
        problem: String,
    },
    /// A store that this build does not support.
    #[error(
        "`{address}` is in an object store, which this build of Hone does not support\n  next: build it with \
         `cargo build --release -p hone`, without --no-default-features"
    )]
    LeftOut {
        /// The address without its credentials.
        address: String,
    },
    /// The store refused, or was unreachable.
    #[error("{what} in {store} failed: {problem}\n  next: {next}")]
    Failed {
        /// The store's address.
        store: String,
        /// The request and its object.
        what: String,
        /// The store's message.
        problem: String,
        /// What to do, as far as Hone knows.
        next: &'static str,
    },
    /// No answer in time.
    #[error(
        "{what} in {store} got no answer within {limit_s} s\n  next: check the store and the network, and \
         run the same command again"
    )]
    Slow {
        /// The store's address.
        store: String,
        /// The request and its object.
        what: String,
        /// The limit.
        limit_s: u64,
    },
    /// Larger than any record.
    #[error(
        "{name} in {store} has {bytes} bytes, more than a record can have\n  next: check the object, and \
         remove it from the store"
    )]
    TooLarge {
        /// The store's address.
        store: String,
        /// The object.
        name: String,
        /// Its size.
        bytes: u64,
    },
}

/// A store of records.
pub struct Store {
    address: String,
    runtime: Arc<Runtime>,
    objects: Arc<dyn ObjectStore>,
    /// The same store, with a client that waits for large objects.
    patient: Arc<dyn ObjectStore>,
    /// The same store, listed page by page; a folder has no pages.
    pages: Option<Arc<dyn PaginatedListStore>>,
    prefix: Key,
    /// On this machine's own disk, or on a mounted one.
    is_folder: bool,
}

/// An object with its version, which a replacement can be compared with.
#[derive(Debug)]
pub struct Found {
    /// The contents.
    pub bytes: Vec<u8>,
    version: UpdateVersion,
}

/// The direct contents of a store.
#[derive(Debug, Default)]
struct Listed {
    objects: Vec<Key>,
    folders: Vec<Key>,
}

impl Listed {
    fn add(&mut self, page: ListResult) {
        self.objects.extend(page.objects.into_iter().map(|object| object.location));
        self.folders.extend(page.common_prefixes);
    }
}

impl fmt::Debug for Store {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The inner store's own text can hold credentials.
        formatter.debug_struct("Store").field("address", &self.address).finish_non_exhaustive()
    }
}

impl Store {
    /// Opens a store. It makes no request yet, and the first object creates a missing folder.
    ///
    /// # Errors
    /// Fails when the address is invalid, or when its settings in the environment are.
    pub fn open(address: &str) -> Result<Self, StoreError> {
        // A variable that is not UTF-8 is not a setting of a store.
        let texts = std::env::vars_os()
            .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)));
        Self::open_with(address, texts)
    }

    /// Like [`Store::open`], with settings instead of the process's environment.
    ///
    /// # Errors
    /// As for [`Store::open`].
    pub fn open_with(
        address: &str,
        settings: impl IntoIterator<Item = (String, String)>,
    ) -> Result<Self, StoreError> {
        let wrong = |problem: String| StoreError::Address { address: told(address), problem };
        // Without a provider the client would panic at its first connection. An already installed one also works.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let url = url_of(address).map_err(wrong)?;
        if is_left_out(&url) {
            return Err(StoreError::LeftOut { address: told(address) });
        }
        let settings: Vec<_> =
            settings.into_iter().filter_map(|(name, value)| vendor_setting(&name, value)).collect();
        // The user's own settings come after ours, and win.
        let client = |more: Option<(String, String)>| {
            let settings = more.into_iter().chain(settings.clone()).collect();
            client_of(&url, settings).map_err(|e| wrong(unset(words(&e))))
        };
        let is_folder = url.scheme() == "file";
        let Client { objects, pages, prefix } = client(None)?;
        let (objects, patient): (Arc<dyn ObjectStore>, Arc<dyn ObjectStore>) = if is_folder {
            // Writes an object whole or not at all, even if the power fails after the answer.
            let folder = Arc::new(LocalFileSystem::new().with_fsync(true));
            (Arc::clone(&folder) as _, folder)
        } else {
            let limit = format!("{}s", limit_of(LARGEST_OBJECT_BYTES).as_secs());
            (objects, client(Some(("timeout".to_owned(), limit)))?.objects)
        };
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|error| wrong(error.to_string()))?;
        let runtime = Arc::new(runtime);
        Ok(Self { address: address.to_owned(), runtime, objects, patient, pages, prefix, is_folder })
    }

    /// A store inside this one. It makes no request yet.
    ///
    /// # Errors
    /// Fails when the name contains a slash or begins with a dot.
    pub fn folder(&self, name: &str) -> Result<Self, StoreError> {
        Ok(Self {
            address: format!("{}/{name}", self.address.trim_end_matches('/')),
            runtime: Arc::clone(&self.runtime),
            objects: Arc::clone(&self.objects),
            patient: Arc::clone(&self.patient),
            pages: self.pages.clone(),
            prefix: self.key(name, &format!("opening {name}"))?,
            is_folder: self.is_folder,
        })
    }

    /// The address as the user gave it.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// Writes an object whole or not at all, and replaces one with the same name.
    ///
    /// # Errors
    /// Fails when the store refuses or does not answer.
    pub fn put(&self, name: &str, bytes: Vec<u8>) -> Result<(), StoreError> {
        let what = format!("writing {name}");
        let key = self.key(name, &what)?;
        let sent = self.send(&what, &key, PutPayload::from(bytes), PutMode::Overwrite)?;
        sent.map_err(|error| self.failed(&what, &error))
    }

    /// Like [`Store::put`], but only over the version that was read (`None`: no object). `false` if another process has written it since.
    ///
    /// A store itself compares the versions. A folder uses a lock, a file next to the object.
    ///
    /// # Errors
    /// Fails when the store refuses or does not answer.
    pub fn put_over(&self, name: &str, seen: Option<&Found>, bytes: Vec<u8>) -> Result<bool, StoreError> {
        let what = format!("writing {name}");
        let key = self.key(name, &what)?;
        let payload = PutPayload::from(bytes);
        if self.is_folder {
            let _held = self.hold(name, &what)?;
            return self.put_over_the_same(name, seen, payload);
        }
        let mode = seen.map_or(PutMode::Create, |found| PutMode::Update(found.version.clone()));
        match self.send(&what, &key, payload.clone(), mode)? {
            Ok(()) => Ok(true),
            Err(object_store::Error::AlreadyExists { .. } | object_store::Error::Precondition { .. }) => {
                Ok(false)
            }
            // If the environment says that the store can't do this (AWS_CONDITIONAL_PUT=disabled), a check right before the write is the
            // best option.
            Err(object_store::Error::NotImplemented { .. }) => self.put_over_the_same(name, seen, payload),
            Err(error) => Err(self.failed(&what, &error)),
        }
    }

    fn put_over_the_same(
        &self,
        name: &str,
        seen: Option<&Found>,
        payload: PutPayload,
    ) -> Result<bool, StoreError> {
        let there = self.look(name)?.map(|found| found.bytes);
        if there.as_deref() != seen.map(|found| found.bytes.as_slice()) {
            return Ok(false);
        }
        let what = format!("writing {name}");
        let sent = self.send(&what, &self.key(name, &what)?, payload, PutMode::Overwrite)?;
        sent.map(|()| true).map_err(|error| self.failed(&what, &error))
    }

    fn send(
        &self,
        what: &str,
        key: &Key,
        payload: PutPayload,
        mode: PutMode,
    ) -> Result<Answered<()>, StoreError> {
        let size = payload.content_length() as u64;
        let sent = self.client_for(size).put_opts(key, payload, mode.into());
        Ok(self.wait(what, size, sent)?.map(|_| ()))
    }

    /// The lock of an object in a folder. It is its own file, because each write replaces the object's file. Dropping the answer releases
    /// it, and the file stays.
    fn hold(&self, name: &str, what: &str) -> Result<File, StoreError> {
        let failed = |problem: String| StoreError::Failed {
            store: self.address.clone(),
            what: format!("{what} under a lock"),
            problem,
            next: "check the permissions of the folder, and that its file system supports locks; an object \
                   store needs none",
        };
        let key = self.prefix.clone().join(format!(".{name}.lock"));
        let path = LocalFileSystem::new().path_to_filesystem(&key).map_err(|e| failed(words(&e)))?;
        let file = lock_file(&path).map_err(|error| failed(format!("{}: {error}", path.display())))?;
        let deadline = Instant::now() + ANSWER_LIMIT;
        loop {
            match file.try_lock() {
                Ok(()) => return Ok(file),
                Err(TryLockError::WouldBlock) if Instant::now() < deadline => std::thread::sleep(LOOK_EVERY),
                Err(TryLockError::WouldBlock) => {
                    return Err(self.slow(&format!("{what} under a lock"), ANSWER_LIMIT));
                }
                Err(TryLockError::Error(error)) => {
                    return Err(failed(format!("{} can't be locked: {error}", path.display())));
                }
            }
        }
    }

    /// Reads an object; `None` if there is none of that name.
    ///
    /// # Errors
    /// Fails when the store refuses or does not answer, or when the object is larger than a record can be.
    pub fn get(&self, name: &str) -> Result<Option<Vec<u8>>, StoreError> {
        Ok(self.look(name)?.map(|found| found.bytes))
    }

    /// Like [`Store::get`], for a later [`Store::put_over`].
    ///
    /// # Errors
    /// As for [`Store::get`].
    pub fn look(&self, name: &str) -> Result<Option<Found>, StoreError> {
        let Some(found) = self.begin(name, 0)? else { return Ok(None) };
        // The size was unknown before the answer.
        let is_small = found.meta.size <= SMALL_BYTES || self.is_folder;
        let found = if is_small { Some(found) } else { self.begin(name, found.meta.size)? };
        let Some(found) = found else { return Ok(None) };
        let what = format!("reading {name}");
        let version = UpdateVersion { e_tag: found.meta.e_tag.clone(), version: found.meta.version.clone() };
        let bytes = self.wait(&what, found.meta.size, found.bytes())?;
        let bytes = bytes.map_err(|error| self.failed(&what, &error))?.to_vec();
        Ok(Some(Found { bytes, version }))
    }

    /// Requests an object, with the client for its size; the contents are still to come.
    fn begin(&self, name: &str, size: u64) -> Result<Option<GetResult>, StoreError> {
        let what = format!("reading {name}");
        let key = self.key(name, &what)?;
        match self.wait(&what, 0, self.client_for(size).get(&key))? {
            Err(object_store::Error::NotFound { .. }) => Ok(None),
            Err(error) => Err(self.failed(&what, &error)),
            Ok(found) if found.meta.size > LARGEST_OBJECT_BYTES => {
                let (store, name) = (self.address.clone(), name.to_owned());
                Err(StoreError::TooLarge { store, name, bytes: found.meta.size })
            }
            Ok(found) => Ok(Some(found)),
        }
    }

    fn client_for(&self, size: u64) -> &Arc<dyn ObjectStore> {
        if size > SMALL_BYTES { &self.patient } else { &self.objects }
    }

    /// Names of all objects in the store, in order.
    ///
    /// # Errors
    /// Fails when the store refuses or does not answer.
    pub fn names(&self) -> Result<Vec<String>, StoreError> {
        Ok(last_parts(&self.list(ANSWER_LIMIT)?.objects))
    }

    /// Names of the direct substores that are not empty, in order.
    ///
    /// # Errors
    /// Fails when the store refuses or does not answer.
    pub fn folders(&self) -> Result<Vec<String>, StoreError> {
        Ok(last_parts(&self.list(ANSWER_LIMIT)?.folders))
    }

    /// The contents, whatever their number: `limit` applies to a page. A missing folder is empty.
    fn list(&self, limit: Duration) -> Result<Listed, StoreError> {
        let what = "listing";
        let mut listed = Listed::default();
        let Some(pages) = &self.pages else {
            match self.wait_for(what, limit, self.objects.list_with_delimiter(Some(&self.prefix)))? {
                // For a bucket this error means that the bucket does not exist; one without such a prefix has an empty listing.
                Err(object_store::Error::NotFound { .. }) if self.is_folder => {}
                found => listed.add(found.map_err(|error| self.failed(what, &error))?),
            }
            return Ok(listed);
        };
        let inside = (!self.prefix.as_ref().is_empty()).then(|| format!("{}/", self.prefix));
        let mut token = None;
        loop {
            let options = PaginatedListOptions {
                delimiter: Some("/".into()),
                page_token: token,
                ..PaginatedListOptions::default()
            };
            let page = self.wait_for(what, limit, pages.list_paginated(inside.as_deref(), options))?;
            let page = page.map_err(|error| self.failed(what, &error))?;
            listed.add(page.result);
            token = page.page_token.filter(|token| !token.is_empty());
            if token.is_none() {
                return Ok(listed);
            }
        }
    }

    fn key(&self, name: &str, what: &str) -> Result<Key, StoreError> {
        let plain = !name.is_empty() && !name.starts_with('.') && !name.contains(['/', '\\']);
        if plain {
            return Ok(self.prefix.clone().join(name));
        }
        let problem = "an object's name must not contain a slash or begin with a dot".to_owned();
        let (store, next) = (self.address.clone(), "use another name");
        Err(StoreError::Failed { store, what: what.to_owned(), problem, next })
    }

    /// Waits for an answer that transfers this number of bytes.
    fn wait<T>(&self, what: &str, bytes: u64, asked: impl Future<Output = T>) -> Result<T, StoreError> {
        self.wait_for(what, limit_of(bytes), asked)
    }

    fn wait_for<T>(
        &self,
        what: &str,
        limit: Duration,
        asked: impl Future<Output = T>,
    ) -> Result<T, StoreError> {
        let answered = self.runtime.block_on(async { tokio::time::timeout(limit, asked).await });
        answered.map_err(|_| self.slow(what, limit))
    }

    fn slow(&self, what: &str, limit: Duration) -> StoreError {
        let (store, limit_s) = (self.address.clone(), limit.as_secs());
        StoreError::Slow { store, what: what.to_owned(), limit_s }
    }

    fn failed(&self, what: &str, error: &object_store::Error) -> StoreError {
        let problem = words(error);
        let next = next_after(error, &problem, self.is_folder);
        StoreError::Failed { store: self.address.clone(), what: what.to_owned(), problem, next }
    }
}

/// Refuses an invalid address, for callers that only write it down for others.
///
/// # Errors
/// Fails when the address is invalid, or contains something that it must not, such as a login.
pub fn check_address(address: &str) -> Result<(), StoreError> {
    let url = url_of(address);
    url.map(drop).map_err(|problem| StoreError::Address { address: told(address), problem })
}

/// The time limit of a request that transfers this number of bytes.
fn limit_of(bytes: u64) -> Duration {
    ANSWER_LIMIT + Duration::from_secs(bytes.min(LARGEST_OBJECT_BYTES) / SLOWEST_BYTES_PER_S)
}

/// Opens the file to lock. It may belong to another user, and a lock needs no write permission.
fn lock_file(path: &Path) -> io::Result<File> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    let made = OpenOptions::new().create(true).truncate(false).write(true).open(path);
    made.or_else(|error| File::open(path).map_err(|_| error))
}

const LOOK_FOR_BUCKET: &str = "check the spelling of the bucket, and that it exists; Hone creates none";
const LOOK_AT_RIGHTS: &str =
    "check that the credentials in the environment are valid, and may list, read and write there";

/// What to do about a refusal. The crate has kinds for some; the others have only their message.
fn next_after(error: &object_store::Error, problem: &str, is_folder: bool) -> &'static str {
    use object_store::Error;
    let says = |words: &[&str]| words.iter().any(|word| problem.contains(word));
    match error {
        _ if is_folder => "check the permissions of the folder, and its free space",
        // The requests for the identity of a cloud machine. A user's key may contain `/latest/`, too.
        _ if says(&["/latest/api/token", "/latest/meta-data", "token request", "computeMetadata"]) => {
            "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, GOOGLE_SERVICE_ACCOUNT, or \
             AZURE_STORAGE_ACCOUNT_KEY; none is set, and this machine has no identity that the store knows"
        }
        _ if says(&["URL scheme is not allowed"]) => {
            "set AWS_ALLOW_HTTP=true, if the store of AWS_ENDPOINT_URL does not use TLS"
        }
        _ if says(&["(Connect)", "dns error"]) => {
            "check that the store runs and that this machine can reach it; AWS_ENDPOINT_URL names a store \
             other than the vendor's"
        }
        _ if says(&["501 Not Implemented"]) => {
            "check whether the store supports conditional writes (If-Match); if it does not, set \
             AWS_CONDITIONAL_PUT=disabled, and let no other process write the same object at that time"
        }
        // Errors of listings have no kinds.
        _ if says(&["404 Not Found"]) => LOOK_FOR_BUCKET,
        _ if says(&["401 Unauthorized", "403 Forbidden"]) => LOOK_AT_RIGHTS,
        Error::NotFound { .. } => LOOK_FOR_BUCKET,
        Error::PermissionDenied { .. } | Error::Unauthenticated { .. } => LOOK_AT_RIGHTS,
        _ => "check the store's log, and run the same command again",
    }
}

/// The error names the missing variable.
fn unset(problem: String) -> String {
    match problem.contains("Account must be specified") {
        true => "AZURE_STORAGE_ACCOUNT_NAME is not set".to_owned(),
        false => problem,
    }
}

/// Files that begin with a dot are not objects: a folder may contain locks, and files of other programs.
fn last_parts(keys: &[Key]) -> Vec<String> {
    let names = keys.iter().filter_map(|key| key.filename()).filter(|name| !name.starts_with('.'));
    let mut names: Vec<String> = names.map(str::to_owned).collect();
    names.sort_unstable();
    names.dedup();
    names
}

/// A path is the address of a folder, which need not exist yet.
fn url_of(address: &str) -> Result<Url, String> {
    if address.contains("://") {
        return Url::parse(address).map_err(|error| error.to_string()).and_then(bare);
    }
    if address.is_empty() {
        return Err("it is empty".to_owned());
    }
    let folder = std::path::absolute(address).and_then(|folder| resolved(&folder));
    let folder = folder.map_err(|error| format!("can't read the folder: {error}"))?;
    if folder.exists() && !folder.is_dir() {
        return Err("it is not a folder".to_owned());
    }
    Url::from_directory_path(&folder).map_err(|()| "it is not an absolute path".to_owned())
}

/// Refuses parts that a client would silently ignore: objects would be elsewhere than the address says, and messages would show a login.
fn bare(url: Url) -> Result<Url, String> {
    // In these addresses the part before the account is the container.
    let has_container = matches!(url.scheme(), "az" | "abfs" | "abfss");
    if url.password().is_some() || !(url.username().is_empty() || has_container) {
        let problem = "a login must come from the environment (AWS_ACCESS_KEY_ID ...), not from an address";
        return Err(problem.to_owned());
    }
    if url.query().is_some() || url.fragment().is_some() {
        let problem = "an address has no part after ? or #; in a name, write them as %3F and %23";
        return Err(problem.to_owned());
    }
    Ok(url)
}

/// An address for messages: a login may precede its last `@`, and a token may follow `?` or `#`. A path has neither.
fn told(address: &str) -> String {
    let Some((scheme, rest)) = address.split_once("://") else { return address.to_owned() };
    let (place, behind) = rest.split_at(rest.find(['?', '#']).unwrap_or(rest.len()));
    if behind.contains('@') {
        return format!("{scheme}://...");
    }
    let place = place.rsplit_once('@').map_or_else(|| place.to_owned(), |(_, place)| format!("...@{place}"));
    let cut = behind.get(..1).map(|mark| format!("{mark}...")).unwrap_or_default();
    format!("{scheme}://{place}{cut}")
}

/// Resolves links and `..` in the existing part of a path.
fn resolved(path: &Path) -> io::Result<PathBuf> {
    match (path.canonicalize(), path.parent(), path.file_name()) {
        (Err(error), Some(parent), Some(name)) if error.kind() == io::ErrorKind::NotFound => {
            Ok(resolved(parent)?.join(name))
        }
        (found, ..) => found,
    }
}

/// The settings of the three vendors, by the names of their own tools; `object_store` uses lower case.
fn vendor_setting(name: &str, value: String) -> Option<(String, String)> {
    let known = ["AWS_", "GOOGLE_", "AZURE_"].iter().any(|vendor| name.starts_with(vendor));
    (known && !value.is_empty()).then(|| (name.to_ascii_lowercase(), value))
}

/// An error with its causes, each once.
fn words(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let more = error.to_string();
        if !text.contains(&more) {
            text.push_str(": ");
            text.push_str(&more);
        }
        cause = error.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn a_folder_keeps_what_is_put() {
        let folder = tempfile::tempdir().unwrap();
        let place = folder.path().join("deep/er");
        let store = Store::open(place.to_str().unwrap()).unwrap();
        assert_eq!(store.names().unwrap(), Vec::<String>::new());
        assert_eq!(store.folder("x").unwrap().folders().unwrap(), Vec::<String>::new());
        assert_eq!(store.get("a.json").unwrap(), None);
        assert!(!folder.path().join("deep").exists(), "a look makes nothing");
        store.put("b.json", b"two".to_vec()).unwrap();
        store.put("a.json", b"one".to_vec()).unwrap();
        store.put("a.json", b"one again".to_vec()).unwrap();
        assert_eq!(store.names().unwrap(), ["a.json", "b.json"]);
        assert_eq!(store.get("a.json").unwrap().unwrap(), b"one again");
        assert_eq!(std::fs::read(place.join("b.json")).unwrap(), b"two", "a folder is a folder");
    }

    #[test]
    fn what_was_written_since_is_not_written_over() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(folder.path().join("new").to_str().unwrap()).unwrap();
        assert!(store.put_over("a", None, b"1".to_vec()).unwrap());
        assert!(!store.put_over("a", None, b"2".to_vec()).unwrap(), "another writer was first");
        let seen = store.look("a").unwrap().unwrap();
        store.put("a", b"3".to_vec()).unwrap();
        assert!(!store.put_over("a", Some(&seen), b"4".to_vec()).unwrap());
        let seen = store.look("a").unwrap().unwrap();
        assert_eq!(seen.bytes, b"3");
        assert!(store.put_over("a", Some(&seen), b"5".to_vec()).unwrap());
        assert_eq!(store.get("a").unwrap().unwrap(), b"5");
        assert_eq!(store.names().unwrap(), ["a"], "its lock is no object");
    }

    /// Each adds its lines to what is there; with a plain put most of them would be gone.
    #[test]
    fn nothing_is_lost_when_many_write_at_once() {
        const WRITERS: usize = 4;
        const LINES: usize = 25;
        let folder = tempfile::tempdir().unwrap();
        let add = &|line: String| {
            let store = Store::open(folder.path().to_str().unwrap()).unwrap();
            loop {
                let seen = store.look("log").unwrap();
                let mut text = seen.as_ref().map(|found| found.bytes.clone()).unwrap_or_default();
                text.extend(line.bytes());
                if store.put_over("log", seen.as_ref(), text).unwrap() {
                    return;
                }
            }
        };
        std::thread::scope(|scope| {
            for writer in 0..WRITERS {
                scope.spawn(move || (0..LINES).for_each(|line| add(format!("{writer}.{line}\n"))));
            }
        });
        let text = std::fs::read_to_string(folder.path().join("log")).unwrap();
        let lines: std::collections::BTreeSet<&str> = text.lines().collect();
        assert_eq!((lines.len(), text.lines().count()), (WRITERS * LINES, WRITERS * LINES));
    }

    /// Nothing but the store itself says whether it waits for the disk.
    #[test]
    fn what_a_folder_has_answered_outlives_the_power() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(folder.path().to_str().unwrap()).unwrap();
        for client in [&store.objects, &store.patient] {
            assert!(format!("{client:?}").contains("fsync: true"), "{client:?}");
        }
    }

    #[test]
    fn a_large_object_has_the_time_that_it_takes() {
        assert_eq!(limit_of(0), ANSWER_LIMIT);
        assert_eq!(limit_of(LARGEST_OBJECT_BYTES).as_secs(), 60 + (1 << 30) / (512 << 10));
        assert_eq!(limit_of(u64::MAX), limit_of(LARGEST_OBJECT_BYTES));
        let settings = [("AWS_REGION", "eu"), ("AWS_ACCESS_KEY_ID", "a"), ("AWS_SECRET_ACCESS_KEY", "b")];
        let settings = settings.map(|(name, value)| (name.to_owned(), value.to_owned()));
        let store = Store::open_with("s3://bucket/x", settings).unwrap();
        let (usual, patient) = (store.client_for(SMALL_BYTES), store.client_for(SMALL_BYTES + 1));
        assert!(Arc::ptr_eq(usual, &store.objects) && Arc::ptr_eq(patient, &store.patient));
        let limit = format!("{}s", limit_of(LARGEST_OBJECT_BYTES).as_secs());
        assert!(format!("{patient:?}").contains(&limit), "{patient:?}");
        assert!(!format!("{usual:?}").contains(&limit), "{usual:?}");
    }

    #[test]
    fn places_are_inside_of_places() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(folder.path().to_str().unwrap()).unwrap();
        assert_eq!(store.folders().unwrap(), Vec::<String>::new());
        let inner = store.folder("inner").unwrap();
        assert_eq!((inner.names().unwrap(), inner.folders().unwrap()), (Vec::new(), Vec::new()));
        inner.put("a", b"1".to_vec()).unwrap();
        store.put("b", Vec::new()).unwrap();
        assert_eq!(
            (store.names().unwrap(), store.folders().unwrap()),
            (vec!["b".into()], vec!["inner".into()])
        );
        assert_eq!(inner.get("a").unwrap().unwrap(), b"1");
        assert!(inner.address().ends_with("/inner") && store.folder("../out").is_err());
    }

    #[test]
    fn what_is_no_place_is_refused_by_name() {
        for (address, expected) in [
            ("", "it is empty"),
            ("ftp://x/y", "invalid store `ftp://x/y`"),
            ("s3:///", "invalid store `s3:///`"),
        ] {
            let message = Store::open_with(address, []).unwrap_err().to_string();
            assert!(message.contains(expected), "{address}: {message}");
        }
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        std::fs::write(&file, "").unwrap();
        for address in [file.clone(), file.join("below"), folder.path().join("none/../x")] {
            let message = Store::open(address.to_str().unwrap()).unwrap_err().to_string();
            assert!(message.contains("folder") && message.contains("next: use a folder"), "{message}");
        }
        let azure = Store::open_with("az://container/x", []).unwrap_err().to_string();
        assert!(azure.contains("AZURE_STORAGE_ACCOUNT_NAME is not set"), "{azure}");
        let store = Store::open(folder.path().to_str().unwrap()).unwrap();
        for name in ["", "../out", "a/b", ".hidden"] {
            assert!(store.put(name, Vec::new()).is_err(), "{name}");
        }
    }

    #[test]
    fn an_address_holds_a_place_and_nothing_else() {
        for (address, told) in [
            ("s3://AKIA:secret@bucket/x", "`s3://...@bucket/x`"),
            ("s3://AKIA:sec/ret@bucket/x", "`s3://...@bucket/x`"),
            ("s3://AKIA@bucket/x", "`s3://...@bucket/x`"),
            ("s3://AKIA:sec?ret@bucket/x", "`s3://...`"),
            ("az://container:secret@account/x", "`az://...@account/x`"),
            ("https://a.blob.core.windows.net/c?sig=secret", "`https://a.blob.core.windows.net/c?...`"),
            ("s3://bucket/team#secret", "`s3://bucket/team#...`"),
            ("file:///data/a#secret", "`file:///data/a#...`"),
        ] {
            for message in [
                Store::open_with(address, []).unwrap_err().to_string(),
                check_address(address).unwrap_err().to_string(),
            ] {
                assert!(message.contains(told), "{message}");
                assert!(!["AKIA", "sec", "ret@"].iter().any(|hidden| message.contains(hidden)), "{message}");
            }
        }
        for address in ["s3://bucket/team%231", "az://container@account/x", "/data/a#b?c@d"] {
            check_address(address).unwrap();
        }
        let settings = [("AWS_REGION", "eu"), ("AWS_ACCESS_KEY_ID", "a"), ("AWS_SECRET_ACCESS_KEY", "b")];
        let settings = settings.map(|(name, value)| (name.to_owned(), value.to_owned()));
        let store = Store::open_with("s3://bucket/team%231", settings).unwrap();
        assert_eq!(store.prefix.to_string(), "team#1");
    }

    /// Three pages, which together take longer than one may.
    #[test]
    fn a_page_of_a_list_has_the_time_that_one_may_take() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let endpoint = format!("http://{}", listener.local_addr().unwrap());
        let server = std::thread::spawn(move || {
            ["a", "b", "c"].map(|name| {
                let (mut socket, _) = listener.accept().unwrap();
                let mut asked = vec![0; 16 << 10];
                let length = socket.read(&mut asked).unwrap();
                std::thread::sleep(Duration::from_millis(1_200));
                let next = "<NextContinuationToken>more</NextContinuationToken>";
                let more = if name == "c" { "" } else { next };
                let body = format!(
                    "<ListBucketResult>{more}<Contents><Key>x/{name}</Key><LastModified>2026-11-26T00:00:00.000Z</LastModified>\
                     <Size>1</Size></Contents><CommonPrefixes><Prefix>x/of-{name}/</Prefix></CommonPrefixes></ListBucketResult>"
                );
                let head = format!("HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: {}", body.len());
                socket.write_all(format!("{head}\r\n\r\n{body}").as_bytes()).unwrap();
                String::from_utf8_lossy(&asked[..length]).lines().next().unwrap_or_default().to_owned()
            })
        });
        let settings = [
            ("AWS_ENDPOINT_URL", endpoint.as_str()),
            ("AWS_ALLOW_HTTP", "true"),
            ("AWS_REGION", "eu"),
            ("AWS_ACCESS_KEY_ID", "a"),
            ("AWS_SECRET_ACCESS_KEY", "b"),
        ];
        let settings = settings.map(|(name, value)| (name.to_owned(), value.to_owned()));
        let store = Store::open_with("s3://bucket/x", settings).unwrap();
        let listed = store.list(Duration::from_secs(3)).unwrap();
        assert_eq!(last_parts(&listed.objects), ["a", "b", "c"]);
        assert_eq!(last_parts(&listed.folders), ["of-a", "of-b", "of-c"]);
        let asked = server.join().unwrap();
        assert!(asked.iter().all(|line| line.contains("prefix=x%2F")), "{asked:?}");
        assert!(!asked[0].contains("continuation-token"), "{asked:?}");
        assert!(asked[1..].iter().all(|line| line.contains("continuation-token=more")), "{asked:?}");
    }

    #[test]
    fn a_place_called_latest_is_no_question_for_who_asks() {
        let error = |problem: &str| {
            let source = io::Error::other(problem.to_owned());
            object_store::Error::Generic { store: "S3", source: source.into() }
        };
        let next = |problem: &str| next_after(&error(problem), problem, false);
        let refused = "GET http://s3.example/runs/latest/a.json: 403 Forbidden";
        assert_eq!(next(refused), LOOK_AT_RIGHTS);
        let nobody = "error sending request for url (http://169.254.169.254/latest/api/token)";
        assert!(next(nobody).starts_with("set AWS_ACCESS_KEY_ID"), "{}", next(nobody));
        let nobody = nobody.replace("api/token", "meta-data/iam/security-credentials/");
        assert!(next(&nobody).starts_with("set AWS_ACCESS_KEY_ID"), "{}", next(&nobody));
    }

    #[test]
    fn only_the_vendors_settings_are_taken() {
        assert_eq!(
            vendor_setting("AWS_REGION", "eu".to_owned()),
            Some(("aws_region".to_owned(), "eu".to_owned()))
        );
        assert_eq!(vendor_setting("AWS_REGION", String::new()), None);
        assert_eq!(vendor_setting("HOME", "x".to_owned()), None);
    }
}
