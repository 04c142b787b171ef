//! Patterns of names, as a shell and udev know them: `*`, `?`, `[a-z]`, `[!0-9]`.

/// Whether a pattern matches a name. A set without its end is a plain `[`, as in fnmatch(3).
pub fn is_meant(pattern: &str, name: &str) -> bool {
    let (pattern, name): (Vec<char>, Vec<char>) = (pattern.chars().collect(), name.chars().collect());
    let (mut p, mut n) = (0, 0);
    // State after the last star, and the characters that it has taken. Only the last star ever needs to be extended.
    let mut star: Option<(usize, usize)> = None;
    while n < name.len() {
        if pattern.get(p) == Some(&'*') {
            star = Some((p + 1, n));
            p += 1;
        } else if let Some(next) = name.get(n).and_then(|c| one(&pattern, p, *c)) {
            (p, n) = (next, n + 1);
        } else if let Some((behind, taken)) = star {
            star = Some((behind, taken + 1));
            (p, n) = (behind, taken + 1);
        } else {
            return false;
        }
    }
    pattern.iter().skip(p).all(|c| *c == '*')
}

/// The pattern that matches only this name: each special character becomes a set of its own.
pub fn literal(name: &str) -> String {
    name.chars()
        .map(|c| if matches!(c, '*' | '?' | '[') { format!("[{c}]") } else { c.to_string() })
        .collect()
}

/// Position after the pattern's element at `at` if it matches this character.
fn one(pattern: &[char], at: usize, c: char) -> Option<usize> {
    match pattern.get(at)? {
        '?' => Some(at + 1),
        '[' => match set(pattern, at) {
            Some((is_in, end)) => is_in(c).then_some(end),
            None => (c == '[').then_some(at + 1),
        },
        plain => (*plain == c).then_some(at + 1),
    }
}

type Member<'a> = Box<dyn Fn(char) -> bool + 'a>;

/// The set that begins at a `[`, and the position after it.
fn set(pattern: &[char], at: usize) -> Option<(Member<'_>, usize)> {
    let inside = pattern.get(at + 1..)?;
    let (negated, inside) = match inside.split_first() {
        Some(('!' | '^', rest)) => (true, rest),
        _ => (false, inside),
    };
    // A `]` as the first character is a member.
    let end = inside.iter().skip(1).position(|c| *c == ']')? + 1;
    let members = inside.get(..end)?;
    let behind = at + 1 + usize::from(negated) + end + 1;
    let is_in = move |c: char| {
        let in_range = members.windows(3).any(|w| w[1] == '-' && (w[0]..=w[2]).contains(&c));
        (in_range || members.contains(&c)) != negated
    };
    Some((Box::new(is_in), behind))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn patterns_of_real_rules() {
        for (pattern, name, expected) in [
            ("nvme*", "nvme0n1", true),
            ("nvme[0-9]*n[0-9]*", "nvme12n1", true),
            ("nvme[0-9]*n[0-9]*", "nvme", false),
            ("sd*[!0-9]", "sda", true),
            ("sd*[!0-9]", "sda1", false),
            ("dm-?", "dm-0", true),
            ("*", "", true),
            ("?*", "", false),
            ("a*b*c", "aXbYbZc", true),
            ("[]x]", "]", true),
            ("[a", "[a", true),
            ("vda", "vdb", false),
        ] {
            assert_eq!(is_meant(pattern, name), expected, "{pattern} {name}");
        }
    }

    proptest! {
        #[test]
        fn foreign_patterns_do_no_harm(pattern in "[\\[\\]!*?a-c-]{0,12}", name in "[a-c\\[\\]-]{0,12}") {
            let _ = is_meant(&pattern, &name);
            prop_assert!(is_meant("*", &name));
        }

        #[test]
        fn a_literal_means_its_own_name_alone(name in "[\\[\\]!^*?a-c-]{0,8}", other in "[\\[\\]!^*?a-c-]{0,8}") {
            prop_assert!(is_meant(&literal(&name), &name), "{}", literal(&name));
            prop_assert_eq!(is_meant(&literal(&name), &other), name == other);
        }
    }
}
