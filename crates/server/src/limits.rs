//! Every bound of the doors, with the reason for its size. What decides an outcome is bounded in
//! the state; these only protect this process.

use std::time::Duration;

/// Bytes in one request: a value of 1 MiB, its key, and room for what surrounds them.
pub(crate) const MESSAGE_BYTES_MAX: usize = 3 << 19;
/// Requests that one session may have open. Waiting for a lock is one, and a whole process may
/// wait on one session.
pub(crate) const REQUESTS_MAX: usize = 16_384;
/// Requests beyond them for what keeps locks and gives them up, so that a session full of waits
/// loses nothing and can end them.
pub(crate) const REQUESTS_RESERVED: usize = 1_024;
/// Frames that are taken from a stream before their commands are proposed.
pub(crate) const FRAMES_PER_TURN_MAX: usize = 1_024;
/// Bytes that may wait for one stream to be read. Beyond them its reader is too slow.
pub(crate) const OUTBOX_BYTES_MAX: usize = 8 << 20;
/// Bytes that may be written down and not yet sent on a connection without HTTP/2. Beyond them it is
/// not read from, and what is to be said waits as above.
pub(crate) const UNSENT_BYTES_MAX: usize = 64 << 10;
/// Watches on one stream.
pub(crate) const WATCHES_MAX: usize = 4_096;
/// Leases of which one session is told when they lose a lock.
pub(crate) const LEASES_NAMED_MAX: usize = 100_000;
/// Events that may wait for the reader of one watch.
pub(crate) const WATCH_EVENTS_MAX: usize = 10_000;
/// Bytes of events that may wait for the reader of one watch.
pub(crate) const WATCH_BYTES_MAX: usize = 1 << 20;
/// Events that one look at the history goes through. It happens on the node's loop.
pub(crate) const HISTORY_SCAN_MAX: usize = 1_000;
/// Bytes of events that one look at the history brings.
pub(crate) const HISTORY_SCAN_BYTES_MAX: usize = 1 << 20;
/// Events that may wait to be handed to the watches. Beyond them the watches go back to history.
pub(crate) const FAN_OUT_MAX: usize = 100_000;
/// Keys in one answer to a range.
pub(crate) const RANGE_KEYS_MAX: usize = 10_000;
/// Bytes of keys and values in one answer to a range, beyond the first key: most clients accept no
/// message above 4 MiB.
pub(crate) const RANGE_BYTES_MAX: usize = 2 << 20;
/// Bytes of keys and values in one answer to a range of etcd's, which knows no pages of its own: as
/// much as one command may answer.
pub(crate) const ANSWER_BYTES_MAX: usize = 16 << 20;
/// Bytes of all large answers together, from their second step until they are sent.
pub(crate) const LARGE_ANSWERS_BYTES_MAX: usize = 64 << 20;
/// Large reads that may wait for that room.
pub(crate) const LARGE_READS_WAITING_MAX: usize = 64;
/// Hashes that may wait for the one that is computed.
pub(crate) const HASHES_WAITING_MAX: usize = 16;
/// Bytes of an answer that is built by the I/O worker itself.
pub(crate) const INLINE_BYTES_MAX: u64 = 64 << 10;
/// Threads on which larger answers are built.
pub(crate) const ANSWER_BUILDERS_MAX: usize = 2;
/// Locks or leases in one page of a list.
pub(crate) const PAGE_MAX: usize = 1_000;
/// Holders that one answer lists.
pub(crate) const HOLDERS_MAX: usize = 1_000;
/// Waiters that one answer lists.
pub(crate) const WAITERS_MAX: usize = 1_000;
/// Backups that are sent at once.
pub(crate) const BACKUPS_MAX: usize = 4;
/// Bytes in one chunk of a backup.
pub(crate) const BACKUP_CHUNK_BYTES: usize = 256 << 10;

