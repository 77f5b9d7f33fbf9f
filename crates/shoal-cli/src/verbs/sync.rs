//! `shoal sync`: a database with a server, another database, or a folder.

mod meet;
mod remote;
mod url;

use crate::args::Format;
use crate::args::serve::SyncArgs;
use crate::failure::Failure;
use remote::{Command, Remote};

pub(crate) fn run(args: &SyncArgs) -> Result<(), Failure> {
    if args.stdio {
        return meet::at_stdio(args);
    }
    if let Some(line) = &args.command {
        let command = Command::parse(line).map_err(|why| Failure::at("--command", why).code(2))?;
        // Without another end to name, the first word is a document.
        let documents = args.remote.iter().chain(&args.documents).cloned().collect();
        return meet::with_command(args, &command, documents);
    }
    let Some(remote) = &args.remote else {
        let why = "sync needs another end: a URL, a database, a folder, or --command";
        return Err(Failure::new(why).code(2));
    };
    let found = Remote::parse(remote).map_err(|why| Failure::at(remote, why))?;
    if !matches!(found, Remote::Url) {
        let given = [("--once", args.once), ("--pay", args.pay), ("--ca", args.ca.is_some())];
        if let Some((option, _)) = given.into_iter().find(|(_, is_given)| *is_given) {
            return Err(Failure::at(option, "is for a server's URL").code(2));
        }
    }
    let documents = args.documents.clone();
    match found {
        Remote::Url if args.format == Format::Json => {
            let why = "is for databases and folders: a server is followed without end";
            Err(Failure::at("--format json", why).code(2))
        }
        Remote::Url => url::run(args, remote),
        Remote::Ssh(command) => meet::with_command(args, &command, documents),
        Remote::Folder(folder) => meet::with_folder(args, &folder, documents),
        Remote::File(file) => meet::with_file(args, file, documents),
    }
}
