//! A host over the system's `ssh`: it runs Hone's own program there, with words as arguments and records as answers.
//!
//! `sshd` passes one line to the user's login shell, so the words are quoted for a POSIX shell. Only a record of Hone's is
//! accepted as an answer.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use hone_host::profile::{self, OWN};
use hone_host::rollout::inventory::Host;
use hone_tool::{Call, Runner as _, System, Tool};
use serde_json::Value;
use sha2::{Digest as _, Sha256};

use hone_experiment::ending::Usage;
use hone_experiment::host_plan::profile_file;

/// Folder for Hone's program on hosts that have none.
const FOLDER: &str = "/var/lib/hone/bin";
/// Time limit of a verb on a host. It usually takes a second or two.
const VERB_LIMIT: Duration = Duration::from_secs(60);
/// Time limit of a copy: the program is large, and the connection may be slow.
const COPY_LIMIT: Duration = Duration::from_secs(600);
/// The exit code for `ssh`'s own failures. A remote command may return it, too.
const SSH_FAILED: i32 = 255;
/// These options follow the user's own, and `ssh` uses the first value that it gets.
const SSH_OPTIONS: [&str; 5] = [
    "-T",
    // Nobody can type a password.
    "-oBatchMode=yes",
    "-oConnectTimeout=10",
    // A lost host is noticed in 15 s.
    "-oServerAliveInterval=5",
    "-oServerAliveCountMax=3",
];
/// Writes its input to `$1/$2`, completely or not at all.
const INSTALL: &str =
    r#"umask 022 && mkdir -p "$1" && cat > "$1/.$2.$$" && chmod 755 "$1/.$2.$$" && mv "$1/.$2.$$" "$1/$2""#;

/// Words as one line that a POSIX shell splits into the same words.
///
/// # Errors
/// When a word contains a byte of 0, which no shell accepts.
pub(crate) fn quoted(words: &[String]) -> Result<String> {
    shlex::try_join(words.iter().map(String::as_str))
        .with_context(|| format!("{words:?} contains a byte of 0, which no shell accepts"))
}

/// The `ssh` call that runs these words on a host.
pub(crate) fn call(ssh: &Path, folder: &Path, step: &str, host: &Host, words: &[String]) -> Result<Call> {
    let sudo = host.sudo.unwrap_or(false);
    let prefix = if sudo { &["sudo", "-n", "--"][..] } else { &[] };
    let words: Vec<String> =
        prefix.iter().map(|word| (*word).to_owned()).chain(words.iter().cloned()).collect();
    Ok(Call::new(format!("{}-{step}", host.name), ssh, folder)
        .args(host.ssh.iter().map(String::as_str))
        .args(SSH_OPTIONS)
        .args(["--", &host.name, &quoted(&words)?])
        .limit(VERB_LIMIT))
}

/// Starts `ssh`, and stores its output.
pub(crate) struct Lines {
    runner: System,
    ssh: PathBuf,
    folder: PathBuf,
    /// A program that exists on the hosts, instead of a copy of this one.
    given: Option<String>,
}

/// The profile, in the form for the hosts.
#[derive(Debug, Clone)]
pub struct Source {
    /// Its name, or its file's.
    pub name: String,
    /// Its text in a file, unless it is one of Hone's own.
    pub file: Option<PathBuf>,
}

/// The profile's name, and its text unless it is one of Hone's own. It is checked here, before any host is contacted.
pub fn profile_text(profile: &str) -> Result<(String, Option<String>)> {
    if OWN.iter().any(|(name, _)| *name == profile) {
        return Ok((profile.to_owned(), None));
    }
    let text = profile_file(profile)?;
    let text = match serde_json::from_str::<serde_json::Value>(&text) {
        Ok(plan) => profile::of_plan(&plan).map_err(|error| Usage(format!("{profile}: {error}")))?,
        Err(_) => text,
    };
    profile::parse(profile, &text).map_err(|error| Usage(error.to_string()))?;
    Ok((profile.to_owned(), Some(text)))
}

/// The profile for the hosts. Unless it is one of Hone's own, its text is in this folder.
///
/// # Errors
/// When the folder can't be written.
pub fn source(folder: &Path, name: String, text: Option<&str>) -> Result<Source> {
    let file = folder.join("profile.toml");
    let file = match text {
        Some(text) => {
            std::fs::write(&file, text).with_context(|| format!("{} can't be written", file.display()))?;
            Some(file)
        }
        None => None,
    };
    Ok(Source { name, file })
}

