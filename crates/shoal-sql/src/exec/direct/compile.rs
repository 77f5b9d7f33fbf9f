//! Which selects run directly, compiled from the plan of the general executor.

use super::draft::{Builder, Draft, finish};
use super::leaf_rows::Given;
use rustc_hash::FxHashSet;

use super::plan::{Access, Direct, DirectGroup, DirectLevel, GroupColumn, Operand, RecordPlan};
use crate::plan::{Compiler, Level, Reg, Scan, SelectPlan};
use crate::value::Value;

/// Compiles a select that runs directly; `None` for one that does not.
///
/// `chooses` is the number of the output that the rows are sorted by first, where so many of them are
/// wanted.
///
/// Every part of the plan is named here: a plan that learns more must say what that means.
pub(crate) fn compile(
    select: &SelectPlan,
    chooses: Option<usize>,
    compiler: &Compiler,
) -> Option<Direct> {
    let mut direct = compile_part(select, None, chooses, (compiler, None))?;
    let keeps = |(_, level): &(usize, &Level)| level.keeps_right;
    let unmatched = select.levels.iter().enumerate().filter(keeps).enumerate();
    let unmatched: Option<Box<[Direct]>> = unmatched
        .map(|(mark, (first, _))| compile_part(select, Some((first, mark)), None, (compiler, None)))
        .collect();
    direct.unmatched = unmatched?;
    Some(direct)
}

/// Compiles a select within an expression that reads registers of the rows around it: all registers are
/// its parameters. Its rows are given as often as they are found, also those of a `DISTINCT`, and one
/// group is made of them or none.
pub(crate) fn compile_inner(
    select: &SelectPlan,
    around: &FxHashSet<Reg>,
    compiler: &Compiler,
) -> Option<Direct> {
    let is_one = select.group.as_ref().is_none_or(|group| group.keys.is_empty());
    let keeps = select.levels.iter().any(|level| level.keeps_right);
    if !is_one || keeps || select.windows.is_some() {
        return None;
    }
    let mut direct = compile_part(select, None, None, (compiler, Some(around)))?;
    direct.quick = super::probe::quick(&direct);
    Some(direct)
}

