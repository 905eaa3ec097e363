//! From settings to a node that runs: what the directory says it is, or what its origin makes it.
//!
//! The order of writes in a new directory: the founding snapshot, then the log, then the identity.
//! A directory with an identity and without a log has lost it, and is refused. So is one with a log
//! or a snapshot and without an identity.

use std::collections::BTreeMap;
use std::net::TcpListener;
use std::sync::Arc;

use raft::Storage;

use super::error::StartError;
use super::joining::{Wishes, ask_for};
use super::lobby::Lobby;
use super::notice::{Notice, Observer};
use super::run::{Parts, RunningNode, run_with};
use super::server::Server;
use super::settings::{Origin, Settings};
use super::{draft, edge, formation, joining, memory};
use crate::boot::{self, Booted};
use crate::config::NodeConfig;
use crate::data_dir::{DataDir, Identity};
use crate::disk::RealDisk;
use crate::io::MemberId;
use crate::membership::{Member, Membership};
use crate::replica::Replica;
use crate::wal::WalConfig;

/// Starts a node, and returns when it runs. A node that must find others first waits for them.
///
/// # Errors
///
/// See [`StartError`].
pub fn start(settings: Settings) -> Result<RunningNode, StartError> {
    let mut prepared = prepare(settings)?;
    if prepared.dir.identity().is_none() {
        let beginning = prepared.begin()?;
        prepared.settle_in(&beginning)?;
    }
    start_prepared(prepared)
}

/// A node that has its directory and its address, and does not run yet.
pub(super) struct Prepared {
    pub(super) settings: Settings,
    pub(super) dir: DataDir,
    pub(super) server: Server,
    /// Where others reach it.
    pub(super) peer: String,
    /// Where some of the others are.
    pub(super) met: BTreeMap<MemberId, String>,
    /// What its disk holds, if that was read already.
    booted: Option<Booted<RealDisk>>,
}

/// Where a new member begins.
pub(super) struct Beginning {
    pub(super) cluster_id: u64,
    pub(super) incarnation: u64,
    pub(super) id: MemberId,
    /// The founders, if it is one of them. Somebody who joins begins with nothing.
    pub(super) founders: Option<Membership>,
}

impl Beginning {
    pub(super) fn founding(id: MemberId, founders: Membership, incarnation: u64) -> Beginning {
        let cluster_id = founders.cluster_id;
        Beginning { cluster_id, incarnation, id, founders: Some(founders) }
    }
}

/// A node with an empty directory, as those see it who find others for it.
pub(super) struct Newcomer<'a> {
    pub(super) settings: &'a Settings,
    pub(super) server: &'a Server,
}

/// Opens the directory and the address.
pub(super) fn prepare(settings: Settings) -> Result<Prepared, StartError> {
    if settings.name.is_empty() || settings.name.contains(char::is_control) {
        let what = format!("{:?} cannot be the name of a node", settings.name);
        return Err(StartError::Settings { what });
    }
    let dir = DataDir::open(&settings.data_dir)?;
    if let Some(found) = dir.identity().filter(|found| found.name != settings.name)
        && settings.name_must_match
    {
        return Err(StartError::OtherName {
            path: settings.data_dir.clone(),
            found: found.name.clone(),
            given: settings.name.clone(),
        });
    }
    let address = settings.peer_listen;
    let listener = TcpListener::bind(address)
        .map_err(|source| StartError::Listen { address: address.to_string(), source })?;
    let server = Server::listen(listener, &settings.name, Arc::new(Lobby::closed()));
    let server = server.map_err(StartError::Threads)?;
    let peer = settings.advertised().unwrap_or_else(|| server.address().to_string());
    Ok(Prepared { settings, dir, server, peer, met: BTreeMap::new(), booted: None })
}

