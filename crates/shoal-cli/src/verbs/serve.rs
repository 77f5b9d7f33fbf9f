//! `shoal serve`: a sync server over a database.

mod samples;

use std::sync::Arc;
use std::{fs, io};

use shoal::Environment;
use shoal_server::{
    AdmissionOptions, Hook, Keys, Open, RelayNews, RelayOptions, Rights, ServeOptions, Server,
    SharePolicy, TokenFile,
};
use tokio::runtime::{Builder, Runtime};

use crate::args::serve::{Anyone, ServeArgs};
use crate::failure::Failure;
use crate::open;
use crate::out;
use crate::verbs::token::write_secret;

/// The shortest admin token: shorter ones can be tried out.
const TOKEN_MIN: usize = 16;

/// The database where none is named.
const DATABASE: &str = "shoal.db";

pub(crate) fn run(args: &ServeArgs) -> Result<(), Failure> {
    let database = args.database.clone().unwrap_or_else(|| DATABASE.into());
    if args.database.is_none() && !database.exists() {
        samples::fill(&database)?;
    }
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
        policy: policy(args, &environment)?,
        admission: admission(args, &environment)?,
        environment,
        path: database.clone(),
        listen: args.listen,
        admin_token: admin_token.clone(),
        origins: args.allow_origin.clone(),
        hosts: args.hosts.clone(),
        tls: args.tls_cert.clone().zip(args.tls_key.clone()),
        metrics: args.metrics_listen,
        rules: args.rules.clone(),
        relay: relay(args),
        limits: shoal_server::Limits::default(),
    };
    let s = if options.tls.is_some() { "s" } else { "" };
    runtime()?.block_on(async {
        let stop = Stop::new()?;
        let server = Server::start(options).await.map_err(|error| match error {
            shoal_server::Error::Io(error) => Failure::at(args.listen, error),
            error @ (shoal_server::Error::Tls(_) | shoal_server::Error::Relay(_)) => {
                Failure::new(error)
            }
            error => open::about(&database, &error),
        })?;
        let address = server.address();
        out::note(format_args!("{}: serving at ws{s}://{address}", database.display()));
        match args.admin_token_file {
            Some(_) => out::note(format_args!("page: http{s}://{address}/")),
            None => out::note(format_args!("page: http{s}://{address}/#token={admin_token}")),
        }
        if let Some(address) = server.metrics_address() {
            out::note(format_args!("metrics: http://{address}/metrics"));
        }
        if !address.ip().is_loopback() && is_open(args) {
            let whom = "anyone who reaches this address and knows a document's id may change it";
            out::note(whom);
        }
        stop.asked().await;
        out::note("stopping");
        server.stop().await;
        Ok(())
    })
}

/// True where nothing is asked of visitors.
fn is_open(args: &ServeArgs) -> bool {
    let none = args.tokens.is_none() && args.ask.is_none() && args.admission.is_none();
    none && args.anyone.is_none_or(|anyone| anyone == Anyone::Write)
}

fn policy(args: &ServeArgs, environment: &Environment) -> Result<Arc<dyn SharePolicy>, Failure> {
    if let Some(file) = &args.tokens {
        let tokens = TokenFile::open(environment.clone(), file);
        let tokens = tokens.map_err(|why| {
            Failure::at(file.display(), why)
                .hint(format_args!("shoal token new {} makes it", file.display()))
        })?;
        return Ok(Arc::new(tokens));
    }
    if let Some(url) = &args.ask {
        return Ok(Arc::new(Hook::new(url).map_err(Failure::new)?));
    }
    let usual = if args.admission.is_some() { Anyone::None } else { Anyone::Write };
    Ok(Arc::new(Open(match args.anyone.unwrap_or(usual) {
        Anyone::None => Rights::None,
        Anyone::Read => Rights::Read,
        Anyone::Write => Rights::Write,
    })))
}

fn relay(args: &ServeArgs) -> Option<RelayOptions> {
    let news = Arc::new(|news| match news {
        RelayNews::Connected { server } => {
            out::note(format_args!("relay: sharing documents over NATS at {server}"));
        }
        RelayNews::Away { why } => {
            out::note(format_args!("relay: NATS is away, edits are published later: {why}"));
        }
    });
    Some(RelayOptions {
        url: args.nats.clone()?,
        name: args.nats_name.clone(),
        replicas: args.nats_replicas.into(),
        authorities: args.nats_ca.clone(),
        news,
    })
}

fn admission(
    args: &ServeArgs,
    environment: &Environment,
) -> Result<Option<AdmissionOptions>, Failure> {
    let Some(path) = &args.admission else { return Ok(None) };
    let at = |error: io::Error| Failure::at(path.display(), error);
    if !path.exists() {
        let mut bytes = [0; 32];
        environment.fill(&mut bytes);
        write_secret(path, &(shoal_stdx::hex::encode(&bytes) + "\n")).map_err(at)?;
    }
    let keys = Keys::parse(&fs::read_to_string(path).map_err(at)?).ok_or_else(|| {
        let why = "a key is a line of 64 hexadecimal digits; the one before it may follow";
        Failure::at(path.display(), why)
    })?;
    Ok(Some(AdmissionOptions {
        memory_kib: args.admission_memory,
        difficulty: args.admission_hashes,
        ticket_s: args.ticket_seconds,
        bytes: args.ticket_bytes,
        documents: args.ticket_documents,
        ..AdmissionOptions::new(keys)
    }))
}

/// The longest run of a call or a statement, as `--timeout` says.
///
/// # Errors
/// A time that no call could use.
#[cfg(any(feature = "flight", feature = "mcp"))]
pub(crate) fn timeout(seconds: f64) -> Result<std::time::Duration, Failure> {
    match (0.01..=86_400.0).contains(&seconds) {
        true => Ok(std::time::Duration::from_secs_f64(seconds)),
        false => Err(Failure::new("--timeout is 0.01 to 86400 seconds").code(2)),
    }
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
