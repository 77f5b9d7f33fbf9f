//! Prepared statements, and the values bound to them.

use std::sync::Arc;

use arrow_array::{
    ArrayRef, BinaryArray, Float64Array, Int64Array, RecordBatch, StringArray,
    TimestampMillisecondArray,
};
use arrow_schema::DataType;
use shoal_sql::Value;

use crate::sample::{Client, Sample, client, fetch, values};

fn batch(columns: Vec<(&str, ArrayRef)>) -> RecordBatch {
    RecordBatch::try_from_iter_with_nullable(
        columns.into_iter().map(|(name, column)| (name, column, true)),
    )
    .unwrap()
}

/// The rows of a prepared statement with values bound to it.
async fn bound(client: &mut Client, sql: &str, given: Option<RecordBatch>) -> Vec<Vec<Value>> {
    let mut statement = client.prepare(sql.to_owned(), None).await.unwrap();
    if let Some(given) = given {
        statement.set_parameters(given).unwrap();
    }
    let info = statement.execute().await.unwrap();
    let (_, batches) = fetch(client, info).await.unwrap();
    statement.close().await.unwrap();
    values(&batches)
}

#[tokio::test(flavor = "multi_thread")]
async fn values_of_each_type_are_bound() {
    let sample = Sample::new();
    let server = sample.server().await;
    let mut client = client(&server).await;
    let sql = "SELECT ?1, ?2, ?3, ?4, ?5, typeof(?6)";
    let given = batch(vec![
        ("a", Arc::new(Int64Array::from(vec![i64::MIN]))),
        ("b", Arc::new(Float64Array::from(vec![-0.5]))),
        ("c", Arc::new(StringArray::from(vec!["ż'\""]))),
        ("d", Arc::new(BinaryArray::from(vec![&b"\x00\xff"[..]]))),
        ("e", Arc::new(TimestampMillisecondArray::from(vec![0]))),
        ("f", Arc::new(Int64Array::from(vec![None]))),
    ]);
    let rows = bound(&mut client, sql, Some(given)).await;
    let blob = Value::Blob(vec![0, 255]);
    let (text, time) = (Value::text("ż'\""), Value::text("1970-01-01 00:00:00"));
    let row = [Value::Int(i64::MIN), Value::Real(-0.5), text, blob, time, Value::text("null")];
    assert_eq!(rows, [row]);
    let one = batch(vec![("n", Arc::new(Int64Array::from(vec![2])))]);
    let rows = bound(&mut client, "SELECT name FROM item WHERE id = :id", Some(one)).await;
    assert_eq!(rows, [[Value::text("nut")]]);
    // Without values parameters are NULL.
    assert_eq!(bound(&mut client, "SELECT ?1 IS NULL", None).await, [[Value::Int(1)]]);
    assert_eq!(bound(&mut client, "SELECT count(*) FROM item", None).await, [[Value::Int(4)]]);
    // Several rows of values: their rows follow each other.
    let several = batch(vec![("n", Arc::new(Int64Array::from(vec![3, 1])))]);
    let sql = "SELECT n, s FROM big WHERE n <= ? ORDER BY n";
    let rows = bound(&mut client, sql, Some(several)).await;
    let first = rows.iter().map(|row| row[0].to_int()).collect::<Vec<_>>();
    assert_eq!(first, [1, 2, 3, 1]);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_statement_tells_its_columns_and_parameters() {
    let sample = Sample::new();
    let server = sample.server().await;
    let mut client = client(&server).await;
    let sql = "SELECT name, price + ?2 AS sum FROM item WHERE id = :id OR id = ?4";
    let statement = client.prepare(sql.to_owned(), None).await.unwrap();
    let columns = statement.dataset_schema().unwrap().fields().iter();
    let columns: Vec<_> = columns.map(|it| (it.name().as_str(), it.data_type().clone())).collect();
    assert_eq!(columns, [("name", DataType::Utf8), ("sum", DataType::Null)]);
    let parameters = statement.parameter_schema().unwrap();
    let names: Vec<&str> = parameters.fields().iter().map(|it| it.name().as_str()).collect();
    assert_eq!(names, ["?1", "?2", ":id", "?4"]);
    assert!(matches!(parameters.field(0).data_type(), DataType::Union(..)));
    // Fewer values than parameters.
    let mut statement = statement;
    statement.set_parameters(batch(vec![("n", Arc::new(Int64Array::from(vec![1])))])).unwrap();
    let why = statement.execute().await.unwrap_err().to_string();
    assert!(why.contains("the statement has 4 parameters, and 1 values"), "{why}");
    let why = client.prepare("SELEC".to_owned(), None).await.err().unwrap().to_string();
    assert!(why.contains("syntax error"), "{why}");
    let why = client.prepare("DELETE FROM odd".to_owned(), None).await.err().unwrap().to_string();
    assert!(why.contains("DELETE from odd is refused: this server only reads"), "{why}");
    server.stop().await;
}
