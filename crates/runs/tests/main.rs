//! All tests of runs, in one test program.

mod fair_share;
mod forecast;
mod interop;
mod load;
mod replay;
mod run;
mod series;
mod sweep;
mod workload;
