//! One call as a state machine.
