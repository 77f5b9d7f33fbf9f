//! Planning of window functions: what is kept of every row, and the passes over it.

use crate::functions::WindowFunction;
use crate::keep::{SortKey, SortPlan};
use crate::parse::ast::{FrameExclude, FrameUnit};
use crate::plan::{Code, Compiler, Reg};
use crate::resolve::tree::{Expr, FrameBound, Key, OrderKey, Select};
use crate::value::Collation;

/// Window functions of one select: rows are gathered, then each window passes over them.
#[derive(Debug)]
pub(crate) struct WindowPlan {
    /// Registers whose values are kept of every row.
    pub(crate) kept: Vec<Reg>,
    /// The last of these is the first in the text, and the order it leaves the rows in stays.
    pub(crate) passes: Vec<WindowPass>,
    /// True where all windows have one `PARTITION BY`, and the input is in the order of its keys.
    pub(crate) in_order: bool,
}

impl WindowPlan {
    /// The keys of the `PARTITION BY` where partitions are taken one by one; no keys where all rows
    /// are taken together.
    pub(crate) fn parts(&self) -> &[SortKey] {
        match self.passes.first() {
            Some(pass) if self.in_order => &pass.sort.keys[..pass.partition_count],
            _ => &[],
        }
    }
}

/// One window and the calls that look through it.
#[derive(Debug)]
pub(crate) struct WindowPass {
    /// What the rows are parted by, then what they are ordered by.
    pub(crate) keys: Vec<Code>,
    /// How the keys compare; their registers are places among the pass' keys.
    pub(crate) sort: SortPlan,
    /// How many of the keys part the rows.
    pub(crate) partition_count: usize,
    pub(crate) unit: FrameUnit,
    pub(crate) start: BoundPlan,
    pub(crate) end: BoundPlan,
    pub(crate) exclude: FrameExclude,
    pub(crate) calls: Vec<WindowCallPlan>,
}

/// One end of a frame.
#[derive(Debug)]
pub(crate) enum BoundPlan {
    UnboundedPreceding,
    Preceding(Code),
    CurrentRow,
    Following(Code),
    UnboundedFollowing,
}

/// A call: its arguments are evaluated once for every row.
#[derive(Debug)]
pub(crate) struct WindowCallPlan {
    pub(crate) function: WindowFunction,
    pub(crate) arguments: Vec<Code>,
    pub(crate) filter: Option<Code>,
    pub(crate) collation: Collation,
    pub(crate) json: u64,
    pub(crate) result: Reg,
}

impl Compiler {
    /// Plans a select's window functions; `None` when it has none. `in_order` as in
    /// [`WindowPlan::in_order`].
    pub(super) fn plan_windows(
        &mut self,
        select: &Select,
        order_by: &[OrderKey],
        in_order: bool,
    ) -> Option<WindowPlan> {
        if select.window_calls.is_empty() {
            return None;
        }
        let mut passes = Vec::with_capacity(select.windows.len());
        for (number, window) in select.windows.iter().enumerate().rev() {
            let mut keys = Vec::new();
            let mut sort = Vec::new();
            for (expr, collation) in &window.partition_by {
                sort.push(SortKey::ascending(keys.len(), *collation));
                keys.push(self.code(expr));
            }
            for key in &window.order_by {
                if let Key::Expr(expr) = &key.key {
                    sort.push(SortKey {
                        reg: keys.len(),
                        descending: key.descending,
                        nulls_first: key.nulls_first,
                        collation: key.collation,
                    });
                    keys.push(self.code(expr));
                }
            }
            let mut calls = Vec::new();
            for (index, call) in select.window_calls.iter().enumerate() {
                if call.window == number {
                    calls.push(WindowCallPlan {
                        function: call.function.clone(),
                        arguments: call.arguments.iter().map(|expr| self.code(expr)).collect(),
                        filter: call.filter.as_ref().map(|filter| self.code(filter)),
                        collation: call.collation,
                        json: call.json,
                        result: self.window(select.id, index),
                    });
                }
            }
            passes.push(WindowPass {
                keys,
                sort: SortPlan { keys: sort },
                partition_count: window.partition_by.len(),
                unit: window.frame.unit,
                start: self.frame_bound(&window.frame.start),
                end: self.frame_bound(&window.frame.end),
                exclude: window.frame.exclude,
                calls,
            });
        }
        // What is read once the windows are done.
        let mut kept: Vec<Reg> = Vec::new();
        let mut keep = |expr: &Expr| {
            let reg = match expr {
                Expr::Column { source, column }
                    if select.sources.iter().any(|known| known.id == *source) =>
                {
                    self.column(*source, *column)
                }
                Expr::Aggregate { select: of, index } if *of == select.id => {
                    self.aggregate(*of, *index)
                }
                _ => return,
            };
            if !kept.contains(&reg) {
                kept.push(reg);
            }
        };
        select.outputs.iter().for_each(|expr| expr.walk(&mut keep));
        order_by.iter().for_each(|key| key.walk(&mut keep));
        Some(WindowPlan { kept, passes, in_order })
    }

    fn frame_bound(&mut self, bound: &FrameBound) -> BoundPlan {
        match bound {
            FrameBound::UnboundedPreceding => BoundPlan::UnboundedPreceding,
            FrameBound::Preceding(expr) => BoundPlan::Preceding(self.code(expr)),
            FrameBound::CurrentRow => BoundPlan::CurrentRow,
            FrameBound::Following(expr) => BoundPlan::Following(self.code(expr)),
            FrameBound::UnboundedFollowing => BoundPlan::UnboundedFollowing,
        }
    }
}
