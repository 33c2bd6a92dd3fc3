/** Media in a part of the wrong kind, or with a label that its bytes contradict. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { gatewayHarness, instance, respondWith } from '../../../test/support/gateway.ts'
import type { ClientProtocolName, UpstreamProtocolName } from '../../core/chat.ts'
import { type JsonObject, list, object } from '../../core/json.ts'
import type { Provider } from '../../core/provider.ts'
import openai from '../../providers/openai.ts'

const PDF = 'JVBERi0xLjQKMSAwIG9iajw8Pj5lbmRvYmoKdHJhaWxlcjw8Pj4KJSVFT0Y='
const PNG = 'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=='
const WAV = 'UklGRiQAAABXQVZFZm10IBAAAAABAAEA'
const TEXT = 'aGVsbG8='

/** The body that the upstream receives. */
const sentTo = async (
  upstream: UpstreamProtocolName,
  style: ClientProtocolName,
  body: object,
  more: Partial<Provider> = {},
): Promise<JsonObject> => {
  const { send, world } = gatewayHarness(
    [instance('a', ['k1'], { speaks: [{ protocol: upstream }], ...more })],
    (asked) => respondWith.error(asked, 401),
  )
  const reply = send(body, style)
  await world.advance(5_000)
  assert.ok(world.calls.length > 0, reply.text)
  return JSON.parse(world.calls.at(-1)?.body ?? 'null')
}

type Part = { readonly mediaType: string; readonly data: string }
const url = ({ mediaType, data }: Part) => `data:${mediaType};base64,${data}`

/** A request with the media in an image part, by client style; the second has it in a tool result. */
const requests: {
  readonly [style in 'openai-chat' | 'openai-responses' | 'anthropic-messages']: readonly ((media: Part) => object)[]
} = {
  'openai-chat': [
    (media) => ({
      model: 'a/m',
      messages: [
        {
          role: 'user',
          content: [
            { type: 'text', text: 'read' },
            { type: 'image_url', image_url: { url: url(media) } },
          ],
        },
      ],
    }),
  ],
  'openai-responses': [
    (media) => ({
      model: 'a/m',
      input: [
        {
          role: 'user',
          content: [
            { type: 'input_text', text: 'read' },
            { type: 'input_image', image_url: url(media), detail: 'auto' },
          ],
        },
      ],
    }),
    (media) => ({
      model: 'a/m',
      input: [
        { role: 'user', content: 'read' },
        { type: 'function_call', call_id: 'toolu_1', name: 'f', arguments: '{}' },
        { type: 'function_call_output', call_id: 'toolu_1', output: [{ type: 'input_image', image_url: url(media) }] },
      ],
    }),
  ],
  'anthropic-messages': [
    ({ mediaType, data }) => ({
      model: 'a/m',
      max_tokens: 9,
      messages: [
        {
          role: 'user',
          content: [
            { type: 'text', text: 'read' },
            { type: 'image', source: { type: 'base64', media_type: mediaType, data } },
          ],
        },
      ],
    }),
    ({ mediaType, data }) => ({
      model: 'a/m',
      max_tokens: 9,
      messages: [
        { role: 'user', content: 'read' },
        { role: 'assistant', content: [{ type: 'tool_use', id: 'toolu_1', name: 'f', input: {} }] },
        {
          role: 'user',
          content: [
            {
              type: 'tool_result',
              tool_use_id: 'toolu_1',
              content: [{ type: 'image', source: { type: 'base64', media_type: mediaType, data } }],
            },
          ],
        },
      ],
    }),
  ],
}

