//! Key sets: for a table joined by its rowid with few rows left by conditions, the rowids of the
//! rows left, gathered before the scan naming them. The scan drops a row whose key is in no set
//! before anything is looked up, the work of a Bloom filter of each dimension in a star join.
//!
//! A set takes the conditions of its own table, and of tables joined to the own one by their rowids
//! in turn: suppliers of the nations of one region. Every row is looked up and asked as without
//! sets: a set may hold too many keys, and leaves out conditions on other tables.

use rustc_hash::FxHashSet;

use super::access::{KEY_SET_ROWS_EACH, KEY_SET_SHARE_MAX};
use super::lower::SelectDraft;
use super::lower_pages::Lowering;
use super::pipeline::{Access, KeySetPlan, Operand, Pipeline, PipelineStep, Test};
use super::{Level, RowidRange, Scan, TableScan};
use crate::plan::{Compiler, Reg};

/// The sets worth gathering for the joins of a scan, each with the scan's key.
pub(super) fn key_sets(
    select: &SelectDraft,
    steps: &[PipelineStep],
    compiler: &Compiler,
) -> Box<[KeySetPlan]> {
    let (Some(first), Some(scan)) = (steps.first(), select.levels.first()) else {
        return Box::default();
    };
    let is_scan = match &first.access {
        Access::Rows { descending, .. } => !descending && first.record == 0,
        // Keys are columns of the entry.
        Access::Index(access) => !access.descending && !access.once && access.entry == 0,
        _ => false,
    };
    if !compiler.gathers_keys || !is_scan {
        return Box::default();
    }
    let mut sets = Vec::new();
    for (number, step) in steps.iter().enumerate().skip(1) {
        let Access::Rowid { key: key @ Operand::Field { record: 0, real: false, .. }, .. } =
            &step.access
        else {
            continue;
        };
        let fits = !step.left_join && step.marks.is_none();
        let level = select.levels.get(number).filter(|_| fits);
        let Some(size) = level.and_then(|level| level.table_rows) else { continue };
        if scan.estimate < KEY_SET_ROWS_EACH * size {
            continue;
        }
        if let Some((pipeline, share)) = gather(&select.levels, number, compiler)
            && share < KEY_SET_SHARE_MAX
        {
            sets.push((share, KeySetPlan { key: key.clone(), pipeline }));
        }
    }
    // The set dropping most rows is asked first.
    sets.sort_by(|a, b| a.0.total_cmp(&b.0));
    sets.into_iter().map(|(_, set)| set).collect()
}

/// The rows of a joined table left by its own conditions and the conditions of tables joined to it
/// in turn; also their estimated share.
fn gather(levels: &[Level], number: usize, compiler: &Compiler) -> Option<(Pipeline, f64)> {
    let joined = joined_to(levels, number);
    let mut lowering = Lowering::new(compiler, None);
    let mut steps = Vec::with_capacity(joined.len());
    let mut share = 1.0;
    let mut tests = 0;
    for &place in &joined {
        let level = &levels[place];
        let Scan::Table(TableScan { root, early, range, .. }) = &level.scan else { return None };
        let access = if place == number {
            Access::Rows { root: *root, low: None, high: None, descending: false }
        } else {
            lowering.rows(*root, range, false)?
        };
        let record = lowering.record()?;
        lowering.load(record, early);
        lowering.load(record, &level.late);
        let mut filter = Vec::new();
        for code in level.on.iter().chain(&level.filter) {
            if let Some(found) = lowering.tests(std::slice::from_ref(code)) {
                filter.extend(found);
            }
        }
        let own = |test: &Test| test.operands().any(|operand| operand.is_of(record));
        filter.retain(own);
        tests += filter.len();
        share *= level.rows.min(1.0);
        let figures = (level.rows, level.estimate);
        steps.push(PipelineStep::alone(access, record, filter.into(), figures));
    }
    let database = match &levels[number].scan {
        Scan::Table(scan) => compiler.cursors.get(scan.cursor).copied()?,
        _ => return None,
    };
    (tests > 0).then(|| {
        (
            {
                let outputs = Box::new([Operand::Rowid { record: 0 }]);
                lowering.rows_of(steps, outputs, (database, compiler.forced))
            },
            share,
        )
    })
}

/// The levels of a joined table, and of tables joined by its columns, as far as they have
/// conditions or lead to levels with conditions.
fn joined_to(levels: &[Level], number: usize) -> Vec<usize> {
    let mut own: FxHashSet<Reg> = levels[number].registers.iter().copied().collect();
    let mut found = vec![(number, None)];
    for (place, level) in levels.iter().enumerate().skip(number + 1) {
        let Scan::Table(TableScan { range: RowidRange::Equal(key), .. }) = &level.scan else {
            continue;
        };
        let is_plain = !level.keeps_left && !level.keeps_right && level.unmatched.is_none();
        if let Some(reg) = key.in_place().filter(|reg| is_plain && own.contains(reg)) {
            let parent =
                found.iter().position(|(other, _)| levels[*other].registers.contains(&reg));
            own.extend(&level.registers);
            found.push((place, parent));
        }
    }
    let mut needed = vec![false; found.len()];
    for at in (0..found.len()).rev() {
        let (place, parent) = found[at];
        let level = &levels[place];
        needed[at] |= at == 0 || !level.filter.is_empty() || !level.on.is_empty();
        if let (true, Some(parent)) = (needed[at], parent) {
            needed[parent] = true;
        }
    }
    let found = found.into_iter().zip(needed);
    found.filter(|(_, needed)| *needed).map(|((place, _), _)| place).collect()
}
