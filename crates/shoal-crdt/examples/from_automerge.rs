//! The calls of `docs/from-automerge.md`, made once each.

use shoal_crdt::{
    ActorId, AutoCommit, CommitOptions, Document, Error, ExpandMark, LoadOptions, MoveCursor,
    ObjType, ROOT, ReadDoc, Transactable,
};

fn main() -> Result<(), Error> {
    // Explicit transactions.
    let mut doc = Document::new(ActorId::new(&[1; 16]));
    let mut tx = doc.transaction();
    let text = tx.put_object(&ROOT, "text", ObjType::Text)?;
    tx.splice_text(&text, 0, 0, "hello world")?;
    tx.commit(CommitOptions::default().with_message("first").with_time(1_700_000_000));
    let first = doc.heads();

    // An implicit one.
    let mut other = AutoCommit::from(doc.fork(ActorId::new(&[2; 16])));
    other.update_text(&text, "hello wide world")?;
    other.mark(&text, 0, 5, "bold", true, ExpandMark::After)?;
    let bytes = other.save();

    // Whatever is done to a document can be observed.
    let (loaded, patches) = doc.observe(|doc| doc.load_incremental(&bytes))?;
    loaded?;
    assert_eq!(patches.len(), 2);

    // The past has the same reads as the present.
    assert_eq!(doc.text(&text)?, "hello wide world");
    assert_eq!(doc.at(&first).text(&text)?, "hello world");
    let cursor = doc.at(&first).get_cursor_moving(&text, 7, MoveCursor::Before)?;
    assert_eq!(doc.get_cursor_position(&text, &cursor)?, 12);

    // Everything goes through bytes.
    let loaded = Document::load(&doc.save(), ActorId::new(&[3; 16]), &LoadOptions::default())?;
    assert_eq!(loaded.heads(), doc.heads());
    assert_eq!(loaded.marks(&text)?.len(), 1);
    Ok(())
}

#[cfg(test)]
mod tests {
    #[test]
    fn runs() {
        super::main().expect("the calls of the guide work");
    }
}
