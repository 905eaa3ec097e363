//! Nodes for real: threads, sockets and files. Nothing here sleeps; what is waited for is an event.

#[path = "shell/backups.rs"]
mod backups;
#[path = "shell/beginnings.rs"]
mod beginnings;
#[path = "shell/disks.rs"]
mod disks;
#[path = "shell/level_1.rs"]
mod level_1;
#[path = "shell/members.rs"]
mod members;
#[path = "shell/reads.rs"]
mod reads;
#[path = "shell/rollback.rs"]
mod rollback;
#[path = "shell/serving.rs"]
mod serving;
#[path = "shell/support.rs"]
mod support;
