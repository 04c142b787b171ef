//! The repository of the sources. Hone reads it and never writes to it: every checkout is its own repository that borrows the objects of
//! that one. A git worktree would be an entry in the user's repository, and would stay there if Hone was killed.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};
use hone_tool::{Call, Finished, Runner, Tool, ToolError};

use super::Named;
use hone_experiment::ending::Usage;

/// Variables that make git use another repository than that of the folder. Git hooks have them.
const MEANS_ANOTHER: [&str; 7] = [
    "GIT_DIR",
    "GIT_WORK_TREE",
    "GIT_INDEX_FILE",
    "GIT_OBJECT_DIRECTORY",
    "GIT_ALTERNATE_OBJECT_DIRECTORIES",
    "GIT_COMMON_DIR",
    "GIT_NAMESPACE",
];

/// The depth that the advice for a shallow clone names: most branches are shorter.
const DEEPEN: u32 = 200;

/// A repository with a working tree.
pub struct Repository<'a> {
    runner: &'a dyn Runner,
    git: PathBuf,
    /// The working tree.
    pub top: PathBuf,
    objects: PathBuf,
    /// The file that marks the end of its history.
    shallow: PathBuf,
    /// The user's ignore rules besides `.gitignore`.
    exclude: PathBuf,
    /// `sha1` or `sha256`.
    format: String,
}

impl<'a> Repository<'a> {
    /// The repository that contains a folder.
    ///
    /// # Errors
    /// Fails without git, or when the folder is in no repository.
    pub fn around(runner: &'a dyn Runner, folder: &Path) -> Result<Self> {
        let git = Tool::new("git", "HONE_GIT").debian("git").locate(&[])?.path().to_owned();
        let asked = [
            "rev-parse",
            "--path-format=absolute",
            "--show-toplevel",
            "--git-path",
            "objects",
            "--git-path",
            "shallow",
            "--git-path",
            "info/exclude",
            "--show-object-format",
        ];
        let call = plain(&git, "git-find", folder).args(asked);
        let found = runner.run(&call).map_err(|error| match error {
            ToolError::Failed { scene, .. } => anyhow::Error::from(Usage(format!(
                "{} is not in a usable git repository, and a gate compares two commits of one: {}\n  next: \
                 run `hone gate` inside the repository of the service",
                folder.display(),
                scene.stderr.join("; ")
            ))),
            other => anyhow::Error::from(other),
        })?;
        let text = found.stdout_text()?;
        let [top, objects, shallow, exclude, format] = text.lines().collect::<Vec<_>>()[..] else {
            bail!("git rev-parse in {} printed `{}`, not five lines", folder.display(), text.trim());
        };
        let [top, objects, shallow, exclude] = [top, objects, shallow, exclude].map(PathBuf::from);
        Ok(Self { runner, git, top, objects, shallow, exclude, format: format.to_owned() })
    }

    fn call(&self, step: &str) -> Call {
        plain(&self.git, step, &self.top)
    }

    /// Runs git in the user's repository, for a question: exit code 1 is a valid answer.
    fn ask(&self, step: &str, args: &[&str]) -> Result<Finished> {
        Ok(self.runner.run(&self.call(step).args(args.iter().copied()).accept_status(1))?)
    }

    /// The hash of a commit that is present.
    fn find(&self, name: &str) -> Result<Option<String>> {
        let wanted = format!("{name}^{{commit}}");
        // Git would take the name for an option.
        if name.starts_with('-') {
            return Ok(None);
        }
        let found = self.ask("git-commit", &["rev-parse", "--verify", "--quiet", &wanted])?;
        let hash = found.stdout_text()?.trim().to_owned();
        Ok((found.code == 0 && !hash.is_empty()).then_some(hash))
    }

    /// The hash of a commit.
    ///
    /// # Errors
    /// Fails when the commit is missing. The error names the command that fetches it.
    pub fn commit(&self, name: &str) -> Result<String> {
        match self.find(name)? {
            Some(hash) => Ok(hash),
            None => bail!("this clone has no commit `{name}`{}", self.way_out(name)),
        }
    }

    /// The remedy for a clone without the commit.
    fn way_out(&self, name: &str) -> String {
        let depth = format!("--depth={DEEPEN} ");
        let (what, depth) = match self.is_shallow() {
            true => (": it is shallow, and ends before that commit", depth.as_str()),
            false => ("", ""),
        };
        let fetched = match name.split_once('/') {
            Some((remote, branch)) if !branch.is_empty() => {
                format!("git fetch {depth}{remote} +refs/heads/{branch}:refs/remotes/{name}")
            }
            _ => format!("git fetch {depth}origin {name}"),
        };
        format!(
            "{what}\n  next: {fetched}\n  in CI: fetch the whole history (fetch-depth: 0 of actions/checkout, GIT_DEPTH: 0 of GitLab)"
        )
    }

