//! Statements that change the file: definitions, rows, transactions.
