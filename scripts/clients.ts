/**
 * Runs real agents against the gateway, once for each format an upstream may speak: `npm run clients`. They are installed
 * into `.cache/clients`. The upstream is ours: it asks for a shell command, for whatever other tools of the client's own
 * it knows, and then answers with what the command printed.
 *
 *   npm run clients -- --only codex,messages     only what has these words in its line
 *   npm run clients -- --verbose                 what each client said, and what the gateway logged
 *
 * Nothing leaves this machine: every address the clients are given is 127.0.0.1, telemetry is off, and the proxy they are
 * told to use for anything else is ours; it refuses, and tells what it was asked for. Needs npm's registry once.
 */
import { spawn, spawnSync } from 'node:child_process'
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import type { AddressInfo } from 'node:net'
import { createServer, type Socket } from 'node:net'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { parseArgs } from 'node:util'
import { list, object, text } from '../src/core/json.ts'
import { type Started, start } from '../test/e2e/support/process.ts'
import { answerWith } from '../test/support/answers.ts'
import { type Act, type Script, startUpstream, type UpstreamRequest } from '../test/support/upstream.ts'

const root = join(import.meta.dirname, '..')
const folder = join(root, '.cache', 'clients')
const { values } = parseArgs({
  options: { only: { type: 'string', default: '' }, verbose: { type: 'boolean', default: false } },
})

/** ms one client may take for its few turns; on an idle machine they take a few thousand. */
const PATIENCE = 90_000

// ── The clients ──────────────────────────────────────────────────────────────────────────────────────────────────

type Place = { readonly gateway: Started; readonly home: string; readonly work: string }
type Command = {
  readonly args: readonly string[]
  readonly env: Readonly<Record<string, string>>
  readonly files?: Readonly<Record<string, string>>
}
type Client = { readonly name: string; readonly program: string; readonly command: (place: Place) => Command }

const PACKAGES = { '@openai/codex': '0.169.0', '@anthropic-ai/claude-code': '2.1.330' } as const

/** No digits of the answer stand in the question, so that who finds them has run the command. */
const COMMAND = 'echo head""gate-$((40+2))'
const PRINTED = 'headgate-42'
const PROMPT = 'Run the command you are told to run, and say what it printed.'

const codex = (name: string, model: string, configured: (base: string) => readonly string[]): Client => ({
  name,
  program: join('@openai', 'codex', 'bin', 'codex.js'),
  command: ({ gateway, home, work }) => ({
    args: ['exec', '--skip-git-repo-check', '--sandbox', 'danger-full-access', '--cd', work, '--model', model, PROMPT],
    env: { CODEX_HOME: join(home, '.codex'), GATEWAY_API_KEY: 'any', CODEX_API_KEY: 'any' },
    files: {
      '.codex/config.toml': [
        ...configured(gateway.base),
        'check_for_update_on_startup = false',
        '[analytics]',
        'enabled = false',
      ].join('\n'),
    },
  }),
})

/** As its documentation has it for gateways. */
const asProvider = (base: string) => [
  'model_provider = "gateway"',
  `model_providers.gateway = { name = "gateway", base_url = "${base}", env_key = "GATEWAY_API_KEY", wire_api = "responses", request_max_retries = 0, stream_max_retries = 0 }`,
]

/** In OpenAI's own place, where it asks over a WebSocket first. */
const inPlace = (base: string) => [`openai_base_url = "${base}"`]

const CLIENTS: readonly Client[] = [
  // It has other tools for models it knows: a free-form one for patches, and a search for tools.
  codex('codex', 'some-model', asProvider),
  codex('codex, a model it knows', 'gpt-5.5', asProvider),
  codex('codex, in OpenAI’s place', 'gpt-5.5', inPlace),
  {
    name: 'claude code',
    program: join('@anthropic-ai', 'claude-code', 'cli-wrapper.cjs'),
    command: ({ gateway, home }) => ({
      args: ['-p', PROMPT, '--model', 'some-model', '--allowedTools', 'Bash(echo:*)', '--output-format', 'text'],
      env: {
        CLAUDE_CONFIG_DIR: join(home, '.claude'),
        ANTHROPIC_BASE_URL: gateway.url,
        ANTHROPIC_API_KEY: 'any',
        CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC: '1',
        DISABLE_TELEMETRY: '1',
        DISABLE_ERROR_REPORTING: '1',
        DISABLE_AUTOUPDATER: '1',
      },
    }),
  },
]

// ── The upstream ─────────────────────────────────────────────────────────────────────────────────────────────────

/** Tools of the clients and what they are called with here, in this order, each once if it is offered. */
const CALLS: readonly (readonly [tool: RegExp, input: object])[] = [
  [/^exec_command$/, { cmd: COMMAND }],
  [/^Bash$/, { command: COMMAND, description: 'Prints a word' }],
  // Free-form in its own format; where there are only functions, one with a single text.
  [/^apply_patch$/, { input: '*** Begin Patch\n*** Add File: made.txt\n+made\n*** End Patch\n' }],
  // A function in every format but its own, where it is no tool with a name. What it finds may be called from then on.
  [/^tool_search$/, { query: 'agent close', limit: 8 }],
  // A member of a namespace: there is no such agent, and the client says so.
  [/close_agent$/, { target: '00000000-0000-4000-8000-000000000000' }],
]

