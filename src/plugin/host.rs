//! Thin host calls that never panic.
//!
//! The SDK's own wrappers panic on any status they do not expect, and a panic kills every stream of the worker.
//! These return `None`, `false` or a [`HostStatus`] instead, and header values are bytes, not text.
#![allow(unsafe_code)]

/// What a host call answered, when not Ok.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HostStatus {
    /// Nothing there.
    NotFound,
    /// The shared-data version did not match.
    CasMismatch,
    /// Any other status.
    Other(u32),
}

const OK: u32 = 0;
const NOT_FOUND: u32 = 1;
const CAS_MISMATCH: u32 = 8;

/// Header maps of a stream (ABI numbers).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub(super) enum Map {
    /// Request headers.
    Request = 0,
    /// Response headers.
    Response = 2,
    /// Headers of a callout's answer.
    Callout = 6,
}

/// Buffers (ABI numbers).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub(super) enum Buffer {
    /// Request body: the chunk, or everything held so far while paused.
    RequestBody = 0,
    /// Response body chunk.
    ResponseBody = 1,
    /// Body of a callout's answer.
    Callout = 4,
    /// The plugin's configuration.
    PluginConfiguration = 7,
}

/// Kinds of metric (ABI numbers).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub(super) enum MetricKind {
    /// Only grows.
    Counter = 0,
    /// Last value.
    Gauge = 1,
    /// Distribution.
    Histogram = 2,
}

#[link(wasm_import_module = "env")]
unsafe extern "C" {
    fn proxy_log(level: u32, data: *const u8, size: usize) -> u32;
    fn proxy_get_current_time_nanoseconds(time: *mut u64) -> u32;
    fn proxy_set_tick_period_milliseconds(period: u32) -> u32;
    fn proxy_get_buffer_bytes(
        buffer: u32,
        start: usize,
        max: usize,
        data: *mut *mut u8,
        size: *mut usize,
    ) -> u32;
    fn proxy_set_buffer_bytes(buffer: u32, start: usize, size: usize, data: *const u8, length: usize) -> u32;
    fn proxy_get_header_map_pairs(map: u32, data: *mut *mut u8, size: *mut usize) -> u32;
    fn proxy_replace_header_map_value(
        map: u32,
        key: *const u8,
        key_size: usize,
        value: *const u8,
        value_size: usize,
    ) -> u32;
    fn proxy_get_property(path: *const u8, path_size: usize, data: *mut *mut u8, size: *mut usize) -> u32;
    fn proxy_set_property(path: *const u8, path_size: usize, value: *const u8, value_size: usize) -> u32;
    fn proxy_get_shared_data(
        key: *const u8,
        key_size: usize,
        data: *mut *mut u8,
        size: *mut usize,
        cas: *mut u32,
    ) -> u32;
    fn proxy_set_shared_data(
        key: *const u8,
        key_size: usize,
        value: *const u8,
        value_size: usize,
        cas: u32,
    ) -> u32;
    fn proxy_continue_stream(stream: u32) -> u32;
    fn proxy_send_local_response(
        status: u32,
        details: *const u8,
        details_size: usize,
        body: *const u8,
        body_size: usize,
        headers: *const u8,
        headers_size: usize,
        grpc_status: i32,
    ) -> u32;
    fn proxy_set_effective_context(context: u32) -> u32;
    fn proxy_define_metric(kind: u32, name: *const u8, name_size: usize, id: *mut u32) -> u32;
    fn proxy_record_metric(id: u32, value: u64) -> u32;
    fn proxy_increment_metric(id: u32, offset: i64) -> u32;
    fn proxy_get_metric(id: u32, value: *mut u64) -> u32;
}

#[link(wasm_import_module = "wasi_snapshot_preview1")]
unsafe extern "C" {
    fn random_get(buffer: *mut u8, size: usize) -> u16;
}

/// A random number that is not 0.
pub(super) fn random() -> u64 {
    let mut bytes = [0; 8];
    // SAFETY: pointer and length describe a live array.
    let _ = unsafe { random_get(bytes.as_mut_ptr(), bytes.len()) };
    u64::from_le_bytes(bytes) | 1
}

/// Takes over memory that the host placed through the module's own allocator.
fn take(data: *mut u8, size: usize) -> Vec<u8> {
    if data.is_null() || size == 0 {
        return Vec::new();
    }
    // SAFETY: the host got `data` from `proxy_on_memory_allocate(size)`, which leaks a boxed slice of exactly
    // `size` bytes from the global allocator, filled it, and keeps no reference.
    unsafe { Vec::from_raw_parts(data, size, size) }
}

