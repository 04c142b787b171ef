//! Connection files of Hone and of other clients.
//!
//! Keys and their meaning: Kafka's and librdkafka's CONFIGURATION pages, and rpk's `rpk profile` documentation.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Result, bail};
use hone_format::FileError;
use hone_host::yaml::{Node, documents};
use hone_load::security::Password;

use super::{Connection, Login, Secret, TlsFiles, read_short};
use crate::ending::Usage;

/// What a file says, and what of it Hone does not use.
#[derive(Debug, PartialEq, Eq)]
pub struct Imported {
    /// The connection.
    pub connection: Connection,
    /// Keys without a meaning for a connection, such as `linger.ms`.
    pub ignored: Vec<String>,
}

/// Reads a connection file; its ending says of which kind it is. Relative paths in it start at its folder.
///
/// # Errors
/// When it can't be read, and when it asks for what Hone can't do, such as a Java key store.
pub fn read(file: &Path) -> Result<Imported> {
    let text = read_short(file)?;
    let ending = file.extension().and_then(|ending| ending.to_str()).unwrap_or_default();
    let of_file = |why: String| format!("{}: {why}", file.display());
    let read = match ending {
        "toml" => own(&text, file),
        "yaml" | "yml" => rpk(&text).map_err(of_file),
        _ => properties(&text).map_err(of_file),
    };
    let mut imported = read.map_err(|why| {
        Usage(format!(
            "{why}\n  next: mend the file, or name the options on the command line (--tls-ca, --sasl-user ...)"
        ))
    })?;
    let folder = std::path::absolute(file)?.parent().map(Path::to_path_buf).unwrap_or_default();
    imported.connection.absolute(&folder);
    if imported.connection == Connection::default() {
        bail!(Usage(format!(
            "{}: it names no broker, TLS or login\n  next: use a TOML connection file, an rpk profile (.yaml) or client properties",
            file.display()
        )));
    }
    Ok(imported)
}

impl Connection {
    fn absolute(&mut self, folder: &Path) {
        let tls = self.tls.iter_mut().flat_map(|tls| [&mut tls.ca, &mut tls.cert, &mut tls.key]);
        let login = self.sasl.iter_mut().map(|login| &mut login.password_file);
        for path in tls.chain(login).flatten() {
            *path = folder.join(&*path);
        }
    }
}

fn own(text: &str, file: &Path) -> Result<Imported, String> {
    let connection =
        toml::from_str(text).map_err(|error| FileError::of_toml(&error, text, file).to_string())?;
    Ok(Imported { connection, ignored: Vec::new() })
}

/// Addresses of a list, without what stands for no address.
fn addresses(list: &str) -> Vec<String> {
    list.split(',').map(str::trim).filter(|one| !one.is_empty()).map(str::to_owned).collect()
}

/// `KEY=VALUE` lines, of which `#` and `!` begin remarks. A value may go on behind `\`.
fn pairs(text: &str) -> BTreeMap<String, String> {
    let whole = text.replace("\\\r\n", "").replace("\\\n", "");
    let lines = whole.lines().map(str::trim).filter(|line| !line.starts_with(['#', '!']));
    let pair = |line: &str| {
        let (key, value) = line.split_once(['=', ':'])?;
        Some((key.trim().to_owned(), value.trim().to_owned()))
    };
    lines.filter_map(pair).collect()
}

fn properties(text: &str) -> Result<Imported, String> {
    let mut found = pairs(text);
    let mut take = |names: &[&str]| names.iter().filter_map(|name| found.remove(*name)).next_back();
    let bootstrap = take(&["bootstrap.servers", "metadata.broker.list"]).map(|list| addresses(&list));
    let protocol = take(&["security.protocol"]).unwrap_or_else(|| "PLAINTEXT".to_owned()).to_uppercase();
    let mechanism = take(&["sasl.mechanism", "sasl.mechanisms"]);
    let jaas = take(&["sasl.jaas.config"]).unwrap_or_default();
    let user = take(&["sasl.username"]).or_else(|| quoted(&jaas, "username"));
    let password = take(&["sasl.password"]).or_else(|| quoted(&jaas, "password"));
    let ca = pem(take(&["ssl.ca.location", "ssl.truststore.location"]), take(&["ssl.truststore.type"]))?;
    let store = pem(take(&["ssl.keystore.location"]), take(&["ssl.keystore.type"]))?;
    let cert = take(&["ssl.certificate.location"]).map(PathBuf::from).or_else(|| store.clone());
    let key = take(&["ssl.key.location"]).map(PathBuf::from).or(store);
    let insecure_skip_verify =
        take(&["enable.ssl.certificate.verification"]).is_some_and(|value| value == "false");
    let (has_tls, has_login) = match protocol.as_str() {
        "PLAINTEXT" => (false, false),
        "SSL" => (true, false),
        "SASL_PLAINTEXT" => (false, true),
        "SASL_SSL" => (true, true),
        other => {
            return Err(format!(
                "security.protocol `{other}`: use PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL"
            ));
        }
    };
    let sasl = has_login.then(|| login(mechanism, user, password)).transpose()?;
    let connection = Connection {
        bootstrap: bootstrap.unwrap_or_default(),
        tls: has_tls.then_some(TlsFiles { ca, cert, key, server_name: None, insecure_skip_verify }),
        sasl,
        ..Connection::default()
    };
    Ok(Imported { connection, ignored: found.into_keys().collect() })
}