/** What each upstream receives, as a distinctive part of its body. */
const asPdf: { readonly [upstream in UpstreamProtocolName]?: string } = {
  'anthropic-messages': `{"type":"document","source":{"type":"base64","media_type":"application/pdf","data":"${PDF}"}}`,
  'bedrock-converse': `{"document":{"format":"pdf","name":"Document","source":{"bytes":"${PDF}"}}}`,
  'openai-responses': `{"type":"input_file","filename":"file.pdf","file_data":"data:application/pdf;base64,${PDF}"}`,
  'openai-chat': `{"type":"file","file":{"filename":"file.pdf","file_data":"data:application/pdf;base64,${PDF}"}}`,
  gemini: `{"inlineData":{"mimeType":"application/pdf","data":"${PDF}"}}`,
}
const sorted = (value: unknown): unknown =>
  Array.isArray(value)
    ? value.map(sorted)
    : typeof value === 'object' && value !== null
      ? Object.fromEntries(
          Object.entries(value)
            .sort()
            .map(([name, inner]) => [name, sorted(inner)]),
        )
      : value
const canonical = (value: unknown): string => JSON.stringify(sorted(value))

// genkit-ai/genkit-dart#352, BerriAI/litellm#39977, expectedparrot/edsl#2057
for (const [style, bodies] of Object.entries(requests) as [keyof typeof requests, (typeof requests)['openai-chat']][])
  for (const [upstream, expected] of Object.entries(asPdf) as [UpstreamProtocolName, string][])
    for (const [index, bodyOf] of bodies.entries())
      for (const mediaType of ['application/pdf', 'image/png']) {
        if (style === upstream && style === 'openai-chat') continue
        test(`${style} to ${upstream}, request ${index}: a PDF in an image part, labelled ${mediaType}, is a file`, async () => {
          const sent = await sentTo(upstream, style, bodyOf({ mediaType, data: PDF }))
          assert.ok(canonical(sent).includes(canonical(JSON.parse(expected))), JSON.stringify(sent))
        })
      }

test('chat to chat: a PDF in an image part is a file at OpenAI, and stays as it is elsewhere', async () => {
  const body = requests['openai-chat'][0]?.({ mediaType: 'application/pdf', data: PDF }) ?? {}
  const own = await sentTo('openai-chat', 'openai-chat', body, { speaks: openai.speaks.slice(0, 1) })
  assert.ok(canonical(own).includes(canonical(JSON.parse(asPdf['openai-chat'] ?? ''))), JSON.stringify(own))
  const other = await sentTo('openai-chat', 'openai-chat', body)
  assert.deepEqual(other.messages, (body as JsonObject).messages)
})

// vybestack/llxprt-code#2130: "The image was specified using the image/jpeg media type, but the image appears to be a
// image/png image"
for (const [style, bodies] of Object.entries(requests) as [keyof typeof requests, (typeof requests)['openai-chat']][])
  for (const [index, bodyOf] of bodies.entries())
    test(`${style}, request ${index}: an image gets the media type of its bytes`, async () => {
      const media = { mediaType: 'image/jpeg', data: PNG }
      const claude = JSON.stringify(await sentTo('anthropic-messages', style, bodyOf(media)))
      assert.match(claude, /"media_type":"image\/png"/)
      assert.match(JSON.stringify(await sentTo('bedrock-converse', style, bodyOf(media))), /"format":"png"/)
      assert.match(JSON.stringify(await sentTo('gemini', style, bodyOf(media))), /"mimeType":"image\/png"/)
    })

test('a text in an image part is text, audio is audio, and an image in a file part is an image', async () => {
  const [ask] = requests['openai-chat']
  const text = await sentTo('anthropic-messages', 'openai-chat', ask?.({ mediaType: 'text/plain', data: TEXT }) ?? {})
  assert.match(
    JSON.stringify(text),
    /"type":"document","source":\{"type":"text","media_type":"text\/plain","data":"hello"/,
  )
  const audio = await sentTo('gemini', 'openai-chat', ask?.({ mediaType: 'image/png', data: WAV }) ?? {})
  assert.match(JSON.stringify(audio), /"mimeType":"audio\/wav"/)
  const body = {
    model: 'a/m',
    input: [
      {
        role: 'user',
        content: [
          { type: 'input_file', filename: 'a.pdf', file_data: url({ mediaType: 'application/pdf', data: PNG }) },
        ],
      },
    ],
  }
  const image = await sentTo('openai-chat', 'openai-responses', body)
  const [message] = list(image.messages)
  assert.equal(object(list(object(message)?.content)[0])?.type, 'image_url')
})
