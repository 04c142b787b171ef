//! Access control. It runs before any other part of a request.

use std::fs::File;
use std::io::Read as _;
use std::net::{IpAddr, SocketAddr};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use anyhow::{Context as _, Result, bail};
use hyper::header::{AUTHORIZATION, HOST, HeaderMap, HeaderValue};
use hyper::{Method, StatusCode, Uri};
use sha2::{Digest as _, Sha256};
use subtle::ConstantTimeEq as _;

use super::shelf::is_id;
use hone_experiment::ending::Usage;

/// A shorter token could be guessed.
const LEAST_TOKEN: usize = 24;
const MOST_TOKEN: usize = 4096;
/// The command that creates a token.
const MAKE_ONE: &str = "(umask 077; head -c 32 /dev/urandom | base64 > hone.token)";

/// The requirements of a request.
#[derive(Debug)]
pub struct Door {
    is_loopback: bool,
    /// Host names, apart from addresses, that requests may use.
    names: Vec<String>,
    /// SHA-256 of the token.
    token: Option<[u8; 32]>,
}

/// The reason for a refused request.
#[derive(Debug, PartialEq, Eq)]
pub struct Refused {
    pub(crate) status: StatusCode,
    pub(crate) why: &'static str,
}

impl Door {
    /// The access rules of a server at this address.
    ///
    /// # Errors
    /// Other machines can reach the address, and there is no token.
    pub fn new(address: SocketAddr, names: &[String], token: Option<&str>) -> Result<Self> {
        let is_loopback = address.ip().is_loopback();
        if !is_loopback && token.is_none() {
            bail!(Usage(format!(
                "other machines can reach {address}, and without a token they can read everything\n  next: \
                 make a token with {MAKE_ONE} and use --token-file hone.token, or listen at 127.0.0.1 and \
                 connect with ssh -L"
            )));
        }
        let names = names.iter().map(|name| without_port(name).to_ascii_lowercase()).collect();
        Ok(Self { is_loopback, names, token: token.map(|token| Sha256::digest(token).into()) })
    }

    /// Checks a request. The answer to a refused request reveals nothing about the content.
    pub fn check(&self, method: &Method, uri: &Uri, headers: &HeaderMap) -> Result<(), Refused> {
        let refused = |status, why| Err(Refused { status, why });
        let is_action = *method == Method::POST && run_to_stop(uri.path()).is_some();
        if !is_action && !matches!(*method, Method::GET | Method::HEAD) {
            return refused(StatusCode::METHOD_NOT_ALLOWED, "only GET and HEAD: this server is read-only");
        }
        if !self.is_asked_as_itself(uri, headers) {
            return refused(
                StatusCode::MISDIRECTED_REQUEST,
                "this server does not accept that host name; allow it with --allowed-host NAME",
            );
        }
        if is_of_another_site(headers) {
            return refused(
                StatusCode::FORBIDDEN,
                "another site may link to this server, but may not read or load anything from it",
            );
        }
        if is_action && !is_of_this_site(headers) {
            return refused(StatusCode::FORBIDDEN, "only a page of this server may stop a run");
        }
        if !self.has_token(headers) {
            return refused(StatusCode::UNAUTHORIZED, "send the token of --token-file as the password");
        }
        if is_action && self.token.is_none() {
            return refused(
                StatusCode::FORBIDDEN,
                "to stop runs from their pages, start hone serve with --token-file",
            );
        }
        Ok(())
    }

    /// Whether requests need a token. Only then a page may stop a run.
    pub(super) fn needs_token(&self) -> bool {
        self.token.is_some()
    }

    /// A foreign page can let its own name resolve to this server. But the browser then sends that name, so this check refuses
    /// it.
    fn is_asked_as_itself(&self, uri: &Uri, headers: &HeaderMap) -> bool {
        let mut hosts = headers.get_all(HOST).iter();
        let (Some(host), None) = (hosts.next(), hosts.next()) else { return false };
        let in_uri = uri.authority().is_none_or(|authority| self.knows(authority.as_str()));
        in_uri && host.to_str().is_ok_and(|host| self.knows(host))
    }

