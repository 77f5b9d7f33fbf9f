//! Making a text hold given spans: characters with their marks, and blocks.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use shoal_history::Scalar;
use unicode_segmentation::UnicodeSegmentation;

use crate::error::Error;
use crate::hydrate::Value;
use crate::id::ObjId;
use crate::json::DEFAULT_MAX_DEPTH;
use crate::marks::{Mark, MarkSet, Span};
use crate::read_doc::ReadDoc;
use crate::text_diff::{self, Edit};
use crate::transaction::{ExpandMark, Transaction};
use crate::value::{OBJECT_REPLACEMENT, TextEncoding};

/// A part of a text to be.
#[derive(Clone, Debug, PartialEq)]
pub enum NewSpan {
    /// Characters.
    Text {
        /// The characters.
        text: String,
        /// The marks covering them; without nulls.
        marks: MarkSet,
    },
    /// A block marker with these entries.
    Block(BTreeMap<String, Value>),
}

/// The growth of marks set or removed by [`Transaction::update_spans`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UpdateSpansConfig {
    /// Marks of other names.
    pub default_expand: ExpandMark,
    /// By name.
    pub per_mark_expands: BTreeMap<String, ExpandMark>,
}

impl UpdateSpansConfig {
    fn expand(&self, name: &str) -> ExpandMark {
        self.per_mark_expands.get(name).copied().unwrap_or(self.default_expand)
    }
}

/// The units of comparing texts.
#[derive(Clone, Debug, PartialEq)]
enum Part<'t> {
    Block(&'t BTreeMap<String, Value>),
    Grapheme(&'t str),
}

impl Part<'_> {
    fn width(&self, encoding: TextEncoding) -> usize {
        encoding.width(match self {
            Self::Block(_) => OBJECT_REPLACEMENT,
            Self::Grapheme(text) => text,
        })
    }
}

