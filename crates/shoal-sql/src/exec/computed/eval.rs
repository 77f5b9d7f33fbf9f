//! Vectorised evaluation: each operation of a code runs over all rows of a batch before the next
//! one. The kind of operation, the place and the class of its operands are decided once for many
//! rows.
//!
//! Jumps lead forwards. In a code with jumps an operation runs for its current rows alone, and rows
//! after a jump wait for the operation they continue at.

use super::column::{Column, Numbers, RowBits};
use super::{ColumnTable, Columns, ROWS_MAX, World};
use crate::Error;
use crate::exec::{Machine, current_time};
use crate::functions::{Env, Kept, ScalarFunction};
use crate::keep::KeySet;
use crate::plan::node::Node;
use crate::plan::{Code, Op, Reg, When};
use crate::value::{
    self, Affinity, ArithmeticOp, Collation, CompareOp, Comparison, InRule, PATTERN_BYTES_MAX,
    Value, ValueRef, and, arithmetic, assign, compare_by, is_in_values, may_read_as_number,
    text_of, truth,
};

/// A selection of the batch's rows for an operation.
#[derive(Clone, Copy)]
pub(super) enum Rows<'a> {
    All(usize),
    Some(&'a [u8]),
}

impl Rows<'_> {
    /// Calls `each` with the number of every row.
    #[inline(always)]
    fn each(self, mut each: impl FnMut(usize)) {
        match self {
            Rows::All(count) => (0..count).for_each(each),
            Rows::Some(rows) => rows.iter().for_each(|&row| each(usize::from(row))),
        }
    }
}

/// The source of a register's values.
#[derive(Clone, Copy)]
enum Source<'c> {
    /// One value for every row.
    Fixed(ValueRef<'c>),
    Column(&'c Column),
}

impl<'c> Source<'c> {
    #[inline]
    fn value(self, row: usize) -> ValueRef<'c> {
        match self {
            Source::Fixed(value) => value,
            Source::Column(column) => column.value(row),
        }
    }

    fn ints(self) -> Option<Numbers<'c, i64>> {
        match self {
            Source::Fixed(ValueRef::Int(int)) => Some(Numbers::One(int)),
            Source::Fixed(_) => None,
            Source::Column(column) => column.ints().map(|(ints, nulls)| Numbers::Many(ints, nulls)),
        }
    }

    /// The numbers as floats: of constants, and of columns of reals. A column of integers would
    /// need another column to convert into.
    fn reals(self) -> Option<Numbers<'c, f64>> {
        match self {
            Source::Fixed(ValueRef::Int(int)) => Some(Numbers::One(int as f64)),
            Source::Fixed(ValueRef::Real(real)) => Some(Numbers::One(real)),
            Source::Fixed(_) => None,
            Source::Column(column) => {
                column.reals().map(|(reals, nulls)| Numbers::Many(reals, nulls))
            }
        }
    }
}

/// The bits of the pairs with a NULL result.
fn nulls_of<T: Copy>((left, right): (Numbers<'_, T>, Numbers<'_, T>), rows: Rows<'_>) -> RowBits {
    let nulls = left.nulls() | right.nulls();
    match rows {
        Rows::Some(rows) if nulls != 0 => {
            let rows = rows.iter().enumerate();
            rows.fold(0, |of_rows, (to, &from)| of_rows | (nulls >> from & 1) << to)
        }
        _ => nulls,
    }
}

/// Appends `each` of the pairs of two operands.
#[inline(always)]
fn pairs<T: Copy, U>(
    (left, right): (Numbers<'_, T>, Numbers<'_, T>),
    rows: Rows<'_>,
    out: &mut Vec<U>,
    mut each: impl FnMut(T, T) -> U,
) {
    match (left, right, rows) {
        (Numbers::Many(left, _), Numbers::Many(right, _), Rows::All(count)) => {
            let pairs = left.iter().zip(right).take(count);
            out.extend(pairs.map(|(&left, &right)| each(left, right)));
        }
        (Numbers::Many(left, _), Numbers::One(right), Rows::All(count)) => {
            out.extend(left.iter().take(count).map(|&left| each(left, right)));
        }
        (Numbers::One(left), Numbers::Many(right, _), Rows::All(count)) => {
            out.extend(right.iter().take(count).map(|&right| each(left, right)));
        }
        _ => rows.each(|row| out.push(each(left.at(row), right.at(row)))),
    }
}

