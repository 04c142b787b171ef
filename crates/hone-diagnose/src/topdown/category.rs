//! The names of top-down categories: every vendor has its own, and changes them.

use hone_record::Category::{self, *};

/// Each name in lower case, without `tma_`, and with `_` for a space. Intel: perf's metrics for Ice Lake and newer. AMD: amdzen4 and
/// amdzen5/pipeline.json. Arm: sbsa.json and neoverse-n2-v2/metrics.json, with Intel's names for level 1.
const NAMES: [(&str, Category); 40] = [
    ("frontend_bound", FrontendBound),
    ("fe_bound", FrontendBound),
    ("bad_speculation", BadSpeculation),
    ("bad_spec", BadSpeculation),
    ("backend_bound", BackendBound),
    ("be_bound", BackendBound),
    ("retiring", Retiring),
    ("smt_contention", SmtContention),
    ("fetch_latency", FetchLatency),
    ("fe_latency", FetchLatency),
    ("frontend_latency", FetchLatency),
    ("frontend_bound_latency", FetchLatency),
    ("frontend_bound_by_latency", FetchLatency),
    ("fetch_bandwidth", FetchBandwidth),
    ("fe_bandwidth", FetchBandwidth),
    ("frontend_bandwidth", FetchBandwidth),
    ("frontend_bound_bandwidth", FetchBandwidth),
    ("frontend_bound_by_bandwidth", FetchBandwidth),
    ("branch_mispredicts", BranchMispredicts),
    ("branch_mispredict", BranchMispredicts),
    ("branch_mispred", BranchMispredicts),
    ("bad_speculation_mispredicts", BranchMispredicts),
    ("bad_speculation_from_mispredicts", BranchMispredicts),
    ("machine_clears", MachineClears),
    ("bad_speculation_pipeline_restarts", MachineClears),
    ("bad_speculation_from_pipeline_restarts", MachineClears),
    ("memory_bound", MemoryBound),
    ("backend_bound_memory", MemoryBound),
    ("backend_bound_by_memory", MemoryBound),
    ("core_bound", CoreBound),
    ("backend_bound_cpu", CoreBound),
    ("backend_bound_by_cpu", CoreBound),
    ("heavy_operations", HeavyOperations),
    ("retiring_microcode", HeavyOperations),
    ("retiring_from_microcode", HeavyOperations),
    ("light_operations", LightOperations),
    ("retiring_fastpath", LightOperations),
    ("retiring_from_fastpath", LightOperations),
    ("ifetch_latency", FetchLatency),
    ("ifetch_bandwidth", FetchBandwidth),
];

/// The category with one of its names, with spaces or underscores, in any letter case.
pub(super) fn category(name: &str) -> Option<Category> {
    let name = name.trim().to_ascii_lowercase().replace([' ', '-'], "_");
    let name = name.replace("front_end", "frontend").replace("back_end", "backend");
    let name = name.strip_prefix("tma_").unwrap_or(&name);
    NAMES.iter().find(|(known, _)| *known == name).map(|(_, category)| *category)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_vendors_name_leads_to_its_category() {
        assert_eq!(category("tma_frontend_bound"), Some(FrontendBound));
        assert_eq!(category("Frontend Bound"), Some(FrontendBound));
        assert_eq!(category("frontend_bound_latency"), Some(FetchLatency));
        assert_eq!(category("frontend_bound_by_latency"), Some(FetchLatency));
        assert_eq!(category("tma_fetch_latency"), Some(FetchLatency));
        // Efficiency cores say the backend twice, once with what an auxiliary event adds.
        assert_eq!(category("tma_backend_bound_aux"), None);
        assert_eq!(category("insn per cycle"), None);
    }
}
