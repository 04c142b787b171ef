//! TLS for clients: certificate, key and the authority of client certificates, read from PEM files once.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, bail};
use rustls::crypto::ring::default_provider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::ClientCertVerifier;
use rustls::{RootCertStore, ServerConfig};
use x509_parser::prelude::{FromDer, X509Certificate};
use x509_parser::x509::{AttributeTypeAndValue, X509Name};

/// Files for TLS: the broker's certificate and key, and the CA bundle for clients.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TlsFiles {
    /// The broker's certificate, followed by its intermediate certificates (PEM).
    pub certificate: PathBuf,
    /// The certificate's private key (PEM).
    pub key: PathBuf,
    /// CA bundle for client certificates (PEM). With it, every client needs a certificate, whose subject is the client's principal.
    pub client_authorities: Option<PathBuf>,
}

/// Reads the files.
pub(crate) fn server_config(files: &TlsFiles) -> anyhow::Result<Arc<ServerConfig>> {
    let certificates = certificates(&files.certificate, "the TLS certificate (--tls-cert)")?;
    let key = PrivateKeyDer::from_pem_file(&files.key).with_context(|| {
        format!("can't read the TLS key {} (--tls-key) as a PEM file with a private key", files.key.display())
    })?;
    let builder = ServerConfig::builder_with_provider(Arc::new(default_provider()))
        .with_safe_default_protocol_versions()
        .context("can't set up TLS")?;
    let builder = match &files.client_authorities {
        Some(path) => builder.with_client_cert_verifier(client_verifier(path)?),
        None => builder.with_no_client_auth(),
    };
    let config = builder.with_single_cert(certificates, key).with_context(|| {
        let (certificate, key) = (files.certificate.display(), files.key.display());
        format!(
            "can't use the TLS certificate {certificate} (--tls-cert) with the key {key} (--tls-key): the \
             certificate needs its own key"
        )
    })?;
    Ok(Arc::new(config))
}

fn client_verifier(path: &Path) -> anyhow::Result<Arc<dyn ClientCertVerifier>> {
    let mut roots = RootCertStore::empty();
    for authority in certificates(path, "the CA bundle for client certificates (--tls-client-ca)")? {
        roots
            .add(authority)
            .with_context(|| format!("can't use a certificate in {} as a CA", path.display()))?;
    }
    WebPkiClientVerifier::builder_with_provider(Arc::new(roots), Arc::new(default_provider()))
        .build()
        .with_context(|| format!("can't check client certificates against {}", path.display()))
}

fn certificates(path: &Path, what: &str) -> anyhow::Result<Vec<CertificateDer<'static>>> {
    let unreadable = || format!("can't read {} as {what}, which is a PEM file", path.display());
    let found: Vec<_> = CertificateDer::pem_file_iter(path)
        .with_context(unreadable)?
        .collect::<Result<_, _>>()
        .with_context(unreadable)?;
    if found.is_empty() {
        bail!("there is no certificate in {}, which must be {what} (a PEM file)", path.display());
    }
    Ok(found)
}

/// The subject of a certificate as Kafka writes it: the parts from the last to the first, as RFC 2253 has them. `None`
/// for a certificate that can't be read, which one that was verified always can.
pub(crate) fn subject(certificate: &CertificateDer<'_>) -> Option<String> {
    let (_, certificate) = X509Certificate::from_der(certificate).ok()?;
    Some(distinguished_name(certificate.subject()))
}

fn distinguished_name(name: &X509Name<'_>) -> String {
    let mut parts: Vec<String> =
        name.iter_rdn().map(|part| part.iter().map(attribute).collect::<Vec<_>>().join("+")).collect();
    parts.reverse();
    parts.join(",")
}

fn attribute(attribute: &AttributeTypeAndValue<'_>) -> String {
    let oid = attribute.attr_type().to_id_string();
    let known = KEYWORDS.iter().find(|(known, _)| *known == oid);
    match (known, attribute.as_str()) {
        (Some((_, keyword)), Ok(value)) => format!("{keyword}={}", escaped(value)),
        // A value whose text is not certain is written as the bytes that it is.
        _ => format!("{oid}=#{}", hexadecimal(attribute.attr_value().data)),
    }
}

