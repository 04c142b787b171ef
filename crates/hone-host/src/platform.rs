//! Meaning of the signs of a hypervisor or a container. The code is pure.

/// Signs of a guest. Texts are empty if a file is missing.
#[derive(Debug, Clone, Default)]
pub(crate) struct VmSigns {
    /// Whether the architecture has the CPU flag `hypervisor` (x86), so that its absence is a sign, too.
    pub(crate) flag_exists: bool,
    pub(crate) flag: bool,
    /// `/sys/hypervisor/type`.
    pub(crate) hypervisor_type: String,
    /// Vendor, product and BIOS names of `/sys/class/dmi/id`, one on each line.
    pub(crate) dmi: String,
    /// `/sys/devices/system/clocksource/clocksource0/available_clocksource`.
    pub(crate) clock_sources: String,
    /// `/proc/device-tree/hypervisor/compatible`.
    pub(crate) device_tree: String,
}

/// Words in the DMI names, with their hypervisor. More specific words come before more general ones.
const DMI_WORDS: [(&str, &str); 13] = [
    ("vmware", "vmware"),
    ("virtualbox", "virtualbox"),
    ("innotek", "virtualbox"),
    ("parallels", "parallels"),
    ("bhyve", "bhyve"),
    ("apple virtualization", "apple"),
    ("virtual machine", "hyperv"),
    ("hvm domu", "xen"),
    ("xen", "xen"),
    ("amazon ec2", "kvm"),
    ("google compute engine", "kvm"),
    ("qemu", "kvm"),
    ("kvm", "kvm"),
];

/// The hypervisor's name; `None` on bare metal.
pub(crate) fn virtualization(signs: &VmSigns) -> Option<String> {
    let dmi = signs.dmi.to_lowercase();
    // A cloud's bare-metal machine has the cloud's DMI names. Only the product's name and the missing flag identify it.
    let bare = (signs.flag_exists && !signs.flag) || dmi.lines().any(|line| line.trim().ends_with(".metal"));
    let typed = Some(signs.hypervisor_type.trim()).filter(|name| !name.is_empty());
    if let Some(name) = typed {
        return Some(name.to_owned());
    }
    if bare {
        return None;
    }
    let by_dmi = DMI_WORDS.iter().find(|(word, _)| dmi.contains(word)).map(|(_, name)| *name);
    let by_rest = by_clock(&signs.clock_sources).or_else(|| by_device_tree(&signs.device_tree));
    let unnamed = signs.flag.then_some("unknown hypervisor");
    by_dmi.or(by_rest).or(unnamed).map(str::to_owned)
}

/// A guest without DMI (small hypervisors have none) still has the clock of its hypervisor.
fn by_clock(clock_sources: &str) -> Option<&'static str> {
    clock_sources.split_whitespace().find_map(|clock| match clock {
        "kvm-clock" => Some("kvm"),
        "xen" => Some("xen"),
        name if name.starts_with("hyperv_") => Some("hyperv"),
        _ => None,
    })
}

fn by_device_tree(compatible: &str) -> Option<&'static str> {
    [("linux,kvm", "kvm"), ("xen,xen", "xen"), ("vmware", "vmware")]
        .iter()
        .find(|(word, _)| compatible.contains(word))
        .map(|(_, name)| *name)
}

/// Signs of a container.
#[derive(Debug, Clone, Default)]
pub(crate) struct ContainerSigns {
    /// Whether `/.dockerenv` exists.
    pub(crate) docker_file: bool,
    /// Whether `/run/.containerenv` exists.
    pub(crate) podman_file: bool,
    /// Whether `/var/run/secrets/kubernetes.io` exists, or `KUBERNETES_SERVICE_HOST` is set.
    pub(crate) kubernetes: bool,
    /// `/run/systemd/container`, which names the manager.
    pub(crate) systemd: String,
    /// `/proc/1/cgroup`.
    pub(crate) cgroup: String,
}

