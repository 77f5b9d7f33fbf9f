//! A run: rows and contenders chosen, databases made, rows measured, reports written.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use indicatif::{ProgressBar, ProgressStyle};

use crate::args::RunArguments;
use crate::contenders::{self, Contenders, Dataset};
use crate::dataset;
use crate::dataset::tpch::Variant;
use crate::engine::{About, Miss};
use crate::environment::{self, Environment};
use crate::measure::{Entrant, Plan, measure};
use crate::random::Random;
use crate::record::{Listed, Record, VERSION};
use crate::worker::client::Program;
use crate::workload::table::real::HISTORY_PREFIX;
use crate::workload::{Context, Family, Row, Scale};
use crate::{out, report};

/// Runs the chosen rows; true when every row went right.
pub(crate) fn run(
    args: &RunArguments,
    prefix: &[OsString],
    contenders: &Contenders,
) -> Result<bool, String> {
    let mut complete = true;
    let (mut rows, unknown) = choose(contenders::rows(), &args.filter);
    rows.retain(|row| !args.except.iter().any(|except| matches(&row.id, except)));
    for filter in &unknown {
        complete = false;
        out::note(&format!("error: no row matches {filter}{}", nearest(filter)));
    }
    let mut entrants = entrants(args, prefix, contenders, &mut complete)?;
    if !args.contender.is_empty() {
        entrants.retain(|one| args.contender.iter().any(|name| one.about.name.starts_with(name)));
    }
    if args.list {
        list(&rows, &entrants);
        return Ok(complete);
    }
    if rows.is_empty() || entrants.is_empty() {
        return Err("nothing to measure: no row or no contender is left".into());
    }
    let scratch = Scratch::new()?;
    let cx = context(args, &scratch.0)?;
    generate(&cx, &rows, contenders, args.quick)?;
    let record = measured(args, &rows, &entrants, &cx)?;
    write(args, &record)?;
    Ok(complete && !record.rows.iter().any(crate::record::RowRecord::has_failed))
}

/// The rows chosen by any filter, and the filters choosing none.
pub(crate) fn choose(rows: Vec<Row>, filters: &[String]) -> (Vec<Row>, Vec<String>) {
    if filters.is_empty() {
        return (rows, Vec::new());
    }
    let unknown = filters
        .iter()
        .filter(|filter| !rows.iter().any(|row| matches(&row.id, filter)))
        .cloned()
        .collect();
    let chosen = rows
        .into_iter()
        .filter(|row| filters.iter().any(|filter| matches(&row.id, filter)))
        .collect();
    (chosen, unknown)
}

/// True when the parts of `filter` between its `*` occur in `id` in their order.
fn matches(id: &str, filter: &str) -> bool {
    let mut rest = id;
    filter.split('*').all(|part| match rest.find(part) {
        Some(at) => {
            rest = &rest[at + part.len()..];
            true
        }
        None => false,
    })
}

/// A hint for a filter without a match: the rows sharing its beginning.
fn nearest(filter: &str) -> String {
    let word = filter.rsplit(['/', '*']).next().unwrap_or(filter);
    let stem: String = word.chars().take(4).collect();
    let near: Vec<String> = contenders::rows()
        .into_iter()
        .filter(|row| !stem.is_empty() && row.id.contains(&stem))
        .map(|row| row.id)
        .take(3)
        .collect();
    if near.is_empty() {
        "\nhint: --list names every row".into()
    } else {
        format!("\nhint: {}", near.join(", "))
    }
}

