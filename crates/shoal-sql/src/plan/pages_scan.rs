//! Loops behind others whose rows stay on their pages: a pipeline that begins anew for each row
//! around it, and reads that row's registers as its parameters.
//!
//! Rows of a query, of a module, of a recursion and of a hash table go through registers. Tables
//! joined with such a row are found by the same walks as the tables of any pipeline.

use rustc_hash::FxHashSet;

use super::lower::SelectDraft;
use super::lower_pages::lower_inner;
use super::pipeline::Pipeline;
use super::pipeline_scan::{loaded, read_early};
use super::{EachCodes, Level, Loads, RowidRange, Scan};
use crate::plan::{Code, Compiler, Reg};
use crate::session::forced::ForcedCarrier;

/// Rows found on pages for a row around, and given to registers.
#[derive(Debug)]
pub(crate) struct PagesScan {
    /// All registers are its parameters.
    pub(crate) pipeline: Pipeline,
    /// The registers of its outputs.
    pub(crate) registers: Box<[Reg]>,
    /// The keys to be computed of the row around, before rows are found.
    pub(crate) keys: Box<[Code]>,
}

/// Makes loops over tables and indexes pipelines, neighbouring ones together, where they can be.
pub(super) fn find_on_pages(levels: Vec<Level>, compiler: &Compiler) -> Vec<Level> {
    if !compiler.forced.allows(ForcedCarrier::Pages) {
        return levels;
    }
    let mut rest = levels;
    let mut found = Vec::with_capacity(rest.len());
    while !rest.is_empty() {
        let together = 1 + rest.iter().skip(1).take_while(|level| is_inner(level)).count();
        let made = (1..=together).rev().find_map(|count| {
            let mut some = rest.drain(..count).collect();
            let made = together_on_pages(&mut some, None, compiler);
            rest.splice(..0, some);
            made
        });
        found.push(made.unwrap_or_else(|| {
            let mut level = rest.remove(0);
            each_on_pages(&mut level, compiler);
            level
        }));
    }
    found
}

/// True for a table's loop finding one row at most for each row of the loops before: behind them in
/// one pipeline, where the first loop alone can pause, the loop makes no batch longer.
fn is_inner(level: &Level) -> bool {
    let is_point = match &level.scan {
        Scan::Table(scan) => matches!(scan.range, RowidRange::Equal(_)),
        _ => false,
    };
    is_point && !level.keeps_left && !level.keeps_right && !level.anti && level.on.is_empty()
}

/// Makes one loop of some levels, emptying them; `beside` is a register known in addition to those
/// of the rows around. `None` leaves the levels with the same conditions, perhaps in another order.
fn together_on_pages(
    levels: &mut Vec<Level>,
    beside: Option<Reg>,
    compiler: &Compiler,
) -> Option<Level> {
    let is_simple = |code: &Code| code.predicate().is_some();
    let (last, before) = levels.split_last()?;
    let fits = |level: &Level| {
        let is_table = matches!(level.scan, Scan::Table(_) | Scan::Index(_) | Scan::Any(_));
        is_table && !level.keeps_right && level.unmatched.is_none()
    };
    let alone = before.is_empty();
    let all_simple = before.iter().all(|level| level.filter.iter().all(is_simple));
    // A loop with others behind keeps no row of its own.
    let is_plain = |level: &Level| !level.keeps_left && !level.anti && level.on.is_empty();
    let fits_together = alone || (before.iter().all(is_plain) && is_inner(last));
    if !levels.iter().all(fits) || !all_simple || !fits_together {
        return None;
    }
    let mut around = registers_around(levels, compiler);
    let mut keys = take_keys(&mut levels[0].scan);
    around.extend(keys.iter().map(|code| code.result).chain(beside));
    let last = levels.last_mut()?;
    let keeps_left = std::mem::take(&mut last.keeps_left);
    let anti = std::mem::take(&mut last.anti);
    // The conditions that decide whether a row matches are the ones to be asked on pages.
    let asked = if keeps_left { &mut last.on } else { &mut last.filter };
    let (simple, computed) = std::mem::take(asked).into_iter().partition(is_simple);
    let behind = std::mem::replace(&mut last.filter, simple);
    let (mut on, mut filter) = if keeps_left { (computed, behind) } else { (behind, computed) };
    let mut registers: Vec<Reg> = Vec::new();
    for level in &*levels {
        registers.extend(read_early(&level.scan).chain(loaded(&level.late)));
    }
    registers.sort_unstable();
    registers.dedup();
    let mut draft = SelectDraft {
        constant: Vec::new(),
        levels: std::mem::take(levels),
        group: None,
        windows: None,
        outputs: registers.iter().map(|&reg| Code::register(reg)).collect(),
        distinct: None,
    };
    let pipeline = lower_inner(&draft, &around, compiler);
    *levels = std::mem::take(&mut draft.levels);
    let Some(pipeline) = pipeline else {
        put_keys(&mut levels[0].scan, &mut keys);
        let last = levels.last_mut()?;
        (last.keeps_left, last.anti) = (keeps_left, anti);
        match keeps_left {
            true => {
                last.on = std::mem::replace(&mut last.filter, filter);
                last.on.append(&mut on);
            }
            false => last.filter.append(&mut filter),
        }
        return None;
    };
    let made = std::mem::take(levels);
    let rows = made.iter().map(|level| level.rows).product();
    let registers_of_all = made.iter().flat_map(|level| level.registers.iter().copied()).collect();
    let measure = made[0].measure;
    let last = made.into_iter().next_back()?;
    Some(Level {
        words: last.words.filter(|_| alone),
        scan: Scan::Pages(Box::new(PagesScan {
            pipeline,
            registers: registers.into(),
            keys: keys.into(),
        })),
        rows,
        estimate: last.estimate,
        anti,
        table_rows: last.table_rows,
        measure,
        source: last.source.filter(|_| alone),
        on,
        keeps_left,
        keeps_right: false,
        unmatched: None,
        filter,
        late: Loads::default(),
        registers: registers_of_all,
    })
}

