//! Shell scripts as data: commands, their order, and their conditions.

use super::lexer::{DEEPEST, Part, Token, Word, tokens};

/// One command of a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Step {
    /// Line number.
    pub(super) line: usize,
    /// Connection with the previous command.
    pub(super) joint: Joint,
    /// Whether its exit status is negated (`!`).
    pub(super) negated: bool,
    /// Kind of the command.
    pub(super) node: Node,
}

/// Connection of a command with the previous one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Joint {
    /// It runs afterwards.
    Then,
    /// It runs only after success (`&&`).
    And,
    /// It runs only after a failure (`||`).
    Or,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Node {
    /// Commands of a pipe.
    Pipe(Vec<Simple>),
    /// `for NAME in WORDS`.
    For { name: String, words: Vec<Word>, body: Vec<Step> },
    /// Conditions with their branches; `else` is the last one, without a condition.
    If(Vec<(Vec<Step>, Vec<Step>)>),
    /// `while` and `until`: the number of iterations is unknown.
    Loop(Vec<Step>),
    /// Patterns with their branches.
    Case(Vec<(String, Vec<Step>)>),
    /// A function's name and body.
    Function(String, Vec<Step>),
    /// `{ ... }`.
    Group(Vec<Step>),
    /// `( ... )`.
    Subshell(Vec<Step>),
}

/// A command with its words, or one that contains others (`{ ... } > file`).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Simple {
    /// `NAME=VALUE` before the command; the name ends with a `+` if the value is appended.
    pub(super) sets: Vec<(String, Word)>,
    /// `NAME=(WORD ...)`, each word with its line.
    pub(super) arrays: Vec<(String, Vec<(usize, Word)>)>,
    /// Contained commands.
    pub(super) body: Option<Box<Node>>,
    /// The command and its arguments.
    pub(super) words: Vec<Word>,
    /// Target of its output, and whether the output is appended.
    pub(super) outputs: Vec<(bool, Word)>,
    /// Source of its input.
    pub(super) input: Option<Word>,
    /// First line of the text of a `<<`.
    pub(super) here: Option<usize>,
}

/// The commands of a text.
pub(super) fn parse(text: &str, first_line: usize, depth: usize) -> Vec<Step> {
    let mut parser = Parser { tokens: tokens(text, first_line, depth), at: 0, depth };
    let mut steps = Vec::new();
    while parser.at < parser.tokens.len() {
        let before = parser.at;
        steps.extend(parser.list(&[]));
        // A stray word, such as a lone `done`.
        if parser.at == before {
            parser.at += 1;
        }
    }
    steps
}

struct Parser {
    tokens: Vec<(usize, Token)>,
    at: usize,
    depth: usize,
}

const CLOSING: [&str; 10] = ["do", "done", "then", "elif", "else", "fi", "esac", "}", "in", ";;"];

impl Parser {
    fn peek(&self) -> Option<&Token> {
        self.tokens.get(self.at).map(|(_, token)| token)
    }

    fn line(&self) -> usize {
        self.tokens.get(self.at).map_or(0, |(line, _)| *line)
    }

    /// The next word if it is plain text without quotes.
    fn plain(&self) -> Option<&str> {
        match self.peek()? {
            Token::Word(word) => match word.as_slice() {
                [Part::Text { text, quoted: false }] => Some(text),
                _ => None,
            },
            _ => None,
        }
    }

    fn is_operator(&self, wanted: &str) -> bool {
        matches!(self.peek(), Some(Token::Operator(operator)) if *operator == wanted)
    }

    fn takes_word(&mut self, wanted: &str) -> bool {
        let is_it = self.plain() == Some(wanted);
        self.at += usize::from(is_it);
        is_it
    }

    fn takes_operator(&mut self, wanted: &str) -> bool {
        let is_it = self.is_operator(wanted);
        self.at += usize::from(is_it);
        is_it
    }

    fn skip_ends(&mut self) {
        while matches!(self.peek(), Some(Token::End | Token::Operator(";" | "&"))) {
            self.at += 1;
        }
    }

