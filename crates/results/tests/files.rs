//! Files read back, and the same rows give the same bytes.

use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::{Field, Row};
use tidegate_core::fabric::Node;
use tidegate_core::{Span, Time};
use tidegate_results::{
    Entity, EntryOf, ExchangeRow, FctSummary, Fixed, FlowFile, FlowRow, FlowSummary, Job, Names,
    Recorder, SeriesEntry, SeriesFile, SeriesRow, StepRow,
};

fn names() -> Names {
    Names {
        hosts: vec!["h0".into(), "h1".into()],
        switches: vec!["s0".into()],
        labels: vec![String::new(), "victim".into()],
        protocols: vec!["alpha".into(), "beta".into()],
    }
}

fn flow(id: u64) -> FlowRow {
    FlowRow {
        id,
        label: (id % 2) as u16,
        stack: 0,
        src: 0,
        dst: 1,
        start: Time::us(10 + id),
        size_bytes: Some(1_000 * (id + 1)),
        delivered_bytes: 1_000 * (id + 1),
        window_bytes: 1_000 * (id + 1),
        lifetime: Some(Span::us(2)),
        completed: Some(Time::us(12 + id)),
        acked: Some(Time::us(13 + id)),
        retransmitted_bytes: 0,
        ideal: Span::us(1),
        fair_share_gbps: None,
        measured: id >= 2,
        exchange: None,
        step: None,
    }
}

fn unfinished(id: u64) -> FlowRow {
    let ideal = Span::ZERO;
    FlowRow { size_bytes: None, completed: None, acked: None, ideal, measured: false, ..flow(id) }
}

fn write(rows: &[FlowRow]) -> Vec<u8> {
    let mut file = FlowFile::new(Vec::new(), &names()).unwrap();
    rows.iter().for_each(|row| file.add(row).unwrap());
    file.close().unwrap()
}

fn rows(bytes: Vec<u8>) -> Vec<Row> {
    let reader = SerializedFileReader::new(bytes::Bytes::from(bytes)).unwrap();
    reader.get_row_iter(None).unwrap().map(Result::unwrap).collect()
}

fn cell(row: &Row, name: &str) -> Field {
    row.get_column_iter().find(|(column, _)| *column == name).unwrap().1.clone()
}

#[test]
fn flows_read_back() {
    let rows = rows(write(&[flow(3), unfinished(4)]));
    assert_eq!(rows.len(), 2);
    assert_eq!(cell(&rows[0], "id"), Field::Long(3));
    assert_eq!(cell(&rows[0], "label"), Field::Str("victim".into()));
    assert_eq!(cell(&rows[0], "dst"), Field::Str("h1".into()));
    assert_eq!(cell(&rows[0], "start_us"), Field::Double(13.0));
    assert_eq!(cell(&rows[0], "fct_us"), Field::Double(2.0));
    assert_eq!(cell(&rows[0], "acked_us"), Field::Double(3.0));
    assert_eq!(cell(&rows[0], "slowdown"), Field::Double(2.0));
    assert_eq!(cell(&rows[0], "goodput_gbps"), Field::Double(16.0));
    for undefined in ["size_bytes", "fct_us", "acked_us", "slowdown", "ideal_us"] {
        assert_eq!(cell(&rows[1], undefined), Field::Null, "{undefined}");
    }
}

#[test]
fn exchange_spans_request_and_reply() {
    let part = |id, requested, is_reply| {
        let exchange = Some(ExchangeRow { requested: Time::us(requested), label: 1, is_reply });
        FlowRow { exchange, label: u16::from(!is_reply), measured: true, ..flow(id) }
    };
    // The first request precedes the end of warm-up at 12 us; the last has no reply.
    let written = [
        part(4, 11, false),
        part(5, 11, true),
        part(6, 12, false),
        part(7, 12, true),
        part(8, 18, false),
        unfinished(9),
    ];
    let mut recorder = Recorder::new(names(), Time::us(12), Time::us(100));
    written.iter().for_each(|row| recorder.add(row));
    let exchanges = recorder.finish().exchanges;
    assert_eq!(exchanges.keys().collect::<Vec<_>>(), ["all", &names().labels[1]]);
    let all = &exchanges["all"];
    assert_eq!((all.count, all.unfinished), (2, 1));
    // From 12 us to 12 + 7 us.
    assert_eq!(all.mean_us.map(|us| us.as_f64()), Some(7.0));
    assert_eq!(exchanges[&names().labels[1]], *all);
    let rows = rows(write(&written));
    assert_eq!(cell(&rows[3], "exchange_us"), Field::Double(7.0));
    assert_eq!(cell(&rows[2], "exchange_us"), Field::Null);
    let mut none = Recorder::new(names(), Time::us(12), Time::us(100));
    none.add(&flow(3));
    assert!(none.finish().exchanges.is_empty());
}

