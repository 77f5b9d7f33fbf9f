//! Running a code over the registers.

use std::cmp::Ordering;

use super::{Code, InRule, Op, Reg, When};
use crate::Error;
use crate::exec::{KeySet, Machine, assign};
use crate::functions::Env;
use crate::parse::ast::CurrentTime;
use crate::resolve::tree::{ArithmeticOp, CompareOp, Comparison};
use crate::value::{self, Affinity, Collation, Value, ValueRef, truth};

/// Runs a code; its value is then in its result register.
///
/// # Errors
/// What functions and queries within the expression raise.
pub(crate) fn eval(machine: &mut Machine<'_, '_>, code: &Code) -> Result<(), Error> {
    let mut place = 0;
    while let Some(op) = code.ops.get(place) {
        place += 1;
        match op {
            Op::Jump { to } => place = *to,
            Op::JumpIf { from, when, to } => {
                let value = machine.registers[*from].as_ref();
                let taken = match when {
                    When::True => truth(value) == Some(true),
                    When::NotTrue => truth(value) != Some(true),
                    When::False => truth(value) == Some(false),
                    When::NotNull => value != ValueRef::Null,
                };
                if taken {
                    place = *to;
                }
            }
            other => step(machine, other)?,
        }
    }
    Ok(())
}

/// Runs a condition's code and tells whether it holds; NULL does not.
///
/// # Errors
/// As [`eval`].
#[inline]
pub(crate) fn eval_condition(machine: &mut Machine<'_, '_>, code: &Code) -> Result<bool, Error> {
    eval(machine, code)?;
    Ok(truth(machine.registers[code.result].as_ref()) == Some(true))
}

/// Runs a code and gives the register where its value is: the one that it copies, where it computes
/// nothing.
///
/// # Errors
/// As [`eval`].
#[inline]
pub(crate) fn eval_operand(machine: &mut Machine<'_, '_>, code: &Code) -> Result<Reg, Error> {
    if let Some(reg) = code.copied() {
        return Ok(reg);
    }
    eval(machine, code)?;
    Ok(code.result)
}

fn step(machine: &mut Machine<'_, '_>, op: &Op) -> Result<(), Error> {
    let registers = &mut machine.registers;
    match op {
        Op::Jump { .. } | Op::JumpIf { .. } => {}
        Op::Copy { from, to } => {
            if from != to {
                let mut target = std::mem::take(&mut registers[*to]);
                assign(&mut target, registers[*from].as_ref());
                registers[*to] = target;
            }
        }
        Op::Null { to } => registers[*to] = Value::Null,
        Op::Arithmetic { op: ArithmeticOp::Concat, left, right, to }
            if to != left && to != right =>
        {
            // Texts are joined in the register's own buffer.
            let spare = std::mem::take(&mut registers[*to]);
            let (left, right) = (registers[*left].as_ref(), registers[*right].as_ref());
            registers[*to] = value::concat(spare, left, right);
        }
        Op::Arithmetic { op, left, right, to } => {
            let (left, right) = (registers[*left].as_ref(), registers[*right].as_ref());
            registers[*to] = arithmetic(*op, left, right);
        }
        Op::Negate { from, to } => registers[*to] = value::negate(registers[*from].as_ref()),
        Op::BitNot { from, to } => registers[*to] = value::bit_not(registers[*from].as_ref()),
        Op::Not { from, to } => {
            registers[*to] = truth(registers[*from].as_ref()).map(|truth| !truth).into();
        }
        Op::Compare { rule, left, right, to } => {
            let (left, right) = (registers[*left].as_ref(), registers[*right].as_ref());
            registers[*to] = compare(*rule, left, right).into();
        }
        Op::And { left, right, to } => {
            let (left, right) =
                (truth(registers[*left].as_ref()), truth(registers[*right].as_ref()));
            registers[*to] = and(left, right).into();
        }
        Op::Or { left, right, to } => {
            let (left, right) =
                (truth(registers[*left].as_ref()), truth(registers[*right].as_ref()));
            let or = and(left.map(|truth| !truth), right.map(|truth| !truth));
            registers[*to] = or.map(|truth| !truth).into();
        }
        Op::IsNull { from, to, not } => {
            registers[*to] = (registers[*from].is_null() != *not).into();
        }
        Op::IsTruth { from, to, truth: wanted, not } => {
            let is = truth(registers[*from].as_ref()) == Some(*wanted);
            registers[*to] = (is != *not).into();
        }
        Op::Cast { from, to, affinity } => {
            registers[*to] = value::cast(registers[*from].as_ref(), *affinity);
        }
        Op::Stored { from, to, affinity } => {
            registers[*to] = affinity.apply(registers[*from].clone());
        }
        Op::CurrentTime { kind, to } => {
            registers[*to] = Value::text(current_time(machine.session.now_unix_ms(), *kind));
        }
        Op::Call { function, first, count, collation, json, to } => {
            let env = Env { collation: *collation, session: machine.session, json: *json };
            let arguments = &machine.registers[*first..*first + *count];
            machine.registers[*to] = function.call(arguments, &env)?;
        }
        Op::InList { from, list, set, rule, to } => {
            let found = match set {
                Some(set) => in_set(machine, *from, list, *set, *rule),
                None => in_list(machine, *from, list, *rule),
            };
            machine.registers[*to] = found.map(|found| found != rule.not).into();
        }
        Op::InQuery { from, query, rule, to } => {
            let found = machine.in_query(*query, *from, *rule)?;
            machine.registers[*to] = found.map(|found| found != rule.not).into();
        }
        Op::Exists { query, to } => {
            let exists = machine.exists(*query)?;
            machine.registers[*to] = exists.into();
        }
        Op::Scalar { query, column, to } => {
            machine.scalar(*query, *column, *to)?;
        }
        Op::RowInQuery { row, query, rules, not, to } => {
            let found = machine.row_in_query(*query, row, rules)?;
            machine.registers[*to] = found.map(|found| found != *not).into();
        }
    }
    Ok(())
}

