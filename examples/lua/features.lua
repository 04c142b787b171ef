-- A little of everything that the language has, for training: strings, tables, closures, methods, coroutines, integers.
local rounds = tonumber(arg[1])

local Counter = {}
Counter.__index = Counter
Counter.__add = function(a, b) return setmetatable({ value = a.value + b.value }, Counter) end
function Counter:step(by) self.value = self.value + by end

local function words(round)
  local text = {}
  for index = 1, 60 do text[index] = ("w%d-%x"):format(index * round % 97, index) end
  return table.concat(text, " ")
end

local sum = 0
for round = 1, rounds do
  local seen, order = {}, {}
  for word in words(round):gmatch("%S+") do
    seen[word] = (seen[word] or 0) + #word
    order[#order + 1] = word:upper():gsub("%-", "_")
  end
  table.sort(order, function(a, b) return a > b end)
  for _, count in pairs(seen) do sum = sum + count end
  local counter = setmetatable({ value = round }, Counter)
  for index = 1, 200 do counter:step(index // 3) end
  sum = sum + (counter + counter).value
  local producer = coroutine.wrap(function()
    for index = 1, 50 do coroutine.yield(index ~ round) end
  end)
  for _ = 1, 50 do sum = sum + producer() end
  local primes = {}
  for candidate = 2, 300 do
    local is_prime = true
    for _, prime in ipairs(primes) do
      if prime * prime > candidate then break end
      if candidate % prime == 0 then is_prime = false break end
    end
    if is_prime then primes[#primes + 1] = candidate end
  end
  sum = sum + #primes
  local ok, why = pcall(error, { code = round })
  sum = sum + (ok and 1 or why.code)
end
print(sum)
