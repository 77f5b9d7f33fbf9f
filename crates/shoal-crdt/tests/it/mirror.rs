//! A copy of a document as an application keeps it, changed by patches alone.

use std::collections::BTreeMap;

use shoal_crdt::{
    MarkSet, ObjId, ObjType, Patch, PatchAction, PatchProp, PatchScalar, PatchValue, ROOT, ReadDoc,
    Scalar, TextEncoding, Value,
};
use unicode_segmentation::UnicodeSegmentation;

/// A value of the copy.
#[derive(Clone, Debug, PartialEq)]
enum Node {
    Map(BTreeMap<String, Held>),
    List(Vec<Held>),
    /// Each unit with its marks; objects in between.
    Text(Vec<(Unit, BTreeMap<String, Scalar>)>),
    Scalar(Scalar),
}

/// What a map or a list holds at one place.
#[derive(Clone, Debug, PartialEq)]
struct Held {
    node: Node,
    /// Whether the copy knows of other values.
    conflict: bool,
}

/// What one unit of a text shows.
#[derive(Clone, Debug, PartialEq)]
enum Unit {
    /// What is seen as one character begins here.
    Text(String),
    Object(Box<Node>),
    /// It goes on.
    Rest,
}

/// The copy.
#[derive(Debug)]
pub(crate) struct Mirror {
    root: Node,
    encoding: TextEncoding,
}

fn empty(kind: ObjType) -> Node {
    match kind {
        ObjType::Map | ObjType::Table => Node::Map(BTreeMap::new()),
        ObjType::List => Node::List(Vec::new()),
        ObjType::Text => Node::Text(Vec::new()),
    }
}

fn held(
    doc: &impl ReadDoc,
    encoding: TextEncoding,
    (value, id, conflict): (Value<'_>, &ObjId, bool),
) -> Held {
    let node = match value {
        Value::Object(_) => read(doc, encoding, id),
        Value::Scalar(value) => Node::Scalar(value.to_scalar()),
    };
    Held { node, conflict }
}

fn owned(marks: &MarkSet) -> BTreeMap<String, Scalar> {
    marks.iter().map(|(name, value)| (name.to_string(), value.clone())).collect()
}

/// The units that a text takes.
fn units(encoding: TextEncoding, text: &str) -> Vec<Unit> {
    if encoding == TextEncoding::GraphemeCluster {
        return text.graphemes(true).map(|shown| Unit::Text(shown.to_owned())).collect();
    }
    let mut units = Vec::new();
    for char in text.chars() {
        let text = char.to_string();
        let width = encoding.width(&text);
        units.push(Unit::Text(text));
        units.resize(units.len() + width - 1, Unit::Rest);
    }
    units
}

/// The units that an object in a text takes.
fn object(encoding: TextEncoding, node: Node) -> Vec<Unit> {
    let mut units = vec![Unit::Object(Box::new(node))];
    units.resize(encoding.width("\u{fffc}"), Unit::Rest);
    units
}

fn read(doc: &impl ReadDoc, encoding: TextEncoding, obj: &ObjId) -> Node {
    match doc.object_type(obj).unwrap() {
        ObjType::Map | ObjType::Table => {
            let entry = |entry: shoal_crdt::MapEntry<'_>| {
                let held = held(doc, encoding, (entry.value, &entry.id, entry.conflict));
                (entry.key.to_owned(), held)
            };
            Node::Map(doc.entries(obj).unwrap().map(entry).collect())
        }
        ObjType::List => {
            let items = doc.items(obj, 0).unwrap();
            let held = |item: shoal_crdt::ListItem<'_>| {
                held(doc, encoding, (item.value, &item.id, item.conflict))
            };
            Node::List(items.map(held).collect())
        }
        ObjType::Text => {
            let mut all = Vec::new();
            for item in doc.items(obj, 0).unwrap() {
                let of_item = match item.value {
                    Value::Object(_) => object(encoding, read(doc, encoding, &item.id)),
                    value => units(encoding, value.as_str().unwrap_or("\u{fffc}")),
                };
                if of_item.is_empty() {
                    continue;
                }
                let marks = owned(&doc.get_marks(obj, all.len()).unwrap());
                all.extend(of_item.into_iter().map(|unit| (unit, marks.clone())));
            }
            Node::Text(all)
        }
    }
}

