//! Window functions: rows are gathered, ordered once per window, and every function is computed
//! for each row from the rows of its frame.
//!
//! Frames only move forwards within a partition. So counts and sums add the rows that enter and
//! take back those that leave, `min` and `max` keep the rows that may still become the extreme;
//! only frames with an `EXCLUDE`, and functions whose result is as long as the frame, are computed
//! row by row. Where memory is limited and rows do not fit, they go through files
//! ([`Partitions`]).

use std::cmp::Ordering;
use std::collections::VecDeque;
use std::ops::Range;

use super::partitions::Partitions;
use super::sort::compare;
use super::{Kept, Machine, assign, row_size};
use crate::Error;
use crate::expr::{Code, eval, eval_condition};
use crate::functions::{AggregateFunction, AggregateState, Session, WindowFunction};
use crate::parse::ast::{FrameExclude, FrameUnit};
use crate::plan::{BoundPlan, SortKey, WindowCallPlan, WindowPass, WindowPlan};
use crate::value::{self, Affinity, Value};

/// Gathered rows and their functions' results.
#[derive(Debug, Default)]
pub(super) struct WindowRun {
    /// What is kept of each row, row by row.
    kept: Vec<Value>,
    passes: Vec<PassRows>,
    rows: usize,
    order: Vec<usize>,
    next: usize,
    /// What all of it takes.
    bytes: Kept,
    /// A row on its way in.
    row: Vec<Value>,
    /// Where the rows are that do not fit into memory.
    partitions: Option<Box<Partitions>>,
}

/// What one window needs of the rows.
#[derive(Debug, Default)]
pub(super) struct PassRows {
    keys: Vec<Value>,
    calls: Vec<CallRows>,
}

#[derive(Debug, Default)]
struct CallRows {
    arguments: Vec<Value>,
    /// Whether the call's `FILTER` lets the row in; empty when it has none.
    passes: Vec<bool>,
    results: Vec<Value>,
}

impl CallRows {
    fn arguments(&self, call: &WindowCallPlan, row: usize) -> &[Value] {
        let width = call.arguments.len();
        &self.arguments[row * width..(row + 1) * width]
    }

    fn lets_in(&self, row: usize) -> bool {
        self.passes.get(row).copied().unwrap_or(true)
    }
}

impl WindowRun {
    /// Takes the current row.
    pub(super) fn add(
        &mut self,
        plan: &WindowPlan,
        machine: &mut Machine<'_, '_>,
    ) -> Result<(), Error> {
        let mut row = std::mem::take(&mut self.row);
        current_row(plan, machine, &mut row)?;
        let session = machine.session;
        if let Some(partitions) = &mut self.partitions {
            partitions.push(session, &row)?;
            self.row = row;
            return Ok(());
        }
        // The results come to it.
        let size = 2 * row_size(row.iter().map(Value::as_ref));
        if session.budget().is_some_and(|budget| !budget.has_room(size)) {
            let mut partitions = Box::new(Partitions::new(plan, self, session)?);
            partitions.push(session, &row)?;
            *self = WindowRun { partitions: Some(partitions), ..WindowRun::default() };
            return Ok(());
        }
        self.bytes.add(session, size)?;
        self.rows += 1;
        if self.passes.is_empty() {
            self.passes.extend(plan.passes.iter().map(|pass| PassRows::new(pass, 0)));
        }
        let mut values = row.drain(..);
        self.kept.extend(values.by_ref().take(plan.kept.len()));
        for (pass, rows) in plan.passes.iter().zip(&mut self.passes) {
            rows.push(pass, &mut values);
        }
        drop(values);
        self.row = row;
        Ok(())
    }

    /// How many rows were gathered.
    pub(super) fn row_count(&self) -> usize {
        self.rows
    }

