//! A merged profile in the text form of `llvm-profdata merge --text`.
//!
//! The form is a header of lines that start with `:`. Then each function has its name, hash, number of counters and the counters, one per
//! line, and optional further data up to an empty line. Lines that start with `#` are comments.

/// The compiler calls a function hot if one of its counters is at least as large as the counter at which the largest counters together make
/// up this share of all (LLVM's `-profile-summary-cutoff-hot`, in its own unit).
const HOT_CUTOFF_PER_MILLION: u128 = 990_000;

/// This many of the hottest functions count as hot in any case. One loop over bytes (zeroing a buffer, say) can have nearly all counts of a
/// profile, and by the rule above would be the only hot place of a large program. In a real profile of a broker, such a loop had 70 %, and
/// the first function of the broker's own crates had rank 76.
const HOT_AT_LEAST: usize = 200;

/// In the hash of a function that was counted after inlining (LLVM's `CS_FLAG_IN_FUNC_HASH`).
pub(crate) const CONTEXT_SENSITIVE: u64 = 1 << 60;

/// Summary of one function's counters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Function {
    /// The name in the profile: for a local function `<file or unit>;<symbol>`, with `:` instead of `;` before LLVM 18.
    pub(crate) name: String,
    /// Hash of the function's control flow: if it differs, the compiler uses none of its counters.
    pub(crate) hash: u64,
    /// The largest counter.
    pub(crate) max_count: u64,
    /// Sum of its counters.
    pub(crate) total_count: u64,
    /// Whether it was counted after inlining, in the second of two rounds.
    pub(crate) context_sensitive: bool,
}

impl Function {
    /// The symbol without the unit before it.
    pub(crate) fn symbol(&self) -> &str {
        symbol_of(&self.name)
    }
}

/// See [`Function::symbol`].
pub(crate) fn symbol_of(name: &str) -> &str {
    unit_and_symbol(name).map_or(name, |(_, symbol)| symbol)
}

/// The file or unit of a local function, and its symbol; nothing for a global function. The linker's symbols of C, C++ and Rust contain no
/// colon. Methods of Objective-C do, and end with a bracket, and demangled names have double colons.
pub(crate) fn unit_and_symbol(name: &str) -> Option<(&str, &str)> {
    let is_symbol = |text: &str| {
        !text.is_empty() && text.chars().all(|c| c.is_alphanumeric() || matches!(c, '_' | '.' | '$' | '@'))
    };
    name.rsplit_once(';').or_else(|| {
        let (unit, symbol) = name.rsplit_once(':')?;
        (!unit.is_empty() && !unit.ends_with(':') && is_symbol(symbol)).then_some((unit, symbol))
    })
}

/// A profile.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Profile {
    /// Whether it comes from instrumentation of the intermediate representation.
    pub(crate) ir: bool,
    pub(crate) functions: Vec<Function>,
    /// Sum of all counters.
    pub(crate) total_count: u64,
    /// The largest counter.
    pub(crate) max_count: u64,
    /// A function is hot if its largest counter reaches this.
    pub(crate) hot_count: u64,
}

impl Profile {
    pub(crate) fn level(&self) -> &'static str {
        match self.ir {
            true if self.functions.iter().any(|function| function.context_sensitive) => "CSIR",
            true => "IR",
            false => "Front-end",
        }
    }

    /// The hot functions, hottest first.
    pub(crate) fn hot(&self) -> Vec<&Function> {
        let mut ran: Vec<&Function> =
            self.functions.iter().filter(|function| function.max_count > 0).collect();
        ran.sort_by(|a, b| b.max_count.cmp(&a.max_count).then_with(|| a.name.cmp(&b.name)));
        let by_count = ran.partition_point(|function| function.max_count >= self.hot_count);
        ran.truncate(by_count.max(HOT_AT_LEAST));
        ran
    }

    /// Reads the text form.
    ///
    /// # Errors
    /// In words, with the line, when the text has another form.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let mut reader = Reader { lines: text.lines().enumerate(), last: 0 };
        let mut profile = Self::default();
        let mut counters = Vec::new();
        while let Some(line) = reader.content() {
            match line.strip_prefix(':') {
                Some(flag) => profile.ir |= matches!(flag.trim(), "ir" | "csir"),
                None => profile.functions.push(reader.function(line, &mut counters)?),
            }
        }
        profile.summarize(counters);
        Ok(profile)
    }

    fn summarize(&mut self, mut counters: Vec<u64>) {
        counters.sort_unstable_by(|a, b| b.cmp(a));
        let total: u128 = counters.iter().map(|&count| u128::from(count)).sum();
        self.total_count = u64::try_from(total).unwrap_or(u64::MAX);
        self.max_count = counters.first().copied().unwrap_or(0);
        let wanted = total * HOT_CUTOFF_PER_MILLION / 1_000_000;
        let mut reached = 0_u128;
        for count in counters {
            reached += u128::from(count);
            if reached >= wanted {
                self.hot_count = count;
                break;
            }
        }
    }
}

