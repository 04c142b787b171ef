//! `PROFILE.lock`: the identity of a profile, the build that it was taken from, and how. It is next to the profile, for example in version
//! control, because no profile format contains this information.
//!
//! The text is canonical: the same lock gives the same bytes, so a difference between two locks is a difference in fact. Reading compares
//! the lock with the profile next to it.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use hone_record::{Machine, ToolReceipt};
use hone_tool::{Call, Runner, Tool};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::bolt::preflight;
use crate::profile_store::format::StoredFormat;

/// The version that Hone writes, and the only one that it reads.
pub const LOCK_VERSION: u32 = 1;

/// A lock of a thousand trainings has some 500 kB.
const MOST_BYTES: u64 = 4 << 20;

/// A merge of a fleet lists this many trainings separately, and combines the others.
const MOST_TRAININGS: usize = 1_000;

/// Weights outside this range are mistakes. A repeatedly merged training with a smaller share each time gets far below what one merge
/// accepts.
const WEIGHTS: std::ops::RangeInclusive<f64> = 1e-100..=1e100;

/// The fault of a lock, or of the profile next to it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LockFault {
    /// The lock or its profile can't be read or written.
    #[error("{}: {reason}\n  next: check the path, its permissions and the free space", file.display())]
    Unreadable {
        /// The file.
        file: PathBuf,
        /// What the system said.
        reason: String,
    },
    /// The lock is invalid.
    #[error(
        "the lock {} is not valid: {reason}\n  next: restore it from version control, or remove it and \
         merge the profile again", file.display()
    )]
    NotUnderstood {
        /// The lock.
        file: PathBuf,
        /// The fault, with its line.
        reason: String,
    },
    /// A lock that no reader would accept.
    #[error("the lock {} can't be written: {reason}\n  next: merge the trainings themselves, not profiles \
        merged from them", file.display())]
    NotWritable {
        /// The lock.
        file: PathBuf,
        /// What is wrong.
        reason: String,
    },
    /// The lock has another version.
    #[error(
        "the lock {} has version {found}, but this Hone reads version {LOCK_VERSION}\n  next: use the Hone \
         that wrote it, or a newer one",
        file.display()
    )]
    OtherVersion {
        /// The lock.
        file: PathBuf,
        /// Its version.
        found: u64,
    },
    /// The profile next to the lock is not the one that was locked.
    #[error(
        "{} is not the profile that its lock describes: its SHA-256 is {found}, the lock has {expected}\n  \
         next: restore both from version control and commit both together, or remove the lock if you know \
         where the profile comes from",
        profile.display()
    )]
    OtherContents {
        /// The profile.
        profile: PathBuf,
        /// Hash in the lock.
        expected: String,
        /// Hash of the file.
        found: String,
    },
}

/// All known facts of a stored profile.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Lock {
    /// [`LOCK_VERSION`].
    pub hone_profile_lock: u32,
    /// The profile itself.
    pub profile: LockedProfile,
    /// The builds that it was taken from: one, unless the user merged profiles of several; none if unknown.
    pub programs: Vec<LockedProgram>,
    /// Its trainings.
    pub trainings: Vec<LockedTraining>,
}

/// Facts that the profile itself contains.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LockedProfile {
    /// Its form.
    pub kind: StoredFormat,
    /// SHA-256 of the file, hex.
    pub sha256: String,
    /// Size of the file.
    pub bytes: u64,
    /// `IR`, `CSIR`, `Front-end`; `branches`, `samples EVENT`; `cpu`, `alloc_space`.
    pub level: String,
    /// Functions in it.
    pub functions: u64,
    /// Sum of all counts, in the profile's own unit.
    pub total_count: u64,
    /// The largest count.
    pub max_count: u64,
}

/// A state of the source.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Commit {
    /// Its hash, hex.
    pub id: String,
    /// Whether files under version control had uncommitted changes.
    pub changed: bool,
}

/// The trained build.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LockedProgram {
    /// File name of the program.
    pub name: String,
    /// SHA-256 of the instrumented program, hex; empty if only the build-id is known.
    pub sha256: String,
    /// Its build-id, hex.
    pub build_id: Option<String>,
    /// The source of the build.
    pub commit: Option<Commit>,
    /// How it was built: commands or flags.
    pub build: Vec<String>,
    /// Compiler and tools.
    pub tools: Vec<LockedTool>,
}

