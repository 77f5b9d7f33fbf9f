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

    /// Finds a share; the requests that are sent for it.
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
    effects.iter().any(|effect| matches!(effect, Effect::Reconnect(_)))
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
        ("address quarantined: invalid share proof (fraud strikes=3)", false),
        ("server busy, retry", false),
    ] {
        let mut talk = Talk::new();
        talk.connect();
        let effects = talk.hear(json!({ "id": 1, "error": words }));
        assert_eq!(effects.len(), 1);
        match &effects[0] {
            Effect::Fail(SourceError::LoginRefused(said)) => assert!(for_good && said == words),
            Effect::Reconnect(said) => assert!(!for_good && said.contains(words), "{said}"),
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

#[test]
fn stale_shares_make_us_log_in_again_when_they_should() {
    let stale = |words: &str| json!({ "id": 2, "error": words });
    let of_old_job = |words: &str| {
        let (mut talk, first) = Talk::working();
        talk.sell(&first, 100);
        talk.job("j2");
        let effects = talk.hear(stale(words));
        assert_eq!(verdicts(&effects), [(100, format!("refused: {words}"))]);
        reconnects(&effects)
    };
    assert!(of_old_job("stale job: assignment not found"));
    assert!(of_old_job("stale job: template 1 exceeded stale grace (stale_for=15.000s)"));
    assert!(!of_old_job("stale job: template 1 exceeded stale grace (stale_for=14.999s)"));
    assert!(!of_old_job("stale job: template 1 exceeded stale grace (stale_for=999ms)"));

    // The job of the moment is stale: whatever else is found on it would be, too.
    let (mut talk, task) = Talk::working();
    talk.sell(&task, 100);
    assert!(reconnects(&talk.hear(stale("stale job: assignment expired (age=301s, ttl=300s)"))));

    // Three within a minute; not three in more.
    for (pause, expect) in [(Duration::from_secs(20), true), (Duration::from_secs(40), false)] {
        let (mut talk, first) = Talk::working();
        for nonce in 0..3 {
            talk.sell(&first, nonce);
        }
        talk.job("j2");
        let mut again = false;
        for id in 2..5 {
            again |= reconnects(&talk.hear(json!({ "id": id, "error": "stale job: x" })));
            talk.now += pause;
        }
        assert_eq!(again, expect, "{pause:?}");
    }
}

#[test]
fn a_share_whose_answer_was_lost_is_sent_once_more() {
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
    talk.dialogue.disconnected(talk.now);
    talk.connect();
    talk.hear(agreed());
    let lost = talk.dialogue.disconnected(talk.now);
    assert_eq!(verdicts(&lost).len(), 1, "twice is enough");
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
    assert_eq!((count, last), (4, vec![(100, "refused: server busy, retry".to_owned())]));
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
    assert_eq!(verdicts(&effects), [(101, "lost: the pool never answered".to_owned())]);
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
