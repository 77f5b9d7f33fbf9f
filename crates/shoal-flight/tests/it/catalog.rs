//! What the server tells of the file and of itself.

use arrow_array::RecordBatch;
use arrow_array::cast::AsArray;
use arrow_array::types::{Int32Type, UInt8Type, UInt32Type};
use arrow_flight::sql::{
    CommandGetCrossReference, CommandGetDbSchemas, CommandGetExportedKeys, CommandGetImportedKeys,
    CommandGetPrimaryKeys, CommandGetTables, CommandGetXdbcTypeInfo, SqlInfo,
};
use arrow_flight::{FlightInfo, IpcMessage};
use arrow_schema::Schema;

use crate::sample::{Client, Sample, client, fetch};

/// An answer of one batch.
async fn told(client: &mut Client, info: FlightInfo) -> RecordBatch {
    let (schema, batches) = fetch(client, info).await.unwrap();
    arrow_select::concat::concat_batches(&schema, &batches).unwrap()
}

fn texts(batch: &RecordBatch, name: &str) -> Vec<String> {
    let column = batch.column_by_name(name).unwrap().as_string::<i32>();
    column.iter().map(|text| text.unwrap_or("NULL").to_owned()).collect()
}

async fn tables(client: &mut Client, request: CommandGetTables) -> RecordBatch {
    let info = client.get_tables(request).await.unwrap();
    told(client, info).await
}

