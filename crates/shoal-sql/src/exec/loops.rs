//! Nested loops: one source in the other, row by row through registers.

use super::hash::HashRun;
use super::query::all;
use super::scan::ScanRun;
use super::{Batch, Machine};
use crate::Error;
use crate::plan::node::LoopsNode;
use crate::plan::{Code, Level, Reg, Scan, Shape, UnmatchedScan};
use crate::value::{Value, ValueRef};

/// Position in nested loops.
#[derive(Debug, Default)]
pub(super) struct LoopsRun {
    started: bool,
    done: bool,
    levels: Vec<LevelRun>,
    /// The innermost open loop.
    depth: usize,
    /// The loop giving the rows without a match, once all loops are done otherwise.
    unmatched: Option<usize>,
}

#[derive(Debug, Default)]
struct LevelRun {
    scan: ScanRun,
    /// True where a left join has found a row, or given its row of NULLs.
    matched: bool,
    null_row: bool,
    /// True where the scan gives the rows without a match.
    unmatched: bool,
}

impl LoopsRun {
    /// Begins anew. The scans of the run before are opened again with their memory.
    pub(super) fn restart(&mut self) {
        (self.started, self.done, self.depth, self.unmatched) = (false, false, 0, None);
    }

    /// Gives no more rows.
    pub(super) fn end(&mut self) {
        self.done = true;
    }

    /// The next combination of the sources' rows that meets the conditions; false when there is
    /// none.
    ///
    /// # Errors
    /// What expressions raise, and what is wrong with the file.
    pub(super) fn next(
        &mut self,
        plan: &LoopsNode,
        machine: &mut Machine<'_, '_>,
    ) -> Result<bool, Error> {
        if self.done {
            return Ok(false);
        }
        machine.open_cursors();
        let count = plan.levels.len();
        if !self.started {
            self.started = true;
            if !all(&plan.constant, machine)? {
                self.done = true;
                return Ok(false);
            }
            if count == 0 {
                self.done = true;
                return Ok(true);
            }
            for level in &plan.levels {
                match (&level.unmatched, &level.scan) {
                    (Some(unmatched), _) => machine.begin_matches(unmatched.mark),
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
                // A batch of these is measured where it is found.
                Scan::Columns(_) => run.next(level, machine)?,
                _ => machine.measured(
                    level.measure,
                    |machine| run.next(level, machine),
                    |found| u64::from(*found),
                )?,
            };
            if found {
                if depth + 1 == count {
                    return Ok(true);
                }
                self.depth += 1;
                self.levels[self.depth].open(&plan.levels[self.depth], machine)?;
            } else if depth > self.unmatched.unwrap_or(0) {
                self.depth -= 1;
            } else if !self.next_unmatched(plan, machine)? {
                self.done = true;
                return Ok(false);
            }
        }
    }

    /// Appends up to `most` rows of `outputs` to `out`, where rowids of a virtual table behind the
    /// row given last are known, and all of a row is its rowid and values that stay the same;
    /// gives their number.
    pub(super) fn push_rowids(
        &mut self,
        (plan, outputs): (&LoopsNode, &[Code]),
        machine: &Machine<'_, '_>,
        most: usize,
        out: &mut Batch,
    ) -> usize {
        let ([run], [level]) = (&mut *self.levels, &*plan.levels) else { return 0 };
        let (ScanRun::Virtual(run), Scan::Virtual(scan)) = (&mut run.scan, &level.scan) else {
            return 0;
        };
        let is_plain = level.on.is_empty() && level.filter.is_empty() && level.unmatched.is_none();
        let is_inner = !level.keeps_left && !level.keeps_right && !level.anti;
        if self.done || !is_plain || !is_inner || machine.analysis.is_some() {
            return 0;
        }
        let is_rowid = |reg: Reg| scan.early.iter().chain(&scan.late).any(|(_, own)| *own == reg);
        let register = |code: &Code| match code.shape {
            Shape::Register(reg) => Some((reg, is_rowid(reg))),
            _ => None,
        };
        if !outputs.iter().all(|code| register(code).is_some()) {
            return 0;
        }
        let rowids = run.take_rowids(most);
        for &rowid in rowids {
            out.begin_row();
            for (reg, is_rowid) in outputs.iter().filter_map(register) {
                out.push_value(match is_rowid {
                    true => ValueRef::Int(rowid),
                    false => machine.registers[reg].as_ref(),
                });
            }
        }
        rowids.len()
    }

    /// Number of equal rows behind the row given last: above 1 only where a module or a virtual
    /// table is the one source of the loops.
    pub(super) fn repeats(&self) -> u64 {
        match &*self.levels {
            [level] => level.scan.repeats(),
            _ => 1,
        }
    }

    /// Goes on with the rows of the next loop that keeps those without a match; the loops around it
    /// are without a row then. False when there is no such loop.
    fn next_unmatched(
        &mut self,
        plan: &LoopsNode,
        machine: &mut Machine<'_, '_>,
    ) -> Result<bool, Error> {
        let from = self.unmatched.map_or(0, |level| level + 1);
        let found = (from..plan.levels.len()).find(|&level| plan.levels[level].keeps_right);
        let Some(level) = found else { return Ok(false) };
        let scan = match (&plan.levels[level].unmatched, &plan.levels[level].scan) {
            (Some(unmatched), _) => ScanRun::open(&unmatched.scan, machine)?,
            (None, Scan::Hash(hash)) => ScanRun::Hash(HashRun::open_unmatched(hash, machine)?),
            _ => unreachable!("rows without a match are noted by rowid or in a hash table"),
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
        plan: &LoopsNode,
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
    /// The scan of the rows without a match, while they are given.
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
                if plan.anti {
                    return Ok(false);
                }
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
    /// Forgets the rows with a match.
    fn begin_matches(&mut self, mark: usize) {
        self.marks[mark].clear();
        self.marks[mark].keep_within(self.session);
    }

    /// Notes the match of a row.
    fn note_match(&mut self, plan: &UnmatchedScan) -> Result<(), Error> {
        match self.registers[plan.rowid] {
            Value::Int(rowid) => self.marks[plan.mark].insert(rowid),
            _ => Ok(()),
        }
    }

    /// True where a row has found a match.
    fn found_match(&mut self, plan: &UnmatchedScan) -> Result<bool, Error> {
        match self.registers[plan.rowid] {
            Value::Int(rowid) => self.marks[plan.mark].contains(rowid),
            _ => Ok(false),
        }
    }
}
