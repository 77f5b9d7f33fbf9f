//! Tests of reading and writing changes.

use super::*;
use crate::{Action, Error, Key, ObjId, Op, ScalarRef};

fn actor(byte: u8) -> ActorId {
    ActorId::new(&[byte; 4])
}

fn id(counter: u32, actor: u32) -> OpId {
    OpId { counter, actor: ActorIdx(actor) }
}

fn header(actor: u32) -> ChangeHeader<'static> {
    ChangeHeader {
        actor: ActorIdx(actor),
        seq: 1,
        start_op: 10,
        time: 0,
        message: None,
        deps: Vec::new(),
        extra_bytes: &[],
    }
}

fn set(id: OpId, links: &[OpId]) -> Op<'_> {
    Op {
        id,
        obj: ObjId::Root,
        key: Key::Map("k"),
        insert: false,
        action: Action::Set,
        value: ScalarRef::Int(-1),
        expand: false,
        mark_name: None,
        links,
    }
}

#[track_caller]
fn misuse(header: ChangeHeader<'_>, op: &Op<'_>) {
    let actors = [actor(1), actor(2)];
    let mut writer = ChangeWriter::new(header, &actors);
    writer.push(op);
    assert!(matches!(writer.finish(), Err(Error::Misuse { .. })));
}

#[test]
fn what_is_written_is_canonical_whatever_the_order_given() {
    let dep = |byte| ChangeHash([byte; 32]);
    let write = |actors: &[ActorId; 4], of: [u32; 4], deps: [u8; 2]| {
        let [author, a, b, _] = of;
        let header = ChangeHeader {
            deps: deps.map(dep).to_vec(),
            message: Some("why"),
            time: -5,
            extra_bytes: &[1, 2],
            ..header(author)
        };
        let mut writer = ChangeWriter::new(header, actors);
        writer.push(&set(id(10, author), &[id(3, b), id(3, a), id(2, author)]));
        let key = Key::Elem(id(4, a));
        writer.push(&Op {
            key,
            insert: true,
            obj: ObjId::Op(id(1, b)),
            ..set(id(11, author), &[])
        });
        writer.finish().unwrap()
    };
    let one = write(&[actor(5), actor(1), actor(9), actor(7)], [0, 1, 2, 3], [1, 2]);
    let two = write(&[actor(9), actor(7), actor(1), actor(5)], [3, 2, 0, 1], [2, 1]);
    assert_eq!(one.raw_bytes(), two.raw_bytes());
    assert_eq!(one.actors(), [actor(5), actor(1), actor(9)]);
    assert_eq!(one.deps(), [dep(1), dep(2)]);
    assert_eq!((one.message(), one.time()), (Some("why"), -5));
    assert_eq!(one.extra_bytes(), [1, 2]);
    assert_eq!((one.start_op(), one.max_op(), one.len()), (10, 11, 2));

    let read = Change::from_bytes(one.raw_bytes()).unwrap();
    assert_eq!((read.message(), read.extra_bytes()), (Some("why"), &[1, 2][..]));
    let mut ops = read.ops();
    assert_eq!(ops.remaining(), 2);
    let first = ops.next_op().unwrap();
    assert_eq!(first, set(id(10, 0), &[id(2, 0), id(3, 1), id(3, 2)]));
    let second = ops.next_op().unwrap();
    assert_eq!((second.obj, second.key), (ObjId::Op(id(1, 2)), Key::Elem(id(4, 1))));
    assert!(ops.next_op().is_none());
    assert!(ops.next_op().is_none());
}

#[test]
fn a_change_without_ops() {
    let actors = [actor(1)];
    let change = ChangeWriter::new(header(0), &actors).finish().unwrap();
    assert!(change.is_empty());
    assert_eq!((change.start_op(), change.max_op()), (10, 9));
    assert_eq!(Change::from_bytes(change.raw_bytes()), Ok(change));
}

#[test]
fn only_long_changes_are_compressed() {
    let actors = [actor(1)];
    let write = |len| {
        let text = "a".repeat(len);
        let mut writer = ChangeWriter::new(header(0), &actors);
        writer.push(&Op { value: ScalarRef::Str(&text), ..set(id(10, 0), &[]) });
        writer.finish().unwrap()
    };
    let overhead = write(150).raw_bytes().len() - 150;
    let short = write(256 - overhead);
    assert_eq!(short.raw_bytes().len(), 256);
    assert_eq!(*short.bytes(), *short.raw_bytes());
    let long = write(257 - overhead);
    let compressed = long.bytes();
    assert_eq!(compressed[8], 2);
    assert!(compressed.len() < 150);
    let read = Change::from_bytes(&compressed).unwrap();
    assert_eq!(read.raw_bytes(), long.raw_bytes());
}

#[test]
fn misuse_is_an_error() {
    let good = set(id(10, 0), &[]);
    misuse(header(2), &good);
    misuse(ChangeHeader { seq: 0, ..header(0) }, &good);
    misuse(ChangeHeader { start_op: 0, ..header(0) }, &good);
    misuse(ChangeHeader { deps: vec![ChangeHash([0; 32]); 2], ..header(0) }, &good);
    misuse(header(0), &set(id(11, 0), &[]));
    misuse(header(0), &set(id(10, 1), &[]));
    misuse(header(0), &set(id(10, 0), &[id(10, 0)]));
    misuse(header(0), &set(id(10, 0), &[id(0, 0)]));
    misuse(header(0), &set(id(10, 0), &[id(1, 2)]));
    misuse(header(0), &set(id(10, 0), &[id(1, 1), id(1, 1)]));
    misuse(header(0), &Op { insert: true, ..good });
    misuse(header(0), &Op { key: Key::Head, ..good });
    misuse(header(0), &Op { key: Key::Elem(id(12, 0)), ..good });
    misuse(header(0), &Op { obj: ObjId::Op(id(10, 0)), ..good });
    misuse(header(0), &Op { action: Action::Increment, value: ScalarRef::F64(1.0), ..good });
    misuse(header(0), &Op { value: ScalarRef::Unknown { type_code: 9, bytes: &[] }, ..good });
    // The same actor twice.
    let actors = [actor(1), actor(2), actor(2)];
    let mut writer = ChangeWriter::new(header(0), &actors);
    writer.push(&set(id(10, 0), &[id(1, 1), id(1, 2)]));
    assert!(matches!(writer.finish(), Err(Error::Misuse { .. })));
    // Counters at their end.
    let mut writer = ChangeWriter::new(ChangeHeader { start_op: u32::MAX, ..header(0) }, &actors);
    writer.push(&set(id(u32::MAX, 0), &[]));
    writer.push(&set(id(u32::MAX, 0), &[]));
    assert!(matches!(writer.finish(), Err(Error::Misuse { .. })));
}

#[test]
fn counters_reach_the_last_one() {
    let actors = [actor(1)];
    let mut writer = ChangeWriter::new(ChangeHeader { start_op: u32::MAX, ..header(0) }, &actors);
    writer.push(&set(id(u32::MAX, 0), &[]));
    let change = writer.finish().unwrap();
    assert_eq!(change.max_op(), u32::MAX);
    let change = Change::from_bytes(change.raw_bytes()).unwrap();
    assert_eq!(change.ops().next_op().unwrap().id.counter, u32::MAX);
}