/** The names of the functions a request offers, whatever its format. */
const offered = ({ json }: UpstreamRequest): string[] =>
  list(json.tools)
    .filter((tool) => object(tool)?.type !== 'custom')
    .flatMap((tool) => [
      tool,
      object(tool)?.function ?? null,
      ...list(object(tool)?.functionDeclarations),
      ...members(tool),
    ])
    .flatMap((tool) => text(object(tool)?.name) ?? [])
const members = (tool: unknown) => list(object(tool)?.tools)

type Played = { readonly script: Script; readonly asked: UpstreamRequest[]; readonly called: string[] }

const play = (): Played => {
  const asked: UpstreamRequest[] = []
  const called: string[] = []
  const script: Script = (one) => {
    if (one.method === 'GET') return { do: 'answer', status: 404, body: { error: { message: 'no list' } } }
    const names = offered(one)
    asked.push(one)
    // Some ask small things beside the conversation: a title, whether anybody is there.
    if (!names.some((name) => CALLS.slice(0, 2).some(([tool]) => tool.test(name))))
      return answerWith(one, { text: 'Hello.' })
    for (const [tool, input] of CALLS) {
      const name = names.find((offer) => tool.test(offer))
      if (name === undefined || called.includes(name)) continue
      called.push(name)
      const act = answerWith(one, { tools: [{ id: `call_${called.length}`, name, arguments: JSON.stringify(input) }] })
      return native(one, act, name)
    }
    return answerWith(one, {
      text: one.body.includes(PRINTED) ? `It printed ${PRINTED}.` : 'The command printed nothing.',
    })
  }
  return { script, asked, called }
}

/** Where the client's own format is spoken, a call is told in that format's own way, which passes. */
const native = (one: UpstreamRequest, act: Act, name: string): Act => {
  const namespace = list(one.json.tools).find((tool) => members(tool).some((member) => object(member)?.name === name))
  if (!namespace || act.do !== 'stream') return act
  const more = `"type":"function_call","namespace":${JSON.stringify(object(namespace)?.name)}`
  const pieces = [...act.pieces].map((piece) => String(piece).replaceAll('"type":"function_call"', more))
  return { ...act, pieces }
}

const UPSTREAMS: { readonly [format: string]: (url: string) => Readonly<Record<string, string>> } = {
  chat: (url) => ({ CHATTY_API_KEY: 'sk-chatty-0000000000', CHATTY_BASE_URL: `${url}/v1`, CHATTY_MODELS: 'm' }),
  responses: (url) => ({
    RESPONDER_API_KEY: 'sk-responder-0000000000',
    RESPONDER_BASE_URL: `${url}/v1`,
    RESPONDER_STYLES: 'responses',
    RESPONDER_MODELS: 'm',
  }),
  messages: (url) => ({ ANTHROPIC_API_KEY: 'sk-ant-0000000000', ANTHROPIC_BASE_URL: url, ANTHROPIC_MODELS: 'm' }),
  gemini: (url) => ({ GEMINI_API_KEY: 'AIza-test-0123456789', GEMINI_BASE_URL: `${url}/v1beta`, GEMINI_MODELS: 'm' }),
}

// ── One run ──────────────────────────────────────────────────────────────────────────────────────────────────────

type Ended = { readonly code: number | null; readonly out: string; readonly ms: number }

/** The program in a process group of its own, of which nothing is left when this returns. */
const runProgram = (args: readonly string[], cwd: string, env: Readonly<Record<string, string>>): Promise<Ended> =>
  new Promise((resolve) => {
    const begun = performance.now()
    const child = spawn(process.execPath, args, { cwd, env, detached: true, stdio: ['ignore', 'pipe', 'pipe'] })
    const parts: Buffer[] = []
    child.stdout.on('data', (part: Buffer) => parts.push(part))
    child.stderr.on('data', (part: Buffer) => parts.push(part))
    const endGroup = () => {
      try {
        if (child.pid !== undefined) process.kill(-child.pid, 'SIGKILL')
      } catch {
        // Nobody of it is left, as it should be.
      }
    }
    const timer = setTimeout(endGroup, PATIENCE)
    child.on('close', (code) => {
      clearTimeout(timer)
      endGroup()
      resolve({ code, out: Buffer.concat(parts).toString('utf8'), ms: performance.now() - begun })
    })
    child.on('exit', () => setTimeout(endGroup, 1_000).unref())
  })

