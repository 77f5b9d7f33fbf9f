//! Changes with everything in them spelled out: to look at, to print as JSON, and to make changes
//! from.
//!
//! The JSON is the reference's, with three additions, read by the reference or unknown to it:
//! values of marks have a `datatype` too, bytes are read back, and floats without a JSON number are
//! strings.

use shoal_history::{
    Action, ActorId, ActorIdx, Change, ChangeHash, ChangeHeader, ChangeWriter, Key,
    ObjId as StoredObjId, Op, OpId, Scalar, ScalarRef,
};

use crate::id::{ObjId, ROOT};
use crate::value::ObjType;

mod json;

/// A change, decoded. Serializes to JSON and back.
///
/// ```
/// use shoal_crdt::{ActorId, CommitOptions, Document, ExpandedChange, ROOT};
///
/// let mut doc = Document::new(ActorId::new(&[1]));
/// let mut tx = doc.transaction();
/// tx.put(&ROOT, "n", 1_i64)?;
/// tx.commit(CommitOptions::default());
/// let change = doc.last_local_change().unwrap();
/// let json = serde_json::to_string(&ExpandedChange::from(change)).unwrap();
/// let expanded: ExpandedChange = serde_json::from_str(&json).unwrap();
/// assert_eq!(expanded.to_change().unwrap(), *change);
/// # Ok::<(), shoal_crdt::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct ExpandedChange {
    /// The ops, in order.
    pub operations: Vec<ExpandedOp>,
    /// The author's actor.
    pub actor_id: ActorId,
    /// The hash of the change, checked when the change is made; `None` for a new change.
    pub hash: Option<ChangeHash>,
    /// The number of the change among the changes of its actor, from 1.
    pub seq: u32,
    /// The counter of the first op's id.
    pub start_op: u32,
    /// Seconds since the Unix epoch by custom.
    pub time: i64,
    /// The author's message.
    pub message: Option<String>,
    /// The dependencies.
    pub deps: Vec<ChangeHash>,
    /// Bytes after the ops.
    pub extra_bytes: Vec<u8>,
    /// The author named by the extra bytes.
    pub author: Option<Vec<u8>>,
}

/// An op, decoded. Its id follows from its place in the change.
#[derive(Clone, Debug, PartialEq)]
pub struct ExpandedOp {
    /// The action.
    pub action: OpType,
    /// The changed object.
    pub obj: ObjId,
    /// The place in the object.
    pub key: ExpandedKey,
    /// True for an insert of a new element after the one named by `key`.
    pub insert: bool,
    /// The superseded ops.
    pub pred: Vec<ObjId>,
}

/// Where in its object an op applies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ExpandedKey {
    /// The entry of a map.
    Map(String),
    /// Before the first element of a sequence.
    Head,
    /// A sequence element.
    Elem(ObjId),
}

/// The action of an op.
#[derive(Clone, Debug, PartialEq)]
pub enum OpType {
    /// Makes an object.
    Make(ObjType),
    /// Deletes the superseded ops.
    Delete,
    /// Adds to the superseded counters.
    Increment(i64),
    /// Sets a scalar.
    Put(Scalar),
    /// Begins a mark.
    MarkBegin {
        /// Its name.
        name: String,
        /// Its value.
        value: Scalar,
        /// True if the mark grows at its begin.
        expand: bool,
    },
    /// Ends the mark begun by the op before; true if the mark grows at its end.
    MarkEnd(bool),
}

/// The fault of an [`ExpandedChange`] not to be made.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ExpandedChangeError {
    /// The hash is not the stated one: something was altered, or the change had parts without a
    /// place in this form.
    #[error("the change that is made has another hash than {stated}: {found}")]
    Hash {
        /// The stated hash.
        stated: ChangeHash,
        /// The hash of the change as made.
        found: ChangeHash,
    },
    /// An op refers to the root where only an op can be meant.
    #[error("op {op}: the root is no op")]
    RootIsNoOp {
        /// Its place in the change, from 0.
        op: usize,
    },
    /// The author is not the one named by the extra bytes.
    #[error("the extra bytes do not name the author")]
    Author,
    /// The change breaks the rules of the format.
    #[error("no change: {0}")]
    History(shoal_history::Error),
}

impl From<&Change> for ExpandedChange {
    fn from(change: &Change) -> Self {
        let actors = change.actors();
        let id = |id: OpId| ObjId::new(id.counter, actors[id.actor.as_usize()].clone());
        let mut operations = Vec::with_capacity(change.len());
        let mut ops = change.ops();
        while let Some(op) = ops.next_op() {
            operations.push(ExpandedOp {
                action: OpType::of(&op),
                obj: match op.obj {
                    StoredObjId::Root => ROOT,
                    StoredObjId::Op(obj) => id(obj),
                },
                key: match op.key {
                    Key::Map(key) => ExpandedKey::Map(key.to_owned()),
                    Key::Head => ExpandedKey::Head,
                    Key::Elem(elem) => ExpandedKey::Elem(id(elem)),
                },
                insert: op.insert,
                pred: op.links.iter().copied().map(id).collect(),
            });
        }
        Self {
            operations,
            actor_id: change.actor().clone(),
            hash: Some(change.hash()),
            seq: change.seq(),
            start_op: change.start_op(),
            time: change.time(),
            message: change.message().map(str::to_owned),
            deps: change.deps().to_vec(),
            extra_bytes: change.extra_bytes().to_vec(),
            author: change.author().map(<[u8]>::to_vec),
        }
    }
}

