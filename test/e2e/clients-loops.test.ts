/**
 * Claude Code, opencode and Codex with a model that calls one tool again and again: the brake stops them, they show why, and none of them
 * repeats the refused request for long. `npm run clients` installs the agents; a test whose agent is not installed is skipped.
 */
import assert from 'node:assert/strict'
import { existsSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, test } from 'node:test'
import { list, object, text } from '../../src/core/json.ts'
import { answerWith } from '../support/answers.ts'
import { type Script, startUpstream, type UpstreamRequest } from '../support/upstream.ts'
import { AGENTS_FOLDER, type Agent, claudeCode, codex, opencode, runAgent } from './clients/agents.ts'
import { start } from './support/process.ts'

/** On an idle machine an agent takes a few seconds. */
const LIMIT = 240_000
const NOWHERE = 'http://127.0.0.1:9'
const PROMPT = 'Read contacts.txt until it has a second line.'
/** `repeat` is a loop after so many equal calls. */
const TURNS = 5
const MOST = 12

type Looping = {
  readonly agent: Agent
  readonly model: string
  readonly tool: string
  readonly input: (work: string) => object
  /** Requests that are refused at most: Codex repeats each five times, whatever the status. */
  readonly refused: number
}

const asProvider = (base: string) => [
  'model_provider = "gateway"',
  `model_providers.gateway = { name = "gateway", base_url = "${base}", env_key = "GATEWAY_API_KEY", wire_api = "responses" }`,
]

const AGENTS: readonly Looping[] = [
  {
    agent: claudeCode,
    model: 'some-model',
    tool: 'Read',
    input: (work) => ({ file_path: join(work, 'contacts.txt') }),
    refused: 2,
  },
  {
    agent: opencode,
    model: 'some-model',
    tool: 'read',
    input: (work) => ({ filePath: join(work, 'contacts.txt') }),
    refused: 2,
  },
  {
    agent: codex('codex', asProvider),
    model: 'gpt-5.5',
    tool: 'exec_command',
    input: () => ({ cmd: 'cat contacts.txt' }),
    refused: 6,
  },
]

const namesOf = ({ json }: UpstreamRequest): readonly string[] =>
  list(json.tools).flatMap((tool) => text(object(tool)?.name) ?? text(object(object(tool)?.function)?.name) ?? [])

const looping = ({ tool, input }: Looping, work: string): Script => {
  let turn = 0
  return (one) => {
    if (one.method === 'GET') return { do: 'answer', status: 404, body: { error: { message: 'no list' } } }
    if (!namesOf(one).includes(tool)) return answerWith(one, { text: 'A title' })
    if (turn === MOST) return answerWith(one, { text: 'Nothing has stopped it.' })
    return answerWith(one, { tools: [{ id: `call_${turn++}`, name: tool, arguments: JSON.stringify(input(work)) }] })
  }
}

type Listed = { readonly code: string | null; readonly session: string | null }

const requestsOf = async (url: string): Promise<readonly Listed[]> => {
  const response = await fetch(`${url}/admin/api/v1/requests?limit=200`)
  assert.equal(response.status, 200)
  const { data } = (await response.json()) as { readonly data: readonly Listed[] }
  return data
}

describe('agents are stopped when they repeat a call', () => {
  for (const one of AGENTS) {
    const isInstalled = existsSync(join(AGENTS_FOLDER, one.agent.program))
    const skip = isInstalled ? false : `${one.agent.name} is not installed: npm run clients`
    test(one.agent.name, { skip }, async () => {
      const home = mkdtempSync(join(tmpdir(), 'headgate-agent-'))
      const work = join(home, 'work')
      mkdirSync(work)
      writeFileSync(join(work, 'contacts.txt'), 'one line\n')
      const upstream = await startUpstream(looping(one, work))
      try {
        const provider = { kind: 'openai-compatible', baseUrl: `${upstream.url}/v1`, keys: ['sk-0123456789'] }
        await using gateway = await start({
          env: { DATA_DIR: join(home, 'data') },
          files: {
            'headgate.yaml': JSON.stringify({
              providers: { house: { ...provider, styles: ['chat'], models: [one.model] } },
              loops: { action: 'block' },
            }),
          },
        })
        const env = { HTTP_PROXY: NOWHERE, HTTPS_PROXY: NOWHERE, NO_PROXY: '127.0.0.1,localhost' }
        const task = { gateway, home, work, model: one.model, prompt: PROMPT }
        const { out } = await runAgent(one.agent, task, { limit: LIMIT, env })
        assert.match(out, /repeats the call/)
        const turns = upstream.requests.filter((sent) => sent.method === 'POST' && namesOf(sent).includes(one.tool))
        assert.equal(turns.length, TURNS)
        const refused = (await requestsOf(gateway.url)).filter(({ code }) => code === 'loop_stopped')
        assert.ok(refused.length >= 1 && refused.length <= one.refused, `${refused.length} refused`)
        assert.equal(new Set(refused.map(({ session }) => session)).size, 1)
      } finally {
        await upstream.close()
        rmSync(home, { recursive: true, force: true, maxRetries: 5 })
      }
    })
  }
})
