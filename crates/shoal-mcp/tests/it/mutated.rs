//! Messages changed by chance: every request among them is answered, and the server goes on.

use std::time::Duration;

use shoal_mcp::{AnswerLimits, Options, RulesFor};

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
const ROUNDS: usize = 30;
const MESSAGES: usize = 80;

/// Numbers by chance, the same in each run.
struct Chance(u64);

impl Chance {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963);
        (self.0 >> 33) as usize % bound
    }

    fn message(&mut self, seeds: &[&str], id: usize) -> Vec<u8> {
        let seed = seeds[self.below(seeds.len())].replace("\"id\":1,", &format!("\"id\":{id},"));
        let mut bytes = seed.into_bytes();
        for _ in 0..self.below(4) {
            let place = self.below(bytes.len() + 1);
            match self.below(5) {
                0 => bytes.truncate(place.max(1)),
                1 if place < bytes.len() => bytes[place] ^= 1 << self.below(8),
                2 => {
                    let piece = PIECES[self.below(PIECES.len())];
                    bytes.splice(place..place, piece.bytes());
                }
                3 => {
                    let end = (place + self.below(9)).min(bytes.len());
                    bytes.drain(place..end);
                }
                _ => {
                    let other = seeds[self.below(seeds.len())].as_bytes();
                    let from = self.below(other.len());
                    bytes.splice(place.., other[from..].iter().copied());
                }
            }
        }
        bytes
    }
}

#[tokio::test]
async fn every_request_among_mutated_messages_is_answered() {
    let sample = Sample::new();
    let rules = sample.folder().join("rules.json");
    std::fs::write(&rules, r#"{"principals": {"ada": {"person": {"rows": "id = 1"}}}}"#).unwrap();
    let seeds: Vec<&str> = SEEDS.lines().collect();
    let mut chance = Chance(11);
    let mut answered = 0;
    for round in 0..ROUNDS {
        let mut lines = Vec::new();
        for id in 0..MESSAGES {
            lines.extend(chance.message(&seeds, id));
            lines.push(b'\n');
        }
        let principal = Some("ada".to_owned());
        let rules = RulesFor { file: rules.clone(), principal };
        let options = Options {
            limits: AnswerLimits { time: Duration::from_millis(500), ..AnswerLimits::default() },
            rules: (round % 2 == 1).then_some(rules),
            ..sample.options()
        };
        answered += conversation::converse(options, &lines).await;
    }
    assert!(answered > ROUNDS * MESSAGES / 20, "{answered} requests in all");
}
