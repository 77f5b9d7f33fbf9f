//! The test node, asked by hand: every answer and every refusal that is not a block's.

#![allow(clippy::unwrap_used)]

use std::io::{Read, Write};
use std::net::TcpStream;

use shoal_testpool::address::{Network, sample};
use shoal_testpool::{NodeSettings, TestNode};

/// The status and the body.
fn ask(node: &TestNode, method: &str, path: &str, body: &str) -> (u16, serde_json::Value) {
    let url = node.url();
    let host = url.strip_prefix("http://").unwrap();
    let mut stream = TcpStream::connect(host).unwrap();
    let length = body.len();
    write!(
        stream,
        "{method} {path} HTTP/1.1\r\nHost: {host}\r\nContent-Length: {length}\r\n\r\n{body}"
    )
    .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    (status, serde_json::from_str(body).unwrap())
}

fn small() -> NodeSettings {
    NodeSettings { memory_kib: 8, difficulty: 1, ..NodeSettings::default() }
}

#[test]
fn a_wallet_is_loaded_once_and_earns_what_is_found() {
    let node = TestNode::start(NodeSettings { wallet: false, ..small() }).unwrap();
    let check = |method: &str, path: &str, body: &str, status: u16, words: &str| {
        let (got, answer) = ask(&node, method, path, body);
        assert_eq!(got, status, "{method} {path}: {answer}");
        assert!(answer.to_string().contains(words), "{method} {path}: {answer}");
    };
    let template = "/api/mining/blocktemplate";
    check("GET", template, "", 503, "no wallet loaded");
    check("GET", &format!("{template}?address=abc"), "", 400, "invalid address");
    let address = sample(3, Network::Main);
    check("GET", &format!("{template}?address={address}"), "", 200, "template_id");
    check("GET", "/api/wallet/balance", "", 503, "no wallet loaded");
    check("POST", "/api/wallet/load", "{}", 400, "password required");
    check("POST", "/api/wallet/load", r#"{"password":"x"}"#, 200, "address");
    check("POST", "/api/wallet/load", r#"{"password":"x"}"#, 409, "already loaded");
    check("GET", "/api/wallet/address", "", 200, &sample(0, Network::Main));
    check("GET", "/api/wallet/balance", "", 200, r#""pending":0"#);

    let (_, fresh) = ask(&node, "GET", template, "");
    let id = fresh["template_id"].as_str().unwrap();
    // At difficulty 1 every nonce is a block.
    let submit = format!(r#"{{"template_id":"{id}","nonce":7}}"#);
    let path = "/api/mining/submitblock";
    check("POST", path, &submit, 200, r#""height":1"#);
    check("POST", path, &submit, 400, "block rejected as stale");
    check("POST", path, r#"{"template_id":"x","nonce":7}"#, 400, "unknown or expired template_id");
    check("POST", path, "nonsense", 400, "invalid request");
    check("POST", "/api/mining/renewtemplate", &submit, 409, "stale");
    check("POST", "/api/mining/renewtemplate", "{}", 404, "unknown or expired");
    check("GET", "/api/wallet/balance", "", 200, r#""pending":100000000"#);
    for _ in 0..60 {
        node.advance();
    }
    check("GET", "/api/wallet/balance", "", 200, r#""spendable":100000000"#);

    check("GET", "/api/block/1", "", 200, "hash");
    check("GET", "/api/block/62", "", 404, "block not found");
    check("GET", "/api/block/one", "", 404, "not found");
    check("GET", "/api/status", "", 200, r#""chain_height":61"#);
    check("GET", "/api/stats", "", 200, r#""chain_height":61"#);
    check("GET", "/api/mining", "", 200, "running");
    check("POST", "/api/mining/start", "", 503, "does not mine");
    check("DELETE", "/api/status", "", 404, "not found");
}

#[test]
fn too_many_submits_and_false_ones_are_refused() {
    let refill = std::time::Duration::from_secs(3600);
    let settings = NodeSettings { difficulty: u64::MAX, burst: 2, refill, ..small() };
    let node = TestNode::start(settings).unwrap();
    let (_, fresh) = ask(&node, "GET", "/api/mining/blocktemplate", "");
    let submit = format!(r#"{{"template_id":{},"nonce":7}}"#, fresh["template_id"]);
    for (status, words) in
        [(400, "block rejected"), (400, "block rejected"), (429, "submitblock rate limit exceeded")]
    {
        let (got, answer) = ask(&node, "POST", "/api/mining/submitblock", &submit);
        assert_eq!((got, answer["error"].as_str()), (status, Some(words)));
    }
}