impl Columns {
    /// Runs a code for all rows and leaves the values in its result's column. A failing row ends
    /// the rows, see [`Columns::failed`].
    pub(super) fn eval(&mut self, code: &Code, world: &mut World<'_, '_, '_>) {
        let jumps = |op: &Op| matches!(op, Op::Jump { .. } | Op::JumpIf { .. });
        if !code.ops.iter().any(jumps) {
            for op in &code.ops {
                self.step(op, Rows::All(self.rows), world);
            }
            return;
        }
        let mut listed = std::mem::take(&mut self.listed);
        // The rows at this operation, and the rows waiting for a later one, by its place.
        let mut here = all_of(self.rows);
        let mut waiting = std::mem::take(&mut self.waiting);
        waiting.clear();
        for (place, op) in code.ops.iter().enumerate() {
            waiting.retain(|&(to, rows)| {
                here |= if to == place { rows } else { 0 };
                to != place
            });
            // The operation before may have ended the rows.
            here &= all_of(self.rows);
            if here == 0 {
                continue;
            }
            let rows = if here == all_of(self.rows) {
                Rows::All(self.rows)
            } else {
                listed.clear();
                list(here, &mut listed);
                Rows::Some(&listed)
            };
            match op {
                Op::Jump { to } => wait(&mut waiting, *to, std::mem::take(&mut here)),
                Op::JumpIf { from, when, to } => {
                    let taken = here & self.which(*when, *from, rows, world);
                    here &= !taken;
                    wait(&mut waiting, *to, taken);
                }
                other => self.step(other, rows, world),
            }
        }
        (self.waiting, self.listed) = (waiting, listed);
    }

    /// The rows where a condition holds, among `rows`; the bits of other rows are arbitrary.
    pub(super) fn which(
        &self,
        when: When,
        from: Reg,
        rows: Rows<'_>,
        world: &World<'_, '_, '_>,
    ) -> RowBits {
        let source = self.source(from, world);
        if let Some(Numbers::Many(ints, nulls)) = source.ints() {
            let other_than_zero = |row: usize| ints.get(row).is_some_and(|&int| int != 0);
            let is_true = || bits_of(self.rows, other_than_zero) & !nulls;
            return all_of(self.rows)
                & match when {
                    When::True => is_true(),
                    When::NotTrue => !is_true(),
                    When::False => !(is_true() | nulls),
                    When::NotNull => !nulls,
                };
        }
        let mut bits = 0;
        rows.each(|row| bits |= RowBits::from(when.holds(source.value(row))) << row);
        bits
    }

