//! Document chunks whose changes could not be applied one after the other.

use shoal_history::{
    Action, ActorId, ActorIdx, Change, ChangeHeader, ChangeWriter, Chunk, DocumentWriter, Error,
    Key, Limits, ObjId, Op, OpId, ScalarRef, Verify, chunks,
};

fn id(counter: u32, actor: u32) -> OpId {
    OpId { counter, actor: ActorIdx(actor) }
}

fn changes(bytes: &[u8]) -> Result<Vec<Change>, Error> {
    let Some(Ok(Chunk::Document(document))) = chunks(bytes, &Limits::default()).next() else {
        panic!("each row is valid by itself");
    };
    document.changes(Verify::Heads)
}

/// Two changes, neither of which depends on the other, of which the second names ops of the first:
/// an object, an element, and one that it supersedes. `first` says which comes first in the
/// document.
fn entangled(first: usize, object: bool, elem: bool, succ: bool) -> Vec<u8> {
    let actors = [ActorId::new(&[1]), ActorId::new(&[2])];
    let header = |actor, start_op| ChangeHeader {
        actor: ActorIdx(actor),
        seq: 1,
        start_op,
        time: 0,
        message: None,
        deps: Vec::new(),
        extra_bytes: &[],
    };
    let base = Op {
        id: id(1, 0),
        obj: ObjId::Root,
        key: Key::Map("t"),
        insert: false,
        action: Action::MakeText,
        value: ScalarRef::Null,
        expand: false,
        mark_name: None,
        links: &[],
    };
    let (action, value) = (Action::Set, ScalarRef::Str("x"));
    let text = ObjId::Op(id(1, 0));
    let one = Op { id: id(2, 0), obj: text, key: Key::Head, insert: true, action, value, ..base };
    let set = Op { id: id(3, 0), key: Key::Map("k"), action, value, ..base };
    let mut changes =
        [ChangeWriter::new(header(0, 1), &actors), ChangeWriter::new(header(1, 4), &actors)];
    for op in [&base, &one, &set] {
        changes[0].push(op);
    }
    let key = if elem { Key::Elem(id(2, 0)) } else { Key::Head };
    let other = Op { id: id(4, 1), key, ..one };
    let links = [id(3, 0)];
    let again = Op { id: id(4 + u32::from(object), 1), links: &links, ..set };
    if object {
        changes[1].push(&other);
    }
    if succ {
        changes[1].push(&again);
    }
    let changes = changes.map(|change| change.finish().unwrap());
    let mut writer = DocumentWriter::new(&actors).deflate(false);
    writer.push_change(&changes[first]);
    writer.push_change(&changes[1 - first]);
    let superseded = [again.id];
    if succ {
        writer.push_op(&Op { links: &superseded, ..set });
        writer.push_op(&Op { links: &[], ..again });
    } else {
        writer.push_op(&set);
    }
    writer.push_op(&base);
    if elem {
        writer.push_op(&one);
        writer.push_op(&other);
    } else {
        if object {
            writer.push_op(&other);
        }
        writer.push_op(&one);
    }
    writer.finish().unwrap()
}

/// Changes that nobody could apply one after the other are none; the order of the rows tells.
#[test]
fn what_ops_name_comes_before_them() {
    for (object, elem, succ, place) in [
        (true, false, false, "object counter column, row 2: refers to an op of a later change: 1"),
        (true, true, false, "object counter column, row 3: refers to an op of a later change: 1"),
        (false, false, true, "succ counter column, row 0: refers to an op of a later change: 3"),
    ] {
        let sound = changes(&entangled(0, object, elem, succ)).unwrap();
        assert_eq!(sound.len(), 2);
        assert!(sound.iter().all(|change| change.deps().is_empty()));
        let refused = changes(&entangled(1, object, elem, succ)).unwrap_err();
        assert_eq!(refused.to_string(), format!("document chunk: {place}"));
    }
}
