//! Values against SQLite's: conversions, operators, comparisons, storage in columns.

use crate::write_support::{Both, Random, any_value};
use proptest::prelude::*;
use shoal_sql::{Value, real_to_text};

const OPERATORS: &[&str] = &[
    "?1 + ?2",
    "?1 - ?2",
    "?1 * ?2",
    "?1 / ?2",
    "?1 % ?2",
    "?1 & ?2",
    "?1 | ?2",
    "?1 << ?2",
    "?1 >> ?2",
    "?1 || ?2",
    "?1 < ?2",
    "?1 <= ?2",
    "?1 = ?2",
    "?1 <> ?2",
    "?1 IS ?2",
    "?1 < ?2 COLLATE NOCASE",
    "?1 = ?2 COLLATE NOCASE",
    "?1 < ?2 COLLATE RTRIM",
    "?1 = ?2 COLLATE RTRIM",
    "?1 LIKE ?2",
    "?1 GLOB ?2",
    "?1 AND ?2",
    "?1 OR ?2",
    "coalesce(-?1, ?2)",
    "coalesce(~?1, ?2)",
    "coalesce(NOT ?1, ?2)",
    "coalesce(CAST(?1 AS INTEGER), ?2)",
    "coalesce(CAST(?1 AS REAL), ?2)",
    "coalesce(CAST(?1 AS TEXT), ?2)",
    "coalesce(CAST(?1 AS BLOB), ?2)",
    "coalesce(CAST(?1 AS NUMERIC), ?2)",
    "typeof(coalesce(CAST(?1 AS NUMERIC), ?2))",
    "typeof(?1 + ?2)",
    "typeof(?1 * ?2)",
    "typeof(?1 % ?2)",
];

#[test]
fn operators() {
    let mut both = Both::new();
    let mut random = Random::seeded(1);
    for _ in 0..1500 {
        for operator in OPERATORS {
            let values = [any_value(&mut random), any_value(&mut random)];
            both.agree(&format!("SELECT {operator}"), &values);
        }
    }
}

#[test]
fn column_affinity() {
    let mut both = Both::new();
    let types = ["", "INTEGER", "TEXT", "BLOB", "REAL", "NUMERIC", "VARCHAR(9)", "FLOATING POINT"];
    for (index, declared) in types.iter().enumerate() {
        both.run(&format!("CREATE TABLE t{index} (x {declared})"));
    }
    let mut random = Random::seeded(2);
    for round in 0..4000 {
        let table = format!("t{}", round % types.len());
        let value = any_value(&mut random);
        let (got, expect) = both.insert(&table, &value);
        assert_eq!(got, expect, "{table} {value:?}");
        both.agree(
            &format!("SELECT count(*) FROM {table} WHERE x < ?1"),
            &[any_value(&mut random)],
        );
        both.agree(&format!("SELECT count(*) FROM {table} WHERE x = ?1"), &[value]);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(20_000))]

    #[test]
    fn reals_as_text(bits: u64, decimal in 0u64..1 << 50, scale in -330i32..310) {
        thread_local! {
            static BOTH: std::cell::RefCell<Both> = std::cell::RefCell::new(Both::new());
        }
        let short: f64 = format!("{decimal}e{scale}").parse().unwrap();
        for real in [f64::from_bits(bits), short, decimal as f64 / 1000.0] {
            if real.is_nan() {
                continue;
            }
            BOTH.with_borrow_mut(|both| {
                both.agree("SELECT CAST(?1 AS TEXT)", &[Value::Real(real)]);
                both.agree("SELECT printf('%!.15g', ?1)", &[Value::Real(real)]);
                both.agree("SELECT CAST(?1 AS REAL)", &[Value::text(format!("{decimal}.{bits}e{scale}"))]);
                both.agree("SELECT CAST(?1 AS REAL)", &[Value::text(real_to_text(real))]);
            });
        }
    }
}