/// The names that RFC 2253 gives.
const KEYWORDS: [(&str, &str); 9] = [
    ("2.5.4.3", "CN"),
    ("2.5.4.6", "C"),
    ("2.5.4.7", "L"),
    ("2.5.4.8", "ST"),
    ("2.5.4.9", "STREET"),
    ("2.5.4.10", "O"),
    ("2.5.4.11", "OU"),
    ("0.9.2342.19200300.100.1.1", "UID"),
    ("0.9.2342.19200300.100.1.25", "DC"),
];

fn escaped(value: &str) -> String {
    let last = value.chars().count().saturating_sub(1);
    let mut escaped = String::new();
    for (index, sign) in value.chars().enumerate() {
        let at_an_end = (sign == ' ' && (index == 0 || index == last)) || (sign == '#' && index == 0);
        if at_an_end || ",+\"\\<>;".contains(sign) {
            escaped.push('\\');
        }
        escaped.push(sign);
    }
    escaped
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use rcgen::{CertificateParams, DistinguishedName, DnType, KeyPair};

    use super::*;

    fn self_signed(name: DistinguishedName) -> (String, String, CertificateDer<'static>) {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
        params.distinguished_name = name;
        let certificate = params.self_signed(&key).unwrap();
        (certificate.pem(), key.serialize_pem(), certificate.der().clone())
    }

    fn files(folder: &Path) -> TlsFiles {
        let (certificate, key, _) = self_signed(DistinguishedName::new());
        fs::write(folder.join("cert.pem"), certificate).unwrap();
        fs::write(folder.join("key.pem"), key).unwrap();
        TlsFiles {
            certificate: folder.join("cert.pem"),
            key: folder.join("key.pem"),
            client_authorities: None,
        }
    }

    fn error_of(files: &TlsFiles) -> String {
        format!("{:#}", server_config(files).err().unwrap())
    }

    #[test]
    fn files_that_can_t_be_used_are_named() {
        let folder = tempfile::tempdir().unwrap();
        let good = files(folder.path());
        server_config(&good).unwrap();
        server_config(&TlsFiles { client_authorities: Some(good.certificate.clone()), ..good.clone() })
            .unwrap();
        let missing = folder.path().join("missing.pem");
        let error = error_of(&TlsFiles { certificate: missing.clone(), ..good.clone() });
        assert!(error.contains("missing.pem") && error.contains("No such file"), "{error}");
        let error = error_of(&TlsFiles { key: missing.clone(), ..good.clone() });
        assert!(error.contains("the TLS key") && error.contains("missing.pem"), "{error}");
        let error = error_of(&TlsFiles { client_authorities: Some(missing), ..good.clone() });
        assert!(error.contains("the CA bundle for client certificates (--tls-client-ca)"), "{error}");
        let error = error_of(&TlsFiles { certificate: good.key.clone(), ..good.clone() });
        assert!(error.contains("there is no certificate in"), "{error}");
        let error = error_of(&TlsFiles { key: good.certificate.clone(), ..good.clone() });
        assert!(error.contains("the TLS key"), "{error}");
    }

    #[test]
    fn a_key_that_does_not_fit_is_refused() {
        let (folder, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let mixed = TlsFiles { key: files(other.path()).key, ..files(folder.path()) };
        let error = error_of(&mixed);
        assert!(error.contains("with the key") && error.contains("KeyMismatch"), "{error}");
    }

    #[test]
    fn subjects_are_written_as_kafka_writes_them() {
        let mut name = DistinguishedName::new();
        name.push(DnType::CountryName, "DE");
        name.push(DnType::OrganizationName, "Hone, \"Ltd\"");
        name.push(DnType::CommonName, " alice#");
        let (_, _, der) = self_signed(name);
        assert_eq!(subject(&der).unwrap(), "CN=\\ alice#,O=Hone\\, \\\"Ltd\\\",C=DE");
        assert_eq!(subject(&CertificateDer::from(vec![0x30, 0x80])), None);
    }
}