fn check(status: u32) -> Result<(), HostStatus> {
    match status {
        OK => Ok(()),
        NOT_FOUND => Err(HostStatus::NotFound),
        CAS_MISMATCH => Err(HostStatus::CasMismatch),
        other => Err(HostStatus::Other(other)),
    }
}

/// Runs a call that returns bytes through two out-pointers.
fn fetch(call: impl FnOnce(*mut *mut u8, *mut usize) -> u32) -> Result<Vec<u8>, HostStatus> {
    let mut data: *mut u8 = core::ptr::null_mut();
    let mut size: usize = 0;
    check(call(&mut data, &mut size))?;
    Ok(take(data, size))
}

/// Writes a line to Envoy's log. Levels: 0 trace to 5 critical.
pub(super) fn log(level: u32, message: &str) {
    // SAFETY: pointer and length describe a live string.
    let _ = unsafe { proxy_log(level, message.as_ptr(), message.len()) };
}

/// The host's wall clock in nanoseconds since the Unix epoch; `None` when the host has none.
pub(super) fn now_nanos() -> Option<u64> {
    let mut time = 0;
    // SAFETY: the out-pointer is a live local.
    check(unsafe { proxy_get_current_time_nanoseconds(&mut time) }).ok()?;
    (time > 0).then_some(time)
}

/// Sets the tick period of the current root context in milliseconds; 0 stops it.
pub(super) fn set_tick_period(millis: u32) {
    // SAFETY: no pointers.
    let _ = unsafe { proxy_set_tick_period_milliseconds(millis) };
}

/// Copies `max` bytes of a buffer from `start` on.
pub(super) fn buffer(which: Buffer, start: usize, max: usize) -> Option<Vec<u8>> {
    // SAFETY: out-pointers are live locals.
    fetch(|data, size| unsafe { proxy_get_buffer_bytes(which as u32, start, max, data, size) }).ok()
}

/// Replaces the whole of a buffer whose present size is `size`.
pub(super) fn replace_buffer(which: Buffer, size: usize, bytes: &[u8]) -> bool {
    // SAFETY: pointer and length describe a live slice.
    check(unsafe { proxy_set_buffer_bytes(which as u32, 0, size, bytes.as_ptr(), bytes.len()) }).is_ok()
}

/// A whole header map in the ABI's encoding; one call instead of one per header. See [`pairs`].
pub(super) fn header_map(map: Map) -> Vec<u8> {
    // SAFETY: out-pointers are live locals.
    fetch(|data, size| unsafe { proxy_get_header_map_pairs(map as u32, data, size) }).unwrap_or_default()
}

/// Names and values of an encoded map: count, then all lengths, then all strings, each with a zero byte behind it.
/// Stops at the first thing that does not fit.
pub(super) fn pairs(encoded: &[u8]) -> Vec<(&[u8], &[u8])> {
    let Some((count, rest)) = encoded.split_at_checked(4) else { return Vec::new() };
    let count = word(count).unwrap_or(0);
    let Some((lengths, mut strings)) = rest.split_at_checked(count.saturating_mul(8)) else {
        return Vec::new();
    };
    let mut found = Vec::with_capacity(count);
    let mut next = |length: &[u8]| {
        let length = word(length)?;
        let (text, rest) = strings.split_at_checked(length)?;
        strings = rest.get(1..)?;
        Some(text)
    };
    for pair in lengths.chunks_exact(8) {
        let Some((name, value)) = pair.split_at_checked(4) else { break };
        let (Some(name), Some(value)) = (next(name), next(value)) else { break };
        found.push((name, value));
    }
    found
}

fn word(bytes: &[u8]) -> Option<usize> {
    let bytes: [u8; 4] = bytes.try_into().ok()?;
    usize::try_from(u32::from_le_bytes(bytes)).ok()
}

/// Sets a header to exactly one value.
pub(super) fn set_header(map: Map, name: &str, value: &str) -> bool {
    // SAFETY: pointers and lengths describe live slices.
    check(unsafe {
        proxy_replace_header_map_value(map as u32, name.as_ptr(), name.len(), value.as_ptr(), value.len())
    })
    .is_ok()
}

/// Reads an Envoy attribute; path segments as in the attribute documentation.
pub(super) fn property<S: AsRef<str>>(path: &[S]) -> Option<Vec<u8>> {
    let joined = join(path);
    // SAFETY: pointer and length describe a live slice, out-pointers are live locals.
    fetch(|data, size| unsafe { proxy_get_property(joined.as_ptr(), joined.len(), data, size) }).ok()
}

