//! A graph as a picture: Graphviz's language, SVG, or a page with the SVG and its rows.

use std::fmt::Write;

use rustc_hash::FxHashMap;
use shoal_sql::Connection;

use crate::error::{Error, Result};
use crate::graph::{Graph, Side};
use crate::mapped::TablesGraph;
use crate::procedure::Unbounded;
use crate::sqlite::SqliteGraph;
use crate::traverse::{Partial, Policy, traverse};
use crate::value::{Map, Value};

/// Nodes and the relationships between them, to be drawn.
#[derive(Clone, Debug, Default)]
pub struct Picture {
    nodes: Vec<Spot>,
    /// Places of the ends, and the type.
    edges: Vec<(usize, usize, String)>,
}

#[derive(Clone, Debug)]
struct Spot {
    name: String,
    label: String,
    detail: String,
}

/// Properties to name a node by, in the order of preference.
const NAMES: [&str; 5] = ["name", "title", "label", "path", "id"];

/// Most letters shown of a name.
const NAME_MAX: usize = 24;

/// Edge of the square of the layout.
const SIDE: f64 = 1000.0;

/// The part of a database's graph to be drawn.
#[derive(Clone, Debug)]
pub struct Drawing<'a> {
    /// The name of a property graph; `None` for the graph of `shoal cypher`.
    pub graph: Option<&'a str>,
    /// The node in the middle: `LABEL/KEY`, or a key of the first vertex table; an id in the graph
    /// of `shoal cypher`. `None` draws the first nodes.
    pub start: Option<&'a str>,
    /// Steps from the start at most, in either direction.
    pub depth: u32,
    /// Nodes at most.
    pub nodes: usize,
}

/// Draws the graph of a connection's database; says as words of a policy why nodes are missing.
///
/// # Errors
/// No such graph or node; errors of reading.
pub fn draw(connection: Connection, drawing: &Drawing<'_>) -> Result<(Picture, Option<String>)> {
    let (own, tables);
    let (graph, start): (&dyn Graph, Option<Option<i64>>) = match drawing.graph {
        Some(name) => {
            tables = TablesGraph::new(connection, name)?;
            let start = drawing.start.map(|start| tables.node_named(start)).transpose()?;
            (&tables, start)
        }
        None => {
            own = SqliteGraph::new(connection);
            (&own, drawing.start.map(|start| start.parse().ok()))
        }
    };
    let missing = || {
        let start = drawing.start.unwrap_or_default();
        Error::argument(format!("the graph has no node {start}"))
    };
    graph.begin(false)?;
    let (nodes, partial) = match start {
        None => {
            let mut nodes = Vec::new();
            graph.nodes(None, None, drawing.nodes.saturating_add(1), &mut nodes)?;
            let is_partial = nodes.len() > drawing.nodes;
            nodes.truncate(drawing.nodes);
            (nodes, is_partial.then(|| Partial::Nodes.word().to_owned()))
        }
        Some(start) => {
            let policy = Policy {
                outgoing: true,
                incoming: true,
                depth: Some(drawing.depth),
                nodes: Some(drawing.nodes),
                ..Policy::default()
            };
            let start = start.ok_or_else(missing)?;
            let found = traverse(graph, start, &policy, &|| false, &Unbounded)?;
            if found.visits.is_empty() {
                return Err(missing());
            }
            let nodes = found.visits.iter().map(|visit| visit.node).collect();
            (nodes, found.partial_words())
        }
    };
    let picture = Picture::of(graph, &nodes)?;
    graph.commit()?;
    Ok((picture, partial))
}

impl Picture {
    /// The picture of some nodes and the relationships between them; missing nodes are left out.
    ///
    /// # Errors
    /// The graph's.
    pub fn of(graph: &dyn Graph, nodes: &[i64]) -> Result<Picture> {
        let mut picture = Picture::default();
        let mut places = FxHashMap::default();
        for &id in nodes {
            let Some(node) = graph.node(id)? else { continue };
            places.insert(id, picture.nodes.len());
            let label = node.labels.first().map_or(String::new(), |label| label.to_string());
            let detail = crate::json::write(&node.properties);
            picture.nodes.push(Spot { name: name_of(id, &node.properties), label, detail });
        }
        let mut edges = Vec::new();
        for &id in nodes {
            let Some(&from) = places.get(&id) else { continue };
            edges.clear();
            graph.edges(id, Side::Outgoing, &[], &mut edges)?;
            for edge in &edges {
                let Some(&to) = places.get(&edge.other) else { continue };
                let kind =
                    graph.relationship(edge.id)?.map_or(String::new(), |it| it.kind.to_string());
                picture.edges.push((from, to, kind));
            }
        }
        Ok(picture)
    }

