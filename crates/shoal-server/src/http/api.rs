//! The JSON API: documents for whoever may read them, tables as far as rules grant them, everything
//! else for admins.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use axum::Router;
use axum::body::Bytes;
use axum::extract::{Extension, Path, RawQuery, Request, State};
use axum::http::{StatusCode, header};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodRouter, get, post, put};
use serde_json::{Value as Json, json};
use shoal::Database;
use shoal_sync::{DocumentId, Event, Rights};
use subtle::ConstantTimeEq;
use tokio::sync::oneshot;

use super::who::{self, bearer};
use super::{Shared, answer, asset, refusal};
use crate::engine::Input;
use crate::policy::{Credential, Verdict, Visit};
use crate::queries::{self, QueryError};
use crate::storage::{Task, Work};

const OPENAPI: &str = include_str!("../page/openapi.json");
/// The longest name of a document to be denied.
const NAME_MAX: usize = 1_024;

/// Who asks.
#[derive(Clone)]
enum Who {
    /// The admin token, or a token of an admin.
    Admin,
    /// Somebody with a credential: documents they may read, by name, and the tables of a principal.
    Reader(Arc<(Visit, Verdict)>),
}

/// The routes below `/api`, as the OpenAPI document has them.
fn routes() -> Vec<(&'static str, MethodRouter<Shared>)> {
    vec![
        ("/status", get(status)),
        ("/peers", get(peers)),
        ("/documents", get(documents)),
        ("/documents/{name}", get(document).delete(remove)),
        ("/documents/{name}/history", get(history)),
        ("/documents/{name}/export", get(export)),
        ("/denied", get(denied)),
        ("/denied/{name}", put(deny).delete(allow)),
        ("/tables", get(tables)),
        ("/sql", post(sql)),
    ]
}

pub(super) fn router(site: Shared) -> Router<Shared> {
    let asking =
        routes().into_iter().fold(Router::new(), |router, (path, route)| router.route(path, route));
    asking
        .fallback(|| async { refusal(StatusCode::NOT_FOUND, "there is no such path") })
        .layer(middleware::from_fn_with_state(site, identify))
        .route("/openapi.json", get(|| async { asset("application/json", OPENAPI) }))
}

/// Finds out who asks; turns away whoever shows nothing.
async fn identify(State(site): State<Shared>, mut request: Request, next: Next) -> Response {
    let nobody = || refusal(StatusCode::UNAUTHORIZED, "the API asks for a token");
    let given = bearer(request.headers());
    let is_admin =
        given.is_some_and(|given| bool::from(given.as_bytes().ct_eq(site.admin_token.as_bytes())));
    let who = if is_admin {
        Who::Admin
    } else {
        // Of headers alone: a page elsewhere can make a browser send cookies and URLs.
        let Some(token) = given.map(str::to_owned) else { return nobody() };
        let mut visit = who::visit(request.headers(), None, request.extensions());
        visit.credential = Some(Credential::Token(token));
        match site.doorman.judge(&visit) {
            Ok(verdict) if verdict.is_admin => Who::Admin,
            Ok(verdict) if verdict.access.owner.is_some() => {
                Who::Reader(Arc::new((visit, verdict)))
            }
            _ => return nobody(),
        }
    };
    request.extensions_mut().insert(who);
    next.run(request).await
}

/// The refusal of whoever is no admin.
fn admins_only(who: &Who) -> Option<Response> {
    match who {
        Who::Admin => None,
        Who::Reader(_) => {
            Some(refusal(StatusCode::FORBIDDEN, "this part of the API asks for an admin's token"))
        }
    }
}

/// The principal whose tables are asked for; `None` for an admin, who reads all of them.
///
/// # Errors
/// The refusal of whoever is no principal, and of all where there are no rules.
fn principal(site: &Shared, who: &Who) -> Result<Option<String>, Box<Response>> {
    let refused = |why| Err(Box::new(refusal(StatusCode::FORBIDDEN, why)));
    let Who::Reader(reader) = who else { return Ok(None) };
    match &reader.1.principal {
        Some(_) if !site.has_rules => {
            refused("this server has no rules of tables: shoal serve --rules FILE names some")
        }
        Some(principal) => Ok(Some(principal.clone())),
        None => refused("tables ask for an admin's token, or one made by shoal token new --as"),
    }
}

/// True when whoever asks may read a document. Others hear what is said of absent ones.
async fn may_read(site: &Shared, who: &Who, name: &str) -> bool {
    let Who::Reader(reader) = who else { return true };
    // The spelling of the file: another one of the same id names no document.
    let Ok(id) = DocumentId::parse(name) else { return false };
    id.as_str() == name
        && site.doorman.rights(&reader.0, &reader.1, &id).await >= Rights::Read
        && !site.engine.ask(move |hub| hub.is_denied(&id)).await.unwrap_or(true)
}

fn reply(result: Result<Json, QueryError>) -> Response {
    match result {
        Ok(body) => answer(StatusCode::OK, &body),
        Err(error) => failure(&error),
    }
}

