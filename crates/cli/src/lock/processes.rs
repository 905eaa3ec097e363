//! The processes below one process, and those of a group, as the kernel lists them.
//!
//! Owns: reading `/proc`. Guarantees: what is said about a process was true at one moment; it may
//! have ended since. A process that cannot be read does not hide the others. That none is left is
//! only said if none can have been missed: a caller that takes a process for gone gives its lock
//! away. Refuses: a cost that others decide. What is below a process is found from its children, so
//! that the number of other processes on the machine does not matter; all processes are read only
//! where the kernel has no lists of children, and to explain a group that is there without a
//! descendant in it.

use std::collections::{HashMap, HashSet};
use std::path::PathBuf;
use std::{fs, io};

use rustix::io::Errno;
use rustix::process::{Pid, Signal, getpid};

use super::process::{Process, parse};

/// How often descendants are listed before it is left open whether there are any: each time that all
/// of them have ended meanwhile, they may have left others behind.
const PASSES_MAX: u32 = 8;

/// The kernel's list of processes.
#[derive(Clone, Debug)]
pub(crate) struct ProcFs {
    root: PathBuf,
    lists_children: bool,
}

/// Those that were found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Found {
    pub(crate) processes: Vec<Process>,
    /// Whether there may be others.
    pub(crate) may_lack_some: bool,
}

/// What a look at one process says.
enum Look {
    At(Process),
    Ended,
    /// It cannot be read now, for want of memory or descriptors.
    Failed,
}

impl ProcFs {
    /// That of this system. An error if it lists other processes than those that can be signalled:
    /// numbers mean other processes there.
    pub(crate) fn open() -> io::Result<ProcFs> {
        let root = PathBuf::from("/proc");
        let own = fs::read_link(root.join("self"))?;
        if own.to_str() != Some(&getpid().as_raw_pid().to_string()) {
            return Err(io::Error::other("/proc belongs to another pid namespace"));
        }
        let lists_children = root.join("thread-self/children").exists();
        Ok(ProcFs { root, lists_children })
    }

    /// Nothing if there is no such process, or it may not be read.
    pub(crate) fn process(&self, pid: Pid) -> Option<Process> {
        match self.look(pid) {
            Look::At(process) if process.stat.is_some() => Some(process),
            _ => None,
        }
    }

    /// Everything that runs below `root`, without those in `spare` and all that is below them.
    pub(crate) fn below(&self, root: Pid, spare: &[Pid]) -> Found {
        if !self.lists_children {
            let mut found = self.all().below(root, spare);
            found.processes.retain(Process::is_alive);
            return found;
        }
        let mut known_dead = HashSet::new();
        for _ in 0..PASSES_MAX {
            let mut pass = self.pass(root, spare);
            pass.found.processes.retain(Process::is_alive);
            // What ends hands its children to a process above it before it counts as ended. So if
            // all that were listed had ended before they were listed, nothing was handed on since.
            if !pass.found.processes.is_empty() || pass.dead.is_subset(&known_dead) {
                return pass.found;
            }
            known_dead = pass.dead;
        }
        Found { processes: Vec::new(), may_lack_some: true }
    }

    /// Those of a process group that still run. This reads every process.
    pub(crate) fn alive_in_group(&self, group: Pid) -> Found {
        let mut all = self.all();
        all.processes.retain(|one| one.is_in_group(group) && one.is_alive());
        all
    }

    /// Sends a signal, and not to a later process of the same number.
    pub(crate) fn signal(&self, to: &Process, signal: Signal) {
        to.signal_if(signal, || match to.stat {
            Some(then) => self.process(to.pid).is_some_and(|now| now.is_same(&then)),
            // It cannot be read, but its parent can.
            None => to.listed_by.is_some_and(|parent| {
                self.children(parent).is_ok_and(|children| children.contains(&to.pid))
            }),
        });
    }

