//! Runs of ops are the same as the ops one by one, written and read.

use proptest::prelude::*;
use shoal_history::{
    Action, ActorId, ActorIdx, Change, ChangeHeader, ChangeRows, ChangeWriter, Chunk, DeleteRun,
    DocumentRows, DocumentWriter, InsertRun, Key, Limits, ObjId, Op, OpId, ScalarRef, TextRun,
    chunks,
};

fn id(counter: u32, actor: u32) -> OpId {
    OpId { counter, actor: ActorIdx(actor) }
}

const LIST: ObjId = ObjId::Op(OpId { counter: 1, actor: ActorIdx(0) });

#[derive(Clone, Debug)]
struct Typed {
    text: String,
    reference: Option<u32>,
    deleted: Option<(u32, bool)>,
}

fn typed() -> impl Strategy<Value = Typed> {
    let text = prop_oneof!["[ab]{1,6}", "[aé😀]{1,6}", "[é]{1,4}"];
    let deleted = prop::option::of((0_u32..3, any::<bool>()));
    (text, prop::option::weighted(0.8, 0_u32..40), deleted)
        .prop_map(|(text, reference, deleted)| Typed { text, reference, deleted })
}

/// Runs with ids of their own; sometimes one goes on where the last one ended.
fn runs(typed: &[Typed]) -> Vec<TextRun<'_>> {
    let mut next = 2;
    let mut runs: Vec<TextRun<'_>> = Vec::new();
    for typed in typed {
        let len = typed.text.chars().count() as u32;
        let reference = match (typed.reference, runs.last()) {
            (None, _) => None,
            (Some(at), Some(last)) if at % 2 == 0 => Some(id(last.id.counter + last.len - 1, 0)),
            (Some(at), _) => Some(id(1 + at % (next - 1), 0)),
        };
        let first_delete = |at: u32, descends| {
            let base = match runs.last().and_then(|last| last.succ) {
                // Go on deleting, too, where that is possible.
                Some(succ) if at == 0 => succ.counter + runs[runs.len() - 1].len,
                _ => 10_000 + at * 1000,
            };
            id(if descends { base + len } else { base }, at % 2)
        };
        runs.push(TextRun {
            id: id(next, 0),
            obj: LIST,
            reference,
            text: &typed.text,
            len,
            succ: typed.deleted.map(|(at, descends)| first_delete(at, descends)),
            succ_descends: typed.deleted.is_some_and(|(_, descends)| descends),
        });
        next += len;
    }
    runs
}

/// The ops that a run stands for, each with its link.
fn expand(run: &TextRun<'_>, mut visit: impl FnMut(&Op<'_>)) {
    for (at, (start, character)) in (0_u32..).zip(run.text.char_indices()) {
        let links: Vec<OpId> = run
            .succ
            .map(|succ| {
                let counter = succ.counter;
                let counter = if run.succ_descends { counter - at } else { counter + at };
                OpId { counter, ..succ }
            })
            .into_iter()
            .collect();
        let reference = match at {
            0 => run.reference,
            _ => Some(id(run.id.counter + at - 1, 0)),
        };
        visit(&Op {
            id: id(run.id.counter + at, 0),
            obj: run.obj,
            key: reference.map_or(Key::Head, Key::Elem),
            insert: true,
            action: Action::Set,
            value: ScalarRef::Str(&run.text[start..start + character.len_utf8()]),
            expand: false,
            mark_name: None,
            links: &links,
        });
    }
}

fn expand_deletes(run: &DeleteRun, mut visit: impl FnMut(&Op<'_>)) {
    for at in 0..run.len {
        let counter = run.elem.counter;
        let elem = id(if run.descends { counter - at } else { counter + at }, 0);
        visit(&Op {
            id: id(run.id.counter + at, 0),
            obj: run.obj,
            key: Key::Elem(elem),
            insert: false,
            action: Action::Delete,
            value: ScalarRef::Null,
            expand: false,
            mark_name: None,
            links: &[elem],
        });
    }
}

fn inserts(run: &TextRun<'_>) -> InsertRun {
    let TextRun { id, obj, reference, len, succ, succ_descends, .. } = *run;
    InsertRun { id, obj, reference, len, succ, succ_descends }
}

fn describe(op: &Op<'_>) -> String {
    format!("{op:?}")
}

fn header() -> ChangeHeader<'static> {
    ChangeHeader {
        actor: ActorIdx(0),
        seq: 1,
        start_op: 2,
        time: 0,
        message: None,
        deps: Vec::new(),
        extra_bytes: &[],
    }
}

