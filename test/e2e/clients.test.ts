/**
 * Client libraries over an upstream of every format: an answer, a stream, a turn with tools and results, an object by a
 * schema, and errors as the client's own classes. To add a client, add a file to clients/ and a line below.
 */
import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import { inspect } from 'node:util'
import { aiSdkClients } from './clients/ai-sdk.ts'
import { cloudClients } from './clients/anthropic-clouds.ts'
import type { Call, Client } from './clients/client.ts'
import { googleClients } from './clients/google.ts'
import { langchainClients } from './clients/langchain.ts'
import { skipSdks } from './clients/sdks.ts'
import {
  ALL_FORMATS,
  CALLS,
  CITY,
  type Format,
  type Formats,
  PROVIDERS,
  startFormats,
  TEXT,
} from './support/formats.ts'

const clientsAt = (url: string): readonly Client[] => [
  ...aiSdkClients(`${url}/v1`),
  ...langchainClients(`${url}/v1`),
  ...googleClients(url),
  ...cloudClients(url),
]

let formats: Formats
let clients: readonly Client[]
before(async () => {
  formats = await startFormats()
  clients = clientsAt(formats.gateway.url)
})
after(() => formats?.stop())

const EXPECTED = CALLS.map((call) => ({ ...call, arguments: JSON.parse(call.arguments) }))
const resultOf = ({ id }: Call) => `weather of ${id}`

/** The error of a run. */
const thrownBy = async (run: () => Promise<unknown>): Promise<unknown> => {
  try {
    await run()
  } catch (error) {
    return error
  }
  assert.fail('no error was thrown')
}

type Case = (client: Client, modelOf: (model: string) => string, format: Format) => Promise<void>

const CASES: { readonly [name: string]: Case } = {
  'an answer': async (client, modelOf, format) => {
    const { text, tokens } = await client.plain(modelOf('text'))
    assert.equal(text, TEXT)
    assert.deepEqual(tokens, [21, 7])
    assert.match(JSON.stringify(formats.last(format).json), /Be brief\./)
    const line = await formats.gateway.line(
      ({ event, style, provider }) => event === 'request' && style === client.style && provider === PROVIDERS[format],
    )
    assert.equal(line.status, 200)
  },
  'a stream': async (client, modelOf) => {
    const pieces: string[] = []
    await client.stream(modelOf('text'), (piece) => pieces.push(piece))
    assert.equal(pieces.join(''), TEXT)
    assert.ok(pieces.filter(Boolean).length > 1)
  },
  'a turn with tools': (client, modelOf, format) => toolTurn(client, modelOf, format, false),
  'a streamed turn with tools': (client, modelOf, format) => toolTurn(client, modelOf, format, true),
  'an object by a schema': async (client, modelOf, format) => {
    assert.deepEqual(await client.structured(modelOf('json')), CITY)
    assert.match(JSON.stringify(formats.last(format).json), /"rivers"/)
  },
  'an invalid request': async (client, modelOf) => {
    const problem = client.problem(await thrownBy(() => client.plain(modelOf('bad'))))
    assert.equal(problem?.status, 400)
    assert.match(problem.message, /The temperature is too high for this\./)
  },
  'an invalid streaming request': async (client, modelOf) => {
    const problem = client.problem(await thrownBy(() => client.stream(modelOf('bad'), () => {})))
    assert.equal(problem?.status, 400)
    assert.match(problem.message, /The temperature is too high for this\./)
  },
  'a rate limit': async (client, modelOf) => {
    const problem = client.problem(await thrownBy(() => client.plain(modelOf('limited'))))
    assert.equal(problem?.status, 429)
    assert.match(problem.message, /limit/)
  },
  'an upstream that fails': async (client, modelOf) => {
    const problem = client.problem(await thrownBy(() => client.plain(modelOf('down'))))
    assert.equal(problem?.status, 502)
    assert.match(problem.message, /It broke\./)
  },
  'a stream that breaks off': async (client, modelOf) => {
    let text = ''
    const error = await thrownBy(() =>
      client.stream(modelOf('breaks'), (piece) => {
        text += piece
      }),
    )
    assert.ok(text.length > 0 && TEXT.repeat(3).startsWith(text), text)
    // Not every client has a class for errors in mid-stream; all of them include the message.
    assert.match(inspect(error), /The connection was closed before the end of the response/)
  },
}

const toolTurn = async (client: Client, modelOf: (model: string) => string, format: Format, stream: boolean) => {
  const turn = { stream, calls: modelOf('both'), answers: modelOf('text'), resultOf }
  const { calls, text } = await client.tools(turn)
  assert.deepEqual(calls, EXPECTED)
  assert.equal(text, TEXT)
  const sent = JSON.stringify(formats.last(format).json)
  for (const call of calls) assert.ok(sent.includes(resultOf(call)), `the result of ${call.id} was not sent`)
}

test('the SDKs of Google and of the clouds are installed', { skip: skipSdks }, () => assert.ok(clients.length > 10))

// The table exists before the address of a gateway is known.
for (const [number, { name }] of clientsAt('http://127.0.0.1:9').entries())
  for (const format of ALL_FORMATS)
    describe(`${name} over ${format}`, () => {
      for (const [what, run] of Object.entries(CASES))
        test(what, async () => {
          const client = clients[number]
          assert.ok(client)
          await run(client, (model) => `${PROVIDERS[format]}/${model}`, format)
        })
    })
