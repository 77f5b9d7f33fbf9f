//! Two databases meet without a server: over a pipe that breaks anywhere, with somebody who talks
//! nonsense, with removed and denied documents; and what is told is durable at both ends.

use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use shoal_crdt::{ActorId, CommitOptions, Document, ROOT};
use shoal_server::pair::{self, LeftAlone, PairError, PairOptions, PairReport, Refusal};
use shoal_server::{DocumentId, Error, Limits};
use tokio::io::{
    AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, DuplexStream, ReadBuf, duplex,
};
use tokio::time::timeout;

use crate::{copy, heads, keys, open, options, put};

async fn meet(one: &Path, other: &Path) -> PairReport {
    let meeting = pair::files(options(one), other.to_owned());
    timeout(Duration::from_secs(60), meeting).await.unwrap().unwrap()
}

struct Two {
    _folder: tempfile::TempDir,
    a: PathBuf,
    b: PathBuf,
}

/// Two databases: one document the same in both, one that diverged, one of each alone.
fn two() -> Two {
    let folder = tempfile::tempdir().unwrap();
    let [a, b] = ["a.db", "b.db"].map(|name| folder.path().join(name));
    let id = DocumentId::from_bytes([7; 16]).to_string();
    put(&a, "same", "x", 1);
    put(&a, "both", "x", 1);
    put(&a, &id, "x", 1);
    copy(&a, &b);
    for value in 0..40 {
        put(&a, "both", &format!("a{}", value % 4), value);
    }
    put(&b, "both", "b", 1);
    put(&b, &id, "b", 1);
    put(&a, "only a", "x", 1);
    put(&b, "only/b", "x", 1);
    Two { _folder: folder, a, b }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn diverged_databases_are_the_same_afterwards_and_the_second_meeting_moves_nothing() {
    let Two { a, b, .. } = &two();
    let report = meet(a, b).await;
    assert_eq!(heads(a), heads(b));
    assert_eq!(keys(a, "both"), ["a0", "a1", "a2", "a3", "b", "x"]);
    let counts: Vec<_> = report
        .documents
        .iter()
        .map(|document| (document.name.as_str(), document.received, document.sent))
        .collect();
    let id = DocumentId::from_bytes([7; 16]).to_string();
    let expected = [(id.as_str(), 1, 0), ("both", 1, 40), ("only a", 0, 1), ("only/b", 1, 0)];
    assert_eq!(counts, expected);
    assert_eq!((report.same, report.failed.len(), report.left_alone.len()), (1, 0, 0));

    let again = meet(a, b).await;
    assert_eq!((again.documents.len(), again.same), (0, 5));
    // A line for each document, and no frame of the exchange.
    assert!(again.bytes_in < 700 && again.bytes_out < 700, "{again:?}");

    // An edit moves one document, and not the others.
    put(b, "same", "later", 1);
    let third = meet(a, b).await;
    assert_eq!((third.documents.len(), third.same), (1, 4));
    assert!(third.bytes_in < 2_500, "{third:?}");
    assert_eq!(heads(a), heads(b));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_meeting_about_some_documents_leaves_the_others() {
    let Two { a, b, .. } = &two();
    let url = DocumentId::from_bytes([7; 16]).url();
    let documents = vec!["only/b".to_owned(), url];
    let report = pair::files(PairOptions { documents, ..options(a) }, b.clone()).await.unwrap();
    assert_eq!(report.documents.len(), 2);
    assert_eq!(keys(a, "only/b"), ["x"]);
    assert!(open(b).load("only a").is_err());
    let documents = vec!["nothing".to_owned()];
    let error = pair::files(PairOptions { documents, ..options(a) }, b.clone()).await.unwrap_err();
    assert!(matches!(error, Error::Pair(PairError::NoDocument { .. })), "{error}");
    let error = pair::files(options(a), a.clone()).await.unwrap_err();
    assert!(matches!(error, Error::Pair(PairError::SameFile)), "{error}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn removed_and_denied_documents_stay_away() {
    let Two { a, b, .. } = &two();
    open(a).remove("same").unwrap();
    open(b).set_denied("only a", true).unwrap();
    open(a).set_denied("a name of no document", true).unwrap();
    let report = meet(a, b).await;
    let left = |name: &str, is_ours, why| LeftAlone { name: name.to_owned(), is_ours, why };
    let expected = [left("only a", false, Refusal::Denied), left("same", true, Refusal::Removed)];
    assert_eq!(report.left_alone, expected);
    assert!(open(a).load("same").is_err());
    assert!(open(b).load("only a").is_err());
    assert_eq!(keys(b, "same"), ["x"]);
    // The other way round, the same.
    let report = meet(b, a).await;
    assert_eq!(report.left_alone.iter().map(|it| it.is_ours).collect::<Vec<_>>(), [true, false]);
    assert!(open(a).load("same").is_err());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn documents_begun_apart_are_merged_only_when_asked_to() {
    let Two { a, b, .. } = &two();
    put(a, "note", "a", 1);
    put(b, "note", "b", 1);
    let report = meet(a, b).await;
    assert_eq!(report.failed.len(), 1, "{report:?}");
    assert_eq!(report.failed[0].0, "note");
    assert!(report.failed[0].1.contains("no change in common"), "{report:?}");
    assert_eq!(report.documents.len(), 4);
    assert_eq!((keys(a, "note"), keys(b, "note")), (vec!["a".into()], vec!["b".into()]));
    let taking = PairOptions { takes_unrelated: true, ..options(a) };
    let report = pair::files(taking, b.clone()).await.unwrap();
    assert_eq!((report.documents.len(), report.failed.len()), (1, 0));
    assert_eq!((keys(a, "note"), heads(a)), (vec!["a".to_owned(), "b".to_owned()], heads(b)));
    // Both ends know both beginnings now.
    put(a, "note", "c", 1);
    assert_eq!(meet(b, a).await.documents.len(), 1);
}

/// What one end tells the other end never has, refused by name: changes beyond the bounds.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn refused_changes_cost_their_own_document_only() {
    let Two { a, b, .. } = &two();
    let mut database = open(a);
    let mut document = Document::new(ActorId::new(&[1]));
    for value in 0..50 {
        let mut transaction = document.transaction();
        transaction.put(&ROOT, "n", value).unwrap();
        transaction.commit(CommitOptions::default());
    }
    database.store("long", &mut document).unwrap();
    drop(database);
    let limits = Limits { op_counter: 45, ..Limits::default() };
    for (one, other) in [(a, b), (b, a)] {
        let meeting = pair::files(PairOptions { limits, ..options(one) }, other.clone());
        let report = timeout(Duration::from_secs(60), meeting).await.unwrap().unwrap();
        assert_eq!(report.failed.len(), 1, "{report:?}");
        assert_eq!(
            (report.failed[0].0.as_str(), report.failed[0].1.as_str()),
            ("long", "changes refused")
        );
    }
    assert_eq!(keys(a, "both"), keys(b, "both"));
}

/// A stream with an end after so many written bytes.
struct Breaking {
    inner: DuplexStream,
    left: usize,
}

impl AsyncRead for Breaking {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<std::io::Result<()>> {
        if self.left == 0 {
            return Poll::Ready(Ok(()));
        }
        Pin::new(&mut self.inner).poll_read(context, buffer)
    }
}

impl AsyncWrite for Breaking {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<std::io::Result<usize>> {
        let some = bytes.len().min(self.left);
        if some == 0 {
            return Poll::Ready(Err(std::io::ErrorKind::BrokenPipe.into()));
        }
        let written =
            std::task::ready!(Pin::new(&mut self.inner).poll_write(context, &bytes[..some]))?;
        self.left -= written;
        Poll::Ready(Ok(written))
    }

    fn poll_flush(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(context)
    }

    fn poll_shutdown(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(context)
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pipe_that_breaks_anywhere_loses_nothing_and_the_next_meeting_goes_on() {
    let mut ended_early = 0;
    for left in (5..4_000).step_by(397) {
        for is_dialler in [true, false] {
            let Two { a, b, .. } = &two();
            let (near, far) = duplex(1 << 16);
            let breaking = Breaking { inner: near, left };
            let (dialling, accepting) = if is_dialler {
                let accepting = tokio::spawn(pair::accept(options(b), far));
                (tokio::spawn(pair::dial(options(a), breaking)), accepting)
            } else {
                let accepting = tokio::spawn(pair::accept(options(b), breaking));
                (tokio::spawn(pair::dial(options(a), far)), accepting)
            };
            let both = async { (dialling.await.unwrap(), accepting.await.unwrap()) };
            let (dialled, _) = timeout(Duration::from_secs(60), both).await.unwrap();
            match dialled {
                // Told of as exchanged, and so it is.
                Ok(report) => {
                    assert_eq!((report.documents.len(), report.failed.len()), (4, 0));
                    assert_eq!(heads(a), heads(b));
                }
                Err(Error::Pair(_)) => ended_early += 1,
                Err(error) => panic!("{left}: {error}"),
            }
            meet(a, b).await;
            assert_eq!(heads(a), heads(b));
            assert_eq!(keys(a, "both"), ["a0", "a1", "a2", "a3", "b", "x"]);
        }
    }
    assert!(ended_early > 5, "{ended_early}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn somebody_else_at_the_other_end_is_told_of_in_its_own_words() {
    let Two { a, .. } = &two();
    let meeting_with = async |words: Vec<u8>| {
        let (near, mut far) = duplex(1 << 16);
        far.write_all(&words).await.unwrap();
        // Reads, and says nothing more.
        let reading = tokio::spawn(async move {
            let mut heard = vec![0; 1 << 16];
            far.shutdown().await.unwrap();
            while far.read(&mut heard).await.unwrap() > 0 {}
        });
        let dialled = timeout(Duration::from_secs(20), pair::dial(options(a), near)).await;
        reading.await.unwrap();
        dialled.unwrap().unwrap_err().to_string()
    };
    let shell = meeting_with(b"bash: line 1: shoal: command not found\n".to_vec()).await;
    assert!(shell.contains("not shoal sync") && shell.contains("command not found"), "{shell}");
    let newer = meeting_with(b"shoal-sync 2\n".to_vec()).await;
    assert!(newer.contains("shoal-sync 2"), "{newer}");
    assert!(meeting_with(Vec::new()).await.contains("went away"));
    let after = |frame: &[u8]| [b"shoal-sync 1\n", frame].concat();
    for frame in [
        &b""[..],
        b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff",
        // A binary frame of JSON that is no offer; one that declares 2^62 bytes; a text; a close.
        b"\x82\x02{}",
        b"\x82\x7f\x40\x00\x00\x00\x00\x00\x00\x00",
        b"\x81\x02hi",
        b"\x88\x00",
        // An offer with a name of no characters.
        b"\x82\x2b{\"documents\":{\"\":[\"\",1]},\"refused\":{}}      ",
    ] {
        let words = meeting_with(after(frame)).await;
        assert!(words.contains("the other end"), "{frame:?}: {words}");
    }
    assert_eq!(keys(a, "same"), ["x"]);
}

/// Frames of the exchange flipped on the way: an error or an end, and whole documents.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn garbage_in_the_middle_ends_the_meeting_and_harms_nothing() {
    for at in (100..3_000).step_by(431) {
        let Two { a, b, .. } = &two();
        let (near, middle_a) = duplex(1 << 16);
        let (middle_b, far) = duplex(1 << 16);
        let accepting = tokio::spawn(pair::accept(options(b), far));
        let dialling = tokio::spawn(pair::dial(options(a), near));
        let carrying = tokio::spawn(async move {
            let (mut from_a, mut to_a) = tokio::io::split(middle_a);
            let (mut from_b, mut to_b) = tokio::io::split(middle_b);
            let there = async {
                let mut seen = 0;
                let mut buffer = [0; 512];
                while let Ok(count @ 1..) = from_a.read(&mut buffer).await {
                    for (place, byte) in buffer[..count].iter_mut().enumerate() {
                        *byte ^= if seen + place >= at { 0x5a } else { 0 };
                    }
                    seen += count;
                    if to_b.write_all(&buffer[..count]).await.is_err() {
                        break;
                    }
                }
                let _ = to_b.shutdown().await;
            };
            let back = async {
                let _ = tokio::io::copy(&mut from_b, &mut to_a).await;
                let _ = to_a.shutdown().await;
            };
            tokio::join!(there, back);
        });
        let both = async { (dialling.await.unwrap(), accepting.await.unwrap()) };
        let (dialled, accepted) = timeout(Duration::from_secs(60), both).await.unwrap();
        carrying.abort();
        if dialled.is_ok() {
            assert_eq!(heads(a), heads(b));
        } else {
            assert!(accepted.is_err() || at > 2_000, "{at}");
        }
        meet(a, b).await;
        assert_eq!(heads(a), heads(b));
    }
}
