//! From a workload to librdkafka's properties.

use std::collections::BTreeMap;

use hone_record::Workload;
use rdkafka::ClientConfig;

use crate::admin::CLIENT_ID;
use crate::error::LoadError;
use crate::security::Security;

/// Properties that a user can't set, with the reason. Aliases of one property stand side by side.
const OWN: [(&str, &str); 28] = [
    ("bootstrap.servers", "the broker's address sets it"),
    ("metadata.broker.list", "the broker's address sets it"),
    ("acks", "acks sets it"),
    ("request.required.acks", "acks sets it"),
    ("compression.codec", "compression sets it"),
    ("compression.type", "compression sets it"),
    ("enable.idempotence", "idempotent sets it"),
    ("message.timeout.ms", "timeout_s sets it"),
    ("delivery.timeout.ms", "timeout_s sets it"),
    ("security.protocol", SECURITY),
    ("ssl.ca.location", SECURITY),
    ("ssl.certificate.location", SECURITY),
    ("ssl.key.location", SECURITY),
    ("enable.ssl.certificate.verification", SECURITY),
    ("sasl.mechanism", SECURITY),
    ("sasl.mechanisms", SECURITY),
    ("sasl.username", SECURITY),
    ("sasl.password", SECURITY),
    ("statistics.interval.ms", "Hone reads the statistics"),
    ("delivery.report.only.error", "Hone needs every report"),
    ("dr_cb", "Hone needs every report"),
    ("dr_msg_cb", "Hone needs every report"),
    ("produce.offset.report", "Hone needs every offset"),
    ("transactional.id", "a load has no transactions"),
    ("enable.gapless.guarantee", "it ends the producer at the first error"),
    ("log_level", "Hone keeps the client's errors as events"),
    ("log_cb", "Hone keeps the client's errors as events"),
    ("plugin.library.paths", "a foreign library would change the generator"),
];

const SECURITY: &str = "the load's TLS and login set it, for Hone's own connections, too";

/// Settings that a record shows, whether they were set or are the client's defaults.
const TOLD: [&str; 15] = [
    "linger.ms",
    "batch.size",
    "batch.num.messages",
    "message.max.bytes",
    "partitioner",
    "sticky.partitioning.linger.ms",
    "compression.codec",
    "acks",
    "enable.idempotence",
    "max.in.flight.requests.per.connection",
    "queue.buffering.max.messages",
    "queue.buffering.max.kbytes",
    "queue.buffering.backpressure.threshold",
    "message.timeout.ms",
    "socket.nagle.disable",
];

/// Interval of librdkafka's statistics.
pub(super) const STATISTICS_EVERY_MS: u64 = 500;

/// The producer's configuration.
pub(super) fn config(
    address: &str,
    workload: &Workload,
    settings: &BTreeMap<String, String>,
) -> Result<ClientConfig, LoadError> {
    let wrong = |problem: String| LoadError::Setting { name: "client settings", problem };
    for key in settings.keys() {
        if is_secret(key) {
            return Err(wrong(format!(
                "`{key}` looks like a secret, but settings are part of every record; use the TLS and login \
                 options (--tls-key, --sasl-password-file)"
            )));
        }
        if let Some((_, why)) = OWN.iter().find(|(own, _)| own == key) {
            return Err(wrong(format!("`{key}` can't be a client setting: {why}")));
        }
    }
    if workload.idempotent && workload.acks != -1 {
        return Err(LoadError::Setting {
            name: "idempotent",
            problem: "needs acks = \"all\", since an idempotent producer must know that a record is stored"
                .to_owned(),
        });
    }
    let mut config = ClientConfig::new();
    for (key, value) in settings {
        config.set(key, value);
    }
    config
        .set("bootstrap.servers", address)
        .set("acks", workload.acks.to_string())
        .set("compression.codec", &workload.compression)
        .set("enable.idempotence", workload.idempotent.to_string())
        .set("message.timeout.ms", ((workload.timeout_s * 1e3).ceil() as u64).to_string())
        .set("statistics.interval.ms", STATISTICS_EVERY_MS.to_string());
    if !settings.contains_key("client.id") {
        config.set("client.id", CLIENT_ID);
    }
    // librdkafka itself checks every property and every value.
    config.create_native_config().map_err(|error| wrong(error.to_string()))?;
    Ok(config)
}

/// Adds TLS and the login to the configuration, by librdkafka's names.
pub(super) fn secure(config: &mut ClientConfig, security: &Security) -> Result<(), LoadError> {
    let protocol = match (&security.tls, &security.sasl) {
        (None, None) => return Ok(()),
        (Some(_), None) => "SSL",
        (None, Some(_)) => "SASL_PLAINTEXT",
        (Some(_), Some(_)) => "SASL_SSL",
    };
    config.set("security.protocol", protocol);
    if let Some(tls) = &security.tls {
        if tls.server_name.is_some() {
            return Err(LoadError::Setting {
                name: "TLS server name",
                problem: "(--tls-server-name) does not work with librdkafka, which checks certificates for \
                    the names that it connects to. Leave it out and let the brokers advertise names from \
                    their certificates, or send by --client wire"
                    .to_owned(),
            });
        }
        for (key, file) in [
            ("ssl.ca.location", &tls.authorities),
            ("ssl.certificate.location", &tls.certificate),
            ("ssl.key.location", &tls.key),
        ] {
            if let Some(file) = file {
                config.set(key, file.display().to_string());
            }
        }
        if tls.believe_anyone {
            config.set("enable.ssl.certificate.verification", "false");
        }
    }
    if let Some(sasl) = &security.sasl {
        config
            .set("sasl.mechanism", sasl.mechanism.name())
            .set("sasl.username", &sasl.user)
            .set("sasl.password", sasl.password.reveal());
    }
    Ok(())
}

/// The effective settings that shape a load.
pub(super) fn in_force(
    config: &ClientConfig,
    settings: &BTreeMap<String, String>,
) -> BTreeMap<String, String> {
    let Ok(native) = config.create_native_config() else { return BTreeMap::new() };
    let own = OWN.iter().map(|(key, _)| *key);
    let kept = settings.keys().map(String::as_str);
    let told =
        TOLD.into_iter().chain(kept).filter(|key| own.clone().all(|own| own != *key) || TOLD.contains(key));
    told.filter_map(|key| Some((key.to_owned(), native.get(key).ok()?))).collect()
}

pub(super) fn is_secret(key: &str) -> bool {
    ["password", "secret", "pem", "oauthbearer", "key"].iter().any(|word| key.contains(word))
}
