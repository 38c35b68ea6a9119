//! Builds the site: `cargo run --manifest-path book/Cargo.toml [DIR]`; the default folder is
//! `target/book`.

use std::path::Path;
use std::process::ExitCode;

fn main() -> ExitCode {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let out = std::env::args_os().nth(1).map_or_else(|| root.join("target/book"), Into::into);
    match tidegate_book::build(&root, &out) {
        Ok(()) => {
            println!("{}", out.join("index.html").display());
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("tidegate-book: {error}");
            ExitCode::FAILURE
        }
    }
}
