//! `rank_fusion`: the rows of two searches as one list, by the reciprocals of their ranks.

use rustc_hash::FxHashMap;
use shoal_sql::{Connection, Error, ModuleContext, TableFunction, Value};

/// The number added to ranks where none is given, after Cormack, Clarke and Büttcher (2009).
const SMOOTHING: f64 = 60.0;

/// A key of either list.
#[derive(Debug)]
struct Fused {
    key: Value,
    score: f64,
    /// The rank in each list, from 1.
    ranks: [Option<i64>; 2],
}

/// Makes `rank_fusion(first, second, k)` known to a connection.
///
/// # Errors
/// None but a name refused by the connection.
pub(crate) fn register(connection: &mut Connection) -> Result<(), Error> {
    let columns = &["id", "score", "first_rank", "second_rank"];
    let arguments = &["first", "second", "k"];
    let fusion = TableFunction::new("rank_fusion", columns, arguments, |given, context| {
        let query = |place: usize| match &given[place] {
            Some(Value::Text(sql)) => Ok(String::from_utf8_lossy(sql).into_owned()),
            _ => Err(Error::of_function("rank_fusion() wants the texts of two queries")),
        };
        let smoothing = match &given[2] {
            None | Some(Value::Null) => SMOOTHING,
            Some(value) => value.to_real(),
        };
        if smoothing.is_nan() || smoothing < 0.0 {
            return Err(Error::of_function("k of rank_fusion() must not be below 0"));
        }
        let fused = fuse(&[query(0)?, query(1)?], smoothing, context)?;
        Ok(fused.into_iter().map(|row| {
            let rank = |rank: Option<i64>| rank.map_or(Value::Null, Value::Int);
            let [first, second] = row.ranks;
            Ok(vec![row.key, row.score.into(), rank(first), rank(second)])
        }))
    });
    connection.create_table_function(fusion.default_argument(2, SMOOTHING).reads_databases())
}

/// The keys of both queries, the best first; ties by the first list, then the second.
fn fuse(
    queries: &[String; 2],
    smoothing: f64,
    context: &ModuleContext<'_>,
) -> Result<Vec<Fused>, Error> {
    let mut fused: Vec<Fused> = Vec::new();
    let mut places: FxHashMap<Vec<u8>, usize> = FxHashMap::default();
    for (list, sql) in queries.iter().enumerate() {
        let mut rank = 0;
        context.query(sql, &[], |row| {
            let Some(key) = row.first().filter(|key| !key.is_null()) else { return Ok(()) };
            rank += 1;
            let place = *places.entry(bytes(key)).or_insert(fused.len());
            if place == fused.len() {
                fused.push(Fused { key: key.clone(), score: 0.0, ranks: [None; 2] });
            }
            // A key twice in a list counts at its first place.
            if fused[place].ranks[list].is_none() {
                fused[place].ranks[list] = Some(rank);
                fused[place].score += 1.0 / (smoothing + rank as f64);
            }
            Ok(())
        })?;
    }
    let last = |rank: Option<i64>| rank.unwrap_or(i64::MAX);
    fused.sort_by(|a, b| {
        let ranks = |row: &Fused| (last(row.ranks[0]), last(row.ranks[1]));
        b.score.total_cmp(&a.score).then_with(|| ranks(a).cmp(&ranks(b)))
    });
    Ok(fused)
}

/// A key as bytes, different for different keys.
fn bytes(key: &Value) -> Vec<u8> {
    let (class, bytes) = match key {
        Value::Null => (0, Vec::new()),
        Value::Int(int) => (1, int.to_le_bytes().to_vec()),
        Value::Real(real) => (2, real.to_bits().to_le_bytes().to_vec()),
        Value::Text(text) => (3, text.clone()),
        Value::Blob(blob) => (4, blob.clone()),
    };
    let mut whole = vec![class];
    whole.extend(bytes);
    whole
}
