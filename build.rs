//! Packs the status page and the fleet's script: their size counts into the module, which can inflate anyway.

use std::path::Path;

const SCRIPT: &str = "src/fleet/rule.lua";
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
    pack_script(Path::new(&out))
}

fn pack_script(out: &Path) -> Result<(), Box<dyn std::error::Error>> {
    println!("cargo::rerun-if-changed={SCRIPT}");
    let text = std::fs::read_to_string(SCRIPT)?;
    let lines: Vec<&str> =
        text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with("--")).collect();
    let script = lines.join("\n");
    let digest = sha1_smol::Sha1::from(&script).digest().to_string();
    std::fs::write(out.join("rule.sha1"), digest)?;
    std::fs::write(out.join("rule.deflate"), miniz_oxide::deflate::compress_to_vec(script.as_bytes(), 10))?;
    Ok(())
}
