//! Lines that do not come from `tracing`, in the same shape as those that do.

use serde_json::{Map, Value, json};
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::time::{FormatTime as _, SystemTime};

use super::Format;

/// Where such lines come from.
const TARGET: &str = "fencepost";

/// A message about so many lines.
pub(super) fn render(format: Format, level: &str, message: &str, lines: u64) -> String {
    match format {
        Format::Text => format!("{} {level:>5} {message} lines={lines}\n", now()),
        Format::Json => {
            let mut fields = Map::new();
            fields.insert("lines".to_owned(), lines.into());
            object(level, message, fields)
        }
    }
}

/// One line of JSON.
pub(super) fn json(level: &str, message: &str, fields: &[(&str, String)]) -> String {
    let field = |(name, value): &(&str, String)| ((*name).to_owned(), Value::from(value.clone()));
    object(level, message, fields.iter().map(field).collect())
}

fn object(level: &str, message: &str, mut fields: Map<String, Value>) -> String {
    fields.insert("message".to_owned(), message.into());
    let line = json!({
        "timestamp": now(),
        "level": level,
        "fields": fields,
        "target": TARGET,
    });
    format!("{line}\n")
}

/// The time as `tracing` writes it.
fn now() -> String {
    let mut text = String::new();
    // It fails only if the text does, which grows.
    let _ = SystemTime.format_time(&mut Writer::new(&mut text));
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn message_of_many_lines_is_one_line_of_json() {
        let line = json("ERROR", "what\nwhy\nremedy", &[("data", "/tmp".to_owned())]);
        assert_eq!(line.lines().count(), 1);
        let parsed: Value = serde_json::from_str(&line).expect("it is JSON");
        assert_eq!(parsed["fields"]["message"], "what\nwhy\nremedy");
        assert_eq!(parsed["fields"]["data"], "/tmp");
        assert!(parsed["timestamp"].as_str().is_some_and(|time| time.ends_with('Z')), "{line}");
    }
}
