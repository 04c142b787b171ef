//! Texts of tuning with known defects, on recorded hosts: each defect must be found where it is, and not where it isn't.

use std::fs;
use std::path::{Path, PathBuf};

use hone_host::disks;
use hone_host::kernel::{Files, Kernel as _};
use hone_host::lint::{Defect, Finding, Lint, Setting, lint};
use hone_host::relevance;

mod model;
#[path = "../../hone/tests/tree/mod.rs"]
mod tree;

fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/hosts")
}

/// A text of the guide's.
fn guide(name: &str) -> (String, String) {
    (name.to_owned(), fs::read_to_string(fixtures().join("guide").join(name)).unwrap())
}

fn own(name: &str, text: &str) -> (String, String) {
    (name.to_owned(), text.to_owned())
}

/// What is found on a recorded host, to which files may be added.
fn found_with(host: &str, added: &[(&str, &str)], texts: &[(String, String)]) -> Lint {
    let text = fs::read_to_string(fixtures().join(format!("{host}.tree"))).unwrap();
    let root = tree::planted(&text);
    for (path, text) in added {
        let path = root.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    let files = Files::new(root.path());
    let folder = PathBuf::from(tree::data(&text).unwrap());
    let data = disks::of_folder(&files, root.path(), &folder);
    let facts = relevance::look(&files, root.path(), Some(&folder));
    let before = fs::read_to_string(root.path().join("proc/sys/vm/swappiness")).unwrap();
    let found = lint(&files, texts, &data, &facts);
    assert_eq!(
        fs::read_to_string(root.path().join("proc/sys/vm/swappiness")).unwrap(),
        before,
        "nothing is run"
    );
    found
}

fn found(host: &str, texts: &[(String, String)]) -> Lint {
    found_with(host, &[], texts)
}

fn setting<'a>(lint: &'a Lint, name: &str) -> &'a Setting {
    lint.settings.iter().find(|setting| setting.name == name).unwrap_or_else(|| panic!("{name} in {lint:#?}"))
}

/// What was found of a setting, or of the texts (``).
fn told<'a>(lint: &'a Lint, name: &str, defect: Defect) -> Vec<&'a Finding> {
    let findings = if name.is_empty() { &lint.findings } else { &setting(lint, name).findings };
    findings.iter().filter(|finding| finding.defect == defect).collect()
}

#[track_caller]
fn says(lint: &Lint, name: &str, defect: Defect, words: &str) {
    let found = told(lint, name, defect);
    assert!(found.iter().any(|finding| finding.told.contains(words)), "{name} {defect:?} {words}: {lint:#?}");
}

const NINE: [&str; 9] = [
    "queue.scheduler",
    "queue.read_ahead_kb",
    "queue.nr_requests",
    "vm.swappiness",
    "vm.dirty_ratio",
    "vm.dirty_background_ratio",
    "vm.dirty_expire_centisecs",
    "transparent_hugepage.enabled",
    "transparent_hugepage.defrag",
];

/// The known truth: of nine settings five are wrong after the guide's own way back, and four come again with the next boot.
#[test]
fn the_guide_leaves_five_of_nine_wrong_and_four_come_back() {
    let lint = found("ubuntu-nvme", &[guide("tune.sh"), guide("rollback.sh")]);
    let names: Vec<&str> = lint.settings.iter().map(|setting| setting.name.as_str()).collect();
    assert_eq!(names, NINE);
    assert_eq!(
        lint.wrong_after_rollback,
        [
            "queue.scheduler",
            "queue.read_ahead_kb",
            "queue.nr_requests",
            "transparent_hugepage.enabled",
            "transparent_hugepage.defrag"
        ]
    );
    assert_eq!(
        lint.at_next_boot,
        ["vm.swappiness", "vm.dirty_ratio", "vm.dirty_background_ratio", "vm.dirty_expire_centisecs"]
    );
    says(
        &lint,
        "queue.scheduler",
        Defect::NotRestored,
        "nvme1n1 is set to mq-deadline; before the change it was none",
    );
    // The rollback does not write it: the scheduler that was set resets it.
    says(
        &lint,
        "queue.nr_requests",
        Defect::NotRestored,
        "nvme0n1 is left at 256; before the change it was 1023",
    );
    says(&lint, "queue.read_ahead_kb", Defect::NotRestored, "left at 0; before the change it was 128");
    says(
        &lint,
        "transparent_hugepage.enabled",
        Defect::NotRestored,
        "set to always; before the change it was madvise",
    );
    says(
        &lint,
        "transparent_hugepage.defrag",
        Defect::NotRestored,
        "left at never; before the change it was madvise",
    );
    says(&lint, "vm.dirty_ratio", Defect::AtNextBoot, "/etc/sysctl.conf sets 80 again");
    assert!(!lint.is_clean());
    let places = &setting(&lint, "queue.nr_requests").places;
    assert_eq!(places, &["tune.sh:10"]);
}

#[test]
fn a_variant_of_the_way_back_forgets_one_more() {
    let (name, text) = guide("rollback.sh");
    let short = text
        .lines()
        .filter(|line| !line.contains("dirty_expire"))
        .fold(String::new(), |text, line| text + line + "\n");
    let lint = found("ubuntu-nvme", &[guide("tune.sh"), (name, short)]);
    assert_eq!(lint.wrong_after_rollback.len(), 6);
    assert!(lint.wrong_after_rollback.contains(&"vm.dirty_expire_centisecs".to_owned()));
}

#[test]
fn what_does_nothing_here_and_what_is_against_the_vendor() {
    let lint = found("ubuntu-nvme", &[guide("tune.sh"), guide("rollback.sh")]);
    says(&lint, "queue.scheduler", Defect::NoEffect, "already set to this value");
    for name in ["queue.read_ahead_kb", "vm.dirty_ratio", "vm.dirty_expire_centisecs"] {
        says(&lint, name, Defect::NoEffect, "O_DIRECT");
    }
    says(&lint, "transparent_hugepage.enabled", Defect::AgainstTheVendor, "sets always");
    says(&lint, "transparent_hugepage.enabled", Defect::Harmful, "60.0 GiB in huge pages");
    assert!(told(&lint, "vm.swappiness", Defect::AgainstTheVendor).is_empty(), "rpk sets 1, too");
    says(&lint, "", Defect::NeverMeasured, "none of them alone");
    // Under a broker that writes through the page cache the same settings are no longer without effect, and harm.
    let kafka = found("md-nvme", &[guide("tune.sh"), guide("rollback.sh")]);
    says(&kafka, "queue.read_ahead_kb", Defect::Harmful, "39-45 MB/s");
    says(&kafka, "vm.dirty_ratio", Defect::Harmful, "80 %");
    says(&kafka, "vm.dirty_expire_centisecs", Defect::Harmful, "120 s");
    assert!(
        told(&kafka, "transparent_hugepage.enabled", Defect::AgainstTheVendor).is_empty(),
        "no Redpanda there"
    );
    let swapless = found("dm-crypt", &[guide("tune.sh"), guide("rollback.sh")]);
    says(&swapless, "vm.swappiness", Defect::NoEffect, "no swap");
}

#[test]
fn a_unit_that_comes_after_the_broker() {
    let lint = found("ubuntu-nvme", &[guide("tune.sh")]);
    says(&lint, "", Defect::UnitOrder, "After=multi-user.target");
    says(&lint, "", Defect::UnitOrder, "redpanda.service");
    let unit = |lines: &str| {
        let text =
            format!("[Unit]\n{lines}\n[Service]\nExecStart=/bin/sh -c 'echo 1 > /proc/sys/vm/swappiness'\n");
        found("ubuntu-nvme", &[own("tuning.service", &text)])
    };
    says(&unit("After=local-fs.target"), "", Defect::UnitOrder, "without Before=redpanda.service");
    says(&unit("After=redpanda.service"), "", Defect::UnitOrder, "after the broker");
    let good = unit("Before=redpanda.service\nAfter=systemd-sysctl.service");
    assert!(told(&good, "", Defect::UnitOrder).is_empty(), "{good:#?}");
    says(&unit("Before=redpanda.service\nProtectKernelTunables=yes"), "", Defect::UnitOrder, "EROFS");
}

