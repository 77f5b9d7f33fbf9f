//! One `SELECT`: nested loops, groups, distinct rows.

use super::eval;
use super::group::Groups;
use super::hash::HashRun;
use super::overflow::DistinctOverflow;
use super::pipeline_scan::BatchRow;
use super::scan::ScanRun;
use super::window::WindowRun;
use super::{Batch, Machine};
use crate::Error;
use crate::exec::eval_condition;
use crate::keep::key::RowSet;
use crate::keep::{Kept, row_size};
use crate::plan::{
    Code, DistinctPlan, GroupPlan, Level, PipelineScan, QueryPlan, Scan, SelectPlan, UnmatchedScan,
};
use crate::value::{Value, assign};

/// The state of a select.
#[derive(Debug, Default)]
pub(super) struct SelectRun {
    started: bool,
    done: bool,
    levels: Vec<LevelRun>,
    /// The innermost open loop.
    depth: usize,
    /// The loop giving its unmatched rows, once all loops are done otherwise.
    unmatched: Option<usize>,
    // Boxed, as few selects have them: a query within an expression begins anew for every row.
    groups: Option<Box<Groups>>,
    /// Groups of an earlier run, empty.
    spare: Option<Box<Groups>>,
    windows: Option<Box<WindowRun>>,
    distinct: Option<Box<DistinctRun>>,
}

/// The rows a `DISTINCT` has given.
#[derive(Debug, Default)]
struct DistinctRun {
    seen: RowSet,
    /// The row given last, where equal rows come one after the other.
    last: Option<Vec<Value>>,
    /// Bytes of the rows seen.
    kept: Kept,
    /// Rows without room in memory; `ended` while they are being given.
    overflow: Option<Box<DistinctOverflow>>,
    ended: bool,
}

impl DistinctRun {
    /// True where the current row equals none before, as far as memory tells: a row without room
    /// waits.
    fn is_new(
        &mut self,
        query: &QueryPlan,
        plan: &SelectPlan,
        distinct: &DistinctPlan,
        machine: &Machine<'_, '_>,
    ) -> Result<bool, Error> {
        let DistinctPlan { collations, ordered } = distinct;
        let values = &machine.registers[query.output..query.output + query.width];
        if *ordered {
            let equal = |last: &Vec<Value>| {
                let mut pairs = last.iter().zip(values).zip(collations);
                pairs.all(|((a, b), by)| a.as_ref().compare(b.as_ref(), *by).is_eq())
            };
            if self.last.as_ref().is_some_and(equal) {
                return Ok(false);
            }
            let last = self.last.get_or_insert_with(|| vec![Value::Null; values.len()]);
            for (last, value) in last.iter_mut().zip(values) {
                assign(last, value.as_ref());
            }
            return Ok(true);
        }
        let session = machine.session;
        let row = values.iter().map(Value::as_ref);
        if let Some(overflow) = &mut self.overflow {
            if !self.seen.contains(row, collations) {
                let whole = query.output..query.output + plan.outputs.len();
                overflow.push(session, &machine.registers[whole])?;
            }
            return Ok(false);
        }
        let new = self.seen.insert(row.clone(), collations);
        if new && !self.kept.try_add(session, || (row_size(row), 0)) {
            self.overflow = Some(Box::new(DistinctOverflow::new(collations)));
        }
        Ok(new)
    }

    /// The next of the waiting rows, once all others were given.
    fn next(
        &mut self,
        query: &QueryPlan,
        plan: &SelectPlan,
        machine: &mut Machine<'_, '_>,
    ) -> Result<bool, Error> {
        let Some(overflow) = &mut self.overflow else { return Ok(false) };
        if !std::mem::replace(&mut self.ended, true) {
            overflow.finish(machine.session)?;
        }
        overflow.next(&mut machine.registers[query.output..query.output + plan.outputs.len()])
    }
}

#[derive(Debug, Default)]
struct LevelRun {
    scan: ScanRun,
    /// True once a left join has found a row, or given its row of NULLs.
    matched: bool,
    null_row: bool,
    /// True while the scan gives the unmatched rows.
    unmatched: bool,
}

