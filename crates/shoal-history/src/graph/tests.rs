//! Tests of the graph.

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;
use crate::{Action, ChangeHeader, ChangeWriter, Key, ObjId, Op, ScalarRef};

fn actor(number: u8) -> ActorId {
    ActorId::new(&[200 - number])
}

/// A change with `ops` ops.
fn change(author: u8, seq: u32, start_op: u32, ops: u32, deps: &[ChangeHash]) -> Change {
    let actors = [actor(author)];
    let header = ChangeHeader {
        actor: ActorIdx(0),
        seq,
        start_op,
        time: 0,
        message: None,
        deps: deps.to_vec(),
        extra_bytes: &[],
    };
    let mut writer = ChangeWriter::new(header, &actors);
    for counter in start_op..start_op + ops {
        writer.push(&Op {
            id: OpId { counter, actor: ActorIdx(0) },
            obj: ObjId::Root,
            key: Key::Map("k"),
            insert: false,
            action: Action::Set,
            value: ScalarRef::Null,
            expand: false,
            mark_name: None,
            links: &[],
        });
    }
    writer.finish().unwrap()
}

#[test]
fn changes_that_do_not_fit_are_refused_and_leave_no_trace() {
    let mut graph = ChangeGraph::new();
    let first = change(1, 1, 1, 3, &[]);
    let first_hash = first.hash();
    assert_eq!(graph.add(first.clone()), Ok(true));
    assert_eq!(graph.add(first), Ok(false));

    let stranger = ChangeHash([7; 32]);
    let orphan = change(2, 1, 4, 1, &[first_hash, stranger]);
    let hash = orphan.hash();
    assert_eq!(graph.add(orphan), Err(Error::MissingDep { change: hash, dep: stranger }));
    let twin = change(1, 1, 1, 2, &[]);
    let expect = Error::DuplicateSeq { change: twin.hash(), known: first_hash, seq: 1 };
    assert_eq!(graph.add(twin), Err(expect));
    let gap = change(1, 3, 4, 1, &[first_hash]);
    let expect = Error::SeqGap { change: gap.hash(), expected: 2, seq: 3 };
    assert_eq!(graph.add(gap), Err(expect));
    let gap = change(3, 2, 4, 1, &[first_hash]);
    let expect = Error::SeqGap { change: gap.hash(), expected: 1, seq: 2 };
    assert_eq!(graph.add(gap), Err(expect));
    let early = change(2, 1, 3, 1, &[first_hash]);
    let expect = Error::StartOpTooSmall { change: early.hash(), max_op: 3, start_op: 3 };
    assert_eq!(graph.add(early), Err(expect));
    let overlap = change(1, 2, 3, 1, &[first_hash]);
    let expect = Error::StartOpTooSmall { change: overlap.hash(), max_op: 3, start_op: 3 };
    assert_eq!(graph.add(overlap), Err(expect));

    assert_eq!((graph.len(), graph.actors().len(), graph.max_op()), (1, 1, 3));
    assert_eq!(graph.heads(), [first_hash]);
    assert_eq!(graph.missing_deps(&[first_hash, stranger]), [stranger]);
    let second = change(2, 1, 4, 1, &[first_hash]);
    assert_eq!(graph.add(second.clone()), Ok(true));
    assert_eq!(graph.heads(), [second.hash()]);
    assert_eq!(graph.inner.deps_at(1), [0]);
}

/// An author's change must build on the one before, directly or through others; it does not matter
/// whether that one is here already.
#[test]
fn changes_are_found_and_taken_back_whether_they_are_in_the_index_or_not() {
    let mut graph = ChangeGraph::new();
    let mut hashes: Vec<ChangeHash> = Vec::new();
    let mut checkpoints = Vec::new();
    for seq in 1..=100 {
        checkpoints.push(graph.checkpoint());
        let change = change(1, seq, seq, 1, hashes.last().map_or(&[], std::slice::from_ref));
        hashes.push(change.hash());
        assert_eq!(graph.add(change), Ok(true));
        let places = hashes.iter().map(|hash| graph.inner.place_of(hash));
        assert!(places.eq((0..seq).map(Some)), "{seq}");
    }
    // Taken back to before, within and after what one filling of the index holds, and added again.
    for kept in [97_usize, 70, 64, 63, 31, 0] {
        let taken: Vec<Change> = graph.changes().skip(kept).cloned().collect();
        graph.restore(checkpoints[kept].clone());
        for (at, hash) in hashes.iter().enumerate() {
            assert_eq!(graph.contains(hash), at < kept, "{kept} {at}");
        }
        for change in taken {
            assert_eq!(graph.add(change), Ok(true));
        }
        let places = hashes.iter().map(|hash| graph.inner.place_of(hash));
        assert!(places.eq((0..100).map(Some)), "{kept}");
    }
}

