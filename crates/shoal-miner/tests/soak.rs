//! A miner at a pool that restarts again and again and has a fault of the real ones in between,
//! all of them in an order of chance; and another miner, at the same time on the same machine, at
//! a pool without restarts and faults.
//!
//! Afterwards every share is accounted for: none accepted by the pool is told as refused or lost
//! or counts twice, and none told as accepted is missing at the pool. The rate is compared by
//! hash and by time at work: how much of a miner's hashing was sold, and how much of the time it
//! hashed. Shares a second would say less about the pool than about other load on the machine,
//! which seldom slows two threads alike.
//!
//! The test takes seconds. `SHOAL_SOAK_MINUTES=30 cargo test --release -p shoal-miner --test
//! soak -- --nocapture` is the long form: a restart every minute, and at least 95 % of the rate of
//! the other miner (`docs/mining.md`).

#![allow(clippy::unwrap_used, clippy::print_stdout)]

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use shoal_miner::board::Board;
use shoal_miner::config::Settings;
use shoal_miner::miner::Miner;
use shoal_testpool::address::{Network, sample};
use shoal_testpool::{Event, Faults, Rules, TestPool};
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::watch;

/// Length and pace of a soak.
struct Plan {
    rounds: u32,
    /// From one restart to the next.
    round: Duration,
    /// How long a restart takes.
    down: Duration,
    /// How long the fault lasts.
    fault: Duration,
    memory_kib: u32,
    difficulty: u64,
    /// Least part of the other miner's rate, in percent.
    least: u64,
}

impl Plan {
    /// Ten seconds, a good part of them restarts and faults.
    fn short() -> Self {
        Self {
            rounds: 2,
            round: Duration::from_secs(5),
            down: Duration::from_millis(300),
            fault: Duration::from_millis(500),
            memory_kib: 64,
            difficulty: 400,
            least: 40,
        }
    }

    fn of_minutes(minutes: u32) -> Self {
        Self {
            rounds: minutes,
            round: Duration::from_secs(60),
            down: Duration::from_secs(1),
            fault: Duration::from_secs(2),
            memory_kib: 1024,
            difficulty: 20,
            least: 95,
        }
    }
}

/// Faults of the pool and of the network before it, each with the real pool's words.
fn faults() -> Vec<(&'static str, Faults)> {
    let refuse =
        |words: &str| Faults { refuse_submits: Some(words.to_owned()), ..Faults::default() };
    let late = Some(Duration::from_millis(700));
    let pause = Some(Duration::from_millis(20));
    vec![
        ("none", Faults::default()),
        ("close at once", Faults { close_at_once: true, ..Faults::default() }),
        ("close after login", Faults { close_after_login: true, ..Faults::default() }),
        ("close on submit", Faults { close_on_submit: true, ..Faults::default() }),
        ("lose acks", Faults { lose_acks: true, ..Faults::default() }),
        ("swallow submits", Faults { swallow_submits: true, ..Faults::default() }),
        ("cut job", Faults { cut_job: true, ..Faults::default() }),
        ("nonsense", Faults { say_first: Faults::nonsense(), ..Faults::default() }),
        ("split lines", Faults { split_lines: pause, ..Faults::default() }),
        ("late acks", Faults { late_ack: late, ..Faults::default() }),
        ("double acks", Faults { double_ack: true, ..Faults::default() }),
        ("job before ack", Faults { job_before_ack: true, ..Faults::default() }),
        ("busy", refuse("server busy, retry")),
        ("rate limited", refuse("rate limited, retry")),
        ("validation timeout", refuse("validation timeout")),
        ("not logged in", refuse("not logged in")),
        ("unknown job", refuse("stale job: assignment not found")),
        (
            "stale",
            refuse(
                "stale job: template 0000000000000000 exceeded stale grace \
                 (current=-, stale_for=20.000s, stale_grace=5.000s)",
            ),
        ),
    ]
}

/// A pool and its miner.
struct Pair {
    pool: TestPool,
    board: Arc<Board>,
    /// The last word about each share, by nonce.
    told: Arc<Mutex<HashMap<u64, String>>>,
    stop: watch::Sender<bool>,
    thread: JoinHandle<Result<(), String>>,
    ear: JoinHandle<()>,
}

