//! The rows of the page.

use super::super::finding::Finding;
use super::super::source::numbered;
use super::PAGE;

/// Remarks begin so, and link to the page that says more.
const REMARKS: [&str; 2] = ["differs: ", "page: "];

/// One requirement, and what shows that it is met.
pub(super) struct Row<'a> {
    pub(super) line: usize,
    pub(super) id: &'a str,
    pub(super) requirement: &'a str,
    pub(super) shown_by: &'a str,
}

impl<'a> Row<'a> {
    /// The tests and scripts that are named, without their quotes.
    pub(super) fn references(&self) -> impl Iterator<Item = &'a str> {
        let (references, _) = split_remark(self.shown_by);
        let quoted = references.split(',').map(str::trim);
        quoted.filter_map(|one| one.strip_prefix('`')?.strip_suffix('`'))
    }
}

/// All table rows but headings and rulers, and a finding for each row of another shape.
pub(super) fn rows(text: &str) -> (Vec<Row<'_>>, Vec<Finding>) {
    let mut rows = Vec::new();
    let mut findings = Vec::new();
    for (line, content) in numbered(text).filter(|(_, content)| content.starts_with('|')) {
        match cells(content)[..] {
            ["id", "requirement", "shown by"] => {}
            [a, b, c] if [a, b, c].iter().all(|cell| is_ruler(cell)) => {}
            [id, requirement, shown_by] => rows.push(Row { line, id, requirement, shown_by }),
            _ => {
                let what = "not a row of three cells: write `| id | requirement | shown by |`, and `\\|` for a bar inside a cell";
                findings.push(Finding::new(PAGE, line, what));
            }
        }
    }
    (rows, findings)
}

fn cells(row: &str) -> Vec<&str> {
    let inner = row.trim().trim_start_matches('|');
    let mut cells = Vec::new();
    let mut from = 0;
    for (at, _) in inner.match_indices('|') {
        if !inner[..at].ends_with('\\') {
            cells.push(inner[from..at].trim());
            from = at + 1;
        }
    }
    // A row that does not end in a bar has one cell more.
    if !inner[from..].is_empty() {
        cells.push(inner[from..].trim());
    }
    cells
}

fn is_ruler(cell: &str) -> bool {
    !cell.is_empty() && cell.chars().all(|letter| letter == '-' || letter == ':')
}

/// The tests that are named, and what is remarked behind them. Whether the linked page exists is
/// the business of another rule.
pub(super) fn split_remark(cell: &str) -> (&str, Option<&str>) {
    let begins = |text: &str| REMARKS.iter().any(|word| text.starts_with(word));
    match cell.split_once("; ") {
        _ if begins(cell) => ("", Some(cell)),
        Some((references, remark)) if begins(remark) => (references, Some(remark)),
        _ => (cell, None),
    }
}
