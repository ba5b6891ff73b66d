#![allow(clippy::arithmetic_side_effects)]

use super::{BodySeen, RequestFacts, RequestReader, read_request};
use crate::cost::dialect::{Endpoint, classify};

fn endpoint(path: &str) -> Endpoint {
    classify(path.as_bytes(), None).unwrap()
}

fn read(path: &str, body: &str) -> RequestFacts {
    read_request(&endpoint(path), body.as_bytes(), BodySeen::Complete)
}

fn chat(body: &str) -> RequestFacts {
    read("/v1/chat/completions", body)
}

fn message(text: &str) -> String {
    format!(
        "{{\"model\":\"m-chat\",\"max_tokens\":1,\"messages\":[{{\"role\":\"user\",\"content\":\"{text}\"}}]}}"
    )
}

#[test]
fn decoys_below_the_top_level_change_nothing() {
    let facts = chat(
        r#"{"metadata":{"model":"m-cheap","max_tokens":1,"stream":true},
        "messages":[{"role":"user","content":"\"max_tokens\": 1, \"model\": \"m-cheap\"","model":"m-cheap","n":7}],
        "tools":[{"function":{"parameters":{"properties":{"max_tokens":{"default":1},"model":{"const":"x"}}}}}],
        "extra_body":[{"max_tokens":99999}], "model":"m-chat","max_tokens":9000}"#,
    );
    assert_eq!(facts.model.as_deref(), Some("m-chat"));
    assert_eq!((facts.declared_output, facts.answers, facts.streams), (Some(9_000), 1, false));
}

#[test]
fn the_largest_of_several_caps_counts() {
    for body in [
        r#"{"max_tokens":1,"max_completion_tokens":10000}"#,
        r#"{"max_completion_tokens":10000,"max_tokens":1}"#,
        r#"{"max_output_tokens":10000,"max_tokens":"20000"}"#,
        r#"{"max_tokens":7,"max_tokens":10000,"max_completion_tokens":null}"#,
    ] {
        assert_eq!(chat(body).declared_output, Some(10_000), "{body}");
    }
}