#[test]
fn flows_read_back_as_in_the_summary() {
    let mut recorder = Recorder::new(names(), Time::us(12), Time::us(100));
    let written = [flow(1), flow(2), unfinished(3)];
    written.iter().for_each(|row| recorder.add(row));
    let read = |row| FlowSummary::read(row, 12.0).unwrap();
    let read: Vec<_> = rows(write(&written)).iter().map(read).collect();
    assert_eq!(Some(read), recorder.finish().flows);
    assert_eq!(FlowSummary::read(&rows(samples())[0], 12.0), None);
}

#[test]
fn row_groups_are_reproducible() {
    let many: Vec<_> =
        (0..70_000).map(|id| if id % 7 == 0 { unfinished(id) } else { flow(id) }).collect();
    let bytes = write(&many);
    assert_eq!(bytes, write(&many));
    let reader = SerializedFileReader::new(bytes::Bytes::from(bytes.clone())).unwrap();
    assert_eq!(reader.metadata().num_row_groups(), 2);
    assert_eq!(reader.metadata().file_metadata().created_by(), Some("tidegate"));
    let ids: Vec<_> = rows(bytes).iter().map(|row| cell(row, "id")).collect();
    assert!(ids.iter().enumerate().all(|(i, id)| *id == Field::Long(i as i64)));
}

fn samples() -> Vec<u8> {
    let mut file = SeriesFile::new(Vec::new(), &names()).unwrap();
    let at = Time::us(5);
    let link = Entity::Link(Node::Switch(0), Node::Host(1));
    file.add(&SeriesRow { at, entity: Entity::Flow(7), quantity: "window_bytes", value: 1.5 })
        .unwrap();
    file.add(&SeriesRow { at, entity: link, quantity: "queue_bytes", value: 2.0 }).unwrap();
    file.add(&SeriesRow { at, entity: link, quantity: "queue_bytes", value: f64::INFINITY })
        .unwrap();
    file.close().unwrap()
}

#[test]
fn samples_read_back() {
    let rows = rows(samples());
    assert_eq!(cell(&rows[0], "flow"), Field::Long(7));
    assert_eq!(cell(&rows[0], "from"), Field::Null);
    assert_eq!(cell(&rows[0], "quantity"), Field::Str("window_bytes".into()));
    assert_eq!(cell(&rows[1], "from"), Field::Str("s0".into()));
    assert_eq!(cell(&rows[1], "to"), Field::Str("h1".into()));
    assert_eq!(cell(&rows[1], "value"), Field::Double(2.0));
    assert_eq!(cell(&rows[2], "value"), Field::Null);
    let entries: Vec<_> = rows.iter().map(|row| SeriesEntry::read(row).unwrap()).collect();
    assert_eq!((entries[0].time_us, entries[0].quantity.as_str()), (5.0, "window_bytes"));
    assert_eq!((&entries[0].of, entries[0].value), (&EntryOf::Flow(7), Some(1.5)));
    assert_eq!(entries[1].of, EntryOf::Link("s0".into(), "h1".into()));
    assert_eq!(entries[2].value, None);
}

#[test]
fn recorder_counts_unfinished_messages() {
    let mut recorder = Recorder::new(names(), Time::us(12), Time::us(100));
    (0..10).for_each(|id| recorder.add(&flow(id)));
    recorder.add(&FlowRow { completed: None, acked: None, ..flow(11) });
    recorder.add(&unfinished(12)); // unlimited: no message
    let recorded = recorder.finish();
    assert_eq!(recorded.fct.keys().collect::<Vec<_>>(), ["all", "victim"]);
    let all = &recorded.fct["all"];
    assert_eq!((all.count, all.unfinished), (9, 1));
    assert_eq!(all.p50_us.unwrap().to_string(), "2.000000");
    assert_eq!(all.slowdown.p999.unwrap().to_string(), "2.000000");
    let sizes: Vec<_> =
        all.by_size.iter().map(|row| (row.min_bytes, row.below_bytes, row.fct.count)).collect();
    assert_eq!(sizes, [(1_000, Some(10_000), 7), (10_000, Some(100_000), 2)]);
    assert_eq!(recorded.groups.len(), 2);
    assert_eq!(recorded.groups[0].flows, 6);
    assert_eq!(recorded.groups[0].goodput_gbps.min, Some(4.0));
    assert_eq!(recorded.flows.unwrap().len(), 12);
}

