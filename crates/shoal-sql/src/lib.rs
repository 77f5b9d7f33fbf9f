//! SQL over a SQLite file: schema, planner, executor, functions
