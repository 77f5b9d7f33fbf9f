//! Layouts of graphs by other programs, as mappings: `CREATE PROPERTY GRAPH g LAYOUT native`.

/// The rest of a definition, for the tables of a layout; `None` for a name of none.
pub(super) fn definition(layout: &str) -> Option<&'static str> {
    let known = LAYOUTS.iter().find(|(name, _)| name.eq_ignore_ascii_case(layout));
    known.map(|(_, definition)| *definition)
}

/// The names of the layouts, for a message.
pub(super) fn names() -> String {
    LAYOUTS.map(|(name, _)| name).join(", ")
}

const LAYOUTS: [(&str, &str); 3] = [
    (
        "native",
        "VERTEX TABLES (_concepts AS concept KEY (key))
         EDGE TABLES (_relations AS relation
           SOURCE KEY (source_key) REFERENCES concept (key)
           DESTINATION KEY (target_key) REFERENCES concept (key))",
    ),
    (
        "makerai",
        "VERTEX TABLES (Entity AS entity KEY (BarID))
         EDGE TABLES (Edge AS edge
           SOURCE KEY (OriginID) REFERENCES entity (BarID)
           DESTINATION KEY (TargetID) REFERENCES entity (BarID))",
    ),
    (
        "generic",
        "VERTEX TABLES (Nodes AS node KEY (Key))
         EDGE TABLES (Edges AS edge
           SOURCE KEY (Origin) REFERENCES node (Key)
           DESTINATION KEY (Target) REFERENCES node (Key))",
    ),
];
