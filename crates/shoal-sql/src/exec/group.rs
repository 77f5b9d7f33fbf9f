//! Groups and their aggregates.
//!
//! Groups are found by a hash of their keys, and given out once all rows were taken. Where the rows
//! of one group come one after the other, only the last group is looked at. Where memory is limited
//! and full, rows of new groups wait in a file ([`Overflow`]).

use std::cmp::Ordering;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;

use rayon::prelude::*;
use shoal_store::{KeyColumn, Transaction};

use super::eval;
use super::group_store::GroupStore;
use super::overflow::Overflow;
use super::pipeline::{CHUNK, EVERYWHERE, ManyRows, Memory, RowView};
use super::{Batch, Machine};
use crate::Error;
use crate::exec::{eval_condition, eval_operand};
use crate::functions::ForEach;
use crate::keep::key::{HashPlaces, hash_value, is_equal};
use crate::keep::short_keys::ShortKeys;
use crate::keep::sort::PARALLEL_MIN;
use crate::keep::{Kept, SPILL_BYTES_MIN};
use crate::plan::pipeline::{GroupColumn, GroupInput, MoreOfAggregate, Operand, Pipeline, Walk};
use crate::plan::{AggregatePlan, GroupPlan};
use crate::session::Session;
use crate::value::{Collation, Value, ValueRef, truth};

/// A column of rows found together.
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
    groups: GroupStore,
    /// Number of rows given by pipelines.
    taken: u64,
    by_key: HashPlaces,
    /// The groups of pipelines, by the stored bytes of short keys.
    by_short: ShortKeys,
    /// The order of giving groups out: by their keys. Each group's number follows a number ordering
    /// nearly as its first key.
    order: Vec<(u64, u32)>,
    next: usize,
    /// The memory of each part of a pipeline.
    memory: Vec<Memory>,
    /// Bytes of the groups.
    kept: Kept,
    /// Rows of groups begun without room left.
    overflow: Option<Box<Overflow>>,
    /// The number of the first group still to be asked the plan's tests, where groups end one after
    /// the other.
    asked: usize,
    /// The values covered by a group's, while the group is given out before all rows were taken.
    covered: Vec<Value>,
}

impl Groups {
    /// Takes the current row.
    pub(super) fn add(
        &mut self,
        plan: &GroupPlan,
        machine: &mut Machine<'_, '_>,
    ) -> Result<(), Error> {
        if plan.ordered {
            // Groups are given as they end: none waits.
            self.overflow = None;
        }
        let Some(place) = self.place(plan, machine)? else {
            return self.rows_waiting().push(plan, machine);
        };
        (0..plan.aggregates.len()).try_for_each(|index| self.feed((plan, index), place, machine))
    }

    /// Takes the current row so many times.
    pub(super) fn add_times(
        &mut self,
        plan: &GroupPlan,
        machine: &mut Machine<'_, '_>,
        times: u64,
    ) -> Result<(), Error> {
        let Some(place) = self.place(plan, machine)? else {
            for _ in 0..times {
                machine.tick()?;
                self.rows_waiting().push(plan, machine)?;
            }
            return Ok(());
        };
        for (index, aggregate) in plan.aggregates.iter().enumerate() {
            let counts = aggregate.arguments.is_empty() && aggregate.filter.is_none();
            if counts && self.groups.state(plan, place, index).count_rows(times)? {
                continue;
            }
            for _ in 0..times {
                machine.tick()?;
                self.feed((plan, index), place, machine)?;
            }
        }
        Ok(())
    }

    /// Feeds one aggregate of a group the current row.
    #[inline]
    fn feed(
        &mut self,
        (plan, index): (&GroupPlan, usize),
        place: usize,
        machine: &mut Machine<'_, '_>,
    ) -> Result<(), Error> {
        let aggregate = &plan.aggregates[index];
        if let Some(filter) = &aggregate.filter
            && !eval_condition(machine, filter)?
        {
            return Ok(());
        }
        let is_unordered = aggregate.order.is_empty();
        let plain = match &*aggregate.arguments {
            // The argument of `count(*)`.
            [] => Some((None, None)),
            [one] if is_unordered && plan.picks != Some(index) => Some((Some(one), None)),
            [one, two] if is_unordered && !aggregate.distinct => Some((Some(one), Some(two))),
            _ => None,
        };
        if let Some((first, second)) = plain {
            // Most aggregates take a value in its place.
            let first = first.map(|code| eval_operand(machine, code)).transpose()?;
            let second = second.map(|code| eval_operand(machine, code)).transpose()?;
            let value = |reg: Option<usize>| reg.map(|reg| machine.registers[reg].as_ref());
            let values = (value(first), value(second));
            return self.groups.take((plan, index), place, values, machine.session).map(drop);
        }
        for code in aggregate.arguments.iter().chain(&aggregate.order) {
            eval(machine, code)?;
        }
        let registers = &machine.registers;
        let range = aggregate.first..aggregate.first + aggregate.arguments.len();
        let keys = aggregate.order.iter().map(|key| registers[key.result].as_ref());
        let kept = plan.kept.iter().map(|&reg| registers[reg].as_ref());
        let session = machine.session;
        self.groups.step((plan, index), place, &registers[range], keys, kept, session)
    }