#[test]
fn a_remark_behind_a_value() {
    let conf = found("ubuntu-nvme", &[own("99-x.conf", "vm.swappiness = 1   # no swapping\n")]);
    says(&conf, "vm.swappiness", Defect::TakenOtherwise, "sets 1, and ignores `# no swapping`");
    assert_eq!(setting(&conf, "vm.swappiness").wanted, "1");
    let sysfs =
        found("ubuntu-nvme", &[own("x.sh", "echo '32 # short' > /sys/block/nvme1n1/queue/nr_requests\n")]);
    says(&sysfs, "queue.nr_requests", Defect::Refused, "EINVAL");
}

#[test]
fn lines_that_are_kept_only_if_no_other_line_is_there() {
    let texts = [guide("tune.sh"), guide("rollback.sh")];
    says(&found("ubuntu-nvme", &texts), "", Defect::NotKept, "no line with `vm.dirty_ratio`");
    let added = [("etc/sysctl.conf", "# vm.dirty_ratio is 20 by default\n")];
    let lint = found_with("ubuntu-nvme", &added, &texts);
    says(&lint, "", Defect::NotKept, "one exists now");
    assert!(lint.at_next_boot.is_empty(), "nothing was kept, so nothing comes back");
}

#[test]
fn a_file_that_nothing_reads_at_boot() {
    // Debian 13 has neither the file nor the link.
    let text = fs::read_to_string(fixtures().join("md-nvme.tree")).unwrap();
    let debian13: String =
        text.lines().filter(|line| !line.contains("sysctl.conf")).map(|line| format!("{line}\n")).collect();
    let root = tree::planted(&debian13);
    let files = Files::new(root.path());
    let texts = [guide("tune.sh"), guide("rollback.sh")];
    let lint = lint(&files, &texts, &disks::DataPath::default(), &relevance::Facts::default());
    says(&lint, "", Defect::NotKept, "nothing reads at boot here");
    assert!(lint.at_next_boot.is_empty());
}

#[test]
fn a_script_that_ends_half_way() {
    let text = guide("tune.sh").1.replace("/sys/block/nvme*", "/sys/block/*");
    // The loop meets memory that is compressed and has no scheduler; the settings behind it are never made.
    let lint = found("zram", &[own("tune.sh", &text)]);
    says(&lint, "", Defect::EndsHalfWay, "zram0/queue/scheduler");
    assert_eq!(lint.settings.len(), 3, "only those of disks that come before it");
    // EBS holds 31 requests a queue: the guide's own hosts refuse its 32, and the rest is not done.
    let ebs = found("ec2-ebs", &[guide("tune.sh"), guide("rollback.sh")]);
    says(&ebs, "queue.nr_requests", Defect::Refused, "the device has 31 requests at most");
    says(&ebs, "", Defect::EndsHalfWay, "nr_requests");
    assert!(ebs.settings.iter().all(|setting| setting.name.starts_with("queue.")));
    // With `|| true` it would go on.
    let text = guide("tune.sh")
        .1
        .replace("echo 32 > \"$device/queue/nr_requests\"", "echo 32 > $device/queue/nr_requests || true");
    assert_eq!(found("ec2-ebs", &[own("tune.sh", &text)]).settings.len(), 9);
}

#[test]
fn disks_by_a_pattern_of_names() {
    let lint = found("ubuntu-nvme", &[guide("tune.sh")]);
    says(&lint, "", Defect::DeviceOrder, "/sys/block/nvme* matches nvme0n1, nvme1n1 here");
    says(&lint, "", Defect::DeviceOrder, "the data is not on nvme0n1");
    says(&found("ec2-ebs", &[guide("tune.sh")]), "", Defect::DeviceOrder, "network volumes");
}

#[test]
fn a_restart_in_the_middle_and_another_promise() {
    let lint = found("ubuntu-nvme", &[guide("tune.sh"), guide("rollback.sh")]);
    says(&lint, "", Defect::Mixed, "restart of redpanda.service");
    let guide_itself = found("ubuntu-nvme", &[guide("guide.md")]);
    says(&guide_itself, "", Defect::Durability, "lower the durability");
}

/// The guide's page holds all of it: settings, unit, and a way back below its heading.
#[test]
fn a_guide_in_markdown() {
    let lint = found("ubuntu-nvme", &[guide("guide.md")]);
    assert!(lint.has_rollback);
    let mut names: Vec<&str> = lint.settings.iter().map(|setting| setting.name.as_str()).collect();
    let mut expected = NINE;
    names.sort_unstable();
    expected.sort_unstable();
    assert_eq!(names, expected);
    assert_eq!(lint.wrong_after_rollback.len(), 5);
    says(&lint, "", Defect::UnitOrder, "multi-user.target");
}

#[test]
fn a_way_back_that_keeps_what_was_there_is_clean() {
    let good = "#!/bin/sh\nset -eu\nsave() { mkdir -p /var/lib/t; cat /proc/sys/vm/stat_interval > /var/lib/t/stat; }\napply() { save; echo 10 > /proc/sys/vm/stat_interval; }\nrollback() { old=$(cat /var/lib/t/stat); echo \"$old\" > /proc/sys/vm/stat_interval; }\ncase \"$1\" in apply) apply ;; rollback) rollback ;; esac\n";
    let lint = found("ubuntu-nvme", &[own("t.sh", good)]);
    assert!(lint.has_rollback && lint.is_clean(), "{lint:#?}");
    assert!(lint.wrong_after_rollback.is_empty());
    // Without it nothing takes the change back.
    let lost = found("ubuntu-nvme", &[own("t.sh", "echo 10 > /proc/sys/vm/stat_interval\n")]);
    says(&lost, "", Defect::NotRestored, "no rollback");
    // A choice as the kernel prints it is no value to write: the brackets are refused.
    let brackets = "old=$(cat /sys/kernel/mm/transparent_hugepage/enabled)\necho never > /sys/kernel/mm/transparent_hugepage/enabled\nundo() { echo \"$old\" > /sys/kernel/mm/transparent_hugepage/enabled; }\n";
    let lint = found("ubuntu-nvme", &[own("t.sh", brackets)]);
    assert_eq!(lint.wrong_after_rollback, ["transparent_hugepage.enabled"]);
}

#[test]
fn files_of_settings_and_rules_are_texts_as_well() {
    let rules = "KERNEL==\"nvme1n1\", ATTR{queue/scheduler}=\"mq-deadline\"\n";
    let lint =
        found("ubuntu-nvme", &[own("60-x.rules", rules), own("10-x.conf", "vm.max_map_count = 65530\n")]);
    says(&lint, "queue.scheduler", Defect::Harmful, "orders its requests itself");
    assert_eq!(setting(&lint, "vm.max_map_count").now, ["1048576"]);
    assert!(!lint.has_rollback);
    assert!(told(&lint, "", Defect::NotRestored).is_empty(), "a file is rolled back by deleting it");
}

#[test]
fn what_is_known_only_when_it_runs_is_said() {
    let text = "for d in $(find /sys/block -name 'nvme*'); do echo none > $d/queue/scheduler; done\nsysctl -w vm.swappiness=$1\nmy-tuner /sys/block/nvme0n1\n";
    let lint = found("ubuntu-nvme", &[own("x.sh", text)]);
    assert!(lint.not_understood.len() >= 3 && !lint.is_clean(), "{lint:#?}");
}

#[test]
fn kafkas_limits_and_tuned() {
    let text = "tuned-adm profile throughput-performance\nswapoff -a\nblockdev --setra 8192 /dev/nvme0n1\n";
    let lint = found("rhel-tuned", &[own("x.sh", text)]);
    says(&lint, "", Defect::Mixed, "network-latency to throughput-performance");
    says(&lint, "", Defect::AgainstTheVendor, "swap");
    assert_eq!(setting(&lint, "queue.read_ahead_kb").wanted, "4096");
    says(&lint, "", Defect::NotKept, "tuned is active");
}

fn names(lint: &Lint) -> Vec<&str> {
    lint.settings.iter().map(|setting| setting.name.as_str()).collect()
}

/// What was seen and not followed, by its name.
fn not_followed(lint: &Lint) -> Vec<&str> {
    lint.not_understood.iter().filter_map(|one| one.name.as_deref()).collect()
}