/// The profile argument on a host, and its name in the journal. A text is sent over standard input.
pub(crate) fn told_as(name: &str, is_text: bool) -> &str {
    if is_text { "-" } else { name }
}

/// The plan of a host.
#[derive(Debug, Clone, Default)]
pub(crate) struct Planned {
    pub fingerprint: String,
    /// One line per attribute to write.
    pub changes: Vec<String>,
    /// Reasons against writing an attribute.
    pub obstacles: Vec<String>,
}

/// An open change of a host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct OpenChange {
    pub id: String,
    pub profile: String,
}

/// The result of a rollback on a host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TakenBack {
    pub whole: bool,
    /// Attributes without their original values.
    pub left: Vec<String>,
}

impl Lines {
    /// Logs go to `folder`.
    pub(crate) fn new(folder: &Path, given: Option<&str>) -> Result<Self> {
        let ssh =
            Tool::new("ssh", "HONE_SSH").locate(&[]).context("needs the system's ssh to reach the hosts")?;
        Ok(Self {
            runner: System::new(folder.join("ssh"))?,
            ssh: ssh.path().to_owned(),
            folder: folder.to_owned(),
            given: given.map(str::to_owned),
        })
    }

    /// A host that has a program of Hone's version. Hone copies it there if it is missing.
    pub(crate) fn to<'a>(&'a self, host: &'a Host) -> Result<Remote<'a>> {
        let program = match &self.given {
            Some(given) => given.clone(),
            None => format!("{FOLDER}/{}", own_name()?),
        };
        let remote = Remote { lines: self, host, program };
        if remote.version()?.as_deref() == Some(env!("CARGO_PKG_VERSION")) {
            return Ok(remote);
        }
        if let Some(given) = &self.given {
            bail!(
                "{}: {given} is not hone {}; copy this version there, or remove --remote-hone",
                host.name,
                env!("CARGO_PKG_VERSION")
            );
        }
        remote.install()?;
        match remote.version()? {
            Some(_) => Ok(remote),
            None => bail!(
                "{}: hone was copied to {}, but does not start there (another CPU architecture, or missing \
                 libraries); install it by hand and name it with --remote-hone",
                host.name,
                remote.program
            ),
        }
    }
}

/// The copy's name, which depends on the program's contents, so that it is copied only once.
fn own_name() -> Result<String> {
    let program = std::env::current_exe()?;
    let mut file =
        std::fs::File::open(&program).with_context(|| format!("{} can't be read", program.display()))?;
    let mut hash = Sha256::new();
    std::io::copy(&mut file, &mut hash)?;
    let digits: String = hash.finalize().iter().take(6).map(|byte| format!("{byte:02x}")).collect();
    Ok(format!("hone-{}-{digits}", env!("CARGO_PKG_VERSION")))
}

/// Hone on a host.
pub(crate) struct Remote<'a> {
    lines: &'a Lines,
    host: &'a Host,
    program: String,
}

