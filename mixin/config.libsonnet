// Settings that a user of the mixin may want to change: `(import 'mixin.libsonnet') + { _config+:: { smallBatchBytes: 16384 } }`.
{
  _config+:: {
    // The window of the recording rules' rates, which is part of their names.
    window: '5m',
    // Labels before every other one in `by (...)`, followed by a comma: 'cluster, ' if one Prometheus has several clusters.
    clusterLabels: '',
    // A topic's batches are small below this size (a disk page), and expensive above the rate.
    smallBatchBytes: 4096,
    goodBatchBytes: 16384,
    highBatchRate: 1000,
    // Before Redpanda 25.1 every replica counts its batches: the alert divides the rate by this replication factor before it compares it with
    // highBatchRate.
    olderReplicas: 3,
    // A core is busy above this share of its time, and busy with batches above this number per second.
    busyShard: 0.9,
    highBatchesPerCore: 5000,
    // Batches have shrunk if they are below this share of their size a day ago.
    shrunkTo: 0.5,
    // Produce requests are slow if their 99th percentile, as the broker measures it, is above this.
    slowProduceSeconds: 0.5,
    // A consumer group is far behind above this number of records; the alert fires only while it falls further behind.
    farBehindRecords: 10000,
    // How long a condition must hold, and how long the alert keeps firing afterwards.
    pendingFor: '15m',
    keepFiringFor: '15m',
    // The published address of docs/batch/watch.md.
    runbookUrl: 'https://hone.example/docs/batch/watch.md#',
    dashboardUid: 'hone-batches',
    dashboardTags: ['hone', 'kafka', 'redpanda'],
  },
}
