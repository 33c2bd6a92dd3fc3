/**
 * Claude Code, opencode and Codex edit a file with e-mail addresses through a mask: the provider sees none of them, and the file has
 * each byte that it should have. `npm run clients` installs the agents; a test whose agent is not installed is skipped.
 */
import assert from 'node:assert/strict'
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, test } from 'node:test'
import { list, object, text } from '../../src/core/json.ts'
import { answerWith } from '../support/answers.ts'
import { type Act, type Script, startUpstream, type UpstreamRequest } from '../support/upstream.ts'
import { AGENTS_FOLDER, type Agent, claudeCode, codex, opencode, runAgent } from './clients/agents.ts'
import { start } from './support/process.ts'

/** On an idle machine an agent takes a few seconds. */
const LIMIT = 240_000
const NOWHERE = 'http://127.0.0.1:9'
const PROMPT = 'Read contacts.txt, and write its lines in reverse order to reversed.txt.'

/** With what JSON, shells and templates take for their own. */
const LINES = Array.from(
  { length: 20 },
  (_, at) => `line ${at}\t"Ann O'Neil ${at}" <ann+${at}@mail-${at}.example.com>; \\ $HOME`,
)
const ADDRESS = /ann\+\d+@mail-\d+\.example\.com/
const MASK = /\[EMAIL_[A-Z2-7]+\]/g

/** How an agent reads the file, and how it writes another: its tools and their arguments. */
type Tools = {
  readonly agent: Agent
  readonly model: string
  readonly read: { readonly name: string; readonly input: (work: string) => object }
  readonly write: { readonly name: string; readonly input: (work: string, content: string) => object }
}

const asProvider = (base: string) => [
  'model_provider = "gateway"',
  `model_providers.gateway = { name = "gateway", base_url = "${base}", env_key = "GATEWAY_API_KEY", wire_api = "responses" }`,
]
/** Without questions: the folder is one of this test. */
const willing: Agent = {
  ...claudeCode,
  command: (task) => {
    const { args, env } = claudeCode.command(task)
    return { args: [...args, '--dangerously-skip-permissions'], env: { ...env, IS_SANDBOX: '1' } }
  },
}
const added = (content: string) =>
  `*** Begin Patch\n*** Add File: reversed.txt\n${content.replace(/\n$/, '').replace(/^/gm, '+')}\n*** End Patch\n`

const AGENTS: readonly Tools[] = [
  {
    agent: willing,
    model: 'some-model',
    read: { name: 'Read', input: (work) => ({ file_path: join(work, 'contacts.txt') }) },
    write: { name: 'Write', input: (work, content) => ({ file_path: join(work, 'reversed.txt'), content }) },
  },
  {
    agent: opencode,
    model: 'some-model',
    read: { name: 'read', input: (work) => ({ filePath: join(work, 'contacts.txt') }) },
    write: { name: 'write', input: (work, content) => ({ filePath: join(work, 'reversed.txt'), content }) },
  },
  {
    agent: codex('codex', asProvider),
    model: 'gpt-5.5',
    read: { name: 'exec_command', input: () => ({ cmd: 'cat contacts.txt' }) },
    // A function with one text; in the client's format it is a custom tool, whose argument is that text.
    write: { name: 'apply_patch', input: (_, content) => ({ input: added(content) }) },
  },
]

const KINDS = {
  chat: { kind: 'openai-compatible', styles: ['chat'] },
  responses: { kind: 'openai-compatible', styles: ['responses'] },
  messages: { kind: 'anthropic' },
} as const

const namesOf = ({ json }: UpstreamRequest): readonly string[] =>
  list(json.tools).flatMap((tool) => text(object(tool)?.name) ?? text(object(object(tool)?.function)?.name) ?? [])

/** A stream with a call of a custom tool, as in `response.custom_tool_call_input.delta` of OpenAI's reference of streaming events. */
const callCustom = ({
  id,
  name,
  input,
}: {
  readonly id: string
  readonly name: string
  readonly input: string
}): Act => {
  const item = (more: object) => ({ type: 'custom_tool_call', id: `ctc_${id}`, call_id: id, name, ...more })
  const place = { item_id: `ctc_${id}`, output_index: 0 }
  const response = { id: 'resp_test', object: 'response', created_at: 1_700_000_000, model: 'test', error: null }
  const usage = { input_tokens: 9, output_tokens: 5, total_tokens: 14 }
  const events = [
    { type: 'response.created', response: { ...response, status: 'in_progress', output: [] } },
    { type: 'response.output_item.added', output_index: 0, item: item({ status: 'in_progress', input: '' }) },
    ...(input.match(/[\s\S]{1,7}/g) ?? []).map((delta) => ({
      type: 'response.custom_tool_call_input.delta',
      ...place,
      delta,
    })),
    { type: 'response.custom_tool_call_input.done', ...place, input },
    { type: 'response.output_item.done', output_index: 0, item: item({ status: 'completed', input }) },
    {
      type: 'response.completed',
      response: { ...response, status: 'completed', output: [item({ status: 'completed', input })], usage },
    },
  ]
  return {
    do: 'stream',
    pieces: events.map(
      (event, at) => `event: ${event.type}\ndata: ${JSON.stringify({ ...event, sequence_number: at })}\n\n`,
    ),
  }
}

