//! What a verb says on standard output: tables for people, JSON for programs.
//!
//! Guarantees: one JSON document stands on one line, and its fields are those of `docs/cli.md`.
//! Tables have borders only on a terminal; what is piped is plain text in columns.

use std::io::{self, IsTerminal as _, Write as _};

use anyhow::Context as _;
use clap::ValueEnum;
use comfy_table::{ContentArrangement, Table, presets};
use serde::Serialize;

/// How the answer is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// For people.
    #[default]
    Table,
    /// For programs: one document on a line.
    Json,
}

/// Writes answers in the form that was asked for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Output {
    format: Format,
}

impl Output {
    pub(crate) fn new(format: Format) -> Output {
        Output { format }
    }

    pub(crate) fn is_json(self) -> bool {
        self.format == Format::Json
    }

    /// Writes a document for programs, or `text` for people.
    pub(crate) fn either(self, document: &impl Serialize, text: &str) -> anyhow::Result<()> {
        line(&self.rendered(document, text)?)
    }

    /// The same line, for a caller that writes it itself.
    pub(crate) fn rendered(self, document: &impl Serialize, text: &str) -> anyhow::Result<String> {
        if self.is_json() { document_text(document) } else { Ok(text.to_owned()) }
    }
}

/// Writes one document on one line.
pub(crate) fn json(document: &impl Serialize) -> anyhow::Result<()> {
    line(&document_text(document)?)
}

fn document_text(document: &impl Serialize) -> anyhow::Result<String> {
    serde_json::to_string(document).context("an answer cannot be written as JSON")
}

/// Writes a line, at once: whoever reads may wait for it.
pub(crate) fn line(text: &str) -> anyhow::Result<()> {
    let mut out = io::stdout().lock();
    writeln!(out, "{text}")?;
    out.flush()?;
    Ok(())
}

/// Writes a table.
pub(crate) fn table(headings: &[&str], rows: Vec<Vec<String>>) -> anyhow::Result<()> {
    let mut table = Table::new();
    if io::stdout().is_terminal() {
        table.load_style(presets::UTF8_FULL_CONDENSED);
        table.set_content_arrangement(ContentArrangement::Dynamic);
    } else {
        table.load_style(presets::NOTHING);
    }
    table.set_header(headings.iter().copied());
    table.add_rows(rows);
    if !io::stdout().is_terminal() {
        for column in table.column_iter_mut() {
            column.set_padding((0, 2));
        }
    }
    line(&table.trim_fmt())
}
