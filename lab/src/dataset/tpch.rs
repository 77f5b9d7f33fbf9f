//! TPC-H's eight tables, made by its own rules: the same rows for everyone at one scale.

use std::path::{Path, PathBuf};

#[cfg(feature = "workshop")]
use crate::engine::table::{Access, TableSpec};
use crate::engine::{Miss, TableEngine};
use crate::workload::{Context, Scale};

/// The environment variable naming another scale of a full run, in thousandths: 1000 for scale 1.
pub(crate) const SCALE: &str = "SHOAL_TPCH_SCALE";

/// The scale in thousandths: 1,200,000 lines, or enough to show every query working. Below a
/// hundred suppliers TPC-H's own rule gives a part the same supplier twice.
fn thousandths(scale: Scale) -> u64 {
    let named = || std::env::var(SCALE).ok()?.parse().ok();
    match scale {
        Scale::Full => named().unwrap_or(200),
        Scale::Quick => 10,
    }
}

/// Indexes and statistics beside the tables, for planners.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Variant {
    /// The schema's indexes, and statistics.
    Indexed,
    /// Keys alone, and statistics.
    Keys,
    /// The schema's indexes, without statistics.
    Unanalyzed,
}

impl Variant {
    pub(crate) const ALL: [Variant; 3] = [Variant::Indexed, Variant::Keys, Variant::Unanalyzed];

    /// The part of the rows' names.
    pub(crate) const fn part(self) -> &'static str {
        match self {
            Variant::Indexed => "tpch/",
            Variant::Keys => "tpch/keys/",
            Variant::Unanalyzed => "tpch/unanalyzed/",
        }
    }

    /// As a part of a sentence.
    pub(crate) const fn words(self) -> &'static str {
        match self {
            Variant::Indexed => "with indexes and statistics",
            Variant::Keys => "with keys alone, and statistics",
            Variant::Unanalyzed => "with indexes, without statistics",
        }
    }

    /// The variant of a row's tables, by the row's id; `None` for rows on other data.
    pub(crate) fn of_row(id: &str) -> Option<Variant> {
        let name = id.strip_prefix("table/")?;
        // The first one's part begins the others'.
        Variant::ALL.into_iter().rev().find(|variant| name.starts_with(variant.part()))
    }

    const fn file(self) -> &'static str {
        match self {
            Variant::Indexed => "",
            Variant::Keys => "-keys",
            Variant::Unanalyzed => "-unanalyzed",
        }
    }
}

/// Rows of all tables, about.
pub(crate) fn rows(scale: Scale) -> u64 {
    8_660 * thousandths(scale)
}

/// Where the database lies, and where the one without statistics does: plans differ between the
/// two, and not every engine has `ANALYZE`.
fn paths(cache: &Path, scale: Scale, variant: Variant) -> [PathBuf; 2] {
    let name = format!("tpch-{}{}", thousandths(scale), variant.file());
    [cache.join(format!("{name}.db")), cache.join(format!("{name}-without-statistics.db"))]
}

/// The database made or found by this run.
pub(crate) fn found(cx: &Context, variant: Variant) -> Option<PathBuf> {
    paths(&cx.cache, cx.scale, variant).into_iter().find(|path| path.exists())
}

/// A table: its columns, and a letter for each: integer, real or text.
#[cfg(feature = "workshop")]
struct Table {
    spec: TableSpec,
    kinds: &'static str,
}

