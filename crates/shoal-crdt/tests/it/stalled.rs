//! Changes that name ops which are not in their past: what becomes of them does not depend on the
//! order of arrival.

use automerge::ReadDoc as _;
use automerge::transaction::Transactable as _;
use shoal_crdt::{
    ActorId, AutoCommit, Change, CommitOptions, Document, Error, LoadOptions, OpFault, ROOT,
    ReadDoc as _, Transactable as _,
};
use shoal_history::{
    Action, ActorIdx, ChangeHeader, ChangeWriter, Key, ObjId, Op, OpId, ScalarRef,
};

fn actor(number: u8) -> ActorId {
    ActorId::new(&[number])
}

/// A change by the first of `actors` with one op, whose links are as given.
fn change(actors: &[u8], seq: u32, deps: &[&Change], key: &str, links: &[OpId]) -> Change {
    let actors: Vec<ActorId> = actors.iter().copied().map(actor).collect();
    let start_op = deps.iter().map(|dep| dep.max_op()).max().unwrap_or(0) + 10;
    let header = ChangeHeader {
        actor: ActorIdx(0),
        seq,
        start_op,
        time: 0,
        message: None,
        deps: deps.iter().map(|dep| dep.hash()).collect(),
        extra_bytes: &[],
    };
    let mut writer = ChangeWriter::new(header, &actors);
    writer.push(&Op {
        id: OpId { counter: start_op, actor: ActorIdx(0) },
        obj: ObjId::Root,
        key: Key::Map(key),
        insert: false,
        action: Action::Set,
        value: ScalarRef::Uint(u64::from(start_op)),
        expand: false,
        mark_name: None,
        links,
    });
    writer.finish().unwrap()
}

/// Every order of the numbers below `count`.
fn orders(count: usize) -> Vec<Vec<usize>> {
    if count == 0 {
        return vec![Vec::new()];
    }
    let mut all = Vec::new();
    for order in orders(count - 1) {
        for at in 0..count {
            let mut order = order.clone();
            order.insert(at, count - 1);
            all.push(order);
        }
    }
    all
}

fn show(doc: &Document) -> String {
    serde_json::to_string(&doc.to_json()).unwrap()
}

