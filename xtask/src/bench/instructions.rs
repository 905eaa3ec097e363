//! `cargo xtask bench --instructions`: how many instructions the core's hot commands take, beside what
//! they took when the snapshot was made.
//!
//! Guarantees: it ends with an error if a case takes more than 15 % more than in the snapshot, if a
//! case is not in it, or if one of it was not measured. `--bless` writes the snapshot instead.

use std::fmt::Write as _;
use std::fs;
use std::io::{self, Write as _};
use std::path::Path;

use anyhow::{Context as _, bail, ensure};

use super::build::Build;
use crate::command::cargo_output;
use crate::stores;

const SNAPSHOT: &str = "crates/core/benches/instructions.snap";
const BENCH: [&str; 5] = ["bench", "--package", "fencepost-core", "--bench", "instructions"];
/// The function within which callgrind counts. It writes a file whenever that function is left.
const COUNTED: &str = "instructions::measured";
/// How much more a case may take.
const RATIO_MAX: f64 = 1.15;

/// What one repetition of a case takes.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Count {
    /// What it does, and how many locks are held beside it.
    case: String,
    instructions: u64,
}

pub(super) fn run(root: &Path, is_blessed: bool) -> anyhow::Result<()> {
    stores::need_valgrind()?;
    let now = measure(root)?;
    let path = root.join(SNAPSHOT);
    if is_blessed {
        fs::write(&path, write(&now)).with_context(|| format!("cannot write {SNAPSHOT}"))?;
        eprintln!("==> {SNAPSHOT} is written: {} cases", now.len());
        return Ok(());
    }
    let text = fs::read_to_string(&path).with_context(|| {
        format!("cannot read {SNAPSHOT}: `cargo xtask bench --instructions --bless` makes it")
    })?;
    let (table, wrong) = compare(&read(&text)?, &now);
    writeln!(io::stdout(), "{table}")?;
    ensure!(wrong.is_empty(), "{}", wrong.join("; "));
    Ok(())
}

fn measure(root: &Path) -> anyhow::Result<Vec<Count>> {
    let folder = Build::new(root, false).common.join("bench/callgrind");
    if folder.exists() {
        fs::remove_dir_all(&folder).context("cannot remove the last counts")?;
    }
    fs::create_dir_all(&folder)?;
    let out = folder.join("out");
    let shown = out.to_str().context("the target directory has a name that is no text")?;
    let runner = [
        "valgrind",
        "--quiet",
        "--tool=callgrind",
        &format!("--callgrind-out-file={shown}"),
        &format!("--toggle-collect={COUNTED}"),
        &format!("--dump-after={COUNTED}"),
    ]
    .map(|word| format!("{word:?}"))
    .join(",");
    let config = format!("target.\"cfg(unix)\".runner=[{runner}]");
    let lines = cargo_output(root, &[&BENCH[..], &["--config", &config]].concat())?;
    let file = |number: usize| fs::read_to_string(folder.join(format!("out.{number}")));
    let cases = lines.lines().filter(|line| line.contains('\t'));
    let counts = cases.zip(1..).map(|(line, number)| count(line, &file(number)?));
    let counts: Vec<Count> = counts.collect::<anyhow::Result<_>>()?;
    ensure!(!counts.is_empty(), "the bench names no cases");
    Ok(counts)
}

/// One case: its line, and the file that callgrind wrote about it.
fn count(line: &str, file: &str) -> anyhow::Result<Count> {
    let [what, size, repeats] = line.split('\t').collect::<Vec<_>>()[..] else {
        bail!("`{line}` is no case");
    };
    let total = file.lines().find_map(|line| line.strip_prefix("summary: "));
    let total: u64 = total.context("callgrind has counted nothing")?.trim().parse()?;
    ensure!(total > 0, "callgrind has counted nothing for {what}: is {COUNTED} inlined?");
    let repeats: u64 = repeats.parse()?;
    let instructions = total.checked_div(repeats).context("a case that was not repeated")?;
    Ok(Count { case: format!("{what}/{size}"), instructions })
}

