//! The text of `GRAPH_TABLE (graph MATCH ... WHERE ... COLUMNS (...))` as a tree.
//!
//! Expressions stay words: they are SQL, and go to the planner with the properties of elements
//! replaced.

use shoal_sql::Error;

use super::words::{Kind, Word, Words, at_place};

/// The text of a clause.
#[derive(Debug)]
pub(super) struct GraphTable<'t> {
    pub(super) graph: String,
    pub(super) paths: Vec<PathPattern<'t>>,
    /// `DIFFERENT EDGES`: no edge twice in a match, in one path or in several.
    pub(super) has_different_edges: bool,
    pub(super) filter: Option<Vec<Word<'t>>>,
    pub(super) columns: Vec<OutputColumn<'t>>,
    /// Bytes of the clause with its closing parenthesis.
    pub(super) length: usize,
}

#[derive(Debug)]
pub(super) struct OutputColumn<'t> {
    pub(super) words: Vec<Word<'t>>,
    pub(super) name: String,
}

/// A path: nodes, and what leads from each to the next.
#[derive(Clone, Debug)]
pub(super) struct PathPattern<'t> {
    pub(super) variable: Option<String>,
    pub(super) restrictor: Restrictor,
    pub(super) selector: Selector,
    pub(super) nodes: Vec<Element<'t>>,
    pub(super) steps: Vec<Step<'t>>,
    pub(super) place: usize,
}

/// Paths that a pattern leaves out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Restrictor {
    Walk,
    /// No edge twice.
    Trail,
    /// No node twice.
    Acyclic,
    /// No node twice, but the first may be the last.
    Simple,
}

/// The paths taken of those between the same two ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Selector {
    All,
    Any,
    AllShortest,
    /// The shortest ones, so many.
    Shortest(u32),
    /// All paths of the shortest lengths, so many lengths.
    Groups(u32),
}

/// A node or an edge.
#[derive(Clone, Debug, Default)]
pub(super) struct Element<'t> {
    pub(super) variable: Option<String>,
    pub(super) label: Option<LabelExpr>,
    pub(super) filter: Option<Vec<Word<'t>>>,
    pub(super) place: usize,
}

#[derive(Clone, Debug)]
pub(super) enum LabelExpr {
    Name(String),
    /// `%`: any label.
    Any,
    Not(Box<LabelExpr>),
    And(Box<LabelExpr>, Box<LabelExpr>),
    Or(Box<LabelExpr>, Box<LabelExpr>),
}

/// What leads from one node to the next.
#[derive(Clone, Debug)]
pub(super) enum Step<'t> {
    Edge(Direction, Element<'t>),
    /// A path that is walked again and again.
    Repeated(Box<Repeated<'t>>),
}

#[derive(Clone, Debug)]
pub(super) struct Repeated<'t> {
    pub(super) path: PathPattern<'t>,
    /// A condition on each round.
    pub(super) filter: Option<Vec<Word<'t>>>,
    pub(super) min: u32,
    pub(super) max: Option<u32>,
    /// True of a path in parentheses, false of a single edge with its quantifier.
    is_path: bool,
    pub(super) place: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Direction {
    Right,
    Left,
    Either,
}

/// Words that end an expression within `GRAPH_TABLE`.
const ENDS: [&str; 1] = ["COLUMNS"];

/// Reads the text behind `GRAPH_TABLE (`.
///
/// # Errors
/// The first word that fits nowhere, with its place.
pub(super) fn parse(text: &str) -> Result<GraphTable<'_>, Error> {
    let mut words = Words::new(text, true)?;
    let graph = words.expect_name("the name of a graph")?;
    words.take_sign(",");
    words.expect("MATCH")?;
    if words.take("REPEATABLE") && !words.take("ELEMENT") {
        words.expect("ELEMENTS")?;
    }
    let has_different_edges = words.take("DIFFERENT");
    if has_different_edges && !words.take("EDGE") {
        words.expect("EDGES")?;
    }
    let mut paths = Vec::new();
    loop {
        paths.push(path(&mut words)?);
        if !words.take_sign(",") {
            break;
        }
    }
    if has_different_edges {
        let selective = paths.iter().find(|path| path.selector != Selector::All);
        if let (Some(path), true) = (selective, paths.len() > 1) {
            let why = "ANY and SHORTEST choose among the paths of one pattern: beside others, \
                       DIFFERENT EDGES leaves them no choice";
            return Err(at_place(why, path.place));
        }
        // Acyclic and simple paths have no edge twice.
        for path in paths.iter_mut().filter(|path| path.restrictor == Restrictor::Walk) {
            path.restrictor = Restrictor::Trail;
        }
    }
    let filter = match words.take("WHERE") {
        true => Some(words.expression(&ENDS, false)?),
        false => None,
    };
    words.expect("COLUMNS")?;
    words.expect_sign("(")?;
    let mut columns = Vec::new();
    loop {
        columns.push(output(&mut words)?);
        if !words.take_sign(",") {
            break;
        }
    }
    words.expect_sign(")")?;
    let close = words.peek();
    words.expect_sign(")")?;
    let length = close.end();
    Ok(GraphTable { graph, paths, has_different_edges, filter, columns, length })
}

