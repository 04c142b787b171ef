// On size and rate together: small batches of a topic that writes ten of them a second hurt nobody.
{
  local config = $._config,
  local w = config.window,
  local bytes = 'hone:topic_effective_batch_bytes:rate' + w,
  local batches = 'hone:topic_batches:rate' + w,
  // Leaders' batches, as far as they are told.
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
          'Topic {{ $labels.topic }} is written in small batches.',
          'Batches of topic {{ $labels.topic }} have {{ $value | humanize }} bytes in the mean, below %d, at more than %d of them each second: each costs CPU and a page of the disk whatever its size.' % [config.smallBatchBytes, config.highBatchRate],
        ),
        alert(
          'HoneBatchesShrank',
          '%s / (%s offset 1d) < %g and on (%s) %s > %d' % [bytes, bytes, config.shrunkTo, on, rate, config.highBatchRate],
          'Batches of topic {{ $labels.topic }} are much smaller than a day ago.',
          'Batches of topic {{ $labels.topic }} have {{ $value | humanizePercentage }} of the size that they had a day ago, at more than %d of them each second: a client, its settings, or the number of producers or partitions changed.' % config.highBatchRate,
        ),
        // Of Redpanda and the embedded broker: Kafka has no CPU by core.
        alert(
          'HoneCoreBusyWithBatches',
          'max by (%sinstance) (hone:shard_cpu:rate%s) > %g and on (%sinstance) hone:instance_batches_per_core:rate%s > %d' % [config.clusterLabels, w, config.busyShard, config.clusterLabels, w, config.highBatchesPerCore],
          'A core of {{ $labels.instance }} is full, and works off many batches.',
          'A core of {{ $labels.instance }} is busy for {{ $value | humanizePercentage }} of its time, at more than %d batches each second for each core: larger batches would lower latency and CPU alike.' % config.highBatchesPerCore,
        ),
        alert(
          'HoneProduceLatencyHigh',
          'hone:cluster_produce_latency_seconds:rate%s{quantile="0.99"} > %g' % [w, config.slowProduceSeconds],
          'Brokers take long to answer Produce requests.',
          'One in a hundred Produce requests takes the brokers {{ $value | humanizeDuration }} or longer, above %gs.' % config.slowProduceSeconds,
        ),
        // Of Kafka: Redpanda counts failed requests to followers, and no acknowledgements that timed out.
        alert(
          'HoneProduceTimeouts',
          'hone:instance_produce_timeouts:rate%s > 0' % w,
          'Acknowledgements of {{ $labels.instance }} time out.',
          'Produce requests with acks=all to {{ $labels.instance }} time out, {{ $value | printf "%.3g" }} partitions each second: its followers do not keep up.',
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
