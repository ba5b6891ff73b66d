//! A real redis-server of the test's own, and just enough of its protocol.
#![allow(dead_code, unreachable_pub)]

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

pub struct Redis {
    process: Child,
    folder: PathBuf,
    reader: BufReader<UnixStream>,
}

impl Redis {
    /// Starts a server on a socket of its own. `None` when none is installed.
    pub fn start(name: &str) -> Option<Self> {
        let folder = std::env::temp_dir().join(format!("fleet-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("folder");
        let socket = folder.join("s");
        let process = Command::new("redis-server")
            .args(["--port", "0", "--save", "", "--appendonly", "no", "--unixsocket"])
            .arg(&socket)
            .current_dir(&folder)
            .stdout(Stdio::null())
            .spawn()
            .ok()?;
        let reader = loop {
            match UnixStream::connect(&socket) {
                Ok(stream) => break BufReader::new(stream),
                Err(_) => std::thread::yield_now(),
            }
        };
        Some(Self { process, folder, reader })
    }

    /// Sends commands at once and reads all their answers.
    pub fn pipeline(&mut self, commands: &[Vec<String>]) -> Vec<Result<String, String>> {
        let mut out = Vec::new();
        for command in commands {
            out.extend(format!("*{}\r\n", command.len()).bytes());
            for part in command {
                out.extend(format!("${}\r\n{part}\r\n", part.len()).bytes());
            }
        }
        let mut writer = self.reader.get_ref().try_clone().expect("socket");
        let sender = std::thread::spawn(move || writer.write_all(&out));
        let answers = commands.iter().map(|_| self.answer()).collect();
        sender.join().expect("sender").expect("written");
        answers
    }

    pub fn command(&mut self, parts: &[&str]) -> Result<String, String> {
        let command = parts.iter().map(|part| (*part).to_owned()).collect();
        self.pipeline(&[command]).pop().expect("one answer")
    }

    fn answer(&mut self) -> Result<String, String> {
        let mut line = String::new();
        self.reader.read_line(&mut line).expect("line");
        let text = line[1..].trim_end().to_owned();
        match &line[..1] {
            "-" => Err(text),
            "$" if text == "-1" => Ok(String::new()),
            "$" => {
                let mut bytes = vec![0; text.parse::<usize>().expect("length") + 2];
                self.reader.read_exact(&mut bytes).expect("bytes");
                bytes.truncate(bytes.len() - 2);
                Ok(String::from_utf8_lossy(&bytes).into_owned())
            }
            "*" => Ok((0..text.parse::<usize>().expect("count"))
                .map(|_| self.answer().unwrap_or_else(|error| error))
                .collect::<Vec<_>>()
                .join("\n")),
            _ => Ok(text),
        }
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

/// Small numbers with little effort; the same in every run.
pub struct Dice(pub u64);

impl Dice {
    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 16
    }

    pub fn below(&mut self, end: u64) -> u64 {
        self.next() % end.max(1)
    }

    pub fn one_in(&mut self, count: u64) -> bool {
        self.below(count) == 0
    }

    pub fn of<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.below(all.len() as u64) as usize]
    }
}
