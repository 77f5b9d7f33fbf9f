//! `shoal token`: tokens for whoever may use a sync server.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use shoal::Environment;
use shoal_server::DocumentId;
use shoal_server::token::{Grant, Issued, SecretKey, Tokens};

use crate::args::token::{TokenLsArgs, TokenNewArgs, TokenRevokeArgs, TokenVerb};
use crate::failure::Failure;
use crate::{out, time};

pub(crate) fn run(verb: &TokenVerb) -> Result<(), Failure> {
    match verb {
        TokenVerb::New(args) => new(args),
        TokenVerb::Ls(args) => ls(args),
        TokenVerb::Revoke(args) => revoke(args),
    }
}

/// A new file, readable by its owner alone.
pub(crate) fn write_secret(path: &Path, text: &str) -> io::Result<()> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut file = options.open(path)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()
}

/// The shortest token asked of every request: shorter ones can be tried out.
#[cfg(any(feature = "flight", feature = "mcp"))]
const TOKEN_MIN: usize = 16;

/// The one token of a door, from its file.
#[cfg(any(feature = "flight", feature = "mcp"))]
pub(crate) fn read_token(path: &Path) -> Result<String, Failure> {
    let text = fs::read_to_string(path).map_err(|error| Failure::at(path.display(), error))?;
    let token = text.trim().to_owned();
    let is_plain = token.bytes().all(|byte| byte.is_ascii_graphic());
    match token.len() >= TOKEN_MIN && is_plain {
        true => Ok(token),
        false => {
            let why = format_args!(
                "a token has at least {TOKEN_MIN} letters, digits and signs, and no spaces"
            );
            Err(Failure::at(path.display(), why))
        }
    }
}

/// The tokens of principals at a door, by their file.
#[cfg(any(feature = "flight", feature = "mcp"))]
pub(crate) fn token_file(
    environment: &Environment,
    file: &Path,
) -> Result<std::sync::Arc<dyn shoal_server::SharePolicy>, Failure> {
    match shoal_server::TokenFile::open(environment.clone(), file) {
        Ok(tokens) => Ok(std::sync::Arc::new(tokens)),
        Err(why) => Err(Failure::at(file.display(), why)
            .hint(format_args!("shoal token new {} --as NAME makes it", file.display()))),
    }
}

fn key_path(file: &Path) -> PathBuf {
    let mut path = file.as_os_str().to_owned();
    path.push(".key");
    PathBuf::from(path)
}

/// Lock of the file of tokens, held until dropped: of two changing commands at once the second
/// waits, and keeps the changes of the first.
fn hold(file: &Path) -> Result<File, Failure> {
    let at = |error: io::Error| Failure::at(file.display(), error);
    loop {
        let held = File::open(file).map_err(at)?;
        held.lock().map_err(at)?;
        // The holder before has put another file into the place of this one.
        #[cfg(unix)]
        {
            use std::os::unix::fs::MetadataExt;
            let (ours, now) = (held.metadata().map_err(at)?, fs::metadata(file).map_err(at)?);
            if (ours.dev(), ours.ino()) != (now.dev(), now.ino()) {
                continue;
            }
        }
        return Ok(held);
    }
}

fn read(file: &Path) -> Result<Tokens, Failure> {
    let text = fs::read_to_string(file).map_err(|error| Failure::at(file.display(), error))?;
    if text.is_empty() {
        // Made a moment ago, by the first token.
        return Ok(Tokens::default());
    }
    Tokens::parse(&text).map_err(|why| Failure::at(file.display(), why))
}

fn write(file: &Path, tokens: &Tokens) -> Result<(), Failure> {
    let written = shoal_vfs::replace_file(file, tokens.to_text().as_bytes());
    written.map_err(|error| Failure::at(file.display(), error))
}

/// The secret key, made with the first token.
fn key(environment: &Environment, file: &Path, tokens: &mut Tokens) -> Result<SecretKey, Failure> {
    let path = key_path(file);
    let at = |error: io::Error| Failure::at(path.display(), error);
    let secret = match fs::read_to_string(&path) {
        Ok(text) => SecretKey::parse(&text)
            .ok_or_else(|| Failure::at(path.display(), "not a key of 64 hexadecimal digits"))?,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let mut bytes = [0; 32];
            environment.fill(&mut bytes);
            let secret = SecretKey::from_bytes(&bytes);
            write_secret(&path, &(secret.to_text() + "\n")).map_err(at)?;
            secret
        }
        Err(error) => return Err(at(error)),
    };
    let public = secret.public_text();
    if !tokens.keys.contains(&public) {
        tokens.keys.push(public);
    }
    Ok(secret)
}

