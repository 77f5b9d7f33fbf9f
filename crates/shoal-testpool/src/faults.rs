//! Faults, each switched on by itself.

use std::time::Duration;

/// Faults of a pool and of the network before it. Read anew at every step: they can be
/// changed while miners are connected. The default is a pool without fault.
#[derive(Clone, Debug, Default)]
pub struct Faults {
    /// Close every connection as soon as accepted.
    pub close_at_once: bool,
    /// Accept, read, and never say a word.
    pub silent: bool,
    /// Refuse logins with these words, then close.
    pub refuse_login: Option<String>,
    /// Require a capability with this name.
    pub require: Option<String>,
    /// Close after the login was answered.
    pub close_after_login: bool,
    /// Send no jobs.
    pub no_jobs: bool,
    /// Send these lines, as they are, after the login and before the first job.
    pub say_first: Vec<Vec<u8>>,
    /// Send every line in pieces, with this pause between them.
    pub split_lines: Option<Duration>,
    /// Send half of the first job's line, then close.
    pub cut_job: bool,
    /// Never answer a submit.
    pub swallow_submits: bool,
    /// Refuse submits with these words.
    pub refuse_submits: Option<String>,
    /// Answer submits this much later.
    pub late_ack: Option<Duration>,
    /// Send a new job of the same template before each answer to a submit.
    pub job_before_ack: bool,
    /// Answer every submit twice.
    pub double_ack: bool,
    /// Close instead of taking a submit.
    pub close_on_submit: bool,
    /// Take a submit, then close instead of answering.
    pub lose_acks: bool,
    /// Put the address of the next submit into quarantine for this long. Happens once.
    pub quarantine: Option<Duration>,
    /// Answer blocks with these words, as when the pool's own node refuses them.
    pub block_refusal: Option<String>,
}

impl Faults {
    /// Switches on a fault by name, as written on the test pool's command line.
    ///
    /// # Errors
    /// A sentence with all names, when the text is none of them.
    pub fn switch_on(&mut self, text: &str) -> Result<(), String> {
        let (name, value) = text.split_once('=').unwrap_or((text, ""));
        let or = |default: &str| if value.is_empty() { default } else { value }.to_owned();
        let millis = || value.parse().map_or(Duration::from_millis(50), Duration::from_millis);
        match name {
            "close-at-once" => self.close_at_once = true,
            "silent" => self.silent = true,
            "refuse-login" => {
                self.refuse_login = Some(or("invalid address: invalid base58 address"))
            }
            "require" => self.require = Some(or("time_travel")),
            "close-after-login" => self.close_after_login = true,
            "no-jobs" => self.no_jobs = true,
            "nonsense" => self.say_first.extend(Self::nonsense()),
            "huge-line" => self.say_first.push(vec![b'x'; value.parse().unwrap_or(1 << 20)]),
            "split-lines" => self.split_lines = Some(millis()),
            "cut-job" => self.cut_job = true,
            "swallow-submits" => self.swallow_submits = true,
            "refuse-submits" => self.refuse_submits = Some(or("server busy, retry")),
            "stale" => {
                self.refuse_submits = Some(
                    "stale job: template 0000000000000000 exceeded stale grace \
                     (current=-, stale_for=20.000s, stale_grace=5.000s)"
                        .to_owned(),
                );
            }
            "late-ack" => self.late_ack = Some(millis()),
            "job-before-ack" => self.job_before_ack = true,
            "double-ack" => self.double_ack = true,
            "close-on-submit" => self.close_on_submit = true,
            "lose-acks" => self.lose_acks = true,
            "quarantine" => {
                self.quarantine = Some(Duration::from_secs(value.parse().unwrap_or(3600)));
            }
            "block-refusal" => {
                let stale = r#"submitblock 400: {"error":"block rejected as stale"}"#;
                self.block_refusal = Some(or(stale));
            }
            _ => {
                return Err(format!("no such fault: {name}; there are {}", Self::NAMES.join(", ")));
            }
        }
        Ok(())
    }

    /// The names [`Self::switch_on`] takes.
    pub const NAMES: [&'static str; 20] = [
        "close-at-once",
        "silent",
        "refuse-login=WORDS",
        "require=CAPABILITY",
        "close-after-login",
        "no-jobs",
        "nonsense",
        "huge-line=BYTES",
        "split-lines=MS",
        "cut-job",
        "swallow-submits",
        "refuse-submits=WORDS",
        "stale",
        "late-ack=MS",
        "job-before-ack",
        "double-ack",
        "close-on-submit",
        "lose-acks",
        "quarantine=SECS",
        "block-refusal=WORDS",
    ];