    /// Goes through the children of `root`, theirs and so on, once.
    fn pass(&self, root: Pid, spare: &[Pid]) -> Pass {
        let mut pass = Pass::default();
        let mut seen: HashSet<Pid> = spare.iter().copied().chain([root]).collect();
        let mut parents = vec![root];
        while let Some(parent) = parents.pop() {
            let children = self.children(parent);
            pass.found.may_lack_some |= children.is_err();
            for child in children.unwrap_or_default() {
                if !seen.insert(child) {
                    continue;
                }
                match self.look(child) {
                    Look::At(process) => {
                        let process = Process { listed_by: Some(parent), ..process };
                        if process.is_alive() {
                            parents.push(child);
                        } else {
                            pass.dead.insert(child);
                        }
                        pass.found.processes.push(process);
                    }
                    Look::Ended => drop(pass.dead.insert(child)),
                    Look::Failed => pass.found.may_lack_some = true,
                }
            }
        }
        pass
    }

    /// The children of all threads of a process. None if it has ended or may not be looked into.
    fn children(&self, parent: Pid) -> io::Result<Vec<Pid>> {
        let mut found = Vec::new();
        let tasks = self.path(parent).join("task");
        let Some(threads) = unless_hidden(fs::read_dir(tasks))? else { return Ok(found) };
        for thread in threads {
            let Some(thread) = unless_hidden(thread)? else { break };
            let list = unless_hidden(fs::read(thread.path().join("children")))?;
            let list = list.unwrap_or_default();
            let numbers = list.split(u8::is_ascii_whitespace).filter_map(pid);
            found.extend(numbers);
        }
        Ok(found)
    }

    /// All processes, read one after the other: it is not a picture of one moment.
    fn all(&self) -> Found {
        let mut found = Found::default();
        let Ok(entries) = fs::read_dir(&self.root) else {
            found.may_lack_some = true;
            return found;
        };
        for entry in entries {
            let Ok(entry) = entry else {
                found.may_lack_some = true;
                break;
            };
            let Some(pid) = pid(entry.file_name().as_encoded_bytes()) else { continue };
            match self.look(pid) {
                Look::At(process) => found.processes.push(process),
                Look::Ended => {}
                Look::Failed => found.may_lack_some = true,
            }
        }
        found
    }

    fn look(&self, pid: Pid) -> Look {
        let unseen = Process { pid, stat: None, listed_by: None };
        match fs::read(self.path(pid).join("stat")) {
            Ok(line) => {
                let stat = parse(&line).filter(|(read, _)| *read == pid).map(|(_, stat)| stat);
                Look::At(Process { pid, stat, listed_by: None })
            }
            Err(error) => match Errno::from_io_error(&error) {
                // With hidepid=2, what may not be read looks as if it were not there.
                Some(Errno::NOENT | Errno::SRCH) if !unseen.is_alive() => Look::Ended,
                Some(Errno::NOENT | Errno::SRCH | Errno::PERM | Errno::ACCESS) => Look::At(unseen),
                _ => Look::Failed,
            },
        }
    }

    /// Whether nothing could continue the process group of `pid` if it were stopped: no parent of it
    /// stands outside the group and inside the session, as a shell with job control does.
    pub(crate) fn is_orphaned(&self, pid: Pid) -> bool {
        let stat_of = |pid: i32| self.process(pid_of(pid)?)?.stat;
        let Some(own) = stat_of(pid.as_raw_pid()) else { return true };
        let mut one = own;
        while let Some(parent) = stat_of(one.parent) {
            if parent.group != own.group {
                return parent.session != own.session;
            }
            one = parent;
        }
        true
    }

    fn path(&self, pid: Pid) -> PathBuf {
        self.root.join(pid.as_raw_pid().to_string())
    }
}

/// What one way through the family has met.
#[derive(Debug, Default)]
struct Pass {
    found: Found,
    dead: HashSet<Pid>,
}

