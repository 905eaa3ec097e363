//! What `docs/http.md` says must be true: every line of its consoles is run, and answered as it is
//! written there.

#[path = "lock_support/mod.rs"]
mod lock_support;

use std::process::Command;

use lock_support::Server;

const PAGE: &str = include_str!("../../../docs/http.md");

/// Every line that is run, and what it prints.
fn lines() -> Vec<(String, String)> {
    let mut lines: Vec<(String, String)> = Vec::new();
    for block in PAGE.split("```console\n").skip(1) {
        let block = block.split("```").next().unwrap_or_default();
        for line in block.lines() {
            match (line.strip_prefix("$ "), lines.last_mut()) {
                (Some(line), _) => lines.push((line.to_owned(), String::new())),
                (None, Some((_, printed))) => *printed += &format!("{line}\n"),
                (None, None) => panic!("{line} is printed by nothing"),
            }
        }
    }
    lines
}

/// Times pass, and the log grows with the term; all else is as it is written.
fn without_times(text: &str) -> String {
    let mut kept = String::new();
    let mut rest = text;
    while let Some((before, after)) = ["_ms\":", "\"epoch\":"]
        .iter()
        .filter_map(|field| rest.find(field).map(|place| place + field.len()))
        .min()
        .map(|place| rest.split_at(place))
    {
        kept.push_str(before);
        kept.push('_');
        rest = after.trim_start_matches(|digit: char| digit.is_ascii_digit());
    }
    kept + rest
}

#[test]
fn every_line_of_the_page_is_answered_as_it_is_written() {
    if Command::new("curl").arg("--version").output().is_err() {
        fencepost_testkit::skip("curl is missing", "apt-get install curl");
        return;
    }
    let server = Server::start();
    let address = server.endpoint().trim_start_matches("http://").to_owned();
    let lines = lines();
    assert!(lines.len() > 20, "{}", lines.len());
    for (line, expected) in lines {
        let mut shell = Command::new("sh");
        shell.args(["-c", &line.replace("localhost:7420", &address)]);
        let output = shell.output().expect("there is a shell");
        let printed = String::from_utf8(output.stdout).expect("it is text");
        let told = String::from_utf8_lossy(&output.stderr);
        assert!(!printed.is_empty(), "{line}: {told}");
        if !expected.is_empty() {
            let (printed, expected) =
                (without_times(printed.trim()), without_times(expected.trim()));
            assert_eq!(printed, expected, "{line}");
        }
    }
}
