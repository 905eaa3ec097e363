//! Where the public keys come from, and how long they are believed.
//!
//! Guarantees: a flood of tokens with unknown keys causes one fetch per [`FETCH_PAUSE`], not one
//! per token. While one thread fetches, the others go on with the keys that are there.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::{Duration, SystemTime};

use super::jwks::{JWKS_LEN_MAX, Jwks, JwksError};

/// Fetches a key set: the JSON, or why not. It may block, and should give up after some seconds.
pub type Fetch = Box<dyn Fn() -> Result<String, String> + Send + Sync>;

/// How old a fetched set may be before it is fetched again.
const AGE_MAX: Duration = Duration::from_secs(5 * 60);
/// How old it may be if fetching fails: a day without the service stops nobody, and after that a
/// key that was revoked meanwhile is believed no longer.
const STALE_MAX: Duration = Duration::from_secs(24 * 60 * 60);
/// Between two fetches, whatever the tokens say.
const FETCH_PAUSE: Duration = Duration::from_secs(10);

/// Where the public keys of a cluster come from.
pub struct KeySource(Kind);

enum Kind {
    Fixed(Arc<Jwks>),
    File(FileSource),
    Fetched(FetchSource),
}

impl KeySource {
    /// These keys and no others.
    pub fn fixed(keys: Jwks) -> KeySource {
        KeySource(Kind::Fixed(Arc::new(keys)))
    }

    /// A file that is read again whenever it changes. Replace it by a rename: what cannot be read
    /// is not taken over, and the last good keys stay in force until a good set is there.
    ///
    /// # Errors
    ///
    /// There is no key set in the file now.
    pub fn file(path: impl Into<PathBuf>) -> Result<KeySource, JwksError> {
        let path = path.into();
        let (stamp, keys) = read(&path)?;
        let state = Mutex::new((stamp, Arc::new(keys)));
        Ok(KeySource(Kind::File(FileSource { path, state })))
    }

    /// Keys that are fetched when they are first needed, when they are old, and when a token names
    /// a key that is not among them. Any HTTP client will do.
    pub fn fetched(fetch: Fetch) -> KeySource {
        KeySource(Kind::Fetched(FetchSource {
            fetch,
            age_max: AGE_MAX,
            stale_max: STALE_MAX,
            turn: Mutex::new(()),
            state: Mutex::default(),
        }))
    }

    /// For fetched keys: how old they may be before they are fetched again (five minutes by
    /// default), and how old if fetching fails (a day). A revoked key is believed for as long.
    #[must_use]
    pub fn ages(mut self, fresh: Duration, stale: Duration) -> KeySource {
        if let Kind::Fetched(source) = &mut self.0 {
            source.age_max = fresh;
            source.stale_max = stale.max(fresh);
        }
        self
    }

    /// The keys, with the named one among them if there is any way to get it. The time counts from
    /// any moment, and never goes back.
    pub(super) fn keys_for(&self, kid: &str, now: Duration) -> Result<Arc<Jwks>, JwksError> {
        match &self.0 {
            Kind::Fixed(keys) => Ok(keys.clone()),
            Kind::File(source) => Ok(source.current()),
            Kind::Fetched(source) => source.keys_for(kid, now),
        }
    }
}

impl std::fmt::Debug for KeySource {
    fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.0 {
            Kind::Fixed(keys) => to.debug_tuple("Fixed").field(keys).finish(),
            Kind::File(source) => to.debug_tuple("File").field(&source.path).finish(),
            Kind::Fetched(_) => to.write_str("Fetched"),
        }
    }
}

/// No panic happens under these guards, so a poisoned one is still whole.
fn guard<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

struct FileSource {
    path: PathBuf,
    /// The stamp of the last file that was looked at, and the last good keys.
    state: Mutex<(Stamp, Arc<Jwks>)>,
}

/// What tells a changed file from the same one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stamp {
    len: u64,
    modified: Option<SystemTime>,
    #[cfg(unix)]
    inode: u64,
}

