//! Facts of the server and of SQL's types.

use std::time::Duration;

use arrow_flight::sql::metadata::{
    SqlInfoData, SqlInfoDataBuilder, XdbcTypeInfo, XdbcTypeInfoData, XdbcTypeInfoDataBuilder,
};
use arrow_flight::sql::{
    Nullable, Searchable, SqlInfo, SqlNullOrdering, SqlSupportedCaseSensitivity,
    SqlSupportedTransaction, SqlSupportedUnions, XdbcDataType,
};
use tonic::Status;

/// Facts about the server.
///
/// # Errors
/// None within the caller's reach.
pub(crate) fn server(time: Duration) -> Result<SqlInfoData, Status> {
    let mut facts = SqlInfoDataBuilder::new();
    facts.append(SqlInfo::FlightSqlServerName, "Shoal");
    facts.append(SqlInfo::FlightSqlServerVersion, env!("CARGO_PKG_VERSION"));
    facts.append(SqlInfo::FlightSqlServerArrowVersion, "1.5");
    facts.append(SqlInfo::FlightSqlServerReadOnly, true);
    facts.append(SqlInfo::FlightSqlServerSql, true);
    facts.append(SqlInfo::FlightSqlServerSubstrait, false);
    facts.append(SqlInfo::FlightSqlServerTransaction, SqlSupportedTransaction::None as i32);
    facts.append(SqlInfo::FlightSqlServerCancel, false);
    facts.append(SqlInfo::FlightSqlServerBulkIngestion, false);
    let milliseconds = i32::try_from(time.as_millis()).unwrap_or(i32::MAX);
    facts.append(SqlInfo::FlightSqlServerStatementTimeout, milliseconds);
    facts.append(SqlInfo::SqlDdlCatalog, false);
    facts.append(SqlInfo::SqlDdlSchema, false);
    facts.append(SqlInfo::SqlDdlTable, false);
    let any_case = SqlSupportedCaseSensitivity::SqlCaseSensitivityCaseInsensitive as i32;
    facts.append(SqlInfo::SqlIdentifierCase, any_case);
    facts.append(SqlInfo::SqlQuotedIdentifierCase, any_case);
    facts.append(SqlInfo::SqlIdentifierQuoteChar, "\"");
    facts.append(SqlInfo::SqlAllTablesAreSelectable, true);
    facts.append(SqlInfo::SqlNullOrdering, SqlNullOrdering::SqlNullsSortedLow as i32);
    facts.append(SqlInfo::SqlSearchStringEscape, "\\");
    facts.append(SqlInfo::SqlSupportsColumnAliasing, true);
    facts.append(SqlInfo::SqlNullPlusNullIsNull, true);
    facts.append(SqlInfo::SqlSupportsTableCorrelationNames, true);
    facts.append(SqlInfo::SqlSupportsDifferentTableCorrelationNames, false);
    facts.append(SqlInfo::SqlSupportsExpressionsInOrderBy, true);
    facts.append(SqlInfo::SqlSupportsOrderByUnrelated, true);
    facts.append(SqlInfo::SqlSupportsLikeEscapeClause, true);
    facts.append(SqlInfo::SqlSupportsNonNullableColumns, true);
    facts.append(SqlInfo::SqlCatalogTerm, "database");
    facts.append(SqlInfo::SqlCatalogAtStart, true);
    facts.append(SqlInfo::SqlCorrelatedSubqueriesSupported, true);
    let unions =
        1 << SqlSupportedUnions::SqlUnion as i32 | 1 << SqlSupportedUnions::SqlUnionAll as i32;
    facts.append(SqlInfo::SqlSupportedUnions, unions);
    facts.append(SqlInfo::SqlSelectForUpdateSupported, false);
    facts.append(SqlInfo::SqlStoredProceduresSupported, false);
    facts.append(SqlInfo::SqlTransactionsSupported, false);
    facts.append(SqlInfo::SqlBatchUpdatesSupported, false);
    facts.append(SqlInfo::SqlSavepointsSupported, false);
    facts.append(SqlInfo::SqlNamedParametersSupported, false);
    facts.build().map_err(|error| Status::internal(error.to_string()))
}

/// The types of SQL.
///
/// # Errors
/// None within the caller's reach.
pub(crate) fn types() -> Result<XdbcTypeInfoData, Status> {
    let mut types = XdbcTypeInfoDataBuilder::new();
    for (name, kind, size, quotes, radix) in [
        ("INTEGER", XdbcDataType::XdbcBigint, Some(64), None, Some(2)),
        ("REAL", XdbcDataType::XdbcDouble, Some(53), None, Some(2)),
        ("TEXT", XdbcDataType::XdbcVarchar, None, Some(("'", "'")), None),
        ("BLOB", XdbcDataType::XdbcVarbinary, None, Some(("x'", "'")), None),
    ] {
        types.append(XdbcTypeInfo {
            type_name: name.to_owned(),
            data_type: kind,
            column_size: size,
            literal_prefix: quotes.map(|(begin, _)| begin.to_owned()),
            literal_suffix: quotes.map(|(_, end)| end.to_owned()),
            nullable: Nullable::NullabilityNullable,
            case_sensitive: name == "TEXT",
            searchable: Searchable::Full,
            unsigned_attribute: radix.map(|_| false),
            sql_data_type: kind,
            num_prec_radix: radix,
            ..XdbcTypeInfo::default()
        });
    }
    types.build().map_err(|error| Status::internal(error.to_string()))
}
