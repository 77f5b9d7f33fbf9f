//! Sharc's graph: 5,000 nodes and 15,000 edges in two tables with four indexes.

use std::sync::Arc;

use super::query::{self, Parameter, Query};
use super::{open, row};
use crate::answer::{Answer, Digest, touch};
use crate::engine::TableEngine;
use crate::engine::table::{Cell, Fields};
use crate::workload::{Bench, sampler};

pub(super) fn add<E: TableEngine>(bench: &mut Bench<E>) {
    for (name, text, query, times) in statements() {
        bench.add(row(name, "query", text), move |engine, cx| {
            query::prepare(engine, cx, cx.corpus("sharc/graph.db")?, &query, cx.pick(times, 2))
        });
    }
    batch_seek(bench);
    two_hops(bench);
}

fn statements() -> Vec<(&'static str, &'static str, Query, usize)> {
    const NODE: &str = "SELECT id, key, type_id, data FROM _concepts WHERE key = ?1";
    vec![
        (
            "graph_node_seek",
            "a node by key, a random one of 5,000; all read",
            Query::new(NODE, 4).bound(Parameter::Random(5_000)),
            5_000,
        ),
        (
            "graph_node_seek_2500",
            "node 2500, always the same; its id read",
            Query::new(NODE, 4).bound(Parameter::Int(2_500)).reading(1).giving(1),
            5_000,
        ),
        (
            "graph_scan_edges",
            "kind of all 15,000 edges, read",
            Query::new("SELECT kind FROM _relations", 1).giving(15_000),
            20,
        ),
        (
            "graph_tally_edges",
            "the edges counted by kind, the engine counting",
            Query::new("SELECT kind, count(*) FROM _relations GROUP BY kind", 2),
            20,
        ),
        (
            "graph_scan_nodes",
            "id, key, type_id, data of all nodes, read",
            Query::new("SELECT id, key, type_id, data FROM _concepts", 4).giving(5_000),
            20,
        ),
        (
            "graph_scan_types",
            "id, type_id of all nodes, read",
            Query::new("SELECT id, type_id FROM _concepts", 2).giving(5_000),
            20,
        ),
        (
            "graph_edges_into",
            "edges into a node (?1 = 500), through the index",
            Query::new("SELECT source_key, kind FROM _relations WHERE target_key = ?1", 2)
                .bound(Parameter::Int(500))
                .giving(3),
            5_000,
        ),
        (
            "graph_edges_of_kind",
            "edges WHERE kind = ?1 (15), no index",
            Query::new("SELECT source_key, target_key FROM _relations WHERE kind = ?1", 2)
                .bound(Parameter::Int(15))
                .giving(1_500),
            20,
        ),
        (
            "graph_sum",
            "SELECT sum(source_key) FROM _relations",
            Query::new("SELECT sum(source_key) FROM _relations", 1),
            20,
        ),
    ]
}

fn batch_seek<E: TableEngine>(bench: &mut Bench<E>) {
    let text = "six nodes by key (1, 50, 500, 1000, 2500, 4999), type_id summed";
    bench.add(row("graph_batch_seek", "batch", text), |engine, cx| {
        let engine = Arc::clone(engine);
        let path = cx.corpus("sharc/graph.db")?;
        let mut db = open(&*engine, &path, cx)?;
        let sql = "SELECT type_id FROM _concepts WHERE key = ?1";
        let mut statement = engine.prepare(&mut db, sql)?;
        let times = cx.pick(2_000, 2);
        sampler(move |watch| {
            let sum = watch.time(times as u64, || {
                let mut sum = 0_u64;
                for _ in 0..times {
                    for key in [1, 50, 500, 1_000, 2_500, 4_999] {
                        engine.query(&mut db, &mut statement, &[Cell::Int(key)], |row| {
                            sum += touch(row.cell(0));
                        })?;
                    }
                }
                Ok(sum)
            })?;
            Ok(Some(Answer::of(Digest::new().int(sum))))
        })
    });
}

fn two_hops<E: TableEngine>(bench: &mut Bench<E>) {
    let text = "nodes within two hops of a random node, breadth first, one prepared statement run \
                per node";
    bench.add(row("graph_two_hops", "walk", text), |engine, cx| {
        let engine = Arc::clone(engine);
        let path = cx.corpus("sharc/graph.db")?;
        let mut db = open(&*engine, &path, cx)?;
        let sql = "SELECT target_key FROM _relations WHERE source_key = ?1";
        let mut statement = engine.prepare(&mut db, sql)?;
        let starts = query::rowids(cx.seed, 5_000, query::RANDOM_KEYS);
        let times = cx.pick(1_000, 2);
        sampler(move |watch| {
            let sum = watch.time(times as u64, || {
                let mut sum = 0_u64;
                let (mut edge, mut next) = (Vec::new(), Vec::new());
                for time in 0..times {
                    edge.clear();
                    edge.push(starts[time % starts.len()]);
                    for _ in 0..2 {
                        next.clear();
                        for &node in &edge {
                            engine.query(&mut db, &mut statement, &[Cell::Int(node)], |row| {
                                if let Cell::Int(target) = row.cell(0) {
                                    next.push(target);
                                    sum = sum.wrapping_add(target.cast_unsigned());
                                }
                            })?;
                        }
                        std::mem::swap(&mut edge, &mut next);
                    }
                }
                Ok(sum)
            })?;
            Ok(Some(Answer::of(Digest::new().int(sum))))
        })
    });
}
