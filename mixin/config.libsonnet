// What a user of the mixin may want to set otherwise: `(import 'mixin.libsonnet') + { _config+:: { smallBatchBytes: 16384 } }`.
{
  _config+:: {
    // Rates of the recording rules are over this time, which is part of their names.
    window: '5m',
    // Labels that stand before every other one in `by (...)`, with a comma behind: 'cluster, ' where one Prometheus has several clusters.
    clusterLabels: '',
    // A topic's batches are small below this (the page of a disk) and cost something above that rate.
    smallBatchBytes: 4096,
    goodBatchBytes: 16384,
    highBatchRate: 1000,
    // Before Redpanda 25.1 every replica counts its batches: the rate is divided by this replication factor before it is held against
    // highBatchRate.
    olderReplicas: 3,
    // A core is busy above this share of its time, and busy with batches above that many of them each second.
    busyShard: 0.9,
    highBatchesPerCore: 5000,
    // Batches have shrunk when they are below this part of what they were a day ago.
    shrunkTo: 0.5,
    // Produce requests are slow when their 99th percentile, as the broker measures it, is above this.
    slowProduceSeconds: 0.5,
    // A consumer group is far behind above this many records; told only while it falls further behind.
    farBehindRecords: 10000,
    // How long something must hold, and for how long it is told afterwards.
    pendingFor: '15m',
    keepFiringFor: '15m',
    // Where docs/batch/watch.md is published.
    runbookUrl: 'https://hone.example/docs/batch/watch.md#',
    dashboardUid: 'hone-batches',
    dashboardTags: ['hone', 'kafka', 'redpanda'],
  },
}