#[test]
fn a_script_that_only_writes_files_sets_the_next_boot() {
    let text = "#!/bin/bash\n\necho 'net.core.somaxconn = 1000' >> /etc/sysctl.conf\necho 'vm.dirty_ratio = 90' >> /etc/sysctl.conf\ncat > /etc/udev/rules.d/60-io.rules <<EOF\n# no readahead\nACTION==\"add|change\", KERNEL==\"nvme[0-9]n[0-9]\", ATTR{queue/read_ahead_kb}=\"0\"\nEOF\nprintf 'w /sys/kernel/mm/transparent_hugepage/defrag - - - - never\\n' | tee /etc/tmpfiles.d/thp.conf\nsed -i 's/^GRUB_CMDLINE_LINUX=\"/&transparent_hugepage=always /' /etc/default/grub\n";
    let grub = [("etc/default/grub", "GRUB_CMDLINE_LINUX=\"quiet\"\n")];
    let lint = found_with("rhel-tuned", &grub, &[own("x.sh", text)]);
    let all = [
        "net.core.somaxconn",
        "vm.dirty_ratio",
        "queue.read_ahead_kb",
        "transparent_hugepage.defrag",
        "transparent_hugepage.enabled",
    ];
    assert_eq!(names(&lint), all, "{lint:#?}");
    assert!(lint.settings.iter().all(|setting| setting.next_boot));
    says(&lint, "vm.dirty_ratio", Defect::Harmful, "90 %");
    says(&lint, "vm.dirty_ratio", Defect::NextBoot, "nothing loads /etc/sysctl.conf");
    says(&lint, "transparent_hugepage.enabled", Defect::NextBoot, "update-grub");
    says(&lint, "", Defect::Repeats, "/etc/sysctl.conf");
    says(&lint, "", Defect::NotRestored, "no rollback");
    assert_eq!(setting(&lint, "queue.read_ahead_kb").places, ["x.sh:7"]);
    assert_eq!(setting(&lint, "queue.read_ahead_kb").devices, ["nvme0n1", "nvme1n1"]);
    assert!(lint.not_understood.is_empty(), "{lint:#?}");
    // What is loaded at once is in force at once.
    let loaded = format!("{text}sysctl --system\nudevadm control --reload\nudevadm trigger\n");
    let lint = found_with("rhel-tuned", &grub, &[own("x.sh", &loaded)]);
    let later: Vec<&str> =
        lint.settings.iter().filter(|one| one.next_boot).map(|one| one.name.as_str()).collect();
    assert_eq!(later, all[3..]);
    // A look before the line is added, and a way back.
    let guarded = "grep -q dirty_ratio /etc/sysctl.conf || echo 'vm.dirty_ratio = 90' >> /etc/sysctl.conf\nundo() { sed -i '/vm.dirty_ratio/d' /etc/sysctl.conf; }\n";
    let lint = found("rhel-tuned", &[own("x.sh", guarded)]);
    assert!(told(&lint, "", Defect::Repeats).is_empty() && lint.has_rollback, "{lint:#?}");
    assert!(lint.at_next_boot.is_empty());
}

#[test]
fn tasks_of_ansible_and_their_variables() {
    let play = "---\n- hosts: brokers\n  vars:\n    sysctls:\n      vm.swappiness: 1\n      vm.dirty_ratio: 80\n    other: \"{{ lookup('env', 'X') }}\"\n  tasks:\n    - name: memory\n      sysctl:\n        name: \"{{ item.key }}\"\n        value: \"{{ item.value }}\"\n      loop: \"{{ sysctls | dict2items }}\"\n    - ansible.posix.sysctl: {name: vm.dirty_background_ratio, value: '{{ background | default(5) }}'}\n    - sysctl: name=vm.dirty_expire_centisecs value=12000\n    - shell: |\n        echo never > /sys/kernel/mm/transparent_hugepage/enabled\n        echo 32 > /sys/block/nvme0n1/queue/nr_requests\n    - copy:\n        dest: /etc/sysctl.d/90-net.conf\n        content: |\n          # net\n          net.core.somaxconn = 1000\n    - template: {src: fs.conf.j2, dest: /etc/sysctl.d/91-fs.conf}\n    - sysctl: {name: vm.max_map_count, value: \"{{ other }}\"}\n";
    let lint = found("rhel-tuned", &[own("play.yml", play)]);
    let mut expected = vec![
        "vm.swappiness",
        "vm.dirty_ratio",
        "vm.dirty_background_ratio",
        "vm.dirty_expire_centisecs",
        "transparent_hugepage.enabled",
        "queue.nr_requests",
        "net.core.somaxconn",
    ];
    assert_eq!(names(&lint), expected, "{lint:#?}");
    assert_eq!(setting(&lint, "vm.dirty_ratio").places, ["play.yml:6"]);
    assert_eq!(setting(&lint, "queue.nr_requests").places, ["play.yml:18"]);
    assert_eq!(setting(&lint, "net.core.somaxconn").places, ["play.yml:23"]);
    assert!(setting(&lint, "net.core.somaxconn").next_boot);
    says(&lint, "vm.dirty_ratio", Defect::Harmful, "80 %");
    // What was not followed is said: a value from elsewhere, and a template that is not at hand.
    assert_eq!(not_followed(&lint), ["vm.max_map_count"]);
    assert!(lint.not_understood.iter().any(|one| one.told.contains("fs.conf.j2")), "{lint:#?}");
    assert!(!lint.is_clean());
    let given = [own("play.yml", play), own("fs.conf.j2", "fs.aio-max-nr = 1048576\n")];
    expected.push("fs.aio-max-nr");
    let lint = found("rhel-tuned", &given);
    assert_eq!(lint.not_understood.len(), 1, "{lint:#?}");
    assert!(names(&lint).contains(&"fs.aio-max-nr"));
}

#[test]
fn containers_have_few_settings_of_their_own() {
    let compose = "services:\n  redpanda:\n    image: redpanda\n    sysctls:\n      - net.core.somaxconn=1000\n      - vm.swappiness=1\n";
    let lint = found("ubuntu-nvme", &[own("compose.yml", compose)]);
    says(&lint, "net.core.somaxconn", Defect::NoEffect, "container's own namespace");
    says(&lint, "vm.swappiness", Defect::Refused, "Docker");
    assert_eq!(setting(&lint, "vm.swappiness").places, ["compose.yml:6"]);
    let pod = |security: &str| {
        format!(
            "apiVersion: apps/v1\nkind: DaemonSet\nspec:\n  template:\n    spec:\n      initContainers:\n        - name: tune\n          image: busybox\n{security}          command: [sh, -c]\n          args:\n            - |\n              sysctl -w vm.swappiness=1\n              for d in /sys/block/nvme*; do echo noop > $d/queue/scheduler; done\n"
        )
    };
    let lint =
        found("ubuntu-nvme", &[own("ds.yaml", &pod("          securityContext: {privileged: true}\n"))]);
    assert_eq!(setting(&lint, "vm.swappiness").places, ["ds.yaml:13"]);
    assert!(told(&lint, "vm.swappiness", Defect::Refused).is_empty());
    says(&lint, "queue.scheduler", Defect::Refused, "`noop` is not one of");
    assert!(told(&lint, "queue.scheduler", Defect::Harmful).is_empty(), "what is refused does no harm");
    says(&found("ubuntu-nvme", &[own("ds.yaml", &pod(""))]), "vm.swappiness", Defect::Refused, "EROFS");
    // Files of a ConfigMap, cloud-init, Talos, and what is no YAML.
    let config = "kind: ConfigMap\ndata:\n  tune.sh: |\n    #!/bin/sh\n    sysctl -w vm.dirty_ratio=80\n";
    assert_eq!(
        setting(&found("ubuntu-nvme", &[own("c.yaml", config)]), "vm.dirty_ratio").places,
        ["c.yaml:5"]
    );
    let cloud = "#cloud-config\nwrite_files:\n  - path: /etc/sysctl.d/99-x.conf\n    content: |\n      vm.dirty_ratio = 80\nruncmd:\n  - [sysctl, -w, vm.swappiness=1]\n  - echo never > /sys/kernel/mm/transparent_hugepage/enabled\n";
    let lint = found("ubuntu-nvme", &[own("user-data", cloud)]);
    assert_eq!(
        names(&lint),
        ["vm.dirty_ratio", "vm.swappiness", "transparent_hugepage.enabled"],
        "{lint:#?}"
    );
    let talos = "machine:\n  sysctls:\n    vm.dirty_ratio: \"80\"\n";
    says(&found("ubuntu-nvme", &[own("t.yaml", talos)]), "vm.dirty_ratio", Defect::NoEffect, "can't matter");
    let broken = found("ubuntu-nvme", &[own("x.yml", "a: [vm.swappiness\nb: 1\n")]);
    assert!(broken.not_understood[0].told.contains("invalid YAML"), "{broken:#?}");
}

