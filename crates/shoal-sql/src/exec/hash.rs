//! Hash joins: one side's rows are kept by key, the other side's rows look theirs up.

use super::key::{KeyPlaces, push_converted_key};
use super::scan::ScanRun;
use super::{Kept, Machine, RowStore, row_size};
use crate::Error;
use crate::expr::{Code, eval, eval_condition};
use crate::plan::{HashKey, HashScan};
use crate::value::ValueRef;

/// Kept rows and where those of each key are.
#[derive(Debug, Default)]
pub(super) struct HashStore {
    rows: RowStore,
    /// The keys by number, and the first and the last row of each.
    keys: KeyPlaces,
    ends: Vec<(usize, usize)>,
    /// The next row of the same key; itself for the last.
    next: Vec<usize>,
    /// Which rows found a match, where that is noted.
    matched: Vec<bool>,
    /// The key that is looked for.
    key: Vec<u8>,
    /// What all of it takes.
    kept: Kept,
}

/// Where a probe stands.
#[derive(Debug, Default)]
pub(super) struct HashRun {
    /// The row to be given next.
    next: Option<usize>,
    /// The row given last.
    last: usize,
    /// Whether only rows without a match are given, whatever their keys.
    unmatched: bool,
}

impl HashRun {
    /// Gathers the rows unless they are there, and looks up the current key.
    pub(super) fn open(plan: &HashScan, machine: &mut Machine<'_, '_>) -> Result<HashRun, Error> {
        HashRun::gather(plan, machine)?;
        let store = machine.stores[plan.store].as_mut();
        let mut key = store.map_or_else(Vec::new, |store| std::mem::take(&mut store.key));
        let null = push_keys(plan, machine, |key| &key.probe, &mut key)?;
        let Some(store) = &mut machine.stores[plan.store] else { return Ok(HashRun::default()) };
        let next = if plan.keys.is_empty() {
            (store.rows.len() > 0).then_some(0)
        } else if null {
            None
        } else {
            store.keys.find(&key).map(|number| store.ends[number].0)
        };
        store.key = key;
        Ok(HashRun { next, ..HashRun::default() })
    }

    fn gather(plan: &HashScan, machine: &mut Machine<'_, '_>) -> Result<(), Error> {
        if (plan.rebuild && !plan.marks) || machine.stores[plan.store].is_none() {
            machine.stores[plan.store] = None;
            let mut store = build(plan, machine)?;
            if plan.marks {
                store.matched = vec![false; store.rows.len()];
            }
            machine.stores[plan.store] = Some(store);
        }
        Ok(())
    }

    /// Forgets which rows found a match, before the query runs anew.
    pub(super) fn reset(plan: &HashScan, machine: &mut Machine<'_, '_>) {
        match &mut machine.stores[plan.store] {
            Some(_) if plan.rebuild => machine.stores[plan.store] = None,
            Some(store) => store.matched.fill(false),
            None => {}
        }
    }

    /// Begins to give the rows that found no match.
    pub(super) fn open_unmatched(
        plan: &HashScan,
        machine: &mut Machine<'_, '_>,
    ) -> Result<HashRun, Error> {
        HashRun::gather(plan, machine)?;
        Ok(HashRun { next: Some(0), last: 0, unmatched: true })
    }

    /// Notes that the row given last found a match.
    pub(super) fn mark(&self, plan: &HashScan, machine: &mut Machine<'_, '_>) {
        if let Some(store) = &mut machine.stores[plan.store]
            && let Some(matched) = store.matched.get_mut(self.last)
        {
            *matched = true;
        }
    }

    /// Puts the next matching row into the registers; false when there is none.
    pub(super) fn next(&mut self, plan: &HashScan, machine: &mut Machine<'_, '_>) -> bool {
        let (Some(place), Some(store)) = (self.next, &machine.stores[plan.store]) else {
            return false;
        };
        if self.unmatched {
            let rest = store.matched.get(place..).unwrap_or_default();
            let Some(skip) = rest.iter().position(|matched| !matched) else {
                self.next = None;
                return false;
            };
            store.rows.load(place + skip, &mut machine.registers, plan.row.iter());
            self.next = Some(place + skip + 1);
            return true;
        }
        store.rows.load(place, &mut machine.registers, plan.row.iter());
        self.last = place;
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
        machine.tick()?;
        for condition in &plan.filter {
            if !eval_condition(machine, condition)? {
                continue 'rows;
            }
        }
        let null = push_keys(plan, machine, |key| &key.build, &mut key)?;
        if null && !plan.marks {
            continue;
        }
        let place = store.rows.len();
        let row = plan.row.iter().map(|&reg| machine.registers[reg].as_ref());
        store.kept.add(machine.session, row_size(row.clone()) + 2 * key.len())?;
        store.rows.push(row);
        if plan.keys.is_empty() {
            continue;
        }
        store.next.push(place);
        if null {
            continue;
        }
        match store.keys.find(&key) {
            Some(number) => {
                let (_, last) = &mut store.ends[number];
                store.next[*last] = place;
                *last = place;
            }
            None => {
                store.keys.insert(&key);
                store.ends.push((place, place));
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