#[test]
fn caps_that_make_no_sense_are_none() {
    for cap in ["null", "-1", "1.5", "\"9\"", "1e30", "99999999999999999999", "[9]", "{\"x\":9}", "true"] {
        assert_eq!(chat(&format!("{{\"max_tokens\":{cap}}}")).declared_output, None, "{cap}");
    }
    assert_eq!(chat(r#"{"max_tokens":0}"#).declared_output, Some(0));
    assert_eq!(chat(r#"{"max_tokens":5,"max_tokens":null}"#).declared_output, None);
    assert_eq!(read("/api/chat", r#"{"options":{"num_predict":-1}}"#).declared_output, None);
}

#[test]
fn a_member_that_is_repeated_says_what_its_last_value_says() {
    for (path, body, cap) in [
        ("/v1/chat/completions", r#"{"max_tokens":1,"max_tokens":"9000"}"#, None),
        ("/v1/chat/completions", r#"{"max_tokens":1,"max_tokens":[9000]}"#, None),
        ("/v1/chat/completions", r#"{"max_tokens":1,"max_tokens":{"x":9000}}"#, None),
        ("/v1/chat/completions", r#"{"max_tokens":"1","max_tokens":9000}"#, Some(9_000)),
        ("/v1/chat/completions", r#"{"max_tokens":10,"n":5,"n":"5"}"#, Some(10)),
        ("/v1/completions", r#"{"max_tokens":10,"prompt":["a","b"],"prompt":"a"}"#, Some(10)),
        ("/model/m/converse", r#"{"inferenceConfig":{"maxTokens":1},"inferenceConfig":{}}"#, None),
        ("/model/m/converse", r#"{"inferenceConfig":{"maxTokens":1},"inferenceConfig":null}"#, None),
        (
            "/model/m/converse",
            r#"{"inferenceConfig":{"maxTokens":1},"inferenceConfig":{"maxTokens":9}}"#,
            Some(9),
        ),
        ("/api/chat", r#"{"options":{"num_predict":1},"options":"x"}"#, None),
        (
            "/v1beta/models/m:generateContent",
            r#"{"generationConfig":{"maxOutputTokens":1,"candidateCount":2},"generationConfig":{"maxOutputTokens":7}}"#,
            Some(7),
        ),
    ] {
        assert_eq!(read(path, body).declared_output, cap, "{body}");
    }
    for last in ["5", "{\"x\":\"b\"}", "[\"b\"]", "true"] {
        assert_eq!(chat(&format!("{{\"model\":\"a\",\"model\":{last}}}")).model, None, "{last}");
    }
    assert!(!chat(r#"{"stream":true,"stream":"false"}"#).streams);
    assert!(!chat(r#"{"stream_options":{"include_usage":true},"stream_options":{}}"#).usage_requested);
}

#[test]
fn copies_and_prompts_multiply() {
    assert_eq!(chat(r#"{"n":3,"max_tokens":10}"#).declared_output, Some(30));
    assert_eq!(chat(r#"{"n":0,"max_tokens":10}"#).declared_output, Some(10));
    assert_eq!(chat(r#"{"n":-5,"max_tokens":10}"#).declared_output, Some(10));
    assert_eq!(chat(r#"{"n":1e99,"max_tokens":10}"#).declared_output, Some(10));
    let completions = |body: &str| read("/v1/completions", body);
    assert_eq!(
        completions(r#"{"prompt":["a","b"],"n":2,"best_of":3,"max_tokens":20}"#).declared_output,
        Some(120)
    );
    assert_eq!(completions(r#"{"prompt":"a","max_tokens":20}"#).declared_output, Some(20));
    let facts = completions(r#"{"prompt":[[1,22,333],[4,5]],"max_tokens":20}"#);
    assert_eq!((facts.declared_output, facts.input_llm_tokens), (Some(40), 5));
    let facts = completions(r#"{"prompt":[1,2,3,4],"max_tokens":20}"#);
    assert_eq!((facts.declared_output, facts.input_llm_tokens), (Some(20), 4));
}

#[test]
fn only_a_true_stream_flag_streams() {
    assert!(chat(r#"{"stream":true}"#).streams);
    for body in
        [r#"{"stream":"true"}"#, r#"{"stream":1}"#, r#"{"stream":null}"#, r#"{"stream":true,"stream":false}"#]
    {
        assert!(!chat(body).streams, "{body}");
    }
    assert!(read("/api/chat", "{}").streams);
    assert!(!read("/api/chat", r#"{"stream":false}"#).streams);
    assert!(read("/v1beta/models/m:streamGenerateContent", r#"{"stream":false}"#).streams);
    assert!(chat(r#"{"stream_options":{"include_usage":true}}"#).usage_requested);
    assert!(
        !chat(r#"{"stream_options":{"include_usage":false},"x":{"include_usage":true}}"#).usage_requested
    );
}

#[test]
fn model_names_are_taken_as_they_are() {
    for model in [
        "openrouter/google/gemini-flash-1.5",
        "meta-llama/Llama-3.1-8B-Instruct",
        "anthropic.claude-3:0",
        "ft:gpt-4o:org::id",
        "gpt-4o@2024-08-06",
    ] {
        assert_eq!(chat(&format!("{{\"model\":\"{model}\"}}")).model.as_deref(), Some(model));
    }
    assert_eq!(chat(r#"{"mod\u0065l":"\u006d"}"#).model.as_deref(), Some("m"));
    assert_eq!(chat(r#"{"model":"a","model":null}"#).model, None);
    assert_eq!(chat(r#"{"model":""}"#).model, None);
    assert_eq!(
        chat(&format!("{{\"model\":\"{}\"}}", "m".repeat(9_999))).model.map(|model| model.len()),
        Some(256)
    );
    let azure = "/openai/deployments/d/chat/completions";
    assert_eq!(read(azure, "{}").model.as_deref(), Some("d"));
    assert_eq!(read(azure, r#"{"model":"b"}"#).model.as_deref(), Some("b"));
}

#[test]
fn scripts_of_three_bytes_are_not_counted_by_bytes() {
    for character in ["中", "カ", "한"] {
        let llm_tokens = chat(&message(&character.repeat(2_000))).input_llm_tokens;
        assert!((1_200..=4_000).contains(&llm_tokens), "{character}: {llm_tokens}");
    }
    let english = "The harbour master keeps a book of every boat that comes in at night. ".repeat(86);
    let llm_tokens = chat(&message(&english)).input_llm_tokens;
    assert!((1_200..=1_500).contains(&llm_tokens), "{llm_tokens}");
}

#[test]
fn tools_are_counted_as_json() {
    let tool = format!(
        r#"{{"type":"function","function":{{"name":"tool","description":"{}","parameters":{{"type":"object",
        "properties":{{"p":{{"type":"string","description":"{}"}}}}}}}}}}"#,
        "Looks the boat up in the register. ".repeat(20),
        "Name of the boat, as painted. ".repeat(20)
    );
    let tools = vec![tool; 40].join(",");
    let body = format!("{{\"messages\":[{{\"role\":\"user\",\"content\":\"hello\"}}],\"tools\":[{tools}]}}");
    let llm_tokens = chat(&body).input_llm_tokens;
    let words = body.len() as u64;
    assert!((words / 7..=words / 4).contains(&llm_tokens), "{llm_tokens} of {words} bytes");
}

#[test]
fn pictures_cost_a_bounded_amount() {
    let picture = |url: &str| {
        chat(&format!(
            "{{\"model\":\"m-chat\",\"messages\":[{{\"role\":\"user\",\"content\":[{{\"type\":\"text\",\
             \"text\":\"what is this\"}},{{\"type\":\"image_url\",\"image_url\":{{\"url\":\"{url}\"}}}}]}}]}}"
        ))
        .input_llm_tokens
    };
    let inline = picture(&format!("data:image/png;base64,{}", "A".repeat(2_550_000)));
    assert!((85..=2_100).contains(&inline), "{inline}");
    assert_eq!(picture("https://cdn.example/quay.jpg"), inline);
}

#[test]
fn text_that_begins_like_a_picture_is_text() {
    let prose = "The harbour master keeps a book of every boat that comes in at night. ".repeat(300);
    let chat = |part: &str| chat(&format!("{{\"model\":\"gpt-4o\",{part}}}")).input_llm_tokens;
    let plain = chat(&format!(r#""messages":[{{"role":"user","content":"{prose}"}}]"#));
    for part in [
        r#""messages":[{"role":"user","content":"#,
        r#""messages":[{"role":"user","content":[{"type":"text","text":"#,
        r#""messages":[{"role":"assistant","tool_calls":[{"function":{"name":"f","arguments":"#,
        r#""tools":[{"function":{"parameters":{"default":"#,
    ] {
        let ends = part.chars().rev().filter_map(|open| match open {
            '{' => Some('}'),
            '[' => Some(']'),
            _ => None,
        });
        let body = format!("{part}\"data:image/png;base64,{prose}\"{}", ends.collect::<String>());
        let llm_tokens = chat(&body);
        assert!(llm_tokens.abs_diff(plain) < plain / 10, "{llm_tokens}, plain {plain}: {part}");
    }
    let picture = format!(
        r#""messages":[{{"role":"user","content":[{{"type":"image_url","image_url":{{"url":"DATA:image/png;BASE64,{}"}}}}]}}]"#,
        "A".repeat(100_000)
    );
    assert!(chat(&picture) < 2_100);
}

#[test]
fn a_file_with_long_parameters_in_front_is_a_file() {
    for name in ["a.docx", "minutes-of-the-meeting-of-the-harbour-board-in-november.docx"] {
        let kind = "application/vnd.openxmlformats-officedocument.wordprocessingml.document";
        let file = format!("data:{kind};name={name};base64,{}", "QUJD".repeat(100_000));
        let body =
            format!(r#"{{"messages":[{{"content":[{{"type":"file","file":{{"file_data":"{file}"}}}}]}}]}}"#);
        let llm_tokens = chat(&body).input_llm_tokens;
        assert!(llm_tokens < 2_000, "{llm_tokens}: {name}");
    }
}

#[test]
fn a_prefix_that_ends_in_a_picture_takes_the_rest_for_picture() {
    let body = format!(
        "{{\"model\":\"m-chat\",\"messages\":[{{\"role\":\"user\",\"content\":[{{\"type\":\"text\",\"text\":\"what is this\"}},\
         {{\"type\":\"image_url\",\"image_url\":{{\"url\":\"data:image/png;base64,{}\"}}}}]}}]}}",
        "A".repeat(2_550_000)
    );
    let seen = BodySeen::Prefix { declared_len: Some(body.len() as u64) };
    let facts = read_request(&endpoint("/v1/chat/completions"), &body.as_bytes()[..262_144], seen);
    assert!((85..=2_100).contains(&facts.input_llm_tokens), "{}", facts.input_llm_tokens);
    assert_eq!(facts.model.as_deref(), Some("m-chat"));
}

#[test]
fn files_cost_a_bounded_amount_wherever_an_api_puts_them() {
    let (chat, responses) = ("/v1/chat/completions", "/v1/responses");
    let (messages, invoke) = ("/v1/messages", "/model/m/invoke");
    let part = |part: &str| format!(r#"{{"messages":[{{"role":"user","content":[{part}]}}]}}"#);
    let blob = "QUJD".repeat(50_000);
    let url = format!("data:image/png;base64,{blob}");
    for (path, body) in [
        (responses, format!(r#"{{"input":[{{"type":"image_generation_call","result":"{blob}"}}]}}"#)),
        (
            responses,
            format!(
                r#"{{"input":"x","tools":[{{"type":"image_generation","input_image_mask":{{"image_url":"{url}"}}}}]}}"#
            ),
        ),
        (chat, part(&format!(r#"{{"type":"input_audio","input_audio":"{}"}}"#, &blob[..100_000]))),
        (chat, part(r#"{"type":"input_audio","input_audio":"https://cdn.example/a.mp3"}"#)),
        (chat, part(&format!(r#"{{"type":"image_embeds","image_embeds":"{blob}"}}"#))),
        ("/v2/embed", format!(r#"{{"model":"m","images":["{url}"]}}"#)),
        (invoke, format!(r#"{{"inputText":"x","inputImage":"{blob}"}}"#)),
        (invoke, format!(r#"{{"images":["{url}"]}}"#)),
        (invoke, format!(r#"{{"prompt":"x","images":["{blob}"]}}"#)),
        (messages, part(r#"{"type":"image","source":{"type":"file","file_id":"file_011CN"}}"#)),
        (messages, part(r#"{"type":"document","source":{"type":"file","file_id":"f"}}"#)),
        (messages, part(r#"{"type":"container_upload","file_id":"file_011CN"}"#)),
        ("/v1beta/interactions", format!(r#"{{"input":[{{"type":"image","data":"{blob}"}}]}}"#)),
        ("/v1beta/interactions", r#"{"input":[{"type":"image","uri":"https://x/y"}]}"#.to_owned()),
    ] {
        let llm_tokens = read(path, &body).input_llm_tokens;
        assert!((80..=2_100).contains(&llm_tokens), "{llm_tokens}: {}", &body[..body.len().min(90)]);
    }
}

#[test]
fn what_the_model_reads_stays_text_where_files_may_stand() {
    let blob = "QUJD".repeat(5_000);
    for (path, body) in [
        ("/v1beta/interactions", format!(r#"{{"input":[{{"type":"function_result","result":"{blob}"}}]}}"#)),
        ("/v1/responses", format!(r#"{{"input":[{{"type":"function_call_output","output":"{blob}"}}]}}"#)),
        (
            "/v1/responses",
            format!(
                r#"{{"tools":[{{"parameters":{{"input_image_mask":{{"image_url":"data:;base64,{blob}"}}}}}}]}}"#
            ),
        ),
        ("/v2/embed", format!(r#"{{"images":["a {blob}"]}}"#)),
    ] {
        let llm_tokens = read(path, &body).input_llm_tokens;
        assert!(llm_tokens > 4_000, "{llm_tokens}: {}", &body[..90]);
    }
}

#[test]
fn opaque_strings_are_not_text() {
    let blob = "QUJD".repeat(5_000);
    for part in [
        format!(r#"{{"type":"thinking","thinking":"x","signature":"{blob}"}}"#),
        format!(r#"{{"type":"redacted_thinking","data":"{blob}"}}"#),
        format!(r#"{{"type":"reasoning","encrypted_content":"{blob}"}}"#),
    ] {
        let body = format!("{{\"messages\":[{{\"role\":\"assistant\",\"content\":[{part}]}}]}}");
        let llm_tokens = read("/v1/messages", &body).input_llm_tokens;
        assert!(llm_tokens < 30, "{llm_tokens}: {}", &part[..40]);
    }
    // A plain-text document has its text in the same member that holds base64 elsewhere.
    let text = "A boat came in at night. ".repeat(100);
    let body = format!(
        r#"{{"messages":[{{"content":[{{"type":"document","source":{{"type":"text","media_type":"text/plain","data":"{text}"}}}}]}}]}}"#
    );
    let llm_tokens = read("/v1/messages", &body).input_llm_tokens;
    assert!(llm_tokens > 500, "{llm_tokens}");
}

#[test]
fn unreadable_bodies_cost_a_floor_and_tell_nothing() {
    let bodies: [&[u8]; 13] = [
        b"",
        b"{",
        b"[]",
        b"null",
        b"42",
        b"\"x\"",
        b"{\"model\":\"m\",\"messages\":[{\"content\":\"cut he",
        b"\0\0\0\0",
        b"model=m&x=1",
        b"{\"model\":\"m\"} trailing",
        b"{\"model\":\"m\"}{}",
        b"\x1f\x8b\x08\0",
        b"\x28\xb5\x2f\xfd",
    ];
    for body in bodies {
        let facts = read_request(&endpoint("/v1/chat/completions"), body, BodySeen::Complete);
        assert!(!facts.readable, "{}", String::from_utf8_lossy(body));
        assert_eq!((facts.model, facts.declared_output), (None, None));
        assert_eq!(facts.input_llm_tokens, (body.len() as u64 / 4).max(1));
    }
    let facts = read_request(&endpoint("/model/m/converse"), b"?", BodySeen::Complete);
    assert_eq!((facts.readable, facts.model.as_deref(), facts.streams), (false, Some("m"), false));
}

#[test]
fn a_byte_order_mark_is_skipped() {
    let facts = chat("\u{feff}{\"model\":\"m-chat\",\"max_tokens\":9000}");
    assert_eq!((facts.readable, facts.declared_output), (true, Some(9_000)));
}

#[test]
fn nothing_is_free() {
    assert!(read("/v1/embeddings", r#"{"model":"m","input":""}"#).input_llm_tokens >= 1);
    assert!(chat(r#"{"messages":[{"role":"user","content":""}],"max_tokens":0}"#).input_llm_tokens >= 1);
    assert!(chat("{}").input_llm_tokens >= 1);
}

#[test]
fn a_prefix_costs_at_least_what_the_whole_does() {
    let text = "The harbour master keeps a book of every boat that comes in at night. ".repeat(18_000);
    let body = message(&text);
    let whole = chat(&body);
    for cut in [4_096, 16_384, 262_144] {
        let seen = BodySeen::Prefix { declared_len: Some(body.len() as u64) };
        let facts = read_request(&endpoint("/v1/chat/completions"), &body.as_bytes()[..cut], seen);
        let llm_tokens = facts.input_llm_tokens;
        assert!(llm_tokens >= whole.input_llm_tokens, "{llm_tokens} < {}", whole.input_llm_tokens);
        assert!(llm_tokens <= whole.input_llm_tokens * 12 / 10, "{llm_tokens}");
        assert!(facts.seen_llm_tokens < llm_tokens);
    }
}

#[test]
fn a_reader_may_be_asked_again_as_more_arrives() {
    let body = message(&"word ".repeat(10_000));
    let mut reader = RequestReader::new(&endpoint("/v1/chat/completions"));
    let mut last = 0;
    for piece in body.as_bytes().chunks(4_096) {
        reader.feed(piece);
        let seen = reader.facts(BodySeen::Prefix { declared_len: None }).input_llm_tokens;
        assert!(seen >= last);
        last = seen;
    }
    assert_eq!(reader.facts(BodySeen::Complete), chat(&body));
}

#[test]
fn escapes_count_decoded() {
    let plain = chat(&message(&"漢字".repeat(150)));
    let escaped = chat(&message(&"\\u6f22\\u5b57".repeat(150)));
    assert_eq!(plain, escaped);
}

#[test]
fn deep_nesting_still_counts() {
    let body =
        format!("{{\"messages\":[{}\"{}\"{}]}}", "[".repeat(5_000), "word ".repeat(1_000), "]".repeat(5_000));
    let llm_tokens = chat(&body).input_llm_tokens;
    assert!(llm_tokens > 900, "{llm_tokens}");
}