    /// Commands up to one of these words, which stays unread.
    fn list(&mut self, until: &[&str]) -> Vec<Step> {
        let mut steps = Vec::new();
        let mut joint = Joint::Then;
        loop {
            self.skip_ends();
            let is_end = match self.peek() {
                None | Some(Token::Operator(")" | ";;")) => true,
                _ => self.plain().is_some_and(|word| until.contains(&word) || CLOSING.contains(&word)),
            };
            if is_end {
                return steps;
            }
            let line = self.line();
            let negated = self.takes_word("!");
            let Some(node) = self.node() else { return steps };
            steps.push(Step { line, joint, negated, node });
            joint = if self.takes_operator("&&") {
                Joint::And
            } else if self.takes_operator("||") {
                Joint::Or
            } else {
                Joint::Then
            };
        }
    }

    fn nested(&mut self, until: &[&str]) -> Vec<Step> {
        self.depth += 1;
        let steps = if self.depth > DEEPEST { Vec::new() } else { self.list(until) };
        self.depth -= 1;
        steps
    }

    fn node(&mut self) -> Option<Node> {
        match self.plain() {
            Some("function") => {
                self.at += 1;
                let name = self.plain().unwrap_or_default().to_owned();
                self.at += 1;
                self.takes_operator("(");
                self.takes_operator(")");
                Some(self.function(name))
            }
            Some(name) if self.is_function() => {
                let name = name.to_owned();
                self.at += 3;
                Some(self.function(name))
            }
            _ => self.pipe(),
        }
    }

    /// A command that contains others.
    fn compound(&mut self) -> Option<Node> {
        if self.takes_operator("(") {
            let body = self.nested(&[]);
            self.takes_operator(")");
            return Some(Node::Subshell(body));
        }
        match self.plain()? {
            "{" => {
                self.at += 1;
                let body = self.nested(&["}"]);
                self.takes_word("}");
                Some(Node::Group(body))
            }
            "for" => Some(self.looped_over()),
            "while" | "until" => {
                self.at += 1;
                self.nested(&["do"]);
                Some(Node::Loop(self.body()))
            }
            "if" => Some(self.conditions()),
            "case" => Some(self.case()),
            _ => None,
        }
    }

    fn is_function(&self) -> bool {
        let at = |ahead: usize| self.tokens.get(self.at + ahead).map(|(_, token)| token);
        at(1) == Some(&Token::Operator("(")) && at(2) == Some(&Token::Operator(")"))
    }

    fn function(&mut self, name: String) -> Node {
        self.skip_ends();
        self.takes_word("{");
        let body = self.nested(&["}"]);
        self.takes_word("}");
        Node::Function(name, body)
    }

    /// `do ... done`.
    fn body(&mut self) -> Vec<Step> {
        self.skip_ends();
        self.takes_word("do");
        let body = self.nested(&["done"]);
        self.takes_word("done");
        body
    }

    fn looped_over(&mut self) -> Node {
        self.at += 1;
        let name = self.plain().unwrap_or_default().to_owned();
        self.at += 1;
        let mut words = Vec::new();
        self.skip_ends();
        if self.takes_word("in") {
            while let Some(Token::Word(word)) = self.peek() {
                words.push(word.clone());
                self.at += 1;
            }
        }
        Node::For { name, words, body: self.body() }
    }

    fn conditions(&mut self) -> Node {
        let mut arms = Vec::new();
        while self.takes_word("if") || self.takes_word("elif") {
            let condition = self.nested(&["then"]);
            self.takes_word("then");
            arms.push((condition, self.nested(&["elif", "else", "fi"])));
        }
        if self.takes_word("else") {
            arms.push((Vec::new(), self.nested(&["fi"])));
        }
        self.takes_word("fi");
        Node::If(arms)
    }

    fn case(&mut self) -> Node {
        self.at += 2;
        self.skip_ends();
        self.takes_word("in");
        let mut arms = Vec::new();
        loop {
            self.skip_ends();
            if self.peek().is_none() || self.takes_word("esac") {
                return Node::Case(arms);
            }
            let before = self.at;
            self.takes_operator("(");
            let mut pattern = String::new();
            while !self.takes_operator(")") && self.peek().is_some() {
                pattern += self.plain().unwrap_or("|");
                self.at += 1;
            }
            arms.push((pattern, self.nested(&["esac"])));
            self.takes_operator(";;");
            if self.at == before {
                self.at += 1;
            }
        }
    }

