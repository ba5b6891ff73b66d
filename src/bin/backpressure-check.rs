//! Checks and explains a plugin configuration, or one inside an Envoy, Istio or Envoy Gateway file.

#[cfg(not(target_arch = "wasm32"))]
fn main() -> std::process::ExitCode {
    native::main()
}

#[cfg(target_arch = "wasm32")]
fn main() {}

#[cfg(not(target_arch = "wasm32"))]
mod native {
    use std::io::{Read as _, Write as _};
    use std::process::ExitCode;

    use envoy_backpressure::check::{Call, explain, find, price, read, read_json, remarks};
    use envoy_backpressure::identity::name_of_credential;

    const USAGE: &str = "\
Usage: backpressure-check FILE                       check and explain
       backpressure-check FILE --price PATH [--host HOST] < BODY
                                                     price a POST to PATH
       backpressure-check --key-name < CREDENTIAL    tenant name of an API key
       FILE is YAML or JSON: a plugin configuration, or an Envoy bootstrap, an Istio WasmPlugin or
       EnvoyFilter, an Envoy Gateway EnvoyExtensionPolicy or EnvoyPatchPolicy. - reads standard input.
Exit:  0 all is well, 1 a configuration is refused or none was found, 2 wrong use or unreadable file.
";

    #[derive(Default)]
    struct Arguments {
        file: Option<String>,
        path: Option<String>,
        host: String,
        key_name: bool,
    }

    pub(super) fn main() -> ExitCode {
        let mut out = Vec::new();
        let code = run(&mut out);
        // A reader that went away is no error of ours.
        let _ = std::io::stdout().write_all(&out);
        code
    }

    fn run(out: &mut Vec<u8>) -> ExitCode {
        let arguments = match arguments() {
            Ok(arguments) => arguments,
            Err(0) => {
                out.extend_from_slice(USAGE.as_bytes());
                return ExitCode::SUCCESS;
            }
            Err(_) => {
                eprint!("{USAGE}");
                return ExitCode::from(2);
            }
        };
        match work(&arguments, out) {
            Ok(true) => ExitCode::SUCCESS,
            Ok(false) => ExitCode::from(1),
            Err(message) => {
                eprintln!("backpressure-check: {message}");
                ExitCode::from(2)
            }
        }
    }

    fn arguments() -> Result<Arguments, u8> {
        let mut parsed = Arguments::default();
        let mut given = std::env::args().skip(1);
        while let Some(argument) = given.next() {
            match argument.as_str() {
                "-h" | "--help" => return Err(0),
                "--key-name" => parsed.key_name = true,
                "--price" => parsed.path = Some(given.next().ok_or(2)?),
                "--host" => parsed.host = given.next().ok_or(2)?,
                file if parsed.file.is_none() && (file == "-" || !file.starts_with('-')) => {
                    parsed.file = Some(argument);
                }
                _ => return Err(2),
            }
        }
        let twice = parsed.file.as_deref() == Some("-") && parsed.path.is_some();
        if parsed.key_name == parsed.file.is_some() || twice { Err(2) } else { Ok(parsed) }
    }

    /// Whether all is well.
    fn work(arguments: &Arguments, out: &mut Vec<u8>) -> Result<bool, String> {
        let Some(file) = &arguments.file else {
            let credential = standard_input()?;
            if credential.trim_ascii().is_empty() {
                return Err("no credential on standard input".to_owned());
            }
            print(out, &name_of_credential(&credential));
            return Ok(true);
        };
        let bytes = if file == "-" {
            standard_input()?
        } else {
            std::fs::read(file).map_err(|error| format!("{file}: {error}"))?
        };
        let text = String::from_utf8(bytes).map_err(|error| format!("{file}: {error}"))?;
        let read = if file.ends_with(".json") { read_json } else { read };
        let documents = read(&text).map_err(|error| format!("{file}: {error}"))?;
        let found = find(&documents);
        if found.is_empty() {
            print(out, &format!("{file}: no configuration of this plugin was found (it would have `pools`)"));
            return Ok(false);
        }
        let mut well = true;
        for (index, found) in found.iter().enumerate() {
            if index > 0 {
                print(out, "");
            }
            match found.parse() {
                Err(errors) => {
                    well = false;
                    print(out, &format!("{file}: {} is refused", found.place));
                    for error in errors {
                        print(out, &format!("  {error}"));
                    }
                }
                Ok(config) if arguments.path.is_some() => {
                    let path = arguments.path.as_deref().unwrap_or_default();
                    let body = standard_input()?;
                    let host = if arguments.host.is_empty() { "localhost" } else { &arguments.host };
                    print(out, price(&config, &Call { host, path, body: &body }).trim_end());
                    return Ok(well);
                }
                Ok(config) => {
                    print(out, &format!("{file}: {} is valid\n", found.place));
                    print(out, explain(&config).trim_end());
                    for remark in remarks(&config, found.host) {
                        print(out, &format!("\nNote: {remark}"));
                    }
                }
            }
        }
        Ok(well)
    }

    fn standard_input() -> Result<Vec<u8>, String> {
        let mut bytes = Vec::new();
        std::io::stdin().read_to_end(&mut bytes).map_err(|error| format!("standard input: {error}"))?;
        Ok(bytes)
    }

    fn print(out: &mut Vec<u8>, text: &str) {
        out.extend_from_slice(text.as_bytes());
        out.push(b'\n');
    }
}
