// Topics, impact, and the effect of a change.
local p = import 'panels.libsonnet';
{
  local config = $._config,
  local w = config.window,
  local of = 'source=~"$source"',
  local topics(name) = 'hone:topic_%s:rate%s{%s,topic=~"$topic"}' % [name, w, of],
  local smooth(series) = 'avg_over_time(%s[$__rate_interval])' % series,
  local rated(name) = 'hone:%s:rate%s{%s}' % [name, w, of],
  local p99 = 'hone:cluster_produce_latency_seconds:rate%s{%s,quantile="0.99"}' % [w, of],
  local sizes = [
    { color: 'red', value: null },
    { color: 'orange', value: config.smallBatchBytes },
    { color: 'green', value: config.goodBatchBytes },
  ],
  local busy = [{ color: 'green', value: null }, { color: 'red', value: config.busyShard }],
  local compared(title, description, series, unit) = p.timeseries(title, description, [
    p.target('sum(%s)' % series, 'now'),
    p.target('sum(%s offset $compare)' % series, '$compare before'),
  ], unit, [8, 8]),
  // The cluster's mean, weighted by batches.
  local mean(shift) = 'sum(%s%s) / (sum(%s%s) > 0)' % [topics('bytes'), shift, topics('batches'), shift],

  local panels = [
    p.row('Topics'),
    p.table('Topics by batches', 'Effective batches: as written, not as configured.', 'topic', [
      { title: 'bytes per batch', unit: 'bytes', steps: sizes, expr: 'max by (topic) (%s)' % topics('effective_batch_bytes') },
      { title: 'records per batch', unit: 'short', expr: 'max by (topic) (%s)' % topics('records_per_batch') },
      { title: 'batches/s', unit: 'short', expr: 'sum by (topic) (%s)' % topics('batches') },
      { title: 'share of all batches', unit: 'percentunit', expr: 'sum by (topic) (%s) / scalar(sum(hone:topic_batches:rate%s{%s}))' % [topics('batches'), w, of] },
      { title: 'bytes/s', unit: 'Bps', expr: 'sum by (topic) (%s)' % topics('bytes') },
      { title: 'bytes per batch, smallest partition', unit: 'bytes', steps: sizes, expr: 'min by (topic) (%s)' % topics('smallest_partition_batch_bytes') },
    ], [24, 9]),
    p.timeseries('Bytes per batch', 'Below the red line, every batch uses a disk page that it does not fill.', [p.target(smooth(topics('effective_batch_bytes')), '{{topic}}')], 'bytes', [8, 9], sizes),
    p.timeseries('Batches per second', 'The topics that cause the work.', [p.target(smooth(topics('batches')), '{{topic}}')], 'short', [8, 9]),
    p.timeseries('Bytes per batch by broker', 'A broker with smaller batches leads other topics or partitions.', [p.target(smooth(rated('instance_effective_batch_bytes')), '{{instance}}')], 'bytes', [8, 9], sizes),

    p.row('Impact'),
    p.history('CPU by shard', 'Busy share of each core.', [p.target(rated('shard_cpu'), '{{instance}}/{{shard}}')], 'percentunit', [12, 8], busy),
    p.timeseries('Waiting by scheduling group', 'Tasks that wait for the CPU.', [p.target('sum by (group) (hone:group_queue:sum{%s})' % of, '{{group}}')], 'short', [12, 8]),
    p.timeseries('Produce latency', 'As the brokers measure it, from the request to the complete answer. Redpanda: accurate to a histogram bucket. Kafka: its own percentiles, over about five minutes.', [p.target(rated('cluster_produce_latency_seconds'), 'p{{quantile}}')], 's', [12, 8]),
    p.timeseries('Consumer lag', 'Records that each group still has to read.', [p.target('max by (group) (hone:consumer_group_lag:sum{%s})' % of, '{{group}}')], 'short', [12, 8]),
    p.timeseries('Bytes from clients', 'Larger batches compress better and need fewer headers. Kafka counts batches without request headers.', [p.target(smooth(rated('instance_received_bytes')), '{{instance}}')], 'Bps', [8, 7]),
    p.timeseries('Bytes to clients', 'Kafka counts batches without request headers.', [p.target(smooth(rated('instance_sent_bytes')), '{{instance}}')], 'Bps', [8, 7]),
    p.timeseries('Produce time-outs, replication errors', 'Kafka: acknowledgements that timed out. Redpanda: requests to followers that failed or timed out.', [
      p.target(rated('instance_produce_timeouts'), '{{instance}} time-outs'),
      p.target(rated('instance_replication_errors'), '{{instance}} replication errors'),
    ], 'short', [8, 7]),
    p.timeseries('Batches per second and core', 'Includes followers\' batches, but not the controller\'s and other internal logs.', [p.target(smooth(rated('instance_batches_per_core')), '{{instance}}')], 'short', [8, 7]),
    p.timeseries('Fsyncs per batch', 'Write caching saves these.', [p.target(smooth(rated('instance_fsyncs_per_batch')), '{{instance}}')], 'short', [8, 7]),
    p.timeseries('Write amplification', 'Bytes written to disk per byte appended to logs.', [p.target(smooth(rated('instance_write_amplification')), '{{instance}}')], 'short', [8, 7]),
    p.stat('Batches per request', '1 if every request is for one partition.', [p.target(rated('cluster_batches_per_request'), '')], 'short', [8, 4]),
    p.stat('Median batch', 'Accurate to a histogram bucket.', [p.target('hone:cluster_batch_bytes:p50_rate%s{%s}' % [w, of], '')], 'bytes', [8, 4]),
    p.stat('Bytes per request', 'An upper bound of the mean batch size, for sources that do not count batches.', [p.target(rated('cluster_request_bytes'), '')], 'bytes', [8, 4]),

    p.row('Effect of a change'),
    p.timeseries('Bytes per batch, now and before', 'The mean over the selected topics. Annotations with the tag hone appear as marks; you set them when you make a change.', [
      p.target(mean(''), 'now'),
      p.target(mean(' offset $compare'), '$compare before'),
    ], 'bytes', [8, 8]),
    compared('Batches per second, now and before', 'Over the selected topics.', topics('batches'), 'short'),
    compared('CPU, now and before', 'Cores of all shards. Compare only at similar load.', rated('shard_cpu'), 'short'),
    p.timeseries('Produce p99, now and before', 'As the brokers measure it.', [
      p.target('max(%s)' % p99, 'now'),
      p.target('max(%s offset $compare)' % p99, '$compare before'),
    ], 's', [12, 8]),
    p.timeseries('Bytes from clients, now and before', 'Compare only at similar load.', [
      p.target('sum(%s)' % rated('instance_received_bytes'), 'now'),
      p.target('sum(%s offset $compare)' % rated('instance_received_bytes'), '$compare before'),
    ], 'Bps', [12, 8]),
  ],

  local query(name, label, text, more={}) = {
    type: 'query',
    name: name,
    label: label,
    datasource: p.datasource,
    query: { query: text, refId: name },
    definition: text,
    refresh: 2,
    sort: 1,
    includeAll: true,
    multi: true,
    allValue: '.*',
    current: { selected: true, text: ['All'], value: ['$__all'] },
  } + more,

  grafanaDashboards+:: {
    'hone-batches.json': {
      uid: config.dashboardUid,
      title: 'Batches',
      description: 'Effective batches by topic, their cost, and the effect of a change. Needs the recording rules of one source.',
      tags: config.dashboardTags,
      schemaVersion: 39,
      version: 1,
      editable: true,
      timezone: 'browser',
      refresh: '30s',
      time: { from: 'now-6h', to: 'now' },
      graphTooltip: 1,
      annotations: { list: [{
        name: 'Changes',
        datasource: { type: 'grafana', uid: '-- Grafana --' },
        enable: true,
        iconColor: 'purple',
        target: { type: 'tags', tags: ['hone'], matchAny: true, limit: 100 },
      }] },
      templating: { list: [
        { type: 'datasource', name: 'datasource', label: 'Data source', query: 'prometheus', refresh: 1, current: {} },
        query('source', 'Source', 'label_values(hone:topic_bytes:rate%s, source)' % w),
        query('topic', 'Topic', 'label_values(hone:topic_bytes:rate%s{%s}, topic)' % [w, of]),
        {
          type: 'custom',
          name: 'compare',
          label: 'Compare with',
          query: '1h,6h,1d,7d',
          current: { text: '1d', value: '1d' },
          options: [{ text: t, value: t, selected: t == '1d' } for t in ['1h', '6h', '1d', '7d']],
        },
      ] },
      panels: p.laid(panels),
    },
  },
}