#[test]
fn a_change_that_does_not_build_on_its_authors_last_one_is_refused() {
    let first = change(1, 1, 1, 1, &[]);
    let other = change(2, 1, 2, 1, &[first.hash()]);
    let apart = change(3, 1, 1, 1, &[]);
    let (direct, through) =
        (change(1, 2, 3, 1, &[first.hash()]), change(1, 2, 3, 1, &[other.hash()]));
    let detached = [change(1, 2, 9, 1, &[]), change(1, 2, 9, 1, &[apart.hash()])];
    for add_first in [true, false] {
        let mut graph = ChangeGraph::new();
        graph.add(apart.clone()).unwrap();
        if add_first {
            graph.add(first.clone()).unwrap();
            graph.add(other.clone()).unwrap();
        }
        for detached in &detached {
            assert!(graph.add(detached.clone()).is_err());
        }
        assert_eq!(graph.len(), if add_first { 3 } else { 1 });
    }
    for second in [direct, through] {
        let mut graph = ChangeGraph::new();
        for change in [&apart, &first, &other, &second] {
            assert_eq!(graph.add(change.clone()), Ok(true));
        }
        let error = Error::NotOnOwn { change: detached[1].hash(), seq: 2 };
        let mut graph = ChangeGraph::new();
        for change in [&apart, &first] {
            graph.add(change.clone()).unwrap();
        }
        assert_eq!(graph.add(detached[1].clone()), Err(error));
    }
}

#[test]
fn ops_are_found_in_their_changes() {
    let mut graph = ChangeGraph::new();
    let first = change(1, 1, 1, 3, &[]);
    let empty = change(1, 2, 4, 0, &[first.hash()]);
    let third = change(1, 3, 6, 2, &[empty.hash()]);
    for change in [&first, &empty, &third] {
        graph.add(change.clone()).unwrap();
    }
    let at = |counter| graph.change_with_op(OpId { counter, actor: ActorIdx(0) });
    let expect = [None, Some(&first), Some(&first), Some(&first), None, None, Some(&third)];
    for (counter, expect) in (0..).zip(expect) {
        assert_eq!(at(counter), expect, "{counter}");
    }
    assert_eq!((at(7), at(8)), (Some(&third), None));
    assert_eq!(graph.change_with_op(OpId { counter: 1, actor: ActorIdx(1) }), None);
    assert_eq!(graph.change_of(&actor(1), 2), Some(&empty));
    assert_eq!(graph.change_of(&actor(1), 0), None);
    assert_eq!(graph.change_of(&actor(2), 1), None);
    assert_eq!((graph.seq_of(&actor(1)), graph.seq_of(&actor(2))), (3, 0));
}

/// A graph of changes by up to four actors who each build on their last change and on some others.
fn graph_of(choices: &[(u8, u8, u8)]) -> ChangeGraph {
    let mut graph = ChangeGraph::new();
    for &(author, a, b) in choices {
        let author = author % 4;
        let mut deps = BTreeSet::new();
        let own = graph.seq_of(&actor(author));
        deps.extend(graph.change_of(&actor(author), own).map(Change::hash));
        for pick in [a, b] {
            let back = usize::from(pick % 8);
            deps.extend(graph.changes().rev().nth(back).map(Change::hash));
        }
        let deps: Vec<_> = deps.into_iter().collect();
        let start = deps.iter().map(|dep| graph.get(dep).unwrap().max_op()).max().unwrap_or(0) + 1;
        graph.add(change(author, own + 1, start, u32::from(a % 3), &deps)).unwrap();
    }
    graph
}

