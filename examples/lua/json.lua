-- Writes and reads documents as JSON: texts, tables and recursion. It prints a number that depends on all of them.
local rounds = tonumber(arg[1])

local escapes = { ['"'] = '\\"', ["\\"] = "\\\\", ["\n"] = "\\n", ["\t"] = "\\t" }

local function write(value, out)
  local kind = type(value)
  if kind == "table" and #value > 0 then
    out[#out + 1] = "["
    for index, item in ipairs(value) do
      if index > 1 then out[#out + 1] = "," end
      write(item, out)
    end
    out[#out + 1] = "]"
  elseif kind == "table" then
    local names = {}
    for name in pairs(value) do names[#names + 1] = name end
    table.sort(names)
    out[#out + 1] = "{"
    for index, name in ipairs(names) do
      if index > 1 then out[#out + 1] = "," end
      write(name, out)
      out[#out + 1] = ":"
      write(value[name], out)
    end
    out[#out + 1] = "}"
  elseif kind == "string" then
    out[#out + 1] = '"' .. value:gsub('["\\\n\t]', escapes) .. '"'
  else
    out[#out + 1] = tostring(value)
  end
end

local back = { n = "\n", t = "\t", ['"'] = '"', ["\\"] = "\\" }
local read

local function read_string(text, at)
  local parts = {}
  while true do
    local plain, mark, next_at = text:match('^([^"\\]*)(["\\])()', at)
    parts[#parts + 1] = plain
    if mark == '"' then return table.concat(parts), next_at end
    parts[#parts + 1] = back[text:sub(next_at, next_at)]
    at = next_at + 1
  end
end

function read(text, at)
  local first = text:sub(at, at)
  if first == "{" or first == "[" then
    local result, is_object = {}, first == "{"
    at = at + 1
    while not text:find("^[%]}]", at) do
      local key = #result + 1
      if is_object then
        key, at = read_string(text, at + 1)
        at = at + 1
      end
      result[key], at = read(text, at)
      if text:sub(at, at) == "," then at = at + 1 end
    end
    return result, at + 1
  elseif first == '"' then
    return read_string(text, at + 1)
  end
  local number, after = text:match("^([-%d.e+]+)()", at)
  if number then return tonumber(number), after end
  local word, behind = text:match("^(%a+)()", at)
  return word == "true", behind
end

local sum = 0
for round = 1, rounds do
  local document = { id = round, name = 'order "' .. round .. '"\n', paid = round % 3 == 0, lines = {} }
  for line = 1, 12 do
    document.lines[line] = { sku = ("A-%05d"):format(line * round % 99991), amount = line * 1.25, tags = { "x", "y\tz" } }
  end
  local out = {}
  write(document, out)
  local text = table.concat(out)
  local copy = read(text, 1)
  sum = sum + #text + copy.id + #copy.name + #copy.lines[12].tags[2] + copy.lines[7].amount
end
print(("%.2f"):format(sum))