    fn knows(&self, host: &str) -> bool {
        let name = without_port(host).to_ascii_lowercase();
        let bare = name.strip_prefix('[').and_then(|name| name.strip_suffix(']')).unwrap_or(&name);
        match bare.parse::<IpAddr>() {
            Ok(address) => address.is_loopback() || !self.is_loopback,
            Err(_) => name == "localhost" || self.names.contains(&name),
        }
    }

    fn has_token(&self, headers: &HeaderMap) -> bool {
        let Some(wanted) = &self.token else { return true };
        let given = headers.get(AUTHORIZATION).and_then(token_of).unwrap_or_default();
        let given: [u8; 32] = Sha256::digest(given).into();
        given.ct_eq(wanted).into()
    }
}

/// `host`, `host:port`, `[address]:port`. The port is ignored, because it may be forwarded.
fn without_port(host: &str) -> &str {
    match host.rsplit_once(':') {
        Some((name, port)) if !port.contains(']') && port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => host,
    }
}

/// The browser's statement about a request from a page of another site. A followed link is such a request, too, but harmless.
fn is_of_another_site(headers: &HeaderMap) -> bool {
    let says =
        |name: &str, value: &str| headers.get(name).is_some_and(|found| found.as_bytes() == value.as_bytes());
    let is_link = says("sec-fetch-mode", "navigate") && says("sec-fetch-dest", "document");
    says("sec-fetch-site", "cross-site") && !is_link
}

/// The id of the run that a request to this path stops.
pub(super) fn run_to_stop(path: &str) -> Option<&str> {
    path.strip_prefix("/run/")?.strip_suffix("/stop").filter(|id| is_id(id))
}

/// Whether a request comes from a page of this server, or from a program, which has no page.
fn is_of_this_site(headers: &HeaderMap) -> bool {
    let value = |name: &str| headers.get(name).map(HeaderValue::as_bytes);
    let site = value("sec-fetch-site");
    if site.is_some_and(|site| site != b"same-origin") {
        return false;
    }
    let host = value("host").unwrap_or_default();
    match value("origin") {
        None => true,
        // Browsers send this because the pages have the referrer policy `no-referrer`.
        Some(b"null") => site.is_some(),
        Some(origin) => {
            [&b"http://"[..], b"https://"].iter().any(|scheme| origin == [*scheme, host].concat())
        }
    }
}

/// `Bearer TOKEN`, or the browser's form: any user name, with the token as the password.
fn token_of(value: &HeaderValue) -> Option<Vec<u8>> {
    use base64::Engine as _;
    let (scheme, rest) = value.to_str().ok()?.split_once(' ')?;
    if scheme.eq_ignore_ascii_case("bearer") {
        return Some(rest.trim().as_bytes().to_vec());
    }
    if !scheme.eq_ignore_ascii_case("basic") {
        return None;
    }
    let pair = base64::engine::general_purpose::STANDARD.decode(rest.trim()).ok()?;
    let colon = pair.iter().position(|byte| *byte == b':')?;
    pair.get(colon + 1..).map(<[u8]>::to_vec)
}

