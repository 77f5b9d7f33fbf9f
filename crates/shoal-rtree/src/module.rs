//! The modules `rtree` and `rtree_i32`.

use std::sync::Arc;

use shoal_sql::{
    Definition, Error, Schema, ShadowTable, TableModule, TableWrites, ValueRef, VirtualTable,
};

use crate::node::Coordinates;
use crate::shape::{Shape, quoted};
use crate::table::RTree;

/// A module by its name and the kind of its coordinates.
#[derive(Debug)]
pub(crate) struct RTreeModule {
    name: &'static str,
    kind: Coordinates,
}

impl RTreeModule {
    pub(crate) fn new(name: &'static str, kind: Coordinates) -> RTreeModule {
        RTreeModule { name, kind }
    }
}

impl TableModule for RTreeModule {
    fn name(&self) -> &str {
        self.name
    }

    fn create(
        &self,
        definition: &Definition<'_>,
        writes: &mut TableWrites<'_>,
    ) -> Result<(), Error> {
        let shape = Shape::new(definition.name, self.kind, definition.arguments)?;
        let [rowid, node, parent] =
            ["rowid", "node", "parent"].map(|part| quoted(&shape.shadow(part)));
        let auxiliary: String = (0..shape.auxiliary).map(|place| format!(",a{place}")).collect();
        let columns = format!("rowid INTEGER PRIMARY KEY,nodeno{auxiliary}");
        writes.execute(&format!("CREATE TABLE {rowid}({columns})"), &[])?;
        let sql = format!("CREATE TABLE {node}(nodeno INTEGER PRIMARY KEY,data)");
        writes.execute(&sql, &[])?;
        let sql = format!("CREATE TABLE {parent}(nodeno INTEGER PRIMARY KEY,parentnode)");
        writes.execute(&sql, &[])?;
        let root = vec![0; shape.node_bytes(writes.page_size())];
        let nodes = ShadowTable::of(writes.reads().schema(), &shape.shadow("node"))?;
        writes.insert(&nodes, 1, &[ValueRef::Null, ValueRef::Blob(&root)])
    }

    fn connect(
        &self,
        definition: &Definition<'_>,
        schema: &Schema,
    ) -> Result<Arc<dyn VirtualTable>, Error> {
        let shape = Shape::new(definition.name, self.kind, definition.arguments)?;
        Ok(Arc::new(RTree::open(shape, schema)?))
    }

    fn is_shadow(&self, suffix: &str) -> bool {
        ["node", "parent", "rowid"].iter().any(|part| part.eq_ignore_ascii_case(suffix))
    }
}
