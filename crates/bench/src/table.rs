//! Tables for pages, and numbers as people read them.

use crate::figures::Spread;

/// A table in Markdown. The first column is text, the others are numbers.
pub fn markdown(headings: &[&str], rows: &[Vec<String>]) -> String {
    let mut out = row(headings.iter().copied());
    let rule = headings.iter().enumerate().map(|(at, _)| if at == 0 { "---" } else { "---:" });
    out.push_str(&row(rule));
    for cells in rows {
        out.push_str(&row(cells.iter().map(String::as_str)));
    }
    out
}

fn row<'a>(cells: impl Iterator<Item = &'a str>) -> String {
    let cells: Vec<&str> = cells.collect();
    format!("| {} |\n", cells.join(" | "))
}

/// The median, and between what the repetitions lay.
pub fn spread(spread: Option<Spread>) -> String {
    match spread {
        Some(Spread { median, runs: 1, .. }) => number(median),
        Some(Spread { median, min, max, .. }) => {
            format!("{} [{}..{}]", number(median), number(min), number(max))
        }
        None => "-".to_owned(),
    }
}

/// Three digits that matter, and thousands set apart.
pub fn number(value: f64) -> String {
    if !value.is_finite() {
        return "-".to_owned();
    }
    match value.abs() {
        size if size >= 100.0 => grouped(value),
        size if size >= 10.0 => format!("{value:.1}"),
        size if size >= 0.995 => format!("{value:.2}"),
        _ => format!("{value:.3}"),
    }
}

fn grouped(value: f64) -> String {
    let plain = format!("{value:.0}");
    let (sign, digits) = plain.strip_prefix('-').map_or(("", plain.as_str()), |rest| ("-", rest));
    let mut out = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    format!("{sign}{out}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_as_long_as_they_matter() {
        assert_eq!(number(0.123_4), "0.123");
        assert_eq!(number(1.5), "1.50");
        assert_eq!(number(12.34), "12.3");
        assert_eq!(number(123.4), "123");
        assert_eq!(number(1_234_567.0), "1,234,567");
        assert_eq!(number(-1_234.0), "-1,234");
        assert_eq!(number(f64::NAN), "-");
    }

    #[test]
    fn one_run_has_no_spread() {
        let one = Spread { median: 5.0, min: 5.0, max: 5.0, runs: 1 };
        assert_eq!(spread(Some(one)), "5.00");
        let three = Spread { median: 5.0, min: 4.0, max: 2_000.0, runs: 3 };
        assert_eq!(spread(Some(three)), "5.00 [4.00..2,000]");
        assert_eq!(spread(None), "-");
    }

    #[test]
    fn a_table_is_markdown() {
        let table = markdown(&["system", "per s"], &[vec!["etcd".into(), "5".into()]]);
        assert_eq!(table, "| system | per s |\n| --- | ---: |\n| etcd | 5 |\n");
    }
}
