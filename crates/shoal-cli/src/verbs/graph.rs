//! `shoal graph`: a graph of a database as a picture.

use std::io::Write;

use shoal_graph::{Drawing, draw};
use shoal_store::Access;

use crate::args::graph::GraphArgs;
use crate::failure::Failure;
use crate::open;
use crate::out;

pub(crate) fn run(args: &GraphArgs) -> Result<(), Failure> {
    let connection = open::connection(&args.file, Access::ReadOnly)?;
    let drawing = Drawing {
        graph: args.graph.as_deref(),
        start: args.around.as_deref(),
        depth: args.depth,
        nodes: usize::try_from(args.nodes).unwrap_or(usize::MAX),
    };
    let (picture, partial) =
        draw(connection, &drawing).map_err(|error| Failure::at(args.file.display(), error))?;
    let text = if args.svg {
        picture.svg()
    } else if args.html {
        picture.html(args.graph.as_deref().unwrap_or("graph"))
    } else {
        picture.dot()
    };
    let mut out = out::stdout();
    out.write_all(text.as_bytes())?;
    out.flush()?;
    if let Some(partial) = partial {
        out::note(format_args!("there is more of the graph, past the bounds of {partial}"));
    }
    Ok(())
}
