//! Which settings a broker refuses, and of which it warns: those that can't work, and those under which strangers come in.

use std::net::{IpAddr, SocketAddr};

use crate::properties::broker;
use crate::security::acl::Acls;
use crate::security::session::ANONYMOUS;
use crate::security::users::Users;
use crate::settings::{Settings, SettingsError, numbers};

impl Settings {
    /// Refuses what no broker can be started with, whatever the machine is like.
    pub(crate) fn check(&self) -> Result<(), SettingsError> {
        numbers::ALL.iter().try_for_each(|number| number.check(self))?;
        if self.max_memory_bytes < self.max_request_bytes {
            return Err(SettingsError::new(format!(
                "--max-memory-bytes {} is too small for one request of --max-request-bytes {}\n  next: \
                 raise the first, or lower the second",
                self.max_memory_bytes, self.max_request_bytes
            )));
        }
        for (name, value) in &self.properties {
            let checked = broker::check(name, value);
            checked.map_err(|why| SettingsError::new(format!("--property: {why}")))?;
        }
        check_access(self)?;
        self.check_advertised()
    }

    /// Clients connect to the advertised address, so it must be a real one.
    fn check_advertised(&self) -> Result<(), SettingsError> {
        match &self.advertised {
            Some(endpoint) if endpoint.is_unspecified() => Err(SettingsError::new(format!(
                "--advertise {endpoint}: no client can connect to {}\n  next: use the name or address by \
                 which clients reach this machine",
                endpoint.host
            ))),
            None if self.listen.ip().is_unspecified() => {
                let (listen, port) = (self.listen, self.listen.port());
                Err(SettingsError::new(format!(
                    "--listen {listen} accepts clients on every address, so the broker has no address to \
                     advertise\n  next: add --advertise HOST:{port} with the name or address by which \
                     clients reach this machine (localhost:{port} if they all run on it)"
                )))
            }
            _ => Ok(()),
        }
    }
}

/// Rejects settings that let other machines in without TLS or login, unless the user asks for that. It also rejects
/// settings under which no client has access.
fn check_access(settings: &Settings) -> Result<(), SettingsError> {
    let refused = |text: &str| Err(SettingsError::new(text));
    if !settings.users.is_empty() && !settings.sasl {
        return refused(
            "--user sets passwords, but clients need no login\n  next: add --sasl, or omit --user",
        );
    }
    if let Some(user) = settings.super_users.iter().find(|user| !user.contains(':')) {
        return Err(SettingsError::new(format!(
            "--superuser {user} has no type\n  next: use --superuser User:{user}"
        )));
    }
    if settings.authorize && settings.super_users.is_empty() {
        return refused(
            "--authorize needs a --superuser, because no client has any rights without one\n  next: add \
             --superuser User:admin, for example",
        );
    }
    if !settings.authorize && !settings.super_users.is_empty() {
        return refused(
            "--superuser has no effect without --authorize, because every client has all rights\n  next: \
             add --authorize, or omit --superuser",
        );
    }
    check_listener(settings)?;
    check_metrics(settings)
}

/// Whether every client must say who it is.
fn asks_for_names(settings: &Settings) -> bool {
    settings.sasl || settings.tls.as_ref().is_some_and(|tls| tls.client_authorities.is_some())
}

/// Whether clients come from this machine only, or come in private and say who they are.
fn guards_clients(settings: &Settings) -> bool {
    is_local(settings.listen) || settings.tls.is_some() && asks_for_names(settings)
}

fn check_listener(settings: &Settings) -> Result<(), SettingsError> {
    if guards_clients(settings) || settings.insecure {
        return Ok(());
    }
    Err(SettingsError::new(format!(
        "--listen {} is open to other machines, so it needs TLS and a login\n  next: add --tls-cert FILE \
         --tls-key FILE and --sasl --user NAME:FILE (or --tls-client-ca FILE), or add --insecure to do \
         without both",
        settings.listen
    )))
}

/// The metrics address, if other machines can reach it. The metrics name topics and groups, and they have no login.
fn open_metrics(settings: &Settings) -> Option<SocketAddr> {
    settings.metrics_listen.filter(|address| !is_local(*address))
}

