/** What a user pastes to point a client at this gateway: lines for a shell, and SDKs beside the table of the API. Pure. */
import { STYLE_PATHS } from '../../../src/core/request-styles.ts'
import type { AnswerStyle } from '../../../src/core/shown-answer.ts'

export const SHELLS = ['sh', 'fish', 'powershell'] as const
export type Shell = (typeof SHELLS)[number]

/** A variable with its value. */
export type Variable = readonly [name: string, value: string]

/** What lines and programs contain. `url`: without /v1. */
export type Address = { readonly url: string; readonly key: string; readonly model: string }

/** A text as one word of a shell. */
export const quoted = (shell: Shell, text: string): string => {
  if (shell === 'powershell') return `'${text.replaceAll("'", "''")}'`
  if (/^[\w.:/@%+=-]+$/.test(text)) return text
  if (shell === 'fish') return `'${text.replaceAll('\\', '\\\\').replaceAll("'", "\\'")}'`
  return `'${text.replaceAll("'", "'\\''")}'`
}

/** A line that sets a variable until the shell ends. */
export const variableLine = (shell: Shell, [name, value]: Variable): string => {
  const word = quoted(shell, value)
  if (shell === 'powershell') return `$env:${name} = ${word}`
  return shell === 'fish' ? `set -gx ${name} ${word}` : `export ${name}=${word}`
}

type TestStyle = AnswerStyle | 'gemini'

const TEST_BODIES = {
  chat: { messages: [{ role: 'user', content: 'Hello' }] },
  responses: { input: 'Hello' },
  messages: { max_tokens: 64, messages: [{ role: 'user', content: 'Hello' }] },
  gemini: { contents: [{ role: 'user', parts: [{ text: 'Hello' }] }] },
} as const satisfies { readonly [style in TestStyle]: object }

/** A command that calls the gateway as a client of this style would. */
export const testLine = (shell: Shell, style: TestStyle, { url, key, model }: Address): string => {
  const path = `/v1${STYLE_PATHS[style].replace('{model}', encodeURIComponent(model))}`
  const text = quoted(shell, JSON.stringify({ model, ...TEST_BODIES[style] }))
  if (shell === 'powershell')
    return `Invoke-RestMethod ${quoted(shell, url + path)} -Method Post -ContentType 'application/json' -Headers @{ authorization = ${quoted(shell, `Bearer ${key}`)} } -Body ${text}`
  return `curl ${quoted(shell, url + path)} -H 'content-type: application/json' -H ${quoted(shell, `authorization: Bearer ${key}`)} -d ${text}`
}

const unquoted = (text: string): string => (/^'[\s\S]*'$/.test(text) ? text.slice(1, -1) : text)

/** The variables in the fragment of a client: lines of variables, or the member `env` of a JSON file. */
export const variablesIn = (format: string, fragment: string): readonly Variable[] => {
  if (format === 'env')
    return fragment.split('\n').flatMap((line): Variable[] => {
      const at = line.indexOf('=')
      return at < 1 ? [] : [[line.slice(0, at), unquoted(line.slice(at + 1))]]
    })
  if (format !== 'json') return []
  const { env }: { readonly env?: unknown } = JSON.parse(fragment)
  if (typeof env !== 'object' || env === null) return []
  return Object.entries(env).map(([name, value]): Variable => [name, String(value)])
}

/** An SDK or a command: it has variables and a program, and no file that `headgate connect` could write. */
export type SdkRow = {
  readonly name: string
  readonly title: string
  readonly style: AnswerStyle
  readonly variables: (address: Address) => readonly Variable[]
  /** A whole program; null: the test line is one. */
  readonly program: ((address: Address) => string) | null
}

export const SDKS: readonly SdkRow[] = [
  {
    name: 'openai-sdk',
    title: 'OpenAI SDK',
    style: 'chat',
    variables: ({ url, key }) => [
      ['OPENAI_BASE_URL', `${url}/v1`],
      ['OPENAI_API_KEY', key],
    ],
    program: ({ model }) => `import OpenAI from 'openai'

// Reads OPENAI_BASE_URL and OPENAI_API_KEY.
const openai = new OpenAI()
const { choices } = await openai.chat.completions.create({
  model: ${JSON.stringify(model)},
  messages: [{ role: 'user', content: 'Hello' }],
})
console.log(choices[0].message.content)`,
  },
  {
    name: 'anthropic-sdk',
    title: 'Anthropic SDK',
    style: 'messages',
    variables: ({ url, key }) => [
      ['ANTHROPIC_BASE_URL', url],
      ['ANTHROPIC_API_KEY', key],
    ],
    program: ({ model }) => `import Anthropic from '@anthropic-ai/sdk'

// Reads ANTHROPIC_BASE_URL and ANTHROPIC_API_KEY.
const anthropic = new Anthropic()
const { content } = await anthropic.messages.create({
  model: ${JSON.stringify(model)},
  max_tokens: 1024,
  messages: [{ role: 'user', content: 'Hello' }],
})
console.log(content)`,
  },
  {
    name: 'ai-sdk',
    title: 'AI SDK',
    style: 'chat',
    variables: () => [],
    program: ({ url, key, model }) => `import { createOpenAICompatible } from '@ai-sdk/openai-compatible'
import { generateText } from 'ai'

const headgate = createOpenAICompatible({
  name: 'headgate',
  baseURL: ${JSON.stringify(`${url}/v1`)},
  apiKey: ${JSON.stringify(key)},
})
const { text } = await generateText({ model: headgate(${JSON.stringify(model)}), prompt: 'Hello' })
console.log(text)`,
  },
  { name: 'curl', title: 'curl', style: 'chat', variables: () => [], program: null },
]

/** How the gateway recognises the requests of a client, by its User-Agent; several clients use an SDK's. */
const FAMILIES: { readonly [client: string]: readonly string[] } = {
  claude: ['claude-code'],
  opencode: ['opencode', 'ai-sdk'],
  cline: ['cline', 'openai-sdk'],
  continue: ['continue', 'openai-sdk', 'node'],
  aider: ['aider', 'litellm', 'openai-sdk'],
  qwen: ['qwen-code', 'openai-sdk'],
  'open-webui': ['python', 'other'],
  n8n: ['n8n', 'langchain', 'openai-sdk'],
}

/** Whether requests of this family may come from a client. */
export const isFrom = (client: string, family: string): boolean => (FAMILIES[client] ?? [client]).includes(family)
