//! Groups and their aggregates.

use std::cmp::Ordering;

use rustc_hash::FxHashMap;

use super::key::{RowSet, push_key};
use super::{Machine, assign};
use crate::Error;
use crate::expr::{eval, eval_condition};
use crate::functions::AggregateState;
use crate::plan::GroupPlan;
use crate::value::Value;

/// The groups of one select, gathered from all its rows.
#[derive(Debug, Default)]
pub(super) struct Groups {
    groups: Vec<Group>,
    by_key: FxHashMap<Box<[u8]>, usize>,
    /// The order in which groups are given out: by their keys.
    order: Vec<usize>,
    next: usize,
    buffer: Vec<u8>,
}

#[derive(Debug)]
struct Group {
    keys: Vec<Value>,
    states: Vec<AggregateState>,
    /// For aggregates over distinct values: those seen.
    seen: Vec<Option<RowSet>>,
    /// The values of one row, for what is neither key nor aggregate.
    kept: Vec<Value>,
}

impl Groups {
    /// Takes the current row.
    pub(super) fn add(
        &mut self,
        plan: &GroupPlan,
        machine: &mut Machine<'_, '_>,
    ) -> Result<(), Error> {
        let place = self.place(plan, machine)?;
        for (index, aggregate) in plan.aggregates.iter().enumerate() {
            if let Some(filter) = &aggregate.filter
                && !eval_condition(machine, filter)?
            {
                continue;
            }
            for argument in &aggregate.arguments {
                eval(machine, argument)?;
            }
            let group = &mut self.groups[place];
            let range = aggregate.first..aggregate.first + aggregate.arguments.len();
            let arguments = &machine.registers[range];
            if let Some(seen) = &mut group.seen[index]
                && !seen.insert(arguments, &[aggregate.collation])
            {
                continue;
            }
            let holds = group.states[index].step(arguments)?;
            if holds && plan.picks == Some(index) {
                for (kept, &reg) in group.kept.iter_mut().zip(&plan.kept) {
                    assign(kept, machine.registers[reg].as_ref());
                }
            }
        }
        Ok(())
    }

    /// The current row's group, which is made when it is the first of its keys.
    fn place(&mut self, plan: &GroupPlan, machine: &mut Machine<'_, '_>) -> Result<usize, Error> {
        if plan.keys.is_empty() {
            if self.groups.is_empty() {
                self.start(plan, machine);
            }
            return Ok(0);
        }
        self.buffer.clear();
        for (code, collation) in &plan.keys {
            eval(machine, code)?;
            push_key(machine.registers[code.result].as_ref(), *collation, &mut self.buffer);
        }
        if let Some(&place) = self.by_key.get(self.buffer.as_slice()) {
            return Ok(place);
        }
        let place = self.start(plan, machine);
        self.by_key.insert(self.buffer.as_slice().into(), place);
        Ok(place)
    }

    fn start(&mut self, plan: &GroupPlan, machine: &Machine<'_, '_>) -> usize {
        let registers = &machine.registers;
        let keys = plan.keys.iter().map(|(code, _)| registers[code.result].clone()).collect();
        let kept = plan.kept.iter().map(|&reg| registers[reg].clone()).collect();
        self.groups.push(Group::new(plan, keys, kept));
        self.groups.len() - 1
    }

    /// Ends the gathering: groups will be given out by their keys.
    pub(super) fn finish(&mut self, plan: &GroupPlan) {
        if plan.keys.is_empty() && self.groups.is_empty() {
            let kept = vec![Value::Null; plan.kept.len()];
            self.groups.push(Group::new(plan, Vec::new(), kept));
        }
        self.by_key = FxHashMap::default();
        self.order = (0..self.groups.len()).collect();
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
    }

    /// Puts the next group's values into the registers; false when there is none.
    pub(super) fn next(
        &mut self,
        plan: &GroupPlan,
        machine: &mut Machine<'_, '_>,
    ) -> Result<bool, Error> {
        let Some(&place) = self.order.get(self.next) else { return Ok(false) };
        self.next += 1;
        let group = &self.groups[place];
        for (aggregate, state) in plan.aggregates.iter().zip(&group.states) {
            machine.registers[aggregate.result] = state.finish()?;
        }
        for (kept, &reg) in group.kept.iter().zip(&plan.kept) {
            assign(&mut machine.registers[reg], kept.as_ref());
        }
        Ok(true)
    }
}

impl Group {
    fn new(plan: &GroupPlan, keys: Vec<Value>, kept: Vec<Value>) -> Group {
        let states = plan
            .aggregates
            .iter()
            .map(|aggregate| aggregate.function.start(aggregate.collation))
            .collect();
        let seen = plan
            .aggregates
            .iter()
            .map(|aggregate| aggregate.distinct.then(RowSet::default))
            .collect();
        Group { keys, states, seen, kept }
    }
}