    /// `Some` once a group is complete before all rows were taken: where the rows of a group come
    /// one after the other, as soon as another group has begun. With `ended`, the last group is
    /// complete, too. True where the group passes the plan's tests: the group's values are then in
    /// the registers, until [`Groups::uncover`].
    pub(super) fn next_complete(
        &mut self,
        plan: &GroupPlan,
        machine: &mut Machine<'_, '_>,
        ended: bool,
    ) -> Result<Option<bool>, Error> {
        if self.groups.len() < if ended { 1 } else { 2 } {
            return Ok(None);
        }
        self.covered.clear();
        let passes = self.groups.may_pass(plan, 0);
        if passes {
            self.covered.extend(plan.kept.iter().map(|&reg| machine.registers[reg].clone()));
            self.groups.give(plan, 0, machine)?;
        }
        self.groups.remove_first(plan);
        self.kept.clear();
        Ok(Some(passes))
    }

    /// Puts the first row of the next group back into the registers.
    pub(super) fn uncover(&mut self, plan: &GroupPlan, machine: &mut Machine<'_, '_>) {
        for (&reg, value) in plan.kept.iter().zip(self.covered.drain(..)) {
            machine.registers[reg] = value;
        }
    }

    /// Takes every row of a pipeline.
    pub(super) fn add_pipeline(
        &mut self,
        plan: &GroupPlan,
        pipeline: &Pipeline,
        machine: &mut Machine<'_, '_>,
    ) -> Result<(), Error> {
        let parts = || std::iter::once(pipeline).chain(&*pipeline.unmatched);
        let mut memory = std::mem::take(&mut self.memory);
        if memory.is_empty() {
            memory.extend(parts().map(Memory::new));
        }
        if let Some(first) = memory.first_mut() {
            first.keep_within(machine.session);
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

    /// Takes every row of one part of a pipeline.
    fn add_part(
        &mut self,
        plan: &GroupPlan,
        pipeline: &Pipeline,
        machine: &Machine<'_, '_>,
        memory: &mut Memory,
    ) -> Result<(), Error> {
        let Some(group) = &pipeline.group else { return Ok(()) };
        let txn = machine.txn(pipeline.database)?;
        let context = (txn, machine.parameters.as_slice(), machine.session);
        let ranges = match plan.ends_early || matches!(pipeline.walk, Walk::Count) {
            true => Vec::new(),
            false => ranges_to_merge(plan, pipeline, txn),
        };
        if !ranges.is_empty() && self.add_ranges(plan, pipeline, context, &ranges)? {
            return Ok(());
        }
        self.add_all((plan, group), pipeline, context, memory)?;
        memory.tell(pipeline, machine.analysis);
        Ok(())
    }

    /// Takes every row of a query within an expression, whose parameters are all registers.
    ///
    /// # Errors
    /// Errors of aggregates and of the file.
    pub(super) fn add_inner(
        &mut self,
        plan: &GroupPlan,
        pipeline: &Pipeline,
        context: (&Transaction, &[Value], &dyn Session),
        memory: &mut Memory,
    ) -> Result<(), Error> {
        let Some(group) = &pipeline.group else { return Ok(()) };
        self.add_all((plan, group), pipeline, context, memory)
    }

    /// Takes one row after the other, or the rows of a leaf together.
    fn add_all(
        &mut self,
        (plan, group): (&GroupPlan, &GroupInput),
        pipeline: &Pipeline,
        (txn, parameters, session): (&Transaction, &[Value], &dyn Session),
        memory: &mut Memory,
    ) -> Result<(), Error> {
        if matches!(pipeline.walk, Walk::Count) {
            let count = pipeline.count_rows(txn)?;
            self.taken += count.unsigned_abs();
            let place = self.only_place(plan, session, |_| ValueRef::Null);
            for state in self.groups.states(plan, place) {
                state.add_rows(count);
            }
            return Ok(());
        }
        if plan.ends_early {
            return self.add_first((plan, group), pipeline, (txn, parameters, session), memory);
        }
        if pipeline.is_scan() {
            let leaf = &mut memory.leaf;
            pipeline.for_each_within(txn, parameters, leaf, EVERYWHERE, |rows| {
                self.take_rows((plan, group), rows, session)
            })
        } else if pipeline.is_join() {
            pipeline.for_each_joined(txn, parameters, memory, EVERYWHERE, |rows| {
                self.take_rows((plan, group), rows, session)
            })
        } else {
            pipeline.for_each(txn, parameters, memory, |row| {
                self.taken += 1;
                self.take_row((plan, group), row, session)
            })
        }
    }

    /// Takes rows up to the first one with an argument other than NULL: it has all that is asked
    /// for.
    fn add_first(
        &mut self,
        (plan, group): (&GroupPlan, &GroupInput),
        pipeline: &Pipeline,
        (txn, parameters, session): (&Transaction, &[Value], &dyn Session),
        memory: &mut Memory,
    ) -> Result<(), Error> {
        let mut found = false;
        pipeline.for_each_until(txn, parameters, memory, |row| {
            if !found {
                self.take_row((plan, group), row, session)?;
                let argument = group.arguments.first().and_then(Option::as_ref);
                found = argument.is_some_and(|argument| row.value(argument) != ValueRef::Null);
            }
            Ok(!found)
        })
    }

    /// Takes every row of a large table, ranges of rowids side by side, and puts their groups
    /// together in the order of the rows. False when this does not pay or could differ from taking
    /// one row after the other; then no row was taken.
    ///
    /// The ranges and how many are read at once depend on the file alone, so the result does not
    /// depend on how many cores there are.
    fn add_ranges(
        &mut self,
        plan: &GroupPlan,
        pipeline: &Pipeline,
        (txn, parameters, session): (&Transaction, &[Value], &dyn Session),
        ranges: &[(i64, i64)],
    ) -> Result<bool, Error> {
        let Some(group) = &pipeline.group else { return Ok(false) };
        let sets = pipeline.gather_keys(txn, parameters)?;
        self.merge_ranges((plan, session), ranges, |groups, range, stop| {
            let mut memory = Memory::new(pipeline);
            memory.give_sets(sets.clone());
            if pipeline.is_join() {
                pipeline.for_each_joined(txn, parameters, &mut memory, range, |rows| {
                    stop.check(groups)?;
                    groups.take_rows((plan, group), rows, session)
                })
            } else {
                pipeline.for_each_within(txn, parameters, &mut memory.leaf, range, |rows| {
                    stop.check(groups)?;
                    groups.take_rows((plan, group), rows, session)
                })
            }
        })
    }

    /// As there, the rows of one range being taken by `gather`.
    pub(super) fn merge_ranges(
        &mut self,
        (plan, session): (&GroupPlan, &dyn Session),
        ranges: &[(i64, i64)],
        gather: impl Fn(&mut Groups, (i64, i64), &Stop) -> Result<(), Error> + Sync,
    ) -> Result<bool, Error> {
        let stop = Stop::default();
        let gather = |range: &(i64, i64)| {
            let mut groups = Groups::default();
            gather(&mut groups, *range, &stop)?;
            Ok(groups)
        };
        for wave in ranges.chunks(RANGES_AT_ONCE) {
            let parts: Vec<Result<Groups, Error>> = wave.par_iter().map(gather).collect();
            if stop.0.load(Relaxed) {
                self.clear();
                return Ok(false);
            }
            for part in parts {
                if !self.merge(plan, session, part?) {
                    self.clear();
                    return Ok(false);
                }
            }
        }
        Ok(true)
    }

    /// Takes the groups of later rows; false where aggregates do not merge, or there is no room for
    /// all groups.
    fn merge(&mut self, plan: &GroupPlan, session: &dyn Session, part: Groups) -> bool {
        let Groups { groups: mut other, by_key, taken, overflow, .. } = part;
        if overflow.is_some() {
            return false;
        }
        self.taken += taken;
        let mut states = other.take_states();
        for number in 0..other.len() {
            let states = states.by_ref().take(plan.aggregates.len());
            let groups = &self.groups;
            let found = if plan.keys.is_empty() {
                (groups.len() > 0).then_some(0)
            } else {
                self.by_key.find(by_key.hash(number), |place| {
                    let pairs = groups.keys(plan, place).zip(other.keys(plan, number));
                    let mut pairs = pairs.zip(&plan.keys);
                    pairs.all(|((a, b), (_, by))| is_equal(a, b, *by))
                })
            };
            let Some(place) = found else {
                if !plan.keys.is_empty() {
                    self.by_key.insert(by_key.hash(number));
                }
                self.groups.push(plan, (&other, number), states);
                if !self.count(plan, session, self.groups.len() - 1) {
                    return false;
                }
                continue;
            };
            for (index, state) in states.enumerate() {
                let Some(holds) = self.groups.state(plan, place, index).merge(state) else {
                    return false;
                };
                if holds && plan.picks == Some(index) {
                    let kept = (0..plan.kept.len()).map(|kept| other.kept(plan, number, kept));
                    self.groups.keep(plan, place, kept);
                }
            }
        }
        true
    }

    /// Takes rows of one leaf: first the group of each is found, then each aggregate takes its
    /// column.
    #[inline(never)]
    pub(super) fn take_rows<'r>(
        &mut self,
        (plan, group): (&GroupPlan, &'r GroupInput),
        rows: impl ManyRows<'r>,
        session: &dyn Session,
    ) -> Result<(), Error> {
        self.taken += rows.len() as u64;
        // The row kept for a group depends on its aggregates, row by row. Without room left, most
        // rows wait.
        let by_row = plan.picks.is_some() && !group.kept.is_empty();
        if by_row || rows.len() > CHUNK || self.overflow.is_some() {
            let mut numbers = 0..rows.len();
            let take = |row| self.take_row((plan, group), rows.row(row), session);
            return numbers.try_for_each(take);
        }
        if plan.keys.is_empty() {
            if rows.len() == 0 {
                return Ok(());
            }
            let place =
                self.only_place(plan, session, |from| rows.value(0, operand_of(group, from)));
            for (index, argument) in group.arguments.iter().enumerate() {
                if takes_each(plan, group, index) {
                    let places = std::iter::repeat(place);
                    self.take_each((plan, index), rows, group, places, session)?;
                    continue;
                }
                match argument {
                    // A batch has few rows.
                    None => self.groups.state(plan, place, index).add_rows(rows.len() as i64),
                    Some(argument) => {
                        let column = Column { rows, operand: argument };
                        self.groups.state(plan, place, index).step_each(column)?;
                    }
                }
            }
            return Ok(());
        }
        let mut places = [0_u32; CHUNK];
        let places = &mut places[..rows.len()];
        let grouping = (plan, group, session);
        let placed = match &*group.keys {
            [(key, _)] if !plan.ordered => self.places_by_short(grouping, rows, key, places),
            [(key, _)] => self.places_in_order(grouping, rows, key, places),
            _ => {
                let mut placed = 0;
                for place in &mut *places {
                    let found = self.place_of_row(grouping, |operand| rows.value(placed, operand));
                    let Some(found) = found else { break };
                    // Four billion groups do not fit into memory.
                    *place = found as u32;
                    placed += 1;
                }
                placed
            }
        };
        let places = &places[..placed];
        for (index, argument) in group.arguments.iter().enumerate() {
            if takes_each(plan, group, index) {
                let places = places.iter().map(|&place| place as usize);
                self.take_each((plan, index), rows, group, places, session)?;
                continue;
            }
            let groups = &mut self.groups;
            let Some(argument) = argument else {
                // Rows of a group often lie beside each other.
                for run in places.chunk_by(|a, b| a == b) {
                    groups.state(plan, run[0] as usize, index).add_rows(run.len() as i64);
                }
                continue;
            };
            let mut places = places.iter().map(|&place| place as usize);
            let mut result = Ok(());
            rows.each_value(argument, |value| {
                let Some(place) = places.next() else { return };
                let state = groups.state(plan, place, index);
                if !state.step_number(value) && result.is_ok() {
                    result = state.step_borrowed(Some(value)).map(drop);
                }
            });
            result?;
        }
        // The others came when there was no room left.
        let take = |row| self.take_row((plan, group), rows.row(row), session);
        (placed..rows.len()).try_for_each(take)?;
        if plan.drops_failing() && self.overflow.is_none() {
            self.asked = self.groups.drop_failing(plan, self.asked);
        }
        Ok(())
    }

    /// Feeds an aggregate row after row: one over distinct values, with a second argument or with a
    /// filter.
    fn take_each<'r>(
        &mut self,
        (plan, index): (&GroupPlan, usize),
        rows: impl ManyRows<'r>,
        group: &'r GroupInput,
        places: impl Iterator<Item = usize>,
        session: &dyn Session,
    ) -> Result<(), Error> {
        for (row, place) in (0..rows.len()).zip(places) {
            let values = values_of(group, index, |operand| rows.value(row, operand));
            if let Some(values) = values {
                self.groups.take((plan, index), place, values, session)?;
            }
        }
        Ok(())
    }

    /// The groups of rows by one short key: found by the stored bytes, where those were seen
    /// before. Gives the number of rows with a group, up to the first row whose group has no room.
    fn places_by_short<'r>(
        &mut self,
        grouping: Grouping<'_, 'r>,
        rows: impl ManyRows<'r>,
        key: &Operand,
        places: &mut [u32],
    ) -> usize {
        for (row, place) in places.iter_mut().enumerate() {
            let short = rows.short(row, key);
            if let Some(known) = short.and_then(|short| self.by_short.get(short)) {
                *place = known;
                continue;
            }
            let found = self.place_of_row(grouping, |operand| rows.value(row, operand));
            let Some(found) = found else { return row };
            *place = found as u32;
            if let Some(short) = short {
                self.by_short.note(short, *place);
            }
        }
        places.len()
    }

