/**
 * Runs real agents against the gateway, with an upstream of each format: `npm run clients`. They are installed into
 * `.cache/clients`. The upstream is a test server: it calls a shell command and other tools of the client, and then answers
 * with the output of the command.
 *
 *   npm run clients -- --only codex,messages     only combinations with all these words
 *   npm run clients -- --install sdks             only installs the libraries that test/e2e uses
 *   npm run clients -- --verbose                 also the output of each client and the gateway's log
 *
 * Nothing leaves this machine: the configured URLs are on 127.0.0.1, telemetry is off, and the configured proxy rejects and
 * records every other connection. The first run needs npm's registry.
 */
import { spawnSync } from 'node:child_process'
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import type { AddressInfo } from 'node:net'
import { createServer, type Socket } from 'node:net'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { parseArgs } from 'node:util'
import { list, object, text } from '../src/core/json.ts'
import {
  AGENT_PACKAGES,
  AGENTS_FOLDER,
  type Agent,
  claudeCode,
  claudeCodeAtBedrock,
  claudeCodeAtVertex,
  codex,
  geminiCli,
  runAgent,
} from '../test/e2e/clients/agents.ts'
import { areInstalled, SDK_PACKAGES, SDKS_FOLDER } from '../test/e2e/clients/sdks.ts'
import { start } from '../test/e2e/support/process.ts'
import { answerWith } from '../test/support/answers.ts'
import { type Act, type Script, startUpstream, type UpstreamRequest } from '../test/support/upstream.ts'

const { values } = parseArgs({
  options: {
    only: { type: 'string', default: '' },
    verbose: { type: 'boolean', default: false },
    install: { type: 'string' },
  },
})

/** Time limit of one client (ms). On an idle machine a client takes a few seconds. */
const TIME_LIMIT = 90_000

// ── The clients ──────────────────────────────────────────────────────────────────────────────────────────────────

/** The prompt does not have the output, so a client that returns it has run the command. */
const COMMAND = 'echo head""gate-"4"2'
const PRINTED = 'headgate-42'
const PROMPT = 'Run the command that the tool call requests, and report its output.'

/** A model provider, as its documentation recommends for gateways. */
const asProvider = (base: string) => [
  'model_provider = "gateway"',
  `model_providers.gateway = { name = "gateway", base_url = "${base}", env_key = "GATEWAY_API_KEY", wire_api = "responses", request_max_retries = 0, stream_max_retries = 0 }`,
]

/** In place of OpenAI, where it uses a WebSocket first. */
const inPlace = (base: string) => [`openai_base_url = "${base}"`]

type Client = { readonly agent: Agent; readonly model: string }
const CLIENTS: readonly Client[] = [
  // For known models it has other tools: a custom tool for patches, and a tool search.
  { agent: codex('codex', asProvider), model: 'some-model' },
  { agent: codex('codex, known model', asProvider), model: 'gpt-5.5' },
  { agent: codex('codex, as OpenAI', inPlace), model: 'gpt-5.5' },
  { agent: claudeCode, model: 'some-model' },
  { agent: claudeCodeAtBedrock, model: 'us.anthropic.claude-sonnet-4-5-20250929-v1:0' },
  { agent: claudeCodeAtVertex, model: 'claude-sonnet-4-5@20250929' },
  { agent: geminiCli, model: 'some-model' },
]

// ── The upstream ─────────────────────────────────────────────────────────────────────────────────────────────────

/** Tools of the clients and their arguments. The upstream calls each offered tool once, in this order. */
const CALLS: readonly (readonly [tool: RegExp, input: object])[] = [
  [/^exec_command$/, { cmd: COMMAND }],
  [/^Bash$/, { command: COMMAND, description: 'Prints a word' }],
  [/^run_shell_command$/, { command: COMMAND, description: 'Prints a word' }],
  // A custom tool in its own format; in other formats a function with one text.
  [/^apply_patch$/, { input: '*** Begin Patch\n*** Add File: made.txt\n+made\n*** End Patch\n' }],
  // A function in other formats; in its own format it has no name. The tools it finds can be called afterwards.
  [/^tool_search$/, { query: 'agent close', limit: 8 }],
  // A tool of a namespace. The client reports that the agent does not exist.
  [/close_agent$/, { target: '00000000-0000-4000-8000-000000000000' }],
]

/** Tools of the list that run the command: a request without them is another one. */
const SHELLS = 3

/** The names of the functions in a request of any format. */
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

type ScriptedUpstream = {
  readonly script: Script
  readonly requests: UpstreamRequest[]
  readonly called: string[]
}

/** gemini-cli sends a request of its own, with Google's search as its tool, which other providers lack. */
const SEARCH: (typeof CALLS)[number] = [/^google_web_search$/, { query: 'headgate' }]

const scriptedUpstream = (format: string): ScriptedUpstream => {
  const calls = format === 'gemini' ? [...CALLS, SEARCH] : CALLS
  const requests: UpstreamRequest[] = []
  const called: string[] = []
  const script: Script = (one) => {
    if (one.method === 'GET') return { do: 'answer', status: 404, body: { error: { message: 'no list' } } }
    const names = offered(one)
    requests.push(one)
    // Some clients send other small requests, such as for a title or a connection check.
    if (!names.some((name) => CALLS.slice(0, SHELLS).some(([tool]) => tool.test(name))))
      return answerWith(one, { text: 'Hello.' })
    for (const [tool, input] of calls) {
      const name = names.find((offer) => tool.test(offer))
      if (name === undefined || called.includes(name)) continue
      called.push(name)
      const act = answerWith(one, { tools: [{ id: `call_${called.length}`, name, arguments: JSON.stringify(input) }] })
      return withNamespace(one, act, name)
    }
    return answerWith(one, {
      text: one.body.includes(PRINTED) ? `It printed ${PRINTED}.` : 'The command printed nothing.',
    })
  }
  return { script, requests, called }
}

