// All rendered files by their paths, as text: `jsonnet -S -m rendered render.jsonnet`.
local mixin = import 'mixin.libsonnet';
local head = '# Rendered from mixin/ by script/mixin. Change mixin/ instead of this file.\n';
local yaml(value) = head + std.manifestYamlDoc(value, indent_array_in_object=true, quote_keys=false) + '\n';
{
  ['rules/' + source + '.yaml']: yaml({ groups: [mixin.recordingRules[source]] })
  for source in std.objectFields(mixin.recordingRules)
} + {
  'alerts/hone-batches.yaml': yaml(mixin.prometheusAlerts),
} + {
  ['dashboards/' + name]: std.manifestJsonEx(mixin.grafanaDashboards[name], '  ') + '\n'
  for name in std.objectFields(mixin.grafanaDashboards)
}