const HEAD: &str = "\
# Instructions of one repetition of each case, beside so many held locks, as callgrind counts them.
# Written by `cargo xtask bench --instructions --bless`.
";

fn write(counts: &[Count]) -> String {
    let mut out = HEAD.to_owned();
    for Count { case, instructions } in counts {
        let _ = writeln!(out, "{case:<28} {instructions:>9}");
    }
    out
}

fn read(text: &str) -> anyhow::Result<Vec<Count>> {
    let line = |line: &str| {
        let (case, number) = line.split_once(char::is_whitespace)?;
        Some(Count { case: case.to_owned(), instructions: number.trim().parse().ok()? })
    };
    text.lines()
        .filter(|line| !line.is_empty() && !line.starts_with('#'))
        .map(|text| line(text).with_context(|| format!("{SNAPSHOT}: `{text}` is no count")))
        .collect()
}

/// The table, and what is wrong.
#[expect(clippy::cast_precision_loss, reason = "a ratio for people")]
fn compare(old: &[Count], new: &[Count]) -> (String, Vec<String>) {
    let before = |case: &str| old.iter().find(|one| one.case == case).map(|one| one.instructions);
    let mut table = format!("{:<28} {:>9} {:>9} {:>6}", "case", "old", "new", "ratio");
    let mut wrong = Vec::new();
    for Count { case, instructions } in new {
        let Some(old) = before(case).filter(|old| *old > 0) else {
            let _ = write!(table, "\n{case:<28} {:>9} {instructions:>9}      -  NEW", "-");
            wrong.push(format!("{case} is not in {SNAPSHOT}: `--bless` puts it there"));
            continue;
        };
        let ratio = *instructions as f64 / old as f64;
        let is_worse = ratio > RATIO_MAX;
        let mark = if is_worse { "  WORSE" } else { "" };
        let _ = write!(table, "\n{case:<28} {old:>9} {instructions:>9} {ratio:>6.3}{mark}");
        if is_worse {
            wrong.push(format!("{case} takes {ratio:.2} times the instructions of the snapshot"));
        }
    }
    let is_gone = |one: &&Count| !new.iter().any(|now| now.case == one.case);
    for gone in old.iter().filter(is_gone) {
        wrong.push(format!("{} is in {SNAPSHOT}, but was not measured", gone.case));
    }
    (table, wrong)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(all: &[(&str, u64)]) -> Vec<Count> {
        let one = |&(case, instructions): &(&str, u64)| Count { case: case.into(), instructions };
        all.iter().map(one).collect()
    }

    #[test]
    fn a_count_is_that_of_one_repetition() {
        let file = "events: Ir\nsummary: 1225454\n\nob=(6) somewhere\ntotals: 1225454\n";
        let read = count("put\t1000\t200", file).expect("it is a case");
        assert_eq!(read, counts(&[("put/1000", 6_127)]).remove(0));
        count("put\t1000\t200", "summary: 0\n").expect_err("nothing was counted");
        count("put\t1000\t0", file).expect_err("nothing was repeated");
    }

    #[test]
    fn what_is_written_is_read() {
        let all = counts(&[("put/1000", 4_684), ("renew-100/100000", 169_974)]);
        assert_eq!(read(&write(&all)).expect("it was written by us"), all);
        read("put/1000 many\n").expect_err("that is no number");
    }

    #[test]
    fn fifteen_percent_is_the_limit() {
        let old = counts(&[("a/1", 1_000), ("b/1", 1_000), ("c/1", 1_000)]);
        let new = counts(&[("a/1", 1_150), ("b/1", 1_151), ("c/1", 10)]);
        let (table, wrong) = compare(&old, &new);
        assert_eq!(wrong.len(), 1, "{wrong:?}");
        assert!(wrong.iter().all(|line| line.starts_with("b/1 takes 1.15 times")), "{wrong:?}");
        assert_eq!(table.matches("WORSE").count(), 1, "{table}");
    }

    #[test]
    fn cases_that_come_and_go_are_told() {
        let (_, wrong) = compare(&counts(&[("old/1", 1)]), &counts(&[("new/1", 1)]));
        assert_eq!(wrong.len(), 2, "{wrong:?}");
    }
}
