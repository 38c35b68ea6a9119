//! All tests of runs, in one test program.

mod exchange;
mod fair_share;
mod forecast;
mod load;
mod replay;
mod run;
mod series;
mod sweep;
mod workload;
