/**
 * Measures the gateway beside a plain reverse proxy: `npm run bench`. Needs the load rig (its folder in HEADGATE_RIG, or
 * beside the checkout), Go to build it, nginx, and taskset. Without them it says what is missing.
 *
 *   npm run bench -- --rounds 3 --only chat-1k,stream-20ms
 */
import { spawnSync } from 'node:child_process'
import { existsSync, mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { parseArgs } from 'node:util'

const root = join(import.meta.dirname, '..')
const cache = join(root, '.cache', 'bench')
const { values } = parseArgs({ options: { rounds: { type: 'string', default: '3' }, only: { type: 'string' } } })

const stop = (line: string): never => {
  process.stderr.write(`bench: ${line}\n`)
  process.exit(1)
}

const rig = process.env.HEADGATE_RIG ?? join(root, '..', 'shared', 'bench')
if (!existsSync(join(rig, 'go.mod'))) stop(`the load rig is not at ${rig}; say where it is in HEADGATE_RIG`)
for (const program of ['go', 'nginx', 'taskset'])
  if (spawnSync('sh', ['-c', `command -v ${program}`]).status !== 0) stop(`${program} is not installed`)

mkdirSync(cache, { recursive: true })
const built = spawnSync('go', ['build', '-o', `${cache}/`, './cmd/...'], { cwd: rig, stdio: 'inherit' })
if (built.status !== 0) stop('the rig does not build')

/** One core for what is measured, the other for the load and the fake provider. */
const onCore = (core: number, ...command: string[]) => ['taskset', '-c', String(core), ...command]
const UPSTREAM = 'http://127.0.0.1:19100'
const urls = (base: string) => ({ chat: `${base}/v1/chat/completions`, responses: `${base}/v1/responses` })

// The first warm-up is long: until the compiler has seen enough requests each costs several times as much.
const workloads = [
  { name: 'chat-1k', api: 'chat', args: '-c 64 --duration 4s --warmup 8s --answer size=600' },
  { name: 'chat-30k', api: 'chat', args: '-c 64 --duration 4s --warmup 1s --answer size=600 --body-size 30000' },
  { name: 'open-500', api: 'chat', args: '-c 256 --rate 500 --duration 4s --warmup 500ms --answer size=600' },
  {
    name: 'stream-20ms',
    api: 'chat',
    args: '--stream -c 200 -n 200 --ramp 1s --warmup 1500ms --answer chunks=200,delay=20ms,stamp=1',
  },
  { name: 'burst', api: 'chat', args: '--stream -c 64 -n 2000 --warmup 1s --answer chunks=200,delay=0s' },
  { name: 'responses-1k', api: 'responses', args: '-c 64 --duration 4s --warmup 1s --answer size=600' },
  {
    name: 'responses-stream',
    api: 'responses',
    args: '--stream -c 100 -n 200 --ramp 1s --warmup 1s --answer chunks=100,delay=20ms,stamp=1',
  },
].map(({ args, ...rest }) => ({ ...rest, args: args.split(' ') }))

const only = values.only?.split(',')
const config = {
  upstream: onCore(1, `${cache}/upstream`, '--listen', '127.0.0.1:19100'),
  load: onCore(1, `${cache}/load`),
  baseline: 'nginx',
  direct: 'direct',
  targets: [
    { name: 'direct', urls: urls(UPSTREAM) },
    {
      name: 'nginx',
      start: onCore(0, 'nginx', '-p', cache, '-c', join(root, 'bench', 'nginx.conf')),
      urls: urls('http://127.0.0.1:19301'),
    },
    {
      name: 'headgate',
      start: onCore(0, process.execPath, join(root, 'src', 'main.ts')),
      env: {
        PORT: '19400',
        LOG_FORMAT: 'json',
        OPENAI_API_KEY: 'sk-bench',
        OPENAI_BASE_URL: `${UPSTREAM}/v1`,
        OPENAI_MODELS: 'bench',
      },
      urls: urls('http://127.0.0.1:19400'),
      load: ['--model', 'bench'],
      startup: 20,
    },
  ],
  workloads: workloads.filter(({ name }) => only?.includes(name) ?? true),
}
writeFileSync(join(cache, 'compare.json'), JSON.stringify(config))
const run = spawnSync(
  join(cache, 'compare'),
  ['--config', join(cache, 'compare.json'), '--rounds', values.rounds, '--out', join(cache, 'results.jsonl')],
  { cwd: cache, stdio: 'inherit' },
)
process.exit(run.status ?? 1)
