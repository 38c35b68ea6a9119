//! All tests of results, in one test program.

mod files;
mod summary;
