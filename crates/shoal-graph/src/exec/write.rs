//! Writing clauses: `CREATE`, `MERGE`, `SET`, `REMOVE`, `DELETE`.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::ast::*;
use crate::error::{Error, ErrorClass, Result};
use crate::graph::{NodeData, RelationshipData, Side};
use crate::matcher::plan;
use crate::run::{Env, Run};
use crate::value::{Map, Value};

/// Applies a clause to all rows; gives the rows for the next.
pub(super) fn apply(
    run: &Run<'_>,
    clause: &Clause,
    rows: Vec<Vec<Value>>,
) -> Result<Vec<Vec<Value>>> {
    match clause {
        Clause::Create { patterns, width, .. } => create(run, patterns, *width, rows),
        Clause::Merge(merge) => merge_rows(run, merge, rows),
        Clause::Set { items, .. } => {
            for row in &rows {
                set_items(run, items, row)?;
            }
            Ok(rows)
        }
        Clause::Remove { items, .. } => {
            for row in &rows {
                for item in items {
                    remove_item(run, item, row)?;
                }
            }
            Ok(rows)
        }
        Clause::Delete { detach, items, .. } => {
            delete(run, *detach, items, &rows)?;
            Ok(rows)
        }
        _ => unreachable!("a clause that writes"),
    }
}

fn create(
    run: &Run<'_>,
    patterns: &[PathPattern],
    width: usize,
    mut rows: Vec<Vec<Value>>,
) -> Result<Vec<Vec<Value>>> {
    for row in &mut rows {
        run.tick()?;
        row.resize(width, Value::Null);
        for pattern in patterns {
            create_path(run, pattern, row, false)?;
        }
    }
    Ok(rows)
}

/// Creates the missing elements of a path and writes their ids into the row.
fn create_path(
    run: &Run<'_>,
    pattern: &PathPattern,
    row: &mut [Value],
    merges: bool,
) -> Result<()> {
    let mut made = Vec::new();
    let mut left = create_node(run, &pattern.start, row, merges, &mut made)?;
    for (relationship, node) in &pattern.steps {
        let right = create_node(run, node, row, merges, &mut made)?;
        let (source, target) = match relationship.direction {
            Direction::Left => (right, left),
            _ => (left, right),
        };
        let Some(LabelExpr::Name(kind)) = &relationship.types else {
            unreachable!("the binder asks for one type")
        };
        let properties = properties_of(run, &relationship.properties, row, merges)?;
        for end in [source, target] {
            run.node(end)?;
        }
        let kind = Arc::from(kind.as_str());
        let id =
            run.graph.create_relationship(RelationshipData { source, target, kind, properties })?;
        row[relationship.slot] = Value::Relationship(id);
        left = right;
    }
    if let Some(var) = &pattern.var {
        row[var.slot] = run.path_of(pattern, row)?;
    }
    Ok(())
}

fn create_node(
    run: &Run<'_>,
    node: &NodePattern,
    row: &mut [Value],
    merges: bool,
    made: &mut Vec<usize>,
) -> Result<i64> {
    if node.is_bound || made.contains(&node.slot) {
        return match &row[node.slot] {
            Value::Node(id) => Ok(*id),
            other => {
                let name = node.var.as_ref().map_or("", |var| &var.name);
                let message =
                    format!("a relationship ends at nodes, and {name} is {}", other.type_name());
                Err(Error::runtime(ErrorClass::TypeError, "InvalidArgumentType", message))
            }
        };
    }
    let mut labels: Vec<Arc<str>> = Vec::new();
    if let Some(names) = node.labels.as_ref().and_then(LabelExpr::conjunction) {
        labels = names.into_iter().map(Arc::from).collect();
        labels.sort();
        labels.dedup();
    }
    let properties = properties_of(run, &node.properties, row, merges)?;
    let id = run.graph.create_node(NodeData { labels, properties })?;
    row[node.slot] = Value::Node(id);
    made.push(node.slot);
    Ok(id)
}

/// The properties of a new element; nulls are left out.
fn properties_of(run: &Run<'_>, map: &Option<Expr>, row: &[Value], merges: bool) -> Result<Map> {
    let Some(map) = map else { return Ok(Map::new()) };
    let value = run.eval(map, &mut Env::of(row))?;
    let Value::Map(map) = value else {
        let message = format!("properties are a map, not {}", value.type_name());
        return Err(Error::runtime(ErrorClass::TypeError, "InvalidArgumentType", message));
    };
    let mut kept = Map::new();
    for (key, value) in map.iter() {
        if value.is_null() && merges {
            let message = format!("MERGE cannot match {key}: null, which is equal to nothing");
            return Err(Error::runtime(ErrorClass::SemanticError, "MergeReadOwnWrites", message));
        }
        put(&mut kept, key.clone(), value.clone())?;
    }
    Ok(kept)
}