/// Has the rows of each value of an `IN` found on pages.
fn each_on_pages(level: &mut Level, compiler: &Compiler) {
    let Level { scan: Scan::Each(each), late, rows, estimate, measure, source, .. } = level else {
        return;
    };
    if matches!(each.values, EachCodes::Common(_)) || level.keeps_right {
        return;
    }
    let inner = Level {
        words: None,
        scan: std::mem::replace(&mut each.inner, Scan::Nothing),
        rows: *rows,
        estimate: *estimate,
        anti: false,
        table_rows: None,
        measure: *measure,
        source: *source,
        on: Vec::new(),
        keeps_left: false,
        keeps_right: false,
        unmatched: None,
        filter: Vec::new(),
        late: late.clone(),
        registers: Vec::new(),
    };
    let mut inner = vec![inner];
    match together_on_pages(&mut inner, Some(each.reg), compiler) {
        Some(made) => (each.inner, *late) = (made.scan, Loads::default()),
        None => each.inner = inner.remove(0).scan,
    }
}

/// The registers that hold a value before the rows of some loops are looked for.
fn registers_around(levels: &[Level], compiler: &Compiler) -> FxHashSet<Reg> {
    let own: FxHashSet<Reg> = levels
        .iter()
        .flat_map(|level| {
            let read = read_early(&level.scan).chain(loaded(&level.late));
            read.chain(level.registers.iter().copied())
        })
        .collect();
    compiler.registers_of_rows().filter(|reg| !own.contains(reg)).collect()
}

/// The codes of a scan's keys.
fn each_key<'s>(scan: &'s mut Scan, each: &mut impl FnMut(&'s mut Code)) {
    match scan {
        Scan::Table(scan) => match &mut scan.range {
            RowidRange::Equal(code) => each(code),
            RowidRange::Between { low, high } => {
                low.iter_mut().chain(high).for_each(|end| each(&mut end.value));
            }
        },
        Scan::Index(scan) => {
            scan.equal.iter_mut().for_each(|(code, ..)| each(code));
            scan.low.iter_mut().chain(&mut scan.high).for_each(|end| each(&mut end.value));
        }
        Scan::Any(scan) => scan.arms.iter_mut().for_each(|arm| each_key(arm, each)),
        _ => {}
    }
}

/// Takes the keys that are computed out of a scan, which then finds them in their registers.
fn take_keys(scan: &mut Scan) -> Vec<Code> {
    let mut taken = Vec::new();
    each_key(scan, &mut |code| {
        if code.in_place().is_none() {
            let result = code.result;
            taken.push(std::mem::replace(code, Code::register(result)));
        }
    });
    taken
}

/// Puts keys back into a scan that [`take_keys`] has taken from it.
fn put_keys(scan: &mut Scan, keys: &mut Vec<Code>) {
    each_key(scan, &mut |code| {
        if let Some(at) = keys.iter().position(|key| key.result == code.result) {
            *code = keys.remove(at);
        }
    });
}