/// Writes the stream's filter state `wasm.<name>`.
pub(super) fn set_filter_state(name: &str, value: &[u8]) -> bool {
    // SAFETY: pointers and lengths describe live slices.
    check(unsafe { proxy_set_property(name.as_ptr(), name.len(), value.as_ptr(), value.len()) }).is_ok()
}

/// Property paths are segments separated by one zero byte.
fn join<S: AsRef<str>>(path: &[S]) -> Vec<u8> {
    let mut joined = Vec::new();
    for (index, part) in path.iter().enumerate() {
        if index > 0 {
            joined.push(0);
        }
        joined.extend_from_slice(part.as_ref().as_bytes());
    }
    joined
}

/// A shared value with its version.
pub(super) fn shared_data(key: &str) -> Result<(Vec<u8>, u32), HostStatus> {
    let mut cas = 0;
    // SAFETY: pointers and lengths describe live slices, out-pointers are live locals.
    let value =
        fetch(|data, size| unsafe { proxy_get_shared_data(key.as_ptr(), key.len(), data, size, &mut cas) })?;
    Ok((value, cas))
}

/// Stores a shared value if its version is still `cas`. 0 would write blindly.
pub(super) fn set_shared_data(key: &str, value: &[u8], cas: u32) -> Result<(), HostStatus> {
    // SAFETY: pointers and lengths describe live slices.
    check(unsafe { proxy_set_shared_data(key.as_ptr(), key.len(), value.as_ptr(), value.len(), cas) })
}

/// Lets a paused request go on, after the present callback has ended.
pub(super) fn continue_request() -> bool {
    // SAFETY: no pointers.
    check(unsafe { proxy_continue_stream(0) }).is_ok()
}

/// Makes following calls act on this context; false when the host no longer knows it.
pub(super) fn set_effective_context(context: u32) -> bool {
    // SAFETY: no pointers.
    check(unsafe { proxy_set_effective_context(context) }).is_ok()
}

/// Answers the stream from here. `details` becomes `%RESPONSE_CODE_DETAILS%`.
pub(super) fn send_response(status: u32, details: &str, headers: &[(&str, String)], body: &[u8]) -> bool {
    let pairs = encode_pairs(headers);
    // SAFETY: pointers and lengths describe live slices.
    check(unsafe {
        proxy_send_local_response(
            status,
            details.as_ptr(),
            details.len(),
            body.as_ptr(),
            body.len(),
            pairs.as_ptr(),
            pairs.len(),
            -1,
        )
    })
    .is_ok()
}

/// The ABI's map encoding: count, then all lengths, then all strings, each with a zero byte behind it.
fn encode_pairs(headers: &[(&str, String)]) -> Vec<u8> {
    let length = |text: &str| u32::try_from(text.len()).unwrap_or(u32::MAX).to_le_bytes();
    let mut out = Vec::with_capacity(512);
    out.extend_from_slice(&u32::try_from(headers.len()).unwrap_or(0).to_le_bytes());
    for (name, value) in headers {
        out.extend_from_slice(&length(name));
        out.extend_from_slice(&length(value));
    }
    for (name, value) in headers {
        out.extend_from_slice(name.as_bytes());
        out.push(0);
        out.extend_from_slice(value.as_bytes());
        out.push(0);
    }
    out
}

/// Defines a metric; every call makes a new id, so once per VM and name.
pub(super) fn define_metric(kind: MetricKind, name: &str) -> Option<u32> {
    let mut id = 0;
    // SAFETY: pointer and length describe a live string, the out-pointer is a live local.
    check(unsafe { proxy_define_metric(kind as u32, name.as_ptr(), name.len(), &mut id) }).ok()?;
    Some(id)
}

/// Sets a gauge, or adds a sample to a histogram.
pub(super) fn record_metric(id: u32, value: u64) {
    // SAFETY: no pointers.
    let _ = unsafe { proxy_record_metric(id, value) };
}

/// Adds to a counter. The host refuses 0, so that is skipped.
pub(super) fn add_metric(id: u32, amount: u64) {
    let amount = i64::try_from(amount).unwrap_or(i64::MAX);
    if amount > 0 {
        // SAFETY: no pointers.
        let _ = unsafe { proxy_increment_metric(id, amount) };
    }
}

/// Present value of a counter or gauge, over all workers.
pub(super) fn metric(id: u32) -> Option<u64> {
    let mut value = 0;
    // SAFETY: the out-pointer is a live local.
    check(unsafe { proxy_get_metric(id, &mut value) }).ok()?;
    Some(value)
}
