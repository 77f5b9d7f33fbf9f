//! The scan of a table as a plan of DataFusion: partitions, each a statement on a thread.

use std::fmt;
use std::sync::Arc;

use datafusion::arrow::datatypes::{Schema, SchemaRef};
use datafusion::arrow::record_batch::{RecordBatch, RecordBatchOptions};
use datafusion::common::stats::Precision;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{ColumnStatistics, Statistics};
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::{EquivalenceProperties, Partitioning, PhysicalExpr};
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType};
use datafusion::physical_plan::metrics::{BaselineMetrics, ExecutionPlanMetricsSet, MetricsSet};
use datafusion::physical_plan::statistics::StatisticsArgs;
use datafusion::physical_plan::stream::RecordBatchReceiverStream;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties, ReplaceChildrenOptions,
};
use datafusion::scalar::ScalarValue;
use shoal_arrow::{BatchBuilder, Fit};
use shoal_sql::{Connection, Value, ValueRef};
use tokio::sync::mpsc::Sender;

use crate::condition::Condition;
use crate::database::{Reader, Snapshot};
use crate::error::Error;
use crate::ranges::{self, Range};
use crate::table::{Shape, check, quoted};

/// Batches that wait for DataFusion in each partition.
const WAITING: usize = 2;
/// Fewer possible rows are read by one partition, and counted for the statistics.
const SMALL: u64 = 20_000;
/// Steps of a statement between two looks at whether anybody still wants its rows.
const STEPS: u64 = 50;
/// Rowids spread wider than this say nothing about the number of rows.
const WIDEST: u64 = 1 << 40;

/// A scan as asked for.
pub(crate) struct Scan {
    pub(crate) shape: Arc<Shape>,
    pub(crate) projection: Vec<usize>,
    pub(crate) conditions: Vec<Condition>,
    pub(crate) limit: Option<usize>,
}

/// A scan with its partitions, at one state of the file.
pub(crate) struct ScanPlan {
    scan: Arc<Scan>,
    snapshot: Arc<Snapshot>,
    /// Rowids of each partition; one partition with `None` reads everything.
    partitions: Vec<Option<Range>>,
    statistics: Arc<Statistics>,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
}

impl ScanPlan {
    /// Plans a scan in so many partitions at most.
    ///
    /// # Errors
    /// [`Error::OtherColumns`], [`Error::Sql`], [`Error::Database`].
    pub(crate) fn new(scan: Scan, snapshot: Arc<Snapshot>, most: usize) -> Result<ScanPlan, Error> {
        let mut reader = snapshot.reader()?;
        let connection = reader.connection();
        check(connection, &scan.shape)?;
        let failed = |error| Error::Sql { table: scan.shape.name.clone(), error };
        let known = Known::of(connection, &scan.shape).map_err(failed)?;
        let partitions = scan.partitions(connection, &known, most).map_err(failed)?;
        drop(reader);
        let schema = scan.schema();
        let properties = PlanProperties::new(
            EquivalenceProperties::new(Arc::clone(&schema)),
            Partitioning::UnknownPartitioning(partitions.len()),
            EmissionType::Incremental,
            Boundedness::Bounded,
        );
        let statistics = Arc::new(scan.statistics(&known, &schema));
        Ok(ScanPlan {
            scan: Arc::new(scan),
            snapshot,
            partitions,
            statistics,
            properties: Arc::new(properties),
            metrics: ExecutionPlanMetricsSet::new(),
        })
    }
}

/// Facts about a table at one state.
struct Known {
    /// The first and the last rowid, of a table with rowids that has rows.
    rowids: Option<Range>,
    rows: Precision<usize>,
}

impl Known {
    fn of(connection: &mut Connection, shape: &Shape) -> Result<Known, shoal_sql::Error> {
        let Some(rowid) = shape.rowid else {
            return Ok(Known { rowids: None, rows: analysed(connection, &shape.name)? });
        };
        let rowids = ranges::bounds(connection, &shape.name, rowid)?;
        let rows = match rowids.as_ref().map(ranges::width) {
            None => Precision::Exact(0),
            Some(width) if width <= SMALL => {
                let sql = format!("SELECT count(*) FROM {}", quoted(&shape.name));
                let count = ranges::integer(connection, &sql, &[])?.unwrap_or_default();
                Precision::Exact(usize::try_from(count).unwrap_or_default())
            }
            Some(width) => match analysed(connection, &shape.name)? {
                Precision::Absent if width <= WIDEST => {
                    Precision::Inexact(usize::try_from(width).unwrap_or(usize::MAX))
                }
                analysed => analysed,
            },
        };
        Ok(Known { rowids, rows })
    }
}

