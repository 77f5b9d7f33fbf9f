//! Bundles written, read, taken apart and forged.

use proptest::prelude::*;

use super::*;
use crate::chunk::columns::{ID_ACTOR, ID_COUNTER, ID_POSITION};
use crate::chunk::header;
use crate::column::leb128::{write_length_prefixed, write_uleb};
use crate::{
    Action, ActorId, ActorIdx, ChangeHeader, ChangeWriter, Key, ObjId, Op, OpId, ScalarRef, TextRun,
};

fn id(counter: u32, actor: u32) -> OpId {
    OpId { counter, actor: ActorIdx(actor) }
}

fn actors() -> [ActorId; 2] {
    [ActorId::new(&[1]), ActorId::new(&[2])]
}

fn header(actor: u32, seq: u32, start_op: u32, deps: Vec<ChangeHash>) -> ChangeHeader<'static> {
    ChangeHeader {
        actor: ActorIdx(actor),
        seq,
        start_op,
        time: i64::from(seq) * 7,
        message: (seq == 1).then_some("first"),
        deps,
        extra_bytes: if seq == 2 { b"\x01\x02ab" } else { &[] },
    }
}

/// A text, typing, and a change by somebody else with a delete in the text and a new key; then one
/// without ops.
fn sample() -> Vec<Change> {
    let actors = actors();
    let make = Op {
        id: id(1, 0),
        obj: ObjId::Root,
        key: Key::Map("text"),
        insert: false,
        action: Action::MakeText,
        value: ScalarRef::Null,
        expand: false,
        mark_name: None,
        links: &[],
    };
    let text = ObjId::Op(id(1, 0));
    let mut one = ChangeWriter::new(header(0, 1, 1, Vec::new()), &actors);
    one.push(&make);
    one.push_text(&TextRun {
        id: id(2, 0),
        obj: text,
        reference: None,
        text: "héllo",
        len: 5,
        succ: None,
        succ_descends: false,
    });
    let one = one.finish().unwrap();
    let mut two = ChangeWriter::new(header(1, 1, 7, vec![one.hash()]), &actors);
    let links = [id(3, 0)];
    let key = Key::Elem(id(3, 0));
    let action = Action::Delete;
    two.push(&Op { id: id(7, 1), obj: text, key, action, links: &links, ..make });
    let (key, action) = (Key::Map("n"), Action::Set);
    two.push(&Op { id: id(8, 1), key, action, value: ScalarRef::Counter(-3), ..make });
    let two = two.finish().unwrap();
    let three = ChangeWriter::new(header(0, 2, 7, vec![one.hash()]), &actors).finish().unwrap();
    vec![one, two, three]
}

fn write(changes: &[Change]) -> Vec<u8> {
    let writer = BundleWriter::new(changes).unwrap().deflate(false);
    writer.finish(|_, elem| u64::from(elem.counter)).unwrap()
}

fn read(bytes: &[u8]) -> Result<Bundle, Error> {
    Bundle::from_bytes(bytes, &Limits::default())
}

fn raw(changes: &[Change]) -> Vec<&[u8]> {
    changes.iter().map(Change::raw_bytes).collect()
}

fn seal(body: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    header::write(ChunkType::Bundle, header::hash(ChunkType::Bundle, body), body, &mut out);
    out
}

/// A body taken apart.
#[derive(Clone)]
struct Parts {
    deps: Vec<ChangeHash>,
    actors: Vec<ActorId>,
    changes: Vec<(ColumnSpec, Vec<u8>)>,
    ops: Vec<(ColumnSpec, Vec<u8>)>,
}

