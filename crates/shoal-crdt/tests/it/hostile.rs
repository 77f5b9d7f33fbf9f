//! Changes with arbitrary ops: each is refused without a trace, or it means the same after saving
//! and loading.

use proptest::prelude::*;
use shoal_crdt::{
    ActorId, Change, CommitOptions, Document, Error, LoadOptions, ObjType, ROOT, SaveOptions,
    Scalar,
};
use shoal_history::{
    Action, ActorIdx, ChangeHeader, ChangeWriter, Key, ObjId as StoredObjId, Op, OpId,
};

#[derive(Clone, Debug)]
struct AnyOp {
    obj: Option<OpId>,
    key: AnyKey,
    insert: bool,
    action: Action,
    value: Scalar,
    expand: bool,
    mark_name: Option<String>,
    preds: Vec<OpId>,
}

#[derive(Clone, Debug)]
enum AnyKey {
    Map(String),
    Head,
    Elem(OpId),
}

/// Ids of the sample, which has eleven ops, and of the ops that are forged.
fn id() -> impl Strategy<Value = OpId> {
    prop_oneof![
        8 => (1..12_u32).prop_map(|counter| OpId { counter, actor: ActorIdx(1) }),
        4 => (12..16_u32).prop_map(|counter| OpId { counter, actor: ActorIdx(0) }),
        1 => (1..20_u32, 0..3_u32)
            .prop_map(|(counter, actor)| OpId { counter, actor: ActorIdx(actor) }),
    ]
}

fn op() -> impl Strategy<Value = AnyOp> {
    let key = prop_oneof![
        2 => "[ab]".prop_map(AnyKey::Map),
        1 => Just(AnyKey::Head),
        3 => id().prop_map(AnyKey::Elem),
    ];
    let action = (0..8_u64).prop_map(|code| Action::from_code(code).unwrap());
    let value = prop_oneof![
        3 => Just(Scalar::Null),
        2 => (-2..3_i64).prop_map(Scalar::Int),
        1 => Just(Scalar::Counter(1)),
        2 => "[xy]{0,2}".prop_map(|text| Scalar::Str(text.as_str().into())),
        1 => Just(Scalar::Unknown { type_code: 12, bytes: [1_u8, 2][..].into() }),
    ];
    let preds = prop::collection::vec(id(), 0..3);
    // Objects of the sample more often than not.
    let obj = prop_oneof![
        2 => Just(None),
        4 => (1..4_u32).prop_map(|counter| Some(OpId { counter, actor: ActorIdx(1) })),
        1 => id().prop_map(Some),
    ];
    let flags = (prop::bool::ANY, prop::bool::weighted(0.2), prop::option::weighted(0.2, "[mn]"));
    (obj, key, flags, action, value, preds).prop_map(|(obj, key, flags, action, value, preds)| {
        let (insert, expand, mark_name) = flags;
        AnyOp { obj, key, insert, action, value, expand, mark_name, preds }
    })
}

fn sample() -> Document {
    let mut doc = Document::new(ActorId::new(&[1]));
    let mut tx = doc.transaction();
    let list = tx.put_object(&ROOT, "a", ObjType::List).unwrap();
    let text = tx.put_object(&ROOT, "b", ObjType::Text).unwrap();
    tx.insert_object(&list, 0, ObjType::Map).unwrap();
    tx.splice(&list, 1, 0, [Scalar::Counter(1), Scalar::Int(2), Scalar::Null]).unwrap();
    tx.splice_text(&text, 0, 0, "abcd").unwrap();
    tx.delete(&list, 3).unwrap();
    assert_eq!(tx.pending_ops(), 11);
    tx.commit(CommitOptions::default());
    doc
}

/// A change with those of `ops` that the encoder takes.
fn forge(doc: &Document, ops: &[AnyOp]) -> Change {
    let actors = [ActorId::new(&[2]), ActorId::new(&[1]), ActorId::new(&[9])];
    let write = |ops: &[AnyOp]| {
        let header = ChangeHeader {
            actor: ActorIdx(0),
            seq: 1,
            start_op: 12,
            time: 0,
            message: None,
            deps: doc.heads(),
            extra_bytes: &[],
        };
        let mut writer = ChangeWriter::new(header, &actors);
        for (counter, op) in (12..).zip(ops) {
            writer.push(&Op {
                id: OpId { counter, actor: ActorIdx(0) },
                obj: op.obj.map_or(StoredObjId::Root, StoredObjId::Op),
                key: match &op.key {
                    AnyKey::Map(key) => Key::Map(key),
                    AnyKey::Head => Key::Head,
                    AnyKey::Elem(id) => Key::Elem(*id),
                },
                insert: op.insert,
                action: op.action,
                value: op.value.as_ref(),
                expand: op.expand,
                mark_name: op.mark_name.as_deref(),
                links: &op.preds,
            });
        }
        writer.finish()
    };
    let mut taken: Vec<AnyOp> = Vec::new();
    for op in ops {
        taken.push(op.clone());
        if write(&taken).is_err() {
            taken.pop();
        }
    }
    write(&taken).unwrap()
}

fn json(doc: &Document) -> String {
    serde_json::to_string(&doc.to_json()).unwrap()
}

fn state(doc: &Document) -> Vec<u8> {
    doc.to_bytes(SaveOptions { deflate: false, retain_orphans: true })
}

/// `Some` if the change was applied.
fn check(ops: &[AnyOp]) -> Option<Document> {
    let mut doc = sample();
    let before = (state(&doc), json(&doc));
    match doc.apply_changes([forge(&doc, ops)]) {
        Err(error) => {
            assert!(matches!(error, Error::Op { .. }), "{error}");
            assert_eq!((state(&doc), json(&doc)), before);
            None
        }
        Ok(()) => {
            let bytes = doc.save();
            let loaded =
                Document::load(&bytes, ActorId::new(b"reader"), &LoadOptions::default()).unwrap();
            assert_eq!(json(&loaded), json(&doc));
            assert_eq!(loaded.heads(), doc.heads());
            assert_eq!(loaded.op_count(), doc.op_count());
            Some(doc)
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 4000,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn one_op_is_refused_or_survives_saving(op in op()) {
        check(&[op]);
    }

    #[test]
    fn many_ops_are_refused_together_or_survive_saving(
        ops in prop::collection::vec(op(), 2..5),
    ) {
        // Only ops that are sound alone: else hardly a change would get anywhere.
        let ops: Vec<AnyOp> =
            ops.into_iter().filter(|op| check(std::slice::from_ref(op)).is_some()).collect();
        check(&ops);
    }
}
