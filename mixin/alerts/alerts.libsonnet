// Conditions on size and rate together: small batches at ten per second do no harm.
{
  local config = $._config,
  local w = config.window,
  local bytes = 'hone:topic_effective_batch_bytes:rate' + w,
  local batches = 'hone:topic_batches:rate' + w,
  // Leaders' batches, if the source counts them separately.
  local rate = '(%s{source!="redpanda-older"} or %s{source="redpanda-older"} / %d)' % [batches, batches, config.olderReplicas],
  local on = '%stopic, source' % config.clusterLabels,
  local alert(name, expr, summary, description) = {
    alert: name,
    expr: expr,
    'for': config.pendingFor,
    keep_firing_for: config.keepFiringFor,
    labels: { severity: 'warning' },
    annotations: {
      summary: summary,
      description: description,
      runbook_url: config.runbookUrl + std.asciiLower(name),
    },
  },

  prometheusAlerts+:: {
    groups: [{
      name: 'hone-batches',
      rules: [
        alert(
          'HoneSmallBatchesAtHighRate',
          '%s < %d and on (%s) %s > %d' % [bytes, config.smallBatchBytes, on, rate, config.highBatchRate],
          'Topic {{ $labels.topic }} has small batches.',
          'Batches of topic {{ $labels.topic }} have {{ $value | humanize }} bytes on average, below %d, at more than %d batches per second. Each batch costs CPU and a disk page, whatever its size.' % [config.smallBatchBytes, config.highBatchRate],
        ),
        alert(
          'HoneBatchesShrank',
          '%s / (%s offset 1d) < %g and on (%s) %s > %d' % [bytes, bytes, config.shrunkTo, on, rate, config.highBatchRate],
          'Batches of topic {{ $labels.topic }} are much smaller than a day ago.',
          'Batches of topic {{ $labels.topic }} have {{ $value | humanizePercentage }} of their size a day ago, at more than %d batches per second. A client, its settings, or the number of producers or partitions has changed.' % config.highBatchRate,
        ),
        // Redpanda and the embedded broker only: Kafka has no CPU by core.
        alert(
          'HoneCoreBusyWithBatches',
          'max by (%sinstance) (hone:shard_cpu:rate%s) > %g and on (%sinstance) hone:instance_batches_per_core:rate%s > %d' % [config.clusterLabels, w, config.busyShard, config.clusterLabels, w, config.highBatchesPerCore],
          'A core of {{ $labels.instance }} is saturated and handles many batches.',
          'A core of {{ $labels.instance }} is busy for {{ $value | humanizePercentage }} of its time, at more than %d batches per second and core. Larger batches would lower both latency and CPU.' % config.highBatchesPerCore,
        ),
        alert(
          'HoneProduceLatencyHigh',
          'hone:cluster_produce_latency_seconds:rate%s{quantile="0.99"} > %g' % [w, config.slowProduceSeconds],
          'Brokers answer Produce requests slowly.',
          'The p99 of Produce requests on the brokers is {{ $value | humanizeDuration }}, above %gs.' % config.slowProduceSeconds,
        ),
        // Kafka only: Redpanda counts failed requests to followers, but no acknowledgements that timed out.
        alert(
          'HoneProduceTimeouts',
          'hone:instance_produce_timeouts:rate%s > 0' % w,
          'Acknowledgements of {{ $labels.instance }} time out.',
          'Produce requests with acks=all to {{ $labels.instance }} time out, {{ $value | printf "%.3g" }} partitions per second: its followers are too slow.',
        ),
        alert(
          'HoneConsumerGroupFallsBehind',
          'hone:consumer_group_lag:sum > %d and deriv(hone:consumer_group_lag:sum[%s]) > 0' % [config.farBehindRecords, config.pendingFor],
          'Consumer group {{ $labels.group }} falls behind.',
          'Consumer group {{ $labels.group }} is {{ $value | humanize }} records behind, more than %d, and falls further behind.' % config.farBehindRecords,
        ),
      ],
    }],
  },
}