/** Adds the namespace to a call in the client's own format, which passes through. */
const withNamespace = (one: UpstreamRequest, act: Act, name: string): Act => {
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

// ── A run ────────────────────────────────────────────────────────────────────────────────────────────────────────

/** A proxy that rejects every connection and records its destination. */
const startRejectingProxy = async () => {
  const destinations = new Set<string>()
  const sockets = new Set<Socket>()
  const server = createServer((socket) => {
    sockets.add(socket)
    socket.on('error', () => {})
    socket.once('data', (bytes) => {
      const [, destination = '?'] = bytes.toString('latin1').split(/[ \r\n]/)
      destinations.add(destination)
      socket.end('HTTP/1.1 403 Forbidden\r\ncontent-length: 0\r\n\r\n')
    })
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address() as AddressInfo
  return {
    url: `http://127.0.0.1:${port}`,
    destinations,
    close: () => {
      for (const socket of sockets) socket.destroy()
      server.close()
    },
  }
}

type Result = { readonly line: string; readonly problems: readonly string[] }

const tryOne = async ({ agent, model }: Client, format: string): Promise<Result> => {
  const { script, requests: received, called } = scriptedUpstream(format)
  const upstream = await startUpstream(script)
  const proxyServer = await startRejectingProxy()
  const home = mkdtempSync(join(tmpdir(), 'headgate-client-'))
  const work = join(home, 'work')
  mkdirSync(work)
  const gateway = await start({ env: { ...UPSTREAMS[format]?.(upstream.url), DATA_DIR: join(home, 'data') } })
  try {
    const proxy = {
      HTTP_PROXY: proxyServer.url,
      HTTPS_PROXY: proxyServer.url,
      http_proxy: proxyServer.url,
      https_proxy: proxyServer.url,
    }
    const env = { NO_PROXY: '127.0.0.1,localhost', no_proxy: '127.0.0.1,localhost', ...proxy }
    const task = { gateway, home, work, model, prompt: PROMPT }
    const { code, out, ms } = await runAgent(agent, task, { limit: TIME_LIMIT, env })
    // The gateway writes its last log lines when it stops.
    await gateway.stop()
    const requests = gateway.lines().filter(({ event }) => event === 'request')
    const bad = requests.filter(({ status }) => Number(status) >= 400)
    const json = received.at(-1)?.json
    const turns = JSON.stringify(json?.messages ?? json?.input ?? json?.contents ?? null)
    const problems = [
      ...(code === 0 ? [] : [`exit code ${code}`]),
      ...(out.includes(`It printed ${PRINTED}.`) ? [] : ['the output of the command is missing']),
      ...bad.map(({ style, status, code: why }) => `${style}: status ${status} (${why})`),
      ...(/unsupported (call|tool)|no such tool|unknown tool/i.test(turns) ? ['an unknown tool was called'] : []),
    ]
    if (values.verbose)
      process.stderr.write(
        `\n── ${agent.name} over ${format}\n${out}\n${gateway.output()}\nlast request: ${turns.slice(-4_000)}\n`,
      )
    const styles = [...new Set(requests.map(({ style }) => style))].join(', ')
    const result = problems.length === 0 ? `ok, ${(ms / 1000).toFixed(1)} s` : problems.join('; ')
    const rejected =
      proxyServer.destinations.size > 0 ? `; rejected connections to ${[...proxyServer.destinations].join(', ')}` : ''
    return {
      line: `${agent.name.padEnd(25)} ${format.padEnd(10)} ${String(requests.length).padStart(2)} requests (${styles}), called ${called.join(', ')}: ${result}${rejected}`,
      problems,
    }
  } finally {
    await gateway.stop()
    await upstream.close()
    proxyServer.close()
    rmSync(home, { recursive: true, force: true, maxRetries: 5 })
  }
}

// ── All runs ─────────────────────────────────────────────────────────────────────────────────────────────────────

/** Installs packages into a folder, unless it has them in these versions. */
const install = (folder: string, packages: Readonly<Record<string, string>>): void => {
  if (areInstalled(folder, packages)) return
  mkdirSync(folder, { recursive: true })
  writeFileSync(join(folder, 'package.json'), '{"private":true}\n')
  const names = Object.entries(packages).map(([name, version]) => `${name}@${version}`)
  process.stdout.write(`installing ${names.join(' and ')} into ${folder} …\n`)
  const args = ['install', '--no-audit', '--no-fund', '--ignore-scripts', '--loglevel=error', ...names]
  const { status } = spawnSync('npm', args, { cwd: folder, stdio: ['ignore', 'ignore', 'inherit'] })
  if (status === 0) return
  process.stderr.write('clients: npm install failed; see its output above\n')
  process.exit(1)
}

if (values.install === 'sdks') {
  install(SDKS_FOLDER, SDK_PACKAGES)
  process.exit(0)
}
install(dirname(AGENTS_FOLDER), AGENT_PACKAGES)

const words = values.only.split(',').filter((word) => word !== '')
let tried = 0
let failed = 0
for (const client of CLIENTS)
  for (const format of Object.keys(UPSTREAMS)) {
    if (!words.every((word) => `${client.agent.name} ${format}`.includes(word))) continue
    const { line, problems } = await tryOne(client, format)
    tried++
    if (problems.length > 0) failed++
    process.stdout.write(`${problems.length === 0 ? '✓' : '✗'} ${line}\n`)
  }
process.stdout.write(`${tried - failed} of ${tried} passed\n`)
process.exit(tried > 0 && failed === 0 ? 0 : 1)