    fn source<'c>(&'c self, reg: Reg, world: &'c World<'_, '_, '_>) -> Source<'c> {
        match world.table.column(reg) {
            Some(column) => Source::Column(self.column(column)),
            None => Source::Fixed(world.machine.registers[reg].as_ref()),
        }
    }

    /// Runs one operation, not a jump, for rows.
    fn step(&mut self, op: &Op, rows: Rows<'_>, world: &mut World<'_, '_, '_>) {
        if let (Op::Copy { from, to }, Rows::All(_)) = (op, rows)
            && let (Some(from), Some(to)) = (world.table.column(*from), world.table.column(*to))
            && from < self.loaded
        {
            // No operation writes to a column that was read.
            self.holders[to] = from;
            return;
        }
        // Results go to a column of their own: an operation may write to a register it reads.
        let mut out = std::mem::take(&mut self.out);
        out.clear();
        let to = match op {
            Op::Copy { from, to } => {
                self.copy(self.source(*from, world), rows, &mut out);
                *to
            }
            Op::Null { to } => {
                rows.each(|_| out.push(ValueRef::Null));
                *to
            }
            Op::Arithmetic { op: ArithmeticOp::Concat, left, right, to } => {
                let (left, right) = (self.source(*left, world), self.source(*right, world));
                rows.each(|row| out.push_joined(left.value(row), right.value(row)));
                *to
            }
            Op::Arithmetic { op, left, right, to } => {
                let mut converted = std::mem::take(&mut self.converted);
                let operands = (self.source(*left, world), self.source(*right, world));
                calculate(*op, operands, rows, &mut converted, &mut out);
                self.converted = converted;
                *to
            }
            Op::Negate { from, to } => {
                let operands = (Source::Fixed(ValueRef::Int(0)), self.source(*from, world));
                calculate(ArithmeticOp::Subtract, operands, rows, &mut Vec::new(), &mut out);
                *to
            }
            Op::BitNot { from, to } => {
                let source = self.source(*from, world);
                rows.each(|row| out.push(value::bit_not(source.value(row)).as_ref()));
                *to
            }
            Op::Not { from, to } => {
                let source = self.source(*from, world);
                truths(rows, &mut out, |row| truth(source.value(row)).map(|truth| !truth));
                *to
            }
            Op::Compare { rule, left, right, to } => {
                let operands = (self.source(*left, world), self.source(*right, world));
                compare_rows(*rule, operands, rows, &mut out);
                *to
            }
            Op::And { left, right, to } => {
                let (left, right) = (self.source(*left, world), self.source(*right, world));
                truths(rows, &mut out, |row| and(truth(left.value(row)), truth(right.value(row))));
                *to
            }
            Op::Or { left, right, to } => {
                let (left, right) = (self.source(*left, world), self.source(*right, world));
                let none = |source: Source<'_>, row| truth(source.value(row)).map(|truth| !truth);
                truths(rows, &mut out, |row| {
                    and(none(left, row), none(right, row)).map(|neither| !neither)
                });
                *to
            }
            Op::IsNull { from, to, not } => {
                let source = self.source(*from, world);
                truths(rows, &mut out, |row| Some((source.value(row) == ValueRef::Null) != *not));
                *to
            }
            Op::IsTruth { from, to, truth: wanted, not } => {
                let source = self.source(*from, world);
                truths(rows, &mut out, |row| {
                    Some((truth(source.value(row)) == Some(*wanted)) != *not)
                });
                *to
            }
            Op::Cast { from, to, affinity } => {
                let source = self.source(*from, world);
                rows.each(|row| out.push(value::cast(source.value(row), *affinity).as_ref()));
                *to
            }
            Op::Stored { from, to, affinity } => {
                let source = self.source(*from, world);
                rows.each(|row| out.push(affinity.apply(source.value(row).into()).as_ref()));
                *to
            }
            Op::CurrentTime { kind, to } => {
                let time = current_time(world.machine.session.now_unix_ms(), *kind);
                rows.each(|_| out.push(ValueRef::Text(time.as_bytes())));
                *to
            }
            Op::Call { function, first, count, collation, json, to } => {
                let env =
                    Env { collation: *collation, session: world.machine.session, json: *json };
                self.call((function, &env), *first..*first + *count, rows, &mut out, world);
                *to
            }
            Op::InList { from, list, set, rule, to } => {
                self.is_in((*from, list), *set, *rule, rows, &mut out, world);
                *to
            }
            Op::Exists { query, to } if self.ask_many(*query, rows, &mut out, world) => *to,
            Op::Exists { query, to } => {
                self.run_query((*query, None), rows, &mut out, world, |machine, out| {
                    out.push(ValueRef::Int(i64::from(machine.exists(*query)?)));
                    Ok(())
                });
                *to
            }
            Op::Scalar { query, column, to } => {
                self.run_query((*query, None), rows, &mut out, world, |machine, out| {
                    machine.scalar(*query, *column, *to)?;
                    out.push(machine.registers[*to].as_ref());
                    Ok(())
                });
                *to
            }
            Op::InQuery { from, query, rule, to } => {
                self.run_query((*query, Some(*from)), rows, &mut out, world, |machine, out| {
                    let found = machine.in_query(*query, *from, *rule)?;
                    let found = found.map(|found| ValueRef::Int(i64::from(found != rule.not)));
                    out.push(found.unwrap_or(ValueRef::Null));
                    Ok(())
                });
                *to
            }
            // Codes over columns hold none of these.
            Op::Jump { .. } | Op::JumpIf { .. } | Op::RowInQuery { .. } => {
                self.out = out;
                return;
            }
        };
        let Some(to) = world.table.column(to) else {
            self.out = out;
            return;
        };
        let held = std::mem::replace(&mut self.holders[to], to);
        match rows {
            Rows::All(_) => self.out = std::mem::replace(&mut self.columns[to], out),
            Rows::Some(rows) => {
                if held != to {
                    let mut copied = std::mem::take(&mut self.columns[to]);
                    copied.clear();
                    let holder = &self.columns[held];
                    (0..self.rows).for_each(|row| copied.push(holder.value(row)));
                    self.columns[to] = copied;
                }
                self.columns[to].put(rows, self.rows, &out);
                self.out = out;
            }
        }
    }

    fn copy(&self, source: Source<'_>, rows: Rows<'_>, out: &mut Column) {
        match source {
            Source::Fixed(ValueRef::Int(int)) => {
                let ints = out.new_ints(0);
                rows.each(|_| ints.push(int));
            }
            source => rows.each(|row| out.push(source.value(row))),
        }
    }

    /// Calls a function with the values of its arguments' registers.
    fn call(
        &mut self,
        (function, env): (&ScalarFunction, &Env<'_>),
        registers: std::ops::Range<Reg>,
        rows: Rows<'_>,
        out: &mut Column,
        world: &World<'_, '_, '_>,
    ) {
        if let (Some(language), 2) = (function.pattern(), registers.len())
            && let Source::Fixed(ValueRef::Text(pattern)) = self.source(registers.start, world)
            && pattern.len() <= PATTERN_BYTES_MAX
        {
            let source = self.source(registers.start + 1, world);
            let pieces = language.pieces(pattern);
            let fits = |text: &[u8]| match &pieces {
                Some(pieces) => pieces.matches(text),
                None => language.matches(pattern, text, None),
            };
            truths(rows, out, |row| match source.value(row) {
                ValueRef::Text(text) => Some(fits(text)),
                other => text_of(other).map(|text| fits(&text)),
            });
            return;
        }
        if let (Some(of_one), 1) = (function.of_one(), registers.len()) {
            let source = self.source(registers.start, world);
            rows.each(|row| out.push(of_one(source.value(row))));
            return;
        }
        if let Some(append) = function.append() {
            let sources: Vec<_> = registers.map(|reg| self.source(reg, world)).collect();
            let mut given: Vec<_> = sources.iter().map(|source| source.value(0)).collect();
            let is_fixed = |source: &Source<'_>| matches!(source, Source::Fixed(_));
            let mut kept = Kept::new(sources.iter().map(is_fixed));
            let mut failed = None;
            rows.each(|row| {
                if failed.is_some() {
                    return;
                }
                for (given, source) in given.iter_mut().zip(&sources) {
                    if let Source::Column(column) = source {
                        *given = column.value(row);
                    }
                }
                let written = out.push_written(|bytes| append(&given, env, &mut kept, bytes));
                failed = written.err().map(|error| (row, error));
            });
            self.fail_at(failed);
            return;
        }
        let mut arguments = std::mem::take(&mut self.arguments);
        arguments.resize(registers.len().max(arguments.len()), Value::Null);
        let (given, mut failed) = (&mut arguments[..registers.len()], None);
        let mut varying = Vec::with_capacity(registers.len());
        for (number, reg) in registers.enumerate() {
            match self.source(reg, world) {
                Source::Fixed(value) => assign(&mut given[number], value),
                Source::Column(column) => varying.push((number, column)),
            }
        }
        rows.each(|row| {
            if failed.is_some() {
                return;
            }
            for &(number, column) in &varying {
                assign(&mut given[number], column.value(row));
            }
            match function.call(given, env) {
                Ok(value) => out.push(value.as_ref()),
                Err(error) => failed = Some((row, error)),
            }
        });
        self.arguments = arguments;
        self.fail_at(failed);
    }

    /// Ends the rows before a failed one, if there is one.
    fn fail_at(&mut self, failed: Option<(usize, Error)>) {
        if let Some((row, error)) = failed {
            (self.rows, self.failed) = (row, Some(error));
        }
    }

    /// Appends for each row if a query has rows, for queries able to probe many rows at once; false
    /// for other queries, with nothing done.
    fn ask_many(
        &mut self,
        query: usize,
        rows: Rows<'_>,
        out: &mut Column,
        world: &mut World<'_, '_, '_>,
    ) -> bool {
        let machine = &mut *world.machine;
        let plans = machine.plans;
        let probe = match &plans[query].plan.node {
            Node::Probe(probe) if probe.is_quick() => probe,
            _ => return false,
        };
        let read = self.read_by(machine.plans[query].around.iter().copied(), world.table);
        let (count, number) = match rows {
            Rows::All(count) => (count, &[][..]),
            Rows::Some(rows) => (rows.len(), rows),
        };
        let row_at = |at: usize| number.get(at).map_or(at, |&row| usize::from(row));
        let value = |at: usize, of: usize| self.value(read[of].1, row_at(at));
        let mut asked = 0;
        let result = machine.probe_many((query, probe), count, &read, value, |has_row| {
            out.push(ValueRef::Int(i64::from(has_row)));
            asked += 1;
        });
        self.read = read;
        self.fail_at(result.err().map(|error| (row_at(asked), error)));
        true
    }

    /// Pairs of the registers differing from row to row with their columns. The buffer is
    /// [`Columns::read`]: the caller gives the buffer back.
    fn read_by(
        &mut self,
        registers: impl Iterator<Item = Reg>,
        table: &ColumnTable,
    ) -> Vec<(Reg, usize)> {
        let mut read = std::mem::take(&mut self.read);
        read.clear();
        read.extend(registers.filter_map(|reg| Some((reg, table.column(reg)?))));
        read
    }

    /// Runs a query for one row after the other, and `run` to append its result; the registers the
    /// query reads of the row, and `value`, are set before.
    fn run_query(
        &mut self,
        (query, value): (usize, Option<Reg>),
        rows: Rows<'_>,
        out: &mut Column,
        world: &mut World<'_, '_, '_>,
        run: impl Fn(&mut Machine<'_, '_>, &mut Column) -> Result<(), Error>,
    ) {
        let around = world.machine.plans[query].around.iter().copied().chain(value);
        let read = self.read_by(around, world.table);
        let (machine, mut failed) = (&mut *world.machine, None);
        rows.each(|row| {
            if failed.is_some() {
                return;
            }
            for &(reg, column) in &read {
                assign(&mut machine.registers[reg], self.value(column, row));
            }
            failed = run(machine, out).err().map(|error| (row, error));
        });
        self.read = read;
        self.fail_at(failed);
    }

    fn is_in(
        &mut self,
        (from, list): (Reg, &[Reg]),
        set: Option<usize>,
        rule: InRule,
        rows: Rows<'_>,
        out: &mut Column,
        world: &World<'_, '_, '_>,
    ) {
        let Some(number) = set else {
            let source = self.source(from, world);
            let fixed_int = |&item: &Reg| match self.source(item, world) {
                Source::Fixed(ValueRef::Int(int)) => Some(int),
                _ => None,
            };
            if let Some(ints @ Numbers::Many(_, nulls)) = source.ints()
                && let Some(items) = list.iter().map(fixed_int).collect::<Option<Vec<i64>>>()
            {
                truths(rows, out, |row| {
                    let is_null = nulls >> row & 1 == 1 && !items.is_empty();
                    (!is_null).then(|| items.contains(&ints.at(row)) != rule.not)
                });
                return;
            }
            truths(rows, out, |row| {
                let items = list.iter().map(|&item| self.source(item, world).value(row));
                is_in_values(source.value(row), items, rule).map(|found| found != rule.not)
            });
            return;
        };
        let known = self.sets.iter().position(|(known, _)| *known == number);
        let place = known.unwrap_or_else(|| {
            let mut built = KeySet::default();
            for &item in list {
                built.insert(world.machine.registers[item].as_ref(), rule.affinity, rule.collation);
            }
            self.sets.push((number, built));
            self.sets.len() - 1
        });
        let (set, source) = (&self.sets[place].1, self.source(from, world));
        truths(rows, out, |row| {
            let found = set.contains(source.value(row), rule.affinity, rule.collation);
            found.map(|found| found != rule.not)
        });
    }
}

