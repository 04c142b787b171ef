//! Effects of a script, computed on a simulated host. No command runs and no shell is started. Parts that can't be computed are reported
//! instead of guessed.

use std::collections::{BTreeMap, BTreeSet};

use super::finding::Role;
use super::imagined::{Imagined, Taken, is_attribute};
use super::lexer::{DEEPEST, Part, Token, Word, tokens};
use super::paths;
use super::paths::normal;
use super::piece::Piece;
use super::shell::{Joint, Node, Simple, Step, parse};
use super::stated::{
    ANY, Form, Saying, UNKNOWN, UNKNOWN_TEXT, command_line, is_for_a_boot, is_setting_line, name_of, stated,
    unit_commands,
};
use super::sweep::is_sysctl;
use crate::glob::is_meant;
use crate::kernel::{Kernel as _, plain_value};
use crate::origin::tuned_text;
use crate::sysctl_text;

/// An effect of a text, with its place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Event {
    pub(super) file: String,
    pub(super) line: usize,
    pub(super) role: Role,
    pub(super) what: What,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum What {
    /// A text is written into a settings file; it is empty if lines are removed. `begins` is its line in the script, if it occurs there
    /// unchanged.
    Put { path: String, text: String, append: bool, begins: Option<usize> },
    /// A line of such a file makes a setting at the next boot.
    Kept { path: String, value: String, taken: Taken, file: String },
    /// A setting.
    Set { path: String, value: String, before: Option<String>, taken: Taken },
    /// A disk pattern, and the disks of this host that it matches.
    Pattern { pattern: String, disks: Vec<String> },
    /// `set -e` ends the script here.
    Aborted { why: String },
    /// A step runs only if a file has no line with this text.
    Guarded { text: String, file: String, found: bool },
    /// A command for a systemd unit: `enable`, `restart`.
    Unit { verb: String, name: String },
    /// A profile of tuned.
    Profile(String),
    /// Swap is switched off.
    SwapOff,
    /// A command uses settings in a way that was not understood. The name, if known.
    Unclear { name: Option<String>, why: String },
    /// A command runs a missing script, given by its path.
    Script(String),
}

/// Limits for a script that never ends, and for growing texts.
const MOST_STEPS: usize = 20_000;
pub(super) const LONGEST_TEXT: usize = 64 * 1024;

struct Runner<'a, 'k> {
    host: &'a Imagined<'k>,
    file: String,
    role: Role,
    line: usize,
    is_guide: bool,
    is_bound: bool,
    /// Why no write reaches the kernel.
    void: Option<String>,
    /// Whether `sudo` runs the command, while another user's shell opens its redirections.
    is_lent: bool,
    lines: Lines,
    /// The folder of relative names.
    folder: Option<String>,
    /// The text of the `<<` that is read, and its first line.
    here: Option<(usize, String)>,
    /// Other scripts in progress: no script runs inside itself.
    open: Vec<String>,
    /// Output of the commands, if it is used.
    captures: Vec<String>,
    depth: usize,
    steps: usize,
    stops_on_error: bool,
    /// Whether the exit status is used (`if`, `||`), so that a failure does not end the script.
    is_asked: bool,
    variables: BTreeMap<String, String>,
    arrays: BTreeMap<String, Vec<String>>,
    functions: BTreeMap<String, Vec<Step>>,
    called: BTreeSet<String>,
    events: Vec<Event>,
}

/// Result of a command: success, and output. `None` is unknown.
#[derive(Debug, Clone, Default)]
struct Answer {
    worked: Option<bool>,
    output: Option<String>,
}

fn worked(output: impl Into<String>) -> Answer {
    Answer { worked: Some(true), output: Some(output.into()) }
}

fn answered(worked: bool) -> Answer {
    Answer { worked: Some(worked), output: Some(String::new()) }
}

/// Next step of the script.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Flow {
    /// The next command.
    On,
    /// The next iteration of the loop this many levels up; 1 is the innermost.
    Next(usize),
    /// After the loop this many levels up.
    Break(usize),
    /// After the call of the function.
    Return,
    /// The script ends.
    Ended,
}

impl Flow {
    /// The result of a shell keyword; `None` for other commands.
    fn from_command(words: &[String]) -> Option<Self> {
        let (name, arguments) = words.split_first()?;
        let loops = arguments.first().and_then(|count| count.parse().ok()).unwrap_or(1).max(1);
        match name.as_str() {
            "exit" => Some(Self::Ended),
            "return" => Some(Self::Return),
            "continue" => Some(Self::Next(loops)),
            "break" => Some(Self::Break(loops)),
            _ => None,
        }
    }

    /// The rest of it outside a loop whose body ended so; `None` if the loop continues.
    fn outside(self) -> Option<Self> {
        match self {
            Self::On | Self::Next(0 | 1) => None,
            Self::Next(loops) => Some(Self::Next(loops - 1)),
            Self::Break(0 | 1) => Some(Self::On),
            Self::Break(loops) => Some(Self::Break(loops - 1)),
            Self::Return | Self::Ended => Some(self),
        }
    }
}

/// Whether the name of a function, a file or a section means a rollback. Only whole words count: a preset resets nothing.
pub(super) fn takes_back(name: &str) -> bool {
    const VERBS: [&str; 12] = [
        "rollback",
        "rollbacks",
        "revert",
        "reverting",
        "restore",
        "restoring",
        "undo",
        "undoing",
        "reset",
        "resetting",
        "untune",
        "untuning",
    ];
    let words = words_of_name(name);
    words.iter().any(|word| VERBS.contains(&word.as_str()))
        || words.windows(2).any(|pair| matches!(pair[0].as_str(), "roll" | "rolling") && pair[1] == "back")
}

/// The words of a name in small letters, separated by non-letters and before capitals (`resetDisk`).
fn words_of_name(name: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut was_small = false;
    for c in name.chars() {
        if !c.is_alphabetic() || (was_small && c.is_uppercase()) {
            words.push(String::new());
        }
        if let (true, Some(word)) = (c.is_alphabetic(), words.last_mut()) {
            word.extend(c.to_lowercase());
        }
        was_small = c.is_lowercase();
    }
    words.retain(|word| !word.is_empty());
    words
}

/// Effects of a script on this host, and the lines that were followed.
#[derive(Debug, Default)]
pub(super) struct Ran {
    pub(super) events: Vec<Event>,
    pub(super) lines: Lines,
}

/// Lines of files whose setting names are accounted for.
#[derive(Debug, Default)]
pub(super) struct Lines {
    /// Their commands are known, for any name in them.
    pub(super) followed: BTreeSet<(String, usize)>,
    /// They pass words to other commands. Their names are accounted for if another line is followed.
    pub(super) words: BTreeSet<(String, usize)>,
}

impl Lines {
    pub(super) fn extend(&mut self, more: Self) {
        self.followed.extend(more.followed);
        self.words.extend(more.words);
    }
}

/// Effects of a script on this host.
pub(super) fn script(host: &Imagined<'_>, piece: &Piece) -> Ran {
    let mut runner = Runner::new(host, piece);
    runner.list(&parse(&unfilled(&piece.text, piece.is_guide), piece.line, 0), false);
    runner.functions_never_called();
    Ran { events: runner.events, lines: runner.lines }
}