/// Four messages took 1 to 4 times the ideal; two others took longer than twice.
#[test]
fn percentiles_include_unfinished_messages() {
    let ideal = Span::us(2);
    let at = |id: u64, start: u64, completed: Option<u64>| FlowRow {
        start: Time::us(start),
        completed: completed.map(Time::us),
        ideal,
        measured: true,
        ..flow(id)
    };
    let rows = [(10, 12), (10, 14), (10, 16), (10, 18)].map(|(start, end)| (start, Some(end)));
    let cut = [(96, None), (96, None)];
    let fct = |over: Option<u64>| {
        let mut recorder = Recorder::new(names(), Time::ZERO, Time::us(90));
        over.into_iter().for_each(|us| recorder.over(Time::us(us)));
        let rows = (0..).zip(rows.into_iter().chain(cut));
        rows.for_each(|(id, (start, completed))| recorder.add(&at(id, start, completed)));
        recorder.finish().fct.remove("all").unwrap()
    };
    let us = |us| Some(Fixed::micros(Span::us(us)));
    let known = fct(Some(100));
    assert_eq!((known.count, known.unfinished, known.reach), (6, 2, Some(1.0)));
    // Each of the two took longer than 4 us: its weight is half of one of 6 us and half of one of 8
    // us.
    assert_eq!((known.p50_us, known.p99_us), (us(6), us(8)));
    assert_eq!((known.slowdown.p50, known.slowdown.reach), (us(3), Some(1.0)));
    assert_eq!(known.mean_us, us(5), "the mean of finished messages");
    assert!(!known.is_lower_bound(1) && !known.is_slowdown_lower_bound(1));
    // The finished messages alone.
    assert_eq!(fct(None).p50_us, us(4), "messages that just began add no information");
    let long = fct(Some(200));
    assert_eq!((long.p50_us, long.p99_us, long.slowdown.p99), (us(6), us(8), us(4)));
    assert!((long.reach.unwrap() - 4.0 / 6.0).abs() < 1e-12);
    assert!(
        long.is_lower_bound(10) && !long.is_lower_bound(500) && long.is_slowdown_lower_bound(10)
    );
    // Older results lack `reach`.
    let old = FctSummary { reach: None, ..long };
    assert!(old.is_lower_bound(10) && !old.is_lower_bound(500));
}

#[test]
fn many_flows_leave_the_summary() {
    let mut recorder = Recorder::new(names(), Time::ZERO, Time::us(100));
    (0..1_001).for_each(|id| recorder.add(&FlowRow { measured: true, ..flow(id) }));
    let recorded = recorder.finish();
    assert!(recorded.flows.is_none());
    assert_eq!(recorded.fct["all"].count, 1_001);
}

#[test]
fn jain_index_measures_equality() {
    let index = |rates: &[u64]| {
        let mut recorder = Recorder::new(names(), Time::ZERO, Time::us(100));
        for (id, &rate) in rates.iter().enumerate() {
            recorder.add(&FlowRow { label: 0, window_bytes: rate, ..flow(id as u64) });
        }
        recorder.finish().groups[0].goodput_gbps.jain
    };
    assert_eq!(index(&[5, 5, 5, 5]), Some(1.0));
    assert_eq!(index(&[5, 0, 0, 0]), Some(0.25));
    assert_eq!(index(&[0, 0]), None);
}

/// Two iterations of three messages; one message of the second is unfinished.
#[test]
fn iteration_spans_first_message_to_last_byte() {
    let job = Job {
        label: 1,
        stack: 0,
        op: "all-gather",
        ranks: 3,
        size_bytes: 3_000,
        is_file: false,
        iterations: 2,
        messages: 3,
        bus_factor: Some(2.0 / 3.0),
        start: Time::us(9),
    };
    let summary = |rows: &[(u32, u64, Option<u64>)], warmup| {
        let mut recorder = Recorder::new(names(), warmup, Time::us(100)).with_jobs(vec![job]);
        for (id, &(iteration, start, completed)) in (0..).zip(rows) {
            let step = Some(StepRow { job: 0, iteration });
            let (start, completed) = (Time::us(start), completed.map(Time::us));
            recorder.add(&FlowRow { start, completed, step, ..flow(id) });
        }
        recorder.finish().jobs.remove(0)
    };
    let first = [(0, 11, Some(15)), (0, 10, Some(14)), (0, 12, Some(18))];
    let second = [(1, 14, Some(20)), (1, 15, Some(22)), (1, 18, None)];
    let us = |us| Some(Fixed::micros(Span::us(us)));

    let cut = summary(&[first, second].concat(), Time::ZERO);
    assert_eq!((cut.label.as_str(), cut.protocol.as_str()), ("victim", "alpha"));
    assert_eq!((cut.iterations, cut.finished, cut.measured), (2, 1, 1));
    assert_eq!((cut.completion_us, cut.iteration_us.mean), (None, us(8)));
    // 3,000 B in 8 us.
    assert!((cut.algbw_gbps.unwrap() - 3.0).abs() < 1e-9);
    assert!((cut.busbw_gbps.unwrap() - 2.0).abs() < 1e-9);

    let whole = [first, [second[0], second[1], (1, 18, Some(24))]].concat();
    let done = summary(&whole, Time::ZERO);
    assert_eq!((done.finished, done.completion_us), (2, us(15)));
    let times = &done.iteration_us;
    assert_eq!((times.mean, times.p50, times.p99, times.max), (us(9), us(8), us(10), us(10)));

    // The first began before warm-up.
    let late = summary(&whole, Time::us(12));
    assert_eq!((late.finished, late.measured, late.completion_us), (2, 1, us(15)));
    assert_eq!((late.iteration_us.mean, late.iteration_us.max), (us(10), us(10)));
    let none = summary(&[], Time::ZERO);
    assert_eq!((none.finished, none.iteration_us.max, none.algbw_gbps), (0, None, None));
}
