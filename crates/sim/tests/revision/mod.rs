//! Which revision of the sources is tested, as a number from which the fresh seeds begin.
//!
//! Guarantees: it changes with every commit, in a checkout and in a worktree of it; where there is no
//! git, it changes with the sources.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// How many hexadecimal digits of a hash make the number. The seeds of one run count in the bits below.
const DIGITS: usize = 12;

/// The first of the fresh seeds.
pub(crate) fn first_fresh_seed(root: &Path) -> u64 {
    let number = |hash: &str| u64::from_str_radix(hash.get(..DIGITS)?, 16).ok();
    let revision = commit(root).as_deref().and_then(number);
    let revision = revision.or_else(|| number(&digest(root)));
    revision.expect("the digest is hexadecimal") << 8
}

/// The commit that is checked out, read from where git keeps it.
fn commit(root: &Path) -> Option<String> {
    let git = git_folder(root)?;
    let head = fs::read_to_string(git.join("HEAD")).ok()?;
    let Some(name) = head.trim().strip_prefix("ref: ") else { return Some(head) };
    // The branches of a worktree are those of the repository that it belongs to.
    let shared = match fs::read_to_string(git.join("commondir")) {
        Ok(path) => git.join(path.trim()),
        Err(_) => git,
    };
    let packed = || {
        let refs = fs::read_to_string(shared.join("packed-refs")).ok()?;
        let line = refs.lines().find(|line| line.ends_with(&format!(" {name}")))?;
        Some(line.to_owned())
    };
    fs::read_to_string(shared.join(name)).ok().or_else(packed)
}

/// In a worktree, `.git` is a file that names the folder.
fn git_folder(root: &Path) -> Option<PathBuf> {
    let git = root.join(".git");
    match fs::read_to_string(&git) {
        Ok(text) => Some(root.join(text.trim().strip_prefix("gitdir: ")?)),
        Err(_) => git.is_dir().then_some(git),
    }
}

/// A hash of all sources, which need no git.
fn digest(root: &Path) -> String {
    let mut hasher = blake3::Hasher::new();
    hash_folder(&root.join("crates"), &mut hasher).expect("the sources can be read");
    hasher.finalize().to_hex().to_string()
}

fn hash_folder(folder: &Path, hasher: &mut blake3::Hasher) -> io::Result<()> {
    let entries: io::Result<Vec<PathBuf>> =
        fs::read_dir(folder)?.map(|entry| Ok(entry?.path())).collect();
    let mut paths = entries?;
    paths.sort();
    for path in paths {
        if path.is_dir() {
            hash_folder(&path, hasher)?;
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            hasher.update(path.file_name().unwrap_or_default().as_encoded_bytes());
            hasher.update(&fs::read(&path)?);
        }
    }
    Ok(())
}

/// An empty folder of this name.
fn folder(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    // An earlier run may have left it.
    fs::remove_dir_all(&folder).ok();
    fs::create_dir_all(folder.join("crates")).expect("the folder is ours");
    folder
}

fn write(path: PathBuf, text: &str) {
    fs::create_dir_all(path.parent().expect("it lies in a folder")).expect("the folder is ours");
    fs::write(path, text).expect("the folder is ours");
}

const COMMIT: &str = "0123456789abcdef0123456789abcdef01234567\n";
const SEED: u64 = 0x0123_4567_89ab << 8;

#[test]
fn a_checkout_gives_the_commit() {
    let root = folder("checkout");
    write(root.join(".git/HEAD"), "ref: refs/heads/main\n");
    write(root.join(".git/refs/heads/main"), COMMIT);
    assert_eq!(first_fresh_seed(&root), SEED);
    fs::remove_file(root.join(".git/refs/heads/main")).expect("it is ours");
    let packed = format!("# packed\n{} refs/heads/main\n", COMMIT.trim());
    write(root.join(".git/packed-refs"), &packed);
    assert_eq!(first_fresh_seed(&root), SEED);
    write(root.join(".git/HEAD"), COMMIT);
    assert_eq!(first_fresh_seed(&root), SEED);
}

#[test]
fn a_worktree_gives_the_commit() {
    let root = folder("worktree");
    write(root.join(".git"), "gitdir: repository/worktrees/here\n");
    let own = root.join("repository/worktrees/here");
    write(own.join("HEAD"), "ref: refs/heads/topic\n");
    write(own.join("commondir"), "../..\n");
    write(root.join("repository/refs/heads/topic"), COMMIT);
    assert_eq!(first_fresh_seed(&root), SEED);
}

#[test]
fn sources_without_git_give_their_own_seed() {
    let root = folder("tarball");
    write(root.join("crates/a/src/lib.rs"), "one");
    let one = first_fresh_seed(&root);
    assert_eq!(first_fresh_seed(&root), one);
    write(root.join("crates/a/src/lib.rs"), "two");
    assert_ne!(first_fresh_seed(&root), one);
    // A reference that cannot be followed is no commit.
    write(root.join(".git/HEAD"), "ref: refs/heads/.invalid\n");
    assert_ne!(first_fresh_seed(&root), 0);
}
