//! Flight SQL's commands.

use std::pin::Pin;
use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_flight::decode::FlightRecordBatchStream;
use arrow_flight::error::FlightError;
use arrow_flight::flight_service_server::FlightService;
use arrow_flight::sql::server::{FlightSqlService, PeekableFlightDataStream};
use arrow_flight::sql::{
    ActionBeginSavepointRequest, ActionBeginSavepointResult, ActionBeginTransactionRequest,
    ActionBeginTransactionResult, ActionClosePreparedStatementRequest,
    ActionCreatePreparedStatementRequest, ActionCreatePreparedStatementResult, Any,
    CommandGetCatalogs, CommandGetCrossReference, CommandGetDbSchemas, CommandGetExportedKeys,
    CommandGetImportedKeys, CommandGetPrimaryKeys, CommandGetSqlInfo, CommandGetTableTypes,
    CommandGetTables, CommandGetXdbcTypeInfo, CommandPreparedStatementQuery,
    CommandPreparedStatementUpdate, CommandStatementIngest, CommandStatementQuery,
    CommandStatementUpdate, DoPutPreparedStatementResult, ProstMessageExt, SqlInfo,
    TicketStatementQuery,
};
use arrow_flight::{
    Action, FlightDescriptor, FlightEndpoint, FlightInfo, HandshakeRequest, HandshakeResponse,
    Ticket,
};
use arrow_schema::Schema;
use futures_util::{Stream, TryStreamExt, stream};
use prost::Message;
use tonic::metadata::MetadataValue;
use tonic::{Request, Response, Status, Streaming};

use crate::catalog::{self, Wanted};
use crate::desk::{Asked, Desk, encoded};
use crate::door::Admitted;
use crate::facts;
use crate::prepared;
use crate::question::Question;
use crate::readers::{Caller, Reader};
use crate::results;
use crate::shape::Told;
use crate::stop::Stop;

/// Bytes of SQL in one statement.
const SQL_MAX: usize = 1 << 20;
/// Rows of values bound to one statement.
const SETS_MAX: usize = 10_000;

/// The service of one file.
#[derive(Clone)]
pub(crate) struct Service(pub(crate) Arc<Desk>);

type Answer<T> = Result<Response<T>, Status>;
type Rows = <Service as FlightService>::DoGetStream;

const READ_ONLY: &str = "this server only reads: changes are made with shoal sql, or by a program \
                         of the file's owner";

impl Service {
    /// The caller behind a request.
    fn caller<T>(&self, request: &Request<T>) -> Caller {
        let admitted = request.extensions().get::<Admitted>();
        self.0.caller(admitted.and_then(|admitted| admitted.0.clone()))
    }

    /// An answer with nothing but batches.
    fn answered(batches: Vec<RecordBatch>, schema: arrow_schema::SchemaRef) -> Answer<Rows> {
        Ok(Response::new(encoded(stream::iter(batches.into_iter().map(Ok)), schema)))
    }

    /// An answer of one batch, made by the database.
    async fn told<T>(
        &self,
        request: &Request<T>,
        question: impl FnOnce(&mut Reader, &Stop) -> Result<RecordBatch, Status> + Send + 'static,
    ) -> Answer<Rows> {
        let batch = self.0.ask(&self.caller(request), question).await?;
        let schema = batch.schema();
        Self::answered(vec![batch], schema)
    }

    async fn asked(
        &self,
        request: Request<FlightDescriptor>,
        question: Question,
    ) -> Answer<FlightInfo> {
        let caller = self.caller(&request);
        let Asked { schema, ticket, count } = self.0.look(&caller, question).await?;
        let handle = TicketStatementQuery { statement_handle: ticket.encode_to_vec().into() };
        let mut info = info(&schema, handle, request.into_inner())?;
        info.total_records = count.and_then(|count| i64::try_from(count).ok()).unwrap_or(-1);
        Ok(Response::new(info))
    }
}

/// The way to an answer, whose ticket is a command.
fn info(
    schema: &Schema,
    command: impl ProstMessageExt,
    descriptor: FlightDescriptor,
) -> Result<FlightInfo, Status> {
    let ticket = Ticket { ticket: command.as_any().encode_to_vec().into() };
    let info = FlightInfo::new().try_with_schema(schema).map_err(unbuilt)?;
    Ok(info.with_endpoint(FlightEndpoint::new().with_ticket(ticket)).with_descriptor(descriptor))
}