fn output<'t>(words: &mut Words<'t>) -> Result<OutputColumn<'t>, Error> {
    let mut expression = words.expression(&["AS"], true)?;
    // `CAST (x AS t)` is in parentheses; `AS` outside names the column.
    if words.take("AS") {
        let name = words.expect_name("a name for the column")?;
        return Ok(OutputColumn { words: expression, name });
    }
    let name = match &mut *expression {
        [variable, dot, property] if dot.is_sign(".") && variable.name().is_some() => {
            property.name()
        }
        _ => None,
    };
    match name {
        Some(name) => Ok(OutputColumn { words: expression, name }),
        None => Err(words.unexpected("AS and a name for the column")),
    }
}

fn path<'t>(words: &mut Words<'t>) -> Result<PathPattern<'t>, Error> {
    let place = words.peek().start;
    let mut variable = None;
    if words.peek().name().is_some() && words.ahead(1).is_sign("=") {
        variable = words.next().name();
        words.next();
    }
    let (selector, restrictor) = prefix(words)?;
    let mut path = chain(words)?;
    (path.variable, path.selector, path.restrictor) = (variable, selector, restrictor);
    path.place = place;
    Ok(path)
}

/// `ALL SHORTEST TRAIL PATHS` and its kin.
fn prefix(words: &mut Words<'_>) -> Result<(Selector, Restrictor), Error> {
    let mut selector = Selector::All;
    if words.take("ALL") {
        if words.take("SHORTEST") {
            selector = Selector::AllShortest;
        }
    } else if words.take("ANY") {
        selector = if words.take("SHORTEST") { Selector::Shortest(1) } else { Selector::Any };
    } else if words.take("SHORTEST") {
        let count = words.take_number();
        selector = if words.take("GROUP") || words.take("GROUPS") {
            Selector::Groups(count.unwrap_or(1))
        } else {
            let Some(count) = count else { return Err(words.unexpected("a number of paths")) };
            Selector::Shortest(count)
        };
        if matches!(selector, Selector::Shortest(0) | Selector::Groups(0)) {
            return Err(words.unexpected("a number of paths above 0 before this"));
        }
    }
    let restrictor = if words.take("TRAIL") {
        Restrictor::Trail
    } else if words.take("ACYCLIC") {
        Restrictor::Acyclic
    } else if words.take("SIMPLE") {
        Restrictor::Simple
    } else {
        words.take("WALK");
        Restrictor::Walk
    };
    if !words.take("PATHS") {
        words.take("PATH");
    }
    if let Selector::Shortest(count) = selector
        && (words.take("GROUP") || words.take("GROUPS"))
    {
        selector = Selector::Groups(count);
    }
    Ok((selector, restrictor))
}

