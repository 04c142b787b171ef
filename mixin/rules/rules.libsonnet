// One layer of names over all sources, so that dashboard and alerts know none of them. A series that a source does not export is not
// recorded: it is absent, and not 0.
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
    rules: [{ record: 'hone:' + rule.record, expr: rule.expr, labels: { source: source } } for rule in rules],
  },
  local record(name, expr) = { record: name, expr: expr },

  // Redpanda. `namespace="kafka"` drops the controller's and other internal logs.
  local produced(what) = 'vectorized_cluster_partition_%s{namespace="kafka"}' % what,
  local written(what) = 'vectorized_storage_log_%s{namespace="kafka"}' % what,
  local usersOf(what) = 'vectorized_storage_log_%s{namespace="kafka",topic!~"_.*"}' % what,
  local redpandaBroker = [
    record('instance_batches_per_core:rate' + w, '%s / on (%sinstance) count by (%sinstance) (vectorized_reactor_utilization)' % [by('instance', rate(written('batches_written'))), config.clusterLabels, config.clusterLabels]),
    record('group_queue:sum', by('instance, group', 'vectorized_scheduler_queue_length')),
    record('instance_write_amplification:rate' + w, ratio('instance', 'vectorized_io_queue_total_write_bytes{class="raft"}', 'vectorized_storage_log_written_bytes')),
    record('instance_fsyncs_per_batch:rate' + w, ratio('instance', 'vectorized_reactor_fsyncs', 'vectorized_storage_log_batches_written')),
  ],
  // Of the public endpoint, which is scraped beside the internal one.
  local shardCpu = record('shard_cpu:rate' + w, 'avg by (%sinstance, shard) (%s)' % [config.clusterLabels, rate('redpanda_cpu_busy_seconds_total')]),

  // Coordinators write to internal topics by the way of a producer's, a batch for each commit.
  local kafka(what) = 'kafka_server_brokertopicmetrics_%s_total{topic!="",topic!~"__.*"}' % what,
  local public(what, more) = 'redpanda_kafka_%s{redpanda_namespace="kafka"%s}' % [what, more],
  // The public endpoint calls a topic by another label.
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
      shardCpu,
    ] + redpandaBroker),
    // Every replica counts: sizes are right, rates are too high by the replication factor.
    'redpanda-older': group('redpanda-older', [
      record('topic_effective_batch_bytes:rate' + w, ratio('topic', usersOf('written_bytes'), usersOf('batches_written'))),
      record('topic_batches:rate' + w, by('topic', rate(written('batches_written')))),
      record('topic_bytes:rate' + w, by('topic', rate(written('written_bytes')))),
      shardCpu,
    ] + redpandaBroker),
    // No counter of batches: only a bound on their size.
    'redpanda-public': group('redpanda-public', [
      record('topic_bytes:rate' + w, by('topic', renamed(rate(public('request_bytes_total', ',redpanda_request="produce"'))))),
      record('topic_records:rate' + w, by('topic', renamed(rate(public('records_produced_total', ''))))),
      record('cluster_request_bytes:rate' + w, total(public('request_bytes_total', ',redpanda_request="produce"'), 'redpanda_kafka_request_latency_seconds_count{redpanda_request="produce"}')),
      shardCpu,
    ]),
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
    ]),
  },
}
