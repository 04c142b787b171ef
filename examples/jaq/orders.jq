# Documents are written, read, changed and grouped.
[
  range($n)
  | {id: ., customer: "c\(. % 300)", paid: (. % 3 == 0), lines: [range(1 + . % 5) as $l | {sku: "A-\($l)", amount: (($l + .) % 17 * 1.25)}]}
  | tojson
]
| map(fromjson | .total = (.lines | map(.amount) | add) | select(.total > 5) | del(.lines))
| group_by(.customer)
| map({customer: .[0].customer, orders: length, total: (map(.total) | add), open: (map(select(.paid | not)) | length)})
| sort_by(-.total, .customer)
| [.[0].customer, length, (map(.total) | add), (map(.open) | add)]
