//! Expressions as programs: straight lines of operations over numbered registers.
//!
//! A register holds one value and keeps its buffer, so that evaluating a row allocates only where
//! a function does. Column values are put into their registers by the scan that reads the row;
//! constants and parameters are put there once, before a statement runs. Evaluation is a loop, not
//! a recursion: how deep an expression nests costs no stack.

use crate::functions::ScalarFunction;
use crate::parse::ast::CurrentTime;
use crate::value::{Affinity, ArithmeticOp, Collation, Comparison, InRule};

/// The number of a register.
pub(crate) type Reg = usize;

/// One expression, compiled.
#[derive(Debug)]
pub(crate) struct Code {
    pub(crate) ops: Box<[Op]>,
    /// Where the value is when the operations are done.
    pub(crate) result: Reg,
}

impl Code {
    /// The register whose value it gives, where it computes nothing: the one that it copies, or its own.
    #[inline]
    pub(crate) fn copied(&self) -> Option<Reg> {
        match &*self.ops {
            [] => Some(self.result),
            [Op::Copy { from, to }] if *to == self.result => Some(*from),
            _ => None,
        }
    }
}

/// One operation. Targets of jumps are places in the same code.
#[derive(Debug)]
pub(crate) enum Op {
    Copy {
        from: Reg,
        to: Reg,
    },
    Null {
        to: Reg,
    },
    Arithmetic {
        op: ArithmeticOp,
        left: Reg,
        right: Reg,
        to: Reg,
    },
    Negate {
        from: Reg,
        to: Reg,
    },
    BitNot {
        from: Reg,
        to: Reg,
    },
    Not {
        from: Reg,
        to: Reg,
    },
    Compare {
        rule: Comparison,
        left: Reg,
        right: Reg,
        to: Reg,
    },
    And {
        left: Reg,
        right: Reg,
        to: Reg,
    },
    Or {
        left: Reg,
        right: Reg,
        to: Reg,
    },
    IsNull {
        from: Reg,
        to: Reg,
        not: bool,
    },
    IsTruth {
        from: Reg,
        to: Reg,
        truth: bool,
        not: bool,
    },
    Cast {
        from: Reg,
        to: Reg,
        affinity: Affinity,
    },
    Stored {
        from: Reg,
        to: Reg,
        affinity: Affinity,
    },
    CurrentTime {
        kind: CurrentTime,
        to: Reg,
    },
    Call {
        function: &'static ScalarFunction,
        first: Reg,
        count: usize,
        collation: Collation,
        json: u64,
        to: Reg,
    },
    Jump {
        to: usize,
    },
    JumpIf {
        from: Reg,
        when: When,
        to: usize,
    },
    /// `from IN (list)`; `set` names a set that is built once when the list is constant.
    InList {
        from: Reg,
        list: Box<[Reg]>,
        set: Option<usize>,
        rule: InRule,
        to: Reg,
    },
    InQuery {
        from: Reg,
        query: usize,
        rule: InRule,
        to: Reg,
    },
    Exists {
        query: usize,
        to: Reg,
    },
    Scalar {
        query: usize,
        column: usize,
        to: Reg,
    },
    RowInQuery {
        row: Box<[Reg]>,
        query: usize,
        rules: Box<[(Option<Affinity>, Collation)]>,
        not: bool,
        to: Reg,
    },
}

/// When a jump is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum When {
    True,
    NotTrue,
    False,
    NotNull,
}
