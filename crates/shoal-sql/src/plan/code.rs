//! Expressions as programs: straight lines of operations over numbered registers.
//!
//! A register holds one value and keeps its buffer, so that evaluating a row allocates only where
//! a function does. Column values are put into their registers by the scan that reads the row;
//! constants and parameters are put there once, before a statement runs. Evaluation is a loop, not
//! a recursion: how deep an expression nests costs no stack.

use crate::functions::Scalar;
use crate::parse::ast::CurrentTime;
use crate::value::{Affinity, ArithmeticOp, Collation, Comparison, InRule, Pattern};

/// The number of a register.
pub(crate) type Reg = usize;

/// One expression, compiled.
#[derive(Debug)]
pub(crate) struct Code {
    pub(crate) ops: Box<[Op]>,
    /// Where the value is when the operations are done.
    pub(crate) result: Reg,
    /// The same expression for those that evaluate it without running the operations.
    pub(crate) shape: Shape,
}

/// The form of an expression, noted when it is compiled from the resolved tree.
#[derive(Debug)]
pub(crate) enum Shape {
    /// The value of a register, copied or where it lies.
    Register(Reg),
    /// A condition on registers that scans write, constants and parameters.
    Predicate(Predicate),
    /// Anything else: the operations alone can tell.
    Computed,
}

/// A condition whose operands are values of registers: pages can be asked it without a register.
#[derive(Debug)]
pub(crate) enum Predicate {
    Compare {
        rule: Comparison,
        left: Reg,
        right: Reg,
    },
    /// `BETWEEN`: how the value compares with each of the bounds.
    Between {
        value: Reg,
        low: (Comparison, Reg),
        high: (Comparison, Reg),
    },
    IsNull {
        operand: Reg,
        not: bool,
    },
    /// `LIKE` or `GLOB` with a short constant pattern.
    Like {
        language: Pattern,
        operand: Reg,
        pattern: Box<[u8]>,
        not: bool,
    },
    /// `IN` a short list of constants and parameters.
    In {
        operand: Reg,
        list: Box<[Reg]>,
        rule: InRule,
    },
    /// An `OR`, each part a list of conditions holding together.
    Any(Box<[Box<[Predicate]>]>),
}

impl Code {
    /// The value of a register, which nothing needs to be done for.
    pub(crate) fn register(reg: Reg) -> Code {
        Code { ops: Box::default(), result: reg, shape: Shape::Register(reg) }
    }

    /// The register whose value it gives, where it computes nothing: the one that it copies, or its
    /// own.
    #[inline]
    pub(crate) fn copied(&self) -> Option<Reg> {
        match self.shape {
            Shape::Register(reg) => Some(reg),
            Shape::Predicate(_) | Shape::Computed => None,
        }
    }

    /// The register that has the value before anything is run.
    pub(crate) fn in_place(&self) -> Option<Reg> {
        self.copied().filter(|&reg| reg == self.result)
    }

    /// The condition that pages can be asked, where it is one.
    pub(crate) fn predicate(&self) -> Option<&Predicate> {
        match &self.shape {
            Shape::Predicate(predicate) => Some(predicate),
            Shape::Register(_) | Shape::Computed => None,
        }
    }

    /// True of the value of a register and of a plain condition: equal rows have the same result.
    pub(crate) fn is_plain(&self) -> bool {
        !matches!(self.shape, Shape::Computed)
    }

    /// True where a function is called, whose refusal ends the statement.
    pub(crate) fn calls_function(&self) -> bool {
        self.ops.iter().any(|op| matches!(op, Op::Call { .. }))
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
        function: Scalar,
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

impl Op {
    /// The register that the operation writes; `None` for a jump.
    pub(super) fn target(&self) -> Option<Reg> {
        match self {
            Op::Copy { to, .. }
            | Op::Null { to }
            | Op::Arithmetic { to, .. }
            | Op::Negate { to, .. }
            | Op::BitNot { to, .. }
            | Op::Not { to, .. }
            | Op::Compare { to, .. }
            | Op::And { to, .. }
            | Op::Or { to, .. }
            | Op::IsNull { to, .. }
            | Op::IsTruth { to, .. }
            | Op::Cast { to, .. }
            | Op::Stored { to, .. }
            | Op::CurrentTime { to, .. }
            | Op::Call { to, .. }
            | Op::InList { to, .. }
            | Op::InQuery { to, .. }
            | Op::Exists { to, .. }
            | Op::Scalar { to, .. }
            | Op::RowInQuery { to, .. } => Some(*to),
            Op::Jump { .. } | Op::JumpIf { .. } => None,
        }
    }
}