fn told_info(
    schema: &Schema,
    command: impl ProstMessageExt,
    request: Request<FlightDescriptor>,
) -> Answer<FlightInfo> {
    info(schema, command, request.into_inner()).map(Response::new)
}

fn unbuilt(error: impl std::fmt::Display) -> Status {
    Status::internal(error.to_string())
}

fn checked(sql: &str) -> Result<(), Status> {
    match sql.len() <= SQL_MAX {
        true => Ok(()),
        false => Err(Status::invalid_argument(format!(
            "the SQL has {} bytes, more than the {SQL_MAX} of one statement",
            sql.len()
        ))),
    }
}

/// A schema as messages hold it.
fn schema_bytes(schema: &Schema) -> Result<prost::bytes::Bytes, Status> {
    let info = FlightInfo::new().try_with_schema(schema).map_err(unbuilt)?;
    Ok(info.schema)
}

/// A transaction of the client's own.
fn no_transactions(transaction: Option<&prost::bytes::Bytes>) -> Result<(), Status> {
    match transaction.is_some_and(|transaction| !transaction.is_empty()) {
        true => Err(transactions()),
        false => Ok(()),
    }
}

fn transactions() -> Status {
    Status::unimplemented("every statement reads one state of the file: there are no transactions")
}

#[tonic::async_trait]
impl FlightSqlService for Service {
    type FlightService = Service;

    /// Gives a client with a user's name and a password its token back: the password.
    async fn do_handshake(
        &self,
        request: Request<Streaming<HandshakeRequest>>,
    ) -> Answer<Pin<Box<dyn Stream<Item = Result<HandshakeResponse, Status>> + Send>>> {
        let token = request.extensions().get::<Admitted>().and_then(|admitted| admitted.1.clone());
        let payload = token.clone().map(|token| token.into_bytes()).unwrap_or_default();
        let said = HandshakeResponse { protocol_version: 0, payload: payload.into() };
        let mut response: Response<Pin<Box<dyn Stream<Item = _> + Send>>> =
            Response::new(Box::pin(stream::iter([Ok(said)])));
        if let Some(token) = token
            && let Ok(bearer) = MetadataValue::try_from(format!("Bearer {token}"))
        {
            response.metadata_mut().insert("authorization", bearer);
        }
        Ok(response)
    }

    async fn get_flight_info_statement(
        &self,
        query: CommandStatementQuery,
        request: Request<FlightDescriptor>,
    ) -> Answer<FlightInfo> {
        no_transactions(query.transaction_id.as_ref())?;
        checked(&query.query)?;
        self.asked(request, Question { sql: query.query, sets: Vec::new() }).await
    }

    async fn get_flight_info_prepared_statement(
        &self,
        query: CommandPreparedStatementQuery,
        request: Request<FlightDescriptor>,
    ) -> Answer<FlightInfo> {
        let caller = self.caller(&request);
        let question = self.0.prepared.get(&caller, &query.prepared_statement_handle)?;
        self.asked(request, question).await
    }

    async fn do_get_statement(
        &self,
        ticket: TicketStatementQuery,
        request: Request<Ticket>,
    ) -> Answer<Rows> {
        let caller = self.caller(&request);
        self.0.fetch(caller, &ticket.statement_handle).await.map(Response::new)
    }

    async fn do_action_create_prepared_statement(
        &self,
        query: ActionCreatePreparedStatementRequest,
        request: Request<Action>,
    ) -> Result<ActionCreatePreparedStatementResult, Status> {
        no_transactions(query.transaction_id.as_ref())?;
        checked(&query.query)?;
        let caller = self.caller(&request);
        let (sql, types) = (query.query.clone(), self.0.types);
        let schemas = self.0.ask(&caller, move |reader, _| {
            let statement = results::prepare(reader, &sql)?;
            Ok((Told::of(&statement, types).schema(), prepared::parameters(&statement)))
        });
        let (columns, parameters) = schemas.await?;
        let handle = self.0.new_name();
        let question = Question { sql: query.query, sets: Vec::new() };
        self.0.prepared.put(&caller, handle.clone(), question)?;
        Ok(ActionCreatePreparedStatementResult {
            prepared_statement_handle: handle.into(),
            dataset_schema: schema_bytes(&columns)?,
            parameter_schema: schema_bytes(&parameters)?,
        })
    }

    async fn do_action_close_prepared_statement(
        &self,
        query: ActionClosePreparedStatementRequest,
        request: Request<Action>,
    ) -> Result<(), Status> {
        self.0.prepared.close(&self.caller(&request), &query.prepared_statement_handle);
        Ok(())
    }

