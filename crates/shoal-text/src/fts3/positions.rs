//! Positions of a term or a phrase in one document, joined by phrases and by `NEAR`.
//!
//! A list in the file: for each column with positions the byte 1 and the column's number (left out
//! for column 0), then differences of positions, 2 added to each; the byte 0 ends the list and is
//! left out here.

use super::varint;
use crate::error::{Error, Result};

/// Positions of a column lie below this bound, and columns too.
const BOUND: u64 = 0x7fff_ffff;

/// A column, and a position in the column; ordered as in the list.
pub(super) type Place = (u32, u32);

/// Decodes a list; `docid` and the number of columns are for faults.
pub(super) fn decode(
    mut bytes: &[u8],
    columns: usize,
    docid: i64,
    out: &mut Vec<Place>,
) -> Result<()> {
    let fault = |why| Error::corrupt("position list of document", docid, why);
    out.clear();
    let (mut column, mut position) = (0_u32, 0_u64);
    while !bytes.is_empty() {
        let value = varint::take(&mut bytes).ok_or_else(|| fault("a position is cut off"))?;
        match value {
            0 => return Err(fault("a list ends twice")),
            1 => {
                let next = varint::take(&mut bytes).ok_or_else(|| fault("a column is cut off"))?;
                if next <= u64::from(column) {
                    return Err(fault("columns do not ascend"));
                }
                if next >= columns as u64 {
                    return Err(fault("a column is beyond the table's last"));
                }
                (column, position) = (next as u32, 0);
            }
            delta => {
                position = position.saturating_add(delta - 2);
                if position >= BOUND {
                    return Err(fault("a position is too large"));
                }
                out.push((column, position as u32));
            }
        }
    }
    Ok(())
}

/// Appends places as a list.
pub(super) fn encode(places: &[Place], out: &mut Vec<u8>) {
    let (mut column, mut before) = (0, 0);
    for &(next, position) in places {
        if next != column {
            out.push(1);
            varint::put(out, u64::from(next));
            (column, before) = (next, 0);
        }
        varint::put(out, u64::from(position - before) + 2);
        before = position;
    }
}

/// Length of the list at the front of a doclist, without the final byte 0; `None` where the
/// doclist ends within the list.
pub(super) fn length(bytes: &[u8]) -> Option<usize> {
    let mut continues = false;
    for (at, &byte) in bytes.iter().enumerate() {
        if byte == 0 && !continues {
            return Some(at);
        }
        continues = byte >= 0x80;
    }
    None
}

/// Keeps the places of `right` exactly `distance` behind a place of `left`.
pub(super) fn follow(left: &[Place], right: &mut Vec<Place>, distance: u32) {
    let mut at = 0;
    right.retain(|&(column, position)| {
        let Some(wanted) = position.checked_sub(distance) else { return false };
        while left.get(at).is_some_and(|&place| place < (column, wanted)) {
            at += 1;
        }
        left.get(at) == Some(&(column, wanted))
    });
}

/// The places of `list` with one of `beside` up to `after` places before them, or up to `before`
/// places behind them, in the same column.
pub(super) fn near(beside: &[Place], list: &[Place], after: u64, before: u64) -> Vec<Place> {
    let is_near = |&(column, position): &Place| {
        let position = u64::from(position);
        let begin = beside.partition_point(|&(other, place)| {
            (other, u64::from(place)) < (column, position.saturating_sub(after))
        });
        beside[begin..]
            .iter()
            .take_while(|&&(other, place)| other == column && u64::from(place) <= position + before)
            .any(|&(_, place)| u64::from(place) != position)
    };
    list.iter().copied().filter(|place| is_near(place)).collect()
}

#[cfg(test)]
mod tests {
    use super::{decode, encode, follow, length, near};

    #[test]
    fn lists_come_back() {
        let places = vec![(0, 0), (0, 7), (2, 0), (2, 300), (9, 5)];
        let mut bytes = Vec::new();
        encode(&places, &mut bytes);
        let mut again = Vec::new();
        decode(&bytes, 10, 1, &mut again).expect("a written list reads");
        assert_eq!(again, places);
        assert!(decode(&bytes, 9, 1, &mut again).is_err());
        assert_eq!(length(&bytes), None);
        bytes.push(0);
        assert_eq!(length(&bytes), Some(bytes.len() - 1));
    }

    #[test]
    fn phrases_follow_and_near_places_stay() {
        let mut right = vec![(0, 1), (0, 4), (1, 3), (1, 4)];
        follow(&[(0, 0), (0, 3), (1, 3)], &mut right, 1);
        assert_eq!(right, [(0, 1), (0, 4), (1, 4)]);
        let list = [(0, 0), (0, 5), (0, 9), (1, 5)];
        assert_eq!(near(&[(0, 5)], &list, 3, 4), []);
        assert_eq!(near(&[(0, 5)], &list, 4, 4), [(0, 9)]);
        assert_eq!(near(&[(0, 5)], &list, 4, 5), [(0, 0), (0, 9)]);
    }
}
