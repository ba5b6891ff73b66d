//! Virtual time: a wall clock that may be stepped and a monotonic clock that only moves forward.

/// Nanoseconds in a millisecond.
pub const NANOS_PER_MILLI: u64 = 1_000_000;
/// Nanoseconds in a second.
pub const NANOS_PER_SECOND: u64 = 1_000_000_000;
/// Wed, 21 Oct 2026 07:28:00 GMT, where every test starts.
pub const START_NANOS: u64 = 1_792_567_680 * NANOS_PER_SECOND;

/// Both clocks of the host.
#[derive(Clone, Debug)]
pub struct Clock {
    wall: u64,
    monotonic: u64,
}

impl Default for Clock {
    fn default() -> Self {
        Self { wall: START_NANOS, monotonic: NANOS_PER_SECOND }
    }
}

impl Clock {
    /// Nanoseconds since the Unix epoch.
    pub fn wall(&self) -> u64 {
        self.wall
    }

    /// Nanoseconds since the host started; never goes back.
    pub fn monotonic(&self) -> u64 {
        self.monotonic
    }

    /// Moves both clocks to the monotonic moment `at` (no effect when that has passed).
    pub fn move_to(&mut self, at: u64) {
        let by = at.saturating_sub(self.monotonic);
        self.monotonic += by;
        self.wall += by;
    }

    /// Steps the wall clock alone, as an administrator or NTP would.
    pub fn step_wall(&mut self, by_nanos: i64) {
        self.wall = self.wall.saturating_add_signed(by_nanos);
    }
}
