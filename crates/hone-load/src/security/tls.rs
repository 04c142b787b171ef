//! TLS as a client: trusted CAs, the client certificate, and error messages.

use std::path::Path;
use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::ring::default_provider;
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};

use super::options::Tls;
use crate::error::LoadError;

/// Reads the files.
pub(crate) fn client_config(tls: &Tls) -> Result<Arc<ClientConfig>, LoadError> {
    let provider = Arc::new(default_provider());
    let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .map_err(|error| setting(format!("can't be set up: {error}")))?;
    let builder = if tls.believe_anyone {
        builder.dangerous().with_custom_certificate_verifier(Arc::new(Credulous(provider)))
    } else {
        builder.with_root_certificates(authorities(tls.authorities.as_deref())?)
    };
    let config = match (&tls.certificate, &tls.key) {
        (None, None) => builder.with_no_client_auth(),
        (Some(certificate), Some(key)) => {
            let chain = certificates(certificate, "client certificate")?;
            let parsed = PrivateKeyDer::from_pem_file(key)
                .map_err(|error| file("private key", key, &error.to_string()))?;
            builder.with_client_auth_cert(chain, parsed).map_err(|error| {
                let problem = format!("it does not fit the certificate {}: {error}", certificate.display());
                file("private key", key, &problem)
            })?
        }
        _ => {
            let problem = "needs a client certificate and its key, or neither (--tls-cert and --tls-key)";
            return Err(setting(problem.to_owned()));
        }
    };
    Ok(Arc::new(config))
}

fn setting(problem: String) -> LoadError {
    LoadError::Setting { name: "TLS", problem }
}

fn file(what: &'static str, path: &Path, problem: &str) -> LoadError {
    LoadError::File { what, path: path.to_owned(), problem: problem.to_owned() }
}

fn authorities(path: Option<&Path>) -> Result<RootCertStore, LoadError> {
    let mut roots = RootCertStore::empty();
    match path {
        Some(path) => {
            for authority in certificates(path, "authorities")? {
                roots.add(authority).map_err(|error| file("CA bundle", path, &error.to_string()))?;
            }
        }
        None => {
            // Unusable certificates in a system's store are not an error here.
            roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
            if roots.is_empty() {
                let problem = "has no CA certificates, since this system has no store; pass a CA bundle \
                    (--tls-ca FILE)";
                return Err(setting(problem.to_owned()));
            }
        }
    }
    Ok(roots)
}

fn certificates(path: &Path, what: &'static str) -> Result<Vec<CertificateDer<'static>>, LoadError> {
    let unreadable = |error: rustls::pki_types::pem::Error| file(what, path, &error.to_string());
    let found: Vec<_> = CertificateDer::pem_file_iter(path)
        .map_err(unreadable)?
        .collect::<Result<_, _>>()
        .map_err(unreadable)?;
    if found.is_empty() {
        return Err(file(what, path, "the file has no certificate; use a PEM file"));
    }
    Ok(found)
}

/// The name for which the broker's certificate must be valid.
pub(crate) fn server_name(tls: &Tls, address: &str) -> Result<ServerName<'static>, LoadError> {
    let host = address.rsplit_once(':').map_or(address, |(host, _)| host);
    let host = tls.server_name.as_deref().unwrap_or(host.trim_start_matches('[').trim_end_matches(']'));
    ServerName::try_from(host.to_owned())
        .map_err(|_| setting(format!("`{host}` can't be the name of a certificate (--tls-server-name)")))
}

/// What a failed handshake means and what to do about it.
pub(crate) fn advice(error: &rustls::Error) -> &'static str {
    use rustls::{AlertDescription as Alert, CertificateError as Bad, Error};
    match error {
        Error::InvalidCertificate(Bad::UnknownIssuer | Bad::BadSignature) => {
            "pass the CA that signed the broker's certificate (--tls-ca FILE)"
        }
        Error::InvalidCertificate(Bad::NotValidForName | Bad::NotValidForNameContext { .. }) => {
            "pass the name in its certificate (--tls-server-name NAME), or connect to that name"
        }
        Error::InvalidCertificate(
            Bad::Expired | Bad::ExpiredContext { .. } | Bad::NotValidYet | Bad::NotValidYetContext { .. },
        ) => "renew the broker's certificate, or set this machine's clock",
        Error::InvalidCertificate(_) => {
            "use a broker certificate that can be checked, or pass its CA (--tls-ca FILE)"
        }
        Error::AlertReceived(Alert::CertificateRequired | Alert::NoCertificate) => {
            "the broker requires a client certificate: pass one (--tls-cert FILE --tls-key FILE)"
        }
        Error::AlertReceived(
            Alert::UnknownCA
            | Alert::BadCertificate
            | Alert::CertificateUnknown
            | Alert::CertificateExpired
            | Alert::CertificateRevoked
            | Alert::UnsupportedCertificate
            | Alert::AccessDenied
            | Alert::DecryptError,
        ) => {
            "the broker rejects this client's certificate: use one from a CA that the broker trusts \
             (--tls-cert FILE --tls-key FILE)"
        }
        Error::InvalidMessage(_) => {
            "what listens there does not speak TLS: use the broker's TLS port, or leave out --tls"
        }
        _ => "check the broker's log for its side of the handshake",
    }
}

/// Accepts every certificate, but still requires that the peer holds its key.
#[derive(Debug)]
struct Credulous(Arc<CryptoProvider>);

impl ServerCertVerifier for Credulous {
    fn verify_server_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, certificate, signed, &self.0.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, certificate, signed, &self.0.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
