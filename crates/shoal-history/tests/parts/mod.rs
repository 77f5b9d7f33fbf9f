//! Chunks taken apart and put together again, with a valid checksum but otherwise as wrong as a
//! test wants them. Independent of the code under test.
#![allow(missing_docs, unreachable_pub)]

use sha2::{Digest, Sha256};

pub fn write_uleb(mut value: u64, out: &mut Vec<u8>) {
    while value >= 0x80 {
        out.push((value & 0x7f) as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

fn read_uleb(bytes: &mut &[u8]) -> u64 {
    let mut value = 0;
    for shift in (0..).step_by(7) {
        let (&byte, rest) = bytes.split_first().unwrap();
        *bytes = rest;
        value |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return value;
        }
    }
    unreachable!()
}

fn take<'a>(bytes: &mut &'a [u8], len: u64) -> &'a [u8] {
    let (taken, rest) = bytes.split_at(len as usize);
    *bytes = rest;
    taken
}

/// A chunk with the right checksum.
pub fn seal(chunk_type: u8, body: &[u8]) -> Vec<u8> {
    let mut hashed = vec![chunk_type];
    write_uleb(body.len() as u64, &mut hashed);
    hashed.extend(body);
    let mut out = vec![0x85, 0x6f, 0x4a, 0x83];
    out.extend(&Sha256::digest(&hashed)[..4]);
    out.extend(hashed);
    out
}

/// The body of a chunk.
pub fn body(chunk: &[u8]) -> &[u8] {
    let mut rest = &chunk[9..];
    let len = read_uleb(&mut rest);
    assert_eq!(len, rest.len() as u64);
    rest
}

pub type Columns = Vec<(u64, Vec<u8>)>;

fn read_specs(bytes: &mut &[u8]) -> Vec<(u64, u64)> {
    (0..read_uleb(bytes)).map(|_| (read_uleb(bytes), read_uleb(bytes))).collect()
}

fn read_data(specs: Vec<(u64, u64)>, bytes: &mut &[u8]) -> Columns {
    specs.into_iter().map(|(spec, len)| (spec, take(bytes, len).to_vec())).collect()
}

fn write_specs(columns: &Columns, out: &mut Vec<u8>) {
    write_uleb(columns.len() as u64, out);
    for (spec, data) in columns {
        write_uleb(*spec, out);
        write_uleb(data.len() as u64, out);
    }
}

/// A change taken apart.
#[derive(Clone)]
pub struct ChangeParts {
    pub deps: Vec<[u8; 32]>,
    pub actor: Vec<u8>,
    pub seq: u64,
    pub start_op: u64,
    pub time: Vec<u8>,
    pub message: Vec<u8>,
    pub others: Vec<Vec<u8>>,
    pub columns: Columns,
    pub extra: Vec<u8>,
}

impl ChangeParts {
    pub fn read(chunk: &[u8]) -> Self {
        let mut rest = body(chunk);
        let bytes = &mut rest;
        let dep_count = read_uleb(bytes);
        let deps = (0..dep_count).map(|_| take(bytes, 32).try_into().unwrap()).collect();
        let prefixed = |bytes: &mut &[u8]| {
            let len = read_uleb(bytes);
            take(bytes, len).to_vec()
        };
        let actor = prefixed(bytes);
        let (seq, start_op) = (read_uleb(bytes), read_uleb(bytes));
        let time = take(bytes, 1).to_vec();
        let message = prefixed(bytes);
        let others = (0..read_uleb(bytes)).map(|_| prefixed(bytes)).collect();
        let specs = read_specs(bytes);
        let columns = read_data(specs, bytes);
        let extra = rest.to_vec();
        Self { deps, actor, seq, start_op, time, message, others, columns, extra }
    }

    pub fn body(&self) -> Vec<u8> {
        let mut out = Vec::new();
        write_uleb(self.deps.len() as u64, &mut out);
        self.deps.iter().for_each(|dep| out.extend(dep));
        let prefixed = |bytes: &[u8], out: &mut Vec<u8>| {
            write_uleb(bytes.len() as u64, out);
            out.extend(bytes);
        };
        prefixed(&self.actor, &mut out);
        write_uleb(self.seq, &mut out);
        write_uleb(self.start_op, &mut out);
        out.extend(&self.time);
        prefixed(&self.message, &mut out);
        write_uleb(self.others.len() as u64, &mut out);
        self.others.iter().for_each(|other| prefixed(other, &mut out));
        write_specs(&self.columns, &mut out);
        self.columns.iter().for_each(|(_, data)| out.extend(data));
        out.extend(&self.extra);
        out
    }
}

/// A document taken apart.
#[derive(Clone)]
pub struct DocumentParts {
    pub actors: Vec<Vec<u8>>,
    pub heads: Vec<[u8; 32]>,
    pub changes: Columns,
    pub ops: Columns,
    pub head_rows: Vec<u8>,
}

impl DocumentParts {
    pub fn read(chunk: &[u8]) -> Self {
        let mut rest = body(chunk);
        let bytes = &mut rest;
        let actor_count = read_uleb(bytes);
        let actors = (0..actor_count).map(|_| {
            let len = read_uleb(bytes);
            take(bytes, len).to_vec()
        });
        let actors = actors.collect();
        let head_count = read_uleb(bytes);
        let heads = (0..head_count).map(|_| take(bytes, 32).try_into().unwrap()).collect();
        let (change_specs, op_specs) = (read_specs(bytes), read_specs(bytes));
        let changes = read_data(change_specs, bytes);
        let ops = read_data(op_specs, bytes);
        Self { actors, heads, changes, ops, head_rows: rest.to_vec() }
    }

    pub fn seal(&self) -> Vec<u8> {
        let mut out = Vec::new();
        write_uleb(self.actors.len() as u64, &mut out);
        for actor in &self.actors {
            write_uleb(actor.len() as u64, &mut out);
            out.extend(actor);
        }
        write_uleb(self.heads.len() as u64, &mut out);
        self.heads.iter().for_each(|head| out.extend(head));
        write_specs(&self.changes, &mut out);
        write_specs(&self.ops, &mut out);
        for (_, data) in self.changes.iter().chain(&self.ops) {
            out.extend(data);
        }
        out.extend(&self.head_rows);
        seal(0, &out)
    }
}

/// Sets, adds or (with `None`) removes a column, keeping the order.
pub fn put(columns: &mut Columns, spec: u64, data: Option<&[u8]>) {
    columns.retain(|(known, _)| *known != spec);
    if let Some(data) = data {
        let at = columns.partition_point(|(known, _)| *known < spec);
        columns.insert(at, (spec, data.to_vec()));
    }
}
