//! `group_concat`: joined texts, taken back from the front as a window frame moves on.

use std::collections::VecDeque;

use crate::Error;
use crate::value::{Value, ValueRef, push_text, text_of};

/// The joined text so far. As in SQLite the lengths of separators are known, but not the text
/// behind each: once no byte of the text is left, the next text counts as the first, even where
/// empty texts are still within the window frame.
#[derive(Clone, Debug, Default)]
pub(super) struct Concat {
    text: Vec<u8>,
    /// True once the first text was added.
    begun: bool,
    count: usize,
    /// Length of the first text's separator, itself not written.
    first_separator: usize,
    /// Lengths of the other separators, once one differs from the first.
    separators: Option<VecDeque<usize>>,
}

impl Concat {
    /// Adds a text; NULL adds none.
    ///
    /// # Errors
    /// When the text grows too long.
    pub(super) fn step(
        &mut self,
        value: ValueRef<'_>,
        separator: Option<ValueRef<'_>>,
    ) -> Result<(), Error> {
        if value == ValueRef::Null {
            return Ok(());
        }
        let separator = match separator {
            None => b",".into(),
            Some(separator) => text_of(separator).unwrap_or_default(),
        };
        if std::mem::replace(&mut self.begun, true) {
            self.text.extend_from_slice(&separator);
            if self.separators.is_some() || separator.len() != self.first_separator {
                let known = self.separators.get_or_insert_default();
                known.resize(self.count.saturating_sub(1), self.first_separator);
                known.push_back(separator.len());
            }
        } else {
            self.first_separator = separator.len();
        }
        self.count += 1;
        push_text(value, &mut self.text);
        if self.text.len() > super::LENGTH_MAX {
            return Err(super::too_big());
        }
        Ok(())
    }

    /// Takes back the first text, added with these arguments.
    pub(super) fn undo(&mut self, arguments: &[Value]) {
        let Some(text) = arguments.first().and_then(|value| text_of(value.as_ref())) else {
            return;
        };
        self.count = self.count.saturating_sub(1);
        let separator = match &mut self.separators {
            Some(separators) if self.count > 0 => separators.pop_front().unwrap_or(0),
            Some(_) => 0,
            None => self.first_separator,
        };
        let gone = (text.len() + separator).min(self.text.len());
        self.text.drain(..gone);
        if self.text.is_empty() {
            self.begun = false;
            self.separators = None;
        }
    }

    /// The text; NULL where there was none.
    pub(super) fn finish(&self) -> Value {
        match self.count {
            0 if self.text.is_empty() => Value::Null,
            _ => Value::Text(self.text.clone()),
        }
    }

    /// As [`Concat::finish`], once.
    pub(super) fn take(&mut self) -> Value {
        match self.count {
            0 if self.text.is_empty() => Value::Null,
            _ => Value::Text(std::mem::take(&mut self.text)),
        }
    }
}
