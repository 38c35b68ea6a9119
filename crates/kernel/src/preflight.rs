//! Requirements on the machine.

use std::fs;
use std::path::{Path, PathBuf};

use crate::Error;

/// A requirement, and whether the machine meets it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Check {
    /// The requirement.
    pub name: &'static str,
    /// Whether it is met; `None`: this cannot be observed from here.
    pub met: Option<bool>,
    /// The machine's state.
    pub found: String,
    /// Remedy if it is not met.
    pub remedy: String,
}

/// Oldest kernel: `cong_control` has its present arguments since then.
const OLDEST: (u32, u32) = (6, 10);
/// Capabilities, by bit: any of each group. CAP_SYS_ADMIN includes those of BPF.
const CAPABILITIES: [(&str, &[u32]); 3] =
    [("CAP_NET_ADMIN", &[12]), ("CAP_BPF", &[39, 21]), ("CAP_PERFMON", &[38, 21])];

/// Checks everything. `pins` is the folder in the BPF file system.
pub fn preflight(pins: &Path) -> Vec<Check> {
    vec![
        capabilities(&fs::read_to_string("/proc/self/status").unwrap_or_default()),
        kernel(&fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default()),
        btf(Path::new("/sys/kernel/btf/vmlinux")),
        jit(fs::read_to_string("/proc/sys/net/core/bpf_jit_enable").ok().as_deref()),
        bpffs(&mounts(), pins),
        cgroup(&mounts()),
    ]
}

/// Fails with all unmet requirements.
///
/// # Errors
/// If there are any.
pub fn require(pins: &Path) -> Result<(), Error> {
    refuse_unmet(preflight(pins))
}

/// Fails with the unmet requirements of stamping, which attaches nothing to cgroups.
///
/// # Errors
/// If there are any.
pub fn require_stamping(pins: &Path) -> Result<(), Error> {
    let mut checks = preflight(pins);
    checks.retain(|check| check.name != CGROUP);
    refuse_unmet(checks)
}

/// Fails with the unmet requirements of commands that only read and remove pins.
pub(crate) fn require_pins(pins: &Path) -> Result<(), Error> {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    refuse_unmet(vec![capabilities(&status), bpffs(&mounts(), pins)])
}

fn refuse_unmet(checks: Vec<Check>) -> Result<(), Error> {
    let unmet = checks.into_iter().filter(|check| check.met == Some(false));
    let unmet: Vec<_> =
        unmet.map(|check| format!("{}: {} ({})", check.name, check.found, check.remedy)).collect();
    if unmet.is_empty() { Ok(()) } else { Err(Error::Missing(unmet)) }
}

fn mounts() -> String {
    fs::read_to_string("/proc/mounts").unwrap_or_default()
}

/// Folders at which file systems of a type are mounted, and the options of the mounts.
fn mounted<'a>(mounts: &'a str, kind: &'a str) -> impl Iterator<Item = (&'a str, &'a str)> {
    mounts.lines().filter_map(move |line| {
        let mut fields = line.split(' ').skip(1);
        let (folder, found, options) = (fields.next()?, fields.next()?, fields.next()?);
        (found == kind).then_some((folder, options))
    })
}

/// The folder of the cgroup hierarchy (version 2).
pub(crate) fn cgroup_folder() -> Option<PathBuf> {
    mounted(&mounts(), "cgroup2").next().map(|(folder, _)| folder.into())
}

fn capabilities(status: &str) -> Check {
    let line = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    let held = line.and_then(|bits| u64::from_str_radix(bits.trim(), 16).ok()).unwrap_or(0);
    let lacks = |(_, bits): &&(&str, &[u32])| !bits.iter().any(|bit| held & (1 << bit) != 0);
    let missing: Vec<_> = CAPABILITIES.iter().filter(lacks).map(|(name, _)| *name).collect();
    Check {
        name: "capabilities",
        met: Some(missing.is_empty()),
        found: match &missing[..] {
            [] => "sufficient".into(),
            missing => format!("{} missing", missing.join(", ")),
        },
        remedy: "run the command as root".into(),
    }
}

fn kernel(release: &str) -> Check {
    let mut numbers = release.split(['.', '-']).map_while(|number| number.trim().parse().ok());
    let version = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
    Check {
        name: "kernel",
        met: Some(version >= OLDEST),
        found: format!("Linux {}", release.trim()),
        remedy: format!("Linux {}.{} or later is needed", OLDEST.0, OLDEST.1),
    }
}

/// The kernel describes its types, among them the table of congestion controls by BPF.
fn btf(path: &Path) -> Check {
    const STRUCT_OPS: &[u8] = b"bpf_struct_ops_tcp_congestion_ops\0";
    // Since Linux 7.1 the kernel reports the start of sending here, and not to `cwnd_event`.
    const OTHER_EVENT: &[u8] = b"cwnd_event_tx_start\0";
    let types = fs::read(path).ok();
    let has = |types: &[u8], name: &[u8]| types.windows(name.len()).any(|text| text == name);
    let (met, found) = match types {
        None => (false, "the kernel has no BTF".to_owned()),
        Some(types) if !has(&types, STRUCT_OPS) => {
            (false, "the kernel has no struct_ops for TCP congestion controls".into())
        }
        Some(types) if has(&types, OTHER_EVENT) => {
            let found = "the kernel reports idle times by cwnd_event_tx_start (Linux 7.1)";
            return Check {
                name: "BTF and struct_ops",
                met: Some(false),
                found: found.into(),
                remedy: "use Linux 6.10 to 7.0: the controls do not support this interface".into(),
            };
        }
        Some(_) => (true, "BTF, with struct_ops for TCP congestion controls".into()),
    };
    let remedy =
        "build the kernel with CONFIG_DEBUG_INFO_BTF, CONFIG_BPF_SYSCALL and CONFIG_BPF_JIT";
    Check { name: "BTF and struct_ops", met: Some(met), found, remedy: remedy.into() }
}