/// The events of lines that are settings by themselves.
pub(super) fn settings(host: &Imagined<'_>, piece: &Piece, form: Form) -> Ran {
    let mut runner = Runner::new(host, piece);
    if form == Form::Rules {
        // The condition of a rule is not a setting, and its effect is reported for all of them.
        (0..piece.text.lines().count()).for_each(|at| runner.follow(piece.line + at));
    }
    if form == Form::Sysctl {
        // A name alone sets nothing, and is understood.
        sysctl_text::lines(&piece.text).iter().for_each(|line| runner.follow(piece.line + line.number - 1));
    }
    for said in stated(host, form, &piece.text) {
        runner.line = piece.line + said.line - 1;
        match said.what {
            Saying::Set { path, value, taken } if said.at_boot => {
                let taken = taken.unwrap_or_else(|| host.booted().tell(&path, &value));
                let file = "the kernel's command line".to_owned();
                runner.tell(What::Kept { path, value, taken, file });
            }
            Saying::Set { path, value, taken: Some(taken) } => {
                runner.tell(What::Set { path, value, before: None, taken });
            }
            Saying::Set { path, value, taken: None } => {
                // For people a text after a value is a remark; a file would pass it to the kernel.
                let value =
                    if piece.is_guide { value.split(" #").next().unwrap_or_default() } else { &value };
                runner.set(&path, value.trim());
            }
            Saying::Command(text) => {
                runner.list(&parse(&text, runner.line, 0), true);
            }
            Saying::Unclear { name, why } => runner.tell(What::Unclear { name, why }),
        }
    }
    Ran { events: runner.events, lines: runner.lines }
}

impl<'a, 'k> Runner<'a, 'k> {
    fn new(host: &'a Imagined<'k>, piece: &Piece) -> Self {
        Runner {
            host,
            file: piece.file.clone(),
            role: piece.role,
            line: piece.line,
            is_guide: piece.is_guide,
            is_bound: piece.is_bound,
            void: piece.void.clone(),
            is_lent: false,
            lines: Lines::default(),
            folder: None,
            here: None,
            open: Vec::new(),
            captures: Vec::new(),
            depth: 0,
            steps: 0,
            stops_on_error: false,
            is_asked: false,
            variables: [("EUID", "0"), ("UID", "0")]
                .map(|(name, text)| (name.to_owned(), text.to_owned()))
                .into(),
            arrays: BTreeMap::new(),
            functions: BTreeMap::new(),
            called: BTreeSet::new(),
            events: Vec::new(),
        }
    }
}

impl Runner<'_, '_> {
    fn tell(&mut self, what: What) {
        self.events.push(Event { file: self.file.clone(), line: self.line, role: self.role, what });
    }

    fn follow(&mut self, line: usize) {
        self.lines.followed.insert((self.file.clone(), line));
    }

    fn gives_words(&mut self, line: usize) {
        self.lines.words.insert((self.file.clone(), line));
    }

    /// Output of commands, as the result of all of them.
    fn captured(&mut self, run: impl FnOnce(&mut Self) -> (Flow, Answer)) -> (Flow, Answer) {
        self.captures.push(String::new());
        let (flow, answer) = run(self);
        (flow, Answer { output: self.captures.pop(), ..answer })
    }

    /// Passes a command's output to its reader.
    fn print(&mut self, answer: &Answer) {
        let unknown = UNKNOWN.to_string();
        let text = answer.output.as_ref().unwrap_or(&unknown);
        if let Some(capture) = self.captures.last_mut().filter(|_| answer.worked != Some(false)) {
            capture.push_str(if capture.len() + text.len() > LONGEST_TEXT { &unknown } else { text });
        }
    }

    /// Actions by a script's argument (`case "$1"`) are in functions, whose names show their purpose.
    fn functions_never_called(&mut self) {
        let names: Vec<String> = self.functions.keys().cloned().collect();
        let (back, forth): (Vec<String>, Vec<String>) = names.into_iter().partition(|name| takes_back(name));
        for name in forth.into_iter().chain(back) {
            if !self.called.contains(&name) {
                if takes_back(&name) {
                    self.role = Role::Rollback;
                }
                self.call(&name, &[]);
            }
        }
    }

    fn call(&mut self, name: &str, arguments: &[String]) -> (Flow, Answer) {
        let Some(body) = self.functions.get(name).cloned() else { return (Flow::On, Answer::default()) };
        self.called.insert(name.to_owned());
        if self.depth >= DEEPEST {
            return (Flow::On, Answer::default());
        }
        self.depth += 1;
        let before: Vec<Option<String>> = (1..10)
            .map(|at: usize| {
                let value = arguments.get(at - 1).cloned().unwrap_or_default();
                self.variables.insert(at.to_string(), value)
            })
            .collect();
        let (flow, answer) = self.list(&body, false);
        for (at, value) in (1_usize..).zip(before) {
            self.variables.insert(at.to_string(), value.unwrap_or_default());
        }
        self.depth -= 1;
        // Loops of the caller do not affect a function.
        let flow = if flow == Flow::Ended { flow } else { Flow::On };
        (flow, Answer { worked: answer.worked, output: None })
    }

    /// `is_asked`: the exit status is used, so a failure does not end the script, also inside called functions.
    fn list(&mut self, steps: &[Step], is_asked: bool) -> (Flow, Answer) {
        let before = self.is_asked;
        self.is_asked |= is_asked;
        let ended = self.steps_of(steps);
        self.is_asked = before;
        ended
    }

    fn steps_of(&mut self, steps: &[Step]) -> (Flow, Answer) {
        let mut last = answered(true);
        for (at, step) in steps.iter().enumerate() {
            self.steps += 1;
            if self.steps > MOST_STEPS {
                return (Flow::Ended, last);
            }
            let is_left_out = match step.joint {
                Joint::Then => false,
                Joint::And => last.worked == Some(false),
                Joint::Or => last.worked == Some(true),
            };
            if is_left_out {
                self.leave_out(std::slice::from_ref(step), true);
                continue;
            }
            let is_joined = steps.get(at + 1).is_some_and(|next| next.joint != Joint::Then);
            let was_asked = self.is_asked;
            self.is_asked |= is_joined || step.negated;
            self.line = step.line;
            let (flow, mut answer) = self.node(&step.node);
            self.is_asked = was_asked;
            let is_sure = step.joint == Joint::Then || last.worked.is_some();
            if flow != Flow::On && self.believes(is_sure) {
                return (flow, answer);
            }
            if step.negated {
                answer.worked = answer.worked.map(|worked| !worked);
            }
            let is_fatal = answer.worked == Some(false)
                && self.stops_on_error
                && !self.is_asked
                && !is_joined
                && !step.negated
                && matches!(step.node, Node::Pipe(_));
            last = answer;
            if is_fatal {
                let why = last.output.clone().unwrap_or_default();
                self.tell(What::Aborted { why });
                return (Flow::Ended, last);
            }
        }
        (Flow::On, last)
    }

    /// Whether an end under a condition counts: an extra setting is better than a missing one.
    fn believes(&self, is_sure: bool) -> bool {
        is_sure || self.steps > MOST_STEPS
    }

    fn node(&mut self, node: &Node) -> (Flow, Answer) {
        match node {
            Node::Pipe(commands) => self.pipe(commands),
            Node::Group(body) => self.list(body, false),
            Node::Subshell(body) => {
                let folder = self.folder.clone();
                let ended = self.list(body, false);
                self.folder = folder;
                ended
            }
            Node::Function(name, body) => {
                self.functions.insert(name.clone(), body.clone());
                (Flow::On, answered(true))
            }
            Node::For { name, words, body } => self.looped_over(name, words, body),
            Node::If(arms) => self.conditions(arms),
            Node::Loop(body) => {
                let (flow, answer) = self.list(body, false);
                (flow.outside().unwrap_or(Flow::On), answer)
            }
            Node::Case(arms) => {
                for (pattern, body) in arms {
                    let before = self.role;
                    if takes_back(pattern) {
                        self.role = Role::Rollback;
                    }
                    self.list(body, false);
                    self.role = before;
                }
                (Flow::On, Answer::default())
            }
        }
    }

    fn looped_over(&mut self, name: &str, words: &[Word], body: &[Step]) -> (Flow, Answer) {
        self.gives_words(self.line);
        let values: Vec<String> = words.iter().flat_map(|word| self.expand(word)).collect();
        for value in values {
            self.variables.insert(name.to_owned(), value);
            let (flow, answer) = self.list(body, false);
            if let Some(outside) = flow.outside() {
                return (outside, answer);
            }
        }
        (Flow::On, answered(true))
    }