#[tokio::test(flavor = "multi_thread")]
async fn tables_are_told_with_their_columns() {
    let sample = Sample::new();
    let server = sample.server().await;
    let mut client = client(&server).await;
    let plain = CommandGetTables { table_types: vec!["TABLE".to_owned()], ..Default::default() };
    let found = tables(&mut client, plain).await;
    let names = texts(&found, "table_name");
    assert_eq!(names, ["big", "item", "maker", "note", "odd", "odd \"name", "pair"]);
    assert!(texts(&found, "catalog_name").iter().all(|name| name == "main"));
    let views = CommandGetTables {
        table_types: vec!["VIEW".to_owned(), "SYSTEM TABLE".to_owned()],
        table_name_filter_pattern: Some("note_c%".to_owned()),
        ..Default::default()
    };
    let found = tables(&mut client, views).await;
    assert_eq!(texts(&found, "table_name"), ["note_config", "note_content"]);
    let of_item = |include_schema| CommandGetTables {
        catalog: Some("main".to_owned()),
        db_schema_filter_pattern: Some("%".to_owned()),
        table_name_filter_pattern: Some("item".to_owned()),
        include_schema,
        ..Default::default()
    };
    let found = tables(&mut client, of_item(true)).await;
    assert_eq!((texts(&found, "table_name"), found.num_columns()), (vec!["item".to_owned()], 5));
    let bytes = found.column_by_name("table_schema").unwrap().as_binary::<i32>().value(0);
    let schema = Schema::try_from(IpcMessage(bytes.to_vec().into())).unwrap();
    let shown: Vec<String> = schema
        .fields()
        .iter()
        .map(|it| {
            let declared = &it.metadata()["ARROW:FLIGHT:SQL:TYPE_NAME"];
            format!("{} {} ({declared})", it.name(), it.data_type())
        })
        .collect();
    assert_eq!(
        shown,
        [
            "id Int64 (INTEGER)",
            "maker Int64 (INTEGER)",
            "name Utf8 (VARCHAR(20))",
            "price Float64 (REAL)",
            "photo Binary (BLOB)",
            "sold Float64 (NUMERIC)",
            "tag Binary ()"
        ]
    );
    assert_eq!(tables(&mut client, of_item(false)).await.num_columns(), 4);
    let elsewhere = CommandGetTables { catalog: Some("other".to_owned()), ..Default::default() };
    assert_eq!(tables(&mut client, elsewhere).await.num_rows(), 0);
    // A view is not run: a column of its own is told as one of nothing but NULL.
    let mut view = of_item(true);
    view.table_name_filter_pattern = Some("dear".to_owned());
    let found = tables(&mut client, view).await;
    let bytes = found.column_by_name("table_schema").unwrap().as_binary::<i32>().value(0);
    let schema = Schema::try_from(IpcMessage(bytes.to_vec().into())).unwrap();
    let kinds = schema.fields().iter().map(|it| it.data_type().to_string());
    assert_eq!(kinds.collect::<Vec<_>>(), ["Utf8", "Null"]);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn keys_are_told() {
    let sample = Sample::new();
    let server = sample.server().await;
    let mut client = client(&server).await;
    let request = CommandGetPrimaryKeys { table: "pair".to_owned(), ..Default::default() };
    let info = client.get_primary_keys(request).await.unwrap();
    let found = told(&mut client, info).await;
    assert_eq!(texts(&found, "column_name"), ["b", "a"]);
    let places = found.column_by_name("key_sequence").unwrap().as_primitive::<Int32Type>();
    assert_eq!(places.values(), &[1, 2]);
    let (parent, child) = ("maker".to_owned(), "item".to_owned());
    let exported = CommandGetExportedKeys { table: parent.clone(), ..Default::default() };
    let imported = CommandGetImportedKeys { table: child.clone(), ..Default::default() };
    let cross = CommandGetCrossReference {
        pk_table: parent.clone(),
        fk_table: child,
        ..Default::default()
    };
    let exported = client.get_exported_keys(exported).await.unwrap();
    let imported = client.get_imported_keys(imported).await.unwrap();
    let cross = client.get_cross_reference(cross).await.unwrap();
    for info in [exported, imported, cross] {
        let found = told(&mut client, info).await;
        assert_eq!(texts(&found, "pk_table_name"), ["maker"]);
        assert_eq!(texts(&found, "pk_column_name"), ["id"]);
        assert_eq!(texts(&found, "fk_table_name"), ["item"]);
        assert_eq!(texts(&found, "fk_column_name"), ["maker"]);
        let rule = |name| found.column_by_name(name).unwrap().as_primitive::<UInt8Type>().value(0);
        assert_eq!((rule("delete_rule"), rule("update_rule")), (0, 3));
    }
    let none = CommandGetImportedKeys { table: parent, ..Default::default() };
    let info = client.get_imported_keys(none).await.unwrap();
    assert_eq!(told(&mut client, info).await.num_rows(), 0);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_server_tells_of_itself() {
    let sample = Sample::new();
    let server = sample.server().await;
    let mut client = client(&server).await;
    let info = client.get_catalogs().await.unwrap();
    assert_eq!(texts(&told(&mut client, info).await, "catalog_name"), ["main"]);
    let info = client.get_db_schemas(CommandGetDbSchemas::default()).await.unwrap();
    let found = told(&mut client, info).await;
    assert_eq!(texts(&found, "catalog_name"), ["main"]);
    assert_eq!(texts(&found, "db_schema_name"), [""]);
    let info = client.get_table_types().await.unwrap();
    let found = told(&mut client, info).await;
    assert_eq!(texts(&found, "table_type"), ["SYSTEM TABLE", "TABLE", "VIEW"]);
    let asked = vec![SqlInfo::FlightSqlServerName, SqlInfo::FlightSqlServerReadOnly];
    let info = client.get_sql_info(asked).await.unwrap();
    let found = told(&mut client, info).await;
    let names = found.column(0).as_primitive::<UInt32Type>();
    let values = found.column(1).as_union();
    let of = |info: SqlInfo| {
        let place = names.values().iter().position(|it| *it == info as u32).unwrap();
        values.value(place)
    };
    assert_eq!(of(SqlInfo::FlightSqlServerName).as_string::<i32>().value(0), "Shoal");
    assert!(of(SqlInfo::FlightSqlServerReadOnly).as_boolean().value(0));
    let info = client.get_xdbc_type_info(CommandGetXdbcTypeInfo::default()).await.unwrap();
    let mut names = texts(&told(&mut client, info).await, "type_name");
    names.sort();
    assert_eq!(names, ["BLOB", "INTEGER", "REAL", "TEXT"]);
    server.stop().await;
}