impl OpType {
    fn of(op: &Op<'_>) -> Self {
        match (op.action, op.value) {
            (Action::Set, value) => Self::Put(value.to_scalar()),
            (Action::Delete, _) => Self::Delete,
            (Action::Increment, ScalarRef::Int(by)) => Self::Increment(by),
            (Action::Increment, ScalarRef::Uint(by)) => Self::Increment(by.cast_signed()),
            (Action::Increment, _) => Self::Increment(0),
            (Action::Mark, value) => match op.mark_name {
                None => Self::MarkEnd(op.expand),
                Some(name) => Self::MarkBegin {
                    name: name.to_owned(),
                    value: value.to_scalar(),
                    expand: op.expand,
                },
            },
            (make, _) => Self::Make(ObjType::made_by(make).unwrap_or(ObjType::Map)),
        }
    }

    fn action(&self) -> Action {
        match self {
            Self::Make(kind) => kind.make_action(),
            Self::Delete => Action::Delete,
            Self::Increment(_) => Action::Increment,
            Self::Put(_) => Action::Set,
            Self::MarkBegin { .. } | Self::MarkEnd(_) => Action::Mark,
        }
    }

    fn value(&self) -> ScalarRef<'_> {
        match self {
            Self::Put(value) | Self::MarkBegin { value, .. } => value.as_ref(),
            Self::Increment(by) => ScalarRef::Int(*by),
            Self::Make(_) | Self::Delete | Self::MarkEnd(_) => ScalarRef::Null,
        }
    }

    fn expand(&self) -> bool {
        matches!(self, Self::MarkBegin { expand: true, .. } | Self::MarkEnd(true))
    }

    fn mark_name(&self) -> Option<&str> {
        match self {
            Self::MarkBegin { name, .. } => Some(name),
            _ => None,
        }
    }
}

impl ExpandedChange {
    /// The change, encoded canonically. Cost: O(n log m) for n ops naming m actors.
    ///
    /// # Errors
    /// [`ExpandedChangeError`]. Whether the change fits a document is for
    /// [`Document::apply_changes`](crate::Document::apply_changes) to say.
    pub fn to_change(&self) -> Result<Change, ExpandedChangeError> {
        let mut actors = Actors::default();
        let author = actors.index(&self.actor_id);
        let mut named = Vec::with_capacity(self.operations.len());
        for (op, expanded) in self.operations.iter().enumerate() {
            named.push(actors.localize(expanded).ok_or(ExpandedChangeError::RootIsNoOp { op })?);
        }
        let header = ChangeHeader {
            actor: author,
            seq: self.seq,
            start_op: self.start_op,
            time: self.time,
            message: self.message.as_deref(),
            deps: self.deps.clone(),
            extra_bytes: &self.extra_bytes,
        };
        let mut writer = ChangeWriter::new(header, &actors.ids);
        let mut counter = self.start_op;
        for (expanded, (obj, key, links)) in self.operations.iter().zip(&named) {
            writer.push(&Op {
                id: OpId { counter, actor: author },
                obj: *obj,
                key: *key,
                insert: expanded.insert,
                action: expanded.action.action(),
                value: expanded.action.value(),
                expand: expanded.action.expand(),
                mark_name: expanded.action.mark_name(),
                links,
            });
            counter = counter.saturating_add(1);
        }
        let change = writer.finish().map_err(ExpandedChangeError::History)?;
        if self.author.is_some() && self.author.as_deref() != change.author() {
            return Err(ExpandedChangeError::Author);
        }
        match self.hash {
            Some(stated) if stated != change.hash() => {
                Err(ExpandedChangeError::Hash { stated, found: change.hash() })
            }
            _ => Ok(change),
        }
    }
}

/// The object, key and preds of an op, by the actors of the change being made.
type Named<'a> = (StoredObjId, Key<'a>, Vec<OpId>);

/// The actors named by a change.
#[derive(Default)]
struct Actors {
    ids: Vec<ActorId>,
    places: std::collections::BTreeMap<ActorId, ActorIdx>,
}

impl Actors {
    fn index(&mut self, actor: &ActorId) -> ActorIdx {
        if let Some(index) = self.places.get(actor) {
            return *index;
        }
        let index = ActorIdx(u32::try_from(self.ids.len()).expect("actors take memory each"));
        self.ids.push(actor.clone());
        self.places.insert(actor.clone(), index);
        index
    }

    fn id(&mut self, id: &ObjId) -> Option<OpId> {
        Some(OpId { counter: id.counter(), actor: self.index(id.actor()?) })
    }

    /// `None` if the op refers to the root as an op.
    fn localize<'a>(&mut self, op: &'a ExpandedOp) -> Option<Named<'a>> {
        let obj = match op.obj.is_root() {
            true => StoredObjId::Root,
            false => StoredObjId::Op(self.id(&op.obj)?),
        };
        let key = match &op.key {
            ExpandedKey::Map(key) => Key::Map(key),
            ExpandedKey::Head => Key::Head,
            ExpandedKey::Elem(elem) => Key::Elem(self.id(elem)?),
        };
        let links = op.pred.iter().map(|pred| self.id(pred)).collect::<Option<Vec<OpId>>>()?;
        Some((obj, key, links))
    }
}
