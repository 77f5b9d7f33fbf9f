//! `graph_walk`: paths of one step taken again and again.
//!
//! ```sql
//! graph_walk(hop, start, min, max, mode, parameters) -> (vertex, length, edges, vertices)
//! ```
//!
//! `hop` is a query of one round: for the identifiers in the JSON array `?1` it gives the vertex
//! before, the vertex behind, a JSON array of the round's edges, and one of the vertices between.
//! Rounds are asked for all ends of paths at once, each end once. Starts that are columns of tables
//! before come by batches ([`Operator`]): a round is asked for the paths of all of them.

use std::collections::VecDeque;
use std::sync::Arc;

use rustc_hash::{FxHashMap, FxHashSet};
use shoal_sql::{Error, ModuleContext, Operator, OperatorRows, TableFunction, Value};

use crate::json;

/// The most bytes of paths kept by a walk.
const MEMORY_MAX: usize = 1 << 28;

/// The sentence of a walk that takes more paths than its mode says.
const OVER_BUDGET: &str = "graph_walk(): the paths are more than the mode has them within";

/// True of the error of a walk that takes more paths than its mode says.
pub(super) fn is_over_budget(error: &Error) -> bool {
    error.to_string().contains(OVER_BUDGET)
}

/// Paths looked at between two looks at limits.
const STRIDE: usize = 1 << 12;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Restrictor {
    Walk,
    Trail,
    Acyclic,
    Simple,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Selector {
    All,
    /// So many shortest paths to each end.
    Shortest(usize),
    /// The paths of so many shortest lengths to each end.
    Groups(usize),
}

/// The table-valued function.
pub(super) fn function() -> TableFunction {
    let columns = ["vertex", "length", "edges", "vertices"];
    let arguments = ["hop", "start", "min", "max", "mode", "parameters"];
    TableFunction::new("graph_walk", &columns, &arguments, |given, context| {
        let paths = match Call::of(given)? {
            Some(call) => walk(&[(0, call)], context)?,
            None => Vec::new(),
        };
        Ok(paths.into_iter().map(|(_, path)| Ok::<_, Error>(path)))
    })
    .reads_databases()
    .for_narrowed()
    .operator(WalkOfRows)
}

/// Walks from the rows of a join.
#[derive(Debug)]
struct WalkOfRows;

impl Operator for WalkOfRows {
    fn name(&self) -> &str {
        "graph walk"
    }

    fn open(&self) -> Result<Box<dyn OperatorRows>, Error> {
        Ok(Box::new(Walks::default()))
    }
}

/// The walks of a batch.
#[derive(Debug, Default)]
struct Walks {
    /// Calls not walked yet, with their places in the batch: calls of a group differ in the start.
    groups: VecDeque<Vec<(usize, Call)>>,
    paths: std::vec::IntoIter<(usize, Vec<Value>)>,
}

impl OperatorRows for Walks {
    fn take(
        &mut self,
        batch: &[Vec<Option<Value>>],
        _context: &ModuleContext<'_>,
    ) -> Result<(), Error> {
        for (place, given) in batch.iter().enumerate() {
            let Some(call) = Call::of(given)? else { continue };
            match self.groups.back_mut() {
                Some(group) if group[0].1.differs_in_start(&call) => group.push((place, call)),
                _ => self.groups.push_back(vec![(place, call)]),
            }
        }
        Ok(())
    }

    fn next(
        &mut self,
        row: &mut Vec<Value>,
        context: &ModuleContext<'_>,
    ) -> Result<Option<usize>, Error> {
        loop {
            if let Some((place, path)) = self.paths.next() {
                *row = path;
                return Ok(Some(place));
            }
            let Some(group) = self.groups.pop_front() else { return Ok(None) };
            match walk(&group, context) {
                Ok(paths) => self.paths = paths.into_iter(),
                // Paths too many for memory together may fit one start after the other.
                Err(_) if group.len() > 1 => {
                    for alone in group.into_iter().rev() {
                        self.groups.push_front(vec![alone]);
                    }
                }
                Err(error) => return Err(error),
            }
        }
    }
}

fn text_of(value: Option<&Value>, what: &str) -> Result<String, Error> {
    match value {
        Some(Value::Text(bytes)) => Ok(String::from_utf8_lossy(bytes).into_owned()),
        _ => Err(Error::of_function(format!("graph_walk() takes {what}, a text"))),
    }
}

fn number_of(value: Option<&Value>, what: &str) -> Result<usize, Error> {
    match value {
        Some(Value::Int(number)) => usize::try_from(*number).ok(),
        _ => None,
    }
    .ok_or_else(|| Error::of_function(format!("graph_walk() takes {what}, a number from 0 on")))
}

fn mode_of(mode: &str) -> Result<(Restrictor, Selector, usize), Error> {
    let refused = || {
        Error::of_function(format!(
            "graph_walk() knows no mode '{mode}': walk, trail, acyclic or simple, then perhaps \
             shortest or groups with a number, then perhaps within with a number of paths"
        ))
    };
    let (mode, budget) = match mode.split_once(" within ") {
        Some((mode, budget)) => (mode, budget.parse().map_err(|_| refused())?),
        None => (mode, usize::MAX),
    };
    let mut words = mode.split_whitespace();
    let restrictor = match words.next() {
        Some("walk") => Restrictor::Walk,
        Some("trail") => Restrictor::Trail,
        Some("acyclic") => Restrictor::Acyclic,
        Some("simple") => Restrictor::Simple,
        _ => return Err(refused()),
    };
    let selector = words.next();
    let count = words.next().and_then(|count| count.parse().ok()).filter(|count| *count > 0);
    let selector = match (selector, count) {
        (None, None) => Selector::All,
        (Some("shortest"), Some(count)) => Selector::Shortest(count),
        (Some("groups"), Some(count)) => Selector::Groups(count),
        _ => return Err(refused()),
    };
    Ok((restrictor, selector, budget))
}

/// Identifiers as numbers.
#[derive(Debug, Default)]
struct Names {
    numbers: FxHashMap<Arc<str>, u32>,
    names: Vec<Arc<str>>,
    /// Bytes taken by the names.
    memory: usize,
}

impl Names {
    fn number(&mut self, name: &str) -> u32 {
        if let Some(&number) = self.numbers.get(name) {
            return number;
        }
        let number = u32::try_from(self.names.len()).expect("fewer identifiers than memory");
        let name: Arc<str> = Arc::from(name);
        self.memory += name.len() + 64;
        self.names.push(Arc::clone(&name));
        self.numbers.insert(name, number);
        number
    }

    fn json(&self, numbers: &[u32]) -> Value {
        let mut json = String::from("[");
        for (at, &number) in numbers.iter().enumerate() {
            if at > 0 {
                json.push(',');
            }
            json::write_text(&self.names[number as usize], &mut json);
        }
        json.push(']');
        json.into()
    }
}

/// One round from a vertex.
#[derive(Debug)]
struct Hop {
    to: u32,
    edges: Vec<u32>,
    between: Vec<u32>,
}

/// A path on its way; its beginning is another path.
#[derive(Clone, Copy, Debug)]
struct Path {
    end: u32,
    /// The path continued, the vertex at its end, and the round taken there; `None` of the first.
    before: Option<(u32, u32, u32)>,
}

/// The arguments of one walk.
#[derive(Debug)]
struct Call {
    hop: String,
    start: String,
    min: usize,
    max: usize,
    restrictor: Restrictor,
    selector: Selector,
    /// Paths at most.
    budget: usize,
    parameters: Value,
}

impl Call {
    /// Reads the arguments; `None` where there is no start: an outer join without a row has no
    /// paths.
    fn of(given: &[Option<Value>]) -> Result<Option<Call>, Error> {
        let argument = |at: usize| given.get(at).and_then(Option::as_ref);
        let hop = text_of(argument(0), "the query of a round")?;
        let Some(Value::Text(_)) = argument(1) else { return Ok(None) };
        let start = text_of(argument(1), "an identifier")?;
        let min = number_of(argument(2), "the least number of rounds")?;
        let max = match argument(3) {
            None | Some(Value::Null) => usize::MAX,
            value => number_of(value, "the greatest number of rounds")?,
        };
        let (restrictor, selector, budget) = mode_of(&text_of(argument(4), "a mode")?)?;
        if max == usize::MAX && restrictor == Restrictor::Walk && selector == Selector::All {
            return Err(Error::of_function(
                "graph_walk() of all walks takes a greatest number of rounds",
            ));
        }
        let parameters = argument(5).cloned().unwrap_or_default();
        Ok(Some(Call { hop, start, min, max, restrictor, selector, budget, parameters }))
    }

    /// True where all but the start is the same.
    fn differs_in_start(&self, other: &Call) -> bool {
        let rules = |call: &Call| (call.min, call.max, call.restrictor, call.selector, call.budget);
        rules(self) == rules(other) && self.hop == other.hop && self.parameters == other.parameters
    }
}

/// The paths of one start on their way.
#[derive(Debug, Default)]
struct Front {
    level: Vec<u32>,
    reached: FxHashMap<u32, Reached>,
    rows: Vec<Vec<Value>>,
}

struct Walker<'w, 'c> {
    call: &'w Call,
    context: &'w ModuleContext<'c>,
    vertices: Names,
    edges: Names,
    hops: FxHashMap<u32, Vec<Hop>>,
    paths: Vec<Path>,
    memory: usize,
    looked: usize,
}

/// The paths of calls of one group, start after start.
fn walk(
    calls: &[(usize, Call)],
    context: &ModuleContext<'_>,
) -> Result<Vec<(usize, Vec<Value>)>, Error> {
    let Some((_, call)) = calls.first() else { return Ok(Vec::new()) };
    let mut walker = Walker {
        call,
        context,
        vertices: Names::default(),
        edges: Names::default(),
        hops: FxHashMap::default(),
        paths: Vec::new(),
        memory: 0,
        looked: 0,
    };
    let fronts = walker.run(calls.iter().map(|(_, call)| &*call.start))?;
    let placed = calls.iter().zip(fronts);
    Ok(placed.flat_map(|((at, _), front)| front.rows.into_iter().map(|row| (*at, row))).collect())
}

/// Paths that reached an end already: how many, of how many lengths, the last of them.
#[derive(Clone, Copy, Debug, Default)]
struct Reached {
    count: usize,
    lengths: usize,
    last: usize,
}

impl Selector {
    /// Counts one more path of a length to an end; false where the path is not wanted.
    fn takes(self, reached: &mut Reached, length: usize) -> bool {
        let is_longer = reached.count == 0 || length > reached.last;
        let takes = match self {
            Selector::All => true,
            Selector::Shortest(most) => reached.count < most,
            Selector::Groups(most) => !is_longer || reached.lengths < most,
        };
        if takes {
            reached.count += 1;
            reached.lengths += usize::from(is_longer);
            reached.last = length;
        }
        takes
    }
}

impl Walker<'_, '_> {
    /// Walks from all starts together, round after round.
    fn run<'s>(&mut self, starts: impl Iterator<Item = &'s str>) -> Result<Vec<Front>, Error> {
        let Call { min, max, restrictor, selector, .. } = *self.call;
        let mut fronts = Vec::new();
        for start in starts {
            let end = self.vertices.number(start);
            let level = vec![number_of_path(&self.paths)];
            self.paths.push(Path { end, before: None });
            fronts.push(Front { level, ..Front::default() });
        }
        // Walks that a wanted one cannot go on from are dropped; of trails and the like none is.
        let prunes = restrictor == Restrictor::Walk && selector != Selector::All;
        for rounds in 0.. {
            for Front { level, reached, rows } in &mut fronts {
                let mut early: FxHashMap<u32, Reached> = FxHashMap::default();
                for path in std::mem::take(level) {
                    let end = self.paths[path as usize].end;
                    let takes = match rounds >= min {
                        true => selector.takes(reached.entry(end).or_default(), rounds),
                        false => !prunes || selector.takes(early.entry(end).or_default(), rounds),
                    };
                    if takes && rounds >= min {
                        rows.push(self.row(path)?);
                    }
                    if takes || !prunes {
                        level.push(path);
                    }
                }
            }
            if rounds == max || fronts.iter().all(|front| front.level.is_empty()) {
                break;
            }
            self.fetch(&fronts)?;
            for Front { level, .. } in &mut fronts {
                for path in std::mem::take(level) {
                    self.extend(path, restrictor, level)?;
                }
            }
        }
        Ok(fronts)
    }

    /// Asks for the rounds from the ends of paths that are not known yet.
    fn fetch(&mut self, fronts: &[Front]) -> Result<(), Error> {
        let mut asked = Vec::new();
        for &path in fronts.iter().flat_map(|front| &front.level) {
            let end = self.paths[path as usize].end;
            if let std::collections::hash_map::Entry::Vacant(entry) = self.hops.entry(end) {
                entry.insert(Vec::new());
                asked.push(end);
            }
        }
        if asked.is_empty() {
            return self.context.check();
        }
        let (call, context) = (self.call, self.context);
        let parameters = [self.vertices.json(&asked), call.parameters.clone()];
        let count = if call.parameters == Value::Null { 1 } else { 2 };
        context.query(&call.hop, &parameters[..count], |row| self.take_hop(row))
    }

    fn take_hop(&mut self, row: &[Value]) -> Result<(), Error> {
        let broken =
            || Error::of_function("graph_walk(): a round has two identifiers and two lists");
        let [Value::Text(from), Value::Text(to), Value::Text(edges), Value::Text(between)] = row
        else {
            return Err(broken());
        };
        let list = |names: &mut Names, json: &[u8]| {
            let text = std::str::from_utf8(json).ok();
            let items = text.and_then(json::texts).ok_or_else(broken)?;
            Ok::<_, Error>(items.iter().map(|item| names.number(item)).collect::<Vec<u32>>())
        };
        let edges = list(&mut self.edges, edges)?;
        let between = list(&mut self.vertices, between)?;
        let (from, to) = (String::from_utf8_lossy(from), String::from_utf8_lossy(to));
        let (from, to) = (self.vertices.number(&from), self.vertices.number(&to));
        self.memory += size_of::<Hop>() + 4 * (edges.len() + between.len());
        self.hops.entry(from).or_default().push(Hop { to, edges, between });
        self.bound()
    }

    fn bound(&self) -> Result<(), Error> {
        let memory = self.memory + self.vertices.memory + self.edges.memory;
        match memory > MEMORY_MAX {
            true => Err(Error::of_function(format!(
                "the paths of a quantified pattern take over {} MiB: a bound, a label or a prefix such \
                 as ANY SHORTEST makes them fewer",
                MEMORY_MAX >> 20
            ))),
            false => Ok(()),
        }
    }

    /// Appends the continuations of a path.
    fn extend(
        &mut self,
        path: u32,
        restrictor: Restrictor,
        level: &mut Vec<u32>,
    ) -> Result<(), Error> {
        let end = self.paths[path as usize].end;
        let (mut vertices, mut edges) = (FxHashSet::default(), FxHashSet::default());
        let mut first = end;
        if restrictor != Restrictor::Walk {
            let (all_vertices, all_edges) = self.elements(path);
            first = all_vertices[0];
            // A simple path ends when back at its start.
            let is_closed = all_vertices.len() > 1 && end == first;
            if restrictor == Restrictor::Simple && is_closed {
                return Ok(());
            }
            vertices.extend(all_vertices);
            edges.extend(all_edges);
        }
        let hops = self.hops.get(&end).map_or(&[][..], Vec::as_slice);
        for (at, hop) in hops.iter().enumerate() {
            self.looked += 1;
            if self.looked.is_multiple_of(STRIDE) {
                self.context.check()?;
            }
            if !is_allowed(restrictor, hop, (&vertices, &edges), first) {
                continue;
            }
            let place = u32::try_from(at).expect("fewer rounds than memory");
            level.push(number_of_path(&self.paths));
            self.paths.push(Path { end: hop.to, before: Some((path, end, place)) });
            self.memory += size_of::<Path>() + size_of::<u32>();
        }
        if self.paths.len() > self.call.budget {
            return Err(Error::of_function(OVER_BUDGET));
        }
        self.bound()
    }

    /// The vertices and edges of a path, the first vertex first.
    fn elements(&self, path: u32) -> (Vec<u32>, Vec<u32>) {
        let (mut vertices, mut edges) = (Vec::new(), Vec::new());
        let mut at = path as usize;
        while let Path { end, before: Some((before, from, hop)) } = self.paths[at] {
            let hop = &self.hops[&from][hop as usize];
            vertices.push(end);
            vertices.extend(hop.between.iter().rev());
            edges.extend(hop.edges.iter().rev());
            at = before as usize;
        }
        vertices.push(self.paths[at].end);
        vertices.reverse();
        edges.reverse();
        (vertices, edges)
    }

    fn row(&mut self, path: u32) -> Result<Vec<Value>, Error> {
        let (vertices, edges) = self.elements(path);
        let end = &self.vertices.names[self.paths[path as usize].end as usize];
        let row = vec![
            Value::text(&**end),
            Value::Int(i64::try_from(edges.len()).expect("fewer edges than memory")),
            self.edges.json(&edges),
            self.vertices.json(&vertices),
        ];
        self.memory += row.iter().map(|value| 32 + text_length(value)).sum::<usize>();
        self.bound()?;
        Ok(row)
    }
}

/// The number of the next path.
fn number_of_path(paths: &[Path]) -> u32 {
    u32::try_from(paths.len()).expect("fewer paths than memory")
}

fn text_length(value: &Value) -> usize {
    match value {
        Value::Text(bytes) => bytes.len(),
        _ => 0,
    }
}

/// True where a path may go on by a round.
fn is_allowed(
    restrictor: Restrictor,
    hop: &Hop,
    (vertices, edges): (&FxHashSet<u32>, &FxHashSet<u32>),
    first: u32,
) -> bool {
    let repeats = |list: &[u32]| list.iter().enumerate().any(|(at, one)| list[..at].contains(one));
    match restrictor {
        Restrictor::Walk => true,
        Restrictor::Trail => {
            !repeats(&hop.edges) && !hop.edges.iter().any(|edge| edges.contains(edge))
        }
        Restrictor::Acyclic | Restrictor::Simple => {
            let closes = restrictor == Restrictor::Simple && hop.to == first;
            !repeats(&hop.between)
                && !hop.between.iter().any(|it| vertices.contains(it) || *it == hop.to)
                && (closes || !vertices.contains(&hop.to))
        }
    }
}