    /// Lines of skipped parts. If they are surely skipped, they are accounted for, otherwise only lines that are followed elsewhere are.
    fn leave_out(&mut self, steps: &[Step], is_sure: bool) {
        for step in steps {
            self.steps += 1;
            if self.steps > MOST_STEPS {
                return;
            }
            self.left_out(step.line, is_sure);
            match &step.node {
                Node::Pipe(commands) => {
                    commands.iter().for_each(|command| self.leave_out_text(command, is_sure));
                }
                Node::If(arms) => arms.iter().for_each(|(_, body)| self.leave_out(body, is_sure)),
                Node::Case(arms) => arms.iter().for_each(|(_, body)| self.leave_out(body, is_sure)),
                Node::For { body, .. }
                | Node::Loop(body)
                | Node::Function(_, body)
                | Node::Group(body)
                | Node::Subshell(body) => self.leave_out(body, is_sure),
            }
        }
    }

    fn left_out(&mut self, line: usize, is_sure: bool) {
        if is_sure {
            self.follow(line);
        } else {
            self.gives_words(line);
        }
    }

    fn leave_out_text(&mut self, command: &Simple, is_sure: bool) {
        let lines = |part: &Part| match part {
            Part::Text { text, .. } => text.matches('\n').count(),
            _ => 0,
        };
        let count: usize = command.input.iter().flatten().map(lines).sum();
        for line in command.here.into_iter().flat_map(|first| first..first + count) {
            self.left_out(line, is_sure);
        }
    }

    fn conditions(&mut self, arms: &[(Vec<Step>, Vec<Step>)]) -> (Flow, Answer) {
        for (at, (condition, body)) in arms.iter().enumerate() {
            let (flow, answer) = self.list(condition, true);
            if flow != Flow::On {
                return (flow, answer);
            }
            // An unknown condition counts as true, unless it ends the script.
            if answer.worked == Some(false) {
                // A missing attribute can't be set; any other condition may be true on the next host.
                self.leave_out(body, asks_for_a_file(condition));
            } else {
                arms.iter().skip(at + 1).for_each(|(_, other)| self.leave_out(other, false));
                let (flow, came) = self.list(body, false);
                let is_believed = self.believes(answer.worked.is_some());
                return (if is_believed { flow } else { Flow::On }, came);
            }
        }
        (Flow::On, answered(true))
    }

    fn pipe(&mut self, commands: &[Simple]) -> (Flow, Answer) {
        let mut input = None;
        let mut answer = Answer::default();
        for command in commands {
            let own = command.input.as_ref().map(|word| self.text_of(word));
            self.here = command.here.zip(own.clone());
            let flow;
            (flow, answer) = self.simple(command, own.or(input));
            if flow != Flow::On {
                return (flow, answer);
            }
            input = Some(answer.output.clone().unwrap_or_else(|| UNKNOWN.to_string()));
        }
        self.print(&answer);
        (Flow::On, answer)
    }

    fn simple(&mut self, command: &Simple, input: Option<String>) -> (Flow, Answer) {
        let words: Vec<String> = command.words.iter().flat_map(|word| self.expand(word)).collect();
        self.assign(command);
        let (flow, mut answer) = match &command.body {
            Some(body) => self.captured(|runner| runner.node(body)),
            None => {
                let Some(words) = without_prefixes(&words) else { return (Flow::On, answered(true)) };
                if let Some(flow) = Flow::from_command(words) {
                    let is_code = matches!(flow, Flow::Ended | Flow::Return);
                    let code = words.get(1).filter(|_| is_code).map_or(Ok(0), |code| code.parse::<i64>());
                    let worked = code.ok().map(|code| code == 0);
                    return (flow, Answer { worked, output: Some(String::new()) });
                }
                self.named(words, input)
            }
        };
        self.is_lent = matches!(words.first().map(String::as_str), Some("sudo" | "doas"));
        for (append, target) in &command.outputs {
            let target = self.text_of(target);
            let text = answer.output.take();
            if let Some(worked) = self.write(&target, text.as_deref(), *append) {
                answer = worked;
            }
        }
        self.is_lent = false;
        (flow, answer)
    }

    /// A function or a command.
    fn named(&mut self, words: &[String], input: Option<String>) -> (Flow, Answer) {
        match words.split_first() {
            Some((name, arguments)) if self.functions.contains_key(name) => {
                let line = self.line;
                self.gives_words(line);
                let came = self.captured(|runner| runner.call(name, arguments));
                self.line = line;
                came
            }
            _ => (Flow::On, self.command(words, input)),
        }
    }

    fn assign(&mut self, command: &Simple) {
        for (name, word) in &command.sets {
            self.gives_words(self.line);
            let value = self.text_of(word);
            self.variable(name, value);
        }
        for (name, words) in &command.arrays {
            words.iter().for_each(|(line, _)| self.gives_words(*line));
            let values: Vec<String> = words.iter().flat_map(|(_, word)| self.expand(word)).collect();
            let bare = name.trim_end_matches('+');
            let before = self.arrays.remove(bare).filter(|_| bare.len() < name.len()).unwrap_or_default();
            let all: Vec<String> = before.into_iter().chain(values).collect();
            let is_short = all.iter().map(String::len).sum::<usize>() + all.len() < LONGEST_TEXT;
            self.arrays.insert(bare.to_owned(), if is_short { all } else { vec![UNKNOWN.to_string()] });
        }
    }

    fn variable(&mut self, name: &str, value: String) {
        let bare = name.trim_end_matches('+');
        let before = self.variables.get(bare).filter(|_| bare.len() < name.len()).cloned();
        let whole = before.unwrap_or_default() + &value;
        let whole = if whole.len() < LONGEST_TEXT { whole } else { UNKNOWN.to_string() };
        self.variables.insert(bare.to_owned(), whole);
    }

    /// The path that a word means on this host; `None` for a name in an unknown folder.
    fn path(&self, word: &str) -> Option<String> {
        let path = match &self.folder {
            Some(folder) if !word.starts_with('/') => normal(&format!("/{folder}/{word}"))?,
            _ => normal(word)?,
        };
        Some(paths::canonical(self.host, &path))
    }

    /// Writes a text into a file or a setting. `None` if the target does not matter.
    fn write(&mut self, target: &str, text: Option<&str>, append: bool) -> Option<Answer> {
        let path = self.path(target)?;
        if path.starts_with("dev/") {
            return None;
        }
        let is_unknown = target.contains(UNKNOWN) || text.is_none_or(|text| text.contains(UNKNOWN));
        if path.starts_with("proc/irq/") || (is_unknown && is_attribute(&path)) {
            self.unclear(Some(&path), format!("the text written to {}", readable(target)));
            return None;
        }
        if is_attribute(&path) {
            // A container's own /sys is read-only; one mounted elsewhere is the host's.
            let was_bound = self.is_bound;
            self.is_bound &= target.starts_with("/sys/") || target.starts_with("/proc/");
            let answer = self.set(&path, text.unwrap_or_default());
            self.is_bound = was_bound;
            return Some(answer);
        }
        let text = text.unwrap_or(UNKNOWN_TEXT);
        if let Some(why) = self.refusal().filter(|_| self.is_lent && is_for_a_boot(&path)) {
            self.refused_lines(&path, text, why);
            return Some(answered(false));
        }
        self.put(&path, text, append);
        let is_lost = |line: &str| line.contains(UNKNOWN) && !line.contains('=');
        if Form::of_path(&path).is_some_and(|form| form != Form::Unit) && text.lines().any(is_lost) {
            self.missing(&format!("the text written to {}", readable(target)), "comes from elsewhere");
        }
        self.host.put(&path, text, append);
        None
    }

    /// Reports settings of lines that never get into their file.
    fn refused_lines(&mut self, path: &str, text: &str, why: &str) {
        let form = Form::of_path(path);
        for said in form.map(|form| stated(self.host, form, text)).unwrap_or_default() {
            if let Saying::Set { path: of, value, .. } = said.what {
                let (taken, file) = (Taken::Refused(why.to_owned()), format!("/{path}"));
                self.tell(What::Kept { path: of, value, taken, file });
            }
        }
    }

