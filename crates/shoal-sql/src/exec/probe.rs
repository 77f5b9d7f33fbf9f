//! Queries within expressions with rows straight from the pages: run for one outer row after the
//! other, with the memory of the run before.

use std::cmp::Ordering;

use super::Machine;
use super::eval;
use super::group::Groups;
use super::pipeline::Memory;
use crate::Error;
use crate::exec::eval_condition;
use crate::functions::AggregateState;
use crate::keep::SortPlan;
use crate::keep::key::{is_equal, with_converted};
use crate::keep::sort::compare;
use crate::plan::node::ProbeNode;
use crate::plan::{GroupPlan, Reg};
use crate::value::{InRule, Value, ValueRef, assign};

impl ProbeNode {
    /// True where few rows of one table are found at once.
    pub(super) fn is_quick(&self) -> bool {
        self.group.is_none() && self.pipeline.is_quick()
    }
}

/// Memory of such a query, from one run to the next.
#[derive(Debug)]
pub(super) struct Probe {
    memory: Memory,
    /// The outputs of a row.
    values: Vec<Value>,
    states: Vec<AggregateState>,
    /// Groups, for a query whose group needs more than states.
    groups: Option<Box<Groups>>,
}

impl Probe {
    fn new(plan: &ProbeNode) -> Probe {
        let values = vec![Value::Null; plan.outputs.len()];
        Probe { memory: Memory::new(&plan.pipeline), values, states: Vec::new(), groups: None }
    }
}

/// True where a group is nothing but the states of its aggregates.
fn is_bare(group: &GroupPlan) -> bool {
    group.kept.is_empty() && group.aggregates.iter().all(|aggregate| !aggregate.distinct)
}

impl Machine<'_, '_> {
    /// Runs `run` with the query's memory, and with the registers as its parameters.
    #[inline]
    fn with_probe<T>(
        &mut self,
        index: usize,
        plan: &ProbeNode,
        run: impl FnOnce(&mut Machine<'_, '_>, &mut Probe, &mut [Value]) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let known = self.queries[index].probe.take();
        let mut probe = known.unwrap_or_else(|| Box::new(Probe::new(plan)));
        // Nothing reads them elsewhere while rows are found.
        let mut registers = std::mem::take(&mut self.registers);
        let result = run(self, &mut probe, &mut registers);
        self.registers = registers;
        self.queries[index].probe = Some(probe);
        result
    }

    /// True where the query has a row.
    ///
    /// # Errors
    /// Errors of aggregates and their conditions, and of the file.
    pub(super) fn probe_any(&mut self, index: usize, plan: &ProbeNode) -> Result<bool, Error> {
        if plan.group.is_some() {
            return self.probe_first(index, plan);
        }
        let pipeline = &plan.pipeline;
        let txn = self.txn(pipeline.database)?;
        self.with_probe(index, plan, |_, probe, around| {
            Ok(pipeline.meets_constant(around)
                && pipeline.has_row(txn, around, &mut probe.memory)?)
        })
    }

