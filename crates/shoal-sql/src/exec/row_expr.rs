//! Expressions over one row at hand: checks, defaults, generated columns, conditions of indexes.

use super::eval;
use crate::Error;
use crate::exec::Machine;
use crate::parse::ast;
use crate::plan::{Code, Compiler, Reg};
use crate::resolve::tree::{Expr, ROWID};
use crate::resolve::{Clause, Resolver};
use crate::schema::{Schema, Table};
use crate::session::Session;
use crate::value::{Value, assign};

/// A compiled expression over the columns of one table.
#[derive(Debug)]
pub(crate) struct RowExpr {
    code: Code,
    registers: Vec<Value>,
    /// A column, or [`ROWID`], and the register it goes to.
    columns: Vec<(usize, Reg)>,
    sets: usize,
}

impl RowExpr {
    /// Compiles an expression that may name the table's columns.
    ///
    /// # Errors
    /// Names and functions that mean nothing, parameters, and queries, which are not allowed in a
    /// definition.
    pub(crate) fn compile(
        schema: &Schema,
        table: &Table,
        expr: &ast::Expr,
    ) -> Result<RowExpr, Error> {
        let tree = Resolver::new(schema).row_expr(table, expr, Clause::Where)?;
        check(&tree, expr.offset)?;
        let mut compiler = Compiler::default();
        let code = compiler.code(&tree);
        let mut registers = vec![Value::Null; compiler.registers];
        for (reg, value) in compiler.constants {
            registers[reg] = value;
        }
        let mut columns: Vec<(usize, Reg)> =
            compiler.columns.iter().map(|((_, column), reg)| (*column, *reg)).collect();
        columns.sort_unstable();
        Ok(RowExpr { code, registers, columns, sets: compiler.sets })
    }

    /// The expression's value for a row: its rowid, and its values by the table's columns.
    ///
    /// # Errors
    /// What functions raise.
    pub(crate) fn eval(
        &self,
        rowid: i64,
        values: &[Value],
        session: &dyn Session,
    ) -> Result<Value, Error> {
        let mut registers = self.registers.clone();
        for &(column, reg) in &self.columns {
            match column {
                ROWID => registers[reg] = Value::Int(rowid),
                column => {
                    if let Some(value) = values.get(column) {
                        assign(&mut registers[reg], value.as_ref());
                    }
                }
            }
        }
        let mut machine = Machine::of_registers(registers, self.sets, session);
        eval(&mut machine, &self.code)?;
        Ok(std::mem::take(&mut machine.registers[self.code.result]))
    }
}

fn check(expr: &Expr, offset: usize) -> Result<(), Error> {
    if expr.query().is_some() {
        return Err(Error::meaning("subqueries prohibited in definitions", offset));
    }
    if matches!(expr, Expr::Parameter(_)) {
        return Err(Error::meaning("parameters prohibited in definitions", offset));
    }
    let mut result = Ok(());
    expr.parts(&mut |part| {
        if result.is_ok() {
            result = check(part, offset);
        }
    });
    result
}