fn failure(error: &QueryError) -> Response {
    match error {
        QueryError::Busy => refusal(StatusCode::TOO_MANY_REQUESTS, "too many questions wait"),
        QueryError::Missing => missing(),
        QueryError::Nothing => {
            refusal(StatusCode::FORBIDDEN, "no rule of this server grants you tables")
        }
        QueryError::Failed(why) => refusal(StatusCode::BAD_REQUEST, why),
    }
}

fn missing() -> Response {
    refusal(StatusCode::NOT_FOUND, "there is no such document")
}

fn stopping() -> Response {
    refusal(StatusCode::SERVICE_UNAVAILABLE, "the server is stopping")
}

async fn status(State(site): State<Shared>, Extension(who): Extension<Who>) -> Response {
    if let Some(refused) = admins_only(&who) {
        return refused;
    }
    let Ok((counters, totals)) =
        site.engine.ask(|hub| (hub.counters().clone(), hub.totals())).await
    else {
        return stopping();
    };
    let figure = |figure: &std::sync::atomic::AtomicU64| figure.load(Ordering::Relaxed);
    answer(
        StatusCode::OK,
        &json!({
            "version": env!("CARGO_PKG_VERSION"),
            "connections": totals.connections,
            "peers": totals.joined,
            "documents_in_memory": totals.documents,
            "queued_bytes": totals.queued_bytes,
            "pending_bytes": totals.pending_bytes,
            "received": counters.received,
            "sent": counters.sent,
            "changes": counters.stored,
            "faults": counters.faults,
            "commits": figure(&site.figures.commits),
            "commit_us": figure(&site.figures.commit_us),
            "turned_away": figure(&site.figures.turned_away),
            "has_failed": site.figures.has_failed.load(Ordering::Relaxed),
        }),
    )
}

async fn peers(State(site): State<Shared>, Extension(who): Extension<Who>) -> Response {
    if let Some(refused) = admins_only(&who) {
        return refused;
    }
    let Ok(peers) = site.engine.ask(|hub| hub.peers().collect::<Vec<_>>()).await else {
        return stopping();
    };
    let peers = peers.into_iter().map(|peer| {
        json!({
            "connection": peer.connection.0,
            "peer": peer.name,
            "age_ms": peer.age_ms,
            "documents": peer.documents,
            "behind": peer.behind,
            "queued_bytes": peer.queued_bytes,
            "pending_bytes": peer.pending_bytes,
        })
    });
    answer(StatusCode::OK, &json!({ "peers": peers.collect::<Vec<_>>() }))
}

async fn documents(State(site): State<Shared>, Extension(who): Extension<Who>) -> Response {
    let open = site.engine.ask(|hub| {
        let open = hub.documents().map(|open| (open.id.as_str().to_owned(), open.peers));
        open.collect::<BTreeMap<_, _>>()
    });
    let Ok(open) = open.await else { return stopping() };
    let stored = match site.queries.ask(queries::documents).await {
        Ok(stored) => stored,
        Err(error) => return failure(&error),
    };
    let mut shown = Vec::with_capacity(stored.len());
    for mut document in stored {
        let name = document["name"].as_str().unwrap_or_default().to_owned();
        let id = DocumentId::parse(&name).ok().filter(|id| id.as_str() == name);
        if let Who::Reader(reader) = &who {
            // A server that is asked about each document is not asked about all of them.
            let Some(id) = &id else { continue };
            let rights = reader.1.access.to(id);
            if rights == Rights::None || !may_read(&site, &who, &name).await {
                continue;
            }
        }
        document["peers"] = json!(open.get(&name).copied().unwrap_or(0));
        // Documents are shared by their ids; others are here for SQL and the command line.
        document["is_shared"] = json!(id.is_some());
        shown.push(document);
    }
    answer(StatusCode::OK, &json!({ "documents": shown }))
}

async fn document(
    State(site): State<Shared>,
    Extension(who): Extension<Who>,
    Path(name): Path<String>,
    RawQuery(query): RawQuery,
) -> Response {
    if !may_read(&site, &who, &name).await {
        return missing();
    }
    let at = match who::member(query.as_deref(), "at").map(|at| at.parse()) {
        None => None,
        Some(Ok(at)) => Some(at),
        // The present would be a wrong answer.
        Some(Err(_)) => {
            return refusal(StatusCode::BAD_REQUEST, "at is the number of a change, from 0");
        }
    };
    reply(site.queries.ask(move |database| queries::document(database, &name, at)).await)
}

async fn history(
    State(site): State<Shared>,
    Extension(who): Extension<Who>,
    Path(name): Path<String>,
) -> Response {
    if !may_read(&site, &who, &name).await {
        return missing();
    }
    reply(site.queries.ask(move |database| queries::history(database, &name)).await)
}

/// The document as an Automerge file.
async fn export(
    State(site): State<Shared>,
    Extension(who): Extension<Who>,
    Path(name): Path<String>,
) -> Response {
    if !may_read(&site, &who, &name).await {
        return missing();
    }
    match site.queries.ask(move |database| queries::export(database, &name)).await {
        Ok(bytes) => ([(header::CONTENT_TYPE, "application/vnd.automerge")], bytes).into_response(),
        Err(error) => failure(&error),
    }
}