impl When {
    #[inline]
    fn holds(self, value: ValueRef<'_>) -> bool {
        match self {
            When::True => truth(value) == Some(true),
            When::NotTrue => truth(value) != Some(true),
            When::False => truth(value) == Some(false),
            When::NotNull => value != ValueRef::Null,
        }
    }
}

/// Lets rows wait for a place.
fn wait(waiting: &mut Vec<(usize, RowBits)>, place: usize, rows: RowBits) {
    match waiting.iter_mut().find(|(to, _)| *to == place) {
        Some((_, known)) => *known |= rows,
        None => waiting.push((place, rows)),
    }
}

/// The first so many rows.
fn all_of(rows: usize) -> RowBits {
    RowBits::MAX.checked_shr((ROWS_MAX - rows) as u32).unwrap_or_default()
}

/// Appends the numbers of rows.
pub(super) fn list(rows: RowBits, out: &mut Vec<u8>) {
    // A word at a time: processors count zeros in words.
    for (first, mut word) in [(0, rows as u64), (u64::BITS, (rows >> u64::BITS) as u64)] {
        while word != 0 {
            out.push((first + word.trailing_zeros()) as u8);
            word &= word - 1;
        }
    }
}

/// The bits of the first `count` rows where `holds` is true.
#[inline(always)]
fn bits_of(count: usize, holds: impl Fn(usize) -> bool) -> RowBits {
    let word = |from: usize| {
        let rows = from..count.min(from + u64::BITS as usize);
        rows.fold(0, |bits, row| bits | u64::from(holds(row)) << (row - from))
    };
    RowBits::from(word(0)) | RowBits::from(word(u64::BITS as usize)) << u64::BITS
}