    async fn do_put_prepared_statement_query(
        &self,
        query: CommandPreparedStatementQuery,
        request: Request<PeekableFlightDataStream>,
    ) -> Result<DoPutPreparedStatementResult, Status> {
        let caller = self.caller(&request);
        let handle = query.prepared_statement_handle;
        self.0.prepared.get(&caller, &handle)?;
        let data = request.into_inner().map_err(FlightError::from);
        let mut batches = FlightRecordBatchStream::new_from_flight_data(data);
        let mut sets = Vec::new();
        while let Some(batch) = batches.try_next().await? {
            if sets.len() + batch.num_rows() > SETS_MAX {
                let why = format!("a statement is run for {SETS_MAX} rows of values at most");
                return Err(Status::invalid_argument(why));
            }
            let more = prepared::sets(&batch);
            sets.extend(more.map_err(|error| Status::invalid_argument(error.to_string()))?);
        }
        self.0.prepared.bind(&caller, &handle, sets)?;
        Ok(DoPutPreparedStatementResult { prepared_statement_handle: Some(handle) })
    }

    async fn do_put_statement_update(
        &self,
        _: CommandStatementUpdate,
        _: Request<PeekableFlightDataStream>,
    ) -> Result<i64, Status> {
        Err(Status::permission_denied(READ_ONLY))
    }

    async fn do_put_prepared_statement_update(
        &self,
        _: CommandPreparedStatementUpdate,
        _: Request<PeekableFlightDataStream>,
    ) -> Result<i64, Status> {
        Err(Status::permission_denied(READ_ONLY))
    }

    async fn do_put_statement_ingest(
        &self,
        _: CommandStatementIngest,
        _: Request<PeekableFlightDataStream>,
    ) -> Result<i64, Status> {
        Err(Status::permission_denied(READ_ONLY))
    }

    async fn do_action_begin_transaction(
        &self,
        _: ActionBeginTransactionRequest,
        _: Request<Action>,
    ) -> Result<ActionBeginTransactionResult, Status> {
        Err(transactions())
    }

    async fn do_action_begin_savepoint(
        &self,
        _: ActionBeginSavepointRequest,
        _: Request<Action>,
    ) -> Result<ActionBeginSavepointResult, Status> {
        Err(transactions())
    }

    async fn get_flight_info_catalogs(
        &self,
        query: CommandGetCatalogs,
        request: Request<FlightDescriptor>,
    ) -> Answer<FlightInfo> {
        told_info(&query.into_builder().schema(), query, request)
    }

    async fn do_get_catalogs(&self, query: CommandGetCatalogs, _: Request<Ticket>) -> Answer<Rows> {
        let mut builder = query.into_builder();
        builder.append(catalog::CATALOG);
        let schema = builder.schema();
        Self::answered(vec![builder.build()?], schema)
    }

    async fn get_flight_info_schemas(
        &self,
        query: CommandGetDbSchemas,
        request: Request<FlightDescriptor>,
    ) -> Answer<FlightInfo> {
        told_info(&query.clone().into_builder().schema(), query, request)
    }

    async fn do_get_schemas(&self, query: CommandGetDbSchemas, _: Request<Ticket>) -> Answer<Rows> {
        let mut builder = query.into_builder();
        builder.append(catalog::CATALOG, catalog::SCHEMA);
        let schema = builder.schema();
        Self::answered(vec![builder.build()?], schema)
    }

    async fn get_flight_info_tables(
        &self,
        query: CommandGetTables,
        request: Request<FlightDescriptor>,
    ) -> Answer<FlightInfo> {
        told_info(&query.clone().into_builder().schema(), query, request)
    }

    async fn do_get_tables(
        &self,
        query: CommandGetTables,
        request: Request<Ticket>,
    ) -> Answer<Rows> {
        let types = self.0.types;
        self.told(&request, move |reader, stop| catalog::tables(reader, stop, query, types)).await
    }

    async fn get_flight_info_table_types(
        &self,
        query: CommandGetTableTypes,
        request: Request<FlightDescriptor>,
    ) -> Answer<FlightInfo> {
        told_info(&query.into_builder().schema(), query, request)
    }

    async fn do_get_table_types(
        &self,
        query: CommandGetTableTypes,
        _: Request<Ticket>,
    ) -> Answer<Rows> {
        let mut builder = query.into_builder();
        catalog::TABLE_TYPES.iter().for_each(|kind| builder.append(kind));
        let schema = builder.schema();
        Self::answered(vec![builder.build()?], schema)
    }

