//! What a start costs: time and CPU until ready, memory, and the first seconds without a warm-up. All variants take turns.

use std::collections::BTreeMap;

use anyhow::Result;
use hone_experiment::phase::Phase;
use hone_experiment::variants::BASELINE;
use hone_record::{JvmStarts, Metric, OverBaseline, Workload};
use serde::{Deserialize, Serialize};

use super::service::Service;
use crate::check::trouble_of;
use crate::job::Job;
use crate::steps::{Steps, Told};

/// Starts of each variant.
pub(super) const STARTS: usize = 7;
/// Seconds of load after a start, without a warm-up.
const COLD_S: f64 = 5.0;

/// The figures of one variant, turn by turn.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
struct Turns {
    ready_s: Vec<f64>,
    ready_cpu_s: Vec<f64>,
    rss_bytes: Vec<f64>,
    cold_cpu_us_per_record: Vec<f64>,
    cold_latency_us_p99: Vec<f64>,
}

impl Job<'_> {
    /// The starts of all variants, and why some are left out.
    pub(super) fn watch_starts(
        &self,
        steps: &mut Steps<'_>,
        services: &[Service],
    ) -> Result<(Vec<JvmStarts>, BTreeMap<String, String>)> {
        let (turns, failed): (BTreeMap<String, Turns>, BTreeMap<String, String>) =
            steps.run(Phase::Build, "starts", || {
                let (mut turns, mut failed) = (BTreeMap::<String, Turns>::new(), BTreeMap::new());
                for turn in 0..STARTS {
                    self.progress.doing(&format!("start {} of {STARTS}", turn + 1));
                    for service in services {
                        if failed.contains_key(&service.name) {
                            continue;
                        }
                        match self.one_start_of(service, turns.entry(service.name.clone()).or_default()) {
                            Ok(()) => {}
                            Err(error) if service.name == BASELINE => return Err(error),
                            Err(error) => {
                                failed.insert(service.name.clone(), trouble_of(error)?);
                            }
                        }
                    }
                }
                turns.retain(|name, _| !failed.contains_key(name));
                let baseline = turns.get(BASELINE).and_then(|turns| OverBaseline::new(&turns.ready_s, None));
                let note = format!(
                    "{STARTS} of each variant; the baseline is ready after {}",
                    baseline.map_or_else(|| "?".to_owned(), |one| hone_format::duration(one.median))
                );
                Ok(Told { note, command: None, result: (turns, failed) })
            })?;
        let baseline = turns.get(BASELINE);
        let of = |service: &Service| {
            let own = turns.get(&service.name)?;
            let is_baseline = service.name == BASELINE;
            let over = |pick: fn(&Turns) -> &Vec<f64>| {
                OverBaseline::new(
                    pick(own),
                    baseline.filter(|_| !is_baseline).map(|base| pick(base).as_slice()),
                )
            };
            Some(JvmStarts {
                variant: service.name.clone(),
                command: service.command.to_string(),
                starts: own.ready_s.len() as u32,
                ready_s: over(|turns| &turns.ready_s),
                ready_cpu_s: over(|turns| &turns.ready_cpu_s),
                rss_bytes: over(|turns| &turns.rss_bytes),
                cold_cpu_us_per_record: over(|turns| &turns.cold_cpu_us_per_record),
                cold_latency_us_p99: over(|turns| &turns.cold_latency_us_p99),
            })
        };
        Ok((services.iter().filter_map(of).collect(), failed))
    }

    fn one_start_of(&self, service: &Service, turns: &mut Turns) -> Result<()> {
        let arm = self.arm_of(service);
        let bench = self.bench();
        let Some(judging) = self.experiment.judging.first() else { return Ok(()) };
        let cold =
            Workload { warmup_requests: 0, duration_s: judging.duration_s.min(COLD_S), ..judging.clone() };
        let mut subject = bench.subject(&arm, &cold)?;
        let start_up = subject.start_up();
        let pids = subject.processes();
        let cpu_s: f64 = pids.iter().filter_map(|pid| hone_host::cpu::so_far(*pid).ok()).sum();
        let rss: u64 = pids.iter().filter_map(|pid| hone_host::memory::peak_rss_bytes(*pid)).sum();
        let window = bench.window(&mut subject, &cold);
        bench.end(subject)?;
        let window = window?;
        turns.ready_s.extend(start_up.map(|took| took.as_secs_f64()));
        turns.ready_cpu_s.push(cpu_s);
        turns.rss_bytes.push(rss as f64);
        turns.cold_cpu_us_per_record.extend(window.value(Metric::CpuPerRecord));
        turns.cold_latency_us_p99.extend(window.value(Metric::LatencyP99));
        Ok(())
    }
}
