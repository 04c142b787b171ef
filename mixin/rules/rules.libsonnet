// Common names for all sources, so that dashboard and alerts do not depend on the source. A series that a source does not export is
// absent, not 0.
{
  local config = $._config,
  local w = config.window,
  local by(labels, expr) = 'sum by (%s%s) (%s)' % [config.clusterLabels, labels, expr],
  local rate(selector) = 'rate(%s[%s])' % [selector, w],
  local ratio(labels, part, of) = '%s / (%s > 0)' % [by(labels, rate(part)), by(labels, rate(of))],
  local total(part, of) =
    if config.clusterLabels == '' then 'sum(%s) / (sum(%s) > 0)' % [rate(part), rate(of)]
    else '%s / (%s > 0)' % [by('', rate(part)), by('', rate(of))],

  local group(source, rules) = {
    name: 'hone-batches-' + source,
    rules: [{ record: 'hone:' + rule.record, expr: rule.expr, labels: { source: source } + rule.labels } for rule in rules],
  },
  local record(name, expr, labels={}) = { record: name, expr: expr, labels: labels },

  // From the broker's histogram, in its unit; `scale` converts it to seconds.
  local latency(scale, buckets) = [
    record('cluster_produce_latency_seconds:rate' + w, '%shistogram_quantile(%s, %s)' % [scale, quantile, by('le', rate(buckets))], { quantile: quantile })
    for quantile in ['0.5', '0.85', '0.95', '0.99', '0.99999']
  ],

  // A topic's partition with the smallest batches. Without the label `partition`, which aggregate_metrics removes, there is none.
  local smallest(bytes, batches) =
    record('topic_smallest_partition_batch_bytes:rate' + w, 'min by (%stopic) (%s)' % [config.clusterLabels, ratio('topic, partition', bytes, batches)]),

  // Records that groups still have to read, for each partition with a committed offset; `group`, `topic` and `partition` are the names of the
  // labels.
  local behind(ends, committed, group, topic, partition) =
    'clamp_min(max by (%s%s, %s) (%s) - on (%s%s, %s) group_right () max by (%s%s, %s, %s) (%s), 0)' % [
      config.clusterLabels, topic, partition, ends, config.clusterLabels, topic, partition,
      config.clusterLabels, group, topic, partition, committed,
    ],
  // The label of a group, with the same name for all sources.
  local grouped(op, expr, label) =
    if label == 'group' then '%s by (%sgroup) (%s)' % [op, config.clusterLabels, expr]
    else '%s by (%sgroup) (label_replace(%s, "group", "$1", "%s", "(.+)"))' % [op, config.clusterLabels, expr, label],
  // Redpanda's own lag, which it exports only if enable_consumer_group_metrics names it, or the lag by its offsets.
  local redpandaLag(offsets, label) = [
    record('consumer_group_lag:' + op, '%s or %s' % [grouped('max', 'redpanda_kafka_consumer_group_lag_' + op, 'redpanda_group'), grouped(op, offsets, label)])
    for op in ['sum', 'max']
  ],

  // Redpanda. `namespace="kafka"` drops the controller's and other internal logs.
  local produced(what) = 'vectorized_cluster_partition_%s{namespace="kafka"}' % what,
  local written(what) = 'vectorized_storage_log_%s{namespace="kafka"}' % what,
  local usersOf(what) = 'vectorized_storage_log_%s{namespace="kafka",topic!~"_.*"}' % what,
  local redpandaBroker = latency('1e-6 * ', 'vectorized_kafka_latency_produce_latency_us_bucket') + redpandaLag(
    behind('vectorized_cluster_partition_high_watermark{namespace="kafka"}', 'vectorized_kafka_group_offset', 'group', 'topic', 'partition'), 'group'
  ) + [
    record('instance_received_bytes:rate' + w, by('instance', rate('vectorized_kafka_rpc_received_bytes'))),
    record('instance_sent_bytes:rate' + w, by('instance', rate('vectorized_kafka_rpc_sent_bytes'))),
    record('instance_replication_errors:rate' + w, by('instance', rate('vectorized_raft_replicate_request_errors{namespace="kafka"}'))),
    record('instance_batches_per_core:rate' + w, '%s / on (%sinstance) count by (%sinstance) (vectorized_reactor_utilization)' % [by('instance', rate(written('batches_written'))), config.clusterLabels, config.clusterLabels]),
    record('group_queue:sum', by('instance, group', 'vectorized_scheduler_queue_length')),
    record('instance_write_amplification:rate' + w, ratio('instance', 'vectorized_io_queue_total_write_bytes{class="raft"}', 'vectorized_storage_log_written_bytes')),
    record('instance_fsyncs_per_batch:rate' + w, ratio('instance', 'vectorized_reactor_fsyncs', 'vectorized_storage_log_batches_written')),
  ],
  // From the public endpoint, which Prometheus scrapes in addition to the internal one.
  local shardCpu = record('shard_cpu:rate' + w, 'avg by (%sinstance, shard) (%s)' % [config.clusterLabels, rate('redpanda_cpu_busy_seconds_total')]),

  // Coordinators write to internal topics like producers, a batch for each commit.
  local kafka(what) = 'kafka_server_brokertopicmetrics_%s_total{topic!="",topic!~"__.*"}' % what,
  local kafkaNetwork(what) = 'kafka_server_brokertopicmetrics_%s_total{topic=""}' % what,
  // Kafka's brokers export no lag; kafka-lag-exporter, kafka_exporter and kminion do.
  local exportedLag(op) = std.join(' or ', [
    grouped(op, 'max by (%s%s) (%s)' % [config.clusterLabels, std.join(', ', exporter.labels), exporter.lag], exporter.labels[0])
    for exporter in [
      { lag: 'kafka_consumergroup_group_lag', labels: ['group', 'topic', 'partition'] },
      { lag: 'clamp_min(kafka_consumergroup_lag, 0)', labels: ['consumergroup', 'topic', 'partition'] },
      { lag: 'kminion_kafka_consumer_group_topic_partition_lag', labels: ['group_id', 'topic_name', 'partition_id'] },
    ]
  ]),
  local public(what, more) = 'redpanda_kafka_%s{redpanda_namespace="kafka"%s}' % [what, more],
  // The public endpoint has another label for a topic.
  local renamed(expr) = 'label_replace(%s, "topic", "$1", "redpanda_topic", "(.*)")' % expr,

  recordingRules+:: {
    'redpanda-25.1': group('redpanda-25.1', [
      record('topic_effective_batch_bytes:rate' + w, ratio('topic', produced('bytes_produced_total'), produced('batches_produced'))),
      record('topic_records_per_batch:rate' + w, ratio('topic', produced('records_produced'), produced('batches_produced'))),
      record('topic_batches:rate' + w, by('topic', rate(produced('batches_produced')))),
      record('topic_records:rate' + w, by('topic', rate(produced('records_produced')))),
      record('topic_bytes:rate' + w, by('topic', rate(produced('bytes_produced_total')))),
      record('cluster_batches_per_request:rate' + w, total(produced('batches_produced'), 'vectorized_kafka_handler_requests_completed_total{handler="produce"}')),
      record('cluster_batch_bytes:p50_rate' + w, 'histogram_quantile(0.5, %s)' % by('le', rate('vectorized_kafka_batch_size_bucket'))),
      record('instance_effective_batch_bytes:rate' + w, ratio('instance', produced('bytes_produced_total'), produced('batches_produced'))),
      smallest('vectorized_cluster_partition_bytes_produced_total{namespace="kafka",partition!=""}', 'vectorized_cluster_partition_batches_produced{namespace="kafka",partition!=""}'),
      shardCpu,
    ] + redpandaBroker),
    // Every replica counts: sizes are right, rates are too high by the replication factor.
    'redpanda-older': group('redpanda-older', [
      record('topic_effective_batch_bytes:rate' + w, ratio('topic', usersOf('written_bytes'), usersOf('batches_written'))),
      record('topic_batches:rate' + w, by('topic', rate(written('batches_written')))),
      record('topic_bytes:rate' + w, by('topic', rate(written('written_bytes')))),
      record('instance_effective_batch_bytes:rate' + w, ratio('instance', usersOf('written_bytes'), usersOf('batches_written'))),
      smallest('vectorized_storage_log_written_bytes{namespace="kafka",topic!~"_.*",partition!=""}', 'vectorized_storage_log_batches_written{namespace="kafka",topic!~"_.*",partition!=""}'),
      shardCpu,
    ] + redpandaBroker),
    // No counter of batches: only an upper bound of their size.
    'redpanda-public': group('redpanda-public', [
      record('topic_bytes:rate' + w, by('topic', renamed(rate(public('request_bytes_total', ',redpanda_request="produce"'))))),
      record('topic_records:rate' + w, by('topic', renamed(rate(public('records_produced_total', ''))))),
      record('cluster_request_bytes:rate' + w, total(public('request_bytes_total', ',redpanda_request="produce"'), 'redpanda_kafka_request_latency_seconds_count{redpanda_request="produce"}')),
      record('instance_received_bytes:rate' + w, by('instance', rate('redpanda_rpc_received_bytes{redpanda_server="kafka"}'))),
      record('instance_sent_bytes:rate' + w, by('instance', rate('redpanda_rpc_sent_bytes{redpanda_server="kafka"}'))),
      shardCpu,
    ] + latency('', 'redpanda_kafka_request_latency_seconds_bucket{redpanda_request="produce"}') + redpandaLag(
      behind('redpanda_kafka_max_offset{redpanda_namespace="kafka"}', 'redpanda_kafka_consumer_group_committed_offset', 'redpanda_group', 'redpanda_topic', 'redpanda_partition'), 'redpanda_group'
    )),
    // The names of the JMX exporter's own example rules for Kafka. Kafka marks TotalProduceRequestsPerSec once for each partition of a
    // request, which has one batch there.
    'kafka-jmx': group('kafka-jmx', [
      record('topic_effective_batch_bytes:rate' + w, ratio('topic', kafka('bytesin'), kafka('totalproducerequests'))),
      record('topic_records_per_batch:rate' + w, ratio('topic', kafka('messagesin'), kafka('totalproducerequests'))),
      record('topic_batches:rate' + w, by('topic', rate(kafka('totalproducerequests')))),
      record('topic_records:rate' + w, by('topic', rate(kafka('messagesin')))),
      record('topic_bytes:rate' + w, by('topic', rate(kafka('bytesin')))),
      record('cluster_batches_per_request:rate' + w, total(kafka('totalproducerequests'), 'kafka_network_requestmetrics_requests_total{request="Produce"}')),
      record('group_queue:sum', 'label_replace(%s, "group", "requests", "", "")' % by('instance', 'kafka_network_requestchannel_requestqueuesize')),
      record('instance_fsyncs_per_batch:rate' + w, ratio('instance', 'kafka_log_logflushstats_logflushrateandtimems_count', kafka('totalproducerequests'))),
      record('instance_effective_batch_bytes:rate' + w, ratio('instance', kafka('bytesin'), kafka('totalproducerequests'))),
      // The broker computes its own percentiles, over about the last five minutes: 0.50, 0.75, 0.95, 0.98, 0.99 and 0.999.
      record('cluster_produce_latency_seconds:rate' + w, '1e-3 * max by (%squantile) (kafka_network_requestmetrics_totaltimems{request="Produce"})' % config.clusterLabels),
      record('instance_received_bytes:rate' + w, by('instance', rate(kafkaNetwork('bytesin')))),
      record('instance_sent_bytes:rate' + w, by('instance', rate(kafkaNetwork('bytesout')))),
      // Older versions of Kafka create this counter with the first acknowledgement that times out.
      record('instance_produce_timeouts:rate' + w, by('instance', rate('kafka_server_delayedproducemetrics_expires_total{topic=""}'))),
      record('consumer_group_lag:sum', exportedLag('sum')),
      record('consumer_group_lag:max', exportedLag('max')),
    ]),
  },
}