/// All contenders: this program's, those of other builds, and the unbuilt.
fn entrants(
    args: &RunArguments,
    prefix: &[OsString],
    contenders: &Contenders,
    complete: &mut bool,
) -> Result<Vec<Entrant>, String> {
    let program = this_program(prefix)?;
    let mut all: Vec<Entrant> = contenders
        .all
        .iter()
        .map(|one| Entrant {
            family: one.family,
            name: one.about.name.clone(),
            about: one.about.clone(),
            program: program.clone(),
            absence: one.absence().cloned(),
        })
        .collect();
    for also in &args.also {
        let (label, path) = also
            .split_once('=')
            .ok_or_else(|| format!("--also wants LABEL=PROGRAM, not {also}"))?;
        let other = Program { path: PathBuf::from(path), prefix: Vec::new() };
        match other.contenders() {
            Ok(listed) => all.extend(relabelled(listed, label, &other)),
            Err(miss) => {
                *complete = false;
                out::note(&format!("error: {label}: {miss}"));
            }
        }
    }
    for unbuilt in &args.unbuilt {
        let parsed = unbuilt.split_once('=').and_then(|(who, why)| {
            let (family, name) = who.split_once('/')?;
            let family = Family::ALL.into_iter().find(|one| one.name() == family)?;
            Some((family, name, why))
        });
        let (family, name, why) =
            parsed.ok_or_else(|| format!("--unbuilt wants FAMILY/NAME=REASON, not {unbuilt}"))?;
        // A broken build is a failure of the run, not a gap in an engine.
        *complete = false;
        all.push(Entrant {
            family,
            name: name.into(),
            about: About::peer(name, "", why),
            program: program.clone(),
            absence: Some(Miss::NotRun(why.into())),
        });
    }
    Ok(all)
}

/// The contenders of another build, with names differing from this build's.
pub(crate) fn relabelled(
    listed: Vec<(Family, About, Option<Miss>)>,
    label: &str,
    program: &Program,
) -> Vec<Entrant> {
    listed
        .into_iter()
        .filter(|(_, _, absence)| absence.is_none())
        .map(|(family, about, absence)| Entrant {
            family,
            name: about.name.clone(),
            about: About { name: format!("{} {label}", about.name), ours: false, ..about },
            program: program.clone(),
            absence,
        })
        .collect()
}

pub(crate) fn this_program(prefix: &[OsString]) -> Result<Program, String> {
    let path = std::env::current_exe()
        .map_err(|error| format!("the lab cannot find its own program: {error}"))?;
    Ok(Program { path, prefix: prefix.to_vec() })
}

fn list(rows: &[Row], entrants: &[Entrant]) {
    for entrant in entrants {
        let absence = entrant.absence.as_ref().map(|miss| format!(" ({miss})")).unwrap_or_default();
        let about = &entrant.about;
        out::line(&format!(
            "contender {}/{} {}{absence}: {}",
            entrant.family.name(),
            about.name,
            about.version,
            about.note
        ));
    }
    for row in rows {
        out::line(&format!("{} [{}]: {}", row.id, row.unit, row.text));
    }
}

fn context(args: &RunArguments, scratch: &Path) -> Result<Context, String> {
    let data = args.data.clone().unwrap_or_else(default_data);
    let cache = args
        .cache
        .clone()
        .unwrap_or_else(|| if args.quick { scratch.to_path_buf() } else { default_cache() });
    std::fs::create_dir_all(&cache).map_err(|error| format!("{}: {error}", cache.display()))?;
    let seed = args.seed.unwrap_or_else(|| {
        SystemTime::now().duration_since(UNIX_EPOCH).map_or(1, |since| since.as_secs())
    });
    let scale = if args.quick { Scale::Quick } else { Scale::Full };
    Ok(Context { scale, data, scratch: scratch.to_path_buf(), cache, seed })
}

/// `testdata/` of the working folder, or of the checkout the lab was built from.
pub(crate) fn default_data() -> PathBuf {
    let here = PathBuf::from("testdata");
    if here.is_dir() {
        return here;
    }
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../testdata")
}

/// Where large databases are kept from run to run, unless the caller names another folder.
pub(crate) fn default_cache() -> PathBuf {
    std::env::temp_dir().join("shoal-lab-cache")
}

/// A folder of this run alone, removed at the end.
pub(crate) struct Scratch(pub(crate) PathBuf);