    /// A gathered row, as [`current_row`] gave it.
    pub(super) fn row(&self, plan: &WindowPlan, number: usize) -> Vec<Value> {
        let of =
            |values: &[Value], width: usize| values[number * width..(number + 1) * width].to_vec();
        let mut row = of(&self.kept, plan.kept.len());
        for (pass, rows) in plan.passes.iter().zip(&self.passes) {
            row.extend(of(&rows.keys, pass.keys.len()));
            for (call, rows) in pass.calls.iter().zip(&rows.calls) {
                row.extend_from_slice(rows.arguments(call, number));
                if call.filter.is_some() {
                    row.push(Value::Int(rows.lets_in(number).into()));
                }
            }
        }
        row
    }

    /// Ends the gathering and computes every function.
    pub(super) fn finish(
        &mut self,
        plan: &WindowPlan,
        machine: &mut Machine<'_, '_>,
    ) -> Result<(), Error> {
        let any = self.rows > 0 || self.partitions.is_some();
        let mut ends = Vec::with_capacity(plan.passes.len());
        for pass in &plan.passes {
            // SQLite gives the others a frame of their own, whatever is written.
            if !pass.calls.iter().any(|call| call.function.has_frame()) {
                ends.push(Ends { start: Edge::Unbounded, end: Edge::Unbounded });
                continue;
            }
            ends.push(Ends {
                start: Edge::of(&pass.start, pass.unit, "starting", machine, any)?,
                end: Edge::of(&pass.end, pass.unit, "ending", machine, any)?,
            });
        }
        if let Some(partitions) = &mut self.partitions {
            return partitions.finish(plan, ends, machine);
        }
        self.order = (0..self.rows).collect();
        for ((pass, rows), ends) in plan.passes.iter().zip(&mut self.passes).zip(&ends) {
            let frame = Frame::new(ends, pass, machine.session);
            if !pass.keys.is_empty() {
                self.order.sort_by(|&a, &b| rows.compare(pass, a, b, 0));
            }
            for call in &mut rows.calls {
                call.results = vec![Value::Null; self.rows];
            }
            let mut start = 0;
            while start < self.order.len() {
                machine.tick()?;
                let first = self.order[start];
                let length = self.order[start..]
                    .iter()
                    .take_while(|&&row| rows.same(pass, first, row, 0..pass.partition_count))
                    .count();
                let partition = Partition::new(&self.order[start..start + length], rows, pass);
                frame.compute(&partition, rows)?;
                start += length;
            }
        }
        Ok(())
    }

    /// Puts the next row's values into the registers; false when there is none.
    ///
    /// # Errors
    /// When a partition that was put into a file cannot be read or does not fit into memory.
    pub(super) fn next(
        &mut self,
        plan: &WindowPlan,
        machine: &mut Machine<'_, '_>,
    ) -> Result<bool, Error> {
        if let Some(partitions) = &mut self.partitions {
            return partitions.next(plan, machine);
        }
        let Some(&row) = self.order.get(self.next) else { return Ok(false) };
        self.next += 1;
        let kept = &self.kept[row * plan.kept.len()..(row + 1) * plan.kept.len()];
        for (&reg, value) in plan.kept.iter().zip(kept) {
            assign(&mut machine.registers[reg], value.as_ref());
        }
        for (pass, rows) in plan.passes.iter().zip(&self.passes) {
            for (call, rows) in pass.calls.iter().zip(&rows.calls) {
                assign(&mut machine.registers[call.result], rows.results[row].as_ref());
            }
        }
        Ok(true)
    }
}

