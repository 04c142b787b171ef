//! Texts of one kind each, which files are taken apart into.

use super::finding::Role;
use super::stated::Form;

/// What a text is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum PieceKind {
    Script,
    /// Lines that set something by themselves, and where they would lie.
    Settings(Form, Option<String>),
    /// A text that is put into a file.
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
    /// The file that it is of.
    pub(super) file: String,
    /// Its first line there.
    pub(super) line: usize,
    pub(super) kind: PieceKind,
    pub(super) role: Role,
    pub(super) text: String,
    /// Whether it is of a guide: lines of sysctl.d among commands are meant for people there.
    pub(super) is_guide: bool,
    /// Whether a container without privileges runs it.
    pub(super) is_bound: bool,
    /// Why it does nothing at all, if so.
    pub(super) void: Option<String>,
}

impl Piece {
    /// A piece that its owner runs on the host itself.
    pub(super) fn new(file: &str, line: usize, kind: PieceKind, role: Role, text: impl Into<String>) -> Self {
        let (file, text) = (file.to_owned(), text.into());
        Self { file, line, kind, role, text, is_guide: false, is_bound: false, void: None }
    }
}

/// The parts of a file, and what of it could not be read at all.
#[derive(Debug, Default)]
pub(super) struct Parts {
    pub(super) pieces: Vec<Piece>,
    /// Lines and why.
    pub(super) unread: Vec<(usize, String)>,
    /// Lines that set nothing, whatever they name.
    pub(super) followed: Vec<usize>,
    /// Other texts that these parts hold already.
    pub(super) used: Vec<String>,
    /// Whether it is a text for people, in which a `#` is no remark.
    pub(super) is_prose: bool,
    /// Whether one value may stand on several lines.
    pub(super) is_yaml: bool,
}

impl Parts {
    /// Adds those of a part of the same text.
    pub(super) fn add(&mut self, more: Self) {
        self.pieces.extend(more.pieces);
        self.unread.extend(more.unread);
        self.followed.extend(more.followed);
        self.used.extend(more.used);
    }
}
