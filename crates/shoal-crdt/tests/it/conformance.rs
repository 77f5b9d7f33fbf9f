//! Random edit sessions by several actors, made with Shoal and with the reference side by side:
//! the same changes to the byte, the same values, the same conflicts.

mod bundles;
mod reads;
mod session;

use self::session::{Pair, Reference, Step, step};
use proptest::prelude::*;
use shoal_crdt::{ActorId, CommitOptions, Document, ROOT, TextEncoding};

fn run(steps: &[Step], replicas: u8, encoding: TextEncoding) {
    let mut pairs: Vec<Pair> = vec![Pair::with_encoding(0, encoding)];
    for number in 1..replicas {
        let fork = pairs[0].fork(number);
        pairs.push(fork);
    }
    for step in steps {
        if Pair::perform(&mut pairs, step) == Reference::Panicked {
            return;
        }
    }
    // Everyone meets everyone; then all are equal.
    for target in 0..pairs.len() {
        for source in 0..pairs.len() {
            if Pair::merge(&mut pairs, target, source) == Reference::Panicked {
                return;
            }
        }
    }
    bundles::check(&pairs[0]);
    for pair in &pairs {
        pair.check();
        reads::check(pair);
        reads::check_ids(pair);
        if encoding == TextEncoding::UnicodeCodePoint {
            reads::check_patches(pair);
        }
        assert_eq!(pair.ours.heads(), pairs[pairs.len() - 1].ours.heads());
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 200,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn sessions_of_two_give_what_the_reference_gives(
        steps in prop::collection::vec(step(2), 1..60),
    ) {
        run(&steps, 2, TextEncoding::UnicodeCodePoint);
    }

    #[test]
    fn sessions_of_three_give_what_the_reference_gives(
        steps in prop::collection::vec(step(3), 1..80),
    ) {
        run(&steps, 3, TextEncoding::UnicodeCodePoint);
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 100,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    /// Texts in every other unit.
    #[test]
    fn sessions_in_other_units_give_what_the_reference_gives(
        steps in prop::collection::vec(step(2), 1..40),
        encoding in prop::sample::select(&[
            TextEncoding::Utf8CodeUnit,
            TextEncoding::Utf16CodeUnit,
            TextEncoding::GraphemeCluster,
        ][..]),
    ) {
        run(&steps, 2, encoding);
    }

    /// Whatever the order in which changes come, the order of rows and of sent changes is the
    /// reference's.
    #[test]
    fn batches_are_ordered_as_the_reference_orders_them(
        makers in prop::collection::vec((0_usize..3, prop::option::of(0_usize..3)), 1..25),
        places in prop::collection::vec(any::<prop::sample::Index>(), 25),
        batch_len in 1_usize..30,
    ) {
        let mut forks: Vec<Document> =
            (0_u8..3).map(|number| Document::new(ActorId::new(&[number]))).collect();
        for (maker, source) in makers {
            if let Some(source) = source {
                let other = forks[source].clone();
                forks[maker].merge(&other).unwrap();
            }
            let mut tx = forks[maker].transaction();
            tx.put(&ROOT, "key", maker as u64).unwrap();
            tx.commit_empty(CommitOptions::default());
        }
        let mut all = Document::new(ActorId::new(b"all"));
        for fork in &forks {
            all.merge(fork).unwrap();
        }
        let mut changes: Vec<_> = all.changes().cloned().collect();
        for (at, place) in places.iter().enumerate().take(changes.len()) {
            let other = place.index(changes.len());
            changes.swap(at, other);
        }
        let mut ours = Document::new(ActorId::new(b"ours"));
        let mut theirs = automerge::Automerge::new();
        for batch in changes.chunks(batch_len) {
            ours.apply_changes(batch.to_vec()).unwrap();
            let batch: Vec<_> = batch
                .iter()
                .map(|change| {
                    automerge::Change::from_bytes(change.raw_bytes().to_vec()).unwrap()
                })
                .collect();
            theirs.apply_changes(batch).unwrap();
        }
        let our_order: Vec<_> = ours.changes().map(|change| change.hash().0).collect();
        let their_order: Vec<_> =
            theirs.get_changes(&[]).iter().map(|change| change.hash().0).collect();
        prop_assert_eq!(our_order, their_order);
    }
}

fn hydrate(json: &serde_json::Value) -> automerge::hydrate::Value {
    use automerge::{ScalarValue, TextEncoding, hydrate};
    match json {
        serde_json::Value::Null => hydrate::Value::Scalar(ScalarValue::Null),
        serde_json::Value::Bool(value) => hydrate::Value::Scalar((*value).into()),
        serde_json::Value::Number(number) => {
            hydrate::Value::Scalar(match (number.as_i64(), number.as_u64()) {
                (Some(int), _) => ScalarValue::Int(int),
                (None, Some(uint)) => ScalarValue::Uint(uint),
                (None, None) => ScalarValue::F64(number.as_f64().unwrap()),
            })
        }
        serde_json::Value::String(text) => {
            hydrate::Value::text(TextEncoding::UnicodeCodePoint, text)
        }
        serde_json::Value::Array(items) => {
            hydrate::Value::List(items.iter().map(hydrate).collect::<Vec<_>>().into())
        }
        serde_json::Value::Object(entries) => {
            let entries = entries.iter().map(|(key, value)| (key.as_str(), hydrate(value)));
            hydrate::Value::Map(entries.collect::<std::collections::HashMap<_, _>>().into())
        }
    }
}

fn json() -> impl Strategy<Value = serde_json::Value> {
    let leaf = prop_oneof![
        Just(serde_json::Value::Null),
        any::<bool>().prop_map(Into::into),
        any::<i64>().prop_map(Into::into),
        any::<u64>().prop_map(Into::into),
        (-1e9..1e9_f64).prop_map(Into::into),
        "[a-cé😀]{0,4}".prop_map(Into::into),
    ];
    leaf.prop_recursive(4, 30, 5, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(Into::into),
            prop::collection::btree_map("[a-cé]{0,2}", inner, 0..5)
                .prop_map(|entries| serde_json::Value::Object(entries.into_iter().collect())),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn imported_json_makes_the_ops_that_the_reference_makes(
        entries in prop::collection::btree_map("[a-cé]{0,2}", json(), 1..5),
    ) {
        let value = serde_json::Value::Object(entries.into_iter().collect());
        let Pair { mut ours, mut theirs } = Pair::new(0);
        let mut tx = ours.transaction();
        tx.import_json(&value).unwrap();
        tx.commit(shoal_crdt::CommitOptions::default());
        let automerge::hydrate::Value::Map(map) = hydrate(&value) else { unreachable!() };
        theirs.init_from_hydrate(&map).unwrap();
        prop_assert_eq!(serde_json::to_value(ours.to_json()).unwrap(), value);
        Pair { ours, theirs }.check();
    }
}
