//! Bytes of `%_data` that no index wrote: an error or an answer, never a panic, a loop or a heap.
//!
//! `SHOAL_FTS_CASES=N` runs N mutations of each kind of table.

use std::cell::RefCell;
use std::collections::BTreeMap;

use crate::support::{Dice, arguments};
use shoal_text::{
    Definition, Error, Highlight, Query, Result, Search, Setting, Storage, Vocabulary, Writer,
};

/// Sizes of a document's columns, and its origin.
type Sizes = (Vec<u8>, Option<i64>);

/// Shadow tables in memory.
#[derive(Clone, Default)]
struct Memory {
    blocks: RefCell<BTreeMap<i64, Vec<u8>>>,
    leaves: RefCell<BTreeMap<(u32, Vec<u8>), i64>>,
    sizes: RefCell<BTreeMap<i64, Sizes>>,
    settings: RefCell<BTreeMap<String, Setting>>,
    texts: BTreeMap<i64, Vec<String>>,
}

impl Storage for Memory {
    fn block(&self, id: i64, into: &mut Vec<u8>) -> Result<bool> {
        into.clear();
        let blocks = self.blocks.borrow();
        into.extend(blocks.get(&id).into_iter().flatten());
        Ok(blocks.contains_key(&id))
    }

    fn put_block(&self, id: i64, bytes: &[u8]) -> Result<()> {
        self.blocks.borrow_mut().insert(id, bytes.to_vec());
        Ok(())
    }

    fn remove_blocks(&self, first: i64, last: i64) -> Result<()> {
        self.blocks.borrow_mut().retain(|&id, _| id < first || id > last);
        Ok(())
    }

    fn seek_leaf(&self, segment: u32, term: &[u8]) -> Result<Option<i64>> {
        let leaves = self.leaves.borrow();
        let range = (segment, Vec::new())..=(segment, term.to_vec());
        Ok(leaves.range(range).next_back().map(|(_, &leaf)| leaf))
    }

    fn leaves(&self, segment: u32) -> Result<Vec<(Vec<u8>, i64)>> {
        let leaves = self.leaves.borrow();
        let own = leaves.iter().filter(|((id, _), _)| *id == segment);
        Ok(own.map(|((_, term), &leaf)| (term.clone(), leaf)).collect())
    }

    fn put_leaf(&self, segment: u32, term: &[u8], leaf: i64) -> Result<()> {
        self.leaves.borrow_mut().insert((segment, term.to_vec()), leaf);
        Ok(())
    }

    fn remove_leaves(&self, segment: u32) -> Result<()> {
        self.leaves.borrow_mut().retain(|(id, _), _| *id != segment);
        Ok(())
    }

    fn sizes(&self, rowid: i64, into: &mut Vec<u8>) -> Result<bool> {
        into.clear();
        let sizes = self.sizes.borrow();
        into.extend(sizes.get(&rowid).into_iter().flat_map(|(sizes, _)| sizes));
        Ok(sizes.contains_key(&rowid))
    }

    fn origin(&self, rowid: i64) -> Result<Option<i64>> {
        Ok(self.sizes.borrow().get(&rowid).and_then(|(_, origin)| *origin))
    }

    fn put_sizes(&self, rowid: i64, sizes: &[u8], origin: Option<i64>) -> Result<()> {
        self.sizes.borrow_mut().insert(rowid, (sizes.to_vec(), origin));
        Ok(())
    }

    fn remove_sizes(&self, rowid: i64) -> Result<()> {
        self.sizes.borrow_mut().remove(&rowid);
        Ok(())
    }

    fn clear(&self) -> Result<()> {
        self.blocks.borrow_mut().clear();
        self.leaves.borrow_mut().clear();
        self.sizes.borrow_mut().clear();
        Ok(())
    }

    fn sizes_count(&self) -> Result<u64> {
        Ok(self.sizes.borrow().len() as u64)
    }

    fn settings(&self) -> Result<Vec<(String, Setting)>> {
        Ok(self.settings.borrow().iter().map(|(k, v)| (k.clone(), v.clone())).collect())
    }

    fn put_setting(&self, name: &str, value: &Setting) -> Result<()> {
        self.settings.borrow_mut().insert(name.to_owned(), value.clone());
        Ok(())
    }

    fn text(&self, rowid: i64, column: usize, into: &mut Vec<u8>) -> Result<bool> {
        into.clear();
        let text = self.texts.get(&rowid).and_then(|texts| texts.get(column));
        into.extend(text.into_iter().flat_map(|text| text.bytes()));
        Ok(self.texts.contains_key(&rowid))
    }

    fn document_after(&self, rowid: Option<i64>) -> Result<Option<i64>> {
        let from = rowid.map_or(i64::MIN, |rowid| rowid + 1);
        Ok(self.texts.range(from..).next().map(|(&rowid, _)| rowid))
    }
}

