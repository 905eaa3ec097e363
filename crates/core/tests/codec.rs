//! The bytes of the log and of snapshots: what was written comes back, nothing else is accepted,
//! and the format does not change by accident.
//!
//! `UPDATE_EXPECT=1` writes the golden files and the seeds of the corpus anew. A changed golden
//! file means that old logs or snapshots are read differently, or that the script below acts
//! differently: know which before it is kept.

#[path = "codec/examples.rs"]
mod examples;
#[path = "codec/random.rs"]
mod random;
#[path = "codec/states.rs"]
mod states;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use fencepost_core::codec::fuzz::{fuzz_command, fuzz_entry, fuzz_snapshot};
use fencepost_core::codec::{
    DecodeError, decode_command, decode_entry, encode_command, encode_entry, encode_entry_from,
};
use fencepost_core::command::{Op, Txn};
use fencepost_core::limits::FEATURE_LEVEL;
use fencepost_core::{Action, Command, Entry, LogTime, Millis, State};
use fencepost_testkit::update_expect;
use proptest::prelude::*;

use examples::{examples, place, put, rich_entry};
use random::random_command;
use states::rich_state;

fn encoded(entry: &Entry) -> Vec<u8> {
    let mut bytes = Vec::new();
    encode_entry(entry, &mut bytes);
    bytes
}

fn encoded_command(command: &Command) -> Vec<u8> {
    let mut bytes = Vec::new();
    encode_command(command, &mut bytes);
    bytes
}

fn snapshot(state: &State) -> Vec<u8> {
    let mut bytes = Vec::new();
    state.encode(&mut bytes);
    bytes
}

// Requirements: S0-123, S0-125, S0-126, S1-011.
#[test]
fn every_action_returns() {
    let examples = examples();
    let places: Vec<usize> = examples.iter().map(place).collect();
    assert!(places.iter().copied().eq(0..31), "an action without an example: {places:?}");
    for command in rich_entry().commands {
        let bytes = encoded_command(&command);
        assert_eq!(decode_command(&bytes), Ok(command));
        fuzz_command(&bytes);
    }
    let entry = rich_entry();
    assert_eq!(decode_entry(&encoded(&entry)), Ok(entry));
    let stamp = Entry { at: LogTime(LogTime::LIMIT.0 - 1), commands: Vec::new() };
    assert_eq!(decode_entry(&encoded(&stamp)), Ok(stamp));
    let never = encoded(&Entry { at: LogTime::NEVER, commands: Vec::new() });
    assert!(matches!(decode_entry(&never), Err(DecodeError::Malformed(_))));
}

#[test]
fn packed_commands_are_an_entry() {
    let entry = rich_entry();
    let commands: Vec<Vec<u8>> = entry.commands.iter().map(encoded_command).collect();
    let mut packed = Vec::new();
    encode_entry_from(entry.at, &commands, &mut packed);
    assert_eq!(packed, encoded(&entry));
}

#[test]
fn an_unknown_command_stops_the_node_unless_it_may_be_passed_over() {
    // Number 99, its flags, an empty actor and namespace, no number, and fields from the future.
    let later = |flags| [99, flags, 0, 0, 0, 1, 2, 3];
    assert_eq!(decode_command(&later(0)), Err(DecodeError::UnknownCommand(99)));
    let skipped = decode_command(&later(1)).map(|command| command.action);
    assert_eq!(skipped, Ok(Action::Skipped(99)));
    fuzz_command(&later(1));
    assert!(matches!(decode_command(&later(3)), Err(DecodeError::Malformed(_))));
    // A command of today cannot be declared safe to pass over.
    let known = Command::from(Action::RaiseFeatureLevel(1));
    let mut bytes = encoded_command(&known);
    bytes[1] = 1;
    assert!(matches!(decode_command(&bytes), Err(DecodeError::Malformed(_))));
}

#[test]
fn a_feature_level_of_a_later_build_stops_the_node() {
    let bytes = encoded_command(&Command::from(Action::RaiseFeatureLevel(FEATURE_LEVEL + 1)));
    assert_eq!(decode_command(&bytes), Err(DecodeError::UnknownFeatureLevel(FEATURE_LEVEL + 1)));
}

#[test]
fn an_unknown_version_is_told_apart() {
    let mut entry = encoded(&Entry::default());
    entry[0] = 2;
    assert_eq!(decode_entry(&entry), Err(DecodeError::UnknownVersion(2)));
    let mut state = snapshot(&State::new());
    state[8] = 9;
    assert_eq!(State::decode(&state).err(), Some(DecodeError::UnknownVersion(9)));
    state[0] = b'X';
    assert!(matches!(State::decode(&state), Err(DecodeError::Malformed(_))));
    let mut later = snapshot(&State::new());
    // Now, revision, next sub, incarnation, last epoch, last lease, feature level.
    assert_eq!(later[9..16], [1, 1, 0, 0, 0, 0, 1]);
    later[15] = 77;
    assert_eq!(State::decode(&later).err(), Some(DecodeError::UnknownFeatureLevel(77)));
}

