//! Function names as people write them.

/// Names of templates can be as long as a page, and no reader needs their end.
const MOST_CHARACTERS: usize = 160;

/// A symbol as its source names it, if the symbol is Rust or C++. Other names stay unchanged. Long names are cut in the middle. Suffixes of
/// a compiler or BOLT (`.cold`, `/1`, `@plt`) stay, except LLVM's hash of a file (`.llvm.123`), which names nothing.
pub fn demangled(symbol: &str) -> String {
    shortened(&demangled_whole(symbol))
}

fn demangled_whole(symbol: &str) -> String {
    let (name, appended) = parts(symbol);
    format!("{}{}", of_source(name).as_deref().unwrap_or(name), without_file_hash(appended))
}

/// Several symbols as [`demangled`], separated by commas.
pub fn demangled_all(symbols: &[String]) -> String {
    symbols.iter().map(|symbol| demangled(symbol)).collect::<Vec<_>>().join(", ")
}

/// The path of a Rust function without the hash of its build. Other names stay unchanged in every language. Two builds of a program are
/// compared by these names, and records keep them. For C++, other tools know only the mangled symbols.
pub fn without_hash(symbol: &str) -> String {
    format!("{:#}", rustc_demangle::demangle(symbol))
}

fn of_source(name: &str) -> Option<String> {
    let of_rust = rustc_demangle::try_demangle(name).map(|name| format!("{name:#}"));
    let of_cpp = || {
        let symbol = cpp_demangle::Symbol::new(name).ok().filter(|_| is_mangled(name))?;
        symbol.demangle().ok()
    };
    of_rust.ok().or_else(of_cpp)
}

fn is_mangled(symbol: &str) -> bool {
    symbol.starts_with("_Z") || symbol.starts_with("_R")
}

/// A mangled name and its suffix, such as `.cold.0`.
fn parts(symbol: &str) -> (&str, &str) {
    let ends = symbol.match_indices(['.', '/', '@']).map(|(at, _)| at).filter(|_| is_mangled(symbol));
    // Rust's older names have dots inside, so the name ends at the first dot that leaves a readable name.
    ends.map(|at| symbol.split_at(at)).find(|(name, _)| of_source(name).is_some()).unwrap_or((symbol, ""))
}

fn without_file_hash(appended: &str) -> String {
    const MARK: &str = ".llvm.";
    let Some((before, hash)) = appended.split_once(MARK) else { return appended.to_owned() };
    format!("{before}{}", hash.trim_start_matches(|letter: char| letter.is_ascii_hexdigit()))
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
            ("_ZL6workerim/1", "worker(int, unsigned long)/1"),
            (
                "_ZN4core3ptr46drop_in_place$LT$alloc..vec..Vec$LT$u8$GT$$GT$17h0123456789abcdefE",
                "core::ptr::drop_in_place<alloc::vec::Vec<u8>>",
            ),
            (
                "_ZN4core3ptr46drop_in_place$LT$alloc..vec..Vec$LT$u8$GT$$GT$17h0123456789abcdefE.cold/1",
                "core::ptr::drop_in_place<alloc::vec::Vec<u8>>.cold/1",
            ),
            ("_ZN4core3fmt5write17h0123456789abcdefE.llvm.12345678901234567", "core::fmt::write"),
            ("_RNvCs1234_7mycrate3foo.llvm.9A/2", "mycrate::foo/2"),
            ("_Z6handlei.llvm.123.cold", "handle(int).cold"),
            ("_Z6handlei@plt", "handle(int)@plt"),
            ("_ZN3foo3barEv.constprop.0", "foo::bar().constprop.0"),
            ("_ZZN3foo3barEvENKUlvE_clEv", "foo::bar()::{lambda()#1}::operator()() const"),
            ("core::fmt::write", "core::fmt::write"),
            ("handle.cold", "handle.cold"),
            ("_Znot", "_Znot"),
            ("memcpy@GLIBC_2.14", "memcpy@GLIBC_2.14"),
        ] {
            assert_eq!(demangled(symbol), wanted);
        }
        let long = demangled(&"x".repeat(500));
        assert!(long.chars().count() <= MOST_CHARACTERS + 1 && long.contains(" … "), "{long}");
    }
}
