//! A pattern as an argument of `graph_match`: JSON.

use super::matching::CALL_COLUMNS;
use crate::json;
use crate::value::{Map, Value};

/// The pattern of a call.
#[derive(Debug, PartialEq)]
pub(super) struct Call {
    pub(super) graph: String,
    /// The graph's tables, vertices first: of another definition the numbers below mean nothing.
    pub(super) tables: Vec<String>,
    pub(super) nodes: Vec<CallNode>,
    pub(super) edges: Vec<CallEdge>,
    /// Of a pattern with one edge, where this is walked again and again.
    pub(super) walk: Option<CallWalk>,
    /// Pairs of different nodes.
    pub(super) different: Vec<(usize, usize)>,
    /// The nodes of the columns.
    pub(super) shown: Vec<usize>,
    /// The query with the same rows.
    pub(super) join: String,
}

/// The candidates of a node.
#[derive(Debug, PartialEq)]
pub(super) enum CallNode {
    Any,
    /// Numbers of tables; with a query, the keys of its rows alone.
    Of(Vec<(usize, Option<String>)>),
}

#[derive(Debug, PartialEq)]
pub(super) struct CallEdge {
    pub(super) from: usize,
    pub(super) to: usize,
    pub(super) is_either: bool,
    /// The types of the edge; none takes all types.
    pub(super) kinds: Vec<String>,
    pub(super) class: Option<usize>,
    /// Where conditions choose some of the edges: the edge's alias, and for each number of a table
    /// a condition on its rows.
    pub(super) filter: Option<(String, Vec<(usize, String)>)>,
}

/// The bounds of a walk along an edge taken again and again: one pair of ends for each walk.
#[derive(Debug, PartialEq)]
pub(super) struct CallWalk {
    /// True where a node reaches itself without a step.
    pub(super) from_zero: bool,
    pub(super) steps_max: Option<u32>,
    /// The join with a bound on its paths.
    pub(super) few: String,
}

fn number(number: usize) -> Value {
    Value::Integer(i64::try_from(number).expect("numbers of a pattern are small"))
}

impl Call {
    pub(super) fn to_text(&self) -> String {
        let text = |text: &String| Value::text(text);
        let optional = |one: &Option<String>| one.as_ref().map_or(Value::Null, text);
        let numbers = |all: &[usize]| Value::list(all.iter().map(|one| number(*one)).collect());
        let node = |node: &CallNode| match node {
            CallNode::Any => Value::Null,
            CallNode::Of(tables) => {
                let table = |(place, query): &(usize, Option<String>)| {
                    Value::list(vec![number(*place), optional(query)])
                };
                Value::list(tables.iter().map(table).collect())
            }
        };
        let edge = |edge: &CallEdge| {
            Value::list(vec![
                number(edge.from),
                number(edge.to),
                Value::Boolean(edge.is_either),
                Value::list(edge.kinds.iter().map(text).collect()),
                edge.class.map_or(Value::Null, number),
                edge.filter.as_ref().map_or(Value::Null, |(alias, tables)| {
                    let table = |(place, sql): &(usize, String)| {
                        Value::list(vec![number(*place), text(sql)])
                    };
                    let tables = tables.iter().map(table).collect();
                    Value::list(vec![text(alias), Value::list(tables)])
                }),
            ])
        };
        let walk = self.walk.as_ref().map_or(Value::Null, |walk| {
            let most = walk.steps_max.map_or(Value::Null, |most| Value::Integer(most.into()));
            Value::list(vec![Value::Boolean(walk.from_zero), most, text(&walk.few)])
        });
        let mut call = Map::new();
        let different = self.different.iter().map(|(a, b)| numbers(&[*a, *b])).collect();
        for (key, value) in [
            ("graph", text(&self.graph)),
            ("tables", Value::list(self.tables.iter().map(text).collect())),
            ("nodes", Value::list(self.nodes.iter().map(node).collect())),
            ("edges", Value::list(self.edges.iter().map(edge).collect())),
            ("walk", walk),
            ("different", Value::list(different)),
            ("shown", numbers(&self.shown)),
            ("join", text(&self.join)),
        ] {
            call.insert(key.into(), value);
        }
        json::write(&call)
    }