impl Stamp {
    fn of(metadata: &fs::Metadata) -> Stamp {
        Stamp {
            len: metadata.len(),
            modified: metadata.modified().ok(),
            #[cfg(unix)]
            inode: std::os::unix::fs::MetadataExt::ino(metadata),
        }
    }
}

impl FileSource {
    fn current(&self) -> Arc<Jwks> {
        let mut state = guard(&self.state);
        if let Ok(metadata) = fs::metadata(&self.path)
            && Stamp::of(&metadata) != state.0
        {
            match read(&self.path) {
                Ok((stamp, keys)) => *state = (stamp, Arc::new(keys)),
                // Once is enough: it is looked at again when it changes again.
                Err(_) => state.0 = Stamp::of(&metadata),
            }
        }
        state.1.clone()
    }
}

fn read(path: &Path) -> Result<(Stamp, Jwks), JwksError> {
    let failed = |error: std::io::Error| JwksError::Unreachable(error.to_string());
    let metadata = fs::metadata(path).map_err(failed)?;
    if usize::try_from(metadata.len()).is_ok_and(|len| len > JWKS_LEN_MAX) {
        return Err(JwksError::TooLarge);
    }
    let text = fs::read_to_string(path).map_err(failed)?;
    Ok((Stamp::of(&metadata), Jwks::parse(&text)?))
}

struct FetchSource {
    fetch: Fetch,
    age_max: Duration,
    stale_max: Duration,
    /// Held while fetching. The state is not, so that others can go on.
    turn: Mutex<()>,
    state: Mutex<Fetched>,
}

#[derive(Clone, Default)]
struct Fetched {
    /// The keys, and when they were fetched.
    keys: Option<(Arc<Jwks>, Duration)>,
    /// When it was last tried, and what went wrong.
    tried: Option<(Duration, Option<JwksError>)>,
}

impl FetchSource {
    fn keys_for(&self, kid: &str, now: Duration) -> Result<Arc<Jwks>, JwksError> {
        let seen = guard(&self.state).clone();
        let fresh = seen.keys.as_ref().filter(|(_, at)| now.saturating_sub(*at) < self.age_max);
        if let Some((keys, _)) = fresh
            && keys.find(kid).is_some()
        {
            return Ok(keys.clone());
        }
        // Whoever has this key already does not wait for the one who fetches.
        let usable = self.usable(&seen, now).filter(|keys| keys.find(kid).is_some());
        match (self.turn.try_lock(), usable) {
            (Err(TryLockError::WouldBlock), Some(keys)) => return Ok(keys),
            (Err(TryLockError::WouldBlock), None) => {
                let _turn = guard(&self.turn);
                self.fetch_unless_tried(now);
            }
            (Ok(_) | Err(TryLockError::Poisoned(_)), _) => self.fetch_unless_tried(now),
        }
        let seen = guard(&self.state).clone();
        let problem = seen.tried.as_ref().and_then(|(_, problem)| problem.clone());
        match (self.usable(&seen, now), problem, seen.keys) {
            (Some(keys), _, _) => Ok(keys),
            (None, Some(problem), Some(_)) => Err(JwksError::TooOld(problem.to_string())),
            (None, Some(problem), None) => Err(problem),
            (None, None, _) => Err(JwksError::Unreachable("it was never fetched".to_owned())),
        }
    }

    /// The keys, if they are not too old even for a time without the service.
    fn usable(&self, seen: &Fetched, now: Duration) -> Option<Arc<Jwks>> {
        let (keys, at) = seen.keys.as_ref()?;
        (now.saturating_sub(*at) < self.stale_max).then(|| keys.clone())
    }

    fn fetch_unless_tried(&self, now: Duration) {
        let tried = guard(&self.state).tried.as_ref().map(|(at, _)| *at);
        if tried.is_some_and(|at| now.saturating_sub(at) < FETCH_PAUSE) {
            return;
        }
        let outcome = (self.fetch)().map_err(JwksError::Unreachable);
        let outcome = outcome.and_then(|text| Jwks::parse(&text));
        let mut state = guard(&self.state);
        state.tried = Some((now, outcome.as_ref().err().cloned()));
        if let Ok(keys) = outcome {
            state.keys = Some((Arc::new(keys), now));
        }
    }
}
