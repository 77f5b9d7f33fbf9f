//! Single characters in a long text with a long history: typed here, or by someone else.

use super::{BOB, answer, held, row, trace};
use crate::answer::Digest;
use crate::engine::{DocEngine, Miss};
use crate::random::Random;
use crate::workload::traces::Recorded;
use crate::workload::{Bench, Context, sampler};

/// The trace providing the text.
const NAME: &str = "rustcode";

/// The author of the changes sent to [`BOB`].
const CAROL: u16 = 3;

pub(super) fn add<E: DocEngine>(bench: &mut Bench<E>) {
    let text = format!(
        "the text of {NAME}, loaded with its history: type 1,000 characters, each at a random place \
         and in a transaction of its own"
    );
    bench.add(row(&format!("trace/{NAME}/local_char"), "character", &text), |engine, cx| {
        let engine = held(engine);
        let (bytes, places) = (trace::saved(&*engine, cx, NAME)?, places(cx)?);
        sampler(move |watch| {
            let mut doc = engine.load(&bytes, BOB)?;
            let text = engine.find_text(&doc)?;
            watch.time(places.len() as u64, || {
                places.iter().try_for_each(|place| {
                    engine.transact(&mut doc, |tx| engine.splice(tx, &text, *place, 0, "!"))
                })
            })?;
            let digest = Digest::new().text(&engine.text(&doc, &text)?);
            Ok(answer(&*engine, &mut doc, digest))
        })
    });
    let text = format!(
        "the text of {NAME}, loaded with its history: apply 1,000 changes one after the other, each \
         of which types a character at a random place"
    );
    bench.add(row(&format!("trace/{NAME}/remote_char"), "character", &text), |engine, cx| {
        let engine = held(engine);
        let bytes = trace::saved(&*engine, cx, NAME)?;
        let sent = sent(&*engine, &bytes, &places(cx)?)?;
        sampler(move |watch| {
            let mut doc = engine.load(&bytes, BOB)?;
            watch.time(sent.len() as u64, || {
                sent.iter().try_for_each(|changes| engine.apply(&mut doc, changes))
            })?;
            let digest = Digest::new().text(&engine.text(&doc, &engine.find_text(&doc)?)?);
            Ok(answer(&*engine, &mut doc, digest))
        })
    });
}

/// Where characters are typed: the text is one longer for each.
fn places(cx: &Context) -> Result<Vec<usize>, Miss> {
    let length = Recorded::load(cx, &format!("sequential/{NAME}"))?.end.chars().count();
    let mut random = Random::new(cx.seed);
    let mut below = |bound: usize| random.below(bound as u64) as usize;
    Ok((0..cx.pick(1_000, 5)).map(|typed| below(length + typed + 1)).collect())
}

/// The changes sent by [`CAROL`], one for each character.
fn sent<E: DocEngine>(
    engine: &E,
    bytes: &[u8],
    places: &[usize],
) -> Result<Vec<Vec<Vec<u8>>>, Miss> {
    let mut doc = engine.load(bytes, CAROL)?;
    let text = engine.find_text(&doc)?;
    let mut heads = engine.heads(&mut doc)?;
    let mut sent = Vec::with_capacity(places.len());
    for place in places {
        engine.transact(&mut doc, |tx| engine.splice(tx, &text, *place, 0, "!"))?;
        sent.push(engine.changes(&mut doc, Some(&heads))?);
        heads = engine.heads(&mut doc)?;
    }
    Ok(sent)
}