impl SelectRun {
    /// Puts the next row into the query's registers; false when there is none.
    pub(super) fn next(
        &mut self,
        query: &QueryPlan,
        plan: &SelectPlan,
        machine: &mut Machine<'_, '_>,
    ) -> Result<bool, Error> {
        loop {
            if let Some(distinct) = &mut self.distinct
                && distinct.ended
            {
                return distinct.next(query, plan, machine);
            }
            let found = match &plan.windows {
                None => {
                    // Whoever wants few of the groups does not wait for all.
                    let is_bounded = query.limit.is_some() && query.sort.is_none();
                    self.next_grouped(plan, is_bounded, machine)?
                }
                Some(windows) => {
                    if self.windows.is_none() {
                        let mut run = Box::<WindowRun>::default();
                        while self.next_grouped(plan, false, machine)? {
                            run.add(windows, machine)?;
                        }
                        run.finish(windows, machine)?;
                        self.windows = Some(run);
                    }
                    match &mut self.windows {
                        Some(run) => run.next(windows, machine)?,
                        None => false,
                    }
                }
            };
            if !found {
                return match &mut self.distinct {
                    Some(distinct) => distinct.next(query, plan, machine),
                    None => Ok(false),
                };
            }
            for output in &plan.outputs {
                eval(machine, output)?;
            }
            if let Some(distinct) = &plan.distinct
                && !self.distinct.get_or_insert_default().is_new(query, plan, distinct, machine)?
            {
                continue;
            }
            return Ok(true);
        }
    }

    /// Begins anew, with the memory of the groups before.
    pub(super) fn restart(&mut self) {
        let mut spare = self.groups.take().or_else(|| self.spare.take());
        if let Some(groups) = &mut spare {
            groups.clear();
        }
        // The scans of the run before are kept: they are opened anew with their memory.
        (self.started, self.done, self.depth, self.unmatched) = (false, false, 0, None);
        (self.groups, self.spare) = (None, spare);
        (self.windows, self.distinct) = (None, None);
    }

    /// The next row before window functions: a group, or a row where nothing is grouped.
    fn next_grouped(
        &mut self,
        plan: &SelectPlan,
        is_bounded: bool,
        machine: &mut Machine<'_, '_>,
    ) -> Result<bool, Error> {
        let Some(group) = &plan.group else { return self.next_joined(plan, machine) };
        if group.ordered && (is_bounded || plan.pipeline.is_none()) {
            return self.next_ordered(plan, group, machine);
        }
        self.gather(plan, group, machine)?;
        let Some(groups) = &mut self.groups else { return Ok(false) };
        while groups.next(group, machine)? {
            match &group.having {
                Some(having) if !eval_condition(machine, having)? => {}
                _ => return Ok(true),
            }
        }
        Ok(false)
    }

    /// Appends up to `count` groups to `out`, where groups are the result unchanged; false when
    /// there are no more, `None` for other selects.
    ///
    /// # Errors
    /// Errors of aggregates and of the file.
    pub(super) fn fill_groups(
        &mut self,
        (plan, width): (&SelectPlan, usize),
        machine: &mut Machine<'_, '_>,
        count: usize,
        out: &mut Batch,
    ) -> Result<Option<bool>, Error> {
        let pipeline = plan.pipeline.as_deref().and_then(|pipeline| pipeline.group.as_ref());
        let piped = grouped_by_columns(plan).and_then(|piped| piped.group.as_ref());
        // Groups whose rows come in the groups' order are given one by one, as they end.
        let is_ordered = plan.group.as_ref().is_some_and(|group| group.ordered);
        let piped = piped.filter(|_| !is_ordered).map(|piped| &piped.group);
        let given = pipeline.or(piped).and_then(|group| group.given.as_deref());
        let (Some(given), Some(group)) = (given, &plan.group) else { return Ok(None) };
        self.gather(plan, group, machine)?;
        let session = machine.session;
        let Some(groups) = &mut self.groups else { return Ok(None) };
        for _ in 0..count {
            // Values behind the columns were sort keys.
            if !groups.push_next(group, given.get(..width).unwrap_or(given), session, out)? {
                return Ok(Some(false));
            }
            if out.is_long() {
                break;
            }
        }
        Ok(Some(true))
    }

    /// Takes all rows into their groups, unless done before.
    fn gather(
        &mut self,
        plan: &SelectPlan,
        group: &GroupPlan,
        machine: &mut Machine<'_, '_>,
    ) -> Result<(), Error> {
        if self.groups.is_none() {
            self.groups = Some(machine.measured_run(
                group.measure,
                |machine| self.gathered(plan, group, machine),
                |groups| groups.len() as u64,
            )?);
        }
        Ok(())
    }

