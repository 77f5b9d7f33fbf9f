//! Lines, one JSON object each.

use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use shoal_pow::{TAG_BYTES, Target};
use shoal_stdx::hex;

use crate::source::clean;

/// A line from the pool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Incoming {
    /// The answer to a request.
    Reply {
        /// The request's number; 0 for an unreadable request.
        id: u64,
        /// The result, left out by old pools, or the words of a refusal.
        outcome: Result<Option<Value>, String>,
    },
    /// A job, in place of the one before.
    Job(Job),
    /// Words for people.
    Notice {
        /// The subject.
        kind: String,
        /// The words.
        message: String,
    },
    /// Something this miner does not know.
    Unknown {
        /// Its name.
        method: String,
    },
}

/// A header and a window of nonces.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Job {
    /// Its name, carried by shares.
    pub id: String,
    /// The block header without its nonce.
    pub header: Vec<u8>,
    /// Greatest tag of a share.
    pub target: Target,
    /// Greatest tag of a block.
    pub network_target: Option<Target>,
    /// Hashes a share takes on average, as the pool says.
    pub difficulty: Option<u64>,
    /// Height of the block.
    pub height: u64,
    /// The first nonce to try.
    pub first: u64,
    /// The last one, itself included. At most `2^63 - 1`.
    pub last: u64,
}

/// A malformed line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProtocolError {
    /// The expected structure.
    pub structure: &'static str,
    /// The wrong part.
    pub part: &'static str,
    /// The reason, fit to be shown.
    pub why: String,
}

impl fmt::Display for ProtocolError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}: {}", self.structure, self.part, self.why)
    }
}

impl std::error::Error for ProtocolError {}

impl Incoming {
    /// Reads a line.
    ///
    /// # Errors
    /// [`ProtocolError`], with the message and its part. Unknown members are no error.
    pub fn read(line: &[u8]) -> Result<Self, ProtocolError> {
        let value: Value = serde_json::from_slice(line)
            .map_err(|error| wrong("line", "JSON", clean(&error.to_string())))?;
        let Value::Object(mut members) = value else {
            return Err(wrong("line", "JSON", "not an object"));
        };
        match members.remove("method") {
            None | Some(Value::Null) => {}
            Some(Value::String(method)) => {
                return Self::read_method(&method, members.remove("params"));
            }
            Some(_) => return Err(wrong("line", "method", "not a text")),
        }
        let id = members
            .get("id")
            .and_then(Value::as_u64)
            .ok_or_else(|| wrong("reply", "id", "not a number of a request"))?;
        let outcome = match members.remove("error") {
            None | Some(Value::Null) => Ok(members.remove("result").filter(|v| !v.is_null())),
            Some(Value::String(words)) => Err(clean(&words)),
            Some(other) => Err(clean(&other.to_string())),
        };
        if outcome == Ok(None) && members.get("status").and_then(Value::as_str) != Some("ok") {
            return Err(wrong("reply", "status", "neither ok nor an error"));
        }
        Ok(Self::Reply { id, outcome })
    }

    fn read_method(method: &str, params: Option<Value>) -> Result<Self, ProtocolError> {
        match (method, params) {
            ("job", Some(params)) => Job::read(params).map(Self::Job),
            ("job", None) => Err(wrong("job", "params", "missing")),
            ("notification", Some(Value::String(words))) => {
                Ok(Self::Notice { kind: "pool_notice".to_owned(), message: clean(&words) })
            }
            ("notification", Some(params)) => {
                let part = |name: &'static str| {
                    let text = params.get(name).and_then(Value::as_str);
                    text.map(clean).ok_or_else(|| wrong("notification", name, "not a text"))
                };
                Ok(Self::Notice { kind: part("kind")?, message: part("message")? })
            }
            (method, _) => Ok(Self::Unknown { method: clean(method) }),
        }
    }
}

