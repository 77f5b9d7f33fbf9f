//! Window functions: rows are gathered, ordered once per window, and every function is computed for
//! each row from the rows of its [`Frame`]. Under a limit of memory, rows without room spill to
//! files ([`Partitions`]).

use std::cmp::Ordering;
use std::ops::Range;

use rayon::slice::ParallelSliceMut;
use rustc_hash::FxHashMap;

use super::Machine;
use super::eval;
use super::frame::{Edge, Ends, Frame, Reader, WindowRows};
use super::partitions::Partitions;
use super::query::NodeRun;
use crate::Error;
use crate::exec::eval_condition;
use crate::keep::sort::{PARALLEL_MIN, compare, prefix_of};
use crate::keep::{Kept, SortKey, row_size};
use crate::plan::node::WindowNode;
use crate::plan::{WindowCallPlan, WindowPass, WindowPlan};
use crate::session::Session;
use crate::value::{Collation, Value, ValueRef, assign};

/// Window functions over the rows of a node. Of an input in the order of its partitions one
/// partition is kept: its rows are given before the next partition is read.
#[derive(Debug, Default)]
pub(super) struct WindowNodeRun {
    input: NodeRun,
    /// All rows, or those of a partition.
    rows: WindowRun,
    /// True once the input has no more rows.
    is_ended: bool,
    /// True where rows of the input were read since its cursors were noted.
    was_read: bool,
    /// The values of the `PARTITION BY` in the partition kept.
    keys: Vec<Value>,
    /// The first row of the next partition, in the form of [`current_row`]; empty for none.
    ahead: Vec<Value>,
}

impl WindowNodeRun {
    pub(super) fn restart(&mut self) {
        self.input.restart();
        self.rows.clear();
        self.is_ended = false;
        self.ahead.clear();
    }

    /// Puts the next row and its functions' results into the registers; false when there is none.
    ///
    /// # Errors
    /// What the rows and functions raise; when rows that do not fit into memory cannot be written
    /// to a file.
    pub(super) fn next(
        &mut self,
        plan: &WindowNode,
        machine: &mut Machine<'_, '_>,
    ) -> Result<bool, Error> {
        loop {
            if self.rows.next(&plan.plan, machine)? {
                return Ok(true);
            }
            if self.is_ended {
                return Ok(false);
            }
            self.was_read = true;
            self.gather(plan, machine)?;
        }
    }

    /// Notes where the cursors of the input are.
    pub(super) fn park(
        &mut self,
        plan: &WindowNode,
        machine: &mut Machine<'_, '_>,
    ) -> Result<(), Error> {
        match std::mem::take(&mut self.was_read) {
            true => self.input.park(&plan.input, machine),
            false => Ok(()),
        }
    }

    /// Takes the rows up to the end of a partition, or all of them, and computes every function.
    fn gather(&mut self, plan: &WindowNode, machine: &mut Machine<'_, '_>) -> Result<(), Error> {
        let WindowNodeRun { input, rows, keys, ahead, is_ended, .. } = self;
        let (input_plan, plan) = (&plan.input, &plan.plan);
        rows.clear();
        let parts = plan.parts();
        let parts_of = plan.kept.len()..plan.kept.len() + parts.len();
        let mut row = std::mem::take(ahead);
        if !row.is_empty() {
            // Loops go on from the row ahead; the rows given since then overwrote its registers.
            for (&reg, value) in plan.kept.iter().zip(&row) {
                assign(&mut machine.registers[reg], value.as_ref());
            }
            row[parts_of.clone()].clone_into(keys);
            rows.take(plan, &mut row, machine.session)?;
        }
        while input.next(input_plan, machine)? {
            current_row(plan, machine, &mut row)?;
            if rows.is_empty() {
                row[parts_of.clone()].clone_into(keys);
            }
            if !is_same_part(parts, keys, &row[parts_of.clone()]) {
                *ahead = row;
                return rows.finish(plan, machine);
            }
            rows.take(plan, &mut row, machine.session)?;
        }
        *is_ended = true;
        rows.finish(plan, machine)
    }
}