/// Puts a property into a map; null removes the property.
fn put(map: &mut Map, key: Arc<str>, value: Value) -> Result<()> {
    let is_scalar = |value: &Value| {
        matches!(
            value,
            Value::Boolean(_)
                | Value::Integer(_)
                | Value::Float(_)
                | Value::Text(_)
                | Value::Date(_)
                | Value::LocalTime(_)
                | Value::Time(_)
                | Value::LocalDateTime(_)
                | Value::DateTime(_)
                | Value::Duration(_)
        )
    };
    let refused = match &value {
        Value::Null => {
            map.remove(&key);
            return Ok(());
        }
        Value::List(list) => list.iter().find(|value| !is_scalar(value)),
        value if is_scalar(value) => None,
        value => Some(value),
    };
    if let Some(refused) = refused {
        let message = format!("the property {key} cannot hold {}", refused.type_name());
        return Err(Error::runtime(ErrorClass::TypeError, "InvalidPropertyType", message));
    }
    map.insert(key, value);
    Ok(())
}

fn merge_rows(run: &Run<'_>, merge: &Merge, rows: Vec<Vec<Value>>) -> Result<Vec<Vec<Value>>> {
    let found = Match {
        optional: false,
        patterns: vec![merge.pattern.clone()],
        filter: None,
        pos: merge.pos,
        before: merge.before,
        after: merge.after,
    };
    let mut result = Vec::with_capacity(rows.len());
    let plan = plan::plan(&found, run.graph)?;
    for mut row in rows {
        run.tick()?;
        refuse_nulls(run, &merge.pattern, &row)?;
        let mut matched = Vec::new();
        run.match_rows(&found, &plan, &mut row, (&[], &[]), &mut |run, row| {
            run.keep_row(row)?;
            matched.push(row.clone());
            Ok(true)
        })?;
        if matched.is_empty() {
            row.resize(merge.after, Value::Null);
            create_path(run, &merge.pattern, &mut row, true)?;
            set_items(run, &merge.on_create, &row)?;
            matched.push(row);
        } else {
            for row in &matched {
                set_items(run, &merge.on_match, row)?;
            }
        }
        result.append(&mut matched);
    }
    Ok(result)
}

fn refuse_nulls(run: &Run<'_>, pattern: &PathPattern, row: &[Value]) -> Result<()> {
    let steps = pattern.steps.iter();
    let maps = steps.flat_map(|(one, node)| [&one.properties, &node.properties]);
    for map in std::iter::once(&pattern.start.properties).chain(maps) {
        properties_of(run, map, row, true)?;
    }
    let nodes = std::iter::once(&pattern.start).chain(pattern.steps.iter().map(|(_, node)| node));
    for node in nodes.filter(|node| node.is_bound) {
        if !matches!(row[node.slot], Value::Node(_)) {
            let name = node.var.as_ref().map_or("", |var| &var.name);
            let message =
                format!("MERGE needs a node, and {name} is {}", row[node.slot].type_name());
            return Err(Error::runtime(ErrorClass::TypeError, "InvalidArgumentType", message));
        }
    }
    Ok(())
}

/// A node or relationship under change.
enum Element {
    Node(i64),
    Relationship(i64),
}

fn element(run: &Run<'_>, target: &Expr, row: &[Value]) -> Result<Option<Element>> {
    match run.eval(target, &mut Env::of(row))? {
        Value::Null => Ok(None),
        Value::Node(id) => Ok(Some(Element::Node(id))),
        Value::Relationship(id) => Ok(Some(Element::Relationship(id))),
        other => {
            let message =
                format!("only nodes and relationships are changed, not {}", other.type_name());
            Err(Error::runtime(ErrorClass::TypeError, "InvalidArgumentType", message))
        }
    }
}

fn change(
    run: &Run<'_>,
    element: &Element,
    change: impl FnOnce(&mut Map) -> Result<()>,
) -> Result<()> {
    match element {
        Element::Node(id) => {
            let mut data = (*run.node(*id)?).clone();
            change(&mut data.properties)?;
            run.graph.set_node(*id, data)
        }
        Element::Relationship(id) => {
            let mut properties = run.relationship(*id)?.properties.clone();
            change(&mut properties)?;
            run.graph.set_relationship(*id, properties)
        }
    }
}

