//! Documents: the operations the document rows ask of an engine.

use super::{About, Miss};

/// The kinds of object in a document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// String keys to values.
    Map,
    /// Values in order.
    List,
    /// Characters in order.
    Text,
}

/// The unit of an engine's places in a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Unicode code points, as the traces count.
    CodePoint,
    /// UTF-16 code units: traces with characters beyond the first plane cannot be replayed.
    Utf16,
}

/// An engine whose documents are edited apart and merged.
///
/// Integers stand for all scalars. A row needing an operation left out by the adapter is `not run`.
/// Adapters make actors and times deterministic: `actor` is the whole name, and the time of every
/// change is 0, so equal formats give equal hashes.
pub trait DocEngine: Send + Sync + 'static {
    /// A document; shared by threads in the rows of concurrent readers.
    type Doc: Send + Sync;
    /// A transaction under way.
    type Tx<'a>;
    /// Names a map, list or text within its document.
    type Obj: Clone + Send + Sync;
    /// Names a moment of a document's history.
    type Heads: Clone + Send + Sync;
    /// A place in a list, moving with its neighbours.
    type Cursor;
    /// The knowledge one side of a sync has of the other.
    type Session;

    /// Who this is.
    fn about(&self) -> About;

    /// The unit of places in a text.
    fn unit(&self) -> Unit {
        Unit::CodePoint
    }

    /// The format shared by engines whose heads and bytes can be compared: `automerge`.
    fn format(&self) -> Option<&'static str> {
        None
    }

    /// An empty document of `actor`.
    fn create(&self, actor: u16) -> Result<Self::Doc, Miss>;

    /// Runs `work` as one transaction (one change) and commits the transaction.
    fn transact<R>(
        &self,
        doc: &mut Self::Doc,
        work: impl FnOnce(&mut Self::Tx<'_>) -> Result<R, Miss>,
    ) -> Result<R, Miss>;

    /// The root map.
    fn root(&self, _doc: &Self::Doc) -> Result<Self::Obj, Miss> {
        Err(Miss::absent("maps"))
    }

    /// A document with one empty text, and the text. Engines of nothing but a text override this.
    fn create_text(&self, actor: u16) -> Result<(Self::Doc, Self::Obj), Miss> {
        let mut doc = self.create(actor)?;
        let root = self.root(&doc)?;
        let text = self.transact(&mut doc, |tx| self.put_object(tx, &root, "text", Kind::Text))?;
        Ok((doc, text))
    }

    /// The text made by [`Self::create_text`], in a document loaded or merged.
    fn find_text(&self, doc: &Self::Doc) -> Result<Self::Obj, Miss> {
        self.find(doc, &self.root(doc)?, "text")
    }

    /// The object at `key` of the map `obj`.
    fn find(&self, _doc: &Self::Doc, _obj: &Self::Obj, _key: &str) -> Result<Self::Obj, Miss> {
        Err(Miss::absent("objects in maps"))
    }

    /// Sets `key` of the map `obj`.
    fn put(
        &self,
        _tx: &mut Self::Tx<'_>,
        _obj: &Self::Obj,
        _key: &str,
        _value: i64,
    ) -> Result<(), Miss> {
        Err(Miss::absent("maps"))
    }

    /// Puts a new object at `key` of the map `obj`.
    fn put_object(
        &self,
        _tx: &mut Self::Tx<'_>,
        _obj: &Self::Obj,
        _key: &str,
        _kind: Kind,
    ) -> Result<Self::Obj, Miss> {
        Err(Miss::absent("objects in maps"))
    }

    /// Inserts before the element `index` of the list `obj`.
    fn insert(
        &self,
        _tx: &mut Self::Tx<'_>,
        _obj: &Self::Obj,
        _index: usize,
        _value: i64,
    ) -> Result<(), Miss> {
        Err(Miss::absent("lists"))
    }

    /// Deletes `delete` characters at `place` of the text `obj`, then inserts `insert` there.
    fn splice(
        &self,
        tx: &mut Self::Tx<'_>,
        obj: &Self::Obj,
        place: usize,
        delete: usize,
        insert: &str,
    ) -> Result<(), Miss>;

    /// The integer at `key` of the map `obj`.
    fn get(&self, _doc: &Self::Doc, _obj: &Self::Obj, _key: &str) -> Result<Option<i64>, Miss> {
        Err(Miss::absent("maps"))
    }

    /// Calls `visit` with every key of the map `obj`; the order is the engine's.
    fn keys(
        &self,
        _doc: &Self::Doc,
        _obj: &Self::Obj,
        _visit: impl FnMut(&str),
    ) -> Result<(), Miss> {
        Err(Miss::absent("keys of a map"))
    }

    /// The integer at `index` of the list `obj`.
    fn at(&self, _doc: &Self::Doc, _obj: &Self::Obj, _index: usize) -> Result<Option<i64>, Miss> {
        Err(Miss::absent("lists"))
    }

    /// Calls `visit` with every integer of the list `obj`, in order.
    fn elements(
        &self,
        _doc: &Self::Doc,
        _obj: &Self::Obj,
        _visit: impl FnMut(i64),
    ) -> Result<(), Miss> {
        Err(Miss::absent("iteration of a list"))
    }

    /// Elements of a list, or characters of a text.
    fn length(&self, _doc: &Self::Doc, _obj: &Self::Obj) -> Result<usize, Miss> {
        Err(Miss::absent("length"))
    }

    /// The whole text.
    fn text(&self, doc: &Self::Doc, obj: &Self::Obj) -> Result<String, Miss>;

    /// The whole document as JSON with sorted keys, in the shape of Automerge's own export.
    fn json(&self, _doc: &Self::Doc) -> Result<String, Miss> {
        Err(Miss::absent("JSON"))
    }

    /// Where the document is now.
    fn heads(&self, _doc: &mut Self::Doc) -> Result<Self::Heads, Miss> {
        Err(Miss::absent("heads"))
    }

    /// The heads as bytes, for engines sharing a format.
    fn heads_bytes(&self, _doc: &mut Self::Doc) -> Option<Vec<u8>> {
        None
    }

    /// [`Self::get`] as of `heads`.
    fn get_at(
        &self,
        _doc: &Self::Doc,
        _obj: &Self::Obj,
        _key: &str,
        _heads: &Self::Heads,
    ) -> Result<Option<i64>, Miss> {
        Err(Miss::absent("reads at old heads"))
    }

    /// [`Self::text`] as of `heads`.
    fn text_at(
        &self,
        _doc: &Self::Doc,
        _obj: &Self::Obj,
        _heads: &Self::Heads,
    ) -> Result<String, Miss> {
        Err(Miss::absent("reads at old heads"))
    }

    /// A cursor on element `index` of the list `obj`.
    fn cursor(
        &self,
        _doc: &Self::Doc,
        _obj: &Self::Obj,
        _index: usize,
    ) -> Result<Self::Cursor, Miss> {
        Err(Miss::absent("cursors"))
    }

    /// Where the cursor's element is now.
    fn resolve(
        &self,
        _doc: &Self::Doc,
        _obj: &Self::Obj,
        _cursor: &Self::Cursor,
    ) -> Result<usize, Miss> {
        Err(Miss::absent("cursors"))
    }

    /// [`Self::transact`], returning the number of patches for the change.
    fn transact_with_patches(
        &self,
        _doc: &mut Self::Doc,
        _work: impl FnOnce(&mut Self::Tx<'_>) -> Result<(), Miss>,
    ) -> Result<usize, Miss> {
        Err(Miss::absent("patches"))
    }

    /// The document in its most compact form, history included.
    fn save(&self, _doc: &mut Self::Doc) -> Result<Vec<u8>, Miss> {
        Err(Miss::absent("save"))
    }

    /// The form fastest to load, history optional; the row names the parts left out.
    fn save_state(&self, _doc: &mut Self::Doc) -> Result<Vec<u8>, Miss> {
        Err(Miss::absent("a form without history"))
    }

    /// A document of `actor` from the bytes of [`Self::save`].
    fn load(&self, _bytes: &[u8], _actor: u16) -> Result<Self::Doc, Miss> {
        Err(Miss::absent("load"))
    }

    /// The same without verification: hashes are compared when they are asked for, or not at all.
    /// Engines without an unverified form load as always.
    fn load_unverified(&self, bytes: &[u8], actor: u16) -> Result<Self::Doc, Miss> {
        self.load(bytes, actor)
    }

    /// Visits the whole history, as a reader of every change would; returns how many there are.
    fn history(&self, _doc: &mut Self::Doc) -> Result<usize, Miss> {
        Err(Miss::absent("a walk through history"))
    }

    /// A copy, continued by `actor`.
    fn fork(&self, _doc: &mut Self::Doc, _actor: u16) -> Result<Self::Doc, Miss> {
        Err(Miss::absent("fork"))
    }

    /// Brings everything of `source` into `target`.
    fn merge(&self, _target: &mut Self::Doc, _source: &mut Self::Doc) -> Result<(), Miss> {
        Err(Miss::absent("merge"))
    }

    /// The changes since `heads` (everything for `None`), as the bytes to send to a peer: one entry
    /// per change where the engine keeps changes apart.
    fn changes(
        &self,
        _doc: &mut Self::Doc,
        _since: Option<&Self::Heads>,
    ) -> Result<Vec<Vec<u8>>, Miss> {
        Err(Miss::absent("changes as bytes"))
    }

    /// Applies the bytes of [`Self::changes`].
    fn apply(&self, _doc: &mut Self::Doc, _changes: &[Vec<u8>]) -> Result<(), Miss> {
        Err(Miss::absent("changes as bytes"))
    }

    /// A fresh sync session.
    fn session(&self) -> Result<Self::Session, Miss> {
        Err(Miss::absent("sync messages"))
    }

    /// The next message for the other side, or `None` when there is nothing to say.
    fn generate(
        &self,
        _doc: &mut Self::Doc,
        _session: &mut Self::Session,
    ) -> Result<Option<Vec<u8>>, Miss> {
        Err(Miss::absent("sync messages"))
    }

    /// Takes a message from the other side.
    fn receive(
        &self,
        _doc: &mut Self::Doc,
        _session: &mut Self::Session,
        _message: &[u8],
    ) -> Result<(), Miss> {
        Err(Miss::absent("sync messages"))
    }

    /// Lets two documents talk until both are silent; returns the number of bytes sent. Engines
    /// whose protocol is not a session override this.
    fn synchronise(&self, left: &mut Self::Doc, right: &mut Self::Doc) -> Result<usize, Miss> {
        let (mut to_right, mut to_left) = (self.session()?, self.session()?);
        let mut bytes = 0;
        for _ in 0..ROUND_TRIPS_MAX {
            let there = self.generate(left, &mut to_right)?;
            if let Some(message) = &there {
                bytes += message.len();
                self.receive(right, &mut to_left, message)?;
            }
            let back = self.generate(right, &mut to_left)?;
            if let Some(message) = &back {
                bytes += message.len();
                self.receive(left, &mut to_right, message)?;
            }
            if there.is_none() && back.is_none() {
                return Ok(bytes);
            }
        }
        Err(Miss::Failed("two peers still talk after 1000 round trips".into()))
    }
}

/// A sync not converged by then never will.
const ROUND_TRIPS_MAX: usize = 1000;