struct Reader<'a, I: Iterator<Item = (usize, &'a str)>> {
    lines: I,
    last: usize,
}

impl<'a, I: Iterator<Item = (usize, &'a str)>> Reader<'a, I> {
    fn line(&mut self) -> Option<&'a str> {
        let (index, line) = self.lines.next()?;
        self.last = index + 1;
        Some(line)
    }

    /// The next line that is neither empty nor a comment.
    fn content(&mut self) -> Option<&'a str> {
        loop {
            let line = self.line()?;
            if !line.is_empty() && !line.starts_with('#') {
                return Some(line);
            }
        }
    }

    fn number(&mut self, what: &str) -> Result<u64, String> {
        let line = self.content().ok_or_else(|| format!("the text ends where {what} should stand"))?;
        line.trim().parse().map_err(|_| {
            let shown: String = line.chars().take(60).collect();
            format!("line {}: `{shown}` is not a {what}", self.last)
        })
    }

    fn function(&mut self, name: &str, counters: &mut Vec<u64>) -> Result<Function, String> {
        let hash = self.number("hash of a function")?;
        let count = self.number("number of counters")?;
        let (mut max_count, mut total_count) = (0, 0_u64);
        for _ in 0..count {
            let counter = self.number("counter")?;
            max_count = max_count.max(counter);
            total_count = total_count.saturating_add(counter);
            counters.push(counter);
        }
        while self.line().is_some_and(|line| !line.is_empty()) {}
        let context_sensitive = hash & CONTEXT_SENSITIVE != 0;
        Ok(Function { name: name.to_owned(), hash, max_count, total_count, context_sensitive })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const TINY: &str = include_str!("../tests/fixtures/tiny.proftext");
    const OTHER: &str = include_str!("../tests/fixtures/other.proftext");

    #[test]
    fn the_sums_are_those_that_the_tool_itself_shows() {
        let profile = Profile::parse(TINY).unwrap();
        assert_eq!(profile.level(), "IR");
        assert_eq!(profile.functions.len(), 10);
        assert_eq!(profile.max_count, 1_834_676_138);
        assert_eq!(profile.total_count, 3_340_569_523);
        // "5 blocks (27.78%) with count >= 138541278 account for 99% of the total counts"
        assert_eq!(profile.hot_count, 138_541_278);
        let hot: Vec<&str> = profile.hot().into_iter().map(Function::symbol).collect();
        assert_eq!(hot[..2], ["_ZN11tiny_server14handle_request17h542da990d56e36caE", "mix_seed"]);
        assert_eq!(hot.len(), 8, "all that ran: {hot:?}");
        let main = &profile.functions[0];
        assert_eq!((main.hash, main.total_count), (1_124_680_650_144_255_556, 11_030_461));
    }

    #[test]
    fn one_giant_loop_is_not_the_only_hot_place() {
        let mut text = ":ir\nzeroing\n1\n1\n1000000000\n".to_owned();
        for i in 0..500 {
            text.push_str(&format!("\nf{i:03}\n1\n2\n{}\n0\n", 1000 - i));
        }
        let profile = Profile::parse(&text).unwrap();
        let names: Vec<&str> = profile.hot().into_iter().map(Function::symbol).collect();
        assert_eq!((names.len(), names[0], names[199]), (HOT_AT_LEAST, "zeroing", "f198"));

        let even = "\nf\n1\n1\n7\n".repeat(300);
        assert_eq!(Profile::parse(&even).unwrap().hot().len(), 300, "the compiler's own rule");
    }

    /// The forms of LLVM 18 and later, and of those before.
    #[test]
    fn a_local_function_is_known_without_its_unit() {
        for (name, expected) in [
            ("main", None),
            ("toy.c;mix", Some(("toy.c", "mix"))),
            ("toy.c:mix", Some(("toy.c", "mix"))),
            ("/w/a:b/toy.c:_ZL3mixm", Some(("/w/a:b/toy.c", "_ZL3mixm"))),
            ("a;b.rs;_RNvCs1_3toy3mix", Some(("a;b.rs", "_RNvCs1_3toy3mix"))),
            (
                "toy.2fe0c3b1-cgu.0:_ZN3toy3mix17h542da990d56e36caE.llvm.77",
                Some(("toy.2fe0c3b1-cgu.0", "_ZN3toy3mix17h542da990d56e36caE.llvm.77")),
            ),
            ("<unknown>:mix$1", Some(("<unknown>", "mix$1"))),
            ("toy::mix", None),
            ("-[Toy mix:with:]", None),
            ("toy.c:", None),
            (":mix", None),
        ] {
            assert_eq!(unit_and_symbol(name), expected, "{name}");
            assert_eq!(symbol_of(name), expected.map_or(name, |(_, symbol)| symbol));
        }
        let old = Profile::parse(":ir\ntoy.c:mix\n1\n1\n9\n").unwrap();
        assert_eq!(old.hot()[0].symbol(), "mix");
    }

    #[test]
    fn a_second_round_is_known_by_the_hash() {
        let text = ":csir\nf\n5\n1\n9\n\nf\n1152921504606846981\n1\n4\n";
        let profile = Profile::parse(text).unwrap();
        let rounds: Vec<bool> = profile.functions.iter().map(|function| function.context_sensitive).collect();
        assert_eq!((profile.ir, rounds), (true, vec![false, true]));
    }

    #[test]
    fn value_data_are_passed_over() {
        let profile = Profile::parse(OTHER).unwrap();
        assert_eq!(
            (profile.functions.len(), profile.max_count, profile.total_count),
            (16, 997_004, 2_023_605)
        );
    }

    #[test]
    fn an_empty_profile_has_no_level_and_nothing_hot() {
        let profile = Profile::parse("").unwrap();
        assert_eq!((profile.level(), profile.functions.len(), profile.hot().len()), ("Front-end", 0, 0));
        assert!(Profile::parse(":ir\nf\n1\n1\n0\n").unwrap().hot().is_empty());
    }

    #[test]
    fn what_has_another_form_is_refused_with_its_line() {
        let check = |text, reason: &str| assert_eq!(Profile::parse(text).unwrap_err(), reason);
        check(":ir\nmain\nx\n", "line 3: `x` is not a hash of a function");
        check("main\n1\n2\n7\n", "the text ends where counter should stand");
        check(
            "main\n1\n99999999999999999999999\n",
            "line 3: `99999999999999999999999` is not a number of counters",
        );
        check("main\n1\n18446744073709551615\n5\n\nother\n", "line 6: `other` is not a counter");
    }

    proptest! {
        #[test]
        fn no_text_makes_it_panic(text in "([:#a;\n]|[0-9]{1,20}|\n){0,60}", any: String) {
            let _ = Profile::parse(&text);
            let _ = Profile::parse(&any);
        }

        #[test]
        fn a_cut_or_changed_file_does_not_make_it_panic(at in 0..TINY.len(), byte in 32_u8..127) {
            let mut bytes = TINY.as_bytes().to_vec();
            let _ = Profile::parse(&TINY[..at]);
            bytes[at] = byte;
            let _ = Profile::parse(&String::from_utf8(bytes).unwrap());
        }
    }
}
