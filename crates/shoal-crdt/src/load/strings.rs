//! Turning the scalar strings of old documents into texts.

use shoal_history::{Action, ScalarRef};

use crate::document::Document;
use crate::error::Error;
use crate::id::ObjId;
use crate::opset::Data;
use crate::transaction::CommitOptions;
use crate::value::{ObjType, Prop};
use crate::view::scoped;

/// A place whose string becomes a text.
struct Found {
    obj: ObjId,
    place: Place,
    text: String,
}

enum Place {
    Key(String),
    Index(usize),
}

impl Document {
    /// Puts a text in the place of each visible scalar string in maps and lists, as one change, if
    /// there are any. Other values at the same place are superseded.
    ///
    /// # Errors
    /// [`Error::OpIdsExhausted`]; nothing has changed then.
    pub(super) fn strings_to_texts(&mut self) -> Result<(), Error> {
        let found = self.scalar_strings();
        if found.is_empty() {
            return Ok(());
        }
        let mut tx = self.transaction();
        for Found { obj, place, text } in &found {
            let prop = match place {
                Place::Key(key) => Prop::Key(key),
                Place::Index(index) => Prop::Index(*index),
            };
            let made = tx.put_object(obj, prop, ObjType::Text)?;
            tx.splice_text(&made, 0, 0, text)?;
        }
        tx.commit(CommitOptions::default());
        Ok(())
    }

    /// The strings, by object in the order of their ids, then by key or index.
    fn scalar_strings(&self) -> Vec<Found> {
        let actors = &self.ops.actors;
        let mut objects: Vec<_> = self.ops.objects().collect();
        objects.sort_unstable_by(|a, b| actors.compare(a.id, b.id));
        let mut found = Vec::new();
        for object in objects {
            let obj = || self.export(object.id);
            match (self.ops.data_of(object), object.kind) {
                (Data::Map(map), ObjType::Map) => {
                    for (key, register) in scoped::entries(self, map) {
                        if let Some(op) = register.winner()
                            && let (Action::Set, ScalarRef::Str(text)) = (op.action, op.value)
                        {
                            let place = Place::Key(key.to_owned());
                            found.push(Found { obj: obj(), place, text: text.to_owned() });
                        }
                    }
                }
                (Data::Sequence(list), ObjType::List) => {
                    for (index, item) in list.items_from(0).enumerate() {
                        let op = item.winner;
                        if let (Action::Set, ScalarRef::Str(text)) = (op.action, op.value) {
                            let place = Place::Index(index);
                            found.push(Found { obj: obj(), place, text: text.to_owned() });
                        }
                    }
                }
                _ => {}
            }
        }
        found
    }
}