    /// Asks a query without groups for many outer rows: calls `has_row` for each, in order, with
    /// true where the query has a row. `read` pairs the registers read of the outer rows with
    /// numbers, and `value` gives a register's value by a row and such a number.
    ///
    /// # Errors
    /// Errors of the file.
    pub(super) fn probe_many<'v>(
        &mut self,
        (index, plan): (usize, &ProbeNode),
        rows: usize,
        read: &[(Reg, usize)],
        value: impl Fn(usize, usize) -> ValueRef<'v>,
        mut has_row: impl FnMut(bool),
    ) -> Result<(), Error> {
        let pipeline = &plan.pipeline;
        let txn = self.txn(pipeline.database)?;
        self.with_probe(index, plan, |_, probe, around| {
            let memory = &mut probe.memory;
            if let (Some(key), [(reg, _)]) = (pipeline.rowid_around(), read)
                && key == *reg
            {
                let mut next = 0;
                let values = (0..rows).map(|row| value(row, 0));
                pipeline.for_each_there((txn, around), memory, values, |row| {
                    (next..row).for_each(|_| has_row(false));
                    has_row(true);
                    next = row + 1;
                })?;
                (next..rows).for_each(|_| has_row(false));
                return Ok(());
            }
            for row in 0..rows {
                for (number, &(reg, _)) in read.iter().enumerate() {
                    assign(&mut around[reg], value(row, number));
                }
                has_row(pipeline.meets_constant(around) && pipeline.has_row(txn, around, memory)?);
            }
            Ok(())
        })
    }

    /// Puts the query's first row into its registers; false when there is none.
    ///
    /// # Errors
    /// As [`Machine::probe_any`], and errors of expressions.
    pub(super) fn probe_first(&mut self, index: usize, plan: &ProbeNode) -> Result<bool, Error> {
        let ProbeNode { pipeline, group, outputs: codes, sort } = plan;
        if let Some(group) = group {
            return self.probe_group(index, plan, group);
        }
        let txn = self.txn(pipeline.database)?;
        let outputs = pipeline.outputs.as_deref().unwrap_or_default();
        let found = self.with_probe(index, plan, |_, probe, around| {
            let Probe { memory, values, .. } = probe;
            let mut found = false;
            if pipeline.meets_constant(around) {
                pipeline.for_each_found(txn, around, memory, sort.is_none(), |row| {
                    let precedes = |(sort, output): &(SortPlan, Reg)| {
                        let orders = sort.keys.iter().map(|key| {
                            let number = key.reg - output;
                            let value = row.value(&outputs[number]);
                            compare(value, values[number].as_ref(), *key)
                        });
                        orders.into_iter().find(|order| order.is_ne()) == Some(Ordering::Less)
                    };
                    // Of rows that are equal by the order the one found first stays.
                    if !found || sort.as_ref().is_some_and(precedes) {
                        found = true;
                        for (value, operand) in values.iter_mut().zip(outputs) {
                            assign(value, row.value(operand));
                        }
                    }
                    Ok(sort.is_some())
                })?;
            }
            Ok(found)
        })?;
        if found && let Some(probe) = &mut self.queries[index].probe {
            for (value, output) in probe.values.iter_mut().zip(codes) {
                std::mem::swap(value, &mut self.registers[output.result]);
            }
        }
        Ok(found)
    }

    /// As [`Machine::probe_first`] for a query making one group of its rows.
    fn probe_group(
        &mut self,
        index: usize,
        plan: &ProbeNode,
        group: &GroupPlan,
    ) -> Result<bool, Error> {
        let pipeline = &plan.pipeline;
        let txn = self.txn(pipeline.database)?;
        let bare = is_bare(group) && pipeline.is_quick();
        self.with_probe(index, plan, |machine, probe, around| {
            let Probe { memory, states, groups, .. } = probe;
            let meets = pipeline.meets_constant(around);
            if !bare {
                let groups = groups.get_or_insert_default();
                groups.clear();
                if meets {
                    groups.add_inner(group, pipeline, (txn, around, machine.session), memory)?;
                }
                return groups.finish(group, machine.session);
            }
            states.clear();
            states.extend(
                group
                    .aggregates
                    .iter()
                    .map(|aggregate| aggregate.function.start(aggregate.collation, aggregate.json)),
            );
            if !meets {
                return Ok(());
            }
            if let Some(count) = pipeline.count_found(txn, around, memory)? {
                // A tree has fewer entries.
                states.iter_mut().for_each(|state| state.add_rows(count as i64));
                return Ok(());
            }
            let arguments = pipeline.group.as_ref().map(|group| &*group.arguments);
            let arguments = arguments.unwrap_or_default();
            pipeline.for_each_found(txn, around, memory, false, |row| {
                let mut is_null = true;
                for (state, argument) in states.iter_mut().zip(arguments) {
                    let Some(argument) = argument else {
                        state.add_rows(1);
                        continue;
                    };
                    let value = row.value(argument);
                    is_null &= value == ValueRef::Null;
                    if !state.step_number(value) {
                        state.step_borrowed(Some(value))?;
                    }
                }
                // A group ending early has one aggregate, and the first value other than NULL
                // decides.
                Ok(!group.ends_early || is_null)
            })
        })?;
        let Some(mut probe) = self.queries[index].probe.take() else { return Ok(false) };
        let found = self.give_group(plan, group, &mut probe, bare);
        self.queries[index].probe = Some(probe);
        found
    }

    /// Puts the group's values into registers; false where a condition drops the group.
    fn give_group(
        &mut self,
        plan: &ProbeNode,
        group: &GroupPlan,
        probe: &mut Probe,
        bare: bool,
    ) -> Result<bool, Error> {
        if bare {
            for (state, aggregate) in probe.states.iter_mut().zip(&group.aggregates) {
                self.registers[aggregate.result] = state.take()?;
            }
        } else if let Some(groups) = &mut probe.groups
            && !groups.next(group, self)?
        {
            return Ok(false);
        }
        if let Some(having) = &group.having
            && !eval_condition(self, having)?
        {
            return Ok(false);
        }
        for output in &plan.outputs {
            eval(self, output)?;
        }
        Ok(true)
    }

    /// True where a value is among the query's, by its first output; NULL where only a NULL could
    /// tell. The search ends at the first equal row.
    ///
    /// # Errors
    /// Errors of the file.
    pub(super) fn probe_in(
        &mut self,
        index: usize,
        plan: &ProbeNode,
        from: usize,
        rule: InRule,
    ) -> Result<Option<bool>, Error> {
        let pipeline = &plan.pipeline;
        let txn = self.txn(pipeline.database)?;
        let output = pipeline.outputs.as_deref().and_then(|outputs| outputs.first());
        self.with_probe(index, plan, |_, probe, around| {
            let (mut found, mut empty, mut has_null) = (false, true, false);
            let wanted = around[from].as_ref();
            let is_null = wanted == ValueRef::Null;
            if !pipeline.meets_constant(around) {
                return Ok(Some(false));
            }
            with_converted(wanted, rule.affinity, |wanted| {
                pipeline.for_each_found(txn, around, &mut probe.memory, is_null, |row| {
                    empty = false;
                    // Nothing is equal to NULL, but whether there is a row at all still counts.
                    if is_null || found {
                        return Ok(false);
                    }
                    match output.map_or(ValueRef::Null, |output| row.value(output)) {
                        ValueRef::Null => has_null = true,
                        value => {
                            found = with_converted(value, rule.affinity, |value| {
                                is_equal(value, wanted, rule.collation)
                            });
                        }
                    }
                    Ok(!found)
                })
            })?;
            Ok(match found || empty {
                true => Some(found),
                false => (!is_null && !has_null).then_some(false),
            })
        })
    }
}
