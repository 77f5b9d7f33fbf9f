//! The functions beside sqlite-vec's, and the ones unknown to sqlite-vec.

use std::path::Path;

use crate::support::{Cell, Random, alike, ours, same, shoal, sqlite, theirs};

#[test]
fn functions_answer_as_sqlite_vec_does() {
    let mut shoal = shoal(Path::new(":memory:"));
    let sqlite = sqlite(Path::new(":memory:"));
    for sql in [
        "SELECT vec_version()",
        "SELECT vec_f32('[1, 2.5,-3e2]'), vec_int8('[1,-128, 127]'), vec_bit(x'0aff')",
        "SELECT vec_f32(x'0000803f'), vec_f32(' [.5]'), vec_f32(x'00')",
        "SELECT vec_f32('[]')",
        "SELECT vec_f32('')",
        "SELECT vec_f32('1,2')",
        "SELECT vec_f32('[a]')",
        "SELECT vec_f32(1)",
        "SELECT vec_f32(NULL)",
        "SELECT vec_int8('[128]')",
        "SELECT vec_int8('[1,x]')",
        "SELECT vec_bit('[1]')",
        "SELECT vec_length('[1,2,3]'), vec_length(vec_int8('[1,2]')), vec_length(vec_bit(x'ff00'))",
        "SELECT vec_length(x'0102030405060708')",
        "SELECT vec_type('[1]'), vec_type(vec_int8('[1]')), vec_type(vec_bit(x'00'))",
        "SELECT vec_type(vec_f32('[1]')), vec_type(x'00000000')",
        "SELECT vec_to_json('[1,2.123456789,-0.5]'), vec_to_json(vec_int8('[1,-2]'))",
        "SELECT vec_to_json(vec_bit(x'0af0')), vec_to_json(x'0000c07f0000807f000080ff')",
        "SELECT json_array(vec_to_json('[1,2]'))",
        "SELECT vec_to_json(vec_add('[1,2]', '[.5,-2]')), vec_to_json(vec_sub('[1,2]', '[.5,-2]'))",
        "SELECT vec_to_json(vec_add(vec_int8('[1,127]'), vec_int8('[2,3]')))",
        "SELECT vec_add(vec_bit(x'00'), vec_bit(x'01'))",
        "SELECT vec_add('[1]', '[1,2]')",
        "SELECT vec_add('[1]', vec_int8('[1]'))",
        "SELECT vec_to_json(vec_slice('[1,2,3,4]', 1, 3))",
        "SELECT vec_to_json(vec_slice(vec_int8('[1,2,3,4]'), 0, 2))",
        "SELECT vec_to_json(vec_slice(vec_bit(x'0102030405'), 8, 24))",
        "SELECT vec_slice('[1,2]', 1, 1)",
        "SELECT vec_slice('[1,2]', 0, 3)",
        "SELECT vec_slice('[1,2]', -1, 1)",
        "SELECT vec_slice(vec_bit(x'0102'), 3, 8)",
        "SELECT vec_to_json(vec_normalize('[3,4]')), vec_normalize(vec_int8('[3,4]'))",
        "SELECT vec_to_json(vec_normalize('[3,4]'))",
        "SELECT vec_to_json(vec_quantize_binary('[1,-1,0,2,0.5,-3,4,5]'))",
        "SELECT vec_type(vec_quantize_binary(vec_int8('[1,-1,0,2,1,-3,4,5]')))",
        "SELECT vec_quantize_binary('[1,2,3]')",
        "SELECT vec_to_json(vec_quantize_int8('[-1,1,0,0.5,-0.25,3,-9]', 'unit'))",
        "SELECT vec_quantize_int8('[1]', 'other')",
        "SELECT vec_distance_L2('[1,2]', '[4,6]'), vec_distance_l1('[1,2]', '[4,6]')",
        "SELECT vec_distance_cosine('[1,2]', '[4,6]'), vec_distance_cosine('[1,0]', '[0,1]')",
        "SELECT vec_distance_L2(vec_int8('[1,2]'), vec_int8('[4,6]'))",
        "SELECT vec_distance_l1(vec_int8('[1,2]'), vec_int8('[4,-100]'))",
        "SELECT vec_distance_cosine(vec_int8('[1,2]'), vec_int8('[4,6]'))",
        "SELECT vec_distance_hamming(vec_bit(x'0f0f'), vec_bit(x'ff00'))",
        "SELECT vec_distance_hamming('[1]', '[1]')",
        "SELECT vec_distance_L2(vec_bit(x'01'), vec_bit(x'02'))",
        "SELECT vec_distance_L2('[1]', '[1,2]')",
        "SELECT vec_distance_L2('[1]', 7)",
        "SELECT vec_distance_cosine('[0,0]', '[1,2]')",
        "SELECT value FROM vec_each('[1,2.5,-3]')",
        "SELECT sum(value) FROM vec_each(x'0000803f00000040')",
        "SELECT vec_to_json(iif(1, vec_int8('[1]'), NULL)), vec_type(coalesce(vec_bit(x'01'), 1))",
        "SELECT count(*), vec_type(v) FROM (SELECT vec_int8('[1,2]') AS v) GROUP BY vec_type(v)",
    ] {
        same(&mut shoal, &sqlite, sql);
    }
    let mut random = Random(3);
    for length in [1, 2, 7, 8, 16, 33, 64, 100, 128, 384, 1000] {
        let (a, b) = (random.floats(length), random.floats(length));
        let (c, d) = (random.bytes(length), random.bytes(length));
        let (e, f) = (random.bits(length), random.bits(length));
        for metric in ["L2", "l1", "cosine"] {
            same(&mut shoal, &sqlite, &format!("SELECT vec_distance_{metric}('{a}', '{b}')"));
            let sql = format!("SELECT vec_distance_{metric}(vec_int8('{c}'), vec_int8('{d}'))");
            same(&mut shoal, &sqlite, &sql);
        }
        let sql = format!("SELECT vec_distance_hamming(vec_bit({e}), vec_bit({f}))");
        same(&mut shoal, &sqlite, &sql);
    }
}

