-- A reader's side: the same GET over and over, prepared before the clock starts.
--
--   wrk ... -s get.lua URL -- [ETAG]

local prepared

function init(args)
  if args[1] and args[1] ~= "" then wrk.headers["If-None-Match"] = args[1] end
  prepared = wrk.format("GET")
end

function request()
  return prepared
end

function done(summary, latency, _)
  local e = summary.errors
  io.write(string.format(
    '\nbench: {"requests":%d,"duration_us":%d,"not_2xx_3xx":%d,"socket_errors":%d,"p50_us":%d,"p99_us":%d}\n',
    summary.requests, summary.duration, e.status, e.connect + e.read + e.write + e.timeout,
    latency:percentile(50), latency:percentile(99)))
end