/// Appends the truths of rows.
#[inline(always)]
fn truths(rows: Rows<'_>, out: &mut Column, of: impl Fn(usize) -> Option<bool>) {
    rows.each(|row| {
        out.push(of(row).map_or(ValueRef::Null, |truth| ValueRef::Int(i64::from(truth))));
    });
}

/// Appends the results of an operator. `converted` is room for integers as floats.
fn calculate(
    op: ArithmeticOp,
    (left, right): (Source<'_>, Source<'_>),
    rows: Rows<'_>,
    converted: &mut Vec<f64>,
    out: &mut Column,
) {
    let done = match (left.ints(), right.ints()) {
        (Some(left), Some(right)) => calculate_ints(op, (left, right), rows, out),
        (left_ints, right_ints) => {
            let mut as_reals = |ints: Numbers<'_, i64>| {
                converted.clear();
                if let Numbers::Many(ints, _) = ints {
                    converted.extend(ints.iter().map(|&int| int as f64));
                }
                ints.nulls()
            };
            match (left.reals(), right.reals(), left_ints, right_ints) {
                (Some(left), Some(right), ..) => calculate_reals(op, (left, right), rows, out),
                (Some(left), None, _, Some(ints)) => {
                    let nulls = as_reals(ints);
                    calculate_reals(op, (left, Numbers::Many(converted, nulls)), rows, out)
                }
                (None, Some(right), Some(ints), _) => {
                    let nulls = as_reals(ints);
                    calculate_reals(op, (Numbers::Many(converted, nulls), right), rows, out)
                }
                _ => false,
            }
        }
    };
    if !done {
        out.clear();
        rows.each(|row| out.push(arithmetic(op, left.value(row), right.value(row)).as_ref()));
    }
}

