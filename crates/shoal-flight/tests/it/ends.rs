//! Ends of statements: clients that go, time, the server's own end; and bounds.

use std::time::{Duration, Instant};

use futures_util::TryStreamExt;
use shoal_flight::{Options, serve};
use shoal_sql::Value;

use crate::sample::{Sample, ask, client, door, fetch, refusal};

/// Never ends, and gives no row.
const ENDLESS: &str =
    "WITH RECURSIVE c (x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c) SELECT max(x) FROM c";
/// Longer than any test, and streamed: its columns are declared.
const LONG: &str = "SELECT a.n FROM big AS a, big AS b";

fn one_at_a_time(sample: &Sample) -> Options {
    Options { statements: 1, ..sample.options() }
}

/// With one statement at a time, the next statement runs once the first has ended.
#[tokio::test(flavor = "multi_thread")]
async fn a_statement_ends_with_its_client() {
    let sample = Sample::new();
    let server = serve(one_at_a_time(&sample), door()).await.unwrap();
    let mut one = client(&server).await;
    let mut other = client(&server).await;
    let gone = tokio::spawn(async move { one.execute(ENDLESS.to_owned(), None).await });
    tokio::time::sleep(Duration::from_millis(200)).await;
    gone.abort();
    let count = "SELECT count(*) FROM item";
    assert_eq!(ask(&mut other, count).await.unwrap().1, [[Value::Int(4)]]);
    // A stream that is dropped in its middle.
    let mut one = client(&server).await;
    let info = one.execute(LONG.to_owned(), None).await.unwrap();
    let mut rows = one.do_get(info.endpoint[0].ticket.clone().unwrap()).await.unwrap();
    assert!(rows.try_next().await.unwrap().is_some());
    drop(rows);
    assert_eq!(ask(&mut other, count).await.unwrap().1, [[Value::Int(4)]]);
    server.stop().await;
}

/// Rows that were not sent are an error, and never the end of the rows.
#[tokio::test(flavor = "multi_thread")]
async fn a_statement_ends_with_its_time() {
    let sample = Sample::new();
    let options = Options { time: Duration::from_millis(400), ..one_at_a_time(&sample) };
    let server = serve(options, door()).await.unwrap();
    let mut client = client(&server).await;
    let why = refusal(&mut client, ENDLESS).await;
    assert!(why.contains("stopped after 0.4 seconds"), "{why}");
    let info = client.execute(LONG.to_owned(), None).await.unwrap();
    let mut rows = client.do_get(info.endpoint[0].ticket.clone().unwrap()).await.unwrap();
    assert!(rows.try_next().await.unwrap().is_some());
    // A client that does not read on holds the file no longer than that.
    tokio::time::sleep(Duration::from_millis(600)).await;
    let mut other = crate::sample::client(&server).await;
    assert!(ask(&mut other, "SELECT 1").await.is_ok());
    let ended = loop {
        match rows.try_next().await {
            Ok(Some(_)) => {}
            Ok(None) => panic!("the rows were cut short without a word"),
            Err(error) => break error.to_string(),
        }
    };
    assert!(ended.contains("stopped after 0.4 seconds"), "{ended}");
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn statements_beyond_the_bound_wait_or_come_later() {
    let sample = Sample::new();
    let options = Options { time: Duration::from_secs(2), ..one_at_a_time(&sample) };
    let server = serve(options, door()).await.unwrap();
    let mut all = Vec::new();
    // Connections take 64 requests each.
    for _ in 0..2 {
        let client = client(&server).await;
        for _ in 0..40 {
            let mut client = client.clone();
            all.push(tokio::spawn(async move { refusal(&mut client, ENDLESS).await }));
        }
    }
    let (mut busy, mut late) = (0, 0);
    for asked in all {
        let why = asked.await.unwrap();
        match why {
            why if why.contains("too many statements wait") => busy += 1,
            why if why.contains("stopped after 2 seconds") => late += 1,
            why => panic!("{why}"),
        }
    }
    assert_eq!((busy, late), (15, 65));
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_stops_ends_statements_with_a_word() {
    let sample = Sample::new();
    let server = sample.server().await;
    let mut endless = client(&server).await;
    let asked = tokio::spawn(async move { refusal(&mut endless, ENDLESS).await });
    let mut long = client(&server).await;
    let info = long.execute(LONG.to_owned(), None).await.unwrap();
    let mut rows = long.do_get(info.endpoint[0].ticket.clone().unwrap()).await.unwrap();
    assert!(rows.try_next().await.unwrap().is_some());
    let read = tokio::spawn(async move {
        loop {
            match rows.try_next().await {
                Ok(Some(_)) => {}
                Ok(None) => return None,
                Err(error) => return Some(error.to_string()),
            }
        }
    });
    tokio::time::sleep(Duration::from_millis(100)).await;
    let begun = Instant::now();
    server.stop().await;
    assert!(begun.elapsed() < Duration::from_secs(6), "{:?}", begun.elapsed());
    let why = asked.await.unwrap();
    assert!(why.contains("the server is stopping"), "{why}");
    let why = read.await.unwrap().expect("the rows were cut short without a word");
    assert!(why.contains("the server is stopping"), "{why}");
}

/// An idle client does not keep a server from its end.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_stops_beside_idle_clients() {
    let sample = Sample::new();
    let server = sample.server().await;
    let mut client = client(&server).await;
    let info = client.execute("SELECT n FROM big".to_owned(), None).await.unwrap();
    fetch(&mut client, info).await.unwrap();
    let begun = Instant::now();
    server.stop().await;
    assert!(begun.elapsed() < Duration::from_secs(3), "{:?}", begun.elapsed());
}
