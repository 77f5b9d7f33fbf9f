//! Groups side by side: the keys of all of them in one list, their aggregates in another. A group
//! costs no allocation of its own.

use super::Machine;
use crate::Error;
use crate::functions::AggregateState;
use crate::keep::row_size;
use crate::keep::seen::Seen;
use crate::keep::sort::{Sorter, Values};
use crate::keep::value_list::ValueList;
use crate::plan::{AggregatePlan, GroupPlan};
use crate::session::Session;
use crate::value::{Collation, Value, ValueRef, assign};

/// Groups of one plan, by number from 0.
#[derive(Debug, Default)]
pub(super) struct GroupStore {
    len: usize,
    /// The keys of each group, then one row's values for columns neither keys nor aggregates.
    values: ValueList,
    /// The values of that row, where rows taken later replace the row.
    picked: Vec<Value>,
    states: Vec<AggregateState>,
    /// For aggregates with an order: the arguments so far, by their keys.
    waiting: Vec<Option<Sorter>>,
    /// For aggregates of distinct values: the values seen.
    seen: Vec<Option<Seen>>,
}

/// Number of values the list has for each group.
#[inline(always)]
fn width(plan: &GroupPlan) -> usize {
    plan.keys.len() + if plan.picks.is_some() { 0 } else { plan.kept.len() }
}