/// Runs a node whose directory has an identity.
pub(super) fn start_prepared(prepared: Prepared) -> Result<RunningNode, StartError> {
    let Prepared { mut settings, dir, server, peer, met, booted } = prepared;
    let identity = dir.identity().cloned().expect("it was there before, or was just adopted");
    let booted = match booted {
        Some(booted) => booted,
        None => boot::open_member(dir.disk(), wal_config(&settings), identity.boot)?,
    };
    let wishes = wishes(&booted.replica, &identity, &settings, &peer);
    let node = run_with(Parts {
        identity,
        booted,
        config: NodeConfig {
            seed: edge::random(),
            memory_bytes: match settings.config.memory_bytes {
                0 => memory::usable(),
                given => given,
            },
            ..settings.config
        },
        server,
        peer: Some(peer),
        observers: std::mem::take(&mut settings.observers),
        home: Some(Arc::new(settings.data_dir)),
        met,
        keep: Some(Box::new(dir)),
    })?;
    ask_for(wishes, node.handle().clone())?;
    Ok(node)
}

fn wal_config(settings: &Settings) -> WalConfig {
    WalConfig { segment_bytes: settings.segment_bytes, salt: edge::random() }
}

/// What the cluster should know of a node that starts: where it is now, and that it wants to vote
/// if it has joined by itself. One that an operator has added by hand is promoted by hand.
fn wishes(replica: &Replica, identity: &Identity, settings: &Settings, peer: &str) -> Wishes {
    let members = &replica.membership;
    let vote = matches!(settings.origin, Origin::Join(_));
    let vote = vote && !members.voters().contains(&identity.node_id);
    let member = Member {
        id: identity.node_id,
        name: identity.name.clone(),
        peer: peer.to_owned(),
        client: settings.client.clone(),
    };
    let known = members.members.get(&member.id);
    let has_moved = known.is_some_and(|known| *known != member);
    Wishes { moved: has_moved.then_some(member), vote }
}

impl Prepared {
    /// Finds out where a new member begins.
    fn begin(&mut self) -> Result<Beginning, StartError> {
        let member = Member {
            id: draft::draw(&self.dir.disk())?,
            name: self.settings.name.clone(),
            peer: self.peer.clone(),
            client: self.settings.client.clone(),
        };
        let mut observers = std::mem::take(&mut self.settings.observers);
        let mut say = |what: &str| tell(&mut observers, Notice::Waiting(what.to_owned()));
        let newcomer = Newcomer { settings: &self.settings, server: &self.server };
        let beginning = match &self.settings.origin {
            Origin::Alone => {
                let id = member.id;
                let founders = Membership::founding(edge::random(), [member]);
                Ok(Beginning::founding(id, founders, 0))
            }
            Origin::Founders(list) => formation::form(&newcomer, list, member, &mut say),
            Origin::Join(addresses) => joining::join(&newcomer, addresses, member, &mut say),
        };
        self.settings.observers = observers;
        beginning
    }

    /// Writes down what a new member is, in the order that survives a crash.
    pub(super) fn settle_in(&mut self, beginning: &Beginning) -> Result<(), StartError> {
        let disk = self.dir.disk();
        self.refuse_leftovers(&disk, beginning)?;
        if let Some(founders) = &beginning.founders {
            boot::found(&disk, founders.clone())?;
        }
        let booted = boot::open(disk.clone(), wal_config(&self.settings), false)?;
        self.dir.adopt(Identity {
            cluster_id: beginning.cluster_id,
            node_id: beginning.id,
            name: self.settings.name.clone(),
            incarnation: beginning.incarnation,
            boot: 0,
        })?;
        draft::discard(&disk)?;
        self.booted = Some(booted);
        Ok(())
    }

    /// A directory without an identity may hold what an interrupted start has left behind: a
    /// founding snapshot and an empty log. Anything beyond that belonged to a member once.
    fn refuse_leftovers(&self, disk: &RealDisk, beginning: &Beginning) -> Result<(), StartError> {
        if boot::is_bare(disk)? {
            return Ok(());
        }
        let found = boot::open(disk.clone(), wal_config(&self.settings), false)?;
        let first = found.store.snapshot_id().index;
        let last = found.store.last_index().unwrap_or(u64::MAX);
        let founding = Replica::founding(Membership::default()).0.index;
        let allowed = if beginning.founders.is_some() { founding } else { 0 };
        if first > allowed || last > allowed {
            return Err(StartError::NotEmpty { path: self.settings.data_dir.clone() });
        }
        Ok(())
    }
}

fn tell(observers: &mut Vec<Box<dyn Observer>>, notice: Notice) {
    let notices = [notice];
    observers.retain_mut(|observer| observer.observe(&notices));
}
