//! Fills `corpus/<target>/` with seeds for the targets: the workspace's `testdata/`, cut into the
//! pieces each target takes.
//!
//! Run in `fuzz/`. Existing files are written again; nothing is removed.

use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use flate2::read::DeflateDecoder;
use shoal_crdt::{ActorId, Document, SaveOptions, SyncState};
use shoal_format::{Pgno, journal};
use shoal_fuzz::script::Script;
use shoal_fuzz::{changes, changeset, chunk};

/// Largest file taken whole as a seed, in bytes.
const SMALL: usize = 32 << 10;

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
    for (number, line) in fs::read_to_string("seeds/sql.txt")?.lines().enumerate() {
        for target in ["sql_prepare", "sql_execute", "sql_differential", "sql_writes_differential"]
        {
            write(target, &format!("line-{number}"), line.as_bytes())?;
        }
    }
    for (number, line) in fs::read_to_string("seeds/sql_writes.txt")?.lines().enumerate() {
        for target in ["sql_execute", "sql_writes_differential"] {
            write(target, &format!("writes-{number}"), line.as_bytes())?;
        }
    }
    changesets()?;
    for target in ["shoal_projection", "shoal_strangers"] {
        let seeds = fs::read_to_string(format!("seeds/{target}.txt"))?;
        for (number, line) in seeds.lines().enumerate() {
            write(target, &format!("line-{number}"), line.as_bytes())?;
        }
    }
    let messages = fs::read_to_string("../crates/shoal-mcp/tests/it/messages.txt")?;
    let messages: Vec<&str> = messages.lines().collect();
    for (number, lines) in messages.chunks(4).enumerate() {
        let mode = (number % 4) as u8;
        let bytes = [&[mode], lines.join("\n").as_bytes()].concat();
        write("mcp_messages", &format!("lines-{number}"), &bytes)?;
    }
    write("vault_header", "whole", &shoal_fuzz::sealed::seed())?;
    full_text()?;
    documents()
}

/// Changes of the tables of `diff_changeset`, recorded as changesets and as patchsets.
fn changesets() -> io::Result<()> {
    for (number, script) in changeset::SCRIPTS.into_iter().enumerate() {
        for (form, changes) in changeset::recorded(script).into_iter().enumerate() {
            write("diff_changeset", &format!("recorded-{number}-{form}"), &changes)?;
        }
    }
    Ok(())
}

/// Tables of FTS3 with two segments of some terms, and queries.
fn full_text() -> io::Result<()> {
    let leaf = b"\0\x05brown\x04\x01\x04\0\0\0\x03fox\x06\x01\x05\x01\x01\x02\0";
    let other = b"\0\x03one\x06\x01\x02\0\x01\x02\0\x01\x02ut\x03\x02\x03\0";
    let above = b"\x01\x01\x02on";
    let queries =
        ["brown", "fox NEAR/2 brown", "o* NOT fox", "\"brown fox\" OR one", "a:^one b:fox"];
    for (number, query) in queries.into_iter().enumerate() {
        let mut bytes = vec![number as u8];
        let parts: [&[u8]; 7] =
            [query.as_bytes(), leaf, above, b"\x02\x06\x02", b"\x04\x02", leaf, other];
        for part in parts {
            bytes.extend((part.len() as u16).to_le_bytes());
            bytes.extend(part);
        }
        write("text_fts3", &format!("table-{number}"), &bytes)?;
    }
    Ok(())
}

/// Documents made of random changes, and the bytes sent for some of them.
fn documents() -> io::Result<()> {
    let mut state = 1_u64;
    for number in 0..400 {
        let script: Vec<u8> = (0..10 + number)
            .map(|_| {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                (state >> 56) as u8
            })
            .collect();
        let mut doc = Document::new(ActorId::new(&[1]));
        for change in changes::changes(&mut Script(&script)).changes {
            // Changes contradicting the document are left out.
            let _ = doc.apply_changes([change]);
        }
        let options = SaveOptions { deflate: false, retain_orphans: false };
        chunks(&format!("random-{number}"), &doc.to_bytes(options))?;
        write("crdt_apply", &format!("random-{number}"), &script)?;
        if number % 4 == 0 {
            sent(&format!("random-{number}"), &doc)?;
        }
    }
    Ok(())
}

