-- Five bodies that attract each other: floating-point numbers in tables. It prints their energy.
local steps = tonumber(arg[1])

local bodies = {
  { x = 0.0, y = 0.0, z = 0.0, vx = 0.0, vy = 0.0, vz = 0.0, mass = 39.5 },
  { x = 4.8, y = -1.2, z = -0.1, vx = 0.6, vy = 2.8, vz = 0.0, mass = 0.038 },
  { x = 8.3, y = 4.1, z = -0.4, vx = -1.0, vy = 1.8, vz = 0.0, mass = 0.011 },
  { x = 12.9, y = -15.1, z = -0.2, vx = 1.1, vy = 0.9, vz = 0.0, mass = 0.0017 },
  { x = 15.4, y = -25.9, z = 0.2, vx = 1.0, vy = 0.6, vz = 0.0, mass = 0.002 },
}

local function advance(step)
  for first = 1, #bodies do
    local a = bodies[first]
    for second = first + 1, #bodies do
      local b = bodies[second]
      local dx, dy, dz = a.x - b.x, a.y - b.y, a.z - b.z
      local square = dx * dx + dy * dy + dz * dz
      local force = step / (square * square ^ 0.5)
      a.vx, a.vy, a.vz = a.vx - dx * b.mass * force, a.vy - dy * b.mass * force, a.vz - dz * b.mass * force
      b.vx, b.vy, b.vz = b.vx + dx * a.mass * force, b.vy + dy * a.mass * force, b.vz + dz * a.mass * force
    end
  end
  for _, body in ipairs(bodies) do
    body.x, body.y, body.z = body.x + step * body.vx, body.y + step * body.vy, body.z + step * body.vz
  end
end

local function energy()
  local sum = 0
  for first, a in ipairs(bodies) do
    sum = sum + 0.5 * a.mass * (a.vx ^ 2 + a.vy ^ 2 + a.vz ^ 2)
    for second = first + 1, #bodies do
      local b = bodies[second]
      sum = sum - a.mass * b.mass / ((a.x - b.x) ^ 2 + (a.y - b.y) ^ 2 + (a.z - b.z) ^ 2) ^ 0.5
    end
  end
  return sum
end

for _ = 1, steps do advance(0.001) end
print(("%.9f"):format(energy()))
