//! Files, locks, time and entropy: the operating system, memory, and a simulator that crashes on demand