/// Gathered rows and their functions' results.
#[derive(Debug, Default)]
pub(super) struct WindowRun {
    /// The kept values of each row, row by row.
    kept: Vec<Value>,
    passes: Vec<PassRows>,
    rows: usize,
    order: Vec<usize>,
    next: usize,
    /// Bytes of all structures.
    bytes: Kept,
    /// Spilled rows.
    partitions: Option<Box<Partitions>>,
}

/// The values one window needs from the rows.
#[derive(Debug, Default)]
pub(super) struct PassRows {
    keys: Vec<Value>,
    calls: Vec<CallRows>,
}

#[derive(Debug, Default)]
struct CallRows {
    arguments: Vec<Value>,
    /// True where the call's `FILTER` lets the row in; empty without a filter.
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
    /// Forgets all rows and keeps the memory.
    fn clear(&mut self) {
        self.kept.clear();
        for pass in &mut self.passes {
            pass.keys.clear();
            for call in &mut pass.calls {
                call.arguments.clear();
                call.passes.clear();
                call.results.clear();
            }
        }
        self.rows = 0;
        self.order.clear();
        self.next = 0;
        self.bytes.clear();
        self.partitions = None;
    }

    fn is_empty(&self) -> bool {
        self.rows == 0 && self.partitions.is_none()
    }

    /// Takes a row in the form of [`current_row`].
    fn take(
        &mut self,
        plan: &WindowPlan,
        row: &mut Vec<Value>,
        session: &dyn Session,
    ) -> Result<(), Error> {
        if let Some(partitions) = &mut self.partitions {
            return partitions.push(session, row);
        }
        // Results will come on top.
        let size = 2 * row_size(row.iter().map(Value::as_ref));
        if !self.bytes.try_add(session, || (size, 0)) {
            let mut partitions = Box::new(Partitions::new(plan, self, session)?);
            partitions.push(session, row)?;
            *self = WindowRun { partitions: Some(partitions), ..WindowRun::default() };
            return Ok(());
        }
        self.rows += 1;
        if self.passes.is_empty() {
            self.passes.extend(plan.passes.iter().map(|pass| PassRows::new(pass, 0)));
        }
        let mut values = row.drain(..);
        self.kept.extend(values.by_ref().take(plan.kept.len()));
        for (pass, rows) in plan.passes.iter().zip(&mut self.passes) {
            rows.push(pass, &mut values);
        }
        Ok(())
    }

    /// The number of gathered rows.
    pub(super) fn row_count(&self) -> usize {
        self.rows
    }

    /// A gathered row, in the form of [`current_row`].
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
        let any = !self.is_empty();
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
        self.order.extend(0..self.rows);
        for ((pass, rows), ends) in plan.passes.iter().zip(&mut self.passes).zip(&ends) {
            let frame = Frame::new(ends, pass, machine.session);
            match plan.in_order {
                true => rows.sort_part(pass, &mut self.order),
                false => rows.sort(pass, &mut self.order),
            }
            for call in &mut rows.calls {
                call.results.resize(self.rows, Value::Null);
            }
            let mut start = 0;
            while start < self.order.len() {
                machine.tick()?;
                let first = self.order[start];
                let rest = &self.order[start..];
                let is_part = |&&row: &&usize| rows.same(pass, first, row, 0..pass.partition_count);
                let length = match plan.in_order {
                    true => rest.len(),
                    false => rest.iter().take_while(is_part).count(),
                };
                let order = &self.order[start..start + length];
                frame.compute(&mut Partition::new(order, rows, pass))?;
                start += length;
            }
        }
        Ok(())
    }

    /// Puts the next row's values into the registers; false when there is none.
    ///
    /// # Errors
    /// When a spilled partition cannot be read or does not fit into memory.
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

