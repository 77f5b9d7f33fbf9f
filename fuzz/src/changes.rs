//! Changes that are well formed and mean anything, or nothing: what a hostile peer with a good
//! encoder would send.

use shoal_history::{
    Action, ActorId, ActorIdx, Change, ChangeHash, ChangeHeader, ChangeWriter, Key, ObjId, Op,
    OpId, ScalarRef,
};

use crate::script::Script;

/// Most changes of one script.
const CHANGES: usize = 12;

/// Who makes the changes.
pub fn actors() -> [ActorId; 3] {
    [ActorId::new(&[0xbb; 2]), ActorId::new(&[0xaa; 16]), ActorId::new(&[0xcc])]
}

/// The changes that the script tells, each after those it depends on. Their sequence numbers are
/// right, and so are most of their op ids; their ops refer to anything.
pub fn changes(script: &mut Script<'_>) -> Vec<Change> {
    let actors = actors();
    let mut changes: Vec<Change> = Vec::new();
    while changes.len() < CHANGES && !script.is_over() {
        let actor = script.below(actors.len());
        let mine = changes.iter().filter(|change| *change.actor() == actors[actor]);
        let (count, last) = (mine.clone().count(), mine.last().cloned());
        let mask = script.byte();
        let mut deps: Vec<&Change> = changes
            .iter()
            .rev()
            .take(8)
            .enumerate()
            .filter(|(place, _)| mask >> place & 1 == 1)
            .map(|(_, change)| change)
            .collect();
        if let Some(last) = &last
            && mask != 0
            && !deps.contains(&last)
        {
            deps.push(last);
        }
        let start_op = deps.iter().map(|dep| dep.max_op()).max().unwrap_or(0);
        let start_op = match script.below(32) {
            30 => start_op.saturating_add(1000),
            31 => u32::MAX - 3,
            _ => start_op.saturating_add(1),
        };
        let hashes: Vec<ChangeHash> = deps.iter().map(|dep| dep.hash()).collect();
        changes.extend(change(script, &actors, actor, count as u32 + 1, start_op, hashes));
    }
    changes
}

/// The next change, unless the writer refuses it.
fn change(
    script: &mut Script<'_>,
    actors: &[ActorId],
    actor: usize,
    seq: u32,
    start_op: u32,
    deps: Vec<ChangeHash>,
) -> Option<Change> {
    let actor = ActorIdx(actor as u32);
    let header =
        ChangeHeader { actor, seq, start_op, time: 0, message: None, deps, extra_bytes: &[] };
    let mut writer = ChangeWriter::new(header, actors);
    for place in 0..script.below(8) as u32 {
        let Some(counter) = start_op.checked_add(place) else { break };
        let mut links = [OpId { counter: 0, actor }; 3];
        let link_count = script.below(links.len() + 1);
        for link in &mut links[..link_count] {
            *link = id(script, counter);
        }
        let (obj, key) = match script.below(4) {
            0 => (ObjId::Root, Key::Map(*script.pick(&["a", "b", ""]))),
            1 => (ObjId::Op(id(script, counter)), Key::Map(*script.pick(&["a", "b", "é"]))),
            2 => (ObjId::Op(id(script, counter)), Key::Head),
            _ => (ObjId::Op(id(script, counter)), Key::Elem(id(script, counter))),
        };
        let action = *script.pick(&[
            Action::Set,
            Action::MakeText,
            Action::MakeList,
            Action::MakeMap,
            Action::Delete,
            Action::Increment,
            Action::MakeTable,
            Action::Mark,
        ]);
        let value = match action {
            Action::Increment => ScalarRef::Int(*script.pick(&[1, -1, i64::MAX, i64::MIN])),
            Action::Set | Action::Mark => *script.pick(&[
                ScalarRef::Str("x"),
                ScalarRef::Str("é𝄞"),
                ScalarRef::Counter(i64::MAX),
                ScalarRef::Null,
                ScalarRef::Str(""),
                ScalarRef::Uint(u64::MAX),
                ScalarRef::F64(f64::NAN),
                ScalarRef::Bytes(&[0, 255]),
                ScalarRef::Timestamp(i64::MIN),
                ScalarRef::Boolean(true),
                ScalarRef::Unknown { type_code: 12, bytes: &[1] },
            ]),
            _ => ScalarRef::Null,
        };
        let mark_name = (action == Action::Mark && script.byte() % 2 == 0).then_some("bold");
        writer.push(&Op {
            id: OpId { counter, actor },
            obj,
            key,
            insert: key == Key::Head || matches!(key, Key::Elem(_)) && script.byte() % 2 == 0,
            action,
            value,
            expand: action == Action::Mark && script.byte() % 2 == 0,
            mark_name,
            links: &links[..link_count],
        });
    }
    writer.finish().ok()
}

/// An id before `counter`: a recent one by anyone, or one that may not be there.
fn id(script: &mut Script<'_>, counter: u32) -> OpId {
    let back = u32::from(script.byte()) % 16 + 1;
    let actor = ActorIdx(script.below(3) as u32);
    OpId { counter: counter.saturating_sub(back).max(1), actor }
}
