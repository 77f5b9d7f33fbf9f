//! Groups and their aggregates.
//!
//! Groups are found by a hash of their keys, and given out once all rows were taken. Where the rows
//! of one group come one after the other, only the last group is looked at. Where memory is limited
//! and full, rows of new groups wait in a file ([`Overflow`]).

use std::cmp::Ordering;

use rayon::prelude::*;
use shoal_store::Transaction;

use super::direct::{
    CHUNK, Direct, DirectGroup, EVERYWHERE, GroupColumn, ManyRows, Memory, Operand, RowView,
};
use super::kept_keys::KeptKeys;
use super::key::{HashPlaces, RowSet, hash_value, is_equal, push_row_key};
use super::overflow::Overflow;
use super::short_keys::ShortKeys;
use super::sort::{Sorter, Values};
use super::{Batch, Kept, Machine, assign, row_size};
use crate::Error;
use crate::expr::{eval, eval_condition, eval_operand};
use crate::functions::{AggregateState, ForEach, Session};
use crate::plan::{AggregatePlan, GroupPlan};
use crate::value::{Collation, Value, ValueRef};

/// A column of rows that were found together.
struct Column<'r, R> {
    rows: R,
    operand: &'r Operand,
}

impl<'r, R: ManyRows<'r>> ForEach<'r> for Column<'r, R> {
    #[inline(always)]
    fn len(&self) -> usize {
        self.rows.len()
    }

    #[inline(always)]
    fn value(&self, number: usize) -> ValueRef<'r> {
        self.rows.value(number, self.operand)
    }

    #[inline(always)]
    fn each_int(&self, from: usize, each: impl FnMut(i64) -> bool) -> usize {
        self.rows.each_int(self.operand, from, each)
    }

    #[inline(always)]
    fn each_real(&self, from: usize, each: impl FnMut(f64)) -> usize {
        self.rows.each_real(self.operand, from, each)
    }
}

/// The groups of one select, gathered from all its rows.
#[derive(Debug, Default)]
pub(super) struct Groups {
    groups: Vec<Group>,
    by_key: HashPlaces,
    /// Those of direct selects by how keys of few bytes are stored.
    by_short: ShortKeys,
    /// The order in which groups are given out: by their keys.
    order: Vec<usize>,
    next: usize,
    /// Groups of an earlier run, to be used again.
    spare: Vec<Group>,
    /// What each part of a direct select keeps.
    memory: Vec<Memory>,
    /// What the groups take, and what of it is not counted yet.
    kept: Kept,
    uncounted: usize,
    /// Rows of groups that do not fit into memory.
    overflow: Option<Box<Overflow>>,
    /// While a group is given out before all rows were taken: what its values took the places of.
    covered: Vec<Value>,
}

#[derive(Debug, Default)]
pub(super) struct Group {
    pub(super) keys: Vec<Value>,
    states: Vec<AggregateState>,
    /// For aggregates that take rows in an order: the arguments of those so far, by their keys.
    waiting: Vec<Option<Sorter>>,
    /// For aggregates over distinct values: those seen.
    seen: Vec<Option<Seen>>,
    /// The values of one row, for what is neither key nor aggregate.
    kept: Vec<Value>,
}

/// The values that an aggregate took.
#[derive(Debug, Default)]
struct Seen {
    values: RowSet,
    /// Where memory is limited: there, instead.
    limited: Option<Box<KeptKeys>>,
    key: Vec<u8>,
}

impl Seen {
    /// Adds a value; false when it was taken before.
    fn insert<'v>(
        &mut self,
        session: &dyn Session,
        values: impl Iterator<Item = ValueRef<'v>>,
        collation: Collation,
    ) -> Result<bool, Error> {
        if session.budget().is_none() {
            return Ok(self.values.insert(values, &[collation]));
        }
        self.key.clear();
        push_row_key(values, &[collation], &mut self.key);
        self.limited.get_or_insert_default().insert(session, &self.key)
    }
}