/// Compiles what gives the rows that the loops find; with the number of a loop and of a set those of the
/// loop's table that are not in the set, to which the loops around it have no row.
fn compile_part(
    select: &SelectPlan,
    without: Option<(usize, usize)>,
    chooses: Option<usize>,
    (compiler, around): (&Compiler, Option<&FxHashSet<Reg>>),
) -> Option<Direct> {
    let SelectPlan { constant, levels, group, windows, outputs, distinct, direct: _, inner: _ } =
        select;
    let is_plain = constant.is_empty() && distinct.is_none();
    if levels.is_empty() || compiler.utf16 || !(is_plain || around.is_some()) {
        return None;
    }
    let database = database_of(levels, compiler)?;
    let mut builder = Builder::default();
    for (reg, value) in &compiler.constants {
        builder.known.insert(*reg, Draft::Ready(Operand::Constant(value.clone())));
    }
    for (reg, number) in &compiler.parameters {
        let number = if around.is_some() { reg + 1 } else { *number };
        builder.known.insert(*reg, Draft::Ready(Operand::Parameter(number)));
    }
    for reg in around.into_iter().flatten() {
        builder.known.insert(*reg, Draft::Ready(Operand::Parameter(reg + 1)));
    }
    let constant = builder.tests(constant)?;
    let mut drafts = Vec::with_capacity(levels.len());
    for (number, level) in levels.iter().enumerate() {
        let first = without.map_or(0, |(first, _)| first);
        if number < first {
            for &reg in &level.registers {
                builder.known.insert(reg, Draft::Ready(Operand::Constant(Value::Null)));
            }
            builder.marks += usize::from(level.keeps_right);
        } else if number == first && without.is_some() {
            drafts.push(builder.unmatched(level)?);
        } else {
            drafts.push(builder.level(level, number == first)?);
        }
    }
    let group_draft = match group {
        Some(group) => Some(builder.group(group)?),
        None => None,
    };
    let given = match group {
        Some(group) if windows.is_none() && group.having.is_none() => {
            outputs.iter().map(|code| GroupColumn::of(code, group)).collect()
        }
        _ => None,
    };
    let outputs: Option<Vec<Draft>> = match group {
        None if windows.is_none() => outputs.iter().map(|code| builder.copied(code)).collect(),
        _ => None,
    };
    if group_draft.is_none() && outputs.is_none() {
        return None;
    }
    for (number, draft) in outputs.iter().flatten().enumerate() {
        builder.want(draft, chooses == Some(number));
    }
    if let Some((keys, arguments, kept)) = &group_draft {
        let drafts = keys.iter().map(|(draft, _)| draft).chain(arguments.iter().flatten());
        for draft in drafts.chain(kept) {
            builder.want(draft, false);
        }
    }
    let key = chooses.and_then(|number| match outputs.as_ref()?.get(number)? {
        Draft::Field { record, place, .. } => Some((*record, *place)),
        Draft::Ready(_) => None,
    });
    let (records, fields) = builder.records(key);
    let finish = |draft: Draft| finish(draft, &records);
    let constant = constant.into_iter().map(|test| test.finish(&finish)).collect();
    let levels: Box<[DirectLevel]> =
        drafts.into_iter().map(|level| level.finish(&finish)).collect();
    let group = group_draft.map(|(keys, arguments, kept)| DirectGroup {
        keys: keys.into_iter().map(|(draft, by)| (finish(draft), by)).collect(),
        arguments: arguments.into_iter().map(|draft| draft.map(finish)).collect(),
        more: Box::default(),
        kept: kept.into_iter().map(finish).collect(),
        given,
    });
    let outputs: Option<Box<[Operand]>> =
        outputs.map(|drafts| drafts.into_iter().map(finish).collect());
    let given: Box<[Given]> = outputs.iter().flatten().map(Given::of).collect();
    let mut given_of = given.iter().filter(|given| given.is_of_row());
    let gives = given_of.next().map_or(0, |first| first.record);
    let gives = given_of.all(|given| given.record == gives).then_some(usize::from(gives));
    let whole = match &*levels {
        [level] => {
            let all = match &level.access {
                Access::Rows { low, high, .. } => low.is_none() && high.is_none(),
                Access::Index(access) => {
                    access.equal.is_empty()
                        && access.start.is_none()
                        && access.stop.is_none()
                        && access.row.is_none()
                }
                Access::Rowid { .. } | Access::Any { .. } | Access::Common { .. } => false,
            };
            all && level.filter.is_empty()
        }
        _ => false,
    };
    let counts_rows = whole
        && without.is_none()
        && group.as_ref().is_some_and(|group| {
            group.keys.is_empty()
                && group.kept.is_empty()
                && group.arguments.iter().all(Option::is_none)
        });
    let (lookups, indexes) = (builder.lookups.into(), builder.indexes.into());
    let point = match (&*levels, &outputs) {
        ([level], Some(_)) if level.filter.is_empty() && level.before.is_empty() => {
            match &level.access {
                Access::Rowid { key, .. } => Some(key.clone()),
                _ => None,
            }
        }
        _ => None,
    };
    let warms = match &*levels {
        [DirectLevel { access: Access::Rows { .. }, record, .. }, next, ..] => match &next.access {
            Access::Rowid { key: Operand::Field { record: of, field, .. }, lookup }
                if of == record =>
            {
                let plan: &RecordPlan = &records[*of];
                Some((plan.places[field - plan.first], *lookup))
            }
            _ => None,
        },
        _ => None,
    };
    let listed = outputs.is_some() && super::rowids::is_list(&levels);
    let joins = super::join::is_join(&levels);
    let given = match &outputs {
        Some(outputs) if joins && gives.is_none() => {
            let given = outputs.iter().enumerate();
            given.map(|(number, operand)| Given::of_output(number, operand)).collect()
        }
        _ => given,
    };
    let seeks = super::seek::is_seek(&levels, outputs.as_deref());
    Some(Direct {
        constant,
        levels,
        records,
        fields,
        outputs,
        given,
        group,
        joins,
        gives,
        seeks,
        chooses: chooses.is_some(),
        counts_rows,
        lookups,
        indexes,
        warms,
        point,
        listed,
        quick: None,
        database,
        marks: builder.marks,
        leaves_out: without.map(|(_, mark)| mark),
        unmatched: Box::default(),
    })
}

/// The one database that the loops read.
fn database_of(levels: &[Level], compiler: &Compiler) -> Option<usize> {
    let cursor = |level: &Level| match &level.scan {
        Scan::Table(scan) => Some(scan.cursor),
        Scan::Index(scan) => Some(scan.cursor),
        Scan::Any(scan) => Some(scan.cursor),
        Scan::Each(scan) => match &scan.inner {
            Scan::Table(scan) => Some(scan.cursor),
            _ => None,
        },
        _ => None,
    };
    let database = |level: &Level| compiler.cursors.get(cursor(level)?).copied();
    let first = database(levels.first()?)?;
    levels.iter().all(|level| database(level) == Some(first)).then_some(first)
}
