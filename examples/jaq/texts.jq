# Lines of a log are taken apart by regular expressions and put together again.
[
  range($n)
  | "2026-01-\(. % 28 + 1) \(if . % 9 == 0 then "ERROR" else "info" end) worker-\(. % 31): took \(. * 37 % 1009) ms"
  | capture("^(?<day>\\S+) (?<level>\\w+) worker-(?<worker>\\d+): took (?<ms>\\d+) ms$")
  | .ms |= tonumber
  | .level |= ascii_downcase
  | "\(.day | gsub("-"; "/"))|\(.level)|\(.ms)" as $line
  | {level, size: ($line | length), ms, words: ($line | split("|") | map(ascii_upcase) | join(" ") | ltrimstr("2026/"))}
]
| group_by(.level)
| map([.[0].level, length, (map(.ms) | add), (map(.size) | add), (map(.words | length) | add)])