#[test]
fn rules_of_udev_mean_the_disks_that_they_mean() {
    let rules = "# multipath\nSUBSYSTEM==\"block\", ENV{DM_NAME}==\"mpath*\", ATTR{queue/scheduler}=\"none\"\n\nKERNEL==\"sda3\", ATTR{queue/nr_requests}=\"64\"\nENV{ID_BUS}==\"ata\", ATTR{queue/nomerges}=\"2\"\nKERNEL==\"nvme0n1\", \\\n  ATTR{queue/read_ahead_kb}=\"0\", RUN+=\"/bin/sh -c 'echo 2 > /sys/block/%k/queue/rq_affinity'\"\nACTION==\"add\", SUBSYSTEM==\"module\", KERNEL==\"nf\", SYSCTL{vm.dirty_ratio}=\"80\"\n";
    let lint = found("rhel-tuned", &[own("60-x.rules", rules)]);
    says(&lint, "queue.scheduler", Defect::NoEffect, "no disk on this host is a multipath device");
    assert!(told(&lint, "queue.scheduler", Defect::Harmful).is_empty(), "{lint:#?}");
    says(&lint, "queue.nr_requests", Defect::Refused, "sda3 is a partition");
    assert_eq!(setting(&lint, "queue.nr_requests").places, ["60-x.rules:4"]);
    let part = "KERNEL==\"nvme0n1p1\", ATTR{queue/nr_requests}=\"256\"\n";
    says(
        &found("rhel-tuned", &[own("part.rules", part)]),
        "queue.nr_requests",
        Defect::NoEffect,
        "partition of nvme0n1",
    );
    says(&lint, "queue.read_ahead_kb", Defect::Harmful, "sequential reads");
    assert_eq!(setting(&lint, "queue.read_ahead_kb").places, ["60-x.rules:6"]);
    assert_eq!(setting(&lint, "queue.rq_affinity").wanted, "2");
    assert_eq!(setting(&lint, "vm.dirty_ratio").wanted, "80");
    assert_eq!(not_followed(&lint), ["queue.nomerges"]);
    assert!(lint.not_understood[0].told.contains("ID_BUS"), "{lint:#?}");
    let record = [("run/udev/data/b8:0", "E:ID_BUS=ata\n")];
    let lint = found_with(
        "rhel-tuned",
        &record,
        &[own("60-x.rules", "ENV{ID_BUS}==\"ata\", KERNEL==\"sd*\", ATTR{queue/nr_requests}=\"32\"\n")],
    );
    assert_eq!(setting(&lint, "queue.nr_requests").devices, ["sda"], "udev's record decides");
}

#[test]
fn files_of_sysctl_have_an_order_patterns_and_pairs() {
    let host = [
        ("etc/sysctl.d/95-own.conf", "vm.dirty_ratio = 15\n"),
        ("proc/sys/net/ipv4/tcp_rmem", "4096\t131072\t6291456\n"),
        ("proc/sys/net/ipv4/conf/all/rp_filter", "0\n"),
        ("proc/sys/net/ipv4/conf/eth0/rp_filter", "0\n"),
    ];
    let text = "vm.dirty_ratio = 40\nnet.ipv4.tcp_rmem = 4096 87380 16777216\nnet.ipv4.conf.*.rp_filter = 2\n-net.ipv4.conf.all.rp_filter\nvm.dirty_background_ratio = 5\nvm.dirty_background_bytes = 67108864\nvm.stat_interval = 10 # seconds\n";
    let lint = found_with("virtio", &host, &[own("90-x.conf", text)]);
    says(&lint, "vm.dirty_ratio", Defect::NotKept, "/etc/sysctl.d/95-own.conf sets 15 at boot");
    assert!(told(&lint, "net.ipv4.tcp_rmem", Defect::TakenOtherwise).is_empty(), "{lint:#?}");
    assert_eq!(setting(&lint, "net.ipv4.tcp_rmem").now, ["4096 131072 6291456"]);
    says(&lint, "vm.stat_interval", Defect::TakenOtherwise, "ignores `# seconds`");
    says(&lint, "vm.dirty_background_ratio", Defect::NoEffect, "the final value is 0");
    assert!(told(&lint, "vm.dirty_background_bytes", Defect::NoEffect).is_empty());
    assert!(names(&lint).contains(&"net.ipv4.conf.eth0.rp_filter"));
    assert!(!names(&lint).contains(&"net.ipv4.conf.all.rp_filter"));
    assert!(lint.not_understood.is_empty(), "{lint:#?}");
    // The same value, written with other blanks, is the same.
    let same = found_with("virtio", &host, &[own("90-x.conf", "net.ipv4.tcp_rmem = 4096 131072  6291456\n")]);
    says(&same, "net.ipv4.tcp_rmem", Defect::NoEffect, "already");
}

#[test]
fn a_profile_of_tuned_and_the_command_line() {
    let profile = "[main]\ninclude=latency-performance\n\n[sysctl]\nvm.dirty_ratio=60\n[disk]\ndevices=nvme*\nreadahead=>64\n[sysfs]\n/sys/block/nvme*/queue/nomerges=2\n[bootloader]\ncmdline_x=transparent_hugepage=always elevator=noop\n";
    let lint = found("rhel-tuned", &[own("tuned.conf", profile)]);
    assert_eq!(
        names(&lint),
        [
            // Of the profile that it includes.
            "vm.dirty_background_ratio",
            "vm.swappiness",
            "vm.dirty_ratio",
            "queue.read_ahead_kb",
            "queue.nomerges",
            "transparent_hugepage.enabled",
            "queue.scheduler"
        ],
        "{lint:#?}"
    );
    says(&lint, "vm.dirty_ratio", Defect::Harmful, "60 %");
    says(&lint, "queue.read_ahead_kb", Defect::NoEffect, "keeps larger values");
    assert_eq!(setting(&lint, "queue.nomerges").devices, ["nvme0n1", "nvme1n1"]);
    says(&lint, "queue.scheduler", Defect::NoEffect, "kernels since 5.0");
    assert_eq!(setting(&lint, "vm.dirty_ratio").places, ["tuned.conf:5"]);
}

/// Whatever the language: a setting that is named and not followed is no clean bill.
#[test]
fn what_was_not_followed_is_never_a_clean_bill() {
    for (name, text, expected) in [
        ("x.rb", "sysctl 'vm.swappiness' do\n  value 1\nend\n", "vm.swappiness"),
        ("x.pp", "sysctl { 'vm.dirty_ratio': value => '80' }\n", "vm.dirty_ratio"),
        ("x.py", "open('/proc/sys/vm/dirty_ratio', 'w').write('80')\n", "vm.dirty_ratio"),
        ("x.toml", "[settings.kernel.sysctl]\n\"vm.dirty_ratio\" = \"80\"\n", "vm.dirty_ratio"),
        ("x.md", "# Tuning\n\nSet `vm.dirty_ratio` to 80.\n", "vm.dirty_ratio"),
        ("x.conf", "vm.dirty_ratio 80\n", "vm.dirty_ratio"),
        ("x.sh", "cat > \"$CONF\" <<EOF\nvm.dirty_ratio = 80\nEOF\n", "vm.dirty_ratio"),
        ("x.sh", "my-tuner --set vm.dirty_ratio=80\n", "vm.dirty_ratio"),
        ("x.yml", "x:\n  - {key: vm.dirty_ratio, to: 80}\n", "vm.dirty_ratio"),
    ] {
        let lint = found("virtio", &[own(name, text)]);
        assert_eq!(not_followed(&lint), [expected], "{text}: {lint:#?}");
        assert!(!lint.is_clean() && !lint.is_harmful(), "{text}");
    }
    // A look is no change, and a remark is none.
    for text in [
        "# vm.dirty_ratio = 80\nsysctl vm.swappiness\ncat /proc/sys/vm/dirty_ratio\nhead -1 /sys/block/vda/queue/scheduler\n",
        "echo \"look at vm.dirty_ratio\"\n[ -f /proc/sys/vm/dirty_ratio ] && sysctl -n vm.dirty_ratio | grep 80\n",
        "int main(void) { return 0; }\n",
    ] {
        let lint = found("virtio", &[own("x.sh", text)]);
        assert!(lint.is_clean() && lint.settings.is_empty(), "{text}: {lint:#?}");
    }
}

