//! Every checker must bite: each is shown a history that breaks its invariant, and one like it
//! that does not. Where the core would have to break a rule, a planted bug makes it.

#[path = "check_invariants/core_bugs.rs"]
mod core_bugs;
#[path = "check_invariants/members.rs"]
mod members;
#[path = "check_invariants/rig.rs"]
mod rig;
#[path = "check_invariants/users.rs"]
mod users;