/// Streams that one connection may have open. A call that waits for a lock is one.
pub(crate) const STREAMS_MAX: u32 = 2_048;
/// Bytes that a client may send on one stream, and on all streams of a connection together, before
/// they are read. What no request reads stays below the second.
pub(crate) const STREAM_WINDOW_BYTES: u32 = 512 << 10;
pub(crate) const CONNECTION_WINDOW_BYTES: u32 = 4 << 20;
/// Bytes of unfinished messages of one connection, and of all connections. Beyond them the request
/// that brings more is refused. A message that arrives in one piece is never one of them.
pub(crate) const CONNECTION_UNREAD_BYTES_MAX: usize = 16 << 20;
pub(crate) const UNREAD_BYTES_MAX: usize = 128 << 20;
/// Bytes of an unfinished message that every connection without HTTP/2 may have beside them.
pub(crate) const FREE_UNREAD_BYTES: usize = 8 << 10;
/// Bytes of an answer over HTTP/2 that are handed over at once. So much stays behind at most if the
/// client takes no more.
pub(crate) const ANSWER_PIECE_BYTES: usize = 32 << 10;
/// Bytes of headers of one request.
pub(crate) const HEADERS_BYTES_MAX: u32 = 16 << 10;
/// Streams that a client may reset before they are accepted, before its connection is ended.
pub(crate) const RESETS_PENDING_MAX: usize = 100;
/// How long a client may take to send its headers, or its first byte.
pub(crate) const HEADERS_PATIENCE: Duration = Duration::from_secs(10);
/// How often a silent connection is asked whether it is alive.
pub(crate) const KEEP_ALIVE_INTERVAL: Duration = Duration::from_secs(10);
/// How long it may take to say so.
pub(crate) const KEEP_ALIVE_PATIENCE: Duration = Duration::from_secs(10);
/// How long another member may be gone before its calls are given up.
pub(crate) const MEMBER_PATIENCE: Duration = Duration::from_secs(10);
/// Connections of one server.
pub(crate) const CONNECTIONS_MAX: usize = 15_000;
/// The part of them that one address may have, if nothing else is set: a quarter, so that it takes
/// four machines to use all. Proxies and load generators on this machine have one address together,
/// and must leave a quarter.
pub(crate) const ADDRESS_SHARE: (usize, usize) = (1, 4);
pub(crate) const LOOPBACK_SHARE: (usize, usize) = (3, 4);
/// Requests that a server serves at once. Each takes some 7 KiB, also if nothing but its headers has
/// arrived.
pub(crate) const HTTP_REQUESTS_MAX: usize = 32_768;
/// So many of each connection are served beyond that, so that those of one client leave room for others.
pub(crate) const CONNECTION_REQUESTS_MIN: usize = 4;
/// A connection that had so many refused is closed: answers that its client does not read take memory
/// too.
pub(crate) const REFUSED_REQUESTS_MAX: usize = 64;
/// How often refused connections are logged.
pub(crate) const REFUSED_LOG_INTERVAL: Duration = Duration::from_secs(10);
/// How long streams may take to end when the server does.
pub(crate) const FAREWELL: Duration = Duration::from_secs(5);
/// How long a connection without HTTP/2 is read from after the last word, and how much of it.
pub(crate) const LINGER: Duration = Duration::from_secs(1);
pub(crate) const LINGER_BYTES_MAX: u64 = 4 << 20;

/// How long a message may take to arrive, or an answer over HTTP/2 to be taken.
pub(crate) const BODY_PATIENCE: Duration = Duration::from_secs(30);
/// How long a connection may have no request, wait, lease or watch.
pub(crate) const IDLE_PATIENCE: Duration = Duration::from_secs(600);
/// How long a request over HTTP is tried, beside the time that it wants to wait for a lock. Several
/// elections fit into it.
pub(crate) const REQUEST_PATIENCE: Duration = Duration::from_secs(10);
/// Bytes in one line over TCP: names and a number, written as wastefully as JSON allows.
pub(crate) const LINE_BYTES_MAX: usize = 64 << 10;
/// Bytes of a line that is too long which are read only to find its end. Beyond them its connection
/// ends.
pub(crate) const LINE_SKIPPED_BYTES_MAX: usize = 1 << 20;
/// Bytes in one lock command as text: two names, each byte of them written as three.
pub(crate) const TEXT_COMMAND_BYTES_MAX: usize = 4 << 10;
/// Requests that one WebSocket may have open. Waiting for a lock is one.
pub(crate) const WS_REQUESTS_MAX: usize = 1_024;
/// Answers that may wait for a WebSocket to be written. Those who have more wait to put them there.
pub(crate) const WS_ANSWERS_MAX: usize = 64;
/// How long a client may take to read one answer in JSON, or to read on where there is no HTTP/2.
pub(crate) const ANSWER_PATIENCE: Duration = Duration::from_secs(10);

/// How often a watch that asked for it is told how far it is.
pub(crate) const PROGRESS_INTERVAL: Duration = Duration::from_secs(10);
/// How often some of those who wait for a lock are told how they stand, if that has changed.
pub(crate) const PLACES_INTERVAL: Duration = Duration::from_millis(250);
/// How many of them. Finding a position far behind takes up to ten thousand steps on the node's
/// loop, so this is at most a hundredth of its time.
pub(crate) const PLACES_PER_LOOK: usize = 32;
/// How long a change of members is tried.
pub(crate) const CHANGE_PATIENCE: Duration = Duration::from_secs(10);
/// How long the place of a call that is gone is tried to be removed. Then its lease decides.
pub(crate) const CLEAN_UP_PATIENCE: Duration = Duration::from_secs(60);
/// How long a call that wants a signed token waits for this member's key to be published.
pub(crate) const SIGNING_PATIENCE: Duration = Duration::from_secs(2);
/// How long whoever asks members for new signing keys waits for them.
pub(crate) const ROTATION_PATIENCE: Duration = Duration::from_secs(5);
/// How long the cluster may take to say which signing keys there are, before this member tells what
/// it remembers.
pub(crate) const JWKS_PATIENCE: Duration = Duration::from_secs(1);
/// The shortest and the longest pause before a command of the server's own is proposed again.
pub(crate) const RETRY_PAUSES: (Duration, Duration) =
    (Duration::from_millis(20), Duration::from_millis(1_000));

const _: () = assert!(MESSAGE_BYTES_MAX < CONNECTION_UNREAD_BYTES_MAX);
const _: () = assert!(CONNECTION_UNREAD_BYTES_MAX < UNREAD_BYTES_MAX);
const _: () = assert!(WATCH_BYTES_MAX < OUTBOX_BYTES_MAX);
const _: () = assert!(HISTORY_SCAN_BYTES_MAX < OUTBOX_BYTES_MAX);
const _: () = assert!(ANSWER_BYTES_MAX <= LARGE_ANSWERS_BYTES_MAX);
const _: () = assert!(RANGE_BYTES_MAX + (MESSAGE_BYTES_MAX) < 4 << 20);