/// The number of rows noted by `ANALYZE`, as of its time.
fn analysed(
    connection: &mut Connection,
    table: &str,
) -> Result<Precision<usize>, shoal_sql::Error> {
    if connection.schema()?.table("sqlite_stat1").is_none() {
        return Ok(Precision::Absent);
    }
    let sql = "SELECT stat FROM sqlite_stat1 WHERE tbl = ?1 COLLATE NOCASE LIMIT 1";
    let mut statement = connection.prepare(sql)?;
    statement.bind(1, table)?;
    let mut rows = connection.query(&mut statement)?;
    let Some(row) = rows.next()? else { return Ok(Precision::Absent) };
    let ValueRef::Text(stat) = row.get(0) else { return Ok(Precision::Absent) };
    let first = std::str::from_utf8(stat).ok().and_then(|stat| stat.split(' ').next());
    let count = first.and_then(|first| first.parse().ok());
    Ok(count.map_or(Precision::Absent, Precision::Inexact))
}

impl Scan {
    fn schema(&self) -> SchemaRef {
        let all = &self.shape.columns.schema;
        let fields = self.projection.iter().map(|&place| Arc::clone(&all.fields()[place]));
        Arc::new(Schema::new(fields.collect::<Vec<_>>()))
    }

    /// Rowids for each partition.
    fn partitions(
        &self,
        connection: &mut Connection,
        known: &Known,
        most: usize,
    ) -> Result<Vec<Option<Range>>, shoal_sql::Error> {
        let (Some(rowid), Some(rowids)) = (self.shape.rowid, &known.rowids) else {
            return Ok(vec![None]);
        };
        // A look-up, a small table and a few rows are read sooner by one statement.
        let finds = |place: &usize| {
            self.shape.rowid_alias == Some(*place) || self.shape.indexed.contains(place)
        };
        let is_lookup = self.conditions.iter().any(|condition| condition.pinned.iter().any(finds));
        let is_short = self.limit.is_some_and(|limit| limit <= BatchBuilder::ROWS);
        if most <= 1 || is_lookup || is_short || ranges::width(rowids) <= SMALL {
            return Ok(vec![None]);
        }
        let ranges = ranges::cut(connection, &self.shape.name, rowid, rowids.clone(), most)?;
        Ok(match ranges.len() {
            0 | 1 => vec![None],
            _ => ranges.into_iter().map(Some).collect(),
        })
    }

    fn statistics(&self, known: &Known, schema: &SchemaRef) -> Statistics {
        let mut statistics = Statistics::new_unknown(schema);
        statistics.num_rows = known.rows;
        let alias = self.projection.iter().position(|&place| Some(place) == self.shape.rowid_alias);
        if let (Some(place), Some(rowids)) = (alias, &known.rowids) {
            let integer = |value: &i64| Precision::Exact(ScalarValue::Int64(Some(*value)));
            statistics.column_statistics[place] = ColumnStatistics {
                null_count: Precision::Exact(0),
                min_value: integer(rowids.start()),
                max_value: integer(rowids.end()),
                distinct_count: known.rows,
                ..ColumnStatistics::new_unknown()
            };
        }
        if !self.conditions.is_empty() || self.limit.is_some() {
            statistics = statistics.to_inexact();
        }
        if let Some(limit) = self.limit {
            statistics.num_rows = statistics.num_rows.min(&Precision::Inexact(limit));
        }
        statistics
    }

    /// The statement of a partition, and its values. A table with rowids gives the rowid behind the
    /// columns asked for; without such columns the number of rows is given.
    fn statement(&self, range: Option<&Range>) -> (String, Vec<Value>) {
        let Shape { name, columns, rowid, .. } = &*self.shape;
        let (mut tests, mut values) = (Vec::new(), Vec::new());
        if let (Some(range), Some(rowid)) = (range, rowid) {
            tests.push(format!("{rowid} BETWEEN ? AND ?"));
            values.extend([Value::Int(*range.start()), Value::Int(*range.end())]);
        }
        for condition in &self.conditions {
            tests.push(condition.sql.clone());
            values.extend(condition.values.iter().cloned());
        }
        let mut rest = format!(" FROM {}", quoted(name));
        if !tests.is_empty() {
            rest.push_str(&format!(" WHERE {}", tests.join(" AND ")));
        }
        if let Some(limit) = self.limit {
            rest.push_str(&format!(" LIMIT {limit}"));
        }
        if self.projection.is_empty() {
            let sql = match self.limit {
                Some(_) => format!("SELECT count(*) FROM (SELECT 1{rest})"),
                None => format!("SELECT count(*){rest}"),
            };
            return (sql, values);
        }
        let names = self.projection.iter().map(|&place| quoted(&columns.names[place]));
        let names: Vec<String> = names.chain(rowid.map(str::to_owned)).collect();
        (format!("SELECT {}{rest}", names.join(", ")), values)
    }

