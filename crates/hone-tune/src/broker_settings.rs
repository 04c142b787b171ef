//! Settings of a broker that are in force for all topics, as `hone tune` finds them.

use hone_experiment::arm::Place;
use hone_load::Admin;
use hone_record::Altitude;

use super::candidate::Candidate;
use super::propose::{BrokerSettings, Pool};
use super::session::Session;

impl Session<'_> {
    /// The settings of a running broker, or of a Java service, which is started for it once. Empty if it does not report them.
    pub(super) fn broker_settings(&self) -> BrokerSettings {
        if !self.asked.find || !self.asked.allowed.contains(&Altitude::Broker) {
            return BrokerSettings::default();
        }
        match &self.base.place {
            Place::Address(address) => self.settings_of(address),
            Place::Program(program) if hone_experiment::jvm::is_java(program) => {
                self.progress.line("asking the broker for its settings");
                let started = self.base.with([]).map(|side| self.base.arm("settings", &side));
                let running = started.and_then(|arm| arm.start(self.runner, &self.folder.scratch()));
                let Ok(running) = running else { return BrokerSettings::default() };
                let settings = self.settings_of(&running.address);
                // Its end is no matter: it served nobody.
                let _ = running.stop(self.runner);
                settings
            }
            Place::Program(_) => BrokerSettings::default(),
        }
    }

    fn settings_of(&self, address: &str) -> BrokerSettings {
        let Ok(mut admin) = Admin::connect_with(address, self.security) else {
            return BrokerSettings::default();
        };
        let mut values = |name: &str| {
            let seen = admin.cluster_setting(name);
            seen.map(|seen| seen.in_force.into_iter().map(|(_, value)| value).collect()).unwrap_or_default()
        };
        let mut pools = Vec::new();
        for pool in Pool::ALL {
            let sizes: Vec<String> = values(pool.setting());
            pools.extend(sizes.iter().filter_map(|size| size.parse().ok()).min().map(|least| (pool, least)));
        }
        let codecs: Vec<String> = values("compression.type");
        BrokerSettings { codec: codecs.into_iter().find(|codec| codec != "producer"), pools }
    }
}

/// The broker's settings with those of the kept changes.
pub(super) fn with_kept(broker: &BrokerSettings, kept: &[Candidate]) -> BrokerSettings {
    let changes =
        || kept.iter().flat_map(|candidate| &candidate.outside).filter(|change| change.kind == "broker");
    let size = |(pool, was): &(Pool, u32)| {
        let to = changes().rfind(|change| change.name == pool.setting());
        (*pool, to.and_then(|change| change.to.parse().ok()).unwrap_or(*was))
    };
    BrokerSettings { codec: broker.codec.clone(), pools: broker.pools.iter().map(size).collect() }
}
