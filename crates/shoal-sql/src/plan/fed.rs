//! Scans that take their rows from a direct select: those of the first tables of a select are found as
//! many at a time as lie on a leaf, joined, and asked the conditions that are simple enough where they
//! are stored. What a direct select cannot compute is computed once columns are in registers.

use super::{Level, Loads, Scan, SelectPlan};
use crate::exec::direct::{Direct, compile};
use crate::expr::{Code, Compiler, Op, Reg};

/// Such a scan.
#[derive(Debug)]
pub(crate) struct FedScan {
    pub(crate) direct: Direct,
    /// The registers of its outputs.
    pub(crate) registers: Box<[Reg]>,
    /// How many of them are read before conditions are asked.
    pub(crate) early: usize,
    /// How many levels it stands for: its own and those behind it.
    pub(crate) levels: usize,
}

impl FedScan {
    /// Makes the scan of the first level one of these, for as many levels as their rows can be found
    /// so. Conditions that are not asked there are left to that level.
    pub(crate) fn replace(levels: &mut Vec<Level>, compiler: &Compiler) {
        let is_asked = |code: &Code| is_simple(code, compiler);
        let rest = levels.iter().position(|level| !level.filter.iter().all(is_asked));
        // Rows that a condition leaves out are not joined with others before it is asked.
        let most = rest.map_or(levels.len(), |last| last + 1);
        for count in (1..=most).rev() {
            if levels[..count].iter().all(|level| can_be_fed(level, compiler))
                && feed(levels, count, compiler)
            {
                return;
            }
        }
    }
}

/// Replaces the scans of so many levels, if that can be done.
fn feed(levels: &mut Vec<Level>, count: usize, compiler: &Compiler) -> bool {
    let behind = levels.split_off(count);
    let (mut first, mut late) = (Vec::new(), Vec::new());
    for (number, level) in levels.iter().enumerate() {
        first.extend(read_early(&level.scan));
        let last = number + 1 == count;
        if last { &mut late } else { &mut first }.extend(loaded(&level.late));
    }
    let (early, mut registers) = (first.len(), first);
    registers.append(&mut late);
    let copied = |&result: &Reg| Code { ops: Box::default(), result };
    let mut select = SelectPlan {
        constant: Vec::new(),
        levels: std::mem::take(levels),
        group: None,
        windows: None,
        outputs: registers.iter().map(copied).collect(),
        distinct: None,
        direct: None,
    };
    let mut rest = Vec::new();
    let mut direct = None;
    // Conditions that look simple may ask for what queries around this one read.
    for asks in [true, false] {
        if let (None, Some(last)) = (&direct, select.levels.last_mut()) {
            let filter = std::mem::take(&mut last.filter).into_iter().chain(rest.drain(..));
            (last.filter, rest) = filter.partition(|code| asks && is_simple(code, compiler));
            direct = compile(&select, None, compiler);
        }
    }
    *levels = select.levels;
    let is_fed = direct.is_some();
    if let Some(direct) = direct {
        for level in &mut *levels {
            (level.scan, level.late) = (Scan::Nothing, Loads::default());
            level.filter.clear();
        }
        if let Some(level) = levels.first_mut() {
            let registers = registers.into();
            level.scan = Scan::Fed(Box::new(FedScan { direct, registers, early, levels: count }));
            level.filter = rest;
        }
    } else if let Some(last) = levels.last_mut() {
        last.filter.append(&mut rest);
    }
    levels.extend(behind);
    is_fed
}

/// Whether all that is known of a level is what a direct select can say of it.
fn can_be_fed(level: &Level, compiler: &Compiler) -> bool {
    let read: Vec<Reg> = read_early(&level.scan).chain(loaded(&level.late)).collect();
    // Where a left join finds no row these are NULL.
    let whole = !level.keeps_left || level.registers.iter().all(|reg| read.contains(reg));
    whole && !level.keeps_right && level.on.iter().all(|code| is_simple(code, compiler))
}

/// Whether a condition is one that a direct select may ask.
fn is_simple(code: &Code, compiler: &Compiler) -> bool {
    match &*code.ops {
        [Op::IsNull { .. } | Op::Compare { .. }]
        | [Op::Compare { .. }, Op::Compare { .. }, Op::And { .. }] => true,
        [Op::Copy { .. }, Op::Call { function, first, .. }]
        | [Op::Copy { .. }, Op::Call { function, first, .. }, Op::Not { .. }] => {
            let mut constants = compiler.constants.iter();
            function.pattern().is_some() && constants.any(|(reg, _)| reg == first)
        }
        _ => false,
    }
}

/// The registers that a scan reads columns into early.
fn read_early(scan: &Scan) -> impl Iterator<Item = Reg> {
    let (of_row, of_table) = match scan {
        Scan::Table(scan) => (Some(&scan.early), None),
        Scan::Index(scan) => (Some(&scan.early), scan.table.as_ref().map(|table| &table.early)),
        Scan::Any(scan) => (Some(&scan.early), None),
        Scan::Each(scan) => match &scan.inner {
            Scan::Table(scan) => (Some(&scan.early), None),
            _ => (None, None),
        },
        _ => (None, None),
    };
    [of_row, of_table].into_iter().flatten().flat_map(loaded)
}

fn loaded(loads: &Loads) -> impl Iterator<Item = Reg> {
    loads.columns.iter().map(|load| load.reg).chain(loads.rowid)
}
