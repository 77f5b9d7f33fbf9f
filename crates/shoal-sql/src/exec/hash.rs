//! Hash joins: the rows of the build side are kept by key, and rows of the probe side look theirs
//! up. Without room under a limit of memory, the build side is kept in a file, sorted by key.

use super::Machine;
use super::eval;
use super::scan::ScanRun;
use crate::Error;
use crate::exec::eval_condition;
use crate::keep::key::{KeyPlaces, push_converted_key, push_near_key};
use crate::keep::sort::{Sorter, Values};
use crate::keep::sorted::{SortedPlace, SortedRows, load_values};
use crate::keep::{Kept, RowStore, SortKey, SortPlan, row_size};
use crate::plan::{Code, HashKey, HashScan};
use crate::value::{Collation, ValueRef};

/// The build side: kept rows, and the rows of each key.
#[derive(Debug, Default)]
pub(super) struct HashStore {
    rows: RowStore,
    /// Spilled rows: each has its number in front of its kept values.
    sorted: Option<SortedRows>,
    /// Number of rows.
    count: usize,
    /// The keys by number, and the first and the last row of each.
    keys: KeyPlaces,
    ends: Vec<(usize, usize)>,
    /// The next row of the same key; itself for the last.
    next: Vec<usize>,
    /// The matched rows, where matches are noted.
    matched: Vec<bool>,
    /// The key of the current lookup.
    key: Vec<u8>,
    /// Bytes of all structures.
    kept: Kept,
}

/// The state of a probe.
#[derive(Debug, Default)]
pub(super) struct HashRun {
    /// The row to be given next.
    next: Option<usize>,
    /// The row's place, if the rows are in a file.
    place: SortedPlace,
    /// The row given last.
    last: usize,
    /// True where only unmatched rows are given, whatever their keys.
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
        if let Some(sorted) = &mut store.sorted {
            let mut run = HashRun::default();
            if !null {
                (run.place, run.next) = (sorted.find(&key)?, Some(0));
            }
            store.key = key;
            return Ok(run);
        }
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
                store.matched = vec![false; store.count];
            }
            machine.stores[plan.store] = Some(store);
        }
        Ok(())
    }

    /// Forgets the matches, before the query runs anew.
    pub(super) fn reset(plan: &HashScan, machine: &mut Machine<'_, '_>) {
        match &mut machine.stores[plan.store] {
            Some(_) if plan.rebuild => machine.stores[plan.store] = None,
            Some(store) => store.matched.fill(false),
            None => {}
        }
    }

    /// Begins to give the unmatched rows.
    pub(super) fn open_unmatched(
        plan: &HashScan,
        machine: &mut Machine<'_, '_>,
    ) -> Result<HashRun, Error> {
        HashRun::gather(plan, machine)?;
        Ok(HashRun { next: Some(0), unmatched: true, ..HashRun::default() })
    }

    /// Notes a match of the row given last.
    pub(super) fn mark(&self, plan: &HashScan, machine: &mut Machine<'_, '_>) {
        if let Some(store) = &mut machine.stores[plan.store]
            && let Some(matched) = store.matched.get_mut(self.last)
        {
            *matched = true;
        }
    }

    /// Puts the next matching row into the registers; false when there is none.
    ///
    /// # Errors
    /// When rows cannot be read from the file they are in.
    pub(super) fn next(
        &mut self,
        plan: &HashScan,
        machine: &mut Machine<'_, '_>,
    ) -> Result<bool, Error> {
        let (Some(place), Some(store)) = (self.next, &mut machine.stores[plan.store]) else {
            return Ok(false);
        };
        if let Some(sorted) = &mut store.sorted {
            let key = (!self.unmatched).then_some(store.key.as_slice());
            while let Some((mut row, next)) = sorted.values(self.place, key)? {
                self.place = next;
                self.last = match row.next() {
                    Some(ValueRef::Int(number)) => usize::try_from(number).unwrap_or(usize::MAX),
                    _ => usize::MAX,
                };
                if self.unmatched && store.matched.get(self.last) == Some(&true) {
                    continue;
                }
                load_values(row, &mut machine.registers, &plan.row);
                return Ok(true);
            }
            self.next = None;
            return Ok(false);
        }
        if self.unmatched {
            let rest = store.matched.get(place..).unwrap_or_default();
            let Some(skip) = rest.iter().position(|matched| !matched) else {
                self.next = None;
                return Ok(false);
            };
            store.rows.load(place + skip, &mut machine.registers, plan.row.iter().copied());
            self.next = Some(place + skip + 1);
            return Ok(true);
        }
        store.rows.load(place, &mut machine.registers, plan.row.iter().copied());
        self.last = place;
        self.next = if plan.keys.is_empty() {
            Some(place + 1).filter(|&next| next < store.rows.len())
        } else {
            Some(store.next[place]).filter(|&next| next != place)
        };
        Ok(true)
    }
}