    /// A call read from its text; `None` of any other text, and of numbers of no node.
    pub(super) fn read(call: &str) -> Option<Call> {
        let call = json::read(call).ok()?;
        let text = |value: &Value| match value {
            Value::Text(text) => Some((**text).to_owned()),
            _ => None,
        };
        let optional = |value: &Value| match value {
            Value::Null => Some(None),
            value => text(value).map(Some),
        };
        let number = |value: &Value| match value {
            Value::Integer(number) => usize::try_from(*number).ok(),
            _ => None,
        };
        let list = |value: &Value| match value {
            Value::List(list) => Some(list.to_vec()),
            _ => None,
        };
        let all = |key: &str| list(call.get(key)?);
        let table = |value: &Value| match &*list(value)? {
            [place, query] => Some((number(place)?, optional(query)?)),
            _ => None,
        };
        let node = |value: &Value| match value {
            Value::Null => Some(CallNode::Any),
            value => Some(CallNode::Of(list(value)?.iter().map(table).collect::<Option<_>>()?)),
        };
        let nodes: Vec<CallNode> = all("nodes")?.iter().map(node).collect::<Option<_>>()?;
        let place = |value: &Value| number(value).filter(|place| *place < nodes.len());
        let edge = |value: &Value| match &*list(value)? {
            [from, to, Value::Boolean(is_either), kinds, class, filter] => Some(CallEdge {
                from: place(from)?,
                to: place(to)?,
                is_either: *is_either,
                kinds: list(kinds)?.iter().map(text).collect::<Option<_>>()?,
                class: if *class == Value::Null { None } else { Some(number(class)?) },
                filter: match filter {
                    Value::Null => None,
                    filter => match &*list(filter)? {
                        [alias, tables] => {
                            let of = |value: &Value| match &*list(value)? {
                                [place, sql] => Some((number(place)?, text(sql)?)),
                                _ => None,
                            };
                            let tables = list(tables)?.iter().map(of).collect::<Option<_>>()?;
                            Some((text(alias)?, tables))
                        }
                        _ => return None,
                    },
                },
            }),
            _ => None,
        };
        let pair = |value: &Value| match &*list(value)? {
            [a, b] => Some((place(a)?, place(b)?)),
            _ => None,
        };
        let shown: Vec<usize> = all("shown")?.iter().map(place).collect::<Option<_>>()?;
        let edges: Vec<CallEdge> = all("edges")?.iter().map(edge).collect::<Option<_>>()?;
        let different = all("different")?.iter().map(pair).collect::<Option<_>>()?;
        let walk = match call.get("walk") {
            None | Some(Value::Null) => None,
            Some(walk) => match &*list(walk)? {
                [Value::Boolean(from_zero), most, few] => {
                    let most = match most {
                        Value::Null => None,
                        most => Some(u32::try_from(number(most)?).ok()?),
                    };
                    Some(CallWalk { from_zero: *from_zero, steps_max: most, few: text(few)? })
                }
                _ => return None,
            },
        };
        if shown.len() > CALL_COLUMNS || edges.is_empty() || walk.is_some() && edges.len() > 1 {
            return None;
        }
        Some(Call {
            graph: text(call.get("graph")?)?,
            tables: all("tables")?.iter().map(text).collect::<Option<_>>()?,
            different,
            join: text(call.get("join")?)?,
            nodes,
            edges,
            walk,
            shown,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_is_its_text() {
        let call = Call {
            graph: "g'\"".to_owned(),
            tables: vec!["v".to_owned(), "e".to_owned()],
            nodes: vec![
                CallNode::Any,
                CallNode::Of(vec![(0, None), (1, Some("SELECT '\\'".to_owned()))]),
            ],
            edges: vec![CallEdge {
                from: 1,
                to: 0,
                is_either: true,
                kinds: vec!["ä".to_owned(), "b".to_owned()],
                class: Some(0),
                filter: Some(("e'".to_owned(), vec![(0, "\"e'\".x > 1".to_owned())])),
            }],
            walk: None,
            different: vec![(0, 1)],
            shown: vec![1],
            join: "SELECT 1".to_owned(),
        };
        let text = call.to_text();
        let walk = CallWalk { from_zero: true, steps_max: Some(3), few: "SELECT 2".to_owned() };
        let walks = Call { walk: Some(walk), ..Call::read(&text).expect("a call") };
        assert_eq!(Call::read(&walks.to_text()), Some(walks));
        assert_eq!(Call::read(&text), Some(call));
        for (from, to) in
            [("\"shown\":[1]", "\"shown\":[2]"), ("[1,0,true", "[1,2,true"), ("{", "[")]
        {
            assert!(text.contains(from), "{text} has {from}");
            assert_eq!(Call::read(&text.replacen(from, to, 1)), None);
        }
    }
}
