//! Databases of documents: the operations the `db` rows ask of an engine.

use std::path::Path;

use super::{About, Miss};

/// A run of one operation; gives what the row compares.
pub type Run<T> = Box<dyn FnMut() -> Result<T, Miss>>;

/// A document, or a table, that takes one keystroke a commit.
pub trait Typist {
    /// Makes one keystroke durable as the row asks.
    fn keystroke(&mut self) -> Result<(), Miss>;

    /// How many are stored by now.
    fn stored(&mut self) -> Result<u64, Miss>;
}

/// A contender that keeps documents in files. Each operation is prepared once, in `folder`, and run
/// for every sample.
pub trait DbEngine: Send + Sync + 'static {
    /// Who this is.
    fn about(&self) -> About;

    /// A document with a text of `bytes`, in write-ahead log mode; `full` syncs at each commit.
    fn typist(&self, _folder: &Path, _bytes: usize, _full: bool) -> Result<Box<dyn Typist>, Miss> {
        Err(Miss::absent("a keystroke a commit"))
    }

    /// As [`DbEngine::typist`], synced at each commit: the keystrokes go to the titles of 1,000
    /// items, whose rows are in three tables with an index on the title each.
    fn projected_typist(&self, _folder: &Path) -> Result<Box<dyn Typist>, Miss> {
        Err(Miss::absent("rows of documents"))
    }

    /// Opens a document of so many changes of one keystroke each, compacted, and gives the text.
    fn open_and_read(&self, _folder: &Path, _keystrokes: usize) -> Result<Run<String>, Miss> {
        Err(Miss::absent("a stored history"))
    }

    /// Opens a document of so many changes of 100 characters each, compacted, makes one edit,
    /// commits and closes. True where the edit is found by whoever opens next.
    fn edit_and_close(&self, _folder: &Path, _changes: usize) -> Result<Run<bool>, Miss> {
        Err(Miss::absent("an edit of a stored document"))
    }

    /// The JSON of a document of so many keystrokes as it was `back` changes ago, from a document
    /// that was read before.
    fn as_of(&self, _folder: &Path, _keystrokes: usize, _back: usize) -> Result<Run<String>, Miss> {
        Err(Miss::absent("the past of a document"))
    }

    /// The bytes that a document of so many keystrokes takes, compacted.
    fn size(&self, _folder: &Path, _keystrokes: usize) -> Result<Run<u64>, Miss> {
        Err(Miss::absent("a compacted history"))
    }

    /// Makes the rows of so many documents of 100 items anew; gives how many.
    fn rebuild(&self, _folder: &Path, _documents: usize) -> Result<Run<u64>, Miss> {
        Err(Miss::absent("a projection"))
    }

    /// [`QUERY`] over the rows of so many documents of 100 items, in the table kept from the
    /// documents, or in a plain one with the same rows.
    fn query(&self, _folder: &Path, _documents: usize, _plain: bool) -> Result<Run<u64>, Miss> {
        Err(Miss::absent("rows of documents"))
    }
}

/// The question of [`DbEngine::query`]; `p` is the table.
pub const QUERY: &str = "SELECT sum(n * length(title)) FROM p WHERE done";

/// The keystrokes of a text, each a character and its place: typed on, with a jump now and then.
pub fn keystrokes(count: usize) -> impl Iterator<Item = (usize, char)> {
    let (mut at, mut seed) = (0, 1_u64);
    (0..count).map(move |length| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let random = (seed >> 33) as usize;
        if random.is_multiple_of(40) {
            at = random / 40 % (length + 1);
        }
        at += 1;
        (at - 1, char::from(b"etaoin shrdlu cmfwyp vbgkq"[random / 1000 % 26]))
    })
}

/// A document of 100 items, as JSON.
pub fn items(document: usize) -> String {
    let item = |item: usize| {
        let done = (document + item).is_multiple_of(3);
        format!(r#"{{"title": "item {item} of {document}", "done": {done}, "n": {item}}}"#)
    };
    let items: Vec<String> = (0..100).map(item).collect();
    format!(r#"{{"items": [{}]}}"#, items.join(", "))
}