/// Makes `row` what is kept of the current row; then for each window its keys, and for each call the
/// arguments and, as 0 or 1, whether its `FILTER` lets the row in.
fn current_row(
    plan: &WindowPlan,
    machine: &mut Machine<'_, '_>,
    row: &mut Vec<Value>,
) -> Result<(), Error> {
    row.clear();
    row.extend(plan.kept.iter().map(|&reg| machine.registers[reg].clone()));
    for pass in &plan.passes {
        for key in &pass.keys {
            eval(machine, key)?;
            row.push(machine.registers[key.result].clone());
        }
        for call in &pass.calls {
            for argument in &call.arguments {
                eval(machine, argument)?;
                row.push(machine.registers[argument.result].clone());
            }
            if let Some(filter) = &call.filter {
                row.push(Value::Int(eval_condition(machine, filter)?.into()));
            }
        }
    }
    Ok(())
}

impl PassRows {
    /// Room for the results of so many rows.
    pub(super) fn new(pass: &WindowPass, rows: usize) -> PassRows {
        let call = |_| CallRows { results: vec![Value::Null; rows], ..CallRows::default() };
        PassRows { keys: Vec::new(), calls: pass.calls.iter().map(call).collect() }
    }

    /// Takes a row's keys, and for each call the arguments and, if it has a `FILTER`, whether that
    /// lets the row in.
    pub(super) fn push(&mut self, pass: &WindowPass, values: &mut impl Iterator<Item = Value>) {
        self.keys.extend(values.by_ref().take(pass.keys.len()));
        for (call, rows) in pass.calls.iter().zip(&mut self.calls) {
            rows.arguments.extend(values.by_ref().take(call.arguments.len()));
            if call.filter.is_some() {
                rows.passes.push(values.next() == Some(Value::Int(1)));
            }
        }
    }

    /// The results of each call, by row.
    pub(super) fn into_results(self) -> impl Iterator<Item = Vec<Value>> {
        self.calls.into_iter().map(|call| call.results)
    }

    fn key(&self, pass: &WindowPass, row: usize, key: usize) -> &Value {
        &self.keys[row * pass.keys.len() + key]
    }

    /// Compares two rows by the keys from `first` on.
    fn compare(&self, pass: &WindowPass, a: usize, b: usize, first: usize) -> Ordering {
        let keys = pass.sort.keys.iter().enumerate().skip(first);
        keys.map(|(place, key)| {
            let (a, b) = (self.key(pass, a, place), self.key(pass, b, place));
            compare(a.as_ref(), b.as_ref(), *key)
        })
        .find(|order| order.is_ne())
        .unwrap_or(Ordering::Equal)
    }

    fn same(&self, pass: &WindowPass, a: usize, b: usize, keys: Range<usize>) -> bool {
        let keys = pass.sort.keys[keys.clone()].iter().zip(keys);
        keys.map(|(key, place)| {
            let (a, b) = (self.key(pass, a, place), self.key(pass, b, place));
            compare(a.as_ref(), b.as_ref(), *key)
        })
        .all(Ordering::is_eq)
    }
}

/// The rows of one partition in order, and the groups of peers among them.
pub(super) struct Partition<'o> {
    rows: &'o [usize],
    /// Where each group of peers begins, and the partition's end.
    starts: Vec<usize>,
    /// The group of each row.
    group: Vec<usize>,
}

