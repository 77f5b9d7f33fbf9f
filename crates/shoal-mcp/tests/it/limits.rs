//! Bounds of an answer, and the ends of calls that take too long.

use std::time::{Duration, Instant};

use rmcp::model::{CallToolRequest, CallToolRequestParams, ClientRequest};
use rmcp::service::PeerRequestOptions;
use serde_json::{Value as Json, json};
use shoal_mcp::{AnswerLimits, Options, RulesFor};

use super::Client;
use super::sample::Sample;

const ENDLESS: &str = "WITH RECURSIVE c (x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c) \
                       SELECT max(x) FROM c";

async fn limited(limits: AnswerLimits) -> (Sample, Client) {
    let sample = Sample::new();
    let options = Options { limits, ..sample.options() };
    let client = Client::of(options).await;
    (sample, client)
}

#[tokio::test]
async fn an_answer_is_bounded_in_bytes() {
    let (_sample, client) =
        limited(AnswerLimits { bytes: 10_000, ..AnswerLimits::default() }).await;
    let sql = "SELECT printf('%.3000c', 'a') AS s, n FROM big ORDER BY n";
    let answer = client.object("query", json!({"sql": sql, "rows": 1000})).await;
    let rows = answer["rows"].as_array().unwrap();
    assert!((2..5).contains(&rows.len()), "{} rows", rows.len());
    assert!(answer.to_string().len() < 12_000);
    let next = json!({"cursor": answer["next_cursor"]});
    let next = client.object("query", next).await;
    assert_eq!(next["rows"][0][1], json!(rows.len() as u64 + 1));

    let sql = "SELECT printf('%.100000c', 'a'), zeroblob(5000)";
    let answer = client.object("query", json!({"sql": sql})).await;
    let long = answer["rows"][0][0].as_str().unwrap();
    assert!(long.len() < 2600 && long.ends_with('…'), "{}", long.len());
    assert!(answer["rows"][0][1].as_str().unwrap().ends_with("(5000 bytes)"));
    assert!(answer["note"].as_str().unwrap().contains("substr"));
    // A row wider than an answer is told, each value cut.
    let wide = vec!["printf('%.60000c', 'a')"; 200].join(", ");
    let answer = client.object("query", json!({"sql": format!("SELECT {wide}")})).await;
    assert_eq!(answer["rows"].as_array().unwrap().len(), 1);
    assert!(answer.to_string().len() < 40_000, "{}", answer.to_string().len());
    let sql = "x".repeat((1 << 20) + 1);
    let why = client.refusal("query", json!({"sql": sql})).await;
    assert!(why.contains("more than the 1048576 of one call"), "{why}");
}

#[tokio::test]
async fn a_call_ends_with_its_time() {
    let time = Duration::from_millis(300);
    let (_sample, client) = limited(AnswerLimits { time, ..AnswerLimits::default() }).await;
    let begun = Instant::now();
    let why = client.refusal("query", json!({"sql": ENDLESS})).await;
    assert!(why.contains("stopped after 0.3 seconds") && why.contains("EXPLAIN"), "{why}");
    assert!(begun.elapsed() < Duration::from_secs(5));
    // The server goes on.
    let answer = client.object("query", json!({"sql": "SELECT 1"})).await;
    assert_eq!(answer["rows"], json!([[1]]));
}

#[tokio::test]
async fn a_statement_out_of_memory_ends_alone() {
    let limits = AnswerLimits { memory_bytes: 1 << 20, ..AnswerLimits::default() };
    let (_sample, client) = limited(limits).await;
    let sql = "SELECT count(*) FROM (SELECT DISTINCT s || s FROM big)";
    let answer = client.object("query", json!({"sql": sql})).await;
    assert_eq!(answer["rows"], json!([[20_000]]));
}

/// A cancelled call stops its statement: the next call need not wait for the end of its time.
#[tokio::test]
async fn a_cancelled_call_frees_the_database() {
    let limits = AnswerLimits { time: Duration::from_secs(600), ..AnswerLimits::default() };
    let (sample, client) = limited(limits).await;
    cancel_a_call(client).await;
    let rules =
        RulesFor { file: sample.folder().join("rules.json"), principal: Some("ada".to_owned()) };
    std::fs::write(&rules.file, r#"{ "principals": { "ada": { "person": {} } } }"#).unwrap();
    cancel_a_call(Client::of(Options { limits, rules: Some(rules), ..sample.options() }).await)
        .await;
}

async fn cancel_a_call(client: Client) {
    let Json::Object(arguments) = json!({"sql": ENDLESS}) else { unreachable!() };
    let params = CallToolRequestParams::new("query").with_arguments(arguments);
    let request = ClientRequest::CallToolRequest(CallToolRequest::new(params));
    let options = PeerRequestOptions::no_options();
    let handle = client.0.peer().send_cancellable_request(request, options).await.unwrap();
    tokio::time::sleep(Duration::from_millis(200)).await;
    handle.cancel(Some("changed my mind".to_owned())).await.unwrap();
    let begun = Instant::now();
    let answer = client.object("query", json!({"sql": "SELECT 1"})).await;
    assert_eq!(answer["rows"], json!([[1]]));
    assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", begun.elapsed());
}

/// Many calls at once are answered, or told to come again; none is lost.
#[tokio::test]
async fn calls_at_once_are_all_answered() {
    let sample = Sample::new();
    let client = Client::of(sample.options()).await;
    let client = &client;
    let calls = (0..60).map(|n| {
        let sql = format!("SELECT {n}");
        Box::pin(async move { client.call("query", json!({"sql": sql})).await })
    });
    let tasks: Vec<_> = calls.collect();
    let (mut answered, mut busy) = (0, 0);
    for result in all(tasks).await {
        match result.is_error {
            Some(true) => {
                assert!(super::text(&result).contains("the server is busy"), "{result:?}");
                busy += 1;
            }
            _ => answered += 1,
        }
    }
    assert_eq!(answered + busy, 60);
    assert!(answered >= 32, "{answered} answered");
}

/// Polls futures beside each other.
async fn all<F: Future + Unpin>(mut futures: Vec<F>) -> Vec<F::Output> {
    let mut done: Vec<Option<F::Output>> = futures.iter().map(|_| None).collect();
    std::future::poll_fn(|context| {
        let mut is_waiting = false;
        for (future, done) in futures.iter_mut().zip(&mut done) {
            if done.is_none() {
                match std::pin::Pin::new(future).poll(context) {
                    std::task::Poll::Ready(output) => *done = Some(output),
                    std::task::Poll::Pending => is_waiting = true,
                }
            }
        }
        match is_waiting {
            true => std::task::Poll::Pending,
            false => std::task::Poll::Ready(()),
        }
    })
    .await;
    done.into_iter().flatten().collect()
}
