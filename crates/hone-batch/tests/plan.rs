//! A flow that grows, out of planted arrivals: of independent arrivals at rate r and a linger L a batch has 1 + rL records, so twice the flow
//! of the same producer makes 2r / (1 + 2rL) batches a second.

use hone_batch::plan::{Known, PlanSettings, plan};
use hone_batch::whatif::calibrate::Told;
use hone_batch::whatif::client::{Client, Rules};
use hone_batch::whatif::predict::{Case, Change, what_if};
use hone_batch::whatif::shrink::Shrink;
use hone_batch::whatif::simulate::{Brokers, Placing, Plan, replay};
use hone_batch::whatif::stream::{Gathered, Gatherer, Limits, NO_KEY, Stream};
use hone_kafka::batch::{batches, set_producer};
use hone_kafka::{BatchBuilder, Codec};
use hone_record::WhatIf;

const BEGIN_MS: i64 = 1_700_000_000_000;
const SECONDS: f64 = 120.0;
const VALUE: &[u8] = b"a value of some forty bytes, all the same";

/// Independent arrivals at a rate, in microseconds.
fn poisson(rate: f64, seed: u64) -> Vec<u64> {
    let (mut state, mut at_s, mut arrivals) = (seed, 0.0, Vec::new());
    loop {
        // An LCG with the constants of MMIX; its high bits are random enough.
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let unit = (state >> 11) as f64 / (1_u64 << 53) as f64;
        at_s -= (1.0 - unit).ln() / rate;
        if at_s >= SECONDS {
            return arrivals;
        }
        arrivals.push((at_s * 1e6) as u64);
    }
}

/// What a producer would have written of them to one partition.
fn written(arrivals: &[u64], rules: &Rules) -> Gathered {
    let mut stream = Stream::default();
    arrivals.iter().for_each(|at_us| stream.push(*at_us, 0, 5 + VALUE.len() as u32, NO_KEY));
    let plan = Plan {
        rules,
        brokers: &Brokers::one(),
        shrink: &Shrink::none(),
        placing: Placing::AsToday,
        window_us: 1,
        blocks: 1,
        keeps_batches: true,
    };
    let mut gatherer = Gatherer::new(Limits::default(), Some(1));
    let mut first = 0;
    for made in replay(&stream, &plan).made {
        let behind = first + made.records as usize;
        let mut builder = BatchBuilder::new(Codec::None);
        arrivals[first..behind]
            .iter()
            .for_each(|at_us| builder.push(None, Some(VALUE), BEGIN_MS + (at_us / 1_000) as i64));
        let mut bytes = builder.build().unwrap();
        set_producer(&mut bytes, 7, 0, first as i32).unwrap();
        batches(&bytes).map(Result::unwrap).for_each(|batch| gatherer.add(0, &batch));
        first = behind;
    }
    gatherer.finish().unwrap()
}

fn grown(rate: f64, linger_us: u64, grow: f64) -> WhatIf {
    let rules = Client::Java4.defaults().with_linger_us(linger_us);
    let gathered = written(&poisson(rate, 11), &rules);
    let case = Case {
        gathered: &gathered,
        told: Told::default(),
        leads: Some(vec![0]),
        partitions: 1,
        seed: 7,
        tolerable_us: 100_000,
    };
    let found = what_if(&case, &Change { denser: Some(grow), ..Change::default() }, &|| true).unwrap();
    assert_eq!(found.refused, None, "{:?}", found.producers);
    assert!(
        found.advice.is_none() && found.cheapest.is_empty(),
        "nothing is advised for a flow that is not there"
    );
    found
}

#[test]
fn batches_of_a_larger_flow_are_those_of_the_arithmetic() {
    for (rate, linger_s, grow) in
        [(400.0, 0.02, 2.0), (400.0, 0.05, 2.0), (100.0, 0.01, 3.0), (300.0, 0.02, 1.5)]
    {
        let found = grown(rate, (linger_s * 1e6) as u64, grow);
        let expected = |rate: f64| rate / (1.0 + rate * linger_s);
        let then = found.predicted.as_ref().unwrap().batches_per_s;
        for (told, wanted) in
            [(found.today.batches_per_s, expected(rate)), (then.value, expected(grow * rate))]
        {
            assert!((told / wanted - 1.0).abs() < 0.03, "{rate}/s, {linger_s} s: {told} for {wanted}");
        }
        assert!(
            then.low <= then.value && then.value <= then.high && then.high < grow * found.today.batches_per_s
        );
        // A plan says the same of the cluster.
        let asked = PlanSettings {
            target: String::new(),
            grow,
            new_producers: false,
            max_cpu: 0.7,
            cores: None,
            network: None,
            disk: None,
            fan_out: None,
            replicas: 1.0,
            brokers: 1.0,
        };
        let plan = plan(&asked, &Known { topics: std::slice::from_ref(&found), model: None, watch: None });
        let batches = &plan.work[1];
        let wanted = expected(grow * rate);
        assert!((batches.then.value / wanted - 1.0).abs() < 0.03, "{:?} for {wanted}", batches);
        let factor = plan.topics[0].batches_new_producers / plan.topics[0].batches_now;
        assert!((factor - grow).abs() < 1e-9, "{factor}");
    }
}

#[test]
fn a_flow_that_fills_its_batches_gains_nothing() {
    // A batch holds about 40 records of 49 bytes, far less than come in 200 ms.
    let rules = Client::Java4.defaults().with_linger_us(200_000).with_batch_bytes(2_000);
    let gathered = written(&poisson(2_000.0, 5), &rules);
    let case = Case {
        gathered: &gathered,
        told: Told { batch_bytes: Some(2_000), linger_us: Some(200_000), ..Told::default() },
        leads: Some(vec![0]),
        partitions: 1,
        seed: 7,
        tolerable_us: 100_000,
    };
    let found = what_if(&case, &Change { denser: Some(2.0), ..Change::default() }, &|| true).unwrap();
    assert_eq!(found.refused, None, "{:?}", found.producers);
    let replayed = found.replayed.as_ref().unwrap().batches_per_s;
    let times = found.predicted.as_ref().unwrap().batches_per_s.value / replayed;
    assert!((times - 2.0).abs() < 0.02, "{times} {found:#?}");
}
