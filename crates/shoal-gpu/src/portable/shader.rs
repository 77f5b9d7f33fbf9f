//! The programs of a device, put together after its features.

use std::fmt::Write as _;

/// Features of a device, for its programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Features {
    /// Integers of 64 bits.
    pub(super) wide: bool,
    /// Threads of a subgroup, where shuffles are to be used: a power of two from 4 on.
    pub(super) subgroup: Option<u32>,
    /// Buffers of the pool.
    pub(super) pools: u32,
}

/// The first binding of the pool's buffers.
pub(super) const FIRST_POOL: u32 = 6;

/// The source, in WGSL.
pub(super) fn source(features: Features) -> String {
    let word = if features.wide {
        include_str!("shader/word64.wgsl")
    } else {
        include_str!("shader/word32.wgsl")
    };
    let (turn, size) = match features.subgroup {
        Some(size) => (include_str!("shader/turn_subgroup.wgsl"), size),
        None => (include_str!("shader/turn_shared.wgsl"), 0),
    };
    let mut text = String::new();
    if features.subgroup.is_some() {
        writeln!(text, "const SUBGROUP: u32 = {size}u;").expect("text grows");
    }
    for part in [
        word,
        include_str!("shader/memory.wgsl"),
        &pools(features.pools),
        include_str!("shader/digest.wgsl"),
        include_str!("shader/fill.wgsl"),
        turn,
    ] {
        text.push_str(part);
    }
    text
}

/// The pool's buffers, and the functions to choose between them.
fn pools(count: u32) -> String {
    let mut text = String::new();
    for pool in 0..count {
        writeln!(
            text,
            "@group(0) @binding({}) var<storage, read_write> pool{pool}: array<vec4<u32>>;",
            FIRST_POOL + pool
        )
        .expect("text grows");
    }
    let mut choose = |head: &str, body: &dyn Fn(u32) -> String| {
        writeln!(text, "{head} {{\nswitch pool {{").expect("text grows");
        for pool in 1..count {
            writeln!(text, "case {pool}u: {{ {} }}", body(pool)).expect("text grows");
        }
        writeln!(text, "default: {{ {} }}\n}}\n}}", body(0)).expect("text grows");
    };
    choose("fn pool_read(pool: u32, quad: u32) -> vec4<u32>", &|pool| {
        format!("return pool{pool}[quad];")
    });
    choose("fn pool_write(pool: u32, quad: u32, value: vec4<u32>)", &|pool| {
        format!("pool{pool}[quad] = value;")
    });
    choose("fn pool_write_half(pool: u32, quad: u32, half: u32, value: vec2<u32>)", &|pool| {
        format!(
            "if half == 0u {{ pool{pool}[quad].x = value.x; pool{pool}[quad].y = value.y; }} \
                 else {{ pool{pool}[quad].z = value.x; pool{pool}[quad].w = value.y; }}"
        )
    });
    text
}
