//! Applying patches to a value read from a document.

use shoal_history::Scalar;
use unicode_segmentation::UnicodeSegmentation;

use super::Value;
use crate::patch::{Patch, PatchAction, PatchProp, PatchScalar, PatchValue};
use crate::value::{OBJECT_REPLACEMENT, ObjType, TextEncoding};

/// A patch from another state than the value's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the patch does not fit: {0}")]
pub struct PatchMismatch(&'static str);

impl Value {
    /// Applies `patch` to this value, read as the root of a document. `encoding` is the document's
    /// unit of text indexes. Marks, conflicts and the contents of blocks are not part of values,
    /// and change nothing. A text in grapheme clusters follows only while no two elements read as
    /// one character: a string cannot tell them apart. Cost: the path, and the size of the changed
    /// text or list.
    ///
    /// ```
    /// use shoal_crdt::{ActorId, AutoCommit, ROOT, ReadDoc, Transactable};
    ///
    /// let mut doc = AutoCommit::new(ActorId::new(&[1]));
    /// let mut copy = doc.hydrate(&ROOT)?;
    /// doc.put(&ROOT, "n", 1_i64)?;
    /// for patch in doc.diff_incremental()? {
    ///     copy.apply_patch(&patch, doc.text_encoding()).expect("a copy of this document");
    /// }
    /// assert_eq!(copy, doc.hydrate(&ROOT)?);
    /// # Ok::<(), shoal_crdt::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`PatchMismatch`] for a value not in the patch's state before; nothing has changed then.
    pub fn apply_patch(
        &mut self,
        patch: &Patch,
        encoding: TextEncoding,
    ) -> Result<(), PatchMismatch> {
        let mut value = self;
        for (_, prop) in &patch.path {
            if matches!(value, Self::Text(_)) {
                return Ok(());
            }
            value = value.at(prop)?;
        }
        match (&patch.action, value) {
            (PatchAction::PutMap { key, value }, Self::Map(entries)) => {
                entries.insert(key.to_string(), brought(value));
            }
            (PatchAction::DeleteMap { key }, Self::Map(entries)) => {
                entries.remove(&**key).ok_or(NO_KEY)?;
            }
            (PatchAction::PutSeq { index, value }, Self::List(items)) => {
                *items.get_mut(*index).ok_or(NO_INDEX)? = brought(value);
            }
            (PatchAction::Insert { index, values }, Self::List(items)) => {
                let at = within(*index, items.len())?;
                items.splice(at..at, values.iter().map(brought));
            }
            (PatchAction::DeleteSeq { index, length }, Self::List(items)) => {
                let end = within(index.saturating_add(*length), items.len())?;
                items.drain(*index..end);
            }
            (PatchAction::Insert { index, values }, Self::Text(text)) => {
                let at = byte(encoding, text, *index)?;
                text.insert_str(at, &OBJECT_REPLACEMENT.repeat(values.len()));
            }
            (PatchAction::SpliceText { index, text: new, .. }, Self::Text(text)) => {
                text.insert_str(byte(encoding, text, *index)?, new);
            }
            (PatchAction::DeleteSeq { index, length }, Self::Text(text)) => {
                let start = byte(encoding, text, *index)?;
                let end = start + byte(encoding, &text[start..], *length)?;
                text.drain(start..end);
            }
            (PatchAction::Increment { .. }, Self::Text(_)) => {}
            (PatchAction::Increment { prop, by }, value) => match value.at(prop)? {
                Self::Scalar(Scalar::Counter(total)) => *total = total.wrapping_add(*by),
                _ => return Err(PatchMismatch("no counter there")),
            },
            (PatchAction::Conflict { .. } | PatchAction::Mark { .. }, _) => {}
            _ => return Err(PatchMismatch("an object of another type")),
        }
        Ok(())
    }

    fn at(&mut self, prop: &PatchProp) -> Result<&mut Self, PatchMismatch> {
        match (self, prop) {
            (Self::Map(entries), PatchProp::Key(key)) => entries.get_mut(&**key).ok_or(NO_KEY),
            (Self::List(items), PatchProp::Index(index)) => items.get_mut(*index).ok_or(NO_INDEX),
            _ => Err(PatchMismatch("an object of another type")),
        }
    }
}

const NO_KEY: PatchMismatch = PatchMismatch("no such key");
const NO_INDEX: PatchMismatch = PatchMismatch("index beyond the end");

fn within(index: usize, length: usize) -> Result<usize, PatchMismatch> {
    if index <= length { Ok(index) } else { Err(NO_INDEX) }
}

fn brought(value: &PatchValue) -> Value {
    match &value.value {
        PatchScalar::Object(ObjType::Map | ObjType::Table) => Value::Map(Default::default()),
        PatchScalar::Object(ObjType::List) => Value::List(Vec::new()),
        PatchScalar::Object(ObjType::Text) => Value::Text(String::new()),
        PatchScalar::Scalar(value) => Value::Scalar(value.clone()),
    }
}

/// The byte of the unit `index` of a text, or the end.
fn byte(encoding: TextEncoding, text: &str, index: usize) -> Result<usize, PatchMismatch> {
    let mut starts = match encoding {
        TextEncoding::Utf8CodeUnit if text.is_char_boundary(index) => return Ok(index),
        TextEncoding::Utf8CodeUnit => return Err(NO_INDEX),
        TextEncoding::GraphemeCluster => {
            let mut starts = text.grapheme_indices(true).map(|(at, _)| at).chain([text.len()]);
            return starts.nth(index).ok_or(NO_INDEX);
        }
        _ => text.char_indices(),
    };
    let mut left = index;
    loop {
        let Some((at, char)) = starts.next() else {
            return if left == 0 { Ok(text.len()) } else { Err(NO_INDEX) };
        };
        if left == 0 {
            return Ok(at);
        }
        let width = if encoding == TextEncoding::Utf16CodeUnit { char.len_utf16() } else { 1 };
        left = left.checked_sub(width).ok_or(NO_INDEX)?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_begin_at_bytes() {
        let text = "a😀e\u{301}";
        let begin = |encoding| -> Vec<Option<usize>> {
            (0..10).map(|index| byte(encoding, text, index).ok()).collect()
        };
        let all = |places: &[(usize, usize)]| -> Vec<Option<usize>> {
            let at = |index| places.iter().find(|place| place.0 == index).map(|place| place.1);
            (0..10).map(at).collect()
        };
        let points = [(0, 0), (1, 1), (2, 5), (3, 6), (4, 8)];
        assert_eq!(begin(TextEncoding::UnicodeCodePoint), all(&points));
        let bytes = [(0, 0), (1, 1), (5, 5), (6, 6), (8, 8)];
        assert_eq!(begin(TextEncoding::Utf8CodeUnit), all(&bytes));
        let halves = [(0, 0), (1, 1), (3, 5), (4, 6), (5, 8)];
        assert_eq!(begin(TextEncoding::Utf16CodeUnit), all(&halves));
        let clusters = [(0, 0), (1, 1), (2, 5), (3, 8)];
        assert_eq!(begin(TextEncoding::GraphemeCluster), all(&clusters));
    }

    #[test]
    fn what_does_not_fit_changes_nothing() {
        let patch = |action| Patch { obj: crate::ROOT, path: Vec::new(), action };
        let path = |key: &str, action| Patch {
            path: vec![(crate::ROOT, PatchProp::Key(key.into()))],
            ..patch(action)
        };
        let json = serde_json::json!({"list": [1], "text": "ab", "n": 1});
        let mut value = Value::from(&json);
        let before = value.clone();
        for patch in [
            patch(PatchAction::DeleteMap { key: "missing".into() }),
            patch(PatchAction::DeleteSeq { index: 0, length: 1 }),
            patch(PatchAction::Increment { prop: PatchProp::Key("n".into()), by: 1 }),
            path("missing", PatchAction::DeleteMap { key: "a".into() }),
            path("n", PatchAction::DeleteMap { key: "a".into() }),
            path("list", PatchAction::DeleteSeq { index: 1, length: 1 }),
            path("list", PatchAction::Insert { index: 2, values: Vec::new() }),
            path("text", PatchAction::DeleteSeq { index: 1, length: 2 }),
            path("text", PatchAction::DeleteSeq { index: 3, length: 0 }),
        ] {
            assert!(value.apply_patch(&patch, TextEncoding::Utf16CodeUnit).is_err(), "{patch:?}");
            assert_eq!(value, before);
        }
    }
}
