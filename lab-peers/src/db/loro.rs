//! The `loro` crate with a file of its snapshot.

use std::fs;
use std::path::Path;

use loro::{ExportMode, LoroDoc};
use shoal_lab::engine::db::{Run, keystrokes};
use shoal_lab::engine::{About, DbEngine, Miss};

pub(crate) struct Files;

fn failed<T>(result: Result<T, impl std::fmt::Display>) -> Result<T, Miss> {
    result.map_err(Miss::failed)
}

/// A text typed keystroke by keystroke, `each` characters a commit.
fn typed(count: usize, each: usize) -> Result<LoroDoc, Miss> {
    let doc = LoroDoc::new();
    failed(doc.set_peer_id(1))?;
    let text = doc.get_text("text");
    for (place, letter) in keystrokes(count) {
        failed(text.insert(place * each, &letter.to_string().repeat(each)))?;
        doc.commit();
    }
    Ok(doc)
}

fn snapshot(doc: &LoroDoc) -> Result<Vec<u8>, Miss> {
    failed(doc.export(ExportMode::Snapshot))
}

impl DbEngine for Files {
    fn about(&self) -> About {
        About::peer("loro", "1.17", "and a file of its snapshot")
    }

    fn open_and_read(&self, folder: &Path, count: usize) -> Result<Run<String>, Miss> {
        let path = folder.join("loro");
        failed(fs::write(&path, snapshot(&typed(count, 1)?)?))?;
        Ok(Box::new(move || {
            let doc = LoroDoc::new();
            failed(doc.import(&failed(fs::read(&path))?))?;
            Ok(doc.get_text("text").to_string())
        }))
    }

    fn edit_and_close(&self, folder: &Path, changes: usize) -> Result<Run<bool>, Miss> {
        let path = folder.join("loro");
        failed(fs::write(&path, snapshot(&typed(changes, 100)?)?))?;
        let mut count = 0_i64;
        Ok(Box::new(move || {
            count += 1;
            let doc = LoroDoc::new();
            failed(doc.import(&failed(fs::read(&path))?))?;
            let map = doc.get_map("root");
            let before = map.get("n").map(|value| value.into_value().ok());
            failed(map.insert("n", count))?;
            doc.commit();
            failed(fs::write(&path, snapshot(&doc)?))?;
            let expected = Some(loro::LoroValue::I64(count - 1));
            Ok(before.map_or(count == 1, |before| before == expected))
        }))
    }

    fn size(&self, folder: &Path, count: usize) -> Result<Run<u64>, Miss> {
        let path = folder.join("loro");
        let doc = typed(count, 1)?;
        Ok(Box::new(move || {
            failed(fs::write(&path, snapshot(&doc)?))?;
            Ok(failed(fs::metadata(&path))?.len())
        }))
    }
}