/// struct_ops needs compiled programs. Only the initial network namespace shows the setting.
fn jit(enabled: Option<&str>) -> Check {
    let met = enabled.map(|value| value.trim() != "0");
    let found = match met {
        None => "unknown: net.core.bpf_jit_enable is not visible in this network namespace",
        Some(true) => "enabled",
        Some(false) => "disabled",
    };
    let remedy = "set sysctl net.core.bpf_jit_enable=1; it needs CONFIG_BPF_JIT";
    Check { name: "BPF JIT", met, found: found.into(), remedy: remedy.into() }
}

fn bpffs(mounts: &str, pins: &Path) -> Check {
    let name = "BPF file system";
    let above = mounted(mounts, "bpf").filter(|(folder, _)| pins.starts_with(folder));
    let Some((folder, options)) = above.last() else {
        let remedy = "mount one: mount -t bpf bpf /sys/fs/bpf; inside `ip netns exec`, which hides \
                      that of the initial namespace, run the command outside instead";
        let found = format!("no BPF file system is mounted above {}", pins.display());
        return Check { name, met: Some(false), found, remedy: remedy.into() };
    };
    let is_writable = options.split(',').all(|option| option != "ro");
    let state = if is_writable { "mounted" } else { "mounted read-only" };
    Check {
        name,
        met: Some(is_writable),
        found: format!("{state} above {}", pins.display()),
        remedy: format!("make it writable: mount -o remount,rw {folder}"),
    }
}

const CGROUP: &str = "cgroup2";

fn cgroup(mounts: &str) -> Check {
    let folder = mounted(mounts, "cgroup2").next().map(|(folder, _)| folder);
    Check {
        name: CGROUP,
        met: Some(folder.is_some()),
        found: folder.map_or("not mounted".into(), |folder| format!("mounted at {folder}")),
        // A folder of its own: at /sys/fs/cgroup it would hide the hierarchies of version 1.
        remedy:
            "mount it: mkdir -p /run/cgroup2 && mount -t cgroup2 none /run/cgroup2; inside `ip \
                 netns exec`, which hides it, run the command outside instead"
                .into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn capabilities_of_root_and_of_users() {
        assert_eq!(capabilities("CapEff:\t000001ffffffffff\n").met, Some(true));
        let user = capabilities("CapEff:\t0000000000000000\n");
        assert_eq!(user.found, "CAP_NET_ADMIN, CAP_BPF, CAP_PERFMON missing");
        // CAP_SYS_ADMIN and CAP_NET_ADMIN.
        assert_eq!(capabilities("CapEff:\t0000000000201000\n").met, Some(true));
    }

    #[test]
    fn versions_of_kernels() {
        for (release, met) in
            [("6.18.44-fc\n", true), ("6.10", true), ("6.9.3", false), ("7.0", true), ("", false)]
        {
            assert_eq!(kernel(release).met, Some(met), "{release}");
        }
    }

    #[test]
    fn missing_functions_are_named_with_remedies() {
        let no_types = btf(Path::new("/nowhere"));
        assert!(no_types.found.contains("no BTF"), "{no_types:?}");
        let other = btf(Path::new("/proc/self/status"));
        assert!(other.found.contains("no struct_ops"), "{other:?}");
        let later = std::env::temp_dir().join(format!("tidegate-btf-{}", std::process::id()));
        let names = "bpf_struct_ops_tcp_congestion_ops\0cwnd_event_tx_start\0";
        fs::write(&later, names).unwrap();
        let later = (btf(&later), fs::remove_file(&later)).0;
        assert!(later.remedy.contains("Linux 6.10 to 7.0"), "{later:?}");
        let unmounted = bpffs("", Path::new("/sys/fs/bpf/tidegate"));
        assert!(unmounted.remedy.contains("mount -t bpf"), "{unmounted:?}");
        for check in [no_types, other, later, unmounted, cgroup(""), jit(Some("0\n"))] {
            assert_eq!(check.met, Some(false), "{check:?}");
        }
        assert_eq!([jit(Some("1\n")).met, jit(None).met], [Some(true), None]);
        let mounts = "bpf /sys/fs/bpf bpf rw 0 0\ncgroup2 /sys/fs/cgroup cgroup2 rw 0 0\n";
        assert_eq!(bpffs(mounts, Path::new("/sys/fs/bpf/tidegate")).met, Some(true));
        assert_eq!(cgroup(mounts).met, Some(true));
        // The last mount hides the others.
        let read_only = format!("{mounts}bpf /sys/fs/bpf bpf ro,relatime 0 0\n");
        let read_only = bpffs(&read_only, Path::new("/sys/fs/bpf/tidegate"));
        assert_eq!(read_only.met, Some(false), "{read_only:?}");
        assert!(read_only.remedy.contains("remount,rw /sys/fs/bpf"), "{read_only:?}");
    }
}
