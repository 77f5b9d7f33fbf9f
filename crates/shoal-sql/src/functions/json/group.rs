//! `json_group_array` and `json_group_object`: JSON growing with every row.

use super::{made, push_quoted, push_value};
use crate::Error;
use crate::functions::{LENGTH_MAX, has_bit, too_big};
use crate::value::{Value, ValueRef, text_of};

/// An array or an object in the making.
#[derive(Clone, Debug)]
pub(in crate::functions) struct JsonGroup {
    /// JSON text, without the bracket at the end.
    text: Vec<u8>,
    object: bool,
    blob: bool,
    json: u64,
}

impl JsonGroup {
    /// `json` has a bit for each argument made by a function returning JSON.
    pub(in crate::functions) fn new(object: bool, blob: bool, json: u64) -> JsonGroup {
        JsonGroup { text: Vec::new(), object, blob, json }
    }

    /// Adds an element: a value, or a label and its value. A NULL label adds none.
    ///
    /// # Errors
    /// Where the text grows too long, and for malformed JSON.
    pub(in crate::functions) fn step(
        &mut self,
        first: ValueRef<'_>,
        second: Option<ValueRef<'_>>,
    ) -> Result<(), Error> {
        if self.object && first == ValueRef::Null {
            return Ok(());
        }
        let open = if self.object { b'{' } else { b'[' };
        self.text.push(if self.text.is_empty() { open } else { b',' });
        let (place, value) = match self.object {
            false => (0, first),
            true => {
                push_quoted(&text_of(first).unwrap_or_default(), &mut self.text);
                self.text.push(b':');
                (1, second.unwrap_or(ValueRef::Null))
            }
        };
        push_value(value, has_bit(self.json, place), &mut self.text)?;
        if self.text.len() > LENGTH_MAX { Err(too_big()) } else { Ok(()) }
    }

    /// The finished array or object, given once.
    ///
    /// # Errors
    /// For malformed JSON.
    pub(in crate::functions) fn take(&mut self) -> Result<Value, Error> {
        let mut text = std::mem::take(&mut self.text);
        let brackets = if self.object { b"{}" } else { b"[]" };
        if text.is_empty() {
            text.push(brackets[0]);
        }
        text.push(brackets[1]);
        made(text, self.blob)
    }
}
