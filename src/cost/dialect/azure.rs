//! OpenAI behind Azure deployments: the deployment in the path stands for the model.
//! Source: `lib/azure.py` of the `openai` Python package 3.57.

use super::{Dialect, Found, Operation, Place, Row, openai};

pub(super) static ROW: Row = Row {
    dialect: Dialect::AzureOpenAi,
    find,
    prose: openai::PROSE,
    json: openai::JSON,
    caps: openai::CAPS,
    copies: openai::COPIES,
    streams_by_default: false,
};

fn find(place: &Place<'_>) -> Option<Found> {
    let operation = openai::operation(place)?;
    let (behind, marker) = match operation {
        Operation::Chat | Operation::Images | Operation::Audio => (2, 3),
        _ => (1, 2),
    };
    if place.back(marker).is_some_and(|name| name.eq_ignore_ascii_case("deployments")) {
        let model = place.back(behind).map(str::to_owned);
        return Some(Found { operation, model, streams: None });
    }
    // `/openai/responses?api-version=...`; `/openai/v1/...` is left to OpenAI, others mount that too (Groq).
    let direct = place.back(behind).is_some_and(|name| name.eq_ignore_ascii_case("openai"));
    if direct && place.has_parameter("api-version") { Found::body(operation) } else { None }
}
