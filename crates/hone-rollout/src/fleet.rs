//! Profiles of many hosts in one store, a folder or an object store. There is one folder per build-id, and in it one object per
//! profile. Its name consists of the time of the push, the host, and the hash of its contents.
//!
//! A profile's companions (its lock, and a note for BOLT) are written first, so that a listed profile is complete. No object is
//! ever replaced: the same profile of the same host exists already.

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};
use hone_binary::bolt::Origin;
use hone_binary::lock::{Lock, LockedProfile, LockedProgram, LockedTraining, sha256_of};
use hone_binary::profile_store::StoredFormat;
use hone_store::{LARGEST_OBJECT_BYTES, Store};
use serde::Serialize;

use hone_experiment::ending::Usage;
use hone_experiment::moment::now_unix_ms;
use hone_experiment::whole::{not_interrupted, write_whole};

/// Digits of a profile's SHA-256 in its name: two profiles share them with a probability of one in four thousand million.
const SHORT: usize = 16;
/// A build-id has 20 bytes; Go's own one has about 80 characters.
const LONGEST_BUILD_ID: usize = 128;
/// The limit of DNS.
const LONGEST_HOST: usize = 253;
/// The fewest characters that identify a build-id.
const FEWEST_OF_BUILD_ID: usize = 4;
/// Digits of the shortest build-id that a linker creates by itself.
const SHORTEST_OF_A_LINKER: usize = 16;

/// A merge accepts a wider range of weights, since a host's share is divided among its profiles.
const LIGHTEST_HOST: f64 = 0.001;
const HEAVIEST_HOST: f64 = 1_000.0;
/// The range of shares in a merge.
const SMALLEST_SHARE: f64 = 1e-6;
const LARGEST_SHARE: f64 = 1e6;

const LOCK: &str = "lock";
const NOTE: &str = "origin.json";

/// A profile in its store.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Kept {
    /// The time of its push, by the clock of its host.
    pub(crate) pushed_unix_ms: u64,
    /// The host that pushed it.
    pub host: String,
    /// The first digits of its SHA-256.
    pub sha256: String,
    /// The format of the profile.
    pub kind: KindName,
}

/// [`StoredFormat`], ordered by its name.
pub(crate) type KindName = &'static str;

/// The contents of the store for one build.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Build {
    /// The build-id of the program.
    pub build_id: String,
    pub(crate) kinds: Vec<KindName>,
    /// Number of hosts that pushed profiles.
    pub hosts: u64,
    /// Number of profiles.
    pub profiles: u64,
    pub(crate) first_unix_ms: u64,
    pub(crate) last_unix_ms: u64,
    /// Objects that belong to no profile.
    pub foreign: u64,
}

/// The result of pushing one profile.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Pushed {
    /// The file on this disk.
    pub file: PathBuf,
    /// The build-id of the program.
    pub build_id: String,
    /// The object's name.
    pub name: String,
    pub(crate) bytes: u64,
    /// Whether the host had pushed it before.
    pub was_there: bool,
}

/// A profile that was pulled from its store.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Fetched {
    /// The object's name.
    pub name: String,
    /// The host that pushed it.
    pub host: String,
    /// The file on this disk.
    pub file: PathBuf,
    /// Sum of its counters, from its lock.
    pub(crate) total_count: u64,
    /// Whether the same file existed before.
    pub was_there: bool,
}

/// Selects profiles of a store.
#[derive(Debug, Clone, Default)]
pub struct Choice {
    /// The complete build-id, or its start.
    pub build_id: String,
    /// Only this number of the newest profiles per host.
    pub last: Option<usize>,
    /// The format of the profile.
    pub kind: Option<StoredFormat>,
}

/// The store.
#[derive(Debug)]
pub struct Depot {
    store: Store,
}

impl Kept {
    fn new(host: &str, sha256: &str, kind: StoredFormat) -> Self {
        let sha256 = sha256.chars().take(SHORT).collect();
        Self { pushed_unix_ms: now_unix_ms(), host: host.to_owned(), sha256, kind: kind.name() }
    }

    /// The object's name.
    pub fn name(&self) -> String {
        format!("{:013}_{}_{}.{}", self.pushed_unix_ms, self.host, self.sha256, self.kind)
    }