impl Scratch {
    pub(crate) fn new() -> Result<Self, String> {
        let folder = std::env::temp_dir().join(format!("shoal-lab-{}", std::process::id()));
        std::fs::create_dir_all(&folder)
            .map_err(|error| format!("{}: {error}", folder.display()))?;
        Ok(Self(folder))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // A folder not removed stays in the temporary folder, for the system to clean.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Makes the databases read by the chosen rows.
pub(crate) fn generate(
    cx: &Context,
    rows: &[Row],
    contenders: &Contenders,
    quick: bool,
) -> Result<(), String> {
    for size in dataset::SIZES {
        let wanted = rows.iter().any(|row| {
            matches!(row.family, Family::Table | Family::Seal)
                && row.series.as_ref().is_some_and(|of| of.1 == size)
        });
        let path = dataset::path(&cx.cache, cx.scale, size);
        if !wanted || path.exists() {
            continue;
        }
        let count = if quick { dataset::QUICK_ROWS } else { size };
        let bar = bar(count, "making a database of {pos} rows of {len}");
        let wanted = Dataset::Users(&path, count);
        let made = contenders.generate(&wanted, &mut |done| bar.set_position(done));
        bar.finish_and_clear();
        if let Err(Miss::Failed(why)) = made {
            return Err(format!("{} could not be made: {why}", path.display()));
        }
    }
    for variant in Variant::ALL {
        if !rows.iter().any(|row| Variant::of_row(&row.id) == Some(variant)) {
            continue;
        }
        let bar = bar(dataset::tpch::rows(cx.scale), "making TPC-H's tables: {pos} rows of {len}");
        let wanted = Dataset::Tpch(cx, variant);
        let made = contenders.generate(&wanted, &mut |done| bar.set_position(done));
        bar.finish_and_clear();
        if let Err(Miss::Failed(why)) = made {
            return Err(format!("TPC-H's tables could not be made: {why}"));
        }
    }
    if rows.iter().any(|row| row.id.starts_with(HISTORY_PREFIX))
        && let Err(Miss::Failed(why)) = contenders.generate(&Dataset::History(cx), &mut |_| {})
    {
        return Err(format!("the tables of the history could not be made: {why}"));
    }
    Ok(())
}

/// A bar on stderr, on a terminal alone.
pub(crate) fn bar(length: u64, template: &str) -> ProgressBar {
    let bar = ProgressBar::new(length);
    bar.set_style(ProgressStyle::with_template(template).expect("the template is valid"));
    bar
}

/// Measures all rows and makes the record; rewrites the record's file after every row, so a run cut
/// off after an hour has left an hour's figures.
fn measured(
    args: &RunArguments,
    rows: &[Row],
    entrants: &[Entrant],
    cx: &Context,
) -> Result<Record, String> {
    let plan = Plan {
        rounds: if args.quick { 1 } else { args.rounds.max(1) },
        cold: if args.quick { 1 } else { args.cold },
        budget: Duration::from_secs(args.budget),
        patience: Duration::from_secs(args.patience),
        rest: Duration::ZERO,
        fresh: false,
    };
    let began = Instant::now();
    let mut watcher = Watcher::new();
    let mut record = Record {
        version: VERSION,
        started_unix: SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |at| at.as_secs()),
        seconds: 0.0,
        command: told(std::env::args().skip(1)),
        scale: cx.scale,
        seed: cx.seed,
        rounds: plan.rounds,
        missing: rows.iter().map(|row| row.id.clone()).collect(),
        environment: Environment::probe(),
        warnings: Vec::new(),
        contenders: entrants
            .iter()
            .map(|one| Listed { family: one.family, about: one.about.clone() })
            .collect(),
        rows: Vec::new(),
    };
    out::note(&format!("seed {}", cx.seed));
    let bar = bar(rows.len() as u64, "{wide_bar} {pos}/{len} {msg} {elapsed}");
    let mut random = Random::new(cx.seed);
    for row in rows {
        record.rows.push(measure(row, entrants, &plan, cx, &mut random, &mut |who| {
            bar.set_message(format!("{} {who}", row.id));
        }));
        record.missing.retain(|id| *id != row.id);
        watcher.look();
        record.seconds = began.elapsed().as_secs_f64();
        record.warnings = watcher.warnings();
        if let Some(path) = &args.json {
            record.write(path)?;
        }
        bar.inc(1);
    }
    bar.finish_and_clear();
    Ok(record)
}

/// Looks for causes of bad figures during a run: load, and steal by the hypervisor.
struct Watcher {
    load_before: f64,
    load_max: f64,
    steal: Option<(u64, u64)>,
}

impl Watcher {
    fn new() -> Self {
        let load = environment::load().unwrap_or(0.0);
        Self { load_before: load, load_max: load, steal: environment::steal_ticks() }
    }

