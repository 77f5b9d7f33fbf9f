//! Random edits of documents, for tests of two ways to read them.

use shoal_history::Scalar;
pub(crate) use shoal_testkit::Random;

use crate::ExpandMark;
use crate::autocommit::AutoCommit;
use crate::error::Error;
use crate::id::ObjId;
use crate::read_doc::ReadDoc;
use crate::transactable::Transactable;
use crate::value::ObjType;

pub(crate) const KEYS: [&str; 5] = ["a", "b", "c", "list", "text"];
pub(crate) const KINDS: [ObjType; 3] = [ObjType::Map, ObjType::List, ObjType::Text];

/// Does something to some object; edits that an object refuses are none.
pub(crate) fn edit(
    doc: &mut AutoCommit,
    objects: &mut Vec<ObjId>,
    random: &mut Random,
    marks: bool,
) {
    let obj = objects[random.place(objects.len())].clone();
    let number = i64::try_from(random.place(9)).unwrap();
    let key = KEYS[random.place(KEYS.len())];
    let Ok(length) = doc.length(&obj) else { return };
    let index = random.place(length + 1);
    let kind = KINDS[random.place(KINDS.len())];
    let made = match (doc.object_type(&obj), random.place(7)) {
        (Ok(ObjType::Map | ObjType::Table), 0) => doc.put_object(&obj, key, kind).ok(),
        (Ok(ObjType::Map | ObjType::Table), 1) => drop_ok(doc.delete(&obj, key)),
        (Ok(ObjType::Map | ObjType::Table), 2) => drop_ok(
            doc.increment(&obj, key, number)
                .or_else(|_| doc.put(&obj, key, Scalar::Counter(number))),
        ),
        (Ok(ObjType::Map | ObjType::Table), _) => drop_ok(doc.put(&obj, key, number)),
        (Ok(ObjType::List), 0) => doc.insert_object(&obj, index, kind).ok(),
        (Ok(ObjType::List), 1) => doc.put_object(&obj, index, kind).ok(),
        (Ok(ObjType::List), 2) => drop_ok(doc.delete(&obj, index)),
        (Ok(ObjType::List), 3) => drop_ok(doc.put(&obj, index, number)),
        (Ok(ObjType::List), _) => drop_ok(doc.insert(&obj, index, number)),
        (Ok(ObjType::Text), 0) if marks && length > 2 => {
            let (start, end) = (length / 3, length - 1);
            drop_ok(doc.mark(&obj, start, end, "bold", number, ExpandMark::After))
        }
        (Ok(ObjType::Text), 1 | 2) => {
            let count = random.place(length - index + 1).min(4);
            drop_ok(doc.splice_text(&obj, index, isize::try_from(count).unwrap(), ""))
        }
        (Ok(ObjType::Text), 3) if random.place(3) == 0 => {
            let wide = ["", "ab", "𝄞é"][random.place(3)];
            drop_ok(doc.insert(&obj, index, wide))
        }
        (Ok(ObjType::Text), _) => drop_ok(doc.splice_text(&obj, index, 0, "héllo")),
        (Err(_), _) => None,
    };
    objects.extend(made);
}

fn drop_ok(_: Result<(), Error>) -> Option<ObjId> {
    None
}