/// A tool, without its path on one machine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LockedTool {
    /// Plain name.
    pub name: String,
    /// First line of its version output.
    pub version: String,
}

impl From<&ToolReceipt> for LockedTool {
    fn from(receipt: &ToolReceipt) -> Self {
        Self { name: receipt.name.clone(), version: receipt.version.clone() }
    }
}

/// One training.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LockedTraining {
    /// Name of the workload; `None` for a profile that came without a lock.
    pub workload: Option<String>,
    /// The load in words, or its command.
    pub load: Option<String>,
    /// Its seed.
    pub seed: Option<u64>,
    /// The product of its weights in all merges; kept to twelve digits.
    #[serde(deserialize_with = "weight")]
    pub weight: f64,
    /// Raw files that it left.
    pub raw_files: u32,
    /// Their size together.
    pub raw_bytes: u64,
    /// SHA-256 of its profile when it was merged as a file, hex.
    pub sha256: Option<String>,
    /// The machine that it ran on.
    pub machine: Option<LockedMachine>,
}

/// Properties of a machine that can affect a profile.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LockedMachine {
    /// CPU model.
    pub cpu_model: String,
    /// Cores online.
    pub cores: u32,
    /// Kernel release.
    pub kernel: String,
    /// Distribution.
    pub os: String,
}

impl From<&Machine> for LockedMachine {
    fn from(machine: &Machine) -> Self {
        Self {
            cpu_model: machine.cpu_model.clone(),
            cores: machine.cores,
            kernel: machine.kernel.clone(),
            os: machine.os.clone(),
        }
    }
}

impl LockedProgram {
    /// The trained program. `build` is how it was built: commands or flags.
    ///
    /// # Errors
    /// [`LockFault::Unreadable`]. A file that is not a program has no build-id.
    pub fn from_executable(
        executable: &Path,
        commit: Option<Commit>,
        build: Vec<String>,
        tools: &[ToolReceipt],
    ) -> Result<Self, LockFault> {
        let (sha256, _) = sha256_of(executable)?;
        let build_id = preflight::anatomy(executable).ok().and_then(|anatomy| anatomy.build_id);
        let name = executable.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let tools = tools.iter().map(LockedTool::from).collect();
        Ok(Self { name, sha256, build_id, commit, build, tools })
    }
}

impl Lock {
    /// A lock of this version.
    pub fn new(profile: LockedProfile, programs: Vec<LockedProgram>, trainings: Vec<LockedTraining>) -> Self {
        let rounded = |training: LockedTraining| {
            let weight = twelve_digits(training.weight);
            LockedTraining { weight, ..training }
        };
        let trainings = trainings.into_iter().map(rounded).collect();
        Self { hone_profile_lock: LOCK_VERSION, profile, programs, trainings }
    }

    /// The path of a profile's lock: the profile's name with `.lock` appended.
    pub fn path(profile: &Path) -> PathBuf {
        let mut name: OsString = profile.as_os_str().to_owned();
        name.push(".lock");
        PathBuf::from(name)
    }

    /// The canonical text.
    pub fn to_text(&self) -> String {
        // There are no maps, and all keys are texts: nothing in it can fail.
        serde_json::to_string_pretty(self).unwrap_or_default() + "\n"
    }

    /// Reads a text. `file` is for the errors.
    ///
    /// # Errors
    /// [`LockFault::OtherVersion`] and [`LockFault::NotUnderstood`].
    pub fn parse(text: &str, file: &Path) -> Result<Self, LockFault> {
        #[derive(Deserialize)]
        struct Head {
            hone_profile_lock: u64,
        }
        let wrong = |reason: String| LockFault::NotUnderstood { file: file.to_path_buf(), reason };
        let head: Head = serde_json::from_str(text).map_err(|error| wrong(error.to_string()))?;
        if head.hone_profile_lock != u64::from(LOCK_VERSION) {
            return Err(LockFault::OtherVersion { file: file.to_path_buf(), found: head.hone_profile_lock });
        }
        let lock: Self = serde_json::from_str(text).map_err(|error| wrong(error.to_string()))?;
        lock.check().map_err(wrong)?;
        Ok(lock)
    }

