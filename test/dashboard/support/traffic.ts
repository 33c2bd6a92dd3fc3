/** A gateway with two scripted providers, whose requests have every result: answered, fell back, refused, failed, broken off. */

import { type Started, start } from '../../e2e/support/process.ts'
import { answerWith, failWith, piecesOf } from '../../support/answers.ts'
import { startUpstream, type Upstream } from '../../support/upstream.ts'

export type Traffic = {
  readonly gateway: Started
  readonly openai: Upstream
  readonly anthropic: Upstream
  /** Sends a chat request; resolves to its ID. */
  readonly ask: (model: string, options?: AskOptions) => Promise<string>
  /** Requests with every result. */
  readonly mixed: () => Promise<void>
  readonly close: () => Promise<void>
}

export type AskOptions = {
  readonly stream?: boolean
  readonly text?: string
  readonly headers?: Readonly<Record<string, string>>
}

const FILE = `
routes:
  chat-default:
    targets: [anthropic/claude-sonnet, openai/gpt-5-mini]
`

/** Text that a page must never treat as markup, in any language. */
export const HOSTILE = `<img src=x onerror="alert(1)"></script><script>alert(2)</script>\u202eevil\u202c "'&amp;`

export const startTraffic = async (env: Readonly<Record<string, string>> = {}): Promise<Traffic> => {
  let answers = 0
  const openai = await startUpstream((request) => {
    const asked = JSON.stringify(request.json)
    if (asked.includes('break the stream'))
      return {
        do: 'stream',
        pieces: piecesOf(request, { text: 'It begins well and then' }).slice(0, 2),
        gap: 20,
        ending: 'reset',
      }
    if (asked.includes('fail everywhere'))
      return failWith(request, 500, { type: 'server_error', message: 'Out of order' })
    if (asked.includes('bad request'))
      return failWith(request, 400, { type: 'invalid_request_error', message: `No such thing: ${HOSTILE}` })
    return answerWith(
      request,
      {
        text: asked.includes('count the answers')
          ? `This is answer ${++answers} of the same model.`
          : 'Server-sent events are one stream of text lines from the server to the client.',
        input: 38_000,
        output: 402,
      },
      { first: 40, gap: 15 },
    )
  })
  const anthropic = await startUpstream((request) =>
    failWith(request, 503, { type: 'overloaded_error', message: `Overloaded: ${HOSTILE}` }),
  )
  const gateway = await start({
    env: {
      OPENAI_API_KEY: 'sk-test-0123456789',
      OPENAI_BASE_URL: `${openai.url}/v1`,
      OPENAI_MODELS: 'gpt-5-mini',
      ANTHROPIC_API_KEY: 'sk-ant-test-0123456789',
      ANTHROPIC_BASE_URL: anthropic.url,
      ANTHROPIC_MODELS: 'claude-sonnet',
      PROVIDERS: 'openai,anthropic',
      UNKNOWN_MODEL: 'reject',
      // The failing provider is tried for each request.
      CIRCUIT_CONSECUTIVE_FAILURES: '0',
      CIRCUIT_MIN_REQUESTS: '1000000',
      BODIES_SAMPLE: '1',
      ...env,
    },
    files: { 'headgate.yaml': FILE },
  })
  const ask = async (model: string, { stream = false, text = 'Explain SSE', headers = {} }: AskOptions = {}) => {
    const body = { model, stream, messages: [{ role: 'user', content: text }] }
    // A stream that breaks rejects: that is its purpose.
    const response = await fetch(`${gateway.base}/chat/completions`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', ...headers },
      body: JSON.stringify(body),
    })
    await response.arrayBuffer().catch(() => {})
    return response.headers.get('x-request-id') ?? ''
  }
  return {
    gateway,
    openai,
    anthropic,
    ask,
    async mixed() {
      await ask('openai/gpt-5-mini', { stream: true })
      await ask('openai/gpt-5-mini')
      await ask('chat-default', { stream: true })
      await ask('chat-default')
      await ask('gpt-5o')
      await ask('chat-default', { text: 'fail everywhere' })
      await ask('openai/gpt-5-mini', { stream: true, text: 'break the stream' })
      await ask('openai/gpt-5-mini', { text: 'bad request' })
    },
    async close() {
      await gateway.stop()
      await Promise.all([openai.close(), anthropic.close()])
    },
  }
}