    /// Reports a text that is written into a settings file; other files do not matter.
    fn put(&mut self, path: &str, text: &str, append: bool) {
        if is_for_a_boot(path) {
            let here = self.here.as_ref().filter(|(_, here)| here == text);
            let begins = here.map(|(line, _)| *line);
            self.tell(What::Put { path: path.to_owned(), text: text.to_owned(), append, begins });
        }
    }

    /// Reports a missing settings file.
    fn missing(&mut self, file: &str, how: &str) {
        let why = format!("{} {how}: pass that file, too", readable(file));
        self.tell(What::Unclear { name: None, why });
    }

    fn unclear(&mut self, path: Option<&str>, what: String) {
        let name = path.filter(|path| !path.contains(UNKNOWN)).map(|path| name_of(path).0);
        self.tell(What::Unclear {
            name,
            why: format!("Hone can't determine {what} without running the script"),
        });
    }

    /// A write of a setting, and the kernel's result.
    fn set(&mut self, path: &str, text: &str) -> Answer {
        if path.contains(UNKNOWN) || text.contains(UNKNOWN) {
            self.unclear(Some(path), format!("the value written to /{}", readable(path)));
            return Answer::default();
        }
        if let Some(why) = self.void.clone() {
            let value = text.trim_end_matches('\n').to_owned();
            self.tell(What::Set { path: path.to_owned(), value, before: None, taken: Taken::Elsewhere(why) });
            return answered(true);
        }
        if let Some(why) = self.refusal() {
            let value = text.trim_end_matches('\n').to_owned();
            let taken = Taken::Refused(why.to_owned());
            self.tell(What::Set { path: path.to_owned(), value, before: None, taken });
            return answered(false);
        }
        if !self.host.is_known(path) {
            self.unclear(Some(path), format!("the value of /{path} on this host"));
            return Answer::default();
        }
        let before = self.host.read(path).ok().map(|text| plain_value(&text));
        let taken = self.host.tell(path, text);
        let why = match &taken {
            Taken::Refused(why) => Some(format!("/{path}: {why}")),
            Taken::Whole | Taken::Otherwise(_) | Taken::Elsewhere(_) => None,
        };
        let value = text.trim_end_matches('\n').to_owned();
        self.tell(What::Set { path: path.to_owned(), value, before, taken });
        Answer { worked: Some(why.is_none()), output: Some(why.unwrap_or_default()) }
    }