    /// Runs a partition's statement, and sends its rows until nobody wants more.
    ///
    /// # Errors
    /// [`Error::Sql`], [`Error::Unfit`].
    fn run(
        &self,
        reader: &mut Reader,
        range: Option<&Range>,
        schema: SchemaRef,
        send: &mut dyn FnMut(RecordBatch) -> bool,
    ) -> Result<(), Error> {
        let Shape { name, columns, rowid, .. } = &*self.shape;
        let failed = |error| Error::Sql { table: name.clone(), error };
        let (sql, values) = self.statement(range);
        let connection = reader.connection();
        let mut statement = connection.prepare(&sql).map_err(failed)?;
        for (place, value) in values.into_iter().enumerate() {
            statement.bind(place + 1, value).map_err(failed)?;
        }
        let mut rows = connection.query(&mut statement).map_err(failed)?;
        if self.projection.is_empty() {
            let count = match rows.next().map_err(failed)?.map(|row| row.get(0)) {
                Some(ValueRef::Int(count)) => usize::try_from(count).unwrap_or_default(),
                _ => 0,
            };
            drop(rows);
            send_count(count, &schema, send);
            return Ok(());
        }
        let fits: Vec<Fit> = self.projection.iter().map(|&place| columns.fits[place]).collect();
        let mut builder = BatchBuilder::new(schema, &fits);
        while let Some(row) = rows.next().map_err(failed)? {
            let unfit = |unfit| {
                let rowid = rowid.and_then(|_| match row.get(self.projection.len()) {
                    ValueRef::Int(rowid) => Some(rowid),
                    _ => None,
                });
                Error::Unfit { table: name.clone(), rowid, unfit }
            };
            if builder.push(&row).map_err(unfit)? && !send(builder.finish()) {
                return Ok(());
            }
        }
        if !builder.is_empty() {
            send(builder.finish());
        }
        Ok(())
    }
}

/// Rows without columns: batches of nothing but a number.
fn send_count(mut count: usize, schema: &SchemaRef, send: &mut dyn FnMut(RecordBatch) -> bool) {
    while count > 0 {
        let rows = count.min(BatchBuilder::ROWS);
        count -= rows;
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        let batch = RecordBatch::try_new_with_options(Arc::clone(schema), Vec::new(), &options)
            .expect("a batch without columns has any number of rows");
        if !send(batch) {
            return;
        }
    }
}

impl ExecutionPlan for ScanPlan {
    fn name(&self) -> &str {
        "ShoalScan"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        Vec::new()
    }

    fn apply_expressions(
        &self,
        _: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn replace_children(
        self: Arc<Self>,
        _: Vec<Arc<dyn ExecutionPlan>>,
        _: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(self)
    }

    fn with_new_children(
        self: Arc<Self>,
        _: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(self)
    }

    fn execute(&self, partition: usize, _: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let range = self.partitions.get(partition).cloned().ok_or_else(|| {
            DataFusionError::Internal(format!("a scan has no partition {partition}"))
        })?;
        let (scan, snapshot) = (Arc::clone(&self.scan), Arc::clone(&self.snapshot));
        let metrics = BaselineMetrics::new(&self.metrics, partition);
        let schema = self.schema();
        let mut stream = RecordBatchReceiverStream::builder(Arc::clone(&schema), WAITING);
        let sender: Sender<Result<RecordBatch>> = stream.tx();
        stream.spawn_blocking(move || {
            let mut reader = snapshot.reader()?;
            let watched = sender.clone();
            let is_unwanted = move || watched.is_closed();
            reader.connection().set_progress_handler(STEPS, Some(Box::new(is_unwanted)));
            let mut send = |batch: RecordBatch| {
                metrics.record_output(batch.num_rows());
                sender.blocking_send(Ok(batch)).is_ok()
            };
            match scan.run(&mut reader, range.as_ref(), schema, &mut send) {
                // Nobody is there to be told.
                Err(_) if sender.is_closed() => Ok(()),
                done => Ok(done?),
            }
        });
        Ok(stream.build())
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }

    fn statistics_from_inputs(
        &self,
        _: &[Arc<Statistics>],
        args: &StatisticsArgs,
    ) -> Result<Arc<Statistics>> {
        match args.partition() {
            Some(_) if self.partitions.len() > 1 => {
                Ok(Arc::new(Statistics::new_unknown(&self.schema())))
            }
            _ => Ok(Arc::clone(&self.statistics)),
        }
    }
}

impl DisplayAs for ScanPlan {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Scan { shape, projection, conditions, limit } = &*self.scan;
        let names: Vec<&str> =
            projection.iter().map(|&place| shape.columns.names[place].as_str()).collect();
        write!(f, "ShoalScan: table={}, columns=[{}]", shape.name, names.join(", "))?;
        if !conditions.is_empty() {
            let tests: Vec<&str> = conditions.iter().map(|it| it.sql.as_str()).collect();
            write!(f, ", where=[{}]", tests.join(" AND "))?;
        }
        if let Some(limit) = limit {
            write!(f, ", limit={limit}")?;
        }
        write!(f, ", partitions={}", self.partitions.len())
    }
}

impl fmt::Debug for ScanPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ScanPlan")
            .field("table", &self.scan.shape.name)
            .field("partitions", &self.partitions)
            .finish_non_exhaustive()
    }
}