impl Transaction<'_> {
    /// Makes the text `obj` hold `spans`, by as few edits of characters, blocks and marks as
    /// possible. A block in the place of another is updated as [`Transaction::update_object`] does.
    /// O((n + m) d) for d differences.
    ///
    /// ```
    /// use std::collections::BTreeMap;
    ///
    /// use shoal_crdt::hydrate::Value;
    /// use shoal_crdt::{ActorId, AutoCommit, MarkSet, NewSpan, ObjType, ROOT, ReadDoc};
    /// use shoal_crdt::{Transactable, UpdateSpansConfig};
    ///
    /// let mut doc = AutoCommit::new(ActorId::new(&[1]));
    /// let text = doc.put_object(&ROOT, "text", ObjType::Text)?;
    /// doc.splice_text(&text, 0, 0, "Hello")?;
    /// let heading = BTreeMap::from([("type".to_owned(), Value::Text("heading".to_owned()))]);
    /// let spans = [
    ///     NewSpan::Block(heading),
    ///     NewSpan::Text { text: "Hello!".to_owned(), marks: MarkSet::new() },
    /// ];
    /// doc.update_spans(&text, &spans, &UpdateSpansConfig::default())?;
    /// assert_eq!(doc.text(&text)?, "\u{fffc}Hello!");
    /// # Ok::<(), shoal_crdt::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::UnknownObject`]; [`Error::WrongType`] for all but texts; as
    /// [`Transaction::update_object`] for blocks.
    pub fn update_spans(
        &mut self,
        obj: &ObjId,
        spans: &[NewSpan],
        config: &UpdateSpansConfig,
    ) -> Result<(), Error> {
        self.text_only(obj, "update its spans")?;
        let view = self.view();
        let mut old = Vec::new();
        for span in view.spans(obj)? {
            old.push(match span {
                Span::Text { text, marks } => NewSpan::Text { text, marks: MarkSet::clone(&marks) },
                Span::Block { id } => match view.hydrate(&id)? {
                    Value::Map(entries) => NewSpan::Block(entries),
                    _ => NewSpan::Block(BTreeMap::new()),
                },
            });
        }
        let (old, new) = (parts(&old), parts(spans));
        let mut index = 0;
        for edit in joined(&text_diff::diff(&old, &new)) {
            self.change_parts(obj, &mut index, &old[edit.old], &new[edit.new], edit.is_equal)?;
        }
        self.update_marks(obj, spans, config)
    }

    /// Puts `new` in the place of `old` at `index`, and moves `index` behind.
    fn change_parts(
        &mut self,
        obj: &ObjId,
        index: &mut usize,
        old: &[Part<'_>],
        new: &[Part<'_>],
        is_equal: bool,
    ) -> Result<(), Error> {
        let encoding = self.view().doc.text_encoding();
        if is_equal {
            *index += old.iter().map(|part| part.width(encoding)).sum::<usize>();
            return Ok(());
        }
        let mut run = String::new();
        for at in 0..old.len().max(new.len()) {
            if let (Some(Part::Block(old)), Some(Part::Block(new))) = (old.get(at), new.get(at)) {
                self.end_run(obj, index, &mut run)?;
                if old != new
                    && let Some((_, block)) = ReadDoc::get(self, obj, *index)?
                {
                    self.update_map(&block, new, DEFAULT_MAX_DEPTH)?;
                }
                *index += encoding.width(OBJECT_REPLACEMENT);
                continue;
            }
            if let Some(old) = old.get(at) {
                self.end_run(obj, index, &mut run)?;
                let width = isize::try_from(old.width(encoding)).unwrap_or(isize::MAX);
                self.splice_text(obj, *index, width, "")?;
            }
            match new.get(at) {
                Some(Part::Block(entries)) => {
                    self.end_run(obj, index, &mut run)?;
                    let block = self.split_block(obj, *index)?;
                    self.update_map(&block, entries, DEFAULT_MAX_DEPTH)?;
                    *index += encoding.width(OBJECT_REPLACEMENT);
                }
                Some(Part::Grapheme(text)) => run.push_str(text),
                None => {}
            }
        }
        self.end_run(obj, index, &mut run)
    }

    /// Inserts the gathered characters.
    fn end_run(&mut self, obj: &ObjId, index: &mut usize, run: &mut String) -> Result<(), Error> {
        if !run.is_empty() {
            self.splice_text(obj, *index, 0, run)?;
            *index += self.view().doc.text_encoding().width(run);
            run.clear();
        }
        Ok(())
    }

    fn update_marks(
        &mut self,
        obj: &ObjId,
        spans: &[NewSpan],
        config: &UpdateSpansConfig,
    ) -> Result<(), Error> {
        let wanted = wanted_marks(spans, self.view().doc.text_encoding());
        for mark in self.view().marks(obj)? {
            if !wanted.contains(&mark) {
                let expand = config.expand(&mark.name);
                self.unmark(obj, mark.start, mark.end, &mark.name, expand)?;
            }
        }
        let have = self.view().marks(obj)?;
        for mark in wanted.into_iter().filter(|mark| !have.contains(mark)) {
            let expand = config.expand(&mark.name);
            self.mark(obj, mark.start, mark.end, &mark.name, mark.value, expand)?;
        }
        Ok(())
    }
}

/// An edit with the deletes and inserts of one place together.
struct Joined {
    old: Range<usize>,
    new: Range<usize>,
    is_equal: bool,
}

fn joined(script: &[Edit]) -> Vec<Joined> {
    let mut joined: Vec<Joined> = Vec::new();
    let (mut old_at, mut new_at) = (0, 0);
    for edit in script {
        let (old, new, is_equal) = match edit {
            Edit::Equal(range) => (range.len(), range.len(), true),
            Edit::Delete(range) => (range.len(), 0, false),
            Edit::Insert(range) => (0, range.len(), false),
        };
        let (old, new) = (old_at..old_at + old, new_at..new_at + new);
        (old_at, new_at) = (old.end, new.end);
        match joined.last_mut() {
            Some(last) if last.is_equal == is_equal => {
                (last.old.end, last.new.end) = (old.end, new.end);
            }
            _ => joined.push(Joined { old, new, is_equal }),
        }
    }
    joined
}

fn parts(spans: &[NewSpan]) -> Vec<Part<'_>> {
    let mut parts = Vec::new();
    for span in spans {
        match span {
            NewSpan::Text { text, .. } => parts.extend(text.graphemes(true).map(Part::Grapheme)),
            NewSpan::Block(entries) => parts.push(Part::Block(entries)),
        }
    }
    parts
}

/// The marks of all spans; equal touching marks are one, as for readers.
fn wanted_marks(spans: &[NewSpan], encoding: TextEncoding) -> Vec<Mark> {
    let mut wanted: Vec<Mark> = Vec::new();
    let mut start = 0;
    for span in spans {
        let NewSpan::Text { text, marks } = span else {
            start += encoding.width(OBJECT_REPLACEMENT);
            continue;
        };
        let end = start + encoding.width(text);
        let marks = marks.iter().filter(|(_, value)| **value != Scalar::Null && start < end);
        for (name, value) in marks {
            let touching = |mark: &&mut Mark| mark.end == start && mark.name == *name;
            match wanted.iter_mut().rev().find(touching) {
                Some(mark) if mark.value == *value => mark.end = end,
                _ => wanted.push(Mark { start, end, name: Arc::clone(name), value: value.clone() }),
            }
        }
        start = end;
    }
    wanted
}
