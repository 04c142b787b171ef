//! Pieces of files, each with one kind of text.

use super::finding::Role;
use super::stated::Form;

/// Kind of a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum PieceKind {
    Script,
    /// Lines that are settings by themselves, and the place of their file.
    Settings(Form, Option<String>),
    /// A text that is written into a file.
    File {
        path: String,
        append: bool,
    },
    /// Sysctls of a container, as lines of sysctl.d.
    Container,
}

/// A text of one kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Piece {
    /// Its file.
    pub(super) file: String,
    /// Its first line in the file.
    pub(super) line: usize,
    pub(super) kind: PieceKind,
    pub(super) role: Role,
    pub(super) text: String,
    /// Whether it is in a guide: there, sysctl.d lines among commands are meant for people.
    pub(super) is_guide: bool,
    /// Whether an unprivileged container runs it.
    pub(super) is_bound: bool,
    /// Why it has no effect at all; `None` if it has.
    pub(super) void: Option<String>,
}

impl Piece {
    /// A piece that its owner runs on the host itself.
    pub(super) fn new(file: &str, line: usize, kind: PieceKind, role: Role, text: impl Into<String>) -> Self {
        let (file, text) = (file.to_owned(), text.into());
        Self { file, line, kind, role, text, is_guide: false, is_bound: false, void: None }
    }
}

/// The pieces of a file, and its unreadable parts.
#[derive(Debug, Default)]
pub(super) struct Parts {
    pub(super) pieces: Vec<Piece>,
    /// Lines and reasons.
    pub(super) unread: Vec<(usize, String)>,
    /// Lines that set nothing, for any name in them.
    pub(super) followed: Vec<usize>,
    /// Other texts that these pieces already contain.
    pub(super) used: Vec<String>,
    /// Whether it is a text for people, in which a `#` is not a remark.
    pub(super) is_prose: bool,
    /// Whether one value may extend over several lines.
    pub(super) is_yaml: bool,
}

impl Parts {
    /// Adds the pieces of a part of the same text.
    pub(super) fn add(&mut self, more: Self) {
        self.pieces.extend(more.pieces);
        self.unread.extend(more.unread);
        self.followed.extend(more.followed);
        self.used.extend(more.used);
    }
}
