//! One replica in both engines, and the random steps of a session.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use automerge::transaction::{CommitOptions as TheirOptions, Transactable};
use automerge::{AutoSerde, Automerge, ReadDoc};
use proptest::prelude::*;
use shoal_crdt::ReadDoc as _;
use shoal_crdt::{
    ActorId, Change, CommitOptions, Document, ExpandMark, LoadOptions, ObjId, ObjType, Prop, ROOT,
    SaveOptions, Scalar, TextEncoding, Value,
};

/// A replica, kept by Shoal and by the reference.
pub(crate) struct Pair {
    pub(crate) ours: Document,
    pub(crate) theirs: Automerge,
}

/// Whether the reference is still there to compare with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reference {
    Fine,
    /// It panicked while applying sound changes, as it is known to do now and then.
    Panicked,
}

/// A panic of the reference's batch code that says nothing about the changes: the list of patches
/// that it prepares, and that no one asked for, does not come out.
fn is_known(panic: &(dyn Any + Send)) -> bool {
    let text = panic.downcast_ref::<&str>().copied();
    let message = text.or(panic.downcast_ref::<String>().map(String::as_str)).unwrap_or_default();
    message.contains("exposed value must record the value it replaces")
}

/// What one replica does next. Numbers choose among what is there, modulo its size.
#[derive(Clone, Debug)]
pub(crate) enum Step {
    /// A transaction of edits, committed with this time and message, or rolled back.
    Edit { replica: u8, edits: Vec<Edit>, time: i64, message: Option<String>, commit: bool },
    /// `target` takes what `source` has.
    Merge { target: u8, source: u8 },
    /// The replica is saved and loaded again, each engine reading what the other wrote.
    Reload { replica: u8 },
}

/// One edit of an object that is chosen by number.
#[derive(Clone, Debug)]
pub(crate) enum Edit {
    Put { object: u8, place: u8, value: Scalar },
    PutObject { object: u8, place: u8, kind: u8 },
    Insert { object: u8, place: u8, value: Scalar },
    InsertObject { object: u8, place: u8, kind: u8 },
    Delete { object: u8, place: u8 },
    Increment { object: u8, place: u8, by: i8 },
    Splice { object: u8, place: u8, delete: i8, values: Vec<Scalar> },
    SpliceText { object: u8, place: u8, delete: i8, text: String },
    Mark { object: u8, start: u8, end: u8, name: u8, value: Scalar, expand: u8 },
    UpdateText { object: u8, text: String },
    Block { object: u8, place: u8, what: u8 },
}

pub(crate) fn step(replicas: u8) -> impl Strategy<Value = Step> {
    let edits = prop::collection::vec(edit(), 0..8);
    let message = prop::option::of("[a-z]{0,5}");
    prop_oneof![
        6 => (0..replicas, edits, -3_i64..4, message, prop::bool::weighted(0.85)).prop_map(
            |(replica, edits, time, message, commit)| {
                Step::Edit { replica, edits, time, message, commit }
            }
        ),
        3 => (0..replicas, 0..replicas)
            .prop_map(|(target, source)| Step::Merge { target, source }),
        1 => (0..replicas).prop_map(|replica| Step::Reload { replica }),
    ]
}

fn scalar() -> impl Strategy<Value = Scalar> {
    prop_oneof![
        4 => "[ab😀é]{0,3}".prop_map(|text| Scalar::Str(text.as_str().into())),
        3 => (-2_i64..3).prop_map(Scalar::Int),
        1 => any::<i64>().prop_map(Scalar::Int),
        1 => any::<u64>().prop_map(Scalar::Uint),
        1 => any::<f64>().prop_map(Scalar::F64),
        3 => (-3_i64..4).prop_map(Scalar::Counter),
        1 => any::<i64>().prop_map(Scalar::Timestamp),
        1 => any::<bool>().prop_map(Scalar::Boolean),
        1 => Just(Scalar::Null),
        1 => prop::collection::vec(any::<u8>(), 0..4)
            .prop_map(|bytes| Scalar::Bytes(bytes.into())),
    ]
}