#[cfg(feature = "workshop")]
const fn table(name: &'static str, columns: &'static [&'static str], kinds: &'static str) -> Table {
    Table { spec: TableSpec { name, create: "", columns }, kinds }
}

/// The tables, in an order without references to rows of later tables.
#[cfg(feature = "workshop")]
const TABLES: [Table; 8] = [
    table("region", &["r_regionkey", "r_name", "r_comment"], "itt"),
    table("nation", &["n_nationkey", "n_name", "n_regionkey", "n_comment"], "itit"),
    table(
        "part",
        &[
            "p_partkey",
            "p_name",
            "p_mfgr",
            "p_brand",
            "p_type",
            "p_size",
            "p_container",
            "p_retailprice",
            "p_comment",
        ],
        "ittttitrt",
    ),
    table(
        "supplier",
        &["s_suppkey", "s_name", "s_address", "s_nationkey", "s_phone", "s_acctbal", "s_comment"],
        "ittitrt",
    ),
    table(
        "partsupp",
        &["ps_partkey", "ps_suppkey", "ps_availqty", "ps_supplycost", "ps_comment"],
        "iiirt",
    ),
    table(
        "customer",
        &[
            "c_custkey",
            "c_name",
            "c_address",
            "c_nationkey",
            "c_phone",
            "c_acctbal",
            "c_mktsegment",
            "c_comment",
        ],
        "ittitrtt",
    ),
    table(
        "orders",
        &[
            "o_orderkey",
            "o_custkey",
            "o_orderstatus",
            "o_totalprice",
            "o_orderdate",
            "o_orderpriority",
            "o_clerk",
            "o_shippriority",
            "o_comment",
        ],
        "iitrtttit",
    ),
    table(
        "lineitem",
        &[
            "l_orderkey",
            "l_partkey",
            "l_suppkey",
            "l_linenumber",
            "l_quantity",
            "l_extendedprice",
            "l_discount",
            "l_tax",
            "l_returnflag",
            "l_linestatus",
            "l_shipdate",
            "l_commitdate",
            "l_receiptdate",
            "l_shipinstruct",
            "l_shipmode",
            "l_comment",
        ],
        "iiiiirrrtttttttt",
    ),
];

/// Makes the database unless one of the two is there.
#[cfg(feature = "workshop")]
pub(crate) fn generate<E: TableEngine>(
    engine: &E,
    cx: &Context,
    variant: Variant,
    progress: &mut dyn FnMut(u64),
) -> Result<(), Miss> {
    if found(cx, variant).is_some() {
        return Ok(());
    }
    let [analyzed, plain] = paths(&cx.cache, cx.scale, variant);
    let making = super::making(&analyzed)?;
    let schema = std::fs::read_to_string(cx.corpus("tpch/schema.sql")?).map_err(Miss::failed)?;
    let mut db = engine.open(&making, Access::Write, &cx.cache)?;
    let mut statements = schema.split_inclusive(';').filter(|sql| !sql.trim().is_empty());
    // Indexes and the view come behind the rows: an index built at once is a compact one.
    let rest = loop {
        match statements.next() {
            Some(sql) if sql.trim_start().starts_with("CREATE TABLE") => {
                engine.execute(&mut db, sql)?;
            }
            Some(sql) => break std::iter::once(sql).chain(statements),
            None => return Err(Miss::Failed("the schema of TPC-H has no indexes".into())),
        }
    };
    let mut done = 0;
    for (table, lines) in TABLES.iter().zip(lines(thousandths(cx.scale) as f64 / 1_000.0)) {
        insert(engine, &mut db, table, lines, &mut |rows| {
            done += rows;
            progress(done);
        })?;
    }
    for sql in rest {
        let is_index = sql.trim_start().starts_with("CREATE INDEX");
        if !(is_index && variant == Variant::Keys) {
            engine.execute(&mut db, sql)?;
        }
    }
    let analysed = match variant {
        Variant::Unanalyzed => Ok(()),
        _ => engine.execute(&mut db, "ANALYZE"),
    };
    let path = match analysed {
        Ok(()) => analyzed,
        Err(Miss::NotRun(_)) => plain,
        Err(failed) => return Err(failed),
    };
    drop(db);
    std::fs::rename(&making, path).map_err(Miss::failed)
}

/// Without the generator only the database of an earlier run can be used.
#[cfg(not(feature = "workshop"))]
pub(crate) fn generate<E: TableEngine>(
    _engine: &E,
    cx: &Context,
    variant: Variant,
    _progress: &mut dyn FnMut(u64),
) -> Result<(), Miss> {
    if found(cx, variant).is_some() {
        return Ok(());
    }
    Err(Miss::NotRun("this build has no generator of TPC-H: run the lab of a checkout".into()))
}

/// The rows of each table in the order of [`TABLES`], as TPC-H's text form: values between bars.
#[cfg(feature = "workshop")]
fn lines(scale: f64) -> [Box<dyn Iterator<Item = String>>; 8] {
    use tpchgen::generators::{
        CustomerGenerator, LineItemGenerator, NationGenerator, OrderGenerator, PartGenerator,
        PartSuppGenerator, RegionGenerator, SupplierGenerator,
    };
    [
        Box::new(RegionGenerator::new(scale, 1, 1).iter().map(|row| row.to_string())),
        Box::new(NationGenerator::new(scale, 1, 1).iter().map(|row| row.to_string())),
        Box::new(PartGenerator::new(scale, 1, 1).iter().map(|row| row.to_string())),
        Box::new(SupplierGenerator::new(scale, 1, 1).iter().map(|row| row.to_string())),
        Box::new(PartSuppGenerator::new(scale, 1, 1).iter().map(|row| row.to_string())),
        Box::new(CustomerGenerator::new(scale, 1, 1).iter().map(|row| row.to_string())),
        Box::new(OrderGenerator::new(scale, 1, 1).iter().map(|row| row.to_string())),
        Box::new(LineItemGenerator::new(scale, 1, 1).iter().map(|row| row.to_string())),
    ]
}

/// Inserts rows 50,000 at a time; `tell` hears how many each time.
#[cfg(feature = "workshop")]
fn insert<E: TableEngine>(
    engine: &E,
    db: &mut E::Db,
    table: &Table,
    mut lines: Box<dyn Iterator<Item = String>>,
    tell: &mut dyn FnMut(u64),
) -> Result<(), Miss> {
    loop {
        let chunk: Vec<String> = lines.by_ref().take(50_000).collect();
        if chunk.is_empty() {
            return Ok(());
        }
        let rows: Result<Vec<_>, Miss> = chunk.iter().map(|line| cells(line, table)).collect();
        engine.insert(db, &table.spec, &rows?)?;
        tell(chunk.len() as u64);
    }
}

/// The values of one row; a decimal without a fraction becomes an integer where the affinity of the
/// schema's column says so.
#[cfg(feature = "workshop")]
fn cells<'a>(line: &'a str, table: &Table) -> Result<Vec<crate::engine::table::Cell<'a>>, Miss> {
    use crate::engine::table::Cell;
    let values = line.trim_end_matches('|').split('|');
    let cells: Option<Vec<Cell<'a>>> = values
        .zip(table.kinds.bytes())
        .map(|(value, kind)| match kind {
            b'i' => value.parse().ok().map(Cell::Int),
            b'r' => value.parse().ok().map(Cell::Real),
            _ => Some(Cell::Text(value.as_bytes())),
        })
        .collect();
    cells
        .filter(|cells| cells.len() == table.spec.columns.len())
        .ok_or_else(|| Miss::Failed(format!("not a row of {}: {line}", table.spec.name)))
}

#[cfg(all(test, feature = "workshop"))]
mod tests {
    use super::*;

    #[test]
    fn rows_tell_the_variant_of_their_tables() {
        for variant in Variant::ALL {
            let id = format!("table/{}q01", variant.part());
            assert_eq!(Variant::of_row(&id), Some(variant));
        }
        assert_eq!(Variant::of_row("table/tpch/everyday/case"), Some(Variant::Indexed));
        assert_eq!(Variant::of_row("table/chinook/bosses"), None);
    }

    #[test]
    fn every_table_has_rows_of_its_columns_and_the_same_ones_each_time() {
        for (index, table) in TABLES.iter().enumerate() {
            assert_eq!(table.kinds.len(), table.spec.columns.len(), "{}", table.spec.name);
            let first = |_| lines(0.001).into_iter().nth(index).unwrap().take(20).collect();
            let [one, other]: [Vec<String>; 2] = [0, 1].map(first);
            assert!(!one.is_empty() && one == other, "{}", table.spec.name);
            for line in &one {
                cells(line, table).unwrap();
            }
        }
    }
}
