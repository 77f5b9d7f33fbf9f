//! The worker's side.

use std::io::{BufRead, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};

use shoal_testkit::alloc;

use super::{Ask, Line, MARK, Reply};
use crate::args::Serve;
use crate::contenders::{Contender, Contenders};
use crate::engine::Miss;
use crate::environment::{forget_peak, resident_kib};
use crate::watch::{Watch, counts_allocations};
use crate::workload::{Context, Sampler};

/// Lists the program's contenders, or runs one on one row until stdin ends.
pub(crate) fn serve(args: &Serve, contenders: &Contenders) {
    let (Some(row), Some(name)) = (&args.row, &args.contender) else {
        let all = contenders
            .all
            .iter()
            .map(|one| (one.family, one.about.clone(), one.absence().cloned()))
            .collect();
        return say(&Line::Contenders(all));
    };
    let cx = args.context();
    let found = contenders
        .all
        .iter()
        .find(|one| one.about.name == *name && row.starts_with(one.family.name()));
    let Some(contender) = found else {
        return say(&Line::Miss(Miss::Failed(format!("no contender is called {name}"))));
    };
    match guarded(|| contender.prepare(row, &cx)) {
        Ok(sampler) => obey(contender, sampler),
        Err(miss) => say(&Line::Miss(miss)),
    }
}

/// Runs one row once, timed region included, and prints nothing: the program for a profiler.
pub(crate) fn once(contender: &Contender, row: &str, cx: &Context) -> Result<(), Miss> {
    let mut sampler = guarded(|| contender.prepare(row, cx))?;
    guarded(|| sampler(&mut Watch::new(false))).map(|_| ())
}

fn obey(contender: &Contender, mut sampler: Sampler) {
    let about = &contender.about;
    let seen = about.rust_heap || (alloc::counts_c_heaps() && !about.other_process);
    let counted = seen && counts_allocations();
    say(&Line::Ready);
    for line in std::io::stdin().lock().lines() {
        let Ok(line) = line else { return };
        let ask = if line == Ask::Verify.word() { Ask::Verify } else { Ask::Sample };
        match sample(&mut sampler, ask, counted) {
            Ok(reply) => say(&Line::Sample(reply)),
            Err(miss) => return say(&Line::Miss(miss)),
        }
    }
}

fn sample(sampler: &mut Sampler, ask: Ask, counted: bool) -> Result<Reply, Miss> {
    forget_peak();
    let before = resident_kib();
    let mut watch = Watch::new(ask == Ask::Verify);
    let answer = guarded(|| sampler(&mut watch))?;
    let after = resident_kib();
    let grown = |pick: fn((u64, u64)) -> u64| {
        Some(pick(after?).saturating_sub(before.map_or(0, |(resident, _)| resident)))
    };
    let heap = watch.counted().filter(|_| counted);
    Ok(Reply {
        nanos: u64::try_from(watch.elapsed().as_nanos()).unwrap_or(u64::MAX),
        ops: watch.ops(),
        allocations: heap.map(|heap| heap.allocations),
        allocated_bytes: heap.map(|heap| heap.bytes),
        answer,
        peak_kib: grown(|(_, peak)| peak),
        steady_kib: grown(|(resident, _)| resident),
        figures: watch.into_figures(),
    })
}

/// A contender's panic is its failure, not the lab's.
fn guarded<T>(work: impl FnOnce() -> Result<T, Miss>) -> Result<T, Miss> {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|panic| {
        let text = panic
            .downcast_ref::<String>()
            .map(String::as_str)
            .or_else(|| panic.downcast_ref::<&str>().copied())
            .unwrap_or("without a message");
        Err(Miss::Failed(format!("panicked: {text}")))
    })
}

fn say(line: &Line) {
    let json = serde_json::to_string(line).expect("lines hold plain data");
    let mut out = std::io::stdout().lock();
    // A write error means the coordinator is gone: nobody is left to tell.
    let _ = writeln!(out, "{MARK}{json}").and_then(|()| out.flush());
}