/** All texts of a request, one after the other. */
const textsIn = (value: unknown): string =>
  typeof value === 'string'
    ? `${value}\n`
    : Array.isArray(value)
      ? value.map(textsIn).join('')
      : value !== null && typeof value === 'object'
        ? Object.values(value).map(textsIn).join('')
        : ''

/** Reads, writes what it has read in reverse order, and names the first address. */
const modelOf = ({ read, write }: Tools, work: string): Script => {
  let turn = 0
  let lines: readonly string[] = []
  return (one) => {
    if (one.method === 'GET') return { do: 'answer', status: 404, body: { error: { message: 'no list' } } }
    const names = namesOf(one)
    if (!names.includes(read.name)) return answerWith(one, { text: 'A title' })
    const call = (name: string, input: object) => {
      const id = `call_${turn}`
      const isCustom = list(one.json.tools).some(
        (tool) => object(tool)?.type === 'custom' && object(tool)?.name === name,
      )
      return isCustom
        ? callCustom({ id, name, input: text(object(input)?.input) ?? '' })
        : answerWith(one, { tools: [{ id, name, arguments: JSON.stringify(input) }] })
    }
    turn++
    if (turn === 1) return call(read.name, read.input(work))
    if (turn === 2) {
      lines =
        textsIn(one.json)
          .match(/line \d+\t"Ann O'Neil \d+" <[^>]*>; \\ \$HOME/g)
          ?.slice(0, LINES.length) ?? []
      return call(write.name, write.input(work, `${lines.toReversed().join('\n')}\n`))
    }
    return answerWith(one, { text: `The first address is ${lines[0]?.match(MASK)?.[0]}.` })
  }
}

describe('agents edit a file through a mask', () => {
  for (const tools of AGENTS)
    for (const style of ['chat', 'responses', 'messages'] as const) {
      const isInstalled = existsSync(join(AGENTS_FOLDER, tools.agent.program))
      const skip = isInstalled ? false : `${tools.agent.name} is not installed: npm run clients`
      test(`${tools.agent.name}, ${style}`, { skip }, async () => {
        const home = mkdtempSync(join(tmpdir(), 'headgate-agent-'))
        const work = join(home, 'work')
        mkdirSync(work)
        writeFileSync(join(work, 'contacts.txt'), `${LINES.join('\n')}\n`)
        const upstream = await startUpstream(modelOf(tools, work))
        try {
          const provider = { baseUrl: `${upstream.url}/v1`, keys: ['sk-0123456789'], models: [tools.model] }
          await using gateway = await start({
            env: { DATA_DIR: join(home, 'data') },
            files: {
              'headgate.yaml': JSON.stringify({
                providers: { house: { ...provider, ...KINDS[style] } },
                guards: { pii: { find: ['email'], action: 'mask' } },
              }),
            },
          })
          const env = { HTTP_PROXY: NOWHERE, HTTPS_PROXY: NOWHERE, NO_PROXY: '127.0.0.1,localhost' }
          const task = { gateway, home, work, model: tools.model, prompt: PROMPT }
          const { code, out } = await runAgent(tools.agent, task, { limit: LIMIT, env })
          assert.equal(code, 0, out)
          const posts = upstream.requests.filter(({ method }) => method === 'POST')
          for (const { body } of posts) assert.doesNotMatch(body, ADDRESS)
          assert.ok(posts.some(({ body }) => new Set(body.match(MASK)).size >= LINES.length))
          assert.equal(readFileSync(join(work, 'reversed.txt'), 'utf8'), `${LINES.toReversed().join('\n')}\n`)
          assert.ok(out.includes('The first address is ann+0@mail-0.example.com.'), out)
        } finally {
          await upstream.close()
          rmSync(home, { recursive: true, force: true, maxRetries: 5 })
        }
      })
    }
})
