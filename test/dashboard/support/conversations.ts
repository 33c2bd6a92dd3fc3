/** Conversations whose bodies the gateway keeps: with Markdown, tools and a picture, in three API styles. */
import type { AnswerContent } from '../../support/answers.ts'

/** A picture of 1 × 1 pixel. */
const PICTURE = 'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=='

/** What the customer complains about. */
export const COMPLAINT = 'My refund for order 4711 was declined, although it arrived broken'

const TOOLS = {
  chat: [
    {
      type: 'function',
      function: {
        name: 'find_order',
        description: 'Finds an order by its number.',
        parameters: { type: 'object', properties: { number: { type: 'integer' } }, required: ['number'] },
      },
    },
  ],
  messages: [
    {
      name: 'find_order',
      description: 'Finds an order by its number.',
      input_schema: { type: 'object', properties: { number: { type: 'integer' } }, required: ['number'] },
    },
  ],
} as const

export const CONVERSATIONS: readonly { readonly path: string; readonly body: object }[] = [
  {
    path: '/chat/completions',
    body: {
      model: 'smart',
      user: 'customer-0042',
      messages: [
        { role: 'system', content: 'You are the support assistant of a shop. Be brief. Never promise a refund.' },
        { role: 'user', content: `${COMPLAINT}. What can I do?` },
      ],
    },
  },
  {
    path: '/chat/completions',
    body: {
      model: 'openai/gpt-5',
      user: 'customer-0017',
      tools: TOOLS.chat,
      messages: [
        { role: 'user', content: 'Where is order 4712?' },
        {
          role: 'assistant',
          content: null,
          tool_calls: [
            { id: 'call_1', type: 'function', function: { name: 'find_order', arguments: '{"number":4712}' } },
          ],
        },
        { role: 'tool', tool_call_id: 'call_1', content: '{"number":4712,"state":"in transit","carrier":"DHL"}' },
      ],
    },
  },
  {
    path: '/messages',
    body: {
      model: 'claude-sonnet-4-5',
      max_tokens: 400,
      stream: true,
      tools: TOOLS.messages,
      messages: [{ role: 'user', content: 'Please use the tool to find order 4713.' }],
    },
  },
  {
    path: '/chat/completions',
    body: {
      model: 'openai/gpt-5',
      user: 'customer-0009',
      stream: true,
      messages: [
        {
          role: 'user',
          content: [
            { type: 'text', text: 'What is broken in this picture?' },
            { type: 'image_url', image_url: { url: `data:image/png;base64,${PICTURE}` } },
          ],
        },
      ],
    },
  },
  {
    path: '/responses',
    body: {
      model: 'openai/gpt-5-mini',
      instructions: 'Answer in one sentence.',
      input: 'How long is the warranty of a kettle?',
    },
  },
]

const MARKDOWN = `## What you can do

You have **14 days** to return a broken item:

1. Open *Orders* and choose 4711.
2. Press \`Return\`.
3. Attach a picture.

| step | days |
| --- | --- |
| check | 2 |
| refund | 5 |

\`\`\`json
{ "order": 4711, "state": "declined" }
\`\`\`

See [the rules](https://shop.example/returns).`

/** The answer of every provider to a body. */
export const answerTo = (body: string): AnswerContent => {
  if (body.includes('use the tool'))
    return {
      ...{ text: 'I look it up.', input: 412, output: 38 },
      tools: [{ id: 'toolu_1', name: 'find_order', arguments: '{"number":4713}' }],
    }
  if (body.includes('4711')) return { text: MARKDOWN, input: 320, output: 140 }
  if (body.includes('4712')) return { text: 'Order 4712 is **in transit** with DHL.', input: 520, output: 24 }
  return { text: 'The handle is cracked. The warranty lasts two years.', input: 900, output: 60 }
}