/// A text from a folder next to the project; the test skips a missing one.
fn shared(path: &str) -> Option<String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared").join(path);
    fs::read(&path).ok().map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
}

/// The published guide as it stands, under two names, and its commands as a script.
#[test]
fn the_published_guide_in_three_forms() {
    let Some(text) = shared("published/latency-guide.txt") else { return };
    for name in ["guide.md", "guide.txt", "guide"] {
        let lint = found("ubuntu-nvme", &[own(name, &text)]);
        assert_eq!(names(&lint), NINE, "{name}");
        assert!(lint.has_rollback && lint.not_understood.is_empty(), "{name}: {lint:#?}");
        assert_eq!(lint.wrong_after_rollback.len(), 5, "{name}");
        assert_eq!(setting(&lint, "queue.nr_requests").places, [format!("{name}:59")]);
        says(
            &lint,
            "transparent_hugepage.enabled",
            Defect::NotRestored,
            "set to always; before the change it was madvise",
        );
        says(&lint, "", Defect::Durability, "acks=all");
    }
    let blocks: Vec<&str> =
        text.split("```bash\n").skip(1).filter_map(|rest| rest.split("```").next()).collect();
    let script = format!("#!/bin/bash\n{}", blocks[2..5].concat());
    let lint = found("ubuntu-nvme", &[own("tune.sh", &script)]);
    assert_eq!(names(&lint), NINE);
    says(&lint, "vm.dirty_ratio", Defect::Refused, "write `sysctl -w` before it");
}

/// A foreign text reads no more of the host than settings: nothing secret, and nothing that would wait for ever.
#[test]
fn a_text_reads_settings_alone() {
    let text = "echo \"$(cat /etc/shadow)\" > /proc/sys/vm/swappiness\ncat /dev/zero | tee /proc/sys/vm/dirty_ratio\n";
    let lint = found_with("ubuntu-nvme", &[("etc/shadow", "root:secret\n")], &[own("x.sh", text)]);
    assert!(!format!("{lint:?}").contains("secret"), "{lint:#?}");
    assert_eq!(lint.not_understood.len(), 2, "{lint:#?}");
}

/// Writes for which the simulated host and the model of the kernel must agree; another test compares the model with a real kernel.
#[test]
fn the_imagined_host_answers_as_the_kernel_does() {
    let vda = |file: &str| format!("sys/block/vda/queue/{file}");
    let vm = |file: &str| format!("proc/sys/vm/{file}");
    let choices: Vec<(String, &[&str])> = vec![
        (vda("scheduler"), &["none", "mq-deadline", "kyber", "bfq", "noop", "[none]", " none"]),
        (vda("nr_requests"), &["3", "32", "128", "200", "5000", "-1", "32 # c"]),
        (vda("read_ahead_kb"), &["0", "3", "5", "4096", "8192k", "-1"]),
        (vm("swappiness"), &["0", "1", "200", "201", "20.5", "20 # x"]),
        (vm("dirty_ratio"), &["0", "80", "101", "20 30", "-1"]),
        (vm("dirty_bytes"), &["2147483648", "268435456"]),
        (vm("dirty_expire_centisecs"), &["12000", "x"]),
        (
            "sys/kernel/mm/transparent_hugepage/enabled".to_owned(),
            &["never", "always", "madvise ", "[never]"],
        ),
    ];
    let mut seed = 7_usize;
    let mut below = |sides: usize| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (seed >> 33) % sides
    };
    let mut changed = 0;
    for _ in 0..400 {
        let model = model::Model::new(&[("vda", ["none", "mq-deadline", "bfq"][below(3)])]);
        let before = model.all();
        let mut writes: Vec<(&String, &str)> = Vec::new();
        for _ in 0..1 + below(5) {
            let (path, values) = &choices[below(choices.len())];
            writes.push((path, values[below(values.len())]));
        }
        let script: String =
            writes.iter().map(|(path, value)| format!("echo '{value}' > /{path}\n")).collect();
        let texts = [own("tune.sh", &script), own("rollback.sh", "echo 1 > /proc/sys/vm/no_such\n")];
        let lint = lint(&model, &texts, &disks::DataPath::default(), &relevance::Facts::default());
        for (path, value) in &writes {
            let _ = model.write(path, &format!("{value}\n"));
        }
        let after = model.all();
        let told: Vec<&Finding> = lint
            .settings
            .iter()
            .flat_map(|setting| &setting.findings)
            .filter(|finding| finding.defect == Defect::NotRestored)
            .collect();
        let paths: std::collections::BTreeSet<&String> = writes.iter().map(|(path, _)| *path).collect();
        let differs: Vec<&&String> = paths.iter().filter(|path| before[**path] != after[**path]).collect();
        changed += differs.len();
        assert_eq!(told.len(), differs.len(), "{script}{lint:#?}");
        for path in differs {
            let left = format!("is left at {}; before the change it was {}", after[*path], before[*path]);
            assert!(told.iter().any(|finding| finding.told.ends_with(&left)), "{left}: {script}{told:#?}");
        }
    }
    assert!(changed > 300, "{changed}");
}

/// Both loops leave out what has no scheduler; the second one by a function.
#[test]
fn a_loop_goes_on_or_ends_where_the_script_says_so() {
    let loops = |body: &str| format!("#!/bin/bash\nset -e\n{body}");
    // A device without a scheduler is on this host.
    let bare = [("sys/block/loop9/queue/read_ahead_kb", "128\n"), ("sys/block/loop9/dev", "7:9\n")];
    for body in [
        "for q in /sys/block/*/queue; do\n  [ -e \"$q/scheduler\" ] || continue\n  echo none > \"$q/scheduler\"\ndone\n",
        "for q in /sys/block/*/queue; do\n  if [ ! -e \"$q/scheduler\" ]; then continue; fi\n  echo none > \"$q/scheduler\"\ndone\n",
        "one() {\n  [ -e \"$1/scheduler\" ] || return 0\n  echo none > \"$1/scheduler\"\n}\nfor q in /sys/block/*/queue; do one \"$q\"; done\n",
        "for a in 1; do\n  for q in /sys/block/*/queue; do\n    [ -e \"$q/scheduler\" ] || continue 2\n    echo none > \"$q/scheduler\"\n  done\ndone\n",
        "for q in /sys/block/loop9/queue /sys/block/nvme0n1/queue; do\n  [ -e \"$q/scheduler\" ] || break\ndone\necho none > /sys/block/nvme0n1/queue/scheduler\n",
    ] {
        let lint = found_with("ubuntu-nvme", &bare, &[own("tune.sh", &loops(body))]);
        assert!(told(&lint, "queue.scheduler", Defect::Refused).is_empty(), "{body}: {lint:#?}");
        assert!(told(&lint, "", Defect::EndsHalfWay).is_empty(), "{body}: {lint:#?}");
        assert!(!setting(&lint, "queue.scheduler").places.is_empty(), "{body}");
    }
}

/// What ends a script ends it inside of a function, too, and what a loop has left behind is not done any more.
#[test]
fn what_is_behind_an_end_is_not_done() {
    for body in [
        "stop() { exit 0; }\nstop\nsysctl -w vm.swappiness=1\n",
        "f() {\n  return\n  sysctl -w vm.swappiness=1\n}\nf\n",
        "for i in 1 2; do\n  break\n  sysctl -w vm.swappiness=1\ndone\n",
        "set -e\nf() {\n  false\n}\nf\nsysctl -w vm.swappiness=1\n",
        "while true; do\n  exit 1\ndone\nsysctl -w vm.swappiness=1\n",
    ] {
        let text = format!("#!/bin/bash\nsysctl -w vm.dirty_ratio=11\n{body}");
        let lint = found("ubuntu-nvme", &[own("tune.sh", &text)]);
        let names: Vec<&str> = lint.settings.iter().map(|setting| setting.name.as_str()).collect();
        assert_eq!(names, ["vm.dirty_ratio"], "{body}");
    }
}