#[test]
fn errors_say_what_and_where() {
    let shown = |bytes: &[u8]| decode_entry(bytes).unwrap_err().to_string();
    assert_eq!(shown(&[]), "cut short at byte 0");
    assert_eq!(shown(&[1, 5, 0, 0]), "bytes left over at byte 3");
    assert_eq!(shown(&[7]), "format version 7 is not known to this build");
    let unknown = "command 99 comes from a later version and must not be passed over";
    assert_eq!(shown(&[1, 5, 1, 2, 99, 0]), unknown);
}

fn nested(depth: usize) -> Command {
    let mut txn = Txn { success: vec![Op::Put(put("k", "v", 0))], ..Txn::default() };
    for _ in 1..depth {
        txn = Txn { failure: vec![Op::Txn(Box::new(txn))], ..Txn::default() };
    }
    Command::from(Action::Txn(Box::new(txn)))
}

#[test]
fn a_transaction_too_deep_to_apply_stays_readable() {
    let outcome = |command: &Command| {
        let commands = vec![command.clone()];
        State::new().apply(Entry { at: LogTime(1), commands }).replies
    };
    for depth in [1, 8, 9, 15, 16] {
        let command = nested(depth);
        assert_eq!(decode_command(&encoded_command(&command)), Ok(command), "{depth} deep");
    }
    for depth in [17, 18, 1_000] {
        let command = nested(depth);
        let bytes = encoded_command(&command);
        let read = decode_command(&bytes).expect("it was just written");
        assert_eq!(outcome(&read), outcome(&nested(9)), "{depth} deep");
        fuzz_command(&bytes);
    }
    // Deeper than the writer ever goes: a list of one transaction in a list of one transaction.
    let mut bytes = encoded_command(&nested(1));
    bytes.truncate(5);
    bytes.extend([0, 1, 3].repeat(100_000));
    assert!(matches!(decode_command(&bytes), Err(DecodeError::Malformed(_))));
}

#[test]
fn a_state_returns_with_all_that_follows_from_it() {
    let state = rich_state();
    let bytes = snapshot(&state);
    let twin = State::decode(&bytes).expect("it was just written");
    assert_same(&state, &twin);
    assert_eq!(snapshot(&twin), bytes);
    assert_eq!(snapshot(&State::new()), snapshot(&State::default()));
    fuzz_snapshot(&bytes);
    // The script has reached what it is for.
    let shown = format!("{state:?}");
    let parts = [
        "OverBudget",
        "HoldMax(",
        "Orphans(",
        "Disconnected(",
        "Delay(",
        "Floor(",
        "Forced(",
        "Wait(",
        "Queued(",
        "Reserved(",
        "Acquired(",
        "Rejected(",
        "sole_lock: Some(",
        "Foreign",
        "grouped: true",
        "tokens: [Token",
        "KeyDue(",
        "stage: Active",
        "stage: Retired",
        "stage: Revoked",
    ];
    for part in parts {
        assert!(shown.contains(part), "nothing of {part} in the state");
    }
    assert!(state.next_deadline().is_some_and(|next| next <= state.now()), "nothing is overdue");
}

/// Compares all that a snapshot carries, and looks whether the rest follows from it.
fn assert_same(one: &State, two: &State) {
    assert_eq!(snapshot(one), snapshot(two));
    assert_eq!(one.hash(), two.hash());
    assert_eq!(one.next_deadline(), two.next_deadline());
    assert_eq!(one.audit(), Ok(()));
    assert_eq!(two.audit(), Ok(()));
}

#[test]
fn damage_never_panics() {
    for (bytes, read) in samples() {
        for len in 0..bytes.len() {
            read(&bytes[..len]);
        }
        for bit in 0..bytes.len() * 8 {
            let mut flipped = bytes.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            read(&flipped);
        }
    }
}

#[test]
fn a_huge_length_is_not_believed() {
    let huge = [0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x10];
    for (bytes, read) in samples() {
        for at in 0..bytes.len() {
            read(&[&bytes[..at], &huge, &bytes[at + 1..]].concat());
            read(&[&bytes[..at], &huge].concat());
        }
    }
}

type Sample = (Vec<u8>, fn(&[u8]));