    /// Refuses contents that a reader would refuse.
    pub(crate) fn writable(&self, profile: &Path) -> Result<(), LockFault> {
        self.check().map_err(|reason| LockFault::NotWritable { file: Self::path(profile), reason })
    }

    fn check(&self) -> Result<(), String> {
        let programs = self.programs.iter().map(|program| &program.sha256).filter(|hash| !hash.is_empty());
        let trainings = self.trainings.iter().filter_map(|training| training.sha256.as_ref());
        let mut hashes = std::iter::once(&self.profile.sha256).chain(programs).chain(trainings);
        if let Some(hash) = hashes.find(|hash| !is_sha256(hash)) {
            return Err(format!(
                "`{}` is not a SHA-256 in hexadecimal",
                hash.chars().take(70).collect::<String>()
            ));
        }
        match self.trainings.iter().find(|training| !WEIGHTS.contains(&training.weight)) {
            Some(training) => Err(format!("a training has the weight {}", training.weight)),
            None => Ok(()),
        }
    }

    /// Writes the lock next to its profile, whole or not at all, and returns its path.
    ///
    /// # Errors
    /// [`LockFault::OtherContents`] if the profile there is another one, [`LockFault::NotWritable`] if no reader would accept the lock.
    pub fn write(&self, profile: &Path) -> Result<PathBuf, LockFault> {
        self.writable(profile)?;
        self.holds(profile)?;
        let path = Self::path(profile);
        let part = path.with_extension(format!("lock.{}.part", std::process::id()));
        let written = File::create(&part)
            .and_then(|mut file| file.write_all(self.to_text().as_bytes()).and_then(|()| file.sync_all()))
            .and_then(|()| fs::rename(&part, &path));
        written.map_err(|error| {
            let _ = fs::remove_file(&part);
            unreadable(&path, &error)
        })?;
        Ok(path)
    }

    /// Reads the lock of a profile and compares it with the profile; `None` if there is none.
    ///
    /// # Errors
    /// [`LockFault`].
    pub fn read(profile: &Path) -> Result<Option<Self>, LockFault> {
        let path = Self::path(profile);
        let mut bytes = Vec::new();
        let read = File::open(&path).and_then(|file| file.take(MOST_BYTES + 1).read_to_end(&mut bytes));
        match read {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(unreadable(&path, &error)),
            Ok(_) => {}
        }
        let wrong = |reason: String| LockFault::NotUnderstood { file: path.clone(), reason };
        if bytes.len() as u64 > MOST_BYTES {
            return Err(wrong(format!("it has more than {MOST_BYTES} bytes")));
        }
        let text = String::from_utf8(bytes).map_err(|error| wrong(error.to_string()))?;
        let lock = Self::parse(&text, &path)?;
        lock.holds(profile)?;
        Ok(Some(lock))
    }

    fn holds(&self, profile: &Path) -> Result<(), LockFault> {
        let (found, _) = sha256_of(profile)?;
        if found == self.profile.sha256 {
            return Ok(());
        }
        let expected = self.profile.sha256.clone();
        Err(LockFault::OtherContents { profile: profile.to_path_buf(), expected, found })
    }

    /// The lock of a merged profile. Each input has its hash, its weight in this merge, and its lock if it has one.
    pub fn merged(profile: LockedProfile, inputs: &[(Option<Self>, String, f64)]) -> Self {
        let (mut programs, mut trainings): (Vec<LockedProgram>, Vec<LockedTraining>) =
            (Vec::new(), Vec::new());
        for (lock, sha256, weight) in inputs {
            let Some(lock) = lock else {
                let (weight, sha256) = (*weight, Some(sha256.clone()));
                trainings.push(LockedTraining { weight, sha256, ..LockedTraining::default() });
                continue;
            };
            for program in &lock.programs {
                if !programs.contains(program) {
                    programs.push(program.clone());
                }
            }
            // An input of several merges appears once, with all weights multiplied.
            let sole = lock.trainings.len() == 1;
            trainings.extend(lock.trainings.iter().map(|training| LockedTraining {
                weight: training.weight * weight,
                sha256: training.sha256.clone().or_else(|| sole.then(|| sha256.clone())),
                ..training.clone()
            }));
        }
        Self::new(profile, programs, together(trainings))
    }
}

