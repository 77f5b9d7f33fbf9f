//! Automerge documents in memory: objects, text, transactions, merge, save and load
