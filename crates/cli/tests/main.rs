//! All tests of the program that do not depend on real time, in one test program.

mod common;

mod arrows;
mod bundle;
mod capture;
mod catalog;
mod collectives;
mod columns;
mod compare;
mod cycles;
mod docs;
mod edge;
mod failures;
#[cfg(unix)]
mod first_use;
mod follow;
mod interop;
mod jobs;
#[cfg(all(feature = "kernel", target_os = "linux"))]
mod kernel;
#[cfg(not(all(feature = "kernel", target_os = "linux")))]
mod kernel_feature;
mod memory;
mod metadata;
mod mpi;
mod no_protocol_names;
mod options;
mod paper;
mod pauses;
mod pfc_boundary;
mod programs;
mod report;
mod reproduce;
mod run;
mod seeds;
mod sources;
mod sweep;
mod tutorial;
mod words;
mod workload;
mod wrong;