impl Found {
    /// Everything below `root` in a list of all processes, without those in `spare` and all that is
    /// below them. It costs as much as there are processes, however they are related.
    fn below(&self, root: Pid, spare: &[Pid]) -> Found {
        let mut families: HashMap<i32, Vec<&Process>> = HashMap::new();
        for one in &self.processes {
            if let Some(stat) = one.stat {
                families.entry(stat.parent).or_default().push(one);
            }
        }
        // The list was not read in one moment: a number may stand in it twice.
        let mut seen: HashSet<Pid> = spare.iter().copied().collect();
        let mut found = Found { processes: Vec::new(), may_lack_some: self.may_lack_some };
        let mut parents = vec![root.as_raw_pid()];
        while let Some(parent) = parents.pop() {
            for child in families.remove(&parent).unwrap_or_default() {
                if seen.insert(child.pid) {
                    found.processes.push(*child);
                    parents.push(child.pid.as_raw_pid());
                }
            }
        }
        found
    }
}

/// What was read, unless it is gone or may not be read.
fn unless_hidden<T>(read: io::Result<T>) -> io::Result<Option<T>> {
    match read {
        Ok(read) => Ok(Some(read)),
        Err(error) => match Errno::from_io_error(&error) {
            Some(Errno::NOENT | Errno::SRCH | Errno::PERM | Errno::ACCESS) => Ok(None),
            _ => Err(error),
        },
    }
}

/// A number of a process, as the kernel writes it.
fn pid(text: &[u8]) -> Option<Pid> {
    pid_of(std::str::from_utf8(text).ok()?.parse().ok()?)
}

fn pid_of(number: i32) -> Option<Pid> {
    if number > 0 { Pid::from_raw(number) } else { None }
}

#[cfg(test)]
mod tests {
    use rustix::process::getpgrp;

    use super::super::process::made;
    use super::*;

    fn pids(found: &Found) -> Vec<i32> {
        let mut pids: Vec<i32> = found.processes.iter().map(|one| one.pid.as_raw_pid()).collect();
        pids.sort_unstable();
        pids
    }

    /// A folder like `/proc`, with numbers that no process of this system has.
    struct Folder(tempfile::TempDir);

    impl Folder {
        fn make() -> Folder {
            Folder(tempfile::tempdir().expect("a folder"))
        }

        fn add(&self, pid: u32, stat: &[u8], children: &str) {
            let folder = self.0.path().join(pid.to_string());
            let task = folder.join("task").join(pid.to_string());
            fs::create_dir_all(&task).expect("it is empty");
            fs::write(folder.join("stat"), stat).expect("it is there");
            fs::write(task.join("children"), children).expect("it is there");
        }

        fn open(&self, lists_children: bool) -> ProcFs {
            ProcFs { root: self.0.path().to_owned(), lists_children }
        }
    }

    fn stat(pid: u32, name: &[u8], state: &str, parent: u32) -> Vec<u8> {
        let rest = format!(") {state} {parent} 8 9 0 -1 1 2 3 4 5 6 7 8 9 20 0 1 0 5555 1 2\n");
        [format!("{pid} (").as_bytes(), name, rest.as_bytes()].concat()
    }

    const ROOT: u32 = 2_000_000_001;

    fn family() -> Folder {
        let folder = Folder::make();
        let (child, dead, spare, grandchild) = (ROOT + 1, ROOT + 2, ROOT + 3, ROOT + 4);
        let children = format!("{child} {dead} {spare} ");
        folder.add(ROOT, &stat(ROOT, b"root", "S", 1), &children);
        folder.add(child, &stat(child, b"a\nb) S 1", "S", ROOT), &format!("{grandchild} "));
        folder.add(dead, &stat(dead, b"dead", "Z", ROOT), "");
        folder.add(spare, &stat(spare, b"spare", "S", ROOT), &format!("{} ", ROOT + 5));
        folder.add(grandchild, &stat(grandchild, b"\xd0\xbf\xd0", "S", child), "");
        folder.add(ROOT + 5, &stat(ROOT + 5, b"below spare", "S", spare), "");
        folder
    }

