//! `shoal sync DB URL`: a client of a sync server.

use std::collections::BTreeSet;

use shoal_server::{Client, ClientNews, ClientOptions, Fault};

use crate::args::serve::SyncArgs;
use crate::failure::Failure;
use crate::open;
use crate::out;
use crate::verbs::serve::{Stop, runtime};

pub(super) fn run(args: &SyncArgs, url: &str) -> Result<(), Failure> {
    let options = ClientOptions {
        environment: crate::keys::environment(),
        path: args.database.clone(),
        url: url.to_owned(),
        documents: args.documents.clone(),
        authorities: args.ca.clone(),
        pays: args.pay,
        limits: shoal_server::Limits::default(),
    };
    // Credentials are in the query.
    let shown = url.split('?').next().unwrap_or_default();
    runtime()?.block_on(async {
        let stop = Stop::new()?;
        let mut client = Client::start(options).await.map_err(|error| match error {
            shoal_server::Error::Database(error) => open::about(&args.database, &error),
            error => Failure::new(error),
        })?;
        if client.documents().is_empty() {
            client.stop().await;
            let why = "no document is named by an automerge-repo id";
            return Err(Failure::at(args.database.display(), why)
                .hint("shoal sync DB URL automerge:ID fetches one"));
        }
        let mut waited_for: BTreeSet<_> = client.documents().clone();
        let mut absent = BTreeSet::new();
        let mut refused = BTreeSet::new();
        // The last words of the server say why it ended the connection.
        let mut told: Option<String> = None;
        let asked = stop.asked();
        tokio::pin!(asked);
        loop {
            let news = tokio::select! {
                news = client.next() => news,
                () = &mut asked => break,
            };
            match news {
                Some(ClientNews::Connected { server }) => {
                    out::note(format_args!("{shown}: connected to {server}"));
                }
                Some(ClientNews::Disconnected { why }) if args.once => {
                    client.stop().await;
                    let why = told.unwrap_or(why);
                    let is_unpaid = why == Fault::Unpaid.to_string();
                    let failure = Failure::at(shown, why);
                    return Err(match is_unpaid {
                        true => failure.hint("with --pay this machine works for admission"),
                        false => failure,
                    });
                }
                Some(ClientNews::Disconnected { why }) => {
                    out::note(format_args!("{shown}: {why}; trying again"));
                }
                Some(ClientNews::Paying { difficulty, memory_kib }) => {
                    out::note(format_args!(
                        "{shown}: working for admission: {difficulty} hashes of {memory_kib} KiB"
                    ));
                }
                Some(ClientNews::Told { message }) => {
                    out::note(format_args!("{shown}: {message}"));
                    if args.once && message.ends_with(&Fault::ReadOnly.to_string()) {
                        client.stop().await;
                        return Err(Failure::at(shown, message));
                    }
                    told = Some(message);
                }
                Some(ClientNews::InSync { document }) => {
                    if !args.once {
                        out::note(format_args!("{document}: the same at both ends"));
                    }
                    waited_for.remove(&document);
                }
                Some(ClientNews::Unavailable { document }) => {
                    out::note(format_args!("{document}: the server does not have it"));
                    waited_for.remove(&document);
                    absent.insert(document);
                }
                Some(ClientNews::Refused { document, fault }) => {
                    out::note(format_args!("{document}: not taken in: {fault}"));
                    waited_for.remove(&document);
                    refused.insert(document);
                }
                None => break,
            }
            if args.once && waited_for.is_empty() {
                break;
            }
        }
        client.stop().await;
        if args.once && !absent.is_empty() {
            let why = format_args!("{} documents are at neither end", absent.len());
            return Err(Failure::at(shown, why));
        }
        if args.once && !refused.is_empty() {
            let why = format_args!("{} documents were not taken in", refused.len());
            return Err(Failure::at(shown, why));
        }
        Ok(())
    })
}
