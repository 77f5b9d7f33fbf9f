//! A document with the content replaced, to show to whoever searches for the cause of a slow or
//! wrong document.
//!
//! The shape is kept: the graph of changes, the ops and their references, the types of objects and
//! values, the lengths of texts and bytes, the places of white space, and the bytes of each
//! character in UTF-8 and UTF-16. The content is replaced: actors (in the same order, because the
//! order decides conflicts), keys and names of marks (equal ones stay equal), values, messages,
//! times, authors and other extra bytes.

use std::collections::{BTreeSet, HashMap};

use shoal_history::{
    ActorId, ActorIdx, Change, ChangeHash, ChangeHeader, ChangeWriter, Key, Op, ScalarRef,
};

use crate::document::Document;
use crate::error::Error;

mod characters;

use characters::Characters;

impl Document {
    /// A copy of the document by other actors and with other content, of the same shape. Equal
    /// `seed`s give equal copies. Waiting changes are left out, and so are unknown columns of
    /// changes.
    ///
    /// Content is hidden from a reader of the copy, not from an attacker: equal keys stay equal,
    /// and the order and the lengths of edits can be seen. Cost: applying all changes.
    ///
    /// ```
    /// use shoal_crdt::{ActorId, CommitOptions, Document, ROOT};
    ///
    /// let mut doc = Document::new(ActorId::new(&[1]));
    /// let mut tx = doc.transaction();
    /// tx.put(&ROOT, "name", "Ada")?;
    /// tx.commit(CommitOptions::default());
    /// let copy = doc.anonymize(ActorId::new(&[2]), [7; 32])?;
    /// assert_eq!((copy.op_count(), copy.length(&ROOT)?), (1, 1));
    /// assert_eq!(copy.get(&ROOT, "name")?, None);
    /// # Ok::<(), shoal_crdt::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::History`] for an unsound history, loaded without verifying, or for a change no
    /// writer makes.
    pub fn anonymize(&self, actor: ActorId, seed: [u8; 32]) -> Result<Self, Error> {
        self.graph.verify()?;
        let mut disguise = Disguise::new(seed, self.changes());
        let mut anonymized = Self::with_encoding(actor, self.text_encoding());
        anonymized.set_limits(*self.limits());
        for change in self.changes() {
            // One by one, to keep their order.
            anonymized.apply_changes([disguise.change(change)?])?;
        }
        Ok(anonymized)
    }
}

/// Replacements by original.
struct Disguise {
    random: Random,
    actors: HashMap<ActorId, ActorId>,
    changes: HashMap<ChangeHash, ChangeHash>,
    /// Replaced keys and names.
    names: Characters,
    /// Replaced content beyond ASCII.
    content: Characters,
}

