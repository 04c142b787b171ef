//! SASL/PLAIN (RFC 4616): the client sends its name and password. It is only as safe as its connection, so the broker
//! offers it only inside TLS, unless the user insists.

/// What a client says.
#[derive(PartialEq, Eq)]
pub(crate) struct Login<'a> {
    pub(crate) user: &'a str,
    pub(crate) password: &'a str,
}

impl<'a> Login<'a> {
    /// Reads `other NUL user NUL password`, where `other` must be empty or the same user. `None` for anything else.
    pub(crate) fn parse(token: &'a [u8]) -> Option<Self> {
        let mut fields = std::str::from_utf8(token).ok()?.split('\0');
        let (other, user, password) = (fields.next()?, fields.next()?, fields.next()?);
        let well_formed = fields.next().is_none() && !user.is_empty() && !password.is_empty();
        (well_formed && (other.is_empty() || other == user)).then_some(Self { user, password })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_logins_for_oneself_are_logins() {
        for token in [&b"\0tim\0tanstaaf"[..], b"tim\0tim\0tanstaaf"] {
            let login = Login::parse(token).unwrap();
            assert_eq!((login.user, login.password), ("tim", "tanstaaf"));
        }
        for token in [
            &b""[..],
            b"tim",
            b"\0tim",
            b"\0tim\0",
            b"\0\0tanstaaf",
            b"root\0tim\0tanstaaf",
            b"\0tim\0tan\0staaf",
            b"\0\xff\0tanstaaf",
        ] {
            assert!(Login::parse(token).is_none(), "{token:?}");
        }
    }
}