    /// `None` if the name is not that of a profile.
    pub fn parse(name: &str) -> Option<Self> {
        let (stem, ending) = name.rsplit_once('.')?;
        let kind = [StoredFormat::Profdata, StoredFormat::Fdata, StoredFormat::Pprof]
            .into_iter()
            .find(|kind| kind.name() == ending)?;
        let (at, rest) = stem.split_once('_')?;
        let (host, sha256) = rest.rsplit_once('_')?;
        let is_hex = sha256.len() == SHORT && sha256.bytes().all(|byte| byte.is_ascii_hexdigit());
        let is_time = at.len() == 13 && at.bytes().all(|byte| byte.is_ascii_digit());
        if !is_hex || !is_time || checked_host(host).is_err() {
            return None;
        }
        let (host, sha256) = (host.to_owned(), sha256.to_owned());
        Some(Self { pushed_unix_ms: at.parse().ok()?, host, sha256, kind: kind.name() })
    }

    fn is_same_profile(&self, other: &Self) -> bool {
        (&self.host, &self.sha256, self.kind) == (&other.host, &other.sha256, other.kind)
    }
}

/// Checks a host's name for the name of an object.
fn checked_host(host: &str) -> Result<String> {
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '.';
    if host.is_empty() || host.len() > LONGEST_HOST || host.starts_with('.') || !host.chars().all(plain) {
        bail!("invalid host name `{host}`: use letters, digits, dots and dashes, and no dot at the start");
    }
    Ok(host.to_owned())
}

/// The named host, or this machine.
pub fn host_of(named: Option<&str>) -> Result<String> {
    match named {
        Some(host) => checked_host(host).map_err(|error| Usage(error.to_string()).into()),
        None => own_host(),
    }
}

/// This machine's name.
fn own_host() -> Result<String> {
    let name = fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let name = name.trim().replace('_', "-");
    checked_host(&name).context("this machine's name is not usable; name one with --host")
}

/// The folder name for a build-id. Go's have slashes, which become underscores; hex digits become lower case.
pub fn folder_of(build_id: &str) -> Result<String> {
    let id = build_id.trim();
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_/=+".contains(c);
    if id.is_empty() || id.len() > LONGEST_BUILD_ID || !id.chars().all(plain) {
        bail!(
            "invalid build-id `{build_id}`\n  next: `hone profile show` prints that of a profile, `readelf \
             -n` that of a program"
        );
    }
    let is_hex = id.bytes().all(|byte| byte.is_ascii_hexdigit());
    Ok(if is_hex { id.to_ascii_lowercase() } else { id.replace(['/', '+', '='], "_") })
}

/// Whether a build-id comes from a linker, and is not a name that a user chose.
fn is_of_a_linker(build_id: &str) -> bool {
    build_id.len() >= SHORTEST_OF_A_LINKER && build_id.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// The builds that a build-id, or its start, selects, as folder names. A complete one only selects itself.
fn meant<'a>(wanted: &str, all: &'a [String]) -> Vec<&'a String> {
    match all.iter().find(|id| *id == wanted) {
        Some(whole) => vec![whole],
        None => beginning_with(wanted, all),
    }
}

/// The builds that start with a text.
pub fn beginning_with<'a>(said: &str, all: &'a [String]) -> Vec<&'a String> {
    let begins = |id: &String| id.get(..said.len()).is_some_and(|begin| begin.eq_ignore_ascii_case(said));
    all.iter().filter(|id| said.len() >= FEWEST_OF_BUILD_ID && begins(id)).collect()
}

/// A companion's name.
fn beside(name: &str, ending: &str) -> String {
    format!("{name}.{ending}")
}

impl Depot {
    /// Opens a store. It sends no request yet.
    pub fn open(address: &str) -> Result<Self> {
        Ok(Self { store: Store::open(address)? })
    }

    /// The contents of the store, build by build.
    pub fn builds(&self) -> Result<Vec<Build>> {
        self.store.folders()?.into_iter().map(|build_id| self.build(build_id)).collect()
    }