    async fn get_flight_info_sql_info(
        &self,
        query: CommandGetSqlInfo,
        request: Request<FlightDescriptor>,
    ) -> Answer<FlightInfo> {
        let facts = facts::server(self.0.time())?;
        told_info(&query.clone().into_builder(&facts).schema(), query, request)
    }

    async fn do_get_sql_info(&self, query: CommandGetSqlInfo, _: Request<Ticket>) -> Answer<Rows> {
        let facts = facts::server(self.0.time())?;
        let builder = query.into_builder(&facts);
        let schema = builder.schema();
        Self::answered(vec![builder.build()?], schema)
    }

    async fn get_flight_info_xdbc_type_info(
        &self,
        query: CommandGetXdbcTypeInfo,
        request: Request<FlightDescriptor>,
    ) -> Answer<FlightInfo> {
        let types = facts::types()?;
        told_info(&query.into_builder(&types).schema(), query, request)
    }

    async fn do_get_xdbc_type_info(
        &self,
        query: CommandGetXdbcTypeInfo,
        _: Request<Ticket>,
    ) -> Answer<Rows> {
        let types = facts::types()?;
        let builder = query.into_builder(&types);
        let schema = builder.schema();
        Self::answered(vec![builder.build()?], schema)
    }

    async fn get_flight_info_primary_keys(
        &self,
        query: CommandGetPrimaryKeys,
        request: Request<FlightDescriptor>,
    ) -> Answer<FlightInfo> {
        told_info(&catalog::primary_keys_schema(), query, request)
    }

    async fn do_get_primary_keys(
        &self,
        query: CommandGetPrimaryKeys,
        request: Request<Ticket>,
    ) -> Answer<Rows> {
        self.told(&request, move |reader, stop| {
            let (catalog, schema) = (query.catalog.as_deref(), query.db_schema.as_deref());
            catalog::primary_keys(reader, stop, catalog, schema, &query.table)
        })
        .await
    }

    async fn get_flight_info_exported_keys(
        &self,
        query: CommandGetExportedKeys,
        request: Request<FlightDescriptor>,
    ) -> Answer<FlightInfo> {
        told_info(&catalog::foreign_keys_schema(), query, request)
    }

    async fn do_get_exported_keys(
        &self,
        query: CommandGetExportedKeys,
        request: Request<Ticket>,
    ) -> Answer<Rows> {
        let CommandGetExportedKeys { catalog, db_schema: schema, table } = query;
        let parent = Wanted { catalog, schema, table };
        self.told(&request, move |reader, stop| {
            catalog::foreign_keys(reader, stop, Some(&parent), None)
        })
        .await
    }

    async fn get_flight_info_imported_keys(
        &self,
        query: CommandGetImportedKeys,
        request: Request<FlightDescriptor>,
    ) -> Answer<FlightInfo> {
        told_info(&catalog::foreign_keys_schema(), query, request)
    }

    async fn do_get_imported_keys(
        &self,
        query: CommandGetImportedKeys,
        request: Request<Ticket>,
    ) -> Answer<Rows> {
        let CommandGetImportedKeys { catalog, db_schema: schema, table } = query;
        let child = Wanted { catalog, schema, table };
        self.told(&request, move |reader, stop| {
            catalog::foreign_keys(reader, stop, None, Some(&child))
        })
        .await
    }

    async fn get_flight_info_cross_reference(
        &self,
        query: CommandGetCrossReference,
        request: Request<FlightDescriptor>,
    ) -> Answer<FlightInfo> {
        told_info(&catalog::foreign_keys_schema(), query, request)
    }

    async fn do_get_cross_reference(
        &self,
        query: CommandGetCrossReference,
        request: Request<Ticket>,
    ) -> Answer<Rows> {
        let parent =
            Wanted { catalog: query.pk_catalog, schema: query.pk_db_schema, table: query.pk_table };
        let child =
            Wanted { catalog: query.fk_catalog, schema: query.fk_db_schema, table: query.fk_table };
        self.told(&request, move |reader, stop| {
            catalog::foreign_keys(reader, stop, Some(&parent), Some(&child))
        })
        .await
    }

    async fn do_get_fallback(&self, _: Request<Ticket>, message: Any) -> Answer<Rows> {
        Err(Status::unimplemented(format!("this server knows no {}", message.type_url)))
    }

    async fn register_sql_info(&self, _: i32, _: &SqlInfo) {}
}