    fn look(&mut self) {
        self.load_max = self.load_max.max(environment::load().unwrap_or(0.0));
    }

    fn warnings(&self) -> Vec<String> {
        let mut warnings = Vec::new();
        let cores = crate::workload::threads() as f64;
        if self.load_before > cores * 0.25 {
            warnings.push(format!(
                "the machine was busy before the run began: load {:.2} on {cores} cores",
                self.load_before
            ));
        }
        if self.load_max > cores + 0.5 {
            warnings.push(format!(
                "others wanted the machine, too: load up to {:.2} on {cores} cores",
                self.load_max
            ));
        }
        if let (Some(before), Some(after)) = (self.steal, environment::steal_ticks()) {
            let share = (after.0 - before.0) as f64 / (after.1 - before.1).max(1) as f64;
            if share > 0.01 {
                warnings.push(format!(
                    "the hypervisor kept {:.1} % of the time for others",
                    share * 100.0
                ));
            }
        }
        if cfg!(debug_assertions) {
            warnings.push("the lab was built without optimisation: the times mean nothing".into());
        }
        warnings
    }
}

fn write(args: &RunArguments, record: &Record) -> Result<(), String> {
    for line in report::terminal::table(record).lines() {
        out::line(line);
    }
    if let Some(path) = &args.html {
        let page = report::html::page(record);
        std::fs::write(path, page).map_err(|error| format!("{}: {error}", path.display()))?;
    }
    Ok(())
}

/// The arguments of a run without paths: paths differ from machine to machine and do not change the
/// figures.
fn told(arguments: impl Iterator<Item = String>) -> String {
    const PLACES: [&str; 5] = ["--also", "--cache", "--data", "--html", "--json"];
    let mut told = Vec::new();
    let mut is_place = false;
    for argument in arguments {
        let (name, value) = argument
            .split_once('=')
            .map_or((&*argument, None), |(name, value)| (name, Some(value)));
        if std::mem::take(&mut is_place) {
            continue;
        }
        if PLACES.contains(&name) {
            is_place = value.is_none();
        } else {
            told.push(argument);
        }
    }
    told.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_filter_is_a_part_or_parts_around_stars() {
        assert!(matches("doc/map_put", "map"));
        assert!(matches("doc/trace/rustcode/save", "trace*save"));
        assert!(!matches("doc/trace/rustcode/save", "save*trace"));
    }

    #[test]
    fn a_filter_that_chooses_nothing_is_named() {
        let (rows, unknown) = choose(contenders::rows(), &["map_get".into(), "no_such".into()]);
        assert!(rows.iter().all(|row| row.id.contains("map_get")) && !rows.is_empty());
        assert_eq!(unknown, ["no_such"]);
    }

    #[test]
    fn a_record_does_not_tell_where_things_lie() {
        let arguments = ["--also", "tuned=there", "--filter", "doc/", "--json=here", "--quick"];
        assert_eq!(told(arguments.into_iter().map(str::to_owned)), "--filter doc/ --quick");
    }
}
