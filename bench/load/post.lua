-- Posts bodies from a file, one after the other; at the end tells what it saw as one line of JSON.
local bodies, place = {}, 0
local path, file = os.getenv("QUIPU_LOAD_PATH"), os.getenv("QUIPU_LOAD_BODIES")
local headers = {
  ["Content-Type"] = "application/json",
  ["Authorization"] = "Bearer " .. os.getenv("QUIPU_LOAD_TOKEN"),
}

function init(args)
  for line in io.lines(file) do bodies[#bodies + 1] = line end
  place = math.random(#bodies)
end

function request()
  place = place % #bodies + 1
  return wrk.format("POST", path, headers, bodies[place])
end

function done(summary, latency, requests)
  local e = summary.errors
  io.write(string.format(
    '{"requests": %d, "seconds": %.3f, "failed": %d, "p50_ms": %.3f, "p95_ms": %.3f, "p99_ms": %.3f}\n',
    summary.requests, summary.duration / 1e6, e.connect + e.read + e.write + e.status + e.timeout,
    latency:percentile(50) / 1e3, latency:percentile(95) / 1e3, latency:percentile(99) / 1e3))
end