    fn build(&self, build_id: String) -> Result<Build> {
        not_interrupted()?;
        let names = self.store.folder(&build_id)?.names()?;
        let kept = each_once(names.iter().filter_map(|name| Kept::parse(name)).collect());
        let is_of_one = |name: &&String| {
            let bare = [LOCK, NOTE].iter().find_map(|ending| name.strip_suffix(&format!(".{ending}")));
            Kept::parse(bare.unwrap_or(name)).is_some()
        };
        let mut hosts: Vec<&str> = kept.iter().map(|one| one.host.as_str()).collect();
        hosts.sort_unstable();
        hosts.dedup();
        let mut kinds: Vec<KindName> = kept.iter().map(|one| one.kind).collect();
        kinds.sort_unstable();
        kinds.dedup();
        Ok(Build {
            kinds,
            hosts: hosts.len() as u64,
            profiles: kept.len() as u64,
            first_unix_ms: kept.iter().map(|one| one.pushed_unix_ms).min().unwrap_or(0),
            last_unix_ms: kept.iter().map(|one| one.pushed_unix_ms).max().unwrap_or(0),
            foreign: (names.len() - names.iter().filter(is_of_one).count()) as u64,
            build_id,
        })
    }

    /// The folder for a build-id, or its start.
    fn folder(&self, build_id: &str) -> Result<(String, Store)> {
        let (wanted, all) = (folder_of(build_id)?, self.store.folders()?);
        let found = meant(&wanted, &all);
        let address = self.store.address();
        match found[..] {
            [one] => Ok((one.clone(), self.store.folder(one)?)),
            [] => bail!(
                "{address} has no profile of build {build_id}\n  next: list its contents (`hone profile list \
                 {address}`), or push one"
            ),
            _ => bail!("{} builds in {address} start with {build_id}; give more characters", found.len()),
        }
    }

    /// The build for a push: a build-id, which may be new, or the start of a linker's one in the store. A name that a user chose
    /// may be incomplete, so Hone rejects it if an existing name starts with it.
    fn whole_build_id(&self, said: &str) -> Result<String> {
        let (wanted, all) = (folder_of(said)?, self.store.folders()?);
        let begun: Vec<&String> = all.iter().filter(|id| id.starts_with(&wanted)).collect();
        match begun[..] {
            [] => Ok(said.to_owned()),
            _ if all.contains(&wanted) => Ok(said.to_owned()),
            [one] if wanted.len() >= FEWEST_OF_BUILD_ID && is_of_a_linker(one) => Ok(one.clone()),
            [first, ..] => bail!(Usage(format!(
                "{} has no build {said}, but {first} starts with it; give the complete build-id, or another \
                 name for a new build",
                self.store.address()
            ))),
        }
    }

    /// The selected profiles, oldest first, with the complete build-id.
    pub fn chosen(&self, choice: &Choice) -> Result<(String, Vec<Kept>)> {
        let (build_id, store) = self.folder(&choice.build_id)?;
        let all = store.names()?.iter().filter_map(|name| Kept::parse(name)).collect();
        let chosen = newest(all, choice);
        if chosen.is_empty() {
            bail!(
                "{} has no such profile\n  next: list its contents (`hone profile list {}`)",
                store.address(),
                self.store.address()
            );
        }
        Ok((build_id, chosen))
    }

    /// Pulls one profile into a folder, with its companions, each completely or not at all. Checks it against its name and its
    /// lock.
    pub fn fetch(&self, build_id: &str, kept: &Kept, to: &Path) -> Result<Fetched> {
        not_interrupted()?;
        let store = self.store.folder(build_id)?;
        let name = kept.name();
        let wanted = |name: &str| {
            let found = store.get(name)?;
            found.with_context(|| format!("{name} is no longer in {}", store.address()))
        };
        let file = to.join(format!("{}-{}.{}", kept.host, kept.sha256, kept.kind));
        let was_there = lies_there(&file, &kept.sha256)?;
        let contents = if was_there { None } else { Some(wanted(&name)?) };
        if let Some(contents) = &contents {
            let found = hone_binary::sha256_hex(contents);
            if !found.starts_with(&kept.sha256) {
                bail!(
                    "{name} in {} was changed after the push: its SHA-256 starts with {}",
                    store.address(),
                    &found[..SHORT]
                );
            }
        }
        let text = String::from_utf8(wanted(&beside(&name, LOCK))?).unwrap_or_default();
        let lock = Lock::parse(&text, Path::new(&beside(&name, LOCK)))?;
        let ids: Vec<String> = lock
            .programs
            .iter()
            .filter_map(|program| program.build_id.as_deref())
            .filter_map(|id| folder_of(id).ok())
            .collect();
        if !ids.is_empty() && !ids.iter().any(|id| id == build_id) {
            bail!(
                "{name} is stored under build {build_id} in {}, but its lock names {}",
                self.store.address(),
                ids.join(", ")
            );
        }
        if !lock.profile.sha256.starts_with(&kept.sha256) {
            bail!("{name} in {} has the lock of another profile", store.address());
        }
        if let Some(note) = (kept.kind == StoredFormat::Fdata.name())
            .then(|| store.get(&beside(&name, NOTE)))
            .transpose()?
            .flatten()
        {
            write_whole(&Origin::note(&file), &note)?;
        }
        if let Some(contents) = &contents {
            write_whole(&file, contents)?;
        }
        lock.write(&file)?;
        let total_count = lock.profile.total_count;
        Ok(Fetched { name, host: kept.host.clone(), file, total_count, was_there })
    }
}