impl<'o> Partition<'o> {
    pub(super) fn new(rows: &'o [usize], keys: &PassRows, pass: &WindowPass) -> Partition<'o> {
        let mut starts = vec![0];
        let mut group = Vec::with_capacity(rows.len());
        for place in 0..rows.len() {
            let order_keys = pass.partition_count..pass.sort.keys.len();
            if place > 0 && !keys.same(pass, rows[place - 1], rows[place], order_keys) {
                starts.push(place);
            }
            group.push(starts.len() - 1);
        }
        starts.push(rows.len());
        Partition { rows, starts, group }
    }

    fn len(&self) -> usize {
        self.rows.len()
    }

    fn peers(&self, place: usize) -> Range<usize> {
        let group = self.group[place];
        self.starts[group]..self.starts[group + 1]
    }

    /// Where the group at a signed number begins, within the partition.
    fn group_start(&self, group: i128) -> usize {
        let last = self.starts.len() - 1;
        let group = usize::try_from(group.max(0)).unwrap_or(usize::MAX).min(last);
        self.starts[group]
    }
}

/// One end of a frame, its distance evaluated.
#[derive(Debug)]
enum Edge {
    /// The partition's own beginning or end.
    Unbounded,
    CurrentRow,
    /// So many rows or groups on; negative for back.
    Steps(i128),
    /// By so much of the ordering value: forwards or backwards.
    Distance {
        value: Value,
        following: bool,
    },
}

impl Edge {
    fn of(
        bound: &BoundPlan,
        unit: FrameUnit,
        which: &str,
        machine: &mut Machine<'_, '_>,
        any_rows: bool,
    ) -> Result<Edge, Error> {
        let (code, following) = match bound {
            BoundPlan::UnboundedPreceding | BoundPlan::UnboundedFollowing => {
                return Ok(Edge::Unbounded);
            }
            BoundPlan::CurrentRow => return Ok(Edge::CurrentRow),
            BoundPlan::Preceding(code) => (code, false),
            BoundPlan::Following(code) => (code, true),
        };
        if !any_rows {
            return Ok(Edge::CurrentRow);
        }
        let value = distance(code, machine)?;
        if unit == FrameUnit::Range {
            let value = Affinity::Numeric.apply(value);
            let numeric = match &value {
                Value::Int(int) => *int >= 0,
                Value::Real(real) => *real >= 0.0,
                _ => false,
            };
            if !numeric {
                let what = format!("frame {which} offset must be a non-negative number");
                return Err(Error::runtime(what));
            }
            return Ok(Edge::Distance { value, following });
        }
        match Affinity::Integer.apply(value) {
            Value::Int(steps) if steps >= 0 => {
                Ok(Edge::Steps(if following { i128::from(steps) } else { -i128::from(steps) }))
            }
            _ => {
                Err(Error::runtime(format!("frame {which} offset must be a non-negative integer")))
            }
        }
    }
}

fn distance(code: &Code, machine: &mut Machine<'_, '_>) -> Result<Value, Error> {
    eval(machine, code)?;
    Ok(machine.registers[code.result].clone())
}

/// Both ends of a frame.
#[derive(Debug)]
pub(super) struct Ends {
    start: Edge,
    end: Edge,
}

/// A window's frame.
pub(super) struct Frame<'p> {
    start: &'p Edge,
    end: &'p Edge,
    pass: &'p WindowPass,
    /// Asked now and then whether to go on.
    session: &'p dyn Session,
}