    /// All rows in their groups.
    fn gathered(
        &mut self,
        plan: &SelectPlan,
        group: &GroupPlan,
        machine: &mut Machine<'_, '_>,
    ) -> Result<Box<Groups>, Error> {
        let mut groups = self.spare.take().unwrap_or_default();
        match (plan.pipeline.as_deref(), grouped_by_columns(plan)) {
            (Some(pipeline), _) => {
                let add = |machine: &mut Machine<'_, '_>| {
                    groups.add_pipeline(group, pipeline, machine).map(|()| groups.taken())
                };
                machine.measured_run(pipeline.measure, add, |taken| *taken)?;
            }
            (None, Some(piped)) if self.meets_constant(plan, machine)? => {
                let add = |machine: &mut Machine<'_, '_>| {
                    groups.add_computed(group, piped, machine).map(|()| groups.taken())
                };
                machine.measured_run(piped.pipeline.measure, add, |taken| *taken)?;
            }
            (None, Some(_)) => {}
            (None, None) => {
                while self.next_joined(plan, machine)? {
                    groups.add(group, machine)?;
                    let argument = group.aggregates.first().map(|aggregate| aggregate.first);
                    if group.ends_early
                        && argument.is_some_and(|reg| !machine.registers[reg].is_null())
                    {
                        self.done = true;
                        break;
                    }
                }
            }
        }
        groups.finish(group, machine.session)?;
        Ok(groups)
    }

    /// The next group, where the rows of each come one after the other: no more than two are kept.
    fn next_ordered(
        &mut self,
        plan: &SelectPlan,
        group: &GroupPlan,
        machine: &mut Machine<'_, '_>,
    ) -> Result<bool, Error> {
        let spare = &mut self.spare;
        let mut groups = self.groups.take().unwrap_or_else(|| spare.take().unwrap_or_default());
        groups.uncover(group, machine);
        let found = loop {
            let ended = !self.next_joined(plan, machine)?;
            if !ended {
                groups.add(group, machine)?;
            }
            if groups.next_complete(group, machine, ended)? {
                match &group.having {
                    Some(having) if !eval_condition(machine, having)? => {
                        groups.uncover(group, machine);
                    }
                    _ => break true,
                }
            } else if ended {
                break false;
            }
        };
        self.groups = Some(groups);
        Ok(found)
    }

    /// True where the conditions independent of all sources hold; otherwise there are no rows.
    fn meets_constant(
        &mut self,
        plan: &SelectPlan,
        machine: &mut Machine<'_, '_>,
    ) -> Result<bool, Error> {
        let meets = all(&plan.constant, machine)?;
        self.done |= !meets;
        Ok(meets)
    }

    /// Takes the next row computed together with the last one, where such rows are the query's
    /// unchanged. `outputs` are the query's registers.
    #[inline]
    pub(super) fn next_in_batch<'r>(
        &'r mut self,
        plan: &'r SelectPlan,
        outputs: &'r [Value],
    ) -> Option<BatchRow<'r>> {
        match (self.levels.first_mut()?, plan.levels.first()?) {
            (
                LevelRun { scan: ScanRun::Pipeline(run), .. },
                Level { scan: Scan::Pipeline(piped), .. },
            ) if plan.distinct.is_none() => run.next_in_batch(piped, outputs),
            _ => None,
        }
    }

    /// The next combination of the sources' rows meeting the conditions.
    fn next_joined(
        &mut self,
        plan: &SelectPlan,
        machine: &mut Machine<'_, '_>,
    ) -> Result<bool, Error> {
        if self.done {
            return Ok(false);
        }
        machine.open_cursors();
        let count = plan.levels.len();
        if !self.started {
            self.started = true;
            if !self.meets_constant(plan, machine)? {
                return Ok(false);
            }
            if count == 0 {
                self.done = true;
                return Ok(true);
            }
            for level in &plan.levels {
                match (&level.unmatched, &level.scan) {
                    (Some(unmatched), _) => machine.marks[unmatched.mark].clear(),
                    (None, Scan::Hash(hash)) if level.keeps_right => HashRun::reset(hash, machine),
                    _ => {}
                }
            }
            self.levels.resize_with(count, LevelRun::default);
            self.depth = 0;
            self.levels[0].open(&plan.levels[0], machine)?;
        }
        loop {
            machine.tick()?;
            let depth = self.depth;
            let (run, level) = (&mut self.levels[depth], &plan.levels[depth]);
            let found = match &level.scan {
                // Batches of a pipeline are measured where they are found.
                Scan::Pipeline(_) => run.next(level, machine)?,
                _ => machine.measured(
                    level.measure,
                    |machine| run.next(level, machine),
                    |found| u64::from(*found),
                )?,
            };
            if found {
                if depth + plan.levels[depth].width() == count {
                    return Ok(true);
                }
                self.depth += plan.levels[depth].width();
                self.levels[self.depth].open(&plan.levels[self.depth], machine)?;
            } else if depth > self.unmatched.unwrap_or(0) {
                self.depth -= 1;
                if self.depth < plan.levels[0].width() {
                    self.depth = 0;
                }
            } else if !self.next_unmatched(plan, machine)? {
                self.done = true;
                return Ok(false);
            }
        }
    }

    /// Goes on with the unmatched rows of the next loop keeping them; the loops around have no row
    /// then. False when there is no such loop.
    fn next_unmatched(
        &mut self,
        plan: &SelectPlan,
        machine: &mut Machine<'_, '_>,
    ) -> Result<bool, Error> {
        let from = self.unmatched.map_or(0, |level| level + 1);
        let found = (from..plan.levels.len()).find(|&level| plan.levels[level].keeps_right);
        let Some(level) = found else { return Ok(false) };
        let scan = match (&plan.levels[level].unmatched, &plan.levels[level].scan) {
            (Some(unmatched), _) => ScanRun::open(&unmatched.scan, machine)?,
            (None, Scan::Hash(hash)) => ScanRun::Hash(HashRun::open_unmatched(hash, machine)?),
            _ => return Ok(false),
        };
        for outer in &plan.levels[..level] {
            for &reg in &outer.registers {
                machine.registers[reg] = Value::Null;
            }
        }
        self.levels[level] = LevelRun { scan, unmatched: true, ..LevelRun::default() };
        self.unmatched = Some(level);
        self.depth = level;
        Ok(true)
    }

    /// Notes where the cursors are.
    pub(super) fn park(
        &mut self,
        plan: &SelectPlan,
        machine: &mut Machine<'_, '_>,
    ) -> Result<(), Error> {
        if self.done || !self.started {
            return Ok(());
        }
        let first = self.unmatched.unwrap_or(0);
        let open = self.depth + 1;
        for (run, level) in self.levels.iter_mut().zip(&plan.levels).take(open).skip(first) {
            let scan = run.rest(level).map_or(&level.scan, |rest| &rest.scan);
            run.scan.park(scan, machine)?;
        }
        Ok(())
    }
}

