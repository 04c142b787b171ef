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
    /// One of these. Other values ask for something that this broker does not have; the documentation says what.
    Here(&'static [&'static str]),
    /// One or more of these, with commas.
    Words(&'static [&'static str]),
    /// Replicas as `PARTITION:BROKER`, with commas, none, or `*` for all.
    Replicas,
    /// A release of Kafka up to 3.9, with or without a step of it, such as `2.8` or `2.8-IV1`.
    FormatVersion,
    /// `none`, or racks with commas behind `racks:` or `ordered_racks:`.
    Racks,
    /// Anything.
    Text,
    /// An inline JSON Schema.
    Schema,
    /// No value: the property is read-only. An attempt to set it gets this reason.
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
            Wanted::Bool | Wanted::Here(["false"]) => Kind::Bool,
            Wanted::Words(_) | Wanted::Replicas => Kind::List,
            Wanted::Word(_)
            | Wanted::Here(_)
            | Wanted::FormatVersion
            | Wanted::Racks
            | Wanted::Text
            | Wanted::Schema
            | Wanted::ReadOnly(_) => Kind::Text,
        }
    }

    pub(crate) fn is_read_only(&self) -> bool {
        matches!(self.wanted, Wanted::ReadOnly(_))
    }

    /// Whether it has a value without being set. An empty list is a value; other empty texts are not.
    pub(super) fn has_default(&self) -> bool {
        !self.default.is_empty() || matches!(self.wanted, Wanted::Replicas)
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
            Wanted::Bool => self.word(&value.to_ascii_lowercase(), &["true", "false"]),
            Wanted::Here(words) => self.word(&value.to_ascii_lowercase(), words),
            Wanted::Word(words) => self.word(value, words),
            Wanted::Words(words) => self.list(value, |item| words.contains(&item)),
            Wanted::Replicas if value == "*" => Ok(value.to_owned()),
            Wanted::Replicas => self.list(value, is_replica),
            Wanted::FormatVersion => self.text(value, is_format_version),
            Wanted::Racks => self.text(value, is_preference),
            // A schema is compiled, and so checked, where it is put to use.
            Wanted::Schema | Wanted::Text => Ok(value.to_owned()),
            Wanted::ReadOnly(reason) => Err(format!("{} can't be set: {reason}", self.name)),
        }
    }

    fn number(&self, value: &str, fits: impl Fn(i64) -> bool) -> Result<String, String> {
        match value.parse::<i64>() {
            Ok(number) if fits(number) => Ok(number.to_string()),
            _ => Err(self.refused(value)),
        }
    }

    fn text(&self, value: &str, fits: impl Fn(&str) -> bool) -> Result<String, String> {
        if fits(value) { Ok(value.to_owned()) } else { Err(self.refused(value)) }
    }

    fn word(&self, value: &str, words: &[&str]) -> Result<String, String> {
        self.text(value, |value| words.contains(&value))
    }

    fn list(&self, value: &str, fits: impl Fn(&str) -> bool) -> Result<String, String> {
        let mut kept = Vec::new();
        for item in items(value) {
            if !fits(item) {
                return Err(self.refused(value));
            }
            if !kept.contains(&item) {
                kept.push(item);
            }
        }
        // Replicas may be none; a list of words never is.
        let fits = !kept.is_empty() || matches!(self.wanted, Wanted::Replicas);
        if fits { Ok(kept.join(",")) } else { Err(self.refused(value)) }
    }

    fn refused(&self, value: &str) -> String {
        let refused = format!("invalid {} `{value}`: use {}", self.name, self.wanted_in_words());
        let says_why = match self.wanted {
            Wanted::Number(least, most) => least == most,
            Wanted::Here(_) => true,
            _ => false,
        };
        if says_why { format!("{refused}. {}", self.documentation) } else { refused }
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
            Wanted::Word(words) | Wanted::Here(words) => either(words),
            Wanted::Words(words) => format!("a list of {}", either(words)),
            Wanted::Replicas => "* or a list of replicas as PARTITION:BROKER,PARTITION:BROKER".to_owned(),
            Wanted::FormatVersion => "a version of Kafka up to 3.9, for example 2.8 or 2.8-IV1".to_owned(),
            Wanted::Racks => "none, racks:RACK,RACK or ordered_racks:RACK,RACK".to_owned(),
            Wanted::Text => "any text".to_owned(),
            Wanted::Schema => "a JSON Schema".to_owned(),
            Wanted::ReadOnly(_) => "nothing".to_owned(),
        }
    }
}

/// The items of a list value.
pub(crate) fn items(value: &str) -> impl Iterator<Item = &str> {
    value.split(',').map(str::trim).filter(|item| !item.is_empty())
}

/// `PARTITION:BROKER`.
fn is_replica(item: &str) -> bool {
    let is_number =
        |part: &str| part.bytes().all(|byte| byte.is_ascii_digit()) && part.parse::<i32>().is_ok();
    item.split_once(':').is_some_and(|(partition, broker)| is_number(partition) && is_number(broker))
}

/// Kafka's releases up to the last with formats of messages, and how many steps (`IV0`, `IV1` ...) each has.
const RELEASES: &[(&str, u8)] = &[
    ("0.8.0", 0),
    ("0.8.1", 0),
    ("0.8.2", 0),
    ("0.9.0", 0),
    ("0.10.0", 2),
    ("0.10.1", 3),
    ("0.10.2", 1),
    ("0.11.0", 3),
    ("1.0", 1),
    ("1.1", 1),
    ("2.0", 2),
    ("2.1", 3),
    ("2.2", 2),
    ("2.3", 2),
    ("2.4", 2),
    ("2.5", 1),
    ("2.6", 1),
    ("2.7", 3),
    ("2.8", 2),
    ("3.0", 2),
    ("3.1", 1),
    ("3.2", 1),
    ("3.3", 4),
    ("3.4", 1),
    ("3.5", 3),
    ("3.6", 3),
    ("3.7", 5),
    ("3.8", 1),
    ("3.9", 1),
];

/// The part after the numbers of a release, as in `2.8.1`, is ignored.
fn is_format_version(value: &str) -> bool {
    let numbers = if value.starts_with("0.") { 3 } else { 2 };
    let release = value.split('.').take(numbers).collect::<Vec<_>>().join(".");
    let (release, step) =
        release.split_once("-IV").map_or((&*release, None), |(name, step)| (name, Some(step)));
    let is_step = |steps: u8| step.is_none_or(|step| (0..steps).any(|known| step == known.to_string()));
    RELEASES.iter().any(|(name, steps)| *name == release && is_step(*steps))
}

/// Where leaders or replicas should be, in Redpanda's words.
fn is_preference(value: &str) -> bool {
    let racks = value.strip_prefix("racks:").or_else(|| value.strip_prefix("ordered_racks:"));
    value == "none" || racks.is_some_and(|racks| racks.split(',').all(|rack| !rack.trim().is_empty()))
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
        None => format!("unknown property `{name}`; DescribeConfigs lists all properties"),
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
