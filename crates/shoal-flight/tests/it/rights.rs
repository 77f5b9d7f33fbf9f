//! Tokens, principals and rules: each request is answered as its own principal.

use std::fs;
use std::sync::Arc;

use arrow_flight::sql::{
    ActionCreatePreparedStatementRequest, ActionCreatePreparedStatementResult, Any,
    CommandGetTables, CommandPreparedStatementQuery, ProstMessageExt,
};
use arrow_flight::{Action, FlightDescriptor};
use prost::Message;
use shoal::Environment;
use shoal_flight::{DoorOptions, Error, FlightServer, Options, RulesFor, serve};
use shoal_server::token::{Grant, SecretKey, Tokens};
use shoal_server::{TokenFile, Unguarded};
use shoal_sql::Value;

use crate::sample::{Client, Sample, ask, client, door, fetch, refusal, values};

const RULES: &str = r#"{ "principals": {
    "ada": { "item": { "columns": ["id", "name"], "rows": "maker = 1" } },
    "*": { "maker": { "mask": { "founded": "'***'" } } } } }"#;

struct Site {
    sample: Sample,
    key: SecretKey,
}

impl Site {
    fn new() -> Site {
        let site = Site { sample: Sample::new(), key: SecretKey::from_bytes(&[7; 32]) };
        site.rule(RULES);
        site.revoke(&[]);
        site
    }

    fn rule(&self, rules: &str) {
        fs::write(self.sample.folder().join("rules.json"), rules).unwrap();
    }

    fn revoke(&self, ids: &[&str]) {
        let revoked = ids.iter().map(|id| (*id).to_owned()).collect();
        let tokens = Tokens { keys: vec![self.key.public_text()], revoked, ..Tokens::default() };
        fs::write(self.sample.folder().join("tokens.json"), tokens.to_text()).unwrap();
    }

    fn token(&self, principal: Option<&str>) -> String {
        let id = principal.unwrap_or("nobody").to_owned();
        let grant = Grant { id, principal: principal.map(str::to_owned), ..Grant::default() };
        self.key.sign(&grant).unwrap()
    }

    fn options(&self, principal: Option<&str>) -> Options {
        let file = self.sample.folder().join("rules.json");
        let principal = principal.map(str::to_owned);
        Options { rules: Some(RulesFor { file, principal }), ..self.sample.options() }
    }

    fn door(&self) -> DoorOptions {
        let path = self.sample.folder().join("tokens.json");
        let policy = TokenFile::open(Environment::os(), &path).unwrap();
        DoorOptions { policy: Some(Arc::new(policy)), ..door() }
    }

    async fn server(&self) -> FlightServer {
        serve(self.options(None), self.door()).await.unwrap()
    }

    async fn client(&self, server: &FlightServer, principal: &str) -> Client {
        let mut client = client(server).await;
        client.set_token(self.token(Some(principal)));
        client
    }
}

