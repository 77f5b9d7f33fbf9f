//! Running a code over the registers.

use super::Machine;
use crate::Error;
use crate::functions::Env;
use crate::keep::KeySet;
use crate::parse::ast::CurrentTime;
use crate::plan::{Code, Op, Reg, When};
use crate::value::{
    self, ArithmeticOp, InRule, Value, ValueRef, and, arithmetic, assign, compare_by, is_in_values,
    truth,
};

/// Runs a code; its value is then in its result register.
///
/// # Errors
/// Errors of functions and queries within the expression.
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

/// Runs a condition's code; true where the condition holds, false for NULL.
///
/// # Errors
/// As [`eval`].
#[inline]
pub(crate) fn eval_condition(machine: &mut Machine<'_, '_>, code: &Code) -> Result<bool, Error> {
    eval(machine, code)?;
    Ok(truth(machine.registers[code.result].as_ref()) == Some(true))
}

/// Runs a code and gives the register of its value: for a code of a mere copy, the copied register.
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
            registers[*to] = compare_by(*rule, left, right).into();
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

fn in_list(machine: &Machine<'_, '_>, from: usize, list: &[usize], rule: InRule) -> Option<bool> {
    let items = list.iter().map(|&item| machine.registers[item].as_ref());
    is_in_values(machine.registers[from].as_ref(), items, rule)
}

/// `IN` a list of constants, put into a set on the first lookup.
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
    // Days to a date of the Gregorian calendar, in eras of 400 years from 1 March on.
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
}