impl Pair {
    fn start(plan: &Plan) -> Self {
        let rules = Rules {
            memory_kib: plan.memory_kib,
            difficulty: plan.difficulty,
            // Hashes of 1 MiB would use a window of the usual million up in minutes.
            window: 1 << 40,
            ..Rules::small()
        };
        let pool = TestPool::start(rules).unwrap();
        let settings = Settings {
            pool: Some(pool.url()),
            address: Some(sample(1, Network::Main)),
            memory_kib: Some(plan.memory_kib),
            threads: Some(1),
            side_by_side: Some(1),
            affinity: Some("off".to_owned()),
            ..Settings::default()
        };
        let board = Arc::new(Board::new());
        let told: Arc<Mutex<HashMap<u64, String>>> = Arc::default();
        let (mut heard, kept) = (board.subscribe(), Arc::clone(&told));
        let ear = std::thread::spawn(move || {
            loop {
                match heard.blocking_recv() {
                    Ok(news) if news.name == "submit.result" => {
                        let verdict = news.data["verdict"].as_str().unwrap().to_owned();
                        kept.lock().unwrap().insert(news.data["nonce"].as_u64().unwrap(), verdict);
                    }
                    Ok(_) => {}
                    Err(RecvError::Lagged(missed)) => panic!("{missed} announcements are missing"),
                    Err(RecvError::Closed) => return,
                }
            }
        });
        let (miner, control) = Miner::new(settings, Arc::clone(&board));
        let (stop, stopped) = watch::channel(false);
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            let result = runtime.unwrap().block_on(miner.live(stopped));
            drop(control);
            result.map_err(|error| error.to_string())
        });
        Self { pool, board, told, stop, thread, ear }
    }

    /// Ends the miner, and gives account of every share.
    fn end(self) -> Account {
        self.stop.send_replace(true);
        self.thread.join().unwrap().unwrap();
        let state = self.board.state();
        // The last announcements are read before the end of the board is heard.
        drop(self.board);
        self.ear.join().unwrap();
        let told = self.told.lock().unwrap();
        let engine = state.engine.unwrap();
        let mut account = Account {
            connects: state.source.connects,
            hashes: engine.hashes + engine.late_hashes,
            at_work: engine.working_secs / engine.ready_secs,
            ..Account::default()
        };
        let mut accepted = HashSet::new();
        for (_, _, event) in self.pool.log() {
            if let Event::Submit { nonce, verdict: Ok(_), .. } = event {
                account.twice += u64::from(!accepted.insert(nonce));
            }
        }
        for verdict in told.values() {
            *account.told.entry(verdict.clone()).or_default() += 1;
        }
        for nonce in &accepted {
            match told.get(nonce).map(String::as_str) {
                Some("accepted") => {}
                Some("unknown") => account.unknown_that_count += 1,
                // Its answer was under way when the miner ended.
                None => account.untold += 1,
                Some(_) => account.denied += 1,
            }
        }
        let claims = told.iter().filter(|(_, verdict)| *verdict == "accepted");
        account.invented = claims.filter(|(nonce, _)| !accepted.contains(nonce)).count() as u64;
        account.accepted = accepted.len() as u64;
        account
    }
}

/// The fates of a miner's shares.
#[derive(Debug, Default)]
struct Account {
    /// Shares accepted by the pool.
    accepted: u64,
    /// Shares accepted by the pool a second time.
    twice: u64,
    /// The miner's last words, by kind.
    told: BTreeMap<String, u64>,
    /// Accepted by the pool and told as unknown: the truth, as far as the miner can know it.
    unknown_that_count: u64,
    /// Accepted by the pool, and the miner ended before its verdict.
    untold: u64,
    /// Accepted by the pool and told as stale, refused or lost.
    denied: u64,
    /// Told as accepted, and the pool does not have them.
    invented: u64,
    connects: u64,
    hashes: u64,
    /// The part of the time with work to do.
    at_work: f64,
}

impl Account {
    /// Sold hashes by hash, times the time at work.
    fn rate(&self, difficulty: u64) -> f64 {
        (self.accepted * difficulty) as f64 / self.hashes as f64 * self.at_work
    }
}

#[test]
fn a_restart_and_a_fault_every_round() {
    let minutes = std::env::var("SHOAL_SOAK_MINUTES").ok().map(|text| text.parse().unwrap());
    let plan = minutes.map_or_else(Plan::short, Plan::of_minutes);
    let (steady, soaked) = (Pair::start(&plan), Pair::start(&plan));
    let wait = Duration::from_secs(60);
    assert!(steady.pool.wait_accepted(1, wait) && soaked.pool.wait_accepted(1, wait));
    let counts = || (steady.pool.accepted(), soaked.pool.accepted());
    let (first_steady, first_soaked) = counts();
    let begun = Instant::now();
    let mut deck = Vec::new();
    for round in 0..plan.rounds {
        let end = begun + plan.round * (round + 1);
        soaked.pool.restart(plan.down);
        // Somebody else finds a block: a new job for both, before the old one expires.
        std::thread::sleep(plan.round / 4);
        steady.pool.advance();
        soaked.pool.advance();
        // The fault comes some time in the second half, so fault and restart do not hide
        // each other.
        if deck.is_empty() {
            deck = faults();
        }
        let (name, fault) = deck.swap_remove(random(deck.len() as u64) as usize);
        let span = (plan.round / 2).saturating_sub(plan.fault * 2).as_millis() as u64;
        let at = plan.round / 2 + Duration::from_millis(random(span.max(1)));
        let at = begun + plan.round * round + at;
        std::thread::sleep(at.saturating_duration_since(Instant::now()));
        soaked.pool.set_faults(fault);
        std::thread::sleep(plan.fault);
        soaked.pool.set_faults(Faults::default());
        std::thread::sleep(end.saturating_duration_since(Instant::now()));
        let (of_steady, of_soaked) = counts();
        println!(
            "round {}: {name}; accepted so far {} and {}",
            round + 1,
            of_steady - first_steady,
            of_soaked - first_soaked
        );
    }
    let (last_steady, last_soaked) = counts();
    let (of_steady, of_soaked) = (last_steady - first_steady, last_soaked - first_soaked);
    let (steady, soaked) = (steady.end(), soaked.end());
    println!("without restarts: {steady:?}");
    println!("with {} restarts: {soaked:?}", plan.rounds);
    let percent = soaked.rate(plan.difficulty) * 100.0 / steady.rate(plan.difficulty);
    println!("{percent:.1} % of the rate without restarts; shares {of_soaked} and {of_steady}");
    for account in [&steady, &soaked] {
        assert_eq!((account.twice, account.denied, account.invented), (0, 0, 0));
    }
    assert_eq!(steady.told.get("refused"), None);
    assert!(soaked.connects > u64::from(plan.rounds));
    assert!(percent >= plan.least as f64, "{percent:.1} %, and at least {} are wanted", plan.least);
}

/// A number below this one, by chance.
fn random(below: u64) -> u64 {
    use std::hash::{BuildHasher, Hasher, RandomState};
    RandomState::new().build_hasher().finish() % below
}
