//! Conversations, line by line.

use super::*;

use serde_json::{Value, json};
use shoal_pow::Target;

struct Talk {
    dialogue: Dialogue,
    now: Instant,
}

impl Talk {
    fn new() -> Self {
        let now = Instant::now();
        let identity = Identity { address: "addr".to_owned(), worker: "rig".to_owned() };
        Self { dialogue: Dialogue::new(identity, Limits::default(), now), now }
    }

    /// Logged in at a pool of protocol 2, with a job named `j1`.
    fn working() -> (Self, Arc<Task>) {
        let mut talk = Self::new();
        talk.connect();
        talk.hear(agreed());
        let task = talk.job("j1");
        (talk, task)
    }

    fn connect(&mut self) -> Value {
        let effects = self.dialogue.connected(self.now);
        let [Effect::Send(line)] = &effects[..] else { panic!("{effects:?}") };
        assert_eq!(line.last(), Some(&b'\n'));
        serde_json::from_slice(line).unwrap()
    }

    fn hear(&mut self, line: Value) -> Vec<Effect> {
        self.dialogue.receive(line.to_string().as_bytes(), self.now)
    }

    fn job(&mut self, id: &str) -> Arc<Task> {
        let effects = self.hear(json!({ "method": "job", "params": {
            "job_id": id, "header_base": "5a".repeat(92), "target": "0f".repeat(32),
            "difficulty": 16, "height": 7, "nonce_start": 100, "nonce_end": 199,
        }}));
        let [Effect::Task(task)] = &effects[..] else { panic!("{effects:?}") };
        Arc::clone(task)
    }

    /// Finds a share; returns the requests sent for it.
    fn sell(&mut self, task: &Arc<Task>, nonce: u64) -> Vec<Value> {
        let share =
            Share { task: Arc::clone(task), nonce, tag: [nonce as u8; 32], found: self.now };
        sent(&self.dialogue.sell(share, self.now))
    }

    fn wait(&mut self, time: Duration) -> Vec<Effect> {
        self.now += time;
        self.dialogue.tick(self.now)
    }
}

fn agreed() -> Value {
    json!({ "id": 1, "status": "ok", "result": {
        "protocol_version": 2,
        "capabilities": ["login_negotiation", "submit_claimed_hash", "difficulty_hint"],
        "required_capabilities": ["submit_claimed_hash"],
    }})
}

fn sent(effects: &[Effect]) -> Vec<Value> {
    effects
        .iter()
        .filter_map(|effect| match effect {
            Effect::Send(line) => serde_json::from_slice(line).ok(),
            _ => None,
        })
        .collect()
}

fn verdicts(effects: &[Effect]) -> Vec<(u64, String)> {
    effects
        .iter()
        .filter_map(|effect| match effect {
            Effect::Verdict { share, verdict } => Some((share.nonce, verdict.to_string())),
            _ => None,
        })
        .collect()
}

fn reconnects(effects: &[Effect]) -> bool {
    retry(effects).is_some()
}

fn retry(effects: &[Effect]) -> Option<Retry> {
    effects.iter().find_map(|effect| match effect {
        Effect::Reconnect { retry, .. } => Some(*retry),
        _ => None,
    })
}

#[test]
fn a_login_names_what_we_can_and_gives_a_hint_the_second_time() {
    let mut talk = Talk::new();
    let login = talk.connect();
    assert_eq!(login["id"], 1);
    assert_eq!(login["method"], "login");
    let params = &login["params"];
    assert_eq!((&params["address"], &params["worker"]), (&json!("addr"), &json!("rig")));
    assert_eq!(params["protocol_version"], 2);
    assert_eq!(params["capabilities"], json!(CAPABILITIES));
    assert!(params.get("difficulty_hint").is_none());

    assert_eq!(talk.hear(agreed()), [Effect::LoggedIn { protocol: 2, claims: true }]);
    let task = talk.job("j1");
    assert_eq!((task.nonces.clone(), task.difficulty, task.height), (100..200, 16, 7));
    talk.sell(&task, 100);
    talk.hear(json!({ "id": 2, "status": "ok", "result": { "accepted": true, "difficulty": 24 } }));
    talk.dialogue.disconnected(talk.now);
    assert_eq!(talk.connect()["params"]["difficulty_hint"], 24);
}

