/**
 * Claude Code, opencode and Codex whose budget is used up: they show the message, and do not repeat the request, or (Codex)
 * only a few times. `npm run clients` installs them; a test whose agent is not installed is skipped.
 */
import assert from 'node:assert/strict'
import { existsSync, mkdirSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, test } from 'node:test'
import { stripVTControlCharacters } from 'node:util'
import { answerWith } from '../support/answers.ts'
import { startUpstream } from '../support/upstream.ts'
import { AGENTS_FOLDER, type Agent, claudeCode, codex, opencode, runAgent } from './clients/agents.ts'
import { post, start } from './support/process.ts'

/** On an idle machine an agent takes a few seconds. */
const LIMIT = 240_000
/** The answer costs half a cent, all of the budget. */
const YAML = `prices: [ { provider: openai, model: "*", perMillion: { input: 10, output: 40 } } ]
budgets: { all: { amount: "0.005", period: month } }
`
const MESSAGE = /The budget of this request for the month is used up; it begins again on \d{4}-\d\d-01\./
const NOWHERE = 'http://127.0.0.1:9'

/** With its default number of retries. */
const asProvider = (base: string) => [
  'model_provider = "gateway"',
  `model_providers.gateway = { name = "gateway", base_url = "${base}", env_key = "GATEWAY_API_KEY", wire_api = "responses" }`,
]

/** How many requests each sends at most. */
const AGENTS: readonly (readonly [agent: Agent, most: number])[] = [
  [claudeCode, 1],
  [opencode, 1],
  [codex('codex', asProvider), 6],
]

describe('agents without budget', () => {
  for (const [agent, most] of AGENTS) {
    const isInstalled = existsSync(join(AGENTS_FOLDER, agent.program))
    const skip = isInstalled ? false : `${agent.name} is not installed: npm run clients`
    test(`${agent.name} shows the message and sends at most ${most}`, { skip }, async () => {
      const upstream = await startUpstream((request) => answerWith(request, { text: 'x', input: 100, output: 100 }))
      const home = mkdtempSync(join(tmpdir(), 'headgate-agent-'))
      try {
        const work = join(home, 'work')
        mkdirSync(work)
        await using gateway = await start({
          env: { OPENAI_API_KEY: 'sk-0123456789', OPENAI_BASE_URL: `${upstream.url}/v1`, OPENAI_MODELS: 'some-model' },
          files: { 'headgate.yaml': YAML },
        })
        const body = { model: 'some-model', max_tokens: 100, messages: [{ role: 'user', content: 'hello' }] }
        assert.equal((await post(`${gateway.base}/chat/completions`, body)).status, 200)
        const calls = () => upstream.requests.filter(({ method }) => method === 'POST').length
        const spent = calls()

        const env = { HTTP_PROXY: NOWHERE, HTTPS_PROXY: NOWHERE, NO_PROXY: '127.0.0.1,localhost' }
        const task = { gateway, home, work, model: 'some-model', prompt: 'Say hello.' }
        const { code, out } = await runAgent(agent, task, { limit: LIMIT, env })
        await gateway.stop()
        assert.notEqual(code, 0)
        assert.match(stripVTControlCharacters(out), MESSAGE)
        const refused = gateway.lines().filter(({ event, status }) => event === 'request' && status === 402)
        assert.ok(refused.length >= 1 && refused.length <= most, `${refused.length} requests`)
        assert.equal(calls(), spent, 'nothing is sent to the provider')
      } finally {
        await upstream.close()
        rmSync(home, { recursive: true, force: true, maxRetries: 5 })
      }
    })
  }
})