/// True where two rows have equal values for the keys of a `PARTITION BY`.
pub(super) fn is_same_part(parts: &[SortKey], first: &[Value], row: &[Value]) -> bool {
    let mut pairs = parts.iter().zip(first.iter().zip(row));
    pairs.all(|(key, (first, value))| compare(first.as_ref(), value.as_ref(), *key).is_eq())
}

/// Fills `row` with the kept values of the current row; then for each window its keys, and for each
/// call the arguments and, as 0 or 1, the outcome of its `FILTER`.
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

    /// Takes a row's keys, and for each call the arguments and, with a `FILTER`, its outcome.
    pub(super) fn push(&mut self, pass: &WindowPass, values: &mut impl Iterator<Item = Value>) {
        self.keys.extend(values.by_ref().take(pass.keys.len()));
        for (call, rows) in pass.calls.iter().zip(&mut self.calls) {
            rows.arguments.extend(values.by_ref().take(call.arguments.len()));
            if call.filter.is_some() {
                rows.passes.push(values.next() == Some(Value::Int(1)));
            }
        }
    }

    /// Computes the results of all rows, one partition, in order.
    ///
    /// # Errors
    /// Errors of functions.
    pub(super) fn compute(
        &mut self,
        pass: &WindowPass,
        frame: &Frame<'_>,
        rows: usize,
    ) -> Result<(), Error> {
        let order: Vec<usize> = (0..rows).collect();
        frame.compute(&mut Partition::new(&order, self, pass))
    }

    /// The results of each call, by row.
    pub(super) fn into_results(self) -> impl Iterator<Item = Vec<Value>> {
        self.calls.into_iter().map(|call| call.results)
    }

    fn key(&self, pass: &WindowPass, row: usize, key: usize) -> &Value {
        &self.keys[row * pass.keys.len() + key]
    }

    /// Puts the rows of one partition in order; rows with equal keys stay as they are.
    fn sort_part(&self, pass: &WindowPass, order: &mut [usize]) {
        let first = pass.partition_count;
        if pass.sort.keys.len() == first {
            return;
        }
        match order.len() < SHORT_PART {
            true => order.sort_by(|&a, &b| self.compare(pass, a, b, first)),
            false => self.sort(pass, order),
        }
    }

    /// Puts rows in the order of the keys; rows with equal keys stay as they are.
    fn sort(&self, pass: &WindowPass, order: &mut [usize]) {
        let Some(first) = pass.sort.keys.first() else { return };
        let numbers = FirstNumbers::of(self, pass, order);
        let entry = |(place, &row): (usize, &usize)| {
            let (first_key, mut more) = (self.key(pass, row, 0).as_ref(), [0; 2]);
            if let FirstNumbers::Ranks(ranks) = &numbers {
                if let Some(second) = pass.sort.keys.get(1) {
                    more[0] = prefix_of(self.key(pass, row, 1).as_ref(), *second);
                }
                return (ranks[place], more, place, row);
            }
            if let (FirstNumbers::Texts, ValueRef::Text(text)) = (&numbers, first_key) {
                let tail = tail_of(text);
                more[0] = if first.descending { !tail } else { tail };
            }
            if let (true, Some(second)) = (numbers.tell_equals(), pass.sort.keys.get(1)) {
                more[1] = prefix_of(self.key(pass, row, 1).as_ref(), *second);
            }
            (prefix_of(first_key, *first), more, place, row)
        };
        let mut sorted: Vec<(u64, [u64; 2], usize, usize)> =
            order.iter().enumerate().map(entry).collect();
        let compare = |a: &(u64, [u64; 2], usize, usize), b: &(u64, [u64; 2], usize, usize)| {
            let by_keys = || self.compare(pass, a.3, b.3, usize::from(numbers.tell_equals()));
            a.0.cmp(&b.0).then(a.1.cmp(&b.1)).then_with(by_keys).then(a.2.cmp(&b.2))
        };
        if sorted.len() < PARALLEL_MIN {
            sorted.sort_unstable_by(compare);
        } else {
            sorted.par_sort_unstable_by(compare);
        }
        for (target, (.., row)) in order.iter_mut().zip(sorted) {
            *target = row;
        }
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

/// Partitions of fewer rows are sorted by comparing keys, without numbers made of them.
const SHORT_PART: usize = 64;

/// The meaning of numbers made of first keys.
enum FirstNumbers {
    /// Equal numbers are of equal keys: small integers and NULLs.
    Ints,
    /// As above with the bytes behind: short texts and NULLs.
    Texts,
    /// Ranks of the rows' texts, or NULLs, among a few different ones.
    Ranks(Vec<u64>),
    /// Keys of equal numbers have to be compared.
    Any,
}

/// Most different first keys ordered by their ranks.
const DIFFERENT_MAX: usize = 4096;

/// Bytes of a text before those of [`tail_of`], all told by [`prefix_of`].
const TEXT_HEAD: usize = 6;

impl FirstNumbers {
    fn of(rows: &PassRows, pass: &WindowPass, order: &[usize]) -> FirstNumbers {
        const EXACT: u64 = 1 << 50;
        let is_plain = pass.sort.keys.first().is_some_and(|key| key.collation == Collation::Binary);
        let all = |is: fn(ValueRef<'_>) -> bool| {
            order.iter().all(|&row| match rows.key(pass, row, 0).as_ref() {
                ValueRef::Null => true,
                value => is(value),
            })
        };
        let is_int = |value: ValueRef<'_>| match value {
            ValueRef::Int(int) => int.unsigned_abs() < EXACT,
            _ => false,
        };
        let is_text = |value: ValueRef<'_>| match value {
            ValueRef::Text(text) => text.len() <= TEXT_HEAD + 8 && !text.contains(&0),
            _ => false,
        };
        match is_plain {
            true if all(is_int) => FirstNumbers::Ints,
            true if all(is_text) => FirstNumbers::Texts,
            _ => FirstNumbers::ranks(rows, pass, order).unwrap_or(FirstNumbers::Any),
        }
    }

    /// `None` for keys other than texts and NULLs, and for many different ones.
    fn ranks(rows: &PassRows, pass: &WindowPass, order: &[usize]) -> Option<FirstNumbers> {
        let key = *pass.sort.keys.first()?;
        let most = DIFFERENT_MAX.min(order.len() / 4);
        let mut numbers: FxHashMap<Option<&[u8]>, usize> = FxHashMap::default();
        let mut different: Vec<ValueRef<'_>> = Vec::new();
        let mut ranks = Vec::with_capacity(order.len());
        for &row in order {
            let value = rows.key(pass, row, 0).as_ref();
            let text = match value {
                ValueRef::Null => None,
                ValueRef::Text(text) => Some(text),
                _ => return None,
            };
            let number = *numbers.entry(text).or_insert_with(|| {
                different.push(value);
                different.len() - 1
            });
            if number > most {
                return None;
            }
            ranks.push(number as u64);
        }
        let mut sorted: Vec<usize> = (0..different.len()).collect();
        sorted.sort_by(|&a, &b| compare(different[a], different[b], key));
        let mut places = vec![0; different.len()];
        for pair in sorted.windows(2) {
            // Texts may be equal by the collation.
            let more = compare(different[pair[0]], different[pair[1]], key).is_ne();
            places[pair[1]] = places[pair[0]] + u64::from(more);
        }
        ranks.iter_mut().for_each(|rank| *rank = places[*rank as usize]);
        Some(FirstNumbers::Ranks(ranks))
    }

    fn tell_equals(&self) -> bool {
        !matches!(self, FirstNumbers::Any)
    }
}