/// Bytes sent for a document: as a bundle, as messages to a peer without any changes, and as
/// messages to a peer with the first half of them.
fn sent(name: &str, doc: &Document) -> io::Result<()> {
    let hashes: Vec<_> = doc.changes().map(|change| change.hash()).collect();
    for (part, hashes) in [&hashes[..], &hashes[hashes.len() / 2..]].into_iter().enumerate() {
        if let Ok(bundle) = doc.bundle(hashes) {
            chunks(&format!("{name}-bundle-{part}"), &bundle)?;
            write("crdt_rescue", &format!("{name}-bundle-{part}"), &bundle)?;
        }
    }
    write("crdt_rescue", name, &doc.to_bytes(SaveOptions::default()))?;
    let mut peer = Document::new(ActorId::new(&[9]));
    let half = doc.changes().take(hashes.len() / 2).cloned();
    let _ = peer.apply_changes(half);
    for (at, mut peer) in [Document::new(ActorId::new(&[9])), peer].into_iter().enumerate() {
        let (mut ours, mut theirs) = (SyncState::new(), SyncState::new());
        for round in 0..4 {
            if let Some(message) = doc.generate_sync_message(&mut ours) {
                write("crdt_sync", &format!("{name}-{at}-{round}-ours"), &message.encode())?;
                let _ = peer.receive_sync_message(&mut theirs, message);
            }
            let Some(message) = peer.generate_sync_message(&mut theirs) else { break };
            write("crdt_sync", &format!("{name}-{at}-{round}-theirs"), &message.encode())?;
            let _ = doc.clone().receive_sync_message(&mut ours, message);
        }
    }
    Ok(())
}

/// The bodies of the chunks of one Automerge file, changes inflated.
fn chunks(name: &str, mut bytes: &[u8]) -> io::Result<()> {
    let mut number = 0;
    while let Some((kind, body, rest)) = chunk::open(bytes) {
        let mut inflated = Vec::new();
        let body = if kind == chunk::COMPRESSED_CHANGE {
            // A crasher's stream may be broken; the bytes inflated up to the break are a seed too.
            let _ = DeflateDecoder::new(body).read_to_end(&mut inflated);
            &inflated
        } else {
            body
        };
        let name = format!("{name}-{number}");
        write("history_chunk", &name, &chunk::sealed(kind, body))?;
        write("history_chunk_checksummed", &name, &[&[kind], body].concat())?;
        write("crdt_load", &name, &[&[kind], body].concat())?;
        if kind != chunk::DOCUMENT {
            write("history_change", &name, body)?;
        }
        number += 1;
        bytes = rest;
    }
    Ok(())
}

/// Pieces of one database file for the targets of `shoal-format`.
fn database(name: &str, bytes: &[u8]) -> io::Result<()> {
    write("format_file_header", name, bytes.get(..100).unwrap_or(bytes))?;
    if bytes.len() <= SMALL {
        write("store_walk", name, bytes)?;
        write("sql_query", name, bytes)?;
        let edits: Vec<u8> = (0..=u8::MAX).map(|byte| byte.wrapping_mul(167)).collect();
        write("store_edit", name, &[&[160], &edits[..160], bytes].concat())?;
        if let Some(crashed) = crashed(bytes) {
            write("store_recovery", name, &crashed)?;
        }
    }
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

/// The database with a hot journal: a copy of the second page, and a size of one page less.
fn crashed(bytes: &[u8]) -> Option<Vec<u8>> {
    let page_size = usize::from(u16::from_be_bytes([*bytes.get(16)?, *bytes.get(17)?]));
    let second = bytes.get(page_size..2 * page_size)?;
    let page_count = u32::try_from(bytes.len().checked_div(page_size)?).ok()? - 1;
    let mut journal = journal::MAGIC.to_vec();
    for number in [1, 7, page_count, 512, u32::try_from(page_size).ok()?] {
        journal.extend_from_slice(&number.to_be_bytes());
    }
    journal.resize(512, 0);
    journal::push_record(Pgno::new(2)?, second, 7, &mut journal);
    let length = u16::try_from(journal.len()).ok()?;
    Some([&length.to_be_bytes(), bytes, &journal].concat())
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

/// Does nothing in the place of libFuzzer, so that a build with coverage links: `run` builds the
/// seeds and the target with the same flags, and so all crates once.
macro_rules! without_coverage {
    ($($name:ident)*) => {
        $(
            // SAFETY: the names are those of the fuzzer's runtime, and no fuzzer is linked here.
            #[allow(unsafe_code)]
            #[unsafe(no_mangle)]
            extern "C" fn $name() {}
        )*
    };
}

without_coverage! {
    __sanitizer_cov_8bit_counters_init __sanitizer_cov_trace_pc_indir
    __sanitizer_cov_trace_cmp1 __sanitizer_cov_trace_cmp2
    __sanitizer_cov_trace_cmp4 __sanitizer_cov_trace_cmp8
    __sanitizer_cov_trace_const_cmp1 __sanitizer_cov_trace_const_cmp2
    __sanitizer_cov_trace_const_cmp4 __sanitizer_cov_trace_const_cmp8
    __sanitizer_cov_trace_switch
}
