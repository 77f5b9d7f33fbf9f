//! Every magic, offset and limit of the format in one checked-in text, so that a change of what is
//! on disk is a visible change there.

#![allow(clippy::unwrap_used)]

use std::fmt::Write;

use shoal_format::file_header::HeaderBytes;
use shoal_format::freelist::Trunk;
use shoal_format::journal::{self, JournalHeader};
use shoal_format::overflow::{MAX_PAYLOAD, OverflowPage, local_len};
use shoal_format::page::PageHeader;
use shoal_format::{FileHeader, PageKind, Pgno, cell, varint};

fn constants() -> String {
    let mut out = String::new();
    let structures = [
        ("file header", HeaderBytes::SIZE, HeaderBytes::FIELDS),
        ("page header", PageHeader::SIZE, PageHeader::FIELDS),
        ("journal header", JournalHeader::SIZE, JournalHeader::FIELDS),
    ];
    for (name, size, fields) in structures {
        writeln!(out, "{name}: {size} bytes").unwrap();
        for (field, offset, length) in fields {
            writeln!(out, "  {offset:>3} +{length:<2} {field}").unwrap();
        }
    }
    let kinds = [
        PageKind::IndexInterior,
        PageKind::TableInterior,
        PageKind::IndexLeaf,
        PageKind::TableLeaf,
    ];
    for kind in kinds {
        let limits = [512, 4096, 65536].map(|usable| {
            let most = (0..usable).rfind(|&len| local_len(kind, usable, len) == len).unwrap();
            (most, local_len(kind, usable, most + 1))
        });
        let (byte, header) = (kind.byte(), kind.header_size());
        writeln!(out, "{kind:?}: {byte}, header {header}, local payload {limits:?}").unwrap();
    }
    writeln!(out, "file magic: {:02x?}", FileHeader::MAGIC).unwrap();
    writeln!(out, "writer version: {}", FileHeader::WRITER_VERSION).unwrap();
    writeln!(out, "least usable bytes: {}", FileHeader::MIN_USABLE).unwrap();
    writeln!(out, "lock byte: {:#x}, last page: {:#x}", Pgno::LOCK_BYTE, Pgno::MAX).unwrap();
    writeln!(out, "payload: {MAX_PAYLOAD:#x}, overflow header: {}", OverflowPage::HEADER).unwrap();
    writeln!(out, "least cell: {}, longest varint: {}", cell::MIN_SIZE, varint::MAX_LEN).unwrap();
    writeln!(out, "leaves written on a trunk of 4096: {}", Trunk::max_written(4096)).unwrap();
    writeln!(out, "journal magic: {:02x?}", journal::MAGIC).unwrap();
    writeln!(out, "journal record: page + {}", journal::RECORD_OVERHEAD).unwrap();
    writeln!(out, "journal count from size: {:#x}", journal::COUNT_FROM_SIZE).unwrap();
    out
}

#[test]
fn the_format_is_what_it_was() {
    let expect = include_str!("constants.txt");
    let got = constants();
    assert_eq!(got, expect, "the format changed; if it was meant to, this is the new text:\n{got}");
}