/// Trainings beyond the limit of a lock are combined into one, with the sum of their weights and files.
fn together(mut trainings: Vec<LockedTraining>) -> Vec<LockedTraining> {
    if trainings.len() <= MOST_TRAININGS {
        return trainings;
    }
    let rest = trainings.split_off(MOST_TRAININGS - 1);
    trainings.push(LockedTraining {
        workload: Some("more trainings, combined".to_owned()),
        weight: rest.iter().map(|training| training.weight).sum(),
        raw_files: rest.iter().fold(0, |sum, training| sum.saturating_add(training.raw_files)),
        raw_bytes: rest.iter().fold(0, |sum, training| sum.saturating_add(training.raw_bytes)),
        ..LockedTraining::default()
    });
    trainings
}

impl LockedTraining {
    /// A training with a workload, whose raw profiles are in `raw`: a folder, or the one file. `load` is the load in words.
    ///
    /// # Errors
    /// [`LockFault::Unreadable`].
    pub fn from_raw(
        workload: &str,
        load: String,
        seed: u64,
        weight: f64,
        raw: &Path,
        machine: &Machine,
    ) -> Result<Self, LockFault> {
        let (raw_files, raw_bytes) = raw_of(raw).map_err(|error| unreadable(raw, &error))?;
        Ok(Self {
            workload: Some(workload.to_owned()),
            load: Some(load),
            seed: Some(seed),
            weight,
            raw_files,
            raw_bytes,
            sha256: None,
            machine: Some(LockedMachine::from(machine)),
        })
    }
}

/// Files in a folder, and their total size, without the notes next to profiles.
fn raw_of(raw: &Path) -> io::Result<(u32, u64)> {
    let whole = raw.metadata()?;
    if whole.is_file() {
        return Ok((1, whole.len()));
    }
    let (mut files, mut bytes) = (0, 0);
    for entry in fs::read_dir(raw)? {
        let entry = entry?;
        let facts = entry.metadata()?;
        if facts.is_file() && entry.path().extension().is_none_or(|ending| ending != "json") {
            files += 1;
            bytes += facts.len();
        }
    }
    Ok((files, bytes))
}

impl Default for LockedTraining {
    /// A training without known facts, with the weight 1.
    fn default() -> Self {
        Self {
            workload: None,
            load: None,
            seed: None,
            weight: 1.0,
            raw_files: 0,
            raw_bytes: 0,
            sha256: None,
            machine: None,
        }
    }
}

/// The last digits of a number can change in text, and the text would then not be canonical.
fn twelve_digits(weight: f64) -> f64 {
    format!("{weight:.11e}").parse().unwrap_or(weight)
}

fn weight<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<f64, D::Error> {
    f64::deserialize(deserializer).map(twelve_digits)
}

fn is_sha256(text: &str) -> bool {
    text.len() == 64 && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

fn unreadable(file: &Path, error: &io::Error) -> LockFault {
    LockFault::Unreadable { file: file.to_path_buf(), reason: error.to_string() }
}

/// SHA-256 of a file, hex, and its size. It is streamed.
///
/// # Errors
/// [`LockFault::Unreadable`].
pub fn sha256_of(file: &Path) -> Result<(String, u64), LockFault> {
    let mut hasher = Sha256::new();
    let mut chunk = [0; 64 << 10];
    let mut bytes = 0_u64;
    let mut opened = File::open(file).map_err(|error| unreadable(file, &error))?;
    loop {
        let read = opened.read(&mut chunk).map_err(|error| unreadable(file, &error))?;
        if read == 0 {
            break;
        }
        hasher.update(&chunk[..read]);
        bytes += read as u64;
    }
    Ok((hasher.finalize().iter().map(|byte| format!("{byte:02x}")).collect(), bytes))
}

/// The state of the source in a folder; `None` if nothing in it is under git, or if git is missing: a lock then has no commit.
pub fn commit_of(runner: &dyn Runner, folder: &Path) -> Option<Commit> {
    let git = Tool::new("git", "HONE_GIT").debian("git").locate(&[]).ok()?;
    let ask = |step: &str, args: &[&str]| {
        let call = Call::new(step, git.path(), folder).args(args.iter().copied());
        runner.run(&call).ok()?.stdout_text().ok()
    };
    let id = ask("ask-commit", &["rev-parse", "--verify", "HEAD"])?.trim().to_owned();
    if id.is_empty() || !id.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return None;
    }
    // Fetched sources inside a repository do not belong to it, so its commit says nothing about them.
    ask("ask-tracked", &["ls-files", "--error-unmatch", "--", "."])?;
    let changes = ask("ask-changes", &["status", "--porcelain", "--untracked-files=no"])?;
    Some(Commit { id, changed: !changes.trim().is_empty() })
}