impl Job {
    fn read(params: Value) -> Result<Self, ProtocolError> {
        #[derive(Deserialize)]
        struct Params {
            job_id: String,
            header_base: String,
            target: String,
            #[serde(default)]
            difficulty: Option<u64>,
            #[serde(default)]
            network_target: Option<String>,
            height: u64,
            nonce_start: u64,
            nonce_end: u64,
        }
        let params: Params = serde_json::from_value(params)
            .map_err(|error| wrong("job", "params", clean(&error.to_string())))?;
        if params.job_id.is_empty() || params.job_id.len() > JOB_ID_MAX {
            return Err(wrong("job", "job_id", format!("{} bytes long", params.job_id.len())));
        }
        let header = hex::decode(&params.header_base)
            .map_err(|error| wrong("job", "header_base", error.to_string()))?;
        if !(HEADER_MIN..=HEADER_MAX).contains(&header.len()) {
            return Err(wrong("job", "header_base", format!("{} bytes long", header.len())));
        }
        let target = |part, text: &str| {
            let bytes = hex::decode(text).map_err(|error| wrong("job", part, error.to_string()))?;
            let length = bytes.len();
            let bytes: [u8; TAG_BYTES] =
                bytes.try_into().map_err(|_| wrong("job", part, format!("{length} bytes long")))?;
            Ok(Target::from_bytes(bytes))
        };
        let (first, last) = (params.nonce_start, params.nonce_end);
        if first > last {
            return Err(wrong("job", "nonce_end", format!("before the start: {last}")));
        }
        if last > NONCE_MAX {
            return Err(wrong("job", "nonce_end", format!("past 2^63 - 1: {last}")));
        }
        let network_target = match &params.network_target {
            Some(text) => Some(target("network_target", text)?),
            None => None,
        };
        Ok(Self {
            header,
            target: target("target", &params.target)?,
            network_target,
            difficulty: params.difficulty,
            height: params.height,
            first,
            last,
            id: params.job_id,
        })
    }
}

/// Offers and demands of a pool.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub(crate) struct LoginResult {
    #[serde(default)]
    pub(crate) protocol_version: Option<u64>,
    #[serde(default)]
    pub(crate) capabilities: Vec<String>,
    #[serde(default)]
    pub(crate) required_capabilities: Vec<String>,
}

/// An accepted share.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub(crate) struct SubmitResult {
    /// Old pools say nothing for a yes.
    #[serde(default = "yes")]
    pub(crate) accepted: bool,
    #[serde(default)]
    pub(crate) verified: bool,
    #[serde(default)]
    pub(crate) difficulty: Option<u64>,
}

fn yes() -> bool {
    true
}

/// A request.
#[derive(Debug, Serialize)]
pub(crate) struct Request<P> {
    pub(crate) id: u64,
    pub(crate) method: &'static str,
    pub(crate) params: P,
}

#[derive(Debug, Serialize)]
pub(crate) struct LoginParams<'a> {
    pub(crate) address: &'a str,
    pub(crate) worker: &'a str,
    pub(crate) protocol_version: u64,
    pub(crate) capabilities: &'a [&'a str],
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) difficulty_hint: Option<u64>,
}

#[derive(Debug, Serialize)]
pub(crate) struct SubmitParams<'a> {
    pub(crate) job_id: &'a str,
    pub(crate) nonce: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) claimed_hash: Option<String>,
}

impl<P: Serialize> Request<P> {
    /// The line, with its line feed.
    pub(crate) fn line(&self) -> Vec<u8> {
        let mut line = serde_json::to_vec(self).expect("texts and numbers are JSON");
        line.push(b'\n');
        line
    }
}

fn wrong(structure: &'static str, part: &'static str, why: impl Into<String>) -> ProtocolError {
    ProtocolError { structure, part, why: why.into() }
}

const JOB_ID_MAX: usize = 128;
/// The shortest salt of Argon2.
const HEADER_MIN: usize = 8;
const HEADER_MAX: usize = 4096;
/// Nonces fit the signed numbers of pools.
const NONCE_MAX: u64 = i64::MAX as u64;

#[cfg(test)]
mod tests {
    use super::*;

    fn job_line(changes: &str) -> String {
        let mut params = serde_json::json!({
            "job_id": "0123456789abcdef", "header_base": "5a".repeat(92),
            "target": "0f".repeat(32), "difficulty": 16, "height": 7,
            "nonce_start": 5_000_000, "nonce_end": 5_999_999,
        });
        let changes: Value = serde_json::from_str(changes).unwrap();
        for (name, value) in changes.as_object().unwrap() {
            if value.is_null() {
                params.as_object_mut().unwrap().remove(name);
            } else {
                params[name] = value.clone();
            }
        }
        serde_json::json!({ "method": "job", "params": params }).to_string()
    }

