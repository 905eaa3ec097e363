//! Options that are for the chore itself, taken out of those for the load generator.

use anyhow::ensure;

/// Takes a flag out of the options, and says whether it was there.
pub(super) fn take_flag(options: &mut Vec<String>, name: &str) -> bool {
    let before = options.len();
    options.retain(|option| option != name);
    options.len() < before
}

/// Takes `--name value` or `--name=value` out of the options.
pub(super) fn take_value(options: &mut Vec<String>, name: &str) -> anyhow::Result<Option<String>> {
    let Some((at, value)) = find(options, name)? else {
        return Ok(None);
    };
    let is_spelled_apart = options.get(at).is_some_and(|option| option == name);
    options.drain(at..=at + usize::from(is_spelled_apart));
    Ok(Some(value))
}

/// The value of `--name value` or `--name=value`, left where it is.
pub(super) fn value(options: &[String], name: &str) -> anyhow::Result<Option<String>> {
    Ok(find(options, name)?.map(|(_, value)| value))
}

fn find(options: &[String], name: &str) -> anyhow::Result<Option<(usize, String)>> {
    let spelled = format!("{name}=");
    let Some(at) = options.iter().position(|one| one == name || one.starts_with(&spelled)) else {
        return Ok(None);
    };
    if let Some(value) = options.get(at).and_then(|option| option.strip_prefix(&spelled)) {
        return Ok(Some((at, value.to_owned())));
    }
    let next = options.get(at + 1);
    ensure!(next.is_some_and(|value| !value.starts_with('-')), "{name} needs a value");
    Ok(next.map(|value| (at, value.clone())))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<String> {
        text.split_whitespace().map(str::to_owned).collect()
    }

    #[test]
    fn a_value_is_taken_out_in_both_spellings() {
        for text in ["--quick --baseline main -o json", "--quick --baseline=main -o json"] {
            let mut options = words(text);
            let kept = value(&options, "--baseline").expect("it has a value");
            assert_eq!(kept.as_deref(), Some("main"));
            let taken = take_value(&mut options, "--baseline").expect("it has a value");
            assert_eq!(taken.as_deref(), Some("main"));
            assert_eq!(options, words("--quick -o json"));
        }
    }

    #[test]
    fn what_is_not_there_is_not_taken() {
        let mut options = words("--quick");
        assert_eq!(take_value(&mut options, "--baseline").expect("nothing is wrong"), None);
        assert!(!take_flag(&mut options, "--realtime"));
        assert_eq!(options, words("--quick"));
    }

    #[test]
    fn an_option_without_its_value_is_refused() {
        for text in ["--baseline", "--baseline --quick"] {
            take_value(&mut words(text), "--baseline").expect_err("there is no value");
        }
    }
}
