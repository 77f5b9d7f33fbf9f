//! `shoal serve`: a sync server over a database.

use std::fs;

use shoal_server::{ServeOptions, Server};
use tokio::runtime::{Builder, Runtime};

use crate::args::serve::ServeArgs;
use crate::failure::Failure;
use crate::open;
use crate::out;

/// The shortest admin token: shorter ones can be tried out.
const TOKEN_MIN: usize = 16;

pub(crate) fn run(args: &ServeArgs) -> Result<(), Failure> {
    let environment = crate::keys::environment();
    let admin_token = match &args.admin_token_file {
        Some(path) => {
            let text =
                fs::read_to_string(path).map_err(|error| Failure::at(path.display(), error))?;
            let token = text.trim().to_owned();
            if token.len() < TOKEN_MIN {
                let why = format_args!("an admin token has at least {TOKEN_MIN} characters");
                return Err(Failure::at(path.display(), why));
            }
            token
        }
        None => environment.new_actor().to_string(),
    };
    let options = ServeOptions {
        environment,
        path: args.database.clone(),
        listen: args.listen,
        admin_token: admin_token.clone(),
        origins: args.allow_origin.clone(),
        limits: shoal_server::Limits::default(),
    };
    runtime()?.block_on(async {
        let stop = Stop::new()?;
        let server = Server::start(options).await.map_err(|error| match error {
            shoal_server::Error::Io(error) => Failure::at(args.listen, error),
            error => open::about(&args.database, &error),
        })?;
        let address = server.address();
        out::note(format_args!("{}: serving at ws://{address}", args.database.display()));
        match args.admin_token_file {
            Some(_) => out::note(format_args!("page: http://{address}/")),
            None => out::note(format_args!("page: http://{address}/#token={admin_token}")),
        }
        if !address.ip().is_loopback() {
            let whom = "anyone who reaches this address and knows a document's id may change it";
            out::note(whom);
        }
        stop.asked().await;
        out::note("stopping");
        server.stop().await;
        Ok(())
    })
}

/// A runtime for sockets and timers.
pub(crate) fn runtime() -> Result<Runtime, Failure> {
    let built = Builder::new_multi_thread().worker_threads(2).enable_all().build();
    built.map_err(|error| Failure::at("runtime", error))
}

/// The signals by which a user asks for the end.
pub(crate) struct Stop {
    #[cfg(unix)]
    terminate: tokio::signal::unix::Signal,
}

impl Stop {
    pub(crate) fn new() -> Result<Self, Failure> {
        #[cfg(unix)]
        {
            use tokio::signal::unix::{SignalKind, signal};
            let terminate = signal(SignalKind::terminate());
            Ok(Self { terminate: terminate.map_err(|error| Failure::at("signals", error))? })
        }
        #[cfg(not(unix))]
        Ok(Self {})
    }

    /// Waits for Ctrl-C, or for SIGTERM.
    pub(crate) async fn asked(self) {
        #[cfg(unix)]
        {
            let mut terminate = self.terminate;
            tokio::select! {
                _ = tokio::signal::ctrl_c() => {}
                _ = terminate.recv() => {}
            }
        }
        #[cfg(not(unix))]
        let _ = tokio::signal::ctrl_c().await;
    }
}