fn login(mechanism: Option<String>, user: Option<String>, password: Option<String>) -> Result<Login, String> {
    Ok(Login {
        // Kafka's own default is GSSAPI, which Hone does not speak.
        mechanism: mechanism.ok_or("the login has no mechanism (sasl.mechanism)")?,
        user: user.ok_or("the login has no user")?,
        password_file: None,
        password: password.map(|text| Secret(Password::new(text))),
    })
}

/// A store of PEM. Java's own formats are not read.
fn pem(location: Option<String>, kind: Option<String>) -> Result<Option<PathBuf>, String> {
    let Some(location) = location else { return Ok(None) };
    let is_java = [".jks", ".p12", ".pfx"].iter().any(|ending| location.to_lowercase().ends_with(ending));
    match kind.as_deref() {
        Some(kind) if !kind.eq_ignore_ascii_case("PEM") => Err(java_store(&location)),
        None if is_java => Err(java_store(&location)),
        _ => Ok(Some(PathBuf::from(location))),
    }
}

fn java_store(location: &str) -> String {
    format!(
        "{location} is a Java key store; convert it to PEM (keytool -exportcert -rfc, or openssl pkcs12 -nodes)"
    )
}

/// The value of `name="value"` in a JAAS line.
fn quoted(text: &str, name: &str) -> Option<String> {
    let (_, rest) = text.split_once(&format!("{name}="))?;
    let mark = rest.chars().next().filter(|c| ['"', '\''].contains(c))?;
    rest[1..].split_once(mark).map(|(value, _)| value.to_owned())
}

/// An rpk profile: `rpk.yaml` with its current profile, one profile alone, or `redpanda.yaml` with its `rpk` part.
fn rpk(text: &str) -> Result<Imported, String> {
    let documents = documents(text)?;
    let root = documents.first().ok_or("the file is empty")?;
    let profile = profile(root)?;
    let kafka = profile.get("kafka_api").ok_or("it has no kafka_api, so it is no rpk profile")?;
    let word = |node: &Node, key: &str| {
        node.get(key).and_then(Node::text).filter(|text| !text.is_empty()).map(str::to_owned)
    };
    let path = |node: &Node, key: &str| word(node, key).map(PathBuf::from);
    let brokers = kafka.get("brokers").map(Node::list).unwrap_or_default();
    let tls = kafka.get("tls").map(|tls| TlsFiles {
        ca: path(tls, "ca_file").or_else(|| path(tls, "truststore_file")),
        cert: path(tls, "cert_file"),
        key: path(tls, "key_file"),
        server_name: None,
        insecure_skip_verify: word(tls, "insecure_skip_verify").is_some_and(|value| value == "true"),
    });
    let sasl = kafka.get("sasl").filter(|sasl| word(sasl, "user").is_some());
    let sasl = sasl.map(|sasl| {
        login(
            word(sasl, "mechanism").or(Some("SCRAM-SHA-256".to_owned())),
            word(sasl, "user"),
            word(sasl, "password"),
        )
    });
    let connection = Connection {
        bootstrap: brokers.iter().filter_map(Node::text).map(str::to_owned).collect(),
        tls,
        sasl: sasl.transpose()?,
        ..Connection::default()
    };
    let ignored = profile.entries().iter().map(|(key, _)| key.clone());
    let ignored = ignored
        .filter(|key| !["kafka_api", "name", "description", "prompt"].contains(&key.as_str()))
        .collect();
    Ok(Imported { connection, ignored })
}