/// Appends the results of an operator on integers. False where a result is not an integer: the
/// appended values are then to be forgotten.
fn calculate_ints(
    op: ArithmeticOp,
    operands: (Numbers<'_, i64>, Numbers<'_, i64>),
    rows: Rows<'_>,
    out: &mut Column,
) -> bool {
    let (out, mut fits) = (out.new_ints(nulls_of(operands, rows)), true);
    let mut wrapped = |(int, wraps): (i64, bool)| {
        fits &= !wraps;
        int
    };
    match op {
        ArithmeticOp::Add => pairs(operands, rows, out, |a, b| wrapped(a.overflowing_add(b))),
        ArithmeticOp::Subtract => pairs(operands, rows, out, |a, b| wrapped(a.overflowing_sub(b))),
        ArithmeticOp::Multiply => pairs(operands, rows, out, |a, b| wrapped(a.overflowing_mul(b))),
        ArithmeticOp::Divide => pairs(operands, rows, out, |a, b| {
            let quotient = a.checked_div(b);
            wrapped((quotient.unwrap_or_default(), quotient.is_none()))
        }),
        ArithmeticOp::Remainder => pairs(operands, rows, out, |a, b| {
            // The lowest integer by -1 overflows in the machine; every remainder by -1 is 0.
            let rest = if b == -1 { Some(0) } else { a.checked_rem(b) };
            wrapped((rest.unwrap_or_default(), rest.is_none()))
        }),
        ArithmeticOp::BitAnd => pairs(operands, rows, out, |a, b| a & b),
        ArithmeticOp::BitOr => pairs(operands, rows, out, |a, b| a | b),
        ArithmeticOp::ShiftLeft | ArithmeticOp::ShiftRight | ArithmeticOp::Concat => return false,
    }
    fits
}

