//! From a directory that can be used to a node that runs.

use std::any::Any;
use std::collections::BTreeMap;
use std::fmt;
use std::net::TcpListener;
use std::path::PathBuf;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use super::address_book::AddressBook;
use super::board::{Board, Status};
use super::disk_space::DiskWatch;
use super::edge::{self, Clock};
use super::error::{Ended, StartError};
use super::event_loop::{self, EventLoop, Turn};
use super::hall::Hall;
use super::handle::Handle;
use super::inbox::{Happening, Inbox, Lane};
use super::lobby::Lobby;
use super::log_writer::{Log, LogWriter, SharedLog, WORK_MAX};
use super::notice::{Notice, Observer};
use super::pile::Pile;
use super::server::Server;
use super::snapshot_thread::{TASKS_MAX, keep_snapshots};
use super::spare_thread::{ORDERS_MAX, SpareThread};
use crate::boot::Booted;
use crate::config::NodeConfig;
use crate::data_dir::Identity;
use crate::disk::Disk;
use crate::io::{Change, ChangeError, Input, MemberId};
use crate::node::Node;
use crate::snapshot_keeper::{SnapshotKeeper, SnapshotTask};

/// How long a node that was taken out waits to hear of it before it ends anyway.
const FAREWELL: Duration = Duration::from_secs(5);

/// All that a node needs to run.
pub struct Launch<D: Disk> {
    /// Who it is.
    pub identity: Identity,
    /// What its disk holds.
    pub booted: Booted<D>,
    /// How it is set up. Who it is and which life this is, the identity says.
    pub config: NodeConfig,
    /// Where it listens for other members.
    pub listener: TcpListener,
    /// Where other members reach it, if that is not where it listens.
    pub peer: Option<String>,
    /// Who hears of everything from the beginning.
    pub observers: Vec<Box<dyn Observer>>,
    /// Kept as long as the node runs.
    pub keep: Option<Box<dyn Any + Send>>,
}

/// A node that runs. It is ended when this is dropped.
pub struct RunningNode {
    handle: Handle,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl fmt::Debug for RunningNode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RunningNode").finish_non_exhaustive()
    }
}

/// Runs a node.
///
/// # Errors
///
/// See [`StartError`].
pub fn run<D>(launch: Launch<D>) -> Result<RunningNode, StartError>
where
    D: Disk + Send + 'static,
    D::File: Send,
{
    let Launch { identity, booted, config, listener, peer, observers, keep } = launch;
    let server = Server::listen(listener, &identity.name, Arc::new(Lobby::closed()));
    let server = server.map_err(StartError::Threads)?;
    let (home, met) = (None, BTreeMap::new());
    run_with(Parts { identity, booted, config, server, peer, observers, home, met, keep })
}

/// As [`Launch`], for a node that listens already.
pub(super) struct Parts<D: Disk> {
    pub(super) identity: Identity,
    pub(super) booted: Booted<D>,
    pub(super) config: NodeConfig,
    pub(super) server: Server,
    pub(super) peer: Option<String>,
    pub(super) observers: Vec<Box<dyn Observer>>,
    /// The directory.
    pub(super) home: Option<Arc<PathBuf>>,
    /// Where some of the other members are.
    pub(super) met: BTreeMap<MemberId, String>,
    pub(super) keep: Option<Box<dyn Any + Send>>,
}

