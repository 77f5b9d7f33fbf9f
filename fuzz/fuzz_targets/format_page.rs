//! `shoal_format::page` and `page_edit`: every accessor of a forged page ends in a value or an
//! error, and edits stay inside the page.
//!
//! The first byte chooses page 1 or another and the number of reserved bytes, the second the edits;
//! the rest is the page.
#![no_main]

use libfuzzer_sys::fuzz_target;
use shoal_format::{Page, PageEdit, PageKind, Pgno};

fuzz_target!(|data: &[u8]| {
    let [flags, edits, bytes @ ..] = data else { return };
    let pgno = Pgno::new(if flags & 1 == 1 { 1 } else { 7 }).expect("not zero");
    let reserved = usize::from(flags >> 2);
    if bytes.len() < 480 + reserved || bytes.len() > 65536 {
        return;
    }
    let usable = bytes.len() - reserved;
    let Ok(page) = Page::new(bytes, pgno, usable) else { return };
    let checked = page.check();
    let free_bytes = page.free_bytes();
    for index in 0..=page.cell_count() {
        let cell = page.cell(index);
        let rowid = page.rowid(index);
        let child = page.child(index);
        assert!(index < page.cell_count() || cell.is_err());
        match page.kind() {
            PageKind::TableLeaf => {
                let leaf = page.table_leaf(index);
                let row = page.leaf_row(index);
                assert_eq!((leaf.is_ok(), row.is_ok()), (cell.is_ok(), cell.is_ok()));
                if let (Ok(leaf), Ok(row)) = (leaf, row) {
                    let payload = page.payload(index, row).expect("as the row");
                    assert_eq!((row.rowid, payload.local), (leaf.rowid, leaf.payload.local));
                    assert_eq!(payload.overflow, leaf.payload.overflow);
                    assert_eq!(rowid, Ok(leaf.rowid));
                    assert_eq!(cell.expect("as the row").len(), leaf.size);
                }
            }
            PageKind::TableInterior => {
                let interior = page.table_interior(index);
                assert_eq!(interior.is_ok(), cell.is_ok());
                if let Ok(interior) = interior {
                    assert_eq!((rowid, child), (Ok(interior.rowid), Ok(interior.left)));
                }
            }
            PageKind::IndexLeaf | PageKind::IndexInterior => {
                assert_eq!(page.index(index).is_ok(), cell.is_ok());
            }
        }
    }
    if checked.is_ok() {
        assert!(free_bytes.is_ok() && (0..page.cell_count()).all(|index| page.cell(index).is_ok()));
    }

    let mut copy = bytes.to_vec();
    let mut scratch = Vec::new();
    let mut edit = PageEdit::new(&mut copy, pgno, usable).expect("the page was viewed");
    let mut state = u32::from(*edits) + 1;
    for _ in 0..24 {
        state = state.wrapping_mul(1_103_515_245).wrapping_add(12345);
        let step = state >> 16;
        let count = edit.page().cell_count();
        let index = step as usize / 4 % (count + 1);
        let outcome = match step % 4 {
            0 | 1 => {
                // A cell valid on a page of any kind: short, with a small child and rowid.
                let cell = vec![1; 8 + step as usize / 16 % 40];
                edit.insert(index, &cell, &mut scratch).map(drop)
            }
            2 if index < count => edit.remove(index),
            _ => edit.set_child(index, pgno),
        };
        if outcome.is_err() {
            break;
        }
        let _ = edit.page().check();
    }
    assert_eq!(copy[usable..], bytes[usable..], "the reserved bytes are nobody's");
    if pgno == Pgno::FIRST {
        assert_eq!(copy[..100], bytes[..100], "the file header is not the page's");
    }
});