impl Parts {
    fn of(bytes: &[u8]) -> Self {
        let mut reader = Reader::new(Envelope::read(bytes).unwrap().body);
        let deps = read_deps(&mut reader).unwrap();
        let actors = parts::read_actors(&mut reader).unwrap();
        let mut columns = || {
            let table = spec::read_bundle_table(&mut reader).unwrap();
            let data = reader.bytes(spec::data_len(&table)).unwrap();
            let column = |column: RawColumn| (column.spec, data[column.range].to_vec());
            table.into_iter().map(column).collect()
        };
        Self { deps, actors: actors.into(), changes: columns(), ops: columns() }
    }

    fn seal(&self) -> Vec<u8> {
        let mut body = Vec::new();
        write_uleb(self.deps.len() as u64, &mut body);
        self.deps.iter().for_each(|dep| body.extend_from_slice(&dep.0));
        write_uleb(self.actors.len() as u64, &mut body);
        self.actors.iter().for_each(|actor| write_length_prefixed(actor.as_bytes(), &mut body));
        for columns in [&self.changes, &self.ops] {
            write_uleb(columns.len() as u64, &mut body);
            for (spec, data) in columns {
                write_uleb(u64::from(spec.0), &mut body);
                write_uleb(data.len() as u64, &mut body);
            }
            columns.iter().for_each(|(_, data)| body.extend_from_slice(data));
        }
        seal(&body)
    }

    fn op(&mut self, spec: u32) -> &mut Vec<u8> {
        &mut self.ops.iter_mut().find(|(known, _)| known.0 == spec).unwrap().1
    }

    fn change(&mut self, spec: u32) -> &mut Vec<u8> {
        &mut self.changes.iter_mut().find(|(known, _)| known.0 == spec).unwrap().1
    }
}

fn refused(parts: &Parts, expected: &str) {
    let error = read(&parts.seal()).unwrap_err();
    assert_eq!(error.to_string(), expected);
}

#[test]
fn changes_go_in_and_come_out() {
    let changes = sample();
    let bundle = read(&write(&changes)).unwrap();
    assert_eq!(raw(bundle.changes()), raw(&changes));
    assert_eq!(bundle.deps(), []);
    // Deflated as well, and without the first change.
    let bytes = BundleWriter::new(&changes).unwrap().finish(|_, _| 0).unwrap();
    let bundle = read(&bytes).unwrap();
    assert_eq!(raw(bundle.changes()), raw(&changes));
    let bundle = read(&write(&changes[1..])).unwrap();
    assert_eq!(raw(bundle.changes()), raw(&changes[1..]));
    assert_eq!(bundle.deps(), [changes[0].hash()]);
    assert_eq!(read(&write(&[])).unwrap().changes(), []);
}

#[test]
fn what_a_bundle_cannot_hold_is_refused() {
    let changes = sample();
    let misuse = |changes: &[&Change]| BundleWriter::new(changes.iter().copied()).unwrap_err();
    assert!(matches!(misuse(&[&changes[1], &changes[0]]), Error::Misuse { .. }));
    assert!(matches!(misuse(&[&changes[0], &changes[0]]), Error::Misuse { .. }));
}

#[test]
fn positions_may_be_counters_as_in_old_bundles() {
    let changes = sample();
    let mut parts = Parts::of(&write(&changes));
    let at = parts.ops.iter().position(|(spec, _)| *spec == BUNDLE_SPECS[ID_POSITION]).unwrap();
    parts.ops.remove(at);
    refused(&parts, "bundle chunk: id counter column: wrong number of rows: 0");
    // By object and key: n, text, then the characters with the delete after the second.
    let mut counters = crate::column::delta::DeltaEncoder::default();
    for counter in [8, 1, 2, 3, 7, 4, 5, 6] {
        counters.push_value(counter);
    }
    counters.finish();
    let at = parts.ops.iter().position(|(spec, _)| *spec == BUNDLE_SPECS[ID_ACTOR]).unwrap() + 1;
    parts.ops.insert(at, (BUNDLE_SPECS[ID_COUNTER], counters.bytes().to_vec()));
    let bundle = read(&parts.seal()).unwrap();
    assert_eq!(raw(bundle.changes()), raw(&changes));
    *parts.op(35) = vec![8, 1];
    refused(
        &parts,
        "bundle chunk: id counter column, row 0: op belongs to no change, with the counter: 1",
    );
}