#[cfg(test)]
mod tests {
    use hone_tool::System;
    use proptest::prelude::*;

    use super::*;

    fn profile_of(bytes: &[u8]) -> LockedProfile {
        LockedProfile {
            kind: StoredFormat::Fdata,
            sha256: crate::elf::sha256_hex(bytes),
            bytes: bytes.len() as u64,
            level: "branches".to_owned(),
            functions: 3,
            total_count: u64::MAX,
            max_count: 7,
        }
    }

    fn program(name: &str) -> LockedProgram {
        LockedProgram {
            name: name.to_owned(),
            sha256: "ab".repeat(32),
            build_id: Some("c0ffee".to_owned()),
            commit: Some(Commit { id: "12".repeat(20), changed: true }),
            build: vec!["-O2 -Wl,-q".to_owned()],
            tools: vec![LockedTool { name: "clang".to_owned(), version: "clang version 22.1.8".to_owned() }],
        }
    }

    fn training(workload: &str, weight: f64) -> LockedTraining {
        LockedTraining {
            workload: Some(workload.to_owned()),
            load: Some("5,000 requests/s, uniform".to_owned()),
            seed: Some(u64::MAX),
            weight,
            raw_files: 2,
            raw_bytes: 4096,
            sha256: None,
            machine: Some(LockedMachine {
                cpu_model: "a CPU".to_owned(),
                cores: 2,
                kernel: "6.1".to_owned(),
                os: "Debian 12".to_owned(),
            }),
        }
    }

    fn lock(bytes: &[u8]) -> Lock {
        Lock::new(profile_of(bytes), vec![program("server")], vec![training("train", 1.0)])
    }

    /// A profile in a folder with its lock.
    fn locked(bytes: &[u8]) -> (tempfile::TempDir, PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let profile = folder.path().join("a.fdata");
        fs::write(&profile, bytes).unwrap();
        lock(bytes).write(&profile).unwrap();
        (folder, profile)
    }

