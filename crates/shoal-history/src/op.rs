//! Ops: the rows that changes and documents are made of.

use crate::{ActorIdx, ScalarRef};

/// The id of an op. Lamport order is the counter, then the *bytes* of the actor; since an
/// [`ActorIdx`] has no order of its own, neither has an `OpId`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct OpId {
    /// At least 1; the format's users limit it to 32 bits.
    pub counter: u32,
    /// Who made the op.
    pub actor: ActorIdx,
}

impl OpId {
    /// The op that its author made before, if any.
    #[inline]
    pub(crate) fn before(self) -> Option<Self> {
        Some(Self { counter: self.counter.checked_sub(1)?, actor: self.actor })
    }
}

/// The id of an object: the root map, or the op that made the object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ObjId {
    /// The map that every document starts from.
    Root,
    /// The object that this op made.
    Op(OpId),
}

/// Where in its object an op applies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Key<'a> {
    /// The entry of a map.
    Map(&'a str),
    /// Before the first element of a sequence (inserts only).
    Head,
    /// A sequence element: the one to insert after, or the one to change.
    Elem(OpId),
}

/// What an op does; the discriminants are the format's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Action {
    /// Makes a map.
    MakeMap = 0,
    /// Sets a scalar value.
    Set = 1,
    /// Makes a list.
    MakeList = 2,
    /// Deletes what `pred` names.
    Delete = 3,
    /// Makes a text.
    MakeText = 4,
    /// Adds to a counter.
    Increment = 5,
    /// Makes a table; behaves as a map.
    MakeTable = 6,
    /// Begins or ends a mark.
    Mark = 7,
}

impl Action {
    /// The action with this code in the format, or `None`.
    pub fn from_code(code: u64) -> Option<Self> {
        Some(match code {
            0 => Self::MakeMap,
            1 => Self::Set,
            2 => Self::MakeList,
            3 => Self::Delete,
            4 => Self::MakeText,
            5 => Self::Increment,
            6 => Self::MakeTable,
            7 => Self::Mark,
            _ => return None,
        })
    }
}

/// One op, borrowing from the chunk it was read from.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Op<'a> {
    /// Its id.
    pub id: OpId,
    /// The object it changes.
    pub obj: ObjId,
    /// The place in that object.
    pub key: Key<'a>,
    /// Whether it inserts a new sequence element after `key`.
    pub insert: bool,
    /// What it does.
    pub action: Action,
    /// The value it sets; `Null` where the action has none.
    pub value: ScalarRef<'a>,
    /// For marks: whether the mark grows at this end.
    pub expand: bool,
    /// For the begin of a mark: its name.
    pub mark_name: Option<&'a str>,
    /// In a change: the ops that this one supersedes (`pred`). In a document: the ops that
    /// supersede this one (`succ`). Ascending in Lamport order.
    pub links: &'a [OpId],
}

/// Ops that insert one character each into a sequence, one after the other: their ids count up,
/// and each but the first refers to the one before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TextRun<'a> {
    /// The id of the first.
    pub id: OpId,
    /// The sequence.
    pub obj: ObjId,
    /// What the first is inserted after; `None` for the head.
    pub reference: Option<OpId>,
    /// The characters, all together.
    pub text: &'a str,
    /// How many there are.
    pub len: u32,
    /// In a document: the one op that supersedes the first, if the characters are deleted. The
    /// others are superseded by ops whose ids count up from it, or down.
    pub succ: Option<OpId>,
    /// Whether those ids count down.
    pub succ_descends: bool,
}

/// Ops that insert one scalar each into a sequence, one after the other, as those of a [`TextRun`]
/// insert characters. The scalars come beside it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InsertRun {
    /// The id of the first.
    pub id: OpId,
    /// The sequence.
    pub obj: ObjId,
    /// What the first is inserted after; `None` for the head.
    pub reference: Option<OpId>,
    /// How many there are.
    pub len: u32,
    /// As of a [`TextRun`].
    pub succ: Option<OpId>,
    /// As of a [`TextRun`].
    pub succ_descends: bool,
}

impl TextRun<'_> {
    /// The run without its text.
    pub(crate) fn inserts(&self) -> InsertRun {
        let Self { id, obj, reference, len, succ, succ_descends, .. } = *self;
        InsertRun { id, obj, reference, len, succ, succ_descends }
    }
}

/// Ops of a change that delete elements of a sequence, of which each supersedes nothing but the
/// insert: their ids count up, and those of the elements count up or down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeleteRun {
    /// The id of the first.
    pub id: OpId,
    /// The sequence.
    pub obj: ObjId,
    /// The element that the first deletes.
    pub elem: OpId,
    /// How many there are.
    pub len: u32,
    /// Whether the ids of the elements count down.
    pub descends: bool,
}
