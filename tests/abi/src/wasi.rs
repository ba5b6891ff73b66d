//! The part of WASI preview 1 that Envoy offers to a filter.

use wasmtime::{Caller, Linker, Result, bail};

use crate::state::VmState;

const SUCCESS: u32 = 0;
const BAD_FILE: u32 = 8;
const INVALID: u32 = 28;
const NOT_SUPPORTED: u32 = 58;
const NAMESPACE: &str = "wasi_snapshot_preview1";

type Call<'a> = Caller<'a, VmState>;

/// Adds the functions to `linker`.
pub fn link(linker: &mut Linker<VmState>) -> Result<()> {
    linker.func_wrap(NAMESPACE, "environ_sizes_get", |mut call: Call<'_>, count: u32, size: u32| {
        store(&mut call, count, &0_u32.to_le_bytes()).max(store(&mut call, size, &0_u32.to_le_bytes()))
    })?;
    linker.func_wrap(NAMESPACE, "environ_get", |_: Call<'_>, _: u32, _: u32| SUCCESS)?;
    linker.func_wrap(NAMESPACE, "args_sizes_get", |mut call: Call<'_>, count: u32, size: u32| {
        store(&mut call, count, &0_u32.to_le_bytes()).max(store(&mut call, size, &0_u32.to_le_bytes()))
    })?;
    linker.func_wrap(NAMESPACE, "args_get", |_: Call<'_>, _: u32, _: u32| SUCCESS)?;
    linker.func_wrap(NAMESPACE, "clock_time_get", |mut call: Call<'_>, id: u32, _: u64, out: u32| {
        let now = {
            let world = call.data().world.borrow();
            match id {
                0 => world.clock.wall(),
                1 => world.clock.monotonic(),
                _ => return NOT_SUPPORTED,
            }
        };
        store(&mut call, out, &now.to_le_bytes())
    })?;
    linker.func_wrap(NAMESPACE, "clock_res_get", |mut call: Call<'_>, id: u32, out: u32| {
        if id > 1 { NOT_SUPPORTED } else { store(&mut call, out, &1_u64.to_le_bytes()) }
    })?;
    linker.func_wrap(NAMESPACE, "random_get", |mut call: Call<'_>, at: u32, len: u32| {
        if len > 65_536 {
            return INVALID;
        }
        let bytes: Vec<u8> = (0..len).map(|_| call.data_mut().next_random() as u8).collect();
        store(&mut call, at, &bytes)
    })?;
    linker.func_wrap(NAMESPACE, "fd_write", fd_write)?;
    linker.func_wrap(NAMESPACE, "fd_read", |_: Call<'_>, _: u32, _: u32, _: u32, _: u32| BAD_FILE)?;
    linker.func_wrap(NAMESPACE, "fd_seek", |_: Call<'_>, _: u32, _: u64, _: u32, _: u32| BAD_FILE)?;
    linker.func_wrap(NAMESPACE, "fd_close", |_: Call<'_>, _: u32| BAD_FILE)?;
    linker.func_wrap(NAMESPACE, "fd_fdstat_get", |_: Call<'_>, _: u32, _: u32| BAD_FILE)?;
    linker.func_wrap(NAMESPACE, "fd_fdstat_set_flags", |_: Call<'_>, _: u32, _: u32| BAD_FILE)?;
    linker.func_wrap(NAMESPACE, "fd_prestat_get", |_: Call<'_>, _: u32, _: u32| BAD_FILE)?;
    linker.func_wrap(NAMESPACE, "fd_prestat_dir_name", |_: Call<'_>, _: u32, _: u32, _: u32| BAD_FILE)?;
    linker.func_wrap(NAMESPACE, "sched_yield", |_: Call<'_>| SUCCESS)?;
    linker.func_wrap(NAMESPACE, "poll_oneoff", |_: Call<'_>, _: u32, _: u32, _: u32, _: u32| SUCCESS)?;
    linker.func_wrap(NAMESPACE, "proc_exit", |call: Call<'_>, code: u32| -> Result<()> {
        call.data().world.borrow_mut().logs.push((5, format!("proc_exit({code})")));
        bail!("the module exited with {code}")
    })?;
    Ok(())
}

fn store(call: &mut Call<'_>, at: u32, bytes: &[u8]) -> u32 {
    let Some(memory) = call.data().memory else { return INVALID };
    memory.write(call, at as usize, bytes).map_or(INVALID, |()| SUCCESS)
}

/// Standard output becomes an info line, standard error an error line.
fn fd_write(mut call: Call<'_>, fd: u32, vectors: u32, count: u32, written: u32) -> u32 {
    let level = match fd {
        1 => 2,
        2 => 4,
        _ => return BAD_FILE,
    };
    let Some(memory) = call.data().memory else { return INVALID };
    let mut text = Vec::new();
    for index in 0..count {
        let mut entry = [0_u8; 8];
        if memory.read(&call, (vectors + index * 8) as usize, &mut entry).is_err() {
            return INVALID;
        }
        let [a, b, c, d, e, f, g, h] = entry;
        let start = u32::from_le_bytes([a, b, c, d]) as usize;
        let len = u32::from_le_bytes([e, f, g, h]) as usize;
        match memory.data(&call).get(start..start + len) {
            Some(bytes) => text.extend_from_slice(bytes),
            None => return INVALID,
        }
    }
    let line = String::from_utf8_lossy(&text).into_owned();
    call.data().world.borrow_mut().logs.push((level, line));
    store(&mut call, written, &(text.len() as u32).to_le_bytes())
}
