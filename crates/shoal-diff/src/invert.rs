//! The inverse of a changeset, to take the changes back.

use crate::Error;
use crate::changeset::{Change, Form, Op, Reader, Writer};

/// A changeset with every change turned around: insertions become deletions, deletions insertions,
/// updates lead from the new values to the old. In the order of the given changes.
///
/// # Errors
/// [`Error::Unfit`] for a patchset, [`Error::Corrupt`].
pub fn invert(changeset: &[u8]) -> Result<Vec<u8>, Error> {
    let mut reader = Reader::new(changeset);
    let mut writer = Writer::new(Form::Changeset);
    while let Some(change) = reader.next()? {
        if change.form == Form::Patchset {
            let what = "a patchset cannot be inverted: the values before are not in it";
            return Err(Error::Unfit { what });
        }
        let (mut old, mut new) = (change.new.to_vec(), change.old.to_vec());
        let op = match change.op {
            Op::Insert => Op::Delete,
            Op::Delete => Op::Insert,
            Op::Update => {
                for column in change.head.key_columns() {
                    old[column] = new[column].take();
                }
                Op::Update
            }
        };
        writer.push(&Change { op, old: &old, new: &new, ..change });
    }
    Ok(writer.finish())
}
