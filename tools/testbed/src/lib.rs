//! Mock LLM provider and load generator.
