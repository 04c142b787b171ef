// Parts of a dashboard in Grafana's classic model, which every version imports.
local datasource = { type: 'prometheus', uid: '${datasource}' };
{
  datasource: datasource,

  target(expr, legend='', more={}):: { datasource: datasource, expr: expr, legendFormat: legend, refId: 'A' } + more,

  // Letters in the order of the list.
  lettered(targets):: [targets[i] { refId: std.char(65 + i) } for i in std.range(0, std.length(targets) - 1)],

  local panel(type, title, description, targets, unit, size) = {
    type: type,
    title: title,
    description: description,
    datasource: datasource,
    targets: $.lettered(targets),
    gridPos: { w: size[0], h: size[1] },
    // A series without an exporter is not 0.
    fieldConfig: { defaults: { unit: unit, noValue: 'not exported' }, overrides: [] },
  },

  timeseries(title, description, targets, unit, size, steps=[]):: panel('timeseries', title, description, targets, unit, size) {
    fieldConfig+: { defaults+: {
      custom: { drawStyle: 'line', fillOpacity: 5, lineWidth: 1, showPoints: 'never' } +
              (if steps == [] then {} else { thresholdsStyle: { mode: 'line' } }),
      [if steps != [] then 'thresholds']: { mode: 'absolute', steps: steps },
    } },
    options: { legend: { displayMode: 'table', placement: 'bottom', calcs: ['lastNotNull', 'mean'] }, tooltip: { mode: 'multi', sort: 'desc' } },
  },

  history(title, description, targets, unit, size, steps):: panel('status-history', title, description, targets, unit, size) {
    fieldConfig+: { defaults+: { min: 0, max: 1, color: { mode: 'continuous-BlYlRd' }, thresholds: { mode: 'absolute', steps: steps } } },
    options: { showValue: 'never', rowHeight: 0.9, colWidth: 1, legend: { showLegend: false }, tooltip: { mode: 'single' } },
  },

  stat(title, description, targets, unit, size):: panel('stat', title, description, targets, unit, size) {
    options: { reduceOptions: { calcs: ['lastNotNull'], fields: '', values: false }, colorMode: 'none', graphMode: 'area' },
  },

  // One row for each value of the label, one column for each target.
  table(title, description, label, columns, size):: panel('table', title, description, [
    $.target(column.expr, more={ format: 'table', instant: true })
    for column in columns
  ], 'short', size) {
    local named = [{ letter: std.char(65 + i), column: columns[i] } for i in std.range(0, std.length(columns) - 1)],
    transformations: [
      { id: 'joinByField', options: { byField: label, mode: 'outer' } },
      { id: 'organize', options: {
        excludeByName: { Time: true, source: true } + { ['Time %d' % (i + 1)]: true for i in std.range(0, std.length(columns) - 1) } + { ['source %d' % (i + 1)]: true for i in std.range(0, std.length(columns) - 1) },
        renameByName: { ['Value #' + one.letter]: one.column.title for one in named },
      } },
      { id: 'sortBy', options: { sort: [{ field: columns[2].title, desc: true }] } },
    ],
    fieldConfig+: { overrides: [
      { matcher: { id: 'byName', options: one.column.title }, properties: [{ id: 'unit', value: one.column.unit }] + (if std.objectHas(one.column, 'steps') then [{ id: 'thresholds', value: { mode: 'absolute', steps: one.column.steps } }, { id: 'custom.cellOptions', value: { type: 'color-background' } }] else []) }
      for one in named
    ] },
    options: { showHeader: true, cellHeight: 'sm' },
  },

  row(title):: { type: 'row', title: title, collapsed: false, panels: [], gridPos: { w: 24, h: 1 } },

  // Assigns ids and positions, left to right and downwards; a row begins a new line.
  laid(panels)::
    local place(at, panel) =
      local breaks = panel.type == 'row' || at.x + panel.gridPos.w > 24;
      local x = if breaks then 0 else at.x;
      local y = if breaks then at.y + at.h else at.y;
      {
        x: x + panel.gridPos.w,
        y: y,
        h: if breaks then panel.gridPos.h else std.max(at.h, panel.gridPos.h),
        done: at.done + [panel { id: std.length(at.done) + 1, gridPos+: { x: x, y: y } }],
      };
    std.foldl(place, panels, { x: 24, y: 0, h: 0, done: [] }).done,
}
