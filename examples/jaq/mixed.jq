# A little of everything, for training.
def sum(f): reduce f as $x (0; . + $x);
[
  sum(range($n) | [., . * 2, "k\(.)"] | tojson | fromjson | .[1]),
  sum(range($n) | {a: ., b: {c: [., .]}} | [paths] | length),
  ([range($n) | {key: "k\(. % 50)", value: .}] | from_entries | to_entries | map(.value) | add),
  ([range($n) | tostring | select(test("7$"))] | length),
  ([range($n) | (. * 7919) % 1000] | sort | unique | length),
  ([limit($n; repeat("a,b;c")) | split(",") | join("-")] | map(length) | add),
  sum(range($n) | if . % 3 == 0 then 1 elif . % 5 == 0 then 2 else (try error("x") catch 3) end),
  ([range($n) | . as $i | [$i, -$i] | min] | max)
]
