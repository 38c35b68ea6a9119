//! Some linkers need arguments to leave Python's symbols of an extension module undefined.

fn main() {
    pyo3_build_config::add_extension_module_link_args();
}
