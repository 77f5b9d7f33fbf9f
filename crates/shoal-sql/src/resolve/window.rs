//! Calls with `OVER`: window functions and the windows they look through.

use super::Resolver;
use super::call::{unknown, unordered, wrong_count};
use super::collation::Coll;
use super::expr::Bound;
use super::scope::Clause;
use super::tree::{Expr, Frame, FrameBound, Key, OrderKey, Window, WindowCall};
use crate::Error;
use crate::functions::{Function, LookupError, WindowFunction, is_aggregate, window_function};
use crate::parse::ast::{self, FrameExclude, FrameUnit, Name, Over};
use crate::value::{Collation, Value};

/// A window, extended by the parts taken from the window it names.
#[derive(Clone, Copy)]
struct Spec<'a> {
    partition_by: &'a [ast::Expr],
    order_by: &'a [ast::OrderTerm],
    frame: Option<&'a ast::Frame>,
    offset: usize,
}

impl<'a> Resolver<'a> {
    pub(super) fn window_call(
        &mut self,
        call: &'a ast::Call,
        over: &'a Over,
    ) -> Result<Bound, Error> {
        let (name, offset) = (call.name.text.as_str(), call.name.offset);
        let count = call.arguments.len();
        let function = match window_function(name, count) {
            Some(found) => found.map_err(|why| unknown(why, offset))?,
            None => match self.schema.own().lookup(name, count) {
                Ok((Function::Aggregate(_), _)) => {
                    let Function::Aggregate(function) = self.function(name, count, offset)? else {
                        unreachable!("a name means one function");
                    };
                    WindowFunction::Aggregate(function)
                }
                // Whatever its arguments.
                Err(LookupError::ArgumentCount(_))
                    if is_aggregate(name) || self.schema.own().is_aggregate(name) =>
                {
                    return Err(wrong_count(name, offset));
                }
                Ok((Function::Scalar(_), _)) | Err(LookupError::ArgumentCount(_)) => {
                    let message = format!("{name}() may not be used as a window function");
                    return Err(Error::meaning(message, offset));
                }
                Err(why) => return Err(unknown(why, offset)),
            },
        };
        if !call.order_by.is_empty() {
            return Err(unordered(name, offset));
        }
        if call.distinct {
            return Err(Error::meaning("DISTINCT is not supported for window functions", offset));
        }
        if call.filter.is_some() && !matches!(function, WindowFunction::Aggregate(_)) {
            return Err(Error::meaning(
                "FILTER clause may only be used with aggregate window functions",
                offset,
            ));
        }
        let misuse = || Error::meaning(format!("misuse of window function {name}()"), offset);
        let depth = self.scopes.len().checked_sub(1).ok_or_else(misuse)?;
        let clause = self.scopes[depth].clause;
        if !clause.allows_windows() {
            return Err(misuse());
        }
        let spec = match over {
            Over::Name(name) => self.named_window(depth, name, usize::MAX)?,
            Over::Window(window) => self.extended(depth, window, usize::MAX)?,
        };
        self.scopes[depth].clause = Clause::Window;
        let resolved = self.window_parts(call, spec);
        self.scopes[depth].clause = clause;
        let (arguments, filter, window) = resolved?;
        // Every argument is a column of the query under the window.
        for argument in &arguments {
            self.known(argument.collation.or_binary())?;
        }
        let collation =
            arguments.iter().map(|argument| argument.collation).fold(Coll::None, Coll::or);
        let kept = collation.through_operator();
        let collation = self.known(collation.or_binary())?;
        let mut arguments: Vec<Expr> =
            arguments.into_iter().map(|argument| argument.expr).collect();
        let json = self.json_arguments(name, &mut arguments);
        let scope = &mut self.scopes[depth];
        let window = match scope.windows.iter().position(|known| known.is_same(&window)) {
            Some(place) => place,
            None => {
                scope.windows.push(window);
                scope.windows.len() - 1
            }
        };
        scope.window_calls.push(WindowCall {
            function,
            arguments,
            filter,
            collation,
            json,
            window,
        });
        let expr = Expr::Window { select: scope.select, index: scope.window_calls.len() - 1 };
        Ok(Bound::with(expr, kept))
    }

    fn window_parts(
        &mut self,
        call: &'a ast::Call,
        spec: Spec<'a>,
    ) -> Result<(Vec<Bound>, Option<Expr>, Window), Error> {
        let mut arguments = Vec::with_capacity(call.arguments.len());
        for argument in &call.arguments {
            arguments.push(self.bind(argument)?);
        }
        let filter = call.filter.as_ref().map(|filter| self.bind_expr(filter)).transpose()?;
        let mut partition_by = Vec::with_capacity(spec.partition_by.len());
        for expr in spec.partition_by {
            let bound = self.bind(expr)?;
            let collation = self.known(bound.collation.or_binary())?;
            partition_by.push((bound.expr, collation));
        }
        let order_by = self.order_keys(spec.order_by)?;
        let frame = self.frame(spec)?;
        Ok((arguments, filter, Window { partition_by, order_by, frame }))
    }