#[test]
fn vectors_without_a_direction_or_a_number_have_a_decided_answer() {
    let mut shoal = shoal(Path::new(":memory:"));
    let nan = "x'0000c07f'";
    let infinite = "x'0000807f'";
    for (sql, wanted) in [
        ("vec_distance_cosine('[0,0]', '[1,2]')".to_owned(), Cell::Null),
        (format!("vec_distance_L2({nan}, '[1]')"), Cell::Null),
        (format!("vec_distance_L2({infinite}, '[1]')"), Cell::Real(f64::INFINITY)),
        (format!("vec_distance_L2({infinite}, {infinite})"), Cell::Null),
        (
            "vec_to_json(vec_normalize('[0,0]'))".to_owned(),
            Cell::Text("[0.000000,0.000000]".into()),
        ),
        (format!("vec_to_json({nan})"), Cell::Text("[null]".into())),
    ] {
        assert_eq!(ours(&mut shoal, &format!("SELECT {sql}")), Ok(vec![vec![wanted]]), "{sql}");
    }
    for sql in ["vec_f32('[NaN]')", "vec_f32('[1e39]')", "vec_f16('[70000]')", "vec_f32('[1,]')"] {
        let error = ours(&mut shoal, &format!("SELECT {sql}")).unwrap_err();
        assert!(error.contains("JSON parsing error"), "{sql}: {error}");
    }
    let error = ours(&mut shoal, "SELECT vec_distance_L2('[1,2]', '[1]')").unwrap_err();
    assert!(error.contains("First vector has 2 dimensions, while the second has 1"), "{error}");
}

#[test]
fn half_floats_and_the_functions_behind_the_operators_of_pgvector() {
    let mut shoal = shoal(Path::new(":memory:"));
    for (sql, wanted) in [
        ("vec_type(vec_f16('[1,2]'))", Cell::Text("float16".into())),
        ("vec_to_json(vec_f16('[1,0.1]'))", Cell::Text("[1.000000,0.099976]".into())),
        ("vec_to_json(vec_f32(vec_f16('[1,-2]')))", Cell::Text("[1.000000,-2.000000]".into())),
        ("length(vec_f16(vec_f32('[1,2,3]')))", Cell::Int(6)),
        ("l2_distance('[1,2]', '[4,6]')", Cell::Real(5.0)),
        ("l2_distance(vec_f16('[1,2]'), vec_f16('[4,6]'))", Cell::Real(5.0)),
        ("l1_distance('[1,2]', '[4,6]')", Cell::Real(7.0)),
        ("inner_product('[1,2]', '[4,6]')", Cell::Real(16.0)),
        ("vector_negative_inner_product('[1,2]', '[4,6]')", Cell::Real(-16.0)),
        ("cosine_distance('[1,0]', '[0,1]')", Cell::Real(1.0)),
        ("hamming_distance(vec_bit(x'0f'), vec_bit(x'ff'))", Cell::Real(4.0)),
        ("jaccard_distance(vec_bit(x'0f'), vec_bit(x'ff'))", Cell::Real(0.5)),
        ("vector_dims('[1,2,3]')", Cell::Int(3)),
        ("vector_norm('[3,4]')", Cell::Real(5.0)),
        ("vec_to_json(l2_normalize('[0,2]'))", Cell::Text("[0.000000,1.000000]".into())),
        (
            "vec_to_json(binary_quantize('[1,-1,1,-1,1,-1,1,-1]'))",
            Cell::Text("[1,0,1,0,1,0,1,0]".into()),
        ),
    ] {
        let got = ours(&mut shoal, &format!("SELECT {sql}")).unwrap();
        assert!(alike(&got, &[vec![wanted]]), "{sql}: {got:?}");
    }
}

#[test]
fn sqlite_vec_is_really_there() {
    let sqlite = sqlite(Path::new(":memory:"));
    assert_eq!(
        theirs(&sqlite, "SELECT vec_version()"),
        Ok(vec![vec![Cell::Text("v0.1.9".into())]])
    );
}
