//! What a property may be: its values, its default, its place in the protocol's tables.

/// The values that a property accepts.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Wanted {
    /// A whole number from one to another, both included.
    Number(i64, i64),
    /// As [`Wanted::Number`], or one value outside of the range that has a meaning of its own.
    NumberOr(i64, i64, i64),
    /// A number from 0 to 1.
    Ratio,
    /// `true` or `false`.
    Bool,
    /// One of these.
    Word(&'static [&'static str]),
    /// One or more of these, with commas.
    Words(&'static [&'static str]),
    /// An inline JSON Schema.
    Schema,
    /// Nothing: it is shown and can't be set. The reason is told to whoever tries.
    ReadOnly(&'static str),
}

/// The type of a value in the numbers of DescribeConfigs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(i8)]
pub(crate) enum Kind {
    Bool = 1,
    Text = 2,
    Int = 3,
    Long = 5,
    Double = 6,
    List = 7,
}

/// One property.
#[derive(Debug)]
pub(crate) struct Definition {
    pub(crate) name: &'static str,
    /// What the other family of brokers calls it.
    pub(crate) aliases: &'static [&'static str],
    pub(crate) wanted: Wanted,
    pub(crate) default: &'static str,
    /// For a property of topics: the property of the broker that is its default.
    pub(crate) broker: Option<&'static str>,
    pub(crate) documentation: &'static str,
}

impl Definition {
    /// Whether it goes by this name.
    pub(crate) fn is(&self, name: &str) -> bool {
        self.name == name || self.aliases.contains(&name)
    }

    pub(crate) fn kind(&self) -> Kind {
        match self.wanted {
            Wanted::Number(_, most) | Wanted::NumberOr(_, _, most) if most <= i64::from(i32::MAX) => {
                Kind::Int
            }
            Wanted::Number(..) | Wanted::NumberOr(..) => Kind::Long,
            Wanted::Ratio => Kind::Double,
            Wanted::Bool => Kind::Bool,
            Wanted::Words(_) => Kind::List,
            Wanted::Word(_) | Wanted::Schema | Wanted::ReadOnly(_) => Kind::Text,
        }
    }

    pub(crate) fn is_read_only(&self) -> bool {
        matches!(self.wanted, Wanted::ReadOnly(_))
    }

    /// The value as it is kept: without blanks around it, truth in small letters, a list without repetition. The error
    /// names the property and what it may be.
    pub(crate) fn check(&self, value: &str) -> Result<String, String> {
        let value = value.trim();
        match self.wanted {
            Wanted::Number(least, most) => self.number(value, |number| (least..=most).contains(&number)),
            Wanted::NumberOr(special, least, most) => {
                self.number(value, |number| number == special || (least..=most).contains(&number))
            }
            Wanted::Ratio => match value.parse::<f64>() {
                Ok(ratio) if (0.0..=1.0).contains(&ratio) => Ok(value.to_owned()),
                _ => Err(self.refused(value)),
            },
            Wanted::Bool => match value.to_ascii_lowercase() {
                truth if truth == "true" || truth == "false" => Ok(truth),
                _ => Err(self.refused(value)),
            },
            Wanted::Word(words) if words.contains(&value) => Ok(value.to_owned()),
            Wanted::Word(_) => Err(self.refused(value)),
            Wanted::Words(words) => self.list(value, words),
            // Compiled, and so checked, where it is put to use.
            Wanted::Schema => Ok(value.to_owned()),
            Wanted::ReadOnly(reason) => Err(format!("{} can't be set: {reason}", self.name)),
        }
    }

    fn number(&self, value: &str, fits: impl Fn(i64) -> bool) -> Result<String, String> {
        match value.parse::<i64>() {
            Ok(number) if fits(number) => Ok(number.to_string()),
            _ => Err(self.refused(value)),
        }
    }

    fn list(&self, value: &str, words: &[&str]) -> Result<String, String> {
        let mut kept = Vec::new();
        for item in items(value) {
            if !words.contains(&item) {
                return Err(self.refused(value));
            }
            if !kept.contains(&item) {
                kept.push(item);
            }
        }
        if kept.is_empty() { Err(self.refused(value)) } else { Ok(kept.join(",")) }
    }

    fn refused(&self, value: &str) -> String {
        match self.wanted {
            Wanted::Number(only, most) if only == most => {
                format!("{} is `{value}`, wanted {only}: {}", self.name, self.documentation)
            }
            _ => format!("{} is `{value}`, wanted {}", self.name, self.wanted_in_words()),
        }
    }

    /// What it may be.
    pub(super) fn wanted_in_words(&self) -> String {
        match self.wanted {
            Wanted::Number(only, most) if only == most => only.to_string(),
            Wanted::Number(least, most) => format!("a number from {least} to {most}"),
            Wanted::NumberOr(special, least, most) => {
                format!("{special} or a number from {least} to {most}")
            }
            Wanted::Ratio => "a number from 0 to 1".to_owned(),
            Wanted::Bool => "true or false".to_owned(),
            Wanted::Word(words) => either(words),
            Wanted::Words(words) => format!("a list of {}", either(words)),
            Wanted::Schema => "a JSON Schema".to_owned(),
            Wanted::ReadOnly(_) => "nothing".to_owned(),
        }
    }
}

/// The items of a list value.
pub(crate) fn items(value: &str) -> impl Iterator<Item = &str> {
    value.split(',').map(str::trim).filter(|item| !item.is_empty())
}

fn either(words: &[&str]) -> String {
    match words {
        [] => String::new(),
        [only] => (*only).to_owned(),
        [first @ .., last] => format!("{} or {last}", first.join(", ")),
    }
}

/// The definition of a name; the error proposes a name that is spelled like it.
pub(crate) fn find(table: &'static [Definition], name: &str) -> Result<&'static Definition, String> {
    if let Some(found) = table.iter().find(|definition| definition.is(name)) {
        return Ok(found);
    }
    Err(match nearest(name, table.iter().map(|definition| definition.name)) {
        Some(nearest) => format!("unknown property `{name}`; did you mean `{nearest}`?"),
        None => format!("unknown property `{name}`; DescribeConfigs lists those there are"),
    })
}

/// The name that is spelled most like a wrong one.
pub(crate) fn nearest<'a>(wrong: &str, names: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    /// More wrong letters than this, and a proposal would be a guess.
    const MOST_WRONG_LETTERS: usize = 3;
    // Of a short name as many would leave nothing.
    let most = MOST_WRONG_LETTERS.min(wrong.len() / 2);
    let distances = names.map(|name| (strsim::damerau_levenshtein(wrong, name), name));
    distances.min().filter(|(letters, _)| *letters <= most).map(|(_, name)| name)
}