impl LevelRun {
    /// The scan giving the unmatched rows, while the loop is at them.
    fn rest<'p>(&self, plan: &'p Level) -> Option<&'p UnmatchedScan> {
        plan.unmatched.as_deref().filter(|_| self.unmatched)
    }

    /// Begins the loop with the rows known so far.
    fn open(&mut self, plan: &Level, machine: &mut Machine<'_, '_>) -> Result<(), Error> {
        if let Some(analysis) = machine.analysis {
            analysis.opened(plan.measure);
        }
        (self.matched, self.null_row, self.unmatched) = (false, false, false);
        self.scan.open_again(&plan.scan, machine)
    }

    fn next(&mut self, plan: &Level, machine: &mut Machine<'_, '_>) -> Result<bool, Error> {
        if self.null_row {
            return Ok(false);
        }
        let rest = self.rest(plan);
        let (scan, late) = match rest {
            Some(rest) => (&rest.scan, &rest.late),
            None => (&plan.scan, &plan.late),
        };
        while self.scan.next(scan, machine)? {
            if let Some(rest) = rest {
                if machine.found_match(rest)? {
                    machine.tick()?;
                    continue;
                }
            } else if !self.unmatched {
                if !all(&plan.on, machine)? {
                    continue;
                }
                self.matched = true;
                match (&plan.unmatched, &self.scan, &plan.scan) {
                    (Some(rest), ..) => machine.note_match(rest)?,
                    (None, ScanRun::Hash(run), Scan::Hash(hash)) if plan.keeps_right => {
                        run.mark(hash, machine);
                    }
                    _ => {}
                }
            }
            if all(&plan.filter, machine)? {
                self.scan.load_late(scan, late, machine)?;
                return Ok(true);
            }
        }
        if !plan.keeps_left || self.matched || self.unmatched {
            return Ok(false);
        }
        self.null_row = true;
        for &reg in &plan.registers {
            machine.registers[reg] = Value::Null;
        }
        all(&plan.filter, machine)
    }
}

impl Machine<'_, '_> {
    /// Notes a row's match.
    fn note_match(&mut self, plan: &UnmatchedScan) -> Result<(), Error> {
        match self.registers[plan.rowid] {
            Value::Int(rowid) => self.marks[plan.mark].insert_within(self.session, rowid),
            _ => Ok(()),
        }
    }

    /// True where a row has a match.
    fn found_match(&mut self, plan: &UnmatchedScan) -> Result<bool, Error> {
        match self.registers[plan.rowid] {
            Value::Int(rowid) => self.marks[plan.mark].contains_within(rowid),
            _ => Ok(false),
        }
    }
}

fn all(conditions: &[Code], machine: &mut Machine<'_, '_>) -> Result<bool, Error> {
    for condition in conditions {
        if !eval_condition(machine, condition)? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// The scan of a select grouping rows computed many at a time.
fn grouped_by_columns(plan: &SelectPlan) -> Option<&PipelineScan> {
    let Scan::Pipeline(piped) = &plan.levels.first()?.scan else { return None };
    piped.group.is_some().then_some(&**piped)
}