impl Groups {
    /// Takes the current row.
    pub(super) fn add(
        &mut self,
        plan: &GroupPlan,
        machine: &mut Machine<'_, '_>,
    ) -> Result<(), Error> {
        let Some(place) = self.place(plan, machine)? else {
            let overflow = self.overflow.get_or_insert_with(|| Box::new(Overflow::new(plan)));
            return overflow.push(plan, machine);
        };
        self.count(machine.session)?;
        for (index, aggregate) in plan.aggregates.iter().enumerate() {
            if let Some(filter) = &aggregate.filter
                && !eval_condition(machine, filter)?
            {
                continue;
            }
            if !aggregate.distinct
                && aggregate.order.is_empty()
                && plan.picks != Some(index)
                && let [argument] = &*aggregate.arguments
            {
                // Most aggregates take a number, wherever it is.
                let reg = eval_operand(machine, argument)?;
                let value = machine.registers[reg].as_ref();
                if self.groups[place].states[index].step_number(value) {
                    continue;
                }
            }
            for code in aggregate.arguments.iter().chain(&aggregate.order) {
                eval(machine, code)?;
            }
            let registers = &machine.registers;
            let range = aggregate.first..aggregate.first + aggregate.arguments.len();
            let keys = aggregate.order.iter().map(|key| registers[key.result].as_ref());
            let kept = plan.kept.iter().map(|&reg| registers[reg].as_ref());
            let session = machine.session;
            let group = &mut self.groups[place];
            group.step((plan, index), &registers[range], keys, kept, session)?;
        }
        Ok(())
    }

    /// Whether a group is complete although not all rows were taken: where the rows of a group come
    /// one after the other, as soon as another has begun. With `ended` the last one is. Its values
    /// are in the registers then, until [`Groups::uncover`].
    pub(super) fn next_complete(
        &mut self,
        plan: &GroupPlan,
        machine: &mut Machine<'_, '_>,
        ended: bool,
    ) -> Result<bool, Error> {
        if self.groups.len() < if ended { 1 } else { 2 } {
            return Ok(false);
        }
        let mut group = self.groups.remove(0);
        self.covered.clear();
        self.covered.extend(plan.kept.iter().map(|&reg| machine.registers[reg].clone()));
        group.give(plan, machine)?;
        self.spare.push(group);
        self.kept.clear();
        Ok(true)
    }

    /// Puts the row that began the next group back into the registers.
    pub(super) fn uncover(&mut self, plan: &GroupPlan, machine: &mut Machine<'_, '_>) {
        for (&reg, value) in plan.kept.iter().zip(self.covered.drain(..)) {
            machine.registers[reg] = value;
        }
    }

    /// Takes every row of a direct select.
    pub(super) fn add_direct(
        &mut self,
        plan: &GroupPlan,
        direct: &Direct,
        machine: &mut Machine<'_, '_>,
    ) -> Result<(), Error> {
        let parts = || std::iter::once(direct).chain(&*direct.unmatched);
        let mut memory = std::mem::take(&mut self.memory);
        if memory.is_empty() {
            memory.extend(parts().map(Memory::new));
        }
        let mut rest = memory.as_mut_slice();
        let mut result = Ok(());
        let mut before: Option<&mut Memory> = None;
        for part in parts() {
            let Some((own, behind)) = rest.split_first_mut() else { break };
            if let Some(before) = before {
                own.take_marks(part, before);
            }
            result = result.and_then(|()| self.add_part(plan, part, machine, own));
            (before, rest) = (Some(own), behind);
        }
        self.memory = memory;
        result
    }