fn edit() -> impl Strategy<Value = Edit> {
    let (object, place) = (any::<u8>(), any::<u8>());
    prop_oneof![
        3 => (object, place, scalar())
            .prop_map(|(object, place, value)| Edit::Put { object, place, value }),
        3 => (object, place, 0..3_u8)
            .prop_map(|(object, place, kind)| Edit::PutObject { object, place, kind }),
        3 => (object, place, scalar())
            .prop_map(|(object, place, value)| Edit::Insert { object, place, value }),
        2 => (object, place, 0..3_u8)
            .prop_map(|(object, place, kind)| Edit::InsertObject { object, place, kind }),
        2 => (object, place).prop_map(|(object, place)| Edit::Delete { object, place }),
        3 => (object, place, any::<i8>())
            .prop_map(|(object, place, by)| Edit::Increment { object, place, by }),
        2 => (object, place, -3..4_i8, prop::collection::vec(scalar(), 0..4)).prop_map(
            |(object, place, delete, values)| Edit::Splice { object, place, delete, values }
        ),
        6 => (object, place, -4..5_i8, "[a-e😀é]{0,6}").prop_map(
            |(object, place, delete, text)| Edit::SpliceText { object, place, delete, text }
        ),
        2 => (object, "[a-c😀é\u{301}]{0,8}")
            .prop_map(|(object, text)| Edit::UpdateText { object, text }),
        2 => (object, place, 0..3_u8)
            .prop_map(|(object, place, what)| Edit::Block { object, place, what }),
        2 => (object, place, any::<u8>(), 0..2_u8, scalar(), 0..4_u8).prop_map(
            |(object, start, end, name, value, expand)| {
                Edit::Mark { object, start, end, name, value, expand }
            }
        ),
    ]
}

impl Pair {
    pub(crate) fn new(number: u8) -> Self {
        Self::with_encoding(number, TextEncoding::UnicodeCodePoint)
    }

    pub(crate) fn with_encoding(number: u8, encoding: TextEncoding) -> Self {
        let ours = Document::with_encoding(actor(number), encoding);
        let theirs =
            Automerge::new_with_encoding(their_encoding(encoding)).with_actor(their_actor(number));
        Self { ours, theirs }
    }

    pub(crate) fn fork(&self, number: u8) -> Self {
        let ours = self.ours.fork(actor(number));
        let theirs = self.theirs.fork().with_actor(their_actor(number));
        Self { ours, theirs }
    }

    pub(crate) fn perform(pairs: &mut [Self], step: &Step) -> Reference {
        match step {
            Step::Edit { replica, edits, time, message, commit } => {
                pairs[usize::from(*replica)].edit(edits, *time, message.clone(), *commit);
            }
            Step::Merge { target, source } => {
                let (target, source) = (usize::from(*target), usize::from(*source));
                if Self::merge(pairs, target, source) == Reference::Panicked {
                    return Reference::Panicked;
                }
                pairs[target].check();
            }
            Step::Reload { replica } => pairs[usize::from(*replica)].reload(),
        }
        Reference::Fine
    }

    pub(crate) fn merge(pairs: &mut [Self], target: usize, source: usize) -> Reference {
        if target == source {
            return Reference::Fine;
        }
        // The bytes cross engines: ours reads what the reference wrote and the reverse.
        let changes = pairs[source].theirs.get_changes(&pairs[target].theirs.get_heads());
        let ours: Vec<Change> = changes
            .iter()
            .rev()
            .map(|change| Change::from_bytes(change.raw_bytes()).unwrap())
            .collect();
        let heads = pairs[target].ours.heads();
        let theirs: Vec<automerge::Change> = pairs[source]
            .ours
            .changes_since(&heads)
            .into_iter()
            .map(|change| automerge::Change::from_bytes(change.bytes().into_owned()).unwrap())
            .collect();
        assert_eq!(ours.len(), theirs.len());
        pairs[target].ours.apply_changes(ours).unwrap();
        let target = AssertUnwindSafe(&mut pairs[target].theirs);
        let result = catch_unwind(move || {
            let target = target;
            target.0.apply_changes(theirs).unwrap();
        });
        match result {
            Ok(()) => Reference::Fine,
            Err(panic) if is_known(&*panic) => Reference::Panicked,
            Err(panic) => resume_unwind(panic),
        }
    }

