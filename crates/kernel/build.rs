//! Compiles the programs for the kernel, and for tests the laws as native functions.

fn main() {
    #[cfg(feature = "kernel")]
    kernel::build();
}

#[cfg(feature = "kernel")]
mod kernel {
    use std::path::{Path, PathBuf};
    use std::process::Command;
    use std::{env, fs};

    const PROGRAMS: &[&str] = &["poseidon", "powertcp", "swift", "theta_powertcp", "stamp"];

    pub(super) fn build() {
        println!("cargo::rerun-if-changed=bpf");
        println!("cargo::rerun-if-env-changed=CLANG");
        println!("cargo::rustc-env=TG_SOURCES={}", digest());
        for program in PROGRAMS {
            compile(program, program, &[]);
        }
        if env::var_os("CARGO_FEATURE_TESTING").is_some() {
            for program in ["step", "fault"] {
                compile(program, program, &[]);
            }
            compile("stamp", "probe", &["-DTG_TESTING"]);
            cc::Build::new().file("bpf/native.c").warnings(true).compile("tidegate_laws");
        }
    }

    /// Digest of the sources (FNV-1a), which differs between versions of the programs.
    fn digest() -> u64 {
        let folder = fs::read_dir("bpf").expect("the sources are there");
        let files = folder.map(|file| file.expect("it is readable").path());
        let is_source = |file: &PathBuf| file.extension().is_some_and(|of| of == "c" || of == "h");
        let mut files: Vec<_> = files.filter(is_source).collect();
        files.push("build.rs".into());
        files.sort();
        let bytes = files.iter().flat_map(|file| fs::read(file).expect("it is readable"));
        bytes.fold(0xcbf2_9ce4_8422_2325, |digest, byte| {
            (digest ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3)
        })
    }

    /// Compiles `bpf/NAME.bpf.c` to the object `to`. `CLANG` names another compiler.
    fn compile(name: &str, to: &str, options: &[&str]) {
        let clang = env::var("CLANG").unwrap_or_else(|_| "clang".to_owned());
        let out = env::var("OUT_DIR").expect("cargo sets OUT_DIR");
        // Headers of libbpf, from the crate that builds it.
        let libbpf = env::var("DEP_BPF_INCLUDE").expect("libbpf-sys names its headers");
        let arch = env::var("CARGO_CFG_TARGET_ARCH").expect("cargo sets the architecture");
        let headers = format!("/usr/include/{arch}-linux-gnu");
        let mut command = Command::new(&clang);
        command.args([
            "-target",
            "bpf",
            "-g",
            "-O2",
            "-mcpu=v3",
            "-Wall",
            "-Werror",
            "-Wno-unused-function",
        ]);
        command.arg(format!("-I{libbpf}"));
        // Distributions with several architectures have the kernel's headers there.
        if Path::new(&headers).exists() {
            command.args(["-idirafter", &headers]);
        }
        command.args(options);
        command.args(["-c", &format!("bpf/{name}.bpf.c"), "-o", &format!("{out}/{to}.bpf.o")]);
        let status = command.status().unwrap_or_else(|error| {
            panic!("{clang} does not start: {error}; install clang, or set CLANG to its path")
        });
        assert!(status.success(), "{clang} cannot compile bpf/{name}.bpf.c: {status}");
    }
}