#[test]
fn refusals_name_the_place() {
    let good = Parts::of(&write(&sample()));
    let with = |change: &dyn Fn(&mut Parts)| {
        let mut parts = good.clone();
        change(&mut parts);
        parts
    };
    refused(
        &with(&|parts| parts.actors.swap(0, 1)),
        "bundle chunk: actors: not in ascending order",
    );
    refused(
        &with(&|parts| parts.changes.push((ColumnSpec(112), vec![1]))),
        "bundle chunk: change column table: unknown column: 112",
    );
    refused(
        &with(&|parts| parts.op(179)[1] = 0),
        "bundle chunk: id actor column, row 0: no such actor: 1",
    );
    refused(
        &with(&|parts| *parts.op(179) = vec![0x7f, 1, 7, 0]),
        "bundle chunk: id position column, row 1: number out of range: 1",
    );
    refused(
        &with(&|parts| *parts.change(83) = vec![2, 2]),
        "bundle chunk: change dep column, row 1: dependency is not an earlier row: 2",
    );
    refused(
        &with(&|parts| *parts.change(83) = vec![2, 9]),
        "bundle chunk: change dep column, row 1: dependency is not an earlier row: 9",
    );
    refused(
        &with(&|parts| *parts.change(35) = vec![0x7d, 5, 3, 0x7e]),
        "bundle chunk: object counter column: wrong number of rows: 8",
    );
    refused(
        &with(&|parts| *parts.change(3) = vec![3, 0]),
        "bundle chunk: change seq column, row 0: sequence number out of turn: 0",
    );
    refused(
        &with(&|parts| parts.change(103).push(1)),
        "bundle chunk: change extra column: bytes left over: 1",
    );
    refused(
        &with(&|parts| *parts.op(115) = vec![0x7f, 9]),
        "bundle chunk: pred counter column, row 4: refers to an op that is not before it: 9",
    );
    let few = Limits { max_ops: 7, ..Limits::default() };
    let error = Bundle::from_bytes(&good.seal(), &few).unwrap_err();
    assert_eq!(error.to_string(), "bundle chunk: more ops than allowed: 7");
    let few = Limits { max_rebuilt_bytes: 100, ..Limits::default() };
    let error = Bundle::from_bytes(&good.seal(), &few).unwrap_err();
    assert_eq!(error.to_string(), "bundle chunk: more bytes of rebuilt changes than allowed: 100");
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// Any bytes in any column are changes or an error; read changes are written and read again.
    #[test]
    fn any_columns(
        edits in prop::collection::vec(
            (any::<prop::sample::Index>(), any::<prop::sample::Index>(), any::<u8>()),
            1..4,
        ),
    ) {
        let mut parts = Parts::of(&write(&sample()));
        let count = parts.changes.len();
        for (column, at, byte) in edits {
            let column = column.index(count + parts.ops.len());
            let data = match column.checked_sub(count) {
                None => &mut parts.changes[column].1,
                Some(op) => &mut parts.ops[op].1,
            };
            let at = at.index(data.len());
            data[at] = byte;
        }
        if let Ok(bundle) = read(&parts.seal()) {
            // A delete with a value is readable, but no document could give it back.
            if let Err(error) = BundleWriter::new(bundle.changes()) {
                let is_odd = matches!(error, Error::NotCanonical { .. });
                prop_assert!(is_odd, "{error}");
                return Ok(());
            }
            let again = write(bundle.changes());
            let again = read(&again).unwrap();
            prop_assert_eq!(raw(again.changes()), raw(bundle.changes()));
        }
    }

    #[test]
    fn any_body(body in prop::collection::vec(any::<u8>(), 0..60)) {
        let _ = read(&seal(&body));
    }
}