impl GroupStore {
    #[inline(always)]
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Estimated bytes of a group with these keys and values of a row.
    pub(super) fn size<'v>(plan: &GroupPlan, values: impl Iterator<Item = ValueRef<'v>>) -> usize {
        /// Cost of the group's entry by key, and of its place in the order.
        const PLACES: usize = 48;
        PLACES + plan.aggregates.len() * size_of::<AggregateState>() + row_size(values)
    }

    /// Begins a group with these keys and values of a row; gives its number.
    pub(super) fn begin<'v>(
        &mut self,
        plan: &GroupPlan,
        keys: impl Iterator<Item = ValueRef<'v>>,
        kept: impl Iterator<Item = ValueRef<'v>>,
    ) -> usize {
        keys.for_each(|key| self.values.push(key));
        if plan.picks.is_some() {
            self.picked.extend(kept.map(Value::from));
        } else {
            // A kept value is often a key's.
            let near = plan.keys.len()..;
            near.zip(kept).for_each(|(near, kept)| self.values.push_again(kept, near));
        }
        let start = |aggregate: &AggregatePlan| {
            aggregate.function.start(aggregate.collation, aggregate.json)
        };
        self.states.extend(plan.aggregates.iter().map(start));
        // Most are neither ordered nor distinct: nothing is kept of them then.
        if plan.aggregates.iter().any(|aggregate| aggregate.distinct) {
            let seen = |aggregate: &AggregatePlan| aggregate.distinct.then(Seen::default);
            self.seen.extend(plan.aggregates.iter().map(seen));
        }
        if plan.aggregates.iter().any(|aggregate| !aggregate.order.is_empty()) {
            self.waiting.extend(plan.aggregates.iter().map(|_| None));
        }
        self.len += 1;
        self.len - 1
    }

    /// A key of a group.
    #[inline(always)]
    pub(super) fn key(&self, plan: &GroupPlan, place: usize, number: usize) -> ValueRef<'_> {
        self.values.get(place * width(plan) + number)
    }

    /// The keys of a group.
    #[inline]
    pub(super) fn keys(
        &self,
        plan: &GroupPlan,
        place: usize,
    ) -> impl Iterator<Item = ValueRef<'_>> + Clone {
        self.values.values(place * width(plan), plan.keys.len())
    }

    /// A value of the row kept for a group.
    #[inline]
    pub(super) fn kept(&self, plan: &GroupPlan, place: usize, number: usize) -> ValueRef<'_> {
        if plan.picks.is_some() {
            self.picked[place * plan.kept.len() + number].as_ref()
        } else {
            self.values.get(place * width(plan) + plan.keys.len() + number)
        }
    }

    /// Replaces a group's kept row, when an aggregate picks another.
    pub(super) fn keep<'v>(
        &mut self,
        plan: &GroupPlan,
        place: usize,
        kept: impl Iterator<Item = ValueRef<'v>>,
    ) {
        let from = place * plan.kept.len();
        for (target, value) in self.picked.iter_mut().skip(from).zip(kept) {
            assign(target, value);
        }
    }

    /// All aggregates of a group.
    #[inline(always)]
    pub(super) fn states(&mut self, plan: &GroupPlan, place: usize) -> &mut [AggregateState] {
        let width = plan.aggregates.len();
        &mut self.states[place * width..(place + 1) * width]
    }

    /// The state of a group's aggregate.
    #[inline(always)]
    pub(super) fn state(
        &mut self,
        plan: &GroupPlan,
        place: usize,
        index: usize,
    ) -> &mut AggregateState {
        &mut self.states[place * plan.aggregates.len() + index]
    }

    /// False for a group that an aggregate's value keeps from passing the `HAVING`.
    #[inline]
    pub(super) fn may_pass(&self, plan: &GroupPlan, place: usize) -> bool {
        plan.tests.iter().all(|test| {
            let state = &self.states[place * plan.aggregates.len() + test.aggregate];
            if let (Some(count), Value::Int(number)) = (state.count(), &test.number) {
                return test.op.holds(count.cmp(number));
            }
            match state.number() {
                None => true,
                Some(Value::Null) => false,
                Some(value) => {
                    let order = value.as_ref().compare(test.number.as_ref(), Collation::Binary);
                    test.op.holds(order)
                }
            }
        })
    }

    /// Forgets the groups from number `from` on that fail the plan's tests, but the last group,
    /// whose rows may still come; gives that group's number. For plans whose groups end one after
    /// the other, with plain aggregates, and the first row's values kept, if any.
    pub(super) fn drop_failing(&mut self, plan: &GroupPlan, from: usize) -> usize {
        let (width, aggregates) = (width(plan), plan.aggregates.len());
        let mut to = from;
        for place in from..self.len {
            if place + 1 < self.len && !self.may_pass(plan, place) {
                continue;
            }
            if to < place {
                self.values.move_down(place * width, to * width, width);
                (0..aggregates).for_each(|index| {
                    self.states.swap(place * aggregates + index, to * aggregates + index);
                });
            }
            to += 1;
        }
        self.values.truncate(to * width);
        self.states.truncate(to * aggregates);
        self.len = to;
        to.saturating_sub(1)
    }

    /// True where an aggregate takes a value: one over distinct values refuses values taken before.
    ///
    /// # Errors
    /// As [`Seen::insert`].
    #[inline]
    pub(super) fn is_new(
        &mut self,
        (plan, index): (&GroupPlan, usize),
        place: usize,
        value: ValueRef<'_>,
        session: &dyn Session,
    ) -> Result<bool, Error> {
        match self.seen.get_mut(place * plan.aggregates.len() + index) {
            Some(Some(seen)) => seen.insert(session, value, plan.aggregates[index].collation),
            _ => Ok(true),
        }
    }

    /// Feeds one aggregate without an order its arguments, a known value of an aggregate over
    /// distinct ones left out; true where the row has the aggregate's value.
    ///
    /// # Errors
    /// Errors of aggregates, and of files for spilled values.
    #[inline(always)]
    pub(super) fn take(
        &mut self,
        (plan, index): (&GroupPlan, usize),
        place: usize,
        (first, second): (Option<ValueRef<'_>>, Option<ValueRef<'_>>),
        session: &dyn Session,
    ) -> Result<bool, Error> {
        let Some(value) = first else {
            return self.state(plan, place, index).step_borrowed(None);
        };
        if let Some(second) = second {
            self.state(plan, place, index).step_two([value, second])?;
            return Ok(false);
        }
        if !self.is_new((plan, index), place, value, session)? {
            return Ok(false);
        }
        let state = self.state(plan, place, index);
        if plan.picks != Some(index) && state.step_number(value) {
            return Ok(false);
        }
        state.step_borrowed(Some(value))
    }

    /// Takes one aggregate's arguments, the keys of its order, and the row's kept values.
    ///
    /// # Errors
    /// Errors of aggregates, and when spilled values cannot be written to a file.
    pub(super) fn step<'v>(
        &mut self,
        (plan, index): (&GroupPlan, usize),
        place: usize,
        arguments: &'v [Value],
        keys: impl Iterator<Item = ValueRef<'v>> + Clone,
        kept: impl Iterator<Item = ValueRef<'v>>,
        session: &dyn Session,
    ) -> Result<(), Error> {
        let aggregate = &plan.aggregates[index];
        if let Some(value) = arguments.first()
            && !self.is_new((plan, index), place, value.as_ref(), session)?
        {
            return Ok(());
        }
        if !aggregate.order.is_empty() {
            let waiting = &mut self.waiting[place * plan.aggregates.len() + index];
            let value = |place: usize| match arguments.get(place) {
                Some(argument) => argument.as_ref(),
                None => keys.clone().nth(place - arguments.len()).unwrap_or(ValueRef::Null),
            };
            let values = Values { first: 0, width: arguments.len() };
            let waiting = waiting.get_or_insert_default();
            return waiting.push(session, (values, &aggregate.sort), value, None);
        }
        if self.state(plan, place, index).step(arguments)? && plan.picks == Some(index) {
            self.keep(plan, place, kept);
        }
        Ok(())
    }

    /// Puts a group's values into the registers. Its aggregates are given once.
    ///
    /// # Errors
    /// As [`GroupStore::step`].
    pub(super) fn give(
        &mut self,
        plan: &GroupPlan,
        place: usize,
        machine: &mut Machine<'_, '_>,
    ) -> Result<(), Error> {
        self.take_waiting(plan, place, machine.session)?;
        for (aggregate, state) in plan.aggregates.iter().zip(self.states(plan, place)) {
            machine.registers[aggregate.result] = state.take()?;
        }
        for (number, &reg) in plan.kept.iter().enumerate() {
            assign(&mut machine.registers[reg], self.kept(plan, place, number));
        }
        Ok(())
    }

    /// Feeds aggregates with an order their sorted rows.
    fn take_waiting(
        &mut self,
        plan: &GroupPlan,
        place: usize,
        session: &dyn Session,
    ) -> Result<(), Error> {
        if self.waiting.is_empty() {
            return Ok(());
        }
        let mut row = Vec::new();
        for (index, aggregate) in plan.aggregates.iter().enumerate() {
            let waiting = &mut self.waiting[place * plan.aggregates.len() + index];
            let Some(mut rows) = waiting.take() else { continue };
            rows.sort(session, &aggregate.sort)?;
            row.resize(aggregate.arguments.len(), Value::Null);
            while let Some(values) = rows.next_row(&aggregate.sort)? {
                for (target, value) in row.iter_mut().zip(values) {
                    assign(target, value);
                }
                self.state(plan, place, index).step(&row)?;
            }
        }
        Ok(())
    }

    /// The aggregates of all groups, one group's behind the other's. The groups have none then.
    pub(super) fn take_states(&mut self) -> std::vec::IntoIter<AggregateState> {
        std::mem::take(&mut self.states).into_iter()
    }

    /// Adds a group of another store, with these aggregates.
    pub(super) fn push(
        &mut self,
        plan: &GroupPlan,
        (other, place): (&GroupStore, usize),
        states: impl Iterator<Item = AggregateState>,
    ) {
        let from = place * width(plan);
        for (number, value) in other.values.values(from, width(plan)).enumerate() {
            self.values.push_again(value, number);
        }
        if plan.picks.is_some() {
            let from = place * plan.kept.len();
            self.picked.extend_from_slice(&other.picked[from..from + plan.kept.len()]);
        }
        self.states.extend(states);
        self.len += 1;
    }

    /// Forgets the first group; the others are counted from 0 then.
    pub(super) fn remove_first(&mut self, plan: &GroupPlan) {
        let aggregates = plan.aggregates.len();
        self.values.remove_first(width(plan));
        self.picked.drain(..plan.kept.len().min(self.picked.len()));
        self.states.drain(..aggregates);
        self.waiting.drain(..aggregates.min(self.waiting.len()));
        self.seen.drain(..aggregates.min(self.seen.len()));
        self.len -= 1;
    }

    /// Forgets all groups and keeps the memory.
    pub(super) fn clear(&mut self) {
        self.len = 0;
        self.values.clear();
        self.picked.clear();
        self.states.clear();
        self.waiting.clear();
        self.seen.clear();
    }
}