/// Two disks, two values: neither hides the other, whatever the order and the form.
#[test]
fn each_disk_is_judged_by_its_own_last_value() {
    let script = "#!/bin/sh\necho 0 > /sys/block/nvme0n1/queue/read_ahead_kb\n\necho 512 > /sys/block/sda/queue/read_ahead_kb\n";
    let rules = "KERNEL==\"nvme0n1\", ATTR{queue/read_ahead_kb}=\"0\"\n\nKERNEL==\"sda\", ATTR{queue/read_ahead_kb}=\"512\"\n";
    for (name, text, line) in [("tune.sh", script, 2), ("60-disks.rules", rules, 1)] {
        let lint = found("rhel-tuned", &[own(name, text)]);
        let one = setting(&lint, "queue.read_ahead_kb");
        assert_eq!(one.wanted, "0 (nvme0n1), 512 (sda)", "{lint:#?}");
        assert_eq!(one.devices, ["nvme0n1", "sda"]);
        let harm = told(&lint, "queue.read_ahead_kb", Defect::Harmful);
        assert_eq!(harm.len(), 1, "{lint:#?}");
        assert_eq!(harm[0].place, format!("{name}:{line}"));
        assert!(harm[0].told.starts_with("nvme0n1: "), "{harm:#?}");
    }
}

/// A preset resets nothing, and a rollback without its change is a change by itself.
#[test]
fn a_rollback_is_known_by_whole_words_and_judged_even_alone() {
    let change = "sysctl -w vm.dirty_ratio=80\n";
    for name in ["disk-preset.sh", "presets.md", "redoundo.sh"] {
        let text = if name.ends_with(".md") {
            format!("# Presets\n\n```sh\n{change}```\n")
        } else {
            change.to_owned()
        };
        let lint = found("md-nvme", &[own(name, &text)]);
        says(&lint, "vm.dirty_ratio", Defect::Harmful, "80 %");
        says(&lint, "", Defect::NotRestored, "no rollback");
    }
    for (name, text) in [
        ("reset-node.sh", change.to_owned()),
        ("guide.md", format!("# Restore the speed after a boot\n\n```sh\n{change}```\n")),
        ("tune.sh", format!("undoTuning() {{\n  {change}}}\n")),
    ] {
        let lint = found("md-nvme", &[own(name, &text)]);
        says(&lint, "vm.dirty_ratio", Defect::Harmful, "80 %");
        says(&lint, "", Defect::NotRestored, "only a rollback");
        assert!(!lint.has_rollback);
    }
    let both = [own("tune.sh", change), own("resetDisk.sh", "sysctl -w vm.dirty_ratio=20\n")];
    assert!(found("md-nvme", &both).has_rollback);
}

/// Output of several commands, arrays, and what a here-document says with variables in it.
#[test]
fn what_a_script_writes_in_one_go_is_followed() {
    let lines = "vm.swappiness = 0\n";
    for text in [
        "{\n  echo 'vm.swappiness = 0'\n  echo 'vm.dirty_ratio = 80'\n} >> /etc/sysctl.d/70-k.conf\n",
        "(echo 'vm.swappiness = 0'; echo 'vm.dirty_ratio = 80') | sudo tee /etc/sysctl.d/70-k.conf\n",
        "all=(\n  'vm.swappiness = 0'\n  'vm.dirty_ratio = 80'\n)\nfor one in \"${all[@]}\"; do echo \"$one\"; done > /etc/sysctl.d/70-k.conf\n",
        "declare -A all=([vm.swappiness]=0 [vm.dirty_ratio]=80)\nfor key in \"${!all[@]}\"; do echo \"$key = ${all[$key]}\" >> /etc/sysctl.d/70-k.conf; done\n",
        "show() { echo 'vm.swappiness = 0'; echo 'vm.dirty_ratio = 80'; }\nshow > /etc/sysctl.d/70-k.conf\n",
        "cp files/70-k.conf /etc/sysctl.d/\necho 'vm.dirty_ratio = 80' >> /etc/sysctl.d/70-k.conf\n",
    ] {
        let texts = [own("x.sh", &format!("#!/bin/bash\n{text}")), own("70-k.conf", lines)];
        let lint = found("md-nvme", &texts);
        for name in ["vm.swappiness", "vm.dirty_ratio"] {
            assert!(!told(&lint, name, Defect::Harmful).is_empty(), "{text}: {lint:#?}");
        }
        assert!(lint.not_understood.is_empty(), "{text}: {lint:#?}");
    }
    let here = "#!/bin/bash\ncat > /etc/sysctl.d/70-k.conf <<END\nvm.dirty_ratio = ${D:-80}\nvm.swappiness = $S\nEND\nsysctl -p /etc/sysctl.d/70-k.conf\n";
    let lint = found("md-nvme", &[own("x.sh", here)]);
    assert_eq!(setting(&lint, "vm.dirty_ratio").places, ["x.sh:3", "x.sh:6"], "{lint:#?}");
    assert!(!setting(&lint, "vm.dirty_ratio").next_boot, "it is loaded");
    assert_eq!(not_followed(&lint), ["vm.swappiness", "vm.swappiness"]);
    assert_eq!(lint.not_understood[0].place, "x.sh:4");
    assert!(!format!("{lint:?}").contains("\\0"), "{lint:#?}");
}

/// A file that is not at hand, and a program that sets more than Hone knows.
#[test]
fn what_lies_elsewhere_is_asked_for() {
    for (text, words) in [
        ("install -m 0644 conf/70-k.conf /etc/sysctl.d/70-k.conf", "conf/70-k.conf becomes"),
        ("mv /tmp/70-k.rules /etc/udev/rules.d/", "/tmp/70-k.rules becomes"),
        ("cat more.conf >> /etc/sysctl.conf", "/etc/sysctl.conf comes from elsewhere"),
        ("sysctl -p ./k.conf", "./k.conf is a settings file that is loaded here"),
        (". ./common.sh", "runs the script ./common.sh"),
        ("bash ./kernel.sh", "runs the script ./kernel.sh"),
        ("/opt/k/kernel.sh --all", "runs the script /opt/k/kernel.sh"),
        ("curl -fsS https://example.org/k | sudo bash -s", "a script for this shell"),
        ("bash <(curl -fsS https://example.org/k)", "runs the script"),
        ("tuned-adm profile of-mine", "profile of-mine"),
        ("rpk redpanda tune all", "changes settings"),
        ("cpupower frequency-set -g performance", "changes settings"),
        ("hdparm -W0 /dev/sda", "changes settings"),
        ("ethtool -G eth0 rx 4096", "changes settings"),
        ("echo 2 > /proc/irq/24/smp_affinity", "/proc/irq/24"),
        ("blockdev --setra 16 \"$DISK\"", "blockdev"),
    ] {
        let lint = found("md-nvme", &[own("x.sh", &format!("#!/bin/sh\n{text}\n"))]);
        assert!(lint.not_understood.iter().any(|one| one.told.contains(words)), "{text}: {lint:#?}");
        assert!(!lint.is_clean());
    }
    let profile = "[main]\ninclude=of-nobody\n[cpu]\ngovernor=performance\n";
    let lint = found("md-nvme", &[own("tuned.conf", profile)]);
    let lines: Vec<&str> = lint.not_understood.iter().map(|one| one.place.as_str()).collect();
    assert_eq!(lines, ["tuned.conf:2", "tuned.conf:4"], "{lint:#?}");
    // What is passed is followed, and what is of the system is no setting.
    let both = [
        own("x.sh", ". /etc/os-release\n. ./common.sh\nset_it\n"),
        own("common.sh", "set_it() { sysctl -w vm.dirty_ratio=80; }\n"),
    ];
    let lint = found("md-nvme", &both);
    says(&lint, "vm.dirty_ratio", Defect::Harmful, "80 %");
    assert!(lint.not_understood.is_empty(), "{lint:#?}");
}

/// One attribute under other names.
#[test]
fn an_attribute_has_several_paths() {
    for text in [
        "echo 0 > /sys/class/block/nvme0n1/queue/read_ahead_kb",
        "echo 0 > /host/sys/block/nvme0n1/queue/read_ahead_kb",
        "echo 0 > /node-sys/block/nvme0n1/queue/read_ahead_kb",
        "cd /sys/block/nvme0n1/queue && echo 0 > read_ahead_kb",
        "blockdev --setra 0 /dev/nvme0n1p1",
        "for q in /sys/class/block/nvme0*/queue; do echo 0 > $q/read_ahead_kb; done",
    ] {
        let lint = found("md-nvme", &[own("x.sh", &format!("#!/bin/sh\n{text}\n"))]);
        assert_eq!(setting(&lint, "queue.read_ahead_kb").devices, ["nvme0n1"], "{text}: {lint:#?}");
        says(&lint, "queue.read_ahead_kb", Defect::Harmful, "sequential reads");
    }
    let conf = own("disks.conf", "w /sys/block/nvme*/queue/read_ahead_kb - - - - 0\n");
    assert_eq!(setting(&found("md-nvme", &[conf]), "queue.read_ahead_kb").devices, ["nvme0n1", "nvme1n1"]);
}

