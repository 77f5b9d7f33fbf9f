//! Window frames: the rows a window's function sees from each row, and the results over them.
//!
//! Window frames only move forwards within a partition. So counts and sums add entering rows and
//! take back leaving ones, `min` and `max` keep the candidates for the extreme; only window frames
//! with an `EXCLUDE`, and functions with results as long as the window frame, are computed row by
//! row.

use std::cmp::Ordering;
use std::collections::VecDeque;
use std::ops::Range;

use super::Machine;
use super::eval;
use crate::Error;
use crate::functions::{AggregateFunction, AggregateState, WindowFunction};
use crate::keep::SortKey;
use crate::keep::sort::compare;
use crate::parse::ast::{FrameExclude, FrameUnit};
use crate::plan::{BoundPlan, Code, WindowCallPlan, WindowPass};
use crate::session::Session;
use crate::value::{self, Affinity, Collation, Value};

/// Who asks for a row: each goes through the partition at a pace of its own.
#[derive(Clone, Copy, Debug)]
pub(super) enum Reader {
    /// The row whose results are computed.
    Current,
    /// The rows entering the window frame, and the rows leaving.
    Enter,
    Leave,
    /// Any row.
    Other,
}

/// The rows of one partition in order, for a window's functions, by their places in the partition.
/// Results are computed call by call, each for one row after the other.
pub(super) trait WindowRows {
    fn len(&self) -> usize;

    /// A call's arguments.
    ///
    /// # Errors
    /// When the row cannot be read, here and below.
    fn arguments(&mut self, call: usize, place: usize, by: Reader) -> Result<&[Value], Error>;

    /// True where a call's `FILTER` lets a row in.
    fn lets_in(&mut self, call: usize, place: usize, by: Reader) -> Result<bool, Error>;

    /// The first sort key of a row.
    fn key(&mut self, place: usize) -> Result<&Value, Error>;

    /// The first place where `is_before` is false for the key; `is_before` holds for a prefix of
    /// the rows. As `place` advances from call to call, so does the result, separately for the
    /// start and the end of window frames.
    fn first_key(
        &mut self,
        place: usize,
        end: bool,
        is_before: impl Fn(&Value) -> bool,
    ) -> Result<usize, Error>;

    /// The number of a row's group of peers.
    fn group(&mut self, place: usize) -> Result<usize, Error>;

    /// The number of groups of peers.
    fn group_count(&mut self) -> usize;

    /// Start of a group; behind the last one, the partition's end.
    fn start_of(&mut self, group: usize) -> Result<usize, Error>;

    /// Start of the group at a signed number, clamped to the partition.
    fn group_start(&mut self, group: i128) -> Result<usize, Error> {
        let group = usize::try_from(group.max(0)).unwrap_or(usize::MAX);
        let group = group.min(self.group_count());
        self.start_of(group)
    }

    /// A row's peers, itself included.
    fn peers(&mut self, place: usize) -> Result<Range<usize>, Error> {
        let group = self.group(place)? as i128;
        Ok(self.group_start(group)?..self.group_start(group + 1)?)
    }

