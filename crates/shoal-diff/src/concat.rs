//! Two changesets as one.

use std::collections::HashMap;

use shoal_sql::{Value, ValueRef};

use crate::Error;
use crate::changeset::{Change, Form, Head, Op, Reader, Writer};

/// A record with values of its own.
pub(crate) type Record = Vec<Option<Value>>;

pub(crate) fn owned(record: &[Option<ValueRef<'_>>]) -> Record {
    record.iter().map(|value| value.map(Value::from)).collect()
}

pub(crate) fn borrowed(record: &[Option<Value>]) -> Vec<Option<ValueRef<'_>>> {
    record.iter().map(|value| value.as_ref().map(Value::as_ref)).collect()
}

/// A change of one row, all of a changeset's changes of the row taken together.
struct Joined {
    op: Op,
    indirect: bool,
    old: Record,
    new: Record,
}

/// The rows changed in one table, in the order of their first change.
struct Group {
    head: Head,
    /// `None` for an insertion taken back.
    changes: Vec<Option<Joined>>,
    places: HashMap<Vec<u8>, usize>,
}

/// One changeset with the effect of `first` and then `second`; likewise of two patchsets.
///
/// A pair of changes unable to follow each other (two insertions of one row, an update after a
/// deletion) leaves the first alone, as in SQLite.
///
/// # Errors
/// [`Error::Corrupt`]; [`Error::Unfit`] for a changeset beside a patchset; [`Error::Heads`].
pub fn concat(first: &[u8], second: &[u8]) -> Result<Vec<u8>, Error> {
    let mut groups: Vec<Group> = Vec::new();
    let mut form = None;
    for bytes in [first, second] {
        let mut reader = Reader::new(bytes);
        while let Some(change) = reader.next()? {
            if form.is_some_and(|known| known != change.form) {
                let what = "a patchset cannot be joined to a changeset";
                return Err(Error::Unfit { what });
            }
            form = Some(change.form);
            add(&mut groups, &change)?;
        }
    }
    let mut writer = Writer::new(form.unwrap_or(Form::Changeset));
    for group in &groups {
        for change in group.changes.iter().flatten() {
            let (old, new) = (borrowed(&change.old), borrowed(&change.new));
            writer.push(&Change {
                head: &group.head,
                form: form.unwrap_or(Form::Changeset),
                op: change.op,
                indirect: change.indirect,
                old: &old,
                new: &new,
            });
        }
    }
    Ok(writer.finish())
}

fn add(groups: &mut Vec<Group>, change: &Change<'_, '_>) -> Result<(), Error> {
    let head = change.head;
    let is = |group: &Group| group.head.table.eq_ignore_ascii_case(&head.table);
    let place = match groups.iter().position(is) {
        Some(place) if groups[place].head.keys == head.keys => place,
        Some(_) => return Err(Error::Heads { table: head.table.clone() }),
        None => {
            let (changes, places) = (Vec::new(), HashMap::new());
            groups.push(Group { head: head.clone(), changes, places });
            groups.len() - 1
        }
    };
    let group = &mut groups[place];
    let mut key = Vec::new();
    head.key_bytes(change.keyed(), &mut key);
    let second = Joined {
        op: change.op,
        indirect: change.indirect,
        old: owned(change.old),
        new: owned(change.new),
    };
    match group.places.get(&key) {
        Some(place) if group.changes[*place].is_some() => {
            let first = group.changes[*place].take().expect("the place was just looked at");
            group.changes[*place] = joined(&group.head, change.form, first, second);
        }
        _ => {
            group.places.insert(key, group.changes.len());
            group.changes.push(Some(second));
        }
    }
    Ok(())
}

/// Both changes of a row as one; `None` where nothing is left to change.
fn joined(head: &Head, form: Form, first: Joined, second: Joined) -> Option<Joined> {
    let indirect = first.indirect && second.indirect;
    let over = |below: Record, above: Record| -> Record {
        below.into_iter().zip(above).map(|(below, above)| above.or(below)).collect()
    };
    match (first.op, second.op) {
        (Op::Insert, Op::Insert)
        | (Op::Update, Op::Insert)
        | (Op::Delete, Op::Update | Op::Delete) => Some(first),
        (Op::Insert, Op::Delete) => None,
        (Op::Insert, Op::Update) => {
            let new = over(first.new, second.new);
            Some(Joined { op: Op::Insert, indirect, old: first.old, new })
        }
        (Op::Delete, Op::Insert) => {
            let mut new = second.new;
            for column in head.key_columns() {
                new[column] = None;
            }
            update(head, form, indirect, first.old, new)
        }
        (Op::Update, Op::Update) => {
            update(head, form, indirect, over(second.old, first.old), over(first.new, second.new))
        }
        (Op::Update, Op::Delete) => {
            let new = second.new;
            let old = over(second.old, first.old);
            Some(Joined { op: Op::Delete, indirect, old, new })
        }
    }
}

/// An update without the columns whose values stay; `None` where all do.
fn update(
    head: &Head,
    form: Form,
    indirect: bool,
    mut old: Record,
    mut new: Record,
) -> Option<Joined> {
    if form == Form::Changeset {
        for column in (0..old.len()).filter(|column| !head.is_key(*column)) {
            if old[column] == new[column] {
                old[column] = None;
                new[column] = None;
            }
        }
        if new.iter().all(Option::is_none) {
            return None;
        }
    }
    Some(Joined { op: Op::Update, indirect, old, new })
}