/// Pushes the profiles of one host. It lists the store once per build.
#[derive(Debug)]
pub struct Pusher<'a> {
    depot: &'a Depot,
    host: &'a str,
    /// By folder: the store, and this host's profiles in it.
    there: HashMap<String, (Store, Vec<Kept>)>,
    /// By the user's build name: its build-id.
    whole: HashMap<String, String>,
}

impl<'a> Pusher<'a> {
    /// A pusher to a store, with the name of a host.
    pub fn new(depot: &'a Depot, host: &'a str) -> Self {
        Self { depot, host, there: HashMap::new(), whole: HashMap::new() }
    }

    /// The build for the user's build name. The start of an existing one does not create a new one.
    pub fn whole_build_id(&mut self, said: &str) -> Result<String> {
        if let Some(known) = self.whole.get(said) {
            return Ok(known.clone());
        }
        let whole = self.depot.whole_build_id(said)?;
        self.whole.insert(said.to_owned(), whole.clone());
        Ok(whole)
    }

    /// Pushes a profile with its lock, and a note for BOLT. A profile without a lock gets one, with the build and the host.
    pub fn push(&mut self, file: &Path, facts: LockedProfile, build_id: &str) -> Result<Pushed> {
        not_interrupted()?;
        if facts.total_count == 0 {
            bail!("{} has no counter above 0, so it is not pushed", file.display());
        }
        if facts.bytes > LARGEST_OBJECT_BYTES {
            bail!(
                "{} has {} bytes, which is more than the limit of {LARGEST_OBJECT_BYTES}",
                file.display(),
                facts.bytes
            );
        }
        let (bytes, kept) = (facts.bytes, Kept::new(self.host, &facts.sha256, facts.kind));
        let host = self.host;
        let (store, there) = self.there(&folder_of(build_id)?)?;
        let pushed = |name: String, was_there: bool| Pushed {
            file: file.to_path_buf(),
            build_id: build_id.to_owned(),
            name,
            bytes,
            was_there,
        };
        if let Some(same) = there.iter().find(|one| one.is_same_profile(&kept)) {
            return Ok(pushed(same.name(), true));
        }
        let name = kept.name();
        put_whole(store, &name, file, facts, build_id, host)?;
        there.push(kept);
        Ok(pushed(name, false))
    }

    fn there(&mut self, folder: &str) -> Result<&mut (Store, Vec<Kept>)> {
        match self.there.entry(folder.to_owned()) {
            Entry::Occupied(known) => Ok(known.into_mut()),
            Entry::Vacant(empty) => {
                let store = self.depot.store.folder(folder)?;
                let all = store.names()?;
                let kept = all.iter().filter_map(|name| Kept::parse(name));
                let own = kept.filter(|one| one.host == self.host).collect();
                Ok(empty.insert((store, own)))
            }
        }
    }
}