/// Words in the path of the first process's control group.
const CGROUP_WORDS: [(&str, &str); 6] = [
    ("kubepods", "kubernetes"),
    ("libpod", "podman"),
    ("docker", "docker"),
    ("lxc", "lxc"),
    ("containerd", "containerd"),
    ("garden", "garden"),
];

/// The container manager's name; `None` outside a container.
pub(crate) fn container(signs: &ContainerSigns) -> Option<String> {
    let by_cgroup = CGROUP_WORDS.iter().find(|(word, _)| signs.cgroup.contains(word)).map(|(_, name)| *name);
    let by_systemd = Some(signs.systemd.trim()).filter(|name| !name.is_empty());
    // A pod's container also has the files of the engine below it, so Kubernetes is checked first.
    if signs.kubernetes {
        return Some("kubernetes".to_owned());
    }
    if signs.podman_file {
        return Some("podman".to_owned());
    }
    let by_file = signs.docker_file.then_some("docker");
    by_cgroup.or(by_file).or(by_systemd).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn vm(signs: VmSigns, expected: Option<&str>) {
        assert_eq!(virtualization(&signs).as_deref(), expected, "{signs:?}");
    }

    fn x86(flag: bool, dmi: &str) -> VmSigns {
        VmSigns { flag_exists: true, flag, dmi: dmi.into(), ..VmSigns::default() }
    }

    fn arm(dmi: &str, device_tree: &str) -> VmSigns {
        VmSigns { dmi: dmi.into(), device_tree: device_tree.into(), ..VmSigns::default() }
    }

    #[test]
    fn hypervisors_by_their_signs() {
        vm(x86(false, "Dell Inc.\nPowerEdge R650\n"), None);
        vm(x86(false, "Amazon EC2\nm6i.metal\n"), None);
        vm(x86(true, "Amazon EC2\nm6i.large\n"), Some("kvm"));
        vm(x86(true, "VMware, Inc.\nVMware20,1\n"), Some("vmware"));
        vm(x86(true, "Microsoft Corporation\nVirtual Machine\n"), Some("hyperv"));
        vm(x86(true, "Xen\nHVM domU\n"), Some("xen"));
        vm(x86(true, "QEMU\nStandard PC (Q35 + ICH9, 2009)\n"), Some("kvm"));
        vm(x86(true, "Some Cloud\nThing\n"), Some("unknown hypervisor"));
        let bare_firmware = VmSigns { clock_sources: "tsc kvm-clock \n".into(), ..x86(true, "") };
        vm(bare_firmware, Some("kvm"));
        let paravirtual = VmSigns { hypervisor_type: "xen\n".into(), ..x86(false, "") };
        vm(paravirtual, Some("xen"));
        vm(arm("Amazon EC2\nc7g.metal\n", ""), None);
        vm(arm("Amazon EC2\nc7g.large\n", ""), Some("kvm"));
        vm(arm("", "linux,kvm\0"), Some("kvm"));
        vm(arm("Ampere(TM) Mt.Jade Platform\n", ""), None);
    }

    #[test]
    fn containers_by_their_signs() {
        let check = |signs: ContainerSigns, expected: Option<&str>| {
            assert_eq!(container(&signs).as_deref(), expected, "{signs:?}");
        };
        let none = ContainerSigns { cgroup: "0::/init.scope\n".into(), ..ContainerSigns::default() };
        check(none.clone(), None);
        check(ContainerSigns { docker_file: true, ..none.clone() }, Some("docker"));
        check(ContainerSigns { podman_file: true, ..none.clone() }, Some("podman"));
        check(ContainerSigns { kubernetes: true, docker_file: true, ..none.clone() }, Some("kubernetes"));
        check(ContainerSigns { systemd: "lxc\n".into(), ..none.clone() }, Some("lxc"));
        let cgroup = "0::/kubepods.slice/kubepods-pod1.slice/cri-containerd-2.scope\n".to_owned();
        check(ContainerSigns { cgroup, ..none.clone() }, Some("kubernetes"));
        let cgroup = "12:cpu:/docker/0123456789abcdef\n".to_owned();
        check(ContainerSigns { cgroup, ..none }, Some("docker"));
    }
}