    /// Whether the clone is shallow.
    pub(crate) fn is_shallow(&self) -> bool {
        self.shallow.is_file()
    }

    /// The merge base of two commits.
    ///
    /// # Errors
    /// Fails when they have no common history in this clone.
    pub fn merge_base(&self, base: &str, head: &str) -> Result<String> {
        let found = self.ask("git-merge-base", &["merge-base", base, head])?;
        let hash = found.stdout_text()?.trim().to_owned();
        if found.code == 0 && !hash.is_empty() {
            return Ok(hash);
        }
        let next = if self.is_shallow() {
            format!(
                "this clone is shallow, and ends before their merge base\n  next: run `git fetch \
                 --deepen={DEEPEN} origin` (or --unshallow), or use --exact to compare with that commit \
                 itself\n  in CI: fetch the whole history (fetch-depth: 0 of actions/checkout, GIT_DEPTH: 0 \
                 of GitLab)"
            )
        } else {
            "they have no common ancestor\n  next: use --exact to compare with that commit itself".to_owned()
        };
        bail!("can't find the merge base of {base} and {head}: {next}")
    }

    /// The first line of a commit's message.
    pub fn subject(&self, commit: &str) -> Result<String> {
        let found = self.ask("git-subject", &["show", "-s", "--format=%s", commit])?;
        Ok(found.stdout_text()?.trim().to_owned())
    }

    /// The commits after `good` up to `bad`, the oldest first, along the first parents: a merged branch is one commit.
    ///
    /// # Errors
    /// Fails when `good` is not an ancestor of `bad`.
    pub(super) fn between(&self, good: &str, bad: &str) -> Result<Vec<Named>> {
        let format = "--format=%H %s";
        let range = format!("{good}..{bad}");
        let asked = ["log", "--first-parent", "--reverse", format, "--end-of-options", &range];
        let is_ancestor = self.ask("git-ancestor", &["merge-base", "--is-ancestor", good, bad])?.code == 0;
        let text = self.ask("git-between", &asked)?.stdout_text()?;
        let named = |line: &str| {
            let (commit, subject) = line.split_once(' ').unwrap_or((line, ""));
            Named {
                asked: "found by the search".to_owned(),
                commit: commit.to_owned(),
                subject: subject.to_owned(),
            }
        };
        let found: Vec<Named> = text.lines().map(named).collect();
        if found.is_empty() || !is_ancestor {
            bail!(Usage(format!(
                "there is no commit to search: {good} is not an ancestor of {bad}\n  next: name a range \
                 GOOD..BAD whose first commit is part of the history of the second"
            )));
        }
        Ok(found)
    }

    /// A file of a commit; `None` if the commit has no such file.
    pub fn file_of(&self, commit: &str, path: &str) -> Result<Option<String>> {
        let listed = self.ask("git-has", &["ls-tree", "--name-only", commit, "--", path])?;
        if listed.stdout_text()?.trim().is_empty() {
            return Ok(None);
        }
        let name = format!("{commit}:{path}");
        let call = self.call("git-file").args(["cat-file", "blob", &name]);
        let found = self.runner.run(&call).with_context(|| not_fetched(&name))?;
        Ok(Some(found.stdout_text()?))
    }

    /// How many tracked files differ from HEAD.
    pub fn changed_files(&self) -> Result<usize> {
        let asked = ["status", "--porcelain", "--untracked-files=no", "--ignore-submodules=dirty"];
        Ok(self.ask("git-status", &asked)?.stdout_text()?.lines().count())
    }