    /// The rows of a row's frame, before any are excluded.
    fn range(&mut self, frame: &Frame<'_>, place: usize) -> Result<Range<usize>, Error>;

    /// Most candidates for a window frame's extreme to keep.
    fn candidates_max(&self) -> usize;

    /// Takes a call's result for a row.
    fn give(&mut self, call: usize, place: usize, result: Value) -> Result<(), Error>;
}

/// One end of a frame, its distance evaluated.
#[derive(Debug)]
pub(super) enum Edge {
    /// The partition's own beginning or end.
    Unbounded,
    CurrentRow,
    /// A number of rows or groups ahead; negative for back.
    Steps(i128),
    /// A distance in the ordering value: forwards or backwards.
    Distance {
        value: Value,
        following: bool,
    },
}

impl Edge {
    pub(super) fn of(
        bound: &BoundPlan,
        unit: FrameUnit,
        which: &str,
        machine: &mut Machine<'_, '_>,
        any_rows: bool,
    ) -> Result<Edge, Error> {
        let (code, following) = match bound {
            BoundPlan::UnboundedPreceding | BoundPlan::UnboundedFollowing => {
                return Ok(Edge::Unbounded);
            }
            BoundPlan::CurrentRow => return Ok(Edge::CurrentRow),
            BoundPlan::Preceding(code) => (code, false),
            BoundPlan::Following(code) => (code, true),
        };
        if !any_rows {
            return Ok(Edge::CurrentRow);
        }
        let value = distance(code, machine)?;
        if unit == FrameUnit::Range {
            let value = Affinity::Numeric.apply(value);
            let numeric = match &value {
                Value::Int(int) => *int >= 0,
                Value::Real(real) => *real >= 0.0,
                _ => false,
            };
            if !numeric {
                let what = format!("frame {which} offset must be a non-negative number");
                return Err(Error::runtime(what));
            }
            return Ok(Edge::Distance { value, following });
        }
        match Affinity::Integer.apply(value) {
            Value::Int(steps) if steps >= 0 => {
                Ok(Edge::Steps(if following { i128::from(steps) } else { -i128::from(steps) }))
            }
            _ => {
                Err(Error::runtime(format!("frame {which} offset must be a non-negative integer")))
            }
        }
    }
}

fn distance(code: &Code, machine: &mut Machine<'_, '_>) -> Result<Value, Error> {
    eval(machine, code)?;
    Ok(machine.registers[code.result].clone())
}

/// Both ends of a window frame.
#[derive(Debug)]
pub(super) struct Ends {
    pub(super) start: Edge,
    pub(super) end: Edge,
}

/// A window's frame.
pub(super) struct Frame<'p> {
    start: &'p Edge,
    end: &'p Edge,
    pass: &'p WindowPass,
    /// Asked now and then whether to go on.
    session: &'p dyn Session,
}