/// Those of `heads` and their ancestors, the simple way.
fn ancestors(graph: &ChangeGraph, heads: &[ChangeHash]) -> BTreeSet<ChangeHash> {
    let mut all = BTreeSet::new();
    let mut stack = heads.to_vec();
    while let Some(hash) = stack.pop() {
        if let Some(change) = graph.get(&hash)
            && all.insert(hash)
        {
            stack.extend(change.deps());
        }
    }
    all
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn walks_agree_with_sets(
        choices in proptest::collection::vec(any::<(u8, u8, u8)>(), 1..60),
        picks in proptest::collection::vec(any::<u8>(), 0..4),
    ) {
        let graph = graph_of(&choices);
        let all: Vec<ChangeHash> = graph.changes().map(Change::hash).collect();
        let depended: BTreeSet<_> = graph.changes().flat_map(Change::deps).copied().collect();
        let mut heads: Vec<_> = all.iter().copied().filter(|h| !depended.contains(h)).collect();
        heads.sort_unstable();
        prop_assert_eq!(graph.heads(), heads.clone());
        prop_assert!(graph.has_heads(&heads));

        let mut have: Vec<_> =
            picks.iter().map(|&pick| all[usize::from(pick) % all.len()]).collect();
        have.push(ChangeHash([0; 32]));
        let had = ancestors(&graph, &have);
        let since: Vec<_> = graph.changes_since(&have).into_iter().map(Change::hash).collect();
        let expect: Vec<_> = all.iter().copied().filter(|hash| !had.contains(hash)).collect();
        prop_assert_eq!(&since, &expect);

        let mut unreached: FxHashSet<ChangeHash> = all.iter().copied().collect();
        graph.remove_reached(&have, &mut unreached);
        prop_assert_eq!(unreached, expect.iter().copied().collect::<FxHashSet<_>>());
        let mut last = have.clone();
        graph.retain_heads(&mut last);
        let is_ancestor = |hash: &ChangeHash| {
            have.iter().any(|other| other != hash && ancestors(&graph, &[*other]).contains(hash))
        };
        prop_assert_eq!(
            last,
            have.iter().copied().filter(|hash| !is_ancestor(hash)).collect::<Vec<_>>()
        );

        // Taken back and added again, all is as it was.
        let half = graph.len() / 2;
        let mut again = ChangeGraph::new();
        for change in graph.changes().take(half) {
            again.add(change.clone()).unwrap();
        }
        let added: Vec<_> = again.changes_added(&graph).into_iter().map(Change::hash).collect();
        prop_assert_eq!(added, &all[half..]);
        prop_assert_eq!(graph.changes_added(&again), Vec::<&Change>::new());
        let (checkpoint, before) = (again.checkpoint(), again.clone());
        for change in graph.changes().skip(half) {
            again.add(change.clone()).unwrap();
        }
        again.restore(checkpoint);
        prop_assert!(again.changes().eq(before.changes()));
        prop_assert_eq!(again.actors(), before.actors());
        prop_assert_eq!(again.full_clock(), before.full_clock());
        prop_assert_eq!((again.heads(), again.max_op()), (before.heads(), before.max_op()));
        for change in graph.changes() {
            prop_assert_eq!(again.contains(&change.hash()), before.contains(&change.hash()));
        }
        for change in graph.changes().skip(half) {
            again.add(change.clone()).unwrap();
        }
        prop_assert_eq!((again.heads(), again.full_clock()), (graph.heads(), graph.full_clock()));

        let mut entries = vec![ClockEntry::default(); graph.actors().len()];
        for hash in &had {
            let change = graph.get(hash).unwrap();
            let entry = &mut entries[graph.actor_idx(change.actor()).unwrap().as_usize()];
            if change.seq() > entry.seq {
                *entry = ClockEntry { seq: change.seq(), max_op: change.max_op() };
            }
        }
        let clock = graph.clock(&have);
        prop_assert_eq!(clock.entries(), &entries[..]);
        prop_assert_eq!(graph.clock_forwards(&have), graph.clock_backwards(&have));
        prop_assert_eq!(graph.clock(&heads), graph.full_clock());
        for (index, entry) in (0..).zip(&entries) {
            let op = |counter| OpId { counter, actor: ActorIdx(index) };
            prop_assert!(!clock.covers(op(entry.max_op + 1)));
            prop_assert!(entry.max_op == 0 || clock.covers(op(entry.max_op)));
        }
        prop_assert_eq!(clock.get(ActorIdx(99)), ClockEntry::default());
    }
}
