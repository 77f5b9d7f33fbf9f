//! Built-in functions: scalar, aggregate, JSON.
