//! Expressions over one row at hand: checks, defaults, generated columns, conditions of indexes.

use super::eval;
use crate::Error;
use crate::exec::Machine;
use crate::functions::ScalarFunction;
use crate::parse::ast;
use crate::plan::{Code, Compiler, Reg};
use crate::resolve::encoding::expr_in_utf16;
use crate::resolve::tree::{self, ROWID};
use crate::resolve::{Clause, Resolver};
use crate::schema::{Schema, Table};
use crate::session::Session;
use crate::value::{Value, assign};

/// The place of an expression: decides on its allowed parts, and names the place in SQLite's
/// errors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    Check,
    Default,
    Generated,
    Index,
    PartialIndex,
}

impl Place {
    fn name(self) -> &'static str {
        match self {
            Place::Check => "CHECK constraints",
            Place::Default => "DEFAULT values",
            Place::Generated => "generated columns",
            Place::Index => "index expressions",
            Place::PartialIndex => "partial index WHERE clauses",
        }
    }

    /// True where the value must be the same in every evaluation.
    fn is_stored(self) -> bool {
        matches!(self, Place::Generated | Place::Index | Place::PartialIndex)
    }
}

/// A compiled expression over the columns of one table.
#[derive(Debug)]
pub(crate) enum RowExpr {
    Constant(Value),
    Code(Box<RowCode>),
}

/// The code of an expression and its initial registers.
#[derive(Debug)]
pub(crate) struct RowCode {
    code: Code,
    registers: Vec<Value>,
    /// A column, or [`ROWID`], and the register for its value.
    columns: Vec<(usize, Reg)>,
    sets: usize,
    reads: Vec<usize>,
}

impl RowExpr {
    /// Compiles an expression over the table's columns.
    ///
    /// # Errors
    /// Unknown names; queries, parameters and functions not allowed in the place.
    pub(crate) fn compile(
        schema: &Schema,
        table: &Table,
        expr: &ast::Expr,
        place: Place,
    ) -> Result<RowExpr, Error> {
        let clause = match place {
            Place::Generated => Clause::Generated,
            _ => Clause::Where,
        };
        let mut resolved = Resolver::new(schema).row_expr(table, expr, clause)?;
        check(&resolved, expr.offset, place)?;
        if let Some(order) = schema.utf16() {
            expr_in_utf16(&mut resolved, order);
        }
        if let tree::Expr::Const(value) = resolved {
            return Ok(RowExpr::Constant(value));
        }
        let mut reads = Vec::new();
        resolved.columns(&mut |_, column| reads.push(column));
        reads.sort_unstable();
        reads.dedup();
        let mut compiler = Compiler::default();
        let code = compiler.code(&resolved);
        let mut registers = vec![Value::Null; compiler.registers];
        for (reg, value) in compiler.constants {
            registers[reg] = value;
        }
        let mut columns: Vec<(usize, Reg)> =
            compiler.columns.iter().map(|((_, column), reg)| (*column, *reg)).collect();
        columns.sort_unstable();
        let sets = compiler.sets;
        Ok(RowExpr::Code(Box::new(RowCode { code, registers, columns, sets, reads })))
    }

    /// The columns the value depends on, [`ROWID`] among them.
    pub(crate) fn reads(&self) -> &[usize] {
        match self {
            RowExpr::Constant(_) => &[],
            RowExpr::Code(code) => &code.reads,
        }
    }

    /// The expression's value for a row: its rowid, and its values by the table's columns.
    ///
    /// # Errors
    /// Errors of functions.
    pub(crate) fn eval(
        &self,
        rowid: i64,
        values: &[Value],
        session: &dyn Session,
    ) -> Result<Value, Error> {
        let code = match self {
            RowExpr::Constant(value) => return Ok(value.clone()),
            RowExpr::Code(code) => code,
        };
        let mut registers = code.registers.clone();
        for &(column, reg) in &code.columns {
            match column {
                ROWID => registers[reg] = Value::Int(rowid),
                column => assign(&mut registers[reg], values[column].as_ref()),
            }
        }
        let mut machine = Machine::of_registers(registers, code.sets, session);
        eval(&mut machine, &code.code)?;
        Ok(std::mem::take(&mut machine.registers[code.code.result]))
    }
}

/// True where a function of dates has constant arguments, without the current time or the local
/// time.
fn is_fixed(function: &ScalarFunction, arguments: &[tree::Expr]) -> bool {
    const DATES: [&str; 6] = ["date", "time", "datetime", "julianday", "unixepoch", "strftime"];
    // A format alone means now, too.
    let least = if function.name() == "strftime" { 2 } else { 1 };
    let names_now = |text: &[u8]| {
        [&b"now"[..], b"subsec", b"subsecond"].iter().any(|word| text.eq_ignore_ascii_case(word))
    };
    let fixed = |(place, expr): (usize, &tree::Expr)| match expr {
        // A text is a moment in the first place, and a modifier behind.
        tree::Expr::Const(Value::Text(text)) => match place >= least {
            true => ![&b"localtime"[..], b"utc"].iter().any(|word| text.eq_ignore_ascii_case(word)),
            false => !names_now(text),
        },
        tree::Expr::Const(_) => true,
        _ => false,
    };
    DATES.contains(&function.name())
        && arguments.len() >= least
        && arguments.iter().enumerate().all(fixed)
}

/// Refuses expressions not allowed in a place.
fn check(expr: &tree::Expr, offset: usize, place: Place) -> Result<(), Error> {
    let prohibited =
        |what: &str| Err(Error::meaning(format!("{what} prohibited in {}", place.name()), offset));
    if expr.query().is_some() {
        return prohibited("subqueries");
    }
    match expr {
        tree::Expr::Parameter(_) => return prohibited("parameters"),
        tree::Expr::CurrentTime(_) if place.is_stored() => {
            return prohibited("non-deterministic functions");
        }
        tree::Expr::Call { function, arguments, .. }
            if place.is_stored() && !function.deterministic && !is_fixed(function, arguments) =>
        {
            return prohibited("non-deterministic functions");
        }
        _ => {}
    }
    let mut result = Ok(());
    expr.parts(&mut |part| {
        if result.is_ok() {
            result = check(part, offset, place);
        }
    });
    result
}
