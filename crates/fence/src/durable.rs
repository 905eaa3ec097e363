//! What makes files durable.
//!
//! Owns: every sync of this crate, in one place, so that tests can see which ones were made.

use std::fs::File;
use std::io;
use std::path::Path;

/// Makes the contents of a file durable.
pub(crate) fn sync_data(file: &File) -> io::Result<()> {
    file.sync_data()?;
    note(Synced::File);
    Ok(())
}

/// Makes the contents of a file and all that is known of it durable.
pub(crate) fn sync_all(file: &File) -> io::Result<()> {
    file.sync_all()?;
    note(Synced::File);
    Ok(())
}

/// Makes the name of a file durable.
pub(crate) fn sync_folder_of(path: &Path) -> io::Result<()> {
    let folder = match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    File::open(folder)?.sync_all()?;
    note(Synced::Folder);
    Ok(())
}

/// What was synced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Synced {
    /// The contents of a file.
    File,
    /// The names in a folder.
    Folder,
}

#[cfg(not(test))]
fn note(_: Synced) {}

#[cfg(test)]
thread_local! {
    static SYNCED: std::cell::RefCell<Vec<Synced>> = const { std::cell::RefCell::new(Vec::new()) };
}

#[cfg(test)]
fn note(synced: Synced) {
    SYNCED.with_borrow_mut(|all| all.push(synced));
}

/// What this thread has synced, in order.
#[cfg(test)]
pub(crate) fn synced() -> Vec<Synced> {
    SYNCED.with_borrow(Clone::clone)
}