/// A change without ops, so that each actor has made one.
fn empty_change(actor: &ActorId) -> Change {
    ChangeWriter::new(header(), std::slice::from_ref(actor)).finish().unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn documents_hold_the_same_rows(typed in prop::collection::vec(typed(), 1..12)) {
        let actors = [ActorId::new(&[1]), ActorId::new(&[2])];
        let runs = runs(&typed);
        let mut by_run = DocumentWriter::new(&actors);
        let mut by_op = DocumentWriter::new(&actors);
        let mut expected = Vec::new();
        for actor in &actors {
            by_run.push_change(&empty_change(actor));
            by_op.push_change(&empty_change(actor));
        }
        for run in &runs {
            by_run.push_text(run);
            expand(run, |op| {
                by_op.push_op(op);
                expected.push(describe(op));
            });
        }
        let bytes = by_run.finish().unwrap();
        prop_assert_eq!(&bytes, &by_op.finish().unwrap());

        let chunk = chunks(&bytes, &Limits::default()).next().unwrap().unwrap();
        let Chunk::Document(chunk) = chunk else { panic!("a document was written") };
        let mut one_by_one = Vec::new();
        let mut ops = chunk.ops();
        while let Some(op) = ops.next_op() {
            one_by_one.push(describe(&op));
        }
        prop_assert_eq!(&one_by_one, &expected);
        let mut read = Vec::new();
        let mut ops = chunk.ops();
        while let Some(rows) = ops.next_rows() {
            match rows {
                DocumentRows::Op(op) => read.push(describe(&op)),
                DocumentRows::Text(run) => {
                    prop_assert_eq!(run.text.chars().count(), run.len as usize);
                    expand(&run, |op| read.push(describe(op)));
                }
                DocumentRows::Scalars(..) => panic!("no scalar was written"),
            }
        }
        prop_assert_eq!(&read, &expected);
        prop_assert_eq!(ops.remaining(), 0);
    }

    /// The runs of text stand for runs of scalars here, one for each character.
    #[test]
    fn documents_hold_the_same_scalars(
        typed in prop::collection::vec(typed(), 1..8),
        numbers in prop::collection::vec((0_u8..5, -100_i64..100), 1..6),
    ) {
        let actors = [ActorId::new(&[1]), ActorId::new(&[2])];
        let mut by_run = DocumentWriter::new(&actors);
        let mut by_op = DocumentWriter::new(&actors);
        let mut expected = Vec::new();
        for actor in &actors {
            by_run.push_change(&empty_change(actor));
            by_op.push_change(&empty_change(actor));
        }
        let mut values = numbers.iter().cycle().map(|(kind, number)| match kind {
            0 => ScalarRef::Null,
            1 => ScalarRef::Boolean(*number > 0),
            2 => ScalarRef::F64(*number as f64),
            _ => ScalarRef::Int(*number),
        });
        for run in runs(&typed) {
            let own: Vec<_> = values.by_ref().take(run.len as usize).collect();
            by_run.push_scalars(&inserts(&run), own.iter().copied());
            let mut next = own.iter();
            expand(&run, |op| {
                let op = Op { value: *next.next().unwrap(), ..*op };
                by_op.push_op(&op);
                expected.push(describe(&op));
            });
        }
        let bytes = by_run.finish().unwrap();
        prop_assert_eq!(&bytes, &by_op.finish().unwrap());

        let chunk = chunks(&bytes, &Limits::default()).next().unwrap().unwrap();
        let Chunk::Document(chunk) = chunk else { panic!("a document was written") };
        let mut read = Vec::new();
        let mut ops = chunk.ops();
        while let Some(rows) = ops.next_rows() {
            match rows {
                DocumentRows::Op(op) => read.push(describe(&op)),
                DocumentRows::Scalars(run, mut values) => {
                    prop_assert_eq!(values.len(), run.len as usize);
                    let InsertRun { id, obj, reference, len, succ, succ_descends } = run;
                    let text = "x".repeat(len as usize);
                    let text = TextRun { id, obj, reference, text: &text, len, succ, succ_descends };
                    expand(&text, |op| {
                        read.push(describe(&Op { value: values.next().unwrap(), ..*op }));
                    });
                }
                DocumentRows::Text(..) => panic!("no text was written"),
            }
        }
        prop_assert_eq!(&read, &expected);
    }

    #[test]
    fn changes_hold_the_same_rows(
        typed in prop::collection::vec(typed(), 1..12),
        deletes in prop::collection::vec((2_u32..20, 1_u32..5, any::<bool>()), 0..5),
    ) {
        let actors = [ActorId::new(&[1])];
        let mut by_run = ChangeWriter::new(header(), &actors);
        let mut by_op = ChangeWriter::new(header(), &actors);
        let mut next = 2;
        for run in runs(&typed) {
            let run = TextRun { succ: None, succ_descends: false, ..run };
            by_run.push_text(&run);
            expand(&run, |op| by_op.push(op));
            next = run.id.counter + run.len;
        }
        for (elem, len, descends) in deletes {
            let elem = elem.min(next - 1);
            let len = if descends { len.min(elem) } else { len };
            let elem = id(elem, 0);
            let run = DeleteRun { id: id(next, 0), obj: LIST, elem, len, descends };
            by_run.push_deletes(&run);
            expand_deletes(&run, |op| by_op.push(op));
            next += len;
        }
        let (by_run, by_op) = (by_run.finish().unwrap(), by_op.finish().unwrap());
        prop_assert_eq!(by_run.raw_bytes(), by_op.raw_bytes());
        prop_assert!(by_run.is_canonical());

        let change = Change::from_bytes(by_run.raw_bytes()).unwrap();
        let (mut expected, mut read) = (Vec::new(), Vec::new());
        let mut ops = change.ops();
        while let Some(op) = ops.next_op() {
            expected.push(describe(&op));
        }
        let mut ops = change.ops();
        while let Some(rows) = ops.next_rows() {
            match rows {
                ChangeRows::Op(op) => read.push(describe(&op)),
                ChangeRows::Text(run) => {
                    prop_assert_eq!(run.text.chars().count(), run.len as usize);
                    expand(&run, |op| read.push(describe(op)));
                }
                ChangeRows::Deletes(run) => expand_deletes(&run, |op| read.push(describe(op))),
            }
        }
        prop_assert_eq!(&read, &expected);
        prop_assert_eq!(ops.remaining(), 0);
    }
}