    /// Takes every row of one part of it.
    fn add_part(
        &mut self,
        plan: &GroupPlan,
        direct: &Direct,
        machine: &Machine<'_, '_>,
        memory: &mut Memory,
    ) -> Result<(), Error> {
        let Some(group) = &direct.group else { return Ok(()) };
        let txn = machine.txn(direct.database)?;
        if direct.counts_rows {
            let count = direct.count_rows(txn)?;
            let place = self.place_of(plan, |_| 0, |_| true, |_| ValueRef::Null);
            for state in &mut self.groups[place].states {
                state.add_rows(count);
            }
            return Ok(());
        }
        let parameters = &machine.parameters;
        let session = machine.session;
        if plan.ends_early {
            return self.add_first(plan, direct, machine, memory);
        }
        let ranges = ranges_to_merge(plan, direct, txn);
        if ranges.is_empty() || !self.add_ranges(plan, direct, txn, parameters, &ranges)? {
            return if direct.is_scan() {
                let leaf = &mut memory.leaf;
                direct.for_each_within(txn, parameters, leaf, EVERYWHERE, |rows| {
                    self.take_rows(plan, group, rows)?;
                    self.count(session)
                })
            } else if direct.is_join() {
                direct.for_each_joined(txn, parameters, memory, EVERYWHERE, |rows| {
                    self.take_rows(plan, group, rows)?;
                    self.count(session)
                })
            } else {
                direct.for_each(txn, parameters, memory, |row| {
                    self.take_direct(plan, group, row)?;
                    self.count(session)
                })
            };
        }
        Ok(())
    }

    /// Takes rows up to the first one whose argument is not NULL, which has all that is asked for.
    fn add_first(
        &mut self,
        plan: &GroupPlan,
        direct: &Direct,
        machine: &Machine<'_, '_>,
        memory: &mut Memory,
    ) -> Result<(), Error> {
        let Some(group) = &direct.group else { return Ok(()) };
        let txn = machine.txn(direct.database)?;
        let mut found = false;
        direct.for_each_until(txn, &machine.parameters, memory, |row| {
            if !found {
                self.take_direct(plan, group, row)?;
                let argument = group.arguments.first().and_then(Option::as_ref);
                found = argument.is_some_and(|argument| row.value(argument) != ValueRef::Null);
            }
            Ok(!found)
        })
    }

    /// Takes every row of a large table, ranges of rowids side by side, and puts their groups
    /// together in the order of the rows. False when that does not pay or would not give what one
    /// row after the other gives; then no row was taken.
    ///
    /// The ranges and how many are read at once depend on the file alone, so the result does not
    /// depend on how many cores there are.
    fn add_ranges(
        &mut self,
        plan: &GroupPlan,
        direct: &Direct,
        txn: &Transaction,
        parameters: &[Value],
        ranges: &[(i64, i64)],
    ) -> Result<bool, Error> {
        let Some(group) = &direct.group else { return Ok(false) };
        self.merge_ranges(plan, ranges, |groups, range| {
            let mut memory = Memory::new(direct);
            if direct.is_join() {
                direct.for_each_joined(txn, parameters, &mut memory, range, |rows| {
                    groups.take_rows(plan, group, rows)
                })
            } else {
                direct.for_each_within(txn, parameters, &mut memory.leaf, range, |rows| {
                    groups.take_rows(plan, group, rows)
                })
            }
        })
    }

    /// As there, the rows of one range being taken by `gather`.
    pub(super) fn merge_ranges(
        &mut self,
        plan: &GroupPlan,
        ranges: &[(i64, i64)],
        gather: impl Fn(&mut Groups, (i64, i64)) -> Result<(), Error> + Sync,
    ) -> Result<bool, Error> {
        let gather = |range: &(i64, i64)| {
            let mut groups = Groups::default();
            gather(&mut groups, *range)?;
            Ok(groups)
        };
        for wave in ranges.chunks(RANGES_AT_ONCE) {
            let parts: Vec<Result<Groups, Error>> = wave.par_iter().map(gather).collect();
            for part in parts {
                let part = part?;
                if part.groups.len() > GROUPS_TO_MERGE_MAX || !self.merge(plan, part) {
                    self.clear();
                    return Ok(false);
                }
            }
        }
        Ok(true)
    }