    fn raw(pid: u32) -> Pid {
        Pid::from_raw(i32::try_from(pid).expect("it fits")).expect("not zero")
    }

    #[test]
    fn descendants_are_found_with_and_without_lists_of_children() {
        let folder = family();
        for lists_children in [true, false] {
            let found = folder.open(lists_children).below(raw(ROOT), &[raw(ROOT + 3)]);
            assert_eq!(pids(&found), [2_000_000_002, 2_000_000_005], "{lists_children}");
            assert!(!found.may_lack_some);
        }
    }

    #[test]
    fn processes_that_are_not_below_are_not_even_read() {
        let folder = family();
        // Reading these would fail.
        for pid in 2_000_100_000..2_000_101_000_u32 {
            let stat = folder.0.path().join(pid.to_string()).join("stat");
            fs::create_dir_all(stat).expect("it is not there");
        }
        let found = folder.open(true).below(raw(ROOT), &[]);
        assert_eq!((found.processes.len(), found.may_lack_some), (4, false));
        let found = folder.open(false).below(raw(ROOT), &[]);
        assert_eq!((found.processes.len(), found.may_lack_some), (4, true));
    }

    #[test]
    fn what_cannot_be_read_hides_no_other() {
        let folder = family();
        let child = ROOT + 1;
        fs::write(folder.0.path().join(child.to_string()).join("stat"), b"\xff").expect("there");
        let found = folder.open(false).below(raw(ROOT), &[]);
        assert_eq!(pids(&found), [2_000_000_004, 2_000_000_006]);
    }

    #[test]
    fn this_process_is_found() {
        let system = ProcFs::open().expect("it is mounted");
        let own = system.process(getpid()).expect("it runs");
        assert!(own.is_alive() && own.is_in_group(getpgrp()));
        let group = system.alive_in_group(getpgrp());
        assert!(group.processes.iter().any(|one| one.pid == getpid()));
    }

    #[test]
    fn a_child_and_a_grandchild_are_found() {
        let mut child = std::process::Command::new("sh");
        child.args(["-c", "sleep 600 & echo $!; wait"]).stdout(std::process::Stdio::piped());
        let mut child = child.spawn().expect("it can be run");
        let mut line = String::new();
        let out = child.stdout.take().expect("it is piped");
        io::BufRead::read_line(&mut io::BufReader::new(out), &mut line).expect("it is written");
        let grandchild: i32 = line.trim().parse().expect("a number");
        let mut wanted = [Pid::from_child(&child).as_raw_pid(), grandchild];
        wanted.sort_unstable();
        let system = ProcFs::open().expect("it is mounted");
        for lists_children in [system.lists_children, false] {
            let system = ProcFs { lists_children, ..system.clone() };
            let found = system.below(getpid(), &[]);
            let met = |pid: &i32| found.processes.iter().any(|one| one.pid.as_raw_pid() == *pid);
            assert!(wanted.iter().all(met), "{found:?}");
            assert_eq!(pids(&system.below(Pid::from_child(&child), &[])), [grandchild]);
        }
        for one in system.below(getpid(), &[]).processes {
            if wanted.contains(&one.pid.as_raw_pid()) {
                system.signal(&one, Signal::KILL);
            }
        }
        assert!(!child.wait().expect("it is a child").success());
    }

    #[test]
    fn numbers_that_are_used_again_lead_in_no_circle() {
        let all = vec![
            made(10, 1),
            made(11, 10),
            made(12, 11),
            made(13, 10),
            made(14, 13),
            made(15, 1),
            // Read twice, and its own parent: numbers are used again while the list is read.
            made(11, 12),
            made(16, 16),
        ];
        let all = Found { processes: all, may_lack_some: false };
        assert_eq!(pids(&all.below(raw(10), &[raw(13)])), [11, 12]);
    }
}
