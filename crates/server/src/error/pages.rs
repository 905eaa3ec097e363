//! What the documentation says about each code, for those who want to be told with the error.

/// Every page of `docs/errors`, by its code, in order.
const PAGES: &[(&str, &str)] = include!(concat!(env!("OUT_DIR"), "/error_pages.rs"));

/// What the documentation says about a code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page {
    /// What it means, in one line.
    pub meaning: String,
    /// What to do about it, in one line.
    pub remedy: String,
}

/// The page of a code, if there is one.
#[must_use]
pub fn page(code: &str) -> Option<Page> {
    const HEADING: &str = "**What to do.**";
    let place = PAGES.binary_search_by_key(&code, |(code, _)| code).ok()?;
    let (_, text) = PAGES[place];
    let (_, body) = text.split_once("\n\n")?;
    let (_, rest) = text.split_once(HEADING)?;
    Some(Page { meaning: paragraph(body), remedy: paragraph(rest) })
}

/// The first paragraph, in one line.
fn paragraph(text: &str) -> String {
    let first = text.split("\n\n").next().unwrap_or(text);
    first.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_page_says_what_it_means_and_what_to_do() {
        assert!(PAGES.len() > 50, "{} pages", PAGES.len());
        for (code, _) in PAGES {
            let page = page(code).expect("it is there");
            assert!(!page.meaning.is_empty() && !page.meaning.starts_with('*'), "{code}");
            assert!(!page.remedy.is_empty(), "{code}");
        }
        assert_eq!(page("no_such_code"), None);
    }
}