/// Writes the companions, then the profile.
fn put_whole(
    store: &Store,
    name: &str,
    file: &Path,
    facts: LockedProfile,
    build_id: &str,
    host: &str,
) -> Result<()> {
    let kind = facts.kind;
    let lock = match Lock::read(file)? {
        Some(lock) => lock,
        None => {
            let program = LockedProgram { build_id: Some(build_id.to_owned()), ..LockedProgram::default() };
            let load = Some(format!("the production load of {host}"));
            Lock::new(facts, vec![program], vec![LockedTraining { load, ..LockedTraining::default() }])
        }
    };
    let note = Origin::note(file);
    if kind == StoredFormat::Fdata && note.exists() {
        store.put(&beside(name, NOTE), read(&note)?)?;
    }
    store.put(&beside(name, LOCK), lock.to_text().into_bytes())?;
    let contents = read(file)?;
    if hone_binary::sha256_hex(&contents) != lock.profile.sha256 {
        bail!("{} changed during the push\n  next: push it again when no program writes it", file.display());
    }
    store.put(name, contents)?;
    Ok(())
}

/// In the order of their time, without duplicates of a host's profile; the first push stays. Two simultaneous pushes do not see
/// each other.
fn each_once(mut all: Vec<Kept>) -> Vec<Kept> {
    all.sort_unstable();
    let mut seen = HashSet::new();
    all.retain(|one| seen.insert((one.host.clone(), one.sha256.clone(), one.kind)));
    all
}

/// The newest ones of each host, in the order of their time.
fn newest(all: Vec<Kept>, choice: &Choice) -> Vec<Kept> {
    let mut by_host: BTreeMap<String, Vec<Kept>> = BTreeMap::new();
    for one in each_once(all).into_iter().filter(|one| choice.kind.is_none_or(|kind| kind.name() == one.kind))
    {
        by_host.entry(one.host.clone()).or_default().push(one);
    }
    let mut chosen: Vec<Kept> = Vec::new();
    for (_, of_host) in by_host {
        let skipped = choice.last.map_or(0, |last| of_host.len().saturating_sub(last));
        chosen.extend(of_host.into_iter().skip(skipped));
    }
    chosen.sort_unstable();
    chosen
}

/// The weight of the hosts of a pattern.
#[derive(Debug, Clone, PartialEq)]
pub struct HostWeight {
    /// A host's name, in which a star stands for any text.
    pattern: String,
    weight: f64,
}

impl HostWeight {
    /// # Errors
    /// When the text is not `PATTERN=WEIGHT`.
    pub fn parse(text: &str) -> Result<Self, String> {
        let how = "use PATTERN=WEIGHT, for example 'eu-*=3'";
        let (pattern, weight) = text.rsplit_once('=').ok_or(how)?;
        let plain = |c: char| c.is_ascii_alphanumeric() || "-.*".contains(c);
        if pattern.is_empty() || !pattern.chars().all(plain) {
            return Err(format!(
                "invalid host pattern `{pattern}`: use letters, digits, dots, dashes and *; \
                 {how}"
            ));
        }
        let weight =
            weight.parse::<f64>().ok().filter(|weight| LIGHTEST_HOST <= *weight && *weight <= HEAVIEST_HOST);
        let weight = weight.ok_or_else(|| {
            format!("invalid weight of a host: use a number from {LIGHTEST_HOST} to {HEAVIEST_HOST}; {how}")
        })?;
        Ok(Self { pattern: pattern.to_owned(), weight })
    }

    fn fits(&self, host: &str) -> bool {
        fits(self.pattern.as_bytes(), host.as_bytes())
    }

    /// The weight of each host; 1 without any weights.
    pub fn of_all<'a>(given: &[Self], hosts: impl Iterator<Item = &'a str>) -> Result<BTreeMap<String, f64>> {
        let hosts: BTreeSet<&str> = hosts.collect();
        let weight = |host: &str| match given {
            [] => Some(1.0),
            _ => given.iter().find(|one| one.fits(host)).map(|one| one.weight),
        };
        let unnamed: Vec<&str> = hosts.iter().copied().filter(|host| weight(host).is_none()).collect();
        if let Some(first) = unnamed.first() {
            bail!(
                "no --host-weight matches {} of {} hosts, for example {first}\n  next: name them, or give \
                 all others the weight 1 with a last --host-weight '*=1'",
                unnamed.len(),
                hosts.len()
            );
        }
        Ok(hosts.into_iter().filter_map(|host| Some((host.to_owned(), weight(host)?))).collect())
    }

    /// Patterns without a host, in words, since a name may be misspelled.
    pub fn idle(given: &[Self], profiles: &[Fetched]) -> Vec<String> {
        let first = |host: &str| given.iter().position(|one| one.fits(host));
        let used: BTreeSet<usize> = profiles.iter().filter_map(|one| first(&one.host)).collect();
        let idle = given.iter().enumerate().filter(|(at, _)| !used.contains(at));
        idle.map(|(_, one)| format!("no host matches --host-weight {}={}", one.pattern, one.weight)).collect()
    }
}