    /// Why no write of this command reaches the kernel.
    fn refusal(&self) -> Option<&'static str> {
        if self.is_bound {
            Some("/proc/sys and /sys are read-only in an unprivileged container (EROFS)")
        } else if self.is_lent {
            Some("the shell opens this file before sudo runs, without root's rights: write `| sudo tee`")
        } else {
            None
        }
    }

    fn command(&mut self, words: &[String], input: Option<String>) -> Answer {
        let Some((name, arguments)) = words.split_first() else { return answered(true) };
        if let Some(line) = sysctl_text::line(1, &words.join(" ")).filter(|line| self.is_setting(line)) {
            return self.bare_setting(line);
        }
        self.follow(self.line);
        match name.rsplit('/').next().unwrap_or_default() {
            "echo" => worked(echoed(arguments)),
            "printf" => worked(printed(arguments)),
            "cat" => self.cat(arguments, input),
            "tee" => self.tee(arguments, input),
            "sh" | "bash" | "dash" | "zsh" | "ash" => self.inner_shell(arguments, input),
            "source" | "." => self.other_script(arguments.first().map_or("", String::as_str)),
            "cd" | "pushd" => {
                self.folder = arguments.first().and_then(|folder| self.path(folder));
                answered(true)
            }
            "sysctl" => self.sysctl(arguments, input),
            "systemctl" => self.systemctl(arguments),
            "tuned-adm" => self.tuned(arguments),
            "swapoff" => {
                self.tell(What::SwapOff);
                answered(true)
            }
            "blockdev" => self.blockdev(arguments),
            "grep" => self.grep(arguments),
            "sed" => self.sed(arguments),
            "[" | "[[" | "test" => self.test(arguments),
            "set" => self.set_options(arguments),
            "basename" => {
                let name = arguments.first().map(|path| path.rsplit('/').next().unwrap_or_default());
                worked(name.unwrap_or_default())
            }
            "id" => worked("0\n"),
            "ls" | "lsblk" => self.disks(name, arguments),
            "rm" => self.remove(arguments),
            "cp" | "mv" | "install" | "ln" | "rsync" => self.copy(arguments),
            "local" | "export" | "readonly" | "declare" => self.declare(arguments),
            "true" | ":" | "chmod" | "chown" | "mkdir" | "sleep" | "logger" | "sync" | "touch" => {
                answered(true)
            }
            "udevadm" => {
                if arguments.iter().any(|word| word == "trigger") {
                    self.load_new(|path| path.starts_with("sys/block/"));
                }
                answered(true)
            }
            "systemd-tmpfiles" => {
                if arguments.iter().any(|word| word == "--create") {
                    self.load_new(|path| path.starts_with("sys/"));
                }
                answered(true)
            }
            "grubby" => {
                let given = arguments.iter().filter_map(|word| word.strip_prefix("--args="));
                let words: Vec<&str> = given.chain(arguments.iter().map(String::as_str)).collect();
                self.command_line(&words.join(" "), "the kernel's command line");
                answered(true)
            }
            "false" => answered(false),
            "shift" | "command" | "type" | "which" | "read" | "head" | "tail" | "awk" | "cut" | "wc"
            | "watch" | "stat" | "sort" | "diff" | "uname" | "nproc" | "date" | "hostname"
            | "update-grub" | "grub2-mkconfig" => Answer::default(),
            _ => {
                self.lines.followed.remove(&(self.file.clone(), self.line));
                self.foreign(words)
            }
        }
    }

    /// An unknown command; it is reported if it seems to concern settings.
    fn foreign(&mut self, words: &[String]) -> Answer {
        const PLACES: [&str; 8] = [
            "/sys/block",
            "/sys/class/net",
            "/sys/class/block",
            "/sys/devices/system/",
            "/proc/sys/",
            "/proc/irq",
            "transparent_hugepage",
            "sysctl",
        ];
        let Some((name, arguments)) = words.split_first() else { return answered(true) };
        if name.ends_with(".sh") || self.path(name).is_some_and(|path| self.host.is_written(&path)) {
            return self.other_script(name);
        }
        let is_about = |word: &String| PLACES.iter().any(|place| word.contains(place));
        if words.iter().any(is_about) {
            self.unclear(None, format!("the command `{}`", readable(&words.join(" "))));
        } else if is_tuner(name.rsplit('/').next().unwrap_or_default(), arguments) {
            let why = format!("`{}` changes settings that Hone does not follow", readable(&words.join(" ")));
            self.tell(What::Unclear { name: None, why });
        }
        Answer::default()
    }

    /// The text of a file of the simulated host, or of a given one with that name, and whether it is given.
    fn file_text(&self, word: &str) -> Option<(String, bool)> {
        let own = self.path(word).and_then(|path| self.host.read(&path).ok()).map(|text| (text, false));
        own.or_else(|| self.host.given(word).map(|(_, text)| (text.clone(), true)))
    }

    /// Another script that this one runs or reads.
    fn other_script(&mut self, word: &str) -> Answer {
        const OF_THE_SYSTEM: [&str; 7] = [
            "/etc/os-release",
            "/etc/lsb-release",
            "/lib/lsb/",
            "/etc/default/",
            "/etc/sysconfig/",
            "/etc/profile",
            "/etc/rc.d/init.d/functions",
        ];
        let name = word.rsplit('/').next().unwrap_or_default();
        let is_of_the_system = OF_THE_SYSTEM.iter().any(|place| word.starts_with(place))
            || ["/activate", ".bashrc", ".profile", ".env"].iter().any(|end| word.ends_with(end))
            || ["kafka-", "zookeeper-"].iter().any(|own| name.starts_with(own));
        let is_open = self.open.iter().any(|open| open == name);
        if word.is_empty() || is_of_the_system || is_open || self.depth >= DEEPEST {
            return Answer::default();
        }
        let Some((text, is_given)) = self.file_text(word) else {
            self.tell(What::Script(readable(word)));
            return Answer::default();
        };
        let (file, line, role, first) = (self.file.clone(), self.line, self.role, self.events.len());
        if let Some((name, _)) = self.host.given(word).filter(|_| is_given) {
            // A script that starts itself, for example by a unit that it writes, has no further effect.
            if *name == file {
                return Answer::default();
            }
            self.file.clone_from(name);
        }
        if takes_back(word) {
            self.role = Role::Rollback;
        }
        self.depth += 1;
        self.open.push(name.to_owned());
        let (_, answer) = self.captured(|runner| runner.list(&parse(&text, 1, 0), true));
        self.open.pop();
        self.depth -= 1;
        if !is_given {
            // The script that writes it is available, but its lines differ from this text's.
            self.events.iter_mut().skip(first).for_each(|event| event.line = line);
        }
        (self.file, self.line, self.role) = (file, line, role);
        answer
    }

    /// Whether a line concerns the kernel, and is not another language.
    fn is_setting(&self, line: &sysctl_text::Line) -> bool {
        line.value.is_some() && (is_sysctl(&name_of(&line.path).0) || self.host.exists(&line.path))
    }

    /// `vm.swappiness=1` in the place of a command: a guide means the setting, but a shell searches a program with this name.
    fn bare_setting(&mut self, line: sysctl_text::Line) -> Answer {
        let Some(value) = line.value else { return Answer::default() };
        self.follow(self.line);
        if self.is_guide {
            return self.set(&line.path, &value);
        }
        let why =
            "a shell runs this as a command and does not find it: write `sysctl -w` before it".to_owned();
        self.tell(What::Set { path: line.path, value, before: None, taken: Taken::Refused(why.clone()) });
        Answer { worked: Some(false), output: Some(why) }
    }

    /// Applies new lines of files, as if the host had just booted.
    fn load_new(&mut self, is_one: impl Fn(&str) -> bool) {
        for new in self.host.new_origins().into_iter().filter(|origin| is_one(&origin.path)) {
            self.set(&new.path, &new.value);
        }
    }

    /// Words of the kernel's command line, which take effect at the next boot.
    fn command_line(&mut self, words: &str, file: &str) -> bool {
        let said = command_line(self.host, 1, words);
        for one in &said {
            if let Saying::Set { path, value, taken } = &one.what {
                let taken = taken.clone().unwrap_or_else(|| self.host.booted().tell(path, value));
                let kept =
                    What::Kept { path: path.clone(), value: value.clone(), taken, file: file.to_owned() };
                self.tell(kept);
            }
        }
        !said.is_empty()
    }

    fn cat(&self, arguments: &[String], input: Option<String>) -> Answer {
        let files: Vec<&String> =
            arguments.iter().filter(|word| !word.starts_with('-') && *word != "/dev/stdin").collect();
        if files.is_empty() {
            return Answer { worked: Some(true), output: input };
        }
        let texts: Option<Vec<String>> =
            files.iter().map(|file| self.file_text(file).map(|(text, _)| text)).collect();
        Answer { worked: texts.as_ref().map(|_| true), output: texts.map(|texts| texts.concat()) }
    }

    fn tee(&mut self, arguments: &[String], input: Option<String>) -> Answer {
        let append = arguments.iter().any(|word| word == "-a" || word == "--append");
        let mut answer = Answer { worked: Some(true), output: input.clone() };
        for target in arguments.iter().filter(|word| !word.starts_with('-')) {
            if let Some(came) = self.write(target, input.as_deref(), append) {
                answer.worked = Some(answer.worked == Some(true) && came.worked == Some(true));
                if came.worked == Some(false) {
                    answer.output = came.output;
                }
            }
        }
        answer
    }

    /// `bash -c TEXT`, `bash FILE`, and a text from a pipe.
    fn inner_shell(&mut self, arguments: &[String], input: Option<String>) -> Answer {
        let is_text = |word: &String| word.starts_with('-') && !word.starts_with("--") && word.ends_with('c');
        let text = match arguments.iter().position(is_text) {
            Some(at) => arguments.get(at + 1).cloned(),
            None => match arguments.iter().find(|word| !word.starts_with('-')) {
                Some(file) => return self.other_script(file),
                None => input,
            },
        };
        let Some(text) = text.filter(|_| self.depth < DEEPEST) else { return Answer::default() };
        if text.trim_matches([UNKNOWN, ' ', '\n']).is_empty() && text.contains(UNKNOWN) {
            self.missing("a script for this shell", "comes from elsewhere");
            return Answer::default();
        }
        self.depth += 1;
        let first = self.here.as_ref().filter(|(_, here)| *here == text).map_or(self.line, |(line, _)| *line);
        let steps = parse(&text, first, self.depth);
        let (_, answer) = self.captured(|runner| runner.list(&steps, true));
        self.depth -= 1;
        answer
    }

    fn sysctl(&mut self, arguments: &[String], input: Option<String>) -> Answer {
        let mut answer = answered(true);
        if arguments.iter().any(|word| word == "--system") {
            self.load_new(|path| path.starts_with("proc/sys/"));
            return answer;
        }
        if let Some((name, value)) = parted_setting(arguments) {
            let why = "sysctl reads NAME=VALUE as one word and rejects these words".to_owned();
            let (path, value) = (sysctl_text::path_of(name), value.to_owned());
            self.tell(What::Set { path, value, before: None, taken: Taken::Refused(why.clone()) });
            return Answer { worked: Some(false), output: Some(why) };
        }
        let mut loads = false;
        let mut file = None;
        for word in arguments {
            if let Some(given) = word.strip_prefix("--load=") {
                (loads, file) = (true, Some(given.to_owned()));
            } else if matches!(word.as_str(), "-p" | "-f" | "--load") {
                loads = true;
            } else if word.starts_with('-') && word != "-" {
            } else if loads {
                file = Some(word.clone());
            } else if let Some((name, value)) = word.split_once('=') {
                let came = self.set(&sysctl_text::path_of(name), value.trim());
                if came.worked == Some(false) {
                    answer = came;
                }
            } else {
                let text = self.host.read(&sysctl_text::path_of(word)).unwrap_or_default();
                let is_bare = arguments.iter().any(|word| word == "-n");
                let text = plain_value(&text);
                answer = worked(if is_bare { text } else { format!("{word} = {text}") });
            }
        }
        if loads {
            answer = self.load_file(file.as_deref(), input);
        }
        answer
    }

    fn load_file(&mut self, file: Option<&str>, input: Option<String>) -> Answer {
        let text = match file {
            None => self.host.read("etc/sysctl.conf").unwrap_or_default(),
            Some("-" | "/dev/stdin") => input.unwrap_or_else(|| UNKNOWN.to_string()),
            Some(file) => match self.file_text(file) {
                Some((text, _)) => text,
                None => {
                    self.missing(file, "is a settings file that is loaded here");
                    return Answer::default();
                }
            },
        };
        if text.lines().any(|line| line.trim() == UNKNOWN_TEXT) {
            self.missing("a settings text that is loaded here", "comes from elsewhere");
        }
        self.load(&text)
    }

    /// Lines of a sysctl file. Text after the first word of a value is a remark for people, but a part of the value for the kernel.
    fn load(&mut self, text: &str) -> Answer {
        let mut answer = answered(true);
        for wish in sysctl_text::wishes(self.host, &sysctl_text::lines(text)) {
            let came = self.set(&wish.path, &wish.value);
            if came.worked == Some(false) && !wish.may_fail {
                answer = came;
            }
        }
        answer
    }

    fn systemctl(&mut self, arguments: &[String]) -> Answer {
        let mut words = arguments.iter().filter(|word| !word.starts_with('-'));
        let Some(verb) = words.next() else { return answered(true) };
        let starts = arguments.iter().any(|word| word == "--now");
        for name in words {
            let name = if name.contains('.') { name.clone() } else { format!("{name}.service") };
            self.tell(What::Unit { verb: verb.clone(), name: name.clone() });
            if name == "systemd-sysctl.service" && matches!(verb.as_str(), "restart" | "start") {
                self.load_new(|path| path.starts_with("proc/sys/"));
            }
            if name == "tuned.service" && matches!(verb.as_str(), "enable" | "start" | "restart") {
                self.missing("the tuned.conf of the profile that tuned sets here", "is not known");
            }
            let starts = starts && verb == "enable";
            if starts {
                self.tell(What::Unit { verb: "start".to_owned(), name: name.clone() });
            }
            if starts || matches!(verb.as_str(), "start" | "restart") {
                self.started(&name);
            }
        }
        answered(true)
    }

    /// Effects of a unit that the texts have written.
    fn started(&mut self, name: &str) {
        let path = format!("etc/systemd/system/{name}");
        let text = self.host.read(&path).ok().filter(|_| self.host.is_written(&path) && self.depth < DEEPEST);
        let (line, first) = (self.line, self.events.len());
        self.depth += 1;
        for (_, command) in unit_commands(&text.unwrap_or_default()) {
            let _ = self.captured(|runner| runner.list(&parse(&command, line, 0), true));
        }
        self.depth -= 1;
        self.events.iter_mut().skip(first).for_each(|event| event.line = line);
        self.line = line;
    }

    fn tuned(&mut self, arguments: &[String]) -> Answer {
        match arguments.first().map(String::as_str) {
            Some("profile") => {
                let name = arguments.get(1).cloned().unwrap_or_default();
                self.tell(What::Profile(name.clone()));
                self.tuned_profile(&name);
            }
            Some("off") => self.tell(What::Profile(String::new())),
            _ => {}
        }
        answered(true)
    }

    /// tuned applies a profile as soon as it is chosen.
    fn tuned_profile(&mut self, name: &str) {
        let Some((_, text)) = tuned_text(self.host, name) else {
            return self.missing(&format!("the tuned.conf of the profile {name}"), "is not on this host");
        };
        for said in stated(self.host, Form::Tuned, &text) {
            match said.what {
                Saying::Set { .. } if said.at_boot => {}
                Saying::Set { path, value, taken: None } => {
                    self.set(&path, &value);
                }
                Saying::Set { path, value, taken: Some(taken) } => {
                    self.tell(What::Set { path, value, before: None, taken });
                }
                Saying::Unclear { name, why } => self.tell(What::Unclear { name, why }),
                Saying::Command(_) => {}
            }
        }
    }

    /// `blockdev --setra 512 /dev/vda`: sectors of 512 bytes. For a partition, the kernel applies it to the whole disk.
    fn blockdev(&mut self, arguments: &[String]) -> Answer {
        let Some(at) = arguments.iter().position(|word| matches!(word.as_str(), "--setra" | "--setfra"))
        else {
            return Answer::default();
        };
        let sectors = arguments.get(at + 1).and_then(|count| count.parse::<u64>().ok());
        for device in arguments.iter().skip(at + 2).filter(|word| !word.starts_with('-')) {
            match (device.strip_prefix("/dev/"), sectors) {
                (Some(name), Some(sectors)) if !name.contains([UNKNOWN, '/']) => {
                    let disk = paths::disk_of(self.host, name);
                    self.set(&format!("sys/block/{disk}/queue/read_ahead_kb"), &(sectors / 2).to_string());
                }
                _ => {
                    let path = format!("sys/block/{ANY}/queue/read_ahead_kb");
                    self.unclear(
                        Some(&path),
                        format!("the readahead or the disk of `blockdev` for {}", readable(device)),
                    );
                }
            }
        }
        answered(true)
    }

    fn grep(&mut self, arguments: &[String]) -> Answer {
        let mut words = arguments.iter().filter(|word| !word.starts_with('-'));
        let (Some(pattern), Some(file)) = (words.next(), words.next().and_then(|file| self.path(file)))
        else {
            return Answer::default();
        };
        let text = self.host.read(&file).unwrap_or_default();
        let found = text.lines().any(|line| has(pattern, line));
        self.follow(self.line);
        if file.starts_with("etc/sysctl") {
            self.tell(What::Guarded { text: plain_text(pattern), file, found });
        }
        answered(found)
    }

    /// `sed -i '/vm.swappiness/d' FILE`; other edits of settings files are not computed.
    fn sed(&mut self, arguments: &[String]) -> Answer {
        let in_place = arguments.iter().any(|word| word.starts_with("-i") || word == "--in-place");
        let words: Vec<&String> =
            arguments.iter().filter(|word| !word.starts_with('-') && !word.is_empty()).collect();
        let (Some(file), true) = (words.last().and_then(|file| self.path(file)), in_place) else {
            return Answer::default();
        };
        let form = Form::of_path(&file);
        let Some(mut text) = self.host.read(&file).ok().or_else(|| form.map(|_| String::new())) else {
            return answered(false);
        };
        for edit in words.iter().take(words.len() - 1).flat_map(|word| word.split(';')) {
            let pattern = edit.trim().strip_prefix('/').and_then(|edit| edit.strip_suffix("/d"));
            let Some(pattern) = pattern else {
                match form {
                    Some(Form::Grub)
                        if self.command_line(
                            &edit.replace(['"', '/', '|', '&', '\\', '\u{1}'], " "),
                            &format!("/{file}"),
                        ) => {}
                    Some(Form::Sysctl) if replacement(edit).is_some() => {
                        text = self.replace(&text, &file, edit);
                    }
                    Some(_) => self.unclear(None, format!("the edit `{}` of /{file}", readable(edit))),
                    None => {}
                }
                continue;
            };
            self.put(&file, "", false);
            text = text
                .lines()
                .filter(|line| !has(pattern, line))
                .fold(String::new(), |text, line| text + line + "\n");
        }
        self.host.put(&file, &text, false);
        answered(true)
    }

    /// `s/^vm.swappiness.*/vm.swappiness = 1/`: lines with the pattern become the setting.
    fn replace(&mut self, text: &str, file: &str, edit: &str) -> String {
        let Some((pattern, line)) = replacement(edit) else { return text.to_owned() };
        let found = text.lines().any(|line| has(pattern, line));
        if found {
            self.put(file, &format!("{line}\n"), false);
        } else {
            self.tell(What::Guarded { text: plain_text(pattern), file: file.to_owned(), found });
        }
        let new = |old: &str| if has(pattern, old) { line.to_owned() } else { old.to_owned() };
        text.lines().map(new).fold(String::new(), |text, line| text + &line + "\n")
    }

    fn test(&self, arguments: &[String]) -> Answer {
        let words: Vec<&str> =
            arguments.iter().map(String::as_str).filter(|word| !matches!(*word, "]" | "]]")).collect();
        let is_unknown = words.iter().any(|word| word.contains(UNKNOWN));
        let (turned, words) = match words.split_first() {
            Some((&"!", rest)) => (true, rest),
            _ => (false, words.as_slice()),
        };
        let holds = match words {
            _ if is_unknown => None,
            ["-f" | "-e" | "-d" | "-w" | "-r" | "-b" | "-s" | "-x", path] => self.is_there(path),
            ["-n", text] => Some(!text.is_empty()),
            ["-z", text] => Some(text.is_empty()),
            [one, "=" | "==" | "-eq", other] => Some(one == other),
            [one, "!=" | "-ne", other] => Some(one != other),
            _ => None,
        };
        Answer { worked: holds.map(|holds| holds != turned), output: Some(String::new()) }
    }

    fn is_there(&self, path: &str) -> Option<bool> {
        let path = self.path(path)?;
        match path.strip_prefix("dev/") {
            Some(disk) => Some(self.host.exists(&format!("sys/block/{disk}"))),
            None => Some(self.host.exists(&path)),
        }
    }

    fn set_options(&mut self, arguments: &[String]) -> Answer {
        for (at, word) in arguments.iter().enumerate() {
            let named = || arguments.get(at + 1).is_some_and(|name| name == "errexit");
            let is_short = |sign: char| word.starts_with(sign) && word.contains('e');
            if is_short('-') || (word == "-o" && named()) {
                self.stops_on_error = true;
            } else if is_short('+') {
                self.stops_on_error = false;
            }
        }
        answered(true)
    }

    fn disks(&self, name: &str, arguments: &[String]) -> Answer {
        let is_of_disks = name.ends_with("lsblk") && arguments.iter().any(|word| word.contains('n'))
            || arguments.iter().any(|word| word.trim_end_matches('/') == "/sys/block");
        if is_of_disks { worked(self.host.list("sys/block").join("\n")) } else { Answer::default() }
    }

    fn remove(&mut self, arguments: &[String]) -> Answer {
        let words = arguments.iter().filter(|word| !word.starts_with('-'));
        for path in words.filter_map(|path| self.path(path)).collect::<Vec<_>>() {
            self.put(&path, "", false);
            self.host.delete(&path);
        }
        answered(true)
    }

    /// `cp`, `mv`, `install`, `ln -s`: each file goes to the last argument, or into that folder.
    fn copy(&mut self, arguments: &[String]) -> Answer {
        const WITH_A_WORD: [&str; 4] = ["-m", "-o", "-g", "-S"];
        let is_word_of_an_option = |at: usize| {
            at > 0 && arguments.get(at - 1).is_some_and(|word| WITH_A_WORD.contains(&word.as_str()))
        };
        let words = arguments.iter().enumerate().filter(|(at, _)| !is_word_of_an_option(*at));
        let words: Vec<&String> = words.map(|(_, word)| word).filter(|word| !word.starts_with('-')).collect();
        let Some((to, sources)) = words.split_last() else { return answered(true) };
        let Some(target) = self.path(to) else { return answered(true) };
        for source in sources {
            let name = source.rsplit('/').next().unwrap_or_default();
            let inside = format!("{target}/{name}");
            let is_folder =
                to.ends_with('/') || Form::of_path(&target).is_none() && Form::of_path(&inside).is_some();
            let path = if is_folder { inside } else { target.clone() };
            match self.file_text(source) {
                Some((text, _)) => {
                    self.put(&path, &text, false);
                    self.host.put(&path, &text, false);
                }
                None if Form::of_path(&path).is_some() => {
                    self.missing(source, &format!("becomes /{}", readable(&path)));
                }
                None => {}
            }
        }
        answered(true)
    }

    fn declare(&mut self, arguments: &[String]) -> Answer {
        for (name, value) in arguments.iter().filter_map(|word| word.split_once('=')) {
            self.variables.insert(name.to_owned(), value.to_owned());
        }
        answered(true)
    }

    /// A word as one text.
    fn text_of(&mut self, word: &Word) -> String {
        let mut text = String::new();
        for part in word {
            match part {
                Part::Text { text: plain, .. } => text += plain,
                Part::Unknown => text.push(UNKNOWN),
                Part::Variable { name, edit } => text += &self.value(name, edit),
                Part::Output(steps) => text += &self.output(steps),
            }
            if text.len() > LONGEST_TEXT {
                return UNKNOWN.to_string();
            }
        }
        text
    }

    fn value(&self, name: &str, edit: &str) -> String {
        if let Some(key) = edit.strip_prefix('[').and_then(|edit| edit.strip_suffix(']')) {
            return self.element(name, key);
        }
        let value = self.variables.get(name).filter(|value| !value.is_empty());
        let Some(value) = value else {
            return edit.strip_prefix(":-").map_or_else(|| UNKNOWN.to_string(), str::to_owned);
        };
        if edit == "##*/" { value.rsplit('/').next().unwrap_or_default().to_owned() } else { value.clone() }
    }

    /// `${NAME[KEY]}`: the texts of several elements in a row.
    fn element(&self, name: &str, key: &str) -> String {
        let words = self.arrays.get(name).map(Vec::as_slice).unwrap_or_default();
        let key = key.strip_prefix('$').map_or_else(|| key.to_owned(), |name| self.value(name, ""));
        let at = key.parse().ok().and_then(|at: usize| words.get(at));
        let named = || words.iter().find_map(|word| word.strip_prefix(&format!("[{key}]=")));
        match key.as_str() {
            "@" | "*" if !words.is_empty() => words.join(" "),
            _ => at.map(String::as_str).or_else(named).unwrap_or(UNKNOWN_TEXT).to_owned(),
        }
    }

    /// The words of `"${NAME[@]}"`, or the keys of `"${!NAME[@]}"`.
    fn elements(&self, word: &Word) -> Option<Vec<String>> {
        let is_empty = |part: &&Part| matches!(part, Part::Text { text, .. } if text.is_empty());
        let mut parts = word.iter().filter(|part| !is_empty(part));
        let (Some(Part::Variable { name, edit }), None) = (parts.next(), parts.next()) else { return None };
        match edit.as_str() {
            "[@]" | "[*]" => self.arrays.get(name).cloned(),
            _ => {
                let named = edit.strip_prefix('!')?.strip_suffix("[@]")?;
                let key = |word: &String| Some(word.strip_prefix('[')?.split_once("]=")?.0.to_owned());
                self.arrays.get(named)?.iter().map(key).collect()
            }
        }
    }

    fn output(&mut self, steps: &[Step]) -> String {
        if self.depth >= DEEPEST {
            return UNKNOWN.to_string();
        }
        let line = self.line;
        self.depth += 1;
        let (_, answer) = self.captured(|runner| runner.list(steps, true));
        self.depth -= 1;
        self.line = line;
        answer.output.map_or_else(|| UNKNOWN.to_string(), |text| text.trim_end_matches('\n').to_owned())
    }

    /// The words that a shell makes of a word: split at spaces, patterns replaced by matching names.
    fn expand(&mut self, word: &Word) -> Vec<String> {
        if let Some(words) = self.elements(word) {
            return words;
        }
        let is_plain = word.iter().any(|part| matches!(part, Part::Text { quoted: false, .. }));
        let splits = |part: &Part| matches!(part, Part::Variable { .. } | Part::Output(_));
        let is_split = word.iter().all(splits) && !word.is_empty();
        let text = self.text_of(word);
        let pieces: Vec<String> =
            if is_split { text.split_whitespace().map(str::to_owned).collect() } else { vec![text] };
        let pieces =
            if is_plain { pieces.iter().flat_map(|piece| alternatives(piece, 0)).collect() } else { pieces };
        pieces
            .into_iter()
            .flat_map(|piece| if is_plain || is_split { self.names(piece) } else { vec![piece] })
            .collect()
    }

    /// Matching names of this host for a pattern; the pattern itself without a match.
    fn names(&mut self, pattern: String) -> Vec<String> {
        if !pattern.starts_with('/') || !pattern.contains(['*', '?', '[']) || pattern.contains(UNKNOWN) {
            return vec![pattern];
        }
        let pattern = pattern.replacen("/sys/class/block/", "/sys/block/", 1);
        let is_dev = pattern.starts_with("/dev/");
        let searched = if is_dev { pattern.replacen("/dev/", "/sys/block/", 1) } else { pattern.clone() };
        let mut found = vec![String::new()];
        for part in searched.trim_start_matches('/').split('/') {
            let below = |folder: &String| -> Vec<String> {
                let at =
                    |name: &str| if folder.is_empty() { name.to_owned() } else { format!("{folder}/{name}") };
                if part.contains(['*', '?', '[']) {
                    self.host
                        .list(folder)
                        .iter()
                        .filter(|name| is_meant(part, name))
                        .map(|name| at(name))
                        .collect()
                } else {
                    vec![at(part)]
                }
            };
            found = found.iter().flat_map(below).take(MOST_STEPS).collect();
        }
        found.retain(|path| self.host.exists(path));
        let disks: Vec<String> = found
            .iter()
            .filter_map(|path| Some(path.strip_prefix("sys/block/")?.split('/').next()?.to_owned()))
            .collect();
        if !disks.is_empty() {
            self.tell(What::Pattern { pattern: pattern.clone(), disks });
        }
        if found.is_empty() {
            return vec![pattern];
        }
        let named = |path: String| {
            if is_dev { format!("/{}", path.replacen("sys/block/", "dev/", 1)) } else { format!("/{path}") }
        };
        found.into_iter().map(named).collect()
    }
}

