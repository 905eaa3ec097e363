//! Three servers in three processes, and how they come together.

use rustix::process::Signal;
use serde_json::Value;
use tempfile::TempDir;

use crate::support::{Done, Plan, Server, command, folder, free_port, until};

/// Three servers that know each other, on ports that stay theirs over restarts.
pub(crate) struct Cluster {
    pub(crate) home: TempDir,
    pub(crate) plans: Vec<Plan>,
    /// Nothing in the place of one that does not run.
    pub(crate) servers: Vec<Option<Server>>,
}

impl Cluster {
    /// Formed from a list that all of them are given.
    pub(crate) fn form() -> Cluster {
        Cluster::form_with(|_| Vec::new())
    }

    /// The same, each with more arguments.
    pub(crate) fn form_with(more: impl Fn(usize) -> Vec<String>) -> Cluster {
        let home = folder();
        let mut plans = Cluster::plans(&home);
        plans.iter_mut().enumerate().for_each(|(place, plan)| plan.more.extend(more(place)));
        let begun: Vec<_> = plans.iter().map(Plan::begin).collect();
        let servers = begun.into_iter().map(|process| Some(Server::ready(process))).collect();
        let cluster = Cluster { home, plans, servers };
        cluster.leader();
        cluster
    }

    /// How three servers are to be started.
    fn plans(home: &TempDir) -> Vec<Plan> {
        let ports: Vec<(u16, u16)> = (0..3).map(|_| (free_port(), free_port())).collect();
        let listed: Vec<String> = (1..=3)
            .zip(&ports)
            .map(|(number, (_, peers))| format!("n{number}=127.0.0.1:{peers}"))
            .collect();
        let list = listed.join(",");
        let plan = |(number, &(clients, peers)): (u8, &(u16, u16))| {
            let name = format!("n{number}");
            let usual = Plan { data: name.clone(), clients, peers, ..Plan::new(home.path()) };
            usual.with(&["--name", &name, "--initial-cluster", &list])
        };
        (1..=3).zip(&ports).map(plan).collect()
    }

    /// Three servers that were not started.
    pub(crate) fn planned() -> Cluster {
        let home = folder();
        let plans = Cluster::plans(&home);
        Cluster { home, plans, servers: Vec::new() }
    }

    pub(crate) fn endpoints(&self) -> String {
        let all = self.plans.iter().map(|plan| format!("http://127.0.0.1:{}", plan.clients));
        all.collect::<Vec<_>>().join(",")
    }

    /// Runs a verb against all of them.
    pub(crate) fn run(&self, args: &[&str]) -> Done {
        let endpoints = self.endpoints();
        let usual = ["--endpoints", &endpoints, "--timeout", "30s"];
        Done::of(command(self.home.path(), usual.iter().chain(args)))
    }

    #[track_caller]
    pub(crate) fn json(&self, args: &[&str]) -> Value {
        self.run(&[args, &["-o", "json"]].concat()).json()
    }

    /// Waits for a leader. Its place, as `status` names it.
    pub(crate) fn leader(&self) -> usize {
        let name = until(|| {
            let status = self.run(&["status", "-o", "json"]);
            // No member answers yet.
            if status.out.is_empty() {
                return Err(status.err.into());
            }
            let status = status.document();
            status["leader"].as_str().map(str::to_owned).ok_or(status)
        });
        self.place(&name)
    }

    fn place(&self, name: &str) -> usize {
        let place = self.plans.iter().position(|plan| plan.data == name);
        place.expect("the members are called like their directories")
    }

    /// Asks one of them alone.
    pub(crate) fn at(&self, place: usize) -> &Server {
        self.servers[place].as_ref().expect("it runs")
    }

    /// Ends one at once, as a crash would.
    pub(crate) fn kill(&mut self, place: usize) {
        let mut server = self.servers[place].take().expect("it runs");
        server.process.end(Signal::KILL);
    }

    /// Starts one again as it was, and waits until it follows.
    pub(crate) fn start(&mut self, place: usize) {
        let server = self.plans[place].start();
        until(|| match server.status() {
            status if status["leader"].is_string() => Ok(()),
            status => Err(status),
        });
        self.servers[place] = Some(server);
    }

    /// The members with their roles, by name.
    pub(crate) fn roles(&self) -> Vec<(String, String)> {
        let listed = self.json(&["member", "ls"]);
        let all = listed["members"].as_array().expect("it lists them");
        let text = |value: &Value| value.as_str().expect("it is text").to_owned();
        all.iter().map(|one| (text(&one["name"]), text(&one["role"]))).collect()
    }

    /// Waits until so many vote.
    pub(crate) fn until_voters(&self, count: usize) {
        until(|| {
            let roles = self.roles();
            let votes = |(_, role): &&(String, String)| role != "learner";
            if roles.iter().filter(votes).count() == count { Ok(()) } else { Err(roles) }
        });
    }
}

#[test]
fn three_servers_form_a_cluster_that_any_of_them_serves() {
    let cluster = Cluster::form();
    assert_eq!(cluster.roles().len(), 3);
    cluster.at(0).run(&["kv", "put", "a", "1"]).good();
    for place in 0..3 {
        assert_eq!(cluster.at(place).run(&["kv", "get", "a"]).good(), "1\n");
    }
}

#[test]
fn leadership_goes_where_it_is_sent() {
    let cluster = Cluster::form();
    let leader = cluster.leader();
    let next = (leader + 1) % 3;
    let name = format!("n{}", next + 1);
    // Asked of a member that does not lead, too.
    let moved = cluster.at((leader + 2) % 3).run(&["move-leader", &name, "-o", "json"]).json();
    assert_eq!(moved["leader"], name.as_str());
    assert_eq!(cluster.leader(), next);
    let moved = cluster.json(&["move-leader"]);
    assert_ne!(moved["leader"], name.as_str());
}

// Requirements: S1-028.
#[test]
fn a_server_joins_and_votes_by_itself() {
    let home = folder();
    let named = |name: &str| {
        Plan { data: name.to_owned(), ..Plan::new(home.path()) }.with(&["--name", name])
    };
    let first = named("n1").start();
    first.run(&["kv", "put", "a", "1"]).good();
    let second = named("n2").with(&["--join", &first.peer]).start();
    until(|| {
        let status = second.json(&["status"]);
        let members = status["members"].as_array().expect("it lists them");
        let votes = members.len() == 2 && members.iter().all(|one| one["role"] != "learner");
        if votes { Ok(()) } else { Err(status) }
    });
    assert_eq!(second.run(&["kv", "get", "a"]).good(), "1\n");
    let mut second = second;
    first.run(&["member", "rm", "n2"]).good();
    // One that was taken out ends by itself, and says so.
    assert_eq!(second.process.wait().code(), Some(0));
    second.process.err.wait_for("this node was taken out of its cluster");
    // It hears the same again if it is started once more.
    let again = Done::of(named("n2").with(&["--join", &first.peer]).command());
    assert_eq!(again.code, 0, "{again:?}");
    assert!(again.err.contains("this node was taken out of its cluster"), "{again:?}");
}