pub(super) fn run_with<D>(parts: Parts<D>) -> Result<RunningNode, StartError>
where
    D: Disk + Send + 'static,
    D::File: Send,
{
    let Parts { identity, booted, config, server, peer, observers, home, met, keep } = parts;
    let Booted { wal, snapshots, store, replica, warnings } = booted;
    let (id, boot, boot_nonce) = (identity.node_id, identity.boot, edge::random());
    let config = NodeConfig { id, boot, boot_nonce, ..config };
    let node = Node::new(config, store, replica);
    let node = node.map_err(|error| StartError::Engine { why: error.to_string() })?;
    let peer = peer.unwrap_or_else(|| server.address().to_string());
    let inbox = Arc::new(Inbox::default());
    let clock = Clock::start();
    let board = Arc::new(Board::new(first_status(&identity, &peer, &node), clock));
    let log = Arc::new(Pile::new(WORK_MAX));
    let tasks = Arc::new(Pile::new(TASKS_MAX));
    let orders = Arc::new(Pile::new(ORDERS_MAX));
    // Looked at once before anything is served, so that whoever asks is told.
    let mut watch = DiskWatch::new(wal.disk(), wal.segment_bytes());
    watch.look(&board, &inbox);
    let on_disk = Log::new(wal, Arc::clone(&board), Arc::clone(&orders));
    let shared_log: SharedLog = Arc::new(Mutex::new(on_disk));
    let writer = LogWriter {
        log: Arc::clone(&shared_log),
        work: Arc::clone(&log),
        inbox: Arc::clone(&inbox),
    };
    let stand_in = writer.clone();
    let keeper = SnapshotKeeper::new(snapshots);
    let spares = SpareThread {
        orders,
        watch,
        log: Arc::clone(&shared_log),
        board: Arc::clone(&board),
        inbox: Arc::clone(&inbox),
    };
    let workers = Workers { writer, keeper, tasks: Arc::clone(&tasks), spares };
    let workers = workers.spawn(&identity.name, &inbox)?;
    let book = AddressBook {
        identity: identity.clone(),
        peer,
        inbox: Arc::clone(&inbox),
        board: Arc::clone(&board),
        clock,
        met,
        links: BTreeMap::new(),
    };
    let lines = Arc::new(AtomicU64::new(0));
    let handle = Handle { inbox: Arc::clone(&inbox), board: Arc::clone(&board), lines, home };
    let hall = Hall {
        identity: identity.clone(),
        inbox: Arc::clone(&inbox),
        board: Arc::clone(&board),
        handle: handle.clone(),
        writer: stand_in,
        clock,
    };
    server.set_door(Arc::new(hall));
    tell_first(&node, &identity, warnings, &inbox);
    let turn = Turn::default();
    let event_loop = EventLoop {
        node,
        clock,
        inbox: Arc::clone(&inbox),
        board: Arc::clone(&board),
        log,
        shared_log,
        snapshots: tasks,
        book,
        server,
        observers,
        workers,
        turn,
    };
    inbox.seat(event_loop);
    let (name, theirs) = (format!("{}-loop", identity.name), Arc::clone(&inbox));
    let thread = spawn(name, &inbox, move || run_to_the_end(&theirs, board, keep))
        .inspect_err(|_| drop(inbox.unseat()))?;
    Ok(RunningNode { handle, thread: Mutex::new(Some(thread)) })
}

fn run_to_the_end(inbox: &Arc<Inbox>, board: Arc<Board>, keep: Option<Box<dyn Any + Send>>) {
    let mark = EndMark(board);
    let (ended, mut observers) = event_loop::run(inbox);
    // The directory is free for the next process before anybody hears that this one is done with
    // it.
    drop(keep);
    mark.set(ended.clone());
    for observer in &mut observers {
        observer.observe(&[Notice::Ended(ended.clone())]);
    }
}

/// What works for the loop, on threads of its own.
struct Workers<D: Disk> {
    writer: LogWriter,
    keeper: SnapshotKeeper<D>,
    tasks: Arc<Pile<SnapshotTask>>,
    spares: SpareThread<D>,
}

impl<D> Workers<D>
where
    D: Disk + Send + 'static,
    D::File: Send,
{
    /// Starts the threads.
    fn spawn(self, name: &str, inbox: &Arc<Inbox>) -> Result<Vec<JoinHandle<()>>, StartError> {
        let Workers { writer, keeper, tasks, spares } = self;
        let orders = Arc::clone(&spares.orders);
        let work = Arc::clone(&writer.work);
        // Without one of them, the others have nothing to wait for.
        let give_up = |_: &StartError| {
            tasks.close();
            orders.close();
            work.close();
        };
        let (theirs, answers) = (Arc::clone(&tasks), Arc::clone(inbox));
        let keep_them = move || keep_snapshots(keeper, &theirs, &answers);
        let snapshots = spawn(format!("{name}-snap"), inbox, keep_them)?;
        let make_them = move || spares.run();
        let spares = spawn(format!("{name}-spare"), inbox, make_them).inspect_err(give_up)?;
        let log = spawn(format!("{name}-log"), inbox, move || writer.run()).inspect_err(give_up)?;
        Ok(vec![log, snapshots, spares])
    }
}

