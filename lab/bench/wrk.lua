-- The client's side of an order, the same for every server that is measured:
--
--   wrk ... -s wrk.lua URL -- FILE FROM COUNT THREADS
--
-- FILE has a token and a key on each line; all lines have one length. COUNT requests,
-- from line FROM + 1 on, are put together before the clock starts, so that a request costs
-- the client one table look-up. Each thread has its own share; at its end it starts again.

local next_thread = 0

function setup(thread)
  thread:set("place", next_thread)
  next_thread = next_thread + 1
end

local requests, n, i = {}, 0, 0

function init(args)
  local from, count, threads = tonumber(args[2]), tonumber(args[3]), tonumber(args[4])
  local body = '{"quantity":1}'
  local head = "POST " .. wrk.path .. " HTTP/1.1\r\nHost: " .. wrk.headers["Host"]
    .. "\r\nContent-Type: application/json\r\nContent-Length: " .. #body .. "\r\nAuthorization: Bearer "
  local middle = "\r\nIdempotency-Key: "
  local tail = "\r\n\r\n" .. body
  local file = assert(io.open(args[1]))
  file:seek("set", from * (#file:read() + 1))
  for line_number = 1, count do
    local line = file:read()
    if not line then break end
    if line_number % threads == place then
      local space = line:find(" ", 1, true)
      n = n + 1
      requests[n] = head .. line:sub(1, space - 1) .. middle .. line:sub(space + 1) .. tail
    end
  end
  file:close()
  collectgarbage()
  collectgarbage("stop") -- nothing is allocated from here on
end

function request()
  i = i + 1
  if i > n then i = 1 end
  return requests[i]
end

function done(summary, latency, _)
  local e = summary.errors
  io.write(string.format(
    '\nbench: {"requests":%d,"duration_us":%d,"not_2xx_3xx":%d,"socket_errors":%d,"p50_us":%d,"p99_us":%d}\n',
    summary.requests, summary.duration, e.status, e.connect + e.read + e.write + e.timeout,
    latency:percentile(50), latency:percentile(99)))
end
