//! Pages, b-trees and transactions over a SQLite file