/// Runs a task on the storage's thread, behind what was stored before.
async fn on_storage<T: Send + 'static>(
    site: &Shared,
    task: impl FnOnce(&mut Database) -> Result<T, shoal::Error> + Send + 'static,
) -> Result<T, QueryError> {
    let (answer, asked) = oneshot::channel();
    let task: Task = Box::new(move |database| {
        let _ = answer.send(task(database));
    });
    let closed = || QueryError::Failed("the server is stopping".to_owned());
    site.engine.send(Input::Work(Work::Task(task))).await.map_err(|_| closed())?;
    match asked.await {
        Ok(Ok(value)) => Ok(value),
        Ok(Err(shoal::Error::NoDocument { .. })) => Err(QueryError::Missing),
        Ok(Err(error)) => Err(QueryError::Failed(error.to_string())),
        Err(_) => Err(closed()),
    }
}

/// Removes a document from the file, and closes it for everyone. With `?deny=true` it is denied
/// first; without, the next client that has it brings it back.
async fn remove(
    State(site): State<Shared>,
    Extension(who): Extension<Who>,
    Path(name): Path<String>,
    RawQuery(query): RawQuery,
) -> Response {
    if let Some(refused) = admins_only(&who) {
        return refused;
    }
    if who::member(query.as_deref(), "deny").is_some_and(|deny| deny == "true")
        && let Err(error) = set_denied(&site, &name, true).await
    {
        return failure(&error);
    }
    if let Ok(document) = DocumentId::parse(&name)
        && site.engine.send(Input::Event(Event::Expel { document })).await.is_err()
    {
        return stopping();
    }
    let removed = on_storage(&site, move |database| database.remove(&name)).await;
    reply(removed.map(|()| json!({ "removed": true })))
}

async fn set_denied(site: &Shared, name: &str, is_denied: bool) -> Result<(), QueryError> {
    if name.len() > NAME_MAX {
        return Err(QueryError::Failed(format!("a name has at most {NAME_MAX} bytes")));
    }
    let stored = name.to_owned();
    on_storage(site, move |database| database.set_denied(&stored, is_denied)).await?;
    if let Ok(document) = DocumentId::parse(name) {
        let deny = Event::Deny { document, is_denied };
        let sent = site.engine.send(Input::Event(deny)).await;
        sent.map_err(|_| QueryError::Failed("the server is stopping".to_owned()))?;
    }
    Ok(())
}

async fn denied(State(site): State<Shared>, Extension(who): Extension<Who>) -> Response {
    if let Some(refused) = admins_only(&who) {
        return refused;
    }
    let names = on_storage(&site, Database::denied).await;
    reply(names.map(|names| json!({ "denied": names })))
}

async fn deny(
    State(site): State<Shared>,
    Extension(who): Extension<Who>,
    Path(name): Path<String>,
) -> Response {
    mark_denied(&site, &who, name, true).await
}

async fn allow(
    State(site): State<Shared>,
    Extension(who): Extension<Who>,
    Path(name): Path<String>,
) -> Response {
    mark_denied(&site, &who, name, false).await
}

async fn mark_denied(site: &Shared, who: &Who, name: String, is_denied: bool) -> Response {
    if let Some(refused) = admins_only(who) {
        return refused;
    }
    // One spelling for a document, whatever it was given by.
    let name = DocumentId::parse(&name).map_or(name, |id| id.as_str().to_owned());
    let done = set_denied(site, &name, is_denied).await;
    let word = if is_denied { "denied" } else { "allowed" };
    reply(done.map(|()| json!({ word: name })))
}

async fn tables(State(site): State<Shared>, Extension(who): Extension<Who>) -> Response {
    match principal(&site, &who) {
        Err(refused) => *refused,
        Ok(None) => reply(site.queries.ask(queries::tables).await),
        Ok(Some(principal)) => reply(site.queries.ask_as(principal, queries::tables_of).await),
    }
}

async fn sql(State(site): State<Shared>, Extension(who): Extension<Who>, body: Bytes) -> Response {
    let principal = match principal(&site, &who) {
        Ok(principal) => principal,
        Err(refused) => return *refused,
    };
    let Ok(sql) = String::from_utf8(body.into()) else {
        return refusal(StatusCode::BAD_REQUEST, "the statement is not UTF-8");
    };
    reply(match principal {
        None => site.queries.ask(move |database| queries::query(database, &sql)).await,
        Some(principal) => {
            site.queries.ask_as(principal, move |it| queries::query_of(it, &sql)).await
        }
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// The document names every route, and no other.
    #[test]
    fn the_openapi_document_is_of_these_routes() {
        let document: Json = serde_json::from_str(OPENAPI).expect("the document is JSON");
        let paths = document["paths"].as_object().expect("the document has paths");
        let documented: BTreeSet<String> =
            paths.keys().filter_map(|path| path.strip_prefix("/api")).map(str::to_owned).collect();
        let mut served: BTreeSet<String> =
            routes().into_iter().map(|(path, _)| path.to_owned()).collect();
        served.insert("/openapi.json".to_owned());
        assert_eq!(documented, served);
    }
}
