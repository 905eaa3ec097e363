//! Transcripts: what the state machine answers, line by line, to scripts that people can read.
//!
//! `UPDATE_EXPECT=1 cargo test -p fencepost-core --test transcripts` rewrites the expectations.
//! Read the difference as if somebody else had written it before you keep it.

mod transcript;

use std::collections::BTreeSet;

/// Makes one test of each script, so that each can be seen and run by its name.
macro_rules! scripts {
    ($($name:ident)*) => {
        $(
            #[test]
            fn $name() {
                transcript::run(stringify!($name));
            }
        )*

        const LISTED: &[&str] = &[$(stringify!($name)),*];
    };
}

scripts! {
    acquire_after_expiry
    acquisition_cases
    apply_lease_expire
    apply_lock_acquire
    apply_lock_release
    bad_commands
    bad_keys
    bad_leases
    bad_locks
    bad_txns
    batch_many_commands
    bound_calls
    bound_calls_answered
    cancel_before_acquire
    cancel_just_granted
    cancel_while_waiting
    cancelled_call_spares_its_successor
    change_counter
    client_registry
    consul_4902_already_held_after_loss
    consul_lock_3_no_double_ttl
    curator_727_owner_checked_at_grant
    curator_79_orphan_waiter
    delay_outlives_clean_release
    deleted_holder
    detached_holder
    detached_owner
    disconnect_grace
    disconnect_of_an_old_connection
    disconnected_lease_revived_after_its_grace
    due_cap
    due_permit_in_the_way
    dynamodb_lock_34_expired_lock_is_free
    dynamolock_280_renewal_repeated
    etcd_10111_cancel_is_not_success
    etcd_10811_two_holders_are_fenced
    etcd_11456_lock_returned_without_lease
    etcd_16221_shared_waiter_lease_expired
    etcd_17470_lease_outlives_the_work
    etcd_21638_stale_keepalive_epoch
    etcd_22082_retried_unlock
    etcd_9360_expiry_backlog
    etcd_9715_compaction_leaves_no_waiter
    etcd_9888_failover_keeps_the_deadline
    etcd_9921_waiter_lease_expired
    etcd_algorithm
    expiry_order
    explain_chain
    explain_deadlock
    explain_reserved_chain
    force_acknowledged
    force_floors
    force_now
    force_now_keeps_the_reason
    force_pending
    force_refused
    forced_release_bounds_renewals
    grant_remaining_time
    group_answer_ended
    group_answer_not_completed
    hazelcast_15405_crashed_holder
    heartbeat
    held_until_the_deadline
    history_keeps_the_present_revision
    hold_budget
    hold_max
    holders_behind_a_foreign_key
    last_seen_moves_on_expiry
    lease_heap
    lease_record
    lease_states
    limits_in_the_state
    lock_delay
    lock_delays_of_two_clients
    lock_record
    lock_states
    lock_table_order
    loss_of_one_lock_keeps_the_lease
    many_locks_at_once
    many_locks_lose_one
    many_locks_no_deadlock
    many_locks_refused
    many_place_taken
    most_patient_request_decides
    no_time_to_wait
    nobody_overtakes
    number_reused_for_another_lease
    one_waiter_is_told
    overdue_wait_is_not_joined
    owner_demo
    owner_door
    owner_door_waiting
    owner_lease_avoids_foreign_key
    owner_lease_is_not_cancelled
    owner_lease_serves_one_lock
    owner_lease_survives_other_keys
    owner_names_a_token
    pages
    permit_prefix
    places_and_sizes
    plain_key_does_not_block_a_lock
    position_counts_foreign
    reattached_grant_is_kept
    redisson_3730_dead_waiters
    reentry
    relations
    release_cases
    released_lock_is_forgiven
    renewal_by_owner_is_not_repeated
    renewal_never_shortens
    repeat_after_lower_limits
    repeat_of_a_reservation
    repeats_same_answer
    repeats_window
    restore_covers_leases_granted_after_the_backup
    restore_from_backup
    restore_twice_never_repeats_a_token
    restore_waiting_time
    reused_id_is_not_spent
    second_restore_waits_for_the_first
    settled_in_order_of_change
    shared_prefix
    signing_keys
    signing_keys_make_room
    signing_keys_of_a_backup
    snapshot_goes_on
    spent_lease_says_renewed
    text_form
    time_never_goes_back
    try_leaves_nothing
    txn_loses_a_group_it_writes
    vault_2526_key_without_lease
    wait_queue_entry
    waiting_owner_lease_does_not_run
    watch_history_ring
    watch_order_in_one_revision
    watch_replay
    wire_compare_missing
    wire_create_revision
    wire_election
    wire_foreign_keys
    wire_lease_revoke_one_revision
    wire_mutex_txn
    wire_nested_names
    wire_put_options
    wire_python_lock
    wire_range_options
    wire_txn_nested
    wire_txn_revision
    wire_unlock_by_delete
    wire_waiter_gone_while_waiting
    x04_token_is_the_revision
    x05_token_of_a_waiter
    x07_reentrancy
    x08_ttl_in_milliseconds
    x09_renewal_through_the_log
    x10_whose_clock
    x11_lazy_and_active_expiry
    x14_wait_queue_in_the_state
    x16_wait_limits
    x20_event_on_hand_over
    x21_order_inside_lease_expiry
    x22_expired_before_commit
    x23_etcd_retry
    x24_holder_behind_itself
    x25_release_of_an_unknown_lock
    x33_owner_is_lease_and_token
    x35_lock_record_lifetime
}

/// A script without a test would never be run, and nobody would notice.
#[test]
fn every_script_has_its_test() {
    let folder = std::fs::read_dir(transcript::folder()).expect("the scripts' folder is there");
    let files = folder.map(|file| file.expect("the folder can be read").path());
    let scripts = files.filter(|path| path.extension().is_some_and(|ending| ending == "txt"));
    let found: BTreeSet<String> = scripts
        .map(|path| path.file_stem().expect("a file has a name").to_string_lossy().into_owned())
        .collect();
    let listed: BTreeSet<String> = LISTED.iter().map(|&name| name.to_owned()).collect();
    assert_eq!(listed.len(), LISTED.len(), "a script is listed twice");
    assert_eq!(listed, found, "left: scripts listed here, right: files in tests/scripts");
}