/// `AND` of truths, of which none is NULL.
pub(crate) fn and(left: Option<bool>, right: Option<bool>) -> Option<bool> {
    match (left, right) {
        (Some(false), _) | (_, Some(false)) => Some(false),
        (Some(true), Some(true)) => Some(true),
        _ => None,
    }
}

pub(crate) fn arithmetic(op: ArithmeticOp, left: ValueRef<'_>, right: ValueRef<'_>) -> Value {
    match op {
        ArithmeticOp::Add => value::add(left, right),
        ArithmeticOp::Subtract => value::subtract(left, right),
        ArithmeticOp::Multiply => value::multiply(left, right),
        ArithmeticOp::Divide => value::divide(left, right),
        ArithmeticOp::Remainder => value::remainder(left, right),
        ArithmeticOp::BitAnd => value::bit_and(left, right),
        ArithmeticOp::BitOr => value::bit_or(left, right),
        ArithmeticOp::ShiftLeft => value::shift_left(left, right),
        ArithmeticOp::ShiftRight => value::shift_right(left, right),
        ArithmeticOp::Concat => value::concat(Value::Null, left, right),
    }
}

/// The comparison's answer; NULL on either side gives none, except for `IS`.
pub(crate) fn compare(rule: Comparison, left: ValueRef<'_>, right: ValueRef<'_>) -> Option<bool> {
    match (left, right) {
        (ValueRef::Int(left), ValueRef::Int(right)) => {
            return Some(rule.op.holds(left.cmp(&right)));
        }
        (ValueRef::Real(left), ValueRef::Real(right))
            if let Some(order) = left.partial_cmp(&right) =>
        {
            return Some(rule.op.holds(order));
        }
        _ => {}
    }
    let null = left == ValueRef::Null || right == ValueRef::Null;
    if null {
        let equal = left == right;
        return match rule.op {
            CompareOp::Is => Some(equal),
            CompareOp::IsNot => Some(!equal),
            _ => None,
        };
    }
    let order = compare_values(left, right, rule.affinity, rule.collation);
    Some(rule.op.holds(order))
}

