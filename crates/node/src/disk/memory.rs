//! A disk in memory, for tests and for the simulator.
//!
//! Owns: for each file what is durable and what was only written, for the directory which names
//! are durable. Guarantees: it does what it is told and nothing at random, so a run can be
//! repeated; a copy of it is cheap, so a test can try every way in which one moment can end.
//! Every operation has a number, from 1 on, at which a fault can be placed.

mod crash;
mod pages;
mod room;

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::{Disk, DiskFile, Space};
use crate::bytes::{to_u64, to_usize};
pub use crash::{Crash, NamesKept, WritesKept};
use pages::Pages;

/// A directory in memory. Clones stand for the same directory; [`MemoryDisk::fork`] copies it.
#[derive(Clone, Default, Debug)]
pub struct MemoryDisk {
    state: Arc<Mutex<State>>,
}

/// A file of a [`MemoryDisk`].
#[derive(Debug)]
pub struct MemoryFile {
    state: Arc<Mutex<State>>,
    inode: u64,
}

/// What goes wrong at an operation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fault {
    /// It fails and does nothing. A sync that fails also forgets what it should have written:
    /// later syncs succeed and do not bring it back, as on Linux.
    Error,
    /// It fails because the disk is full. A write leaves its first half behind.
    NoSpace,
    /// The machine dies in it: the operation is done and not synced, it and all later ones fail.
    /// [`MemoryDisk::crash`] tells what is left.
    Die,
}

/// A write that a crash would put at risk.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct UnsyncedWrite {
    /// Where it begins in its file.
    pub offset: u64,
    /// How many bytes it has.
    pub len: u64,
}

type Names = BTreeMap<String, u64>;

#[derive(Clone, Default, Debug)]
struct State {
    inodes: BTreeMap<u64, Inode>,
    inodes_made: u64,
    names: Names,
    durable_names: Names,
    /// What leads from `durable_names` to `names`.
    changes: Vec<Change>,
    writes_made: u64,
    /// How many bytes all files may have together, if that is bounded.
    capacity: Option<u64>,
    bytes_written: u64,
    refuses_new_files: bool,
    operations: u64,
    faults: BTreeMap<u64, Fault>,
    dead: bool,
}

#[derive(Clone, Default, Debug)]
struct Inode {
    /// What a reader sees.
    live: Pages,
    durable: Pages,
    /// What a sync would make durable, in order of writing.
    unsynced: Vec<Write>,
}

#[derive(Clone, Debug)]
struct Write {
    /// Counts over all files.
    order: u64,
    offset: u64,
    content: Content,
}

#[derive(Clone, Debug)]
enum Content {
    Bytes(Arc<[u8]>),
    Zeros(u64),
}

#[derive(Clone, Debug)]
enum Change {
    Created { name: String, inode: u64 },
    Renamed { from: String, to: String, inode: u64 },
    Removed { name: String },
}

impl MemoryDisk {
    /// An empty directory.
    #[must_use]
    pub fn new() -> MemoryDisk {
        MemoryDisk::default()
    }

    /// Another disk that is in the same state.
    #[must_use]
    pub fn fork(&self) -> MemoryDisk {
        MemoryDisk { state: Arc::new(Mutex::new(self.state().clone())) }
    }

    /// The disk as it comes back after a power cut now. This one stays as it is, so that one
    /// moment can end in several ways. Operations are counted anew, and faults are forgotten.
    #[must_use]
    pub fn crash(&self, how: Crash) -> MemoryDisk {
        let mut state = self.state().clone();
        crash::crash(&mut state, how);
        MemoryDisk { state: Arc::new(Mutex::new(state)) }
    }

    /// The disk as the next process finds it if only this one was killed: all that was written can
    /// be read, and what was not synced still is not. Operations are counted anew, and faults are
    /// forgotten.
    #[must_use]
    pub fn kill(&self) -> MemoryDisk {
        let mut state = self.state().clone();
        state.start_again();
        MemoryDisk { state: Arc::new(Mutex::new(state)) }
    }

    /// How many operations there have been.
    #[must_use]
    pub fn operations(&self) -> u64 {
        self.state().operations
    }

    /// Makes the operation of this number go wrong.
    pub fn fail_at(&self, operation: u64, fault: Fault) {
        self.state().faults.insert(operation, fault);
    }

