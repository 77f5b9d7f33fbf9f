//! A copy of a document as an application keeps it, changed by patches alone.

use std::collections::BTreeMap;

use shoal_crdt::{
    MarkSet, ObjId, ObjType, Patch, PatchAction, PatchProp, PatchScalar, PatchValue, ROOT, ReadDoc,
    Scalar, Value,
};

/// A value of the copy.
#[derive(Clone, Debug, PartialEq)]
enum Node {
    Map(BTreeMap<String, Node>),
    List(Vec<Node>),
    /// Each unit with its marks; objects in between.
    Text(Vec<(Unit, BTreeMap<String, Scalar>)>),
    Scalar(Scalar),
}

#[derive(Clone, Debug, PartialEq)]
enum Unit {
    Char(char),
    Object(Box<Node>),
}

/// The copy.
#[derive(Debug)]
pub(crate) struct Mirror(Node);

fn empty(kind: ObjType) -> Node {
    match kind {
        ObjType::Map | ObjType::Table => Node::Map(BTreeMap::new()),
        ObjType::List => Node::List(Vec::new()),
        ObjType::Text => Node::Text(Vec::new()),
    }
}

fn node(doc: &impl ReadDoc, value: Value<'_>, id: &ObjId) -> Node {
    match value {
        Value::Object(_) => read(doc, id),
        Value::Scalar(value) => Node::Scalar(value.to_scalar()),
    }
}

fn owned(marks: &MarkSet) -> BTreeMap<String, Scalar> {
    marks.iter().map(|(name, value)| (name.to_string(), value.clone())).collect()
}

fn read(doc: &impl ReadDoc, obj: &ObjId) -> Node {
    match doc.object_type(obj).unwrap() {
        ObjType::Map | ObjType::Table => {
            let entries = doc.entries(obj).unwrap();
            Node::Map(
                entries
                    .map(|entry| (entry.key.to_owned(), node(doc, entry.value, &entry.id)))
                    .collect(),
            )
        }
        ObjType::List => {
            let items = doc.items(obj, 0).unwrap();
            Node::List(items.map(|item| node(doc, item.value, &item.id)).collect())
        }
        ObjType::Text => {
            let mut units = Vec::new();
            for item in doc.items(obj, 0).unwrap() {
                let marks = owned(&doc.get_marks(obj, units.len()).unwrap());
                match item.value {
                    Value::Object(_) => {
                        units.push((Unit::Object(Box::new(read(doc, &item.id))), marks));
                    }
                    value => {
                        let text = value.as_str().unwrap_or("\u{fffc}");
                        let chars = text.chars().map(|char| (Unit::Char(char), marks.clone()));
                        units.extend(chars);
                    }
                }
            }
            Node::Text(units)
        }
    }
}

fn brought(value: &PatchValue) -> Node {
    match &value.value {
        PatchScalar::Object(kind) => empty(*kind),
        PatchScalar::Scalar(value) => Node::Scalar(value.clone()),
    }
}

impl Mirror {
    pub(crate) fn of(doc: &impl ReadDoc) -> Self {
        Self(read(doc, &ROOT))
    }

    pub(crate) fn shown(&self) -> String {
        format!("{:#?}", self.0)
    }

    pub(crate) fn apply(&mut self, patch: &Patch) {
        let mut node = &mut self.0;
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
            (PatchAction::Insert { index, values }, Node::Text(units)) => {
                let objects = values
                    .iter()
                    .map(|value| (Unit::Object(Box::new(brought(value))), BTreeMap::new()));
                units.splice(*index..*index, objects);
            }
            (PatchAction::SpliceText { index, text, marks }, Node::Text(units)) => {
                let chars = text.chars().map(|char| (Unit::Char(char), owned(marks)));
                units.splice(*index..*index, chars.collect::<Vec<_>>());
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
            (PatchAction::Conflict { .. }, _) => {}
            (_, node) => panic!("{patch:?} does not fit {node:?}"),
        }
    }
}

fn step<'n>(node: &'n mut Node, prop: &PatchProp) -> &'n mut Node {
    match (node, prop) {
        (Node::Map(entries), PatchProp::Key(key)) => entries.get_mut(&**key).unwrap(),
        (Node::List(items), PatchProp::Index(index)) => &mut items[*index],
        (Node::Text(units), PatchProp::Index(index)) => match &mut units[*index].0 {
            Unit::Object(node) => node,
            Unit::Char(_) => panic!("no object at {index}"),
        },
        (node, prop) => panic!("{prop:?} does not fit {node:?}"),
    }
}
