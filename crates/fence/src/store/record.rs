//! What a store knows about one key, and the line that says it.
//!
//! Owns: the decision about a write, beside what the place refuses where records are kept. A line
//! holds everything about one key after one write: its mark and its data.

use serde::{Deserialize, Serialize};

use crate::mark_text;
use crate::rule::{Mark, Refusal, Repeats};
use crate::token::{Mode, Presented, Token};

/// What is known about one key: who wrote it last with which token, and the mark of all tokens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    mark: Mark,
    /// Who wrote last.
    pub client_id: String,
    /// With which token.
    pub presented: Presented,
    /// What was written.
    pub data: String,
}

#[derive(Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct Line {
    key: String,
    mark: String,
    #[serde(rename = "clientID")]
    client_id: String,
    value: u64,
    mode: String,
    data: String,
}

impl Record {
    /// What is known after a write, if the rule allows it.
    ///
    /// # Errors
    ///
    /// Why the token may not write.
    pub fn after_write(
        old: Option<&Record>,
        client_id: String,
        presented: Presented,
        data: String,
        repeats: Repeats,
    ) -> Result<Record, Refusal> {
        let mut mark = old.map(|record| record.mark.clone()).unwrap_or_default();
        let is_same = old.is_some_and(|old| old.presented == presented && old.data == data);
        mark.present_data(presented, repeats, is_same)?;
        Ok(Record { mark, client_id, presented, data })
    }

    /// The highest exclusive token that has written.
    pub fn highest(&self) -> Option<Token> {
        self.mark.highest()
    }

    /// The line of this record under its key.
    pub fn to_line(&self, key: &str) -> String {
        let line = Line {
            key: key.to_owned(),
            mark: mark_text::write(&self.mark),
            client_id: self.client_id.clone(),
            value: self.presented.token.get(),
            mode: self.presented.mode.name().to_owned(),
            data: self.data.clone(),
        };
        serde_json::to_string(&line).expect("texts and numbers can be written as JSON")
    }

    /// Reads a line: the key, and what is known about it.
    ///
    /// # Errors
    ///
    /// What is wrong with the line.
    pub fn parse(line: &str) -> Result<(String, Record), String> {
        let line: Line = serde_json::from_str(line).map_err(|error| error.to_string())?;
        let mark = mark_text::read(&line.mark).ok_or("this is no mark")?;
        let token = Token::try_from(line.value).map_err(|error| error.to_string())?;
        let mode: Mode = line.mode.parse().map_err(|_| "this is no mode")?;
        let presented = Presented { token, mode };
        let record = Record { mark, client_id: line.client_id, presented, data: line.data };
        Ok((line.key, record))
    }

    /// Bytes of the key and its texts.
    pub(super) fn size(&self, key: &str) -> usize {
        key.len() + self.client_id.len() + self.data.len()
    }
}
