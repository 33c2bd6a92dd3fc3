/** A gateway with three scripted providers, one of which can be made to fail, with requests that have been answered. */

import { post, type Started, start } from '../../e2e/support/process.ts'
import { fileOf } from '../../e2e/support/stage.ts'
import { answerWith, failWith } from '../../support/answers.ts'
import { startUpstream, type Upstream } from '../../support/upstream.ts'

export type Fleet = {
  readonly gateway: Started
  /** Decides whether `groq` fails. */
  readonly state: { isDown: boolean }
  /** Sends a model call, and returns its status, its ID, and the provider that answered. */
  readonly ask: (
    model: string,
    body?: object,
  ) => Promise<{ readonly status: number; readonly id: string; readonly by: string }>
  /** Answered and fallen back requests, until the circuit of `groq` is open, and a limited key of `anthropic`. */
  readonly trouble: () => Promise<void>
  readonly stop: () => Promise<void>
}

/** Ends a held answer. */
const HOLD = 20_000

export const startFleet = async (env: Readonly<Record<string, string>> = {}): Promise<Fleet> => {
  const state = { isDown: false }
  const text = 'Server-sent events are a one-way stream.'
  const upstreams: Upstream[] = await Promise.all([
    startUpstream((request) => answerWith(request, { text, input: 400, output: 60 }, { first: 20, gap: 5 })),
    startUpstream((request) =>
      state.isDown
        ? failWith(request, 503, { type: 'api_error', message: 'The service is down for maintenance.' })
        : answerWith(request, { text, input: 400, output: 60 }, { first: 5, gap: 2 }),
    ),
    startUpstream((request) =>
      request.model === 'limited'
        ? failWith(request, 429, { type: 'rate_limit_error', message: 'Slow down.' }, { 'retry-after': '120' })
        : request.model === 'held'
          ? { do: 'answer', after: HOLD, body: {} }
          : answerWith(request, { text, input: 400, output: 60 }, { first: 40, gap: 10 }),
    ),
  ])
  const [openai, groq, anthropic] = upstreams.map(({ url }) => `${url}/v1`)
  const file = fileOf({
    providers: {
      openai: {
        kind: 'openai',
        baseUrl: openai ?? '',
        models: ['gpt-5'],
        keys: ['sk-openai-one-0123456789', 'sk-openai-two-0123456789'],
      },
      groq: { kind: 'groq', baseUrl: groq ?? '', models: ['llama-3.3-70b'] },
      anthropic: { baseUrl: anthropic ?? '', models: ['claude-sonnet', 'limited', 'held'] },
    },
    routes: { 'chat-default': { targets: ['groq/llama-3.3-70b', 'openai/gpt-5'] } },
    circuit: { firstProbe: 0, resetTimeout: 300_000 },
  })
  const closed = () => Promise.all(upstreams.map((one) => one.close()))
  // Budgets that a test creates would require keys.
  const gateway = await start({ env: { AUTH_REQUIRED: 'false', ...env }, files: { 'headgate.yaml': file } }).catch(
    async (error) => {
      await closed()
      throw error
    },
  )
  const ask = async (model: string, body: object = {}) => {
    const answer = await post(`${gateway.base}/chat/completions`, {
      model,
      messages: [{ role: 'user', content: 'What are server-sent events?' }],
      ...body,
    })
    return {
      status: answer.status,
      id: answer.headers.get('x-request-id') ?? '',
      by: answer.headers.get('x-headgate-provider') ?? '',
    }
  }
  return {
    gateway,
    state,
    ask,
    async trouble() {
      for (const model of ['openai/gpt-5', 'anthropic/claude-sonnet', 'chat-default', 'chat-default'])
        for (let n = 0; n < 4; n++) await ask(model, { stream: n > 0 })
      state.isDown = true
      for (let n = 0; n < 12; n++) await ask('chat-default')
      await ask('anthropic/limited')
    },
    async stop() {
      await gateway.stop()
      await closed()
    },
  }
}