impl Remote<'_> {
    /// The version of the program there; `None` if there is none that starts.
    fn version(&self) -> Result<Option<String>> {
        let words = [self.program.clone(), "--version".to_owned()];
        let call = (1..SSH_FAILED).fold(self.call("version", &words)?, Call::accept_status);
        let finished = self.lines.runner.run(&call).with_context(|| self.unreachable())?;
        let text = finished.stdout_text()?;
        // A login shell may have printed something first.
        let version = text.lines().rev().find_map(|line| line.strip_prefix("hone "));
        Ok(version.filter(|_| finished.code == 0).map(|version| version.trim().to_owned()))
    }

    fn unreachable(&self) -> String {
        format!(
            "can't reach {} with ssh; check that `ssh {}` works without a password",
            self.host.name, self.host.name
        )
    }

    fn install(&self) -> Result<()> {
        let (folder, name) = self.program.rsplit_once('/').unwrap_or((FOLDER, &self.program));
        let words = ["sh", "-c", INSTALL, "sh", folder, name].map(str::to_owned);
        let call = self.call("copy", &words)?.stdin(std::env::current_exe()?).limit(COPY_LIMIT);
        self.lines.runner.run(&call).with_context(|| {
            format!(
                "{}: can't copy hone to {}; check the free space and the rights there, or use --remote-hone",
                self.host.name, self.program
            )
        })?;
        Ok(())
    }

    /// Deletes the copy. A program that was there before stays.
    pub(crate) fn remove_copy(&self) -> Result<()> {
        if self.lines.given.is_some() {
            return Ok(());
        }
        let words = ["rm", "-f", "--", &self.program].map(str::to_owned);
        self.lines.runner.run(&self.call("remove", &words)?.despite_interrupt())?;
        Ok(())
    }

    fn call(&self, step: &str, words: &[String]) -> Result<Call> {
        call(&self.lines.ssh, &self.lines.folder, step, self.host, words)
    }

    /// Runs a verb of `hone host` there; returns the body of its record. Exit code 1 with a record is an answer, too.
    fn ask(&self, verb: &[&str], source: Option<&Source>) -> Result<(i32, Value)> {
        let mut words = vec![self.program.clone(), "host".to_owned()];
        words.extend(verb.iter().map(|word| (*word).to_owned()));
        words.extend(["--json", "--quiet"].map(str::to_owned));
        if let Some(root) = &self.host.root {
            words.extend(["--root".to_owned(), text_of(root)?]);
        }
        let step = verb.first().copied().unwrap_or("host");
        // A started step on a host is completed. An interruption takes effect between two calls.
        let mut call = self.call(step, &words)?.accept_status(1).despite_interrupt();
        if let Some(file) = source.and_then(|source| source.file.as_ref()) {
            call = call.stdin(file);
        }
        let finished =
            self.lines.runner.run(&call).with_context(|| format!("{}: hone host {step}", self.host.name))?;
        let text = finished.stdout_text()?;
        let record: Option<Value> = record_in(&text);
        match record.and_then(|mut record| record.get_mut("body").map(Value::take)) {
            Some(body) => Ok((finished.code, body)),
            None => {
                let said = finished.stderr_text().unwrap_or_default();
                let said = said.trim();
                bail!(
                    "{}: hone host {step}: {}",
                    self.host.name,
                    if said.is_empty() { "no answer" } else { said }
                )
            }
        }
    }

    fn what<'b>(&'b self, source: &'b Source) -> Result<Vec<String>> {
        let mut words = vec![told_as(&source.name, source.file.is_some()).to_owned()];
        if let Some(data) = &self.host.data {
            words.extend(["--data".to_owned(), text_of(data)?]);
        }
        Ok(words)
    }

    /// The changes of the profile on this host.
    pub(crate) fn plan(&self, source: &Source, all: bool) -> Result<Planned> {
        let what = self.what(source)?;
        let verb: Vec<&str> = ["plan"].into_iter().chain(what.iter().map(String::as_str)).collect();
        let (_, body) = self.ask(&verb, Some(source))?;
        planned(&body, all).with_context(|| {
            format!(
                "{}: the plan has another format than that of hone {}",
                self.host.name,
                env!("CARGO_PKG_VERSION")
            )
        })
    }

    /// Applies a plan, if the host has not changed since then. Returns the change's name; `None` if there was nothing to change.
    pub(crate) fn apply(
        &self,
        source: &Source,
        fingerprint: &str,
        lease: Duration,
        all: bool,
    ) -> Result<Option<String>> {
        let what = self.what(source)?;
        let lease = format!("{}s", lease.as_secs());
        let mut verb: Vec<&str> = ["apply"].into_iter().chain(what.iter().map(String::as_str)).collect();
        verb.extend(["--confirm-within", &lease, "--if-plan", fingerprint]);
        if all {
            verb.push("--all");
        }
        let (code, body) = self.ask(&verb, Some(source))?;
        match (code, body.get("applied")) {
            (0, Some(Value::Null)) => Ok(None),
            (0, Some(applied)) => match applied.get("id").and_then(Value::as_str) {
                Some(id) => Ok(Some(id.to_owned())),
                None => bail!("{}: the change has no name", self.host.name),
            },
            _ => bail!("{}: nothing was applied", self.host.name),
        }
    }

    /// Renews the lease: the host's watchdog waits this long from now on.
    pub(crate) fn renew(&self, change: &str, lease: Duration) -> Result<()> {
        self.ask(&["renew", &format!("{}s", lease.as_secs()), "--change-id", change], None).map(|_| ())
    }

    /// Confirms a change.
    pub(crate) fn confirm(&self, change: &str, this_boot: bool) -> Result<()> {
        let mut verb = vec!["confirm", "--change-id", change];
        if this_boot {
            verb.push("--this-boot");
        }
        match self.ask(&verb, None)? {
            (0, _) => Ok(()),
            (code, _) => bail!("{}: hone host confirm exited with code {code}", self.host.name),
        }
    }

    /// The open changes.
    pub(crate) fn changes(&self) -> Result<Vec<OpenChange>> {
        let (_, body) = self.ask(&["status", "--watch", "0"], None)?;
        open_changes(&body).with_context(|| format!("{}: its open changes are not known", self.host.name))
    }

    /// Rolls a change back.
    pub(crate) fn revert(&self, change: &str) -> Result<TakenBack> {
        let (code, body) = self.ask(&["rollback", "--change-id", change], None)?;
        Ok(taken_back(code, &body))
    }
}

