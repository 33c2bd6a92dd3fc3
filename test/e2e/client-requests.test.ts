/**
 * Recorded requests of real clients, replayed over sockets to an upstream of each format. Each gets an answer (never a
 * 5xx), the upstream request satisfies its vendor's schema, and every lost member is named. That no other member is
 * lost is tested without sockets in conformance/requests.test.ts.
 */
import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import { type Json, list, object, parseJson, text } from '../../src/core/json.ts'
import { pathExists } from '../conformance/request-members.ts'
import { clientRequests, requireRecordings, skipWithoutRecordings } from '../support/recordings.ts'
import { problemsOf } from '../support/schemas.ts'
import { ALL_FORMATS, type Format, type Formats, PROVIDERS, startFormats, TEXT } from './support/formats.ts'
import { post } from './support/process.ts'

let formats: Formats
before(async () => {
  formats = await startFormats()
})
after(() => formats?.stop())

const PUBLISHED = {
  chat: ['openai', 'CreateChatCompletionRequest'],
  responses: ['openai', 'CreateResponse'],
  messages: ['anthropic', 'BetaCreateMessageParams'],
  gemini: ['gemini', 'GenerateContentRequest'],
} as const

/** Calls of a text-generation model; the others have tests of their own. */
const STYLES: { readonly [path: string]: string } = {
  '/v1/chat/completions': 'chat',
  '/v1/responses': 'responses',
  '/v1/messages': 'messages',
}

requireRecordings()

const recorded = clientRequests()

describe('recorded client requests', { skip: skipWithoutRecordings }, () => {
  for (const format of ALL_FORMATS)
    for (const { name, path, body } of recorded)
      test(`${name} (${path}) over ${format}`, async () => {
        const before = formats.calls(format)
        const answer = await post(`${formats.gateway.url}${path}`, { ...body, model: `${PROVIDERS[format]}/text` })
        assert.ok(answer.status < 500, `${answer.status} ${answer.text}`)
        const style = STYLES[path]
        if (!style) return
        assert.equal(answer.status, 200, answer.text)
        assert.equal(answer.headers.get('x-headgate-provider'), PROVIDERS[format])
        assert.equal(textOf(answer.text, body.stream === true), TEXT)
        for (const at of dropped(answer.headers)) assert.ok(pathExists(body, at), `${at} is not in the request`)
        const sent = formats.last(format)
        assert.equal(formats.calls(format), before + 1)
        if (problemIn(style as Format, body) === undefined) assert.equal(problemIn(format, sent.json), undefined)
        if (style === format) assert.deepEqual(dropped(answer.headers), [])
      })
})

const problemIn = (format: Format, body: unknown): string | undefined => {
  const [schema, definition] = PUBLISHED[format]
  return problemsOf(schema, definition, body)
}

const dropped = (headers: Headers): string[] =>
  (headers.get('x-headgate-dropped') ?? '').split(', ').filter((path) => path !== '' && !path.startsWith('...'))

/** The text of an answer of any style, assembled from a stream. */
const textOf = (body: string, stream: boolean): string => {
  const values = stream
    ? [...body.matchAll(/^data: (\{.*)$/gm)].map(([, data = '']) => parseJson(data))
    : [parseJson(body)]
  return values.map((value) => textIn(value)).join('')
}

const textIn = (value: unknown): string => {
  const one = object(value) ?? {}
  const parts = (content: Json | undefined) => list(content).map((part) => text(object(part)?.text) ?? '')
  if (one.type === 'response.output_text.delta') return text(one.delta) ?? ''
  if (one.type === 'content_block_delta') return text(object(one.delta)?.text) ?? ''
  if (one.object === 'response')
    return list(one.output)
      .flatMap((item) => parts(object(item)?.content))
      .join('')
  if (one.type === 'message') return parts(one.content).join('')
  return list(one.choices)
    .map((choice) => text(object(object(choice)?.delta ?? object(choice)?.message)?.content) ?? '')
    .join('')
}