#[test]
fn tuned_sets_at_once_what_its_profile_says_but_for_the_command_line() {
    let text = "#!/bin/sh\ncat > /etc/tuned/k/tuned.conf <<'END'\n[vm]\ndirty_bytes = 60%\n[bootloader]\ncmdline=transparent_hugepage=never\n[data]\ntype=disk\ndevices=nvme0n1\nreadahead=0\nEND\ntuned-adm profile k\n";
    let lint = found("md-nvme", &[own("x.sh", text)]);
    says(&lint, "vm.dirty_ratio", Defect::Harmful, "60 %");
    assert!(!setting(&lint, "vm.dirty_ratio").next_boot, "{lint:#?}");
    assert_eq!(setting(&lint, "queue.read_ahead_kb").devices, ["nvme0n1"]);
    assert!(setting(&lint, "transparent_hugepage.enabled").next_boot, "{lint:#?}");
    assert!(lint.not_understood.is_empty(), "{lint:#?}");
}

/// Commands whose write never reaches the kernel.
#[test]
fn a_write_that_is_none_is_refused() {
    for (text, words) in [
        ("sudo echo 80 > /proc/sys/vm/dirty_ratio", "before sudo runs"),
        ("sysctl -w vm.dirty_ratio = 80", "one word"),
        ("sysctl -w vm.dirty_ratio 80", "one word"),
    ] {
        let lint = found("md-nvme", &[own("x.sh", &format!("#!/bin/sh\n{text}\n"))]);
        says(&lint, "vm.dirty_ratio", Defect::Refused, words);
    }
    let file =
        found("md-nvme", &[own("x.sh", "#!/bin/sh\nsudo echo 'vm.dirty_ratio = 80' >> /etc/sysctl.conf\n")]);
    says(&file, "vm.dirty_ratio", Defect::Refused, "before sudo runs");
    // Of a folder that Hone does not read nothing is known, and a host's own namespace is the host.
    let module =
        found("md-nvme", &[own("x.sh", "#!/bin/sh\necho 4 > /sys/module/nvme/parameters/poll_queues\n")]);
    assert!(module.settings.is_empty() && module.not_understood.len() == 1, "{module:#?}");
    for prefix in ["nsenter -t 1 -m --", "chroot /host"] {
        let text = format!("#!/bin/sh\n{prefix} sysctl -w vm.dirty_ratio=80\n");
        says(&found("md-nvme", &[own("x.sh", &text)]), "vm.dirty_ratio", Defect::Harmful, "80 %");
    }
    let created = "#!/bin/sh\necho 'w /sys/block/nvme*/queue/read_ahead_kb - - - - 0' > /etc/tmpfiles.d/k.conf\nsystemd-tmpfiles --create\n";
    let lint = found("md-nvme", &[own("x.sh", created)]);
    assert_eq!(setting(&lint, "queue.read_ahead_kb").devices, ["nvme0n1", "nvme1n1"], "{lint:#?}");
    assert!(!setting(&lint, "queue.read_ahead_kb").next_boot);
    let tee = found("md-nvme", &[own("x.sh", "#!/bin/sh\necho 80 | sudo tee /proc/sys/vm/dirty_ratio\n")]);
    assert!(told(&tee, "vm.dirty_ratio", Defect::Refused).is_empty());
}

/// What a unit or a boot script runs is judged, at once where the text starts it.
#[test]
fn what_a_boot_runs_is_judged() {
    let command = "/bin/sh -c '\\\n  for t in /sys/kernel/mm/*hugepage; do echo always > $t/enabled; done'";
    let unit = format!("[Unit]\nBefore=kafka.service\n[Service]\nExecStart={command}\n");
    let lint = found("md-nvme", &[own("thp.service", &unit)]);
    let thp = setting(&lint, "transparent_hugepage.enabled");
    assert_eq!((thp.wanted.as_str(), thp.next_boot), ("always", true), "{lint:#?}");
    assert_eq!(thp.places, ["thp.service:4"]);
    let written = format!("#!/bin/sh\ncat > /etc/systemd/system/thp.service <<'END'\n{unit}END\n");
    let lint = found("md-nvme", &[own("x.sh", &written)]);
    assert_eq!(setting(&lint, "transparent_hugepage.enabled").places, ["x.sh:6"], "{lint:#?}");
    let started = found("md-nvme", &[own("x.sh", &format!("{written}systemctl enable --now thp\n"))]);
    assert!(!setting(&started, "transparent_hugepage.enabled").next_boot, "{started:#?}");
    let rc = "#!/bin/sh\ncat >> /etc/rc.local <<'END'\nif test -w /proc/sys/vm/dirty_ratio; then\n  echo 80 > /proc/sys/vm/dirty_ratio\nfi\nEND\n";
    let lint = found("md-nvme", &[own("x.sh", rc)]);
    says(&lint, "vm.dirty_ratio", Defect::Harmful, "80 %");
    assert_eq!(setting(&lint, "vm.dirty_ratio").places, ["x.sh:4"]);
    assert!(setting(&lint, "vm.dirty_ratio").next_boot && lint.not_understood.is_empty(), "{lint:#?}");
    // The broker's own unit runs its commands before the broker.
    let own_unit = "[Service]\nExecStartPre=+/bin/sh -c 'echo never > /sys/kernel/mm/transparent_hugepage/enabled'\nExecStart=/opt/kafka/bin/kafka-server-start.sh /etc/k.properties\n";
    let lint = found("md-nvme", &[own("my-kafka.service", own_unit)]);
    assert!(told(&lint, "", Defect::UnitOrder).is_empty() && lint.not_understood.is_empty(), "{lint:#?}");
}

/// A name that is followed on one line is not thereby followed on all.
#[test]
fn each_line_is_accounted_for_by_itself() {
    let text = "#!/bin/bash\nsysctl -w vm.swappiness=1\nmy-tool --vm.swappiness=90\n";
    let lint = found("md-nvme", &[own("x.sh", text)]);
    assert_eq!(not_followed(&lint), ["vm.swappiness"], "{lint:#?}");
    assert_eq!(lint.not_understood[0].place, "x.sh:3");
    // Words for other commands, lines that go on, and branches that are not taken are no such lines.
    for text in [
        "key=vm.swappiness\nsysctl -w $key=1\n",
        "for key in vm.swappiness vm.dirty_ratio; do\n  sysctl -w $key=1\ndone\n",
        "put() { sysctl -w $1=$2; }\nput vm.swappiness 1\n",
        "sysctl -w \\\n  vm.swappiness=1 \\\n  vm.dirty_ratio=10\n",
        "if grep -q 'vm.swappiness = 1' /etc/sysctl.conf; then\n  sed -i 's/^vm.swappiness.*/vm.swappiness = 1/' /etc/sysctl.conf\nelse\n  echo 'vm.swappiness = 1' >> /etc/sysctl.conf\nfi\n",
        "[ \"$(cat /proc/sys/vm/swappiness)\" = 1 ] || sysctl -w vm.swappiness=1\n",
        "cat > /etc/udev/rules.d/60-k.rules <<'END'\nKERNEL==\"sda\", ATTR{queue/rotational}==\"1\", ATTR{queue/nr_requests}=\"32\"\nEND\n",
    ] {
        let lint = found("rhel-tuned", &[own("x.sh", &format!("#!/bin/bash\n{text}"))]);
        assert!(lint.not_understood.is_empty(), "{text}: {lint:#?}");
        assert!(
            told(&lint, "", Defect::NotKept).iter().all(|one| !one.told.contains("no line with")),
            "{text}"
        );
    }
}

/// What a terminal printed is no command.
#[test]
fn a_transcript_is_its_prompts() {
    for prompt in ["$ ", "[root@k1 ~]# ", "me@k1:~$ ", "me@k1 ~ $ "] {
        let text = format!(
            "# Look\n```\n{prompt}sysctl -a | grep dirty\nvm.dirty_ratio = 90\nvm.dirty_bytes = 0\n{prompt}sudo sysctl -w vm.swappiness=0\nvm.swappiness = 0\n```\n"
        );
        let lint = found("md-nvme", &[own("look.md", &text)]);
        assert_eq!(names(&lint), ["vm.swappiness"], "{prompt}: {lint:#?}");
        assert!(lint.not_understood.is_empty(), "{prompt}: {lint:#?}");
    }
}

