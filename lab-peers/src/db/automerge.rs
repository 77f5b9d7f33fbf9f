//! The `automerge` crate with a file: loaded whole, saved whole or by appended changes.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::Path;

use automerge::transaction::{CommitOptions, Transactable};
use automerge::{AutoSerde, Automerge, ObjId, ObjType, ROOT, ReadDoc};
use shoal_lab::engine::db::{Run, keystrokes};
use shoal_lab::engine::{About, DbEngine, Miss};

pub(crate) struct Files;

fn failed<T>(result: Result<T, impl std::fmt::Display>) -> Result<T, Miss> {
    result.map_err(Miss::failed)
}

/// One change.
fn change<R>(
    doc: &mut Automerge,
    work: impl FnOnce(
        &mut automerge::transaction::Transaction<'_>,
    ) -> Result<R, automerge::AutomergeError>,
) -> Result<R, Miss> {
    let untimed = |_: &R| CommitOptions::default().with_time(0);
    match doc.transact_with(untimed, work) {
        Ok(success) => Ok(success.result),
        Err(failure) => Err(Miss::failed(failure.error)),
    }
}

/// A text typed keystroke by keystroke, `each` characters a change.
fn typed(count: usize, each: usize) -> Result<Automerge, Miss> {
    let mut doc = Automerge::new();
    let text: ObjId = change(&mut doc, |tx| tx.put_object(ROOT, "text", ObjType::Text))?;
    for (place, letter) in keystrokes(count) {
        let letters = letter.to_string().repeat(each);
        change(&mut doc, |tx| tx.splice_text(&text, place * each, 0, &letters))?;
    }
    Ok(doc)
}

impl DbEngine for Files {
    fn about(&self) -> About {
        About::peer("automerge", "0.12", "the reference, and a file of its bytes")
    }

    fn open_and_read(&self, folder: &Path, count: usize) -> Result<Run<String>, Miss> {
        let path = folder.join("automerge");
        failed(fs::write(&path, typed(count, 1)?.save()))?;
        Ok(Box::new(move || {
            let doc = failed(Automerge::load(&failed(fs::read(&path))?))?;
            let text = failed(doc.get(ROOT, "text"))?;
            let (_, text) = text.ok_or_else(|| Miss::Failed("no text".into()))?;
            failed(doc.text(&text))
        }))
    }

    fn edit_and_close(&self, folder: &Path, changes: usize) -> Result<Run<bool>, Miss> {
        let path = folder.join("automerge");
        failed(fs::write(&path, typed(changes, 100)?.save()))?;
        let mut count = 0_i64;
        Ok(Box::new(move || {
            count += 1;
            let mut doc = failed(Automerge::load(&failed(fs::read(&path))?))?;
            let before = failed(doc.get(ROOT, "n"))?.map(|(value, _)| value.as_i64());
            let heads = doc.get_heads();
            change(&mut doc, |tx| tx.put(ROOT, "n", count))?;
            let new = doc.save_after(&heads);
            let mut file = failed(OpenOptions::new().append(true).open(&path))?;
            failed(file.write_all(&new))?;
            Ok(before.map_or(count == 1, |before| before == Some(count - 1)))
        }))
    }

    fn as_of(&self, _folder: &Path, count: usize, back: usize) -> Result<Run<String>, Miss> {
        let doc = typed(count, 1)?;
        let changes = doc.get_changes(&[]);
        let then = changes.iter().rev().nth(back).map(|change| change.hash());
        let heads: Vec<_> = then.into_iter().collect();
        drop(changes);
        Ok(Box::new(move || {
            let then = failed(doc.fork_at(&heads))?;
            failed(serde_json::to_string(&AutoSerde::from(&then)))
        }))
    }

    fn size(&self, folder: &Path, count: usize) -> Result<Run<u64>, Miss> {
        let path = folder.join("automerge");
        let doc = typed(count, 1)?;
        Ok(Box::new(move || {
            failed(fs::write(&path, doc.save()))?;
            Ok(failed(fs::metadata(&path))?.len())
        }))
    }
}