/// `{a,b}` as the words that a shell makes of it; braces without a comma are text.
fn alternatives(text: &str, depth: usize) -> Vec<String> {
    let braces = text.find('{').and_then(|open| {
        let (head, rest) = (text.get(..open)?, text.get(open + 1..)?);
        let (inside, tail) = rest.split_once('}')?;
        inside.contains(',').then_some((head, inside, tail))
    });
    let Some((head, inside, tail)) = braces.filter(|_| depth < DEEPEST) else { return vec![text.to_owned()] };
    inside
        .split(',')
        .flat_map(|word| alternatives(&format!("{head}{word}{tail}"), depth + 1))
        .take(MOST_STEPS)
        .collect()
}

/// Removes `sudo -E` and similar commands, which change the user and not the action.
fn without_prefixes(words: &[String]) -> Option<&[String]> {
    let mut rest = words;
    while let Some((first, behind)) = rest.split_first() {
        // Enters the host's own root or namespaces.
        let command = match first.as_str() {
            "nsenter" => behind.iter().position(|word| word == "--").map(|at| at + 1),
            "chroot" => Some(1),
            _ => None,
        };
        if let Some(command) = command.and_then(|at| behind.get(at..)).filter(|words| !words.is_empty()) {
            rest = command;
            continue;
        }
        if !matches!(first.as_str(), "sudo" | "env" | "nohup" | "time" | "exec" | "then" | "nice" | "ionice")
        {
            return Some(rest);
        }
        rest = behind;
        while rest.first().is_some_and(|word| word.starts_with('-')) {
            rest = rest.get(1..).unwrap_or_default();
        }
    }
    None
}

