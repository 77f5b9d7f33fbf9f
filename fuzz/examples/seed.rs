//! Fills `corpus/<target>/` with what the targets start from: the workspace's `testdata/`, cut
//! into the pieces each target takes.
//!
//! Run in `fuzz/`. Files that are there already are written again; nothing is removed.

use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use flate2::read::DeflateDecoder;
use shoal_fuzz::chunk;

fn main() -> io::Result<()> {
    let databases = [files("sqlite")?, files("sharc")?, files("corrupt")?].concat();
    for path in &databases {
        let bytes = fs::read(path)?;
        if bytes.starts_with(b"SQLite format 3\0") {
            database(&name(path), &bytes)?;
        }
    }
    for path in
        [files("automerge")?, files("automerge/fixtures")?, files("automerge/crashers")?].concat()
    {
        chunks(&name(&path), &fs::read(&path)?)?;
    }
    Ok(())
}

/// The bodies of the chunks of one Automerge file, changes inflated.
fn chunks(name: &str, mut bytes: &[u8]) -> io::Result<()> {
    let mut number = 0;
    while let Some((kind, body, rest)) = chunk::open(bytes) {
        let mut inflated = Vec::new();
        let body = if kind == chunk::COMPRESSED_CHANGE {
            // A crasher's stream may be broken; what comes before that is a seed too.
            let _ = DeflateDecoder::new(body).read_to_end(&mut inflated);
            &inflated
        } else {
            body
        };
        if kind != chunk::DOCUMENT {
            write("history_change", &format!("{name}-{number}"), body)?;
        }
        number += 1;
        bytes = rest;
    }
    Ok(())
}

/// Pieces of one database file for the targets of `shoal-format`.
fn database(name: &str, bytes: &[u8]) -> io::Result<()> {
    write("format_file_header", name, bytes.get(..100).unwrap_or(bytes))?;
    let page_size = match bytes.get(16..18) {
        Some([0, 1]) => 65536,
        Some([high, low]) => usize::from(u16::from_be_bytes([*high, *low])),
        _ => return Ok(()),
    };
    if !page_size.is_power_of_two() || page_size < 512 {
        return Ok(());
    }
    let reserved = bytes.get(20).copied().unwrap_or(0).min(63);
    for (number, page) in bytes.chunks_exact(page_size).enumerate() {
        // Enough of every kind without a corpus of thousands.
        if number >= 24 {
            break;
        }
        let flags = reserved << 2 | u8::from(number == 0);
        let name = format!("{name}-{number}");
        write("format_page", &name, &[&[flags, number as u8], page].concat())?;
        write("format_freelist", &name, &[&[reserved], page].concat())?;
        if let Some(record) = first_record(page) {
            write("format_record", &name, record)?;
        }
    }
    Ok(())
}

/// The payload of the last cell of a table leaf, found as simply as will do for a seed.
fn first_record(page: &[u8]) -> Option<&[u8]> {
    if page.first() != Some(&13) {
        return None;
    }
    let at = usize::from(u16::from_be_bytes([*page.get(5)?, *page.get(6)?]));
    let cell = page.get(at..)?;
    let (length, first) = shoal_format::varint::read(cell)?;
    let (_, second) = shoal_format::varint::read(cell.get(first..)?)?;
    cell.get(first + second..)?.get(..usize::try_from(length).ok()?)
}

fn files(folder: &str) -> io::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(Path::new("../testdata").join(folder))? {
        let path = entry?.path();
        if path.is_file() {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

fn name(path: &Path) -> String {
    path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
}

fn write(target: &str, name: &str, bytes: &[u8]) -> io::Result<()> {
    let folder = Path::new("corpus").join(target);
    fs::create_dir_all(&folder)?;
    fs::write(folder.join(name), bytes)
}
