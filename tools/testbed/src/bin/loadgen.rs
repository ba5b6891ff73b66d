//! `loadgen --url http://127.0.0.1:10000 --flow tenant=acme,callers=10`: see `tools/README.md`.

use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use std::time::Duration;
use testbed::args::Args;
use testbed::load::flow::Flow;
use testbed::load::run::{Plan, Retry, run};
use testbed::load::summary::{Against, summarize};

const HELP: &str = "\
loadgen: callers of several flows against a provider or a gate; prints a JSON summary
  --url URL            http://address:port (default http://127.0.0.1:10000)
  --flow LIST          tenant= class= weight= callers= | rate= (open loop), prompt= output= max_tokens=
                       stream=0..1 think_ms= start_ms= api=chat|messages|embeddings mock=a=1;b=2; repeat it
  --seconds S          length (default 30);  --warmup S  not counted at the start (default 0)
  --retry HOW          obey (default), naive (0.5 s doubling to 8 s) or none
  --give-up P          probability that a refused call is never sent again (default 0)
  --max-tries N        tries per call (default: no end)
  --rpm N --tpm N      limits to measure use and fairness against
  --host H --model M   default llm.test and m-chat
  --seed N             default 1
  --progress           one line of JSON a second on stderr";

type Failure = Box<dyn std::error::Error>;

fn main() -> Result<(), Failure> {
    let args = Args::from_env()?;
    if args.has("help") {
        println!("{HELP}");
        return Ok(());
    }
    let seconds =
        |name, default| Ok::<_, String>(Duration::from_secs_f64(args.value(name)?.unwrap_or(default)));
    let mut flows = args.all("flow").map(Flow::parse).collect::<Result<Vec<_>, _>>()?;
    if flows.is_empty() {
        flows.push(Flow::default());
    }
    let plan = Plan {
        base: args.text("url").unwrap_or("http://127.0.0.1:10000").trim_end_matches('/').to_owned(),
        host: args.text("host").unwrap_or("llm.test").to_owned(),
        model: args.text("model").unwrap_or("m-chat").to_owned(),
        length: seconds("seconds", 30.0)?,
        retry: match args.text("retry").unwrap_or("obey") {
            "obey" => Retry::Obey,
            "naive" => Retry::Naive,
            "none" => Retry::None,
            other => return Err(format!("--retry: cannot use {other:?}").into()),
        },
        give_up: args.value("give-up")?.unwrap_or(0.0),
        max_tries: args.value("max-tries")?.unwrap_or(0),
        seed: args.value("seed")?.unwrap_or(1),
        progress: args.has("progress"),
        flows: flows.clone(),
    };
    let against = Against {
        rpm: args.value("rpm")?,
        tpm: args.value("tpm")?,
        warm_up: seconds("warmup", 0.0)?,
        length: plan.length,
    };
    let records = tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
        let mut connector = HttpConnector::new();
        connector.set_nodelay(true);
        let http = Client::builder(TokioExecutor::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(Duration::from_secs(30))
            .build(connector);
        run(plan, http).await
    });
    println!("{}", serde_json::to_string_pretty(&summarize(&flows, &records, against))?);
    Ok(())
}
