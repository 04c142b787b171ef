//! Names of code that a virtual machine made while it ran: lines `ADDRESS SIZE NAME` with hexadecimal numbers, as the kernel's
//! tools/perf/Documentation/jit-interface.txt describes them. `jcmd PID Compiler.perfmap` writes them, and so do Node.js and .NET.

/// Pieces of code by their address.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct GeneratedCode {
    /// Begin, end and name of each, in order.
    pieces: Vec<(u64, u64, String)>,
}

impl GeneratedCode {
    /// Reads a text. Other lines are skipped.
    pub fn parse(text: &str) -> Self {
        let piece = |line: &str| {
            let mut words = line.trim().splitn(3, ' ');
            let mut number = || u64::from_str_radix(words.next()?.trim_start_matches("0x"), 16).ok();
            let (begin, size) = (number()?, number()?);
            let name = words.next().filter(|name| !name.is_empty())?;
            let end = begin.checked_add(size).filter(|end| *end > begin)?;
            Some((begin, end, without_signature(name).to_owned()))
        };
        let mut pieces: Vec<_> = text.lines().filter_map(piece).collect();
        // A later line replaces an earlier one at the same address.
        pieces.reverse();
        pieces.sort_by_key(|(begin, ..)| *begin);
        pieces.dedup_by_key(|(begin, ..)| *begin);
        Self { pieces }
    }

    /// The name of the code at an address.
    pub fn name_at(&self, address: u64) -> Option<&str> {
        let next = self.pieces.partition_point(|(begin, ..)| *begin <= address);
        let (_, end, name) = self.pieces.get(next.checked_sub(1)?)?;
        (address < *end).then_some(name)
    }

    /// Whether it has no code.
    pub fn is_empty(&self) -> bool {
        self.pieces.is_empty()
    }
}

/// `int a.B.method(long, int)` is `a.B.method`: Java writes results and arguments, too.
fn without_signature(name: &str) -> &str {
    let Some((before, _)) = name.strip_suffix(')').and_then(|name| name.split_once('(')) else { return name };
    before.rsplit_once(' ').map_or(before, |(_, method)| method)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_found_by_address_and_other_lines_are_skipped() {
        let text = "0x00007f10 0x20 Interpreter\n7f40 10 java.lang.Object java.util.HashMap.get(java.lang.Object)\n\nnonsense\n\
                    7f50 0 empty\n7f60 8 old\n7f60 8 new\nffffffffffffffff 2 beyond\n";
        let code = GeneratedCode::parse(text);
        assert_eq!(code.name_at(0x7f10), Some("Interpreter"));
        assert_eq!(code.name_at(0x7f2f), Some("Interpreter"));
        assert_eq!((code.name_at(0x7f30), code.name_at(0), code.name_at(u64::MAX)), (None, None, None));
        assert_eq!(code.name_at(0x7f4f), Some("java.util.HashMap.get"));
        assert_eq!((code.name_at(0x7f50), code.name_at(0x7f61)), (None, Some("new")));
        assert!(GeneratedCode::parse("").is_empty() && !code.is_empty());
    }

    proptest::proptest! {
        #[test]
        fn no_text_panics(text in "[0-9a-fx \n]{0,80}", address in proptest::num::u64::ANY) {
            let code = GeneratedCode::parse(&text);
            let _ = code.name_at(address);
        }
    }
}