impl<'p> Frame<'p> {
    pub(super) fn new(ends: &'p Ends, pass: &'p WindowPass, session: &'p dyn Session) -> Frame<'p> {
        Frame { start: &ends.start, end: &ends.end, pass, session }
    }

    /// Computes every call for every row of a partition.
    ///
    /// # Errors
    /// Errors of functions; when the rows cannot be read or the results not be written.
    pub(super) fn compute(&self, rows: &mut impl WindowRows) -> Result<(), Error> {
        for (number, call) in self.pass.calls.iter().enumerate() {
            match &call.function {
                WindowFunction::Aggregate(function) => {
                    self.aggregate(function, (number, call), rows)?;
                }
                WindowFunction::FirstValue
                | WindowFunction::LastValue
                | WindowFunction::NthValue => self.pick((number, call), rows)?,
                function => place_function(function, number, rows)?,
            }
        }
        Ok(())
    }

    /// The rows of a frame, before any are excluded.
    ///
    /// # Errors
    /// When a row cannot be read.
    pub(super) fn range(
        &self,
        place: usize,
        rows: &mut impl WindowRows,
    ) -> Result<Range<usize>, Error> {
        let clamp = |place: i128, rows: &dyn Fn() -> usize| {
            usize::try_from(place.max(0)).unwrap_or(usize::MAX).min(rows())
        };
        let here = place as i128;
        let start = match (self.start, self.pass.unit) {
            (Edge::Unbounded, _) => 0,
            (Edge::CurrentRow, FrameUnit::Rows) => place,
            (Edge::CurrentRow, _) => rows.peers(place)?.start,
            (Edge::Steps(steps), FrameUnit::Rows) => clamp(here + steps, &|| rows.len()),
            (Edge::Steps(steps), _) => {
                let group = rows.group(place)? as i128;
                rows.group_start(group + steps)?
            }
            (Edge::Distance { value, following }, _) => {
                self.reach(place, value, *following, false, rows)?
            }
        };
        let end = match (self.end, self.pass.unit) {
            (Edge::Unbounded, _) => rows.len(),
            (Edge::CurrentRow, FrameUnit::Rows) => place + 1,
            (Edge::CurrentRow, _) => rows.peers(place)?.end,
            (Edge::Steps(steps), FrameUnit::Rows) => clamp(here + steps + 1, &|| rows.len()),
            (Edge::Steps(steps), _) => {
                let group = rows.group(place)? as i128;
                rows.group_start(group + steps + 1)?
            }
            (Edge::Distance { value, following }, _) => {
                self.reach(place, value, *following, true, rows)?
            }
        };
        Ok(start..end.max(start))
    }

    /// Start of the rows whose ordering value is within a distance; with `past`, their end.
    fn reach(
        &self,
        place: usize,
        distance: &Value,
        following: bool,
        past: bool,
        rows: &mut impl WindowRows,
    ) -> Result<usize, Error> {
        let Some(&key) = self.pass.sort.keys.get(self.pass.partition_count) else {
            return Ok(place);
        };
        let own = rows.key(place)?.clone();
        // Only numbers have a distance; of other values only equal ones are near.
        let further = |from: &Value| match from {
            Value::Int(_) | Value::Real(_) if key.descending => {
                value::subtract(from.as_ref(), distance.as_ref())
            }
            Value::Int(_) | Value::Real(_) => value::add(from.as_ref(), distance.as_ref()),
            other => other.clone(),
        };
        let is_before = |order: Ordering| if past { order.is_le() } else { order.is_lt() };
        // As in SQLite the distance is added to the earlier value: sums rounded, or leaving the
        // integers, show the difference.
        if following {
            let edge = further(&own);
            rows.first_key(place, past, |value| is_before(compare_key(value, &edge, key)))
        } else {
            rows.first_key(place, past, |value| is_before(compare_key(&further(value), &own, key)))
        }
    }

    /// True where the window frame of a row with these peers leaves out a row within its range.
    fn excludes(&self, current: usize, peers: &Range<usize>, place: usize) -> bool {
        match self.pass.exclude {
            FrameExclude::None | FrameExclude::NoOthers => false,
            FrameExclude::CurrentRow => place == current,
            FrameExclude::Group => peers.contains(&place),
            FrameExclude::Ties => place != current && peers.contains(&place),
        }
    }

    fn aggregate(
        &self,
        function: &AggregateFunction,
        (number, call): (usize, &WindowCallPlan),
        rows: &mut impl WindowRows,
    ) -> Result<(), Error> {
        let grows = matches!(self.start, Edge::Unbounded);
        let slides = function.is_reversible() || function.extreme().is_some();
        if self.pass.exclude != FrameExclude::None || !(grows || slides) {
            return self.each_anew(function, (number, call), rows);
        }
        if !grows && let Some(max) = function.extreme() {
            return self.extremes(max, (number, call), rows);
        }
        let mut state: AggregateState = function.start(call.collation, call.json);
        let mut last: Option<(Range<usize>, Value)> = None;
        let mut seen = 0..0;
        // Leaving rows go before entering ones, unless they are still to enter; in a range before
        // or behind the row, SQLite takes entering rows first.
        let side = |edge: &Edge| match edge {
            Edge::Distance { following, .. } => Some(*following),
            _ => None,
        };
        let enters_first = side(self.start).is_some() && side(self.start) == side(self.end);
        for place in 0..rows.len() {
            if place.is_multiple_of(64) {
                self.session.check()?;
            }
            let range = rows.range(self, place)?;
            if let Some((known, value)) = &last
                && *known == range
            {
                let value = value.clone();
                rows.give(number, place, value)?;
                continue;
            }
            let leaving = if enters_first { 0 } else { range.start.min(seen.end) };
            let first = if place == 0 { self.first_moves(range.end, rows)? } else { Vec::new() };
            let moves = [(leaving, false), (range.end, true), (range.start, false)];
            for (end, enter) in first.into_iter().chain(moves) {
                let (edge, reader) = match enter {
                    true => (&mut seen.end, Reader::Enter),
                    false => (&mut seen.start, Reader::Leave),
                };
                for place in *edge..end {
                    match (rows.lets_in(number, place, reader)?, enter) {
                        (false, _) => {}
                        (true, true) => {
                            state.step(rows.arguments(number, place, reader)?)?;
                        }
                        (true, false) => state.undo(rows.arguments(number, place, reader)?),
                    }
                }
                *edge = end.max(*edge);
            }
            let value = state.finish()?;
            rows.give(number, place, value.clone())?;
            last = Some((range, value));
        }
        Ok(())
    }

    /// The filling of a partition's first window frame, where it begins behind its row: as soon as
    /// there are as many rows or groups as a window frame has, one leaves for each one entering.
    /// Gives the ends of such steps, each with true for entering rows.
    fn first_moves(
        &self,
        end: usize,
        rows: &mut impl WindowRows,
    ) -> Result<Vec<(usize, bool)>, Error> {
        let mut moves = Vec::new();
        let (Edge::Steps(from), Edge::Steps(to)) = (self.start, self.end) else {
            return Ok(moves);
        };
        if *from <= 0 || to < from {
            return Ok(moves);
        }
        let count = rows.len();
        let mut behind = |unit: i128| match self.pass.unit {
            FrameUnit::Rows => Ok(usize::try_from(unit + 1).unwrap_or(usize::MAX).min(count)),
            _ => rows.group_start(unit + 1),
        };
        let mut entered = 0;
        for unit in 0..*to {
            if entered >= end {
                break;
            }
            entered = behind(unit)?;
            moves.push((entered.min(end), true));
            if unit >= to - from {
                moves.push((behind(unit - (to - from))?, false));
            }
        }
        Ok(moves)
    }

    /// Computes an aggregate for every row from nothing.
    fn each_anew(
        &self,
        function: &AggregateFunction,
        (number, call): (usize, &WindowCallPlan),
        rows: &mut impl WindowRows,
    ) -> Result<(), Error> {
        for current in 0..rows.len() {
            self.session.check()?;
            let range = rows.range(self, current)?;
            let peers = rows.peers(current)?;
            let mut state = function.start(call.collation, call.json);
            for place in range {
                if !self.excludes(current, &peers, place)
                    && rows.lets_in(number, place, Reader::Other)?
                {
                    state.step(rows.arguments(number, place, Reader::Other)?)?;
                }
            }
            rows.give(number, current, state.finish()?)?;
        }
        Ok(())
    }

    /// `first_value`, `last_value` and `nth_value`.
    fn pick(
        &self,
        (number, call): (usize, &WindowCallPlan),
        rows: &mut impl WindowRows,
    ) -> Result<(), Error> {
        for current in 0..rows.len() {
            let mut range = rows.range(self, current)?;
            let peers = match self.pass.exclude {
                FrameExclude::None => 0..0,
                _ => rows.peers(current)?,
            };
            let within = |place: &usize| !self.excludes(current, &peers, *place);
            let found = match call.function {
                WindowFunction::FirstValue => range.find(within),
                WindowFunction::LastValue => range.rfind(within),
                _ => {
                    let arguments = rows.arguments(number, current, Reader::Current)?;
                    let wanted = match arguments.get(1).map(integer) {
                        Some(Some(wanted)) if wanted > 0 => wanted,
                        _ => {
                            return Err(Error::runtime(
                                "second argument to nth_value must be a positive integer",
                            ));
                        }
                    };
                    let skip = usize::try_from(wanted - 1).unwrap_or(usize::MAX);
                    if self.pass.exclude == FrameExclude::None {
                        range.start.checked_add(skip).filter(|place| *place < range.end)
                    } else {
                        range.filter(within).nth(skip)
                    }
                }
            };
            let value = match found {
                Some(place) => rows.arguments(number, place, Reader::Other)?[0].clone(),
                None => Value::Null,
            };
            rows.give(number, current, value)?;
        }
        Ok(())
    }

    /// `min` or `max` over moving window frames, from the rows no later row of the window frame
    /// beats.
    fn extremes(
        &self,
        max: bool,
        (number, call): (usize, &WindowCallPlan),
        rows: &mut impl WindowRows,
    ) -> Result<(), Error> {
        let mut candidates = Candidates {
            max,
            collation: call.collation,
            number,
            places: VecDeque::new(),
            seen: 0,
            unknown: None,
        };
        for place in 0..rows.len() {
            if place.is_multiple_of(64) {
                self.session.check()?;
            }
            let range = rows.range(self, place)?;
            let value = candidates.of(range, rows)?;
            rows.give(number, place, value)?;
        }
        Ok(())
    }
}

/// The candidates for a window frame's extreme: each beats all behind it. For a partition in a
/// file, only the first candidates are known.
struct Candidates {
    max: bool,
    collation: Collation,
    /// The call's.
    number: usize,
    places: VecDeque<(usize, Value)>,
    /// Number of rows read.
    seen: usize,
    /// The first place behind the known candidates with perhaps more of them.
    unknown: Option<usize>,
}

impl Candidates {
    /// The extreme of a frame; frames come in order.
    fn of(&mut self, range: Range<usize>, rows: &mut impl WindowRows) -> Result<Value, Error> {
        for place in self.seen..range.end {
            self.take(place, Reader::Enter, rows)?;
        }
        self.seen = self.seen.max(range.end);
        while self.places.front().is_some_and(|(first, _)| *first < range.start) {
            self.places.pop_front();
        }
        if self.places.is_empty()
            && let Some(from) = self.unknown.take()
        {
            for place in from.max(range.start)..self.seen {
                self.take(place, Reader::Other, rows)?;
            }
        }
        let found = self.places.front().filter(|(first, _)| *first < range.end);
        Ok(found.map_or(Value::Null, |(_, value)| value.clone()))
    }