    /// The groups of rows by one key, with equal keys side by side: if the first row and the last
    /// one have the same group, all rows between have, too; a row with a key stored like the one
    /// before is in the same group. Gives the number of rows with a group, as
    /// [`Groups::places_by_short`].
    fn places_in_order<'r>(
        &mut self,
        grouping: Grouping<'_, 'r>,
        rows: impl ManyRows<'r>,
        key: &'r Operand,
        places: &mut [u32],
    ) -> usize {
        let (_, group, _) = grouping;
        let (mut last, mut last_place) = (None, 0);
        let end = places.len().saturating_sub(1);
        if end > 1
            && let [(_, by)] = &*group.keys
            && is_equal(rows.value(0, key), rows.value(end, key), *by)
        {
            let first = self.place_of_row(grouping, |operand| rows.value(0, operand));
            let Some(first) = first else { return 0 };
            places.fill(first as u32);
            return places.len();
        }
        for (row, place) in places.iter_mut().enumerate() {
            let short = rows.short(row, key);
            if short.is_none() || short != last {
                let found = self.place_of_row(grouping, |operand| rows.value(row, operand));
                let Some(found) = found else { return row };
                // Four billion groups do not fit into memory.
                last_place = found as u32;
                last = short;
            }
            *place = last_place;
        }
        places.len()
    }

    /// The group of a row, begun at the first row of its keys; `None` without room for the group.
    #[inline]
    fn place_of_row<'v>(
        &mut self,
        (plan, group, session): Grouping<'_, 'v>,
        value: impl Fn(&'v Operand) -> ValueRef<'v>,
    ) -> Option<usize> {
        let from = |from| value(operand_of(group, from));
        if let [(operand, by)] = &*group.keys {
            // One key, read once.
            let key = value(operand);
            self.place_of(
                (plan, session),
                |seed| hash_value(key, *by, seed),
                |groups, place| is_equal(key, groups.key(plan, place, 0), *by),
                from,
            )
        } else {
            let keys = || group.keys.iter().map(|(operand, by)| (value(operand), *by));
            self.place_of(
                (plan, session),
                |seed| keys().fold(seed, |hash, (value, by)| hash_value(value, by, hash)),
                |groups, place| {
                    let mut pairs = keys().zip(groups.keys(plan, place));
                    pairs.all(|((value, by), known)| is_equal(value, known, by))
                },
                from,
            )
        }
    }

    #[inline]
    fn take_row(
        &mut self,
        (plan, group): (&GroupPlan, &GroupInput),
        row: RowView<'_, '_, '_>,
        session: &dyn Session,
    ) -> Result<(), Error> {
        let grouping = (plan, group, session);
        let Some(place) = self.place_of_row(grouping, |operand| row.value(operand)) else {
            let value = |operand| row.value(operand);
            return self.rows_waiting().push_columns(plan, group, session, value);
        };
        for (index, argument) in group.arguments.iter().enumerate() {
            let value = argument.as_ref().map(|argument| row.value(argument));
            if let Some(MoreOfAggregate { second, filter }) = group.more.get(index) {
                let holds = |filter| truth(row.value(filter)) == Some(true);
                if !filter.as_ref().is_none_or(holds) {
                    continue;
                }
                if let (Some(value), Some(second)) = (value, second) {
                    let state = self.groups.state(plan, place, index);
                    state.step_two([value, row.value(second)])?;
                    continue;
                }
            }
            if let Some(value) = value
                && !self.groups.is_new((plan, index), place, value, session)?
            {
                continue;
            }
            let holds = self.groups.state(plan, place, index).step_borrowed(value)?;
            if holds && plan.picks == Some(index) {
                let kept = group.kept.iter().map(|operand| row.value(operand));
                self.groups.keep(plan, place, kept);
            }
        }
        Ok(())
    }

    /// The current row's group, begun at the first row of its keys; `None` without room for the
    /// group.
    fn place(
        &mut self,
        plan: &GroupPlan,
        machine: &mut Machine<'_, '_>,
    ) -> Result<Option<usize>, Error> {
        if plan.keys.is_empty() && self.groups.len() > 0 {
            return Ok(Some(0));
        }
        for (code, _) in &plan.keys {
            eval(machine, code)?;
        }
        let registers = &machine.registers;
        let key = |key: usize| registers[plan.keys[key].0.result].as_ref();
        let hash = |seed| {
            let keys = plan.keys.iter().enumerate();
            keys.fold(seed, |hash, (index, (_, by))| hash_value(key(index), *by, hash))
        };
        let equals = |groups: &GroupStore, place: usize| {
            let mut keys = groups.keys(plan, place).zip(&plan.keys).enumerate();
            keys.all(|(index, (known, (_, by)))| is_equal(key(index), known, *by))
        };
        let value = |from| match from {
            From::Key(index) => key(index),
            From::Kept(kept) => registers[plan.kept[kept]].as_ref(),
        };
        Ok(self.place_of((plan, machine.session), hash, equals, value))
    }

    /// The group of a row given by functions: the hash of its keys, their equality with a group's
    /// keys, and its values. The group is begun at the first row of its keys; `None` without room.
    #[inline]
    fn place_of<'v>(
        &mut self,
        (plan, session): (&GroupPlan, &dyn Session),
        hash: impl FnOnce(u64) -> u64,
        equals: impl Fn(&GroupStore, usize) -> bool,
        value: impl Fn(From) -> ValueRef<'v>,
    ) -> Option<usize> {
        if plan.keys.is_empty() {
            return Some(self.only_place(plan, session, value));
        }
        if plan.ordered {
            return match self.groups.len().checked_sub(1) {
                Some(last) if equals(&self.groups, last) => Some(last),
                _ if self.overflow.is_some() => None,
                _ => Some(self.start(plan, session, value)),
            };
        }
        let hash = hash(0);
        let groups = &self.groups;
        let found = self.by_key.find(hash, |place| equals(groups, place));
        if found.is_some() || self.overflow.is_some() {
            return found;
        }
        self.by_key.insert(hash);
        Some(self.start(plan, session, value))
    }

    /// The only group, of a select without keys.
    #[inline]
    fn only_place<'v>(
        &mut self,
        plan: &GroupPlan,
        session: &dyn Session,
        value: impl Fn(From) -> ValueRef<'v>,
    ) -> usize {
        if self.groups.len() == 0 {
            self.start(plan, session, value);
        }
        0
    }

    /// Begins a group. Behind the first group without room, rows of new groups wait.
    #[inline(never)]
    fn start<'v>(
        &mut self,
        plan: &GroupPlan,
        session: &dyn Session,
        value: impl Fn(From) -> ValueRef<'v>,
    ) -> usize {
        let keys = (0..plan.keys.len()).map(|key| value(From::Key(key)));
        let kept = (0..plan.kept.len()).map(|kept| value(From::Kept(kept)));
        let place = self.groups.begin(plan, keys, kept);
        if !self.count(plan, session, place) && !plan.keys.is_empty() {
            self.overflow = Some(Box::new(Overflow::new(plan)));
        }
        place
    }

    /// Counts the bytes of a new group; false where there is no room for more groups.
    fn count(&mut self, plan: &GroupPlan, session: &dyn Session, place: usize) -> bool {
        let groups = &self.groups;
        self.kept.try_add(session, || {
            let kept = (0..plan.kept.len()).map(|kept| groups.kept(plan, place, kept));
            let size = GroupStore::size(plan, groups.keys(plan, place).chain(kept));
            // Aggregates over distinct values, and with an order, grow.
            let grows =
                |aggregate: &&AggregatePlan| aggregate.distinct || !aggregate.order.is_empty();
            (size, plan.aggregates.iter().filter(grows).count() * SPILL_BYTES_MIN as usize)
        })
    }

    /// The rows waiting without room for their groups.
    fn rows_waiting(&mut self) -> &mut Overflow {
        self.overflow.as_mut().expect("rows wait behind the group that took the last room")
    }

    /// The number of groups.
    pub(super) fn len(&self) -> usize {
        self.groups.len()
    }

    /// The number of rows given by pipelines.
    pub(super) fn taken(&self) -> u64 {
        self.taken
    }

    /// Forgets the groups and keeps their memory, for another run of the same plan.
    pub(super) fn clear(&mut self) {
        self.groups.clear();
        self.taken = 0;
        self.kept.clear();
        self.by_key.clear();
        self.by_short.clear();
        self.order.clear();
        (self.next, self.asked) = (0, 0);
        self.overflow = None;
        self.covered.clear();
    }

    /// Ends the gathering: groups will be given out by their keys, or as their rows came.
    pub(super) fn finish(&mut self, plan: &GroupPlan, session: &dyn Session) -> Result<(), Error> {
        if plan.keys.is_empty() && self.groups.len() == 0 {
            self.start(plan, session, |_| ValueRef::Null);
        }
        self.order.clear();
        // Four billion groups do not fit into memory.
        let places = 0..self.groups.len() as u32;
        let groups = &self.groups;
        let passing = places.filter(|&place| groups.may_pass(plan, place as usize));
        self.order.extend(passing.map(|place| (0, place)));
        if let Some(overflow) = &mut self.overflow {
            overflow.finish(session)?;
        }
        if !plan.ordered && !plan.distinct {
            self.sort(plan);
        }
        Ok(())
    }

    /// Puts the groups in the order of their keys: by a number made of the first key's beginning,
    /// and where the numbers are equal by all keys.
    fn sort(&mut self, plan: &GroupPlan) {
        let Some(&(_, collation)) = plan.keys.first() else { return };
        let groups = &self.groups;
        let first = |place: u32| groups.key(plan, place as usize, 0);
        match self.common(plan) {
            // A prefix common to all texts tells none of them apart.
            Some(common) => {
                for (prefix, place) in &mut self.order {
                    if let ValueRef::Text(text) = first(*place) {
                        *prefix = first_bytes(text.get(common..).unwrap_or_default());
                    }
                }
            }
            None => {
                let column = KeyColumn { collation, descending: false };
                for (prefix, place) in &mut self.order {
                    *prefix = column.prefix(first(*place));
                }
            }
        }
        if self.order.len() < PARALLEL_MIN {
            self.order.sort_unstable_by_key(|&(prefix, _)| prefix);
        } else {
            self.order.par_sort_unstable_by_key(|&(prefix, _)| prefix);
        }
        for same in self.order.chunk_by_mut(|a, b| a.0 == b.0) {
            if same.len() == 1 {
                continue;
            }
            same.sort_unstable_by(|&(_, a), &(_, b)| {
                let pairs = groups.keys(plan, a as usize).zip(groups.keys(plan, b as usize));
                let mut orders = pairs.zip(&plan.keys).map(|((a, b), (_, by))| a.compare(b, *by));
                orders.find(|order| order.is_ne()).unwrap_or(Ordering::Equal).then(a.cmp(&b))
            });
        }
    }

    /// Length of the prefix common to the first keys of all groups; `None` unless all are texts
    /// ordered by their bytes.
    fn common(&self, plan: &GroupPlan) -> Option<usize> {
        let [(_, Collation::Binary), ..] = &*plan.keys else { return None };
        let mut firsts = (0..self.groups.len()).map(|place| self.groups.key(plan, place, 0));
        let Some(ValueRef::Text(mut common)) = firsts.next() else { return None };
        for first in firsts {
            let ValueRef::Text(text) = first else { return None };
            if !text.starts_with(common) {
                let same = common.iter().zip(text).take_while(|(a, b)| a == b).count();
                common = &common[..same];
            }
        }
        Some(common.len())
    }

    /// Appends the next group's values to `out`, as they are given; false when there is none.
    ///
    /// # Errors
    /// Errors of aggregates.
    pub(super) fn push_next(
        &mut self,
        plan: &GroupPlan,
        given: &[GroupColumn],
        session: &dyn Session,
        out: &mut Batch,
    ) -> Result<bool, Error> {
        let Some((groups, place)) = self.next_place(plan, session)? else { return Ok(false) };
        out.begin_row();
        for given in given {
            match given {
                GroupColumn::Kept(number) => {
                    out.push_value(groups.kept(plan, place, *number));
                }
                GroupColumn::Aggregate(number) => {
                    let value = groups.state(plan, place, *number).take();
                    let value = value.inspect_err(|_| out.take_back_row())?;
                    out.push_value(value.as_ref());
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
        let Some((groups, place)) = self.next_place(plan, machine.session)? else {
            return Ok(false);
        };
        groups.give(plan, place, machine)?;
        Ok(true)
    }

    /// The next group to be given: its store, and its number there.
    fn next_place(
        &mut self,
        plan: &GroupPlan,
        session: &dyn Session,
    ) -> Result<Option<(&mut GroupStore, usize)>, Error> {
        let place = self.order.get(self.next).map(|&(_, place)| place as usize);
        let groups = &mut self.groups;
        if let Some(overflow) = &mut self.overflow {
            let mut passes = false;
            while !passes && overflow.goes_first(plan, place.map(|place| groups.keys(plan, place)))
            {
                passes = overflow.gather_next(plan, session)?;
            }
            if passes {
                return Ok(Some((overflow.gathered(), 0)));
            }
        }
        let Some(place) = place else { return Ok(None) };
        self.next += 1;
        Ok(Some((groups, place)))
    }
}

/// The context for finding a row's group: the plan, the operands of keys, and the session with the
/// budget.
type Grouping<'p, 'v> = (&'p GroupPlan, &'v GroupInput, &'p dyn Session);

/// True for an aggregate to be fed row after row.
fn takes_each(plan: &GroupPlan, group: &GroupInput, index: usize) -> bool {
    let has_more = group.more.get(index).is_some_and(MoreOfAggregate::is_any);
    has_more || plan.aggregates[index].distinct
}

/// The arguments of an aggregate in a row, where the row passes the aggregate's filter.
#[inline(always)]
fn values_of<'v>(
    group: &'v GroupInput,
    index: usize,
    value: impl Fn(&'v Operand) -> ValueRef<'v>,
) -> Option<(Option<ValueRef<'v>>, Option<ValueRef<'v>>)> {
    let more = group.more.get(index);
    let filter = more.and_then(|more| more.filter.as_ref());
    if filter.is_some_and(|filter| truth(value(filter)) != Some(true)) {
        return None;
    }
    let second = more.and_then(|more| more.second.as_ref());
    Some((group.arguments[index].as_ref().map(&value), second.map(&value)))
}

/// The operand of a value kept by a group.
#[inline]
fn operand_of(group: &GroupInput, from: From) -> &Operand {
    match from {
        From::Key(key) => &group.keys[key].0,
        From::Kept(kept) => &group.kept[kept],
    }
}

/// Ranges of rowids whose groups can be gathered side by side; empty where they cannot.
pub(super) fn ranges_to_merge(
    plan: &GroupPlan,
    pipeline: &Pipeline,
    txn: &Transaction,
) -> Vec<(i64, i64)> {
    let merges = |aggregate: &AggregatePlan| aggregate.function.merges() && !aggregate.distinct;
    if plan.aggregates.iter().all(merges) && !plan.ordered {
        pipeline.ranges(txn)
    } else {
        Vec::new()
    }
}

/// Set as soon as one range has too many groups: the others end, and their errors do not count, as
/// all rows are taken once more.
#[derive(Debug, Default)]
pub(super) struct Stop(AtomicBool);

impl Stop {
    /// Ends the gathering where these groups are too many, or others were.
    pub(super) fn check(&self, groups: &Groups) -> Result<(), Error> {
        if groups.groups.len() > GROUPS_TO_MERGE_MAX || groups.overflow.is_some() {
            self.0.store(true, Relaxed);
        }
        match self.0.load(Relaxed) {
            true => Err(Error::Misuse { what: "groups that are too many were put together" }),
            false => Ok(()),
        }
    }
}

/// Most ranges of a large table read at once: bounds the groups waiting for their merge.
const RANGES_AT_ONCE: usize = 8;

/// With more groups in a range than this, merging them costs as much as it saves.
const GROUPS_TO_MERGE_MAX: usize = 1 << 12;

/// A value of a row kept by a group.
#[derive(Clone, Copy, Debug)]
enum From {
    Key(usize),
    Kept(usize),
}

/// The first eight bytes of a text as a number with the same order; zeros behind a shorter text.
#[inline]
fn first_bytes(text: &[u8]) -> u64 {
    if let Some(first) = text.first_chunk() {
        return u64::from_be_bytes(*first);
    }
    let mut first = [0; 8];
    first[..text.len()].copy_from_slice(text);
    u64::from_be_bytes(first)
}
