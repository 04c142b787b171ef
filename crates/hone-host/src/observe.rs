//! Facts about the machine, read from the files of its system under a root.

use std::fs;
use std::path::{Path, PathBuf};

use hone_record::{Machine, PmuState};

use crate::platform::{ContainerSigns, VmSigns};
use crate::tools::PackageManager;
use crate::{kernel_text, platform, pmu};

/// The machine under `root`. Counters are opened only for the running machine (`/`); under any other root their state is
/// [`PmuState::None`].
///
/// Unknown facts stay empty or zero, as [`Machine`] describes: an unusual machine must not prevent the measurement.
pub fn machine(root: &Path) -> Machine {
    let is_running = root == Path::new("/");
    machine_with(root, if is_running { pmu::probe } else { || PmuState::None })
}

/// Does the same as [`machine`], with a given probe for counters.
pub fn machine_with(root: &Path, probe: impl FnOnce() -> PmuState) -> Machine {
    let files = Files { root };
    let cpuinfo = files.text("proc/cpuinfo");
    let ticks = kernel_text::cpu_ticks(&files.text("proc/stat")).unwrap_or_default();
    let steal_share = if ticks.total() == 0 { 0.0 } else { ticks.steal as f64 / ticks.total() as f64 };
    Machine {
        cpu_model: kernel_text::cpu_model(&cpuinfo).unwrap_or_default(),
        cores: kernel_text::cores_in_list(&files.text("sys/devices/system/cpu/online"))
            .unwrap_or_else(|| kernel_text::cores_in_cpuinfo(&cpuinfo)),
        l1i_bytes: files.l1i_bytes().unwrap_or(0),
        memory_bytes: kernel_text::memory_bytes(&files.text("proc/meminfo")).unwrap_or(0),
        kernel: files.word("proc/sys/kernel/osrelease").unwrap_or_default(),
        os: kernel_text::os_name(&files.os_release()).unwrap_or_default(),
        virtualization: platform::virtualization(&files.vm_signs(&cpuinfo)),
        container: platform::container(&files.container_signs()),
        governor: files.word("sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"),
        perf_event_paranoid: files
            .word("proc/sys/kernel/perf_event_paranoid")
            .and_then(|level| level.parse().ok()),
        pmu: probe(),
        load_average_1m: kernel_text::load_average_1m(&files.text("proc/loadavg")).unwrap_or(0.0),
        steal_share,
    }
}

/// The container manager, by its signs under `root`; `None` outside a container.
pub fn container(root: &Path) -> Option<String> {
    platform::container(&Files { root }.container_signs())
}

/// The id of the running boot: it differs after each start of the kernel under `root`. `None` if the kernel does not provide it.
pub fn boot_id(root: &Path) -> Option<String> {
    Files { root }.word("proc/sys/kernel/random/boot_id")
}

/// The package manager of the distribution under `root`, by `/etc/os-release`.
pub fn package_manager(root: &Path) -> PackageManager {
    let os_release = Files { root }.os_release();
    let field = |key| kernel_text::os_release_field(&os_release, key).unwrap_or_default();
    PackageManager::of_distribution(&field("ID"), &field("ID_LIKE"))
}

/// The files of the system; a missing or unreadable one is an empty text.
struct Files<'a> {
    root: &'a Path,
}

impl Files<'_> {
    fn path(&self, below: &str) -> PathBuf {
        self.root.join(below)
    }

    fn text(&self, below: &str) -> String {
        fs::read(self.path(below))
            .map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
            .unwrap_or_default()
    }

    fn word(&self, below: &str) -> Option<String> {
        Some(self.text(below).trim().to_owned()).filter(|word| !word.is_empty())
    }

    fn exists(&self, below: &str) -> bool {
        self.path(below).exists()
    }

    /// `/etc/os-release` is a link into `/usr/lib` on most systems, and minimal images have only the latter.
    fn os_release(&self) -> String {
        let first = self.text("etc/os-release");
        if first.is_empty() { self.text("usr/lib/os-release") } else { first }
    }

    fn l1i_bytes(&self) -> Option<u64> {
        // A core has at most a handful of caches; the kernel numbers them from 0 without a gap.
        (0..16)
            .map(|index| format!("sys/devices/system/cpu/cpu0/cache/index{index}"))
            .take_while(|folder| self.exists(folder))
            .find(|folder| {
                self.word(&format!("{folder}/level")).as_deref() == Some("1")
                    && self.word(&format!("{folder}/type")).as_deref() == Some("Instruction")
            })
            .and_then(|folder| kernel_text::cache_bytes(&self.text(&format!("{folder}/size"))))
    }

    fn vm_signs(&self, cpuinfo: &str) -> VmSigns {
        let dmi = ["sys_vendor", "product_name", "board_vendor", "bios_vendor", "chassis_vendor"];
        VmSigns {
            // Only x86 prints a line `flags`; Arm has `Features`, and no flag for a guest.
            flag_exists: cpuinfo.lines().any(|line| line.starts_with("flags")),
            flag: kernel_text::has_hypervisor_flag(cpuinfo),
            hypervisor_type: self.text("sys/hypervisor/type"),
            dmi: dmi
                .iter()
                .filter_map(|name| self.word(&format!("sys/class/dmi/id/{name}")))
                .collect::<Vec<_>>()
                .join("\n"),
            clock_sources: self.text("sys/devices/system/clocksource/clocksource0/available_clocksource"),
            device_tree: self.text("proc/device-tree/hypervisor/compatible"),
        }
    }

    fn container_signs(&self) -> ContainerSigns {
        ContainerSigns {
            docker_file: self.exists(".dockerenv"),
            podman_file: self.exists("run/.containerenv"),
            kubernetes: self.exists("var/run/secrets/kubernetes.io")
                || self
                    .text("proc/self/environ")
                    .split('\0')
                    .any(|v| v.starts_with("KUBERNETES_SERVICE_HOST=")),
            systemd: self.text("run/systemd/container"),
            cgroup: self.text("proc/1/cgroup"),
        }
    }
}