    fn pipe(&mut self) -> Option<Node> {
        let mut commands = Vec::new();
        loop {
            let command = self.simple();
            if command == Simple::default() {
                // Not a command: it is skipped.
                if commands.is_empty() {
                    self.at += 1;
                }
                break;
            }
            commands.push(command);
            if !self.takes_operator("|") {
                break;
            }
            while self.peek() == Some(&Token::End) {
                self.at += 1;
            }
        }
        match commands.as_mut_slice() {
            [] => None,
            [Simple { body: body @ Some(_), outputs, input: None, .. }] if outputs.is_empty() => {
                body.take().map(|body| *body)
            }
            _ => Some(Node::Pipe(commands)),
        }
    }

    fn simple(&mut self) -> Simple {
        let mut command = Simple { body: self.compound().map(Box::new), ..Simple::default() };
        if command.body.is_some() {
            while self.redirects(&mut command) {}
            return command;
        }
        loop {
            if self.redirects(&mut command) {
                continue;
            }
            let Some(Token::Word(word)) = self.peek() else { return command };
            let word = word.clone();
            self.at += 1;
            if let Some(name) = array_name(&word).filter(|_| self.is_operator("(")) {
                let words = self.elements();
                command.arrays.push((name, words));
                continue;
            }
            match assignment(&word) {
                Some(set) if command.words.is_empty() => command.sets.push(set),
                _ => command.words.push(word),
            }
        }
    }

    /// The words of `( ... )` after the name of an array.
    fn elements(&mut self) -> Vec<(usize, Word)> {
        let mut words = Vec::new();
        self.at += 1;
        while !self.takes_operator(")") {
            match self.peek() {
                Some(Token::Word(word)) => words.push((self.line(), word.clone())),
                Some(_) => {}
                None => break,
            }
            self.at += 1;
        }
        words
    }

    /// Reads one redirection.
    fn redirects(&mut self, command: &mut Simple) -> bool {
        let operator = match self.peek() {
            Some(Token::Input(word, here)) => {
                command.input = Some(word.clone());
                command.here = *here;
                self.at += 1;
                return true;
            }
            Some(Token::Operator(operator @ ("2>&1" | "1>&2"))) => {
                let _ = operator;
                self.at += 1;
                return true;
            }
            Some(Token::Operator(
                operator @ (">" | ">>" | "1>" | ">|" | "&>" | "&>>" | "2>" | "2>>" | ">&" | "<" | "<&"),
            )) => *operator,
            _ => return false,
        };
        self.at += 1;
        let Some(Token::Word(word)) = self.peek() else { return true };
        let word = word.clone();
        self.at += 1;
        if matches!(operator, ">" | ">>" | "1>" | ">|" | "&>" | "&>>") {
            command.outputs.push((operator.ends_with(">>"), word));
        }
        true
    }
}

/// `NAME=` and `NAME+=` before the words of an array.
fn array_name(word: &Word) -> Option<String> {
    let (name, value) = assignment(word)?;
    let is_empty = value.iter().all(|part| matches!(part, Part::Text { text, .. } if text.is_empty()));
    is_empty.then_some(name)
}