fn chain<'t>(words: &mut Words<'t>) -> Result<PathPattern<'t>, Error> {
    let place = words.peek().start;
    let (mut nodes, mut steps) = (Vec::new(), Vec::new());
    // Two nodes side by side are one: `(a)((x)-[e]->(y)){2}(b)`.
    loop {
        if words.peek().is_sign("(") && is_path_in_parentheses(words) {
            if nodes.len() == steps.len() {
                nodes.push(Element::default());
            }
            steps.push(repeated_path(words)?);
        } else if words.peek().is_sign("(") {
            if nodes.len() > steps.len() {
                return Err(words.unexpected("an edge between two nodes"));
            }
            nodes.push(node(words)?);
        } else if let Some(step) = edge(words)? {
            if nodes.len() == steps.len() {
                if !matches!(steps.last(), Some(Step::Repeated(_))) {
                    return Err(at_place("an edge begins at a node: ( is expected", place));
                }
                nodes.push(Element::default());
            }
            steps.push(step);
        } else {
            break;
        }
    }
    if nodes.is_empty() {
        return Err(words.unexpected("a node in parentheses"));
    }
    if nodes.len() == steps.len() {
        match steps.last() {
            Some(Step::Repeated(it)) if it.is_path => nodes.push(Element::default()),
            _ => return Err(words.unexpected("the node where the edge ends")),
        }
    }
    Ok(PathPattern {
        variable: None,
        restrictor: Restrictor::Walk,
        selector: Selector::All,
        nodes,
        steps,
        place,
    })
}

/// True where a parenthesis holds a path: another parenthesis, or a path's name or prefix.
fn is_path_in_parentheses(words: &Words<'_>) -> bool {
    let prefixes = ["ANY", "ALL", "SHORTEST", "TRAIL", "ACYCLIC", "SIMPLE", "WALK"];
    words.ahead(1).is_sign("(")
        || words.ahead(2).is_sign("=")
        || (prefixes.iter().any(|word| words.ahead(1).is(word)) && words.ahead(2).is_sign("("))
}

fn repeated_path<'t>(words: &mut Words<'t>) -> Result<Step<'t>, Error> {
    let place = words.peek().start;
    words.expect_sign("(")?;
    if !words.peek().is_sign("(") {
        let why = "a path in parentheses has no name or prefix of its own";
        return Err(at_place(why, words.peek().start));
    }
    let path = chain(words)?;
    let filter = match words.take("WHERE") {
        true => Some(words.expression(&[], false)?),
        false => None,
    };
    words.expect_sign(")")?;
    if path.steps.iter().any(|step| matches!(step, Step::Repeated(_))) {
        return Err(at_place("a quantifier within a quantified path is not supported", place));
    }
    if path.steps.is_empty() {
        return Err(at_place("a path in parentheses has an edge", place));
    }
    let (min, max) = quantifier(words)?.unwrap_or((1, Some(1)));
    Ok(Step::Repeated(Box::new(Repeated { path, filter, min, max, is_path: true, place })))
}

fn node<'t>(words: &mut Words<'t>) -> Result<Element<'t>, Error> {
    let place = words.peek().start;
    words.expect_sign("(")?;
    let node = element(words, place)?;
    words.expect_sign(")")?;
    Ok(node)
}

/// The inside of a node's parentheses or an edge's brackets.
fn element<'t>(words: &mut Words<'t>, place: usize) -> Result<Element<'t>, Error> {
    let mut element = Element { place, ..Element::default() };
    let next = words.peek();
    let is_word = next.is("IS") || next.is("WHERE");
    let behind = words.ahead(1);
    let is_closed = behind.is_sign(")") || behind.is_sign("]") || behind.is("IS");
    if next.name().is_some() && (!is_word || is_closed) {
        element.variable = words.next().name();
    }
    // `:label` without a blank is a parameter's word.
    let next = words.peek();
    let is_colon = next.kind == Kind::Parameter && next.text.starts_with(':');
    if is_colon || words.take("IS") || words.take_sign(":") {
        element.label = Some(label(words)?);
    }
    if words.take("WHERE") {
        element.filter = Some(words.expression(&[], false)?);
    }
    Ok(element)
}

fn label(words: &mut Words<'_>) -> Result<LabelExpr, Error> {
    let mut left = label_and(words)?;
    while words.take_sign("|") {
        left = LabelExpr::Or(Box::new(left), Box::new(label_and(words)?));
    }
    Ok(left)
}

