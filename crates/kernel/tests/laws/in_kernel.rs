//! The laws in the kernel against the native ones, bit for bit.

use libbpf_rs::{MapCore, MapFlags, MapHandle, Object, ObjectBuilder, ProgramInput};
use tidegate_algos::cc::poseidon::Poseidon;
use tidegate_algos::cc::powertcp::PowerTcp;
use tidegate_algos::cc::swift::Swift;
use tidegate_algos::cc::theta_powertcp::ThetaPowerTcp;
use tidegate_kernel::{STEP_PROGRAM, Step};

use super::flow::{Flow, LOSS, OPEN, RECOVERY};
use super::pair::{Law, Pair};
use super::random::{Event, Events, Odds, Random, SETTINGS, count};
use super::scripts::scripts;

/// The program and its map, or the reason why the kernel refuses it.
fn program() -> Result<(Object, MapHandle), libbpf_rs::Error> {
    let object = ObjectBuilder::default().open_memory(STEP_PROGRAM)?.load()?;
    let steps =
        object.maps().find(|map| map.name() == "steps").map(|map| MapHandle::try_from(&map));
    let steps = steps.expect("it has the map")?;
    Ok((object, steps))
}

/// Runs a step in the kernel and compares each word with the native result.
fn compare((object, steps): &(Object, MapHandle), before: &Step) {
    let key = 0u32.to_ne_bytes();
    steps.update(&key, &before.to_bytes(), MapFlags::ANY).unwrap();
    let program = object.progs_mut().next().expect("it has a program");
    let input = ProgramInput { repeat: 0, ..ProgramInput::default() };
    assert_eq!(program.test_run(input).unwrap().return_value, 0);
    let result = steps.lookup(&key, MapFlags::ANY).unwrap().unwrap();
    let mut native = *before;
    native.run();
    assert!(
        result == native.to_bytes(),
        "{before:?} becomes\n{native:?}, in the kernel {result:?}"
    );
}

fn random_events<L: Law>(program: &(Object, MapHandle)) {
    for (seed, setting) in SETTINGS.into_iter().enumerate() {
        let mut pair = Pair::<L>::new(setting);
        let events = Events::with(setting, 100 + seed as u64, Odds::REAL);
        for event in events.take(count() / SETTINGS.len()) {
            if pair.write(&event) {
                compare(program, &pair.step);
            }
            pair.apply(&event);
        }
    }
    for (setting, events) in scripts() {
        let mut pair = Pair::<L>::new(setting);
        for event in events {
            if pair.write(&event) {
                compare(program, &pair.step);
            }
            pair.apply(&event);
        }
    }
}

/// PowerTCP with acknowledgements that mostly lack records, and recoveries of 50 events.
fn random_flows(program: &(Object, MapHandle)) {
    let odds = Odds::without_records(0.95);
    let (mut switches, mut halvings) = (0, 0);
    for (seed, setting) in SETTINGS.into_iter().enumerate() {
        let mut flow = Flow::new(setting);
        let events = Events::with(setting, 200 + seed as u64, odds);
        let random = &mut Random(seed as u64);
        for (at, event) in events.take(count() / SETTINGS.len()).enumerate() {
            if at % 50 == 0 {
                flow.state = [OPEN, RECOVERY, LOSS][random.below(3) as usize];
            }
            flow.lost = random.below(2);
            let step = flow.write(&event);
            compare(program, step);
            let before = step.state;
            step.run();
            switches += usize::from(step.state[0] != before[0]);
            let counts = matches!(event, Event::Ack { .. }) && step.state[24] != before[24];
            halvings += usize::from(counts);
        }
    }
    println!("{switches} changes of the law, {halvings} further reductions");
    assert!(switches > 100 && halvings > 100, "{switches} {halvings}");
}

#[test]
fn laws_in_the_kernel_equal_native_ones() {
    let program = match program() {
        Ok(program) => program,
        // TIDEGATE_KERNEL=required makes this a failure.
        Err(error) if std::env::var_os("TIDEGATE_KERNEL").is_none() => {
            eprintln!("SKIPPED: the kernel refuses the program of the laws: {error}");
            return;
        }
        Err(error) => panic!("{error}"),
    };
    random_events::<Poseidon>(&program);
    random_events::<Swift>(&program);
    random_events::<PowerTcp>(&program);
    random_events::<ThetaPowerTcp>(&program);
    random_flows(&program);
    let random = &mut Random(9);
    for _ in 0..4_000 {
        let [a, b] = [0; 2].map(|_| random.next() >> random.below(64));
        compare(
            &program,
            &Step { op: random.below(9), a, b, by: random.below(65), ..Step::default() },
        );
    }
}