#[test]
fn a_late_answer_to_an_earlier_job_gives_no_hint() {
    let (mut talk, earlier) = Talk::working();
    talk.sell(&earlier, 100);
    talk.job("j2");
    talk.hear(json!({ "id": 2, "status": "ok", "result": { "accepted": true, "difficulty": 8 } }));
    talk.dialogue.disconnected(talk.now);
    assert_eq!(talk.connect()["params"]["difficulty_hint"], 16, "that of the second job");
}

#[test]
fn old_pools_get_hashes_too_and_no_hints() {
    let mut talk = Talk::new();
    talk.connect();
    let effects = talk.hear(json!({ "id": 1, "status": "ok" }));
    assert_eq!(effects, [Effect::LoggedIn { protocol: 1, claims: true }]);
    let task = talk.job("j1");
    assert_eq!(talk.sell(&task, 101)[0]["params"]["claimed_hash"], "65".repeat(32));
    talk.dialogue.disconnected(talk.now);
    assert!(talk.connect()["params"].get("difficulty_hint").is_none());
}

#[test]
fn hashes_are_kept_from_pools_that_do_not_list_them() {
    let mut talk = Talk::new();
    talk.connect();
    let effects = talk.hear(json!({ "id": 1, "status": "ok", "result": {
        "protocol_version": 2, "capabilities": ["login_negotiation"],
    }}));
    assert_eq!(effects, [Effect::LoggedIn { protocol: 2, claims: false }]);
    let task = talk.job("j1");
    assert_eq!(talk.sell(&task, 101)[0]["params"], json!({ "job_id": "j1", "nonce": 101 }));
}

#[test]
fn what_nobody_knows_is_not_agreed_to() {
    let mut talk = Talk::new();
    talk.connect();
    let effects = talk.hear(json!({ "id": 1, "status": "ok", "result": {
        "protocol_version": 2, "required_capabilities": ["submit_claimed_hash", "time_travel"],
    }}));
    let expect = SourceError::UnknownCapability("time_travel".to_owned());
    assert_eq!(effects, [Effect::Fail(expect)]);
}

