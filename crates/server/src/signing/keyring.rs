//! The secret keys of this member, one file each.
//!
//! Owns: the folder `signing` in the data directory. The files are numbered in the order in which
//! the keys were made. Guarantees: a key is on the disk, and readable by its owner alone, before
//! anybody hears of it. Refuses: a file that others may read, or that is no key, so that an operator
//! looks at it; a node that made itself a new key instead would hide a leak.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use fencepost_core::PublicKey;
use fencepost_fence::signed::{KeyError, Signer};

/// The folder of the keys.
const FOLDER: &str = "signing";
/// What the name of a key's file ends with.
const ENDING: &str = "key";

/// The secret keys of this member.
pub(super) struct Keyring {
    /// Where they are. A node without a directory keeps them in memory.
    folder: Option<PathBuf>,
    held: Mutex<Vec<Held>>,
}

#[derive(Clone)]
struct Held {
    number: u64,
    signer: Arc<Signer>,
}

impl Keyring {
    /// Reads the keys in a data directory. If there is none, one is made when it is published: to find
    /// good random numbers takes longer than all else about the start of a node.
    pub(super) fn open(home: Option<&Path>) -> Result<Keyring, KeyError> {
        let folder = home.map(|home| home.join(FOLDER));
        let mut held = Vec::new();
        if let Some(folder) = &folder {
            for number in numbers(folder)? {
                let signer = Arc::new(Signer::open(file(folder, number))?);
                held.push(Held { number, signer });
            }
        }
        Ok(Keyring { folder, held: Mutex::new(held) })
    }

    fn held(&self) -> MutexGuard<'_, Vec<Held>> {
        // Nothing panics while it is held, so it is never left half changed.
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes a key. Writes a file, so it takes a moment.
    pub(super) fn make(&self) -> Result<(), KeyError> {
        let number = self.held().last().map_or(1, |last| last.number + 1);
        let signer = match &self.folder {
            Some(folder) => Signer::open(file(folder, number))?,
            None => Signer::in_memory()?,
        };
        self.held().push(Held { number, signer: Arc::new(signer) });
        Ok(())
    }

    /// Forgets a key that will never sign again.
    pub(super) fn forget(&self, key: PublicKey) -> io::Result<()> {
        let found = self.held().iter().find(|held| public(&held.signer) == key).cloned();
        let Some(found) = found else { return Ok(()) };
        if let Some(folder) = &self.folder {
            fs::remove_file(file(folder, found.number))?;
        }
        self.held().retain(|held| held.number != found.number);
        Ok(())
    }

    /// The public halves, in the order in which they were made.
    pub(super) fn keys(&self) -> Vec<PublicKey> {
        self.held().iter().map(|held| public(&held.signer)).collect()
    }

    /// The first key for which this is true.
    pub(super) fn find(&self, is_meant: impl Fn(&PublicKey) -> bool) -> Option<Arc<Signer>> {
        let held = self.held();
        let found = held.iter().find(|held| is_meant(&public(&held.signer)));
        found.map(|held| Arc::clone(&held.signer))
    }
}

fn public(signer: &Signer) -> PublicKey {
    PublicKey(signer.public_bytes())
}

fn file(folder: &Path, number: u64) -> PathBuf {
    folder.join(format!("{number:06}.{ENDING}"))
}

/// The numbers of the files in the folder, which is made if it is not there.
fn numbers(folder: &Path) -> Result<Vec<u64>, KeyError> {
    let failed = |error| KeyError::Io { path: folder.to_owned(), error };
    make_folder(folder).map_err(failed)?;
    let mut numbers = Vec::new();
    for entry in fs::read_dir(folder).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        // A draft that was never finished ends otherwise.
        if path.extension().is_some_and(|ending| ending == ENDING) {
            let number = path.file_stem().and_then(|stem| stem.to_str()?.parse().ok());
            numbers.push(number.ok_or(KeyError::Malformed(path))?);
        }
    }
    numbers.sort_unstable();
    Ok(numbers)
}

fn make_folder(folder: &Path) -> io::Result<()> {
    let mut builder = fs::DirBuilder::new();
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    match builder.create(folder) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        Err(error) => Err(error),
        // Its name must be as durable as what is in it.
        Ok(()) => folder.parent().map_or(Ok(()), |home| fs::File::open(home)?.sync_all()),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};

    use super::*;

    #[test]
    fn a_key_is_made_once_and_only_for_its_owner() {
        let home = tempfile::tempdir().expect("there is room");
        let ring = Keyring::open(Some(home.path())).expect("the folder is new");
        assert!(ring.keys().is_empty());
        ring.make().expect("there is room");
        let made = ring.keys();
        assert_eq!(made.len(), 1);
        let path = home.path().join("signing/000001.key");
        let mode = |path: &Path| fs::metadata(path).expect("it is there").mode() & 0o777;
        assert_eq!((mode(&path), mode(&home.path().join("signing"))), (0o600, 0o700));
        let again = Keyring::open(Some(home.path())).expect("it was made");
        assert_eq!(again.keys(), made);
        again.make().expect("there is room");
        assert_eq!(again.keys().len(), 2);
        assert_eq!(mode(&home.path().join("signing/000002.key")), 0o600);
        again.forget(made[0]).expect("it is there");
        assert!(!path.exists());
        assert_eq!(Keyring::open(Some(home.path())).expect("one is left").keys(), again.keys());
    }

    #[test]
    fn a_file_that_others_may_read_or_that_is_damaged_is_refused() {
        let home = tempfile::tempdir().expect("there is room");
        let ring = Keyring::open(Some(home.path())).expect("the folder is new");
        ring.make().expect("there is room");
        let path = home.path().join("signing/000001.key");
        let open = |mode| {
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).expect("it is ours");
            Keyring::open(Some(home.path())).map(|ring| ring.keys().len())
        };
        for mode in [0o640, 0o604, 0o644] {
            let told = open(mode).expect_err("others may read it").to_string();
            assert!(told.contains("chmod 600"), "{told}");
        }
        assert_eq!(open(0o600).expect("nobody may"), 1);
        let whole = fs::read(&path).expect("it is there");
        for spoilt in [&whole[..whole.len() / 2], b"", b"no key at all"] {
            fs::write(&path, spoilt).expect("it is ours");
            let told = open(0o600).expect_err("it is no key").to_string();
            assert!(told.contains("is no Ed25519 key"), "{told}");
        }
        // A draft that a crash has left is nothing.
        fs::write(&path, &whole).expect("it is ours");
        fs::write(home.path().join("signing/000002.key.new"), b"half").expect("there is room");
        let ring = Keyring::open(Some(home.path())).expect("one is whole");
        ring.make().expect("the draft is not in the way");
        assert_eq!(ring.keys().len(), 2);
    }
}
