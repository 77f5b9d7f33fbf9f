//! Case folding, diacritics and general categories, as FTS5 of SQLite has them (Unicode 6.1).
//!
//! The tables beside this file are made by `tests/it/unicode_tables.rs`, which asks SQLite of every
//! code point.

use std::sync::OnceLock;

use super::fold_tables::{CATEGORIES, COMBINING, FOLDS, UNACCENTED_ALL, UNACCENTED_SIMPLE};

/// Two letters of each general category, in the order of the numbers in [`CATEGORIES`]. Number 0
/// is of code points that SQLite takes into tokens whatever the option says.
pub(crate) const CATEGORY_NAMES: [&str; 31] = [
    "", "Cc", "Cf", "Cn", "Cs", "Ll", "Lm", "Lo", "Lt", "Lu", "Mc", "Me", "Mn", "Nd", "Nl", "No",
    "Pc", "Pd", "Pe", "Pf", "Pi", "Po", "Ps", "Sc", "Sk", "Sm", "So", "Zl", "Zp", "Zs", "Co",
];

/// Removal of diacritics from folded letters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Diacritics {
    /// Letters stay.
    Kept,
    /// Letters with one mark lose it.
    Simple,
    /// Letters with several marks lose them too.
    All,
}

/// Number of a code point's general category.
pub(crate) fn category(code: u32) -> usize {
    let at = CATEGORIES.partition_point(|entry| entry >> 5 <= code);
    at.checked_sub(1).map_or(0, |at| (CATEGORIES[at] & 31) as usize)
}

/// A mark that continues a token and begins none.
#[inline]
pub(crate) fn is_combining(code: u32) -> bool {
    (768..=817).contains(&code) && COMBINING >> (code - 768) & 1 == 1
}

/// The letter that a code point is indexed as; 0 for nothing.
#[inline]
pub(crate) fn fold(code: u32, diacritics: Diacritics) -> u32 {
    if code < 0x80 {
        return u32::from((code as u8).to_ascii_lowercase());
    }
    if code < 0x1_0000 {
        return u32::from(basic(diacritics)[code as usize]);
    }
    folded(code)
}

/// Folded letters of the basic plane.
fn basic(diacritics: Diacritics) -> &'static [u16] {
    static PLANES: [OnceLock<Box<[u16]>>; 3] = [const { OnceLock::new() }; 3];
    let unaccented: &[u32] = match diacritics {
        Diacritics::Kept => &[],
        Diacritics::Simple => UNACCENTED_SIMPLE,
        Diacritics::All => UNACCENTED_ALL,
    };
    PLANES[diacritics as usize].get_or_init(|| {
        let letter = |code: u32| {
            if diacritics != Diacritics::Kept && is_combining(code) {
                return 0;
            }
            let folded = folded(code);
            let at = unaccented.binary_search_by_key(&folded, |entry| entry >> 8);
            let letter = at.map_or(folded, |at| unaccented[at] & 0xff);
            u16::try_from(letter).expect("a letter of the basic plane folds within it")
        };
        (0..0x1_0000).map(letter).collect()
    })
}

fn folded(code: u32) -> u32 {
    let at = FOLDS.partition_point(|&(first, ..)| first <= code);
    let Some(&(first, last, step, delta)) = at.checked_sub(1).map(|at| &FOLDS[at]) else {
        return code;
    };
    if code <= last && (code - first).is_multiple_of(step) {
        code.wrapping_add_signed(delta)
    } else {
        code
    }
}