fn samples() -> [Sample; 2] {
    [(encoded(&rich_entry()), fuzz_entry), (snapshot(&rich_state()), fuzz_snapshot)]
}

fn corpus(path: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/corpus").join(path)
}

fn write(path: &Path, bytes: &[u8]) {
    let folder = path.parent().expect("a file lies in a folder");
    fs::create_dir_all(folder).expect("the corpus can be written");
    fs::write(path, bytes).expect("the corpus can be written");
}

fn golden(path: &str, bytes: &[u8]) {
    let lines: Vec<String> = bytes
        .chunks(32)
        .map(|line| line.iter().map(|byte| format!("{byte:02x}")).collect())
        .collect();
    let text = lines.join("\n") + "\n";
    let path = corpus(path);
    if update_expect() {
        write(&path, text.as_bytes());
    }
    let expected = fs::read_to_string(&path).unwrap_or_default();
    assert!(text == expected, "{} differs: the format has changed", path.display());
}

// Requirements: S0-124, S0-125, S0-126.
#[test]
fn the_format_of_entries_is_as_it_was() {
    golden("golden/entry.hex", &encoded(&rich_entry()));
}

#[test]
fn the_format_of_snapshots_is_as_it_was() {
    golden("golden/snapshot.hex", &snapshot(&rich_state()));
}

/// What the corpus is seeded with. Findings of a fuzzer are added by hand, beside these.
fn seeds() -> Vec<(String, Vec<u8>)> {
    let mut seeds = vec![
        ("entry/every-action".into(), encoded(&rich_entry())),
        ("entry/stamp-only".into(), encoded(&Entry::default())),
        ("entry/length-beyond-the-end".into(), vec![1, 5, 1, 0xff, 0xff, 0x7f]),
        ("entry/overlong-number".into(), vec![1, 0x85, 0, 0]),
        ("command/later-skippable".into(), vec![99, 1, 0, 0, 0, 1, 2, 3]),
        ("command/later-not-skippable".into(), vec![99, 0, 0, 0, 0]),
        ("command/nested-transactions".into(), encoded_command(&nested(16))),
        ("command/nested-too-deep".into(), encoded_command(&nested(40))),
        ("snapshot/rich".into(), snapshot(&rich_state())),
        ("snapshot/fresh".into(), snapshot(&State::new())),
        ("snapshot/magic-only".into(), b"FPSTATE\0".to_vec()),
    ];
    for command in rich_entry().commands {
        let name = format!("command/action-{:02}", place(&command.action));
        seeds.push((name, encoded_command(&command)));
    }
    seeds
}

#[test]
fn the_corpus_passes() {
    if update_expect() {
        for (path, bytes) in seeds() {
            write(&corpus(&path), &bytes);
        }
    }
    let folders = ["entry", "command", "snapshot"];
    let checks: [fn(&[u8]); 3] = [fuzz_entry, fuzz_command, fuzz_snapshot];
    let mut seen = BTreeSet::new();
    for (folder, read) in folders.into_iter().zip(checks) {
        for file in fs::read_dir(corpus(folder)).unwrap() {
            let path = file.unwrap().path();
            read(&fs::read(&path).unwrap());
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            seen.insert(format!("{folder}/{name}"));
        }
    }
    for (path, _) in seeds() {
        assert!(seen.contains(&path), "{path} is missing");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// A replica that starts from a snapshot goes the same way as one that applied every entry.
    #[test]
    fn a_snapshot_goes_on_like_the_state_it_was_taken_from(
        steps in prop::collection::vec((0..37_u8, any::<u8>(), any::<u8>(), 0..2_000_u16), 1..120),
    ) {
        let mut state = State::new();
        let mut twin = State::new();
        for (seq, dice) in (1..).zip(steps) {
            // Some steps share a moment, most are close, a few are far apart.
            let passed = [0, 1, 50, 300, 4_000_000][usize::from(dice.2 % 16).saturating_sub(11)];
            let at = state.now().after(Millis(passed));
            let entry = Entry { at, commands: vec![random_command(dice, seq)] };
            let effects = state.apply(entry.clone());
            prop_assert_eq!(effects, twin.apply(entry));
            assert_same(&state, &twin);
            twin = State::decode(&snapshot(&twin)).expect("it was just written");
            assert_same(&state, &twin);
        }
    }

    /// Bytes that nearly are something are refused, or are something.
    #[test]
    fn changed_bytes_are_refused_or_mean_one_thing(
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
        snapshots in any::<bool>(),
    ) {
        let [entry, state] = samples();
        let (mut bytes, read) = if snapshots { state } else { entry };
        for (at, byte) in changes {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        read(&bytes);
    }
}