#[test]
fn login_refusals_end_it_or_are_tried_again() {
    for (words, for_good) in [
        ("invalid address: invalid base58 address", true),
        ("pool requires protocol_version >= 2", true),
        ("pool requires submit_claimed_hash capability", true),
        ("server busy, retry", false),
    ] {
        let mut talk = Talk::new();
        talk.connect();
        let effects = talk.hear(json!({ "id": 1, "error": words }));
        assert_eq!(effects.len(), 1);
        match &effects[0] {
            Effect::Fail(SourceError::LoginRefused(said)) => assert!(for_good && said == words),
            Effect::Reconnect { reason, retry: Retry::Backoff } => {
                assert!(!for_good && reason.contains(words), "{reason}");
            }
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn a_job_may_come_before_the_answer_that_brought_it_about() {
    let (mut talk, first) = Talk::working();
    let request = &talk.sell(&first, 100)[0];
    let second = talk.job("j2");
    assert_ne!(first.id, second.id);
    let effects = talk.hear(json!({ "id": request["id"], "status": "ok", "result": {
        "accepted": true, "verified": true, "status": "verified", "difficulty": 90,
    }}));
    assert_eq!(verdicts(&effects), [(100, "accepted".to_owned())]);
}

#[test]
fn shares_under_way_are_bounded_and_the_others_wait_their_turn() {
    let (mut talk, task) = Talk::working();
    let sent_at_once: usize = (100..130).map(|nonce| talk.sell(&task, nonce).len()).sum();
    assert_eq!(sent_at_once, 16);
    assert_eq!(talk.dialogue.unsettled(), 30);
    let effects = talk.hear(json!({ "id": 2, "status": "ok", "result": { "accepted": true } }));
    assert_eq!(sent(&effects)[0]["params"]["nonce"], 116);
    let many = (0..5000).map(|nonce| talk.sell(&task, nonce)).filter(|sent| !sent.is_empty());
    assert_eq!(many.count(), 0);
    assert!(talk.dialogue.unsettled() <= 16 + 4096);
}

fn answer(id: &Value) -> Value {
    json!({ "id": id, "status": "ok", "result": { "accepted": true } })
}

const FORGOTTEN: &str = "stale job: assignment not found";

#[test]
fn only_jobs_of_this_connection_can_be_out_of_step() {
    let stale = |id: &Value, words: &str| json!({ "id": id, "error": words });
    // One stale share is no reason, nor are two: the third is, whether the job is still the one
    // of the moment or not.
    for replaced in [true, false] {
        for words in [FORGOTTEN, "stale job: assignment expired (age=301s, ttl=300s)"] {
            let (mut talk, first) = Talk::working();
            let ids: Vec<Value> = (0..3).map(|n| talk.sell(&first, n)[0]["id"].clone()).collect();
            if replaced {
                talk.job("j2");
            }
            for (count, id) in ids.iter().enumerate() {
                let effects = talk.hear(stale(id, words));
                assert_eq!(verdicts(&effects)[0].1, format!("refused: {words}"));
                // Nothing was accepted since the login, so this is no reason to hurry.
                let expect = (count == 2).then_some(Retry::Backoff);
                assert_eq!(retry(&effects), expect, "{count} {words} {replaced}");
            }
        }
    }

    // A share 15 seconds late is one at once.
    for (late, expect) in [("15.000s", true), ("14.999s", false), ("999ms", false)] {
        let (mut talk, first) = Talk::working();
        let id = talk.sell(&first, 100)[0]["id"].clone();
        talk.job("j2");
        let words = format!("stale job: template 1 exceeded stale grace (stale_for={late})");
        assert_eq!(reconnects(&talk.hear(stale(&id, &words))), expect, "{late}");
    }

    // Shares of an earlier job: three within a minute, not three in more.
    for (pause, expect) in [(Duration::from_secs(20), true), (Duration::from_secs(40), false)] {
        let (mut talk, first) = Talk::working();
        let ids: Vec<Value> = (0..3).map(|n| talk.sell(&first, n)[0]["id"].clone()).collect();
        talk.job("j2");
        let mut again = false;
        for id in &ids {
            again |= reconnects(&talk.hear(stale(id, "stale job: x")));
            talk.now += pause;
        }
        assert_eq!(again, expect, "{pause:?}");
    }

    // The job of the moment expired, and shares are rare: the third in a row, however long it
    // takes; an accepted one in between begins anew.
    for (accepted_between, expect) in [(false, true), (true, false)] {
        let (mut talk, task) = Talk::working();
        let mut again = false;
        for nonce in 0..3 {
            if accepted_between {
                let id = talk.sell(&task, 100 + nonce)[0]["id"].clone();
                talk.hear(answer(&id));
            }
            let id = talk.sell(&task, nonce)[0]["id"].clone();
            again |= reconnects(&talk.hear(stale(&id, "stale job: assignment expired")));
            talk.now += Duration::from_secs(90);
        }
        assert_eq!(again, expect, "{accepted_between}");
    }
}

/// A defect at real pools: shares found while the pool was restarted were never sent
/// before, so their `assignment not found` was taken for a sign that jobs are out of step, and
/// the miner hung up on the pool just come back, again and again.
#[test]
fn a_restart_of_the_pool_is_no_reason_to_hang_up_on_it() {
    let (mut talk, before) = Talk::working();
    talk.dialogue.disconnected(talk.now);
    for nonce in 0..10 {
        assert_eq!(talk.sell(&before, nonce), Vec::<Value>::new());
    }
    talk.now += Duration::from_secs(9);
    talk.connect();
    let requests = sent(&talk.hear(agreed()));
    let task = talk.job("j2");
    assert_eq!(requests.len(), 10);
    for request in &requests {
        let effects = talk.hear(json!({ "id": request["id"], "error": FORGOTTEN }));
        // They were never sent before, so they count for certain as stale.
        assert_eq!(verdicts(&effects)[0].1, format!("refused: {FORGOTTEN}"));
        assert!(!reconnects(&effects));
    }
    let id = talk.sell(&task, 100)[0]["id"].clone();
    assert_eq!(verdicts(&talk.hear(answer(&id))), [(100, "accepted for now".to_owned())]);
}

#[test]
fn a_login_that_puts_jobs_in_step_waits_for_no_backoff_where_the_pool_works() {
    let (mut talk, task) = Talk::working();
    let id = talk.sell(&task, 100)[0]["id"].clone();
    talk.hear(answer(&id));
    talk.job("j2");
    let id = talk.sell(&task, 101)[0]["id"].clone();
    let words = "stale job: template 1 exceeded stale grace (stale_for=20.000s)";
    let effects = talk.hear(json!({ "id": id, "error": words }));
    assert_eq!(retry(&effects), Some(Retry::Soon));
}

#[test]
fn answers_that_are_due_are_read_before_we_hang_up() {
    let (mut talk, task) = Talk::working();
    let ids: Vec<Value> = (0..4).map(|nonce| talk.sell(&task, nonce)[0]["id"].clone()).collect();
    talk.job("j2");
    let words = "stale job: template 1 exceeded stale grace (stale_for=20.000s)";
    let effects = talk.hear(json!({ "id": ids[0], "error": words }));
    assert!(!reconnects(&effects), "three answers are due");
    // Shares found meanwhile wait for the next connection.
    assert_eq!(talk.sell(&task, 9), Vec::<Value>::new());
    assert_eq!(verdicts(&talk.hear(answer(&ids[1]))).len(), 1);
    assert_eq!(verdicts(&talk.hear(answer(&ids[2]))).len(), 1);
    let effects = talk.hear(answer(&ids[3]));
    assert_eq!(verdicts(&effects), [(3, "accepted for now".to_owned())]);
    assert_eq!(retry(&effects), Some(Retry::Soon));

    // The wait for answers is short.
    let (mut talk, task) = Talk::working();
    let ids: Vec<Value> = (0..2).map(|nonce| talk.sell(&task, nonce)[0]["id"].clone()).collect();
    talk.job("j2");
    talk.hear(json!({ "id": ids[0], "error": words }));
    assert!(!reconnects(&talk.wait(Duration::from_millis(1999))));
    assert!(talk.dialogue.next_deadline(talk.now) <= talk.now + Duration::from_millis(1));
    assert!(reconnects(&talk.wait(Duration::from_millis(1))));
}

#[test]
fn a_share_whose_answer_was_lost_is_sent_again() {
    let (mut talk, task) = Talk::working();
    talk.sell(&task, 100);
    assert_eq!(talk.dialogue.disconnected(talk.now), []);
    talk.connect();
    let effects = talk.hear(agreed());
    let request = &sent(&effects)[0];
    assert_eq!((&request["method"], &request["params"]["nonce"]), (&json!("submit"), &json!(100)));
    assert_ne!(request["id"], 2, "an answer to the first must not be taken for this one's");
    let effects = talk.hear(json!({ "id": request["id"], "error": "duplicate share" }));
    assert_eq!(verdicts(&effects), [(100, "accepted for now".to_owned())]);

    talk.job("j2");
    talk.sell(&task, 101);
    for _ in 0..7 {
        assert_eq!(verdicts(&talk.dialogue.disconnected(talk.now)), []);
        talk.connect();
        talk.hear(agreed());
    }
    let lost = talk.dialogue.disconnected(talk.now);
    assert_eq!(verdicts(&lost), [(101, "unknown: its answer was lost".to_owned())]);
}

#[test]
fn a_refusal_of_a_share_sent_again_says_nothing_about_the_first_time() {
    for (words, known) in [
        (FORGOTTEN, false),
        ("stale job: assignment superseded by newer difficulty (stale_for=6.000s)", false),
        (r#"submitblock 400: {"error":"block rejected as stale"}"#, false),
        ("address quarantined: invalid share proof (remaining 59m 59s)", false),
        ("low difficulty share", true),
        ("invalid hex", true),
        ("nonce out of assigned range", true),
    ] {
        let (mut talk, task) = Talk::working();
        talk.sell(&task, 100);
        talk.dialogue.disconnected(talk.now);
        talk.connect();
        let id = sent(&talk.hear(agreed()))[0]["id"].clone();
        let effects = talk.hear(json!({ "id": id, "error": words }));
        let expect = if known {
            format!("refused: {words}")
        } else {
            format!("unknown: its first answer was lost, now: {words}")
        };
        assert_eq!(verdicts(&effects), [(100, expect)]);
    }
}

#[test]
fn an_answer_that_is_late_when_the_connection_breaks_is_asked_for_again() {
    let (mut talk, task) = Talk::working();
    talk.sell(&task, 100);
    assert_eq!(verdicts(&talk.wait(Duration::from_secs(31))), []);
    assert_eq!(verdicts(&talk.dialogue.disconnected(talk.now)), []);
    talk.connect();
    assert_eq!(sent(&talk.hear(agreed()))[0]["params"]["nonce"], 100);
}

#[test]
fn a_quarantine_stops_work_until_it_ends() {
    let (mut talk, task) = Talk::working();
    let ids: Vec<Value> = (0..2).map(|nonce| talk.sell(&task, nonce)[0]["id"].clone()).collect();
    let words = "address quarantined: invalid share proof (fraud strikes=3, until \
                 2026-11-23T03:42:58Z, remaining 59m 59s 873ms)";
    let pauses =
        |effects: &[Effect]| effects.iter().filter(|e| matches!(e, Effect::Pause { .. })).count();
    let effects = talk.hear(json!({ "id": ids[0], "error": words }));
    assert_eq!((pauses(&effects), reconnects(&effects)), (1, false));
    assert_eq!(verdicts(&effects), [(0, format!("refused: {words}"))]);
    // The pause is said once, and later shares are not kept.
    let share = Share { task: Arc::clone(&task), nonce: 9, tag: [9; 32], found: talk.now };
    let effects = talk.dialogue.sell(share, talk.now);
    assert_eq!(verdicts(&effects), [(9, format!("lost: {SHUT_OUT}"))]);
    let job = json!({ "method": "job", "params": {
        "job_id": "j9", "header_base": "5a".repeat(92), "target": "0f".repeat(32),
        "height": 8, "nonce_start": 100, "nonce_end": 199,
    }});
    assert_eq!(talk.hear(job), [], "a job is no reason to go on");
    let effects = talk.hear(json!({ "id": ids[1], "error": words }));
    assert_eq!(pauses(&effects), 0);
    let hour = Duration::from_millis(3_600_873);
    assert_eq!(retry(&effects), Some(Retry::After(hour)));

    // At a login it means the same. After it, shares are sold as ever.
    talk.dialogue.disconnected(talk.now);
    talk.connect();
    let effects = talk.hear(json!({ "id": 1, "error": "address quarantined" }));
    assert_eq!(retry(&effects), Some(Retry::After(Duration::from_secs(901))));
    talk.dialogue.disconnected(talk.now);
    talk.connect();
    talk.hear(agreed());
    let task = talk.job("j2");
    assert_eq!(talk.sell(&task, 100).len(), 1);
}

#[test]
fn a_block_whose_fate_is_unknown_is_settled_by_the_pools_word() {
    let found = json!({ "method": "notification", "params": {
        "kind": "miner_block_found", "message": "you found block 7",
    }});
    // At the lowest target, every tag is a block.
    let working = || {
        let (talk, task) = Talk::working();
        let network_target = Some(Target::from_bytes([0xff; 32]));
        (talk, Arc::new(Task { network_target, ..Task::clone(&task) }))
    };
    let settled = |effects: &[Effect]| {
        effects.iter().any(|e| matches!(e, Effect::Settled { share, .. } if share.nonce == 100))
    };
    // The node did not answer the pool; later the pool confirms the block.
    let (mut talk, task) = working();
    let id = talk.sell(&task, 100)[0]["id"].clone();
    let effects = talk.hear(json!({ "id": id, "error": "submitblock 500: " }));
    assert_eq!(verdicts(&effects), [(100, "unknown: submitblock 500: ".to_owned())]);
    assert!(settled(&talk.hear(found.clone())));
    assert!(!settled(&talk.hear(found.clone())), "once is enough");

    // The pool's word came, the answer did not, and the job is stale by now.
    let (mut talk, task) = working();
    talk.sell(&task, 100);
    talk.hear(found.clone());
    talk.dialogue.disconnected(talk.now);
    talk.connect();
    let id = sent(&talk.hear(agreed()))[0]["id"].clone();
    let effects = talk.hear(json!({ "id": id, "error": FORGOTTEN }));
    assert_eq!(verdicts(&effects), [(100, "accepted".to_owned())]);

    // The word is about an answered share: it settles no other.
    let (mut talk, task) = working();
    let id = talk.sell(&task, 101)[0]["id"].clone();
    talk.hear(answer(&id));
    let id = talk.sell(&task, 100)[0]["id"].clone();
    talk.hear(json!({ "id": id, "error": "submitblock 500: " }));
    assert!(!settled(&talk.hear(found)));
}

#[test]
fn a_duplicate_that_was_not_sent_again_is_refused() {
    let (mut talk, task) = Talk::working();
    talk.sell(&task, 100);
    let effects = talk.hear(json!({ "id": 2, "error": "duplicate share" }));
    assert_eq!(verdicts(&effects), [(100, "refused: duplicate share".to_owned())]);
}

#[test]
fn a_busy_pool_is_asked_again_a_few_times() {
    let (mut talk, task) = Talk::working();
    let mut requests = talk.sell(&task, 100);
    let mut count = 0;
    let last = loop {
        count += 1;
        let id = requests[0]["id"].clone();
        let effects = talk.hear(json!({ "id": id, "error": "server busy, retry" }));
        if !verdicts(&effects).is_empty() {
            break verdicts(&effects);
        }
        assert_eq!(sent(&effects).len(), 0, "not at once");
        requests = sent(&talk.wait(Duration::from_secs(2)));
        assert_eq!(requests.len(), 1);
    };
    assert_eq!((count, last), (8, vec![(100, "refused: server busy, retry".to_owned())]));
}

#[test]
fn a_duplicate_of_a_share_that_was_refused_for_now_can_mean_either() {
    let (mut talk, task) = Talk::working();
    let id = talk.sell(&task, 100)[0]["id"].clone();
    talk.hear(json!({ "id": id, "error": "validation timeout" }));
    let id = sent(&talk.wait(Duration::from_secs(2)))[0]["id"].clone();
    let effects = talk.hear(json!({ "id": id, "error": "duplicate share" }));
    assert_eq!(verdicts(&effects), [(100, "unknown: duplicate share".to_owned())]);
}

#[test]
fn late_answers_are_recognised_and_missing_ones_are_told() {
    let (mut talk, task) = Talk::working();
    talk.sell(&task, 100);
    talk.sell(&task, 101);
    assert_eq!(verdicts(&talk.wait(Duration::from_secs(31))), []);
    let effects = talk.hear(json!({ "id": 2, "status": "ok", "result": { "accepted": true } }));
    assert_eq!(verdicts(&effects), [(100, "accepted for now".to_owned())]);
    let effects = talk.wait(Duration::from_secs(120));
    assert_eq!(verdicts(&effects), [(101, "unknown: the pool never answered".to_owned())]);
    let again = talk.hear(json!({ "id": 3, "status": "ok", "result": { "accepted": true } }));
    assert!(matches!(again[..], [Effect::Warning(_)]), "{again:?}");
}

#[test]
fn a_pool_that_answers_no_share_is_left() {
    let (mut talk, task) = Talk::working();
    for nonce in 0..3 {
        talk.sell(&task, nonce);
    }
    assert!(reconnects(&talk.wait(Duration::from_secs(30))));
}

/// A pool that swallowed sixteen answers would have kept every later share waiting for half a
/// minute, until there was no room for more.
#[test]
fn unanswered_shares_do_not_keep_others_waiting_for_long() {
    let (mut talk, task) = Talk::working();
    for nonce in 0..20 {
        talk.sell(&task, nonce);
    }
    assert!(!reconnects(&talk.wait(Duration::from_secs(9))));
    // One answer, and the pool has its time again.
    talk.hear(answer(&json!(2)));
    assert!(!reconnects(&talk.wait(Duration::from_secs(9))));
    assert!(reconnects(&talk.wait(Duration::from_secs(1))));
    talk.dialogue.disconnected(talk.now);
    talk.connect();
    assert_eq!(sent(&talk.hear(agreed())).len(), 16, "all of them are sent again");
    // Where there is room for others, one late answer is no reason.
    let (mut talk, task) = Talk::working();
    talk.sell(&task, 100);
    assert!(!reconnects(&talk.wait(Duration::from_secs(29))));
}

#[test]
fn a_share_that_met_no_login_is_sold_after_the_next() {
    let (mut talk, task) = Talk::working();
    let id = talk.sell(&task, 100)[0]["id"].clone();
    let effects = talk.hear(json!({ "id": id, "error": "not logged in" }));
    assert!(reconnects(&effects) && verdicts(&effects).is_empty());
    talk.dialogue.disconnected(talk.now);
    talk.connect();
    assert_eq!(sent(&talk.hear(agreed()))[0]["params"]["nonce"], 100);
}

#[test]
fn a_pool_that_never_answers_or_sends_no_job_is_left() {
    let mut talk = Talk::new();
    talk.connect();
    assert!(!reconnects(&talk.wait(Duration::from_secs(14))));
    assert!(reconnects(&talk.wait(Duration::from_secs(1))));

    let mut talk = Talk::new();
    talk.connect();
    talk.hear(agreed());
    assert!(!reconnects(&talk.wait(Duration::from_secs(59))));
    assert!(reconnects(&talk.wait(Duration::from_secs(1))));

    let (mut talk, task) = Talk::working();
    assert!(!reconnects(&talk.wait(Duration::from_secs(600))));
    talk.dialogue.window_done(&task.id, talk.now);
    assert!(reconnects(&talk.wait(Duration::from_secs(60))));
}

#[test]
fn silence_is_filled_with_empty_lines_when_nothing_is_under_way() {
    let (mut talk, task) = Talk::working();
    assert_eq!(talk.wait(Duration::from_secs(9)), []);
    assert_eq!(talk.wait(Duration::from_secs(1)), [Effect::Send(b"\n".to_vec())]);
    assert_eq!(talk.wait(Duration::from_secs(9)), []);
    talk.sell(&task, 100);
    assert_eq!(talk.wait(Duration::from_secs(11)), []);
}

#[test]
fn nonsense_is_told_and_borne_up_to_a_point() {
    let (mut talk, _) = Talk::working();
    for (line, warns) in [
        ("", false),
        ("   ", false),
        ("not json", true),
        ("[1,2]", true),
        (r#"{"id":4711,"error":"x"}"#, true),
        (r#"{"method":"dance"}"#, true),
        (r#"{"method":"job"}"#, true),
        (r#"{"id":1,"status":"ok"}"#, true),
    ] {
        let effects = talk.dialogue.receive(line.as_bytes(), talk.now);
        let warned = matches!(effects[..], [Effect::Warning(_)]);
        assert_eq!((warned, effects.len()), (warns, usize::from(warns)), "{line}: {effects:?}");
    }
    let mut count = 0;
    while !reconnects(&talk.dialogue.receive(b"{", talk.now)) {
        count += 1;
        assert!(count <= 64, "there is an end to it");
    }
    let mut early = Talk::new();
    early.connect();
    let effects = early.hear(json!({ "method": "job", "params": {
        "job_id": "j", "header_base": "00".repeat(92), "target": "00".repeat(32), "height": 1,
        "nonce_start": 0, "nonce_end": 0,
    }}));
    assert!(matches!(effects[..], [Effect::Warning(_)]), "{effects:?}");
}

#[test]
fn shares_that_waited_for_too_long_are_dropped() {
    let (mut talk, task) = Talk::working();
    talk.dialogue.disconnected(talk.now);
    assert_eq!(talk.sell(&task, 100), Vec::<Value>::new());
    let effects = talk.wait(Duration::from_secs(60));
    assert_eq!(verdicts(&effects), [(100, "lost: it waited for too long".to_owned())]);
}

#[test]
fn the_difficulty_of_a_target_is_near_enough() {
    for difficulty in [1, 2, 60, 1000, 1_000_000_007, u64::MAX] {
        let job = Job {
            id: String::new(),
            header: Vec::new(),
            target: Target::from_difficulty(difficulty),
            network_target: None,
            difficulty: None,
            height: 0,
            first: 0,
            last: 0,
        };
        let told = difficulty_of(&job);
        assert!(told.abs_diff(difficulty) <= difficulty / 1_000_000, "{told} of {difficulty}");
    }
}