    /// Makes a commit of the working tree as it is, including untracked files that are not ignored, in its own repository. It excludes the
    /// folders `but`. `None` if the tree is the same as HEAD.
    ///
    /// # Errors
    /// Fails when a file can't be read.
    pub fn snapshot(&self, place: &Path, but: &[PathBuf]) -> Result<Option<String>> {
        self.borrow(place, true, &[])?;
        let mut ignored = fs::read_to_string(&self.exclude).unwrap_or_default();
        for path in but.iter().filter_map(|path| path.strip_prefix(&self.top).ok()) {
            ignored.push_str(&format!("\n/{}\n", path.display()));
        }
        let exclude = place.join("info/exclude");
        fs::create_dir_all(place.join("info"))
            .and_then(|()| fs::write(&exclude, ignored))
            .with_context(|| format!("{} can't be written", exclude.display()))?;
        let head = self.commit("HEAD")?;
        let own = |step: &str, args: &[&str]| -> Result<String> {
            let call = self.call(step).env("GIT_DIR", place).env("GIT_WORK_TREE", &self.top).args([
                "-c",
                "core.bare=false",
                "-c",
                "core.hooksPath=/dev/null",
            ]);
            // The same tree on the same commit gives the same commit, so Hone finds its builds again.
            let call = ["AUTHOR", "COMMITTER"].into_iter().fold(call, |call, who| {
                call.env(format!("GIT_{who}_NAME"), "hone")
                    .env(format!("GIT_{who}_EMAIL"), "hone")
                    .env(format!("GIT_{who}_DATE"), "@0 +0000")
            });
            Ok(self.runner.run(&call.args(args.iter().copied()))?.stdout_text()?.trim().to_owned())
        };
        own("git-read-tree", &["read-tree", &head])?;
        own("git-add", &["add", "--all", "."])?;
        let tree = own("git-write-tree", &["write-tree"])?;
        if Some(tree.as_str()) == own("git-tree", &["rev-parse", &format!("{head}^{{tree}}")]).ok().as_deref()
        {
            return Ok(None);
        }
        let commit = own("git-commit-tree", &["commit-tree", &tree, "-p", &head, "-m", "the working tree"])?;
        Ok(Some(commit))
    }

    /// A clean checkout of a commit in its own folder, replacing what was there. `more` are repositories with further commits.
    ///
    /// # Errors
    /// Fails when git can't check it out.
    pub(crate) fn check_out(&self, folder: &Path, commit: &str, more: &[PathBuf]) -> Result<()> {
        remove(folder)?;
        self.borrow(folder, false, more)?;
        let call = Call::new("git-checkout", &self.git, folder);
        let call = tame(call).args(["-c", "core.hooksPath=/dev/null", "-c", "advice.detachedHead=false"]);
        let call = call.args(["checkout", "--quiet", "--force", "--detach", commit]);
        self.runner.run(&call).with_context(|| not_fetched(commit))?;
        self.submodules(folder, &self.top)
    }

    /// Submodules, also nested ones, come from the user's own clones below `clones`, so that git fetches nothing.
    fn submodules(&self, folder: &Path, clones: &Path) -> Result<()> {
        if !folder.join(".gitmodules").is_file() {
            return Ok(());
        }
        let listed = plain(&self.git, "git-submodules", folder).accept_status(1).args([
            "config",
            "--file",
            ".gitmodules",
            "--get-regexp",
            r"^submodule\..*\.path$",
        ]);
        let listed = self.runner.run(&listed)?.stdout_text()?;
        for (name, path) in listed.lines().filter_map(submodule) {
            let own = clones.join(path);
            let url = format!("submodule.{name}.url={}", own.display());
            let call = tame(Call::new("git-submodule", &self.git, folder))
                .env("GIT_ALLOW_PROTOCOL", "file")
                .args(["-c", &url])
                .args(["submodule", "update", "--init", "--quiet", "--", path]);
            self.runner.run(&call).with_context(|| {
                format!(
                    "Hone takes the submodule {path} from {}\n  next: run `git submodule update --init` \
                     there, and fetch the commits that both sides need",
                    own.display()
                )
            })?;
            self.submodules(&folder.join(path), &own)?;
        }
        Ok(())
    }

    /// An empty repository that knows all of the user's commits and tags.
    fn borrow(&self, folder: &Path, bare: bool, more: &[PathBuf]) -> Result<()> {
        let parent = folder.parent().context("a checkout has a parent folder")?;
        fs::create_dir_all(parent).with_context(|| format!("{} can't be made", parent.display()))?;
        let format = format!("--object-format={}", self.format);
        // Templates may contain hooks.
        let call = plain(&self.git, "git-init", parent).args(["init", "--quiet", "--template=", &format]);
        let call = if bare { call.arg("--bare") } else { call };
        self.runner.run(&call.arg(folder))?;
        let own = if bare { folder.to_owned() } else { folder.join(".git") };
        let all = std::iter::once(self.objects.clone()).chain(more.iter().map(|place| place.join("objects")));
        let alternates: String = all.map(|objects| format!("{}\n", objects.display())).collect();
        let write = |name: &str, text: &[u8]| {
            let path = own.join(name);
            fs::create_dir_all(path.parent().unwrap_or(&own))
                .and_then(|()| fs::write(&path, text))
                .with_context(|| format!("{} can't be written", path.display()))
        };
        write("objects/info/alternates", alternates.as_bytes())?;
        if let Ok(shallow) = fs::read(&self.shallow) {
            write("shallow", &shallow)?;
        }
        // Builds derive the version from tags.
        let tags = ["for-each-ref", "--format=%(objectname) %(refname)", "refs/tags"];
        let tags = self.ask("git-tags", &tags)?.stdout()?;
        write("packed-refs", &tags)
    }
}

