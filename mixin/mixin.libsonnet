// Batches of a Kafka-API cluster: recording rules for each kind of source, alerts and a dashboard over them.
(import 'config.libsonnet')
+ (import 'rules/rules.libsonnet')
+ (import 'alerts/alerts.libsonnet')
+ (import 'dashboards/dashboards.libsonnet')
