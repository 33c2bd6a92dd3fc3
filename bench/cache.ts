/**
 * Latency of answers from the response cache beside answers of the provider, one connection: `node bench/cache.ts`. Each
 * round sends the same requests; the first one fills the cache.
 */
import { parseArgs } from 'node:util'
import { inTurn, workloadOf } from './conduct.ts'
import { at, load, PORTS, prepare, startGateway, startUpstream, stopAll } from './rig.ts'

const { values } = parseArgs({
  options: { rounds: { type: 'string', default: '5' }, requests: { type: 'string', default: '3000' } },
})
const { file, api } = workloadOf('chat-1k')
const KEY = 'hgk-bench-0123456789-0123456789abcdef'
const keys = (cache: object) => ({ 'search-prod': { secret: KEY, ...cache } })

try {
  prepare()
  const upstream = await startUpstream()
  const contestants = [
    { name: 'provider', members: keys({}), port: PORTS.gateway },
    { name: 'cache', members: keys({ cache: { ttl: 3_600, anyTemperature: true } }), port: PORTS.second },
  ]
  const started = []
  for (const { name, members, port } of contestants) {
    const { pid } = await startGateway(name, { file: { ...file, keys: members }, port })
    started.push({ name, model: 'bench', base: at(port), pid })
  }
  const known = [upstream.pid, ...started.map(({ pid }) => pid)]
  const args = `--key ${KEY} -c 1 -n ${values.requests} --answer size=600`
  for (let round = 0; round <= Number(values.rounds); round++)
    for (const contestant of inTurn(started, round)) {
      const { numbers, errors } = await load(contestant, { api, known, args })
      if (Object.keys(errors).length > 0) throw new Error(`${contestant.name}: ${JSON.stringify(errors)}`)
      const { p50, p99, cpu } = numbers
      if (round > 0)
        process.stdout.write(`${contestant.name.padEnd(8)} p50 ${p50} µs, p99 ${p99} µs, CPU ${cpu} µs per request\n`)
    }
} finally {
  await stopAll()
}