/// A text whose parts for another program (`{{ x }}`), or for the reader of a guide (`=<x>`), count as unknown.
fn unfilled(text: &str, is_guide: bool) -> String {
    let text = without(text, "{{", "}}", UNKNOWN_TEXT);
    if is_guide { without(&text, "=<", ">", "=\0") } else { text }
}

/// A text with another one between two marks of a line.
fn without(text: &str, open: &str, close: &str, other: &str) -> String {
    let (mut new, mut rest) = (String::new(), text);
    while let Some((head, behind)) = rest.split_once(open) {
        new += head;
        let inside = behind.split_once(close).filter(|(inside, _)| !inside.contains(['\n', '<']));
        new += if inside.is_some() { other } else { open };
        rest = inside.map_or(behind, |(_, tail)| tail);
    }
    new + rest
}

/// Whether a text is more than the words of one command, so that it means nothing without a shell.
pub(super) fn needs_a_shell(text: &str) -> bool {
    tokens(text, 1, 0).iter().any(|(_, token)| !matches!(token, Token::Word(_) | Token::End))
}

/// `NAME = VALUE` and, after `-w`, `NAME VALUE`: several words, but sysctl wants one.
fn parted_setting(arguments: &[String]) -> Option<(&str, &str)> {
    let writes = arguments.iter().any(|word| matches!(word.as_str(), "-w" | "--write"));
    let words: Vec<&str> =
        arguments.iter().map(String::as_str).filter(|word| !word.starts_with('-')).collect();
    match words.as_slice() {
        [name, "=", value, ..] => Some((name, value)),
        [name, value] if writes && !name.contains('=') && !value.contains('=') => Some((name, value)),
        _ => None,
    }
}