/// Reads a token.
///
/// # Errors
/// The token can't be read, is readable for others, or is easy to guess.
pub fn read_token(path: &Path) -> Result<String> {
    let cannot = || format!("can't read the token {}\n  next: make one with {MAKE_ONE}", path.display());
    let file = File::open(path).with_context(cannot)?;
    let mode = file.metadata().with_context(cannot)?.permissions().mode();
    if mode & 0o077 != 0 {
        bail!(Usage(format!(
            "others on this machine can read the token {0}, too\n  next: chmod 600 {0}",
            path.display()
        )));
    }
    let mut text = String::new();
    file.take(MOST_TOKEN as u64).read_to_string(&mut text).with_context(cannot)?;
    let token = text.trim();
    let is_plain = token.bytes().all(|byte| byte.is_ascii_graphic());
    if token.len() < LEAST_TOKEN || !is_plain {
        bail!(Usage(format!(
            "the token {} is not one line of {LEAST_TOKEN} or more letters, digits and signs\n  next: make \
             one with {MAKE_ONE}",
            path.display()
        )));
    }
    Ok(token.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    const TOKEN: &str = "0123456789abcdef0123456789abcdef";

    fn asked(door: &Door, head: &[(&'static str, &str)]) -> u16 {
        let mut headers = HeaderMap::new();
        for (name, value) in head {
            headers.append(*name, value.parse().unwrap());
        }
        match door.check(&Method::GET, &Uri::from_static("/"), &headers) {
            Ok(()) => 200,
            Err(refused) => refused.status.as_u16(),
        }
    }

    fn loopback() -> Door {
        Door::new("127.0.0.1:8377".parse().unwrap(), &["desk.example".to_owned()], None).unwrap()
    }

    #[test]
    fn only_its_own_names_lead_in() {
        for (host, status) in [
            ("127.0.0.1:8377", 200),
            ("localhost", 200),
            ("LOCALHOST:9000", 200),
            ("[::1]:8377", 200),
            ("127.9.9.9", 200),
            ("desk.example:8377", 200),
            ("evil.example", 421),
            ("127.0.0.1.evil.example", 421),
            ("localhost.evil.example:8377", 421),
            ("10.0.0.7:8377", 421),
            ("", 421),
            ("localhost:evil", 421),
        ] {
            assert_eq!(asked(&loopback(), &[("host", host)]), status, "{host}");
        }
        assert_eq!(asked(&loopback(), &[]), 421, "none");
        assert_eq!(asked(&loopback(), &[("host", "localhost"), ("host", "localhost")]), 421, "two");
        let with_port =
            Door::new("127.0.0.1:8377".parse().unwrap(), &["Desk.example:8377".to_owned()], None).unwrap();
        assert_eq!(asked(&with_port, &[("host", "desk.example:8377")]), 200, "a port says nothing");
        let mut headers = HeaderMap::new();
        headers.insert(HOST, "localhost".parse().unwrap());
        let uri = Uri::from_static("http://evil.example/");
        assert_eq!(loopback().check(&Method::GET, &uri, &headers).unwrap_err().status.as_u16(), 421);
        assert_eq!(
            loopback().check(&Method::POST, &Uri::from_static("/"), &headers).unwrap_err().status.as_u16(),
            405
        );
    }

    #[test]
    fn another_site_may_link_and_not_load() {
        let from = |mode: &'static str, dest: &'static str| {
            let head = [
                ("host", "localhost"),
                ("sec-fetch-site", "cross-site"),
                ("sec-fetch-mode", mode),
                ("sec-fetch-dest", dest),
            ];
            asked(&loopback(), &head)
        };
        assert_eq!(from("navigate", "document"), 200);
        assert_eq!(
            (from("no-cors", "image"), from("cors", "empty"), from("navigate", "iframe")),
            (403, 403, 403)
        );
    }

    #[test]
    fn a_token_is_wanted_whole_and_in_either_form() {
        let door = Door::new("0.0.0.0:8377".parse().unwrap(), &[], Some(TOKEN)).unwrap();
        let with = |value: &str| asked(&door, &[("host", "10.0.0.7:8377"), ("authorization", value)]);
        use base64::Engine as _;
        let basic = |pair: &str| format!("Basic {}", base64::engine::general_purpose::STANDARD.encode(pair));
        assert_eq!(with(&format!("Bearer {TOKEN}")), 200);
        assert_eq!(with(&basic(&format!("hone:{TOKEN}"))), 200);
        for wrong in [
            "",
            "Bearer",
            "Bearer x",
            TOKEN,
            "Basic !",
            "Digest x",
            &format!("Bearer {TOKEN}0"),
            &basic(TOKEN),
        ] {
            assert_eq!(with(wrong), 401, "{wrong}");
        }
        assert_eq!(asked(&door, &[("host", "10.0.0.7")]), 401);
        assert_eq!(asked(&door, &[("host", "evil.example")]), 421, "a name first has to be known");
    }

    #[test]
    fn without_a_token_nobody_else_is_let_in() {
        for address in ["0.0.0.0:1", "10.1.2.3:1", "[::]:1", "[2001:db8::1]:1"] {
            let error = Door::new(address.parse().unwrap(), &[], None).unwrap_err();
            assert!(error.is::<Usage>() && error.to_string().contains("--token-file"), "{error}");
        }
        assert!(Door::new("[::1]:1".parse().unwrap(), &[], None).is_ok());
    }

    #[test]
    fn a_token_that_others_read_or_guess_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("token");
        let with = |text: &str, mode: u32| {
            fs::write(&path, text).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
            read_token(&path).map_err(|error| format!("{error:#}"))
        };
        assert_eq!(with(&format!("{TOKEN}\n"), 0o600).unwrap(), TOKEN);
        assert!(with(TOKEN, 0o640).unwrap_err().contains("chmod 600"));
        for weak in ["", "secret", "with a blank in it, which is none", &"é".repeat(40)] {
            assert!(with(weak, 0o600).unwrap_err().contains("next: make one"), "{weak}");
        }
        assert!(
            format!("{:#}", read_token(&dir.path().join("none")).unwrap_err())
                .contains("can't read the token")
        );
    }

    #[test]
    fn a_run_is_stopped_only_from_a_page_of_a_server_with_a_token() {
        const STOP: &str = "/run/0123456789abcdef/stop";
        let asked = |door: &Door, path: &'static str, head: &[(&'static str, &str)]| {
            let mut headers = HeaderMap::new();
            for (name, value) in head {
                headers.append(*name, value.parse().unwrap());
            }
            let checked = door.check(&Method::POST, &Uri::from_static(path), &headers);
            checked.map_or_else(|refused| refused.status.as_u16(), |()| 200)
        };
        let address = "127.0.0.1:8377".parse().unwrap();
        let door = Door::new(address, &[], Some(TOKEN)).unwrap();
        let bearer = format!("Bearer {TOKEN}");
        let own = [("host", "localhost:8377"), ("authorization", bearer.as_str())];
        assert_eq!(asked(&door, STOP, &own), 200);
        let with = |more: &[(&'static str, &'static str)]| asked(&door, STOP, &[&own[..], more].concat());
        assert_eq!(with(&[("origin", "http://localhost:8377"), ("sec-fetch-site", "same-origin")]), 200);
        assert_eq!(with(&[("origin", "https://localhost:8377")]), 200, "TLS in front");
        assert_eq!(with(&[("origin", "null"), ("sec-fetch-site", "same-origin")]), 200, "without a referrer");
        for elsewhere in ["http://evil.example", "null", "http://localhost:8378"] {
            assert_eq!(with(&[("origin", elsewhere)]), 403, "{elsewhere}");
        }
        for site in ["cross-site", "same-site", "none"] {
            assert_eq!(with(&[("sec-fetch-site", site)]), 403, "{site}");
        }
        assert_eq!(asked(&door, STOP, &own[..1]), 401);
        assert_eq!(asked(&loopback(), STOP, &own[..1]), 403, "without a token, every account could");
        for path in ["/", "/run/0123456789abcdef", "/run/x/stop", "/run/0123456789abcdef/stop/x", "/stop"] {
            assert_eq!(asked(&door, path, &own), 405, "{path}");
        }
    }
}