    /// The picture in the language of Graphviz.
    pub fn dot(&self) -> String {
        let mut text = String::from("digraph {\n  node [shape=box, style=rounded];\n");
        let quoted =
            |text: &str| format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""));
        for (at, spot) in self.nodes.iter().enumerate() {
            let shown = match spot.label.is_empty() {
                true => spot.name.clone(),
                false => format!("{}\n{}", spot.name, spot.label),
            };
            let shown = quoted(&shown).replace('\n', "\\n");
            let _ = writeln!(text, "  n{at} [label={shown}];");
        }
        for (from, to, kind) in &self.edges {
            let _ = writeln!(text, "  n{from} -> n{to} [label={}];", quoted(kind));
        }
        text.push_str("}\n");
        text
    }

    /// The picture as SVG: nodes push each other apart and relationships pull, always the same way.
    pub fn svg(&self) -> String {
        let places = self.layout();
        let (width, height) = (SIDE + 200.0, SIDE + 80.0);
        let mut text = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"-100 -40 {width} {height}\" \
             font-family=\"sans-serif\" font-size=\"13\">\n<defs><marker id=\"tip\" viewBox=\"0 0 8 8\" \
             refX=\"16\" refY=\"4\" markerWidth=\"8\" markerHeight=\"8\" orient=\"auto\">\
             <path d=\"M0 0L8 4L0 8z\" fill=\"#888\"/></marker></defs>\n"
        );
        for (from, to, kind) in &self.edges {
            let ((x1, y1), (x2, y2)) = (places[*from], places[*to]);
            let kind = escaped(kind);
            if from == to {
                let (x, y) = (x1 + 14.0, y1 - 14.0);
                let _ = writeln!(
                    text,
                    "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"14\" fill=\"none\" stroke=\"#888\">\
                     <title>{kind}</title></circle>"
                );
                continue;
            }
            let _ = writeln!(
                text,
                "<line x1=\"{x1:.1}\" y1=\"{y1:.1}\" x2=\"{x2:.1}\" y2=\"{y2:.1}\" stroke=\"#888\" \
                 marker-end=\"url(#tip)\"><title>{kind}</title></line>"
            );
            let (x, y) = (f64::midpoint(x1, x2), f64::midpoint(y1, y2));
            let _ = writeln!(
                text,
                "<text x=\"{x:.1}\" y=\"{y:.1}\" fill=\"#666\" font-size=\"10\">{kind}</text>"
            );
        }
        let mut labels: Vec<&str> = Vec::new();
        for (spot, (x, y)) in self.nodes.iter().zip(&places) {
            let known = labels.iter().position(|label| *label == spot.label);
            let number = known.unwrap_or_else(|| {
                labels.push(&spot.label);
                labels.len() - 1
            });
            let hue = number * 137 % 360;
            let _ = writeln!(
                text,
                "<g><title>{} {}</title><circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"9\" \
                 fill=\"hsl({hue},60%,60%)\" stroke=\"#333\"/><text x=\"{:.1}\" y=\"{:.1}\">{}</text></g>",
                escaped(&spot.label),
                escaped(&spot.detail),
                x + 12.0,
                y + 4.0,
                escaped(&spot.name)
            );
        }
        text.push_str("</svg>\n");
        text
    }

    /// A page with the picture and a table of its nodes, for a browser without a network.
    pub fn html(&self, title: &str) -> String {
        let title = escaped(title);
        let mut text = format!(
            "<!doctype html>\n<html lang=\"en\"><meta charset=\"utf-8\"><title>{title}</title>\n\
             <style>body{{font-family:sans-serif;margin:1em}}svg{{width:100%;max-height:90vh}}\
             td{{padding:0 1em 0 0;vertical-align:top}}</style>\n<h1>{title}</h1>\n{}<table>\n",
            self.svg()
        );
        for spot in &self.nodes {
            let _ = writeln!(
                text,
                "<tr><td>{}<td>{}<td><code>{}</code>",
                escaped(&spot.name),
                escaped(&spot.label),
                escaped(&spot.detail)
            );
        }
        text.push_str("</table></html>\n");
        text
    }

    /// Places of the nodes: from a circle, by forces weaker in every round.
    fn layout(&self) -> Vec<(f64, f64)> {
        let count = self.nodes.len();
        let half = SIDE / 2.0;
        let mut places: Vec<(f64, f64)> = (0..count)
            .map(|at| {
                let turn = at as f64 / count.max(1) as f64 * std::f64::consts::TAU;
                (half + half * turn.cos(), half + half * turn.sin())
            })
            .collect();
        let distance = SIDE / (count.max(1) as f64).sqrt();
        let rounds = 200;
        for round in 0..rounds {
            let mut moves = vec![(0.0, 0.0); count];
            let between = |a: usize, b: usize| {
                let (x, y) = (places[a].0 - places[b].0, places[a].1 - places[b].1);
                let length = x.hypot(y).max(0.01);
                (x / length, y / length, length)
            };
            for a in 0..count {
                for b in 0..a {
                    let (x, y, length) = between(a, b);
                    let force = distance * distance / length;
                    moves[a].0 += x * force;
                    moves[a].1 += y * force;
                    moves[b].0 -= x * force;
                    moves[b].1 -= y * force;
                }
            }
            for &(a, b, _) in self.edges.iter().filter(|edge| edge.0 != edge.1) {
                let (x, y, length) = between(a, b);
                let force = length * length / distance;
                moves[a].0 -= x * force;
                moves[a].1 -= y * force;
                moves[b].0 += x * force;
                moves[b].1 += y * force;
            }
            let most = SIDE / 10.0 * (1.0 - f64::from(round) / f64::from(rounds));
            for (place, by) in places.iter_mut().zip(&moves) {
                let length = by.0.hypot(by.1).max(0.01);
                let step = length.min(most) / length;
                place.0 = (place.0 + by.0 * step).clamp(0.0, SIDE);
                place.1 = (place.1 + by.1 * step).clamp(0.0, SIDE);
            }
        }
        places
    }
}

fn name_of(id: i64, properties: &Map) -> String {
    let found = NAMES.iter().find_map(|key| match properties.get(*key) {
        Some(Value::Text(text)) => Some(text.to_string()),
        Some(Value::Integer(number)) => Some(number.to_string()),
        _ => None,
    });
    let name = found.unwrap_or_else(|| format!("#{id}"));
    match name.chars().count() > NAME_MAX {
        true => name.chars().take(NAME_MAX).chain(['…']).collect(),
        false => name,
    }
}

/// A text within SVG and HTML. Letters unknown to XML become a mark.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\t' | '\n' => out.push(' '),
            letter if letter.is_control() || matches!(letter, '\u{fffe}' | '\u{ffff}') => {
                out.push('\u{fffd}');
            }
            letter => out.push(letter),
        }
    }
    out
}