/// The remedy if a commit is present but its contents are not.
fn not_fetched(what: &str) -> String {
    format!(
        "Hone takes {what} from this clone and fetches nothing\n  next: in a partial clone, run `git fetch \
         --refetch --no-filter origin`"
    )
}

/// `submodule.NAME.path PATH`.
fn submodule(line: &str) -> Option<(&str, &str)> {
    let (key, path) = line.split_once(' ')?;
    let name = key.strip_prefix("submodule.")?.strip_suffix(".path")?;
    // Hone does not follow a path that leaves the tree.
    let is_below = Path::new(path).components().all(|part| matches!(part, std::path::Component::Normal(_)));
    is_below.then_some((name, path))
}

fn plain(git: &Path, step: &str, folder: &Path) -> Call {
    tame(Call::new(step, git, folder)).env("LC_ALL", "C")
}

/// Makes git ask no questions, take no locks, fetch nothing, and use the repository of its folder.
fn tame(call: Call) -> Call {
    let call = call.env("GIT_TERMINAL_PROMPT", "0").env("GIT_OPTIONAL_LOCKS", "0");
    // A partial clone fetches missing objects on demand. Before 2.45, git can only prevent that by forbidding every transport.
    let call = call.env("GIT_NO_LAZY_FETCH", "1").env("GIT_ALLOW_PROTOCOL", "none");
    MEANS_ANOTHER.into_iter().fold(call, Call::env_remove)
}

/// Removes a folder; a missing one is fine.
pub fn remove(folder: &Path) -> Result<()> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(error).with_context(|| format!("{} can't be removed", folder.display()))
        }
        _ => Ok(()),
    }
}

/// The target commit of a pull request, if a CI system names it.
pub fn base_of_ci(variable: impl Fn(&str) -> Option<String>) -> Option<String> {
    let said = |name: &str| variable(name).filter(|value| !value.is_empty());
    let branch = |name: &str| Some(format!("origin/{}", said(name)?));
    // Set if the head is the request merged into this very commit: both sides then contain the new commits of the branch.
    said("CI_MERGE_REQUEST_TARGET_BRANCH_SHA")
        .or_else(|| said("CI_MERGE_REQUEST_DIFF_BASE_SHA"))
        .or_else(|| branch("CI_MERGE_REQUEST_TARGET_BRANCH_NAME"))
        .or_else(|| branch("GITHUB_BASE_REF"))
}

/// The user or the CI must name a base.
pub fn no_base() -> Usage {
    Usage(
        "no base to compare with\n  next: name a commit or branch, for example --base origin/main (a GitHub \
         pull request or a GitLab merge request names it itself)"
            .to_owned(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_ci_says_of_the_base_is_taken() {
        let of = |pairs: &[(&str, &str)]| {
            base_of_ci(|name| {
                let found = pairs.iter().find(|(known, _)| *known == name);
                found.map(|(_, value)| (*value).to_owned())
            })
        };
        assert_eq!(of(&[("GITHUB_BASE_REF", "main")]).as_deref(), Some("origin/main"));
        assert_eq!(of(&[("GITHUB_BASE_REF", "")]), None, "it is no pull request");
        let both =
            [("CI_MERGE_REQUEST_TARGET_BRANCH_NAME", "main"), ("CI_MERGE_REQUEST_DIFF_BASE_SHA", "12ab")];
        assert_eq!(of(&both).as_deref(), Some("12ab"));
        assert_eq!(of(&both[..1]).as_deref(), Some("origin/main"));
    }

    #[test]
    fn submodules_lead_nowhere_else() {
        assert_eq!(submodule("submodule.lib.path third_party/lib"), Some(("lib", "third_party/lib")));
        assert_eq!(submodule("submodule.lib.path ../lib"), None);
        assert_eq!(submodule("submodule.lib.path /etc"), None);
    }
}
