//! `shoal flight`: a database for clients of Arrow Flight SQL, in builds with the feature `flight`.

use crate::args::flight::FlightArgs;
use crate::failure::Failure;

#[cfg(feature = "flight")]
pub(crate) use with::run;

#[cfg(not(feature = "flight"))]
pub(crate) fn run(_: &FlightArgs) -> Result<(), Failure> {
    Err(Failure::new("this shoal was built without its Flight SQL server")
        .hint("cargo install --path crates/shoal-cli --features flight builds one with it"))
}

#[cfg(feature = "flight")]
mod with {
    use shoal_flight::{DoorOptions, Error, Options, RulesFor, Types};

    use super::{Failure, FlightArgs};
    use crate::args::flight::ColumnTypes;
    use crate::verbs::serve::{Stop, runtime, timeout};
    use crate::verbs::token::{read_token, token_file};
    use crate::{keys, open, out};

    pub(crate) fn run(args: &FlightArgs) -> Result<(), Failure> {
        if !open::exists(&args.database)? {
            return Err(Failure::at(args.database.display(), "no such file"));
        }
        let time = timeout(args.timeout)?;
        let environment = keys::environment();
        let token = args.token_file.as_deref().map(read_token).transpose()?;
        let policy = args.tokens.as_deref().map(|file| token_file(&environment, file));
        let door = DoorOptions {
            listen: args.listen,
            token,
            policy: policy.transpose()?,
            tls: args.tls_cert.clone().zip(args.tls_key.clone()),
        };
        let principal = args.principal.clone();
        let options = Options {
            rules: args.rules.clone().map(|file| RulesFor { file, principal }),
            types: match args.types {
                ColumnTypes::Declared => Types::Declared,
                ColumnTypes::Values => Types::Values,
            },
            statements: args.statements.into(),
            time,
            ..Options::new(environment, args.database.clone())
        };
        let failed = |error: Error| match error {
            error @ Error::Database(_) => open::about(&args.database, &error),
            Error::Rules(why) => match &args.rules {
                Some(rules) => Failure::at(rules.display(), why),
                None => Failure::new(why),
            },
            error @ Error::Unguarded(shoal_server::Unguarded::Open(_)) => {
                Failure::new(error).hint("--token-file FILE asks for one")
            }
            Error::Io(error) => Failure::at(args.listen, error),
            error => Failure::new(error),
        };
        let s = if door.tls.is_some() { "+tls" } else { "" };
        let runtime = runtime()?;
        let ended = runtime.block_on(async {
            let stop = Stop::new()?;
            let server = shoal_flight::serve(options, door).await.map_err(failed)?;
            let address = server.address();
            let database = args.database.display();
            out::note(format_args!("{database}: Flight SQL at grpc{s}://{address}"));
            stop.asked().await;
            out::note("stopping");
            server.stop().await;
            Ok(())
        });
        // A statement in the middle of a long step is not waited for: it writes nothing.
        runtime.shutdown_background();
        ended
    }
}