/// Whether a text matches a pattern.
fn fits(pattern: &[u8], text: &[u8]) -> bool {
    let (mut at, mut seen) = (0, 0);
    // Position of the last star, and the length that it covers.
    let mut star: Option<(usize, usize)> = None;
    while seen < text.len() {
        if pattern.get(at) == Some(&b'*') {
            star = Some((at, seen));
            at += 1;
        } else if pattern.get(at) == Some(&text[seen]) {
            (at, seen) = (at + 1, seen + 1);
        } else if let Some((behind, taken)) = star {
            star = Some((behind, taken + 1));
            (at, seen) = (behind + 1, taken + 1);
        } else {
            return false;
        }
    }
    pattern[at..].iter().all(|rest| *rest == b'*')
}

/// The share of each profile in the sum, so that each host has its weight. Within a host, the counters determine the shares.
///
/// # Errors
/// When a profile has no counters, or so small ones relative to the others that a merge can't use its share.
pub fn shares_of_hosts(profiles: &[Fetched], weights: &BTreeMap<String, f64>) -> Result<Vec<f64>> {
    if let Some(empty) = profiles.iter().find(|one| one.total_count == 0) {
        bail!(
            "{} of host {} has no counter above 0, so it can't have a share of the sum\n  next: remove it \
             from the store, or remove --same-for-hosts",
            empty.name,
            empty.host
        );
    }
    let mut of_host: BTreeMap<&str, f64> = BTreeMap::new();
    for one in profiles {
        *of_host.entry(&one.host).or_default() += one.total_count as f64;
    }
    let weight = |host: &str| weights.get(host).copied().unwrap_or(1.0);
    let shares = profiles
        .iter()
        .map(|one| weight(&one.host) * (one.total_count as f64 / of_host[one.host.as_str()]))
        .collect();
    as_a_merge_takes_them(shares, profiles)
}

/// Only the ratios of the shares matter, so small ones are scaled up together.
fn as_a_merge_takes_them(shares: Vec<f64>, profiles: &[Fetched]) -> Result<Vec<f64>> {
    let least = shares.iter().zip(profiles).min_by(|(one, _), (other, _)| one.total_cmp(other));
    let Some((&least, of)) = least.filter(|(share, _)| **share < SMALLEST_SHARE) else { return Ok(shares) };
    let larger = SMALLEST_SHARE / least;
    if shares.iter().any(|share| share * larger > LARGEST_SHARE) {
        bail!(
            "the share of {} of host {} is too small for a merge: {:e} of the largest\n  next: give its host \
             more weight (--host-weight), use only the newest profiles (--newest), or remove \
             --same-for-hosts",
            of.name,
            of.host,
            least / shares.iter().copied().fold(0.0, f64::max)
        );
    }
    Ok(shares.into_iter().map(|share| (share * larger).max(SMALLEST_SHARE)).collect())
}

/// Whether the same profile exists there. Another one with this name is an error.
fn lies_there(file: &Path, sha256: &str) -> Result<bool> {
    if !file.exists() {
        return Ok(false);
    }
    if sha256_of(file)?.0.starts_with(sha256) {
        return Ok(true);
    }
    bail!(
        "{} exists, but has other contents than the profile of that name\n  next: move it away, or name \
         another folder",
        file.display()
    )
}

