//! Hash joins: one side's rows are kept by key, the other side's rows look theirs up.

use rustc_hash::FxHashMap;

use super::key::push_converted_key;
use super::scan::ScanRun;
use super::{Machine, RowStore};
use crate::Error;
use crate::expr::{Code, eval, eval_condition};
use crate::plan::{HashKey, HashScan};
use crate::value::ValueRef;

/// Kept rows and where those of each key are.
#[derive(Debug, Default)]
pub(super) struct HashStore {
    rows: RowStore,
    /// The first and the last row of a key.
    by_key: FxHashMap<Box<[u8]>, (usize, usize)>,
    /// The next row of the same key; itself for the last.
    next: Vec<usize>,
}

/// Where a probe stands.
#[derive(Debug, Default)]
pub(super) struct HashRun {
    /// The row to be given next.
    next: Option<usize>,
}

impl HashRun {
    /// Gathers the rows unless they are there, and looks up the current key.
    pub(super) fn open(plan: &HashScan, machine: &mut Machine<'_, '_>) -> Result<HashRun, Error> {
        if plan.rebuild || machine.stores[plan.store].is_none() {
            let store = build(plan, machine)?;
            machine.stores[plan.store] = Some(store);
        }
        let mut key = Vec::new();
        let null = push_keys(plan, machine, |key| &key.probe, &mut key)?;
        let Some(store) = &machine.stores[plan.store] else { return Ok(HashRun::default()) };
        let next = if plan.keys.is_empty() {
            (store.rows.len() > 0).then_some(0)
        } else if null {
            None
        } else {
            store.by_key.get(key.as_slice()).map(|&(first, _)| first)
        };
        Ok(HashRun { next })
    }

    /// Puts the next matching row into the registers; false when there is none.
    pub(super) fn next(&mut self, plan: &HashScan, machine: &mut Machine<'_, '_>) -> bool {
        let (Some(place), Some(store)) = (self.next, &machine.stores[plan.store]) else {
            return false;
        };
        store.rows.load(place, &mut machine.registers, plan.row.iter());
        self.next = if plan.keys.is_empty() {
            Some(place + 1).filter(|&next| next < store.rows.len())
        } else {
            Some(store.next[place]).filter(|&next| next != place)
        };
        true
    }
}

fn build(plan: &HashScan, machine: &mut Machine<'_, '_>) -> Result<HashStore, Error> {
    let mut store = HashStore::default();
    let mut run = ScanRun::open(&plan.source, machine)?;
    let mut key = Vec::new();
    'rows: while run.next(&plan.source, machine)? {
        for condition in &plan.filter {
            if !eval_condition(machine, condition)? {
                continue 'rows;
            }
        }
        if push_keys(plan, machine, |key| &key.build, &mut key)? {
            continue;
        }
        let place = store.rows.len();
        store.rows.push(plan.row.iter().map(|&reg| machine.registers[reg].as_ref()));
        if plan.keys.is_empty() {
            continue;
        }
        store.next.push(place);
        match store.by_key.get_mut(key.as_slice()) {
            Some((_, last)) => {
                store.next[*last] = place;
                *last = place;
            }
            None => {
                store.by_key.insert(key.as_slice().into(), (place, place));
            }
        }
    }
    Ok(store)
}

/// Makes the key of one side; true when a part of it is NULL, which equals nothing.
fn push_keys(
    plan: &HashScan,
    machine: &mut Machine<'_, '_>,
    side: impl Fn(&HashKey) -> &Code,
    out: &mut Vec<u8>,
) -> Result<bool, Error> {
    out.clear();
    for key in &plan.keys {
        let code = side(key);
        eval(machine, code)?;
        let value = machine.registers[code.result].as_ref();
        if value == ValueRef::Null {
            return Ok(true);
        }
        push_converted_key(value, key.affinity, key.collation, out);
    }
    Ok(false)
}