fn build(plan: &HashScan, machine: &mut Machine<'_, '_>) -> Result<HashStore, Error> {
    let mut store = HashStore::default();
    let mut full = false;
    each_row(plan, machine, |machine, key| {
        let row = plan.row.iter().map(|&reg| machine.registers[reg].as_ref());
        let size = row_size(row.clone()) + 2 * key.map_or(0, <[u8]>::len);
        full = !store.kept.try_add(machine.session, || (size, 0));
        if full {
            return Ok(false);
        }
        let place = store.rows.len();
        store.rows.push(row);
        if plan.keys.is_empty() {
            return Ok(true);
        }
        store.next.push(place);
        let Some(key) = key else { return Ok(true) };
        match store.keys.find(key) {
            Some(number) => {
                let (_, last) = &mut store.ends[number];
                store.next[*last] = place;
                *last = place;
            }
            None => {
                store.keys.insert(key);
                store.ends.push((place, place));
            }
        }
        Ok(true)
    })?;
    store.count = store.rows.len();
    if !full {
        return Ok(store);
    }
    drop(store);
    build_sorted(plan, machine)
}

/// The build side in a file, without room in memory. The rows are read once more.
fn build_sorted(plan: &HashScan, machine: &mut Machine<'_, '_>) -> Result<HashStore, Error> {
    /// A key no lookup has: keys with a NULL are never looked up.
    const NO_KEY: &[u8] = &[0];
    let sort = SortPlan { keys: vec![SortKey::ascending(0, Collation::Binary)] };
    let mut sorter = Sorter::default();
    let mut count = 0_usize;
    each_row(plan, machine, |machine, key| {
        let number = i64::try_from(count).unwrap_or(i64::MAX);
        let values = Values { first: 0, width: 2 + plan.row.len() };
        let value = |place: usize| match place {
            0 => ValueRef::Blob(key.unwrap_or(NO_KEY)),
            1 => ValueRef::Int(number),
            place => machine.registers[plan.row[place - 2]].as_ref(),
        };
        sorter.push(machine.session, (values, &sort), value, None)?;
        count += 1;
        Ok(true)
    })?;
    sorter.sort(machine.session, &sort)?;
    let sorted = Some(SortedRows::write(machine.session, &mut sorter, &sort)?);
    Ok(HashStore { sorted, count, ..HashStore::default() })
}

/// Calls `each` with every row of the build side, in the registers, and its key; `None` for a key
/// with a NULL. Ends when `each` is false.
fn each_row(
    plan: &HashScan,
    machine: &mut Machine<'_, '_>,
    mut each: impl FnMut(&mut Machine<'_, '_>, Option<&[u8]>) -> Result<bool, Error>,
) -> Result<(), Error> {
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
        if !each(machine, (!null).then_some(key.as_slice()))? {
            return Ok(());
        }
    }
    Ok(())
}

/// Makes the key of one side; true when a part is NULL, equal to nothing.
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
        if key.near {
            push_near_key(value, key.collation, out);
        } else {
            push_converted_key(value, key.affinity, key.collation, out);
        }
    }
    Ok(false)
}