fn change_labels(
    run: &Run<'_>,
    element: &Element,
    change: impl FnOnce(&mut BTreeSet<Arc<str>>),
) -> Result<()> {
    let Element::Node(id) = element else {
        let message = "a relationship has one type for ever, and no labels";
        return Err(Error::runtime(ErrorClass::TypeError, "InvalidArgumentType", message));
    };
    let data = run.node(*id)?;
    let mut labels: BTreeSet<Arc<str>> = data.labels.iter().cloned().collect();
    change(&mut labels);
    let labels = labels.into_iter().collect();
    run.graph.set_node(*id, NodeData { labels, properties: data.properties.clone() })
}

fn set_items(run: &Run<'_>, items: &[SetItem], row: &[Value]) -> Result<()> {
    for item in items {
        run.tick()?;
        match item {
            SetItem::Property { target, key, value } => {
                let Some(element) = element(run, target, row)? else { continue };
                let value = run.eval(value, &mut Env::of(row))?;
                change(run, &element, |map| put(map, Arc::from(key.as_str()), value))?;
            }
            SetItem::All { target, value, adds } => {
                let Some(element) = element(run, target, row)? else { continue };
                let value = run.eval(value, &mut Env::of(row))?;
                if value.is_null() {
                    continue;
                }
                let new = run.properties(&value)?;
                change(run, &element, |map| {
                    if !adds {
                        map.clear();
                    }
                    new.into_iter().try_for_each(|(key, value)| put(map, key, value))
                })?;
            }
            SetItem::Labels { target, labels } => {
                let Some(element) = element(run, target, row)? else { continue };
                change_labels(run, &element, |set| {
                    set.extend(labels.iter().map(|label| Arc::from(label.as_str())));
                })?;
            }
        }
    }
    Ok(())
}

fn remove_item(run: &Run<'_>, item: &RemoveItem, row: &[Value]) -> Result<()> {
    match item {
        RemoveItem::Property { target, key } => {
            let Some(element) = element(run, target, row)? else { return Ok(()) };
            change(run, &element, |map| {
                map.remove(key.as_str());
                Ok(())
            })
        }
        RemoveItem::Labels { target, labels } => {
            let Some(element) = element(run, target, row)? else { return Ok(()) };
            change_labels(run, &element, |set| {
                set.retain(|label| !labels.iter().any(|one| **one == **label))
            })
        }
    }
}

fn delete(run: &Run<'_>, detach: bool, items: &[Expr], rows: &[Vec<Value>]) -> Result<()> {
    let (mut nodes, mut relationships) = (BTreeSet::new(), BTreeSet::new());
    for row in rows {
        for item in items {
            match run.eval(item, &mut Env::of(row))? {
                Value::Null => {}
                Value::Node(id) => {
                    nodes.insert(id);
                }
                Value::Relationship(id) => {
                    relationships.insert(id);
                }
                Value::Path(path) => {
                    nodes.extend(&path.nodes);
                    relationships.extend(&path.relationships);
                }
                other => {
                    let message = format!(
                        "DELETE takes nodes, relationships and paths, not {}",
                        other.type_name()
                    );
                    return Err(Error::runtime(
                        ErrorClass::TypeError,
                        "InvalidArgumentType",
                        message,
                    ));
                }
            }
        }
    }
    let edges_of = |node: i64| {
        let mut edges = Vec::new();
        run.graph.edges(node, Side::Outgoing, &[], &mut edges)?;
        run.graph.edges(node, Side::Incoming, &[], &mut edges)?;
        Ok(edges)
    };
    if detach {
        for &node in &nodes {
            relationships.extend(edges_of(node)?.into_iter().map(|edge| edge.id));
        }
    }
    for id in relationships {
        run.tick()?;
        if let Some(data) = run.graph.relationship(id)? {
            run.dead_relationships.borrow_mut().insert(id, data);
            run.graph.delete_relationship(id)?;
        }
    }
    for id in nodes {
        run.tick()?;
        let Some(data) = run.graph.node(id)? else { continue };
        if !edges_of(id)?.is_empty() {
            let message = "a node with relationships is deleted with them, by DETACH DELETE";
            let class = ErrorClass::ConstraintVerificationFailed;
            return Err(Error::runtime(class, "DeleteConnectedNode", message));
        }
        run.dead_nodes.borrow_mut().insert(id, data);
        run.graph.delete_node(id)?;
    }
    Ok(())
}
