//! The program `tidegate`.

use std::process::ExitCode;

fn main() -> ExitCode {
    ExitCode::from(tidegate_cli::main(std::env::args_os()))
}