/// The open changes in the output of `hone host status`.
fn open_changes(status: &Value) -> Result<Vec<OpenChange>> {
    let list = |name: &str| status.get(name).and_then(Value::as_array);
    if let Some(one) = list("unreadable").and_then(|unreadable| unreadable.first()) {
        bail!("{}", one.get("why").and_then(Value::as_str).unwrap_or("can't read a journal"));
    }
    let one = |change: &Value| {
        let text = |name: &str| change.get(name)?.as_str().map(str::to_owned);
        Some(OpenChange { id: text("id")?, profile: text("profile")? })
    };
    let changes = list("changes").context("the answer has no list of changes")?;
    changes.iter().map(|change| one(change).context("a change has no name")).collect()
}

/// The record in the output. A login shell may have printed something before it.
fn record_in(text: &str) -> Option<Value> {
    let begin = if text.starts_with('{') { 0 } else { text.find("\n{")? };
    serde_json::from_str(text.get(begin..)?).ok()
}

fn text_of(path: &Path) -> Result<String> {
    path.to_str().map(str::to_owned).with_context(|| format!("{} is not valid UTF-8", path.display()))
}

fn planned(plan: &Value, all: bool) -> Option<Planned> {
    let texts = |name: &str| -> Vec<String> {
        let list = plan.get(name).and_then(Value::as_array).cloned().unwrap_or_default();
        list.iter().filter_map(Value::as_str).map(str::to_owned).collect()
    };
    let change = |row: &Value| {
        let does = row.pointer("/action/do")?.as_str()?;
        let field = |name: &str| row.get(name).and_then(Value::as_str).unwrap_or("?").to_owned();
        (does == "change" || all && does == "idle")
            .then(|| format!("{}: {} -> {}", field("title"), field("now"), field("wanted")))
    };
    let rows = plan.get("rows")?.as_array()?;
    Some(Planned {
        fingerprint: plan.get("fingerprint")?.as_str()?.to_owned(),
        changes: rows.iter().filter_map(change).collect(),
        obstacles: texts("obstacles"),
    })
}

fn taken_back(code: i32, body: &Value) -> TakenBack {
    let changes = body.get("changes").and_then(Value::as_array).cloned().unwrap_or_default();
    let outcomes =
        changes.iter().filter_map(|change| change.pointer("/outcomes").and_then(Value::as_array)).flatten();
    let is_left =
        |outcome: &&Value| matches!(outcome.get("fate").and_then(Value::as_str), Some("drifted" | "failed"));
    let left =
        outcomes.filter(is_left).filter_map(|outcome| outcome.get("path")?.as_str().map(str::to_owned));
    let whole = code == 0;
    TakenBack { whole, left: if whole { Vec::new() } else { left.collect() } }
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "compares with a real shell")]
mod tests {
    use super::*;
    use hone_host::rollout::inventory;
    use serde_json::json;

