//! `mock-provider --port 9000 --rpm 60 --tpm 10000`: see `tools/README.md`.
#![allow(clippy::disallowed_methods)]

use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto::Builder;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use testbed::args::Args;
use testbed::mock::behave::Behave;
use testbed::mock::caps::Limits;
use testbed::mock::server::{ACCEPT_PAUSE, Provider, Settings};
use tokio::net::TcpListener;

const HELP: &str = "\
mock-provider: an LLM provider with caps of its own
  --port N             0 picks a free one; the address is printed (default 9000); may repeat
  --bind ADDRESS       where it listens (default 127.0.0.1)
  --rpm N --tpm N --itpm N --otpm N --concurrent N
  --burst-seconds S    token bucket of S seconds' worth; 0 = strict trailing 60 s (default)
  --behave LIST        defaults for calls without x-mock, e.g. delay_ms=50,chunk_ms=20,limit_headers=1
  --fast               constant answers for benchmarks, nothing counted but requests
GET /stats, POST /reset, POST /config {\"limits\": {...}, \"behave\": \"...\"}";

type Failure = Box<dyn std::error::Error>;

fn main() -> Result<(), Failure> {
    let args = Args::from_env()?;
    if args.has("help") {
        println!("{HELP}");
        return Ok(());
    }
    let limits = Limits {
        rpm: args.value("rpm")?,
        tpm: args.value("tpm")?,
        itpm: args.value("itpm")?,
        otpm: args.value("otpm")?,
        concurrent: args.value("concurrent")?,
        burst_seconds: args.value("burst-seconds")?.unwrap_or(0.0),
    };
    let behave = Behave::default().with(args.text("behave").unwrap_or(""))?;
    let provider = Provider::new(Settings { limits, behave, fast: args.has("fast") });
    let host = args.value("bind")?.unwrap_or(IpAddr::V4(Ipv4Addr::LOCALHOST));
    let mut ports = args.all("port").map(str::parse).collect::<Result<Vec<u16>, _>>()?;
    if ports.is_empty() {
        ports.push(9000);
    }
    tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
        for port in ports {
            let listener = TcpListener::bind(SocketAddr::from((host, port))).await?;
            println!("listening on http://{}", listener.local_addr()?);
            tokio::spawn(accept(listener, provider.clone()));
        }
        tokio::signal::ctrl_c().await?;
        Ok(())
    })
}

async fn accept(listener: TcpListener, provider: Provider) {
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            tokio::time::sleep(ACCEPT_PAUSE).await;
            continue;
        };
        drop(stream.set_nodelay(true));
        let provider = provider.clone();
        tokio::spawn(async move {
            let service = service_fn(move |request| provider.clone().serve(request));
            let builder = Builder::new(TokioExecutor::new());
            // A broken connection is the caller's choice or the test's; there is nobody to tell.
            drop(builder.serve_connection_with_upgrades(TokioIo::new(stream), service).await);
        });
    }
}