/// Seconds of a text such as `30d`; `None` for `never`.
fn seconds(text: &str) -> Result<Option<u64>, Failure> {
    if text == "never" {
        return Ok(None);
    }
    let split = text.len().checked_sub(1).and_then(|at| text.split_at_checked(at));
    let lasts = split.and_then(|(number, unit)| {
        let unit = match unit {
            "s" => 1,
            "m" => 60,
            "h" => 3_600,
            "d" => 86_400,
            _ => return None,
        };
        number.parse::<u64>().ok()?.checked_mul(unit)
    });
    let why = "a time is a number with s, m, h or d behind it, or never";
    lasts.map(Some).ok_or_else(|| Failure::at(format_args!("--expires {text}"), why))
}

fn new(args: &TokenNewArgs) -> Result<(), Failure> {
    let environment = Environment::os();
    let lasts = seconds(&args.expires)?;
    let names_none = args.read.is_empty() && args.write.is_empty();
    if names_none && !args.admin && args.principal.is_none() {
        let why = "a token for nothing: --read DOC, --write DOC, --as NAME or --admin says what it is for";
        return Err(Failure::at("token new", why));
    }
    let now_s = u64::try_from(environment.now_seconds()).unwrap_or(0);
    // Ids in one spelling, patterns as they are.
    let spelled = |texts: &[String]| {
        let texts = texts.iter();
        texts
            .map(|text| DocumentId::parse(text).map_or_else(|_| text.clone(), |id| id.to_string()))
            .collect()
    };
    let id = environment.new_actor().to_string();
    let grant = Grant {
        id: id.chars().take(12).collect(),
        read: spelled(&args.read),
        write: spelled(&args.write),
        admin: args.admin,
        principal: args.principal.clone(),
        expires: lasts.map(|lasts| now_s.saturating_add(lasts)),
    };
    grant.access().map_err(|why| Failure::at("token new", why))?;
    let made = OpenOptions::new().write(true).create_new(true).open(&args.file);
    if let Err(error) = made
        && error.kind() != io::ErrorKind::AlreadyExists
    {
        return Err(Failure::at(args.file.display(), error));
    }
    let _held = hold(&args.file)?;
    let mut tokens = read(&args.file)?;
    let key = key(&environment, &args.file, &mut tokens)?;
    let token = key.sign(&grant).map_err(|why| Failure::at("token new", why))?;
    let id = grant.id.clone();
    tokens.issued.push(Issued { grant, note: args.note.clone().unwrap_or_default() });
    write(&args.file, &tokens)?;
    out::note(format_args!("{id}: shoal token revoke {} {id} takes it back", args.file.display()));
    out::line(token)?;
    Ok(())
}

fn ls(args: &TokenLsArgs) -> Result<(), Failure> {
    let tokens = read(&args.file)?;
    let now_s = u64::try_from(Environment::os().now_seconds()).unwrap_or(0);
    for Issued { grant, note } in &tokens.issued {
        let state = match grant.expires {
            _ if tokens.revoked.contains(&grant.id) => "revoked".to_owned(),
            Some(expires) if expires <= now_s => "expired".to_owned(),
            Some(expires) => {
                format!("until {}", time::utc(i64::try_from(expires).unwrap_or(i64::MAX)))
            }
            None => "for ever".to_owned(),
        };
        let mut rights = Vec::new();
        if grant.admin {
            rights.push("admin".to_owned());
        }
        rights.extend(grant.principal.iter().map(|principal| format!("as {principal}")));
        rights.extend(grant.write.iter().map(|document| format!("write {document}")));
        rights.extend(grant.read.iter().map(|document| format!("read {document}")));
        let note = if note.is_empty() { String::new() } else { format!("  {note}") };
        out::line(format_args!("{}  {state}  {}{note}", grant.id, rights.join(", ")))?;
    }
    Ok(())
}

fn revoke(args: &TokenRevokeArgs) -> Result<(), Failure> {
    let _held = hold(&args.file)?;
    let mut tokens = read(&args.file)?;
    for id in &args.ids {
        if !tokens.issued.iter().any(|issued| issued.grant.id == *id) {
            let why = format_args!("no token of this file has the id {id}");
            return Err(Failure::at(args.file.display(), why)
                .hint(format_args!("shoal token ls {} shows them", args.file.display())));
        }
        if !tokens.revoked.contains(id) {
            tokens.revoked.push(id.clone());
        }
    }
    write(&args.file, &tokens)
}
