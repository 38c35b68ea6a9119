//! An extension module leaves Python's symbols open, which some linkers have to be told.

fn main() {
    pyo3_build_config::add_extension_module_link_args();
}
