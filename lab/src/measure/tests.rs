//! Outcomes for contenders with differing answers.

use super::*;
use crate::answer::Digest;
use crate::workload::Scale;

fn entrant(name: &str) -> Entrant {
    Entrant {
        family: Family::Doc,
        about: About::peer(name, "1", ""),
        name: name.into(),
        program: Program { path: "/nowhere".into(), prefix: Vec::new() },
        absence: None,
    }
}

/// Who is out after these answers.
fn check(answers: &[u64], expect: &[bool]) {
    let cx = Context {
        scale: Scale::Quick,
        data: "/nowhere".into(),
        scratch: "/nowhere".into(),
        cache: "/nowhere".into(),
        seed: 0,
    };
    let entrants: Vec<Entrant> = (0..answers.len()).map(|n| entrant(&n.to_string())).collect();
    let mut lanes: Vec<Lane<'_>> = entrants.iter().map(|entrant| Lane::new(entrant, &cx)).collect();
    for (lane, &answer) in lanes.iter_mut().zip(answers) {
        lane.answer = Some(Answer::of(Digest::new().int(answer)));
    }
    compare(&mut lanes);
    let out: Vec<bool> = lanes.iter().map(Lane::out).collect();
    assert_eq!(out, expect);
}

#[test]
fn equal_answers_all_stay() {
    check(&[7, 7, 7], &[false, false, false]);
}

#[test]
fn the_one_who_differs_from_most_fails() {
    check(&[7, 8, 7], &[false, true, false]);
}

#[test]
fn without_a_majority_all_fail() {
    check(&[7, 8], &[true, true]);
}

#[test]
fn a_program_that_is_not_there_is_a_failure_and_no_panic() {
    let folder = std::env::temp_dir().join("shoal-lab-nobody");
    let cx = Context {
        scale: Scale::Quick,
        data: folder.clone(),
        scratch: folder.clone(),
        cache: folder,
        seed: 0,
    };
    let plan = Plan {
        rounds: 1,
        cold: 1,
        budget: Duration::from_secs(1),
        patience: Duration::from_secs(1),
        rest: Duration::ZERO,
        fresh: false,
    };
    let row = Row::new(Family::Doc, "x", "op", "");
    let record = measure(&row, &[entrant("a")], &plan, &cx, &mut Random::new(1), &mut |_| ());
    assert!(record.has_failed());
}