/// As [`calculate_ints`] for floats; false where a result is not a number.
fn calculate_reals(
    op: ArithmeticOp,
    operands: (Numbers<'_, f64>, Numbers<'_, f64>),
    rows: Rows<'_>,
    out: &mut Column,
) -> bool {
    let (out, mut fits) = (out.new_reals(nulls_of(operands, rows)), true);
    let mut number = |real: f64| {
        fits &= !real.is_nan();
        real
    };
    match op {
        ArithmeticOp::Add => pairs(operands, rows, out, |a, b| number(a + b)),
        ArithmeticOp::Subtract => pairs(operands, rows, out, |a, b| number(a - b)),
        ArithmeticOp::Multiply => pairs(operands, rows, out, |a, b| number(a * b)),
        ArithmeticOp::Divide => {
            // A zero divisor gives NULL.
            pairs(operands, rows, out, |a, b| number(if b == 0.0 { f64::NAN } else { a / b }));
        }
        ArithmeticOp::Remainder
        | ArithmeticOp::BitAnd
        | ArithmeticOp::BitOr
        | ArithmeticOp::ShiftLeft
        | ArithmeticOp::ShiftRight
        | ArithmeticOp::Concat => return false,
    }
    fits
}

/// Appends the truths of a comparison.
fn compare_rows(
    rule: Comparison,
    (left, right): (Source<'_>, Source<'_>),
    rows: Rows<'_>,
    out: &mut Column,
) {
    // `IS` and `IS NOT` never give NULL.
    let is_told = matches!(rule.op, CompareOp::Is | CompareOp::IsNot);
    if let (Some(left), Some(right)) = (left.ints(), right.ints())
        && !(is_told && left.nulls() | right.nulls() != 0)
    {
        return compare_numbers(rule.op, (left, right), rows, out);
    }
    // An integer beside floats may have no equal float: other rules compare the pair.
    let is_real = |source: Source<'_>| !matches!(source, Source::Fixed(ValueRef::Int(_)));
    if is_real(left)
        && is_real(right)
        && let (Some(left), Some(right)) = (left.reals(), right.reals())
        && !(is_told && left.nulls() | right.nulls() != 0)
    {
        return compare_numbers(rule.op, (left, right), rows, out);
    }
    let is_equality = matches!(rule.op, CompareOp::Equal | CompareOp::NotEqual);
    if let Source::Fixed(ValueRef::Text(text)) = right
        && is_equality
        && rule.collation == Collation::Binary
        && !(rule.affinity.is_some_and(Affinity::is_numeric) && may_read_as_number(text))
    {
        let differs = rule.op == CompareOp::NotEqual;
        return truths(rows, out, |row| match left.value(row) {
            ValueRef::Text(other) => Some((other == text) != differs),
            other => compare_by(rule, other, right.value(row)),
        });
    }
    truths(rows, out, |row| compare_by(rule, left.value(row), right.value(row)));
}

/// Compares numbers of one class, without NaN.
fn compare_numbers<T: Copy + PartialOrd>(
    op: CompareOp,
    operands: (Numbers<'_, T>, Numbers<'_, T>),
    rows: Rows<'_>,
    out: &mut Column,
) {
    let out = out.new_ints(nulls_of(operands, rows));
    match op {
        CompareOp::Equal | CompareOp::Is => pairs(operands, rows, out, |a, b| i64::from(a == b)),
        CompareOp::NotEqual | CompareOp::IsNot => {
            pairs(operands, rows, out, |a, b| i64::from(a != b));
        }
        CompareOp::Less => pairs(operands, rows, out, |a, b| i64::from(a < b)),
        CompareOp::LessEqual => pairs(operands, rows, out, |a, b| i64::from(a <= b)),
        CompareOp::Greater => pairs(operands, rows, out, |a, b| i64::from(a > b)),
        CompareOp::GreaterEqual => pairs(operands, rows, out, |a, b| i64::from(a >= b)),
    }
}