fn check_metrics(settings: &Settings) -> Result<(), SettingsError> {
    match open_metrics(settings) {
        Some(address) if !(settings.open_metrics || settings.insecure) => Err(SettingsError::new(format!(
            "--metrics-listen {address} is open to other machines, but the metrics have neither TLS nor a \
             login\n  next: use 127.0.0.1, or add --open-metrics to let everyone read them"
        ))),
        _ => Ok(()),
    }
}

/// Says what strangers can do under settings that have passed the check.
pub(crate) fn warn(settings: &Settings) {
    if !guards_clients(settings) {
        let mut risks = Vec::new();
        if settings.tls.is_none() {
            risks.push("the traffic is not encrypted");
        }
        if !asks_for_names(settings) {
            risks.push("clients need no login");
        }
        let (listen, risks) = (settings.listen, risks.join(" and "));
        settings.notices.say(&format!("{listen} is open to other machines: {risks}"));
    }
    if let Some(address) = open_metrics(settings) {
        settings
            .notices
            .say(&format!("the metrics on {address} are open to other machines: clients need no login"));
    }
}

/// Rejects access control lists that give no client any rights, and warns of a super user who can't log in.
pub(crate) fn check_lists(settings: &Settings, acls: &Acls, users: &Users) -> Result<(), SettingsError> {
    if !settings.authorize {
        return Ok(());
    }
    if !asks_for_names(settings) && !acls.may_allow(ANONYMOUS) {
        return Err(SettingsError::new(format!(
            "--authorize identifies clients by login or certificate, but this broker requires neither, so \
             every client is {ANONYMOUS} without rights\n  next: add --sasl --user NAME:FILE (or \
             --tls-client-ca FILE), or --superuser {ANONYMOUS} to give every client all rights",
        )));
    }
    let by_password =
        settings.sasl && settings.tls.as_ref().is_none_or(|tls| tls.client_authorities.is_none());
    let unknown =
        |user: &&String| user.strip_prefix("User:").is_none_or(|name| users.describe(name).is_none());
    if by_password && settings.super_users.iter().all(|user| unknown(&user)) {
        let named = settings.super_users.join(", ");
        settings.notices.say(&format!(
            "no super user can log in: {named} has no password; add one with --user NAME:FILE"
        ));
    }
    Ok(())
}

