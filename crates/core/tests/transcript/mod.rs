//! Runs the scripts in `tests/scripts`. Their language is described in `tests/scripts/README.md`.

mod ask;
mod lock_words;
mod machine;
mod ops;
mod print;
mod script;
mod verb;
mod words;

use std::fmt::Write;
use std::path::{Path, PathBuf};

use machine::Machine;
use script::{Fault, Script};

/// Where the scripts are.
pub(crate) fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests").join("scripts")
}

/// Runs one script and compares what it says with what it should say.
///
/// With `UPDATE_EXPECT=1` in the environment, the script is rewritten instead.
pub(crate) fn run(name: &str) {
    let path = folder().join(format!("{name}.txt"));
    let text = std::fs::read_to_string(&path).expect("every listed script is a readable file");
    let (script, outputs) =
        play(&text).unwrap_or_else(|(line, why)| panic!("{name}.txt:{line}: {why}"));
    if fencepost_testkit::update_expect() {
        let updated = script.with_outputs(&outputs);
        if updated != text {
            std::fs::write(&path, updated).expect("a script can be rewritten");
        }
        return;
    }
    let mut wrong = String::new();
    for (block, output) in script.blocks.iter().zip(&outputs) {
        if block.expected != *output {
            let (line, want) = (block.line, &block.expected);
            write!(wrong, "\n{name}.txt:{line}: expected\n{want}but got\n{output}")
                .expect("writing to a string cannot fail");
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}

/// Runs all blocks of a script. Answers with what each has to say.
fn play(text: &str) -> Result<(Script, Vec<String>), Fault> {
    let script = Script::parse(text)?;
    let mut machine = Machine::new();
    let outputs: Result<Vec<String>, Fault> =
        script.blocks.iter().map(|block| machine.run(&block.inputs)).collect();
    Ok((script, outputs?))
}

/// A word that nobody understands must not pass for one that does nothing.
#[test]
fn mistakes_in_a_script_name_their_line() {
    for (line, text) in [
        (1, "put k v\n----\n"),
        (2, "# x\nputt k v\n----\n"),
        (3, "# x\nput k v\nput k v leese=1\n----\n"),
        (2, "# x\nput k v ack=1\n----\n"),
        (2, "# x\nlease 1 ttl=soon\n----\n"),
        (2, "# x\nlimits nothing_max=1\n----\n"),
        (2, "# x\nshow a b\n----\n"),
        (2, "# x\n+ put k v\n----\n"),
        (3, "# x\nshow a\n+ put k v\n----\n"),
        (2, "# x\ntxn then put k\n----\n"),
        (2, "# x\nput k v\n"),
        (2, "# x\n----\n"),
    ] {
        let fault = play(text).err().expect("a mistake is no script");
        assert_eq!(fault.0, line, "{text}: {}", fault.1);
    }
}