    /// The writes that a crash would put at risk, in order. [`WritesKept`] counts them.
    #[must_use]
    pub fn unsynced(&self) -> Vec<UnsyncedWrite> {
        let state = self.state();
        let mut writes: Vec<&Write> =
            state.inodes.values().flat_map(|file| &file.unsynced).collect();
        writes.sort_by_key(|write| write.order);
        let shown =
            |write: &&Write| UnsyncedWrite { offset: write.offset, len: write.content.len() };
        writes.iter().map(shown).collect()
    }

    /// How many changes of names a crash would put at risk. [`NamesKept`] counts them.
    #[must_use]
    pub fn unsynced_names(&self) -> usize {
        self.state().changes.len()
    }

    /// What a file holds.
    #[must_use]
    pub fn contents(&self, name: &str) -> Option<Vec<u8>> {
        let state = self.state();
        let live = &state.inodes.get(state.names.get(name)?)?.live;
        let mut bytes = vec![0; to_usize(live.len())];
        live.read(0, &mut bytes)?;
        Some(bytes)
    }

    /// Puts a file there as if it had always been there.
    pub fn put(&self, name: &str, bytes: &[u8]) {
        let mut state = self.state();
        state.inodes_made += 1;
        let inode = state.inodes_made;
        let mut pages = Pages::default();
        pages.write(0, bytes);
        let file = Inode { live: pages.clone(), durable: pages, unsynced: Vec::new() };
        state.inodes.insert(inode, file);
        state.names.insert(name.to_owned(), inode);
        state.durable_names.insert(name.to_owned(), inode);
    }

    /// Turns one bit of a file round, as a bad disk does. `false` if there is no such byte.
    pub fn flip(&self, name: &str, offset: u64, bit: u32) -> bool {
        let mut state = self.state();
        let Some(inode) = state.names.get(name).copied() else {
            return false;
        };
        let Some(file) = state.inodes.get_mut(&inode) else {
            return false;
        };
        let mut found = false;
        for pages in [&mut file.live, &mut file.durable] {
            let mut byte = [0];
            if pages.read(offset, &mut byte).is_some() {
                pages.write(offset, &[byte[0] ^ 1 << (bit % 8)]);
                found = true;
            }
        }
        found
    }

    fn state(&self) -> MutexGuard<'_, State> {
        guard(&self.state)
    }

    /// Changes names, unless a fault stands in the way.
    fn change(&self, make: impl FnOnce(&mut State) -> io::Result<Change>) -> io::Result<()> {
        let mut state = self.state();
        let fault = state.begin()?;
        if let Some(Fault::Error | Fault::NoSpace) = fault {
            return fail(fault);
        }
        let change = make(&mut state)?;
        change.apply(&mut state.names);
        state.changes.push(change);
        fail(fault)
    }

    fn file(&self, inode: u64) -> MemoryFile {
        MemoryFile { state: Arc::clone(&self.state), inode }
    }
}