/// A value that another program or the reader fills in is not known, and no wrong number.
#[test]
fn a_place_for_a_value_is_no_value() {
    for (name, text, line) in [
        ("x.sh.j2", "#!/bin/sh\nsysctl -w vm.swappiness={{ swappiness }}\n", 2),
        ("x.conf.j2", "{% if big %}\nvm.swappiness = {{ n }}\n{% endif %}\n", 2),
        ("x.md", "# T\n```\nvm.swappiness=<a number>\n```\n", 3),
        ("x.md", "# T\n```sh\nsysctl -w vm.swappiness=<n>\n```\n", 3),
    ] {
        let lint = found("md-nvme", &[own(name, text)]);
        assert_eq!(not_followed(&lint), ["vm.swappiness"], "{text}: {lint:#?}");
        assert_eq!(lint.not_understood[0].place, format!("{name}:{line}"));
        assert!(lint.settings.is_empty(), "{text}: {lint:#?}");
    }
}

/// Tasks that do nothing, tasks that do more than they say, and where a template's lines stand.
#[test]
fn tasks_that_do_less_or_more_than_it_seems() {
    let play = "- hosts: k\n  roles: [of.somebody]\n  vars: {ratio: 80}\n  tasks:\n    - command: echo 90 > /proc/sys/vm/dirty_ratio\n    - sysctl: {name: vm.swappiness, value: '0', state: absent}\n    - sysctl: {name: vm.stat_interval, value: '9'}\n      when: false\n    - include_tasks: more.yml\n    - script: files/more.sh\n    - synchronize: {src: conf/, dest: /etc/sysctl.d/}\n    - lineinfile:\n        path: /etc/sysctl.conf\n        line: \"{{ item }}\"\n      loop: \"{{ of_the_group }}\"\n    - shell: echo mq-deadline > scheduler\n      args: {chdir: /sys/block/nvme0n1/queue}\n    - replace:\n        path: /etc/default/grub\n        regexp: '^(GRUB_CMDLINE_LINUX=.*)\"$'\n        replace: '\\1 transparent_hugepage=never\"'\n    - template: {src: k.conf.j2, dest: /etc/sysctl.d/70-k.conf}\n";
    let template = "# {{ managed }}\nvm.dirty_background_ratio = {{ ratio }}\n";
    let lint = found("md-nvme", &[own("play.yml", play), own("k.conf.j2", template)]);
    says(&lint, "vm.dirty_ratio", Defect::NoEffect, "no shell");
    assert_eq!(
        names(&lint),
        ["vm.dirty_ratio", "queue.scheduler", "transparent_hugepage.enabled", "vm.dirty_background_ratio"],
        "{lint:#?}"
    );
    assert_eq!(setting(&lint, "vm.dirty_background_ratio").places, ["k.conf.j2:2"]);
    assert_eq!(setting(&lint, "vm.dirty_background_ratio").wanted, "80");
    for words in ["of.somebody", "more.yml", "more.sh", "conf/", "/etc/sysctl.conf"] {
        assert!(lint.not_understood.iter().any(|one| one.told.contains(words)), "{words}: {lint:#?}");
    }
    assert_eq!(lint.not_understood.len(), 5, "{lint:#?}");
    // A machine of Talos.
    let talos = "machine:\n  sysfs:\n    block.nvme0n1.queue.read_ahead_kb: '0'\n  udev:\n    rules:\n      - KERNEL==\"nvme1n1\", ATTR{queue/nr_requests}=\"8\"\n  install:\n    extraKernelArgs: [transparent_hugepage=never]\n";
    let lint = found("md-nvme", &[own("t.yaml", talos)]);
    assert_eq!(names(&lint), ["queue.read_ahead_kb", "queue.nr_requests", "transparent_hugepage.enabled"]);
    assert!(setting(&lint, "transparent_hugepage.enabled").next_boot && lint.not_understood.is_empty());
}

/// Bounds that the kernel's sources name, and conditions that do not hold on this host.
#[test]
fn numbers_out_of_bounds_and_branches_of_other_hosts() {
    let host = [("proc/sys/vm/overcommit_memory", "0\n"), ("proc/sys/kernel/pid_max", "32768\n")];
    let text = "vm.overcommit_memory = 3\nkernel.pid_max = 100\n";
    let lint = found_with("md-nvme", &host, &[own("70-k.conf", text)]);
    says(&lint, "vm.overcommit_memory", Defect::Refused, "3 is not in the range 0 to 2");
    says(&lint, "kernel.pid_max", Defect::Refused, "100 is not in the range 301");
    // A file that is not there can't be set; another condition may hold elsewhere, and is no clean bill.
    let absent = "#!/bin/sh\nif [ -e /proc/sys/vm/of_old ]; then\n  echo 1 > /proc/sys/vm/of_old\nfi\n";
    assert!(found("md-nvme", &[own("x.sh", absent)]).not_understood.is_empty());
    for condition in ["grep -q no_such_word /proc/cmdline", "[ \"$SWITCH\" = on ]"] {
        let other =
            format!("#!/bin/sh\nSWITCH=off\nif {condition}; then\n  sysctl -w vm.dirty_ratio=80\nfi\n");
        assert_eq!(
            not_followed(&found("md-nvme", &[own("x.sh", &other)])),
            ["vm.dirty_ratio"],
            "{condition}"
        );
    }
}

/// Texts that would grow without end, or start each other, come to an end.
#[test]
fn what_grows_or_turns_in_a_circle_ends() {
    let double = "#!/bin/bash\na=(xx xx)\nwhile true; do a+=(\"${a[@]}\"); done\nfor i in {1,2}{1,2}{1,2}{1,2}{1,2}{1,2}{1,2}{1,2}{1,2}; do a+=(\"${a[@]}\"); b+=\"$b x\"; done\nsysctl -w vm.swappiness=${a[3]}\n";
    assert_eq!(not_followed(&found("md-nvme", &[own("x.sh", double)])), ["vm.swappiness"]);
    let two = [
        own("a.sh", "./b.sh\n./b.sh\nsysctl -w vm.swappiness=1\n"),
        own("b.sh", "./a.sh\n./a.sh\nsysctl -w vm.dirty_ratio=10\n"),
    ];
    assert_eq!(names(&found("md-nvme", &two)).len(), 2);
    let profile = format!("[main]\ninclude={}\n[sysctl]\nvm.swappiness=1\n", ["k"; 60].join(","));
    let text =
        format!("#!/bin/sh\ncat > /etc/tuned/k/tuned.conf <<'END'\n{profile}END\ntuned-adm profile k\n");
    assert_eq!(names(&found("md-nvme", &[own("x.sh", &text)])), ["vm.swappiness"]);
    let more = "#!/bin/bash\nkeys=(vm.swappiness)\nkeys+=(vm.dirty_ratio)\nvalue=1\nvalue+=5\nfor key in \"${keys[@]}\"; do sysctl -w $key=$value; done\n";
    let lint = found("md-nvme", &[own("x.sh", more)]);
    assert_eq!(names(&lint), ["vm.swappiness", "vm.dirty_ratio"]);
    assert_eq!(setting(&lint, "vm.dirty_ratio").wanted, "15");
}

/// What only a run knows has no place in what is reported, wherever it stood.
#[test]
fn what_is_not_known_is_no_text() {
    let text = "#!/bin/bash\nX=$(my-tool)\ncat > /etc/udev/rules.d/60-k.rules <<END\nKERNEL==\"$X\", ATTR{queue/$X}=\"1\", ATTR{queue/nomerges}=\"$X\"\nEND\necho \"$X = 1\" >> /etc/sysctl.d/$X.conf\nprintf '[main]\\ninclude=%s\\n[sysctl]\\n%s=1\\n' $X $X > /etc/tuned/k/tuned.conf\ntuned-adm profile $X\ncp $X /etc/sysctl.d/\n. $X\nsysctl -p $X\nsysctl -w $X=1\ncd /sys/block/$X && echo 1 > queue/nomerges\n";
    let lint = found("md-nvme", &[own("x.sh", text)]);
    assert!(!format!("{lint:?}").contains("\\0"), "{lint:#?}");
    assert!(lint.settings.is_empty() && !lint.is_clean(), "{lint:#?}");
    assert!(not_followed(&lint).contains(&"queue.nomerges"), "{lint:#?}");
}