fn read(file: &Path) -> Result<Vec<u8>> {
    fs::read(file).with_context(|| format!("{} can't be read", file.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept(at: u64, host: &str, of: char, kind: StoredFormat) -> Kept {
        Kept { pushed_unix_ms: at, ..Kept::new(host, &of.to_string().repeat(64), kind) }
    }

    #[test]
    fn names_are_read_back_and_nothing_else_is_one() {
        let one = kept(1_700_000_000_000, "node-7.eu.example", 'a', StoredFormat::Fdata);
        assert_eq!(one.name(), "1700000000000_node-7.eu.example_aaaaaaaaaaaaaaaa.fdata");
        assert_eq!(Kept::parse(&one.name()), Some(one.clone()));
        for name in [
            "",
            "x",
            "1700000000000_h_aaaaaaaaaaaaaaaa.fdata.lock",
            "1700000000000_h_aaaaaaaaaaaaaaaa.gcda",
            "1700000000000_h_aaaa.fdata",
            "170000000000_h_aaaaaaaaaaaaaaaa.fdata",
            "1700000000000_a/../b_aaaaaaaaaaaaaaaa.fdata",
            "1700000000000__aaaaaaaaaaaaaaaa.fdata",
            "17000000000é0_h_aaaaaaaaaaaaaaaa.fdata",
        ] {
            assert_eq!(Kept::parse(name), None, "{name}");
        }
    }

    #[test]
    fn build_ids_name_folders() {
        assert_eq!(folder_of("C0FFEE").unwrap(), "c0ffee");
        assert_eq!(folder_of("aB1/c-d/e_f").unwrap(), "aB1_c-d_e_f");
        for id in ["", "  ", "..", "a.b", "a b", "é", &"a".repeat(129)] {
            assert!(folder_of(id).is_err(), "{id}");
        }
        for host in ["", ".a", "a_b", "a/b", "a b"] {
            assert!(checked_host(host).is_err(), "{host}");
        }
    }

    #[test]
    fn the_beginning_of_a_build_that_is_there_makes_none_of_its_own() {
        let folder = tempfile::tempdir().unwrap();
        let depot = Depot::open(folder.path().to_str().unwrap()).unwrap();
        let [one, other] = ["c0ffee01", "c0ffee02"].map(|begin| begin.repeat(5));
        let (one, other) = (one.as_str(), other.as_str());
        for build in [one, other, "abcd", "abcdef", "release-10"] {
            depot.store.folder(build).unwrap().put("x", Vec::new()).unwrap();
        }
        for (said, expected) in [
            (one, one),
            ("c0ffee01", one),
            ("C0FFEE02", other),
            ("abcd", "abcd"),
            ("beef", "beef"),
            ("release-100", "release-100"),
        ] {
            assert_eq!(Pusher::new(&depot, "h").whole_build_id(said).unwrap(), expected, "{said}");
        }
        let refused = [("c0ffee", one), ("c0f", one), ("abcde", "abcdef"), ("release-1", "release-10")];
        for (said, begun) in refused {
            let error = depot.whole_build_id(said).unwrap_err();
            assert!(hone_experiment::usage::is_usage(&error), "{error}");
            assert!(error.to_string().contains(&format!(", but {begun} starts with it")), "{error}");
        }
    }

    /// The push times of the selected profiles.
    fn times(all: &[Kept], last: Option<usize>, kind: Option<StoredFormat>) -> Vec<u64> {
        let choice = Choice { last, kind, ..Choice::default() };
        newest(all.to_vec(), &choice).iter().map(|one| one.pushed_unix_ms).collect()
    }

    #[test]
    fn the_newest_of_each_host_are_chosen() {
        let all = vec![
            kept(3, "a", '3', StoredFormat::Fdata),
            kept(1, "a", '1', StoredFormat::Fdata),
            kept(2, "a", '2', StoredFormat::Pprof),
            kept(9, "b", '9', StoredFormat::Fdata),
        ];
        assert_eq!(times(&all, None, None), [1, 2, 3, 9]);
        assert_eq!(times(&all, Some(1), None), [3, 9]);
        assert_eq!(times(&all, Some(2), Some(StoredFormat::Fdata)), [1, 3, 9]);
        assert_eq!(times(&all, None, Some(StoredFormat::Pprof)), [2]);
    }

    /// Two simultaneous pushes of one profile: neither has seen the other's.
    #[test]
    fn a_profile_that_was_pushed_twice_counts_once() {
        let all = vec![
            kept(5, "a", '1', StoredFormat::Fdata),
            kept(4, "a", '1', StoredFormat::Fdata),
            kept(3, "a", '0', StoredFormat::Fdata),
            kept(5, "b", '1', StoredFormat::Fdata),
            kept(6, "a", '1', StoredFormat::Pprof),
        ];
        assert_eq!(times(&all, None, None), [3, 4, 5, 6]);
        assert_eq!(times(&all, Some(2), None), [4, 5, 6]);

        let folder = tempfile::tempdir().unwrap();
        let depot = Depot::open(folder.path().to_str().unwrap()).unwrap();
        let build = depot.store.folder("c0ffee").unwrap();
        all.iter().for_each(|one| build.put(&one.name(), Vec::new()).unwrap());
        assert_eq!(depot.builds().unwrap()[0].profiles, 4);
    }

    #[test]
    fn hosts_have_equal_shares() {
        let of = |host: &str, total_count| Fetched {
            name: format!("profile-{total_count}"),
            host: host.to_owned(),
            file: PathBuf::new(),
            total_count,
            was_there: false,
        };
        let profiles = [of("a", 30), of("a", 10), of("b", 1_000)];
        let weights =
            |a: f64, b: f64| -> BTreeMap<String, f64> { [("a".to_owned(), a), ("b".to_owned(), b)].into() };
        assert_eq!(shares_of_hosts(&profiles, &BTreeMap::new()).unwrap(), [0.75, 0.25, 1.0]);
        assert_eq!(shares_of_hosts(&profiles, &weights(1.0, 3.0)).unwrap(), [0.75, 0.25, 3.0]);

        // Next to a long profile, a short one has a small part of its host's share, and a merge accepts none
        // below a millionth.
        let short = |count| [of("a", 1), of("a", count), of("b", 5)];
        let shares = shares_of_hosts(&short(9_999), &weights(0.001, 1.0)).unwrap();
        let near = |(found, wanted): (&f64, f64)| (found / wanted - 1.0).abs() < 1e-9;
        assert!(
            shares.iter().zip([1e-6, 9_999e-6, 10.0]).all(near),
            "as they were to each other: {shares:?}"
        );
        assert!(shares[0] >= SMALLEST_SHARE, "{shares:?}");
        let refused = shares_of_hosts(&short(10_000_000), &weights(0.001, 1_000.0)).unwrap_err().to_string();
        for wanted in ["profile-1 of host a", "too small for a merge", "--host-weight"] {
            assert!(refused.contains(wanted), "{wanted}: {refused}");
        }
        let empty = shares_of_hosts(&[of("a", 0)], &BTreeMap::new()).unwrap_err().to_string();
        assert!(empty.contains("profile-0 of host a has no counter above 0"), "{empty}");
        assert_eq!(shares_of_hosts(&[], &BTreeMap::new()).unwrap(), [0.0; 0]);
    }

    #[test]
    fn a_file_whose_name_is_as_long_as_names_can_be_is_written() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("a".repeat(255));
        write_whole(&file, b"x").unwrap();
        assert_eq!(fs::read(&file).unwrap(), b"x");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn the_first_pattern_that_fits_a_host_counts() {
        let parse = |text: &str| HostWeight::parse(text).unwrap();
        for (pattern, fit, unfit) in [
            ("a", "a", "ab"),
            ("*", "anything.at-all", ""),
            ("eu-*", "eu-", "us-eu-1"),
            ("*-db-*.eu", "x-db-db-7.eu", "x-db.eu"),
            ("a*b*c", "aXbbYc", "aXbbYcd"),
        ] {
            assert!(parse(&format!("{pattern}=1")).fits(fit), "{pattern} {fit}");
            assert!(unfit.is_empty() || !parse(&format!("{pattern}=1")).fits(unfit), "{pattern} {unfit}");
        }
        let given = [parse("eu-1=5"), parse("eu-*=3"), parse("*=0.5")];
        let found = HostWeight::of_all(&given, ["eu-2", "us", "eu-1", "us"].into_iter()).unwrap();
        let expected = [("eu-1", 5.0), ("eu-2", 3.0), ("us", 0.5)];
        assert_eq!(found, expected.map(|(host, weight)| (host.to_owned(), weight)).into());
        let error = HostWeight::of_all(&given[..2], ["us", "eu-2"].into_iter()).unwrap_err().to_string();
        assert!(error.contains("matches 1 of 2 hosts, for example us") && error.contains("'*=1'"), "{error}");
        assert_eq!(HostWeight::of_all(&[], ["us"].into_iter()).unwrap()["us"], 1.0);
        for wrong in ["", "a", "=1", "a b=1", "a=", "a=x", "a=0", "a=-1", "a=inf", "a=nan", "a=1e9", "a/b=1"]
        {
            assert!(HostWeight::parse(wrong).is_err(), "{wrong}");
        }
    }
}
