//! The desk: statements on threads, each with a connection of its own, within its bounds.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use arrow_flight::FlightData;
use arrow_flight::encode::FlightDataEncoderBuilder;
use arrow_flight::error::FlightError;
use futures_util::stream::{self, BoxStream};
use futures_util::{StreamExt, TryStreamExt};
use shoal::Environment;
use tokio::runtime::Handle;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, watch};
use tonic::Status;

use crate::kept::{KeptResult, KeptRows};
use crate::prepared::PreparedStatements;
use crate::question::{Question, ResultTicket};
use crate::readers::{Caller, Reader, Readers, not_narrowed};
use crate::results::{self, Look, Part};
use crate::stop::{CancelOnDrop, Stop};
use crate::{Error, Options, Types};

/// Statements waiting for others to end; beyond, clients are told to come later.
const WAITING_MAX: usize = 64;
/// Parts of an answer waiting for the network.
const PARTS: usize = 2;

/// Data on its way to a client.
pub(crate) type Data = BoxStream<'static, Result<FlightData, Status>>;

/// A way to the file for any number of clients.
pub(crate) struct Desk {
    readers: Arc<Readers>,
    pub(crate) environment: Environment,
    pub(crate) types: Types,
    pub(crate) prepared: PreparedStatements,
    kept: KeptRows,
    /// The principal of every caller; `None` without rules, and where each request has its own.
    principal: Caller,
    time: Duration,
    permits: Arc<Semaphore>,
    waiting: AtomicUsize,
    stopping: watch::Receiver<bool>,
}

impl Desk {
    /// Opens the file. Blocks.
    ///
    /// # Errors
    /// [`Error::Database`], [`Error::Rules`].
    pub(crate) fn open(options: &Options, stopping: watch::Receiver<bool>) -> Result<Desk, Error> {
        let readers = Readers::open(options)?;
        let principal = options.rules.as_ref().and_then(|rules| rules.principal.as_deref());
        Ok(Desk {
            readers,
            environment: options.environment.clone(),
            types: options.types,
            prepared: PreparedStatements::default(),
            kept: KeptRows::default(),
            principal: principal.map(Arc::from),
            time: options.time,
            permits: Arc::new(Semaphore::new(options.statements.max(1))),
            waiting: AtomicUsize::new(0),
            stopping,
        })
    }

    /// The longest time of a statement.
    pub(crate) fn time(&self) -> Duration {
        self.time
    }

    /// The caller behind a request: the one principal of the server, or the request's own.
    pub(crate) fn caller(&self, of_request: Caller) -> Caller {
        self.principal.clone().or(of_request)
    }

    /// An unguessable name.
    pub(crate) fn new_name(&self) -> Vec<u8> {
        let mut bytes = vec![0; 16];
        self.environment.fill(&mut bytes);
        bytes
    }

