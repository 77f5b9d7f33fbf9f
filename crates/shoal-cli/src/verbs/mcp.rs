//! `shoal mcp`: a database for agents, in builds with the feature `mcp`.

use crate::args::mcp::McpArgs;
use crate::failure::Failure;

#[cfg(feature = "mcp")]
pub(crate) use with::run;

#[cfg(not(feature = "mcp"))]
pub(crate) fn run(_: &McpArgs) -> Result<(), Failure> {
    Err(Failure::new("this shoal was built without its MCP server")
        .hint("cargo install --path crates/shoal-cli --features mcp builds one with it"))
}

#[cfg(feature = "mcp")]
mod with {
    use shoal_mcp::{AnswerLimits, Error, HttpOptions, Options, RulesFor};

    use super::{Failure, McpArgs};
    use crate::verbs::serve::{Stop, runtime, timeout};
    use crate::verbs::token::{read_token, token_file};
    use crate::{keys, open, out};

    pub(crate) fn run(args: &McpArgs) -> Result<(), Failure> {
        if !open::exists(&args.database)? {
            return Err(Failure::at(args.database.display(), "no such file"));
        }
        let time = timeout(args.timeout)?;
        let principal = args.principal.clone();
        let rules = args.rules.clone().map(|file| RulesFor { file, principal });
        let token = args.token_file.as_deref().map(read_token).transpose()?;
        let environment = keys::environment();
        let policy = args.tokens.as_deref().map(|file| token_file(&environment, file));
        let policy = policy.transpose()?;
        let options = Options {
            environment,
            path: args.database.clone(),
            is_writable: args.write,
            limits: AnswerLimits {
                rows: args.max_rows as usize,
                bytes: args.max_bytes as usize,
                time,
                ..AnswerLimits::default()
            },
            rules,
        };
        let failed = |error: Error| match error {
            error @ Error::Database(_) => open::about(&args.database, &error),
            Error::Rules(why) => match &args.rules {
                Some(rules) => Failure::at(rules.display(), why),
                None => Failure::new(why),
            },
            error @ Error::Open(_) => Failure::new(error).hint("--token-file FILE asks for one"),
            error => Failure::new(error),
        };
        let runtime = runtime()?;
        let ended = runtime.block_on(async {
            let stop = Stop::new()?;
            let Some(listen) = args.listen else {
                let (read, write) = (tokio::io::stdin(), tokio::io::stdout());
                return tokio::select! {
                    ended = shoal_mcp::serve_streams(options, read, write) => ended.map_err(failed),
                    () = stop.asked() => Ok(()),
                };
            };
            let http = HttpOptions { listen, token, policy, hosts: args.hosts.clone() };
            let server =
                shoal_mcp::serve_http(options, http).await.map_err(|error| match error {
                    Error::Io(error) => Failure::at(listen, error),
                    error => failed(error),
                })?;
            let address = server.address();
            out::note(format_args!("{}: MCP at http://{address}/mcp", args.database.display()));
            stop.asked().await;
            out::note("stopping");
            server.stop().await;
            Ok(())
        });
        // A read of stdin cannot be taken back: the process ends without waiting for it.
        runtime.shutdown_background();
        ended
    }
}