    /// Each engine goes on with what the other saved.
    fn reload(&mut self) {
        let ours = self.ours.save();
        let theirs = self.theirs.save();
        let their_actor = self.theirs.get_actor().clone();
        let actor = self.ours.actor().clone();
        let encoding = self.ours.text_encoding();
        let their_options = automerge::LoadOptions::new().text_encoding(their_encoding(encoding));
        self.theirs =
            Automerge::load_with_options(&ours, their_options).unwrap().with_actor(their_actor);
        let options = LoadOptions { encoding, ..LoadOptions::default() };
        self.ours = Document::load(&theirs, actor, &options).unwrap();
        self.check();
    }

    fn edit(&mut self, edits: &[Edit], time: i64, message: Option<String>, commit: bool) {
        let before = (!commit).then(|| self.state());
        let mut ours = self.ours.transaction();
        let mut theirs = self.theirs.transaction();
        for edit in edits {
            apply(edit, &mut ours, &mut theirs);
            assert_eq!(ours.pending_ops(), theirs.pending_ops(), "{edit:?}");
        }
        if !commit {
            assert_eq!(ours.rollback(), theirs.rollback());
            assert_eq!(Some(self.state()), before);
            self.check();
            return;
        }
        let options = CommitOptions { message: message.clone(), time };
        let mut their_options = TheirOptions::default().with_time(time);
        if let Some(message) = message {
            their_options = their_options.with_message(message);
        }
        let hash = ours.commit(options);
        let (their_hash, _) = theirs.commit_with(their_options);
        if hash.map(|hash| hash.0) != their_hash.map(|hash| hash.0) {
            let ours = self.ours.last_local_change().unwrap();
            let theirs = self.theirs.get_last_local_change().unwrap();
            let ours = automerge::Change::from_bytes(ours.raw_bytes().to_vec()).unwrap();
            panic!("ours: {:#?}\ntheirs: {:#?}", ours.decode(), theirs.decode());
        }
        self.check();
    }

    fn json(&self) -> String {
        serde_json::to_string(&self.ours.to_json()).unwrap()
    }

    /// Everything there is, tombstones and conflicts included.
    fn state(&self) -> Vec<u8> {
        self.ours.to_bytes(SaveOptions { deflate: false, retain_orphans: true })
    }

    /// The two engines show the same document.
    pub(crate) fn check(&self) {
        let theirs = serde_json::to_string(&AutoSerde::from(&self.theirs)).unwrap();
        assert_eq!(self.json(), theirs);
        let heads: Vec<[u8; 32]> = self.ours.heads().iter().map(|head| head.0).collect();
        let mut their_heads: Vec<[u8; 32]> =
            self.theirs.get_heads().iter().map(|head| head.0).collect();
        their_heads.sort_unstable();
        assert_eq!(heads, their_heads);
        for obj in objects(&self.ours) {
            self.check_object(&obj);
        }
    }

    fn check_object(&self, obj: &ObjId) {
        let kind = self.ours.object_type(obj).unwrap();
        let their_obj = their_id(&self.theirs, obj);
        let length = self.ours.length(obj).unwrap();
        assert_eq!(length, self.theirs.length(&their_obj));
        if kind.is_sequence() {
            // Counters in texts are left out: after an increment the reference loses them there.
            for index in 0..length {
                let ours = self.ours.get_all(obj, index).unwrap();
                if kind == ObjType::Text && ours.iter().any(is_counter) {
                    continue;
                }
                let theirs = self.theirs.get_all(&their_obj, index).unwrap();
                compare_all(&ours, &theirs);
            }
            let items = self.ours.items(obj, 0).unwrap();
            for item in items {
                let index = self.ours.index_of(obj, &item.elem).unwrap().unwrap();
                if kind == ObjType::List {
                    assert_eq!(self.ours.get(obj, index).unwrap(), Some((item.value, item.id)));
                }
            }
        } else {
            let keys: Vec<String> = self.ours.keys(obj).unwrap().map(str::to_owned).collect();
            let their_keys: Vec<String> =
                self.theirs.keys(&their_obj).map(|key| key.to_string()).collect();
            assert_eq!(keys, their_keys);
            assert_eq!(keys.len(), length);
            for key in &keys {
                let ours = self.ours.get_all(obj, key).unwrap();
                compare_all(&ours, &self.theirs.get_all(&their_obj, key.as_str()).unwrap());
            }
        }
    }
}