/// What the loop is to begin with.
fn tell_first(node: &Node, identity: &Identity, warnings: Vec<String>, inbox: &Inbox) {
    for warning in warnings {
        inbox.push_waiting(Lane::Own, Happening::Tell(Notice::Trouble(warning)));
    }
    // Nobody else could be elected, so there is nothing to wait for.
    if node.membership().voters().into_iter().eq([identity.node_id]) {
        inbox.push_waiting(Lane::Own, Happening::Input(Input::Campaign));
    }
}

fn first_status(identity: &Identity, peer: &str, node: &Node) -> Status {
    Status {
        id: identity.node_id,
        name: identity.name.clone(),
        boot: identity.boot,
        cluster_id: identity.cluster_id,
        incarnation: identity.incarnation,
        peer: peer.to_owned(),
        role: node.role(),
        applied: node.machine().applied(),
        feature_level: node.feature_level(),
        snapshot: node.snapshot_id(),
        members: Arc::new(node.membership().clone()),
        ..Status::default()
    }
}

/// Makes sure that the end is seen, also that of a loop that panicked.
struct EndMark(Arc<Board>);

impl EndMark {
    fn set(&self, ended: Ended) {
        self.0.update(|status| {
            status.role.leads = false;
            status.ended = Some(ended);
        });
    }
}

impl Drop for EndMark {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.set(Ended::Failed(mistake("the loop")));
        }
    }
}

pub(super) fn mistake(who: &str) -> String {
    format!(
        "this node stops: {who} has panicked\n\
         this is a mistake in Fencepost: what it was doing is written above\n\
         start the node again, and please report it"
    )
}

/// Starts a thread of a node. If it panics, the node ends: without it nothing would go on, and
/// nobody would know why.
pub(super) fn spawn(
    name: String,
    inbox: &Arc<Inbox>,
    work: impl FnOnce() + Send + 'static,
) -> Result<JoinHandle<()>, StartError> {
    struct Alarm(String, Arc<Inbox>);
    impl Drop for Alarm {
        fn drop(&mut self) {
            if std::thread::panicking() {
                let failed = Happening::Failed(mistake(&format!("the thread {}", self.0)));
                self.1.push_waiting(Lane::Own, failed);
            }
        }
    }
    let alarm = Alarm(name.clone(), Arc::clone(inbox));
    let thread = std::thread::Builder::new().name(name).spawn(move || {
        let _alarm = alarm;
        work();
    });
    thread.map_err(StartError::Threads)
}

impl RunningNode {
    /// The way to this node.
    #[must_use]
    pub fn handle(&self) -> &Handle {
        &self.handle
    }

    /// Ends the node after it has handed leadership over, and waits for it.
    pub fn stop(&self) -> Ended {
        self.handle.stop();
        self.wait()
    }

    /// Ends the node at once, as a crash of its process would, and waits for it.
    pub fn kill(&self) -> Ended {
        self.handle.inbox.push_waiting(Lane::Control, Happening::Kill);
        self.wait()
    }

    /// Has the node taken out of its cluster, for good, and ends it. Tries for `patience`.
    ///
    /// # Errors
    ///
    /// See [`ChangeError`]. The node goes on then.
    pub fn leave(&self, patience: Duration) -> Result<Ended, ChangeError> {
        let until = edge::now() + patience;
        let remove = Change::Remove(self.handle.status().id);
        match self.handle.change_anywhere(&remove, patience) {
            // The node may have heard that it is out before it heard the answer.
            Err(why) if self.handle.status().ended.is_none() => return Err(why),
            _ => {}
        }
        let left = until.saturating_duration_since(edge::now()).min(FAREWELL);
        let ended = self.handle.board.wait_until(left, |status| status.ended.is_some());
        Ok(if ended.is_ok() { self.wait() } else { self.stop() })
    }

    /// Waits for the node's end.
    pub fn wait(&self) -> Ended {
        let mut thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(thread) = thread.take() {
            drop(thread.join());
        }
        self.handle.status().ended.unwrap_or(Ended::Stopped)
    }
}

impl Drop for RunningNode {
    fn drop(&mut self) {
        self.kill();
    }
}