impl Disguise {
    fn new<'c>(seed: [u8; 32], changes: impl Iterator<Item = &'c Change>) -> Self {
        let mut random = Random::new(seed);
        let known: BTreeSet<&ActorId> = changes.flat_map(Change::actors).collect();
        let prefix = loop {
            let prefix = random.next().to_be_bytes();
            if !known.iter().any(|actor| actor.as_bytes().starts_with(&prefix)) {
                break prefix;
            }
        };
        let actors = (0_u64..).zip(&known).map(|(rank, actor)| {
            ((*actor).clone(), ActorId::new(&[prefix, rank.to_be_bytes()].concat()))
        });
        Self {
            actors: actors.collect(),
            changes: HashMap::new(),
            names: Characters::default(),
            content: Characters::default(),
            random,
        }
    }

    /// The replacement of a change whose dependencies are replaced already.
    fn change(&mut self, change: &Change) -> Result<Change, Error> {
        let stand_in = |actor: &ActorId| self.actors.get(actor).unwrap_or(actor).clone();
        let actors: Vec<ActorId> = change.actors().iter().map(stand_in).collect();
        // A change of a stranger may name one twice.
        let deps: BTreeSet<ChangeHash> =
            change.deps().iter().filter_map(|dep| self.changes.get(dep)).copied().collect();
        let message = change.message().map(|message| self.text(message));
        let extra_bytes = self.extra_bytes(change);
        let header = ChangeHeader {
            actor: ActorIdx(0),
            seq: change.seq(),
            start_op: change.start_op(),
            time: self.integer(change.time()),
            message: message.as_deref(),
            deps: deps.into_iter().collect(),
            extra_bytes: &extra_bytes,
        };
        let mut writer = ChangeWriter::new(header, &actors);
        let mut ops = change.ops();
        while let Some(op) = ops.next_op() {
            self.push(&op, &mut writer);
        }
        let made = writer.finish()?;
        self.changes.insert(change.hash(), made.hash());
        Ok(made)
    }

    /// The presence of an author stays visible, the name does not.
    fn extra_bytes(&mut self, change: &Change) -> Vec<u8> {
        match change.author() {
            Some(author) => Change::author_bytes(&self.bytes(author)),
            None => self.bytes(change.extra_bytes()),
        }
    }

    fn push(&mut self, op: &Op<'_>, writer: &mut ChangeWriter<'_>) {
        let key;
        let key = match op.key {
            Key::Map(name) => {
                key = self.name(name);
                Key::Map(&key)
            }
            key => key,
        };
        let mark_name = op.mark_name.map(|name| self.name(name));
        let mark_name = mark_name.as_deref();
        let (text, bytes);
        let value = match op.value {
            ScalarRef::Null => ScalarRef::Null,
            ScalarRef::Boolean(_) => ScalarRef::Boolean(self.random.below(2) == 1),
            ScalarRef::Uint(value) => ScalarRef::Uint(self.unsigned(value)),
            ScalarRef::Int(value) => ScalarRef::Int(self.integer(value)),
            ScalarRef::Counter(value) => ScalarRef::Counter(self.integer(value)),
            ScalarRef::Timestamp(value) => ScalarRef::Timestamp(self.integer(value)),
            ScalarRef::F64(value) => ScalarRef::F64(self.float(value)),
            ScalarRef::Str(value) => {
                text = self.text(value);
                ScalarRef::Str(&text)
            }
            ScalarRef::Bytes(value) => {
                bytes = self.bytes(value);
                ScalarRef::Bytes(&bytes)
            }
            ScalarRef::Unknown { type_code, bytes: value } => {
                bytes = self.bytes(value);
                ScalarRef::Unknown { type_code, bytes: &bytes }
            }
        };
        writer.push(&Op { key, value, mark_name, ..*op });
    }

    /// Another key or name, of the same length.
    fn name(&mut self, name: &str) -> String {
        name.chars().map(|character| self.names.replace(character, &mut self.random)).collect()
    }

    /// Another text, with the same white space and characters as wide.
    fn text(&mut self, text: &str) -> String {
        let mut replaced = String::with_capacity(text.len());
        for character in text.chars() {
            replaced.push(match character {
                _ if character.is_whitespace() || character.is_ascii_control() => character,
                ' '..='~' => self.letter_other_than(character),
                _ => self.content.replace(character, &mut self.random),
            });
        }
        replaced
    }

    fn letter_other_than(&mut self, character: char) -> char {
        loop {
            let letter = LETTERS[self.random.below(LETTERS.len() as u64) as usize];
            if char::from(letter) != character {
                return letter.into();
            }
        }
    }

    fn bytes(&mut self, bytes: &[u8]) -> Vec<u8> {
        bytes.iter().map(|_| self.random.next().to_be_bytes()[0]).collect()
    }

    /// A number of 32 bits: differences fit, and sums overflow only where the old sums did.
    fn integer(&mut self, other_than: i64) -> i64 {
        loop {
            let value = i64::from((self.random.next() >> 32) as u32 as i32);
            if value != other_than {
                return value;
            }
        }
    }

    fn unsigned(&mut self, other_than: u64) -> u64 {
        loop {
            let value = self.random.next() >> 32;
            if value != other_than {
                return value;
            }
        }
    }

    fn float(&mut self, other_than: f64) -> f64 {
        loop {
            let value = (self.random.next() >> 11) as f64 / (1_u64 << 53) as f64;
            if value.to_bits() != other_than.to_bits() {
                return value;
            }
        }
    }
}

/// Letters, about as often as in a language.
const LETTERS: &[u8] = b"eeeeeettttaaaaoooiiinnnsssrrhhlldduucmmfpgwybvk";

/// Numbers without a pattern: xoshiro256++ (Blackman and Vigna, 2019).
struct Random([u64; 4]);

impl Random {
    fn new(seed: [u8; 32]) -> Self {
        let (words, _) = seed.as_chunks::<8>();
        let mut state = [0; 4];
        for (word, bytes) in state.iter_mut().zip(words) {
            *word = u64::from_le_bytes(*bytes);
        }
        // The state must not be all zeros.
        state[0] |= u64::from(state == [0; 4]);
        let mut random = Self(state);
        // Some steps, until a poor seed no longer shows.
        for _ in 0..20 {
            random.next();
        }
        random
    }

    fn next(&mut self) -> u64 {
        let [a, b, c, d] = &mut self.0;
        let result = a.wrapping_add(*d).rotate_left(23).wrapping_add(*a);
        let shifted = *b << 17;
        *c ^= *a;
        *d ^= *b;
        *b ^= *c;
        *a ^= *d;
        *c ^= shifted;
        *d = d.rotate_left(45);
        result
    }

    /// A number below `bound`. `bound` is not 0.
    fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(bound)) >> 64) as u64
    }
}