fn is_local(address: SocketAddr) -> bool {
    match address.ip() {
        IpAddr::V4(ip) => ip.is_loopback(),
        IpAddr::V6(ip) => ip.is_loopback() || ip.to_ipv4_mapped().is_some_and(|ip| ip.is_loopback()),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::*;
    use crate::notices::Notices;
    use crate::security::tls::TlsFiles;
    use crate::settings::NewUser;

    #[test]
    fn clients_are_told_of_an_address_that_they_can_connect_to() {
        let told = |listen: &str, advertised: Option<&str>| {
            let mut settings = Settings { insecure: true, ..Settings::new("unused") };
            settings.listen = listen.parse().unwrap();
            settings.advertised = advertised.map(|endpoint| endpoint.parse().unwrap());
            let bound = SocketAddr::new(settings.listen.ip(), 7);
            settings.check().map(|()| settings.endpoint(bound).to_string()).map_err(|error| error.to_string())
        };
        assert_eq!(told("127.0.0.1:0", None).as_deref(), Ok("127.0.0.1:7"));
        assert_eq!(told("[::1]:0", None).as_deref(), Ok("[::1]:7"));
        assert_eq!(told("0.0.0.0:7", Some("broker.example:9")).as_deref(), Ok("broker.example:9"));
        assert_eq!(told("0.0.0.0:0", Some("localhost:0")).as_deref(), Ok("localhost:7"));
        for everywhere in ["0.0.0.0:9092", "[::]:9092"] {
            let error = told(everywhere, None).unwrap_err();
            assert!(error.contains(everywhere) && error.contains("--advertise HOST:9092"), "{error}");
            let error = told("127.0.0.1:0", Some(everywhere)).unwrap_err();
            assert!(
                error.starts_with(&format!("--advertise {everywhere}: no client can connect")),
                "{error}"
            );
        }
    }

    fn tls(client_authorities: Option<&str>) -> Option<TlsFiles> {
        let client_authorities = client_authorities.map(Into::into);
        Some(TlsFiles { certificate: "c".into(), key: "k".into(), client_authorities })
    }

    #[test]
    fn other_machines_are_let_in_only_in_private_and_by_name() {
        let said = Arc::new(Mutex::new(Vec::new()));
        let allowed = |listen: &str, change: &dyn Fn(&mut Settings)| {
            let mut settings = Settings::new("unused");
            let said = Arc::clone(&said);
            settings.listen = listen.parse().unwrap();
            settings.notices = Notices::to(move |line| said.lock().unwrap().push(line.to_owned()));
            change(&mut settings);
            check_access(&settings).map_err(|error| error.to_string())?;
            warn(&settings);
            Ok::<(), String>(())
        };
        for local in ["127.0.0.1:9092", "127.8.8.8:1", "[::1]:9092", "[::ffff:127.0.0.1]:9092"] {
            assert_eq!(allowed(local, &|_| ()), Ok(()));
        }
        for open in ["0.0.0.0:9092", "[::]:9092", "192.0.2.1:9092"] {
            for change in [&(|_: &mut Settings| ()) as &dyn Fn(&mut Settings), &|s| s.sasl = true, &|s| {
                s.tls = tls(None)
            }] {
                let error = allowed(open, change).unwrap_err();
                assert!(error.starts_with(&format!("--listen {open}")), "{error}");
                for flag in ["--tls-cert", "--tls-key", "--sasl", "--user", "--insecure"] {
                    assert!(error.contains(flag), "{error}");
                }
            }
            let secured = |s: &mut Settings| (s.tls, s.sasl) = (tls(None), true);
            assert_eq!(allowed(open, &secured), Ok(()));
            assert_eq!(allowed(open, &|s| s.tls = tls(Some("ca"))), Ok(()));
        }
        assert!(said.lock().unwrap().is_empty());
        assert_eq!(allowed("0.0.0.0:9092", &|s| s.insecure = true), Ok(()));
        let line = said.lock().unwrap().pop().unwrap();
        assert!(line.ends_with("the traffic is not encrypted and clients need no login"), "{line}");
    }

    #[test]
    fn metrics_are_read_from_other_machines_only_when_that_is_said() {
        let allowed = |metrics: Option<&str>, change: fn(&mut Settings)| {
            let mut settings = Settings::new("unused");
            settings.metrics_listen = metrics.map(|address| address.parse().unwrap());
            change(&mut settings);
            check_access(&settings)
        };
        for local in [None, Some("127.0.0.1:9644"), Some("[::1]:9644")] {
            assert_eq!(allowed(local, |_| ()), Ok(()));
        }
        for open in ["0.0.0.0:9644", "[::]:9644", "192.0.2.1:9644"] {
            let error = allowed(Some(open), |_| ()).unwrap_err().to_string();
            assert!(
                error.starts_with(&format!("--metrics-listen {open}")) && error.contains("--open-metrics"),
                "{error}"
            );
            assert_eq!(allowed(Some(open), |settings| settings.open_metrics = true), Ok(()));
            assert_eq!(allowed(Some(open), |settings| settings.insecure = true), Ok(()));
            let secured = |settings: &mut Settings| (settings.tls, settings.sasl) = (tls(None), true);
            assert!(allowed(Some(open), secured).is_err(), "neither of them guards the metrics");
        }
    }

    #[test]
    fn users_without_a_login_are_a_mistake() {
        let mut settings = Settings::new("unused");
        settings.users.push(NewUser { name: "alice".to_owned(), password: "secret".to_owned() });
        let error = check_access(&settings).unwrap_err().to_string();
        assert!(error.contains("--sasl"), "{error}");
        assert!(!format!("{settings:?}").contains("secret"));
    }

    #[test]
    fn lists_need_a_super_user_and_super_users_need_lists() {
        let refused = |authorize, super_users: &[&str]| {
            let mut settings = Settings { authorize, ..Settings::new("unused") };
            settings.super_users = super_users.iter().map(|user| (*user).to_owned()).collect();
            check_access(&settings).map_err(|error| error.to_string())
        };
        assert_eq!(refused(true, &["User:admin"]), Ok(()));
        for (authorize, super_users, wanted) in [
            (true, &[][..], "--authorize needs a --superuser"),
            (
                true,
                &["User:a", "admin"],
                "--superuser admin has no type\n  next: use --superuser \
                                          User:admin",
            ),
            (false, &["User:admin"], "add --authorize"),
        ] {
            let error = refused(authorize, super_users).unwrap_err();
            assert!(error.contains(wanted), "{error}");
        }
    }
}