    /// Lines no pool should send: no JSON, JSON of the wrong shape, unknown methods, answers to
    /// nothing, jobs that cannot be.
    pub fn nonsense() -> Vec<Vec<u8>> {
        let job = |changed: &str| {
            let mut params = serde_json::json!({
                "job_id": "bad", "header_base": "00".repeat(92), "target": "ff".repeat(32),
                "difficulty": 1, "height": 1, "nonce_start": 0, "nonce_end": 9,
            });
            let changed: serde_json::Value =
                serde_json::from_str(changed).expect("a change is an object");
            let changed = changed.as_object().cloned().unwrap_or_default();
            params.as_object_mut().expect("params are an object").extend(changed);
            serde_json::json!({ "method": "job", "params": params }).to_string().into_bytes()
        };
        let mut lines: Vec<Vec<u8>> = [
            "",
            "   ",
            "not json",
            "{",
            "[]",
            "null",
            "17",
            "{}",
            r#"{"id":"one","status":"ok"}"#,
            r#"{"id":-1,"status":"ok"}"#,
            r#"{"id":1e300}"#,
            r#"{"id":4711,"status":"ok","result":{"accepted":true}}"#,
            r#"{"id":4712,"error":"stale job: assignment not found"}"#,
            r#"{"method":"dance","params":{"partner":"you"}}"#,
            r#"{"method":"job"}"#,
            r#"{"method":"job","params":[]}"#,
            r#"{"method":"notification","params":17}"#,
            r#"{"method":"notification","params":"a bare sentence"}"#,
        ]
        .iter()
        .map(|line| line.as_bytes().to_vec())
        .collect();
        lines.extend(
            [
                r#"{"header_base": "00"}"#,
                r#"{"header_base": "0"}"#,
                r#"{"header_base": "zz"}"#,
                r#"{"target": "ffff"}"#,
                r#"{"nonce_start": 5, "nonce_end": 4}"#,
                r#"{"nonce_start": 1.5}"#,
                r#"{"nonce_end": 9223372036854775808}"#,
                r#"{"nonce_end": 18446744073709551616}"#,
                r#"{"job_id": 17}"#,
                r#"{"height": -1}"#,
            ]
            .map(job),
        );
        lines.push(b"\xff\xfe\x00binary".to_vec());
        lines
    }
}

/// Faults of a node, switched on as those of a pool are.
#[derive(Clone, Debug, Default)]
pub struct NodeFaults {
    /// Answer templates with this status and these words, so many times.
    pub refuse_templates: Option<(u16, String, u32)>,
    /// Seconds for the `Retry-After` of such an answer.
    pub retry_after: Option<u32>,
    /// Answer submits with this status and these words, so many times.
    pub refuse_submits: Option<(u16, String, u32)>,
    /// Accept, read, and never answer.
    pub silent: bool,
    /// Answer with something other than JSON.
    pub nonsense: bool,
    /// Answer with a body of this many bytes.
    pub huge_body: Option<usize>,
    /// Close event streams right after their first event.
    pub close_events: bool,
    /// Offer no event stream.
    pub no_events: bool,
    /// Close every connection without an answer.
    pub close_at_once: bool,
    /// Answer submits this much later; the block counts at once.
    pub slow_submits: Option<Duration>,
    /// Take submits, then close instead of answering.
    pub lose_submits: bool,
}

impl NodeFaults {
    /// Switches on a fault by name, as written on the test node's command line.
    ///
    /// # Errors
    /// A sentence with all names, when the text is none of them.
    pub fn switch_on(&mut self, text: &str) -> Result<(), String> {
        let (name, value) = text.split_once('=').unwrap_or((text, ""));
        let or = |default: &str| if value.is_empty() { default } else { value }.to_owned();
        match name {
            "not-ready" => self.refuse_templates = Some((503, or("node is syncing"), u32::MAX)),
            "stale-blocks" => {
                self.refuse_submits = Some((400, or("block rejected as stale"), u32::MAX));
            }
            "busy" => {
                self.refuse_submits = Some((429, or("submitblock busy, retry later"), u32::MAX));
            }
            "silent" => self.silent = true,
            "nonsense" => self.nonsense = true,
            "huge-body" => self.huge_body = Some(value.parse().unwrap_or(33 << 20)),
            "close-events" => self.close_events = true,
            "no-events" => self.no_events = true,
            "close-at-once" => self.close_at_once = true,
            "slow-submits" => {
                let millis = value.parse().unwrap_or(15_000);
                self.slow_submits = Some(Duration::from_millis(millis));
            }
            "lose-submits" => self.lose_submits = true,
            _ => {
                return Err(format!("no such fault: {name}; there are {}", Self::NAMES.join(", ")));
            }
        }
        Ok(())
    }

    /// The names [`Self::switch_on`] takes.
    pub const NAMES: [&'static str; 11] = [
        "not-ready=WORDS",
        "stale-blocks=WORDS",
        "busy=WORDS",
        "silent",
        "nonsense",
        "huge-body=BYTES",
        "close-events",
        "no-events",
        "close-at-once",
        "slow-submits=MS",
        "lose-submits",
    ];
}