    fn take(
        &mut self,
        place: usize,
        reader: Reader,
        rows: &mut impl WindowRows,
    ) -> Result<(), Error> {
        if !rows.lets_in(self.number, place, reader)? {
            return Ok(());
        }
        let most = rows.candidates_max();
        let value = &rows.arguments(self.number, place, reader)?[0];
        if value.is_null() {
            return Ok(());
        }
        while let Some((_, last)) = self.places.back() {
            let order = value::compare(last.as_ref(), value.as_ref(), self.collation);
            // Of equal values the last is the result, as in SQLite where a frame's start moves.
            if if self.max { order.is_gt() } else { order.is_lt() } {
                break;
            }
            self.places.pop_back();
            // A row beating a known candidate beats the candidates behind.
            self.unknown = None;
        }
        if self.unknown.is_some() || self.places.len() >= most {
            self.unknown.get_or_insert(place);
        } else {
            self.places.push_back((place, value.clone()));
        }
        Ok(())
    }
}

fn compare_key(value: &Value, edge: &Value, key: SortKey) -> Ordering {
    compare(value.as_ref(), edge.as_ref(), key)
}

/// A value as an integer, if the conversion loses nothing.
fn integer(value: &Value) -> Option<i64> {
    match Affinity::Integer.apply(value.clone()) {
        Value::Int(int) => Some(int),
        _ => None,
    }
}

/// The functions of a row's place in its partition.
fn place_function(
    function: &WindowFunction,
    number: usize,
    rows: &mut impl WindowRows,
) -> Result<(), Error> {
    let count = rows.len();
    let int = |number: usize| Value::Int(i64::try_from(number).unwrap_or(i64::MAX));
    let tiles = match function {
        WindowFunction::Ntile => {
            match value::to_int(rows.arguments(number, 0, Reader::Current)?[0].as_ref()) {
                tiles if tiles > 0 => usize::try_from(tiles).unwrap_or(usize::MAX),
                _ => return Err(Error::runtime("argument of ntile must be a positive integer")),
            }
        }
        _ => 1,
    };
    for place in 0..count {
        let value = match function {
            WindowFunction::RowNumber => int(place + 1),
            WindowFunction::Rank => int(rows.peers(place)?.start + 1),
            WindowFunction::DenseRank => int(rows.group(place)? + 1),
            WindowFunction::PercentRank if count == 1 => Value::Real(0.0),
            WindowFunction::PercentRank => {
                Value::Real(rows.peers(place)?.start as f64 / (count as f64 - 1.0))
            }
            WindowFunction::CumeDist => Value::Real(rows.peers(place)?.end as f64 / count as f64),
            WindowFunction::Ntile => int(tile(place, count, tiles)),
            WindowFunction::Lag | WindowFunction::Lead => {
                let arguments = rows.arguments(number, place, Reader::Current)?;
                let here = int(place);
                let one = Value::Int(1);
                let offset = arguments.get(1).unwrap_or(&one);
                let target = match function {
                    WindowFunction::Lead => value::add(here.as_ref(), offset.as_ref()),
                    _ => value::subtract(here.as_ref(), offset.as_ref()),
                };
                let target = integer(&target)
                    .and_then(|target| usize::try_from(target).ok())
                    .filter(|target| *target < count);
                match target {
                    Some(target) => rows.arguments(number, target, Reader::Other)?[0].clone(),
                    None => arguments.get(2).cloned().unwrap_or_default(),
                }
            }
            _ => Value::Null,
        };
        rows.give(number, place, value)?;
    }
    Ok(())
}

/// The tile, from 1, of a row when so many rows are dealt to so many tiles, larger ones first.
fn tile(place: usize, count: usize, tiles: usize) -> usize {
    let (size, larger) = (count / tiles, count % tiles);
    let in_larger = larger * (size + 1);
    if place < in_larger {
        place / (size + 1) + 1
    } else {
        larger + (place - in_larger) / size.max(1) + 1
    }
}