pub(crate) fn is_counter((value, _): &(Value<'_>, ObjId)) -> bool {
    matches!(value, Value::Scalar(shoal_crdt::ScalarRef::Counter(_)))
}

pub(crate) fn compare_all(
    ours: &[(Value<'_>, ObjId)],
    theirs: &[(automerge::Value<'_>, automerge::ObjId)],
) {
    let ours: Vec<String> = ours.iter().map(|(value, id)| describe(*value, id)).collect();
    let theirs: Vec<String> =
        theirs.iter().map(|(value, id)| their_description(value, id)).collect();
    assert_eq!(ours, theirs);
}

fn describe(value: Value<'_>, id: &ObjId) -> String {
    let value = match value {
        Value::Object(kind) => kind.name().to_owned(),
        Value::Scalar(value) => format!("{:?}", their_scalar(&value.to_scalar())),
    };
    format!("{value} {id}")
}

fn their_description(value: &automerge::Value<'_>, id: &automerge::ObjId) -> String {
    let value = match value {
        automerge::Value::Object(kind) => kind.to_string(),
        automerge::Value::Scalar(value) => {
            // A counter that was read knows where it started; the total is what counts.
            let total = match &**value {
                automerge::ScalarValue::Counter(counter) => {
                    automerge::ScalarValue::counter(i64::from(counter))
                }
                other => other.clone(),
            };
            format!("{total:?}")
        }
    };
    format!("{value} {id}")
}

/// Every object that readers reach, the root first, in an order that both engines share.
pub(crate) fn objects(doc: &impl shoal_crdt::ReadDoc) -> Vec<ObjId> {
    let mut found = vec![ROOT];
    let mut at = 0;
    while at < found.len() {
        let obj = found[at].clone();
        at += 1;
        let children: Vec<ObjId> = if doc.object_type(&obj).unwrap().is_sequence() {
            let items = doc.items(&obj, 0).unwrap();
            items.filter(|item| item.value.as_object().is_some()).map(|item| item.id).collect()
        } else {
            let entries = doc.entries(&obj).unwrap();
            entries
                .filter(|entry| entry.value.as_object().is_some())
                .map(|entry| entry.id)
                .collect()
        };
        found.extend(children);
    }
    found
}

fn actor(number: u8) -> ActorId {
    // Not in the order of the numbers, so that no one relies on it.
    ActorId::new(&[[7, 3, 9, 1][usize::from(number)]; 4])
}

fn their_encoding(encoding: TextEncoding) -> automerge::TextEncoding {
    match encoding {
        TextEncoding::Utf8CodeUnit => automerge::TextEncoding::Utf8CodeUnit,
        TextEncoding::Utf16CodeUnit => automerge::TextEncoding::Utf16CodeUnit,
        TextEncoding::GraphemeCluster => automerge::TextEncoding::GraphemeCluster,
        _ => automerge::TextEncoding::UnicodeCodePoint,
    }
}

fn their_actor(number: u8) -> automerge::ActorId {
    automerge::ActorId::from(actor(number).as_bytes())
}

pub(crate) fn their_id(theirs: &impl ReadDoc, obj: &ObjId) -> automerge::ObjId {
    let _ = theirs;
    match obj.actor() {
        None => automerge::ROOT,
        Some(actor) => automerge::ObjId::Id(
            obj.counter().into(),
            automerge::ActorId::from(actor.as_bytes()),
            usize::MAX,
        ),
    }
}

pub(crate) fn their_scalar(value: &Scalar) -> automerge::ScalarValue {
    match value {
        Scalar::Null => automerge::ScalarValue::Null,
        Scalar::Boolean(value) => automerge::ScalarValue::Boolean(*value),
        Scalar::Uint(value) => automerge::ScalarValue::Uint(*value),
        Scalar::Int(value) => automerge::ScalarValue::Int(*value),
        Scalar::F64(value) => automerge::ScalarValue::F64(*value),
        Scalar::Str(value) => automerge::ScalarValue::Str((&**value).into()),
        Scalar::Bytes(value) => automerge::ScalarValue::Bytes(value.to_vec()),
        Scalar::Counter(value) => automerge::ScalarValue::counter(*value),
        Scalar::Timestamp(value) => automerge::ScalarValue::Timestamp(*value),
        Scalar::Unknown { type_code, bytes } => {
            automerge::ScalarValue::Unknown { type_code: *type_code, bytes: bytes.to_vec() }
        }
    }
}

const KINDS: [ObjType; 3] = [ObjType::Map, ObjType::List, ObjType::Text];
const THEIR_KINDS: [automerge::ObjType; 3] =
    [automerge::ObjType::Map, automerge::ObjType::List, automerge::ObjType::Text];
const KEYS: [&str; 6] = ["", "a", "b", "ab", "é", "😀"];
const EXPANDS: [(ExpandMark, automerge::marks::ExpandMark); 4] = [
    (ExpandMark::Before, automerge::marks::ExpandMark::Before),
    (ExpandMark::After, automerge::marks::ExpandMark::After),
    (ExpandMark::Both, automerge::marks::ExpandMark::Both),
    (ExpandMark::None, automerge::marks::ExpandMark::None),
];

type Ours<'a> = shoal_crdt::Transaction<'a>;
type Theirs<'a> = automerge::transaction::Transaction<'a>;

fn their_prop(prop: Prop<'_>) -> automerge::Prop {
    match prop {
        Prop::Key(key) => automerge::Prop::from(key),
        Prop::Index(index) => automerge::Prop::from(index),
    }
}

/// Makes one edit in both engines; they agree on whether it is possible.
fn apply(edit: &Edit, ours: &mut Ours<'_>, theirs: &mut Theirs<'_>) {
    let all = objects(ours);
    let choose = |number: u8| all[usize::from(number) % all.len()].clone();
    let text = |number: u8| {
        let texts: Vec<&ObjId> =
            all.iter().filter(|obj| ours.object_type(obj).unwrap() == ObjType::Text).collect();
        (!texts.is_empty()).then(|| texts[usize::from(number) % texts.len()].clone())
    };
    let prop = |obj: &ObjId, place: u8| {
        if ours.object_type(obj).unwrap().is_sequence() {
            // One beyond the end, too: an error, or nothing, in both.
            Prop::Index(usize::from(place) % (ours.length(obj).unwrap() + 1))
        } else {
            Prop::Key(KEYS[usize::from(place) % KEYS.len()])
        }
    };
    let (ok, their_ok) = match edit {
        Edit::Put { object, place, value } => {
            let obj = choose(*object);
            let prop = prop(&obj, *place);
            let id = their_id(theirs, &obj);
            if in_text_and_counter(ours, &obj, prop, value) {
                return;
            }
            (
                ours.put(&obj, prop, value).is_ok(),
                theirs.put(&id, their_prop(prop), their_scalar(value)).is_ok(),
            )
        }
        Edit::PutObject { object, place, kind } => {
            let obj = choose(*object);
            let prop = prop(&obj, *place);
            let id = their_id(theirs, &obj);
            let kind = usize::from(*kind);
            (
                ours.put_object(&obj, prop, KINDS[kind]).is_ok(),
                theirs.put_object(&id, their_prop(prop), THEIR_KINDS[kind]).is_ok(),
            )
        }
        Edit::Insert { object, place, value } => {
            let obj = choose(*object);
            let id = their_id(theirs, &obj);
            let index = usize::from(*place) % (ours.length(&obj).unwrap() + 2);
            if in_text_and_counter(ours, &obj, Prop::Index(index), value) {
                return;
            }
            (
                ours.insert(&obj, index, value).is_ok(),
                theirs.insert(&id, index, their_scalar(value)).is_ok(),
            )
        }
        Edit::InsertObject { object, place, kind } => {
            let obj = choose(*object);
            let id = their_id(theirs, &obj);
            let index = usize::from(*place) % (ours.length(&obj).unwrap() + 1);
            let kind = usize::from(*kind);
            (
                ours.insert_object(&obj, index, KINDS[kind]).is_ok(),
                theirs.insert_object(&id, index, THEIR_KINDS[kind]).is_ok(),
            )
        }
        Edit::Delete { object, place } => {
            let obj = choose(*object);
            let prop = prop(&obj, *place);
            let id = their_id(theirs, &obj);
            (ours.delete(&obj, prop).is_ok(), theirs.delete(&id, their_prop(prop)).is_ok())
        }
        Edit::Increment { object, place, by } => {
            let obj = choose(*object);
            let prop = prop(&obj, *place);
            let id = their_id(theirs, &obj);
            let by = i64::from(*by);
            if has_mixed_counters(ours, &obj, prop) {
                return;
            }
            (
                ours.increment(&obj, prop, by).is_ok(),
                theirs.increment(&id, their_prop(prop), by).is_ok(),
            )
        }
        Edit::Splice { object, place, delete, values } => {
            let obj = choose(*object);
            let id = their_id(theirs, &obj);
            let index = usize::from(*place) % (ours.length(&obj).unwrap() + 1);
            let delete = isize::from(*delete);
            let their_values = values.iter().map(their_scalar);
            (
                ours.splice(&obj, index, delete, values).is_ok(),
                theirs.splice(&id, index, delete, their_values).is_ok(),
            )
        }
        Edit::SpliceText { object, place, delete, text: inserted } => {
            let Some(obj) = text(*object) else { return };
            let id = their_id(theirs, &obj);
            let index = usize::from(*place) % (ours.length(&obj).unwrap() + 1);
            let delete = isize::from(*delete);
            (
                ours.splice_text(&obj, index, delete, inserted).is_ok(),
                theirs.splice_text(&id, index, delete, inserted).is_ok(),
            )
        }
        Edit::Mark { object, start, end, name, value, expand } => {
            let Some(obj) = text(*object) else { return };
            let id = their_id(theirs, &obj);
            let length = ours.length(&obj).unwrap() + 1;
            let (start, end) = (usize::from(*start) % length, usize::from(*end) % length);
            let (start, end) = (start.min(end), start.max(end));
            let name = ["bold", "link"][usize::from(*name)];
            let (expand, their_expand) = EXPANDS[usize::from(*expand)];
            let mark =
                automerge::marks::Mark::new(name.to_owned(), their_scalar(value), start, end);
            (
                ours.mark(&obj, start, end, name, value, expand).is_ok(),
                theirs.mark(&id, mark, their_expand).is_ok(),
            )
        }
        Edit::UpdateText { object, text: new } => {
            let Some(obj) = text(*object) else { return };
            let id = their_id(theirs, &obj);
            (ours.update_text(&obj, new).is_ok(), theirs.update_text(&id, new).is_ok())
        }
        Edit::Block { object, place, what } => {
            let Some(obj) = text(*object) else { return };
            let id = their_id(theirs, &obj);
            let index = usize::from(*place) % (ours.length(&obj).unwrap() + 1);
            if *what == 0 {
                let ours = ours.split_block(&obj, index).unwrap();
                assert_eq!(ours.to_string(), theirs.split_block(&id, index).unwrap().to_string());
                return;
            }
            // The reference deletes whatever is there, and of several values one.
            let all = ours.get_all(&obj, index).unwrap();
            let [(Value::Object(ObjType::Map), block)] = &all[..] else {
                assert!(ours.join_block(&obj, index).is_err());
                return;
            };
            // Amid a block the reference puts the new one behind the text that follows.
            let is_amid = ours.index_of(&obj, block).unwrap() != Some(index);
            if *what == 1 || is_amid {
                (ours.join_block(&obj, index).is_ok(), theirs.join_block(&id, index).is_ok())
            } else {
                let ours = ours.replace_block(&obj, index).unwrap();
                assert_eq!(ours.to_string(), theirs.replace_block(&id, index).unwrap().to_string());
                return;
            }
        }
    };
    assert_eq!(ok, their_ok, "{edit:?}");
}

/// Incrementing several counters that conflict with other values makes the reference show two
/// winners until the document is loaded again: not compared.
fn has_mixed_counters(ours: &Ours<'_>, obj: &ObjId, prop: Prop<'_>) -> bool {
    let all = ours.get_all(obj, prop).unwrap();
    let counters = all.iter().filter(|value| is_counter(value)).count();
    counters >= 2 && counters < all.len()
}

/// The reference loses counters in texts once they are incremented: not compared.
fn in_text_and_counter(ours: &Ours<'_>, obj: &ObjId, prop: Prop<'_>, value: &Scalar) -> bool {
    let _ = prop;
    ours.object_type(obj).unwrap() == ObjType::Text && matches!(value, Scalar::Counter(_))
}
