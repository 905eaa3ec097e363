//! How much memory this process can use.
//!
//! Owns: reading the limits of the machine, of control groups and of the process. Guarantees: a
//! limit that cannot be read limits nothing. Refuses: to follow a limit that changes later.

use std::fs;
use std::path::{Path, PathBuf};

use rustix::process::{Resource, getrlimit};

/// Control groups inside each other that are looked at.
const GROUPS_MAX: usize = 16;

/// The memory that this process can use, in bytes: the least of what the machine has, what its
/// control groups allow, and what its resource limits leave. Zero if nothing is known.
pub(super) fn usable() -> u64 {
    let machine = kib_field("/proc/meminfo", "MemTotal:");
    let limits = [machine, control_groups(Path::new("/")), resource_limits()];
    limits.into_iter().flatten().min().unwrap_or(0)
}

/// What the limits of the process leave for data.
fn resource_limits() -> Option<u64> {
    let field = |name| kib_field("/proc/self/status", name).unwrap_or(0);
    let (mapped, data) = (field("VmSize:"), field("VmData:"));
    let space = getrlimit(Resource::As).current.map(|limit| left_of(limit, mapped, data));
    space.into_iter().chain(getrlimit(Resource::Data).current).min()
}

/// What a limit on mapped memory leaves for data. Data that is mapped already does not count
/// against it: the allocator reserves a gibibyte at the start, and a node that has loaded a large
/// state can use as much as it could before.
fn left_of(limit: u64, mapped: u64, data: u64) -> u64 {
    limit.saturating_sub(mapped.saturating_sub(data))
}

/// The lowest memory limit of the control groups that this process is in. `root` is for tests.
fn control_groups(root: &Path) -> Option<u64> {
    let groups = fs::read_to_string(root.join("proc/self/cgroup")).ok()?;
    let limits = groups.lines().filter_map(|line| {
        let mut fields = line.splitn(3, ':');
        let (_, controllers, path) = (fields.next()?, fields.next()?, fields.next()?);
        let (folder, file) = match controllers {
            "" => ("sys/fs/cgroup", "memory.max"),
            "memory" => ("sys/fs/cgroup/memory", "memory.limit_in_bytes"),
            _ => return None,
        };
        lowest(&root.join(folder), path.trim_start_matches('/'), file)
    });
    limits.min()
}

/// The lowest limit of a group and of those around it.
fn lowest(folder: &Path, group: &str, file: &str) -> Option<u64> {
    let group: PathBuf = folder.join(group);
    let groups = group.ancestors().take(GROUPS_MAX).take_while(|path| path.starts_with(folder));
    let limit = |path: &Path| fs::read_to_string(path.join(file)).ok()?.trim().parse().ok();
    groups.filter_map(limit).min()
}

/// A field in KiB of a file of the kernel, in bytes.
fn kib_field(path: &str, name: &str) -> Option<u64> {
    let text = fs::read_to_string(path).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1_024)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(root: &Path, path: &str, text: &str) {
        let path = root.join(path);
        fs::create_dir_all(path.parent().expect("it is in a folder")).expect("there is room");
        fs::write(path, text).expect("there is room");
    }

    #[test]
    fn lowest_limit_of_nested_groups_counts() {
        let folder = tempfile::tempdir().expect("there is room");
        let root = folder.path();
        write(root, "proc/self/cgroup", "0::/outer/inner\n");
        write(root, "sys/fs/cgroup/outer/inner/memory.max", "max\n");
        assert_eq!(control_groups(root), None);
        write(root, "sys/fs/cgroup/outer/memory.max", "1000000\n");
        assert_eq!(control_groups(root), Some(1_000_000));
        write(root, "sys/fs/cgroup/outer/inner/memory.max", "3000000\n");
        assert_eq!(control_groups(root), Some(1_000_000));
    }

    #[test]
    fn groups_of_version_1_are_read() {
        let folder = tempfile::tempdir().expect("there is room");
        let root = folder.path();
        write(root, "proc/self/cgroup", "5:cpu:/a\n4:memory:/a\n");
        write(root, "sys/fs/cgroup/memory/a/memory.limit_in_bytes", "7000\n");
        assert_eq!(control_groups(root), Some(7_000));
    }

    #[test]
    fn data_that_is_mapped_already_is_usable() {
        const MIB: u64 = 1 << 20;
        // As with `ulimit -v`: the allocator has reserved almost all of it.
        assert_eq!(left_of(1_228 * MIB, 1_195 * MIB, 1_045 * MIB), 1_078 * MIB);
        assert_eq!(left_of(1_228 * MIB, 1_227 * MIB, 1_077 * MIB), 1_078 * MIB);
        assert_eq!(left_of(100 * MIB, 1_195 * MIB, 20 * MIB), 0);
    }

    #[test]
    fn this_machine_has_memory() {
        assert!(usable() > 0);
    }
}