    /// The window called `name` among the first `before` of the `WINDOW` clause.
    fn named_window(&self, depth: usize, name: &'a Name, before: usize) -> Result<Spec<'a>, Error> {
        let windows = self.scopes[depth].named_windows;
        let found = windows.iter().take(before).position(|(known, _)| name.is(&known.text));
        match found {
            Some(place) => self.extended(depth, &windows[place].1, place),
            None => Err(Error::meaning(format!("no such window: {}", name.text), name.offset)),
        }
    }

    fn extended(
        &self,
        depth: usize,
        window: &'a ast::Window,
        before: usize,
    ) -> Result<Spec<'a>, Error> {
        let mut spec = Spec {
            partition_by: &window.partition_by,
            order_by: &window.order_by,
            frame: window.frame.as_ref(),
            offset: window.offset,
        };
        let Some(name) = &window.base else { return Ok(spec) };
        let base = self.named_window(depth, name, before)?;
        let clash = if !spec.partition_by.is_empty() {
            Some("PARTITION clause")
        } else if !base.order_by.is_empty() && !spec.order_by.is_empty() {
            Some("ORDER BY clause")
        } else if base.frame.is_some() {
            Some("frame specification")
        } else {
            None
        };
        if let Some(clash) = clash {
            let message = format!("cannot override {clash} of window: {}", name.text);
            return Err(Error::meaning(message, name.offset));
        }
        spec.partition_by = base.partition_by;
        if !base.order_by.is_empty() {
            spec.order_by = base.order_by;
        }
        Ok(spec)
    }

    fn frame(&mut self, spec: Spec<'a>) -> Result<Frame, Error> {
        let Some(frame) = spec.frame else {
            return Ok(Frame {
                unit: FrameUnit::Range,
                start: FrameBound::UnboundedPreceding,
                end: FrameBound::CurrentRow,
                exclude: FrameExclude::None,
            });
        };
        use ast::FrameBound::{
            CurrentRow, Following, Preceding, UnboundedFollowing, UnboundedPreceding,
        };
        let impossible = matches!(
            (&frame.start, &frame.end),
            (UnboundedFollowing, _)
                | (_, UnboundedPreceding)
                | (CurrentRow | Following(_), Preceding(_))
                | (Following(_), CurrentRow)
        );
        if impossible {
            return Err(Error::meaning("unsupported frame specification", spec.offset));
        }
        let distant = |bound: &ast::FrameBound| matches!(bound, Preceding(_) | Following(_));
        if frame.unit == FrameUnit::Range
            && (distant(&frame.start) || distant(&frame.end))
            && spec.order_by.len() != 1
        {
            let message = "RANGE with offset PRECEDING/FOLLOWING requires one ORDER BY expression";
            return Err(Error::meaning(message, spec.offset));
        }
        Ok(Frame {
            unit: frame.unit,
            start: self.frame_bound(&frame.start)?,
            end: self.frame_bound(&frame.end)?,
            exclude: frame.exclude,
        })
    }

    fn frame_bound(&mut self, bound: &'a ast::FrameBound) -> Result<FrameBound, Error> {
        Ok(match bound {
            ast::FrameBound::UnboundedPreceding => FrameBound::UnboundedPreceding,
            ast::FrameBound::Preceding(expr) => FrameBound::Preceding(self.distance(expr)?),
            ast::FrameBound::CurrentRow => FrameBound::CurrentRow,
            ast::FrameBound::Following(expr) => FrameBound::Following(self.distance(expr)?),
            ast::FrameBound::UnboundedFollowing => FrameBound::UnboundedFollowing,
        })
    }

    /// The distance of a frame bound; a distance depending on a row becomes NULL, refused when the
    /// query runs, as in SQLite.
    fn distance(&mut self, expr: &'a ast::Expr) -> Result<Expr, Error> {
        let bound = self.bind_expr(expr)?;
        let mut constant = !bound.runs_query();
        bound.walk(&mut |part| {
            constant &= !matches!(part, Expr::Column { .. } | Expr::Aggregate { .. });
        });
        Ok(if constant { bound } else { Expr::Const(Value::Null) })
    }
}

impl Window {
    /// True where both surely part the rows in the same way.
    pub(crate) fn parts_as(&self, other: &Window) -> bool {
        let same =
            |(a, b): (&(Expr, Collation), &(Expr, Collation))| a.1 == b.1 && a.0.is_same(&b.0);
        self.partition_by.len() == other.partition_by.len()
            && self.partition_by.iter().zip(&other.partition_by).all(same)
    }

    /// True where both surely part, order and frame the rows in the same way.
    fn is_same(&self, other: &Window) -> bool {
        let same_key = |(a, b): (&OrderKey, &OrderKey)| {
            let keys = match (&a.key, &b.key) {
                (Key::Expr(a), Key::Expr(b)) => a.is_same(b),
                _ => false,
            };
            keys && (a.descending, a.nulls_first, a.collation)
                == (b.descending, b.nulls_first, b.collation)
        };
        let (frame, other_frame) = (&self.frame, &other.frame);
        self.parts_as(other)
            && self.order_by.len() == other.order_by.len()
            && self.order_by.iter().zip(&other.order_by).all(same_key)
            && (frame.unit, frame.exclude) == (other_frame.unit, other_frame.exclude)
            && frame.start.is_same(&other_frame.start)
            && frame.end.is_same(&other_frame.end)
    }
}

impl FrameBound {
    fn is_same(&self, other: &FrameBound) -> bool {
        match (self, other) {
            (FrameBound::Preceding(a), FrameBound::Preceding(b))
            | (FrameBound::Following(a), FrameBound::Following(b)) => a.is_same(b),
            (a, b) => std::mem::discriminant(a) == std::mem::discriminant(b),
        }
    }
}
