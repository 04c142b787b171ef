//! Names of functions as people write them.

/// Names of templates can be as long as a page; nobody reads them to their end.
const MOST_CHARACTERS: usize = 160;

/// A symbol's name as the language has it, where it is of Rust or C++; shortened in its middle where it is very long. What a compiler or
/// BOLT hung behind it stays.
pub fn demangled(symbol: &str) -> String {
    shortened(&demangled_whole(symbol))
}

/// As [`demangled`], however long it is: for what is looked up by its name.
pub fn demangled_whole(symbol: &str) -> String {
    // BOLT numbers symbols that are local to a file.
    let (name, behind) = parts(symbol);
    let told = rustc_demangle::try_demangle(name).map(|name| format!("{name:#}")).ok();
    let told = told.or_else(|| {
        let symbol = cpp_demangle::Symbol::new(name).ok().filter(|_| name.starts_with("_Z"))?;
        symbol.demangle().ok()
    });
    format!("{}{behind}", told.as_deref().unwrap_or(name))
}

/// A mangled name and what was hung behind it, such as `.cold.0`.
fn parts(symbol: &str) -> (&str, &str) {
    let is_mangled = symbol.starts_with("_Z") || symbol.starts_with("_R");
    let at = symbol.find(['.', '/', '@']).filter(|at| is_mangled && *at > 0);
    // Rust's older names have dots inside.
    match at {
        Some(at) if !symbol[..at].ends_with('$') => symbol.split_at(at),
        _ => (symbol, ""),
    }
}

fn shortened(name: &str) -> String {
    let all = name.chars().count();
    if all <= MOST_CHARACTERS {
        return name.to_owned();
    }
    let half = MOST_CHARACTERS / 2 - 1;
    let begin: String = name.chars().take(half).collect();
    let end: String = name.chars().skip(all - half).collect();
    format!("{begin} … {end}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_rust_and_cpp_are_read_and_what_hangs_behind_stays() {
        for (symbol, wanted) in [
            ("main", "main"),
            ("_ZN4core3fmt5write17h0123456789abcdefE", "core::fmt::write"),
            ("_RNvCs1234_7mycrate3foo", "mycrate::foo"),
            (
                "_ZNSt6vectorIiSaIiEE9push_backERKi",
                "std::vector<int, std::allocator<int> >::push_back(int const&)",
            ),
            ("_Z6handlei.cold.0", "handle(int).cold.0"),
            ("_ZN3foo3barEv.constprop.0", "foo::bar().constprop.0"),
            ("_ZN3foo3barEv@plt", "foo::bar()@plt"),
            ("_RNvCs1234_7mycrate3foo.llvm.123", "mycrate::foo.llvm.123"),
            ("_ZZN3foo3barEvENKUlvE_clEv", "foo::bar()::{lambda()#1}::operator()() const"),
            ("_ZL6workerim/1", "worker(int, unsigned long)/1"),
            ("_Znot", "_Znot"),
            ("memcpy@GLIBC_2.14", "memcpy@GLIBC_2.14"),
        ] {
            assert_eq!(demangled(symbol), wanted);
        }
        let long = demangled(&"x".repeat(500));
        assert!(long.chars().count() <= MOST_CHARACTERS + 1 && long.contains(" … "), "{long}");
    }
}