    /// Takes the groups of rows that come after this one's; false where aggregates do not merge.
    fn merge(&mut self, plan: &GroupPlan, part: Groups) -> bool {
        let Groups { groups, by_key, .. } = part;
        for (number, group) in groups.into_iter().enumerate() {
            let found = if plan.keys.is_empty() {
                (!self.groups.is_empty()).then_some(0)
            } else {
                self.by_key.find(by_key.hash(number), |place| {
                    let pairs = self.groups[place].keys.iter().zip(&group.keys);
                    let mut pairs = pairs.zip(&plan.keys);
                    pairs.all(|((a, b), (_, by))| is_equal(a.as_ref(), b.as_ref(), *by))
                })
            };
            let Some(place) = found else {
                if !plan.keys.is_empty() {
                    self.by_key.insert(by_key.hash(number));
                }
                self.groups.push(group);
                continue;
            };
            let target = &mut self.groups[place];
            for (index, other) in group.states.into_iter().enumerate() {
                let Some(holds) = target.states[index].merge(other) else { return false };
                if holds && plan.picks == Some(index) {
                    target.kept.clone_from(&group.kept);
                }
            }
        }
        true
    }

    /// Takes rows of one leaf: first the group of each is found, then each aggregate takes its column.
    #[inline(never)]
    pub(super) fn take_rows<'r>(
        &mut self,
        plan: &GroupPlan,
        group: &'r DirectGroup,
        rows: impl ManyRows<'r>,
    ) -> Result<(), Error> {
        if (plan.picks.is_some() && !group.kept.is_empty()) || rows.len() > CHUNK {
            // What else is kept of a row depends on what its aggregates say, row by row.
            let mut numbers = 0..rows.len();
            return numbers.try_for_each(|row| self.take_direct(plan, group, rows.row(row)));
        }
        if plan.keys.is_empty() {
            if rows.len() == 0 {
                return Ok(());
            }
            let place = self.place_of_row(plan, group, |operand| rows.value(0, operand));
            let states = &mut self.groups[place].states;
            for (state, argument) in states.iter_mut().zip(&group.arguments) {
                match argument {
                    // A batch has few rows.
                    None => state.add_rows(rows.len() as i64),
                    Some(argument) => {
                        state.step_each(Column { rows, operand: argument })?;
                    }
                }
            }
            return Ok(());
        }
        let mut places = [0_u32; CHUNK];
        let places = &mut places[..rows.len()];
        match &*group.keys {
            [(key, _)] if !plan.ordered => self.places_by_short(plan, group, rows, key, places),
            [(key, _)] => self.places_in_order(plan, group, rows, key, places),
            _ => {
                for (row, place) in places.iter_mut().enumerate() {
                    // Four billion groups do not fit into memory.
                    *place =
                        self.place_of_row(plan, group, |operand| rows.value(row, operand)) as u32;
                }
            }
        }
        for (index, argument) in group.arguments.iter().enumerate() {
            let groups = &mut self.groups;
            let Some(argument) = argument else {
                // Rows of a group often lie beside each other.
                for run in places.chunk_by(|a, b| a == b) {
                    groups[run[0] as usize].states[index].add_rows(run.len() as i64);
                }
                continue;
            };
            let mut places = places.iter();
            let mut result = Ok(());
            rows.each_value(argument, |value| {
                let Some(&place) = places.next() else { return };
                let state = &mut groups[place as usize].states[index];
                if !state.step_number(value) && result.is_ok() {
                    result = state.step_borrowed(Some(value)).map(drop);
                }
            });
            result?;
        }
        Ok(())
    }

    /// The groups of rows by one key: of few bytes by what is stored, where that was seen before.
    fn places_by_short<'r>(
        &mut self,
        plan: &GroupPlan,
        group: &'r DirectGroup,
        rows: impl ManyRows<'r>,
        key: &Operand,
        places: &mut [u32],
    ) {
        for (row, place) in places.iter_mut().enumerate() {
            let short = rows.short(row, key);
            if let Some(known) = short.and_then(|short| self.by_short.get(short)) {
                *place = known;
                continue;
            }
            *place = self.place_of_row(plan, group, |operand| rows.value(row, operand)) as u32;
            if let Some(short) = short {
                self.by_short.note(short, *place);
            }
        }
    }

    /// The groups of rows by one key of which equal ones come one after the other: where the first row's
    /// is the last one's, it is that of all between; a row whose key is stored as the one before is in the
    /// same group.
    fn places_in_order<'r>(
        &mut self,
        plan: &GroupPlan,
        group: &'r DirectGroup,
        rows: impl ManyRows<'r>,
        key: &'r Operand,
        places: &mut [u32],
    ) {
        let (mut last, mut last_place) = (None, 0);
        let end = places.len().saturating_sub(1);
        if end > 1
            && let [(_, by)] = &*group.keys
            && is_equal(rows.value(0, key), rows.value(end, key), *by)
        {
            let first = self.place_of_row(plan, group, |operand| rows.value(0, operand));
            places.fill(first as u32);
            return;
        }
        for (row, place) in places.iter_mut().enumerate() {
            let short = rows.short(row, key);
            if short.is_none() || short != last {
                // Four billion groups do not fit into memory.
                last_place =
                    self.place_of_row(plan, group, |operand| rows.value(row, operand)) as u32;
                last = short;
            }
            *place = last_place;
        }
    }

    /// The group of a row, which is made when it is the first of its keys.
    #[inline]
    fn place_of_row<'v>(
        &mut self,
        plan: &GroupPlan,
        group: &'v DirectGroup,
        value: impl Fn(&'v Operand) -> ValueRef<'v>,
    ) -> usize {
        let from = |from| match from {
            From::Key(key) => value(&group.keys[key].0),
            From::Kept(kept) => value(&group.kept[kept]),
        };
        if let [(operand, by)] = &*group.keys {
            // One key, which is looked at once.
            let key = value(operand);
            self.place_of(
                plan,
                |seed| hash_value(key, *by, seed),
                |known| known.first().is_some_and(|known| is_equal(key, known.as_ref(), *by)),
                from,
            )
        } else {
            let keys = || group.keys.iter().map(|(operand, by)| (value(operand), *by));
            self.place_of(
                plan,
                |seed| keys().fold(seed, |hash, (value, by)| hash_value(value, by, hash)),
                |known| {
                    keys()
                        .zip(known)
                        .all(|((value, by), known)| is_equal(value, known.as_ref(), by))
                },
                from,
            )
        }
    }

    #[inline]
    fn take_direct(
        &mut self,
        plan: &GroupPlan,
        group: &DirectGroup,
        row: RowView<'_, '_, '_>,
    ) -> Result<(), Error> {
        let place = self.place_of_row(plan, group, |operand| row.value(operand));
        let target = &mut self.groups[place];
        for (index, argument) in group.arguments.iter().enumerate() {
            let value = argument.as_ref().map(|argument| row.value(argument));
            let holds = target.states[index].step_borrowed(value)?;
            if holds && plan.picks == Some(index) {
                for (kept, operand) in target.kept.iter_mut().zip(&group.kept) {
                    assign(kept, row.value(operand));
                }
            }
        }
        Ok(())
    }

    /// The current row's group, which is made when it is the first of its keys; `None` where there is
    /// no room for it.
    fn place(
        &mut self,
        plan: &GroupPlan,
        machine: &mut Machine<'_, '_>,
    ) -> Result<Option<usize>, Error> {
        for (code, _) in &plan.keys {
            eval(machine, code)?;
        }
        let registers = &machine.registers;
        let key = |key: usize| registers[plan.keys[key].0.result].as_ref();
        let hash = |seed| {
            let keys = plan.keys.iter().enumerate();
            keys.fold(seed, |hash, (index, (_, by))| hash_value(key(index), *by, hash))
        };
        let equals = |known: &[Value]| {
            let mut keys = known.iter().zip(&plan.keys).enumerate();
            keys.all(|(index, (known, (_, by)))| key(index).compare(known.as_ref(), *by).is_eq())
        };
        let value = |from| match from {
            From::Key(index) => key(index),
            From::Kept(kept) => registers[plan.kept[kept]].as_ref(),
        };
        if let Some(budget) = machine.session.budget()
            && !plan.keys.is_empty()
            && !plan.ordered
        {
            let hash = hash(0);
            let groups = &self.groups;
            let known = self.by_key.find(hash, |place| equals(&groups[place].keys));
            let values = (0..plan.keys.len()).map(From::Key);
            let values = values.chain((0..plan.kept.len()).map(From::Kept)).map(value);
            // What grows with its rows is gathered for one group after the other.
            let grows =
                |aggregate: &AggregatePlan| aggregate.distinct || !aggregate.order.is_empty();
            let full = self.overflow.is_some()
                || plan.aggregates.iter().any(grows)
                || !budget.has_room(Group::size(plan, values));
            if known.is_some() || full {
                return Ok(known);
            }
        }
        Ok(Some(self.place_of(plan, hash, equals, value)))
    }

    /// The group of the row that the functions tell of: the hash of its keys, whether they equal
    /// those of a group, and its values. It is made when it is the first of its keys.
    #[inline]
    fn place_of<'v>(
        &mut self,
        plan: &GroupPlan,
        hash: impl FnOnce(u64) -> u64,
        equals: impl Fn(&[Value]) -> bool,
        value: impl Fn(From) -> ValueRef<'v>,
    ) -> usize {
        if plan.keys.is_empty() {
            if self.groups.is_empty() {
                self.start(plan, value);
            }
            return 0;
        }
        if plan.ordered {
            return match self.groups.last() {
                Some(last) if equals(&last.keys) => self.groups.len() - 1,
                _ => self.start(plan, value),
            };
        }
        let hash = hash(0);
        let groups = &self.groups;
        let found = self.by_key.find(hash, |place| equals(&groups[place].keys));
        if let Some(place) = found {
            return place;
        }
        self.by_key.insert(hash);
        self.start(plan, value)
    }

    /// Counts what new groups take.
    #[inline]
    fn count(&mut self, session: &dyn Session) -> Result<(), Error> {
        match std::mem::take(&mut self.uncounted) {
            0 => Ok(()),
            bytes => self.kept.add(session, bytes),
        }
    }

    #[inline(never)]
    fn start<'v>(&mut self, plan: &GroupPlan, value: impl Fn(From) -> ValueRef<'v>) -> usize {
        match self.spare.pop() {
            Some(group) => self.groups.push(group),
            None => self.groups.push(Group::default()),
        }
        let place = self.groups.len() - 1;
        let group = &mut self.groups[place];
        group.restart(plan);
        for (index, key) in group.keys.iter_mut().enumerate() {
            assign(key, value(From::Key(index)));
        }
        for (index, kept) in group.kept.iter_mut().enumerate() {
            assign(kept, value(From::Kept(index)));
        }
        let values = group.keys.iter().chain(&group.kept).map(Value::as_ref);
        self.uncounted += Group::size(plan, values);
        place
    }

    /// Forgets the groups and keeps their memory, for another run of the same plan.
    pub(super) fn clear(&mut self) {
        self.spare.append(&mut self.groups);
        self.kept.clear();
        self.by_key.clear();
        self.by_short.clear();
        self.order.clear();
        self.next = 0;
        self.overflow = None;
        self.covered.clear();
    }

    /// Ends the gathering: groups will be given out by their keys, or as their rows came.
    pub(super) fn finish(&mut self, plan: &GroupPlan, session: &dyn Session) -> Result<(), Error> {
        if plan.keys.is_empty() && self.groups.is_empty() {
            self.start(plan, |_| ValueRef::Null);
        }
        self.order.clear();
        self.order.extend(0..self.groups.len());
        if let Some(overflow) = &mut self.overflow {
            overflow.finish(session)?;
        }
        if plan.ordered || plan.distinct {
            return Ok(());
        }
        let groups = &self.groups;
        self.order.sort_by(|&a, &b| {
            let pairs = groups[a].keys.iter().zip(&groups[b].keys).zip(&plan.keys);
            pairs
                .map(|((left, right), (_, collation))| {
                    left.as_ref().compare(right.as_ref(), *collation)
                })
                .find(|order| order.is_ne())
                .unwrap_or(Ordering::Equal)
        });
        Ok(())
    }

    /// Appends the next group's values to `out`, as they are given; false when there is none.
    ///
    /// # Errors
    /// What aggregates raise.
    pub(super) fn push_next(
        &mut self,
        given: &[GroupColumn],
        out: &mut Batch,
    ) -> Result<bool, Error> {
        let Some(&place) = self.order.get(self.next) else { return Ok(false) };
        self.next += 1;
        let Group { states, kept, .. } = &self.groups[place];
        out.begin_row();
        for given in given {
            match given {
                GroupColumn::Kept(number) => out.push_value(kept[*number].as_ref()),
                GroupColumn::Aggregate(number) => {
                    out.push_value(states[*number].finish()?.as_ref())
                }
            }
        }
        Ok(true)
    }

    /// Puts the next group's values into the registers; false when there is none.
    pub(super) fn next(
        &mut self,
        plan: &GroupPlan,
        machine: &mut Machine<'_, '_>,
    ) -> Result<bool, Error> {
        let place = self.order.get(self.next).copied();
        if let Some(overflow) = &mut self.overflow {
            let known = place.map(|place| self.groups[place].keys.as_slice());
            if overflow.goes_first(plan, known) {
                let group = overflow.next_group(plan, machine.session)?;
                group.give(plan, machine)?;
                return Ok(true);
            }
        }
        let Some(place) = place else { return Ok(false) };
        self.next += 1;
        self.groups[place].give(plan, machine)?;
        Ok(true)
    }
}