/// An index of several levels, with deletions, long doclists and their indexes.
fn index(definition: &Definition, dice: &mut Dice) -> Memory {
    let mut memory = Memory::default();
    Writer::create(&memory, definition).unwrap();
    let mut writer = Writer::open(&memory, definition).unwrap();
    for (name, value) in [("pgsz", 48), ("automerge", 3), ("crisismerge", 6)] {
        let value = Setting::Integer(value);
        writer.command(&memory, definition, name, Some(&value)).unwrap();
    }
    for batch in 0..8 {
        for at in 0..20 {
            let rowid = batch * 100 + at;
            let length = *dice.of(&[3, 3, 10, 80]);
            let texts = vec![dice.text(length), dice.text(3)];
            let slices: Vec<_> = texts.iter().map(|text| Some(text.as_bytes())).collect();
            writer.insert(&memory, definition, rowid, &slices).unwrap();
            memory.texts.insert(rowid, texts);
        }
        writer.flush(&memory).unwrap();
        let known: Vec<i64> = memory.texts.keys().copied().collect();
        let rowid = *dice.of(&known);
        let texts = memory.texts.remove(&rowid).unwrap();
        if definition.deletes_contentless {
            writer.delete_contentless(&memory, definition, rowid).unwrap();
        } else {
            let slices: Vec<_> = texts.iter().map(|text| Some(text.as_bytes())).collect();
            writer.delete(&memory, definition, rowid, &slices).unwrap();
        }
        writer.flush(&memory).unwrap();
    }
    memory
}

/// Changes some bytes of a block, or takes it away.
fn mutate(memory: &Memory, dice: &mut Dice) {
    for _ in 0..1 + dice.below(3) {
        if dice.below(12) == 0 {
            let mut leaves = memory.leaves.borrow_mut();
            let keys: Vec<_> = leaves.keys().cloned().collect();
            let leaf = *dice.of(&[0, 1, 2, 3, 100, -1, i64::MAX, 1 << 33]);
            leaves.insert(dice.of(&keys).clone(), leaf);
            continue;
        }
        let mut blocks = memory.blocks.borrow_mut();
        let ids: Vec<i64> = blocks.keys().copied().collect();
        let id = *dice.of(&ids);
        if dice.below(20) == 0 {
            blocks.remove(&id);
            continue;
        }
        let block = blocks.get_mut(&id).unwrap();
        if block.is_empty() {
            continue;
        }
        let at = dice.below(block.len());
        match dice.below(6) {
            0 => block[at] = dice.below(256) as u8,
            1 => block[at] ^= 1 << dice.below(8),
            2 => block[at] = *dice.of(&[0, 1, 2, 0x7f, 0x80, 0xff]),
            3 => block.truncate(at),
            4 => {
                let bytes = [0xff; 9];
                let end = (at + 9).min(block.len());
                block[at..end].copy_from_slice(&bytes[..end - at]);
            }
            _ => {
                block.insert(at, dice.below(256) as u8);
            }
        }
    }
}

#[derive(Debug, Default)]
struct Counts {
    cases: usize,
    corrupt: usize,
    whole: usize,
}

/// Everything that reads an index, and what writes to it.
fn use_all(memory: &Memory, definition: &Definition, dice: &mut Dice, counts: &mut Counts) {
    counts.cases += 1;
    let mut note = |result: Result<()>| match result {
        Ok(()) => counts.whole += 1,
        Err(Error::Corrupt { .. } | Error::Limit(_)) => counts.corrupt += 1,
        Err(other) => panic!("a fault of bytes was told as {other:?}"),
    };
    for _ in 0..4 {
        let text = dice.query(2);
        let Ok(query) = Query::parse(definition, &text, None) else { continue };
        note(search(memory, definition, &query));
    }
    let rows = Vocabulary::Instance.rows(memory, definition, None, None);
    note(rows.map(drop));
    let text = "the quick brown fox";
    let value = Setting::Integer(1);
    for command in ["integrity-check", "merge", "optimize"] {
        let changed = Writer::open(memory, definition).and_then(|mut writer| {
            let rowid = 5000 + dice.below(100) as i64;
            if command != "integrity-check" {
                writer.insert(memory, definition, rowid, &[Some(text.as_bytes()), None])?;
            }
            writer.command(memory, definition, command, Some(&value))
        });
        note(changed);
    }
}

fn search(memory: &Memory, definition: &Definition, query: &Query) -> Result<()> {
    let mut search = Search::open(memory, definition, query)?;
    let mut count = 0;
    while search.next(memory)?.is_some() {
        search.bm25(memory, definition, &[])?;
        let arguments = Highlight { column: 0, open: b"<", close: b">" };
        search.highlight(memory, definition, &arguments)?;
        count += 1;
        assert!(count < 100_000, "a search has no end");
    }
    Search::open(memory, definition, query)?.best(memory, definition, &[], Some(3)).map(drop)
}

#[test]
fn mutated_blocks_are_faults_or_answers() {
    let cases = std::env::var("SHOAL_FTS_CASES").ok().and_then(|text| text.parse().ok());
    let cases = cases.unwrap_or(150);
    let mut counts = Counts::default();
    for options in [
        "a, b",
        "a, b, prefix=2",
        "a, b, detail=none",
        "a, b, detail=column",
        "a, b, content='', contentless_delete=1",
    ] {
        let definition = Definition::parse("t", &arguments(options)).unwrap();
        let mut dice = Dice::new(options.len() as u64);
        let whole = index(&definition, &mut dice);
        let mut writer = Writer::open(&whole, &definition).unwrap();
        writer.command(&whole, &definition, "integrity-check", None).expect(options);
        for _ in 0..cases {
            let memory = whole.clone();
            mutate(&memory, &mut dice);
            use_all(&memory, &definition, &mut dice, &mut counts);
        }
    }
    println!("{counts:?}");
    assert!(counts.corrupt > counts.cases / 10 && counts.whole > counts.cases / 10, "{counts:?}");
}