/// Whether a condition tests a file: `[ -e FILE ]`.
fn asks_for_a_file(condition: &[Step]) -> bool {
    let Some(Step { node: Node::Pipe(commands), .. }) = condition.last() else { return false };
    let plain = |word: &Word| match word.as_slice() {
        [Part::Text { text, .. }] => text.clone(),
        _ => String::new(),
    };
    let words: Vec<String> = commands.iter().flat_map(|command| &command.words).take(2).map(plain).collect();
    matches!(
        words.iter().map(String::as_str).collect::<Vec<_>>().as_slice(),
        ["[" | "[[" | "test", "-e" | "-f" | "-d" | "-w" | "-r" | "-s" | "-b" | "-x"]
    )
}

/// Whether a program sets something that Hone does not follow: interrupts, clocks, network cards, or a vendor's whole set.
fn is_tuner(name: &str, arguments: &[String]) -> bool {
    let has = |words: &[&str]| arguments.iter().any(|word| words.contains(&word.as_str()));
    let is_flag = |signs: &str| {
        let is_one = |word: &String| {
            let mut chars = word.chars();
            chars.next() == Some('-') && chars.next().is_some_and(|c| signs.contains(c))
        };
        arguments.iter().any(is_one)
    };
    match name {
        "rpk" => has(&["tune", "mode"]),
        "cpupower" => has(&["frequency-set", "idle-set", "set"]),
        "ethtool" => is_flag("CGLKAXNUs"),
        "hdparm" => is_flag("WAaBMS"),
        "nvme" => has(&["set-feature"]),
        "ip" | "ifconfig" => has(&["txqueuelen", "mtu"]),
        "perftune.py"
        | "scylla_setup"
        | "x86_energy_perf_policy"
        | "cpufreq-set"
        | "set_irq_affinity"
        | "tuna"
        | "setpci"
        | "hugeadm"
        | "powertop" => true,
        _ => false,
    }
}

/// Pattern and new line of an edit `sXPATTERNXNEWX` whose new line is a setting.
fn replacement(edit: &str) -> Option<(&str, &str)> {
    let rest = edit.trim().strip_prefix('s')?;
    let mark = rest.chars().next().filter(|mark| !mark.is_ascii_alphanumeric())?;
    let mut parts = rest.split(mark).skip(1);
    let (pattern, line) = (parts.next()?, parts.next()?);
    is_setting_line(line).then_some((pattern, line))
}

/// A text for people: on one line, with dots for unknown parts.
fn readable(text: &str) -> String {
    text.replace(UNKNOWN, "...").split_whitespace().collect::<Vec<_>>().join(" ")
}

fn echoed(arguments: &[String]) -> String {
    let is_flag = |word: &&String| matches!(word.as_str(), "-n" | "-e" | "-ne" | "-en" | "-E");
    let flags: Vec<&String> = arguments.iter().take_while(is_flag).collect();
    let words: Vec<&str> = arguments.iter().skip(flags.len()).map(String::as_str).collect();
    let text = words.join(" ");
    let text = if flags.iter().any(|flag| flag.contains('e')) { text.replace("\\n", "\n") } else { text };
    if flags.iter().any(|flag| flag.contains('n')) { text } else { text + "\n" }
}

fn printed(arguments: &[String]) -> String {
    let Some((form, values)) = arguments.split_first() else { return String::new() };
    let form = form.replace("\\n", "\n").replace("%d", "%s");
    if values.is_empty() || !form.contains("%s") {
        return form;
    }
    let mut text = String::new();
    for group in values.chunks(form.matches("%s").count()) {
        let mut values = group.iter();
        let mut rest = form.as_str();
        while let Some((head, behind)) = rest.split_once("%s") {
            text += head;
            text += values.next().map(String::as_str).unwrap_or_default();
            rest = behind;
        }
        text += rest;
    }
    text
}

/// The plain text of a simple grep or sed pattern.
fn plain_text(pattern: &str) -> String {
    pattern.trim_start_matches('^').trim_end_matches('$').trim_end_matches(".*").replace("\\.", ".")
}

fn has(pattern: &str, line: &str) -> bool {
    let plain = plain_text(pattern);
    if pattern.starts_with('^') { line.starts_with(&plain) } else { line.contains(&plain) }
}