/// The bytes of a text behind the first, as a number in their order.
fn tail_of(text: &[u8]) -> u64 {
    let mut bytes = [0; 8];
    for (target, byte) in bytes.iter_mut().zip(text.iter().skip(TEXT_HEAD)) {
        *target = *byte;
    }
    u64::from_be_bytes(bytes)
}

/// The rows of one partition in memory, in order, and the groups of peers among them.
struct Partition<'o> {
    pass: &'o WindowPass,
    order: &'o [usize],
    rows: &'o mut PassRows,
    /// The groups of peers; `None` until a frame or a function asks.
    peers: Option<Peers>,
    /// The frames so far.
    ranges: Vec<Range<usize>>,
}

/// Groups of rows equal by the keys of the order.
struct Peers {
    /// Start of each group, and the partition's end.
    starts: Vec<usize>,
    /// The group of each row.
    group: Vec<usize>,
}

impl<'o> Partition<'o> {
    fn new(order: &'o [usize], rows: &'o mut PassRows, pass: &'o WindowPass) -> Partition<'o> {
        Partition { pass, order, rows, peers: None, ranges: Vec::new() }
    }

    /// The groups of peers. Comparing neighbours takes a look at every key: `lag`, `row_number` and
    /// frames counted in rows go without.
    #[inline]
    fn peer_groups(&mut self) -> &Peers {
        let Partition { pass, order, rows, peers, .. } = self;
        peers.get_or_insert_with(|| {
            let mut starts = vec![0];
            let mut group = Vec::with_capacity(order.len());
            for place in 0..order.len() {
                let order_keys = pass.partition_count..pass.sort.keys.len();
                if place > 0 && !rows.same(pass, order[place - 1], order[place], order_keys) {
                    starts.push(place);
                }
                group.push(starts.len() - 1);
            }
            starts.push(order.len());
            Peers { starts, group }
        })
    }
}

impl WindowRows for Partition<'_> {
    fn len(&self) -> usize {
        self.order.len()
    }