/// Orders two values after giving both an affinity, if one of them is text at all.
fn compare_values(
    left: ValueRef<'_>,
    right: ValueRef<'_>,
    affinity: Option<Affinity>,
    collation: Collation,
) -> Ordering {
    let (left_text, right_text) =
        (matches!(left, ValueRef::Text(_)), matches!(right, ValueRef::Text(_)));
    match affinity {
        Some(affinity)
            if (left_text || right_text) && (affinity.is_numeric() || left_text != right_text) =>
        {
            let left = affinity.apply_for_comparison(left.into());
            let right = affinity.apply_for_comparison(right.into());
            left.as_ref().compare(right.as_ref(), collation)
        }
        _ => left.compare(right, collation),
    }
}

fn in_list(machine: &Machine<'_, '_>, from: usize, list: &[usize], rule: InRule) -> Option<bool> {
    let items = list.iter().map(|&item| machine.registers[item].as_ref());
    is_in_values(machine.registers[from].as_ref(), items, rule)
}

/// Whether a value is one of some; NULL where only a NULL could tell.
pub(crate) fn is_in_values<'v>(
    value: ValueRef<'v>,
    items: impl ExactSizeIterator<Item = ValueRef<'v>>,
    rule: InRule,
) -> Option<bool> {
    if items.len() == 0 {
        return Some(false);
    }
    if value == ValueRef::Null {
        return None;
    }
    let mut null = false;
    for item in items {
        if item == ValueRef::Null {
            null = true;
        } else if compare_values(value, item, rule.affinity, rule.collation).is_eq() {
            return Some(true);
        }
    }
    if null { None } else { Some(false) }
}

/// `IN` a list of constants, which are put into a set when first looked for.
fn in_set(
    machine: &mut Machine<'_, '_>,
    from: usize,
    list: &[usize],
    set: usize,
    rule: InRule,
) -> Option<bool> {
    if machine.sets[set].is_none() {
        let mut built = KeySet::default();
        for &item in list {
            built.insert(machine.registers[item].as_ref(), rule.affinity, rule.collation);
        }
        machine.sets[set] = Some(built);
    }
    let value = machine.registers[from].as_ref();
    machine.sets[set].as_ref()?.contains(value, rule.affinity, rule.collation)
}

/// `CURRENT_DATE` and its relatives, in UTC.
pub(crate) fn current_time(unix_ms: i64, kind: CurrentTime) -> String {
    let seconds = unix_ms.div_euclid(1000);
    let (days, second) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
    // Days to a date of the Gregorian calendar, in eras of 400 years that begin on 1 March.
    let shifted = days + 719_468;
    let (era, day_of_era) = (shifted.div_euclid(146_097), shifted.rem_euclid(146_097));
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    let year = era * 400 + year_of_era + i64::from(month <= 2);
    let date = format!("{year:04}-{month:02}-{day:02}");
    let time = format!("{:02}:{:02}:{:02}", second / 3600, second / 60 % 60, second % 60);
    match kind {
        CurrentTime::Date => date,
        CurrentTime::Time => time,
        CurrentTime::Timestamp => format!("{date} {time}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_current_time_in_three_shapes() {
        let check = |ms, expect: &str| {
            assert_eq!(current_time(ms, CurrentTime::Timestamp), expect);
        };
        check(0, "1970-01-01 00:00:00");
        check(951_782_400_000, "2000-02-29 00:00:00");
        check(1_700_000_000_123, "2023-11-14 22:13:20");
        check(-1, "1969-12-31 23:59:59");
        assert_eq!(current_time(0, CurrentTime::Date), "1970-01-01");
        assert_eq!(current_time(0, CurrentTime::Time), "00:00:00");
    }

    #[test]
    fn affinity_counts_only_where_there_is_text() {
        let text = ValueRef::Text;
        let numeric = Some(Affinity::Numeric);
        let check = |left, right, affinity, expect| {
            let order = compare_values(left, right, affinity, Collation::Binary);
            assert_eq!(order, expect, "{left:?} {right:?} {affinity:?}");
        };
        check(text(b"10"), ValueRef::Int(9), numeric, Ordering::Greater);
        check(text(b"10"), text(b"9"), numeric, Ordering::Greater);
        check(text(b"10"), text(b"9"), None, Ordering::Less);
        check(text(b"10"), ValueRef::Int(10), Some(Affinity::Text), Ordering::Equal);
        check(text(b"10"), ValueRef::Int(10), None, Ordering::Greater);
        check(text(b"x"), ValueRef::Int(10), numeric, Ordering::Greater);
    }
}
