//! Marks that outlive their keeper.

#![expect(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

use std::collections::BTreeSet;
use std::fs;
use std::sync::Arc;
use std::thread;

use fencepost_fence::{
    Error, FileMarks, Floor, MarkStore, MemoryMarks, OpenError, Presented, Refusal, Repeats, Token,
};

fn exclusive(number: u64) -> Presented {
    Presented::exclusive(Token::new(number).unwrap())
}

fn accepts(marks: &dyn MarkStore, resource: &str, number: u64) -> bool {
    match marks.present(resource, exclusive(number), Repeats::Accepted) {
        Ok(()) => true,
        Err(Error::Refused(Refusal::Stale { .. })) => false,
        Err(other) => panic!("neither accepted nor stale: {other}"),
    }
}

/// The same for every keeper.
fn each_keeper(check: impl Fn(&dyn MarkStore)) {
    check(&MemoryMarks::new());
    let folder = tempfile::tempdir().unwrap();
    check(&FileMarks::open(folder.path().join("marks")).unwrap());
}

// Requirements: S1-020.
#[test]
fn resources_do_not_know_each_other() {
    each_keeper(|marks| {
        assert!(accepts(marks, "a", 10));
        assert!(accepts(marks, "b", 5));
        assert!(!accepts(marks, "a", 9));
        assert!(accepts(marks, "b", 6));
        assert!(accepts(marks, "a", 10));
        assert_eq!(marks.mark("a").unwrap().highest(), Token::new(10));
        assert_eq!(marks.mark("c").unwrap().highest(), None);
    });
}

#[test]
fn names_have_bounds() {
    each_keeper(|marks| {
        for name in [String::new(), "x".repeat(1_025)] {
            let outcome = marks.present(&name, exclusive(1), Repeats::Accepted);
            assert!(matches!(outcome, Err(Error::Name(_))), "{outcome:?}");
        }
        assert!(accepts(marks, &"x".repeat(1_024), 1));
    });
}

#[test]
fn many_threads_agree_on_the_highest() {
    each_keeper(|marks| {
        thread::scope(|scope| {
            for start in 0..4_u64 {
                scope.spawn(move || {
                    for round in 0..50 {
                        accepts(marks, "a", 1 + start + 4 * round);
                    }
                });
            }
        });
        assert_eq!(marks.mark("a").unwrap().highest(), Token::new(200));
        assert!(!accepts(marks, "a", 199));
    });
}

#[test]
fn a_file_of_marks_survives_its_keeper() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("marks");
    let odd = "a name\nwith \\ everything ";
    let marks = FileMarks::open(&path).unwrap();
    assert!(accepts(&marks, odd, 7));
    assert!(accepts(&marks, "plain", 3));
    let floor = Floor {
        below: Token::new(5),
        taken: BTreeSet::from([Token::new(8).unwrap(), Token::new(9).unwrap()]),
    };
    marks.raise_floor("plain", &floor).unwrap();
    drop(marks);
    let marks = FileMarks::open(&path).unwrap();
    assert!(!accepts(&marks, odd, 6));
    assert_eq!(marks.mark("plain").unwrap().floor(), floor);
    let outcome = marks.present("plain", exclusive(8), Repeats::Accepted);
    assert!(matches!(outcome, Err(Error::Refused(Refusal::Taken { .. }))), "{outcome:?}");
}

#[test]
fn a_file_of_marks_is_written_anew_before_it_grows_large() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("marks");
    let marks = FileMarks::open(&path).unwrap();
    let mut largest = 0;
    for number in 1..=1_500 {
        assert!(accepts(&marks, "a", number));
        largest = largest.max(fs::metadata(&path).unwrap().len());
    }
    assert!(largest < 60_000, "{largest} bytes for one mark");
    drop(marks);
    let marks = FileMarks::open(&path).unwrap();
    assert!(!accepts(&marks, "a", 1_499));
    assert!(accepts(&marks, "a", 1_500));
}

#[test]
fn a_torn_last_line_of_marks_is_survived() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("marks");
    let marks = FileMarks::open(&path).unwrap();
    assert!(accepts(&marks, "a", 7));
    let durable = usize::try_from(fs::metadata(&path).unwrap().len()).unwrap();
    assert!(accepts(&marks, "a", 8));
    drop(marks);
    let whole = fs::read(&path).unwrap();
    for cut in durable..whole.len() {
        fs::write(&path, &whole[..cut]).unwrap();
        let marks = FileMarks::open(&path).unwrap();
        assert_eq!(marks.mark("a").unwrap().highest(), Token::new(7), "cut at {cut}");
        assert!(accepts(&marks, "a", 8));
    }
}

#[test]
fn two_keepers_cannot_share_a_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("marks");
    let first = Arc::new(FileMarks::open(&path).unwrap());
    assert!(matches!(FileMarks::open(&path), Err(OpenError::InUse(_))));
    drop(first);
    FileMarks::open(&path).unwrap();
}
