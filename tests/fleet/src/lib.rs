//! Tests of the fleet's ledger on a real Redis. A package of its own, because they need a `redis-server`.
