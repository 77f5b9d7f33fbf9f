//! Messages changed by chance: every request among them is answered, and the server goes on.

use std::time::Duration;

use shoal_mcp::{AnswerLimits, Options, RulesFor};
use shoal_testkit::Random;

use super::conversation;
use super::sample::Sample;

/// Messages to begin with, one a line.
const SEEDS: &str = include_str!("messages.txt");
/// Pieces put into messages.
const PIECES: [&str; 14] = [
    "{",
    "}",
    "[",
    "]",
    "\"",
    ",",
    "null",
    "-1",
    "1e999",
    "\\u0000",
    "99999999999999999999",
    "\"id\":7,",
    "SELECT ",
    "\u{fffd}",
];
/// Person 3, Emmy, is hidden.
const RULES: &str = r#"{"principals": {"ada": {"person": {"rows": "id < 3"}, "knows": {},
    "note": {"columns": ["title"]}, "near": {"rows": "rowid = 1"}, "_graph_definition": {},
    "_shoal_doc": {"rows": "name = 'plan'", "history": true}}}}"#;
const ROUNDS: usize = 30;
const MESSAGES: usize = 80;

/// A message made of `seeds`, changed up to three times.
fn message(random: &mut Random, seeds: &[&str], id: usize) -> Vec<u8> {
    let seed = random.pick(seeds).replace("\"id\":1,", &format!("\"id\":{id},"));
    let mut bytes = seed.into_bytes();
    for _ in 0..random.place(4) {
        let place = random.place(bytes.len() + 1);
        match random.place(5) {
            0 => bytes.truncate(place.max(1)),
            1 if place < bytes.len() => bytes[place] ^= 1 << random.place(8),
            2 => {
                let piece = random.pick(&PIECES);
                bytes.splice(place..place, piece.bytes());
            }
            3 => {
                let end = (place + random.place(9)).min(bytes.len());
                bytes.drain(place..end);
            }
            _ => {
                let other = random.pick(seeds).as_bytes();
                let from = random.place(other.len());
                bytes.splice(place.., other[from..].iter().copied());
            }
        }
    }
    bytes
}

#[tokio::test]
async fn every_request_among_mutated_messages_is_answered() {
    let sample = Sample::new();
    let rules = sample.folder().join("rules.json");
    std::fs::write(&rules, RULES).unwrap();
    let seeds: Vec<&str> = SEEDS.lines().collect();
    let mut random = Random::seeded(11);
    let mut answered = 0;
    for round in 0..ROUNDS {
        let mut lines = Vec::new();
        for id in 0..MESSAGES {
            lines.extend(message(&mut random, &seeds, id));
            lines.push(b'\n');
        }
        let principal = Some("ada".to_owned());
        let rules = RulesFor { file: rules.clone(), principal };
        let options = Options {
            limits: AnswerLimits { time: Duration::from_millis(500), ..AnswerLimits::default() },
            rules: (round % 2 == 1).then_some(rules),
            ..sample.options()
        };
        let heard = conversation::converse(options, &lines).await;
        answered += heard.requests;
        let told = String::from_utf8_lossy(&heard.lines);
        assert!(round % 2 == 0 || !told.contains("Emmy"), "a hidden name: {told}");
    }
    assert!(answered > ROUNDS * MESSAGES / 20, "{answered} requests in all");
}