/// The names of the tables in sight.
async fn tables(client: &mut Client) -> Vec<String> {
    let info = client.get_tables(CommandGetTables::default()).await.unwrap();
    let (_, batches) = fetch(client, info).await.unwrap();
    let rows = values(&batches).into_iter();
    rows.map(|row| match &row[2] {
        Value::Text(name) => String::from_utf8(name.clone()).unwrap(),
        other => panic!("{other:?}"),
    })
    .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn each_principal_sees_what_is_granted() {
    let site = Site::new();
    let server = site.server().await;
    let mut ada = site.client(&server, "ada").await;
    let mut eve = site.client(&server, "eve").await;
    let (schema, rows) = ask(&mut ada, "SELECT * FROM item ORDER BY id").await.unwrap();
    assert_eq!(schema.fields().len(), 2);
    assert_eq!(rows.len(), 2);
    let count = "SELECT count(*) FROM item";
    assert_eq!(ask(&mut ada, count).await.unwrap().1, [[Value::Int(2)]]);
    let (_, rows) = ask(&mut eve, "SELECT founded FROM maker").await.unwrap();
    assert_eq!(rows, [[Value::text("***")], [Value::text("***")]]);
    for (sql, words) in [
        (count, "no such table: item"),
        ("SELECT * FROM big", "no such table: big"),
        ("PRAGMA foreign_key_list(item)", "is about the whole file"),
        ("EXPLAIN SELECT 1", "EXPLAIN tells of indexes"),
        ("DELETE FROM maker", "DELETE is not for a connection that only reads"),
        ("BEGIN", "gives no rows"),
    ] {
        let said = refusal(&mut eve, sql).await;
        assert!(said.contains(words), "{sql}: {said}");
    }
    assert_eq!(tables(&mut ada).await, ["item", "maker"]);
    assert_eq!(tables(&mut eve).await, ["maker"]);
    server.stop().await;
}

/// A ticket and a handle are worth to another principal what they could ask for themselves.
#[tokio::test(flavor = "multi_thread")]
async fn what_one_principal_was_told_is_nothing_to_another() {
    let site = Site::new();
    let server = site.server().await;
    let mut ada = site.client(&server, "ada").await;
    let mut eve = site.client(&server, "eve").await;
    for sql in ["SELECT count(*) FROM item", "SELECT name FROM item"] {
        let info = ada.execute(sql.to_owned(), None).await.unwrap();
        let ticket = info.endpoint[0].ticket.clone().unwrap();
        let why = eve.do_get(ticket).await.expect_err("a ticket of ada's").to_string();
        assert!(why.contains("no such table: item"), "{why}");
        assert!(fetch(&mut ada, info).await.is_ok());
    }
    let query = "SELECT name FROM item".to_owned();
    let request = ActionCreatePreparedStatementRequest { query, transaction_id: None };
    let body = request.as_any().encode_to_vec().into();
    let action = Action { r#type: "CreatePreparedStatement".to_owned(), body };
    let prepared = ada.do_action(action).await.unwrap().message().await.unwrap().unwrap();
    let prepared = Any::decode(&*prepared.body).unwrap();
    let prepared: ActionCreatePreparedStatementResult = prepared.unpack().unwrap().unwrap();
    let handle = prepared.prepared_statement_handle;
    let command = CommandPreparedStatementQuery { prepared_statement_handle: handle };
    for (client, principal, is_known) in [(&mut eve, "eve", false), (&mut ada, "ada", true)] {
        let descriptor = FlightDescriptor::new_cmd(command.as_any().encode_to_vec());
        let mut request = tonic::Request::new(descriptor);
        let bearer = format!("Bearer {}", site.token(Some(principal))).parse().unwrap();
        request.metadata_mut().insert("authorization", bearer);
        match client.inner_mut().get_flight_info(request).await {
            Ok(_) => assert!(is_known, "{principal}"),
            Err(status) => assert_eq!((is_known, status.code()), (false, tonic::Code::NotFound)),
        }
    }
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn rights_that_are_taken_back_end_with_the_next_request() {
    let site = Site::new();
    let server = site.server().await;
    let mut ada = site.client(&server, "ada").await;
    let sql = "SELECT count(*) FROM item";
    let info = ada.execute(sql.to_owned(), None).await.unwrap();
    // The file's time tells changes apart.
    tokio::time::sleep(std::time::Duration::from_millis(30)).await;
    site.rule(r#"{ "principals": { "ada": { "maker": {} } } }"#);
    let ticket = info.endpoint[0].ticket.clone().unwrap();
    let why = ada.do_get(ticket).await.expect_err("rows kept from before").to_string();
    assert!(why.contains("no such table: item"), "{why}");
    assert!(ask(&mut ada, "SELECT * FROM maker").await.is_ok());
    tokio::time::sleep(std::time::Duration::from_millis(30)).await;
    site.revoke(&["ada"]);
    let why = refusal(&mut ada, "SELECT * FROM maker").await;
    assert!(why.contains("Authorization: Bearer TOKEN"), "{why}");
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_brings_no_token_gets_nothing() {
    let site = Site::new();
    let server = site.server().await;
    let mut nobody = client(&server).await;
    assert!(refusal(&mut nobody, "SELECT 1").await.contains("a token is missing"));
    assert!(nobody.get_catalogs().await.is_err());
    assert!(nobody.prepare("SELECT 1".to_owned(), None).await.is_err());
    assert!(nobody.execute_update("SELECT 1".to_owned(), None).await.is_err());
    assert!(nobody.handshake("ada", "guess").await.is_err());
    nobody.set_token(site.token(None));
    assert!(refusal(&mut nobody, "SELECT 1").await.contains("names no principal"));
    // A user's name and a password: the password is the token.
    let mut ada = client(&server).await;
    ada.handshake("whoever", &site.token(Some("ada"))).await.unwrap();
    assert_eq!(ada.token(), Some(&site.token(Some("ada"))));
    assert!(ask(&mut ada, "SELECT 1").await.is_ok());
    server.stop().await;
    let token = Some("one token for all".to_owned());
    let server = serve(site.sample.options(), DoorOptions { token, ..door() }).await.unwrap();
    let mut anyone = client(&server).await;
    assert!(refusal(&mut anyone, "SELECT 1").await.contains("a token is missing or another"));
    anyone.set_token("one token for all".to_owned());
    assert!(ask(&mut anyone, "SELECT * FROM item").await.is_ok());
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unguarded_door_does_not_open() {
    let site = Site::new();
    let refused = |options, door| async { serve(options, door).await.expect_err("a door") };
    let everywhere = DoorOptions { listen: ([0, 0, 0, 0], 0).into(), ..door() };
    let error = refused(site.sample.options(), everywhere.clone()).await;
    assert!(matches!(error, Error::Unguarded(Unguarded::Open(_))), "{error}");
    let error = refused(site.sample.options(), site.door()).await;
    assert_eq!(error.to_string(), "principals of tokens need rules");
    let error = refused(site.options(None), door()).await;
    assert_eq!(error.to_string(), "rules need a principal, or tokens that name theirs");
    let error = refused(site.options(Some("ada")), site.door()).await;
    assert_eq!(error.to_string(), "principals come from tokens, or one is named");
    site.rule(r#"{ "principals": { "ada": { "item": {} } } }"#);
    let error = refused(site.options(Some("eve")), door()).await;
    assert_eq!(error.to_string(), "nothing is granted to eve");
    site.rule(r#"{ "principals": { "ada": { "item": { "rows": "nothing = 1" } } } }"#);
    assert!(matches!(refused(site.options(None), site.door()).await, Error::Rules(_)));
    let mut options = site.sample.options();
    options.path = site.sample.folder().join("none.db");
    assert!(matches!(refused(options, door()).await, Error::Database(_)));
    // One principal for everybody.
    site.rule(RULES);
    let server = serve(site.options(Some("ada")), door()).await.unwrap();
    let mut client = client(&server).await;
    assert_eq!(tables(&mut client).await, ["item", "maker"]);
    server.stop().await;
}