impl<'p> Frame<'p> {
    pub(super) fn new(ends: &'p Ends, pass: &'p WindowPass, session: &'p dyn Session) -> Frame<'p> {
        Frame { start: &ends.start, end: &ends.end, pass, session }
    }

    pub(super) fn compute(
        &self,
        partition: &Partition<'_>,
        rows: &mut PassRows,
    ) -> Result<(), Error> {
        let ranges: Vec<Range<usize>> =
            (0..partition.len()).map(|place| self.range(place, partition, rows)).collect();
        for (call, rows) in self.pass.calls.iter().zip(&mut rows.calls) {
            let results = match call.function {
                WindowFunction::Aggregate(function) => {
                    self.aggregate(function, call, rows, partition, &ranges)?
                }
                WindowFunction::FirstValue
                | WindowFunction::LastValue
                | WindowFunction::NthValue => self.pick(call, rows, partition, &ranges)?,
                function => place_function(function, call, rows, partition)?,
            };
            for (&row, value) in partition.rows.iter().zip(results) {
                rows.results[row] = value;
            }
        }
        Ok(())
    }

    /// The rows of a frame, before any are excluded.
    fn range(&self, place: usize, partition: &Partition<'_>, rows: &PassRows) -> Range<usize> {
        let peers = partition.peers(place);
        let start = match (self.start, self.pass.unit) {
            (Edge::Unbounded, _) => 0,
            (Edge::CurrentRow, FrameUnit::Rows) => place,
            (Edge::CurrentRow, _) => peers.start,
            (Edge::Steps(steps), FrameUnit::Rows) => clamp(place as i128 + steps, partition),
            (Edge::Steps(steps), _) => {
                partition.group_start(partition.group[place] as i128 + steps)
            }
            (Edge::Distance { value, following }, _) => {
                self.reach(place, value, *following, false, partition, rows)
            }
        };
        let end = match (self.end, self.pass.unit) {
            (Edge::Unbounded, _) => partition.len(),
            (Edge::CurrentRow, FrameUnit::Rows) => place + 1,
            (Edge::CurrentRow, _) => peers.end,
            (Edge::Steps(steps), FrameUnit::Rows) => clamp(place as i128 + steps + 1, partition),
            (Edge::Steps(steps), _) => {
                partition.group_start(partition.group[place] as i128 + steps + 1)
            }
            (Edge::Distance { value, following }, _) => {
                self.reach(place, value, *following, true, partition, rows)
            }
        };
        start..end.max(start)
    }

    /// Where the rows begin, or end when `past`, whose ordering value is within a distance.
    fn reach(
        &self,
        place: usize,
        distance: &Value,
        following: bool,
        past: bool,
        partition: &Partition<'_>,
        rows: &PassRows,
    ) -> usize {
        let key_place = self.pass.partition_count;
        let Some(&key) = self.pass.sort.keys.get(key_place) else { return place };
        let own = rows.key(self.pass, partition.rows[place], key_place);
        // Only numbers have a distance; of other values only equal ones are near.
        let further = |from: &Value| match from {
            Value::Int(_) | Value::Real(_) if key.descending => {
                value::subtract(from.as_ref(), distance.as_ref())
            }
            Value::Int(_) | Value::Real(_) => value::add(from.as_ref(), distance.as_ref()),
            other => other.clone(),
        };
        let is_before = |order: Ordering| if past { order.is_le() } else { order.is_lt() };
        // As in SQLite the distance is added to the value that comes first: it shows where sums are
        // rounded, or leave the integers.
        if following {
            let edge = further(own);
            partition.rows.partition_point(|&row| {
                is_before(compare_key(rows.key(self.pass, row, key_place), &edge, key))
            })
        } else {
            partition.rows.partition_point(|&row| {
                let from = further(rows.key(self.pass, row, key_place));
                is_before(compare_key(&from, own, key))
            })
        }
    }

    /// Whether the frame of a row leaves out a row within its range.
    fn excludes(&self, partition: &Partition<'_>, current: usize, place: usize) -> bool {
        match self.pass.exclude {
            FrameExclude::None | FrameExclude::NoOthers => false,
            FrameExclude::CurrentRow => place == current,
            FrameExclude::Group => partition.group[place] == partition.group[current],
            FrameExclude::Ties => {
                place != current && partition.group[place] == partition.group[current]
            }
        }
    }

    fn aggregate(
        &self,
        function: &'static AggregateFunction,
        call: &WindowCallPlan,
        rows: &CallRows,
        partition: &Partition<'_>,
        ranges: &[Range<usize>],
    ) -> Result<Vec<Value>, Error> {
        let grows = matches!(self.start, Edge::Unbounded);
        let slides = function.is_reversible() || function.extreme().is_some();
        if self.pass.exclude != FrameExclude::None || !(grows || slides) {
            return self.each_anew(function, call, rows, partition, ranges);
        }
        if !grows && let Some(max) = function.extreme() {
            return Ok(extremes(max, call, rows, partition, ranges));
        }
        let mut results: Vec<Value> = Vec::with_capacity(ranges.len());
        let mut state: AggregateState = function.start(call.collation, call.json);
        let mut seen = 0..0;
        for (place, range) in ranges.iter().enumerate() {
            if place.is_multiple_of(64) {
                self.session.check()?;
            }
            if place > 0 && *range == ranges[place - 1] {
                let last = results[place - 1].clone();
                results.push(last);
                continue;
            }
            // What leaves goes before what enters, unless it is still to enter; in a range that
            // lies before the row SQLite takes what enters first.
            let before = |edge: &Edge| matches!(edge, Edge::Distance { following: false, .. });
            let enters_first = before(self.start) && before(self.end);
            let leaving = if enters_first { 0 } else { range.start.min(seen.end) };
            for (end, enter) in [(leaving, false), (range.end, true), (range.start, false)] {
                let edge = if enter { &mut seen.end } else { &mut seen.start };
                for place in *edge..end {
                    let row = partition.rows[place];
                    match (rows.lets_in(row), enter) {
                        (false, _) => {}
                        (true, true) => drop(state.step(rows.arguments(call, row))?),
                        (true, false) => state.undo(rows.arguments(call, row)),
                    }
                }
                *edge = end.max(*edge);
            }
            results.push(state.finish()?);
        }
        Ok(results)
    }

    /// Computes an aggregate for every row from nothing.
    fn each_anew(
        &self,
        function: &'static AggregateFunction,
        call: &WindowCallPlan,
        rows: &CallRows,
        partition: &Partition<'_>,
        ranges: &[Range<usize>],
    ) -> Result<Vec<Value>, Error> {
        let mut results = Vec::with_capacity(ranges.len());
        for (current, range) in ranges.iter().enumerate() {
            self.session.check()?;
            let mut state = function.start(call.collation, call.json);
            for place in range.clone() {
                let row = partition.rows[place];
                if rows.lets_in(row) && !self.excludes(partition, current, place) {
                    state.step(rows.arguments(call, row))?;
                }
            }
            results.push(state.finish()?);
        }
        Ok(results)
    }

    /// `first_value`, `last_value` and `nth_value`.
    fn pick(
        &self,
        call: &WindowCallPlan,
        rows: &CallRows,
        partition: &Partition<'_>,
        ranges: &[Range<usize>],
    ) -> Result<Vec<Value>, Error> {
        let mut results = Vec::with_capacity(ranges.len());
        for (current, range) in ranges.iter().enumerate() {
            let arguments = rows.arguments(call, partition.rows[current]);
            let within = |place: &usize| !self.excludes(partition, current, *place);
            let found = match call.function {
                WindowFunction::FirstValue => range.clone().find(within),
                WindowFunction::LastValue => range.clone().rfind(within),
                _ => {
                    let wanted = match arguments.get(1).map(integer) {
                        Some(Some(wanted)) if wanted > 0 => wanted,
                        _ => {
                            return Err(Error::runtime(
                                "second argument to nth_value must be a positive integer",
                            ));
                        }
                    };
                    let skip = usize::try_from(wanted - 1).unwrap_or(usize::MAX);
                    if self.pass.exclude == FrameExclude::None {
                        range.start.checked_add(skip).filter(|place| *place < range.end)
                    } else {
                        range.clone().filter(within).nth(skip)
                    }
                }
            };
            results.push(match found {
                Some(place) => rows.arguments(call, partition.rows[place])[0].clone(),
                None => Value::Null,
            });
        }
        Ok(results)
    }
}

fn clamp(place: i128, partition: &Partition<'_>) -> usize {
    usize::try_from(place.max(0)).unwrap_or(usize::MAX).min(partition.len())
}

fn compare_key(value: &Value, edge: &Value, key: SortKey) -> Ordering {
    compare(value.as_ref(), edge.as_ref(), key)
}

/// A value as an integer, if it is one without loss.
fn integer(value: &Value) -> Option<i64> {
    match Affinity::Integer.apply(value.clone()) {
        Value::Int(int) => Some(int),
        _ => None,
    }
}

/// `min` or `max` over frames that move: the rows that no later one of the frame outdoes.
fn extremes(
    max: bool,
    call: &WindowCallPlan,
    rows: &CallRows,
    partition: &Partition<'_>,
    ranges: &[Range<usize>],
) -> Vec<Value> {
    let value = |place: usize| &rows.arguments(call, partition.rows[place])[0];
    let mut candidates: VecDeque<usize> = VecDeque::new();
    let mut seen = 0;
    let mut results = Vec::with_capacity(ranges.len());
    for range in ranges {
        for place in seen..range.end {
            if !rows.lets_in(partition.rows[place]) || value(place).is_null() {
                continue;
            }
            while let Some(&last) = candidates.back() {
                let order =
                    value::compare(value(last).as_ref(), value(place).as_ref(), call.collation);
                // Of equal values the last is the result, as in SQLite where a frame's start moves.
                if if max { order.is_gt() } else { order.is_lt() } {
                    break;
                }
                candidates.pop_back();
            }
            candidates.push_back(place);
        }
        seen = seen.max(range.end);
        while candidates.front().is_some_and(|&first| first < range.start) {
            candidates.pop_front();
        }
        let found = candidates.front().filter(|&&first| first < range.end);
        results.push(found.map_or(Value::Null, |&place| value(place).clone()));
    }
    results
}

/// The functions of a row's place in its partition.
fn place_function(
    function: WindowFunction,
    call: &WindowCallPlan,
    rows: &CallRows,
    partition: &Partition<'_>,
) -> Result<Vec<Value>, Error> {
    let count = partition.len();
    let int = |number: usize| Value::Int(i64::try_from(number).unwrap_or(i64::MAX));
    let arguments = |place: usize| rows.arguments(call, partition.rows[place]);
    let tiles = match function {
        WindowFunction::Ntile => match value::to_int(arguments(0)[0].as_ref()) {
            tiles if tiles > 0 => usize::try_from(tiles).unwrap_or(usize::MAX),
            _ => return Err(Error::runtime("argument of ntile must be a positive integer")),
        },
        _ => 1,
    };
    let one = |place: usize| -> Value {
        let peers = partition.peers(place);
        match function {
            WindowFunction::RowNumber => int(place + 1),
            WindowFunction::Rank => int(peers.start + 1),
            WindowFunction::DenseRank => int(partition.group[place] + 1),
            WindowFunction::PercentRank if count == 1 => Value::Real(0.0),
            WindowFunction::PercentRank => Value::Real(peers.start as f64 / (count as f64 - 1.0)),
            WindowFunction::CumeDist => Value::Real(peers.end as f64 / count as f64),
            WindowFunction::Ntile => int(tile(place, count, tiles)),
            WindowFunction::Lag | WindowFunction::Lead => {
                let arguments = arguments(place);
                let here = int(place);
                let one = Value::Int(1);
                let offset = arguments.get(1).unwrap_or(&one);
                let target = match function {
                    WindowFunction::Lead => value::add(here.as_ref(), offset.as_ref()),
                    _ => value::subtract(here.as_ref(), offset.as_ref()),
                };
                let target = integer(&target)
                    .and_then(|target| usize::try_from(target).ok())
                    .filter(|target| *target < count);
                match target {
                    Some(target) => rows.arguments(call, partition.rows[target])[0].clone(),
                    None => arguments.get(2).cloned().unwrap_or_default(),
                }
            }
            _ => Value::Null,
        }
    };
    Ok((0..count).map(one).collect())
}

/// The tile, from 1, of a row when so many rows are dealt to so many tiles, larger ones first.
fn tile(place: usize, count: usize, tiles: usize) -> usize {
    let (size, larger) = (count / tiles, count % tiles);
    let in_larger = larger * (size + 1);
    if place < in_larger {
        place / (size + 1) + 1
    } else {
        larger + (place - in_larger) / size.max(1) + 1
    }
}