/// A panic elsewhere leaves the state whole: every operation changes it in steps that cannot
/// panic half-way.
fn guard(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

fn fail(fault: Option<Fault>) -> io::Result<()> {
    match fault {
        None => Ok(()),
        Some(Fault::Error) => Err(io::Error::other("the simulated disk failed")),
        Some(Fault::NoSpace) => Err(io::ErrorKind::StorageFull.into()),
        Some(Fault::Die) => Err(io::Error::other("the simulated machine died")),
    }
}

impl State {
    /// Counts an operation. Fails if the machine is dead.
    fn begin(&mut self) -> io::Result<Option<Fault>> {
        if self.dead {
            return Err(io::Error::other("the simulated machine is dead"));
        }
        self.operations += 1;
        let fault = self.faults.remove(&self.operations);
        self.dead = fault == Some(Fault::Die);
        Ok(fault)
    }

    fn start_again(&mut self) {
        self.operations = 0;
        self.faults.clear();
        self.dead = false;
    }

    fn inode(&self, name: &str) -> io::Result<u64> {
        self.names.get(name).copied().ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn write(&mut self, inode: u64, offset: u64, content: Content) {
        self.bytes_written += content.len();
        self.writes_made += 1;
        let order = self.writes_made;
        let file = self.inodes.entry(inode).or_default();
        content.put(&mut file.live, offset);
        file.unsynced.push(Write { order, offset, content });
    }
}

impl Content {
    fn len(&self) -> u64 {
        match self {
            Content::Bytes(bytes) => to_u64(bytes.len()),
            Content::Zeros(len) => *len,
        }
    }

    fn put(&self, pages: &mut Pages, offset: u64) {
        match self {
            Content::Bytes(bytes) => pages.write(offset, bytes),
            Content::Zeros(len) => pages.write_zeros(offset, *len),
        }
    }
}

impl Disk for MemoryDisk {
    type File = MemoryFile;

    fn list(&self) -> io::Result<Vec<String>> {
        let mut state = self.state();
        fail(state.begin()?)?;
        Ok(state.names.keys().cloned().collect())
    }

    fn create(&self, name: &str) -> io::Result<MemoryFile> {
        let mut made = 0;
        self.change(|state| {
            if state.names.contains_key(name) {
                return Err(io::ErrorKind::AlreadyExists.into());
            }
            if state.refuses_new_files {
                return Err(rustix::io::Errno::MFILE.into());
            }
            state.inodes_made += 1;
            made = state.inodes_made;
            state.inodes.insert(made, Inode::default());
            Ok(Change::Created { name: name.to_owned(), inode: made })
        })?;
        Ok(self.file(made))
    }

    fn open(&self, name: &str) -> io::Result<MemoryFile> {
        let mut state = self.state();
        fail(state.begin()?)?;
        let inode = state.inode(name)?;
        drop(state);
        Ok(self.file(inode))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.change(|state| {
            let inode = state.inode(from)?;
            Ok(Change::Renamed { from: from.to_owned(), to: to.to_owned(), inode })
        })
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.change(|state| {
            state.inode(name)?;
            Ok(Change::Removed { name: name.to_owned() })
        })
    }

    fn sync_dir(&self) -> io::Result<()> {
        let mut state = self.state();
        fail(state.begin()?)?;
        state.durable_names = state.names.clone();
        state.changes.clear();
        Ok(())
    }

    fn space(&self) -> io::Result<Option<Space>> {
        Ok(self.state().space())
    }
}

impl DiskFile for MemoryFile {
    fn size(&self) -> io::Result<u64> {
        let mut state = guard(&self.state);
        fail(state.begin()?)?;
        Ok(state.inodes.get(&self.inode).map_or(0, |file| file.live.len()))
    }

    fn read_at(&self, offset: u64, into: &mut [u8]) -> io::Result<()> {
        let mut state = guard(&self.state);
        fail(state.begin()?)?;
        let file = state.inodes.get(&self.inode).ok_or(io::ErrorKind::NotFound)?;
        file.live.read(offset, into).ok_or_else(|| io::ErrorKind::UnexpectedEof.into())
    }

    fn write_at(&mut self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let mut state = guard(&self.state);
        let fault = state.begin()?;
        let (written, fault) = state.fit(self.inode, offset, to_u64(bytes.len()), fault);
        if written > 0 {
            let written = &bytes[..to_usize(written)];
            state.write(self.inode, offset, Content::Bytes(written.into()));
        }
        fail(fault)
    }

    fn reserve(&self, offset: u64, len: u64) -> io::Result<()> {
        let state = guard(&self.state);
        match state.has_room(self.inode, offset, len) {
            true => Ok(()),
            false => Err(io::ErrorKind::StorageFull.into()),
        }
    }

    fn write_zeros(&mut self, offset: u64, len: u64) -> io::Result<()> {
        let mut state = guard(&self.state);
        let fault = state.begin()?;
        let (written, fault) = state.fit(self.inode, offset, len, fault);
        if written > 0 {
            state.write(self.inode, offset, Content::Zeros(written));
        }
        fail(fault)
    }

    fn sync_data(&mut self) -> io::Result<()> {
        let mut state = guard(&self.state);
        let fault = state.begin()?;
        let file = state.inodes.entry(self.inode).or_default();
        match fault {
            None => {
                for write in file.unsynced.drain(..) {
                    write.content.put(&mut file.durable, write.offset);
                }
            }
            Some(Fault::Error | Fault::NoSpace) => file.unsynced.clear(),
            Some(Fault::Die) => {}
        }
        fail(fault)
    }
}