fn label_and(words: &mut Words<'_>) -> Result<LabelExpr, Error> {
    let mut left = label_one(words)?;
    while words.take_sign("&") {
        left = LabelExpr::And(Box::new(left), Box::new(label_one(words)?));
    }
    Ok(left)
}

fn label_one(words: &mut Words<'_>) -> Result<LabelExpr, Error> {
    let mut negations = 0;
    while words.take_sign("!") {
        negations += 1;
    }
    let word = words.peek();
    let mut one = if words.take_sign("%") {
        LabelExpr::Any
    } else if words.take_sign("(") {
        let inner = label(words)?;
        words.expect_sign(")")?;
        inner
    } else if word.kind == Kind::Parameter && word.text.starts_with(':') {
        // `:label` without a blank.
        words.next();
        LabelExpr::Name(word.text[1..].to_owned())
    } else {
        LabelExpr::Name(words.expect_name("a label")?)
    };
    for _ in 0..negations % 2 {
        one = LabelExpr::Not(Box::new(one));
    }
    Ok(one)
}

/// The label expression at the start of some words, and how many words it has.
///
/// # Errors
/// As [`parse`].
pub(super) fn label_of(words: &[Word<'_>]) -> Result<(LabelExpr, usize), Error> {
    let mut words = Words::of(words);
    let label = label(&mut words)?;
    Ok((label, words.place()))
}

/// An edge with its quantifier, or nothing.
fn edge<'t>(words: &mut Words<'t>) -> Result<Option<Step<'t>>, Error> {
    let place = words.peek().start;
    let points_left = words.peek().is_sign("<") && words.ahead(1).is_sign("-");
    if !points_left && !words.peek().is_sign("-") {
        if words.peek().is_sign("~") {
            let why = "~ is for edges without direction, and every edge here has one";
            return Err(at_place(why, place));
        }
        return Ok(None);
    }
    if points_left {
        words.next();
    }
    words.next();
    let mut inner = Element { place, ..Element::default() };
    let has_brackets = words.take_sign("[");
    if has_brackets {
        inner = element(words, place)?;
        words.expect_sign("]")?;
        words.expect_sign("-")?;
    }
    let points_right = words.take_sign(">");
    let direction = match (points_left, points_right) {
        (true, false) => Direction::Left,
        (false, true) => Direction::Right,
        _ => Direction::Either,
    };
    let Some((min, max)) = quantifier(words)? else {
        return Ok(Some(Step::Edge(direction, inner)));
    };
    let unwritten = Element { place, ..Element::default() };
    let filter = inner.filter.take();
    let path = PathPattern {
        variable: None,
        restrictor: Restrictor::Walk,
        selector: Selector::All,
        nodes: vec![unwritten.clone(), unwritten],
        steps: vec![Step::Edge(direction, inner)],
        place,
    };
    Ok(Some(Step::Repeated(Box::new(Repeated { path, filter, min, max, is_path: false, place }))))
}

/// The least and the most rounds; `None` for the most where there is no bound.
fn quantifier(words: &mut Words<'_>) -> Result<Option<(u32, Option<u32>)>, Error> {
    if words.take_sign("*") {
        return Ok(Some((0, None)));
    }
    if words.take_sign("+") {
        return Ok(Some((1, None)));
    }
    // A question mark alone is a parameter in SQL.
    if words.peek().kind == Kind::Parameter && words.peek().text == "?" {
        words.next();
        return Ok(Some((0, Some(1))));
    }
    if !words.take_sign("{") {
        return Ok(None);
    }
    let min = words.take_number();
    let (min, max) = if words.take_sign(",") {
        (min.unwrap_or(0), words.take_number())
    } else {
        let Some(count) = min else { return Err(words.unexpected("a number of rounds")) };
        (count, Some(count))
    };
    if max.is_some_and(|max| max < min) {
        return Err(
            words.unexpected("a quantifier whose second number is not below the first before this")
        );
    }
    words.expect_sign("}")?;
    Ok(Some((min, max)))
}