/// Ranges of rowids whose groups can be gathered side by side; empty where they cannot.
pub(super) fn ranges_to_merge(
    plan: &GroupPlan,
    direct: &Direct,
    txn: &Transaction,
) -> Vec<(i64, i64)> {
    let merges = plan.aggregates.iter().all(|aggregate| aggregate.function.merges());
    if merges && !plan.ordered { direct.ranges(txn) } else { Vec::new() }
}

/// Ranges of a large table that are read at once: a bound on the groups that wait to be merged.
const RANGES_AT_ONCE: usize = 8;

/// A range with more groups than this is a sign that merging them costs what it saves.
const GROUPS_TO_MERGE_MAX: usize = 1 << 12;

/// Which value of a row a group keeps.
#[derive(Clone, Copy, Debug)]
enum From {
    Key(usize),
    Kept(usize),
}

impl Group {
    /// About how many bytes a group takes that has these keys and values of a row.
    fn size<'v>(plan: &GroupPlan, values: impl Iterator<Item = ValueRef<'v>>) -> usize {
        let states = plan.aggregates.len() * size_of::<AggregateState>();
        size_of::<Group>() + states + row_size(values)
    }

    /// Takes one aggregate's arguments, the keys it is ordered by, and what is kept of the row.
    pub(super) fn step<'v>(
        &mut self,
        (plan, index): (&GroupPlan, usize),
        arguments: &'v [Value],
        keys: impl Iterator<Item = ValueRef<'v>> + Clone,
        kept: impl Iterator<Item = ValueRef<'v>>,
        session: &dyn Session,
    ) -> Result<(), Error> {
        let aggregate = &plan.aggregates[index];
        let values = arguments.iter().map(Value::as_ref);
        if let Some(Some(seen)) = self.seen.get_mut(index)
            && !seen.insert(session, values.clone(), aggregate.collation)?
        {
            return Ok(());
        }
        if !aggregate.order.is_empty() {
            let waiting = self.waiting[index].get_or_insert_default();
            let value = |place: usize| match arguments.get(place) {
                Some(argument) => argument.as_ref(),
                None => keys.clone().nth(place - arguments.len()).unwrap_or(ValueRef::Null),
            };
            let values = Values { first: 0, width: arguments.len() };
            return waiting.push(session, (values, &aggregate.sort), value, None);
        }
        if self.states[index].step(arguments)? && plan.picks == Some(index) {
            self.keep(kept);
        }
        Ok(())
    }

    /// Keeps the values of a row.
    pub(super) fn keep<'v>(&mut self, kept: impl Iterator<Item = ValueRef<'v>>) {
        for (target, value) in self.kept.iter_mut().zip(kept) {
            assign(target, value);
        }
    }

    /// Puts the group's values into the registers.
    fn give(&mut self, plan: &GroupPlan, machine: &mut Machine<'_, '_>) -> Result<(), Error> {
        self.take_waiting(plan, machine.session)?;
        for (aggregate, state) in plan.aggregates.iter().zip(&self.states) {
            machine.registers[aggregate.result] = state.finish()?;
        }
        for (kept, &reg) in self.kept.iter().zip(&plan.kept) {
            assign(&mut machine.registers[reg], kept.as_ref());
        }
        Ok(())
    }

    /// Makes this a group without rows. What it had is used again where it fits.
    pub(super) fn restart(&mut self, plan: &GroupPlan) {
        if self.keys.len() != plan.keys.len() {
            self.keys.resize(plan.keys.len(), Value::Null);
        }
        if self.kept.len() != plan.kept.len() {
            self.kept.resize(plan.kept.len(), Value::Null);
        }
        if self.states.len() == plan.aggregates.len() {
            for (state, aggregate) in self.states.iter_mut().zip(&plan.aggregates) {
                state.start_again(aggregate.function, aggregate.collation, aggregate.json);
            }
        } else {
            self.states.clear();
            let start = |aggregate: &AggregatePlan| {
                aggregate.function.start(aggregate.collation, aggregate.json)
            };
            self.states.extend(plan.aggregates.iter().map(start));
        }
        // Most are neither ordered nor distinct: nothing is kept of them then.
        self.seen.clear();
        if plan.aggregates.iter().any(|aggregate| aggregate.distinct) {
            let seen = |aggregate: &AggregatePlan| aggregate.distinct.then(Seen::default);
            self.seen.extend(plan.aggregates.iter().map(seen));
        }
        self.waiting.clear();
        if plan.aggregates.iter().any(|aggregate| !aggregate.order.is_empty()) {
            self.waiting.resize_with(plan.aggregates.len(), || None);
        }
    }

    /// Gives the aggregates that take rows in an order their rows.
    fn take_waiting(&mut self, plan: &GroupPlan, session: &dyn Session) -> Result<(), Error> {
        let mut row = Vec::new();
        for (index, waiting) in self.waiting.iter_mut().enumerate() {
            let (Some(mut rows), Some(aggregate)) = (waiting.take(), plan.aggregates.get(index))
            else {
                continue;
            };
            rows.sort(session, &aggregate.sort)?;
            row.resize(aggregate.arguments.len(), Value::Null);
            while let Some(values) = rows.next_row(&aggregate.sort)? {
                for (target, value) in row.iter_mut().zip(values) {
                    assign(target, value);
                }
                self.states[index].step(&row)?;
            }
        }
        Ok(())
    }
}
