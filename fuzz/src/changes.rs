//! Well-formed changes with any meaning, or none: the work of a hostile peer with a good encoder.

use shoal_history::{
    Action, ActorId, ActorIdx, Change, ChangeHeader, ChangeWriter, Key, ObjId, Op, OpId, ScalarRef,
};

use crate::script::Script;

/// Most changes of one script.
const CHANGES: usize = 12;

/// Who makes the changes.
pub fn actors() -> [ActorId; 3] {
    [ActorId::new(&[0xbb; 2]), ActorId::new(&[0xaa; 16]), ActorId::new(&[0xcc])]
}

/// Changes made from a script.
#[derive(Debug, Default)]
pub struct Told {
    /// Each change after the changes it depends on. Sequence numbers are right, and so are most op
    /// ids; the ops refer to anything.
    pub changes: Vec<Change>,
    /// True when every change depends on its author's previous change and refers only to ops of
    /// changes among its dependencies, as any writer makes them. For other changes the order of
    /// arrival decides about refusals.
    pub causal: bool,
}

/// Makes the changes chosen by the bytes of `script`.
pub fn changes(script: &mut Script<'_>) -> Told {
    let actors = actors();
    let mut changes: Vec<Change> = Vec::new();
    // For each change a bit set: the indexes of its dependencies, direct and indirect.
    let mut pasts: Vec<u16> = Vec::new();
    let mut causal = true;
    while changes.len() < CHANGES && !script.is_over() {
        let actor = script.below(actors.len());
        let by_actor = |change: &Change| *change.actor() == actors[actor];
        let seq = changes.iter().filter(|change| by_actor(change)).count() as u32 + 1;
        let last = changes.iter().rposition(by_actor);
        let recent = changes.len().saturating_sub(8);
        let mask = u16::from(script.byte());
        let mut direct = mask << recent & ((1 << changes.len()) - 1);
        match last {
            Some(_) if mask == 0x55 => causal = false,
            Some(last) => direct |= 1 << last,
            None => {}
        }
        let places = |set: u16| (0..changes.len()).filter(move |place| set >> place & 1 == 1);
        let past = places(direct).fold(direct, |past, place| past | pasts[place]);
        let start_op = places(direct).map(|place| changes[place].max_op()).max().unwrap_or(0);
        let start_op = match script.below(32) {
            30 => start_op.saturating_add(1000),
            31 => u32::MAX - 3,
            _ => start_op.saturating_add(1),
        };
        let header = ChangeHeader {
            actor: ActorIdx(actor as u32),
            seq,
            start_op,
            time: 0,
            message: None,
            deps: places(direct).map(|place| changes[place].hash()).collect(),
            extra_bytes: &[],
        };
        let knows = |id: OpId| {
            places(past).map(|place| &changes[place]).any(|change| {
                *change.actor() == actors[id.actor.as_usize()]
                    && (change.start_op()..=change.max_op()).contains(&id.counter)
            })
        };
        let mut maker = Maker { script: &mut *script, knows: &knows, causal: true };
        if let Some(change) = maker.change(header, &actors) {
            causal &= maker.causal;
            changes.push(change);
            pasts.push(past);
        }
    }
    Told { changes, causal }
}

/// Makes one change.
struct Maker<'s, 'b> {
    script: &'s mut Script<'b>,
    /// True for ops of changes among the dependencies of the change being made.
    knows: &'s dyn Fn(OpId) -> bool,
    /// True while every op referred to is known to the dependencies or the change's own.
    causal: bool,
}

impl Maker<'_, '_> {
    /// The change, unless the writer refuses to make one.
    fn change(&mut self, header: ChangeHeader<'_>, actors: &[ActorId]) -> Option<Change> {
        let (actor, start_op) = (header.actor, header.start_op);
        let mut writer = ChangeWriter::new(header, actors);
        for place in 0..self.script.below(8) as u32 {
            let Some(counter) = start_op.checked_add(place) else { break };
            let own = OpId { counter, actor };
            let mut links = [own; 3];
            let link_count = self.script.below(links.len() + 1);
            for link in &mut links[..link_count] {
                *link = self.id(own, start_op);
            }
            let (obj, key) = match self.script.below(4) {
                0 => (ObjId::Root, Key::Map(self.script.pick::<&str>(&["a", "b", ""]))),
                1 => {
                    (self.obj(own, start_op), Key::Map(self.script.pick::<&str>(&["a", "b", "é"])))
                }
                2 => (self.obj(own, start_op), Key::Head),
                _ => (self.obj(own, start_op), Key::Elem(self.id(own, start_op))),
            };
            let action = *self.script.pick(&[
                Action::Set,
                Action::MakeText,
                Action::MakeList,
                Action::MakeMap,
                Action::Delete,
                Action::Increment,
                Action::MakeTable,
                Action::Mark,
            ]);
            let insert = match key {
                Key::Map(_) => false,
                Key::Head => true,
                Key::Elem(_) => self.script.byte().is_multiple_of(2),
            };
            let mark = action == Action::Mark;
            let value = self.value(action);
            writer.push(&Op {
                id: own,
                obj,
                key,
                insert,
                action,
                value,
                expand: mark && self.script.byte().is_multiple_of(2),
                mark_name: (mark && self.script.byte().is_multiple_of(2)).then_some("bold"),
                links: &links[..link_count],
            });
        }
        writer.finish().ok()
    }

    fn value(&mut self, action: Action) -> ScalarRef<'static> {
        match action {
            Action::Increment => ScalarRef::Int(*self.script.pick(&[1, -1, i64::MAX, i64::MIN])),
            Action::Set | Action::Mark => *self.script.pick(&[
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
        }
    }

    fn obj(&mut self, own: OpId, start_op: u32) -> ObjId {
        ObjId::Op(self.id(own, start_op))
    }

    /// An id before `own`: of a recent op by anyone, present in the history or not.
    fn id(&mut self, own: OpId, start_op: u32) -> OpId {
        let back = u32::from(self.script.byte()) % 16 + 1;
        let actor = ActorIdx(self.script.below(3) as u32);
        let id = OpId { counter: own.counter.saturating_sub(back).max(1), actor };
        let of_this_change = actor == own.actor && id.counter >= start_op;
        self.causal &= of_this_change || (self.knows)(id);
        id
    }
}