    #[test]
    fn a_lock_is_read_back_and_its_text_is_canonical() {
        let (folder, profile) = locked(b"1 a 0 1 b 0 0 1\n");
        let read = Lock::read(&profile).unwrap().unwrap();
        assert_eq!(read, lock(b"1 a 0 1 b 0 0 1\n"), "counts above what other forms hold are kept");
        let text = fs::read_to_string(folder.path().join("a.fdata.lock")).unwrap();
        assert_eq!(read.to_text(), text);
        assert!(
            text.starts_with("{\n  \"hone_profile_lock\": 1,\n  \"profile\": {\n    \"kind\": \"fdata\",\n")
        );
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2, "nothing half is left");
        assert_eq!(Lock::path(Path::new("/x/a.profdata")), Path::new("/x/a.profdata.lock"));
        fs::remove_file(Lock::path(&profile)).unwrap();
        assert_eq!(Lock::read(&profile), Ok(None));
    }

    #[test]
    fn a_profile_that_is_not_the_locked_one_is_told() {
        let (_folder, profile) = locked(b"1 a 0 1 b 0 0 1\n");
        fs::write(&profile, "1 a 0 1 b 0 0 2\n").unwrap();
        let fault = Lock::read(&profile).unwrap_err();
        assert!(matches!(&fault, LockFault::OtherContents { found, .. } if *found != fault.to_string()));
        assert!(fault.to_string().contains("a.fdata is not the profile that its lock describes"), "{fault}");
        assert!(fault.to_string().contains("next: restore both from version control"));
        assert!(matches!(lock(b"x").write(&profile), Err(LockFault::OtherContents { .. })));
        fs::remove_file(&profile).unwrap();
        assert!(matches!(Lock::read(&profile), Err(LockFault::Unreadable { .. })));
    }

    #[test]
    fn what_is_written_can_be_read() {
        let (_folder, profile) = locked(b"x");
        let of = |weight: f64| Lock::new(profile_of(b"x"), vec![], vec![training("train", weight)]);
        for weight in [0.0, -1.0, f64::NAN, f64::INFINITY, 1e-200] {
            let fault = of(weight).write(&profile).unwrap_err();
            assert!(matches!(fault, LockFault::NotWritable { .. }), "{weight}: {fault}");
            assert!(fault.to_string().contains("a training has the weight"), "{fault}");
        }
        assert_eq!(Lock::read(&profile).unwrap().unwrap(), lock(b"x"), "the old one stays");
        // A hundred merges in which it had three tenths.
        let faded = of(0.3_f64.powi(100));
        faded.write(&profile).unwrap();
        assert_eq!(Lock::read(&profile).unwrap().unwrap(), faded);
    }

    #[test]
    fn what_is_no_lock_is_told_with_its_line() {
        let text = lock(b"").to_text();
        let fails = |text: &str, words: &str| {
            let fault = Lock::parse(text, Path::new("/p.lock")).unwrap_err().to_string();
            assert!(
                fault.contains(words) && fault.contains("/p.lock") && fault.contains("next: "),
                "{fault}"
            );
        };
        fails("", "EOF while parsing");
        fails(&text.replace("\"bytes\": 0", "\"bytes\": -1"), "line 6");
        fails(&text.replace("\"kind\": \"fdata\"", "\"kind\": \"gcda\""), "unknown variant `gcda`");
        fails(&text.replace("\"raw_files\"", "\"raw_flies\""), "unknown field `raw_flies`");
        fails(&text.replace("\"hone_profile_lock\": 1", "\"hone_profile_lock\": 2"), "has version 2");
        fails(&text.replace(&"ab".repeat(32), "AB"), "`AB` is not a SHA-256 in hexadecimal");
        fails(&text.replace("\"weight\": 1.0", "\"weight\": -1.0"), "a training has the weight -1");
        let folder = tempfile::tempdir().unwrap();
        let profile = folder.path().join("p");
        fs::write(Lock::path(&profile), vec![b' '; (MOST_BYTES + 1) as usize]).unwrap();
        assert!(Lock::read(&profile).unwrap_err().to_string().contains("more than"));
        fs::write(Lock::path(&profile), b"{\xff}").unwrap();
        assert!(matches!(Lock::read(&profile), Err(LockFault::NotUnderstood { .. })));
    }

    #[test]
    fn merged_locks_keep_every_training_with_its_weight() {
        let one = lock(b"a");
        let mut two = Lock::new(profile_of(b"b"), vec![program("server")], vec![]);
        two.trainings = vec![training("x", 2.0), training("y", 1.0)];
        let (hash_a, hash_b, hash_c) = ("a".repeat(64), "b".repeat(64), "c".repeat(64));
        let inputs =
            [(Some(one), hash_a.clone(), 3.0), (Some(two), hash_b, 0.5), (None, hash_c.clone(), 4.0)];
        let merged = Lock::merged(profile_of(b"sum"), &inputs);
        assert_eq!(merged.programs, [program("server")], "the same build is listed once");
        let told: Vec<(Option<&str>, f64, Option<&str>)> = merged
            .trainings
            .iter()
            .map(|training| (training.workload.as_deref(), training.weight, training.sha256.as_deref()))
            .collect();
        let expected = [
            (Some("train"), 3.0, Some(hash_a.as_str())),
            (Some("x"), 1.0, None),
            (Some("y"), 0.5, None),
            (None, 4.0, Some(hash_c.as_str())),
        ];
        assert_eq!(told, expected);
        assert_eq!(Lock::parse(&merged.to_text(), Path::new("/l")), Ok(merged));
    }

    #[test]
    fn trainings_of_a_fleet_are_told_together_beyond_a_thousand() {
        let inputs: Vec<(Option<Lock>, String, f64)> =
            (0..10_000).map(|_| (Some(lock(b"a")), "a".repeat(64), 2.0)).collect();
        let merged = Lock::merged(profile_of(b"sum"), &inputs);
        assert_eq!((merged.programs.len(), merged.trainings.len()), (1, 1_000));
        let rest = &merged.trainings[999];
        assert_eq!((rest.weight, rest.raw_files), (2.0 * 9_001.0, 2 * 9_001));
        assert_eq!(rest.workload.as_deref(), Some("more trainings, combined"));
        assert!((merged.to_text().len() as u64) < MOST_BYTES);
        assert_eq!(Lock::parse(&merged.to_text(), Path::new("/l")), Ok(merged));
    }

    #[test]
    fn a_commit_is_told_with_its_changes() {
        let folder = tempfile::tempdir().unwrap();
        let system = System::new(folder.path().join("log")).unwrap();
        let source = folder.path().join("source");
        fs::create_dir(&source).unwrap();
        let Ok(git) = Tool::new("git", "").locate(&[]) else {
            assert!(
                std::env::var_os("HONE_REQUIRE_TOOLS").is_none_or(|value| value != "1"),
                "git is missing"
            );
            return;
        };
        assert_eq!(commit_of(&system, &source), None, "not under git");
        let run = |args: &[&str]| {
            let call =
                Call::new("git", git.path(), &source).args(["-c", "user.name=a", "-c", "user.email=a@b"]);
            system.run(&call.args(args.iter().copied())).unwrap();
        };
        run(&["init", "-q"]);
        assert_eq!(commit_of(&system, &source), None, "no commit yet");
        fs::write(source.join("f"), "1").unwrap();
        run(&["add", "f"]);
        run(&["commit", "-qm", "one"]);
        let clean = commit_of(&system, &source).unwrap();
        assert!(clean.id.len() >= 40 && !clean.changed);
        fs::write(source.join("f"), "2").unwrap();
        assert_eq!(commit_of(&system, &source), Some(Commit { changed: true, ..clean }));
        let fetched = source.join("fetched");
        fs::create_dir(&fetched).unwrap();
        fs::write(fetched.join("f"), "3").unwrap();
        assert_eq!(commit_of(&system, &fetched), None, "inside, and no part of it");
    }

    #[test]
    fn a_training_tells_what_it_left() {
        let folder = tempfile::tempdir().unwrap();
        for (name, bytes) in [("a.profraw", 10), ("b.profraw", 5), ("a.fdata.origin.json", 99)] {
            fs::write(folder.path().join(name), vec![b'x'; bytes]).unwrap();
        }
        let machine = Machine { cpu_model: "a CPU".to_owned(), cores: 2, ..Machine::default() };
        let of = |raw: &Path| LockedTraining::from_raw("train", "words".to_owned(), 7, 0.5, raw, &machine);
        let left = of(folder.path()).unwrap();
        assert_eq!((left.raw_files, left.raw_bytes, left.seed, left.weight), (2, 15, Some(7), 0.5));
        assert_eq!(left.machine.unwrap().cpu_model, "a CPU");
        assert_eq!(of(&folder.path().join("b.profraw")).unwrap().raw_bytes, 5);
        assert!(matches!(of(&folder.path().join("none")), Err(LockFault::Unreadable { .. })));
    }

    proptest! {
        #[test]
        fn a_changed_text_does_not_make_it_panic(at in 0..600_usize, byte: u8, cut in 0..600_usize, any: String) {
            let mut bytes = lock(b"").to_text().into_bytes();
            let at = at % bytes.len();
            bytes[at] = byte;
            let _ = Lock::parse(&String::from_utf8_lossy(&bytes), Path::new("/l"));
            let _ = Lock::parse(&String::from_utf8_lossy(&bytes[..cut.min(bytes.len())]), Path::new("/l"));
            let _ = Lock::parse(&any, Path::new("/l"));
        }
    }
}
