//! The rest of a node's API: its chain, its wallet, its own miner.

use serde_json::{Value, json};

use super::{NodeSettings, State};
use crate::address;
use crate::http::Request;

/// The status and the body of an answer.
pub(super) fn answer(
    state: &mut State,
    settings: &NodeSettings,
    request: &Request,
) -> (u16, Value) {
    let NodeSettings { difficulty, network, .. } = *settings;
    let wallet_address = || address::sample(0, network);
    let error = |status, words: &str| (status, json!({ "error": words }));
    let height = state.height - 1;
    match (request.method.as_str(), request.path.as_str()) {
        ("GET", "/api/status") => {
            (200, json!({ "peers": 1, "chain_height": height, "syncing": false }))
        }
        ("GET", "/api/stats") => {
            (200, json!({ "chain_height": height, "difficulty": difficulty, "peers": 1 }))
        }
        ("POST", "/api/wallet/load") => {
            let body = request.json().unwrap_or_default();
            if state.wallet {
                error(409, "wallet already loaded")
            } else if body["password"].as_str().is_none_or(str::is_empty) {
                error(400, "password required")
            } else {
                state.wallet = true;
                (200, json!({ "loaded": true, "address": wallet_address() }))
            }
        }
        ("GET", "/api/wallet/balance" | "/api/wallet/address") if !state.wallet => {
            error(503, "no wallet loaded")
        }
        ("GET", "/api/wallet/balance") => {
            let ours = state.blocks.iter().filter(|(_, (_, ours))| *ours);
            let (ripe, green): (Vec<u64>, Vec<u64>) =
                ours.map(|(at, _)| *at).partition(|at| at + MATURITY <= state.height);
            let coins = |blocks: Vec<u64>| blocks.len() as u64 * REWARD;
            (200, json!({ "spendable": coins(ripe), "pending": coins(green) }))
        }
        ("GET", "/api/wallet/address") => (200, json!({ "address": wallet_address() })),
        ("GET", "/api/mining") => (200, json!({ "running": false, "threads": 0 })),
        ("POST", "/api/mining/start" | "/api/mining/stop" | "/api/mining/threads") => {
            error(503, "the test node does not mine")
        }
        ("GET", path) => {
            let wanted = path.strip_prefix("/api/block/").and_then(|at| at.parse::<u64>().ok());
            match wanted.map(|at| (at, state.blocks.get(&at))) {
                Some((at, Some((hash, _)))) => {
                    (200, json!({ "height": at, "hash": hash, "difficulty": difficulty }))
                }
                Some((_, None)) => error(404, "block not found"),
                None => error(404, "not found"),
            }
        }
        _ => error(404, "not found"),
    }
}

/// Reward of a block, in 1e-8 coins.
pub(super) const REWARD: u64 = 100_000_000;
/// How many blocks must follow before it can be spent.
const MATURITY: u64 = 60;
