//! `POST /admission`: challenges for nothing, tickets for stamps; the script by which pages pay.

use axum::body::Bytes;
use axum::extract::{Extension, State};
use axum::http::StatusCode;
use axum::response::Response;
use axum::routing::{MethodRouter, post};
use base64ct::{Base64UrlUnpadded, Encoding};
use serde_json::{Value as Json, json};
use shoal_pow::Target;

use super::{PAYING, Shared, answer, asset, refusal};
use crate::accept::From;
use crate::admission::Unpaid;

pub(super) fn route() -> MethodRouter<Shared> {
    // Browsers ask before they send JSON to another origin.
    post(admit).options(|| async { StatusCode::NO_CONTENT })
}

pub(super) async fn script(State(site): State<Shared>) -> Response {
    match site.admission {
        Some(_) => asset("text/javascript; charset=utf-8", PAYING),
        None => refusal(StatusCode::NOT_FOUND, "there is no such path"),
    }
}

fn unpaid(unpaid: Unpaid) -> Response {
    let status = match unpaid {
        Unpaid::TooMany | Unpaid::Busy(_) => StatusCode::TOO_MANY_REQUESTS,
        Unpaid::Scope => StatusCode::BAD_REQUEST,
        _ => StatusCode::FORBIDDEN,
    };
    let mut body = json!({ "error": unpaid.to_string(), "fault": unpaid.word() });
    if let Unpaid::Busy(effort) = unpaid {
        body["effort"] = json!(effort);
    }
    answer(status, &body)
}

async fn admit(
    State(site): State<Shared>,
    Extension(From(address)): Extension<From>,
    body: Bytes,
) -> Response {
    let Some(admission) = &site.admission else {
        return refusal(StatusCode::NOT_FOUND, "there is no such path");
    };
    let Ok(body) = serde_json::from_slice::<Json>(&body) else {
        return refusal(StatusCode::BAD_REQUEST, "the body is not JSON");
    };
    if !body["challenge"].is_null() {
        let read = |name: &str| body[name].as_str();
        let challenge = read("challenge").and_then(|it| Base64UrlUnpadded::decode_vec(it).ok());
        let secret = read("secret").and_then(|it| shoal_stdx::hex::decode(it).ok());
        let (Some(challenge), Some(secret), Some(nonce)) =
            (challenge, secret, body["nonce"].as_u64())
        else {
            let why = "a stamp is challenge in base64url, secret in hexadecimal, nonce as number";
            return refusal(StatusCode::BAD_REQUEST, why);
        };
        return match admission.pay(&challenge, &secret, nonce).await {
            Ok(bought) => answer(
                StatusCode::OK,
                &json!({
                    "ticket": bought.ticket,
                    "expires": bought.expires,
                    "bytes": bought.bytes,
                    "documents": bought.documents,
                }),
            ),
            Err(fault) => unpaid(fault),
        };
    }
    let claim = body["claim"].as_str().and_then(|it| shoal_stdx::hex::decode(it).ok());
    let Some(claim) = claim.and_then(|claim| <[u8; 32]>::try_from(claim).ok()) else {
        let why = "claim is the SHA-256 of a secret of the visitor, in hexadecimal";
        return refusal(StatusCode::BAD_REQUEST, why);
    };
    let effort = body["effort"].as_u64().and_then(|effort| u32::try_from(effort).ok());
    match admission.challenge(address.ip(), claim, body["scope"].as_str(), effort) {
        Ok(challenge) => {
            let sealed = admission.seal(&challenge);
            let target = Target::from_difficulty(challenge.difficulty).to_bytes();
            answer(
                StatusCode::OK,
                &json!({
                    "challenge": Base64UrlUnpadded::encode_string(&sealed),
                    "algorithm": "argon2id",
                    "memory_kib": challenge.memory_kib,
                    "passes": 1,
                    "lanes": 1,
                    "difficulty": challenge.difficulty,
                    "effort": challenge.effort,
                    "target": shoal_stdx::hex::encode(&target),
                    "expires": challenge.expires,
                }),
            )
        }
        Err(fault) => unpaid(fault),
    }
}