    fn arguments(&mut self, call: usize, place: usize, _: Reader) -> Result<&[Value], Error> {
        Ok(self.rows.calls[call].arguments(&self.pass.calls[call], self.order[place]))
    }

    fn lets_in(&mut self, call: usize, place: usize, _: Reader) -> Result<bool, Error> {
        Ok(self.rows.calls[call].lets_in(self.order[place]))
    }

    fn key(&mut self, place: usize) -> Result<&Value, Error> {
        Ok(self.rows.key(self.pass, self.order[place], self.pass.partition_count))
    }

    fn first_key(
        &mut self,
        _: usize,
        _: bool,
        is_before: impl Fn(&Value) -> bool,
    ) -> Result<usize, Error> {
        let (pass, rows) = (self.pass, &self.rows);
        let key = |row: usize| rows.key(pass, row, pass.partition_count);
        Ok(self.order.partition_point(|&row| is_before(key(row))))
    }

    fn group(&mut self, place: usize) -> Result<usize, Error> {
        Ok(self.peer_groups().group[place])
    }

    fn group_count(&mut self) -> usize {
        self.peer_groups().starts.len() - 1
    }

    fn start_of(&mut self, group: usize) -> Result<usize, Error> {
        Ok(self.peer_groups().starts[group])
    }

    fn range(&mut self, frame: &Frame<'_>, place: usize) -> Result<Range<usize>, Error> {
        // All calls see the same rows.
        if let Some(known) = self.ranges.get(place) {
            return Ok(known.clone());
        }
        let range = frame.range(place, self)?;
        self.ranges.push(range.clone());
        Ok(range)
    }

    fn candidates_max(&self) -> usize {
        usize::MAX
    }

    fn give(&mut self, call: usize, place: usize, result: Value) -> Result<(), Error> {
        self.rows.calls[call].results[self.order[place]] = result;
        Ok(())
    }
}