    /// The words of a line, as a shell splits it.
    fn by_shell(line: &str) -> Vec<String> {
        let script = format!("for word in {line}; do printf '%s\\0' \"$word\"; done");
        let output = std::process::Command::new("sh").args(["-c", &script]).output().unwrap();
        assert!(output.status.success(), "{line}: {}", String::from_utf8_lossy(&output.stderr));
        let text = String::from_utf8(output.stdout).unwrap();
        text.split_terminator('\0').map(str::to_owned).collect()
    }

    #[test]
    fn a_shell_gets_the_words_and_nothing_else() {
        let words: Vec<String> = [
            "/var/lib/hone",
            "a b",
            "",
            "$(touch /tmp/x)",
            "`id`",
            "it's",
            "\"",
            "a\\b",
            "*",
            "~",
            "!x",
            "&&",
            ";",
            "a\nb",
            "é\u{1F600}",
            "-n",
            "$HOME",
            "#",
            "\t",
            "{a,b}",
            "x=y",
        ]
        .map(str::to_owned)
        .to_vec();
        assert_eq!(by_shell(&quoted(&words).unwrap()), words);
        assert!(quoted(&["a\0b".to_owned()]).is_err());
    }

    proptest::proptest! {
        #![proptest_config(proptest::prelude::ProptestConfig::with_cases(40))]
        #[test]
        fn any_words_pass_a_shell_unharmed(words in proptest::collection::vec("[^\0]{0,12}", 1..6)) {
            assert_eq!(by_shell(&quoted(&words).unwrap()), words);
        }
    }

    #[test]
    fn the_call_of_ssh_has_the_hosts_options_first() {
        let hosts = inventory::parse(
            "h",
            "[[hosts]]\nname = 'root@k1'\nssh = ['-p', '2222', '-oConnectTimeout=3']\nsudo = true",
        )
        .unwrap();
        let words = ["hone", "host", "plan", "my profile"].map(str::to_owned);
        let call = call(Path::new("/usr/bin/ssh"), Path::new("/"), "plan", &hosts[0], &words).unwrap();
        let line: Vec<String> =
            call.arguments().iter().map(|word| word.to_string_lossy().into_owned()).collect();
        assert_eq!(line[..3], ["-p", "2222", "-oConnectTimeout=3"]);
        assert_eq!(line[line.len() - 3..], ["--", "root@k1", "sudo -n -- hone host plan 'my profile'"]);
    }

    #[test]
    fn records_of_a_host_are_read_and_others_are_refused() {
        let row = |action: &str| json!({"title": "vm.dirty_ratio", "now": "20", "wanted": "10", "action": {"do": action}});
        let plan = json!({"fingerprint": "ab", "rows": [row("change"), row("idle"), row("keep")], "obstacles": ["tuned"]});
        let found = planned(&plan, false).unwrap();
        assert_eq!((found.changes.len(), found.changes[0].as_str()), (1, "vm.dirty_ratio: 20 -> 10"));
        assert_eq!(planned(&plan, true).unwrap().changes.len(), 2);
        assert_eq!(found.obstacles, ["tuned"]);
        assert!(planned(&json!({"rows": []}), false).is_none());
        let outcome = |fate: &str| json!({"path": fate, "fate": fate});
        let body = json!({"changes": [{"found": "taken-back", "outcomes": [outcome("restored"), outcome("drifted")]}]});
        assert_eq!(taken_back(1, &body), TakenBack { whole: false, left: vec!["drifted".to_owned()] });
        assert!(taken_back(0, &body).whole);
        let change = |id: &str| json!({"id": id, "profile": "p", "confirmed": true});
        let told = open_changes(&json!({"changes": [change("00001"), change("00002")], "unreadable": []}));
        assert_eq!(
            told.unwrap().iter().map(|change| change.id.as_str()).collect::<Vec<_>>(),
            ["00001", "00002"]
        );
        let hidden = json!({"changes": [], "unreadable": [{"id": "00003", "why": "line 2"}]});
        assert!(open_changes(&hidden).unwrap_err().to_string().contains("line 2"));
        assert!(open_changes(&json!({})).is_err() && open_changes(&json!({"changes": [{}]})).is_err());
        assert_eq!(record_in("Welcome {you}!\n{\"body\": 1}\n"), Some(json!({"body": 1})));
        assert_eq!(record_in("{\"body\": 1}"), Some(json!({"body": 1})));
        assert!(record_in("no record").is_none() && record_in("").is_none() && record_in("\n{").is_none());
    }
}