#[test]
fn an_op_outside_of_the_past_is_waited_for() {
    let first = change(&[1], 1, &[], "k", &[]);
    let seen = OpId { counter: first.start_op(), actor: ActorIdx(1) };
    // Supersedes the value of the first without depending on it.
    let base = change(&[3], 1, &[], "b", &[]);
    let stray = change(&[2, 1], 1, &[&base], "k", &[seen]);
    let after = change(&[4], 1, &[&stray], "c", &[]);
    let all = [&first, &base, &stray, &after];
    for order in orders(all.len()) {
        for batch in [1, 2, 4] {
            let mut doc = Document::new(actor(9));
            for changes in order.chunks(batch) {
                doc.apply_changes(changes.iter().map(|at| all[*at].clone())).unwrap();
            }
            assert_eq!(doc.heads().len(), 2, "{order:?}");
            assert_eq!(show(&doc), r#"{"b":10,"c":30,"k":20}"#, "{order:?}");
            assert!(doc.queued_changes().is_empty());
            assert_eq!(doc.get_all(&ROOT, "k").unwrap().len(), 1);
            let loaded = Document::load(&doc.save(), actor(8), &LoadOptions::default()).unwrap();
            assert_eq!(show(&loaded), show(&doc));
        }
    }
    // What never comes is waited for, saved, and kept out of what is strict.
    let mut doc = Document::new(actor(9));
    doc.apply_changes([base.clone(), stray.clone(), after.clone()]).unwrap();
    assert_eq!(doc.heads(), [base.hash()]);
    assert_eq!(doc.queued_changes().len(), 2);
    let mut tx = doc.transaction();
    tx.put(&ROOT, "own", 1_i64).unwrap();
    tx.commit(CommitOptions::default());
    let mut loaded = Document::load(&doc.save(), actor(8), &LoadOptions::default()).unwrap();
    assert_eq!(loaded.queued_changes().len(), 2);
    loaded.apply_changes([first.clone()]).unwrap();
    assert!(loaded.queued_changes().is_empty());
    let strict = [base.raw_bytes(), stray.raw_bytes()].concat();
    assert!(matches!(
        Document::load(&strict, actor(8), &LoadOptions::default()),
        Err(Error::Op { .. })
    ));
}

/// An op that its author has passed by can come no more. A change that awaited it would make the
/// file one that cannot be loaded.
#[test]
fn what_can_no_longer_come_is_not_waited_for() {
    let base = change(&[3], 1, &[], "b", &[]);
    let never = OpId { counter: base.start_op(), actor: ActorIdx(1) };
    let stray = change(&[2, 1], 1, &[&base], "k", &[never]);
    let after = change(&[4], 1, &[&stray], "c", &[]);
    let passing = change(&[1], 1, &[&base], "p", &[]);
    for all in [&[&stray, &passing][..], &[&stray, &after, &passing], &[&after, &stray, &passing]] {
        let mut doc = Document::new(actor(9));
        doc.apply_changes([base.clone()]).unwrap();
        for change in all {
            doc.apply_changes([(*change).clone()]).unwrap();
        }
        assert_eq!(doc.heads(), [passing.hash()]);
        // What depends on it waits for it, as for any change that is not here.
        assert_eq!(doc.queued_changes().len(), all.len() - 2);
        let loaded = Document::load(&doc.save(), actor(8), &LoadOptions::default()).unwrap();
        assert_eq!((loaded.heads(), show(&loaded)), (doc.heads(), show(&doc)));
    }
    // The same when it is the document's own author who passes.
    let mut doc = Document::new(actor(1));
    doc.apply_changes([base, stray]).unwrap();
    assert_eq!(doc.queued_changes().len(), 1);
    let mut tx = doc.transaction();
    tx.put(&ROOT, "own", 1_i64).unwrap();
    tx.commit(CommitOptions::default());
    assert!(doc.queued_changes().is_empty());
    Document::load(&doc.save(), actor(8), &LoadOptions::default()).unwrap();
}

/// What is wrong with an op was once told in the order of the checks: first that its actor was not
/// here, so that the change waited, and with that actor here its shape, so that the saved file was
/// refused.
#[test]
fn what_waits_still_waits_where_it_was_saved_whatever_else_came() {
    let unknown = OpId { counter: 40, actor: ActorIdx(1) };
    let with = |at: fn(&mut Op<'_>)| {
        let actors = [actor(2), actor(1)];
        let header = ChangeHeader {
            actor: ActorIdx(0),
            seq: 1,
            start_op: 50,
            time: 0,
            message: None,
            deps: Vec::new(),
            extra_bytes: &[],
        };
        let mut writer = ChangeWriter::new(header, &actors);
        let mut op = Op {
            id: OpId { counter: 50, actor: ActorIdx(0) },
            obj: ObjId::Root,
            key: Key::Map("k"),
            insert: false,
            action: Action::Set,
            value: ScalarRef::Int(1),
            expand: false,
            mark_name: None,
            links: &[unknown],
        };
        at(&mut op);
        writer.push(&op);
        writer.finish().unwrap()
    };
    // Bad by itself: refused, whoever is here.
    let bad = with(|op| op.action = Action::Mark);
    // Bad where it is: it waits all the same for as long as what it names may come.
    let misplaced = with(|op| (op.key, op.insert) = (Key::Head, true));
    let first = change(&[1], 1, &[], "k", &[]);
    for known in [false, true] {
        let mut doc = Document::new(actor(9));
        if known {
            doc.apply_changes([first.clone()]).unwrap();
        }
        let refused = doc.apply_changes([bad.clone()]);
        let fault = OpFault::MalformedMark;
        assert!(matches!(refused, Err(Error::Op { fault: found, .. }) if found == fault));
        doc.apply_changes([misplaced.clone()]).unwrap();
        doc.apply_changes([first.clone()]).unwrap();
        assert_eq!(doc.queued_changes().len(), 1);
        let mut loaded = Document::load(&doc.save(), actor(8), &LoadOptions::default()).unwrap();
        assert_eq!((loaded.heads(), loaded.queued_changes().len()), (doc.heads(), 1));
        // It is dropped once that has come, or its author has passed it by.
        let base = change(&[3], 1, &[], "b", &[]);
        let other = change(&[4], 1, &[&base], "c", &[]);
        let later = change(&[3], 2, &[&base, &other], "d", &[]);
        let far = change(&[1], 2, &[&first, &later], "p", &[]);
        assert!(far.max_op() >= unknown.counter);
        loaded.apply_changes([base, other, later, far]).unwrap();
        assert!(loaded.queued_changes().is_empty());
        assert!(loaded.get(&ROOT, "p").unwrap().is_some());
    }
}

/// Without what it names, such a change cannot be gone back to.
#[test]
fn a_past_that_lacks_what_its_changes_name_is_an_error() {
    let first = change(&[1], 1, &[], "k", &[]);
    let seen = OpId { counter: first.start_op(), actor: ActorIdx(1) };
    let base = change(&[3], 1, &[], "b", &[]);
    let stray = change(&[2, 1], 1, &[&base], "k", &[seen]);
    let after = change(&[4], 1, &[&stray], "c", &[]);
    let mut doc = Document::new(actor(9));
    doc.apply_changes([first.clone(), base, stray.clone(), after.clone()]).unwrap();
    assert_eq!(doc.heads().len(), 2);
    for head in [&stray, &after] {
        let heads = [head.hash()];
        assert!(matches!(doc.fork_at(actor(8), &heads), Err(Error::Op { .. })));
        assert!(matches!(doc.transaction_at(&heads), Err(Error::Op { .. })));
        assert!(matches!(AutoCommit::from(doc.clone()).isolate(&heads), Err(Error::Op { .. })));
        assert!(doc.at(&heads).get(&ROOT, "k").unwrap().is_some());
        let both = [head.hash(), first.hash()];
        let mut tx = doc.transaction_at(&both).unwrap();
        tx.put(&ROOT, "own", 1_i64).unwrap();
        assert!(tx.commit(CommitOptions::default()).is_some());
    }
}

#[test]
fn what_turns_out_to_contradict_is_never_applied() {
    let first = change(&[1], 1, &[], "other", &[]);
    let base = change(&[3], 1, &[], "b", &[]);
    let seen = OpId { counter: first.start_op(), actor: ActorIdx(1) };
    // The op is at another key.
    let bad = change(&[2, 1], 1, &[&base], "k", &[seen]);
    let after = change(&[4], 1, &[&bad], "c", &[]);
    let all = [&first, &base, &bad, &after];
    for order in orders(all.len()) {
        let mut doc = Document::new(actor(9));
        for at in &order {
            let _ = doc.apply_changes([all[*at].clone()]);
        }
        assert_eq!(show(&doc), r#"{"b":10,"other":10}"#, "{order:?}");
        assert_eq!(doc.heads().len(), 2);
    }
    // In one batch with what it contradicts it takes that with it.
    let mut doc = Document::new(actor(9));
    assert!(doc.apply_changes([base.clone(), first.clone(), bad.clone()]).is_err());
    assert!(doc.is_empty());
}

#[test]
fn an_isolated_insert_of_the_reference_beside_a_mark_of_others_arrives_in_any_order() {
    let their_actor = |number: u8| automerge::ActorId::from(&[number][..]);
    let mut theirs = automerge::AutoCommit::new().with_actor(their_actor(1));
    let text = theirs.put_object(automerge::ROOT, "t", automerge::ObjType::Text).unwrap();
    theirs.splice_text(&text, 0, 0, "abcd").unwrap();
    theirs.commit();
    let heads = theirs.get_heads();
    let mark = automerge::marks::Mark::new("bold".to_owned(), true, 2, 3);
    theirs.mark(&text, mark, automerge::marks::ExpandMark::Both).unwrap();
    theirs.commit();
    theirs.isolate(&heads);
    theirs.splice_text(&text, 2, 0, "x").unwrap();
    theirs.commit();
    theirs.integrate();
    let changes: Vec<Change> = theirs
        .get_changes(&[])
        .iter()
        .map(|change| Change::from_bytes(change.raw_bytes()).unwrap())
        .collect();
    let insert = changes.iter().find(|change| change.actor() != &actor(1)).unwrap();
    // It names the mark, which came after the heads it was made on.
    let mut ops = insert.ops();
    let op = ops.next_op().unwrap().key;
    assert!(matches!(op, Key::Elem(id) if id.counter > 5), "{op:?}");
    for order in orders(changes.len()) {
        let mut doc = Document::new(actor(9));
        for at in &order {
            doc.apply_changes([changes[*at].clone()]).unwrap();
        }
        assert_eq!(show(&doc), format!("{{\"t\":\"{}\"}}", theirs.text(&text).unwrap()));
        assert_eq!(doc.heads().len(), 2, "{order:?}");
    }
}
