//! The host functions `env.proxy_*` of ABI 0.2.1.

mod buffers;
mod callouts;
mod control;
mod maps;
mod metrics;
mod properties;
mod shared;

use wasmtime::{Caller, Linker, Result, bail};

use crate::fault::Effect;
use crate::state::VmState;
use crate::status::Status;

pub(crate) type Call<'a> = Caller<'a, VmState>;

/// Adds every host function to `linker`.
pub fn link(linker: &mut Linker<VmState>) -> Result<()> {
    control::link(linker)?;
    maps::link(linker)?;
    buffers::link(linker)?;
    properties::link(linker)?;
    shared::link(linker)?;
    metrics::link(linker)?;
    callouts::link(linker)
}

/// Runs one host call: counts it, and lets a fault strike instead.
pub(crate) fn guard(
    mut call: Call<'_>,
    name: &'static str,
    body: impl FnOnce(&mut Call<'_>) -> Result<Status>,
) -> Result<u32> {
    let effect = {
        let mut world = call.data().world.borrow_mut();
        *world.calls.entry(name).or_default() += 1;
        world.faults.strike(name)
    };
    match effect {
        Some(Effect::Status(status)) => Ok(status),
        Some(Effect::TrapBefore) => bail!("injected trap before {name}"),
        Some(Effect::TrapAfter) => {
            body(&mut call)?;
            bail!("injected trap after {name}")
        }
        None => body(&mut call).map(|status| status as u32),
    }
}

/// Bytes of the module's memory; `None` when out of bounds.
pub(crate) fn read(call: &Call<'_>, at: u32, len: u32) -> Option<Vec<u8>> {
    let memory = call.data().memory?;
    let start = at as usize;
    memory.data(call).get(start..start.checked_add(len as usize)?).map(<[u8]>::to_vec)
}

/// Text of the module's memory, invalid bytes replaced.
pub(crate) fn read_text(call: &Call<'_>, at: u32, len: u32) -> Option<String> {
    read(call, at, len).map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
}

/// Writes bytes into the module's memory.
pub(crate) fn write(call: &mut Call<'_>, at: u32, bytes: &[u8]) -> Status {
    let Some(memory) = call.data().memory else { return Status::InvalidMemoryAccess };
    match memory.write(call, at as usize, bytes) {
        Ok(()) => Status::Ok,
        Err(_) => Status::InvalidMemoryAccess,
    }
}

/// Hands `bytes` to the module: asks its allocator for room, as Envoy does, and writes pointer and length.
pub(crate) fn give(call: &mut Call<'_>, bytes: &[u8], pointer_at: u32, len_at: u32) -> Result<Status> {
    let mut pointer = 0;
    if !bytes.is_empty() {
        let Some(allocate) = call.data().allocate.clone() else { return Ok(Status::InvalidMemoryAccess) };
        pointer = allocate.call(&mut *call, bytes.len() as u32)?;
        if write(call, pointer, bytes) != Status::Ok {
            return Ok(Status::InvalidMemoryAccess);
        }
    }
    if write(call, pointer_at, &pointer.to_le_bytes()) != Status::Ok {
        return Ok(Status::InvalidMemoryAccess);
    }
    Ok(write(call, len_at, &(bytes.len() as u32).to_le_bytes()))
}