fn brought(value: &PatchValue) -> Held {
    let node = match &value.value {
        PatchScalar::Object(kind) => empty(*kind),
        PatchScalar::Scalar(value) => Node::Scalar(value.clone()),
    };
    Held { node, conflict: value.conflict }
}

impl Mirror {
    /// Of a document whose texts are indexed in these units.
    pub(crate) fn of(doc: &impl ReadDoc, encoding: TextEncoding) -> Self {
        Self { root: read(doc, encoding, &ROOT), encoding }
    }

    pub(crate) fn shown(&self) -> String {
        format!("{:#?}", self.root)
    }

    pub(crate) fn apply(&mut self, patch: &Patch) {
        let encoding = self.encoding;
        let mut node = &mut self.root;
        for (_, prop) in &patch.path {
            node = step(node, prop);
        }
        match (&patch.action, node) {
            (PatchAction::PutMap { key, value }, Node::Map(entries)) => {
                entries.insert(key.to_string(), brought(value));
            }
            (PatchAction::DeleteMap { key }, Node::Map(entries)) => {
                assert!(entries.remove(&**key).is_some());
            }
            (PatchAction::PutSeq { index, value }, Node::List(items)) => {
                items[*index] = brought(value);
            }
            (PatchAction::Insert { index, values }, Node::List(items)) => {
                items.splice(*index..*index, values.iter().map(brought));
            }
            (PatchAction::Insert { index, values }, Node::Text(all)) => {
                let objects = values.iter().flat_map(|value| object(encoding, brought(value).node));
                all.splice(*index..*index, objects.map(|unit| (unit, BTreeMap::new())));
            }
            (PatchAction::SpliceText { index, text, marks }, Node::Text(all)) => {
                let units = units(encoding, text).into_iter().map(|unit| (unit, owned(marks)));
                all.splice(*index..*index, units);
            }
            (PatchAction::DeleteSeq { index, length }, Node::List(items)) => {
                items.drain(*index..*index + *length);
            }
            (PatchAction::DeleteSeq { index, length }, Node::Text(units)) => {
                units.drain(*index..*index + *length);
            }
            (PatchAction::Mark { marks }, Node::Text(units)) => {
                for mark in marks {
                    for (_, of_unit) in &mut units[mark.start..mark.end] {
                        of_unit.remove(&*mark.name);
                        if mark.value != Scalar::Null {
                            of_unit.insert(mark.name.to_string(), mark.value.clone());
                        }
                    }
                }
            }
            (PatchAction::Increment { prop, by }, node) => {
                // Counters in a text show as U+FFFC, whatever their totals.
                if matches!(node, Node::Text(_)) {
                    return;
                }
                let Node::Scalar(Scalar::Counter(total)) = step(node, prop) else {
                    panic!("no counter: {patch:?}");
                };
                *total = total.wrapping_add(*by);
            }
            (PatchAction::Conflict { prop: PatchProp::Key(key) }, Node::Map(entries)) => {
                entries.get_mut(&**key).unwrap().conflict = true;
            }
            (PatchAction::Conflict { prop: PatchProp::Index(index) }, Node::List(items)) => {
                items[*index].conflict = true;
            }
            (PatchAction::Conflict { .. }, Node::Text(_)) => {}
            (_, node) => panic!("{patch:?} does not fit {node:?}"),
        }
    }
}

fn step<'n>(node: &'n mut Node, prop: &PatchProp) -> &'n mut Node {
    match (node, prop) {
        (Node::Map(entries), PatchProp::Key(key)) => &mut entries.get_mut(&**key).unwrap().node,
        (Node::List(items), PatchProp::Index(index)) => &mut items[*index].node,
        (Node::Text(units), PatchProp::Index(index)) => match &mut units[*index].0 {
            Unit::Object(node) => node,
            Unit::Text(_) | Unit::Rest => panic!("no object at {index}"),
        },
        (node, prop) => panic!("{prop:?} does not fit {node:?}"),
    }
}