/// `NAME=VALUE`, the name without quotes; for `NAME+=VALUE` the `+` stays with the name.
fn assignment(word: &Word) -> Option<(String, Word)> {
    let Some((Part::Text { text, quoted: false }, rest)) = word.split_first() else { return None };
    let (name, value) = text.split_once('=')?;
    let bare = name.strip_suffix('+').unwrap_or(name);
    let is_name = !bare.is_empty()
        && bare.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
        && !name.starts_with(|c: char| c.is_ascii_digit());
    let head = Part::Text { text: value.to_owned(), quoted: false };
    is_name.then(|| (name.to_owned(), [head].into_iter().chain(rest.iter().cloned()).collect()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn step_words(step: &Step) -> Vec<String> {
        let Node::Pipe(commands) = &step.node else { panic!("{step:?}") };
        let text = |part: &Part| match part {
            Part::Text { text, .. } => text.clone(),
            Part::Variable { name, edit } => format!("${{{name}{edit}}}"),
            Part::Output(_) => "$()".to_owned(),
            Part::Unknown => "?".to_owned(),
        };
        commands
            .iter()
            .flat_map(|command| &command.words)
            .map(|word| word.iter().map(text).collect())
            .collect()
    }

    #[test]
    fn commands_and_how_they_are_joined() {
        let steps = parse("a b 'c d' \"$x ${y##*/}\" # remark\n! e && f || g; h | i 2>/dev/null >k", 1, 0);
        assert_eq!(step_words(&steps[0]), ["a", "b", "c d", "${x} ${y##*/}"]);
        assert!(steps[1].negated && steps[1].line == 2);
        assert_eq!((steps[2].joint, steps[3].joint, steps[4].joint), (Joint::And, Joint::Or, Joint::Then));
        let Node::Pipe(commands) = &steps[4].node else { panic!() };
        assert_eq!((commands.len(), commands[1].outputs.len()), (2, 1));
    }

    #[test]
    fn what_holds_other_commands() {
        let text = "f() {\n for d in /sys/block/nvme* x; do\n  if [ -f $d ]; then echo 1 > $d; elif y; then :; else z; fi\n done\n}\ncase $1 in\n start|stop) f ;;\n *) echo no; exit 1 ;;\nesac\nwhile read l; do x; done < file\nlast\n";
        let steps = parse(text, 1, 0);
        let Node::Function(name, body) = &steps[0].node else { panic!("{steps:?}") };
        assert_eq!(name, "f");
        let Node::For { words, body, .. } = &body[0].node else { panic!() };
        assert_eq!(words.len(), 2);
        let Node::If(arms) = &body[0].node else { panic!() };
        assert_eq!(arms.len(), 3);
        let Node::Case(arms) = &steps[1].node else { panic!("{steps:?}") };
        assert_eq!((arms.len(), arms[1].1.len()), (2, 2));
        assert!(matches!(steps[2].node, Node::Loop(_)));
        assert_eq!(words_of(&steps[3]), ["last"]);
    }

    fn words_of(step: &Step) -> Vec<String> {
        step_words(step)
    }

    #[test]
    fn words_of_an_array_are_no_commands() {
        let steps = parse("a=(\n  'x y' # z\n  [k]=v\n)\ndeclare -A b=()\n(c; d) | e\n", 1, 0);
        let Node::Pipe(commands) = &steps[0].node else { panic!("{steps:?}") };
        let lines: Vec<usize> = commands[0].arrays[0].1.iter().map(|(line, _)| *line).collect();
        assert_eq!((commands[0].arrays[0].0.as_str(), lines), ("a", vec![2, 3]));
        assert_eq!(step_words(&steps[1]), ["declare", "-A"]);
        let Node::Pipe(commands) = &steps[2].node else { panic!("{steps:?}") };
        assert!(matches!(commands[0].body.as_deref(), Some(Node::Subshell(body)) if body.len() == 2));
    }

    #[test]
    fn bodies_of_here_documents() {
        let steps = parse("cat > a <<'EOF'\nx = $y # z\nEOF\ncat >> b <<-E\n\tv=$w\n\tE\nend", 1, 0);
        let input = |step: &Step| {
            let Node::Pipe(commands) = &step.node else { panic!() };
            commands[0].input.clone().unwrap()
        };
        assert_eq!(input(&steps[0]), [Part::Text { text: "x = $y # z\n".to_owned(), quoted: true }]);
        assert!(input(&steps[1]).contains(&Part::Variable { name: "w".to_owned(), edit: String::new() }));
        assert_eq!((step_words(&steps[2]), steps[2].line), (vec!["end".to_owned()], 7));
    }

    proptest! {
        #[test]
        fn foreign_texts_do_no_harm(text in "\\PC{0,200}", like in "(for|in|do|done|if|then|fi|case|esac|[ \n;|&(){}<>$`'\"\\\\a!=#-]){0,60}") {
            let _ = (parse(&text, 1, 0), parse(&like, 1, 0));
        }
    }
}