    /// Asks for a caller. Statements end with their time, with the server, and once the returned
    /// future is dropped.
    ///
    /// # Errors
    /// The question's own failure, failures of a caller without grants and of a busy server.
    pub(crate) async fn ask<T: Send + 'static>(
        self: &Arc<Self>,
        caller: &Caller,
        question: impl FnOnce(&mut Reader, &Stop) -> Result<T, Status> + Send + 'static,
    ) -> Result<T, Status> {
        let stop = Stop::begin(self.time, self.stopping.clone());
        let _cancel = CancelOnDrop(Arc::clone(&stop));
        self.run(caller, stop, question).await
    }

    async fn run<T: Send + 'static>(
        self: &Arc<Self>,
        caller: &Caller,
        stop: Arc<Stop>,
        question: impl FnOnce(&mut Reader, &Stop) -> Result<T, Status> + Send + 'static,
    ) -> Result<T, Status> {
        let permit = tokio::select! {
            permit = self.permit() => permit?,
            () = stop.over() => {
                return Err(stop.reason().unwrap_or_else(|| Status::cancelled("cancelled")));
            }
        };
        let (readers, caller) = (Arc::clone(&self.readers), caller.clone());
        let work = move || {
            let _permit = permit;
            stop.check()?;
            let mut reader = readers.reader(&caller).map_err(|error| not_narrowed(&error))?;
            stop.interrupt_by(reader.interrupter());
            // Dropped before the reader, whose connection then is another client's.
            let _done = Done(&stop);
            question(&mut reader, &stop)
        };
        match tokio::task::spawn_blocking(work).await {
            Ok(answer) => answer,
            Err(_) => Err(Status::internal("a fault of this program ended the statement")),
        }
    }

    /// Waits for a place among the running statements.
    async fn permit(&self) -> Result<OwnedSemaphorePermit, Status> {
        let permits = Arc::clone(&self.permits);
        if let Ok(permit) = Arc::clone(&permits).try_acquire_owned() {
            return Ok(permit);
        }
        let _place = Place::among(&self.waiting)?;
        let permit = permits.acquire_owned().await;
        permit.map_err(|_| Status::unavailable("the server is stopping"))
    }

    /// Looks at a question: the types of its columns, and the ticket for its rows.
    ///
    /// # Errors
    /// As [`Desk::ask`].
    pub(crate) async fn look(
        self: &Arc<Self>,
        caller: &Caller,
        question: Question,
    ) -> Result<Asked, Status> {
        let (types, its_question) = (self.types, question.clone());
        let generation = self.readers.generation();
        let look =
            self.ask(caller, move |reader, stop| results::look(reader, &its_question, types, stop));
        let Look { shape, rows } = look.await?;
        let kinds = shape.kinds();
        let (mut name, mut count) = (Vec::new(), None);
        if let Some(batches) = rows {
            name = self.new_name();
            count = Some(batches.iter().map(|batch| batch.num_rows()).sum());
            let kept = KeptResult { schema: Arc::clone(&shape.schema), batches };
            self.kept.put(name.clone(), caller, generation, kept);
        }
        let ticket = ResultTicket { question: Some(question), kinds, name };
        Ok(Asked { schema: shape.schema, ticket, count })
    }

    /// The rows of a ticket.
    ///
    /// # Errors
    /// As [`Desk::ask`], for failures before the first row; later ones are the stream's last item.
    pub(crate) async fn fetch(
        self: &Arc<Self>,
        caller: Caller,
        ticket: &[u8],
    ) -> Result<Data, Status> {
        let (question, kinds, name) = ResultTicket::read(ticket)?;
        let kept = match name.is_empty() {
            true => None,
            false => self.kept.take(&name, &caller, self.readers.generation()),
        };
        if let Some(KeptResult { schema, batches }) = kept {
            let batches = stream::iter(batches.into_iter().map(Ok));
            return Ok(encoded(batches, schema));
        }
        let (sender, mut parts) = mpsc::channel(PARTS);
        let stop = Stop::begin(self.time, self.stopping.clone());
        let cancel = CancelOnDrop(Arc::clone(&stop));
        let (desk, types, handle) = (Arc::clone(self), self.types, Handle::current());
        tokio::spawn(async move {
            let its_sender = sender.clone();
            let work = move |reader: &mut Reader, stop: &Stop| {
                let mut send = |part: Part| {
                    handle.block_on(async {
                        tokio::select! {
                            sent = its_sender.send(part) => sent.is_ok(),
                            () = stop.over() => false,
                        }
                    })
                };
                results::send(reader, &question, &kinds, types, stop, &mut send)?;
                // Unsent rows are a failure, and not the end of the rows.
                stop.check()
            };
            let last = match desk.run(&caller, stop, work).await {
                Ok(()) => Part::End,
                Err(status) => Part::Failed(status),
            };
            // Nobody may be there to be told.
            let _ = sender.send(last).await;
        });
        let schema = match parts.recv().await {
            Some(Part::Schema(schema)) => schema,
            Some(Part::Failed(status)) => return Err(status),
            _ => return Err(cut_short()),
        };
        let batches = stream::unfold(Some((parts, cancel)), |state| async move {
            let (mut parts, cancel) = state?;
            match parts.recv().await {
                Some(Part::Rows(batch)) => Some((Ok(batch), Some((parts, cancel)))),
                Some(Part::End) => None,
                Some(Part::Failed(status)) => Some((Err(status.into()), None)),
                Some(Part::Schema(_)) | None => Some((Err(cut_short().into()), None)),
            }
        });
        Ok(encoded(batches, schema))
    }
}

/// A question with its ticket.
pub(crate) struct Asked {
    pub(crate) schema: arrow_schema::SchemaRef,
    pub(crate) ticket: ResultTicket,
    /// The number of rows, where they were counted.
    pub(crate) count: Option<usize>,
}

fn cut_short() -> Status {
    Status::internal("the rows were cut short by a fault of this program, or by its end")
}

/// Batches as messages of Flight.
pub(crate) fn encoded(
    batches: impl futures_util::Stream<Item = Result<arrow_array::RecordBatch, FlightError>>
    + Send
    + 'static,
    schema: arrow_schema::SchemaRef,
) -> Data {
    let data = FlightDataEncoderBuilder::new().with_schema(schema).build(batches);
    data.map_err(Status::from).boxed()
}

/// A place among the waiting statements.
struct Place<'w>(&'w AtomicUsize);

impl Place<'_> {
    fn among(waiting: &AtomicUsize) -> Result<Place<'_>, Status> {
        if waiting.fetch_add(1, Ordering::Relaxed) >= WAITING_MAX {
            waiting.fetch_sub(1, Ordering::Relaxed);
            let why = "the server is busy: too many statements wait already; ask again in a moment";
            return Err(Status::resource_exhausted(why));
        }
        Ok(Place(waiting))
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Marks a statement as done, also where it panics.
struct Done<'s>(&'s Stop);

impl Drop for Done<'_> {
    fn drop(&mut self) {
        self.0.done();
    }
}