fn profile(root: &Node) -> Result<&Node, String> {
    let Some(profiles) = root.get("profiles") else { return Ok(root.get("rpk").unwrap_or(root)) };
    let named = root.get("current_profile").and_then(Node::text).unwrap_or_default();
    let is_it = |profile: &&Node| profile.get("name").and_then(Node::text) == Some(named);
    profiles.list().iter().find(is_it).ok_or_else(|| {
        format!("it has no profile `{named}`, which is its current_profile; choose one with `rpk profile use NAME`")
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn secret(text: &str) -> Option<Secret> {
        Some(Secret(Password::new(text.to_owned())))
    }

    #[test]
    fn properties_of_java_and_of_kcat_say_the_same() {
        let java = properties(
            "# c\nbootstrap.servers=a:1, b:2\nsecurity.protocol=SASL_SSL\nsasl.mechanism=SCRAM-SHA-512\nlinger.ms=5\n\
             sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required \\\n  username=\"ada\" password=\"s=1\";\n\
             ssl.truststore.type=PEM\nssl.truststore.location=ca.pem\n",
        )
        .unwrap();
        let kcat = properties(
            "metadata.broker.list=a:1,b:2\nsecurity.protocol=sasl_ssl\nsasl.mechanisms=SCRAM-SHA-512\n\
             sasl.username=ada\nsasl.password=s=1\nssl.ca.location=ca.pem\n",
        )
        .unwrap();
        assert_eq!(java.connection, kcat.connection);
        assert_eq!(java.ignored, ["linger.ms"]);
        assert_eq!(java.connection.bootstrap, ["a:1", "b:2"]);
        assert_eq!(java.connection.sasl.unwrap().password, secret("s=1"));
        assert_eq!(java.connection.tls.unwrap().ca, Some(PathBuf::from("ca.pem")));
        let jks = properties("security.protocol=SSL\nssl.truststore.location=/etc/kafka/trust.jks\n");
        assert!(jks.unwrap_err().contains("convert it to PEM"));
        assert!(properties("security.protocol=SSL2\n").unwrap_err().contains("use PLAINTEXT"));
    }

    #[test]
    fn the_current_profile_of_rpk_counts() {
        let text = "version: 7\ncurrent_profile: prod\nprofiles:\n  - name: dev\n    kafka_api: {brokers: [\"d:1\"]}\n  - name: prod\n    \
                    kafka_api:\n      brokers: [a:1, b:2]\n      tls: {ca_file: /ca.pem}\n      sasl: {user: ada, password: x, mechanism: SCRAM-SHA-512}\n    \
                    admin_api: {addresses: [a:9644]}\n";
        let found = rpk(text).unwrap();
        assert_eq!(found.connection.bootstrap, ["a:1", "b:2"]);
        assert_eq!(found.connection.sasl.unwrap().mechanism, "SCRAM-SHA-512");
        assert_eq!(found.ignored, ["admin_api"]);
        assert!(
            rpk(&text.replace("current_profile: prod", "current_profile: x"))
                .unwrap_err()
                .contains("no profile `x`")
        );
        let alone = rpk("kafka_api:\n  brokers:\n    - a:1\n").unwrap();
        assert_eq!((alone.connection.bootstrap, alone.connection.tls), (vec!["a:1".to_owned()], None));
        assert!(rpk("a: 1\n").unwrap_err().contains("no rpk profile"));
    }

    #[test]
    fn a_file_of_its_own_has_paths_from_its_folder() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("prod.toml");
        std::fs::write(&file, "bootstrap = [\"a:1\"]\n[tls]\nca = \"ca.pem\"\n").unwrap();
        let read_tls = read(&file).unwrap().connection.tls.unwrap();
        assert_eq!(read_tls.ca, Some(folder.path().join("ca.pem")));
        std::fs::write(&file, "bootstrap = [\"a:1\"]\nbogus = 1\n").unwrap();
        let error = read(&file).unwrap_err().to_string();
        assert!(
            error.contains("prod.toml:2: unknown key `bogus`; use one of") && error.contains("next:"),
            "{error}"
        );
        std::fs::write(&file, "").unwrap();
        assert!(read(&file).unwrap_err().to_string().contains("names no broker"));
    }

    proptest! {
        #[test]
        fn foreign_files_do_no_harm(text in "\\PC{0,200}", like in "(security\\.protocol|ssl\\.|sasl\\.jaas\\.config|username=|\"|=|:|\\\\|\n|SSL){0,40}") {
            for text in [&text, &like] {
                let _ = (own(text, Path::new("x.toml")), properties(text), rpk(text));
            }
        }
    }
}