/** A proxy that lets nobody out, and remembers where they wanted to go. */
const startWall = async () => {
  const wanted = new Set<string>()
  const sockets = new Set<Socket>()
  const server = createServer((socket) => {
    sockets.add(socket)
    socket.on('error', () => {})
    socket.once('data', (bytes) => {
      const [, where = '?'] = bytes.toString('latin1').split(/[ \r\n]/)
      wanted.add(where)
      socket.end('HTTP/1.1 403 Forbidden\r\ncontent-length: 0\r\n\r\n')
    })
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address() as AddressInfo
  return {
    url: `http://127.0.0.1:${port}`,
    wanted,
    close: () => {
      for (const socket of sockets) socket.destroy()
      server.close()
    },
  }
}

type Result = { readonly line: string; readonly problems: readonly string[] }

const tryOne = async (client: Client, format: string): Promise<Result> => {
  const { script, asked, called } = play()
  const upstream = await startUpstream(script)
  const wall = await startWall()
  const home = mkdtempSync(join(tmpdir(), 'headgate-client-'))
  const work = join(home, 'work')
  mkdirSync(work)
  const gateway = await start({ env: { ...UPSTREAMS[format]?.(upstream.url), DATA_DIR: join(home, 'data') } })
  try {
    const { args, env, files = {} } = client.command({ gateway, home, work })
    for (const [name, words] of Object.entries(files)) {
      mkdirSync(dirname(join(home, name)), { recursive: true })
      writeFileSync(join(home, name), words)
    }
    const proxy = { HTTP_PROXY: wall.url, HTTPS_PROXY: wall.url, http_proxy: wall.url, https_proxy: wall.url }
    const { code, out, ms } = await runProgram([join(folder, 'node_modules', client.program), ...args], work, {
      PATH: process.env.PATH ?? '',
      HOME: home,
      NO_PROXY: '127.0.0.1,localhost',
      no_proxy: '127.0.0.1,localhost',
      ...proxy,
      ...env,
    })
    // Its last lines are written at its end.
    await gateway.stop()
    const requests = gateway.lines().filter(({ event }) => event === 'request')
    const bad = requests.filter(({ status }) => Number(status) >= 400)
    const json = asked.at(-1)?.json
    const turns = JSON.stringify(json?.messages ?? json?.input ?? json?.contents ?? null)
    const problems = [
      ...(code === 0 ? [] : [`it ended with ${code}`]),
      ...(out.includes(`It printed ${PRINTED}.`) ? [] : ['it did not say what the command printed']),
      ...bad.map(({ style, status, code: why }) => `${style} was answered ${status} (${why})`),
      ...(/unsupported (call|tool)|no such tool|unknown tool/i.test(turns)
        ? ['it did not know a tool it was called with']
        : []),
    ]
    if (values.verbose)
      process.stderr.write(
        `\n── ${client.name} over ${format}\n${out}\n${gateway.output()}\nlast asked: ${turns.slice(-4_000)}\n`,
      )
    const styles = [...new Set(requests.map(({ style }) => style))].join(', ')
    const told = problems.length === 0 ? `ok, ${(ms / 1000).toFixed(1)} s` : problems.join('; ')
    const out_ = wall.wanted.size > 0 ? `; kept from ${[...wall.wanted].join(', ')}` : ''
    return {
      line: `${client.name.padEnd(25)} ${format.padEnd(10)} ${String(requests.length).padStart(2)} requests (${styles}), called ${called.join(', ')}: ${told}${out_}`,
      problems,
    }
  } finally {
    await gateway.stop()
    await upstream.close()
    wall.close()
    rmSync(home, { recursive: true, force: true, maxRetries: 5 })
  }
}

// ── All of them ──────────────────────────────────────────────────────────────────────────────────────────────────

const installed = (name: string): string | undefined => {
  const file = join(folder, 'node_modules', name, 'package.json')
  return existsSync(file) ? text(object(JSON.parse(readFileSync(file, 'utf8')))?.version) : undefined
}

if (Object.entries(PACKAGES).some(([name, version]) => installed(name) !== version)) {
  mkdirSync(folder, { recursive: true })
  writeFileSync(join(folder, 'package.json'), '{"private":true}\n')
  const wanted = Object.entries(PACKAGES).map(([name, version]) => `${name}@${version}`)
  process.stdout.write(`installing ${wanted.join(' and ')} into ${folder} (about 800 MB) …\n`)
  const args = ['install', '--no-audit', '--no-fund', '--ignore-scripts', '--loglevel=error', ...wanted]
  const { status } = spawnSync('npm', args, { cwd: folder, stdio: ['ignore', 'ignore', 'inherit'] })
  if (status !== 0) {
    process.stderr.write('clients: npm could not install them; its output above says why\n')
    process.exit(1)
  }
}

const words = values.only.split(',').filter((word) => word !== '')
let tried = 0
let failed = 0
for (const client of CLIENTS)
  for (const format of Object.keys(UPSTREAMS)) {
    if (!words.every((word) => `${client.name} ${format}`.includes(word))) continue
    const { line, problems } = await tryOne(client, format)
    tried++
    if (problems.length > 0) failed++
    process.stdout.write(`${problems.length === 0 ? '✓' : '✗'} ${line}\n`)
  }
process.stdout.write(`${tried - failed} of ${tried} worked\n`)
process.exit(tried > 0 && failed === 0 ? 0 : 1)
