/** A gateway with routes of every kind whose traffic the providers have counted. */
import assert from 'node:assert/strict'
import { type Started, start } from '../../e2e/support/process.ts'
import { answerWith, failWith } from '../../support/answers.ts'
import { startUpstream, type Upstream } from '../../support/upstream.ts'

export const ADMIN = 'hg-admin-token-of-this-test-0123'
export const fileOf = (url: string) => `
fallback: same-model
auth: { admin: ${ADMIN}, required: false }
providers:
  openai: { baseUrl: "${url}/v1", keys: [sk-test-0123456789], models: [gpt-5-mini, gpt-5] }
  groq: { baseUrl: "${url}/v1", keys: [gsk-test-0123456789], models: [llama-3.3-70b-versatile] }
  house: { kind: openai-compatible, baseUrl: "${url}/v1", keys: [k], models: [down] }
teams: { search: {} }
prices: [ { provider: groq, model: "*", perMillion: { input: 0.59, output: 0.79 } } ]
routes:
  split:
    strategy: weighted
    stickiness: off
    targets:
      - { provider: openai, model: gpt-5-mini, weight: 3, when: { inputTokens: { below: 50000 } }, set: { effort: low } }
      - { provider: groq, model: llama-3.3-70b-versatile, weight: 1, timeout: { firstByte: 8000 } }
  chain: { targets: [house/down, openai/gpt-5-mini] }
  fresh: { targets: [openai/gpt-5-mini, groq/llama-3.3-70b-versatile], canary: { target: 1, steps: [20, 100], every: 3600000 } }
`

export type Routed = {
  readonly gateway: Started
  readonly providerUrl: string
  /** Requests that a provider has received for a route and a model. */
  readonly received: (route: string, model: string) => number
  readonly send: (model: string, times: number) => Promise<void>
  readonly api: (method: string, path: string, body?: unknown) => Promise<Response>
  readonly stop: () => Promise<void>
}

export const startRouted = async (): Promise<Routed> => {
  const upstream: Upstream = await startUpstream((call) =>
    call.model === 'down'
      ? failWith(call, 503, { type: 'server_error', message: 'house is down' })
      : call.method === 'GET'
        ? { do: 'answer', status: 404, body: {} }
        : answerWith(call, { text: 'hello', input: 1_000, output: 100 }),
  )
  const gateway = await start({ files: { 'headgate.yaml': fileOf(upstream.url) } })
  const send = async (model: string, times: number) => {
    const ask = async () => {
      const response = await fetch(`${gateway.url}/v1/chat/completions`, {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        // The fake knows the route by the prompt.
        body: JSON.stringify({ model, messages: [{ role: 'user', content: `asked ${model}` }] }),
      })
      await response.arrayBuffer()
      assert.equal(response.status, 200)
    }
    for (let sent = 0; sent < times; sent += 8)
      await Promise.all(Array.from({ length: Math.min(8, times - sent) }, ask))
  }
  return {
    gateway,
    providerUrl: upstream.url,
    send,
    received: (route, model) =>
      upstream.requests.filter((one) => one.model === model && one.body.includes(`asked ${route}`)).length,
    api: (method, path, body) =>
      fetch(`${gateway.url}/admin/api/v1${path}`, {
        method,
        headers: { authorization: `Bearer ${ADMIN}`, 'content-type': 'application/json' },
        ...(body !== undefined && { body: JSON.stringify(body) }),
      }),
    stop: async () => {
      await gateway.stop()
      await upstream.close()
    },
  }
}
