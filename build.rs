//! Packs the status page: its size counts into the module, which can inflate anyway.

use std::path::Path;

const FOLDER: &str = "src/observe/status/page";

fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("cargo::rerun-if-changed={FOLDER}");
    let read = |name: &str| std::fs::read_to_string(Path::new(FOLDER).join(name));
    let page = [
        &read("head.html")?,
        "<style>",
        &read("page.css")?,
        "</style>",
        &read("body.html")?,
        "<script>",
        &read("page.js")?,
        "</script></body></html>\n",
    ]
    .concat();
    let packed = miniz_oxide::deflate::compress_to_vec(page.as_bytes(), 10);
    let out = std::env::var("OUT_DIR")?;
    std::fs::write(Path::new(&out).join("status_page.deflate"), packed)?;
    Ok(())
}
