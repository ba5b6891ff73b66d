//! Several workers: reloads, traps at every moment, conflicts from real interleaving.

use abi_host::case::{Answer, Bench, Verdict, chat_body, field_post};
use abi_host::{Effect, Fault, Options, StreamId};

fn busy(workers: usize) -> Bench {
    Bench::start(Options::filter().workers(workers), |_| {})
}

fn send(bench: &mut Bench, worker: usize, max_tokens: u64) -> StreamId {
    bench.send_on(worker, field_post("/v1/chat/completions"), &chat_body(max_tokens))
}

#[test]
fn fifty_reloads_under_traffic_lose_nothing() {
    let mut bench = busy(3);
    let text = bench.config.to_string();
    let mut open: Vec<StreamId> = Vec::new();
    for round in 0..50 {
        let id = send(&mut bench, round % 3, 30);
        assert_eq!(bench.verdict(id), Verdict::Admit, "round {round}");
        open.push(id);
        bench.host.configure(&text).expect("accepted");
        if round % 2 == 1 {
            let id = open.remove(0);
            bench.finish(id, &Answer::usage(10, 10));
        }
        bench.host.advance_millis(100);
    }
    assert_eq!(bench.rpm_used(), 50);
    for id in open {
        bench.finish(id, &Answer::usage(10, 10));
    }
    assert_eq!(bench.tpm_used(), 50 * 20);
    assert!(bench.in_flight() == 0);
    for worker in 0..3 {
        assert_eq!(bench.host.vm(worker).state().roots.len(), 1, "old root contexts go with their last call");
    }
    assert!(bench.host.world.borrow().violations.is_empty());
}

#[test]
fn a_trap_at_any_host_call_neither_overshoots_nor_leaks() {
    let calls = [
        "set_shared_data",
        "get_shared_data",
        "get_header_map_value",
        "get_buffer_bytes",
        "increment_metric",
    ];
    for call in calls {
        for (skip, effect) in (0..10).flat_map(|n| [(n, Effect::TrapBefore), (n, Effect::TrapAfter)]) {
            let mut bench = busy(2);
            let fault = Fault { skip, ..Fault::trap(call, effect) };
            bench.host.world.borrow_mut().faults.add(fault);
            let mut passed = 0;
            let mut open = Vec::new();
            for step in 0..40 {
                let id = send(&mut bench, step % 2, 990);
                if bench.verdict(id) == Verdict::Admit {
                    passed += 1;
                    open.push(id);
                }
                bench.host.advance_millis(100);
            }
            // Ten fit; one more may have passed when the machine died between deciding and being read.
            assert!(
                passed <= 10,
                "{call} {effect:?} after {skip}: {passed} calls of 1 000 in a window of 10 000"
            );
            for id in open {
                bench.finish(id, &Answer::usage(10, 10));
            }
            bench.host.world.borrow_mut().faults.clear();
            bench.host.advance_secs(700);
            let again = send(&mut bench, 0, 10);
            assert_eq!(bench.verdict(again), Verdict::Admit, "{call} {effect:?} after {skip}");
            bench.finish(again, &Answer::usage(5, 5));
            assert!(bench.in_flight() == 0, "{call} {effect:?} after {skip}");
            assert_eq!(bench.tpm_used(), 10, "{call} {effect:?} after {skip}");
        }
    }
}

#[test]
fn settling_on_another_worker_than_others_admit_keeps_the_sum() {
    let mut bench = busy(4);
    let mut open: Vec<(StreamId, u64)> = Vec::new();
    let mut charged = 0;
    for step in 0..55_u64 {
        let id = send(&mut bench, (step % 4) as usize, 100);
        assert_eq!(bench.verdict(id), Verdict::Admit, "step {step}");
        open.push((id, step));
        if step % 3 == 2 {
            let (id, n) = open.remove((step % open.len() as u64) as usize);
            bench.finish(id, &Answer::usage(n + 1, 7));
            charged += n + 8;
        }
        bench.host.advance_millis(50);
    }
    for (id, n) in open {
        bench.finish(id, &Answer::usage(n + 1, 7));
        charged += n + 8;
    }
    assert_eq!(bench.tpm_used(), charged);
    assert_eq!(bench.rpm_used(), 55);
}