    #[test]
    fn a_job_is_read() {
        let line = job_line(&format!(r#"{{"network_target": "{}", "new": 1}}"#, "00".repeat(32)));
        let Ok(Incoming::Job(job)) = Incoming::read(line.as_bytes()) else { panic!("{line}") };
        assert_eq!(job.id, "0123456789abcdef");
        assert_eq!(job.header, [0x5a; 92]);
        assert_eq!(job.target.to_bytes(), [0x0f; 32]);
        assert_eq!(job.network_target, Some(Target::from_bytes([0; 32])));
        assert_eq!((job.difficulty, job.height), (Some(16), 7));
        assert_eq!((job.first, job.last), (5_000_000, 5_999_999));
    }

    #[test]
    fn nonces_are_whole_to_the_last_digit() {
        let line =
            job_line(r#"{"nonce_start": 9223372036854775807, "nonce_end": 9223372036854775807}"#);
        let Ok(Incoming::Job(job)) = Incoming::read(line.as_bytes()) else { panic!("{line}") };
        assert_eq!(job.first, 9_223_372_036_854_775_807);
    }

    #[test]
    fn a_bad_job_names_its_part() {
        for (changes, expect) in [
            (r#"{"header_base": "5a"}"#, "job: header_base: 1 bytes long"),
            (
                r#"{"header_base": "5"}"#,
                "job: header_base: hexadecimal text needs an even number of digits: 1",
            ),
            (r#"{"header_base": "zz"}"#, "job: header_base: not a hexadecimal digit at offset: 0"),
            (r#"{"target": "00"}"#, "job: target: 1 bytes long"),
            (r#"{"network_target": "00"}"#, "job: network_target: 1 bytes long"),
            (r#"{"nonce_end": 4999999}"#, "job: nonce_end: before the start: 4999999"),
            (
                r#"{"nonce_end": 9223372036854775808}"#,
                "job: nonce_end: past 2^63 - 1: 9223372036854775808",
            ),
            (r#"{"job_id": ""}"#, "job: job_id: 0 bytes long"),
        ] {
            let error = Incoming::read(job_line(changes).as_bytes()).unwrap_err();
            assert_eq!(error.to_string(), expect);
        }
        let long = format!(r#"{{"header_base": "{}"}}"#, "00".repeat(5000));
        assert!(Incoming::read(job_line(&long).as_bytes()).is_err());
        for changes in [
            r#"{"nonce_start": 1.5}"#,
            r#"{"nonce_start": -1}"#,
            r#"{"nonce_end": 18446744073709551616}"#,
            r#"{"height": null}"#,
            r#"{"job_id": 17}"#,
        ] {
            let error = Incoming::read(job_line(changes).as_bytes()).unwrap_err();
            assert_eq!((error.structure, error.part), ("job", "params"), "{error}");
        }
    }

    #[test]
    fn replies_of_every_form() {
        let read = |line: &str| Incoming::read(line.as_bytes()).unwrap();
        assert_eq!(read(r#"{"id":1,"status":"ok"}"#), Incoming::Reply { id: 1, outcome: Ok(None) });
        assert_eq!(
            read(r#"{"id":7,"error":"low difficulty share","status":null,"result":null}"#),
            Incoming::Reply { id: 7, outcome: Err("low difficulty share".to_owned()) }
        );
        assert_eq!(
            read(r#"{"id":7,"error":{"code":3}}"#),
            Incoming::Reply { id: 7, outcome: Err(r#"{"code":3}"#.to_owned()) }
        );
        let Incoming::Reply { outcome: Ok(Some(result)), .. } =
            read(r#"{"id":7,"status":"ok","result":{"accepted":true,"verified":false}}"#)
        else {
            panic!("it is a result");
        };
        let result: SubmitResult = serde_json::from_value(result).unwrap();
        assert_eq!(result, SubmitResult { accepted: true, verified: false, difficulty: None });
    }

    #[test]
    fn notices_of_both_forms() {
        let notice = |kind: &str, message: &str| Incoming::Notice {
            kind: kind.to_owned(),
            message: message.to_owned(),
        };
        let read = |line: &str| Incoming::read(line.as_bytes());
        assert_eq!(
            read(
                r#"{"method":"notification","params":{"kind":"pool_block_solved","message":"hi"}}"#
            ),
            Ok(notice("pool_block_solved", "hi"))
        );
        assert_eq!(
            read(r#"{"method":"notification","params":"bare"}"#),
            Ok(notice("pool_notice", "bare"))
        );
        assert!(read(r#"{"method":"notification","params":17}"#).is_err());
        assert_eq!(
            read(r#"{"method":"dance","params":[1]}"#),
            Ok(Incoming::Unknown { method: "dance".to_owned() })
        );
    }

    #[test]
    fn requests_are_written_as_pools_read_them() {
        let login = Request {
            id: 1,
            method: "login",
            params: LoginParams {
                address: "A",
                worker: "w",
                protocol_version: 2,
                capabilities: &["x"],
                difficulty_hint: None,
            },
        };
        assert_eq!(
            String::from_utf8(login.line()).unwrap(),
            concat!(
                r#"{"id":1,"method":"login","params":{"address":"A","worker":"w","#,
                r#""protocol_version":2,"capabilities":["x"]}}"#,
                "\n"
            )
        );
        let params =
            SubmitParams { job_id: "j", nonce: NONCE_MAX, claimed_hash: Some("ff".into()) };
        let submit = Request { id: 2, method: "submit", params };
        assert_eq!(
            String::from_utf8(submit.line()).unwrap(),
            concat!(
                r#"{"id":2,"method":"submit","params":{"job_id":"j","#,
                r#""nonce":9223372036854775807,"claimed_hash":"ff"}}"#,
                "\n"
            )
        );
    }
}
